/*
 * quota_test.c: the arithmetic of the books, row by row.
 *
 * Attackers played: sums at a limit and one byte beyond it, on each axis; limits that are passed already; numbers near 2^64.
 * Promise: the limit that refuses is named, with what it leaves; nothing that is refused changes anything.
 */
#include "nxmem/quota.h"

#include "support.h"

#define ALL UINT64_MAX
#define TOP 0x8000000000000000ull
#define BUDGET NXMEM_REASON_OVER_BUDGET
#define SLICE NXMEM_REASON_OVER_SLICE
#define PROCESS NXMEM_REASON_OVER_PROCESS_LIMIT

static void assert_axes(nxmem_axes got, nxmem_axes want) {
  assert_int_equal(got.charged, want.charged);
  assert_int_equal(got.physical, want.physical);
  assert_int_equal(got.mapped, want.mapped);
}

/* ---- Reserve ----------------------------------------------------------------------------------------------------- */

typedef struct reserve_row {
  const char *name;
  nxmem_quota quota;
  nxmem_axes ask;
  nxmem_verdict want;
} reserve_row;

/* taken 10 20 30 of a budget of 100 100 100, of a slice of 90 90 90; the tier has taken 40 each, shares are 120 each, of 200 */
#define USUAL(slices) \
  { {10, 20, 30}, {100, 100, 100}, {90, 90, 90}, {40, 40, 40}, {120, 120, 120}, {200, 200, 200}, slices }
#define TIGHT(slices) \
  { {10, 20, 30}, {100, 100, 100}, {90, 90, 90}, {150, 150, 150}, {160, 160, 160}, {200, 200, 200}, slices }
#define PASSED \
  { {10, 20, 30}, {5, 100, 100}, {0, 0, 0}, {40, 40, 40}, {40, 40, 40}, {30, 200, 200}, 0 }
#define OK_ \
  { 0, 0, 0, 0 }

static const reserve_row reserve_rows[] = {
    {"reserve: nothing", USUAL(0), {0, 0, 0}, OK_},
    {"reserve: the rest of the process limit", USUAL(0), {80, 80, 70}, OK_},
    {"reserve: the rest of the budget charged", USUAL(0), {91, 0, 0}, {BUDGET, 0, 91, 90}},
    {"reserve: the rest of the budget physical", USUAL(0), {90, 81, 0}, {BUDGET, 1, 81, 80}},
    {"reserve: the rest of the budget mapped", USUAL(0), {90, 80, 71}, {BUDGET, 2, 71, 70}},
    {"reserve: the process limit counts shares, charged", USUAL(0), {81, 0, 0}, {PROCESS, 0, 81, 80}},
    {"reserve: the process limit, physical", TIGHT(0), {40, 41, 0}, {PROCESS, 1, 41, 40}},
    {"reserve: the process limit, mapped", TIGHT(0), {40, 40, 41}, {PROCESS, 2, 41, 40}},
    {"reserve: a slice, all of it", USUAL(1), {80, 70, 60}, OK_},
    {"reserve: a slice, charged", USUAL(1), {81, 0, 0}, {SLICE, 0, 81, 80}},
    {"reserve: a slice, physical", USUAL(1), {80, 71, 0}, {SLICE, 1, 71, 70}},
    {"reserve: a slice, mapped", USUAL(7), {80, 70, 61}, {SLICE, 2, 61, 60}},
    {"reserve: with a slice the process limit counts what is taken", TIGHT(1), {50, 50, 50}, OK_},
    {"reserve: and refuses, charged", TIGHT(1), {51, 0, 0}, {PROCESS, 0, 51, 50}},
    {"reserve: and refuses, mapped", TIGHT(1), {50, 50, 51}, {PROCESS, 2, 51, 50}},
    {"reserve: a budget that is passed", PASSED, {1, 0, 0}, {BUDGET, 0, 1, 0}},
    {"reserve: nothing of what is passed", PASSED, {0, 80, 70}, OK_},
    {"reserve: 2^64 - 1", USUAL(0), {ALL, 0, 0}, {BUDGET, 0, ALL, 90}},
};

static void test_reserve(void **state) {
  const reserve_row *row = *state;
  nx_assert_verdict(nxmem_check_reserve(&row->quota, &row->ask), row->want);
}

typedef struct step_row {
  const char *name;
  nxmem_quota quota;
  nxmem_axes ask;
  uint64_t step;
  nxmem_axes want;
} step_row;

static const step_row step_rows[] = {
    {"step: there is room", USUAL(0), {10, 10, 10}, 5, {5, 5, 5}},
    {"step: what the process limit leaves, and the budget", USUAL(0), {70, 70, 70}, 50, {10, 10, 0}},
    {"step: what the slice leaves", USUAL(1), {70, 70, 59}, 50, {10, 0, 1}},
    {"step: what the process limit leaves beside a slice", TIGHT(1), {45, 50, 0}, 50, {5, 0, 50}},
    {"step: more is asked than is left", USUAL(0), {ALL, 81, 0}, 5, {0, 0, 5}},
    {"step: none", USUAL(0), {0, 0, 0}, 0, {0, 0, 0}},
    {"step: as large as can be", USUAL(0), {0, 0, 0}, ALL, {80, 80, 70}},
};

static void test_step(void **state) {
  const step_row *row = *state;
  nxmem_axes out = {7, 7, 7};
  nxmem_quota_step(&row->quota, &row->ask, row->step, &out);
  assert_axes(out, row->want);
}

/* ---- Delegation -------------------------------------------------------------------------------------------------- */

typedef struct delegation_row {
  const char *name;
  nxmem_quota quota;
  nxmem_axes slice;
  nxmem_verdict want;
} delegation_row;

static const delegation_row delegation_rows[] = {
    {"delegate: a second time", USUAL(1), {90, 90, 90}, {NXMEM_REASON_ALREADY_DELEGATED, 0, 1, 0}},
    {"delegate: exactly what is taken", USUAL(0), {10, 20, 30}, OK_},
    {"delegate: one byte less, charged", USUAL(0), {9, 20, 30}, {NXMEM_REASON_SLICE_TOO_SMALL, 0, 9, 10}},
    {"delegate: one byte less, physical", USUAL(0), {10, 19, 30}, {NXMEM_REASON_SLICE_TOO_SMALL, 1, 19, 20}},
    {"delegate: one byte less, mapped", USUAL(0), {10, 20, 29}, {NXMEM_REASON_SLICE_TOO_SMALL, 2, 29, 30}},
    {"delegate: all that the others leave", USUAL(0), {90, 100, 110}, OK_},
    {"delegate: one byte more, charged", USUAL(0), {91, 100, 110}, {PROCESS, 0, 91, 90}},
    {"delegate: one byte more, physical", USUAL(0), {90, 101, 110}, {PROCESS, 1, 101, 100}},
    {"delegate: one byte more, mapped", USUAL(0), {90, 100, 111}, {PROCESS, 2, 111, 110}},
};

static void test_delegation(void **state) {
  const delegation_row *row = *state;
  nx_assert_verdict(nxmem_check_delegation(&row->quota, &row->slice), row->want);
}

typedef struct share_row {
  const char *name;
  nxmem_quota quota;
  nxmem_axes want;
} share_row;

static const share_row share_rows[] = {
    {"share: what is taken", USUAL(0), {10, 20, 30}},
    {"share: a whole slice", USUAL(1), {90, 90, 90}},
    {"share: more is taken than the slice on one axis",
     {{10, 95, 30}, {0, 0, 0}, {90, 90, 90}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, 1},
     {90, 95, 90}},
};

static void test_share(void **state) {
  const share_row *row = *state;
  nxmem_axes out = {7, 7, 7};
  nxmem_quota_share(&row->quota, &out);
  assert_axes(out, row->want);
}

/* ---- Two figures ------------------------------------------------------------------------------------------------- */

typedef struct pair_row {
  const char *name;
  nxmem_axes first, second;
  int answer;
  nxmem_axes want; /* first, afterwards */
} pair_row;

static const pair_row take_rows[] = {
    {"take: all", {1, 2, 3}, {1, 2, 3}, 1, {0, 0, 0}},
    {"take: none", {1, 2, 3}, {0, 0, 0}, 1, {1, 2, 3}},
    {"take: some", {ALL, 20, 30}, {ALL - 1, 5, 6}, 1, {1, 15, 24}},
    {"take: one byte more charged", {1, 2, 3}, {2, 0, 0}, 0, {1, 2, 3}},
    {"take: one byte more physical", {1, 2, 3}, {1, 3, 0}, 0, {1, 2, 3}},
    {"take: one byte more mapped", {1, 2, 3}, {1, 2, 4}, 0, {1, 2, 3}},
};

static void test_take(void **state) {
  const pair_row *row = *state;
  nxmem_axes room = row->first;
  assert_int_equal(nxmem_axes_take(&room, &row->second), row->answer);
  assert_axes(room, row->want);
}

static const pair_row add_rows[] = {
    {"add: to exactly 2^63", {TOP - 1, TOP - 2, TOP}, {1, 2, 0}, 1, {TOP, TOP, TOP}},
    {"add: one byte beyond, charged", {TOP, 0, 0}, {1, 5, 5}, 0, {TOP, 0, 0}},
    {"add: one byte beyond, physical", {0, TOP - 1, 0}, {5, 2, 5}, 0, {0, TOP - 1, 0}},
    {"add: 2^64 - 1, mapped", {0, 0, TOP}, {5, 5, ALL}, 0, {0, 0, TOP}},
    {"add: each axis its own", {1, 10, 100}, {2, 20, 200}, 1, {3, 30, 300}},
};

static void test_add(void **state) {
  const pair_row *row = *state;
  nxmem_axes total = row->first;
  assert_int_equal(nxmem_axes_add(&total, &row->second), row->answer);
  assert_axes(total, row->want);
}

static const pair_row adopt_rows[] = {
    {"adopt: each axis its own", {1, 10, 100}, {2, 20, 200}, 0, {3, 30, 300}},
    {"adopt: to 2^63 and no further", {TOP - 1, 5, TOP}, {2, ALL, 1}, 0, {TOP, TOP, TOP}},
    {"adopt: exactly to 2^63", {TOP - 1, TOP - 3, 0}, {1, 3, TOP}, 0, {TOP, TOP, TOP}},
};

static void test_adopt(void **state) {
  const pair_row *row = *state;
  nxmem_axes total = row->first;
  nxmem_axes_adopt(&total, &row->second);
  assert_axes(total, row->want);
}

static const pair_row refund_rows[] = {
    {"refund: all", {5, 6, 7}, {5, 6, 7}, 0, {0, 0, 0}},
    {"refund: some", {5, 6, 7}, {1, 2, 3}, 0, {4, 4, 4}},
    {"refund: more than there is, charged", {5, 6, 7}, {6, 1, 1}, 1, {0, 5, 6}},
    {"refund: more than there is, physical and mapped", {5, 6, 7}, {1, 7, ALL}, 2, {4, 0, 0}},
    {"refund: more than there is on all", {0, 0, 0}, {1, 1, 1}, 3, {0, 0, 0}},
};

static void test_refund(void **state) {
  const pair_row *row = *state;
  nxmem_axes held = row->first;
  assert_int_equal(nxmem_axes_refund(&held, &row->second), row->answer);
  assert_axes(held, row->want);
}

static const pair_row beyond_rows[] = {
    {"beyond: nothing", {5, 6, 7}, {5, 6, 7}, 0, {0, 0, 0}},
    {"beyond: on one axis", {5, 6, 8}, {9, 6, 7}, 0, {0, 0, 1}},
    {"beyond: on all", {ALL, 6, 8}, {0, 1, 2}, 0, {ALL, 5, 6}},
};

static void test_beyond(void **state) {
  const pair_row *row = *state;
  nxmem_axes out = {7, 7, 7};
  nxmem_quota_beyond(&row->first, &row->second, &out);
  assert_axes(out, row->want);
}

static const pair_row commit_rows[] = {
    {"commit: as reserved", {5, 6, 7}, {5, 6, 7}, 0, {0, 0, 0}},
    {"commit: more", {5, 6, 7}, {6, 8, 10}, 0, {1, 2, 3}},
    {"commit: less", {5, 6, 7}, {4, 4, 4}, 0, {0, 0, 0}},
    {"commit: more, less and as reserved", {5, 6, 7}, {ALL, 0, 7}, 0, {ALL - 5, 0, 0}},
};

static void test_commit(void **state) {
  const pair_row *row = *state;
  nxmem_axes more = {7, 7, 7}, spare = {7, 7, 7}, less;
  nxmem_settle_commit(&row->first, &row->second, &more, &spare);
  assert_axes(more, row->want);
  less = (nxmem_axes){row->first.charged + more.charged - row->second.charged,
                      row->first.physical + more.physical - row->second.physical,
                      row->first.mapped + more.mapped - row->second.mapped};
  assert_axes(spare, less);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(reserve_rows), test_reserve);
  nx_suite_rows(&suite, ROWS(step_rows), test_step);
  nx_suite_rows(&suite, ROWS(delegation_rows), test_delegation);
  nx_suite_rows(&suite, ROWS(share_rows), test_share);
  nx_suite_rows(&suite, ROWS(take_rows), test_take);
  nx_suite_rows(&suite, ROWS(add_rows), test_add);
  nx_suite_rows(&suite, ROWS(adopt_rows), test_adopt);
  nx_suite_rows(&suite, ROWS(refund_rows), test_refund);
  nx_suite_rows(&suite, ROWS(beyond_rows), test_beyond);
  nx_suite_rows(&suite, ROWS(commit_rows), test_commit);
  return nx_suite_run(&suite, "quota");
}
