/*
 * violations_test.c: what plugins did is counted for good and kept for a while.
 *
 * Attackers played: one violation after another, on several threads; violations of every stage from load to unload.
 * Promise: the count is exact; the latest 64 are there whole, oldest first; each says what the core said.
 */
#include <unistd.h>

#include "staging.h"

enum { BYTES = 64, ALIGN = 16 };
#define ALL UINT64_MAX

static nx_stage stage;
static nxmem_violation latest[NXMEM_VIOLATIONS_KEPT + 8];

static uint32_t read_log(nxmem_host host, uint32_t room) {
  uint32_t count = 0x5A5A;
  memset(latest, 0xA5, sizeof latest);
  assert_int_equal(nxmem_host_violations(host, latest, room, &count, NULL), NXMEM_OK);
  assert_true(count <= room && count <= NXMEM_VIOLATIONS_KEPT);
  for (uint32_t i = count; i < room; i++) assert_int_equal(latest[i].number, 0xA5A5A5A5A5A5A5A5ull);
  return count;
}

/* ---- Where they come from ------------------------------------------------------------------------------------------ */

typedef struct source_row {
  const char *name;
  nx_modes modes;
  void (*spoil)(void);
  int loads; /* the load goes through */
  int opens; /* the open goes through */
  int allocates;
  nxmem_violation want; /* an allocator other than {0}: the stage's */
} source_row;

static void major_beyond(void) { puppet.response.agreed_major = 2; }
static void null_entry(void) { puppet.entries[0] = NULL; }
static void twice(void) {
  puppet.entries[1] = puppet.entries[0];
  puppet.written = 2;
  puppet.count = 2;
}
static void same_name(void) {
  puppet.factories[1].name = puppet.factories[0].name;
  puppet.written = 2;
  puppet.count = 2;
}
static void no_open_slot(void) { puppet.factories[0].open_allocator = NULL; }
static void hollow_table(void) { puppet.table.allocate = NULL; }
static void other_device(void) { puppet.table.device.index = 9; }
static void null_address(void) { puppet.leave_out_records = 1; }
static void short_report(void) {
  puppet.own_report = 1;
  puppet.report.struct_size = 40;
}

static const source_row source_rows[] = {
    {"negotiation", 0, major_beyond, 0, 0, 0, {1, {0}, 0, NXMEM_REASON_MAJOR_OUT_OF_RANGE, 4, 2, 1}},
    {"an entry", 0, null_entry, 0, 0, 0, {1, {0}, 0, NXMEM_REASON_NULL_POINTER, 0, 0, 0}},
    {"an entry listed twice", 0, twice, 0, 0, 0, {1, {0}, 0, NXMEM_REASON_LISTED_TWICE, 1, 1, 0}},
    {"a name used twice", 0, same_name, 0, 0, 0, {1, {0}, 0, NXMEM_REASON_SAME_NAME, 0, 1, 0}},
    {"a factory", 0, no_open_slot, 0, 0, 0, {1, {0}, 0, NXMEM_REASON_MISSING_SLOT, 40, 0, 0}},
    {"an allocator's table", 0, hollow_table, 1, 0, 0, {1, {0}, 77, NXMEM_REASON_MISSING_SLOT, 48, 0, 0}},
    {"an allocator's device",
     0,
     other_device,
     1,
     0,
     0,
     {1, {0}, 77, NXMEM_REASON_OTHER_DEVICE, 16, (1ull << 32) + 9, 1ull << 32}},
    {"an address", 0, null_address, 1, 1, 0, {1, {1}, 77, NXMEM_REASON_NULL_ADDRESS, 8, 0, 0}},
    {"an unload report", 0, short_report, 1, 1, 1, {1, {0}, 0, NXMEM_REASON_REPORT_SHORT, 0, 40, 48}},
};

static void test_source(void **state) {
  const nx_case *c = *state;
  const source_row *row = c->row;
  nx_puppet_reset();
  stage.path = nx_puppet_copy();
  stage.host = nx_host_in(c->mode);
  assert_int_equal(read_log(stage.host, NXMEM_VIOLATIONS_KEPT), 0);
  row->spoil();
  assert_int_equal(nxmem_plugin_open(stage.host, stage.path, &stage.plugin, NULL) == NXMEM_OK, row->loads);
  const nxmem_open_options options = {.mechanism = "puppet"};
  if (row->loads)
    assert_int_equal(nxmem_allocator_open(stage.plugin, &options, &stage.allocator, NULL) == NXMEM_OK, row->opens);
  nxmem_allocation block = {0, NULL};
  if (row->opens)
    assert_int_equal(nxmem_allocate(stage.allocator, BYTES, ALIGN, NULL, &block, NULL) == NXMEM_OK, row->allocates);
  if (row->allocates) {
    nx_must_release(stage.allocator, block);
    nx_must_close(stage.allocator);
    assert_int_equal(nxmem_plugin_try_unload(stage.plugin, NULL, NULL), NXMEM_ERR_BUSY);
  }
  assert_int_equal(nx_counts(stage.host).contract_violations, 1);
  assert_int_equal(read_log(stage.host, NXMEM_VIOLATIONS_KEPT), 1);
  assert_int_equal(latest[0].number, 1);
  assert_int_equal(latest[0].allocator.id, row->want.allocator.id == 0 ? 0 : stage.allocator.id);
  assert_int_equal(latest[0].mechanism_id, row->want.mechanism_id);
  assert_int_equal(latest[0].reason, row->want.reason);
  assert_int_equal(latest[0].field, row->want.field);
  assert_int_equal(latest[0].found, row->want.found);
  assert_int_equal(latest[0].needed, row->want.needed);
  puppet.own_report = 0;
  if (!row->loads) {
    nx_host_gone(stage.host);
    return;
  }
  if (row->opens && !row->allocates) nx_must_close(stage.allocator);
  nxmem_unload_info info;
  assert_int_equal(nxmem_plugin_destroy(stage.plugin, &info, NULL), NXMEM_OK); /* a NULL address stays quarantined */
  nx_host_gone(stage.host);
}

/* ---- The log -------------------------------------------------------------------------------------------------------- */

static void refuse_one(uint64_t ticket) {
  NxmemReleaseCompletion completion;
  memset(&completion, 0, sizeof completion);
  completion.struct_size = (uint32_t)ticket % 300; /* short: the size is what is found */
  assert_int_equal(nx_puppet_complete(&completion), NXMEM_STATUS_SHORT_STRUCT);
}

typedef struct log_row {
  const char *name;
  nx_modes modes;
  uint32_t violations;
  uint32_t room;
  uint32_t shown;
} log_row;

static const log_row log_rows[] = {
    {"none", 0, 0, 64, 0},
    {"one", 0, 1, 64, 1},
    {"63", 0, 63, 64, 63},
    {"64", 0, 64, 64, 64},
    {"65", 0, 65, 64, 64},
    {"128", 0, 128, 64, 64},
    {"200", 0, 200, 64, 64},
    {"200, more room", 0, 200, 72, 64},
    {"200, room for three", 0, 200, 3, 3},
    {"two, room for three", 0, 2, 3, 2},
    {"200, no room", 0, 200, 0, 0},
};

static void test_log(void **state) {
  const nx_case *c = *state;
  const log_row *row = c->row;
  nx_puppet_reset();
  stage = nx_stage_set(c->mode);
  for (uint32_t i = 1; i <= row->violations; i++) refuse_one(i);
  assert_int_equal(nx_counts(stage.host).contract_violations, row->violations);
  assert_int_equal(nx_counts(stage.host).refused_callbacks, row->violations);
  assert_int_equal(read_log(stage.host, row->room), row->shown);
  for (uint32_t i = 0; i < row->shown; i++) {
    const uint64_t number = row->violations - row->shown + 1 + i;
    assert_int_equal(latest[i].number, number);
    assert_int_equal(latest[i].found, number % 300);
    assert_int_equal(latest[i].needed, 328);
    assert_int_equal(latest[i].reason, NXMEM_REASON_SHORT_COMPLETION);
    assert_int_equal(latest[i].allocator.id, stage.allocator.id);
  }
  nx_stage_strike(&stage);
  /* The next host begins with none, whichever slot it gets. */
  for (int i = 0; i < 8; i++) {
    nxmem_host next = nx_host_in(c->mode);
    assert_int_equal(read_log(next, 64), 0);
    assert_int_equal(nx_counts(next).contract_violations, 0);
    nx_host_gone(next);
  }
}

static void test_arguments(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  stage = nx_stage_set(c->mode);
  uint32_t count = 0x5A5A;
  nxmem_error error = nx_blank_error();
  nx_assert_code(nxmem_host_violations(stage.host, NULL, 1, &count, &error), &error, NXMEM_ERR_INVALID_ARGUMENT);
  nx_assert_code(nxmem_host_violations(stage.host, latest, 1, NULL, &error), &error, NXMEM_ERR_INVALID_ARGUMENT);
  assert_int_equal(count, 0x5A5A);
  assert_int_equal(nxmem_host_violations(stage.host, NULL, 0, &count, NULL), NXMEM_OK);
  assert_int_equal(count, 0);
  const nxmem_host host = stage.host;
  nx_stage_strike(&stage);
  nx_assert_code(nxmem_host_violations(host, latest, 1, &count, &error), &error, NXMEM_ERR_STALE_HANDLE);
}

/* Two hosts: each has its own. */
static void test_two_hosts(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  stage = nx_stage_set(c->mode);
  nxmem_host other = nx_host_in(c->mode);
  refuse_one(7);
  assert_int_equal(read_log(other, 64), 0);
  assert_int_equal(read_log(stage.host, 64), 1);
  nx_host_gone(other);
  nx_stage_strike(&stage);
}

/* ---- Threads ------------------------------------------------------------------------------------------------------ */

enum { THREADS = 4, EACH = 500 };

static void *refuse_many(void *argument) {
  const uint64_t from = (uint64_t)(uintptr_t)argument;
  for (uint64_t i = 0; i < EACH; i++) refuse_one(from);
  return NULL;
}

static void test_threads(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  stage = nx_stage_set(c->mode);
  pthread_t threads[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, refuse_many, (void *)(i + 1)), 0);
  for (int i = 0; i < 50; i++) { /* read while they are written: each whole, in order */
    const uint32_t count = read_log(stage.host, 64);
    for (uint32_t j = 0; j < count; j++) {
      assert_int_equal(latest[j].number, latest[0].number + j);
      assert_in_range(latest[j].found, 1, THREADS);
      assert_int_equal(latest[j].needed, 328);
    }
  }
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  assert_int_equal(nx_counts(stage.host).contract_violations, THREADS * EACH);
  assert_int_equal(read_log(stage.host, 64), 64);
  assert_int_equal(latest[63].number, THREADS * EACH);
  nx_stage_strike(&stage);
}

#define ONE(name, test) static const nx_row_head name##_rows[] = {{test, NX_BOTH_MODES}}
ONE(arguments, "arguments that are none");
ONE(hosts, "two hosts");
ONE(threads, "four threads and a reader");

int main(void) {
  alarm(100);
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(source_rows), test_source);
  nx_suite_modes(&suite, ROWS(log_rows), test_log);
  nx_suite_modes(&suite, ROWS(arguments_rows), test_arguments);
  nx_suite_modes(&suite, ROWS(hosts_rows), test_two_hosts);
  nx_suite_modes(&suite, ROWS(threads_rows), test_threads);
  return nx_suite_run(&suite, "host_violations");
}
