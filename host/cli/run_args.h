/*
 * run_args.h: what the command line of nxmem run asks for.
 * Attackers: none: the caller's own words.
 * Promise: every number is in its range before anything is loaded; a wrong one ends the process with NX_EXIT_USAGE
 * and names it.
 */
#ifndef NXMEM_CLI_RUN_ARGS_H
#define NXMEM_CLI_RUN_ARGS_H

#include <stdint.h>

#include "file_args.h"
#include "nxmem_memory_abi.h"

typedef struct nx_run_args {
  const char *file;
  const char *mechanism; /* NULL: every one */
  int has_device;
  NxmemDeviceId device;
  uint64_t blocks;
  uint64_t bytes;
  uint64_t align;
  uint64_t reserve; /* bytes of address space for the walk through virtual memory */
  uint32_t minor;
  const char *policy; /* NULL: whatever is named is loaded */
  int direct;
  nx_json_args json;
} nx_run_args;

void nx_run_parse(int argc, char **argv, nx_run_args *out);

#endif /* NXMEM_CLI_RUN_ARGS_H */
