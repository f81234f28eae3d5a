/*
 * probe.c: does the device do what is about to be advertised?
 *
 * Attackers: a platform that accepts only some flags, or no read-only access.
 * Promise: the whole sequence was run once before a capability is advertised; nothing of the probe is left, in the arena or in the figures.
 */
#include <stdio.h>
#include <string.h>

#include "engine.h"

static const nx_run FIRST = {0u, 1u};

/* Map the arena's first granule and unmap it again: DONE, or what went wrong. */
static uint32_t map_once(nx_engine *engine, uint32_t mapping, uint64_t *handles, nx_loss *loss) {
  uint64_t mapped = 0u;
  nx_undone undone;
  const nx_commit what = {FIRST, 1, mapping, handles};
  const uint32_t status = nx_commit_locked(engine, &what, &mapped, loss);
  if (status != NXMEM_STATUS_OK) return status;
  nx_uncommit_locked(engine, FIRST, &undone);
  loss->granules += undone.loss.granules;
  loss->bytes += undone.loss.bytes;
  return undone.loss.bytes == 0u ? (uint32_t)NXMEM_STATUS_OK : (uint32_t)NXMEM_STATUS_DEVICE_ERROR;
}

static uint32_t map_read_only(nx_engine *engine, nx_loss *loss) {
  uint64_t handle = 0u;
  const uint32_t got = nx_handle_get_locked(engine, &handle);
  if (got != NX_VMM_DONE) return nx_outcome_status(got);
  const uint32_t status = map_once(engine, NXMEM_MAPPING_SHARER, &handle, loss);
  if (loss->granules == 0u && !nx_handle_put_locked(engine, handle)) loss->bytes += engine->device.granule;
  return status;
}

static uint32_t try_mark(nx_engine *engine) {
  uint64_t mark = 0u;
  const uint32_t marked = nx_device_mark(&engine->device, &mark);
  if (marked != NX_VMM_DONE) return marked;
  const uint32_t state = nx_device_mark_state(&engine->device, mark);
  if (nx_device_drop_mark(&engine->device, mark) != NX_VMM_DONE) nx_orphan(&engine->marks, mark);
  return state == NX_VMM_PENDING ? (uint32_t)NX_VMM_DONE : state;
}

static uint32_t run(nx_engine *engine, nx_loss *loss) {
  const uint32_t status = map_once(engine, NXMEM_MAPPING_PRIVATE, NULL, loss);
  if (status != NXMEM_STATUS_OK) return status;
  if ((engine->capabilities & NXMEM_CAP_SHARED_MAPPING) != 0u && map_read_only(engine, loss) != NXMEM_STATUS_OK)
    engine->capabilities &= ~NXMEM_CAP_SHARED_MAPPING;
  if ((engine->capabilities & NXMEM_CAP_DEFERRED_RELEASE) != 0u && try_mark(engine) != NX_VMM_DONE)
    engine->capabilities &= ~NXMEM_CAP_DEFERRED_RELEASE;
  return loss->bytes == 0u ? (uint32_t)NXMEM_STATUS_OK : (uint32_t)NXMEM_STATUS_DEVICE_ERROR;
}

/* The figures of the probe go to books of its own; of those the device's own are kept. */
uint32_t nx_probe(nx_engine *engine, char why[200]) {
  nx_books *books = engine->books, trial;
  nx_loss loss = {0u, 0u};
  memset(&trial, 0, sizeof trial);
  engine->books = engine->device.books = &trial;
  const uint32_t status = run(engine, &loss);
  engine->books = engine->device.books = books;
  nx_books_adopt(books, &trial);
  if (loss.bytes != 0u) nx_keep_back_locked(engine, engine->base, engine->device.granule);
  if (status == NXMEM_STATUS_OK && !nx_device_is_lost(&engine->device)) return NXMEM_STATUS_OK;
  const nx_vmm_answer *refusal = &engine->device.refusal;
  snprintf(why, 200, "mapping one granule was tried and failed; %s: %s", refusal->call == NULL ? "?" : refusal->call,
           refusal->name == NULL ? "?" : refusal->name);
  return status == NXMEM_STATUS_OK ? (uint32_t)NXMEM_STATUS_DEVICE_ERROR : status;
}
