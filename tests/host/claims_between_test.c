/*
 * claims_between_test.c: a claim that was possible when it was looked at, and is not any more when it is made. Linked with the host's objects, so that the test can stand
 * between the two.
 *
 * Attackers played: callers that release one allocation twice, unload through one handle twice, give a handle up while another thread unloads the module, call while another
 * closes.
 * Promise: of two claims one wins, and the other changes nothing; a call that lost does not reach the plugin, and one that never could win holds nobody up.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <unistd.h>

#include "objects.h"
#include "puppet.h"

int __real_nx_slot_move(nx_slot *slot, uint64_t handle, nxmem_slot_state from, nxmem_slot_state to);
int __wrap_nx_slot_move(nx_slot *slot, uint64_t handle, nxmem_slot_state from, nxmem_slot_state to);

static nx_stage stage;
static const nx_slot *watched; /* the next claim of it finds `meanwhile` done */
static void (*meanwhile)(void);

int __wrap_nx_slot_move(nx_slot *slot, uint64_t handle, nxmem_slot_state from, nxmem_slot_state to) {
  if (watched == slot) {
    watched = NULL;
    meanwhile();
  }
  return __real_nx_slot_move(slot, handle, from, to);
}

static void set(const nx_case *c) {
  nx_puppet_reset();
  stage = nx_stage_set(c->mode);
}

static void watch(const nx_slot *slot, void (*then)(void)) {
  assert_non_null(slot);
  watched = slot;
  meanwhile = then;
}

/* ---- One allocation ------------------------------------------------------------------------------------------------ */

static nxmem_allocation block;

static void release_it(void) { nx_must_release(stage.allocator, block); }

static void test_release(void **state) {
  set(*state);
  block = nx_must_allocate(stage.allocator, 64, 8);
  nxmem_error error = nx_blank_error();
  watch(nx_table_find(&nx_allocations, block.id), release_it);
  nx_assert_code(nxmem_release(stage.allocator, block, NULL, &error), &error, NXMEM_ERR_STALE_HANDLE);
  assert_null(watched);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION), 1);
  assert_int_equal(nx_counts(stage.host).live_allocations, 0);
  nx_stage_strike(&stage);
}

static void allocate_anew(void) {
  release_it();
  block = nx_must_allocate(stage.allocator, 64, 8);
}

/* Its slot is another allocation's by now, which nobody named. */
static void test_reused(void **state) {
  set(*state);
  block = nx_must_allocate(stage.allocator, 64, 8);
  const nxmem_allocation stale = block;
  nxmem_error error = nx_blank_error();
  watch(nx_table_find(&nx_allocations, block.id), allocate_anew);
  nx_assert_code(nxmem_release(stage.allocator, stale, NULL, &error), &error, NXMEM_ERR_STALE_HANDLE);
  assert_int_equal((uint32_t)block.id, (uint32_t)stale.id);
  assert_int_equal(nx_counts(stage.host).live_allocations, 1);
  nx_must_release(stage.allocator, block);
  nx_stage_strike(&stage);
}

/* ---- One allocator ------------------------------------------------------------------------------------------------- */

int __real_nxmem_is_claimable(uint64_t word, uint64_t handle);
int __wrap_nxmem_is_claimable(uint64_t word, uint64_t handle);

static uint64_t looked_at; /* the next look at this handle is followed by a close */
static nxmem_allocator to_close;
static nxmem_result close_result;

int __wrap_nxmem_is_claimable(uint64_t word, uint64_t handle) {
  const int claimable = __real_nxmem_is_claimable(word, handle);
  if (looked_at == handle && handle != 0u) {
    looked_at = 0u;
    close_result = nxmem_allocator_close(to_close, 0, NULL);
  }
  return claimable;
}

static nxmem_allocator caller_of;
static nxmem_result call_result;

static void *allocate_from(void *unused) {
  nxmem_allocation none;
  call_result = nxmem_allocate(caller_of, 64, 8, NULL, &none, NULL);
  return unused;
}

/* A thread that never called before has no stripe yet: it takes the longer way in. */
static void call(int first) {
  pthread_t thread;
  if (!first) {
    (void)allocate_from(NULL);
    return;
  }
  assert_int_equal(pthread_create(&thread, NULL, allocate_from, NULL), 0);
  pthread_join(thread, NULL);
}

typedef struct way_row {
  const char *name;
  nx_modes modes;
  int first;
} way_row;

static const way_row way_rows[] = {
    {"closed between a call's two looks", 0, 0},
    {"closed between the two looks of a thread's first call", 0, 1},
};

static void test_closed(void **state) {
  const nx_case *c = *state;
  const way_row *row = c->row;
  set(c);
  nx_must_release(stage.allocator, nx_must_allocate(stage.allocator, 64, 8)); /* this thread has called before */
  caller_of = to_close = stage.allocator;
  looked_at = caller_of.id;
  call(row->first);
  assert_int_equal(close_result, NXMEM_OK);
  assert_int_equal(call_result, NXMEM_ERR_STALE_HANDLE);
  assert_int_equal(nx_puppet_calls(NX_IN_ALLOCATE), 1);
  nx_must_unload(stage.plugin, stage.path);
  nx_host_gone(stage.host);
}

/* Its slot is another allocator's by now, whose close it must not hold up. */
static void test_stale(void **state) {
  set(*state);
  caller_of = stage.allocator;
  nx_must_close(stage.allocator);
  to_close = nx_must_open_mechanism(stage.plugin, "puppet");
  assert_int_equal((uint32_t)to_close.id, (uint32_t)caller_of.id);
  looked_at = caller_of.id;
  call(1);
  assert_int_equal(call_result, NXMEM_ERR_STALE_HANDLE);
  assert_int_equal(looked_at, 0);
  assert_int_equal(close_result, NXMEM_OK);
  nx_must_unload(stage.plugin, stage.path);
  nx_host_gone(stage.host);
}

/* ---- One module ---------------------------------------------------------------------------------------------------- */

static pthread_t other;
static pthread_barrier_t entered, leave;
static nxmem_plugin theirs;
static nxmem_result their_result;

static void stand_in_query(nx_place_inside place) {
  if (place != NX_IN_QUERY) return;
  puppet.inside = NULL;
  pthread_barrier_wait(&entered);
  pthread_barrier_wait(&leave);
}

static void *unload_theirs(void *unused) {
  their_result = nxmem_plugin_try_unload(theirs, NULL, NULL);
  return unused;
}

/* Another thread's unload has the module, and stands in the plugin. */
static void let_other_in(void) {
  puppet.inside = stand_in_query;
  assert_int_equal(pthread_create(&other, NULL, unload_theirs, NULL), 0);
  pthread_barrier_wait(&entered);
}

static void let_other_go(void) {
  pthread_barrier_wait(&leave);
  pthread_join(other, NULL);
  pthread_barrier_destroy(&entered);
  pthread_barrier_destroy(&leave);
}

static void set_module(const nx_case *c) {
  set(c);
  nx_must_close(stage.allocator);
  pthread_barrier_init(&entered, NULL, 2);
  pthread_barrier_init(&leave, NULL, 2);
}

static const nx_slot *slot_of_module(nxmem_plugin plugin) {
  nx_plugin *p = (nx_plugin *)(void *)nx_table_find(&nx_plugins, plugin.id);
  return nx_table_at(&nx_modules, atomic_load(&p->module));
}

static void test_one_handle(void **state) {
  set_module(*state);
  theirs = stage.plugin;
  nxmem_error error = nx_blank_error();
  watch(nx_table_find(&nx_plugins, stage.plugin.id), let_other_in);
  nx_assert_code(nxmem_plugin_try_unload(stage.plugin, NULL, &error), &error, NXMEM_ERR_BUSY);
  assert_non_null(strstr(error.message, "through the same handle"));
  let_other_go();
  assert_int_equal(their_result, NXMEM_ERR_BUSY); /* it saw this thread inside */
  nx_must_unload(stage.plugin, stage.path);
  nx_host_gone(stage.host);
}

/* Not given up: the module was not even asked. */
static void test_destroy(void **state) {
  set_module(*state);
  theirs = nx_must_open(stage.host, stage.path);
  nxmem_error error = nx_blank_error();
  watch(slot_of_module(stage.plugin), let_other_in);
  nx_assert_code(nxmem_plugin_destroy(stage.plugin, NULL, &error), &error, NXMEM_ERR_BUSY);
  let_other_go();
  assert_int_equal(their_result, NXMEM_OK);
  assert_int_equal(nx_counts(stage.host).open_plugins, 1);
  assert_int_equal(nx_counts(stage.host).forced_leaks, 0);
  nx_must_unload(stage.plugin, stage.path);
  nx_host_gone(stage.host);
}

#define ONE(name, test) static const nx_row_head name##_rows[] = {{test, NX_BOTH_MODES}}
ONE(release, "released by another in between");
ONE(reused, "released, and its slot used again");
ONE(stale, "a stale handle beside a close");
ONE(handle, "unloaded through the same handle in between");
ONE(destroy, "given up while another unloads");

int main(void) {
  alarm(60);
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(release_rows), test_release);
  nx_suite_modes(&suite, ROWS(reused_rows), test_reused);
  nx_suite_modes(&suite, ROWS(way_rows), test_closed);
  nx_suite_modes(&suite, ROWS(stale_rows), test_stale);
  nx_suite_modes(&suite, ROWS(handle_rows), test_one_handle);
  nx_suite_modes(&suite, ROWS(destroy_rows), test_destroy);
  return nx_suite_run(&suite, "host_claims_between");
}
