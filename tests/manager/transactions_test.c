/*
 * transactions_test.c: each step of a transaction, each failure of one, and what it leaves in the books.
 *
 * Attackers played: plugins that refuse, take more or less than was reserved, or keep what they should give back; a device that is lost between two steps; steps out of
 * order.
 * Promise: behind every failure each axis is as it was, but for what the plugin kept, which is counted and said.
 */
#include "managertest.h"

#define ALL AXES(NXMEM_TOTAL_MAX, NXMEM_TOTAL_MAX, NXMEM_TOTAL_MAX)

/* ---- What the plugin answers, against what was reserved ------------------------------------------------------------ */

typedef struct answer_row {
  const char *name;
  nxmem_axes budget;
  nxmem_axes reserve;
  uint64_t owned, mapped; /* answered */
  uint32_t refuses;       /* the code of the plugin's allocate */
  nxmem_result result;
  uint32_t reason, axis;
  uint64_t found, needed;
} answer_row;

#define OVER NXMEM_ERR_OVER_LIMIT
#define BUDGET NXMEM_REASON_OVER_BUDGET

static const answer_row answer_rows[] = {
    {"answer: as reserved", {50, 64, 64}, {50, 64, 64}, 64, 64, 0, NXMEM_OK, 0, 0, 0, 0},
    {"answer: less on both", {50, 64, 64}, {50, 64, 64}, 10, 20, 0, NXMEM_OK, 0, 0, 0, 0},
    {"answer: nothing on both", {50, 64, 64}, {50, 64, 64}, 0, 0, 0, NXMEM_OK, 0, 0, 0, 0},
    {"answer: more, and there is room", {50, 100, 100}, {50, 1, 1}, 100, 100, 0, NXMEM_OK, 0, 0, 0, 0},
    {"answer: more physical, less mapped", {50, 100, 50}, {50, 1, 50}, 100, 7, 0, NXMEM_OK, 0, 0, 0, 0},
    {"answer: one byte more physical than there is", {50, 100, 100}, {50, 1, 1}, 101, 1, 0, OVER, BUDGET, 1, 100, 99},
    {"answer: one byte more mapped than there is", {50, 100, 100}, {50, 1, 1}, 1, 101, 0, OVER, BUDGET, 2, 100, 99},
    {"answer: charged is never the plugin's", {50, 999, 999}, {50, 0, 0}, 999, 999, 0, NXMEM_OK, 0, 0, 0, 0},
    {"answer: refused", {50, 64, 64}, {50, 64, 64}, 0, 0, NXMEM_STATUS_OUT_OF_MEMORY, NXMEM_ERR_PLUGIN, 0, 0, 0, 0},
};

static void test_answer(void **state) {
  const answer_row *row = *state;
  nx_scene s = nx_scene_of(1, 0);
  nxmem_error error = nx_blank_error();
  nxmem_bound bound;
  nxmem_rollback rollback;
  uint64_t charge = 0;
  puppet.own_numbers = 1;
  puppet.owned = row->owned;
  puppet.mapped = row->mapped;
  puppet.allocate_code = row->refuses;
  nx_must_budget(&s, 0, row->budget);
  const nxmem_request request = nx_request(&s, 0, row->reserve.charged, row->reserve.physical, row->reserve.mapped);
  const nxmem_result r = nxmem_manager_allocate(s.manager, &request, &bound, &charge, &rollback, &error);
  assert_int_equal(r, row->result);
  assert_int_equal(rollback.kept, 0);
  if (r == NXMEM_OK) {
    const nxmem_snapshot now = nx_books_now(&s);
    nx_assert_axes(now.total.live, AXES(row->reserve.charged, row->owned, row->mapped));
    assert_int_equal(now.total.live_count, 1);
    assert_int_equal(now.total.transactions, 0);
    nx_must_give_back(&bound);
  } else if (row->reason != 0) {
    nx_assert_refused(r, &error, (nx_refusal){r, row->reason, row->axis, row->found, row->needed, 0});
    assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION), 1); /* through the owning release */
  }
  assert_int_equal(atomic_load(&puppet.live_allocations), 0);
  const nxmem_transaction none = {charge};
  assert_int_equal(nxmem_transaction_rollback(none, NULL, NULL), NXMEM_ERR_STALE_HANDLE);
  nx_scene_end(&s);
}

/* ---- Rolled back behind each step -------------------------------------------------------------------------------- */

typedef struct step_row {
  const char *name;
  int steps; /* 1 reserved, 2 allocated, 3 committed */
  int keeps; /* the plugin keeps what it is asked to give back */
  nxmem_axes behind;
} step_row;

static const step_row step_rows[] = {
    {"rolled back: reserved", 1, 0, {0, 0, 0}},
    {"rolled back: allocated", 2, 0, {0, 0, 0}},
    {"rolled back: committed", 3, 0, {0, 0, 0}},
    {"rolled back: reserved, a plugin that keeps", 1, 1, {0, 0, 0}},
    {"rolled back: allocated, and kept", 2, 1, {10, 30, 40}},
    {"rolled back: committed, and kept", 3, 1, {10, 30, 40}},
};

static nxmem_transaction go(const nx_scene *s, const nxmem_request *request, int steps) {
  nxmem_transaction t = {0};
  assert_int_equal(nxmem_transaction_reserve(s->manager, request, &t, NULL), NXMEM_OK);
  if (steps >= 2) assert_int_equal(nxmem_transaction_allocate(t, NULL), NXMEM_OK);
  if (steps >= 3) assert_int_equal(nxmem_transaction_commit(t, NULL), NXMEM_OK);
  return t;
}

static void plugin_keeps(void) {
  puppet.own_release = 1;
  puppet.release_answer = nx_puppet_status(NXMEM_STATUS_RELEASE_QUARANTINED);
  puppet.outcome = (NxmemReleaseOutcome){.struct_size = sizeof puppet.outcome,
                                         .state = NXMEM_RELEASE_QUARANTINED,
                                         .allocation_bytes = 64,
                                         .residual_owned_bytes = 64};
}

static void test_rolled_back(void **state) {
  const step_row *row = *state;
  nx_scene s = nx_scene_of(1, 0);
  nxmem_rollback rollback;
  puppet.own_numbers = 1;
  puppet.owned = 30;
  puppet.mapped = 40;
  nx_must_budget(&s, 0, AXES(100, 100, 100));
  const nxmem_request request = nx_request(&s, 0, 10, 20, 50);
  const nxmem_transaction t = go(&s, &request, row->steps);
  if (row->keeps) plugin_keeps();
  assert_int_equal(nxmem_transaction_rollback(t, &rollback, NULL), NXMEM_OK);
  const nxmem_snapshot now = nx_books_now(&s);
  const int kept = row->behind.charged != 0;
  assert_int_equal(rollback.kept, kept);
  assert_int_equal(rollback.keeping, kept ? NXMEM_KEPT_PARTIAL_RELEASE : NXMEM_KEPT_NOT);
  nx_assert_axes(rollback.behind, row->behind);
  nx_assert_axes(now.total.used, row->behind);
  nx_assert_axes(now.total.quarantined, row->behind);
  assert_int_equal(now.total.quarantined_count, kept);
  assert_int_equal(now.total.transactions, 0);
  assert_int_equal(nxmem_transaction_rollback(t, &rollback, NULL), NXMEM_ERR_STALE_HANDLE);
  if (kept)
    nx_scene_end_lost(&s);
  else
    nx_scene_end(&s);
}

/* The plugin took more than there was room for, and will not give it back: it is there, so it is counted, and nothing more is granted. */
static void test_kept_beyond_the_limit(void **state) {
  (void)state;
  nx_scene s = nx_scene_of(1, 0);
  nxmem_error error = nx_blank_error();
  nxmem_rollback rollback;
  nxmem_bound bound;
  puppet.own_numbers = 1;
  puppet.owned = 500;
  puppet.mapped = 10;
  plugin_keeps();
  nx_must_budget(&s, 0, AXES(100, 100, 100));
  const nxmem_request request = nx_request(&s, 0, 20, 20, 20), none = nx_request(&s, 0, 1, 1, 0);
  assert_int_equal(nxmem_manager_allocate(s.manager, &request, &bound, NULL, &rollback, &error), OVER);
  assert_int_equal(rollback.kept, 1);
  nx_assert_axes(rollback.behind, AXES(20, 500, 10));
  nx_assert_used(&s, AXES(20, 500, 10));
  assert_int_equal(nxmem_manager_allocate(s.manager, &none, &bound, NULL, NULL, &error), OVER);
  assert_int_equal(error.field, NXMEM_QUOTA_PHYSICAL);
  nx_assert_used(&s, AXES(20, 500, 10));
  nx_scene_end_lost(&s);
}

/* ---- A device that is lost between two steps ---------------------------------------------------------------------- */

typedef struct loss_row {
  const char *name;
  int steps;
  int publishes; /* else it is rolled back */
  nxmem_axes behind;
} loss_row;

static const loss_row loss_rows[] = {
    {"lost: reserved, rolled back", 1, 0, {0, 0, 0}},     {"lost: allocated, rolled back", 2, 0, {10, 64, 64}},
    {"lost: committed, rolled back", 3, 0, {10, 64, 64}}, {"lost: committed, published", 3, 1, {10, 64, 64}},
    {"lost: published before", 4, 0, {10, 64, 64}},
};

static void test_lost(void **state) {
  const loss_row *row = *state;
  nx_scene s = nx_scene_of(1, 0);
  nxmem_bound bound;
  nxmem_rollback rollback;
  const nxmem_request request = nx_request(&s, 0, 10, 64, 64);
  const nxmem_transaction t = go(&s, &request, row->steps);
  if (row->steps == 4) assert_int_equal(nxmem_transaction_publish(t, &bound, NULL, NULL), NXMEM_OK);
  assert_int_equal(nxmem_mechanism_lose(s.mechanisms[0], NULL, NULL), NXMEM_OK);
  const uint64_t calls = nx_puppet_calls(NX_IN_RELEASE_ALLOCATION) + nx_puppet_calls(NX_IN_DEALLOCATE);
  if (row->publishes)
    assert_int_equal(nxmem_transaction_publish(t, &bound, NULL, NULL), NXMEM_ERR_DEVICE_LOST);
  else if (row->steps < 4)
    assert_int_equal(nxmem_transaction_rollback(t, &rollback, NULL), NXMEM_OK);
  if (!row->publishes && row->steps < 4) {
    assert_int_equal(rollback.kept, row->behind.charged != 0);
    nx_assert_axes(rollback.behind, row->behind);
  }
  const nxmem_snapshot now = nx_books_now(&s);
  nx_assert_axes(now.total.used, row->behind);
  nx_assert_axes(now.total.quarantined, row->behind);
  assert_int_equal(now.total.live_count, 0);
  assert_int_equal(now.total.transactions, 0);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION) + nx_puppet_calls(NX_IN_DEALLOCATE), calls);
  nx_scene_end_lost(&s);
}

/* ---- Steps out of order ------------------------------------------------------------------------------------------ */

typedef struct order_row {
  const char *name;
  int steps;
  int step; /* that is tried then: 2 allocate, 3 commit, 4 publish */
} order_row;

static const order_row order_rows[] = {
    {"order: commit what is only reserved", 1, 3},
    {"order: publish what is only reserved", 1, 4},
    {"order: allocate twice", 2, 2},
    {"order: publish what is not committed", 2, 4},
    {"order: allocate what is committed", 3, 2},
    {"order: commit twice", 3, 3},
};

static void test_order(void **state) {
  const order_row *row = *state;
  nx_scene s = nx_scene_of(1, 0);
  nxmem_error error = nx_blank_error();
  nxmem_bound bound;
  const nxmem_request request = nx_request(&s, 0, 10, 64, 64);
  const nxmem_transaction t = go(&s, &request, row->steps);
  const nxmem_axes before = nx_books_now(&s).total.used;
  nxmem_result r = NXMEM_OK;
  if (row->step == 2) r = nxmem_transaction_allocate(t, &error);
  if (row->step == 3) r = nxmem_transaction_commit(t, &error);
  if (row->step == 4) r = nxmem_transaction_publish(t, &bound, NULL, &error);
  nx_assert_code(r, &error, NXMEM_ERR_BUSY);
  nx_assert_used(&s, before);
  assert_int_equal(nxmem_transaction_rollback(t, NULL, NULL), NXMEM_OK);
  assert_int_equal(atomic_load(&puppet.live_allocations), 0);
  nx_scene_end(&s);
}

/* ---- The allocation's own life ------------------------------------------------------------------------------------ */

static void test_step_by_step(void **state) {
  (void)state;
  nx_scene s = nx_scene_of(1, 0);
  nxmem_bound bound;
  uint64_t charge;
  const nxmem_request request = nx_request(&s, 0, 10, 100, 64);
  const nxmem_transaction t = go(&s, &request, 1);
  nx_assert_axes(nx_books_now(&s).total.reserved, AXES(10, 100, 64));
  assert_int_equal(nx_books_now(&s).total.transactions, 1);
  assert_int_equal(nxmem_transaction_allocate(t, NULL), NXMEM_OK);
  nx_assert_axes(nx_books_now(&s).total.reserved, AXES(10, 100, 64));
  assert_int_equal(nxmem_transaction_commit(t, NULL), NXMEM_OK);
  nx_assert_axes(nx_books_now(&s).total.reserved, AXES(10, 64, 64));
  assert_int_equal(nxmem_transaction_publish(t, &bound, &charge, NULL), NXMEM_OK);
  nx_assert_axes(nx_books_now(&s).total.reserved, AXES(0, 0, 0));
  nx_assert_axes(nx_books_now(&s).total.live, AXES(10, 64, 64));
  assert_int_equal(nxmem_transaction_rollback(t, NULL, NULL), NXMEM_ERR_STALE_HANDLE); /* it is an allocation now */
  nx_must_give_back(&bound);
  assert_int_equal(nxmem_bound_release(&bound, NULL), NXMEM_ERR_UNKNOWN_ALLOCATION);
  nx_scene_end(&s);
}

/* Nobody can release it before it is published, whatever they make up. */
static void test_unpublished_is_nobodys(void **state) {
  (void)state;
  nx_scene s = nx_scene_of(1, 0);
  nxmem_bound other;
  const nxmem_request request = nx_request(&s, 0, 10, 64, 64);
  const nxmem_bound first = nx_must_grant(&s, &request, NULL);
  const nxmem_transaction t = go(&s, &request, 2);
  for (uint64_t n = 0; n < 64; n++) {
    other = first;
    other.id = first.id - 32 + n;
    if (other.id != first.id) assert_int_not_equal(nxmem_bound_release(&other, NULL), NXMEM_OK);
  }
  assert_int_equal(nxmem_transaction_commit(t, NULL), NXMEM_OK);
  assert_int_equal(nxmem_transaction_publish(t, &other, NULL, NULL), NXMEM_OK);
  nx_must_give_back(&other);
  nx_must_give_back(&first);
  nx_scene_end(&s);
}

static void test_kept_stays_charged(void **state) {
  (void)state;
  nx_scene s = nx_scene_of(1, 0);
  const nxmem_request request = nx_request(&s, 0, 10, 64, 64);
  const nxmem_bound a = nx_must_grant(&s, &request, NULL), b = nx_must_grant(&s, &request, NULL);
  plugin_keeps();
  assert_int_equal(nxmem_bound_release(&a, NULL), NXMEM_ERR_QUARANTINED);
  const nxmem_snapshot now = nx_books_now(&s);
  nx_assert_axes(now.total.quarantined, AXES(10, 64, 64));
  nx_assert_axes(now.total.live, AXES(10, 64, 64));
  assert_int_equal(nxmem_bound_release(&b, NULL), NXMEM_ERR_QUARANTINED);
  nx_assert_used(&s, AXES(20, 128, 128));
  assert_int_equal(nxmem_manager_remove_authority(s.manager, s.authorities[0], NULL), NXMEM_ERR_BUSY);
  nx_scene_end_lost(&s);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(answer_rows), test_answer);
  nx_suite_rows(&suite, ROWS(step_rows), test_rolled_back);
  nx_suite_rows(&suite, ROWS(loss_rows), test_lost);
  nx_suite_rows(&suite, ROWS(order_rows), test_order);
  nx_suite_add(&suite, "step by step", test_step_by_step, NULL);
  nx_suite_add(&suite, "kept, beyond the limit", test_kept_beyond_the_limit, NULL);
  nx_suite_add(&suite, "what is not published is nobody's", test_unpublished_is_nobodys, NULL);
  nx_suite_add(&suite, "what is kept stays charged", test_kept_stays_charged, NULL);
  return nx_suite_run(&suite, "manager transactions");
}
