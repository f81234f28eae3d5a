/*
 * scripted_queues.c: mechanisms whose enqueue, drain or pending count is not what it says, or comes at another time.
 *
 * Attackers: these are.
 * Promise: each queued release completes once, with a true record; only what a row names is false.
 */
#define _POSIX_C_SOURCE 200809L
#include <time.h>

#include "scripted_mechanisms.h"
#include "scripted_queue.h"

/* ---- Enqueue ---------------------------------------------------------------------------------------------------- */

/* Completed inside, then refused. */
static NxmemStatus completes_then_fails(void *ctx, const NxmemAllocation *allocation, uint64_t *ticket_out) {
  uint64_t ticket = 0u;
  const NxmemStatus done = nx_enqueue_release(ctx, allocation, ticket_out == NULL ? NULL : &ticket);
  if (done.code != NXMEM_STATUS_OK) return done;
  (void)nx_retire_up_to(ctx, UINT64_MAX, nx_retire);
  return nx_status(NXMEM_STATUS_INTERNAL_ERROR, "could not be queued");
}

static NxmemStatus no_ticket(void *ctx, const NxmemAllocation *allocation, uint64_t *ticket_out) {
  uint64_t ticket = 0u;
  return nx_enqueue_release(ctx, allocation, ticket_out == NULL ? NULL : &ticket);
}

/* The first try of each allocation. */
static NxmemStatus fails_first(void *ctx, const NxmemAllocation *allocation, uint64_t *ticket_out) {
  const NxmemStatus begun = nx_begin_enqueue(ctx, allocation, ticket_out);
  if (begun.code != NXMEM_STATUS_OK) return begun;
  if (nx_block_tried(ctx, allocation) == 0u) return nx_status(NXMEM_STATUS_BUSY, "not yet");
  nx_uncount(NX_PROBE_ENQUEUE_CALLS); /* the honest slot counts this call again */
  return nx_enqueue_release(ctx, allocation, ticket_out);
}

/* Kept for good, and said so. */
static NxmemStatus quarantines(void *ctx, const NxmemAllocation *allocation, uint64_t *ticket_out) {
  const NxmemStatus begun = nx_begin_enqueue(ctx, allocation, ticket_out);
  if (begun.code != NXMEM_STATUS_OK) return begun;
  uint32_t code = NXMEM_STATUS_OK;
  nx_block *block = nx_block_take(ctx, allocation, &code);
  if (block == NULL) return nx_status(code, "enqueue: not what was allocated");
  nx_block_park(block, 1);
  return nx_status(NXMEM_STATUS_RELEASE_QUARANTINED, "kept");
}

/* Every release of an allocator under the ticket 1. */
static NxmemStatus same_ticket(void *ctx, const NxmemAllocation *allocation, uint64_t *ticket_out) {
  const NxmemStatus done = nx_enqueue_release(ctx, allocation, ticket_out);
  if (done.code == NXMEM_STATUS_OK) *ticket_out = 1u;
  return done;
}

static void retire_under_1(nx_allocator *allocator, nx_block *block) {
  block->ticket = 1u;
  nx_retire(allocator, block);
}

static NxmemStatus drain_under_1(void *ctx, uint64_t max, uint64_t *retired_out) {
  return nx_drain_with(ctx, max, retired_out, retire_under_1);
}

/* ---- Drain ------------------------------------------------------------------------------------------------------ */

static NxmemStatus overclaims(void *ctx, uint64_t max, uint64_t *retired_out) {
  const NxmemStatus done = nx_drain_releases(ctx, max, retired_out);
  if (done.code == NXMEM_STATUS_OK) ++*retired_out;
  return done;
}

static NxmemStatus claims_all(void *ctx, uint64_t max, uint64_t *retired_out) {
  const NxmemStatus done = nx_drain_releases(ctx, max, retired_out);
  if (done.code == NXMEM_STATUS_OK) *retired_out = UINT64_MAX;
  return done;
}

static NxmemStatus claims_none(void *ctx, uint64_t max, uint64_t *retired_out) {
  const NxmemStatus done = nx_drain_releases(ctx, max, retired_out);
  if (done.code == NXMEM_STATUS_OK) *retired_out = 0u;
  return done;
}

static NxmemStatus drains_silently(void *ctx, uint64_t max, uint64_t *retired_out) {
  uint64_t retired = 0u;
  return nx_drain_releases(ctx, max, retired_out == NULL ? NULL : &retired);
}

/* More than it was asked for. */
static NxmemStatus drains_all(void *ctx, uint64_t max, uint64_t *retired_out) {
  (void)max;
  return nx_drain_releases(ctx, UINT64_MAX, retired_out);
}

/* The first drain of an allocator. */
static NxmemStatus refuses_first(void *ctx, uint64_t max, uint64_t *retired_out) {
  const NxmemStatus begun = nx_begin_drain(ctx, retired_out);
  if (begun.code != NXMEM_STATUS_OK) return begun;
  if (nx_turn(ctx) == 0u) return nx_status(NXMEM_STATUS_DEVICE_ERROR, "not now");
  nx_uncount(NX_PROBE_DRAIN_CALLS); /* the honest slot counts this call again */
  return nx_drain_releases(ctx, max, retired_out);
}

/* Everything is retired, and it is said that it failed. */
static NxmemStatus fails_after_all(void *ctx, uint64_t max, uint64_t *retired_out) {
  uint64_t retired = 0u;
  const NxmemStatus done = nx_drain_releases(ctx, max, retired_out == NULL ? NULL : &retired);
  return done.code == NXMEM_STATUS_OK ? nx_status(NXMEM_STATUS_DEVICE_ERROR, "lost count") : done;
}

/* Newest first: each pass takes the last block. Enqueues that come meanwhile are not waited for. */
static void retire_reversed(nx_allocator *allocator, nx_block *block) {
  nx_block *later = nx_queue_pop(allocator);
  if (later != NULL) retire_reversed(allocator, later);
  nx_retire(allocator, block);
}

static NxmemStatus drains_reversed(void *ctx, uint64_t max, uint64_t *retired_out) {
  const NxmemStatus begun = nx_begin_drain(ctx, retired_out);
  if (begun.code != NXMEM_STATUS_OK) return begun;
  const uint64_t waiting = nx_queue_length(ctx);
  (void)nx_retire_up_to(ctx, max == 0u ? 0u : 1u, retire_reversed);
  *retired_out = waiting - nx_queue_length(ctx);
  return nx_ok();
}

/* ---- Pending ---------------------------------------------------------------------------------------------------- */

static NxmemStatus pending_none(void *ctx, uint64_t *count_out) {
  const NxmemStatus done = nx_pending_release_count(ctx, count_out);
  if (done.code == NXMEM_STATUS_OK) *count_out = 0u;
  return done;
}

static NxmemStatus pending_huge(void *ctx, uint64_t *count_out) {
  const NxmemStatus done = nx_pending_release_count(ctx, count_out);
  if (done.code == NXMEM_STATUS_OK) *count_out = UINT64_MAX - 1u;
  return done;
}

static NxmemStatus pending_silent(void *ctx, uint64_t *count_out) {
  uint64_t count = 0u;
  return nx_pending_release_count(ctx, count_out == NULL ? NULL : &count);
}

static NxmemStatus pending_refuses(void *ctx, uint64_t *count_out) {
  const NxmemStatus begun = nx_begin_pending(ctx, count_out);
  return begun.code == NXMEM_STATUS_OK ? nx_status(NXMEM_STATUS_DEVICE_ERROR, "cannot say") : begun;
}

/* ---- Late: a thread of the plugin completes after the last release ---------------------------------------------- */

enum { LATE_NOTHING = 0, LATE_RUNNING = 1, LATE_DONE = 2, LATE_NANOSECONDS = 30000000 };

static NxmemStatus drains_none(void *ctx, uint64_t max, uint64_t *retired_out) {
  (void)max;
  return nx_drain_releases(ctx, 0u, retired_out);
}

/* What it completes stays counted as queued until the thread has been joined: before that its code may not go. */
static void *complete_late(void *argument) {
  nx_allocator *allocator = argument;
  const struct timespec a_while = {0, LATE_NANOSECONDS};
  nanosleep(&a_while, NULL);
  for (nx_block *block = nx_queue_pop(allocator); block != NULL; block = nx_queue_pop(allocator)) {
    const NxmemReleaseCompletion completion = nx_completion_of(allocator, block);
    nx_block_discard(block);
    (void)nx_tell(allocator, &completion);
  }
  atomic_store(&allocator->thread_state, LATE_DONE);
  return NULL;
}

static void start_late(nx_allocator *allocator) {
  if (nx_queue_length(allocator) == 0u) return;
  atomic_store(&allocator->thread_state, LATE_RUNNING);
  if (pthread_create(&allocator->thread, NULL, complete_late, allocator) != 0)
    atomic_store(&allocator->thread_state, LATE_NOTHING);
}

static void join_late(nx_allocator *allocator) {
  int done = LATE_DONE;
  if (!atomic_compare_exchange_strong(&allocator->thread_state, &done, LATE_NOTHING)) return;
  pthread_join(allocator->thread, NULL);
  while (nx_queue_length(allocator) != 0u) nx_queue_settled(allocator);
}

/* ---- The rows --------------------------------------------------------------------------------------------------- */

#define SPOIL(name, slot, by) \
  static void name(NxmemAllocatorVtable *table) { table->slot = (by); }
SPOIL(spoil_failing, enqueue_release, completes_then_fails)
SPOIL(spoil_no_ticket, enqueue_release, no_ticket)
SPOIL(spoil_fails_first, enqueue_release, fails_first)
SPOIL(spoil_quarantines, enqueue_release, quarantines)
SPOIL(spoil_overclaims, drain_releases, overclaims)
SPOIL(spoil_claims_all, drain_releases, claims_all)
SPOIL(spoil_claims_none, drain_releases, claims_none)
SPOIL(spoil_silent, drain_releases, drains_silently)
SPOIL(spoil_greedy, drain_releases, drains_all)
SPOIL(spoil_refuses, drain_releases, refuses_first)
SPOIL(spoil_fails_after, drain_releases, fails_after_all)
SPOIL(spoil_reversed, drain_releases, drains_reversed)
SPOIL(spoil_pending_none, pending_release_count, pending_none)
SPOIL(spoil_pending_huge, pending_release_count, pending_huge)
SPOIL(spoil_pending_silent, pending_release_count, pending_silent)
SPOIL(spoil_pending_refuses, pending_release_count, pending_refuses)
SPOIL(spoil_late, drain_releases, drains_none)

static void spoil_same_ticket(NxmemAllocatorVtable *table) {
  table->enqueue_release = same_ticket;
  table->drain_releases = drain_under_1;
}

#define ROW(row_name, by) \
  { NX_HONEST(row_name, NX_DEFERRED_CAPS), .spoil = (by) }
static const nx_mechanism rows[] = {
    ROW("completion-then-failure", spoil_failing),
    ROW("no-ticket", spoil_no_ticket),
    ROW("same-ticket", spoil_same_ticket),
    ROW("enqueue-fails", spoil_fails_first),
    ROW("enqueue-quarantines", spoil_quarantines),
    ROW("drain-overclaims", spoil_overclaims),
    ROW("drain-claims-all", spoil_claims_all),
    ROW("drain-claims-none", spoil_claims_none),
    ROW("drain-silent", spoil_silent),
    ROW("drain-beyond-max", spoil_greedy),
    ROW("drain-refuses", spoil_refuses),
    ROW("drain-fails-after", spoil_fails_after),
    ROW("drain-reversed", spoil_reversed),
    ROW("pending-none", spoil_pending_none),
    ROW("pending-huge", spoil_pending_huge),
    ROW("pending-silent", spoil_pending_silent),
    ROW("pending-refuses", spoil_pending_refuses),
    {NX_HONEST("late-completion", NX_DEFERRED_CAPS), .spoil = spoil_late, .last_release = start_late,
     .after_drop = join_late},
};
const nx_row_group nx_queue_rows = NX_ROWS(rows);
