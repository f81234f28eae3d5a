/*
 * file_args.h: the command line of a command that takes one FILE and may answer in JSON; and --json[=FILE] for others.
 * Attackers: the words of the command line.
 * Promise: what is returned names one file; anything else ends the process with NX_EXIT_USAGE or the help.
 */
#ifndef NXMEM_CLI_FILE_ARGS_H
#define NXMEM_CLI_FILE_ARGS_H

#include <argp.h>

/* Where the document goes that --json asks for. */
typedef struct nx_json_args {
  int printed;      /* instead of lines */
  const char *file; /* beside them; NULL: to no file; borrowed from argv */
} nx_json_args;

/* Two rows of an argp table; `key` is that of the long option, 'j' that of the short one. */
#define NX_JSON_OPTIONS(key)                                                     \
  {                                                                              \
      "json",                                                                    \
      key,                                                                       \
      "FILE",                                                                    \
      OPTION_ARG_OPTIONAL,                                                       \
      "Write one JSON document to FILE; without FILE print it instead of lines", \
      0},                                                                        \
  {                                                                              \
    0, 'j', 0, 0, "The same as --json without FILE", 0                           \
  }

/* `word`: the option's argument; NULL: none. An empty one ends the process with NX_EXIT_USAGE. */
void nx_json_take(nx_json_args *json, const char *word, struct argp_state *state);

typedef struct nx_file_args {
  const char *file; /* borrowed from argv */
  nx_json_args json;
} nx_file_args;

/* doc: as argp takes it. missing: what is said where there is no FILE. -1: the command line could not be read. */
int nx_file_args_parse(int argc, char **argv, const char *doc, const char *missing, nx_file_args *out);

#endif /* NXMEM_CLI_FILE_ARGS_H */
