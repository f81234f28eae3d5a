/* Answers of plugins that the core refused. Private to the host. */
#ifndef NX_VIOLATIONS_H
#define NX_VIOLATIONS_H

#include "nxmem/verdict.h"
#include "objects.h"

/* Count a violation that came through an allocator. [any-thread] */
void nx_violation(nx_allocator *allocator, nxmem_verdict verdict);

#endif /* NX_VIOLATIONS_H */
