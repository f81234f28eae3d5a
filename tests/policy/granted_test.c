/*
 * granted_test.c: what a policy granted is kept to: capabilities and bytes.
 *
 * Attackers played: a plugin with more capabilities than it was granted, callers that ask for more bytes.
 * Promise: the ceiling holds at negotiation; limits hold to the byte, over all allocators and threads; what is refused is given back and nobody is blamed.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "policytest.h"

static nxmem_host host;
static nxmem_plugin plugin;
static nxmem_policy *policy;

static void begin(const char *owned, const char *mapped) {
  char hash[65];
  const char *path = pt_plugin("granted", hash);
  host = pt_host();
  policy = pt_policy_of(
      path, hash, pt_text("\"max_owned_bytes\": %s, \"max_mapped_bytes\": %s, \"isolation\": \"none\"", owned, mapped));
  plugin = pt_open(policy, host, path);
}

static void end(void) {
  nxmem_host_counts counts;
  assert_int_equal(nxmem_host_count(host, &counts, NULL), NXMEM_OK);
  assert_int_equal(counts.contract_violations, 0);
  assert_int_equal(counts.live_allocations, 0);
  assert_int_equal(counts.quarantined, 0);
  pt_unload(plugin);
  pt_host_gone(host);
  nxmem_policy_free(policy);
}

static nxmem_allocator open_one(void) {
  nxmem_allocator allocator = {0};
  const nxmem_open_options options = {.mechanism = "granted"};
  assert_int_equal(nxmem_allocator_open(plugin, &options, &allocator, NULL), NXMEM_OK);
  return allocator;
}

static void close_one(nxmem_allocator allocator) {
  assert_int_equal(nxmem_allocator_close(allocator, 0, NULL), NXMEM_OK);
}

/* ---- Bytes ------------------------------------------------------------------------------------------------------- */

static void assert_over(nxmem_allocator allocator, uint64_t bytes, uint64_t left) {
  nxmem_allocation none = {0x5A5A, NULL};
  nxmem_error error;
  const nxmem_result r = nxmem_allocate(allocator, bytes, 16, NULL, &none, &error);
  pt_assert_line(r, NXMEM_ERR_OVER_LIMIT, &error, "beyond what the plugin was granted");
  assert_int_equal(error.found, bytes);
  assert_int_equal(error.needed, left);
  assert_int_equal(none.id, 0x5A5A);
}

static nxmem_allocation take(nxmem_allocator allocator, uint64_t bytes) {
  nxmem_allocation block = {0};
  nxmem_error error;
  if (nxmem_allocate(allocator, bytes, 16, NULL, &block, &error) != NXMEM_OK) fail_msg("%s", error.message);
  return block;
}

static void give(nxmem_allocator allocator, nxmem_allocation block) {
  assert_int_equal(nxmem_release(allocator, block, NULL, NULL), NXMEM_OK);
}

typedef struct limit_row {
  const char *name;
  const char *owned;
  const char *mapped;
} limit_row;

static const limit_row limit_rows[] = {
    {"owned bytes", "4096", "\"unlimited\""}, {"mapped bytes", "\"unlimited\"", "4096"}, {"both", "4096", "4096"}};

/* Over two allocators, what is given back may be taken again, and closing an allocator gives nothing back twice. */
static void test_limit(void **state) {
  const limit_row *row = *state;
  begin(row->owned, row->mapped);
  nxmem_allocator one = open_one(), two = open_one();
  for (int round = 0; round < 3; round++) {
    assert_over(one, 4112, 4096);
    const nxmem_allocation a = take(one, 4080);
    assert_over(two, 32, 16);
    const nxmem_allocation b = take(two, 16);
    assert_over(one, 16, 0);
    assert_over(two, 16, 0);
    give(one, a);
    assert_over(two, 4096, 4080);
    give(two, b);
  }
  close_one(two);
  give(one, take(one, 4096));
  assert_over(one, 4112, 4096);
  close_one(one);
  end();
}

enum { THREADS = 4, BLOCK = 64, BLOCKS = 4096 };
static atomic_uint taken;
static nxmem_allocator shared;

static void *take_all(void *blocks) {
  nxmem_allocation *mine = blocks;
  for (int i = 0; i < BLOCKS; i++) {
    if (nxmem_allocate(shared, BLOCK, 16, NULL, &mine[i], NULL) != NXMEM_OK) break;
    atomic_fetch_add(&taken, 1u);
  }
  return NULL;
}

/* Nobody draws ahead: to the last block, whoever takes it. */
static void test_threads(void **state) {
  (void)state;
  static nxmem_allocation blocks[THREADS][BLOCKS];
  begin("65536", "\"unlimited\"");
  shared = open_one();
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, take_all, blocks[i]), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  assert_int_equal(atomic_load(&taken), 65536 / BLOCK);
  for (int i = 0; i < THREADS * BLOCKS; i++)
    if ((&blocks[0][0])[i].id != 0) give(shared, (&blocks[0][0])[i]);
  for (int i = 0; i < 65536 / BLOCK; i++) give(shared, take(shared, 65536));
  close_one(shared);
  end();
}

/* ---- Virtual memory ---------------------------------------------------------------------------------------------- */

static nxmem_policy *vmm_policy(const char *path, const char *capabilities, const char *mapped) {
  return pt_parsed(
      pt_text("{\"version\": 1, \"plugins\": [{\"path\": \"%s\", \"sha256\": \"%s\", \"capabilities\": [%s], "
              "\"max_owned_bytes\": \"unlimited\", \"max_mapped_bytes\": %s, \"isolation\": \"none\"}]}",
              path, pt_sha256(path), capabilities, mapped));
}

static const char *vmm_copy(void) {
  const char *path = pt_path("hostvmm.so");
  pt_copy(HOSTVMM, path);
  return path;
}

typedef struct ceiling_row {
  const char *name;
  const char *words;
  uint64_t flags;
} ceiling_row;

static const ceiling_row ceiling_rows[] = {
    {"allocator alone", "\"allocator\"", NXMEM_CAP_ALLOCATOR},
    {"allocator and virtual backing", "\"allocator\", \"virtual-backing\"",
     NXMEM_CAP_ALLOCATOR | NXMEM_CAP_VIRTUAL_BACKING},
    {"without virtual backing", "\"allocator\", \"shared-mapping\", \"deferred-release\", \"structured-release\"",
     NXMEM_CAP_ALLOCATOR | NXMEM_CAP_SHARED_MAPPING | NXMEM_CAP_DEFERRED_RELEASE | NXMEM_CAP_STRUCTURED_RELEASE},
};

static void test_ceiling(void **state) {
  const ceiling_row *row = *state;
  const char *path = vmm_copy();
  host = pt_host();
  policy = vmm_policy(path, row->words, "\"unlimited\"");
  plugin = pt_open(policy, host, path);
  nxmem_plugin_info info;
  assert_int_equal(nxmem_plugin_get_info(plugin, &info, NULL), NXMEM_OK);
  assert_int_equal(info.capability_flags & ~row->flags, 0);
  assert_true((info.capability_flags & NXMEM_CAP_ALLOCATOR) != 0);
  assert_int_equal((info.capability_flags & NXMEM_CAP_VIRTUAL_BACKING) != 0,
                   (row->flags & NXMEM_CAP_VIRTUAL_BACKING) != 0);
  end();
}

static void test_commit(void **state) {
  (void)state;
  enum { STEP = 2 << 20, STEPS = 4 };
  const char *path = vmm_copy();
  host = pt_host();
  policy = vmm_policy(path, "\"allocator\", \"virtual-backing\", \"structured-release\"", pt_text("%d", STEPS * STEP));
  plugin = pt_open(policy, host, path);
  nxmem_mechanism_info info;
  assert_int_equal(nxmem_plugin_mechanism(plugin, 0, &info, NULL), NXMEM_OK);
  nxmem_allocator allocator = {0};
  const nxmem_open_options options = {.mechanism = info.name, .device = &info.device};
  assert_int_equal(nxmem_allocator_open(plugin, &options, &allocator, NULL), NXMEM_OK);
  const NxmemByteRange first = {0, STEP};
  const nxmem_allocate_options partly = {&first, 1};
  nxmem_allocation block = {0};
  nxmem_error error;
  assert_int_equal(nxmem_allocate(allocator, 64u << 20, 4096, &partly, &block, &error), NXMEM_OK);
  for (uint64_t i = 1; i < STEPS; i++) {
    const NxmemByteRange next = {i * STEP, STEP};
    if (nxmem_commit(allocator, block, next, &error) != NXMEM_OK) fail_msg("%s", error.message);
  }
  const NxmemByteRange beyond = {STEPS * STEP, STEP}, back = {0, STEP};
  pt_assert_line(nxmem_commit(allocator, block, beyond, &error), NXMEM_ERR_OVER_LIMIT, &error, "was granted");
  assert_int_equal(nxmem_decommit(allocator, block, back, NULL, NULL), NXMEM_OK);
  if (nxmem_commit(allocator, block, beyond, &error) != NXMEM_OK) fail_msg("%s", error.message);
  give(allocator, block);
  close_one(allocator);
  end();
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(limit_rows), test_limit);
  nx_suite_add(&suite, "on several threads, to the last block", test_threads, NULL);
  nx_suite_rows(&suite, ROWS(ceiling_rows), test_ceiling);
  nx_suite_add(&suite, "commits beyond a limit", test_commit, NULL);
  return nx_suite_run(&suite, "policy_granted");
}
