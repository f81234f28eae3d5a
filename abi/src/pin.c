/*
 * pin.c: one user more, one user fewer.
 *
 * Attackers: handles that are stale, and more callers than a word can count.
 * Promise: no count runs into its neighbours in the word.
 */
#include "nxmem/pin.h"

#include "verdict_make.h"

#define ONE_PIN 256u
#define MET 0x80000000u

uint32_t nxmem_word_pins(uint64_t word) { return (uint32_t)(word / ONE_PIN % (NXMEM_PINS_MAX + 1u)); }

nxmem_verdict nxmem_check_pin(uint64_t word, uint64_t handle) {
  const uint32_t named = nxmem_handle_generation(handle);
  const uint32_t present = nxmem_word_generation(word);
  if (named != present) return nx_verdict(NXMEM_REASON_STALE_HANDLE, 0u, named, present);
  const uint32_t state = nxmem_word_state(word);
  if (state != NXMEM_SLOT_LIVE) return nx_verdict(NXMEM_REASON_WRONG_STATE, 0u, state, NXMEM_SLOT_LIVE);
  const uint32_t pins = nxmem_word_pins(word);
  if (pins == NXMEM_PINS_MAX) return nx_verdict(NXMEM_REASON_TOO_MANY_USERS, 0u, pins, NXMEM_PINS_MAX - 1u);
  return nx_accept();
}

/*@ assigns \nothing;
    ensures exact: \result == NX_WORD_MET(word); */
static uint32_t has_met(uint64_t word) { return (uint32_t)(word / MET % 2u); }

uint64_t nxmem_word_met(uint64_t word) { return word + (uint64_t)(1u - has_met(word)) * MET; }

uint64_t nxmem_word_unmet(uint64_t word) { return word - (uint64_t)has_met(word) * MET; }

/*@ requires met_fits: met <= 1;
    requires pins_fit: pins <= NXMEM_PINS_MAX;
    requires state_fits: state <= 255;
    assigns \nothing;
    ensures generation: NX_WORD_GENERATION(\result) == generation;
    ensures met: NX_WORD_MET(\result) == met;
    ensures pins: NX_WORD_PINS(\result) == pins;
    ensures state: NX_WORD_STATE(\result) == state; */
static uint64_t word_of(uint32_t generation, uint32_t met, uint32_t pins, uint32_t state) {
  return (uint64_t)generation * 4294967296u + met * MET + pins * ONE_PIN + state;
}

uint64_t nxmem_word_pinned(uint64_t word) {
  const uint32_t pins = nxmem_word_pins(word);
  return word_of(nxmem_word_generation(word), pins == 0u ? has_met(word) : 1u, pins + 1u, nxmem_word_state(word));
}

uint64_t nxmem_word_unpinned(uint64_t word) {
  const uint32_t pins = nxmem_word_pins(word);
  return word_of(nxmem_word_generation(word), pins == 1u ? 0u : has_met(word), pins - 1u, nxmem_word_state(word));
}

int nxmem_pin_must_settle(uint64_t word) { return nxmem_word_pins(word) == 1u && has_met(word) == 1u; }

int nxmem_pin_is_alone(uint64_t word) { return nxmem_word_pins(word) == 1u && has_met(word) == 0u; }
