/*
 * schedule_test.c: the schedule of the simulated driver: each item does what it says, once or for good, and nothing else.
 *
 * Attackers played: none; a schedule that silently does nothing would make every fault test pass.
 * Promise: a fault that never fired, and an object that was not given back, end a process that asked for it with 97.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake.h"

#define G (2ull << 20)

static const nx_cuda_calls *cu;
static nx_cuda_prop prop;

static void must(nx_cuda_result result) { assert_int_equal(result, NX_CUDA_SUCCESS); }

static int set_up(void **state) {
  (void)state;
  cu = &nx_fake_driver()->cu;
  nx_fake_schedule("reset");
  prop = nx_fake_prop(0);
  nx_fake_enter(0);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  nx_fake_schedule("reset");
  nx_fake_leave(0);
  return 0;
}

static nx_cuda_result one_granule(void) {
  nx_cuda_handle handle;
  nx_cuda_result result = cu->cuMemCreate(&handle, G, &prop, 0);
  if (result == NX_CUDA_SUCCESS) must(cu->cuMemRelease(handle));
  return result;
}

static void nth_call_fails_once(void **state) {
  (void)state;
  nx_fake_schedule("fail=cuMemCreate:2:2");
  assert_int_equal(nx_fake_counts().faults_pending, 1);
  must(one_granule());
  assert_int_equal(one_granule(), NX_CUDA_OUT_OF_MEMORY);
  assert_int_equal(nx_fake_counts().faults_pending, 0);
  must(one_granule());
}

static void nth_and_later_fail(void **state) {
  (void)state;
  nx_fake_schedule("fail=cuMemCreate:2+:800");
  must(one_granule());
  for (int i = 0; i < 3; i++) assert_int_equal(one_granule(), NX_CUDA_NOT_PERMITTED);
  nx_fake_schedule("reset");
  must(one_granule());
}

static void failed_call_changes_nothing(void **state) {
  (void)state;
  nx_cuda_ptr at;
  must(cu->cuMemAddressReserve(&at, G, 0, 0, 0));
  fakecuda_counts before = nx_fake_counts();
  nx_fake_schedule("fail=cuMemAddressFree:1:1");
  assert_int_equal(cu->cuMemAddressFree(at, G), NX_CUDA_INVALID_VALUE);
  nx_fake_assert_clean(&before);
  must(cu->cuMemAddressFree(at, G));
}

static void granularities_are_told(void **state) {
  (void)state;
  size_t least, best;
  nx_fake_schedule("granularity=0x200000/0x2000000");
  must(cu->cuMemGetAllocationGranularity(&least, &prop, NX_CUDA_GRANULARITY_MINIMUM));
  must(cu->cuMemGetAllocationGranularity(&best, &prop, NX_CUDA_GRANULARITY_RECOMMENDED));
  assert_int_equal(least, 2u << 20);
  assert_int_equal(best, 32u << 20);
}

static void large_reservations_are_refused(void **state) {
  (void)state;
  nx_cuda_ptr at;
  nx_fake_schedule("reserve-max=0x40000000");
  assert_int_equal(cu->cuMemAddressReserve(&at, (1ull << 30) + G, 0, 0, 0), NX_CUDA_OUT_OF_MEMORY);
  must(cu->cuMemAddressReserve(&at, 1ull << 30, 0, 0, 0));
  must(cu->cuMemAddressFree(at, 1ull << 30));
}

static void devices_are_counted(void **state) {
  (void)state;
  int count = -1;
  nx_fake_schedule("devices=3");
  must(cu->cuDeviceGetCount(&count));
  assert_int_equal(count, 3);
  nx_fake_schedule("devices=0");
  assert_int_equal(cu->cuInit(0), NX_CUDA_NO_DEVICE);
}

static void attributes_are_told(void **state) {
  (void)state;
  int vmm = -1, rdma = -1;
  must(cu->cuDeviceGetAttribute(&vmm, NX_CUDA_ATTRIBUTE_VMM, 0));
  must(cu->cuDeviceGetAttribute(&rdma, NX_CUDA_ATTRIBUTE_RDMA_WITH_VMM, 0));
  assert_true(vmm == 1 && rdma == 0);
  nx_fake_schedule("no-vmm;rdma-refused");
  must(cu->cuDeviceGetAttribute(&vmm, NX_CUDA_ATTRIBUTE_VMM, 0));
  must(cu->cuDeviceGetAttribute(&rdma, NX_CUDA_ATTRIBUTE_RDMA_WITH_VMM, 0));
  assert_true(vmm == 0 && rdma == 1);
  nx_cuda_prop flagged = prop;
  flagged.flags.gpu_direct_rdma_capable = 1;
  assert_int_equal(cu->cuMemCreate(&(nx_cuda_handle){0}, G, &flagged, 0), NX_CUDA_NOT_SUPPORTED);
  must(one_granule());
}

static void read_only_is_refused(void **state) {
  (void)state;
  nx_cuda_ptr at;
  nx_cuda_handle handle;
  nx_cuda_access access = {prop.location, NX_CUDA_ACCESS_READ};
  nx_fake_schedule("no-read-only");
  must(cu->cuMemAddressReserve(&at, G, 0, 0, 0));
  must(cu->cuMemCreate(&handle, G, &prop, 0));
  must(cu->cuMemMap(at, G, 0, handle, 0));
  assert_int_equal(cu->cuMemSetAccess(at, G, &access, 1), NX_CUDA_NOT_SUPPORTED);
  access.flags = NX_CUDA_ACCESS_READ_WRITE;
  must(cu->cuMemSetAccess(at, G, &access, 1));
  must(cu->cuMemUnmap(at, G));
  must(cu->cuMemRelease(handle));
  must(cu->cuMemAddressFree(at, G));
}

static void events_wait_until_told(void **state) {
  (void)state;
  nx_cuda_event a, b;
  nx_fake_schedule("delay-events");
  must(cu->cuEventCreate(&a, 0));
  must(cu->cuEventCreate(&b, 0));
  must(cu->cuEventQuery(a)); /* never recorded: nothing to wait for */
  must(cu->cuEventRecord(b, NULL));
  must(cu->cuEventRecord(a, NULL));
  assert_int_equal(cu->cuEventQuery(a), NX_CUDA_NOT_READY);
  assert_int_equal(nx_fake_driver()->complete(1), 1);
  must(cu->cuEventQuery(b)); /* recorded first */
  assert_int_equal(cu->cuEventQuery(a), NX_CUDA_NOT_READY);
  assert_int_equal(nx_fake_driver()->complete(9), 1);
  must(cu->cuEventQuery(a));
  must(cu->cuEventDestroy(a));
  must(cu->cuEventDestroy(b));
}

static void capture_refuses_what_synchronises(void **state) {
  (void)state;
  nx_cuda_event event;
  must(cu->cuEventCreate(&event, 0));
  uint64_t before = nx_fake_counts().capture_breaks;
  nx_fake_schedule("capture");
  assert_int_equal(one_granule(), NX_CUDA_STREAM_CAPTURE_UNSUPPORTED);
  assert_int_equal(cu->cuEventQuery(event), NX_CUDA_STREAM_CAPTURE_UNSUPPORTED);
  assert_int_equal(cu->cuEventRecord(event, NULL), NX_CUDA_STREAM_CAPTURE_IMPLICIT);
  assert_int_equal(nx_fake_counts().capture_breaks, before + 3);
  nx_fake_schedule("no-capture");
  must(one_granule());
  must(cu->cuEventDestroy(event));
}

static void streams_capture(void **state) {
  (void)state;
  nx_cuda_result (*create)(nx_cuda_stream *, unsigned);
  nx_cuda_result (*destroy)(nx_cuda_stream);
  nx_cuda_result (*begin)(nx_cuda_stream, unsigned);
  nx_cuda_result (*end)(nx_cuda_stream, void **);
  nx_cuda_stream stream;
  void *graph = NULL;
  nx_fake_entry("cuStreamCreate", &create, sizeof create);
  nx_fake_entry("cuStreamDestroy", &destroy, sizeof destroy);
  nx_fake_entry("cuStreamBeginCapture", &begin, sizeof begin);
  nx_fake_entry("cuStreamEndCapture", &end, sizeof end);
  must(create(&stream, 1));
  must(begin(stream, 0));
  assert_int_equal(one_granule(), NX_CUDA_STREAM_CAPTURE_UNSUPPORTED);
  must(end(stream, &graph));
  assert_non_null(graph);
  must(one_granule());
  must(destroy(stream));
}

static void missing_entry_points(void **state) {
  (void)state;
  nx_cuda_calls calls;
  char why[NX_CUDA_WHY] = "";
  nx_fake_schedule("missing=cuMemUnmap");
  assert_false(nx_cuda_load(&calls, why));
  assert_non_null(strstr(why, "cuMemUnmap"));
  nx_fake_schedule("reset;version=11020");
  assert_false(nx_cuda_load(&calls, why));
  assert_non_null(strstr(why, "cuInit"));
}

static void log_says_who_called_what(void **state) {
  (void)state;
  const nx_fake *fake = nx_fake_driver();
  fakecuda_entry entry;
  fake->clear_log();
  assert_int_equal(fake->calls(NULL), 0);
  nx_fake_schedule("fail=cuMemUnmap:1:999");
  assert_int_equal(cu->cuMemUnmap(123, 456), 999);
  must(one_granule());
  assert_int_equal(fake->calls("cuMemCreate"), 1);
  assert_int_equal(fake->calls(NULL), 3);
  assert_true(fake->log(0, &entry));
  assert_string_equal(entry.call, "cuMemUnmap");
  assert_true(entry.a == 123 && entry.b == 456 && entry.code == 999 && entry.thread != 0);
  assert_false(fake->log(3, &entry));
}

static void bad_items_are_named(void **state) {
  (void)state;
  static const char *const bad[] = {"nonsense",          "fail=cuNothing:1:1", "fail=cuMemMap:0:1",
                                    "fail=cuMemMap:1:0", "fail=cuMemMap:1",    "fail=cuMemMap:1:2:x",
                                    "devices=33",        "devices=",           "granularity=1/2/3",
                                    "missing=cuNothing", "fail=cuMemMap:x:1"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    char text[100];
    snprintf(text, sizeof text, "no-delay;%s;no-vmm", bad[i]);
    assert_int_equal(nx_fake_driver()->schedule(text), 2);
  }
}

/* ---- What ends a device or the driver: in processes of their own, for it is for good ------------------------------ */

/* The parent's driver is none in a child: a new process image finds a new one. */
static char *self;
static int again(const char *scene, const char *schedule) {
  pid_t child = fork();
  if (child == 0) {
    if (schedule != NULL) setenv("FAKECUDA_SCHEDULE", schedule, 1);
    dup2(open("/dev/null", O_WRONLY), 2);
    execl(self, self, scene, (char *)NULL);
    _exit(126);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* A scene's own check: its line is the exit code. */
#define NEED(condition) \
  if (!(condition)) _exit(1 + __LINE__ % 90)

static void enter_scene(void) {
  nx_cuda_context context;
  NEED(cu->cuInit(0) == 0 && cu->cuDevicePrimaryCtxRetain(&context, 0) == 0 && cu->cuCtxPushCurrent(context) == 0);
}

static void leave_scene(void) { NEED(cu->cuCtxPopCurrent(NULL) == 0 && cu->cuDevicePrimaryCtxRelease(0) == 0); }

static void scene_sticky(void) {
  enter_scene();
  nx_cuda_ptr at;
  NEED(cu->cuMemAddressReserve(&at, G, 0, 0, 0) == 0);
  NEED(cu->cuMemCreate(&(nx_cuda_handle){0}, G, &prop, 0) == NX_CUDA_ILLEGAL_ADDRESS);
  NEED(cu->cuMemCreate(&(nx_cuda_handle){0}, G, &prop, 0) == NX_CUDA_ILLEGAL_ADDRESS);
  NEED(cu->cuMemAddressFree(at, G) == NX_CUDA_ILLEGAL_ADDRESS);
  NEED(nx_fake_counts().lost_devices == 1 && nx_fake_counts().calls_after_loss == 1);
  leave_scene(); /* the stack of contexts is the thread's, not the device's */
  NEED(cu->cuDevicePrimaryCtxRetain(&(nx_cuda_context){0}, 0) == NX_CUDA_ILLEGAL_ADDRESS);
}

static void scene_ended(void) {
  enter_scene();
  NEED(cu->cuMemCreate(&(nx_cuda_handle){0}, G, &prop, 0) == NX_CUDA_DEINITIALIZED);
  NEED(nx_fake_counts().calls_after_end == 0);
  NEED(cu->cuCtxPopCurrent(NULL) == NX_CUDA_DEINITIALIZED);
  NEED(nx_fake_counts().calls_after_end == 1 && nx_fake_counts().ended == 1);
}

static void scene_store(void) {
  enter_scene();
  nx_cuda_ptr at;
  nx_cuda_handle handle;
  nx_cuda_access access = {prop.location, NX_CUDA_ACCESS_READ_WRITE};
  NEED(cu->cuMemAddressReserve(&at, G, 0, 0, 0) == 0 && cu->cuMemCreate(&handle, G, &prop, 0) == 0);
  NEED(cu->cuMemMap(at, G, 0, handle, 0) == 0 && cu->cuMemSetAccess(at, G, &access, 1) == 0);
  NEED(nx_fake_driver()->store(0, at + 5, 0x5A) == 0 && *(uint8_t *)(uintptr_t)(at + 5) == 0x5A);
  access.flags = NX_CUDA_ACCESS_READ;
  NEED(cu->cuMemSetAccess(at, G, &access, 1) == 0);
  NEED(nx_fake_driver()->store(0, at + 5, 1) == NX_CUDA_ILLEGAL_ADDRESS);
  NEED(*(uint8_t *)(uintptr_t)(at + 5) == 0x5A);
  NEED(cu->cuMemUnmap(at, G) == NX_CUDA_ILLEGAL_ADDRESS);
}

static void scene_before_init(void) {
  NEED(cu->cuDeviceGetCount(&(int){0}) == NX_CUDA_NOT_INITIALIZED);
  NEED(cu->cuMemUnmap(G, G) == NX_CUDA_NOT_INITIALIZED);
  NEED(nx_fake_counts().rule_refusals == 2);
}

static void scene_leak(void) {
  enter_scene();
  NEED(cu->cuMemCreate(&(nx_cuda_handle){0}, G, &prop, 0) == 0);
  leave_scene();
}

static void scene_clean(void) {
  enter_scene();
  leave_scene();
}

typedef struct scene {
  const char *name;
  void (*run)(void);
  const char *schedule;
  int ends_with;
} scene;

static const scene scenes[] = {
    {"a sticky error stays", scene_sticky, "fail=cuMemCreate:1:700:sticky;leaks=exit", 0},
    {"a driver that has ended stays so", scene_ended, "fail=cuMemCreate:1:4;leaks=exit", 0},
    {"a store through a read-only mapping loses the device", scene_store, "leaks=exit", 0},
    {"calls before init", scene_before_init, "leaks=exit", 0},
    {"what is left is reported", scene_leak, "leaks=exit", 97},
    {"what is left is reported, and nothing more", scene_leak, "", 0},
    {"a fault that never fired is reported", scene_clean, "fail=cuMemMap:1:1;leaks=exit", 97},
    {"a fault that fired is not", scene_leak, "fail=cuMemCreate:1:1;leaks=exit", 1 + 0},
    {"a process that leaves nothing ends well", scene_clean, "leaks=exit", 0},
    {"a schedule that is none ends the process", scene_clean, "fail=nothing", 98},
};

static void scene_ends(void **state) {
  const scene *row = *state;
  int got = again(row->name, row->schedule);
  if (row->ends_with == 1)
    assert_true(got > 0 && got < 97); /* its own check failed */
  else
    assert_int_equal(got, row->ends_with);
}

static int run_scene(const char *name) {
  cu = &nx_fake_driver()->cu;
  prop = nx_fake_prop(0);
  for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++) {
    if (strcmp(scenes[i].name, name) != 0) continue;
    scenes[i].run();
    return 0;
  }
  return 127;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(int count, char **arguments) {
  self = arguments[0];
  if (count > 1) return run_scene(arguments[1]);
  const struct CMUnitTest tests[] = {TEST(nth_call_fails_once),
                                     TEST(nth_and_later_fail),
                                     TEST(failed_call_changes_nothing),
                                     TEST(granularities_are_told),
                                     TEST(large_reservations_are_refused),
                                     TEST(devices_are_counted),
                                     TEST(attributes_are_told),
                                     TEST(read_only_is_refused),
                                     TEST(events_wait_until_told),
                                     TEST(capture_refuses_what_synchronises),
                                     TEST(streams_capture),
                                     TEST(missing_entry_points),
                                     TEST(log_says_who_called_what),
                                     TEST(bad_items_are_named)};
  struct CMUnitTest apart[sizeof scenes / sizeof scenes[0]];
  for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++) {
    apart[i] = (struct CMUnitTest){scenes[i].name, scene_ends, NULL, NULL, (void *)(uintptr_t)&scenes[i]};
  }
  int failed = cmocka_run_group_tests_name("cuda_schedule", tests, NULL, NULL);
  return failed + cmocka_run_group_tests_name("cuda_schedule_ends", apart, NULL, NULL);
}
