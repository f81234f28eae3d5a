/*
 * status.c: hostile text through everything that builds, takes, judges or shows it.
 * Attackers: a peer whose lengths lie, whose text is unterminated, malformed, or steers a terminal.
 * Promise: no byte outside the text is read, none outside the room written; what is shown is printable and accounts for
 * every byte.
 *
 * Input: u32 status code | u32 claimed message length | u16 capacity | the text.
 */
#include "nxmem/status.h"

#include <string.h>

#include "harness.h"
#include "nxmem/name.h"
#include "reference_text.h"

/* More than a message and a name hold, by more than the longest character. */
enum { TEXT_MAX = REF_TEXT_MAX, SHOWN_MAX = REF_SHOWN_MAX + 1 };

/*
 * Of a longer text only the end is decoded and shown, four of the longest characters, but of one in sixteen: each byte
 * costs, and what is true of a piece does not depend on how many stand before it. What cuts and clamps has all of it each
 * time.
 */
enum { SHORT = 16, ONE_IN = 16 };

/* The blocks of the heap that calls are given. */
enum { BLOCK_TEXT, BLOCK_OUTPUT, BLOCK_INPUT, BLOCK_OTHER, BLOCK_SHOWN };

typedef struct text_case {
  uint32_t code;
  uint32_t claimed;
  uint32_t capacity;
  const uint8_t *text; /* exactly `length` bytes; NULL for none */
  uint32_t length;
  ref_text decoded;
  int thorough;  /* one in sixteen */
  uint32_t from; /* what is decoded and shown begins there */
} text_case;

/*
 * By a sum of the numbers and the end, which each change of them throws anew. A number of the input's by itself would
 * come down to its descendants: what has more edges for being looked at longer is what an engine makes inputs from.
 */
static int is_thorough(const text_case *c) {
  uint64_t end[2] = {0, 0};
  if (c->length >= sizeof end) memcpy(end, c->text + c->length - sizeof end, sizeof end);
  uint64_t sum = ((uint64_t)c->code << 32 | c->claimed) ^ (uint64_t)c->capacity << 16 ^ c->length;
  sum = (sum ^ end[0]) * 0x9E3779B97F4A7C15ull;
  sum = (sum ^ sum >> 32 ^ end[1]) * 0x9E3779B97F4A7C15ull;
  return (sum >> 32) % ONE_IN == 0;
}

static void run_position(const text_case *c, uint32_t at) {
  const uint32_t expected = c->decoded.steps[at];
  const uint32_t code_point = c->decoded.points[at];
  fuzz_same_number("utf8 length", nxmem_utf8_length(c->text + at, c->length - at), expected);
  if (expected == 0) return;
  fuzz_same_number("code point", nxmem_utf8_code_point(c->text + at, expected), code_point);
  fuzz_same_number("control", (uint64_t)nxmem_is_control(code_point), (uint64_t)ref_is_control(code_point));
}

/*
 * At every position, with all that is left: the last ones see the text's end. A character of one byte, wherever it
 * stands, once; what is shown has each of them.
 */
static void run_utf8(const text_case *c) {
  uint64_t met[2] = {0, 0};
  fuzz_same_number("utf8 length of nothing", nxmem_utf8_length(NULL, 0), 0);
  for (uint32_t at = c->from; at < c->length; at++) {
    const uint8_t byte = c->text[at];
    if (byte < 0x80u && (met[byte / 64u] >> byte % 64u & 1u) != 0) continue;
    if (byte < 0x80u) met[byte / 64u] |= 1ull << byte % 64u;
    run_position(c, at);
  }
}

static void expect_message(const char *oracle, const NxmemStatus *found, uint32_t code, const uint8_t *text,
                           uint32_t length) {
  static const uint8_t zeros[NXMEM_STATUS_MESSAGE_BUF];
  fuzz_same_number(oracle, found->code, code);
  fuzz_same_number(oracle, found->message_len, length);
  fuzz_same_bytes(oracle, found->message, text, length);
  fuzz_same_bytes(oracle, found->message + length, zeros, sizeof zeros - length);
}

static void run_build(const text_case *c) {
  NxmemStatus *status = fuzz_kept_canary(BLOCK_OUTPUT, sizeof *status);
  nxmem_status_build(status, c->code, c->text, c->length);
  const uint32_t cut = status->message_len;
  if (cut > 255 || !ref_is_message_cut(c->text, c->length, cut))
    fuzz_fail("build", "%u bytes of %u: no place to cut", cut, c->length);
  expect_message("build", status, c->code, c->text, cut);
}

/* A status as a plugin returns it: whole, its text unterminated, what lies behind the text not zero. */
static void run_take(const text_case *c) {
  NxmemStatus *wire = fuzz_kept_canary(BLOCK_INPUT, sizeof *wire);
  NxmemStatus *taken = fuzz_kept_canary(BLOCK_OUTPUT, sizeof *taken);
  wire->code = c->code;
  wire->message_len = c->claimed;
  const uint32_t there = c->length < sizeof wire->message ? c->length : (uint32_t)sizeof wire->message;
  fuzz_copy(wire->message, c->text, there);

  uint32_t expected = 0;
  while (expected < c->claimed && expected < 255 && wire->message[expected] != 0) expected++;
  nxmem_status_take(wire, taken);
  expect_message("take", taken, c->code, wire->message, expected);
  fuzz_same_number("message length", nxmem_status_message_len(c->claimed), c->claimed < 256 ? c->claimed : 255);
}

/* Returns what is shown: `fits` bytes of it. All that may be written is the canary before. */
static const uint8_t *run_show(const text_case *c, const ref_shown *all, uint32_t fits, uint32_t capacity) {
  const uint32_t room = capacity - 1u < all->length ? capacity - 1u : all->length;
  uint8_t *shown = fuzz_kept_end(BLOCK_SHOWN, capacity);
  fuzz_fill(shown - FUZZ_KEPT_BEFORE, FUZZ_KEPT_BEFORE + room + 1u);
  const uint8_t *text = c->from == 0 ? c->text : c->text + c->from; /* may be NULL */
  const uint32_t written = nxmem_text_show(text, c->length - c->from, shown, capacity);
  if (written >= capacity) fuzz_fail("show", "%u bytes in a room of %u", written, capacity);
  fuzz_same_number("show", shown[written], 0);
  fuzz_same_number("show", written, fits);
  fuzz_same_bytes("show", shown, all->bytes, written);
  if (!fuzz_untouched(shown - FUZZ_KEPT_BEFORE, FUZZ_KEPT_BEFORE)) fuzz_fail("show", "before the room is written");
  return shown;
}

/*
 * A smaller room holds what a large one does, as far as it goes; where the input's room suffices, it is the large one.
 * What is shown is by then what the reference shows: so reading it backwards is a second opinion on both, and not asked
 * for each time.
 */
static void run_shows(const text_case *c) {
  ref_shown all;
  ref_show_all(&c->decoded, c->from, c->capacity - 1u, &all);
  run_show(c, &all, 0, 1);
  const uint8_t *shown = run_show(c, &all, all.fits, c->capacity);
  if (c->capacity <= all.length) shown = run_show(c, &all, all.length, 4 * (c->length - c->from) + 1);
  if (c->thorough && !ref_shows_all(&c->decoded, c->from, shown, all.length))
    fuzz_fail("show", "a byte was dropped though the room sufficed, or what is shown is not printable");
}

static void run_same_name(const uint8_t *name, uint32_t length) {
  uint8_t *a = fuzz_kept(BLOCK_INPUT, NULL, NXMEM_NAME_BUF);
  uint8_t *b = fuzz_kept_canary(BLOCK_OTHER, NXMEM_NAME_BUF);
  fuzz_clear(a, NXMEM_NAME_BUF);
  fuzz_copy(a, name, length);
  fuzz_copy(b, name, length + 1); /* with its NUL; what follows differs and does not count */
  fuzz_same_number("same name", (uint64_t)nxmem_same_name(a, b), 1);
  b[length - 1] ^= 1u;
  fuzz_same_number("other name", (uint64_t)nxmem_same_name(a, b), 0);
  b[length - 1] = 0;
  fuzz_same_number("shorter name", (uint64_t)nxmem_same_name(a, b), 0);
}

static void run_name(const text_case *c) {
  const uint32_t available = c->length < NXMEM_NAME_BUF ? c->length : (uint32_t)NXMEM_NAME_BUF;
  uint32_t expected;
  memset(&expected, FUZZ_CANARY, sizeof expected);
  uint32_t *length = fuzz_kept_canary(BLOCK_OUTPUT, sizeof *length);
  const nxmem_verdict want = ref_name(c->text, available, &expected);
  const uint8_t *exact = available == c->length ? c->text : fuzz_kept(BLOCK_INPUT, c->text, available);
  fuzz_same_verdict("name", nxmem_check_name(exact, available, length), want);
  fuzz_same_number("name length", *length, expected);
  if (!FUZZ_EXACT_IS_SEEN)
    fuzz_same_verdict("name before the guard page",
                      nxmem_check_name(fuzz_at_guard(c->text, available), available, length), want);
  if (want.reason == NXMEM_REASON_NONE) run_same_name(c->text, expected);
}

/*
 * OK stands for no reason and for nothing else; every answer is a code the wire knows. Reasons are only ever appended,
 * and their numbers are far from a thousand.
 */
static void run_reason(uint32_t reason) {
  const uint32_t code = nxmem_reason_status(reason);
  if (code > 14) fuzz_fail("reason", "status %u for reason %u", code, reason);
  fuzz_same_number("reason", code == 0, reason == 0);
  if (reason >= 1000u) fuzz_same_number("reason that does not exist", code, 5);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input in = fuzz_begin(data, size);
  text_case c;
  c.code = fuzz_take_u32(&in);
  c.claimed = fuzz_take_u32(&in);
  c.capacity = fuzz_take_u16(&in) % SHOWN_MAX + 1u;
  c.length = in.left < TEXT_MAX ? (uint32_t)in.left : (uint32_t)TEXT_MAX;
  c.text = fuzz_kept(BLOCK_TEXT, in.at, c.length);
  c.thorough = is_thorough(&c);
  c.from = c.length <= SHORT || c.thorough ? 0 : c.length - SHORT;
  ref_text_read(&c.decoded, c.text, c.length, c.from);
  run_utf8(&c);
  run_build(&c);
  run_take(&c);
  run_name(&c);
  run_shows(&c);
  run_reason(c.code);
  return 0;
}
