/*
 * out_json.c: every verdict as one JSON document.
 * Attackers: texts of the plugin, escaped before.
 * Promise: the same verdicts as the lines.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conform/result.h"
#include "nxmem.h"
#include "report.h"
#include "text.h"
#include "words.h"

int nx_cannot_write(const char *path) {
  char *shown = nx_show_text(path);
  fprintf(stderr, "nxmem conform: could not write %s: %s; name a file that can be written\n", shown, strerror(errno));
  free(shown);
  return -1;
}

int nx_dump_document(json_t *document, const char *path) {
  errno = 0;
  int failed = json_dump_file(document, path, JSON_INDENT(2));
  json_decref(document);
  if (failed && !errno) errno = EIO;
  return failed ? nx_cannot_write(path) : 0;
}

static json_t *object(void) {
  json_t *made = json_object();
  if (!made) nx_out_of_memory();
  return made;
}

static json_t *finding_object(const nx_finding *finding) {
  json_t *row = object();
  nx_set_text(row, "rule", finding->rule->id);
  nx_set_text(row, "verdict", NX_RULING_WORD[finding->ruling]);
  if (finding->target) nx_set_text(row, "mechanism", finding->target->name);
  if (finding->target) nx_set_device(row, finding->target->device);
  nx_set_text(row, "statement", finding->rule->statement);
  nx_set_text(row, "section", finding->rule->section);
  nx_set_text(row, "severity", nx_severity_word(finding->rule->severity));
  nx_set_text(row, "evidence", finding->evidence);
  nx_set_number(row, "elapsed_us", finding->elapsed_us);
  return row;
}

static const char *result_word(const nx_result *result) {
  static const char *const words[] = {"fine", "findings", "usage", "could-not-run"};
  return words[result->exit_code];
}

int nx_write_json(const nx_result *result, const char *path) {
  json_t *root = object(), *rows = json_array();
  if (!rows) nx_out_of_memory();
  nx_set_text(root, "command", "conform");
  nx_set_text(root, "version", NXMEM_VERSION);
  nx_set_text(root, "file", result->file);
  nx_set_text(root, "result", result_word(result));
  nx_set_number(root, "exit_code", (uint64_t)result->exit_code);
  nx_set_number(root, "passed", result->tally[NX_RULING_PASS]);
  nx_set_number(root, "failed", result->tally[NX_RULING_FAIL]);
  nx_set_number(root, "not_applicable", result->tally[NX_RULING_NOT_APPLICABLE]);
  nx_set_number(root, "could_not_run", result->tally[NX_RULING_COULD_NOT_RUN]);
  nx_set_number(root, "elapsed_us", result->elapsed_us);
  for (size_t i = 0; i < result->count; i++)
    if (json_array_append_new(rows, finding_object(&result->findings[i]))) nx_out_of_memory();
  nx_set(root, "verdicts", rows);
  return nx_dump_document(root, path);
}
