/*
 * registry_owning.c: releases that own what they release.
 *
 * Attackers: callers that release twice, from two threads, or with words that are another allocation's; plugins that say "nothing changed"; devices that vanish before,
 * while or after a release is executed.
 * Promise: the claim of the record happens once and is never undone; what is claimed is given back or kept under a reason, and settled once, whoever does it.
 */
#include <inttypes.h>

#include "error.h"
#include "nxmem/handle.h"
#include "nxmem/outcome.h"
#include "registry.h"
#include "registry_members.h"
#include "registry_prepared.h"

/* ---- Claiming ---------------------------------------------------------------------------------------------------- */

static nxmem_result unknown(const char *verb, nxmem_error *error) {
  if (nx_is_forked()) return nx_fail(error, NXMEM_ERR_FORKED, "%s: this process is a forked child", verb);
  return nx_fail(error, NXMEM_ERR_UNKNOWN_ALLOCATION, "%s: no live allocation", verb);
}

/* No live record: was it retained? */
static NX_APART nxmem_result refuse_dead(const nx_side *side, uint64_t id, const char *verb, nxmem_error *error) {
  if (side == NULL || nx_is_forked()) return unknown(verb, error);
  const uint64_t word = atomic_load(&side->word);
  if (!nxmem_same_generation(word, id) || nxmem_word_state(word) != NXMEM_SLOT_QUARANTINED) return unknown(verb, error);
  const uint32_t keeping = atomic_load_explicit(&side->keeping, memory_order_relaxed);
  if (keeping == NXMEM_KEPT_DEVICE_LOST)
    return nx_fail(error, NXMEM_ERR_DEVICE_LOST, "%s: retained when its device was lost", verb);
  if (keeping == NXMEM_KEPT_TERMINATED)
    return nx_fail(error, NXMEM_ERR_TERMINATED, "%s: retained when its device was terminated", verb);
  return unknown(verb, error);
}

/* The host says BUSY both of what another call uses and of what another release has claimed: only the first may be tried again. */
static NX_APART nxmem_result refuse_claim(nxmem_result r, const nxmem_bound *bound, const char *verb,
                                          nxmem_error *error) {
  if (r == NXMEM_ERR_STALE_HANDLE || r == NXMEM_ERR_QUARANTINED) return unknown(verb, error);
  if (r != NXMEM_ERR_BUSY) return r;
  const uint64_t word = atomic_load(&nx_allocation_of(bound->id)->slot.word);
  if (nxmem_same_generation(word, bound->id) && nxmem_word_state(word) == NXMEM_SLOT_LIVE) return r;
  return unknown(verb, error);
}

/* Most are of the mechanism's first part: that handle is at hand. */
static uint64_t owner_of(nx_binding *b, nx_allocation *record) {
  const uint64_t first = atomic_load_explicit(&b->allocator, memory_order_relaxed);
  return nx_record_is_of(record, first) ? first : nx_record_owner(record);
}

/*
 * What is read before the claim stays true: the claim succeeds only in the record's same generation, and from the moment that the word beside it said LIVE until the claim its
 * binding's use pins binding and mechanism.
 */
nxmem_result nx_owned_claim(const nxmem_bound *bound, const char *verb, nx_owned *out, nxmem_error *error) {
  nx_side *side = nx_side_of(bound->id);
  if (side == NULL || !nxmem_is_claimable(atomic_load(&side->word), bound->id) || nx_is_forked())
    return refuse_dead(side, bound->id, verb, error);
  if (atomic_load_explicit(&side->binding, memory_order_relaxed) != bound->binding.id)
    return nx_fail(error, NXMEM_ERR_WRONG_OWNER, "%s: found an allocation of another binding", verb);
  if (bound->bytes == 0 || bound->align == 0)
    return nx_fail(error, NXMEM_ERR_MISMATCH, "%s: size or alignment is 0", verb);
  out->side = side;
  out->binding = nx_binding_at(bound->binding.id);
  out->mechanism = nx_mechanism_of_binding(out->binding);
  nx_allocation *record = nx_allocation_of(bound->id);
  out->allocator = owner_of(out->binding, record);
  const nx_naming naming = {.verb = verb,
                            .allocator = {out->allocator},
                            .allocation = {bound->id, bound->ptr},
                            .bytes = bound->bytes,
                            .align = bound->align};
  NX_STEP("release: looked at");
  const nxmem_result r = nx_record_claim_at(record, &naming, NXMEM_SLOT_RELEASING, &out->claimed, error); /* P1 */
  return r == NXMEM_OK ? r : refuse_claim(r, bound, verb, error);
}

/* Nobody looks at anything else behind it: whose it is, the record's word says. */
static void show(nx_side *side, uint64_t id, nxmem_slot_state state) {
  const uint64_t word = nxmem_word_make(nxmem_handle_generation(id), 0u, (uint32_t)state);
  atomic_store_explicit(&side->word, word, memory_order_release);
}

/* ---- Settling ---------------------------------------------------------------------------------------------------- */

/*
 * The one end of every allocation that was bound. The record goes, or is quarantined, in the same step: closing hands nothing back twice. Behind nx_release_settle_inside() the record, and
 * with it what stands beside it, may be another's.
 */
static void settle(nx_owned *o, nx_visit visit, nxmem_keeping keeping, nx_release_answer *answer) {
  struct nx_account *account = atomic_load_explicit(&o->side->account, memory_order_relaxed);
  atomic_store_explicit(&o->side->keeping, (uint32_t)keeping, memory_order_relaxed);
  atomic_store_explicit(&o->side->plugin_status, answer->status.code, memory_order_relaxed);
  if (account == NULL)
    show(o->side, o->claimed.id, keeping == NXMEM_KEPT_NOT ? NXMEM_SLOT_FREE : NXMEM_SLOT_QUARANTINED);
  else if (keeping == NXMEM_KEPT_NOT)
    nx_charge_refund(account, o->side, o->claimed.id);
  else
    nx_charge_keep(account, o->side, o->claimed.id);
  answer->fate = keeping == NXMEM_KEPT_NOT ? NXMEM_FATE_GONE : NXMEM_FATE_QUARANTINED;
  nx_release_settle_inside(visit, o->claimed.record, answer);
  nx_binding_unuse(o->binding);
}

nxmem_keeping nx_owned_keep(nx_owned *o, nxmem_keeping why) {
  NX_STEP("keep: claimed");
  const nxmem_keeping keeping = nxmem_keep_owned(nx_lifecycle(o->mechanism), why);
  nx_release_answer answer = {.fate = NXMEM_FATE_QUARANTINED, .residual = NXMEM_UNWRITTEN_COUNT};
  settle(o, nx_visit_of(nx_allocator_of(o->allocator)), keeping, &answer);
  return keeping;
}

/*
 * Let in where the allocator is open and the mechanism not lost, looked at in this order: the loss turns the lifecycle before it shuts the allocator. What the plugin answers
 * behind a loss changes nothing.
 */
nxmem_result nx_owned_give_back(nx_owned *o, nxmem_error *error) {
  nx_release_answer answer; /* of its status the code alone: the message's 256 bytes are not cleared for nothing */
  answer.fate = NXMEM_FATE_LIVE;
  answer.state = NXMEM_RELEASE_COMPLETE;
  answer.reported = 0;
  answer.residual = NXMEM_UNWRITTEN_COUNT;
  answer.status.code = NXMEM_STATUS_OK;
  nx_visit visit;
  NX_STEP("execute: begun");
  const int entered = nx_visit_begin((nxmem_allocator){o->allocator}, &visit, NULL) == NXMEM_OK; /* E2 */
  if (!entered) visit = nx_visit_of(nx_allocator_of(o->allocator));
  const int asked = entered && nx_lifecycle(o->mechanism) <= NXMEM_LIFECYCLE_RETIRED; /* E3 */
  if (asked) nx_release_ask_claimed(visit.allocator, &o->claimed, &answer);           /* E4 */
  NX_STEP("execute: answered");
  const nxmem_keeping keeping = nxmem_settle_owned(nx_lifecycle(o->mechanism), answer.fate); /* E5 */
  settle(o, visit, keeping, &answer);                                                        /* E6 */
  if (entered) nx_visit_end(visit);
  if (keeping == NXMEM_KEPT_NOT) return NXMEM_OK;
  (void)nx_fail(error, NXMEM_ERR_QUARANTINED, "release: kept: %s%s%s", nxmem_keeping_name(keeping),
                answer.status.code == NXMEM_STATUS_OK ? "" : ", the plugin answered ",
                answer.status.code == NXMEM_STATUS_OK ? "" : nxmem_status_name(answer.status.code));
  if (error == NULL) return NXMEM_ERR_QUARANTINED;
  error->found = keeping;
  error->plugin_status = answer.status.code;
  return NXMEM_ERR_QUARANTINED;
}

/* ---- Wholesale --------------------------------------------------------------------------------------------------- */

/* A record that is live, of this allocator (and binding), and has been published. */
static int claim_any(nx_allocation *record, uint64_t allocator, uint64_t binding, nx_owned *out) {
  const uint64_t word = atomic_load(&record->slot.word);
  const uint64_t owner = nx_record_owner(record);
  if (!nxmem_is_owned(word, NXMEM_SLOT_LIVE, owner, allocator)) return 0;
  const uint64_t id = nxmem_handle_make(record->slot.self, nxmem_word_generation(word));
  nx_side *side = nx_side_of(id);
  if (side == NULL || !nxmem_is_claimable(atomic_load(&side->word), id)) return 0;
  const uint64_t its = atomic_load_explicit(&side->binding, memory_order_relaxed);
  if (binding != 0 && its != binding) return 0;
  if (!nx_slot_move(&record->slot, id, NXMEM_SLOT_LIVE, NXMEM_SLOT_RELEASING)) return 0;
  nx_binding *b = nx_binding_at(its);
  *out = (nx_owned){.claimed = nx_record_look(record),
                    .side = side,
                    .binding = b,
                    .mechanism = nx_mechanism_of_binding(b),
                    .allocator = allocator};
  return 1;
}

uint64_t nx_owned_keep_all(uint64_t allocator, uint64_t binding, nxmem_keeping why) {
  const uint32_t count = atomic_load(&nx_allocations.count);
  uint64_t kept = 0;
  for (uint32_t i = 0; i < count; i++) {
    nx_owned owned;
    nx_allocation *record = (nx_allocation *)(void *)nx_table_at(&nx_allocations, i);
    if (!claim_any(record, allocator, binding, &owned)) continue; /* L2 */
    (void)nx_owned_keep(&owned, why);
    kept++;
  }
  return kept;
}

/* ---- Prepared ---------------------------------------------------------------------------------------------------- */

/* Everything is refused in what is lost, also this; but what it names is retained, if the loss has not done so. */
static nxmem_result claim_for_release(const nxmem_bound *bound, const char *verb, nx_owned *owned, nxmem_error *error) {
  if (bound == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "%s: bound is NULL", verb);
  const nxmem_result r = nx_owned_claim(bound, verb, owned, error);
  if (r != NXMEM_OK) return r;
  const nxmem_verdict v = nxmem_check_work(nx_lifecycle(owned->mechanism), NXMEM_WORK_RELEASE);
  if (v.reason == NXMEM_REASON_NONE) return NXMEM_OK;
  (void)nx_owned_keep(owned, NXMEM_KEPT_DEVICE_LOST);
  return nx_ended(v, verb, error);
}

NX_HOT nxmem_result nxmem_bound_release(const nxmem_bound *bound, nxmem_error *error) {
  nx_owned owned;
  const nxmem_result r = claim_for_release(bound, "release", &owned, error);
  return r == NXMEM_OK ? nx_owned_give_back(&owned, error) : r;
}

nxmem_result nxmem_bound_prepare(const nxmem_bound *bound, nxmem_prepared *out, nxmem_error *error) {
  if (out == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "prepare release: out is NULL");
  nx_owned owned;
  const nxmem_result r = claim_for_release(bound, "prepare release", &owned, error);
  if (r != NXMEM_OK) return r;
  atomic_fetch_add(&owned.mechanism->prepared, 1u);
  show(owned.side, owned.claimed.id, NXMEM_SLOT_QUEUED);
  out->id = owned.claimed.id;
  NX_STEP("release: prepared");
  return NXMEM_OK;
}

/* In the users' place of a QUEUED word: a queue has handed it back. */
enum { REFUSED = 1 };

/* From one state to another, once. The record is claimed; what it says does not change. */
nx_prepared_moved nx_prepared_move(uint64_t id, nxmem_slot_state from, nxmem_slot_state to) {
  nx_side *side = nx_side_of(id);
  if (side == NULL || nx_is_forked()) return NX_NOT_MOVED;
  const uint32_t generation = nxmem_handle_generation(id);
  const uint64_t moved = nxmem_word_make(generation, 0u, (uint32_t)to);
  uint64_t word = nxmem_word_make(generation, 0u, (uint32_t)from);
  if (atomic_compare_exchange_strong(&side->word, &word, moved)) return NX_MOVED;
  /* Refused before, or just now: it is not made unrefused again while it is QUEUED. */
  word = nxmem_word_make(generation, REFUSED, (uint32_t)from);
  return atomic_compare_exchange_strong(&side->word, &word, moved) ? NX_MOVED_REFUSED : NX_NOT_MOVED;
}

/* Of whatever its holder does meanwhile one comes first: it is refused, or it was his to give up or to execute. */
int nx_prepared_refused(uint64_t id) {
  nx_side *side = nx_side_of(id);
  if (side == NULL) return 0;
  const uint32_t generation = nxmem_handle_generation(id);
  const uint64_t refused = nxmem_word_make(generation, REFUSED, NXMEM_SLOT_QUEUED);
  uint64_t word = nxmem_word_make(generation, 0u, NXMEM_SLOT_QUEUED);
  NX_STEP("queue: refused");
  return atomic_compare_exchange_strong(&side->word, &word, refused) || word == refused;
}

/* Whoever moved it to RELEASING has it. Its pins hold all of it. */
static nx_owned own_prepared(uint64_t id) {
  nx_allocation *record = nx_allocation_of(id);
  nx_side *side = nx_side_of(id);
  nx_binding *b = nx_binding_at(atomic_load_explicit(&side->binding, memory_order_relaxed));
  return (nx_owned){.claimed = nx_record_look(record),
                    .side = side,
                    .binding = b,
                    .mechanism = nx_mechanism_of_binding(b),
                    .allocator = nx_record_owner(record)};
}

/* Its count outlives it by a moment, as the mechanism must: while it counts, nothing is removed. */
nxmem_result nx_prepared_execute(uint64_t id, nxmem_slot_state from, nxmem_error *error) {
  if (!nx_prepared_move(id, from, NXMEM_SLOT_RELEASING)) return unknown("execute release", error); /* E1 */
  nx_owned owned = own_prepared(id);
  nx_mechanism *m = owned.mechanism;
  const nxmem_result r = nx_owned_give_back(&owned, error);
  atomic_fetch_sub(&m->prepared, 1u);
  return r;
}

nxmem_result nx_prepared_keep(uint64_t id, nxmem_slot_state from, nxmem_keeping why, nxmem_error *error) {
  const nx_prepared_moved moved = nx_prepared_move(id, from, NXMEM_SLOT_RELEASING); /* A1 */
  if (moved == NX_NOT_MOVED) return unknown("abandon release", error);
  nx_owned owned = own_prepared(id);
  nx_mechanism *m = owned.mechanism;
  (void)nx_owned_keep(&owned, moved == NX_MOVED_REFUSED ? NXMEM_KEPT_QUEUE_REFUSED : why); /* A2 */
  atomic_fetch_sub(&m->prepared, 1u);
  return NXMEM_OK;
}

nxmem_result nxmem_prepared_execute(nxmem_prepared prepared, nxmem_error *error) {
  return nx_prepared_execute(prepared.id, NXMEM_SLOT_QUEUED, error);
}

nxmem_result nxmem_prepared_abandon(nxmem_prepared prepared, nxmem_error *error) {
  return nx_prepared_keep(prepared.id, NXMEM_SLOT_QUEUED, NXMEM_KEPT_ABANDONED, error);
}
