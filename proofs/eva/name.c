/*
 * name.c: Eva drivers of nxmem/name.h: each entry point once for everything that its contract allows.
 *
 * Attackers: a plugin whose name is anything.
 * Promise: the bytes end where the contract says that they may.
 */
#include "nxmem/name.h"

#include "support.h"

/* Text that fills the room but for the last bytes, which are any: Eva takes each kind of character at each place apart. */
static void long_name(uint8_t *room, uint32_t room_bytes, uint32_t any_bytes) {
  for (uint32_t i = 0u; i < room_bytes - any_bytes; i++) {
    const uint8_t byte = any8;
    room[i] = byte >= 0x20u && byte <= 0x7Eu ? byte : 0x20u;
  }
  eva_fill(room + (room_bytes - any_bytes), any_bytes);
}

/* Up to five bytes of any kind, each number of them ending its block. */
void eva_nxmem_check_name(void) {
  enum { ROOM = 5 };
  uint8_t room[ROOM];
  uint32_t length;
  const uint32_t available = eva_each(0u, ROOM);
  eva_fill(room, sizeof(room));
  (void)nxmem_check_name(room + (ROOM - available), available, &length);
}

/* Names as long as they may be and one byte longer: printable ASCII, and behind it three bytes of any kind. */
void eva_nxmem_check_name__long(void) {
  uint8_t room[NXMEM_NAME_BUF];
  uint32_t length;
  const uint32_t available = eva_each(NXMEM_NAME_BUF - 1u, NXMEM_NAME_BUF);
  long_name(room, NXMEM_NAME_BUF, 3u);
  (void)nxmem_check_name(room + (NXMEM_NAME_BUF - available), available, &length);
}

/* Two names, each ending its block with its NUL: of the same length, and one of the full length. */
/* eva: -eva-min-loop-unroll 256 -eva-slevel-function nxmem_same_name:1 */
void eva_nxmem_same_name(void) {
  uint8_t room_a[NXMEM_NAME_BUF];
  uint8_t room_b[NXMEM_NAME_BUF];
  static const uint32_t lengths[] = {0u, 1u, 2u, 3u, 127u, 254u, 255u};
  const uint32_t at_a = lengths[eva_each(0u, 6u)];
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
