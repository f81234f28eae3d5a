/*
 * callbacks.c: calls from a plugin into the host.
 *
 * Attackers: a plugin, on any thread, at any moment, with an invented, stale, closed or NULL context and any pointer.
 * Promise: the context is a handle that is looked up, never followed; whatever arrives is answered with a status, and a refusal is counted.
 */
#include "callbacks.h"

#include <string.h>

#include "nxmem/handle.h"
#include "nxmem/status.h"

static NxmemStatus answer(uint32_t code, const char *text) {
  NxmemStatus status;
  nxmem_status_build(&status, code, (const uint8_t *)text, (uint32_t)strlen(text));
  return status;
}

/* Calls whose context names nothing belong to no host that could be told; they are counted with every host of the process. */
static nx_counter strays;

uint64_t nx_stray_callbacks(void) { return atomic_load(&strays); }

/* Of its generation, and being opened, open or closing. */
static int is_present(nxmem_verdict claim) {
  if (claim.reason != NXMEM_REASON_WRONG_STATE) return claim.reason != NXMEM_REASON_STALE_HANDLE;
  return claim.found == NXMEM_SLOT_ALLOCATING || claim.found == NXMEM_SLOT_RELEASING;
}

/* The allocator that a context names. NULL, and counted, for any number that names none. */
static nx_allocator *find_caller(void *host_ctx) {
  const uint64_t handle = (uint64_t)(uintptr_t)host_ctx;
  nx_allocator *a = nx_is_forked() ? NULL : (nx_allocator *)(void *)nx_table_find(&nx_allocators, handle);
  if (a != NULL && is_present(nxmem_check_claim(atomic_load(&a->slot.word), handle))) return a;
  nx_count(&strays);
  return NULL;
}

static NxmemStatus request_reclaim(void *host_ctx, const NxmemReclaimRequest *request, uint64_t *reclaimed_out) {
  (void)request;
  if (reclaimed_out != NULL) *reclaimed_out = 0;
  if (find_caller(host_ctx) == NULL)
    return answer(NXMEM_STATUS_INVALID_ARGUMENT, "host_ctx names no open allocator; pass the one from open_allocator");
  if (reclaimed_out == NULL)
    return answer(NXMEM_STATUS_INVALID_ARGUMENT, "reclaimed_out is NULL; pass a place for the count");
  return answer(NXMEM_STATUS_UNSUPPORTED_CAPABILITY, "this host has no reclaim hook; fail the allocation");
}

static NxmemStatus release_completed(void *host_ctx, const NxmemReleaseCompletion *completion) {
  (void)completion;
  nx_allocator *a = find_caller(host_ctx);
  if (a == NULL)
    return answer(NXMEM_STATUS_INVALID_ARGUMENT, "host_ctx names no open allocator; pass the one from open_allocator");
  nx_count(&nx_host_of(atomic_load_explicit(&a->host, memory_order_relaxed))->refused_callbacks);
  return answer(NXMEM_STATUS_UNKNOWN_ALLOCATION, "this host has queued no release; complete only what was enqueued");
}

void nx_callbacks_fill(nx_allocator *allocator, uint32_t abi_minor) {
  allocator->callbacks.struct_size = sizeof allocator->callbacks;
  allocator->callbacks.abi_minor = abi_minor;
  allocator->callbacks.host_ctx = (void *)(uintptr_t)nx_slot_handle(&allocator->slot);
  allocator->callbacks.request_reclaim = request_reclaim;
  allocator->callbacks.release_completed = release_completed;
}
