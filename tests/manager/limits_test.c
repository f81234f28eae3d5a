/*
 * limits_test.c: what budgets, slices and process limits refuse, to the byte and axis by axis.
 *
 * Attackers played: requests that are one byte too large on one axis; limits lowered below what is live; a second delegation.
 * Promise: the largest that fits is granted; a refusal names limit, axis and what is left, and changes nothing.
 */
#include "managertest.h"

#define NO_LIMIT NXMEM_TOTAL_MAX
#define EVERYTHING AXES(NO_LIMIT, NO_LIMIT, NO_LIMIT)

/* ---- One limit, one axis ----------------------------------------------------------------------------------------- */

typedef struct limit_row {
  const char *name;
  nxmem_axes budget, slice, limit; /* of slice, {0, 0, 0}: none is delegated */
  nxmem_axes before;               /* granted first */
  nxmem_axes ask;
  uint32_t reason; /* 0: granted */
  uint32_t axis;
  uint64_t found, needed;
} limit_row;

#define BUDGET NXMEM_REASON_OVER_BUDGET
#define SLICE NXMEM_REASON_OVER_SLICE
#define LIMIT NXMEM_REASON_OVER_PROCESS_LIMIT
#define NONE \
  { 0, 0, 0 }
#define ALL \
  { NO_LIMIT, NO_LIMIT, NO_LIMIT }

static const limit_row limit_rows[] = {
    {"budget: exactly all of it", {10, 20, 30}, NONE, ALL, NONE, {10, 20, 30}, 0, 0, 0, 0},
    {"budget: one byte more charged", {10, 20, 30}, NONE, ALL, NONE, {11, 20, 30}, BUDGET, 0, 11, 10},
    {"budget: one byte more physical", {10, 20, 30}, NONE, ALL, NONE, {10, 21, 30}, BUDGET, 1, 21, 20},
    {"budget: one byte more mapped", {10, 20, 30}, NONE, ALL, NONE, {10, 20, 31}, BUDGET, 2, 31, 30},
    {"budget: what is left charged", {10, 20, 30}, NONE, ALL, {4, 5, 6}, {7, 1, 1}, BUDGET, 0, 7, 6},
    {"budget: what is left physical", {10, 20, 30}, NONE, ALL, {4, 5, 6}, {6, 16, 1}, BUDGET, 1, 16, 15},
    {"budget: exactly what is left", {10, 20, 30}, NONE, ALL, {4, 5, 6}, {6, 15, 24}, 0, 0, 0, 0},
    {"budget: none at all", {0, 0, 0}, NONE, ALL, NONE, {0, 0, 1}, BUDGET, 2, 1, 0},
    {"budget: nothing fits in none", {0, 0, 0}, NONE, ALL, NONE, {0, 0, 0}, 0, 0, 0, 0},
    {"process: exactly all of it", ALL, NONE, {10, 20, 30}, NONE, {10, 20, 30}, 0, 0, 0, 0},
    {"process: one byte more charged", ALL, NONE, {10, 20, 30}, NONE, {11, 0, 0}, LIMIT, 0, 11, 10},
    {"process: one byte more physical", ALL, NONE, {10, 20, 30}, NONE, {0, 21, 0}, LIMIT, 1, 21, 20},
    {"process: one byte more mapped", ALL, NONE, {10, 20, 30}, NONE, {0, 0, 31}, LIMIT, 2, 31, 30},
    {"process: what is left mapped", ALL, NONE, {10, 20, 30}, {1, 2, 3}, {9, 18, 28}, LIMIT, 2, 28, 27},
    {"slice: exactly all of it", ALL, {10, 20, 30}, ALL, NONE, {10, 20, 30}, 0, 0, 0, 0},
    {"slice: one byte more charged", ALL, {10, 20, 30}, ALL, NONE, {11, 0, 0}, SLICE, 0, 11, 10},
    {"slice: one byte more physical", ALL, {10, 20, 30}, ALL, NONE, {0, 21, 0}, SLICE, 1, 21, 20},
    {"slice: one byte more mapped", ALL, {10, 20, 30}, ALL, NONE, {0, 0, 31}, SLICE, 2, 31, 30},
    {"slice: what is left", ALL, {10, 20, 30}, ALL, {3, 3, 3}, {8, 0, 0}, SLICE, 0, 8, 7},
    {"slice: the budget is asked first", {5, 5, 5}, {10, 20, 30}, ALL, NONE, {11, 0, 0}, BUDGET, 0, 11, 5},
    {"large: 2^63 bytes", ALL, NONE, ALL, NONE, {NO_LIMIT, NO_LIMIT, NO_LIMIT}, 0, 0, 0, 0},
    {"large: 2^63 + 1 bytes", ALL, NONE, ALL, NONE, {NO_LIMIT + 1, 0, 0}, BUDGET, 0, NO_LIMIT + 1, NO_LIMIT},
    {"large: 2^64 - 1 bytes", ALL, NONE, ALL, {1, 1, 1}, {0, UINT64_MAX, 0}, BUDGET, 1, UINT64_MAX, NO_LIMIT - 1},
};

static int is_none(nxmem_axes axes) { return axes.charged == 0 && axes.physical == 0 && axes.mapped == 0; }

static void test_limit(void **state) {
  const limit_row *row = *state;
  nx_scene s = nx_scene_of(1, 0);
  nxmem_error error = nx_blank_error();
  nx_must_limit(&s, row->limit);
  nx_must_budget(&s, 0, row->budget);
  if (!is_none(row->slice))
    assert_int_equal(nxmem_manager_delegate(s.manager, s.authorities[0], &row->slice, &error), NXMEM_OK);
  const nxmem_request first = nx_request(&s, 0, row->before.charged, row->before.physical, row->before.mapped);
  const nxmem_request next = nx_request(&s, 0, row->ask.charged, row->ask.physical, row->ask.mapped);
  nxmem_transaction before, transaction;
  assert_int_equal(nxmem_transaction_reserve(s.manager, &first, &before, &error), NXMEM_OK);
  const nxmem_result r = nxmem_transaction_reserve(s.manager, &next, &transaction, &error);
  if (row->reason == 0) {
    assert_int_equal(r, NXMEM_OK);
    assert_int_equal(nxmem_transaction_rollback(transaction, NULL, &error), NXMEM_OK);
  } else {
    nx_assert_refused(r, &error,
                      (nx_refusal){NXMEM_ERR_OVER_LIMIT, row->reason, row->axis, row->found, row->needed, 0});
  }
  nx_assert_used(&s, row->before);
  assert_int_equal(nx_books_now(&s).refusals, row->reason != 0);
  assert_int_equal(nxmem_transaction_rollback(before, NULL, &error), NXMEM_OK);
  nx_scene_end(&s);
}

/* ---- Several authorities ----------------------------------------------------------------------------------------- */

static nxmem_transaction reserved(const nx_scene *s, uint32_t i, nxmem_axes ask) {
  nxmem_error error;
  nxmem_transaction t = {0};
  const nxmem_request request = nx_request(s, i, ask.charged, ask.physical, ask.mapped);
  if (nxmem_transaction_reserve(s->manager, &request, &t, &error) != NXMEM_OK) fail_msg("%s", error.message);
  return t;
}

static void refused(const nx_scene *s, uint32_t i, nxmem_axes ask, uint32_t reason) {
  nxmem_error error = nx_blank_error();
  nxmem_transaction t = {0};
  const nxmem_request request = nx_request(s, i, ask.charged, ask.physical, ask.mapped);
  const nxmem_axes before = nx_books_now(s).total.used;
  assert_int_equal(nxmem_transaction_reserve(s->manager, &request, &t, &error), NXMEM_ERR_OVER_LIMIT);
  assert_int_equal(error.reason, reason);
  nx_assert_used(s, before);
}

static void rolled_back(nxmem_transaction t) { assert_int_equal(nxmem_transaction_rollback(t, NULL, NULL), NXMEM_OK); }

static void test_limit_caps_the_sum(void **state) {
  (void)state;
  nx_scene s = nx_scene_of(3, 0);
  nx_must_limit(&s, AXES(100, 100, 100));
  const nxmem_transaction a = reserved(&s, 0, AXES(40, 40, 40)), b = reserved(&s, 1, AXES(40, 40, 40));
  refused(&s, 2, AXES(21, 0, 0), LIMIT);
  const nxmem_transaction c = reserved(&s, 2, AXES(20, 20, 20));
  refused(&s, 0, AXES(1, 0, 0), LIMIT);
  rolled_back(a);
  const nxmem_transaction d = reserved(&s, 2, AXES(40, 40, 40));
  rolled_back(b);
  rolled_back(c);
  rolled_back(d);
  nx_scene_end(&s);
}

/* Devices with one physical memory: one authority, one budget, each byte once. */
static void test_aliases(void **state) {
  (void)state;
  nx_scene s = nx_scene_of(2, 1);
  nx_must_budget(&s, 0, AXES(100, 100, 100));
  const nxmem_transaction a = reserved(&s, 0, AXES(60, 60, 60));
  refused(&s, 1, AXES(41, 41, 41), BUDGET);
  const nxmem_transaction b = reserved(&s, 1, AXES(40, 40, 40)); /* through the other device */
  const nxmem_snapshot now = nx_books_now(&s);
  assert_int_equal(now.authority_count, 1);
  assert_int_equal(now.mechanism_count, 2);
  nx_assert_axes(now.tiers[NXMEM_TIER_HOST].figures.used, AXES(100, 100, 100));
  rolled_back(a);
  rolled_back(b);
  nx_scene_end(&s);
}

/* ---- Lowering ---------------------------------------------------------------------------------------------------- */

static void test_lowered_limit_adopts(void **state) {
  (void)state;
  nx_scene s = nx_scene_of(2, 0);
  nxmem_axes beyond;
  const nxmem_axes lower = {30, 200, 10}, same = {60, 60, 60};
  const nxmem_transaction a = reserved(&s, 0, AXES(40, 40, 40)), b = reserved(&s, 1, AXES(20, 20, 20));
  assert_int_equal(nxmem_manager_set_limit(s.manager, NXMEM_TIER_HOST, &lower, &beyond, NULL), NXMEM_OK);
  nx_assert_axes(beyond, AXES(30, 0, 50));
  nx_assert_used(&s, AXES(60, 60, 60));
  refused(&s, 0, AXES(1, 0, 0), LIMIT);
  const nxmem_transaction nothing = reserved(&s, 0, AXES(0, 100, 0)); /* the axis that is below its limit */
  rolled_back(nothing);
  rolled_back(a); /* 20 left: charged is below 30 again, mapped is not below 10 */
  const nxmem_transaction c = reserved(&s, 0, AXES(10, 0, 0));
  refused(&s, 0, AXES(1, 0, 0), LIMIT);
  refused(&s, 0, AXES(0, 0, 1), LIMIT);
  assert_int_equal(nxmem_manager_set_limit(s.manager, NXMEM_TIER_HOST, &same, &beyond, NULL), NXMEM_OK);
  nx_assert_axes(beyond, AXES(0, 0, 0));
  rolled_back(b);
  rolled_back(c);
  nx_scene_end(&s);
}

/* What is released while all is above the limit is not granted again by way of some thread's room. */
static void test_released_above_the_limit_is_gone(void **state) {
  (void)state;
  nx_scene s = nx_scene_of(1, 0);
  const nxmem_transaction a = reserved(&s, 0, AXES(50, 50, 50)), b = reserved(&s, 0, AXES(50, 50, 50));
  nx_must_budget(&s, 0, AXES(40, 40, 40));
  rolled_back(a);
  refused(&s, 0, AXES(1, 1, 1), BUDGET);
  nx_assert_used(&s, AXES(50, 50, 50));
  rolled_back(b);
  const nxmem_transaction c = reserved(&s, 0, AXES(40, 40, 40));
  refused(&s, 0, AXES(1, 0, 0), BUDGET);
  rolled_back(c);
  nx_scene_end(&s);
}

/* ---- Delegation -------------------------------------------------------------------------------------------------- */

static void test_slice_is_set_aside(void **state) {
  (void)state;
  nx_scene s = nx_scene_of(2, 0);
  nxmem_error error = nx_blank_error();
  const nxmem_axes slice = {70, 70, 70}, small = {5, 70, 70}, large = {91, 10, 10};
  nx_must_limit(&s, AXES(100, 100, 100));
  const nxmem_transaction a = reserved(&s, 0, AXES(10, 10, 10)), b = reserved(&s, 1, AXES(10, 10, 10));
  nx_assert_refused(nxmem_manager_delegate(s.manager, s.authorities[0], &small, &error), &error,
                    (nx_refusal){NXMEM_ERR_OVER_LIMIT, NXMEM_REASON_SLICE_TOO_SMALL, 0, 5, 10, 0});
  nx_assert_refused(nxmem_manager_delegate(s.manager, s.authorities[0], &large, &error), &error,
                    (nx_refusal){NXMEM_ERR_OVER_LIMIT, LIMIT, 0, 91, 90, 0});
  assert_int_equal(nxmem_manager_delegate(s.manager, s.authorities[0], &slice, &error), NXMEM_OK);
  nx_assert_refused(nxmem_manager_delegate(s.manager, s.authorities[0], &slice, &error), &error,
                    (nx_refusal){NXMEM_ERR_OVER_LIMIT, NXMEM_REASON_ALREADY_DELEGATED, 0, 1, 0, 0});
  refused(&s, 1, AXES(21, 0, 0), LIMIT); /* 70 set aside, 10 taken */
  refused(&s, 0, AXES(61, 0, 0), SLICE);
  const nxmem_transaction c = reserved(&s, 0, AXES(60, 60, 60)), d = reserved(&s, 1, AXES(20, 20, 20));
  assert_int_equal(nx_books_now(&s).tiers[NXMEM_TIER_HOST].shares.charged, 100);
  rolled_back(a);
  rolled_back(c);
  refused(&s, 1, AXES(1, 0, 0), LIMIT); /* what is set aside is nobody else's, used or not */
  rolled_back(b);
  rolled_back(d);
  nx_scene_end(&s);
}

/* A limit below the slices: what is used may not grow above it either. */
static void test_limit_below_a_slice(void **state) {
  (void)state;
  nx_scene s = nx_scene_of(1, 0);
  const nxmem_axes slice = {100, 100, 100};
  assert_int_equal(nxmem_manager_delegate(s.manager, s.authorities[0], &slice, NULL), NXMEM_OK);
  nx_must_limit(&s, AXES(50, 50, 50));
  refused(&s, 0, AXES(51, 0, 0), LIMIT);
  const nxmem_transaction a = reserved(&s, 0, AXES(50, 50, 50));
  refused(&s, 0, AXES(0, 0, 1), LIMIT);
  rolled_back(a);
  nx_scene_end(&s);
}

/* ---- Books ------------------------------------------------------------------------------------------------------- */

static void test_authority_that_is_used_stays(void **state) {
  (void)state;
  nx_scene s = nx_scene_of(1, 0);
  nxmem_error error = nx_blank_error();
  const nxmem_transaction a = reserved(&s, 0, AXES(1, 1, 1));
  const nxmem_request request = nx_request(&s, 0, 2, 64, 64);
  const nxmem_bound bound = nx_must_grant(&s, &request, NULL);
  assert_int_equal(nxmem_manager_remove_authority(s.manager, s.authorities[0], &error), NXMEM_ERR_BUSY);
  assert_int_equal(error.found, 2);
  assert_int_equal(nxmem_manager_destroy(s.manager, &error), NXMEM_ERR_BUSY);
  assert_int_equal(error.found, 1);
  rolled_back(a);
  nx_must_give_back(&bound);
  nx_scene_end(&s);
}

static void test_context_says_what_is_open(void **state) {
  (void)state;
  nx_scene s = nx_scene_of(2, 0);
  nxmem_error error = nx_blank_error();
  nxmem_context_holds holds = {77, 77};
  const nxmem_transaction a = reserved(&s, 0, AXES(1, 1, 1)), b = reserved(&s, 0, AXES(1, 1, 1)),
                          c = reserved(&s, 1, AXES(1, 1, 1));
  assert_int_equal(nxmem_manager_remove_context(s.manager, s.context, &holds, &error), NXMEM_ERR_BUSY);
  assert_int_equal(holds.transactions, 3);
  assert_int_equal(holds.pins, 2);
  assert_int_equal(error.found, 5);
  rolled_back(a);
  rolled_back(b);
  rolled_back(c);
  assert_int_equal(nxmem_manager_remove_context(s.manager, s.context, &holds, &error), NXMEM_ERR_BUSY);
  assert_int_equal(holds.transactions, 0);
  assert_int_equal(holds.pins, 2);
  nx_scene_end(&s);
}

static void test_wrong_words(void **state) {
  (void)state;
  nx_scene s = nx_scene_of(2, 0);
  nxmem_error error = nx_blank_error();
  nxmem_bound bound;
  nxmem_transaction t;
  nxmem_request request = nx_request(&s, 0, 1, 1, 1);
  request.authority = s.authorities[1];
  nx_assert_code(nxmem_transaction_reserve(s.manager, &request, &t, &error), &error, NXMEM_ERR_WRONG_OWNER);
  nx_assert_code(nxmem_manager_allocate(s.manager, &request, &bound, NULL, NULL, &error), &error,
                 NXMEM_ERR_WRONG_OWNER);
  rolled_back(reserved(&s, 0, AXES(1, 1, 1))); /* the books of its mechanism are open now */
  nx_assert_code(nxmem_manager_allocate(s.manager, &request, &bound, NULL, NULL, &error), &error,
                 NXMEM_ERR_WRONG_OWNER);
  request = nx_request(&s, 0, 1, 1, 1);
  request.binding.id += 1000;
  nx_assert_code(nxmem_transaction_reserve(s.manager, &request, &t, &error), &error, NXMEM_ERR_STALE_HANDLE);
  request = nx_request(&s, 0, 1, 1, 1);
  nx_assert_code(nxmem_transaction_reserve((nxmem_manager){s.manager.id + (1ull << 32)}, &request, &t, &error), &error,
                 NXMEM_ERR_STALE_HANDLE);
  nx_assert_code(nxmem_transaction_reserve((nxmem_manager){0}, &request, &t, &error), &error, NXMEM_ERR_STALE_HANDLE);
  nx_assert_code(nxmem_manager_add_authority(s.manager, s.authorities[0], NXMEM_TIER_HOST, NULL, &error), &error,
                 NXMEM_ERR_INVALID_ARGUMENT);
  nx_assert_code(nxmem_manager_add_authority(s.manager, s.authorities[0], 3, NULL, &error), &error,
                 NXMEM_ERR_INVALID_ARGUMENT);
  nx_scene_end(&s);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(limit_rows), test_limit);
  nx_suite_add(&suite, "the process limit caps the sum of authorities", test_limit_caps_the_sum, NULL);
  nx_suite_add(&suite, "two devices of one memory share an authority", test_aliases, NULL);
  nx_suite_add(&suite, "a lowered limit adopts what is there", test_lowered_limit_adopts, NULL);
  nx_suite_add(&suite, "what is released above a limit is gone", test_released_above_the_limit_is_gone, NULL);
  nx_suite_add(&suite, "a slice is set aside, once", test_slice_is_set_aside, NULL);
  nx_suite_add(&suite, "a limit below a slice", test_limit_below_a_slice, NULL);
  nx_suite_add(&suite, "an authority that is used stays in the books", test_authority_that_is_used_stays, NULL);
  nx_suite_add(&suite, "a context says what is open", test_context_says_what_is_open, NULL);
  nx_suite_add(&suite, "wrong words", test_wrong_words, NULL);
  return nx_suite_run(&suite, "manager limits");
}
