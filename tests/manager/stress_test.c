/*
 * stress_test.c: registry and manager at once: eight threads allocate under limits that move, release, abandon, select, retire, lose, confirm, remove and register again.
 *
 * Attackers played: all of them, in whatever order the scheduler finds; a plugin that refuses one release in sixteen.
 * Promise: no order of the steps leaves a byte in the books that nobody has, or takes one out that somebody has; at the end they are empty.
 */
#include <sched.h>

#include "crowd.h"
#include "managertest.h"

enum {
  THREADS = 8,
  STEPS = 1000,
  PLACES = 4,
  HELD = 4,
  BLOCKS = 1 << 14,
  BLOCK = 64,
  LIMIT = 3000,
  PHYSICAL = 12 * BLOCK,
  MAPPED = 10 * BLOCK
};

/* ---- The plugin ------------------------------------------------------------------------------------------------------ */

static _Alignas(BLOCK) uint8_t memory[BLOCKS][BLOCK];
static _Atomic uint8_t out[BLOCKS];
static _Atomic uint64_t next_block;

static NxmemStatus give_block(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result) {
  (void)ctx;
  (void)request;
  nx_crowd_inside();
  for (uint32_t tries = 0; tries < BLOCKS; tries++) {
    const uint64_t i = atomic_fetch_add(&next_block, 1) % BLOCKS;
    uint8_t free_block = 0;
    if (!atomic_compare_exchange_strong(&out[i], &free_block, 1)) continue;
    result->ptr = memory[i];
    result->owned_bytes = i % 3 == 0 ? 2 * BLOCK : BLOCK; /* more than was reserved, now and then */
    result->mapped_bytes = BLOCK;
    return nx_puppet_status(NXMEM_STATUS_OK);
  }
  return nx_puppet_status(NXMEM_STATUS_OUT_OF_MEMORY);
}

static NxmemStatus take_block(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *outcome) {
  (void)ctx;
  const uint64_t i = (uint64_t)((uint8_t *)allocation->ptr - memory[0]) / BLOCK;
  nx_crowd_inside();
  if (allocation->allocation_id % 16 == 3) return nx_puppet_status(NXMEM_STATUS_DEVICE_ERROR);
  outcome->state = NXMEM_RELEASE_COMPLETE;
  outcome->allocation_bytes = BLOCK;
  outcome->unmapped_bytes = BLOCK;
  outcome->residual_owned_bytes = 0;
  atomic_store(&out[i % BLOCKS], 0);
  return nx_puppet_status(NXMEM_STATUS_OK);
}

/* ---- The threads ------------------------------------------------------------------------------------------------------ */

static nx_scene scene;
static _Atomic uint64_t places[PLACES];                 /* mechanisms */
static _Atomic uint64_t surprises, granted, refused[3]; /* refused: by axis */

typedef struct hand {
  uint64_t random;
  nxmem_bound bounds[HELD];
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

static nxmem_mechanism some(hand *h) { return (nxmem_mechanism){atomic_load(&places[draw(h, PLACES)])}; }

static void register_one(hand *h) {
  _Atomic uint64_t *place = &places[draw(h, PLACES)];
  nxmem_mechanism m = {0};
  uint64_t none = 0;
  const nxmem_open_options options = {.mechanism = "puppet"};
  if (atomic_load(place) != 0) return;
  if (nxmem_mechanism_register(scene.context, scene.authorities[0], scene.plugin, &options, &m, NULL) != NXMEM_OK)
    return;
  if (atomic_compare_exchange_strong(place, &none, m.id)) return;
  expect(nxmem_mechanism_retire(m, NULL) == NXMEM_OK);
  while (nxmem_mechanism_remove(m, NULL, NULL) == NXMEM_ERR_BUSY) /* whoever bound to it lets go */
    (void)sched_yield();
}

/* Bound for this one allocation: the binding ends when that has settled. */
static void allocate_one(hand *h) {
  nxmem_bound *bound = &h->bounds[draw(h, HELD)];
  nxmem_binding binding;
  if (bound->id != 0 || nxmem_bind_mechanism(some(h), &binding, NULL) != NXMEM_OK) return;
  const nxmem_request request = {.authority = scene.authorities[0],
                                 .binding = binding,
                                 .bytes = BLOCK,
                                 .align = BLOCK,
                                 .reserve = {1 + draw(h, 300), BLOCK, BLOCK}};
  nxmem_error error;
  const nxmem_result r = nxmem_manager_allocate(scene.manager, &request, bound, NULL, NULL, &error);
  if (r == NXMEM_ERR_OVER_LIMIT) atomic_fetch_add(&refused[error.field % 3], 1);
  expect(r == NXMEM_OK || r == NXMEM_ERR_OVER_LIMIT || r == NXMEM_ERR_PLUGIN || is_end(r));
  if (r == NXMEM_OK)
    atomic_fetch_add(&granted, 1);
  else
    expect(nxmem_binding_end(binding, NXMEM_END_DROP, NULL) == NXMEM_OK);
}

static void let_go(nxmem_bound *bound, int abandons) {
  nxmem_prepared prepared;
  if (bound->id == 0) return;
  nxmem_result r = abandons ? nxmem_bound_prepare(bound, &prepared, NULL) : nxmem_bound_release(bound, NULL);
  if (abandons && r == NXMEM_OK) r = nxmem_prepared_abandon(prepared, NULL);
  expect(r == NXMEM_OK || r == NXMEM_ERR_QUARANTINED || r == NXMEM_ERR_UNKNOWN_ALLOCATION ||
         r == NXMEM_ERR_DEVICE_LOST || r == NXMEM_ERR_TERMINATED);
  expect(nxmem_binding_end(bound->binding, NXMEM_END_DROP, NULL) == NXMEM_OK);
  bound->id = 0;
}

static void release_one(hand *h) { let_go(&h->bounds[draw(h, HELD)], draw(h, 16) == 0); }

static void end_one(hand *h) {
  const nxmem_mechanism m = some(h);
  const uint64_t how = draw(h, 4);
  nxmem_result r = NXMEM_OK;
  if (how == 0) r = nxmem_mechanism_retire(m, NULL);
  if (how == 1) r = nxmem_mechanism_lose(m, NULL, NULL);
  if (how == 2) r = nxmem_mechanism_confirm_terminated(m, NULL);
  if (how == 3) r = nxmem_mechanism_select(m, NULL);
  expect(r == NXMEM_OK || r == NXMEM_ERR_INVALID_ARGUMENT || is_end(r));
}

static void remove_one(hand *h) {
  _Atomic uint64_t *place = &places[draw(h, PLACES)];
  const nxmem_mechanism m = {atomic_load(place)};
  if (m.id != 0 && nxmem_mechanism_remove(m, NULL, NULL) == NXMEM_OK) atomic_store(place, 0);
}

/* Now and then one axis is scarcer than the others. */
static void move_limit(hand *h) {
  const uint64_t scarce = draw(h, 4);
  const nxmem_axes limit = {scarce == 0 ? LIMIT / 3 : LIMIT, scarce == 1 ? PHYSICAL / 3 : PHYSICAL,
                            scarce == 2 ? MAPPED / 3 : MAPPED};
  expect(nxmem_manager_set_limit(scene.manager, NXMEM_TIER_HOST, &limit, NULL, NULL) == NXMEM_OK);
}

/* Physical bytes are above the limit only where the plugin kept what a commit was refused for; as many are mapped and charged as were reserved. */
static int is_granted(const nxmem_figures *f) {
  return f->used.charged <= LIMIT && f->used.mapped <= MAPPED && f->reserved.physical + f->live.physical <= PHYSICAL;
}

static int is_sum(const nxmem_figures *f) {
  return f->used.charged == f->reserved.charged + f->live.charged + f->quarantined.charged &&
         f->used.physical == f->reserved.physical + f->live.physical + f->quarantined.physical &&
         f->used.mapped == f->reserved.mapped + f->live.mapped + f->quarantined.mapped;
}

static void look(hand *h) {
  nxmem_mechanism_figures rows[64];
  nxmem_snapshot now = {.mechanisms = rows, .mechanism_room = 64};
  uint64_t charged = 0;
  (void)h;
  expect(nxmem_manager_snapshot(scene.manager, &now, NULL) == NXMEM_OK);
  for (uint32_t i = 0; i < now.mechanism_count && i < 64; i++) charged += rows[i].figures.used.charged;
  expect(now.bugs == 0 && is_sum(&now.total) && is_granted(&now.total));
  expect(now.tiers[NXMEM_TIER_HOST].shares.charged <= LIMIT && now.tiers[NXMEM_TIER_HOST].shares.mapped <= MAPPED);
  expect(now.mechanism_count > 64 || charged == now.total.used.charged);
}

static void (*const moves[])(hand *) = {
    register_one, register_one, allocate_one, allocate_one, allocate_one, allocate_one, allocate_one, allocate_one,
    release_one,  release_one,  release_one,  release_one,  end_one,      remove_one,   remove_one,   move_limit};

static void work(uint32_t number) {
  hand h = {.random = 0x9E3779B97F4A7C15ull * (1u + (uint64_t)number)};
  for (int step = 0; step < STEPS; step++) {
    nx_crowd_step();
    if (step % 32 == 0) look(&h);
    moves[draw(&h, sizeof moves / sizeof moves[0])](&h);
  }
  for (int i = 0; i < HELD; i++) let_go(&h.bounds[i], 0);
}

/* What is kept goes with the mechanism that has ended for good. */
static void remove_all(void) {
  for (int i = 0; i < PLACES; i++) {
    const nxmem_mechanism m = {atomic_load(&places[i])};
    if (m.id == 0) continue;
    const nxmem_result lost = nxmem_mechanism_lose(m, NULL, NULL);
    assert_true(lost == NXMEM_OK || lost == NXMEM_ERR_DEVICE_LOST || lost == NXMEM_ERR_TERMINATED);
    const nxmem_result confirmed = nxmem_mechanism_confirm_terminated(m, NULL);
    assert_true(confirmed == NXMEM_OK || confirmed == NXMEM_ERR_TERMINATED);
    assert_int_equal(nxmem_mechanism_remove(m, NULL, NULL), NXMEM_OK);
  }
}

static void test_everything(void **state) {
  (void)state;
  scene = nx_scene_of(1, 0);
  nx_must_limit(&scene, AXES(LIMIT, PHYSICAL, MAPPED));
  puppet.concurrent = 1;
  puppet.table.allocate = give_block;
  puppet.table.release_allocation = take_block;
  nx_crowd(THREADS, work, NULL);
  assert_true(nx_crowd_most_inside() > 1);
  remove_all();
  assert_int_equal(atomic_load(&surprises), 0);
  assert_int_not_equal(atomic_load(&granted), 0);
  for (int axis = 0; axis < 3; axis++) assert_int_not_equal(atomic_load(&refused[axis]), 0);
  const nxmem_snapshot now = nx_books_now(&scene);
  assert_int_equal(now.total.live_count + now.total.quarantined_count + now.total.transactions, 0);
  nx_assert_axes(now.total.used, AXES(0, 0, 0));
  puppet.own_report = 1;
  puppet.report = (NxmemUnloadReport){.struct_size = sizeof puppet.report};
  puppet.concurrent = 0;
  nx_scene_end(&scene);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_add(&suite, "registry and manager, eight threads", test_everything, NULL);
  return nx_suite_run(&suite, "manager stress");
}
