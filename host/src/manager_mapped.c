/*
 * manager_mapped.c: what is mapped and unmapped of an allocation that is published.
 *
 * Attackers: callers that commit a lazy allocation past a limit; plugins whose costs and credits cannot be, or that map what nobody asked for.
 * Promise: what is committed is granted before the plugin maps it, on the mapped axis alone; the books have no less of an allocation than the host's charge of it, as
 * far as it can be counted.
 */
#include "backing.h"
#include "books.h"
#include "error.h"
#include "manager.h"
#include "nxmem/handle.h"

/* The record is pinned: what is found LIVE beside it stays so. NULL: no manager has it. */
static nx_account *account_beside(nx_allocation *record, nx_side **side_out) {
  const uint64_t id = nx_slot_handle(&record->slot);
  nx_side *side = nx_side_of(id);
  if (side == NULL || !nxmem_is_claimable(atomic_load(&side->word), id)) return NULL;
  *side_out = side;
  return atomic_load_explicit(&side->account, memory_order_relaxed);
}

/* Its transaction has not published it yet: whoever named it guessed. */
static int is_being_made(nx_allocation *record) {
  const uint64_t id = nx_slot_handle(&record->slot);
  nx_side *side = nx_side_of(id);
  const uint64_t word = side == NULL ? 0u : atomic_load(&side->word);
  return nxmem_same_generation(word, id) && nxmem_word_state(word) == NXMEM_SLOT_ALLOCATING;
}

static nxmem_result take(nx_allocation *record, uint64_t bytes, nxmem_error *error) {
  nx_side *side = NULL;
  if (is_being_made(record)) return nx_fail(error, NXMEM_ERR_BUSY, "commit: its transaction is open");
  nx_account *account = account_beside(record, &side);
  if (account == NULL) return NXMEM_OK;
  nx_manager *m = account->manager;
  const uint64_t authority = m->authorities[account->authority].handle;
  nxmem_axes shortage;
  nxmem_verdict v = nx_charge_map(account, side, bytes, &shortage);
  if (v.reason != NXMEM_REASON_NONE && nx_pressure_relieves(m, nx_slot_handle(&m->slot), authority, &v, &shortage))
    v = nx_charge_map(account, side, bytes, &shortage);
  if (v.reason == NXMEM_REASON_NONE) return NXMEM_OK;
  nx_count(&m->refusals);
  return nx_over_limit(v, "commit", error);
}

static void give(nx_allocation *record, uint64_t bytes) {
  nx_side *side = NULL;
  nx_account *account = account_beside(record, &side);
  if (account != NULL) nx_charge_unmap(account, side, bytes);
}

static void adopt(nx_allocation *record, uint64_t bytes) {
  nx_side *side = NULL;
  nx_account *account = account_beside(record, &side);
  if (account != NULL) nx_charge_adopt(account, side, bytes);
}

/* Of what no manager has, the host's charge: nothing is to be settled. */
static uint64_t held(nx_allocation *record) {
  nx_side *side = NULL;
  nx_account *account = account_beside(record, &side);
  return account == NULL ? nx_books_mapped_of(record) : atomic_load(&side->mapped);
}

void nx_follow_mapped(void) {
  static const nx_mapped_books books = {take, give, held, adopt};
  atomic_store(&nx_mapped_elsewhere, &books);
}
