/*
 * recorder.c: a host's callbacks that record what a scripted plugin brings.
 *
 * Attackers played: none.
 * Promise: what arrives is copied whole, in order; what it answers is the test's to say.
 */
#include "recorder.h"

#include <string.h>

static NxmemStatus plain(uint32_t code) { return (NxmemStatus){code, 0u, {0}}; }

static NxmemStatus record_reclaim(void *host_ctx, const NxmemReclaimRequest *request, uint64_t *reclaimed_out) {
  recorder *r = host_ctx;
  if (r->reclaims < RECORDED_MAX) r->reclaim[r->reclaims] = *request;
  r->reclaims++;
  if (r->reclaim_answer == NXMEM_STATUS_OK) *reclaimed_out = r->reclaimed;
  return plain(r->reclaim_answer);
}

static NxmemStatus record_completion(void *host_ctx, const NxmemReleaseCompletion *completion) {
  recorder *r = host_ctx;
  if (r->completions < RECORDED_MAX) {
    r->completion[r->completions] = *completion;
    r->host_ctx[r->completions] = host_ctx;
  }
  r->completions++;
  if (r->inside != NULL) r->inside(r);
  return plain(r->completion_answer);
}

void recorder_start(recorder *r) {
  memset(r, 0, sizeof *r);
  r->reclaim_answer = NXMEM_STATUS_BUSY;
  r->callbacks = (NxmemHostCallbacks){sizeof r->callbacks, 1u, r, record_reclaim, record_completion};
}

const NxmemAllocatorVtable *recorder_open(recorder *r, const plugin *p) {
  NxmemOpenRequest request = open_request(p);
  request.callbacks = &r->callbacks;
  assert_status(p->factory->open_allocator(p->factory->ctx, &request, &r->table), NXMEM_STATUS_OK);
  assert_non_null(r->table);
  return r->table;
}

uint64_t enqueue(const NxmemAllocatorVtable *table, const NxmemAllocation *allocation) {
  uint64_t ticket = UINT64_MAX;
  assert_status(table->enqueue_release(table->ctx, allocation, &ticket), NXMEM_STATUS_OK);
  return ticket;
}

uint64_t drain(const NxmemAllocatorVtable *table, uint64_t max) {
  uint64_t retired = UINT64_MAX;
  assert_status(table->drain_releases(table->ctx, max, &retired), NXMEM_STATUS_OK);
  return retired;
}

uint64_t pending(const NxmemAllocatorVtable *table) {
  uint64_t count = UINT64_MAX;
  assert_status(table->pending_release_count(table->ctx, &count), NXMEM_STATUS_OK);
  return count;
}

void assert_report(const plugin *p, uint64_t allocators, uint64_t allocations, uint64_t views, uint64_t prefixes,
                   uint64_t queued) {
  const NxmemUnloadReport report = report_of(p);
  assert_int_equal(report.live_allocators, allocators);
  assert_int_equal(report.live_allocations, allocations);
  assert_int_equal(report.live_views, views);
  assert_int_equal(report.live_capabilities, prefixes);
  assert_int_equal(report.queued_releases, queued);
}

void assert_true_completion(const NxmemReleaseCompletion *completion, const NxmemAllocation *allocation,
                            uint64_t ticket) {
  assert_int_equal(completion->struct_size, 328u);
  assert_int_equal(completion->ticket, ticket);
  assert_int_equal(completion->mechanism_id, allocation->mechanism_id);
  assert_int_equal(completion->allocation_id, allocation->allocation_id);
  assert_int_equal(completion->outcome.struct_size, 296u);
  assert_int_equal(completion->outcome.state, NXMEM_RELEASE_COMPLETE);
  assert_int_equal(completion->outcome.allocation_bytes, allocation->bytes);
  assert_true(completion->outcome.unmapped_bytes >= allocation->bytes);
  assert_int_equal(completion->outcome.residual_owned_bytes, 0u);
  assert_status(completion->outcome.failure, NXMEM_STATUS_OK);
}
