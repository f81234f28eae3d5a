/*
 * completion.c: which completions settle a queued release, and as what.
 *
 * Attackers: duplicates, strangers, invented tickets, short and racing records, enqueues that fail after completing.
 * Promise: one record changes or none; a settled record settles no more.
 */
#include "nxmem/completion.h"

#include <stddef.h>

#include "load.h"
#include "nxmem/prefix.h"
#include "nxmem/status.h"
#include "verdict_make.h"

enum { AT_TICKET = 8, AT_MECHANISM_ID = 16, AT_ALLOCATION_ID = 24 };
#ifndef __FRAMAC__
_Static_assert(AT_TICKET == offsetof(NxmemReleaseCompletion, ticket), "ticket");
_Static_assert(AT_MECHANISM_ID == offsetof(NxmemReleaseCompletion, mechanism_id), "mechanism_id");
_Static_assert(AT_ALLOCATION_ID == offsetof(NxmemReleaseCompletion, allocation_id), "allocation_id");
_Static_assert(offsetof(NxmemReleaseCompletion, outcome.state) == 36, "outcome.state");
_Static_assert(offsetof(NxmemReleaseCompletion, outcome.residual_owned_bytes) == 56, "outcome.residual_owned_bytes");
_Static_assert(NXMEM_COMPLETION_BYTES == offsetof(NxmemReleaseCompletion, outcome) + sizeof(NxmemReleaseOutcome),
               "completion");
#endif

nxmem_verdict nxmem_completion_take(NXMEM_UNTRUSTED NxmemReleaseCompletion *src, NxmemReleaseCompletion *out) {
  const nxmem_verdict address = nxmem_check_table_address((uintptr_t)src);
  if (address.reason != NXMEM_REASON_NONE) return address;
  const uint32_t size = NX_LOAD(NxmemReleaseCompletion, src, struct_size);
  if (size < NXMEM_COMPLETION_BYTES) return nx_verdict(NXMEM_REASON_SHORT_COMPLETION, 0u, size, NXMEM_COMPLETION_BYTES);
  out->struct_size = size;
  out->reserved = 0u;
  out->ticket = NX_LOAD(NxmemReleaseCompletion, src, ticket);
  out->mechanism_id = NX_LOAD(NxmemReleaseCompletion, src, mechanism_id);
  out->allocation_id = NX_LOAD(NxmemReleaseCompletion, src, allocation_id);
  out->outcome.struct_size = NX_LOAD(NxmemReleaseCompletion, src, outcome.struct_size);
  out->outcome.state = NX_LOAD(NxmemReleaseCompletion, src, outcome.state);
  out->outcome.allocation_bytes = NX_LOAD(NxmemReleaseCompletion, src, outcome.allocation_bytes);
  out->outcome.unmapped_bytes = NX_LOAD(NxmemReleaseCompletion, src, outcome.unmapped_bytes);
  out->outcome.residual_owned_bytes = NX_LOAD(NxmemReleaseCompletion, src, outcome.residual_owned_bytes);
  nxmem_status_take(&src->outcome.failure, &out->outcome.failure);
  return nx_accept();
}

/* The record is the one that the completion names, in its generation, and belongs to who brings it. */
/*@ requires completion_readable: \valid_read(completion);
    requires record_readable: \valid_read(record);
    assigns \nothing;
    behavior identified:
      assumes all: NX_COMPLETES_4(completion, record, owner);
      ensures accepted: NX_ACCEPTED(\result);
    behavior stranger:
      assumes some_differ: !NX_COMPLETES_4(completion, record, owner);
      ensures refused: NX_COMPLETION_REFUSED(\result, completion, record, owner);
    complete behaviors;
    disjoint behaviors; */
static nxmem_verdict check_named(const NxmemReleaseCompletion *completion, const nxmem_release_record *record,
                                 uint64_t owner) {
  if (completion->allocation_id != record->allocation_id)
    return nx_verdict(NXMEM_REASON_UNKNOWN_ALLOCATION, AT_ALLOCATION_ID, completion->allocation_id,
                      record->allocation_id);
  const uint32_t named = nxmem_handle_generation(completion->allocation_id);
  const uint32_t present = nxmem_word_generation(record->word);
  if (named != present) return nx_verdict(NXMEM_REASON_STALE_HANDLE, AT_ALLOCATION_ID, named, present);
  if (record->owner != owner) return nx_verdict(NXMEM_REASON_OTHER_OWNER, AT_ALLOCATION_ID, owner, record->owner);
  if (completion->mechanism_id != record->mechanism_id)
    return nx_verdict(NXMEM_REASON_OTHER_MECHANISM, AT_MECHANISM_ID, completion->mechanism_id, record->mechanism_id);
  return nx_accept();
}

nxmem_verdict nxmem_judge_completion(const NxmemReleaseCompletion *completion, const nxmem_release_record *record,
                                     uint64_t owner) {
  const nxmem_verdict named = check_named(completion, record, owner);
  if (named.reason != NXMEM_REASON_NONE) return named;
  const uint32_t state = nxmem_word_state(record->word);
  if (state == NXMEM_SLOT_QUEUING) return nx_accept(); /* the ticket is not known yet */
  if (state != NXMEM_SLOT_QUEUED)
    return nx_verdict(NXMEM_REASON_NOT_QUEUED, AT_ALLOCATION_ID, state, NXMEM_SLOT_QUEUED);
  if (completion->ticket != record->ticket)
    return nx_verdict(NXMEM_REASON_OTHER_TICKET, AT_TICKET, completion->ticket, record->ticket);
  return nx_accept();
}

nxmem_release_fate nxmem_completion_fate(uint32_t status_code, uint32_t state) {
  if (state == NXMEM_UNWRITTEN_STATE) return NXMEM_FATE_QUARANTINED;
  return nxmem_judge_release(status_code, state);
}

uint64_t nxmem_word_won(uint64_t word) {
  const uint32_t users = nxmem_word_state(word) == NXMEM_SLOT_QUEUING ? nxmem_word_users(word) : 0u;
  return nxmem_word_make(nxmem_word_generation(word), users, NXMEM_SLOT_RELEASING);
}

uint64_t nxmem_word_settled(uint64_t word, nxmem_release_fate fate) {
  if (fate == NXMEM_FATE_GONE) return nxmem_word_freed(word);
  if (fate == NXMEM_FATE_LIVE) return nxmem_word_in_state(word, NXMEM_SLOT_LIVE);
  return nxmem_word_make(nxmem_word_generation(word), 0u, NXMEM_SLOT_QUARANTINED);
}

nxmem_verdict nxmem_settle(nxmem_release_record *records, uint32_t count, uint64_t owner,
                           const NxmemReleaseCompletion *completion) {
  const uint32_t slot = nxmem_handle_slot(completion->allocation_id);
  if (slot >= count)
    return nx_verdict(NXMEM_REASON_UNKNOWN_ALLOCATION, AT_ALLOCATION_ID, completion->allocation_id, 0u);
  const nxmem_verdict v = nxmem_judge_completion(completion, &records[slot], owner);
  if (v.reason != NXMEM_REASON_NONE) return v;
  const nxmem_release_fate fate = nxmem_completion_fate(completion->outcome.failure.code, completion->outcome.state);
  records[slot].word = nxmem_word_settled(nxmem_word_won(records[slot].word), fate);
  return v;
}

/*@ assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==> NX_STILL_QUEUING(word, allocation_id); */
static int is_still_queuing(uint64_t word, uint64_t allocation_id) {
  return nxmem_same_generation(word, allocation_id) && nxmem_word_state(word) == NXMEM_SLOT_QUEUING;
}

nxmem_enqueue_fate nxmem_judge_enqueue(uint32_t status_code, uint64_t ticket, uint64_t word, uint64_t allocation_id) {
  if (!is_still_queuing(word, allocation_id))
    return status_code == NXMEM_STATUS_OK ? NXMEM_ENQUEUE_SETTLED : NXMEM_ENQUEUE_SETTLED_THEN_FAILED;
  if (status_code == NXMEM_STATUS_RELEASE_QUARANTINED) return NXMEM_ENQUEUE_QUARANTINED;
  if (status_code != NXMEM_STATUS_OK) return NXMEM_ENQUEUE_LIVE;
  return ticket == NXMEM_UNWRITTEN_COUNT ? NXMEM_ENQUEUE_QUARANTINED : NXMEM_ENQUEUE_QUEUED;
}

nxmem_verdict nxmem_check_ticket(uint32_t status_code, uint64_t ticket) {
  if (status_code == NXMEM_STATUS_OK && ticket == NXMEM_UNWRITTEN_COUNT)
    return nx_verdict(NXMEM_REASON_TICKET_UNWRITTEN, 0u, 0u, 0u);
  return nx_accept();
}

/*@ assigns \nothing;
    ensures exact: \result == NX_LEAST(a, b); */
static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

uint64_t nxmem_retired(uint64_t reported, uint64_t max, uint64_t queued) { return least(reported, least(max, queued)); }

nxmem_verdict nxmem_check_retired(uint64_t reported, uint64_t max, uint64_t queued) {
  const uint64_t most = least(max, queued);
  if (reported > most) return nx_verdict(NXMEM_REASON_TOO_MANY_RETIRED, 0u, reported, most);
  return nx_accept();
}

nxmem_verdict nxmem_check_pending(uint64_t count) {
  if (count == NXMEM_UNWRITTEN_COUNT) return nx_verdict(NXMEM_REASON_COUNT_UNWRITTEN, 0u, count, 0u);
  return nx_accept();
}

int nxmem_drain_goes_on(uint32_t passes, uint64_t before, uint64_t after) {
  if (passes >= NXMEM_DRAIN_PASSES || after == 0u) return 0;
  return passes == 0u || after < before;
}
