/*
 * devices.c: opening a device's allocator at its first use.
 *
 * Attackers: a caller with any number for a device; a plugin whose mechanism does not serve it, or cannot order releases.
 * Promise: memory of a device is handed out only where its release can be ordered behind a stream.
 */
#include "devices.h"

#include <string.h>

#include "errors.h"

static nx_torch_device devices[NX_TORCH_DEVICES];

/* Memory of the device itself before memory of the host; never a disk. */
static int find_tier(const nx_torch_plugin *plugin, uint32_t index, uint32_t *tier_out) {
  nxmem_mechanism_info info;
  int found = 0;
  for (uint32_t i = 0; nxmem_plugin_mechanism(plugin->plugin, i, &info, NULL) == NXMEM_OK; i++) {
    if (info.device.index != index || strcmp(info.name, plugin->mechanism) != 0) continue;
    if (info.device.tier != NXMEM_TIER_DEVICE && info.device.tier != NXMEM_TIER_HOST) continue;
    if (found && info.device.tier != NXMEM_TIER_DEVICE) continue;
    *tier_out = info.device.tier;
    found = 1;
  }
  if (!found)
    nx_torch_report(NX_TORCH_DEVICE, NULL, "found no mechanism %s for device %u; 'nxmem run' lists what the plugin has",
                    plugin->mechanism, index);
  return found;
}

static int refuse_unordered(nx_torch_device *device) {
  nx_torch_report(NX_TORCH_DEVICE, NULL,
                  "mechanism %s of device %u cannot queue releases behind a stream (it lacks deferred-release)",
                  device->plugin->mechanism, device->index);
  (void)!nxmem_allocator_close(device->allocator, 0, NULL);
  return 0;
}

static int open_device(nx_torch_device *device) {
  nxmem_error error;
  nxmem_allocator_info info;
  if (!find_tier(device->plugin, device->index, &device->tier)) return 0;
  const NxmemDeviceId id = {.tier = device->tier, .index = device->index};
  const nxmem_open_options options = {.mechanism = device->plugin->mechanism, .device = &id};
  nxmem_result r = nxmem_allocator_open(device->plugin->plugin, &options, &device->allocator, &error);
  if (r == NXMEM_OK) r = nxmem_allocator_get_info(device->allocator, &info, &error);
  if (r != NXMEM_OK) {
    nx_torch_report(NX_TORCH_DEVICE, &error, "open device %u", device->index);
    return 0;
  }
  device->has_queues = (info.effective_flags & NXMEM_CAP_DEFERRED_RELEASE) != 0;
  return device->has_queues || device->tier == NXMEM_TIER_HOST ? 1 : refuse_unordered(device);
}

static void prepare(nx_torch_device *device, const nx_torch_plugin *plugin, uint32_t index) {
  device->plugin = plugin;
  device->index = index;
  (void)pthread_mutex_init(&device->lock, NULL);
  for (int i = 0; i < NX_TORCH_STREAMS; i++) atomic_store(&device->streams[i], NX_TORCH_NO_STREAM);
}

nx_torch_device *nx_torch_device_opened(int index) {
  if (index < 0 || index >= NX_TORCH_DEVICES || !nx_torch_latch_is_done(&devices[index].latch)) return NULL;
  return &devices[index];
}

nx_torch_device *nx_torch_device_get(const nx_torch_plugin *plugin, int index) {
  if (index < 0 || index >= NX_TORCH_DEVICES) {
    nx_torch_report(NX_TORCH_DEVICE, NULL, "found device %d, need one from 0 to %d", index, NX_TORCH_DEVICES - 1);
    return NULL;
  }
  nx_torch_device *device = &devices[index];
  const nx_torch_turn turn = nx_torch_latch_enter(&device->latch, 1);
  if (turn == NX_TORCH_DONE) return device;
  if (turn == NX_TORCH_TAKEN_UP) {
    nx_torch_report(NX_TORCH_DEVICE, NULL, "found a call for device %d from within the plugin while it is being opened",
                    index);
    return NULL;
  }
  prepare(device, plugin, (uint32_t)index);
  const int opened = open_device(device);
  nx_torch_latch_leave(&device->latch, opened);
  return opened ? device : NULL;
}
