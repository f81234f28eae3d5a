/*
 * registry_lost.c: an allocator whose device is gone.
 *
 * Attackers: callers and plugin threads that know nothing of the loss; a close that is under way.
 * Promise: once shut, no call is let in, by whatever handle, and no close hands anything back; when the loss is confirmed the plugin's release is called once, and nothing
 * that the host noted of the dead keeps its module.
 */
#include "books.h"
#include "deferred.h"
#include "guard.h"
#include "nxmem/handle.h"
#include "registry.h"
#include "sharing.h"

/* In the users' place of RELEASING: a closer at work counts one there, one that waits none; neither takes this for its own. */
enum { LOST = 2 };

/* From open, or from a close that waits. One that is at work is past the point where calls are let in, and ends it. */
static void shut(nx_allocator *a, uint64_t handle) {
  const uint32_t generation = nxmem_handle_generation(handle);
  const uint64_t lost = nxmem_word_make(generation, LOST, NXMEM_SLOT_RELEASING);
  uint64_t open = nxmem_word_make(generation, 0u, NXMEM_SLOT_LIVE);
  if (atomic_compare_exchange_strong(&a->slot.word, &open, lost)) return;
  uint64_t waiting = nxmem_word_make(generation, 0u, NXMEM_SLOT_RELEASING);
  (void)atomic_compare_exchange_strong(&a->slot.word, &waiting, lost);
}

uint64_t nx_lost_shut(uint64_t allocator) {
  nx_allocator *a = nx_allocator_of(allocator);
  shut(a, allocator);
  return nx_allocator_inside(a);
}

static void tell_manager(nx_allocation *record) {
  const uint64_t id = nx_slot_handle(&record->slot);
  nx_side *side = nx_side_of(id);
  const uint64_t word = side == NULL ? 0u : atomic_load(&side->word);
  if (!nxmem_same_generation(word, id) || nxmem_word_state(word) != NXMEM_SLOT_QUARANTINED) return;
  struct nx_account *account = atomic_load_explicit(&side->account, memory_order_relaxed);
  if (account != NULL) nx_charge_forget(account, side, id);
}

/* Its address is nobody's any more. The link is read before the record goes (release.c, keep_record). */
static uint64_t forget(nx_allocator *a) {
  uint64_t forgotten = 0;
  uint64_t link = atomic_exchange(&a->kept_records, 0u);
  while (link != 0u) {
    nx_allocation *record = (nx_allocation *)(void *)nx_table_at(&nx_allocations, (uint32_t)link - 1u);
    link = atomic_load_explicit(&record->owned, memory_order_relaxed);
    tell_manager(record);
    nx_guard_leave(a, record);
    nx_table_give(&nx_allocations, &record->slot);
    forgotten++;
  }
  return forgotten;
}

/* Live ones that no binding made: somebody went past the registry. They are kept, so that one list has all. */
static void keep_strays(nx_allocator *a, uint64_t handle) {
  const uint32_t count = atomic_load(&nx_allocations.count);
  for (uint32_t i = 0; i < count && nx_books_live(a) != 0; i++) {
    nx_allocation *record = (nx_allocation *)(void *)nx_table_at(&nx_allocations, i);
    if (!nx_record_claim_owned(record, (nxmem_allocator){handle}, NXMEM_SLOT_LIVE)) continue;
    const nx_release_answer answer = {.fate = NXMEM_FATE_QUARANTINED, .residual = NXMEM_UNWRITTEN_COUNT};
    nx_release_settle(a, record, &answer);
  }
}

/* What has no record (an answer that was refused) stays charged to the module: its address is in the index for good. */
static void forget_books(nx_allocator *a, uint64_t forgotten) {
  const uint64_t quarantined = atomic_load(&a->quarantined);
  if (quarantined <= forgotten)
    nx_books_reset(a);
  else
    atomic_store(&a->quarantined, quarantined - forgotten);
}

/* As close.c ends a close: held before it is no allocator any more, and the slot is the shares'. */
int nx_lost_bury(uint64_t allocator) {
  nx_allocator *a = nx_allocator_of(allocator);
  if (nx_prefix_count(a) != 0) return 0;
  nx_module *module = nx_module_at(atomic_load_explicit(&a->module, memory_order_relaxed));
  (void)atomic_exchange(&a->deferral.closed, 1u);
  keep_strays(a, allocator);
  forget_books(a, forget(a));
  NX_STEP("bury: forgotten");
  a->table.release(a->table.ctx);
  atomic_fetch_add(&module->held, 1u);
  nx_slot_show(&a->slot, allocator, NXMEM_SLOT_QUARANTINED);
  atomic_thread_fence(memory_order_seq_cst);
  nx_prefix_forget_quarantined(a);
  nx_share_give(a);
  atomic_fetch_sub(&module->allocators, 1u);
  return 1;
}
