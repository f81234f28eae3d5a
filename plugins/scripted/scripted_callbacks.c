/*
 * scripted_callbacks.c: mechanisms that call into the host from inside a slot, or behind their last release.
 *
 * Attackers: these are; `callback-probe` keeps the contract.
 * Promise: the allocation itself is honest; what the host answered is in the probes.
 */
#include "scripted_calls.h"
#include "scripted_mechanisms.h"

/* calls-host: asks behind an honest allocation, completes behind an honest release what was never queued. */
static NxmemStatus allocate_calling(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  const NxmemStatus done = nx_allocate(ctx, request, result_out);
  if (done.code == NXMEM_STATUS_OK) (void)nx_ask_for_memory(ctx, request->bytes, NULL);
  return done;
}

static NxmemStatus deallocate_calling(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped_out) {
  const NxmemStatus done = nx_deallocate(ctx, allocation, unmapped_out);
  if (done.code != NXMEM_STATUS_OK) return done;
  const nx_allocator *allocator = ctx;
  const NxmemReleaseCompletion completion = nx_strange_completion(allocator, allocation->allocation_id);
  (void)nx_call_completed(allocator->callbacks, nx_host_ctx_of(allocator->callbacks), &completion);
  return done;
}

static void call_host(NxmemAllocatorVtable *table) {
  table->allocate = allocate_calling;
  table->deallocate = deallocate_calling;
}

/* callback-probe: no memory unless the host gives up as much as was asked for. */
static NxmemStatus allocate_reclaimed(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  const NxmemStatus begun = nx_begin_allocate(ctx, request, result_out);
  if (begun.code != NXMEM_STATUS_OK) return begun;
  uint64_t reclaimed = 0u;
  const NxmemStatus asked = nx_ask_for_memory(ctx, request->bytes, &reclaimed);
  if (asked.code != NXMEM_STATUS_OK || reclaimed < request->bytes)
    return nx_status(NXMEM_STATUS_OUT_OF_MEMORY, "the host gave nothing back");
  nx_uncount(NX_PROBE_ALLOCATE_CALLS); /* the honest slot counts this call again */
  return nx_allocate(ctx, request, result_out);
}

static void probe_callbacks(NxmemAllocatorVtable *table) { table->allocate = allocate_reclaimed; }

/* callback-after-drop: both callbacks of an allocator that the host has released, once. */
static void call_after_drop(nx_allocator *allocator) {
  if (nx_turn(allocator) != 0u) return;
  const NxmemReleaseCompletion completion = nx_strange_completion(allocator, 1u);
  (void)nx_ask_for_memory(allocator, 4096u, NULL);
  (void)nx_call_completed(allocator->callbacks, nx_host_ctx_of(allocator->callbacks), &completion);
}

static const nx_mechanism rows[] = {
    {NX_HONEST("calls-host", NXMEM_CAP_ALLOCATOR), .spoil = call_host},
    {NX_HONEST("callback-probe", NX_CAPS), .spoil = probe_callbacks},
    {NX_HONEST("callback-after-drop", NX_CAPS), .after_drop = call_after_drop},
};
const nx_row_group nx_callback_rows = NX_ROWS(rows);
