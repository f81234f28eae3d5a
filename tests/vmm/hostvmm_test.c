/*
 * hostvmm_test.c: the shipped libnxmem_hostvmm.so through the host library.
 *
 * Attackers played: programs that store where they may not.
 * Promise: what was not committed, was decommitted, or is only shared cannot be written; the figures are exported and true.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nxmem/statistics.h"
#include "shipped.h"

static void end(nx_shipped *it) {
  nx_shipped_unload(it);
  nx_host_gone(it->host);
}

static NxmemVmmStats figures(const nx_shipped *it) {
  void *address = NULL;
  nxmem_error error;
  NxmemVmmStatisticsFunction ask;
  NxmemVmmStats stats = {.struct_size = sizeof stats};
  assert_int_equal(nxmem_plugin_symbol(it->plugin, NXMEM_STATISTICS_EXPORT, &address, &error), NXMEM_OK);
  memcpy(&ask, &address, sizeof ask);
  assert_int_equal(ask(0x686F7374766D6Dull, NXMEM_TIER_HOST, 0u, &stats), NXMEM_STATUS_OK);
  return stats;
}

/* ---- What faults ------------------------------------------------------------------------------------------------------ */

static void leave_with_3(int number) {
  (void)number;
  _exit(3);
}

static int store_faults(uint8_t *at) {
  int status = 0;
  const pid_t child = fork();
  assert_int_not_equal(child, -1);
  if (child == 0) {
    signal(SIGSEGV, leave_with_3);
    *(volatile uint8_t *)at = 1u;
    _exit(0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 3));
  return WEXITSTATUS(status) == 3;
}

static void what_is_not_committed_faults(void **state) {
  nx_shipped it = nx_shipped_load();
  nxmem_error error;
  uint64_t unmapped = 0u;
  const nxmem_allocation span = nx_shipped_span(&it);
  uint8_t *at = span.ptr;
  (void)state;
  assert_false(store_faults(at));
  assert_true(store_faults(at + G));
  assert_int_equal(nxmem_commit(it.allocator, span, (NxmemByteRange){G, 2u * G}, &error), NXMEM_OK);
  assert_false(store_faults(at + G));
  assert_int_equal(nxmem_decommit(it.allocator, span, (NxmemByteRange){G, G}, &unmapped, &error), NXMEM_OK);
  assert_int_equal(unmapped, G);
  assert_true(store_faults(at + G));
  assert_false(store_faults(at + 2u * G));
  nx_must_release(it.allocator, span);
  assert_true(store_faults(at));
  end(&it);
}

static void sharers_cannot_write(void **state) {
  nx_shipped it = nx_shipped_load();
  nxmem_error error;
  nxmem_prefix prefix;
  nxmem_group_outcome outcome;
  nxmem_allocation spans[3];
  (void)state;
  for (int i = 0; i < 3; i++) spans[i] = nx_shipped_span(&it);
  assert_int_equal(nxmem_prefix_create(it.allocator, 100000u, &prefix, &error), NXMEM_OK);
  assert_int_equal(nxmem_prefix_commit(prefix, spans, 3u, G, &outcome, &error), NXMEM_OK);
  assert_int_equal(outcome, NXMEM_GROUP_SHARED);
  for (int i = 0; i < 3; i++) {
    assert_true(store_faults((uint8_t *)spans[i].ptr + G));
    assert_false(store_faults(spans[i].ptr));
    nx_must_release(it.allocator, spans[i]);
  }
  assert_int_equal(nxmem_prefix_release(prefix, &error), NXMEM_OK);
  end(&it);
}

/* ---- Figures ---------------------------------------------------------------------------------------------------------- */

static void figures_are_exported(void **state) {
  nx_shipped it = nx_shipped_load();
  nxmem_error error;
  (void)state;
  const NxmemVmmStats before = figures(&it);
  assert_true(before.reserved_bytes >= 1ull << 30);
  assert_int_equal(before.committed_bytes, 0);
  assert_int_equal(before.peak_committed_bytes, 0);
  assert_int_equal(before.granule_bytes, G);
  const nxmem_allocation span = nx_shipped_span(&it);
  assert_int_equal(nxmem_commit(it.allocator, span, (NxmemByteRange){0u, 4u * G}, &error), NXMEM_OK);
  const NxmemVmmStats during = figures(&it);
  assert_int_equal(during.committed_bytes, 4u * G);
  assert_int_equal(during.granules_mapped, 4);
  nx_must_release(it.allocator, span);
  const NxmemVmmStats after = figures(&it);
  assert_int_equal(after.committed_bytes, 0);
  assert_int_equal(after.peak_committed_bytes, 4u * G);
  assert_int_equal(after.pool_bytes, 4u * G);
  assert_int_equal(after.maps - before.maps, 4);
  assert_int_equal(after.unmaps - before.unmaps, 4);
  end(&it);
}

/* ---- A limit on files ---------------------------------------------------------------------------------------------- */

/* 0, or which step answered otherwise. */
static int live_with_four_granules(void) {
  nxmem_error error;
  nx_shipped it = nx_shipped_load();
  const nxmem_allocation span = nx_shipped_span(&it);
  if (nxmem_commit(it.allocator, span, (NxmemByteRange){0u, 4u * G}, &error) != NXMEM_OK) return 1;
  if (nxmem_commit(it.allocator, span, (NxmemByteRange){4u * G, G}, &error) != NXMEM_ERR_PLUGIN) return 2;
  if (error.plugin_status != NXMEM_STATUS_OUT_OF_MEMORY) return 3;
  if (nxmem_decommit(it.allocator, span, (NxmemByteRange){0u, G}, NULL, &error) != NXMEM_OK) return 4;
  if (nxmem_commit(it.allocator, span, (NxmemByteRange){4u * G, G}, &error) != NXMEM_OK) return 5;
  nx_must_release(it.allocator, span);
  end(&it);
  return 0;
}

/* The kernel ends a process that grows a file beyond its limit; the plugin is out of memory instead, and what is given back can be committed again. */
static void a_limit_on_files_is_no_signal(void **state) {
  (void)state;
  int status = 0;
  const pid_t child = fork();
  if (child == 0) {
    const struct rlimit four = {4u * G, 4u * G};
    _exit(setrlimit(RLIMIT_FSIZE, &four) == 0 ? live_with_four_granules() : 9);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_limit_on_files_is_no_signal),
                                     cmocka_unit_test(what_is_not_committed_faults),
                                     cmocka_unit_test(sharers_cannot_write), cmocka_unit_test(figures_are_exported)};
  return cmocka_run_group_tests_name("vmm_hostvmm", tests, NULL, NULL);
}
