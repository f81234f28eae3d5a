/*
 * fault_test.c: every module-level fault of the scripted plugins, loaded behind the boundary.
 *
 * Attackers played: modules that lie in negotiation, in their list of factories, in one factory, in the unload report.
 * Promise: a refused module leaves nothing mapped and each factory is given back once; one that holds a debt stays,
 * counted.
 */
#include "hosttest.h"
#include "scripted_probe.h"

#define ALL_ONES 0xFFFFFFFFFFFFFFFFull
#define FUTURE (1ull << 40)

/* ---- Refused as a whole ------------------------------------------------------------------------------------------ */

typedef struct refused_row {
  const char *name; /* libnxmem_fault_NAME.so */
  nx_modes modes;
  nx_refusal want;
  uint64_t released; /* factories given back */
  uint64_t unpaid;   /* factories whose release cannot be found: the module stays mapped */
  uint64_t offer;    /* of the host; 0: all it knows */
} refused_row;

#define NEGOTIATION(reason, field, found, needed) \
  { NXMEM_ERR_NEGOTIATION, NXMEM_REASON_##reason, (field), (found), (needed), 0 }
#define CONTRACT(reason, field, found, needed) \
  { NXMEM_ERR_CONTRACT, NXMEM_REASON_##reason, (field), (found), (needed), 0 }
#define UNREADABLE(found, needed) \
  { NXMEM_ERR_UNREADABLE_MEMORY, NXMEM_REASON_UNREADABLE, 0, (found), (needed), 0 }

static const refused_row refused_rows[] = {
    {"refuse-negotiation", 0, {NXMEM_ERR_NEGOTIATION, NXMEM_REASON_PLUGIN_REFUSED, 0, 0, 0, 1}, 0, 0, 0},
    {"short-response", 0, NEGOTIATION(SHORT_RESPONSE, 0, 8, 40), 0, 0, 0},
    {"zero-response", 0, NEGOTIATION(SHORT_RESPONSE, 0, 0, 40), 0, 0, 0},
    {"inverted-range", 0, NEGOTIATION(INVERTED_RANGE, 24, 2, 1), 0, 0, 0},
    {"minor-beyond", 0, NEGOTIATION(MINOR_OUT_OF_RANGE, 8, 2, 1), 0, 0, 0},
    {"major-zero", 0, NEGOTIATION(MAJOR_OUT_OF_RANGE, 4, 0, 1), 0, 0, 0},
    {"caps-beyond-offer", 0, NEGOTIATION(CAPS_BEYOND_OFFER, 32, 31, 1), 0, 0, NXMEM_CAP_ALLOCATOR},
    {"unknown-caps", 0, NEGOTIATION(UNKNOWN_CAPABILITY, 32, FUTURE | 17, 31), 0, 0, 0},
    {"no-allocator-cap", 0, NEGOTIATION(NO_ALLOCATOR, 32, 16, 1), 0, 0, 0},
    {"caps-beyond-level", 0, NEGOTIATION(CAPS_BEYOND_LEVEL, 32, 17, 15), 0, 0, 0},
    {"enumerate-error", 0, {NXMEM_ERR_PLUGIN, 0, 0, 0, 0, NXMEM_STATUS_INTERNAL_ERROR}, 0, 0, 0},
    {"too-many", 0, CONTRACT(TOO_MANY, 0, 65, 64), 64, 0, 0},
    {"listed-twice", 0, CONTRACT(LISTED_TWICE, 1, 1, 0), 1, 0, 0},
    {"null-entry", 0, CONTRACT(NULL_POINTER, 1, 0, 0), 1, 0, 0},
    {"same-name", 0, CONTRACT(SAME_NAME, 0, 1, 0), 2, 0, 0},
    {"bad-tier", 0, CONTRACT(UNKNOWN_TIER, 0, 9, 2), 1, 0, 0},
    {"short-factory", 0, CONTRACT(SHORT_TABLE, 0, 48, 56), 0, 1, 0},
    {"factory-missing-open", 0, CONTRACT(MISSING_SLOT, 40, 0, 0), 1, 0, 0},
    {"factory-missing-release", 0, CONTRACT(MISSING_SLOT, 48, 0, 0), 0, 1, 0},
    {"zero-header", 0, CONTRACT(SHORT_HEADER, 0, 0, 8), 0, 1, 0},
    {"garbage-header", NX_GUARDED_ONLY, UNREADABLE(0, 256), 1, 0, 0},
    {"empty-name", 0, CONTRACT(EMPTY_NAME, 0, 0, 1), 1, 0, 0},
    {"long-name", 0, CONTRACT(UNTERMINATED_NAME, 0, 256, 256), 1, 0, 0},
    {"bad-utf8-name", 0, CONTRACT(BAD_UTF8, 3, 0xC3, 0), 1, 0, 0},
    {"control-name", 0, CONTRACT(CONTROL_CHARACTER, 5, 0x1B, 0), 1, 0, 0},
    {"unterminated-name", NX_GUARDED_ONLY, UNREADABLE(40, 256), 1, 0, 0},
    {"wild-factory", NX_GUARDED_ONLY, UNREADABLE(0, 8), 0, 1, 0},
    {"missing-export-negotiate", 0, {NXMEM_ERR_MISSING_SYMBOL, 0, 0, 0, 0, 0}, 0, 0, 0},
    {"missing-export-factories", 0, {NXMEM_ERR_MISSING_SYMBOL, 0, 0, 0, 0, 0}, 0, 0, 0},
    {"missing-export-unload", 0, {NXMEM_ERR_MISSING_SYMBOL, 0, 0, 0, 0, 0}, 0, 0, 0},
};

static const char *copy_of(const char *fault) { return nx_plugin_copy(nx_name("libnxmem_fault_%s.so", fault)); }

/* A code of the core's is a broken contract; what the plugin or the loader refused openly is not. */
static uint64_t violations_of(const refused_row *row) {
  return row->want.reason != NXMEM_REASON_NONE && row->want.reason != NXMEM_REASON_PLUGIN_REFUSED;
}

static void test_refused(void **state) {
  const nx_case *c = *state;
  const refused_row *row = c->row;
  const char *path = copy_of(row->name);
  nx_observe();
  nxmem_host host = nx_host_of_level(c->mode, 1, row->offer == 0 ? 31 : row->offer);
  nx_assert_open_refused(host, path, row->want, row->unpaid != 0);

  const nxmem_host_counts counts = nx_counts(host);
  assert_int_equal(counts.contract_violations, violations_of(row));
  assert_int_equal(counts.unpaid_debts, row->unpaid);
  assert_int_equal(nx_seen[NX_PROBE_FACTORIES_RELEASED], row->released);
  assert_int_equal(nx_seen[NX_PROBE_STRAY_FACTORY_CALLS], 0);
  assert_int_equal(nx_seen[NX_PROBE_OPEN_CALLS], 0);
  if (row->want.result == NXMEM_ERR_NEGOTIATION) assert_int_equal(nx_seen[NX_PROBE_ENUMERATE_CALLS], 0);
  /* Its code has run, so it went through the gate. */
  assert_int_equal(nx_seen[NX_PROBE_REPORT_CALLS], nx_seen[NX_PROBE_NEGOTIATE_CALLS]);
  nx_host_gone(host);
}

/* A refusal is no verdict on the next try: the same file is refused in the same way, and counted again. */
static void test_refused_again(void **state) {
  const nx_case *c = *state;
  const refused_row *row = c->row;
  const char *path = copy_of(row->name);
  nx_observe();
  nxmem_host host = nx_host_of_level(c->mode, 1, row->offer == 0 ? 31 : row->offer);
  for (int i = 0; i < 3; i++) nx_assert_open_refused(host, path, row->want, 0);
  assert_int_equal(nx_counts(host).contract_violations, 3 * violations_of(row));
  nx_host_gone(host);
}

/* ---- Accepted, though odd ---------------------------------------------------------------------------------------- */

typedef struct accepted_row {
  const char *name;
  nx_modes modes;
  uint32_t mechanisms;
  uint32_t left_out;
  uint64_t created;
  uint64_t released; /* after the unload; the entry beyond the count was never the host's */
} accepted_row;

static const accepted_row accepted_rows[] = {
    {"entry-beyond-count", 0, 1, 0, 2, 1},
    {"same-name-other-device", 0, 2, 0, 2, 2},
    {"bad-tier-newer", 0, 1, 1, 2, 2},
};

static void test_accepted(void **state) {
  const nx_case *c = *state;
  const accepted_row *row = c->row;
  const char *path = copy_of(row->name);
  nx_observe();
  nxmem_host host = nx_host_in(c->mode);
  nxmem_plugin plugin = nx_must_open(host, path);
  nxmem_plugin_info info;
  assert_int_equal(nxmem_plugin_get_info(plugin, &info, NULL), NXMEM_OK);
  assert_int_equal(info.mechanism_count, row->mechanisms);
  assert_int_equal(info.left_out, row->left_out);
  assert_int_equal(nx_seen[NX_PROBE_FACTORIES_RELEASED], row->left_out);
  nx_must_unload(plugin, path);
  assert_int_equal(nx_seen[NX_PROBE_FACTORIES_CREATED], row->created);
  assert_int_equal(nx_seen[NX_PROBE_FACTORIES_RELEASED], row->released);
  assert_int_equal(nx_seen[NX_PROBE_STRAY_FACTORY_CALLS], 0);
  assert_int_equal(nx_counts(host).contract_violations, 0);
  nx_host_gone(host);
}

/* ---- Reports that keep the gate shut ----------------------------------------------------------------------------- */

typedef struct report_row {
  const char *name;
  nx_modes modes;
  uint32_t reason;
  uint32_t axis;
  uint64_t found;
  uint32_t plugin_status;
} report_row;

static const report_row report_rows[] = {
    {"no-report", 0, NXMEM_REASON_REPORT_UNWRITTEN, 8, ALL_ONES, 0},
    {"short-report", 0, NXMEM_REASON_REPORT_SHORT, 0, 8, 0},
    {"failing-report", 0, NXMEM_REASON_REPORT_FAILED, 0, 5, 5},
    {"report-holds", 0, NXMEM_REASON_PLUGIN_HOLDS, 24, 3, 0},
};

static void test_report(void **state) {
  const nx_case *c = *state;
  const report_row *row = c->row;
  const char *path = copy_of(row->name);
  nx_observe();
  nxmem_host host = nx_host_in(c->mode);
  nxmem_plugin plugin = nx_must_open(host, path);
  for (int i = 0; i < 2; i++) {
    const nxmem_unload_info info = nx_assert_unload_busy(plugin, row->reason, row->axis, row->found);
    assert_int_equal(info.plugin_status, row->plugin_status);
    assert_int_equal(info.references, 1);
    assert_int_equal(info.host_allocators, 0);
    assert_int_equal(info.host_calls_inside, 0);
  }
  assert_int_equal(nx_seen[NX_PROBE_REPORT_CALLS], 2);
  assert_int_equal(nx_seen[NX_PROBE_FACTORIES_RELEASED], 0);

  /* Still of use after the refusals. */
  nxmem_allocator allocator = nx_must_open_mechanism(plugin, "eager");
  nx_must_release(allocator, nx_must_allocate(allocator, 64, 8));
  nx_must_close(allocator);
  nx_force_leak(host, plugin, path);
  nx_host_gone(host);
}

static void test_resident(void **state) {
  const nx_case *c = *state;
  const char *path = copy_of("resident");
  nx_observe();
  nxmem_host host = nx_host_in(c->mode);
  nxmem_plugin plugin = nx_must_open(host, path);
  nxmem_unload_info info;
  memset(&info, 0xA5, sizeof info);
  assert_int_equal(nxmem_plugin_try_unload(plugin, &info, NULL), NXMEM_OK);
  assert_int_equal(info.unmapped, 0);
  assert_int_equal(info.references, 0);
  assert_true(nx_is_mapped(path));
  assert_int_equal(nx_counts(host).forced_leaks, 0);
  assert_int_equal(nx_counts(host).open_plugins, 0);
  nx_assert_books_closed();
  nx_host_gone(host);
}

static const nx_row_head resident_rows[] = {{"resident", NX_BOTH_MODES}};

int main(void) {
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(refused_rows), test_refused);
  for (size_t i = 0; i < sizeof refused_rows / sizeof refused_rows[0]; i++)
    if (refused_rows[i].unpaid == 0)
      nx_suite_modes(&suite, &refused_rows[i], sizeof refused_rows[i], 1, test_refused_again);
  nx_suite_modes(&suite, ROWS(accepted_rows), test_accepted);
  nx_suite_modes(&suite, ROWS(report_rows), test_report);
  nx_suite_modes(&suite, ROWS(resident_rows), test_resident);
  return nx_suite_run(&suite, "host_fault");
}
