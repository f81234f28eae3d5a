/*
 * scripted_deferred.c: mechanisms whose queue of releases has a will of its own. None of them breaks the contract: each
 * uses a freedom that a host may have forgotten.
 *
 * Attackers: these are.
 * Promise: every release that was queued completes once, in order.
 */
#include "scripted_mechanisms.h"
#include "scripted_queue.h"

/* refusing-deferred: the allocation stays as live as it was. */
static NxmemStatus enqueue_refuses(void *ctx, const NxmemAllocation *allocation, uint64_t *ticket_out) {
  const NxmemStatus begun = nx_begin_enqueue(ctx, allocation, ticket_out);
  return begun.code == NXMEM_STATUS_OK ? nx_status(NXMEM_STATUS_BUSY, "the queue is full") : begun;
}

/* reentrant-completion: it has completed before the host knows its ticket. */
static NxmemStatus enqueue_completes(void *ctx, const NxmemAllocation *allocation, uint64_t *ticket_out) {
  const NxmemStatus done = nx_enqueue_release(ctx, allocation, ticket_out);
  if (done.code == NXMEM_STATUS_OK) (void)nx_retire_up_to(ctx, UINT64_MAX, nx_retire);
  return done;
}

/* drip: one, however many were asked for. */
static NxmemStatus drain_one(void *ctx, uint64_t max, uint64_t *retired_out) {
  return nx_drain_releases(ctx, max < 1u ? max : 1u, retired_out);
}

/* complete-on-release: a drain retires nothing, the last release everything. */
static NxmemStatus drain_none(void *ctx, uint64_t max, uint64_t *retired_out) {
  (void)max;
  return nx_drain_releases(ctx, 0u, retired_out);
}

static void retire_all(nx_allocator *allocator) { (void)nx_retire_up_to(allocator, UINT64_MAX, nx_retire); }

static void refuse(NxmemAllocatorVtable *table) { table->enqueue_release = enqueue_refuses; }
static void complete_inside(NxmemAllocatorVtable *table) { table->enqueue_release = enqueue_completes; }
static void drip(NxmemAllocatorVtable *table) { table->drain_releases = drain_one; }
static void wait_for_release(NxmemAllocatorVtable *table) { table->drain_releases = drain_none; }

static const nx_mechanism rows[] = {
    {NX_HONEST("refusing-deferred", NX_DEFERRED_CAPS), .spoil = refuse},
    {NX_HONEST("reentrant-completion", NX_DEFERRED_CAPS), .spoil = complete_inside},
    {NX_HONEST("drip", NX_DEFERRED_CAPS), .spoil = drip},
    {NX_HONEST("complete-on-release", NX_DEFERRED_CAPS), .spoil = wait_for_release, .last_release = retire_all},
};
const nx_row_group nx_deferred_rows = NX_ROWS(rows);
