/*
 * count.c: Eva drivers of nxmem/count.h: each entry point once for everything that its contract allows.
 *
 * Attackers: numbers near 2^64.
 * Promise: any numbers where Eva can relate them; where it cannot, see there.
 */
#include "nxmem/count.h"

#include "support.h"

/* The sum is guarded by a difference, which no domain of this Eva relates to it: bounds instead of any, also below. */
void eva_nxmem_count_add(void) {
  const uint64_t count = eva_bound();
  (void)nxmem_count_add(count, eva_bound());
}

void eva_nxmem_count_up(void) { (void)nxmem_count_up(any64); }

void eva_nxmem_total_add(void) {
  const uint64_t total = eva_bound();
  uint64_t sum;
  if (total <= NXMEM_TOTAL_MAX) (void)nxmem_total_add(total, eva_bound(), &sum);
}
