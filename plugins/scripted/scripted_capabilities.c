/*
 * scripted_capabilities.c: mechanisms whose capability tables, flags and slots do not belong together.
 *
 * Attackers: these are; `backing-ahead` and the two `...-without-slots` have no defect, they only hold less or more than
 * a host may expect.
 * Promise: where a table is short it really ends there; the allocator's own table is honest, so its release is owed.
 */
#include <string.h>

#include "scripted_lazy.h"
#include "scripted_mechanisms.h"

enum { SHORT_BACKING = 64, SHORT_SHARING = 56, NEWER_BACKING = 80 };

#define BACKED (NX_CAPS | NXMEM_CAP_VIRTUAL_BACKING)
#define SHARED (NX_CAPS | NXMEM_CAP_SHARED_MAPPING)

static const void *askew(void) {
  static const uint64_t readable[NX_BACKING_BYTES / 8 + 1] = {NX_BACKING_BYTES};
  return (const uint8_t *)readable + 4;
}

/* ---- Virtual backing --------------------------------------------------------------------------------------------- */

static void backing_null(NxmemAllocatorVtable *table) { table->virtual_backing = NULL; }
static void backing_wild(NxmemAllocatorVtable *table) { table->virtual_backing = nx_forbidden_address(); }
static void backing_askew(NxmemAllocatorVtable *table) { table->virtual_backing = askew(); }
static void backing_of_another(NxmemVirtualBackingVtable *table) { table->mechanism_id ^= 1ull << 60; }
static void backing_short(NxmemVirtualBackingVtable *table) { table->struct_size = SHORT_BACKING; }
static void backing_bare(NxmemVirtualBackingVtable *table) {
  const size_t slots = offsetof(NxmemVirtualBackingVtable, allocate_committed);
  memset((uint8_t *)table + slots, 0, sizeof *table - slots);
}
static void backing_newer(NxmemVirtualBackingVtable *table) {
  table->abi_minor = NX_MINOR + 1u;
  table->struct_size = NEWER_BACKING;
}

/* ---- Shared mapping ---------------------------------------------------------------------------------------------- */

static void sharing_null(NxmemAllocatorVtable *table) { table->shared_mapping = NULL; }
static void sharing_wild(NxmemAllocatorVtable *table) { table->shared_mapping = nx_forbidden_address(); }
static void sharing_askew(NxmemAllocatorVtable *table) { table->shared_mapping = askew(); }
static void sharing_of_another(NxmemSharedMappingVtable *table) { table->mechanism_id ^= 1ull << 60; }
static void sharing_short(NxmemSharedMappingVtable *table) { table->struct_size = SHORT_SHARING; }
static void sharing_bare(NxmemSharedMappingVtable *table) {
  const size_t slots = offsetof(NxmemSharedMappingVtable, create_shared_prefix);
  memset((uint8_t *)table + slots, 0, sizeof *table - slots);
}
/* A whole table, behind a flag that is clear. */
static void sharing_undeclared(NxmemAllocatorVtable *table) { table->capability_flags &= ~NXMEM_CAP_SHARED_MAPPING; }

/* ---- Deferred release -------------------------------------------------------------------------------------------- */

static void no_enqueue(NxmemAllocatorVtable *table) { table->enqueue_release = NULL; }
static void no_drain(NxmemAllocatorVtable *table) { table->drain_releases = NULL; }
static void no_pending(NxmemAllocatorVtable *table) { table->pending_release_count = NULL; }

/* ---- The rows --------------------------------------------------------------------------------------------------- */

static const nx_mechanism rows[] = {
    {NX_HONEST("flag-without-backing", BACKED), .lazy = 1, .spoil = backing_null},
    {NX_HONEST("wild-backing", BACKED), .lazy = 1, .spoil = backing_wild},
    {NX_HONEST("misaligned-backing", BACKED), .lazy = 1, .spoil = backing_askew},
    {NX_HONEST("backing-of-another", BACKED), .lazy = 1, .spoil_backing = backing_of_another},
    {NX_HONEST("short-backing", BACKED), .lazy = 1, .spoil_backing = backing_short, .backing_bytes = SHORT_BACKING},
    {NX_HONEST("lying-backing", BACKED), .lazy = 1, .backing_bytes = SHORT_BACKING, .place = NX_PLACE_GUARD},
    {NX_HONEST("backing-without-slots", BACKED), .lazy = 1, .spoil_backing = backing_bare},
    {NX_HONEST("backing-ahead", BACKED), .lazy = 1, .spoil_backing = backing_newer, .backing_bytes = NEWER_BACKING},
    {NX_HONEST("flag-without-sharing", SHARED), .lazy = 1, .spoil = sharing_null},
    {NX_HONEST("wild-sharing", SHARED), .lazy = 1, .spoil = sharing_wild},
    {NX_HONEST("misaligned-sharing", SHARED), .lazy = 1, .spoil = sharing_askew},
    {NX_HONEST("sharing-of-another", SHARED), .lazy = 1, .spoil_sharing = sharing_of_another},
    {NX_HONEST("short-sharing", SHARED), .lazy = 1, .spoil_sharing = sharing_short, .sharing_bytes = SHORT_SHARING},
    {NX_HONEST("lying-sharing", SHARED), .lazy = 1, .sharing_bytes = SHORT_SHARING, .place = NX_PLACE_GUARD},
    {NX_HONEST("sharing-without-slots", SHARED), .lazy = 1, .spoil_sharing = sharing_bare},
    {NX_HONEST("undeclared-sharing", SHARED), .lazy = 1, .spoil = sharing_undeclared},
    {NX_HONEST("flag-without-enqueue", NX_DEFERRED_CAPS), .spoil = no_enqueue},
    {NX_HONEST("flag-without-drain", NX_DEFERRED_CAPS), .spoil = no_drain},
    {NX_HONEST("flag-without-pending", NX_DEFERRED_CAPS), .spoil = no_pending},
};
const nx_row_group nx_capability_rows = NX_ROWS(rows);
