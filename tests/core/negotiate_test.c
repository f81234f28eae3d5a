/*
 * negotiate_test.c: both halves of the agreement, row by row.
 *
 * Attackers played: a host whose request is short or inverted; a plugin whose answer lies in one field.
 * Promise: every reason of both halves is asserted with its field and numbers, and what a refusal leaves in the
 * response.
 */
#include "nxmem/negotiate.h"

#include "nxmem/capability.h"
#include "support.h"
#include "watch.h"

#define U32_MAX 0xFFFFFFFFu
#define ALLOW \
  { NXMEM_REASON_NONE, 0, 0, 0 }

/* ---- Ranges ---- */

typedef struct range_row {
  const char *name;
  NxmemVersionRange range;
  int valid;
} range_row;

static const range_row range_rows[] = {
    {"range of one version", {1, 1, 0, 0}, 1},       {"range of all versions", {0, U32_MAX, 0, U32_MAX}, 1},
    {"range with majors inverted", {2, 1, 0, 1}, 0}, {"range with minors inverted", {1, 1, 1, 0}, 0},
    {"range with both inverted", {2, 1, 2, 1}, 0},   {"range of zeros", {0, 0, 0, 0}, 1},
};

static void test_range(void **state) {
  const range_row *row = *state;
  assert_int_equal(nxmem_range_is_valid(&row->range), row->valid);
}

/* ---- Taking a request ---- */

static void fill_request(uint8_t *at, uint32_t struct_size) {
  uint8_t whole[32];
  for (uint32_t i = 0; i < 32; i += 4) nx_put32(whole + i, 0x1000 + i);
  nx_put32(whole, struct_size);
  memcpy(at, whole, struct_size < 4 ? 4 : struct_size < 32 ? struct_size : 32);
}

static void assert_request_untouched(const NxmemNegotiateRequest *out) {
  const uint8_t *bytes = (const uint8_t *)out;
  for (size_t i = 0; i < sizeof *out; i++) assert_int_equal(bytes[i], 0xC5);
}

static void test_request_sizes(void **state) {
  (void)state;
  for (uint32_t size = 0; size <= 40; size++) {
    NxmemNegotiateRequest out;
    memset(&out, 0xC5, sizeof out);
    uint8_t *src = nx_exact_block(size < 4 ? 4 : size);
    fill_request(src, size);
    const nxmem_verdict got = nxmem_request_take((const volatile NxmemNegotiateRequest *)(const void *)src, &out);
    if (size < 32) {
      nx_assert_verdict(got, (nxmem_verdict){NXMEM_REASON_SHORT_REQUEST, 0, size, 32});
      assert_request_untouched(&out);
    } else {
      nx_assert_verdict(got, (nxmem_verdict)ALLOW);
      assert_int_equal(out.struct_size, size);
    }
    free(src);
  }
}

static void test_request_fields(void **state) {
  (void)state;
  _Alignas(8) uint8_t src[32];
  NxmemNegotiateRequest out;
  memset(&out, 0xC5, sizeof out);
  fill_request(src, 32);
  nx_assert_verdict(nxmem_request_take((const volatile NxmemNegotiateRequest *)(const void *)src, &out),
                    (nxmem_verdict)ALLOW);
  assert_int_equal(out.reserved, 0);
  assert_int_equal(out.host_range.major_min, 0x1008);
  assert_int_equal(out.host_range.major_max, 0x100C);
  assert_int_equal(out.host_range.minor_min, 0x1010);
  assert_int_equal(out.host_range.minor_max, 0x1014);
  assert_int_equal(out.host_capability_flags, 0x0000101C00001018ull);
}

static void test_request_address(void **state) {
  (void)state;
  _Alignas(8) uint8_t src[48] = {0};
  NxmemNegotiateRequest out;
  memset(&out, 0xC5, sizeof out);
  nx_assert_verdict(nxmem_request_take(NULL, &out), (nxmem_verdict){NXMEM_REASON_NULL_POINTER, 0, 0, 0});
  for (uint32_t by = 1; by < 8; by++) {
    const uintptr_t address = (uintptr_t)src + by;
    nx_assert_verdict(nxmem_request_take((const volatile NxmemNegotiateRequest *)address, &out),
                      (nxmem_verdict){NXMEM_REASON_MISALIGNED, 0, by, 8});
  }
  assert_request_untouched(&out);
}

static void watch_request(uint32_t size, size_t room, int32_t limit) {
  nx_watch watch;
  NxmemNegotiateRequest out;
  nx_watch_open(&watch, room);
  nx_put32(watch.record, size);
  nx_watch_arm(&watch);
  const nxmem_verdict got = nxmem_request_take((const volatile NxmemNegotiateRequest *)(void *)watch.record, &out);
  nx_watch_disarm(&watch);
  assert_int_equal(got.reason, size < 32 ? NXMEM_REASON_SHORT_REQUEST : NXMEM_REASON_NONE);
  nx_watch_assert_single_fetch(&watch, limit);
  nx_watch_close(&watch);
}

static void test_request_loads(void **state) {
  (void)state;
  watch_request(0, 8, 4);
  watch_request(31, 32, 4);
  watch_request(32, 32, 32);
  watch_request(U32_MAX, 32, 32);
}

/* ---- Plugin half ---- */

typedef struct decide_row {
  const char *name;
  NxmemVersionRange host;
  uint64_t host_flags;
  nxmem_offer own;
  nxmem_verdict want;
  uint32_t major, minor;
  uint64_t flags;
} decide_row;

#define OURS \
  { 1, 1, 0, 1 }
#define REFUSED 0, 0, 0

static const decide_row decide_rows[] = {
    {"both 1.0 to 1.1", OURS, 31, {OURS, 31}, ALLOW, 1, 1, 31},
    {"host stops at 1.0: the newest capability goes", {1, 1, 0, 0}, 31, {OURS, 31}, ALLOW, 1, 0, 15},
    {"plugin stops at 1.0", OURS, 31, {{1, 1, 0, 0}, 31}, ALLOW, 1, 0, 15},
    {"host goes to 1.9", {1, 1, 0, 9}, 31, {OURS, 31}, ALLOW, 1, 1, 31},
    {"both go to 1.9: our own bits", {1, 1, 0, 9}, 31, {{1, 1, 0, 9}, 31}, ALLOW, 1, 9, 31},
    {"host offers majors 1 to 3: the highest common", {1, 3, 0, 1}, 31, {{1, 2, 0, 1}, 31}, ALLOW, 2, 1, 31},
    {"majors meet in one point", {2, 5, 0, 1}, 31, {{0, 2, 0, 1}, 31}, ALLOW, 2, 1, 31},
    {"minors meet in one point", {1, 1, 1, 9}, 31, {{1, 1, 0, 1}, 31}, ALLOW, 1, 1, 31},
    {"everything is offered", {0, U32_MAX, 0, U32_MAX}, UINT64_MAX, {OURS, 31}, ALLOW, 1, 1, 31},
    {"own bits nobody knows are not offered on", OURS, UINT64_MAX, {OURS, UINT64_MAX}, ALLOW, 1, 1, 31},
    {"host offers only ALLOCATOR", OURS, 1, {OURS, 31}, ALLOW, 1, 1, 1},
    {"plugin has only ALLOCATOR", OURS, 31, {OURS, 1}, ALLOW, 1, 1, 1},
    {"capabilities meet in some bits", OURS, 7, {OURS, 13}, ALLOW, 1, 1, 5},
    {"host range has majors inverted", {2, 1, 0, 1}, 31, {OURS, 31}, {NXMEM_REASON_INVERTED_RANGE, 8, 2, 1}, REFUSED},
    {"host range has minors inverted", {1, 1, 5, 4}, 31, {OURS, 31}, {NXMEM_REASON_INVERTED_RANGE, 16, 5, 4}, REFUSED},
    {"host range has both inverted: major is named",
     {3, 2, 5, 4},
     31,
     {OURS, 31},
     {NXMEM_REASON_INVERTED_RANGE, 8, 3, 2},
     REFUSED},
    {"own range has majors inverted", OURS, 31, {{2, 1, 0, 1}, 31}, {NXMEM_REASON_INVERTED_RANGE, 0, 2, 1}, REFUSED},
    {"own range has minors inverted", OURS, 31, {{1, 1, 1, 0}, 31}, {NXMEM_REASON_INVERTED_RANGE, 8, 1, 0}, REFUSED},
    {"host is a major ahead", {2, 3, 0, 1}, 31, {OURS, 31}, {NXMEM_REASON_NO_COMMON_MAJOR, 8, 1, 2}, REFUSED},
    {"host is a major behind", {0, 0, 0, 1}, 31, {OURS, 31}, {NXMEM_REASON_NO_COMMON_MAJOR, 8, 0, 1}, REFUSED},
    {"host wants at least minor 2", {1, 1, 2, 9}, 31, {OURS, 31}, {NXMEM_REASON_NO_COMMON_MINOR, 16, 1, 2}, REFUSED},
    {"plugin wants at least minor 1",
     {1, 1, 0, 0},
     31,
     {{1, 1, 1, 1}, 31},
     {NXMEM_REASON_NO_COMMON_MINOR, 16, 0, 1},
     REFUSED},
    {"no capability offered", OURS, 0, {OURS, 31}, {NXMEM_REASON_NO_ALLOCATOR, 32, 0, 1}, REFUSED},
    {"host offers all but ALLOCATOR", OURS, 30, {OURS, 31}, {NXMEM_REASON_NO_ALLOCATOR, 32, 30, 1}, REFUSED},
    {"plugin has all but ALLOCATOR", OURS, 31, {OURS, 30}, {NXMEM_REASON_NO_ALLOCATOR, 32, 30, 1}, REFUSED},
};

static void assert_answer(const NxmemNegotiateResponse *response, const decide_row *row) {
  assert_int_equal(response->struct_size, 40);
  assert_int_equal(response->agreed_major, row->major);
  assert_int_equal(response->agreed_minor, row->minor);
  assert_int_equal(response->reserved, 0);
  assert_memory_equal(&response->plugin_range, &row->own.range, 16);
  assert_int_equal(response->capability_flags, row->flags);
}

static void test_decide(void **state) {
  const decide_row *row = *state;
  const NxmemNegotiateRequest request = {32, 0, row->host, row->host_flags};
  NxmemNegotiateResponse response;
  memset(&response, 0xC5, sizeof response);
  nx_assert_verdict(nxmem_negotiate_decide(&request, &row->own, &response), row->want);
  assert_answer(&response, row);
}

/* What one of our plugins answers, our host takes; what it refuses, nobody takes. */
static void test_decide_then_judge(void **state) {
  const decide_row *row = *state;
  const NxmemNegotiateRequest request = {32, 0, row->host, row->host_flags};
  const nxmem_offer host = {row->host, row->host_flags};
  NxmemNegotiateResponse response;
  const nxmem_verdict answer = nxmem_negotiate_decide(&request, &row->own, &response);
  if (answer.reason != NXMEM_REASON_NONE) {
    assert_int_not_equal(nxmem_negotiate_judge(NXMEM_STATUS_OK, &response, &host).reason, NXMEM_REASON_NONE);
    return;
  }
  nx_assert_verdict(nxmem_negotiate_judge(NXMEM_STATUS_OK, &response, &host), (nxmem_verdict)ALLOW);
}

/* Whole fields only: what may be written into a room of 0, 1, 2 ... 48 bytes. */
static const uint32_t extents[49] = {0,  0,  0,  0,  4,  4,  4,  4,  8,  8,  8,  8,  12, 12, 12, 12, 16,
                                     16, 16, 16, 20, 20, 20, 20, 24, 24, 24, 24, 28, 28, 28, 28, 32, 32,
                                     32, 32, 32, 32, 32, 32, 40, 40, 40, 40, 40, 40, 40, 40, 40};

static void test_response_extent(void **state) {
  (void)state;
  for (uint32_t room = 0; room <= 48; room++) assert_int_equal(nxmem_response_extent(room), extents[room]);
  assert_int_equal(nxmem_response_extent(U32_MAX), 40);
}

/* ---- Host half ---- */

typedef struct judge_row {
  const char *name;
  uint32_t status;
  NxmemNegotiateResponse response;
  nxmem_verdict want;
} judge_row;

/* Against a host of 1.0 to 1.1 that offers everything but SHARED_MAPPING (27). */
static const nxmem_offer host_offer = {OURS, 27};

static const judge_row judge_rows[] = {
    {"answer 1.1", 0, {40, 1, 1, 0, OURS, 27}, ALLOW},
    {"answer 1.0", 0, {40, 1, 0, 0, OURS, 11}, ALLOW},
    {"answer with ALLOCATOR alone", 0, {40, 1, 1, 0, OURS, 1}, ALLOW},
    {"a newer plugin that answers our level", 0, {48, 1, 1, 0, {1, 4, 0, 9}, 27}, ALLOW},
    {"answer with something in reserved", 0, {40, 1, 1, 7, OURS, 27}, ALLOW},
    {"answer of size 2^32-1", 0, {U32_MAX, 1, 1, 0, OURS, 27}, ALLOW},
    {"refusal: VERSION_MISMATCH", 1, {40, 1, 1, 0, OURS, 27}, {NXMEM_REASON_PLUGIN_REFUSED, 0, 1, 0}},
    {"refusal with a code nobody knows",
     U32_MAX,
     {40, 1, 1, 0, OURS, 27},
     {NXMEM_REASON_PLUGIN_REFUSED, 0, U32_MAX, 0}},
    {"refusal is named before its short answer",
     3,
     {0, 0, 0, 0, {2, 1, 0, 0}, 0},
     {NXMEM_REASON_PLUGIN_REFUSED, 0, 3, 0}},
    {"answer of size 0", 0, {0, 1, 1, 0, OURS, 27}, {NXMEM_REASON_SHORT_RESPONSE, 0, 0, 40}},
    {"answer of size 8", 0, {8, 1, 1, 0, OURS, 27}, {NXMEM_REASON_SHORT_RESPONSE, 0, 8, 40}},
    {"answer of size 39", 0, {39, 1, 1, 0, OURS, 27}, {NXMEM_REASON_SHORT_RESPONSE, 0, 39, 40}},
    {"plugin range has majors inverted", 0, {40, 1, 1, 0, {2, 1, 0, 1}, 27}, {NXMEM_REASON_INVERTED_RANGE, 16, 2, 1}},
    {"plugin range has minors inverted", 0, {40, 1, 1, 0, {1, 1, 1, 0}, 27}, {NXMEM_REASON_INVERTED_RANGE, 24, 1, 0}},
    {"major below ours", 0, {40, 0, 1, 0, {0, 1, 0, 1}, 27}, {NXMEM_REASON_MAJOR_OUT_OF_RANGE, 4, 0, 1}},
    {"major above ours", 0, {40, 2, 1, 0, {1, 2, 0, 1}, 27}, {NXMEM_REASON_MAJOR_OUT_OF_RANGE, 4, 2, 1}},
    {"minor above ours", 0, {40, 1, 2, 0, {1, 1, 0, 2}, 27}, {NXMEM_REASON_MINOR_OUT_OF_RANGE, 8, 2, 1}},
    {"minor 2^32-1", 0, {40, 1, U32_MAX, 0, {1, 1, 0, U32_MAX}, 27}, {NXMEM_REASON_MINOR_OUT_OF_RANGE, 8, U32_MAX, 1}},
    {"major below its own range", 0, {40, 1, 1, 0, {2, 3, 0, 1}, 27}, {NXMEM_REASON_MAJOR_OUT_OF_RANGE, 4, 1, 2}},
    {"major above its own range", 0, {40, 1, 1, 0, {0, 0, 0, 1}, 27}, {NXMEM_REASON_MAJOR_OUT_OF_RANGE, 4, 1, 0}},
    {"minor above its own range", 0, {40, 1, 1, 0, {1, 1, 0, 0}, 27}, {NXMEM_REASON_MINOR_OUT_OF_RANGE, 8, 1, 0}},
    {"minor below its own range", 0, {40, 1, 0, 0, {1, 1, 1, 1}, 11}, {NXMEM_REASON_MINOR_OUT_OF_RANGE, 8, 0, 1}},
    {"a bit nobody knows", 0, {40, 1, 1, 0, OURS, 59}, {NXMEM_REASON_UNKNOWN_CAPABILITY, 32, 59, 31}},
    {"the highest bit",
     0,
     {40, 1, 1, 0, OURS, 0x8000000000000001ull},
     {NXMEM_REASON_UNKNOWN_CAPABILITY, 32, 0x8000000000000001ull, 31}},
    {"a bit that was not offered", 0, {40, 1, 1, 0, OURS, 31}, {NXMEM_REASON_CAPS_BEYOND_OFFER, 32, 31, 27}},
    {"no ALLOCATOR", 0, {40, 1, 1, 0, OURS, 26}, {NXMEM_REASON_NO_ALLOCATOR, 32, 26, 1}},
    {"no capability", 0, {40, 1, 1, 0, OURS, 0}, {NXMEM_REASON_NO_ALLOCATOR, 32, 0, 1}},
    {"a capability of minor 1 at minor 0", 0, {40, 1, 0, 0, OURS, 17}, {NXMEM_REASON_CAPS_BEYOND_LEVEL, 32, 17, 15}},
    {"an answer left as it was sent out",
     0,
     {40, 0, 0, 0, {0, 0, 0, 0}, 0},
     {NXMEM_REASON_MAJOR_OUT_OF_RANGE, 4, 0, 1}},
};

static void test_judge(void **state) {
  const judge_row *row = *state;
  nx_assert_verdict(nxmem_negotiate_judge(row->status, &row->response, &host_offer), row->want);
}

static void test_minor_below_ours(void **state) {
  (void)state;
  const nxmem_offer own = {{1, 1, 1, 1}, 31};
  const NxmemNegotiateResponse response = {40, 1, 0, 0, OURS, 1};
  nx_assert_verdict(nxmem_negotiate_judge(NXMEM_STATUS_OK, &response, &own),
                    (nxmem_verdict){NXMEM_REASON_MINOR_OUT_OF_RANGE, 8, 0, 1});
}

static void test_response_take(void **state) {
  (void)state;
  nx_watch watch;
  NxmemNegotiateResponse out;
  memset(&out, 0xC5, sizeof out);
  nx_watch_open(&watch, 40);
  for (uint32_t i = 0; i < 40; i += 4) nx_put32(watch.record + i, 0x2000 + i);
  nx_watch_arm(&watch);
  nxmem_response_take((const volatile NxmemNegotiateResponse *)(void *)watch.record, &out);
  nx_watch_disarm(&watch);
  nx_watch_assert_single_fetch(&watch, 40);
  for (uint32_t i = 0; i < 40; i += 4) assert_int_equal(nx_get32(&out, i), i == 12 ? 0 : 0x2000 + i);
  nx_watch_close(&watch);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(range_rows), test_range);
  nx_suite_rows(&suite, ROWS(decide_rows), test_decide);
  for (size_t i = 0; i < sizeof decide_rows / sizeof decide_rows[0]; i++)
    nx_suite_add(&suite, nx_name("judged by a host: %s", decide_rows[i].name), test_decide_then_judge, &decide_rows[i]);
  nx_suite_rows(&suite, ROWS(judge_rows), test_judge);
  nx_suite_add(&suite, "minor below ours", test_minor_below_ours, NULL);
  nx_suite_add(&suite, "requests of 0 to 40 bytes in exact blocks", test_request_sizes, NULL);
  nx_suite_add(&suite, "each field of a request", test_request_fields, NULL);
  nx_suite_add(&suite, "request at NULL and misaligned", test_request_address, NULL);
  nx_suite_add(&suite, "request loads", test_request_loads, NULL);
  nx_suite_add(&suite, "response room of 0 to 48 bytes", test_response_extent, NULL);
  nx_suite_add(&suite, "each field of a response, loaded once", test_response_take, NULL);
  return nx_suite_run(&suite, "negotiate");
}
