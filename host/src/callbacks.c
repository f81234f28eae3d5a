/*
 * callbacks.c: calls from a plugin into the host.
 *
 * Attackers: a plugin, on any thread, at any moment, with an invented, stale, closed or NULL context and any pointer.
 * Promise: the context is a handle that is looked up, never followed; whatever arrives is answered with a status, and
 * a refusal is counted.
 *
 * A callback holds a share in the slot it names while it runs: the allocator may be closed meanwhile, its slot goes to
 * nobody else.
 */
#include "callbacks.h"

#include <pthread.h>
#include <string.h>
#include <sys/random.h>

#include "callback_pages.h"
#include "deferred.h"
#include "fetch.h"
#include "nxmem/completion.h"
#include "nxmem/handle.h"
#include "nxmem/prefix.h"
#include "nxmem/status.h"
#include "reclaim.h"
#include "violations.h"

static NxmemStatus answer(uint32_t code, const char *text) {
  NxmemStatus status;
  nxmem_status_build(&status, code, (const uint8_t *)text, (uint32_t)strlen(text));
  return status;
}

/*
 * Calls whose context names nothing belong to no host that could be told; they are counted with every host of the
 * process.
 */
static nx_counter strays;

uint64_t nx_stray_callbacks(void) { return atomic_load(&strays); }

static NxmemStatus answer_stray(void) {
  nx_count(&strays);
  return answer(NXMEM_STATUS_INVALID_ARGUMENT, "host_ctx names no open allocator; pass the one from open_allocator");
}

/* ---- Contexts ---------------------------------------------------------------------------------------------------- */

/*
 * A context is the allocator's handle behind a number drawn once, so that it serves a plugin neither as a handle of
 * the API nor as a pattern for others.
 */
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

/* Being opened, open, closing, or closed with something outstanding. */
static int names_present(nx_allocator *a, uint64_t handle) {
  return nxmem_presence_of(nxmem_check_claim(atomic_load(&a->slot.word), handle)) != NXMEM_PRESENCE_GONE;
}

/* The allocator that a context names, with a share in its slot; NULL for any number that names none. */
static nx_allocator *enter(uint64_t handle) {
  nx_allocator *a = nx_is_forked() ? NULL : (nx_allocator *)(void *)nx_table_find(&nx_allocators, handle);
  if (a == NULL || !names_present(a, handle) || !nx_share_take(a)) return NULL;
  if (names_present(a, handle)) return a; /* with the share it stays this one */
  nx_share_give(a);
  return NULL;
}

/* ---- Answers ----------------------------------------------------------------------------------------------------- */

static uint32_t status_of(nxmem_verdict v) {
  switch (v.reason) {
    case NXMEM_REASON_NONE:
      return NXMEM_STATUS_OK;
    case NXMEM_REASON_SHORT_COMPLETION:
    case NXMEM_REASON_SHORT_REQUEST:
      return NXMEM_STATUS_SHORT_STRUCT;
    case NXMEM_REASON_OTHER_MECHANISM:
      return NXMEM_STATUS_WRONG_MECHANISM;
    case NXMEM_REASON_OTHER_DEVICE:
      return NXMEM_STATUS_WRONG_DEVICE;
    case NXMEM_REASON_UNKNOWN_ALLOCATION:
    case NXMEM_REASON_STALE_HANDLE:
    case NXMEM_REASON_OTHER_OWNER:
    case NXMEM_REASON_NOT_QUEUED:
    case NXMEM_REASON_OTHER_TICKET:
      return NXMEM_STATUS_UNKNOWN_ALLOCATION;
    default:
      return NXMEM_STATUS_INVALID_ARGUMENT;
  }
}

static NxmemStatus answer_verdict(nxmem_verdict v) {
  const uint32_t code = status_of(v);
  return answer(code, code == NXMEM_STATUS_OK ? "" : nxmem_reason_text(v.reason));
}

/* ---- Completion -------------------------------------------------------------------------------------------------- */

static NxmemStatus complete(nx_allocator *a, uint64_t handle, const NxmemReleaseCompletion *published) {
  nx_snapshot snapshot;
  const void *view = NULL;
  NxmemReleaseCompletion taken;
  nxmem_verdict v = nx_fetch_table(a->deferral.fetch, published, NXMEM_COMPLETION_BYTES, &snapshot, &view);
  if (v.reason == NXMEM_REASON_NONE) v = nxmem_completion_take(view, &taken);
  if (v.reason == NXMEM_REASON_NONE) v = nx_deferred_complete(a, handle, &taken);
  if (v.reason != NXMEM_REASON_NONE) nx_violation_by_callback(a, v);
  return answer_verdict(v);
}

static NxmemStatus release_completed(void *host_ctx, const NxmemReleaseCompletion *completion) {
  const uint64_t handle = handle_of(host_ctx);
  nx_allocator *a = enter(handle);
  if (a == NULL) return answer_stray();
  const NxmemStatus status = complete(a, handle, completion);
  nx_share_give(a);
  return status;
}

/* ---- Reclaim ----------------------------------------------------------------------------------------------------- */

/* A place that can be written to, as far as its address tells. */
static int is_place(const uint64_t *out) {
  return nxmem_check_table_address((uintptr_t)out).reason == NXMEM_REASON_NONE;
}

static NxmemStatus answer_reclaim(nx_allocator *a, nxmem_verdict v, nx_reclaim_end end) {
  switch (end) {
    case NX_RECLAIM_DONE:
      return answer(NXMEM_STATUS_OK, "");
    case NX_RECLAIM_NO_HOOK:
      return answer(NXMEM_STATUS_UNSUPPORTED_CAPABILITY, "this host has no reclaim hook; fail the allocation");
    case NX_RECLAIM_NOT_NOW:
      return answer(NXMEM_STATUS_BUSY, "the allocator is being opened, closed or unloaded; fail the allocation");
    case NX_RECLAIM_HOOK_REFUSED:
      return answer(NXMEM_STATUS_CALLBACK_FAILED, "the host's reclaim hook refused; fail the allocation");
    default:
      nx_violation_by_callback(a, v);
      return answer_verdict(v);
  }
}

static NxmemStatus reclaim(nx_allocator *a, uint64_t handle, const NxmemReclaimRequest *request,
                           uint64_t *reclaimed_out) {
  if (!is_place(reclaimed_out))
    return answer(NXMEM_STATUS_INVALID_ARGUMENT, "reclaimed_out is NULL or misaligned; pass a place for the count");
  nxmem_verdict v = {NXMEM_REASON_NONE, 0, 0, 0};
  const nx_reclaim_end end = nx_reclaim(a, handle, request, reclaimed_out, &v);
  return answer_reclaim(a, v, end);
}

static NxmemStatus request_reclaim(void *host_ctx, const NxmemReclaimRequest *request, uint64_t *reclaimed_out) {
  if (is_place(reclaimed_out)) *reclaimed_out = 0;
  const uint64_t handle = handle_of(host_ctx);
  nx_allocator *a = enter(handle);
  if (a == NULL) return answer_stray();
  const NxmemStatus status = reclaim(a, handle, request, reclaimed_out);
  nx_share_give(a);
  return status;
}

/* ---- Tables ------------------------------------------------------------------------------------------------------ */

const NxmemHostCallbacks *nx_callbacks_fill(nx_allocator *allocator, uint32_t abi_minor) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  (void)pthread_once(&once, draw_salt);
  NxmemHostCallbacks *table = nx_callback_page_written(allocator->slot.self);
  table->struct_size = sizeof *table;
  table->abi_minor = abi_minor;
  table->host_ctx = context_of(nx_slot_handle(&allocator->slot));
  table->request_reclaim = request_reclaim;
  table->release_completed = release_completed;
  return nx_callback_page_shown(allocator->slot.self);
}
