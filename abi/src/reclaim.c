/*
 * reclaim.c: requests for memory back.
 *
 * Attackers: strangers' ids and devices, short and racing records, hooks that overstate.
 * Promise: each field is read once; nothing beyond what was asked is reported.
 */
#include "nxmem/reclaim.h"

#include <stddef.h>

#include "load.h"
#include "nxmem/identity.h"
#include "nxmem/prefix.h"
#include "verdict_make.h"

enum { AT_MECHANISM_ID = 8, AT_DEVICE = 16, AT_BYTES = 24 };
#ifndef __FRAMAC__
_Static_assert(AT_MECHANISM_ID == offsetof(NxmemReclaimRequest, mechanism_id), "mechanism_id");
_Static_assert(AT_DEVICE == offsetof(NxmemReclaimRequest, device), "device");
_Static_assert(AT_BYTES == offsetof(NxmemReclaimRequest, bytes), "bytes");
_Static_assert(NXMEM_RECLAIM_BYTES == offsetof(NxmemReclaimRequest, bytes) + sizeof(uint64_t), "request");
#endif

nxmem_verdict nxmem_reclaim_take(NXMEM_UNTRUSTED NxmemReclaimRequest *src, NxmemReclaimRequest *out) {
  const nxmem_verdict address = nxmem_check_table_address((uintptr_t)src);
  if (address.reason != NXMEM_REASON_NONE) return address;
  const uint32_t size = NX_LOAD(NxmemReclaimRequest, src, struct_size);
  if (size < NXMEM_RECLAIM_BYTES) return nx_verdict(NXMEM_REASON_SHORT_REQUEST, 0u, size, NXMEM_RECLAIM_BYTES);
  out->struct_size = size;
  out->reserved = 0u;
  out->mechanism_id = NX_LOAD(NxmemReclaimRequest, src, mechanism_id);
  out->device.tier = NX_LOAD(NxmemReclaimRequest, src, device.tier);
  out->device.index = NX_LOAD(NxmemReclaimRequest, src, device.index);
  out->bytes = NX_LOAD(NxmemReclaimRequest, src, bytes);
  return nx_accept();
}

nxmem_verdict nxmem_check_reclaim(const NxmemReclaimRequest *request, uint64_t mechanism_id, NxmemDeviceId device) {
  if (request->mechanism_id != mechanism_id)
    return nx_verdict(NXMEM_REASON_OTHER_MECHANISM, AT_MECHANISM_ID, request->mechanism_id, mechanism_id);
  if (!nxmem_same_device(request->device, device)) {
    const nxmem_verdict other = nxmem_check_device(request->device, device);
    return nx_verdict(NXMEM_REASON_OTHER_DEVICE, AT_DEVICE, other.found, other.needed);
  }
  if (request->bytes == 0u) return nx_verdict(NXMEM_REASON_ZERO_BYTES, AT_BYTES, 0u, 1u);
  return nx_accept();
}

uint64_t nxmem_reclaimed(uint64_t said, uint64_t asked) { return said < asked ? said : asked; }
