/*
 * arena.h: what an arena is opened with, and its books: granularity, reservation ladder, pool, totals, shared prefixes.
 *
 * Attackers: a device that reports granularities that are none, options that fit no device, releases that come twice.
 * Promise: nothing that was refused is replaced by a guess; no total goes below 0; the bytes of a prefix go exactly when
 * its last handle and its last mapping are gone, in either order.
 */
#ifndef NXMEM_ARENA_H
#define NXMEM_ARENA_H

#include "nxmem/count.h"
#include "nxmem/range.h"
#include "nxmem/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The size of a granule: what the device recommends where that is a multiple of its minimum, else the minimum.
 * BAD_GRANULARITY, found: the number that is 0 or no power of two, the minimum before the recommended one; needed: 0
 * for the minimum, 1 for the recommended one. Also where the minimum is above NXMEM_GRANULE_MAX: found it, needed that;
 * a recommended one above it is not taken.
 */
nxmem_verdict nxmem_granule_choose(uint64_t minimum, uint64_t recommended, uint64_t *granule_out);

/* Rungs of a reservation, from the highest down: bytes, multiples of the granule. */
typedef struct nxmem_ladder {
  uint64_t rung;    /* to be tried now */
  uint64_t minimum; /* the last one */
} nxmem_ladder;

/*
 * The first rung: `multiple` times the device's memory, or the floor where that is more, or the minimum where that is.
 * Both are rounded down to granules. NO_RUNG where the minimum holds no granule: found: it, needed: the granule.
 */
nxmem_verdict nxmem_ladder_start(uint64_t memory_bytes, uint64_t multiple, uint64_t floor_bytes, uint64_t minimum_bytes,
                                 uint64_t granule, nxmem_ladder *out);

/* The next rung: half of this one, at least the minimum. NO_RUNG, and nothing changed, behind the last. */
nxmem_verdict nxmem_ladder_next(nxmem_ladder *ladder, uint64_t granule);

/* 1 where a handle of `granule` bytes may be kept in a pool of `pool_bytes` under its bound; a bound of 0: never. */
int nxmem_pool_may_keep(uint64_t pool_bytes, uint64_t granule, uint64_t bound);

/* Take bytes off a total: 1 and what is left in *total_out, or 0 and nothing written where it holds fewer. Adding: count.h. */
int nxmem_total_subtract(uint64_t total, uint64_t bytes, uint64_t *total_out);

/* The higher of both. */
uint64_t nxmem_peak(uint64_t peak, uint64_t now);

/* May a span be unmapped? IN_USE (BUSY) while releases of it are queued, found: how many. */
nxmem_verdict nxmem_check_not_queued(uint64_t queued);

/* Who keeps the bytes of a shared prefix. All zero: gone. */
typedef struct nxmem_prefix_use {
  uint64_t handles;  /* references that were handed out and not given back */
  uint64_t mappings; /* the owner's counts too */
} nxmem_prefix_use;

/* One handle more. NO_REFERENCE where the last was given back; TOO_MANY_REFERENCES. */
nxmem_verdict nxmem_prefix_retain(nxmem_prefix_use *use);
/* One fewer. NO_REFERENCE. */
nxmem_verdict nxmem_prefix_release(nxmem_prefix_use *use);
/* One mapping more: only while there is a handle. NO_REFERENCE; TOO_MANY_REFERENCES. */
nxmem_verdict nxmem_prefix_view(nxmem_prefix_use *use);
/* One fewer. NOT_MAPPED. */
nxmem_verdict nxmem_prefix_unview(nxmem_prefix_use *use);
/* 1 where no handle and no mapping is left: its bytes go now. */
int nxmem_prefix_is_gone(const nxmem_prefix_use *use);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_ARENA_H */
