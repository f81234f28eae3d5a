/*
 * module_faults.c: the exports of libnxmem_fault_NAME.so; NXMEM_FAULT says which row of fault_rows.h it commits.
 *
 * Attackers: the row. Three more faults come from an export left out (NXMEM_WITHOUT_...), two from what keeps the
 * module mapped.
 * Promise: exactly the row's defect; all else is the honest base.
 */
#include "fault_rows.h"

/* The row this module was built for; NULL where the build named one that is not there. */
NX_EXPORT const char *nxmem_scripted_fault(void) {
  const nx_fault *fault = nx_find_fault(NXMEM_FAULT);
  return fault == NULL ? NULL : fault->name;
}

__attribute__((constructor)) static void load(void) {
  const nx_fault *fault = nx_find_fault(NXMEM_FAULT);
  if (fault != NULL && fault->at_load != NULL) fault->at_load();
}

__attribute__((destructor)) static void unload(void) {
  const nx_fault *fault = nx_find_fault(NXMEM_FAULT);
  if (fault != NULL && fault->at_unload != NULL) fault->at_unload();
}

#ifdef NXMEM_UNIQUE
/* Bound once for the whole process, so the loader never unmaps the module that defines it. */
__asm__(
    ".data\n"
    ".globl nxmem_scripted_unique\n"
    ".type nxmem_scripted_unique, %gnu_unique_object\n"
    ".size nxmem_scripted_unique, 4\n"
    "nxmem_scripted_unique: .long 1\n"
    ".text\n");
extern __attribute__((visibility("default"))) int nxmem_scripted_unique;

/* The loader makes it unique when something refers to it. */
NX_EXPORT int nxmem_scripted_unique_value(void);
NX_EXPORT int nxmem_scripted_unique_value(void) { return nxmem_scripted_unique; }
#endif

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
