/*
 * lifecycle_test.c: what a mechanism may still be used for, when it may go, and what owning releases come to, row by row.
 *
 * Attackers played: every step from everywhere to everywhere; counts that are not 0, one and several at a time; every fate in every lifecycle.
 * Promise: no way back, nothing new behind an end, the first that is held is named, no release leads nowhere.
 */
#include "nxmem/lifecycle.h"

#include "support.h"

enum {
  A = NXMEM_LIFECYCLE_ACTIVE,
  R = NXMEM_LIFECYCLE_RETIRED,
  L = NXMEM_LIFECYCLE_DEVICE_LOST,
  T = NXMEM_LIFECYCLE_TERMINATED
};
#define ALLOW \
  { NXMEM_REASON_NONE, 0, 0, 0 }
#define MOST UINT64_MAX

/* ---- Words ------------------------------------------------------------------------------------------------------- */

typedef struct word_row {
  const char *name;
  uint32_t generation, lifecycle, state, to;
} word_row;

static const word_row word_rows[] = {
    {"word: active to retired", 7, A, NXMEM_SLOT_LIVE, R},
    {"word: to lost while it is removed", 7, R, NXMEM_SLOT_RELEASING, L},
    {"word: first generation", 0, A, NXMEM_SLOT_LIVE, T},
    {"word: last generation", 0xFFFFFFFF, L, NXMEM_SLOT_LIVE, T},
};

static void test_word(void **state) {
  const word_row *row = *state;
  const uint64_t word = nxmem_word_make(row->generation, row->lifecycle, row->state);
  assert_int_equal(nxmem_lifecycle_of(word), row->lifecycle);
  assert_int_equal(nxmem_word_in_lifecycle(word, row->to), nxmem_word_make(row->generation, row->to, row->state));
}

/* A handle is claimable exactly while its mechanism is registered and ACTIVE: what selecting and binding rely on. */
static void test_current(void **state) {
  (void)state;
  const uint64_t handle = nxmem_handle_make(41, 7);
  for (uint32_t lifecycle = A; lifecycle <= T; lifecycle++)
    assert_int_equal(nxmem_is_claimable(nxmem_word_make(7, lifecycle, NXMEM_SLOT_LIVE), handle), lifecycle == A);
  assert_false(nxmem_is_claimable(nxmem_word_make(8, A, NXMEM_SLOT_LIVE), handle));
  assert_false(nxmem_is_claimable(nxmem_word_make(7, A, NXMEM_SLOT_RELEASING), handle));
}

/* ---- Steps ------------------------------------------------------------------------------------------------------- */

static void test_leads(void **state) {
  (void)state;
  static const int may[5][5] = {{0, 1, 1, 0, 0}, {0, 0, 1, 0, 0}, {0, 0, 0, 1, 0}, {0}, {0}};
  for (uint32_t from = 0; from < 5; from++)
    for (uint32_t to = 0; to < 5; to++) assert_int_equal(nxmem_lifecycle_leads(from, to), may[from][to]);
  assert_false(nxmem_lifecycle_leads(0xFFFFFFFF, L));
}

typedef struct work_row {
  const char *name;
  uint32_t lifecycle, work;
  nxmem_verdict want;
} work_row;

static const work_row work_rows[] = {
    {"work: new, active", A, NXMEM_WORK_NEW, ALLOW},
    {"work: new, retired", R, NXMEM_WORK_NEW, {NXMEM_REASON_ENDED, 0, R, A}},
    {"work: new, lost", L, NXMEM_WORK_NEW, {NXMEM_REASON_ENDED, 0, L, A}},
    {"work: new, terminated", T, NXMEM_WORK_NEW, {NXMEM_REASON_ENDED, 0, T, A}},
    {"work: release, active", A, NXMEM_WORK_RELEASE, ALLOW},
    {"work: release, retired", R, NXMEM_WORK_RELEASE, ALLOW},
    {"work: release, lost", L, NXMEM_WORK_RELEASE, {NXMEM_REASON_ENDED, 0, L, R}},
    {"work: release, terminated", T, NXMEM_WORK_RELEASE, {NXMEM_REASON_ENDED, 0, T, R}},
    {"work: unknown work is new work", R, 9, {NXMEM_REASON_ENDED, 0, R, A}},
    {"work: unknown lifecycle", 4, NXMEM_WORK_RELEASE, {NXMEM_REASON_ENDED, 0, 4, R}},
};

static void test_work(void **state) {
  const work_row *row = *state;
  nx_assert_verdict(nxmem_check_work(row->lifecycle, row->work), row->want);
}

/* ---- Removal ----------------------------------------------------------------------------------------------------- */

typedef struct removal_row {
  const char *name;
  uint32_t lifecycle;
  nxmem_holdings held; /* inside, live, prepared, quarantined, bindings */
  nxmem_verdict want;
} removal_row;

#define HELD(which, n) \
  { NXMEM_REASON_STILL_HELD, NXMEM_HOLDING_##which, n, 0 }

static const removal_row removal_rows[] = {
    {"removal: retired and free", R, {0, 0, 0, 0, 0}, ALLOW},
    {"removal: terminated and free", T, {0, 0, 0, 0, 0}, ALLOW},
    {"removal: active", A, {0, 0, 0, 0, 0}, {NXMEM_REASON_NOT_ENDED, 0, A, R}},
    {"removal: active, whatever is held", A, {1, 1, 1, 1, 1}, {NXMEM_REASON_NOT_ENDED, 0, A, R}},
    {"removal: lost, not confirmed", L, {0, 0, 0, 0, 0}, {NXMEM_REASON_NOT_ENDED, 0, L, T}},
    {"removal: unknown lifecycle", 4, {0, 0, 0, 0, 0}, {NXMEM_REASON_NOT_ENDED, 0, 4, T}},
    {"removal: a call inside", R, {2, 0, 0, 0, 0}, HELD(CALLS_INSIDE, 2)},
    {"removal: live", R, {0, 3, 0, 0, 0}, HELD(LIVE, 3)},
    {"removal: prepared", R, {0, 0, MOST, 0, 0}, HELD(PREPARED, MOST)},
    {"removal: quarantined", R, {0, 0, 0, 5, 0}, HELD(QUARANTINED, 5)},
    {"removal: bindings", R, {0, 0, 0, 0, 6}, HELD(BINDINGS, 6)},
    {"removal: the first is named", R, {0, 0, 1, 2, 3}, HELD(PREPARED, 1)},
    {"removal: all of them", R, {1, 2, 3, 4, 5}, HELD(CALLS_INSIDE, 1)},
    {"removal: terminated, quarantined", T, {0, 0, 0, 5, 0}, ALLOW},
    {"removal: terminated, a call inside", T, {1, 0, 0, 0, 0}, HELD(CALLS_INSIDE, 1)},
    {"removal: terminated, live", T, {0, 1, 0, 0, 0}, HELD(LIVE, 1)},
    {"removal: terminated, prepared", T, {0, 0, 1, 5, 0}, HELD(PREPARED, 1)},
    {"removal: terminated, quarantined and bound", T, {0, 0, 0, 5, 2}, HELD(BINDINGS, 2)},
};

static void test_removal(void **state) {
  const removal_row *row = *state;
  nx_assert_verdict(nxmem_check_removal(row->lifecycle, &row->held), row->want);
}

/* ---- Owning releases --------------------------------------------------------------------------------------------- */

typedef struct settle_row {
  const char *name;
  uint32_t lifecycle, fate;
  nxmem_keeping want;
} settle_row;

static const settle_row settle_rows[] = {
    {"settle: gone", A, NXMEM_FATE_GONE, NXMEM_KEPT_NOT},
    {"settle: gone, retired", R, NXMEM_FATE_GONE, NXMEM_KEPT_NOT},
    {"settle: nothing changed", A, NXMEM_FATE_LIVE, NXMEM_KEPT_ALLOCATOR_REFUSED},
    {"settle: nothing changed, retired", R, NXMEM_FATE_LIVE, NXMEM_KEPT_ALLOCATOR_REFUSED},
    {"settle: quarantined", A, NXMEM_FATE_QUARANTINED, NXMEM_KEPT_PARTIAL_RELEASE},
    {"settle: no fate there is", R, 77, NXMEM_KEPT_PARTIAL_RELEASE},
    {"settle: gone, but lost", L, NXMEM_FATE_GONE, NXMEM_KEPT_DEVICE_LOST},
    {"settle: refused, but lost", L, NXMEM_FATE_LIVE, NXMEM_KEPT_DEVICE_LOST},
    {"settle: gone, but terminated", T, NXMEM_FATE_GONE, NXMEM_KEPT_TERMINATED},
    {"settle: quarantined, but terminated", T, NXMEM_FATE_QUARANTINED, NXMEM_KEPT_TERMINATED},
    {"settle: no lifecycle there is", 4, NXMEM_FATE_GONE, NXMEM_KEPT_TERMINATED},
};

static void test_settle(void **state) {
  const settle_row *row = *state;
  assert_int_equal(nxmem_settle_owned(row->lifecycle, row->fate), row->want);
}

static void test_keep(void **state) {
  (void)state;
  for (uint32_t why = NXMEM_KEPT_ABANDONED; why <= NXMEM_KEPT_ALLOCATOR_REFUSED; why++) {
    assert_int_equal(nxmem_keep_owned(A, (nxmem_keeping)why), why);
    assert_int_equal(nxmem_keep_owned(R, (nxmem_keeping)why), why);
    assert_int_equal(nxmem_keep_owned(L, (nxmem_keeping)why), NXMEM_KEPT_DEVICE_LOST);
    assert_int_equal(nxmem_keep_owned(T, (nxmem_keeping)why), NXMEM_KEPT_TERMINATED);
    assert_int_equal(nxmem_keep_owned(5, (nxmem_keeping)why), NXMEM_KEPT_TERMINATED);
  }
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(word_rows), test_word);
  nx_suite_add(&suite, "word: claimable means registered and active", test_current, NULL);
  nx_suite_add(&suite, "steps: from everywhere to everywhere", test_leads, NULL);
  nx_suite_rows(&suite, ROWS(work_rows), test_work);
  nx_suite_rows(&suite, ROWS(removal_rows), test_removal);
  nx_suite_rows(&suite, ROWS(settle_rows), test_settle);
  nx_suite_add(&suite, "keep: under the reason given, unless lost", test_keep, NULL);
  return nx_suite_run(&suite, "core lifecycle");
}
