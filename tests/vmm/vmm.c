/*
 * vmm.c: drive the engine through its tables, as a host would, over the scripted driver.
 *
 * Attackers played: by the tests that use this.
 * Promise: every helper that says "must" asserts it; at the end of a case the driver must hold nothing and have seen no breach.
 */
#define _GNU_SOURCE
#include "vmm.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nxmem_vmm.h"

NxmemStatus NxmemNegotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response);
NxmemStatus NxmemCreateAllocatorFactories(const NxmemAllocatorFactoryVtable **out, uint64_t max, uint64_t *count);
NxmemStatus NxmemQueryUnloadReadiness(NxmemUnloadReport *report);

uint32_t nx_whole(NxmemStatus status) {
  assert_in_range(status.message_len, 0, NXMEM_STATUS_MESSAGE_MAX);
  for (size_t i = status.message_len; i < sizeof status.message; i++) assert_int_equal(status.message[i], 0);
  if (status.code != NXMEM_STATUS_OK) assert_int_not_equal(status.message_len, 0);
  return status.code;
}

/* ---- Callbacks ----------------------------------------------------------------------------------------------------- */

static NxmemStatus reclaim(void *ctx, const NxmemReclaimRequest *request, uint64_t *reclaimed_out) {
  nx_vmm *vmm = ctx;
  vmm->reclaims++;
  vmm->reclaim = *request;
  *reclaimed_out = 0u;
  if (vmm->on_reclaim != NULL) vmm->on_reclaim(vmm);
  return (NxmemStatus){0};
}

static NxmemStatus completed(void *ctx, const NxmemReleaseCompletion *completion) {
  nx_vmm *vmm = ctx;
  if (vmm->told < NX_TOLD_MAX) vmm->completions[vmm->told] = *completion;
  vmm->told++;
  return (NxmemStatus){0};
}

/* ---- Life ---------------------------------------------------------------------------------------------------------- */

NxmemStatus nx_vmm_open(nx_vmm *vmm, uint64_t required) {
  const NxmemAllocatorFactoryVtable *factory = NULL;
  uint64_t count = 0u;
  assert_int_equal(NxmemCreateAllocatorFactories(&factory, 1u, &count).code, NXMEM_STATUS_OK);
  vmm->callbacks = (NxmemHostCallbacks){sizeof vmm->callbacks, 1u, vmm, reclaim, completed};
  const NxmemOpenRequest request = {sizeof request, 1u, factory->device, required, &vmm->callbacks};
  return factory->open_allocator(factory->ctx, &request, &vmm->table);
}

void nx_vmm_must_open(nx_vmm *vmm) {
  assert_int_equal(nx_whole(nx_vmm_open(vmm, NXMEM_CAP_ALLOCATOR)), NXMEM_STATUS_OK);
}

void nx_vmm_release(nx_vmm *vmm) {
  vmm->table->release(vmm->table->ctx);
  vmm->table = NULL;
}

void nx_vmm_end_by_loss(nx_vmm *vmm) {
  nx_vmm other = {0};
  nx_script_arm(NX_CALL_DESCRIBE, 1u, NX_VMM_LOST, 0);
  assert_int_equal(nx_whole(nx_vmm_open(&other, NXMEM_CAP_ALLOCATOR)), NXMEM_STATUS_DEVICE_ERROR);
  if (vmm->table != NULL) nx_vmm_release(vmm);
  assert_int_equal(nx_vmm_report().live_allocations, 0);
  nx_vmm_no_breach();
  nx_tally_bury();
}

uint32_t nx_vmm_report_code(NxmemUnloadReport *report) { return NxmemQueryUnloadReadiness(report).code; }

void nx_vmm_no_breach(void) {
  if (nx_the_tally.breaches != 0u) fail_msg("%s", nx_the_tally.breach);
}

void nx_vmm_nothing_left(void) {
  const NxmemUnloadReport report = nx_vmm_report();
  nx_vmm_no_breach();
  assert_int_equal(report.live_allocators, 0);
  assert_int_equal(report.live_allocations, 0);
  assert_int_equal(report.live_views, 0);
  assert_int_equal(report.live_capabilities, 0);
  assert_int_equal(report.queued_releases, 0);
  assert_int_equal(nx_the_tally.handles, 0);
  assert_int_equal(nx_the_tally.mappings, 0);
  assert_int_equal(nx_the_tally.marks, 0);
  assert_int_equal(nx_the_tally.reservations, 0);
  assert_int_equal(nx_the_tally.drivers, 0);
  const NxmemVmmStats stats = nx_vmm_stats();
  assert_int_equal(stats.reserved_bytes, 0);
  assert_int_equal(stats.committed_bytes, 0);
  assert_int_equal(stats.granules_mapped, 0);
  assert_int_equal(stats.pool_bytes, 0);
  assert_int_equal(stats.quarantined_bytes, 0);
  assert_int_equal(stats.quarantined_spans, 0);
  assert_int_equal(stats.poisoned_granules, 0);
  assert_int_equal(stats.refcount_underflows, 0);
}

int nx_vmm_set_up(void **state) {
  nx_vmm *vmm = calloc(1u, sizeof *vmm);
  nx_script_reset();
  nx_vmm_must_open(vmm);
  nx_script_disarm();
  *state = vmm;
  return 0;
}

int nx_vmm_tear_down(void **state) {
  nx_vmm *vmm = *state;
  nx_script_disarm();
  nx_the_script.unbound = nx_the_script.pending = 0;
  if (vmm->table != NULL) nx_vmm_release(vmm);
  nx_vmm_nothing_left();
  free(vmm);
  return 0;
}

NxmemUnloadReport nx_vmm_report(void) {
  NxmemUnloadReport report;
  memset(&report, 0xFF, sizeof report);
  report.struct_size = sizeof report;
  assert_int_equal(NxmemQueryUnloadReadiness(&report).code, NXMEM_STATUS_OK);
  return report;
}

NxmemVmmStats nx_vmm_stats(void) {
  NxmemVmmStats stats = {.struct_size = sizeof stats};
  const uint32_t code = NxmemVmmStatistics(nx_the_offer.mechanism_id, nx_the_offer.tier, nx_the_offer.index, &stats);
  if (code != NXMEM_STATUS_UNKNOWN_ALLOCATION) assert_int_equal(code, NXMEM_STATUS_OK);
  return stats;
}

/* ---- Blocks -------------------------------------------------------------------------------------------------------- */

NxmemAllocRequest nx_vmm_request(uint64_t id, uint64_t bytes, uint64_t align) {
  return (NxmemAllocRequest){.struct_size = sizeof(NxmemAllocRequest),
                             .mechanism_id = nx_the_offer.mechanism_id,
                             .allocation_id = id,
                             .device = {nx_the_offer.tier, nx_the_offer.index},
                             .bytes = bytes,
                             .align = align};
}

NxmemStatus nx_vmm_try(nx_vmm *vmm, int reserve, const NxmemAllocRequest *request, NxmemAllocation *out,
                       uint64_t *mapped_out) {
  NxmemAllocResult result = {.struct_size = sizeof result};
  const NxmemVirtualBackingVtable *backing = vmm->table->virtual_backing;
  const NxmemStatus status = reserve ? backing->allocate_committed(backing->ctx, request, &result)
                                     : vmm->table->allocate(vmm->table->ctx, request, &result);
  *out = (NxmemAllocation){.struct_size = sizeof *out,
                           .mechanism_id = request->mechanism_id,
                           .allocation_id = request->allocation_id,
                           .device = request->device,
                           .ptr = result.ptr,
                           .bytes = request->bytes,
                           .align = request->align};
  if (mapped_out != NULL) *mapped_out = result.mapped_bytes;
  return status;
}

NxmemAllocation nx_vmm_take(nx_vmm *vmm, uint64_t id, uint64_t bytes, uint64_t align) {
  NxmemAllocation block;
  const NxmemAllocRequest request = nx_vmm_request(id, bytes, align);
  assert_int_equal(nx_whole(nx_vmm_try(vmm, 0, &request, &block, NULL)), NXMEM_STATUS_OK);
  return block;
}

NxmemAllocation nx_vmm_reserve(nx_vmm *vmm, uint64_t id, uint64_t bytes) {
  NxmemAllocation block;
  const NxmemAllocRequest request = nx_vmm_request(id, bytes, 1u);
  assert_int_equal(nx_whole(nx_vmm_try(vmm, 1, &request, &block, NULL)), NXMEM_STATUS_OK);
  return block;
}

static NxmemRangeRequest range_of(const NxmemAllocation *block, uint64_t offset, uint64_t bytes) {
  return (NxmemRangeRequest){sizeof(NxmemRangeRequest), 0u, *block, {offset, bytes}};
}

uint32_t nx_vmm_commit(nx_vmm *vmm, const NxmemAllocation *block, uint64_t offset, uint64_t bytes) {
  const NxmemRangeRequest request = range_of(block, offset, bytes);
  const NxmemVirtualBackingVtable *backing = vmm->table->virtual_backing;
  return nx_whole(backing->commit_range(backing->ctx, &request));
}

uint32_t nx_vmm_decommit(nx_vmm *vmm, const NxmemAllocation *block, uint64_t offset, uint64_t bytes,
                         uint64_t *unmapped_out) {
  uint64_t unmapped = 0u;
  const NxmemRangeRequest request = range_of(block, offset, bytes);
  const NxmemVirtualBackingVtable *backing = vmm->table->virtual_backing;
  const uint32_t code = nx_whole(backing->decommit_range(backing->ctx, &request, &unmapped));
  if (unmapped_out != NULL) *unmapped_out = unmapped;
  return code;
}

uint64_t nx_vmm_committed(nx_vmm *vmm, const NxmemAllocation *block) {
  uint64_t committed = UINT64_MAX;
  const NxmemVirtualBackingVtable *backing = vmm->table->virtual_backing;
  assert_int_equal(nx_whole(backing->committed_bytes(backing->ctx, block, &committed)), NXMEM_STATUS_OK);
  return committed;
}

NxmemReleaseOutcome nx_vmm_give(nx_vmm *vmm, const NxmemAllocation *block, uint32_t *code_out) {
  NxmemReleaseOutcome outcome;
  memset(&outcome, 0xFF, sizeof outcome);
  outcome.struct_size = sizeof outcome;
  *code_out = nx_whole(vmm->table->release_allocation(vmm->table->ctx, block, &outcome));
  return outcome;
}

void nx_vmm_must_give(nx_vmm *vmm, const NxmemAllocation *block) {
  uint32_t code;
  const NxmemReleaseOutcome outcome = nx_vmm_give(vmm, block, &code);
  assert_int_equal(code, NXMEM_STATUS_OK);
  assert_int_equal(outcome.state, NXMEM_RELEASE_COMPLETE);
  assert_int_equal(outcome.residual_owned_bytes, 0);
}

/* ---- Prefixes ------------------------------------------------------------------------------------------------------ */

NxmemSharedPrefixHandle nx_vmm_prefix(nx_vmm *vmm, uint64_t bytes) {
  NxmemSharedPrefixHandle handle = {.struct_size = sizeof handle};
  const NxmemSharedMappingVtable *sharing = vmm->table->shared_mapping;
  assert_int_equal(nx_whole(sharing->create_shared_prefix(sharing->ctx, sharing->mechanism_id, bytes, &handle)),
                   NXMEM_STATUS_OK);
  return handle;
}

uint32_t nx_vmm_share(nx_vmm *vmm, const NxmemSharedPrefixHandle *prefix, const NxmemAllocation *block, uint64_t offset,
                      NxmemSharedPrefixCommitInfo *info_out) {
  NxmemSharedPrefixCommitInfo info = {.struct_size = sizeof info};
  const NxmemSharedPrefixCommitRequest request = {sizeof request, 0u, *prefix, *block, offset};
  const NxmemSharedMappingVtable *sharing = vmm->table->shared_mapping;
  const uint32_t code = nx_whole(sharing->commit_shared_prefix(sharing->ctx, &request, &info));
  if (info_out != NULL) *info_out = info;
  return code;
}

uint32_t nx_vmm_drop_prefix(nx_vmm *vmm, const NxmemSharedPrefixHandle *prefix) {
  const NxmemSharedMappingVtable *sharing = vmm->table->shared_mapping;
  return nx_whole(sharing->release_shared_prefix(sharing->ctx, prefix));
}

/* ---- Queued releases ----------------------------------------------------------------------------------------------- */

uint32_t nx_vmm_enqueue(nx_vmm *vmm, const NxmemAllocation *block, uint64_t *ticket_out) {
  uint64_t ticket = 0u;
  const uint32_t code = nx_whole(vmm->table->enqueue_release(vmm->table->ctx, block, &ticket));
  if (ticket_out != NULL) *ticket_out = ticket;
  return code;
}

uint32_t nx_vmm_drain(nx_vmm *vmm, uint64_t *retired_out) {
  uint64_t retired = 0u;
  const uint32_t code = nx_whole(vmm->table->drain_releases(vmm->table->ctx, UINT64_MAX, &retired));
  if (retired_out != NULL) *retired_out = retired;
  return code;
}

/* ---- Memory -------------------------------------------------------------------------------------------------------- */

static void leave_with_3(int number) {
  (void)number;
  _exit(3);
}

/* The handler is the child's own, so that a sanitizer's does not speak first. */
static int faults(const void *address, int store) {
  int status = 0;
  const pid_t child = fork();
  assert_int_not_equal(child, -1);
  if (child == 0) {
    volatile uint8_t *at = (volatile uint8_t *)(uintptr_t)address;
    signal(SIGSEGV, leave_with_3);
    signal(SIGBUS, leave_with_3);
    if (store)
      *at = 1u;
    else
      (void)*at;
    _exit(0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 3));
  return WEXITSTATUS(status) == 3;
}

int nx_store_faults(const void *address) { return faults(address, 1); }
int nx_load_faults(const void *address) { return faults(address, 0); }
