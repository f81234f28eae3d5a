/*
 * range.h: spans of addresses and of offsets: whole, inside, rounded to granules, apart.
 *
 * Attackers: offsets, sizes and addresses that wrap, reach past their allocation or lie upon another one's.
 * Promise: exact answers about the numbers as they are, never modulo 2^64; no function wraps.
 *
 * A span is a first number and a number of bytes. It is whole where its end, the sum of both, is still below 2^64. An
 * empty span has no byte: it lies inside wherever its offset does, overlaps nothing and touches no granule. A granule
 * is any number but 0; callers that need a power of two ask nxmem_is_power_of_two first.
 */
#ifndef NXMEM_RANGE_H
#define NXMEM_RANGE_H

#include "nxmem/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __FRAMAC__
/* clang-format off */
#define NX_POWER_OF_TWO(a) ((a) != 0 && ((a) & ((a) - 1)) == 0)
#define NX_WHOLE_RANGE(first, bytes) ((first) + (bytes) <= 0xFFFFFFFFFFFFFFFF)
#define NX_ROUNDED_DOWN(value, granule) ((value) / (granule) * (granule))
/* The multiple of the granule that is not below the value and less than one granule above it. */
#define NX_ROUNDED_UP(value, granule) \
  ((value) % (granule) == 0 ? (value) : ((value) / (granule) + 1) * (granule))
/* clang-format on */
#endif
/* 1 or 0. */
/*@ assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==> NX_POWER_OF_TWO(value); */
int nxmem_is_power_of_two(uint64_t value);

/* 1 where the end is below 2^64, else 0. */
/*@ assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==> NX_WHOLE_RANGE(first, bytes); */
int nxmem_range_is_whole(uint64_t first, uint64_t bytes);

/* UNREADABLE where fewer bytes could be read than are needed. */
/*@ assigns \nothing;
    behavior enough:
      assumes covers: readable >= needed;
      ensures accepted: NX_ACCEPTED(\result);
    behavior cut:
      assumes ends_early: readable < needed;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_UNREADABLE, 0, readable, needed);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_readable(uint64_t readable, uint64_t needed);

/*
 * Does offset + bytes stay inside an object of `size` bytes? OFFSET_OUTSIDE, then BYTES_OUTSIDE; the fields are those
 * of NxmemRangeRequest.
 */
/*@ assigns \nothing;
    behavior offset_outside:
      assumes offset: offset > size;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_OFFSET_OUTSIDE, 64, offset, size);
    behavior bytes_outside:
      assumes offset: offset <= size;
      assumes end: offset + bytes > size;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_BYTES_OUTSIDE, 72, bytes, size - offset);
    behavior inside:
      assumes end: offset + bytes <= size;
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_range(uint64_t offset, uint64_t bytes, uint64_t size);

/* 1 where some byte belongs to both spans, else 0; the ends may be 2^64 and above. */
/*@ assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==> first_bytes > 0 && second_bytes > 0 && first < second + second_bytes &&
                                     second < first + first_bytes; */
int nxmem_ranges_overlap(uint64_t first, uint64_t first_bytes, uint64_t second, uint64_t second_bytes);

/* The highest multiple of the granule that is not above the value. */
/*@ requires granule: granule != 0;
    assigns \nothing;
    ensures exact: \result == NX_ROUNDED_DOWN(value, granule);
    ensures nearest: \result <= value < \result + granule; */
uint64_t nxmem_round_down(uint64_t value, uint64_t granule);

/*
 * The lowest multiple of the granule that is not below the value: 1 and *out, or 0 and nothing written where it is
 * 2^64 or above.
 */
/*@ requires granule: granule != 0;
    requires out_writable: \valid(out);
    assigns *out;
    behavior fits:
      assumes room: NX_ROUNDED_UP(value, granule) <= 0xFFFFFFFFFFFFFFFF;
      ensures rounded: \result == 1;
      ensures exact: *out == NX_ROUNDED_UP(value, granule);
      ensures nearest: value <= *out < value + granule;
    behavior wraps:
      assumes beyond: NX_ROUNDED_UP(value, granule) > 0xFFFFFFFFFFFFFFFF;
      assigns \nothing;
      ensures refused: \result == 0;
    complete behaviors;
    disjoint behaviors; */
int nxmem_round_up(uint64_t value, uint64_t granule, uint64_t *out);

/* How many granules hold a byte of a whole span; the first of them is number offset / granule. */
/*@ requires granule: granule != 0;
    requires whole: NX_WHOLE_RANGE(offset, bytes);
    assigns \nothing;
    behavior empty:
      assumes no_byte: bytes == 0;
      ensures none: \result == 0;
    behavior some:
      assumes first_byte: bytes != 0;
      ensures exact: \result + offset / granule == (offset + bytes - 1) / granule + 1;
      ensures at_least_one: \result >= 1;
    complete behaviors;
    disjoint behaviors; */
uint64_t nxmem_granules_touched(uint64_t offset, uint64_t bytes, uint64_t granule);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_RANGE_H */
