/*
 * status_test.c: building and taking NxmemStatus, and the wire code of every reason, row by row.
 *
 * Attackers played: a peer that writes lying lengths, no NUL, or goes on writing while its status is taken.
 * Promise: messages are cut on character boundaries, tails are zero, and each byte of a foreign status is loaded once.
 */
#include "nxmem/status.h"

#include "support.h"
#include "watch.h"

/* ---- The wire code of a reason ---- */

typedef struct code_row {
  const char *name;
  uint32_t reason;
  uint32_t code;
} code_row;

static const code_row code_rows[] = {
    {"reason none", 0, 0},
    {"reason null pointer", 1, 4},
    {"reason misaligned", 2, 4},
    {"reason short header", 3, 2},
    {"reason short table", 4, 2},
    {"reason missing slot", 5, 2},
    {"reason zero mechanism", 6, 4},
    {"reason other mechanism", 7, 10},
    {"reason unknown capability", 10, 3},
    {"reason table without flag", 11, 3},
    {"reason flag without slot", 12, 3},
    {"reason no allocator", 13, 3},
    {"reason required missing", 14, 3},
    {"reason plugin refused", 20, 5},
    {"reason short response", 21, 2},
    {"reason short request", 22, 2},
    {"reason inverted range", 23, 1},
    {"reason no common major", 24, 1},
    {"reason no common minor", 25, 1},
    {"reason major out of range", 26, 1},
    {"reason minor out of range", 27, 1},
    {"reason capabilities beyond offer", 28, 3},
    {"reason capabilities beyond level", 29, 3},
    {"reason unknown tier", 40, 9},
    {"reason other device", 41, 9},
    {"reason empty name", 50, 4},
    {"reason unterminated name", 51, 4},
    {"reason bad UTF-8", 52, 4},
    {"reason control character", 53, 4},
    {"reason null address", 60, 4},
    {"reason misaligned address", 61, 4},
    {"reason wrapping address", 62, 4},
    {"reason total too large", 63, 4},
    {"reason zero bytes", 64, 4},
    {"reason bad alignment", 65, 4},
    {"reason size wraps", 66, 4},
    {"reason other address", 67, 4},
    {"reason other bytes", 68, 4},
    {"reason other alignment", 69, 4},
    {"reason report failed", 70, 5},
    {"reason report short", 71, 2},
    {"reason report unwritten", 72, 5},
    {"reason plugin holds", 73, 14},
    {"reason host holds", 74, 14},
    {"reason stale handle", 80, 11},
    {"reason wrong state", 81, 11},
    {"reason in use", 82, 14},
    {"reason short completion", 83, 2},
    {"reason unknown allocation", 84, 11},
    {"reason other owner", 85, 11},
    {"reason not queued", 86, 11},
    {"reason other ticket", 87, 4},
    {"reason too many", 90, 4},
    {"reason listed twice", 91, 4},
    {"reason same name", 92, 4},
    {"reason offset outside", 95, 4},
    {"reason bytes outside", 96, 4},
    {"reason unreadable", 100, 4},
    {"no such reason: 8", 8, 5},
    {"no such reason: 101", 101, 5},
    {"no such reason: 2^32-1", 0xFFFFFFFFu, 5},
};

static void test_code(void **state) {
  const code_row *row = *state;
  assert_int_equal(nxmem_reason_status(row->reason), row->code);
}

/* ---- Building ---- */

typedef struct cut_row {
  const char *name;
  const char *character; /* placed so that it begins at `at`, behind `at` letters; more letters follow */
  uint32_t at;
  uint32_t want;
} cut_row;

#define TWO "\xC3\xA9"
#define THREE "\xE2\x82\xAC"
#define FOUR "\xF0\x9F\x98\x80"

static const cut_row cut_rows[] = {
    {"two bytes ending at 255", TWO, 253, 255},
    {"two bytes across 255", TWO, 254, 254},
    {"two bytes behind 255", TWO, 255, 255},
    {"three bytes ending at 255", THREE, 252, 255},
    {"three bytes, two of them inside", THREE, 253, 253},
    {"three bytes, one of them inside", THREE, 254, 254},
    {"three bytes behind 255", THREE, 255, 255},
    {"four bytes ending at 255", FOUR, 251, 255},
    {"four bytes, three of them inside", FOUR, 252, 252},
    {"four bytes, two of them inside", FOUR, 253, 253},
    {"four bytes, one of them inside", FOUR, 254, 254},
    {"four bytes behind 255", FOUR, 255, 255},
    {"four bytes before a stray continuation byte", FOUR "\x80", 251, 255},
};

static void assert_built(const NxmemStatus *got, uint32_t code, const uint8_t *text, uint32_t length) {
  assert_int_equal(got->code, code);
  assert_int_equal(got->message_len, length);
  if (length > 0) assert_memory_equal(got->message, text, length);
  for (uint32_t i = length; i < 256; i++) assert_int_equal(got->message[i], 0);
}

static void test_cut(void **state) {
  const cut_row *row = *state;
  const uint32_t length = 300;
  uint8_t *text = nx_exact_block(length);
  memset(text, 'm', length);
  memcpy(text + row->at, row->character, strlen(row->character));
  NxmemStatus got;
  memset(&got, 0xC5, sizeof got);
  nxmem_status_build(&got, 9, text, length);
  assert_built(&got, 9, text, row->want);
  free(text);
}

static void test_every_length(void **state) {
  (void)state;
  for (uint32_t length = 0; length <= 300; length++) {
    uint8_t *text = nx_exact_block(length);
    memset(text, 'm', length == 0 ? 1 : length);
    NxmemStatus got;
    memset(&got, 0xC5, sizeof got);
    nxmem_status_build(&got, length, text, length);
    assert_built(&got, length, text, length < 255 ? length : 255);
    free(text);
  }
}

static void test_ends_at_nul(void **state) {
  (void)state;
  uint8_t text[300];
  for (uint32_t nul = 0; nul < 256; nul++) {
    memset(text, 'm', sizeof text);
    text[nul] = 0;
    NxmemStatus got;
    memset(&got, 0xC5, sizeof got);
    nxmem_status_build(&got, 4, text, sizeof text);
    assert_built(&got, 4, text, nul < 255 ? nul : 255);
  }
}

static void test_no_text(void **state) {
  (void)state;
  NxmemStatus got;
  memset(&got, 0xC5, sizeof got);
  nxmem_status_build(&got, 14, NULL, 0);
  assert_built(&got, 14, NULL, 0);
}

/* A claimed length of 2^32-1 over a text that ends at a guard page: no more than the buffer's worth is looked at. */
static void test_claimed_text_length(void **state) {
  (void)state;
  nx_fence fence;
  nx_fence_open(&fence, 256);
  memset(fence.end - 256, 'm', 256);
  NxmemStatus got;
  nxmem_status_build(&got, 5, fence.end - 256, 0xFFFFFFFFu);
  assert_built(&got, 5, fence.end - 256, 255);
  fence.end[-1] = 0;
  nxmem_status_build(&got, 5, fence.end - 4, 0xFFFFFFFFu);
  assert_built(&got, 5, fence.end - 4, 3);
  nx_fence_close(&fence);
}

/* Text that is no text: still bounded, still with a zero tail. */
static void test_only_continuation_bytes(void **state) {
  (void)state;
  uint8_t text[300];
  memset(text, 0x80, sizeof text);
  NxmemStatus got;
  nxmem_status_build(&got, 5, text, sizeof text);
  assert_built(&got, 5, text, got.message_len);
  assert_true(got.message_len <= 255);
}

/* ---- Taking ---- */

typedef struct take_row {
  const char *name;
  uint32_t claimed;
  uint32_t nul; /* where the message has its first NUL; 256 for none */
  uint32_t want;
} take_row;

static const take_row take_rows[] = {
    {"take: empty", 0, 0, 0},
    {"take: claims nothing of a long text", 0, 256, 0},
    {"take: honest", 5, 5, 5},
    {"take: claims less than there is", 3, 5, 3},
    {"take: a NUL inside the claim ends it", 9, 4, 4},
    {"take: a NUL at once", 255, 0, 0},
    {"take: claims 255 without a NUL", 255, 256, 255},
    {"take: claims 256 without a NUL", 256, 256, 255},
    {"take: claims 2^32-1 without a NUL", 0xFFFFFFFFu, 256, 255},
    {"take: claims 2^32-1 with a NUL at 10", 0xFFFFFFFFu, 10, 10},
    {"take: claims 255 with the NUL at 255", 255, 255, 255},
    {"take: claims 2^31", 0x80000000u, 200, 200},
};

static void fill_status(uint8_t *at, const take_row *row) {
  nx_put32(at, 7);
  nx_put32(at + 4, row->claimed);
  for (uint32_t i = 0; i < 256; i++) at[8 + i] = i == row->nul ? 0 : (uint8_t)(1 + i % 255);
}

static void test_take(void **state) {
  const take_row *row = *state;
  nx_watch watch;
  NxmemStatus got;
  memset(&got, 0xC5, sizeof got);
  nx_watch_open(&watch, 264);
  fill_status(watch.record, row);
  nx_watch_arm(&watch);
  nxmem_status_take((const volatile NxmemStatus *)(void *)watch.record, &got);
  nx_watch_disarm(&watch);
  nx_watch_assert_single_fetch(&watch, 264);
  assert_built(&got, 7, watch.record + 8, row->want);
  nx_watch_close(&watch);
}

static void test_message_len(void **state) {
  (void)state;
  assert_int_equal(nxmem_status_message_len(0), 0);
  assert_int_equal(nxmem_status_message_len(254), 254);
  assert_int_equal(nxmem_status_message_len(255), 255);
  assert_int_equal(nxmem_status_message_len(256), 255);
  assert_int_equal(nxmem_status_message_len(0xFFFFFFFFu), 255);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(code_rows), test_code);
  nx_suite_rows(&suite, ROWS(cut_rows), test_cut);
  nx_suite_rows(&suite, ROWS(take_rows), test_take);
  nx_suite_add(&suite, "messages of 0 to 300 bytes", test_every_length, NULL);
  nx_suite_add(&suite, "a NUL at every place ends the message", test_ends_at_nul, NULL);
  nx_suite_add(&suite, "no text", test_no_text, NULL);
  nx_suite_add(&suite, "text length of 2^32-1 at a guard page", test_claimed_text_length, NULL);
  nx_suite_add(&suite, "only continuation bytes", test_only_continuation_bytes, NULL);
  nx_suite_add(&suite, "claimed lengths are clamped", test_message_len, NULL);
  return nx_suite_run(&suite, "status");
}
