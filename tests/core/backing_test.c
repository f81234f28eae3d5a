/*
 * backing_test.c: ranges, costs and credits, row by row.
 *
 * Attackers played: ranges that wrap, costs that no range has, counts left unwritten.
 * Promise: no charge beyond what is possible, no credit beyond the charge, and what is unknown stays charged.
 */
#include "nxmem/backing.h"

#include "support.h"

#define ALLOW \
  { NXMEM_REASON_NONE, 0, 0, 0 }
#define TOP 0x8000000000000000ull
#define ALL UINT64_MAX
#define G NXMEM_GRANULE_MAX

typedef struct list_row {
  const char *name;
  uint64_t address, count;
  nxmem_verdict want;
} list_row;

static const list_row list_rows[] = {
    {"list: none, nowhere", 0, 0, ALLOW},
    {"list: none, somewhere", 8, 0, ALLOW},
    {"list: one", 8, 1, ALLOW},
    {"list: the most", 1, 1024, ALLOW},
    {"list: one more", 8, 1025, {NXMEM_REASON_TOO_MANY_RANGES, 0, 1025, 1024}},
    {"list: 2^64-1", 8, ALL, {NXMEM_REASON_TOO_MANY_RANGES, 0, ALL, 1024}},
    {"list: one, nowhere", 0, 1, {NXMEM_REASON_NULL_POINTER, 0, 0, 0}},
    {"list: too many come first", 0, 1025, {NXMEM_REASON_TOO_MANY_RANGES, 0, 1025, 1024}},
};

static void test_list(void **state) {
  const list_row *row = *state;
  nx_assert_verdict(nxmem_check_range_list(row->address, row->count), row->want);
}

typedef struct range_row {
  const char *name;
  uint64_t offset, bytes, size;
  nxmem_verdict want;
} range_row;

static const range_row range_rows[] = {
    {"range: all of it", 0, 100, 100, ALLOW},
    {"range: the last byte", 99, 1, 100, ALLOW},
    {"range: up to 2^64-1", 1, ALL - 1, ALL, ALLOW},
    {"range: no byte", 0, 0, 100, {NXMEM_REASON_ZERO_BYTES, 72, 0, 1}},
    {"range: no byte comes first", 101, 0, 100, {NXMEM_REASON_ZERO_BYTES, 72, 0, 1}},
    {"range: behind the end", 101, 1, 100, {NXMEM_REASON_OFFSET_OUTSIDE, 64, 101, 100}},
    {"range: at the end", 100, 1, 100, {NXMEM_REASON_BYTES_OUTSIDE, 72, 1, 0}},
    {"range: one too many", 50, 51, 100, {NXMEM_REASON_BYTES_OUTSIDE, 72, 51, 50}},
    {"range: wraps to its beginning", 50, ALL - 49, 100, {NXMEM_REASON_BYTES_OUTSIDE, 72, ALL - 49, 50}},
    {"range: offset 2^64-1", ALL, 1, 100, {NXMEM_REASON_OFFSET_OUTSIDE, 64, ALL, 100}},
};

static void test_range(void **state) {
  const range_row *row = *state;
  nx_assert_verdict(nxmem_check_commit_range(row->offset, row->bytes, row->size), row->want);
}

typedef struct most_row {
  const char *name;
  uint64_t offset, bytes, most;
} most_row;

static const most_row most_rows[] = {
    {"most: no byte", 5, 0, 0},
    {"most: one byte", 0, 1, G},
    {"most: one byte before a boundary", G - 1, 1, G},
    {"most: two bytes over a boundary", G - 1, 2, 2 * G},
    {"most: a whole granule", G, G, G},
    {"most: a granule and a byte", G, G + 1, 2 * G},
    {"most: 2^63 bytes", 0, TOP, TOP},
    {"most: 2^63 bytes that touch one granule more", 1, TOP, TOP},
    {"most: the span below 2^63", G, TOP - G, TOP - G},
    {"most: 2^64-1 bytes", 0, ALL, TOP},
    {"most: no byte at the top", ALL, 0, 0},
    {"most: the last byte there is", ALL - 1, 1, G},
};

/* The limit itself is believed, one more is not; with no room in the total neither is. */
static void test_most(void **state) {
  const most_row *row = *state;
  const uint64_t most = row->most;
  assert_int_equal(nxmem_most_mapped(row->offset, row->bytes), most);
  nx_assert_verdict(nxmem_judge_cost(most, row->offset, row->bytes, 0), (nxmem_verdict)ALLOW);
  nx_assert_verdict(nxmem_judge_cost(most, row->offset, row->bytes, TOP - most), (nxmem_verdict)ALLOW);
  nx_assert_verdict(nxmem_judge_cost(most + 1, row->offset, row->bytes, 0),
                    (nxmem_verdict){NXMEM_REASON_MORE_THAN_POSSIBLE, 0, most + 1, most});
  nx_assert_verdict(nxmem_judge_cost(ALL, row->offset, row->bytes, TOP),
                    (nxmem_verdict){NXMEM_REASON_MORE_THAN_POSSIBLE, 0, ALL, most});
  if (most == 0) return;
  nx_assert_verdict(nxmem_judge_cost(most, row->offset, row->bytes, TOP - most + 1),
                    (nxmem_verdict){NXMEM_REASON_TOTAL_TOO_LARGE, 0, most, most - 1});
}

typedef struct credit_row {
  const char *name;
  uint64_t reported, charged;
  nxmem_credit want;
} credit_row;

static const credit_row credit_rows[] = {
    {"credit: nothing", 0, 5, {0, 5, 0, 0}},
    {"credit: some", 4, 5, {4, 1, 0, 0}},
    {"credit: all", 5, 5, {5, 0, 0, 0}},
    {"credit: one more", 6, 5, {5, 0, 1, 0}},
    {"credit: 2^64-2", ALL - 1, 5, {5, 0, ALL - 6, 0}},
    {"credit: of nothing", 1, 0, {0, 0, 1, 0}},
    {"credit: unwritten", ALL, 5, {0, 5, 0, 1}},
    {"credit: unwritten, of nothing", ALL, 0, {0, 0, 0, 1}},
    {"credit: unwritten, of 2^64-1", ALL, ALL, {0, ALL, 0, 1}},
};

static void test_credit(void **state) {
  const credit_row *row = *state;
  nxmem_credit *split = (nxmem_credit *)(void *)nx_exact_block(sizeof *split);
  memset(split, 0xA5, sizeof *split);
  nxmem_settle_decommit(row->reported, row->charged, split);
  assert_int_equal(split->credited, row->want.credited);
  assert_int_equal(split->left, row->want.left);
  assert_int_equal(split->excess, row->want.excess);
  assert_int_equal(split->unknown, row->want.unknown);
  free(split);
}

typedef struct settle_row {
  const char *name;
  uint32_t code;
  uint64_t reported, charged, bytes, want;
} settle_row;

static const settle_row settle_rows[] = {
    {"settle: less", 0, 4, 5, 100, 4},
    {"settle: nothing", 0, 0, 5, 100, 0},
    {"settle: as charged", 0, 5, 5, 100, 5},
    {"settle: more", 0, 6, 5, 100, 6},
    {"settle: the most", 0, G, 5, 100, G},
    {"settle: one more is not believed", 0, G + 1, 5, 100, 5},
    {"settle: the most there is", 0, TOP, 5, ALL, TOP},
    {"settle: beyond it", 0, TOP + 1, 5, ALL, 5},
    {"settle: of no byte", 0, 1, 5, 0, 5},
    {"settle: unwritten", 0, ALL, 5, ALL, 5},
    {"settle: a failure says nothing", 5, 4, 5, 100, 5},
    {"settle: quarantined says nothing", 12, 0, 5, 100, 5},
    {"settle: a code nobody knows", 0xFFFFFFFFu, 0, 5, 100, 5},
};

static void test_settle(void **state) {
  const settle_row *row = *state;
  assert_int_equal(nxmem_settle_committed(row->code, row->reported, row->charged, row->bytes), row->want);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(list_rows), test_list);
  nx_suite_rows(&suite, ROWS(range_rows), test_range);
  nx_suite_rows(&suite, ROWS(most_rows), test_most);
  nx_suite_rows(&suite, ROWS(credit_rows), test_credit);
  nx_suite_rows(&suite, ROWS(settle_rows), test_settle);
  return nx_suite_run(&suite, "core_backing");
}
