/*
 * backing.c: the slots of virtual backing that change something: allocate_committed, commit, decommit.
 *
 * Attackers: ranges that wrap or leave their block; a block that another thread releases.
 * Promise: a refusal changes nothing but what its message says could not be undone.
 */
#include "nxmem/backing.h"

#include "nxmem/status.h"
#include "records.h"
#include "slots.h"

nx_said nx_check_ranges(const NxmemAllocRequest *request) {
  const uint64_t count = request->committed_range_count;
  const nxmem_verdict listed = nxmem_check_range_list((uintptr_t)request->committed_ranges, count);
  if (listed.reason != NXMEM_REASON_NONE || (count != 0u && nx_unusable(request->committed_ranges)))
    return nx_say(NXMEM_STATUS_INVALID_ARGUMENT, "ranges: NULL, misaligned, or more than 1024");
  for (uint64_t i = 0u; i < count; i++) {
    const NxmemByteRange range = request->committed_ranges[i];
    if (nxmem_check_commit_range(range.offset, range.bytes, request->bytes).reason != NXMEM_REASON_NONE)
      return nx_say(NXMEM_STATUS_INVALID_ARGUMENT, "a range is empty or leaves the block");
  }
  return nx_fine();
}

nx_said nx_check_range_request(const nx_engine *engine, const NxmemRangeRequest *request) {
  if (request->struct_size < NX_RANGE_REQUEST_BYTES)
    return nx_say(NXMEM_STATUS_SHORT_STRUCT, "range request shorter than 80 bytes");
  const nx_said owner = nx_check_allocation(engine, &request->allocation);
  if (nx_failed(owner)) return owner;
  const nxmem_verdict inside =
      nxmem_check_commit_range(request->range.offset, request->range.bytes, request->allocation.bytes);
  return inside.reason == NXMEM_REASON_NONE
             ? nx_fine()
             : nx_say(NXMEM_STATUS_INVALID_ARGUMENT, "a range is empty or leaves the block");
}

/* What was judged is what is used, whatever the host does with its records while it is asked to reclaim. */
static nx_said take_request(const nx_engine *engine, const NxmemAllocRequest *request, NxmemAllocRequest *taken,
                            NxmemByteRange ranges[NXMEM_RANGES_MAX]) {
  nx_said checked = nx_check_alloc_request(engine, request);
  if (nx_failed(checked)) return checked;
  checked = nx_check_ranges(request);
  if (nx_failed(checked)) return checked;
  *taken = *request;
  taken->committed_ranges = ranges;
  for (uint64_t i = 0u; i < taken->committed_range_count; i++) ranges[i] = request->committed_ranges[i];
  return nx_fine();
}

static NxmemStatus allocate_committed(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  NxmemAllocRequest taken;
  NxmemByteRange ranges[NXMEM_RANGES_MAX];
  nx_said checked = nx_check_call(ctx, request, result_out);
  if (nx_failed(checked)) return nx_refused(checked);
  if (result_out->struct_size < NX_ALLOC_RESULT_BYTES)
    return nx_status(NXMEM_STATUS_SHORT_STRUCT, "allocate: room for the result below 32 bytes");
  checked = take_request(ctx, request, &taken, ranges);
  return nx_failed(checked) ? nx_refused(checked) : nx_allocate(ctx, &taken, 1, result_out);
}

/* ---- Commit -------------------------------------------------------------------------------------------------------- */

/* The range was judged before: what else is refused as an argument is a shared prefix in it. */
static const char *why(uint32_t status, const char *verb, const char *across) {
  return status == NXMEM_STATUS_INVALID_ARGUMENT ? across : verb;
}

static const char *why_commit(uint32_t status) {
  return why(status, "commit", "commit: a shared prefix is mapped in the range");
}

static uint32_t commit_once(nx_engine *engine, const NxmemRangeRequest *request, nx_loss *loss) {
  nx_block *block = NULL;
  *loss = (nx_loss){0u, 0u};
  pthread_mutex_lock(&engine->lock);
  uint32_t status = nx_find_live_locked(engine, &request->allocation, &block);
  if (status == NXMEM_STATUS_OK && (nx_device_is_lost(&engine->device) || engine->device.shut_down))
    status = NXMEM_STATUS_DEVICE_ERROR;
  if (status == NXMEM_STATUS_OK) status = nx_block_commit_locked(engine, block, request->range, loss);
  pthread_mutex_unlock(&engine->lock);
  return status;
}

/* What stayed mapped of the block is poisoned: a second attempt could only fail. The host runs in between: it may give up the allocator there. */
static NxmemStatus commit_again(nx_engine *engine, const NxmemRangeRequest *request) {
  nx_loss loss;
  nx_slot_retain(engine);
  nx_relieve(engine, request->range.bytes);
  const uint32_t status = commit_once(engine, request, &loss);
  const NxmemStatus said = nx_told_need(engine, status, why_commit(status), request->range.bytes, &loss);
  nx_slot_release(engine);
  return said;
}

static NxmemStatus commit_range(void *ctx, const NxmemRangeRequest *request) {
  nx_loss loss;
  nx_said checked = nx_check_call(ctx, request, request);
  if (nx_failed(checked)) return nx_refused(checked);
  checked = nx_check_range_request(ctx, request);
  if (nx_failed(checked)) return nx_refused(checked);
  const NxmemRangeRequest taken = *request;
  const uint32_t status = commit_once(ctx, &taken, &loss);
  if (status == NXMEM_STATUS_OUT_OF_MEMORY && loss.granules == 0u) return commit_again(ctx, &taken);
  return nx_told_need(ctx, status, why_commit(status), taken.range.bytes, &loss);
}

static NxmemStatus decommit_range(void *ctx, const NxmemRangeRequest *request, uint64_t *unmapped_out) {
  nx_engine *engine = ctx;
  nx_block *block = NULL;
  nx_undone undone = {0};
  nx_said checked = nx_check_call(ctx, request, unmapped_out);
  if (nx_failed(checked)) return nx_refused(checked);
  checked = nx_check_range_request(ctx, request);
  if (nx_failed(checked)) return nx_refused(checked);
  pthread_mutex_lock(&engine->lock);
  uint32_t status = nx_find_live_locked(engine, &request->allocation, &block);
  if (status == NXMEM_STATUS_OK) status = nx_block_decommit_locked(engine, block, request->range, &undone);
  pthread_mutex_unlock(&engine->lock);
  if (status == NXMEM_STATUS_OK || status == NXMEM_STATUS_RELEASE_QUARANTINED) *unmapped_out = undone.unmapped;
  return nx_told_loss(engine, status, why(status, "decommit", "decommit: a shared prefix is mapped in the range"),
                      &undone.loss);
}

void nx_backing_fill(nx_engine *engine, NxmemVirtualBackingVtable *table) {
  *table = (NxmemVirtualBackingVtable){.struct_size = 72u,
                                       .abi_minor = 1u,
                                       .mechanism_id = engine->offer->mechanism_id,
                                       .ctx = engine,
                                       .allocate_committed = allocate_committed,
                                       .commit_range = commit_range,
                                       .decommit_range = decommit_range,
                                       .mapped_bytes_for_ranges = nx_slot_mapped_for_ranges,
                                       .mapped_bytes_for_allocation = nx_slot_mapped_for_allocation,
                                       .committed_bytes = nx_slot_committed_bytes};
}
