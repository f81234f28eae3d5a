/*
 * memory.h: records that really end where they say.
 * Attackers: a plugin that reads or writes beyond what a record declares.
 * Promise: one byte beyond the end faults (guarded), or shows (canary).
 */
#ifndef NXMEM_CONFORM_MEMORY_H
#define NXMEM_CONFORM_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* A copy whose last byte lies before an inaccessible page. Read-only where `writable` is 0. Never given back. */
void *nx_guarded(const void *record, size_t bytes, int writable);

/*
 * A record that declares fewer bytes than it should, and really ends there where that is a multiple of 8 (0 keeps the
 * 8 bytes of a header readable). `full` is its whole size.
 */
void *nx_short_copy(const void *record, uint32_t declared, uint32_t full);

/* A record that declares 64 bytes more than `full`; those are 0xAA. */
void *nx_long_copy(const void *record, uint32_t full);

/* Short sizes to try of a record of `full` bytes; returns how many. */
enum { NX_SHORT_SIZES = 4 };
uint32_t nx_short_sizes(uint32_t full, uint32_t out[NX_SHORT_SIZES]);

/* Room for an out-record that declares `declared` bytes. What stands behind those must stay as it was. */
enum { NX_ROOM_BYTES = 512 };

typedef struct nx_room {
  _Alignas(16) uint8_t bytes[NX_ROOM_BYTES];
  uint8_t before[NX_ROOM_BYTES];
  size_t declared;
} nx_room;

/* `record` (its first `declared` bytes) with that size in front; canaries behind. */
void nx_room_begin(nx_room *room, const void *record, uint32_t declared);

/* Offset of the first byte behind the room that changed, -1: none. */
long nx_room_overrun(const nx_room *room);

#endif /* NXMEM_CONFORM_MEMORY_H */
