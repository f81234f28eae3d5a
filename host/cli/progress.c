/*
 * progress.c: a counter line on a terminal while something takes long.
 * Attackers: none.
 * Promise: nothing where stderr is no terminal; the line is gone at the end.
 */
#include "progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { FIRST_MS = 1000, EVERY_MS = 200 };

static uint64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void nx_progress_begin(nx_progress *progress, const char *what, uint64_t total) {
  *progress =
      (nx_progress){.what = what, .total = total, .next_ms = now_ms() + FIRST_MS, .on_terminal = isatty(STDERR_FILENO)};
}

void nx_progress_tick(nx_progress *progress, uint64_t done) {
  if (!progress->on_terminal || now_ms() < progress->next_ms) return;
  fprintf(stderr, "\r  %s %" PRIu64 " of %" PRIu64 "\x1b[K", progress->what, done, progress->total);
  fflush(stderr);
  progress->next_ms = now_ms() + EVERY_MS;
  progress->shown = 1;
}

void nx_progress_end(nx_progress *progress) {
  if (!progress->shown) return;
  fputs("\r\x1b[K", stderr);
  fflush(stderr);
}
