/*
 * scripted_reentrant.c: mechanisms that call into the host from inside every slot, from inside the open, or from another
 * thread.
 *
 * Attackers: these are, though none of them breaks the contract: re-entry is allowed.
 * Promise: each slot does its honest work between two questions; no lock is held over them.
 */
#include <pthread.h>

#include "scripted_calls.h"
#include "scripted_lazy.h"
#include "scripted_mechanisms.h"
#include "scripted_queue.h"

enum { ASKED = 4096 };

/* One question for memory. Without an allocator there is nobody to ask. */
static void ask(const nx_allocator *allocator) {
  if (allocator != NULL) (void)nx_ask_for_memory(allocator, ASKED, NULL);
}

/* ---- reentrant: around every slot -------------------------------------------------------------------------------- */

#define AROUND(call)                 \
  ask(ctx);                          \
  const NxmemStatus status = (call); \
  ask(ctx);                          \
  return status

static NxmemStatus allocate(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  AROUND(nx_allocate(ctx, request, result_out));
}
static NxmemStatus deallocate(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped_out) {
  AROUND(nx_deallocate(ctx, allocation, unmapped_out));
}
static NxmemStatus release_allocation(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *outcome_out) {
  AROUND(nx_release_allocation(ctx, allocation, outcome_out));
}
static NxmemStatus enqueue(void *ctx, const NxmemAllocation *allocation, uint64_t *ticket_out) {
  AROUND(nx_enqueue_release(ctx, allocation, ticket_out));
}
static NxmemStatus drain(void *ctx, uint64_t max, uint64_t *retired_out) {
  AROUND(nx_drain_releases(ctx, max, retired_out));
}
static NxmemStatus pending(void *ctx, uint64_t *count_out) { AROUND(nx_pending_release_count(ctx, count_out)); }
static NxmemStatus allocate_committed(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  AROUND(nx_allocate_committed(ctx, request, result_out));
}
static NxmemStatus commit_range(void *ctx, const NxmemRangeRequest *request) { AROUND(nx_commit_range(ctx, request)); }
static NxmemStatus decommit_range(void *ctx, const NxmemRangeRequest *request, uint64_t *unmapped_out) {
  AROUND(nx_decommit_range(ctx, request, unmapped_out));
}
static NxmemStatus mapped_for_ranges(void *ctx, const NxmemRangeRequest *requests, uint64_t count,
                                     uint64_t *mapped_out) {
  AROUND(nx_mapped_for_ranges(ctx, requests, count, mapped_out));
}
static NxmemStatus mapped_for_allocation(void *ctx, const NxmemAllocRequest *request, uint64_t *mapped_out) {
  AROUND(nx_mapped_for_allocation(ctx, request, mapped_out));
}
static NxmemStatus committed_bytes(void *ctx, const NxmemAllocation *allocation, uint64_t *committed_out) {
  AROUND(nx_committed_bytes(ctx, allocation, committed_out));
}
static NxmemStatus create_prefix(void *ctx, uint64_t mechanism_id, uint64_t bytes,
                                 NxmemSharedPrefixHandle *handle_out) {
  AROUND(nx_create_prefix(ctx, mechanism_id, bytes, handle_out));
}
static NxmemStatus retain_prefix(void *ctx, const NxmemSharedPrefixHandle *handle) {
  AROUND(nx_retain_prefix(ctx, handle));
}
static NxmemStatus release_prefix(void *ctx, const NxmemSharedPrefixHandle *handle) {
  AROUND(nx_release_prefix(ctx, handle));
}
static NxmemStatus incremental_bytes(void *ctx, const NxmemSharedPrefixHandle *handle, uint64_t *bytes_out) {
  AROUND(nx_incremental_bytes(ctx, handle, bytes_out));
}
static NxmemStatus commit_prefix(void *ctx, const NxmemSharedPrefixCommitRequest *request,
                                 NxmemSharedPrefixCommitInfo *info_out) {
  AROUND(nx_commit_prefix(ctx, request, info_out));
}

static void spoil(NxmemAllocatorVtable *table) {
  table->allocate = allocate;
  table->deallocate = deallocate;
  table->release_allocation = release_allocation;
  table->enqueue_release = enqueue;
  table->drain_releases = drain;
  table->pending_release_count = pending;
}

static void spoil_backing(NxmemVirtualBackingVtable *table) {
  table->allocate_committed = allocate_committed;
  table->commit_range = commit_range;
  table->decommit_range = decommit_range;
  table->mapped_bytes_for_ranges = mapped_for_ranges;
  table->mapped_bytes_for_allocation = mapped_for_allocation;
  table->committed_bytes = committed_bytes;
}

static void spoil_sharing(NxmemSharedMappingVtable *table) {
  table->create_shared_prefix = create_prefix;
  table->retain_shared_prefix = retain_prefix;
  table->release_shared_prefix = release_prefix;
  table->incremental_owned_bytes = incremental_bytes;
  table->commit_shared_prefix = commit_prefix;
}

/* Inside the last release the allocator is still the host's. */
static void ask_at_the_end(nx_allocator *allocator) { ask(allocator); }

/* ---- calls-in-open: before the host has seen the table ----------------------------------------------------------- */

static void ask_in_open(NxmemAllocatorVtable *table) { ask(table->ctx); }

/* ---- asks-on-thread: the slot waits for its own thread, which asks ------------------------------------------------ */

static void *ask_on_thread(void *allocator) {
  ask(allocator);
  return NULL;
}

static NxmemStatus allocate_threaded(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  const NxmemStatus status = nx_allocate(ctx, request, result_out);
  pthread_t thread;
  if (status.code == NXMEM_STATUS_OK && pthread_create(&thread, NULL, ask_on_thread, ctx) == 0)
    pthread_join(thread, NULL);
  return status;
}

static void spoil_threaded(NxmemAllocatorVtable *table) { table->allocate = allocate_threaded; }

static const nx_mechanism rows[] = {
    {NX_HONEST("reentrant", NX_ALL_CAPS), .lazy = 1, .spoil = spoil, .spoil_backing = spoil_backing,
     .spoil_sharing = spoil_sharing, .last_release = ask_at_the_end},
    {NX_HONEST("calls-in-open", NX_CAPS), .spoil = ask_in_open},
    {NX_HONEST("asks-on-thread", NX_CAPS), .spoil = spoil_threaded},
};
const nx_row_group nx_reentrant_rows = NX_ROWS(rows);
