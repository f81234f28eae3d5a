/*
 * outcome.c: what an answer means for the books.
 * Attackers: impossible addresses and numbers, unwritten or contradictory records.
 * Promise: one call, its arguments in the order of the prototype; totals that the books cannot hold become the
 * largest that they can.
 */
#include "nxmem/outcome.h"

#include "call.h"

static void run_nxmem_check_alloc_request(core_call *call) {
  const uint64_t bytes = fuzz_take_u64(&call->in);
  nxmem_check_alloc_request(bytes, fuzz_take_u64(&call->in));
}

static void run_nxmem_alloc_result_take(core_call *call) {
  const NxmemAllocResult *given = core_given_next(call, sizeof *given);
  nxmem_alloc_result_take(given, core_room(call, sizeof(NxmemAllocResult)));
}

static uint64_t total(core_call *call) {
  const uint64_t taken = fuzz_take_u64(&call->in);
  return taken < NXMEM_TOTAL_MAX ? taken : NXMEM_TOTAL_MAX;
}

static void run_nxmem_check_alloc_result(core_call *call) {
  const uint64_t address = fuzz_take_u64(&call->in);
  const uint64_t owned = fuzz_take_u64(&call->in);
  const uint64_t mapped = fuzz_take_u64(&call->in);
  const uint64_t bytes = fuzz_take_u64(&call->in);
  const uint64_t align = fuzz_take_u64(&call->in);
  const uint64_t owned_total = total(call);
  nxmem_check_alloc_result(address, owned, mapped, bytes, align == 0u ? 1u : align, owned_total, total(call));
}

static void run_nxmem_judge_deallocate(core_call *call) { nxmem_judge_deallocate(fuzz_take_u32(&call->in)); }

static void run_nxmem_judge_release(core_call *call) {
  const uint32_t status_code = fuzz_take_u32(&call->in);
  nxmem_judge_release(status_code, fuzz_take_u32(&call->in));
}

static void run_nxmem_outcome_take(core_call *call) {
  const NxmemReleaseOutcome *given = core_given_next(call, sizeof *given);
  nxmem_outcome_take(given, core_room(call, sizeof(nxmem_outcome)));
}

static void run_nxmem_settle_refund(core_call *call) {
  const uint64_t reported = fuzz_take_u64(&call->in);
  const uint64_t charged = fuzz_take_u64(&call->in);
  const uint64_t residual = fuzz_take_u64(&call->in);
  nxmem_settle_refund(reported, charged, residual, core_room(call, sizeof(nxmem_refund)));
}

static void run_nxmem_check_refund(core_call *call) {
  const uint64_t reported = fuzz_take_u64(&call->in);
  const uint64_t charged = fuzz_take_u64(&call->in);
  nxmem_check_refund(reported, charged, fuzz_take_u64(&call->in));
}

static void run_nxmem_may_hand_back(core_call *call) { nxmem_may_hand_back(fuzz_take_u32(&call->in)); }

static void run_nxmem_check_named(core_call *call) {
  const nxmem_named *named = core_given_next(call, sizeof *named);
  nxmem_check_named(named, core_given_next(call, sizeof *named));
}

static void run_nxmem_failure_says_why(core_call *call) {
  const uint32_t status_code = fuzz_take_u32(&call->in);
  nxmem_failure_says_why(status_code, (nxmem_release_fate)fuzz_take_u32(&call->in));
}

static void run_nxmem_final_fate(core_call *call) { nxmem_final_fate((nxmem_release_fate)fuzz_take_u32(&call->in)); }

static const core_row rows[] = {
    CORE_ROW(nxmem_check_alloc_request), CORE_ROW(nxmem_alloc_result_take), CORE_ROW(nxmem_check_alloc_result),
    CORE_ROW(nxmem_judge_deallocate),    CORE_ROW(nxmem_judge_release),     CORE_ROW(nxmem_outcome_take),
    CORE_ROW(nxmem_settle_refund),       CORE_ROW(nxmem_may_hand_back),     CORE_ROW(nxmem_check_named),
    CORE_ROW(nxmem_failure_says_why),    CORE_ROW(nxmem_final_fate),        CORE_ROW(nxmem_check_refund),
};
CORE_TOPIC(outcome);
