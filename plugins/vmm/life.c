/*
 * life.c: blocks: made, committed, decommitted, given back.
 *
 * Attackers: sizes, alignments and ranges near 2^64; a driver that fails at any call.
 * Promise: a block is there whole or not at all; the address of what could not be given back never comes again.
 */
#include "engine.h"
#include "nxmem/range.h"
#include "nxmem/status.h"

uint64_t nx_granule_bytes(const nx_engine *engine, uint64_t count) {
  uint64_t bytes = 0u;
  /* A device that never said what it is has no granule, and nothing of it is counted. */
  if (count == 0u) return 0u;
  (void)nxmem_granules_bytes(count, engine->device.granule, &bytes);
  return bytes;
}

uint64_t nx_granule_at(const nx_engine *engine, uint64_t granule) {
  uint64_t address = 0u;
  (void)nxmem_granule_address(engine->base, granule, engine->device.granule, &address);
  return address;
}

nx_run nx_granules_of(const nx_engine *engine, uint64_t first, uint64_t bytes) {
  const uint64_t offset = first - engine->base;
  return (nx_run){nxmem_granule_of(offset, engine->device.granule),
                  nxmem_granules_touched(offset, bytes, engine->device.granule)};
}

/* ---- Pieces kept back ---------------------------------------------------------------------------------------------- */

/* One more that is never given back; nx_engines_allocations() counts it. */
static void count_residue(nx_engine *engine) {
  engine->residues++;
  nx_add(&engine->books->quarantined_spans, 1u);
}

void nx_keep_back_locked(nx_engine *engine, uint64_t first, uint64_t bytes) {
  const nx_run run = nx_granules_of(engine, first, bytes);
  count_residue(engine);
  (void)nx_spans_give(&engine->spans, first, bytes);
  for (uint64_t i = 0u; i < run.count; i++)
    if (engine->table.granules[run.first + i].poisoned)
      nx_spans_withdraw(&engine->spans, nx_granule_at(engine, run.first + i), engine->device.granule);
}

uint32_t nx_no_room_locked(nx_engine *engine) {
  engine->device.refusal = (nx_vmm_answer){0};
  return NXMEM_STATUS_OUT_OF_MEMORY;
}

/* ---- Making -------------------------------------------------------------------------------------------------------- */

static uint32_t commit_range(nx_engine *engine, nx_block *block, NxmemByteRange range, nx_loss *loss) {
  uint64_t mapped = 0u;
  const nx_commit what = {nx_granules_of(engine, block->first + range.offset, range.bytes), 0, NXMEM_MAPPING_PRIVATE,
                          NULL};
  const uint32_t status = nx_commit_locked(engine, &what, &mapped, loss);
  block->mapped_bytes += mapped;
  return status;
}

/* Ranges one after the other in one section: what the first ones mapped is not left behind because a capture began. */
static uint32_t commit_ranges(nx_engine *engine, nx_block *block, const nx_wish *wish, nx_loss *loss) {
  uint32_t status = nx_outcome_status(nx_device_begin(&engine->device));
  if (status != NXMEM_STATUS_OK) return status;
  for (uint64_t i = 0u; i < wish->range_count && status == NXMEM_STATUS_OK; i++)
    status = commit_range(engine, block, wish->ranges[i], loss);
  if (status != NXMEM_STATUS_OK) {
    nx_undone undone;
    nx_uncommit_locked(engine, block->run, &undone);
    loss->granules += undone.loss.granules;
    loss->bytes += undone.loss.bytes;
  }
  nx_device_end(&engine->device);
  return status;
}

static uint32_t commit_first(nx_engine *engine, nx_block *block, const nx_wish *wish, nx_loss *loss) {
  if (wish->whole) return wish->range_count == 0u ? NXMEM_STATUS_OK : commit_ranges(engine, block, wish, loss);
  const nx_commit what = {block->run, 1, NXMEM_MAPPING_PRIVATE, NULL};
  return nx_commit_locked(engine, &what, &block->mapped_bytes, loss);
}

/* A record with a span of its own, in the table of blocks; nothing of it committed. */
static uint32_t make_empty(nx_engine *engine, const nx_wish *wish, nx_block **out) {
  nxmem_block place;
  const nxmem_verdict asked = wish->whole ? nxmem_place_ask(wish->bytes, wish->align, engine->device.granule, &place)
                                          : nxmem_place_ask(wish->bytes, wish->align, NX_UNIT, &place);
  if (asked.reason != NXMEM_REASON_NONE) return nxmem_reason_status(asked.reason);
  nx_block *block = nx_blocks_new(&engine->blocks);
  if (block == NULL) return nx_no_room_locked(engine);
  block->id = wish->id;
  block->bytes = wish->bytes;
  block->align = wish->align;
  block->span_bytes = place.bytes;
  if (nx_spans_take(&engine->spans, &place, &block->first)) {
    block->run = nx_granules_of(engine, block->first, block->span_bytes);
    *out = block;
    if (nx_blocks_add(&engine->blocks, block)) return NXMEM_STATUS_OK;
    (void)nx_spans_give(&engine->spans, block->first, block->span_bytes);
  }
  nx_blocks_spare(&engine->blocks, block);
  return nx_no_room_locked(engine);
}

static void unmake(nx_engine *engine, nx_block *block, const nx_loss *loss) {
  if (loss->bytes != 0u)
    nx_keep_back_locked(engine, block->first, block->span_bytes);
  else
    (void)nx_spans_give(&engine->spans, block->first, block->span_bytes);
  nx_blocks_remove(&engine->blocks, block);
  nx_blocks_spare(&engine->blocks, block);
}

uint32_t nx_block_make_locked(nx_engine *engine, const nx_wish *wish, nx_block **out, nx_loss *loss_out) {
  nx_block *block = NULL;
  *loss_out = (nx_loss){0u, 0u};
  if (nx_device_is_lost(&engine->device) || engine->device.shut_down) return NXMEM_STATUS_DEVICE_ERROR;
  if (nx_blocks_find(&engine->blocks, wish->id) != NULL) return NXMEM_STATUS_INVALID_ARGUMENT;
  const uint32_t made = make_empty(engine, wish, &block);
  if (made != NXMEM_STATUS_OK) return made;
  const uint32_t committed = commit_first(engine, block, wish, loss_out);
  if (committed != NXMEM_STATUS_OK) {
    unmake(engine, block, loss_out);
    return committed;
  }
  *out = block;
  return NXMEM_STATUS_OK;
}

/* ---- Giving back --------------------------------------------------------------------------------------------------- */

/* With views, all in one section: the handles of a prefix that goes with its last view can go too. Views are mapped, so the device is needed. */
static void uncommit_all(nx_engine *engine, nx_block *block, nx_undone *out) {
  if (block->views == NULL) {
    nx_uncommit_locked(engine, block->run, out);
    return;
  }
  *out = (nx_undone){.status = NXMEM_STATUS_BUSY};
  const uint32_t begun = nx_device_begin(&engine->device);
  if (begun == NX_VMM_CAPTURING) return;
  nx_uncommit_begun_locked(engine, block->run, begun, out);
  nx_views_drop_locked(engine, block, out);
  if (begun == NX_VMM_DONE) nx_device_end(&engine->device);
}

void nx_block_release_locked(nx_engine *engine, nx_block *block, nx_undone *out) {
  uncommit_all(engine, block, out);
  if (out->status == NXMEM_STATUS_BUSY) return;
  out->loss.bytes += block->kept_bytes;
  if (out->loss.bytes != 0u) {
    out->status = NXMEM_STATUS_RELEASE_QUARANTINED;
    count_residue(engine);
  } else {
    (void)nx_spans_give(&engine->spans, block->first, block->span_bytes);
  }
  nx_blocks_remove(&engine->blocks, block);
  nx_blocks_spare(&engine->blocks, block);
}

/* ---- Committing, decommitting --------------------------------------------------------------------------------------- */

uint32_t nx_block_commit_locked(nx_engine *engine, nx_block *block, NxmemByteRange range, nx_loss *loss_out) {
  const uint32_t status = commit_range(engine, block, range, loss_out);
  /* The block lives on; what could not be undone in it is its own until it goes. */
  block->kept_bytes += loss_out->bytes;
  block->mapped_bytes += loss_out->bytes;
  return status;
}

/* The granules that lie whole in a range; where it reaches the block's end, what the block has behind that end is in it too. */
static nx_run whole_granules(const nx_engine *engine, const nx_block *block, NxmemByteRange range) {
  nx_run run;
  const int to_the_end = range.bytes == block->bytes - range.offset;
  const uint64_t bytes = to_the_end ? block->span_bytes - range.offset : range.bytes;
  run.count =
      nxmem_granules_whole(block->first - engine->base + range.offset, bytes, engine->device.granule, &run.first);
  return run;
}

uint32_t nx_block_decommit_locked(nx_engine *engine, nx_block *block, NxmemByteRange range, nx_undone *out) {
  const nx_run run = whole_granules(engine, block, range);
  *out = (nx_undone){.status = NXMEM_STATUS_OK};
  if (run.count == 0u) return NXMEM_STATUS_OK;
  const nxmem_verdict may = nxmem_check_granules_decommit(engine->table.granules + run.first, run.count);
  if (may.reason != NXMEM_REASON_NONE) return out->status = nx_granule_status(may.reason);
  nx_run used;
  if (!nxmem_granules_next_run(engine->table.granules + run.first, run.count, 0u, NXMEM_GRANULE_REFERRED, &used))
    return NXMEM_STATUS_OK;
  /* The block lives on: where the device cannot be reached, nothing changes. */
  const uint32_t begun = nx_device_begin(&engine->device);
  if (begun != NX_VMM_DONE) return out->status = nx_outcome_status(begun);
  nx_uncommit_locked(engine, run, out);
  nx_device_end(&engine->device);
  block->mapped_bytes -= out->unmapped;
  block->kept_bytes += out->loss.bytes;
  return out->status;
}
