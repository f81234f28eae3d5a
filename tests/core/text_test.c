/*
 * text_test.c: foreign text (status.c): which bytes are UTF-8, and how they are shown.
 *
 * Attackers played: every class of malformed UTF-8, terminal escapes, and room for one byte too few.
 * Promise: no raw control byte in what is shown, nothing dropped, nothing read or written outside exact blocks.
 */
#include "nxmem/status.h"
#include "support.h"

/* ---- One sequence ---- */

typedef struct utf8_row {
  const char *name;
  const char *bytes;
  uint32_t available;
  uint32_t length;
  uint32_t code_point;
} utf8_row;

static const utf8_row utf8_rows[] = {
    {"U+0000", "\0", 1, 1, 0},
    {"U+0041", "A", 1, 1, 0x41},
    {"U+007F", "\x7F", 1, 1, 0x7F},
    {"U+0080", "\xC2\x80", 2, 2, 0x80},
    {"U+07FF", "\xDF\xBF", 2, 2, 0x7FF},
    {"U+0800", "\xE0\xA0\x80", 3, 3, 0x800},
    {"U+0FFF", "\xE0\xBF\xBF", 3, 3, 0xFFF},
    {"U+1000", "\xE1\x80\x80", 3, 3, 0x1000},
    {"U+D7FF, below the surrogates", "\xED\x9F\xBF", 3, 3, 0xD7FF},
    {"U+E000, above the surrogates", "\xEE\x80\x80", 3, 3, 0xE000},
    {"U+FFFD", "\xEF\xBF\xBD", 3, 3, 0xFFFD},
    {"U+FFFF", "\xEF\xBF\xBF", 3, 3, 0xFFFF},
    {"U+10000", "\xF0\x90\x80\x80", 4, 4, 0x10000},
    {"U+40000", "\xF1\x80\x80\x80", 4, 4, 0x40000},
    {"U+10FFFF", "\xF4\x8F\xBF\xBF", 4, 4, 0x10FFFF},
    {"more follows", "A\xFF\xFF", 3, 1, 0x41},
    {"nothing available", "", 0, 0, 0},
    {"lone continuation 80", "\x80", 1, 0, 0},
    {"lone continuation BF", "\xBF", 1, 0, 0},
    {"overlong lead C0", "\xC0\x80", 2, 0, 0},
    {"overlong lead C1", "\xC1\xBF", 2, 0, 0},
    {"overlong three bytes, lowest", "\xE0\x80\x80", 3, 0, 0},
    {"overlong three bytes, highest", "\xE0\x9F\xBF", 3, 0, 0},
    {"lowest surrogate", "\xED\xA0\x80", 3, 0, 0},
    {"highest surrogate", "\xED\xBF\xBF", 3, 0, 0},
    {"overlong four bytes, lowest", "\xF0\x80\x80\x80", 4, 0, 0},
    {"overlong four bytes, highest", "\xF0\x8F\xBF\xBF", 4, 0, 0},
    {"U+110000", "\xF4\x90\x80\x80", 4, 0, 0},
    {"lead F5", "\xF5\x80\x80\x80", 4, 0, 0},
    {"lead F8 of five bytes", "\xF8\x88\x80\x80\x80", 5, 0, 0},
    {"byte FE", "\xFE", 1, 0, 0},
    {"byte FF", "\xFF", 1, 0, 0},
    {"two bytes, one available", "\xC3", 1, 0, 0},
    {"three bytes, one available", "\xE2", 1, 0, 0},
    {"three bytes, two available", "\xE2\x82", 2, 0, 0},
    {"four bytes, one available", "\xF0", 1, 0, 0},
    {"four bytes, two available", "\xF0\x9F", 2, 0, 0},
    {"four bytes, three available", "\xF0\x9F\x98", 3, 0, 0},
    {"second of two is a letter", "\xC3(", 2, 0, 0},
    {"second of two is a lead", "\xC3\xC3", 2, 0, 0},
    {"second of three is a letter", "\xE2(\xAC", 3, 0, 0},
    {"third of three is a letter", "\xE2\x82(", 3, 0, 0},
    {"third of three is a lead", "\xE2\x82\xC0", 3, 0, 0},
    {"second of four is a letter", "\xF1(\x98\x80", 4, 0, 0},
    {"third of four is a letter", "\xF0\x9F(\x80", 4, 0, 0},
    {"fourth of four is a letter", "\xF0\x9F\x98(", 4, 0, 0},
    {"fourth of four is a lead", "\xF0\x9F\x98\xC0", 4, 0, 0},
};

static void test_utf8(void **state) {
  const utf8_row *row = *state;
  uint8_t *block = nx_exact_block(row->available);
  memcpy(block, row->bytes, row->available);
  assert_int_equal(nxmem_utf8_length(block, row->available), row->length);
  if (row->length > 0) assert_int_equal(nxmem_utf8_code_point(block, row->length), row->code_point);
  free(block);
}

/* The definition, turned round: encode each code point; whatever is no encoding is refused. */
static uint32_t encode(uint32_t point, uint8_t *out) {
  if (point < 0x80) {
    out[0] = (uint8_t)point;
    return 1;
  }
  const uint32_t length = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
  for (uint32_t i = length - 1; i > 0; i--, point >>= 6) out[i] = (uint8_t)(0x80 | (point & 0x3F));
  out[0] = (uint8_t)((0xF00u >> length & 0xFF) | point);
  return length;
}

static void test_every_code_point(void **state) {
  (void)state;
  for (uint32_t point = 0; point <= 0x110000; point++) {
    uint8_t bytes[4];
    const uint32_t length = encode(point, bytes);
    const int valid = point <= 0x10FFFF && !(point >= 0xD800 && point <= 0xDFFF);
    if (nxmem_utf8_length(bytes, length) != (valid ? length : 0)) fail_msg("U+%04X", point);
    if (valid && nxmem_utf8_code_point(bytes, length) != point) fail_msg("code point of U+%04X", point);
    if (nxmem_utf8_length(bytes, length - 1) != 0) fail_msg("U+%04X cut short", point);
  }
}

/* Every sequence of three bytes, and of four whose last is at an edge, decodes to what encodes to the same bytes, or
   not at all. */
static void assert_round_trip(const uint8_t *bytes, uint32_t available) {
  const uint32_t length = nxmem_utf8_length(bytes, available);
  if (length == 0) return;
  uint8_t again[4];
  const uint32_t point = nxmem_utf8_code_point(bytes, length);
  if (encode(point, again) != length || memcmp(again, bytes, length) != 0) fail_msg("U+%04X has two forms", point);
}

static void test_no_second_form(void **state) {
  (void)state;
  const uint8_t edges[] = {0x00, 0x7F, 0x80, 0xBF, 0xC0, 0xFF};
  for (uint32_t n = 0; n < 0x1000000u; n++) {
    uint8_t bytes[4] = {(uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n, 0};
    assert_round_trip(bytes, 3);
    if (bytes[0] < 0xF0) continue;
    for (size_t i = 0; i < sizeof edges; i++) {
      bytes[3] = edges[i];
      assert_round_trip(bytes, 4);
    }
  }
}

static void test_controls(void **state) {
  (void)state;
  static const uint32_t turns[] = {0x61C,  0x200E, 0x200F, 0x2028, 0x2029, 0x202A, 0x202B,
                                   0x202C, 0x202D, 0x202E, 0x2066, 0x2067, 0x2068, 0x2069};
  size_t next = 0;
  for (uint32_t point = 0; point <= 0x10FFFF; point++) {
    const int turn = next < sizeof turns / sizeof turns[0] && point == turns[next];
    const int control = point <= 0x1F || point == 0x7F || (point >= 0x80 && point <= 0x9F) || turn;
    if (nxmem_is_control(point) != control) fail_msg("U+%04X", point);
    if (turn) next++;
  }
  assert_int_equal(next, sizeof turns / sizeof turns[0]);
}

/* ---- Showing ---- */

typedef struct show_row {
  const char *name;
  const char *bytes;
  uint32_t length;
  const char *want;
} show_row;

#define R "\xEF\xBF\xBD" /* U+FFFD */

static const show_row show_rows[] = {
    {"shown: nothing", "", 0, ""},
    {"shown: plain text", "hello", 5, "hello"},
    {"shown: a NUL inside", "a\0b", 3, "a\\x00b"},
    {"shown: line feed and tab", "a\nb\tc", 5, "a\\x0ab\\x09c"},
    {"shown: an escape sequence", "\x1B[2J", 4, "\\x1b[2J"},
    {"shown: delete", "\x7F", 1, "\\x7f"},
    {"shown: C1 controls", "\xC2\x80\xC2\x9B\xC2\x9F", 6, "\\x80\\x9b\\x9f"},
    {"shown: U+00A0 as it is", "\xC2\xA0", 2, "\xC2\xA0"},
    {"shown: backslash", "\\", 1, "\\x5c"},
    {"shown: an escape that the sender wrote", "\\x41", 4, "\\x5cx41"},
    {"shown: wide characters", "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", 9, "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"},
    {"shown: one replacement for each bad byte", "\xFF\xFE\x80", 3, R R R},
    {"shown: overlong slash", "\xC0\xAF", 2, R R},
    {"shown: a surrogate", "\xED\xA0\x80", 3, R R R},
    {"shown: cut two bytes", "a\xC3", 2, "a" R},
    {"shown: cut three bytes", "a\xE2\x82", 3, "a" R R},
    {"shown: cut four bytes", "a\xF0\x9F\x98", 4, "a" R R R},
    {"shown: a bad lead before a letter", "\xC3(", 2, R "("},
    {"shown: bad, control, good", "\xFF\x01z", 3, R "\\x01z"},
    {"shown: a raw CSI byte is no character", "\x9B", 1, R},
    {"shown: U+FFFD itself", R, 3, R},
    {"shown: line and paragraph separators", "a\xE2\x80\xA8\xE2\x80\xA9z", 8, "a\\u2028\\u2029z"},
    {"shown: text turned around",
     "a\xE2\x80\xAE"
     "fdp.exe",
     11, "a\\u202efdp.exe"},
    {"shown: an isolate, and its end", "\xE2\x81\xA6x\xE2\x81\xA9", 7, "\\u2066x\\u2069"},
    {"shown: direction marks", "\xD8\x9C\xE2\x80\x8E\xE2\x80\x8F", 8, "\\u061c\\u200e\\u200f"},
    {"shown: their neighbours as they are", "\xD8\x9B\xE2\x80\x8D\xE2\x80\x90\xE2\x80\xA7\xE2\x80\xAF\xE2\x81\xA5", 17,
     "\xD8\x9B\xE2\x80\x8D\xE2\x80\x90\xE2\x80\xA7\xE2\x80\xAF\xE2\x81\xA5"},
};

static void test_show(void **state) {
  const show_row *row = *state;
  const uint32_t full = (uint32_t)strlen(row->want);
  uint8_t *in = nx_exact_block(row->length);
  uint8_t *out = nx_exact_block(full + 1);
  memcpy(in, row->bytes, row->length);
  memset(out, 0xC5, full + 1);
  assert_int_equal(nxmem_text_show(in, row->length, out, full + 1), full);
  assert_string_equal((const char *)out, row->want);
  free(in);
  free(out);
}

/* Of a backslash with what it stands before. */
static uint32_t escape_bytes(const char *shown) { return shown[1] == 'u' ? 6 : 4; }

/* Where the pieces of a shown text end: an escape has four bytes or six, a character its own. */
static uint32_t pieces_that_fit(const char *shown, uint32_t capacity) {
  uint32_t end = 0;
  for (;;) {
    const uint8_t lead = (uint8_t)shown[end];
    const uint32_t escape = lead == '\\' ? escape_bytes(shown + end) : 0;
    const uint32_t piece = lead == 0     ? 0
                           : escape != 0 ? escape
                           : lead < 0x80 ? 1
                           : lead < 0xE0 ? 2
                           : lead < 0xF0 ? 3
                                         : 4;
    if (piece == 0 || end + piece >= capacity) return end;
    end += piece;
  }
}

/* Every room from one byte up, in a block of exactly that size. */
static void test_show_in_every_room(void **state) {
  const show_row *row = *state;
  const uint32_t full = (uint32_t)strlen(row->want);
  for (uint32_t capacity = 1; capacity <= full + 2; capacity++) {
    uint8_t *out = nx_exact_block(capacity);
    memset(out, 0xC5, capacity);
    const uint32_t fits = pieces_that_fit(row->want, capacity);
    assert_int_equal(nxmem_text_show((const uint8_t *)row->bytes, row->length, out, capacity), fits);
    assert_memory_equal(out, row->want, fits);
    assert_int_equal(out[fits], 0);
    for (uint32_t i = fits + 1; i < capacity; i++) assert_int_equal(out[i], 0xC5);
    free(out);
  }
}

static void test_show_null(void **state) {
  (void)state;
  uint8_t out[2] = {0xC5, 0xC5};
  assert_int_equal(nxmem_text_show(NULL, 0, out, 1), 0);
  assert_int_equal(out[0], 0);
  assert_int_equal(out[1], 0xC5);
}

/* Every pair of bytes: what is shown is valid UTF-8 on one line without controls. */
static void test_show_is_printable(void **state) {
  (void)state;
  for (uint32_t n = 0; n < 0x10000u; n++) {
    const uint8_t in[2] = {(uint8_t)(n >> 8), (uint8_t)n};
    uint8_t out[16];
    const uint32_t length = nxmem_text_show(in, 2, out, sizeof out);
    for (uint32_t at = 0; at < length;) {
      const uint32_t step = nxmem_utf8_length(out + at, length - at);
      if (step == 0 || nxmem_is_control(nxmem_utf8_code_point(out + at, step))) fail_msg("bytes %04X", n);
      at += step;
    }
  }
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(utf8_rows), test_utf8);
  nx_suite_rows(&suite, ROWS(show_rows), test_show);
  for (size_t i = 0; i < sizeof show_rows / sizeof show_rows[0]; i++)
    nx_suite_add(&suite, nx_name("in every room: %s", show_rows[i].name + 7), test_show_in_every_room, &show_rows[i]);
  nx_suite_add(&suite, "every code point", test_every_code_point, NULL);
  nx_suite_add(&suite, "no character has a second form", test_no_second_form, NULL);
  nx_suite_add(&suite, "control characters", test_controls, NULL);
  nx_suite_add(&suite, "no bytes at NULL", test_show_null, NULL);
  nx_suite_add(&suite, "every pair of bytes is shown printable", test_show_is_printable, NULL);
  return nx_suite_run(&suite, "text");
}
