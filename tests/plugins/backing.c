/*
 * backing.c: steps of virtual backing and shared mapping that must succeed, without a host.
 *
 * Attackers played: none.
 * Promise: every helper asserts that it succeeded; what a call leaves unwritten shows.
 */
#include "backing.h"

#include <string.h>

enum { G = GRANULE };

NxmemAllocation reserve(const NxmemAllocatorVtable *table, uint64_t id, uint64_t bytes, const NxmemByteRange *ranges,
                        uint64_t count, uint64_t mapped) {
  NxmemAllocRequest request = alloc_request(table, id, bytes, 64u);
  NxmemAllocResult result = alloc_result();
  request.committed_ranges = ranges;
  request.committed_range_count = count;
  uint64_t foretold = UINT64_MAX;
  assert_status(table->virtual_backing->mapped_bytes_for_allocation(table->virtual_backing->ctx, &request, &foretold),
                NXMEM_STATUS_OK);
  assert_int_equal(foretold, mapped);
  assert_status(table->virtual_backing->allocate_committed(table->virtual_backing->ctx, &request, &result),
                NXMEM_STATUS_OK);
  assert_non_null(result.ptr);
  assert_int_equal(result.owned_bytes, mapped);
  assert_int_equal(result.mapped_bytes, mapped);
  return allocation_of(&request, &result);
}

NxmemRangeRequest range_of(const NxmemAllocation *allocation, uint64_t offset, uint64_t bytes) {
  return (NxmemRangeRequest){sizeof(NxmemRangeRequest), 0u, *allocation, {offset, bytes}};
}

uint64_t missing(const NxmemAllocatorVtable *table, const NxmemAllocation *allocation, uint64_t offset,
                 uint64_t bytes) {
  const NxmemRangeRequest request = range_of(allocation, offset, bytes);
  uint64_t mapped = UINT64_MAX;
  assert_status(table->virtual_backing->mapped_bytes_for_ranges(table->virtual_backing->ctx, &request, 1u, &mapped),
                NXMEM_STATUS_OK);
  return mapped;
}

uint64_t committed(const NxmemAllocatorVtable *table, const NxmemAllocation *allocation) {
  uint64_t bytes = UINT64_MAX;
  assert_status(table->virtual_backing->committed_bytes(table->virtual_backing->ctx, allocation, &bytes),
                NXMEM_STATUS_OK);
  return bytes;
}

void commit(const NxmemAllocatorVtable *table, const NxmemAllocation *allocation, uint64_t offset, uint64_t bytes) {
  const NxmemRangeRequest request = range_of(allocation, offset, bytes);
  assert_status(table->virtual_backing->commit_range(table->virtual_backing->ctx, &request), NXMEM_STATUS_OK);
}

uint64_t decommit(const NxmemAllocatorVtable *table, const NxmemAllocation *allocation, uint64_t offset,
                  uint64_t bytes) {
  const NxmemRangeRequest request = range_of(allocation, offset, bytes);
  uint64_t unmapped = UINT64_MAX;
  assert_status(table->virtual_backing->decommit_range(table->virtual_backing->ctx, &request, &unmapped),
                NXMEM_STATUS_OK);
  return unmapped;
}

/* Which granules can be read, as a word of bits. */
uint32_t accessible(const NxmemAllocation *allocation) {
  uint32_t bits = 0u;
  for (uint32_t i = 0u; i * (uint64_t)G < allocation->bytes; i++)
    bits |= (uint32_t)(readable(allocation->ptr + i * (uint64_t)G, 1u) == 1u) << i;
  return bits;
}

NxmemSharedPrefixHandle unwritten_handle(void) {
  NxmemSharedPrefixHandle handle;
  memset(&handle, 0xFF, sizeof handle);
  handle.struct_size = sizeof handle;
  return handle;
}

NxmemSharedPrefixHandle make_prefix(const NxmemAllocatorVtable *table, uint64_t bytes) {
  NxmemSharedPrefixHandle handle = unwritten_handle();
  const uint64_t rounded = (bytes + G - 1u) / G * G;
  assert_status(
      table->shared_mapping->create_shared_prefix(table->shared_mapping->ctx, table->mechanism_id, bytes, &handle),
      NXMEM_STATUS_OK);
  assert_int_equal(handle.struct_size, 64u);
  assert_int_equal(handle.mechanism_id, table->mechanism_id);
  assert_int_not_equal(handle.handle, 0u);
  assert_int_equal(handle.device.tier, NXMEM_TIER_HOST);
  assert_int_equal(handle.requested_bytes, bytes);
  assert_int_equal(handle.committed_physical_bytes, rounded);
  assert_int_equal(handle.mapped_bytes, rounded);
  return handle;
}

uint64_t increment(const NxmemAllocatorVtable *table, const NxmemSharedPrefixHandle *handle) {
  uint64_t bytes = UINT64_MAX;
  assert_status(table->shared_mapping->incremental_owned_bytes(table->shared_mapping->ctx, handle, &bytes),
                NXMEM_STATUS_OK);
  return bytes;
}

NxmemStatus share(const NxmemAllocatorVtable *table, const NxmemSharedPrefixHandle *handle,
                  const NxmemAllocation *allocation, uint64_t offset, NxmemSharedPrefixCommitInfo *info) {
  const NxmemSharedPrefixCommitRequest request = {sizeof request, 0u, *handle, *allocation, offset};
  *info = (NxmemSharedPrefixCommitInfo){sizeof *info, 0u, UINT64_MAX, UINT64_MAX, UINT64_MAX};
  return table->shared_mapping->commit_shared_prefix(table->shared_mapping->ctx, &request, info);
}

void assert_shared(const NxmemAllocatorVtable *table, const NxmemSharedPrefixHandle *handle,
                   const NxmemAllocation *allocation, uint64_t offset, uint64_t additional) {
  NxmemSharedPrefixCommitInfo info;
  assert_status(share(table, handle, allocation, offset, &info), NXMEM_STATUS_OK);
  assert_int_equal(info.additional_owned_bytes, additional);
  assert_int_equal(info.newly_mapped_bytes, handle->mapped_bytes);
  assert_int_equal(info.granules, handle->mapped_bytes / G);
}

void drop_prefix(const NxmemAllocatorVtable *table, const NxmemSharedPrefixHandle *handle) {
  assert_status(table->shared_mapping->release_shared_prefix(table->shared_mapping->ctx, handle), NXMEM_STATUS_OK);
}
