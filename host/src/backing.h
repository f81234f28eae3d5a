/* Virtual backing: ranges that are committed and decommitted, and what they are charged. Private to the host. */
#ifndef NX_BACKING_H
#define NX_BACKING_H

#include "objects.h"

/* The backing table of an allocator; all its slots are NULL where the capability is not effective. */
const NxmemVirtualBackingVtable *nx_backing_of(const nx_allocator *allocator);

/* NXMEM_ERR_UNSUPPORTED_CAPABILITY with the slot's name where `there` is 0. */
nxmem_result nx_need_slot(int there, const char *verb, const char *slot, nxmem_error *error);

/*
 * Judge the ranges that a caller names of an allocation of `size` bytes: few enough, none empty, all inside.
 * INVALID_ARGUMENT.
 */
nxmem_result nx_check_ranges(const char *verb, const NxmemByteRange *ranges, uint64_t count, uint64_t size,
                             nxmem_error *error);

/*
 * Books that are kept elsewhere, a manager's, of what is mapped of an allocation. The caller has the record pinned and holds no lock.
 */
typedef struct nx_mapped_books {
  /* So many bytes more are about to be mapped: NXMEM_OK; or why not, and nothing changed. [runs a caller's functions] */
  nxmem_result (*take)(nx_allocation *record, uint64_t bytes, nxmem_error *error);
  void (*give)(nx_allocation *record, uint64_t bytes);  /* they are not mapped, or not any more */
  uint64_t (*held)(nx_allocation *record);              /* what these books have mapped of it */
  void (*adopt)(nx_allocation *record, uint64_t bytes); /* they are there, although nobody took them */
} nx_mapped_books;

/* Set once, by the first manager; NULL before. */
extern _Atomic(const nx_mapped_books *) nx_mapped_elsewhere;

/*
 * Give up a pin of a record (nx_record_pin). The last to leave asks what is committed where several were there at once, or one failed, and settles the charge.
 * [runs plugin code]
 */
void nx_backing_unpin(nx_allocator *allocator, nx_allocation *record);

#endif /* NX_BACKING_H */
