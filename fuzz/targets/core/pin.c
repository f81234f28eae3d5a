/*
 * pin.c: users of a live object.
 * Attackers: stale handles, and words that are full.
 * Promise: one call, its arguments in the order of the prototype; a word that is full gets room, one without a pin gets
 * one.
 */
#include "nxmem/pin.h"

#include "call.h"

#define PINS ((uint64_t)NXMEM_PINS_MAX << 8)
#define ONE 256u

static void run_nxmem_word_pins(core_call *call) { nxmem_word_pins(fuzz_take_u64(&call->in)); }

static void run_nxmem_check_pin(core_call *call) {
  const uint64_t word = fuzz_take_u64(&call->in);
  nxmem_check_pin(word, fuzz_take_u64(&call->in));
}

static void run_nxmem_word_pinned(core_call *call) {
  const uint64_t word = fuzz_take_u64(&call->in);
  nxmem_word_pinned((word & PINS) == PINS ? word - ONE : word);
}

static void run_nxmem_word_unpinned(core_call *call) {
  const uint64_t word = fuzz_take_u64(&call->in);
  nxmem_word_unpinned((word & PINS) == 0u ? word + ONE : word);
}

static void run_nxmem_pin_must_settle(core_call *call) { nxmem_pin_must_settle(fuzz_take_u64(&call->in)); }
static void run_nxmem_pin_is_alone(core_call *call) { nxmem_pin_is_alone(fuzz_take_u64(&call->in)); }
static void run_nxmem_word_met(core_call *call) { nxmem_word_met(fuzz_take_u64(&call->in)); }
static void run_nxmem_word_unmet(core_call *call) { nxmem_word_unmet(fuzz_take_u64(&call->in)); }

static const core_row rows[] = {
    CORE_ROW(nxmem_word_pins),     CORE_ROW(nxmem_check_pin),       CORE_ROW(nxmem_word_pinned),
    CORE_ROW(nxmem_word_unpinned), CORE_ROW(nxmem_pin_must_settle), CORE_ROW(nxmem_pin_is_alone),
    CORE_ROW(nxmem_word_met),      CORE_ROW(nxmem_word_unmet),
};
CORE_TOPIC(pin);
