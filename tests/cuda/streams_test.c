/*
 * streams_test.c: registered streams, and marks behind the work of all of them.
 *
 * Attackers played: programs that register twice, too many, nothing; a driver that fails at the k-th stream of a mark.
 * Promise: a mark is complete when all of its streams are; a failed mark leaves no event behind that is not used again.
 */
#include "cuda_driver.h"
#include "driver.h"
#include "fake.h"
#include "nxmem_cudavmm.h"
#include "nxmem_memory_abi.h"

static const nx_fake *fake;
static nx_vmm_driver driver;
static nx_cuda_stream streams[3];

static int set_up(void **state) {
  (void)state;
  const nx_vmm_offer *offers;
  int unsupported;
  char why[200];
  nx_cuda_result (*create)(nx_cuda_stream *, unsigned);
  fake = nx_fake_driver();
  nx_fake_schedule("reset;devices=2");
  nx_fake_entry("cuStreamCreate", &create, sizeof create);
  nx_vmm_offers(&offers);
  assert_int_equal(offers[0].open(&offers[0], &driver, &unsupported, why).outcome, NX_VMM_DONE);
  assert_int_equal(driver.bind(driver.self).outcome, NX_VMM_DONE);
  for (int i = 0; i < 3; i++) assert_int_equal(create(&streams[i], 1), NX_CUDA_SUCCESS);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  nx_fake_schedule("reset;devices=2");
  for (int i = 0; i < 3; i++) NxmemCudaRemoveStream(0, streams[i]);
  assert_int_equal(driver.unbind(driver.self).outcome, NX_VMM_DONE);
  driver.close(driver.self);
  assert_int_equal(nx_fake_counts().retained, 0);
  assert_int_equal(nx_fake_counts().events, 0);
  return 0;
}

static void add_all(void) {
  for (int i = 0; i < 3; i++) assert_int_equal(NxmemCudaAddStream(0, streams[i]), NXMEM_STATUS_OK);
}

static uint64_t marked(void) {
  uint64_t mark = 0;
  assert_int_equal(driver.mark(driver.self, &mark).outcome, NX_VMM_DONE);
  return mark;
}

static void without_streams_the_default_one(void **state) {
  (void)state;
  fakecuda_entry entry = {0};
  fake->clear_log();
  uint64_t mark = marked();
  assert_int_equal(fake->calls("cuEventRecord"), 1);
  for (uint64_t i = 0; fake->log(i, &entry) && strcmp(entry.call, "cuEventRecord") != 0; i++) continue;
  assert_int_equal(entry.b, 0);
  driver.drop_mark(driver.self, mark);
}

static void each_stream_is_waited_for(void **state) {
  (void)state;
  add_all();
  nx_fake_schedule("delay-events");
  fake->clear_log();
  uint64_t mark = marked();
  assert_int_equal(fake->calls("cuEventRecord"), 3);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(driver.mark_state(driver.self, mark).outcome, NX_VMM_PENDING);
    assert_int_equal(fake->complete(1), 1);
  }
  assert_int_equal(driver.mark_state(driver.self, mark).outcome, NX_VMM_DONE);
  assert_int_equal(driver.drop_mark(driver.self, mark).outcome, NX_VMM_DONE);
  assert_int_equal(nx_fake_counts().events, 0);
}

static void a_removed_stream_is_not_used(void **state) {
  (void)state;
  fakecuda_entry entry;
  add_all();
  assert_int_equal(NxmemCudaRemoveStream(0, streams[0]), NXMEM_STATUS_OK);
  fake->clear_log();
  uint64_t mark = marked();
  for (uint64_t i = 0; fake->log(i, &entry); i++) {
    if (strcmp(entry.call, "cuEventRecord") == 0) assert_int_not_equal(entry.b, (uint64_t)(uintptr_t)streams[0]);
  }
  assert_int_equal(fake->calls("cuEventRecord"), 2);
  driver.drop_mark(driver.self, mark);
}

static void misuse_is_refused(void **state) {
  (void)state;
  assert_int_equal(NxmemCudaRemoveStream(0, streams[0]), NXMEM_STATUS_INVALID_ARGUMENT);
  assert_int_equal(NxmemCudaAddStream(0, streams[0]), NXMEM_STATUS_OK);
  assert_int_equal(NxmemCudaAddStream(0, streams[0]), NXMEM_STATUS_INVALID_ARGUMENT);
  assert_int_equal(NxmemCudaAddStream(2, streams[0]), NXMEM_STATUS_WRONG_DEVICE);
  assert_int_equal(NxmemCudaAddStream(UINT32_MAX, streams[0]), NXMEM_STATUS_WRONG_DEVICE);
  assert_int_equal(NxmemCudaRemoveStream(1, streams[0]), NXMEM_STATUS_INVALID_ARGUMENT);
  assert_int_equal(NxmemCudaCaptureLeave(0), NXMEM_STATUS_INVALID_ARGUMENT);
  assert_int_equal(NxmemCudaCaptureEnter(2), NXMEM_STATUS_WRONG_DEVICE);
}

static void room_for_256(void **state) {
  (void)state;
  static char other[256];
  for (int i = 0; i < 256; i++) assert_int_equal(NxmemCudaAddStream(1, &other[i]), NXMEM_STATUS_OK);
  assert_int_equal(NxmemCudaAddStream(1, streams[0]), NXMEM_STATUS_OUT_OF_MEMORY);
  assert_int_equal(NxmemCudaAddStream(0, streams[0]), NXMEM_STATUS_OK);
  for (int i = 0; i < 256; i++) assert_int_equal(NxmemCudaRemoveStream(1, &other[i]), NXMEM_STATUS_OK);
}

/* The k-th create or record of a mark fails: no mark, and as many events as were there are used by the next. */
static void a_mark_fails_half_way(void **state) {
  (void)state;
  static const char *const calls[] = {"cuEventCreate", "cuEventRecord"};
  add_all();
  for (size_t call = 0; call < 2; call++) {
    for (int k = 1; k <= 3; k++) {
      char schedule[64];
      uint64_t mark = 42;
      snprintf(schedule, sizeof schedule, "fail=%s:%d:2", calls[call], k);
      tear_down(NULL);
      set_up(NULL);
      add_all();
      nx_fake_schedule(schedule);
      assert_int_equal(driver.mark(driver.self, &mark).outcome, NX_VMM_NO_MEMORY);
      assert_int_equal(mark, 42);
      assert_true(nx_fake_counts().events <= 3);
      mark = marked();
      assert_int_equal(nx_fake_counts().events, 3);
      assert_int_equal(driver.drop_mark(driver.self, mark).outcome, NX_VMM_DONE);
      assert_int_equal(nx_fake_counts().events, 0);
    }
  }
}

/* Half of a mark's events are gone when the driver refuses: the other half goes the next time. */
static void a_mark_is_dropped_in_two_goes(void **state) {
  (void)state;
  add_all();
  for (int k = 1; k <= 3; k++) {
    char schedule[64];
    uint64_t mark = marked();
    snprintf(schedule, sizeof schedule, "fail=cuEventDestroy:%d:800", k);
    nx_fake_schedule(schedule);
    assert_int_equal(driver.drop_mark(driver.self, mark).outcome, NX_VMM_REFUSED);
    assert_int_equal(nx_fake_counts().events, 4 - k);
    assert_int_equal(driver.drop_mark(driver.self, mark).outcome, NX_VMM_DONE);
    assert_int_equal(nx_fake_counts().events, 0);
  }
}

static void an_event_that_fails_is_told(void **state) {
  (void)state;
  uint64_t mark = marked();
  nx_fake_schedule("fail=cuEventQuery:1:719;fail=cuEventQuery:1:1");
  assert_int_equal(driver.mark_state(driver.self, mark).outcome, NX_VMM_LOST);
  assert_int_equal(driver.mark_state(driver.self, mark).outcome, NX_VMM_DONE);
  driver.drop_mark(driver.self, mark);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {TEST(without_streams_the_default_one),
                                     TEST(each_stream_is_waited_for),
                                     TEST(a_removed_stream_is_not_used),
                                     TEST(misuse_is_refused),
                                     TEST(room_for_256),
                                     TEST(a_mark_fails_half_way),
                                     TEST(a_mark_is_dropped_in_two_goes),
                                     TEST(an_event_that_fails_is_told)};
  return cmocka_run_group_tests_name("cuda_streams", tests, NULL, NULL);
}
