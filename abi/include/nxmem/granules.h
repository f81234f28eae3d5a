/*
 * granules.h: the granules of a span, side by side: taken, mapped, dropped and counted as one.
 *
 * Attackers: spans of which some granule is poisoned, shared or full; releases that come twice.
 * Promise: all of a span changes or none of it; a run is whole: every granule of it is of the kind, and neither
 * neighbour is.
 *
 * An array here holds exactly the granules of the span, in the order of their addresses.
 */
#ifndef NXMEM_GRANULES_H
#define NXMEM_GRANULES_H

#include "nxmem/granule.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a run is made of. */
typedef enum nxmem_granule_kind {
  NXMEM_GRANULE_MUST_MAP = 1,   /* taken, not mapped yet */
  NXMEM_GRANULE_MUST_UNMAP = 2, /* mapped, not poisoned, and nobody refers to it */
  NXMEM_GRANULE_UNREFERRED = 3, /* nobody refers to it */
  NXMEM_GRANULE_REFERRED = 4    /* somebody does */
} nxmem_granule_kind;

typedef struct nxmem_granule_run {
  uint64_t first; /* index into the array */
  uint64_t count; /* at least 1 */
} nxmem_granule_run;

#ifdef __FRAMAC__
/* clang-format off */
#define NX_GRANULE_IS(g, kind) \
  ((kind) == 1 ? NX_MUST_MAP(g) : (kind) == 2 ? NX_MUST_UNMAP(g) : (kind) == 3 ? (g)->references == 0 \
                                                                               : (g)->references != 0)
/* clang-format on */
#endif

/* 1 where a granule is of that kind, else 0. */
/*@ requires readable: \valid_read(granule);
    requires kind: 1 <= kind <= 4;
    assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==> NX_GRANULE_IS(granule, kind); */
int nxmem_granule_is(const nxmem_granule *granule, uint32_t kind);

/*
 * The first run of granules of a kind that begins at index `from` or behind it: 1 and *run_out; 0 and nothing written
 * where there is none. Where `from` lies inside a run, what is left of it.
 */
/*@ requires readable: \valid_read(granules + (0 .. count - 1));
    requires inside: from <= count;
    requires kind: 1 <= kind <= 4;
    requires out_writable: \valid(run_out);
    requires apart: \separated(granules + (0 .. count - 1), run_out);
    assigns *run_out;
    ensures boolean: \result == 0 || \result == 1;
    behavior some:
      assumes one: !(\forall integer k; from <= k < count ==> !NX_GRANULE_IS(granules + k, kind));
      ensures found: \result == 1;
      ensures within: from <= run_out->first < run_out->first + run_out->count <= count;
      ensures all: \forall integer k; run_out->first <= k < run_out->first + run_out->count ==>
                     NX_GRANULE_IS(granules + k, kind);
      ensures none_before: \forall integer k; from <= k < run_out->first ==> !NX_GRANULE_IS(granules + k, kind);
      ensures whole: run_out->first + run_out->count < count ==>
                       !NX_GRANULE_IS(granules + run_out->first + run_out->count, kind);
    behavior none:
      assumes not_one: \forall integer k; from <= k < count ==> !NX_GRANULE_IS(granules + k, kind);
      assigns \nothing;
      ensures found: \result == 0;
    complete behaviors;
    disjoint behaviors; */
int nxmem_granules_next_run(const nxmem_granule *granules, uint64_t count, uint64_t from, uint32_t kind,
                            nxmem_granule_run *run_out);

#ifdef __FRAMAC__
/* The first n granules without a mapping, counted. The run-time checker does not come to an end with a count. */
#ifdef NXMEM_CONTRACT
#define NX_COUNTED(result, granules, n) ((result) <= (n))
#else
/*@ logic integer nx_unmapped(nxmem_granule *granules, integer n) =
      n <= 0 ? 0 : nx_unmapped(granules, n - 1) + (granules[n - 1].mapping == 0 ? 1 : 0); */
#define NX_COUNTED(result, granules, n) ((result) == nx_unmapped(granules, n))
#endif
#endif
/* How many granules of a span a commit of it would have to map: those without a mapping. */
/*@ requires readable: \valid_read(granules + (0 .. count - 1));
    assigns \nothing;
    ensures counted: NX_COUNTED(\result, granules, count);
    ensures within: \result <= count;
    ensures none: (\forall integer k; 0 <= k < count ==> granules[k].mapping != 0) ==> \result == 0;
    ensures some: !(\forall integer k; 0 <= k < count ==> granules[k].mapping != 0) ==> \result != 0;
    ensures all: (\forall integer k; 0 <= k < count ==> granules[k].mapping == 0) ==> \result == count; */
uint64_t nxmem_granules_cost(const nxmem_granule *granules, uint64_t count);

/*
 * May every granule of a span be taken? The reason of the first that may not (as nxmem_check_granule_take()), found: its
 * index, needed: 0.
 */
/*@ requires readable: \valid_read(granules + (0 .. count - 1));
    assigns \nothing;
    behavior some:
      assumes one: !(\forall integer k; 0 <= k < count ==> NX_TAKE_REASON(granules + k) == NXMEM_REASON_NONE);
      ensures index: \result.found < count;
      ensures refused: \result.reason == NX_TAKE_REASON(granules + \result.found) && \result.reason != 0;
      ensures numbers: \result.field == 0 && \result.needed == 0;
      ensures first: \forall integer k; 0 <= k < \result.found ==> NX_TAKE_REASON(granules + k) == NXMEM_REASON_NONE;
    behavior none:
      assumes not_one: \forall integer k; 0 <= k < count ==> NX_TAKE_REASON(granules + k) == NXMEM_REASON_NONE;
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_granules_take(const nxmem_granule *granules, uint64_t count);

/* Take them all; refused as above, and nothing changed. */
/*@ requires writable: \valid(granules + (0 .. count - 1));
    requires granules_valid: \forall integer k; 0 <= k < count ==> NX_GRANULE_VALID(granules + k);
    assigns granules[0 .. count - 1].references;
    ensures stay_valid: \forall integer k; 0 <= k < count ==> NX_GRANULE_VALID(granules + k);
    behavior some:
      assumes one: !(\forall integer k; 0 <= k < count ==> NX_TAKE_REASON(granules + k) == NXMEM_REASON_NONE);
      assigns \nothing;
      ensures index: \result.found < count;
      ensures refused: \result.reason == NX_TAKE_REASON(granules + \result.found) && \result.reason != 0;
      ensures numbers: \result.field == 0 && \result.needed == 0;
      ensures first: \forall integer k; 0 <= k < \result.found ==> NX_TAKE_REASON(granules + k) == NXMEM_REASON_NONE;
    behavior none:
      assumes not_one: \forall integer k; 0 <= k < count ==> NX_TAKE_REASON(granules + k) == NXMEM_REASON_NONE;
      ensures accepted: NX_ACCEPTED(\result);
      ensures one_more: \forall integer k; 0 <= k < count ==> granules[k].references == \old(granules[k].references) + 1;
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_granules_take(nxmem_granule *granules, uint64_t count);

/* Drop them all. NO_REFERENCE, found: the index of the first without one, and nothing changed. */
/*@ requires writable: \valid(granules + (0 .. count - 1));
    requires granules_valid: \forall integer k; 0 <= k < count ==> NX_GRANULE_VALID(granules + k);
    assigns granules[0 .. count - 1].references;
    ensures stay_valid: \forall integer k; 0 <= k < count ==> NX_GRANULE_VALID(granules + k);
    behavior some:
      assumes one: !(\forall integer k; 0 <= k < count ==> NX_DROP_REASON(granules + k) == NXMEM_REASON_NONE);
      assigns \nothing;
      ensures index: \result.found < count;
      ensures refused: \result.reason == NX_DROP_REASON(granules + \result.found) && \result.reason != 0;
      ensures numbers: \result.field == 0 && \result.needed == 0;
      ensures first: \forall integer k; 0 <= k < \result.found ==> NX_DROP_REASON(granules + k) == NXMEM_REASON_NONE;
    behavior none:
      assumes not_one: \forall integer k; 0 <= k < count ==> NX_DROP_REASON(granules + k) == NXMEM_REASON_NONE;
      ensures accepted: NX_ACCEPTED(\result);
      ensures one_fewer: \forall integer k; 0 <= k < count ==> granules[k].references == \old(granules[k].references) - 1;
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_granules_drop(nxmem_granule *granules, uint64_t count);

/*
 * The driver unmapped a run: all of it becomes unmapped. The reason of the first that may not (as
 * nxmem_granule_unmapped()), found: its index, and nothing changed.
 */
/*@ requires writable: \valid(granules + (0 .. count - 1));
    requires granules_valid: \forall integer k; 0 <= k < count ==> NX_GRANULE_VALID(granules + k);
    assigns granules[0 .. count - 1].mapping;
    ensures stay_valid: \forall integer k; 0 <= k < count ==> NX_GRANULE_VALID(granules + k);
    behavior some:
      assumes one: !(\forall integer k; 0 <= k < count ==> NX_UNMAP_REASON(granules + k) == NXMEM_REASON_NONE);
      assigns \nothing;
      ensures index: \result.found < count;
      ensures refused: \result.reason == NX_UNMAP_REASON(granules + \result.found) && \result.reason != 0;
      ensures numbers: \result.field == 0 && \result.needed == 0;
      ensures first: \forall integer k; 0 <= k < \result.found ==> NX_UNMAP_REASON(granules + k) == NXMEM_REASON_NONE;
    behavior none:
      assumes not_one: \forall integer k; 0 <= k < count ==> NX_UNMAP_REASON(granules + k) == NXMEM_REASON_NONE;
      ensures accepted: NX_ACCEPTED(\result);
      ensures nothing_there: \forall integer k; 0 <= k < count ==> granules[k].mapping == 0;
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_granules_unmapped(nxmem_granule *granules, uint64_t count);

/* Keep them all back. */
/*@ requires writable: \valid(granules + (0 .. count - 1));
    requires granules_valid: \forall integer k; 0 <= k < count ==> NX_GRANULE_VALID(granules + k);
    assigns granules[0 .. count - 1].quarantined;
    ensures stay_valid: \forall integer k; 0 <= k < count ==> NX_GRANULE_VALID(granules + k);
    ensures kept_back: \forall integer k; 0 <= k < count ==> granules[k].quarantined == 1; */
void nxmem_granules_quarantine(nxmem_granule *granules, uint64_t count);

/*
 * May the bytes of a span be given back while its allocation lives on? The reason of the first granule that forbids it
 * (as nxmem_check_granule_decommit()), found: its index.
 */
/*@ requires readable: \valid_read(granules + (0 .. count - 1));
    assigns \nothing;
    behavior some:
      assumes one: !(\forall integer k; 0 <= k < count ==> NX_DECOMMIT_REASON(granules + k) == NXMEM_REASON_NONE);
      ensures index: \result.found < count;
      ensures refused: \result.reason == NX_DECOMMIT_REASON(granules + \result.found) && \result.reason != 0;
      ensures numbers: \result.field == 0 && \result.needed == 0;
      ensures first: \forall integer k; 0 <= k < \result.found ==> NX_DECOMMIT_REASON(granules + k) == NXMEM_REASON_NONE;
    behavior none:
      assumes not_one: \forall integer k; 0 <= k < count ==> NX_DECOMMIT_REASON(granules + k) == NXMEM_REASON_NONE;
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_granules_decommit(const nxmem_granule *granules, uint64_t count);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_GRANULES_H */
