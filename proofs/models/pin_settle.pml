/*
 * pin_settle.pml: commits and decommits of one allocation at once, and a release. What each of them charges or credits is not what it did to the pages, because the
 * others come in between; the last to leave settles the charge.
 *
 * One granule. The plugin answers and acts in one step each; between asking what a commit costs, charging it and mapping it others may come.
 *
 * host/src/record.c   nx_record_pin                     S1 one user more (one compare-and-swap), marked where another one is there
 * host/src/backing.c  charge_ahead, commit_pinned       Q ask what it costs, K charge it, M map it
 *                     decommit_pinned, credit_mapped    D take it away, R credit what was said, never more than is charged
 *                     nx_backing_unpin                  L leave, or take the mark away (one compare-and-swap)
 *                     settle_committed                  A ask what is mapped, T settle where still alone
 * host/src/record.c   nx_record_claim_at                R2 claim for a release: nobody is a user
 *
 * Property: whoever claims the allocation finds it charged with exactly what is mapped.
 *
 * Broken on purpose, each refuted by the assertion that is named beside it:
 *   WITHOUT_SETTLE: init: charge == mapped
 *   WITHOUT_MARK: init: charge == mapped
 *   LEAVE_FIRST: init: charge == mapped
 *   CLAIM_BESIDE_USERS: releaser: charge == mapped
 */
byte pins = 0;
bool met = false;
bool live = true;
bool mapped = false;
byte charge = 0;

inline pin() {
  atomic {                 /* S1 */
    live ->
#ifndef WITHOUT_MARK
    if
    :: pins > 0 -> met = true
    :: else -> skip
    fi;
#endif
    pins++
  }
}

inline leave() {
  do
  :: atomic {              /* L: the last one finds the mark */
       pins == 1 && met -> met = false;
#ifdef LEAVE_FIRST
       pins--
#endif
     };
#ifndef WITHOUT_SETTLE
     answer = mapped;      /* A */
     atomic {              /* T */
       if
#ifdef LEAVE_FIRST
       :: live && !met -> charge = answer
#else
       :: pins == 1 && !met -> charge = answer
#endif
       :: else -> skip
       fi
     };
#endif
#ifdef LEAVE_FIRST
     break
#endif
  :: atomic {
       !(pins == 1 && met) -> pins--;
       if
       :: pins == 0 -> met = false
       :: else -> skip
       fi
     };
     break
  od
}

proctype committer() {
  byte cost;
  byte answer;
  pin();
  cost = 1 - mapped;       /* Q */
  charge = charge + cost;  /* K */
  mapped = true;           /* M */
  leave();
  cost = 0;
  answer = 0
}

proctype decommitter() {
  byte said;
  byte answer;
  pin();
  atomic {                 /* D */
    said = mapped;
    mapped = false
  };
  atomic {                 /* R */
    if
    :: said > charge -> charge = 0
    :: else -> charge = charge - said
    fi
  };
  leave();
  said = 0;
  answer = 0
}

/* At any moment, and once only: a release that fails gives the allocation back as it was. */
proctype releaser() {
  atomic {                 /* R2 */
#ifdef CLAIM_BESIDE_USERS
    live -> live = false;
#else
    live && pins == 0 -> live = false;
#endif
    assert(charge == mapped)
  };
  live = true
}

init {
  atomic {
    run committer();
    run committer();
    run decommitter();
    run releaser()
  };
  (_nr_pr == 1);
  assert(pins == 0 && !met);
  assert(charge == mapped)
}
