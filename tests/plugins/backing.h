/*
 * backing.h: steps of virtual backing and shared mapping that must succeed, without a host.
 *
 * Attackers played: none.
 * Promise: every helper asserts that it succeeded; what a call leaves unwritten shows.
 */
#ifndef NXMEM_TESTS_BACKING_H
#define NXMEM_TESTS_BACKING_H

#include "plugin.h"

enum { GRANULE = 65536 };

/* Through allocate_committed; what it costs was foretold. */
NxmemAllocation reserve(const NxmemAllocatorVtable *table, uint64_t id, uint64_t bytes, const NxmemByteRange *ranges,
                        uint64_t count, uint64_t mapped);

NxmemRangeRequest range_of(const NxmemAllocation *allocation, uint64_t offset, uint64_t bytes);

/* What committing a range would map, and what is mapped. */
uint64_t missing(const NxmemAllocatorVtable *table, const NxmemAllocation *allocation, uint64_t offset, uint64_t bytes);
uint64_t committed(const NxmemAllocatorVtable *table, const NxmemAllocation *allocation);

void commit(const NxmemAllocatorVtable *table, const NxmemAllocation *allocation, uint64_t offset, uint64_t bytes);
uint64_t decommit(const NxmemAllocatorVtable *table, const NxmemAllocation *allocation, uint64_t offset,
                  uint64_t bytes);

/* Which of the first 32 granules can be read, as a word of bits. */
uint32_t accessible(const NxmemAllocation *allocation);

/* An honest prefix, every field of its handle compared. */
NxmemSharedPrefixHandle unwritten_handle(void);
NxmemSharedPrefixHandle make_prefix(const NxmemAllocatorVtable *table, uint64_t bytes);
uint64_t increment(const NxmemAllocatorVtable *table, const NxmemSharedPrefixHandle *handle);
void drop_prefix(const NxmemAllocatorVtable *table, const NxmemSharedPrefixHandle *handle);

/* Commit a prefix, whatever comes of it; and honestly, with that much charged. */
NxmemStatus share(const NxmemAllocatorVtable *table, const NxmemSharedPrefixHandle *handle,
                  const NxmemAllocation *allocation, uint64_t offset, NxmemSharedPrefixCommitInfo *info);
void assert_shared(const NxmemAllocatorVtable *table, const NxmemSharedPrefixHandle *handle,
                   const NxmemAllocation *allocation, uint64_t offset, uint64_t additional);

#endif /* NXMEM_TESTS_BACKING_H */
