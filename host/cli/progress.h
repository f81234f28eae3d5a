/*
 * progress.h: a counter line on a terminal while something takes long.
 * Attackers: none.
 * Promise: nothing is written before a second has passed or when stderr is no terminal; the line is gone at the end.
 */
#ifndef NXMEM_CLI_PROGRESS_H
#define NXMEM_CLI_PROGRESS_H

#include <stdint.h>

typedef struct nx_progress {
  const char *what;
  uint64_t total;
  uint64_t next_ms; /* when the next line is due; monotonic */
  int on_terminal;
  int shown;
} nx_progress;

void nx_progress_begin(nx_progress *progress, const char *what, uint64_t total);
void nx_progress_tick(nx_progress *progress, uint64_t done);
void nx_progress_end(nx_progress *progress);

#endif /* NXMEM_CLI_PROGRESS_H */
