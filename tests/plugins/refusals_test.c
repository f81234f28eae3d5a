/*
 * refusals_test.c: scripted mechanisms that cannot do what their row is for: without memory, for an id that is live
 * already, or with a host whose callback table is too short.
 *
 * Attackers played: none; here the attackers are under test.
 * Promise: what is not done is refused with a code, and nothing is written; no slot behind the end of a host's table is
 * called, or read.
 */
#define _DEFAULT_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "recorder.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

enum { ALIGN = 64, BYTES = 1000 };

/* ---- Allocations ------------------------------------------------------------------------------------------------ */

typedef struct refusal_row {
  const char *mechanism;
  const char *file;
  int takes_memory; /* of its own; else what it hands out was there */
  uint64_t first, second;
  int quarantines; /* the first is given back before, and kept */
} refusal_row;

static const refusal_row refusal_rows[] = {
    {"misaligned-address", "libnxmem_scripted.so", 1, BYTES, BYTES, 0},
    {"huge-numbers", "libnxmem_scripted.so", 1, BYTES, BYTES, 0},
    {"wrapping-address", "libnxmem_scripted.so", 0, BYTES, BYTES, 0},
    {"same-address-twice", "libnxmem_scripted.so", 0, BYTES, BYTES, 0},
    {"overlapping-end", "libnxmem_scripted_addresses.so", 0, BYTES, BYTES, 0},
    {"overlapping-start", "libnxmem_scripted_addresses.so", 0, BYTES, BYTES, 0},
    {"overlapping-inside", "libnxmem_scripted_addresses.so", 0, BYTES, 100, 0},
    {"overlapping-around", "libnxmem_scripted_addresses.so", 0, 100, BYTES, 0},
    {"reissues-quarantined", "libnxmem_scripted_addresses.so", 0, BYTES, BYTES, 1},
};

static void assert_refused(const NxmemAllocatorVtable *table, uint64_t id, uint64_t bytes, uint32_t code) {
  const NxmemAllocRequest request = alloc_request(table, id, bytes, ALIGN);
  const NxmemAllocResult before = alloc_result();
  NxmemAllocResult result = before;
  assert_status(table->allocate(table->ctx, &request, &result), code);
  assert_memory_equal(&result, &before, sizeof result);
}

static NxmemAllocation must_allocate(const NxmemAllocatorVtable *table, uint64_t id, uint64_t bytes) {
  const NxmemAllocRequest request = alloc_request(table, id, bytes, ALIGN);
  NxmemAllocResult result = alloc_result();
  assert_status(table->allocate(table->ctx, &request, &result), NXMEM_STATUS_OK);
  return allocation_of(&request, &result);
}

static void keep(const NxmemAllocatorVtable *table, const NxmemAllocation *allocation) {
  NxmemReleaseOutcome outcome;
  memset(&outcome, 0xFF, sizeof outcome);
  outcome.struct_size = sizeof outcome;
  assert_status(table->release_allocation(table->ctx, allocation, &outcome), NXMEM_STATUS_OK);
  assert_int_equal(outcome.state, NXMEM_RELEASE_QUARANTINED);
}

static void run_refusal(const subject *s, const void *data) {
  const refusal_row *row = data;
  plugin p;
  (void)s;
  plugin_load(&p, row->file);
  plugin_find(&p, row->mechanism);
  const NxmemAllocatorVtable *table = plugin_open(&p);
  if (row->takes_memory) assert_refused(table, 4u, 1ull << 62, NXMEM_STATUS_OUT_OF_MEMORY);
  NxmemAllocation first = must_allocate(table, 5u, row->first);
  if (row->quarantines) {
    keep(table, &first);
    first = must_allocate(table, 6u, row->first); /* what was kept, handed out */
    assert_refused(table, 6u, row->second, NXMEM_STATUS_INVALID_ARGUMENT);
    keep(table, &first);
  } else {
    assert_refused(table, 5u, row->second, NXMEM_STATUS_INVALID_ARGUMENT);
    give_back(table, &first);
    assert_books(&p, 1u, 0u);
  }
  table->release(table->ctx);
  if (row->quarantines) plugin_keep();
  plugin_close(&p);
}

/* ---- Callbacks -------------------------------------------------------------------------------------------------- */

/* A host's table that ends at a page which cannot be read; of what it declares, as much as there is. */
typedef struct edge {
  uint8_t *base;
  size_t page;
  NxmemHostCallbacks *table;
} edge;

enum { HEADER = 8 };

static edge make_edge(const NxmemHostCallbacks *whole, uint32_t declared) {
  edge e = {.page = (size_t)sysconf(_SC_PAGESIZE)};
  e.base = mmap(NULL, 2u * e.page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(e.base != MAP_FAILED);
  assert_int_equal(mprotect(e.base + e.page, e.page, PROT_NONE), 0);
  const size_t there = declared < HEADER ? HEADER : (declared + 7u) / 8u * 8u;
  e.table = (NxmemHostCallbacks *)(void *)(e.base + e.page - there);
  NxmemHostCallbacks copy = *whole;
  copy.struct_size = declared;
  memcpy((void *)e.table, &copy, there);
  return e;
}

/* Whatever context they come with: some rows bring a wrong one. */
static uint64_t reclaims, completions;

static NxmemStatus count_reclaim(void *host_ctx, const NxmemReclaimRequest *request, uint64_t *reclaimed_out) {
  (void)host_ctx;
  (void)request;
  (void)reclaimed_out;
  reclaims++;
  return (NxmemStatus){NXMEM_STATUS_BUSY, 0u, {0}};
}

static NxmemStatus count_completion(void *host_ctx, const NxmemReleaseCompletion *completion) {
  (void)host_ctx;
  (void)completion;
  completions++;
  return (NxmemStatus){NXMEM_STATUS_OK, 0u, {0}};
}

typedef struct table_row {
  const char *name;
  uint32_t declared;
  int reclaims, completions; /* has the slot */
} table_row;

static const table_row table_rows[] = {
    {"a table of 0 bytes", 0, 0, 0},   {"a table of 8 bytes", 8, 0, 0},   {"a table of 15 bytes", 15, 0, 0},
    {"a table of 16 bytes", 16, 0, 0}, {"a table of 23 bytes", 23, 0, 0}, {"a table of 24 bytes", 24, 1, 0},
    {"a table of 31 bytes", 31, 1, 0}, {"a table of 32 bytes", 32, 1, 1},
};

static void live(const NxmemAllocatorVtable *table) {
  const NxmemAllocRequest request = alloc_request(table, 5u, BYTES, ALIGN);
  NxmemAllocResult result = alloc_result();
  if (table->allocate(table->ctx, &request, &result).code != NXMEM_STATUS_OK) return;
  const NxmemAllocation block = allocation_of(&request, &result);
  uint64_t ticket = 0u, retired = 0u;
  if (table->enqueue_release == NULL || table->enqueue_release(table->ctx, &block, &ticket).code != NXMEM_STATUS_OK)
    give_back(table, &block);
  else
    assert_status(table->drain_releases(table->ctx, UINT64_MAX, &retired), NXMEM_STATUS_OK);
}

/* A life with one mechanism. */
static void with_table(const char *file, const char *mechanism, const table_row *row) {
  static const NxmemHostCallbacks whole = {sizeof whole, 1u, NULL, count_reclaim, count_completion};
  plugin p;
  plugin_load(&p, file);
  plugin_find(&p, mechanism);
  const edge e = make_edge(&whole, row->declared);
  NxmemOpenRequest request = open_request(&p);
  request.callbacks = e.table;
  const NxmemAllocatorVtable *table = NULL;
  assert_status(p.factory->open_allocator(p.factory->ctx, &request, &table), NXMEM_STATUS_OK);
  live(table);
  table->release(table->ctx);
  plugin_close(&p);
  munmap(e.base, 2u * e.page);
}

static void run_table(const subject *s, const void *row) {
  const table_row *t = row;
  static const char *const plain[] = {"calls-host", "callback-probe", "callback-after-drop", "drip"};
  static const char *const misused[] = {"lazy", "invented-ctx", "null-ctx"};
  (void)s;
  reclaims = completions = 0u;
  for (size_t i = 0u; i < COUNT(plain); i++) with_table("libnxmem_scripted.so", plain[i], row);
  for (size_t i = 0u; i < COUNT(misused); i++) with_table("libnxmem_scripted_callbacks.so", misused[i], row);
  assert_int_equal(reclaims != 0u, t->reclaims);
  assert_int_equal(completions != 0u, t->completions);
}

int main(void) {
  static const subject scripted = {"libnxmem_scripted.so", "refusals", 0u, 31u};
  for (size_t i = 0u; i < COUNT(refusal_rows); i++) add_case(&scripted, "allocate", &refusal_rows[i], run_refusal);
  for (size_t i = 0u; i < COUNT(table_rows); i++) add_case(&scripted, "callbacks", &table_rows[i], run_table);
  return run_added("plugins_refusals");
}
