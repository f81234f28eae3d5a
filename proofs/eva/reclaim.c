/*
 * reclaim.c: Eva drivers of nxmem/reclaim.h: each entry point once for everything that its contract allows.
 *
 * Attackers: a plugin that asks for anything, from any address.
 * Promise: any request against any mechanism and device.
 */
#include "nxmem/reclaim.h"

#include "support.h"

static NXMEM_UNTRUSTED NxmemReclaimRequest *any_request(void) {
  switch (any32) {
    case 0u:
      return NULL;
    case 1u:
      return (NxmemReclaimRequest *)eva_misaligned();
#ifdef NXMEM_QUIET_WORLD
    case 2u: {
      NxmemReclaimRequest *head = (NxmemReclaimRequest *)eva_block(8u);
      head->struct_size = any32 % NXMEM_RECLAIM_BYTES;
      return head;
    }
#endif
    default:
      return (NxmemReclaimRequest *)eva_block(NXMEM_RECLAIM_BYTES);
  }
}

void eva_nxmem_reclaim_take(void) {
  NxmemReclaimRequest out;
  (void)nxmem_reclaim_take(any_request(), &out);
}

#ifdef NXMEM_QUIET_WORLD
void eva_nxmem_reclaim_take__size_only(void) {
  NxmemReclaimRequest out;
  uint32_t *size = (uint32_t *)EVA_SIZE_ONLY;
  *size = any32 % NXMEM_RECLAIM_BYTES;
  (void)nxmem_reclaim_take((NxmemReclaimRequest *)EVA_SIZE_ONLY, &out);
}
#endif

void eva_nxmem_check_reclaim(void) {
  NxmemReclaimRequest request;
  NxmemDeviceId device;
  eva_fill(&request, sizeof(request));
  eva_fill(&device, sizeof(device));
  (void)nxmem_check_reclaim(&request, any64, device);
}

void eva_nxmem_reclaimed(void) { (void)nxmem_reclaimed(any64, any64); }
