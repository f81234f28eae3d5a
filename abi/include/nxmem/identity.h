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

/* UNKNOWN_TIER unless the tier is DEVICE, HOST or DISK. */
nxmem_verdict nxmem_check_tier(uint32_t tier);

/* 1 where tier and index agree. */
int nxmem_same_device(NxmemDeviceId a, NxmemDeviceId b);

/* OTHER_DEVICE unless both agree; the numbers pack tier * 2^32 + index. */
nxmem_verdict nxmem_check_device(NxmemDeviceId found, NxmemDeviceId needed);

/* What each allocation, range and prefix call carries, checked before anything is touched: OTHER_MECHANISM, then OTHER_DEVICE. */
nxmem_verdict nxmem_check_identity(uint64_t mechanism_id, NxmemDeviceId device, uint64_t needed_mechanism_id,
                                   NxmemDeviceId needed_device);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_IDENTITY_H */
