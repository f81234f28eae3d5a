/*
 * quota.c: the arithmetic of the books, axis by axis.
 *
 * Attackers: sums near a limit and near 2^64, answers that differ from what was reserved.
 * Promise: no sum or difference wraps; nothing is granted beyond a limit; a refusal says which limit and what it leaves.
 */
#include "nxmem/quota.h"

#include "verdict_make.h"

/*@ assigns \nothing;
    ensures exact: \result == NX_LEFT(taken, limit); */
static uint64_t left_of(uint64_t taken, uint64_t limit) { return taken < limit ? limit - taken : 0u; }

/*@ assigns \nothing;
    ensures exact: \result == NX_LEAST(a, b); */
static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/*@ assigns \nothing;
    ensures exact: \result == NX_MOST_OF(a, b); */
static uint64_t most(uint64_t a, uint64_t b) { return a < b ? b : a; }

/*@ requires ask_readable: \valid_read(ask);
    requires taken_readable: \valid_read(taken);
    requires limit_readable: \valid_read(limit);
    assigns \nothing;
    behavior fits:
      assumes room: NX_ASK_FITS(*ask, *taken, *limit);
      ensures accepted: NX_ACCEPTED(\result);
    behavior beyond:
      assumes none: !NX_ASK_FITS(*ask, *taken, *limit);
      ensures why: \result.reason == reason;
      ensures charged: NX_SHORT_CHARGED(\result, reason, *ask, *taken, *limit);
      ensures physical: NX_SHORT_PHYSICAL(\result, reason, *ask, *taken, *limit);
      ensures mapped: NX_SHORT_MAPPED(\result, reason, *ask, *taken, *limit);
    complete behaviors;
    disjoint behaviors; */
static nxmem_verdict check_limit(const nxmem_axes *ask, const nxmem_axes *taken, const nxmem_axes *limit,
                                 nxmem_reason reason) {
  const uint64_t charged = left_of(taken->charged, limit->charged);
  const uint64_t physical = left_of(taken->physical, limit->physical);
  const uint64_t mapped = left_of(taken->mapped, limit->mapped);
  if (ask->charged > charged) return nx_verdict(reason, NXMEM_QUOTA_CHARGED, ask->charged, charged);
  if (ask->physical > physical) return nx_verdict(reason, NXMEM_QUOTA_PHYSICAL, ask->physical, physical);
  if (ask->mapped > mapped) return nx_verdict(reason, NXMEM_QUOTA_MAPPED, ask->mapped, mapped);
  return nx_accept();
}

nxmem_verdict nxmem_check_reserve(const nxmem_quota *quota, const nxmem_axes *ask) {
  nxmem_verdict v = check_limit(ask, &quota->taken, &quota->budget, NXMEM_REASON_OVER_BUDGET);
  if (v.reason != NXMEM_REASON_NONE) return v;
  if (quota->delegated == 0u)
    return check_limit(ask, &quota->tier_shares, &quota->tier_limit, NXMEM_REASON_OVER_PROCESS_LIMIT);
  v = check_limit(ask, &quota->taken, &quota->slice, NXMEM_REASON_OVER_SLICE);
  if (v.reason != NXMEM_REASON_NONE) return v;
  return check_limit(ask, &quota->tier_taken, &quota->tier_limit, NXMEM_REASON_OVER_PROCESS_LIMIT);
}

/* One axis of all that caps an authority. */
/*@ assigns \nothing;
    behavior delegated:
      assumes slice: delegated != 0;
      ensures exact: \result == NX_LEAST(NX_LEAST(NX_LEFT(taken, budget), NX_LEFT(taken, slice)),
                                         NX_LEFT(tier_taken, tier_limit));
    behavior undelegated:
      assumes none: delegated == 0;
      ensures exact: \result == NX_LEAST(NX_LEFT(taken, budget), NX_LEFT(tier_shares, tier_limit));
    complete behaviors;
    disjoint behaviors; */
static uint64_t left_under_all(uint32_t delegated, uint64_t taken, uint64_t budget, uint64_t slice, uint64_t tier_taken,
                               uint64_t tier_shares, uint64_t tier_limit) {
  const uint64_t own = left_of(taken, budget);
  if (delegated == 0u) return least(own, left_of(tier_shares, tier_limit));
  return least(least(own, left_of(taken, slice)), left_of(tier_taken, tier_limit));
}

void nxmem_quota_step(const nxmem_quota *quota, const nxmem_axes *ask, uint64_t step, nxmem_axes *out) {
  const uint64_t charged =
      left_under_all(quota->delegated, quota->taken.charged, quota->budget.charged, quota->slice.charged,
                     quota->tier_taken.charged, quota->tier_shares.charged, quota->tier_limit.charged);
  const uint64_t physical =
      left_under_all(quota->delegated, quota->taken.physical, quota->budget.physical, quota->slice.physical,
                     quota->tier_taken.physical, quota->tier_shares.physical, quota->tier_limit.physical);
  const uint64_t mapped =
      left_under_all(quota->delegated, quota->taken.mapped, quota->budget.mapped, quota->slice.mapped,
                     quota->tier_taken.mapped, quota->tier_shares.mapped, quota->tier_limit.mapped);
  out->charged = least(step, left_of(ask->charged, charged));
  out->physical = least(step, left_of(ask->physical, physical));
  out->mapped = least(step, left_of(ask->mapped, mapped));
}

/*@ requires taken_readable: \valid_read(taken);
    requires slice_readable: \valid_read(slice);
    assigns \nothing;
    behavior holds:
      assumes enough: NX_AXES_LEQ(*taken, *slice);
      ensures accepted: NX_ACCEPTED(\result);
    behavior too_small:
      assumes below: !NX_AXES_LEQ(*taken, *slice);
      ensures why: \result.reason == NXMEM_REASON_SLICE_TOO_SMALL;
      ensures charged: slice->charged < taken->charged ==>
                       NX_VERDICT_IS(\result, NXMEM_REASON_SLICE_TOO_SMALL, NXMEM_QUOTA_CHARGED, slice->charged,
                                     taken->charged);
      ensures physical: slice->charged >= taken->charged && slice->physical < taken->physical ==>
                        NX_VERDICT_IS(\result, NXMEM_REASON_SLICE_TOO_SMALL, NXMEM_QUOTA_PHYSICAL, slice->physical,
                                      taken->physical);
      ensures mapped: slice->charged >= taken->charged && slice->physical >= taken->physical ==>
                      NX_VERDICT_IS(\result, NXMEM_REASON_SLICE_TOO_SMALL, NXMEM_QUOTA_MAPPED, slice->mapped,
                                    taken->mapped);
    complete behaviors;
    disjoint behaviors; */
static nxmem_verdict check_holds(const nxmem_axes *taken, const nxmem_axes *slice) {
  const nxmem_reason small = NXMEM_REASON_SLICE_TOO_SMALL;
  if (slice->charged < taken->charged) return nx_verdict(small, NXMEM_QUOTA_CHARGED, slice->charged, taken->charged);
  if (slice->physical < taken->physical)
    return nx_verdict(small, NXMEM_QUOTA_PHYSICAL, slice->physical, taken->physical);
  if (slice->mapped < taken->mapped) return nx_verdict(small, NXMEM_QUOTA_MAPPED, slice->mapped, taken->mapped);
  return nx_accept();
}

nxmem_verdict nxmem_check_delegation(const nxmem_quota *quota, const nxmem_axes *slice) {
  if (quota->delegated != 0u) return nx_verdict(NXMEM_REASON_ALREADY_DELEGATED, 0u, 1u, 0u);
  const nxmem_verdict v = check_holds(&quota->taken, slice);
  if (v.reason != NXMEM_REASON_NONE) return v;
  nxmem_axes others;
  nxmem_quota_beyond(&quota->tier_shares, &quota->taken, &others);
  return check_limit(slice, &others, &quota->tier_limit, NXMEM_REASON_OVER_PROCESS_LIMIT);
}

void nxmem_quota_share(const nxmem_quota *quota, nxmem_axes *out) {
  const int whole = quota->delegated != 0u;
  out->charged = whole ? most(quota->taken.charged, quota->slice.charged) : quota->taken.charged;
  out->physical = whole ? most(quota->taken.physical, quota->slice.physical) : quota->taken.physical;
  out->mapped = whole ? most(quota->taken.mapped, quota->slice.mapped) : quota->taken.mapped;
}

void nxmem_quota_beyond(const nxmem_axes *taken, const nxmem_axes *limit, nxmem_axes *out) {
  out->charged = left_of(limit->charged, taken->charged);
  out->physical = left_of(limit->physical, taken->physical);
  out->mapped = left_of(limit->mapped, taken->mapped);
}

void nxmem_settle_commit(const nxmem_axes *reserved, const nxmem_axes *answered, nxmem_axes *more, nxmem_axes *spare) {
  nxmem_quota_beyond(answered, reserved, more);
  nxmem_quota_beyond(reserved, answered, spare);
}

int nxmem_axes_take(nxmem_axes *room, const nxmem_axes *bytes) {
  if (bytes->charged > room->charged || bytes->physical > room->physical || bytes->mapped > room->mapped) return 0;
  room->charged -= bytes->charged;
  room->physical -= bytes->physical;
  room->mapped -= bytes->mapped;
  return 1;
}

int nxmem_axes_add(nxmem_axes *total, const nxmem_axes *part) {
  if (part->charged > NXMEM_TOTAL_MAX - total->charged) return 0;
  if (part->physical > NXMEM_TOTAL_MAX - total->physical) return 0;
  if (part->mapped > NXMEM_TOTAL_MAX - total->mapped) return 0;
  total->charged += part->charged;
  total->physical += part->physical;
  total->mapped += part->mapped;
  return 1;
}

void nxmem_axes_adopt(nxmem_axes *total, const nxmem_axes *part) {
  total->charged += least(part->charged, NXMEM_TOTAL_MAX - total->charged);
  total->physical += least(part->physical, NXMEM_TOTAL_MAX - total->physical);
  total->mapped += least(part->mapped, NXMEM_TOTAL_MAX - total->mapped);
}

uint32_t nxmem_axes_refund(nxmem_axes *held, const nxmem_axes *bytes) {
  const uint32_t clamped = (uint32_t)(bytes->charged > held->charged) + (uint32_t)(bytes->physical > held->physical) +
                           (uint32_t)(bytes->mapped > held->mapped);
  held->charged = left_of(bytes->charged, held->charged);
  held->physical = left_of(bytes->physical, held->physical);
  held->mapped = left_of(bytes->mapped, held->mapped);
  return clamped;
}
