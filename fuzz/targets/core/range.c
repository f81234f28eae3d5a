/*
 * range.c: spans and granules.
 * Attackers: offsets, sizes and addresses near 2^64.
 * Promise: one call, its arguments in the order of the prototype; a granule of 0 becomes 1; a span that is not whole,
 * where it must be, becomes one that ends at 2^64-1.
 */
#include "nxmem/range.h"

#include "call.h"

static uint64_t granule(core_call *call) {
  const uint64_t taken = fuzz_take_u64(&call->in);
  return taken == 0u ? 1u : taken;
}

static void run_nxmem_is_power_of_two(core_call *call) { nxmem_is_power_of_two(fuzz_take_u64(&call->in)); }

static void run_nxmem_range_is_whole(core_call *call) {
  const uint64_t first = fuzz_take_u64(&call->in);
  nxmem_range_is_whole(first, fuzz_take_u64(&call->in));
}

static void run_nxmem_check_range(core_call *call) {
  const uint64_t offset = fuzz_take_u64(&call->in);
  const uint64_t bytes = fuzz_take_u64(&call->in);
  nxmem_check_range(offset, bytes, fuzz_take_u64(&call->in));
}

static void run_nxmem_ranges_overlap(core_call *call) {
  const uint64_t first = fuzz_take_u64(&call->in);
  const uint64_t first_bytes = fuzz_take_u64(&call->in);
  const uint64_t second = fuzz_take_u64(&call->in);
  nxmem_ranges_overlap(first, first_bytes, second, fuzz_take_u64(&call->in));
}

static void run_nxmem_round_down(core_call *call) {
  const uint64_t value = fuzz_take_u64(&call->in);
  nxmem_round_down(value, granule(call));
}

static void run_nxmem_round_up(core_call *call) {
  const uint64_t value = fuzz_take_u64(&call->in);
  const uint64_t unit = granule(call);
  if (!nxmem_round_up(value, unit, core_room(call, sizeof(uint64_t)))) core_kept(call);
}

static void run_nxmem_granules_touched(core_call *call) {
  const uint64_t offset = fuzz_take_u64(&call->in);
  const uint64_t bytes = fuzz_take_u64(&call->in);
  nxmem_granules_touched(offset, bytes <= UINT64_MAX - offset ? bytes : UINT64_MAX - offset, granule(call));
}

static void run_nxmem_check_readable(core_call *call) {
  const uint64_t readable = fuzz_take_u64(&call->in);
  nxmem_check_readable(readable, fuzz_take_u64(&call->in));
}

static const core_row rows[] = {
    CORE_ROW(nxmem_is_power_of_two),  CORE_ROW(nxmem_range_is_whole), CORE_ROW(nxmem_check_range),
    CORE_ROW(nxmem_ranges_overlap),   CORE_ROW(nxmem_round_down),     CORE_ROW(nxmem_round_up),
    CORE_ROW(nxmem_granules_touched), CORE_ROW(nxmem_check_readable),
};
CORE_TOPIC(range);
