/*
 * name.c: Eva drivers of nxmem/name.h: each entry point once for everything that its contract allows.
 *
 * Attackers: a plugin whose name is anything.
 * Promise: the bytes end where the contract says that they may.
 */
#include "nxmem/name.h"

#include "support.h"

/* Text that fills the room but for the last bytes, which are any: Eva takes each kind of character apart. */
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

/* A name as long as it may be, or one byte longer: printable ASCII, and behind it two bytes of any kind. */
void eva_nxmem_check_name__long(void) {
  uint8_t room[NXMEM_NAME_BUF];
  uint32_t length;
  long_name(room, NXMEM_NAME_BUF, 2u);
  (void)nxmem_check_name(room, NXMEM_NAME_BUF, &length);
}

/* As for nxmem_check_name: short fetches that end their block, and a whole buffer. */
void eva_nxmem_check_fetched_name(void) {
  enum { ROOM = 3 };
  uint8_t room[ROOM];
  uint8_t whole[NXMEM_NAME_BUF];
  uint32_t length;
  if (any32 != 0u) {
    const uint32_t available = eva_each(0u, ROOM);
    eva_fill(room, sizeof(room));
    (void)nxmem_check_fetched_name(any64, room + (ROOM - available), available, &length);
  } else {
    long_name(whole, NXMEM_NAME_BUF, 1u);
    (void)nxmem_check_fetched_name(any64, whole, NXMEM_NAME_BUF, &length);
  }
}

/* Two names, each ending its block with its NUL: of the same length, and one of the full length. */
typedef struct two_names {
  uint8_t a[NXMEM_NAME_BUF];
  uint8_t b[NXMEM_NAME_BUF];
  uint32_t at_a;
  uint32_t at_b;
} two_names;

static void any_names(two_names *names) {
  static const uint32_t lengths[] = {0u, 1u, 254u, 255u};
  const uint32_t length = lengths[eva_each(0u, 3u)];
  eva_fill(names->a, sizeof(names->a));
  eva_fill(names->b, sizeof(names->b));
  names->a[NXMEM_NAME_MAX] = 0u;
  names->b[NXMEM_NAME_MAX] = 0u;
  names->at_a = NXMEM_NAME_MAX - (any32 != 0u ? length : NXMEM_NAME_MAX);
  names->at_b = NXMEM_NAME_MAX - length;
}

/* eva: -eva-min-loop-unroll 256 -eva-slevel-function nxmem_same_name:1 */
void eva_nxmem_same_name(void) {
  two_names names;
  any_names(&names);
  if (any32 != 0u) {
    (void)nxmem_same_name(names.a + names.at_a, names.b + names.at_b);
  } else {
    (void)nxmem_same_name(names.b + names.at_b, names.a + names.at_a);
  }
}

/* eva: -eva-min-loop-unroll 256 -eva-slevel-function nxmem_same_name:1 */
void eva_nxmem_same_mechanism(void) {
  NxmemDeviceId devices[2];
  two_names names;
  any_names(&names);
  eva_fill(devices, sizeof(devices));
  (void)nxmem_same_mechanism(devices[0], names.a + names.at_a, devices[1], names.b + names.at_b);
}
