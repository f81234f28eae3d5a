/* What plugins did that the contract forbids, and what the host would not hear. Private to the host. */
#ifndef NX_VIOLATIONS_H
#define NX_VIOLATIONS_H

#include "nxmem/verdict.h"
#include "objects.h"

/* Note a violation that came through an allocator. [any-thread] */
void nx_violation(nx_allocator *allocator, nxmem_verdict verdict);

/* Note one of a host's plugin that came through none yet; mechanism_id 0 where there is none. [any-thread] */
void nx_violation_of_host(nx_host *host, uint64_t mechanism_id, nxmem_verdict verdict);

/* Note a callback that was refused for what it said: a violation, and counted as a refused callback. [any-thread] */
void nx_violation_by_callback(nx_allocator *allocator, nxmem_verdict verdict);

/* Forget all: the slot gets a new host. */
void nx_violations_reset(nx_host *host);

#endif /* NX_VIOLATIONS_H */
