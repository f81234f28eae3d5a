/*
 * overlap_test.c: spans in a cell, and addresses that are taken, row by row.
 *
 * Attackers played: addresses inside, around and beside others, up to the last byte there is.
 * Promise: the first span that shares a byte is found, and none that does not.
 */
#include "nxmem/overlap.h"

#include "support.h"

#define ALL UINT64_MAX
#define SPAN(first, last) ((first)*65536u + (last))

typedef struct find_row {
  const char *name;
  uint32_t spans[6], count, span, want;
} find_row;

static const find_row find_rows[] = {
    {"find: among none", {0}, 0, SPAN(0, 0), 0},
    {"find: the same byte", {SPAN(7, 7)}, 1, SPAN(7, 7), 0},
    {"find: side by side, before", {SPAN(8, 15)}, 1, SPAN(0, 7), 1},
    {"find: side by side, behind", {SPAN(8, 15)}, 1, SPAN(16, 23), 1},
    {"find: over the first byte", {SPAN(8, 15)}, 1, SPAN(0, 8), 0},
    {"find: over the last byte", {SPAN(8, 15)}, 1, SPAN(15, 23), 0},
    {"find: inside", {SPAN(8, 15)}, 1, SPAN(10, 11), 0},
    {"find: around", {SPAN(10, 11)}, 1, SPAN(8, 15), 0},
    {"find: the last one", {SPAN(0, 1), SPAN(4, 5), SPAN(8, 9)}, 3, SPAN(9, 20), 2},
    {"find: the first of two", {SPAN(0, 1), SPAN(4, 5), SPAN(8, 9)}, 3, SPAN(5, 8), 1},
    {"find: between them", {SPAN(0, 1), SPAN(4, 5), SPAN(8, 9)}, 3, SPAN(6, 7), 3},
    {"find: not behind the count", {SPAN(0, 1), SPAN(4, 5), SPAN(8, 9)}, 2, SPAN(8, 9), 2},
    {"find: a whole cell", {SPAN(65535, 65535)}, 1, SPAN(0, 65535), 0},
    {"find: the last byte of a cell", {SPAN(0, 65534)}, 1, SPAN(65535, 65535), 1},
};

static void test_find(void **state) {
  const find_row *row = *state;
  assert_int_equal(nxmem_find_overlap(row->spans, row->count, row->span), row->want);
}

typedef struct span_row {
  const char *name;
  uint32_t first, last;
} span_row;

static const span_row span_rows[] = {
    {"span: the first byte", 0, 0},    {"span: a cell of 1 KiB", 0, 1023}, {"span: the last of 64 KiB", 65535, 65535},
    {"span: all of 64 KiB", 0, 65535}, {"span: some bytes", 12345, 54321},
};

static void test_span(void **state) {
  const span_row *row = *state;
  const uint32_t span = nxmem_span_make(row->first, row->last);
  assert_int_equal(span, SPAN(row->first, row->last));
  assert_int_equal(nxmem_span_first(span), row->first);
  assert_int_equal(nxmem_span_last(span), row->last);
}

typedef struct apart_row {
  const char *name;
  uint64_t address, bytes, other, other_bytes;
  int taken;
} apart_row;

static const apart_row apart_rows[] = {
    {"apart: side by side", 4096, 64, 4160, 64, 0},   {"apart: the same", 4096, 64, 4096, 64, 1},
    {"apart: one byte of it", 4096, 65, 4160, 64, 1}, {"apart: inside", 4100, 1, 4096, 64, 1},
    {"apart: no byte there", 4100, 1, 4096, 0, 0},    {"apart: no byte here", 4100, 0, 4096, 64, 0},
    {"apart: at the top", ALL - 10, 10, ALL, 1, 0},   {"apart: over the top", ALL - 10, 11, ALL, 1, 1},
    {"apart: no wrap", ALL - 10, 100, 0, 50, 0},
};

static void test_apart(void **state) {
  const apart_row *row = *state;
  nxmem_verdict want = {NXMEM_REASON_NONE, 0, 0, 0};
  if (row->taken) want = (nxmem_verdict){NXMEM_REASON_OVERLAP, 8, row->address, row->other};
  nx_assert_verdict(nxmem_check_apart(row->address, row->bytes, row->other, row->other_bytes), want);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(find_rows), test_find);
  nx_suite_rows(&suite, ROWS(span_rows), test_span);
  nx_suite_rows(&suite, ROWS(apart_rows), test_apart);
  return nx_suite_run(&suite, "overlap");
}
