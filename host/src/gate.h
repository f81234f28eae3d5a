/* The unload gate: both sides are asked, the core decides. Private to the host. */
#ifndef NX_GATE_H
#define NX_GATE_H

#include "objects.h"

/*
 * Ask the plugin, take the host's own tallies, judge. Fills every field of *info but references and unmapped.
 * The module's word is ALLOCATING or RELEASING: no new call can enter it. [runs plugin code]
 */
nxmem_verdict nx_gate_ask(nx_module *module, nxmem_unload_info *info);

/* Live and quarantined allocations of a module's open allocators, and what closed ones left. */
uint64_t nx_module_allocations(nx_module *module);

#endif /* NX_GATE_H */
