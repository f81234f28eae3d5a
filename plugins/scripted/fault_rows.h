/*
 * fault_rows.h: faults of a whole module: negotiation, the list of factories, a factory's table or name, the report.
 *
 * Attackers: these rows. One row, one defect, one module (libnxmem_fault_NAME.so): a host refuses a module as a whole.
 * Promise: what a row leaves NULL or zero is honest; the mechanism behind a good factory is always `eager`.
 */
#ifndef NXMEM_FAULT_ROWS_H
#define NXMEM_FAULT_ROWS_H

#include "scripted_base.h"

typedef struct nx_fault {
  const char *name;

  /* After an honest negotiation: an edit of the response, and another status than OK. */
  void (*edit_response)(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response);
  uint32_t negotiate_status;

  /* Factories to publish, and how many are counted; none: the honest one. Then an edit, and another status than OK. */
  const nx_listing *listings;
  uint64_t listing_count;
  NxmemStatus (*edit_entries)(const NxmemAllocatorFactoryVtable **entries, uint64_t *count);
  uint64_t edited; /* entries that the edit needs room for, where that is more than the factories are */

  /* Instead of the honest report. */
  NxmemStatus (*report)(NxmemUnloadReport *report_out);

  /* Inside dlopen, and inside the dlclose that unmaps. */
  void (*at_load)(void);
  void (*at_unload)(void);
} nx_fault;

/*
 * A group of rows: fault_negotiation.c, fault_lists.c, fault_factories.c, fault_modules.c, fault_rows.c (reports and
 * link faults).
 */
typedef struct nx_fault_group {
  const nx_fault *rows;
  uint32_t count;
} nx_fault_group;

extern const nx_fault_group nx_negotiation_faults;
extern const nx_fault_group nx_list_faults;
extern const nx_fault_group nx_factory_faults;
extern const nx_fault_group nx_module_faults;

#define NX_GROUP(rows) \
  { (rows), sizeof(rows) / sizeof((rows)[0]) }

/* NULL where no row has that name. */
const nx_fault *nx_find_fault(const char *name);

/* What a module with that row answers. */
NxmemStatus nx_fault_negotiate(const nx_fault *fault, const NxmemNegotiateRequest *request,
                               NxmemNegotiateResponse *response);
NxmemStatus nx_fault_enumerate(const nx_fault *fault, const NxmemAllocatorFactoryVtable **out_factories,
                               uint64_t max_factories, uint64_t *out_count);
NxmemStatus nx_fault_report(const nx_fault *fault, NxmemUnloadReport *report_out);

#endif /* NXMEM_FAULT_ROWS_H */
