/*
 * range.c: Eva drivers of nxmem/range.h: each entry point once for everything that its contract allows.
 *
 * Attackers: offsets, sizes and addresses that are any numbers.
 * Promise: any numbers where Eva can relate them; where it cannot, see there.
 */
#include "nxmem/range.h"

#include "support.h"

void eva_nxmem_is_power_of_two(void) { (void)nxmem_is_power_of_two(any64); }

void eva_nxmem_range_is_whole(void) { (void)nxmem_range_is_whole(any64, any64); }

/* eva: -eva-domains octagon */
void eva_nxmem_check_range(void) { (void)nxmem_check_range(any64, any64, any64); }

/* eva: -eva-domains octagon */
void eva_nxmem_ranges_overlap(void) { (void)nxmem_ranges_overlap(any64, any64, any64, any64); }

/* No domain of this Eva relates a number to its remainder: bounds instead of any, here and below. */
void eva_nxmem_round_down(void) {
  const uint64_t granule = eva_bound();
  if (granule != 0u) (void)nxmem_round_down(eva_bound(), granule);
}

void eva_nxmem_round_up(void) {
  const uint64_t granule = eva_bound();
  uint64_t out;
  if (granule != 0u) (void)nxmem_round_up(eva_bound(), granule, &out);
}

void eva_nxmem_granules_touched(void) {
  const uint64_t granule = eva_bound();
  const uint64_t offset = eva_bound();
  const uint64_t bytes = eva_bound();
  if (granule != 0u && bytes <= UINT64_MAX - offset) (void)nxmem_granules_touched(offset, bytes, granule);
}

void eva_nxmem_check_readable(void) { (void)nxmem_check_readable(any64, any64); }
