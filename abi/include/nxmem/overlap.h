/*
 * overlap.h: is an address that a plugin hands out taken already?
 *
 * Attackers: a plugin that hands out an address twice, or one inside, around or across an allocation that is live.
 * Promise: of spans that share a byte one is found; of spans that share none, none.
 *
 * Inside a cell of at most 64 KiB a span is one word: the offset of its first byte times 2^16, plus that of its last.
 */
#ifndef NXMEM_OVERLAP_H
#define NXMEM_OVERLAP_H

#include "nxmem/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __FRAMAC__
/* clang-format off */
#define NX_SPAN_FIRST(s) ((s) / 65536)
#define NX_SPAN_LAST(s) ((s) % 65536)
#define NX_SPANS_MEET(a, b) (NX_SPAN_FIRST(a) <= NX_SPAN_LAST(b) && NX_SPAN_FIRST(b) <= NX_SPAN_LAST(a))
/* clang-format on */
#endif
/*@ requires offsets: first <= 65535 && last <= 65535;
    assigns \nothing;
    ensures holds_first: NX_SPAN_FIRST(\result) == first;
    ensures holds_last: NX_SPAN_LAST(\result) == last; */
uint32_t nxmem_span_make(uint32_t first, uint32_t last);
/*@ assigns \nothing;
    ensures exact: \result == NX_SPAN_FIRST(span); */
uint32_t nxmem_span_first(uint32_t span);
/*@ assigns \nothing;
    ensures exact: \result == NX_SPAN_LAST(span); */
uint32_t nxmem_span_last(uint32_t span);

/* The index of the first of `count` spans that shares a byte with `span`; `count` where none does. */
/*@ requires readable: \valid_read(spans + (0 .. count - 1));
    assigns \nothing;
    ensures within: \result <= count;
    ensures meets: \result < count ==> NX_SPANS_MEET(spans[\result], span);
    ensures first: \forall integer k; 0 <= k < \result ==> !NX_SPANS_MEET(spans[k], span); */
uint32_t nxmem_find_overlap(const uint32_t *spans, uint32_t count, uint32_t span);

/* OVERLAP where an address that was handed out shares a byte with what is there; the field is that of NxmemAllocResult. */
/*@ assigns \nothing;
    behavior apart:
      assumes no_byte_shared: !(bytes > 0 && other_bytes > 0 && address < other + other_bytes &&
                                other < address + bytes);
      ensures accepted: NX_ACCEPTED(\result);
    behavior taken:
      assumes byte_shared: bytes > 0 && other_bytes > 0 && address < other + other_bytes && other < address + bytes;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_OVERLAP, 8, address, other);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_apart(uint64_t address, uint64_t bytes, uint64_t other, uint64_t other_bytes);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_OVERLAP_H */
