/*
 * crash.c: one line from a signal handler, and then the signal as it would have been.
 * Attackers: plugin code that faults, aborts or runs out of stack.
 * Promise: the handler calls write(), sigaction() and raise() alone; what was installed before gets the signal after.
 */
#include "crash.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static const int FATAL[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

enum { FATAL_COUNT = sizeof FATAL / sizeof FATAL[0], STACK_BYTES = 65536 };

static struct sigaction before[FATAL_COUNT];
static const char *volatile entered_step;
static const char *volatile entered_mechanism;

/* Nobody is left to be told when this fails. */
static void say(const char *text) {
  ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
  (void)ignored;
}

static void on_crash(int number) {
  const char *step = entered_step, *mechanism = entered_mechanism;
  say("nxmem run: the plugin crashed the process during: ");
  say(step ? step : "host");
  if (mechanism) say(", mechanism ");
  if (mechanism) say(mechanism);
  say("\n");
  for (int i = 0; i < FATAL_COUNT; i++) {
    if (FATAL[i] == number) sigaction(number, &before[i], NULL);
  }
  raise(number); /* held back until this returns */
}

void nx_crash_watch(void) {
  static char stack[STACK_BYTES];
  const stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_crash;
  action.sa_flags = SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaltstack(&alternate, NULL);
  for (int i = 0; i < FATAL_COUNT; i++) sigaction(FATAL[i], &action, &before[i]);
}

void nx_crash_entering(const char *step, const char *mechanism) {
  entered_mechanism = NULL;
  entered_step = step;
  entered_mechanism = mechanism;
}
