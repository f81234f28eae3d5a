/*
 * manager_lanes.c: who may touch the books of a stripe of threads, and of all.
 *
 * Attackers: threads without number; a kernel without membarrier.
 * Promise: one thread at a time in a lane; the thread that a lane is for gets in by plain stores.
 *
 * A lane belongs to the only thread of its stripe. That thread says that it is inside, then looks whether somebody has the lock. Whoever else wants the lane takes the lock, makes
 * every thread of the process pass a barrier, and waits until the owner is out: before the barrier the owner had said so, or behind it it finds the
 * lock (proofs/models/biased_lane.pml). Of the stripe that threads share, and where the kernel has no such barrier, the lock is all there is.
 */
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "manager.h"

/* Decided before the first manager, and never again. */
static int biased;

static void register_barrier(void) {
  biased = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0u, 0) == 0;
}

void nx_lanes_prepare(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  (void)pthread_once(&once, register_barrier);
}

/* Refused although it was registered, by a filter that came later: whoever is in stays seen, a thousandth of a second later. */
static void pass_barrier(void) {
  if (biased && syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0u, 0) != 0) nx_wait_until_stored();
}

void nx_wait_for_lock(_Atomic uint32_t *lock) {
  for (uint32_t tries = 0;; tries++) {
    if (atomic_load_explicit(lock, memory_order_relaxed) == 0u &&
        atomic_exchange_explicit(lock, 1u, memory_order_acquire) == 0u)
      return;
    if (tries % 16u == 15u) (void)sched_yield();
  }
}

/* The lock is held and the barrier is passed: its owner finds the lock, if it comes back. */
static void wait_until_out(nx_lane *lane) {
  for (uint32_t tries = 1;; tries++) {
    if (atomic_load_explicit(&lane->inside, memory_order_acquire) == 0u) return; /* K3 */
    if (tries % 16u == 0u) (void)sched_yield();
  }
}

static int is_own(uint32_t stripe) { return stripe != NX_SHARED_STRIPE && stripe == nx_thread_self()->stripe; }

static NX_APART int enter_by_lock(nx_lane *lane, uint32_t stripe) {
  nx_lock(&lane->lock); /* K1 */
  if (stripe != NX_SHARED_STRIPE && !is_own(stripe)) {
    pass_barrier(); /* K2 */
    wait_until_out(lane);
  }
  return 0;
}

int nx_lane_enter(nx_manager *m, uint32_t stripe) {
  nx_lane *lane = &m->lanes[stripe];
  if (!biased || !is_own(stripe)) return enter_by_lock(lane, stripe);
  atomic_store_explicit(&lane->inside, 1u, memory_order_relaxed); /* E1 */
  atomic_signal_fence(
      memory_order_seq_cst); /* the compiler keeps the order; the barrier makes the processor's the same */
  if (atomic_load_explicit(&lane->lock, memory_order_acquire) == 0u) return 1; /* E2 */
  atomic_store_explicit(&lane->inside, 0u, memory_order_release);
  return enter_by_lock(lane, stripe);
}

void nx_lane_leave(nx_manager *m, uint32_t stripe, int entered) {
  nx_lane *lane = &m->lanes[stripe];
  atomic_store_explicit(entered ? &lane->inside : &lane->lock, 0u, memory_order_release); /* E3, K4 */
}

void nx_lock_all(nx_manager *m) {
  for (uint32_t i = 0; i < NX_STRIPES; i++) nx_lock(&m->lanes[i].lock);
  pass_barrier();
  for (uint32_t i = 0; i < NX_SHARED_STRIPE; i++) wait_until_out(&m->lanes[i]);
  nx_lock(&m->bank);
}

void nx_unlock_all(nx_manager *m) {
  nx_unlock(&m->bank);
  for (uint32_t i = NX_STRIPES; i > 0; i--) nx_unlock(&m->lanes[i - 1u].lock);
}
