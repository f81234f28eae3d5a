/*
 * name.c: Eva drivers of nxmem/name.h: each entry point once for everything that its contract allows.
 *
 * Attackers: a plugin whose name is anything.
 * Promise: the bytes end where the contract says that they may.
 */
#include "nxmem/name.h"

#include "support.h"

void eva_nxmem_check_name(void) {
  uint8_t room[NXMEM_NAME_BUF];
  uint32_t length;
  const uint32_t available = eva_each(0u, NXMEM_NAME_BUF);
  eva_fill(room, sizeof(room));
  (void)nxmem_check_name(room + (NXMEM_NAME_BUF - available), available, &length);
}

/* Any available bytes among 256 that are all there: here only the numbers are in question, not where the memory ends. */
void eva_nxmem_same_name(void) {
  uint8_t room_a[NXMEM_NAME_BUF];
  uint8_t room_b[NXMEM_NAME_BUF];
  const uint32_t at_a = eva_each(0u, NXMEM_NAME_MAX);
  const uint32_t at_b = any32 != 0u ? at_a : NXMEM_NAME_MAX;
  eva_fill(room_a, sizeof(room_a));
  eva_fill(room_b, sizeof(room_b));
  room_a[NXMEM_NAME_MAX] = 0u;
  room_b[NXMEM_NAME_MAX] = 0u;
  if (any32 != 0u) {
    (void)nxmem_same_name(room_a + (NXMEM_NAME_MAX - at_a), room_b + (NXMEM_NAME_MAX - at_b));
  } else {
    (void)nxmem_same_name(room_b + (NXMEM_NAME_MAX - at_b), room_a + (NXMEM_NAME_MAX - at_a));
  }
}
