/*
 * capability_test.c: which capabilities an allocator effectively has, row by row.
 *
 * Attackers played: bits nobody defined, bits without slots, tables without bits.
 * Promise: each violation is asserted on reason, field and numbers; a masked flag costs nothing.
 */
#include "nxmem/capability.h"

#include "support.h"

#define U32_MAX 0xFFFFFFFFu
#define ALLOW \
  { NXMEM_REASON_NONE, 0, 0, 0 }
#define UNKNOWN(found, known) \
  { NXMEM_REASON_UNKNOWN_CAPABILITY, 24, found, known }
#define NO_SLOT(offset) \
  { NXMEM_REASON_FLAG_WITHOUT_SLOT, offset, 0, 0 }
#define NO_FLAG(offset) \
  { NXMEM_REASON_TABLE_WITHOUT_FLAG, offset, 0, 0 }

enum { ALLOC = 1, BACKING = 2, SHARING = 4, DEFERRED = 8, STRUCTURED = 16, KNOWN = 31 };

/* Slots and tables behind the flags, by the offset they stand at. */
enum { S80 = 1, S88 = 2, S96 = 4, S104 = 8, S112 = 16, S120 = 32, ALL_SLOTS = 63 };

typedef struct capability_row {
  const char *name;
  uint64_t flags;
  unsigned slots;
  uint32_t declared_minor;
  uint32_t ceiling;
  uint64_t negotiated;
  nxmem_verdict want;
  uint64_t effective;
} capability_row;

static const capability_row rows[] = {
    {"everything at 1.1", KNOWN, ALL_SLOTS, 1, 1, KNOWN, ALLOW, KNOWN},
    {"ALLOCATOR alone", ALLOC, 0, 1, 1, KNOWN, ALLOW, ALLOC},
    {"ALLOCATOR alone at 1.0", ALLOC, 0, 0, 1, KNOWN, ALLOW, ALLOC},
    {"everything of minor 0", 15, S80 | S88 | S96 | S104 | S112, 0, 1, KNOWN, ALLOW, 15},
    {"no flag at all", 0, 0, 1, 1, KNOWN, {NXMEM_REASON_NO_ALLOCATOR, 24, 0, 1}, 0},
    {"everything but ALLOCATOR", 30, ALL_SLOTS, 1, 1, KNOWN, {NXMEM_REASON_NO_ALLOCATOR, 24, 30, 1}, 0},
    {"ALLOCATOR not negotiated", KNOWN, ALL_SLOTS, 1, 1, 30, {NXMEM_REASON_NO_ALLOCATOR, 24, 31, 1}, 0},
    /* bits nobody defined */
    {"bit 5 at our level", 32 | ALLOC, 0, 1, 1, KNOWN, UNKNOWN(33, 31), 0},
    {"bit 63 at our level", 0x8000000000000001ull, 0, 1, 1, KNOWN, UNKNOWN(0x8000000000000001ull, 31), 0},
    {"bit 5 from a sender ahead of us is masked", 32 | ALLOC, 0, 2, 1, KNOWN, ALLOW, ALLOC},
    {"all bits from a sender ahead of us", UINT64_MAX, ALL_SLOTS, U32_MAX, 1, KNOWN, ALLOW, KNOWN},
    {"bit 5 at minor 2 under ceiling 2", 32 | ALLOC, 0, 2, 2, KNOWN, UNKNOWN(33, 31), 0},
    {"STRUCTURED_RELEASE declared at minor 0", STRUCTURED | ALLOC, 0, 0, 1, KNOWN, UNKNOWN(17, 15), 0},
    {"STRUCTURED_RELEASE at minor 0 under ceiling 0", STRUCTURED | ALLOC, 0, 0, 0, 15, UNKNOWN(17, 15), 0},
    {"STRUCTURED_RELEASE at minor 1 under ceiling 0 is masked", STRUCTURED | ALLOC, 0, 1, 0, 15, ALLOW, ALLOC},
    {"an unknown bit is named before a missing ALLOCATOR", 32, 0, 1, 1, KNOWN, UNKNOWN(32, 31), 0},
    /* flags without slots */
    {"VIRTUAL_BACKING without its table", ALLOC | BACKING, 0, 1, 1, KNOWN, NO_SLOT(80), 0},
    {"SHARED_MAPPING without its table", ALLOC | SHARING, 0, 1, 1, KNOWN, NO_SLOT(88), 0},
    {"DEFERRED_RELEASE without enqueue_release", ALLOC | DEFERRED, S104 | S112, 1, 1, KNOWN, NO_SLOT(96), 0},
    {"DEFERRED_RELEASE without drain_releases", ALLOC | DEFERRED, S96 | S112, 1, 1, KNOWN, NO_SLOT(104), 0},
    {"DEFERRED_RELEASE without pending_release_count", ALLOC | DEFERRED, S96 | S104, 1, 1, KNOWN, NO_SLOT(112), 0},
    {"DEFERRED_RELEASE without any slot", ALLOC | DEFERRED, 0, 1, 1, KNOWN, NO_SLOT(96), 0},
    {"STRUCTURED_RELEASE without its slot", ALLOC | STRUCTURED, 0, 1, 1, KNOWN, NO_SLOT(120), 0},
    {"no table is named before no flag", ALLOC | SHARING, S80, 1, 1, KNOWN, NO_SLOT(88), 0},
    /* masked flags are not judged */
    {"masked VIRTUAL_BACKING without its table", ALLOC | BACKING, 0, 1, 1, ALLOC, ALLOW, ALLOC},
    {"masked SHARED_MAPPING without its table", ALLOC | SHARING, 0, 1, 1, ALLOC, ALLOW, ALLOC},
    {"masked VIRTUAL_BACKING with its table", ALLOC | BACKING, S80, 1, 1, ALLOC, ALLOW, ALLOC},
    {"masked SHARED_MAPPING with its table", ALLOC | SHARING, S88, 1, 1, ALLOC, ALLOW, ALLOC},
    {"masked DEFERRED_RELEASE without slots", ALLOC | DEFERRED, 0, 1, 1, ALLOC, ALLOW, ALLOC},
    {"masked STRUCTURED_RELEASE without its slot", ALLOC | STRUCTURED, 0, 1, 1, 15, ALLOW, ALLOC},
    /* tables and slots behind clear flags */
    {"a backing table nobody declared", ALLOC, S80, 1, 1, KNOWN, NO_FLAG(80), 0},
    {"a sharing table nobody declared", ALLOC, S88, 1, 1, KNOWN, NO_FLAG(88), 0},
    {"both tables undeclared: the first is named", ALLOC, S80 | S88, 1, 1, KNOWN, NO_FLAG(80), 0},
    {"an undeclared table is judged though nothing was negotiated", ALLOC, S80, 1, 1, ALLOC, NO_FLAG(80), 0},
    {"function slots behind clear flags are legal", ALLOC, S96 | S104 | S112 | S120, 1, 1, KNOWN, ALLOW, ALLOC},
};

static NxmemAllocatorVtable make_table(const capability_row *row) {
  uint8_t bytes[128] = {0};
  static const size_t offsets[] = {80, 88, 96, 104, 112, 120};
  nx_put64(bytes + 24, row->flags);
  for (size_t i = 0; i < 6; i++)
    if ((row->slots >> i & 1u) != 0) nx_put64(bytes + offsets[i], 0x1000 + offsets[i]);
  nx_put32(bytes + 4, row->declared_minor < row->ceiling ? row->declared_minor : row->ceiling);
  NxmemAllocatorVtable table;
  memcpy(&table, bytes, sizeof table);
  return table;
}

static void test_capabilities(void **state) {
  const capability_row *row = *state;
  const NxmemAllocatorVtable table = make_table(row);
  uint64_t effective = 0xC5C5ull;
  nx_assert_verdict(nxmem_check_capabilities(&table, row->declared_minor, row->ceiling, row->negotiated, &effective),
                    row->want);
  assert_int_equal(effective, row->want.reason == NXMEM_REASON_NONE ? row->effective : 0xC5C5ull);
}

static void test_caps_at(void **state) {
  (void)state;
  assert_int_equal(nxmem_caps_at(0), 15);
  assert_int_equal(nxmem_caps_at(1), 31);
  assert_int_equal(nxmem_caps_at(2), 31);
  assert_int_equal(nxmem_caps_at(U32_MAX), 31);
}

/* Declared and negotiated and defined: every combination of the five known bits and one unknown. */
static void test_effective_is_an_intersection(void **state) {
  (void)state;
  for (uint64_t declared = 0; declared < 64; declared++)
    for (uint64_t negotiated = 0; negotiated < 64; negotiated++) {
      assert_int_equal(nxmem_caps_effective(declared, negotiated, 0), declared & negotiated & 15);
      assert_int_equal(nxmem_caps_effective(declared, negotiated, 1), declared & negotiated & 31);
    }
}

typedef struct required_row {
  const char *name;
  uint64_t effective;
  uint64_t required;
  nxmem_verdict want;
} required_row;

static const required_row required_rows[] = {
    {"nothing required", 1, 0, ALLOW},
    {"all required bits are there", 31, 5, ALLOW},
    {"exactly the required bits", 5, 5, ALLOW},
    {"one required bit missing", 1, 5, {NXMEM_REASON_REQUIRED_MISSING, 0, 1, 5}},
    {"a bit that nobody knows is required", 31, 32, {NXMEM_REASON_REQUIRED_MISSING, 0, 31, 32}},
    {"everything required", 31, UINT64_MAX, {NXMEM_REASON_REQUIRED_MISSING, 0, 31, UINT64_MAX}},
};

static void test_required(void **state) {
  const required_row *row = *state;
  nx_assert_verdict(nxmem_check_required(row->effective, row->required), row->want);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(rows), test_capabilities);
  nx_suite_rows(&suite, ROWS(required_rows), test_required);
  nx_suite_add(&suite, "bits defined at a minor", test_caps_at, NULL);
  nx_suite_add(&suite, "effective is declared and negotiated and defined", test_effective_is_an_intersection, NULL);
  return nx_suite_run(&suite, "capability");
}
