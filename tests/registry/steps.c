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

nxmem_result nx_actor_end(nx_actor *a) {
  a->until = NULL;
  sem_post(&a->go);
  pthread_join(a->thread, NULL);
  return a->result;
}
