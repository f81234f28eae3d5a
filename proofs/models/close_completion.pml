/*
 * close_completion.pml: closing an allocator against completions that arrive from a plugin's thread, and against a second closer.
 *
 * A queued release has a record; its allocator has a callback slot that the plugin's thread names by a handle (slot and generation). The slot
 * may serve another allocator only when its allocator is closed and its last queued release has settled.
 *
 * host/src/close.c  claim, close_claimed    C1 claim (one compare-and-swap), C2 the plugin's release, C3 closed: give up the closer's own share of the slot
 * abi, completion.h nxmem_judge_completion  P1 settle the record (one compare-and-swap from the word judged), P2 give up the record's share of the slot
 * The slot is freed by whoever gives up the last share (one atomic decrement-and-test).
 *
 * Property: each record settles at most once; a completion never reaches a slot that was handed to somebody else; the slot is freed exactly once, and only
 * when nothing is outstanding; in the end it is free.
 *
 * Broken on purpose, each refuted: FREE_AT_CLOSE, SETTLE_TWICE, TEST_AFTER_DECREMENT, NO_CLAIM.
 */
#define RECORDS 2

mtype = { OPEN, CLOSING, CLOSED };
mtype allocator = OPEN;
mtype = { QUEUED, SETTLED };
mtype record[RECORDS] = QUEUED;
byte settled[RECORDS] = 0;
byte shares = RECORDS + 1; /* one for each record, one for the open allocator */
byte freed = 0;
byte released = 0;

inline free_slot() {
  freed++;
  assert(freed == 1)
}

inline give_up_share() {
#ifdef TEST_AFTER_DECREMENT
  shares--;
  if
  :: shares == 0 -> free_slot() /* two threads may both see 0 */
  :: else -> skip
  fi
#else
  atomic {
    shares--;
    last = (shares == 0)
  };
  if
  :: last -> free_slot()
  :: else -> skip
  fi
#endif
}

/* The same ticket may be completed twice: by two threads of the plugin. */
proctype completion(byte r) {
  bool mine = false;
  bool last = false;
#ifdef SETTLE_TWICE
  if
  :: record[r] == QUEUED -> record[r] = SETTLED; mine = true
  :: else -> skip
  fi;
#else
  atomic {                 /* P1 */
    if
    :: record[r] == QUEUED -> record[r] = SETTLED; mine = true
    :: else -> skip        /* a duplicate: refused, counted, nothing changes */
    fi
  };
#endif
  if
  :: mine ->
     assert(freed == 0);   /* an outstanding record's slot is still its own */
     settled[r]++;
     assert(settled[r] == 1);
     give_up_share()       /* P2 */
  :: else -> skip
  fi
}

proctype closer() {
  bool last = false;
#ifdef NO_CLAIM
  if
  :: allocator == OPEN -> allocator = CLOSING
  :: else -> goto busy
  fi;
#else
  atomic {                 /* C1 */
    if
    :: allocator == OPEN -> allocator = CLOSING
    :: else -> goto busy
    fi
  };
#endif
  released++;              /* C2 */
  assert(released == 1);
  allocator = CLOSED;      /* C3 */
#ifdef FREE_AT_CLOSE
  free_slot();
#else
  give_up_share();
#endif
busy:
  skip
}

init {
  atomic {
    run completion(0);
    run completion(0);
    run completion(1);
    run closer();
    run closer()
  };
  (_nr_pr == 1);
#ifndef FREE_AT_CLOSE
  assert(freed == 1 && shares == 0)
#endif
}
