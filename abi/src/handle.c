/*
 * handle.c: the arithmetic of slots and generations.
 *
 * Attackers: stale, foreign and made-up handles.
 * Promise: a claim succeeds only for the slot's present generation, LIVE, with nobody inside.
 */
#include "nxmem/handle.h"

#include "verdict_make.h"

#define TWO_32 4294967296ull

uint64_t nxmem_handle_make(uint32_t slot, uint32_t generation) {
  return (uint64_t)generation * TWO_32 + (uint64_t)slot + 1u;
}

uint32_t nxmem_handle_generation(uint64_t handle) { return (uint32_t)(handle / TWO_32); }

uint32_t nxmem_handle_slot(uint64_t handle) {
  const uint32_t low = (uint32_t)(handle % TWO_32);
  return low == 0u ? UINT32_MAX : low - 1u;
}

uint64_t nxmem_word_make(uint32_t generation, uint32_t users, uint32_t state) {
  return (uint64_t)generation * TWO_32 + (uint64_t)users * 256u + (uint64_t)state;
}

uint32_t nxmem_word_generation(uint64_t word) { return (uint32_t)(word / TWO_32); }

uint32_t nxmem_word_users(uint64_t word) { return (uint32_t)(word / 256u % 16777216u); }

uint32_t nxmem_word_state(uint64_t word) { return (uint32_t)(word % 256u); }

int nxmem_same_generation(uint64_t word, uint64_t handle) {
  return nxmem_word_generation(word) == nxmem_handle_generation(handle);
}

int nxmem_is_open(uint64_t word) {
  const uint32_t state = nxmem_word_state(word);
  return state == NXMEM_SLOT_LIVE || state == NXMEM_SLOT_RELEASING;
}

int nxmem_is_owned(uint64_t word, uint32_t state, uint64_t owner, uint64_t needed_owner) {
  return nxmem_word_state(word) == state && owner == needed_owner;
}

nxmem_verdict nxmem_check_live(uint64_t word) {
  const uint32_t state = nxmem_word_state(word);
  if (state != NXMEM_SLOT_LIVE) return nx_verdict(NXMEM_REASON_WRONG_STATE, 0u, state, NXMEM_SLOT_LIVE);
  return nx_accept();
}

uint64_t nxmem_word_in_state(uint64_t word, uint32_t state) {
  return nxmem_word_make(nxmem_word_generation(word), nxmem_word_users(word), state);
}

nxmem_verdict nxmem_check_claim(uint64_t word, uint64_t handle) {
  const uint32_t generation = nxmem_word_generation(word);
  const uint32_t claimed = nxmem_handle_generation(handle);
  if (claimed != generation) return nx_verdict(NXMEM_REASON_STALE_HANDLE, 0u, claimed, generation);
  const nxmem_verdict live = nxmem_check_live(word);
  if (live.reason != NXMEM_REASON_NONE) return live;
  const uint32_t users = nxmem_word_users(word);
  if (users != 0u) return nx_verdict(NXMEM_REASON_IN_USE, 0u, users, 0u);
  return nx_accept();
}

int nxmem_is_claimable(uint64_t word, uint64_t handle) {
  return word == nxmem_word_make(nxmem_handle_generation(handle), 0u, NXMEM_SLOT_LIVE);
}

nxmem_verdict nxmem_check_lost_claim(uint64_t word, uint64_t handle) {
  const nxmem_verdict v = nxmem_check_claim(word, handle);
  if (v.reason == NXMEM_REASON_NONE) return nx_verdict(NXMEM_REASON_IN_USE, 0u, 0u, 0u);
  return v;
}

nxmem_presence nxmem_presence_of(nxmem_verdict claim) {
  if (claim.reason == NXMEM_REASON_NONE || claim.reason == NXMEM_REASON_IN_USE) return NXMEM_PRESENCE_LIVE;
  if (claim.reason != NXMEM_REASON_WRONG_STATE) return NXMEM_PRESENCE_GONE;
  switch (claim.found) {
    case NXMEM_SLOT_ALLOCATING:
      return NXMEM_PRESENCE_OPENING;
    case NXMEM_SLOT_RELEASING:
    case NXMEM_SLOT_QUEUING:
    case NXMEM_SLOT_QUEUED:
      return NXMEM_PRESENCE_LEAVING;
    case NXMEM_SLOT_QUARANTINED:
      return NXMEM_PRESENCE_KEPT;
    default:
      return NXMEM_PRESENCE_GONE;
  }
}

uint64_t nxmem_word_freed(uint64_t word) {
  const uint32_t generation = nxmem_word_generation(word);
  if (generation == UINT32_MAX) return nxmem_word_make(generation, 0u, NXMEM_SLOT_RETIRED);
  return nxmem_word_make(generation + 1u, 0u, NXMEM_SLOT_FREE);
}
