/*
 * thread.c: stripes of counters and caches of free records, thread by thread.
 *
 * Attackers: threads without number, threads that end while they hold records, a plugin's thread that calls the host from its own last destructors.
 * Promise: no record is lost with its thread, no more than a bounded number waits with one, and a stripe has one writer at a time.
 *
 * A thread's end is told by the destructor of a key. It is not told of a thread whose first call here comes in the last round of its destructors: nothing runs behind
 * that. So all that threads have stands in a ring, and each thread that begins looks at a few of them and gives back what belonged to one that is gone.
 */
#include "thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

_Thread_local nx_thread *nx_thread_current NX_INITIAL_EXEC;

/* For threads that have nothing of their own: nothing in it is ever written. */
static nx_thread common = {.stripe = NX_SHARED_STRIPE};

/* Bit n: stripe n has its writer. */
static _Atomic uint32_t taken_stripes;

static uint32_t take_stripe(void) {
  uint32_t taken = atomic_load(&taken_stripes);
  for (uint32_t n = 0; n < NX_SHARED_STRIPE;) {
    if ((taken & (1u << n)) != 0u) {
      n++;
    } else if (atomic_compare_exchange_weak(&taken_stripes, &taken, taken | (1u << n))) {
      return n;
    } else {
      n = 0;
    }
  }
  return NX_SHARED_STRIPE;
}

static void give_stripe(uint32_t stripe) {
  if (stripe < NX_SHARED_STRIPE) (void)atomic_fetch_and(&taken_stripes, ~(1u << stripe));
}

/* What belonged to a thread that does not use it any more, and is not in the ring. */
static void dismantle(nx_thread *thread) {
  nx_table_put_back(thread->table, thread->cache, atomic_load_explicit(&thread->cached, memory_order_acquire));
  give_stripe(thread->stripe);
  free(thread);
}

/* ---- The ring ------------------------------------------------------------------------------------------------------- */

/* A leaf: protects the ring. */
static pthread_mutex_t ring_lock = PTHREAD_MUTEX_INITIALIZER;
static nx_thread ring = {.before = &ring, .behind = &ring};

static void join_locked(nx_thread *thread) {
  thread->before = ring.before;
  thread->behind = &ring;
  ring.before->behind = thread;
  ring.before = thread;
}

static void leave_locked(nx_thread *thread) {
  thread->before->behind = thread->behind;
  thread->behind->before = thread->before;
}

/* In doubt it is there. A number that is the asking thread's own was another's before, which is gone. */
static int is_gone(const nx_thread *thread, int32_t own_number) {
  if (thread->process != (int32_t)getpid()) return 0; /* another process with the same memory, and perhaps with numbers of its own */
  if (thread->number == own_number) return 1;
  const int before = errno;
  const int gone = syscall(SYS_tgkill, getpid(), thread->number, 0) != 0 && errno == ESRCH;
  errno = before;
  return gone;
}

/* More than one: so those that are gone become fewer, however many came in their last round. */
enum { LOOKED_AT = 2 };

/* The first few go behind the others, or out: the next that begins looks at the next few. */
static uint32_t find_gone_locked(int32_t own_number, nx_thread *out[LOOKED_AT]) {
  uint32_t gone = 0;
  for (uint32_t i = 0; i < LOOKED_AT && ring.behind != &ring; i++) {
    nx_thread *first = ring.behind;
    leave_locked(first);
    if (is_gone(first, own_number))
      out[gone++] = first;
    else
      join_locked(first);
  }
  return gone;
}

static void enter_ring(nx_thread *thread) {
  nx_thread *gone[LOOKED_AT];
  thread->number = (int32_t)syscall(SYS_gettid);
  thread->process = (int32_t)getpid();
  pthread_mutex_lock(&ring_lock);
  const uint32_t count = find_gone_locked(thread->number, gone);
  join_locked(thread);
  pthread_mutex_unlock(&ring_lock);
  for (uint32_t i = 0; i < count; i++) dismantle(gone[i]);
}

static void end_thread(void *argument) {
  nx_thread *thread = argument;
  nx_thread_current = &common;
  pthread_mutex_lock(&ring_lock);
  leave_locked(thread);
  pthread_mutex_unlock(&ring_lock);
  dismantle(thread);
}

/* ---- Beginning ------------------------------------------------------------------------------------------------------ */

static pthread_key_t key;
static int key_works;
static void make_key(void) { key_works = pthread_key_create(&key, end_thread) == 0; }

nx_thread *nx_thread_begin(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  (void)pthread_once(&once, make_key);
  nx_thread *thread = key_works ? calloc(1u, sizeof *thread) : NULL;
  if (thread != NULL && pthread_setspecific(key, thread) != 0) {
    free(thread);
    thread = NULL;
  }
  if (thread != NULL) thread->stripe = NX_SHARED_STRIPE; /* what calls while it begins, from a signal or from free(), writes to nobody's own */
  nx_thread_current = thread != NULL ? thread : &common;
  if (thread == NULL) return &common;
  enter_ring(thread); /* before a stripe is looked for: one may come back */
  thread->stripe = take_stripe();
  thread->room = NX_CACHE;
  return thread;
}

/* ---- Records -------------------------------------------------------------------------------------------------------- */

/* Only the thread itself writes it. */
static uint32_t cached_by(const nx_thread *thread) {
  return atomic_load_explicit(&thread->cached, memory_order_relaxed);
}
static void set_cached(nx_thread *thread, uint32_t cached) {
  atomic_store_explicit(&thread->cached, cached, memory_order_release);
}

static NX_APART nx_slot *take_batch(nx_thread *thread, nx_table *table) {
  nx_slot *alone = NULL;
  if (thread->room == 0u) return nx_table_take_some(table, &alone, 1u) == 1u ? alone : NULL;
  thread->table = table;
  const uint32_t n = nx_table_take_some(table, thread->cache, NX_BATCH);
  if (n == 0u) return NULL;
  /* Fetched in the order in which they would have been taken one by one. */
  for (uint32_t i = 0; i < n / 2u; i++) {
    nx_slot *early = thread->cache[i];
    thread->cache[i] = thread->cache[n - 1u - i];
    thread->cache[n - 1u - i] = early;
  }
  set_cached(thread, n - 1u);
  return thread->cache[n - 1u];
}

nx_slot *nx_thread_take(nx_thread *thread, nx_table *table) {
  const uint32_t cached = cached_by(thread);
  if (cached == 0u) return take_batch(thread, table);
  nx_slot *last = thread->cache[cached - 1u];
  set_cached(thread, cached - 1u);
  return last;
}

/* The older half goes. */
static NX_APART void put_half_back(nx_thread *thread, nx_table *table) {
  const uint32_t left = cached_by(thread) - NX_BATCH;
  nx_table_put_back(table, thread->cache, NX_BATCH);
  memmove(thread->cache, thread->cache + NX_BATCH, left * sizeof thread->cache[0]);
  set_cached(thread, left);
}

static NX_APART void give_slowly(nx_thread *thread, nx_table *table, nx_slot *slot) {
  if (thread->room == 0u) {
    nx_table_put_back(table, &slot, 1u);
    return;
  }
  put_half_back(thread, table);
  nx_thread_give(thread, table, slot);
}

/* Where there is no room, there is nothing in it. */
void nx_thread_give(nx_thread *thread, nx_table *table, nx_slot *slot) {
  const uint32_t cached = cached_by(thread);
  if (cached == thread->room) {
    give_slowly(thread, table, slot);
    return;
  }
  thread->table = table;
  thread->cache[cached] = slot;
  set_cached(thread, cached + 1u);
}
