/*
 * scripted_racing.c: mechanisms with a thread that goes on writing to a record while the host reads it.
 *
 * Attackers: these are.
 * Promise: a thread writes one field, between two values of which one is true, only while it still sees its own record
 * around it, and ends by itself; it is joined before the record goes and before the module may go. Only `writes-on-...`
 * write to memory that is the host's, for at most THEIR_MILLISECONDS after the slot has returned.
 */
#define _POSIX_C_SOURCE 200809L
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "scripted_calls.h"
#include "scripted_mechanisms.h"
#include "scripted_queue.h"

enum { NOT_RUNNING = 0, RUNNING = 1, TOLD_TO_END = 2, ENDED = 3, STARTING = 4 };
/* A race ends by itself: nobody may ever tell it to. In the host's memory it is short. REST is odd, so that it rests on either value. */
enum { REST = 61, OWN_MILLISECONDS = 5000, THEIR_MILLISECONDS = 250 };

typedef _Atomic uint32_t racing_word;

/* A word that is flipped, and the neighbour that tells whether the record is still there. One race per allocator. */
typedef struct race {
  nx_allocator *allocator;
  racing_word *word;
  uint32_t values[2];          /* the first is true */
  _Atomic uint64_t *neighbour; /* NULL: the record is the plugin's own */
  uint64_t neighbour_is;
  atomic_int begun; /* the first write is done, or there will be none */
} race;

static int is_mine(const race *r) {
  if (r->neighbour != NULL && atomic_load(r->neighbour) != r->neighbour_is) return 0;
  const uint32_t now = atomic_load(r->word);
  return now == r->values[0] || now == r->values[1];
}

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int goes_on(atomic_int *state) {
  const int now = atomic_load(state);
  return now == STARTING || now == RUNNING;
}

static void *flip(void *argument) {
  race *r = argument;
  atomic_int *state = &r->allocator->thread_state;
  const int64_t until = now_ms() + (r->neighbour == NULL ? OWN_MILLISECONDS : THEIR_MILLISECONDS);
  for (uint32_t i = 0u; goes_on(state) && is_mine(r); i++) {
    atomic_store(r->word, r->values[(i + 1u) % 2u]);
    nx_count(NX_PROBE_RACED_WRITES);
    atomic_store(&r->begun, 1);
    if (i % REST != 0u) continue;
    if (now_ms() > until) break;
    sched_yield();
  }
  atomic_store(&r->begun, 1);
  if (is_mine(r)) atomic_store(r->word, r->values[0]);
  int running = RUNNING;
  while (atomic_load(state) == STARTING) sched_yield();
  (void)atomic_compare_exchange_strong(state, &running, ENDED);
  return NULL;
}

static void set(race *r, const race *wanted) {
  r->allocator = wanted->allocator;
  r->word = wanted->word;
  r->values[0] = wanted->values[0];
  r->values[1] = wanted->values[1];
  r->neighbour = wanted->neighbour;
  r->neighbour_is = wanted->neighbour_is;
  atomic_store(&r->begun, 0);
}

/* The race is on when this returns. 0 where another one is, or none can be: then nothing is wrong. */
static int start(nx_allocator *allocator, const race *wanted) {
  int none = NOT_RUNNING;
  if (!atomic_compare_exchange_strong(&allocator->thread_state, &none, STARTING)) return 0;
  if (allocator->state == NULL) allocator->state = calloc(1u, sizeof(race));
  race *r = allocator->state;
  if (r != NULL) set(r, wanted);
  const int started = r != NULL && pthread_create(&allocator->thread, NULL, flip, r) == 0;
  atomic_store(&allocator->thread_state, started ? RUNNING : NOT_RUNNING);
  while (started && atomic_load(&r->begun) == 0) sched_yield();
  return started;
}

/* Whoever turns the state joins the thread; of two that try, one does. */
static void end(nx_allocator *allocator) {
  int running = RUNNING;
  int ended = ENDED;
  if (!atomic_compare_exchange_strong(&allocator->thread_state, &running, TOLD_TO_END) &&
      !atomic_compare_exchange_strong(&allocator->thread_state, &ended, TOLD_TO_END))
    return;
  pthread_join(allocator->thread, NULL);
  atomic_store(&allocator->thread_state, NOT_RUNNING);
}

/* ---- The allocator's table -------------------------------------------------------------------------------------- */

/* A size that is true and one that is too large: the table ends at its guard page whatever it says. */
static void race_table(nx_allocator *allocator, uint32_t other_size) {
  NxmemAllocatorVtable *table = (NxmemAllocatorVtable *)(void *)allocator->table.bytes;
  const race r = {allocator, (racing_word *)&table->struct_size, {NX_ALLOCATOR_BYTES, other_size}, NULL, 0u, 0};
  (void)start(allocator, &r);
}

static void race_larger(nx_allocator *allocator) { race_table(allocator, UINT32_MAX); }
static void race_shorter(nx_allocator *allocator) { race_table(allocator, 8u); }

/* ---- A record of the plugin's, while the host has it ------------------------------------------------------------- */

/* What the host accepts has settled; what it refused comes again, and true. */
static void retire_racing(nx_allocator *allocator, nx_block *block, size_t field, uint32_t wrong) {
  NxmemReleaseCompletion completion = nx_completion_of(allocator, block);
  uint32_t value;
  memcpy(&value, (const uint8_t *)&completion + field, sizeof value);
  const race r = {allocator, (racing_word *)(void *)((uint8_t *)&completion + field), {value, wrong}, NULL, 0u, 0};
  const int racing = start(allocator, &r);
  const NxmemStatus told = nx_tell(allocator, &completion);
  if (racing) end(allocator);
  if (told.code == NXMEM_STATUS_OK) {
    nx_block_discard(block);
    nx_queue_settled(allocator);
  } else {
    nx_retire(allocator, block);
  }
}

static void retire_flipping_size(nx_allocator *allocator, nx_block *block) {
  retire_racing(allocator, block, offsetof(NxmemReleaseCompletion, struct_size), 64u);
}
static void retire_flipping_ticket(nx_allocator *allocator, nx_block *block) {
  retire_racing(allocator, block, offsetof(NxmemReleaseCompletion, ticket), UINT32_MAX);
}
static NxmemStatus drain_flipping_size(void *ctx, uint64_t max, uint64_t *retired_out) {
  return nx_drain_with(ctx, max, retired_out, retire_flipping_size);
}
static NxmemStatus drain_flipping_ticket(void *ctx, uint64_t max, uint64_t *retired_out) {
  return nx_drain_with(ctx, max, retired_out, retire_flipping_ticket);
}

static NxmemStatus allocate_flipping_request(void *ctx, const NxmemAllocRequest *request,
                                             NxmemAllocResult *result_out) {
  const NxmemStatus done = nx_allocate(ctx, request, result_out);
  nx_allocator *allocator = ctx;
  if (done.code != NXMEM_STATUS_OK || allocator->callbacks == NULL) return done;
  NxmemReclaimRequest asked = nx_reclaim_request(allocator, request->bytes);
  uint64_t reclaimed = UINT64_MAX;
  const race r = {allocator, (racing_word *)&asked.struct_size, {sizeof asked, 8u}, NULL, 0u, 0};
  const int racing = start(allocator, &r);
  (void)nx_call_reclaim(allocator->callbacks, allocator->host_ctx, &asked, &reclaimed);
  if (racing) end(allocator);
  return done;
}

/* ---- A record of the host's, behind the slot's return ------------------------------------------------------------- */

static NxmemStatus allocate_writing_on(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  if (ctx != NULL) end(ctx);
  const NxmemStatus done = nx_allocate(ctx, request, result_out);
  if (done.code != NXMEM_STATUS_OK) return done;
  const race r = {ctx,
                  (racing_word *)(void *)&result_out->owned_bytes,
                  {(uint32_t)result_out->owned_bytes, UINT32_MAX},
                  (_Atomic uint64_t *)(void *)&result_out->ptr,
                  (uintptr_t)result_out->ptr,
                  0};
  (void)start(ctx, &r);
  return done;
}

static NxmemStatus release_writing_on(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *outcome_out) {
  if (ctx != NULL) end(ctx);
  const NxmemStatus done = nx_release_allocation(ctx, allocation, outcome_out);
  if (done.code != NXMEM_STATUS_OK) return done;
  const race r = {ctx,
                  (racing_word *)&outcome_out->state,
                  {NXMEM_RELEASE_COMPLETE, NXMEM_RELEASE_FAILED},
                  (_Atomic uint64_t *)&outcome_out->allocation_bytes,
                  outcome_out->allocation_bytes,
                  0};
  (void)start(ctx, &r);
  return done;
}

/* ---- The rows --------------------------------------------------------------------------------------------------- */

#define SPOIL(name, slot, by) \
  static void name(NxmemAllocatorVtable *table) { table->slot = (by); }
SPOIL(spoil_size, drain_releases, drain_flipping_size)
SPOIL(spoil_ticket, drain_releases, drain_flipping_ticket)
SPOIL(spoil_request, allocate, allocate_flipping_request)
SPOIL(spoil_result, allocate, allocate_writing_on)
SPOIL(spoil_outcome, release_allocation, release_writing_on)

static const nx_mechanism rows[] = {
    {NX_HONEST("flipping-table", NX_CAPS), .place = NX_PLACE_GUARD, .published = race_larger, .last_release = end},
    {NX_HONEST("flipping-short-table", NX_CAPS), .published = race_shorter, .last_release = end},
    {NX_HONEST("flipping-completion", NX_DEFERRED_CAPS), .spoil = spoil_size},
    {NX_HONEST("flipping-ticket", NX_DEFERRED_CAPS), .spoil = spoil_ticket},
    {NX_HONEST("flipping-reclaim", NX_CAPS), .spoil = spoil_request},
    {NX_HONEST("writes-on-result", NX_CAPS), .spoil = spoil_result, .last_release = end},
    {NX_HONEST("writes-on-outcome", NX_CAPS), .spoil = spoil_outcome, .last_release = end},
};
const nx_row_group nx_racing_rows = NX_ROWS(rows);
