/*
 * child.h: a child process per trial, with a limit on each of its steps.
 * Attackers: the plugin in the child: it may crash, hang, exit, leave processes behind or write over the board.
 * Promise: the parent waits at most the limit per step; the wait status decides; nothing of the child stays.
 */
#ifndef NXMEM_CONFORM_CHILD_H
#define NXMEM_CONFORM_CHILD_H

#include "conform/rule.h"
#include "conform/trial.h"

typedef struct nx_runner {
  const char *path; /* absolute */
  uint64_t limit_ms;
  uint32_t cycles;
  nx_board *board;
} nx_runner;

/* The caller has set what stands before `board`. 0, or -1 with errno. */
int nx_runner_begin(nx_runner *runner);
void nx_runner_end(nx_runner *runner);

/* The caller frees `evidence`. -1 where no child could be started. */
int nx_runner_try(nx_runner *runner, const nx_rule *rule, const nx_target *target, nx_finding *out);

/* The mechanisms that can be told apart; returns how many, 0 when the list could not be had. */
uint32_t nx_runner_targets(nx_runner *runner, nx_target out[NX_FACTORIES]);

#endif /* NXMEM_CONFORM_CHILD_H */
