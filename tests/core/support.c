/*
 * support.c: what the core's tests share.
 *
 * Attackers: none; the tests play them.
 * Promise: helpers fail the running case, never the next one.
 */
#define _GNU_SOURCE
#include "support.h"

#include <sys/mman.h>
#include <unistd.h>

void nx_suite_add(nx_suite *suite, const char *name, CMUnitTestFunction run, const void *row) {
  if (suite->count == suite->room) {
    suite->room = suite->room == 0 ? 64 : suite->room * 2;
    suite->cases = realloc(suite->cases, suite->room * sizeof(suite->cases[0]));
    if (suite->cases == NULL) abort();
  }
  const struct CMUnitTest added = {name, run, NULL, NULL, (void *)(uintptr_t)row};
  suite->cases[suite->count++] = added;
}

void nx_suite_rows(nx_suite *suite, const void *rows, size_t row_bytes, size_t count, CMUnitTestFunction run) {
  for (size_t i = 0; i < count; i++) {
    const uint8_t *row = (const uint8_t *)rows + i * row_bytes;
    const char *name;
    memcpy(&name, row, sizeof name);
    nx_suite_add(suite, name, run, row);
  }
}

int nx_suite_run(nx_suite *suite, const char *group) {
  const int failed = _cmocka_run_group_tests(group, suite->cases, suite->count, NULL, NULL);
  free(suite->cases);
  return failed;
}

/* Kept reachable, so that a leak checker has nothing to say. */
static struct {
  char text[1024][96];
  size_t used;
} names;

const char *nx_name(const char *format, ...) {
  if (names.used == sizeof names.text / sizeof names.text[0]) abort();
  char *name = names.text[names.used++];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(name, sizeof names.text[0], format, arguments);
  va_end(arguments);
  return name;
}

void nx_assert_verdict(nxmem_verdict got, nxmem_verdict want) {
  assert_int_equal(got.reason, want.reason);
  assert_int_equal(got.field, want.field);
  assert_int_equal(got.found, want.found);
  assert_int_equal(got.needed, want.needed);
}

void nx_fence_open(nx_fence *fence, size_t bytes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t usable = (bytes + page - 1) / page * page;
  fence->mapped_bytes = usable + page;
  fence->mapping = mmap(NULL, fence->mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fence->mapping == MAP_FAILED) fail_msg("no memory for a fence");
  fence->end = fence->mapping + usable;
  if (mprotect(fence->end, page, PROT_NONE) != 0) fail_msg("no guard page");
}

void nx_fence_close(nx_fence *fence) { munmap(fence->mapping, fence->mapped_bytes); }

uint8_t *nx_exact_block(size_t bytes) {
  uint8_t *block = malloc(bytes == 0 ? 1 : bytes);
  if (block == NULL) fail_msg("no memory for a block");
  return block;
}

void nx_put32(uint8_t *at, uint32_t value) { memcpy(at, &value, sizeof value); }

void nx_put64(uint8_t *at, uint64_t value) { memcpy(at, &value, sizeof value); }

uint32_t nx_get32(const void *record, size_t offset) {
  uint32_t value;
  memcpy(&value, (const uint8_t *)record + offset, sizeof value);
  return value;
}

uint64_t nx_get64(const void *record, size_t offset) {
  uint64_t value;
  memcpy(&value, (const uint8_t *)record + offset, sizeof value);
  return value;
}
