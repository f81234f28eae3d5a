/*
 * pin.c: Eva drivers of nxmem/pin.h: each entry point once for everything that its contract allows.
 *
 * Attackers: a caller's made-up handle.
 * Promise: the preconditions of pin.h and nothing else.
 */
#include "nxmem/pin.h"

#include "support.h"

void eva_nxmem_word_pins(void) { (void)nxmem_word_pins(any64); }

void eva_nxmem_check_pin(void) { (void)nxmem_check_pin(any64, any64); }

/* A word of its parts, as the precondition speaks of one of them. */
static uint64_t any_word(uint32_t pins) {
  return (uint64_t)any32 * 4294967296u + (uint64_t)(any32 % 2u) * 0x80000000u + (uint64_t)pins * 256u + any8;
}

void eva_nxmem_word_pinned(void) {
  const uint32_t pins = any32;
  if (pins < NXMEM_PINS_MAX) (void)nxmem_word_pinned(any_word(pins));
}

void eva_nxmem_word_unpinned(void) {
  const uint32_t pins = any32;
  if (pins > 0u && pins <= NXMEM_PINS_MAX) (void)nxmem_word_unpinned(any_word(pins));
}

void eva_nxmem_pin_must_settle(void) { (void)nxmem_pin_must_settle(any64); }

void eva_nxmem_pin_is_alone(void) { (void)nxmem_pin_is_alone(any64); }

void eva_nxmem_word_met(void) { (void)nxmem_word_met(any_word(any32 % (NXMEM_PINS_MAX + 1u))); }

void eva_nxmem_word_unmet(void) { (void)nxmem_word_unmet(any_word(any32 % (NXMEM_PINS_MAX + 1u))); }
