/*
 * place.h: where a block lies in an arena: its size and alignment, the free span it fits into, what is left of that.
 *
 * Attackers: sizes and alignments near 2^64; spans given back that lie upon others.
 * Promise: exact answers, never modulo 2^64; a block lies inside its span, aligned, as low as it can.
 *
 * An arena is a reservation, whose base is a multiple of the granule. Spans are addresses as numbers; what is said of
 * spans is said in range.h.
 */
#ifndef NXMEM_PLACE_H
#define NXMEM_PLACE_H

#include "nxmem/range.h"
#include "nxmem/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nxmem_block {
  uint64_t bytes; /* a multiple of the unit, not 0 */
  uint64_t align; /* a power of two, at least the unit */
} nxmem_block;

typedef struct nxmem_free_span {
  uint64_t first;
  uint64_t bytes;
} nxmem_free_span;

/*
 * What an arena that places in multiples of `unit`, a power of two, sets aside for a request. ZERO_BYTES, BAD_ALIGNMENT
 * (no power of two), SIZE_WRAPS (rounded up, the size is 2^64 or above).
 */
nxmem_verdict nxmem_place_ask(uint64_t bytes, uint64_t align, uint64_t unit, nxmem_block *out);

/*
 * The lowest address in a whole free span where a block fits: 1 and *address_out, or 0 and nothing written.
 */
int nxmem_place_fit(uint64_t first, uint64_t bytes, uint64_t block_bytes, uint64_t align, uint64_t *address_out);

/* What is left of a free span before and behind a block that fits into it there; either may be empty. */
void nxmem_place_cut(uint64_t first, uint64_t bytes, uint64_t address, uint64_t block_bytes,
                     nxmem_free_span *before_out, nxmem_free_span *behind_out);

/* 1 where the second span begins where the first, a whole one, ends: together they are one. */
int nxmem_place_joins(uint64_t first, uint64_t bytes, uint64_t second);

/*
 * May a span go back among free ones? OFFSET_OUTSIDE, BYTES_OUTSIDE (it leaves the arena), OVERLAP (a free span, or two,
 * holds a byte of it: it was given back before).
 *
 * below, above  The free spans next to its first byte on either side; bytes 0 where there is none.
 */
nxmem_verdict nxmem_place_check_back(const nxmem_free_span *arena, const nxmem_free_span *span,
                                     const nxmem_free_span *below, const nxmem_free_span *above);

/* The number of the granule that holds an address, and of granules that a span touches (range.h says how many). */
uint64_t nxmem_granule_of(uint64_t offset, uint64_t granule);

/* How many granules lie whole inside a whole span, and which is the first; *first_out is written always. */
uint64_t nxmem_granules_whole(uint64_t offset, uint64_t bytes, uint64_t granule, uint64_t *first_out);

/* The address of a granule: 1 and *address_out, or 0 and nothing written where it is 2^64 or above. */
int nxmem_granule_address(uint64_t base, uint64_t index, uint64_t granule, uint64_t *address_out);

/*
 * The index of the granule that holds an address: 1 and *index_out, or 0 and nothing written where it is outside the
 * arena.
 */
int nxmem_granule_index(uint64_t base, uint64_t arena_bytes, uint64_t granule, uint64_t address, uint64_t *index_out);

/* count * granule: 1 and *bytes_out, or 0 and nothing written where that is above NXMEM_TOTAL_MAX. */
int nxmem_granules_bytes(uint64_t count, uint64_t granule, uint64_t *bytes_out);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_PLACE_H */
