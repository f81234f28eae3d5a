/*
 * touch.h: writing to memory that a plugin handed out, and reading it back.
 * Attackers: a plugin that says OK with an address that cannot be written, or with memory that is not the caller's
 * alone.
 * Promise: a fault while touching is an answer, not the end of the process; faults elsewhere keep their meaning.
 */
#ifndef NXMEM_CLI_TOUCH_H
#define NXMEM_CLI_TOUCH_H

#include <signal.h>
#include <stdint.h>

typedef enum nx_touch_result {
  NX_TOUCH_OK,
  NX_TOUCH_FAULT,  /* the address cannot be written or read */
  NX_TOUCH_CHANGED /* it does not hold what was written */
} nx_touch_result;

/* What touching found; `address` is where. */
typedef struct nx_touch {
  nx_touch_result result;
  uint64_t address;
} nx_touch;

/* The signal handlers to put back. One at a time in a process. */
typedef struct nx_touch_guard {
  struct sigaction segv, bus;
} nx_touch_guard;

void nx_touch_begin(nx_touch_guard *guard);
void nx_touch_end(const nx_touch_guard *guard);

/*
 * Between begin and end, on the thread that began. The pattern differs from block to block, so overlapping blocks
 * show.
 */
nx_touch nx_touch_fill(void *start, uint64_t bytes, uint64_t block);
nx_touch nx_touch_verify(const void *start, uint64_t bytes, uint64_t block);

#endif /* NXMEM_CLI_TOUCH_H */
