/* A prefix's own bytes, and the allocations that map them. Private to the host. */
#ifndef NX_PREFIX_BYTES_H
#define NX_PREFIX_BYTES_H

#include "objects.h"

/*
 * What one prefix's own bytes are charged with: to its allocator, not to any allocation, for they live until the prefix and its last mapping are gone. Its users
 * are the prefix and each mapping; the last one to go gives the charge back, unless one of them was quarantined: then it stays for good.
 */
typedef struct nx_prefix_bytes {
  nx_slot slot;
  _Atomic uint64_t charged; /* 0: no commit has reported any yet */
  _Atomic uint64_t users;
  _Atomic uint32_t kept; /* a user was quarantined */
} nx_prefix_bytes;

/* With one user, the prefix. NULL: no memory. [any-thread] [blocks: malloc] */
nx_prefix_bytes *nx_prefix_bytes_make(void);

/* The prefix's end. [any-thread] */
void nx_prefix_bytes_leave(nx_allocator *allocator, nx_prefix_bytes *bytes);

/* A user is quarantined: from now on the charge stays. [any-thread] */
void nx_prefix_bytes_keep(nx_prefix_bytes *bytes);

/*
 * Charge what a commit reports, for a mapping that was entered before. 0, and nothing changed, where the allocator's total has no room. *believed_out is 0 where the
 * same bytes were reported twice. [any-thread]
 */
int nx_prefix_bytes_charge(nx_allocator *allocator, nx_prefix_bytes *bytes, uint64_t reported, int *believed_out);

/* Enter a mapping of a record that the caller owns, before the plugin is asked for it; 0: no memory. [any-thread] [blocks: malloc] */
int nx_mapping_enter(nx_allocation *record, nx_prefix_bytes *bytes);

/* Take the one out again that was entered last: it did not come to be. The caller owns the record. */
void nx_mapping_undo(nx_allocator *allocator, nx_allocation *record);

/* The record is gone, or quarantined, and with it its mappings. The caller owns it. [any-thread] */
void nx_mappings_drop(nx_allocator *allocator, nx_allocation *record, int kept);

#endif /* NX_PREFIX_BYTES_H */
