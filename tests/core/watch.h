/*
 * watch.h: a page that writes down every access to it, in order, with its offset.
 *
 * Attackers: none. It shows what a reader of foreign memory really loads: how often, and how far.
 * Promise: exact, not sampled: each access faults, is noted, is let through alone, and the page closes again. x86-64
 * Linux.
 */
#ifndef TESTS_CORE_WATCH_H
#define TESTS_CORE_WATCH_H

#include <stddef.h>
#include <stdint.h>

enum { NX_WATCH_BYTES = 4096, NX_WATCH_ACCESSES_MAX = 2048 };

typedef struct nx_watch {
  uint8_t *bytes;  /* NX_WATCH_BYTES, to be filled before arming */
  uint8_t *record; /* where the watched record begins; offsets count from here */
  size_t accesses;
  size_t writes;
  int32_t offsets[NX_WATCH_ACCESSES_MAX];
} nx_watch;

/* The record of `record_bytes` ends at the last byte of the page; behind it stands a page without access. */
void nx_watch_open(nx_watch *watch, size_t record_bytes);
void nx_watch_close(nx_watch *watch);

/* One watch at a time, on the calling thread only. */
void nx_watch_arm(nx_watch *watch);
void nx_watch_disarm(nx_watch *watch);

/* How many accesses began at that offset. */
size_t nx_watch_count(const nx_watch *watch, int32_t offset);

/* Fails the running case unless nothing was written, each offset was loaded at most once, and all lie below `limit`. */
void nx_watch_assert_single_fetch(const nx_watch *watch, int32_t limit);

#endif /* TESTS_CORE_WATCH_H */
