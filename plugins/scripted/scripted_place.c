/*
 * scripted_place.c: memory that really ends where it says, so that a read beyond it is caught.
 *
 * Attackers: none.
 * Promise: a heap block has exactly its size (AddressSanitizer sees one byte more); behind a guarded one a page faults.
 */
#define _DEFAULT_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "scripted_base.h"

static size_t page(void) { return (size_t)sysconf(_SC_PAGESIZE); }

/* Bytes of the accessible pages in front of the guard. */
static size_t accessible(size_t size) { return (size + page() - 1u) / page() * page(); }

static uint8_t *guarded(size_t size) {
  const size_t front = accessible(size);
  uint8_t *base = mmap(NULL, front + page(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return NULL;
  if (mprotect(base + front, page(), PROT_NONE) == 0) return base + front - size;
  munmap(base, front + page());
  return NULL;
}

/* A free chunk that is longer by less than the smallest chunk (32 bytes) is handed out whole by glibc; of one that
 * shrinks by more, the rest is cut off. */
static uint8_t *exact(size_t size) {
  enum { CUT_OFF = 64 };
  uint8_t *longer = calloc(1u, size + CUT_OFF);
  return longer == NULL ? NULL : realloc(longer, size);
}

nx_placed nx_place_bytes(nx_place place, size_t size) {
  uint8_t *bytes = place == NX_PLACE_GUARD ? guarded(size) : exact(size);
  return (nx_placed){bytes, size, place};
}

void nx_unplace(nx_placed *placed) {
  if (placed->bytes == NULL) return;
  if (placed->place == NX_PLACE_GUARD)
    munmap(placed->bytes + placed->size - accessible(placed->size), accessible(placed->size) + page());
  else
    free(placed->bytes);
  placed->bytes = NULL;
}

static uint8_t *forbidden;

__attribute__((constructor)) static void reserve_forbidden(void) {
  void *base = mmap(NULL, page(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  forbidden = base == MAP_FAILED ? NULL : base;
}

__attribute__((destructor)) static void return_forbidden(void) {
  if (forbidden != NULL) munmap(forbidden, page());
}

void *nx_forbidden_address(void) { return forbidden + 64; }
