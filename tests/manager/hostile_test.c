/*
 * hostile_test.c: callers, holders and plugins that do what nobody should.
 *
 * Attackers played: plugins that keep more than a slice has, or claim more bytes than exist; holders that add holders without end, or destroy their manager; callers that
 * wait for what another manager charged, or nobody did.
 * Promise: no byte above a limit, no call behind the end, no wait for what cannot come, and books that add up.
 */
#include "managertest.h"

static nx_scene scene;

/* ---- What a plugin kept stands above a slice ----------------------------------------------------------------------- */

static nxmem_axes used(void) { return nx_books_now(&scene).total.used; }

/* 136 bytes are kept of a transaction that could not commit. */
static void keep_above_the_slice(void) {
  nxmem_transaction t;
  nxmem_rollback rollback;
  const nxmem_request request = nx_request(&scene, 0, 0, 36, 36);
  puppet.own_numbers = 1;
  puppet.owned = puppet.mapped = 136;
  puppet.own_release = 1;
  puppet.release_answer = nx_puppet_status(NXMEM_STATUS_DEVICE_ERROR);
  assert_int_equal(nxmem_transaction_reserve(scene.manager, &request, &t, NULL), NXMEM_OK);
  assert_int_equal(nxmem_transaction_allocate(t, NULL), NXMEM_OK);
  assert_int_equal(nxmem_transaction_commit(t, NULL), NXMEM_ERR_OVER_LIMIT);
  assert_int_equal(nxmem_transaction_rollback(t, &rollback, NULL), NXMEM_OK);
  assert_int_equal(rollback.kept, 1);
  puppet.own_numbers = puppet.own_release = 0;
}

/* What is released there is not granted again by way of some thread's room. */
static void test_kept_above_a_slice(void **state) {
  (void)state;
  scene = nx_scene_of(1, 0);
  nxmem_error error = nx_blank_error();
  nxmem_transaction t;
  const nxmem_axes slice = {NXMEM_TOTAL_MAX, 100, NXMEM_TOTAL_MAX};
  assert_int_equal(nxmem_manager_delegate(scene.manager, scene.authorities[0], &slice, NULL), NXMEM_OK);
  const nxmem_request whole = nx_request(&scene, 0, 0, 64, 64), one = nx_request(&scene, 0, 0, 1, 0);
  const nxmem_bound bound = nx_must_grant(&scene, &whole, NULL);
  keep_above_the_slice();
  nx_must_give_back(&bound);
  assert_int_equal(used().physical, 136);
  assert_int_equal(nxmem_transaction_reserve(scene.manager, &one, &t, &error), NXMEM_ERR_OVER_LIMIT);
  assert_int_equal(error.reason, NXMEM_REASON_OVER_SLICE);
  assert_int_equal(used().physical, 136);
  nx_scene_end_lost(&scene);
}

/* ---- Answers that the host refuses and keeps ------------------------------------------------------------------------ */

typedef struct answer_row {
  const char *name;
  int misaligned; /* else nothing is written, so NULL: not handed back */
  uint32_t release;
  uint64_t owned; /* said */
  int kept;
  nxmem_keeping keeping;
  nxmem_axes reserve, there;
} answer_row;

static const answer_row answer_rows[] = {
    {"misaligned, and its release fails",
     1,
     NXMEM_STATUS_DEVICE_ERROR,
     64,
     1,
     NXMEM_KEPT_PARTIAL_RELEASE,
     {5, 80, 90},
     {5, 80, 90}},
    {"misaligned, and its release may have begun",
     1,
     NXMEM_STATUS_RELEASE_QUARANTINED,
     64,
     1,
     NXMEM_KEPT_PARTIAL_RELEASE,
     {5, 80, 90},
     {5, 80, 90}},
    {"misaligned, and taken back", 1, NXMEM_STATUS_OK, 64, 0, NXMEM_KEPT_NOT, {5, 80, 90}, {0, 0, 0}},
    {"NULL", 0, NXMEM_STATUS_OK, 64, 1, NXMEM_KEPT_PARTIAL_RELEASE, {5, 80, 90}, {5, 80, 90}},
    {"fewer reserved than asked for", 0, NXMEM_STATUS_OK, 64, 1, NXMEM_KEPT_PARTIAL_RELEASE, {5, 0, 0}, {5, 64, 0}},
    {"it claims all there can be",
     1,
     NXMEM_STATUS_DEVICE_ERROR,
     UINT64_MAX,
     1,
     NXMEM_KEPT_PARTIAL_RELEASE,
     {5, 64, 64},
     {5, 64, 64}},
};

static _Alignas(16) uint8_t somewhere[128];

static void play(const answer_row *row) {
  puppet.own_numbers = 1;
  puppet.owned = puppet.mapped = row->owned;
  puppet.address = row->misaligned ? somewhere + 1 : NULL;
  puppet.leave_out_records = !row->misaligned;
  puppet.own_release = 1;
  puppet.release_answer = nx_puppet_status(row->release);
}

static void assert_kept(const answer_row *row, const nxmem_rollback *rollback, uint64_t times) {
  const nxmem_snapshot now = nx_books_now(&scene);
  const nxmem_axes there = {row->there.charged * times, row->there.physical * times, row->there.mapped * times};
  assert_int_equal(rollback->kept, row->kept);
  assert_int_equal(rollback->keeping, row->keeping);
  nx_assert_axes(now.total.used, there);
  nx_assert_axes(now.total.quarantined, there);
  assert_int_equal(now.total.quarantined_count, (uint64_t)row->kept * times);
  assert_int_equal(now.total.transactions, 0);
}

/* Its authority stays in the books until the mechanism is ended; then nothing is charged any more. */
static void end_answers(const answer_row *row) {
  nxmem_mechanism_state state;
  assert_int_equal(nxmem_mechanism_get_state(scene.mechanisms[0], &state, NULL), NXMEM_OK);
  assert_int_equal(state.holdings.quarantined, nx_books_now(&scene).total.quarantined_count);
  const nxmem_result removed = nxmem_manager_remove_authority(scene.manager, scene.authorities[0], NULL);
  assert_int_equal(removed, row->kept ? NXMEM_ERR_BUSY : NXMEM_OK);
  if (!row->kept)
    assert_int_equal(nxmem_manager_add_authority(scene.manager, scene.authorities[0], NXMEM_TIER_HOST, NULL, NULL),
                     NXMEM_OK);
  scene.module_stays = row->kept;
  nx_scene_end_lost(&scene);
}

static void test_refused_answer(void **state) {
  const answer_row *row = *state;
  scene = nx_scene_of(1, 0);
  nxmem_bound none;
  nxmem_rollback rollback;
  play(row);
  nxmem_request request = nx_request(&scene, 0, row->reserve.charged, row->reserve.physical, row->reserve.mapped);
  nx_must_limit(&scene, row->reserve); /* what is there is adopted, also above it */
  assert_int_equal(nxmem_manager_allocate(scene.manager, &request, &none, NULL, &rollback, NULL), NXMEM_ERR_CONTRACT);
  nx_assert_axes(rollback.behind, row->there);
  assert_kept(row, &rollback, 1);
  end_answers(row);
}

/* Step by step each attempt may leave something, beside the reservation, which stays. */
static void test_refused_answers(void **state) {
  const answer_row *row = *state;
  scene = nx_scene_of(1, 0);
  nxmem_transaction t;
  nxmem_rollback rollback;
  play(row);
  const nxmem_request request = nx_request(&scene, 0, row->reserve.charged, row->reserve.physical, row->reserve.mapped);
  assert_int_equal(nxmem_transaction_reserve(scene.manager, &request, &t, NULL), NXMEM_OK);
  for (int i = 0; i < 2; i++) assert_int_equal(nxmem_transaction_allocate(t, NULL), NXMEM_ERR_CONTRACT);
  nx_assert_axes(nx_books_now(&scene).total.reserved, row->reserve);
  assert_int_equal(nxmem_transaction_rollback(t, &rollback, NULL), NXMEM_OK);
  nx_assert_axes(rollback.behind, AXES(2 * row->there.charged, 2 * row->there.physical, 2 * row->there.mapped));
  assert_kept(row, &rollback, 2);
  end_answers(row);
}

/* ---- More than there can be ---------------------------------------------------------------------------------------- */

/* All that a tier can count is charged in two of them: their sum is beyond what can be said. */
static void test_two_tiers_full(void **state) {
  (void)state;
  scene = nx_scene_of(2, 0);
  nxmem_transaction a, b;
  assert_int_equal(nxmem_manager_remove_authority(scene.manager, scene.authorities[1], NULL), NXMEM_OK);
  assert_int_equal(nxmem_manager_add_authority(scene.manager, scene.authorities[1], NXMEM_TIER_DEVICE, NULL, NULL),
                   NXMEM_OK);
  const nxmem_request all = nx_request(&scene, 0, NXMEM_TOTAL_MAX, NXMEM_TOTAL_MAX, NXMEM_TOTAL_MAX);
  const nxmem_request more = nx_request(&scene, 1, NXMEM_TOTAL_MAX, 7, 0);
  assert_int_equal(nxmem_transaction_reserve(scene.manager, &all, &a, NULL), NXMEM_OK);
  assert_int_equal(nxmem_transaction_reserve(scene.manager, &more, &b, NULL), NXMEM_OK);
  nxmem_snapshot now = {.mechanism_room = 0};
  for (int i = 0; i < 2; i++) assert_int_equal(nxmem_manager_snapshot(scene.manager, &now, NULL), NXMEM_OK);
  assert_int_equal(now.bugs, 0);
  nx_assert_axes(now.total.used, AXES(NXMEM_TOTAL_MAX, NXMEM_TOTAL_MAX, NXMEM_TOTAL_MAX));
  nx_assert_axes(now.tiers[NXMEM_TIER_DEVICE].figures.used, AXES(NXMEM_TOTAL_MAX, 7, 0));
  assert_int_equal(nxmem_transaction_rollback(a, NULL, NULL), NXMEM_OK);
  assert_int_equal(nxmem_transaction_rollback(b, NULL, NULL), NXMEM_OK);
  nx_scene_end(&scene);
}

/* Two mechanisms of one tier, and a plugin that says of each that it takes all that can be counted. */
static void test_two_claims(void **state) {
  const int keeps = *state != NULL;
  scene = nx_scene_of(2, 0);
  nxmem_error error = nx_blank_error();
  nxmem_bound none;
  nxmem_rollback rollback;
  puppet.own_numbers = 1;
  puppet.owned = puppet.mapped = NXMEM_TOTAL_MAX;
  const nxmem_request first = nx_request(&scene, 0, 1, NXMEM_TOTAL_MAX, NXMEM_TOTAL_MAX);
  const nxmem_request second = nx_request(&scene, 1, 1, 0, 0);
  const nxmem_bound bound = nx_must_grant(&scene, &first, NULL);
  puppet.own_release = keeps;
  puppet.release_answer = nx_puppet_status(NXMEM_STATUS_DEVICE_ERROR);
  const nxmem_result r = nxmem_manager_allocate(scene.manager, &second, &none, NULL, &rollback, &error);
  nx_assert_code(r, &error, NXMEM_ERR_OVER_LIMIT);
  puppet.own_release = 0;
  assert_int_equal(rollback.kept, keeps);
  nx_assert_axes(used(), AXES(keeps ? 2 : 1, NXMEM_TOTAL_MAX, NXMEM_TOTAL_MAX));
  nx_assert_axes(nx_books_now(&scene).total.quarantined, AXES(keeps, 0, 0)); /* as far as it could be counted */
  nx_must_give_back(&bound);
  nx_assert_axes(used(), AXES(keeps, 0, 0));
  if (keeps)
    nx_scene_end_lost(&scene);
  else
    nx_scene_end(&scene);
}

typedef struct number_row {
  const char *name;
  nxmem_axes reserve;
  uint32_t axis;
} number_row;

#define MAX NXMEM_TOTAL_MAX
static const number_row number_rows[] = {
    {"charged: one more than can be", {MAX + 1, 0, 0}, 0},    {"charged: all ones", {UINT64_MAX, 0, 0}, 0},
    {"physical: one more than can be", {0, MAX + 1, 0}, 1},   {"physical: all ones", {MAX, UINT64_MAX, 0}, 1},
    {"mapped: one more than can be", {MAX, MAX, MAX + 1}, 2}, {"mapped: all ones", {0, 0, UINT64_MAX}, 2},
};

static void test_number(void **state) {
  const number_row *row = *state;
  scene = nx_scene_of(1, 0);
  nxmem_error error = nx_blank_error();
  nxmem_bound bound;
  nxmem_request request = nx_request(&scene, 0, 0, 0, 0);
  request.reserve = row->reserve;
  for (int i = 0; i < 2; i++) { /* with an account, and without */
    assert_int_equal(nxmem_manager_allocate(scene.manager, &request, &bound, NULL, NULL, &error), NXMEM_ERR_OVER_LIMIT);
    assert_int_equal(error.field, row->axis);
    assert_int_equal(error.needed, MAX);
  }
  nx_must_limit(&scene, AXES(UINT64_MAX, UINT64_MAX, UINT64_MAX));
  nx_must_budget(&scene, 0, AXES(UINT64_MAX, UINT64_MAX, UINT64_MAX));
  assert_int_equal(nxmem_manager_allocate(scene.manager, &request, &bound, NULL, NULL, &error), NXMEM_ERR_OVER_LIMIT);
  assert_int_equal(
      nxmem_manager_delegate(scene.manager, scene.authorities[0], &(nxmem_axes){MAX + 1, MAX, UINT64_MAX}, &error),
      NXMEM_ERR_OVER_LIMIT);
  nx_scene_end(&scene);
}

/* ---- Holders --------------------------------------------------------------------------------------------------------- */

enum { HEIRS_MAX = 20 };

static int heirs;
static nxmem_pressure last_heir;

/* Each one that is asked puts one behind itself. */
static void breed(void *ctx, nxmem_authority authority, const nxmem_axes *wanted, nxmem_axes *given_out) {
  (void)ctx;
  (void)authority;
  (void)wanted;
  (void)given_out;
  if (heirs++ >= HEIRS_MAX) return;
  assert_int_equal(nxmem_manager_add_pressure(scene.manager, breed, NULL, -heirs, &last_heir, NULL), NXMEM_OK);
}

static void test_holder_adds_holders(void **state) {
  (void)state;
  scene = nx_scene_of(1, 0);
  heirs = 0;
  nxmem_pressure first;
  nxmem_axes given;
  const nxmem_axes wanted = {1, 0, 0};
  assert_int_equal(nxmem_manager_add_pressure(scene.manager, breed, NULL, 0, &first, NULL), NXMEM_OK);
  assert_int_equal(nxmem_manager_ask(scene.manager, scene.authorities[0], &wanted, &given, NULL), NXMEM_OK);
  assert_int_equal(heirs, 1);
  assert_int_equal(nxmem_manager_ask(scene.manager, scene.authorities[0], &wanted, &given, NULL), NXMEM_OK);
  assert_int_equal(heirs, 3);
  nx_scene_end(&scene);
}

static nxmem_result removed, destroyed;

static void destroy(void *ctx, nxmem_authority authority, const nxmem_axes *wanted, nxmem_axes *given_out) {
  (void)ctx;
  (void)wanted;
  (void)given_out;
  removed = nxmem_manager_remove_authority(scene.manager, authority, NULL);
  destroyed = nxmem_manager_destroy(scene.manager, NULL);
}

/* What is asked of a manager is asked while it is there. */
static void test_holder_destroys_its_manager(void **state) {
  (void)state;
  scene = nx_scene_of(1, 0);
  nxmem_pressure pressure;
  nxmem_axes given;
  const nxmem_axes wanted = {1, 0, 0};
  assert_int_equal(nxmem_manager_add_pressure(scene.manager, destroy, NULL, 0, &pressure, NULL), NXMEM_OK);
  assert_int_equal(nxmem_manager_ask(scene.manager, scene.authorities[0], &wanted, &given, NULL), NXMEM_OK);
  assert_int_equal(removed, NXMEM_OK);
  assert_int_equal(destroyed, NXMEM_ERR_BUSY);
  assert_int_equal(nxmem_manager_add_authority(scene.manager, scene.authorities[0], NXMEM_TIER_HOST, NULL, NULL),
                   NXMEM_OK);
  nx_scene_end(&scene);
}

/* ---- Waiting --------------------------------------------------------------------------------------------------------- */

static void test_wait_for_what_is_not(void **state) {
  (void)state;
  scene = nx_scene_of(1, 0);
  nxmem_error error = nx_blank_error();
  nxmem_manager other;
  uint64_t charge = 0;
  const nxmem_request request = nx_request(&scene, 0, 1, 64, 64);
  const nxmem_bound bound = nx_must_grant(&scene, &request, &charge);
  assert_int_equal(nxmem_manager_create(&other, NULL), NXMEM_OK);
  nx_assert_code(nxmem_manager_wait(other, charge, 200, &error), &error, NXMEM_ERR_WRONG_OWNER);
  nx_assert_code(nxmem_manager_wait(scene.manager, 0, UINT32_MAX, &error), &error, NXMEM_ERR_STALE_HANDLE);
  nx_assert_code(nxmem_manager_wait(scene.manager, charge + (1ull << 32), UINT32_MAX, &error), &error,
                 NXMEM_ERR_STALE_HANDLE);
  nx_assert_code(nxmem_manager_wait(scene.manager, UINT64_MAX, UINT32_MAX, &error), &error, NXMEM_ERR_STALE_HANDLE);
  nx_must_give_back(&bound);
  assert_int_equal(nxmem_manager_wait(scene.manager, charge, UINT32_MAX, NULL), NXMEM_OK);
  assert_int_equal(nxmem_manager_destroy(other, NULL), NXMEM_OK);
  nx_scene_end(&scene);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_add(&suite, "a plugin keeps more than a slice has", test_kept_above_a_slice, NULL);
  nx_suite_rows(&suite, ROWS(answer_rows), test_refused_answer);
  nx_suite_rows(&suite, ROWS(answer_rows), test_refused_answers);
  nx_suite_add(&suite, "two tiers are full", test_two_tiers_full, NULL);
  nx_suite_add(&suite, "two claims of all there can be, one refused", test_two_claims, NULL);
  nx_suite_add(&suite, "two claims of all there can be, one kept", test_two_claims, "kept");
  nx_suite_rows(&suite, ROWS(number_rows), test_number);
  nx_suite_add(&suite, "holders that add holders", test_holder_adds_holders, NULL);
  nx_suite_add(&suite, "a holder that destroys its manager", test_holder_destroys_its_manager, NULL);
  nx_suite_add(&suite, "waiting for what is not there", test_wait_for_what_is_not, NULL);
  return nx_suite_run(&suite, "manager hostile");
}
