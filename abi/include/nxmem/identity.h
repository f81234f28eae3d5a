/*
 * identity.h: is this the device and the mechanism that was meant?
 *
 * Attackers: a peer that hands one mechanism's object to another, or answers for a device nobody asked for.
 * Promise: exact comparison of every part; an unknown tier is never a known one.
 */
#ifndef NXMEM_IDENTITY_H
#define NXMEM_IDENTITY_H

#include "nxmem/verdict.h"
#include "nxmem_memory_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __FRAMAC__
/* clang-format off */
#define NX_SAME_DEVICE(a, b) ((a).tier == (b).tier && (a).index == (b).index)
#define NX_DEVICE_NUMBER(d) ((d).tier * 4294967296 + (d).index)
#define NX_OTHER_DEVICE(v, found, needed) \
  NX_VERDICT_IS(v, NXMEM_REASON_OTHER_DEVICE, 24, NX_DEVICE_NUMBER(found), NX_DEVICE_NUMBER(needed))
/* clang-format on */
#endif
/* UNKNOWN_TIER unless the tier is DEVICE, HOST or DISK. */
/*@ assigns \nothing;
    behavior known:
      assumes device_host_or_disk: tier == 0 || tier == 1 || tier == 2;
      ensures accepted: NX_ACCEPTED(\result);
    behavior unknown:
      assumes beyond: tier > 2;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_UNKNOWN_TIER, 0, tier, 2);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_tier(uint32_t tier);

/*
 * 1 where a factory is released and left out instead of refused: its tier is unknown, and it declares a level above the
 * ceiling, so that it may know tiers which we do not.
 */
/*@ assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==> tier > 2 && declared_minor > ceiling; */
int nxmem_tier_is_left_out(uint32_t tier, uint32_t declared_minor, uint32_t ceiling);

/* 1 where tier and index agree. */
/*@ assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==> NX_SAME_DEVICE(a, b); */
int nxmem_same_device(NxmemDeviceId a, NxmemDeviceId b);

/* OTHER_DEVICE unless both agree; the numbers pack tier * 2^32 + index. */
/*@ assigns \nothing;
    behavior same:
      assumes agree: NX_SAME_DEVICE(found, needed);
      ensures accepted: NX_ACCEPTED(\result);
    behavior other:
      assumes differ: !NX_SAME_DEVICE(found, needed);
      ensures refused: NX_OTHER_DEVICE(\result, found, needed);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_device(NxmemDeviceId found, NxmemDeviceId needed);

/*
 * What each allocation, range and prefix call carries, checked before anything is touched: OTHER_MECHANISM, then
 * OTHER_DEVICE.
 */
/*@ assigns \nothing;
    behavior same:
      assumes mechanism: mechanism_id == needed_mechanism_id;
      assumes agree: NX_SAME_DEVICE(device, needed_device);
      ensures accepted: NX_ACCEPTED(\result);
    behavior other_mechanism:
      assumes mechanism: mechanism_id != needed_mechanism_id;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_OTHER_MECHANISM, 8, mechanism_id, needed_mechanism_id);
    behavior other_device:
      assumes mechanism: mechanism_id == needed_mechanism_id;
      assumes differ: !NX_SAME_DEVICE(device, needed_device);
      ensures refused: NX_OTHER_DEVICE(\result, device, needed_device);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_identity(uint64_t mechanism_id, NxmemDeviceId device, uint64_t needed_mechanism_id,
                                   NxmemDeviceId needed_device);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_IDENTITY_H */
