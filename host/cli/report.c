/*
 * report.c: rows of facts as aligned lines or as one JSON document, from one data flow.
 * Attackers: texts of a plugin inside the rows; they arrive escaped.
 * Promise: both forms show the same facts; a failed write is noticed.
 */
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exit_codes.h"
#include "nxmem.h"
#include "text.h"

static const char *const VERDICT_WORD[NX_ROW_VERDICTS] = {"ok", "note", "warning", "refused"};

/* Columns: the longest verdict. */
enum { VERDICT_WIDTH = 7 };

static json_t *must(json_t *value) {
  if (!value) nx_out_of_memory();
  return value;
}

void nx_set(json_t *row, const char *key, json_t *value) {
  if (json_object_set_new(row, key, must(value))) nx_out_of_memory();
}

static json_t *text_value(const char *text) {
  if (nx_is_printable(text)) return must(json_string(text));
  char *shown = nx_show_text(text);
  json_t *value = json_string(shown);
  free(shown);
  return must(value);
}

void nx_set_text(json_t *row, const char *key, const char *text) { nx_set(row, key, text_value(text)); }

void nx_set_flag(json_t *row, const char *key, int on) { nx_set(row, key, json_boolean(on)); }

void nx_set_number(json_t *row, const char *key, uint64_t number) {
  char digits[24];
  if (number <= INT64_MAX) {
    nx_set(row, key, json_integer((json_int_t)number));
    return;
  }
  snprintf(digits, sizeof digits, "%" PRIu64, number);
  nx_set_text(row, key, digits);
}

void nx_append_text(json_t *array, const char *text) {
  if (json_array_append_new(array, text_value(text))) nx_out_of_memory();
}

json_t *nx_row(const char *name, nx_row_verdict verdict) {
  json_t *row = must(json_object());
  nx_set_text(row, "name", name);
  nx_set_text(row, "verdict", VERDICT_WORD[verdict]);
  return row;
}

void nx_report_begin(nx_report *report, const nx_report_style *style, const char *file, const nx_json_args *json) {
  *report = (nx_report){.out = stdout,
                        .command = style->command,
                        .as_json = json->printed,
                        .json_file = json->file,
                        .name_width = style->name_width};
  report->root = must(json_object());
  nx_set_text(report->root, "command", style->command);
  nx_set_text(report->root, "version", NXMEM_VERSION);
  nx_set_text(report->root, "file", file);
  report->rows = must(json_array());
  nx_set(report->root, style->rows_key, json_incref(report->rows));
  if (!report->as_json) fprintf(report->out, "%s\n", file);
}

/* ---- Lines ------------------------------------------------------------------------------------------------------- */

static void print_value(FILE *out, const json_t *value);

/* A line holds this many items of a list; JSON holds all. */
enum { LIST_ITEMS = 6 };

static void print_array(FILE *out, const json_t *array) {
  size_t size = json_array_size(array), shown = size > LIST_ITEMS ? LIST_ITEMS : size;
  if (size == 0) fputs("none", out);
  for (size_t i = 0; i < shown; i++) {
    if (i) fputc(' ', out);
    print_value(out, json_array_get(array, i));
  }
  if (shown < size) fputs(" ...", out);
}

static void print_value(FILE *out, const json_t *value) {
  if (json_is_string(value)) fputs(json_string_value(value), out);
  if (json_is_integer(value)) fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
  if (json_is_boolean(value)) fputs(json_is_true(value) ? "yes" : "no", out);
  if (json_is_null(value)) fputs("none", out);
  if (json_is_array(value)) print_array(out, value);
}

/* "owned_bytes" reads "owned bytes"; what a row is about needs no key. */
static void print_key(FILE *out, const char *key) {
  if (!strcmp(key, "value") || !strcmp(key, "mechanism")) return;
  for (; *key; key++) fputc(*key == '_' ? ' ' : *key, out);
  fputc(' ', out);
}

static void print_facts(FILE *out, json_t *row, int skip) {
  const char *separator = "", *key;
  json_t *value;
  json_object_foreach(row, key, value) {
    if (skip-- > 0 || json_is_object(value) || !strcmp(key, "message") || !strcmp(key, "result")) continue;
    fputs(separator, out);
    print_key(out, key);
    print_value(out, value);
    separator = ", ";
  }
  json_t *message = json_object_get(row, "message");
  if (!message) message = json_object_get(json_object_get(row, "error"), "message");
  if (message) fprintf(out, "%s%s", *separator ? ": " : "", json_string_value(message));
}

/* Why output first failed to arrive; the stream remembers only that it did. */
static int first_cause;

static int push(FILE *out) {
  errno = 0;
  int failed = fflush(out) || ferror(out);
  if (failed && !first_cause) first_cause = errno ? errno : EIO;
  return failed ? -1 : 0;
}

static void print_row(const nx_report *report, json_t *row) {
  enum { NAME_AND_VERDICT = 2 };
  fprintf(report->out, "  %-*s  %-*s  ", VERDICT_WIDTH, json_string_value(json_object_get(row, "verdict")),
          report->name_width, json_string_value(json_object_get(row, "name")));
  print_facts(report->out, row, NAME_AND_VERDICT);
  fputc('\n', report->out);
  push(report->out);
}

void nx_report_keep(nx_report *report, json_t *row) {
  const char *word = json_string_value(json_object_get(row, "verdict"));
  for (int i = 0; i < NX_ROW_VERDICTS; i++) report->count[i] += !strcmp(word, VERDICT_WORD[i]);
  if (json_array_append_new(report->rows, row)) nx_out_of_memory();
}

void nx_report_add(nx_report *report, json_t *row) {
  if (!report->as_json) print_row(report, row);
  nx_report_keep(report, row);
}

void nx_report_problem(nx_report *report, json_t *row, const char *message) {
  fflush(report->out);
  nx_set_text(report->root, "message", message);
  const char *file = json_string_value(json_object_get(report->root, "file"));
  const char *line = json_string_value(json_object_get(report->root, "message"));
  int named = *file && strstr(line, file);
  fprintf(stderr, "nxmem %s: %s%s%s\n", report->command, named ? "" : file, named ? "" : ": ", line);
  if (row) nx_report_keep(report, row);
}

/* ---- The end ----------------------------------------------------------------------------------------------------- */

static void print_last_line(nx_report *report) {
  const char *result = json_string_value(json_object_get(report->root, "result"));
  const json_t *unmapped = json_object_get(report->root, "unmapped");
  unsigned notes = report->count[NX_ROW_NOTE], warnings = report->count[NX_ROW_WARNING];
  fprintf(report->out, "%s: %u ok, %u note%s, %u warning%s, %u refused", result, report->count[NX_ROW_OK], notes,
          notes == 1 ? "" : "s", warnings, warnings == 1 ? "" : "s", report->count[NX_ROW_REFUSED]);
  if (json_is_boolean(unmapped))
    fputs(json_is_true(unmapped) ? "; unmapped: yes" : "; unmapped: no, resident", report->out);
  fputc('\n', report->out);
}

int nx_report_own_output(nx_report *report) {
  fflush(stdout);
  int real = dup(STDOUT_FILENO);
  if (real < 0) return -1;
  FILE *out = fdopen(real, "w");
  if (!out || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    out ? fclose(out) : close(real);
    return -1;
  }
  report->out = out;
  return 0;
}

int nx_check_output(FILE *out) {
  static int told;
  if (!push(out)) return 0;
  /* A reader that has seen enough needs no advice. */
  if (first_cause == EPIPE || told++) return -1;
  fprintf(stderr, "nxmem: could not write to standard output: %s; free space or fix where it goes, then try again\n",
          strerror(first_cause));
  return -1;
}

/* Beside the lines. */
static int write_document(const nx_report *report) {
  const char *path = report->json_file;
  errno = 0;
  if (!path || json_dump_file(report->root, path, JSON_INDENT(2)) == 0) return 0;
  char *shown = nx_show_text(path);
  fprintf(stderr, "nxmem %s: could not write %s: %s; name a file that can be written\n", report->command, shown,
          strerror(errno ? errno : EIO));
  free(shown);
  return -1;
}

int nx_report_end(nx_report *report, int exit_code) {
  nx_set_number(report->root, "exit_code", (uint64_t)exit_code);
  if (write_document(report)) exit_code = NX_EXIT_COULD_NOT_RUN;
  if (report->as_json) {
    json_dumpf(report->root, report->out, JSON_INDENT(2));
    fputc('\n', report->out);
  } else if (!json_object_get(report->root, "message")) {
    print_last_line(report);
  }
  json_decref(report->rows);
  json_decref(report->root);
  int failed = nx_check_output(report->out);
  if (report->out != stdout) fclose(report->out);
  return failed ? NX_EXIT_COULD_NOT_RUN : exit_code;
}
