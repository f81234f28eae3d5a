/*
 * place_test.c: blocks in free spans, granules in spans, row by row.
 *
 * Attackers played: sizes, alignments and addresses near 2^64; spans given back that lie upon others.
 * Promise: exact numbers, nothing wraps; a refused call writes nothing.
 */
#include "nxmem/place.h"

#include "support.h"

#define ALL UINT64_MAX
#define TOP 0x8000000000000000ull
#define MIB2 0x200000ull
#define UNTOUCHED 0xC9C9C9C9C9C9C9C9ull
#define ALLOW \
  { NXMEM_REASON_NONE, 0, 0, 0 }
#define NO(reason, found, needed) \
  { NXMEM_REASON_##reason, 0, found, needed }

/* ---- Sizes and alignments ---- */

typedef struct ask_row {
  const char *name;
  uint64_t bytes, align, unit;
  nxmem_verdict want;
  nxmem_block block;
} ask_row;

#define KEPT \
  { UNTOUCHED, UNTOUCHED }

static const ask_row ask_rows[] = {
    {"ask: one byte", 1, 1, 256, ALLOW, {256, 256}},
    {"ask: a unit", 256, 256, 256, ALLOW, {256, 256}},
    {"ask: a unit and a byte", 257, 16, 256, ALLOW, {512, 256}},
    {"ask: no round number", 6912, 64, 256, ALLOW, {6912, 256}},
    {"ask: a granule less one", MIB2 - 1, 1, MIB2, ALLOW, {MIB2, MIB2}},
    {"ask: a granule", MIB2, 1, MIB2, ALLOW, {MIB2, MIB2}},
    {"ask: a granule and a byte", MIB2 + 1, 1, MIB2, ALLOW, {2 * MIB2, MIB2}},
    {"ask: alignment above the unit", 1, 4096, 256, ALLOW, {256, 4096}},
    {"ask: the largest alignment", 1, TOP, 256, ALLOW, {256, TOP}},
    {"ask: the largest size", ALL - 255, 1, 256, ALLOW, {ALL - 255, 256}},
    {"ask: any size in bytes", ALL, 1, 1, ALLOW, {ALL, 1}},
    {"ask: nothing", 0, 1, 256, NO(ZERO_BYTES, 0, 1), KEPT},
    {"ask: nothing, aligned to nothing", 0, 0, 256, NO(ZERO_BYTES, 0, 1), KEPT},
    {"ask: alignment of 0", 1, 0, 256, NO(BAD_ALIGNMENT, 0, 0), KEPT},
    {"ask: alignment of 3", 1, 3, 256, NO(BAD_ALIGNMENT, 3, 0), KEPT},
    {"ask: an alignment of all ones", ALL, ALL, 256, NO(BAD_ALIGNMENT, ALL, 0), KEPT},
    {"ask: one byte beyond the largest size", ALL - 254, 1, 256, NO(SIZE_WRAPS, ALL - 254, 256), KEPT},
    {"ask: 2^64-1", ALL, 1, MIB2, NO(SIZE_WRAPS, ALL, MIB2), KEPT},
};

static void test_ask(void **state) {
  const ask_row *row = *state;
  nxmem_block block = KEPT;
  nx_assert_verdict(nxmem_place_ask(row->bytes, row->align, row->unit, &block), row->want);
  assert_int_equal(block.bytes, row->block.bytes);
  assert_int_equal(block.align, row->block.align);
}

/* ---- Places ---- */

typedef struct fit_row {
  const char *name;
  uint64_t first, bytes, block, align;
  int fits;
  uint64_t address;
} fit_row;

static const fit_row fit_rows[] = {
    {"fit: the whole span", 4096, 8192, 8192, 4096, 1, 4096},
    {"fit: a byte too large", 4096, 8192, 8193, 4096, 0, UNTOUCHED},
    {"fit: behind what must be skipped", 256, 1024, 768, 512, 1, 512},
    {"fit: a byte too large behind it", 256, 1024, 769, 512, 0, UNTOUCHED},
    {"fit: the skip reaches the end", 256, 256, 1, 512, 0, UNTOUCHED},
    {"fit: the skip reaches past the end", 256, 255, 1, 512, 0, UNTOUCHED},
    {"fit: no span", 512, 0, 1, 512, 0, UNTOUCHED},
    {"fit: the last bytes there are", ALL - 4096, 4096, 4096, 1, 1, ALL - 4096},
    {"fit: no multiple is left", ALL - 4094, 4094, 1, 4096, 0, UNTOUCHED},
    {"fit: all ones", 0, ALL, ALL, 1, 1, 0},
    {"fit: a block of all ones", 1, ALL - 1, ALL, 1, 0, UNTOUCHED},
    {"fit: the upper half", 1, ALL - 1, TOP - 1, TOP, 1, TOP},
    {"fit: the upper half, too large", 1, ALL - 1, TOP, TOP, 0, UNTOUCHED},
};

static void test_fit(void **state) {
  const fit_row *row = *state;
  uint64_t address = UNTOUCHED;
  assert_int_equal(nxmem_place_fit(row->first, row->bytes, row->block, row->align, &address), row->fits);
  assert_int_equal(address, row->address);
}

typedef struct cut_row {
  const char *name;
  uint64_t first, bytes, address, block;
  nxmem_free_span before, behind;
} cut_row;

static const cut_row cut_rows[] = {
    {"cut: all of it", 4096, 8192, 4096, 8192, {4096, 0}, {12288, 0}},
    {"cut: the front", 4096, 8192, 4096, 256, {4096, 0}, {4352, 7936}},
    {"cut: the back", 4096, 8192, 12032, 256, {4096, 7936}, {12288, 0}},
    {"cut: the middle", 4096, 8192, 8192, 256, {4096, 4096}, {8448, 3840}},
    {"cut: at the end of all", TOP, TOP - 1, ALL - 1, 1, {TOP, TOP - 2}, {ALL, 0}},
};

static void test_cut(void **state) {
  const cut_row *row = *state;
  nxmem_free_span before = KEPT, behind = KEPT;
  nxmem_place_cut(row->first, row->bytes, row->address, row->block, &before, &behind);
  assert_int_equal(before.first, row->before.first);
  assert_int_equal(before.bytes, row->before.bytes);
  assert_int_equal(behind.first, row->behind.first);
  assert_int_equal(behind.bytes, row->behind.bytes);
}

typedef struct joins_row {
  const char *name;
  uint64_t first, bytes, second;
  int joins;
} joins_row;

static const joins_row joins_rows[] = {
    {"joins: side by side", 4096, 4096, 8192, 1},   {"joins: a byte between", 4096, 4096, 8193, 0},
    {"joins: a byte of both", 4096, 4096, 8191, 0}, {"joins: the other way round", 8192, 4096, 4096, 0},
    {"joins: an empty one", 4096, 0, 4096, 1},      {"joins: up to the last", ALL - 1, 1, ALL, 1},
};

static void test_joins(void **state) {
  const joins_row *row = *state;
  assert_int_equal(nxmem_place_joins(row->first, row->bytes, row->second), row->joins);
}

/* ---- Giving back: the arena is the 8192 bytes behind 4096 ---- */

typedef struct back_row {
  const char *name;
  nxmem_free_span span, below, above;
  nxmem_verdict want;
} back_row;

static const back_row back_rows[] = {
    {"back: nothing else is free", {4096, 8192}, {0, 0}, {0, 0}, ALLOW},
    {"back: between two", {5000, 100}, {4096, 904}, {5100, 10}, ALLOW},
    {"back: nothing", {5000, 0}, {0, 0}, {0, 0}, NO(ZERO_BYTES, 0, 1)},
    {"back: nothing, outside", {0, 0}, {0, 0}, {0, 0}, NO(ZERO_BYTES, 0, 1)},
    {"back: before the arena", {4095, 1}, {0, 0}, {0, 0}, NO(OFFSET_OUTSIDE, 4095, 4096)},
    {"back: behind the arena", {12289, 1}, {0, 0}, {0, 0}, NO(OFFSET_OUTSIDE, 12289, 4096)},
    {"back: at the arena's end", {12288, 1}, {0, 0}, {0, 0}, NO(BYTES_OUTSIDE, 1, 0)},
    {"back: past the arena's end", {12287, 2}, {0, 0}, {0, 0}, NO(BYTES_OUTSIDE, 2, 1)},
    {"back: the last byte", {12287, 1}, {0, 0}, {0, 0}, ALLOW},
    {"back: all ones", {5000, ALL}, {0, 0}, {0, 0}, NO(BYTES_OUTSIDE, ALL, 7288)},
    {"back: twice", {5000, 100}, {5000, 100}, {0, 0}, NO(OVERLAP, 5000, 5000)},
    {"back: part of what is free", {5000, 100}, {4096, 8192}, {0, 0}, NO(OVERLAP, 5000, 4096)},
    {"back: a byte of the one below", {5000, 100}, {4096, 905}, {0, 0}, NO(OVERLAP, 5000, 4096)},
    {"back: a byte of the one above", {5000, 100}, {4096, 904}, {5099, 10}, NO(OVERLAP, 5000, 5099)},
    {"back: an empty one inside, below", {5000, 100}, {5050, 0}, {0, 0}, ALLOW},
    {"back: an empty one inside, above", {5000, 100}, {0, 0}, {5050, 0}, ALLOW},
    {"back: a byte of both", {5000, 100}, {4096, 905}, {5099, 10}, NO(OVERLAP, 5000, 4096)},
};

static void test_back(void **state) {
  const back_row *row = *state;
  const nxmem_free_span arena = {4096, 8192};
  nx_assert_verdict(nxmem_place_check_back(&arena, &row->span, &row->below, &row->above), row->want);
}

static void test_back_highest(void **state) {
  const nxmem_free_span arena = {TOP, TOP - 1}, none = {0, 0}, last = {ALL - 1, 1}, beyond = {ALL, 1};
  (void)state;
  nx_assert_verdict(nxmem_place_check_back(&arena, &last, &none, &none), (nxmem_verdict)ALLOW);
  nx_assert_verdict(nxmem_place_check_back(&arena, &beyond, &none, &none), (nxmem_verdict)NO(BYTES_OUTSIDE, 1, 0));
  nx_assert_verdict(nxmem_place_check_back(&arena, &last, &none, &beyond), (nxmem_verdict)ALLOW);
}

/* ---- Granules ---- */

typedef struct whole_row {
  const char *name;
  uint64_t offset, bytes, granule, first, count;
} whole_row;

static const whole_row whole_rows[] = {
    {"whole: one, exactly", 0, 4096, 4096, 0, 1},
    {"whole: a byte missing", 0, 4095, 4096, 0, 0},
    {"whole: a byte late", 1, 4096, 4096, 1, 0},
    {"whole: the second of two halves around it", 4095, 4098, 4096, 1, 1},
    {"whole: up to the end of the second", 1, 8191, 4096, 1, 1},
    {"whole: a byte before it", 1, 8190, 4096, 1, 0},
    {"whole: three", 8192, 12288, 4096, 2, 3},
    {"whole: no byte", 8192, 0, 4096, 2, 0},
    {"whole: no byte inside one", 8193, 0, 4096, 3, 0},
    {"whole: of 2 MiB in 1 GiB, unaligned", 1, 0x40000000, MIB2, 1, 511},
    {"whole: a granule of one byte", 7, ALL - 7, 1, 7, ALL - 7},
    {"whole: the last half", 1, ALL - 1, TOP, 1, 0},
    {"whole: the first half", 0, TOP, TOP, 0, 1},
    {"whole: no power of two", 5, 10, 3, 2, 3},
};

static void test_whole(void **state) {
  const whole_row *row = *state;
  uint64_t first = UNTOUCHED;
  assert_int_equal(nxmem_granules_whole(row->offset, row->bytes, row->granule, &first), row->count);
  assert_int_equal(first, row->first);
  assert_true(row->count <= nxmem_granules_touched(row->offset, row->bytes, row->granule));
}

typedef struct number_row {
  const char *name;
  uint64_t a, b, c;
  int fits;
  uint64_t want;
} number_row;

static const number_row address_rows[] = {
    {"address: the first", 0x7000000000, 0, MIB2, 1, 0x7000000000},
    {"address: the third", 0x7000000000, 3, MIB2, 1, 0x7000600000},
    {"address: the highest", ALL - MIB2, 1, MIB2, 1, ALL},
    {"address: 2^64", ALL - MIB2 + 1, 1, MIB2, 0, UNTOUCHED},
    {"address: an index of all ones", 0, ALL, 1, 1, ALL},
    {"address: an index that wraps", 0, 0x80000000000, MIB2, 0, UNTOUCHED},
    {"address: far beyond", ALL, ALL, ALL, 0, UNTOUCHED},
    {"address: none of it", ALL, 0, ALL, 1, ALL},
};

static void test_address(void **state) {
  const number_row *row = *state;
  uint64_t address = UNTOUCHED;
  assert_int_equal(nxmem_granule_address(row->a, row->b, row->c, &address), row->fits);
  assert_int_equal(address, row->want);
}

/* Of the arena of 8192 bytes behind 4096, in granules of c. */
static const number_row index_rows[] = {
    {"index: the first byte", 4096, 8192, 4096, 1, 0},
    {"index: before it", 4095, 8192, 4096, 0, UNTOUCHED},
    {"index: the last byte of the first", 8191, 8192, 4096, 1, 0},
    {"index: the second", 8192, 8192, 4096, 1, 1},
    {"index: the last byte", 12287, 8192, 4096, 1, 1},
    {"index: behind it", 12288, 8192, 4096, 0, UNTOUCHED},
    {"index: no arena", 4096, 0, 4096, 0, UNTOUCHED},
    {"index: in bytes", 12287, 8192, 1, 1, 8191},
    {"index: an end above 2^64", ALL, ALL, 1, 1, ALL - 4096},
};

static void test_index(void **state) {
  const number_row *row = *state;
  uint64_t index = UNTOUCHED;
  assert_int_equal(nxmem_granule_index(4096, row->b, row->c, row->a, &index), row->fits);
  assert_int_equal(index, row->want);
}

static const number_row bytes_rows[] = {
    {"bytes: of none", 0, MIB2, 0, 1, 0},
    {"bytes: of three", 3, MIB2, 0, 1, 0x600000},
    {"bytes: exactly 2^63", TOP / MIB2, MIB2, 0, 1, TOP},
    {"bytes: one granule beyond", TOP / MIB2 + 1, MIB2, 0, 0, UNTOUCHED},
    {"bytes: that wrap to few", ALL / MIB2 + 2, MIB2, 0, 0, UNTOUCHED},
    {"bytes: one of 2^63", 1, TOP, 0, 1, TOP},
    {"bytes: one of more", 1, TOP + 1, 0, 0, UNTOUCHED},
};

static void test_bytes(void **state) {
  const number_row *row = *state;
  uint64_t bytes = UNTOUCHED;
  assert_int_equal(nxmem_granules_bytes(row->a, row->b, &bytes), row->fits);
  assert_int_equal(bytes, row->want);
}

static const number_row of_rows[] = {
    {"of: the first byte", 0, MIB2, 0, 1, 0},
    {"of: the last byte of the first", MIB2 - 1, MIB2, 0, 1, 0},
    {"of: the second", MIB2, MIB2, 0, 1, 1},
    {"of: the last there is", ALL, MIB2, 0, 1, ALL / MIB2},
};

static void test_of(void **state) {
  const number_row *row = *state;
  assert_int_equal(nxmem_granule_of(row->a, row->b), row->want);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(ask_rows), test_ask);
  nx_suite_rows(&suite, ROWS(fit_rows), test_fit);
  nx_suite_rows(&suite, ROWS(cut_rows), test_cut);
  nx_suite_rows(&suite, ROWS(joins_rows), test_joins);
  nx_suite_rows(&suite, ROWS(back_rows), test_back);
  nx_suite_add(&suite, "back: in the highest arena there is", test_back_highest, NULL);
  nx_suite_rows(&suite, ROWS(whole_rows), test_whole);
  nx_suite_rows(&suite, ROWS(address_rows), test_address);
  nx_suite_rows(&suite, ROWS(index_rows), test_index);
  nx_suite_rows(&suite, ROWS(bytes_rows), test_bytes);
  nx_suite_rows(&suite, ROWS(of_rows), test_of);
  return nx_suite_run(&suite, "place");
}
