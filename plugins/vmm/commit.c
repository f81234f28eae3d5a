/*
 * commit.c: mapping memory for granules, all of a span or none of it.
 *
 * Attackers: a driver that fails at the k-th call of any kind, and then again while what was done is undone.
 * Promise: after a failure the granules are as they were, but for exactly those that could not be unmapped: they are poisoned and their bytes reported.
 */
#include "engine.h"
#include "nxmem/status.h"

static nxmem_granule *granules_at(const nx_engine *engine, nx_run run) { return engine->table.granules + run.first; }

uint32_t nx_granule_status(uint32_t reason) {
  if (reason == NXMEM_REASON_POISONED || reason == NXMEM_REASON_QUARANTINED) return NXMEM_STATUS_DEVICE_ERROR;
  if (reason == NXMEM_REASON_SHARED || reason == NXMEM_REASON_MAPPED) return NXMEM_STATUS_INVALID_ARGUMENT;
  return reason == NXMEM_REASON_TOO_MANY_REFERENCES ? (uint32_t)NXMEM_STATUS_BUSY : nxmem_reason_status(reason);
}

/* ---- Mapping ------------------------------------------------------------------------------------------------------ */

typedef struct progress {
  const nx_commit *what;
  uint64_t made; /* handles noted for an owner */
  nx_loss loss;
} progress;

static uint32_t handle_for(nx_engine *engine, progress *p, uint64_t granule, uint64_t *handle) {
  if (p->what->mapping != NXMEM_MAPPING_SHARER) return nx_handle_get_locked(engine, handle);
  *handle = p->what->handles[granule - p->what->span.first];
  return NX_VMM_DONE;
}

static void note_mapped(nx_engine *engine, progress *p, uint64_t granule, uint64_t handle) {
  engine->table.handles[granule] = handle;
  (void)nxmem_granule_mapped(&engine->table.granules[granule], p->what->mapping);
  nx_add(&engine->books->granules_mapped, 1u);
  if (p->what->mapping != NXMEM_MAPPING_OWNER) {
    nx_books_commit(engine->books, engine->device.granule);
    return;
  }
  p->what->handles[granule - p->what->span.first] = handle;
  p->made++;
}

static uint32_t map_one(nx_engine *engine, progress *p, uint64_t granule) {
  uint64_t handle = 0u;
  const uint32_t made = handle_for(engine, p, granule, &handle);
  if (made != NX_VMM_DONE) return made;
  const uint32_t mapped = nx_device_map(&engine->device, nx_granule_at(engine, granule), handle);
  if (mapped == NX_VMM_DONE) {
    note_mapped(engine, p, granule, handle);
  } else if (p->what->mapping != NXMEM_MAPPING_SHARER && !nx_handle_put_locked(engine, handle)) {
    p->loss.bytes += engine->device.granule;
  }
  return mapped;
}

static uint32_t map_run(nx_engine *engine, progress *p, nx_run run) {
  for (uint64_t i = 0u; i < run.count; i++) {
    const uint32_t mapped = map_one(engine, p, run.first + i);
    if (mapped != NX_VMM_DONE) return mapped;
  }
  return nx_device_set_access(&engine->device, nx_granule_at(engine, run.first), nx_granule_bytes(engine, run.count),
                              p->what->mapping == NXMEM_MAPPING_SHARER ? NX_VMM_READ_ONLY : NX_VMM_READ_WRITE);
}

static uint32_t map_runs(nx_engine *engine, progress *p) {
  for (uint64_t i = 0u; i < engine->runs.count; i++) {
    const uint32_t mapped = map_run(engine, p, engine->runs.items[i]);
    if (mapped != NX_VMM_DONE) return mapped;
  }
  return NX_VMM_DONE;
}

/* ---- Taking, and undoing ------------------------------------------------------------------------------------------ */

static void take(nx_engine *engine, const nx_commit *what) {
  if (what->everything) (void)nxmem_granules_take(granules_at(engine, what->span), what->span.count);
  for (uint64_t i = 0u; !what->everything && i < engine->runs.count; i++)
    (void)nxmem_granules_take(granules_at(engine, engine->runs.items[i]), engine->runs.items[i].count);
}

static void drop_run(nx_engine *engine, nx_run run) {
  const nxmem_verdict dropped = nxmem_granules_drop(granules_at(engine, run), run.count);
  if (dropped.reason != NXMEM_REASON_NONE) nx_add(&engine->books->refcount_underflows, 1u);
}

static void drop(nx_engine *engine, const nx_commit *what) {
  if (what->everything) drop_run(engine, what->span);
  for (uint64_t i = 0u; !what->everything && i < engine->runs.count; i++) drop_run(engine, engine->runs.items[i]);
}

/* An owner's handles are the caller's only after a success: those whose mapping is gone go back. */
static void put_back(nx_engine *engine, progress *p) {
  for (uint64_t i = 0u; i < p->made; i++) {
    if (engine->table.granules[p->what->span.first + i].poisoned) continue;
    if (!nx_handle_put_locked(engine, p->what->handles[i])) p->loss.bytes += engine->device.granule;
  }
}

static void undo(nx_engine *engine, progress *p) {
  nx_undone undone = {0};
  drop(engine, p->what);
  for (uint64_t i = 0u; i < engine->runs.count; i++) nx_unmap_locked(engine, engine->runs.items[i], &undone);
  p->loss.granules += undone.loss.granules;
  p->loss.bytes += undone.loss.bytes;
  put_back(engine, p);
}

static uint32_t commit_runs(nx_engine *engine, const nx_commit *what, nx_loss *loss_out) {
  progress p = {what, 0u, {0u, 0u}};
  const uint32_t begun = nx_device_begin(&engine->device);
  if (begun != NX_VMM_DONE) return begun;
  take(engine, what);
  const uint32_t mapped = map_runs(engine, &p);
  if (mapped != NX_VMM_DONE) undo(engine, &p);
  nx_device_end(&engine->device);
  *loss_out = p.loss;
  return mapped;
}

/* A prefix is mapped where nothing is, over all of its span. */
static int is_bare(const nx_engine *engine, nx_run span) {
  const nx_runs *runs = &engine->runs;
  return runs->count == 1u && runs->items[0].first == span.first && runs->items[0].count == span.count;
}

uint32_t nx_commit_locked(nx_engine *engine, const nx_commit *what, uint64_t *mapped_out, nx_loss *loss_out) {
  uint64_t granules = 0u;
  *loss_out = (nx_loss){0u, 0u};
  *mapped_out = 0u;
  const nxmem_verdict may = nxmem_check_granules_take(granules_at(engine, what->span), what->span.count);
  if (may.reason != NXMEM_REASON_NONE) return nx_granule_status(may.reason);
  if (!nx_runs_find(&engine->runs, &engine->table, what->span, NXMEM_GRANULE_UNREFERRED))
    return NXMEM_STATUS_OUT_OF_MEMORY;
  if (what->mapping != NXMEM_MAPPING_PRIVATE && !is_bare(engine, what->span)) return NXMEM_STATUS_INVALID_ARGUMENT;
  if (engine->runs.count == 0u) {
    take(engine, what);
    return NXMEM_STATUS_OK;
  }
  for (uint64_t i = 0u; i < engine->runs.count; i++) granules += engine->runs.items[i].count;
  const uint32_t outcome = commit_runs(engine, what, loss_out);
  if (outcome == NX_VMM_DONE) *mapped_out = nx_granule_bytes(engine, granules);
  return nx_outcome_status(outcome);
}
