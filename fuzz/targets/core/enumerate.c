/*
 * enumerate.c: lists of factories.
 * Attackers: counts above the room given, NULL entries, one object listed twice.
 * Promise: entries are taken one byte each, out of few addresses, so that equal ones are common.
 */
#include "nxmem/enumerate.h"

#include "call.h"

/* Takes a whole list and gives the first `count` entries. */
static const uintptr_t *entries(core_call *call, uint32_t count) {
  uintptr_t list[NXMEM_FACTORIES_MAX];
  for (uint32_t i = 0; i < NXMEM_FACTORIES_MAX; i++) list[i] = (uintptr_t)core_small_word(call);
  return core_given(call, list, count * sizeof list[0]);
}

static void run_nxmem_factories_transferred(core_call *call) { nxmem_factories_transferred(fuzz_take_u64(&call->in)); }

/* Input: u8 index | the entries, each one byte. */
static void run_nxmem_factory_is_owed(core_call *call) {
  const uint32_t index = fuzz_take_u8(&call->in) % NXMEM_FACTORIES_MAX;
  nxmem_factory_is_owed(entries(call, index + 1u), index);
}

/* Input: u64 reported | the entries, each one byte. */
static void run_nxmem_check_factories(core_call *call) {
  const uint64_t reported = fuzz_take_u64(&call->in);
  nxmem_check_factories(entries(call, NXMEM_FACTORIES_MAX), reported);
}

static const core_row rows[] = {
    CORE_ROW(nxmem_factories_transferred),
    CORE_ROW(nxmem_factory_is_owed),
    CORE_ROW(nxmem_check_factories),
};
CORE_TOPIC(enumerate);
