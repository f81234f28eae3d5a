/*
 * args.c: the command line of nxmem audit.
 * Attackers: none: the caller's own words.
 * Promise: as in the header.
 */
#include "audit/args.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>

#include "exit_codes.h"
#include "text.h"

/* Long-only options: beyond every character. */
enum { KEY_LIST = 256, KEY_EXPLAIN, KEY_CYCLES, KEY_SARIF, KEY_HTML, KEY_AGAINST, KEY_STATIC };

enum { DEFAULT_LIMIT_S = 300, LONGEST_S = 86400, MOST_CYCLES = 100000000 };

static char default_cycles[] = "10000";

static const struct argp_option OPTIONS[] = {
    {"static", KEY_STATIC, 0, 0, "Run none of the file's code", 0},
    {"against", KEY_AGAINST, "OLD", 0, "Show what changed since another build of the same plugin", 0},
    {"json", 'j', "FILE", 0, "Write everything that was learnt as JSON", 0},
    {"sarif", KEY_SARIF, "FILE", 0, "Write the findings as SARIF 2.1.0", 0},
    {"html", KEY_HTML, "FILE", 0, "Write one page for people", 0},
    {"timeout", 't', "SECONDS", 0,
     "How long the conformance test may take (default 300), and the one life behind the host library, at most 60", 0},
    {"cycles", KEY_CYCLES, "N", 0, "Cycles of the conformance rules about growth (default 10000)", 0},
    {"list", KEY_LIST, 0, 0, "Print every rule; no FILE needed", 0},
    {"explain", KEY_EXPLAIN, "ID", 0, "Print why a rule matters and what to do; no FILE needed", 0},
    {0},
};

/* Ends the process. */
static void refuse_word(const char *option, const char *word, const char *need, struct argp_state *state) {
  char *shown = nx_show_text(word);
  argp_error(state, "%s: found '%s', need %s", option, shown, need);
  free(shown);
}

static unsigned long number_option(const char *option, const char *word, unsigned long least, unsigned long most,
                                   const char *need, struct argp_state *state) {
  char *end = NULL;
  errno = 0;
  unsigned long number = strtoul(word, &end, 10);
  if (word[0] < '0' || word[0] > '9' || *end || errno || number < least || number > most)
    refuse_word(option, word, need, state);
  return number;
}

static const nx_audit_rule *rule_option(const char *word, struct argp_state *state) {
  const nx_audit_rule *rule = nx_audit_rule_find(word);
  if (!rule) refuse_word("--explain", word, "a rule as --list names it, NXA-001 for one", state);
  return rule;
}

static void take_file(nx_audit_args *args, char *word, struct argp_state *state) {
  (void)state;
  char **more = reallocarray(args->files, (size_t)args->file_count + 1, sizeof *more);
  if (!more) nx_out_of_memory();
  args->files = more;
  args->files[args->file_count++] = word;
}

static void check_whole(const nx_audit_args *args, struct argp_state *state) {
  if (!args->file_count && !args->list && !args->explain)
    argp_error(state, "FILE is missing: name the plugin to judge");
  if (args->against && args->file_count > 1) argp_error(state, "--against takes one FILE, found %d", args->file_count);
}

static error_t parse_output(int key, char *word, nx_audit_args *args) {
  switch (key) {
    case 'j':
      args->json = word;
      return 0;
    case KEY_SARIF:
      args->sarif = word;
      return 0;
    case KEY_HTML:
      args->html = word;
      return 0;
    case KEY_LIST:
      args->list = 1;
      return 0;
    default:
      return ARGP_ERR_UNKNOWN;
  }
}

static error_t parse(int key, char *word, struct argp_state *state) {
  nx_audit_args *args = state->input;
  switch (key) {
    case KEY_STATIC:
      args->still = 1;
      return 0;
    case KEY_AGAINST:
      args->against = word;
      return 0;
    case 't':
      args->limit_s = number_option("--timeout", word, 1, LONGEST_S, "whole seconds from 1 to 86400", state);
      return 0;
    case KEY_CYCLES:
      number_option("--cycles", word, 0, MOST_CYCLES, "a whole number up to 100000000", state);
      args->cycles = word;
      return 0;
    case KEY_EXPLAIN:
      args->explain = rule_option(word, state);
      return 0;
    case ARGP_KEY_ARG:
      take_file(args, word, state);
      return 0;
    case ARGP_KEY_END:
      check_whole(args, state);
      return 0;
    default:
      return parse_output(key, word, args);
  }
}

static const struct argp PARSER = {
    .options = OPTIONS,
    .parser = parse,
    .args_doc = "FILE...",
    .doc =
        "May we load this? Judge a plugin file before it gets near a process that matters.\v"
        "First without running any of its code: what it exports and asks for, what runs when it is loaded, how it was "
        "linked, which libraries it needs and whether they are here, who may change it or put another file in its "
        "place. Then, unless --static is given, by its behaviour: the conformance test and one life behind the host "
        "library, in child processes without new privileges, behind seccomp and Landlock where the kernel has them, "
        "without network, with limits on resources and time. What was not available is named. What the plugin prints "
        "is thrown away.\n\n"
        "A plugin that knows it is being judged can behave: the dynamic part finds faults, not intentions.\n\n"
        "Exit codes:\n"
        "  0  fine: nothing above a note\n"
        "  1  findings above a note\n"
        "  2  the command line is wrong\n"
        "  3  could not run: file not readable, out of memory, output not written\n"
        "  4  not a plugin: no shared object for this machine, damaged, or without any of the three exports\n"
        "Of several files 3 comes before 1, 1 before 4, 4 before 0.",
};

void nx_audit_parse(int argc, char **argv, nx_audit_args *out) {
  *out = (nx_audit_args){.limit_s = DEFAULT_LIMIT_S, .cycles = default_cycles};
  if (argp_parse(&PARSER, argc, argv, 0, NULL, out)) exit(NX_EXIT_USAGE);
}
