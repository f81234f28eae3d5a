/* What plugins kept, or whose end nobody can know: a list for each host. Private to the host. */
#ifndef NX_QUARANTINE_H
#define NX_QUARANTINE_H

#include "objects.h"

/* Records that a host lists; what comes behind them is counted only. */
enum { NX_QUARANTINE_MAX = 65536 };

/*
 * List something with the allocator's host: `what` without allocator, mechanism and device, which are filled in here.
 * Where there is no memory for it, or its host is gone, it is not listed; the books count it all the same. [any-thread]
 */
void nx_quarantine_list(nx_allocator *allocator, const nxmem_quarantined *what);

/* The same of an allocation, before its record is given back. The caller owns it. [any-thread] */
void nx_quarantine_list_record(nx_allocator *allocator, nx_allocation *record, uint64_t residual,
                               uint32_t plugin_status, uint32_t reason);

/* Free a host's list. Its handle names nothing any more. [any-thread] */
void nx_quarantine_free(uint64_t host);

#endif /* NX_QUARANTINE_H */
