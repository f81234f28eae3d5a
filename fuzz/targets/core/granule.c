/*
 * granule.c: one granule, step by step.
 * Attackers: granules in every state that there is, and for what only looks, in states that there are not.
 * Promise: one call; a granule that a step changes is valid before; whatever a step may not change is compared here.
 */
#include "nxmem/granule.h"

#include <string.h>

#include "call.h"

static const nxmem_granule *any_granule(core_call *call) { return core_given_next(call, sizeof(nxmem_granule)); }

/* Input: u32 references | u8 mapping | u8 poisoned | u8 quarantined | u8 not used; made valid. */
static nxmem_granule valid_granule(core_call *call) {
  nxmem_granule granule;
  fuzz_take(&call->in, &granule, sizeof granule);
  granule.mapping %= 4u;
  granule.poisoned = granule.mapping == NXMEM_MAPPING_NONE ? 0u : granule.poisoned & 1u;
  granule.quarantined &= 1u;
  granule.reserved = 0u;
  if (granule.mapping >= NXMEM_MAPPING_OWNER) granule.references &= 1u;
  return granule;
}

static void expect(core_call *call, const nxmem_granule *after, const nxmem_granule *expected) {
  if (memcmp(after, expected, sizeof *after) != 0) core_fail(call, "frame", "more changed than may");
}

/* A step that may be asked about first answers what the question does; the contract says only which reason. */
static void same(core_call *call, nxmem_verdict step, nxmem_verdict check) {
  if (step.reason != check.reason || step.field != check.field || step.found != check.found ||
      step.needed != check.needed)
    core_fail(call, "verdict", "not what the check of this step answers");
}

static void run_nxmem_granule_is_valid(core_call *call) { nxmem_granule_is_valid(any_granule(call)); }
static void run_nxmem_granule_rests(core_call *call) { nxmem_granule_rests(any_granule(call)); }
static void run_nxmem_granule_must_map(core_call *call) { nxmem_granule_must_map(any_granule(call)); }
static void run_nxmem_granule_must_unmap(core_call *call) { nxmem_granule_must_unmap(any_granule(call)); }
static void run_nxmem_check_granule_take(core_call *call) { nxmem_check_granule_take(any_granule(call)); }
static void run_nxmem_check_granule_decommit(core_call *call) { nxmem_check_granule_decommit(any_granule(call)); }

static void run_nxmem_granule_take(core_call *call) {
  nxmem_granule expected = valid_granule(call);
  nxmem_granule *granule = core_changing(call, &expected, sizeof expected);
  const nxmem_verdict may = nxmem_check_granule_take(&expected);
  const nxmem_verdict v = nxmem_granule_take(granule);
  same(call, v, may);
  if (v.reason == NXMEM_REASON_NONE) expected.references = granule->references;
  expect(call, granule, &expected);
}

static void run_nxmem_granule_drop(core_call *call) {
  nxmem_granule expected = valid_granule(call);
  nxmem_granule *granule = core_changing(call, &expected, sizeof expected);
  if (nxmem_granule_drop(granule).reason == NXMEM_REASON_NONE) expected.references = granule->references;
  expect(call, granule, &expected);
}

/* Input: the granule | u8 mapping. */
static void run_nxmem_check_granule_map(core_call *call) {
  const nxmem_granule *granule = any_granule(call);
  nxmem_check_granule_map(granule, fuzz_take_u8(&call->in) % 3u + 1u);
}

static void run_nxmem_granule_mapped(core_call *call) {
  nxmem_granule expected = valid_granule(call);
  nxmem_granule *granule = core_changing(call, &expected, sizeof expected);
  const uint32_t mapping = fuzz_take_u8(&call->in) % 3u + 1u;
  const nxmem_verdict may = nxmem_check_granule_map(&expected, mapping);
  const nxmem_verdict v = nxmem_granule_mapped(granule, mapping);
  same(call, v, may);
  if (v.reason == NXMEM_REASON_NONE) expected.mapping = granule->mapping;
  expect(call, granule, &expected);
}

static void run_nxmem_granule_unmapped(core_call *call) {
  nxmem_granule expected = valid_granule(call);
  nxmem_granule *granule = core_changing(call, &expected, sizeof expected);
  if (nxmem_granule_unmapped(granule).reason == NXMEM_REASON_NONE) expected.mapping = granule->mapping;
  expect(call, granule, &expected);
}

static void run_nxmem_granule_poison(core_call *call) {
  nxmem_granule expected = valid_granule(call);
  nxmem_granule *granule = core_changing(call, &expected, sizeof expected);
  if (nxmem_granule_poison(granule).reason == NXMEM_REASON_NONE) expected.poisoned = granule->poisoned;
  expect(call, granule, &expected);
}

static void run_nxmem_granule_quarantine(core_call *call) {
  nxmem_granule expected = valid_granule(call);
  nxmem_granule *granule = core_changing(call, &expected, sizeof expected);
  nxmem_granule_quarantine(granule);
  expected.quarantined = granule->quarantined;
  expect(call, granule, &expected);
}

static const core_row rows[] = {
    CORE_ROW(nxmem_granule_is_valid),       CORE_ROW(nxmem_granule_rests),      CORE_ROW(nxmem_granule_must_map),
    CORE_ROW(nxmem_granule_must_unmap),     CORE_ROW(nxmem_check_granule_take), CORE_ROW(nxmem_granule_take),
    CORE_ROW(nxmem_granule_drop),           CORE_ROW(nxmem_check_granule_map),  CORE_ROW(nxmem_granule_mapped),
    CORE_ROW(nxmem_granule_unmapped),       CORE_ROW(nxmem_granule_poison),     CORE_ROW(nxmem_granule_quarantine),
    CORE_ROW(nxmem_check_granule_decommit),
};
CORE_TOPIC(granule);
