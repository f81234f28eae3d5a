/*
 * capture_test.c: a graph is being captured: one test for each place where the plugin would synchronise the device.
 *
 * Attackers played: a program that captures while other threads commit, release, drain, open and close.
 * Promise: while the gate is held nothing that ends a capture is called; what is refused is BUSY, changed nothing, and works afterwards.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loaded.h"

typedef uint32_t gate_fn(uint32_t);

static nx_loaded it;
static gate_fn *enter, *leave;

/* The captured program: the gate first, then the capture. */
static void begin(void) {
  assert_int_equal(enter(0), 0);
  nx_fake_schedule("capture");
}

static void end(void) {
  nx_fake_schedule("no-capture");
  assert_int_equal(leave(0), 0);
}

static void assert_busy(nxmem_result result, const nxmem_error *error) {
  if (result == NXMEM_ERR_BUSY) return;
  if (result != NXMEM_ERR_PLUGIN || error->plugin_status != NXMEM_STATUS_BUSY) {
    fail_msg("%s: %s", nxmem_result_name(result), result == NXMEM_OK ? "" : error->message);
  }
}

/* What a site does, tried while captured and again afterwards. */
typedef struct site_row {
  const char *name;
  void (*prepare)(void);
  nxmem_result (*run)(nxmem_error *error);
  void (*finish)(void);
} site_row;

static nxmem_allocation span;
static nxmem_prefix prefix;
static uint64_t number;

static void nothing(void) {}
static void make_span(void) { span = nx_span(&it, 8, 4); }
static void drop_span(void) { nx_release(&it, span); }
static void make_prefix(void) {
  nxmem_error error;
  nx_ok(nxmem_prefix_create(it.allocator, 2 * NX_GRANULE, &prefix, &error), &error);
}
static void drop_prefix(void) {
  nxmem_error error;
  nx_ok(nxmem_prefix_release(prefix, &error), &error);
}
static void make_prefix_and_span(void) {
  make_prefix();
  make_span();
}
static void drop_prefix_and_span(void) {
  drop_span();
  drop_prefix();
}
static void queue_span(void) {
  nxmem_error error;
  make_span();
  nx_ok(nxmem_enqueue_release(it.allocator, span, NULL, NULL, &error), &error);
}
static void nothing_queued(void) { assert_int_equal(nx_stats(&it).committed_bytes, 0); }

static nxmem_result allocate(nxmem_error *error) {
  return nxmem_allocate(it.allocator, 3 * NX_GRANULE, NX_GRANULE, NULL, &span, error);
}
static nxmem_result commit(nxmem_error *error) {
  return nxmem_commit(it.allocator, span, (NxmemByteRange){4 * NX_GRANULE, 4 * NX_GRANULE}, error);
}
static nxmem_result decommit(nxmem_error *error) {
  return nxmem_decommit(it.allocator, span, (NxmemByteRange){0, 2 * NX_GRANULE}, &number, error);
}
static nxmem_result release(nxmem_error *error) { return nxmem_release(it.allocator, span, NULL, error); }
static nxmem_result enqueue(nxmem_error *error) { return nxmem_enqueue_release(it.allocator, span, NULL, NULL, error); }
static nxmem_result create_prefix(nxmem_error *error) {
  return nxmem_prefix_create(it.allocator, 2 * NX_GRANULE, &prefix, error);
}
static nxmem_result release_prefix(nxmem_error *error) { return nxmem_prefix_release(prefix, error); }
static nxmem_result commit_prefix(nxmem_error *error) {
  nxmem_group_outcome outcome;
  return nxmem_prefix_commit(prefix, &span, 1, 6 * NX_GRANULE, &outcome, error);
}
static nxmem_result open_another(nxmem_error *error) {
  nxmem_allocator other;
  const NxmemDeviceId device = {NXMEM_TIER_DEVICE, 0};
  const nxmem_open_options options = {.mechanism = "cuda-vmm", .device = &device};
  nxmem_result result = nxmem_allocator_open(it.plugin, &options, &other, error);
  if (result == NXMEM_OK) nx_ok(nxmem_allocator_close(other, 0, error), error);
  return result;
}
static void drain_what_is_queued(void) {
  nxmem_error error;
  nx_ok(nxmem_drain_releases(it.allocator, 9, &number, &error), &error);
  nothing_queued();
}

static const site_row sites[] = {
    {"allocation", nothing, allocate, drop_span},
    {"commit", make_span, commit, drop_span},
    {"decommit", make_span, decommit, drop_span},
    {"release", make_span, release, nothing},
    {"enqueue", make_span, enqueue, drain_what_is_queued},
    {"prefix: create", nothing, create_prefix, drop_prefix},
    {"prefix: map", make_prefix_and_span, commit_prefix, drop_prefix_and_span},
};

static void site_is_busy(void **state) {
  const site_row *row = *state;
  nxmem_error error;
  nx_load_and_open(&it, "cuda-vmm-shared");
  nx_plugin_export(&it, "NxmemCudaCaptureEnter", &enter, sizeof enter);
  nx_plugin_export(&it, "NxmemCudaCaptureLeave", &leave, sizeof leave);
  row->prepare();
  fakecuda_counts before = nx_fake_counts();
  NxmemVmmStats stats = nx_stats(&it);
  begin();
  assert_busy(row->run(&error), &error);
  end();
  nx_fake_assert_clean(&before);
  NxmemVmmStats after = nx_stats(&it);
  assert_memory_equal(&after, &stats, sizeof stats);
  nx_ok(row->run(&error), &error);
  row->finish();
  nx_unload(&it);
}

/* A drain answers OK and retires nothing: what is queued stays so. */
static void drain_retires_nothing(void **state) {
  (void)state;
  nxmem_error error;
  number = 9;
  nx_load_and_open(&it, "cuda-vmm-shared");
  nx_plugin_export(&it, "NxmemCudaCaptureEnter", &enter, sizeof enter);
  nx_plugin_export(&it, "NxmemCudaCaptureLeave", &leave, sizeof leave);
  queue_span();
  fakecuda_counts before = nx_fake_counts();
  begin();
  nxmem_result result = nxmem_drain_releases(it.allocator, 9, &number, &error);
  if (result == NXMEM_OK)
    assert_int_equal(number, 0);
  else
    assert_busy(result, &error);
  end();
  nx_fake_assert_clean(&before);
  drain_what_is_queued();
  nx_unload(&it);
}

/* What opening had taken before it was refused goes with a later look. */
static void opening_is_busy(void **state) {
  (void)state;
  nxmem_error error;
  nx_load_and_open(&it, "cuda-vmm-shared");
  nx_plugin_export(&it, "NxmemCudaCaptureEnter", &enter, sizeof enter);
  nx_plugin_export(&it, "NxmemCudaCaptureLeave", &leave, sizeof leave);
  begin();
  assert_busy(open_another(&error), &error);
  assert_int_equal(nx_fake_counts().capture_breaks, it.before.capture_breaks);
  end();
  nx_ok(open_another(&error), &error);
  nx_unload(&it);
}

/* A child of fork has nothing to capture, and the gate that it inherited may be in the middle of anything. */
static void a_forked_child_is_refused(void **state) {
  (void)state;
  int status = 0;
  nx_load_and_open(&it, "cuda-vmm");
  nx_plugin_export(&it, "NxmemCudaCaptureEnter", &enter, sizeof enter);
  nx_plugin_export(&it, "NxmemCudaCaptureLeave", &leave, sizeof leave);
  assert_int_equal(enter(0), 0);
  const pid_t child = fork();
  if (child == 0) _exit(enter(0) == NXMEM_STATUS_DEVICE_ERROR && leave(0) == NXMEM_STATUS_DEVICE_ERROR ? 0 : 1);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  assert_int_equal(leave(0), 0);
  nx_unload(&it);
}

/* The last reference to a prefix goes while nothing may be unmapped: its pages go later. */
static void a_prefix_released_meanwhile_goes_later(void **state) {
  (void)state;
  nxmem_error error;
  nx_load_and_open(&it, "cuda-vmm-shared");
  nx_plugin_export(&it, "NxmemCudaCaptureEnter", &enter, sizeof enter);
  nx_plugin_export(&it, "NxmemCudaCaptureLeave", &leave, sizeof leave);
  make_prefix();
  begin();
  nxmem_result result = release_prefix(&error);
  assert_int_equal(nx_fake_counts().capture_breaks, it.before.capture_breaks);
  end();
  if (result != NXMEM_OK) {
    assert_busy(result, &error);
    drop_prefix();
  }
  nx_unload(&it);
}

/* The allocator goes while its reservation cannot: that goes with a later look. */
static void closing_keeps_what_it_cannot_give_back(void **state) {
  (void)state;
  nxmem_error error;
  nxmem_unload_info info;
  nx_load_and_open(&it, "cuda-vmm-shared");
  nx_plugin_export(&it, "NxmemCudaCaptureEnter", &enter, sizeof enter);
  nx_plugin_export(&it, "NxmemCudaCaptureLeave", &leave, sizeof leave);
  make_span();
  drop_span(); /* handles in the pool */
  begin();
  nx_ok(nxmem_allocator_close(it.allocator, 0, &error), &error);
  it.allocator.id = 0;
  assert_int_equal(nx_fake_counts().reservations, it.before.reservations + 1);
  assert_int_equal(nxmem_plugin_try_unload(it.plugin, &info, &error), NXMEM_ERR_BUSY);
  assert_int_equal(nx_fake_counts().capture_breaks, it.before.capture_breaks);
  end();
  nx_unload(&it);
}

/* ---- A capture that begins at any time ---------------------------------------------------------------------------- */

static atomic_int stop;

static void *capture_again_and_again(void *unused) {
  while (!atomic_load(&stop)) {
    begin();
    end();
    sched_yield();
  }
  return unused;
}

/* Commits whose second map fails must roll back whatever begins meanwhile: in one section. */
static void rollback_is_never_cut_off(void **state) {
  (void)state;
  pthread_t thread;
  int failed = 0;
  nx_load_and_open(&it, "cuda-vmm-shared");
  nx_plugin_export(&it, "NxmemCudaCaptureEnter", &enter, sizeof enter);
  nx_plugin_export(&it, "NxmemCudaCaptureLeave", &leave, sizeof leave);
  make_span();
  fakecuda_counts before = nx_fake_counts();
  atomic_store(&stop, 0);
  assert_int_equal(pthread_create(&thread, NULL, capture_again_and_again, NULL), 0);
  while (failed < 20) {
    nx_fake_schedule("fail=cuMemMap:3:800");
    nxmem_error error;
    nxmem_result result = commit(&error);
    assert_int_not_equal(result, NXMEM_OK);
    failed += result == NXMEM_ERR_PLUGIN && error.plugin_status != NXMEM_STATUS_BUSY;
    nx_fake_schedule("reset;devices=2");
  }
  atomic_store(&stop, 1);
  pthread_join(thread, NULL);
  nx_fake_schedule("reset;devices=2");
  fakecuda_counts now = nx_fake_counts();
  assert_int_equal(now.capture_breaks, before.capture_breaks);
  assert_int_equal(now.mappings, before.mappings);
  drop_span();
  nx_unload(&it);
}

int main(void) {
  nx_fake_driver();
  nx_fake_schedule("devices=2");
  struct CMUnitTest rows[sizeof sites / sizeof sites[0]];
  for (size_t i = 0; i < sizeof sites / sizeof sites[0]; i++) {
    rows[i] = (struct CMUnitTest){sites[i].name, site_is_busy, NULL, NULL, (void *)(uintptr_t)&sites[i]};
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(drain_retires_nothing),
                                     cmocka_unit_test(opening_is_busy),
                                     cmocka_unit_test(a_forked_child_is_refused),
                                     cmocka_unit_test(a_prefix_released_meanwhile_goes_later),
                                     cmocka_unit_test(closing_keeps_what_it_cannot_give_back),
                                     cmocka_unit_test(rollback_is_never_cut_off)};
  int failed = cmocka_run_group_tests_name("cuda_capture", rows, NULL, NULL);
  return failed + cmocka_run_group_tests_name("cuda_capture_more", tests, NULL, NULL);
}
