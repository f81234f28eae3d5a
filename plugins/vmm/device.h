/*
 * device.h: the only way to a driver: every call of it passes here.
 *
 * Attackers: a driver that fails at any call, for good or once; a capture that begins at any time.
 * Promise: no call without a section of the capture gate and the context current; no call once the device is lost or the driver shut down; every loss is noted once.
 *
 * A device belongs to one engine and is used under its lock. Outcomes are nx_vmm_outcome.
 */
#ifndef NX_VMM_DEVICE_H
#define NX_VMM_DEVICE_H

#include "books.h"
#include "driver.h"
#include "gate.h"

typedef struct nx_device {
  nx_vmm_driver driver;
  nx_gate *gate;
  nx_books *books;
  uint64_t granule; /* bytes: what every handle, mapping and unmapping is made of */
  uint32_t depth;   /* sections open, one in the other */
  uint32_t shut_down;
  nx_vmm_answer refusal; /* the last of the newest section that was not DONE or PENDING: what a message tells */
} nx_device;

/* The gate and an opened driver make a device. 0: out of memory; the driver stays the caller's. */
int nx_device_open(nx_device *device, const nx_vmm_driver *driver, uint32_t tier, uint32_t index, nx_books *books);
/* Closes the driver, unless the device is lost. */
void nx_device_close(nx_device *device);

/*
 * Open a section: the gate passed, the context current. Anything but DONE: nothing was called but bind, nothing is owed. Sections nest; an inner one
 * never waits and is never refused by the gate.
 */
uint32_t nx_device_begin(nx_device *device);
void nx_device_end(nx_device *device);

int nx_device_is_lost(const nx_device *device);
/* For what the driver does not call a loss and the engine must: an event that failed. */
void nx_device_lose(nx_device *device);

/* Each inside a section; outside one it is CAPTURING and nothing is called. `bytes` are whole granules. */
uint32_t nx_device_describe(nx_device *device, nx_vmm_device *out);
uint32_t nx_device_reserve(nx_device *device, uint64_t bytes, uint64_t align, uint64_t *address_out);
uint32_t nx_device_unreserve(nx_device *device, uint64_t address, uint64_t bytes);
uint32_t nx_device_create(nx_device *device, uint64_t *handle_out);
uint32_t nx_device_destroy(nx_device *device, uint64_t handle);
uint32_t nx_device_map(nx_device *device, uint64_t address, uint64_t handle);
uint32_t nx_device_unmap(nx_device *device, uint64_t address, uint64_t bytes);
uint32_t nx_device_set_access(nx_device *device, uint64_t address, uint64_t bytes, nx_vmm_access access);
uint32_t nx_device_mark(nx_device *device, uint64_t *mark_out);
uint32_t nx_device_mark_state(nx_device *device, uint64_t mark);
uint32_t nx_device_drop_mark(nx_device *device, uint64_t mark);

/* What stands behind such an outcome on the wire: NXMEM_STATUS_... */
uint32_t nx_outcome_status(uint32_t outcome);

#endif /* NX_VMM_DEVICE_H */
