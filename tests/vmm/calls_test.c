/*
 * calls_test.c: how many calls of the driver things take, what memory pressure asks for, what really faults, what a quarantine reports.
 *
 * Attackers played: none, and a driver that will not give back.
 * Promise: one create and one map for each new granule, one set-access and one unmap for each run of them; nothing for what maps nothing.
 */
#include <string.h>

#include "support.h"
#include "vmm.h"

static uint64_t made(nx_call call) { return nx_the_tally.calls[call]; }
static void count_anew(void) { nx_script_arm(NX_CALL_BIND, 0u, 0u, 0); }

static void calls_are(uint64_t creates, uint64_t maps, uint64_t accesses, uint64_t unmaps, uint64_t destroys) {
  assert_int_equal(made(NX_CALL_CREATE), creates);
  assert_int_equal(made(NX_CALL_MAP), maps);
  assert_int_equal(made(NX_CALL_SET_ACCESS), accesses);
  assert_int_equal(made(NX_CALL_UNMAP), unmaps);
  assert_int_equal(made(NX_CALL_DESTROY), destroys);
  count_anew();
}

static void fewest_calls(void **state) {
  nx_vmm *vmm = *state;
  const NxmemAllocation block = nx_vmm_reserve(vmm, 1u, 16u * NX_G);
  count_anew();
  assert_int_equal(nx_vmm_commit(vmm, &block, 0u, 4u * NX_G), NXMEM_STATUS_OK);
  calls_are(4, 4, 1, 0, 0);
  assert_int_equal(nx_vmm_commit(vmm, &block, 6u * NX_G, 2u * NX_G), NXMEM_STATUS_OK);
  calls_are(2, 2, 1, 0, 0);
  assert_int_equal(nx_vmm_commit(vmm, &block, 0u, 10u * NX_G), NXMEM_STATUS_OK); /* two gaps */
  calls_are(4, 4, 2, 0, 0);
  assert_int_equal(nx_vmm_commit(vmm, &block, 0u, 10u * NX_G), NXMEM_STATUS_OK);
  calls_are(0, 0, 0, 0, 0);
  assert_int_equal(nx_vmm_decommit(vmm, &block, 2u * NX_G, 3u * NX_G, NULL), NXMEM_STATUS_OK);
  calls_are(0, 0, 0, 1, 3);
  nx_vmm_must_give(vmm, &block); /* two runs are left */
  calls_are(0, 0, 0, 2, 7);
}

static void nothing_for_what_maps_nothing(void **state) {
  nx_vmm *vmm = *state;
  const NxmemAllocation first = nx_vmm_take(vmm, 1u, 100u, 1u);
  count_anew();
  const NxmemAllocation second = nx_vmm_take(vmm, 2u, 100u, 1u);
  nx_vmm_must_give(vmm, &second);
  calls_are(0, 0, 0, 0, 0);
  assert_int_equal(made(NX_CALL_BIND), 0);
  nx_vmm_must_give(vmm, &first);
}

/* A granule is committed while anybody holds a byte in it: whoever goes last unmaps it, in either order. */
static void neighbours_share_a_granule(void **state) {
  nx_vmm *vmm = *state;
  for (int first = 0; first < 2; first++) {
    const NxmemAllocation blocks[2] = {nx_vmm_take(vmm, 1u, 300u, 1u), nx_vmm_take(vmm, 2u, 300u, 1u)};
    uint32_t code;
    assert_int_equal(nx_vmm_give(vmm, &blocks[first], &code).unmapped_bytes, 0);
    blocks[1 - first].ptr[0] = 1u;
    assert_int_equal(nx_vmm_give(vmm, &blocks[1 - first], &code).unmapped_bytes, NX_G);
  }
}

/* ---- Pressure -------------------------------------------------------------------------------------------------------- */

static NxmemAllocation to_give;
static void give_one(nx_vmm *vmm) {
  nx_script_disarm();
  nx_vmm_must_give(vmm, &to_give);
}

static void reclaim_is_asked_once(void **state) {
  nx_vmm *vmm = *state;
  to_give = nx_vmm_take(vmm, 1u, 2u * NX_G, NX_G);
  vmm->on_reclaim = give_one;
  nx_script_arm(NX_CALL_CREATE, 1u, NX_VMM_NO_MEMORY, 1);
  const NxmemAllocation block = nx_vmm_take(vmm, 2u, 3u * NX_G, NX_G);
  assert_int_equal(vmm->reclaims, 1);
  assert_int_equal(vmm->reclaim.bytes, 3u * NX_G);
  assert_int_equal(vmm->reclaim.mechanism_id, nx_the_offer.mechanism_id);
  vmm->on_reclaim = NULL;
  nx_script_arm(NX_CALL_CREATE, 1u, NX_VMM_NO_MEMORY, 1);
  assert_int_equal(nx_vmm_decommit(vmm, &block, 0u, NX_G, NULL), NXMEM_STATUS_OK);
  assert_int_equal(nx_vmm_commit(vmm, &block, 0u, NX_G), NXMEM_STATUS_OUT_OF_MEMORY);
  assert_int_equal(vmm->reclaims, 2);
  assert_int_equal(made(NX_CALL_CREATE), 2);
  nx_vmm_must_give(vmm, &block);
}

static void pool_is_bounded(void **state) {
  nx_vmm *vmm = *state;
  nx_vmm_release(vmm);
  nx_the_offer.pool_bytes = 3u * NX_G + 5u;
  nx_vmm_must_open(vmm);
  const NxmemAllocation block = nx_vmm_take(vmm, 1u, 8u * NX_G, NX_G);
  nx_vmm_must_give(vmm, &block);
  assert_int_equal(nx_vmm_stats().pool_bytes, 3u * NX_G);
  assert_int_equal(nx_the_tally.handles, 3);
  assert_int_equal(nx_the_tally.mappings, 0);
  count_anew();
  const NxmemAllocation again = nx_vmm_take(vmm, 2u, 4u * NX_G, NX_G);
  assert_int_equal(made(NX_CALL_CREATE), 1);
  assert_int_equal(nx_vmm_stats().pool_bytes, 0);
  nx_vmm_must_give(vmm, &again);
}

/* ---- What faults ------------------------------------------------------------------------------------------------------ */

static void stores_fault_where_nothing_is(void **state) {
  nx_vmm *vmm = *state;
  const NxmemAllocation block = nx_vmm_reserve(vmm, 1u, 4u * NX_G);
  assert_true(nx_load_faults(block.ptr));
  assert_int_equal(nx_vmm_commit(vmm, &block, 0u, 2u * NX_G), NXMEM_STATUS_OK);
  assert_false(nx_store_faults(block.ptr));
  assert_true(nx_store_faults(block.ptr + 2u * NX_G));
  assert_int_equal(nx_vmm_decommit(vmm, &block, 0u, NX_G, NULL), NXMEM_STATUS_OK);
  assert_true(nx_store_faults(block.ptr));
  assert_false(nx_store_faults(block.ptr + NX_G));
  nx_vmm_must_give(vmm, &block);
  assert_true(nx_store_faults(block.ptr + NX_G));
}

static void sharers_only_read(void **state) {
  nx_vmm *vmm = *state;
  const NxmemSharedPrefixHandle prefix = nx_vmm_prefix(vmm, 10u);
  const NxmemAllocation block = nx_vmm_reserve(vmm, 1u, NX_G);
  assert_int_equal(nx_vmm_share(vmm, &prefix, &block, 0u, NULL), NXMEM_STATUS_OK);
  assert_false(nx_store_faults((const void *)(uintptr_t)prefix.device_ptr));
  assert_false(nx_load_faults(block.ptr));
  assert_true(nx_store_faults(block.ptr));
  nx_vmm_must_give(vmm, &block);
  assert_int_equal(nx_vmm_drop_prefix(vmm, &prefix), NXMEM_STATUS_OK);
  assert_true(nx_load_faults((const void *)(uintptr_t)prefix.device_ptr));
}

/* ---- Quarantine ------------------------------------------------------------------------------------------------------- */

/* Two runs: one will not be unmapped. The other faults; neither address comes again. */
static void quarantine_is_exact(void **state) {
  nx_vmm *vmm = *state;
  uint32_t code;
  const NxmemAllocation block = nx_vmm_reserve(vmm, 1u, 4u * NX_G);
  assert_int_equal(nx_vmm_commit(vmm, &block, 0u, 2u * NX_G), NXMEM_STATUS_OK);
  assert_int_equal(nx_vmm_commit(vmm, &block, 3u * NX_G, NX_G), NXMEM_STATUS_OK);
  nx_script_arm(NX_CALL_UNMAP, 1u, NX_VMM_REFUSED, 0);
  const NxmemReleaseOutcome outcome = nx_vmm_give(vmm, &block, &code);
  assert_int_equal(code, NXMEM_STATUS_RELEASE_QUARANTINED);
  assert_int_equal(outcome.state, NXMEM_RELEASE_QUARANTINED);
  assert_int_equal(outcome.unmapped_bytes, NX_G);
  assert_int_equal(outcome.residual_owned_bytes, 2u * NX_G);
  assert_int_equal(outcome.allocation_bytes, 4u * NX_G);
  const NxmemVmmStats stats = nx_vmm_stats();
  assert_int_equal(stats.quarantined_bytes, 2u * NX_G);
  assert_int_equal(stats.quarantined_spans, 1);
  assert_int_equal(stats.poisoned_granules, 2);
  assert_int_equal(stats.committed_bytes, 0);
  assert_false(nx_store_faults(block.ptr)); /* it is mapped still: that is why it is kept back */
  assert_true(nx_store_faults(block.ptr + 3u * NX_G));
  assert_int_equal(nx_vmm_give(vmm, &block, &code).state, UINT32_MAX);
  assert_int_equal(code, NXMEM_STATUS_UNKNOWN_ALLOCATION);
  for (uint64_t id = 2u; id < 40u; id++) {
    const NxmemAllocation other = nx_vmm_take(vmm, id, 20000u, 1u);
    assert_true(other.ptr >= block.ptr + 4u * NX_G || other.ptr + 20000u <= block.ptr);
  }
  nx_vmm_end_by_loss(vmm);
}

/* Unmapped, its handle kept by the driver: the address faults and is kept back, the bytes stay charged. */
static void handle_that_stays_is_charged(void **state) {
  nx_vmm *vmm = *state;
  uint32_t code;
  const NxmemAllocation block = nx_vmm_take(vmm, 1u, 2u * NX_G, NX_G);
  nx_script_arm(NX_CALL_DESTROY, 1u, NX_VMM_REFUSED, 0);
  const NxmemReleaseOutcome outcome = nx_vmm_give(vmm, &block, &code);
  assert_int_equal(code, NXMEM_STATUS_RELEASE_QUARANTINED);
  assert_int_equal(outcome.unmapped_bytes, NX_G);
  assert_int_equal(outcome.residual_owned_bytes, NX_G);
  assert_true(nx_store_faults(block.ptr));
  assert_int_equal(nx_vmm_stats().quarantined_bytes, NX_G);
  nx_vmm_end_by_loss(vmm);
}

/* The same of a prefix, by whichever goes last: its last mapping or its last handle. */
static void handle_of_a_prefix_that_stays_is_charged(void **state) {
  nx_vmm *vmm = *state;
  uint32_t code;
  const NxmemSharedPrefixHandle prefix = nx_vmm_prefix(vmm, 2u * NX_G), other = nx_vmm_prefix(vmm, NX_G);
  const NxmemAllocation block = nx_vmm_reserve(vmm, 1u, 2u * NX_G);
  assert_int_equal(nx_vmm_share(vmm, &prefix, &block, 0u, NULL), NXMEM_STATUS_OK);
  assert_int_equal(nx_vmm_drop_prefix(vmm, &prefix), NXMEM_STATUS_OK);
  nx_script_arm(NX_CALL_DESTROY, 1u, NX_VMM_REFUSED, 0);
  const NxmemReleaseOutcome outcome = nx_vmm_give(vmm, &block, &code);
  assert_int_equal(code, NXMEM_STATUS_RELEASE_QUARANTINED);
  assert_int_equal(outcome.unmapped_bytes, NX_G);
  assert_int_equal(outcome.residual_owned_bytes, NX_G);
  nx_script_arm(NX_CALL_DESTROY, 1u, NX_VMM_REFUSED, 0);
  assert_int_equal(nx_vmm_drop_prefix(vmm, &other), NXMEM_STATUS_RELEASE_QUARANTINED);
  assert_int_equal(nx_vmm_stats().quarantined_bytes, 2u * NX_G);
  assert_int_equal(nx_the_tally.mappings, 0);
  nx_vmm_end_by_loss(vmm);
}

/* A commit that fails and cannot be undone: exactly what stays mapped is poisoned; the rest of the block serves. */
static void failed_undo_poisons_exactly(void **state) {
  nx_vmm *vmm = *state;
  uint32_t code;
  const NxmemAllocation block = nx_vmm_reserve(vmm, 1u, 4u * NX_G);
  assert_int_equal(nx_vmm_commit(vmm, &block, NX_G, NX_G), NXMEM_STATUS_OK);
  nx_script_arm(NX_CALL_SET_ACCESS, 2u, NX_VMM_REFUSED, 0);
  /* Runs 0 and 2..3: the second access fails; of the two runs the first cannot be unmapped. */
  nx_script_also(NX_CALL_UNMAP, 1u, NX_VMM_REFUSED);
  assert_int_equal(nx_vmm_commit(vmm, &block, 0u, 4u * NX_G), NXMEM_STATUS_DEVICE_ERROR);
  assert_int_equal(nx_vmm_stats().poisoned_granules, 1);
  assert_int_equal(nx_vmm_committed(vmm, &block), 2u * NX_G); /* what stays mapped stays charged */
  assert_int_equal(nx_vmm_commit(vmm, &block, 0u, 1u), NXMEM_STATUS_DEVICE_ERROR);
  assert_int_equal(nx_vmm_decommit(vmm, &block, 0u, NX_G, NULL), NXMEM_STATUS_DEVICE_ERROR);
  assert_int_equal(nx_vmm_commit(vmm, &block, NX_G, 3u * NX_G), NXMEM_STATUS_OK);
  memset(block.ptr + NX_G, 1, 3u * NX_G);
  const NxmemReleaseOutcome outcome = nx_vmm_give(vmm, &block, &code);
  assert_int_equal(outcome.state, NXMEM_RELEASE_QUARANTINED);
  assert_int_equal(outcome.unmapped_bytes, 3u * NX_G);
  assert_int_equal(outcome.residual_owned_bytes, NX_G);
  nx_vmm_end_by_loss(vmm);
}

/* A view that is refused for what was poisoned there before maps nothing: its prefix's handles all go with the prefix. */
static void refused_view_keeps_no_handle(void **state) {
  nx_vmm *vmm = *state;
  const NxmemAllocation block = nx_vmm_reserve(vmm, 1u, 2u * NX_G);
  const NxmemSharedPrefixHandle prefix = nx_vmm_prefix(vmm, NX_G);
  nx_script_arm(NX_CALL_SET_ACCESS, 1u, NX_VMM_REFUSED, 0);
  nx_script_also(NX_CALL_UNMAP, 1u, NX_VMM_REFUSED);
  assert_int_equal(nx_vmm_commit(vmm, &block, 0u, NX_G), NXMEM_STATUS_DEVICE_ERROR);
  nx_script_disarm();
  const uint64_t handles = nx_the_tally.handles;
  assert_int_equal(nx_vmm_share(vmm, &prefix, &block, 0u, NULL), NXMEM_STATUS_DEVICE_ERROR);
  assert_int_equal(nx_vmm_drop_prefix(vmm, &prefix), NXMEM_STATUS_OK);
  assert_int_equal(nx_the_tally.handles, handles - 1u);
  nx_vmm_end_by_loss(vmm);
}

int main(void) {
  const struct CMUnitTest tests[] = {NX_VMM_TEST(fewest_calls),
                                     NX_VMM_TEST(nothing_for_what_maps_nothing),
                                     NX_VMM_TEST(neighbours_share_a_granule),
                                     NX_VMM_TEST(reclaim_is_asked_once),
                                     NX_VMM_TEST(pool_is_bounded),
                                     NX_VMM_TEST(stores_fault_where_nothing_is),
                                     NX_VMM_TEST(sharers_only_read),
                                     NX_VMM_TEST(quarantine_is_exact),
                                     NX_VMM_TEST(handle_that_stays_is_charged),
                                     NX_VMM_TEST(handle_of_a_prefix_that_stays_is_charged),
                                     NX_VMM_TEST(failed_undo_poisons_exactly),
                                     NX_VMM_TEST(refused_view_keeps_no_handle)};
  return cmocka_run_group_tests_name("vmm_calls", tests, NULL, NULL);
}
