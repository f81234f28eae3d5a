/*
 * growth_test.c: ten thousand times the whole way of libnxmem_hostvmm.so, from loading to unloading; and a process with as many mappings as there may be.
 *
 * Attackers played: none; what is forgotten once in each round.
 * Promise: descriptors, mappings and resident memory are as before; a process that has no mapping left gives back what it has.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shipped.h"

enum { ROUNDS = 10000, SETTLED = 500, SLACK_PAGES = 64 };

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

static void one_life(nx_shipped *it, int number) {
  nxmem_error error;
  uint64_t retired = 0u;
  nx_shipped_load_again(it);
  const nxmem_allocation span = nx_shipped_span(it);
  assert_int_equal(nxmem_commit(it->allocator, span, (NxmemByteRange){0u, 3u * G}, &error), NXMEM_OK);
  *(uint8_t *)span.ptr = 1u;
  if (number % 3 == 0) {
    assert_int_equal(nxmem_enqueue_release(it->allocator, span, NULL, NULL, &error), NXMEM_OK);
    assert_int_equal(nxmem_drain_releases(it->allocator, 1u, &retired, &error), NXMEM_OK);
  } else {
    nx_must_release(it->allocator, span);
  }
  nx_shipped_unload(it);
}

static void ten_thousand_lives(void **state) {
  nx_shipped it = nx_shipped_load();
  usage before = {0u, 0u, 0u};
  (void)state;
  nx_shipped_unload(&it);
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

/* ---- As many mappings as the kernel allows ---------------------------------------------------------------------------- */

enum { LEFT = 400, PIECES = 1000 };

/* All but some hundred of the mappings that this process may have are taken: every other page of a region is another one. */
static int take_mappings(void) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), most = 1u << 24;
  uint8_t *region = mmap(NULL, most * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  size_t i = 1u;
  if (region == MAP_FAILED) return 0;
  while (i < most && mprotect(region + i * page, page, PROT_READ) == 0) i += 2u;
  if (i >= most || i < 2u * LEFT) return 0;
  return mprotect(region + (i - LEFT) * page, LEFT * page, PROT_NONE) == 0;
}

/* Pages of two kinds by turns, each a mapping, until not even one mapping can take the place of another. */
static void take_the_last(void) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  int kind = PROT_READ;
  while (mmap(NULL, page, kind, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
    kind = kind == PROT_READ ? PROT_NONE : PROT_READ;
}

/* Every other granule, until there is no mapping left. */
static uint64_t commit_all_that_can_be(const nx_shipped *it, nxmem_allocation span) {
  nxmem_error error;
  uint64_t count = 0u;
  while (count < PIECES) {
    const NxmemByteRange range = {2u * count * G, G};
    if (nxmem_commit(it->allocator, span, range, &error) != NXMEM_OK) break;
    count++;
  }
  return count;
}

/* 0, or which step answered otherwise. */
static int live_at_the_limit(void) {
  nxmem_error error;
  uint64_t unmapped = 0u;
  nxmem_allocation span;
  const NxmemByteRange first = {0u, 1u};
  const nxmem_allocate_options options = {&first, 1u};
  nx_shipped it = nx_shipped_load();
  if (nxmem_allocate(it.allocator, 2u * PIECES * G, 4096u, &options, &span, &error) != NXMEM_OK) return 1;
  if (!take_mappings()) return 2;
  const uint64_t count = commit_all_that_can_be(&it, span);
  if (count < LEFT / 8u || count == PIECES) return 3;
  take_the_last();
  if (nxmem_decommit(it.allocator, span, (NxmemByteRange){0u, G}, &unmapped, &error) != NXMEM_OK) return 4;
  take_the_last();
  if (nxmem_release(it.allocator, span, NULL, &error) != NXMEM_OK) return 5;
  return 0;
}

/* What is there goes back also then: nothing is kept for want of a mapping. */
static void giving_back_needs_no_mapping(void **state) {
  int status = 0;
  (void)state;
  const pid_t child = fork();
  if (child == 0) _exit(live_at_the_limit());
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(giving_back_needs_no_mapping),
                                     cmocka_unit_test(ten_thousand_lives)};
  return cmocka_run_group_tests_name("vmm_growth", tests, NULL, NULL);
}
