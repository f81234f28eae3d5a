/*
 * callbacks_test.c: what a host does from inside its own callbacks, and a program at the gate while another waits there.
 *
 * Attackers played: a host that changes the records of a call it is in, or gives up the allocator; a program that leaves a capture it never entered.
 * Promise: what was judged is what is used; an allocator stays until the call that runs in it has returned; who waits at the gate gets through it.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "gate.h"
#include "support.h"
#include "vmm.h"

#define FAR (1ull << 52) /* behind every arena */

/* ---- Records that change ------------------------------------------------------------------------------------------- */

static NxmemByteRange the_range;
static NxmemRangeRequest the_request;

static void change_range(nx_vmm *vmm) {
  (void)vmm;
  the_range.offset = FAR;
}

static void change_request(nx_vmm *vmm) {
  (void)vmm;
  the_request.range.offset = FAR;
  the_request.allocation.bytes = FAR * 2u;
}

static void ranges_are_read_once(void **state) {
  nx_vmm *vmm = *state;
  NxmemAllocation block;
  NxmemAllocRequest request = nx_vmm_request(1u, 4u * NX_G, 1u);
  the_range = (NxmemByteRange){NX_G, NX_G};
  request.committed_ranges = &the_range;
  request.committed_range_count = 1u;
  vmm->on_reclaim = change_range;
  nx_script_arm(NX_CALL_CREATE, 1u, NX_VMM_NO_MEMORY, 0);
  assert_int_equal(nx_whole(nx_vmm_try(vmm, 1, &request, &block, NULL)), NXMEM_STATUS_OK);
  assert_int_equal(the_range.offset, FAR);
  assert_int_equal(nx_vmm_committed(vmm, &block), NX_G);
  assert_false(nx_store_faults(block.ptr + NX_G));
  nx_vmm_must_give(vmm, &block);
}

static void a_range_request_is_read_once(void **state) {
  nx_vmm *vmm = *state;
  const NxmemVirtualBackingVtable *backing = vmm->table->virtual_backing;
  const NxmemAllocation block = nx_vmm_reserve(vmm, 1u, 4u * NX_G);
  the_request = (NxmemRangeRequest){.struct_size = sizeof the_request, .allocation = block, .range = {0u, NX_G}};
  vmm->on_reclaim = change_request;
  nx_script_arm(NX_CALL_CREATE, 1u, NX_VMM_NO_MEMORY, 0);
  assert_int_equal(nx_whole(backing->commit_range(backing->ctx, &the_request)), NXMEM_STATUS_OK);
  assert_int_equal(the_request.range.offset, FAR);
  assert_int_equal(nx_vmm_committed(vmm, &block), NX_G);
  nx_vmm_must_give(vmm, &block);
}

/* ---- An allocator that is given up --------------------------------------------------------------------------------- */

static void give_up(nx_vmm *vmm) {
  if (vmm->table != NULL) nx_vmm_release(vmm);
}

static uint32_t call_allocate(const NxmemAllocatorVtable *table) {
  const NxmemAllocRequest request = nx_vmm_request(9u, NX_G, NX_G);
  NxmemAllocResult result = {.struct_size = sizeof result};
  return nx_whole(table->allocate(table->ctx, &request, &result));
}

static uint32_t call_commit(const NxmemAllocatorVtable *table) {
  return nx_whole(table->virtual_backing->commit_range(table->ctx, &the_request));
}

static uint32_t call_prefix(const NxmemAllocatorVtable *table) {
  NxmemSharedPrefixHandle handle = {.struct_size = sizeof handle};
  return nx_whole(table->shared_mapping->create_shared_prefix(table->ctx, table->mechanism_id, NX_G, &handle));
}

typedef struct call {
  const char *name;
  uint32_t (*make)(const NxmemAllocatorVtable *table);
} call;

static const call calls[] = {
    {"allocate", call_allocate}, {"commit_range", call_commit}, {"create_shared_prefix", call_prefix}};

/* No memory for good, so that nothing is made that nobody could give back. */
static void released_while_asked_to_reclaim(void **state) {
  const call *row = *state;
  nx_vmm *vmm = NULL;
  (void)nx_vmm_set_up((void **)&vmm);
  const NxmemAllocatorVtable *table = vmm->table;
  const NxmemAllocation block = nx_vmm_reserve(vmm, 1u, 4u * NX_G);
  the_request = (NxmemRangeRequest){.struct_size = sizeof the_request, .allocation = block, .range = {0u, NX_G}};
  vmm->on_reclaim = give_up;
  nx_script_arm(NX_CALL_CREATE, 1u, NX_VMM_NO_MEMORY, 1);
  assert_int_equal(row->make(table), NXMEM_STATUS_OUT_OF_MEMORY);
  assert_null(vmm->table);
  assert_int_equal(nx_vmm_report().live_allocators, 0);
  assert_int_equal(nx_vmm_report().live_allocations, 1);
  nx_script_disarm();
  nx_vmm_end_by_loss(vmm);
  (void)nx_vmm_tear_down((void **)&vmm);
}

static nx_vmm *given_up;

/* The device is found lost while a drain is under way, and the host closes its books. */
static NxmemStatus close_at_completion(void *ctx, const NxmemReleaseCompletion *completion) {
  (void)ctx, (void)completion;
  nx_gate *gate = nx_gate_take(nx_the_offer.tier, nx_the_offer.index);
  given_up->told++;
  (void)nx_gate_lose(gate);
  nx_gate_drop(gate);
  give_up(given_up);
  return (NxmemStatus){0};
}

static void released_at_a_completion(void **state) {
  nx_vmm *vmm = *state;
  const NxmemAllocatorVtable *table = vmm->table;
  uint64_t retired = 0u;
  for (uint64_t id = 1u; id <= 2u; id++) {
    const NxmemAllocation block = nx_vmm_take(vmm, id, NX_G, NX_G);
    assert_int_equal(nx_vmm_enqueue(vmm, &block, NULL), NXMEM_STATUS_OK);
  }
  given_up = vmm;
  vmm->callbacks.release_completed = close_at_completion;
  assert_int_equal(nx_whole(table->drain_releases(table->ctx, 2u, &retired)), NXMEM_STATUS_OK);
  assert_int_equal(retired, 2);
  assert_int_equal(vmm->told, 2);
  nx_tally_bury();
}

/* ---- Who waits at the gate ----------------------------------------------------------------------------------------- */

static void *enter(void *unused) {
  assert_int_equal(nx_vmm_gate_enter(nx_the_offer.tier, nx_the_offer.index), NXMEM_STATUS_OK);
  return unused;
}

static void only_what_was_entered_is_left(void **state) {
  pthread_t waiting;
  nx_gate *gate = nx_gate_take(nx_the_offer.tier, nx_the_offer.index);
  (void)state;
  assert_int_equal(nx_gate_open_section(gate), 1);
  assert_int_equal(pthread_create(&waiting, NULL, enter, NULL), 0);
  while (nx_gate_open_section(gate)) {
    nx_gate_close_section(gate);
    sched_yield();
  }
  assert_int_equal(nx_vmm_gate_leave(nx_the_offer.tier, nx_the_offer.index), NXMEM_STATUS_INVALID_ARGUMENT);
  nx_gate_close_section(gate);
  assert_int_equal(pthread_join(waiting, NULL), 0);
  assert_int_equal(nx_gate_open_section(gate), 0);
  assert_int_equal(nx_vmm_gate_leave(nx_the_offer.tier, nx_the_offer.index), NXMEM_STATUS_OK);
  assert_int_equal(nx_gate_open_section(gate), 1);
  nx_gate_close_section(gate);
  nx_gate_drop(gate);
}

int main(void) {
  const struct CMUnitTest tests[] = {NX_VMM_TEST(ranges_are_read_once), NX_VMM_TEST(a_range_request_is_read_once),
                                     NX_VMM_TEST(released_at_a_completion), NX_VMM_TEST(only_what_was_entered_is_left)};
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(calls), released_while_asked_to_reclaim);
  const int failed = nx_suite_run(&suite, "vmm_released_inside");
  return failed + cmocka_run_group_tests_name("vmm_callbacks", tests, NULL, NULL);
}
