/*
 * args.c: the command line of nxmem conform.
 * Attackers: none: the caller's own words.
 * Promise: every number is in its range and every rule exists before anything is loaded.
 */
#include "conform/args.h"

#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exit_codes.h"
#include "text.h"

/* Long-only options: beyond every character. */
enum { KEY_LIST = 256, KEY_EXPLAIN, KEY_CYCLES, KEY_JUNIT, KEY_SARIF };

enum { DEFAULT_CYCLES = 10000, MOST_CYCLES = 100000000 };
enum { DEFAULT_LIMIT_MS = 5000, MS_PER_SECOND = 1000, LONGEST_SECONDS = 3600 };

static const struct argp_option OPTIONS[] = {
    {"mechanism", 'm', "NAME", 0, "Judge this mechanism alone, beside the rules about the module", 0},
    {"rule", 'r', "ID", 0, "Try this rule alone, and what it rests on; may be given again", 0},
    {"timeout", 't', "SECONDS", 0, "How long one step may take (default 5)", 0},
    {"cycles", KEY_CYCLES, "N", 0, "Cycles of the rules about growth (default 10000); 0 leaves them out", 0},
    {"json", 'j', "FILE", 0, "Write every verdict as JSON", 0},
    {"junit", KEY_JUNIT, "FILE", 0, "Write a JUnit report", 0},
    {"sarif", KEY_SARIF, "FILE", 0, "Write the findings as SARIF 2.1.0", 0},
    {"list", KEY_LIST, 0, 0, "Print every rule; no FILE needed", 0},
    {"explain", KEY_EXPLAIN, "ID", 0, "Print what a rule demands, and what it rests on; no FILE needed", 0},
    {0},
};

/* Ends the process. */
static void refuse_word(const char *option, const char *word, const char *need, struct argp_state *state) {
  char *shown = nx_show_text(word);
  argp_error(state, "%s: found '%s', need %s", option, shown, need);
  free(shown);
}

static uint64_t limit_option(const char *word, struct argp_state *state) {
  char *end = NULL;
  double seconds = strtod(word, &end);
  if (end == word || *end || !isfinite(seconds) || seconds < 0.01 || seconds > LONGEST_SECONDS)
    refuse_word("--timeout", word, "seconds from 0.01 to 3600", state);
  return (uint64_t)(seconds * MS_PER_SECOND);
}

static uint32_t cycles_option(const char *word, struct argp_state *state) {
  char *end = NULL;
  errno = 0;
  unsigned long number = strtoul(word, &end, 10);
  if (word[0] < '0' || word[0] > '9' || *end || errno || number > MOST_CYCLES)
    refuse_word("--cycles", word, "a whole number up to 100000000", state);
  return (uint32_t)number;
}

static const nx_rule *rule_option(const char *option, const char *word, struct argp_state *state) {
  const nx_rule *rule = nx_rule_find(word);
  if (!rule) refuse_word(option, word, "a rule as --list names it, NX-NEG-001 for one", state);
  return rule;
}

static void add_rule(nx_conform_args *args, const char *word, struct argp_state *state) {
  if (args->rule_count == NX_RULES_NAMED) argp_error(state, "--rule: found more than %d", NX_RULES_NAMED);
  args->rules[args->rule_count++] = rule_option("--rule", word, state);
}

static void take_file(nx_conform_args *args, const char *word, struct argp_state *state) {
  if (args->file) argp_error(state, "found a second FILE, need one");
  args->file = word;
}

static void need_file(const nx_conform_args *args, struct argp_state *state) {
  if (!args->file && !args->list && !args->explain) argp_error(state, "FILE is missing: name the plugin to judge");
}

static error_t parse(int key, char *word, struct argp_state *state) {
  nx_conform_args *args = state->input;
  switch (key) {
    case 'm':
      args->mechanism = word;
      return 0;
    case 'r':
      add_rule(args, word, state);
      return 0;
    case 't':
      args->limit_ms = limit_option(word, state);
      return 0;
    case KEY_CYCLES:
      args->cycles = cycles_option(word, state);
      return 0;
    case 'j':
      args->json = word;
      return 0;
    case KEY_JUNIT:
      args->junit = word;
      return 0;
    case KEY_SARIF:
      args->sarif = word;
      return 0;
    case KEY_LIST:
      args->list = 1;
      return 0;
    case KEY_EXPLAIN:
      args->explain = rule_option("--explain", word, state);
      return 0;
    case ARGP_KEY_ARG:
      take_file(args, word, state);
      return 0;
    case ARGP_KEY_END:
      need_file(args, state);
      return 0;
    default:
      return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp PARSER = {
    .options = OPTIONS,
    .parser = parse,
    .args_doc = "FILE",
    .doc =
        "Judge a plugin by every rule of the contract that a host can observe: its exports and slots are called "
        "directly, with honest and with wrong arguments, and what comes back, the unload report, and what happens to "
        "the memory around each record is looked at.\v"
        "Each rule is tried in a child process of its own: a plugin that crashes, hangs or exits breaks that rule, and "
        "the next one goes on in a fresh child. A rule that rests on one that did not pass could not run. Memory of a "
        "device is never touched. What the plugin prints goes to standard error.\n\n"
        "The last line counts the verdicts: 'conform: R rules, P passed, F failed, N not applicable'. Of several "
        "mechanisms each counts by itself.\n\n"
        "Exit codes:\n"
        "  0  every rule passed or does not apply\n"
        "  1  findings: at least one rule failed\n"
        "  2  the command line is wrong\n"
        "  3  could not run: no plugin file, no such mechanism, out of memory, output not written",
};

void nx_conform_parse(int argc, char **argv, nx_conform_args *out) {
  *out = (nx_conform_args){.limit_ms = DEFAULT_LIMIT_MS, .cycles = DEFAULT_CYCLES};
  if (argp_parse(&PARSER, argc, argv, 0, NULL, out)) exit(NX_EXIT_USAGE);
}
