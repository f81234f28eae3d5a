/*
 * status.c: Eva drivers of nxmem/status.h: each entry point once for everything that its contract allows.
 *
 * Attackers: text that is anything.
 * Promise: bytes that end where the contract says; of the lengths see each driver.
 */
#include "nxmem/status.h"

#include "support.h"

void eva_nxmem_reason_status(void) { (void)nxmem_reason_status(any32); }

void eva_nxmem_is_control(void) { (void)nxmem_is_control(any32); }

void eva_nxmem_status_message_len(void) { (void)nxmem_status_message_len(any32); }

/* Five bytes are one more than is ever looked at. */
void eva_nxmem_utf8_length(void) {
  uint8_t room[5];
  const uint32_t available = eva_each(0u, sizeof(room));
  eva_fill(room, sizeof(room));
  (void)nxmem_utf8_length(room + (sizeof(room) - available), available);
}

/* Any byte from low to high. */
static uint8_t between(uint8_t low, uint8_t high) {
  const uint8_t byte = any8;
  return byte >= low && byte <= high ? byte : low;
}

/* Each row of Unicode's table 3-7, in a block of its own length. */
void eva_nxmem_utf8_code_point(void) {
  static const uint8_t rows[9][5] = {
      {1u, 0x00u, 0x7Fu, 0x00u, 0x00u}, {2u, 0xC2u, 0xDFu, 0x80u, 0xBFu}, {3u, 0xE0u, 0xE0u, 0xA0u, 0xBFu},
      {3u, 0xE1u, 0xECu, 0x80u, 0xBFu}, {3u, 0xEDu, 0xEDu, 0x80u, 0x9Fu}, {3u, 0xEEu, 0xEFu, 0x80u, 0xBFu},
      {4u, 0xF0u, 0xF0u, 0x90u, 0xBFu}, {4u, 0xF1u, 0xF3u, 0x80u, 0xBFu}, {4u, 0xF4u, 0xF4u, 0x80u, 0x8Fu}};
  const uint8_t *row = rows[eva_each(0u, 8u)];
  uint8_t room[4];
  uint8_t *bytes = room + (4u - row[0]);
  bytes[0] = between(row[1], row[2]);
  if (row[0] > 1u) bytes[1] = between(row[3], row[4]);
  if (row[0] > 2u) bytes[2] = between(0x80u, 0xBFu);
  if (row[0] > 3u) bytes[3] = between(0x80u, 0xBFu);
  (void)nxmem_utf8_code_point(bytes, row[0]);
}

/* No text, as much as fits, one byte more, each ending its block, and far more. */
/* eva: -eva-slevel-function bytes_before_nul:1,copy_then_zero:1 -eva-min-loop-unroll 257 */
void eva_nxmem_status_build(void) {
  enum { ROOM = NXMEM_STATUS_MESSAGE_BUF, FAR = 70000 };
  static const uint32_t lengths[] = {0u, 255u, 256u};
  static uint8_t far_text[FAR];
  uint8_t room[ROOM];
  NxmemStatus out;
  const uint32_t text_len = lengths[eva_each(0u, 2u)];
  eva_fill(room, sizeof(room));
  if (any32 != 0u) {
    nxmem_status_build(&out, any32, room + (ROOM - text_len), text_len);
  } else if (any32 != 0u) {
    eva_fill(far_text, ROOM);
    nxmem_status_build(&out, any32, far_text, FAR);
  } else {
    nxmem_status_build(&out, any32, NULL, 0u);
  }
}

/* eva: -eva-min-loop-unroll 256 -eva-slevel-function nxmem_status_take:1 */
void eva_nxmem_status_take(void) {
  NxmemStatus status;
  NxmemStatus out;
  eva_fill(&status, sizeof(status));
  nxmem_status_take(&status, &out);
}

/* Up to two bytes of any kind in room for none, for one byte, and for more than they can take. */
void eva_nxmem_text_show(void) {
  enum { BYTES = 2, ROOM = 4 * BYTES + 2 };
  uint8_t bytes[BYTES];
  uint8_t out[ROOM];
  const uint32_t length = eva_each(0u, BYTES);
  static const uint32_t capacities[] = {1u, 4u, ROOM};
  const uint32_t capacity = capacities[eva_each(0u, 2u)];
  eva_fill(bytes, sizeof(bytes));
  (void)nxmem_text_show(bytes + (BYTES - length), length, out + (ROOM - capacity), capacity);
}

/* A lead of three or four bytes before any tails, whole and cut short, or ASCII before tails that have no lead. */
void eva_nxmem_text_show__long(void) {
  enum { BYTES = 4, ROOM = 3 * BYTES + 1 };
  uint8_t bytes[BYTES];
  uint8_t out[ROOM];
  static const uint32_t capacities[] = {4u, ROOM};
  const uint32_t length = eva_each(3u, BYTES);
  const uint32_t capacity = capacities[eva_each(0u, 1u)];
  uint8_t *text = bytes + (BYTES - length);
  eva_fill(bytes, sizeof(bytes));
  text[0] = any32 != 0u ? between(0xE1u, 0xF3u) : between(0x20u, 0x5Bu);
  for (uint32_t i = 1u; i < length; i++) text[i] = between(0x80u, 0xBFu);
  (void)nxmem_text_show(text, length, out + (ROOM - capacity), capacity);
}
