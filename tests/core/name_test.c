/*
 * name_test.c: which bytes are a name, row by row.
 *
 * Attackers played: empty, endless, malformed and terminal-steering names.
 * Promise: the first offence is asserted with its offset and value; an exact block ends where the name may be looked
 * at.
 */
#include "nxmem/name.h"

#include "support.h"

#define ALLOW \
  { NXMEM_REASON_NONE, 0, 0, 0 }
#define BAD(offset, byte) \
  { NXMEM_REASON_BAD_UTF8, offset, byte, 0 }
#define CONTROL(offset, code) \
  { NXMEM_REASON_CONTROL_CHARACTER, offset, code, 0 }

typedef struct name_row {
  const char *name;
  const char *bytes; /* as many as `available` says, the literal's own NUL among them where it fits */
  uint32_t available;
  nxmem_verdict want;
  uint32_t length;
} name_row;

static const name_row name_rows[] = {
    {"one letter", "a", 2, ALLOW, 1},
    {"bytes behind the NUL do not matter", "ok\0\xFF\x01", 6, ALLOW, 2},
    {"a space", " ", 2, ALLOW, 1},
    {"a backslash is a character like others", "a\\b", 4, ALLOW, 3},
    {"two-byte character", "\xC3\xA9", 3, ALLOW, 2},
    {"three-byte character", "\xE2\x82\xAC", 4, ALLOW, 3},
    {"four-byte character", "\xF0\x9F\x98\x80", 5, ALLOW, 4},
    {"U+00A0, the first behind the C1 controls", "\xC2\xA0", 3, ALLOW, 2},
    {"U+10FFFF", "\xF4\x8F\xBF\xBF", 5, ALLOW, 4},
    {"empty", "", 1, {NXMEM_REASON_EMPTY_NAME, 0, 0, 1}, 0},
    {"empty with text behind", "\0abc", 5, {NXMEM_REASON_EMPTY_NAME, 0, 0, 1}, 0},
    {"nothing readable", "", 0, {NXMEM_REASON_UNTERMINATED_NAME, 0, 0, 256}, 0},
    {"one byte without a NUL", "a", 1, {NXMEM_REASON_UNTERMINATED_NAME, 0, 1, 256}, 0},
    {"five bytes without a NUL", "abcde", 5, {NXMEM_REASON_UNTERMINATED_NAME, 0, 5, 256}, 0},
    {"no NUL is named before bad UTF-8", "\xFF\xFF", 2, {NXMEM_REASON_UNTERMINATED_NAME, 0, 2, 256}, 0},
    {"a byte that starts nothing", "\xFF", 2, BAD(0, 0xFF), 0},
    {"a continuation byte alone", "ab\x80", 4, BAD(2, 0x80), 0},
    {"overlong slash", "\xC0\xAF", 3, BAD(0, 0xC0), 0},
    {"a surrogate", "x\xED\xA0\x80", 5, BAD(1, 0xED), 0},
    {"above U+10FFFF", "\xF4\x90\x80\x80", 5, BAD(0, 0xF4), 0},
    {"two-byte character cut by the NUL", "a\xC3", 3, BAD(1, 0xC3), 0},
    {"three-byte character cut by the NUL", "a\xE2\x82", 4, BAD(1, 0xE2), 0},
    {"four-byte character cut by the NUL", "a\xF0\x9F\x98", 5, BAD(1, 0xF0), 0},
    {"U+0001", "\x01", 2, CONTROL(0, 1), 0},
    {"tab", "a\tb", 4, CONTROL(1, 9), 0},
    {"line feed", "a\n", 3, CONTROL(1, 10), 0},
    {"escape", "\x1B[31m", 6, CONTROL(0, 27), 0},
    {"U+001F", "ab\x1F", 4, CONTROL(2, 31), 0},
    {"delete", "\x7F", 2, CONTROL(0, 127), 0},
    {"U+0080", "\xC2\x80", 3, CONTROL(0, 128), 0},
    {"U+009B, the one-byte CSI", "a\xC2\x9B", 4, CONTROL(1, 0x9B), 0},
    {"U+009F", "\xC2\x9F", 3, CONTROL(0, 0x9F), 0},
    {"U+061C, which turns what stands behind it", "a\xD8\x9C", 4, CONTROL(1, 0x61C), 0},
    {"U+200E", "\xE2\x80\x8E", 4, CONTROL(0, 0x200E), 0},
    {"U+2028, a line separator", "ab\xE2\x80\xA8", 6, CONTROL(2, 0x2028), 0},
    {"U+202E, which turns text around", "a\xE2\x80\xAEz", 6, CONTROL(1, 0x202E), 0},
    {"U+2069", "\xE2\x81\xA9", 4, CONTROL(0, 0x2069), 0},
    {"U+2027 and U+202F, their neighbours", "\xE2\x80\xA7\xE2\x80\xAF", 7, ALLOW, 6},
    {"the first offence is named: control, then bad", "a\x01\xFF", 4, CONTROL(1, 1), 0},
    {"the first offence is named: bad, then control", "a\xFF\x01", 4, BAD(1, 0xFF), 0},
    {"an offence behind a wide character", "\xF0\x9F\x98\x80\xFE", 6, BAD(4, 0xFE), 0},
};

static void test_name(void **state) {
  const name_row *row = *state;
  uint8_t *block = nx_exact_block(row->available);
  memcpy(block, row->bytes, row->available);
  uint32_t length = 0xC5C5u;
  nx_assert_verdict(nxmem_check_name(block, row->available, &length), row->want);
  assert_int_equal(length, row->want.reason == NXMEM_REASON_NONE ? row->length : 0xC5C5u);
  free(block);
}

typedef struct fetched_row {
  const char *name;
  uint64_t address;
  uint32_t available; /* of 256 letters, with a NUL at `ended` where that is below 256 */
  uint32_t ended;
  nxmem_verdict want;
} fetched_row;

static const fetched_row fetched_rows[] = {
    {"fetched: a name", 4096, 256, 5, ALLOW},
    {"fetched: a name at the end of what can be read", 4096, 6, 5, ALLOW},
    {"fetched: the longest name", 4096, 256, 255, ALLOW},
    {"fetched: NULL", 0, 0, 256, {NXMEM_REASON_NULL_POINTER, 0, 0, 256}},
    {"fetched: nothing readable", 4096, 0, 256, {NXMEM_REASON_UNREADABLE, 0, 0, 256}},
    {"fetched: cut before its NUL", 4096, 5, 5, {NXMEM_REASON_UNREADABLE, 0, 5, 256}},
    {"fetched: one byte short of endless", 4096, 255, 256, {NXMEM_REASON_UNREADABLE, 0, 255, 256}},
    {"fetched: endless", 4096, 256, 256, {NXMEM_REASON_UNTERMINATED_NAME, 0, 256, 256}},
    {"fetched: empty", 4096, 256, 0, {NXMEM_REASON_EMPTY_NAME, 0, 0, 1}},
};

static void test_fetched(void **state) {
  const fetched_row *row = *state;
  uint8_t letters[NXMEM_NAME_BUF + 1];
  memset(letters, 'n', sizeof letters);
  letters[row->ended] = 0;
  uint8_t *block = nx_exact_block(row->available);
  memcpy(block, letters, row->available);
  uint32_t length = 0xC5C5u;
  nx_assert_verdict(nxmem_check_fetched_name(row->address, block, row->available, &length), row->want);
  assert_int_equal(length, row->want.reason == NXMEM_REASON_NONE ? row->ended : 0xC5C5u);
  free(block);
}

static void test_fetched_text(void **state) {
  (void)state;
  uint32_t length = 0;
  nx_assert_verdict(nxmem_check_fetched_name(1, (const uint8_t *)"a\xFF", 3, &length), (nxmem_verdict)BAD(1, 0xFF));
  nx_assert_verdict(nxmem_check_fetched_name(1, (const uint8_t *)"a\n", 3, &length), (nxmem_verdict)CONTROL(1, 10));
}

/* Plain letters of every length, with the NUL at the guard page, and without it. */
static void test_lengths(void **state) {
  (void)state;
  nx_fence fence;
  nx_fence_open(&fence, 256);
  memset(fence.end - 256, 'n', 256);
  for (uint32_t available = 1; available <= 256; available++) {
    uint32_t length = 0;
    nx_assert_verdict(nxmem_check_name(fence.end - available, available, &length),
                      (nxmem_verdict){NXMEM_REASON_UNTERMINATED_NAME, 0, available, 256});
  }
  fence.end[-1] = 0;
  for (uint32_t available = 2; available <= 256; available++) {
    uint32_t length = 0;
    nx_assert_verdict(nxmem_check_name(fence.end - available, available, &length), (nxmem_verdict)ALLOW);
    assert_int_equal(length, available - 1);
  }
  nx_fence_close(&fence);
}

typedef struct same_row {
  const char *name;
  const char *a;
  const char *b;
  int same;
} same_row;

static const same_row same_rows[] = {
    {"same letters", "eager", "eager", 1},
    {"different letters", "eager", "eaves", 0},
    {"one is a prefix", "eager", "eager-2", 0},
    {"the other is a prefix", "eager-2", "eager", 0},
    {"case matters", "eager", "Eager", 0},
    {"different in the first byte", "a", "b", 0},
    {"no normal form: e acute twice", "\xC3\xA9", "e\xCC\x81", 0},
};

static void test_same(void **state) {
  const same_row *row = *state;
  uint8_t *a = nx_exact_block(strlen(row->a) + 1);
  uint8_t *b = nx_exact_block(strlen(row->b) + 1);
  memcpy(a, row->a, strlen(row->a) + 1);
  memcpy(b, row->b, strlen(row->b) + 1);
  assert_int_equal(nxmem_same_name(a, b), row->same);
  const NxmemDeviceId here = {1, 0}, there = {1, 1}, elsewhere = {0, 0};
  assert_int_equal(nxmem_same_mechanism(here, a, here, b), row->same);
  assert_int_equal(nxmem_same_mechanism(here, a, there, b), 0);
  assert_int_equal(nxmem_same_mechanism(here, a, elsewhere, b), 0);
  free(a);
  free(b);
}

static void test_same_at_full_length(void **state) {
  (void)state;
  uint8_t a[NXMEM_NAME_BUF];
  uint8_t b[NXMEM_NAME_BUF];
  memset(a, 'x', sizeof a);
  memset(b, 'x', sizeof b);
  a[255] = 0;
  b[255] = 0;
  assert_int_equal(nxmem_same_name(a, b), 1);
  b[254] = 'y';
  assert_int_equal(nxmem_same_name(a, b), 0);
  b[254] = 0;
  assert_int_equal(nxmem_same_name(a, b), 0);
}

/* Not names at all, but bounded all the same: nothing behind the buffers is looked at. */
static void test_same_without_nul(void **state) {
  (void)state;
  uint8_t *a = nx_exact_block(NXMEM_NAME_BUF);
  uint8_t *b = nx_exact_block(NXMEM_NAME_BUF);
  memset(a, 'x', NXMEM_NAME_BUF);
  memset(b, 'x', NXMEM_NAME_BUF);
  assert_int_equal(nxmem_same_name(a, b), 1);
  free(a);
  free(b);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(name_rows), test_name);
  nx_suite_rows(&suite, ROWS(fetched_rows), test_fetched);
  nx_suite_add(&suite, "fetched: bytes that are no name", test_fetched_text, NULL);
  nx_suite_rows(&suite, ROWS(same_rows), test_same);
  nx_suite_add(&suite, "lengths 1 to 256 at a guard page", test_lengths, NULL);
  nx_suite_add(&suite, "same names of 255 bytes", test_same_at_full_length, NULL);
  nx_suite_add(&suite, "comparison without a NUL ends at 256 bytes", test_same_without_nul, NULL);
  return nx_suite_run(&suite, "name");
}
