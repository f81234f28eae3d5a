/*
 * ends_test.c: faults that others met when device memory ends: work still running, other threads and contexts, lost devices, a forked child, trimming.
 *
 * Attackers played: work that does not end, contexts that cannot be reached, drivers that are lost or shut down, a forked child.
 * Promise: one named case for each fault of the field.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vmm.h"

/* ---- Work that still runs ------------------------------------------------------------------------------------------- */

static void pending_work_keeps_its_pages(void **state) {
  nx_vmm *vmm = *state;
  NxmemAllocation blocks[3];
  uint64_t tickets[3], retired = 9u;
  uint32_t code;
  for (uint64_t i = 0u; i < 3u; i++) {
    blocks[i] = nx_vmm_reserve(vmm, i + 1u, NX_G);
    assert_int_equal(nx_vmm_commit(vmm, &blocks[i], 0u, NX_G), NXMEM_STATUS_OK);
  }
  nx_the_script.pending = 1;
  for (int i = 0; i < 3; i++) assert_int_equal(nx_vmm_enqueue(vmm, &blocks[i], &tickets[i]), NXMEM_STATUS_OK);
  assert_int_equal(nx_vmm_decommit(vmm, &blocks[0], 0u, NX_G, NULL), NXMEM_STATUS_BUSY);
  assert_int_equal(nx_vmm_commit(vmm, &blocks[0], 0u, NX_G), NXMEM_STATUS_BUSY);
  (void)nx_vmm_give(vmm, &blocks[1], &code);
  assert_int_equal(code, NXMEM_STATUS_BUSY);
  assert_int_equal(nx_vmm_drain(vmm, &retired), NXMEM_STATUS_OK);
  assert_int_equal(retired, 0);
  assert_int_equal(vmm->told, 0);
  for (int i = 0; i < 3; i++) blocks[i].ptr[0] = 1u; /* still mapped */
  assert_int_equal(nx_vmm_report().queued_releases, 3);
  nx_the_script.pending = 0;
  assert_int_equal(nx_vmm_drain(vmm, &retired), NXMEM_STATUS_OK);
  assert_int_equal(retired, 3);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(vmm->completions[i].ticket, tickets[i]);
    assert_int_equal(vmm->completions[i].allocation_id, (uint64_t)i + 1u);
    assert_int_equal(vmm->completions[i].outcome.state, NXMEM_RELEASE_COMPLETE);
    assert_int_equal(vmm->completions[i].outcome.unmapped_bytes, NX_G);
    assert_true(nx_load_faults(blocks[i].ptr));
  }
}

/* An event that fails: the device is poisoned, nothing is unmapped, the queue still ends. */
static void failed_event_poisons(void **state) {
  nx_vmm *vmm = *state;
  uint64_t retired = 0u;
  const NxmemAllocation block = nx_vmm_take(vmm, 1u, 100u, 1u), other = nx_vmm_take(vmm, 2u, NX_G, NX_G);
  assert_int_equal(nx_vmm_enqueue(vmm, &block, NULL), NXMEM_STATUS_OK);
  nx_script_arm(NX_CALL_MARK_STATE, 1u, NX_VMM_REFUSED, 0);
  assert_int_equal(nx_vmm_drain(vmm, &retired), NXMEM_STATUS_OK);
  assert_int_equal(retired, 1);
  assert_int_equal(vmm->completions[0].outcome.state, NXMEM_RELEASE_QUARANTINED);
  assert_int_equal(vmm->completions[0].outcome.residual_owned_bytes, NX_G);
  assert_int_equal(nx_vmm_stats().device_lost, 1);
  assert_int_equal(nx_vmm_commit(vmm, &other, 0u, 1u), NXMEM_STATUS_DEVICE_ERROR);
  nx_vmm_release(vmm);
  nx_tally_bury();
}

/* ---- Contexts ------------------------------------------------------------------------------------------------------- */

typedef struct errand {
  nx_vmm *vmm;
  NxmemAllocation block;
  uint32_t code;
  NxmemReleaseOutcome outcome;
} errand;

static void *give_elsewhere(void *argument) {
  errand *e = argument;
  e->outcome = nx_vmm_give(e->vmm, &e->block, &e->code);
  return NULL;
}

/* The driver says so itself where a call comes without the context. */
static void release_on_a_fresh_thread(void **state) {
  nx_vmm *vmm = *state;
  pthread_t thread;
  errand e = {.vmm = vmm, .block = nx_vmm_take(vmm, 1u, 3u * NX_G, 1u)};
  assert_int_equal(pthread_create(&thread, NULL, give_elsewhere, &e), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(e.code, NXMEM_STATUS_OK);
  assert_int_equal(nx_the_tally.mappings, 0);
}

/* Nothing is destroyed, the address never comes again, and the module stays. */
static void release_without_the_context(void **state) {
  nx_vmm *vmm = *state;
  uint32_t code;
  const NxmemAllocation block = nx_vmm_take(vmm, 1u, 3u * NX_G, NX_G);
  nx_script_arm(NX_CALL_UNMAP, 0u, 0u, 0);
  nx_the_script.unbound = 1;
  const uint64_t failures = nx_vmm_stats().bind_failures;
  assert_int_equal(nx_vmm_decommit(vmm, &block, 0u, NX_G, NULL), NXMEM_STATUS_DEVICE_ERROR);
  assert_int_equal(nx_vmm_committed(vmm, &block), 3u * NX_G);
  const NxmemReleaseOutcome outcome = nx_vmm_give(vmm, &block, &code);
  nx_the_script.unbound = 0;
  assert_int_equal(code, NXMEM_STATUS_RELEASE_QUARANTINED);
  assert_int_equal(outcome.residual_owned_bytes, 3u * NX_G);
  assert_int_equal(outcome.unmapped_bytes, 0);
  assert_int_equal(nx_the_tally.calls[NX_CALL_UNMAP], 0);
  assert_int_equal(nx_vmm_stats().bind_failures, failures + 2u);
  assert_int_equal(nx_vmm_stats().quarantined_bytes, 3u * NX_G);
  for (uint64_t id = 2u; id < 60u; id++) {
    const NxmemAllocation other = nx_vmm_take(vmm, id, NX_G / 2u, 1u);
    assert_true(other.ptr >= block.ptr + 3u * NX_G || other.ptr + NX_G / 2u <= block.ptr);
  }
  block.ptr[0] = 1u; /* still mapped: nobody pulled it from under a kernel */
  assert_int_equal(nx_vmm_report().live_allocations, 59);
  nx_vmm_end_by_loss(vmm);
}

/* What the first answer says holds for the whole release, also of what goes with its last view. */
static void release_of_shared_bytes_without_the_context(void **state) {
  nx_vmm *vmm = *state;
  uint32_t code;
  const NxmemSharedPrefixHandle prefix = nx_vmm_prefix(vmm, 2u * NX_G), other = nx_vmm_prefix(vmm, NX_G);
  const NxmemAllocation block = nx_vmm_reserve(vmm, 1u, 2u * NX_G);
  assert_int_equal(nx_vmm_share(vmm, &prefix, &block, 0u, NULL), NXMEM_STATUS_OK);
  assert_int_equal(nx_vmm_drop_prefix(vmm, &prefix), NXMEM_STATUS_OK);
  nx_script_arm(NX_CALL_BIND, 1u, NX_VMM_UNBOUND, 0);
  const NxmemReleaseOutcome outcome = nx_vmm_give(vmm, &block, &code);
  assert_int_equal(code, NXMEM_STATUS_RELEASE_QUARANTINED);
  assert_int_equal(outcome.unmapped_bytes, 0);
  assert_int_equal(outcome.residual_owned_bytes, 2u * NX_G);
  nx_script_arm(NX_CALL_BIND, 1u, NX_VMM_UNBOUND, 0);
  assert_int_equal(nx_vmm_drop_prefix(vmm, &other), NXMEM_STATUS_RELEASE_QUARANTINED);
  assert_int_equal(nx_the_tally.calls[NX_CALL_BIND], 1);
  assert_int_equal(nx_the_tally.calls[NX_CALL_UNMAP] + nx_the_tally.calls[NX_CALL_DESTROY], 0);
  assert_int_equal(nx_vmm_stats().quarantined_bytes, 3u * NX_G);
  nx_vmm_end_by_loss(vmm);
}

/* Teardown without the context keeps all, says so, and is made up for later. */
static void teardown_without_the_context(void **state) {
  nx_vmm *vmm = *state;
  nx_the_script.unbound = 1;
  nx_vmm_release(vmm);
  assert_int_equal(nx_vmm_report().live_allocations, 1);
  assert_int_equal(nx_the_tally.reservations, 1);
  nx_the_script.unbound = 0;
  assert_int_equal(nx_vmm_report().live_allocations, 0);
  assert_int_equal(nx_the_tally.reservations, 0);
}

/* A driver that refused to take a handle back and takes it later: in the end nothing is left, and the module may go. */
static void what_was_refused_once_is_taken_at_the_end(void **state) {
  nx_vmm *vmm = *state;
  uint32_t code;
  const NxmemAllocation block = nx_vmm_take(vmm, 1u, 2u * NX_G, NX_G);
  const NxmemSharedPrefixHandle prefix = nx_vmm_prefix(vmm, NX_G);
  nx_script_arm(NX_CALL_DESTROY, 1u, NX_VMM_REFUSED, 1);
  (void)nx_vmm_give(vmm, &block, &code);
  assert_int_equal(code, NXMEM_STATUS_RELEASE_QUARANTINED);
  assert_int_equal(nx_vmm_drop_prefix(vmm, &prefix), NXMEM_STATUS_RELEASE_QUARANTINED);
  nx_vmm_release(vmm);
  assert_int_equal(nx_vmm_report().live_allocations, 2);
  assert_int_equal(nx_vmm_stats().quarantined_bytes, 3u * NX_G);
  nx_script_disarm();
  assert_int_equal(nx_vmm_report().live_allocations, 0);
  assert_int_equal(nx_the_tally.handles, 0);
}

/* An allocator that stays for one granule does not keep the others' memory with it. */
static void what_stays_keeps_no_pool(void **state) {
  nx_vmm *vmm = *state;
  uint32_t code;
  nx_vmm_release(vmm);
  nx_the_offer.pool_bytes = 8u * NX_G;
  nx_vmm_must_open(vmm);
  const NxmemAllocation block = nx_vmm_take(vmm, 1u, 8u * NX_G, NX_G), other = nx_vmm_take(vmm, 2u, NX_G, NX_G);
  nx_vmm_must_give(vmm, &block);
  nx_script_arm(NX_CALL_UNMAP, 1u, NX_VMM_REFUSED, 0);
  (void)nx_vmm_give(vmm, &other, &code);
  assert_int_equal(code, NXMEM_STATUS_RELEASE_QUARANTINED);
  assert_int_equal(nx_the_tally.handles, 9);
  nx_vmm_release(vmm);
  assert_int_equal(nx_the_tally.handles, 1);
  assert_int_equal(nx_vmm_stats().pool_bytes, 0);
  assert_int_equal(nx_vmm_report().live_allocations, 1);
  nx_vmm_end_by_loss(vmm);
}

/* ---- Devices that go ------------------------------------------------------------------------------------------------ */

static void shut_down_counts_as_released(void **state) {
  nx_vmm *vmm = *state;
  uint32_t code;
  const NxmemAllocation first = nx_vmm_take(vmm, 1u, NX_G, NX_G), second = nx_vmm_take(vmm, 2u, NX_G, NX_G);
  nx_script_arm(NX_CALL_UNMAP, 1u, NX_VMM_SHUT_DOWN, 0);
  assert_int_equal(nx_vmm_give(vmm, &first, &code).state, NXMEM_RELEASE_COMPLETE);
  nx_vmm_must_give(vmm, &second);
  nx_vmm_release(vmm);
  nx_vmm_no_breach();
  nx_tally_bury();
}

static void lost_device_closes_its_books(void **state) {
  nx_vmm *vmm = *state;
  uint32_t code;
  const NxmemAllocation first = nx_vmm_take(vmm, 1u, NX_G, NX_G), second = nx_vmm_take(vmm, 2u, NX_G, NX_G);
  nx_script_arm(NX_CALL_CREATE, 1u, NX_VMM_LOST, 0);
  NxmemAllocation none;
  const NxmemAllocRequest request = nx_vmm_request(3u, NX_G, NX_G);
  assert_int_equal(nx_whole(nx_vmm_try(vmm, 0, &request, &none, NULL)), NXMEM_STATUS_DEVICE_ERROR);
  assert_int_equal(nx_vmm_stats().device_lost, 1);
  const NxmemReleaseOutcome outcome = nx_vmm_give(vmm, &first, &code);
  assert_int_equal(outcome.state, NXMEM_RELEASE_QUARANTINED);
  assert_int_equal(outcome.residual_owned_bytes, NX_G);
  assert_int_equal(nx_vmm_decommit(vmm, &second, 0u, NX_G, NULL), NXMEM_STATUS_DEVICE_ERROR);
  assert_int_equal(nx_vmm_enqueue(vmm, &second, NULL), NXMEM_STATUS_DEVICE_ERROR);
  assert_int_equal(nx_vmm_report().live_allocations, 2);
  nx_vmm_release(vmm); /* the host saw the end of what ran there */
  assert_int_equal(nx_vmm_report().live_allocations, 0);
  nx_vmm_no_breach();
  nx_tally_bury();
}

/* No call has met the loss when the host, which has, lets go: the device is asked, and nothing else. */
static void unnoticed_loss_closes_its_books(void **state) {
  nx_vmm *vmm = *state;
  (void)nx_vmm_take(vmm, 1u, NX_G, NX_G);
  const NxmemAllocation queued = nx_vmm_take(vmm, 2u, 100u, 1u);
  assert_int_equal(nx_vmm_enqueue(vmm, &queued, NULL), NXMEM_STATUS_OK);
  (void)nx_vmm_prefix(vmm, NX_G);
  nx_script_arm(NX_CALL_MARK, 1u, NX_VMM_LOST, 0);
  nx_vmm_release(vmm);
  const NxmemUnloadReport report = nx_vmm_report();
  assert_int_equal(report.live_allocations + report.live_allocators, 0);
  assert_int_equal(report.queued_releases + report.live_capabilities + report.live_views, 0);
  assert_int_equal(nx_vmm_stats().device_lost, 1);
  assert_int_equal(nx_vmm_stats().committed_bytes + nx_vmm_stats().reserved_bytes, 0);
  assert_int_equal(nx_the_tally.calls[NX_CALL_UNMAP], 0); /* since it was armed */
  nx_vmm_no_breach();
  nx_tally_bury();
}

/* The device answers as ever: what is left may be in use. It is asked again whenever the module wants to go. */
static void healthy_device_keeps_what_is_left(void **state) {
  nx_vmm *vmm = *state;
  const NxmemAllocation block = nx_vmm_take(vmm, 1u, NX_G, NX_G);
  nx_vmm_release(vmm);
  assert_int_equal(nx_vmm_report().live_allocations, 1);
  block.ptr[0] = 1u; /* still mapped */
  assert_int_equal(nx_the_tally.marks, 0);
  nx_script_arm(NX_CALL_MARK_STATE, 1u, NX_VMM_LOST, 0);
  assert_int_equal(nx_vmm_report().live_allocations, 0);
  nx_vmm_no_breach();
  nx_tally_bury();
}

/* A driver without marks is no lost device: neither this allocator nor another on it is given up. */
static void refused_question_loses_nothing(void **state) {
  nx_vmm *vmm = *state;
  const NxmemAllocation block = nx_vmm_take(vmm, 1u, NX_G, NX_G);
  nx_script_arm(NX_CALL_MARK_STATE, 1u, NX_VMM_REFUSED, 0);
  nx_vmm_release(vmm);
  assert_int_equal(nx_vmm_stats().device_lost, 0);
  nx_script_arm(NX_CALL_MARK, 1u, NX_VMM_NO_MEMORY, 0);
  assert_int_equal(nx_vmm_report().live_allocations, 1);
  assert_int_equal(nx_vmm_stats().device_lost, 0);
  block.ptr[0] = 1u; /* still mapped */
  nx_script_arm(NX_CALL_MARK, 1u, NX_VMM_LOST, 0);
  assert_int_equal(nx_vmm_report().live_allocations, 0);
  nx_vmm_no_breach();
  nx_tally_bury();
}

/* One allocator sees the loss: the other's release destroys nothing either. */
static void loss_is_the_devices(void **state) {
  nx_vmm *vmm = *state, other = {0}, late = {0};
  uint32_t code;
  nx_vmm_must_open(&other);
  const NxmemAllocation block = nx_vmm_take(&other, 1u, NX_G, NX_G), mine = nx_vmm_take(vmm, 2u, NX_G, NX_G);
  nx_script_arm(NX_CALL_UNMAP, 1u, NX_VMM_LOST, 0);
  assert_int_equal(nx_vmm_give(vmm, &mine, &code).state, NXMEM_RELEASE_QUARANTINED);
  assert_int_equal(nx_vmm_give(&other, &block, &code).state, NXMEM_RELEASE_QUARANTINED);
  assert_int_equal(nx_the_tally.calls[NX_CALL_UNMAP], 1);
  const uint64_t drivers = nx_the_tally.drivers;
  assert_int_equal(nx_whole(nx_vmm_open(&late, NXMEM_CAP_ALLOCATOR)), NXMEM_STATUS_DEVICE_ERROR);
  assert_int_equal(nx_the_tally.drivers, drivers); /* none was opened that nobody closes */
  nx_vmm_release(&other);
  assert_int_equal(nx_vmm_report().live_allocations, 1);
  nx_vmm_release(vmm);
  assert_int_equal(nx_vmm_report().live_allocations, 0);
  nx_vmm_no_breach();
  nx_tally_bury();
}

/* The host let the allocator go with its queue full: it is drained by the report, once that can be. */
static void queue_outlives_its_allocator(void **state) {
  nx_vmm *vmm = *state;
  const NxmemAllocation block = nx_vmm_take(vmm, 1u, NX_G, NX_G);
  nx_the_script.pending = 1;
  assert_int_equal(nx_vmm_enqueue(vmm, &block, NULL), NXMEM_STATUS_OK);
  nx_vmm_release(vmm);
  assert_int_equal(nx_vmm_report().queued_releases, 1);
  assert_int_equal(nx_vmm_report().live_allocations, 1);
  block.ptr[0] = 1u; /* still mapped */
  nx_the_script.pending = 0;
  assert_int_equal(nx_vmm_report().queued_releases, 0);
  assert_int_equal(vmm->told, 1);
  assert_int_equal(vmm->completions[0].outcome.state, NXMEM_RELEASE_COMPLETE);
}

/* ---- Fork ----------------------------------------------------------------------------------------------------------- */

static int child_is_refused(nx_vmm *vmm, const NxmemAllocation *block) {
  const NxmemAllocatorVtable *t = vmm->table;
  const NxmemVirtualBackingVtable *b = t->virtual_backing;
  const NxmemSharedMappingVtable *s = t->shared_mapping;
  NxmemAllocRequest request = nx_vmm_request(5u, 64u, 16u);
  NxmemAllocResult result = {.struct_size = sizeof result};
  NxmemReleaseOutcome outcome = {.struct_size = sizeof outcome};
  const NxmemRangeRequest range = {sizeof range, 0u, *block, {0u, 1u}};
  NxmemSharedPrefixHandle handle = {.struct_size = sizeof handle};
  const NxmemSharedPrefixCommitRequest share = {sizeof share, 0u, handle, *block, 0u};
  NxmemSharedPrefixCommitInfo info = {.struct_size = sizeof info};
  NxmemUnloadReport report = {.struct_size = sizeof report};
  uint64_t number = 0u;
  t->retain(t->ctx);
  t->release(t->ctx);
  t->release(t->ctx);
  const uint32_t codes[] = {t->allocate(t->ctx, &request, &result).code,
                            t->deallocate(t->ctx, block, &number).code,
                            t->release_allocation(t->ctx, block, &outcome).code,
                            t->enqueue_release(t->ctx, block, &number).code,
                            t->drain_releases(t->ctx, 1u, &number).code,
                            t->pending_release_count(t->ctx, &number).code,
                            b->allocate_committed(b->ctx, &request, &result).code,
                            b->commit_range(b->ctx, &range).code,
                            b->decommit_range(b->ctx, &range, &number).code,
                            b->mapped_bytes_for_ranges(b->ctx, &range, 1u, &number).code,
                            b->mapped_bytes_for_allocation(b->ctx, &request, &number).code,
                            b->committed_bytes(b->ctx, block, &number).code,
                            s->create_shared_prefix(s->ctx, s->mechanism_id, 1u, &handle).code,
                            s->retain_shared_prefix(s->ctx, &handle).code,
                            s->release_shared_prefix(s->ctx, &handle).code,
                            s->incremental_owned_bytes(s->ctx, &handle, &number).code,
                            s->commit_shared_prefix(s->ctx, &share, &info).code,
                            nx_vmm_open(vmm, NXMEM_CAP_ALLOCATOR).code,
                            nx_vmm_report_code(&report)};
  for (size_t i = 0u; i < sizeof codes / sizeof codes[0]; i++)
    if (codes[i] != NXMEM_STATUS_DEVICE_ERROR) return (int)i + 1;
  return 0;
}

static void forked_child_is_refused(void **state) {
  nx_vmm *vmm = *state;
  int status = -1;
  const NxmemAllocation block = nx_vmm_take(vmm, 1u, 1000u, 1u);
  block.ptr[0] = 0x42;
  nx_script_arm(NX_CALL_BIND, 0u, 0u, 0);
  const pid_t child = fork();
  assert_int_not_equal(child, -1);
  if (child == 0) _exit(child_is_refused(vmm, &block));
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  assert_int_equal(block.ptr[0], 0x42);
  assert_int_equal(nx_vmm_report().live_allocations, 1);
  nx_vmm_must_give(vmm, &block);
}

/* ---- Trimming ------------------------------------------------------------------------------------------------------- */

static void reopen(nx_vmm *vmm) {
  nx_vmm_release(vmm);
  nx_vmm_must_open(vmm);
}

/* What is queued cannot be trimmed, and is told; once it was drained, it can. */
static void trim_before_and_after_a_drain(void **state) {
  nx_vmm *vmm = *state;
  NxmemAllocation none;
  nx_the_offer.pool_bytes = 8u * NX_G;
  reopen(vmm);
  const NxmemAllocation block = nx_vmm_take(vmm, 1u, 4u * NX_G, NX_G);
  nx_the_script.pending = 1;
  assert_int_equal(nx_vmm_enqueue(vmm, &block, NULL), NXMEM_STATUS_OK);
  const uint64_t held = nx_the_tally.handles;
  const NxmemAllocRequest request = nx_vmm_request(2u, 16u * NX_G, NX_G);
  nx_script_arm(NX_CALL_CREATE, 1u, NX_VMM_NO_MEMORY, 1);
  assert_int_equal(nx_whole(nx_vmm_try(vmm, 0, &request, &none, NULL)), NXMEM_STATUS_OUT_OF_MEMORY);
  assert_in_range(nx_the_tally.handles, 4, held);
  assert_int_equal(nx_vmm_stats().committed_bytes, 4u * NX_G);
  assert_int_equal(nx_vmm_report().queued_releases, 1);
  nx_the_script.pending = 0;
  assert_int_equal(nx_vmm_drain(vmm, NULL), NXMEM_STATUS_OK);
  assert_int_equal(nx_vmm_stats().pool_bytes, 4u * NX_G);
  nx_script_arm(NX_CALL_CREATE, 1u, NX_VMM_NO_MEMORY, 1);
  assert_int_equal(nx_whole(nx_vmm_try(vmm, 0, &request, &none, NULL)), NXMEM_STATUS_OUT_OF_MEMORY);
  assert_int_equal(nx_vmm_stats().pool_bytes + nx_the_tally.handles, 0);
  assert_int_equal(vmm->reclaims, 2);
  assert_int_equal(vmm->reclaim.bytes, 16u * NX_G);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      NX_VMM_TEST(pending_work_keeps_its_pages),
      NX_VMM_TEST(failed_event_poisons),
      NX_VMM_TEST(release_on_a_fresh_thread),
      NX_VMM_TEST(release_without_the_context),
      NX_VMM_TEST(release_of_shared_bytes_without_the_context),
      NX_VMM_TEST(teardown_without_the_context),
      NX_VMM_TEST(what_was_refused_once_is_taken_at_the_end),
      NX_VMM_TEST(what_stays_keeps_no_pool),
      NX_VMM_TEST(shut_down_counts_as_released),
      NX_VMM_TEST(lost_device_closes_its_books),
      NX_VMM_TEST(unnoticed_loss_closes_its_books),
      NX_VMM_TEST(healthy_device_keeps_what_is_left),
      NX_VMM_TEST(refused_question_loses_nothing),
      NX_VMM_TEST(loss_is_the_devices),
      NX_VMM_TEST(queue_outlives_its_allocator),
      NX_VMM_TEST(forked_child_is_refused),
      NX_VMM_TEST(trim_before_and_after_a_drain),
  };
  return cmocka_run_group_tests_name("vmm_ends", tests, NULL, NULL);
}
