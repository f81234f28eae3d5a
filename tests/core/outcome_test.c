/*
 * outcome_test.c: what an allocation's or a release's answer means for the books, row by row.
 *
 * Attackers played: impossible addresses and numbers, unwritten and contradictory records.
 * Promise: every doubt is quarantine, no sum wraps, and a refund never exceeds the charge.
 */
#include "nxmem/outcome.h"

#include "support.h"
#include "watch.h"

#define ALLOW \
  { NXMEM_REASON_NONE, 0, 0, 0 }
#define TOP 0x8000000000000000ull
#define ALL UINT64_MAX
#define BAD_ALIGN(align) \
  { NXMEM_REASON_BAD_ALIGNMENT, 0, align, 1 }
#define WRAPS(bytes, align) \
  { NXMEM_REASON_SIZE_WRAPS, 0, bytes, align }

typedef struct request_row {
  const char *name;
  uint64_t bytes;
  uint64_t align;
  nxmem_verdict want;
} request_row;

static const request_row request_rows[] = {
    {"one byte at 1", 1, 1, ALLOW},
    {"one byte at 4096", 1, 4096, ALLOW},
    {"2^64-1 bytes at 1", ALL, 1, ALLOW},
    {"one byte at 2^63", 1, TOP, ALLOW},
    {"2^63 bytes at 2^63", TOP, TOP, ALLOW},
    {"the most bytes at 4096", ALL - 4095, 4096, ALLOW},
    {"one more wraps", ALL - 4094, 4096, WRAPS(ALL - 4094, 4096)},
    {"2^64-1 bytes at 2", ALL, 2, WRAPS(ALL, 2)},
    {"2^63 + 1 bytes at 2^63", TOP + 1, TOP, WRAPS(TOP + 1, TOP)},
    {"no bytes", 0, 16, {NXMEM_REASON_ZERO_BYTES, 0, 0, 1}},
    {"no bytes is named before the alignment", 0, 0, {NXMEM_REASON_ZERO_BYTES, 0, 0, 1}},
    {"alignment 0", 16, 0, BAD_ALIGN(0)},
    {"alignment 3", 16, 3, BAD_ALIGN(3)},
    {"alignment 48", 16, 48, BAD_ALIGN(48)},
    {"alignment 2^64-1", 16, ALL, BAD_ALIGN(ALL)},
};

static void test_request(void **state) {
  const request_row *row = *state;
  nx_assert_verdict(nxmem_check_alloc_request(row->bytes, row->align), row->want);
}

typedef struct result_row {
  const char *name;
  uint64_t address, owned, mapped, bytes, align, owned_total, mapped_total;
  nxmem_verdict want;
} result_row;

#define TOO_LARGE(offset, found, fits) \
  { NXMEM_REASON_TOTAL_TOO_LARGE, offset, found, fits }

static const result_row result_rows[] = {
    {"an honest answer", 0x10000, 4096, 4096, 100, 64, 0, 0, ALLOW},
    {"owns and maps nothing yet", 0x10000, 0, 0, 100, 64, 0, 0, ALLOW},
    {"ends at the last byte below 2^64", ALL - 15, 16, 16, 15, 16, 0, 0, ALLOW},
    {"books filled to exactly 2^63", 0x10000, TOP - 5, TOP - 6, 1, 1, 5, 6, ALLOW},
    {"address 0", 0, 4096, 4096, 100, 64, 0, 0, {NXMEM_REASON_NULL_ADDRESS, 8, 0, 0}},
    {"address 0 is named first", 0, ALL, ALL, ALL, 1, TOP, TOP, {NXMEM_REASON_NULL_ADDRESS, 8, 0, 0}},
    {"address off by one", 0x10001, 1, 1, 1, 2, 0, 0, {NXMEM_REASON_MISALIGNED_ADDRESS, 8, 0x10001, 2}},
    {"address off by half", 0x10800, 1, 1, 1, 4096, 0, 0, {NXMEM_REASON_MISALIGNED_ADDRESS, 8, 0x10800, 4096}},
    {"address + bytes is 2^64", ALL - 15, 1, 1, 16, 16, 0, 0, {NXMEM_REASON_WRAPPING_ADDRESS, 8, ALL - 15, 16}},
    {"2^64-1 bytes at 4096", 4096, 1, 1, ALL, 4096, 0, 0, {NXMEM_REASON_WRAPPING_ADDRESS, 8, 4096, ALL}},
    {"owned one above", 0x10000, TOP - 4, 0, 1, 1, 5, 0, TOO_LARGE(16, TOP - 4, TOP - 5)},
    {"owned 2^64-1", 0x10000, ALL, 0, 1, 1, 0, 0, TOO_LARGE(16, ALL, TOP)},
    {"owned 1 where the books are full", 0x10000, 1, 0, 1, 1, TOP, 0, TOO_LARGE(16, 1, 0)},
    {"mapped one above", 0x10000, 0, TOP - 4, 1, 1, 0, 5, TOO_LARGE(24, TOP - 4, TOP - 5)},
    {"mapped 2^64-1", 0x10000, 0, ALL, 1, 1, 0, 0, TOO_LARGE(24, ALL, TOP)},
    {"owned is named before mapped", 0x10000, ALL, ALL, 1, 1, 0, 0, TOO_LARGE(16, ALL, TOP)},
};

static void test_result(void **state) {
  const result_row *row = *state;
  nx_assert_verdict(nxmem_check_alloc_result(row->address, row->owned, row->mapped, row->bytes, row->align,
                                             row->owned_total, row->mapped_total),
                    row->want);
}

/* Only what was allocated for this very call goes back: never NULL, never what may be another owner's. */
static void test_hand_back(void **state) {
  (void)state;
  for (uint32_t reason = 0; reason < 256; reason++)
    assert_int_equal(nxmem_may_hand_back(reason), reason >= 61 && reason <= 63);
}

typedef struct named_row {
  const char *name;
  nxmem_named said; /* owner, address, bytes, align */
  nxmem_verdict want;
} named_row;

static const named_row named_rows[] = {
    {"named: all of it", {9, 0x10000, 1000, 64}, ALLOW},
    {"named: the address alone", {9, 0x10000, 0, 0}, ALLOW},
    {"named: the size alone", {9, 0x10000, 1000, 0}, ALLOW},
    {"named: the alignment alone", {9, 0x10000, 0, 64}, ALLOW},
    {"named: another owner", {8, 0x10000, 1000, 64}, {NXMEM_REASON_OTHER_OWNER, 0, 8, 9}},
    {"named: owner 0", {0, 0x10000, 1000, 64}, {NXMEM_REASON_OTHER_OWNER, 0, 0, 9}},
    {"named: the owner comes first", {8, 1, 1, 1}, {NXMEM_REASON_OTHER_OWNER, 0, 8, 9}},
    {"named: another address", {9, 0x10001, 1, 1}, {NXMEM_REASON_OTHER_ADDRESS, 32, 0x10001, 0x10000}},
    {"named: no address", {9, 0, 0, 0}, {NXMEM_REASON_OTHER_ADDRESS, 32, 0, 0x10000}},
    {"named: another size", {9, 0x10000, 999, 1}, {NXMEM_REASON_OTHER_BYTES, 40, 999, 1000}},
    {"named: another alignment", {9, 0x10000, 1000, 32}, {NXMEM_REASON_OTHER_ALIGNMENT, 48, 32, 64}},
    {"named: another alignment, no size", {9, 0x10000, 0, 128}, {NXMEM_REASON_OTHER_ALIGNMENT, 48, 128, 64}},
};

static void test_named(void **state) {
  const named_row *row = *state;
  const nxmem_named books = {9, 0x10000, 1000, 64};
  nx_assert_verdict(nxmem_check_named(&row->said, &books), row->want);
}

typedef struct fate_row {
  const char *name;
  uint32_t status;
  uint32_t state;
  nxmem_release_fate want;
} fate_row;

#define UNWRITTEN 0xFFFFFFFFu
#define GONE NXMEM_FATE_GONE
#define LIVE NXMEM_FATE_LIVE
#define KEPT NXMEM_FATE_QUARANTINED

static const fate_row release_rows[] = {
    {"OK and COMPLETE", 0, 0, GONE},
    {"OK and QUARANTINED", 0, 1, KEPT},
    {"OK and FAILED", 0, 2, LIVE},
    {"OK and a state nobody knows", 0, 3, KEPT},
    {"OK and state 2^31", 0, 0x80000000u, KEPT},
    {"OK and unwritten", 0, UNWRITTEN, KEPT},
    {"quarantined and COMPLETE", 12, 0, KEPT},
    {"quarantined and QUARANTINED", 12, 1, KEPT},
    {"quarantined and FAILED", 12, 2, KEPT},
    {"quarantined and unwritten", 12, UNWRITTEN, KEPT},
    {"an error and COMPLETE", 5, 0, KEPT},
    {"an error and QUARANTINED", 5, 1, KEPT},
    {"an error and FAILED", 5, 2, LIVE},
    {"an error and a state nobody knows", 5, 7, KEPT},
    {"an error and unwritten", 5, UNWRITTEN, LIVE},
    {"a code nobody knows and unwritten", UNWRITTEN, UNWRITTEN, LIVE},
    {"a code nobody knows and COMPLETE", UNWRITTEN, 0, KEPT},
};

static void test_release(void **state) {
  const fate_row *row = *state;
  assert_int_equal(nxmem_judge_release(row->status, row->state), row->want);
}

static const fate_row deallocate_rows[] = {
    {"deallocate: OK", 0, 0, GONE},
    {"deallocate: RELEASE_QUARANTINED", 12, 0, KEPT},
    {"deallocate: VERSION_MISMATCH", 1, 0, LIVE},
    {"deallocate: UNKNOWN_ALLOCATION", 11, 0, LIVE},
    {"deallocate: BUSY", 14, 0, LIVE},
    {"deallocate: a code nobody knows", 15, 0, LIVE},
    {"deallocate: 2^32-1", UNWRITTEN, 0, LIVE},
};

static void test_deallocate(void **state) {
  const fate_row *row = *state;
  assert_int_equal(nxmem_judge_deallocate(row->status), row->want);
}

static void test_why_and_final(void **state) {
  (void)state;
  assert_int_equal(nxmem_failure_says_why(0, LIVE), 1);
  assert_int_equal(nxmem_failure_says_why(0, GONE), 0);
  assert_int_equal(nxmem_failure_says_why(0, KEPT), 0);
  assert_int_equal(nxmem_failure_says_why(5, LIVE), 0);
  assert_int_equal(nxmem_final_fate(GONE), GONE);
  assert_int_equal(nxmem_final_fate(LIVE), KEPT);
  assert_int_equal(nxmem_final_fate(KEPT), KEPT);
}

typedef struct refund_row {
  const char *name;
  uint64_t reported, charged, residual;
  nxmem_refund want; /* from charge, from residual, left, excess, credited, residual */
} refund_row;

static const refund_row refund_rows[] = {
    {"refund: nothing of nothing", 0, 0, 0, {0, 0, 0, 0, 0, 0}},
    {"refund: exactly the charge", 100, 100, 0, {100, 0, 0, 0, 100, 0}},
    {"refund: less than the charge", 60, 100, 0, {60, 0, 40, 0, 60, 40}},
    {"refund: nothing reported", 0, 100, 50, {0, 0, 100, 0, 0, 150}},
    {"refund: charge and some residual", 120, 100, 50, {100, 20, 0, 0, 120, 30}},
    {"refund: charge and all residual", 150, 100, 50, {100, 50, 0, 0, 150, 0}},
    {"refund: one byte beyond both", 151, 100, 50, {100, 50, 0, 1, 150, 0}},
    {"refund: beyond the charge without residual", 101, 100, 0, {100, 0, 0, 1, 100, 0}},
    {"refund: 2^64-1 reported", ALL, 100, 50, {100, 50, 0, ALL - 150, 150, 0}},
    {"refund: 2^64-1 of nothing", ALL, 0, 0, {0, 0, 0, ALL, 0, 0}},
    {"refund: everything 2^64-1", ALL, ALL, ALL, {ALL, 0, 0, 0, ALL, ALL}},
    {"refund: only residual", 40, 0, 50, {0, 40, 0, 0, 40, 10}},
    {"refund: nothing reported, the residual is full", 0, 1, ALL, {0, 0, 1, 0, 0, ALL}},
    {"refund: the residual becomes 2^64-1", 0, 5, ALL - 5, {0, 0, 5, 0, 0, ALL}},
};

static void test_refund(void **state) {
  const refund_row *row = *state;
  nxmem_refund got = {7, 7, 7, 7, 7, 7};
  nxmem_settle_refund(row->reported, row->charged, row->residual, &got);
  assert_int_equal(got.from_charge, row->want.from_charge);
  assert_int_equal(got.from_residual, row->want.from_residual);
  assert_int_equal(got.left, row->want.left);
  assert_int_equal(got.excess, row->want.excess);
  assert_int_equal(got.credited, row->want.credited);
  assert_int_equal(got.residual, row->want.residual);
}

static void test_take_result(void **state) {
  (void)state;
  nx_watch watch;
  NxmemAllocResult out;
  nx_watch_open(&watch, 32);
  for (uint32_t i = 0; i < 32; i += 8) nx_put64(watch.record + i, 0x0000111100002222ull + i);
  nx_watch_arm(&watch);
  nxmem_alloc_result_take((const volatile NxmemAllocResult *)(void *)watch.record, &out);
  nx_watch_disarm(&watch);
  nx_watch_assert_single_fetch(&watch, 32);
  assert_int_equal(out.struct_size, 0x2222);
  assert_int_equal(out.reserved, 0);
  for (uint32_t i = 8; i < 32; i += 8) assert_int_equal(nx_get64(&out, i), 0x0000111100002222ull + i);
  nx_watch_close(&watch);
}

static void test_take_outcome(void **state) {
  (void)state;
  nx_watch watch;
  nxmem_outcome out;
  nx_watch_open(&watch, 296);
  memset(watch.record, 'q', 296);
  nx_put32(watch.record + 4, 1);
  nx_put64(watch.record + 16, 0x3333000000000016ull);
  nx_put64(watch.record + 24, 0x3333000000000024ull);
  nx_watch_arm(&watch);
  nxmem_outcome_take((const volatile NxmemReleaseOutcome *)(void *)watch.record, &out);
  nx_watch_disarm(&watch);
  nx_watch_assert_single_fetch(&watch, 296);
  assert_int_equal(out.state, 1);
  assert_int_equal(out.unmapped_bytes, 0x3333000000000016ull);
  assert_int_equal(out.residual_owned_bytes, 0x3333000000000024ull);
  nx_watch_close(&watch);
}

typedef struct report_row {
  const char *name;
  uint64_t reported, charged, excess;
  nxmem_verdict want;
} report_row;

static const report_row report_rows[] = {
    {"report: nothing in excess", 5, 5, 0, ALLOW},
    {"report: one byte in excess", 6, 5, 1, {NXMEM_REASON_TOTAL_TOO_LARGE, 0, 6, 5}},
    {"report: 2^64-1 of nothing", ALL, 0, ALL, {NXMEM_REASON_TOTAL_TOO_LARGE, 0, ALL, 0}},
};

static void test_report(void **state) {
  const report_row *row = *state;
  nx_assert_verdict(nxmem_check_refund(row->reported, row->charged, row->excess), row->want);
}

static void test_constants(void **state) {
  (void)state;
  assert_int_equal(NXMEM_UNWRITTEN_STATE, 0xFFFFFFFFu);
  assert_int_equal(NXMEM_UNWRITTEN_COUNT, UINT64_MAX);
  assert_int_equal(NXMEM_TOTAL_MAX, TOP);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(request_rows), test_request);
  nx_suite_rows(&suite, ROWS(result_rows), test_result);
  nx_suite_rows(&suite, ROWS(release_rows), test_release);
  nx_suite_rows(&suite, ROWS(deallocate_rows), test_deallocate);
  nx_suite_rows(&suite, ROWS(refund_rows), test_refund);
  nx_suite_rows(&suite, ROWS(report_rows), test_report);
  nx_suite_add(&suite, "each field of a result, loaded once", test_take_result, NULL);
  nx_suite_add(&suite, "each field of an outcome, loaded once", test_take_outcome, NULL);
  nx_suite_add(&suite, "what may be handed back", test_hand_back, NULL);
  nx_suite_rows(&suite, ROWS(named_rows), test_named);
  nx_suite_add(&suite, "where the reason stands, and what cannot stay live", test_why_and_final, NULL);
  nx_suite_add(&suite, "pre-filled values", test_constants, NULL);
  return nx_suite_run(&suite, "outcome");
}
