/*
 * scripted_queue.c: deferred release: the honest queue of an allocator.
 *
 * Attackers: none by intent; a host with short, NULL, stale or foreign arguments is answered as the contract says.
 * Promise: first in, first out; a block's memory is gone before the host is told; one completion each, made with no
 * lock held and by one drain at a time, so that they arrive in the order of their enqueues.
 */
#define _POSIX_C_SOURCE 200809L
#include "scripted_queue.h"

#include <pthread.h>

#include "scripted_calls.h"

/* Protects the queue, `queued` and `draining` of every allocator, and the tickets. */
static pthread_mutex_t queues = PTHREAD_MUTEX_INITIALIZER;
static uint64_t last_ticket;

static NxmemStatus invalid(const char *text) { return nx_status(NXMEM_STATUS_INVALID_ARGUMENT, text); }

/* ---- The queue -------------------------------------------------------------------------------------------------- */

static void append_locked(nx_allocator *allocator, nx_block *block) {
  block->next = NULL;
  if (allocator->queue == NULL)
    allocator->queue = block;
  else
    allocator->queue_last->next = block;
  allocator->queue_last = block;
  allocator->queued++;
}

/* Once it is in the queue, another thread may retire it: nothing of it is looked at behind the lock. */
uint64_t nx_queue_push(nx_allocator *allocator, const NxmemAllocation *allocation, uint32_t *code_out) {
  nx_block *block = nx_block_take(allocator, allocation, code_out);
  if (block == NULL) return 0u;
  pthread_mutex_lock(&queues);
  const uint64_t ticket = ++last_ticket;
  block->ticket = ticket;
  append_locked(allocator, block);
  nx_count(NX_PROBE_QUEUED_RELEASES);
  nx_uncount(NX_PROBE_LIVE_ALLOCATIONS);
  nx_note(NX_PROBE_LAST_TICKET, ticket);
  pthread_mutex_unlock(&queues);
  return ticket;
}

nx_block *nx_queue_pop(nx_allocator *allocator) {
  pthread_mutex_lock(&queues);
  nx_block *block = allocator->queue;
  if (block != NULL) allocator->queue = block->next;
  pthread_mutex_unlock(&queues);
  return block;
}

void nx_queue_settled(nx_allocator *allocator) {
  pthread_mutex_lock(&queues);
  allocator->queued--;
  pthread_mutex_unlock(&queues);
  nx_uncount(NX_PROBE_QUEUED_RELEASES);
}

uint64_t nx_queue_length(nx_allocator *allocator) {
  pthread_mutex_lock(&queues);
  const uint64_t length = allocator->queued;
  pthread_mutex_unlock(&queues);
  return length;
}

void nx_queue_discard(nx_allocator *allocator) {
  for (nx_block *block = nx_queue_pop(allocator); block != NULL; block = nx_queue_pop(allocator))
    nx_block_discard(block);
}

/* ---- Completions ------------------------------------------------------------------------------------------------ */

NxmemReleaseCompletion nx_completion_of(const nx_allocator *allocator, const nx_block *block) {
  NxmemReleaseCompletion completion = {.struct_size = sizeof completion,
                                       .ticket = block->ticket,
                                       .mechanism_id = allocator->mechanism_id,
                                       .allocation_id = block->id};
  nx_write_outcome(&completion.outcome, NXMEM_RELEASE_COMPLETE, block->bytes, nx_block_mapped(block), 0u, nx_ok());
  return completion;
}

int nx_queue_peek(nx_allocator *allocator, NxmemReleaseCompletion *completion_out) {
  pthread_mutex_lock(&queues);
  const nx_block *oldest = allocator->queue;
  if (oldest != NULL) *completion_out = nx_completion_of(allocator, oldest);
  pthread_mutex_unlock(&queues);
  return oldest != NULL;
}

NxmemStatus nx_tell(const nx_allocator *allocator, const NxmemReleaseCompletion *completion) {
  const NxmemHostCallbacks *host = allocator->callbacks;
  return nx_call_completed(host, nx_host_ctx_of(host), completion);
}

/* What the host answers changes nothing: the memory is gone. */
void nx_retire(nx_allocator *allocator, nx_block *block) {
  const NxmemReleaseCompletion completion = nx_completion_of(allocator, block);
  nx_block_discard(block);
  (void)nx_tell(allocator, &completion);
  nx_queue_settled(allocator);
}

/* The number of waiting releases as this drain finds it: what others add meanwhile is not waited for. */
static int begin(nx_allocator *allocator, uint64_t *waiting_out) {
  pthread_mutex_lock(&queues);
  const int first = !allocator->draining;
  allocator->draining = 1;
  *waiting_out = allocator->queued;
  pthread_mutex_unlock(&queues);
  return first;
}

static void end(nx_allocator *allocator) {
  pthread_mutex_lock(&queues);
  allocator->draining = 0;
  pthread_mutex_unlock(&queues);
}

uint64_t nx_retire_up_to(nx_allocator *allocator, uint64_t max, nx_retire_function retire) {
  uint64_t waiting = 0u;
  uint64_t retired = 0u;
  if (!begin(allocator, &waiting)) return 0u;
  for (; retired < max && retired < waiting; retired++) {
    nx_block *block = nx_queue_pop(allocator);
    if (block == NULL) break;
    retire(allocator, block);
  }
  end(allocator);
  return retired;
}

/* ---- The slots -------------------------------------------------------------------------------------------------- */

NxmemStatus nx_begin_enqueue(void *ctx, const NxmemAllocation *allocation, const uint64_t *ticket_out) {
  nx_count(NX_PROBE_ENQUEUE_CALLS);
  if (ctx == NULL || nx_unusable(allocation) || nx_unusable(ticket_out))
    return invalid("enqueue: NULL or misaligned argument");
  const NxmemStatus checked = nx_check_allocation(ctx, allocation);
  if (checked.code != NXMEM_STATUS_OK) return checked;
  /* Queued without anybody to tell, a release could never end. */
  if (!nx_takes_completions(((const nx_allocator *)ctx)->callbacks))
    return nx_status(NXMEM_STATUS_UNSUPPORTED_CAPABILITY, "enqueue: no release_completed");
  return nx_ok();
}

NxmemStatus nx_enqueue_release(void *ctx, const NxmemAllocation *allocation, uint64_t *ticket_out) {
  const NxmemStatus begun = nx_begin_enqueue(ctx, allocation, ticket_out);
  if (begun.code != NXMEM_STATUS_OK) return begun;
  uint32_t code = NXMEM_STATUS_OK;
  const uint64_t ticket = nx_queue_push(ctx, allocation, &code);
  if (ticket == 0u) return nx_status(code, "enqueue: not what was allocated");
  *ticket_out = ticket;
  return nx_ok();
}

NxmemStatus nx_begin_drain(void *ctx, const uint64_t *retired_out) {
  nx_count(NX_PROBE_DRAIN_CALLS);
  if (ctx == NULL || nx_unusable(retired_out)) return invalid("drain: NULL or misaligned argument");
  return nx_is_released(ctx) ? invalid("drain: the allocator was released") : nx_ok();
}

NxmemStatus nx_drain_with(void *ctx, uint64_t max, uint64_t *retired_out, nx_retire_function retire) {
  const NxmemStatus begun = nx_begin_drain(ctx, retired_out);
  if (begun.code == NXMEM_STATUS_OK) *retired_out = nx_retire_up_to(ctx, max, retire);
  return begun;
}

NxmemStatus nx_drain_releases(void *ctx, uint64_t max, uint64_t *retired_out) {
  return nx_drain_with(ctx, max, retired_out, nx_retire);
}

NxmemStatus nx_begin_pending(void *ctx, const uint64_t *count_out) {
  nx_count(NX_PROBE_PENDING_CALLS);
  if (ctx == NULL || nx_unusable(count_out)) return invalid("pending: NULL or misaligned argument");
  return nx_is_released(ctx) ? invalid("pending: the allocator was released") : nx_ok();
}

NxmemStatus nx_pending_release_count(void *ctx, uint64_t *count_out) {
  const NxmemStatus begun = nx_begin_pending(ctx, count_out);
  if (begun.code == NXMEM_STATUS_OK) *count_out = nx_queue_length(ctx);
  return begun;
}
