/*
 * starve.h: allocations of the host's objects that fail, one by one. For programs linked with those objects and with
 * -Wl,--wrap= of malloc, calloc, realloc, strdup and posix_memalign.
 */
#ifndef NX_TEST_STARVE_H
#define NX_TEST_STARVE_H

#include "hosttest.h"

/* Whether allocations are counted, and the one that is chosen fails. */
void nx_starve(int armed);

/* There is memory again; what is counted stays. */
void nx_starve_no_more(void);

/* Steps of a life, in a child: 0, or a code that says where it went wrong. Tables that have grown once do not grow again. */
typedef int (*nx_starved_life)(void);

/* The suite `name`: the life `live` with each of its allocations failing in turn, once and for good; `prepare` runs before each, in the parent. 8 to 64 are reached. */
int nx_starve_suite(const char *name, const char *reached, nx_starved_life live, void (*prepare)(void));

#endif /* NX_TEST_STARVE_H */
