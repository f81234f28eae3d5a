/*
 * inspect.c: nxmem inspect FILE: what a plugin file holds, none of its code run.
 * Attackers: the file, by its kind and by every byte of it.
 * Promise: a verdict per fact, or one line that says why it is no plugin file; never a crash, never a wait.
 */
#include "inspect.h"

#include <argp.h>
#include <stdlib.h>

#include "commands.h"
#include "exit_codes.h"
#include "path.h"
#include "text.h"

typedef struct inspect_args {
  const char *file;
  int as_json;
} inspect_args;

static const struct argp_option OPTIONS[] = {
    {"json", 'j', 0, 0, "Print one JSON document instead of lines", 0},
    {0},
};

static error_t parse(int key, char *word, struct argp_state *state) {
  inspect_args *args = state->input;
  switch (key) {
    case 'j':
      args->as_json = 1;
      return 0;
    case ARGP_KEY_ARG:
      if (args->file) argp_error(state, "found a second FILE, need one");
      args->file = word;
      return 0;
    case ARGP_KEY_NO_ARGS:
      argp_error(state, "FILE is missing: name the plugin to look at");
      return EINVAL;
    default:
      return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp PARSER = {
    .options = OPTIONS,
    .parser = parse,
    .args_doc = "FILE",
    .doc =
        "Show what a plugin file holds, each fact with a verdict (ok, note, warning), without running any of its "
        "code.\v"
        "A warning is something a plugin should not have: a missing export, text relocations, an executable stack, "
        "segments that are writable and executable, no RELRO, a relative library path, or a mark that makes unloading "
        "have no effect.\n\n" NX_EXIT_CODES_HELP,
};

int nx_inspect(int argc, char **argv) {
  static const nx_report_style style = {"inspect", "findings", 29};
  inspect_args args = {0};
  nx_report report;
  nx_facts facts;
  nx_problem why;
  if (argp_parse(&PARSER, argc, argv, 0, NULL, &args)) return NX_EXIT_USAGE;
  char *path = nx_absolute(args.file, NULL);
  char *shown = nx_show_text(path);
  nx_report_begin(&report, &style, shown, args.as_json);
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
