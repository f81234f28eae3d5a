/*
 * trial.c: a verdict on the board, and the end of the child.
 * Attackers: the plugin whose code ran in this process.
 * Promise: _exit(), so that nothing of the plugin runs behind the verdict.
 */
#include "conform/trial.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* One per child; set before any check runs. */
static nx_board *board;

/* Threads name their steps too. A leaf; no plugin code runs under it. */
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

uint64_t nx_now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

void nx_enter(const char *format, ...) {
  va_list words;
  va_start(words, format);
  pthread_mutex_lock(&writing);
  vsnprintf(board->step, sizeof board->step, format, words);
  pthread_mutex_unlock(&writing);
  va_end(words);
  atomic_store(&board->step_began_us, nx_now_us());
}

void nx_seen(const char *format, ...) {
  va_list words;
  va_start(words, format);
  vsnprintf(board->evidence, sizeof board->evidence, format, words);
  va_end(words);
}

_Noreturn static void rule(nx_ruling ruling) {
  board->ruling = ruling;
  _exit(NX_CHILD_RULED);
}

_Noreturn static void rule_because(nx_ruling ruling, const char *format, va_list words) {
  pthread_mutex_lock(&writing); /* the first thread to find something has the word */
  vsnprintf(board->evidence, sizeof board->evidence, format, words);
  rule(ruling);
}

#define RULE(name, ruling)                       \
  _Noreturn void name(const char *format, ...) { \
    va_list words;                               \
    va_start(words, format);                     \
    rule_because(ruling, format, words);         \
  }
RULE(nx_fails, NX_RULING_FAIL)
RULE(nx_does_not_apply, NX_RULING_NOT_APPLICABLE)
RULE(nx_cannot_tell, NX_RULING_COULD_NOT_RUN)

_Noreturn void nx_trial_run(nx_trial *trial) {
  board = trial->board;
  trial->rule->check(trial, trial->rule->with);
  rule(NX_RULING_PASS);
}
