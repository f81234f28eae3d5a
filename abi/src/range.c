/*
 * range.c: the arithmetic of spans.
 *
 * Attackers: offsets, sizes and addresses near 2^64.
 * Promise: no sum wraps and no difference goes below zero.
 */
#include "nxmem/range.h"

#include <stddef.h>

#include "nxmem_memory_abi.h"
#include "verdict_make.h"

enum { AT_RANGE_OFFSET = 64, AT_RANGE_BYTES = 72 };
#ifndef __FRAMAC__
_Static_assert(AT_RANGE_OFFSET == offsetof(NxmemRangeRequest, range.offset), "range.offset");
_Static_assert(AT_RANGE_BYTES == offsetof(NxmemRangeRequest, range.bytes), "range.bytes");
#endif

int nxmem_is_power_of_two(uint64_t value) { return value != 0u && (value & (value - 1u)) == 0u; }

int nxmem_range_is_whole(uint64_t first, uint64_t bytes) { return bytes <= UINT64_MAX - first; }

nxmem_verdict nxmem_check_readable(uint64_t readable, uint64_t needed) {
  if (readable < needed) return nx_verdict(NXMEM_REASON_UNREADABLE, 0u, readable, needed);
  return nx_accept();
}

nxmem_verdict nxmem_check_range(uint64_t offset, uint64_t bytes, uint64_t size) {
  if (offset > size) return nx_verdict(NXMEM_REASON_OFFSET_OUTSIDE, AT_RANGE_OFFSET, offset, size);
  if (bytes > size - offset) return nx_verdict(NXMEM_REASON_BYTES_OUTSIDE, AT_RANGE_BYTES, bytes, size - offset);
  return nx_accept();
}

int nxmem_ranges_overlap(uint64_t first, uint64_t first_bytes, uint64_t second, uint64_t second_bytes) {
  if (first_bytes == 0u || second_bytes == 0u) return 0;
  return first < second ? second - first < first_bytes : first - second < second_bytes;
}

uint64_t nxmem_round_down(uint64_t value, uint64_t granule) { return value - value % granule; }

int nxmem_round_up(uint64_t value, uint64_t granule, uint64_t *out) {
  const uint64_t above = value % granule;
  const uint64_t missing = above == 0u ? 0u : granule - above;
  if (missing > UINT64_MAX - value) return 0;
  *out = value + missing;
  return 1;
}

uint64_t nxmem_granules_touched(uint64_t offset, uint64_t bytes, uint64_t granule) {
  if (bytes == 0u) return 0u;
  return (offset + (bytes - 1u)) / granule - offset / granule + 1u;
}
