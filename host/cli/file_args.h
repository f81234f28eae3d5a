/*
 * file_args.h: the command line of a command that takes one FILE and may answer in JSON.
 * Attackers: the words of the command line.
 * Promise: what is returned names one file; anything else ends the process with NX_EXIT_USAGE or the help.
 */
#ifndef NXMEM_CLI_FILE_ARGS_H
#define NXMEM_CLI_FILE_ARGS_H

typedef struct nx_file_args {
  const char *file; /* borrowed from argv */
  int as_json;
} nx_file_args;

/* doc: as argp takes it. missing: what is said where there is no FILE. -1: the command line could not be read. */
int nx_file_args_parse(int argc, char **argv, const char *doc, const char *missing, nx_file_args *out);

#endif /* NXMEM_CLI_FILE_ARGS_H */
