/*
 * scripted_honest.c: the mechanisms that keep the contract.
 *
 * Attackers: none.
 * Promise: `eager` is the least that every row can be measured against; `lazy` has every capability there is.
 */
#include "scripted_mechanisms.h"

const nx_mechanism nx_eager = {NX_HONEST("eager", NX_CAPS)};

static const nx_mechanism rows[] = {
    {NX_HONEST("eager", NX_CAPS)},
    {NX_HONEST("lazy", NX_ALL_CAPS), .lazy = 1},
};
const nx_row_group nx_honest_rows = NX_ROWS(rows);
