/*
 * place.h: where a block lies in an arena: its size and alignment, the free span it fits into, what is left of that.
 *
 * Attackers: sizes and alignments near 2^64; spans given back that lie upon others.
 * Promise: exact answers, never modulo 2^64; a block lies inside its span, aligned, as low as it can.
 *
 * An arena is a reservation, whose base is a multiple of the granule. Spans are addresses as numbers; what is said of
 * spans is said in range.h.
 */
#ifndef NXMEM_PLACE_H
#define NXMEM_PLACE_H

#include "nxmem/range.h"
#include "nxmem/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nxmem_block {
  uint64_t bytes; /* a multiple of the unit, not 0 */
  uint64_t align; /* a power of two, at least the unit */
} nxmem_block;

typedef struct nxmem_free_span {
  uint64_t first;
  uint64_t bytes;
} nxmem_free_span;

/*
 * What an arena that places in multiples of `unit`, a power of two, sets aside for a request. ZERO_BYTES, BAD_ALIGNMENT
 * (no power of two), SIZE_WRAPS (rounded up, the size is 2^64 or above).
 */
/*@ requires unit: NX_POWER_OF_TWO(unit);
    requires out_writable: \valid(out);
    assigns *out;
    behavior empty:
      assumes no_byte: bytes == 0;
      assigns \nothing;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_ZERO_BYTES, 0, 0, 1);
    behavior alignment:
      assumes some: bytes != 0;
      assumes not_a_power: !NX_POWER_OF_TWO(align);
      assigns \nothing;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_BAD_ALIGNMENT, 0, align, 0);
    behavior wraps:
      assumes some: bytes != 0;
      assumes power: NX_POWER_OF_TWO(align);
      assumes beyond: NX_ROUNDED_UP(bytes, unit) > 0xFFFFFFFFFFFFFFFF;
      assigns \nothing;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_SIZE_WRAPS, 0, bytes, unit);
    behavior fits:
      assumes some: bytes != 0;
      assumes power: NX_POWER_OF_TWO(align);
      assumes room: NX_ROUNDED_UP(bytes, unit) <= 0xFFFFFFFFFFFFFFFF;
      ensures accepted: NX_ACCEPTED(\result);
      ensures rounded: out->bytes == NX_ROUNDED_UP(bytes, unit);
      ensures nearest: bytes <= out->bytes < bytes + unit;
      ensures aligned: out->align == (align < unit ? unit : align);
      ensures power: NX_POWER_OF_TWO(out->align);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_place_ask(uint64_t bytes, uint64_t align, uint64_t unit, nxmem_block *out);

/*
 * The lowest address in a whole free span where a block fits: 1 and *address_out, or 0 and nothing written.
 */
/*@ requires align: align != 0;
    requires whole: NX_WHOLE_RANGE(first, bytes);
    requires out_writable: \valid(address_out);
    assigns *address_out;
    behavior fits:
      assumes room: NX_ROUNDED_UP(first, align) + block_bytes <= first + bytes;
      ensures placed: \result == 1;
      ensures exact: *address_out == NX_ROUNDED_UP(first, align);
      ensures inside: first <= *address_out <= *address_out + block_bytes <= first + bytes;
      ensures lowest: *address_out < first + align;
    behavior too_small:
      assumes no_room: NX_ROUNDED_UP(first, align) + block_bytes > first + bytes;
      assigns \nothing;
      ensures refused: \result == 0;
    complete behaviors;
    disjoint behaviors; */
int nxmem_place_fit(uint64_t first, uint64_t bytes, uint64_t block_bytes, uint64_t align, uint64_t *address_out);

/* What is left of a free span before and behind a block that fits into it there; either may be empty. */
/*@ requires whole: NX_WHOLE_RANGE(first, bytes);
    requires inside: first <= address && address + block_bytes <= first + bytes;
    requires outs_writable: \valid(before_out) && \valid(behind_out);
    requires apart: \separated(before_out, behind_out);
    assigns *before_out, *behind_out;
    ensures before_first: before_out->first == first;
    ensures before_end: before_out->first + before_out->bytes == address;
    ensures behind_first: behind_out->first == address + block_bytes;
    ensures behind_end: behind_out->first + behind_out->bytes == first + bytes; */
void nxmem_place_cut(uint64_t first, uint64_t bytes, uint64_t address, uint64_t block_bytes,
                     nxmem_free_span *before_out, nxmem_free_span *behind_out);

/* 1 where the second span begins where the first, a whole one, ends: together they are one. */
/*@ requires whole: NX_WHOLE_RANGE(first, bytes);
    assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==> first + bytes == second; */
int nxmem_place_joins(uint64_t first, uint64_t bytes, uint64_t second);

#ifdef __FRAMAC__
/* clang-format off */
#define NX_SPANS_OVERLAP(a, b) \
  ((a)->bytes > 0 && (b)->bytes > 0 && (a)->first < (b)->first + (b)->bytes && (b)->first < (a)->first + (a)->bytes)
#define NX_BEGINS_IN(a, b) ((b)->first <= (a)->first <= (b)->first + (b)->bytes)
#define NX_LIES_IN(a, b) ((b)->first <= (a)->first && (a)->first + (a)->bytes <= (b)->first + (b)->bytes)
/* clang-format on */
#endif
/*
 * May a span go back among free ones? ZERO_BYTES, OFFSET_OUTSIDE, BYTES_OUTSIDE (it leaves the arena), OVERLAP (a free span, or two,
 * holds a byte of it: it was given back before).
 *
 * below, above  The free spans next to its first byte on either side; bytes 0 where there is none.
 */
/*@ requires spans_readable: \valid_read(arena) && \valid_read(span) && \valid_read(below) && \valid_read(above);
    requires arena_whole: NX_WHOLE_RANGE(arena->first, arena->bytes);
    assigns \nothing;
    behavior empty:
      assumes no_byte: span->bytes == 0;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_ZERO_BYTES, 0, 0, 1);
    behavior begins_outside:
      assumes some: span->bytes != 0;
      assumes outside: !NX_BEGINS_IN(span, arena);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_OFFSET_OUTSIDE, 0, span->first, arena->first);
    behavior ends_outside:
      assumes some: span->bytes != 0;
      assumes begins: NX_BEGINS_IN(span, arena);
      assumes outside: !NX_LIES_IN(span, arena);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_BYTES_OUTSIDE, 0, span->bytes,
                                     arena->first + arena->bytes - span->first);
    behavior upon_below:
      assumes some: span->bytes != 0;
      assumes lies: NX_LIES_IN(span, arena);
      assumes shared: NX_SPANS_OVERLAP(span, below);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_OVERLAP, 0, span->first, below->first);
    behavior upon_above:
      assumes some: span->bytes != 0;
      assumes lies: NX_LIES_IN(span, arena);
      assumes shared: !NX_SPANS_OVERLAP(span, below) && NX_SPANS_OVERLAP(span, above);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_OVERLAP, 0, span->first, above->first);
    behavior free:
      assumes some: span->bytes != 0;
      assumes lies: NX_LIES_IN(span, arena);
      assumes apart: !NX_SPANS_OVERLAP(span, below) && !NX_SPANS_OVERLAP(span, above);
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_place_check_back(const nxmem_free_span *arena, const nxmem_free_span *span,
                                     const nxmem_free_span *below, const nxmem_free_span *above);

/* The number of the granule that holds an address, and of granules that a span touches (range.h says how many). */
/*@ requires granule: granule != 0;
    assigns \nothing;
    ensures exact: \result == offset / granule; */
uint64_t nxmem_granule_of(uint64_t offset, uint64_t granule);

#ifdef __FRAMAC__
/* clang-format off */
#define NX_FIRST_WHOLE(offset, granule) ((offset) / (granule) + ((offset) % (granule) == 0 ? 0 : 1))
/* clang-format on */
#endif
/* How many granules lie whole inside a whole span, and which is the first; *first_out is written always. */
/*@ requires granule: granule != 0;
    requires whole: NX_WHOLE_RANGE(offset, bytes);
    requires out_writable: \valid(first_out);
    assigns *first_out;
    ensures first: *first_out == NX_FIRST_WHOLE(offset, granule);
    behavior some:
      assumes one: NX_FIRST_WHOLE(offset, granule) < (offset + bytes) / granule;
      ensures exact: *first_out + \result == (offset + bytes) / granule;
      ensures at_least_one: \result >= 1;
    behavior none:
      assumes not_one: NX_FIRST_WHOLE(offset, granule) >= (offset + bytes) / granule;
      ensures none: \result == 0;
    complete behaviors;
    disjoint behaviors; */
uint64_t nxmem_granules_whole(uint64_t offset, uint64_t bytes, uint64_t granule, uint64_t *first_out);

/* The address of a granule: 1 and *address_out, or 0 and nothing written where it is 2^64 or above. */
/*@ requires granule: granule != 0;
    requires out_writable: \valid(address_out);
    assigns *address_out;
    behavior below:
      assumes room: base + index * granule <= 0xFFFFFFFFFFFFFFFF;
      ensures found: \result == 1;
      ensures exact: *address_out == base + index * granule;
    behavior wraps:
      assumes beyond: base + index * granule > 0xFFFFFFFFFFFFFFFF;
      assigns \nothing;
      ensures refused: \result == 0;
    complete behaviors;
    disjoint behaviors; */
int nxmem_granule_address(uint64_t base, uint64_t index, uint64_t granule, uint64_t *address_out);

/*
 * The index of the granule that holds an address: 1 and *index_out, or 0 and nothing written where it is outside the
 * arena.
 */
/*@ requires granule: granule != 0;
    requires out_writable: \valid(index_out);
    assigns *index_out;
    behavior inside:
      assumes holds: base <= address < base + arena_bytes;
      ensures found: \result == 1;
      ensures exact: *index_out == (address - base) / granule;
    behavior outside:
      assumes elsewhere: address < base || address >= base + arena_bytes;
      assigns \nothing;
      ensures refused: \result == 0;
    complete behaviors;
    disjoint behaviors; */
int nxmem_granule_index(uint64_t base, uint64_t arena_bytes, uint64_t granule, uint64_t address, uint64_t *index_out);

/* count * granule: 1 and *bytes_out, or 0 and nothing written where that is above NXMEM_TOTAL_MAX. */
/*@ requires granule: granule != 0;
    requires out_writable: \valid(bytes_out);
    assigns *bytes_out;
    behavior fits:
      assumes room: count * granule <= 0x8000000000000000;
      ensures counted: \result == 1;
      ensures exact: *bytes_out == count * granule;
    behavior too_large:
      assumes beyond: count * granule > 0x8000000000000000;
      assigns \nothing;
      ensures refused: \result == 0;
    complete behaviors;
    disjoint behaviors; */
int nxmem_granules_bytes(uint64_t count, uint64_t granule, uint64_t *bytes_out);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_PLACE_H */
