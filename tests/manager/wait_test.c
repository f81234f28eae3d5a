/*
 * wait_test.c: waiting for one exact release.
 *
 * Attackers played: releases that come late, never, or were settled before; ones that are kept.
 * Promise: a wait ends with its release or with its time, and can be tried again.
 */
#include <pthread.h>

#include "managertest.h"

static nx_scene scene;
static nxmem_bound bound;
static uint64_t charge;

static void begin(void) {
  scene = nx_scene_of(1, 0);
  const nxmem_request request = nx_request(&scene, 0, 10, 64, 64);
  bound = nx_must_grant(&scene, &request, &charge);
}

static nxmem_result wait_for(uint32_t ms) { return nxmem_manager_wait(scene.manager, charge, ms, NULL); }

static void test_not_yet_then_done(void **state) {
  (void)state;
  begin();
  nxmem_prepared prepared;
  assert_int_equal(wait_for(0), NXMEM_ERR_TIMED_OUT);
  assert_int_equal(nxmem_bound_prepare(&bound, &prepared, NULL), NXMEM_OK);
  assert_int_equal(wait_for(1), NXMEM_ERR_TIMED_OUT);
  nx_assert_used(&scene, AXES(10, 64, 64)); /* prepared is not released */
  assert_int_equal(nxmem_prepared_execute(prepared, NULL), NXMEM_OK);
  assert_int_equal(wait_for(0), NXMEM_OK);
  assert_int_equal(wait_for(60000), NXMEM_OK);
  nx_scene_end(&scene);
}

static void test_kept(void **state) {
  (void)state;
  begin();
  nxmem_prepared prepared;
  assert_int_equal(nxmem_bound_prepare(&bound, &prepared, NULL), NXMEM_OK);
  assert_int_equal(nxmem_prepared_abandon(prepared, NULL), NXMEM_OK);
  assert_int_equal(wait_for(60000), NXMEM_ERR_QUARANTINED);
  nx_scene_end_lost(&scene);
}

static void *release_later(void *argument) {
  (void)argument;
  (void)nx_books_now(&scene); /* no lock is held by who waits */
  nx_must_give_back(&bound);
  return NULL;
}

static void test_from_another_thread(void **state) {
  (void)state;
  for (int i = 0; i < 50; i++) {
    begin();
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, release_later, NULL), 0);
    nxmem_result r = NXMEM_ERR_TIMED_OUT;
    while (r == NXMEM_ERR_TIMED_OUT) r = wait_for(60000);
    assert_int_equal(r, NXMEM_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    nx_scene_end(&scene);
  }
}

/* Another allocation's release does not end it. */
static void test_exactly_this_one(void **state) {
  (void)state;
  begin();
  const nxmem_request request = nx_request(&scene, 0, 10, 64, 64);
  const nxmem_bound other = nx_must_grant(&scene, &request, NULL);
  nx_must_give_back(&other);
  assert_int_equal(wait_for(1), NXMEM_ERR_TIMED_OUT);
  nx_must_give_back(&bound);
  assert_int_equal(wait_for(1), NXMEM_OK);
  nx_scene_end(&scene);
}

/* What another manager charges is that manager's until it has gone back, also where it is kept. */
static void test_of_another_manager(void **state) {
  (void)state;
  nxmem_manager other = {0};
  begin();
  assert_int_equal(nxmem_manager_create(&other, NULL), NXMEM_OK);
  assert_int_equal(nxmem_manager_wait(other, charge, 0, NULL), NXMEM_ERR_WRONG_OWNER);
  nxmem_prepared prepared;
  assert_int_equal(nxmem_bound_prepare(&bound, &prepared, NULL), NXMEM_OK);
  assert_int_equal(nxmem_prepared_abandon(prepared, NULL), NXMEM_OK);
  assert_int_equal(nxmem_manager_wait(other, charge, 0, NULL), NXMEM_ERR_WRONG_OWNER);
  assert_int_equal(wait_for(0), NXMEM_ERR_QUARANTINED);
  assert_int_equal(nxmem_manager_destroy(other, NULL), NXMEM_OK);
  nx_scene_end_lost(&scene);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_add(&suite, "not yet, then done", test_not_yet_then_done, NULL);
  nx_suite_add(&suite, "kept", test_kept, NULL);
  nx_suite_add(&suite, "released by another thread", test_from_another_thread, NULL);
  nx_suite_add(&suite, "of another manager", test_of_another_manager, NULL);
  nx_suite_add(&suite, "exactly this one", test_exactly_this_one, NULL);
  return nx_suite_run(&suite, "manager waiting");
}
