/*
 * thread.c: stripes of counters and caches of free records, thread by thread.
 *
 * Attackers: threads without number, threads that end while they hold records, a plugin's thread that calls the host from its own last destructors.
 * Promise: no record is lost with its thread, no more than a bounded number waits with one, and a stripe has one writer at a time.
 */
#include "thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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

static void end_thread(void *argument) {
  nx_thread *thread = argument;
  nx_thread_current = &common;
  nx_table_put_back(thread->table, thread->cache, thread->cached);
  give_stripe(thread->stripe);
  free(thread);
}

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
  nx_thread_current = thread != NULL ? thread : &common;
  if (thread == NULL) return &common;
  thread->stripe = take_stripe();
  thread->room = NX_CACHE;
  return thread;
}

nx_slot *nx_thread_take(nx_thread *thread, nx_table *table) {
  if (thread->cached != 0u) return thread->cache[--thread->cached];
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
  thread->cached = n - 1u;
  return thread->cache[n - 1u];
}

void nx_thread_give(nx_thread *thread, nx_table *table, nx_slot *slot) {
  if (thread->room == 0u) {
    nx_table_put_back(table, &slot, 1u);
    return;
  }
  if (thread->cached == thread->room) { /* the older half goes */
    nx_table_put_back(table, thread->cache, NX_BATCH);
    thread->cached -= NX_BATCH;
    memmove(thread->cache, thread->cache + NX_BATCH, thread->cached * sizeof thread->cache[0]);
  }
  thread->table = table;
  thread->cache[thread->cached++] = slot;
}
