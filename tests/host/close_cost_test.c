/*
 * close_cost_test.c: what a close looks at beside many allocations and prefixes of others. Linked with the host's objects, so that the records it looks at can be
 * counted.
 *
 * Attackers played: an allocator that fills the tables; a plugin that keeps what is handed back.
 * Promise: a close looks at what is its allocator's own, wherever the others stand; what it forgets is used again.
 */
#define _GNU_SOURCE
#include <unistd.h>

#include "objects.h"
#include "puppet_backing.h"

nx_slot *__real_nx_table_at(nx_table *table, uint32_t index);
nx_slot *__wrap_nx_table_at(nx_table *table, uint32_t index);

static int counting;
static uint64_t looked_at; /* records and prefixes */

nx_slot *__wrap_nx_table_at(nx_table *table, uint32_t index) {
  looked_at += (uint64_t)(counting && table != &nx_modules && table != &nx_allocators && table != &nx_hosts);
  return __real_nx_table_at(table, index);
}

static uint64_t looks_of_close(nxmem_allocator allocator, uint32_t flags) {
  looked_at = 0;
  counting = 1;
  const nxmem_result r = nxmem_allocator_close(allocator, flags, NULL);
  counting = 0;
  assert_int_equal(r, NXMEM_OK);
  return looked_at;
}

/* All on one stage: `other` has many of everything, `own` little. */
enum { MANY = 3000, FEW = 7, KEPT_BYTES = 96 };
static nx_stage stage;
static nxmem_allocator own;
static nxmem_allocation many[MANY];
static nxmem_prefix prefixes[MANY];

static void take_many(int from, int to) {
  for (int i = from; i < to; i++) many[i] = nx_must_allocate(stage.allocator, 8, 8);
}

static void take_few(void) {
  for (int i = 0; i < FEW; i++) (void)nx_must_allocate(own, KEPT_BYTES, 8);
}

/* Memory that is kept: no other address may be the same. */
enum { GRAVES = 8192 };
static void *grave[GRAVES];
static uint32_t graves;

static void empty_graves(void) {
  while (graves > 0) free(grave[--graves]);
}

static void keep_few(void) {
  nxmem_allocation few[FEW];
  for (int i = 0; i < FEW; i++) few[i] = nx_must_allocate(own, KEPT_BYTES, 8);
  play.release_code = NXMEM_STATUS_RELEASE_QUARANTINED;
  puppet.own_release = 1;
  puppet.release_answer = nx_puppet_status(NXMEM_STATUS_RELEASE_QUARANTINED);
  for (int i = 0; i < FEW; i++) {
    assert_int_equal(nxmem_release(own, few[i], NULL, NULL), NXMEM_ERR_QUARANTINED);
    assert_true(graves < GRAVES);
    grave[graves++] = few[i].ptr; /* the puppet does not know it any more */
  }
  puppet.own_release = 0;
  play.release_code = NXMEM_STATUS_OK;
}

typedef struct cost_row {
  const char *name;
  nx_modes modes;
  void (*arrange)(void);
  int many_first; /* how many of the others come before what is closed, in the tables */
  uint32_t flags;
  uint64_t most;
  uint64_t kept;
} cost_row;

static const cost_row cost_rows[] = {
    {"nothing", NX_GUARDED_ONLY, NULL, MANY, 0, 0, 0},
    {"nothing, with a hand-back", NX_GUARDED_ONLY, NULL, MANY, NXMEM_CLOSE_RELEASE_LIVE, 0, 0},
    {"some are quarantined, behind all others", NX_GUARDED_ONLY, keep_few, MANY, 0, FEW, FEW},
    {"some are quarantined, among the others", NX_GUARDED_ONLY, keep_few, MANY / 2, 0, FEW, FEW},
    {"some are live, before all others", NX_GUARDED_ONLY, take_few, 0, NXMEM_CLOSE_RELEASE_LIVE, 4 * NX_CACHE, 0},
    {"some are live, behind all others", NX_GUARDED_ONLY, take_few, MANY, NXMEM_CLOSE_RELEASE_LIVE, 4 * NX_CACHE, 0},
};

static void test_cost(void **state) {
  const nx_case *c = *state;
  const cost_row *row = c->row;
  nx_puppet_reset();
  stage = nx_stage_set(c->mode);
  own = nx_must_open_mechanism(stage.plugin, "puppet");
  take_many(0, row->many_first);
  if (row->arrange != NULL) row->arrange();
  take_many(row->many_first, MANY);
  const uint32_t records = atomic_load(&nx_allocations.count);
  assert_in_range(looks_of_close(own, row->flags), 0, row->most);
  assert_int_equal(nx_counts(stage.host).live_allocations, MANY);
  assert_int_equal(nx_counts(stage.host).quarantined, row->kept);
  assert_int_equal(nx_counts(stage.host).owned_bytes, MANY * 8 + row->kept * KEPT_BYTES);
  for (int i = 0; i < FEW; i++) nx_must_release(stage.allocator, nx_must_allocate(stage.allocator, 8, 8));
  for (int i = 0; i < MANY; i++) nx_must_release(stage.allocator, many[i]);
  take_many(0, MANY); /* in the records that there were */
  assert_int_equal(atomic_load(&nx_allocations.count), records);
  for (int i = 0; i < MANY; i++) nx_must_release(stage.allocator, many[i]);
  nx_must_close(stage.allocator);
  if (row->kept != 0)
    nx_force_leak(stage.host, stage.plugin, stage.path);
  else
    nx_must_unload(stage.plugin, stage.path);
  nx_host_gone(stage.host);
  empty_graves();
}

/* Each close forgets its records, whoever closes first: the table does not grow with what was ever quarantined. */
static void test_forgets(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  stage = nx_stage_set(c->mode);
  uint32_t records = 0;
  for (int i = 0; i < 300; i++) {
    nxmem_allocator second = nx_must_open_mechanism(stage.plugin, "puppet");
    own = second;
    keep_few();
    own = nx_must_open_mechanism(stage.plugin, "puppet");
    keep_few();
    nx_must_close(i % 2 == 0 ? own : second);
    nx_must_close(i % 2 == 0 ? second : own);
    if (i == 3) records = atomic_load(&nx_allocations.count);
  }
  assert_int_equal(atomic_load(&nx_allocations.count), records);
  assert_int_equal(nx_counts(stage.host).quarantined, 2 * 300 * FEW);
  assert_int_equal(nx_counts(stage.host).owned_bytes, 2 * 300 * FEW * KEPT_BYTES);
  nx_must_close(stage.allocator);
  nx_force_leak(stage.host, stage.plugin, stage.path);
  nx_host_gone(stage.host);
  empty_graves();
}

/* A release that is quarantined behind the close: its record is forgotten by whoever settles it. */
static void test_late(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  puppet.idle_drain = 1;
  stage = nx_stage_set(c->mode);
  uint64_t before = 0; /* the allocation of the round before */
  enum { ROUNDS = 2 * NX_CACHE };
  for (int i = 0; i < ROUNDS; i++) {
    own = nx_must_open_mechanism(stage.plugin, "puppet");
    const nxmem_allocation queued = nx_must_allocate(own, KEPT_BYTES, 8);
    assert_int_equal(nxmem_enqueue_release(own, queued, NULL, NULL, NULL), NXMEM_OK);
    nx_must_close(own);
    nx_puppet_queued first;
    assert_true(nx_puppet_pop(&first));
    NxmemReleaseCompletion completion = nx_puppet_completion(&first);
    completion.outcome.state = NXMEM_RELEASE_QUARANTINED;
    assert_int_equal(nx_puppet_complete(&completion), NXMEM_STATUS_OK);
    assert_true(graves < GRAVES);
    grave[graves++] = queued.ptr;
    if (i != 0) assert_int_equal((uint32_t)queued.id, (uint32_t)before); /* the record that was given back last */
    assert_int_not_equal(queued.id, before);
    before = queued.id;
  }
  assert_int_equal(nx_counts(stage.host).quarantined, ROUNDS);
  nx_must_close(stage.allocator);
  nx_force_leak(stage.host, stage.plugin, stage.path);
  nx_host_gone(stage.host);
  empty_graves();
}

/* ---- Prefixes ---------------------------------------------------------------------------------------------------- */

static void make_prefixes(nxmem_allocator allocator, int from, int to) {
  for (int i = from; i < to; i++)
    assert_int_equal(nxmem_prefix_create(allocator, NX_PLAY_GRANULE, &prefixes[i], NULL), NXMEM_OK);
}

typedef struct prefix_row {
  const char *name;
  nx_modes modes;
  int kept; /* quarantined before the close; else one is live and handed back */
  uint64_t most;
} prefix_row;

static const prefix_row prefix_rows[] = {
    {"a live prefix, before many of another", NX_GUARDED_ONLY, 0, 8},
    {"a quarantined prefix, behind many of another", NX_GUARDED_ONLY, 1, 1},
};

static void test_prefixes(void **state) {
  const nx_case *c = *state;
  const prefix_row *row = c->row;
  nx_play_reset();
  stage = nx_stage_set(c->mode);
  own = nx_must_open_mechanism(stage.plugin, "puppet");
  nxmem_prefix one;
  if (!row->kept) assert_int_equal(nxmem_prefix_create(own, NX_PLAY_GRANULE, &one, NULL), NXMEM_OK);
  make_prefixes(stage.allocator, 0, MANY);
  if (row->kept) {
    assert_int_equal(nxmem_prefix_create(own, NX_PLAY_GRANULE, &one, NULL), NXMEM_OK);
    play.release_prefix_code = NXMEM_STATUS_RELEASE_QUARANTINED;
    assert_int_equal(nxmem_prefix_release(one, NULL), NXMEM_ERR_QUARANTINED);
    play.release_prefix_code = NXMEM_STATUS_OK;
  }
  assert_int_equal(nx_counts(stage.host).live_prefixes, MANY + !row->kept);
  assert_in_range(looks_of_close(own, NXMEM_CLOSE_RELEASE_LIVE), 0, row->most);
  assert_int_equal(nxmem_prefix_release(one, NULL), NXMEM_ERR_STALE_HANDLE);
  assert_int_equal(nx_counts(stage.host).live_prefixes, MANY);
  for (int i = 0; i < MANY; i++) assert_int_equal(nxmem_prefix_release(prefixes[i], NULL), NXMEM_OK);
  assert_int_equal(nx_counts(stage.host).live_prefixes, 0);
  nx_must_close(stage.allocator);
  if (row->kept)
    nx_force_leak(stage.host, stage.plugin, stage.path);
  else
    nx_must_unload(stage.plugin, stage.path);
  nx_host_gone(stage.host);
  empty_graves();
}

static const nx_row_head forgets_rows[] = {{"what is quarantined, and forgotten at each close", NX_GUARDED_ONLY}};
static const nx_row_head late_rows[] = {{"quarantined behind the close", NX_GUARDED_ONLY}};

int main(void) {
  alarm(120);
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(prefix_rows), test_prefixes); /* first: no prefix was there before */
  nx_suite_modes(&suite, ROWS(cost_rows), test_cost);
  nx_suite_modes(&suite, ROWS(forgets_rows), test_forgets);
  nx_suite_modes(&suite, ROWS(late_rows), test_late);
  return nx_suite_run(&suite, "host_close_cost");
}
