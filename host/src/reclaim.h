/* A plugin asks for memory back. Private to the host. */
#ifndef NX_RECLAIM_H
#define NX_RECLAIM_H

#include "nxmem/verdict.h"
#include "objects.h"

typedef enum nx_reclaim_end {
  NX_RECLAIM_DONE,
  NX_RECLAIM_NO_HOOK,
  NX_RECLAIM_NOT_NOW, /* the allocator or its module is on its way in or out */
  NX_RECLAIM_REFUSED, /* by the core: *verdict_out says why */
  NX_RECLAIM_HOOK_REFUSED
} nx_reclaim_end;

/*
 * Read a request, judge it, ask the program's hook. The caller holds a share in the allocator; `handle` is the
 * allocator's. *reclaimed_out is written on DONE only, with no more than was asked for. [runs the program's code]
 */
nx_reclaim_end nx_reclaim(nx_allocator *allocator, uint64_t handle, const NxmemReclaimRequest *published,
                          uint64_t *reclaimed_out, nxmem_verdict *verdict_out);

#endif /* NX_RECLAIM_H */
