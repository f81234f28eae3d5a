/*
 * commits_test.c: does each mechanism of libnxmem_scripted_backing.so commit what its name says, and nothing else?
 *
 * Attackers played: none; here the attackers are under test.
 * Promise: what is really mapped is looked at, beside what is said; behind each story nothing is mapped.
 */
#include <string.h>

#include "backing.h"
#include "mechanisms.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

enum { G = GRANULE, SIZE = 4 * GRANULE };

/* Four granules reserved, the first committed. */
static NxmemAllocation one_committed(const scene *s) {
  const NxmemByteRange first = {0u, 1u};
  const NxmemAllocation a = reserve(s->table, 5u, SIZE, &first, 1u, G);
  assert_int_equal(accessible(&a), 1u);
  return a;
}

static void gone(const scene *s, const NxmemAllocation *a) {
  give_back(s->table, a);
  assert_int_equal(counted(s, NX_PROBE_GRANULES_MAPPED), 0u);
  assert_books(s->p, 1u, 0u);
}

static void show_honest(const scene *s) {
  const NxmemAllocation a = one_committed(s);
  gone(s, &a);
}

/* ---- allocate_committed ------------------------------------------------------------------------------------------ */

static NxmemStatus ask_committed(const scene *s, NxmemAllocRequest *request, NxmemAllocResult *result) {
  const NxmemVirtualBackingVtable *b = s->table->virtual_backing;
  static const NxmemByteRange first = {0u, 1u};
  *request = alloc_request(s->table, 5u, SIZE, 64u);
  request->committed_ranges = &first;
  request->committed_range_count = 1u;
  *result = alloc_result();
  return b->allocate_committed(b->ctx, request, result);
}

static void show_refused(const scene *s) {
  NxmemAllocRequest request;
  NxmemAllocResult result;
  assert_status(ask_committed(s, &request, &result), NXMEM_STATUS_OUT_OF_MEMORY);
  assert_null(result.ptr);
  assert_int_equal(counted(s, NX_PROBE_ALLOCATE_COMMITTED_CALLS), 1u);
  assert_books(s->p, 1u, 0u);
}

static void show_null(const scene *s) {
  NxmemAllocRequest request;
  NxmemAllocResult result;
  assert_status(ask_committed(s, &request, &result), NXMEM_STATUS_OK);
  assert_null(result.ptr);
  assert_int_equal(result.owned_bytes, SIZE);
  assert_books(s->p, 1u, 0u);
}

static void show_silent(const scene *s) {
  NxmemAllocRequest request;
  NxmemAllocResult result;
  const NxmemAllocResult before = alloc_result();
  assert_status(ask_committed(s, &request, &result), NXMEM_STATUS_OK);
  assert_memory_equal(&result, &before, sizeof before);
  assert_books(s->p, 1u, 0u);
}

static void show_misaligned(const scene *s) {
  NxmemAllocRequest request;
  NxmemAllocResult result;
  assert_status(ask_committed(s, &request, &result), NXMEM_STATUS_OK);
  assert_int_equal((uintptr_t)result.ptr % 64u, 1u);
  memset(result.ptr, 0x5A, SIZE);
  const NxmemAllocation a = allocation_of(&request, &result);
  gone(s, &a);
}

static void show_huge(const scene *s) {
  NxmemAllocRequest request;
  NxmemAllocResult result;
  assert_status(ask_committed(s, &request, &result), NXMEM_STATUS_OK);
  assert_int_equal(result.owned_bytes, UINT64_MAX);
  assert_int_equal(result.mapped_bytes, UINT64_MAX);
  const NxmemAllocation a = allocation_of(&request, &result);
  assert_int_equal(accessible(&a), 1u);
  gone(s, &a);
}

/* ---- commit_range ------------------------------------------------------------------------------------------------ */

static NxmemStatus try_commit(const scene *s, const NxmemAllocation *a, uint64_t offset, uint64_t bytes) {
  const NxmemRangeRequest request = range_of(a, offset, bytes);
  return s->table->virtual_backing->commit_range(s->table->virtual_backing->ctx, &request);
}

static NxmemStatus ask_ranges(const scene *s, const NxmemAllocation *a, uint64_t *mapped) {
  const NxmemRangeRequest request = range_of(a, 0u, SIZE);
  *mapped = UINT64_MAX;
  return s->table->virtual_backing->mapped_bytes_for_ranges(s->table->virtual_backing->ctx, &request, 1u, mapped);
}

/* A commit of three granules maps one of them and fails; before it the numbers are true. */
static NxmemAllocation commit_in_part(const scene *s) {
  const NxmemAllocation a = one_committed(s);
  assert_int_equal(missing(s->table, &a, 0u, SIZE), 3u * G);
  assert_status(try_commit(s, &a, G + 1u, 3u * G - 1u), NXMEM_STATUS_OUT_OF_MEMORY);
  assert_int_equal(accessible(&a), 3u);
  return a;
}

static void show_partial(const scene *s) {
  const NxmemAllocation a = commit_in_part(s);
  assert_int_equal(missing(s->table, &a, 0u, SIZE), 2u * G);
  assert_status(try_commit(s, &a, 2u * G, 1u), NXMEM_STATUS_OK); /* one granule succeeds */
  assert_int_equal(accessible(&a), 7u);
  gone(s, &a);
}

static void show_partial_huge(const scene *s) {
  const NxmemAllocation a = commit_in_part(s);
  assert_int_equal(missing(s->table, &a, 0u, SIZE), UINT64_MAX - 1u);
  gone(s, &a);
}

static void show_partial_mute(const scene *s) {
  const NxmemAllocation a = commit_in_part(s);
  uint64_t mapped;
  assert_status(ask_ranges(s, &a, &mapped), NXMEM_STATUS_DEVICE_ERROR);
  assert_int_equal(mapped, UINT64_MAX);
  gone(s, &a);
}

static void show_partial_silent(const scene *s) {
  const NxmemAllocation a = commit_in_part(s);
  assert_int_equal(missing(s->table, &a, 0u, SIZE), UINT64_MAX);
  gone(s, &a);
}

static void commit_maps_nothing(const scene *s, uint32_t code) {
  const NxmemAllocation a = one_committed(s);
  assert_status(try_commit(s, &a, G, G), code);
  assert_int_equal(accessible(&a), 1u);
  assert_int_equal(counted(s, NX_PROBE_COMMIT_CALLS), 1u);
  assert_int_equal(counted(s, NX_PROBE_MAPPED_FOR_RANGES_CALLS), 0u);
  gone(s, &a);
}
static void show_commit_refused(const scene *s) { commit_maps_nothing(s, NXMEM_STATUS_OUT_OF_MEMORY); }
static void show_commit_nothing(const scene *s) { commit_maps_nothing(s, NXMEM_STATUS_OK); }

/* ---- decommit_range ---------------------------------------------------------------------------------------------- */

/* One granule is mapped, and the whole allocation decommitted: what is said, and what is mapped then. */
static void decommits(const scene *s, uint32_t code, uint64_t said, uint32_t left) {
  const NxmemAllocation a = one_committed(s);
  const NxmemRangeRequest request = range_of(&a, 0u, SIZE);
  uint64_t unmapped = UINT64_MAX;
  const NxmemVirtualBackingVtable *b = s->table->virtual_backing;
  assert_status(b->decommit_range(b->ctx, &request, &unmapped), code);
  assert_int_equal(unmapped, said);
  assert_int_equal(accessible(&a), left);
  assert_int_equal(counted(s, NX_PROBE_DECOMMIT_CALLS), 1u);
  gone(s, &a);
}
static void show_decommit_more(const scene *s) { decommits(s, NXMEM_STATUS_OK, 2u * G, 0u); }
static void show_decommit_huge(const scene *s) { decommits(s, NXMEM_STATUS_OK, UINT64_MAX - 1u, 0u); }
static void show_decommit_silent(const scene *s) { decommits(s, NXMEM_STATUS_OK, UINT64_MAX, 0u); }
static void show_decommit_after(const scene *s) { decommits(s, NXMEM_STATUS_DEVICE_ERROR, UINT64_MAX, 0u); }
static void show_decommit_refused(const scene *s) { decommits(s, NXMEM_STATUS_DEVICE_ERROR, UINT64_MAX, 1u); }
static void show_decommit_nothing(const scene *s) { decommits(s, NXMEM_STATUS_OK, SIZE, 1u); }

static void show_decommit_beyond(const scene *s) {
  const NxmemAllocation a = one_committed(s);
  assert_int_equal(decommit(s->table, &a, 2u * G, G), G);
  assert_int_equal(accessible(&a), 0u);
  gone(s, &a);
}

/* ---- What is mapped ---------------------------------------------------------------------------------------------- */

static void ranges_say(const scene *s, uint32_t code, uint64_t said) {
  const NxmemAllocation a = one_committed(s);
  uint64_t mapped;
  assert_status(ask_ranges(s, &a, &mapped), code);
  assert_int_equal(mapped, said);
  gone(s, &a);
}
static void show_ranges_huge(const scene *s) { ranges_say(s, NXMEM_STATUS_OK, UINT64_MAX - 1u); }
static void show_ranges_silent(const scene *s) { ranges_say(s, NXMEM_STATUS_OK, UINT64_MAX); }
static void show_ranges_refused(const scene *s) { ranges_say(s, NXMEM_STATUS_DEVICE_ERROR, UINT64_MAX); }

static void foretells(const scene *s, uint32_t code, uint64_t said) {
  const NxmemVirtualBackingVtable *b = s->table->virtual_backing;
  NxmemAllocRequest request = alloc_request(s->table, 5u, SIZE, 64u);
  uint64_t mapped = UINT64_MAX;
  assert_status(b->mapped_bytes_for_allocation(b->ctx, &request, &mapped), code);
  assert_int_equal(mapped, said);
  assert_books(s->p, 1u, 0u);
}
static void show_foretold_huge(const scene *s) { foretells(s, NXMEM_STATUS_OK, UINT64_MAX - 1u); }
static void show_foretold_silent(const scene *s) { foretells(s, NXMEM_STATUS_OK, UINT64_MAX); }
static void show_foretold_refused(const scene *s) { foretells(s, NXMEM_STATUS_DEVICE_ERROR, UINT64_MAX); }

static void bytes_say(const scene *s, uint32_t code, uint64_t said) {
  const NxmemVirtualBackingVtable *b = s->table->virtual_backing;
  const NxmemAllocation a = one_committed(s);
  uint64_t bytes = UINT64_MAX;
  assert_status(b->committed_bytes(b->ctx, &a, &bytes), code);
  assert_int_equal(bytes, said);
  gone(s, &a);
}
/* All ones is what an unwritten number says as well. */
static void show_bytes_huge(const scene *s) {
  const NxmemVirtualBackingVtable *b = s->table->virtual_backing;
  const NxmemAllocation a = one_committed(s);
  uint64_t bytes = 0u;
  assert_status(b->committed_bytes(b->ctx, &a, &bytes), NXMEM_STATUS_OK);
  assert_int_equal(bytes, UINT64_MAX);
  gone(s, &a);
}
static void show_bytes_silent(const scene *s) { bytes_say(s, NXMEM_STATUS_OK, UINT64_MAX); }
static void show_bytes_refused(const scene *s) { bytes_say(s, NXMEM_STATUS_DEVICE_ERROR, UINT64_MAX); }

/* ---- Rows ------------------------------------------------------------------------------------------------------- */

enum { BACKED = 19 };
#define ROW(name, show) \
  { name, 128, 1, BACKED, ANY, 1, show }

static const mechanism_row rows[] = {
    {"eager", 128, 1, STRUCTURED, ANY, 1, show_eager},
    {"lazy", 128, 1, ALL, ANY, 1, show_honest},
    ROW("committed-refuses", show_refused),
    ROW("committed-null", show_null),
    ROW("committed-silent", show_silent),
    ROW("committed-misaligned", show_misaligned),
    ROW("committed-huge", show_huge),
    ROW("commit-partial", show_partial),
    ROW("commit-partial-huge", show_partial_huge),
    ROW("commit-partial-mute", show_partial_mute),
    ROW("commit-partial-silent", show_partial_silent),
    ROW("commit-refuses", show_commit_refused),
    ROW("commit-nothing", show_commit_nothing),
    ROW("decommit-overclaims", show_decommit_more),
    ROW("decommit-huge", show_decommit_huge),
    ROW("decommit-silent", show_decommit_silent),
    ROW("decommit-fails-after", show_decommit_after),
    ROW("decommit-refuses", show_decommit_refused),
    ROW("decommit-nothing", show_decommit_nothing),
    ROW("decommit-beyond", show_decommit_beyond),
    ROW("ranges-huge", show_ranges_huge),
    ROW("ranges-silent", show_ranges_silent),
    ROW("ranges-refuse", show_ranges_refused),
    ROW("foretold-huge", show_foretold_huge),
    ROW("foretold-silent", show_foretold_silent),
    ROW("foretold-refused", show_foretold_refused),
    ROW("bytes-huge", show_bytes_huge),
    ROW("bytes-silent", show_bytes_silent),
    ROW("bytes-refused", show_bytes_refused),
};

int main(void) {
  static const subject backing = {"libnxmem_scripted_backing.so", "backing", 0u, 31u};
  add_mechanisms(&backing, rows, COUNT(rows), 1);
  return run_added("backing mechanisms");
}
