/*
 * loaded.c: the shipped libnxmem_cudavmm.so behind the host library.
 *
 * Attackers: none.
 * Promise: what is opened here is closed here, and then the driver holds what it held before.
 */
#include "loaded.h"

void nx_ok(nxmem_result result, const nxmem_error *error) {
  if (result != NXMEM_OK) fail_msg("%s: %s", nxmem_result_name(result), error == NULL ? "" : error->message);
}

void nx_load(nx_loaded *loaded) {
  nxmem_error error;
  memset(loaded, 0, sizeof *loaded);
  nx_fake_driver();
  loaded->before = nx_fake_counts();
  nx_ok(nxmem_host_create(NULL, &loaded->host, &error), &error);
  nx_ok(nxmem_plugin_open(loaded->host, NXMEM_CUDAVMM, &loaded->plugin, &error), &error);
}

nxmem_result nx_try_open(nx_loaded *loaded, const char *mechanism, uint64_t required, nxmem_error *error) {
  const NxmemDeviceId device = {NXMEM_TIER_DEVICE, 0};
  const nxmem_open_options options = {.mechanism = mechanism, .device = &device, .required_capability_flags = required};
  return nxmem_allocator_open(loaded->plugin, &options, &loaded->allocator, error);
}

void nx_load_and_open(nx_loaded *loaded, const char *mechanism) {
  nxmem_error error;
  nx_load(loaded);
  nx_ok(nx_try_open(loaded, mechanism, 0, &error), &error);
}

void nx_unload(nx_loaded *loaded) {
  nxmem_error error;
  nxmem_unload_info info;
  if (loaded->allocator.id != 0) nx_ok(nxmem_allocator_close(loaded->allocator, 0, &error), &error);
  nx_ok(nxmem_plugin_try_unload(loaded->plugin, &info, &error), &error);
  assert_true(info.unmapped);
  nx_ok(nxmem_host_destroy(loaded->host, &error), &error);
  nx_fake_assert_clean(&loaded->before);
}

void nx_plugin_export(const nx_loaded *loaded, const char *name, void *function_out, size_t size) {
  nxmem_error error;
  void *address = NULL;
  nx_ok(nxmem_plugin_symbol(loaded->plugin, name, &address, &error), &error);
  memcpy(function_out, &address, size);
}

NxmemVmmStats nx_stats(const nx_loaded *loaded) {
  uint32_t (*statistics)(uint64_t, uint32_t, uint32_t, NxmemVmmStats *);
  NxmemVmmStats stats = {.struct_size = sizeof stats};
  nxmem_allocator_info info;
  nxmem_error error;
  nx_plugin_export(loaded, "NxmemVmmStatistics", &statistics, sizeof statistics);
  nx_ok(nxmem_allocator_get_info(loaded->allocator, &info, &error), &error);
  assert_int_equal(statistics(info.mechanism_id, info.device.tier, info.device.index, &stats), 0);
  return stats;
}

nxmem_allocation nx_span(const nx_loaded *loaded, uint64_t granules, uint64_t committed) {
  const NxmemByteRange range = {0, committed * NX_GRANULE};
  const nxmem_allocate_options options = {&range, 1};
  nxmem_allocation span;
  nxmem_error error;
  nx_ok(nxmem_allocate(loaded->allocator, granules * NX_GRANULE, NX_GRANULE, &options, &span, &error), &error);
  return span;
}

nxmem_result nx_commit_granules(const nx_loaded *loaded, nxmem_allocation span, uint64_t first, uint64_t count) {
  return nxmem_commit(loaded->allocator, span, (NxmemByteRange){first * NX_GRANULE, count * NX_GRANULE}, NULL);
}

nxmem_result nx_decommit_granules(const nx_loaded *loaded, nxmem_allocation span, uint64_t first, uint64_t count) {
  uint64_t unmapped;
  return nxmem_decommit(loaded->allocator, span, (NxmemByteRange){first * NX_GRANULE, count * NX_GRANULE}, &unmapped,
                        NULL);
}

void nx_release(const nx_loaded *loaded, nxmem_allocation allocation) {
  nxmem_error error;
  nx_ok(nxmem_release(loaded->allocator, allocation, NULL, &error), &error);
}

uint64_t nx_calls(const char *name) { return nx_fake_driver()->calls(name); }
void nx_clear_log(void) { nx_fake_driver()->clear_log(); }
