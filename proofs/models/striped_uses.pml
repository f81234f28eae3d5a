/*
 * striped_uses.pml: the uses of a binding, counted in parts by plain stores, against its owner who drops it; whoever leaves last ends it.
 *
 * A processor keeps plain stores to itself, in their order, until they are flushed: at any moment, by a barrier that another thread has passed everywhere, or by a compare-and-swap
 * of its own. One thread makes an allocation through the binding, one releases it and comes again with a stale handle, one drops.
 *
 * host/src/objects.c         nx_shares_in                 U1 count in (a store)
 *                            nx_shares_out                U3 count out (a store)
 * host/src/registry_bind.c   nx_binding_use               U1 count in, U2 look at the word: refused, it is counted out
 *                            nx_binding_unuse             U3 count out, U4 look at the word
 *                            end_dropped                  X1 the barrier, X2 the sum of all parts, X3 end it (one compare-and-swap)
 *                            nxmem_binding_end            W1 take it to end it (one compare-and-swap), X1 the barrier, X2 the sum
 *                            drop                         D1 dropped (a store), D2 the barrier, D3 keep what is live
 * host/src/registry_bound.c  make_inside                  N4 show the allocation live (a store)
 *                            look_again                   N5 look at the word again
 *                            nx_bound_keep                N6 keep it (one compare-and-swap)
 *
 * Property: a dropped binding ends once, when nobody uses it and its drop is through; behind the drop no allocation of it is anybody's.
 *
 * Broken on purpose, each refuted by the assertion that is named beside it:
 *   DROP_WITHOUT_BARRIER: releaser: !through
 *   SUM_WITHOUT_BARRIER: init: word == ENDED
 *   WITHOUT_SECOND_LOOK: releaser: !through
 *   LOOK_BEFORE_COUNT: end_dropped: uses == 0 && through
 *   OWN_PART_ONLY: end_dropped: uses == 0 && through
 *   DROP_WITHOUT_USE: end_dropped: uses == 0 && through
 */
#define MAKER 0
#define RELEASER 1
#define DROPPER 2
#define THREADS 3

mtype = { FREE, TAKEN, DROPPED, ENDED };
mtype word = FREE;         /* FREE: live, for everybody */
mtype = { NOTHING, LIVE, CLAIMED, KEPT, GONE };
mtype record = NOTHING;

mtype = { COUNT, SHOW, DROP };
chan stores[THREADS] = [4] of { mtype, short };
short own[THREADS] = 0;    /* each part as its thread has stored it */
short seen[THREADS] = 0;   /* as other threads see it */
byte uses = 0;             /* in truth: those that were let in */
bool given = false;        /* the allocation to whoever asked */
bool refused = false;
bool through = false;      /* the drop has looked at everything */

inline apply(t) {
  stores[t]?what(value);
  if
  :: what == COUNT -> seen[t] = value
  :: what == SHOW -> record = LIVE
  :: what == DROP -> word = DROPPED
  fi
}

inline flush(t) {
  do
  :: nempty(stores[t]) -> apply(t)
  :: empty(stores[t]) -> break
  od
}

inline barrier() {
  atomic { flush(0); flush(1); flush(2) }
}

/* Stores reach the others in the end, in their order. */
proctype flusher(byte t) {
  mtype what;
  short value;
end:
  do
  :: atomic { nempty(stores[t]) -> apply(t) }
  od
}

inline count(t, by) {
  atomic { own[t] = own[t] + by; stores[t]!COUNT(own[t]) }
}

inline end_dropped(t) {
#ifndef SUM_WITHOUT_BARRIER
  barrier();                       /* X1 */
#endif
#ifdef OWN_PART_ONLY
  sum = own[t];
#else
  sum = own[t];                    /* X2 */
  sum = sum + seen[(t + 1) % THREADS];
  sum = sum + seen[(t + 2) % THREADS];
#endif
  if
  :: sum == 0 ->
     atomic {                      /* X3 */
       flush(t);
       if
       :: word == DROPPED -> word = ENDED; assert(uses == 0 && through)
       :: else -> skip
       fi
     }
  :: else -> skip
  fi;
  sum = 0
}

/* One that was let in is no use any more from here on. */
inline unuse(t, was) {
  uses = uses - was;
  count(t, -1);                    /* U3 */
  if
  :: word == DROPPED -> end_dropped(t) /* U4 */
  :: else -> skip
  fi
}

inline use(t) {
#ifdef LOOK_BEFORE_COUNT
  atomic { in = (word == FREE); uses = uses + in };
  count(t, 1);
#else
  count(t, 1);                     /* U1 */
  atomic { in = (word == FREE); uses = uses + in }; /* U2 */
#endif
  if
  :: in -> skip
  :: else -> unuse(t, 0)
  fi
}

proctype maker() {
  mtype what;
  short value;
  short sum;
  bool in;
  bool mine = false;
  use(MAKER);
  if
  :: in ->
     stores[MAKER]!SHOW(0);        /* N4 */
#ifdef WITHOUT_SECOND_LOOK
     given = true;
#else
     if
     :: word == DROPPED ->         /* N5 */
        atomic {                   /* N6 */
          flush(MAKER);
          if
          :: record == LIVE -> record = KEPT; mine = true
          :: else -> skip
          fi
        };
        refused = true
     :: else -> given = true
     fi;
#endif
     if
     :: mine -> unuse(MAKER, 1)
     :: else -> skip
     fi
  :: else -> refused = true
  fi
}

proctype releaser() {
  mtype what;
  short value;
  short sum;
  bool in;
  bool mine = false;
  if
  :: given && record != NOTHING -> /* told by the maker, behind what it has shown */
     atomic {
       flush(RELEASER);
       if
       :: record == LIVE -> assert(!through); record = CLAIMED; mine = true
       :: else -> skip
       fi
     };
     if
     :: mine -> record = GONE; unuse(RELEASER, 1)
     :: else -> skip
     fi
  :: refused -> skip
  fi;
  use(RELEASER);
  if
  :: in -> unuse(RELEASER, 1)
  :: else -> skip
  fi
}

proctype dropper() {
  mtype what;
  short value;
  short sum;
  bool mine = false;
  atomic { word == FREE -> flush(DROPPER); word = TAKEN }; /* W1 */
#ifndef DROP_WITHOUT_USE
  uses++;
  count(DROPPER, 1);
#endif
  stores[DROPPER]!DROP(0);         /* D1 */
#ifndef DROP_WITHOUT_BARRIER
  barrier();                       /* D2 */
#endif
  atomic {                         /* D3 */
    flush(DROPPER);
    if
    :: record == LIVE -> record = KEPT; mine = true
    :: else -> skip
    fi
  };
  if
  :: mine -> unuse(DROPPER, 1)
  :: else -> skip
  fi;
  through = true;
#ifndef DROP_WITHOUT_USE
  unuse(DROPPER, 1)
#endif
}

init {
  atomic {
    run flusher(MAKER);
    run flusher(RELEASER);
    run flusher(DROPPER);
    run maker();
    run releaser();
    run dropper()
  };
  (_nr_pr == 4);                   /* the flushers stay */
  (empty(stores[0]) && empty(stores[1]) && empty(stores[2]));
  assert(word == ENDED);
  assert(uses == 0);
  assert(record == NOTHING || record == KEPT || record == GONE)
}
