/*
 * kernel.h: what host and model ask the kernel for most often, answered in the program.
 * Attackers: the input, through the addresses that the plugin publishes.
 * Promise: the same answers as the kernel's, but that random numbers begin anew with each input; of what the model did
 * not publish, the kernel itself is asked.
 */
#ifndef NXMEM_FUZZ_KERNEL_H
#define NXMEM_FUZZ_KERNEL_H

#include <stddef.h>

/* For an input to mean the same each time. */
void life_restart_random(void);

/*
 * A heap block of exactly `bytes` bytes (not 0), with what is at `from`, or all canary where that is NULL. The host's
 * guarded fetch reads it without a system call. Until life_withdraw(), which takes NULL as well.
 */
void *life_publish(const void *from, size_t bytes);
void life_withdraw(void *block);

/* The same of memory that is there already. Returns its bytes. */
void life_lend(const void *at, size_t bytes);
size_t life_take_back(const void *at);

#endif /* NXMEM_FUZZ_KERNEL_H */
