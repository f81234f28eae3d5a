/*
 * unload_test.c: may this module be unmapped, row by row.
 *
 * Attackers played: reports that fail, end early, were never written, or say zero while the host knows better.
 * Promise: each axis of both sides shuts the gate by itself and is named.
 */
#include "nxmem/unload.h"

#include "support.h"
#include "watch.h"

#define ALL UINT64_MAX
#define ALLOW \
  { NXMEM_REASON_NONE, 0, 0, 0 }
#define HOLDS(offset, count) \
  { NXMEM_REASON_PLUGIN_HOLDS, offset, count, 0 }
#define BLANK(offset) \
  { NXMEM_REASON_REPORT_UNWRITTEN, offset, ALL, 0 }
#define HOST(axis, count) \
  { NXMEM_REASON_HOST_HOLDS, axis, count, 0 }
#define NOTHING \
  { 0, 0, 0, 0, 0 }

typedef struct unload_row {
  const char *name;
  uint32_t status;
  NxmemUnloadReport report;
  nxmem_host_tally host;
  nxmem_verdict want;
} unload_row;

static const unload_row rows[] = {
    {"nothing on either side", 0, {48, 0, 0, 0, 0, 0, 0}, NOTHING, ALLOW},
    {"something in reserved", 0, {48, 9, 0, 0, 0, 0, 0}, NOTHING, ALLOW},
    {"a longer report", 0, {56, 0, 0, 0, 0, 0, 0}, NOTHING, ALLOW},
    {"size 2^32-1", 0, {0xFFFFFFFFu, 0, 0, 0, 0, 0, 0}, NOTHING, ALLOW},
    {"the query failed", 5, {48, 0, 0, 0, 0, 0, 0}, NOTHING, {NXMEM_REASON_REPORT_FAILED, 0, 5, 0}},
    {"the query failed with a code nobody knows",
     99,
     {48, 0, 0, 0, 0, 0, 0},
     NOTHING,
     {NXMEM_REASON_REPORT_FAILED, 0, 99, 0}},
    {"failure is named before anything else",
     5,
     {0, 0, 1, 1, 1, 1, 1},
     {1, 1, 1, 1, 1},
     {NXMEM_REASON_REPORT_FAILED, 0, 5, 0}},
    {"report of size 0", 0, {0, 0, 0, 0, 0, 0, 0}, NOTHING, {NXMEM_REASON_REPORT_SHORT, 0, 0, 48}},
    {"report of size 47", 0, {47, 0, 0, 0, 0, 0, 0}, NOTHING, {NXMEM_REASON_REPORT_SHORT, 0, 47, 48}},
    {"short is named before unwritten",
     0,
     {40, 0, ALL, ALL, ALL, ALL, ALL},
     NOTHING,
     {NXMEM_REASON_REPORT_SHORT, 0, 40, 48}},
    {"report left unwritten", 0, {48, 0, ALL, ALL, ALL, ALL, ALL}, NOTHING, BLANK(8)},
    {"allocators unwritten", 0, {48, 0, ALL, 0, 0, 0, 0}, NOTHING, BLANK(8)},
    {"allocations unwritten", 0, {48, 0, 0, ALL, 0, 0, 0}, NOTHING, BLANK(16)},
    {"views unwritten", 0, {48, 0, 0, 0, ALL, 0, 0}, NOTHING, BLANK(24)},
    {"capabilities unwritten", 0, {48, 0, 0, 0, 0, ALL, 0}, NOTHING, BLANK(32)},
    {"queued releases unwritten", 0, {48, 0, 0, 0, 0, 0, ALL}, NOTHING, BLANK(40)},
    {"one allocator", 0, {48, 0, 1, 0, 0, 0, 0}, NOTHING, HOLDS(8, 1)},
    {"two allocations", 0, {48, 0, 0, 2, 0, 0, 0}, NOTHING, HOLDS(16, 2)},
    {"three views", 0, {48, 0, 0, 0, 3, 0, 0}, NOTHING, HOLDS(24, 3)},
    {"four capabilities", 0, {48, 0, 0, 0, 0, 4, 0}, NOTHING, HOLDS(32, 4)},
    {"five queued releases", 0, {48, 0, 0, 0, 0, 0, 5}, NOTHING, HOLDS(40, 5)},
    {"2^64-2 allocations", 0, {48, 0, 0, ALL - 1, 0, 0, 0}, NOTHING, HOLDS(16, ALL - 1)},
    {"the first axis is named", 0, {48, 0, 0, 2, 3, 4, 5}, NOTHING, HOLDS(16, 2)},
    {"the plugin is named before the host", 0, {48, 0, 0, 0, 0, 0, 5}, {1, 1, 1, 1, 1}, HOLDS(40, 5)},
    {"host: one allocator", 0, {48, 0, 0, 0, 0, 0, 0}, {1, 0, 0, 0, 0}, HOST(1, 1)},
    {"host: two allocations", 0, {48, 0, 0, 0, 0, 0, 0}, {0, 2, 0, 0, 0}, HOST(2, 2)},
    {"host: three calls inside", 0, {48, 0, 0, 0, 0, 0, 0}, {0, 0, 3, 0, 0}, HOST(3, 3)},
    {"host: four held slots", 0, {48, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 4, 0}, HOST(4, 4)},
    {"host: five unpaid debts", 0, {48, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 5}, HOST(5, 5)},
    {"host: 2^64-1 calls inside", 0, {48, 0, 0, 0, 0, 0, 0}, {0, 0, ALL, 0, 0}, HOST(3, ALL)},
    {"host: the first axis is named", 0, {48, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 4, 5}, HOST(4, 4)},
};

static void test_unload(void **state) {
  const unload_row *row = *state;
  nx_assert_verdict(nxmem_judge_unload(row->status, &row->report, &row->host), row->want);
}

/* An unwritten count behind one that is held, in field order: whatever is named, the gate is shut. */
static void test_two_faults_still_refuse(void **state) {
  (void)state;
  const nxmem_host_tally nothing = NOTHING;
  const NxmemUnloadReport report = {48, 0, 0, 1, 0, 0, ALL};
  assert_int_not_equal(nxmem_judge_unload(0, &report, &nothing).reason, NXMEM_REASON_NONE);
}

static void test_take(void **state) {
  (void)state;
  nx_watch watch;
  NxmemUnloadReport out;
  nx_watch_open(&watch, 48);
  for (uint32_t i = 0; i < 48; i += 8) nx_put64(watch.record + i, 0x0000444400005555ull + i);
  nx_watch_arm(&watch);
  nxmem_unload_report_take((const volatile NxmemUnloadReport *)(void *)watch.record, &out);
  nx_watch_disarm(&watch);
  nx_watch_assert_single_fetch(&watch, 48);
  assert_int_equal(out.struct_size, 0x5555);
  assert_int_equal(out.reserved, 0);
  for (uint32_t i = 8; i < 48; i += 8) assert_int_equal(nx_get64(&out, i), 0x0000444400005555ull + i);
  nx_watch_close(&watch);
}

static void test_broken(void **state) {
  (void)state;
  for (uint32_t reason = 0; reason < 256; reason++)
    assert_int_equal(nxmem_report_is_broken(reason),
                     reason == NXMEM_REASON_REPORT_SHORT || reason == NXMEM_REASON_REPORT_UNWRITTEN);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(rows), test_unload);
  nx_suite_add(&suite, "two faults in one report", test_two_faults_still_refuse, NULL);
  nx_suite_add(&suite, "each field of a report, loaded once", test_take, NULL);
  nx_suite_add(&suite, "which refusals break the contract", test_broken, NULL);
  return nx_suite_run(&suite, "unload");
}
