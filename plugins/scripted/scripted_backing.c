/*
 * scripted_backing.c: the honest virtual backing table: reserve, commit, decommit, and what either would cost.
 *
 * Attackers: none by intent; a host with short, NULL, stale or foreign arguments is answered as the contract says.
 * Promise: a failed call has mapped nothing; a range is mapped in whole granules and never over what is mapped already.
 */
#include "nxmem/range.h"
#include "scripted_lazy.h"
#include "scripted_open.h"
#include "scripted_span.h"

enum { RANGE_REQUEST_BYTES = 80 };

static NxmemStatus invalid(const char *text) { return nx_status(NXMEM_STATUS_INVALID_ARGUMENT, text); }

/* ---- Ranges ----------------------------------------------------------------------------------------------------- */

static NxmemStatus check_range(NxmemByteRange range, uint64_t size) {
  if (range.bytes == 0u) return invalid("range of zero bytes");
  const nxmem_verdict inside = nxmem_check_range(range.offset, range.bytes, size);
  return inside.reason == NXMEM_REASON_NONE ? nx_ok() : invalid("range leaves the allocation");
}

static NxmemStatus check_ranges(const NxmemAllocRequest *request) {
  if (request->committed_range_count != 0u && nx_unusable(request->committed_ranges))
    return invalid("ranges: NULL or misaligned");
  for (uint64_t i = 0u; i < request->committed_range_count; i++) {
    const NxmemStatus checked = check_range(request->committed_ranges[i], request->bytes);
    if (checked.code != NXMEM_STATUS_OK) return checked;
  }
  return nx_ok();
}

static NxmemStatus check_range_request(nx_allocator *allocator, const NxmemRangeRequest *request) {
  if (nx_is_released(allocator)) return invalid("range: the allocator was released");
  if (request->struct_size < RANGE_REQUEST_BYTES) return nx_status(NXMEM_STATUS_SHORT_STRUCT, "range request");
  const NxmemStatus owned = nx_check_allocation(allocator, &request->allocation);
  return owned.code == NXMEM_STATUS_OK ? check_range(request->range, request->allocation.bytes) : owned;
}

/* ---- Allocate --------------------------------------------------------------------------------------------------- */

static int commit_ranges(nx_span *span, const NxmemAllocRequest *request) {
  for (uint64_t i = 0u; i < request->committed_range_count; i++) {
    const NxmemByteRange range = request->committed_ranges[i];
    if (!nx_span_commit(span, range.offset, range.bytes, NULL)) return 0;
  }
  return 1;
}

NxmemStatus nx_allocate_span(nx_allocator *allocator, const NxmemAllocRequest *request, int everything,
                             NxmemAllocResult *result_out) {
  uint32_t code = NXMEM_STATUS_OUT_OF_MEMORY;
  nx_span *span = nx_span_open(request->bytes, request->align);
  if (span == NULL) return nx_status(code, "allocate: no address range");
  const int mapped = everything ? nx_span_commit(span, 0u, request->bytes, NULL) : commit_ranges(span, request);
  const uint64_t owned = nx_span_owned(span); /* once recorded, another thread may release it */
  uint8_t *base = nx_span_base(span);
  if (mapped && nx_block_of_span(allocator, request, span, &code) != NULL) {
    nx_write_result(result_out, base, owned, owned);
    return nx_ok();
  }
  nx_span_close(span);
  return nx_status(code, "allocate: no memory, or the id is live already");
}

NxmemStatus nx_allocate_committed(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  nx_count(NX_PROBE_ALLOCATE_COMMITTED_CALLS);
  if (ctx == NULL || nx_unusable(request) || nx_unusable(result_out)) return invalid("NULL or misaligned argument");
  const NxmemStatus room = nx_check_result_room(result_out);
  if (room.code != NXMEM_STATUS_OK) return room;
  const NxmemStatus checked = nx_check_request(ctx, request);
  if (checked.code != NXMEM_STATUS_OK) return checked;
  const NxmemStatus ranges = check_ranges(request);
  return ranges.code == NXMEM_STATUS_OK ? nx_allocate_span(ctx, request, 0, result_out) : ranges;
}

/* ---- Commit and decommit ---------------------------------------------------------------------------------------- */

NxmemStatus nx_commit_range(void *ctx, const NxmemRangeRequest *request) {
  nx_count(NX_PROBE_COMMIT_CALLS);
  if (ctx == NULL || nx_unusable(request)) return invalid("commit: NULL or misaligned argument");
  const NxmemStatus checked = check_range_request(ctx, request);
  if (checked.code != NXMEM_STATUS_OK) return checked;
  uint32_t code = NXMEM_STATUS_OK;
  nx_block *block = nx_block_lock(ctx, &request->allocation, &code);
  if (block == NULL) return nx_status(code, "commit: not what was allocated");
  const int mapped = nx_span_commit(block->span, request->range.offset, request->range.bytes, NULL);
  nx_block_unlock();
  return mapped ? nx_ok() : nx_status(NXMEM_STATUS_OUT_OF_MEMORY, "commit: no memory");
}

NxmemStatus nx_decommit_range(void *ctx, const NxmemRangeRequest *request, uint64_t *unmapped_out) {
  nx_count(NX_PROBE_DECOMMIT_CALLS);
  if (ctx == NULL || nx_unusable(request) || nx_unusable(unmapped_out)) return invalid("NULL or misaligned argument");
  const NxmemStatus checked = check_range_request(ctx, request);
  if (checked.code != NXMEM_STATUS_OK) return checked;
  uint32_t code = NXMEM_STATUS_OK;
  nx_block *block = nx_block_lock(ctx, &request->allocation, &code);
  if (block == NULL) return nx_status(code, "decommit: not what was allocated");
  *unmapped_out = nx_span_decommit(block->span, request->range.offset, request->range.bytes, block->bytes);
  nx_block_unlock();
  return nx_ok();
}

/* ---- What it would cost, what there is -------------------------------------------------------------------------- */

static int same_allocation(const NxmemRangeRequest *a, const NxmemRangeRequest *b) {
  return a->allocation.allocation_id == b->allocation.allocation_id;
}

/*
 * Bytes that committing request `at` would map behind the requests in front of it: a granule that one of those touches
 * is not counted again. 0 with *code_out where the allocation is not there.
 */
static uint64_t missing_in(nx_allocator *allocator, const NxmemRangeRequest *requests, uint64_t at,
                           uint32_t *code_out) {
  uint64_t missing = 0u;
  nx_block *block = nx_block_lock(allocator, &requests[at].allocation, code_out);
  if (block == NULL) return 0u;
  *code_out = NXMEM_STATUS_OK;
  for (uint64_t i = 0u; i <= at; i++) {
    if (!same_allocation(&requests[i], &requests[at])) continue;
    missing = nx_span_mark_missing(block->span, requests[i].range.offset, requests[i].range.bytes);
  }
  for (uint64_t i = 0u; i <= at; i++)
    if (same_allocation(&requests[i], &requests[at]))
      nx_span_unmark(block->span, requests[i].range.offset, requests[i].range.bytes);
  nx_block_unlock();
  return missing * NX_GRANULE;
}

NxmemStatus nx_mapped_for_ranges(void *ctx, const NxmemRangeRequest *requests, uint64_t count, uint64_t *mapped_out) {
  nx_count(NX_PROBE_MAPPED_FOR_RANGES_CALLS);
  if (ctx == NULL || nx_unusable(requests) || nx_unusable(mapped_out)) return invalid("NULL or misaligned argument");
  if (count == 0u) return invalid("no ranges");
  for (uint64_t i = 0u; i < count; i++) {
    const NxmemStatus checked = check_range_request(ctx, &requests[i]);
    if (checked.code != NXMEM_STATUS_OK) return checked;
  }
  uint64_t mapped = 0u;
  for (uint64_t i = 0u; i < count; i++) {
    uint32_t code = NXMEM_STATUS_OK;
    mapped += missing_in(ctx, requests, i, &code);
    if (code != NXMEM_STATUS_OK) return nx_status(code, "ranges: not what was allocated");
  }
  *mapped_out = mapped;
  return nx_ok();
}

/* Nothing is reserved for the answer: the granules that the ranges touch are ticked off in a list of their own. */
NxmemStatus nx_mapped_for_allocation(void *ctx, const NxmemAllocRequest *request, uint64_t *mapped_out) {
  nx_count(NX_PROBE_MAPPED_FOR_ALLOCATION_CALLS);
  if (ctx == NULL || nx_unusable(request) || nx_unusable(mapped_out)) return invalid("NULL or misaligned argument");
  const NxmemStatus checked = nx_check_request(ctx, request);
  if (checked.code != NXMEM_STATUS_OK) return checked;
  const NxmemStatus ranges = check_ranges(request);
  if (ranges.code != NXMEM_STATUS_OK) return ranges;
  nx_span *imagined = nx_span_open(request->bytes, request->align);
  if (imagined == NULL) return nx_status(NXMEM_STATUS_OUT_OF_MEMORY, "no address range of that size");
  uint64_t granules = 0u;
  for (uint64_t i = 0u; i < request->committed_range_count; i++)
    granules += nx_span_mark_missing(imagined, request->committed_ranges[i].offset, request->committed_ranges[i].bytes);
  nx_span_close(imagined);
  *mapped_out = granules * NX_GRANULE;
  return nx_ok();
}

NxmemStatus nx_committed_bytes(void *ctx, const NxmemAllocation *allocation, uint64_t *committed_out) {
  nx_count(NX_PROBE_COMMITTED_CALLS);
  if (ctx == NULL || nx_unusable(allocation) || nx_unusable(committed_out))
    return invalid("NULL or misaligned argument");
  const NxmemStatus checked = nx_check_allocation(ctx, allocation);
  if (checked.code != NXMEM_STATUS_OK) return checked;
  uint32_t code = NXMEM_STATUS_OK;
  nx_block *block = nx_block_lock(ctx, allocation, &code);
  if (block == NULL) return nx_status(code, "committed: not what was allocated");
  *committed_out = nx_span_mapped(block->span);
  nx_block_unlock();
  return nx_ok();
}

/* ---- The tables ------------------------------------------------------------------------------------------------- */

const NxmemVirtualBackingVtable *nx_publish_backing(nx_allocator *allocator) {
  const nx_mechanism *row = allocator->row;
  const uint32_t bytes = row->backing_bytes == 0u ? NX_BACKING_BYTES : row->backing_bytes;
  NxmemVirtualBackingVtable table = {.struct_size = NX_BACKING_BYTES,
                                     .abi_minor = row->abi_minor,
                                     .mechanism_id = allocator->mechanism_id,
                                     .ctx = allocator,
                                     .allocate_committed = nx_allocate_committed,
                                     .commit_range = nx_commit_range,
                                     .decommit_range = nx_decommit_range,
                                     .mapped_bytes_for_ranges = nx_mapped_for_ranges,
                                     .mapped_bytes_for_allocation = nx_mapped_for_allocation,
                                     .committed_bytes = nx_committed_bytes};
  if (row->spoil_backing != NULL) row->spoil_backing(&table);
  allocator->backing = nx_place_table(row->place, bytes, &table, NX_BACKING_BYTES);
  return (const NxmemVirtualBackingVtable *)allocator->backing.bytes;
}

const NxmemSharedMappingVtable *nx_publish_sharing(nx_allocator *allocator) {
  const nx_mechanism *row = allocator->row;
  const uint32_t bytes = row->sharing_bytes == 0u ? NX_SHARING_BYTES : row->sharing_bytes;
  NxmemSharedMappingVtable table = {.struct_size = NX_SHARING_BYTES,
                                    .abi_minor = row->abi_minor,
                                    .mechanism_id = allocator->mechanism_id,
                                    .ctx = allocator,
                                    .create_shared_prefix = nx_create_prefix,
                                    .retain_shared_prefix = nx_retain_prefix,
                                    .release_shared_prefix = nx_release_prefix,
                                    .incremental_owned_bytes = nx_incremental_bytes,
                                    .commit_shared_prefix = nx_commit_prefix};
  if (row->spoil_sharing != NULL) row->spoil_sharing(&table);
  allocator->sharing = nx_place_table(row->place, bytes, &table, NX_SHARING_BYTES);
  return (const NxmemSharedMappingVtable *)allocator->sharing.bytes;
}
