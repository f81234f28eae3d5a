/*
 * fragment_test.c: 100,000 blocks of 256 bytes to 8 MiB taken and given back at random, and threads at once.
 *
 * Attackers played: none; time.
 * Promise: at every step the figures are those of a model that counts references granule by granule; no two blocks overlap; at the end nothing is left.
 */
#include <pthread.h>
#include <string.h>

#include "support.h"
#include "vmm.h"

enum { STEPS = 100000, LIVE_MAX = 400, GRANULES_MAX = 1 << 16, THREADS = 8, ROUNDS = 400 };

#define GRANULE (1ull << 20)

static uint64_t seed = 0x2545F4914F6CDD1Dull;
static uint64_t any(uint64_t *state, uint64_t below) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state % below;
}

/* ---- The model: references by granule, counted from the lowest address ever seen ------------------------------------- */

typedef struct held {
  NxmemAllocation block;
} held;

static uint32_t references[GRANULES_MAX];
static uint64_t origin; /* a granule's number */
static uint64_t committed;

static uint64_t number_of(const NxmemAllocation *block, uint64_t offset) {
  const uint64_t number = ((uintptr_t)block->ptr + offset) / GRANULE - origin;
  assert_in_range(number, 0, GRANULES_MAX - 1);
  return number;
}

/* What the engine sets aside is a multiple of 256 bytes: the last granule may be one that the block itself does not reach. */
static uint64_t last_byte(const NxmemAllocation *block) { return (block->bytes + 255u) / 256u * 256u - 1u; }

static uint64_t model_take(const NxmemAllocation *block) {
  uint64_t mapped = 0u;
  for (uint64_t g = number_of(block, 0u); g <= number_of(block, last_byte(block)); g++) mapped += references[g]++ == 0u;
  committed += mapped * GRANULE;
  return mapped * GRANULE;
}

static uint64_t model_give(const NxmemAllocation *block) {
  uint64_t unmapped = 0u;
  for (uint64_t g = number_of(block, 0u); g <= number_of(block, last_byte(block)); g++)
    unmapped += --references[g] == 0u;
  committed -= unmapped * GRANULE;
  return unmapped * GRANULE;
}

/* ---- One thread, against the model ------------------------------------------------------------------------------------ */

/* Sizes spread over their orders of magnitude: 256 bytes to 8 MiB. */
static uint64_t any_size(void) {
  const uint64_t order = 8u + any(&seed, 16u);
  const uint64_t bytes = (1ull << order) + any(&seed, 1ull << order);
  return bytes > 8ull << 20 ? 8ull << 20 : bytes;
}

static void mark_ends(const NxmemAllocation *block) {
  memcpy(block->ptr, &block->allocation_id, 8u);
  memcpy(block->ptr + block->bytes - 8u, &block->allocation_id, 8u);
}

static void ends_are_marked(const NxmemAllocation *block) {
  assert_memory_equal(block->ptr, &block->allocation_id, 8);
  assert_memory_equal(block->ptr + block->bytes - 8u, &block->allocation_id, 8);
}

static void take_one(nx_vmm *vmm, uint64_t id, held *out) {
  uint64_t mapped = 0u;
  const NxmemAllocRequest request = nx_vmm_request(id, any_size(), 1ull << any(&seed, 13u));
  assert_int_equal(nx_vmm_try(vmm, 0, &request, &out->block, &mapped).code, NXMEM_STATUS_OK);
  assert_int_equal((uintptr_t)out->block.ptr % request.align, 0);
  assert_int_equal(mapped, model_take(&out->block));
  mark_ends(&out->block);
}

static void give_one(nx_vmm *vmm, const held *h) {
  uint64_t unmapped = 0u;
  ends_are_marked(&h->block);
  assert_int_equal(vmm->table->deallocate(vmm->table->ctx, &h->block, &unmapped).code, NXMEM_STATUS_OK);
  assert_int_equal(unmapped, model_give(&h->block));
}

static void figures_agree(const nx_vmm *vmm, size_t used) {
  const NxmemVmmStats stats = nx_vmm_stats();
  (void)vmm;
  assert_int_equal(stats.committed_bytes, committed);
  assert_int_equal(stats.granules_mapped, nx_the_tally.mappings);
  assert_int_equal(nx_the_tally.mappings * GRANULE, committed);
  assert_int_equal(nx_the_tally.handles * GRANULE, committed + stats.pool_bytes);
  assert_int_equal(stats.refcount_underflows, 0);
  assert_int_equal(nx_vmm_report().live_allocations, used);
}

static void books_are_exact_at_every_step(void **state) {
  nx_vmm *vmm = *state;
  static held live[LIVE_MAX];
  size_t used = 0u;
  nx_vmm_release(vmm);
  nx_the_offer.pool_bytes = 64u * GRANULE;
  nx_the_script.minimum = nx_the_script.recommended = GRANULE;
  nx_vmm_must_open(vmm);
  const NxmemAllocation lowest = nx_vmm_take(vmm, 1u, 256u, 1u);
  origin = (uintptr_t)lowest.ptr / GRANULE;
  nx_vmm_must_give(vmm, &lowest);
  for (uint64_t step = 0u; step < STEPS; step++) {
    if (used < LIVE_MAX && (used == 0u || any(&seed, 100u) < 52u)) {
      take_one(vmm, step + 2u, &live[used++]);
    } else {
      const size_t chosen = any(&seed, used);
      give_one(vmm, &live[chosen]);
      live[chosen] = live[--used];
    }
    figures_agree(vmm, used);
  }
  while (used > 0u) give_one(vmm, &live[--used]);
  figures_agree(vmm, 0u);
}

/* ---- Eight threads ---------------------------------------------------------------------------------------------------- */

typedef struct worker {
  nx_vmm *vmm;
  uint64_t number, failures;
} worker;

static void one_round(worker *w, uint64_t id, uint64_t *random) {
  const int reserve = any(random, 2u) != 0u;
  NxmemAllocation block;
  const NxmemAllocRequest request = nx_vmm_request(id, 1u + any(random, 5u * NX_G), 1u);
  NxmemReleaseOutcome outcome = {.struct_size = sizeof outcome};
  w->failures += nx_vmm_try(w->vmm, reserve, &request, &block, NULL).code != NXMEM_STATUS_OK;
  if (reserve) {
    const NxmemVirtualBackingVtable *backing = w->vmm->table->virtual_backing;
    const NxmemRangeRequest range = {sizeof range, 0u, block, {0u, block.bytes}};
    uint64_t unmapped = 0u;
    w->failures += backing->commit_range(backing->ctx, &range).code != NXMEM_STATUS_OK;
    block.ptr[0] = 1u;
    if (any(random, 2u) != 0u)
      w->failures += backing->decommit_range(backing->ctx, &range, &unmapped).code != NXMEM_STATUS_OK;
  } else {
    block.ptr[block.bytes - 1u] = 1u;
  }
  w->failures += w->vmm->table->release_allocation(w->vmm->table->ctx, &block, &outcome).code != NXMEM_STATUS_OK;
}

static void *work(void *argument) {
  worker *w = argument;
  uint64_t random = 77777u + w->number;
  for (uint64_t i = 0u; i < ROUNDS; i++) one_round(w, (w->number << 32) + i, &random);
  return NULL;
}

static void threads_at_once(void **state) {
  worker workers[THREADS];
  pthread_t threads[THREADS];
  for (uint64_t i = 0u; i < THREADS; i++) {
    workers[i] = (worker){*state, i + 1u, 0u};
    assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(workers[i].failures, 0);
  }
  assert_int_equal(nx_vmm_report().live_allocations, 0);
  assert_int_equal(nx_the_tally.mappings, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {NX_VMM_TEST(books_are_exact_at_every_step), NX_VMM_TEST(threads_at_once)};
  return cmocka_run_group_tests_name("vmm_fragment", tests, NULL, NULL);
}
