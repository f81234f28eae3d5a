/*
 * threads_test.c: eight threads at the books at once.
 *
 * Attackers played: threads that reserve, commit, publish, release and roll back near a limit, while others look, lower limits and raise them again.
 * Promise: what is used passes no limit by one byte, at any moment; each snapshot is of one moment; the books are exact at the end.
 *
 * The plugin is the witness: it counts what it has handed out itself, and the highest that ever was.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdatomic.h>

#include "managertest.h"

enum { THREADS = 8, ROUNDS = 400, HELD = 8, LOOKS = 200 };

static nx_scene scene;
static _Atomic uint64_t granted,
    most; /* charged bytes, counted by the threads: what is granted, and the highest that was */
static _Atomic uint32_t at_work;
static _Atomic uint64_t refusals, grants;

static uint32_t next_random(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

/* Counted behind the grant and before the release: never more than is really granted. */
static void count_grant(uint64_t bytes) {
  const uint64_t now = atomic_fetch_add(&granted, bytes) + bytes;
  uint64_t seen = atomic_load(&most);
  while (seen < now && !atomic_compare_exchange_weak(&most, &seen, now)) {
  }
}

typedef struct held {
  nxmem_bound bound;
  uint64_t charged;
} held;

static void give_back(held *h) {
  if (h->bound.id == 0) return;
  atomic_fetch_sub(&granted, h->charged);
  nx_must_give_back(&h->bound);
  h->bound.id = 0;
}

static void take(held *h, uint32_t mechanism, uint64_t charged) {
  const nxmem_request request = nx_request(&scene, mechanism, charged, 64, 64);
  nxmem_bound bound;
  const nxmem_result r = nxmem_manager_allocate(scene.manager, &request, &bound, NULL, NULL, NULL);
  if (r == NXMEM_ERR_OVER_LIMIT) {
    atomic_fetch_add(&refusals, 1u);
    return;
  }
  assert_int_equal(r, NXMEM_OK);
  atomic_fetch_add(&grants, 1u);
  count_grant(charged);
  *h = (held){bound, charged};
}

/* Half of a transaction, and back. */
static void try_and_roll_back(uint32_t mechanism, uint64_t charged) {
  const nxmem_request request = nx_request(&scene, mechanism, charged, 64, 64);
  nxmem_transaction t;
  if (nxmem_transaction_reserve(scene.manager, &request, &t, NULL) != NXMEM_OK) return;
  count_grant(charged);
  if (charged % 2u == 0u) assert_int_equal(nxmem_transaction_allocate(t, NULL), NXMEM_OK);
  atomic_fetch_sub(&granted, charged);
  assert_int_equal(nxmem_transaction_rollback(t, NULL, NULL), NXMEM_OK);
}

static void *work(void *argument) {
  uint32_t random = (uint32_t)(uintptr_t)argument * 77u + 1u;
  held mine[HELD] = {{{{0}, 0, NULL, 0, 0}, 0}};
  for (int i = 0; i < ROUNDS; i++) {
    held *h = &mine[next_random(&random) % HELD];
    const uint32_t mechanism = next_random(&random) % scene.count;
    const uint64_t charged = 1u + next_random(&random) % 1000u;
    if (h->bound.id != 0)
      give_back(h);
    else if (next_random(&random) % 4u == 0u)
      try_and_roll_back(mechanism, charged);
    else
      take(h, mechanism, charged);
  }
  for (int i = 0; i < HELD; i++) give_back(&mine[i]);
  atomic_fetch_sub(&at_work, 1u);
  return NULL;
}

static void run(void *(*other)(void *)) {
  pthread_t threads[THREADS], beside;
  atomic_store(&granted, 0);
  atomic_store(&most, 0);
  atomic_store(&refusals, 0);
  atomic_store(&grants, 0);
  atomic_store(&at_work, THREADS);
  puppet.concurrent = 1;
  for (uintptr_t i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)(i + 1)), 0);
  if (other != NULL) assert_int_equal(pthread_create(&beside, NULL, other, NULL), 0);
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  if (other != NULL) assert_int_equal(pthread_join(beside, NULL), 0);
}

enum { LIMIT = 12000 };

static void *look(void *argument) {
  (void)argument;
  for (int i = 0; i < LOOKS || atomic_load(&at_work) != 0; i++) {
    const nxmem_snapshot now = nx_books_now(&scene); /* compares every total with its parts */
    assert_true(now.tiers[NXMEM_TIER_HOST].figures.used.charged <= LIMIT);
    assert_true(now.tiers[NXMEM_TIER_HOST].shares.charged <= LIMIT);
    for (uint32_t a = 0; a < now.authority_count; a++) {
      const nxmem_authority_figures *f = &now.authorities[a];
      assert_true(f->figures.used.charged <= f->budget.charged);
      assert_int_equal(f->figures.quarantined_count, 0);
    }
  }
  return NULL;
}

/* Of each thread that is refused there may be bytes the others had; so there is always something that is granted. */
static void test_process_limit(void **state) {
  (void)state;
  scene = nx_scene_of(3, 0);
  nx_must_limit(&scene, AXES(LIMIT, NXMEM_TOTAL_MAX, NXMEM_TOTAL_MAX));
  run(look);
  assert_true(atomic_load(&most) <= LIMIT);
  assert_true(atomic_load(&grants) != 0);
  nx_assert_used(&scene, AXES(0, 0, 0));
  assert_int_equal(nx_books_now(&scene).refusals >= atomic_load(&refusals), 1);
  nx_scene_end(&scene);
}

static void test_budget_of_two_devices(void **state) {
  (void)state;
  scene = nx_scene_of(2, 1);
  nx_must_limit(&scene, AXES(LIMIT, NXMEM_TOTAL_MAX, NXMEM_TOTAL_MAX));
  nx_must_budget(&scene, 0, AXES(5000, NXMEM_TOTAL_MAX, NXMEM_TOTAL_MAX));
  run(look);
  assert_true(atomic_load(&most) <= 5000);
  nx_scene_end(&scene);
}

static void test_slice(void **state) {
  (void)state;
  scene = nx_scene_of(2, 0);
  const nxmem_axes slice = {4000, NXMEM_TOTAL_MAX / 2, NXMEM_TOTAL_MAX / 2};
  nx_must_limit(&scene, AXES(LIMIT, NXMEM_TOTAL_MAX, NXMEM_TOTAL_MAX));
  assert_int_equal(nxmem_manager_delegate(scene.manager, scene.authorities[1], &slice, NULL), NXMEM_OK);
  run(look);
  assert_true(atomic_load(&most) <= LIMIT);
  nx_scene_end(&scene);
}

/* Up and down. While it is low, nothing is granted above it: what is used is no more than it was when the limit fell, or than the limit. */
static void *move_limit(void *argument) {
  (void)argument;
  for (int i = 0; i < LOOKS || atomic_load(&at_work) != 0; i++) {
    const nxmem_axes low = {3000, NXMEM_TOTAL_MAX, NXMEM_TOTAL_MAX};
    nxmem_axes beyond;
    assert_int_equal(nxmem_manager_set_limit(scene.manager, NXMEM_TIER_HOST, &low, &beyond, NULL), NXMEM_OK);
    uint64_t bound = low.charged + beyond.charged;
    for (int n = 0; n < 4; n++) {
      const uint64_t used = nx_books_now(&scene).total.used.charged;
      assert_true(used <= bound);
      bound = used > low.charged ? used : low.charged;
    }
    nx_must_limit(&scene, AXES(LIMIT, NXMEM_TOTAL_MAX, NXMEM_TOTAL_MAX));
  }
  return NULL;
}

static void test_moving_limit(void **state) {
  (void)state;
  scene = nx_scene_of(2, 0);
  nx_must_limit(&scene, AXES(LIMIT, NXMEM_TOTAL_MAX, NXMEM_TOTAL_MAX));
  run(move_limit);
  assert_true(atomic_load(&most) <= LIMIT);
  nx_scene_end(&scene);
}

/* One allocation, eight releases of it at once: one wins, and it is refunded once. */
static pthread_barrier_t gate;
static nxmem_bound contested;
static _Atomic uint32_t winners;

static void *release_contested(void *argument) {
  (void)argument;
  (void)pthread_barrier_wait(&gate);
  const nxmem_result r = nxmem_bound_release(&contested, NULL);
  if (r == NXMEM_OK) atomic_fetch_add(&winners, 1u);
  return NULL;
}

static void test_racing_releases(void **state) {
  (void)state;
  scene = nx_scene_of(1, 0);
  puppet.concurrent = 1;
  assert_int_equal(pthread_barrier_init(&gate, NULL, THREADS), 0);
  for (int i = 0; i < 50; i++) {
    pthread_t threads[THREADS];
    const nxmem_request request = nx_request(&scene, 0, 10, 64, 64);
    const nxmem_bound stays = nx_must_grant(&scene, &request, NULL);
    contested = nx_must_grant(&scene, &request, NULL);
    atomic_store(&winners, 0);
    for (int t = 0; t < THREADS; t++) assert_int_equal(pthread_create(&threads[t], NULL, release_contested, NULL), 0);
    for (int t = 0; t < THREADS; t++) assert_int_equal(pthread_join(threads[t], NULL), 0);
    assert_int_equal(atomic_load(&winners), 1);
    nx_assert_used(&scene, AXES(10, 64, 64));
    nx_must_give_back(&stays);
  }
  assert_int_equal(pthread_barrier_destroy(&gate), 0);
  nx_scene_end(&scene);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_add(&suite, "8 threads at a process limit", test_process_limit, NULL);
  nx_suite_add(&suite, "8 threads at the budget of two devices", test_budget_of_two_devices, NULL);
  nx_suite_add(&suite, "8 threads at a slice and at what is left beside it", test_slice, NULL);
  nx_suite_add(&suite, "8 threads at a limit that moves", test_moving_limit, NULL);
  nx_suite_add(&suite, "8 releases of one allocation", test_racing_releases, NULL);
  return nx_suite_run(&suite, "manager threads");
}
