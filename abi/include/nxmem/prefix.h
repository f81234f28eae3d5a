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
#ifdef __FRAMAC__
#include "nxmem/prefix_words.h"
#endif

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
/*@ assigns \nothing;
    ensures needed: \result == NX_ALLOCATOR_NEEDS(minor); */
uint32_t nxmem_allocator_bytes_at(uint32_t minor);

/* NXMEM_REASON_NONE, NULL_POINTER or MISALIGNED: whether an address can be a table's at all. */
/*@ assigns \nothing;
    behavior null_pointer:
      assumes zero: address == 0;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_NULL_POINTER, 0, 0, 0);
    behavior misaligned:
      assumes odd: address % 8 != 0;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_MISALIGNED, 0, address % 8, 8);
    behavior usable:
      assumes fits: address != 0 && address % 8 == 0;
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_table_address(uintptr_t address);

/* How many leading bytes of a table a reader looks at: the smaller of what it declares and what we know. */
/*@ assigns \nothing;
    ensures smaller: \result == NX_LEAST(declared, known); */
uint32_t nxmem_prefix_extent(uint32_t declared, uint32_t known);

/* The allocator table. *declared_minor: what it claims, before the ceiling. */
#ifdef NXMEM_QUIET_WORLD
/*@ requires src_readable: NX_USABLE(src) ==> NX_ALLOCATOR_READABLE(src);
    requires out_writable: \valid(out) && \valid(declared_minor);
    requires apart: \separated(src, out, declared_minor);
    assigns *out, *declared_minor;
    behavior unreadable:
      assumes refusable: !NX_WHOLE_TABLE(src, NX_ALLOCATOR_NEEDS(src->abi_minor));
      assigns \nothing;
      ensures address: NX_ADDRESS_REFUSED(\result, src);
      ensures header: NX_HEADER_REFUSED(\result, src);
      ensures table: NX_TABLE_REFUSED(\result, src, NX_ALLOCATOR_NEEDS(src->abi_minor));
    behavior accepted:
      assumes usable: NX_WHOLE_TABLE(src, NX_ALLOCATOR_NEEDS(src->abi_minor));
      ensures accepted: NX_ACCEPTED(\result);
      ensures size: out->struct_size == src->struct_size;
      ensures level: out->abi_minor == NX_LEAST(src->abi_minor, ceiling);
      ensures declared: *declared_minor == src->abi_minor;
      ensures mechanism_id: out->mechanism_id == src->mechanism_id;
      ensures device_tier: out->device.tier == src->device.tier;
      ensures device_index: out->device.index == src->device.index;
      ensures capability_flags: out->capability_flags == src->capability_flags;
      ensures name: out->name == src->name;
      ensures ctx: out->ctx == src->ctx;
      ensures allocate: out->allocate == src->allocate;
      ensures deallocate: out->deallocate == src->deallocate;
      ensures retain: out->retain == src->retain;
      ensures release: out->release == src->release;
      ensures virtual_backing: out->virtual_backing == src->virtual_backing;
      ensures shared_mapping: out->shared_mapping == src->shared_mapping;
      ensures enqueue_release: out->enqueue_release == src->enqueue_release;
      ensures drain_releases: out->drain_releases == src->drain_releases;
      ensures pending_release_count: out->pending_release_count == src->pending_release_count;
      ensures offered: out->abi_minor >= 1 ==> out->release_allocation == src->release_allocation;
      ensures clamped: out->abi_minor == 0 ==> out->release_allocation == \null;
    complete behaviors;
    disjoint behaviors; */
#else
/*@ requires src_readable: NX_USABLE(src) ==> \valid_read(src);
    requires out_writable: \valid(out) && \valid(declared_minor);
    requires apart: \separated(src, out, declared_minor, &NX_LEDGER);
    requires fresh: NX_NOTHING_LOADED_FROM(0);
    assigns *out, *declared_minor, NX_LEDGER;
    ensures reason: NX_READ_REASON(\result);
    ensures address: NX_ADDRESS_JUDGED(\result, src);
    ensures numbers: NX_ADDRESS_NUMBERS(\result, src);
    ensures header: NX_HEADER_JUDGED(\result);
    ensures table: NX_TABLE_JUDGED(\result);
    ensures loads: NX_NOTHING_BEYOND_HEADER(\result);
    ensures within: \result.reason == NXMEM_REASON_NONE ==> NX_NOTHING_LOADED_FROM(121);
    ensures kept: \result.reason != NXMEM_REASON_NONE ==> *out == \old(*out) && *declared_minor == \old(*declared_minor);
    ensures size: \result.reason == NXMEM_REASON_NONE ==> out->struct_size >= NX_ALLOCATOR_NEEDS(*declared_minor);
    ensures level: \result.reason == NXMEM_REASON_NONE ==> out->abi_minor == NX_LEAST(*declared_minor, ceiling);
    ensures clamped: \result.reason == NXMEM_REASON_NONE && out->abi_minor == 0 ==> out->release_allocation == \null;
    ensures clamped_loads: \result.reason == NXMEM_REASON_NONE && out->abi_minor == 0 ==> NX_NOTHING_LOADED_FROM(120); */
#endif
nxmem_verdict nxmem_read_allocator_unvalidated(NXMEM_UNTRUSTED NxmemAllocatorVtable *src, uint32_t ceiling, NxmemAllocatorVtable *out, uint32_t *declared_minor);
/*@ requires table_readable: \valid_read(table);
    assigns \nothing;
    behavior incomplete:
      assumes gap: !(NX_ALLOCATOR_COMPLETE(table));
      ensures refused: NX_ALLOCATOR_GAP(\result, table);
    behavior usable:
      assumes complete: NX_ALLOCATOR_COMPLETE(table);
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_allocator(const NxmemAllocatorVtable *table);
#ifdef NXMEM_QUIET_WORLD
/*@ requires src_readable: NX_USABLE(src) ==> NX_ALLOCATOR_READABLE(src);
    requires out_writable: \valid(out) && \valid(declared_minor);
    requires apart: \separated(src, out, declared_minor);
    assigns *out, *declared_minor;
    behavior unreadable:
      assumes refusable: !NX_WHOLE_TABLE(src, NX_ALLOCATOR_NEEDS(src->abi_minor));
      assigns \nothing;
      ensures address: NX_ADDRESS_REFUSED(\result, src);
      ensures header: NX_HEADER_REFUSED(\result, src);
      ensures table: NX_TABLE_REFUSED(\result, src, NX_ALLOCATOR_NEEDS(src->abi_minor));
    behavior incomplete:
      assumes gap: NX_WHOLE_TABLE(src, NX_ALLOCATOR_NEEDS(src->abi_minor)) && !(NX_ALLOCATOR_COMPLETE(src));
      assigns \nothing;
      ensures refused: NX_ALLOCATOR_GAP(\result, src);
    behavior accepted:
      assumes usable: NX_WHOLE_TABLE(src, NX_ALLOCATOR_NEEDS(src->abi_minor)) && NX_ALLOCATOR_COMPLETE(src);
      ensures accepted: NX_ACCEPTED(\result);
      ensures size: out->struct_size == src->struct_size;
      ensures level: out->abi_minor == NX_LEAST(src->abi_minor, ceiling);
      ensures declared: *declared_minor == src->abi_minor;
      ensures mechanism_id: out->mechanism_id == src->mechanism_id;
      ensures device_tier: out->device.tier == src->device.tier;
      ensures device_index: out->device.index == src->device.index;
      ensures capability_flags: out->capability_flags == src->capability_flags;
      ensures name: out->name == src->name;
      ensures ctx: out->ctx == src->ctx;
      ensures allocate: out->allocate == src->allocate;
      ensures deallocate: out->deallocate == src->deallocate;
      ensures retain: out->retain == src->retain;
      ensures release: out->release == src->release;
      ensures virtual_backing: out->virtual_backing == src->virtual_backing;
      ensures shared_mapping: out->shared_mapping == src->shared_mapping;
      ensures enqueue_release: out->enqueue_release == src->enqueue_release;
      ensures drain_releases: out->drain_releases == src->drain_releases;
      ensures pending_release_count: out->pending_release_count == src->pending_release_count;
      ensures offered: out->abi_minor >= 1 ==> out->release_allocation == src->release_allocation;
      ensures clamped: out->abi_minor == 0 ==> out->release_allocation == \null;
    complete behaviors;
    disjoint behaviors; */
#else
/*@ requires src_readable: NX_USABLE(src) ==> \valid_read(src);
    requires out_writable: \valid(out) && \valid(declared_minor);
    requires apart: \separated(src, out, declared_minor, &NX_LEDGER);
    requires fresh: NX_NOTHING_LOADED_FROM(0);
    assigns *out, *declared_minor, NX_LEDGER;
    ensures reason: NX_SLOT_REASON(\result) || \result.reason == NXMEM_REASON_ZERO_MECHANISM;
    ensures address: NX_ADDRESS_JUDGED(\result, src);
    ensures numbers: NX_ADDRESS_NUMBERS(\result, src);
    ensures header: NX_HEADER_JUDGED(\result);
    ensures table: NX_TABLE_JUDGED(\result);
    ensures loads: NX_NOTHING_BEYOND_HEADER(\result);
    ensures within: \result.reason == NXMEM_REASON_NONE ==> NX_NOTHING_LOADED_FROM(121);
    ensures kept: \result.reason != NXMEM_REASON_NONE ==> *out == \old(*out) && *declared_minor == \old(*declared_minor);
    ensures size: \result.reason == NXMEM_REASON_NONE ==> out->struct_size >= NX_ALLOCATOR_NEEDS(*declared_minor);
    ensures level: \result.reason == NXMEM_REASON_NONE ==> out->abi_minor == NX_LEAST(*declared_minor, ceiling);
    ensures clamped: \result.reason == NXMEM_REASON_NONE && out->abi_minor == 0 ==> out->release_allocation == \null;
    ensures clamped_loads: \result.reason == NXMEM_REASON_NONE && out->abi_minor == 0 ==> NX_NOTHING_LOADED_FROM(120);
    ensures complete_table: \result.reason == NXMEM_REASON_NONE ==> NX_ALLOCATOR_COMPLETE(out); */
#endif
nxmem_verdict nxmem_read_allocator(NXMEM_UNTRUSTED NxmemAllocatorVtable *src, uint32_t ceiling, NxmemAllocatorVtable *out, uint32_t *declared_minor);

/* The factory table: no mechanism id. */
#ifdef NXMEM_QUIET_WORLD
/*@ requires src_readable: NX_USABLE(src) ==> NX_FACTORY_READABLE(src);
    requires out_writable: \valid(out) && \valid(declared_minor);
    requires apart: \separated(src, out, declared_minor);
    assigns *out, *declared_minor;
    behavior unreadable:
      assumes refusable: !NX_WHOLE_TABLE(src, 56);
      assigns \nothing;
      ensures address: NX_ADDRESS_REFUSED(\result, src);
      ensures header: NX_HEADER_REFUSED(\result, src);
      ensures table: NX_TABLE_REFUSED(\result, src, 56);
    behavior accepted:
      assumes usable: NX_WHOLE_TABLE(src, 56);
      ensures accepted: NX_ACCEPTED(\result);
      ensures size: out->struct_size == src->struct_size;
      ensures level: out->abi_minor == NX_LEAST(src->abi_minor, ceiling);
      ensures declared: *declared_minor == src->abi_minor;
      ensures fields: NX_FACTORY_COPIED(out, src);
    complete behaviors;
    disjoint behaviors; */
#else
/*@ requires src_readable: NX_USABLE(src) ==> \valid_read(src);
    requires out_writable: \valid(out) && \valid(declared_minor);
    requires apart: \separated(src, out, declared_minor, &NX_LEDGER);
    requires fresh: NX_NOTHING_LOADED_FROM(0);
    assigns *out, *declared_minor, NX_LEDGER;
    ensures reason: NX_READ_REASON(\result);
    ensures address: NX_ADDRESS_JUDGED(\result, src);
    ensures numbers: NX_ADDRESS_NUMBERS(\result, src);
    ensures header: NX_HEADER_JUDGED(\result);
    ensures table: NX_TABLE_JUDGED(\result);
    ensures loads: NX_NOTHING_BEYOND_HEADER(\result);
    ensures within: \result.reason == NXMEM_REASON_NONE ==> NX_NOTHING_LOADED_FROM(out->struct_size);
    ensures kept: \result.reason != NXMEM_REASON_NONE ==> *out == \old(*out) && *declared_minor == \old(*declared_minor);
    ensures size: \result.reason == NXMEM_REASON_NONE ==> out->struct_size >= 56;
    ensures level: \result.reason == NXMEM_REASON_NONE ==> out->abi_minor == NX_LEAST(*declared_minor, ceiling); */
#endif
nxmem_verdict nxmem_read_factory_unvalidated(NXMEM_UNTRUSTED NxmemAllocatorFactoryVtable *src, uint32_t ceiling, NxmemAllocatorFactoryVtable *out, uint32_t *declared_minor);
/*@ requires table_readable: \valid_read(table);
    assigns \nothing;
    behavior incomplete:
      assumes gap: !(NX_FACTORY_COMPLETE(table));
      ensures refused: NX_FACTORY_GAP(\result, table);
    behavior usable:
      assumes complete: NX_FACTORY_COMPLETE(table);
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_factory(const NxmemAllocatorFactoryVtable *table);
#ifdef NXMEM_QUIET_WORLD
/*@ requires src_readable: NX_USABLE(src) ==> NX_FACTORY_READABLE(src);
    requires out_writable: \valid(out) && \valid(declared_minor);
    requires apart: \separated(src, out, declared_minor);
    assigns *out, *declared_minor;
    behavior unreadable:
      assumes refusable: !NX_WHOLE_TABLE(src, 56);
      assigns \nothing;
      ensures address: NX_ADDRESS_REFUSED(\result, src);
      ensures header: NX_HEADER_REFUSED(\result, src);
      ensures table: NX_TABLE_REFUSED(\result, src, 56);
    behavior incomplete:
      assumes gap: NX_WHOLE_TABLE(src, 56) && !(NX_FACTORY_COMPLETE(src));
      assigns \nothing;
      ensures refused: NX_FACTORY_GAP(\result, src);
    behavior accepted:
      assumes usable: NX_WHOLE_TABLE(src, 56) && NX_FACTORY_COMPLETE(src);
      ensures accepted: NX_ACCEPTED(\result);
      ensures size: out->struct_size == src->struct_size;
      ensures level: out->abi_minor == NX_LEAST(src->abi_minor, ceiling);
      ensures declared: *declared_minor == src->abi_minor;
      ensures fields: NX_FACTORY_COPIED(out, src);
    complete behaviors;
    disjoint behaviors; */
#else
/*@ requires src_readable: NX_USABLE(src) ==> \valid_read(src);
    requires out_writable: \valid(out) && \valid(declared_minor);
    requires apart: \separated(src, out, declared_minor, &NX_LEDGER);
    requires fresh: NX_NOTHING_LOADED_FROM(0);
    assigns *out, *declared_minor, NX_LEDGER;
    ensures reason: NX_SLOT_REASON(\result);
    ensures address: NX_ADDRESS_JUDGED(\result, src);
    ensures numbers: NX_ADDRESS_NUMBERS(\result, src);
    ensures header: NX_HEADER_JUDGED(\result);
    ensures table: NX_TABLE_JUDGED(\result);
    ensures loads: NX_NOTHING_BEYOND_HEADER(\result);
    ensures within: \result.reason == NXMEM_REASON_NONE ==> NX_NOTHING_LOADED_FROM(out->struct_size);
    ensures kept: \result.reason != NXMEM_REASON_NONE ==> *out == \old(*out) && *declared_minor == \old(*declared_minor);
    ensures size: \result.reason == NXMEM_REASON_NONE ==> out->struct_size >= 56;
    ensures level: \result.reason == NXMEM_REASON_NONE ==> out->abi_minor == NX_LEAST(*declared_minor, ceiling);
    ensures complete_table: \result.reason == NXMEM_REASON_NONE ==> NX_FACTORY_COMPLETE(out); */
#endif
nxmem_verdict nxmem_read_factory(NXMEM_UNTRUSTED NxmemAllocatorFactoryVtable *src, uint32_t ceiling, NxmemAllocatorFactoryVtable *out, uint32_t *declared_minor);

/* Capability tables: their mechanism is their allocator's. Each slot is optional: a NULL one is answered when it is asked for. */
#ifdef NXMEM_QUIET_WORLD
/*@ requires src_readable: NX_USABLE(src) ==> NX_BACKING_READABLE(src);
    requires out_writable: \valid(out);
    requires apart: \separated(src, out);
    assigns *out;
    behavior unreadable:
      assumes refusable: !NX_WHOLE_TABLE(src, 72);
      assigns \nothing;
      ensures address: NX_ADDRESS_REFUSED(\result, src);
      ensures header: NX_HEADER_REFUSED(\result, src);
      ensures table: NX_TABLE_REFUSED(\result, src, 72);
    behavior accepted:
      assumes usable: NX_WHOLE_TABLE(src, 72);
      ensures accepted: NX_ACCEPTED(\result);
      ensures size: out->struct_size == src->struct_size;
      ensures level: out->abi_minor == NX_LEAST(src->abi_minor, ceiling);
      ensures fields: NX_BACKING_COPIED(out, src);
    complete behaviors;
    disjoint behaviors; */
#else
/*@ requires src_readable: NX_USABLE(src) ==> \valid_read(src);
    requires out_writable: \valid(out);
    requires apart: \separated(src, out, &NX_LEDGER);
    requires fresh: NX_NOTHING_LOADED_FROM(0);
    assigns *out, NX_LEDGER;
    ensures reason: NX_READ_REASON(\result);
    ensures address: NX_ADDRESS_JUDGED(\result, src);
    ensures numbers: NX_ADDRESS_NUMBERS(\result, src);
    ensures header: NX_HEADER_JUDGED(\result);
    ensures table: NX_TABLE_JUDGED(\result);
    ensures loads: NX_NOTHING_BEYOND_HEADER(\result);
    ensures within: \result.reason == NXMEM_REASON_NONE ==> NX_NOTHING_LOADED_FROM(out->struct_size);
    ensures kept: \result.reason != NXMEM_REASON_NONE ==> *out == \old(*out);
    ensures size: \result.reason == NXMEM_REASON_NONE ==> out->struct_size >= 72;
    ensures level: \result.reason == NXMEM_REASON_NONE ==> out->abi_minor <= ceiling; */
#endif
nxmem_verdict nxmem_read_backing_unvalidated(NXMEM_UNTRUSTED NxmemVirtualBackingVtable *src, uint32_t ceiling, NxmemVirtualBackingVtable *out);
/*@ requires table_readable: \valid_read(table);
    assigns \nothing;
    behavior incomplete:
      assumes gap: !((table->mechanism_id != 0 && table->mechanism_id == mechanism_id));
      ensures refused: NX_MECHANISM_GAP(\result, table->mechanism_id, mechanism_id);
    behavior usable:
      assumes complete: (table->mechanism_id != 0 && table->mechanism_id == mechanism_id);
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_backing(const NxmemVirtualBackingVtable *table, uint64_t mechanism_id);
#ifdef NXMEM_QUIET_WORLD
/*@ requires src_readable: NX_USABLE(src) ==> NX_BACKING_READABLE(src);
    requires out_writable: \valid(out);
    requires apart: \separated(src, out);
    assigns *out;
    behavior unreadable:
      assumes refusable: !NX_WHOLE_TABLE(src, 72);
      assigns \nothing;
      ensures address: NX_ADDRESS_REFUSED(\result, src);
      ensures header: NX_HEADER_REFUSED(\result, src);
      ensures table: NX_TABLE_REFUSED(\result, src, 72);
    behavior incomplete:
      assumes gap: NX_WHOLE_TABLE(src, 72) && !((src->mechanism_id != 0 && src->mechanism_id == mechanism_id));
      assigns \nothing;
      ensures refused: NX_MECHANISM_GAP(\result, src->mechanism_id, mechanism_id);
    behavior accepted:
      assumes usable: NX_WHOLE_TABLE(src, 72) && (src->mechanism_id != 0 && src->mechanism_id == mechanism_id);
      ensures accepted: NX_ACCEPTED(\result);
      ensures size: out->struct_size == src->struct_size;
      ensures level: out->abi_minor == NX_LEAST(src->abi_minor, ceiling);
      ensures fields: NX_BACKING_COPIED(out, src);
    complete behaviors;
    disjoint behaviors; */
#else
/*@ requires src_readable: NX_USABLE(src) ==> \valid_read(src);
    requires out_writable: \valid(out);
    requires apart: \separated(src, out, &NX_LEDGER);
    requires fresh: NX_NOTHING_LOADED_FROM(0);
    assigns *out, NX_LEDGER;
    ensures reason: NX_READ_REASON(\result) || \result.reason == NXMEM_REASON_ZERO_MECHANISM ||
                     \result.reason == NXMEM_REASON_OTHER_MECHANISM;
    ensures address: NX_ADDRESS_JUDGED(\result, src);
    ensures numbers: NX_ADDRESS_NUMBERS(\result, src);
    ensures header: NX_HEADER_JUDGED(\result);
    ensures table: NX_TABLE_JUDGED(\result);
    ensures loads: NX_NOTHING_BEYOND_HEADER(\result);
    ensures within: \result.reason == NXMEM_REASON_NONE ==> NX_NOTHING_LOADED_FROM(out->struct_size);
    ensures kept: \result.reason != NXMEM_REASON_NONE ==> *out == \old(*out);
    ensures size: \result.reason == NXMEM_REASON_NONE ==> out->struct_size >= 72;
    ensures level: \result.reason == NXMEM_REASON_NONE ==> out->abi_minor <= ceiling;
    ensures complete_table: \result.reason == NXMEM_REASON_NONE ==> (out->mechanism_id != 0 && out->mechanism_id == mechanism_id); */
#endif
nxmem_verdict nxmem_read_backing(NXMEM_UNTRUSTED NxmemVirtualBackingVtable *src, uint32_t ceiling, uint64_t mechanism_id, NxmemVirtualBackingVtable *out);

#ifdef NXMEM_QUIET_WORLD
/*@ requires src_readable: NX_USABLE(src) ==> NX_SHARING_READABLE(src);
    requires out_writable: \valid(out);
    requires apart: \separated(src, out);
    assigns *out;
    behavior unreadable:
      assumes refusable: !NX_WHOLE_TABLE(src, 64);
      assigns \nothing;
      ensures address: NX_ADDRESS_REFUSED(\result, src);
      ensures header: NX_HEADER_REFUSED(\result, src);
      ensures table: NX_TABLE_REFUSED(\result, src, 64);
    behavior accepted:
      assumes usable: NX_WHOLE_TABLE(src, 64);
      ensures accepted: NX_ACCEPTED(\result);
      ensures size: out->struct_size == src->struct_size;
      ensures level: out->abi_minor == NX_LEAST(src->abi_minor, ceiling);
      ensures fields: NX_SHARING_COPIED(out, src);
    complete behaviors;
    disjoint behaviors; */
#else
/*@ requires src_readable: NX_USABLE(src) ==> \valid_read(src);
    requires out_writable: \valid(out);
    requires apart: \separated(src, out, &NX_LEDGER);
    requires fresh: NX_NOTHING_LOADED_FROM(0);
    assigns *out, NX_LEDGER;
    ensures reason: NX_READ_REASON(\result);
    ensures address: NX_ADDRESS_JUDGED(\result, src);
    ensures numbers: NX_ADDRESS_NUMBERS(\result, src);
    ensures header: NX_HEADER_JUDGED(\result);
    ensures table: NX_TABLE_JUDGED(\result);
    ensures loads: NX_NOTHING_BEYOND_HEADER(\result);
    ensures within: \result.reason == NXMEM_REASON_NONE ==> NX_NOTHING_LOADED_FROM(out->struct_size);
    ensures kept: \result.reason != NXMEM_REASON_NONE ==> *out == \old(*out);
    ensures size: \result.reason == NXMEM_REASON_NONE ==> out->struct_size >= 64;
    ensures level: \result.reason == NXMEM_REASON_NONE ==> out->abi_minor <= ceiling; */
#endif
nxmem_verdict nxmem_read_sharing_unvalidated(NXMEM_UNTRUSTED NxmemSharedMappingVtable *src, uint32_t ceiling, NxmemSharedMappingVtable *out);
/*@ requires table_readable: \valid_read(table);
    assigns \nothing;
    behavior incomplete:
      assumes gap: !((table->mechanism_id != 0 && table->mechanism_id == mechanism_id));
      ensures refused: NX_MECHANISM_GAP(\result, table->mechanism_id, mechanism_id);
    behavior usable:
      assumes complete: (table->mechanism_id != 0 && table->mechanism_id == mechanism_id);
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_sharing(const NxmemSharedMappingVtable *table, uint64_t mechanism_id);
#ifdef NXMEM_QUIET_WORLD
/*@ requires src_readable: NX_USABLE(src) ==> NX_SHARING_READABLE(src);
    requires out_writable: \valid(out);
    requires apart: \separated(src, out);
    assigns *out;
    behavior unreadable:
      assumes refusable: !NX_WHOLE_TABLE(src, 64);
      assigns \nothing;
      ensures address: NX_ADDRESS_REFUSED(\result, src);
      ensures header: NX_HEADER_REFUSED(\result, src);
      ensures table: NX_TABLE_REFUSED(\result, src, 64);
    behavior incomplete:
      assumes gap: NX_WHOLE_TABLE(src, 64) && !((src->mechanism_id != 0 && src->mechanism_id == mechanism_id));
      assigns \nothing;
      ensures refused: NX_MECHANISM_GAP(\result, src->mechanism_id, mechanism_id);
    behavior accepted:
      assumes usable: NX_WHOLE_TABLE(src, 64) && (src->mechanism_id != 0 && src->mechanism_id == mechanism_id);
      ensures accepted: NX_ACCEPTED(\result);
      ensures size: out->struct_size == src->struct_size;
      ensures level: out->abi_minor == NX_LEAST(src->abi_minor, ceiling);
      ensures fields: NX_SHARING_COPIED(out, src);
    complete behaviors;
    disjoint behaviors; */
#else
/*@ requires src_readable: NX_USABLE(src) ==> \valid_read(src);
    requires out_writable: \valid(out);
    requires apart: \separated(src, out, &NX_LEDGER);
    requires fresh: NX_NOTHING_LOADED_FROM(0);
    assigns *out, NX_LEDGER;
    ensures reason: NX_READ_REASON(\result) || \result.reason == NXMEM_REASON_ZERO_MECHANISM ||
                     \result.reason == NXMEM_REASON_OTHER_MECHANISM;
    ensures address: NX_ADDRESS_JUDGED(\result, src);
    ensures numbers: NX_ADDRESS_NUMBERS(\result, src);
    ensures header: NX_HEADER_JUDGED(\result);
    ensures table: NX_TABLE_JUDGED(\result);
    ensures loads: NX_NOTHING_BEYOND_HEADER(\result);
    ensures within: \result.reason == NXMEM_REASON_NONE ==> NX_NOTHING_LOADED_FROM(out->struct_size);
    ensures kept: \result.reason != NXMEM_REASON_NONE ==> *out == \old(*out);
    ensures size: \result.reason == NXMEM_REASON_NONE ==> out->struct_size >= 64;
    ensures level: \result.reason == NXMEM_REASON_NONE ==> out->abi_minor <= ceiling;
    ensures complete_table: \result.reason == NXMEM_REASON_NONE ==> (out->mechanism_id != 0 && out->mechanism_id == mechanism_id); */
#endif
nxmem_verdict nxmem_read_sharing(NXMEM_UNTRUSTED NxmemSharedMappingVtable *src, uint32_t ceiling, uint64_t mechanism_id, NxmemSharedMappingVtable *out);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_PREFIX_H */
