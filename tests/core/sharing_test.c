/*
 * sharing_test.c: prefixes, what commits of them cost, and groups, row by row.
 *
 * Attackers played: handles that are short, foreign, unwritten or for another size; costs that cannot be; commits and
 * roll-backs in doubt.
 * Promise: what is kept is the allocator's own, each field of it was loaded once, and a group has one of three ends.
 */
#include "nxmem/sharing.h"

#include "support.h"
#include "watch.h"

#define ALLOW \
  { NXMEM_REASON_NONE, 0, 0, 0 }
#define TOP 0x8000000000000000ull
#define ALL UINT64_MAX
#define G NXMEM_GRANULE_MAX
enum { MECHANISM = 55 };
static const NxmemDeviceId device = {1, 4};

/* ---- Handles ---- */

static NxmemSharedPrefixHandle good(void) {
  return (NxmemSharedPrefixHandle){.struct_size = 64,
                                   .reserved = 0xEEEEEEEEu,
                                   .mechanism_id = MECHANISM,
                                   .handle = 9,
                                   .device = device,
                                   .device_ptr = 0x10000,
                                   .committed_physical_bytes = 4096,
                                   .mapped_bytes = 8192,
                                   .requested_bytes = 100};
}

typedef struct handle_row {
  const char *name;
  size_t field; /* 4 bytes at 0, 24 and 28, else 8 */
  uint64_t value;
  nxmem_verdict want;
} handle_row;

static const handle_row handle_rows[] = {
    {"handle: as asked for", 16, 9, ALLOW},
    {"handle: number 0", 16, 0, ALLOW},
    {"handle: mapped nowhere", 32, 0, ALLOW},
    {"handle: larger than ours", 0, 0xFFFFFFFFu, ALLOW},
    {"handle: owns nothing yet", 40, 0, ALLOW},
    {"handle: owns the most", 40, G, ALLOW},
    {"handle: maps the most", 48, G, ALLOW},
    {"handle: size 0", 0, 0, {NXMEM_REASON_SHORT_PREFIX, 0, 0, 64}},
    {"handle: size 63", 0, 63, {NXMEM_REASON_SHORT_PREFIX, 0, 63, 64}},
    {"handle: another mechanism", 8, 56, {NXMEM_REASON_OTHER_MECHANISM, 8, 56, 55}},
    {"handle: mechanism unwritten", 8, 0, {NXMEM_REASON_OTHER_MECHANISM, 8, 0, 55}},
    {"handle: another tier", 24, 2, {NXMEM_REASON_OTHER_DEVICE, 24, 0x200000004ull, 0x100000004ull}},
    {"handle: another index", 28, 5, {NXMEM_REASON_OTHER_DEVICE, 24, 0x100000005ull, 0x100000004ull}},
    {"handle: number unwritten", 16, ALL, {NXMEM_REASON_NO_PREFIX_HANDLE, 16, ALL, 0}},
    {"handle: for another size", 56, 101, {NXMEM_REASON_OTHER_REQUEST, 56, 101, 100}},
    {"handle: size unwritten", 56, ALL, {NXMEM_REASON_OTHER_REQUEST, 56, ALL, 100}},
    {"handle: owns one byte more", 40, G + 1, {NXMEM_REASON_MORE_THAN_POSSIBLE, 40, G + 1, G}},
    {"handle: owns 2^64-1", 40, ALL, {NXMEM_REASON_MORE_THAN_POSSIBLE, 40, ALL, G}},
    {"handle: maps one byte more", 48, G + 1, {NXMEM_REASON_MORE_THAN_POSSIBLE, 48, G + 1, G}},
    {"handle: maps 2^64-1", 48, ALL, {NXMEM_REASON_MORE_THAN_POSSIBLE, 48, ALL, G}},
};

static void test_handle(void **state) {
  const handle_row *row = *state;
  NxmemSharedPrefixHandle *handle = (NxmemSharedPrefixHandle *)(void *)nx_exact_block(sizeof *handle);
  *handle = good();
  uint8_t *at = (uint8_t *)handle + row->field;
  if (row->field == 0 || row->field == 24 || row->field == 28)
    nx_put32(at, (uint32_t)row->value);
  else
    nx_put64(at, row->value);
  nx_assert_verdict(nxmem_check_prefix_handle(handle, MECHANISM, device, 100), row->want);
  free(handle);
}

/* What is refused first is named first: each row is wrong in everything from there on. */
static void test_handle_order(void **state) {
  (void)state;
  NxmemSharedPrefixHandle handle = {63, 0, 1, ALL, {9, 9}, 0, ALL, ALL, 7};
  assert_int_equal(nxmem_check_prefix_handle(&handle, MECHANISM, device, 100).reason, NXMEM_REASON_SHORT_PREFIX);
  handle.struct_size = 64;
  assert_int_equal(nxmem_check_prefix_handle(&handle, MECHANISM, device, 100).reason, NXMEM_REASON_OTHER_MECHANISM);
  handle.mechanism_id = MECHANISM;
  assert_int_equal(nxmem_check_prefix_handle(&handle, MECHANISM, device, 100).reason, NXMEM_REASON_OTHER_DEVICE);
  handle.device = device;
  assert_int_equal(nxmem_check_prefix_handle(&handle, MECHANISM, device, 100).reason, NXMEM_REASON_NO_PREFIX_HANDLE);
  handle.handle = 1;
  assert_int_equal(nxmem_check_prefix_handle(&handle, MECHANISM, device, 100).reason, NXMEM_REASON_OTHER_REQUEST);
  handle.requested_bytes = 100;
  assert_int_equal(nxmem_check_prefix_handle(&handle, MECHANISM, device, 100).field, 40);
  handle.committed_physical_bytes = 1;
  assert_int_equal(nxmem_check_prefix_handle(&handle, MECHANISM, device, 100).field, 48);
}

static void test_may_go_back(void **state) {
  (void)state;
  for (uint32_t reason = 0; reason < 256; reason++)
    assert_int_equal(nxmem_prefix_may_go_back(reason),
                     reason == NXMEM_REASON_OTHER_REQUEST || reason == NXMEM_REASON_MORE_THAN_POSSIBLE);
}

static void test_handle_take(void **state) {
  (void)state;
  nx_watch watch;
  nx_watch_open(&watch, sizeof(NxmemSharedPrefixHandle));
  const NxmemSharedPrefixHandle given = good();
  memcpy(watch.record, &given, sizeof given);
  NxmemSharedPrefixHandle taken;
  memset(&taken, 0xA5, sizeof taken);
  nx_watch_arm(&watch);
  nxmem_prefix_handle_take((const volatile NxmemSharedPrefixHandle *)(void *)watch.record, &taken);
  nx_watch_disarm(&watch);
  nx_watch_assert_single_fetch(&watch, 64);
  assert_int_equal(nx_watch_count(&watch, 4), 0);
  NxmemSharedPrefixHandle want = given;
  want.reserved = 0;
  assert_memory_equal(&taken, &want, sizeof want);
  nx_watch_close(&watch);
}

/* ---- Commits ---- */

typedef struct info_row {
  const char *name;
  uint64_t owned, mapped, granules;
  uint64_t owned_total, mapped_total;
  nxmem_verdict want;
} info_row;

#define MORE(field, found) \
  { NXMEM_REASON_MORE_THAN_POSSIBLE, field, found, 2 * G }
#define LARGE(field, found, room) \
  { NXMEM_REASON_TOTAL_TOO_LARGE, field, found, room }

/* Of two bytes over a boundary: two granules of the largest kind. */
static const info_row info_rows[] = {
    {"info: nothing new", 0, 0, 0, TOP, TOP, ALLOW},
    {"info: an honest one", 4096, 8192, 2, 0, 0, ALLOW},
    {"info: the most", 2 * G, 2 * G, 2 * G, 0, 0, ALLOW},
    {"info: fills both books", 5, 6, 1, TOP - 5, TOP - 6, ALLOW},
    {"info: owns one more", 2 * G + 1, 0, 1, 0, 0, MORE(8, 2 * G + 1)},
    {"info: owned unwritten", ALL, 0, 1, 0, 0, MORE(8, ALL)},
    {"info: maps one more", 0, 2 * G + 1, 1, 0, 0, MORE(16, 2 * G + 1)},
    {"info: mapped unwritten", 0, ALL, 1, 0, 0, MORE(16, ALL)},
    {"info: a granule more than bytes", 0, 0, 2 * G + 1, 0, 0, MORE(24, 2 * G + 1)},
    {"info: granules unwritten", 0, 0, ALL, 0, 0, MORE(24, ALL)},
    {"info: owned comes first", ALL, ALL, ALL, TOP, TOP, MORE(8, ALL)},
    {"info: mapped comes second", 1, ALL, ALL, TOP, TOP, MORE(16, ALL)},
    {"info: the possible comes before the room", 1, 1, ALL, TOP, TOP, MORE(24, ALL)},
    {"info: no room to own", 5, 5, 1, TOP - 4, TOP, LARGE(8, 5, 4)},
    {"info: no room to map", 5, 5, 1, TOP - 5, TOP - 4, LARGE(16, 5, 4)},
};

static void test_info(void **state) {
  const info_row *row = *state;
  const NxmemSharedPrefixCommitInfo info = {32, 0, row->owned, row->mapped, row->granules};
  const nxmem_prefix_place place = {G - 1, 2, row->owned_total, row->mapped_total};
  nx_assert_verdict(nxmem_check_commit_info(&info, &place), row->want);
}

static void test_info_at_the_top(void **state) {
  (void)state;
  const NxmemSharedPrefixCommitInfo info = {32, 0, 0, TOP, 0};
  const nxmem_prefix_place place = {1, ALL - 1, 0, 0};
  nx_assert_verdict(nxmem_check_commit_info(&info, &place), (nxmem_verdict)ALLOW);
}

static void test_info_take(void **state) {
  (void)state;
  nx_watch watch;
  nx_watch_open(&watch, sizeof(NxmemSharedPrefixCommitInfo));
  const NxmemSharedPrefixCommitInfo given = {77, 0xEEEEEEEEu, 1ull << 40, 2ull << 40, 3ull << 40};
  memcpy(watch.record, &given, sizeof given);
  NxmemSharedPrefixCommitInfo taken;
  memset(&taken, 0xA5, sizeof taken);
  nx_watch_arm(&watch);
  nxmem_commit_info_take((const volatile NxmemSharedPrefixCommitInfo *)(void *)watch.record, &taken);
  nx_watch_disarm(&watch);
  nx_watch_assert_single_fetch(&watch, 32);
  assert_int_equal(nx_watch_count(&watch, 4), 0);
  NxmemSharedPrefixCommitInfo want = given;
  want.reserved = 0;
  assert_memory_equal(&taken, &want, sizeof want);
  nx_watch_close(&watch);
}

static void test_owned_once(void **state) {
  (void)state;
  assert_int_equal(nxmem_prefix_owned_once(5, 0), 5);
  assert_int_equal(nxmem_prefix_owned_once(0, 0), 0);
  assert_int_equal(nxmem_prefix_owned_once(ALL, 0), ALL);
  assert_int_equal(nxmem_prefix_owned_once(5, 1), 0);
  assert_int_equal(nxmem_prefix_owned_once(5, ALL), 0);
  assert_int_equal(nxmem_prefix_owned_once(0, 5), 0);
}

/* ---- Groups ---- */

typedef struct share_row {
  const char *name;
  uint32_t code, reason;
  nxmem_share_fate want;
} share_row;

static const share_row share_rows[] = {
    {"commit: OK and believed", 0, 0, NXMEM_SHARE_MAPPED},
    {"commit: OK and not believed", 0, NXMEM_REASON_MORE_THAN_POSSIBLE, NXMEM_SHARE_DOUBTFUL},
    {"commit: OK beyond the books", 0, NXMEM_REASON_TOTAL_TOO_LARGE, NXMEM_SHARE_DOUBTFUL},
    {"commit: refused", 8, 0, NXMEM_SHARE_REFUSED},
    {"commit: refused, whatever it wrote", 8, NXMEM_REASON_MORE_THAN_POSSIBLE, NXMEM_SHARE_REFUSED},
    {"commit: quarantined", 12, 0, NXMEM_SHARE_DOUBTFUL},
    {"commit: a code nobody knows", 0xFFFFFFFFu, 0, NXMEM_SHARE_REFUSED},
};

static void test_share(void **state) {
  const share_row *row = *state;
  assert_int_equal(nxmem_judge_prefix_commit(row->code, row->reason), row->want);
}

typedef struct group_row {
  const char *name;
  uint32_t asked, mapped, kept;
  nxmem_group_fate want;
} group_row;

static const group_row group_rows[] = {
    {"group: all of one", 1, 1, 0, NXMEM_GROUP_FATE_SHARED},
    {"group: all of many", 0xFFFFFFFFu, 0xFFFFFFFFu, 0, NXMEM_GROUP_FATE_SHARED},
    {"group: none", 3, 0, 0, NXMEM_GROUP_FATE_PRIVATE},
    {"group: all but one", 3, 2, 0, NXMEM_GROUP_FATE_PRIVATE},
    {"group: one kept", 3, 2, 1, NXMEM_GROUP_FATE_QUARANTINED},
    {"group: the doubtful one kept", 3, 0, 1, NXMEM_GROUP_FATE_QUARANTINED},
    {"group: one kept though all are counted", 3, 3, 1, NXMEM_GROUP_FATE_QUARANTINED},
};

static void test_group(void **state) {
  const group_row *row = *state;
  assert_int_equal(nxmem_judge_group(row->asked, row->mapped, row->kept), row->want);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(handle_rows), test_handle);
  nx_suite_add(&suite, "handle: what is named first", test_handle_order, NULL);
  nx_suite_add(&suite, "handle: what may go back", test_may_go_back, NULL);
  nx_suite_add(&suite, "handle: taken", test_handle_take, NULL);
  nx_suite_rows(&suite, ROWS(info_rows), test_info);
  nx_suite_add(&suite, "info: a span to the top", test_info_at_the_top, NULL);
  nx_suite_add(&suite, "info: taken", test_info_take, NULL);
  nx_suite_add(&suite, "info: owned once", test_owned_once, NULL);
  nx_suite_rows(&suite, ROWS(share_rows), test_share);
  nx_suite_rows(&suite, ROWS(group_rows), test_group);
  return nx_suite_run(&suite, "core_sharing");
}
