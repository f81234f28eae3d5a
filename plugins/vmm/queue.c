/*
 * queue.c: the slots of deferred release.
 *
 * Attackers: a host that drains from many threads, and from inside its own callback.
 * Promise: a refusal changes nothing; no lock is held while the host runs.
 */
#include "nxmem/status.h"
#include "records.h"
#include "slots.h"

/* A block whose release is queued already is on its way out: to queue it again names what is not there. */
static uint32_t enqueue(nx_engine *engine, const NxmemAllocation *allocation, uint64_t *ticket_out) {
  nx_block *block = NULL;
  pthread_mutex_lock(&engine->lock);
  uint32_t status = nx_find_block_locked(engine, allocation, &block);
  if (status == NXMEM_STATUS_OK && block->state == NX_BLOCK_QUEUED) status = NXMEM_STATUS_UNKNOWN_ALLOCATION;
  if (status == NXMEM_STATUS_OK) status = nx_enqueue_locked(engine, block, ticket_out);
  pthread_mutex_unlock(&engine->lock);
  return status;
}

NxmemStatus nx_slot_enqueue_release(void *ctx, const NxmemAllocation *allocation, uint64_t *ticket_out) {
  nx_engine *engine = ctx;
  uint64_t ticket = 0u;
  nx_said checked = nx_check_call(ctx, allocation, ticket_out);
  if (nx_failed(checked)) return nx_refused(checked);
  checked = nx_check_allocation(engine, allocation);
  if (nx_failed(checked)) return nx_refused(checked);
  /* Queued without anybody to tell, a release could never end. */
  if (engine->callbacks == NULL || engine->callbacks->release_completed == NULL)
    return nx_status(NXMEM_STATUS_UNSUPPORTED_CAPABILITY, "enqueue: opened without release_completed");
  const uint32_t status = enqueue(engine, allocation, &ticket);
  if (status == NXMEM_STATUS_OK) *ticket_out = ticket;
  return nx_told(engine, status, "enqueue");
}

NxmemStatus nx_slot_drain_releases(void *ctx, uint64_t max, uint64_t *retired_out) {
  uint64_t retired = 0u;
  const nx_said checked = nx_check_call(ctx, retired_out, retired_out);
  if (nx_failed(checked)) return nx_refused(checked);
  /* A completion may be where the host gives up the allocator. */
  nx_slot_retain(ctx);
  const uint32_t status = nx_drain(ctx, max, &retired);
  const NxmemStatus said = nx_told(ctx, status, "drain");
  nx_slot_release(ctx);
  if (status == NXMEM_STATUS_OK) *retired_out = retired;
  return said;
}

NxmemStatus nx_slot_pending_release_count(void *ctx, uint64_t *count_out) {
  nx_engine *engine = ctx;
  const nx_said checked = nx_check_call(ctx, count_out, count_out);
  if (nx_failed(checked)) return nx_refused(checked);
  pthread_mutex_lock(&engine->lock);
  const uint64_t count = engine->queued;
  pthread_mutex_unlock(&engine->lock);
  *count_out = count;
  return nx_ok();
}
