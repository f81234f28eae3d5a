/*
 * scripted_honest.c: the mechanisms that keep the contract.
 *
 * Attackers: none.
 * Promise: `eager` is the least that every row can be measured against; `lazy` has every capability there is.
 */
#include "scripted_mechanisms.h"

#define HONEST(row_name, flags)                                                                                    \
  .name = (row_name), .abi_minor = NX_MINOR, .struct_size = NX_ALLOCATOR_BYTES, .table_bytes = NX_ALLOCATOR_BYTES, \
  .capability_flags = (flags)

const nx_mechanism nx_eager = {HONEST("eager", NX_CAPS)};

static const nx_mechanism rows[] = {
    {HONEST("eager", NX_CAPS)},
    {HONEST("lazy", NX_ALL_CAPS), .lazy = 1},
};
const nx_row_group nx_honest_rows = NX_ROWS(rows);
