/*
 * scripted_sizes.c: mechanisms whose allocator table has a header at the edge of what may be.
 *
 * Attackers: those below their minimum. The sizes from 121 to 127 at minor 0, the endless size and the endless minor
 * are legal: a slot that is only there in part is absent.
 * Promise: the table's memory ends where the size says, at 128 where it says more; one that is malformed creates no
 * state.
 */
#include <string.h>

#include "scripted_mechanisms.h"

#define MINOR_0(row_name, size, really)                                                \
  .name = (row_name), .abi_minor = 0u, .struct_size = (size), .table_bytes = (really), \
  .capability_flags = NXMEM_CAP_ALLOCATOR
#define LEGAL(size) \
  { MINOR_0("size-" #size, size, size) }
#define SHORT(size, really) \
  { MINOR_0("size-" #size, size, really), .stateless = 1 }

/* The table of a version without a header: everything lies eight bytes before its place. */
static void without_header(NxmemAllocatorVtable *table) {
  memmove(table, (const uint8_t *)table + 8, sizeof *table - 8u);
}

static const nx_mechanism rows[] = {
    /* Reading struct_size takes 4 bytes, so there are never fewer. */
    SHORT(0, 4),
    SHORT(4, 4),
    SHORT(7, 7),
    SHORT(8, 8),
    SHORT(119, 119),
    LEGAL(120),
    LEGAL(121),
    LEGAL(122),
    LEGAL(123),
    LEGAL(124),
    LEGAL(125),
    LEGAL(126),
    LEGAL(127),
    {.name = "size-127-minor-1",
     .abi_minor = NX_MINOR,
     .struct_size = 127u,
     .table_bytes = 127u,
     .capability_flags = NX_CAPS,
     .stateless = 1},
    {.name = "size-endless",
     .abi_minor = NX_MINOR,
     .struct_size = 0xFFFFFFFFu,
     .table_bytes = NX_ALLOCATOR_BYTES,
     .capability_flags = NX_CAPS,
     .place = NX_PLACE_GUARD},
    {.name = "minor-endless",
     .abi_minor = 0xFFFFFFFFu,
     .struct_size = NX_ALLOCATOR_BYTES,
     .table_bytes = NX_ALLOCATOR_BYTES,
     .capability_flags = NX_CAPS,
     .place = NX_PLACE_GUARD},
    {NX_HONEST("old-layout", NX_CAPS), .stateless = 1, .spoil = without_header},
};
const nx_row_group nx_size_rows = NX_ROWS(rows);
