/*
 * slots_test.c: tables of slots that grow and never shrink. Looks inside the host.
 *
 * Attackers played: invented handles; threads that take and give the same slots; a slot that is used 2^32 times.
 * Promise: one owner per slot at a time, no handle twice, no memory touched that is not a slot.
 */
#define _GNU_SOURCE
#include "slots.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "hosttest.h"

typedef struct thing {
  nx_slot slot;
  _Atomic int owner; /* the thread that holds it; 0: nobody */
} thing;

#define U32_MAX 0xFFFFFFFFu
#define TWO_32 (1ull << 32)

static thing *take(nx_table *table) { return (thing *)(void *)nx_table_take(table); }
static uint32_t state_of(thing *t) { return nxmem_word_state(atomic_load(&t->slot.word)); }

static void test_take_and_give(void **state) {
  (void)state;
  static nx_table table = NX_TABLE(thing, 2);
  thing *one = take(&table), *two = take(&table);
  assert_int_equal(state_of(one), NXMEM_SLOT_FREE); /* nobody can find it before its fields are set */
  assert_int_equal(one->slot.self, 0);
  assert_int_equal(two->slot.self, 1);
  const uint64_t handle = nx_slot_handle(&one->slot);
  assert_int_equal(handle, 1);
  assert_ptr_equal(nx_table_find(&table, handle), one);

  nx_slot_set(&one->slot, NXMEM_SLOT_LIVE);
  assert_int_equal(nx_slot_handle(&one->slot), handle);
  assert_int_equal(nx_slot_move(&one->slot, handle, NXMEM_SLOT_LIVE, NXMEM_SLOT_RELEASING), 1);
  assert_int_equal(nx_slot_move(&one->slot, handle, NXMEM_SLOT_LIVE, NXMEM_SLOT_RELEASING), 0);
  nx_table_give(&table, &one->slot);
  assert_int_equal(state_of(one), NXMEM_SLOT_FREE);
  assert_int_equal(nx_slot_move(&one->slot, handle, NXMEM_SLOT_FREE, NXMEM_SLOT_LIVE), 0); /* another generation */

  assert_ptr_equal(take(&table), one);
  assert_int_equal(nx_slot_handle(&one->slot), handle + TWO_32);
  nx_table_give(&table, &two->slot);
  nx_table_give(&table, &one->slot);
  assert_ptr_equal(take(&table), one);
  assert_ptr_equal(take(&table), two);
}

/* A move needs the state, the generation and no users, all of them. */
static void test_move(void **state) {
  (void)state;
  static nx_table table = NX_TABLE(thing, 2);
  thing *one = take(&table);
  const uint64_t handle = nx_slot_handle(&one->slot);
  nx_slot_set(&one->slot, NXMEM_SLOT_LIVE);
  assert_int_equal(nx_slot_move(&one->slot, handle + TWO_32, NXMEM_SLOT_LIVE, NXMEM_SLOT_RELEASING), 0);
  assert_int_equal(nx_slot_move(&one->slot, handle, NXMEM_SLOT_RELEASING, NXMEM_SLOT_LIVE), 0);
  atomic_store(&one->slot.word, nxmem_word_make(0, 1, NXMEM_SLOT_LIVE));
  assert_int_equal(nx_slot_move(&one->slot, handle, NXMEM_SLOT_LIVE, NXMEM_SLOT_RELEASING), 0);
  atomic_store(&one->slot.word, nxmem_word_make(0, 0, NXMEM_SLOT_LIVE));
  assert_int_equal(nx_slot_move(&one->slot, handle, NXMEM_SLOT_LIVE, NXMEM_SLOT_RELEASING), 1);
  assert_int_equal(state_of(one), NXMEM_SLOT_RELEASING);
}

/* Used up: never handed out again, and no handle of it is ever good again. */
static void test_wrap(void **state) {
  (void)state;
  static nx_table table = NX_TABLE(thing, 2);
  thing *one = take(&table);
  atomic_store(&one->slot.word, nxmem_word_make(U32_MAX - 1, 0, NXMEM_SLOT_RELEASING));
  nx_table_give(&table, &one->slot);
  assert_ptr_equal(take(&table), one);
  const uint64_t last = nx_slot_handle(&one->slot);
  assert_int_equal(last, (uint64_t)U32_MAX * TWO_32 + 1);
  nx_table_give(&table, &one->slot);
  assert_int_equal(state_of(one), NXMEM_SLOT_RETIRED);
  for (int i = 0; i < 20; i++) assert_ptr_not_equal(take(&table), one);
  assert_int_equal(nxmem_check_claim(atomic_load(&one->slot.word), last).reason, NXMEM_REASON_WRONG_STATE);
  assert_int_equal(nxmem_check_claim(atomic_load(&one->slot.word), 1).reason, NXMEM_REASON_STALE_HANDLE);
}

static void test_find(void **state) {
  (void)state;
  static nx_table table = NX_TABLE(thing, 3);
  static const uint64_t handles[] = {0, TWO_32, U32_MAX, 0x7FFFFFFFull, 0xFFFFFFFFFFFFFFFFull, 6, 9, 100000};
  assert_null(nx_table_find(&table, 1));
  for (int i = 0; i < 5; i++) (void)take(&table);
  for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++) assert_null(nx_table_find(&table, handles[i]));
  assert_non_null(nx_table_find(&table, 5));
  assert_null(nx_table_at(&table, 5));
  assert_null(nx_table_at(&table, U32_MAX));
}

/* Addresses stay while it grows; each slot knows its index. */
static void test_grow(void **state) {
  (void)state;
  enum { N = 3000 };
  static nx_table table = NX_TABLE(thing, 4);
  static thing *all[N];
  for (uint32_t i = 0; i < N; i++) {
    all[i] = take(&table);
    assert_non_null(all[i]);
    assert_int_equal(all[i]->slot.self, i);
  }
  for (uint32_t i = 0; i < N; i++) assert_ptr_equal(nx_table_at(&table, i), all[i]);
}

static void test_full(void **state) {
  (void)state;
  static nx_table table = NX_TABLE(thing, 0);
  thing *last = NULL;
  for (int i = 0; i < NX_CHUNKS_MAX; i++) {
    last = take(&table);
    assert_non_null(last);
  }
  assert_null(take(&table));
  assert_null(take(&table));
  nx_table_give(&table, &last->slot);
  assert_ptr_equal(take(&table), last);
  assert_null(take(&table));
}

/* ---- Threads ----------------------------------------------------------------------------------------------------- */

enum { THREADS = 8, INTERRUPTIONS = 1500, HOLD = 3 };

static nx_table shared = NX_TABLE(thing, 1);
static _Atomic uint64_t takes, clashes;
static _Atomic int stop;

/* Take a few, own each alone, give them back in another order than they came. */
static void *take_and_give(void *argument) {
  const int me = (int)(uintptr_t)argument;
  for (int i = 0; !atomic_load(&stop); i++) {
    thing *held[HOLD];
    for (int k = 0; k < HOLD; k++) {
      held[k] = take(&shared);
      if (held[k] == NULL || atomic_exchange(&held[k]->owner, me) != 0) atomic_fetch_add(&clashes, 1);
      atomic_fetch_add(&takes, 1);
    }
    for (int k = 0; k < HOLD; k++) {
      thing *t = held[(k + i) % HOLD];
      if (atomic_exchange(&t->owner, 0) != me) atomic_fetch_add(&clashes, 1);
      nx_table_give(&shared, &t->slot);
    }
  }
  return NULL;
}

/* Stands still wherever the signal finds it: also between looking at the free list's head and replacing it. */
static void stand_still(int signal_number) {
  (void)signal_number;
  const struct timespec a_while = {0, 20000};
  (void)nanosleep(&a_while, NULL);
}

static void interrupt_all(const pthread_t *threads) {
  const struct timespec a_while = {0, 5000};
  for (int i = 0; i < INTERRUPTIONS; i++) {
    (void)pthread_kill(threads[i % THREADS], SIGUSR1);
    (void)nanosleep(&a_while, NULL);
  }
}

/* If a slot were handed to two threads, or lost, the generations would not add up to the takes. */
static void test_threads(void **state) {
  (void)state;
  pthread_t threads[THREADS];
  const struct sigaction action = {.sa_handler = stand_still, .sa_flags = SA_RESTART};
  assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, take_and_give, (void *)(uintptr_t)(i + 1));
  interrupt_all(threads);
  atomic_store(&stop, 1);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  assert_int_equal(atomic_load(&clashes), 0);
  const uint32_t count = atomic_load(&shared.count);
  assert_in_range(count, HOLD, THREADS * HOLD);
  uint64_t generations = 0;
  for (uint32_t i = 0; i < count; i++)
    generations += nxmem_word_generation(atomic_load(&nx_table_at(&shared, i)->word));
  assert_int_equal(generations, atomic_load(&takes));
  for (uint32_t i = 0; i < count; i++) assert_non_null(take(&shared)); /* none was lost from the free list */
  assert_int_equal(atomic_load(&shared.count), count);
}

int main(void) {
  alarm(280);
  nx_suite suite = {0};
  nx_suite_add(&suite, "taken and given", test_take_and_give, NULL);
  nx_suite_add(&suite, "moved from state to state", test_move, NULL);
  nx_suite_add(&suite, "a generation that is used up", test_wrap, NULL);
  nx_suite_add(&suite, "invented handles", test_find, NULL);
  nx_suite_add(&suite, "three thousand slots", test_grow, NULL);
  nx_suite_add(&suite, "a full table", test_full, NULL);
  nx_suite_add(&suite, "eight threads", test_threads, NULL);
  return nx_suite_run(&suite, "host_slots");
}
