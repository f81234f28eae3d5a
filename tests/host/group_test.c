/*
 * group_test.c: one prefix mapped into several allocations: all of them, or none.
 *
 * Attackers played: plugins that refuse one of a group, report bytes that cannot be, or cannot undo; callers whose
 * lists name strangers, siblings' allocations, or one allocation twice; calls from inside a commit.
 * Promise: whose each allocation is, is settled before the plugin hears of any; the books say in each case what the
 * plugin has.
 */
#include <unistd.h>

#include "nxmem/outcome.h"
#include "prefix_group.h"

#define ALL_ONES 0xFFFFFFFFFFFFFFFFull
#define TWO_63 0x8000000000000000ull
#define GIB 0x40000000ull
/* ---- All --------------------------------------------------------------------------------------------------------- */

static void test_shared(void **state) {
  const nx_case *c = *state;
  nx_group s = nx_group_set(c);
  nxmem_group_outcome outcome = NXMEM_GROUP_QUARANTINED;
  assert_int_equal(nx_group_commit(&s, MEMBERS, &outcome, NULL), NXMEM_OK);
  assert_int_equal(outcome, NXMEM_GROUP_SHARED);
  assert_int_equal(nx_play_calls(NX_PLAY_SHARE), MEMBERS);
  assert_int_equal(play.share.struct_size, 136);
  assert_int_equal(play.share.prefix.struct_size, 64);
  assert_int_equal(play.share.prefix.requested_bytes, BYTES);
  assert_int_equal(play.share.allocation.allocation_id, s.members[MEMBERS - 1].id);
  assert_int_equal(play.share.allocation.bytes, 8 * G);
  assert_int_equal(play.share.byte_offset, 2 * G);
  assert_int_equal(nx_charged(s.stage.allocator), MEMBERS * 4 * G);
  assert_int_equal(nx_charged(s.stage.allocator), nx_play_mapped());
  assert_int_equal(nx_owned(s.stage.allocator), MEMBERS * G + 3 * G); /* the physical bytes once */
  for (int i = 0; i < MEMBERS; i++) nx_must_release(s.stage.allocator, s.members[i]);
  assert_int_equal(nx_charged(s.stage.allocator), 0);
  assert_int_equal(nx_owned(s.stage.allocator), 3 * G); /* the prefix has them still */
  assert_int_equal(nx_counts(s.stage.host).contract_violations, 0);
  nx_group_strike(&s);
}

/* ---- None -------------------------------------------------------------------------------------------------------- */

static void own_all(NxmemSharedPrefixCommitInfo *i) { i->additional_owned_bytes = ALL_ONES; }
static void own_much(NxmemSharedPrefixCommitInfo *i) { i->additional_owned_bytes = GIB + 1; }
static void map_all(NxmemSharedPrefixCommitInfo *i) { i->newly_mapped_bytes = ALL_ONES; }
static void map_much(NxmemSharedPrefixCommitInfo *i) { i->newly_mapped_bytes = GIB + 1; }
static void granules_all(NxmemSharedPrefixCommitInfo *i) { i->granules = ALL_ONES; }
static void leave(NxmemSharedPrefixCommitInfo *i) {
  i->additional_owned_bytes = i->newly_mapped_bytes = i->granules = ALL_ONES;
}

typedef struct fail_row {
  const char *name;
  nx_modes modes;
  uint32_t code;                                    /* the commit answers this */
  void (*spoil)(NxmemSharedPrefixCommitInfo *info); /* or OK, with this */
  nx_refusal want;
  int touched; /* the one that failed may map it, and goes too */
} fail_row;

#define REFUSED(code) \
  { NXMEM_ERR_PLUGIN, 0, 0, 0, 0, code }
#define LIE(field, found) \
  { NXMEM_ERR_CONTRACT, NXMEM_REASON_MORE_THAN_POSSIBLE, field, found, GIB, 0 }

static const fail_row fail_rows[] = {
    {"refused with OUT_OF_MEMORY", 0, 8, NULL, REFUSED(8), 0},
    {"refused with a code nobody knows", 0, 99, NULL, REFUSED(99), 0},
    {"quarantined", 0, 12, NULL, REFUSED(12), 1},
    {"owns 2^64-1 bytes", 0, 0, own_all, LIE(8, ALL_ONES), 1},
    {"owns more than possible", 0, 0, own_much, LIE(8, GIB + 1), 1},
    {"maps 2^64-1 bytes", 0, 0, map_all, LIE(16, ALL_ONES), 1},
    {"maps more than possible", 0, 0, map_much, LIE(16, GIB + 1), 1},
    {"maps 2^64-1 granules", 0, 0, granules_all, LIE(24, ALL_ONES), 1},
    {"leaves all unwritten", 0, 0, leave, LIE(8, ALL_ONES), 1},
};

static void fail_at(const fail_row *row, uint64_t number) {
  play.share_code = row->code;
  play.spoil_info = row->spoil;
  play.share_fails_at = row->spoil == NULL ? number : 0;
  play.info_spoilt_at = row->spoil == NULL ? 0 : number;
}

/* At each place of the group: who mapped it is released, all others live on and can be released as ever. */
static void test_private(void **state) {
  const nx_case *c = *state;
  const fail_row *row = c->row;
  for (int place = 0; place < MEMBERS; place++) {
    nx_group s = nx_group_set(c);
    fail_at(row, (uint64_t)place + 1);
    nxmem_group_outcome outcome = NXMEM_GROUP_QUARANTINED;
    nxmem_error error = nx_blank_error();
    nx_assert_refused(nx_group_commit(&s, MEMBERS, &outcome, &error), &error, row->want);
    assert_int_equal(outcome, NXMEM_GROUP_PRIVATE);
    const int gone = place + row->touched;
    assert_int_equal(nx_play_calls(NX_PLAY_SHARE), place + 1);
    assert_int_equal(nx_play_calls(NX_PLAY_RELEASE), gone);
    assert_int_equal(nx_counts(s.stage.host).live_allocations, MEMBERS - gone);
    assert_int_equal(nx_counts(s.stage.host).quarantined, 0);
    assert_int_equal(nx_counts(s.stage.host).contract_violations, row->spoil != NULL);
    for (int i = 0; i < gone; i++)
      assert_int_equal(nxmem_release(s.stage.allocator, s.members[i], NULL, NULL), NXMEM_ERR_STALE_HANDLE);
    for (int i = gone; i < MEMBERS; i++) nx_must_release(s.stage.allocator, s.members[i]);
    assert_int_equal(nx_owned(s.stage.allocator), place == 0 ? 0 : 3 * G);
    nx_group_strike(&s);
  }
}

/* ---- Nothing may be used instead --------------------------------------------------------------------------------- */

typedef struct stuck_row {
  const char *name;
  nx_modes modes;
  uint32_t release_code;
} stuck_row;

static const stuck_row stuck_rows[] = {{"those that mapped it are kept", 0, NXMEM_STATUS_RELEASE_QUARANTINED},
                                       {"those that mapped it are not taken back", 0, NXMEM_STATUS_DEVICE_ERROR}};

static void test_stuck(void **state) {
  const nx_case *c = *state;
  const stuck_row *row = c->row;
  nx_group s = nx_group_set(c);
  play.share_fails_at = 3;
  play.share_code = NXMEM_STATUS_DEVICE_ERROR;
  play.release_code = row->release_code;
  nxmem_group_outcome outcome = NXMEM_GROUP_SHARED;
  nxmem_error error = nx_blank_error();
  const nx_refusal want = {NXMEM_ERR_PLUGIN, 0, 0, 0, 0, NXMEM_STATUS_DEVICE_ERROR};
  nx_assert_refused(nx_group_commit(&s, MEMBERS, &outcome, &error), &error, want);
  assert_int_equal(outcome, NXMEM_GROUP_QUARANTINED);
  assert_non_null(strstr(error.message, "could not be released"));
  assert_int_equal(nx_play_calls(NX_PLAY_RELEASE), 2);
  assert_int_equal(nx_counts(s.stage.host).live_allocations, 2);
  assert_int_equal(nx_counts(s.stage.host).quarantined, 2);
  assert_int_equal(nx_counts(s.stage.host).quarantined_bytes, 2 * 8 * G);
  play.release_code = NXMEM_STATUS_OK;
  for (int i = 0; i < 2; i++) {
    assert_int_equal(nxmem_release(s.stage.allocator, s.members[i], NULL, NULL), NXMEM_ERR_QUARANTINED);
    free(s.members[i].ptr);
  }
  for (int i = 2; i < MEMBERS; i++) nx_must_release(s.stage.allocator, s.members[i]);
  assert_int_equal(nx_charged(s.stage.allocator), 2 * 4 * G); /* stays charged */
  assert_int_equal(nxmem_prefix_release(s.prefix, NULL), NXMEM_OK);
  nx_must_close(s.stage.allocator);
  nx_force_leak(s.stage.host, s.stage.plugin, s.stage.path);
  nx_host_gone(s.stage.host);
}

/* ---- The books are full ------------------------------------------------------------------------------------------ */

static void test_full(void **state) {
  const nx_case *c = *state;
  nx_group s = nx_group_set(c);
  puppet.own_numbers = 1;
  puppet.mapped = TWO_63 - 8 * G; /* room for one commit more, and a granule */
  const nxmem_allocation large = nx_must_reserve(s.stage.allocator, 8 * G, 1);
  nxmem_group_outcome outcome = NXMEM_GROUP_SHARED;
  nxmem_error error = nx_blank_error();
  const nx_refusal want = {NXMEM_ERR_CONTRACT, NXMEM_REASON_TOTAL_TOO_LARGE, 16, 3 * G, G, 0};
  nx_assert_refused(nx_group_commit(&s, 2, &outcome, &error), &error, want);
  assert_int_equal(outcome, NXMEM_GROUP_PRIVATE);
  assert_int_equal(nx_counts(s.stage.host).live_allocations, 3);
  for (int i = 2; i < MEMBERS; i++) nx_must_release(s.stage.allocator, s.members[i]);
  nx_must_release(s.stage.allocator, large);
  nx_group_strike(&s);
}

/* ---- Lists that are not good ------------------------------------------------------------------------------------- */

static void assert_untouched(nx_group *s, nxmem_group_outcome outcome) {
  assert_int_equal(outcome, NXMEM_GROUP_PRIVATE);
  assert_int_equal(nx_play_calls(NX_PLAY_SHARE), 0);
  assert_int_equal(nx_play_calls(NX_PLAY_RELEASE), 0);
  assert_int_equal(nx_counts(s->stage.host).live_allocations, MEMBERS);
}

typedef struct list_row {
  const char *name;
  nx_modes modes;
  nxmem_result want;
  void (*arrange)(nx_group *s, nxmem_allocation *last); /* changes the last one named */
} list_row;

static nxmem_allocator sibling;
static nxmem_allocation sibling_block;

static void named_twice(nx_group *s, nxmem_allocation *last) { *last = s->members[0]; }
static void of_sibling(nx_group *s, nxmem_allocation *last) {
  sibling = nx_must_open_mechanism(s->stage.plugin, "puppet");
  *last = sibling_block = nx_must_reserve(sibling, 8 * G, 1);
  nxmem_host_counts counts = nx_counts(s->stage.host);
  assert_int_equal(counts.live_allocations, MEMBERS + 1);
}
static void of_nobody(nx_group *s, nxmem_allocation *last) {
  (void)s;
  last->id += 0x100000000ull;
}
static void other_address(nx_group *s, nxmem_allocation *last) {
  (void)s;
  last->ptr = (uint8_t *)last->ptr + 1;
}
static void nothing(nx_group *s, nxmem_allocation *last) {
  (void)s;
  *last = (nxmem_allocation){0, NULL};
}

static const list_row list_rows[] = {
    {"an allocation named twice", 0, NXMEM_ERR_INVALID_ARGUMENT, named_twice},
    {"a sibling's allocation", 0, NXMEM_ERR_WRONG_OWNER, of_sibling},
    {"nobody's allocation", 0, NXMEM_ERR_STALE_HANDLE, of_nobody},
    {"an allocation at another address", 0, NXMEM_ERR_MISMATCH, other_address},
    {"no allocation", 0, NXMEM_ERR_STALE_HANDLE, nothing},
};

static void test_list(void **state) {
  const nx_case *c = *state;
  const list_row *row = c->row;
  nx_group s = nx_group_set(c);
  nxmem_allocation named[MEMBERS];
  memcpy(named, s.members, sizeof named);
  sibling.id = 0;
  row->arrange(&s, &named[MEMBERS - 1]);
  nxmem_group_outcome outcome = NXMEM_GROUP_QUARANTINED;
  nxmem_error error = nx_blank_error();
  nx_assert_code(nxmem_prefix_commit(s.prefix, named, MEMBERS, 2 * G, &outcome, &error), &error, row->want);
  if (sibling.id != 0) {
    nx_must_release(sibling, sibling_block);
    atomic_fetch_sub(&play.calls[NX_PLAY_RELEASE], 1);
    nx_must_close(sibling);
  }
  assert_untouched(&s, outcome);
  for (int i = 0; i < MEMBERS; i++) nx_must_release(s.stage.allocator, s.members[i]);
  nx_group_strike(&s);
}

typedef struct offset_row {
  const char *name;
  nx_modes modes;
  uint64_t offset;
  uint32_t reason, field;
  uint64_t found, needed;
} offset_row;

static const offset_row offset_rows[] = {
    {"a prefix that reaches one byte too far", 0, 5 * G + 6, NXMEM_REASON_BYTES_OUTSIDE, 72, BYTES, BYTES - 1},
    {"a prefix behind the end", 0, 8 * G + 1, NXMEM_REASON_OFFSET_OUTSIDE, 64, 8 * G + 1, 8 * G},
    {"a prefix at 2^64-1", 0, ALL_ONES, NXMEM_REASON_OFFSET_OUTSIDE, 64, ALL_ONES, 8 * G},
};

static void test_offset(void **state) {
  const nx_case *c = *state;
  const offset_row *row = c->row;
  nx_group s = nx_group_set(c);
  nxmem_group_outcome outcome = NXMEM_GROUP_QUARANTINED;
  nxmem_error error = nx_blank_error();
  const nx_refusal want = {NXMEM_ERR_INVALID_ARGUMENT, row->reason, row->field, row->found, row->needed, 0};
  nx_assert_refused(nxmem_prefix_commit(s.prefix, s.members, MEMBERS, row->offset, &outcome, &error), &error, want);
  assert_untouched(&s, outcome);
  assert_int_equal(nxmem_prefix_commit(s.prefix, s.members, 1, 5 * G + 5, &outcome, NULL), NXMEM_OK); /* just inside */
  for (int i = 0; i < MEMBERS; i++) nx_must_release(s.stage.allocator, s.members[i]);
  nx_group_strike(&s);
}

static void test_arguments(void **state) {
  const nx_case *c = *state;
  nx_group s = nx_group_set(c);
  nxmem_group_outcome outcome = NXMEM_GROUP_PRIVATE;
  nxmem_error error = nx_blank_error();
  nx_assert_code(nxmem_prefix_commit(s.prefix, NULL, 1, 0, &outcome, &error), &error, NXMEM_ERR_INVALID_ARGUMENT);
  nx_assert_code(nxmem_prefix_commit(s.prefix, s.members, 0, 0, &outcome, &error), &error, NXMEM_ERR_INVALID_ARGUMENT);
  nx_assert_code(nxmem_prefix_commit(s.prefix, s.members, 1, 0, NULL, &error), &error, NXMEM_ERR_INVALID_ARGUMENT);
  outcome = NXMEM_GROUP_QUARANTINED;
  const nxmem_prefix stranger = {s.prefix.id + 0x100000000ull};
  nx_assert_code(nxmem_prefix_commit(stranger, s.members, 1, 0, &outcome, &error), &error, NXMEM_ERR_STALE_HANDLE);
  assert_untouched(&s, outcome);
  for (int i = 0; i < MEMBERS; i++) nx_must_release(s.stage.allocator, s.members[i]);
  nx_group_strike(&s);
}

static void test_no_slot(void **state) {
  const nx_case *c = *state;
  nx_play_reset();
  puppet.sharing.commit_shared_prefix = NULL;
  nx_group s;
  s.stage = nx_stage_set(c->mode);
  assert_int_equal(nxmem_prefix_create(s.stage.allocator, BYTES, &s.prefix, NULL), NXMEM_OK);
  s.members[0] = nx_must_reserve(s.stage.allocator, 8 * G, 1);
  nxmem_group_outcome outcome = NXMEM_GROUP_QUARANTINED;
  nxmem_error error = nx_blank_error();
  nx_assert_code(nx_group_commit(&s, 1, &outcome, &error), &error, NXMEM_ERR_UNSUPPORTED_CAPABILITY);
  assert_non_null(strstr(error.message, "shared_mapping.commit_shared_prefix"));
  assert_int_equal(outcome, NXMEM_GROUP_PRIVATE);
  nx_must_release(s.stage.allocator, s.members[0]);
  nx_group_strike(&s);
}

/* ---- From inside a commit ---------------------------------------------------------------------------------------- */

static nx_group *scene_inside;
static nxmem_result results_inside[4];

static void use_inside(nx_play_slot slot) {
  if (slot != NX_PLAY_SHARE) return;
  play.inside = NULL;
  nxmem_group_outcome outcome;
  const nxmem_allocator a = scene_inside->stage.allocator;
  const nxmem_allocation last = scene_inside->members[MEMBERS - 1];
  results_inside[0] = nxmem_release(a, last, NULL, NULL);
  results_inside[1] = nxmem_commit(a, last, (NxmemByteRange){0, G}, NULL);
  results_inside[2] = nx_group_commit(scene_inside, MEMBERS, &outcome, NULL);
  results_inside[3] = nxmem_prefix_release(scene_inside->prefix, NULL);
}

/* All of the group is the commit's alone, from the first to the last; the prefix itself may lose its last reference. */
static void test_inside(void **state) {
  const nx_case *c = *state;
  nx_group s = nx_group_set(c);
  assert_int_equal(nxmem_prefix_retain(s.prefix, NULL), NXMEM_OK);
  scene_inside = &s;
  play.inside = use_inside;
  nxmem_group_outcome outcome = NXMEM_GROUP_QUARANTINED;
  assert_int_equal(nx_group_commit(&s, MEMBERS, &outcome, NULL), NXMEM_OK);
  assert_int_equal(outcome, NXMEM_GROUP_SHARED);
  for (int i = 0; i < 3; i++) assert_int_equal(results_inside[i], NXMEM_ERR_BUSY);
  assert_int_equal(results_inside[3], NXMEM_OK);
  assert_int_equal(nx_play_calls(NX_PLAY_SHARE), MEMBERS);
  for (int i = 0; i < MEMBERS; i++) nx_must_release(s.stage.allocator, s.members[i]);
  nx_group_strike(&s);
}

#define ONE(name, test) static const nx_row_head name##_rows[] = {{test, NX_BOTH_MODES}}
ONE(shared, "all of a group");
ONE(full, "a group beyond 2^63");
ONE(argument, "a group without arguments");
ONE(slot, "a group without the slot");
ONE(inside, "calls while a group is committed");

int main(void) {
  alarm(250);
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(shared_rows), test_shared);
  nx_suite_modes(&suite, ROWS(fail_rows), test_private);
  nx_suite_modes(&suite, ROWS(stuck_rows), test_stuck);
  nx_suite_modes(&suite, ROWS(full_rows), test_full);
  nx_suite_modes(&suite, ROWS(list_rows), test_list);
  nx_suite_modes(&suite, ROWS(offset_rows), test_offset);
  nx_suite_modes(&suite, ROWS(argument_rows), test_arguments);
  nx_suite_modes(&suite, ROWS(slot_rows), test_no_slot);
  nx_suite_modes(&suite, ROWS(inside_rows), test_inside);
  return nx_suite_run(&suite, "host_group");
}
