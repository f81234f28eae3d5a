/*
 * side.h: the same pair of allocate and release in three ways: the plugin's slots called directly, and through hosts of either overlap check.
 *
 * Attackers: none.
 * Promise: the direct side does what any caller of the slots must do, and no more: fill the records, call, look at the status.
 */
#ifndef TESTS_BENCH_SIDE_H
#define TESTS_BENCH_SIDE_H

#include <stddef.h>
#include <stdint.h>

#include "nxmem.h"

/* All zero before its first use; then the same block again and again is the same place. */
typedef struct side_block {
  uint64_t id;
  void *ptr;
} side_block;

typedef struct side {
  const char *name;
  void *dl; /* of the direct side */
  const NxmemAllocatorFactoryVtable *factory;
  const NxmemAllocatorVtable *table;
  nxmem_host host; /* of the others */
  nxmem_plugin plugin;
  nxmem_allocator allocator;
} side;

enum { SIDE_BYTES = 64, SIDE_ALIGN = 16 };

/* Ends the program where something goes wrong. */
void side_open_direct(side *s, const char *path, const char *mechanism);
void side_open_host(side *s, const char *name, const char *path, const char *mechanism, nxmem_fetch_mode fetch,
                    nxmem_overlap_check overlap);
/* All allocators before any module: the sides share the plugin, and its counts. */
void side_close_all(side *sides, int count);

void direct_allocate(side *s, side_block *out);
void direct_release(side *s, const side_block *block);
void host_allocate(side *s, side_block *out);
void host_release(side *s, const side_block *block);

typedef void (*side_allocate)(side *s, side_block *out);
typedef void (*side_release)(side *s, const side_block *block);

static inline side_allocate allocate_of(const side *s) { return s->table != NULL ? direct_allocate : host_allocate; }
static inline side_release release_of(const side *s) { return s->table != NULL ? direct_release : host_release; }

_Noreturn void side_die(const char *what, const char *why);

#endif /* TESTS_BENCH_SIDE_H */
