/*
 * rules_stress.c: rules about threads, re-entry, and many cycles.
 * Attackers: a plugin that keeps a lock across a callback, counts without atomics, or leaks a little each time.
 * Promise: counts are compared before and after; growth is judged per cycle, behind a warm-up.
 */
#include <inttypes.h>
#include <string.h>

#include "conform/backing.h"
#include "conform/expect.h"
#include "conform/families.h"
#include "conform/parallel.h"
#include "conform/pressure.h"
#include "conform/usage.h"
#include "nxmem.h"

enum { ROUNDS = 1000, HELD = 16 };

/* ---- Threads ----------------------------------------------------------------------------------------------------- */

/* A small window of live blocks per thread, so that blocks of all threads interleave. */
static void allocate_and_give(void *with, uint32_t thread) {
  const nx_opened *opened = with;
  nx_block held[HELD] = {{{0}, {0}}};
  for (uint32_t i = 0; i < ROUNDS + HELD; i++) {
    nx_block *slot = &held[i % HELD];
    uint64_t unmapped = NX_UNWRITTEN;
    if (i >= HELD)
      nx_expect_status(nx_deallocate(opened, &slot->allocation, &unmapped), NX_CODE(OK), "a block of this thread");
    if (i >= ROUNDS) continue;
    NxmemAllocRequest request = nx_request(opened, 32 + (thread * 977 + i) % 4000, 16);
    slot->result = nx_blank_result();
    nx_expect_status(nx_allocate(opened, &request, &slot->result), NX_CODE(OK), "allocate from eight threads");
    slot->allocation = nx_allocation_of(&request, &slot->result);
  }
}

static void threads_allocate(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  NxmemUnloadReport before = nx_plugin_report(trial);
  nx_parallel(allocate_and_give, &opened);
  nx_same_counts(trial, &before, "8,000 allocations and releases from 8 threads");
  nx_seen("8,000 allocations and releases from %d threads, all counts as before", NX_THREADS);
}

typedef struct busy_queue {
  nx_opened opened;
  nx_callback_log log;
} busy_queue;

static busy_queue the_queue;

static void enqueue_and_drain(void *with, uint32_t thread) {
  busy_queue *q = with;
  (void)thread;
  for (int i = 0; i < 200; i++) {
    nx_block block = nx_take(&q->opened, 64, 16);
    uint64_t number = NX_UNWRITTEN;
    nx_expect_status(nx_enqueue(&q->opened, &block.allocation, &number), NX_CODE(OK), "a block of this thread");
    if (i % 8 == 7) nx_expect_status(nx_drain(&q->opened, 16, &number), NX_CODE(OK), "drain_releases");
  }
}

static void threads_enqueue(nx_trial *trial, const void *with) {
  (void)with;
  busy_queue *q = &the_queue;
  const uint64_t wanted = 200 * NX_THREADS;
  nx_open_ready(trial);
  NxmemUnloadReport before = nx_plugin_report(trial);
  nx_callbacks_begin(&q->log);
  q->opened = nx_open_once(trial, &q->log);
  nx_parallel(enqueue_and_drain, q);
  for (uint64_t i = 0; i < 2 * wanted && q->log.completions < wanted; i++) {
    uint64_t retired = 0;
    nx_expect_status(nx_drain(&q->opened, UINT64_MAX, &retired), NX_CODE(OK), "drain_releases");
  }
  NX_EXPECT(q->log.completions == wanted, "%" PRIu64 " completions for %" PRIu64 " releases", q->log.completions,
            wanted);
  nx_close(&q->opened);
  nx_same_counts(trial, &before, "1,600 queued releases from 8 threads");
  nx_seen("%" PRIu64 " releases queued, each completed once", wanted);
}

/* ---- Re-entry ---------------------------------------------------------------------------------------------------- */

typedef struct reentry {
  nx_opened *opened;
  uint64_t calls;
  int inside;
} reentry;

static reentry the_reentry;

/* What a host does that finds memory for the plugin: it takes and gives. Where there is none, a refusal will do. */
static void call_back_into(void *with) {
  reentry *state = with;
  if (state->inside++ == 0) {
    NxmemAllocRequest request = nx_request(state->opened, 64, 16);
    NxmemAllocResult result = nx_blank_result();
    nx_block block = {.allocation = {0}};
    if (nx_allocate(state->opened, &request, &result).code == NXMEM_STATUS_OK) {
      block.allocation = nx_allocation_of(&request, &result);
      nx_give(state->opened, &block);
    }
    state->calls++;
  }
  state->inside--;
}

static busy_queue *open_reentrant(nx_trial *trial) {
  busy_queue *q = &the_queue;
  nx_open_ready(trial);
  nx_callbacks_begin(&q->log);
  q->log.inside = call_back_into;
  q->log.with = &the_reentry;
  the_reentry.opened = &q->opened;
  q->opened = nx_open_once(trial, &q->log);
  return q;
}

static void completion_reenters(nx_trial *trial, const void *with) {
  (void)with;
  busy_queue *q = open_reentrant(trial);
  for (int i = 0; i < HELD; i++) {
    nx_block block = nx_take(&q->opened, 64, 16);
    uint64_t ticket = NX_UNWRITTEN;
    NX_GIVEN(nx_enqueue(&q->opened, &block.allocation, &ticket).code == NXMEM_STATUS_OK, "enqueue_release refused");
  }
  for (int i = 0; i < 10 * HELD && q->log.completions < HELD; i++) {
    uint64_t retired = 0;
    nx_drain(&q->opened, UINT64_MAX, &retired);
  }
  NX_EXPECT(the_reentry.calls > 0, "%" PRIu64 " completions, no call back into the plugin", q->log.completions);
  nx_seen("allocate and deallocate from inside %" PRIu64 " completions", the_reentry.calls);
}

/* Under pressure a plugin may ask; one that takes its memory from elsewhere, or never asks, is not judged. */
static busy_queue *pressed(nx_trial *trial) {
  busy_queue *q = open_reentrant(trial);
  nx_block block = nx_take(&q->opened, 64, 16);
  nx_give(&q->opened, &block);
  nx_press(&q->opened);
  if (q->log.reclaims == 0) nx_does_not_apply("it did not ask for memory to be reclaimed");
  return q;
}

static void reclaim_reenters(nx_trial *trial, const void *with) {
  (void)with;
  pressed(trial);
  NX_EXPECT(the_reentry.calls > 0, "no call back into the plugin came through");
  nx_seen("allocate and deallocate from inside %" PRIu64 " requests", the_reentry.calls);
}

/* ---- Many cycles ------------------------------------------------------------------------------------------------- */

static void open_cycle(nx_trial *trial) {
  nx_opened opened = nx_open_once(trial, NULL);
  nx_block block = nx_take(&opened, 4096, 64);
  nx_give(&opened, &block);
  nx_close(&opened);
}

static void opens_do_not_grow(nx_trial *trial, const void *with) {
  (void)with;
  uint32_t cycles = nx_cycles(trial, 1);
  nx_plugin_ready(trial);
  for (uint32_t i = 0; i <= cycles / 10; i++) open_cycle(trial);
  nx_usage before = nx_usage_now();
  for (uint32_t i = 0; i < cycles; i++) open_cycle(trial);
  nx_usage_judge(&before, cycles, "open, allocate, release, close");
}

static void block_cycles(const nx_opened *opened, uint32_t cycles) {
  for (uint32_t i = 0; i < cycles; i++) {
    nx_block block = nx_take(opened, 1 + (uint64_t)i % 8192, 16);
    nx_give(opened, &block);
  }
}

static void blocks_do_not_grow(nx_trial *trial, const void *with) {
  (void)with;
  uint32_t cycles = nx_cycles(trial, 1);
  nx_opened opened = nx_open_ready(trial);
  block_cycles(&opened, cycles / 10 + 1);
  nx_usage before = nx_usage_now();
  block_cycles(&opened, cycles);
  nx_usage_judge(&before, cycles, "allocate, release");
}

/* Requests that are refused at the door, and one that is refused when its block is all but made. */
static void refuse_often(const nx_opened *opened, const NxmemAllocRequest *requests, int kinds, uint32_t cycles) {
  for (uint32_t i = 0; i < cycles; i++) {
    NxmemAllocResult result = nx_blank_result();
    uint32_t code = nx_allocate(opened, &requests[i % (uint32_t)kinds], &result).code;
    NX_GIVEN(code != NXMEM_STATUS_OK, "a wrong request was served");
  }
}

static void refusals_do_not_grow(nx_trial *trial, const void *with) {
  (void)with;
  uint32_t cycles = nx_cycles(trial, 1);
  nx_opened opened = nx_open_ready(trial);
  nx_block live = nx_take(&opened, 64, 16);
  NxmemAllocResult result = nx_blank_result();
  NxmemAllocRequest requests[2] = {nx_request(&opened, 4096, 64), nx_request(&opened, 4096, 64)};
  requests[0].device.index++;
  requests[1].allocation_id = live.allocation.allocation_id;
  int kinds = nx_allocate(&opened, &requests[1], &result).code == NXMEM_STATUS_OK ? 1 : 2;
  refuse_often(&opened, requests, kinds, cycles / 10 + 1);
  nx_usage before = nx_usage_now();
  refuse_often(&opened, requests, kinds, cycles);
  nx_usage_judge(&before, cycles, "a request that is refused");
}

#define STE(name, text, place, need, cap, function)                                                      \
  {                                                                                                      \
    .id = (name), .statement = (text), .section = (place), .scope = NX_SCOPE_MECHANISM, .needs = (need), \
    .capability = (cap), .check = (function)                                                             \
  }

static const nx_rule RULES[] = {
    STE("NX-THR-001", "Eight threads allocate and release at once, and every count is as before", "Threads",
        "NX-ALC-010", 0, threads_allocate),
    STE("NX-THR-002", "Eight threads queue and drain at once, and each release completes once", "Threads", "NX-DEF-015",
        NXMEM_CAP_DEFERRED_RELEASE, threads_enqueue),
    STE("NX-THR-003", "The host may call back into the plugin from release_completed", "Threads", "NX-DEF-007",
        NXMEM_CAP_DEFERRED_RELEASE, completion_reenters),
    STE("NX-THR-004", "The host may call back into the plugin from request_reclaim", "Threads", "NX-DEA-001", 0,
        reclaim_reenters),
    STE("NX-GRO-001", "Again and again open, allocate, release, close use up nothing", "Ownership", "NX-OPN-015", 0,
        opens_do_not_grow),
    STE("NX-GRO-002", "Blocks, one after the other, use up nothing", "Ownership", "NX-ALC-010", 0, blocks_do_not_grow),
    STE("NX-GRO-003", "Refusals use up nothing", "Status", "NX-DEA-001", 0, refusals_do_not_grow),
};

const nx_family nx_stress_rules =
    NX_FAMILY("threads and cycles", "Threads, calls back from callbacks, and many cycles", RULES);
