/*
 * backing.c: ranges and what they cost.
 * Attackers: numbers near 2^64, and numbers left unwritten.
 * Promise: one call, its arguments in the order of the prototype; a span that is not whole becomes one that ends at
 * 2^64-1, a total that the books cannot hold the largest that they can.
 */
#include "nxmem/backing.h"

#include "call.h"

static void run_nxmem_check_range_list(core_call *call) {
  const uint64_t address = fuzz_take_u64(&call->in);
  nxmem_check_range_list(address, fuzz_take_u64(&call->in));
}

static void run_nxmem_check_commit_range(core_call *call) {
  const uint64_t offset = fuzz_take_u64(&call->in);
  const uint64_t bytes = fuzz_take_u64(&call->in);
  nxmem_check_commit_range(offset, bytes, fuzz_take_u64(&call->in));
}

static uint64_t bytes_behind(core_call *call, uint64_t offset) {
  const uint64_t bytes = fuzz_take_u64(&call->in);
  return bytes <= UINT64_MAX - offset ? bytes : UINT64_MAX - offset;
}

static void run_nxmem_most_mapped(core_call *call) {
  const uint64_t offset = fuzz_take_u64(&call->in);
  nxmem_most_mapped(offset, bytes_behind(call, offset));
}

static void run_nxmem_judge_cost(core_call *call) {
  const uint64_t cost = fuzz_take_u64(&call->in);
  const uint64_t offset = fuzz_take_u64(&call->in);
  const uint64_t bytes = bytes_behind(call, offset);
  const uint64_t total = fuzz_take_u64(&call->in);
  nxmem_judge_cost(cost, offset, bytes, total < NXMEM_TOTAL_MAX ? total : NXMEM_TOTAL_MAX);
}

static void run_nxmem_settle_decommit(core_call *call) {
  const uint64_t reported = fuzz_take_u64(&call->in);
  const uint64_t charged = fuzz_take_u64(&call->in);
  nxmem_settle_decommit(reported, charged, core_room(call, sizeof(nxmem_credit)));
}

static void run_nxmem_settle_committed(core_call *call) {
  const uint32_t status_code = fuzz_take_u32(&call->in);
  const uint64_t reported = fuzz_take_u64(&call->in);
  const uint64_t charged = fuzz_take_u64(&call->in);
  nxmem_settle_committed(status_code, reported, charged, fuzz_take_u64(&call->in));
}

static const core_row rows[] = {
    CORE_ROW(nxmem_check_range_list), CORE_ROW(nxmem_check_commit_range), CORE_ROW(nxmem_most_mapped),
    CORE_ROW(nxmem_judge_cost),       CORE_ROW(nxmem_settle_decommit),    CORE_ROW(nxmem_settle_committed),
};
CORE_TOPIC(backing);
