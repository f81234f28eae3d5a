/*
 * prefix_test.c: the readers of published tables, row by row.
 *
 * Attackers played: a table that lies about its size or level, ends early, lacks a slot, or sits at an impossible
 * address.
 * Promise: every refusal is asserted on its reason, field and numbers, and leaves its output alone.
 */
#include "nxmem/capability.h"
#include "nxmem/identity.h"
#include "nxmem/negotiate.h"
#include "prefix_tables.h"

#define U32_MAX 0xFFFFFFFFu
#define ALLOW \
  { NXMEM_REASON_NONE, 0, 0, 0 }
#define SHORT_HEADER(found) \
  { NXMEM_REASON_SHORT_HEADER, 0, found, 8 }
#define SHORT_TABLE(found, needed) \
  { NXMEM_REASON_SHORT_TABLE, 0, found, needed }
#define MISSING(offset) \
  { NXMEM_REASON_MISSING_SLOT, offset, 0, 0 }

/* ---- Sizes and levels of the allocator table: its last slot exists from minor 1 ---- */

typedef struct level_row {
  const char *name;
  uint32_t struct_size;
  uint32_t abi_minor;
  uint32_t ceiling;
  nxmem_verdict want;
  uint32_t level; /* where accepted */
  int last_slot;  /* release_allocation taken over */
} level_row;

static const level_row level_rows[] = {
    {"size 0", 0, 0, 1, SHORT_HEADER(0), 0, 0},
    {"size 4", 4, 0, 1, SHORT_HEADER(4), 0, 0},
    {"size 7", 7, 0, 1, SHORT_HEADER(7), 0, 0},
    {"size 7 at minor 2^32-1", 7, U32_MAX, 1, SHORT_HEADER(7), 0, 0},
    {"size 8 at minor 0", 8, 0, 1, SHORT_TABLE(8, 120), 0, 0},
    {"size 8 at minor 1", 8, 1, 1, SHORT_TABLE(8, 128), 0, 0},
    {"size 119 at minor 0", 119, 0, 1, SHORT_TABLE(119, 120), 0, 0},
    {"size 119 at minor 1", 119, 1, 1, SHORT_TABLE(119, 128), 0, 0},
    {"size 120 at minor 0", 120, 0, 1, ALLOW, 0, 0},
    {"size 121 at minor 0: half a slot is no slot", 121, 0, 1, ALLOW, 0, 0},
    {"size 122 at minor 0", 122, 0, 1, ALLOW, 0, 0},
    {"size 123 at minor 0", 123, 0, 1, ALLOW, 0, 0},
    {"size 124 at minor 0", 124, 0, 1, ALLOW, 0, 0},
    {"size 125 at minor 0", 125, 0, 1, ALLOW, 0, 0},
    {"size 126 at minor 0", 126, 0, 1, ALLOW, 0, 0},
    {"size 127 at minor 0", 127, 0, 1, ALLOW, 0, 0},
    {"size 128 at minor 0: the level decides, not the room", 128, 0, 1, ALLOW, 0, 0},
    {"size 120 at minor 1 contradicts itself", 120, 1, 1, SHORT_TABLE(120, 128), 0, 0},
    {"size 121 at minor 1", 121, 1, 1, SHORT_TABLE(121, 128), 0, 0},
    {"size 122 at minor 1", 122, 1, 1, SHORT_TABLE(122, 128), 0, 0},
    {"size 123 at minor 1", 123, 1, 1, SHORT_TABLE(123, 128), 0, 0},
    {"size 124 at minor 1", 124, 1, 1, SHORT_TABLE(124, 128), 0, 0},
    {"size 125 at minor 1", 125, 1, 1, SHORT_TABLE(125, 128), 0, 0},
    {"size 126 at minor 1", 126, 1, 1, SHORT_TABLE(126, 128), 0, 0},
    {"size 127 at minor 1", 127, 1, 1, SHORT_TABLE(127, 128), 0, 0},
    {"size 120 at minor 1 under ceiling 0 is still broken", 120, 1, 0, SHORT_TABLE(120, 128), 0, 0},
    {"size 127 at minor 2^32-1", 127, U32_MAX, 1, SHORT_TABLE(127, 128), 0, 0},
    {"size 128 at minor 1", 128, 1, 1, ALLOW, 1, 1},
    {"size 128 at minor 1 under ceiling 0: an older host", 128, 1, 0, ALLOW, 0, 0},
    {"size 128 at minor 1 under ceiling 2", 128, 1, 2, ALLOW, 1, 1},
    {"size 128 at minor 2 under ceiling 0", 128, 2, 0, ALLOW, 0, 0},
    {"size 128 at minor 2 under ceiling 2", 128, 2, 2, ALLOW, 2, 1},
    {"size 128 at minor 2^32-1", 128, U32_MAX, 1, ALLOW, 1, 1},
    {"size 128 at minor 2^32-1 under ceiling 2^32-1", 128, U32_MAX, U32_MAX, ALLOW, U32_MAX, 1},
    {"size 128 at minor 0 under ceiling 0", 128, 0, 0, ALLOW, 0, 0},
    {"size 129: one stray byte behind", 129, 1, 1, ALLOW, 1, 1},
    {"a newer plugin: size 136 at minor 2", 136, 2, 1, ALLOW, 1, 1},
    {"size 2^32-1 at minor 1", U32_MAX, 1, 1, ALLOW, 1, 1},
    {"size 2^32-1 at minor 2^32-1", U32_MAX, U32_MAX, 1, ALLOW, 1, 1},
};

static void check_level(const level_row *row, const reader *r) {
  nx_fence fence;
  const size_t readable = row->struct_size < 128 ? (row->struct_size + 7u) / 8 * 8 : 128;
  nx_fence_open(&fence, 128);
  uint8_t *src = fence.end - (readable < 8 ? 8 : readable);
  fill_table(src, (size_t)(fence.end - src), row->struct_size, row->abi_minor);

  reading got;
  run_reader(r, src, row->ceiling, &got);
  nx_assert_verdict(got.verdict, row->want);
  if (row->want.reason != NXMEM_REASON_NONE) {
    assert_output_untouched(&got);
  } else {
    assert_int_equal(got.out.allocator.struct_size, row->struct_size);
    assert_int_equal(got.out.allocator.abi_minor, row->level);
    assert_int_equal(got.declared_minor, row->abi_minor);
    assert_int_equal(nx_get64(got.out.bytes, 120), row->last_slot ? filled_value(120) : 0);
  }
  nx_fence_close(&fence);
}

static void test_level(void **state) {
  check_level(*state, &readers[0]);
  check_level(*state, &readers[1]);
}

/* ---- What the validated form demands, and the unvalidated one does not ---- */

typedef struct demand_row {
  const char *name;
  int reader; /* index of the validated reader; the unvalidated one follows it */
  size_t offset;
  uint64_t value; /* put there */
  nxmem_verdict want;
} demand_row;

enum { ALLOCATOR = 0, FACTORY = 2, BACKING = 4, SHARING = 6 };

static const demand_row demand_rows[] = {
    {"allocator without allocate", ALLOCATOR, 48, 0, MISSING(48)},
    {"allocator without deallocate", ALLOCATOR, 56, 0, MISSING(56)},
    {"allocator without retain", ALLOCATOR, 64, 0, MISSING(64)},
    {"allocator without release", ALLOCATOR, 72, 0, MISSING(72)},
    {"allocator with mechanism 0", ALLOCATOR, 8, 0, {NXMEM_REASON_ZERO_MECHANISM, 8, 0, 0}},
    {"allocator with mechanism 2^64-1", ALLOCATOR, 8, UINT64_MAX, ALLOW},
    {"allocator without virtual_backing", ALLOCATOR, 80, 0, ALLOW},
    {"allocator without shared_mapping", ALLOCATOR, 88, 0, ALLOW},
    {"allocator without enqueue_release", ALLOCATOR, 96, 0, ALLOW},
    {"allocator without drain_releases", ALLOCATOR, 104, 0, ALLOW},
    {"allocator without pending_release_count", ALLOCATOR, 112, 0, ALLOW},
    {"allocator without release_allocation", ALLOCATOR, 120, 0, ALLOW},
    {"allocator without ctx", ALLOCATOR, 40, 0, ALLOW},
    {"factory without open_allocator", FACTORY, 40, 0, MISSING(40)},
    {"factory without release", FACTORY, 48, 0, MISSING(48)},
    {"factory without ctx", FACTORY, 32, 0, ALLOW},
    {"backing with mechanism 0", BACKING, 8, 0, {NXMEM_REASON_ZERO_MECHANISM, 8, 0, 0}},
    {"backing of another mechanism", BACKING, 8, 78, {NXMEM_REASON_OTHER_MECHANISM, 8, 78, MECHANISM}},
    {"backing without allocate_committed", BACKING, 24, 0, ALLOW},
    {"backing without committed_bytes", BACKING, 64, 0, ALLOW},
    {"sharing with mechanism 0", SHARING, 8, 0, {NXMEM_REASON_ZERO_MECHANISM, 8, 0, 0}},
    {"sharing of another mechanism", SHARING, 8, 76, {NXMEM_REASON_OTHER_MECHANISM, 8, 76, MECHANISM}},
    {"sharing without create_shared_prefix", SHARING, 24, 0, ALLOW},
    {"sharing without commit_shared_prefix", SHARING, 56, 0, ALLOW},
};

static void test_demand(void **state) {
  const demand_row *row = *state;
  const reader *strict = &readers[row->reader];
  uint8_t *src = nx_exact_block(strict->full);
  fill_table(src, strict->full, strict->full, 1);
  nx_put64(src + row->offset, row->value);

  reading got;
  run_reader(strict, src, 1, &got);
  nx_assert_verdict(got.verdict, row->want);
  if (row->want.reason != NXMEM_REASON_NONE) assert_output_untouched(&got);

  const nxmem_verdict accepted = ALLOW;
  run_reader(strict + 1, src, 1, &got);
  nx_assert_verdict(got.verdict, accepted);
  assert_int_equal(nx_get64(got.out.bytes, row->offset), row->value);
  free(src);
}

static void test_slots_before_mechanism(void **state) {
  (void)state;
  uint8_t *src = nx_exact_block(128);
  fill_table(src, 128, 128, 1);
  nx_put64(src + 8, 0);
  nx_put64(src + 72, 0);
  reading got;
  run_reader(&readers[ALLOCATOR], src, 1, &got);
  nx_assert_verdict(got.verdict, (nxmem_verdict)MISSING(72));
  nx_put64(src + 48, 0);
  run_reader(&readers[ALLOCATOR], src, 1, &got);
  nx_assert_verdict(got.verdict, (nxmem_verdict)MISSING(48));
  free(src);
}

/* ---- Addresses ---- */

static void test_impossible_address(void **state) {
  const reader *r = *state;
  uint8_t *src = nx_exact_block(256);
  reading got;
  run_reader(r, NULL, 1, &got);
  nx_assert_verdict(got.verdict, (nxmem_verdict){NXMEM_REASON_NULL_POINTER, 0, 0, 0});
  assert_output_untouched(&got);
  for (uint32_t by = 1; by < 8; by++) {
    fill_table(src + by, r->full, r->full, 1);
    run_reader(r, src + by, 1, &got);
    nx_assert_verdict(got.verdict, (nxmem_verdict){NXMEM_REASON_MISALIGNED, 0, by, 8});
    assert_output_untouched(&got);
  }
  free(src);
}

/* A pointer that leads nowhere is refused for its shape before anything is loaded. */
static void test_misaligned_is_never_loaded(void **state) {
  const reader *r = *state;
  nx_fence fence;
  nx_fence_open(&fence, 8);
  reading got;
  run_reader(r, fence.end + 4, 1, &got);
  nx_assert_verdict(got.verdict, (nxmem_verdict){NXMEM_REASON_MISALIGNED, 0, 4, 8});
  nx_fence_close(&fence);
}

typedef struct address_row {
  const char *name;
  uintptr_t address;
  nxmem_verdict want;
} address_row;

static const address_row address_rows[] = {
    {"address 0", 0, {NXMEM_REASON_NULL_POINTER, 0, 0, 0}},
    {"address 1", 1, {NXMEM_REASON_MISALIGNED, 0, 1, 8}},
    {"address 7", 7, {NXMEM_REASON_MISALIGNED, 0, 7, 8}},
    {"address 8", 8, ALLOW},
    {"address 12", 12, {NXMEM_REASON_MISALIGNED, 0, 4, 8}},
    {"the highest address", UINTPTR_MAX, {NXMEM_REASON_MISALIGNED, 0, 7, 8}},
    {"the highest aligned address", UINTPTR_MAX - 7, ALLOW},
};

static void test_address(void **state) {
  const address_row *row = *state;
  nx_assert_verdict(nxmem_check_table_address(row->address), row->want);
}

/* ---- Numbers ---- */

static void test_allocator_bytes_at(void **state) {
  (void)state;
  assert_int_equal(nxmem_allocator_bytes_at(0), 120);
  assert_int_equal(nxmem_allocator_bytes_at(1), 128);
  assert_int_equal(nxmem_allocator_bytes_at(2), 128);
  assert_int_equal(nxmem_allocator_bytes_at(U32_MAX), 128);
}

static void test_prefix_extent(void **state) {
  (void)state;
  assert_int_equal(nxmem_prefix_extent(0, 128), 0);
  assert_int_equal(nxmem_prefix_extent(127, 128), 127);
  assert_int_equal(nxmem_prefix_extent(128, 128), 128);
  assert_int_equal(nxmem_prefix_extent(129, 128), 128);
  assert_int_equal(nxmem_prefix_extent(U32_MAX, 56), 56);
}

static void test_minimum_sizes(void **state) {
  (void)state;
  assert_int_equal(NXMEM_HEADER_BYTES, 8);
  assert_int_equal(NXMEM_ALLOCATOR_BYTES_0, 120);
  assert_int_equal(NXMEM_ALLOCATOR_BYTES_1, 128);
  assert_int_equal(NXMEM_BACKING_BYTES, 72);
  assert_int_equal(NXMEM_SHARING_BYTES, 64);
  assert_int_equal(NXMEM_FACTORY_BYTES, 56);
}

/* ---- A table nobody filled in, and one made of stack garbage: two refusals that cannot be confused ---- */

static nxmem_verdict judge_allocator(const uint8_t *bytes) {
  reading got;
  uint64_t effective = 0;
  run_reader(&readers[ALLOCATOR], bytes, 1, &got);
  if (got.verdict.reason != NXMEM_REASON_NONE) return got.verdict;
  return nxmem_check_capabilities(&got.out.allocator, got.declared_minor, 1, NXMEM_CAPS_KNOWN, &effective);
}

static nxmem_verdict judge_factory(const uint8_t *bytes) {
  reading got;
  run_reader(&readers[FACTORY], bytes, 1, &got);
  return got.verdict.reason != NXMEM_REASON_NONE ? got.verdict : nxmem_check_tier(got.out.factory.device.tier);
}

static nxmem_verdict judge_backing(const uint8_t *bytes) {
  reading got;
  run_reader(&readers[BACKING], bytes, 1, &got);
  return got.verdict;
}

static nxmem_verdict judge_sharing(const uint8_t *bytes) {
  reading got;
  run_reader(&readers[SHARING], bytes, 1, &got);
  return got.verdict;
}

static nxmem_verdict judge_response(const uint8_t *bytes) {
  const nxmem_offer own = {{1, 1, 0, 1}, NXMEM_CAPS_KNOWN};
  NxmemNegotiateResponse taken;
  nxmem_response_take((const volatile NxmemNegotiateResponse *)(const void *)bytes, &taken);
  return nxmem_negotiate_judge(NXMEM_STATUS_OK, &taken, &own);
}

typedef struct garbage_row {
  const char *name;
  nxmem_verdict (*judge)(const uint8_t *bytes);
  int byte;
  nxmem_verdict want;
} garbage_row;

#define AA32 0xAAAAAAAAu
#define AA64 0xAAAAAAAAAAAAAAAAull

static const garbage_row garbage_rows[] = {
    {"allocator of zeros", judge_allocator, 0, SHORT_HEADER(0)},
    {"allocator of 0xAA", judge_allocator, 0xAA, {NXMEM_REASON_NO_ALLOCATOR, 24, AA64, 1}},
    {"factory of zeros", judge_factory, 0, SHORT_HEADER(0)},
    {"factory of 0xAA", judge_factory, 0xAA, {NXMEM_REASON_UNKNOWN_TIER, 0, AA32, 2}},
    {"backing of zeros", judge_backing, 0, SHORT_HEADER(0)},
    {"backing of 0xAA", judge_backing, 0xAA, {NXMEM_REASON_OTHER_MECHANISM, 8, AA64, MECHANISM}},
    {"sharing of zeros", judge_sharing, 0, SHORT_HEADER(0)},
    {"sharing of 0xAA", judge_sharing, 0xAA, {NXMEM_REASON_OTHER_MECHANISM, 8, AA64, MECHANISM}},
    {"response of zeros", judge_response, 0, {NXMEM_REASON_SHORT_RESPONSE, 0, 0, 40}},
    {"response of 0xAA", judge_response, 0xAA, {NXMEM_REASON_MAJOR_OUT_OF_RANGE, 4, AA32, 1}},
};

static void test_garbage(void **state) {
  const garbage_row *row = *state;
  uint8_t *bytes = nx_exact_block(128);
  memset(bytes, row->byte, 128);
  nx_assert_verdict(row->judge(bytes), row->want);
  free(bytes);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(level_rows), test_level);
  nx_suite_rows(&suite, ROWS(demand_rows), test_demand);
  nx_suite_rows(&suite, ROWS(address_rows), test_address);
  nx_suite_rows(&suite, ROWS(garbage_rows), test_garbage);
  for (size_t i = 0; i < READERS; i++) {
    nx_suite_add(&suite, nx_name("NULL and misaligned: %s", readers[i].name), test_impossible_address, &readers[i]);
    nx_suite_add(&suite, nx_name("nowhere and misaligned: %s", readers[i].name), test_misaligned_is_never_loaded,
                 &readers[i]);
  }
  nx_suite_add(&suite, "required slots are asked before the mechanism", test_slots_before_mechanism, NULL);
  nx_suite_add(&suite, "bytes an allocator needs at a minor", test_allocator_bytes_at, NULL);
  nx_suite_add(&suite, "extent is the smaller of declared and known", test_prefix_extent, NULL);
  nx_suite_add(&suite, "minimum sizes", test_minimum_sizes, NULL);
  return nx_suite_run(&suite, "prefix");
}
