/*
 * close.c: closing an allocator: exactly one release, never under a call, never a wait.
 *
 * Attackers: callers that close twice, from two threads, or from inside a plugin's slot; a plugin that keeps
 * allocations back.
 * Promise: the gate shuts before the count is read; what cannot be handed back is quarantined and stays charged to the
 * module; the slot goes to nobody else while a queued release or a callback can name it.
 *
 * C1 to C3 are steps of proofs/models/close_completion.pml, G1 and G2 of proofs/models/striped_gate.pml.
 */
#include <inttypes.h>

#include "books.h"
#include "deferred.h"
#include "error.h"
#include "nxmem/handle.h"
#include "objects.h"
#include "release.h"
#include "sharing.h"

/*
 * Become the one closer: from LIVE, or from a close that was left waiting for calls inside. The word reads RELEASING
 * with one user while a closer works, RELEASING with none while it waits.
 */
static int claim(nx_allocator *a, uint64_t handle) {
  const uint32_t generation = nxmem_handle_generation(handle);
  const uint64_t working = nxmem_word_make(generation, 1u, NXMEM_SLOT_RELEASING);
  uint64_t open = nxmem_word_make(generation, 0u, NXMEM_SLOT_LIVE);
  if (atomic_compare_exchange_strong(&a->slot.word, &open, working)) return 1; /* C1, G1 */
  uint64_t waiting = nxmem_word_make(generation, 0u, NXMEM_SLOT_RELEASING);
  return atomic_compare_exchange_strong(&a->slot.word, &waiting, working);
}

static nxmem_result busy(uint64_t n, const char *what, nxmem_error *error) {
  (void)nx_fail(error, NXMEM_ERR_BUSY, "close allocator: found %" PRIu64 " %s, needed none", n, what);
  if (error != NULL) error->found = n;
  return NXMEM_ERR_BUSY;
}

static const char live_allocations[] = "live allocations";

static nxmem_result back_out(nx_allocator *a, uint64_t n, const char *what, nxmem_error *error) {
  atomic_store(&a->deferral.closed, 0);
  nx_slot_set(&a->slot, NXMEM_SLOT_LIVE);
  return busy(n, what, error);
}

/*
 * From here on the slot is the shares': whoever gives up the last one frees it. It is held before its records are
 * looked through: a completion that quarantines one meanwhile sees that, or its record is found. The module counts it
 * as held before it no longer counts it as an allocator.
 */
static void hold(nx_allocator *a, nx_module *module) {
  atomic_fetch_add(&module->held, 1u);
  nx_slot_set(&a->slot, NXMEM_SLOT_QUARANTINED);
  atomic_thread_fence(memory_order_seq_cst); /* held before looked through; deferred.c, settle() has the other half */
  nx_release_forget_quarantined(a);
  nx_prefix_forget_quarantined(a);
  nx_share_give(a); /* C3 */
  atomic_fetch_sub(&module->allocators, 1u);
}

static uint64_t queued(nx_allocator *a) { return atomic_load(&a->deferral.queued); }

/*
 * Allocations before the prefixes that they map. While one is handed back, a completion may bring a queued one back that
 * was passed already: again, as long as something came out of the queue. Nothing gets into it behind the gate.
 */
static void hand_all_back(nx_allocator *a) {
  uint64_t before;
  do {
    before = queued(a);
    nx_release_all(a);
    nx_prefix_release_all(a);
  } while (nx_books_live(a) != 0 && queued(a) < before);
}

/*
 * Live ones first, so that nothing is drained for a close that cannot be. Draining may bring some back; those that
 * come back behind the mark are quarantined (deferred.c, may_revive).
 */
static nxmem_result close_claimed(nx_allocator *a, uint32_t flags, nxmem_error *error) {
  const int hand_back = (flags & NXMEM_CLOSE_RELEASE_LIVE) != 0;
  const uint64_t inside = nx_allocator_inside(a);
  if (inside != 0) {
    nx_slot_set(&a->slot, NXMEM_SLOT_RELEASING);
    return busy(inside, "calls inside the plugin", error);
  }
  if (hand_back) hand_all_back(a);
  const uint64_t prefixes = nx_prefix_count(a);
  if (prefixes != 0) return back_out(a, prefixes, "live prefixes", error);
  if (nx_books_live(a) != 0) return back_out(a, nx_books_live(a), live_allocations, error);
  nx_deferred_drain_all(a);
  (void)atomic_exchange(&a->deferral.closed, 1u); /* C2 */
  if (hand_back) nx_release_all(a);
  const uint64_t live = nx_books_live(a);
  if (live != 0) return back_out(a, live, live_allocations, error);
  /* G2 */
  a->table.release(a->table.ctx);
  hold(a, nx_module_at(atomic_load_explicit(&a->module, memory_order_relaxed)));
  return NXMEM_OK;
}

/* Why the claim failed: closed already, or another closer at work (or just done without success). */
static nxmem_result refuse(nx_allocator *a, uint64_t handle, nxmem_error *error) {
  const nxmem_verdict v = nxmem_check_lost_claim(atomic_load(&a->slot.word), handle);
  const nxmem_presence presence = nxmem_presence_of(v);
  if (presence == NXMEM_PRESENCE_LEAVING || presence == NXMEM_PRESENCE_LIVE)
    return nx_fail_verdict(error, NXMEM_ERR_BUSY, v, "close allocator: another thread is closing it");
  return nx_fail_verdict(error, NXMEM_ERR_STALE_HANDLE, v, "close allocator");
}

nxmem_result nxmem_allocator_close(nxmem_allocator handle, uint32_t flags, nxmem_error *error) {
  if (nx_is_forked()) return nx_fail(error, NXMEM_ERR_FORKED, "close allocator: this process is a forked child");
  if ((flags & ~(uint32_t)NXMEM_CLOSE_RELEASE_LIVE) != 0)
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "close allocator: found unknown flags 0x%" PRIx32, flags);
  nx_allocator *a = (nx_allocator *)(void *)nx_table_find(&nx_allocators, handle.id);
  if (a == NULL) return nx_fail(error, NXMEM_ERR_STALE_HANDLE, "close allocator: the handle was never issued");
  if (!claim(a, handle.id)) return refuse(a, handle.id, error);
  return close_claimed(a, flags, error);
}
