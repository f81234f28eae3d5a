/*
 * scripted_lazy.h: virtual backing and shared mapping: the honest slots of lazy mechanisms, and their pieces.
 *
 * Attackers: none by intent; the rows spoil what these publish.
 * Promise: every argument is checked before anything is touched; no lock is held over a call into the host.
 */
#ifndef NXMEM_SCRIPTED_LAZY_H
#define NXMEM_SCRIPTED_LAZY_H

#include "scripted_base.h"

/* ---- scripted_allocator.c --------------------------------------------------------------------------------------- */

NxmemStatus nx_check_request(nx_allocator *allocator, const NxmemAllocRequest *request);
NxmemStatus nx_check_result_room(const NxmemAllocResult *result_out);

/* ---- scripted_backing.c ----------------------------------------------------------------------------------------- */

/* Allocate lazily: everything committed, or only the ranges that the request names. The request was checked. */
NxmemStatus nx_allocate_span(nx_allocator *allocator, const NxmemAllocRequest *request, int everything,
                             NxmemAllocResult *result_out);

/* The tables, spoilt as the row says, in memory of their own until the allocator's last release. */
const NxmemVirtualBackingVtable *nx_publish_backing(nx_allocator *allocator);
const NxmemSharedMappingVtable *nx_publish_sharing(nx_allocator *allocator);

NxmemStatus nx_allocate_committed(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out);
NxmemStatus nx_commit_range(void *ctx, const NxmemRangeRequest *request);
NxmemStatus nx_decommit_range(void *ctx, const NxmemRangeRequest *request, uint64_t *unmapped_out);
NxmemStatus nx_mapped_for_ranges(void *ctx, const NxmemRangeRequest *requests, uint64_t count, uint64_t *mapped_out);
NxmemStatus nx_mapped_for_allocation(void *ctx, const NxmemAllocRequest *request, uint64_t *mapped_out);
NxmemStatus nx_committed_bytes(void *ctx, const NxmemAllocation *allocation, uint64_t *committed_out);

/* ---- scripted_prefix.c ------------------------------------------------------------------------------------------ */

NxmemStatus nx_create_prefix(void *ctx, uint64_t mechanism_id, uint64_t bytes, NxmemSharedPrefixHandle *handle_out);
NxmemStatus nx_retain_prefix(void *ctx, const NxmemSharedPrefixHandle *handle);
NxmemStatus nx_release_prefix(void *ctx, const NxmemSharedPrefixHandle *handle);
NxmemStatus nx_incremental_bytes(void *ctx, const NxmemSharedPrefixHandle *handle, uint64_t *bytes_out);
NxmemStatus nx_commit_prefix(void *ctx, const NxmemSharedPrefixCommitRequest *request,
                             NxmemSharedPrefixCommitInfo *info_out);

#endif /* NXMEM_SCRIPTED_LAZY_H */
