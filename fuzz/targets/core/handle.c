/*
 * handle.c: slots and generations.
 * Attackers: stale, foreign and made-up handles.
 * Promise: one call, its arguments in the order of the prototype; numbers too large for their place in a word
 * lose their upper bits.
 */
#include "nxmem/handle.h"

#include "call.h"

static void run_nxmem_handle_make(core_call *call) {
  const uint32_t slot = fuzz_take_u32(&call->in);
  nxmem_handle_make(slot < UINT32_MAX ? slot : UINT32_MAX - 1u, fuzz_take_u32(&call->in));
}

static void run_nxmem_handle_generation(core_call *call) { nxmem_handle_generation(fuzz_take_u64(&call->in)); }

static void run_nxmem_handle_slot(core_call *call) { nxmem_handle_slot(fuzz_take_u64(&call->in)); }

static void run_nxmem_word_make(core_call *call) {
  const uint32_t generation = fuzz_take_u32(&call->in);
  const uint32_t users = fuzz_take_u32(&call->in) & NXMEM_USERS_MAX;
  nxmem_word_make(generation, users, fuzz_take_u32(&call->in) & 0xFFu);
}

static void run_nxmem_word_generation(core_call *call) { nxmem_word_generation(fuzz_take_u64(&call->in)); }

static void run_nxmem_word_users(core_call *call) { nxmem_word_users(fuzz_take_u64(&call->in)); }

static void run_nxmem_word_state(core_call *call) { nxmem_word_state(fuzz_take_u64(&call->in)); }

static void run_nxmem_check_claim(core_call *call) {
  const uint64_t word = fuzz_take_u64(&call->in);
  nxmem_check_claim(word, fuzz_take_u64(&call->in));
}

static void run_nxmem_word_freed(core_call *call) { nxmem_word_freed(fuzz_take_u64(&call->in)); }

static void run_nxmem_word_in_state(core_call *call) {
  const uint64_t word = fuzz_take_u64(&call->in);
  nxmem_word_in_state(word, fuzz_take_u32(&call->in) & 0xFFu);
}

static void run_nxmem_same_generation(core_call *call) {
  const uint64_t word = fuzz_take_u64(&call->in);
  nxmem_same_generation(word, fuzz_take_u64(&call->in));
}

static void run_nxmem_is_open(core_call *call) { nxmem_is_open(fuzz_take_u64(&call->in)); }

static void run_nxmem_is_owned(core_call *call) {
  const uint64_t word = fuzz_take_u64(&call->in);
  const uint32_t state = fuzz_take_u32(&call->in);
  const uint64_t owner = fuzz_take_u64(&call->in);
  nxmem_is_owned(word, state, owner, fuzz_take_u64(&call->in));
}

static void run_nxmem_check_live(core_call *call) { nxmem_check_live(fuzz_take_u64(&call->in)); }

static void run_nxmem_check_lost_claim(core_call *call) {
  const uint64_t word = fuzz_take_u64(&call->in);
  nxmem_check_lost_claim(word, fuzz_take_u64(&call->in));
}

static void run_nxmem_is_claimable(core_call *call) {
  const uint64_t word = fuzz_take_u64(&call->in);
  nxmem_is_claimable(word, fuzz_take_u64(&call->in));
}

static void run_nxmem_presence_of(core_call *call) {
  nxmem_verdict claim;
  fuzz_take(&call->in, &claim, sizeof claim);
  nxmem_presence_of(claim);
}

static const core_row rows[] = {
    CORE_ROW(nxmem_handle_make),   CORE_ROW(nxmem_handle_generation), CORE_ROW(nxmem_handle_slot),
    CORE_ROW(nxmem_word_make),     CORE_ROW(nxmem_word_generation),   CORE_ROW(nxmem_word_users),
    CORE_ROW(nxmem_word_state),    CORE_ROW(nxmem_check_claim),       CORE_ROW(nxmem_word_freed),
    CORE_ROW(nxmem_word_in_state), CORE_ROW(nxmem_same_generation),   CORE_ROW(nxmem_is_open),
    CORE_ROW(nxmem_is_owned),      CORE_ROW(nxmem_check_live),        CORE_ROW(nxmem_check_lost_claim),
    CORE_ROW(nxmem_presence_of),   CORE_ROW(nxmem_is_claimable),
};
CORE_TOPIC(handle);
