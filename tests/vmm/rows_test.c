/*
 * rows_test.c: faults that others met with device memory, each tried on the engine.
 *
 * Attackers played: devices with odd granularities, cards that reserve little, drivers that are lost or shut down, contexts that cannot be reached, a forked child.
 * Promise: one named case for each fault of the field.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vmm.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)

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
  const uint64_t bad[][2] = {{0u, NX_G}, {NX_G, 0u}, {NX_G + 1u, NX_G}, {NX_G, 3u * NX_G}};
  nx_vmm_release(vmm);
  for (size_t i = 0u; i < 4u; i++) {
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
  nx_the_script.memory_bytes = 32u * GIB;
  reopen(vmm);
  assert_int_equal(nx_vmm_stats().reserved_bytes, 64u * 32u * GIB);
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
      NX_VMM_TEST(unrounded_sizes),
      NX_VMM_TEST(impossible_sizes),
      NX_VMM_TEST(minimum_and_recommended_are_not_mixed),
      NX_VMM_TEST(recommended_that_fits_no_minimum),
      NX_VMM_TEST(granularity_that_is_none),
      NX_VMM_TEST(partial_failure_leaves_nothing),
      NX_VMM_TEST(pending_work_keeps_its_pages),
      NX_VMM_TEST(failed_event_poisons),
      NX_VMM_TEST(ladder_is_descended),
      NX_VMM_TEST(large_cards_reserve_more),
      NX_VMM_TEST(reserved_is_not_committed),
      NX_VMM_TEST(sharing_is_advertised_after_a_probe),
      NX_VMM_TEST(marks_are_advertised_after_a_probe),
      NX_VMM_TEST(failed_probe_refuses_the_open),
      NX_VMM_TEST(unmaps_are_whole),
      NX_VMM_TEST(prefix_goes_in_any_order),
      NX_VMM_TEST(mapping_over_a_mapping),
      NX_VMM_TEST(release_on_a_fresh_thread),
      NX_VMM_TEST(release_without_the_context),
      NX_VMM_TEST(teardown_without_the_context),
      NX_VMM_TEST(shut_down_counts_as_released),
      NX_VMM_TEST(lost_device_closes_its_books),
      NX_VMM_TEST(forked_child_is_refused),
      NX_VMM_TEST(trim_before_and_after_a_drain),
  };
  return cmocka_run_group_tests_name("vmm_rows", tests, NULL, NULL);
}
