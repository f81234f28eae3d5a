/*
 * shows.c: what the mechanisms of libnxmem_scripted.so commit in their tables, allocations and releases.
 *
 * Attackers played: none; here the attackers are under test.
 * Promise: counts are compared for equality; where a table is short, it is shown that it really ends there.
 */
#include "shows.h"

#include <malloc.h>
#include <string.h>

enum { SECOND_TRY = 2 };

/* ---- What each row shows ---------------------------------------------------------------------------------------- */

void show_honest(const scene *s) {
  const NxmemAllocation allocation = take(s->table, 5u, 100u, 64u);
  assert_books(s->p, 1u, 1u);
  assert_int_equal(give_back(s->table, &allocation), 100u);
}

/* All of it: lazy_test.c. */
void show_lazy(const scene *s) {
  assert_int_equal(s->table->virtual_backing->mechanism_id, s->table->mechanism_id);
  assert_int_equal(s->table->shared_mapping->mechanism_id, s->table->mechanism_id);
  const NxmemAllocation allocation = take(s->table, 5u, 100u, 64u);
  assert_int_equal(give_back(s->table, &allocation), 65536u);
}

/* 120 is a size that malloc hands out exactly, with a sanitizer or without. */
static void assert_exact_block(const scene *s) { assert_int_equal(malloc_usable_size((void *)s->table), 120u); }

void show_legacy(const scene *s) {
  assert_exact_block(s);
  show_honest(s);
}

void show_poison(const scene *s) {
  const uint8_t *bytes = (const uint8_t *)s->table;
  for (uint32_t i = 128u; i < s->table->struct_size; i++) assert_int_equal(bytes[i], 0xAA);
  show_honest(s);
}

void show_missing_slot(const scene *s) {
  assert_null(s->table->allocate);
  assert_non_null(s->table->deallocate);
}
void show_no_release_slot(const scene *s) { assert_null(s->table->release_allocation); }
void show_no_mechanism(const scene *s) { assert_int_equal(s->table->mechanism_id, 0u); }
void show_other_device(const scene *s) {
  assert_int_equal(s->p->factory->device.index, 0u);
  assert_int_equal(s->table->device.index, 1u);
}
void show_undeclared(const scene *s) {
  assert_non_null(s->table->virtual_backing);
  assert_int_equal(s->table->virtual_backing->struct_size, 72u);
  assert_int_equal(s->table->virtual_backing->mechanism_id, s->table->mechanism_id);
}
void show_null(const scene *s) { assert_null(s->table); }
void show_wild(const scene *s) {
  assert_int_equal((uintptr_t)s->table % 8u, 0u);
  assert_int_equal(readable(s->table, 1u), 0u);
}
void show_misaligned(const scene *s) {
  assert_int_equal((uintptr_t)s->table % 8u, 4u);
  assert_int_equal(readable(s->table, 128u), 128u);
}

/* A table that created no state counts a call into it as stray, the release too. */
void show_stateless(const scene *s) {
  assert_exact_block(s);
  s->table->release(s->table->ctx);
  assert_int_equal(counted(s, NX_PROBE_STRAY_ALLOCATOR_CALLS), 1u);
}

void show_refused_open(const scene *s) {
  const NxmemAllocatorVtable *table = NULL;
  const NxmemOpenRequest request = open_request(s->p);
  const NxmemStatus status = s->p->factory->open_allocator(s->p->factory->ctx, &request, &table);
  assert_int_equal(status.code, NXMEM_STATUS_DEVICE_ERROR);
  assert_int_equal(status.message_len, 0xFFFFFFFFu);
  assert_null(memchr(status.message, 0, sizeof status.message));
  assert_null(table);
}

NxmemStatus ask(const scene *s, uint64_t id, NxmemAllocRequest *request, NxmemAllocResult *result) {
  *request = alloc_request(s->table, id, 100u, 64u);
  *result = alloc_result();
  return s->table->allocate(s->table->ctx, request, result);
}

void show_refused_allocate(const scene *s) {
  NxmemAllocRequest request;
  NxmemAllocResult result;
  assert_status(ask(s, 5u, &request, &result), NXMEM_STATUS_OUT_OF_MEMORY);
  assert_int_equal(result.owned_bytes, UINT64_MAX);
  assert_books(s->p, 1u, 0u);
}

void show_null_address(const scene *s) {
  NxmemAllocRequest request;
  NxmemAllocResult result;
  assert_status(ask(s, 5u, &request, &result), NXMEM_STATUS_OK);
  assert_null(result.ptr);
  assert_int_equal(result.owned_bytes, 100u);
  assert_books(s->p, 1u, 0u);
}

void show_misaligned_address(const scene *s) {
  NxmemAllocRequest request;
  NxmemAllocResult result;
  assert_status(ask(s, 5u, &request, &result), NXMEM_STATUS_OK);
  assert_int_equal((uintptr_t)result.ptr % 64u, 1u);
  memset(result.ptr, 0x5A, 100u);
  const NxmemAllocation allocation = allocation_of(&request, &result);
  give_back(s->table, &allocation);
}

void show_wrapping_address(const scene *s) {
  NxmemAllocRequest request;
  NxmemAllocResult result;
  assert_status(ask(s, 5u, &request, &result), NXMEM_STATUS_OK);
  assert_int_equal((uintptr_t)result.ptr % 64u, 0u);
  assert_true((uintptr_t)result.ptr > UINTPTR_MAX - 100u);
  const NxmemAllocation allocation = allocation_of(&request, &result);
  give_back(s->table, &allocation);
}

void show_huge(const scene *s) {
  NxmemAllocRequest request;
  NxmemAllocResult result;
  assert_status(ask(s, 5u, &request, &result), NXMEM_STATUS_OK);
  assert_int_equal(result.owned_bytes, UINT64_MAX);
  assert_int_equal(result.mapped_bytes, UINT64_MAX);
  const NxmemAllocation allocation = allocation_of(&request, &result);
  give_back(s->table, &allocation);
}

void show_same_address(const scene *s) {
  const NxmemAllocation first = take(s->table, 5u, 100u, 64u);
  const NxmemAllocation second = take(s->table, 6u, 100u, 64u);
  assert_ptr_equal(first.ptr, second.ptr);
  give_back(s->table, &second);
  memset(first.ptr, 0x5A, 100u); /* only the first owns it */
  give_back(s->table, &first);
}

void show_refused_deallocate(const scene *s) {
  const NxmemAllocation allocation = take(s->table, 5u, 100u, 64u);
  uint64_t unmapped = UINT64_MAX;
  assert_status(s->table->deallocate(s->table->ctx, &allocation, &unmapped), NXMEM_STATUS_BUSY);
  assert_int_equal(unmapped, UINT64_MAX);
  assert_books(s->p, 1u, 1u);
  assert_int_equal(give_back(s->table, &allocation), 100u);
  assert_int_equal(counted(s, NX_PROBE_DEALLOCATE_CALLS), SECOND_TRY);
}

void show_over_refund(const scene *s) {
  const NxmemAllocation allocation = take(s->table, 5u, 100u, 64u);
  assert_int_equal(give_back(s->table, &allocation), UINT64_MAX);
}

/* ---- Structured releases ---------------------------------------------------------------------------------------- */

NxmemReleaseOutcome unwritten(void) {
  NxmemReleaseOutcome outcome;
  memset(&outcome, 0xFF, sizeof outcome);
  outcome.struct_size = sizeof outcome;
  return outcome;
}

static void release_as(const scene *s, const NxmemAllocation *allocation, uint32_t code, uint32_t state) {
  NxmemReleaseOutcome outcome = unwritten();
  assert_status(s->table->release_allocation(s->table->ctx, allocation, &outcome), code);
  assert_int_equal(outcome.state, state);
}

void show_quarantine(const scene *s) {
  const NxmemAllocation allocation = take(s->table, 5u, 100u, 64u);
  NxmemReleaseOutcome outcome = unwritten();
  assert_status(s->table->release_allocation(s->table->ctx, &allocation, &outcome), NXMEM_STATUS_OK);
  assert_int_equal(outcome.state, NXMEM_RELEASE_QUARANTINED);
  assert_int_equal(outcome.unmapped_bytes, 0u);
  assert_int_equal(outcome.residual_owned_bytes, 100u);
  assert_status(outcome.failure, NXMEM_STATUS_DEVICE_ERROR);
  assert_books(s->p, 1u, 1u);
  assert_int_equal(counted(s, NX_PROBE_PARKED_BLOCKS), 1u);
}

void show_future(const scene *s) {
  const NxmemAllocation allocation = take(s->table, 5u, 100u, 64u);
  release_as(s, &allocation, NXMEM_STATUS_OK, 77u);
  assert_books(s->p, 1u, 1u);
}

void show_no_outcome(const scene *s) {
  const NxmemAllocation allocation = take(s->table, 5u, 100u, 64u);
  const NxmemReleaseOutcome before = unwritten();
  NxmemReleaseOutcome outcome = before;
  assert_status(s->table->release_allocation(s->table->ctx, &allocation, &outcome), NXMEM_STATUS_OK);
  assert_memory_equal(&before, &outcome, sizeof before);
  assert_books(s->p, 1u, 0u);
}

void show_status_only(const scene *s) {
  const NxmemAllocation allocation = take(s->table, 5u, 100u, 64u);
  release_as(s, &allocation, NXMEM_STATUS_RELEASE_QUARANTINED, UINT32_MAX);
  assert_books(s->p, 1u, 1u);
}

void show_failed_first(const scene *s) {
  const NxmemAllocation allocation = take(s->table, 5u, 100u, 64u);
  release_as(s, &allocation, NXMEM_STATUS_OK, NXMEM_RELEASE_FAILED);
  assert_books(s->p, 1u, 1u);
  release_as(s, &allocation, NXMEM_STATUS_OK, NXMEM_RELEASE_COMPLETE);
  assert_int_equal(counted(s, NX_PROBE_RELEASE_ALLOCATION_CALLS), SECOND_TRY);
}

/* The honest structured release, and what it refuses. */
void show_eager(const scene *s) {
  const NxmemAllocation allocation = take(s->table, 5u, 100u, 64u);
  NxmemAllocation foreign = allocation;
  foreign.allocation_id = 6u;
  NxmemReleaseOutcome cramped = unwritten();
  cramped.struct_size = 295u;
  assert_status(s->table->release_allocation(s->table->ctx, &allocation, &cramped), NXMEM_STATUS_SHORT_STRUCT);
  assert_int_equal(cramped.state, UINT32_MAX);
  release_as(s, &foreign, NXMEM_STATUS_UNKNOWN_ALLOCATION, UINT32_MAX);
  NxmemReleaseOutcome outcome = unwritten();
  assert_status(s->table->release_allocation(s->table->ctx, &allocation, &outcome), NXMEM_STATUS_OK);
  assert_int_equal(outcome.state, NXMEM_RELEASE_COMPLETE);
  assert_int_equal(outcome.allocation_bytes, 100u);
  assert_int_equal(outcome.unmapped_bytes, 100u);
  assert_int_equal(outcome.residual_owned_bytes, 0u);
  assert_status(outcome.failure, NXMEM_STATUS_OK);
  release_as(s, &allocation, NXMEM_STATUS_UNKNOWN_ALLOCATION, UINT32_MAX);
}
