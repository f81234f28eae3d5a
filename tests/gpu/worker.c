/*
 * worker.c: one process with a device of its own to itself: it works round after round, and does what it is told on standard input.
 *
 * Usage: gpu_worker PLUGIN. Prints `ready`, then `round N` again and again: memory committed, written by a kernel, read back, compared, decommitted.
 *   fault  store where nothing is mapped: an illegal address. Says `lost` when the plugin has seen it and destroyed nothing, and ends with 70
 *   exit   give everything back, say `gone`, end with 0
 * Other exits: 1 something failed, 2 usage, 3 no GPU.
 *
 * Attackers: the process next to it, whose device context dies.
 * Promise: a device fault ends the process that owns the context, and no other.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu.h"

enum { LOST = 70, ROUND_MS = 5 };

static nx_gpu gpu;
static nx_session session;
static nxmem_allocation span;

static void work(uint64_t round) {
  nxmem_error error;
  uint64_t unmapped;
  uint8_t seen = 0;
  const NxmemByteRange range = {NX_GRANULE, NX_GRANULE};
  const uint64_t at = (uint64_t)(uintptr_t)span.ptr + NX_GRANULE + round % NX_GRANULE;
  nx_must(nxmem_commit(session.allocator, span, range, &error), &error);
  if (nx_gpu_store(&gpu, at, (uint32_t)round) != NX_CUDA_SUCCESS) nx_give_up(1, "a store into committed memory failed");
  if (gpu.from_device(&seen, at, 1) != NX_CUDA_SUCCESS) nx_give_up(1, "committed memory cannot be read");
  if (seen != (uint8_t)round) nx_give_up(1, "read %u where %u was stored", seen, (unsigned)(uint8_t)round);
  nx_must(nxmem_decommit(session.allocator, span, range, &unmapped, &error), &error);
  printf("round %" PRIu64 "\n", round);
  fflush(stdout);
}

/* An event is where a device's fault shows for sure: other calls of the driver may still go through. */
static void meet_the_loss(nxmem_allocation other) {
  nxmem_error error;
  uint64_t retired;
  if (nxmem_enqueue_release(session.allocator, other, NULL, NULL, &error) != NXMEM_OK) return;
  if (nxmem_drain_releases(session.allocator, 1, &retired, &error) != NXMEM_OK) return;
}

/* The second granule is reserved and not committed. */
static void fault(void) {
  nxmem_error error;
  nxmem_allocation other = nx_session_span(&session, 1, 1);
  if (nx_gpu_store(&gpu, (uint64_t)(uintptr_t)span.ptr + NX_GRANULE, 1) == NX_CUDA_SUCCESS) {
    nx_give_up(1, "a store where nothing is mapped went through");
  }
  meet_the_loss(other);
  const NxmemByteRange range = {NX_GRANULE, NX_GRANULE};
  nxmem_result result = nxmem_commit(session.allocator, span, range, &error);
  if (result != NXMEM_ERR_PLUGIN || error.plugin_status != NXMEM_STATUS_DEVICE_ERROR) {
    nx_give_up(1, "needed DEVICE_ERROR, found %s", nxmem_result_name(result));
  }
  if (nxmem_release(session.allocator, span, NULL, &error) != NXMEM_ERR_QUARANTINED) {
    nx_give_up(1, "a lost device's memory was given back");
  }
  printf("lost\n");
  fflush(stdout);
  _exit(LOST);
}

static void give_back(void) {
  nxmem_error error;
  nx_must(nxmem_release(session.allocator, span, NULL, &error), &error);
  nx_session_close(&session);
  gpu.cu.cuCtxPopCurrent(&gpu.context);
  if (gpu.cu.cuDevicePrimaryCtxRelease(0) != NX_CUDA_SUCCESS) nx_give_up(1, "the context cannot be released");
  printf("gone\n");
  fflush(stdout);
}

/* 0: nothing was said yet. */
static int next_order(char order[16]) {
  struct pollfd input = {STDIN_FILENO, POLLIN, 0};
  memset(order, 0, 16);
  if (poll(&input, 1, ROUND_MS) <= 0) return 0;
  return read(STDIN_FILENO, order, 15) >= 0;
}

int main(int count, char **arguments) {
  char order[16];
  if (count != 2) return 2;
  nx_gpu_start(&gpu);
  nx_gpu_load_kernel(&gpu);
  nx_session_open(&session, arguments[1], "cuda-vmm");
  span = nx_session_span(&session, 4, 1);
  printf("ready\n");
  for (uint64_t round = 1;; round++) {
    work(round);
    if (!next_order(order)) continue;
    if (strncmp(order, "fault", 5) == 0) fault();
    break; /* told to, or nobody is there to tell */
  }
  give_back();
  return 0;
}
