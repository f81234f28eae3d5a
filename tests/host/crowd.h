/*
 * crowd.h: threads that really are at it at the same time.
 *
 * Attackers: a scheduler that lets each thread finish before the next begins.
 * Promise: all begin together, and each gives way between its steps until another has made one; a crowd that did not take turns fails its test.
 */
#ifndef TESTS_HOST_CROWD_H
#define TESTS_HOST_CROWD_H

#include <stdint.h>

enum { NX_CROWD_MOST = 16 };

/* What a thread of the crowd does; they are numbered from 0. */
typedef void (*nx_crowd_fn)(uint32_t number);

/*
 * Run `count` threads of `work`, and one of `beside` where that is not NULL, to their ends. Fails the case unless, of all steps, one in four at least was made by another thread than
 * the one before.
 */
void nx_crowd(uint32_t count, nx_crowd_fn work, nx_crowd_fn beside);

/* A thread of `work` begins a step. */
void nx_crowd_step(void);

/* Threads of `work` that have not ended. */
uint32_t nx_crowd_at_work(void);

/* In the middle of a call: let others run, and note how many are in the middle of one. */
void nx_crowd_inside(void);

/* How many were, at most, since the crowd began. */
uint32_t nx_crowd_most_inside(void);

#endif /* TESTS_HOST_CROWD_H */
