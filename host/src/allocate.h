/* Making an allocation, for callers that are inside already. Private to the host. */
#ifndef NX_ALLOCATE_H
#define NX_ALLOCATE_H

#include "nxmem/outcome.h"
#include "objects.h"

/* Refused before the plugin is asked: INVALID_ARGUMENT. */
nxmem_result nx_allocate_check(uint64_t bytes, uint64_t align, nxmem_error *error);

/*
 * As nxmem_allocate(), of what nx_allocate_check() accepts. The visit is the caller's, of that allocator. [runs plugin code]
 *
 * left  May be NULL. Written where an answer was refused: GONE where the plugin took it back; else the host keeps it in quarantine, and nobody has a handle of it.
 */
nxmem_result nx_allocate_inside(nx_visit visit, nxmem_allocator owner, uint64_t bytes, uint64_t align,
                                const nxmem_allocate_options *options, nxmem_release_fate *left, nxmem_allocation *out,
                                nxmem_error *error);

#endif /* NX_ALLOCATE_H */
