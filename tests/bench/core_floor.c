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
