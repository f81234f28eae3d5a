/*
 * overlap.c: spans that share a byte.
 * Attackers: addresses and sizes near 2^64.
 * Promise: one call, its arguments in the order of the prototype; an offset that is too large for a span loses its upper
 * half; at most sixteen spans.
 */
#include "nxmem/overlap.h"

#include "call.h"

enum { SPANS_MAX = 16 };

static void run_nxmem_span_make(core_call *call) {
  const uint32_t first = fuzz_take_u32(&call->in) % 65536u;
  nxmem_span_make(first, fuzz_take_u32(&call->in) % 65536u);
}

static void run_nxmem_span_first(core_call *call) { nxmem_span_first(fuzz_take_u32(&call->in)); }
static void run_nxmem_span_last(core_call *call) { nxmem_span_last(fuzz_take_u32(&call->in)); }

static void run_nxmem_find_overlap(core_call *call) {
  const uint32_t span = fuzz_take_u32(&call->in);
  const uint32_t count = fuzz_take_u32(&call->in) % (SPANS_MAX + 1u);
  nxmem_find_overlap(core_given_next(call, count * sizeof(uint32_t)), count, span);
}

static void run_nxmem_check_apart(core_call *call) {
  const uint64_t address = fuzz_take_u64(&call->in);
  const uint64_t bytes = fuzz_take_u64(&call->in);
  const uint64_t other = fuzz_take_u64(&call->in);
  nxmem_check_apart(address, bytes, other, fuzz_take_u64(&call->in));
}

static const core_row rows[] = {
    CORE_ROW(nxmem_span_make),    CORE_ROW(nxmem_span_first),  CORE_ROW(nxmem_span_last),
    CORE_ROW(nxmem_find_overlap), CORE_ROW(nxmem_check_apart),
};
CORE_TOPIC(overlap);
