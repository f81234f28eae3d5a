/*
 * device.c: the only way to a driver: every call of it passes here.
 *
 * Attackers: a driver that fails at any call, for good or once; a capture that begins at any time.
 * Promise: no call without a section of the capture gate and the context current; no call once the device is lost or the driver shut down; every loss is noted once.
 */
#include "device.h"

#include <stddef.h>
#include <string.h>

#include "nxmem_memory_abi.h"

int nx_device_open(nx_device *device, const nx_vmm_driver *driver, uint32_t tier, uint32_t index, nx_books *books) {
  memset(device, 0, sizeof *device);
  device->gate = nx_gate_take(tier, index);
  if (device->gate == NULL) return 0;
  device->driver = *driver;
  device->books = books;
  return 1;
}

void nx_device_close(nx_device *device) {
  if (!nx_device_is_lost(device) && !device->shut_down) device->driver.close(device->driver.self);
  nx_gate_drop(device->gate);
}

int nx_device_is_lost(const nx_device *device) { return nx_gate_is_lost(device->gate); }

void nx_device_lose(nx_device *device) {
  if (nx_gate_lose(device->gate)) atomic_store(&device->books->device_lost, 1u);
}

/* Every answer is noted here, by whatever call it came. */
static uint32_t note(nx_device *device, nx_vmm_answer answer) {
  if (answer.outcome == NX_VMM_DONE || answer.outcome == NX_VMM_PENDING) return answer.outcome;
  device->refusal = answer;
  if (answer.outcome == NX_VMM_LOST) nx_device_lose(device);
  if (answer.outcome == NX_VMM_SHUT_DOWN) device->shut_down = 1u;
  return answer.outcome;
}

/* DONE, or why no call may be made now. */
static uint32_t standing(const nx_device *device) {
  if (device->shut_down) return NX_VMM_SHUT_DOWN;
  return nx_device_is_lost(device) ? (uint32_t)NX_VMM_LOST : (uint32_t)NX_VMM_DONE;
}

/* ---- Sections ---------------------------------------------------------------------------------------------------- */

static uint32_t bind(nx_device *device) {
  const uint32_t outcome = note(device, device->driver.bind(device->driver.self));
  if (outcome == NX_VMM_UNBOUND) nx_add(&device->books->bind_failures, 1u);
  return outcome;
}

uint32_t nx_device_begin(nx_device *device) {
  const uint32_t stands = standing(device);
  if (stands != NX_VMM_DONE) return stands;
  if (device->depth == 0u) {
    device->refusal = (nx_vmm_answer){0};
    if (!nx_gate_open_section(device->gate)) return NX_VMM_CAPTURING;
    const uint32_t bound = bind(device);
    if (bound != NX_VMM_DONE) {
      nx_gate_close_section(device->gate);
      return bound;
    }
  }
  device->depth++;
  return NX_VMM_DONE;
}

/* The thread's own context comes back also where the device was lost meanwhile: that destroys nothing. */
void nx_device_end(nx_device *device) {
  if (--device->depth != 0u) return;
  if (note(device, device->driver.unbind(device->driver.self)) == NX_VMM_UNBOUND)
    nx_add(&device->books->bind_failures, 1u);
  nx_gate_close_section(device->gate);
}

/* DONE: the call may be made. */
static uint32_t may_call(const nx_device *device) {
  const uint32_t stands = standing(device);
  return stands == NX_VMM_DONE && device->depth == 0u ? (uint32_t)NX_VMM_CAPTURING : stands;
}

/* ---- Calls ------------------------------------------------------------------------------------------------------- */

#define CALL(device, operation, ...)                  \
  (may_call(device) != NX_VMM_DONE ? may_call(device) \
                                   : note(device, (device)->driver.operation((device)->driver.self, __VA_ARGS__)))

uint32_t nx_device_describe(nx_device *device, nx_vmm_device *out) { return CALL(device, describe, out); }

uint32_t nx_device_reserve(nx_device *device, uint64_t bytes, uint64_t align, uint64_t *address_out) {
  return CALL(device, reserve, bytes, align, address_out);
}

uint32_t nx_device_unreserve(nx_device *device, uint64_t address, uint64_t bytes) {
  return CALL(device, unreserve, address, bytes);
}

uint32_t nx_device_create(nx_device *device, uint64_t *handle_out) {
  return CALL(device, create, device->granule, handle_out);
}

uint32_t nx_device_destroy(nx_device *device, uint64_t handle) { return CALL(device, destroy, handle); }

uint32_t nx_device_map(nx_device *device, uint64_t address, uint64_t handle) {
  const uint32_t outcome = CALL(device, map, address, device->granule, handle);
  if (outcome == NX_VMM_DONE) nx_add(&device->books->maps, 1u);
  return outcome;
}

uint32_t nx_device_unmap(nx_device *device, uint64_t address, uint64_t bytes) {
  const uint32_t outcome = CALL(device, unmap, address, bytes);
  if (outcome == NX_VMM_DONE) nx_add(&device->books->unmaps, bytes / device->granule);
  return outcome;
}

uint32_t nx_device_set_access(nx_device *device, uint64_t address, uint64_t bytes, nx_vmm_access access) {
  return CALL(device, set_access, address, bytes, access);
}

uint32_t nx_device_mark(nx_device *device, uint64_t *mark_out) { return CALL(device, mark, mark_out); }
uint32_t nx_device_mark_state(nx_device *device, uint64_t mark) { return CALL(device, mark_state, mark); }
uint32_t nx_device_drop_mark(nx_device *device, uint64_t mark) { return CALL(device, drop_mark, mark); }

uint32_t nx_outcome_status(uint32_t outcome) {
  switch (outcome) {
    case NX_VMM_DONE:
      return NXMEM_STATUS_OK;
    case NX_VMM_NO_MEMORY:
      return NXMEM_STATUS_OUT_OF_MEMORY;
    case NX_VMM_PENDING:
    case NX_VMM_CAPTURING:
      return NXMEM_STATUS_BUSY;
    default:
      return NXMEM_STATUS_DEVICE_ERROR;
  }
}
