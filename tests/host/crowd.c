/*
 * crowd.c: a common start, and turns.
 *
 * Attackers: as in the header.
 * Promise: as in the header. Nobody waits for a turn for ever: a thread that nobody follows goes on.
 */
#define _GNU_SOURCE
#include "crowd.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "support.h"

/* Tries until a thread goes on although nobody else has made a step: others may be waiting for it. */
enum { PATIENCE = 1000, TURNS_OF = 4 };

static struct {
  nx_crowd_fn work;
  pthread_barrier_t start;
  _Atomic uint32_t at_work, last, inside, most_inside;
  _Atomic uint64_t steps, turns;
} crowd;

static _Thread_local uint32_t me; /* number + 1 */

static void *one(void *number) {
  me = (uint32_t)(uintptr_t)number + 1u;
  (void)pthread_barrier_wait(&crowd.start);
  crowd.work(me - 1u);
  atomic_fetch_sub(&crowd.at_work, 1u);
  return NULL;
}

typedef struct bystander {
  nx_crowd_fn fn;
} bystander;

static void *stand_by(void *argument) {
  const bystander *b = argument;
  (void)pthread_barrier_wait(&crowd.start);
  b->fn(0);
  return NULL;
}

static void begin(uint32_t count, nx_crowd_fn work, int beside) {
  crowd.work = work;
  atomic_store(&crowd.at_work, count);
  atomic_store(&crowd.last, 0);
  atomic_store(&crowd.most_inside, 0);
  atomic_store(&crowd.steps, 0);
  atomic_store(&crowd.turns, 0);
  if (pthread_barrier_init(&crowd.start, NULL, count + (beside ? 1u : 0u)) != 0) fail_msg("no barrier");
}

void nx_crowd(uint32_t count, nx_crowd_fn work, nx_crowd_fn beside) {
  pthread_t threads[NX_CROWD_MOST], other;
  bystander b = {beside};
  begin(count, work, beside != NULL);
  for (uint32_t i = 0; i < count; i++)
    if (pthread_create(&threads[i], NULL, one, (void *)(uintptr_t)i) != 0) fail_msg("no thread");
  if (beside != NULL && pthread_create(&other, NULL, stand_by, &b) != 0) fail_msg("no thread");
  for (uint32_t i = 0; i < count; i++) (void)pthread_join(threads[i], NULL);
  if (beside != NULL) (void)pthread_join(other, NULL);
  (void)pthread_barrier_destroy(&crowd.start);
  const uint64_t steps = atomic_load(&crowd.steps), turns = atomic_load(&crowd.turns);
  if (turns < steps / TURNS_OF || turns < count)
    fail_msg("%llu turns in %llu steps", (unsigned long long)turns, (unsigned long long)steps);
}

uint32_t nx_crowd_at_work(void) { return atomic_load(&crowd.at_work); }

void nx_crowd_step(void) {
  for (int i = 0; i < PATIENCE && atomic_load(&crowd.last) == me && nx_crowd_at_work() > 1u; i++) (void)sched_yield();
  atomic_fetch_add(&crowd.steps, 1u);
  if (atomic_exchange(&crowd.last, me) != me) atomic_fetch_add(&crowd.turns, 1u);
}

void nx_crowd_inside(void) {
  const uint32_t now = atomic_fetch_add(&crowd.inside, 1u) + 1u;
  uint32_t seen = atomic_load(&crowd.most_inside);
  while (seen < now && !atomic_compare_exchange_weak(&crowd.most_inside, &seen, now)) {
  }
  (void)sched_yield();
  atomic_fetch_sub(&crowd.inside, 1u);
}

uint32_t nx_crowd_most_inside(void) { return atomic_load(&crowd.most_inside); }
