/*
 * unload_test.c: the gate asks both sides, names the axis, and what goes is really gone.
 *
 * Attackers played: reports that fail, are short, unwritten or false; callers that unload under a call, twice, or give
 * up early.
 * Promise: no module goes while either side holds anything; factories are released before it goes; a shut gate can be
 * tried again.
 */
#include <unistd.h>

#include "staging.h"

#define ALL_ONES 0xFFFFFFFFFFFFFFFFull
#define U32_MAX 0xFFFFFFFFu

/* ---- The plugin's half ------------------------------------------------------------------------------------------- */

typedef struct report_row {
  const char *name;
  nx_modes modes;
  uint32_t code;
  NxmemUnloadReport report;
  uint32_t reason;
  uint32_t axis;
  uint64_t found;
} report_row;

static const report_row report_rows[] = {
    {"one allocator", 0, 0, {48, 0, 1, 0, 0, 0, 0}, NXMEM_REASON_PLUGIN_HOLDS, 8, 1},
    {"two allocations", 0, 0, {48, 0, 0, 2, 0, 0, 0}, NXMEM_REASON_PLUGIN_HOLDS, 16, 2},
    {"three views", 0, 0, {48, 0, 0, 0, 3, 0, 0}, NXMEM_REASON_PLUGIN_HOLDS, 24, 3},
    {"four capabilities", 0, 0, {48, 0, 0, 0, 0, 4, 0}, NXMEM_REASON_PLUGIN_HOLDS, 32, 4},
    {"five queued releases", 0, 0, {48, 0, 0, 0, 0, 0, 5}, NXMEM_REASON_PLUGIN_HOLDS, 40, 5},
    {"2^64-2 queued releases", 0, 0, {48, 0, 0, 0, 0, 0, ALL_ONES - 1}, NXMEM_REASON_PLUGIN_HOLDS, 40, ALL_ONES - 1},
    {"first axis not written", 0, 0, {48, 0, ALL_ONES, 0, 0, 0, 0}, NXMEM_REASON_REPORT_UNWRITTEN, 8, ALL_ONES},
    {"last axis not written", 0, 0, {48, 0, 0, 0, 0, 0, ALL_ONES}, NXMEM_REASON_REPORT_UNWRITTEN, 40, ALL_ONES},
    {"size 0", 0, 0, {0, 0, 0, 0, 0, 0, 0}, NXMEM_REASON_REPORT_SHORT, 0, 0},
    {"size 8", 0, 0, {8, 0, 0, 0, 0, 0, 0}, NXMEM_REASON_REPORT_SHORT, 0, 8},
    {"size 47", 0, 0, {47, 0, 0, 0, 0, 0, 0}, NXMEM_REASON_REPORT_SHORT, 0, 47},
    {"busy, and all zero", 0, 14, {48, 0, 0, 0, 0, 0, 0}, NXMEM_REASON_REPORT_FAILED, 0, 14},
    {"status 2^32-1", 0, U32_MAX, {48, 0, 0, 0, 0, 0, 0}, NXMEM_REASON_REPORT_FAILED, 0, U32_MAX},
};

static void test_report(void **state) {
  const nx_case *c = *state;
  const report_row *row = c->row;
  nx_puppet_reset();
  nxmem_host host = nx_host_in(c->mode);
  const char *path = nx_puppet_copy();
  nxmem_plugin plugin = nx_must_open(host, path);
  puppet.own_report = 1;
  puppet.query_code = row->code;
  puppet.report = row->report;
  const nxmem_unload_info info = nx_assert_unload_busy(plugin, row->reason, row->axis, row->found);
  assert_int_equal(info.plugin_status, row->code);
  const int broken = row->reason == NXMEM_REASON_REPORT_SHORT || row->reason == NXMEM_REASON_REPORT_UNWRITTEN;
  assert_int_equal(nx_counts(host).contract_violations, broken);
  assert_memory_equal(&info.plugin, &row->report, sizeof info.plugin);
  assert_int_equal(nx_puppet_factory_releases(), 0);
  assert_true(nx_is_mapped(path));

  /* Retried when all is well. */
  puppet.own_report = 0;
  puppet.query_code = 0;
  nx_must_unload(plugin, path);
  assert_int_equal(nx_puppet_factory_releases(), 1);
  assert_int_equal(atomic_load(&puppet.after_the_end), 0);
  nx_host_gone(host);
}

/* A larger report of a newer plugin is as good as ours. */
static void test_larger_report(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  nxmem_host host = nx_host_in(c->mode);
  const char *path = nx_puppet_copy();
  nxmem_plugin plugin = nx_must_open(host, path);
  puppet.own_report = 1;
  puppet.report = (NxmemUnloadReport){U32_MAX, U32_MAX, 0, 0, 0, 0, 0};
  nx_must_unload(plugin, path);
  nx_host_gone(host);
}

/* ---- The host's half: the plugin says that all is well ----------------------------------------------------------- */

static void say_all_is_well(void) {
  puppet.own_report = 1;
  puppet.report = (NxmemUnloadReport){48, 0, 0, 0, 0, 0, 0};
}

static void test_host_counts(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  nx_stage stage = nx_stage_set(c->mode);
  const nxmem_allocation allocation = nx_must_allocate(stage.allocator, 64, 8);

  /* Both honest: both tallies are in the answer. */
  nxmem_unload_info info = nx_assert_unload_busy(stage.plugin, NXMEM_REASON_PLUGIN_HOLDS, 8, 1);
  assert_int_equal(info.plugin.live_allocators, 1);
  assert_int_equal(info.plugin.live_allocations, 1);
  assert_int_equal(info.host_allocators, 1);
  assert_int_equal(info.host_allocations, 1);

  say_all_is_well();
  info = nx_assert_unload_busy(stage.plugin, NXMEM_REASON_HOST_HOLDS, NXMEM_AXIS_ALLOCATORS, 1);
  assert_int_equal(info.host_allocations, 1);
  assert_int_equal(info.host_calls_inside, 0);
  nx_must_release(stage.allocator, allocation);
  info = nx_assert_unload_busy(stage.plugin, NXMEM_REASON_HOST_HOLDS, NXMEM_AXIS_ALLOCATORS, 1);
  assert_int_equal(info.host_allocations, 0);
  nx_stage_strike(&stage);
}

static void test_under_open(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  nx_stage stage = nx_stage_set(c->mode);
  nx_must_close(stage.allocator);
  nx_call call = {.run = nx_call_open_allocator, .stage = &stage};
  nx_hold_at(NX_IN_OPEN);
  nx_call_start(&call);
  nx_hold_wait();
  const nxmem_unload_info info =
      nx_assert_unload_busy(stage.plugin, NXMEM_REASON_HOST_HOLDS, NXMEM_AXIS_CALLS_INSIDE, 1);
  assert_int_equal(info.host_allocators, 0);
  nx_hold_let_go();
  assert_int_equal(nx_call_join(&call), NXMEM_OK);
  stage.allocator = call.allocator;
  nx_stage_strike(&stage);
}

/* While one thread is in the query, every other call through this module is BUSY, and so is the file. */
static void test_under_unload(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  nx_stage stage = nx_stage_set(c->mode);
  nx_must_close(stage.allocator);
  nxmem_plugin second = nx_must_open(stage.host, stage.path);
  nx_call call = {.run = nx_call_unload, .stage = &stage};
  nx_hold_at(NX_IN_QUERY);
  nx_call_start(&call);
  nx_hold_wait();
  nxmem_error error = nx_blank_error();
  nxmem_plugin_info info;
  nxmem_allocator none;
  nxmem_plugin third;
  const nxmem_open_options options = {.mechanism = "puppet"};
  const nxmem_plugin both[] = {stage.plugin, second};
  for (int i = 0; i < 2; i++) {
    nx_assert_code(nxmem_plugin_get_info(both[i], &info, &error), &error, NXMEM_ERR_BUSY);
    nx_assert_code(nxmem_allocator_open(both[i], &options, &none, &error), &error, NXMEM_ERR_BUSY);
    nx_assert_code(nxmem_plugin_try_unload(both[i], NULL, &error), &error, NXMEM_ERR_BUSY);
    nx_assert_code(nxmem_plugin_destroy(both[i], NULL, &error), &error, NXMEM_ERR_BUSY);
  }
  nx_assert_code(nxmem_plugin_open(stage.host, stage.path, &third, &error), &error, NXMEM_ERR_BUSY);
  nx_assert_code(nxmem_host_destroy(stage.host, &error), &error, NXMEM_ERR_BUSY);
  assert_int_equal(error.found, 2);
  nx_hold_let_go();
  assert_int_equal(nx_call_join(&call), NXMEM_OK);
  nx_assert_code(nxmem_plugin_get_info(stage.plugin, &info, &error), &error, NXMEM_ERR_STALE_HANDLE);
  nx_must_unload(second, stage.path);
  assert_int_equal(nx_puppet_factory_releases(), 1);
  nx_host_gone(stage.host);
}

/* The first open is under way: the second of the same file is BUSY, another file's is not. */
static void test_under_load(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  nx_stage stage = {.host = nx_host_in(c->mode), .path = nx_puppet_copy()};
  nx_call call = {.run = nx_call_open_plugin, .stage = &stage, .path = stage.path};
  const char *other = nx_plugin_copy("libnxmem_minimal.so");
  nx_hold_at(NX_IN_CREATE);
  nx_call_start(&call);
  nx_hold_wait();
  nxmem_plugin second;
  nxmem_error error = nx_blank_error();
  nx_assert_code(nxmem_plugin_open(stage.host, stage.path, &second, &error), &error, NXMEM_ERR_BUSY);
  nx_must_unload(nx_must_open(stage.host, other), other);
  nx_assert_code(nxmem_host_destroy(stage.host, &error), &error, NXMEM_ERR_BUSY);
  assert_int_equal(error.found, 1);
  nx_hold_let_go();
  assert_int_equal(nx_call_join(&call), NXMEM_OK);
  assert_int_equal(nx_puppet_calls(NX_IN_NEGOTIATE), 1);
  nx_must_unload(call.plugin, stage.path);
  nx_host_gone(stage.host);
}

/* ---- Giving up --------------------------------------------------------------------------------------------------- */

static void test_destroy_open_gate(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  nxmem_host host = nx_host_in(c->mode);
  const char *path = nx_puppet_copy();
  nxmem_plugin plugin = nx_must_open(host, path);
  nxmem_unload_info info;
  memset(&info, 0xA5, sizeof info);
  assert_int_equal(nxmem_plugin_destroy(plugin, &info, NULL), NXMEM_OK);
  assert_int_equal(info.unmapped, 1);
  assert_int_equal(info.reason, NXMEM_REASON_NONE);
  assert_false(nx_is_mapped(path));
  assert_int_equal(nx_counts(host).forced_leaks, 0);
  assert_int_equal(nx_puppet_factory_releases(), 1);
  assert_int_equal(nxmem_plugin_destroy(plugin, NULL, NULL), NXMEM_ERR_STALE_HANDLE);
  nx_host_gone(host);
}

/* Destroyed with a shut gate: the module stays, what is open stays usable, and opening the file again adopts it. */
static void test_destroy_shut_gate(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  nx_stage stage = nx_stage_set(c->mode);
  const nxmem_allocation allocation = nx_must_allocate(stage.allocator, 64, 8);
  nx_force_leak(stage.host, stage.plugin, stage.path);
  assert_int_equal(nx_puppet_factory_releases(), 0);
  assert_int_equal(nxmem_plugin_get_info(stage.plugin, &(nxmem_plugin_info){0}, NULL), NXMEM_ERR_STALE_HANDLE);
  nx_must_release(stage.allocator, nx_must_allocate(stage.allocator, 64, 8));
  nxmem_error error = nx_blank_error();
  nx_assert_code(nxmem_host_destroy(stage.host, &error), &error, NXMEM_ERR_BUSY);
  assert_int_equal(error.found, 1);

  stage.plugin = nx_must_open(stage.host, stage.path);
  assert_int_equal(nx_puppet_calls(NX_IN_NEGOTIATE), 1);
  nxmem_plugin_info info;
  assert_int_equal(nxmem_plugin_get_info(stage.plugin, &info, NULL), NXMEM_OK);
  assert_int_equal(info.references, 1);
  nx_must_release(stage.allocator, allocation);
  assert_int_equal(nx_counts(stage.host).forced_leaks, 0); /* taken over: no leak any more */
  nx_stage_strike(&stage);
}

/* Of two handles the first may be given up with a shut gate without a leak: the second still holds the module. */
static void test_destroy_one_of_two(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  nx_stage stage = nx_stage_set(c->mode);
  nxmem_plugin second = nx_must_open(stage.host, stage.path);
  nxmem_unload_info info;
  assert_int_equal(nxmem_plugin_destroy(second, &info, NULL), NXMEM_OK);
  assert_int_equal(info.references, 1);
  assert_int_equal(info.unmapped, 0);
  assert_int_equal(nx_counts(stage.host).forced_leaks, 0);
  assert_int_equal(nx_counts(stage.host).open_plugins, 1);
  nx_stage_strike(&stage);
}

static void test_host_destroy(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  nxmem_host host = nx_host_in(c->mode);
  const char *path = nx_puppet_copy();
  nxmem_plugin three[3];
  nxmem_error error = nx_blank_error();
  for (int i = 0; i < 3; i++) three[i] = nx_must_open(host, path);
  for (uint64_t left = 3; left > 0; left--) {
    nx_assert_code(nxmem_host_destroy(host, &error), &error, NXMEM_ERR_BUSY);
    assert_int_equal(error.found, left);
    assert_int_equal(nx_counts(host).open_plugins, left);
    assert_int_equal(nxmem_plugin_try_unload(three[left - 1], NULL, &error), NXMEM_OK);
  }
  nx_host_gone(host);
  nx_assert_code(nxmem_host_destroy(host, &error), &error, NXMEM_ERR_STALE_HANDLE);
  nxmem_plugin none;
  nx_assert_code(nxmem_plugin_open(host, path, &none, &error), &error, NXMEM_ERR_STALE_HANDLE);
}

/* A forced leak does not keep its host, nor does the host's end touch the module. */
static void test_leak_outlives_host(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  nxmem_host host = nx_host_in(c->mode);
  const char *path = nx_puppet_copy();
  nxmem_plugin plugin = nx_must_open(host, path);
  puppet.query_code = NXMEM_STATUS_BUSY;
  nx_force_leak(host, plugin, path);
  nx_host_gone(host);
  assert_true(nx_is_mapped(path));
  assert_int_equal(nx_puppet_calls(NX_IN_DESTRUCTOR), 0);
  assert_int_equal(nx_puppet_factory_releases(), 0);
  /* A new host starts its own books with the resident module. */
  puppet.query_code = 0;
  host = nx_host_in(c->mode);
  plugin = nx_must_open(host, path);
  assert_int_equal(nx_puppet_calls(NX_IN_CONSTRUCTOR), 1);
  assert_int_equal(nx_puppet_calls(NX_IN_NEGOTIATE), 2);
  nxmem_unload_info info;
  assert_int_equal(nxmem_plugin_try_unload(plugin, &info, NULL), NXMEM_OK);
  assert_int_equal(info.unmapped, 0); /* the leaked reference keeps it, and the host says so */
  assert_true(nx_is_mapped(path));
  nx_host_gone(host);
}

#define ONE(name, test) static const nx_row_head name##_rows[] = {{test, NX_BOTH_MODES}}
ONE(larger, "a report of 2^32-1 bytes");
ONE(counts, "a live allocator and a live allocation");
ONE(opening, "a thread inside open");
ONE(unloading, "a thread inside the query");
ONE(loading, "a thread loading the same file");
ONE(given_up, "given up with an open gate");
ONE(leaked, "given up with a shut gate, and adopted");
ONE(one_of_two, "one of two handles given up");
ONE(hosts, "a host with open plugins");
ONE(outliving, "a leak that outlives its host");

int main(void) {
  alarm(100);
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(report_rows), test_report);
  nx_suite_modes(&suite, ROWS(larger_rows), test_larger_report);
  nx_suite_modes(&suite, ROWS(counts_rows), test_host_counts);
  nx_suite_modes(&suite, ROWS(opening_rows), test_under_open);
  nx_suite_modes(&suite, ROWS(unloading_rows), test_under_unload);
  nx_suite_modes(&suite, ROWS(loading_rows), test_under_load);
  nx_suite_modes(&suite, ROWS(given_up_rows), test_destroy_open_gate);
  nx_suite_modes(&suite, ROWS(leaked_rows), test_destroy_shut_gate);
  nx_suite_modes(&suite, ROWS(one_of_two_rows), test_destroy_one_of_two);
  nx_suite_modes(&suite, ROWS(hosts_rows), test_host_destroy);
  nx_suite_modes(&suite, ROWS(outliving_rows), test_leak_outlives_host);
  return nx_suite_run(&suite, "host_unload");
}
