/*
 * core_floor.c: what the core is compared with.
 *
 * Attackers: none.
 * Promise: nothing that the bare operation would not need.
 */
#include "core_floor.h"

#include <string.h>

int floor_copy(const NxmemAllocatorVtable *src, NxmemAllocatorVtable *out) {
  if (src == NULL) return 0;
  memcpy(out, src, sizeof *out);
  return 1;
}

NxmemStatus floor_status(void) {
  NxmemStatus status;
  memset(&status, 0, sizeof status);
  return status;
}

NxmemStatus core_negotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response) {
  static const nxmem_offer own = {.range = {1u, 1u, 0u, 1u}, .capability_flags = NXMEM_CAPS_KNOWN};
  NxmemNegotiateRequest taken;
  NxmemStatus status;
  memset(&status, 0, sizeof status);
  nxmem_verdict v = nxmem_request_take(request, &taken);
  if (v.reason == NXMEM_REASON_NONE) v = nxmem_negotiate_decide(&taken, &own, response);
  if (v.reason != NXMEM_REASON_NONE) status.code = NXMEM_STATUS_VERSION_MISMATCH;
  return status;
}
