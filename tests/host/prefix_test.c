/*
 * prefix_test.c: what the host keeps of a prefix's handle, and what it believes of its numbers.
 *
 * Attackers played: plugins whose handle is short, foreign, unwritten, for another size or impossible, and that keep
 * what they are handed back.
 * Promise: nothing but a whole handle of the allocator's own is kept; what was refused is handed back once where it can
 * only be what was made for this call, and quarantined where not.
 */
#include <unistd.h>

#include "nxmem/outcome.h"
#include "puppet_backing.h"

#define ALL_ONES 0xFFFFFFFFFFFFFFFFull
#define GIB 0x40000000ull
#define G NX_PLAY_GRANULE
enum { BYTES = 3 * NX_PLAY_GRANULE - 5 };

static nx_stage set(const nx_case *c) {
  nx_play_reset();
  return nx_stage_set(c->mode);
}

static nxmem_prefix must_create(nxmem_allocator allocator) {
  nxmem_prefix made = {0};
  nxmem_error error = nx_blank_error();
  if (nxmem_prefix_create(allocator, BYTES, &made, &error) != NXMEM_OK) fail_msg("%s", error.message);
  return made;
}

static nxmem_prefix_info info_of(nxmem_prefix prefix) {
  nxmem_prefix_info info;
  assert_int_equal(nxmem_prefix_get_info(prefix, &info, NULL), NXMEM_OK);
  return info;
}

static uint64_t references(nxmem_prefix prefix) { return info_of(prefix).references; }
static uint64_t violations(nxmem_host host) { return nx_counts(host).contract_violations; }

/* ---- What is asked, and what is kept ----------------------------------------------------------------------------- */

static void test_life(void **state) {
  const nx_case *c = *state;
  nx_stage stage = set(c);
  const nxmem_prefix prefix = must_create(stage.allocator);
  const NxmemSharedPrefixHandle offered = play.handle; /* what the plugin found in the room it was given */
  assert_int_equal(offered.struct_size, 64);
  assert_int_equal(offered.handle, ALL_ONES);
  assert_int_equal(offered.requested_bytes, ALL_ONES);
  assert_int_equal(offered.committed_physical_bytes, ALL_ONES);
  const nxmem_prefix_info info = info_of(prefix);
  assert_int_equal(info.bytes, BYTES);
  assert_int_equal(info.committed_physical_bytes, 3 * G);
  assert_int_equal(info.mapped_bytes, 3 * G);
  assert_int_equal(info.references, 1);
  assert_int_equal(info.next_commit_owned_bytes, 3 * G);
  assert_int_equal(play.handle.struct_size, 64);
  assert_int_equal(play.handle.mechanism_id, 77);
  assert_int_equal(play.handle.handle, 1);
  assert_int_equal(play.handle.requested_bytes, BYTES);
  assert_int_equal(nx_counts(stage.host).live_prefixes, 1);
  assert_int_equal(nx_charged(stage.allocator), 0); /* its bytes are charged by commits */
  assert_int_equal(nxmem_prefix_release(prefix, NULL), NXMEM_OK);
  assert_int_equal(nx_counts(stage.host).live_prefixes, 0);
  assert_int_equal(nx_play_calls(NX_PLAY_RELEASE_PREFIX), 1);
  nx_stage_strike(&stage);
}

/* A plugin of a later minor may write a longer record: what it gets back is ours, whole. */
static void longer(NxmemSharedPrefixHandle *h) { h->struct_size = 4096; }

static void test_longer(void **state) {
  const nx_case *c = *state;
  nx_stage stage = set(c);
  play.spoil_handle = longer;
  const nxmem_prefix prefix = must_create(stage.allocator);
  assert_int_equal(references(prefix), 1);
  assert_int_equal(play.handle.struct_size, 64);
  assert_int_equal(nxmem_prefix_release(prefix, NULL), NXMEM_OK);
  nx_stage_strike(&stage);
}

/* ---- Handles that are not believed ------------------------------------------------------------------------------- */

typedef struct lie_row {
  const char *name;
  nx_modes modes;
  void (*spoil)(NxmemSharedPrefixHandle *handle); /* NULL: nothing is written at all */
  uint32_t reason, field;
  uint64_t found, needed;
  int goes_back; /* handed back once */
} lie_row;

static void empty(NxmemSharedPrefixHandle *h) { h->struct_size = 0; }
static void one_short(NxmemSharedPrefixHandle *h) { h->struct_size = 63; }
static void other_mechanism(NxmemSharedPrefixHandle *h) { h->mechanism_id = 78; }
static void other_device(NxmemSharedPrefixHandle *h) { h->device.index = 3; }
static void no_tier(NxmemSharedPrefixHandle *h) { h->device.tier = 0xFFFFFFFFu; }
static void no_number(NxmemSharedPrefixHandle *h) { h->handle = ALL_ONES; }
static void other_size(NxmemSharedPrefixHandle *h) { h->requested_bytes = BYTES - 1; }
static void no_size(NxmemSharedPrefixHandle *h) { h->requested_bytes = ALL_ONES; }
static void much_physical(NxmemSharedPrefixHandle *h) { h->committed_physical_bytes = GIB + 1; }
static void no_physical(NxmemSharedPrefixHandle *h) { h->committed_physical_bytes = ALL_ONES; }
static void much_mapped(NxmemSharedPrefixHandle *h) { h->mapped_bytes = GIB + 1; }
static void no_mapped(NxmemSharedPrefixHandle *h) { h->mapped_bytes = ALL_ONES; }

#define HOST(index) (0x100000000ull + (index))
static const lie_row lie_rows[] = {
    {"a handle of size 0", 0, empty, NXMEM_REASON_SHORT_PREFIX, 0, 0, 64, 0},
    {"a handle of size 63", 0, one_short, NXMEM_REASON_SHORT_PREFIX, 0, 63, 64, 0},
    {"a handle of another mechanism", 0, other_mechanism, NXMEM_REASON_OTHER_MECHANISM, 8, 78, 77, 0},
    {"a handle of another device", 0, other_device, NXMEM_REASON_OTHER_DEVICE, 24, HOST(3), HOST(0), 0},
    {"a handle of no tier", 0, no_tier, NXMEM_REASON_OTHER_DEVICE, 24, 0xFFFFFFFF00000000ull, HOST(0), 0},
    {"a handle without a number", 0, no_number, NXMEM_REASON_NO_PREFIX_HANDLE, 16, ALL_ONES, 0, 0},
    {"a handle for another size", 0, other_size, NXMEM_REASON_OTHER_REQUEST, 56, BYTES - 1, BYTES, 1},
    {"a handle for 2^64-1 bytes", 0, no_size, NXMEM_REASON_OTHER_REQUEST, 56, ALL_ONES, BYTES, 1},
    {"a prefix that owns too much", 0, much_physical, NXMEM_REASON_MORE_THAN_POSSIBLE, 40, GIB + 1, GIB, 1},
    {"a prefix that owns 2^64-1 bytes", 0, no_physical, NXMEM_REASON_MORE_THAN_POSSIBLE, 40, ALL_ONES, GIB, 1},
    {"a prefix that maps too much", 0, much_mapped, NXMEM_REASON_MORE_THAN_POSSIBLE, 48, GIB + 1, GIB, 1},
    {"a prefix that maps 2^64-1 bytes", 0, no_mapped, NXMEM_REASON_MORE_THAN_POSSIBLE, 48, ALL_ONES, GIB, 1},
    {"a handle left unwritten", 0, NULL, NXMEM_REASON_OTHER_MECHANISM, 8, 0, 77, 0},
};

/* What goes back and is taken is settled; all else is quarantined, under the reason it was refused for. */
static void refuse_one(const nx_case *c, uint32_t release_code) {
  const lie_row *row = c->row;
  nx_stage stage = set(c);
  play.spoil_handle = row->spoil;
  play.leave_handle = row->spoil == NULL;
  play.release_prefix_code = release_code;
  nxmem_prefix none = {0x5A5A};
  nxmem_error error = nx_blank_error();
  const nx_refusal want = {NXMEM_ERR_CONTRACT, row->reason, row->field, row->found, row->needed, 0};
  nx_assert_refused(nxmem_prefix_create(stage.allocator, BYTES, &none, &error), &error, want);
  assert_int_equal(none.id, 0x5A5A);
  assert_int_equal(nx_play_calls(NX_PLAY_RELEASE_PREFIX), row->goes_back);
  const int kept = !row->goes_back || release_code != NXMEM_STATUS_OK;
  const nxmem_host_counts counts = nx_counts(stage.host);
  assert_int_equal(counts.contract_violations, 1);
  assert_int_equal(counts.live_prefixes, 0);
  assert_int_equal(counts.quarantined, kept);
  assert_int_equal(counts.quarantined_bytes, kept ? BYTES : 0);
  nxmem_quarantined listed;
  uint32_t count = 0;
  assert_int_equal(nxmem_host_quarantine(stage.host, 0, &listed, 1, &count, NULL, NULL), NXMEM_OK);
  assert_int_equal(count, kept);
  if (kept) {
    assert_int_equal(listed.reason, row->reason);
    assert_int_equal(listed.bytes, BYTES);
    assert_int_equal(listed.plugin_status, row->goes_back ? release_code : 0);
    nx_must_close(stage.allocator); /* it keeps the module, not the allocator */
    nx_force_leak(stage.host, stage.plugin, stage.path);
    nx_host_gone(stage.host);
  } else {
    nx_stage_strike(&stage);
  }
}

static void test_lie(void **state) { refuse_one(*state, NXMEM_STATUS_OK); }
static void test_lie_kept(void **state) { refuse_one(*state, NXMEM_STATUS_DEVICE_ERROR); }

static void test_create_refused(void **state) {
  const nx_case *c = *state;
  nx_stage stage = set(c);
  play.create_code = NXMEM_STATUS_OUT_OF_MEMORY;
  nxmem_prefix none = {0x5A5A};
  nxmem_error error = nx_blank_error();
  const nx_refusal want = {NXMEM_ERR_PLUGIN, 0, 0, 0, 0, NXMEM_STATUS_OUT_OF_MEMORY};
  nx_assert_refused(nxmem_prefix_create(stage.allocator, BYTES, &none, &error), &error, want);
  assert_int_equal(none.id, 0x5A5A);
  error = nx_blank_error();
  nx_assert_code(nxmem_prefix_create(stage.allocator, 0, &none, &error), &error, NXMEM_ERR_INVALID_ARGUMENT);
  error = nx_blank_error();
  nx_assert_code(nxmem_prefix_create(stage.allocator, 1, NULL, &error), &error, NXMEM_ERR_INVALID_ARGUMENT);
  assert_int_equal(nx_play_calls(NX_PLAY_CREATE), 1);
  assert_int_equal(nx_play_calls(NX_PLAY_RELEASE_PREFIX), 0);
  assert_int_equal(nx_counts(stage.host).quarantined, 0);
  nx_stage_strike(&stage);
}

/* ---- Numbers of the info ----------------------------------------------------------------------------------------- */

typedef struct info_row {
  const char *name;
  nx_modes modes;
  nx_play_number incremental;
  nx_refusal want;
} info_row;

#define IMPOSSIBLE(found) \
  { NXMEM_ERR_CONTRACT, NXMEM_REASON_MORE_THAN_POSSIBLE, 0, found, GIB, 0 }

static const info_row info_rows[] = {
    {"a next commit of 2^64-1 bytes", 0, {0, 1, ALL_ONES, 0}, IMPOSSIBLE(ALL_ONES)},
    {"a next commit left unwritten", 0, {0, 0, 0, 1}, IMPOSSIBLE(ALL_ONES)},
    {"a next commit beyond what is possible", 0, {0, 1, GIB + 1, 0}, IMPOSSIBLE(GIB + 1)},
    {"a next commit that is refused", 0, {5, 0, 0, 0}, {NXMEM_ERR_PLUGIN, 0, 0, 0, 0, 5}},
};

static void test_info(void **state) {
  const nx_case *c = *state;
  const info_row *row = c->row;
  nx_stage stage = set(c);
  const nxmem_prefix prefix = must_create(stage.allocator);
  play.incremental = row->incremental;
  nxmem_prefix_info info = {.bytes = 0x5A5A};
  nxmem_error error = nx_blank_error();
  nx_assert_refused(nxmem_prefix_get_info(prefix, &info, &error), &error, row->want);
  assert_int_equal(info.bytes, 0x5A5A);
  assert_int_equal(violations(stage.host), row->want.result == NXMEM_ERR_CONTRACT);
  assert_int_equal(nxmem_prefix_release(prefix, NULL), NXMEM_OK);
  nx_stage_strike(&stage);
}

#define ONE(name, test) static const nx_row_head name##_rows[] = {{test, NX_BOTH_MODES}}
ONE(life, "the life of a prefix");
ONE(longer, "a longer record");
ONE(refused, "prefixes that are not made");

int main(void) {
  alarm(250);
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(life_rows), test_life);
  nx_suite_modes(&suite, ROWS(longer_rows), test_longer);
  nx_suite_modes(&suite, ROWS(lie_rows), test_lie);
  nx_suite_modes(&suite, ROWS(lie_rows), test_lie_kept);
  nx_suite_modes(&suite, ROWS(refused_rows), test_create_refused);
  nx_suite_modes(&suite, ROWS(info_rows), test_info);
  return nx_suite_run(&suite, "host_prefix");
}
