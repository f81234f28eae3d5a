/*
 * manager_wait.c: waiting for the end of one allocation.
 *
 * Attackers: callers that wait for what never ends, or has ended already.
 * Promise: a wait ends with the release it names or with its time; whoever settles a release pays one look for waiters that are not there.
 */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "error.h"
#include "manager.h"
#include "nxmem/handle.h"

/* A leaf: held for the looks of those who wait, not while they wait. */
static pthread_mutex_t wait_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_condition(void) {
  pthread_condattr_t attributes;
  (void)pthread_condattr_init(&attributes);
  (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  (void)pthread_cond_init(&ended, &attributes);
  (void)pthread_condattr_destroy(&attributes);
}

void nx_wake_waiters(void) {
  pthread_mutex_lock(&wait_lock);
  pthread_cond_broadcast(&ended);
  pthread_mutex_unlock(&wait_lock);
}

static int is_open(nx_side *side, uint64_t charge) {
  const uint64_t word = atomic_load(&side->word);
  if (!nxmem_same_generation(word, charge)) return 0;
  return nxmem_word_state(word) != NXMEM_SLOT_QUARANTINED && nxmem_word_state(word) != NXMEM_SLOT_FREE;
}

static struct timespec in_ms(uint32_t ms) {
  struct timespec at;
  (void)clock_gettime(CLOCK_MONOTONIC, &at);
  at.tv_sec += (time_t)(ms / 1000u);
  at.tv_nsec += (long)(ms % 1000u) * 1000000L;
  if (at.tv_nsec >= 1000000000L) {
    at.tv_sec++;
    at.tv_nsec -= 1000000000L;
  }
  return at;
}

static void wait_until(nx_side *side, uint64_t charge, uint32_t timeout_ms) {
  const struct timespec until = in_ms(timeout_ms);
  (void)pthread_once(&once, make_condition);
  pthread_mutex_lock(&wait_lock);
  int gone = 0;
  while (is_open(side, charge) && gone != ETIMEDOUT) gone = pthread_cond_timedwait(&ended, &wait_lock, &until);
  pthread_mutex_unlock(&wait_lock);
}

/*
 * With all locks held, so that whoever settles the release in one of them either had done so, and the word says it, or finds the count and wakes. 0: no such manager.
 */
static int count_waiters(nxmem_manager manager, uint32_t by, nxmem_error *error) {
  nx_manager *m = nx_manager_lock(manager, error);
  if (m == NULL) return 0;
  m->waiters += by;
  nx_unlock_all(m);
  return 1;
}

/* Ended, or never begun: generations are issued upwards. */
static int was_issued(nx_side *side, uint64_t charge) {
  const uint64_t word = atomic_load(&side->word);
  if (nxmem_same_generation(word, charge)) return atomic_load_explicit(&side->account, memory_order_relaxed) != NULL;
  return nxmem_handle_generation(charge) < nxmem_word_generation(word);
}

/* Open, or kept. What is kept is charged, and so its account stays whose it was. */
static int is_charged(nx_side *side, uint64_t charge) {
  const uint64_t word = atomic_load(&side->word);
  return nxmem_same_generation(word, charge) && nxmem_word_state(word) != NXMEM_SLOT_FREE;
}

/* Only its own manager's settlements wake who waits for it. What has gone back meanwhile is nobody's. */
static int is_anothers(nx_side *side, uint64_t charge, nxmem_manager manager) {
  nx_account *account = atomic_load_explicit(&side->account, memory_order_relaxed);
  const uint64_t owner = account == NULL ? manager.id : atomic_load_explicit(&account->owner, memory_order_acquire);
  return owner != manager.id && is_charged(side, charge);
}

nxmem_result nxmem_manager_wait(nxmem_manager manager, uint64_t charge, uint32_t timeout_ms, nxmem_error *error) {
  nx_side *side = nx_side_of(charge);
  if (nx_is_forked()) return nx_manager_unknown(error);
  if (side == NULL || !was_issued(side, charge))
    return nx_fail(error, NXMEM_ERR_STALE_HANDLE, "wait: the handle names no charge");
  if (is_anothers(side, charge, manager))
    return nx_fail(error, NXMEM_ERR_WRONG_OWNER, "wait: found a charge of another manager");
  if (!count_waiters(manager, 1u, error)) return NXMEM_ERR_STALE_HANDLE;
  if (is_open(side, charge) && timeout_ms != 0) wait_until(side, charge, timeout_ms);
  (void)count_waiters(manager, UINT32_MAX, NULL);
  const uint64_t word = atomic_load(&side->word);
  if (!nxmem_same_generation(word, charge) || nxmem_word_state(word) == NXMEM_SLOT_FREE) return NXMEM_OK;
  if (nxmem_word_state(word) == NXMEM_SLOT_QUARANTINED)
    return nx_fail(error, NXMEM_ERR_QUARANTINED, "wait: the allocation is kept");
  return nx_fail(error, NXMEM_ERR_TIMED_OUT, "wait: the release has not settled yet");
}
