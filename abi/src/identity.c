/*
 * identity.c: exact comparison of devices and mechanisms.
 *
 * Attackers: one mechanism's object handed to another.
 * Promise: equal means equal in every part.
 */
#include "nxmem/identity.h"

#include "verdict_make.h"

enum { AT_ALLOCATION_MECHANISM = 8, AT_ALLOCATION_DEVICE = 24 };
#ifndef __FRAMAC__
#include <stddef.h>
_Static_assert(AT_ALLOCATION_MECHANISM == offsetof(NxmemAllocation, mechanism_id), "mechanism_id");
_Static_assert(AT_ALLOCATION_DEVICE == offsetof(NxmemAllocation, device), "device");
#endif

/*@ assigns \nothing;
    ensures exact: \result == NX_DEVICE_NUMBER(device); */
static uint64_t device_number(NxmemDeviceId device) {
  return (uint64_t)device.tier * 4294967296u + (uint64_t)device.index;
}

nxmem_verdict nxmem_check_tier(uint32_t tier) {
  if (tier > NXMEM_TIER_DISK) return nx_verdict(NXMEM_REASON_UNKNOWN_TIER, 0u, tier, NXMEM_TIER_DISK);
  return nx_accept();
}

int nxmem_tier_is_left_out(uint32_t tier, uint32_t declared_minor, uint32_t ceiling) {
  return tier > NXMEM_TIER_DISK && declared_minor > ceiling;
}

int nxmem_same_device(NxmemDeviceId a, NxmemDeviceId b) { return a.tier == b.tier && a.index == b.index; }

nxmem_verdict nxmem_check_device(NxmemDeviceId found, NxmemDeviceId needed) {
  if (nxmem_same_device(found, needed)) return nx_accept();
  return nx_verdict(NXMEM_REASON_OTHER_DEVICE, AT_ALLOCATION_DEVICE, device_number(found), device_number(needed));
}

nxmem_verdict nxmem_check_identity(uint64_t mechanism_id, NxmemDeviceId device, uint64_t needed_mechanism_id,
                                   NxmemDeviceId needed_device) {
  if (mechanism_id != needed_mechanism_id)
    return nx_verdict(NXMEM_REASON_OTHER_MECHANISM, AT_ALLOCATION_MECHANISM, mechanism_id, needed_mechanism_id);
  return nxmem_check_device(device, needed_device);
}
