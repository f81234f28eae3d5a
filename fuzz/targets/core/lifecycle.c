/*
 * lifecycle.c: what a mechanism may still be used for, and when it may go.
 * Attackers: any lifecycle, any counts.
 * Promise: one call, its arguments in the order of the prototype; a lifecycle that must be one is made one.
 */
#include "nxmem/lifecycle.h"

#include "call.h"

static void run_nxmem_lifecycle_of(core_call *call) { nxmem_lifecycle_of(fuzz_take_u64(&call->in)); }

static void run_nxmem_word_in_lifecycle(core_call *call) {
  const uint64_t word = fuzz_take_u64(&call->in);
  nxmem_word_in_lifecycle(word, fuzz_take_u8(&call->in) % NXMEM_LIFECYCLES);
}

static void run_nxmem_lifecycle_leads(core_call *call) {
  const uint32_t from = fuzz_take_u8(&call->in);
  nxmem_lifecycle_leads(from, fuzz_take_u8(&call->in));
}

static void run_nxmem_check_work(core_call *call) {
  const uint32_t lifecycle = fuzz_take_u8(&call->in);
  nxmem_check_work(lifecycle, fuzz_take_u8(&call->in));
}

static void run_nxmem_check_removal(core_call *call) {
  const uint32_t lifecycle = fuzz_take_u8(&call->in);
  nxmem_check_removal(lifecycle, core_given_next(call, sizeof(nxmem_holdings)));
}

static void run_nxmem_settle_owned(core_call *call) {
  const uint32_t lifecycle = fuzz_take_u8(&call->in);
  nxmem_settle_owned(lifecycle, fuzz_take_u8(&call->in));
}

static void run_nxmem_keep_owned(core_call *call) {
  const uint32_t lifecycle = fuzz_take_u8(&call->in);
  nxmem_keep_owned(lifecycle, (nxmem_keeping)(fuzz_take_u8(&call->in) % 8u));
}

static const core_row rows[] = {
    CORE_ROW(nxmem_lifecycle_of), CORE_ROW(nxmem_word_in_lifecycle), CORE_ROW(nxmem_lifecycle_leads),
    CORE_ROW(nxmem_check_work),   CORE_ROW(nxmem_check_removal),     CORE_ROW(nxmem_settle_owned),
    CORE_ROW(nxmem_keep_owned),
};
CORE_TOPIC(lifecycle);
