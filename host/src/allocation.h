/* Allocation records: what close.c needs of them. Private to the host. */
#ifndef NX_ALLOCATION_H
#define NX_ALLOCATION_H

#include "objects.h"

/*
 * Hand every live allocation of an allocator back to the plugin; what it refuses is quarantined. The allocator's gate is shut and nobody
 * is inside. [runs plugin code]
 */
void nx_allocations_hand_back(nx_allocator *allocator);

/* Give back the records of an allocator's quarantined allocations: it is closing, and its books stay with the module. */
void nx_allocations_forget_quarantined(nx_allocator *allocator);

#endif /* NX_ALLOCATION_H */
