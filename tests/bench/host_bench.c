/*
 * host_bench.c: allocate and release of 64 bytes, with more and more others live, in the order in which they came and in random order; memory for each.
 *
 * Usage: host_bench PLUGIN MECHANISM LIVE ROUNDS. LIVE: other allocations that stay on each side.
 *
 * Attackers: none.
 * Promise: malloc, direct calls and both hosts take turns in batches of some microseconds.
 */
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "side.h"

enum { SIDES = 3, BATCH = 100 };

static side sides[SIDES];
static side_block *live[SIDES];
static side_block last[SIDES];
static uint64_t live_count;
static void *volatile sink;

static double time_malloc(void) {
  const double start = bench_now();
  for (int i = 0; i < BATCH; i++) {
    sink = malloc(SIDE_BYTES);
    free(sink);
  }
  return (bench_now() - start) / BATCH;
}

/* The last slot again and again. */
static double time_last(side *s) {
  const side_allocate allocate = allocate_of(s);
  const side_release release = release_of(s);
  side_block *block = &last[s - sides];
  const double start = bench_now();
  for (int i = 0; i < BATCH; i++) {
    allocate(s, block);
    release(s, block);
  }
  return (bench_now() - start) / BATCH;
}

static uint64_t draw(void) {
  static uint64_t state = 88172645463325252ull;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

/* Any of those that are live goes, and a new one takes its place. The same places on each side. */
static double time_random(int which, const uint32_t places[BATCH]) {
  side *s = &sides[which];
  const side_allocate allocate = allocate_of(s);
  const side_release release = release_of(s);
  const double start = bench_now();
  for (int i = 0; i < BATCH; i++) {
    side_block *block = &live[which][places[i]];
    release(s, block);
    allocate(s, block);
  }
  return (bench_now() - start) / BATCH;
}

static uint64_t heap_bytes(void) {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

/* Returns what the heap grew by. */
static double fill(int which) {
  live[which] = calloc(live_count + 1, sizeof *live[which]);
  if (live[which] == NULL) side_die("fill", "no memory");
  const uint64_t before = heap_bytes();
  for (uint64_t i = 0; i < live_count; i++) allocate_of (&sides[which])(&sides[which], &live[which][i]);
  return (double)(heap_bytes() - before);
}

static void empty(int which) {
  for (uint64_t i = 0; i < live_count; i++) release_of (&sides[which])(&sides[which], &live[which][i]);
  free(live[which]);
}

static void random_round(void) {
  uint32_t places[BATCH];
  for (int i = 0; i < BATCH; i++) places[i] = (uint32_t)(draw() % live_count);
  for (int i = 0; i < SIDES; i++) bench_sample("random", sides[i].name, time_random(i, places));
}

int main(int count, char **arguments) {
  if (count != 5) side_die("usage", "host_bench PLUGIN MECHANISM LIVE ROUNDS");
  live_count = strtoull(arguments[3], NULL, 10);
  const int rounds = atoi(arguments[4]);
  side_open_direct(&sides[0], arguments[1], arguments[2]);
  side_open_host(&sides[1], "trusted", arguments[1], arguments[2], NXMEM_FETCH_GUARDED, NXMEM_OVERLAP_TRUSTED);
  side_open_host(&sides[2], "checked", arguments[1], arguments[2], NXMEM_FETCH_GUARDED, NXMEM_OVERLAP_CHECKED);
  double grown[SIDES];
  for (int i = 0; i < SIDES; i++) {
    (void)time_last(&sides[i]); /* what is made once is made before */
    grown[i] = fill(i);
  }
  for (int i = 1; i < SIDES && live_count != 0; i++)
    bench_sample("memory", sides[i].name, (grown[i] - grown[0]) / (double)live_count);
  for (int round = 0; round < rounds; round++) {
    bench_sample("last", "malloc", time_malloc());
    for (int i = 0; i < SIDES; i++) bench_sample("last", sides[i].name, time_last(&sides[i]));
  }
  /* Not in turns with the others: random order empties the caches for what comes next. */
  for (int round = 0; round < rounds && live_count != 0; round++) random_round();
  for (int i = 0; i < SIDES; i++) empty(i);
  side_close_all(sides, SIDES);
  return 0;
}
