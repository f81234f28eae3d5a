/*
 * factory.h: the factories of the module, one for each offer.
 *
 * Attackers: none.
 * Promise: factories and their figures live as long as the module is mapped.
 */
#ifndef NX_VMM_FACTORY_H
#define NX_VMM_FACTORY_H

#include "books.h"
#include "driver.h"
#include "nxmem_memory_abi.h"

/* How many there are; listed only where there is room for all. */
uint32_t nx_factories(const NxmemAllocatorFactoryVtable **tables_out, uint64_t room);

/* NULL and why: WRONG_MECHANISM, WRONG_DEVICE. */
const nx_books *nx_find_books(uint64_t mechanism_id, uint32_t tier, uint32_t index, uint32_t *status_out);

#endif /* NX_VMM_FACTORY_H */
