/*
 * close_test.c: closing an allocator: one release, never under a call, never a wait.
 *
 * Attackers played: callers that close twice, with allocations live, from two threads, under a call; a plugin that
 * keeps allocations.
 * Promise: the table's release is called exactly once and last; a BUSY close can be tried again.
 */
#include <unistd.h>

#include "scripted_probe.h"
#include "staging.h"

static nxmem_error close_fails(nxmem_allocator allocator, uint32_t flags, nxmem_result want) {
  nxmem_error error = nx_blank_error();
  nx_assert_code(nxmem_allocator_close(allocator, flags, &error), &error, want);
  return error;
}

/* ---- With live allocations --------------------------------------------------------------------------------------- */

static void test_live(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  nx_stage stage = nx_stage_set(c->mode);
  nxmem_allocation three[3];
  for (int i = 0; i < 3; i++) three[i] = nx_must_allocate(stage.allocator, 64, 8);
  for (uint64_t left = 3; left > 0; left--) {
    assert_int_equal(close_fails(stage.allocator, 0, NXMEM_ERR_BUSY).found, left);
    assert_int_equal(nx_puppet_calls(NX_IN_RELEASE), 0);
    nx_must_release(stage.allocator, three[left - 1]);
  }
  nx_stage_strike(&stage);
}

static void test_hand_back(void **state) {
  const nx_case *c = *state;
  enum { N = 50 };
  nx_puppet_reset();
  nx_stage stage = nx_stage_set(c->mode);
  nxmem_allocator other = nx_must_open_mechanism(stage.plugin, "puppet");
  const nxmem_allocation kept = nx_must_allocate(other, 64, 8);
  for (int i = 0; i < N; i++) (void)nx_must_allocate(stage.allocator, 64, 8);
  assert_int_equal(nxmem_allocator_close(stage.allocator, NXMEM_CLOSE_RELEASE_LIVE, NULL), NXMEM_OK);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION), N);
  assert_int_equal(nx_counts(stage.host).live_allocations, 1);
  assert_int_equal(nx_counts(stage.host).owned_bytes, 64);
  nx_must_release(other, kept);
  stage.allocator = other;
  nx_stage_strike(&stage);
}

/* What the plugin will not take back is quarantined: closed all the same, and charged to the module. */
static void test_hand_back_refused(void **state) {
  const nx_case *c = *state;
  nx_observe();
  const char *path = nx_plugin_copy("libnxmem_scripted.so");
  nxmem_host host = nx_host_in(c->mode);
  nxmem_plugin plugin = nx_must_open(host, path);
  nxmem_allocator allocator = nx_must_open_mechanism(plugin, "deallocate-refuses");
  for (int i = 0; i < 3; i++) (void)nx_must_allocate(allocator, 100, 8);
  assert_int_equal(nxmem_allocator_close(allocator, NXMEM_CLOSE_RELEASE_LIVE, NULL), NXMEM_OK);
  const nxmem_host_counts counts = nx_counts(host);
  assert_int_equal(counts.quarantined, 3);
  assert_int_equal(counts.quarantined_bytes, 300);
  assert_int_equal(counts.owned_bytes, 300);
  assert_int_equal(counts.live_allocations, 0);
  assert_int_equal(counts.open_allocators, 0);
  assert_int_equal(nx_seen[NX_PROBE_DEALLOCATE_CALLS], 3);
  assert_int_equal(nx_seen[NX_PROBE_ALLOCATORS_RELEASED], 1);
  const nxmem_unload_info info = nx_assert_unload_busy(plugin, NXMEM_REASON_PLUGIN_HOLDS, 16, 3);
  assert_int_equal(info.host_allocations, 3);
  nx_force_leak(host, plugin, path);
  nx_host_gone(host);
}

static void test_twice(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  nx_stage stage = nx_stage_set(c->mode);
  (void)close_fails(stage.allocator, 2, NXMEM_ERR_INVALID_ARGUMENT);
  (void)close_fails(stage.allocator, 0xFFFFFFFFu, NXMEM_ERR_INVALID_ARGUMENT);
  nxmem_allocator closed = stage.allocator;
  nx_must_close(closed);
  for (int i = 0; i < 3; i++) (void)close_fails(closed, 0, NXMEM_ERR_STALE_HANDLE);
  /* The slot's next owner is not harmed by the old handle. */
  stage.allocator = nx_must_open_mechanism(stage.plugin, "puppet");
  assert_int_equal(stage.allocator.id % (1ull << 32), closed.id % (1ull << 32));
  (void)close_fails(closed, NXMEM_CLOSE_RELEASE_LIVE, NXMEM_ERR_STALE_HANDLE);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE), 1);
  nx_stage_strike(&stage);
}

/* ---- Under a call ------------------------------------------------------------------------------------------------ */

/* A thread stands in allocate: close is BUSY, shuts the gate for new calls, and succeeds when tried again later. */
static void test_under_allocate(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  nx_stage stage = nx_stage_set(c->mode);
  nx_call call = {.run = nx_call_allocate, .stage = &stage};
  nx_hold_at(NX_IN_ALLOCATE);
  nx_call_start(&call);
  nx_hold_wait();
  assert_int_equal(close_fails(stage.allocator, 0, NXMEM_ERR_BUSY).found, 1);
  nxmem_allocation none;
  nxmem_error error = nx_blank_error();
  nx_assert_code(nxmem_allocate(stage.allocator, 64, 8, NULL, &none, &error), &error, NXMEM_ERR_BUSY);
  nxmem_allocator_info info;
  nx_assert_code(nxmem_allocator_get_info(stage.allocator, &info, &error), &error, NXMEM_ERR_BUSY);
  assert_int_equal(close_fails(stage.allocator, NXMEM_CLOSE_RELEASE_LIVE, NXMEM_ERR_BUSY).found, 1);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE), 0);
  nx_hold_let_go();
  assert_int_equal(nx_call_join(&call), NXMEM_OK);

  /* Its allocation is live now: BUSY for that reason, and the gate is open again. */
  assert_int_equal(close_fails(stage.allocator, 0, NXMEM_ERR_BUSY).found, 1);
  nx_must_release(stage.allocator, call.allocation);
  nx_stage_strike(&stage);
}

typedef struct shut_row {
  const char *name;
  nx_modes modes;
  uint32_t flags; /* of the close that is tried again */
} shut_row;

static const shut_row shut_rows[] = {
    {"the gate left shut, and closed again", 0, 0},
    {"the gate left shut, and closed with a hand-back", 0, NXMEM_CLOSE_RELEASE_LIVE},
};

static void assert_shut(const nx_stage *stage, nxmem_allocation live) {
  nxmem_allocation none = {0x5A5A, NULL};
  nxmem_allocator_info info;
  nxmem_error error = nx_blank_error();
  nx_assert_code(nxmem_allocate(stage->allocator, 64, 8, NULL, &none, &error), &error, NXMEM_ERR_BUSY);
  nx_assert_code(nxmem_release(stage->allocator, live, NULL, &error), &error, NXMEM_ERR_BUSY);
  nx_assert_code(nxmem_allocator_get_info(stage->allocator, &info, &error), &error, NXMEM_ERR_BUSY);
  nx_assert_code(nxmem_plugin_try_unload(stage->plugin, NULL, &error), &error, NXMEM_ERR_BUSY);
  assert_int_equal(none.id, 0x5A5A);
  assert_int_equal(nx_counts(stage->host).open_allocators, 1);
}

/*
 * A close that found a call inside: every call is BUSY, also when that call has left, until close is tried again; then
 * nothing was lost.
 */
static void test_shut(void **state) {
  const nx_case *c = *state;
  const shut_row *row = c->row;
  nx_puppet_reset();
  nx_stage stage = nx_stage_set(c->mode);
  const nxmem_allocation live = nx_must_allocate(stage.allocator, 64, 8);
  nx_call call = {.run = nx_call_allocate, .stage = &stage};
  nx_hold_at(NX_IN_ALLOCATE);
  nx_call_start(&call);
  nx_hold_wait();
  assert_int_equal(close_fails(stage.allocator, 0, NXMEM_ERR_BUSY).found, 1);
  assert_shut(&stage, live);
  nx_hold_let_go();
  assert_int_equal(nx_call_join(&call), NXMEM_OK);
  for (int i = 0; i < 3; i++) assert_shut(&stage, live);
  assert_int_equal(nx_counts(stage.host).live_allocations, 2);
  if (row->flags == 0) {
    assert_int_equal(close_fails(stage.allocator, 0, NXMEM_ERR_BUSY).found, 2); /* live ones: open again */
    nx_must_release(stage.allocator, live);
    nx_must_release(stage.allocator, call.allocation);
    nx_must_release(stage.allocator, nx_must_allocate(stage.allocator, 64, 8));
    nx_stage_strike(&stage);
    return;
  }
  assert_int_equal(nxmem_allocator_close(stage.allocator, row->flags, NULL), NXMEM_OK);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION), 2);
  stage.allocator = nx_must_open_mechanism(stage.plugin, "puppet");
  nx_stage_strike(&stage);
}

static void test_under_release(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  nx_stage stage = nx_stage_set(c->mode);
  nx_call call = {.run = nx_call_release, .stage = &stage};
  call.allocation = nx_must_allocate(stage.allocator, 64, 8);
  nx_hold_at(NX_IN_RELEASE_ALLOCATION);
  nx_call_start(&call);
  nx_hold_wait();
  nxmem_error error = nx_blank_error();
  nx_assert_code(nxmem_release(stage.allocator, call.allocation, NULL, &error), &error, NXMEM_ERR_BUSY);
  const nxmem_release_options wrong = {63, 8};
  nx_assert_code(nxmem_release(stage.allocator, call.allocation, &wrong, &error), &error, NXMEM_ERR_BUSY);
  (void)close_fails(stage.allocator, NXMEM_CLOSE_RELEASE_LIVE, NXMEM_ERR_BUSY);
  nx_hold_let_go();
  assert_int_equal(nx_call_join(&call), NXMEM_OK);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION), 1);
  nx_stage_strike(&stage);
}

/* Two closers: one is at work, the other is BUSY, later ones are stale. */
static void test_two_closers(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  nx_stage stage = nx_stage_set(c->mode);
  nx_call call = {.run = nx_call_close, .stage = &stage};
  nx_hold_at(NX_IN_RELEASE);
  nx_call_start(&call);
  nx_hold_wait();
  (void)close_fails(stage.allocator, 0, NXMEM_ERR_BUSY);
  nxmem_allocation none;
  nxmem_error error = nx_blank_error();
  nx_assert_code(nxmem_allocate(stage.allocator, 64, 8, NULL, &none, &error), &error, NXMEM_ERR_BUSY);
  /* Its module cannot go from under it. */
  const nxmem_unload_info info = nx_assert_unload_busy(stage.plugin, NXMEM_REASON_PLUGIN_HOLDS, 8, 1);
  assert_int_equal(info.host_allocators, 1);
  nx_hold_let_go();
  assert_int_equal(nx_call_join(&call), NXMEM_OK);
  (void)close_fails(stage.allocator, 0, NXMEM_ERR_STALE_HANDLE);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE), 1);
  nx_must_unload(stage.plugin, stage.path);
  nx_host_gone(stage.host);
}

/* A quarantined allocation does not keep the allocator open. */
static void test_quarantined(void **state) {
  const nx_case *c = *state;
  nx_observe();
  const char *path = nx_plugin_copy("libnxmem_scripted.so");
  nxmem_host host = nx_host_in(c->mode);
  nxmem_plugin plugin = nx_must_open(host, path);
  nxmem_allocator allocator = nx_must_open_mechanism(plugin, "no-outcome");
  const nxmem_allocation kept = nx_must_allocate(allocator, 100, 8);
  assert_int_equal(nxmem_release(allocator, kept, NULL, NULL), NXMEM_ERR_QUARANTINED);
  const nxmem_unload_info info = nx_assert_unload_busy(plugin, NXMEM_REASON_PLUGIN_HOLDS, 8, 1);
  assert_int_equal(info.host_allocators, 1);
  assert_int_equal(info.host_allocations, 1);
  nx_must_close(allocator);
  assert_int_equal(nx_seen[NX_PROBE_ALLOCATORS_RELEASED], 1);
  /* Another of the same module is free of it. */
  allocator = nx_must_open_mechanism(plugin, "eager");
  nxmem_error error = nx_blank_error();
  nx_assert_code(nxmem_release(allocator, kept, NULL, &error), &error, NXMEM_ERR_STALE_HANDLE);
  nx_must_close(allocator);
  assert_int_equal(nx_counts(host).quarantined, 1);
  nx_assert_unload_busy(plugin, NXMEM_REASON_HOST_HOLDS, NXMEM_AXIS_ALLOCATIONS, 1);
  nx_force_leak(host, plugin, path);
  nx_host_gone(host);
}

#define ONE(name, test) static const nx_row_head name##_rows[] = {{test, NX_BOTH_MODES}}
ONE(live, "three live allocations");
ONE(hand_back, "fifty handed back");
ONE(refused, "three that the plugin will not take");
ONE(twice, "closed twice, and with unknown flags");
ONE(allocating, "a thread inside allocate");
ONE(releasing, "a thread inside release");
ONE(closers, "two closers");
ONE(quarantined, "a quarantined allocation");

int main(void) {
  alarm(100);
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(live_rows), test_live);
  nx_suite_modes(&suite, ROWS(hand_back_rows), test_hand_back);
  nx_suite_modes(&suite, ROWS(refused_rows), test_hand_back_refused);
  nx_suite_modes(&suite, ROWS(twice_rows), test_twice);
  nx_suite_modes(&suite, ROWS(allocating_rows), test_under_allocate);
  nx_suite_modes(&suite, ROWS(shut_rows), test_shut);
  nx_suite_modes(&suite, ROWS(releasing_rows), test_under_release);
  nx_suite_modes(&suite, ROWS(closers_rows), test_two_closers);
  nx_suite_modes(&suite, ROWS(quarantined_rows), test_quarantined);
  return nx_suite_run(&suite, "host_close");
}
