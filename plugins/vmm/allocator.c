/*
 * allocator.c: the slots that every allocator has: allocate, deallocate, release_allocation, retain, release.
 *
 * Attackers: a host with wrong records, from any thread, also from inside the callbacks it gave.
 * Promise: every argument is judged before anything is touched; a refusal changes nothing; no lock is held while the host runs.
 */
#include <string.h>

#include "fork.h"
#include "nxmem/outcome.h"
#include "nxmem/status.h"
#include "records.h"
#include "slots.h"

/* ---- Allocate ------------------------------------------------------------------------------------------------------ */

nx_said nx_check_alloc_request(const nx_engine *engine, const NxmemAllocRequest *request) {
  if (request->struct_size < NX_ALLOC_REQUEST_BYTES)
    return nx_say(NXMEM_STATUS_SHORT_STRUCT, "allocate: request shorter than 64 bytes");
  const nx_said owner = nx_check_owner(engine, request->mechanism_id, request->device);
  if (nx_failed(owner)) return owner;
  const nxmem_verdict size = nxmem_check_alloc_request(request->bytes, request->align);
  if (size.reason == NXMEM_REASON_NONE) return nx_fine();
  return nx_say(nxmem_reason_status(size.reason), "allocate: zero bytes, no alignment, or a size that wraps");
}

/* Once the lock is gone, another thread may release the block: what the host is told is copied first. */
static uint32_t make_once(nx_engine *engine, const nx_wish *wish, NxmemAllocResult *result, nx_loss *loss) {
  nx_block *block = NULL;
  pthread_mutex_lock(&engine->lock);
  const uint32_t status = nx_block_make_locked(engine, wish, &block, loss);
  if (status == NXMEM_STATUS_OK)
    *result = (NxmemAllocResult){NX_ALLOC_RESULT_BYTES, 0u, (uint8_t *)(uintptr_t)block->first, block->mapped_bytes,
                                 block->mapped_bytes};
  pthread_mutex_unlock(&engine->lock);
  return status;
}

/* The host runs in between: it may give up the allocator there. */
static NxmemStatus allocate_again(nx_engine *engine, const nx_wish *wish, nx_loss first, NxmemAllocResult *result_out) {
  nx_loss loss = {0u, 0u};
  NxmemAllocResult result = {0};
  nx_slot_retain(engine);
  nx_relieve(engine, wish->bytes);
  const uint32_t status = make_once(engine, wish, &result, &loss);
  loss.bytes += first.bytes;
  loss.granules += first.granules;
  const NxmemStatus said = nx_told_need(engine, status, "allocate", wish->bytes, &loss);
  if (status == NXMEM_STATUS_OK) memcpy(result_out, &result, NX_ALLOC_RESULT_BYTES);
  nx_slot_release(engine);
  return said;
}

NxmemStatus nx_allocate(nx_engine *engine, const NxmemAllocRequest *request, int whole, NxmemAllocResult *result_out) {
  nx_loss loss = {0u, 0u};
  NxmemAllocResult result = {0};
  const nx_wish wish = {request->allocation_id,
                        request->bytes,
                        request->align,
                        whole,
                        request->committed_ranges,
                        whole ? request->committed_range_count : 0u};
  const uint32_t status = make_once(engine, &wish, &result, &loss);
  if (status == NXMEM_STATUS_OUT_OF_MEMORY) return allocate_again(engine, &wish, loss, result_out);
  if (status != NXMEM_STATUS_OK) return nx_told_need(engine, status, "allocate", wish.bytes, &loss);
  memcpy(result_out, &result, NX_ALLOC_RESULT_BYTES);
  return nx_ok();
}

NxmemStatus nx_slot_allocate(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  nx_said checked = nx_check_call(ctx, request, result_out);
  if (nx_failed(checked)) return nx_refused(checked);
  if (result_out->struct_size < NX_ALLOC_RESULT_BYTES)
    return nx_status(NXMEM_STATUS_SHORT_STRUCT, "allocate: room for the result below 32 bytes");
  checked = nx_check_alloc_request(ctx, request);
  return nx_failed(checked) ? nx_refused(checked) : nx_allocate(ctx, request, 0, result_out);
}

/* ---- Release ------------------------------------------------------------------------------------------------------- */

/* `out` is written where the block was found. BUSY while its release is queued or the device is captured. */
static uint32_t release(nx_engine *engine, const NxmemAllocation *allocation, nx_undone *out) {
  nx_block *block = NULL;
  *out = (nx_undone){0};
  pthread_mutex_lock(&engine->lock);
  uint32_t status = nx_find_live_locked(engine, allocation, &block);
  if (status == NXMEM_STATUS_OK) {
    nx_block_release_locked(engine, block, out);
    status = out->status;
  }
  pthread_mutex_unlock(&engine->lock);
  return status;
}

NxmemStatus nx_slot_deallocate(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped_bytes_out) {
  nx_undone undone;
  nx_said checked = nx_check_call(ctx, allocation, unmapped_bytes_out);
  if (nx_failed(checked)) return nx_refused(checked);
  checked = nx_check_allocation(ctx, allocation);
  if (nx_failed(checked)) return nx_refused(checked);
  const uint32_t status = release(ctx, allocation, &undone);
  if (status == NXMEM_STATUS_OK || status == NXMEM_STATUS_RELEASE_QUARANTINED) *unmapped_bytes_out = undone.unmapped;
  return nx_told_loss(ctx, status, "deallocate", &undone.loss);
}

NxmemStatus nx_slot_release_allocation(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *outcome_out) {
  nx_undone undone;
  nx_said checked = nx_check_call(ctx, allocation, outcome_out);
  if (nx_failed(checked)) return nx_refused(checked);
  if (outcome_out->struct_size < NX_OUTCOME_BYTES)
    return nx_status(NXMEM_STATUS_SHORT_STRUCT, "release: room for the outcome below 296 bytes");
  checked = nx_check_allocation(ctx, allocation);
  if (nx_failed(checked)) return nx_refused(checked);
  const uint64_t bytes = allocation->bytes;
  const uint32_t status = release(ctx, allocation, &undone);
  if (status == NXMEM_STATUS_OK || status == NXMEM_STATUS_RELEASE_QUARANTINED) {
    NxmemReleaseOutcome outcome;
    nx_outcome_fill(&outcome, bytes, &undone);
    memcpy(outcome_out, &outcome, NX_OUTCOME_BYTES);
  }
  return nx_told_loss(ctx, status, "release", &undone.loss);
}

/* ---- References ---------------------------------------------------------------------------------------------------- */

void nx_slot_retain(void *ctx) {
  nx_engine *engine = ctx;
  if (engine != NULL && !nx_is_forked()) atomic_fetch_add(&engine->references, 1u);
}

void nx_slot_release(void *ctx) {
  nx_engine *engine = ctx;
  if (engine == NULL || nx_is_forked() || atomic_fetch_sub(&engine->references, 1u) != 1u) return;
  nx_engine_release(engine);
}
