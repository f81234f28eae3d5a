/*
 * open_test.c: what is offered, what opening tries, and what it says where something is missing.
 *
 * Attackers played: machines without driver, device, support, entry points; a driver that fails at any call of opening.
 * Promise: a refused open names what is missing and leaves nothing in the driver.
 */
#include <unistd.h>

#include "cuda_driver.h"
#include "driver.h"
#include "fake.h"
#include "gate.h"
#include "nxmem_memory_abi.h"

static const nx_fake *fake;

static int set_up(void **state) {
  (void)state;
  fake = nx_fake_driver();
  nx_fake_schedule("reset");
  return 0;
}

static const nx_vmm_offer *offer_of(uint32_t index, int shared) {
  const nx_vmm_offer *offers;
  uint32_t count = nx_vmm_offers(&offers);
  for (uint32_t i = 0; i < count; i++) {
    int has = (offers[i].capabilities & NXMEM_CAP_SHARED_MAPPING) != 0;
    if (offers[i].index == index && has == shared) return &offers[i];
  }
  fail_msg("no such offer");
  return NULL;
}

static nx_vmm_answer open_one(const nx_vmm_offer *offer, nx_vmm_driver *driver, int *unsupported, char why[200]) {
  memset(why, 0, 200);
  *unsupported = -1;
  return offer->open(offer, driver, unsupported, why);
}

/* ---- Offers ------------------------------------------------------------------------------------------------------ */

static void offers_for(uint32_t devices, uint32_t expected) {
  const nx_vmm_offer *offers;
  char schedule[32];
  snprintf(schedule, sizeof schedule, "devices=%u", devices);
  nx_fake_schedule(schedule);
  assert_int_equal(nx_vmm_offers(&offers), expected);
  for (uint32_t i = 0; i < expected; i++) {
    assert_int_equal(offers[i].tier, NXMEM_TIER_DEVICE);
    assert_int_equal(offers[i].index, i / 2);
    assert_string_equal(offers[i].name, i % 2 ? "cuda-vmm-shared" : "cuda-vmm");
    assert_int_not_equal(offers[i].mechanism_id, 0);
    assert_int_not_equal(offers[i].mechanism_id, offers[i ^ 1u].mechanism_id);
    assert_int_equal((offers[i].capabilities & NXMEM_CAP_SHARED_MAPPING) != 0, i % 2);
  }
}

static void two_for_each_device(void **state) {
  (void)state;
  offers_for(1, 2);
  offers_for(3, 6);
  offers_for(32, 64);
  offers_for(0, 2);
}

/* ---- What is missing --------------------------------------------------------------------------------------------- */

typedef struct missing_row {
  const char *name;
  const char *schedule;
  int shared;
  int unsupported;
  uint32_t outcome;
  const char *says;
} missing_row;

static const missing_row missing_rows[] = {
    {"no device", "devices=0", 0, 1, NX_VMM_REFUSED, "no device"},
    {"no virtual memory management", "no-vmm", 0, 1, NX_VMM_REFUSED, "no virtual memory management"},
    {"an old driver", "version=11020", 0, 1, NX_VMM_REFUSED, "11030"},
    {"no cuMemUnmap", "missing=cuMemUnmap", 0, 1, NX_VMM_REFUSED, "cuMemUnmap"},
    {"no cuEventQuery", "missing=cuEventQuery", 0, 1, NX_VMM_REFUSED, "cuEventQuery"},
    {"init not permitted", "fail=cuInit:2:800", 0, 0, NX_VMM_REFUSED, "cuInit"},
    {"context out of memory", "fail=cuDevicePrimaryCtxRetain:1:2", 0, 0, NX_VMM_NO_MEMORY, "cuDevicePrimaryCtxRetain"},
    {"granularity refused", "fail=cuMemGetAllocationGranularity:2:999", 0, 0, NX_VMM_REFUSED,
     "cuMemGetAllocationGranularity"},
    {"context not current", "rdma;fail=cuCtxPushCurrent:1:201", 0, 0, NX_VMM_UNBOUND, "cuCtxPushCurrent"},
    {"lost while the flag is tried", "rdma;fail=cuMemMap:1:719", 0, 0, NX_VMM_LOST, "cuMemMap"},
};

static void missing_is_named(void **state) {
  const missing_row *row = *state;
  nx_vmm_driver driver;
  int unsupported;
  char why[200];
  set_up(NULL);
  fakecuda_counts before = nx_fake_counts();
  fake->clear_log();
  nx_fake_schedule(row->schedule);
  nx_vmm_answer answer = open_one(offer_of(0, row->shared), &driver, &unsupported, why);
  assert_int_equal(answer.outcome, row->outcome);
  assert_int_equal(unsupported, row->unsupported);
  if (strstr(why, row->says) == NULL) fail_msg("\"%s\" does not say \"%s\"", why, row->says);
  assert_int_equal(nx_fake_counts().faults_pending, 0);
  if (row->outcome != NX_VMM_LOST)
    nx_fake_assert_clean(&before);
  else
    assert_int_equal(fake->calls("cuMemRelease") + fake->calls("cuDevicePrimaryCtxRelease"),
                     0); /* nothing is destroyed */
}

/* ---- The optional flag ------------------------------------------------------------------------------------------- */

/* Without the flag nothing is tried: the engine tries the whole sequence itself, in its own books. */
static void the_flag_is_tried_through_a_whole_life(void **state) {
  (void)state;
  static const char *const calls[] = {"cuMemAddressReserve", "cuMemCreate",  "cuMemMap",        "cuMemSetAccess",
                                      "cuMemUnmap",          "cuMemRelease", "cuMemAddressFree"};
  for (int flagged = 0; flagged < 2; flagged++) {
    nx_vmm_driver driver;
    int unsupported;
    char why[200];
    fakecuda_counts before = nx_fake_counts();
    if (flagged) nx_fake_schedule("rdma");
    fake->clear_log();
    assert_int_equal(open_one(offer_of(0, 0), &driver, &unsupported, why).outcome, NX_VMM_DONE);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) assert_int_equal(fake->calls(calls[i]), flagged);
    driver.close(driver.self);
    nx_fake_assert_clean(&before);
  }
}

/* How the handles that an open driver makes are flagged: the log's second number of cuMemCreate. */
static uint64_t flag_of_a_handle(const char *schedule) {
  nx_vmm_driver driver;
  int unsupported;
  char why[200];
  uint64_t handle;
  fakecuda_entry entry = {0};
  nx_fake_schedule(schedule);
  nx_vmm_answer answer = open_one(offer_of(0, 1), &driver, &unsupported, why);
  if (answer.outcome != NX_VMM_DONE) fail_msg("%s", why);
  driver.bind(driver.self);
  fake->clear_log();
  assert_int_equal(driver.create(driver.self, 2u << 20, &handle).outcome, NX_VMM_DONE);
  assert_true(fake->log(0, &entry));
  assert_int_equal(driver.destroy(driver.self, handle).outcome, NX_VMM_DONE);
  driver.unbind(driver.self);
  driver.close(driver.self);
  return entry.b;
}

static void the_optional_flag_is_kept_where_it_works(void **state) {
  (void)state;
  fakecuda_counts before = nx_fake_counts();
  assert_int_equal(flag_of_a_handle("no-delay"), 0);
  assert_int_equal(flag_of_a_handle("rdma"), 1);
  assert_int_equal(flag_of_a_handle("rdma-refused"), 0); /* the create fails */
  nx_fake_schedule("reset");
  assert_int_equal(flag_of_a_handle("rdma;fail=cuMemSetAccess:1:801"), 0); /* the mapping of such a handle fails */
  assert_int_equal(flag_of_a_handle("rdma;fail=cuMemUnmap:1:999"), 1);     /* refused once: tried again */
  nx_fake_assert_clean(&before);
}

/* What a driver will not take back at all is taken back by the next open that it lets. */
static void what_a_trial_had_to_leave_goes_later(void **state) {
  (void)state;
  static const char *const stubborn[] = {"rdma;fail=cuMemUnmap:1+:800", "rdma;fail=cuMemRelease:1+:800",
                                         "rdma;fail=cuMemAddressFree:1+:800"};
  nx_vmm_driver driver;
  int unsupported;
  char why[200];
  fakecuda_counts before = nx_fake_counts();
  for (size_t i = 0; i < sizeof stubborn / sizeof stubborn[0]; i++) {
    nx_fake_schedule(stubborn[i]);
    for (int k = 0; k < 3; k++) {
      assert_int_equal(open_one(offer_of(0, 0), &driver, &unsupported, why).outcome, NX_VMM_REFUSED);
      assert_int_equal(nx_fake_counts().reservations, before.reservations + 1);
    }
    nx_fake_schedule("reset;rdma");
    assert_int_equal(open_one(offer_of(0, 0), &driver, &unsupported, why).outcome, NX_VMM_DONE);
    driver.close(driver.self);
    nx_fake_assert_clean(&before);
  }
}

static void no_trial_during_a_capture(void **state) {
  (void)state;
  nx_vmm_driver driver;
  int unsupported;
  char why[200];
  fakecuda_counts before = nx_fake_counts();
  const nx_vmm_offer *offer = offer_of(0, 0);
  assert_int_equal(nx_vmm_gate_enter(NXMEM_TIER_DEVICE, 0), 0);
  nx_fake_schedule("rdma;capture");
  assert_int_equal(open_one(offer, &driver, &unsupported, why).outcome, NX_VMM_CAPTURING);
  nx_fake_schedule("no-capture");
  assert_int_equal(nx_vmm_gate_leave(NXMEM_TIER_DEVICE, 0), 0);
  nx_fake_assert_clean(&before);
}

/* Each call of opening refused, one at a time: refused or done, and nothing stays. */
static void every_call_of_opening_fails_in_turn(void **state) {
  (void)state;
  for (uint32_t i = 0; fake->name(i) != NULL; i++) {
    for (int nth = 1; nth <= 4; nth++) {
      nx_vmm_driver driver;
      int unsupported;
      char why[200], schedule[64];
      fakecuda_counts before = nx_fake_counts();
      const nx_vmm_offer *offer = offer_of(0, 1);
      snprintf(schedule, sizeof schedule, "reset;rdma;fail=%s:%d:801", fake->name(i), nth);
      nx_fake_schedule(schedule);
      if (open_one(offer, &driver, &unsupported, why).outcome == NX_VMM_DONE)
        driver.close(driver.self);
      else
        assert_int_not_equal(why[0], 0);
      nx_fake_schedule("reset");
      nx_fake_assert_clean(&before);
    }
  }
}

static void a_thousand_opens_cost_nothing(void **state) {
  (void)state;
  nx_vmm_driver driver;
  int unsupported;
  char why[200];
  fakecuda_counts before = nx_fake_counts();
  for (int i = 0; i < 1000; i++) {
    assert_int_equal(open_one(offer_of(0, i % 2), &driver, &unsupported, why).outcome, NX_VMM_DONE);
    driver.close(driver.self);
  }
  nx_fake_assert_clean(&before);
}

#define TEST(function) cmocka_unit_test_setup(function, set_up)

int main(void) {
  const struct CMUnitTest tests[] = {TEST(two_for_each_device),
                                     TEST(the_flag_is_tried_through_a_whole_life),
                                     TEST(the_optional_flag_is_kept_where_it_works),
                                     TEST(what_a_trial_had_to_leave_goes_later),
                                     TEST(no_trial_during_a_capture),
                                     TEST(every_call_of_opening_fails_in_turn),
                                     TEST(a_thousand_opens_cost_nothing)};
  struct CMUnitTest rows[sizeof missing_rows / sizeof missing_rows[0]];
  for (size_t i = 0; i < sizeof missing_rows / sizeof missing_rows[0]; i++) {
    rows[i] =
        (struct CMUnitTest){missing_rows[i].name, missing_is_named, NULL, NULL, (void *)(uintptr_t)&missing_rows[i]};
  }
  int failed = cmocka_run_group_tests_name("cuda_open", tests, NULL, NULL);
  return failed + cmocka_run_group_tests_name("cuda_missing", rows, NULL, NULL);
}
