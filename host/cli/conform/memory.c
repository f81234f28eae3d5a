/*
 * memory.c: guarded copies and canaries.
 * Attackers: a plugin that reads or writes beyond what a record declares.
 * Promise: what is handed out starts 8-aligned when its size is a multiple of 8.
 */
#include "conform/memory.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "conform/trial.h"

enum { CANARY = 0xA5 };

void *nx_guarded(const void *record, size_t bytes, int writable) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), front = (bytes + page - 1) / page * page;
  uint8_t *base = mmap(NULL, front + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  NX_GIVEN(base != MAP_FAILED, "no memory for a guarded record");
  uint8_t *start = base + front - bytes;
  memcpy(start, record, bytes);
  mprotect(base + front, page, PROT_NONE);
  if (!writable) mprotect(base, front, PROT_READ);
  return start;
}

enum { HEADER_BYTES = 8, LONGER_BY = 64, POISON = 0xAA, LARGEST_RECORD = 512 };

void *nx_short_copy(const void *record, uint32_t declared, uint32_t full) {
  uint8_t copy[LARGEST_RECORD];
  memcpy(copy, record, full);
  memcpy(copy, &declared, sizeof declared);
  if (declared % HEADER_BYTES) return nx_guarded(copy, (full + 7) / 8 * 8, 0);
  return nx_guarded(copy, declared < HEADER_BYTES ? HEADER_BYTES : declared, 0);
}

void *nx_long_copy(const void *record, uint32_t full) {
  uint8_t copy[LARGEST_RECORD];
  uint32_t declared = full + LONGER_BY;
  memset(copy, POISON, sizeof copy);
  memcpy(copy, record, full);
  memcpy(copy, &declared, sizeof declared);
  return nx_guarded(copy, declared, 0);
}

uint32_t nx_short_sizes(uint32_t full, uint32_t out[NX_SHORT_SIZES]) {
  const uint32_t sizes[NX_SHORT_SIZES] = {0, HEADER_BYTES, full - 8, full - 1};
  memcpy(out, sizes, sizeof sizes);
  return NX_SHORT_SIZES;
}

void nx_room_begin(nx_room *room, const void *record, uint32_t declared) {
  memset(room->bytes, CANARY, sizeof room->bytes);
  memcpy(room->bytes, record, declared);
  memcpy(room->bytes, &declared, sizeof declared); /* where even this does not fit it is input all the same */
  memcpy(room->before, room->bytes, sizeof room->before);
  room->declared = declared;
}

long nx_room_overrun(const nx_room *room) {
  for (size_t i = room->declared; i < sizeof room->bytes; i++)
    if (room->bytes[i] != room->before[i]) return (long)i;
  return -1;
}
