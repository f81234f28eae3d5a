/*
 * main.c: the nxmem command: finds the subcommand and checks at the end that what was written arrived.
 * Attackers: the command line. What subcommands read is theirs to judge.
 * Promise: exit codes as exit_codes.h says, also when standard output is closed or full.
 */
#include <argp.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "exit_codes.h"
#include "nxmem.h"
#include "report.h"
#include "text.h"

typedef struct subcommand {
  const char *name;
  char *full_name; /* argv[0] of the subcommand */
  int (*run)(int argc, char **argv);
} subcommand;

static char inspect_name[] = "nxmem inspect", run_name[] = "nxmem run";
static char conform_name[] = "nxmem conform", status_name[] = "nxmem status", audit_name[] = "nxmem audit";

static const subcommand SUBCOMMANDS[] = {{"inspect", inspect_name, nx_inspect},
                                         {"run", run_name, nx_run},
                                         {"conform", conform_name, nx_conform},
                                         {"status", status_name, nx_status},
                                         {"audit", audit_name, nx_audit}};

enum { SUBCOMMAND_COUNT = sizeof SUBCOMMANDS / sizeof SUBCOMMANDS[0] };

static const char DOC[] =
    "Look at memory plugins without running them, and drive them from behind a boundary.\n\n"
    "  inspect FILE   what a plugin file holds; none of its code runs\n"
    "  run FILE       load it, judge it, exercise it, unload it, show every step\n"
    "  conform FILE   try every rule of the contract on it, in child processes\n"
    "  status FILE    run a scenario of several mechanisms, show who uses how much\n"
    "  audit FILE     may we load this? how it is built, who may change it, what it does in a confined child\n\n"
    "'nxmem SUBCOMMAND --help' shows what each one takes.\v" NX_EXIT_CODES_HELP;

typedef struct choice {
  int at; /* index of the subcommand's word in argv; 0: none */
} choice;

static error_t parse(int key, char *word, struct argp_state *state) {
  choice *out = state->input;
  (void)word;
  if (key != ARGP_KEY_ARG) return ARGP_ERR_UNKNOWN;
  out->at = state->next - 1;
  state->next = state->argc;
  return 0;
}

static const struct argp PARSER = {.parser = parse, .args_doc = "SUBCOMMAND [ARGUMENT...]", .doc = DOC};

static void print_version(FILE *stream, struct argp_state *state) {
  (void)state;
  fprintf(stream, "nxmem %s, memory ABI %u.%u\n", NXMEM_VERSION, NXMEM_ABI_VERSION_MAJOR, NXMEM_ABI_VERSION_MINOR);
}

/* A short option is one byte to getopt(), which shows an unknown one as it stands. */
static int is_fit_option(const char *word) {
  if (!nx_is_printable(word)) return 0;
  if (word[1] == '-') return 1;
  while (*word && (unsigned char)*word < 0x80) word++;
  return *word == '\0';
}

/* getopt() shows options that it does not know, and does not escape them. Words behind "--" are no options. */
static void check_options(int argc, char **argv) {
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
    if (argv[i][0] != '-' || is_fit_option(argv[i])) continue;
    char *shown = nx_show_text(argv[i]);
    fprintf(stderr, "%s: found option '%s', need printable text, and only ASCII behind a single dash\n", argv[0],
            shown);
    free(shown);
    exit(NX_EXIT_USAGE);
  }
}

static int unknown_subcommand(const char *word) {
  char *shown = nx_show_text(word);
  fprintf(stderr, "nxmem: found subcommand '%s', need one of:", shown);
  for (size_t i = 0; i < SUBCOMMAND_COUNT; i++) fprintf(stderr, " %s", SUBCOMMANDS[i].name);
  fputs("; 'nxmem --help' says what each does\n", stderr);
  free(shown);
  return NX_EXIT_USAGE;
}

static int dispatch(int argc, char **argv) {
  for (size_t i = 0; i < SUBCOMMAND_COUNT; i++) {
    if (strcmp(argv[0], SUBCOMMANDS[i].name) != 0) continue;
    argv[0] = SUBCOMMANDS[i].full_name;
    check_options(argc, argv);
    return SUBCOMMANDS[i].run(argc, argv);
  }
  return unknown_subcommand(argv[0]);
}

/* --help and --version end inside argp: this is the one place that sees their output fail. */
static void check_standard_output(void) {
  if (nx_check_output(stdout)) _exit(NX_EXIT_COULD_NOT_RUN);
}

/* A closed 0, 1 or 2 would become the next file opened, and a report would land in it. */
static void occupy_standard_descriptors(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) _exit(NX_EXIT_COULD_NOT_RUN);
  }
}

int main(int argc, char **argv) {
  choice chosen = {0};
  char self[] = "nxmem";
  occupy_standard_descriptors();
  signal(SIGPIPE, SIG_IGN);
  atexit(check_standard_output);
  argp_err_exit_status = NX_EXIT_USAGE;
  argp_program_version_hook = print_version;
  if (argc > 0) argv[0] = self;
  check_options(argc, argv);
  if (argp_parse(&PARSER, argc, argv, ARGP_IN_ORDER, NULL, &chosen)) return NX_EXIT_USAGE;
  if (chosen.at) return dispatch(argc - chosen.at, argv + chosen.at);
  argp_help(&PARSER, stderr, ARGP_HELP_SHORT_USAGE | ARGP_HELP_PRE_DOC | ARGP_HELP_SEE, self);
  return NX_EXIT_USAGE;
}
