/*
 * count_test.c: counters and totals, row by row.
 *
 * Attackers played: numbers near 2^64, totals at their limit.
 * Promise: nothing wraps; a total that would grow too large is left as it is.
 */
#include "nxmem/count.h"

#include "support.h"

#define ALL UINT64_MAX
#define TOP 0x8000000000000000ull

typedef struct add_row {
  const char *name;
  uint64_t count, amount, want;
} add_row;

static const add_row add_rows[] = {
    {"add: nothing to nothing", 0, 0, 0}, {"add: nothing to a full counter", ALL, 0, ALL},
    {"add: two numbers", 40, 2, 42},      {"add: to exactly 2^64-1", ALL - 5, 5, ALL},
    {"add: one beyond", ALL - 5, 6, ALL}, {"add: all to all", ALL, ALL, ALL},
    {"add: all to nothing", 0, ALL, ALL}, {"add: all to one", 1, ALL, ALL},
};

static void test_add(void **state) {
  const add_row *row = *state;
  assert_int_equal(nxmem_count_add(row->count, row->amount), row->want);
}

static const add_row up_rows[] = {
    {"up: from 0", 0, 1, 1},
    {"up: from 2^32-1", 0xFFFFFFFFull, 1, 0x100000000ull},
    {"up: to 2^64-1", ALL - 1, 1, ALL},
    {"up: a full counter stays", ALL, 1, ALL},
};

static void test_up(void **state) {
  const add_row *row = *state;
  assert_int_equal(nxmem_count_up(row->count), row->want);
}

typedef struct total_row {
  const char *name;
  uint64_t total, bytes;
  int want;
  uint64_t sum; /* 7 stays where nothing is written */
} total_row;

static const total_row total_rows[] = {
    {"total: nothing to nothing", 0, 0, 1, 0},        {"total: two numbers", 4096, 100, 1, 4196},
    {"total: to exactly 2^63", TOP - 9, 9, 1, TOP},   {"total: one byte beyond", TOP - 9, 10, 0, 7},
    {"total: nothing to a full one", TOP, 0, 1, TOP}, {"total: one byte to a full one", TOP, 1, 0, 7},
    {"total: 2^63 to nothing", 0, TOP, 1, TOP},       {"total: 2^64-1 to nothing", 0, ALL, 0, 7},
    {"total: 2^64-1 to a full one", TOP, ALL, 0, 7},
};

static void test_total(void **state) {
  const total_row *row = *state;
  uint64_t sum = 7;
  assert_int_equal(nxmem_total_add(row->total, row->bytes, &sum), row->want);
  assert_int_equal(sum, row->sum);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(add_rows), test_add);
  nx_suite_rows(&suite, ROWS(up_rows), test_up);
  nx_suite_rows(&suite, ROWS(total_rows), test_total);
  return nx_suite_run(&suite, "count");
}
