/*
 * exit_codes.h: how every subcommand ends; scripts rely on the numbers, --help shows them.
 * No input. Promise: append-only.
 */
#ifndef NXMEM_CLI_EXIT_CODES_H
#define NXMEM_CLI_EXIT_CODES_H

enum {
  NX_EXIT_FINE = 0,
  NX_EXIT_FINDINGS = 1,      /* warnings, or something was refused */
  NX_EXIT_USAGE = 2,         /* the command line itself */
  NX_EXIT_COULD_NOT_RUN = 3, /* file missing, not a plugin, out of memory, output not writable */
  NX_EXIT_NO_PLUGIN = 4      /* of audit alone, which is asked about files of any kind */
};

/* Behind \v in an argp text: shown after the options. */
#define NX_EXIT_CODES_HELP                    \
  "Exit codes:\n"                             \
  "  0  fine\n"                               \
  "  1  findings, or something was refused\n" \
  "  2  the command line is wrong\n"          \
  "  3  could not run: no plugin file, out of memory, output not written"

#endif /* NXMEM_CLI_EXIT_CODES_H */
