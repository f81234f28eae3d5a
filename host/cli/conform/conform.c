/*
 * conform.c: nxmem conform: every rule, on the module and on each of its mechanisms.
 * Attackers: the plugin, as far as a child process lets anything through.
 * Promise: none of the plugin's code runs in this process; the run goes on behind whatever a child does.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "commands.h"
#include "conform/args.h"
#include "conform/child.h"
#include "conform/result.h"
#include "exit_codes.h"
#include "path.h"
#include "progress.h"
#include "report.h"
#include "text.h"

typedef struct session {
  const nx_conform_args *args;
  nx_runner runner;
  nx_result result;
  nx_progress progress;
  nx_target targets[NX_FACTORIES];
  uint32_t target_count;
  int broken; /* a child could not be started */
} session;

/* ---- Which rules ------------------------------------------------------------------------------------------------- */

/* A rule rests on at most this many others, one behind the other. */
enum { DEEPEST = 32 };

static int rests_on(const nx_rule *rule, const nx_rule *wanted) {
  for (int depth = 0; rule && depth < DEEPEST; depth++) {
    if (rule == wanted) return 1;
    rule = rule->needs ? nx_rule_find(rule->needs) : NULL;
  }
  return 0;
}

static int is_asked_for(const nx_conform_args *args, const nx_rule *rule) {
  if (args->rule_count == 0) return 1;
  for (uint32_t i = 0; i < args->rule_count; i++)
    if (rests_on(args->rules[i], rule)) return 1;
  return 0;
}

/* ---- One verdict ------------------------------------------------------------------------------------------------- */

static void conclude(session *run, const nx_finding *finding) {
  nx_progress_end(&run->progress);
  nx_print_finding(finding);
  nx_result_add(&run->result, finding);
  fflush(stdout);
}

static void try_rule(session *run, const nx_rule *rule, const nx_target *target);

/* The verdict on what a rule rests on, given now where it was not asked for yet. */
static const nx_finding *basis_of(session *run, const nx_rule *rule, const nx_target *target) {
  const nx_rule *basis = nx_rule_find(rule->needs);
  const nx_target *where = basis->scope == NX_SCOPE_MODULE ? NULL : target;
  try_rule(run, basis, where);
  return nx_result_find(&run->result, basis, where);
}

/* 1 when the rule cannot be tried because of what it rests on; the verdict is given then. */
static int is_settled(session *run, const nx_rule *rule, const nx_target *target) {
  const nx_finding *found = rule->needs ? basis_of(run, rule, target) : NULL;
  if (!rule->needs || (found && found->ruling == NX_RULING_PASS)) return 0;
  int absent = found && found->ruling == NX_RULING_NOT_APPLICABLE;
  nx_finding finding = {.rule = rule, .target = target};
  finding.ruling = absent ? NX_RULING_NOT_APPLICABLE : NX_RULING_COULD_NOT_RUN;
  if (asprintf(&finding.evidence, absent ? "%s does not apply" : "%s did not pass", rule->needs) < 0)
    nx_out_of_memory();
  conclude(run, &finding);
  return 1;
}

static void try_rule(session *run, const nx_rule *rule, const nx_target *target) {
  nx_finding finding;
  if (nx_result_find(&run->result, rule, target) || run->broken || is_settled(run, rule, target)) return;
  if (nx_runner_try(&run->runner, rule, target, &finding)) {
    fprintf(stderr, "nxmem conform: could not start a child process: %s\n", strerror(errno));
    run->broken = 1;
    return;
  }
  conclude(run, &finding);
  nx_progress_tick(&run->progress, run->result.count);
}

static void try_all(session *run, nx_scope scope, const nx_target *target) {
  const nx_rule *rule;
  for (size_t i = 0; (rule = nx_rule_at(i)) != NULL; i++)
    if (rule->scope == scope && is_asked_for(run->args, rule)) try_rule(run, rule, target);
}

/* ---- The whole --------------------------------------------------------------------------------------------------- */

static size_t trials_of(const session *run) {
  size_t count = 0;
  const nx_rule *rule;
  for (size_t i = 0; (rule = nx_rule_at(i)) != NULL; i++)
    if (is_asked_for(run->args, rule)) count += rule->scope == NX_SCOPE_MODULE ? 1 : run->target_count;
  return count;
}

/* Keeps the mechanisms that are asked for. 0 where a name fits none. */
static int choose_targets(session *run) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < run->target_count; i++) {
    if (run->args->mechanism && strcmp(run->args->mechanism, run->targets[i].name) != 0) continue;
    if (kept != i) run->targets[kept] = run->targets[i];
    kept++;
  }
  run->target_count = kept;
  return kept || !run->args->mechanism;
}

static void judge_plugin(session *run) {
  run->target_count = nx_runner_targets(&run->runner, run->targets);
  if (!choose_targets(run)) {
    char *shown = nx_show_text(run->args->mechanism);
    fprintf(stderr, "nxmem conform: found no mechanism '%s'; 'nxmem run' lists what there is\n", shown);
    free(shown);
    run->broken = 1;
    return;
  }
  nx_progress_begin(&run->progress, "rules", trials_of(run));
  try_all(run, NX_SCOPE_MODULE, NULL);
  for (uint32_t i = 0; i < run->target_count; i++) try_all(run, NX_SCOPE_MECHANISM, &run->targets[i]);
  nx_progress_end(&run->progress);
}

static int exit_code_of(const session *run) {
  const size_t *tally = run->result.tally;
  if (run->broken) return NX_EXIT_COULD_NOT_RUN;
  if (tally[NX_RULING_FAIL]) return NX_EXIT_FINDINGS;
  return tally[NX_RULING_COULD_NOT_RUN] ? NX_EXIT_COULD_NOT_RUN : NX_EXIT_FINE;
}

static int write_files(const session *run) {
  int failed = 0;
  if (run->args->json) failed |= nx_write_json(&run->result, run->args->json);
  if (run->args->junit) failed |= nx_write_junit(&run->result, run->args->junit);
  if (run->args->sarif) failed |= nx_write_sarif(&run->result, run->args->sarif);
  return failed;
}

/* dlopen() of a FIFO would hang, and a folder is no plugin. */
static int is_file(const char *path) {
  struct stat facts;
  return stat(path, &facts) == 0 && S_ISREG(facts.st_mode);
}

static int judge_file(session *run, const char *path) {
  run->runner = (nx_runner){.path = path, .limit_ms = run->args->limit_ms, .cycles = run->args->cycles};
  if (nx_runner_begin(&run->runner)) nx_out_of_memory();
  printf("%s\n", run->result.file);
  judge_plugin(run);
  nx_runner_end(&run->runner);
  for (size_t i = 0; i < run->result.count; i++) run->result.elapsed_us += run->result.findings[i].elapsed_us;
  run->result.exit_code = exit_code_of(run);
  int unwritten = write_files(run);
  nx_print_last_line(&run->result);
  return unwritten || nx_check_output(stdout) ? NX_EXIT_COULD_NOT_RUN : run->result.exit_code;
}

static int show_rules(const nx_conform_args *args) {
  if (args->list) nx_print_rules();
  if (args->explain) nx_print_rule(args->explain);
  return nx_check_output(stdout) ? NX_EXIT_COULD_NOT_RUN : NX_EXIT_FINE;
}

int nx_conform(int argc, char **argv) {
  nx_conform_args args;
  int cause = 0, exit_code = NX_EXIT_COULD_NOT_RUN;
  nx_conform_parse(argc, argv, &args);
  if (args.list || args.explain) return show_rules(&args);
  char *path = nx_absolute(args.file, &cause), *shown = nx_show_text(path);
  session *run = calloc(1, sizeof *run);
  if (!run) nx_out_of_memory();
  run->args = &args;
  run->result.file = shown;
  if (cause || !is_file(path))
    fprintf(stderr, "nxmem conform: %s: %s; name a readable plugin file\n", shown,
            cause ? strerror(cause) : "it is no regular file");
  else
    exit_code = judge_file(run, path);
  nx_result_free(&run->result);
  free(run);
  free(shown);
  free(path);
  return exit_code;
}
