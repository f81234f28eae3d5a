/*
 * close.c: closing an allocator: exactly one release, never under a call, never a wait.
 *
 * Attackers: callers that close twice, from two threads, or from inside a plugin's slot; a plugin that keeps allocations back.
 * Promise: the gate shuts before the count is read; what cannot be handed back is quarantined and stays charged to the module.
 *
 * C1 to C3 are the steps of proofs/models/close_completion.pml.
 */
#include <inttypes.h>

#include "books.h"
#include "error.h"
#include "nxmem/handle.h"
#include "objects.h"
#include "release.h"

/*
 * Become the one closer: from LIVE, or from a close that was left waiting for calls inside. The word reads RELEASING with one user while a closer
 * works, RELEASING with none while it waits.
 */
static int claim(nx_allocator *a, uint64_t handle) {
  const uint32_t generation = nxmem_handle_generation(handle);
  const uint64_t working = nxmem_word_make(generation, 1u, NXMEM_SLOT_RELEASING);
  uint64_t open = nxmem_word_make(generation, 0u, NXMEM_SLOT_LIVE);
  if (atomic_compare_exchange_strong(&a->slot.word, &open, working)) return 1; /* C1 */
  uint64_t waiting = nxmem_word_make(generation, 0u, NXMEM_SLOT_RELEASING);
  return atomic_compare_exchange_strong(&a->slot.word, &waiting, working);
}

static nxmem_result busy(uint64_t n, const char *what, nxmem_error *error) {
  (void)nx_fail(error, NXMEM_ERR_BUSY, "close allocator: found %" PRIu64 " %s, needed none", n, what);
  if (error != NULL) error->found = n;
  return NXMEM_ERR_BUSY;
}

/* Books that outlive the allocator: what the plugin never gave back. */
static void retain_quarantine(nx_allocator *a, nx_module *module) {
  nx_add(&module->retained, atomic_load(&a->quarantined));
  nx_add(&module->retained_bytes, atomic_load(&a->quarantined_bytes));
  nx_add(&module->retained_owned, nx_books_owned(a));
  /* `residual` is what gone allocations left mapped: it goes with the allocator's own state. */
  nx_add(&module->retained_mapped, nx_books_mapped(a) - nx_books_residual(a));
}

static nxmem_result close_claimed(nx_allocator *a, uint32_t flags, nxmem_error *error) {
  const uint64_t inside = atomic_load(&a->inside);
  if (inside != 0) {
    nx_slot_set(&a->slot, NXMEM_SLOT_RELEASING);
    return busy(inside, "calls inside the plugin", error);
  }
  if ((flags & NXMEM_CLOSE_RELEASE_LIVE) != 0) nx_release_all(a);
  const uint64_t live = nx_books_live(a);
  if (live != 0) {
    nx_slot_set(&a->slot, NXMEM_SLOT_LIVE);
    return busy(live, "live allocations", error);
  }
  nx_module *module = nx_module_at(atomic_load_explicit(&a->module, memory_order_relaxed));
  a->table.release(a->table.ctx); /* C2 */
  nx_release_forget_quarantined(a);
  retain_quarantine(a, module);
  nx_table_give(&nx_allocators, &a->slot); /* C3: nothing is queued, so the closer's share of the slot is the last */
  atomic_fetch_sub(&module->allocators, 1u);
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
