/*
 * plugin_test.c: the shipped plugin on the simulated driver: how many calls it makes, what it does where the machine is unlike others.
 *
 * Attackers played: small cards, platforms without a flag or read-only access, threads without the context, a driver that ends.
 * Promise: the least number of calls; the caller's context unchanged; nothing advertised that was not seen to work.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loaded.h"

static nx_loaded it;

static int set_up(void **state) {
  (void)state;
  nx_fake_driver();
  nx_fake_schedule("reset;devices=2");
  return 0;
}

/* ---- The least number of calls ----------------------------------------------------------------------------------- */

static void calls_of_a_commit(void **state) {
  (void)state;
  nx_load_and_open(&it, "cuda-vmm");
  nxmem_allocation span = nx_span(&it, 64, 1);
  nx_clear_log();
  nx_ok(nx_commit_granules(&it, span, 8, 10), NULL);
  assert_int_equal(nx_calls("cuMemCreate"), 10);
  assert_int_equal(nx_calls("cuMemMap"), 10);
  assert_int_equal(nx_calls("cuMemSetAccess"), 1);
  assert_int_equal(nx_calls(NULL), 10 + 10 + 1 + 2); /* and the context, there and back */
  nx_clear_log();
  nx_ok(nx_commit_granules(&it, span, 8, 10), NULL); /* committed already */
  assert_int_equal(nx_calls(NULL), 0);
  nx_ok(nx_commit_granules(&it, span, 6, 14), NULL); /* two before and two behind: two runs */
  assert_int_equal(nx_calls("cuMemCreate"), 4);
  assert_int_equal(nx_calls("cuMemMap"), 4);
  assert_int_equal(nx_calls("cuMemSetAccess"), 2);
  nx_clear_log();
  nx_ok(nx_decommit_granules(&it, span, 6, 14), NULL);
  assert_int_equal(nx_calls("cuMemUnmap"), 1);
  assert_int_equal(nx_calls("cuMemRelease"), 0); /* the pool has room */
  assert_int_equal(nx_calls(NULL), 1 + 2);
  nx_clear_log();
  nx_ok(nx_commit_granules(&it, span, 20, 14), NULL);
  assert_int_equal(nx_calls("cuMemCreate"), 0); /* out of the pool */
  assert_int_equal(nx_calls("cuMemMap"), 14);
  assert_int_equal(nx_calls("cuMemSetAccess"), 1);
  nx_release(&it, span);
  nx_unload(&it);
}

static void no_part_of_a_granule_reaches_the_driver(void **state) {
  (void)state;
  uint64_t unmapped = 99;
  nx_load_and_open(&it, "cuda-vmm");
  nxmem_allocation span = nx_span(&it, 4, 4);
  nx_clear_log();
  const NxmemByteRange half = {NX_GRANULE / 2, NX_GRANULE}, most = {1, 4 * NX_GRANULE - 2};
  nx_ok(nxmem_decommit(it.allocator, span, half, &unmapped, NULL), NULL);
  assert_int_equal(unmapped, 0);
  assert_int_equal(nx_calls(NULL), 0);
  nx_ok(nxmem_decommit(it.allocator, span, most, &unmapped, NULL), NULL);
  assert_int_equal(unmapped, 2 * NX_GRANULE);
  assert_int_equal(nx_calls("cuMemUnmap"), 1);
  nx_release(&it, span);
  nx_unload(&it);
}

static void minimum_and_recommended_are_not_mixed(void **state) {
  (void)state;
  fakecuda_entry entry;
  nxmem_error error;
  static const uint64_t sizes[] = {1, 6912, (32ull << 20) - 1, 32ull << 20, (32ull << 20) + 1};
  nx_fake_schedule("granularity=0x200000/0x2000000");
  nx_load_and_open(&it, "cuda-vmm");
  assert_int_equal(nx_stats(&it).granule_bytes, 32u << 20);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    nxmem_allocation allocation;
    nx_clear_log();
    nx_ok(nxmem_allocate(it.allocator, sizes[i], 64, NULL, &allocation, &error), &error);
    nx_release(&it, allocation);
    for (uint64_t k = 0; nx_fake_driver()->log(k, &entry); k++) {
      if (strcmp(entry.call, "cuMemMap") == 0 || strcmp(entry.call, "cuMemUnmap") == 0) {
        assert_int_equal(entry.b % (32u << 20), 0);
      }
    }
  }
  nxmem_allocation none;
  assert_int_not_equal(nxmem_allocate(it.allocator, UINT64_MAX, 1, NULL, &none, NULL), NXMEM_OK);
  nx_unload(&it);
}

static void unusable_granularities_are_fatal(void **state) {
  (void)state;
  static const char *const bad[] = {"granularity=0", "granularity=12288", "granularity=0/2097152",
                                    "fail=cuMemGetAllocationGranularity:1+:999"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    nxmem_error error;
    nx_fake_schedule("reset");
    nx_fake_schedule(bad[i]);
    nx_load(&it);
    assert_int_equal(nx_try_open(&it, "cuda-vmm", 0, &error), NXMEM_ERR_PLUGIN);
    assert_int_equal(error.plugin_status, NXMEM_STATUS_DEVICE_ERROR);
    assert_non_null(strcasestr(error.message, "granularity"));
    it.allocator.id = 0;
    nx_unload(&it);
  }
}

/* ---- The ladder -------------------------------------------------------------------------------------------------- */

static void ladder_takes_the_first_rung_that_holds(void **state) {
  (void)state;
  for (uint64_t rung = 64ull << 30; rung <= (8ull << 40); rung *= 2) {
    char schedule[64];
    nx_fake_schedule("reset");
    snprintf(schedule, sizeof schedule, "reserve-max=%llu", (unsigned long long)rung);
    nx_fake_schedule(schedule);
    nx_load_and_open(&it, "cuda-vmm");
    const uint64_t first = 4ull << 40; /* 64 times the device's 32 GiB would be less */
    assert_int_equal(nx_stats(&it).reserved_bytes, rung < first ? rung : first);
    assert_int_equal(nx_stats(&it).committed_bytes, 0);
    nx_unload(&it);
  }
}

static void an_exhausted_ladder_is_fatal(void **state) {
  (void)state;
  nxmem_error error;
  nx_fake_schedule("reserve-max=68719476735"); /* one byte below 64 GiB */
  nx_load(&it);
  assert_int_equal(nx_try_open(&it, "cuda-vmm", 0, &error), NXMEM_ERR_PLUGIN);
  assert_non_null(strstr(error.message, "cuMemAddressReserve"));
  assert_non_null(strstr(error.message, "CUDA_ERROR_OUT_OF_MEMORY"));
  it.allocator.id = 0;
  nx_unload(&it);
}

static void reserving_is_not_committing(void **state) {
  (void)state;
  nxmem_error error;
  nxmem_allocator_info info;
  nx_load_and_open(&it, "cuda-vmm");
  nxmem_allocation span = nx_span(&it, (1ull << 40) / NX_GRANULE, 1);
  assert_int_equal(nx_stats(&it).committed_bytes, NX_GRANULE);
  nx_ok(nxmem_allocator_get_info(it.allocator, &info, &error), &error);
  assert_int_equal(info.mapped_bytes, NX_GRANULE);
  nx_release(&it, span);
  nx_unload(&it);
}

/* ---- Flags and capabilities -------------------------------------------------------------------------------------- */

static void a_flag_that_the_platform_refuses_is_not_used(void **state) {
  (void)state;
  static const char *const platforms[] = {"rdma-refused", "rdma;fail=cuMemSetAccess:1:801"};
  for (size_t i = 0; i < 2; i++) {
    fakecuda_entry entry;
    nx_fake_schedule("reset");
    nx_fake_schedule(platforms[i]);
    nx_load_and_open(&it, "cuda-vmm-shared");
    nx_clear_log();
    nxmem_allocation span = nx_span(&it, 2, 2);
    for (uint64_t k = 0; nx_fake_driver()->log(k, &entry); k++) {
      if (strcmp(entry.call, "cuMemCreate") == 0) assert_int_equal(entry.b, 0);
    }
    nx_release(&it, span);
    nx_unload(&it);
  }
}

static uint64_t effective_flags(const char *mechanism) {
  nxmem_allocator_info info;
  nxmem_error error;
  nx_load_and_open(&it, mechanism);
  nx_ok(nxmem_allocator_get_info(it.allocator, &info, &error), &error);
  nx_unload(&it);
  return info.effective_flags;
}

static void sharing_is_advertised_only_after_a_probe(void **state) {
  (void)state;
  nxmem_error error;
  assert_int_equal(effective_flags("cuda-vmm") & NXMEM_CAP_SHARED_MAPPING, 0);
  assert_int_not_equal(effective_flags("cuda-vmm-shared") & NXMEM_CAP_SHARED_MAPPING, 0);
  nx_fake_schedule("no-read-only");
  assert_int_equal(effective_flags("cuda-vmm-shared") & NXMEM_CAP_SHARED_MAPPING, 0);
  nx_load(&it);
  assert_int_not_equal(nx_try_open(&it, "cuda-vmm-shared", NXMEM_CAP_SHARED_MAPPING, &error), NXMEM_OK);
  assert_true(error.plugin_status == NXMEM_STATUS_UNSUPPORTED_CAPABILITY ||
              error.result == NXMEM_ERR_UNSUPPORTED_CAPABILITY);
  it.allocator.id = 0;
  nx_unload(&it);
}

/* ---- Contexts ---------------------------------------------------------------------------------------------------- */

static nx_cuda_context current_context(void) {
  nx_cuda_result (*get)(nx_cuda_context *);
  nx_cuda_context context = NULL;
  nx_fake_entry("cuCtxGetCurrent", &get, sizeof get);
  assert_int_equal(get(&context), NX_CUDA_SUCCESS);
  return context;
}

static void with_another_context_current(void **state) {
  (void)state;
  nx_fake_enter(1);
  nx_cuda_context mine = current_context();
  nx_load_and_open(&it, "cuda-vmm-shared");
  nxmem_allocation span = nx_span(&it, 4, 2);
  nx_ok(nx_commit_granules(&it, span, 2, 2), NULL);
  assert_int_equal(nx_commit_granules(&it, span, 9, 1), NXMEM_ERR_INVALID_ARGUMENT);
  nx_fake_schedule("fail=cuMemMap:1:800");
  nx_ok(nx_decommit_granules(&it, span, 0, 4), NULL);
  assert_int_not_equal(nx_commit_granules(&it, span, 0, 4), NXMEM_OK);
  assert_ptr_equal(current_context(), mine);
  nx_release(&it, span);
  assert_ptr_equal(current_context(), mine);
  nx_unload(&it);
  assert_ptr_equal(current_context(), mine);
  nx_fake_leave(1);
}

static void *release_here(void *allocation) {
  nx_release(&it, *(nxmem_allocation *)allocation);
  return nx_fake_counts().context_depth == 0 ? NULL : allocation;
}

static void release_on_a_fresh_thread(void **state) {
  (void)state;
  pthread_t thread;
  void *left = NULL;
  nx_load_and_open(&it, "cuda-vmm");
  nxmem_allocation span = nx_span(&it, 4, 4);
  assert_int_equal(pthread_create(&thread, NULL, release_here, &span), 0);
  pthread_join(thread, &left);
  assert_null(left);
  assert_int_equal(nx_stats(&it).committed_bytes, 0);
  assert_int_equal(nx_stats(&it).quarantined_bytes, 0);
  nx_unload(&it);
}

static void without_the_context_nothing_is_destroyed(void **state) {
  (void)state;
  nxmem_error error;
  nxmem_unload_info info;
  nx_load_and_open(&it, "cuda-vmm");
  nxmem_allocation span = nx_span(&it, 4, 4);
  nx_clear_log();
  nx_fake_schedule("fail=cuCtxPushCurrent:1:201");
  assert_int_equal(nxmem_release(it.allocator, span, NULL, &error), NXMEM_ERR_QUARANTINED);
  assert_int_equal(nx_calls("cuMemUnmap") + nx_calls("cuMemRelease"), 0);
  assert_int_equal(nx_stats(&it).bind_failures, 1);
  assert_int_equal(nx_stats(&it).quarantined_bytes, 4 * NX_GRANULE);
  assert_int_equal(nx_fake_counts().mappings, 4);
  nx_ok(nxmem_allocator_close(it.allocator, 0, &error), &error);
  assert_int_equal(nxmem_plugin_try_unload(it.plugin, &info, &error), NXMEM_ERR_BUSY);
  assert_true(info.plugin.live_allocations > 0);
}

/* ---- Pages ------------------------------------------------------------------------------------------------------- */

/* Whether a store there ends a child by SIGSEGV. */
static int store_faults(uint64_t address) {
  pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    *(volatile uint8_t *)(uintptr_t)address = 1;
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

static void pages_are_what_the_books_say(void **state) {
  (void)state;
  nxmem_error error;
  nxmem_prefix prefix;
  nxmem_group_outcome outcome;
  nx_load_and_open(&it, "cuda-vmm-shared");
  nxmem_allocation span = nx_span(&it, 4, 2), sharer = nx_span(&it, 4, 1);
  const uint64_t at = (uint64_t)(uintptr_t)span.ptr, shared = (uint64_t)(uintptr_t)sharer.ptr;
  assert_false(store_faults(at));
  assert_true(store_faults(at + 2 * NX_GRANULE)); /* never committed */
  nx_ok(nx_decommit_granules(&it, span, 0, 1), NULL);
  assert_true(store_faults(at));
  assert_false(store_faults(at + NX_GRANULE));
  nx_ok(nxmem_prefix_create(it.allocator, NX_GRANULE, &prefix, &error), &error);
  nx_ok(nxmem_prefix_commit(prefix, &sharer, 1, 2 * NX_GRANULE, &outcome, &error), &error);
  assert_true(store_faults(shared + 2 * NX_GRANULE));              /* read-only for those who share */
  (void)*(volatile uint8_t *)(uintptr_t)(shared + 2 * NX_GRANULE); /* and there for them to read */
  nx_release(&it, sharer);
  nx_ok(nxmem_prefix_release(prefix, &error), &error);
  nx_release(&it, span);
  assert_true(store_faults(at + NX_GRANULE));
  nx_unload(&it);
}

/* ---- Forks ------------------------------------------------------------------------------------------------------- */

static void a_child_touches_neither_driver_nor_books(void **state) {
  (void)state;
  nx_load_and_open(&it, "cuda-vmm");
  nxmem_allocation span = nx_span(&it, 4, 4);
  uint32_t (*add)(uint32_t, void *);
  nx_plugin_export(&it, "NxmemCudaAddStream", &add, sizeof add);
  pid_t child = fork();
  if (child == 0) {
    uint64_t before = nx_fake_counts().calls;
    int refused =
        nxmem_release(it.allocator, span, NULL, NULL) != NXMEM_OK && add(0, &span) == NXMEM_STATUS_DEVICE_ERROR;
    _exit(refused && nx_fake_counts().calls == before ? 0 : 1);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  nx_release(&it, span);
  nx_unload(&it);
}

/* ---- Events ------------------------------------------------------------------------------------------------------ */

static void nothing_is_unmapped_while_work_is_running(void **state) {
  (void)state;
  nxmem_error error;
  uint64_t retired = 9;
  nx_load_and_open(&it, "cuda-vmm");
  nxmem_allocation first = nx_span(&it, 4, 4), second = nx_span(&it, 2, 2);
  nx_fake_schedule("delay-events");
  nx_clear_log();
  nx_ok(nxmem_enqueue_release(it.allocator, first, NULL, NULL, &error), &error);
  nx_ok(nxmem_enqueue_release(it.allocator, second, NULL, NULL, &error), &error);
  assert_int_equal(nxmem_release(it.allocator, first, NULL, &error), NXMEM_ERR_BUSY);
  assert_int_equal(nx_decommit_granules(&it, first, 0, 4), NXMEM_ERR_BUSY);
  nx_ok(nxmem_drain_releases(it.allocator, 9, &retired, &error), &error);
  assert_int_equal(retired, 0);
  assert_int_equal(nx_calls("cuMemUnmap"), 0);
  assert_int_equal(nx_fake_counts().mappings, it.before.mappings + 6);
  assert_int_equal(nx_fake_driver()->complete(1), 1);
  nx_ok(nxmem_drain_releases(it.allocator, 9, &retired, &error), &error);
  assert_int_equal(retired, 1);
  assert_int_equal(nx_fake_counts().mappings, it.before.mappings + 2);
  nx_fake_driver()->complete(9);
  nx_ok(nxmem_drain_releases(it.allocator, 9, &retired, &error), &error);
  assert_int_equal(retired, 1);
  assert_int_equal(nx_fake_counts().mappings, it.before.mappings);
  nx_fake_schedule("no-delay");
  nx_unload(&it);
}

/* ---- Devices ----------------------------------------------------------------------------------------------------- */

static void each_device_has_its_own(void **state) {
  (void)state;
  nxmem_error error;
  nxmem_plugin_info info;
  nxmem_allocator other;
  nxmem_allocation allocation;
  const NxmemDeviceId second = {NXMEM_TIER_DEVICE, 1};
  const nxmem_open_options options = {.mechanism = "cuda-vmm", .device = &second};
  nx_load_and_open(&it, "cuda-vmm");
  nx_ok(nxmem_plugin_get_info(it.plugin, &info, &error), &error);
  assert_int_equal(info.mechanism_count, 4);
  nx_ok(nxmem_allocator_open(it.plugin, &options, &other, &error), &error);
  nx_ok(nxmem_allocate(other, NX_GRANULE, 64, NULL, &allocation, &error), &error);
  nxmem_allocation span = nx_span(&it, 1, 1);
  nx_ok(nxmem_release(other, allocation, NULL, &error), &error);
  nx_release(&it, span);
  nx_ok(nxmem_allocator_close(other, 0, &error), &error);
  nx_unload(&it);
}

#define TEST(function) cmocka_unit_test_setup(function, set_up)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(calls_of_a_commit),
      TEST(no_part_of_a_granule_reaches_the_driver),
      TEST(minimum_and_recommended_are_not_mixed),
      TEST(unusable_granularities_are_fatal),
      TEST(ladder_takes_the_first_rung_that_holds),
      TEST(an_exhausted_ladder_is_fatal),
      TEST(reserving_is_not_committing),
      TEST(a_flag_that_the_platform_refuses_is_not_used),
      TEST(sharing_is_advertised_only_after_a_probe),
      TEST(with_another_context_current),
      TEST(release_on_a_fresh_thread),
      TEST(a_child_touches_neither_driver_nor_books),
      TEST(pages_are_what_the_books_say),
      TEST(nothing_is_unmapped_while_work_is_running),
      TEST(each_device_has_its_own),
      TEST(without_the_context_nothing_is_destroyed), /* the last: what it strands stays */
  };
  return cmocka_run_group_tests_name("cuda_plugin", tests, NULL, NULL);
}
