/* A device of the plugin: its allocator, its streams, and what could not be given back. Private to the adapter. */
#ifndef NX_TORCH_DEVICES_H
#define NX_TORCH_DEVICES_H

#include <pthread.h>
#include <stdatomic.h>

#include "blocks.h"
#include "latch.h"
#include "plugin.h"

enum { NX_TORCH_DEVICES = 64, NX_TORCH_STREAMS = 256 };

/* A place of the list of streams that none stands in. A stream is the address of something, or a small number. */
#define NX_TORCH_NO_STREAM UINTPTR_MAX

typedef struct nx_torch_device {
  nx_torch_latch latch;
  uint32_t index;
  uint32_t tier;
  nxmem_allocator allocator;
  int has_queues; /* the mechanism has DEFERRED_RELEASE */
  const nx_torch_plugin *plugin;
  _Atomic uint64_t unsettled;                  /* at least what is queued and not yet drained */
  _Atomic uint32_t stream_count;               /* places that were ever used */
  _Atomic uintptr_t streams[NX_TORCH_STREAMS]; /* registered with the plugin */
  pthread_mutex_t lock;                        /* a leaf: new places, and kept */
  nx_torch_block *kept;                        /* freed and not given back */
  nx_torch_block *kept_last;
  _Atomic uint64_t kept_count;
} nx_torch_device;

/* A device, opened at its first use; NULL: reported. */
nx_torch_device *nx_torch_device_get(const nx_torch_plugin *plugin, int index);

/* A device that is open, or NULL. */
nx_torch_device *nx_torch_device_opened(int index);

/* A release on this device from now on waits for what the stream was given. 1, or 0: reported. */
int nx_torch_stream_use(nx_torch_device *device, void *stream);

/* Take a block back into the plugin, in order where it has queues. It is the device's from here on. */
void nx_torch_device_free(nx_torch_device *device, nx_torch_block *block);

/* At most `max` queued releases whose work is done, and some of what was kept. */
void nx_torch_device_drain(nx_torch_device *device, uint64_t max);

#endif /* NX_TORCH_DEVICES_H */
