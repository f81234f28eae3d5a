/*
 * scripted_span.h: address ranges of which only some granules are backed by memory.
 *
 * Attackers: none; offsets are checked by the slots that call these.
 * Promise: what is not mapped faults; a granule is counted while it is mapped, and its memory goes when it is unmapped.
 */
#ifndef NXMEM_SCRIPTED_SPAN_H
#define NXMEM_SCRIPTED_SPAN_H

#include "scripted_base.h"

enum { NX_GRANULE = 65536 };

/* A shared prefix, as its views see it: memory that several spans map for reading. scripted_prefix.c */
typedef struct nx_prefix nx_prefix;
int nx_prefix_descriptor(const nx_prefix *prefix);
uint64_t nx_prefix_granules(const nx_prefix *prefix);
void nx_prefix_count_view(nx_prefix *prefix);
void nx_prefix_drop_view(nx_prefix *prefix); /* the prefix may be gone behind this */

/* Reserve a range, nothing of it mapped. NULL: out of memory or addresses. */
nx_span *nx_span_open(uint64_t bytes, uint64_t align);

/* Unmap everything, drop every view. Not while anybody else can find the span. */
void nx_span_close(nx_span *span);

uint8_t *nx_span_base(const nx_span *span);

/* Bytes mapped now, views of prefixes among them; and without those. */
uint64_t nx_span_mapped(const nx_span *span);
uint64_t nx_span_owned(const nx_span *span);

/*
 * Map memory for the granules that a range touches and that have none. On failure 0, and what this call had mapped is
 * unmapped again. *granules_out (may be NULL) counts those it mapped.
 */
int nx_span_commit(nx_span *span, uint64_t offset, uint64_t bytes, uint64_t *granules_out);

/* Unmap the granules that lie wholly in a range; the bytes that really were mapped. The last granule ends at `size`. */
uint64_t nx_span_decommit(nx_span *span, uint64_t offset, uint64_t bytes, uint64_t size);

/*
 * Granules that committing a range would map. They are marked, so that a second range that touches them does not count
 * them again, until nx_span_unmark has been told the same ranges.
 */
uint64_t nx_span_mark_missing(nx_span *span, uint64_t offset, uint64_t bytes);
void nx_span_unmark(nx_span *span, uint64_t offset, uint64_t bytes);

/* Map a prefix for reading, from a granule on; 0 where one of its granules is mapped already (*taken_out) or on failure. */
int nx_span_view(nx_span *span, uint64_t offset, nx_prefix *prefix, int *taken_out);

#endif /* NXMEM_SCRIPTED_SPAN_H */
