/*
 * run_policy.c: nxmem run --policy FILE: load what a policy names, and show what was verified.
 * Attackers: whoever can write to the plugin's file or the policy's.
 * Promise: without a policy that can be read nothing is loaded; names of libraries arrive printable.
 */
#include <stdlib.h>

#include "nxmem_policy.h"
#include "path.h"
#include "run.h"
#include "words.h"

static void set_limit(json_t *row, const char *key, uint64_t bytes) {
  if (bytes == NXMEM_UNLIMITED)
    nx_set_text(row, key, "unlimited");
  else
    nx_set_number(row, key, bytes);
}

/* The libraries that the file needs are not pinned: they are named, so that somebody can look. */
static void set_unpinned(json_t *row, const nxmem_policy_report *report) {
  json_t *names = json_array();
  for (uint32_t i = 0; i < report->dependency_count; i++) nx_append_text(names, report->dependencies[i]);
  nx_set(row, "not_pinned", names);
  if (report->search_path) nx_set_text(row, "search_path", report->search_path);
}

static void show(nx_session *session, const nxmem_policy_report *report) {
  json_t *row = nx_step("policy", NX_ROW_OK, NULL);
  nx_set_text(row, "sha256", report->sha256);
  if (report->build_id[0]) nx_set_text(row, "build_id", report->build_id);
  if (report->key_id[0]) nx_set_text(row, "signed_by", report->key_id);
  if (report->key_id[0]) nx_set_text(row, "trusted_comment", report->trusted_comment);
  nx_set_capabilities(row, "ceiling", report->capability_flags);
  set_limit(row, "max_owned_bytes", report->max_owned_bytes);
  set_limit(row, "max_mapped_bytes", report->max_mapped_bytes);
  set_unpinned(row, report);
  nx_report_add(&session->report, row);
}

nxmem_result nx_run_open_by_policy(nx_session *session, nxmem_error *error) {
  nxmem_policy *policy = NULL;
  nxmem_policy_report *report = NULL;
  char *path = nx_absolute_as_written(session->args->policy);
  nxmem_result r = nxmem_policy_load(path, &policy, error);
  free(path);
  if (r == NXMEM_OK) r = nxmem_policy_open(policy, session->host, session->path, &session->plugin, &report, error);
  if (r == NXMEM_OK) show(session, report);
  nxmem_policy_report_free(report);
  nxmem_policy_free(policy);
  return r;
}
