/*
 * release.c: blocks on their way back: queued behind their stream, drained when that is done, kept where the plugin refuses.
 *
 * Attackers: a plugin that refuses a release, quarantines it, or never completes it.
 * Promise: a block is given back at most once, and never before its stream has been told of; nothing waits.
 */
#include <stdlib.h>

#include "counts.h"
#include "devices.h"
#include "errors.h"

/* How many kept blocks one call tries again. */
enum { KEPT_AT_ONCE = 4 };

/* Never below 0, whatever a plugin says that it retired. */
static void lower(_Atomic uint64_t *count, uint64_t by) {
  uint64_t now = atomic_load(count);
  while (!atomic_compare_exchange_weak(count, &now, now > by ? now - by : 0)) continue;
}

typedef enum way { GIVEN, LOST, REFUSED } way;

static way queue(nx_torch_device *device, const nx_torch_block *block, nxmem_error *error) {
  const nxmem_release_options options = {.bytes = block->bytes};
  atomic_fetch_add(&device->unsettled, 1u); /* before, so that a drain on another thread is not missed */
  const nxmem_result r = nxmem_enqueue_release(device->allocator, block->allocation, &options, NULL, error);
  if (r == NXMEM_OK) {
    atomic_fetch_add(&nx_torch_counted.queued_frees, 1u);
    return GIVEN;
  }
  lower(&device->unsettled, 1u);
  return r == NXMEM_ERR_QUARANTINED || r == NXMEM_ERR_STALE_HANDLE ? LOST : REFUSED;
}

static way release_at_once(nx_torch_device *device, const nx_torch_block *block, nxmem_error *error) {
  const nxmem_release_options options = {.bytes = block->bytes};
  const nxmem_result r = nxmem_release(device->allocator, block->allocation, &options, error);
  if (r == NXMEM_OK) return GIVEN;
  return r == NXMEM_ERR_QUARANTINED || r == NXMEM_ERR_STALE_HANDLE ? LOST : REFUSED;
}

static void keep(nx_torch_device *device, nx_torch_block *block) {
  pthread_mutex_lock(&device->lock);
  block->next = NULL;
  *(device->kept == NULL ? &device->kept : &device->kept_last->next) = block;
  device->kept_last = block;
  atomic_fetch_add(&device->kept_count, 1u);
  pthread_mutex_unlock(&device->lock);
  atomic_fetch_add(&nx_torch_counted.kept_blocks, 1u);
}

void nx_torch_device_free(nx_torch_device *device, nx_torch_block *block) {
  nxmem_error error;
  if (!nx_torch_stream_use(device, block->stream)) {
    keep(device, block);
    return;
  }
  const way gone = device->has_queues ? queue(device, block, &error) : release_at_once(device, block, &error);
  if (gone != GIVEN) nx_torch_report(NX_TORCH_RELEASE, &error, "give %p back", block->allocation.ptr);
  if (gone == REFUSED) {
    keep(device, block);
    return;
  }
  if (gone == LOST) atomic_fetch_add(&nx_torch_counted.lost_blocks, 1u);
  free(block);
}

/* The oldest, taken all at once, so that one that is refused again is not met again. */
static void retry_kept(nx_torch_device *device) {
  if (atomic_load_explicit(&device->kept_count, memory_order_relaxed) == 0) return;
  nx_torch_block *taken[KEPT_AT_ONCE];
  int count = 0;
  pthread_mutex_lock(&device->lock);
  while (count < KEPT_AT_ONCE && device->kept != NULL) {
    taken[count++] = device->kept;
    device->kept = device->kept->next;
    atomic_fetch_sub(&device->kept_count, 1u);
  }
  pthread_mutex_unlock(&device->lock);
  atomic_fetch_sub(&nx_torch_counted.kept_blocks, (uint64_t)count);
  while (count > 0) nx_torch_device_free(device, taken[--count]);
}

void nx_torch_device_drain(nx_torch_device *device, uint64_t max) {
  uint64_t retired = 0;
  retry_kept(device);
  if (!device->has_queues || atomic_load(&device->unsettled) == 0) return;
  if (nxmem_drain_releases(device->allocator, max, &retired, NULL) != NXMEM_OK) return;
  lower(&device->unsettled, retired);
  atomic_fetch_add(&nx_torch_counted.drained, retired);
}
