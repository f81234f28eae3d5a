/*
 * threads_test.c: eight threads at the books at once.
 *
 * Attackers played: threads that reserve, commit, publish, release and roll back near a limit of each axis, and map and unmap what they hold, while others look, lower limits and
 * raise them again.
 * Promise: what is used passes no limit by one byte, at any moment; each snapshot is of one moment; the books are exact at the end.
 *
 * The threads are the witness: they count what they were granted themselves, and the highest that ever was; of what is mapped afterwards the plugin is.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "crowd.h"
#include "managertest.h"
#include "puppet_backing.h"

enum { THREADS = 8, ROUNDS = 400, HELD = 8, LOOKS = 50, ANY = 12000, LOW = 3000 };

#define NO_LIMIT NXMEM_TOTAL_MAX
#define UNLIMITED \
  { NO_LIMIT, NO_LIMIT, NO_LIMIT }

typedef struct limit_row {
  const char *name;
  uint32_t count;
  int shared;
  nxmem_axes limit, budget,
      slice; /* the budget is the first authority's, the slice the second's; of slice, {0, 0, 0}: none is delegated */
} limit_row;

typedef struct counted {
  _Atomic uint64_t now, most;
} counted;

static nx_scene scene;
static const limit_row *row;
static counted granted[3]; /* charged, physical, mapped */
static _Atomic uint64_t refusals, grants;

static uint32_t next_random(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

/* Counted behind the grant and before the release: never more than is really granted. */
static void count_one(counted *c, uint64_t bytes) {
  const uint64_t now = atomic_fetch_add(&c->now, bytes) + bytes;
  uint64_t seen = atomic_load(&c->most);
  while (seen < now && !atomic_compare_exchange_weak(&c->most, &seen, now)) {
  }
}

static void count_grant(nxmem_axes a) {
  count_one(&granted[0], a.charged);
  count_one(&granted[1], a.physical);
  count_one(&granted[2], a.mapped);
}

static void count_end(nxmem_axes a) {
  atomic_fetch_sub(&granted[0].now, a.charged);
  atomic_fetch_sub(&granted[1].now, a.physical);
  atomic_fetch_sub(&granted[2].now, a.mapped);
}

static nxmem_axes most_granted(void) {
  return AXES(atomic_load(&granted[0].most), atomic_load(&granted[1].most), atomic_load(&granted[2].most));
}

static int is_within(nxmem_axes a, nxmem_axes limit) {
  return a.charged <= limit.charged && a.physical <= limit.physical && a.mapped <= limit.mapped;
}

typedef struct held {
  nxmem_bound bound;
  nxmem_axes takes;
} held;

static void give_back(held *h) {
  if (h->bound.id == 0) return;
  count_end(h->takes);
  nx_must_give_back(&h->bound);
  h->bound.id = 0;
}

/* The plugin takes all that is asked for, and now and then less of it was reserved. */
static nxmem_request some_request(uint32_t *random, nxmem_axes *takes_out) {
  const uint32_t mechanism = next_random(random) % scene.count;
  const uint64_t charged = 1u + next_random(random) % 1000u, bytes = 1u + next_random(random) % 1000u;
  const uint64_t reserved = next_random(random) % 4u == 0u ? bytes / 2u : bytes;
  nxmem_request request = nx_request(&scene, mechanism, charged, reserved, reserved);
  request.bytes = bytes;
  *takes_out = AXES(charged, bytes, bytes);
  return request;
}

static void take(held *h, uint32_t *random) {
  nxmem_bound bound;
  nxmem_axes takes;
  const nxmem_request request = some_request(random, &takes);
  const nxmem_result r = nxmem_manager_allocate(scene.manager, &request, &bound, NULL, NULL, NULL);
  if (r == NXMEM_ERR_OVER_LIMIT) {
    atomic_fetch_add(&refusals, 1u);
    return;
  }
  assert_int_equal(r, NXMEM_OK);
  atomic_fetch_add(&grants, 1u);
  count_grant(takes);
  *h = (held){bound, takes};
}

/* Half of a transaction, and back. */
static void try_and_roll_back(uint32_t *random) {
  nxmem_axes takes;
  const nxmem_request request = some_request(random, &takes);
  nxmem_transaction t;
  if (nxmem_transaction_reserve(scene.manager, &request, &t, NULL) != NXMEM_OK) return;
  count_grant(request.reserve);
  if (takes.charged % 2u == 0u) assert_int_equal(nxmem_transaction_allocate(t, NULL), NXMEM_OK);
  count_end(request.reserve);
  assert_int_equal(nxmem_transaction_rollback(t, NULL, NULL), NXMEM_OK);
}

static void work(uint32_t number) {
  uint32_t random = (number + 1u) * 77u + 1u;
  held mine[HELD] = {{{{0}, 0, NULL, 0, 0}, {0, 0, 0}}};
  for (int i = 0; i < ROUNDS; i++) {
    held *h = &mine[next_random(&random) % HELD];
    nx_crowd_step();
    if (h->bound.id != 0)
      give_back(h);
    else if (next_random(&random) % 4u == 0u)
      try_and_roll_back(&random);
    else
      take(h, &random);
  }
  for (int i = 0; i < HELD; i++) give_back(&mine[i]);
}

static void in_the_plugin(nx_place_inside place) {
  if (place == NX_IN_ALLOCATE || place == NX_IN_RELEASE_ALLOCATION) nx_crowd_inside();
}

static void run(nx_crowd_fn doing, nx_crowd_fn beside) {
  for (int i = 0; i < 3; i++) {
    atomic_store(&granted[i].now, 0);
    atomic_store(&granted[i].most, 0);
  }
  atomic_store(&refusals, 0);
  atomic_store(&grants, 0);
  puppet.concurrent = 1;
  puppet.inside = in_the_plugin;
  nx_crowd(THREADS, doing, beside);
  puppet.inside = NULL;
  assert_true(nx_crowd_most_inside() > 1);
  assert_true(atomic_load(&refusals) != 0);
  assert_true(atomic_load(&grants) != 0);
  assert_true(nx_books_now(&scene).refusals >= atomic_load(&refusals));
}

static void look(uint32_t number) {
  (void)number;
  for (int i = 0; i < LOOKS || nx_crowd_at_work() != 0; i++) {
    const nxmem_snapshot now = nx_books_now(&scene); /* compares every total with its parts */
    assert_true(is_within(now.tiers[NXMEM_TIER_HOST].figures.used, row->limit));
    assert_true(is_within(now.tiers[NXMEM_TIER_HOST].shares, row->limit));
    for (uint32_t a = 0; a < now.authority_count; a++) {
      const nxmem_authority_figures *f = &now.authorities[a];
      assert_true(is_within(f->figures.used, f->budget));
      assert_true(!f->delegated || is_within(f->figures.used, f->slice));
      assert_int_equal(f->figures.quarantined_count, 0);
    }
    (void)sched_yield();
  }
}

static const limit_row limit_rows[] = {
    {"process limit, charged", 3, 0, {ANY, NO_LIMIT, NO_LIMIT}, UNLIMITED, {0, 0, 0}},
    {"process limit, physical", 3, 0, {NO_LIMIT, ANY, NO_LIMIT}, UNLIMITED, {0, 0, 0}},
    {"process limit, mapped", 3, 0, {NO_LIMIT, NO_LIMIT, ANY}, UNLIMITED, {0, 0, 0}},
    {"process limit on all axes", 2, 0, {ANY, ANY, ANY}, UNLIMITED, {0, 0, 0}},
    {"budget of two devices, charged", 2, 1, UNLIMITED, {5000, NO_LIMIT, NO_LIMIT}, {0, 0, 0}},
    {"budget of two devices, physical", 2, 1, UNLIMITED, {NO_LIMIT, 5000, NO_LIMIT}, {0, 0, 0}},
    {"budget of two devices, mapped", 2, 1, UNLIMITED, {NO_LIMIT, NO_LIMIT, 5000}, {0, 0, 0}},
    {"slice, and what is left beside it, charged",
     2,
     0,
     {ANY, NO_LIMIT, NO_LIMIT},
     UNLIMITED,
     {4000, NO_LIMIT / 2, NO_LIMIT / 2}},
    {"slice, and what is left beside it, physical",
     2,
     0,
     {NO_LIMIT, ANY, NO_LIMIT},
     UNLIMITED,
     {NO_LIMIT / 2, 4000, NO_LIMIT / 2}},
    {"slice, and what is left beside it, mapped",
     2,
     0,
     {NO_LIMIT, NO_LIMIT, ANY},
     UNLIMITED,
     {NO_LIMIT / 2, NO_LIMIT / 2, 4000}},
};

static void begin(const limit_row *with) {
  row = with;
  scene = nx_scene_of(row->count, row->shared);
  nx_must_limit(&scene, row->limit);
  nx_must_budget(&scene, 0, row->budget);
  if (row->slice.charged != 0)
    assert_int_equal(nxmem_manager_delegate(scene.manager, scene.authorities[1], &row->slice, NULL), NXMEM_OK);
}

static void test_limit(void **state) {
  begin(*state);
  run(work, look);
  assert_true(is_within(most_granted(), row->limit));
  assert_true(!row->shared || is_within(most_granted(), row->budget)); /* then all are under the first authority */
  nx_scene_end(&scene);
}

/* Up and down. While it is low, nothing is granted above it: what is used is no more than it was when the limit fell, or than the limit. */
static nxmem_axes lowered(nxmem_axes limit) {
  return AXES(limit.charged == ANY ? LOW : NO_LIMIT, limit.physical == ANY ? LOW : NO_LIMIT,
              limit.mapped == ANY ? LOW : NO_LIMIT);
}

static uint64_t higher(uint64_t a, uint64_t b) { return a > b ? a : b; }

static nxmem_axes highest(nxmem_axes a, nxmem_axes b) {
  return AXES(higher(a.charged, b.charged), higher(a.physical, b.physical), higher(a.mapped, b.mapped));
}

static void move_limit(uint32_t number) {
  (void)number;
  const nxmem_axes low = lowered(row->limit);
  for (int i = 0; i < LOOKS || nx_crowd_at_work() != 0; i++) {
    nxmem_axes beyond;
    assert_int_equal(nxmem_manager_set_limit(scene.manager, NXMEM_TIER_HOST, &low, &beyond, NULL), NXMEM_OK);
    nxmem_axes bound = AXES(low.charged + beyond.charged, low.physical + beyond.physical, low.mapped + beyond.mapped);
    for (int n = 0; n < 4; n++) {
      const nxmem_axes used = nx_books_now(&scene).total.used;
      assert_true(is_within(used, bound));
      bound = highest(used, low);
      (void)sched_yield();
    }
    nx_must_limit(&scene, row->limit);
    (void)sched_yield();
  }
}

static const limit_row moving_rows[] = {
    {"limit that moves, charged", 2, 0, {ANY, NO_LIMIT, NO_LIMIT}, UNLIMITED, {0, 0, 0}},
    {"limit that moves, physical", 2, 0, {NO_LIMIT, ANY, NO_LIMIT}, UNLIMITED, {0, 0, 0}},
    {"limit that moves, mapped", 2, 0, {NO_LIMIT, NO_LIMIT, ANY}, UNLIMITED, {0, 0, 0}},
};

static void test_moving_limit(void **state) {
  begin(*state);
  run(work, move_limit);
  assert_true(is_within(most_granted(), row->limit));
  nx_scene_end(&scene);
}

/* ---- Mapped and unmapped while it is held ------------------------------------------------------------------------- */

enum { G = NX_PLAY_GRANULE, GRANULES = 8, LAZY = THREADS + 1, MAPPED = (LAZY + 16) * G };

static nxmem_bound lazy[LAZY]; /* each thread's own; the last is everybody's */
static _Atomic uint64_t mapped_too_much;

static uint64_t mapped_by_plugin(void) {
  pthread_mutex_lock(&play.lock);
  const uint64_t mapped = nx_play_mapped();
  pthread_mutex_unlock(&play.lock);
  return mapped;
}

static void in_the_backing(nx_play_slot slot) {
  if (slot == NX_PLAY_COST || slot == NX_PLAY_COMMIT || slot == NX_PLAY_DECOMMIT) nx_crowd_inside();
}

static void map_some(const nxmem_bound *bound, NxmemByteRange range) {
  const nxmem_result r = nxmem_bound_commit(bound, range, NULL);
  assert_true(r == NXMEM_OK || r == NXMEM_ERR_OVER_LIMIT);
  atomic_fetch_add(r == NXMEM_OK ? &grants : &refusals, 1u);
  if (mapped_by_plugin() > MAPPED) atomic_fetch_add(&mapped_too_much, 1u);
}

static void map_and_unmap(uint32_t number) {
  uint32_t random = (number + 1u) * 99u + 1u;
  for (int i = 0; i < ROUNDS; i++) {
    const nxmem_bound *bound = &lazy[next_random(&random) % 4u == 0u ? LAZY - 1 : (int)number];
    const uint64_t first = next_random(&random) % GRANULES, count = 1u + next_random(&random) % (GRANULES - first);
    const NxmemByteRange range = {first * G, count * G};
    nx_crowd_step();
    if (next_random(&random) % 2u == 0u)
      map_some(bound, range);
    else
      assert_int_equal(nxmem_bound_decommit(bound, range, NULL, NULL), NXMEM_OK);
  }
}

static nxmem_bound one_lazy(void) {
  static const NxmemByteRange first = {0, G};
  static const nxmem_allocate_options options = {.committed_ranges = &first, .committed_range_count = 1};
  nxmem_request request = nx_request(&scene, 0, 7, G, G);
  request.bytes = GRANULES * G;
  request.align = G;
  request.options = &options;
  return nx_must_grant(&scene, &request, NULL);
}

/* Never is more mapped than the limit leaves; and behind the last call that is alone, the books have what the plugin has. */
static void test_mapped_while_held(void **state) {
  static const limit_row mapped = {"", 1, 0, {NO_LIMIT, NO_LIMIT, MAPPED}, UNLIMITED, {0, 0, 0}};
  (void)state;
  row = &mapped;
  scene = nx_scene_lazy();
  nx_must_limit(&scene, row->limit);
  for (int i = 0; i < LAZY; i++) lazy[i] = one_lazy();
  atomic_store(&mapped_too_much, 0);
  play.inside = in_the_backing;
  run(map_and_unmap, look);
  play.inside = NULL;
  assert_int_equal(atomic_load(&mapped_too_much), 0);
  for (int i = 0; i < LAZY; i++)
    assert_int_equal(nxmem_bound_decommit(&lazy[i], (NxmemByteRange){0, G}, NULL, NULL), NXMEM_OK);
  nx_assert_used(&scene, AXES(LAZY * 7, LAZY * G, mapped_by_plugin()));
  for (int i = 0; i < LAZY; i++) nx_must_give_back(&lazy[i]);
  nx_scene_end(&scene);
}

/* ---- Releases ------------------------------------------------------------------------------------------------------ */

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
  nx_suite_rows(&suite, ROWS(limit_rows), test_limit);
  nx_suite_rows(&suite, ROWS(moving_rows), test_moving_limit);
  nx_suite_add(&suite, "8 threads that map and unmap what they hold", test_mapped_while_held, NULL);
  nx_suite_add(&suite, "8 releases of one allocation", test_racing_releases, NULL);
  return nx_suite_run(&suite, "manager threads");
}
