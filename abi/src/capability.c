/*
 * capability.c: the mask of what an allocator effectively offers.
 *
 * Attackers: undefined bits, bits without slots, tables without bits.
 * Promise: nothing outside declared, negotiated and defined is ever effective.
 */
#include "nxmem/capability.h"

#include <stddef.h>

#include "verdict_make.h"

enum {
  AT_FLAGS = 24,
  AT_VIRTUAL_BACKING = 80,
  AT_SHARED_MAPPING = 88,
  AT_ENQUEUE = 96,
  AT_DRAIN = 104,
  AT_PENDING = 112,
  AT_RELEASE_ALLOCATION = 120
};
#ifndef __FRAMAC__
_Static_assert(AT_FLAGS == offsetof(NxmemAllocatorVtable, capability_flags), "capability_flags");
_Static_assert(AT_VIRTUAL_BACKING == offsetof(NxmemAllocatorVtable, virtual_backing), "virtual_backing");
_Static_assert(AT_SHARED_MAPPING == offsetof(NxmemAllocatorVtable, shared_mapping), "shared_mapping");
_Static_assert(AT_ENQUEUE == offsetof(NxmemAllocatorVtable, enqueue_release), "enqueue_release");
_Static_assert(AT_DRAIN == offsetof(NxmemAllocatorVtable, drain_releases), "drain_releases");
_Static_assert(AT_PENDING == offsetof(NxmemAllocatorVtable, pending_release_count), "pending_release_count");
_Static_assert(AT_RELEASE_ALLOCATION == offsetof(NxmemAllocatorVtable, release_allocation), "release_allocation");
_Static_assert(NXMEM_CAPS_KNOWN == (NXMEM_CAP_ALLOCATOR | NXMEM_CAP_VIRTUAL_BACKING | NXMEM_CAP_SHARED_MAPPING |
                                    NXMEM_CAP_DEFERRED_RELEASE | NXMEM_CAP_STRUCTURED_RELEASE), "known");
_Static_assert(NXMEM_CAPS_MINOR_0 == (NXMEM_CAPS_KNOWN & ~NXMEM_CAP_STRUCTURED_RELEASE), "minor 0");
#endif

uint64_t nxmem_caps_at(uint32_t minor) { return minor == 0u ? NXMEM_CAPS_MINOR_0 : NXMEM_CAPS_KNOWN; }

uint64_t nxmem_caps_effective(uint64_t declared, uint64_t negotiated, uint32_t effective_minor) {
  return declared & negotiated & nxmem_caps_at(effective_minor);
}

/*@ assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==> NX_HAS(flags, bit); */
static int has(uint64_t flags, uint64_t bit) { return (flags & bit) != 0u; }

/*@ assigns \nothing;
    ensures refused: NX_GAP_IS(\result, offset); */
static nxmem_verdict without_slot(uint32_t offset) { return nx_verdict(NXMEM_REASON_FLAG_WITHOUT_SLOT, offset, 0u, 0u); }

/*@ assigns \nothing;
    ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_TABLE_WITHOUT_FLAG, offset, 0, 0); */
static nxmem_verdict without_flag(uint32_t offset) { return nx_verdict(NXMEM_REASON_TABLE_WITHOUT_FLAG, offset, 0u, 0u); }

/* Effective capabilities need their tables and slots. */
/*@ requires table_readable: \valid_read(table);
    assigns \nothing;
    behavior incomplete:
      assumes gap: NX_GAP(table, effective);
      ensures refused: NX_GAP_VERDICT(\result, table, effective);
    behavior whole:
      assumes no_gap: !NX_GAP(table, effective);
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
static nxmem_verdict check_slots(const NxmemAllocatorVtable *table, uint64_t effective) {
  if (has(effective, NXMEM_CAP_VIRTUAL_BACKING) && table->virtual_backing == NULL) return without_slot(AT_VIRTUAL_BACKING);
  if (has(effective, NXMEM_CAP_SHARED_MAPPING) && table->shared_mapping == NULL) return without_slot(AT_SHARED_MAPPING);
  if (has(effective, NXMEM_CAP_DEFERRED_RELEASE)) {
    if (table->enqueue_release == NULL) return without_slot(AT_ENQUEUE);
    if (table->drain_releases == NULL) return without_slot(AT_DRAIN);
    if (table->pending_release_count == NULL) return without_slot(AT_PENDING);
  }
  if (has(effective, NXMEM_CAP_STRUCTURED_RELEASE) && table->release_allocation == NULL)
    return without_slot(AT_RELEASE_ALLOCATION);
  return nx_accept();
}

/* A capability table behind a clear declared flag. */
/*@ requires table_readable: \valid_read(table);
    assigns \nothing;
    behavior undeclared:
      assumes loose: NX_LOOSE(table);
      ensures refused: NX_LOOSE_VERDICT(\result, table);
    behavior declared:
      assumes none_loose: !NX_LOOSE(table);
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
static nxmem_verdict check_undeclared(const NxmemAllocatorVtable *table) {
  if (!has(table->capability_flags, NXMEM_CAP_VIRTUAL_BACKING) && table->virtual_backing != NULL)
    return without_flag(AT_VIRTUAL_BACKING);
  if (!has(table->capability_flags, NXMEM_CAP_SHARED_MAPPING) && table->shared_mapping != NULL)
    return without_flag(AT_SHARED_MAPPING);
  return nx_accept();
}

nxmem_verdict nxmem_check_capabilities(const NxmemAllocatorVtable *table, uint32_t declared_minor, uint32_t ceiling,
                                       uint64_t negotiated, uint64_t *effective_out) {
  const uint64_t declared = table->capability_flags;
  const uint64_t defined = nxmem_caps_at(declared_minor);
  if (declared_minor <= ceiling && (declared & defined) != declared)
    return nx_verdict(NXMEM_REASON_UNKNOWN_CAPABILITY, AT_FLAGS, declared, defined);

  const uint64_t effective = nxmem_caps_effective(declared, negotiated, table->abi_minor);
  if (!has(effective, NXMEM_CAP_ALLOCATOR))
    return nx_verdict(NXMEM_REASON_NO_ALLOCATOR, AT_FLAGS, declared, NXMEM_CAP_ALLOCATOR);

  const nxmem_verdict slots = check_slots(table, effective);
  if (slots.reason != NXMEM_REASON_NONE) return slots;
  const nxmem_verdict undeclared = check_undeclared(table);
  if (undeclared.reason != NXMEM_REASON_NONE) return undeclared;
  *effective_out = effective;
  return nx_accept();
}

nxmem_verdict nxmem_check_required(uint64_t effective, uint64_t required) {
  if ((effective & required) == required) return nx_accept();
  return nx_verdict(NXMEM_REASON_REQUIRED_MISSING, 0u, effective, required);
}
