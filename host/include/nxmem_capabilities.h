/*
 * nxmem_capabilities.h: what an allocator may offer beyond allocating and releasing: queued releases, virtual backing, shared mapping.
 *
 * Attackers, promise, errors and tags: as nxmem.h, which includes this. Each function answers NXMEM_ERR_UNSUPPORTED_CAPABILITY where the capability is not effective.
 */
#ifndef NXMEM_CAPABILITIES_H
#define NXMEM_CAPABILITIES_H

#include "nxmem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Deferred release: needs DEFERRED_RELEASE -------------------------------------------------------------------- */

/*
 * Queue a release in the plugin's own order (behind a stream, behind work). While it is queued the handle answers BUSY; its completion frees,
 * quarantines or revives the allocation.
 *
 * options     As for nxmem_release().
 * ticket_out  The plugin's ticket, for messages; 0 where it completed without one. May be NULL.
 *
 * NXMEM_OK                queued, or completed already.
 * NXMEM_ERR_PLUGIN        refused: still live; or, where its completion had come before, what that said (the message names it).
 * NXMEM_ERR_BUSY          the pin source takes no more work: still live.
 * NXMEM_ERR_QUARANTINED   it said OK without a ticket, by which the release could never settle.
 * NXMEM_ERR_UNSUPPORTED_CAPABILITY, and what nxmem_release() answers about handles.
 *
 * [any-thread] [runs plugin code] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_enqueue_release(nxmem_allocator allocator, nxmem_allocation allocation,
                                                const nxmem_release_options *options, uint64_t *ticket_out,
                                                nxmem_error *error);

/*
 * Let the plugin complete at most `max` queued releases (0 is refused).
 *
 * retired_out  How many it says it retired, never more than were queued; may be NULL.
 *
 * [any-thread] [runs plugin code] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_drain_releases(nxmem_allocator allocator, uint64_t max,
                                               uint64_t *retired_out, nxmem_error *error);

/* Queued releases on both sides; they may differ while one is under way. */
typedef struct nxmem_pending {
  uint64_t host;   /* records that no completion has settled */
  uint64_t plugin; /* what the plugin counts */
} nxmem_pending;

/* [any-thread] [runs plugin code] [re-entrant] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_pending_releases(nxmem_allocator allocator, nxmem_pending *out,
                                                 nxmem_error *error);

/* ---- Virtual backing: needs VIRTUAL_BACKING ---------------------------------------------------------------------- */

/*
 * Put pages behind a range of an allocation, or take them away. A range that wraps or leaves the allocation is refused before the plugin is asked. While either
 * runs, a release of the same allocation is BUSY. What a failed call left mapped is asked for and charged; what stays unknown counts as mapped.
 *
 * unmapped_out  Bytes that are unmapped now, never more than were mapped; may be NULL.
 *
 * [any-thread] [runs plugin code] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_commit(nxmem_allocator allocator, nxmem_allocation allocation,
                                       NxmemByteRange range, nxmem_error *error);
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_decommit(nxmem_allocator allocator, nxmem_allocation allocation,
                                         NxmemByteRange range, uint64_t *unmapped_out, nxmem_error *error);

/* Bytes of an allocation that have pages behind them, as the plugin counts them. [any-thread] [runs plugin code] [re-entrant] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_committed_bytes(nxmem_allocator allocator, nxmem_allocation allocation,
                                                uint64_t *out, nxmem_error *error);

/* Bytes that committing these ranges would map anew; all of one allocation. [any-thread] [runs plugin code] [re-entrant] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_cost_of_ranges(nxmem_allocator allocator, nxmem_allocation allocation,
                                               const NxmemByteRange *ranges, uint64_t count, uint64_t *out,
                                               nxmem_error *error);

/* Bytes that an allocation like this would map. [any-thread] [runs plugin code] [re-entrant] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_cost_of_allocation(nxmem_allocator allocator, uint64_t bytes,
                                                   uint64_t align, const nxmem_allocate_options *options,
                                                   uint64_t *out, nxmem_error *error);

/* ---- Shared mapping: needs SHARED_MAPPING ------------------------------------------------------------------------ */

/* Physical pages that several allocations of one allocator may map. It keeps its allocator open. */
typedef struct nxmem_prefix { uint64_t id; } nxmem_prefix;

/*
 * Make a prefix of `bytes`; the caller holds one reference. Its handle record from the plugin is judged and kept by the host: callers never see it, so
 * none of another allocator or module can be given to a plugin.
 *
 * [any-thread] [runs plugin code] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_prefix_create(nxmem_allocator allocator, uint64_t bytes,
                                              nxmem_prefix *out, nxmem_error *error);

/* One more, one fewer reference; each is given back to the plugin exactly once. The last one ends the handle. [any-thread] [runs plugin code] [re-entrant] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_prefix_retain(nxmem_prefix prefix, nxmem_error *error);
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_prefix_release(nxmem_prefix prefix, nxmem_error *error);

typedef struct nxmem_prefix_info {
  uint64_t bytes;                    /* as asked for */
  uint64_t committed_physical_bytes; /* as the plugin said when it was made */
  uint64_t mapped_bytes;             /* as the plugin said when it was made */
  uint64_t references;               /* the host's */
  uint64_t next_commit_owned_bytes;  /* what the plugin says one more commit would own */
} nxmem_prefix_info;

/* [any-thread] [runs plugin code] [re-entrant] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_prefix_get_info(nxmem_prefix prefix, nxmem_prefix_info *out,
                                                nxmem_error *error);

typedef enum nxmem_group_outcome {
  NXMEM_GROUP_SHARED = 0,     /* every allocation maps the prefix */
  NXMEM_GROUP_PRIVATE = 1,    /* none does: those that already did were released, their handles are gone */
  NXMEM_GROUP_QUARANTINED = 2 /* one that already did could not be released: nothing may be used instead */
} nxmem_group_outcome;

/*
 * Map a prefix at an offset of each allocation, all or none.
 *
 * outcome_out  Always written where the arguments are good; required.
 *
 * NXMEM_OK with SHARED; else why the first commit was refused.
 *
 * [any-thread] [runs plugin code] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_prefix_commit(nxmem_prefix prefix,
                                              const nxmem_allocation *allocations, uint32_t count,
                                              uint64_t byte_offset, nxmem_group_outcome *outcome_out,
                                              nxmem_error *error);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_CAPABILITIES_H */
