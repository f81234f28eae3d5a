/*
 * parallel.c: threads that start together.
 * Attackers: a plugin that is not made for threads.
 * Promise: none of them runs before all of them can.
 */
#include "conform/parallel.h"

#include <pthread.h>

#include "conform/trial.h"

typedef struct crew {
  nx_thread_work work;
  void *with;
  pthread_barrier_t start;
} crew;

typedef struct member {
  crew *crew;
  uint32_t number;
} member;

static void *run_member(void *with) {
  member *self = with;
  pthread_barrier_wait(&self->crew->start);
  self->crew->work(self->crew->with, self->number);
  return NULL;
}

void nx_parallel(nx_thread_work work, void *with) {
  crew all = {.work = work, .with = with};
  pthread_t threads[NX_THREADS];
  member members[NX_THREADS];
  pthread_barrier_init(&all.start, NULL, NX_THREADS);
  for (uint32_t i = 0; i < NX_THREADS; i++) {
    members[i] = (member){&all, i};
    NX_GIVEN(pthread_create(&threads[i], NULL, run_member, &members[i]) == 0, "no thread could be started");
  }
  for (uint32_t i = 0; i < NX_THREADS; i++) pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&all.start);
}
