/*
 * scripted_open.h: between the factories and the allocators of a scripted module.
 *
 * Attackers: none.
 * Promise: an allocator's table lies in memory of its own and goes with the last release.
 */
#ifndef NXMEM_SCRIPTED_OPEN_H
#define NXMEM_SCRIPTED_OPEN_H

#include "scripted_base.h"

/* A copy of a table in memory of its own; bytes beyond the `known` ones are 0xAA. */
nx_placed nx_place_table(nx_place place, uint32_t bytes, const void *table, size_t known);

/* What a factory's open_allocator does, once the factory itself is known to be live. */
NxmemStatus nx_open(const nx_mechanism *row, NxmemDeviceId device, const NxmemOpenRequest *request,
                    const NxmemAllocatorVtable **out);

#endif /* NXMEM_SCRIPTED_OPEN_H */
