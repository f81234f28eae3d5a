/*
 * latch.c: loading the plugin and opening a device, once each, whoever comes first.
 *
 * Attackers: a plugin that calls the adapter from within its own loading or opening; threads that all come first.
 * Promise: no lock is held while plugin code runs; a thread never waits for itself.
 */
#include "latch.h"

enum { UNDONE, UNDER_WAY, DONE };

/* A leaf: protects the states of all latches while they change, and owner. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

int nx_torch_latch_is_done(const nx_torch_latch *latch) {
  return atomic_load_explicit(&latch->state, memory_order_acquire) == DONE;
}

static nx_torch_turn enter_locked(nx_torch_latch *latch, int waits) {
  while (atomic_load(&latch->state) == UNDER_WAY) {
    if (!waits || pthread_equal(latch->owner, pthread_self())) return NX_TORCH_TAKEN_UP;
    pthread_cond_wait(&changed, &lock);
  }
  if (atomic_load(&latch->state) == DONE) return NX_TORCH_DONE;
  atomic_store(&latch->state, UNDER_WAY);
  latch->owner = pthread_self();
  return NX_TORCH_MINE;
}

nx_torch_turn nx_torch_latch_enter(nx_torch_latch *latch, int waits) {
  if (nx_torch_latch_is_done(latch)) return NX_TORCH_DONE;
  pthread_mutex_lock(&lock);
  const nx_torch_turn turn = enter_locked(latch, waits);
  pthread_mutex_unlock(&lock);
  return turn;
}

void nx_torch_latch_leave(nx_torch_latch *latch, int done) {
  pthread_mutex_lock(&lock);
  atomic_store_explicit(&latch->state, done ? DONE : UNDONE, memory_order_release);
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}
