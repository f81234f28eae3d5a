/*
 * fault_factories.c: modules with a factory whose table, name or device is wrong.
 *
 * Attackers: these rows.
 * Promise: where a table or a name is short it really ends there; where the release can be found, it counts.
 */
#include <string.h>

#include "fault_rows.h"

enum { SHORT_BYTES = 48, NEWER_BYTES = 64, UNKNOWN_TIER = 9, LONG_NAME = 1 << 20, UNTERMINATED_NAME = 40 };

#define EAGER(declared, really)                                                                               \
  .row = &nx_eager, .name = (const uint8_t *)"eager", .device = {NXMEM_TIER_HOST, 0u}, .abi_minor = NX_MINOR, \
  .struct_size = (declared), .table_bytes = (really)
#define WHOLE EAGER(NX_FACTORY_BYTES, NX_FACTORY_BYTES)

/* ---- Names ------------------------------------------------------------------------------------------------------ */

static nx_placed name_block; /* one factory per module, so one name */

__attribute__((destructor)) static void free_name(void) { nx_unplace(&name_block); }

/* Letters to the end of the block; `terminated` spends the last byte on a NUL. */
static void name_of(NxmemAllocatorFactoryVtable *table, nx_place place, size_t size, int terminated) {
  nx_unplace(&name_block);
  name_block = nx_place_bytes(place, size);
  if (name_block.bytes == NULL) return;
  memset(name_block.bytes, 'n', terminated ? size - 1u : size);
  table->name = name_block.bytes;
}

static void name_long(NxmemAllocatorFactoryVtable *table) { name_of(table, NX_PLACE_HEAP, LONG_NAME + 1u, 1); }
static void name_to_guard(NxmemAllocatorFactoryVtable *table) { name_of(table, NX_PLACE_GUARD, UNTERMINATED_NAME, 0); }
static void name_empty(NxmemAllocatorFactoryVtable *table) { table->name = (const uint8_t *)""; }
static void name_bad_utf8(NxmemAllocatorFactoryVtable *table) { table->name = (const uint8_t *)"eag\xC3(er"; }
static void name_control(NxmemAllocatorFactoryVtable *table) { table->name = (const uint8_t *)"eager\x1B[31m"; }

/* ---- Tables ----------------------------------------------------------------------------------------------------- */

static void without_open(NxmemAllocatorFactoryVtable *table) { table->open_allocator = NULL; }
static void without_release(NxmemAllocatorFactoryVtable *table) { table->release = NULL; }
static void on_unknown_tier(NxmemAllocatorFactoryVtable *table) { table->device.tier = UNKNOWN_TIER; }

static void zero_header(NxmemAllocatorFactoryVtable *table) {
  table->struct_size = 0u;
  table->abi_minor = 0u;
}

/*
 * What uninitialised stack looks like: size, minor, name. The slots stay: no host can tell a garbage code address from
 * a good one before it jumps there.
 */
static void garbage_header(NxmemAllocatorFactoryVtable *table) {
  table->struct_size = 0xAAAAAAAAu;
  table->abi_minor = 0xAAAAAAAAu;
  table->name = (const uint8_t *)(uintptr_t)0xAAAAAAAAAAAAAAAAull;
}

static NxmemStatus point_nowhere(const NxmemAllocatorFactoryVtable **entries, uint64_t *count) {
  entries[0] = nx_forbidden_address();
  *count = 1u;
  return nx_ok();
}

/* ---- The rows --------------------------------------------------------------------------------------------------- */

static const nx_listing tier_row[] = {{WHOLE, .spoil = on_unknown_tier}};
static const nx_listing newer_tier_row[] = {{WHOLE},
                                            {.row = &nx_eager,
                                             .name = (const uint8_t *)"newer",
                                             .device = {UNKNOWN_TIER, 0u},
                                             .abi_minor = NX_MINOR + 1u,
                                             .struct_size = NEWER_BYTES,
                                             .table_bytes = NEWER_BYTES}};
static const nx_listing short_row[] = {{EAGER(SHORT_BYTES, SHORT_BYTES)}};
static const nx_listing open_row[] = {{WHOLE, .spoil = without_open}};
static const nx_listing release_row[] = {{WHOLE, .spoil = without_release}};
static const nx_listing zero_row[] = {{WHOLE, .spoil = zero_header}};
static const nx_listing garbage_row[] = {{WHOLE, .spoil = garbage_header}};
static const nx_listing empty_row[] = {{WHOLE, .spoil = name_empty}};
static const nx_listing long_row[] = {{WHOLE, .spoil = name_long}};
static const nx_listing utf8_row[] = {{WHOLE, .spoil = name_bad_utf8}};
static const nx_listing control_row[] = {{WHOLE, .spoil = name_control}};
static const nx_listing unterminated_row[] = {{WHOLE, .spoil = name_to_guard}};
static const nx_listing none[1] = {{.row = NULL}};

#define ROW(row_name, list) \
  { .name = (row_name), .listings = (list), .listing_count = sizeof(list) / sizeof((list)[0]) }

static const nx_fault rows[] = {
    ROW("bad-tier", tier_row),
    ROW("bad-tier-newer", newer_tier_row), /* legal: the newer one is left out */
    ROW("short-factory", short_row),
    ROW("factory-missing-open", open_row),
    ROW("factory-missing-release", release_row),
    ROW("zero-header", zero_row),
    ROW("garbage-header", garbage_row),
    ROW("empty-name", empty_row),
    ROW("long-name", long_row),
    ROW("bad-utf8-name", utf8_row),
    ROW("control-name", control_row),
    ROW("unterminated-name", unterminated_row),
    {.name = "wild-factory", .listings = none, .listing_count = 0u, .edit_entries = point_nowhere, .edited = 1u},
};
const nx_fault_group nx_factory_faults = NX_GROUP(rows);
