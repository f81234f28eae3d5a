/*
 * status.c: hostile text through everything that builds, takes, judges or shows it.
 * Attackers: a peer whose lengths lie, whose text is unterminated, malformed, or steers a terminal.
 * Promise: no byte outside the text is read, none outside the room written; what is shown is printable and accounts for
 * every byte.
 *
 * Input: u32 status code | u32 claimed message length | u16 capacity | the text.
 */
#include "nxmem/status.h"

#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "nxmem/name.h"
#include "reference_text.h"

/* More than a message and a name hold, by more than the longest character. */
enum { TEXT_MAX = 320, SHOWN_MAX = 4 * TEXT_MAX + 1 };

typedef struct text_case {
  uint32_t code;
  uint32_t claimed;
  uint32_t capacity;
  const uint8_t *text; /* exactly `length` bytes; NULL for none */
  uint32_t length;
} text_case;

/* At every position, with all that is left: the last ones see the text's end. */
static void run_utf8(const text_case *c) {
  fuzz_same_number("utf8 length of nothing", nxmem_utf8_length(NULL, 0), 0);
  for (uint32_t at = 0; at < c->length; at++) {
    uint32_t code_point = 0;
    const uint32_t expected = ref_decode(c->text + at, c->length - at, &code_point);
    fuzz_same_number("utf8 length", nxmem_utf8_length(c->text + at, c->length - at), expected);
    if (expected == 0) continue;
    fuzz_same_number("code point", nxmem_utf8_code_point(c->text + at, expected), code_point);
    fuzz_same_number("control", (uint64_t)nxmem_is_control(code_point), (uint64_t)ref_is_control(code_point));
  }
}

static void expect_message(const char *oracle, const NxmemStatus *found, uint32_t code, const uint8_t *text,
                           uint32_t length) {
  uint8_t message[NXMEM_STATUS_MESSAGE_BUF] = {0};
  if (length != 0) memcpy(message, text, length);
  fuzz_same_number(oracle, found->code, code);
  fuzz_same_number(oracle, found->message_len, length);
  fuzz_same_bytes(oracle, found->message, message, sizeof message);
}

static void run_build(const text_case *c) {
  NxmemStatus status;
  memset(&status, FUZZ_CANARY, sizeof status);
  nxmem_status_build(&status, c->code, c->text, c->length);
  if (!ref_is_message_cut(c->text, c->length, status.message_len))
    fuzz_fail("build", "%u bytes of %u: no place to cut", status.message_len, c->length);
  expect_message("build", &status, c->code, c->text, status.message_len);
}

/* A status as a plugin returns it: whole, its text unterminated, what lies behind the text not zero. */
static void run_take(const text_case *c) {
  NxmemStatus wire = {c->code, c->claimed, {0}};
  NxmemStatus taken;
  memset(wire.message, FUZZ_CANARY, sizeof wire.message);
  memset(&taken, FUZZ_CANARY, sizeof taken);
  const uint32_t there = c->length < sizeof wire.message ? c->length : (uint32_t)sizeof wire.message;
  if (there != 0) memcpy(wire.message, c->text, there);

  uint32_t expected = 0;
  while (expected < c->claimed && expected < 255 && wire.message[expected] != 0) expected++;
  NxmemStatus *exact = fuzz_exact(&wire, sizeof wire);
  nxmem_status_take(exact, &taken);
  free(exact);
  expect_message("take", &taken, c->code, wire.message, expected);
  fuzz_same_number("message length", nxmem_status_message_len(c->claimed), c->claimed < 256 ? c->claimed : 255);
}

static void run_show(const text_case *c, uint32_t capacity) {
  uint8_t expected[SHOWN_MAX];
  uint8_t *shown = fuzz_exact_canary(capacity);
  const uint32_t written = nxmem_text_show(c->text, c->length, shown, capacity);
  if (written >= capacity) fuzz_fail("show", "%u bytes in a room of %u", written, capacity);
  fuzz_same_number("show", shown[written], 0);
  if (!ref_is_printable(shown, written)) fuzz_fail("show", "what is shown is not printable");
  fuzz_same_number("show", written, ref_show(c->text, c->length, expected, capacity));
  fuzz_same_bytes("show", shown, expected, written);
  if (capacity > 4 * c->length && !ref_shows_all(c->text, c->length, shown, written))
    fuzz_fail("show", "a byte was dropped though the room sufficed");
  free(shown);
}

static void run_same_name(const uint8_t *name, uint32_t length) {
  uint8_t a[NXMEM_NAME_BUF] = {0};
  uint8_t b[NXMEM_NAME_BUF];
  memset(b, FUZZ_CANARY, sizeof b);
  memcpy(a, name, length);
  memcpy(b, name, length + 1); /* with its NUL; what follows differs and does not count */
  fuzz_same_number("same name", (uint64_t)nxmem_same_name(a, b), 1);
  b[length - 1] ^= 1u;
  fuzz_same_number("other name", (uint64_t)nxmem_same_name(a, b), 0);
  b[length - 1] = 0;
  fuzz_same_number("shorter name", (uint64_t)nxmem_same_name(a, b), 0);
}

static void run_name(const text_case *c) {
  const uint32_t available = c->length < NXMEM_NAME_BUF ? c->length : (uint32_t)NXMEM_NAME_BUF;
  uint32_t length;
  uint32_t expected;
  memset(&length, FUZZ_CANARY, sizeof length);
  memset(&expected, FUZZ_CANARY, sizeof expected);
  uint8_t *exact = fuzz_exact(c->text, available);
  const nxmem_verdict want = ref_name(c->text, available, &expected);
  fuzz_same_verdict("name", nxmem_check_name(exact, available, &length), want);
  fuzz_same_number("name length", length, expected);
  free(exact);
  length = (uint32_t)available;
  fuzz_same_verdict("name before the guard page",
                    nxmem_check_name(fuzz_at_guard(c->text, available), available, &length), want);
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
  uint8_t *text = fuzz_exact(in.at, c.length);
  c.text = text;
  run_utf8(&c);
  run_build(&c);
  run_take(&c);
  run_name(&c);
  run_show(&c, 1);
  run_show(&c, c.capacity);
  run_show(&c, 4 * c.length + 1);
  run_reason(c.code);
  free(text);
  return 0;
}
