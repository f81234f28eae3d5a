/*
 * allocation.c: allocate and release: one funnel each.
 *
 * Attackers: a plugin that answers OK with impossible addresses or numbers; callers with stale, foreign or doubled handles.
 * Promise: a slot is owned by one thread from ALLOCATING to LIVE and from RELEASING to its end, so each allocation is entered once and settled once.
 *
 * R1 to R4 and A1 to A3 are the steps of proofs/models/release_race.pml.
 */
#include "allocation.h"

#include <inttypes.h>
#include <string.h>

#include "error.h"
#include "nxmem/count.h"
#include "nxmem/handle.h"
#include "nxmem/outcome.h"
#include "nxmem/status.h"

static uint64_t get(_Atomic uint64_t *field) { return atomic_load_explicit(field, memory_order_relaxed); }
static void put(_Atomic uint64_t *field, uint64_t value) { atomic_store_explicit(field, value, memory_order_relaxed); }

static nx_host *host_of(nx_allocator *a) { return nx_host_of(atomic_load_explicit(&a->host, memory_order_relaxed)); }

static void count_violation(nx_allocator *a) { nx_count(&host_of(a)->violations); }

/* The allocation as the plugin knows it. */
static NxmemAllocation describe(nx_allocator *a, nx_allocation *record) {
  const NxmemAllocation described = {
      .struct_size = sizeof described,
      .reserved = 0,
      .mechanism_id = a->table.mechanism_id,
      .allocation_id = nx_slot_handle(&record->slot),
      .device = a->table.device,
      .ptr = atomic_load_explicit(&record->ptr, memory_order_relaxed),
      .bytes = get(&record->bytes),
      .align = get(&record->align),
  };
  return described;
}

static void count_quarantined(nx_allocator *a, nx_allocation *record) {
  nx_count(&a->quarantined);
  nx_add(&a->quarantined_bytes, get(&record->bytes));
}

/* Out of everybody's hands for good; its charge stays. The record stays with it until the allocator closes. */
static void quarantine(nx_allocator *a, nx_allocation *record) {
  count_quarantined(a, record);
  nx_slot_set(&record->slot, NXMEM_SLOT_QUARANTINED);
}

/* ---- Release ------------------------------------------------------------------------------------------------------ */

/* What a release slot answered, read once. */
typedef struct release_answer {
  nxmem_release_fate fate;
  uint32_t state;    /* NXMEM_RELEASE_...; of a plain release FAILED, which adds nothing to its status */
  uint64_t reported; /* unmapped bytes */
  NxmemStatus status;
} release_answer;

static void release_structured(nx_allocator *a, const NxmemAllocation *allocation, release_answer *out) {
  NxmemReleaseOutcome outcome;
  memset(&outcome, 0, sizeof outcome);
  outcome.struct_size = sizeof outcome;
  outcome.state = NXMEM_UNWRITTEN_STATE;
  outcome.allocation_bytes = NXMEM_UNWRITTEN_COUNT;
  outcome.unmapped_bytes = NXMEM_UNWRITTEN_COUNT;
  outcome.residual_owned_bytes = NXMEM_UNWRITTEN_COUNT;
  const NxmemStatus answer = a->table.release_allocation(a->table.ctx, allocation, &outcome);
  const uint32_t code = nx_take_answer(&answer, &out->status);
  NxmemReleaseOutcome taken;
  nxmem_outcome_take(&outcome, &taken);
  out->state = taken.state;
  out->reported = taken.unmapped_bytes;
  out->fate = nxmem_judge_release(code, taken.state);
  if (nxmem_failure_says_why(code, out->fate)) out->status = taken.failure;
}

static void release_plain(nx_allocator *a, const NxmemAllocation *allocation, release_answer *out) {
  uint64_t unmapped = NXMEM_UNWRITTEN_COUNT;
  const NxmemStatus answer = a->table.deallocate(a->table.ctx, allocation, &unmapped);
  out->state = NXMEM_RELEASE_FAILED;
  out->fate = nxmem_judge_deallocate(nx_take_answer(&answer, &out->status));
  out->reported = *(volatile uint64_t *)&unmapped;
}

/* Negotiated level, table level and capability all decide: the core has masked the flag and nulled the slot where any of them forbids it. */
static void enter_release(nx_allocator *a, nx_allocation *record, release_answer *out) {
  const NxmemAllocation allocation = describe(a, record);
  if ((a->effective & NXMEM_CAP_STRUCTURED_RELEASE) != 0)
    release_structured(a, &allocation, out);
  else
    release_plain(a, &allocation, out);
}

/* Credit what was reported, never more than was charged; the rest of the charge joins the residual. */
static void refund(nx_allocator *a, nx_allocation *record, uint64_t reported) {
  nxmem_refund split;
  uint64_t residual = atomic_load(&a->residual);
  do {
    nxmem_settle_refund(reported, get(&record->mapped), residual, &split);
  } while (!atomic_compare_exchange_weak(&a->residual, &residual, split.residual));
  atomic_fetch_sub(&a->mapped, split.credited);
  atomic_fetch_sub(&a->owned, get(&record->owned));
  if (split.excess != 0) count_violation(a);
}

/* Gone or quarantined: nothing stays live here. */
static void settle(nx_allocator *a, nx_allocation *record, const release_answer *answer) {
  if (nxmem_final_fate(answer->fate) == NXMEM_FATE_GONE) {
    refund(a, record, answer->reported);
    nx_table_give(&nx_allocations, &record->slot);
  } else {
    quarantine(a, record);
  }
  atomic_fetch_sub(&a->live, 1u);
}

/* Where status and state do not explain each other. */
static const char *state_words(const release_answer *answer) {
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

static nxmem_result release_claimed(nx_allocator *a, nx_allocation *record, nxmem_error *error) {
  release_answer answer;
  enter_release(a, record, &answer); /* R3 */
  if (answer.fate == NXMEM_FATE_LIVE) {
    const nxmem_result r =
        nx_fail_status(error, NXMEM_ERR_PLUGIN, &answer.status, "release: still live%s", state_words(&answer));
    nx_slot_set(&record->slot, NXMEM_SLOT_LIVE); /* R4 */
    return r;
  }
  settle(a, record, &answer); /* R4 */
  if (answer.fate == NXMEM_FATE_GONE) return NXMEM_OK;
  return nx_fail_status(error, NXMEM_ERR_QUARANTINED, &answer.status, "release: quarantined%s", state_words(&answer));
}

static nxmem_result refuse_claim(nxmem_verdict v, nxmem_error *error) {
  const nxmem_presence presence = nxmem_presence_of(v);
  if (presence == NXMEM_PRESENCE_LEAVING || presence == NXMEM_PRESENCE_LIVE)
    return nx_fail_verdict(error, NXMEM_ERR_BUSY, v, "release: another thread is at it");
  if (presence == NXMEM_PRESENCE_KEPT)
    return nx_fail_verdict(error, NXMEM_ERR_QUARANTINED, v, "release: quarantined before");
  return nx_fail_verdict(error, NXMEM_ERR_STALE_HANDLE, v, "release: not a live allocation");
}

static const char *mismatch_word(uint32_t reason) {
  if (reason == NXMEM_REASON_OTHER_ADDRESS) return "address";
  return reason == NXMEM_REASON_OTHER_BYTES ? "bytes" : "alignment";
}

static nxmem_result refuse_named(nxmem_verdict v, nxmem_error *error) {
  if (v.reason == NXMEM_REASON_OTHER_OWNER)
    return nx_fail(error, NXMEM_ERR_WRONG_OWNER, "release: found an allocation of another allocator");
  (void)nx_fail(error, NXMEM_ERR_MISMATCH, "release: %s: found 0x%" PRIx64 ", needed 0x%" PRIx64,
                mismatch_word(v.reason), v.found, v.needed);
  if (error != NULL) {
    error->found = v.found;
    error->needed = v.needed;
  }
  return NXMEM_ERR_MISMATCH;
}

/* What the caller says about the allocation against the record, before the slot is claimed. */
static nxmem_verdict check_named(nx_allocation *record, uint64_t owner, const nxmem_allocation *named,
                                 const nxmem_release_options *options) {
  const nxmem_named said = {.owner = owner,
                            .address = (uintptr_t)named->ptr,
                            .bytes = options == NULL ? 0 : options->bytes,
                            .align = options == NULL ? 0 : options->align};
  const nxmem_named books = {.owner = get(&record->owner),
                             .address = (uintptr_t)atomic_load_explicit(&record->ptr, memory_order_relaxed),
                             .bytes = get(&record->bytes),
                             .align = get(&record->align)};
  return nxmem_check_named(&said, &books);
}

static nxmem_result release_entered(nx_allocator *a, uint64_t owner, nxmem_allocation named,
                                    const nxmem_release_options *options, nxmem_error *error) {
  nx_allocation *record = (nx_allocation *)(void *)nx_table_find(&nx_allocations, named.id);
  if (record == NULL) return nx_fail(error, NXMEM_ERR_STALE_HANDLE, "release: the handle was never issued");
  const nxmem_verdict claim = nxmem_check_claim(atomic_load(&record->slot.word), named.id); /* R1 */
  if (claim.reason != NXMEM_REASON_NONE) return refuse_claim(claim, error);
  const nxmem_verdict said = check_named(record, owner, &named, options);
  if (said.reason != NXMEM_REASON_NONE) return refuse_named(said, error);
  if (nx_slot_move(&record->slot, named.id, NXMEM_SLOT_LIVE, NXMEM_SLOT_RELEASING)) /* R2 */
    return release_claimed(a, record, error);
  return refuse_claim(nxmem_check_lost_claim(atomic_load(&record->slot.word), named.id), error);
}

nxmem_result nxmem_release(nxmem_allocator allocator, nxmem_allocation allocation, const nxmem_release_options *options,
                           nxmem_error *error) {
  nx_allocator *a = NULL;
  nxmem_result r = nx_allocator_enter(allocator, &a, error);
  if (r != NXMEM_OK) return r;
  r = release_entered(a, allocator.id, allocation, options, error);
  nx_allocator_leave(a);
  return r;
}

/*
 * Claim a record for its owner: from `state` to RELEASING. The word is read before the owner and swapped as it was read: between the two the
 * slot may have been freed and handed to somebody else.
 */
static int claim_owned(nx_allocation *record, uint64_t owner, nxmem_slot_state state) {
  const uint64_t word = atomic_load(&record->slot.word);
  if (!nxmem_is_owned(word, state, get(&record->owner), owner)) return 0;
  const uint64_t handle = nxmem_handle_make(record->slot.self, nxmem_word_generation(word));
  return nx_slot_move(&record->slot, handle, state, NXMEM_SLOT_RELEASING);
}

void nx_allocations_forget_quarantined(nx_allocator *a) {
  const uint64_t owner = nx_slot_handle(&a->slot);
  const uint32_t count = atomic_load(&nx_allocations.count);
  for (uint32_t i = 0; i < count; i++) {
    nx_allocation *record = (nx_allocation *)(void *)nx_table_at(&nx_allocations, i);
    if (claim_owned(record, owner, NXMEM_SLOT_QUARANTINED)) nx_table_give(&nx_allocations, &record->slot);
  }
}

void nx_allocations_hand_back(nx_allocator *a) {
  const uint64_t owner = nx_slot_handle(&a->slot);
  const uint32_t count = atomic_load(&nx_allocations.count);
  for (uint32_t i = 0; i < count; i++) {
    nx_allocation *record = (nx_allocation *)(void *)nx_table_at(&nx_allocations, i);
    if (!claim_owned(record, owner, NXMEM_SLOT_LIVE)) continue;
    release_answer answer;
    enter_release(a, record, &answer);
    settle(a, record, &answer); /* a refusal is quarantine here */
  }
}

/* ---- Allocate ----------------------------------------------------------------------------------------------------- */

/* Add to a total; 0 where it would grow too large. */
static int charge(nx_counter *total, uint64_t bytes) {
  uint64_t before = atomic_load(total), after = 0;
  do {
    if (!nxmem_total_add(before, bytes, &after)) return 0;
  } while (!atomic_compare_exchange_weak(total, &before, after));
  return 1;
}

/* Judge an OK answer and charge it. Another thread may use up the room between judgement and charge: then the judgement is made again. */
static nxmem_verdict judge_and_charge(nx_allocator *a, const NxmemAllocResult *result, uint64_t bytes, uint64_t align) {
  for (;;) {
    const nxmem_verdict v =
        nxmem_check_alloc_result((uint64_t)(uintptr_t)result->ptr, result->owned_bytes, result->mapped_bytes, bytes,
                                 align, atomic_load(&a->owned), atomic_load(&a->mapped));
    if (v.reason != NXMEM_REASON_NONE) return v;
    if (!charge(&a->owned, result->owned_bytes)) continue;
    if (charge(&a->mapped, result->mapped_bytes)) return v;
    atomic_fetch_sub(&a->owned, result->owned_bytes);
  }
}

/*
 * An OK that cannot be accepted. A NULL address is never handed back: that would free another owner's memory. The others are handed back
 * once. Nothing was charged, so nothing is refunded; what the plugin keeps is counted as quarantined. Its record goes: no caller ever had its handle, and a
 * plugin must not be able to fill the host's tables with lies.
 */
static void undo(nx_allocator *a, nx_allocation *record, nxmem_verdict v) {
  release_answer answer = {.fate = NXMEM_FATE_QUARANTINED};
  if (nxmem_may_hand_back(v.reason)) enter_release(a, record, &answer);
  if (nxmem_final_fate(answer.fate) == NXMEM_FATE_QUARANTINED) count_quarantined(a, record);
  nx_table_give(&nx_allocations, &record->slot);
}

static nxmem_result ask(nx_allocator *a, nx_allocation *record, uint64_t bytes, uint64_t align, NxmemAllocResult *taken,
                        nxmem_error *error) {
  const NxmemAllocRequest request = {
      .struct_size = sizeof request,
      .reserved = 0,
      .mechanism_id = a->table.mechanism_id,
      .allocation_id = nx_slot_handle(&record->slot),
      .device = a->table.device,
      .bytes = bytes,
      .align = align,
      .committed_ranges = NULL,
      .committed_range_count = 0,
  };
  NxmemAllocResult result = {.struct_size = sizeof result,
                             .reserved = 0,
                             .ptr = NULL,
                             .owned_bytes = NXMEM_UNWRITTEN_COUNT,
                             .mapped_bytes = NXMEM_UNWRITTEN_COUNT};
  const NxmemStatus answer = a->table.allocate(a->table.ctx, &request, &result);
  NxmemStatus status;
  if (nx_take_answer(&answer, &status) == NXMEM_STATUS_OK) {
    nxmem_alloc_result_take(&result, taken);
    return NXMEM_OK;
  }
  return nx_fail_status(error, NXMEM_ERR_PLUGIN, &status, "allocate %" PRIu64 " bytes", bytes);
}

static void note(nx_allocation *record, uint64_t owner, uint64_t bytes, uint64_t align) {
  put(&record->owner, owner);
  put(&record->bytes, bytes);
  put(&record->align, align);
  atomic_store_explicit(&record->ptr, NULL, memory_order_relaxed);
  put(&record->owned, 0);
  put(&record->mapped, 0);
}

static nxmem_result allocate_into(nx_allocator *a, nx_allocation *record, uint64_t bytes, uint64_t align,
                                  nxmem_allocation *out, nxmem_error *error) {
  NxmemAllocResult result;
  const nxmem_result asked = ask(a, record, bytes, align, &result, error); /* A2 */
  if (asked != NXMEM_OK) {
    nx_table_give(&nx_allocations, &record->slot);
    return asked;
  }
  atomic_store_explicit(&record->ptr, result.ptr, memory_order_relaxed);
  const nxmem_verdict v = judge_and_charge(a, &result, bytes, align);
  if (v.reason != NXMEM_REASON_NONE) {
    count_violation(a);
    undo(a, record, v);
    return nx_fail_in(error, NXMEM_ERR_CONTRACT, v, (nx_context){.record = NX_RECORD_RESULT},
                      "allocate %" PRIu64 " bytes", bytes);
  }
  put(&record->owned, result.owned_bytes);
  put(&record->mapped, result.mapped_bytes);
  atomic_fetch_add(&a->live, 1u);
  const uint64_t id = nx_slot_handle(&record->slot);
  nx_slot_set(&record->slot, NXMEM_SLOT_LIVE); /* A3 */
  out->id = id;
  out->ptr = result.ptr;
  return NXMEM_OK;
}

nxmem_result nxmem_allocate(nxmem_allocator allocator, uint64_t bytes, uint64_t align, nxmem_allocation *out,
                            nxmem_error *error) {
  if (out == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "allocate: out is NULL");
  const nxmem_verdict v = nxmem_check_alloc_request(bytes, align);
  if (v.reason != NXMEM_REASON_NONE) return nx_fail_verdict(error, nx_result_of(v), v, "allocate");
  nx_allocator *a = NULL;
  nxmem_result r = nx_allocator_enter(allocator, &a, error);
  if (r != NXMEM_OK) return r;
  nx_allocation *record = (nx_allocation *)(void *)nx_table_take(&nx_allocations); /* A1 */
  if (record == NULL) {
    r = nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "allocate: no room for another allocation");
  } else {
    note(record, allocator.id, bytes, align);
    nx_slot_set(&record->slot, NXMEM_SLOT_ALLOCATING);
    r = allocate_into(a, record, bytes, align, out, error);
  }
  nx_allocator_leave(a);
  return r;
}
