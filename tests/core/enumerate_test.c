/*
 * enumerate_test.c: is this list of factories one that may be owned, row by row.
 *
 * Attackers played: counts above the room, NULL entries, one object listed twice.
 * Promise: every distinct entry within the transferred part is owed exactly once, whatever the verdict.
 */
#include "nxmem/enumerate.h"

#include "support.h"

#define ALLOW \
  { NXMEM_REASON_NONE, 0, 0, 0 }
#define TOO_MANY(found) \
  { NXMEM_REASON_TOO_MANY, 0, found, 64 }
#define NULL_AT(index) \
  { NXMEM_REASON_NULL_POINTER, index, 0, 0 }
#define TWICE(index, first) \
  { NXMEM_REASON_LISTED_TWICE, index, index, first }

typedef struct list_row {
  const char *name;
  uint64_t reported;
  uintptr_t entries[6]; /* behind them: distinct addresses up to index 63 */
  nxmem_verdict want;
  uint32_t owed; /* releases due for the transferred part */
} list_row;

static const list_row rows[] = {
    {"empty list", 0, {16, 32, 48, 64, 80, 96}, ALLOW, 0},
    {"one factory", 1, {16, 0, 0, 0, 0, 0}, ALLOW, 1},
    {"six factories", 6, {16, 32, 48, 64, 80, 96}, ALLOW, 6},
    {"64 factories", 64, {16, 32, 48, 64, 80, 96}, ALLOW, 64},
    {"entries beyond the count are not ours", 2, {16, 32, 16, 0, 32, 16}, ALLOW, 2},
    {"65 reported", 65, {16, 32, 48, 64, 80, 96}, TOO_MANY(65), 64},
    {"2^32 + 1 reported", 0x100000001ull, {16, 32, 48, 64, 80, 96}, TOO_MANY(0x100000001ull), 64},
    {"2^64-1 reported", UINT64_MAX, {16, 32, 48, 64, 80, 96}, TOO_MANY(UINT64_MAX), 64},
    {"too many and one of them NULL", 65, {16, 0, 48, 64, 80, 96}, TOO_MANY(65), 63},
    {"only entry NULL", 1, {0, 32, 0, 0, 0, 0}, NULL_AT(0), 0},
    {"NULL in the middle", 3, {16, 0, 48, 0, 0, 0}, NULL_AT(1), 2},
    {"NULL at the end", 3, {16, 32, 0, 0, 0, 0}, NULL_AT(2), 2},
    {"two NULLs: the first is named", 3, {16, 0, 0, 0, 0, 0}, NULL_AT(1), 1},
    {"neighbours the same", 3, {16, 16, 48, 0, 0, 0}, TWICE(1, 0), 2},
    {"first and last the same", 4, {16, 32, 48, 16, 0, 0}, TWICE(3, 0), 3},
    {"three times the same", 3, {16, 16, 16, 0, 0, 0}, TWICE(1, 0), 1},
    {"two pairs: the earlier repeat is named", 4, {16, 32, 32, 16, 0, 0}, TWICE(2, 1), 2},
    {"NULL before a repeat", 4, {16, 0, 16, 48, 0, 0}, NULL_AT(1), 2},
    {"a repeat before NULL", 4, {16, 16, 0, 48, 0, 0}, TWICE(1, 0), 2},
};

/* An exact block: an index beyond the array is seen. */
static uintptr_t *make_entries(const list_row *row) {
  uintptr_t *entries = (uintptr_t *)(void *)nx_exact_block(64 * sizeof(uintptr_t));
  for (uint32_t i = 0; i < 64; i++) entries[i] = i < 6 ? row->entries[i] : 0x1000u + i * 8u;
  return entries;
}

static void test_list(void **state) {
  const list_row *row = *state;
  uintptr_t *entries = make_entries(row);
  nx_assert_verdict(nxmem_check_factories(entries, row->reported), row->want);

  uint32_t owed = 0;
  const uint32_t transferred = nxmem_factories_transferred(row->reported);
  for (uint32_t i = 0; i < transferred; i++) owed += nxmem_factory_is_owed(entries, i) ? 1u : 0u;
  assert_int_equal(owed, row->owed);
  free(entries);
}

static void test_transferred(void **state) {
  (void)state;
  assert_int_equal(nxmem_factories_transferred(0), 0);
  assert_int_equal(nxmem_factories_transferred(63), 63);
  assert_int_equal(nxmem_factories_transferred(64), 64);
  assert_int_equal(nxmem_factories_transferred(65), 64);
  assert_int_equal(nxmem_factories_transferred(0x100000000ull), 64);
  assert_int_equal(nxmem_factories_transferred(UINT64_MAX), 64);
}

/* Each pair of places, the rest distinct: the later one is named and is not owed. */
static void test_every_pair(void **state) {
  (void)state;
  uintptr_t *entries = (uintptr_t *)(void *)nx_exact_block(64 * sizeof(uintptr_t));
  for (uint32_t later = 1; later < 64; later++)
    for (uint32_t first = 0; first < later; first++) {
      for (uint32_t i = 0; i < 64; i++) entries[i] = 0x1000u + i * 8u;
      entries[later] = entries[first];
      nx_assert_verdict(nxmem_check_factories(entries, 64), (nxmem_verdict)TWICE(later, first));
      assert_int_equal(nxmem_factory_is_owed(entries, first), 1);
      assert_int_equal(nxmem_factory_is_owed(entries, later), 0);
    }
  free(entries);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(rows), test_list);
  nx_suite_add(&suite, "entries that pass to the host", test_transferred, NULL);
  nx_suite_add(&suite, "every pair of places", test_every_pair, NULL);
  return nx_suite_run(&suite, "enumerate");
}
