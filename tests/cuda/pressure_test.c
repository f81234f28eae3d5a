/*
 * pressure_test.c: a device with room for sixteen granules: what waits for its events gives nothing back, what is pooled does, the host is asked once.
 *
 * Attackers played: a device that is full.
 * Promise: pending bytes stay charged until they are unmapped; a refused allocation leaves nothing; what works once there is room works.
 */
#include "loaded.h"

static nx_loaded it;

static int set_up(void **state) {
  (void)state;
  nx_fake_driver();
  nx_fake_schedule("reset;memory=33554432");
  return 0;
}

static nxmem_result try_span(nxmem_allocator allocator, uint64_t granules, nxmem_allocation *out, nxmem_error *error) {
  const NxmemByteRange range = {0, granules * NX_GRANULE};
  const nxmem_allocate_options options = {&range, 1};
  return nxmem_allocate(allocator, granules * NX_GRANULE, NX_GRANULE, &options, out, error);
}

static void assert_out_of_memory(nxmem_result result, const nxmem_error *error) {
  assert_int_equal(result, NXMEM_ERR_PLUGIN);
  assert_int_equal(error->plugin_status, NXMEM_STATUS_OUT_OF_MEMORY);
}

static void what_is_pending_gives_nothing_back(void **state) {
  (void)state;
  nxmem_error error;
  nxmem_allocation more;
  uint64_t retired;
  nx_load_and_open(&it, "cuda-vmm");
  nxmem_allocation queued = nx_span(&it, 10, 10);
  nx_fake_schedule("delay-events");
  nx_ok(nxmem_enqueue_release(it.allocator, queued, NULL, NULL, &error), &error);
  assert_out_of_memory(try_span(it.allocator, 10, &more, &error), &error);
  nx_ok(nxmem_drain_releases(it.allocator, 9, &retired, &error), &error);
  assert_int_equal(retired, 0);
  assert_int_equal(nx_stats(&it).committed_bytes, 10 * NX_GRANULE); /* pending, and said to be there */
  assert_out_of_memory(try_span(it.allocator, 10, &more, &error), &error);
  assert_int_equal(nx_stats(&it).committed_bytes, 10 * NX_GRANULE);
  nx_fake_driver()->complete(9);
  nx_ok(nxmem_drain_releases(it.allocator, 9, &retired, &error), &error);
  assert_int_equal(retired, 1);
  nx_ok(try_span(it.allocator, 10, &more, &error), &error);
  nx_release(&it, more);
  nx_fake_schedule("no-delay");
  nx_unload(&it);
}

static void another_pool_is_trimmed(void **state) {
  (void)state;
  nxmem_error error;
  nxmem_allocator other;
  nxmem_allocation span;
  const NxmemDeviceId device = {NXMEM_TIER_DEVICE, 0};
  const nxmem_open_options options = {.mechanism = "cuda-vmm-shared", .device = &device};
  nx_load_and_open(&it, "cuda-vmm");
  nx_ok(nxmem_allocator_open(it.plugin, &options, &other, &error), &error);
  nx_release(&it, nx_span(&it, 12, 12));
  assert_true(nx_stats(&it).pool_bytes >= 8 * NX_GRANULE);
  nx_ok(try_span(other, 12, &span, &error), &error);
  assert_true(nx_stats(&it).pool_bytes <= 4 * NX_GRANULE);
  nx_ok(nxmem_release(other, span, NULL, &error), &error);
  nx_ok(nxmem_allocator_close(other, 0, &error), &error);
  nx_unload(&it);
}

/* ---- The host is asked ------------------------------------------------------------------------------------------- */

static nxmem_allocation spare;
static int asked;

static int give_spare(void *ctx, nxmem_allocator allocator, uint64_t bytes, uint64_t *reclaimed_out) {
  (void)ctx;
  asked++;
  *reclaimed_out = 0;
  if (spare.id == 0) return 0;
  nx_ok(nxmem_release(allocator, spare, NULL, NULL), NULL);
  spare.id = 0;
  *reclaimed_out = bytes;
  return 0;
}

static void the_host_is_asked_once(void **state) {
  (void)state;
  nxmem_error error;
  nxmem_allocation span;
  nxmem_host_options options;
  memset(&it, 0, sizeof it);
  it.before = nx_fake_counts();
  nxmem_host_options_default(&options);
  options.reclaim = give_spare;
  nx_ok(nxmem_host_create(&options, &it.host, &error), &error);
  nx_ok(nxmem_plugin_open(it.host, NXMEM_CUDAVMM, &it.plugin, &error), &error);
  nx_ok(nx_try_open(&it, "cuda-vmm", 0, &error), &error);
  spare = nx_span(&it, 10, 10);
  asked = 0;
  nx_ok(try_span(it.allocator, 12, &span, &error), &error);
  assert_int_equal(asked, 1);
  nxmem_allocation none;
  assert_out_of_memory(try_span(it.allocator, 12, &none, &error), &error);
  assert_int_equal(asked, 2);
  assert_int_equal(nx_stats(&it).committed_bytes, 12 * NX_GRANULE);
  nx_release(&it, span);
  nx_unload(&it);
}

#define TEST(function) cmocka_unit_test_setup(function, set_up)

int main(void) {
  const struct CMUnitTest tests[] = {TEST(what_is_pending_gives_nothing_back), TEST(another_pool_is_trimmed),
                                     TEST(the_host_is_asked_once)};
  return cmocka_run_group_tests_name("cuda_pressure", tests, NULL, NULL);
}
