/*
 * simulator_test.c: each rule of the simulated driver refuses what breaks it, and what it lets through really happens to pages.
 *
 * Attackers played: a plugin that calls the driver in every wrong way.
 * Promise: a refused call is counted and changes nothing that the driver holds.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake.h"

#define G (2ull << 20)

static const nx_fake *fake;
static const nx_cuda_calls *cu;
static nx_cuda_prop prop;

/* What every rule is broken on: two granules mapped side by side at the start of eight, a third handle not mapped. */
static nx_cuda_ptr space;
static nx_cuda_handle first, second, third;

static void must(nx_cuda_result result) { assert_int_equal(result, NX_CUDA_SUCCESS); }

static nx_cuda_result access_to(uint64_t at, uint64_t bytes, unsigned flags) {
  nx_cuda_access access = {prop.location, flags};
  return cu->cuMemSetAccess(at, bytes, &access, 1);
}

static int set_up(void **state) {
  (void)state;
  fake = nx_fake_driver();
  cu = &fake->cu;
  nx_fake_schedule("reset;devices=2");
  nx_fake_enter(0);
  prop = nx_fake_prop(0);
  must(cu->cuMemAddressReserve(&space, 8 * G, 0, 0, 0));
  must(cu->cuMemCreate(&first, G, &prop, 0));
  must(cu->cuMemCreate(&second, G, &prop, 0));
  must(cu->cuMemCreate(&third, G, &prop, 0));
  must(cu->cuMemMap(space, G, 0, first, 0));
  must(cu->cuMemMap(space + G, G, 0, second, 0));
  must(access_to(space, 2 * G, NX_CUDA_ACCESS_READ_WRITE));
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  nx_fake_schedule("reset;devices=2");
  must(cu->cuMemUnmap(space, 2 * G));
  must(cu->cuMemRelease(first));
  must(cu->cuMemRelease(second));
  must(cu->cuMemRelease(third));
  must(cu->cuMemAddressFree(space, 8 * G));
  nx_fake_leave(0);
  return 0;
}

/* ---- Rules ------------------------------------------------------------------------------------------------------- */

static nx_cuda_result init_flags(void) { return cu->cuInit(1); }
static nx_cuda_result device_beyond(void) { return cu->cuDeviceGet(&(nx_cuda_device){0}, 2); }
static nx_cuda_result retain_beyond(void) { return cu->cuDevicePrimaryCtxRetain(&(nx_cuda_context){0}, 2); }
static nx_cuda_result release_unretained(void) { return cu->cuDevicePrimaryCtxRelease(1); }
static nx_cuda_result push_nothing(void) { return cu->cuCtxPushCurrent(NULL); }

static nx_cuda_result reserve_odd(void) { return cu->cuMemAddressReserve(&(nx_cuda_ptr){0}, G + 4096, 0, 0, 0); }
static nx_cuda_result reserve_none(void) { return cu->cuMemAddressReserve(&(nx_cuda_ptr){0}, 0, 0, 0, 0); }
static nx_cuda_result reserve_align(void) { return cu->cuMemAddressReserve(&(nx_cuda_ptr){0}, G, 3 * G, 0, 0); }
static nx_cuda_result free_part(void) { return cu->cuMemAddressFree(space, 4 * G); }
static nx_cuda_result free_inside(void) { return cu->cuMemAddressFree(space + G, 7 * G); }
static nx_cuda_result free_mapped(void) { return cu->cuMemAddressFree(space, 8 * G); }
static nx_cuda_result free_strange(void) { return cu->cuMemAddressFree(G, G); }

static nx_cuda_result create_odd(void) { return cu->cuMemCreate(&(nx_cuda_handle){0}, G / 2, &prop, 0); }
static nx_cuda_result create_none(void) { return cu->cuMemCreate(&(nx_cuda_handle){0}, 0, &prop, 0); }
static nx_cuda_result create_flags(void) { return cu->cuMemCreate(&(nx_cuda_handle){0}, G, &prop, 1); }
static nx_cuda_result create_type(void) {
  nx_cuda_prop other = prop;
  other.type = 0;
  return cu->cuMemCreate(&(nx_cuda_handle){0}, G, &other, 0);
}
static nx_cuda_result create_elsewhere(void) {
  nx_cuda_prop other = nx_fake_prop(1);
  return cu->cuMemCreate(&(nx_cuda_handle){0}, G, &other, 0);
}
static nx_cuda_result release_strange(void) { return cu->cuMemRelease(1ull << 60); }
static nx_cuda_result release_twice(void) {
  nx_cuda_handle handle;
  must(cu->cuMemCreate(&handle, G, &prop, 0));
  must(cu->cuMemRelease(handle));
  return cu->cuMemRelease(handle);
}

static nx_cuda_result map_over(void) { return cu->cuMemMap(space + G, G, 0, third, 0); }
static nx_cuda_result map_odd(void) { return cu->cuMemMap(space + 2 * G + 4096, G, 0, third, 0); }
static nx_cuda_result map_offset(void) { return cu->cuMemMap(space + 2 * G, G, G, third, 0); }
static nx_cuda_result map_beyond_handle(void) { return cu->cuMemMap(space + 2 * G, 2 * G, 0, third, 0); }
static nx_cuda_result map_beyond_space(void) { return cu->cuMemMap(space + 8 * G, G, 0, third, 0); }
static nx_cuda_result map_strange(void) { return cu->cuMemMap(space + 2 * G, G, 0, 1ull << 60, 0); }
static nx_cuda_result map_released(void) {
  nx_cuda_handle handle;
  must(cu->cuMemCreate(&handle, G, &prop, 0));
  must(cu->cuMemRelease(handle));
  return cu->cuMemMap(space + 2 * G, G, 0, handle, 0);
}

static nx_cuda_result unmap_half(void) { return cu->cuMemUnmap(space, G / 2); }
static nx_cuda_result unmap_part_of_two(void) {
  nx_cuda_handle wide;
  must(cu->cuMemCreate(&wide, 2 * G, &prop, 0));
  must(cu->cuMemMap(space + 4 * G, 2 * G, 0, wide, 0));
  must(cu->cuMemRelease(wide));
  nx_cuda_result result = cu->cuMemUnmap(space + 4 * G, G);
  must(cu->cuMemUnmap(space + 4 * G, 2 * G));
  return result;
}
/* As long as a mapping, and from the middle of one to the middle of the next. */
static nx_cuda_result unmap_from_the_middle(void) {
  nx_cuda_handle wide[2];
  for (int i = 0; i < 2; i++) {
    must(cu->cuMemCreate(&wide[i], 2 * G, &prop, 0));
    must(cu->cuMemMap(space + (4 + 2 * (uint64_t)i) * G, 2 * G, 0, wide[i], 0));
    must(cu->cuMemRelease(wide[i]));
  }
  nx_cuda_result result = cu->cuMemUnmap(space + 5 * G, 2 * G);
  must(cu->cuMemUnmap(space + 4 * G, 4 * G));
  return result;
}
static nx_cuda_result unmap_from_inside(void) { return cu->cuMemUnmap(space + 4096, G); }
static nx_cuda_result unmap_unmapped(void) { return cu->cuMemUnmap(space + 2 * G, G); }
static nx_cuda_result unmap_beyond(void) { return cu->cuMemUnmap(space, 3 * G); }
static nx_cuda_result unmap_none(void) { return cu->cuMemUnmap(space, 0); }

static nx_cuda_result access_unmapped(void) { return access_to(space, 3 * G, NX_CUDA_ACCESS_READ); }
static nx_cuda_result access_half(void) { return access_to(space, G / 2, NX_CUDA_ACCESS_READ); }
static nx_cuda_result access_unknown(void) { return access_to(space, G, 2); }
static nx_cuda_result access_elsewhere(void) {
  nx_cuda_access access = {{NX_CUDA_LOCATION_DEVICE, 1}, NX_CUDA_ACCESS_READ};
  return cu->cuMemSetAccess(space, G, &access, 1);
}

static nx_cuda_result query_strange(void) { return cu->cuEventQuery((nx_cuda_event)&space); }
static nx_cuda_result destroy_twice(void) {
  nx_cuda_event event;
  must(cu->cuEventCreate(&event, NX_CUDA_EVENT_DISABLE_TIMING));
  must(cu->cuEventDestroy(event));
  return cu->cuEventDestroy(event);
}
static nx_cuda_result record_strange_stream(void) {
  nx_cuda_event event;
  must(cu->cuEventCreate(&event, 0));
  nx_cuda_result result = cu->cuEventRecord(event, (nx_cuda_stream)&space);
  must(cu->cuEventDestroy(event));
  return result;
}
static nx_cuda_result attribute_unknown(void) { return cu->cuDeviceGetAttribute(&(int){0}, 9999, 0); }

/* Another device's context is current. */
static nx_cuda_result unmap_elsewhere(void) {
  nx_fake_enter(1);
  nx_cuda_result result = cu->cuMemUnmap(space, G);
  nx_fake_leave(1);
  return result;
}

/* Whatever this does is done by a thread that never had a context. */
static void *unmap_in_thread(void *out) {
  *(nx_cuda_result *)out = cu->cuMemUnmap(space, G);
  return NULL;
}
static nx_cuda_result unmap_without_context(void) {
  pthread_t thread;
  nx_cuda_result result = NX_CUDA_SUCCESS;
  assert_int_equal(pthread_create(&thread, NULL, unmap_in_thread, &result), 0);
  pthread_join(thread, NULL);
  return result;
}
static void *pop_in_thread(void *out) {
  *(nx_cuda_result *)out = cu->cuCtxPopCurrent(NULL);
  return NULL;
}
static nx_cuda_result pop_empty(void) {
  pthread_t thread;
  nx_cuda_result result = NX_CUDA_SUCCESS;
  assert_int_equal(pthread_create(&thread, NULL, pop_in_thread, &result), 0);
  pthread_join(thread, NULL);
  return result;
}

typedef struct rule_row {
  const char *name;
  nx_cuda_result (*breaks)(void);
  nx_cuda_result code;
} rule_row;

static const rule_row rules[] = {
    {"init with flags", init_flags, NX_CUDA_INVALID_VALUE},
    {"device beyond the last", device_beyond, NX_CUDA_INVALID_DEVICE},
    {"context of a device beyond the last", retain_beyond, NX_CUDA_INVALID_DEVICE},
    {"context released that nobody retains", release_unretained, NX_CUDA_INVALID_CONTEXT},
    {"push of nothing", push_nothing, NX_CUDA_INVALID_CONTEXT},
    {"pop of an empty stack", pop_empty, NX_CUDA_INVALID_CONTEXT},
    {"attribute unknown", attribute_unknown, NX_CUDA_INVALID_VALUE},
    {"reserve: no multiple", reserve_odd, NX_CUDA_INVALID_VALUE},
    {"reserve: nothing", reserve_none, NX_CUDA_INVALID_VALUE},
    {"reserve: alignment is no power of two", reserve_align, NX_CUDA_INVALID_VALUE},
    {"free: part of a reservation", free_part, NX_CUDA_INVALID_VALUE},
    {"free: from inside", free_inside, NX_CUDA_INVALID_VALUE},
    {"free: something is mapped", free_mapped, NX_CUDA_INVALID_VALUE},
    {"free: nobody's", free_strange, NX_CUDA_INVALID_VALUE},
    {"create: no multiple", create_odd, NX_CUDA_INVALID_VALUE},
    {"create: nothing", create_none, NX_CUDA_INVALID_VALUE},
    {"create: flags", create_flags, NX_CUDA_INVALID_VALUE},
    {"create: unknown type", create_type, NX_CUDA_INVALID_VALUE},
    {"create: on another device than the context's", create_elsewhere, NX_CUDA_INVALID_DEVICE},
    {"release: unknown handle", release_strange, NX_CUDA_INVALID_VALUE},
    {"release: twice", release_twice, NX_CUDA_INVALID_VALUE},
    {"map: over a mapping", map_over, NX_CUDA_INVALID_VALUE},
    {"map: no multiple", map_odd, NX_CUDA_INVALID_VALUE},
    {"map: offset", map_offset, NX_CUDA_INVALID_VALUE},
    {"map: more than the handle has", map_beyond_handle, NX_CUDA_INVALID_VALUE},
    {"map: behind the reservation", map_beyond_space, NX_CUDA_INVALID_VALUE},
    {"map: unknown handle", map_strange, NX_CUDA_INVALID_VALUE},
    {"map: released handle", map_released, NX_CUDA_INVALID_VALUE},
    {"unmap: half a granule", unmap_half, NX_CUDA_INVALID_VALUE},
    {"unmap: half a mapping", unmap_part_of_two, NX_CUDA_INVALID_VALUE},
    {"unmap: from the middle of a mapping", unmap_from_the_middle, NX_CUDA_INVALID_VALUE},
    {"unmap: from inside", unmap_from_inside, NX_CUDA_INVALID_VALUE},
    {"unmap: not mapped", unmap_unmapped, NX_CUDA_INVALID_VALUE},
    {"unmap: run with a hole", unmap_beyond, NX_CUDA_INVALID_VALUE},
    {"unmap: nothing", unmap_none, NX_CUDA_INVALID_VALUE},
    {"unmap: another device's context", unmap_elsewhere, NX_CUDA_INVALID_VALUE},
    {"unmap: no context on this thread", unmap_without_context, NX_CUDA_INVALID_CONTEXT},
    {"access: run with a hole", access_unmapped, NX_CUDA_INVALID_VALUE},
    {"access: half a mapping", access_half, NX_CUDA_INVALID_VALUE},
    {"access: unknown kind", access_unknown, NX_CUDA_INVALID_VALUE},
    {"access: another device's", access_elsewhere, NX_CUDA_INVALID_DEVICE},
    {"event: unknown", query_strange, NX_CUDA_INVALID_HANDLE},
    {"event: destroyed twice", destroy_twice, NX_CUDA_INVALID_HANDLE},
    {"event: unknown stream", record_strange_stream, NX_CUDA_INVALID_HANDLE},
};

static void rule_refuses(void **state) {
  const rule_row *row = *state;
  fakecuda_counts before = nx_fake_counts(), after;
  assert_int_equal(row->breaks(), row->code);
  after = nx_fake_counts();
  assert_int_equal(after.rule_refusals, before.rule_refusals + 1);
  before.rule_refusals++;
  nx_fake_assert_clean(&before);
}

/* ---- What is let through ----------------------------------------------------------------------------------------- */

/* Whether a store, or a load, at that address ends a child by SIGSEGV. */
static int faults(uint64_t address, int store) {
  pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    volatile uint8_t *at = (volatile uint8_t *)(uintptr_t)address;
    if (store)
      *at = 1;
    else
      (void)*at;
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

static void pages_end_where_mappings_end(void **state) {
  (void)state;
  assert_false(faults(space, 1));
  assert_false(faults(space + 2 * G - 1, 1));
  assert_true(faults(space + 2 * G, 0));
  must(access_to(space, G, NX_CUDA_ACCESS_READ));
  assert_true(faults(space, 1));
  assert_false(faults(space, 0));
  must(access_to(space, G, NX_CUDA_ACCESS_NONE));
  assert_true(faults(space, 0));
  must(cu->cuMemMap(space + 2 * G, G, 0, third, 0));
  assert_true(faults(space + 2 * G, 0)); /* no access before it is set */
  must(cu->cuMemUnmap(space + 2 * G, G));
}

static void two_mappings_of_a_handle_share_bytes(void **state) {
  (void)state;
  volatile uint8_t *one = (volatile uint8_t *)(uintptr_t)space;
  volatile uint8_t *two = (volatile uint8_t *)(uintptr_t)(space + 4 * G);
  must(cu->cuMemMap(space + 4 * G, G, 0, first, 0));
  must(access_to(space + 4 * G, G, NX_CUDA_ACCESS_READ));
  one[77] = 0xA7;
  assert_int_equal(two[77], 0xA7);
  must(cu->cuMemUnmap(space + 4 * G, G));
}

static void handle_released_before_its_mapping(void **state) {
  (void)state;
  nx_cuda_handle handle;
  fakecuda_counts before = nx_fake_counts();
  must(cu->cuMemCreate(&handle, G, &prop, 0));
  must(cu->cuMemMap(space + 4 * G, G, 0, handle, 0));
  must(access_to(space + 4 * G, G, NX_CUDA_ACCESS_READ_WRITE));
  must(cu->cuMemRelease(handle));
  *(volatile uint8_t *)(uintptr_t)(space + 4 * G) = 9;
  assert_int_equal(nx_fake_counts().physical_bytes, before.physical_bytes + G);
  must(cu->cuMemUnmap(space + 4 * G, G));
  nx_fake_assert_clean(&before);
}

static void a_new_handle_shows_no_old_bytes(void **state) {
  (void)state;
  nx_cuda_handle handle;
  for (int i = 0; i < 3; i++) {
    volatile uint8_t *at = (volatile uint8_t *)(uintptr_t)(space + 4 * G);
    must(cu->cuMemCreate(&handle, G, &prop, 0));
    must(cu->cuMemMap(space + 4 * G, G, 0, handle, 0));
    must(access_to(space + 4 * G, G, NX_CUDA_ACCESS_READ_WRITE));
    assert_int_equal(at[5], 0);
    at[5] = 1;
    must(cu->cuMemUnmap(space + 4 * G, G));
    must(cu->cuMemRelease(handle));
  }
}

static void a_run_of_whole_mappings_goes_in_one_call(void **state) {
  (void)state;
  must(cu->cuMemMap(space + 2 * G, G, 0, third, 0));
  must(access_to(space, 3 * G, NX_CUDA_ACCESS_READ_WRITE));
  must(cu->cuMemUnmap(space + G, 2 * G));
  must(cu->cuMemMap(space + G, G, 0, second, 0));
  must(access_to(space, 2 * G, NX_CUDA_ACCESS_READ_WRITE));
}

static void reservations_are_aligned(void **state) {
  (void)state;
  for (uint64_t align = G; align <= (1ull << 30); align *= 2) {
    nx_cuda_ptr at;
    must(cu->cuMemAddressReserve(&at, G, align, 0, 0));
    assert_int_equal(at % align, 0);
    must(cu->cuMemAddressFree(at, G));
  }
}

static void a_device_runs_out_of_memory(void **state) {
  (void)state;
  nx_cuda_handle handle;
  nx_fake_schedule("memory=8388608"); /* four granules, three are held */
  must(cu->cuMemCreate(&handle, G, &prop, 0));
  assert_int_equal(cu->cuMemCreate(&(nx_cuda_handle){0}, G, &prop, 0), NX_CUDA_OUT_OF_MEMORY);
  must(cu->cuMemRelease(handle));
}

static void a_context_stays_under_another(void **state) {
  (void)state;
  nx_cuda_result (*current)(nx_cuda_context *);
  nx_cuda_context mine, seen;
  nx_fake_entry("cuCtxGetCurrent", &current, sizeof current);
  must(current(&mine));
  nx_fake_enter(1);
  must(current(&seen));
  assert_ptr_not_equal(seen, mine);
  nx_fake_leave(1);
  must(current(&seen));
  assert_ptr_equal(seen, mine);
}

static void events_go_with_their_context(void **state) {
  (void)state;
  nx_cuda_event event;
  fakecuda_counts before = nx_fake_counts();
  nx_fake_enter(1);
  must(cu->cuEventCreate(&event, 0));
  nx_fake_leave(1);
  nx_fake_assert_clean(&before);
}

static void a_forked_child_has_no_driver(void **state) {
  (void)state;
  pid_t child = fork();
  if (child == 0) _exit(cu->cuMemUnmap(space, G) == NX_CUDA_NOT_INITIALIZED ? 0 : 1);
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static const struct {
  const char *name;
  CMUnitTestFunction run;
} others[] = {
    {"pages end where mappings end", pages_end_where_mappings_end},
    {"two mappings of a handle share bytes", two_mappings_of_a_handle_share_bytes},
    {"a handle released before its mapping", handle_released_before_its_mapping},
    {"a new handle shows no old bytes", a_new_handle_shows_no_old_bytes},
    {"a run of whole mappings goes in one call", a_run_of_whole_mappings_goes_in_one_call},
    {"reservations are aligned", reservations_are_aligned},
    {"a device runs out of memory", a_device_runs_out_of_memory},
    {"a context stays under another", a_context_stays_under_another},
    {"events go with their context", events_go_with_their_context},
    {"a forked child has no driver", a_forked_child_has_no_driver},
};

int main(void) {
  struct CMUnitTest tests[sizeof rules / sizeof rules[0] + sizeof others / sizeof others[0]];
  size_t count = 0;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    tests[count++] = (struct CMUnitTest){rules[i].name, rule_refuses, set_up, tear_down, (void *)(uintptr_t)&rules[i]};
  }
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    tests[count++] = (struct CMUnitTest){others[i].name, others[i].run, set_up, tear_down, NULL};
  }
  return _cmocka_run_group_tests("cuda_simulator", tests, count, NULL, NULL);
}
