/*
 * refusals_test.c: what the engine refuses, keeps or waits for, one case each: taken away, nothing else would notice.
 *
 * Attackers played: records that name another block, prefix, mechanism or device; a capture that comes in the middle; a device that is lost; a forked child.
 * Promise: a refusal changes nothing and calls no driver; what is still mapped keeps what it maps.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gate.h"
#include "nxmem_vmm.h"
#include "vmm.h"

NxmemStatus NxmemCreateAllocatorFactories(const NxmemAllocatorFactoryVtable **out, uint64_t max, uint64_t *count);

/* ---- Whose it is ----------------------------------------------------------------------------------------------------- */

static uint32_t give_code(nx_vmm *vmm, NxmemAllocation named) {
  uint32_t code;
  (void)nx_vmm_give(vmm, &named, &code);
  return code;
}

static void another_block_is_not_released(void **state) {
  nx_vmm *vmm = *state;
  const NxmemAllocation block = nx_vmm_take(vmm, 1u, 1000u, 64u);
  NxmemAllocation named = block;
  nx_script_arm(NX_CALL_UNMAP, 0u, 0u, 0);
  named.bytes++;
  assert_int_not_equal(give_code(vmm, named), NXMEM_STATUS_OK);
  named = block;
  named.align = 128u;
  assert_int_not_equal(give_code(vmm, named), NXMEM_STATUS_OK);
  named = block;
  named.ptr++;
  assert_int_not_equal(give_code(vmm, named), NXMEM_STATUS_OK);
  named = block;
  named.mechanism_id++;
  assert_int_equal(give_code(vmm, named), NXMEM_STATUS_WRONG_MECHANISM);
  named = block;
  named.device.index++;
  assert_int_equal(give_code(vmm, named), NXMEM_STATUS_WRONG_DEVICE);
  assert_int_equal(nx_the_tally.calls[NX_CALL_UNMAP], 0);
  nx_vmm_must_give(vmm, &block);
}

/* ---- What a refusal says ---------------------------------------------------------------------------------------------- */

static void must_say(NxmemStatus status, uint32_t code, const char *words) {
  assert_int_equal(status.code, code);
  if (strstr((const char *)status.message, words) == NULL)
    fail_msg("'%s' lacks '%s'", (const char *)status.message, words);
}

/* Found and needed; and nothing of a driver that was not asked, whatever it refused before. */
static void no_room_says_how_much(void **state) {
  nx_vmm *vmm = *state;
  char words[96];
  NxmemAllocation block;
  const uint64_t arena = nx_vmm_stats().reserved_bytes;
  const NxmemAllocation first = nx_vmm_reserve(vmm, 1u, NX_G);
  nx_script_arm(NX_CALL_CREATE, 1u, NX_VMM_REFUSED, 0);
  assert_int_equal(nx_vmm_commit(vmm, &first, 0u, NX_G), NXMEM_STATUS_DEVICE_ERROR);
  nx_script_disarm();
  snprintf(words, sizeof words, "allocate: %" PRIu64 " bytes needed, largest free piece %" PRIu64, arena,
           (uint64_t)(arena - NX_G));
  const NxmemAllocRequest request = nx_vmm_request(2u, arena, 1u);
  const NxmemStatus status = nx_vmm_try(vmm, 1, &request, &block, NULL);
  must_say(status, NXMEM_STATUS_OUT_OF_MEMORY, words);
  assert_null(strstr((const char *)status.message, "SCRIPTED"));
  nx_vmm_must_give(vmm, &first);
}

static void no_memory_says_how_much(void **state) {
  nx_vmm *vmm = *state;
  const NxmemVirtualBackingVtable *backing = vmm->table->virtual_backing;
  const NxmemAllocation block = nx_vmm_reserve(vmm, 1u, 2u * NX_G);
  const NxmemRangeRequest request = {sizeof request, 0u, block, {0u, NX_G + 1u}};
  nx_script_arm(NX_CALL_CREATE, 1u, NX_VMM_NO_MEMORY, 1);
  const NxmemStatus status = backing->commit_range(backing->ctx, &request);
  nx_script_disarm();
  must_say(status, NXMEM_STATUS_OUT_OF_MEMORY, "commit: 65537 bytes needed");
  must_say(status, NXMEM_STATUS_OUT_OF_MEMORY, "create: SCRIPTED");
  nx_vmm_must_give(vmm, &block);
}

static void busy_says_what_is_in_the_way(void **state) {
  nx_vmm *vmm = *state;
  uint64_t unmapped = 0u;
  const NxmemAllocation block = nx_vmm_take(vmm, 1u, 1000u, 64u);
  nx_the_script.pending = 1;
  assert_int_equal(nx_vmm_enqueue(vmm, &block, NULL), NXMEM_STATUS_OK);
  assert_int_equal(nx_vmm_gate_enter(nx_the_offer.tier, nx_the_offer.index), NXMEM_STATUS_OK);
  must_say(vmm->table->deallocate(vmm->table->ctx, &block, &unmapped), NXMEM_STATUS_BUSY,
           "deallocate; releases queued: 1, captures of the device: 1");
  assert_int_equal(nx_vmm_gate_leave(nx_the_offer.tier, nx_the_offer.index), NXMEM_STATUS_OK);
  nx_the_script.pending = 0;
  assert_int_equal(nx_vmm_drain(vmm, NULL), NXMEM_STATUS_OK);
}

static uint32_t retain_code(nx_vmm *vmm, NxmemSharedPrefixHandle named) {
  const NxmemSharedMappingVtable *sharing = vmm->table->shared_mapping;
  return nx_whole(sharing->retain_shared_prefix(sharing->ctx, &named));
}

static void another_prefix_is_not_retained(void **state) {
  nx_vmm *vmm = *state;
  const NxmemSharedPrefixHandle prefix = nx_vmm_prefix(vmm, NX_G);
  NxmemSharedPrefixHandle named = prefix;
  named.handle++;
  assert_int_equal(retain_code(vmm, named), NXMEM_STATUS_UNKNOWN_ALLOCATION);
  named = prefix;
  named.device_ptr += NX_G;
  assert_int_equal(retain_code(vmm, named), NXMEM_STATUS_UNKNOWN_ALLOCATION);
  assert_int_equal(nx_vmm_drop_prefix(vmm, &prefix), NXMEM_STATUS_OK); /* one reference, as before */
  assert_int_equal(nx_vmm_report().live_capabilities, 0);
}

/* ---- Prefixes -------------------------------------------------------------------------------------------------------- */

static void prefix_does_not_leave_its_block(void **state) {
  nx_vmm *vmm = *state;
  const NxmemSharedPrefixHandle prefix = nx_vmm_prefix(vmm, 2u * NX_G);
  const NxmemAllocation block = nx_vmm_reserve(vmm, 1u, 3u * NX_G), behind = nx_vmm_reserve(vmm, 2u, 4u * NX_G);
  nx_script_arm(NX_CALL_MAP, 0u, 0u, 0);
  assert_int_not_equal(nx_vmm_share(vmm, &prefix, &block, 2u * NX_G, NULL), NXMEM_STATUS_OK);
  assert_int_not_equal(nx_vmm_share(vmm, &prefix, &block, 8u * NX_G, NULL), NXMEM_STATUS_OK);
  assert_int_equal(nx_the_tally.calls[NX_CALL_MAP], 0);
  assert_int_equal(nx_vmm_share(vmm, &prefix, &block, NX_G, NULL), NXMEM_STATUS_OK);
  nx_vmm_must_give(vmm, &block);
  nx_vmm_must_give(vmm, &behind);
  assert_int_equal(nx_vmm_drop_prefix(vmm, &prefix), NXMEM_STATUS_OK);
}

static void prefix_is_charged_once(void **state) {
  nx_vmm *vmm = *state;
  NxmemSharedPrefixCommitInfo info;
  const NxmemSharedPrefixHandle prefix = nx_vmm_prefix(vmm, 2u * NX_G);
  NxmemAllocation blocks[3];
  for (uint64_t i = 0u; i < 3u; i++) {
    blocks[i] = nx_vmm_reserve(vmm, i + 1u, 4u * NX_G);
    assert_int_equal(nx_vmm_share(vmm, &prefix, &blocks[i], NX_G, &info), NXMEM_STATUS_OK);
    assert_int_equal(info.additional_owned_bytes, i == 0u ? 2u * NX_G : 0u);
    assert_int_equal(info.newly_mapped_bytes, 2u * NX_G);
  }
  for (int i = 0; i < 3; i++) nx_vmm_must_give(vmm, &blocks[i]);
  assert_int_equal(nx_vmm_drop_prefix(vmm, &prefix), NXMEM_STATUS_OK);
}

/* The sharer's unmapping fails: its mapping is there for good, and so are the bytes behind it. */
static void mapping_for_good_keeps_the_bytes(void **state) {
  nx_vmm *vmm = *state;
  uint32_t code;
  const NxmemSharedPrefixHandle prefix = nx_vmm_prefix(vmm, NX_G);
  const NxmemAllocation block = nx_vmm_reserve(vmm, 1u, 2u * NX_G);
  assert_int_equal(nx_vmm_share(vmm, &prefix, &block, 0u, NULL), NXMEM_STATUS_OK);
  nx_script_arm(NX_CALL_UNMAP, 1u, NX_VMM_REFUSED, 0);
  (void)nx_vmm_give(vmm, &block, &code);
  assert_int_equal(code, NXMEM_STATUS_RELEASE_QUARANTINED);
  assert_int_equal(nx_vmm_drop_prefix(vmm, &prefix), NXMEM_STATUS_OK);
  assert_int_equal(nx_the_tally.mappings, 1);
  assert_int_equal(nx_the_tally.handles, 1);
  nx_vmm_end_by_loss(vmm);
}

/* ---- Captures -------------------------------------------------------------------------------------------------------- */

int __real_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);

static atomic_int waits, holds;
static pthread_t capturer;
static nx_call capture_at;
static int begun_early;

int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
  atomic_store(&waits, 1);
  return __real_pthread_cond_wait(condition, mutex);
}

static void *capture(void *unused) {
  (void)nx_vmm_gate_enter(nx_the_offer.tier, nx_the_offer.index);
  atomic_store(&holds, 1);
  return unused;
}

/* Once, inside a section: a capture comes, and waits or begins. */
static void begin_capture(nx_call call) {
  if (call != capture_at) return;
  nx_the_script.hook = NULL;
  if (pthread_create(&capturer, NULL, capture, NULL) != 0) abort();
  while (!atomic_load(&waits) && !atomic_load(&holds)) sched_yield();
  begun_early = atomic_load(&holds);
}

static void await_capture(nx_call call) {
  atomic_store(&waits, 0);
  atomic_store(&holds, 0);
  begun_early = 0;
  capture_at = call;
  nx_the_script.hook = begin_capture;
}

static void end_capture(void) {
  assert_int_equal(pthread_join(capturer, NULL), 0);
  assert_int_equal(nx_vmm_gate_leave(nx_the_offer.tier, nx_the_offer.index), NXMEM_STATUS_OK);
}

static void capture_waits_for_the_section(void **state) {
  nx_vmm *vmm = *state;
  await_capture(NX_CALL_CREATE);
  const NxmemAllocation block = nx_vmm_take(vmm, 1u, 2u * NX_G, NX_G);
  end_capture();
  assert_false(begun_early);
  nx_vmm_must_give(vmm, &block);
}

/* The capture waits for all ranges: were it let in between two of them, the first would stay mapped with nobody to unmap it. */
static void capture_waits_for_all_ranges(void **state) {
  nx_vmm *vmm = *state;
  const NxmemByteRange ranges[] = {{0u, NX_G}, {2u * NX_G, NX_G}, {4u * NX_G, NX_G}};
  NxmemAllocRequest request = nx_vmm_request(1u, 6u * NX_G, 1u);
  NxmemAllocation block;
  request.committed_ranges = ranges;
  request.committed_range_count = 3u;
  await_capture(NX_CALL_CREATE);
  assert_int_equal(nx_whole(nx_vmm_try(vmm, 1, &request, &block, NULL)), NXMEM_STATUS_OK);
  end_capture();
  assert_int_equal(nx_vmm_committed(vmm, &block), 3u * NX_G);
  nx_vmm_must_give(vmm, &block);
}

/* ---- Devices, children, hosts ---------------------------------------------------------------------------------------- */

/* Also what would call no driver. */
static void lost_device_reserves_nothing(void **state) {
  nx_vmm *vmm = *state;
  NxmemAllocation none;
  const NxmemAllocation block = nx_vmm_reserve(vmm, 1u, 4u * NX_G);
  const NxmemAllocRequest request = nx_vmm_request(2u, 4u * NX_G, 1u);
  nx_script_arm(NX_CALL_CREATE, 1u, NX_VMM_LOST, 0);
  assert_int_equal(nx_vmm_commit(vmm, &block, 0u, NX_G), NXMEM_STATUS_DEVICE_ERROR);
  assert_int_equal(nx_whole(nx_vmm_try(vmm, 1, &request, &none, NULL)), NXMEM_STATUS_DEVICE_ERROR);
  nx_vmm_release(vmm);
  nx_tally_bury();
}

static void forked_child_releases_nothing(void **state) {
  nx_vmm *vmm = *state;
  int ended = -1;
  nx_script_arm(NX_CALL_BIND, 0u, 0u, 0);
  const pid_t child = fork();
  assert_int_not_equal(child, -1);
  if (child == 0) {
    vmm->table->release(vmm->table->ctx);
    _exit(nx_the_tally.calls[NX_CALL_BIND] != 0u);
  }
  assert_int_equal(waitpid(child, &ended, 0), child);
  assert_int_equal(ended, 0);
}

/* A host that could not be told of the end: the release could never settle. */
static void nothing_is_queued_for_a_deaf_host(void **state) {
  nx_vmm *vmm = *state;
  const NxmemAllocatorFactoryVtable *factory = NULL;
  uint64_t count = 0u;
  nx_vmm_release(vmm);
  assert_int_equal(NxmemCreateAllocatorFactories(&factory, 1u, &count).code, NXMEM_STATUS_OK);
  const NxmemOpenRequest request = {sizeof request, 1u, factory->device, NXMEM_CAP_ALLOCATOR, NULL};
  assert_int_equal(nx_whole(factory->open_allocator(factory->ctx, &request, &vmm->table)), NXMEM_STATUS_OK);
  const NxmemAllocation block = nx_vmm_take(vmm, 1u, NX_G, 1u);
  assert_int_equal(nx_vmm_enqueue(vmm, &block, NULL), NXMEM_STATUS_UNSUPPORTED_CAPABILITY);
  assert_int_equal(nx_vmm_report().queued_releases, 0);
  nx_vmm_must_give(vmm, &block);
}

/* ---- Pages of the host's own driver ---------------------------------------------------------------------------------- */

static void what_is_unmapped_stays_reserved(void **state) {
  nx_vmm *vmm = *state;
  const NxmemAllocation block = nx_vmm_reserve(vmm, 1u, 4u * NX_G);
  assert_int_equal(nx_vmm_commit(vmm, &block, 0u, 4u * NX_G), NXMEM_STATUS_OK);
  assert_int_equal(nx_vmm_decommit(vmm, &block, NX_G, NX_G, NULL), NXMEM_STATUS_OK);
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
  const void *taken = mmap(block.ptr + NX_G, NX_G, PROT_NONE, flags, -1, 0);
  assert_ptr_equal(taken, MAP_FAILED);
  assert_int_equal(errno, EEXIST);
  nx_vmm_must_give(vmm, &block);
}

/* Without a pool a handle is destroyed, and its number used again: its bytes are not. */
static void pages_go_with_their_handle(void **state) {
  nx_vmm *vmm = *state;
  nx_vmm_release(vmm);
  nx_the_offer.pool_bytes = 0u;
  nx_vmm_must_open(vmm);
  const NxmemAllocation first = nx_vmm_take(vmm, 1u, 2u * NX_G, NX_G);
  memset(first.ptr, 0x42, 2u * NX_G);
  nx_vmm_must_give(vmm, &first);
  const NxmemAllocation second = nx_vmm_take(vmm, 2u, 2u * NX_G, NX_G);
  for (size_t i = 0; i < 2u * NX_G; i++)
    if (second.ptr[i] != 0u) fail_msg("byte %zu is %u", i, second.ptr[i]);
  nx_vmm_must_give(vmm, &second);
}

int main(void) {
  alarm(100);
  const struct CMUnitTest tests[] = {
      NX_VMM_TEST(another_block_is_not_released),
      NX_VMM_TEST(no_room_says_how_much),
      NX_VMM_TEST(no_memory_says_how_much),
      NX_VMM_TEST(busy_says_what_is_in_the_way),
      NX_VMM_TEST(another_prefix_is_not_retained),
      NX_VMM_TEST(prefix_does_not_leave_its_block),
      NX_VMM_TEST(prefix_is_charged_once),
      NX_VMM_TEST(mapping_for_good_keeps_the_bytes),
      NX_VMM_TEST(capture_waits_for_the_section),
      NX_VMM_TEST(capture_waits_for_all_ranges),
      NX_VMM_TEST(lost_device_reserves_nothing),
      NX_VMM_TEST(forked_child_releases_nothing),
      NX_VMM_TEST(nothing_is_queued_for_a_deaf_host),
      NX_VMM_TEST(what_is_unmapped_stays_reserved),
      NX_VMM_TEST(pages_go_with_their_handle),
  };
  return cmocka_run_group_tests_name("vmm_refusals", tests, NULL, NULL);
}
