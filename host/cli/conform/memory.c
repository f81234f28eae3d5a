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
