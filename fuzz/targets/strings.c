/*
 * strings.c: names, messages, paths and values on their way to a person: error lines, the command's text and JSON.
 * Attackers: a plugin's messages, file names and strings of a file, with escapes, invalid UTF-8, or far too long.
 * Promise: what is shown is one printable line, equal to the reference's, cut where it must be and ended.
 *
 * Input: u8 repeats (modulo 16) | u8 result code | u32 status code | u32 claimed message length | u16 where the text is
 * split: a path before, a message behind | the text, which is repeated for the command's own limit of 4096 bytes.
 * A verdict is made of these as well: its reason is the status code, its record and field are the claimed length's low
 * and high half, its numbers the first and the second eight bytes of the text.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "harness.h"
#include "nxmem.h"
#include "reference_line.h"
#include "reference_text.h"
#include "report.h"
#include "text.h"

enum { TEXT_MAX = 700, REPEATS = 16, SHOWN_BYTES = 4096, SHOWN_MAX = 4 * SHOWN_BYTES + 4 };

typedef struct text_case {
  uint8_t repeats;
  nxmem_result result;
  uint32_t code, claimed;
  const uint8_t *text;
  uint32_t length;
  char *path;    /* of the text, without NULs */
  char *message; /* of the text */
} text_case;

/* A C string of these bytes, whose NULs become ones: arguments and file names have none. */
static char *words(const uint8_t *from, size_t bytes) {
  char *out = malloc(bytes + 1);
  if (out == NULL) fuzz_fail("harness", "no memory");
  for (size_t i = 0; i < bytes; i++) out[i] = (char)(from[i] == 0 ? 1 : from[i]);
  out[bytes] = '\0';
  return out;
}

static void same_text(const char *oracle, const char *found, const uint8_t *expected, size_t length) {
  fuzz_same_number(oracle, strlen(found), length);
  fuzz_same_bytes(oracle, found, expected, length + 1);
  if (!ref_is_printable((const uint8_t *)found, (uint32_t)length)) fuzz_fail(oracle, "not printable");
}

/* ---- The command ------------------------------------------------------------------------------------------------- */

static void run_show(const uint8_t *bytes, size_t length) {
  static uint8_t expected[SHOWN_MAX + 4];
  const uint32_t shown = length > SHOWN_BYTES ? (uint32_t)SHOWN_BYTES : (uint32_t)length;
  uint32_t written = ref_show(bytes, shown, expected, SHOWN_MAX);
  if (length > SHOWN_BYTES) {
    strcpy((char *)expected + written, "...");
    written += 3;
  }
  char *found = nx_show(bytes, length);
  same_text("show", found, expected, written);
  free(found);
}

static void run_repeated(const text_case *c) {
  const size_t length = (size_t)c->length * c->repeats;
  uint8_t *bytes = malloc(length + 1);
  if (bytes == NULL) fuzz_fail("harness", "no memory");
  for (size_t i = 0; i < length; i++) bytes[i] = c->text[i % c->length];
  uint8_t *exact = fuzz_exact(bytes, length);
  run_show(exact, length);
  free(exact);
  free(bytes);
}

static void run_hex(const text_case *c) {
  char *found = nx_show_hex(c->text, c->length);
  fuzz_same_number("hex", strlen(found), 2u * c->length);
  for (uint32_t i = 0; i < c->length; i++) {
    char expected[3];
    (void)snprintf(expected, sizeof expected, "%02x", c->text[i]);
    fuzz_same_bytes("hex", found + 2u * i, expected, 2);
  }
  free(found);
}

/* Text that a terminal takes as it stands is not changed; other text is shown. */
static void run_value(const text_case *c) {
  static uint8_t expected[SHOWN_MAX];
  const uint32_t length = (uint32_t)strlen(c->path);
  const int printable = ref_is_printable((const uint8_t *)c->path, length);
  fuzz_same_number("printable", (uint64_t)nx_is_printable(c->path), (uint64_t)printable);
  json_t *row = nx_row("text", NX_ROW_OK);
  nx_set_text(row, "value", c->path);
  const char *found = json_string_value(json_object_get(row, "value"));
  const uint32_t written = printable ? length : ref_show((const uint8_t *)c->path, length, expected, SHOWN_MAX);
  same_text("value", found, printable ? (const uint8_t *)c->path : expected, written);
  json_decref(row);
}

/* ---- Error lines ------------------------------------------------------------------------------------------------- */

/* The advice of a result, as the shortest message has it. */
static const char *advice_of(nxmem_result result, nxmem_error *error) {
  (void)nx_fail(error, result, "x");
  if (strncmp(error->message, "x; ", 3) != 0) fuzz_fail("error", "no advice behind \"%s\"", error->message);
  return error->message + 3;
}

static void expect_line(const char *oracle, const nxmem_error *error, const ref_line *line, nxmem_result result) {
  static uint8_t expected[REF_LINE];
  nxmem_error advice;
  const size_t length = ref_line_finish(line, advice_of(result, &advice), expected);
  same_text(oracle, error->message, expected, length);
  fuzz_same_number(oracle, error->result, result);
}

static void run_fail(const text_case *c) {
  nxmem_error error;
  ref_line line = {.used = 0};
  ref_line_add(&line, c->path);
  memset(&error, FUZZ_CANARY, sizeof error);
  fuzz_same_number("error", nx_fail(&error, c->result, "%s", c->path), c->result);
  expect_line("error", &error, &line, c->result);
  fuzz_same_number("error without a place", nx_fail(NULL, c->result, "%s", c->path), c->result);
}

/* A status as a plugin returns it, through the same line. */
static void run_status(const text_case *c) {
  NxmemStatus status = {c->code, c->claimed, {0}};
  char message[NXMEM_STATUS_MESSAGE_MAX + 3] = {0}, number[64];
  const size_t given = strlen(c->message) < sizeof status.message ? strlen(c->message) : sizeof status.message;
  memcpy(status.message, c->message, given);
  const size_t claimed = c->claimed < NXMEM_STATUS_MESSAGE_MAX ? c->claimed : NXMEM_STATUS_MESSAGE_MAX;
  const uint8_t *end = memchr(status.message, 0, claimed);
  const size_t length = end == NULL ? claimed : (size_t)(end - status.message);
  ref_line line = {.used = 0};
  ref_line_add(&line, c->path);
  (void)snprintf(number, sizeof number, ": plugin answered %s (%" PRIu32 ")", nxmem_status_name(c->code), c->code);
  ref_line_add(&line, number);
  (void)snprintf(message, sizeof message, " \"");
  memcpy(message + 2, status.message, length);
  char *quoted = words((const uint8_t *)message, length + 2);
  char *whole = malloc(length + 4);
  if (whole == NULL) fuzz_fail("harness", "no memory");
  (void)snprintf(whole, length + 4, "%s\"", quoted);
  if (claimed != 0) ref_line_add(&line, whole);
  nxmem_error error;
  (void)nx_fail_status(&error, c->result, &status, "%s", c->path);
  expect_line("error with a status", &error, &line, c->result);
  fuzz_same_number("error with a status", error.plugin_status, c->code);
  free(whole);
  free(quoted);
}

static uint64_t number_at(const text_case *c, size_t from) {
  uint64_t number = 0;
  for (size_t i = 0; i < 8 && from + i < c->length; i++) number |= (uint64_t)c->text[from + i] << 8u * i;
  return number;
}

static size_t device_text(uint64_t device, char *out, size_t room) {
  static const char *const tiers[] = {"device", "host", "disk"};
  const uint32_t tier = (uint32_t)(device >> 32), index = (uint32_t)device;
  if (tier < 3) return (size_t)snprintf(out, room, "%s:%" PRIu32, tiers[tier], index);
  return (size_t)snprintf(out, room, "%" PRIu32 ":%" PRIu32, tier, index);
}

/* The ways in which two numbers may be told; which one a reason takes is not judged. */
enum { WAYS = 8, WAY_BYTES = 128 };

static void all_ways(const nxmem_verdict *v, char ways[WAYS][WAY_BYTES]) {
  const char *bound = v->found < v->needed ? "at least" : "at most";
  char found[NX_DEVICE_TEXT], needed[NX_DEVICE_TEXT];
  (void)device_text(v->found, found, sizeof found);
  (void)device_text(v->needed, needed, sizeof needed);
  ways[0][0] = '\0';
  (void)snprintf(ways[1], WAY_BYTES, " (found %" PRIu64 ", needed %" PRIu64 ")", v->found, v->needed);
  (void)snprintf(ways[2], WAY_BYTES, " (found %" PRIu64 ", needed %s %" PRIu64 ")", v->found, bound, v->needed);
  (void)snprintf(ways[3], WAY_BYTES, " (left unwritten, needed %s %" PRIu64 ")", bound, v->needed);
  (void)snprintf(ways[4], WAY_BYTES, " (found 0x%" PRIx64 ", needed 0x%" PRIx64 ")", v->found, v->needed);
  (void)snprintf(ways[5], WAY_BYTES, " (found 0x%" PRIx64 ")", v->found);
  (void)snprintf(ways[6], WAY_BYTES, " (found %s, %" PRIu64 ")", nxmem_status_name((uint32_t)v->found), v->found);
  (void)snprintf(ways[7], WAY_BYTES, " (found %s, needed %s)", found, needed);
}

/* What is told of a verdict before its numbers. */
static void add_place(ref_line *line, const nxmem_verdict *v, nx_record record) {
  const char *field = nx_field_name(record, *v);
  char offset[32];
  if (field != NULL) ref_line_add(line, ", ");
  if (field != NULL) ref_line_add(line, field);
  ref_line_add(line, ": ");
  ref_line_add(line, nxmem_reason_text(v->reason));
  if (field != NULL || v->field == 0) return;
  (void)snprintf(offset, sizeof offset, " at %s %" PRIu32, record == NX_RECORD_NAME ? "byte" : "offset", v->field);
  ref_line_add(line, offset);
}

static int is_line(const nxmem_error *error, const ref_line *line, nxmem_result result) {
  static uint8_t expected[REF_LINE];
  nxmem_error advice;
  const size_t length = ref_line_finish(line, advice_of(result, &advice), expected);
  return strlen(error->message) == length && memcmp(error->message, expected, length) == 0;
}

static void run_verdict(const text_case *c) {
  char ways[WAYS][WAY_BYTES];
  const nxmem_verdict v = {c->code, c->claimed >> 16, number_at(c, 0), number_at(c, 8)};
  const nx_record record = (nx_record)(c->claimed % ((uint32_t)NX_RECORD_UNLOAD + 1u));
  nxmem_error error;
  (void)nx_fail_in(&error, c->result, v, (nx_context){record, NULL}, "%s", c->path);
  fuzz_same_number("verdict, reason", error.reason, v.reason);
  fuzz_same_number("verdict, field", error.field, v.field);
  fuzz_same_number("verdict, found", error.found, v.found);
  fuzz_same_number("verdict, needed", error.needed, v.needed);
  fuzz_same_number("verdict, whether it is a failure", nx_result_of(v) != NXMEM_OK, v.reason != NXMEM_REASON_NONE);
  all_ways(&v, ways);
  for (uint32_t i = 0; i < WAYS; i++) {
    ref_line line = {.used = 0};
    ref_line_add(&line, c->path);
    if (record != NX_RECORD_SAID) add_place(&line, &v, record);
    if (record != NX_RECORD_SAID && ways[i][0] != '\0') ref_line_add(&line, ways[i]);
    if (is_line(&error, &line, c->result)) return;
  }
  fuzz_fail("verdict", "told as \"%s\"", error.message);
}

static void run_append(const text_case *c) {
  nxmem_error error;
  (void)nx_fail(&error, c->result, "%s", c->path);
  char before[sizeof error.message];
  strcpy(before, error.message);
  nx_error_append(&error, "; its module stays mapped");
  const size_t length = strlen(before);
  fuzz_same_bytes("append", error.message, before, length);
  if (strcmp(error.message + length, "; its module stays mapped") != 0)
    fuzz_fail("append", "what was to follow is cut");
}

/* ---- Numbers and files ------------------------------------------------------------------------------------------- */

static void run_words(const text_case *c) {
  const char *const found[] = {nxmem_result_name((nxmem_result)c->code), nxmem_reason_text(c->code),
                               nxmem_status_name(c->code)};
  for (uint32_t i = 0; i < 3; i++)
    if (found[i] == NULL || found[i][0] == '\0' ||
        !ref_is_printable((const uint8_t *)found[i], (uint32_t)strlen(found[i])))
      fuzz_fail("words", "no word for %" PRIu32, c->code);
  char device[NX_DEVICE_TEXT], expected[64];
  nx_device_text((NxmemDeviceId){c->code, c->claimed}, device);
  const size_t length = device_text((uint64_t)c->code << 32 | c->claimed, expected, sizeof expected);
  same_text("device", device, (const uint8_t *)expected, length);
}

static nxmem_host the_host(void) {
  static nxmem_host host;
  if (host.id == 0 && nxmem_host_create(NULL, &host, NULL) != NXMEM_OK) fuzz_fail("harness", "no host");
  return host;
}

/* A path that leads nowhere: refused, and told in one printable line. */
static void run_path(const text_case *c) {
  static const char nowhere[] = "/nonexistent/";
  const size_t bytes = strlen(c->path) + sizeof nowhere;
  char *path = malloc(bytes);
  if (path == NULL) fuzz_fail("harness", "no memory");
  (void)snprintf(path, bytes, "%s%s", c->repeats % 2u != 0 ? nowhere : "", c->path);
  const int relative = path[0] != '/';
  const nxmem_result expected =
      relative || strchr(path, '$') != NULL ? NXMEM_ERR_INVALID_ARGUMENT : NXMEM_ERR_CANNOT_OPEN;
  nxmem_error error;
  nxmem_plugin plugin;
  if (relative || c->repeats % 2u != 0) {
    fuzz_same_number("path", nxmem_plugin_open(the_host(), path, &plugin, &error), expected);
    if (!ref_is_printable((const uint8_t *)error.message, (uint32_t)strlen(error.message)))
      fuzz_fail("path", "the message is not printable");
    nxmem_error advice;
    if (strstr(error.message, advice_of(expected, &advice)) == NULL) fuzz_fail("path", "the advice is cut");
  }
  free(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input in = fuzz_begin(data, size);
  text_case c;
  c.repeats = fuzz_take_u8(&in) % (uint8_t)REPEATS;
  c.result = (nxmem_result)(1u + fuzz_take_u8(&in) % (uint32_t)NXMEM_ERR_NOT_ALLOWED);
  c.code = fuzz_take_u32(&in);
  c.claimed = fuzz_take_u32(&in);
  const uint32_t split = fuzz_take_u16(&in);
  c.length = in.left < TEXT_MAX ? (uint32_t)in.left : (uint32_t)TEXT_MAX;
  uint8_t *text = fuzz_exact(in.at, c.length);
  c.text = text;
  const uint32_t at = c.length == 0 ? 0 : split % (c.length + 1u);
  c.path = words(text, at);
  c.message = words(at == c.length ? text : text + at, c.length - at);
  run_repeated(&c);
  run_hex(&c);
  run_value(&c);
  run_fail(&c);
  run_status(&c);
  run_verdict(&c);
  run_append(&c);
  run_words(&c);
  run_path(&c);
  free(c.message);
  free(c.path);
  free(text);
  return 0;
}
