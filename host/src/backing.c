/*
 * backing.c: pages put behind ranges of an allocation, and taken away.
 *
 * Attackers: ranges that wrap or leave their allocation; a plugin whose costs and credits cannot be, that fails half
 * way or leaves its count unwritten.
 * Promise: what may be mapped is charged before the plugin is entered, no more is credited than was charged, and a
 * release meanwhile is BUSY.
 *
 * Several calls may be at one allocation at once, so what one of them does to the charge is not always what it did to
 * the pages: two that commit the same granule are charged twice, one that commits what another takes away in between is
 * not charged at all. A pin that finds another one there says so in the word (nxmem/pin.h), and so does a call that
 * failed or was told nothing: the last to leave then asks what is committed, and settles the charge to that, where it
 * is possible. What the plugin does not say stays charged.
 *
 * Q, K, M, D, R, L, A and T are steps of proofs/models/pin_settle.pml; S1 is in record.c.
 */
#include "backing.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "books.h"
#include "error.h"
#include "grant.h"
#include "nxmem/backing.h"
#include "nxmem/outcome.h"
#include "nxmem/pin.h"
#include "record.h"
#include "violations.h"

_Atomic(const nx_mapped_books *) nx_mapped_elsewhere;

/* One call on an allocation that it has pinned. */
typedef struct work {
  const char *verb;
  nx_allocator *a;
  nx_allocation *record;
  NxmemRangeRequest request; /* begin() fills all of it: it is not cleared before */
} work;

const NxmemVirtualBackingVtable *nx_backing_of(const nx_allocator *a) {
  static const NxmemVirtualBackingVtable nothing;
  return (a->effective & NXMEM_CAP_VIRTUAL_BACKING) != 0 ? &a->backing : &nothing;
}

nxmem_result nx_need_slot(int there, const char *verb, const char *slot, nxmem_error *error) {
  if (there) return NXMEM_OK;
  return nx_fail(error, NXMEM_ERR_UNSUPPORTED_CAPABILITY, "%s: the mechanism has no %s", verb, slot);
}

nxmem_result nx_check_ranges(const char *verb, const NxmemByteRange *ranges, uint64_t count, uint64_t size,
                             nxmem_error *error) {
  const nxmem_verdict list = nxmem_check_range_list((uintptr_t)ranges, count);
  if (list.reason != NXMEM_REASON_NONE)
    return nx_fail_verdict(error, NXMEM_ERR_INVALID_ARGUMENT, list, "%s: ranges", verb);
  for (uint64_t i = 0; i < count; i++) {
    const nxmem_verdict v = nxmem_check_commit_range(ranges[i].offset, ranges[i].bytes, size);
    if (v.reason == NXMEM_REASON_NONE) continue;
    return nx_fail_in(error, NXMEM_ERR_INVALID_ARGUMENT, v, (nx_context){.record = NX_RECORD_RANGE},
                      "%s: range %" PRIu64, verb, i);
  }
  return NXMEM_OK;
}

/* ---- Charges ----------------------------------------------------------------------------------------------------- */

/*
 * Leaf locks, by record: whoever holds one is the only one that changes that record's charge. No plugin code runs under
 * them.
 */
enum { CHARGE_LOCKS = 64 };
static pthread_mutex_t charge_locks[CHARGE_LOCKS] = {
#define NX_4_LOCKS \
  PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER
#define NX_16_LOCKS NX_4_LOCKS, NX_4_LOCKS, NX_4_LOCKS, NX_4_LOCKS
    NX_16_LOCKS, NX_16_LOCKS, NX_16_LOCKS, NX_16_LOCKS};

static pthread_mutex_t *lock_charge(nx_allocation *record) {
  pthread_mutex_t *lock = &charge_locks[nxmem_handle_slot(nx_slot_handle(&record->slot)) % CHARGE_LOCKS];
  pthread_mutex_lock(lock);
  return lock;
}

static uint64_t mapped_total(nx_allocator *a) {
  const uint64_t total = nx_books_mapped(a); /* a sum of moving things */
  return total < NXMEM_TOTAL_MAX ? total : NXMEM_TOTAL_MAX;
}

/* What a charge is judged by where it is refused. */
static uint64_t judged_total(nx_allocator *a) { return a->limits == NULL ? mapped_total(a) : nx_books_drawn_mapped(a); }

/* 0 where no total has room for it. */
static int charge_mapped(nx_allocator *a, nx_allocation *record, uint64_t cost) {
  uint64_t sum = 0;
  pthread_mutex_t *lock = lock_charge(record);
  const int charged = nxmem_total_add(nx_books_mapped_of(record), cost, &sum) &&
                      nx_books_move(a, record, nx_books_owned_of(record), sum);
  pthread_mutex_unlock(lock);
  return charged;
}

static nxmem_credit credit_mapped(nx_allocator *a, nx_allocation *record, uint64_t reported) {
  nxmem_credit split;
  pthread_mutex_t *lock = lock_charge(record);
  nxmem_settle_decommit(reported, nx_books_mapped_of(record), &split);   /* R */
  (void)nx_books_move(a, record, nx_books_owned_of(record), split.left); /* a fall is never refused */
  pthread_mutex_unlock(lock);
  return split;
}

/* ---- Books elsewhere --------------------------------------------------------------------------------------------- */

/*
 * They have no less mapped of a record than its charge is. What a call takes away while others are at the record stays in them, until the last to leave knows
 * what is there: another's pages must not take the room of what is mapped again behind them.
 */
static nxmem_result take_elsewhere(nx_allocation *record, uint64_t bytes, nxmem_error *error) {
  const nx_mapped_books *books = atomic_load(&nx_mapped_elsewhere);
  return books == NULL || bytes == 0 ? NXMEM_OK : books->take(record, bytes, error);
}

static void give_elsewhere(nx_allocation *record, uint64_t bytes) {
  const nx_mapped_books *books = atomic_load(&nx_mapped_elsewhere);
  if (books != NULL && bytes != 0) books->give(record, bytes);
}

static uint64_t held_elsewhere(nx_allocation *record) {
  const nx_mapped_books *books = atomic_load(&nx_mapped_elsewhere);
  return books == NULL ? 0u : books->held(record);
}

/* `held` was read before nobody else was found at the record: what was taken since is not in it. */
static void settle_elsewhere(nx_allocation *record, uint64_t held, uint64_t mapped) {
  const nx_mapped_books *books = atomic_load(&nx_mapped_elsewhere);
  if (books == NULL || held == mapped) return;
  if (held > mapped)
    books->give(record, held - mapped);
  else
    books->adopt(record, mapped - held);
}

/* ---- Pins -------------------------------------------------------------------------------------------------------- */

/* What is committed is asked for anew: something happened that no single call can know the outcome of. */
static void leave_open(nx_allocation *record) {
  uint64_t word = atomic_load(&record->slot.word);
  while (!atomic_compare_exchange_weak(&record->slot.word, &word, nxmem_word_met(word))) {
  }
}

/*
 * The caller has the only pin and has taken the mark away. If somebody came meanwhile the answer may be old: then it is
 * theirs to ask.
 */
static void settle_committed(nx_allocator *a, nx_allocation *record) {
  const NxmemVirtualBackingVtable *table = nx_backing_of(a);
  if (table->committed_bytes == NULL) return;
  const NxmemAllocation allocation = nx_record_describe(a, record);
  uint64_t committed = NXMEM_UNWRITTEN_COUNT;
  const NxmemStatus answer = table->committed_bytes(table->ctx, &allocation, &committed); /* A */
  NxmemStatus status;
  const uint32_t code = nx_take_answer(&answer, &status);
  const uint64_t reported = *(volatile uint64_t *)&committed;
  const uint64_t held = held_elsewhere(record);
  pthread_mutex_t *lock = lock_charge(record);
  const int alone = nxmem_pin_is_alone(atomic_load(&record->slot.word)); /* T */
  if (alone)
    (void)nx_books_move(a, record, nx_books_owned_of(record),
                        nxmem_settle_committed(code, reported, nx_books_mapped_of(record), allocation.bytes));
  const uint64_t mapped = nx_books_mapped_of(record);
  pthread_mutex_unlock(lock);
  if (alone && code == NXMEM_STATUS_OK && mapped == reported) settle_elsewhere(record, held, mapped);
}

/* Whoever keeps coming while the last one settles must not keep it here: then what is charged stays. */
enum { SETTLE_ROUNDS = 4 };

void nx_backing_unpin(nx_allocator *a, nx_allocation *record) {
  int rounds = 0;
  uint64_t word = atomic_load(&record->slot.word);
  for (;;) {
    const int settles = rounds < SETTLE_ROUNDS && nxmem_pin_must_settle(word);
    const uint64_t next = settles ? nxmem_word_unmet(word) : nxmem_word_unpinned(word);
    if (!atomic_compare_exchange_weak(&record->slot.word, &word, next)) continue; /* L */
    if (!settles) return;
    rounds++;
    settle_committed(a, record);
    word = atomic_load(&record->slot.word);
  }
}

static nxmem_result begin(work *w, nxmem_allocator allocator, nxmem_allocation allocation, nxmem_error *error) {
  const nx_naming naming = {.verb = w->verb, .allocator = allocator, .allocation = allocation};
  const nxmem_result r = nx_record_pin(&naming, &w->record, error);
  if (r != NXMEM_OK) return r;
  w->request = (NxmemRangeRequest){.struct_size = sizeof w->request, .allocation = nx_record_describe(w->a, w->record)};
  return NXMEM_OK;
}

/* ---- Commit ------------------------------------------------------------------------------------------------------ */

static nxmem_result refuse_number(const work *w, nxmem_verdict v, const char *slot, nxmem_error *error) {
  nx_violation(w->a, v);
  return nx_fail_in(error, NXMEM_ERR_CONTRACT, v, (nx_context){.record = NX_RECORD_NONE}, "%s: %s", w->verb, slot);
}

static nxmem_result ask_cost(const work *w, const NxmemRangeRequest *requests, uint64_t count, uint64_t *out,
                             nxmem_error *error) {
  const NxmemVirtualBackingVtable *table = nx_backing_of(w->a);
  uint64_t mapped = NXMEM_UNWRITTEN_COUNT;
  const NxmemStatus answer = table->mapped_bytes_for_ranges(table->ctx, requests, count, &mapped);
  NxmemStatus status;
  if (nx_take_answer(&answer, &status) != NXMEM_STATUS_OK)
    return nx_fail_status(error, NXMEM_ERR_PLUGIN, &status, "%s: mapped_bytes_for_ranges", w->verb);
  *out = *(volatile uint64_t *)&mapped;
  return NXMEM_OK;
}

/* Charge what the plugin says it will map, before it does. */
static nxmem_result charge_ahead(const work *w, nxmem_error *error) {
  const NxmemByteRange range = w->request.range;
  uint64_t cost = 0;
  const nxmem_result asked = ask_cost(w, &w->request, 1, &cost, error); /* Q */
  if (asked != NXMEM_OK) return asked;
  /* All that was drawn is at least what is mapped, and one number: only near the limit is the sum asked for. */
  nxmem_verdict v = nxmem_judge_cost(cost, range.offset, range.bytes, nx_books_drawn_mapped(w->a));
  if (v.reason == NXMEM_REASON_TOTAL_TOO_LARGE && w->a->limits == NULL)
    v = nxmem_judge_cost(cost, range.offset, range.bytes, mapped_total(w->a));
  if (v.reason == NXMEM_REASON_NONE) { /* K */
    const nxmem_result taken = take_elsewhere(w->record, cost, error);
    if (taken != NXMEM_OK) return taken;
    if (charge_mapped(w->a, w->record, cost)) return NXMEM_OK;
    give_elsewhere(w->record, cost);
    v = (nxmem_verdict){NXMEM_REASON_TOTAL_TOO_LARGE, 0, cost, NXMEM_TOTAL_MAX - judged_total(w->a)};
  }
  if (nx_grant_refuse(w->a, v, nxmem_judge_cost(cost, range.offset, range.bytes, 0)))
    return nx_grant_fail(error, v, "%s %" PRIu64 " bytes", w->verb, range.bytes);
  return refuse_number(w, v, "mapped_bytes_for_ranges", error);
}

static nxmem_result commit_pinned(work *w, NxmemByteRange range, nxmem_error *error) {
  nxmem_result r = nx_check_ranges(w->verb, &range, 1, w->request.allocation.bytes, error);
  if (r != NXMEM_OK) return r;
  w->request.range = range;
  r = charge_ahead(w, error);
  if (r != NXMEM_OK) return r;
  const NxmemVirtualBackingVtable *table = nx_backing_of(w->a);
  const NxmemStatus answer = table->commit_range(table->ctx, &w->request); /* M */
  NxmemStatus status;
  if (nx_take_answer(&answer, &status) == NXMEM_STATUS_OK) return NXMEM_OK;
  leave_open(w->record);
  return nx_fail_status(error, NXMEM_ERR_PLUGIN, &status, "%s %" PRIu64 " bytes", w->verb, range.bytes);
}

static nxmem_result commit_entered(nx_allocator *a, nxmem_allocator allocator, nxmem_allocation allocation,
                                   NxmemByteRange range, nxmem_error *error) {
  work w;
  w.verb = "commit";
  w.a = a;
  const NxmemVirtualBackingVtable *table = nx_backing_of(a);
  nxmem_result r = nx_need_slot(table->commit_range != NULL, w.verb, "virtual_backing.commit_range", error);
  if (r == NXMEM_OK)
    r = nx_need_slot(table->mapped_bytes_for_ranges != NULL, w.verb, "virtual_backing.mapped_bytes_for_ranges", error);
  if (r == NXMEM_OK) r = begin(&w, allocator, allocation, error);
  if (r != NXMEM_OK) return r;
  r = commit_pinned(&w, range, error);
  nx_backing_unpin(a, w.record);
  return r;
}

nxmem_result nxmem_commit(nxmem_allocator allocator, nxmem_allocation allocation, NxmemByteRange range,
                          nxmem_error *error) {
  nx_allocator *a = NULL;
  nxmem_result r = nx_allocator_enter(allocator, &a, error);
  if (r != NXMEM_OK) return r;
  r = commit_entered(a, allocator, allocation, range, error);
  nx_allocator_leave(a);
  return r;
}

/* ---- Decommit ---------------------------------------------------------------------------------------------------- */

/* More than is charged is the plugin's fault only where no other call has been at the charge. */
static void credit(const work *w, uint64_t reported, uint64_t *unmapped_out) {
  const nxmem_credit split = credit_mapped(w->a, w->record, reported);
  const int alone = nxmem_pin_is_alone(atomic_load(&w->record->slot.word));
  if (alone) give_elsewhere(w->record, split.credited);
  if (split.unknown) leave_open(w->record);
  if (split.unknown || (split.excess != 0 && alone))
    nx_violation(w->a, (nxmem_verdict){NXMEM_REASON_MORE_THAN_POSSIBLE, 0, reported, split.credited});
  if (unmapped_out != NULL) *unmapped_out = split.credited;
}

static nxmem_result decommit_pinned(work *w, NxmemByteRange range, uint64_t *unmapped_out, nxmem_error *error) {
  const nxmem_result r = nx_check_ranges(w->verb, &range, 1, w->request.allocation.bytes, error);
  if (r != NXMEM_OK) return r;
  w->request.range = range;
  const NxmemVirtualBackingVtable *table = nx_backing_of(w->a);
  uint64_t unmapped = NXMEM_UNWRITTEN_COUNT;
  const NxmemStatus answer = table->decommit_range(table->ctx, &w->request, &unmapped); /* D */
  NxmemStatus status;
  if (nx_take_answer(&answer, &status) != NXMEM_STATUS_OK) {
    leave_open(w->record);
    return nx_fail_status(error, NXMEM_ERR_PLUGIN, &status, "%s %" PRIu64 " bytes", w->verb, range.bytes);
  }
  credit(w, *(volatile uint64_t *)&unmapped, unmapped_out);
  return NXMEM_OK;
}

nxmem_result nxmem_decommit(nxmem_allocator allocator, nxmem_allocation allocation, NxmemByteRange range,
                            uint64_t *unmapped_out, nxmem_error *error) {
  work w;
  w.verb = "decommit";
  nxmem_result r = nx_allocator_enter(allocator, &w.a, error);
  if (r != NXMEM_OK) return r;
  r = nx_need_slot(nx_backing_of(w.a)->decommit_range != NULL, w.verb, "virtual_backing.decommit_range", error);
  if (r == NXMEM_OK) r = begin(&w, allocator, allocation, error);
  if (r == NXMEM_OK) {
    r = decommit_pinned(&w, range, unmapped_out, error);
    nx_backing_unpin(w.a, w.record);
  }
  nx_allocator_leave(w.a);
  return r;
}

/* ---- Questions --------------------------------------------------------------------------------------------------- */

static nxmem_result committed_pinned(const work *w, uint64_t *out, nxmem_error *error) {
  const NxmemVirtualBackingVtable *table = nx_backing_of(w->a);
  uint64_t committed = NXMEM_UNWRITTEN_COUNT;
  const NxmemStatus answer = table->committed_bytes(table->ctx, &w->request.allocation, &committed);
  NxmemStatus status;
  if (nx_take_answer(&answer, &status) != NXMEM_STATUS_OK)
    return nx_fail_status(error, NXMEM_ERR_PLUGIN, &status, "%s", w->verb);
  const uint64_t said = *(volatile uint64_t *)&committed;
  const nxmem_verdict v = nxmem_judge_cost(said, 0, w->request.allocation.bytes, 0);
  if (v.reason != NXMEM_REASON_NONE) return refuse_number(w, v, "committed_bytes", error);
  *out = said;
  return NXMEM_OK;
}

nxmem_result nxmem_committed_bytes(nxmem_allocator allocator, nxmem_allocation allocation, uint64_t *out,
                                   nxmem_error *error) {
  work w = {.verb = "committed bytes"};
  if (out == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "%s: out is NULL", w.verb);
  nxmem_result r = nx_allocator_enter(allocator, &w.a, error);
  if (r != NXMEM_OK) return r;
  r = nx_need_slot(nx_backing_of(w.a)->committed_bytes != NULL, w.verb, "virtual_backing.committed_bytes", error);
  if (r == NXMEM_OK) r = begin(&w, allocator, allocation, error);
  if (r == NXMEM_OK) {
    r = committed_pinned(&w, out, error);
    nx_backing_unpin(w.a, w.record);
  }
  nx_allocator_leave(w.a);
  return r;
}

/* Requests for all ranges of the allocation; a few stand on the stack. NULL: no memory. */
enum { FEW = 4 };
static NxmemRangeRequest *make_requests(const work *w, const NxmemByteRange *ranges, uint64_t count,
                                        NxmemRangeRequest few[FEW]) {
  NxmemRangeRequest *requests = count <= FEW ? few : malloc((size_t)count * sizeof *requests);
  for (uint64_t i = 0; requests != NULL && i < count; i++) {
    requests[i] = w->request;
    requests[i].range = ranges[i];
  }
  return requests;
}

static nxmem_result cost_pinned(const work *w, const NxmemByteRange *ranges, uint64_t count, uint64_t *out,
                                nxmem_error *error) {
  const uint64_t bytes = w->request.allocation.bytes;
  nxmem_result r = nx_check_ranges(w->verb, ranges, count, bytes, error);
  if (r != NXMEM_OK) return r;
  NxmemRangeRequest few[FEW];
  NxmemRangeRequest *requests = make_requests(w, ranges, count, few);
  if (requests == NULL)
    return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "%s: no room for %" PRIu64 " requests", w->verb, count);
  uint64_t cost = 0;
  r = ask_cost(w, requests, count, &cost, error);
  if (requests != few) free(requests);
  if (r != NXMEM_OK) return r;
  const nxmem_verdict v = nxmem_judge_cost(cost, 0, bytes, 0);
  if (v.reason != NXMEM_REASON_NONE) return refuse_number(w, v, "mapped_bytes_for_ranges", error);
  *out = cost;
  return NXMEM_OK;
}

nxmem_result nxmem_cost_of_ranges(nxmem_allocator allocator, nxmem_allocation allocation, const NxmemByteRange *ranges,
                                  uint64_t count, uint64_t *out, nxmem_error *error) {
  work w = {.verb = "cost of ranges"};
  if (out == NULL || count == 0)
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "%s: out is NULL, or there are none", w.verb);
  nxmem_result r = nx_allocator_enter(allocator, &w.a, error);
  if (r != NXMEM_OK) return r;
  r = nx_need_slot(nx_backing_of(w.a)->mapped_bytes_for_ranges != NULL, w.verb,
                   "virtual_backing.mapped_bytes_for_ranges", error);
  if (r == NXMEM_OK) r = begin(&w, allocator, allocation, error);
  if (r == NXMEM_OK) {
    r = cost_pinned(&w, ranges, count, out, error);
    nx_backing_unpin(w.a, w.record);
  }
  nx_allocator_leave(w.a);
  return r;
}

static nxmem_result cost_of_request(const work *w, const NxmemAllocRequest *request, uint64_t *out,
                                    nxmem_error *error) {
  const NxmemVirtualBackingVtable *table = nx_backing_of(w->a);
  uint64_t mapped = NXMEM_UNWRITTEN_COUNT;
  const NxmemStatus answer = table->mapped_bytes_for_allocation(table->ctx, request, &mapped);
  NxmemStatus status;
  if (nx_take_answer(&answer, &status) != NXMEM_STATUS_OK)
    return nx_fail_status(error, NXMEM_ERR_PLUGIN, &status, "%s", w->verb);
  const uint64_t said = *(volatile uint64_t *)&mapped;
  const nxmem_verdict v = nxmem_judge_cost(said, 0, request->bytes, 0);
  if (v.reason != NXMEM_REASON_NONE) return refuse_number(w, v, "mapped_bytes_for_allocation", error);
  *out = said;
  return NXMEM_OK;
}

/* No allocation is meant, so its id is 0, which names none. */
nxmem_result nxmem_cost_of_allocation(nxmem_allocator allocator, uint64_t bytes, uint64_t align,
                                      const nxmem_allocate_options *options, uint64_t *out, nxmem_error *error) {
  work w = {.verb = "cost of allocation"};
  if (out == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "%s: out is NULL", w.verb);
  const nxmem_verdict v = nxmem_check_alloc_request(bytes, align);
  if (v.reason != NXMEM_REASON_NONE) return nx_fail_verdict(error, nx_result_of(v), v, "%s", w.verb);
  const nxmem_allocate_options chosen = options == NULL ? (nxmem_allocate_options){NULL, 0} : *options;
  nxmem_result r = nx_check_ranges(w.verb, chosen.committed_ranges, chosen.committed_range_count, bytes, error);
  if (r == NXMEM_OK) r = nx_allocator_enter(allocator, &w.a, error);
  if (r != NXMEM_OK) return r;
  r = nx_need_slot(nx_backing_of(w.a)->mapped_bytes_for_allocation != NULL, w.verb,
                   "virtual_backing.mapped_bytes_for_allocation", error);
  const NxmemAllocRequest request = {.struct_size = sizeof request,
                                     .mechanism_id = w.a->table.mechanism_id,
                                     .device = w.a->table.device,
                                     .bytes = bytes,
                                     .align = align,
                                     .committed_ranges = chosen.committed_ranges,
                                     .committed_range_count = chosen.committed_range_count};
  if (r == NXMEM_OK) r = cost_of_request(&w, &request, out, error);
  nx_allocator_leave(w.a);
  return r;
}
