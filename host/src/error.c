/*
 * error.c: one printable line for each failure.
 *
 * Attackers: plugin text with escapes, invalid UTF-8 or lying lengths; odd file names.
 * Promise: the line is valid UTF-8 without control characters, always terminated; it names what was found, what was needed and what to do.
 */
#include "error.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "nxmem/status.h"

static const char *advice_for(nxmem_result result) {
  switch (result) {
    case NXMEM_ERR_INVALID_ARGUMENT:
      return "correct the argument";
    case NXMEM_ERR_CANNOT_OPEN:
      return "check the path, its permissions and its dependencies";
    case NXMEM_ERR_MISSING_SYMBOL:
      return "this is not an nxmem plugin, or its exports are hidden: 'nxmem inspect' shows which";
    case NXMEM_ERR_NEGOTIATION:
      return "use a plugin and a host that share a version and the ALLOCATOR capability";
    case NXMEM_ERR_CONTRACT:
      return "the plugin breaks the contract: do not use it, report it to its author";
    case NXMEM_ERR_UNREADABLE_MEMORY:
      return "the plugin published memory that cannot be read: report it to its author";
    case NXMEM_ERR_PLUGIN:
      return "the plugin refused: its own status says why";
    case NXMEM_ERR_UNKNOWN_MECHANISM:
      return "choose one of the mechanisms the plugin publishes";
    case NXMEM_ERR_UNSUPPORTED_CAPABILITY:
      return "require less, or use a mechanism that has it";
    case NXMEM_ERR_BUSY:
      return "nothing was lost: finish what is open and try again";
    case NXMEM_ERR_STALE_HANDLE:
      return "the handle was closed, released or never issued";
    case NXMEM_ERR_WRONG_OWNER:
      return "release it through the allocator it came from";
    case NXMEM_ERR_MISMATCH:
      return "name the size, alignment and address that were allocated";
    case NXMEM_ERR_QUARANTINED:
      return "its bytes stay charged and its address is never handed out again";
    case NXMEM_ERR_OUT_OF_MEMORY:
      return "free memory and try again";
    case NXMEM_ERR_FORKED:
      return "use plugins only in the process that created the host";
    case NXMEM_ERR_UNKNOWN_ALLOCATION:
      return "it was released, prepared or quarantined before";
    case NXMEM_ERR_RETIRED:
      return "bind to the mechanism that is selected now";
    case NXMEM_ERR_DEVICE_LOST:
      return "what was allocated there is retained; confirm the termination, then remove the mechanism";
    case NXMEM_ERR_TERMINATED:
      return "remove the mechanism";
    case NXMEM_ERR_QUEUE_REFUSED:
      return "the release is yours as before: execute it, abandon it or queue it elsewhere";
    case NXMEM_ERR_NOT_ALLOWED:
      return "have the policy name these very bytes, or load what it names";
    default:
      return "see the result code";
  }
}

/* A line that is being put together; `used` never passes the end. */
typedef struct line {
  char text[NXMEM_ERROR_MESSAGE_BUF];
  size_t used;
} line;

/* What failed may carry a long path; half the line stays free for what was found. */
static void line_vprint(line *l, const char *format, va_list arguments) {
  const size_t half = sizeof l->text / 2;
  const size_t room = l->used < half ? half : sizeof l->text - l->used;
  const int n = vsnprintf(l->text + l->used, room, format, arguments);
  if (n > 0) l->used += (size_t)n < room ? (size_t)n : room - 1;
}

static void line_print(line *l, const char *format, ...) NX_PRINTF(2, 3);
static void line_print(line *l, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  line_vprint(l, format, arguments);
  va_end(arguments);
}

/* How a reason's numbers read best. */
typedef enum style {
  PLAIN,
  BOUND, /* needed is the limit that found passes, on either side */
  HEX,
  FOUND_HEX,
  FOUND_STATUS,
  DEVICE,
  NUMBERLESS
} style;

static style style_of(uint32_t reason) {
  switch (reason) {
    case NXMEM_REASON_SHORT_HEADER:
    case NXMEM_REASON_SHORT_TABLE:
    case NXMEM_REASON_SHORT_RESPONSE:
    case NXMEM_REASON_INVERTED_RANGE:
    case NXMEM_REASON_MAJOR_OUT_OF_RANGE:
    case NXMEM_REASON_MINOR_OUT_OF_RANGE:
    case NXMEM_REASON_UNKNOWN_TIER:
    case NXMEM_REASON_TOTAL_TOO_LARGE:
    case NXMEM_REASON_REPORT_SHORT:
    case NXMEM_REASON_TOO_MANY:
    case NXMEM_REASON_TOO_MANY_RETIRED:
    case NXMEM_REASON_OFFSET_OUTSIDE:
    case NXMEM_REASON_BYTES_OUTSIDE:
    case NXMEM_REASON_TOO_MANY_USERS:
    case NXMEM_REASON_TOO_MANY_RANGES:
    case NXMEM_REASON_MORE_THAN_POSSIBLE:
    case NXMEM_REASON_SHORT_PREFIX:
      return BOUND;
    case NXMEM_REASON_UNKNOWN_CAPABILITY:
    case NXMEM_REASON_NO_ALLOCATOR:
    case NXMEM_REASON_REQUIRED_MISSING:
    case NXMEM_REASON_CAPS_BEYOND_OFFER:
    case NXMEM_REASON_CAPS_BEYOND_LEVEL:
    case NXMEM_REASON_MISALIGNED_ADDRESS:
    case NXMEM_REASON_WRAPPING_ADDRESS:
      return HEX;
    case NXMEM_REASON_BAD_UTF8:
    case NXMEM_REASON_CONTROL_CHARACTER:
      return FOUND_HEX;
    case NXMEM_REASON_REPORT_FAILED:
      return FOUND_STATUS;
    case NXMEM_REASON_OTHER_DEVICE:
      return DEVICE;
    case NXMEM_REASON_NULL_POINTER:
    case NXMEM_REASON_MISSING_SLOT:
    case NXMEM_REASON_ZERO_MECHANISM:
    case NXMEM_REASON_TABLE_WITHOUT_FLAG:
    case NXMEM_REASON_FLAG_WITHOUT_SLOT:
    case NXMEM_REASON_EMPTY_NAME:
    case NXMEM_REASON_NULL_ADDRESS:
    case NXMEM_REASON_ZERO_BYTES:
    case NXMEM_REASON_REPORT_UNWRITTEN:
    case NXMEM_REASON_TICKET_UNWRITTEN:
    case NXMEM_REASON_COUNT_UNWRITTEN:
    case NXMEM_REASON_NO_PREFIX_HANDLE:
      return NUMBERLESS;
    default:
      return PLAIN;
  }
}

/* The value that the host put there before the call. */
static int is_unwritten(nxmem_verdict v) {
  if (v.reason == NXMEM_REASON_MAJOR_OUT_OF_RANGE) return v.found == 0;
  return v.found == UINT64_MAX &&
         (v.reason == NXMEM_REASON_TOTAL_TOO_LARGE || v.reason == NXMEM_REASON_TOO_MANY ||
          v.reason == NXMEM_REASON_MORE_THAN_POSSIBLE || v.reason == NXMEM_REASON_TOO_MANY_RETIRED);
}

static void line_bound(line *l, nxmem_verdict v) {
  const char *which = v.found < v.needed ? "at least" : "at most";
  if (is_unwritten(v))
    line_print(l, " (left unwritten, needed %s %" PRIu64 ")", which, v.needed);
  else
    line_print(l, " (found %" PRIu64 ", needed %s %" PRIu64 ")", v.found, which, v.needed);
}

static NxmemDeviceId unpacked(uint64_t device) {
  return (NxmemDeviceId){.tier = (uint32_t)(device >> 32), .index = (uint32_t)device};
}

static void line_devices(line *l, nxmem_verdict v) {
  char found[NX_DEVICE_TEXT], needed[NX_DEVICE_TEXT];
  nx_device_text(unpacked(v.found), found);
  nx_device_text(unpacked(v.needed), needed);
  line_print(l, " (found %s, needed %s)", found, needed);
}

static void line_numbers(line *l, nxmem_verdict v) {
  switch (style_of(v.reason)) {
    case BOUND:
      line_bound(l, v);
      break;
    case HEX:
      line_print(l, " (found 0x%" PRIx64 ", needed 0x%" PRIx64 ")", v.found, v.needed);
      break;
    case FOUND_HEX:
      line_print(l, " (found 0x%" PRIx64 ")", v.found);
      break;
    case FOUND_STATUS:
      line_print(l, " (found %s, %" PRIu64 ")", nxmem_status_name((uint32_t)v.found), v.found);
      break;
    case DEVICE:
      line_devices(l, v);
      break;
    case NUMBERLESS:
      break;
    default:
      line_print(l, " (found %" PRIu64 ", needed %" PRIu64 ")", v.found, v.needed);
      break;
  }
}

static void line_verdict(line *l, nxmem_verdict v, nx_record record) {
  const char *field = nx_field_name(record, v);
  if (field != NULL) line_print(l, ", %s", field);
  line_print(l, ": %s", nxmem_reason_text(v.reason));
  if (field == NULL && v.field != 0)
    line_print(l, " at %s %" PRIu32, record == NX_RECORD_NAME ? "byte" : "offset", v.field);
  line_numbers(l, v);
}

static void line_status(line *l, const NxmemStatus *status) {
  line_print(l, ": plugin answered %s (%" PRIu32 ")", nxmem_status_name(status->code), status->code);
  const uint32_t length = nxmem_status_message_len(status->message_len);
  if (length != 0) line_print(l, " \"%.*s\"", (int)length, (const char *)status->message);
}

/* The advice keeps its place however long the rest is. */
static void finish(nxmem_error *error, nxmem_result result, const line *l, const char *advice) {
  if (advice == NULL) advice = advice_for(result);
  const uint32_t room = (uint32_t)(sizeof error->message - strlen(advice) - sizeof "; " - NX_APPEND_ROOM);
  const uint32_t used = nxmem_text_show((const uint8_t *)l->text, (uint32_t)l->used, (uint8_t *)error->message, room);
  (void)snprintf(error->message + used, sizeof error->message - used, "; %s", advice);
  error->result = result;
}

/* What a failure is told from beside the caller's text: a status, or else a verdict unless the text says it all. */
typedef struct cause {
  const NxmemStatus *status;
  nxmem_verdict verdict;
  nx_context context;
} cause;

static void fail(nxmem_error *error, nxmem_result result, const cause *c, const char *format, va_list arguments) {
  if (error == NULL) return;
  memset(error, 0, sizeof *error);
  error->plugin_status = c->status == NULL ? (uint32_t)NXMEM_STATUS_OK : c->status->code;
  error->reason = c->verdict.reason;
  error->field = c->verdict.field;
  error->found = c->verdict.found;
  error->needed = c->verdict.needed;
  line l = {.used = 0};
  line_vprint(&l, format, arguments);
  if (c->status != NULL)
    line_status(&l, c->status);
  else if (c->context.record != NX_RECORD_SAID)
    line_verdict(&l, c->verdict, c->context.record);
  finish(error, result, &l, c->context.advice);
}

nxmem_result nx_fail(nxmem_error *error, nxmem_result result, const char *format, ...) {
  static const cause said = {.context = {.record = NX_RECORD_SAID}};
  va_list arguments;
  va_start(arguments, format);
  fail(error, result, &said, format, arguments);
  va_end(arguments);
  return result;
}

nxmem_result nx_fail_in(nxmem_error *error, nxmem_result result, nxmem_verdict verdict, nx_context context,
                        const char *format, ...) {
  const cause judged = {.verdict = verdict, .context = context};
  va_list arguments;
  va_start(arguments, format);
  fail(error, result, &judged, format, arguments);
  va_end(arguments);
  return result;
}

nxmem_result nx_fail_verdict(nxmem_error *error, nxmem_result result, nxmem_verdict verdict, const char *format, ...) {
  const cause judged = {.verdict = verdict};
  va_list arguments;
  va_start(arguments, format);
  fail(error, result, &judged, format, arguments);
  va_end(arguments);
  return result;
}

nxmem_result nx_fail_status(nxmem_error *error, nxmem_result result, const NxmemStatus *status, const char *format,
                            ...) {
  const cause answered = {.status = status};
  va_list arguments;
  va_start(arguments, format);
  fail(error, result, &answered, format, arguments);
  va_end(arguments);
  return result;
}

void nx_error_append(nxmem_error *error, const char *text) {
  if (error == NULL) return;
  const size_t used = strnlen(error->message, sizeof error->message - 1);
  (void)snprintf(error->message + used, sizeof error->message - used, "%s", text);
}

nxmem_result nx_result_of(nxmem_verdict verdict) {
  switch (verdict.reason) {
    case NXMEM_REASON_NONE:
      return NXMEM_OK;
    case NXMEM_REASON_UNREADABLE:
      return NXMEM_ERR_UNREADABLE_MEMORY;
    case NXMEM_REASON_REQUIRED_MISSING:
      return NXMEM_ERR_UNSUPPORTED_CAPABILITY;
    case NXMEM_REASON_STALE_HANDLE:
      return NXMEM_ERR_STALE_HANDLE;
    case NXMEM_REASON_IN_USE:
    case NXMEM_REASON_TOO_MANY_USERS:
      return NXMEM_ERR_BUSY;
    case NXMEM_REASON_ZERO_BYTES:
    case NXMEM_REASON_BAD_ALIGNMENT:
    case NXMEM_REASON_SIZE_WRAPS:
    case NXMEM_REASON_OFFSET_OUTSIDE:
    case NXMEM_REASON_BYTES_OUTSIDE:
    case NXMEM_REASON_TOO_MANY_RANGES:
      return NXMEM_ERR_INVALID_ARGUMENT;
    default:
      return NXMEM_ERR_CONTRACT;
  }
}
