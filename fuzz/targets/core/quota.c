/*
 * quota.c: the arithmetic of the books.
 * Attackers: figures of any number, limits that are passed, answers that differ from what was reserved.
 * Promise: one call, its arguments in the order of the prototype, records whole; a total that cannot be becomes the
 * largest that can; what a refused step may not change is compared here.
 */
#include "nxmem/quota.h"

#include <string.h>

#include "call.h"

static nxmem_axes take_axes(core_call *call) {
  nxmem_axes axes;
  axes.charged = fuzz_take_u64(&call->in);
  axes.physical = fuzz_take_u64(&call->in);
  axes.mapped = fuzz_take_u64(&call->in);
  return axes;
}

static const nxmem_axes *given_axes(core_call *call) {
  const nxmem_axes axes = take_axes(call);
  return core_given(call, &axes, sizeof axes);
}

/* Input: the six figures in their order | u32 delegated. */
static const nxmem_quota *given_quota(core_call *call) {
  nxmem_quota quota;
  memset(&quota, 0, sizeof quota);
  quota.taken = take_axes(call);
  quota.budget = take_axes(call);
  quota.slice = take_axes(call);
  quota.tier_taken = take_axes(call);
  quota.tier_shares = take_axes(call);
  quota.tier_limit = take_axes(call);
  quota.delegated = fuzz_take_u32(&call->in);
  return core_given(call, &quota, sizeof quota);
}

static uint64_t possible(uint64_t total) { return total < NXMEM_TOTAL_MAX ? total : NXMEM_TOTAL_MAX; }

static nxmem_axes take_total(core_call *call) {
  const nxmem_axes any = take_axes(call);
  return (nxmem_axes){possible(any.charged), possible(any.physical), possible(any.mapped)};
}

/* A step that says 0 has changed nothing. */
static void kept_unless(core_call *call, int done, const nxmem_axes *now, const nxmem_axes *before) {
  if (!done && memcmp(now, before, sizeof *now) != 0) core_fail(call, "frame", "a refused step changed its figures");
}

static void run_nxmem_check_reserve(core_call *call) {
  const nxmem_quota *quota = given_quota(call);
  nxmem_check_reserve(quota, given_axes(call));
}

static void run_nxmem_quota_step(core_call *call) {
  const nxmem_quota *quota = given_quota(call);
  const nxmem_axes *ask = given_axes(call);
  const uint64_t step = fuzz_take_u64(&call->in);
  nxmem_quota_step(quota, ask, step, core_room(call, sizeof(nxmem_axes)));
}

static void run_nxmem_check_delegation(core_call *call) {
  const nxmem_quota *quota = given_quota(call);
  nxmem_check_delegation(quota, given_axes(call));
}

static void run_nxmem_quota_share(core_call *call) {
  const nxmem_quota *quota = given_quota(call);
  nxmem_quota_share(quota, core_room(call, sizeof(nxmem_axes)));
}

static void run_nxmem_quota_beyond(core_call *call) {
  const nxmem_axes *taken = given_axes(call);
  const nxmem_axes *limit = given_axes(call);
  nxmem_quota_beyond(taken, limit, core_room(call, sizeof(nxmem_axes)));
}

static void run_nxmem_settle_commit(core_call *call) {
  const nxmem_axes *reserved = given_axes(call);
  const nxmem_axes *answered = given_axes(call);
  nxmem_axes *more = core_room(call, sizeof *more);
  nxmem_settle_commit(reserved, answered, more, core_room(call, sizeof(nxmem_axes)));
}

static void run_nxmem_axes_take(core_call *call) {
  const nxmem_axes before = take_axes(call);
  const nxmem_axes *bytes = given_axes(call);
  nxmem_axes *room = core_changing(call, &before, sizeof before);
  kept_unless(call, nxmem_axes_take(room, bytes), room, &before);
}

static void run_nxmem_axes_add(core_call *call) {
  const nxmem_axes before = take_total(call);
  const nxmem_axes *part = given_axes(call);
  nxmem_axes *total = core_changing(call, &before, sizeof before);
  kept_unless(call, nxmem_axes_add(total, part), total, &before);
}

static void run_nxmem_axes_adopt(core_call *call) {
  const nxmem_axes before = take_total(call);
  const nxmem_axes *part = given_axes(call);
  nxmem_axes_adopt(core_changing(call, &before, sizeof before), part);
}

static void run_nxmem_axes_refund(core_call *call) {
  const nxmem_axes before = take_axes(call);
  const nxmem_axes *bytes = given_axes(call);
  nxmem_axes_refund(core_changing(call, &before, sizeof before), bytes);
}

static const core_row rows[] = {
    CORE_ROW(nxmem_check_reserve), CORE_ROW(nxmem_quota_step),   CORE_ROW(nxmem_check_delegation),
    CORE_ROW(nxmem_quota_share),   CORE_ROW(nxmem_quota_beyond), CORE_ROW(nxmem_settle_commit),
    CORE_ROW(nxmem_axes_take),     CORE_ROW(nxmem_axes_add),     CORE_ROW(nxmem_axes_adopt),
    CORE_ROW(nxmem_axes_refund),
};
CORE_TOPIC(quota);
