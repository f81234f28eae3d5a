/*
 * reclaim_test.c: what a plugin may ask back, row by row.
 *
 * Attackers played: strangers' mechanisms and devices, requests for nothing, short and racing records.
 * Promise: each wrong part is named with both numbers; each field is loaded once.
 */
#include "nxmem/reclaim.h"

#include "support.h"
#include "watch.h"

#define ALL UINT64_MAX
#define ALLOW \
  { NXMEM_REASON_NONE, 0, 0, 0 }

enum { MECHANISM = 77, TIER = 1, INDEX = 3 };

typedef struct check_row {
  const char *name;
  NxmemReclaimRequest request;
  nxmem_verdict want;
} check_row;

#define HERE (((uint64_t)TIER << 32) + INDEX)
#define ELSEWHERE(tier, index) \
  { NXMEM_REASON_OTHER_DEVICE, 16, ((uint64_t)(tier) << 32) + (index), HERE }

static const check_row check_rows[] = {
    {"one byte", {32, 0, MECHANISM, {TIER, INDEX}, 1}, ALLOW},
    {"every byte there is", {32, 0, MECHANISM, {TIER, INDEX}, ALL}, ALLOW},
    {"nothing", {32, 0, MECHANISM, {TIER, INDEX}, 0}, {NXMEM_REASON_ZERO_BYTES, 24, 0, 1}},
    {"another mechanism", {32, 0, 78, {TIER, INDEX}, 1}, {NXMEM_REASON_OTHER_MECHANISM, 8, 78, MECHANISM}},
    {"one that differs in its upper half",
     {32, 0, MECHANISM + (1ull << 32), {TIER, INDEX}, 1},
     {NXMEM_REASON_OTHER_MECHANISM, 8, MECHANISM + (1ull << 32), MECHANISM}},
    {"another tier", {32, 0, MECHANISM, {0, INDEX}, 1}, ELSEWHERE(0, INDEX)},
    {"another index", {32, 0, MECHANISM, {TIER, 0}, 1}, ELSEWHERE(TIER, 0)},
    {"mechanism before device", {32, 0, 1, {2, 2}, 0}, {NXMEM_REASON_OTHER_MECHANISM, 8, 1, MECHANISM}},
    {"device before amount", {32, 0, MECHANISM, {2, 2}, 0}, ELSEWHERE(2, 2)},
};

static void test_check(void **state) {
  const check_row *row = *state;
  const NxmemDeviceId device = {TIER, INDEX};
  nx_assert_verdict(nxmem_check_reclaim(&row->request, MECHANISM, device), row->want);
}

static void test_reclaimed(void **state) {
  (void)state;
  assert_int_equal(nxmem_reclaimed(0, 5), 0);
  assert_int_equal(nxmem_reclaimed(4, 5), 4);
  assert_int_equal(nxmem_reclaimed(5, 5), 5);
  assert_int_equal(nxmem_reclaimed(6, 5), 5);
  assert_int_equal(nxmem_reclaimed(ALL, 5), 5);
  assert_int_equal(nxmem_reclaimed(1, 0), 0);
}

static void fill_request(uint8_t *request, uint32_t size) {
  nx_put32(request, size);
  nx_put32(request + 4, 0x66666666u);
  for (uint32_t i = 8; i < 32; i += 8) nx_put64(request + i, 0x0000555500000000ull + i);
}

static void test_take(void **state) {
  (void)state;
  nx_watch watch;
  NxmemReclaimRequest out;
  memset(&out, 0xC5, sizeof out);
  nx_watch_open(&watch, 32);
  fill_request(watch.record, 32);
  nx_watch_arm(&watch);
  const nxmem_verdict v = nxmem_reclaim_take((const volatile NxmemReclaimRequest *)(void *)watch.record, &out);
  nx_watch_disarm(&watch);
  nx_watch_assert_single_fetch(&watch, 32);
  assert_int_equal(nx_watch_count(&watch, 4), 0);
  nx_assert_verdict(v, (nxmem_verdict)ALLOW);
  assert_int_equal(out.struct_size, 32);
  assert_int_equal(out.reserved, 0);
  for (uint32_t i = 8; i < 32; i += 8) assert_int_equal(nx_get64(&out, i), 0x0000555500000000ull + i);
  nx_watch_close(&watch);
}

typedef struct short_row {
  const char *name;
  uint32_t size;
} short_row;

static const short_row short_rows[] = {{"short: 0", 0}, {"short: 4", 4}, {"short: 8", 8}, {"short: 31", 31}};

/* Behind the size stands a page without access: nothing more than the size may be looked at. */
static void test_short(void **state) {
  const short_row *row = *state;
  nx_fence fence;
  nx_fence_open(&fence, 8);
  nx_put32(fence.end - 8, row->size);
  NxmemReclaimRequest out, before;
  memset(&out, 0xC5, sizeof out);
  before = out;
  nx_assert_verdict(nxmem_reclaim_take((const volatile NxmemReclaimRequest *)(void *)(fence.end - 8), &out),
                    (nxmem_verdict){NXMEM_REASON_SHORT_REQUEST, 0, row->size, 32});
  assert_memory_equal(&out, &before, sizeof out);
  nx_fence_close(&fence);
}

/* A larger record of a later minor is taken up to what is known of it. */
static void test_larger(void **state) {
  (void)state;
  nx_fence fence;
  nx_fence_open(&fence, 32);
  fill_request(fence.end - 32, 0xFFFFFFFFu);
  NxmemReclaimRequest out;
  nx_assert_verdict(nxmem_reclaim_take((const volatile NxmemReclaimRequest *)(void *)(fence.end - 32), &out),
                    (nxmem_verdict)ALLOW);
  assert_int_equal(out.struct_size, 0xFFFFFFFFu);
  nx_fence_close(&fence);
}

static void test_addresses(void **state) {
  (void)state;
  NxmemReclaimRequest out, before;
  memset(&out, 0xC5, sizeof out);
  before = out;
  nx_assert_verdict(nxmem_reclaim_take(NULL, &out), (nxmem_verdict){NXMEM_REASON_NULL_POINTER, 0, 0, 0});
  const volatile NxmemReclaimRequest *odd = (const volatile NxmemReclaimRequest *)(uintptr_t)0x10004;
  nx_assert_verdict(nxmem_reclaim_take(odd, &out), (nxmem_verdict){NXMEM_REASON_MISALIGNED, 0, 4, 8});
  assert_memory_equal(&out, &before, sizeof out);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(check_rows), test_check);
  nx_suite_add(&suite, "no more than was asked for", test_reclaimed, NULL);
  nx_suite_add(&suite, "each field of a request, loaded once", test_take, NULL);
  nx_suite_rows(&suite, ROWS(short_rows), test_short);
  nx_suite_add(&suite, "a request larger than known", test_larger, NULL);
  nx_suite_add(&suite, "NULL and misaligned requests", test_addresses, NULL);
  return nx_suite_run(&suite, "reclaim");
}
