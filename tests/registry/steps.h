/*
 * steps.h: threads that stop at named steps until the test lets them go on.
 *
 * Attackers: none.
 * Promise: while a test runs, of all its actors one moves; where each of the others stands is known.
 */
#ifndef TESTS_REGISTRY_STEPS_H
#define TESTS_REGISTRY_STEPS_H

#include <pthread.h>
#include <semaphore.h>

#include "nxmem_registry.h"
#include "support.h"

typedef struct nx_actor {
  void (*act)(struct nx_actor *actor);
  nxmem_mechanism mechanism;
  nxmem_binding binding;
  nxmem_bound bound;
  nxmem_prepared prepared;
  nxmem_release_queue queue;
  const void *play;
  nxmem_result result;
  nxmem_error error;

  pthread_t thread;
  const char *until; /* where it stops next; NULL: nowhere */
  int ended;
  sem_t arrived, go;
} nx_actor;

/* Start it; back when it stands at `until`. */
void nx_actor_start(nx_actor *actor, void (*act)(nx_actor *actor), const char *until);

/* Let it go on to `until`, and back when it stands there. */
void nx_actor_go(nx_actor *actor, const char *until);

/* Let it go on to its end. */
nxmem_result nx_actor_end(nx_actor *actor);

/* How often any thread has come by a step since it was asked to be watched. */
void nx_watch(const char *name);
int nx_watched(void);

/* Stop the calling actor where the plugin is, if it is to stop at that name. */
void nx_step(const char *name);

/*
 * The suite once, or with `--repeat N` N times in one process, up to the first run in which a case fails. Each run prints its cases; what is returned is the number of
 * cases that failed, or 2 for a wrong usage.
 */
int nx_suite_main(nx_suite *suite, const char *group, int count, char **arguments);

#endif /* TESTS_REGISTRY_STEPS_H */
