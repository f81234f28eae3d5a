/*
 * release.c: the one funnel through which an allocation is given back.
 *
 * Attackers: a plugin whose status, state and numbers contradict each other; callers that release twice, or from two threads.
 * Promise: a record is owned by one thread from RELEASING to its end, so each allocation is given back once and settled once.
 *
 * R3 and R4 are steps of proofs/models/release_race.pml.
 */
#include "release.h"

#include <string.h>

#include "books.h"
#include "error.h"
#include "guard.h"
#include "nxmem/completion.h"
#include "prefix_bytes.h"
#include "quarantine.h"
#include "record.h"
#include "violations.h"

static void release_structured(nx_allocator *a, const NxmemAllocation *allocation, nx_release_answer *out) {
  NxmemReleaseOutcome outcome;
  memset(&outcome, 0, sizeof outcome);
  outcome.struct_size = sizeof outcome;
  outcome.state = NXMEM_UNWRITTEN_STATE;
  outcome.allocation_bytes = NXMEM_UNWRITTEN_COUNT;
  outcome.unmapped_bytes = NXMEM_UNWRITTEN_COUNT;
  outcome.residual_owned_bytes = NXMEM_UNWRITTEN_COUNT;
  const NxmemStatus answer = a->table.release_allocation(a->table.ctx, allocation, &outcome);
  const uint32_t code = nx_take_answer(&answer, &out->status);
  nxmem_outcome taken;
  nxmem_outcome_take(&outcome, &taken);
  out->state = taken.state;
  out->reported = taken.unmapped_bytes;
  out->residual = taken.residual_owned_bytes;
  out->fate = nxmem_judge_release(code, taken.state);
  if (nxmem_failure_says_why(code, out->fate)) nxmem_status_take(&outcome.failure, &out->status);
}

static void release_plain(nx_allocator *a, const NxmemAllocation *allocation, nx_release_answer *out) {
  uint64_t unmapped = NXMEM_UNWRITTEN_COUNT;
  const NxmemStatus answer = a->table.deallocate(a->table.ctx, allocation, &unmapped);
  out->state = NXMEM_RELEASE_FAILED;
  out->fate = nxmem_judge_deallocate(nx_take_answer(&answer, &out->status));
  out->reported = *(volatile uint64_t *)&unmapped;
  out->residual = NXMEM_UNWRITTEN_COUNT;
}

/*
 * Negotiated level, table level and capability all decide: the core has masked the flag and nulled the slot where any of them forbids it. An honest plugin may hand
 * the address out to another thread before it answers: so it leaves the index first.
 */
void nx_release_ask_claimed(nx_allocator *a, const nx_claimed *claimed, nx_release_answer *out) {
  nx_allocation *record = claimed->record;
  const NxmemAllocation allocation = nx_claimed_describe(a, claimed);
  nx_guard_leave(a, record);
  if ((a->effective & NXMEM_CAP_STRUCTURED_RELEASE) != 0)
    release_structured(a, &allocation, out);
  else
    release_plain(a, &allocation, out);
}

void nx_release_ask(nx_allocator *a, nx_allocation *record, nx_release_answer *out) {
  const nx_claimed claimed = nx_record_look(record);
  nx_release_ask_claimed(a, &claimed, out);
}

/* Its address is looked at again, unless it has another owner meanwhile: a violation. Without memory it stays as it is, and is not looked at. */
static NX_APART uint32_t keep_address(nx_allocator *a, nx_allocation *record) {
  nxmem_verdict v;
  if (nx_guard_enter(a, record, &v) != NX_PUT_TAKEN) return NXMEM_REASON_NONE;
  nx_violation(a, v);
  return v.reason;
}

/*
 * The record stays until its allocator closes, in its list. Of what is quarantined nothing is read any more but the word, so the charge makes room for the link; the
 * books have it. A list is only taken off whole: each record is then one thread's, and no link is read of a record that may have been used again.
 */
static void keep_record(nx_allocator *a, nx_allocation *record) {
  atomic_store(&record->slot.word, nxmem_word_settled(atomic_load(&record->slot.word), NXMEM_FATE_QUARANTINED));
  const uint32_t own = record->slot.self + 1u;
  uint32_t first = atomic_load(&a->kept_records);
  do {
    atomic_store_explicit(&record->owned, first, memory_order_relaxed);
  } while (!atomic_compare_exchange_weak(&a->kept_records, &first, own));
}

static NX_APART void quarantine(nx_allocator *a, nx_allocation *record, const nx_release_answer *answer) {
  const uint32_t reason = keep_address(a, record);
  nx_books_quarantine(a, record);
  nx_quarantine_list_record(a, record, answer->residual, answer->status.code, reason);
  nx_mappings_drop(a, record, 1);
  keep_record(a, record);
}

static NX_APART void drop_mappings(nx_allocator *a, nx_allocation *record) { nx_mappings_drop(a, record, 0); }

static void finish(nx_visit visit, nx_allocation *record, const nx_release_answer *answer) {
  if (nxmem_final_fate(answer->fate) != NXMEM_FATE_GONE) {
    quarantine(visit.allocator, record, answer);
    return;
  }
  const nxmem_verdict refund = nx_books_refund(visit, record, answer->reported);
  if (refund.reason != NXMEM_REASON_NONE) nx_violation(visit.allocator, refund);
  if (nx_record_maps(record)) drop_mappings(visit.allocator, record);
  if (nx_slot_free(&record->slot)) nx_thread_give(visit.thread, &nx_allocations, &record->slot);
}

void nx_release_finish(nx_allocator *a, nx_allocation *record, const nx_release_answer *answer) {
  finish(nx_visit_of(a), record, answer);
}

void nx_release_settle_inside(nx_visit visit, nx_allocation *record, const nx_release_answer *answer) {
  finish(visit, record, answer);
  nx_books_drop_live(visit);
}

void nx_release_settle(nx_allocator *a, nx_allocation *record, const nx_release_answer *answer) {
  nx_release_settle_inside(nx_visit_of(a), record, answer);
}

/* Where status and state do not explain each other. */
static const char *state_words(const nx_release_answer *answer) {
  const int failed = answer->status.code != NXMEM_STATUS_OK;
  switch (answer->state) {
    case NXMEM_RELEASE_COMPLETE:
      return failed ? ", outcome.state is COMPLETE beside a failure" : "";
    case NXMEM_RELEASE_QUARANTINED:
      return ", outcome.state is QUARANTINED";
    case NXMEM_RELEASE_FAILED:
      return failed ? "" : ", outcome.state is FAILED and outcome.failure gives no reason";
    case NXMEM_UNWRITTEN_STATE:
      return failed ? "" : ", outcome.state was left unwritten";
    default:
      return ", outcome.state is none that exists";
  }
}

/* It says that it is still live: so it is, unless its address was handed out to somebody else meanwhile. */
static NX_APART nxmem_result still_live(nx_allocator *a, nx_allocation *record, const nx_release_answer *answer,
                                        nxmem_error *error) {
  nxmem_verdict v;
  if (nx_guard_enter(a, record, &v) == NX_PUT_TAKEN) {
    nx_release_settle(a, record, answer); /* R4: counted there */
    return nx_fail_verdict(error, NXMEM_ERR_QUARANTINED, v, "release: still live%s: quarantined", state_words(answer));
  }
  const nxmem_result r =
      nx_fail_status(error, NXMEM_ERR_PLUGIN, &answer->status, "release: still live%s", state_words(answer));
  nx_slot_set(&record->slot, NXMEM_SLOT_LIVE); /* R4 */
  return r;
}

static nxmem_result release_claimed(nx_visit visit, const nx_claimed *claimed, nxmem_error *error) {
  nx_release_answer answer;
  nx_release_ask_claimed(visit.allocator, claimed, &answer); /* R3 */
  if (answer.fate == NXMEM_FATE_LIVE) return still_live(visit.allocator, claimed->record, &answer, error);
  nx_release_settle_inside(visit, claimed->record, &answer); /* R4 */
  if (answer.fate == NXMEM_FATE_GONE) return NXMEM_OK;
  return nx_fail_status(error, NXMEM_ERR_QUARANTINED, &answer.status, "release: quarantined%s", state_words(&answer));
}

NX_HOT nxmem_result nxmem_release(nxmem_allocator allocator, nxmem_allocation allocation,
                                  const nxmem_release_options *options, nxmem_error *error) {
  nx_visit visit;
  nxmem_result r = nx_visit_begin(allocator, &visit, error);
  if (r != NXMEM_OK) return r;
  const nx_naming naming = {.verb = "release",
                            .allocator = allocator,
                            .allocation = allocation,
                            .bytes = options == NULL ? 0 : options->bytes,
                            .align = options == NULL ? 0 : options->align};
  nx_claimed claimed;
  r = nx_record_claim_found(&naming, NXMEM_SLOT_RELEASING, &claimed, error);
  if (r == NXMEM_OK) r = release_claimed(visit, &claimed, error);
  nx_visit_end(visit);
  return r;
}

void nx_release_forget_quarantined(nx_allocator *a) {
  uint64_t link = atomic_exchange(&a->kept_records, 0u);
  while (link != 0u) {
    nx_allocation *record = (nx_allocation *)(void *)nx_table_at(&nx_allocations, (uint32_t)link - 1u);
    link = atomic_load_explicit(&record->owned, memory_order_relaxed);
    nx_table_give(&nx_allocations, &record->slot);
  }
}

/* What an allocator has stands together, as a rule among the oldest or the youngest: so from both ends at once. */
static nx_allocation *from_both_ends(uint32_t i, uint32_t count) {
  return (nx_allocation *)(void *)nx_table_at(&nx_allocations, i % 2u == 0u ? i / 2u : count - 1u - i / 2u);
}

/* Ends with the last one that is live: nothing is allocated any more, and what a completion brings back is counted before it is live. */
void nx_release_all(nx_allocator *a) {
  const nxmem_allocator owner = {nx_slot_handle(&a->slot)};
  const uint32_t count = atomic_load(&nx_allocations.count);
  uint64_t live = nx_books_live(a);
  for (uint32_t i = 0; i < count && live != 0u; i++) {
    nx_allocation *record = from_both_ends(i, count);
    if (!nx_record_claim_owned(record, owner, NXMEM_SLOT_LIVE)) continue;
    nx_release_answer answer;
    nx_release_ask(a, record, &answer);
    nx_release_settle(a, record, &answer);
    live = nx_books_live(a);
  }
}
