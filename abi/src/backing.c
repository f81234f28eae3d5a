/*
 * backing.c: what a range may cost, and what comes back.
 *
 * Attackers: numbers near 2^64, numbers left unwritten, numbers that no range can cost.
 * Promise: no sum wraps; no charge beyond what is possible, no credit beyond the charge.
 */
#include "nxmem/backing.h"

#include <stddef.h>

#include "nxmem/outcome.h"
#include "verdict_make.h"

enum { AT_RANGE_BYTES = 72 };
#ifndef __FRAMAC__
_Static_assert(AT_RANGE_BYTES == offsetof(NxmemRangeRequest, range.bytes), "range.bytes");
#endif

nxmem_verdict nxmem_check_range_list(uint64_t address, uint64_t count) {
  if (count > NXMEM_RANGES_MAX) return nx_verdict(NXMEM_REASON_TOO_MANY_RANGES, 0u, count, NXMEM_RANGES_MAX);
  if (count != 0u && address == 0u) return nx_verdict(NXMEM_REASON_NULL_POINTER, 0u, 0u, 0u);
  return nx_accept();
}

nxmem_verdict nxmem_check_commit_range(uint64_t offset, uint64_t bytes, uint64_t size) {
  if (bytes == 0u) return nx_verdict(NXMEM_REASON_ZERO_BYTES, AT_RANGE_BYTES, 0u, 1u);
  return nxmem_check_range(offset, bytes, size);
}

uint64_t nxmem_most_mapped(uint64_t offset, uint64_t bytes) {
  const uint64_t granules = nxmem_granules_touched(offset, bytes, NXMEM_GRANULE_MAX);
  return granules > NXMEM_TOTAL_MAX / NXMEM_GRANULE_MAX ? NXMEM_TOTAL_MAX : granules * NXMEM_GRANULE_MAX;
}

nxmem_verdict nxmem_judge_cost(uint64_t cost, uint64_t offset, uint64_t bytes, uint64_t mapped_total) {
  const uint64_t most = nxmem_most_mapped(offset, bytes);
  if (cost > most) return nx_verdict(NXMEM_REASON_MORE_THAN_POSSIBLE, 0u, cost, most);
  if (cost > NXMEM_TOTAL_MAX - mapped_total)
    return nx_verdict(NXMEM_REASON_TOTAL_TOO_LARGE, 0u, cost, NXMEM_TOTAL_MAX - mapped_total);
  return nx_accept();
}

void nxmem_settle_decommit(uint64_t reported, uint64_t charged, nxmem_credit *out) {
  const int unknown = reported == NXMEM_UNWRITTEN_COUNT;
  const uint64_t said = unknown ? 0u : reported;
  out->unknown = unknown ? 1u : 0u;
  out->credited = said < charged ? said : charged;
  out->left = charged - out->credited;
  out->excess = said - out->credited;
}

uint64_t nxmem_settle_committed(uint32_t status_code, uint64_t reported, uint64_t charged, uint64_t bytes) {
  return status_code == NXMEM_STATUS_OK && reported <= nxmem_most_mapped(0u, bytes) ? reported : charged;
}
