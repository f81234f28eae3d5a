/*
 * reclaim.c: requests for memory back.
 * Attackers: strangers' ids and devices, short records, amounts beyond what was asked.
 * Promise: one call, its arguments in the order of the prototype.
 */
#include "nxmem/reclaim.h"

#include "call.h"

static void run_nxmem_reclaim_take(core_call *call) {
  NxmemReclaimRequest *out = core_room(call, sizeof *out);
  core_kept_unless_accepted(call, nxmem_reclaim_take(core_declared(call, sizeof *out), out));
}

static void run_nxmem_check_reclaim(core_call *call) {
  const NxmemReclaimRequest *request = core_given_next(call, sizeof *request);
  const uint64_t mechanism_id = fuzz_take_u64(&call->in);
  NxmemDeviceId device;
  device.tier = fuzz_take_u32(&call->in);
  device.index = fuzz_take_u32(&call->in);
  nxmem_check_reclaim(request, mechanism_id, device);
}

static void run_nxmem_reclaimed(core_call *call) {
  const uint64_t said = fuzz_take_u64(&call->in);
  nxmem_reclaimed(said, fuzz_take_u64(&call->in));
}

static const core_row rows[] = {CORE_ROW(nxmem_reclaim_take), CORE_ROW(nxmem_check_reclaim), CORE_ROW(nxmem_reclaimed)};
CORE_TOPIC(reclaim);
