/*
 * handle.h: slot and generation: does this handle name a live object?
 *
 * Attackers: a caller with a stale or made-up handle; a plugin that returns an invented host_ctx or allocation id.
 * Promise: a handle is never 0 and never names a slot whose generation has moved on; a slot whose generation would
 * wrap is retired.
 *
 * A handle is generation * 2^32 + slot + 1. A slot's word is generation * 2^32 + users * 2^8 + state, so that one
 * compare-and-swap changes all three.
 */
#ifndef NXMEM_HANDLE_H
#define NXMEM_HANDLE_H

#include "nxmem/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { NXMEM_USERS_MAX = 0xFFFFFF };

/* States of a slot. Which of them a table uses stands at that table. */
typedef enum nxmem_slot_state {
  NXMEM_SLOT_FREE = 0,
  NXMEM_SLOT_ALLOCATING = 1, /* claimed; the plugin is being asked */
  NXMEM_SLOT_LIVE = 2,
  NXMEM_SLOT_RELEASING = 3,
  NXMEM_SLOT_QUARANTINED = 4,
  NXMEM_SLOT_RETIRED = 5, /* its generation is used up; never handed out again */
  NXMEM_SLOT_QUEUING = 6, /* the plugin is being asked to queue its release; the ticket is not known yet */
  NXMEM_SLOT_QUEUED = 7   /* its release is outstanding under a ticket */
} nxmem_slot_state;

#ifdef __FRAMAC__
/* clang-format off */
#define NX_TWO_32 4294967296
#define NX_WORD_GENERATION(w) ((w) / NX_TWO_32)
#define NX_WORD_USERS(w) ((w) / 256 % 16777216)
#define NX_WORD_STATE(w) ((w) % 256)
#define NX_SAME_GENERATION(w, h) (NX_WORD_GENERATION(w) == (h) / NX_TWO_32)
#define NX_CLAIMABLE(w, h) \
  (NX_SAME_GENERATION(w, h) && NX_WORD_STATE(w) == NXMEM_SLOT_LIVE && NX_WORD_USERS(w) == 0)
/* What nxmem_check_claim answers where it refuses. */
#define NX_CLAIM_REFUSED(v, w, h) \
  ((!NX_SAME_GENERATION(w, h) ==> \
    NX_VERDICT_IS(v, NXMEM_REASON_STALE_HANDLE, 0, (h) / NX_TWO_32, NX_WORD_GENERATION(w))) && \
   (NX_SAME_GENERATION(w, h) && NX_WORD_STATE(w) != NXMEM_SLOT_LIVE ==> \
    NX_VERDICT_IS(v, NXMEM_REASON_WRONG_STATE, 0, NX_WORD_STATE(w), NXMEM_SLOT_LIVE)) && \
   (NX_SAME_GENERATION(w, h) && NX_WORD_STATE(w) == NXMEM_SLOT_LIVE ==> \
    NX_VERDICT_IS(v, NXMEM_REASON_IN_USE, 0, NX_WORD_USERS(w), 0)))
/* States that a claim finds an object in which is on its way out, or waits for its completion. */
#define NX_LEAVING(state) \
  ((state) == NXMEM_SLOT_RELEASING || (state) == NXMEM_SLOT_QUEUING || (state) == NXMEM_SLOT_QUEUED)
/* clang-format on */
#endif
/* slot below 2^32 - 1. */
/*@ requires nameable: slot < 4294967295;
    assigns \nothing;
    ensures exact: \result == generation * NX_TWO_32 + slot + 1;
    ensures never_null: \result != 0;
    ensures names_generation: \result / NX_TWO_32 == generation;
    ensures names_slot: \result % NX_TWO_32 == slot + 1; */
uint64_t nxmem_handle_make(uint32_t slot, uint32_t generation);
/*@ assigns \nothing;
    ensures exact: \result == handle / NX_TWO_32; */
uint32_t nxmem_handle_generation(uint64_t handle);

/* The slot a handle names, or UINT32_MAX for one that names none (0, or no slot part). */
/*@ assigns \nothing;
    behavior names_one:
      assumes slot_part: handle % NX_TWO_32 != 0;
      ensures exact: \result == handle % NX_TWO_32 - 1;
      ensures nameable: \result < 4294967295;
    behavior names_none:
      assumes no_slot_part: handle % NX_TWO_32 == 0;
      ensures none: \result == 4294967295;
    complete behaviors;
    disjoint behaviors; */
uint32_t nxmem_handle_slot(uint64_t handle);

/* users at most NXMEM_USERS_MAX, state at most 255. */
/*@ requires users_fit: users <= NXMEM_USERS_MAX;
    requires state_fits: state <= 255;
    assigns \nothing;
    ensures holds_generation: NX_WORD_GENERATION(\result) == generation;
    ensures holds_users: NX_WORD_USERS(\result) == users;
    ensures holds_state: NX_WORD_STATE(\result) == state;
    ensures exact: \result == generation * NX_TWO_32 + users * 256 + state; */
uint64_t nxmem_word_make(uint32_t generation, uint32_t users, uint32_t state);
/*@ assigns \nothing;
    ensures exact: \result == NX_WORD_GENERATION(word); */
uint32_t nxmem_word_generation(uint64_t word);
/*@ assigns \nothing;
    ensures exact: \result == NX_WORD_USERS(word);
    ensures bounded: \result <= NXMEM_USERS_MAX; */
uint32_t nxmem_word_users(uint64_t word);
/*@ assigns \nothing;
    ensures exact: \result == NX_WORD_STATE(word);
    ensures bounded: \result <= 255; */
uint32_t nxmem_word_state(uint64_t word);

/* 1 where the slot is still in the generation that the handle names, whatever its state. */
/*@ assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==> NX_SAME_GENERATION(word, handle); */
int nxmem_same_generation(uint64_t word, uint64_t handle);

/* 1 where the slot's object is counted as open: LIVE, or RELEASING, from where it may come back. */
/*@ assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==>
                   NX_WORD_STATE(word) == NXMEM_SLOT_LIVE || NX_WORD_STATE(word) == NXMEM_SLOT_RELEASING; */
int nxmem_is_open(uint64_t word);

/* 1 where the slot is in that state and its object belongs to the owner that is asked for. */
/*@ assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==> NX_WORD_STATE(word) == state && owner == needed_owner; */
int nxmem_is_owned(uint64_t word, uint32_t state, uint64_t owner, uint64_t needed_owner);

/* WRONG_STATE unless the slot is LIVE. */
/*@ assigns \nothing;
    behavior live:
      assumes live: NX_WORD_STATE(word) == NXMEM_SLOT_LIVE;
      ensures accepted: NX_ACCEPTED(\result);
    behavior not_live:
      assumes other_state: NX_WORD_STATE(word) != NXMEM_SLOT_LIVE;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_WRONG_STATE, 0, NX_WORD_STATE(word), NXMEM_SLOT_LIVE);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_live(uint64_t word);

/* The word in another state, at most 255; generation and users stay. */
/*@ requires state_fits: state <= 255;
    assigns \nothing;
    ensures same_generation: NX_WORD_GENERATION(\result) == NX_WORD_GENERATION(word);
    ensures same_users: NX_WORD_USERS(\result) == NX_WORD_USERS(word);
    ensures new_state: NX_WORD_STATE(\result) == state;
    ensures exact: \result == NX_WORD_GENERATION(word) * NX_TWO_32 + NX_WORD_USERS(word) * 256 + state; */
uint64_t nxmem_word_in_state(uint64_t word, uint32_t state);

/*
 * May the object that `handle` names be taken through this word? STALE_HANDLE (another generation), WRONG_STATE (not
 * LIVE), IN_USE (users inside).
 */
/*@ assigns \nothing;
    behavior stale:
      assumes moved_on: !NX_SAME_GENERATION(word, handle);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_STALE_HANDLE, 0, handle / NX_TWO_32,
                                     NX_WORD_GENERATION(word));
    behavior not_live:
      assumes present: NX_SAME_GENERATION(word, handle);
      assumes other_state: NX_WORD_STATE(word) != NXMEM_SLOT_LIVE;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_WRONG_STATE, 0, NX_WORD_STATE(word), NXMEM_SLOT_LIVE);
    behavior in_use:
      assumes present: NX_SAME_GENERATION(word, handle);
      assumes live: NX_WORD_STATE(word) == NXMEM_SLOT_LIVE;
      assumes users: NX_WORD_USERS(word) != 0;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_IN_USE, 0, NX_WORD_USERS(word), 0);
    behavior claimable:
      assumes present: NX_SAME_GENERATION(word, handle);
      assumes live: NX_WORD_STATE(word) == NXMEM_SLOT_LIVE;
      assumes nobody: NX_WORD_USERS(word) == 0;
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_claim(uint64_t word, uint64_t handle);

/* 1 exactly where nxmem_check_claim accepts: for callers that need the reason only where there is one. */
/*@ assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==> NX_CLAIMABLE(word, handle); */
int nxmem_is_claimable(uint64_t word, uint64_t handle);

/*
 * Why a claim was lost that nxmem_check_claim had allowed: as it judges the word now, and IN_USE where it would allow
 * it again (somebody had it in between and gave it back). Never an acceptance.
 */
/*@ assigns \nothing;
    behavior refused_now:
      assumes moved: !NX_CLAIMABLE(word, handle);
      ensures refused: NX_CLAIM_REFUSED(\result, word, handle);
    behavior given_back:
      assumes claimable: NX_CLAIMABLE(word, handle);
      ensures in_use: NX_VERDICT_IS(\result, NXMEM_REASON_IN_USE, 0, 0, 0);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_lost_claim(uint64_t word, uint64_t handle);

/* What there is of the object that a claim asked for. */
typedef enum nxmem_presence {
  NXMEM_PRESENCE_GONE = 0,    /* another generation, or no object in the slot */
  NXMEM_PRESENCE_OPENING = 1, /* the plugin is being asked for it */
  NXMEM_PRESENCE_LIVE = 2,    /* with or without users */
  NXMEM_PRESENCE_LEAVING = 3, /* being released, or its release is queued: it may come back */
  NXMEM_PRESENCE_KEPT = 4     /* quarantined */
} nxmem_presence;

/* What nxmem_check_claim's verdict says of the object. */
/*@ assigns \nothing;
    behavior live:
      assumes live: claim.reason == NXMEM_REASON_NONE || claim.reason == NXMEM_REASON_IN_USE;
      ensures presence: \result == NXMEM_PRESENCE_LIVE;
    behavior opening:
      assumes opening: claim.reason == NXMEM_REASON_WRONG_STATE && claim.found == NXMEM_SLOT_ALLOCATING;
      ensures presence: \result == NXMEM_PRESENCE_OPENING;
    behavior leaving:
      assumes leaving: claim.reason == NXMEM_REASON_WRONG_STATE && NX_LEAVING(claim.found);
      ensures presence: \result == NXMEM_PRESENCE_LEAVING;
    behavior kept:
      assumes kept: claim.reason == NXMEM_REASON_WRONG_STATE && claim.found == NXMEM_SLOT_QUARANTINED;
      ensures presence: \result == NXMEM_PRESENCE_KEPT;
    behavior gone:
      assumes other_reason: claim.reason != NXMEM_REASON_NONE && claim.reason != NXMEM_REASON_IN_USE;
      assumes other_state: claim.reason == NXMEM_REASON_WRONG_STATE ==>
                           claim.found != NXMEM_SLOT_ALLOCATING && !NX_LEAVING(claim.found) &&
                           claim.found != NXMEM_SLOT_QUARANTINED;
      ensures presence: \result == NXMEM_PRESENCE_GONE;
    complete behaviors;
    disjoint behaviors; */
nxmem_presence nxmem_presence_of(nxmem_verdict claim);

/*
 * The word of a slot that becomes free: the next generation and FREE, or RETIRED with the same one where it would
 * wrap. So no handle that ever named the slot can be claimed through it again.
 */
/*@ assigns \nothing;
    ensures moved_on: NX_WORD_GENERATION(\result) > NX_WORD_GENERATION(word) ||
                      NX_WORD_STATE(\result) == NXMEM_SLOT_RETIRED;
    ensures not_live: NX_WORD_STATE(\result) != NXMEM_SLOT_LIVE;
    ensures nobody: NX_WORD_USERS(\result) == 0;
    behavior next_generation:
      assumes room: NX_WORD_GENERATION(word) < 4294967295;
      ensures exact: \result == (NX_WORD_GENERATION(word) + 1) * NX_TWO_32 + NXMEM_SLOT_FREE;
    behavior retired:
      assumes used_up: NX_WORD_GENERATION(word) == 4294967295;
      ensures exact: \result == 4294967295 * NX_TWO_32 + NXMEM_SLOT_RETIRED;
    complete behaviors;
    disjoint behaviors; */
uint64_t nxmem_word_freed(uint64_t word);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_HANDLE_H */
