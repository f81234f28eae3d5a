/*
 * slots.h: the functions behind an allocator's tables, by the file that has them.
 *
 * Attackers: a host with wrong records, from any thread, also from inside the callbacks it gave.
 * Promise: each is answered as the contract says; no lock is held while the host runs.
 */
#ifndef NX_VMM_SLOTS_H
#define NX_VMM_SLOTS_H

#include "records.h"

/* allocator.c */
NxmemStatus nx_slot_allocate(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out);
NxmemStatus nx_slot_deallocate(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped_bytes_out);
NxmemStatus nx_slot_release_allocation(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *outcome_out);
void nx_slot_retain(void *ctx);
void nx_slot_release(void *ctx);
/* Requests that both ways to allocate take; the ranges are looked at where `whole`. */
NxmemStatus nx_allocate(nx_engine *engine, const NxmemAllocRequest *request, int whole, NxmemAllocResult *result_out);
nx_said nx_check_alloc_request(const nx_engine *engine, const NxmemAllocRequest *request);

/* queue.c */
NxmemStatus nx_slot_enqueue_release(void *ctx, const NxmemAllocation *allocation, uint64_t *ticket_out);
NxmemStatus nx_slot_drain_releases(void *ctx, uint64_t max, uint64_t *retired_out);
NxmemStatus nx_slot_pending_release_count(void *ctx, uint64_t *count_out);

/* backing.c */
void nx_backing_fill(nx_engine *engine, NxmemVirtualBackingVtable *table);
nx_said nx_check_ranges(const NxmemAllocRequest *request);

/* costs.c */
NxmemStatus nx_slot_mapped_for_ranges(void *ctx, const NxmemRangeRequest *requests, uint64_t count,
                                      uint64_t *mapped_out);
NxmemStatus nx_slot_mapped_for_allocation(void *ctx, const NxmemAllocRequest *request, uint64_t *mapped_out);
NxmemStatus nx_slot_committed_bytes(void *ctx, const NxmemAllocation *allocation, uint64_t *committed_out);
nx_said nx_check_range_request(const nx_engine *engine, const NxmemRangeRequest *request);

/* sharing.c */
void nx_sharing_fill(nx_engine *engine, NxmemSharedMappingVtable *table);

#endif /* NX_VMM_SLOTS_H */
