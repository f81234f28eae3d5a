/*
 * biased_lane.pml: the books of one stripe, between the thread that they are for and everybody else.
 *
 * The owner gets in by plain stores; a processor keeps such a store to itself until it is flushed: at any moment, or by a barrier. Everybody else takes the lane's lock, makes
 * all threads pass a barrier, and waits until the owner is out.
 *
 * host/src/manager_lanes.c  nx_lane_enter                  E1 say that it is inside (a store), E2 look at the lock
 *                           nx_lane_leave                  E3 say that it is out (a store), K4 give the lock back
 *                           enter_by_lock                  K1 take the lock (one exchange), K2 the barrier
 *                           wait_until_out                 K3 wait until the owner is out
 *
 * Property: never two in the books; the owner gets in again.
 *
 * Broken on purpose, each refuted by the assertion that is named beside it:
 *   WITHOUT_BARRIER: use_books: in_books == 1
 *   BARRIER_BEFORE_LOCK: use_books: in_books == 1
 *   LOOK_BEFORE_SAYING: use_books: in_books == 1
 *   WITHOUT_WAITING: use_books: in_books == 1
 */
#define TURNS 2

byte own_inside = 0;   /* as the owner has stored it */
byte seen_inside = 0;  /* as others see it */
bool lock = false;
byte in_books = 0;
byte owner_turns = 0;

proctype flusher() {
end:
  do
  :: seen_inside != own_inside -> seen_inside = own_inside
  od
}

inline use_books() {
  in_books++;
  assert(in_books == 1);
  in_books--
}

inline take_lock() {
  atomic { !lock -> lock = true } /* K1 */
}

proctype owner() {
  bool locked;
  byte turns = 0;
  do
  :: turns == TURNS -> break
  :: else ->
     turns++;
#ifdef LOOK_BEFORE_SAYING
     locked = lock;
     own_inside = 1;
#else
     own_inside = 1;       /* E1 */
     locked = lock;        /* E2 */
#endif
     if
     :: !locked ->
        use_books();
        atomic { own_inside = 0; seen_inside = 0 } /* E3: what it did before is seen with it */
     :: else ->
        atomic { own_inside = 0; seen_inside = 0 };
        take_lock();
        use_books();
        lock = false       /* K4 */
     fi;
     owner_turns++
  od
}

proctype other() {
  byte turns = 0;
  do
  :: turns == TURNS -> break
  :: else ->
     turns++;
#ifdef BARRIER_BEFORE_LOCK
     seen_inside = own_inside;
#endif
     take_lock();
#ifndef WITHOUT_BARRIER
#ifndef BARRIER_BEFORE_LOCK
     seen_inside = own_inside; /* K2 */
#endif
#endif
#ifndef WITHOUT_WAITING
     seen_inside == 0;     /* K3 */
#endif
     use_books();
     lock = false
  od
}

init {
  atomic {
    run flusher();
    run owner();
    run other();
    run other()
  };
  (_nr_pr == 2);
  assert(!lock && in_books == 0 && owner_turns == TURNS)
}
