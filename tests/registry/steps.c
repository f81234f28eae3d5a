/*
 * steps.c: threads that stop at named steps until the test lets them go on.
 *
 * Attackers: none.
 * Promise: an actor that ends before the step it was to reach fails the case; nothing here waits for time.
 */
#include "steps.h"

#include <stdatomic.h>
#include <string.h>

#include "support.h"

static _Thread_local nx_actor *self;
static const char *watched;
static _Atomic int came_by;

void nx_watch(const char *name) {
  watched = name;
  atomic_store(&came_by, 0);
}

int nx_watched(void) { return atomic_load(&came_by); }

void nx_step(const char *name) {
  if (watched != NULL && strcmp(watched, name) == 0) atomic_fetch_add(&came_by, 1);
  nx_actor *a = self;
  if (a == NULL || a->until == NULL || strcmp(a->until, name) != 0) return;
  sem_post(&a->arrived);
  sem_wait(&a->go);
}

static void *run(void *argument) {
  nx_actor *a = argument;
  self = a;
  a->act(a);
  a->ended = 1;
  sem_post(&a->arrived);
  return NULL;
}

static void wait_for(nx_actor *a) {
  while (sem_wait(&a->arrived) != 0) {
  }
  if (a->ended) fail_msg("an actor ended and never came to \"%s\"", a->until);
}

void nx_actor_start(nx_actor *a, void (*act)(nx_actor *actor), const char *until) {
  a->act = act;
  a->until = until;
  a->ended = 0;
  sem_init(&a->arrived, 0, 0);
  sem_init(&a->go, 0, 0);
  if (pthread_create(&a->thread, NULL, run, a) != 0) fail_msg("no thread");
  wait_for(a);
}

void nx_actor_go(nx_actor *a, const char *until) {
  a->until = until;
  sem_post(&a->go);
  wait_for(a);
}

static int usage(const char *program) {
  fprintf(stderr, "usage: %s [--repeat N]\n", program);
  return 2;
}

int nx_suite_main(nx_suite *suite, const char *group, int count, char **arguments) {
  long runs = 1;
  if (count == 3 && strcmp(arguments[1], "--repeat") == 0) {
    char *end = NULL;
    runs = strtol(arguments[2], &end, 10);
    if (runs < 1 || *end != '\0') return usage(arguments[0]);
  } else if (count != 1) {
    return usage(arguments[0]);
  }
  int failed = 0;
  for (long n = 1; n < runs && failed == 0; n++) {
    failed = _cmocka_run_group_tests(group, suite->cases, suite->count, NULL, NULL);
    fflush(stdout);
  }
  return failed != 0 ? failed : nx_suite_run(suite, group);
}

nxmem_result nx_actor_end(nx_actor *a) {
  a->until = NULL;
  sem_post(&a->go);
  pthread_join(a->thread, NULL);
  return a->result;
}
