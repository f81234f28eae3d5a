/*
 * growth_test.c: ten thousand times the whole way of libnxmem_hostvmm.so, from loading to unloading.
 *
 * Attackers played: none; what is forgotten once in each round.
 * Promise: descriptors, mappings and resident memory are as before.
 */
#define _GNU_SOURCE
#include <unistd.h>

#include "hosttest.h"
#include "nxmem_capabilities.h"

#define G (2ull << 20)
enum { ROUNDS = 10000, SETTLED = 500, SLACK_PAGES = 64 };

typedef struct loaded {
  const char *path;
  nxmem_host host;
  nxmem_plugin plugin;
  nxmem_allocator allocator;
} loaded;

static void load_again(loaded *it) {
  it->plugin = nx_must_open(it->host, it->path);
  it->allocator = nx_must_open_mechanism(it->plugin, "hostvmm");
}

static loaded load(void) {
  loaded it = {.path = nx_plugin_copy("libnxmem_hostvmm.so"), .host = nx_host_in(NXMEM_FETCH_GUARDED)};
  load_again(&it);
  return it;
}

static void unload(loaded *it) {
  nx_must_close(it->allocator);
  nx_must_unload(it->plugin, it->path);
}

/* Eight granules, none of them committed but the first byte's. */
static nxmem_allocation span_of(loaded *it) {
  nxmem_allocation span;
  nxmem_error error;
  const NxmemByteRange first = {0u, 1u};
  const nxmem_allocate_options options = {&first, 1u};
  assert_int_equal(nxmem_allocate(it->allocator, 8u * G, 4096u, &options, &span, &error), NXMEM_OK);
  return span;
}

/* ---- Growth ----------------------------------------------------------------------------------------------------------- */

typedef struct usage {
  uint64_t descriptors, mappings, pages;
} usage;

static uint64_t lines_of(const char *path) {
  FILE *file = fopen(path, "r");
  uint64_t lines = 0u;
  assert_non_null(file);
  for (int c = getc(file); c != EOF; c = getc(file)) lines += c == '\n';
  fclose(file);
  return lines;
}

static usage usage_now(void) {
  usage now = {nx_open_fds(), lines_of("/proc/self/maps"), 0u};
  unsigned long all, resident;
  FILE *file = fopen("/proc/self/statm", "r");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%lu %lu", &all, &resident), 2);
  fclose(file);
  now.pages = resident;
  return now;
}

static void one_life(loaded *it, int number) {
  nxmem_error error;
  uint64_t retired = 0u;
  load_again(it);
  const nxmem_allocation span = span_of(it);
  assert_int_equal(nxmem_commit(it->allocator, span, (NxmemByteRange){0u, 3u * G}, &error), NXMEM_OK);
  *(uint8_t *)span.ptr = 1u;
  if (number % 3 == 0) {
    assert_int_equal(nxmem_enqueue_release(it->allocator, span, NULL, NULL, &error), NXMEM_OK);
    assert_int_equal(nxmem_drain_releases(it->allocator, 1u, &retired, &error), NXMEM_OK);
  } else {
    nx_must_release(it->allocator, span);
  }
  unload(it);
}

static void ten_thousand_lives(void **state) {
  loaded it = load();
  usage before = {0u, 0u, 0u};
  (void)state;
  unload(&it);
  for (int i = 0; i < ROUNDS; i++) {
    if (i == SETTLED) before = usage_now();
    one_life(&it, i);
  }
  const usage after = usage_now();
  assert_int_equal(after.descriptors, before.descriptors);
  assert_true(after.mappings <= before.mappings + 2u);
  assert_true(after.pages <= before.pages + SLACK_PAGES);
  nx_host_gone(it.host);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(ten_thousand_lives)};
  return cmocka_run_group_tests_name("vmm_growth", tests, NULL, NULL);
}
