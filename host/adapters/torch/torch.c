/*
 * torch.c: what PyTorch calls: malloc and free of a size, for a device, on a stream.
 *
 * Attackers: a caller that frees what it should not; a plugin behind the host.
 * Promise: each call does a bounded amount of work beside the plugin's own, and waits for no device.
 */
#include <stdlib.h>

#include "blocks.h"
#include "counts.h"
#include "devices.h"
#include "errors.h"
#include "nxmem_torch.h"

/* PyTorch's own allocator rounds to this, and kernels rely on its alignment. */
#define ALIGN 512u

/* Releases that one call completes, and that one completes before it gives up. */
enum { DRAINED_AT_ONCE = 16, DRAINED_UNDER_PRESSURE = 1 << 16 };

nx_torch_counters nx_torch_counted;

/* ---- Malloc ------------------------------------------------------------------------------------------------------ */

static int is_pressure(nxmem_result result, const nxmem_error *error) {
  return result == NXMEM_ERR_OUT_OF_MEMORY ||
         (result == NXMEM_ERR_PLUGIN && error->plugin_status == NXMEM_STATUS_OUT_OF_MEMORY);
}

static nxmem_result allocate(nx_torch_device *device, uint64_t bytes, nxmem_allocation *out, nxmem_error *error) {
  nx_torch_device_drain(device, DRAINED_AT_ONCE);
  nxmem_result r = nxmem_allocate(device->allocator, bytes, ALIGN, NULL, out, error);
  if (!is_pressure(r, error)) return r;
  nx_torch_device_drain(device, DRAINED_UNDER_PRESSURE);
  r = nxmem_allocate(device->allocator, bytes, ALIGN, NULL, out, error);
  if (r == NXMEM_OK) atomic_fetch_add(&nx_torch_counted.retried_mallocs, 1u);
  return r;
}

static void count_live(uint64_t bytes) {
  atomic_fetch_add(&nx_torch_counted.live_blocks, 1u);
  atomic_fetch_add(&nx_torch_counted.live_bytes, bytes);
  atomic_fetch_add(&nx_torch_counted.mallocs, 1u);
}

/* The record first: once the plugin has given memory, nothing can fail but an address that it gave twice. */
static void *allocate_on(nx_torch_device *device, uint64_t bytes) {
  nxmem_error error;
  nx_torch_block *block = malloc(sizeof *block);
  if (block == NULL) {
    nx_torch_report(NX_TORCH_MEMORY, NULL, "found no memory of the process for a record");
    return NULL;
  }
  *block = (nx_torch_block){.bytes = bytes, .device = (int)device->index};
  if (allocate(device, bytes, &block->allocation, &error) != NXMEM_OK) {
    nx_torch_report(NX_TORCH_MEMORY, &error, "%llu bytes of device %u", (unsigned long long)bytes, device->index);
    free(block);
    return NULL;
  }
  void *ptr = block->allocation.ptr;
  if (nx_torch_blocks_add(block)) {
    count_live(bytes);
    return ptr;
  }
  nx_torch_report(NX_TORCH_MEMORY, NULL, "device %u: found address %p, which another device's memory has",
                  device->index, ptr);
  nx_torch_device_free(device, block);
  return NULL;
}

static void *serve(ssize_t size, int index, void *stream) {
  if (size < 0) {
    nx_torch_report(NX_TORCH_SIZE, NULL, "found a size of %lld, need one that is not negative", (long long)size);
    return NULL;
  }
  const nx_torch_plugin *plugin = nx_torch_plugin_get();
  nx_torch_device *device = plugin == NULL ? NULL : nx_torch_device_get(plugin, index);
  if (device == NULL || !nx_torch_stream_use(device, stream)) return NULL;
  return allocate_on(device, (uint64_t)size);
}

void *nxmem_torch_malloc(ssize_t size, int device, nxmem_torch_stream stream) {
  if (size == 0 || nx_torch_is_late()) return NULL;
  void *ptr = serve(size, device, stream);
  if (ptr == NULL) atomic_fetch_add(&nx_torch_counted.failed_mallocs, 1u);
  return ptr;
}

/* ---- Free -------------------------------------------------------------------------------------------------------- */

static void report_foreign(const void *ptr) {
  atomic_fetch_add(&nx_torch_counted.foreign_frees, 1u);
  nx_torch_report(NX_TORCH_FOREIGN, NULL, "free of %p, which is not live here", ptr);
}

static void report_mismatch(const void *ptr, ssize_t size, int device, const nx_torch_block *block) {
  atomic_fetch_add(&nx_torch_counted.mismatched_frees, 1u);
  nx_torch_report(NX_TORCH_MISMATCH, NULL,
                  "free of %p with %lld bytes of device %d, allocated with %llu bytes of device %d; it stays", ptr,
                  (long long)size, device, (unsigned long long)block->bytes, block->device);
}

void nxmem_torch_free(void *ptr, ssize_t size, int index, nxmem_torch_stream stream) {
  if (ptr == NULL || nx_torch_is_late()) return;
  nx_torch_block *block = NULL, found;
  const nx_torch_take take = nx_torch_plugin_loaded() == NULL
                                 ? NX_TORCH_NOT_LIVE
                                 : nx_torch_blocks_take(ptr, (uint64_t)size, index, &block, &found);
  if (take == NX_TORCH_NOT_LIVE) report_foreign(ptr);
  if (take == NX_TORCH_DIFFERS) report_mismatch(ptr, size, index, &found);
  if (take != NX_TORCH_TAKEN) return;
  atomic_fetch_sub(&nx_torch_counted.live_blocks, 1u);
  atomic_fetch_sub(&nx_torch_counted.live_bytes, block->bytes);
  atomic_fetch_add(&nx_torch_counted.frees, 1u);
  block->stream = stream;
  nx_torch_device *device = nx_torch_device_opened(index);
  nx_torch_device_free(device, block);
  nx_torch_device_drain(device, DRAINED_AT_ONCE);
}

/* ---- Beside ------------------------------------------------------------------------------------------------------ */

void nxmem_torch_record_stream(void *ptr, nxmem_torch_stream stream) {
  if (ptr == NULL || nx_torch_is_late()) return;
  const int index = nx_torch_plugin_loaded() == NULL ? -1 : nx_torch_blocks_device(ptr);
  nx_torch_device *device = nx_torch_device_opened(index);
  if (device == NULL)
    nx_torch_report(NX_TORCH_FOREIGN, NULL, "stream of %p, which is not live here", ptr);
  else
    (void)nx_torch_stream_use(device, stream);
}

void nxmem_torch_reset(void) {
  if (nx_torch_is_late()) return;
  for (int i = 0; i < NX_TORCH_DEVICES; i++) {
    nx_torch_device *device = nx_torch_device_opened(i);
    if (device != NULL) nx_torch_device_drain(device, DRAINED_UNDER_PRESSURE);
  }
}

void nxmem_torch_count(nxmem_torch_counts *out) {
  const nx_torch_counters *now = &nx_torch_counted;
  const nx_torch_plugin *plugin = nx_torch_plugin_loaded();
  nxmem_host_counts host = {0};
  if (plugin != NULL) (void)!nxmem_host_count(plugin->host, &host, NULL);
  *out = (nxmem_torch_counts){
      .live_blocks = atomic_load(&now->live_blocks),
      .live_bytes = atomic_load(&now->live_bytes),
      .mallocs = atomic_load(&now->mallocs),
      .failed_mallocs = atomic_load(&now->failed_mallocs),
      .retried_mallocs = atomic_load(&now->retried_mallocs),
      .frees = atomic_load(&now->frees),
      .queued_frees = atomic_load(&now->queued_frees),
      .drained = atomic_load(&now->drained),
      .pending = host.queued_releases,
      .kept_blocks = atomic_load(&now->kept_blocks),
      .lost_blocks = atomic_load(&now->lost_blocks),
      .foreign_frees = atomic_load(&now->foreign_frees),
      .mismatched_frees = atomic_load(&now->mismatched_frees),
      .late_calls = atomic_load(&now->late_calls),
      .streams = atomic_load(&now->streams),
  };
}
