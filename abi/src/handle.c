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

uint64_t nxmem_word_in_state(uint64_t word, uint32_t state) { return word / 256u * 256u + (uint64_t)state; }

nxmem_verdict nxmem_check_claim(uint64_t word, uint64_t handle) {
  const uint32_t generation = nxmem_word_generation(word);
  const uint32_t claimed = nxmem_handle_generation(handle);
  if (claimed != generation) return nx_verdict(NXMEM_REASON_STALE_HANDLE, 0u, claimed, generation);
  const uint32_t state = nxmem_word_state(word);
  if (state != NXMEM_SLOT_LIVE) return nx_verdict(NXMEM_REASON_WRONG_STATE, 0u, state, NXMEM_SLOT_LIVE);
  const uint32_t users = nxmem_word_users(word);
  if (users != 0u) return nx_verdict(NXMEM_REASON_IN_USE, 0u, users, 0u);
  return nx_accept();
}

uint64_t nxmem_word_freed(uint64_t word) {
  const uint32_t generation = nxmem_word_generation(word);
  if (generation == UINT32_MAX) return nxmem_word_make(generation, 0u, NXMEM_SLOT_RETIRED);
  return nxmem_word_make(generation + 1u, 0u, NXMEM_SLOT_FREE);
}
