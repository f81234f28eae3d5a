/*
 * no_header_test.c: the plugin that never saw our header, driven through the host library from load to unmapping.
 *
 * Attackers: none here; it is the layout that is on trial.
 * Promise: each number the plugin writes at an offset comes out of the host under the right name.
 */
#include "nxmem.h"
#include "support.h"

typedef struct mode_row {
  const char *name;
  nxmem_fetch_mode fetch;
  uint32_t minor_max; /* what the host speaks */
} mode_row;

static const mode_row modes[] = {
    {"guarded fetch, 1.1", NXMEM_FETCH_GUARDED, 1},
    {"guarded fetch, a 1.0 host", NXMEM_FETCH_GUARDED, 0},
    {"direct fetch, 1.1", NXMEM_FETCH_DIRECT, 1},
    {"direct fetch, a 1.0 host", NXMEM_FETCH_DIRECT, 0},
};

typedef struct stage {
  nxmem_host host;
  nxmem_plugin plugin;
  nxmem_allocator allocator;
  nxmem_error error;
} stage;

#define OK(call) assert_int_equal((call), NXMEM_OK)

static void load(stage *s, const mode_row *mode) {
  nxmem_host_options options;
  nxmem_host_options_default(&options);
  options.fetch = mode->fetch;
  options.range.minor_max = mode->minor_max;
  OK(nxmem_host_create(&options, &s->host, &s->error));
  OK(nxmem_plugin_open(s->host, NO_HEADER_PLUGIN, &s->plugin, &s->error));
}

static void open_allocator(stage *s) {
  const nxmem_open_options options = {.mechanism = "no-header"};
  OK(nxmem_allocator_open(s->plugin, &options, &s->allocator, &s->error));
}

static void unload(stage *s) {
  nxmem_unload_info info;
  memset(&info, 0xC5, sizeof info);
  OK(nxmem_plugin_try_unload(s->plugin, &info, &s->error));
  assert_int_equal(info.unmapped, 1);
  assert_int_equal(info.references, 0);
  OK(nxmem_host_destroy(s->host, &s->error));
}

static void test_negotiated(void **state) {
  const mode_row *mode = *state;
  stage s;
  load(&s, mode);
  nxmem_plugin_info info;
  OK(nxmem_plugin_get_info(s.plugin, &info, &s.error));
  assert_int_equal(info.agreed_major, 1);
  assert_int_equal(info.agreed_minor, mode->minor_max);
  assert_int_equal(info.plugin_range.major_min, 1);
  assert_int_equal(info.plugin_range.major_max, 1);
  assert_int_equal(info.plugin_range.minor_min, 0);
  assert_int_equal(info.plugin_range.minor_max, 1);
  assert_int_equal(info.capability_flags, NXMEM_CAP_ALLOCATOR);
  assert_int_equal(info.mechanism_count, 1);
  unload(&s);
}

static void test_mechanism(void **state) {
  const mode_row *mode = *state;
  stage s;
  load(&s, mode);
  nxmem_mechanism_info info;
  OK(nxmem_plugin_mechanism(s.plugin, 0, &info, &s.error));
  assert_string_equal(info.name, "no-header");
  assert_int_equal(info.device.tier, NXMEM_TIER_HOST);
  assert_int_equal(info.device.index, 0);
  assert_int_equal(info.advertised_flags, NXMEM_CAP_ALLOCATOR);
  assert_int_equal(info.abi_minor, mode->minor_max);
  unload(&s);
}

static void assert_books(const stage *s, uint64_t live, uint64_t owned, uint64_t mapped) {
  nxmem_allocator_info info;
  OK(nxmem_allocator_get_info(s->allocator, &info, NULL));
  assert_int_equal(info.mechanism_id, 4242);
  assert_int_equal(info.device.tier, NXMEM_TIER_HOST);
  assert_int_equal(info.declared_flags, NXMEM_CAP_ALLOCATOR);
  assert_int_equal(info.effective_flags, NXMEM_CAP_ALLOCATOR);
  assert_int_equal(info.live_allocations, live);
  assert_int_equal(info.owned_bytes, owned);
  assert_int_equal(info.mapped_bytes, mapped);
}

/* Owned and mapped differ, so that swapped offsets show. */
static void test_allocate_and_release(void **state) {
  stage s;
  load(&s, *state);
  open_allocator(&s);
  assert_books(&s, 0, 0, 0);
  nxmem_allocation a;
  nxmem_allocation b;
  OK(nxmem_allocate(s.allocator, 100, 16, NULL, &a, &s.error));
  assert_books(&s, 1, 128, 4096);
  OK(nxmem_allocate(s.allocator, 5000, 256, NULL, &b, &s.error));
  assert_books(&s, 2, 128 + 5120, 4096 + 8192);
  assert_int_equal((uintptr_t)a.ptr % 16, 0);
  assert_int_equal((uintptr_t)b.ptr % 256, 0);
  memset(a.ptr, 0x11, 100);
  memset(b.ptr, 0x22, 5000);
  for (size_t i = 0; i < 100; i++) assert_int_equal(((uint8_t *)a.ptr)[i], 0x11);
  OK(nxmem_release(s.allocator, a, NULL, &s.error));
  assert_books(&s, 1, 5120, 8192);
  const nxmem_release_options named = {5000, 256};
  OK(nxmem_release(s.allocator, b, &named, &s.error));
  assert_books(&s, 0, 0, 0);
  OK(nxmem_allocator_close(s.allocator, 0, &s.error));
  unload(&s);
}

/* The plugin's own report is what the gate shows, axis by axis. */
static void test_gate(void **state) {
  stage s;
  load(&s, *state);
  open_allocator(&s);
  nxmem_allocation taken[2];
  for (size_t i = 0; i < 2; i++) OK(nxmem_allocate(s.allocator, 64, 64, NULL, &taken[i], &s.error));
  nxmem_unload_info info;
  assert_int_equal(nxmem_plugin_try_unload(s.plugin, &info, &s.error), NXMEM_ERR_BUSY);
  assert_int_equal(info.plugin_status, NXMEM_STATUS_OK);
  assert_int_equal(info.plugin.live_allocators, 1);
  assert_int_equal(info.plugin.live_allocations, 2);
  assert_int_equal(info.plugin.live_views, 0);
  assert_int_equal(info.plugin.live_capabilities, 0);
  assert_int_equal(info.plugin.queued_releases, 0);
  assert_int_equal(info.reason, NXMEM_REASON_PLUGIN_HOLDS);
  assert_int_equal(info.axis, 8);
  assert_int_equal(info.unmapped, 0);
  OK(nxmem_allocator_close(s.allocator, NXMEM_CLOSE_RELEASE_LIVE, &s.error));
  unload(&s);
}

/* What the plugin refuses, it refuses by number. */
static void test_refusals(void **state) {
  stage s;
  load(&s, *state);
  open_allocator(&s);
  nxmem_allocation a;
  assert_int_equal(nxmem_allocate(s.allocator, UINT64_MAX / 2, 1, NULL, &a, &s.error), NXMEM_ERR_PLUGIN);
  assert_int_equal(s.error.plugin_status, NXMEM_STATUS_OUT_OF_MEMORY);
  OK(nxmem_allocate(s.allocator, 10, 1, NULL, &a, &s.error));
  OK(nxmem_release(s.allocator, a, NULL, &s.error));
  assert_int_equal(nxmem_release(s.allocator, a, NULL, &s.error), NXMEM_ERR_STALE_HANDLE);
  OK(nxmem_allocator_close(s.allocator, 0, &s.error));
  unload(&s);
}

static void add(nx_suite *suite, const char *what, CMUnitTestFunction run) {
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
    nx_suite_add(suite, nx_name("%s: %s", what, modes[i].name), run, &modes[i]);
}

int main(void) {
  nx_suite suite = {0};
  add(&suite, "what was agreed", test_negotiated);
  add(&suite, "what it publishes", test_mechanism);
  add(&suite, "allocate, write, release", test_allocate_and_release);
  add(&suite, "the unload gate shows its report", test_gate);
  add(&suite, "what it refuses", test_refusals);
  return nx_suite_run(&suite, "plugin without header");
}
