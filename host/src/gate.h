/* The unload gate: both sides are asked, the core decides. Private to the host. */
#ifndef NX_GATE_H
#define NX_GATE_H

#include "objects.h"

/*
 * Ask the plugin, take the host's own tallies, judge. Fills every field of *info but references and unmapped. A report that is short or
 * unwritten is counted as a contract violation.
 * The module's word is ALLOCATING or RELEASING: no new call can enter it. [runs plugin code]
 */
nxmem_verdict nx_gate_ask(nx_module *module, nxmem_unload_info *info);

/* NXMEM_ERR_BUSY with what both sides hold, the axis by name, and what can be done about it. */
nxmem_result nx_gate_refuse(const nx_module *module, const nxmem_unload_info *info, nxmem_verdict verdict,
                            nxmem_error *error);

/* Live and quarantined allocations of a module's open and held allocators, and what closed ones left. */
uint64_t nx_module_allocations(nx_module *module);

#endif /* NX_GATE_H */
