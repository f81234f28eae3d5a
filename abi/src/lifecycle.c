/*
 * lifecycle.c: what a mechanism may still be used for, and when it may go.
 *
 * Attackers: callers that race retirement, loss and removal; a plugin that keeps what it should give back.
 * Promise: no way back, nothing new in what has ended, nothing removed that is held, no release that leads nowhere.
 */
#include "nxmem/lifecycle.h"

#include "verdict_make.h"

uint32_t nxmem_lifecycle_of(uint64_t word) { return nxmem_word_users(word); }

uint64_t nxmem_word_in_lifecycle(uint64_t word, uint32_t lifecycle) {
  return nxmem_word_make(nxmem_word_generation(word), lifecycle, nxmem_word_state(word));
}

int nxmem_lifecycle_leads(uint32_t from, uint32_t to) {
  if (to == NXMEM_LIFECYCLE_RETIRED) return from == NXMEM_LIFECYCLE_ACTIVE;
  if (to == NXMEM_LIFECYCLE_DEVICE_LOST) return from <= NXMEM_LIFECYCLE_RETIRED;
  return to == NXMEM_LIFECYCLE_TERMINATED && from == NXMEM_LIFECYCLE_DEVICE_LOST;
}

nxmem_verdict nxmem_check_work(uint32_t lifecycle, uint32_t work) {
  const uint32_t last = work == NXMEM_WORK_RELEASE ? NXMEM_LIFECYCLE_RETIRED : NXMEM_LIFECYCLE_ACTIVE;
  if (lifecycle > last) return nx_verdict(NXMEM_REASON_ENDED, 0u, lifecycle, last);
  return nx_accept();
}

/*@ assigns \nothing;
    ensures exact: NX_STILL_HELD(\result, which, count); */
static nxmem_verdict still_held(uint32_t which, uint64_t count) {
  return nx_verdict(NXMEM_REASON_STILL_HELD, which, count, 0u);
}

nxmem_verdict nxmem_check_removal(uint32_t lifecycle, const nxmem_holdings *holdings) {
  if (lifecycle == NXMEM_LIFECYCLE_ACTIVE)
    return nx_verdict(NXMEM_REASON_NOT_ENDED, 0u, lifecycle, NXMEM_LIFECYCLE_RETIRED);
  if (lifecycle != NXMEM_LIFECYCLE_RETIRED && lifecycle != NXMEM_LIFECYCLE_TERMINATED)
    return nx_verdict(NXMEM_REASON_NOT_ENDED, 0u, lifecycle, NXMEM_LIFECYCLE_TERMINATED);
  if (holdings->calls_inside != 0u) return still_held(NXMEM_HOLDING_CALLS_INSIDE, holdings->calls_inside);
  if (holdings->live != 0u) return still_held(NXMEM_HOLDING_LIVE, holdings->live);
  if (holdings->prepared != 0u) return still_held(NXMEM_HOLDING_PREPARED, holdings->prepared);
  if (lifecycle != NXMEM_LIFECYCLE_TERMINATED && holdings->quarantined != 0u)
    return still_held(NXMEM_HOLDING_QUARANTINED, holdings->quarantined);
  if (holdings->bindings != 0u) return still_held(NXMEM_HOLDING_BINDINGS, holdings->bindings);
  return nx_accept();
}

nxmem_keeping nxmem_settle_owned(uint32_t lifecycle, uint32_t fate) {
  if (lifecycle >= NXMEM_LIFECYCLE_TERMINATED) return NXMEM_KEPT_TERMINATED;
  if (lifecycle == NXMEM_LIFECYCLE_DEVICE_LOST) return NXMEM_KEPT_DEVICE_LOST;
  if (fate == NXMEM_FATE_GONE) return NXMEM_KEPT_NOT;
  return fate == NXMEM_FATE_LIVE ? NXMEM_KEPT_ALLOCATOR_REFUSED : NXMEM_KEPT_PARTIAL_RELEASE;
}

nxmem_keeping nxmem_keep_owned(uint32_t lifecycle, nxmem_keeping why) {
  if (lifecycle >= NXMEM_LIFECYCLE_TERMINATED) return NXMEM_KEPT_TERMINATED;
  return lifecycle == NXMEM_LIFECYCLE_DEVICE_LOST ? NXMEM_KEPT_DEVICE_LOST : why;
}
