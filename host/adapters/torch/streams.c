/*
 * streams.c: the streams that releases wait for, as the plugin has been told of them.
 *
 * Attackers: a program with more streams than there is room for, or one whose meaning depends on the thread; a plugin that refuses one.
 * Promise: a stream is known to the plugin before memory is handed out for it, or none is.
 */
#include <stddef.h>

#include "counts.h"
#include "devices.h"
#include "errors.h"
#include "nxmem_torch.h"

/* The runtime's two names for default streams (cudaStreamLegacy, cudaStreamPerThread). */
enum { LEGACY = 1, PER_THREAD = 2 };

static uintptr_t number_of(void *stream) { return (uintptr_t)stream == LEGACY ? 0u : (uintptr_t)stream; }

static int is_known(nx_torch_device *device, uintptr_t stream) {
  const uint32_t count = atomic_load_explicit(&device->stream_count, memory_order_acquire);
  for (uint32_t i = 0; i < count; i++)
    if (atomic_load_explicit(&device->streams[i], memory_order_relaxed) == stream) return 1;
  return 0;
}

/* The device's lock is held. */
static int note_locked(nx_torch_device *device, uintptr_t stream) {
  if (is_known(device, stream)) return 1;
  const uint32_t count = atomic_load(&device->stream_count);
  uint32_t at = 0;
  while (at < count && atomic_load(&device->streams[at]) != NX_TORCH_NO_STREAM) at++;
  if (at == NX_TORCH_STREAMS) return 0;
  atomic_store(&device->streams[at], stream);
  if (at == count) atomic_store_explicit(&device->stream_count, count + 1u, memory_order_release);
  atomic_fetch_add(&nx_torch_counted.streams, 1u);
  return 1;
}

static int note(nx_torch_device *device, uintptr_t stream) {
  pthread_mutex_lock(&device->lock);
  const int noted = note_locked(device, stream);
  pthread_mutex_unlock(&device->lock);
  return noted;
}

static int refuse(const nx_torch_device *device, void *stream, const char *why) {
  nx_torch_report(NX_TORCH_STREAM, NULL, "device %u, stream %p: %s", device->index, stream, why);
  return 0;
}

/* What the program has registered itself is registered: INVALID_ARGUMENT says no more. */
static int register_stream(nx_torch_device *device, void *stream) {
  const uint32_t status = device->plugin->add_stream(device->index, (void *)number_of(stream));
  if (status != NXMEM_STATUS_OK && status != NXMEM_STATUS_INVALID_ARGUMENT)
    return refuse(device, stream, nxmem_status_name(status));
  return note(device, number_of(stream)) ? 1
                                         : refuse(device, stream, "no room for another; forget those that are gone");
}

int nx_torch_stream_use(nx_torch_device *device, void *stream) {
  if (device->plugin->add_stream == NULL) {
    if (device->tier != NXMEM_TIER_DEVICE || number_of(stream) == 0u) return 1;
    return refuse(
        device, stream,
        "the plugin orders releases behind the default stream alone (it does not export " NXMEM_ADD_STREAM_EXPORT ")");
  }
  if (is_known(device, number_of(stream))) return 1;
  if (number_of(stream) == PER_THREAD)
    return refuse(device, stream, "which stream this is depends on the thread; name a stream of its own");
  return register_stream(device, stream);
}

/* ---- Forgetting -------------------------------------------------------------------------------------------------- */

static int strike(nx_torch_device *device, uintptr_t stream) {
  int struck = 0;
  pthread_mutex_lock(&device->lock);
  for (uint32_t i = 0; i < atomic_load(&device->stream_count) && !struck; i++) {
    if (atomic_load(&device->streams[i]) != stream) continue;
    atomic_store(&device->streams[i], NX_TORCH_NO_STREAM);
    struck = 1;
  }
  pthread_mutex_unlock(&device->lock);
  return struck;
}

nxmem_result nxmem_torch_forget_stream(int index, nxmem_torch_stream stream) {
  if (nx_torch_is_late()) return NXMEM_ERR_FORKED;
  nx_torch_device *device = nx_torch_device_opened(index);
  if (device == NULL || !strike(device, number_of(stream))) return NXMEM_ERR_INVALID_ARGUMENT;
  atomic_fetch_sub(&nx_torch_counted.streams, 1u);
  const uint32_t status = device->plugin->remove_stream == NULL
                              ? NXMEM_STATUS_NOT_IMPLEMENTED
                              : device->plugin->remove_stream(device->index, (void *)number_of(stream));
  if (status == NXMEM_STATUS_OK) return NXMEM_OK;
  (void)refuse(device, stream, nxmem_status_name(status));
  return NXMEM_ERR_PLUGIN;
}
