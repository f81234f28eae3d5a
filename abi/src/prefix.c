/*
 * prefix.c: the readers of published tables.
 *
 * Attackers: a table that lies about its size or level, ends early, or changes while it is read.
 * Promise: each field is loaded at most once, none outside the declared size; what was loaded is what is judged and returned.
 */
#include "nxmem/prefix.h"

#include <stddef.h>

#include "load.h"
#include "verdict_make.h"

#ifndef __FRAMAC__
#define END_OF(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))
_Static_assert(NXMEM_HEADER_BYTES == END_OF(NxmemAllocatorVtable, abi_minor), "header");
_Static_assert(NXMEM_ALLOCATOR_BYTES_0 == END_OF(NxmemAllocatorVtable, pending_release_count), "allocator, minor 0");
_Static_assert(NXMEM_ALLOCATOR_BYTES_1 == END_OF(NxmemAllocatorVtable, release_allocation), "allocator, minor 1");
_Static_assert(NXMEM_BACKING_BYTES == END_OF(NxmemVirtualBackingVtable, committed_bytes), "virtual backing");
_Static_assert(NXMEM_SHARING_BYTES == END_OF(NxmemSharedMappingVtable, commit_shared_prefix), "shared mapping");
_Static_assert(NXMEM_FACTORY_BYTES == END_OF(NxmemAllocatorFactoryVtable, release), "factory");
#endif

/* Offsets that a MISSING_SLOT or mechanism verdict names; a proof cannot read offsetof. */
enum {
  AT_MECHANISM = 8,
  AT_ALLOCATE = 48,
  AT_DEALLOCATE = 56,
  AT_RETAIN = 64,
  AT_RELEASE = 72,
  AT_FACTORY_OPEN = 40,
  AT_FACTORY_RELEASE = 48
};
#ifndef __FRAMAC__
_Static_assert(AT_MECHANISM == offsetof(NxmemAllocatorVtable, mechanism_id), "mechanism_id");
_Static_assert(AT_MECHANISM == offsetof(NxmemVirtualBackingVtable, mechanism_id), "mechanism_id");
_Static_assert(AT_MECHANISM == offsetof(NxmemSharedMappingVtable, mechanism_id), "mechanism_id");
_Static_assert(AT_ALLOCATE == offsetof(NxmemAllocatorVtable, allocate), "allocate");
_Static_assert(AT_DEALLOCATE == offsetof(NxmemAllocatorVtable, deallocate), "deallocate");
_Static_assert(AT_RETAIN == offsetof(NxmemAllocatorVtable, retain), "retain");
_Static_assert(AT_RELEASE == offsetof(NxmemAllocatorVtable, release), "release");
_Static_assert(AT_FACTORY_OPEN == offsetof(NxmemAllocatorFactoryVtable, open_allocator), "open_allocator");
_Static_assert(AT_FACTORY_RELEASE == offsetof(NxmemAllocatorFactoryVtable, release), "release");
#endif

uint32_t nxmem_allocator_bytes_at(uint32_t minor) {
  return minor == 0u ? (uint32_t)NXMEM_ALLOCATOR_BYTES_0 : (uint32_t)NXMEM_ALLOCATOR_BYTES_1;
}

uint32_t nxmem_prefix_extent(uint32_t declared, uint32_t known) { return declared < known ? declared : known; }

nxmem_verdict nxmem_check_table_address(uintptr_t address) {
  if (address == 0u) return nx_verdict(NXMEM_REASON_NULL_POINTER, 0u, 0u, 0u);
  if (address % 8u != 0u) return nx_verdict(NXMEM_REASON_MISALIGNED, 0u, address % 8u, 8u);
  return nx_accept();
}

/*@ assigns \nothing;
    ensures least: \result == NX_LEAST(a, b); */
static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

/*@ assigns \nothing;
    ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_MISSING_SLOT, offset, 0, 0); */
static nxmem_verdict missing_slot(uint32_t offset) { return nx_verdict(NXMEM_REASON_MISSING_SLOT, offset, 0u, 0u); }

/*@ assigns \nothing;
    behavior foreign:
      assumes gap: found == 0 || found != needed;
      ensures refused: NX_MECHANISM_GAP(\result, found, needed);
    behavior own:
      assumes same: found != 0 && found == needed;
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
static nxmem_verdict check_mechanism(uint64_t found, uint64_t needed) {
  if (found == 0u) return nx_verdict(NXMEM_REASON_ZERO_MECHANISM, AT_MECHANISM, 0u, 0u);
  if (found != needed) return nx_verdict(NXMEM_REASON_OTHER_MECHANISM, AT_MECHANISM, found, needed);
  return nx_accept();
}

nxmem_verdict nxmem_read_allocator_unvalidated(NXMEM_UNTRUSTED NxmemAllocatorVtable *src, uint32_t ceiling,
                                               NxmemAllocatorVtable *out, uint32_t *declared_minor) {
  const nxmem_verdict address = nxmem_check_table_address((uintptr_t)src);
  if (address.reason != NXMEM_REASON_NONE) return address;

  const uint32_t size = NX_LOAD(NxmemAllocatorVtable, src, struct_size);
  if (size < NXMEM_HEADER_BYTES) return nx_verdict(NXMEM_REASON_SHORT_HEADER, 0u, size, NXMEM_HEADER_BYTES);
  const uint32_t declared = NX_LOAD(NxmemAllocatorVtable, src, abi_minor);
  const uint32_t needed = nxmem_allocator_bytes_at(declared);
  if (size < needed) return nx_verdict(NXMEM_REASON_SHORT_TABLE, 0u, size, needed);

  const uint32_t level = smaller(declared, ceiling);
  out->struct_size = size;
  out->abi_minor = level;
  out->mechanism_id = NX_LOAD(NxmemAllocatorVtable, src, mechanism_id);
  out->device.tier = NX_LOAD(NxmemAllocatorVtable, src, device.tier);
  out->device.index = NX_LOAD(NxmemAllocatorVtable, src, device.index);
  out->capability_flags = NX_LOAD(NxmemAllocatorVtable, src, capability_flags);
  out->name = NX_LOAD(NxmemAllocatorVtable, src, name);
  out->ctx = NX_LOAD(NxmemAllocatorVtable, src, ctx);
  out->allocate = NX_LOAD(NxmemAllocatorVtable, src, allocate);
  out->deallocate = NX_LOAD(NxmemAllocatorVtable, src, deallocate);
  out->retain = NX_LOAD(NxmemAllocatorVtable, src, retain);
  out->release = NX_LOAD(NxmemAllocatorVtable, src, release);
  out->virtual_backing = NX_LOAD(NxmemAllocatorVtable, src, virtual_backing);
  out->shared_mapping = NX_LOAD(NxmemAllocatorVtable, src, shared_mapping);
  out->enqueue_release = NX_LOAD(NxmemAllocatorVtable, src, enqueue_release);
  out->drain_releases = NX_LOAD(NxmemAllocatorVtable, src, drain_releases);
  out->pending_release_count = NX_LOAD(NxmemAllocatorVtable, src, pending_release_count);
  out->release_allocation = NULL;
  if (level >= 1u) out->release_allocation = NX_LOAD(NxmemAllocatorVtable, src, release_allocation);
  *declared_minor = declared;
  return nx_accept();
}

nxmem_verdict nxmem_check_allocator(const NxmemAllocatorVtable *table) {
  if (table->allocate == NULL) return missing_slot(AT_ALLOCATE);
  if (table->deallocate == NULL) return missing_slot(AT_DEALLOCATE);
  if (table->retain == NULL) return missing_slot(AT_RETAIN);
  if (table->release == NULL) return missing_slot(AT_RELEASE);
  if (table->mechanism_id == 0u) return nx_verdict(NXMEM_REASON_ZERO_MECHANISM, AT_MECHANISM, 0u, 0u);
  return nx_accept();
}

nxmem_verdict nxmem_read_allocator(NXMEM_UNTRUSTED NxmemAllocatorVtable *src, uint32_t ceiling,
                                   NxmemAllocatorVtable *out, uint32_t *declared_minor) {
  NxmemAllocatorVtable table;
  uint32_t declared = 0u;
  const nxmem_verdict read = nxmem_read_allocator_unvalidated(src, ceiling, &table, &declared);
  if (read.reason != NXMEM_REASON_NONE) return read;
  const nxmem_verdict checked = nxmem_check_allocator(&table);
  if (checked.reason != NXMEM_REASON_NONE) return checked;
  *out = table;
#ifdef NXMEM_QUIET_WORLD
  //@ assert copied_id: out->mechanism_id == table.mechanism_id;
  //@ assert copied_flags: out->capability_flags == table.capability_flags;
  //@ assert kept_id: src->mechanism_id == \at(src->mechanism_id, Pre);
  //@ assert kept_flags: src->capability_flags == \at(src->capability_flags, Pre);
#endif
  *declared_minor = declared;
  return nx_accept();
}

nxmem_verdict nxmem_read_factory_unvalidated(NXMEM_UNTRUSTED NxmemAllocatorFactoryVtable *src, uint32_t ceiling,
                                             NxmemAllocatorFactoryVtable *out, uint32_t *declared_minor) {
  const nxmem_verdict address = nxmem_check_table_address((uintptr_t)src);
  if (address.reason != NXMEM_REASON_NONE) return address;

  const uint32_t size = NX_LOAD(NxmemAllocatorFactoryVtable, src, struct_size);
  if (size < NXMEM_HEADER_BYTES) return nx_verdict(NXMEM_REASON_SHORT_HEADER, 0u, size, NXMEM_HEADER_BYTES);
  const uint32_t declared = NX_LOAD(NxmemAllocatorFactoryVtable, src, abi_minor);
  if (size < NXMEM_FACTORY_BYTES) return nx_verdict(NXMEM_REASON_SHORT_TABLE, 0u, size, NXMEM_FACTORY_BYTES);

  out->struct_size = size;
  out->abi_minor = smaller(declared, ceiling);
  out->name = NX_LOAD(NxmemAllocatorFactoryVtable, src, name);
  out->device.tier = NX_LOAD(NxmemAllocatorFactoryVtable, src, device.tier);
  out->device.index = NX_LOAD(NxmemAllocatorFactoryVtable, src, device.index);
  out->capability_flags = NX_LOAD(NxmemAllocatorFactoryVtable, src, capability_flags);
  out->ctx = NX_LOAD(NxmemAllocatorFactoryVtable, src, ctx);
  out->open_allocator = NX_LOAD(NxmemAllocatorFactoryVtable, src, open_allocator);
  out->release = NX_LOAD(NxmemAllocatorFactoryVtable, src, release);
  *declared_minor = declared;
  return nx_accept();
}

nxmem_verdict nxmem_check_factory(const NxmemAllocatorFactoryVtable *table) {
  if (table->open_allocator == NULL) return missing_slot(AT_FACTORY_OPEN);
  if (table->release == NULL) return missing_slot(AT_FACTORY_RELEASE);
  return nx_accept();
}

nxmem_verdict nxmem_read_factory(NXMEM_UNTRUSTED NxmemAllocatorFactoryVtable *src, uint32_t ceiling,
                                 NxmemAllocatorFactoryVtable *out, uint32_t *declared_minor) {
  NxmemAllocatorFactoryVtable table;
  uint32_t declared = 0u;
  const nxmem_verdict read = nxmem_read_factory_unvalidated(src, ceiling, &table, &declared);
  if (read.reason != NXMEM_REASON_NONE) return read;
  const nxmem_verdict checked = nxmem_check_factory(&table);
  if (checked.reason != NXMEM_REASON_NONE) return checked;
  *out = table;
  *declared_minor = declared;
  return nx_accept();
}

nxmem_verdict nxmem_read_backing_unvalidated(NXMEM_UNTRUSTED NxmemVirtualBackingVtable *src, uint32_t ceiling,
                                             NxmemVirtualBackingVtable *out) {
  const nxmem_verdict address = nxmem_check_table_address((uintptr_t)src);
  if (address.reason != NXMEM_REASON_NONE) return address;

  const uint32_t size = NX_LOAD(NxmemVirtualBackingVtable, src, struct_size);
  if (size < NXMEM_HEADER_BYTES) return nx_verdict(NXMEM_REASON_SHORT_HEADER, 0u, size, NXMEM_HEADER_BYTES);
  const uint32_t declared = NX_LOAD(NxmemVirtualBackingVtable, src, abi_minor);
  if (size < NXMEM_BACKING_BYTES) return nx_verdict(NXMEM_REASON_SHORT_TABLE, 0u, size, NXMEM_BACKING_BYTES);

  out->struct_size = size;
  out->abi_minor = smaller(declared, ceiling);
  out->mechanism_id = NX_LOAD(NxmemVirtualBackingVtable, src, mechanism_id);
  out->ctx = NX_LOAD(NxmemVirtualBackingVtable, src, ctx);
  out->allocate_committed = NX_LOAD(NxmemVirtualBackingVtable, src, allocate_committed);
  out->commit_range = NX_LOAD(NxmemVirtualBackingVtable, src, commit_range);
  out->decommit_range = NX_LOAD(NxmemVirtualBackingVtable, src, decommit_range);
  out->mapped_bytes_for_ranges = NX_LOAD(NxmemVirtualBackingVtable, src, mapped_bytes_for_ranges);
  out->mapped_bytes_for_allocation = NX_LOAD(NxmemVirtualBackingVtable, src, mapped_bytes_for_allocation);
  out->committed_bytes = NX_LOAD(NxmemVirtualBackingVtable, src, committed_bytes);
  return nx_accept();
}

nxmem_verdict nxmem_check_backing(const NxmemVirtualBackingVtable *table, uint64_t mechanism_id) {
  return check_mechanism(table->mechanism_id, mechanism_id);
}

nxmem_verdict nxmem_read_backing(NXMEM_UNTRUSTED NxmemVirtualBackingVtable *src, uint32_t ceiling,
                                 uint64_t mechanism_id, NxmemVirtualBackingVtable *out) {
  NxmemVirtualBackingVtable table;
  const nxmem_verdict read = nxmem_read_backing_unvalidated(src, ceiling, &table);
  if (read.reason != NXMEM_REASON_NONE) return read;
  const nxmem_verdict checked = nxmem_check_backing(&table, mechanism_id);
  if (checked.reason != NXMEM_REASON_NONE) return checked;
  *out = table;
  return nx_accept();
}

nxmem_verdict nxmem_read_sharing_unvalidated(NXMEM_UNTRUSTED NxmemSharedMappingVtable *src, uint32_t ceiling,
                                             NxmemSharedMappingVtable *out) {
  const nxmem_verdict address = nxmem_check_table_address((uintptr_t)src);
  if (address.reason != NXMEM_REASON_NONE) return address;

  const uint32_t size = NX_LOAD(NxmemSharedMappingVtable, src, struct_size);
  if (size < NXMEM_HEADER_BYTES) return nx_verdict(NXMEM_REASON_SHORT_HEADER, 0u, size, NXMEM_HEADER_BYTES);
  const uint32_t declared = NX_LOAD(NxmemSharedMappingVtable, src, abi_minor);
  if (size < NXMEM_SHARING_BYTES) return nx_verdict(NXMEM_REASON_SHORT_TABLE, 0u, size, NXMEM_SHARING_BYTES);

  out->struct_size = size;
  out->abi_minor = smaller(declared, ceiling);
  out->mechanism_id = NX_LOAD(NxmemSharedMappingVtable, src, mechanism_id);
  out->ctx = NX_LOAD(NxmemSharedMappingVtable, src, ctx);
  out->create_shared_prefix = NX_LOAD(NxmemSharedMappingVtable, src, create_shared_prefix);
  out->retain_shared_prefix = NX_LOAD(NxmemSharedMappingVtable, src, retain_shared_prefix);
  out->release_shared_prefix = NX_LOAD(NxmemSharedMappingVtable, src, release_shared_prefix);
  out->incremental_owned_bytes = NX_LOAD(NxmemSharedMappingVtable, src, incremental_owned_bytes);
  out->commit_shared_prefix = NX_LOAD(NxmemSharedMappingVtable, src, commit_shared_prefix);
  return nx_accept();
}

nxmem_verdict nxmem_check_sharing(const NxmemSharedMappingVtable *table, uint64_t mechanism_id) {
  return check_mechanism(table->mechanism_id, mechanism_id);
}

nxmem_verdict nxmem_read_sharing(NXMEM_UNTRUSTED NxmemSharedMappingVtable *src, uint32_t ceiling, uint64_t mechanism_id,
                                 NxmemSharedMappingVtable *out) {
  NxmemSharedMappingVtable table;
  const nxmem_verdict read = nxmem_read_sharing_unvalidated(src, ceiling, &table);
  if (read.reason != NXMEM_REASON_NONE) return read;
  const nxmem_verdict checked = nxmem_check_sharing(&table, mechanism_id);
  if (checked.reason != NXMEM_REASON_NONE) return checked;
  *out = table;
  return nx_accept();
}
