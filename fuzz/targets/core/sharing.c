/*
 * sharing.c: shared prefixes and groups.
 * Attackers: foreign, short and unwritten handles, costs that no prefix has.
 * Promise: one call, its arguments in the order of the prototype; a place that is not whole becomes one that ends at
 * 2^64-1, totals that the books cannot hold the largest that they can.
 */
#include "nxmem/sharing.h"

#include "call.h"

static void run_nxmem_prefix_handle_take(core_call *call) {
  const NxmemSharedPrefixHandle *given = core_given_next(call, sizeof *given);
  nxmem_prefix_handle_take(given, core_room(call, sizeof(NxmemSharedPrefixHandle)));
}

static void run_nxmem_check_prefix_handle(core_call *call) {
  const NxmemSharedPrefixHandle *prefix = core_given_next(call, sizeof *prefix);
  const uint64_t mechanism_id = fuzz_take_u64(&call->in);
  NxmemDeviceId device;
  fuzz_take(&call->in, &device, sizeof device);
  nxmem_check_prefix_handle(prefix, mechanism_id, device, fuzz_take_u64(&call->in));
}

static void run_nxmem_prefix_may_go_back(core_call *call) { nxmem_prefix_may_go_back(fuzz_take_u32(&call->in)); }

static void run_nxmem_commit_info_take(core_call *call) {
  const NxmemSharedPrefixCommitInfo *given = core_given_next(call, sizeof *given);
  nxmem_commit_info_take(given, core_room(call, sizeof(NxmemSharedPrefixCommitInfo)));
}

static uint64_t at_most(uint64_t value, uint64_t limit) { return value < limit ? value : limit; }

static void run_nxmem_check_commit_info(core_call *call) {
  const NxmemSharedPrefixCommitInfo *info = core_given_next(call, sizeof *info);
  nxmem_prefix_place place;
  place.offset = fuzz_take_u64(&call->in);
  place.bytes = at_most(fuzz_take_u64(&call->in), UINT64_MAX - place.offset);
  place.owned_total = at_most(fuzz_take_u64(&call->in), NXMEM_TOTAL_MAX);
  place.mapped_total = at_most(fuzz_take_u64(&call->in), NXMEM_TOTAL_MAX);
  nxmem_check_commit_info(info, core_given(call, &place, sizeof place));
}

static void run_nxmem_judge_prefix_commit(core_call *call) {
  const uint32_t status_code = fuzz_take_u32(&call->in);
  nxmem_judge_prefix_commit(status_code, fuzz_take_u32(&call->in));
}

static void run_nxmem_judge_group(core_call *call) {
  const uint32_t asked = fuzz_take_u32(&call->in);
  const uint32_t mapped = fuzz_take_u32(&call->in);
  nxmem_judge_group(asked, mapped, fuzz_take_u32(&call->in));
}

static void run_nxmem_prefix_owned_once(core_call *call) {
  const uint64_t reported = fuzz_take_u64(&call->in);
  nxmem_prefix_owned_once(reported, fuzz_take_u64(&call->in));
}

static const core_row rows[] = {
    CORE_ROW(nxmem_prefix_handle_take), CORE_ROW(nxmem_check_prefix_handle), CORE_ROW(nxmem_prefix_may_go_back),
    CORE_ROW(nxmem_commit_info_take),   CORE_ROW(nxmem_check_commit_info),   CORE_ROW(nxmem_judge_prefix_commit),
    CORE_ROW(nxmem_judge_group),        CORE_ROW(nxmem_prefix_owned_once),
};
CORE_TOPIC(sharing);
