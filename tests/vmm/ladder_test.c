/*
 * ladder_test.c: reservations: the ladder's rungs, and that reserving costs nothing. Needs address space by the terabyte.
 *
 * Attackers played: cards and limits that reserve little.
 * Promise: the first rung that succeeds is taken, only an exhausted ladder is fatal, and what is reserved is not committed.
 */
#include <string.h>

#include "vmm.h"

#define GIB (1ull << 30)

static void reopen(nx_vmm *vmm) {
  nx_vmm_release(vmm);
  nx_vmm_must_open(vmm);
}

/* ---- Reservation ---------------------------------------------------------------------------------------------------- */

static void ladder_is_descended(void **state) {
  nx_vmm *vmm = *state;
  nx_vmm_release(vmm);
  nx_the_offer.ladder_floor_bytes = 1ull << 40;
  nx_the_offer.ladder_minimum_bytes = 64u * GIB;
  for (uint64_t limit = 1ull << 40; limit >= 64u * GIB; limit /= 2u) {
    nx_the_script.reserve_limit = limit;
    nx_vmm_must_open(vmm);
    assert_int_equal(nx_vmm_stats().reserved_bytes, limit);
    nx_vmm_release(vmm);
  }
  nx_the_script.reserve_limit = 64u * GIB - 1u;
  const NxmemStatus status = nx_vmm_open(vmm, NXMEM_CAP_ALLOCATOR);
  assert_int_equal(nx_whole(status), NXMEM_STATUS_DEVICE_ERROR);
  assert_non_null(strstr((const char *)status.message, "reserve: SCRIPTED"));
  vmm->table = NULL;
}

static void large_cards_reserve_more(void **state) {
  nx_vmm *vmm = *state;
  nx_the_script.memory_bytes = 2u * GIB;
  reopen(vmm);
  assert_int_equal(nx_vmm_stats().reserved_bytes, 64u * 2u * GIB);
}

static void reserved_is_not_committed(void **state) {
  nx_vmm *vmm = *state;
  nx_the_offer.ladder_floor_bytes = 1ull << 41;
  reopen(vmm);
  nx_script_arm(NX_CALL_CREATE, 0u, 0u, 0);
  const NxmemAllocation block = nx_vmm_reserve(vmm, 1u, 1ull << 40);
  assert_int_equal(nx_vmm_committed(vmm, &block), 0);
  assert_int_equal(nx_vmm_stats().committed_bytes, 0);
  assert_int_equal(nx_the_tally.calls[NX_CALL_CREATE], 0);
  assert_int_equal(nx_vmm_commit(vmm, &block, 1ull << 39, 1u), NXMEM_STATUS_OK);
  assert_int_equal(nx_vmm_stats().committed_bytes, NX_G);
  nx_vmm_must_give(vmm, &block);
}

int main(void) {
  const struct CMUnitTest tests[] = {NX_VMM_TEST(ladder_is_descended), NX_VMM_TEST(large_cards_reserve_more),
                                     NX_VMM_TEST(reserved_is_not_committed)};
  return cmocka_run_group_tests_name("vmm_ladder", tests, NULL, NULL);
}
