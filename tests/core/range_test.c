/*
 * range_test.c: spans of addresses and offsets, row by row.
 *
 * Attackers played: offsets, sizes and addresses that wrap, reach past their allocation or lie upon another's.
 * Promise: exact numbers, also at and above 2^64.
 */
#include "nxmem/range.h"

#include "support.h"

#define ALL UINT64_MAX
#define TOP 0x8000000000000000ull
#define ALLOW \
  { NXMEM_REASON_NONE, 0, 0, 0 }
#define OFFSET(found, needed) \
  { NXMEM_REASON_OFFSET_OUTSIDE, 64, found, needed }
#define BYTES(found, needed) \
  { NXMEM_REASON_BYTES_OUTSIDE, 72, found, needed }

typedef struct inside_row {
  const char *name;
  uint64_t offset, bytes, size;
  nxmem_verdict want;
} inside_row;

static const inside_row inside_rows[] = {
    {"inside: all of it", 0, 4096, 4096, ALLOW},
    {"inside: the last byte", 4095, 1, 4096, ALLOW},
    {"inside: no byte at the end", 4096, 0, 4096, ALLOW},
    {"inside: nothing of nothing", 0, 0, 0, ALLOW},
    {"inside: all of 2^64-1 bytes", 0, ALL, ALL, ALLOW},
    {"inside: one byte too many", 0, 4097, 4096, BYTES(4097, 4096)},
    {"inside: one byte at the end", 4096, 1, 4096, BYTES(1, 0)},
    {"inside: one byte of nothing", 0, 1, 0, BYTES(1, 0)},
    {"inside: offset behind the end", 4097, 0, 4096, OFFSET(4097, 4096)},
    {"inside: the offset is named first", 4097, ALL, 4096, OFFSET(4097, 4096)},
    {"inside: the sum wraps to 0", 16, ALL - 15, 4096, BYTES(ALL - 15, 4080)},
    {"inside: the sum wraps to the inside", 4096, ALL, 4096, BYTES(ALL, 0)},
    {"inside: offset 2^64-1", ALL, 2, 4096, OFFSET(ALL, 4096)},
    {"inside: the sum is 2^64", ALL, 1, ALL, BYTES(1, 0)},
};

static void test_inside(void **state) {
  const inside_row *row = *state;
  nx_assert_verdict(nxmem_check_range(row->offset, row->bytes, row->size), row->want);
}

static void test_readable(void **state) {
  (void)state;
  nx_assert_verdict(nxmem_check_readable(8, 8), (nxmem_verdict)ALLOW);
  nx_assert_verdict(nxmem_check_readable(ALL, 0), (nxmem_verdict)ALLOW);
  nx_assert_verdict(nxmem_check_readable(7, 8), (nxmem_verdict){NXMEM_REASON_UNREADABLE, 0, 7, 8});
  nx_assert_verdict(nxmem_check_readable(0, ALL), (nxmem_verdict){NXMEM_REASON_UNREADABLE, 0, 0, ALL});
}

typedef struct pair_row {
  const char *name;
  uint64_t first, bytes;
  int want;
} pair_row;

static const pair_row whole_rows[] = {
    {"whole: nothing at 0", 0, 0, 1},
    {"whole: ends at 2^64-1", 4096, ALL - 4096, 1},
    {"whole: ends at 2^64", 4096, ALL - 4095, 0},
    {"whole: nothing at 2^64-1", ALL, 0, 1},
    {"whole: one byte at 2^64-1", ALL, 1, 0},
    {"whole: all of all", ALL, ALL, 0},
};

static void test_whole(void **state) {
  const pair_row *row = *state;
  assert_int_equal(nxmem_range_is_whole(row->first, row->bytes), row->want);
}

/* Single bits, and nothing else: that is what the formula means. */
static void test_powers(void **state) {
  (void)state;
  for (uint32_t bit = 0; bit < 64; bit++) {
    const uint64_t power = 1ull << bit;
    assert_int_equal(nxmem_is_power_of_two(power), 1);
    for (uint32_t other = 0; other < bit; other++) assert_int_equal(nxmem_is_power_of_two(power | (1ull << other)), 0);
  }
  assert_int_equal(nxmem_is_power_of_two(0), 0);
  assert_int_equal(nxmem_is_power_of_two(ALL), 0);
}

typedef struct overlap_row {
  const char *name;
  uint64_t first, first_bytes, second, second_bytes;
  int want;
} overlap_row;

static const overlap_row overlap_rows[] = {
    {"overlap: the same span", 4096, 100, 4096, 100, 1},
    {"overlap: side by side", 4096, 100, 4196, 100, 0},
    {"overlap: one byte in common", 4096, 101, 4196, 100, 1},
    {"overlap: one inside the other", 4096, 100, 4140, 1, 1},
    {"overlap: the other's first byte", 4096, 1, 4096, 100, 1},
    {"overlap: far apart", 4096, 100, TOP, 100, 0},
    {"overlap: no byte at the same address", 4096, 0, 4096, 100, 0},
    {"overlap: no byte inside", 4140, 0, 4096, 100, 0},
    {"overlap: no byte on both sides", 4096, 0, 4096, 0, 0},
    {"overlap: the ends are beyond 2^64", ALL - 5, 100, ALL, 100, 1},
    {"overlap: no wrap to the beginning", ALL - 5, 100, 0, 50, 0},
    {"overlap: all of memory and its last byte", 0, ALL, ALL - 1, 1, 1},
    {"overlap: all but the last byte", 0, ALL, ALL, 1, 0},
};

static void test_overlap(void **state) {
  const overlap_row *row = *state;
  assert_int_equal(nxmem_ranges_overlap(row->first, row->first_bytes, row->second, row->second_bytes), row->want);
  assert_int_equal(nxmem_ranges_overlap(row->second, row->second_bytes, row->first, row->first_bytes), row->want);
}

typedef struct round_row {
  const char *name;
  uint64_t value, granule, down;
  int fits;
  uint64_t up; /* 7 stays where nothing is written */
} round_row;

static const round_row round_rows[] = {
    {"round: 0", 0, 4096, 0, 1, 0},
    {"round: a multiple", 8192, 4096, 8192, 1, 8192},
    {"round: one above", 8193, 4096, 8192, 1, 12288},
    {"round: one below", 8191, 4096, 4096, 1, 8192},
    {"round: to 1", ALL, 1, ALL, 1, ALL},
    {"round: the last multiple", ALL - 4095, 4096, ALL - 4095, 1, ALL - 4095},
    {"round: one above the last multiple", ALL - 4094, 4096, ALL - 4095, 0, 7},
    {"round: 2^64-1", ALL, 4096, ALL - 4095, 0, 7},
    {"round: 2^63 by 2^63", TOP, TOP, TOP, 1, TOP},
    {"round: 2^63 + 1 by 2^63", TOP + 1, TOP, TOP, 0, 7},
    {"round: no power of two", 100, 48, 96, 1, 144},
    {"round: the granule is larger", 5, ALL, 0, 1, ALL},
};

static void test_round(void **state) {
  const round_row *row = *state;
  uint64_t up = 7;
  assert_int_equal(nxmem_round_down(row->value, row->granule), row->down);
  assert_int_equal(nxmem_round_up(row->value, row->granule, &up), row->fits);
  assert_int_equal(up, row->up);
}

typedef struct touched_row {
  const char *name;
  uint64_t offset, bytes, granule, want;
} touched_row;

static const touched_row touched_rows[] = {
    {"touched: no byte", 5, 0, 4096, 0},
    {"touched: one byte", 4095, 1, 4096, 1},
    {"touched: two bytes across a border", 4095, 2, 4096, 2},
    {"touched: exactly one granule", 4096, 4096, 4096, 1},
    {"touched: one granule, not aligned", 4097, 4096, 4096, 2},
    {"touched: three", 4095, 4098, 4096, 3},
    {"touched: all bytes one by one", 0, ALL, 1, ALL},
    {"touched: up to 2^64-1", ALL - 4096, 4096, 4096, 2},
    {"touched: larger granule than memory", 0, ALL, ALL, 1},
};

static void test_touched(void **state) {
  const touched_row *row = *state;
  assert_int_equal(nxmem_granules_touched(row->offset, row->bytes, row->granule), row->want);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(inside_rows), test_inside);
  nx_suite_add(&suite, "as far as could be read", test_readable, NULL);
  nx_suite_rows(&suite, ROWS(whole_rows), test_whole);
  nx_suite_add(&suite, "powers of two are single bits", test_powers, NULL);
  nx_suite_rows(&suite, ROWS(overlap_rows), test_overlap);
  nx_suite_rows(&suite, ROWS(round_rows), test_round);
  nx_suite_rows(&suite, ROWS(touched_rows), test_touched);
  return nx_suite_run(&suite, "range");
}
