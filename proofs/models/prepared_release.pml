/*
 * prepared_release.pml: releases that own their allocation, prepared and executed or abandoned, against the loss of their device, its confirmation and the removal.
 *
 * Two allocations: the first is live and two threads release it; the second is being made. A mechanism's word has its lifecycle. A call counts itself in before it
 * looks at the lifecycle; whoever confirms a loss looks at the count after it.
 *
 * host/src/registry_bound.c      make, make_inside          N1 count in, N2 look, N3 the plugin's allocate, N4 show it live
 *                                look_again                 N5 look again
 *                                nx_bound_keep              N6 retain it (one compare-and-swap)
 * host/src/registry_owning.c     nx_owned_claim             P1 take the live record (one compare-and-swap)
 *                                nx_prepared_execute        E1 take the prepared release (one compare-and-swap)
 *                                nx_owned_give_back         E2 count in, E3 look, E4 the plugin's release, E5 look again, E6 settle
 *                                nx_prepared_keep           A1 take it to abandon it (one compare-and-swap), A2 settle
 *                                nx_owned_keep_all          L2 retain each live record (one compare-and-swap)
 * host/src/registry_end.c        lose                       L1 the lifecycle turns DEVICE_LOST
 *                                nxmem_mechanism_confirm_terminated  C1 confirm: nobody is inside
 * host/src/registry_mechanism.c  remove_claimed             V1 remove: nothing live, nothing prepared
 *
 * Property: each allocation ends once: complete, kept, or retained by the loss; the plugin is asked to release it at most once, never by a call that began after the loss,
 * and not at all once the loss is confirmed; what the loss overtook is kept, without a refund; at the end nothing is counted live or prepared that is not, so that
 * the removal works.
 *
 * Broken on purpose, each refuted by the assertion that is named beside it:
 *   EXECUTE_KEEPS_RECORD: settle: settled[r] == 1
 *   LOSS_SETTLES_PREPARED: init: prepared == (record[0] == PREPARED -> 1 : 0) + (record[1] == PREPARED -> 1 : 0)
 *   LOOK_BEFORE_COUNT: execute: !late && life != TERMINATED && !removed
 *   WITHOUT_SECOND_LOOK: init: record[r] != LIVE
 *   REFUND_AFTER_LOSS: execute: !over || kept
 *   STORE_AT_PREPARE: settle: settled[r] == 1
 *   CONFIRM_UNASKED: execute: !late && life != TERMINATED && !removed
 *   ABANDON_BESIDE_EXECUTE: settle: settled[r] == 1
 *   RETAIN_FIRST: init: record[r] != LIVE
 *   REMOVE_WITH_PREPARED: remove: record[0] != PREPARED && record[0] != TAKEN
 */
mtype = { NOTHING, LIVE, PREPARED, TAKEN, COMPLETE, KEPT };
mtype record[2] = LIVE;
mtype = { ACTIVE, LOST, TERMINATED };
mtype life = ACTIVE;
byte inside = 0;
byte live = 1;
byte prepared = 0;
byte settled[2] = 0;
byte releases[2] = 0;
bool removed = false;
bool lost = false;

inline settle(r, how) {
  settled[r]++;
  assert(settled[r] == 1);
  record[r] = how
}

proctype allocating() {
#ifdef LOOK_BEFORE_COUNT
  if
  :: life == ACTIVE -> inside++
  :: else -> goto done
  fi;
#else
  inside++;                  /* N1 */
  if
  :: life == ACTIVE -> skip  /* N2 */
  :: else -> inside--; goto done
  fi;
#endif
  assert(life != TERMINATED && !removed); /* N3 */
  atomic { live++; record[1] = LIVE }; /* N4 */
#ifndef WITHOUT_SECOND_LOOK
  if
  :: life == ACTIVE -> skip  /* N5 */
  :: else ->
     atomic {                /* N6: unless the loss has it already */
       if
       :: record[1] == LIVE -> live--; settle(1, KEPT)
       :: else -> skip
       fi
     }
  fi;
#endif
  inside--;
done:
  skip
}

inline execute(r) {
  atomic {                   /* E1 */
    if
    :: record[r] == PREPARED ->
#ifndef EXECUTE_KEEPS_RECORD
       record[r] = TAKEN;
#endif
       mine = true
    :: else -> mine = false
    fi
  };
  if
  :: mine ->
     kept = false;
#ifdef LOOK_BEFORE_COUNT
     late = lost;
     kept = (life != ACTIVE);
     inside++;
#else
     atomic { inside++; late = lost }; /* E2 */
     kept = (life != ACTIVE);          /* E3 */
#endif
     if
     :: !kept ->
        assert(!late && life != TERMINATED && !removed);
        releases[r]++;                 /* E4 */
        assert(releases[r] == 1);
        over = lost;
#ifndef REFUND_AFTER_LOSS
        kept = (life != ACTIVE)        /* E5 */
#endif
     :: else -> over = true
     fi;
     inside--;
     assert(!over || kept);            /* no refund for what the loss overtook */
     atomic {                          /* E6 */
       prepared--;
       if
       :: kept -> settle(r, KEPT)
       :: else -> settle(r, COMPLETE)
       fi
     }
  :: else -> skip
  fi
}

/* Whoever prepares may execute, or abandon; a second thread tries the same with the same prepared release. */
proctype releaser(byte r) {
  bool mine = false;
  bool kept;
  bool late;
  bool over;
#ifdef STORE_AT_PREPARE
  if
  :: record[r] == LIVE -> live--; prepared++; record[r] = PREPARED
  :: else -> skip
  fi;
#else
  atomic {                   /* P1 */
    if
    :: record[r] == LIVE -> live--; prepared++; record[r] = PREPARED
    :: else -> skip          /* UNKNOWN_ALLOCATION */
    fi
  };
#endif
  if
  :: true -> execute(r)
  :: true ->
     atomic {                /* A1 */
       if
#ifdef ABANDON_BESIDE_EXECUTE
       :: record[r] == PREPARED || record[r] == TAKEN ->
#else
       :: record[r] == PREPARED ->
#endif
          record[r] = TAKEN; mine = true
       :: else -> mine = false
       fi
     };
     if
     :: mine -> atomic { prepared--; settle(r, KEPT) } /* A2 */
     :: else -> skip
     fi
  fi
}

inline retain(r) {
  atomic {                   /* L2 */
    if
    :: record[r] == LIVE -> live--; settle(r, KEPT)
#ifdef LOSS_SETTLES_PREPARED
    :: record[r] == PREPARED || record[r] == TAKEN -> settle(r, KEPT)
#endif
    :: else -> skip
    fi
  }
}

proctype loser() {
#ifdef RETAIN_FIRST
  retain(0);
  retain(1);
#endif
  atomic { life = LOST; lost = true }; /* L1 */
#ifndef RETAIN_FIRST
  retain(0);
  retain(1)
#endif
}

proctype confirmer() {
  (life == LOST);
#ifdef CONFIRM_UNASKED
  life = TERMINATED
#else
  atomic { inside == 0 -> life = TERMINATED } /* C1 */
#endif
}

/* V1: refused while anything is left; else the allocator's own release, and nothing of the plugin is called behind it. */
inline remove() {
  atomic {
    if
#ifdef REMOVE_WITH_PREPARED
    :: life == TERMINATED && live == 0 && !removed -> removed = true; assert(record[0] != PREPARED && record[0] != TAKEN)
#else
    :: life == TERMINATED && live == 0 && prepared == 0 && !removed -> /* V1 */
       removed = true;
       assert(settled[0] == 1 && (record[1] == NOTHING || settled[1] == 1))
#endif
    :: else -> skip
    fi
  }
}

proctype remover() { remove() }

init {
  record[1] = NOTHING;
  atomic {
    run allocating();
    run releaser(0);
    run releaser(0);
    run releaser(1);
    run loser();
    run confirmer();
    run remover()
  };
  (_nr_pr == 1);
  remove();
  byte r = 0;
  /* A prepared release that nobody executes keeps the mechanism: what nobody took is still PREPARED, and counted. */
  do
  :: r == 2 -> break
  :: else ->
     assert(record[r] != TAKEN);
     assert(record[r] != LIVE);
     assert(settled[r] == (record[r] == COMPLETE || record[r] == KEPT -> 1 : 0));
     r++
  od;
  assert(live == 0);
  assert(prepared == (record[0] == PREPARED -> 1 : 0) + (record[1] == PREPARED -> 1 : 0));
  assert(removed || prepared != 0)
}
