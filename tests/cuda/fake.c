/*
 * fake.c: finds the simulated driver as the plugin does.
 *
 * Attackers: none.
 * Promise: what a test asks for is there, or the test ends with what is missing.
 */
#define _GNU_SOURCE
#include "fake.h"

#include <dlfcn.h>

static void *library;

static void find(const char *name, void *function_out, size_t size) {
  void *address = dlsym(library, name);
  if (address == NULL) fail_msg("the simulator has no %s", name);
  memcpy(function_out, &address, size);
}

const nx_fake *nx_fake_driver(void) {
  static nx_fake fake;
  char why[NX_CUDA_WHY];
  if (library != NULL) return &fake;
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == NULL) fail_msg("%s", dlerror());
  if (!nx_cuda_load(&fake.cu, why)) fail_msg("%s", why);
  find("fakecuda_count", &fake.count, sizeof fake.count);
  find("fakecuda_schedule", &fake.schedule, sizeof fake.schedule);
  find("fakecuda_calls", &fake.calls, sizeof fake.calls);
  find("fakecuda_log", &fake.log, sizeof fake.log);
  find("fakecuda_clear_log", &fake.clear_log, sizeof fake.clear_log);
  find("fakecuda_complete", &fake.complete, sizeof fake.complete);
  find("fakecuda_store", &fake.store, sizeof fake.store);
  find("fakecuda_name", &fake.name, sizeof fake.name);
  return &fake;
}

void nx_fake_entry(const char *name, void *function_out, size_t size) {
  nx_cuda_get_proc_v2 *get;
  void *address = NULL;
  unsigned int status;
  nx_fake_driver();
  find("cuGetProcAddress_v2", &get, sizeof get);
  assert_int_equal(get(name, &address, 12000, 0, &status), NX_CUDA_SUCCESS);
  if (address == NULL) fail_msg("the simulator has no %s", name);
  memcpy(function_out, &address, size);
}

fakecuda_counts nx_fake_counts(void) {
  fakecuda_counts counts;
  nx_fake_driver()->count(&counts);
  return counts;
}

void nx_fake_schedule(const char *text) {
  int bad = nx_fake_driver()->schedule(text);
  if (bad != 0) fail_msg("item %d of \"%s\" is none", bad, text);
}

void nx_fake_assert_clean(const fakecuda_counts *before) {
  fakecuda_counts now = nx_fake_counts();
  assert_int_equal(now.reservations, before->reservations);
  assert_int_equal(now.handles, before->handles);
  assert_int_equal(now.mappings, before->mappings);
  assert_int_equal(now.physical_bytes, before->physical_bytes);
  assert_int_equal(now.events, before->events);
  assert_int_equal(now.retained, before->retained);
  assert_int_equal(now.rule_refusals, before->rule_refusals);
  assert_int_equal(now.capture_breaks, before->capture_breaks);
  assert_int_equal(now.calls_after_loss, before->calls_after_loss);
  assert_int_equal(now.context_depth, before->context_depth);
}

void nx_fake_enter(int device) {
  const nx_cuda_calls *cu = &nx_fake_driver()->cu;
  nx_cuda_context context;
  assert_int_equal(cu->cuInit(0), NX_CUDA_SUCCESS);
  assert_int_equal(cu->cuDevicePrimaryCtxRetain(&context, device), NX_CUDA_SUCCESS);
  assert_int_equal(cu->cuCtxPushCurrent(context), NX_CUDA_SUCCESS);
}

void nx_fake_leave(int device) {
  const nx_cuda_calls *cu = &nx_fake_driver()->cu;
  nx_cuda_context context;
  assert_int_equal(cu->cuCtxPopCurrent(&context), NX_CUDA_SUCCESS);
  assert_int_equal(cu->cuDevicePrimaryCtxRelease(device), NX_CUDA_SUCCESS);
}

nx_cuda_prop nx_fake_prop(int device) {
  nx_cuda_prop prop = {.type = NX_CUDA_ALLOCATION_PINNED, .location = {NX_CUDA_LOCATION_DEVICE, device}};
  return prop;
}
