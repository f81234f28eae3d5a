/*
 * audit.c: nxmem audit FILE...: may we load this?
 * Attackers: each file, by its kind, its bytes and its code.
 * Promise: none of its code runs in this process; every file gets its answer, whatever the ones before it were.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/args.h"
#include "audit/document.h"
#include "audit/dynamic.h"
#include "audit/needed.h"
#include "audit/places.h"
#include "commands.h"
#include "exit_codes.h"
#include "nxmem.h"
#include "path.h"
#include "report.h"
#include "text.h"

static const char *const RESULT_WORD[] = {[NX_EXIT_FINE] = "ok",
                                          [NX_EXIT_FINDINGS] = "findings",
                                          [NX_EXIT_COULD_NOT_RUN] = "could-not-run",
                                          [NX_EXIT_NO_PLUGIN] = "no-plugin"};

/* One file on its way through the parts. */
typedef struct subject {
  const nx_audit_args *args;
  const char *name; /* as the caller wrote it */
  char *path;       /* absolute */
  json_t *row;
  nx_audit_image image;
  nx_audit_findings findings;
} subject;

/* ---- One file ---------------------------------------------------------------------------------------------------- */

static int stop(subject *of, const char *message, int exit_code) {
  nx_set_text(of->row, "message", message);
  return exit_code;
}

static void judge_running(subject *of) {
  nx_audit_trial trial = {of->path, of->args->limit_s, of->args->cycles};
  if (of->args->still) {
    nx_audit_add(&of->findings, NX_AUDIT_NOT_RUN, "--static");
    return;
  }
  json_t *running = nx_audit_judge_running(&trial, &of->findings);
  if (running)
    nx_set(of->row, "running", running);
  else
    nx_audit_add(&of->findings, NX_AUDIT_UNJUDGED, "no child process could be started: %s", strerror(errno));
}

static void set_place(json_t *facts, const struct stat *status, json_t *folders) {
  json_t *place = nx_audit_object();
  nx_audit_set_rights(place, status);
  nx_set(place, "folders", json_incref(folders));
  nx_set(facts, "place", place);
}

/* The file's own way first: what else lies below a folder of it is not told again. */
static json_t *judge_surroundings(subject *of, nx_audit_facts *facts) {
  nx_audit_places places = {.findings = &of->findings};
  json_t *learnt = nx_audit_facts_json(facts);
  nx_audit_judge_places(&places, of->name, &of->image.status);
  set_place(learnt, &of->image.status, places.folders);
  nx_audit_judge_needed(of->path, facts, &places, learnt);
  nx_audit_places_free(&places);
  return learnt;
}

static void judge_plugin(subject *of, nx_audit_facts *facts) {
  nx_set(of->row, "facts", judge_surroundings(of, facts));
  nx_audit_judge(facts, &of->findings);
  judge_running(of);
  if (nx_audit_image_changed(of->path, &of->image))
    nx_audit_add(&of->findings, NX_AUDIT_CHANGED,
                 "it was replaced, written to, renamed or given other marks while it was judged");
}

static int judge_image(subject *of) {
  nx_audit_facts facts;
  nx_problem why;
  if (nx_audit_facts_read(of->image.bytes, of->image.size, &facts, &why))
    return stop(of, why.message, NX_EXIT_NO_PLUGIN);
  int is_plugin = nx_audit_is_plugin(&facts);
  if (is_plugin) judge_plugin(of, &facts);
  nx_audit_facts_free(&facts);
  if (!is_plugin)
    return stop(of, "found a shared object without any of the three exports of a plugin", NX_EXIT_NO_PLUGIN);
  const size_t *tally = of->findings.tally;
  return tally[NX_AUDIT_ERROR] || tally[NX_AUDIT_WARNING] ? NX_EXIT_FINDINGS : NX_EXIT_FINE;
}

static int judge_file(subject *of) {
  nx_problem why;
  switch (nx_audit_image_read(of->path, &of->image, &why)) {
    case NX_AUDIT_NO_FILE:
      return stop(of, why.message, NX_EXIT_NO_PLUGIN);
    case NX_AUDIT_UNREADABLE:
      return stop(of, why.message, NX_EXIT_COULD_NOT_RUN);
    default:
      return judge_image(of);
  }
}

static void set_findings(json_t *row, const nx_audit_findings *findings) {
  static const char *const keys[NX_AUDIT_LEVELS] = {"notes", "warnings", "errors"};
  for (int i = NX_AUDIT_LEVELS - 1; i >= 0; i--) nx_set_number(row, keys[i], findings->tally[i]);
  nx_set(row, "findings", nx_audit_findings_json(findings));
}

/* The row of one file; its exit code stands in *exit_code. */
static json_t *audit_file(const nx_audit_args *args, const char *name, int *exit_code) {
  subject of = {.args = args, .name = name, .path = nx_absolute(name, NULL), .row = nx_audit_object()};
  nx_audit_set_raw(of.row, "file", of.path);
  *exit_code = judge_file(&of);
  nx_set_text(of.row, "result", RESULT_WORD[*exit_code]);
  set_findings(of.row, &of.findings);
  nx_audit_findings_free(&of.findings);
  nx_audit_image_free(&of.image);
  free(of.path);
  return of.row;
}

/* ---- All files --------------------------------------------------------------------------------------------------- */

static int graver(int left, int right) {
  static const int rank[] = {
      [NX_EXIT_FINE] = 0, [NX_EXIT_NO_PLUGIN] = 1, [NX_EXIT_FINDINGS] = 2, [NX_EXIT_COULD_NOT_RUN] = 3};
  return rank[left] > rank[right] ? left : right;
}

/* The document gains "against" and "changes". */
static int compare(const nx_audit_args *args, json_t *document, const json_t *now) {
  int exit_code = NX_EXIT_FINE;
  json_t *old = audit_file(args, args->against, &exit_code);
  if (json_object_get(old, "message")) {
    nx_audit_print_file(old);
  } else {
    json_t *changes = nx_audit_changes(old, now);
    printf("  against %s: %zu changes\n", nx_audit_text(old, "file"), json_array_size(changes));
    nx_audit_print_changes(changes);
    nx_set(document, "changes", changes);
    exit_code = NX_EXIT_FINE;
  }
  nx_set(document, "against", old);
  return exit_code;
}

static int write_files(const nx_audit_args *args, const json_t *document) {
  int failed = 0;
  if (args->json) failed |= nx_audit_write_json(document, args->json);
  if (args->sarif) failed |= nx_audit_write_sarif(document, args->sarif);
  if (args->html) failed |= nx_audit_write_html(document, args->html);
  return failed;
}

static void print_last_line(const json_t *files) {
  size_t counts[sizeof RESULT_WORD / sizeof RESULT_WORD[0]] = {0}, i;
  json_t *row;
  json_array_foreach(files, i, row) {
    for (size_t j = 0; j < sizeof counts / sizeof counts[0]; j++)
      counts[j] += RESULT_WORD[j] && !strcmp(RESULT_WORD[j], nx_audit_text(row, "result"));
  }
  printf("audit: %zu file%s, %zu fine, %zu with findings, %zu no plugin, %zu could not run\n", json_array_size(files),
         json_array_size(files) == 1 ? "" : "s", counts[NX_EXIT_FINE], counts[NX_EXIT_FINDINGS],
         counts[NX_EXIT_NO_PLUGIN], counts[NX_EXIT_COULD_NOT_RUN]);
}

static int audit_all(const nx_audit_args *args) {
  json_t *document = nx_audit_object(), *files = nx_audit_array();
  int exit_code = NX_EXIT_FINE;
  nx_set_text(document, "command", "audit");
  nx_set_text(document, "version", NXMEM_VERSION);
  nx_set(document, "files", files);
  for (int i = 0; i < args->file_count; i++) {
    int one = NX_EXIT_FINE;
    json_t *row = audit_file(args, args->files[i], &one);
    nx_audit_append(files, row);
    nx_audit_print_file(row);
    exit_code = graver(exit_code, one);
    if (args->against && !json_object_get(row, "message")) exit_code = graver(exit_code, compare(args, document, row));
  }
  nx_set_number(document, "exit_code", (uint64_t)exit_code);
  int unwritten = write_files(args, document);
  print_last_line(files);
  json_decref(document);
  return unwritten ? NX_EXIT_COULD_NOT_RUN : exit_code;
}

static void print_rules(void) {
  for (int i = 0; i < NX_AUDIT_RULES; i++)
    printf("%s  %-7s  %-22s  %s\n", NX_AUDIT_RULE[i].id, NX_AUDIT_LEVEL_WORD[NX_AUDIT_RULE[i].level],
           NX_AUDIT_RULE[i].name, NX_AUDIT_RULE[i].statement);
  printf("audit: %d rules\n", NX_AUDIT_RULES);
}

static void print_rule(const nx_audit_rule *rule) {
  printf("%s %s: %s\n", rule->id, rule->name, rule->statement);
  printf("  level  %s\n\n%s\n", NX_AUDIT_LEVEL_WORD[rule->level], rule->explanation);
}

int nx_audit(int argc, char **argv) {
  nx_audit_args args;
  int exit_code = NX_EXIT_FINE;
  nx_audit_parse(argc, argv, &args);
  if (args.list) print_rules();
  if (args.explain) print_rule(args.explain);
  if (!args.list && !args.explain) exit_code = audit_all(&args);
  free(args.files);
  return nx_check_output(stdout) ? NX_EXIT_COULD_NOT_RUN : exit_code;
}
