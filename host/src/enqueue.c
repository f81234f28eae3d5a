/*
 * enqueue.c: handing a release to the plugin's own order.
 *
 * Attackers: a plugin that completes before it answers, on this thread or another, answers without a ticket, or fails
 * what it has completed.
 * Promise: the release is counted and pinned before the plugin is entered; whichever comes first, answer or
 * completion, settles it once, and the other changes nothing.
 *
 * Q1 to Q3 are steps of proofs/models/close_completion.pml. While its enqueue runs, a record's word is QUEUING with
 * this thread as its one user: a completion that leaves it live leaves a slot that nobody can claim before this thread
 * has given that user up.
 */
#include "backing.h"
#include "books.h"
#include "deferred.h"
#include "error.h"
#include "guard.h"
#include "nxmem/completion.h"
#include "nxmem/handle.h"
#include "nxmem/outcome.h"
#include "nxmem/pin.h"
#include "record.h"
#include "release.h"
#include "violations.h"

/* One enqueue in progress. */
typedef struct enqueuing {
  nx_allocator *allocator;
  nx_allocation *record;
  nx_queue_entry *entry;
  uint64_t id;    /* handle of the record */
  uint32_t round; /* sets the queued word apart from those of earlier rounds */
  uint64_t ticket;
  NxmemStatus status;
  nxmem_error *error;
} enqueuing;

/* ---- Before the plugin ------------------------------------------------------------------------------------------- */

static int pin(const nxmem_pin_source *pins) { return pins->pin == NULL || pins->pin(pins->ctx) == 0; }

/* What can fail. The record is claimed. */
static nxmem_result prepare(enqueuing *e) {
  /* Before anything is counted: the place for the entry's number. */
  e->entry =
      nx_record_beside(e->record, NX_BESIDE_QUEUE) == NULL ? NULL : (nx_queue_entry *)(void *)nx_table_take(&nx_queue);
  if (e->entry == NULL)
    return nx_fail(e->error, NXMEM_ERR_OUT_OF_MEMORY, "enqueue release: no room for another queued release");
  if (pin(&e->allocator->deferral.pins)) return NXMEM_OK;
  nx_table_give(&nx_queue, &e->entry->slot);
  return nx_fail(e->error, NXMEM_ERR_BUSY, "enqueue release: still live: the pin source takes no more work");
}

/* Counted before the plugin is entered. The word comes last: with it a completion may come. */
static void begin(enqueuing *e) {
  nx_deferral *d = &e->allocator->deferral;
  /* an honest plugin may hand the address out again before its completion gets here */
  nx_guard_leave(e->allocator, e->record);
  atomic_store_explicit(nx_record_beside(e->record, NX_BESIDE_QUEUE), e->entry->slot.self + 1u, memory_order_relaxed);
  atomic_fetch_add(&d->queued, 1u);
  e->round = (uint32_t)(atomic_fetch_add(&d->rounds, 1u) % NXMEM_USERS_MAX) + 1u;
  atomic_fetch_add(&d->shares, 1u);
  nx_books_drop_live(nx_visit_of(e->allocator));
  atomic_store(&e->record->slot.word, nxmem_word_make(nxmem_handle_generation(e->id), 1u, NXMEM_SLOT_QUEUING)); /* Q1 */
}

static uint32_t ask(enqueuing *e) {
  nx_allocator *a = e->allocator;
  const NxmemAllocation allocation = nx_record_describe(a, e->record);
  uint64_t ticket = NXMEM_UNWRITTEN_COUNT;
  const NxmemStatus answer = a->table.enqueue_release(a->table.ctx, &allocation, &ticket); /* Q2 */
  const uint32_t code = nx_take_answer(&answer, &e->status);
  e->ticket = *(volatile uint64_t *)&ticket;
  return code;
}

/* ---- After it ---------------------------------------------------------------------------------------------------- */

/* Take the record out of the queue, for this thread alone; 0 where a completion came meanwhile. */
static int take_back(enqueuing *e, uint64_t word) {
  const uint64_t mine = nxmem_word_make(nxmem_handle_generation(e->id), 0u, NXMEM_SLOT_RELEASING);
  return atomic_compare_exchange_strong(&e->record->slot.word, &word, mine);
}

static int stay_queued(enqueuing *e, uint64_t word) {
  atomic_store_explicit(&e->entry->ticket, e->ticket, memory_order_relaxed);
  const uint64_t queued = nxmem_word_make(nxmem_handle_generation(e->id), e->round, NXMEM_SLOT_QUEUED);
  return atomic_compare_exchange_strong(&e->record->slot.word, &word, queued); /* Q3 */
}

static void end(enqueuing *e) {
  nx_table_give(&nx_queue, &e->entry->slot);
  nx_deferred_end(e->allocator);
}

static nxmem_result quarantine(enqueuing *e);

/* Unless its address was handed out to somebody else meanwhile. */
static nxmem_result live_again(enqueuing *e) {
  nxmem_verdict v;
  if (nx_guard_enter(e->allocator, e->record, &v) == NX_PUT_TAKEN) return quarantine(e);
  const nxmem_result r = nx_fail_status(e->error, NXMEM_ERR_PLUGIN, &e->status, "enqueue release: refused, still live");
  nx_books_add_live(nx_visit_of(e->allocator));
  nx_slot_set(&e->record->slot, NXMEM_SLOT_LIVE);
  end(e);
  return r;
}

static nxmem_result quarantine(enqueuing *e) {
  const nx_release_answer answer = {.fate = NXMEM_FATE_QUARANTINED,
                                    .state = NXMEM_RELEASE_QUARANTINED,
                                    .residual = NXMEM_UNWRITTEN_COUNT,
                                    .status = e->status};
  nx_release_finish(e->allocator, e->record, &answer);
  end(e);
  const nxmem_verdict v = nxmem_check_ticket(e->status.code, e->ticket);
  if (v.reason == NXMEM_REASON_NONE)
    return nx_fail_status(e->error, NXMEM_ERR_QUARANTINED, &e->status, "enqueue release: quarantined");
  nx_violation(e->allocator, v);
  return nx_fail_verdict(e->error, NXMEM_ERR_QUARANTINED, v, "enqueue release: quarantined, it could never settle");
}

/*
 * A completion came first. It keeps this thread's user in the word of what lives on, and takes none of a word that is
 * gone or quarantined: then there is none to give up.
 */
static void give_up_user(enqueuing *e) {
  uint64_t word = atomic_load(&e->record->slot.word);
  while (nxmem_same_generation(word, e->id) && nxmem_word_pins(word) != 0u) {
    if (nxmem_word_state(word) == NXMEM_SLOT_LIVE) {
      nx_backing_unpin(e->allocator, e->record); /* others may have met here: the last to leave settles */
      return;
    }
    if (atomic_compare_exchange_weak(&e->record->slot.word, &word, nxmem_word_unpinned(word))) return;
  }
}

static const char *completion_words(uint64_t word, uint64_t id) {
  if (!nxmem_same_generation(word, id)) return "it was completed before: released";
  switch (nxmem_word_state(word)) {
    case NXMEM_SLOT_LIVE:
      return "it was completed before: failed, still live";
    case NXMEM_SLOT_QUARANTINED:
      return "it was completed before: quarantined";
    case NXMEM_SLOT_RETIRED:
      return "it was completed before: released";
    default:
      return "another thread completes it";
  }
}

static nxmem_result completed(enqueuing *e, uint64_t word, nxmem_enqueue_fate fate) {
  give_up_user(e);
  nx_table_give(&nx_queue, &e->entry->slot);
  if (fate == NXMEM_ENQUEUE_SETTLED) return NXMEM_OK;
  return nx_fail_status(e->error, NXMEM_ERR_PLUGIN, &e->status, "enqueue release: failed, and %s",
                        completion_words(word, e->id));
}

static nxmem_result conclude(enqueuing *e, uint32_t code) {
  for (;;) {
    const uint64_t word = atomic_load(&e->record->slot.word);
    const nxmem_enqueue_fate fate = nxmem_judge_enqueue(code, e->ticket, word, e->id);
    switch (fate) {
      case NXMEM_ENQUEUE_QUEUED:
        if (stay_queued(e, word)) return NXMEM_OK;
        break;
      case NXMEM_ENQUEUE_LIVE:
        if (take_back(e, word)) return live_again(e);
        break;
      case NXMEM_ENQUEUE_QUARANTINED:
        if (take_back(e, word)) return quarantine(e);
        break;
      default:
        return completed(e, word, fate);
    }
  }
}

static nxmem_result enqueue_claimed(enqueuing *e) {
  e->id = nx_slot_handle(&e->record->slot);
  const nxmem_result r = prepare(e);
  if (r != NXMEM_OK) {
    nx_slot_set(&e->record->slot, NXMEM_SLOT_LIVE);
    return r;
  }
  begin(e);
  return conclude(e, ask(e));
}

static nxmem_result enqueue_entered(enqueuing *e, const nx_naming *naming) {
  if ((e->allocator->effective & NXMEM_CAP_DEFERRED_RELEASE) == 0)
    return nx_fail(e->error, NXMEM_ERR_UNSUPPORTED_CAPABILITY,
                   "enqueue_release: DEFERRED_RELEASE is not among the effective capabilities");
  const nxmem_result r = nx_record_claim(naming, NXMEM_SLOT_RELEASING, &e->record, e->error);
  return r == NXMEM_OK ? enqueue_claimed(e) : r;
}

nxmem_result nxmem_enqueue_release(nxmem_allocator allocator, nxmem_allocation allocation,
                                   const nxmem_release_options *options, uint64_t *ticket_out, nxmem_error *error) {
  enqueuing e = {.error = error};
  nxmem_result r = nx_allocator_enter(allocator, &e.allocator, error);
  if (r != NXMEM_OK) return r;
  const nx_naming naming = {.verb = "enqueue release",
                            .allocator = allocator,
                            .allocation = allocation,
                            .bytes = options == NULL ? 0 : options->bytes,
                            .align = options == NULL ? 0 : options->align};
  r = enqueue_entered(&e, &naming);
  nx_allocator_leave(e.allocator);
  if (r == NXMEM_OK && ticket_out != NULL) *ticket_out = e.ticket == NXMEM_UNWRITTEN_COUNT ? 0 : e.ticket;
  return r;
}
