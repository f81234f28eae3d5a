/*
 * growth_test.c: ten thousand times the whole way from loading to unloading: nothing grows.
 *
 * Attackers played: none; what is forgotten once in each round.
 * Promise: descriptors, mappings, resident memory and the driver's objects are as before.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <unistd.h>

#include "loaded.h"

enum { ROUNDS = 10000, SETTLED = 500, SLACK_PAGES = 64 };

typedef struct nx_size {
  uint64_t descriptors, mappings, pages;
} nx_size;

static uint64_t lines_of(const char *path) {
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  uint64_t lines = 0;
  for (int c = getc(file); c != EOF; c = getc(file)) lines += c == '\n';
  fclose(file);
  return lines;
}

static nx_size size_now(void) {
  nx_size size = {0, lines_of("/proc/self/maps"), 0};
  unsigned long all, resident;
  FILE *file = fopen("/proc/self/statm", "r");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%lu %lu", &all, &resident), 2);
  fclose(file);
  size.pages = resident;
  DIR *folder = opendir("/proc/self/fd");
  assert_non_null(folder);
  while (readdir(folder) != NULL) size.descriptors++;
  closedir(folder);
  return size;
}

static void one_round(int number) {
  nx_loaded it;
  nxmem_error error;
  uint64_t retired;
  nx_load_and_open(&it, number % 2 ? "cuda-vmm" : "cuda-vmm-shared");
  nxmem_allocation span = nx_span(&it, 8, 2);
  nx_ok(nx_commit_granules(&it, span, 4, 2), NULL);
  if (number % 3 == 0) {
    nx_ok(nxmem_enqueue_release(it.allocator, span, NULL, NULL, &error), &error);
    nx_ok(nxmem_drain_releases(it.allocator, 1, &retired, &error), &error);
  } else {
    nx_release(&it, span);
  }
  nx_unload(&it);
}

static void nothing_grows(void **state) {
  (void)state;
  nx_size before = {0, 0, 0};
  for (int i = 0; i < ROUNDS; i++) {
    if (i == SETTLED) before = size_now();
    one_round(i);
  }
  nx_size after = size_now();
  assert_int_equal(after.descriptors, before.descriptors);
  assert_true(after.mappings <= before.mappings + 2);
  assert_true(after.pages <= before.pages + SLACK_PAGES);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_grows)};
  return cmocka_run_group_tests_name("cuda_growth", tests, NULL, NULL);
}
