/*
 * backing_test.c: the books follow what is mapped and unmapped of allocations that are published.
 *
 * Attackers played: lazy allocations committed past a limit; plugins that map half of what they were asked, credit more than there was, say nothing, or say that more
 * is committed than anybody asked for; a granule that is unmapped while it is committed.
 * Promise: a commit is granted before the plugin maps, or refused before it is asked to; the books never have less mapped than the plugin.
 */
#include "managertest.h"
#include "puppet_backing.h"

enum { G = NX_PLAY_GRANULE };

static nx_scene scene;
static nxmem_bound lazy;

/* Eight granules, the first committed. */
static nxmem_bound granted(uint64_t *charge_out) {
  static const NxmemByteRange first = {0, G};
  static const nxmem_allocate_options options = {.committed_ranges = &first, .committed_range_count = 1};
  nxmem_request request = nx_request(&scene, 0, 7, G, G);
  request.bytes = 8 * G;
  request.align = G;
  request.options = &options;
  return nx_must_grant(&scene, &request, charge_out);
}

static void begin(void) {
  scene = nx_scene_lazy();
  lazy = granted(NULL);
  nx_assert_used(&scene, AXES(7, G, G));
}

static void end(void) {
  nx_must_give_back(&lazy);
  nx_scene_end(&scene);
}

static NxmemByteRange granules(uint64_t first, uint64_t count) { return (NxmemByteRange){first * G, count * G}; }

static nxmem_result commit(uint64_t first, uint64_t count, nxmem_error *error) {
  return nxmem_bound_commit(&lazy, granules(first, count), error);
}

static void must_commit(uint64_t first, uint64_t count) {
  nxmem_error error = nx_blank_error();
  if (commit(first, count, &error) != NXMEM_OK) fail_msg("%s", error.message);
}

static uint64_t must_decommit(uint64_t first, uint64_t count) {
  uint64_t unmapped = 77;
  assert_int_equal(nxmem_bound_decommit(&lazy, granules(first, count), &unmapped, NULL), NXMEM_OK);
  return unmapped;
}

static void assert_mapped(uint64_t want) { nx_assert_used(&scene, AXES(7, G, want)); }

/* ---- Honest ------------------------------------------------------------------------------------------------------ */

static void test_followed(void **state) {
  (void)state;
  begin();
  must_commit(1, 3);
  assert_mapped(4 * G);
  must_commit(0, 8);
  assert_mapped(8 * G);
  assert_int_equal(must_decommit(2, 4), 4 * G);
  assert_mapped(4 * G);
  assert_int_equal(must_decommit(2, 4), 0);
  assert_mapped(4 * G);
  must_commit(2, 1);
  assert_mapped(5 * G);
  const nxmem_snapshot now = nx_books_now(&scene);
  nx_assert_axes(now.total.live, AXES(7, G, 5 * G));
  nx_assert_axes(now.total.reserved, AXES(0, 0, 0));
  nx_assert_axes(now.authorities[0].figures.live, AXES(7, G, 5 * G));
  end();
}

/* What no manager granted is in no manager's books. */
static void test_not_charged(void **state) {
  (void)state;
  begin();
  nxmem_bound own;
  const NxmemByteRange first = {0, G};
  const nxmem_allocate_options options = {.committed_ranges = &first, .committed_range_count = 1};
  assert_int_equal(nxmem_bound_allocate(scene.bindings[0], 8 * G, G, &options, &own, NULL), NXMEM_OK);
  assert_int_equal(nxmem_bound_commit(&own, granules(0, 8), NULL), NXMEM_OK);
  assert_mapped(G);
  assert_int_equal(nxmem_bound_decommit(&own, granules(0, 8), NULL, NULL), NXMEM_OK);
  assert_mapped(G);
  nx_must_give_back(&own);
  end();
}

/* ---- Limits ------------------------------------------------------------------------------------------------------ */

typedef struct limit_row {
  const char *name;
  nxmem_axes budget, slice, limit; /* of slice, {0, 0, 0}: none is delegated */
  uint64_t commits;                /* granules, from the second on */
  uint32_t reason;                 /* 0: granted */
  uint64_t needed;                 /* bytes left */
} limit_row;

#define ALL \
  { NXMEM_TOTAL_MAX, NXMEM_TOTAL_MAX, NXMEM_TOTAL_MAX }
#define NONE \
  { 0, 0, 0 }

static const limit_row limit_rows[] = {
    {"budget: exactly", {7, G, 4 * G}, NONE, ALL, 3, 0, 0},
    {"budget: one granule more", {7, G, 4 * G}, NONE, ALL, 4, NXMEM_REASON_OVER_BUDGET, 3 * G},
    {"budget: one byte less", {7, G, 4 * G - 1}, NONE, ALL, 3, NXMEM_REASON_OVER_BUDGET, 3 * G - 1},
    {"slice: exactly", ALL, {7, G, 4 * G}, ALL, 3, 0, 0},
    {"slice: one byte less", ALL, {7, G, 4 * G - 1}, ALL, 3, NXMEM_REASON_OVER_SLICE, 3 * G - 1},
    {"process: exactly", ALL, NONE, {7, G, 4 * G}, 3, 0, 0},
    {"process: one byte less", ALL, NONE, {7, G, 4 * G - 1}, 3, NXMEM_REASON_OVER_PROCESS_LIMIT, 3 * G - 1},
    {"other axes are not asked for", {7, G, NXMEM_TOTAL_MAX}, NONE, {7, G, NXMEM_TOTAL_MAX}, 7, 0, 0},
    {"lowered below what is there", {0, 0, 0}, NONE, ALL, 1, NXMEM_REASON_OVER_BUDGET, 0},
    {"lowered, and nothing is missing", {0, 0, 0}, NONE, ALL, 0, 0, 0},
};

static void test_limit(void **state) {
  const limit_row *row = *state;
  begin();
  nxmem_error error = nx_blank_error();
  nx_must_limit(&scene, row->limit);
  nx_must_budget(&scene, 0, row->budget);
  if (row->slice.charged != 0)
    assert_int_equal(nxmem_manager_delegate(scene.manager, scene.authorities[0], &row->slice, NULL), NXMEM_OK);
  const nxmem_result r = row->commits == 0 ? commit(0, 1, &error) : commit(1, row->commits, &error);
  if (row->reason == 0) {
    assert_int_equal(r, NXMEM_OK);
    assert_mapped((1 + row->commits) * G);
  } else {
    nx_assert_refused(
        r, &error,
        (nx_refusal){NXMEM_ERR_OVER_LIMIT, row->reason, NXMEM_QUOTA_MAPPED, row->commits * G, row->needed, 0});
    assert_int_equal(nx_play_calls(NX_PLAY_COMMIT), 0);
    assert_mapped(G);
  }
  assert_int_equal(nx_books_now(&scene).refusals, row->reason != 0);
  end();
}

/* What one gives back another takes; and neither is granted more than there is. */
static void test_passed_on(void **state) {
  (void)state;
  begin();
  nxmem_bound other = granted(NULL);
  nx_must_budget(&scene, 0, AXES(NXMEM_TOTAL_MAX, NXMEM_TOTAL_MAX, 4 * G));
  must_commit(1, 2);
  assert_int_equal(nxmem_bound_commit(&other, granules(1, 1), NULL), NXMEM_ERR_OVER_LIMIT);
  assert_int_equal(must_decommit(1, 1), G);
  assert_int_equal(nxmem_bound_commit(&other, granules(1, 1), NULL), NXMEM_OK);
  assert_int_equal(commit(1, 1, NULL), NXMEM_ERR_OVER_LIMIT);
  nx_assert_used(&scene, AXES(14, 2 * G, 4 * G));
  nx_must_give_back(&other);
  must_commit(1, 1);
  assert_mapped(3 * G);
  end();
}

/* ---- Pressure ---------------------------------------------------------------------------------------------------- */

static nxmem_bound spare;

static void give_spare(void *ctx, nxmem_authority authority, const nxmem_axes *wanted, nxmem_axes *given_out) {
  (void)ctx;
  assert_int_equal(authority.id, scene.authorities[0].id);
  nx_assert_axes(*wanted, AXES(0, 0, G));
  if (spare.id != 0) nx_must_give_back(&spare);
  spare.id = 0;
  *given_out = *wanted;
}

static void test_pressure(void **state) {
  (void)state;
  begin();
  spare = granted(NULL);
  nx_must_budget(&scene, 0, AXES(NXMEM_TOTAL_MAX, NXMEM_TOTAL_MAX, 2 * G));
  nxmem_pressure holder;
  assert_int_equal(nxmem_manager_add_pressure(scene.manager, give_spare, NULL, 0, &holder, NULL), NXMEM_OK);
  must_commit(1, 1);
  assert_int_equal(spare.id, 0);
  assert_mapped(2 * G);
  assert_int_equal(commit(2, 1, NULL), NXMEM_ERR_OVER_LIMIT);
  assert_int_equal(nx_books_now(&scene).refusals, 1);
  end();
}

/* ---- Plugins that fail or lie ------------------------------------------------------------------------------------ */

typedef struct failing_row {
  const char *name;
  int half;             /* the first granule is mapped all the same */
  nx_play_number known; /* what it says is committed */
  uint64_t left;        /* in the books, behind it */
} failing_row;

static const failing_row failing_rows[] = {
    {"nothing mapped", 0, {0}, G},
    {"half of it mapped", 1, {0}, 2 * G},
    {"half of it mapped, and it does not say", 1, {.code = NXMEM_STATUS_DEVICE_ERROR}, 4 * G},
    {"nothing mapped, and it does not say", 0, {.leave = 1}, 4 * G},
    {"more than there can be", 0, {.own = 1, .value = (uint64_t)1 << 40}, 4 * G},
    {"it says that all is", 0, {.own = 1, .value = 8 * G}, 8 * G},
    {"it says that nothing is", 0, {.own = 1, .value = 0}, 0},
};

static void test_failing_commit(void **state) {
  const failing_row *row = *state;
  begin();
  play.commit_code = NXMEM_STATUS_DEVICE_ERROR;
  play.half_commit = row->half;
  play.committed = row->known;
  assert_int_equal(commit(1, 3, NULL), NXMEM_ERR_PLUGIN);
  assert_mapped(row->left);
  play.commit_code = NXMEM_STATUS_OK;
  end();
}

typedef struct credit_row {
  const char *name;
  nx_play_number said;
  nx_play_number known;
  uint64_t left;
} credit_row;

static const credit_row credit_rows[] = {
    {"as it is", {0}, {0}, 2 * G},
    {"less than it unmapped", {.own = 1, .value = G}, {0}, 3 * G},
    {"more than is charged", {.own = 1, .value = 100 * G}, {0}, 0},
    {"unwritten: asked", {.leave = 1}, {0}, 2 * G},
    {"unwritten, and it does not say", {.leave = 1}, {.leave = 1}, 4 * G},
    {"refused: asked", {.code = NXMEM_STATUS_DEVICE_ERROR}, {0}, 2 * G},
    {"refused, and it does not say", {.code = NXMEM_STATUS_DEVICE_ERROR}, {.code = NXMEM_STATUS_DEVICE_ERROR}, 4 * G},
};

static void test_credit(void **state) {
  const credit_row *row = *state;
  begin();
  must_commit(1, 3);
  play.unmapped = row->said;
  play.committed = row->known;
  const nxmem_result r = nxmem_bound_decommit(&lazy, granules(2, 2), NULL, NULL);
  assert_int_equal(r, row->said.code == NXMEM_STATUS_OK ? NXMEM_OK : NXMEM_ERR_PLUGIN);
  assert_mapped(row->left);
  end();
}

/* What is there although nobody asked for it stands above the limit, and is adopted. */
static void test_adopted(void **state) {
  (void)state;
  begin();
  nx_must_budget(&scene, 0, AXES(NXMEM_TOTAL_MAX, NXMEM_TOTAL_MAX, 2 * G));
  play.commit_code = NXMEM_STATUS_DEVICE_ERROR;
  play.committed = (nx_play_number){.own = 1, .value = 6 * G};
  assert_int_equal(commit(1, 1, NULL), NXMEM_ERR_PLUGIN);
  assert_mapped(6 * G);
  assert_int_equal(commit(2, 1, NULL), NXMEM_ERR_OVER_LIMIT);
  play.commit_code = NXMEM_STATUS_OK;
  assert_int_equal(must_decommit(0, 1), G);
  assert_mapped(5 * G);
  assert_int_equal(commit(0, 1, NULL), NXMEM_ERR_OVER_LIMIT); /* not granted by way of some thread's room */
  end();
}

/* The same where the sums have ten bytes left to count with: as far as that goes, there and back. */
static void test_adopted_as_far_as_can_be(void **state) {
  (void)state;
  begin();
  nxmem_transaction open;
  const nxmem_request rest = nx_request(&scene, 0, 0, 0, NXMEM_TOTAL_MAX - G - 10);
  assert_int_equal(nxmem_transaction_reserve(scene.manager, &rest, &open, NULL), NXMEM_OK);
  play.commit_code = NXMEM_STATUS_DEVICE_ERROR;
  play.committed = (nx_play_number){.own = 1, .value = 6 * G};
  assert_int_equal(commit(1, 1, NULL), NXMEM_ERR_OVER_LIMIT);
  play.cost = (nx_play_number){.own = 1, .value = 0};
  assert_int_equal(commit(1, 1, NULL), NXMEM_ERR_PLUGIN);
  assert_mapped(NXMEM_TOTAL_MAX);
  play.commit_code = NXMEM_STATUS_OK;
  play.unmapped = (nx_play_number){.own = 1, .value = 6 * G};
  assert_int_equal(must_decommit(0, 8), 6 * G);
  assert_mapped(NXMEM_TOTAL_MAX - G - 10);
  assert_int_equal(nxmem_transaction_rollback(open, NULL, NULL), NXMEM_OK);
  end();
}

/* ---- Several at once --------------------------------------------------------------------------------------------- */

static nxmem_result answer;
static uint64_t during;

static void once(nx_play_slot slot, nx_play_slot where, void (*then)(void)) {
  if (slot != where) return;
  play.inside = NULL;
  then();
  during = nx_books_now(&scene).total.used.mapped;
}

static void commit_it_too(void) { answer = commit(1, 1, NULL); }
static void in_commit(nx_play_slot slot) { once(slot, NX_PLAY_COMMIT, commit_it_too); }

/* Both are told what it costs before it is mapped: granted twice, and settled once both are out. */
static void test_committed_twice(void **state) {
  (void)state;
  begin();
  play.inside = in_commit;
  must_commit(1, 1);
  assert_int_equal(answer, NXMEM_OK);
  assert_int_equal(during, 3 * G);
  assert_mapped(2 * G);
  end();
}

static nxmem_bound other;

static void take_it_away(void) {
  assert_int_equal(must_decommit(0, 1), G);
  answer = nxmem_bound_commit(&other, granules(1, 1), NULL);
}
static void before_commit(nx_play_slot slot) { once(slot, NX_PLAY_COMMIT, take_it_away); }

/* Told that it costs nothing, then mapped again behind what another call took away: nobody else gets that room in between. */
static void test_taken_away_in_between(void **state) {
  (void)state;
  begin();
  other = granted(NULL);
  nx_must_budget(&scene, 0, AXES(NXMEM_TOTAL_MAX, NXMEM_TOTAL_MAX, 2 * G));
  play.inside = before_commit;
  must_commit(0, 1);
  assert_int_equal(answer, NXMEM_ERR_OVER_LIMIT);
  assert_int_equal(nx_play_mapped(), 2 * G);
  nx_assert_used(&scene, AXES(14, 2 * G, 2 * G));
  nx_must_give_back(&other);
  end();
}

/* ---- Ends -------------------------------------------------------------------------------------------------------- */

static void test_kept(void **state) {
  (void)state;
  begin();
  must_commit(1, 5);
  play.release_code = NXMEM_STATUS_DEVICE_ERROR;
  assert_int_equal(nxmem_bound_release(&lazy, NULL), NXMEM_ERR_QUARANTINED);
  nx_assert_axes(nx_books_now(&scene).total.quarantined, AXES(7, G, 6 * G));
  nx_scene_end_lost(&scene);
}

static void lose(void) { assert_int_equal(nxmem_mechanism_lose(scene.mechanisms[0], NULL, NULL), NXMEM_OK); }
static void lost_inside(nx_play_slot slot) { once(slot, NX_PLAY_COMMIT, lose); }

/* The loss passes by what the commit has pinned: it is kept behind it, with what it had mapped. */
static void test_lost_meanwhile(void **state) {
  (void)state;
  begin();
  play.inside = lost_inside;
  assert_int_equal(commit(1, 2, NULL), NXMEM_ERR_DEVICE_LOST);
  nx_assert_axes(nx_books_now(&scene).total.quarantined, AXES(7, G, 3 * G));
  nx_scene_end_lost(&scene);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_add(&suite, "commits and decommits are followed", test_followed, NULL);
  nx_suite_add(&suite, "what no manager granted", test_not_charged, NULL);
  nx_suite_rows(&suite, ROWS(limit_rows), test_limit);
  nx_suite_add(&suite, "what one gives back another takes", test_passed_on, NULL);
  nx_suite_add(&suite, "holders are asked", test_pressure, NULL);
  nx_suite_rows(&suite, ROWS(failing_rows), test_failing_commit);
  nx_suite_rows(&suite, ROWS(credit_rows), test_credit);
  nx_suite_add(&suite, "what nobody asked for is adopted", test_adopted, NULL);
  nx_suite_add(&suite, "what nobody asked for is adopted, as far as can be", test_adopted_as_far_as_can_be, NULL);
  nx_suite_add(&suite, "committed twice at once", test_committed_twice, NULL);
  nx_suite_add(&suite, "taken away while it is committed", test_taken_away_in_between, NULL);
  nx_suite_add(&suite, "kept, with what was committed", test_kept, NULL);
  nx_suite_add(&suite, "lost while it is committed", test_lost_meanwhile, NULL);
  return nx_suite_run(&suite, "manager backing");
}
