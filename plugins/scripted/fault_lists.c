/*
 * fault_lists.c: modules whose list of factories is wrong, though each factory in it is honest.
 *
 * Attackers: these rows.
 * Promise: every factory is an object of its own; the probes say how many were made and how many given back.
 */
#include <stdio.h>

#include "fault_rows.h"

enum { ROOM = 64 };

#define LISTING(row_name, index)                                                                 \
  {                                                                                              \
    .row = &nx_eager, .name = (const uint8_t *)(row_name), .device = {NXMEM_TIER_HOST, (index)}, \
    .abi_minor = NX_MINOR, .struct_size = NX_FACTORY_BYTES, .table_bytes = NX_FACTORY_BYTES      \
  }

static const nx_listing two_names[] = {LISTING("eager", 0u), LISTING("second", 0u)};
static const nx_listing one_name[] = {LISTING("eager", 0u), LISTING("eager", 0u)};
static const nx_listing two_devices[] = {LISTING("eager", 0u), LISTING("eager", 1u)};

static NxmemStatus fail_after_writing(const NxmemAllocatorFactoryVtable **entries, uint64_t *count) {
  (void)entries;
  (void)count;
  return nx_status(NXMEM_STATUS_INTERNAL_ERROR, "gave up behind the second factory");
}

/* 64 factories, 65 claimed. */
static NxmemStatus fill_and_claim_more(const NxmemAllocatorFactoryVtable **entries, uint64_t *count) {
  static char names[ROOM][16];
  for (uint32_t i = 1u; i < ROOM; i++) {
    snprintf(names[i], sizeof names[i], "eager-%02u", (unsigned)i);
    const nx_listing listing = LISTING(names[i], 0u);
    entries[i] = nx_publish(&listing);
  }
  *count = ROOM + 1u;
  return nx_ok();
}

static NxmemStatus repeat_first(const NxmemAllocatorFactoryVtable **entries, uint64_t *count) {
  entries[1] = entries[0];
  *count = 2u;
  return nx_ok();
}

static NxmemStatus add_null(const NxmemAllocatorFactoryVtable **entries, uint64_t *count) {
  entries[1] = NULL;
  *count = 2u;
  return nx_ok();
}

static NxmemStatus count_one(const NxmemAllocatorFactoryVtable **entries, uint64_t *count) {
  (void)entries;
  *count = 1u;
  return nx_ok();
}

/* One factory, and a count that no array has. */
static NxmemStatus count_endless(const NxmemAllocatorFactoryVtable **entries, uint64_t *count) {
  (void)entries;
  *count = UINT64_MAX;
  return nx_ok();
}

/* One factory, and a count of none. */
static NxmemStatus count_none(const NxmemAllocatorFactoryVtable **entries, uint64_t *count) {
  (void)entries;
  *count = 0u;
  return nx_ok();
}

static const nx_fault rows[] = {
    {.name = "enumerate-error", .listings = two_names, .listing_count = 2u, .edit_entries = fail_after_writing},
    {.name = "too-many", .edit_entries = fill_and_claim_more, .edited = ROOM},
    {.name = "count-endless", .edit_entries = count_endless},
    {.name = "count-none", .edit_entries = count_none},
    {.name = "listed-twice", .edit_entries = repeat_first, .edited = 2u},
    {.name = "null-entry", .edit_entries = add_null, .edited = 2u},
    {.name = "entry-beyond-count", .listings = two_names, .listing_count = 2u, .edit_entries = count_one},
    {.name = "same-name", .listings = one_name, .listing_count = 2u},
    {.name = "same-name-other-device", .listings = two_devices, .listing_count = 2u}, /* legal: one name per device */
};
const nx_fault_group nx_list_faults = NX_GROUP(rows);
