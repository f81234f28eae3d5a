/*
 * uncommit.c: giving granules back: dropped, unmapped run by run, their handles to the pool or the driver.
 *
 * Attackers: a driver that will not unmap, will not take a handle back, is lost, or cannot be reached on this thread.
 * Promise: what is still mapped is poisoned and what is still owned is counted; nothing is called that the device's state forbids; only what is gone is reported as gone.
 */
#include "engine.h"

static nxmem_granule *granules_at(const nx_engine *engine, nx_run run) { return engine->table.granules + run.first; }

static int next_run(const nx_engine *engine, nx_run span, uint64_t at, uint32_t kind, nx_run *run) {
  if (!nxmem_granules_next_run(granules_at(engine, span), span.count, at, kind, run)) return 0;
  run->first += span.first;
  return 1;
}

/* ---- What is still mapped ------------------------------------------------------------------------------------------ */

static uint64_t committed_in(const nx_engine *engine, nx_run run) {
  uint64_t count = 0u;
  for (uint64_t i = 0u; i < run.count; i++)
    count += engine->table.granules[run.first + i].mapping != NXMEM_MAPPING_OWNER;
  return nx_granule_bytes(engine, count);
}

/* What is free in these granules must not be handed out any more: nothing could be committed there. */
static void poison(nx_engine *engine, nx_run run, nx_undone *out) {
  const uint64_t bytes = nx_granule_bytes(engine, run.count);
  nx_take(&engine->books->committed_bytes, committed_in(engine, run));
  for (uint64_t i = 0u; i < run.count; i++) (void)nxmem_granule_poison(&engine->table.granules[run.first + i]);
  nx_add(&engine->books->poisoned_granules, run.count);
  engine->poisoned += run.count;
  nx_add(&engine->books->quarantined_bytes, bytes);
  nx_spans_withdraw(&engine->spans, nx_granule_at(engine, run.first), bytes);
  out->loss.granules += run.count;
  out->loss.bytes += bytes;
}

/* ---- What is unmapped ---------------------------------------------------------------------------------------------- */

/* A prefix keeps its handles; others go back. */
static void put_handle(nx_engine *engine, uint64_t handle, uint32_t mapping, nx_undone *out) {
  const uint64_t granule = engine->device.granule;
  if (mapping != NXMEM_MAPPING_PRIVATE || nx_handle_put_locked(engine, handle)) {
    out->unmapped += granule;
    return;
  }
  out->loss.bytes += granule;
}

static void forget(nx_engine *engine, nx_run run, nx_undone *out) {
  nx_take(&engine->books->committed_bytes, committed_in(engine, run));
  nx_take(&engine->books->granules_mapped, run.count);
  for (uint64_t i = 0u; i < run.count; i++) {
    const uint64_t granule = run.first + i;
    const uint32_t mapping = engine->table.granules[granule].mapping;
    (void)nxmem_granule_unmapped(&engine->table.granules[granule]);
    put_handle(engine, engine->table.handles[granule], mapping, out);
  }
}

void nx_unmap_locked(nx_engine *engine, nx_run span, nx_undone *out) {
  nx_run run;
  for (uint64_t at = 0u; next_run(engine, span, at, NXMEM_GRANULE_MUST_UNMAP, &run);
       at = run.first + run.count - span.first) {
    const uint64_t bytes = nx_granule_bytes(engine, run.count);
    const uint32_t outcome = nx_device_unmap(&engine->device, nx_granule_at(engine, run.first), bytes);
    /* What a driver that has shut down held is gone. */
    if (outcome == NX_VMM_DONE || outcome == NX_VMM_SHUT_DOWN)
      forget(engine, run, out);
    else
      poison(engine, run, out);
  }
}

void nx_give_up_locked(nx_engine *engine, nx_run span, nx_undone *out) {
  nx_run run;
  for (uint64_t at = 0u; next_run(engine, span, at, NXMEM_GRANULE_MUST_UNMAP, &run);
       at = run.first + run.count - span.first)
    poison(engine, run, out);
}

/* ---- Giving back --------------------------------------------------------------------------------------------------- */

/* The last reference to a granule: dropping it means unmapping it. */
static int needs_device(const nx_engine *engine, nx_run span) {
  for (uint64_t i = 0u; i < span.count; i++) {
    nxmem_granule after = engine->table.granules[span.first + i];
    if (nxmem_granule_drop(&after).reason == NXMEM_REASON_NONE && nxmem_granule_must_unmap(&after)) return 1;
  }
  return 0;
}

static void drop(nx_engine *engine, nx_run span) {
  nx_run run;
  for (uint64_t at = 0u; next_run(engine, span, at, NXMEM_GRANULE_REFERRED, &run);
       at = run.first + run.count - span.first)
    if (nxmem_granules_drop(granules_at(engine, run), run.count).reason != NXMEM_REASON_NONE)
      nx_add(&engine->books->refcount_underflows, 1u);
}

void nx_uncommit_begun_locked(nx_engine *engine, nx_run span, uint32_t begun, nx_undone *out) {
  *out = (nx_undone){.status = NXMEM_STATUS_OK};
  drop(engine, span);
  if (begun == NX_VMM_DONE || begun == NX_VMM_SHUT_DOWN)
    nx_unmap_locked(engine, span, out);
  else
    nx_give_up_locked(engine, span, out);
  if (out->loss.bytes != 0u) out->status = NXMEM_STATUS_RELEASE_QUARANTINED;
}

void nx_uncommit_locked(nx_engine *engine, nx_run span, nx_undone *out) {
  *out = (nx_undone){.status = NXMEM_STATUS_OK};
  if (!needs_device(engine, span)) {
    drop(engine, span);
    return;
  }
  const uint32_t begun = nx_device_begin(&engine->device);
  if (begun == NX_VMM_CAPTURING) {
    out->status = NXMEM_STATUS_BUSY;
    return;
  }
  nx_uncommit_begun_locked(engine, span, begun, out);
  if (begun == NX_VMM_DONE) nx_device_end(&engine->device);
}
