/*
 * scripted_calls.c: how a row calls into the host.
 *
 * Attackers: none here; what is passed may be anything.
 * Promise: every call is counted with the host's answer; without a callback to call, or with a table too short for it,
 * nothing happens.
 */
#include "scripted_calls.h"

#include <stddef.h>

#define NO_SUCH_TICKET 0x7E57u

/* A slot is there where the table that the host declares reaches to its end. */
#define HAS(host, slot) \
  ((host) != NULL && (host)->struct_size >= offsetof(NxmemHostCallbacks, slot) + sizeof((host)->slot))

void *nx_host_ctx_of(const NxmemHostCallbacks *host) { return HAS(host, host_ctx) ? host->host_ctx : NULL; }
int nx_takes_reclaims(const NxmemHostCallbacks *host) {
  return HAS(host, request_reclaim) && host->request_reclaim != NULL;
}
int nx_takes_completions(const NxmemHostCallbacks *host) {
  return HAS(host, release_completed) && host->release_completed != NULL;
}

NxmemStatus nx_call_reclaim(const NxmemHostCallbacks *host, void *host_ctx, const NxmemReclaimRequest *request,
                            uint64_t *reclaimed_out) {
  if (!nx_takes_reclaims(host)) return nx_status(NXMEM_STATUS_UNSUPPORTED_CAPABILITY, "nobody to ask");
  nx_count(NX_PROBE_RECLAIM_CALLS);
  const NxmemStatus status = host->request_reclaim(host_ctx, request, reclaimed_out);
  nx_note(NX_PROBE_RECLAIM_STATUS, status.code);
  if (status.code == NXMEM_STATUS_OK) nx_count(NX_PROBE_RECLAIMS_ACCEPTED);
  if (reclaimed_out != NULL) nx_note(NX_PROBE_RECLAIMED_BYTES, *reclaimed_out);
  return status;
}

NxmemStatus nx_call_completed(const NxmemHostCallbacks *host, void *host_ctx,
                              const NxmemReleaseCompletion *completion) {
  if (!nx_takes_completions(host)) return nx_status(NXMEM_STATUS_UNSUPPORTED_CAPABILITY, "nobody to tell");
  nx_count(NX_PROBE_COMPLETION_CALLS);
  const NxmemStatus status = host->release_completed(host_ctx, completion);
  nx_note(NX_PROBE_COMPLETION_STATUS, status.code);
  if (status.code == NXMEM_STATUS_OK) nx_count(NX_PROBE_COMPLETIONS_ACCEPTED);
  return status;
}

NxmemReclaimRequest nx_reclaim_request(const nx_allocator *allocator, uint64_t bytes) {
  return (NxmemReclaimRequest){sizeof(NxmemReclaimRequest), 0u, allocator->mechanism_id, allocator->device, bytes};
}

NxmemStatus nx_ask_for_memory(const nx_allocator *allocator, uint64_t bytes, uint64_t *reclaimed_out) {
  const NxmemHostCallbacks *host = allocator->callbacks;
  const NxmemReclaimRequest request = nx_reclaim_request(allocator, bytes);
  uint64_t reclaimed = UINT64_MAX;
  const NxmemStatus status = nx_call_reclaim(host, nx_host_ctx_of(host), &request, &reclaimed);
  if (reclaimed_out != NULL) *reclaimed_out = reclaimed == UINT64_MAX ? 0u : reclaimed;
  return status;
}

NxmemReleaseCompletion nx_strange_completion(const nx_allocator *allocator, uint64_t allocation_id) {
  NxmemReleaseCompletion completion = {.struct_size = sizeof completion,
                                       .ticket = NO_SUCH_TICKET,
                                       .mechanism_id = allocator->mechanism_id,
                                       .allocation_id = allocation_id};
  nx_write_outcome(&completion.outcome, NXMEM_RELEASE_COMPLETE, 1u, 1u, 0u, nx_ok());
  return completion;
}
