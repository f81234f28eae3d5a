/*
 * arena_test.c: what an arena is opened with, and its books, row by row.
 *
 * Attackers played: granularities that are none, memory sizes whose multiples wrap, releases that come twice.
 * Promise: what is refused is refused with its number and replaced by nothing; no total goes below 0.
 */
#include "nxmem/arena.h"

#include "support.h"

#define ALL UINT64_MAX
#define TOP 0x8000000000000000ull
#define KIB4 0x1000ull
#define MIB2 0x200000ull
#define MIB32 0x2000000ull
#define GIB 0x40000000ull
#define TIB 0x10000000000ull
#define UNTOUCHED 0xC9C9C9C9C9C9C9C9ull
#define ALLOW \
  { NXMEM_REASON_NONE, 0, 0, 0 }
#define NO(reason, found, needed) \
  { NXMEM_REASON_##reason, 0, found, needed }

/* ---- Granularity ---- */

typedef struct choose_row {
  const char *name;
  uint64_t minimum, recommended;
  nxmem_verdict want;
  uint64_t granule;
} choose_row;

static const choose_row choose_rows[] = {
    {"choose: both the same", MIB2, MIB2, ALLOW, MIB2},
    {"choose: recommended is a multiple", MIB2, MIB32, ALLOW, MIB32},
    {"choose: recommended is smaller", MIB2, KIB4, ALLOW, MIB2},
    {"choose: a page", KIB4, KIB4, ALLOW, KIB4},
    {"choose: bytes", 1, 1, NO(BAD_GRANULARITY, 1, KIB4), UNTOUCHED},
    {"choose: half a page", KIB4 / 2, MIB2, NO(BAD_GRANULARITY, KIB4 / 2, KIB4), UNTOUCHED},
    {"choose: the largest", GIB, GIB, ALLOW, GIB},
    {"choose: recommended too large", MIB2, 2 * GIB, ALLOW, MIB2},
    {"choose: recommended far too large", MIB2, TOP, ALLOW, MIB2},
    {"choose: minimum too large", 2 * GIB, 2 * GIB, NO(BAD_GRANULARITY, 2 * GIB, GIB), UNTOUCHED},
    {"choose: minimum too large, recommended smaller", TOP, MIB2, NO(BAD_GRANULARITY, TOP, GIB), UNTOUCHED},
    {"choose: minimum of 0", 0, MIB2, NO(BAD_GRANULARITY, 0, 0), UNTOUCHED},
    {"choose: minimum of 3", 3, MIB2, NO(BAD_GRANULARITY, 3, 0), UNTOUCHED},
    {"choose: minimum of all ones", ALL, MIB2, NO(BAD_GRANULARITY, ALL, 0), UNTOUCHED},
    {"choose: recommended of 0", MIB2, 0, NO(BAD_GRANULARITY, 0, 1), UNTOUCHED},
    {"choose: recommended a multiple, no power", MIB2, 3 * MIB2, NO(BAD_GRANULARITY, 3 * MIB2, 1), UNTOUCHED},
    {"choose: both of 0", 0, 0, NO(BAD_GRANULARITY, 0, 0), UNTOUCHED},
    {"choose: minimum too large, recommended none", TOP, 6, NO(BAD_GRANULARITY, 6, 1), UNTOUCHED},
};

static void test_choose(void **state) {
  const choose_row *row = *state;
  uint64_t granule = UNTOUCHED;
  nx_assert_verdict(nxmem_granule_choose(row->minimum, row->recommended, &granule), row->want);
  assert_int_equal(granule, row->granule);
}

/* ---- The ladder ---- */

typedef struct start_row {
  const char *name;
  uint64_t memory, multiple, floor, minimum, granule;
  nxmem_verdict want;
  nxmem_ladder ladder;
  int rungs; /* down to the minimum */
} start_row;

#define KEPT \
  { UNTOUCHED, UNTOUCHED }

static const start_row start_rows[] = {
    {"ladder: a large device", 139 * GIB, 16, TIB, 64 * GIB, MIB2, ALLOW, {2224 * GIB, 64 * GIB}, 7},
    {"ladder: a small device, the floor", 8 * GIB, 16, TIB, 64 * GIB, MIB2, ALLOW, {TIB, 64 * GIB}, 5},
    {"ladder: 1 TiB to 1 GiB", 8 * GIB, 16, TIB, GIB, MIB2, ALLOW, {TIB, GIB}, 11},
    {"ladder: no device memory", 0, 16, TIB, TIB, MIB2, ALLOW, {TIB, TIB}, 1},
    {"ladder: a minimum above all", GIB, 16, TIB, 2 * TIB, MIB2, ALLOW, {2 * TIB, 2 * TIB}, 1},
    {"ladder: a multiple of nothing", GIB, 0, 0, GIB, MIB2, ALLOW, {GIB, GIB}, 1},
    {"ladder: memory of all ones", ALL, 16, TIB, GIB, MIB2, ALLOW, {ALL - MIB2 + 1, GIB}, 35},
    {"ladder: a multiple that wraps to little", TOP, 2, GIB, GIB, MIB2, ALLOW, {ALL - MIB2 + 1, GIB}, 35},
    {"ladder: a multiple of exactly 2^64-1", ALL / 3, 3, 0, 1, 1, ALLOW, {ALL, 1}, 64},
    {"ladder: rounded down to granules", 10, 1, 0, 5, 4, ALLOW, {8, 4}, 2},
    {"ladder: the floor, rounded down", 1, 1, TIB + 5, GIB + 7, MIB2, ALLOW, {TIB, GIB}, 11},
    {"ladder: a minimum of one granule", 0, 1, 0, MIB2, MIB2, ALLOW, {MIB2, MIB2}, 1},
    {"ladder: a minimum below a granule", GIB, 1, TIB, MIB2 - 1, MIB2, NO(NO_RUNG, MIB2 - 1, MIB2), KEPT, 0},
    {"ladder: a minimum of nothing", GIB, 1, TIB, 0, 1, NO(NO_RUNG, 0, 1), KEPT, 0},
};

static void go_down(nxmem_ladder *ladder, uint64_t granule, int rungs) {
  const uint64_t minimum = ladder->minimum;
  for (; rungs > 1; rungs--) {
    const uint64_t before = ladder->rung;
    nx_assert_verdict(nxmem_ladder_next(ladder, granule), (nxmem_verdict)ALLOW);
    assert_true(minimum <= ladder->rung && ladder->rung < before && ladder->rung % granule == 0u);
    assert_true(ladder->rung == minimum || before / 2 - ladder->rung < granule);
    assert_int_equal(ladder->minimum, minimum);
  }
  nx_assert_verdict(nxmem_ladder_next(ladder, granule), (nxmem_verdict)NO(NO_RUNG, minimum, minimum));
  assert_int_equal(ladder->rung, minimum);
}

static void test_ladder(void **state) {
  const start_row *row = *state;
  nxmem_ladder ladder = KEPT;
  nx_assert_verdict(nxmem_ladder_start(row->memory, row->multiple, row->floor, row->minimum, row->granule, &ladder),
                    row->want);
  assert_int_equal(ladder.rung, row->ladder.rung);
  assert_int_equal(ladder.minimum, row->ladder.minimum);
  if (row->rungs > 0) go_down(&ladder, row->granule, row->rungs);
}

/* ---- Pool and totals ---- */

typedef struct pool_row {
  const char *name;
  uint64_t pool, granule, bound;
  int may;
} pool_row;

static const pool_row pool_rows[] = {
    {"pool: the first", 0, MIB2, 256 * GIB, 1},
    {"pool: no pool", 0, MIB2, 0, 0},
    {"pool: exactly full", MIB32 - MIB2, MIB2, MIB32, 1},
    {"pool: a byte beyond", MIB32 - MIB2 + 1, MIB2, MIB32, 0},
    {"pool: full", MIB32, MIB2, MIB32, 0},
    {"pool: more than full", MIB32 + MIB2, MIB2, MIB32, 0},
    {"pool: smaller than a granule", 0, MIB2, MIB2 - 1, 0},
    {"pool: a sum that wraps", ALL, MIB2, MIB32, 0},
    {"pool: without a bound", ALL - MIB2, MIB2, ALL, 1},
};

static void test_pool(void **state) {
  const pool_row *row = *state;
  assert_int_equal(nxmem_pool_may_keep(row->pool, row->granule, row->bound), row->may);
}

typedef struct total_row {
  const char *name;
  uint64_t total, bytes;
  int fits;
  uint64_t rest, peak;
} total_row;

static const total_row total_rows[] = {
    {"total: nothing of nothing", 0, 0, 1, 0, 0},
    {"total: some", 3 * MIB2, MIB2, 1, 2 * MIB2, 3 * MIB2},
    {"total: all", MIB2, MIB2, 1, 0, MIB2},
    {"total: a byte more", MIB2, MIB2 + 1, 0, UNTOUCHED, MIB2 + 1},
    {"total: of nothing", 0, 1, 0, UNTOUCHED, 1},
    {"total: the largest numbers", ALL, ALL - 1, 1, 1, ALL},
    {"total: all ones of one less", ALL - 1, ALL, 0, UNTOUCHED, ALL},
};

static void test_total(void **state) {
  const total_row *row = *state;
  uint64_t rest = UNTOUCHED;
  assert_int_equal(nxmem_total_subtract(row->total, row->bytes, &rest), row->fits);
  assert_int_equal(rest, row->rest);
  assert_int_equal(nxmem_peak(row->total, row->bytes), row->peak);
}

static void test_queued(void **state) {
  (void)state;
  nx_assert_verdict(nxmem_check_not_queued(0), (nxmem_verdict)ALLOW);
  nx_assert_verdict(nxmem_check_not_queued(1), (nxmem_verdict)NO(IN_USE, 1, 0));
  nx_assert_verdict(nxmem_check_not_queued(ALL), (nxmem_verdict)NO(IN_USE, ALL, 0));
}

/* ---- Shared prefixes ---- */

typedef nxmem_verdict prefix_step(nxmem_prefix_use *use);

typedef struct prefix_row {
  const char *name;
  prefix_step *step;
  nxmem_prefix_use before;
  nxmem_verdict want;
  nxmem_prefix_use after;
} prefix_row;

static const prefix_row prefix_rows[] = {
    {"prefix: retain", nxmem_prefix_use_retain, {1, 0}, ALLOW, {2, 0}},
    {"prefix: retain the last", nxmem_prefix_use_retain, {ALL - 1, 3}, ALLOW, {ALL, 3}},
    {"prefix: retain too many", nxmem_prefix_use_retain, {ALL, 3}, NO(TOO_MANY_REFERENCES, ALL, ALL), {ALL, 3}},
    {"prefix: retain, the handle is gone", nxmem_prefix_use_retain, {0, 3}, NO(NO_REFERENCE, 0, 1), {0, 3}},
    {"prefix: release", nxmem_prefix_use_release, {2, 1}, ALLOW, {1, 1}},
    {"prefix: release the last", nxmem_prefix_use_release, {1, 1}, ALLOW, {0, 1}},
    {"prefix: release twice", nxmem_prefix_use_release, {0, 1}, NO(NO_REFERENCE, 0, 1), {0, 1}},
    {"prefix: map", nxmem_prefix_view, {1, 0}, ALLOW, {1, 1}},
    {"prefix: map the last", nxmem_prefix_view, {1, ALL - 1}, ALLOW, {1, ALL}},
    {"prefix: map too many", nxmem_prefix_view, {1, ALL}, NO(TOO_MANY_REFERENCES, ALL, ALL), {1, ALL}},
    {"prefix: map, the handle is gone", nxmem_prefix_view, {0, 1}, NO(NO_REFERENCE, 0, 1), {0, 1}},
    {"prefix: unmap", nxmem_prefix_unview, {1, 2}, ALLOW, {1, 1}},
    {"prefix: unmap the last, the handle is gone", nxmem_prefix_unview, {0, 1}, ALLOW, {0, 0}},
    {"prefix: unmap twice", nxmem_prefix_unview, {1, 0}, NO(NOT_MAPPED, 0, 1), {1, 0}},
};

static void test_prefix(void **state) {
  const prefix_row *row = *state;
  nxmem_prefix_use use = row->before;
  nx_assert_verdict(row->step(&use), row->want);
  assert_int_equal(use.handles, row->after.handles);
  assert_int_equal(use.mappings, row->after.mappings);
  assert_int_equal(nxmem_prefix_is_gone(&use), use.handles == 0u && use.mappings == 0u);
}

/* One handle, mapped in three places: whatever goes first, the bytes go with the last of the four. */
static void test_prefix_orders(void **state) {
  (void)state;
  for (int handle_at = 0; handle_at < 4; handle_at++) {
    nxmem_prefix_use use = {1, 3};
    for (int i = 0; i < 4; i++) {
      assert_int_equal(nxmem_prefix_is_gone(&use), 0);
      const nxmem_verdict v = i == handle_at ? nxmem_prefix_use_release(&use) : nxmem_prefix_unview(&use);
      nx_assert_verdict(v, (nxmem_verdict)ALLOW);
    }
    assert_int_equal(nxmem_prefix_is_gone(&use), 1);
  }
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(choose_rows), test_choose);
  nx_suite_rows(&suite, ROWS(start_rows), test_ladder);
  nx_suite_rows(&suite, ROWS(pool_rows), test_pool);
  nx_suite_rows(&suite, ROWS(total_rows), test_total);
  nx_suite_add(&suite, "queued: none, one, all ones", test_queued, NULL);
  nx_suite_rows(&suite, ROWS(prefix_rows), test_prefix);
  nx_suite_add(&suite, "prefix: the handle goes first, second, third, last", test_prefix_orders, NULL);
  return nx_suite_run(&suite, "arena");
}
