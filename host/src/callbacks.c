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
 * A context is drawn for each open: the allocator's slot, behind 32 bits that nobody can work out from another one. It serves a plugin neither as a handle of the API
 * nor to speak for a neighbour; one that reads a neighbour's table in memory has it all the same.
 */
static uint64_t draw_context(uint32_t slot) {
  static _Atomic uint32_t turn;
  uint32_t drawn = 0;
  while (drawn == 0)
    if (getrandom(&drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn)
      drawn = (uint32_t)(uintptr_t)&turn ^ atomic_fetch_add(&turn, 2654435761u);
  return (uint64_t)drawn << 32 | (slot + 1u);
}

static nx_allocator *slot_of(const void *context) {
  return (nx_allocator *)(void *)nx_table_find(&nx_allocators, (uint64_t)(uintptr_t)context);
}

/* Being opened, open, closing, or closed with something outstanding. */
static int names_present(nx_allocator *a, const void *context) {
  if (atomic_load(&a->deferral.context) != (uint64_t)(uintptr_t)context) return 0;
  return nxmem_presence_of(nxmem_check_claim(atomic_load(&a->slot.word), nx_slot_handle(&a->slot))) !=
         NXMEM_PRESENCE_GONE;
}

/* The allocator that a context names, with a share in its slot; NULL for any number that names none. */
static nx_allocator *enter(const void *context) {
  nx_allocator *a = nx_is_forked() ? NULL : slot_of(context);
  if (a == NULL || !names_present(a, context) || !nx_share_take(a)) return NULL;
  if (names_present(a, context)) return a; /* with the share it stays this one */
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
  nx_allocator *a = enter(host_ctx);
  if (a == NULL) return answer_stray();
  const NxmemStatus status = complete(a, nx_slot_handle(&a->slot), completion);
  nx_share_give(a);
  return status;
}

/* ---- Reclaim ----------------------------------------------------------------------------------------------------- */

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

static NxmemStatus answer_no_place(void) {
  return answer(NXMEM_STATUS_INVALID_ARGUMENT,
                "reclaimed_out cannot be written to; pass an aligned place for the count");
}

static NxmemStatus reclaim(nx_allocator *a, uint64_t handle, const NxmemReclaimRequest *request,
                           uint64_t *reclaimed_out) {
  nxmem_verdict v = {NXMEM_REASON_NONE, 0, 0, 0};
  uint64_t reclaimed = 0;
  /* Written before the hook is asked: what it gives back must not be lost for want of a place to say so. */
  if (!nx_store_count(a->deferral.fetch, reclaimed_out, 0)) return answer_no_place();
  const nx_reclaim_end end = nx_reclaim(a, handle, request, &reclaimed, &v);
  if (end == NX_RECLAIM_DONE && !nx_store_count(a->deferral.fetch, reclaimed_out, reclaimed)) return answer_no_place();
  return answer_reclaim(a, v, end);
}

static NxmemStatus request_reclaim(void *host_ctx, const NxmemReclaimRequest *request, uint64_t *reclaimed_out) {
  nx_allocator *a = enter(host_ctx);
  if (a == NULL) {
    if (nx_fetch_guarded_works()) (void)nx_store_count(NXMEM_FETCH_GUARDED, reclaimed_out, 0);
    return answer_stray();
  }
  const NxmemStatus status = reclaim(a, nx_slot_handle(&a->slot), request, reclaimed_out);
  nx_share_give(a);
  return status;
}

/* ---- Tables ------------------------------------------------------------------------------------------------------ */

const NxmemHostCallbacks *nx_callbacks_fill(nx_allocator *allocator, uint32_t abi_minor) {
  const uint64_t context = draw_context(allocator->slot.self);
  atomic_store(&allocator->deferral.context, context);
  NxmemHostCallbacks *table = nx_callback_page_written(allocator->slot.self);
  table->struct_size = sizeof *table;
  table->abi_minor = abi_minor;
  table->host_ctx = (void *)(uintptr_t)context;
  table->request_reclaim = request_reclaim;
  table->release_completed = release_completed;
  return nx_callback_page_shown(allocator->slot.self);
}
