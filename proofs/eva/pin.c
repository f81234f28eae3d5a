/*
 * pin.c: Eva drivers of nxmem/pin.h: each entry point once for everything that its contract allows.
 *
 * Attackers: a caller's made-up handle.
 * Promise: any numbers where Eva can relate them; where it cannot, see there.
 */
#include "nxmem/pin.h"

#include "support.h"

void eva_nxmem_word_pins(void) { (void)nxmem_word_pins(any64); }

void eva_nxmem_check_pin(void) { (void)nxmem_check_pin(any64, any64); }

/* No domain of this Eva relates a word to its parts: words whose parts are bounds, each on a path of its own. */
static uint64_t word_with(uint32_t pins) {
  static const uint32_t generations[] = {0u, 1u, 0x7FFFFFFFu, 0xFFFFFFFFu};
  static const uint32_t states[] = {0u, NXMEM_SLOT_LIVE, 255u};
  const uint64_t generation = generations[eva_each(0u, 3u)];
  const uint32_t state = states[eva_each(0u, 2u)];
  const uint32_t met = eva_each(0u, 1u);
  return generation * 4294967296u + met * 0x80000000u + pins * 256u + state;
}

static const uint32_t some_pins[] = {0u, 1u, 2u, NXMEM_PINS_MAX - 1u, NXMEM_PINS_MAX};

void eva_nxmem_word_pinned(void) { (void)nxmem_word_pinned(word_with(some_pins[eva_each(0u, 3u)])); }

void eva_nxmem_word_unpinned(void) { (void)nxmem_word_unpinned(word_with(some_pins[eva_each(1u, 4u)])); }

void eva_nxmem_pin_must_settle(void) { (void)nxmem_pin_must_settle(any64); }

void eva_nxmem_pin_is_alone(void) { (void)nxmem_pin_is_alone(any64); }

void eva_nxmem_word_met(void) { (void)nxmem_word_met(word_with(some_pins[eva_each(0u, 4u)])); }

void eva_nxmem_word_unmet(void) { (void)nxmem_word_unmet(word_with(some_pins[eva_each(0u, 4u)])); }
