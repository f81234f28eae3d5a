/*
 * words_test.c: what a refusal says to people: the field by its name, what was found, what can be done.
 *
 * Attackers played: a plugin that is wrong in one thing, as its author would be by mistake.
 * Promise: the line names the thing to change; advice that would mislead is not given.
 */
#include <unistd.h>

#include "nxmem/outcome.h"
#include "puppet.h"

#define ALL_ONES 0xFFFFFFFFFFFFFFFFull

typedef struct word_row {
  const char *name;
  nx_modes modes;
  void (*arrange)(void);
  const char *says;
} word_row;

/* ---- Negotiation ------------------------------------------------------------------------------------------------- */

static void no_version(void) { puppet.response.agreed_major = 0; }
static void no_range(void) { puppet.response.plugin_range = (NxmemVersionRange){0, 0, 0, 0}; }
static void refused_without_range(void) {
  no_range();
  puppet.negotiate_code = NXMEM_STATUS_VERSION_MISMATCH;
}
static void far_minor(void) { puppet.response.agreed_minor = 7; }

/* ---- The list ---------------------------------------------------------------------------------------------------- */

static void list(uint32_t entries) {
  puppet.written = entries;
  puppet.count = entries;
}
static void hole(void) {
  list(2);
  puppet.entries[1] = NULL;
}
static void twice(void) {
  list(3);
  puppet.entries[2] = puppet.entries[1];
}
static void same_name(void) {
  list(2);
  puppet.factories[1].name = puppet.factories[0].name;
}
static void no_count(void) { puppet.leave_count = 1; }
static void too_many(void) { puppet.count = 65; }
static void no_name(void) { puppet.factories[0].name = NULL; }
static void tab_in_name(void) { puppet.factories[0].name = (const uint8_t *)"a\tb"; }
static void no_open(void) { puppet.factories[0].open_allocator = NULL; }
static void tier_5(void) { puppet.factories[0].device.tier = 5; }

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

static void two_devices(void) {
  same_name();
  puppet.factories[1].device.index = 1;
}
static void nothing_published(void) { list(0); }
static void other_device(void) { puppet.table.device = (NxmemDeviceId){NXMEM_TIER_DISK, 3}; }
static void no_retain(void) { puppet.table.retain = NULL; }
static void old_table(void) { puppet.table.abi_minor = 0; }

/* ---- Allocating and releasing ------------------------------------------------------------------------------------ */

static void numbers_unwritten(void) {
  puppet.own_numbers = 1;
  puppet.owned = 64;
  puppet.mapped = ALL_ONES;
}
/* Such a release takes nothing back: the block is the test's own. */
static void answer_release(uint32_t code, uint32_t state) {
  static _Alignas(64) uint8_t block[64];
  puppet.address = block;
  puppet.own_release = 1;
  puppet.release_answer = nx_puppet_status(code);
  puppet.outcome = (NxmemReleaseOutcome){.struct_size = sizeof puppet.outcome, .state = state};
}
static void state_9(void) { answer_release(NXMEM_STATUS_OK, 9); }
static void state_unwritten(void) { answer_release(NXMEM_STATUS_OK, NXMEM_UNWRITTEN_STATE); }
static void state_quarantined(void) { answer_release(NXMEM_STATUS_OK, NXMEM_RELEASE_QUARANTINED); }
static void failed_without_reason(void) { answer_release(NXMEM_STATUS_OK, NXMEM_RELEASE_FAILED); }
static void complete_and_failed(void) { answer_release(NXMEM_STATUS_DEVICE_ERROR, NXMEM_RELEASE_COMPLETE); }

/* ---- Unloading --------------------------------------------------------------------------------------------------- */

static void report(NxmemUnloadReport written) {
  puppet.own_report = 1;
  puppet.report = written;
}
static void report_view(void) { report((NxmemUnloadReport){48, 0, 0, 0, 1, 0, 0}); }
static void report_below_zero(void) { report((NxmemUnloadReport){48, 0, 0, ALL_ONES - 1, 0, 0, 0}); }
static void report_unwritten(void) { report((NxmemUnloadReport){48, 0, 0, 0, 0, ALL_ONES, 0}); }
static void report_short(void) { report((NxmemUnloadReport){40, 0, 0, 0, 0, 0, 0}); }
static void report_failed(void) { puppet.query_code = NXMEM_STATUS_DEVICE_ERROR; }

static const word_row word_rows[] = {
    {"no agreed version", 0, no_version, ", agreed_major: the agreed major version is out of range (left unwritten"},
    {"a lying version: whose fault", 0, far_minor, "; the plugin's answer breaks the contract: report it"},
    {"a lying version: the bound", 0, far_minor, "(found 7, needed at most 1)"},
    {"no range with an answer", 0, no_range, ", plugin_range was left unwritten, agreed_major: "},
    {"no range with a refusal", 0, refused_without_range, "1.0 to 1.1, the plugin reports no range: "},
    {"a refusal: what to do", 0, refused_without_range, "; use a plugin and a host that share a version"},
    {"a hole in the list", 0, hole, "enumerate: entry 1 is NULL; "},
    {"one table twice", 0, twice, "enumerate: entries 1 and 2 are the same table; "},
    {"one name twice", 0, same_name, "factories 0 and 1 are both named \"puppet\" on host:0; "},
    {"no count", 0, no_count, ", out_count: more factories reported than a plugin may publish (left unwritten, "},
    {"too many", 0, too_many, "(found 65, needed at most 64)"},
    {"a factory without a name", 0, no_name, "factory 0, name: pointer is NULL; "},
    {"a control character", 0, tab_in_name,
     "factory 0, name: the name has a control character at byte 1 (found 0x9); "},
    {"a factory that cannot open", 0, no_open, "factory 0, open_allocator: a required slot is NULL; "},
    {"an unknown tier", 0, tier_5, "(found 5, needed at most 2)"},
    {"two devices of one name", 0, two_devices,
     "set options.device to one; there is: puppet (host:0), puppet (host:1)"},
    {"nothing to open", 0, nothing_published, "no such mechanism; there is: none; "},
    {"another device", 0, other_device, ", device: the device is another one (found disk:3, needed host:0)"},
    {"a missing slot", 0, no_retain, "allocator table, retain: a required slot is NULL; "},
    {"new bits in an old table", 0, old_table, "capabilities of a table whose abi_minor is 0, capability_flags: "},
    {"a count unwritten", 0, numbers_unwritten, ", mapped_bytes: a byte count that carries the total past 2^63 (left "},
    {"a state that does not exist", 0, state_9, "quarantined, outcome.state is none that exists: plugin answered OK"},
    {"a state unwritten", 0, state_unwritten, "quarantined, outcome.state was left unwritten: "},
    {"a quarantine by its state", 0, state_quarantined, "quarantined, outcome.state is QUARANTINED: "},
    {"a failure without a reason", 0, failed_without_reason, "FAILED and outcome.failure gives no reason: "},
    {"complete and failed", 0, complete_and_failed, "outcome.state is COMPLETE beside a failure: "},
    {"a view left", 0, report_view, " (plugin: 1 views; host: nothing), live_views: the plugin still holds objects"},
    {"a view left: what to do", 0, report_view, "; the host has given all back: the plugin must count down"},
    {"below zero", 0, report_below_zero, "; the plugin counted below zero: report it to its author"},
    {"an axis unwritten", 0, report_unwritten, "unwritten capabilities; host: nothing), live_capabilities: the unload"},
    {"an axis unwritten: whose fault", 0, report_unwritten, "; the plugin's report breaks the contract: report it"},
    {"a short report", 0, report_short, "(found 40, needed at least 48); the plugin's report breaks the contract"},
    {"a failed query", 0, report_failed, "(found DEVICE_ERROR, 7); nothing was lost"},
};

/* From a file to the end, up to the first refusal, whose line stands in *error. */
static nxmem_result use(nxmem_plugin plugin, nxmem_error *error) {
  const nxmem_open_options options = {.mechanism = "puppet"};
  nxmem_allocator allocator;
  nxmem_allocation allocation;
  nxmem_result r = nxmem_allocator_open(plugin, &options, &allocator, error);
  if (r != NXMEM_OK) return r;
  r = nxmem_allocate(allocator, 64, 8, NULL, &allocation, error);
  if (r == NXMEM_OK) r = nxmem_release(allocator, allocation, NULL, error);
  assert_int_equal(nxmem_allocator_close(allocator, NXMEM_CLOSE_RELEASE_LIVE, NULL), NXMEM_OK);
  return r;
}

static nxmem_result play(nxmem_host host, nxmem_error *error) {
  nxmem_plugin plugin;
  nxmem_result r = nxmem_plugin_open(host, nx_puppet_copy(), &plugin, error);
  if (r != NXMEM_OK) return r;
  r = use(plugin, error);
  if (r == NXMEM_OK) r = nxmem_plugin_try_unload(plugin, NULL, error);
  if (r != NXMEM_OK) assert_int_equal(nxmem_plugin_destroy(plugin, NULL, NULL), NXMEM_OK);
  return r;
}

static void assert_says(const nxmem_error *error, const char *phrase) {
  nx_assert_line(error->message, sizeof error->message);
  if (strstr(error->message, phrase) == NULL) fail_msg("found \"%s\", needed \"%s\" in it", error->message, phrase);
}

static void test_words(void **state) {
  const word_row *row = *state;
  nx_puppet_reset();
  row->arrange();
  nxmem_host host = nx_host_in(NXMEM_FETCH_GUARDED);
  nxmem_error error = nx_blank_error();
  assert_int_not_equal(play(host, &error), NXMEM_OK);
  assert_says(&error, row->says);
  nx_host_gone(host);
}

/* ---- What keeps a module for good -------------------------------------------------------------------------------- */

static void test_kept_for_good(void **state) {
  (void)state;
  nx_puppet_reset();
  nx_stage stage = nx_stage_set(NXMEM_FETCH_GUARDED);
  const nxmem_allocation allocation = nx_must_allocate(stage.allocator, 64, 8);
  nxmem_error error = nx_blank_error();
  nx_assert_code(nxmem_plugin_try_unload(stage.plugin, NULL, &error), &error, NXMEM_ERR_BUSY);
  assert_says(&error, " (plugin: 1 allocators, 1 allocations; host: 1 allocators, 1 allocations), live_allocators: ");
  assert_says(&error, "; nothing was lost: finish what is open and try again");
  state_quarantined();
  nx_assert_code(nxmem_release(stage.allocator, allocation, NULL, &error), &error, NXMEM_ERR_QUARANTINED);
  nx_must_close(stage.allocator);
  report((NxmemUnloadReport){48, 0, 0, 0, 0, 0, 0});
  nx_assert_code(nxmem_plugin_try_unload(stage.plugin, NULL, &error), &error, NXMEM_ERR_BUSY);
  assert_says(&error, " (plugin: nothing; host: 1 allocations), allocations: the host still holds objects");
  assert_says(&error, "keeps the module mapped for good: destroy the handle");
  nx_force_leak(stage.host, stage.plugin, stage.path);
  nx_host_gone(stage.host);
}

/* ---- What the loader refuses ------------------------------------------------------------------------------------- */

static void assert_not_loaded(const char *library, nxmem_result want, const char *phrase) {
  nxmem_host host = nx_host_in(NXMEM_FETCH_GUARDED);
  nxmem_error error = nx_blank_error();
  nxmem_plugin plugin;
  const char *path = nx_plugin_copy(library);
  nx_assert_code(nxmem_plugin_open(host, path, &plugin, &error), &error, want);
  assert_says(&error, phrase);
  const char *first = strstr(error.message, path);
  assert_non_null(first);
  assert_null(strstr(first + 1, path));
  nx_host_gone(host);
}

static void test_undefined(void **state) {
  (void)state;
  assert_not_loaded("libnxmem_test_undefined.so", NXMEM_ERR_CANNOT_OPEN, "-Wl,-z,defs");
}

static void test_data(void **state) {
  (void)state;
  assert_not_loaded("libnxmem_test_data_export.so", NXMEM_ERR_MISSING_SYMBOL, "NxmemNegotiate is no function");
}

int main(void) {
  alarm(100);
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(word_rows), test_words);
  nx_suite_add(&suite, "what keeps a module for good", test_kept_for_good, NULL);
  nx_suite_add(&suite, "an undefined symbol, its file named once", test_undefined, NULL);
  nx_suite_add(&suite, "an export that is data", test_data, NULL);
  return nx_suite_run(&suite, "host_words");
}
