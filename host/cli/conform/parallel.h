/*
 * parallel.h: the same work on several threads at once.
 * Attackers: a plugin that is not made for threads.
 * Promise: all threads start together; a thread that finds something ends the child.
 */
#ifndef NXMEM_CONFORM_PARALLEL_H
#define NXMEM_CONFORM_PARALLEL_H

#include <stdint.h>

enum { NX_THREADS = 8 };

typedef void (*nx_thread_work)(void *with, uint32_t thread);

/* Returns when all threads are done. */
void nx_parallel(nx_thread_work work, void *with);

#endif /* NXMEM_CONFORM_PARALLEL_H */
