/*
 * arena.c: what an arena is opened with, and its books.
 * Attackers: granularities, memory sizes and bounds of any number; releases that come twice.
 * Promise: one call, its arguments in the order of the prototype; a granule of 0 becomes 1; a ladder is made valid; what
 * a refused step may not change is compared here.
 */
#include "nxmem/arena.h"

#include <string.h>

#include "call.h"

static uint64_t not_zero(core_call *call) {
  const uint64_t taken = fuzz_take_u64(&call->in);
  return taken == 0u ? 1u : taken;
}

static void run_nxmem_granule_choose(core_call *call) {
  const uint64_t minimum = fuzz_take_u64(&call->in);
  const uint64_t recommended = fuzz_take_u64(&call->in);
  core_kept_unless_accepted(call, nxmem_granule_choose(minimum, recommended, core_room(call, sizeof(uint64_t))));
}

static void run_nxmem_ladder_start(core_call *call) {
  const uint64_t memory = fuzz_take_u64(&call->in);
  const uint64_t multiple = fuzz_take_u64(&call->in);
  const uint64_t floor = fuzz_take_u64(&call->in);
  const uint64_t minimum = fuzz_take_u64(&call->in);
  const uint64_t granule = not_zero(call);
  nxmem_ladder *ladder = core_room(call, sizeof *ladder);
  core_kept_unless_accepted(call, nxmem_ladder_start(memory, multiple, floor, minimum, granule, ladder));
}

/* Input: u64 minimum | u64 what the rung is above it | u64 granule. */
static void run_nxmem_ladder_next(core_call *call) {
  nxmem_ladder expected;
  expected.minimum = not_zero(call);
  const uint64_t above = fuzz_take_u64(&call->in);
  expected.rung = above <= UINT64_MAX - expected.minimum ? expected.minimum + above : UINT64_MAX;
  nxmem_ladder *ladder = core_changing(call, &expected, sizeof expected);
  if (nxmem_ladder_next(ladder, not_zero(call)).reason == NXMEM_REASON_NONE) expected.rung = ladder->rung;
  if (memcmp(ladder, &expected, sizeof expected) != 0) core_fail(call, "frame", "more changed than may");
}

static void run_nxmem_pool_may_keep(core_call *call) {
  const uint64_t pool = fuzz_take_u64(&call->in);
  const uint64_t granule = not_zero(call);
  nxmem_pool_may_keep(pool, granule, fuzz_take_u64(&call->in));
}

static void run_nxmem_total_subtract(core_call *call) {
  const uint64_t total = fuzz_take_u64(&call->in);
  const uint64_t bytes = fuzz_take_u64(&call->in);
  if (!nxmem_total_subtract(total, bytes, core_room(call, sizeof(uint64_t)))) core_kept(call);
}

static void run_nxmem_peak(core_call *call) {
  const uint64_t peak = fuzz_take_u64(&call->in);
  nxmem_peak(peak, fuzz_take_u64(&call->in));
}

static void run_nxmem_check_not_queued(core_call *call) { nxmem_check_not_queued(fuzz_take_u64(&call->in)); }

/* Input: u64 handles | u64 mappings. One of them may change, and only where the step is accepted. */
typedef nxmem_verdict prefix_step(nxmem_prefix_use *use);

static void step(core_call *call, prefix_step *function, int of_handles) {
  nxmem_prefix_use expected;
  fuzz_take(&call->in, &expected, sizeof expected);
  nxmem_prefix_use *use = core_changing(call, &expected, sizeof expected);
  const int accepted = function(use).reason == NXMEM_REASON_NONE;
  if (accepted && of_handles) expected.handles = use->handles;
  if (accepted && !of_handles) expected.mappings = use->mappings;
  if (memcmp(use, &expected, sizeof expected) != 0) core_fail(call, "frame", "more changed than may");
}

static void run_nxmem_prefix_use_retain(core_call *call) { step(call, nxmem_prefix_use_retain, 1); }
static void run_nxmem_prefix_use_release(core_call *call) { step(call, nxmem_prefix_use_release, 1); }
static void run_nxmem_prefix_view(core_call *call) { step(call, nxmem_prefix_view, 0); }
static void run_nxmem_prefix_unview(core_call *call) { step(call, nxmem_prefix_unview, 0); }

static void run_nxmem_prefix_is_gone(core_call *call) {
  nxmem_prefix_is_gone(core_given_next(call, sizeof(nxmem_prefix_use)));
}

static const core_row rows[] = {
    CORE_ROW(nxmem_granule_choose),   CORE_ROW(nxmem_ladder_start),      CORE_ROW(nxmem_ladder_next),
    CORE_ROW(nxmem_pool_may_keep),    CORE_ROW(nxmem_total_subtract),    CORE_ROW(nxmem_peak),
    CORE_ROW(nxmem_check_not_queued), CORE_ROW(nxmem_prefix_use_retain), CORE_ROW(nxmem_prefix_use_release),
    CORE_ROW(nxmem_prefix_view),      CORE_ROW(nxmem_prefix_unview),     CORE_ROW(nxmem_prefix_is_gone),
};
CORE_TOPIC(arena);
