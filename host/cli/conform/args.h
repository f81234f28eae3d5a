/*
 * args.h: the command line of nxmem conform.
 * Attackers: none: the caller's own words.
 * Promise: every number is in its range and every rule exists before anything is loaded.
 */
#ifndef NXMEM_CONFORM_ARGS_H
#define NXMEM_CONFORM_ARGS_H

#include <stdint.h>

#include "conform/rule.h"

enum { NX_RULES_NAMED = 64 };

typedef struct nx_conform_args {
  const char *file;
  const char *mechanism; /* NULL: every one */
  const nx_rule *rules[NX_RULES_NAMED];
  uint32_t rule_count; /* 0: every rule */
  const nx_rule *explain;
  int list;
  uint64_t limit_ms; /* per step */
  uint32_t cycles;   /* of the rules about growth; 0: they do not apply */
  const char *json, *junit, *sarif;
} nx_conform_args;

/* A wrong command line ends the process with NX_EXIT_USAGE. */
void nx_conform_parse(int argc, char **argv, nx_conform_args *out);

#endif /* NXMEM_CONFORM_ARGS_H */
