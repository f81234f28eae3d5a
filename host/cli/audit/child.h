/*
 * child.h: another subcommand, run on a plugin in a confined child process; its JSON comes back.
 * Attackers: the plugin in the child: it may crash, hang, fork, and write what it likes as its result.
 * Promise: the parent waits at most the limit; nothing of the child stays, and what would have is counted; what comes back is bounded, and hostile.
 */
#ifndef NXMEM_AUDIT_CHILD_H
#define NXMEM_AUDIT_CHILD_H

#include <jansson.h>

#include "audit/confine.h"

typedef struct nx_audit_child {
  int (*run)(int argc, char **argv); /* the subcommand */
  char **argv;                       /* NX_AUDIT_RESULT_PATH is where its JSON goes */
  int argc;
  uint64_t limit_s;
  const char *what; /* for the progress line */
} nx_audit_child;

#define NX_AUDIT_RESULT_PATH "/proc/self/fd/3"

typedef struct nx_audit_return {
  json_t *result;   /* NULL: none that makes sense; owned */
  char ending[128]; /* how it ended, where that was not by itself; "" else */
  int exit_code;
  size_t left; /* processes that ran on when it had ended by itself, and had to be ended */
  nx_audit_fences fences;
} nx_audit_return;

/* 0, or -1 with errno where no child could be started. */
int nx_audit_child_run(const nx_audit_child *child, nx_audit_return *out);

#endif /* NXMEM_AUDIT_CHILD_H */
