/*
 * quota.c: Eva drivers of nxmem/quota.h: each entry point once for everything that its contract allows.
 *
 * Attackers: figures near 2^63 and 2^64, limits that are passed.
 * Promise: numbers around every bound, the same on the three axes: Eva relates no two numbers that stand in records.
 */
#include "nxmem/quota.h"

#include "support.h"

static nxmem_axes all_axes(uint64_t bytes) {
  nxmem_axes axes;
  axes.charged = bytes;
  axes.physical = bytes;
  axes.mapped = bytes;
  return axes;
}

static nxmem_axes any_axes(void) {
  nxmem_axes axes;
  eva_fill(&axes, sizeof(axes));
  return axes;
}

/* Where three or more numbers meet: fewer of them, each on a path of its own. */
static uint64_t some_bound(void) {
  static const uint64_t bounds[] = {0u, 4096u, 0x8000000000000000u, 0xFFFFFFFFFFFFFFFFu};
  return bounds[eva_each(0u, 3u)];
}

/* Each axis its own. */
static nxmem_axes some_axes(void) {
  nxmem_axes axes;
  axes.charged = some_bound();
  axes.physical = some_bound();
  axes.mapped = some_bound();
  return axes;
}

static nxmem_quota quota_of(uint64_t taken, uint64_t shares, uint64_t limit) {
  nxmem_quota quota;
  quota.taken = all_axes(taken);
  quota.budget = all_axes(limit);
  quota.slice = all_axes(limit);
  quota.tier_taken = all_axes(taken);
  quota.tier_shares = all_axes(shares);
  quota.tier_limit = all_axes(limit);
  quota.delegated = any32;
  return quota;
}

void eva_nxmem_check_reserve(void) {
  const uint64_t taken = some_bound();
  nxmem_quota quota = quota_of(taken, taken, some_bound());
  const nxmem_axes ask = any_axes();
  quota.slice = all_axes(some_bound());
  (void)nxmem_check_reserve(&quota, &ask);
}

void eva_nxmem_quota_step(void) {
  const uint64_t taken = some_bound();
  const nxmem_quota quota = quota_of(taken, taken, some_bound());
  const nxmem_axes ask = all_axes(some_bound());
  nxmem_axes out;
  nxmem_quota_step(&quota, &ask, any64, &out);
}

void eva_nxmem_check_delegation(void) {
  const uint64_t taken = some_bound();
  const uint64_t shares = some_bound();
  const nxmem_quota quota = quota_of(taken, shares, some_bound());
  const nxmem_axes slice = any_axes();
  (void)nxmem_check_delegation(&quota, &slice);
}

void eva_nxmem_quota_share(void) {
  const nxmem_quota quota = quota_of(any64, any64, any64);
  nxmem_axes out;
  nxmem_quota_share(&quota, &out);
}

void eva_nxmem_quota_beyond(void) {
  const nxmem_axes taken = all_axes(eva_bound());
  const nxmem_axes limit = all_axes(eva_bound());
  nxmem_axes out;
  nxmem_quota_beyond(&taken, &limit, &out);
}

void eva_nxmem_settle_commit(void) {
  const nxmem_axes reserved = all_axes(eva_bound());
  const nxmem_axes answered = all_axes(eva_bound());
  nxmem_axes more, spare;
  nxmem_settle_commit(&reserved, &answered, &more, &spare);
}

void eva_nxmem_axes_take(void) {
  nxmem_axes room = some_axes();
  const nxmem_axes bytes = all_axes(some_bound());
  (void)nxmem_axes_take(&room, &bytes);
}

void eva_nxmem_axes_add(void) {
  nxmem_axes total = some_axes();
  const nxmem_axes part = all_axes(some_bound());
  if (total.charged <= NXMEM_TOTAL_MAX && total.physical <= NXMEM_TOTAL_MAX && total.mapped <= NXMEM_TOTAL_MAX)
    (void)nxmem_axes_add(&total, &part);
}

void eva_nxmem_axes_adopt(void) {
  const uint64_t before = eva_bound();
  nxmem_axes total = all_axes(before);
  const nxmem_axes part = all_axes(eva_bound());
  if (before <= NXMEM_TOTAL_MAX) nxmem_axes_adopt(&total, &part);
}

void eva_nxmem_axes_refund(void) {
  nxmem_axes held = all_axes(eva_bound());
  const nxmem_axes bytes = all_axes(eva_bound());
  (void)nxmem_axes_refund(&held, &bytes);
}
