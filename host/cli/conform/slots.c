/*
 * slots.c: honest calls.
 * Attackers: the plugin's answers.
 * Promise: out-records are whole and pre-filled, as a host hands them out.
 */
#include "conform/slots.h"

#include <inttypes.h>
#include <string.h>

#include "conform/expect.h"
#include "nxmem.h"

/* Slot and generation, as some hosts build them: neither small nor consecutive. */
uint64_t nx_fresh_id(void) {
  static _Atomic uint64_t last;
  uint64_t number = atomic_fetch_add(&last, 1) + 1;
  return (number * 7 + 3) << 32 | (number & 0xFFFF);
}

NxmemAllocRequest nx_request(const nx_opened *opened, uint64_t bytes, uint64_t align) {
  return (NxmemAllocRequest){
      NX_REQUEST_BYTES, 0, opened->table.mechanism_id, nx_fresh_id(), opened->table.device, bytes, align, NULL, 0};
}

NxmemAllocResult nx_blank_result(void) {
  return (NxmemAllocResult){NX_RESULT_BYTES, 0, NULL, NX_UNWRITTEN, NX_UNWRITTEN};
}

NxmemReleaseOutcome nx_blank_outcome(void) {
  NxmemReleaseOutcome outcome;
  memset(&outcome, 0xFF, sizeof outcome);
  outcome.struct_size = NX_OUTCOME_BYTES;
  return outcome;
}

NxmemAllocation nx_allocation_of(const NxmemAllocRequest *request, const NxmemAllocResult *result) {
  return (NxmemAllocation){NX_ALLOCATION_BYTES, 0,           request->mechanism_id, request->allocation_id,
                           request->device,     result->ptr, request->bytes,        request->align};
}

NxmemStatus nx_allocate(const nx_opened *opened, const NxmemAllocRequest *request, NxmemAllocResult *result) {
  nx_enter("allocate");
  NX_GIVEN(opened->table.allocate, "there is no allocate slot");
  return opened->table.allocate(opened->table.ctx, request, result);
}

NxmemStatus nx_deallocate(const nx_opened *opened, const NxmemAllocation *allocation, uint64_t *unmapped) {
  nx_enter("deallocate");
  NX_GIVEN(opened->table.deallocate, "there is no deallocate slot");
  return opened->table.deallocate(opened->table.ctx, allocation, unmapped);
}

NxmemStatus nx_release_allocation(const nx_opened *opened, const NxmemAllocation *allocation,
                                  NxmemReleaseOutcome *outcome) {
  nx_enter("release_allocation");
  NX_GIVEN(opened->table.release_allocation, "there is no release_allocation slot");
  return opened->table.release_allocation(opened->table.ctx, allocation, outcome);
}

NxmemStatus nx_enqueue(const nx_opened *opened, const NxmemAllocation *allocation, uint64_t *ticket) {
  nx_enter("enqueue_release");
  NX_GIVEN(opened->table.enqueue_release, "there is no enqueue_release slot");
  return opened->table.enqueue_release(opened->table.ctx, allocation, ticket);
}

NxmemStatus nx_drain(const nx_opened *opened, uint64_t max, uint64_t *retired) {
  nx_enter("drain_releases");
  NX_GIVEN(opened->table.drain_releases, "there is no drain_releases slot");
  return opened->table.drain_releases(opened->table.ctx, max, retired);
}

uint64_t nx_pending(const nx_opened *opened) {
  uint64_t count = NX_UNWRITTEN;
  nx_enter("pending_release_count");
  NX_GIVEN(opened->table.pending_release_count, "there is no pending_release_count slot");
  NxmemStatus status = opened->table.pending_release_count(opened->table.ctx, &count);
  nx_given_ok(status, "pending_release_count");
  return count;
}

nx_block nx_take(const nx_opened *opened, uint64_t bytes, uint64_t align) {
  NxmemAllocRequest request = nx_request(opened, bytes, align);
  nx_block block = {.result = nx_blank_result()};
  NxmemStatus status = nx_allocate(opened, &request, &block.result);
  NX_GIVEN(status.code == NXMEM_STATUS_OK, "allocate of %" PRIu64 " bytes answered %s", bytes,
           nx_status_words(&status));
  NX_GIVEN(block.result.ptr, "allocate answered OK without an address");
  block.allocation = nx_allocation_of(&request, &block.result);
  return block;
}

uint64_t nx_give(const nx_opened *opened, const nx_block *block) {
  uint64_t unmapped = NX_UNWRITTEN;
  NxmemStatus status = nx_deallocate(opened, &block->allocation, &unmapped);
  nx_given_ok(status, "deallocate");
  return unmapped;
}

void nx_still_live(const nx_opened *opened, const nx_block *block, const char *after) {
  uint64_t unmapped = NX_UNWRITTEN;
  NxmemStatus status = nx_deallocate(opened, &block->allocation, &unmapped);
  NX_EXPECT(status.code == NXMEM_STATUS_OK, "with %s the block is no longer live: deallocate answered %s", after,
            nx_status_words(&status));
}

int nx_may_touch(const nx_opened *opened) { return opened->table.device.tier == NXMEM_TIER_HOST; }
