/*
 * throughput.c: how long what the plugin does takes on a device, beside the driver's bare calls.
 *
 * Usage: gpu_throughput PLUGIN [REPEATS]. Prints the device's name and driver, then a line for each row: operations, microseconds each, name.
 * Exit: 0, 1 something failed, 2 usage, 3 no GPU.
 *
 * Attackers: none.
 * Promise: every number is the median of five measurements of that many operations.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu.h"

enum { MEASUREMENTS = 5 };

static nx_gpu gpu;
static nx_session session;
static nxmem_allocation span, kept;
static nx_cuda_ptr place;
static nx_cuda_prop prop = {.type = NX_CUDA_ALLOCATION_PINNED, .location = {NX_CUDA_LOCATION_DEVICE, 0}};

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void call(nx_cuda_result result, const char *what) {
  if (result != NX_CUDA_SUCCESS) nx_give_up(1, "%s answered %u", what, result);
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

static void bare_granule(void) {
  nx_cuda_handle handle;
  nx_cuda_access access = {prop.location, NX_CUDA_ACCESS_READ_WRITE};
  call(gpu.cu.cuMemCreate(&handle, NX_GRANULE, &prop, 0), "cuMemCreate");
  call(gpu.cu.cuMemMap(place, NX_GRANULE, 0, handle, 0), "cuMemMap");
  call(gpu.cu.cuMemSetAccess(place, NX_GRANULE, &access, 1), "cuMemSetAccess");
  call(gpu.cu.cuMemUnmap(place, NX_GRANULE), "cuMemUnmap");
  call(gpu.cu.cuMemRelease(handle), "cuMemRelease");
}

static void commit_granules(uint64_t count) {
  nxmem_error error;
  uint64_t unmapped;
  const NxmemByteRange range = {NX_GRANULE, count * NX_GRANULE};
  nx_must(nxmem_commit(session.allocator, span, range, &error), &error);
  nx_must(nxmem_decommit(session.allocator, span, range, &unmapped, &error), &error);
}

static void commit_one(void) { commit_granules(1); }
static void commit_sixty_four(void) { commit_granules(64); }

static void block_of(uint64_t bytes) {
  nxmem_error error;
  nxmem_allocation block;
  nx_must(nxmem_allocate(session.allocator, bytes, 256, NULL, &block, &error), &error);
  nx_must(nxmem_release(session.allocator, block, NULL, &error), &error);
}

static void block_256(void) { block_of(256); } /* beside `kept`, whose granule stays mapped */
static void block_granule(void) { block_of(NX_GRANULE); }

static void queued(void) {
  nxmem_error error;
  uint64_t retired = 0;
  nxmem_allocation block;
  nx_must(nxmem_allocate(session.allocator, NX_GRANULE, 256, NULL, &block, &error), &error);
  nx_must(nxmem_enqueue_release(session.allocator, block, NULL, NULL, &error), &error);
  while (retired == 0) nx_must(nxmem_drain_releases(session.allocator, 1, &retired, &error), &error);
}

static void shared(void) {
  nxmem_error error;
  nxmem_prefix prefix;
  nxmem_group_outcome outcome;
  nxmem_allocation spans[3];
  nx_must(nxmem_prefix_create(session.allocator, 2 * NX_GRANULE, &prefix, &error), &error);
  for (int i = 0; i < 3; i++) spans[i] = nx_session_span(&session, 3, 1);
  nx_must(nxmem_prefix_commit(prefix, spans, 3, NX_GRANULE, &outcome, &error), &error);
  for (int i = 0; i < 3; i++) nx_must(nxmem_release(session.allocator, spans[i], NULL, &error), &error);
  nx_must(nxmem_prefix_release(prefix, &error), &error);
}

static const struct {
  const char *name;
  void (*run)(void);
  uint64_t share; /* of the repeats */
} rows[] = {{"the driver's bare calls: create, map, access, unmap, release one granule", bare_granule, 1},
            {"commit and decommit one granule", commit_one, 1},
            {"commit and decommit 64 granules", commit_sixty_four, 16},
            {"allocate and release 256 bytes in a mapped granule", block_256, 1},
            {"allocate and release one granule", block_granule, 1},
            {"allocate, queue and drain one granule", queued, 2},
            {"a prefix of two granules shared among three allocations", shared, 8}};

static int by_value(const void *a, const void *b) {
  const double *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

static void measure(size_t row, uint64_t repeats) {
  double each[MEASUREMENTS];
  uint64_t count = repeats / rows[row].share > 0 ? repeats / rows[row].share : 1;
  rows[row].run();
  for (int m = 0; m < MEASUREMENTS; m++) {
    double start = now_us();
    for (uint64_t i = 0; i < count; i++) rows[row].run();
    each[m] = (now_us() - start) / (double)count;
  }
  qsort(each, MEASUREMENTS, sizeof each[0], by_value);
  printf("row %" PRIu64 " %.3f %s\n", count, each[MEASUREMENTS / 2], rows[row].name);
  fflush(stdout);
}

int main(int count, char **arguments) {
  char name[256] = "";
  int version = 0;
  if (count < 2 || count > 3) return 2;
  uint64_t repeats = count == 3 ? strtoull(arguments[2], NULL, 10) : 1000;
  nx_gpu_start(&gpu);
  call(gpu.name(name, sizeof name, 0), "cuDeviceGetName");
  call(gpu.cu.cuDriverGetVersion(&version), "cuDriverGetVersion");
  printf("device %s\ndriver %d\n", name, version);
  if (strcmp(arguments[1], "--look") == 0) return 0;
  nx_session_open(&session, arguments[1], "cuda-vmm-shared");
  nxmem_error error;
  span = nx_session_span(&session, 128, 1);
  nx_must(nxmem_allocate(session.allocator, 256, 256, NULL, &kept, &error), &error);
  call(gpu.cu.cuMemAddressReserve(&place, NX_GRANULE, 0, 0, 0), "cuMemAddressReserve");
  for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) measure(row, repeats);
  call(gpu.cu.cuMemAddressFree(place, NX_GRANULE), "cuMemAddressFree");
  nx_must(nxmem_release(session.allocator, kept, NULL, &error), &error);
  nx_must(nxmem_release(session.allocator, span, NULL, &error), &error);
  nx_session_close(&session);
  gpu.cu.cuCtxPopCurrent(&gpu.context);
  call(gpu.cu.cuDevicePrimaryCtxRelease(0), "cuDevicePrimaryCtxRelease");
  return 0;
}
