/*
 * status.c: nxmem status FILE: run a scenario, and show the books of its end.
 * Attackers: the scenario file; the plugins it names.
 * Promise: a row for each step, and one snapshot; or one line that says why the scenario could not be run.
 */
#include <libgen.h>
#include <stdlib.h>

#include "commands.h"
#include "exit_codes.h"
#include "file_args.h"
#include "path.h"
#include "scenario.h"
#include "text.h"

static const char DOC[] =
    "Run a scenario and show what is used, by tier, authority and mechanism, in a table: bytes "
    "charged, physical and mapped.\v"
    "FILE is a JSON object: \"plugins\" (name: path), \"authorities\" (name: {tier, budget}), \"limits\" (tier: "
    "{charged, "
    "physical, mapped}), \"mechanisms\" (name: {plugin, mechanism, authority}), \"steps\" (a list of {\"do\": "
    "allocate, release, abandon, execute, queue (\"queue\": name, \"room\"), push, drain, close (\"queue\"), retire, "
    "select, lose, confirm, remove, unload (\"plugin\"), limit, budget, delegate; \"expect\": the refusal "
    "that it is "
    "to meet}). Plugins are loaded, and their code runs.\n\n" NX_EXIT_CODES_HELP;

static int could_not_run(nx_report *report, nx_scenario *s) {
  nx_report_problem(report, NULL, s->why);
  nx_set_text(report->root, "result", "could-not-run");
  return nx_report_end(report, NX_EXIT_COULD_NOT_RUN);
}

static int run(nx_report *report, nx_scenario *s, const char *file) {
  if (nx_scenario_read(s, file) || nx_scenario_open(s) || nx_scenario_run(s, report) || nx_scenario_show(s, report))
    return could_not_run(report, s);
  const int found = report->count[NX_ROW_WARNING] + report->count[NX_ROW_REFUSED] != 0;
  nx_set_text(report->root, "result", found ? "findings" : "ok");
  return nx_report_end(report, found ? NX_EXIT_FINDINGS : NX_EXIT_FINE);
}

int nx_status(int argc, char **argv) {
  static const nx_report_style style = {"status", "rows", 22};
  static nx_scenario scenario;
  nx_file_args args;
  nx_report report;
  if (nx_file_args_parse(argc, argv, DOC, "FILE is missing: name the scenario to run", &args)) return NX_EXIT_USAGE;
  char *path = nx_absolute(args.file, NULL);
  char *title = nx_show_text(path);
  nx_report_begin(&report, &style, title, &args.json);
  scenario.folder = dirname(path); /* cuts it */
  int code = NX_EXIT_COULD_NOT_RUN;
  if (nx_report_own_output(&report) == 0) code = run(&report, &scenario, args.file);
  nx_scenario_free(&scenario);
  free(title);
  free(path);
  return code;
}
