/* Shared prefixes: their table, their references, and the allocations that map them. Private to the host. */
#ifndef NX_SHARING_H
#define NX_SHARING_H

#include "prefix_bytes.h"

/*
 * A prefix. ALLOCATING: being made; LIVE: with a pin (nxmem/pin.h) for each call that is at it; QUARANTINED until its
 * allocator closes. `handle` is constant while LIVE, and read under a pin.
 */
typedef struct nx_prefix {
  nx_slot slot;
  _Atomic uint64_t owner;         /* handle of its allocator */
  _Atomic uint32_t next;          /* in its allocator's list of what is quarantined, an index + 1 */
  _Atomic uint64_t references;    /* those that are being given back * 2^32 + those that are held */
  nx_prefix_bytes *bytes;         /* what is charged for it; constant as `handle` is */
  NxmemSharedPrefixHandle handle; /* as the plugin made it, judged */
} nx_prefix;

/* The sharing table of an allocator; all its slots are NULL where the capability is not effective. */
const NxmemSharedMappingVtable *nx_sharing_of(const nx_allocator *allocator);

/*
 * Pin a live prefix and its allocator for one call. STALE_HANDLE, BUSY (its last reference is on its way out, or its
 * allocator is closing),
 * QUARANTINED. Both outputs are written on NXMEM_OK only.
 */
nxmem_result nx_prefix_enter(const char *verb, nxmem_prefix handle, nx_prefix **out, nx_allocator **allocator_out,
                             nxmem_error *error);
void nx_prefix_leave(nx_prefix *prefix, nx_allocator *allocator);

/* Live prefixes of an allocator: they keep it open. [any-thread] */
uint64_t nx_prefix_count(nx_allocator *allocator);

/* None yet: the slot gets a new allocator. */
void nx_prefixes_reset(nx_allocator *allocator);

/*
 * Hand every reference of an allocator's live prefixes back to the plugin; a prefix of which it refuses one is
 * quarantined. The allocator's gate is shut and nobody is inside. [runs plugin code]
 */
void nx_prefix_release_all(nx_allocator *allocator);

/* Give back the slots of an allocator's quarantined prefixes: it is closing. */
void nx_prefix_forget_quarantined(nx_allocator *allocator);

#endif /* NX_SHARING_H */
