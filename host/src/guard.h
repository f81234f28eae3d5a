/* Records in the index of addresses: put there before they are live, taken out before a release slot is entered. Private to the host. */
#ifndef NX_GUARD_H
#define NX_GUARD_H

#include "index.h"
#include "nxmem/verdict.h"
#include "objects.h"

/* Addresses of an allocator opened with this factory of its module, from now on; NULL: they are not looked at. */
void nx_guard_set(nx_allocator *allocator, nx_space *space);

/* Are an allocator's addresses looked at? */
static inline int nx_guard_looks(const nx_allocator *allocator) { return allocator->space != NULL; }

/*
 * Enter a record's address: *v is written where it is taken. Nothing where it is entered already, or its allocator's addresses are not looked at. The caller owns
 * the record. [any-thread] [blocks: malloc]
 */
nx_put nx_guard_enter(nx_allocator *allocator, nx_allocation *record, nxmem_verdict *v);

/* Take it out, where it is in: the plugin may hand the address out again as soon as it takes it back. The caller owns the record. [any-thread] */
void nx_guard_leave(nx_allocator *allocator, nx_allocation *record);

/*
 * The plugin kept an address whose record goes: nobody gets it any more, as far as it is not somebody's now. At most NX_KEPT_MAX of them for each factory, so that
 * lies do not fill the index.
 */
enum { NX_KEPT_MAX = 65536 };
void nx_guard_keep(nx_allocator *allocator, nx_allocation *record);

#endif /* NX_GUARD_H */
