/*
 * count.h: counters that never wrap and totals that never pass their limit.
 *
 * Attackers: a plugin that commits one violation after another, or reports numbers that would carry a total past what
 * exists.
 * Promise: a counter stays at its highest number instead of starting again; a total is either added to exactly or
 * left alone.
 */
#ifndef NXMEM_COUNT_H
#define NXMEM_COUNT_H

#include <stdint.h>

#include "nxmem/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

/* No total of bytes may pass this. */
#define NXMEM_TOTAL_MAX 0x8000000000000000ull

#ifdef __FRAMAC__
/* clang-format off */
#define NX_FITS(bytes, total) ((bytes) + (total) <= 0x8000000000000000)
/* clang-format on */
#endif
/* count + amount, or 2^64-1 where that is beyond it. */
/*@ assigns \nothing;
    behavior counted:
      assumes room: count + amount <= 0xFFFFFFFFFFFFFFFF;
      ensures sum: \result == count + amount;
    behavior full:
      assumes beyond: count + amount > 0xFFFFFFFFFFFFFFFF;
      ensures stays: \result == 0xFFFFFFFFFFFFFFFF;
    complete behaviors;
    disjoint behaviors; */
uint64_t nxmem_count_add(uint64_t count, uint64_t amount);

/* One more; a full counter stays full. */
/*@ assigns \nothing;
    behavior counted:
      assumes room: count < 0xFFFFFFFFFFFFFFFF;
      ensures one_more: \result == count + 1;
    behavior full:
      assumes last: count == 0xFFFFFFFFFFFFFFFF;
      ensures stays: \result == 0xFFFFFFFFFFFFFFFF;
    complete behaviors;
    disjoint behaviors; */
uint64_t nxmem_count_up(uint64_t count);

/* Add bytes to a total: 1 and the sum in *total_out, or 0 and nothing written where it would pass NXMEM_TOTAL_MAX. */
/*@ requires total_within: total <= 0x8000000000000000;
    requires out_writable: \valid(total_out);
    assigns *total_out;
    behavior fits:
      assumes room: NX_FITS(bytes, total);
      ensures added: \result == 1;
      ensures sum: *total_out == total + bytes;
      ensures within: *total_out <= 0x8000000000000000;
    behavior too_large:
      assumes beyond: !NX_FITS(bytes, total);
      assigns \nothing;
      ensures refused: \result == 0;
    complete behaviors;
    disjoint behaviors; */
int nxmem_total_add(uint64_t total, uint64_t bytes, uint64_t *total_out);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_COUNT_H */
