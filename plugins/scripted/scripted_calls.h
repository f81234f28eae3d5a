/*
 * scripted_calls.h: how a row calls into the host.
 *
 * Attackers: none here; what is passed may be anything.
 * Promise: every call is counted with the host's answer; without a callback to call nothing happens.
 */
#ifndef NXMEM_SCRIPTED_CALLS_H
#define NXMEM_SCRIPTED_CALLS_H

#include "scripted_base.h"

/* The host's status; UNSUPPORTED_CAPABILITY without a call where it has no such callback. */
NxmemStatus nx_call_reclaim(const NxmemHostCallbacks *host, void *host_ctx, const NxmemReclaimRequest *request,
                            uint64_t *reclaimed_out);
NxmemStatus nx_call_completed(const NxmemHostCallbacks *host, void *host_ctx, const NxmemReleaseCompletion *completion);

/* A proper request for an allocator, and the whole call: *reclaimed_out (may be NULL) is 0 where nothing was written. */
NxmemReclaimRequest nx_reclaim_request(const nx_allocator *allocator, uint64_t bytes);
NxmemStatus nx_ask_for_memory(const nx_allocator *allocator, uint64_t bytes, uint64_t *reclaimed_out);

/* A whole, well-formed completion for an id; its ticket is one that no host ever had. */
NxmemReleaseCompletion nx_strange_completion(const nx_allocator *allocator, uint64_t allocation_id);

#endif /* NXMEM_SCRIPTED_CALLS_H */
