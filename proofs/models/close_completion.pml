/*
 * close_completion.pml: closing an allocator against completions that arrive from a plugin's threads, against an enqueue that has not returned, and against a
 * second closer.
 *
 * A queued release has a record; its allocator has a callback slot that the plugin's thread names by a handle (slot and generation). The slot
 * may serve another allocator only when its allocator is closed and its last queued release has settled. A completion may say that the allocation is live
 * again: never behind the plugin's last release, where nobody could release it any more.
 *
 * host/src/close.c     claim, close_claimed, hold       C1 claim (one compare-and-swap), inside, C2 the mark, then the count of live ones, the plugin's release, C3 give up
 *                                                       the closer's own share of the slot
 * host/src/enqueue.c   begin, ask, stay_queued          Q1 QUEUING, counted inside, Q2 the plugin's enqueue, Q3 QUEUED (one compare-and-swap from QUEUING)
 * host/src/deferred.c  win, may_revive, nx_share_give   P1 win the record (one compare-and-swap from the word that nxmem_judge_completion judged), S1 count it as live, S2
 *                                                       read the mark, P2 give up the record's share of the slot
 * The slot is freed by whoever gives up the last share (one atomic decrement-and-test). A callback that runs holds a share like a record's.
 *
 * Property: each record settles at most once; a completion never reaches a slot that was handed to somebody else; the plugin's release is called once, with
 * nothing live, and nothing becomes live behind it; the slot is freed exactly once, and only when nothing is outstanding; in the end it is free, or the allocator is open.
 *
 * Broken on purpose, each refuted by the assertion that is named beside it:
 *   FREE_AT_CLOSE: completion: freed == 0
 *   SETTLE_TWICE: completion: settled[r] == 1
 *   TEST_AFTER_DECREMENT: free_slot: freed == 1
 *   NO_CLAIM: init: allocator == CLOSED -> (freed == 1 && shares == 0) : (freed == 0 && shares == 1)
 *   STORE_AT_ENQUEUE: completion: settled[r] == 1
 *   MARK_AFTER_COUNT: revive: released == 0
 *   LOOK_BEFORE_LIVE: revive: released == 0
 */
#define RECORDS 2

mtype = { OPEN, CLOSING, CLOSED };
mtype allocator = OPEN;
mtype = { QUEUING, QUEUED, WON, GONE, LIVE, KEPT };
mtype record[RECORDS] = QUEUED; /* the first is QUEUING at the start: its enqueue runs */
/* Q1 is done then: counted, and inside */
/* Q2 is all that happens before the enqueuer's step */
byte settled[RECORDS] = 0;
byte inside = 1;                /* the thread that enqueues */
byte live = 0;
bool mark = false;
byte shares = RECORDS + 1;      /* one for each record, one for the open allocator */
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

inline revive() {
#ifdef LOOK_BEFORE_LIVE
  seen = mark;
  if
  :: seen -> record[r] = KEPT
  :: else -> live++; record[r] = LIVE; assert(released == 0)
  fi
#else
  live++;                  /* S1 */
  seen = mark;             /* S2 */
  if
  :: seen -> live--; record[r] = KEPT
  :: else -> assert(released == 0); record[r] = LIVE
  fi
#endif
}

/* The same ticket may be completed twice: by two threads of the plugin. */
proctype completion(byte r) {
  bool mine = false;
  bool last = false;
  bool seen = false;
#ifdef SETTLE_TWICE
  if
  :: record[r] == QUEUING || record[r] == QUEUED -> record[r] = WON; mine = true
  :: else -> skip
  fi;
#else
  atomic {                 /* P1 */
    if
    :: record[r] == QUEUING || record[r] == QUEUED -> record[r] = WON; mine = true
    :: else -> skip        /* a duplicate: refused, counted, nothing changes */
    fi
  };
#endif
  if
  :: mine ->
     assert(freed == 0);   /* an outstanding record's slot is still its own */
     settled[r]++;
     assert(settled[r] == 1);
     if
     :: record[r] = GONE
     :: revive()
     fi;
     give_up_share()       /* P2 */
  :: else -> skip
  fi
}

/* In the plugin's enqueue, which answers OK in the end; completions may come before that. */
proctype enqueuer() {
#ifdef STORE_AT_ENQUEUE
  if
  :: record[0] == QUEUING -> record[0] = QUEUED
  :: else -> skip
  fi;
#else
  atomic {                 /* Q3 */
    if
    :: record[0] == QUEUING -> record[0] = QUEUED
    :: else -> skip        /* completed before the answer: nothing is left to do */
    fi
  };
#endif
  inside--
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
  if
  :: inside != 0 -> allocator = OPEN; goto busy
  :: else -> skip
  fi;
#ifdef MARK_AFTER_COUNT
  if
  :: live != 0 -> allocator = OPEN; goto busy
  :: else -> mark = true
  fi;
#else
  mark = true;             /* C2 */
  if
  :: live != 0 -> mark = false; allocator = OPEN; goto busy
  :: else -> skip
  fi;
#endif
  assert(live == 0 || record[0] != LIVE && record[1] != LIVE); /* one that was counted and not yet shown finds the mark */
  released++;
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
    record[0] = QUEUING;
    run enqueuer();
    run completion(0);
    run completion(0);
    run completion(1);
    run closer();
    run closer()
  };
  (_nr_pr == 1);
#ifndef FREE_AT_CLOSE
  assert(allocator == CLOSED -> (freed == 1 && shares == 0) : (freed == 0 && shares == 1))
#endif
}
