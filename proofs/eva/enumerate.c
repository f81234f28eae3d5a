/*
 * enumerate.c: Eva drivers of nxmem/enumerate.h: each entry point once for everything that its contract allows.
 *
 * Attackers: a plugin that reports any count and any entries.
 * Promise: any list in an array that ends where the contract says.
 */
#include "nxmem/enumerate.h"

#include "support.h"

void eva_nxmem_factories_transferred(void) { (void)nxmem_factories_transferred(any64); }

/* The contract allows any index; a list has 64 entries. Each index tried ends its array. */
/* eva: -eva-slevel-function first_index_of:0 */
void eva_nxmem_factory_is_owed(void) {
  uintptr_t entries[NXMEM_FACTORIES_MAX];
  static const uint32_t indexes[] = {0u, 1u, 2u, 31u, 62u, NXMEM_FACTORIES_MAX - 1u};
  const uint32_t index = indexes[eva_each(0u, 5u)];
  eva_fill(entries, sizeof(entries));
  (void)nxmem_factory_is_owed(entries + (NXMEM_FACTORIES_MAX - 1u - index), index);
}

/* eva: -eva-slevel-function first_index_of:0,nxmem_check_factories:0 */
void eva_nxmem_check_factories(void) {
  uintptr_t entries[NXMEM_FACTORIES_MAX];
  eva_fill(entries, sizeof(entries));
  (void)nxmem_check_factories(entries, any64);
}
