/*
 * pool.c: physical handles that nothing maps: kept for the next commit up to a bound, and those the driver would not take back.
 *
 * Attackers: a driver that fails to destroy; memory pressure.
 * Promise: the pool never holds more than its bound; every handle is mapped, in the pool, given back, or an orphan that is counted.
 */
#include <stdlib.h>

#include "engine.h"

int nx_pool_open(nx_engine *engine) {
  nx_pool *pool = &engine->pool;
  pool->bound_bytes = engine->offer->pool_bytes;
  const uint64_t most = nxmem_granule_of(pool->bound_bytes, engine->device.granule);
  pool->handles = most == 0u ? NULL : calloc(most, sizeof *pool->handles);
  return most == 0u || pool->handles != NULL;
}

void nx_orphan(nx_orphans *orphans, uint64_t item) {
  if (orphans->count == orphans->room) {
    const uint64_t room = orphans->room == 0u ? 16u : orphans->room * 2u;
    uint64_t *wider = realloc(orphans->items, room * sizeof *wider);
    if (wider == NULL) {
      orphans->untold++;
      return;
    }
    orphans->items = wider;
    orphans->room = room;
  }
  orphans->items[orphans->count++] = item;
}

uint32_t nx_handle_get_locked(nx_engine *engine, uint64_t *handle_out) {
  nx_pool *pool = &engine->pool;
  if (pool->count == 0u) return nx_device_create(&engine->device, handle_out);
  *handle_out = pool->handles[--pool->count];
  nx_take(&engine->books->pool_bytes, engine->device.granule);
  return NX_VMM_DONE;
}

/* A driver that has shut down has taken all back. */
static int destroy(nx_engine *engine, uint64_t handle) {
  const uint32_t outcome = nx_device_destroy(&engine->device, handle);
  return outcome == NX_VMM_DONE || outcome == NX_VMM_SHUT_DOWN;
}

static int destroy_or_note(nx_engine *engine, uint64_t handle) {
  if (destroy(engine, handle)) return 1;
  nx_orphan(&engine->handles, handle);
  nx_add(&engine->books->quarantined_bytes, engine->device.granule);
  return 0;
}

int nx_handle_put_locked(nx_engine *engine, uint64_t handle) {
  nx_pool *pool = &engine->pool;
  const uint64_t granule = engine->device.granule;
  if (!nxmem_pool_may_keep(nx_granule_bytes(engine, pool->count), granule, pool->bound_bytes))
    return destroy_or_note(engine, handle);
  pool->handles[pool->count++] = handle;
  nx_add(&engine->books->pool_bytes, granule);
  return 1;
}

/* Taken out before it is destroyed: one that the driver would not take is an orphan, not a handle to be used again. */
static int empty_pool(nx_engine *engine) {
  nx_pool *pool = &engine->pool;
  int all = 1;
  while (pool->count != 0u) {
    const uint64_t handle = pool->handles[--pool->count];
    nx_take(&engine->books->pool_bytes, engine->device.granule);
    all &= destroy_or_note(engine, handle);
  }
  return all;
}

/* An orphan is tried again: most refusals pass. */
static void retry(nx_engine *engine) {
  nx_orphans *orphans = &engine->handles;
  uint64_t left = 0u;
  for (uint64_t i = 0u; i < orphans->count; i++) {
    if (destroy(engine, orphans->items[i]))
      nx_take(&engine->books->quarantined_bytes, engine->device.granule);
    else
      orphans->items[left++] = orphans->items[i];
  }
  orphans->count = left;
}

static void retry_marks(nx_engine *engine) {
  nx_orphans *orphans = &engine->marks;
  uint64_t left = 0u;
  for (uint64_t i = 0u; i < orphans->count; i++) {
    const uint32_t outcome = nx_device_drop_mark(&engine->device, orphans->items[i]);
    if (outcome != NX_VMM_DONE && outcome != NX_VMM_SHUT_DOWN) orphans->items[left++] = orphans->items[i];
  }
  orphans->count = left;
}

int nx_pool_empty_locked(nx_engine *engine) {
  (void)empty_pool(engine);
  retry(engine);
  retry_marks(engine);
  return engine->handles.count == 0u && engine->marks.count == 0u && engine->handles.untold == 0u &&
         engine->marks.untold == 0u;
}

int nx_pool_trim_locked(nx_engine *engine) {
  if (engine->pool.count == 0u) return 1;
  if (nx_device_begin(&engine->device) != NX_VMM_DONE) return 0;
  const int all = empty_pool(engine);
  nx_device_end(&engine->device);
  return all;
}

void nx_pool_close(nx_engine *engine) {
  nx_take(&engine->books->pool_bytes, nx_granule_bytes(engine, engine->pool.count));
  free(engine->pool.handles);
  free(engine->handles.items);
  free(engine->marks.items);
  engine->pool = (nx_pool){0};
}
