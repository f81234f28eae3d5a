/*
 * addresses_test.c: does each mechanism of libnxmem_scripted_addresses.so commit what its name says, and nothing else?
 *
 * Attackers played: none; here the attackers are under test.
 * Promise: where addresses overlap, the bytes that both claim are counted; only the first owner uses them.
 */
#include <string.h>

#include "mechanisms.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

enum { ALIGN = 64 };

static void show_honest(const scene *s) {
  const NxmemAllocation a = take(s->table, 5u, 100u, ALIGN);
  give_back(s->table, &a);
}

/* ---- Overlaps ---------------------------------------------------------------------------------------------------- */

/* The second lies `skew` bytes behind the first; the first is used, then both go. */
static void overlap(const scene *s, uint64_t first_bytes, uint64_t second_bytes, int64_t skew) {
  const NxmemAllocation first = take(s->table, 5u, first_bytes, ALIGN);
  const NxmemAllocation second = take(s->table, 6u, second_bytes, ALIGN);
  assert_int_equal((int64_t)((intptr_t)second.ptr - (intptr_t)first.ptr), skew);
  assert_report(s->p, 1u, 2u, 0u, 0u, 0u);
  assert_int_equal(give_back(s->table, &second), second_bytes);
  memset(first.ptr, 0x5A, first_bytes);
  assert_int_equal(give_back(s->table, &first), first_bytes);
  assert_int_equal(counted(s, NX_PROBE_ALLOCATE_CALLS), 2u);
}

/* Where a request cannot overlap in that way, it is honest. */
static void apart(const scene *s, uint64_t first_bytes, uint64_t second_bytes) {
  const NxmemAllocation first = take(s->table, 7u, first_bytes, ALIGN);
  const NxmemAllocation second = take(s->table, 8u, second_bytes, ALIGN);
  const intptr_t a = (intptr_t)first.ptr, b = (intptr_t)second.ptr;
  assert_true(a + (intptr_t)first_bytes <= b || b + (intptr_t)second_bytes <= a);
  memset(second.ptr, 0x5A, second_bytes);
  give_back(s->table, &second);
  give_back(s->table, &first);
}

static void show_end(const scene *s) {
  overlap(s, 1000u, 1000u, 960); /* 40 bytes are both's */
  apart(s, 64u, 1000u);
}
static void show_start(const scene *s) {
  overlap(s, 1000u, 1000u, -64); /* 936 */
  apart(s, 1000u, 64u);
}
static void show_inside(const scene *s) {
  overlap(s, 1000u, 100u, 64);
  apart(s, 100u, 1000u);
}
static void show_around(const scene *s) {
  overlap(s, 100u, 1000u, -64);
  apart(s, 1000u, 100u);
}

static void show_siblings(const scene *s) {
  const NxmemAllocatorVtable *sibling = plugin_open(s->p);
  const NxmemAllocation theirs = take(sibling, 5u, 100u, ALIGN);
  const NxmemAllocation ours = take(s->table, 5u, 200u, ALIGN);
  assert_ptr_equal(ours.ptr, theirs.ptr);
  give_back(s->table, &ours);
  memset(theirs.ptr, 0x5A, 100u);
  give_back(sibling, &theirs);
  const NxmemAllocation alone = take(s->table, 6u, 200u, ALIGN);
  memset(alone.ptr, 0x5A, 200u);
  give_back(s->table, &alone);
  sibling->release(sibling->ctx);
}

static void show_reissue(const scene *s) {
  const NxmemAllocation first = take(s->table, 5u, 100u, ALIGN);
  NxmemReleaseOutcome outcome = unwritten();
  assert_status(s->table->release_allocation(s->table->ctx, &first, &outcome), NXMEM_STATUS_OK);
  assert_int_equal(outcome.state, NXMEM_RELEASE_QUARANTINED);
  assert_int_equal(outcome.residual_owned_bytes, 100u);
  assert_report(s->p, 1u, 1u, 0u, 0u, 0u);
  const NxmemAllocation second = take(s->table, 6u, 300u, ALIGN);
  assert_ptr_equal(second.ptr, first.ptr);
  give_back(s->table, &second);
  assert_report(s->p, 1u, 1u, 0u, 0u, 0u);
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

static void show_silent(const scene *s) {
  NxmemAllocRequest request;
  NxmemAllocResult result;
  const NxmemAllocResult before = alloc_result();
  assert_status(ask(s, 5u, &request, &result), NXMEM_STATUS_OK);
  assert_memory_equal(&result, &before, sizeof before);
  assert_books(s->p, 1u, 0u);
}

static void show_total(const scene *s) {
  for (uint64_t id = 5u; id < 8u; id++) {
    NxmemAllocRequest request;
    NxmemAllocResult result;
    assert_status(ask(s, id, &request, &result), NXMEM_STATUS_OK);
    assert_int_equal(result.owned_bytes, 1ull << 62);
    assert_int_equal(result.mapped_bytes, 1ull << 62);
    const NxmemAllocation a = allocation_of(&request, &result);
    memset(a.ptr, 0x5A, a.bytes);
    assert_int_equal(give_back(s->table, &a), 100u);
  }
}

static void show_unknown_status(const scene *s) {
  NxmemAllocRequest request;
  NxmemAllocResult result;
  assert_status(ask(s, 5u, &request, &result), 4711u);
  assert_null(result.ptr);
  assert_books(s->p, 1u, 0u);
}

static void assert_endless(const NxmemStatus *status, uint32_t code) {
  assert_int_equal(status->code, code);
  assert_int_equal(status->message_len, 0xFFFFFFFFu);
  assert_null(memchr(status->message, 0, sizeof status->message));
  assert_memory_equal(status->message, "lost \xC3( \x1B[31m", 12u);
}

static void show_endless(const scene *s) {
  NxmemAllocRequest request;
  NxmemAllocResult result;
  const NxmemStatus status = ask(s, 5u, &request, &result);
  assert_endless(&status, NXMEM_STATUS_OUT_OF_MEMORY);
  assert_books(s->p, 1u, 0u);
}

/* ---- Deallocate -------------------------------------------------------------------------------------------------- */

static void frees_saying(const scene *s, uint64_t said) {
  const NxmemAllocation a = take(s->table, 5u, 100u, ALIGN);
  assert_int_equal(give_back(s->table, &a), said);
  assert_books(s->p, 1u, 0u);
}
static void show_free_silent(const scene *s) { frees_saying(s, UINT64_MAX); }
static void show_free_double(const scene *s) { frees_saying(s, 200u); }

static void show_free_keeps(const scene *s) {
  const NxmemAllocation a = take(s->table, 5u, 100u, ALIGN);
  uint64_t unmapped = UINT64_MAX;
  assert_status(s->table->deallocate(s->table->ctx, &a, &unmapped), NXMEM_STATUS_RELEASE_QUARANTINED);
  assert_int_equal(unmapped, UINT64_MAX);
  assert_books(s->p, 1u, 1u);
}

/* ---- Structured release ------------------------------------------------------------------------------------------ */

static NxmemReleaseOutcome released(const scene *s, const NxmemAllocation *a, uint32_t code) {
  NxmemReleaseOutcome outcome = unwritten();
  assert_status(s->table->release_allocation(s->table->ctx, a, &outcome), code);
  return outcome;
}

static void show_over_refunds(const scene *s) {
  const NxmemAllocation a = take(s->table, 5u, 100u, ALIGN);
  const NxmemReleaseOutcome outcome = released(s, &a, NXMEM_STATUS_OK);
  assert_int_equal(outcome.state, NXMEM_RELEASE_COMPLETE);
  assert_int_equal(outcome.allocation_bytes, 100u);
  assert_int_equal(outcome.unmapped_bytes, UINT64_MAX);
  assert_int_equal(outcome.residual_owned_bytes, 0u);
  assert_books(s->p, 1u, 0u);
}

static void show_all_huge(const scene *s) {
  const NxmemAllocation a = take(s->table, 5u, 100u, ALIGN);
  const NxmemReleaseOutcome outcome = released(s, &a, NXMEM_STATUS_OK);
  assert_int_equal(outcome.state, NXMEM_RELEASE_COMPLETE);
  assert_int_equal(outcome.allocation_bytes, UINT64_MAX);
  assert_int_equal(outcome.unmapped_bytes, UINT64_MAX);
  assert_int_equal(outcome.residual_owned_bytes, UINT64_MAX);
  assert_books(s->p, 1u, 0u);
}

static void show_contradiction(const scene *s) {
  const NxmemAllocation a = take(s->table, 5u, 100u, ALIGN);
  const NxmemReleaseOutcome outcome = released(s, &a, NXMEM_STATUS_DEVICE_ERROR);
  assert_int_equal(outcome.state, NXMEM_RELEASE_COMPLETE);
  assert_status(outcome.failure, NXMEM_STATUS_OK);
  assert_books(s->p, 1u, 1u);
}

static void show_refused_release(const scene *s) {
  const NxmemAllocation a = take(s->table, 5u, 100u, ALIGN);
  assert_int_equal(released(s, &a, NXMEM_STATUS_BUSY).state, UINT32_MAX);
  memset(a.ptr, 0x5A, a.bytes);
  assert_int_equal(released(s, &a, NXMEM_STATUS_OK).state, NXMEM_RELEASE_COMPLETE);
  assert_int_equal(counted(s, NX_PROBE_RELEASE_ALLOCATION_CALLS), 2u);
}

static void show_endless_failure(const scene *s) {
  const NxmemAllocation a = take(s->table, 5u, 100u, ALIGN);
  const NxmemReleaseOutcome outcome = released(s, &a, NXMEM_STATUS_OK);
  assert_int_equal(outcome.state, NXMEM_RELEASE_FAILED);
  assert_endless(&outcome.failure, NXMEM_STATUS_BUSY);
  assert_books(s->p, 1u, 1u);
  assert_int_equal(released(s, &a, NXMEM_STATUS_OK).state, NXMEM_RELEASE_COMPLETE);
}

/* ---- Rows ------------------------------------------------------------------------------------------------------- */

static const mechanism_row rows[] = {
    {"eager", 128, 1, STRUCTURED, ANY, 1, show_eager},
    {"lazy", 128, 1, ALL, ANY, 1, show_honest},
    {"overlapping-end", 128, 1, PLAIN, ANY, 1, show_end},
    {"overlapping-start", 128, 1, PLAIN, ANY, 1, show_start},
    {"overlapping-inside", 128, 1, PLAIN, ANY, 1, show_inside},
    {"overlapping-around", 128, 1, PLAIN, ANY, 1, show_around},
    {"address-of-sibling", 128, 1, PLAIN, ANY, 1, show_siblings},
    {"result-silent", 128, 1, PLAIN, ANY, 1, show_silent},
    {"total-beyond", 128, 1, PLAIN, ANY, 1, show_total},
    {"unknown-status", 128, 1, PLAIN, ANY, 1, show_unknown_status},
    {"endless-message", 128, 1, PLAIN, ANY, 1, show_endless},
    {"deallocate-silent", 128, 1, PLAIN, ANY, 1, show_free_silent},
    {"over-refund-double", 128, 1, PLAIN, ANY, 1, show_free_double},
    {"deallocate-quarantines", 128, 1, PLAIN, ANY, 1, show_free_keeps},
    {"reissues-quarantined", 128, 1, STRUCTURED, ANY, 1, show_reissue},
    {"release-over-refunds", 128, 1, STRUCTURED, ANY, 1, show_over_refunds},
    {"release-huge", 128, 1, STRUCTURED, ANY, 1, show_all_huge},
    {"release-contradicts", 128, 1, STRUCTURED, ANY, 1, show_contradiction},
    {"release-refuses", 128, 1, STRUCTURED, ANY, 1, show_refused_release},
    {"release-endless-message", 128, 1, STRUCTURED, ANY, 1, show_endless_failure},
};

int main(void) {
  static const subject addresses = {"libnxmem_scripted_addresses.so", "addresses", 0u, 31u};
  add_mechanisms(&addresses, rows, COUNT(rows), 0);
  return run_added("address mechanisms");
}
