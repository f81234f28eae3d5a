/*
 * deferred.c: releases that a plugin completes later, and what an allocator's slot waits for.
 *
 * Attackers: a plugin that completes twice, late, on any thread, while its allocator closes, after it, or never.
 * Promise: what is outstanding settles exactly once, whoever closes or unloads meanwhile; what is not changes nothing;
 * a slot is used again only when nobody can name it.
 *
 * P1, P2, S1 and S2 are steps of proofs/models/close_completion.pml.
 */
#include "deferred.h"

#include <inttypes.h>

#include "books.h"
#include "error.h"
#include "guard.h"
#include "module.h"
#include "nxmem/completion.h"
#include "nxmem/handle.h"
#include "nxmem/outcome.h"
#include "record.h"
#include "release.h"
#include "violations.h"

nx_table nx_queue = NX_TABLE(nx_queue_entry, 8);

/* ---- Shares ------------------------------------------------------------------------------------------------------ */

void nx_deferral_reset(nx_allocator *a, const nxmem_pin_source *pins) {
  static const nxmem_pin_source none = {NULL, NULL, NULL};
  const nx_host *host = nx_host_of(atomic_load_explicit(&a->host, memory_order_relaxed));
  nx_deferral *d = &a->deferral;
  atomic_store(&d->queued, 0);
  atomic_store(&d->rounds, 0);
  atomic_store(&d->closed, 0);
  d->pins = pins == NULL ? none : *pins;
  d->fetch = host->fetch;
  d->reclaim = host->reclaim;
  d->reclaim_ctx = host->reclaim_ctx;
  atomic_store(&d->shares, 1u); /* last: from here on a callback may come */
}

int nx_share_take(nx_allocator *a) {
  uint64_t shares = atomic_load(&a->deferral.shares);
  while (shares != 0)
    if (atomic_compare_exchange_weak(&a->deferral.shares, &shares, shares + 1u)) return 1;
  return 0;
}

uint64_t nx_mechanism_of(nx_allocator *a) {
  return nxmem_word_state(atomic_load(&a->slot.word)) == NXMEM_SLOT_ALLOCATING ? 0 : a->table.mechanism_id;
}

int nx_is_held(nx_allocator *a) { return nxmem_word_state(atomic_load(&a->slot.word)) == NXMEM_SLOT_QUARANTINED; }

/* Books that outlive the allocator: what the plugin never gave back. */
static void retain_quarantine(nx_allocator *a, nx_module *module) {
  nx_add(&module->retained, atomic_load(&a->quarantined));
  nx_add(&module->retained_bytes, atomic_load(&a->quarantined_bytes));
  nx_add(&module->retained_owned, nx_books_owned(a));
  /* The residual is what gone allocations left mapped: it goes with the allocator's own state. */
  nx_add(&module->retained_mapped, nx_books_mapped(a) - nx_books_residual(a));
}

void nx_share_give(nx_allocator *a) {
  if (atomic_fetch_sub(&a->deferral.shares, 1u) != 1u) return; /* P2 */
  nx_module *module = nx_module_at(atomic_load_explicit(&a->module, memory_order_relaxed));
  const uint64_t host = atomic_load_explicit(&a->host, memory_order_relaxed);
  const int was_open = nx_is_held(a);
  if (was_open) retain_quarantine(a, module);
  nx_table_give(&nx_allocators, &a->slot);
  if (!was_open) return;
  atomic_fetch_sub(&module->held, 1u); /* the last touch: the module may go now */
  if (!nx_host_is_there(host)) nx_modules_bury();
}

/* ---- Settling ---------------------------------------------------------------------------------------------------- */

nx_queue_entry *nx_queue_entry_of(nx_allocation *record) {
  const uint32_t entry = nx_record_number_beside(record, NX_BESIDE_QUEUE);
  return entry == 0 ? NULL : (nx_queue_entry *)(void *)nx_table_at(&nx_queue, entry - 1u);
}

void nx_deferred_end(nx_allocator *a) {
  if (a->deferral.pins.unpin != NULL) a->deferral.pins.unpin(a->deferral.pins.ctx);
  atomic_fetch_sub(&a->deferral.queued, 1u);
  nx_share_give(a);
}

/*
 * Find the record, judge it, win it. One compare-and-swap from the word that was judged: the word of a queued record
 * differs in each round, so the ticket read behind it is that round's.
 */
static nxmem_verdict win(nx_allocator *a, uint64_t owner, const NxmemReleaseCompletion *completion,
                         nx_allocation **record_out, uint64_t *word_out) {
  nx_allocation *record = (nx_allocation *)(void *)nx_table_find(&nx_allocations, completion->allocation_id);
  nxmem_release_record known = {0, 0, 0, 0, 0};
  if (record == NULL) return nxmem_judge_completion(completion, &known, owner);
  known.allocation_id = completion->allocation_id;
  known.mechanism_id = nx_mechanism_of(a);
  for (;;) {
    known.word = atomic_load(&record->slot.word);
    known.owner = nx_record_owner(record);
    const nx_queue_entry *entry = nx_queue_entry_of(record);
    known.ticket = entry == NULL ? 0 : atomic_load_explicit(&entry->ticket, memory_order_relaxed);
    const nxmem_verdict v = nxmem_judge_completion(completion, &known, owner);
    if (v.reason != NXMEM_REASON_NONE) return v;
    uint64_t expected = known.word;
    if (!atomic_compare_exchange_strong(&record->slot.word, &expected, nxmem_word_won(known.word))) continue; /* P1 */
    *record_out = record;
    *word_out = known.word;
    return v;
  }
}

/* Live again, with the users it has: its enqueue may not have returned. */
static void revive(nx_allocation *record) {
  uint64_t word = atomic_load(&record->slot.word);
  while (!atomic_compare_exchange_weak(&record->slot.word, &word, nxmem_word_settled(word, NXMEM_FATE_LIVE))) {
  }
}

/*
 * S1 before S2: it is counted as live before the closer's mark is read. The closer sets the mark before it counts the
 * live ones; so the closer sees this one, or this one sees the mark. A read-modify-write of the mark, so that both are
 * ordered whichever came first.
 */
static int may_revive(nx_allocator *a) {
  nx_books_add_live(nx_visit_of(a));                             /* S1 */
  if (atomic_fetch_add(&a->deferral.closed, 0u) == 0u) return 1; /* S2 */
  nx_books_drop_live(nx_visit_of(a));
  return 0;
}

static void settle(nx_allocator *a, nx_allocation *record, const NxmemReleaseOutcome *outcome) {
  nx_release_answer answer = {.fate = nxmem_completion_fate(outcome->failure.code, outcome->state),
                              .state = outcome->state,
                              .reported = outcome->unmapped_bytes,
                              .residual = outcome->residual_owned_bytes,
                              .status = outcome->failure};
  if (answer.fate == NXMEM_FATE_LIVE && may_revive(a)) {
    nxmem_verdict v;
    if (nx_guard_enter(a, record, &v) != NX_PUT_TAKEN) {
      revive(record);
      return;
    }
    nx_books_drop_live(nx_visit_of(a)); /* its address has another owner by now */
  }
  nx_release_finish(a, record, &answer);
  atomic_thread_fence(memory_order_seq_cst); /* quarantined before looked whether it is held; close.c, hold() */
  if (nx_is_held(a)) nx_release_forget_quarantined(a);
}

nxmem_verdict nx_deferred_complete(nx_allocator *a, uint64_t owner, const NxmemReleaseCompletion *completion) {
  nx_allocation *record = NULL;
  uint64_t word = 0;
  const nxmem_verdict v = win(a, owner, completion, &record, &word);
  if (v.reason != NXMEM_REASON_NONE) return v;
  /* While its enqueue runs, the entry is the enqueuing thread's. */
  nx_queue_entry *entry = nxmem_word_state(word) == NXMEM_SLOT_QUEUED ? nx_queue_entry_of(record) : NULL;
  settle(a, record, &completion->outcome);
  if (entry != NULL) nx_table_give(&nx_queue, &entry->slot);
  nx_deferred_end(a);
  return v;
}

/* ---- Draining ---------------------------------------------------------------------------------------------------- */

/* One pass; *retired_out is what the plugin says, or as much of it as can be. */
static nxmem_verdict drain_once(nx_allocator *a, uint64_t max, NxmemStatus *status, uint64_t *retired_out) {
  /* In this order: a release that is queued meanwhile is in one of both numbers at least. */
  const uint64_t rounds = atomic_load(&a->deferral.rounds);
  const uint64_t queued = atomic_load(&a->deferral.queued);
  uint64_t retired = NXMEM_UNWRITTEN_COUNT;
  const NxmemStatus answer = a->table.drain_releases(a->table.ctx, max, &retired);
  const uint32_t code = nx_take_answer(&answer, status);
  const uint64_t said = *(volatile uint64_t *)&retired;
  *retired_out = 0;
  if (code != NXMEM_STATUS_OK) return (nxmem_verdict){NXMEM_REASON_NONE, 0, 0, 0};
  const uint64_t most = queued + (atomic_load(&a->deferral.rounds) - rounds);
  const nxmem_verdict v = nxmem_check_retired(said, max, most);
  *retired_out = nxmem_retired(said, max, most);
  if (v.reason != NXMEM_REASON_NONE) nx_violation(a, v);
  return v;
}

/* What a pass retired is told by the host's own books: a plugin's number could go on for ever. */
void nx_deferred_drain_all(nx_allocator *a) {
  uint64_t before = atomic_load(&a->deferral.queued);
  uint64_t after = before;
  for (uint32_t passes = 0; nxmem_drain_goes_on(passes, before, after); passes++) {
    NxmemStatus status;
    uint64_t retired;
    before = after;
    (void)drain_once(a, before, &status, &retired);
    after = atomic_load(&a->deferral.queued);
  }
}

static nxmem_result needs_deferred(nx_allocator *a, const char *slot, nxmem_error *error) {
  if ((a->effective & NXMEM_CAP_DEFERRED_RELEASE) != 0) return NXMEM_OK;
  return nx_fail(error, NXMEM_ERR_UNSUPPORTED_CAPABILITY,
                 "%s: DEFERRED_RELEASE is not among the effective capabilities", slot);
}

static nxmem_result drain_entered(nx_allocator *a, uint64_t max, uint64_t *retired_out, nxmem_error *error) {
  const nxmem_result r = needs_deferred(a, "drain_releases", error);
  if (r != NXMEM_OK) return r;
  NxmemStatus status;
  uint64_t retired = 0;
  const nxmem_verdict v = drain_once(a, max, &status, &retired);
  if (status.code != NXMEM_STATUS_OK) return nx_fail_status(error, NXMEM_ERR_PLUGIN, &status, "drain releases");
  if (v.found == NXMEM_UNWRITTEN_COUNT)
    return nx_fail_verdict(error, NXMEM_ERR_CONTRACT, v, "drain releases, retired_out");
  if (retired_out != NULL) *retired_out = retired;
  return NXMEM_OK;
}

nxmem_result nxmem_drain_releases(nxmem_allocator allocator, uint64_t max, uint64_t *retired_out, nxmem_error *error) {
  if (max == 0) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "drain releases: max is 0");
  nx_allocator *a = NULL;
  nxmem_result r = nx_allocator_enter(allocator, &a, error);
  if (r != NXMEM_OK) return r;
  r = drain_entered(a, max, retired_out, error);
  nx_allocator_leave(a);
  return r;
}

static nxmem_result pending_entered(nx_allocator *a, nxmem_pending *out, nxmem_error *error) {
  const nxmem_result r = needs_deferred(a, "pending_release_count", error);
  if (r != NXMEM_OK) return r;
  uint64_t count = NXMEM_UNWRITTEN_COUNT;
  const NxmemStatus answer = a->table.pending_release_count(a->table.ctx, &count);
  const uint64_t said = *(volatile uint64_t *)&count;
  NxmemStatus status;
  if (nx_take_answer(&answer, &status) != NXMEM_STATUS_OK)
    return nx_fail_status(error, NXMEM_ERR_PLUGIN, &status, "pending releases");
  const nxmem_verdict v = nxmem_check_pending(said);
  if (v.reason != NXMEM_REASON_NONE) {
    nx_violation(a, v);
    return nx_fail_verdict(error, NXMEM_ERR_CONTRACT, v, "pending releases, count_out");
  }
  *out = (nxmem_pending){.host = atomic_load(&a->deferral.queued), .plugin = said};
  return NXMEM_OK;
}

nxmem_result nxmem_pending_releases(nxmem_allocator allocator, nxmem_pending *out, nxmem_error *error) {
  if (out == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "pending releases: out is NULL");
  nx_allocator *a = NULL;
  nxmem_result r = nx_allocator_enter(allocator, &a, error);
  if (r != NXMEM_OK) return r;
  r = pending_entered(a, out, error);
  nx_allocator_leave(a);
  return r;
}
