/*
 * sharing.c: the slots of shared mapping.
 *
 * Attackers: handles that are stale, foreign or made up; another copy of this module whose numbers are the same.
 * Promise: a prefix is found only by its allocator, number and address; a refusal changes nothing.
 */
#include "records.h"
#include "slots.h"

static nx_said check_handle(const nx_engine *engine, const NxmemSharedPrefixHandle *handle) {
  if (handle->struct_size < NX_HANDLE_BYTES)
    return nx_say(NXMEM_STATUS_SHORT_STRUCT, "prefix handle shorter than 64 bytes");
  return nx_check_owner(engine, handle->mechanism_id, handle->device);
}

static nx_prefix *find_locked(const nx_engine *engine, const NxmemSharedPrefixHandle *handle) {
  return nx_prefix_find_locked(engine, handle->handle, handle->device_ptr);
}

/* ---- Create -------------------------------------------------------------------------------------------------------- */

static void describe(const nx_engine *engine, const nx_prefix *prefix, NxmemSharedPrefixHandle *handle) {
  const uint64_t physical = nx_granule_bytes(engine, prefix->owner.count);
  *handle = (NxmemSharedPrefixHandle){.struct_size = NX_HANDLE_BYTES,
                                      .mechanism_id = engine->offer->mechanism_id,
                                      .handle = prefix->number,
                                      .device = {engine->offer->tier, engine->offer->index},
                                      .device_ptr = prefix->first,
                                      .committed_physical_bytes = physical,
                                      .mapped_bytes = physical,
                                      .requested_bytes = prefix->bytes};
}

static uint32_t create_once(nx_engine *engine, uint64_t bytes, NxmemSharedPrefixHandle *handle, nx_loss *loss) {
  nx_prefix *prefix = NULL;
  pthread_mutex_lock(&engine->lock);
  const uint32_t status = nx_prefix_make_locked(engine, bytes, &prefix, loss);
  if (status == NXMEM_STATUS_OK) describe(engine, prefix, handle);
  pthread_mutex_unlock(&engine->lock);
  return status;
}

/* The host runs in between: it may give up the allocator there. */
static NxmemStatus create_again(nx_engine *engine, uint64_t bytes, NxmemSharedPrefixHandle *handle_out) {
  NxmemSharedPrefixHandle handle;
  nx_loss loss;
  nx_slot_retain(engine);
  nx_relieve(engine, bytes);
  const uint32_t status = create_once(engine, bytes, &handle, &loss);
  const NxmemStatus said = nx_told_need(engine, status, "prefix", bytes, &loss);
  if (status == NXMEM_STATUS_OK) *handle_out = handle;
  nx_slot_release(engine);
  return said;
}

static NxmemStatus create(void *ctx, uint64_t mechanism_id, uint64_t bytes, NxmemSharedPrefixHandle *handle_out) {
  nx_engine *engine = ctx;
  NxmemSharedPrefixHandle handle;
  nx_loss loss;
  nx_said checked = nx_check_call(ctx, handle_out, handle_out);
  if (nx_failed(checked)) return nx_refused(checked);
  if (handle_out->struct_size < NX_HANDLE_BYTES)
    return nx_status(NXMEM_STATUS_SHORT_STRUCT, "prefix: room for the handle below 64 bytes");
  checked = nx_check_owner(engine, mechanism_id, (NxmemDeviceId){engine->offer->tier, engine->offer->index});
  if (nx_failed(checked)) return nx_refused(checked);
  const uint32_t status = create_once(engine, bytes, &handle, &loss);
  if (status == NXMEM_STATUS_OUT_OF_MEMORY && loss.bytes == 0u) return create_again(engine, bytes, handle_out);
  if (status == NXMEM_STATUS_OK) *handle_out = handle;
  return nx_told_need(engine, status, "prefix", bytes, &loss);
}

/* ---- References ---------------------------------------------------------------------------------------------------- */

static NxmemStatus retain(void *ctx, const NxmemSharedPrefixHandle *handle) {
  nx_engine *engine = ctx;
  nx_said checked = nx_check_call(ctx, handle, handle);
  if (nx_failed(checked)) return nx_refused(checked);
  checked = check_handle(engine, handle);
  if (nx_failed(checked)) return nx_refused(checked);
  pthread_mutex_lock(&engine->lock);
  nx_prefix *prefix = find_locked(engine, handle);
  const uint32_t status = prefix == NULL ? (uint32_t)NXMEM_STATUS_UNKNOWN_ALLOCATION
                                         : nx_granule_status(nxmem_prefix_use_retain(&prefix->use).reason);
  pthread_mutex_unlock(&engine->lock);
  return nx_told(engine, status, "prefix: unknown or released");
}

static NxmemStatus release(void *ctx, const NxmemSharedPrefixHandle *handle) {
  nx_engine *engine = ctx;
  nx_undone undone = {.status = NXMEM_STATUS_UNKNOWN_ALLOCATION};
  nx_said checked = nx_check_call(ctx, handle, handle);
  if (nx_failed(checked)) return nx_refused(checked);
  checked = check_handle(engine, handle);
  if (nx_failed(checked)) return nx_refused(checked);
  pthread_mutex_lock(&engine->lock);
  nx_prefix *prefix = find_locked(engine, handle);
  if (prefix != NULL) nx_prefix_release_locked(engine, prefix, &undone);
  pthread_mutex_unlock(&engine->lock);
  return nx_told_loss(engine, undone.status, "prefix release", &undone.loss);
}

static NxmemStatus incremental(void *ctx, const NxmemSharedPrefixHandle *handle, uint64_t *bytes_out) {
  nx_engine *engine = ctx;
  uint64_t bytes = 0u;
  nx_said checked = nx_check_call(ctx, handle, bytes_out);
  if (nx_failed(checked)) return nx_refused(checked);
  checked = check_handle(engine, handle);
  if (nx_failed(checked)) return nx_refused(checked);
  pthread_mutex_lock(&engine->lock);
  const nx_prefix *prefix = find_locked(engine, handle);
  if (prefix != NULL && !prefix->charged) bytes = nx_granule_bytes(engine, prefix->owner.count);
  pthread_mutex_unlock(&engine->lock);
  if (prefix == NULL) return nx_status(NXMEM_STATUS_UNKNOWN_ALLOCATION, "prefix: unknown or released");
  *bytes_out = bytes;
  return nx_ok();
}

/* ---- Commit -------------------------------------------------------------------------------------------------------- */

static uint32_t commit_found(nx_engine *engine, const NxmemSharedPrefixCommitRequest *request, nx_prefix *prefix,
                             NxmemSharedPrefixCommitInfo *info, nx_loss *loss) {
  nx_block *block = NULL;
  uint64_t mapped = 0u;
  uint32_t status = nx_find_live_locked(engine, &request->allocation, &block);
  if (status == NXMEM_STATUS_OK)
    status = nx_prefix_commit_locked(engine, prefix, block, request->byte_offset, &mapped, loss);
  if (status != NXMEM_STATUS_OK) return status;
  *info = (NxmemSharedPrefixCommitInfo){NX_COMMIT_INFO_BYTES, 0u, prefix->charged ? 0u : mapped, mapped,
                                        prefix->owner.count};
  prefix->charged = 1;
  return status;
}

static uint32_t commit_once(nx_engine *engine, const NxmemSharedPrefixCommitRequest *request,
                            NxmemSharedPrefixCommitInfo *info, nx_loss *loss) {
  *loss = (nx_loss){0u, 0u};
  pthread_mutex_lock(&engine->lock);
  nx_prefix *prefix = find_locked(engine, &request->prefix);
  const uint32_t status =
      prefix == NULL ? (uint32_t)NXMEM_STATUS_UNKNOWN_ALLOCATION : commit_found(engine, request, prefix, info, loss);
  pthread_mutex_unlock(&engine->lock);
  return status;
}

static nx_said check_commit(const nx_engine *engine, const NxmemSharedPrefixCommitRequest *request) {
  if (request->struct_size < NX_COMMIT_REQUEST_BYTES)
    return nx_say(NXMEM_STATUS_SHORT_STRUCT, "prefix commit request shorter than 136 bytes");
  const nx_said handle = check_handle(engine, &request->prefix);
  return nx_failed(handle) ? handle : nx_check_allocation(engine, &request->allocation);
}

static NxmemStatus commit(void *ctx, const NxmemSharedPrefixCommitRequest *request,
                          NxmemSharedPrefixCommitInfo *info_out) {
  nx_engine *engine = ctx;
  NxmemSharedPrefixCommitInfo info;
  nx_loss loss;
  nx_said checked = nx_check_call(ctx, request, info_out);
  if (nx_failed(checked)) return nx_refused(checked);
  if (info_out->struct_size < NX_COMMIT_INFO_BYTES)
    return nx_status(NXMEM_STATUS_SHORT_STRUCT, "prefix: room for the commit info below 32 bytes");
  checked = check_commit(engine, request);
  if (nx_failed(checked)) return nx_refused(checked);
  const uint32_t status = commit_once(engine, request, &info, &loss);
  if (status == NXMEM_STATUS_OK) *info_out = info;
  return nx_told_loss(engine, status,
                      status == NXMEM_STATUS_INVALID_ARGUMENT
                          ? "prefix commit: it leaves the block, begins inside a granule, or something is mapped there"
                          : "prefix commit",
                      &loss);
}

void nx_sharing_fill(nx_engine *engine, NxmemSharedMappingVtable *table) {
  *table = (NxmemSharedMappingVtable){.struct_size = 64u,
                                      .abi_minor = 1u,
                                      .mechanism_id = engine->offer->mechanism_id,
                                      .ctx = engine,
                                      .create_shared_prefix = create,
                                      .retain_shared_prefix = retain,
                                      .release_shared_prefix = release,
                                      .incremental_owned_bytes = incremental,
                                      .commit_shared_prefix = commit};
}
