/*
 * bench.h: what the measuring programs share: a clock, and lines "ROW<tab>SERIES<tab>NANOSECONDS" for run.py, one for each sample.
 *
 * Attackers: none; other programs on the same processors.
 * Promise: samples are short and those that are compared take turns.
 */
#ifndef TESTS_BENCH_H
#define TESTS_BENCH_H

#include <stdint.h>
#include <stdio.h>
#include <time.h>

static inline double bench_now(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline void bench_sample(const char *row, const char *series, double nanoseconds) {
  printf("%s\t%s\t%.3f\n", row, series, nanoseconds);
}

/* What a measured call works on must not be known to the compiler. */
#define BENCH_HIDE(pointer) __asm__ volatile("" : "+r"(pointer) : : "memory")
#define BENCH_USE(pointer) __asm__ volatile("" : : "r"(pointer) : "memory")

#endif /* TESTS_BENCH_H */
