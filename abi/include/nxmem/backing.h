/*
 * backing.h: ranges that are committed and decommitted, and what a plugin says they cost.
 *
 * Attackers: a caller's ranges that wrap or leave their allocation; a plugin that reports more bytes than a range can
 * map, unmaps more than it ever mapped, or writes nothing.
 * Promise: no charge is above what is possible, no credit above what was charged, and what stays unknown counts as
 * mapped.
 *
 * A plugin maps whole granules of a size that the host is not told. None is larger than NXMEM_GRANULE_MAX, a page of
 * the largest kind that processors and devices have; so a range maps at most the granules of that size that it
 * touches.
 */
#ifndef NXMEM_BACKING_H
#define NXMEM_BACKING_H

#include "nxmem/count.h"
#include "nxmem/range.h"
#include "nxmem/verdict.h"
#include "nxmem_memory_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Ranges that one call may name. */
enum { NXMEM_RANGES_MAX = 1024 };

#define NXMEM_GRANULE_MAX 0x40000000ull

#ifdef __FRAMAC__
/* clang-format off */
/* Bytes of the largest granules that a span of at least one byte touches. */
#define NX_TOUCHED(offset, bytes) \
  ((((offset) + (bytes) - 1) / 1073741824 - (offset) / 1073741824 + 1) * 1073741824)
#define NX_MOST(offset, bytes) \
  ((bytes) == 0 ? 0 : NX_TOUCHED(offset, bytes) <= 0x8000000000000000 ? NX_TOUCHED(offset, bytes) \
                                                                      : 0x8000000000000000)
/* clang-format on */
#endif
/*
 * Judge the list of ranges that a caller names; `address` is where it stands, as a number. TOO_MANY_RANGES,
 * NULL_POINTER (only an empty list may be nowhere).
 */
/*@ assigns \nothing;
    behavior too_many:
      assumes above: count > NXMEM_RANGES_MAX;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_TOO_MANY_RANGES, 0, count, NXMEM_RANGES_MAX);
    behavior nowhere:
      assumes some: 0 < count <= NXMEM_RANGES_MAX;
      assumes null: address == 0;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_NULL_POINTER, 0, 0, 0);
    behavior listed:
      assumes few: count <= NXMEM_RANGES_MAX;
      assumes somewhere: count == 0 || address != 0;
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_range_list(uint64_t address, uint64_t count);

/* Judge one of them: ZERO_BYTES, then as nxmem_check_range. */
/*@ assigns \nothing;
    behavior empty:
      assumes no_byte: bytes == 0;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_ZERO_BYTES, 72, 0, 1);
    behavior offset_outside:
      assumes some: bytes != 0;
      assumes offset: offset > size;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_OFFSET_OUTSIDE, 64, offset, size);
    behavior bytes_outside:
      assumes some: bytes != 0;
      assumes offset: offset <= size;
      assumes end: offset + bytes > size;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_BYTES_OUTSIDE, 72, bytes, size - offset);
    behavior inside:
      assumes some: bytes != 0;
      assumes end: offset + bytes <= size;
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_commit_range(uint64_t offset, uint64_t bytes, uint64_t size);

/* The most bytes that mapping a whole span may take; never above NXMEM_TOTAL_MAX. */
/*@ requires whole: NX_WHOLE_RANGE(offset, bytes);
    assigns \nothing;
    ensures exact: \result == NX_MOST(offset, bytes);
    ensures within: \result <= 0x8000000000000000; */
uint64_t nxmem_most_mapped(uint64_t offset, uint64_t bytes);

/*
 * Judge what a plugin says that mapping a whole span takes. MORE_THAN_POSSIBLE, also for a number left unwritten;
 * TOTAL_TOO_LARGE.
 *
 * mapped_total  What the books hold already; at most NXMEM_TOTAL_MAX. 0 where nothing is going to be charged.
 */
/*@ requires whole: NX_WHOLE_RANGE(offset, bytes);
    requires mapped_within: mapped_total <= 0x8000000000000000;
    assigns \nothing;
    behavior impossible:
      assumes beyond: cost > NX_MOST(offset, bytes);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_MORE_THAN_POSSIBLE, 0, cost, NX_MOST(offset, bytes));
    behavior too_large:
      assumes possible: cost <= NX_MOST(offset, bytes);
      assumes no_room: !NX_FITS(cost, mapped_total);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_TOTAL_TOO_LARGE, 0, cost,
                                     0x8000000000000000 - mapped_total);
    behavior believable:
      assumes possible: cost <= NX_MOST(offset, bytes);
      assumes fits: NX_FITS(cost, mapped_total);
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_judge_cost(uint64_t cost, uint64_t offset, uint64_t bytes, uint64_t mapped_total);

/* How a reported number of unmapped bytes is credited to an allocation that lives on. */
typedef struct nxmem_credit {
  uint64_t credited; /* never above the charge */
  uint64_t left;     /* the charge from now on */
  uint64_t excess;   /* reported beyond the charge: never credited, a violation when not 0 */
  uint32_t unknown;  /* 1: the number was left unwritten, so nothing is credited */
} nxmem_credit;

/*@ requires out_writable: \valid(out);
    assigns *out;
    ensures unknown: out->unknown == (reported == 0xFFFFFFFFFFFFFFFF ? 1 : 0);
    ensures nothing: reported == 0xFFFFFFFFFFFFFFFF ==> out->credited == 0 && out->excess == 0;
    ensures credited: reported != 0xFFFFFFFFFFFFFFFF ==> out->credited == (reported < charged ? reported : charged);
    ensures charge_is_split: out->credited + out->left == charged;
    ensures report_is_split: reported != 0xFFFFFFFFFFFFFFFF ==> out->credited + out->excess == reported; */
void nxmem_settle_decommit(uint64_t reported, uint64_t charged, nxmem_credit *out);

/*
 * The charge after the plugin was asked how much of an allocation of `bytes` is committed: its answer, where that is a
 * success and possible, be it less or more than is charged; else what is charged.
 */
/*@ assigns \nothing;
    behavior known:
      assumes answered: status_code == 0;
      assumes possible: reported <= NX_MOST(0, bytes);
      ensures exact: \result == reported;
    behavior unknown:
      assumes doubtful: status_code != 0 || reported > NX_MOST(0, bytes);
      ensures stays: \result == charged;
    complete behaviors;
    disjoint behaviors; */
uint64_t nxmem_settle_committed(uint32_t status_code, uint64_t reported, uint64_t charged, uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_BACKING_H */
