/*
 * room_test.c: what threads draw ahead of what they grant, and what becomes of it.
 *
 * Attackers played: a thread that leaves room behind; limits that change while there is some.
 * Promise: room is nobody's loss: it is taken back before anything is refused, when a limit changes, and where there is too much.
 */
#include <pthread.h>

#include "managertest.h"

enum { MIB = 1 << 20 };

static nx_scene scene;

/* What a thread does that has a stripe of its own, and leaves its room there. */
typedef struct errand {
  nxmem_axes ask;
  nxmem_result result;
} errand;

static void *reserve_and_roll_back(void *argument) {
  errand *e = argument;
  nxmem_transaction t;
  const nxmem_request request = nx_request(&scene, 0, e->ask.charged, e->ask.physical, e->ask.mapped);
  e->result = nxmem_transaction_reserve(scene.manager, &request, &t, NULL);
  if (e->result == NXMEM_OK) e->result = nxmem_transaction_rollback(t, NULL, NULL);
  return NULL;
}

static nxmem_result elsewhere(nxmem_axes ask) {
  errand e = {ask, NXMEM_OK};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, reserve_and_roll_back, &e), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  return e.result;
}

static nxmem_axes ahead(void) { return nx_books_now(&scene).authorities[0].ahead; }

/* Here and elsewhere: two stripes. */
static void leave_room(void) {
  errand here = {AXES(10, 10, 10), NXMEM_OK};
  (void)reserve_and_roll_back(&here);
  assert_int_equal(here.result, NXMEM_OK);
  assert_int_equal(elsewhere(AXES(10, 10, 10)), NXMEM_OK);
}

static void test_taken_back_before_a_refusal(void **state) {
  (void)state;
  scene = nx_scene_of(1, 0);
  nx_must_budget(&scene, 0, AXES(MIB, MIB, MIB));
  leave_room();
  assert_true(ahead().charged != 0);
  assert_int_equal(elsewhere(AXES(MIB, MIB, MIB)), NXMEM_OK);
  errand here = {AXES(MIB, MIB, MIB), NXMEM_OK};
  (void)reserve_and_roll_back(&here);
  assert_int_equal(here.result, NXMEM_OK);
  assert_int_equal(elsewhere(AXES(MIB + 1, 0, 0)), NXMEM_ERR_OVER_LIMIT);
  nx_scene_end(&scene);
}

/* Another authority's, of the same tier. */
static void test_taken_back_from_another_authority(void **state) {
  (void)state;
  scene = nx_scene_of(2, 0);
  nx_must_limit(&scene, AXES(MIB, MIB, MIB));
  leave_room();
  nxmem_transaction t;
  const nxmem_request request = nx_request(&scene, 1, MIB, MIB, MIB);
  assert_int_equal(nxmem_transaction_reserve(scene.manager, &request, &t, NULL), NXMEM_OK);
  assert_int_equal(nx_books_now(&scene).tiers[NXMEM_TIER_HOST].shares.charged, MIB);
  assert_int_equal(nxmem_transaction_rollback(t, NULL, NULL), NXMEM_OK);
  nx_scene_end(&scene);
}

static void test_never_too_much(void **state) {
  (void)state;
  scene = nx_scene_of(1, 0);
  assert_int_equal(elsewhere(AXES(64ull * MIB, 64ull * MIB, 64ull * MIB)), NXMEM_OK);
  assert_true(ahead().charged <= 2 * MIB);
  assert_true(ahead().physical <= 2 * MIB);
  assert_true(ahead().mapped <= 2 * MIB);
  assert_int_equal(elsewhere(AXES(0, 0, 64ull * MIB)), NXMEM_OK);
  assert_true(ahead().mapped <= 2 * MIB);
  nx_scene_end(&scene);
}

static void test_limit_lowered(void **state) {
  (void)state;
  scene = nx_scene_of(1, 0);
  leave_room();
  nxmem_axes beyond;
  const nxmem_axes low = {100, 100, 100};
  assert_int_equal(nxmem_manager_set_limit(scene.manager, NXMEM_TIER_HOST, &low, &beyond, NULL), NXMEM_OK);
  nx_assert_axes(beyond, AXES(0, 0, 0));
  nx_assert_axes(ahead(), AXES(0, 0, 0));
  assert_int_equal(elsewhere(AXES(101, 0, 0)), NXMEM_ERR_OVER_LIMIT);
  assert_int_equal(elsewhere(AXES(100, 100, 100)), NXMEM_OK);
  nx_scene_end(&scene);
}

static void test_budget_lowered(void **state) {
  (void)state;
  scene = nx_scene_of(1, 0);
  leave_room();
  nx_must_budget(&scene, 0, AXES(100, 100, 100));
  assert_int_equal(elsewhere(AXES(0, 0, 101)), NXMEM_ERR_OVER_LIMIT);
  nx_scene_end(&scene);
}

static void test_delegated(void **state) {
  (void)state;
  scene = nx_scene_of(1, 0);
  leave_room();
  const nxmem_axes slice = {100, 100, 100};
  assert_int_equal(nxmem_manager_delegate(scene.manager, scene.authorities[0], &slice, NULL), NXMEM_OK);
  assert_int_equal(elsewhere(AXES(0, 101, 0)), NXMEM_ERR_OVER_LIMIT);
  assert_int_equal(elsewhere(AXES(100, 100, 100)), NXMEM_OK);
  nx_scene_end(&scene);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_add(&suite, "room is taken back before a refusal", test_taken_back_before_a_refusal, NULL);
  nx_suite_add(&suite, "room of another authority as well", test_taken_back_from_another_authority, NULL);
  nx_suite_add(&suite, "never too much room", test_never_too_much, NULL);
  nx_suite_add(&suite, "room when a limit is lowered", test_limit_lowered, NULL);
  nx_suite_add(&suite, "room when a budget is lowered", test_budget_lowered, NULL);
  nx_suite_add(&suite, "room when a slice is delegated", test_delegated, NULL);
  return nx_suite_run(&suite, "manager room");
}
