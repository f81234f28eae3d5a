/*
 * place.c: blocks in free spans, granules in spans.
 *
 * Attackers: numbers near 2^64.
 * Promise: no sum and no product wraps.
 */
#include "nxmem/place.h"

#include "nxmem/count.h"
#include "verdict_make.h"

nxmem_verdict nxmem_place_ask(uint64_t bytes, uint64_t align, uint64_t unit, nxmem_block *out) {
  uint64_t rounded;
  if (bytes == 0u) return nx_verdict(NXMEM_REASON_ZERO_BYTES, 0u, 0u, 1u);
  if (!nxmem_is_power_of_two(align)) return nx_verdict(NXMEM_REASON_BAD_ALIGNMENT, 0u, align, 0u);
  if (!nxmem_round_up(bytes, unit, &rounded)) return nx_verdict(NXMEM_REASON_SIZE_WRAPS, 0u, bytes, unit);
  out->bytes = rounded;
  out->align = align < unit ? unit : align;
  return nx_accept();
}

int nxmem_place_fit(uint64_t first, uint64_t bytes, uint64_t block_bytes, uint64_t align, uint64_t *address_out) {
  uint64_t address;
  if (!nxmem_round_up(first, align, &address)) return 0;
  const uint64_t skipped = address - first;
  if (skipped > bytes || block_bytes > bytes - skipped) return 0;
  *address_out = address;
  return 1;
}

void nxmem_place_cut(uint64_t first, uint64_t bytes, uint64_t address, uint64_t block_bytes,
                     nxmem_free_span *before_out, nxmem_free_span *behind_out) {
  before_out->first = first;
  before_out->bytes = address - first;
  behind_out->first = address + block_bytes;
  behind_out->bytes = bytes - (address - first) - block_bytes;
}

int nxmem_place_joins(uint64_t first, uint64_t bytes, uint64_t second) { return first + bytes == second; }

nxmem_verdict nxmem_place_check_back(const nxmem_free_span *arena, const nxmem_free_span *span,
                                     const nxmem_free_span *below, const nxmem_free_span *above) {
  if (span->bytes == 0u) return nx_verdict(NXMEM_REASON_ZERO_BYTES, 0u, 0u, 1u);
  if (span->first < arena->first || span->first - arena->first > arena->bytes)
    return nx_verdict(NXMEM_REASON_OFFSET_OUTSIDE, 0u, span->first, arena->first);
  const uint64_t left = arena->bytes - (span->first - arena->first);
  if (span->bytes > left) return nx_verdict(NXMEM_REASON_BYTES_OUTSIDE, 0u, span->bytes, left);
  if (nxmem_ranges_overlap(span->first, span->bytes, below->first, below->bytes))
    return nx_verdict(NXMEM_REASON_OVERLAP, 0u, span->first, below->first);
  if (nxmem_ranges_overlap(span->first, span->bytes, above->first, above->bytes))
    return nx_verdict(NXMEM_REASON_OVERLAP, 0u, span->first, above->first);
  return nx_accept();
}

uint64_t nxmem_granule_of(uint64_t offset, uint64_t granule) { return offset / granule; }

uint64_t nxmem_granules_whole(uint64_t offset, uint64_t bytes, uint64_t granule, uint64_t *first_out) {
  const uint64_t first = offset / granule + (offset % granule == 0u ? 0u : 1u);
  const uint64_t end = (offset + bytes) / granule;
  *first_out = first;
  return end > first ? end - first : 0u;
}

int nxmem_granule_address(uint64_t base, uint64_t index, uint64_t granule, uint64_t *address_out) {
  if (index > (UINT64_MAX - base) / granule) return 0;
  *address_out = base + index * granule;
  return 1;
}

int nxmem_granule_index(uint64_t base, uint64_t arena_bytes, uint64_t granule, uint64_t address, uint64_t *index_out) {
  if (address < base || address - base >= arena_bytes) return 0;
  *index_out = (address - base) / granule;
  return 1;
}

int nxmem_granules_bytes(uint64_t count, uint64_t granule, uint64_t *bytes_out) {
  if (count > NXMEM_TOTAL_MAX / granule) return 0;
  *bytes_out = count * granule;
  return 1;
}
