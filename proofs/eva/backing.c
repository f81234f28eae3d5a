/*
 * backing.c: Eva drivers of nxmem/backing.h: each entry point once for everything that its contract allows.
 *
 * Attackers: ranges and costs that are any numbers.
 * Promise: any numbers where Eva can relate them; where it cannot, see there.
 */
#include "nxmem/backing.h"

#include "support.h"

void eva_nxmem_check_range_list(void) { (void)nxmem_check_range_list(any64, any64); }

/* eva: -eva-domains octagon */
void eva_nxmem_check_commit_range(void) { (void)nxmem_check_commit_range(any64, any64, any64); }

/* No domain of this Eva relates a number to its quotient: bounds instead of any, here and below. */
void eva_nxmem_most_mapped(void) {
  const uint64_t offset = eva_bound();
  const uint64_t bytes = eva_bound();
  if (bytes <= UINT64_MAX - offset) (void)nxmem_most_mapped(offset, bytes);
}

void eva_nxmem_judge_cost(void) {
  const uint64_t offset = eva_bound();
  const uint64_t bytes = eva_bound();
  const uint64_t total = any64;
  if (bytes <= UINT64_MAX - offset && total <= NXMEM_TOTAL_MAX) (void)nxmem_judge_cost(any64, offset, bytes, total);
}

void eva_nxmem_settle_decommit(void) {
  nxmem_credit out;
  const uint64_t reported = eva_bound();
  nxmem_settle_decommit(reported, eva_bound(), &out);
}

void eva_nxmem_settle_committed(void) { (void)nxmem_settle_committed(any32, any64, any64, eva_bound()); }
