/*
 * granules.c: the granules of a span as one.
 *
 * Attackers: a granule among many that must not be touched.
 * Promise: every granule is looked at before the first is changed.
 */
#include "nxmem/granules.h"

#include "verdict_make.h"

int nxmem_granule_is(const nxmem_granule *granule, uint32_t kind) {
  switch (kind) {
    case NXMEM_GRANULE_MUST_MAP:
      return nxmem_granule_must_map(granule);
    case NXMEM_GRANULE_MUST_UNMAP:
      return nxmem_granule_must_unmap(granule);
    case NXMEM_GRANULE_UNREFERRED:
      return granule->references == 0u;
    default:
      return granule->references != 0u;
  }
}

int nxmem_granules_next_run(const nxmem_granule *granules, uint64_t count, uint64_t from, uint32_t kind,
                            nxmem_granule_run *run_out) {
  uint64_t first = from;
  /*@ loop invariant within: from <= first <= count;
      loop invariant not_one: \forall integer k; from <= k < first ==> !NX_GRANULE_IS(granules + k, kind);
      loop assigns first;
      loop variant count - first; */
  while (first < count && !nxmem_granule_is(&granules[first], kind)) first++;
  if (first == count) return 0;
  uint64_t end = first;
  /*@ loop invariant within: first <= end <= count;
      loop invariant all: \forall integer k; first <= k < end ==> NX_GRANULE_IS(granules + k, kind);
      loop assigns end;
      loop variant count - end; */
  while (end < count && nxmem_granule_is(&granules[end], kind)) end++;
  run_out->first = first;
  run_out->count = end - first;
  return 1;
}

uint64_t nxmem_granules_cost(const nxmem_granule *granules, uint64_t count) {
  uint64_t cost = 0u;
  /*@ loop invariant within: cost <= i <= count;
      loop invariant counted: NX_COUNTED(cost, granules, i);
      loop invariant none: (\forall integer k; 0 <= k < i ==> granules[k].mapping != 0) ==> cost == 0;
      loop invariant some: (\exists integer k; 0 <= k < i && granules[k].mapping == 0) ==> cost != 0;
      loop invariant all: (\forall integer k; 0 <= k < i ==> granules[k].mapping == 0) ==> cost == i;
      loop assigns i, cost;
      loop variant count - i; */
  for (uint64_t i = 0u; i < count; i++)
    if (granules[i].mapping == NXMEM_MAPPING_NONE) cost++;
  return cost;
}

nxmem_verdict nxmem_check_granules_take(const nxmem_granule *granules, uint64_t count) {
  /*@ loop invariant within: i <= count;
      loop invariant not_one: \forall integer k; 0 <= k < i ==> NX_TAKE_REASON(granules + k) == NXMEM_REASON_NONE;
      loop assigns i;
      loop variant count - i; */
  for (uint64_t i = 0u; i < count; i++) {
    const nxmem_verdict v = nxmem_check_granule_take(&granules[i]);
    if (v.reason != NXMEM_REASON_NONE) return nx_verdict((nxmem_reason)v.reason, 0u, i, 0u);
  }
  return nx_accept();
}

nxmem_verdict nxmem_granules_take(nxmem_granule *granules, uint64_t count) {
  const nxmem_verdict v = nxmem_check_granules_take(granules, count);
  if (v.reason != NXMEM_REASON_NONE) return v;
  /*@ loop invariant within: i <= count;
      loop invariant done: \forall integer k; 0 <= k < i ==> granules[k].references == \at(granules[k].references, LoopEntry) + 1;
      loop invariant to_do: \forall integer k; i <= k < count ==>
                              granules[k].references == \at(granules[k].references, LoopEntry);
      loop assigns i, granules[0 .. count - 1].references;
      loop variant count - i; */
  for (uint64_t i = 0u; i < count; i++) granules[i].references++;
  return nx_accept();
}

nxmem_verdict nxmem_granules_drop(nxmem_granule *granules, uint64_t count) {
  /*@ loop invariant within: i <= count;
      loop invariant not_one: \forall integer k; 0 <= k < i ==> granules[k].references != 0;
      loop assigns i;
      loop variant count - i; */
  for (uint64_t i = 0u; i < count; i++)
    if (granules[i].references == 0u) return nx_verdict(NXMEM_REASON_NO_REFERENCE, 0u, i, 0u);
  /*@ loop invariant within: i <= count;
      loop invariant done: \forall integer k; 0 <= k < i ==> granules[k].references == \at(granules[k].references, LoopEntry) - 1;
      loop invariant to_do: \forall integer k; i <= k < count ==>
                              granules[k].references == \at(granules[k].references, LoopEntry);
      loop assigns i, granules[0 .. count - 1].references;
      loop variant count - i; */
  for (uint64_t i = 0u; i < count; i++) granules[i].references--;
  return nx_accept();
}

/*@ requires readable: \valid_read(granule);
    assigns \nothing;
    ensures exact: \result == NX_UNMAP_REASON(granule); */
static nxmem_reason unmap_reason(const nxmem_granule *granule) {
  if (granule->mapping == NXMEM_MAPPING_NONE) return NXMEM_REASON_NOT_MAPPED;
  if (granule->poisoned != 0u) return NXMEM_REASON_POISONED;
  if (granule->references != 0u) return NXMEM_REASON_IN_USE;
  return NXMEM_REASON_NONE;
}

nxmem_verdict nxmem_granules_unmapped(nxmem_granule *granules, uint64_t count) {
  /*@ loop invariant within: i <= count;
      loop invariant not_one: \forall integer k; 0 <= k < i ==> NX_UNMAP_REASON(granules + k) == NXMEM_REASON_NONE;
      loop assigns i;
      loop variant count - i; */
  for (uint64_t i = 0u; i < count; i++) {
    const nxmem_reason reason = unmap_reason(&granules[i]);
    if (reason != NXMEM_REASON_NONE) return nx_verdict(reason, 0u, i, 0u);
  }
  /*@ loop invariant within: i <= count;
      loop invariant done: \forall integer k; 0 <= k < i ==> granules[k].mapping == 0;
      loop invariant to_do: \forall integer k; i <= k < count ==>
                              granules[k].mapping == \at(granules[k].mapping, LoopEntry);
      loop assigns i, granules[0 .. count - 1].mapping;
      loop variant count - i; */
  for (uint64_t i = 0u; i < count; i++) granules[i].mapping = NXMEM_MAPPING_NONE;
  return nx_accept();
}

void nxmem_granules_quarantine(nxmem_granule *granules, uint64_t count) {
  /*@ loop invariant within: i <= count;
      loop invariant done: \forall integer k; 0 <= k < i ==> granules[k].quarantined == 1;
      loop invariant to_do: \forall integer k; i <= k < count ==>
                              granules[k].quarantined == \at(granules[k].quarantined, LoopEntry);
      loop assigns i, granules[0 .. count - 1].quarantined;
      loop variant count - i; */
  for (uint64_t i = 0u; i < count; i++) granules[i].quarantined = 1u;
}

nxmem_verdict nxmem_check_granules_decommit(const nxmem_granule *granules, uint64_t count) {
  /*@ loop invariant within: i <= count;
      loop invariant not_one: \forall integer k; 0 <= k < i ==> NX_DECOMMIT_REASON(granules + k) == NXMEM_REASON_NONE;
      loop assigns i;
      loop variant count - i; */
  for (uint64_t i = 0u; i < count; i++) {
    const nxmem_verdict v = nxmem_check_granule_decommit(&granules[i]);
    if (v.reason != NXMEM_REASON_NONE) return nx_verdict((nxmem_reason)v.reason, 0u, i, 0u);
  }
  return nx_accept();
}
