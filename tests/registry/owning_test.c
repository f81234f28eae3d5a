/*
 * owning_test.c: releases that own what they release: prepared once, executed once, complete or kept.
 *
 * Attackers played: callers that release twice in every order; plugins whose answers are refusals, contradictions or half a release.
 * Promise: each ends under its own reason, in the registry's list and in the host's books in the same step; closing hands nothing back twice.
 */
#include "registrytest.h"

static nx_play play;
static nxmem_mechanism m;
static nxmem_binding b;

static void set(void) {
  play = nx_play_set();
  m = nx_play_register(&play);
  b = nx_must_bind(m);
}

static void test_complete(void **state) {
  (void)state;
  set();
  const nxmem_bound bound = nx_must_allocate_bound(b, 64);
  const nxmem_prepared p = nx_must_prepare(&bound);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION), 0);
  nxmem_prepared second = {0x5A};
  REFUSED(nxmem_bound_prepare(&bound, &second, &error), NXMEM_ERR_UNKNOWN_ALLOCATION);
  REFUSED(nxmem_bound_release(&bound, &error), NXMEM_ERR_UNKNOWN_ALLOCATION);
  assert_int_equal(second.id, 0x5A);
  const nxmem_mechanism_state s = nx_state_of(m);
  assert_int_equal(s.holdings.live, 0);
  assert_int_equal(s.holdings.prepared, 1);
  MUST(nxmem_prepared_execute(p, &error));
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION), 1);
  assert_int_equal(puppet.released.allocation_id, bound.id);
  assert_int_equal(puppet.released.bytes, 64);
  REFUSED(nxmem_prepared_execute(p, &error), NXMEM_ERR_UNKNOWN_ALLOCATION);
  REFUSED(nxmem_prepared_abandon(p, &error), NXMEM_ERR_UNKNOWN_ALLOCATION);
  REFUSED(nxmem_bound_release(&bound, &error), NXMEM_ERR_UNKNOWN_ALLOCATION);
  assert_int_equal(nx_state_of(m).owned_bytes, 0);
  MUST(nxmem_binding_end(b, 0, &error));
  nx_must_go(m);
  nx_play_strike(&play);
}

/* ---- Kept -------------------------------------------------------------------------------------------------------- */

typedef struct kept_row {
  const char *name;
  uint32_t code;  /* the status answered */
  uint32_t state; /* of the outcome */
  int enters;     /* the plugin is asked */
  nxmem_keeping want;
} kept_row;

static const kept_row kept_rows[] = {
    {"kept: nothing changed", NXMEM_STATUS_DEVICE_ERROR, NXMEM_RELEASE_FAILED, 1, NXMEM_KEPT_ALLOCATOR_REFUSED},
    {"kept: nothing changed, with OK", NXMEM_STATUS_OK, NXMEM_RELEASE_FAILED, 1, NXMEM_KEPT_ALLOCATOR_REFUSED},
    {"kept: a part", NXMEM_STATUS_OK, NXMEM_RELEASE_QUARANTINED, 1, NXMEM_KEPT_PARTIAL_RELEASE},
    {"kept: a part, by status", NXMEM_STATUS_RELEASE_QUARANTINED, NXMEM_RELEASE_COMPLETE, 1,
     NXMEM_KEPT_PARTIAL_RELEASE},
    {"kept: OK and no state", NXMEM_STATUS_OK, 0xFFFFFFFFu, 1, NXMEM_KEPT_PARTIAL_RELEASE},
    {"kept: abandoned", 0, 0, 0, NXMEM_KEPT_ABANDONED},
};

static void test_kept(void **state) {
  const kept_row *row = *state;
  set();
  const nxmem_bound bound = nx_must_allocate_bound(b, 64);
  puppet.own_release = 1;
  puppet.release_answer = nx_puppet_status(row->code);
  puppet.outcome = (NxmemReleaseOutcome){.struct_size = sizeof puppet.outcome,
                                         .state = row->state,
                                         .allocation_bytes = 64,
                                         .unmapped_bytes = 0,
                                         .residual_owned_bytes = row->state == NXMEM_RELEASE_QUARANTINED ? 64 : 0};
  const nxmem_prepared p = nx_must_prepare(&bound);
  if (row->enters) {
    nxmem_error said = nx_blank_error();
    nx_assert_code(nxmem_prepared_execute(p, &said), &said, NXMEM_ERR_QUARANTINED);
    assert_int_equal(said.found, row->want);
    if (row->code != NXMEM_STATUS_OK) assert_int_equal(said.plugin_status, row->code);
  } else {
    MUST(nxmem_prepared_abandon(p, &error));
  }
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION), row->enters);
  const nxmem_kept kept = nx_assert_kept(m, row->want, &bound);
  assert_int_equal(kept.plugin_status, row->enters ? row->code : NXMEM_STATUS_OK);

  /* The host's own record turned in the same step: nothing is live, nothing is handed back twice. */
  const nxmem_host_counts counts = nx_counts(play.host);
  assert_int_equal(counts.live_allocations, 0);
  assert_int_equal(counts.quarantined, 1);
  assert_int_equal(counts.quarantined_bytes, 64);
  assert_int_equal(counts.owned_bytes, 64);
  REFUSED(nxmem_bound_release(&bound, &error), NXMEM_ERR_UNKNOWN_ALLOCATION);
  REFUSED(nxmem_prepared_execute(p, &error), NXMEM_ERR_UNKNOWN_ALLOCATION);
  MUST(nxmem_binding_end(b, 0, &error));
  REFUSED(nxmem_mechanism_remove(m, NULL, &error), NXMEM_ERR_BUSY);
  nx_must_bury(m);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION), row->enters);
  free(bound.ptr);
  nx_play_strike_lost(&play);
}

/* In one step, the same. */
static void test_release_kept(void **state) {
  (void)state;
  set();
  const nxmem_bound bound = nx_must_allocate_bound(b, 64);
  puppet.own_release = 1;
  puppet.release_answer = nx_puppet_status(NXMEM_STATUS_DEVICE_ERROR);
  puppet.outcome.state = NXMEM_RELEASE_FAILED;
  REFUSED(nxmem_bound_release(&bound, &error), NXMEM_ERR_QUARANTINED);
  nx_assert_kept(m, NXMEM_KEPT_ALLOCATOR_REFUSED, &bound);
  MUST(nxmem_binding_end(b, 0, &error));
  nx_must_bury(m);
  free(bound.ptr);
  nx_play_strike_lost(&play);
}

/* The plugin calls back from inside the release: the record is gone already. */
static nxmem_bound inside_bound;
static nxmem_prepared inside_prepared;

static void release_again(nx_place_inside place) {
  if (place != NX_IN_RELEASE_ALLOCATION) return;
  puppet.inside = NULL;
  REFUSED(nxmem_bound_release(&inside_bound, &error), NXMEM_ERR_UNKNOWN_ALLOCATION);
  REFUSED(nxmem_prepared_execute(inside_prepared, &error), NXMEM_ERR_UNKNOWN_ALLOCATION);
  const nxmem_bound another = nx_must_allocate_bound(b, 64);
  MUST(nxmem_bound_release(&another, &error));
}

static void test_from_inside(void **state) {
  (void)state;
  set();
  inside_bound = nx_must_allocate_bound(b, 64);
  inside_prepared = nx_must_prepare(&inside_bound);
  puppet.inside = release_again;
  MUST(nxmem_prepared_execute(inside_prepared, &error));
  assert_null(puppet.inside);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION), 2);
  MUST(nxmem_binding_end(b, 0, &error));
  nx_must_go(m);
  nx_play_strike(&play);
}

/* Answers that were never an allocation of anybody's are kept as well, and stand in the way. */
static void test_refused_answer(void **state) {
  (void)state;
  set();
  nxmem_bound none = {{0}, 0, NULL, 0, 0};
  const nxmem_bound live = nx_must_allocate_bound(b, 64);
  puppet.address = live.ptr;
  REFUSED(nxmem_bound_allocate(b, 64, 16, NULL, &none, &error), NXMEM_ERR_CONTRACT);
  puppet.address = NULL;
  assert_int_equal(nx_state_of(m).holdings.quarantined, 1);
  MUST(nxmem_bound_release(&live, &error));
  MUST(nxmem_binding_end(b, 0, &error));
  MUST(nxmem_mechanism_retire(m, &error));
  nxmem_holdings why;
  REFUSED(nxmem_mechanism_remove(m, &why, &error), NXMEM_ERR_BUSY);
  assert_int_equal(why.quarantined, 1);
  nx_must_bury(m);
  /* The plugin said that it keeps something there, and nobody can know what: the module stays. */
  nxmem_unload_info info;
  REFUSED(nxmem_plugin_try_unload(play.plugin, &info, &error), NXMEM_ERR_BUSY);
  assert_int_equal(info.host_allocations, 1);
  MUST(nxmem_context_remove(play.context, &error));
  MUST(nxmem_authority_remove(play.authority, &error));
  MUST(nxmem_registry_destroy(play.registry, &error));
  nx_force_leak(play.host, play.plugin, play.path);
  nx_host_gone(play.host);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_add(&suite, "complete: prepared and executed once", test_complete, NULL);
  nx_suite_rows(&suite, ROWS(kept_rows), test_kept);
  nx_suite_add(&suite, "kept: by a release in one step", test_release_kept, NULL);
  nx_suite_add(&suite, "execute: from inside the plugin", test_from_inside, NULL);
  nx_suite_add(&suite, "kept: an answer that was refused", test_refused_answer, NULL);
  return nx_suite_run(&suite, "registry owning");
}
