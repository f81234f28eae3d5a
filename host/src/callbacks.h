/* What the host answers when a plugin calls it. Private to the host. */
#ifndef NX_CALLBACKS_H
#define NX_CALLBACKS_H

#include "objects.h"

/*
 * Fill an allocator's callback table; its context is a number that leads to the allocator's handle, never a pointer.
 * Returns the table as plugins see it: read-only, and valid for good.
 */
const NxmemHostCallbacks *nx_callbacks_fill(nx_allocator *allocator, uint32_t abi_minor);

/* Callbacks of the whole process whose context named nothing. */
uint64_t nx_stray_callbacks(void);

#endif /* NX_CALLBACKS_H */
