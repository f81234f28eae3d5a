/*
 * sizes_test.c: does each mechanism of libnxmem_scripted_sizes.so publish the header that its name says?
 *
 * Attackers played: none; here the attackers are under test.
 * Promise: the table's memory ends where the name says, by the C library's own count of the block.
 */
#include <malloc.h>
#include <string.h>

#include "mechanisms.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

typedef struct size_row {
  const char *name;
  uint32_t struct_size;
  uint32_t really;
  uint32_t abi_minor; /* only where 8 bytes are there */
  int legal;          /* opened with state, and it works */
} size_row;

static const size_row rows[] = {
    {"size-0", 0u, 4u, 0u, 0},
    {"size-4", 4u, 4u, 0u, 0},
    {"size-7", 7u, 7u, 0u, 0},
    {"size-8", 8u, 8u, 0u, 0},
    {"size-119", 119u, 119u, 0u, 0},
    {"size-120", 120u, 120u, 0u, 1},
    {"size-121", 121u, 121u, 0u, 1},
    {"size-122", 122u, 122u, 0u, 1},
    {"size-123", 123u, 123u, 0u, 1},
    {"size-124", 124u, 124u, 0u, 1},
    {"size-125", 125u, 125u, 0u, 1},
    {"size-126", 126u, 126u, 0u, 1},
    {"size-127", 127u, 127u, 0u, 1},
    {"size-127-minor-1", 127u, 127u, 1u, 0},
    {"size-endless", 0xFFFFFFFFu, 128u, 1u, 1},
    {"minor-endless", 128u, 128u, 0xFFFFFFFFu, 1},
};

/* A block of the heap may be longer than what was asked for, by less than 16 bytes; with a sanitizer it is not. */
static void assert_ends(const size_row *row, const void *table) {
  if (row->really == 128u) {
    assert_int_equal(readable(table, 200u), 128u);
    return;
  }
  const size_t usable = malloc_usable_size((void *)(uintptr_t)table);
  assert_in_range(usable, row->really, row->really < 24u ? 24u : row->really + 15u);
}

static void run_size(const subject *s, const void *data) {
  const size_row *row = data;
  plugin p;
  plugin_load(&p, s->file);
  plugin_find(&p, row->name);
  const NxmemAllocatorVtable *table = plugin_open(&p);
  uint32_t header[2] = {0u, 0u};
  memcpy(header, table, row->really < 8u ? 4u : 8u);
  assert_int_equal(header[0], row->struct_size);
  assert_int_equal(header[1], row->abi_minor);
  assert_ends(row, table);
  assert_int_equal(p.probe(NX_PROBE_ALLOCATORS_OPENED), row->legal);
  if (row->legal) {
    const NxmemAllocation a = take(table, 5u, 100u, 64u);
    give_back(table, &a);
    table->release(table->ctx);
  }
  assert_books(&p, 0u, 0u);
  plugin_close(&p);
}

/* The second word of a table is where the first should be, and so on: no number of it is what it seems. */
static void run_old_layout(const subject *s, const void *data) {
  plugin p;
  (void)data;
  plugin_load(&p, s->file);
  plugin_find(&p, "eager");
  const NxmemAllocatorVtable *eager = plugin_open(&p);
  plugin_find(&p, "old-layout");
  const NxmemAllocatorVtable *old = plugin_open(&p);
  assert_int_equal(p.probe(NX_PROBE_ALLOCATORS_OPENED), 1u);
  uint64_t mechanism_id;
  memcpy(&mechanism_id, old, sizeof mechanism_id);
  assert_int_not_equal(mechanism_id, 0u);
  assert_true(old->struct_size >= 128u); /* by chance a size that could be */
  assert_int_not_equal(old->device.tier, NXMEM_TIER_HOST);
  assert_true(old->deallocate == NULL || (void (*)(void))old->allocate == (void (*)(void))eager->deallocate);
  eager->release(eager->ctx);
  for (uint64_t i = 0u; i < p.listed; i++) p.list[i]->release(p.list[i]->ctx);
  p.listed = 0u;
  plugin_close(&p);
}

static void run_list(const subject *s, const void *data) {
  plugin p;
  (void)data;
  plugin_load(&p, s->file);
  plugin_find(&p, "eager");
  assert_int_equal(p.listed, COUNT(rows) + 3u); /* eager, lazy, old-layout */
  plugin_close(&p);
}

int main(void) {
  static const subject sizes = {"libnxmem_scripted_sizes.so", "sizes", 0u, 31u};
  static const size_row old_layout = {"old-layout", 0u, 0u, 0u, 0};
  static const size_row list = {"every mechanism has a row here", 0u, 0u, 0u, 0};
  for (size_t i = 0u; i < COUNT(rows); i++) add_case(&sizes, "mechanism", &rows[i], run_size);
  add_case(&sizes, "mechanism", &old_layout, run_old_layout);
  add_case(&sizes, "module", &list, run_list);
  return run_added("size mechanisms");
}
