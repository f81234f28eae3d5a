/*
 * deferred.c: queued releases: a mark behind the work that may still use a block, and the block's end once it has been passed.
 *
 * Attackers: work that never ends; an event that fails; drains from many threads; a host that calls back into the plugin.
 * Promise: nothing is unmapped before its mark was passed; releases end in the order they were queued in; nothing here waits; one completion each, told with no lock
 * held and by one drain at a time.
 */
#include <stdlib.h>

#include "engine.h"

static nx_figure last_ticket;

static void append(nx_engine *engine, nx_block *block) {
  block->state = NX_BLOCK_QUEUED;
  block->after = NULL;
  if (engine->queue == NULL)
    engine->queue = block;
  else
    engine->queue_last->after = block;
  engine->queue_last = block;
  engine->queued++;
  nx_add(&nx_the_report.queued, 1u);
}

uint32_t nx_enqueue_locked(nx_engine *engine, nx_block *block, uint64_t *ticket_out) {
  uint32_t outcome = nx_device_begin(&engine->device);
  if (outcome != NX_VMM_DONE) return nx_outcome_status(outcome);
  outcome = nx_device_mark(&engine->device, &block->mark);
  nx_device_end(&engine->device);
  if (outcome != NX_VMM_DONE) return nx_outcome_status(outcome);
  block->ticket = atomic_fetch_add(&last_ticket, 1u) + 1u;
  append(engine, block);
  /* Its views no longer count: nobody can reach them through a block that is on its way out. */
  nx_take(&nx_the_report.views, block->view_count);
  block->view_count = 0u;
  *ticket_out = block->ticket;
  return NXMEM_STATUS_OK;
}

/* ---- Draining ------------------------------------------------------------------------------------------------------ */

static void drop_mark(nx_engine *engine, uint64_t mark) {
  const uint32_t outcome = nx_device_drop_mark(&engine->device, mark);
  if (outcome != NX_VMM_DONE && outcome != NX_VMM_SHUT_DOWN && outcome != NX_VMM_LOST) nx_orphan(&engine->marks, mark);
}

/* An event that fails says that work behind it failed: what that left of the device is not to be trusted. */
static uint32_t mark_state(nx_engine *engine, uint64_t mark) {
  const uint32_t outcome = nx_device_mark_state(&engine->device, mark);
  if (outcome == NX_VMM_NO_MEMORY || outcome == NX_VMM_REFUSED) nx_device_lose(&engine->device);
  return outcome;
}

/*
 * A mark is made, asked and dropped: the one call that a lost device cannot answer as a healthy one does. Nothing is waited for, and nothing is changed.
 * No work of ours stands before it, and a driver may have no marks at all: a refusal says nothing of the device, only a loss does.
 */
int nx_ask_if_lost_locked(nx_engine *engine) {
  uint64_t mark = 0u;
  if (nx_device_begin(&engine->device) != NX_VMM_DONE) return nx_device_is_lost(&engine->device);
  if (nx_device_mark(&engine->device, &mark) == NX_VMM_DONE) {
    (void)nx_device_mark_state(&engine->device, mark);
    drop_mark(engine, mark);
  }
  nx_device_end(&engine->device);
  return nx_device_is_lost(&engine->device);
}

/* May the oldest release end? DONE; PENDING or another reason why not now. A device that is lost or shut down holds up nothing. */
static uint32_t passed(nx_engine *engine, uint64_t mark) {
  const uint32_t state = mark_state(engine, mark);
  if (state == NX_VMM_PENDING || state == NX_VMM_CAPTURING || state == NX_VMM_UNBOUND) return state;
  drop_mark(engine, mark);
  return NX_VMM_DONE;
}

static void fill(const nx_engine *engine, const nx_block *block, NxmemReleaseCompletion *completion) {
  *completion = (NxmemReleaseCompletion){.struct_size = sizeof *completion,
                                         .ticket = block->ticket,
                                         .mechanism_id = engine->offer->mechanism_id,
                                         .allocation_id = block->id};
}

static void end_block(nx_engine *engine, nx_block *block, NxmemReleaseCompletion *completion) {
  nx_undone undone;
  const uint64_t bytes = block->bytes;
  fill(engine, block, completion);
  engine->queue = block->after;
  nx_block_release_locked(engine, block, &undone);
  nx_outcome_fill(&completion->outcome, bytes, &undone);
}

/* Ends the oldest release if its mark was passed. DONE: *completion is to be told. */
static uint32_t end_oldest_locked(nx_engine *engine, NxmemReleaseCompletion *completion) {
  nx_block *block = engine->queue;
  const uint32_t begun = nx_device_begin(&engine->device);
  if (begun == NX_VMM_LOST || begun == NX_VMM_SHUT_DOWN) {
    end_block(engine, block, completion);
    return NX_VMM_DONE;
  }
  if (begun != NX_VMM_DONE) return begun;
  const uint32_t state = passed(engine, block->mark);
  if (state == NX_VMM_DONE) end_block(engine, block, completion);
  nx_device_end(&engine->device);
  return state;
}

/* How many are queued as this drain finds it: what others add meanwhile is not waited for. 0 also while another drain is under way. */
static uint64_t begin_drain(nx_engine *engine) {
  pthread_mutex_lock(&engine->lock);
  const uint64_t waiting = engine->draining ? 0u : engine->queued;
  if (waiting != 0u) engine->draining = 1;
  pthread_mutex_unlock(&engine->lock);
  return waiting;
}

static uint32_t end_one(nx_engine *engine, NxmemReleaseCompletion *completion) {
  pthread_mutex_lock(&engine->lock);
  const uint32_t outcome = engine->queue == NULL ? (uint32_t)NX_VMM_PENDING : end_oldest_locked(engine, completion);
  pthread_mutex_unlock(&engine->lock);
  return outcome;
}

/* Counted until the host was told; what it answers changes nothing. */
static void tell(nx_engine *engine, const NxmemReleaseCompletion *completion) {
  (void)engine->callbacks->release_completed(engine->callbacks->host_ctx, completion);
  pthread_mutex_lock(&engine->lock);
  engine->queued--;
  pthread_mutex_unlock(&engine->lock);
  nx_take(&nx_the_report.queued, 1u);
}

static void end_drain(nx_engine *engine) {
  pthread_mutex_lock(&engine->lock);
  engine->draining = 0;
  pthread_mutex_unlock(&engine->lock);
}

uint32_t nx_drain(nx_engine *engine, uint64_t max, uint64_t *retired_out) {
  uint64_t retired = 0u;
  uint32_t outcome = NX_VMM_DONE;
  NxmemReleaseCompletion completion;
  *retired_out = 0u;
  const uint64_t waiting = max == 0u ? 0u : begin_drain(engine);
  if (waiting == 0u) return NXMEM_STATUS_OK;
  for (; retired < max && retired < waiting; retired++) {
    outcome = end_one(engine, &completion);
    if (outcome != NX_VMM_DONE) break;
    tell(engine, &completion);
  }
  end_drain(engine);
  *retired_out = retired;
  return retired != 0u || outcome == NX_VMM_PENDING ? (uint32_t)NXMEM_STATUS_OK : nx_outcome_status(outcome);
}
