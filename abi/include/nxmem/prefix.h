/*
 * prefix.h: the only way to read a table that the other side published.
 *
 * Attackers: a table that lies about its size or level, ends early, changes while it is read, or lacks a required slot.
 * Promise: only fields wholly inside min(struct_size, our size) are read, each once; outputs are written only on acceptance.
 *
 * Each reader comes in two forms. The unvalidated one (address, size, level) exists to find `release` in a table that the host has decided to
 * refuse: no other slot of its result may be called. The validated one also demands what a usable table has.
 * nxmem_check_* judge a table that an unvalidated reader delivered, so that a host fetches once and still pays its debt.
 *
 * src      May be anything; never dereferenced when NULL or not 8-aligned. Where the guarded fetch is used it is the host's snapshot.
 * ceiling  The negotiated minor. out->abi_minor becomes min(declared, ceiling); slots above it become NULL.
 */
#ifndef NXMEM_PREFIX_H
#define NXMEM_PREFIX_H

#include "nxmem/verdict.h"
#include "nxmem_memory_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sizes from a field's offset plus its size (prefix.c pins them to the layout), never from sizeof. */
enum {
  NXMEM_HEADER_BYTES = 8,          /* struct_size and abi_minor */
  NXMEM_ALLOCATOR_BYTES_0 = 120,   /* up to pending_release_count */
  NXMEM_ALLOCATOR_BYTES_1 = 128,   /* up to release_allocation */
  NXMEM_BACKING_BYTES = 72,
  NXMEM_SHARING_BYTES = 64,
  NXMEM_FACTORY_BYTES = 56
};

/* What a table that claims `minor` must at least hold. */
uint32_t nxmem_allocator_bytes_at(uint32_t minor);

/* NXMEM_REASON_NONE, NULL_POINTER or MISALIGNED: whether an address can be a table's at all. */
nxmem_verdict nxmem_check_table_address(uintptr_t address);

/* How many leading bytes of a table a reader looks at: the smaller of what it declares and what we know. */
uint32_t nxmem_prefix_extent(uint32_t declared, uint32_t known);

/* The allocator table. *declared_minor: what it claims, before the ceiling. */
nxmem_verdict nxmem_read_allocator_unvalidated(NXMEM_UNTRUSTED NxmemAllocatorVtable *src, uint32_t ceiling,
                                               NxmemAllocatorVtable *out, uint32_t *declared_minor);
nxmem_verdict nxmem_check_allocator(const NxmemAllocatorVtable *table);
nxmem_verdict nxmem_read_allocator(NXMEM_UNTRUSTED NxmemAllocatorVtable *src, uint32_t ceiling,
                                   NxmemAllocatorVtable *out, uint32_t *declared_minor);

/* The factory table: no mechanism id. */
nxmem_verdict nxmem_read_factory_unvalidated(NXMEM_UNTRUSTED NxmemAllocatorFactoryVtable *src, uint32_t ceiling,
                                             NxmemAllocatorFactoryVtable *out, uint32_t *declared_minor);
nxmem_verdict nxmem_check_factory(const NxmemAllocatorFactoryVtable *table);
nxmem_verdict nxmem_read_factory(NXMEM_UNTRUSTED NxmemAllocatorFactoryVtable *src, uint32_t ceiling,
                                 NxmemAllocatorFactoryVtable *out, uint32_t *declared_minor);

/* Capability tables: their mechanism is their allocator's. Each slot is optional: a NULL one is answered when it is asked for. */
nxmem_verdict nxmem_read_backing_unvalidated(NXMEM_UNTRUSTED NxmemVirtualBackingVtable *src, uint32_t ceiling,
                                             NxmemVirtualBackingVtable *out);
nxmem_verdict nxmem_check_backing(const NxmemVirtualBackingVtable *table, uint64_t mechanism_id);
nxmem_verdict nxmem_read_backing(NXMEM_UNTRUSTED NxmemVirtualBackingVtable *src, uint32_t ceiling,
                                 uint64_t mechanism_id, NxmemVirtualBackingVtable *out);

nxmem_verdict nxmem_read_sharing_unvalidated(NXMEM_UNTRUSTED NxmemSharedMappingVtable *src, uint32_t ceiling,
                                             NxmemSharedMappingVtable *out);
nxmem_verdict nxmem_check_sharing(const NxmemSharedMappingVtable *table, uint64_t mechanism_id);
nxmem_verdict nxmem_read_sharing(NXMEM_UNTRUSTED NxmemSharedMappingVtable *src, uint32_t ceiling,
                                 uint64_t mechanism_id, NxmemSharedMappingVtable *out);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_PREFIX_H */
