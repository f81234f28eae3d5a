/*
 * support.h: what the core's tests share: rows as counted cases, verdicts, and memory that really ends.
 *
 * Attackers: none; the tests play them.
 * Promise: a block from here ends at a page that faults, or exactly at its size where the heap is watched by a
 * sanitizer.
 */
#ifndef TESTS_CORE_SUPPORT_H
#define TESTS_CORE_SUPPORT_H

/* cmocka.h needs the four before it. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nxmem/verdict.h"

/* A table of rows whose first member is `const char *name`: each row becomes one counted case. */
#define ROWS(table) (table), sizeof((table)[0]), sizeof(table) / sizeof((table)[0])

typedef struct nx_suite {
  struct CMUnitTest *cases;
  size_t count;
  size_t room;
} nx_suite;

void nx_suite_add(nx_suite *suite, const char *name, CMUnitTestFunction run, const void *row);
void nx_suite_rows(nx_suite *suite, const void *rows, size_t row_bytes, size_t count, CMUnitTestFunction run);

/* Runs every case and gives the suite's memory back; returns the number of failures. */
int nx_suite_run(nx_suite *suite, const char *group);

/* printf into a string that lives as long as the program: names of computed rows. */
const char *nx_name(const char *format, ...) __attribute__((format(printf, 1, 2)));

void nx_assert_verdict(nxmem_verdict got, nxmem_verdict want);

/* `bytes` (at least 1) that end where a page without access begins; valid until nx_fence_close. */
typedef struct nx_fence {
  uint8_t *mapping;
  size_t mapped_bytes;
  uint8_t *end;
} nx_fence;

void nx_fence_open(nx_fence *fence, size_t bytes);
void nx_fence_close(nx_fence *fence);

/* A heap block of exactly that size; one byte where 0 is asked. Aborts the case when there is none. */
uint8_t *nx_exact_block(size_t bytes);

void nx_put32(uint8_t *at, uint32_t value);
void nx_put64(uint8_t *at, uint64_t value);
uint32_t nx_get32(const void *record, size_t offset);
uint64_t nx_get64(const void *record, size_t offset);

#endif /* TESTS_CORE_SUPPORT_H */
