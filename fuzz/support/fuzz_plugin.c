/*
 * fuzz_plugin.c: exports and slots that pass each call on.
 * Attackers: none by itself; the program's table is as hostile as the input says.
 * Promise: nothing is kept and nothing decided here.
 */
#include "fuzz_plugin.h"

#define EXPORTED __attribute__((visibility("default")))
#define ASK(table, slot, ...) return nxmem_fuzz_hooks.slots.table.slot(__VA_ARGS__)

/* ---- Allocator --------------------------------------------------------------------------------------------------- */

static NxmemStatus allocate(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *out) {
  ASK(allocator, allocate, ctx, request, out);
}
static NxmemStatus deallocate(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped_out) {
  ASK(allocator, deallocate, ctx, allocation, unmapped_out);
}
static void retain(void *ctx) { nxmem_fuzz_hooks.slots.allocator.retain(ctx); }
static void release(void *ctx) { nxmem_fuzz_hooks.slots.allocator.release(ctx); }
static NxmemStatus enqueue_release(void *ctx, const NxmemAllocation *allocation, uint64_t *ticket_out) {
  ASK(allocator, enqueue_release, ctx, allocation, ticket_out);
}
static NxmemStatus drain_releases(void *ctx, uint64_t max, uint64_t *retired_out) {
  ASK(allocator, drain_releases, ctx, max, retired_out);
}
static NxmemStatus pending_release_count(void *ctx, uint64_t *count_out) {
  ASK(allocator, pending_release_count, ctx, count_out);
}
static NxmemStatus release_allocation(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *out) {
  ASK(allocator, release_allocation, ctx, allocation, out);
}

/* ---- Virtual backing --------------------------------------------------------------------------------------------- */

static NxmemStatus allocate_committed(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *out) {
  ASK(backing, allocate_committed, ctx, request, out);
}
static NxmemStatus commit_range(void *ctx, const NxmemRangeRequest *request) {
  ASK(backing, commit_range, ctx, request);
}
static NxmemStatus decommit_range(void *ctx, const NxmemRangeRequest *request, uint64_t *unmapped_out) {
  ASK(backing, decommit_range, ctx, request, unmapped_out);
}
static NxmemStatus mapped_bytes_for_ranges(void *ctx, const NxmemRangeRequest *requests, uint64_t count,
                                           uint64_t *mapped_out) {
  ASK(backing, mapped_bytes_for_ranges, ctx, requests, count, mapped_out);
}
static NxmemStatus mapped_bytes_for_allocation(void *ctx, const NxmemAllocRequest *request, uint64_t *mapped_out) {
  ASK(backing, mapped_bytes_for_allocation, ctx, request, mapped_out);
}
static NxmemStatus committed_bytes(void *ctx, const NxmemAllocation *allocation, uint64_t *committed_out) {
  ASK(backing, committed_bytes, ctx, allocation, committed_out);
}

/* ---- Shared mapping ---------------------------------------------------------------------------------------------- */

static NxmemStatus create_shared_prefix(void *ctx, uint64_t mechanism_id, uint64_t bytes,
                                        NxmemSharedPrefixHandle *handle_out) {
  ASK(sharing, create_shared_prefix, ctx, mechanism_id, bytes, handle_out);
}
static NxmemStatus retain_shared_prefix(void *ctx, const NxmemSharedPrefixHandle *handle) {
  ASK(sharing, retain_shared_prefix, ctx, handle);
}
static NxmemStatus release_shared_prefix(void *ctx, const NxmemSharedPrefixHandle *handle) {
  ASK(sharing, release_shared_prefix, ctx, handle);
}
static NxmemStatus incremental_owned_bytes(void *ctx, const NxmemSharedPrefixHandle *handle, uint64_t *bytes_out) {
  ASK(sharing, incremental_owned_bytes, ctx, handle, bytes_out);
}
static NxmemStatus commit_shared_prefix(void *ctx, const NxmemSharedPrefixCommitRequest *request,
                                        NxmemSharedPrefixCommitInfo *out) {
  ASK(sharing, commit_shared_prefix, ctx, request, out);
}

/* ---- Factory and exports ----------------------------------------------------------------------------------------- */

static NxmemStatus open_allocator(void *ctx, const NxmemOpenRequest *request, const NxmemAllocatorVtable **out) {
  ASK(factory, open_allocator, ctx, request, out);
}
static void release_factory(void *ctx) { nxmem_fuzz_hooks.slots.factory.release(ctx); }

static const fuzz_slots own = {
    .factory = {.open_allocator = open_allocator, .release = release_factory},
    .allocator = {.allocate = allocate,
                  .deallocate = deallocate,
                  .retain = retain,
                  .release = release,
                  .enqueue_release = enqueue_release,
                  .drain_releases = drain_releases,
                  .pending_release_count = pending_release_count,
                  .release_allocation = release_allocation},
    .backing = {.allocate_committed = allocate_committed,
                .commit_range = commit_range,
                .decommit_range = decommit_range,
                .mapped_bytes_for_ranges = mapped_bytes_for_ranges,
                .mapped_bytes_for_allocation = mapped_bytes_for_allocation,
                .committed_bytes = committed_bytes},
    .sharing = {.create_shared_prefix = create_shared_prefix,
                .retain_shared_prefix = retain_shared_prefix,
                .release_shared_prefix = release_shared_prefix,
                .incremental_owned_bytes = incremental_owned_bytes,
                .commit_shared_prefix = commit_shared_prefix},
};

/* Beside the contract. */
EXPORTED const uint32_t nxmem_fuzz_beside = 1;

EXPORTED NxmemStatus NxmemNegotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response) {
  return nxmem_fuzz_hooks.negotiate(&own, request, response);
}
EXPORTED NxmemStatus NxmemCreateAllocatorFactories(const NxmemAllocatorFactoryVtable **out_factories,
                                                   uint64_t max_factories, uint64_t *out_count) {
  return nxmem_fuzz_hooks.create_factories(out_factories, max_factories, out_count);
}
EXPORTED NxmemStatus NxmemQueryUnloadReadiness(NxmemUnloadReport *report_out) {
  return nxmem_fuzz_hooks.query_unload(report_out);
}
