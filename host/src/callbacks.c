/*
 * callbacks.c: calls from a plugin into the host.
 *
 * Attackers: a plugin, on any thread, at any moment, with an invented, stale, closed or NULL context and any pointer.
 * Promise: the context is a handle that is looked up, never followed; whatever arrives is answered with a status, and a refusal is counted.
 */
#include "callbacks.h"

#include <pthread.h>
#include <string.h>
#include <sys/random.h>

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
  const nxmem_presence presence = nxmem_presence_of(claim);
  return presence != NXMEM_PRESENCE_GONE && presence != NXMEM_PRESENCE_KEPT;
}

/* A context is the allocator's handle behind a number drawn once, so that it serves a plugin neither as a handle of the API nor as a pattern for others. */
static _Atomic uint64_t salt;

static void draw_salt(void) {
  uint64_t drawn;
  if (getrandom(&drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn) drawn = (uint64_t)(uintptr_t)&salt;
  atomic_store(&salt, drawn);
}

static void *context_of(uint64_t handle) {
  return (void *)(uintptr_t)(handle ^ atomic_load_explicit(&salt, memory_order_relaxed));
}
static uint64_t handle_of(const void *context) {
  return (uint64_t)(uintptr_t)context ^ atomic_load_explicit(&salt, memory_order_relaxed);
}

/* The host whose open allocator a context names. NULL, and counted as a stray, for any number that names none. */
static nx_host *find_caller(void *host_ctx) {
  const uint64_t handle = handle_of(host_ctx);
  nx_allocator *a = nx_is_forked() ? NULL : (nx_allocator *)(void *)nx_table_find(&nx_allocators, handle);
  if (a != NULL && is_present(nxmem_check_claim(atomic_load(&a->slot.word), handle))) {
    const uint64_t host = atomic_load_explicit(&a->host, memory_order_acquire);
    /* Still the same allocator? Then that was its host. */
    if (is_present(nxmem_check_claim(atomic_load(&a->slot.word), handle))) return nx_host_of(host);
  }
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
  nx_host *host = find_caller(host_ctx);
  if (host == NULL)
    return answer(NXMEM_STATUS_INVALID_ARGUMENT, "host_ctx names no open allocator; pass the one from open_allocator");
  nx_count(&host->refused_callbacks);
  return answer(NXMEM_STATUS_UNKNOWN_ALLOCATION, "this host has queued no release; complete only what was enqueued");
}

void nx_callbacks_fill(nx_allocator *allocator, uint32_t abi_minor) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  (void)pthread_once(&once, draw_salt);
  allocator->callbacks.struct_size = sizeof allocator->callbacks;
  allocator->callbacks.abi_minor = abi_minor;
  allocator->callbacks.host_ctx = context_of(nx_slot_handle(&allocator->slot));
  allocator->callbacks.request_reclaim = request_reclaim;
  allocator->callbacks.release_completed = release_completed;
}
