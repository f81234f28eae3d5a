/*
 * stress_test.c: everything at once: eight threads register, select, bind, allocate, release, prepare, abandon, queue, drop, retire, lose, confirm and remove.
 *
 * Attackers played: all of them, in whatever order the scheduler finds.
 * Promise: at the end every allocation that the plugin made was given back once or kept once, every allocator was released once, and nothing is left in any book.
 */
#include "crowd.h"
#include "registrytest.h"

enum { THREADS = 8, STEPS = 1500, PLACES = 4, HELD = 8, BLOCKS = 1 << 16, BLOCK = 64 };

/* ---- The plugin: blocks that know whether they are out ------------------------------------------------------------ */

static _Alignas(BLOCK) uint8_t memory[BLOCKS][BLOCK];
static _Atomic uint8_t out[BLOCKS];
static _Atomic uint64_t next_block, given, returned, wrong_releases;

static NxmemStatus give_block(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result) {
  (void)ctx;
  (void)request;
  nx_crowd_inside();
  for (uint32_t tries = 0; tries < BLOCKS; tries++) {
    const uint64_t i = atomic_fetch_add(&next_block, 1) % BLOCKS;
    uint8_t free_block = 0;
    if (!atomic_compare_exchange_strong(&out[i], &free_block, 1)) continue;
    atomic_fetch_add(&given, 1);
    result->ptr = memory[i];
    result->owned_bytes = result->mapped_bytes = BLOCK;
    return nx_puppet_status(NXMEM_STATUS_OK);
  }
  return nx_puppet_status(NXMEM_STATUS_OUT_OF_MEMORY);
}

/* One in sixteen is refused, one in sixteen kept: then it stays out for good. */
static NxmemStatus take_block(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *outcome) {
  (void)ctx;
  const uint64_t i = (uint64_t)((uint8_t *)allocation->ptr - memory[0]) / BLOCK;
  nx_crowd_inside();
  outcome->allocation_bytes = BLOCK;
  outcome->unmapped_bytes = 0;
  outcome->residual_owned_bytes = 0;
  const uint64_t turn = allocation->allocation_id % 16;
  if (turn == 3) return nx_puppet_status(NXMEM_STATUS_DEVICE_ERROR);
  if (turn == 7) {
    outcome->state = NXMEM_RELEASE_QUARANTINED;
    outcome->residual_owned_bytes = BLOCK;
    return nx_puppet_status(NXMEM_STATUS_OK);
  }
  uint8_t is_out = 1;
  if (i >= BLOCKS || !atomic_compare_exchange_strong(&out[i], &is_out, 0)) atomic_fetch_add(&wrong_releases, 1);
  atomic_fetch_add(&returned, 1);
  outcome->state = NXMEM_RELEASE_COMPLETE;
  outcome->unmapped_bytes = BLOCK;
  return nx_puppet_status(NXMEM_STATUS_OK);
}

/* ---- The threads --------------------------------------------------------------------------------------------------- */

static nx_play play;
static _Atomic uint64_t places[PLACES]; /* mechanisms */
static nxmem_release_queue queue;
static _Atomic uint64_t kept_at_removal, given_back, surprises;

typedef struct hand {
  uint64_t random;
  nxmem_binding bindings[HELD];
  nxmem_bound bounds[HELD];
  nxmem_prepared prepared[HELD];
} hand;

static uint64_t draw(hand *h, uint64_t below) {
  h->random ^= h->random << 13;
  h->random ^= h->random >> 7;
  h->random ^= h->random << 17;
  return h->random % below;
}

/* A result that no order of the steps explains. */
static void expect(int known) {
  if (!known) atomic_fetch_add(&surprises, 1);
}

static int is_end(nxmem_result r) {
  return r == NXMEM_ERR_RETIRED || r == NXMEM_ERR_DEVICE_LOST || r == NXMEM_ERR_TERMINATED ||
         r == NXMEM_ERR_STALE_HANDLE || r == NXMEM_ERR_BUSY;
}

static void register_one(hand *h) {
  _Atomic uint64_t *place = &places[draw(h, PLACES)];
  if (atomic_load(place) != 0) return;
  nxmem_mechanism m = {0};
  const nxmem_open_options options = {.mechanism = "puppet"};
  if (nxmem_mechanism_register(play.context, play.authority, play.plugin, &options, &m, NULL) != NXMEM_OK) return;
  uint64_t none = 0;
  if (atomic_compare_exchange_strong(place, &none, m.id)) return;
  expect(nxmem_mechanism_retire(m, NULL) ==
         NXMEM_OK); /* somebody was faster; nobody knows this one, unless it was selected */
  nxmem_result r = nxmem_mechanism_remove(m, NULL, NULL);
  while (r == NXMEM_ERR_BUSY) r = nxmem_mechanism_remove(m, NULL, NULL);
  expect(r == NXMEM_OK);
}

static nxmem_mechanism some(hand *h) { return (nxmem_mechanism){atomic_load(&places[draw(h, PLACES)])}; }

static void remove_one(hand *h) {
  _Atomic uint64_t *place = &places[draw(h, PLACES)];
  const nxmem_mechanism m = {atomic_load(place)};
  nxmem_mechanism_state s;
  if (nxmem_mechanism_get_state(m, &s, NULL) != NXMEM_OK) return;
  /* What is quarantined when it goes was quarantined before: nothing is made or released in it any more. */
  if (s.lifecycle == NXMEM_LIFECYCLE_ACTIVE || s.holdings.live + s.holdings.prepared + s.holdings.bindings != 0) return;
  if (nxmem_mechanism_remove(m, NULL, NULL) != NXMEM_OK) return;
  atomic_fetch_add(&kept_at_removal, s.holdings.quarantined);
  atomic_store(place, 0);
}

static void end_one(hand *h) {
  const nxmem_mechanism m = some(h);
  nxmem_result r = NXMEM_OK;
  switch (draw(h, 3)) {
    case 0:
      r = nxmem_mechanism_retire(m, NULL);
      break;
    case 1:
      r = nxmem_mechanism_lose(m, NULL, NULL);
      break;
    default:
      r = nxmem_mechanism_confirm_terminated(m, NULL);
      break;
  }
  expect(r == NXMEM_OK || r == NXMEM_ERR_INVALID_ARGUMENT || is_end(r));
}

static void bind_one(hand *h) {
  nxmem_binding *b = &h->bindings[draw(h, HELD)];
  if (b->id != 0) {
    for (int i = 0; i < HELD; i++)
      if (h->bounds[i].binding.id == b->id && h->bounds[i].id != 0) return;
    const uint32_t flags = draw(h, 4) == 0 ? NXMEM_END_DROP : 0;
    const nxmem_result r = nxmem_binding_end(*b, flags, NULL);
    expect(r == NXMEM_OK || (flags == 0 && r == NXMEM_ERR_BUSY));
    if (r == NXMEM_OK) b->id = 0;
    return;
  }
  const nxmem_result r =
      draw(h, 2) == 0 ? nxmem_bind(play.registry, nx_device_0, b, NULL) : nxmem_bind_mechanism(some(h), b, NULL);
  expect(r == NXMEM_OK || r == NXMEM_ERR_UNKNOWN_MECHANISM || is_end(r));
}

static void allocate_one(hand *h) {
  const nxmem_binding b = h->bindings[draw(h, HELD)];
  nxmem_bound *bound = &h->bounds[draw(h, HELD)];
  if (b.id == 0 || bound->id != 0) return;
  const nxmem_result r = nxmem_bound_allocate(b, BLOCK, BLOCK, NULL, bound, NULL);
  expect(r == NXMEM_OK || r == NXMEM_ERR_PLUGIN || is_end(r));
}

/* What became of one that is this thread's alone. */
static void note(nxmem_result r) {
  if (r == NXMEM_OK)
    atomic_fetch_add(&given_back, 1);
  else
    expect(r == NXMEM_ERR_QUARANTINED || r == NXMEM_ERR_DEVICE_LOST || r == NXMEM_ERR_TERMINATED ||
           r == NXMEM_ERR_UNKNOWN_ALLOCATION);
}

static void release_one(hand *h) {
  nxmem_bound *bound = &h->bounds[draw(h, HELD)];
  nxmem_prepared *p = &h->prepared[draw(h, HELD)];
  if (bound->id == 0) return;
  if (p->id != 0 || draw(h, 2) == 0) {
    note(nxmem_bound_release(bound, NULL));
  } else {
    const nxmem_result r = nxmem_bound_prepare(bound, p, NULL);
    expect(r == NXMEM_OK || r == NXMEM_ERR_DEVICE_LOST || r == NXMEM_ERR_TERMINATED ||
           r == NXMEM_ERR_UNKNOWN_ALLOCATION);
  }
  bound->id = 0;
}

static void settle_one(hand *h) {
  nxmem_prepared *p = &h->prepared[draw(h, HELD)];
  if (p->id == 0) return;
  switch (draw(h, 4)) {
    case 0:
      expect(nxmem_prepared_abandon(*p, NULL) == NXMEM_OK);
      break;
    case 1:
      if (nxmem_release_queue_push(queue, *p, NULL) != NXMEM_OK) return;
      break;
    default:
      note(nxmem_prepared_execute(*p, NULL));
      break;
  }
  p->id = 0;
}

static void drain_some(hand *h) {
  nxmem_drained drained = {0, 0, 0};
  expect(nxmem_release_queue_drain(queue, 1 + draw(h, 4), &drained, NULL) == NXMEM_OK);
  atomic_fetch_add(&given_back, drained.completed);
}

static void select_one(hand *h) {
  const nxmem_result r = nxmem_mechanism_select(some(h), NULL);
  expect(r == NXMEM_OK || is_end(r));
}

static void look(hand *h) {
  nxmem_registry_counts counts;
  nxmem_kept kept[4];
  uint32_t count = 0;
  expect(nxmem_registry_count(play.registry, &counts, NULL) == NXMEM_OK);
  const nxmem_result r = nxmem_mechanism_quarantine(some(h), 0, kept, 4, &count, NULL, NULL);
  expect(r == NXMEM_OK || is_end(r));
}

static void (*const moves[])(hand *) = {register_one, register_one, select_one,  bind_one,    bind_one,   allocate_one,
                                        allocate_one, allocate_one, release_one, release_one, settle_one, settle_one,
                                        drain_some,   end_one,      remove_one,  remove_one};

static void let_go(hand *h) {
  for (int i = 0; i < HELD; i++) {
    if (h->bounds[i].id != 0) note(nxmem_bound_release(&h->bounds[i], NULL));
    if (h->prepared[i].id != 0) note(nxmem_prepared_execute(h->prepared[i], NULL));
  }
  for (int i = 0; i < HELD; i++)
    if (h->bindings[i].id != 0) expect(nxmem_binding_end(h->bindings[i], NXMEM_END_DROP, NULL) == NXMEM_OK);
}

static void work(uint32_t number) {
  hand h = {.random = 0x9E3779B97F4A7C15ull * (1u + (uint64_t)number)};
  for (int step = 0; step < STEPS; step++) {
    nx_crowd_step();
    if (step % 64 == 0) look(&h);
    moves[draw(&h, sizeof moves / sizeof moves[0])](&h);
  }
  let_go(&h);
}

static void remove_all(void) {
  for (int i = 0; i < PLACES; i++) {
    const nxmem_mechanism m = {atomic_load(&places[i])};
    if (m.id == 0) continue;
    const nxmem_mechanism_state s = nx_state_of(m);
    assert_int_equal(s.holdings.live, 0);
    assert_int_equal(s.holdings.prepared, 0);
    assert_int_equal(s.holdings.bindings, 0);
    atomic_fetch_add(&kept_at_removal, s.holdings.quarantined);
    if (s.holdings.quarantined != 0 || s.lifecycle >= NXMEM_LIFECYCLE_DEVICE_LOST)
      nx_must_bury(m);
    else
      nx_must_go(m);
  }
}

static void test_stress(void **state) {
  (void)state;
  play = nx_play_set();
  puppet.concurrent = 1;
  puppet.table.allocate = give_block;
  puppet.table.release_allocation = take_block;
  MUST(nxmem_release_queue_create(play.registry, 32, &queue, &error));
  nx_crowd(THREADS, work, NULL);
  assert_true(nx_crowd_most_inside() > 1);
  nxmem_drained drained;
  MUST(nxmem_release_queue_drain(queue, UINT64_MAX, &drained, &error));
  atomic_fetch_add(&given_back, drained.completed);
  MUST(nxmem_release_queue_destroy(queue, NULL, &error));
  assert_int_equal(atomic_load(&surprises), 0);
  assert_int_equal(atomic_load(&wrong_releases), 0);
  remove_all();
  assert_int_not_equal(atomic_load(&given), 0);
  assert_int_not_equal(atomic_load(&kept_at_removal), 0);
  assert_int_not_equal(atomic_load(&given_back), 0);
  assert_int_equal(atomic_load(&given), atomic_load(&given_back) + atomic_load(&kept_at_removal));
  const nxmem_host_counts counts = nx_counts(play.host);
  assert_int_equal(counts.live_allocations, 0);
  assert_int_equal(counts.quarantined, 0);
  assert_int_equal(counts.owned_bytes, 0);
  assert_int_equal(counts.mapped_bytes, 0);
  assert_int_equal(counts.contract_violations, 0);
  assert_int_equal(counts.open_allocators, 0);
  nx_play_strike(&play);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_add(&suite, "eight threads, everything at once", test_stress, NULL);
  return nx_suite_run(&suite, "registry stress");
}
