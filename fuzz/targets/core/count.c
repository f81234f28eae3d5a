/*
 * count.c: counters and totals.
 * Attackers: numbers near their limits.
 * Promise: one call, its arguments in the order of the prototype; a total that cannot be becomes the largest that can.
 */
#include "nxmem/count.h"

#include "call.h"

static void run_nxmem_count_add(core_call *call) {
  const uint64_t count = fuzz_take_u64(&call->in);
  nxmem_count_add(count, fuzz_take_u64(&call->in));
}

static void run_nxmem_count_up(core_call *call) { nxmem_count_up(fuzz_take_u64(&call->in)); }

static void run_nxmem_total_add(core_call *call) {
  const uint64_t total = fuzz_take_u64(&call->in);
  const uint64_t bytes = fuzz_take_u64(&call->in);
  uint64_t *out = core_room(call, sizeof *out);
  if (!nxmem_total_add(total < NXMEM_TOTAL_MAX ? total : NXMEM_TOTAL_MAX, bytes, out)) core_kept(call);
}

static const core_row rows[] = {
    CORE_ROW(nxmem_count_add),
    CORE_ROW(nxmem_count_up),
    CORE_ROW(nxmem_total_add),
};
CORE_TOPIC(count);
