/*
 * capability.c: Eva drivers of nxmem/capability.h: each entry point once for everything that its contract allows.
 *
 * Attackers: a table with any bits, any slots, any tables.
 * Promise: any table, any level, any agreement.
 */
#include "nxmem/capability.h"

#include "support.h"

void eva_nxmem_caps_at(void) { (void)nxmem_caps_at(any32); }

void eva_nxmem_caps_effective(void) { (void)nxmem_caps_effective(any64, any64, any32); }

/* eva: -eva-slevel-function nxmem_check_capabilities:0,check_slots:0,check_undeclared:0 */
void eva_nxmem_check_capabilities(void) {
  NxmemAllocatorVtable table;
  uint64_t effective;
  eva_fill(&table, sizeof(table));
  (void)nxmem_check_capabilities(&table, any32, any32, any64, &effective);
}

void eva_nxmem_check_required(void) { (void)nxmem_check_required(any64, any64); }
