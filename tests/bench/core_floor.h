/* The floors that the core is compared with, in a file of their own so that no compiler sees through them. */
#ifndef TESTS_BENCH_CORE_FLOOR_H
#define TESTS_BENCH_CORE_FLOOR_H

#include "nxmem_memory_abi.h"

/* A branch and a copy of 128 bytes. */
int floor_copy(const NxmemAllocatorVtable *src, NxmemAllocatorVtable *out);

/* One zeroed status, by value. */
NxmemStatus floor_status(void);

#endif /* TESTS_BENCH_CORE_FLOOR_H */
