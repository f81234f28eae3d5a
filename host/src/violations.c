/*
 * violations.c: what plugins did that the contract forbids.
 *
 * Attackers: a plugin that commits one violation after another.
 * Promise: the count never wraps.
 */
#include "violations.h"

void nx_violation(nx_allocator *allocator, nxmem_verdict verdict) {
  (void)verdict;
  nx_count(&nx_host_of(atomic_load_explicit(&allocator->host, memory_order_relaxed))->violations);
}
