/*
 * costs.c: the slots of virtual backing that only tell: what ranges would cost, what is committed.
 *
 * Attackers: ranges that overlap, in any order; blocks that share granules.
 * Promise: no granule is counted twice; nothing is changed.
 */
#include <stdlib.h>

#include "nxmem/backing.h"
#include "nxmem/status.h"
#include "records.h"
#include "slots.h"

static int by_first(const void *left, const void *right) {
  const nx_run *a = left, *b = right;
  return a->first < b->first ? -1 : a->first > b->first;
}

/* Cut off each run what one in front of it has already: then no granule is in two. Some may end up empty. */
static void make_disjoint(nx_run *runs, uint64_t count) {
  uint64_t end = 0u;
  qsort(runs, count, sizeof *runs, by_first);
  for (uint64_t i = 0u; i < count; i++) {
    const uint64_t last = runs[i].first + runs[i].count;
    const uint64_t first = runs[i].first < end ? end : runs[i].first;
    runs[i] = (nx_run){first, last > first ? last - first : 0u};
    end = last > end ? last : end;
  }
}

static uint32_t find_run(const nx_engine *engine, const NxmemRangeRequest *request, nx_run *run) {
  nx_block *block = NULL;
  const uint32_t status = nx_find_block_locked(engine, &request->allocation, &block);
  if (status == NXMEM_STATUS_OK)
    *run = nx_granules_of(engine, block->first + request->range.offset, request->range.bytes);
  return status;
}

static uint64_t cost_of(const nx_engine *engine, nx_run run) {
  return nxmem_granules_cost(engine->table.granules + run.first, run.count);
}

static uint32_t cost_of_all(const nx_engine *engine, const NxmemRangeRequest *requests, uint64_t count,
                            uint64_t *granules) {
  nx_run runs[NXMEM_RANGES_MAX];
  for (uint64_t i = 0u; i < count; i++) {
    const uint32_t status = find_run(engine, &requests[i], &runs[i]);
    if (status != NXMEM_STATUS_OK) return status;
  }
  make_disjoint(runs, count);
  for (uint64_t i = 0u; i < count; i++) *granules += cost_of(engine, runs[i]);
  return NXMEM_STATUS_OK;
}

/* One range, as each commit asks, needs no room for many. */
static uint32_t cost_locked(const nx_engine *engine, const NxmemRangeRequest *requests, uint64_t count,
                            uint64_t *mapped_out) {
  nx_run run = {0u, 0u};
  uint64_t granules = 0u;
  const uint32_t status =
      count == 1u ? find_run(engine, requests, &run) : cost_of_all(engine, requests, count, &granules);
  if (status != NXMEM_STATUS_OK) return status;
  *mapped_out = nx_granule_bytes(engine, granules + cost_of(engine, run));
  return status;
}

NxmemStatus nx_slot_mapped_for_ranges(void *ctx, const NxmemRangeRequest *requests, uint64_t count,
                                      uint64_t *mapped_out) {
  nx_engine *engine = ctx;
  uint64_t mapped = 0u;
  nx_said checked = nx_check_call(ctx, requests, mapped_out);
  if (nx_failed(checked)) return nx_refused(checked);
  if (count == 0u || nxmem_check_range_list((uintptr_t)requests, count).reason != NXMEM_REASON_NONE)
    return nx_status(NXMEM_STATUS_INVALID_ARGUMENT, "ranges: none, or more than 1024");
  for (uint64_t i = 0u; i < count; i++) {
    checked = nx_check_range_request(engine, &requests[i]);
    if (nx_failed(checked)) return nx_refused(checked);
  }
  pthread_mutex_lock(&engine->lock);
  const uint32_t status = cost_locked(engine, requests, count, &mapped);
  pthread_mutex_unlock(&engine->lock);
  if (status == NXMEM_STATUS_OK) *mapped_out = mapped;
  return nx_told(engine, status, "ranges: not what was allocated");
}

/* A block that allocate_committed makes begins with a granule: so its ranges are counted from 0, and nothing is made for the answer. */
NxmemStatus nx_slot_mapped_for_allocation(void *ctx, const NxmemAllocRequest *request, uint64_t *mapped_out) {
  nx_engine *engine = ctx;
  nx_run runs[NXMEM_RANGES_MAX];
  uint64_t granules = 0u;
  nx_said checked = nx_check_call(ctx, request, mapped_out);
  if (nx_failed(checked)) return nx_refused(checked);
  checked = nx_check_alloc_request(engine, request);
  if (nx_failed(checked)) return nx_refused(checked);
  checked = nx_check_ranges(request);
  if (nx_failed(checked)) return nx_refused(checked);
  if (request->bytes > engine->bytes)
    return nx_status(NXMEM_STATUS_OUT_OF_MEMORY, "ranges: the block is larger than the arena");
  const uint64_t count = request->committed_range_count;
  for (uint64_t i = 0u; i < count; i++)
    runs[i] =
        nx_granules_of(engine, engine->base + request->committed_ranges[i].offset, request->committed_ranges[i].bytes);
  make_disjoint(runs, count);
  for (uint64_t i = 0u; i < count; i++) granules += runs[i].count;
  *mapped_out = nx_granule_bytes(engine, granules);
  return nx_ok();
}

NxmemStatus nx_slot_committed_bytes(void *ctx, const NxmemAllocation *allocation, uint64_t *committed_out) {
  nx_engine *engine = ctx;
  nx_block *block = NULL;
  nx_said checked = nx_check_call(ctx, allocation, committed_out);
  if (nx_failed(checked)) return nx_refused(checked);
  checked = nx_check_allocation(engine, allocation);
  if (nx_failed(checked)) return nx_refused(checked);
  pthread_mutex_lock(&engine->lock);
  const uint32_t status = nx_find_block_locked(engine, allocation, &block);
  const uint64_t mapped = status == NXMEM_STATUS_OK ? block->mapped_bytes : 0u;
  pthread_mutex_unlock(&engine->lock);
  if (status == NXMEM_STATUS_OK) *committed_out = mapped;
  return nx_told(engine, status, "committed: not what was allocated");
}
