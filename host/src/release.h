/* Releases: what a plugin answers, and what becomes of the record. Private to the host. */
#ifndef NX_RELEASE_H
#define NX_RELEASE_H

#include "nxmem/outcome.h"
#include "objects.h"
#include "record.h"

/* What a release slot answered, read once. */
typedef struct nx_release_answer {
  nxmem_release_fate fate;
  uint32_t state;    /* NXMEM_RELEASE_...; of a plain release FAILED, which adds nothing to its status */
  uint64_t reported; /* unmapped bytes */
  uint64_t residual; /* bytes it keeps */
  NxmemStatus status;
} nx_release_answer;

/* Ask the plugin to take a record's allocation back. The caller owns the record. [runs plugin code] */
void nx_release_ask(nx_allocator *allocator, nx_allocation *record, nx_release_answer *out);

/* The same of one as it was found when it was claimed. */
void nx_release_ask_claimed(nx_allocator *allocator, const nx_claimed *claimed, nx_release_answer *out);

/*
 * Settle a record that was live: its charge is refunded and it is freed, or it is quarantined, also where the answer says that it is still live.
 * The caller owns the record and does not touch it afterwards. [any-thread]
 */
void nx_release_settle(nx_allocator *allocator, nx_allocation *record, const nx_release_answer *answer);
void nx_release_settle_inside(nx_visit visit, nx_allocation *record, const nx_release_answer *answer);

/* The same for a record that is not counted as live: its release was queued. */
void nx_release_finish(nx_allocator *allocator, nx_allocation *record, const nx_release_answer *answer);

/*
 * Hand every live allocation of an allocator back to the plugin; what it refuses is quarantined. The allocator's gate is shut and nobody
 * is inside. [runs plugin code]
 */
void nx_release_all(nx_allocator *allocator);

/* Give back the records of an allocator's quarantined allocations: it is closed, and its books stay with the module. [any-thread] */
void nx_release_forget_quarantined(nx_allocator *allocator);

#endif /* NX_RELEASE_H */
