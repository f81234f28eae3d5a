/*
 * driver_test.c: the operations of driver.h on the simulated driver: what each result becomes, and which call each operation is.
 *
 * Attackers played: a driver that fails at every call with every result; another context current.
 * Promise: one operation is one call; the caller's context is current again afterwards.
 */
#include "driver.h"

#include "cuda_driver.h"
#include "fake.h"
#include "nxmem_memory_abi.h"

#define G (2ull << 20)

static const nx_fake *fake;
static nx_vmm_driver driver;

static const nx_vmm_offer *offer_at(uint32_t index) {
  const nx_vmm_offer *offers;
  assert_true(nx_vmm_offers(&offers) > index);
  return &offers[index];
}

static void open_driver(uint32_t index) {
  int unsupported = -1;
  char why[200] = "";
  const nx_vmm_offer *offer = offer_at(index);
  nx_vmm_answer answer = offer->open(offer, &driver, &unsupported, why);
  if (answer.outcome != NX_VMM_DONE) fail_msg("%s", why);
}

static int set_up(void **state) {
  (void)state;
  fake = nx_fake_driver();
  nx_fake_schedule("reset;devices=2");
  open_driver(1);
  assert_int_equal(driver.bind(driver.self).outcome, NX_VMM_DONE);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  nx_fake_schedule("reset;devices=2");
  assert_int_equal(driver.unbind(driver.self).outcome, NX_VMM_DONE);
  driver.close(driver.self);
  return 0;
}

/* ---- What a result becomes --------------------------------------------------------------------------------------- */

typedef struct result_row {
  const char *name;
  uint32_t code;
  uint32_t outcome;
} result_row;

static const result_row results[] = {
    {"invalid value", 1, NX_VMM_REFUSED},
    {"out of memory", 2, NX_VMM_NO_MEMORY},
    {"not initialised", 3, NX_VMM_REFUSED},
    {"deinitialized", 4, NX_VMM_SHUT_DOWN},
    {"invalid context", 201, NX_VMM_REFUSED},
    {"ECC uncorrectable", 214, NX_VMM_LOST},
    {"NVLink uncorrectable", 220, NX_VMM_LOST},
    {"contained", 226, NX_VMM_LOST},
    {"invalid handle", 400, NX_VMM_REFUSED},
    {"not ready, where that is no answer", 600, NX_VMM_REFUSED},
    {"illegal address", 700, NX_VMM_LOST},
    {"launch out of resources", 701, NX_VMM_REFUSED},
    {"launch timeout", 702, NX_VMM_LOST},
    {"primary context active", 708, NX_VMM_REFUSED},
    {"context is destroyed", 709, NX_VMM_LOST},
    {"assert", 710, NX_VMM_LOST},
    {"hardware stack error", 714, NX_VMM_LOST},
    {"illegal instruction", 715, NX_VMM_LOST},
    {"misaligned address", 716, NX_VMM_LOST},
    {"invalid address space", 717, NX_VMM_LOST},
    {"invalid pc", 718, NX_VMM_LOST},
    {"launch failed", 719, NX_VMM_LOST},
    {"tensor memory leak", 721, NX_VMM_LOST},
    {"not permitted", 800, NX_VMM_REFUSED},
    {"not supported", 801, NX_VMM_REFUSED},
    {"MPS client terminated", 810, NX_VMM_LOST},
    {"capture unsupported", 900, NX_VMM_CAPTURING},
    {"capture invalidated", 901, NX_VMM_CAPTURING},
    {"capture implicit", 906, NX_VMM_CAPTURING},
    {"captured event", 907, NX_VMM_CAPTURING},
    {"capture from another thread", 908, NX_VMM_CAPTURING},
    {"timeout", 909, NX_VMM_REFUSED},
    {"external device", 911, NX_VMM_LOST},
    {"unknown", 999, NX_VMM_REFUSED},
    {"of a later driver", 123456, NX_VMM_REFUSED},
};

static void result_becomes(void **state) {
  const result_row *row = *state;
  nx_cuda cuda = {.calls = fake->cu};
  nx_vmm_answer answer = nx_cuda_answer(&cuda, "cuMemMap", row->code);
  assert_int_equal(answer.outcome, row->outcome);
  assert_int_equal(answer.code, row->code);
  assert_string_equal(answer.call, "cuMemMap");
}

/* ---- Which call each operation is -------------------------------------------------------------------------------- */

static uint64_t place, handle, mark;

static nx_vmm_answer do_reserve(void) { return driver.reserve(driver.self, 4 * G, G, &place); }
static nx_vmm_answer do_create(void) { return driver.create(driver.self, G, &handle); }
static nx_vmm_answer do_map(void) { return driver.map(driver.self, place, G, handle); }
static nx_vmm_answer do_access(void) { return driver.set_access(driver.self, place, G, NX_VMM_READ_WRITE); }
static nx_vmm_answer do_unmap(void) { return driver.unmap(driver.self, place, G); }
static nx_vmm_answer do_destroy(void) { return driver.destroy(driver.self, handle); }
static nx_vmm_answer do_unreserve(void) { return driver.unreserve(driver.self, place, 4 * G); }
static nx_vmm_answer do_mark(void) { return driver.mark(driver.self, &mark); }
static nx_vmm_answer do_state(void) { return driver.mark_state(driver.self, mark); }
static nx_vmm_answer do_drop(void) { return driver.drop_mark(driver.self, mark); }

/* In an order in which each can be done. */
static const struct {
  const char *call;
  nx_vmm_answer (*run)(void);
} operations[] = {{"cuMemAddressReserve", do_reserve}, {"cuMemCreate", do_create}, {"cuMemMap", do_map},
                  {"cuMemSetAccess", do_access},       {"cuEventRecord", do_mark}, {"cuEventQuery", do_state},
                  {"cuEventDestroy", do_drop},         {"cuMemUnmap", do_unmap},   {"cuMemRelease", do_destroy},
                  {"cuMemAddressFree", do_unreserve}};

enum { OPERATIONS = sizeof operations / sizeof operations[0] };

static void each_operation_is_one_call(void **state) {
  (void)state;
  for (size_t i = 0; i < OPERATIONS; i++) {
    fake->clear_log();
    assert_int_equal(operations[i].run().outcome, NX_VMM_DONE);
    assert_int_equal(fake->calls(operations[i].call), 1);
    assert_int_equal(fake->calls(NULL), strcmp(operations[i].call, "cuEventRecord") == 0 ? 2 : 1);
  }
}

/* Refused once, each is done when asked again, and nothing is left. */
static void each_operation_can_be_repeated(void **state) {
  (void)state;
  fakecuda_counts before = nx_fake_counts();
  for (size_t i = 0; i < OPERATIONS; i++) {
    char schedule[64];
    snprintf(schedule, sizeof schedule, "fail=%s:1:800", operations[i].call);
    nx_fake_schedule(schedule);
    nx_vmm_answer answer = operations[i].run();
    assert_int_equal(answer.outcome, NX_VMM_REFUSED);
    assert_string_equal(answer.call, operations[i].call);
    assert_string_equal(answer.name, "CUDA_ERROR_NOT_PERMITTED");
    assert_int_equal(operations[i].run().outcome, NX_VMM_DONE);
  }
  nx_fake_assert_clean(&before);
}

static void describes_the_device(void **state) {
  (void)state;
  nx_vmm_device device;
  driver.unbind(driver.self);
  driver.close(driver.self);
  nx_fake_schedule("granularity=0x200000/0x2000000;memory=0x280000000");
  open_driver(1);
  assert_int_equal(driver.bind(driver.self).outcome, NX_VMM_DONE);
  assert_int_equal(driver.describe(driver.self, &device).outcome, NX_VMM_DONE);
  assert_int_equal(device.granularity_minimum, 2u << 20);
  assert_int_equal(device.granularity_recommended, 32u << 20);
  assert_int_equal(device.memory_bytes, 10ull << 30);
}

/* ---- The caller's context ---------------------------------------------------------------------------------------- */

static nx_cuda_context current(void) {
  nx_cuda_result (*get)(nx_cuda_context *);
  nx_cuda_context context = NULL;
  nx_fake_entry("cuCtxGetCurrent", &get, sizeof get);
  assert_int_equal(get(&context), NX_CUDA_SUCCESS);
  return context;
}

static void another_context_comes_back(void **state) {
  (void)state;
  assert_int_equal(driver.unbind(driver.self).outcome, NX_VMM_DONE);
  nx_fake_enter(1);
  nx_cuda_context theirs = current();
  assert_int_equal(driver.bind(driver.self).outcome, NX_VMM_DONE);
  assert_ptr_not_equal(current(), theirs);
  assert_int_equal(do_create().outcome, NX_VMM_DONE);
  assert_int_equal(do_destroy().outcome, NX_VMM_DONE);
  assert_int_equal(driver.unbind(driver.self).outcome, NX_VMM_DONE);
  assert_ptr_equal(current(), theirs);
  nx_fake_leave(1);
  assert_int_equal(driver.bind(driver.self).outcome, NX_VMM_DONE);
}

static void pop_that_fails_is_repeated(void **state) {
  (void)state;
  uint64_t depth = nx_fake_counts().context_depth;
  nx_fake_schedule("fail=cuCtxPopCurrent:1:800");
  assert_int_equal(driver.unbind(driver.self).outcome, NX_VMM_DONE);
  assert_int_equal(nx_fake_counts().context_depth, depth - 1);
  assert_int_equal(driver.bind(driver.self).outcome, NX_VMM_DONE);
  nx_fake_schedule("fail=cuCtxPopCurrent:1:719");
  assert_int_equal(driver.unbind(driver.self).outcome, NX_VMM_LOST);
  assert_int_equal(nx_fake_counts().context_depth, depth - 1);
  assert_int_equal(driver.bind(driver.self).outcome, NX_VMM_DONE);
}

static void push_that_fails_binds_nothing(void **state) {
  (void)state;
  nx_fake_schedule("fail=cuCtxPushCurrent:1:201");
  uint64_t depth = nx_fake_counts().context_depth;
  assert_int_equal(driver.bind(driver.self).outcome, NX_VMM_UNBOUND);
  assert_int_equal(nx_fake_counts().context_depth, depth);
  nx_fake_schedule("fail=cuCtxPushCurrent:1:719");
  assert_int_equal(driver.bind(driver.self).outcome, NX_VMM_LOST);
}

static void foreign_context_on_top_is_said(void **state) {
  (void)state;
  nx_cuda_context popped;
  nx_fake_enter(1);
  assert_int_equal(driver.unbind(driver.self).outcome, NX_VMM_REFUSED);
  fake->cu.cuCtxPopCurrent(&popped);
  fake->cu.cuCtxPushCurrent(popped);
  fake->cu.cuDevicePrimaryCtxRelease(1);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {TEST(each_operation_is_one_call),    TEST(each_operation_can_be_repeated),
                                     TEST(describes_the_device),          TEST(another_context_comes_back),
                                     TEST(push_that_fails_binds_nothing), TEST(pop_that_fails_is_repeated),
                                     TEST(foreign_context_on_top_is_said)};
  struct CMUnitTest rows[sizeof results / sizeof results[0]];
  for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
    rows[i] = (struct CMUnitTest){results[i].name, result_becomes, NULL, NULL, (void *)(uintptr_t)&results[i]};
  }
  int failed = cmocka_run_group_tests_name("cuda_driver", tests, NULL, NULL);
  return failed + cmocka_run_group_tests_name("cuda_results", rows, NULL, NULL);
}
