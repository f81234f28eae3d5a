/*
 * inspect.c: nxmem inspect FILE: what a plugin file holds, none of its code run.
 * Attackers: the file, by its kind and by every byte of it.
 * Promise: a verdict per fact, or one line that says why it is no plugin file; never a crash, never a wait.
 */
#include "inspect.h"

#include <stdlib.h>

#include "commands.h"
#include "exit_codes.h"
#include "file_args.h"
#include "path.h"
#include "text.h"

static const char DOC[] =
    "Show what a plugin file holds, each fact with a verdict (ok, note, warning), without running any of its "
    "code.\v"
    "A warning is something a plugin should not have: a missing export, text relocations, an executable stack, "
    "segments that are writable and executable, no RELRO, a relative library path, or a mark that makes unloading "
    "have no effect.\n\n" NX_EXIT_CODES_HELP;

int nx_inspect(int argc, char **argv) {
  static const nx_report_style style = {"inspect", "findings", 29};
  nx_file_args args;
  nx_report report;
  nx_facts facts;
  nx_problem why;
  if (nx_file_args_parse(argc, argv, DOC, "FILE is missing: name the plugin to look at", &args)) return NX_EXIT_USAGE;
  char *path = nx_absolute(args.file, NULL);
  char *shown = nx_show_text(path);
  nx_report_begin(&report, &style, shown, &args.json);
  free(shown);
  free(path);
  if (nx_facts_of(args.file, &facts, &why)) {
    nx_report_problem(&report, NULL, why.message);
    nx_set_text(report.root, "result", "could-not-run");
    return nx_report_end(&report, NX_EXIT_COULD_NOT_RUN);
  }
  nx_inspect_rows(&facts, &report);
  nx_facts_free(&facts);
  int warned = report.count[NX_ROW_WARNING] != 0;
  nx_set_text(report.root, "result", warned ? "findings" : "ok");
  return nx_report_end(&report, warned ? NX_EXIT_FINDINGS : NX_EXIT_FINE);
}
