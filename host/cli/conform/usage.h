/*
 * usage.h: what this process uses, before and after many cycles.
 * Attackers: a plugin that leaks, or whose allocator keeps what it freed (no finding).
 * Promise: growth is judged per cycle, so that a cache which fills once is none.
 */
#ifndef NXMEM_CONFORM_USAGE_H
#define NXMEM_CONFORM_USAGE_H

#include <stdint.h>

#include "maps.h"

typedef struct nx_usage {
  uint64_t mappings, descriptors, threads, anonymous_bytes;
} nx_usage;

struct nx_trial;

nx_usage nx_usage_now(void);

/* How often to go round: a tenth of it is the warm-up. Ends the trial as not applicable where none are wanted. */
uint32_t nx_cycles(const struct nx_trial *trial, uint32_t divisor);

/* Ends the trial as failed where something grew with the cycles; else says what was seen. */
void nx_usage_judge(const nx_usage *before, uint64_t cycles, const char *cycle);

/* Address space in use; 0: not known. */
uint64_t nx_virtual_bytes(void);

int nx_is_executable(const void *address);

#endif /* NXMEM_CONFORM_USAGE_H */
