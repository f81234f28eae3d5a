/*
 * overlap.c: spans that share a byte.
 *
 * Attackers: addresses and sizes near 2^64.
 * Promise: each span is compared; no sum wraps.
 */
#include "nxmem/overlap.h"

#include <stddef.h>

#include "nxmem/range.h"
#include "nxmem_memory_abi.h"
#include "verdict_make.h"

enum { AT_PTR = 8 };
#ifndef __FRAMAC__
_Static_assert(AT_PTR == offsetof(NxmemAllocResult, ptr), "ptr");
#endif

uint32_t nxmem_span_make(uint32_t first, uint32_t last) { return first * 65536u + last; }

uint32_t nxmem_span_first(uint32_t span) { return span / 65536u; }

uint32_t nxmem_span_last(uint32_t span) { return span % 65536u; }

uint32_t nxmem_find_overlap(const uint32_t *spans, uint32_t count, uint32_t span) {
  const uint32_t first = span / 65536u;
  const uint32_t last = span % 65536u;
  uint32_t i = 0u;
  /*@ loop invariant within: i <= count;
      loop invariant apart: \forall integer k; 0 <= k < i ==> !NX_SPANS_MEET(spans[k], span);
      loop assigns i;
      loop variant count - i; */
  while (i < count && (spans[i] / 65536u > last || first > spans[i] % 65536u)) i++;
  return i;
}

nxmem_verdict nxmem_check_apart(uint64_t address, uint64_t bytes, uint64_t other, uint64_t other_bytes) {
  if (!nxmem_ranges_overlap(address, bytes, other, other_bytes)) return nx_accept();
  return nx_verdict(NXMEM_REASON_OVERLAP, AT_PTR, address, other);
}
