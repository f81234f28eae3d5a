/*
 * thread_bench.c: one thread, then two threads on two processors, on one allocator of a plugin that shares nothing between threads.
 *
 * Usage: thread_bench PLUGIN ROUNDS. The samples are what one pair costs one thread.
 *
 * Attackers: none.
 * Promise: both threads are inside their batches at the same time; the ways take turns.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "bench.h"
#include "side.h"

enum { SIDES = 3, BATCH = 400, KEPT = 64 };

static side sides[SIDES];

/* What the other thread is told: which side, or to end. */
static struct {
  _Atomic int ticket; /* one more for each batch */
  _Atomic int side;
  _Atomic int there; /* both have come to the line */
  _Atomic int done;  /* the leader's batch is over */
  _Atomic int over;
} track;

static void pin(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static void run(side *s, int pairs) {
  const side_allocate allocate = allocate_of(s);
  const side_release release = release_of(s);
  side_block block = {0, NULL};
  for (int i = 0; i < pairs; i++) {
    allocate(s, &block);
    release(s, &block);
  }
}

static double timed(side *s) {
  const double start = bench_now();
  run(s, BATCH);
  return (bench_now() - start) / BATCH;
}

/* A few blocks of its own stay, so that the threads' blocks do not lie side by side. */
static void keep_some(void) {
  for (int i = 0; i < SIDES; i++) {
    static _Thread_local side_block kept[SIDES][KEPT];
    for (int k = 0; k < KEPT; k++) allocate_of (&sides[i])(&sides[i], &kept[i][k]);
    for (int k = 0; k < KEPT; k++) release_of (&sides[i])(&sides[i], &kept[i][k]);
  }
}

static void *second(void *unused) {
  pin(1);
  keep_some();
  for (int seen = 0; !atomic_load(&track.over);) {
    if (atomic_load(&track.ticket) == seen) continue;
    seen++;
    side *s = &sides[atomic_load(&track.side)];
    atomic_fetch_add(&track.there, 1);
    while (atomic_load(&track.there) < 2) {
    }
    while (!atomic_load(&track.done)) run(s, 8);
    atomic_fetch_add(&track.there, 1);
  }
  return unused;
}

static double timed_beside(int which) {
  atomic_store(&track.side, which);
  atomic_store(&track.there, 0);
  atomic_store(&track.done, 0);
  atomic_fetch_add(&track.ticket, 1);
  while (atomic_load(&track.there) < 1) {
  }
  atomic_fetch_add(&track.there, 1);
  const double each = timed(&sides[which]);
  atomic_store(&track.done, 1);
  while (atomic_load(&track.there) < 3) {
  }
  return each;
}

int main(int count, char **arguments) {
  if (count != 3) side_die("usage", "thread_bench PLUGIN ROUNDS");
  const int rounds = atoi(arguments[2]);
  pin(0);
  side_open_direct(&sides[0], arguments[1], "arena");
  side_open_host(&sides[1], "trusted", arguments[1], "arena", NXMEM_FETCH_GUARDED, NXMEM_OVERLAP_TRUSTED);
  side_open_host(&sides[2], "checked", arguments[1], "arena", NXMEM_FETCH_GUARDED, NXMEM_OVERLAP_CHECKED);
  keep_some();
  pthread_t thread;
  if (pthread_create(&thread, NULL, second, NULL) != 0) side_die("thread", "cannot begin");
  for (int round = 0; round < rounds; round++)
    for (int i = 0; i < SIDES; i++) {
      bench_sample("one", sides[i].name, timed(&sides[i])); /* the other thread waits, and touches nothing of it */
      bench_sample("two", sides[i].name, timed_beside(i));
    }
  atomic_store(&track.over, 1);
  (void)pthread_join(thread, NULL);
  side_close_all(sides, SIDES);
  return 0;
}
