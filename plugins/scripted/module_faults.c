/*
 * module_faults.c: the exports of libnxmem_fault_NAME.so; NXMEM_FAULT says which row of fault_rows.h it commits.
 *
 * Attackers: the row. Three more faults come from an export left out (NXMEM_WITHOUT_...), one from how it is linked.
 * Promise: exactly the row's defect; all else is the honest base.
 */
#include "fault_rows.h"

/* The row this module was built for; NULL where the build named one that is not there. */
NX_EXPORT const char *nxmem_scripted_fault(void) {
  const nx_fault *fault = nx_find_fault(NXMEM_FAULT);
  return fault == NULL ? NULL : fault->name;
}

#ifndef NXMEM_WITHOUT_NEGOTIATE
NX_EXPORT NxmemStatus NxmemNegotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response) {
  return nx_fault_negotiate(nx_find_fault(NXMEM_FAULT), request, response);
}
#endif

#ifndef NXMEM_WITHOUT_FACTORIES
NX_EXPORT NxmemStatus NxmemCreateAllocatorFactories(const NxmemAllocatorFactoryVtable **out_factories,
                                                    uint64_t max_factories, uint64_t *out_count) {
  return nx_fault_enumerate(nx_find_fault(NXMEM_FAULT), out_factories, max_factories, out_count);
}
#endif

#ifndef NXMEM_WITHOUT_UNLOAD
NX_EXPORT NxmemStatus NxmemQueryUnloadReadiness(NxmemUnloadReport *report_out) {
  return nx_fault_report(nx_find_fault(NXMEM_FAULT), report_out);
}
#endif
