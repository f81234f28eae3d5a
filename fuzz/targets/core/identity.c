/*
 * identity.c: devices and mechanisms.
 * Attackers: one mechanism's object handed to another.
 * Promise: one call, its arguments in the order of the prototype.
 */
#include "nxmem/identity.h"

#include "call.h"

static NxmemDeviceId device(core_call *call) {
  NxmemDeviceId id;
  id.tier = fuzz_take_u32(&call->in);
  id.index = fuzz_take_u32(&call->in);
  return id;
}

static void run_nxmem_check_tier(core_call *call) { nxmem_check_tier(fuzz_take_u32(&call->in)); }

static void run_nxmem_same_device(core_call *call) {
  const NxmemDeviceId a = device(call);
  nxmem_same_device(a, device(call));
}

static void run_nxmem_check_device(core_call *call) {
  const NxmemDeviceId found = device(call);
  nxmem_check_device(found, device(call));
}

static void run_nxmem_check_identity(core_call *call) {
  const uint64_t mechanism = fuzz_take_u64(&call->in);
  const NxmemDeviceId found = device(call);
  const uint64_t needed = fuzz_take_u64(&call->in);
  nxmem_check_identity(mechanism, found, needed, device(call));
}

static void run_nxmem_tier_is_left_out(core_call *call) {
  const uint32_t tier = fuzz_take_u32(&call->in);
  const uint32_t declared_minor = fuzz_take_u32(&call->in);
  nxmem_tier_is_left_out(tier, declared_minor, fuzz_take_u32(&call->in));
}

static const core_row rows[] = {
    CORE_ROW(nxmem_check_tier),     CORE_ROW(nxmem_same_device),      CORE_ROW(nxmem_check_device),
    CORE_ROW(nxmem_check_identity), CORE_ROW(nxmem_tier_is_left_out),
};
CORE_TOPIC(identity);
