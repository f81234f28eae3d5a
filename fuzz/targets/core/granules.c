/*
 * granules.c: the granules of a span as one.
 * Attackers: one granule among others that forbids what all are asked for.
 * Promise: at most six granules, valid where a step changes them; every granule is compared afterwards, because the
 * translation of the contract cannot keep a whole array's old contents, nor count.
 */
#include "nxmem/granules.h"

#include <string.h>

#include "call.h"

enum { GRANULES_MAX = 6 };

typedef struct span {
  uint64_t count;
  nxmem_granule before[GRANULES_MAX];
} span;

/*
 * Input: u8 count | for each granule: u8 references | u8 mapping and flags. References of 255 are the highest number.
 * Valid.
 */
static span take_span(core_call *call) {
  span taken;
  taken.count = fuzz_take_u8(&call->in) % (GRANULES_MAX + 1u);
  memset(taken.before, 0, sizeof taken.before);
  for (uint64_t i = 0u; i < taken.count; i++) {
    nxmem_granule *granule = &taken.before[i];
    const uint32_t references = fuzz_take_u8(&call->in);
    const uint8_t flags = fuzz_take_u8(&call->in);
    granule->references = references == 255u ? NXMEM_REFERENCES_MAX : references;
    granule->mapping = flags & 3u;
    granule->poisoned = granule->mapping == NXMEM_MAPPING_NONE ? 0u : (flags >> 2) & 1u;
    granule->quarantined = (flags >> 3) & 1u;
    if (granule->mapping >= NXMEM_MAPPING_OWNER) granule->references &= 1u;
  }
  return taken;
}

static const nxmem_granule *given(core_call *call, const span *taken) {
  return core_given(call, taken->before, taken->count * sizeof(nxmem_granule));
}

static nxmem_granule *changing(core_call *call, const span *taken) {
  return core_changing(call, taken->before, taken->count * sizeof(nxmem_granule));
}

static void expect(core_call *call, const nxmem_granule *after, const span *expected) {
  if (expected->count != 0u && memcmp(after, expected->before, expected->count * sizeof *after) != 0)
    core_fail(call, "frame", "a granule is not as it must be");
}

/* Input: the references, mapping and flags of one granule, behind a count that is not used | u8 kind. */
static void run_nxmem_granule_is(core_call *call) {
  const span taken = take_span(call);
  const nxmem_granule *granule = core_given(call, taken.before, sizeof *granule);
  nxmem_granule_is(granule, fuzz_take_u8(&call->in) % 4u + 1u);
}

/* Input: the span | u8 from | u8 kind. */
static void run_nxmem_granules_next_run(core_call *call) {
  const span taken = take_span(call);
  const nxmem_granule *granules = given(call, &taken);
  const uint64_t from = fuzz_take_u8(&call->in) % (taken.count + 1u);
  const uint32_t kind = fuzz_take_u8(&call->in) % 4u + 1u;
  nxmem_granule_run *run = core_room(call, sizeof *run);
  if (!nxmem_granules_next_run(granules, taken.count, from, kind, run)) core_kept(call);
}

static void run_nxmem_granules_cost(core_call *call) {
  const span taken = take_span(call);
  uint64_t unmapped = 0u;
  for (uint64_t i = 0u; i < taken.count; i++) unmapped += taken.before[i].mapping == NXMEM_MAPPING_NONE;
  if (nxmem_granules_cost(given(call, &taken), taken.count) != unmapped)
    core_fail(call, "counted", "not the number of granules without a mapping");
}

static void run_nxmem_check_granules_take(core_call *call) {
  const span taken = take_span(call);
  nxmem_check_granules_take(given(call, &taken), taken.count);
}

static void run_nxmem_granules_take(core_call *call) {
  span taken = take_span(call);
  nxmem_granule *granules = changing(call, &taken);
  if (nxmem_granules_take(granules, taken.count).reason == NXMEM_REASON_NONE)
    for (uint64_t i = 0u; i < taken.count; i++) taken.before[i].references++;
  expect(call, granules, &taken);
}

static void run_nxmem_granules_drop(core_call *call) {
  span taken = take_span(call);
  nxmem_granule *granules = changing(call, &taken);
  if (nxmem_granules_drop(granules, taken.count).reason == NXMEM_REASON_NONE)
    for (uint64_t i = 0u; i < taken.count; i++) taken.before[i].references--;
  expect(call, granules, &taken);
}

static void run_nxmem_granules_unmapped(core_call *call) {
  span taken = take_span(call);
  nxmem_granule *granules = changing(call, &taken);
  if (nxmem_granules_unmapped(granules, taken.count).reason == NXMEM_REASON_NONE)
    for (uint64_t i = 0u; i < taken.count; i++) taken.before[i].mapping = NXMEM_MAPPING_NONE;
  expect(call, granules, &taken);
}

static void run_nxmem_granules_quarantine(core_call *call) {
  span taken = take_span(call);
  nxmem_granule *granules = changing(call, &taken);
  nxmem_granules_quarantine(granules, taken.count);
  for (uint64_t i = 0u; i < taken.count; i++) taken.before[i].quarantined = 1u;
  expect(call, granules, &taken);
}

static void run_nxmem_check_granules_decommit(core_call *call) {
  const span taken = take_span(call);
  nxmem_check_granules_decommit(given(call, &taken), taken.count);
}

static const core_row rows[] = {
    CORE_ROW(nxmem_granule_is),          CORE_ROW(nxmem_granules_next_run),   CORE_ROW(nxmem_granules_cost),
    CORE_ROW(nxmem_check_granules_take), CORE_ROW(nxmem_granules_take),       CORE_ROW(nxmem_granules_drop),
    CORE_ROW(nxmem_granules_unmapped),   CORE_ROW(nxmem_granules_quarantine), CORE_ROW(nxmem_check_granules_decommit),
};
CORE_TOPIC(granules);
