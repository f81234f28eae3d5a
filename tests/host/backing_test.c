/*
 * backing_test.c: virtual backing through the public header: what is asked of the plugin, what is charged, what is
 * believed.
 *
 * Attackers played: callers whose ranges leave their allocation; plugins whose costs cannot be, that fail half way,
 * unmap more than was ever mapped or write nothing; both at once, on many threads.
 * Promise: what may be mapped is charged before it is, nothing is credited that was not charged, and in the end the
 * charge is what is mapped.
 */
#include <unistd.h>

#include "nxmem/outcome.h"
#include "puppet_backing.h"
#include "staging.h"

#define ALL_ONES 0xFFFFFFFFFFFFFFFFull
#define TWO_63 0x8000000000000000ull
#define G NX_PLAY_GRANULE

static const NxmemByteRange first_granule = {0, G};

static void assert_plugin_not_asked(uint64_t before) {
  uint64_t now = 0;
  for (int i = 0; i < NX_PLAY_SLOTS; i++) now += nx_play_calls((nx_play_slot)i);
  assert_int_equal(now, before);
}
static uint64_t all_calls(void) {
  uint64_t n = 0;
  for (int i = 0; i < NX_PLAY_SLOTS; i++) n += nx_play_calls((nx_play_slot)i);
  return n;
}

static uint64_t violations(nxmem_host host) { return nx_counts(host).contract_violations; }

/* ---- Ranges that the caller names -------------------------------------------------------------------------------- */

typedef struct range_row {
  const char *name;
  nx_modes modes;
  NxmemByteRange range; /* in an allocation of four granules */
  uint32_t reason, field;
  uint64_t found, needed;
} range_row;

static const range_row range_rows[] = {
    {"range of no byte", 0, {0, 0}, NXMEM_REASON_ZERO_BYTES, 72, 0, 1},
    {"range of no byte behind the end", 0, {5 * G, 0}, NXMEM_REASON_ZERO_BYTES, 72, 0, 1},
    {"range one byte too long", 0, {0, 4 * G + 1}, NXMEM_REASON_BYTES_OUTSIDE, 72, 4 * G + 1, 4 * G},
    {"range behind the end", 0, {4 * G + 1, 1}, NXMEM_REASON_OFFSET_OUTSIDE, 64, 4 * G + 1, 4 * G},
    {"range at the end", 0, {4 * G, 1}, NXMEM_REASON_BYTES_OUTSIDE, 72, 1, 0},
    {"range that wraps to 0", 0, {G, ALL_ONES - G + 1}, NXMEM_REASON_BYTES_OUTSIDE, 72, ALL_ONES - G + 1, 3 * G},
    {"range that wraps into itself", 0, {G, ALL_ONES}, NXMEM_REASON_BYTES_OUTSIDE, 72, ALL_ONES, 3 * G},
    {"range at 2^64-1", 0, {ALL_ONES, 1}, NXMEM_REASON_OFFSET_OUTSIDE, 64, ALL_ONES, 4 * G},
};

static nx_refusal refusal_of(const range_row *row) {
  return (nx_refusal){NXMEM_ERR_INVALID_ARGUMENT, row->reason, row->field, row->found, row->needed, 0};
}

/* Every call that takes a range refuses it before the plugin hears of it. */
static void test_range(void **state) {
  const nx_case *c = *state;
  const range_row *row = c->row;
  nx_play_reset();
  nx_stage stage = nx_stage_set(c->mode);
  const nxmem_allocation block = nx_must_reserve(stage.allocator, 4 * G, 1);
  const uint64_t before = all_calls();
  const NxmemByteRange ranges[] = {first_granule, row->range};
  const nxmem_allocate_options options = {ranges, 2};
  nxmem_allocation none = {0x5A5A, NULL};
  uint64_t out = 0x5A5A;
  nxmem_error error = nx_blank_error();
  nx_assert_refused(nxmem_commit(stage.allocator, block, row->range, &error), &error, refusal_of(row));
  error = nx_blank_error();
  nx_assert_refused(nxmem_decommit(stage.allocator, block, row->range, &out, &error), &error, refusal_of(row));
  error = nx_blank_error();
  nx_assert_refused(nxmem_cost_of_ranges(stage.allocator, block, ranges, 2, &out, &error), &error, refusal_of(row));
  assert_non_null(strstr(error.message, "range 1"));
  error = nx_blank_error();
  nx_assert_refused(nxmem_allocate(stage.allocator, 4 * G, G, &options, &none, &error), &error, refusal_of(row));
  assert_non_null(strstr(error.message, "range 1"));
  error = nx_blank_error();
  nx_assert_refused(nxmem_cost_of_allocation(stage.allocator, 4 * G, G, &options, &out, &error), &error,
                    refusal_of(row));
  assert_plugin_not_asked(before);
  assert_int_equal(out, 0x5A5A);
  assert_int_equal(none.id, 0x5A5A);
  assert_int_equal(nx_charged(stage.allocator), G);
  nx_must_release(stage.allocator, block);
  nx_stage_strike(&stage);
}

/* Lists: too long, nowhere, or none at all. */
static void test_lists(void **state) {
  const nx_case *c = *state;
  static NxmemByteRange many[1025];
  for (int i = 0; i < 1025; i++) many[i] = first_granule;
  nx_play_reset();
  nx_stage stage = nx_stage_set(c->mode);
  nxmem_allocation made = {0x5A5A, NULL};
  nxmem_error error = nx_blank_error();
  nxmem_allocate_options options = {many, 1025};
  const nx_refusal long_list = {NXMEM_ERR_INVALID_ARGUMENT, NXMEM_REASON_TOO_MANY_RANGES, 0, 1025, 1024, 0};
  nx_assert_refused(nxmem_allocate(stage.allocator, G, G, &options, &made, &error), &error, long_list);
  options.committed_ranges = NULL;
  options.committed_range_count = 1;
  error = nx_blank_error();
  const nx_refusal nowhere = {NXMEM_ERR_INVALID_ARGUMENT, NXMEM_REASON_NULL_POINTER, 0, 0, 0, 0};
  nx_assert_refused(nxmem_allocate(stage.allocator, G, G, &options, &made, &error), &error, nowhere);
  assert_plugin_not_asked(0);
  options = (nxmem_allocate_options){many, 1024};
  assert_int_equal(nxmem_allocate(stage.allocator, G, G, &options, &made, NULL), NXMEM_OK);
  assert_int_equal(play.request.committed_range_count, 1024);
  uint64_t out = 0x5A5A;
  assert_int_equal(nxmem_cost_of_ranges(stage.allocator, made, many, 1024, &out, NULL), NXMEM_OK);
  assert_int_equal(out, 0);
  assert_int_equal(play.range_count, 1024);
  error = nx_blank_error();
  nx_assert_code(nxmem_cost_of_ranges(stage.allocator, made, many, 0, &out, &error), &error,
                 NXMEM_ERR_INVALID_ARGUMENT);
  nx_must_release(stage.allocator, made);
  nx_stage_strike(&stage);
}

/* A count of 0 is a plain allocation, wherever the list would be. */
static void test_no_ranges(void **state) {
  const nx_case *c = *state;
  nx_play_reset();
  nx_stage stage = nx_stage_set(c->mode);
  const nxmem_allocate_options options = {&first_granule, 0};
  nxmem_allocation made = {0, NULL};
  assert_int_equal(nxmem_allocate(stage.allocator, 64, 64, &options, &made, NULL), NXMEM_OK);
  assert_int_equal(nx_puppet_calls(NX_IN_ALLOCATE), 1);
  assert_int_equal(nx_play_calls(NX_PLAY_ALLOCATE), 0);
  assert_null(puppet.alloc_request.committed_ranges);
  assert_int_equal(puppet.alloc_request.committed_range_count, 0);
  nx_must_release(stage.allocator, made);
  nx_stage_strike(&stage);
}

/* ---- What the plugin is asked, and what is charged --------------------------------------------------------------- */

static void test_asked(void **state) {
  const nx_case *c = *state;
  nx_play_reset();
  nx_stage stage = nx_stage_set(c->mode);
  const nxmem_allocation block = nx_must_reserve(stage.allocator, 8 * G, 3);
  assert_int_equal(play.request.allocation_id, block.id);
  assert_int_equal(play.request.mechanism_id, 77);
  assert_int_equal(nx_charged(stage.allocator), 2 * G);
  const NxmemByteRange range = {G + 1, 2 * G};
  assert_int_equal(nxmem_commit(stage.allocator, block, range, NULL), NXMEM_OK);
  assert_int_equal(play.range.struct_size, 80);
  assert_int_equal(play.range.allocation.struct_size, 56);
  assert_int_equal(play.range.allocation.allocation_id, block.id);
  assert_int_equal(play.range.allocation.mechanism_id, 77);
  assert_ptr_equal(play.range.allocation.ptr, block.ptr);
  assert_int_equal(play.range.allocation.bytes, 8 * G);
  assert_int_equal(play.range.range.offset, G + 1);
  assert_int_equal(play.range.range.bytes, 2 * G);
  assert_int_equal(nx_charged(stage.allocator), 4 * G);
  uint64_t out = 0;
  assert_int_equal(nxmem_committed_bytes(stage.allocator, block, &out, NULL), NXMEM_OK);
  assert_int_equal(out, 4 * G);
  assert_int_equal(nxmem_commit(stage.allocator, block, range, NULL), NXMEM_OK); /* all there already */
  assert_int_equal(nx_charged(stage.allocator), 4 * G);
  assert_int_equal(nxmem_decommit(stage.allocator, block, range, &out, NULL), NXMEM_OK);
  assert_int_equal(out, G); /* one granule lies in it whole */
  assert_int_equal(nx_charged(stage.allocator), 3 * G);
  assert_int_equal(nx_play_mapped(), 3 * G);
  nx_must_release(stage.allocator, block);
  assert_int_equal(nx_charged(stage.allocator), 0);
  assert_int_equal(violations(stage.host), 0);
  nx_stage_strike(&stage);
}

static void test_costs(void **state) {
  const nx_case *c = *state;
  nx_play_reset();
  nx_stage stage = nx_stage_set(c->mode);
  const nxmem_allocation block = nx_must_reserve(stage.allocator, 64 * G, 1);
  NxmemByteRange ranges[6];
  for (uint64_t i = 0; i < 6; i++) ranges[i] = (NxmemByteRange){i * G, G + 1};
  uint64_t out = 0;
  for (uint64_t count = 1; count <= 6; count++) {
    assert_int_equal(nxmem_cost_of_ranges(stage.allocator, block, ranges, count, &out, NULL), NXMEM_OK);
    assert_int_equal(out, count * G);
    assert_int_equal(play.range_count, count);
    assert_int_equal(play.range.range.offset, (count - 1) * G);
  }
  const nxmem_allocate_options options = {ranges, 6};
  assert_int_equal(nxmem_cost_of_allocation(stage.allocator, 64 * G, 2 * G, &options, &out, NULL), NXMEM_OK);
  assert_int_equal(out, 7 * G);
  assert_int_equal(play.request.allocation_id, 0);
  assert_int_equal(play.request.align, 2 * G);
  assert_int_equal(play.request.mechanism_id, 77);
  assert_int_equal(nxmem_cost_of_allocation(stage.allocator, G, G, NULL, &out, NULL), NXMEM_OK);
  assert_int_equal(out, 0);
  nxmem_error error = nx_blank_error();
  const nx_refusal zero = {NXMEM_ERR_INVALID_ARGUMENT, NXMEM_REASON_ZERO_BYTES, 0, 0, 1, 0};
  nx_assert_refused(nxmem_cost_of_allocation(stage.allocator, 0, G, NULL, &out, &error), &error, zero);
  assert_int_equal(nx_charged(stage.allocator), G);
  nx_must_release(stage.allocator, block);
  nx_stage_strike(&stage);
}

/* ---- Missing slots ----------------------------------------------------------------------------------------------- */

typedef enum question { ALLOCATE, COMMIT, DECOMMIT, COMMITTED, RANGES, ALLOCATION } question;

static nxmem_result ask(question q, nxmem_allocator a, nxmem_allocation block, nxmem_error *error) {
  const nxmem_allocate_options options = {&first_granule, 1};
  nxmem_allocation made;
  uint64_t out;
  switch (q) {
    case ALLOCATE:
      return nxmem_allocate(a, G, G, &options, &made, error);
    case COMMIT:
      return nxmem_commit(a, block, first_granule, error);
    case DECOMMIT:
      return nxmem_decommit(a, block, first_granule, &out, error);
    case COMMITTED:
      return nxmem_committed_bytes(a, block, &out, error);
    case RANGES:
      return nxmem_cost_of_ranges(a, block, &first_granule, 1, &out, error);
    default:
      return nxmem_cost_of_allocation(a, G, G, &options, &out, error);
  }
}

typedef struct slot_row {
  const char *name;
  nx_modes modes;
  question question;
  size_t slot; /* offset in the table; 0: the whole capability is masked */
  const char *word;
} slot_row;

#define SLOT(question, member) \
  { "no " #member, 0, question, offsetof(NxmemVirtualBackingVtable, member), "virtual_backing." #member }

static const slot_row slot_rows[] = {
    SLOT(ALLOCATE, allocate_committed),
    SLOT(COMMIT, commit_range),
    {"commit without mapped_bytes_for_ranges", 0, COMMIT, offsetof(NxmemVirtualBackingVtable, mapped_bytes_for_ranges),
     "virtual_backing.mapped_bytes_for_ranges"},
    SLOT(DECOMMIT, decommit_range),
    SLOT(COMMITTED, committed_bytes),
    SLOT(RANGES, mapped_bytes_for_ranges),
    SLOT(ALLOCATION, mapped_bytes_for_allocation),
    {"allocate committed without the capability", 0, ALLOCATE, 0, "virtual_backing.allocate_committed"},
    {"commit without the capability", 0, COMMIT, 0, "virtual_backing.commit_range"},
    {"decommit without the capability", 0, DECOMMIT, 0, "virtual_backing.decommit_range"},
    {"committed bytes without the capability", 0, COMMITTED, 0, "virtual_backing.committed_bytes"},
    {"cost of ranges without the capability", 0, RANGES, 0, "virtual_backing.mapped_bytes_for_ranges"},
    {"cost of an allocation without the capability", 0, ALLOCATION, 0, "virtual_backing.mapped_bytes_for_allocation"},
};

/* An allocator with everything came first, so that nothing of its table is mistaken for the next one's. */
static void test_slot(void **state) {
  const nx_case *c = *state;
  const slot_row *row = c->row;
  nx_play_reset();
  nx_stage stage = nx_stage_set(c->mode);
  nx_must_close(stage.allocator);
  if (row->slot != 0) {
    void *none = NULL;
    memcpy((uint8_t *)&puppet.backing + row->slot, &none, sizeof none);
  } else {
    puppet.table.capability_flags &= ~(uint64_t)NXMEM_CAP_VIRTUAL_BACKING;
    puppet.table.virtual_backing = NULL;
  }
  stage.allocator = nx_must_open_mechanism(stage.plugin, "puppet");
  const nxmem_allocation block = nx_must_allocate(stage.allocator, 4 * G, G);
  const uint64_t before = all_calls();
  nxmem_error error = nx_blank_error();
  nx_assert_code(ask(row->question, stage.allocator, block, &error), &error, NXMEM_ERR_UNSUPPORTED_CAPABILITY);
  assert_non_null(strstr(error.message, row->word));
  assert_plugin_not_asked(before);
  nx_must_release(stage.allocator, block);
  nx_stage_strike(&stage);
}

/* ---- Whose it is ------------------------------------------------------------------------------------------------- */

/* A sibling from the same factory carries the same mechanism id; the host's own identity tells them apart. */
static void test_owner(void **state) {
  const nx_case *c = *state;
  nx_play_reset();
  nx_stage stage = nx_stage_set(c->mode);
  const nxmem_allocator sibling = nx_must_open_mechanism(stage.plugin, "puppet");
  const nxmem_allocation block = nx_must_reserve(stage.allocator, 4 * G, 1);
  const nxmem_allocation moved = {block.id, (uint8_t *)block.ptr + 1};
  const nxmem_allocation made_up = {block.id + 0x100000000ull, block.ptr};
  const nxmem_allocation nothing = {0, NULL};
  const uint64_t before = all_calls();
  static const question questions[] = {COMMIT, DECOMMIT, COMMITTED, RANGES};
  for (size_t i = 0; i < 4; i++) {
    nxmem_error error = nx_blank_error();
    nx_assert_code(ask(questions[i], sibling, block, &error), &error, NXMEM_ERR_WRONG_OWNER);
    error = nx_blank_error();
    nx_assert_code(ask(questions[i], stage.allocator, moved, &error), &error, NXMEM_ERR_MISMATCH);
    error = nx_blank_error();
    nx_assert_code(ask(questions[i], stage.allocator, made_up, &error), &error, NXMEM_ERR_STALE_HANDLE);
    error = nx_blank_error();
    nx_assert_code(ask(questions[i], stage.allocator, nothing, &error), &error, NXMEM_ERR_STALE_HANDLE);
  }
  assert_plugin_not_asked(before);
  nx_must_release(stage.allocator, block);
  for (size_t i = 0; i < 4; i++)
    assert_int_equal(ask(questions[i], stage.allocator, block, NULL), NXMEM_ERR_STALE_HANDLE);
  nx_must_close(sibling);
  nx_stage_strike(&stage);
}

/* ---- Costs that are not believed --------------------------------------------------------------------------------- */

typedef struct lie_row {
  const char *name;
  nx_modes modes;
  question question;
  nx_play_number number;
  nxmem_result result;
  uint32_t reason;
  uint64_t found, needed;
  uint32_t status;
} lie_row;

#define GIB 0x40000000ull
#define OWN(value) \
  { 0, 1, value, 0 }
#define CODE(code) \
  { code, 0, 0, 0 }
#define LEAVE \
  { 0, 0, 0, 1 }
#define IMPOSSIBLE(found) NXMEM_ERR_CONTRACT, NXMEM_REASON_MORE_THAN_POSSIBLE, found, GIB, 0
#define REFUSED(code) NXMEM_ERR_PLUGIN, 0, 0, 0, code

static const lie_row lie_rows[] = {
    {"a commit that costs 2^64-1", 0, COMMIT, OWN(ALL_ONES), IMPOSSIBLE(ALL_ONES)},
    {"a commit whose cost is left unwritten", 0, COMMIT, LEAVE, IMPOSSIBLE(ALL_ONES)},
    {"a commit that costs a byte more than possible", 0, COMMIT, OWN(GIB + 1), IMPOSSIBLE(GIB + 1)},
    {"a commit whose cost is refused", 0, COMMIT, CODE(8), REFUSED(8)},
    {"a commit whose cost gets a code nobody knows", 0, COMMIT, CODE(0x80000000u), REFUSED(0x80000000u)},
    {"ranges that cost 2^64-1", 0, RANGES, OWN(ALL_ONES), IMPOSSIBLE(ALL_ONES)},
    {"ranges whose cost is left unwritten", 0, RANGES, LEAVE, IMPOSSIBLE(ALL_ONES)},
    {"ranges whose cost is refused", 0, RANGES, CODE(5), REFUSED(5)},
    {"committed bytes of 2^64-1", 0, COMMITTED, OWN(ALL_ONES), IMPOSSIBLE(ALL_ONES)},
    {"committed bytes left unwritten", 0, COMMITTED, LEAVE, IMPOSSIBLE(ALL_ONES)},
    {"committed bytes refused", 0, COMMITTED, CODE(6), REFUSED(6)},
    {"an allocation that would cost 2^64-1", 0, ALLOCATION, OWN(ALL_ONES), IMPOSSIBLE(ALL_ONES)},
    {"an allocation whose cost is left unwritten", 0, ALLOCATION, LEAVE, IMPOSSIBLE(ALL_ONES)},
    {"an allocation whose cost is refused", 0, ALLOCATION, CODE(4), REFUSED(4)},
};

static void test_lie(void **state) {
  const nx_case *c = *state;
  const lie_row *row = c->row;
  nx_play_reset();
  nx_stage stage = nx_stage_set(c->mode);
  const nxmem_allocation block = nx_must_reserve(stage.allocator, 4 * G, 2);
  play.cost = play.committed = play.cost_of_allocation = row->number;
  nxmem_error error = nx_blank_error();
  const nx_refusal want = {row->result, row->reason, 0, row->found, row->needed, row->status};
  nx_assert_refused(ask(row->question, stage.allocator, block, &error), &error, want);
  assert_int_equal(nx_play_calls(NX_PLAY_COMMIT), 0);
  assert_int_equal(nx_charged(stage.allocator), G);
  assert_int_equal(violations(stage.host), row->result == NXMEM_ERR_CONTRACT);
  play.cost = play.committed = (nx_play_number)OWN(GIB); /* the most that is believed */
  if (row->question == COMMIT) assert_int_equal(ask(COMMIT, stage.allocator, block, NULL), NXMEM_OK);
  nx_must_release(stage.allocator, block);
  nx_stage_strike(&stage);
}

/* The books are full to the last bytes: what would pass 2^63 is refused before anything is mapped. */
static void test_full(void **state) {
  const nx_case *c = *state;
  nx_play_reset();
  nx_stage stage = nx_stage_set(c->mode);
  puppet.own_numbers = 1;
  puppet.mapped = TWO_63 - 2 * G;
  const nxmem_allocation block = nx_must_reserve(stage.allocator, 8 * G, 1);
  assert_int_equal(nx_charged(stage.allocator), TWO_63 - 2 * G);
  const NxmemByteRange three = {4 * G, 3 * G}, two = {4 * G, 2 * G};
  nxmem_error error = nx_blank_error();
  const nx_refusal want = {NXMEM_ERR_CONTRACT, NXMEM_REASON_TOTAL_TOO_LARGE, 0, 3 * G, 2 * G, 0};
  nx_assert_refused(nxmem_commit(stage.allocator, block, three, &error), &error, want);
  assert_int_equal(nx_play_calls(NX_PLAY_COMMIT), 0);
  assert_int_equal(nx_charged(stage.allocator), TWO_63 - 2 * G);
  assert_int_equal(violations(stage.host), 1);
  assert_int_equal(nxmem_commit(stage.allocator, block, two, NULL), NXMEM_OK);
  assert_int_equal(nx_charged(stage.allocator), TWO_63);
  nx_must_release(stage.allocator, block);
  nx_stage_strike(&stage);
}

#define ONE(name, test) static const nx_row_head name##_rows[] = {{test, NX_BOTH_MODES}}
ONE(list, "lists of ranges");
ONE(none, "a list of none");
ONE(asked, "what the plugin is asked");
ONE(costs, "what it would cost");
ONE(owner, "another allocator's, and what is nobody's");
ONE(full, "a commit beyond 2^63");

int main(void) {
  alarm(200);
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(range_rows), test_range);
  nx_suite_modes(&suite, ROWS(list_rows), test_lists);
  nx_suite_modes(&suite, ROWS(none_rows), test_no_ranges);
  nx_suite_modes(&suite, ROWS(asked_rows), test_asked);
  nx_suite_modes(&suite, ROWS(costs_rows), test_costs);
  nx_suite_modes(&suite, ROWS(slot_rows), test_slot);
  nx_suite_modes(&suite, ROWS(owner_rows), test_owner);
  nx_suite_modes(&suite, ROWS(lie_rows), test_lie);
  nx_suite_modes(&suite, ROWS(full_rows), test_full);
  return nx_suite_run(&suite, "host_backing");
}
