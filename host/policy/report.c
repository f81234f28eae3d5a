/*
 * report.c: a report owns its texts.
 *
 * Attackers: whoever made the file: names of libraries, any bytes.
 * Promise: every text is printable, on one line, and ends; a report is made whole or not at all.
 */
#include "report.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "nxmem/status.h"

/* The caller's own view is constant; here the same texts are ours. */
typedef struct owned_report {
  nxmem_policy_report shown;
  char **dependencies;
  char *search_path;
} owned_report;

/* A byte becomes four at the most. NULL: no memory. */
static char *printable(const char *text) {
  const size_t length = strnlen(text, 65536);
  const size_t room = 4 * length + 1;
  char *out = malloc(room);
  if (out != NULL) (void)nxmem_text_show((const uint8_t *)text, (uint32_t)length, (uint8_t *)out, (uint32_t)room);
  return out;
}

static int add_texts(owned_report *report, const nx_contents *contents) {
  report->dependencies = calloc(contents->dependency_count + 1u, sizeof *report->dependencies);
  if (report->dependencies == NULL) return 0;
  report->shown.dependencies = (const char *const *)report->dependencies;
  for (uint32_t i = 0; i < contents->dependency_count; i++) {
    report->dependencies[i] = printable(contents->dependencies[i]);
    if (report->dependencies[i] == NULL) return 0;
    report->shown.dependency_count = i + 1;
  }
  if (contents->search_path == NULL) return 1;
  report->search_path = printable(contents->search_path);
  report->shown.search_path = report->search_path;
  return report->search_path != NULL;
}

static void add_facts(nxmem_policy_report *out, const nx_findings *found) {
  (void)sodium_bin2hex(out->sha256, sizeof out->sha256, found->sha256, sizeof found->sha256);
  (void)sodium_bin2hex(out->build_id, sizeof out->build_id, found->contents.build_id.bytes,
                       found->contents.build_id.count);
  if (found->row->signature_path != NULL) nx_key_id_text(&found->row->key, out->key_id);
  memcpy(out->trusted_comment, found->comment, sizeof out->trusted_comment);
  out->file_bytes = found->file_bytes;
  out->capability_flags = found->row->capability_flags;
  out->max_owned_bytes = found->row->max_owned_bytes;
  out->max_mapped_bytes = found->row->max_mapped_bytes;
}

nxmem_policy_report *nx_report_make(const nx_findings *found) {
  owned_report *report = calloc(1, sizeof *report);
  if (report == NULL) return NULL;
  add_facts(&report->shown, found);
  if (add_texts(report, &found->contents)) return &report->shown;
  nxmem_policy_report_free(&report->shown);
  return NULL;
}

void nxmem_policy_report_free(nxmem_policy_report *shown) {
  owned_report *report = (owned_report *)(void *)shown;
  if (report == NULL) return;
  for (uint32_t i = 0; i < report->shown.dependency_count; i++) free(report->dependencies[i]);
  free(report->dependencies);
  free(report->search_path);
  free(report);
}
