/*
 * striped_gate.pml: closing an allocator against calls that count themselves in in stripes, one to a thread, each with plain stores where the closer can make all
 * threads pass a barrier.
 *
 * A processor keeps a plain store to itself until it is flushed: at any moment, or by a barrier. So a caller may look at the state while its own count is still
 * unseen. The closer's barrier flushes every thread's stores.
 *
 * host/src/objects.c  count_in_plainly, nx_visit_begin         E1 count in (a store), E2 look at the state (E3: the caller runs plugin code)
 *                     nx_visit_end                             E4 count out (a store)
 *                     nx_allocator_inside                      K1 the barrier, K2 the sum over all stripes
 * host/src/close.c    claim, close_claimed                     G1 shut the gate (one compare-and-swap), G2 the plugin's release, or open again
 *
 * Property: no call is in the plugin when or after its release is called.
 *
 * Broken on purpose, each refuted by the assertion that is named beside it:
 *   WITHOUT_BARRIER: caller: !released
 *   BARRIER_BEFORE_SHUT: caller: !released
 *   ONE_STRIPE_ONLY: closer: !in_plugin[0] && !in_plugin[1]
 *   LOOK_BEFORE_COUNT: caller: !released
 */
#define CALLERS 2

mtype = { OPEN, CLOSING, CLOSED };
mtype state = OPEN;
byte seen[CALLERS] = 0;    /* each stripe as other threads see it */
byte own[CALLERS] = 0;     /* as its thread has stored it */
bool in_plugin[CALLERS] = false;
bool released = false;

/* Stores reach the others in the end, in their order: here one number, so the latest. */
proctype flusher(byte t) {
end:
  do
  :: seen[t] != own[t] -> seen[t] = own[t]
  od
}

inline barrier() {
  atomic { seen[0] = own[0]; seen[1] = own[1] }
}

proctype caller(byte t) {
  mtype found;
  byte calls = 0;
  do
  :: calls == 2 -> break
  :: else ->
     calls++;
#ifdef LOOK_BEFORE_COUNT
     found = state;
     own[t]++;
#else
     own[t]++;             /* E1 */
     found = state;        /* E2 */
#endif
     if
     :: found == OPEN ->
        in_plugin[t] = true; /* E3 */
        assert(!released);
        in_plugin[t] = false
     :: else -> skip       /* refused */
     fi;
     atomic { own[t]--; seen[t] = own[t] } /* E4: what it did before is seen with it */
  od
}

proctype closer() {
  byte inside;
  byte tries = 0;
  do
  :: tries == 2 -> break
  :: else ->
     tries++;
#ifdef BARRIER_BEFORE_SHUT
     barrier();
#endif
     atomic { state == OPEN -> state = CLOSING }; /* G1 */
#ifndef WITHOUT_BARRIER
#ifndef BARRIER_BEFORE_SHUT
     barrier();            /* K1 */
#endif
#endif
     inside = seen[0];     /* K2 */
#ifndef ONE_STRIPE_ONLY
     inside = inside + seen[1];
#endif
     if
     :: inside == 0 ->
        assert(!in_plugin[0] && !in_plugin[1]);
        released = true;   /* G2 */
        state = CLOSED;
        break
     :: else -> state = OPEN
     fi
  od
}

init {
  atomic {
    run flusher(0);
    run flusher(1);
    run caller(0);
    run caller(1);
    run closer()
  }
}
