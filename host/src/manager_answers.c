/*
 * manager_answers.c: answers that the host refused and keeps.
 *
 * Attackers: plugins whose every answer is refused, with numbers that cannot be.
 * Promise: what the host has in quarantine of a transaction is charged until its mechanism goes, with figures that were asked for, never with those that were refused.
 */
#include "manager.h"
#include "nxmem/handle.h"
#include "nxmem/quota.h"

static void add(nx_manager *m, nxmem_axes *total, const nxmem_axes *part) {
  nx_books_bugs(m, nxmem_axes_add(total, part) ? 0u : 1u);
}

nxmem_axes nx_charge_keep_answer(nx_charging *k, uint64_t bytes, int cancel) {
  nx_account *account = k->account;
  nx_manager *m = account->manager;
  nxmem_axes there = k->held;
  if (there.physical < bytes) there.physical = bytes;
  nx_lock_all(m);
  if (cancel) nx_books_unreserve(k);
  nx_books_gather(m);
  nx_books_countable(m, account, &there);
  nx_books_grow(m, account, &there);
  add(m, &account->quarantined, &there);
  add(m, &account->answers, &there);
  account->quarantined_count++;
  account->answers_count++;
  nx_books_tighten(m);
  nx_unlock_all(m);
  return there;
}

/* All locks are held. */
static void forget(nx_manager *m, nx_account *account) {
  nx_books_gather(m);
  nx_books_bugs(m, nxmem_axes_refund(&account->quarantined, &account->answers));
  account->quarantined_count -= account->answers_count;
  nx_books_shrink(m, account, &account->answers);
  account->answers = (nxmem_axes){0, 0, 0};
  account->answers_count = 0;
  nx_books_tighten(m);
}

void nx_charge_forget_answers(uint64_t mechanism) {
  const uint32_t count = atomic_load(&nx_managers.count);
  for (uint32_t i = 0; i < count; i++) {
    nx_slot *slot = nx_table_at(&nx_managers, i);
    const nxmem_manager handle = {nx_slot_handle(slot)};
    nx_manager *m = nx_manager_lock(handle, NULL);
    if (m == NULL) continue;
    nx_account *account = nx_account_of(m, mechanism);
    if (account != NULL && account->answers_count != 0) forget(m, account);
    nx_unlock_all(m);
  }
}
