/*
 * arena.c: Eva drivers of nxmem/arena.h: each entry point once for everything that its contract allows.
 *
 * Attackers: a device and options that say any numbers.
 * Promise: any numbers where Eva can relate them, bounds where a product or a remainder is taken.
 */
#include "nxmem/arena.h"

#include "support.h"

static uint64_t granularity(void) {
  static const uint64_t some[] = {0u, 1u, 3u, 4096u, 0x200000u, 0x40000000u, 0x80000000u, 0x8000000000000000u};
  return some[eva_each(0u, 7u)];
}

static uint64_t few(void) {
  static const uint64_t some[] = {0u, 1u, 0x1000000000u, 0x8000000000000000u, 0xFFFFFFFFFFFFFFFFu};
  return some[eva_each(0u, 4u)];
}

void eva_nxmem_granule_choose(void) {
  uint64_t granule;
  (void)nxmem_granule_choose(granularity(), granularity(), &granule);
}

void eva_nxmem_ladder_start(void) {
  const uint64_t granule = granularity();
  const uint64_t minimum = few();
  nxmem_ladder ladder;
  if (granule != 0u) (void)nxmem_ladder_start(few(), few(), 0x10000000000u, minimum, granule, &ladder);
}

void eva_nxmem_ladder_next(void) {
  const uint64_t granule = granularity();
  nxmem_ladder ladder;
  ladder.rung = eva_bound();
  ladder.minimum = few();
  if (granule == 0u || ladder.minimum == 0u || ladder.rung < ladder.minimum) return;
  (void)nxmem_ladder_next(&ladder, granule);
}

/* eva: -eva-domains octagon */
void eva_nxmem_pool_may_keep(void) {
  const uint64_t granule = any64;
  if (granule != 0u) (void)nxmem_pool_may_keep(any64, granule, any64);
}

/* eva: -eva-domains octagon */
void eva_nxmem_total_subtract(void) {
  uint64_t rest;
  (void)nxmem_total_subtract(any64, any64, &rest);
}

void eva_nxmem_peak(void) { (void)nxmem_peak(any64, any64); }

void eva_nxmem_check_not_queued(void) { (void)nxmem_check_not_queued(any64); }

static nxmem_prefix_use any_use(void) {
  nxmem_prefix_use use;
  use.handles = any64;
  use.mappings = any64;
  return use;
}

void eva_nxmem_prefix_use_retain(void) {
  nxmem_prefix_use use = any_use();
  (void)nxmem_prefix_use_retain(&use);
}

void eva_nxmem_prefix_use_release(void) {
  nxmem_prefix_use use = any_use();
  (void)nxmem_prefix_use_release(&use);
}

void eva_nxmem_prefix_view(void) {
  nxmem_prefix_use use = any_use();
  (void)nxmem_prefix_view(&use);
}

void eva_nxmem_prefix_unview(void) {
  nxmem_prefix_use use = any_use();
  (void)nxmem_prefix_unview(&use);
}

void eva_nxmem_prefix_is_gone(void) {
  const nxmem_prefix_use use = any_use();
  (void)nxmem_prefix_is_gone(&use);
}
