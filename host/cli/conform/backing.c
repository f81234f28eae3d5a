/*
 * backing.c: honest calls into the virtual backing table.
 * Attackers: the plugin's answers.
 * Promise: a slot that is NULL is absent, and nothing is called then.
 */
#include "conform/backing.h"

#include <inttypes.h>

#include "conform/expect.h"
#include "nxmem.h"

enum { PROBE_BYTES = 1 << 16, ALIGN = 4096 };

void nx_needs_slot(int present, const char *name) {
  if (!present) nx_does_not_apply("there is no %s slot", name);
}

NxmemStatus nx_allocate_committed(const nx_opened *opened, const NxmemAllocRequest *request, NxmemAllocResult *result) {
  nx_needs_slot(opened->backing.allocate_committed != NULL, "allocate_committed");
  nx_enter("allocate_committed");
  return opened->backing.allocate_committed(opened->backing.ctx, request, result);
}

NxmemStatus nx_commit(const nx_opened *opened, const NxmemRangeRequest *request) {
  nx_needs_slot(opened->backing.commit_range != NULL, "commit_range");
  nx_enter("commit_range");
  return opened->backing.commit_range(opened->backing.ctx, request);
}

NxmemStatus nx_decommit(const nx_opened *opened, const NxmemRangeRequest *request, uint64_t *unmapped) {
  nx_needs_slot(opened->backing.decommit_range != NULL, "decommit_range");
  nx_enter("decommit_range");
  return opened->backing.decommit_range(opened->backing.ctx, request, unmapped);
}

NxmemStatus nx_mapped_for(const nx_opened *opened, const NxmemRangeRequest *requests, uint64_t count,
                          uint64_t *mapped) {
  nx_needs_slot(opened->backing.mapped_bytes_for_ranges != NULL, "mapped_bytes_for_ranges");
  nx_enter("mapped_bytes_for_ranges");
  return opened->backing.mapped_bytes_for_ranges(opened->backing.ctx, requests, count, mapped);
}

NxmemStatus nx_committed(const nx_opened *opened, const NxmemAllocation *allocation, uint64_t *committed) {
  nx_needs_slot(opened->backing.committed_bytes != NULL, "committed_bytes");
  nx_enter("committed_bytes");
  return opened->backing.committed_bytes(opened->backing.ctx, allocation, committed);
}

NxmemRangeRequest nx_range_of(const nx_block *block, uint64_t offset, uint64_t bytes) {
  return (NxmemRangeRequest){NX_RANGE_REQUEST_BYTES, 0, block->allocation, {offset, bytes}};
}

static nx_block reserve(const nx_opened *opened, uint64_t bytes) {
  NxmemAllocRequest request = nx_request(opened, bytes, ALIGN);
  nx_block block = {.result = nx_blank_result()};
  NxmemStatus status = nx_allocate_committed(opened, &request, &block.result);
  NX_GIVEN(status.code == NXMEM_STATUS_OK, "allocate_committed of %" PRIu64 " bytes answered %s", bytes,
           nx_status_words(&status));
  NX_GIVEN(block.result.ptr, "allocate_committed answered OK without an address");
  block.allocation = nx_allocation_of(&request, &block.result);
  return block;
}

nx_block nx_reserve_block(const nx_opened *opened, uint64_t bytes) {
  return opened->backing.allocate_committed ? reserve(opened, bytes) : nx_take(opened, bytes, ALIGN);
}

/* The engine's unit is its own business: one byte tells it. */
static uint64_t granule_of(const nx_opened *opened) {
  nx_block probe = reserve(opened, PROBE_BYTES);
  NxmemRangeRequest one = nx_range_of(&probe, 0, 1);
  uint64_t cost = NX_UNWRITTEN;
  nx_given_ok(nx_mapped_for(opened, &one, 1, &cost), "mapped_bytes_for_ranges");
  NX_GIVEN(cost && cost <= 1ull << 40, "committing one byte costs %" PRIu64, cost);
  nx_give(opened, &probe);
  return cost;
}

nx_reserve nx_reserve_ready(nx_trial *trial, uint64_t granules) {
  nx_reserve out = {.opened = nx_open_ready(trial)};
  out.granule = granule_of(&out.opened);
  out.block = reserve(&out.opened, granules * out.granule);
  return out;
}

void nx_must_commit(const nx_reserve *r, uint64_t offset, uint64_t bytes) {
  NxmemRangeRequest range = nx_range_of(&r->block, offset, bytes);
  nx_given_ok(nx_commit(&r->opened, &range), "commit_range");
}

uint64_t nx_must_decommit(const nx_reserve *r, uint64_t offset, uint64_t bytes) {
  NxmemRangeRequest range = nx_range_of(&r->block, offset, bytes);
  uint64_t unmapped = NX_UNWRITTEN;
  nx_given_ok(nx_decommit(&r->opened, &range, &unmapped), "decommit_range");
  return unmapped;
}

uint64_t nx_committed_now(const nx_reserve *r) {
  uint64_t committed = NX_UNWRITTEN;
  nx_given_ok(nx_committed(&r->opened, &r->block.allocation, &committed), "committed_bytes");
  return committed;
}
