/*
 * args.h: the command line of nxmem audit.
 * Attackers: none: the caller's own words.
 * Promise: numbers are in their ranges and rules exist before any file is looked at.
 */
#ifndef NXMEM_AUDIT_ARGS_H
#define NXMEM_AUDIT_ARGS_H

#include <stdint.h>

#include "audit/rules.h"

typedef struct nx_audit_args {
  char **files; /* of argv */
  int file_count;
  const char *against; /* NULL: none */
  const char *json, *sarif, *html;
  const nx_audit_rule *explain;
  int list, still; /* still: none of the file's code runs */
  uint64_t limit_s;
  char *cycles;
} nx_audit_args;

/* A wrong command line ends the process with NX_EXIT_USAGE. The caller frees `files`. */
void nx_audit_parse(int argc, char **argv, nx_audit_args *out);

#endif /* NXMEM_AUDIT_ARGS_H */
