/*
 * rows_test.c: faults that others met with device memory: sizes, mappings, prefixes.
 *
 * Attackers played: devices with odd granularities, platforms that refuse read-only access, drivers that fail half-way.
 * Promise: one named case for each fault of the field.
 */
#include <string.h>

#include "vmm.h"

#define MIB (1ull << 20)

/* ---- Sizes and granularities --------------------------------------------------------------------------------------- */

static void reopen(nx_vmm *vmm) {
  nx_vmm_release(vmm);
  nx_vmm_must_open(vmm);
}

/* Every size is rounded up to whole granules, and once: what is mapped is what the release unmaps. */
static void unrounded_sizes(void **state) {
  nx_vmm *vmm = *state;
  const uint64_t sizes[] = {1u, 6912u, NX_G - 1u, NX_G, NX_G + 1u, 3u * NX_G + 7u};
  for (size_t i = 0u; i < sizeof sizes / sizeof sizes[0]; i++) {
    const NxmemAllocation block = nx_vmm_reserve(vmm, i + 1u, sizes[i]);
    const uint64_t granules = (sizes[i] + NX_G - 1u) / NX_G;
    uint32_t code;
    assert_int_equal(nx_vmm_commit(vmm, &block, 0u, sizes[i]), NXMEM_STATUS_OK);
    assert_int_equal(nx_vmm_committed(vmm, &block), granules * NX_G);
    memset(block.ptr, 0x5A, sizes[i]);
    assert_int_equal(nx_vmm_give(vmm, &block, &code).unmapped_bytes, granules * NX_G);
    assert_int_equal(code, NXMEM_STATUS_OK);
  }
}

static void impossible_sizes(void **state) {
  nx_vmm *vmm = *state;
  const uint64_t sizes[] = {SIZE_MAX, SIZE_MAX - NX_G, 1ull << 63, 1ull << 62};
  for (size_t i = 0u; i < 4u; i++)
    for (int reserve = 0; reserve < 2; reserve++) {
      NxmemAllocation block;
      const NxmemAllocRequest request = nx_vmm_request(9u, sizes[i], 1u);
      const uint32_t code = nx_whole(nx_vmm_try(vmm, reserve, &request, &block, NULL));
      assert_true(code == NXMEM_STATUS_INVALID_ARGUMENT || code == NXMEM_STATUS_OUT_OF_MEMORY);
    }
  assert_int_equal(nx_vmm_report().live_allocations, 0);
}

/* Minimum 2 MiB, recommended 32: every handle, mapping and unmapping is of 32. */
static void minimum_and_recommended_are_not_mixed(void **state) {
  nx_vmm *vmm = *state;
  nx_the_script.minimum = 2u * MIB;
  nx_the_script.recommended = 32u * MIB;
  reopen(vmm);
  const NxmemAllocation block = nx_vmm_reserve(vmm, 1u, 40u * MIB);
  assert_int_equal(nx_vmm_stats().granule_bytes, 32u * MIB);
  assert_int_equal(nx_vmm_commit(vmm, &block, 33u * MIB, 1u), NXMEM_STATUS_OK);
  assert_int_equal(nx_vmm_committed(vmm, &block), 32u * MIB);
  nx_vmm_must_give(vmm, &block);
}

static void recommended_that_fits_no_minimum(void **state) {
  nx_vmm *vmm = *state;
  nx_the_script.minimum = 2u * MIB;
  nx_the_script.recommended = MIB;
  reopen(vmm);
  assert_int_equal(nx_vmm_stats().granule_bytes, 2u * MIB);
}

static void granularity_that_is_none(void **state) {
  nx_vmm *vmm = *state;
  const uint64_t bad[][2] = {{0u, NX_G}, {NX_G, 0u}, {NX_G + 1u, NX_G}, {NX_G, 3u * NX_G},
                             {1u, 1u},   {1u, NX_G}, {2048u, NX_G}};
  nx_vmm_release(vmm);
  for (size_t i = 0u; i < sizeof bad / sizeof bad[0]; i++) {
    nx_the_script.minimum = bad[i][0];
    nx_the_script.recommended = bad[i][1];
    assert_int_equal(nx_whole(nx_vmm_open(vmm, NXMEM_CAP_ALLOCATOR)), NXMEM_STATUS_DEVICE_ERROR);
    nx_vmm_nothing_left();
  }
  vmm->table = NULL;
}

/* ---- Commits that fail ---------------------------------------------------------------------------------------------- */

/* Five granules in two runs around one that is committed already. */
static void partial_failure_leaves_nothing(void **state) {
  nx_vmm *vmm = *state;
  const nx_call calls[] = {NX_CALL_CREATE, NX_CALL_MAP, NX_CALL_SET_ACCESS};
  const uint64_t times[] = {5u, 5u, 2u};
  const NxmemAllocation block = nx_vmm_reserve(vmm, 1u, 6u * NX_G);
  assert_int_equal(nx_vmm_commit(vmm, &block, 2u * NX_G, NX_G), NXMEM_STATUS_OK);
  block.ptr[2u * NX_G] = 0x77;
  for (size_t c = 0u; c < 3u; c++)
    for (uint64_t at = 1u; at <= times[c]; at++) {
      const uint64_t handles = nx_the_tally.handles, mappings = nx_the_tally.mappings;
      nx_script_arm(calls[c], at, NX_VMM_REFUSED, 0);
      assert_int_equal(nx_vmm_commit(vmm, &block, 0u, 6u * NX_G), NXMEM_STATUS_DEVICE_ERROR);
      assert_int_equal(nx_the_tally.fired, 1);
      assert_int_equal(nx_the_tally.handles, handles);
      assert_int_equal(nx_the_tally.mappings, mappings);
      assert_int_equal(nx_vmm_committed(vmm, &block), NX_G);
      assert_int_equal(block.ptr[2u * NX_G], 0x77);
      assert_int_equal(nx_vmm_commit(vmm, &block, 0u, 6u * NX_G), NXMEM_STATUS_OK);
      memset(block.ptr, 0x77, 6u * NX_G);
      assert_int_equal(nx_vmm_decommit(vmm, &block, 0u, 2u * NX_G, NULL), NXMEM_STATUS_OK);
      assert_int_equal(nx_vmm_decommit(vmm, &block, 3u * NX_G, 3u * NX_G, NULL), NXMEM_STATUS_OK);
    }
  nx_vmm_must_give(vmm, &block);
}

/* ---- Probe ---------------------------------------------------------------------------------------------------------- */

static void sharing_is_advertised_after_a_probe(void **state) {
  nx_vmm *vmm = *state;
  nx_vmm_release(vmm);
  nx_the_script.read_only_refused = 1;
  nx_vmm_must_open(vmm);
  assert_int_equal(vmm->table->capability_flags & NXMEM_CAP_SHARED_MAPPING, 0);
  assert_null(vmm->table->shared_mapping);
  nx_vmm_release(vmm);
  assert_int_equal(nx_whole(nx_vmm_open(vmm, NXMEM_CAP_ALLOCATOR | NXMEM_CAP_SHARED_MAPPING)),
                   NXMEM_STATUS_UNSUPPORTED_CAPABILITY);
  vmm->table = NULL;
}

/* It was probed, and never opened: the figures are those of what was. */
static void refused_capability_opens_nothing(void **state) {
  nx_vmm *vmm = *state;
  nx_vmm_release(vmm);
  nx_the_script.read_only_refused = 1;
  nx_the_script.minimum = nx_the_script.recommended = 2u * NX_G;
  assert_int_equal(nx_whole(nx_vmm_open(vmm, NXMEM_CAP_ALLOCATOR | NXMEM_CAP_SHARED_MAPPING)),
                   NXMEM_STATUS_UNSUPPORTED_CAPABILITY);
  assert_int_equal(nx_vmm_stats().granule_bytes, NX_G);
  vmm->table = NULL;
}

static void marks_are_advertised_after_a_probe(void **state) {
  nx_vmm *vmm = *state;
  nx_vmm_release(vmm);
  nx_script_arm(NX_CALL_MARK, 1u, NX_VMM_REFUSED, 1);
  nx_vmm_must_open(vmm);
  assert_int_equal(vmm->table->capability_flags & NXMEM_CAP_DEFERRED_RELEASE, 0);
  assert_null(vmm->table->enqueue_release);
}

/* Each call of the probe fails once: no open, and nothing left. */
static void failed_probe_refuses_the_open(void **state) {
  nx_vmm *vmm = *state;
  const nx_call calls[] = {NX_CALL_DESCRIBE, NX_CALL_CREATE, NX_CALL_MAP, NX_CALL_SET_ACCESS};
  nx_vmm_release(vmm);
  for (size_t i = 0u; i < 4u; i++) {
    nx_script_arm(calls[i], 1u, NX_VMM_REFUSED, 0);
    assert_int_equal(nx_whole(nx_vmm_open(vmm, NXMEM_CAP_ALLOCATOR)), NXMEM_STATUS_DEVICE_ERROR);
    nx_vmm_nothing_left();
  }
  vmm->table = NULL;
}

/* ---- Unmapping ------------------------------------------------------------------------------------------------------ */

static void unmaps_are_whole(void **state) {
  nx_vmm *vmm = *state;
  uint64_t unmapped = 9u;
  const NxmemAllocation block = nx_vmm_reserve(vmm, 1u, 4u * NX_G);
  assert_int_equal(nx_vmm_commit(vmm, &block, 0u, 4u * NX_G), NXMEM_STATUS_OK);
  nx_script_arm(NX_CALL_UNMAP, 0u, 0u, 0);
  assert_int_equal(nx_vmm_decommit(vmm, &block, 0u, NX_G / 2u, &unmapped), NXMEM_STATUS_OK);
  assert_int_equal(unmapped, 0);
  assert_int_equal(nx_vmm_decommit(vmm, &block, NX_G / 2u, NX_G, &unmapped), NXMEM_STATUS_OK); /* halves of two */
  assert_int_equal(unmapped, 0);
  assert_int_equal(nx_the_tally.calls[NX_CALL_UNMAP], 0);
  assert_int_equal(nx_vmm_decommit(vmm, &block, NX_G, 2u * NX_G, &unmapped), NXMEM_STATUS_OK); /* across two */
  assert_int_equal(unmapped, 2u * NX_G);
  assert_int_equal(nx_the_tally.calls[NX_CALL_UNMAP], 1);
  assert_int_equal(nx_vmm_decommit(vmm, &block, 0u, 4u * NX_G, &unmapped), NXMEM_STATUS_OK); /* what is left */
  assert_int_equal(unmapped, 2u * NX_G);
  assert_int_equal(nx_the_tally.calls[NX_CALL_UNMAP], 3);
  nx_vmm_must_give(vmm, &block);
}

/* ---- Shared prefixes ------------------------------------------------------------------------------------------------ */

/* Handle (2) and two blocks, dropped in each order; the bytes go with the last of them and not before. */
static void prefix_goes_in_any_order(void **state) {
  nx_vmm *vmm = *state;
  static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (int o = 0; o < 6; o++) {
    const NxmemSharedPrefixHandle prefix = nx_vmm_prefix(vmm, 2u * NX_G);
    NxmemAllocation blocks[2];
    const uint64_t handles = nx_the_tally.handles;
    for (int i = 0; i < 2; i++) {
      blocks[i] = nx_vmm_reserve(vmm, (uint64_t)(10 * o + i + 1), 4u * NX_G);
      assert_int_equal(nx_vmm_share(vmm, &prefix, &blocks[i], NX_G, NULL), NXMEM_STATUS_OK);
    }
    memcpy((void *)(uintptr_t)prefix.device_ptr, "prefix", 6);
    for (int i = 0; i < 3; i++) {
      assert_int_equal(nx_the_tally.handles, handles);
      for (int j = i; j < 3; j++)
        if (orders[o][j] < 2) assert_memory_equal(blocks[orders[o][j]].ptr + NX_G, "prefix", 6);
      if (orders[o][i] == 2)
        assert_int_equal(nx_vmm_drop_prefix(vmm, &prefix), NXMEM_STATUS_OK);
      else
        nx_vmm_must_give(vmm, &blocks[orders[o][i]]);
    }
    assert_int_equal(nx_the_tally.handles, handles - 2u);
  }
}

static void mapping_over_a_mapping(void **state) {
  nx_vmm *vmm = *state;
  const NxmemSharedPrefixHandle prefix = nx_vmm_prefix(vmm, NX_G);
  const NxmemAllocation block = nx_vmm_reserve(vmm, 1u, 4u * NX_G), plain = nx_vmm_take(vmm, 2u, 4u * NX_G, NX_G);
  assert_int_equal(nx_vmm_commit(vmm, &block, 0u, 1u), NXMEM_STATUS_OK);
  assert_int_equal(nx_vmm_share(vmm, &prefix, &block, 2u * NX_G, NULL), NXMEM_STATUS_OK);
  nx_script_arm(NX_CALL_MAP, 0u, 0u, 0);
  assert_int_equal(nx_vmm_share(vmm, &prefix, &block, 0u, NULL), NXMEM_STATUS_INVALID_ARGUMENT);
  assert_int_equal(nx_vmm_share(vmm, &prefix, &block, 2u * NX_G, NULL), NXMEM_STATUS_INVALID_ARGUMENT);
  assert_int_equal(nx_vmm_share(vmm, &prefix, &plain, 0u, NULL), NXMEM_STATUS_INVALID_ARGUMENT);
  assert_int_equal(nx_vmm_commit(vmm, &block, 0u, 4u * NX_G), NXMEM_STATUS_INVALID_ARGUMENT);
  assert_int_equal(nx_vmm_decommit(vmm, &block, 0u, 4u * NX_G, NULL), NXMEM_STATUS_INVALID_ARGUMENT);
  assert_int_equal(nx_the_tally.calls[NX_CALL_MAP] + nx_the_tally.calls[NX_CALL_UNMAP], 0);
  nx_vmm_must_give(vmm, &block);
  nx_vmm_must_give(vmm, &plain);
  assert_int_equal(nx_vmm_drop_prefix(vmm, &prefix), NXMEM_STATUS_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      NX_VMM_TEST(unrounded_sizes),
      NX_VMM_TEST(impossible_sizes),
      NX_VMM_TEST(minimum_and_recommended_are_not_mixed),
      NX_VMM_TEST(recommended_that_fits_no_minimum),
      NX_VMM_TEST(granularity_that_is_none),
      NX_VMM_TEST(partial_failure_leaves_nothing),
      NX_VMM_TEST(sharing_is_advertised_after_a_probe),
      NX_VMM_TEST(refused_capability_opens_nothing),
      NX_VMM_TEST(marks_are_advertised_after_a_probe),
      NX_VMM_TEST(failed_probe_refuses_the_open),
      NX_VMM_TEST(unmaps_are_whole),
      NX_VMM_TEST(prefix_goes_in_any_order),
      NX_VMM_TEST(mapping_over_a_mapping),
  };
  return cmocka_run_group_tests_name("vmm_rows", tests, NULL, NULL);
}
