/*
 * shows_calls.c: what the mechanisms of libnxmem_scripted.so commit in calls into the host and in queued releases.
 *
 * Attackers played: none; here the attackers are under test.
 * Promise: counts are compared for equality, on both sides of the callbacks.
 */
#include <string.h>

#include "shows.h"

/* ---- Slots that must not be called ------------------------------------------------------------------------------ */

void show_ahead_of_host(const scene *s) {
  NxmemOpenRequest request = open_request(s->p);
  const NxmemAllocatorVtable *table = NULL;
  request.abi_minor = 0u;
  assert_status(s->p->factory->open_allocator(s->p->factory->ctx, &request, &table), NXMEM_STATUS_OK);
  assert_int_equal(table->abi_minor, 1u);
  assert_int_equal(((const uint8_t *)table)[128], 0xAA);
  const NxmemAllocation allocation = take(table, 5u, 100u, 64u);
  NxmemReleaseOutcome outcome = unwritten();
  assert_status(table->release_allocation(table->ctx, &allocation, &outcome), NXMEM_STATUS_NOT_IMPLEMENTED);
  assert_int_equal(counted(s, NX_PROBE_FORBIDDEN_CALLS), 1u);
  give_back(table, &allocation);
  table->release(table->ctx);
  show_honest(s);
}

void show_undeclared_slots(const scene *s) {
  uint64_t number = UINT64_MAX;
  const NxmemAllocation allocation = take(s->table, 5u, 100u, 64u);
  NxmemReleaseOutcome outcome = unwritten();
  const NxmemAllocatorVtable *t = s->table;
  assert_status(t->release_allocation(t->ctx, &allocation, &outcome), NXMEM_STATUS_NOT_IMPLEMENTED);
  assert_status(t->enqueue_release(t->ctx, &allocation, &number), NXMEM_STATUS_NOT_IMPLEMENTED);
  assert_status(t->drain_releases(t->ctx, 1u, &number), NXMEM_STATUS_NOT_IMPLEMENTED);
  assert_status(t->pending_release_count(t->ctx, &number), NXMEM_STATUS_NOT_IMPLEMENTED);
  assert_int_equal(number, UINT64_MAX);
  assert_int_equal(counted(s, NX_PROBE_FORBIDDEN_CALLS), 4u);
  give_back(t, &allocation);
}

/* ---- Calls into the host ---------------------------------------------------------------------------------------- */

void show_calls_host(const scene *s) {
  recorder r;
  recorder_start(&r);
  r.completion_answer = NXMEM_STATUS_INVALID_ARGUMENT;
  const NxmemAllocatorVtable *table = recorder_open(&r, s->p);
  const NxmemAllocation allocation = take(table, 5u, 100u, 64u);
  assert_int_equal(r.reclaim[0].struct_size, 32u);
  assert_int_equal(r.reclaim[0].mechanism_id, table->mechanism_id);
  assert_int_equal(r.reclaim[0].bytes, 100u);
  assert_int_equal(counted(s, NX_PROBE_RECLAIM_STATUS), NXMEM_STATUS_BUSY);
  assert_int_equal(counted(s, NX_PROBE_RECLAIMED_BYTES), UINT64_MAX);
  give_back(table, &allocation);
  assert_int_equal(r.completion[0].struct_size, 328u);
  assert_int_equal(r.completion[0].allocation_id, 5u);
  assert_int_equal(counted(s, NX_PROBE_COMPLETION_STATUS), NXMEM_STATUS_INVALID_ARGUMENT);
  table->release(table->ctx);
  show_honest(s); /* without callbacks it just works */
  assert_int_equal(counted(s, NX_PROBE_RECLAIM_CALLS), 1u);
  assert_int_equal(counted(s, NX_PROBE_COMPLETION_CALLS), 1u);
}

/* Without callbacks, refused, given too little, given enough. */
void show_callback_probe(const scene *s) {
  recorder r;
  NxmemAllocRequest request;
  NxmemAllocResult result;
  assert_status(ask(s, 5u, &request, &result), NXMEM_STATUS_OUT_OF_MEMORY);
  assert_int_equal(counted(s, NX_PROBE_RECLAIM_CALLS), 0u);
  recorder_start(&r);
  const scene heard = {s->p, recorder_open(&r, s->p), &r};
  assert_status(ask(&heard, 5u, &request, &result), NXMEM_STATUS_OUT_OF_MEMORY);
  r.reclaim_answer = NXMEM_STATUS_OK;
  r.reclaimed = 99u;
  assert_status(ask(&heard, 5u, &request, &result), NXMEM_STATUS_OUT_OF_MEMORY);
  assert_null(result.ptr);
  r.reclaimed = 100u;
  const NxmemAllocation allocation = take(heard.table, 5u, 100u, 64u);
  give_back(heard.table, &allocation);
  assert_int_equal(r.reclaims, 3u);
  assert_int_equal(counted(s, NX_PROBE_RECLAIM_CALLS), 3u);
  assert_int_equal(counted(s, NX_PROBE_RECLAIMS_ACCEPTED), 2u);
  assert_int_equal(counted(s, NX_PROBE_ALLOCATE_CALLS), 4u);
  heard.table->release(heard.table->ctx);
}

/* Once for each allocator, when the module is next asked for its report. */
void show_after_drop(const scene *s) {
  recorder r;
  recorder_start(&r);
  const NxmemAllocatorVtable *table = recorder_open(&r, s->p);
  const uint64_t mechanism_id = table->mechanism_id;
  assert_books(s->p, 2u, 0u);
  assert_int_equal(r.reclaims + r.completions, 0u);
  table->release(table->ctx);
  assert_int_equal(r.reclaims + r.completions, 0u);
  assert_books(s->p, 1u, 0u);
  assert_books(s->p, 1u, 0u);
  assert_int_equal(r.reclaims, 1u);
  assert_int_equal(r.completions, 1u);
  assert_int_equal(r.reclaim[0].mechanism_id, mechanism_id);
  assert_int_equal(r.completion[0].mechanism_id, mechanism_id);
}

/* ---- Queues ----------------------------------------------------------------------------------------------------- */

void show_refused_enqueue(const scene *s) {
  recorder r;
  recorder_start(&r);
  const NxmemAllocatorVtable *table = recorder_open(&r, s->p);
  const NxmemAllocation allocation = take(table, 5u, 100u, 64u);
  uint64_t ticket = UINT64_MAX;
  assert_status(table->enqueue_release(table->ctx, &allocation, &ticket), NXMEM_STATUS_BUSY);
  assert_int_equal(ticket, UINT64_MAX);
  assert_report(s->p, 2u, 1u, 0u, 0u, 0u);
  assert_int_equal(pending(table), 0u);
  give_back(table, &allocation);
  table->release(table->ctx);
}

void show_completion_inside_enqueue(const scene *s) {
  recorder r;
  recorder_start(&r);
  const NxmemAllocatorVtable *table = recorder_open(&r, s->p);
  const NxmemAllocation allocation = take(table, 5u, 100u, 64u);
  const uint64_t ticket = enqueue(table, &allocation);
  assert_int_equal(r.completions, 1u);
  assert_true_completion(&r.completion[0], &allocation, ticket);
  assert_int_equal(pending(table), 0u);
  assert_int_equal(drain(table, UINT64_MAX), 0u);
  table->release(table->ctx);
}

static void queue_three(const NxmemAllocatorVtable *table, NxmemAllocation *blocks, uint64_t *tickets) {
  for (uint64_t i = 0u; i < 3u; i++) {
    blocks[i] = take(table, 5u + i, 100u, 64u);
    tickets[i] = enqueue(table, &blocks[i]);
  }
}

void show_drip(const scene *s) {
  recorder r;
  NxmemAllocation blocks[3];
  uint64_t tickets[3];
  recorder_start(&r);
  const NxmemAllocatorVtable *table = recorder_open(&r, s->p);
  queue_three(table, blocks, tickets);
  assert_int_equal(drain(table, 0u), 0u);
  for (uint64_t i = 0u; i < 3u; i++) {
    assert_int_equal(drain(table, UINT64_MAX), 1u);
    assert_int_equal(r.completions, i + 1u);
    assert_int_equal(pending(table), 2u - i);
    assert_true_completion(&r.completion[i], &blocks[i], tickets[i]);
  }
  assert_int_equal(drain(table, UINT64_MAX), 0u);
  table->release(table->ctx);
}

void show_completion_inside_release(const scene *s) {
  recorder r;
  NxmemAllocation blocks[3];
  uint64_t tickets[3];
  recorder_start(&r);
  const NxmemAllocatorVtable *table = recorder_open(&r, s->p);
  queue_three(table, blocks, tickets);
  assert_int_equal(drain(table, UINT64_MAX), 0u);
  assert_int_equal(pending(table), 3u);
  table->retain(table->ctx);
  table->release(table->ctx);
  assert_int_equal(r.completions, 0u);
  assert_report(s->p, 2u, 0u, 0u, 0u, 3u);
  table->release(table->ctx);
  assert_int_equal(r.completions, 3u);
  for (uint64_t i = 0u; i < 3u; i++) assert_true_completion(&r.completion[i], &blocks[i], tickets[i]);
  assert_report(s->p, 1u, 0u, 0u, 0u, 0u);
}
