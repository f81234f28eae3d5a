/*
 * scripted_queue.h: deferred release: the honest queue of an allocator, and its pieces.
 *
 * Attackers: none by intent; the rows replace the slots.
 * Promise: first in, first out; one completion each, made with no lock held and by one drain at a time.
 */
#ifndef NXMEM_SCRIPTED_QUEUE_H
#define NXMEM_SCRIPTED_QUEUE_H

#include "scripted_base.h"

NxmemStatus nx_enqueue_release(void *ctx, const NxmemAllocation *allocation, uint64_t *ticket_out);
NxmemStatus nx_drain_releases(void *ctx, uint64_t max, uint64_t *retired_out);
NxmemStatus nx_pending_release_count(void *ctx, uint64_t *count_out);

/* ---- Pieces ----------------------------------------------------------------------------------------------------- */

/* Count the call and check its arguments. */
NxmemStatus nx_begin_enqueue(void *ctx, const NxmemAllocation *allocation, const uint64_t *ticket_out);
NxmemStatus nx_begin_drain(void *ctx, const uint64_t *retired_out);
NxmemStatus nx_begin_pending(void *ctx, const uint64_t *count_out);

/* Move a live block into the queue; its ticket, or 0 and why where it is not there. */
uint64_t nx_queue_push(nx_allocator *allocator, const NxmemAllocation *allocation, uint32_t *code_out);

/* The oldest block, out of the queue but counted until nx_queue_settled; NULL: none waits. */
nx_block *nx_queue_pop(nx_allocator *allocator);
void nx_queue_settled(nx_allocator *allocator);
uint64_t nx_queue_length(nx_allocator *allocator);

/* The true completion of a queued block. */
NxmemReleaseCompletion nx_completion_of(const nx_allocator *allocator, const nx_block *block);

/* Bring a completion to the host; counted with the host's answer. */
NxmemStatus nx_tell(const nx_allocator *allocator, const NxmemReleaseCompletion *completion);

/* Free a popped block and tell the host so, as it was asked to. */
void nx_retire(nx_allocator *allocator, nx_block *block);

/* Retire up to max of what is queued now, unless another drain is under way: then nothing. How many. */
typedef void (*nx_retire_function)(nx_allocator *allocator, nx_block *block);
uint64_t nx_retire_up_to(nx_allocator *allocator, uint64_t max, nx_retire_function retire);

/* The drain slot of a row that retires in its own way. */
NxmemStatus nx_drain_with(void *ctx, uint64_t max, uint64_t *retired_out, nx_retire_function retire);

/* The true completion of the oldest queued release, which stays queued; 0: there is none. */
int nx_queue_peek(nx_allocator *allocator, NxmemReleaseCompletion *completion_out);

/* Free what is still queued and tell nobody: the module is going. */
void nx_queue_discard(nx_allocator *allocator);

#endif /* NXMEM_SCRIPTED_QUEUE_H */
