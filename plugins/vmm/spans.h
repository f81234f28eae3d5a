/*
 * spans.h: the free spans of an arena, by address.
 *
 * Attackers: sizes and alignments near 2^64; spans given back twice.
 * Promise: a span taken lies in one that was free, as low as there is one that surely holds it; neighbours are always joined; giving back never needs memory;
 * every operation costs the logarithm of the number of free spans.
 */
#ifndef NX_VMM_SPANS_H
#define NX_VMM_SPANS_H

#include <stdint.h>

#include "nxmem/place.h"

/* Everything is set aside in multiples of this. */
enum { NX_UNIT = 256 };

typedef struct nx_span_node nx_span_node;

/* All zero, then nx_spans_open(). */
typedef struct nx_spans {
  nxmem_free_span arena;
  uint64_t granule;
  nx_span_node *root;
  nx_span_node *spare; /* nodes that stand for nothing now */
  uint64_t nodes;      /* all there are */
  uint64_t taken;      /* spans that are not free, each in one piece; so at most taken + 1 are free */
  uint64_t seed;
} nx_spans;

/* One free span that is the whole arena. 0: out of memory. */
int nx_spans_open(nx_spans *spans, uint64_t first, uint64_t bytes, uint64_t granule);
void nx_spans_close(nx_spans *spans);

/*
 * First fit: exact where the alignment is at most NX_UNIT, or is the granule and the size whole granules; else the first span that holds the block wherever
 * it begins. 1 and *first_out; 0: no such span, or out of memory.
 */
int nx_spans_take(nx_spans *spans, const nxmem_block *block, uint64_t *first_out);

/* Back among the free ones. 0, and nothing changed: it is outside the arena, or some of it is free. */
int nx_spans_give(nx_spans *spans, uint64_t first, uint64_t bytes);

/* Whatever is free of a span is so no more, for good. */
void nx_spans_withdraw(nx_spans *spans, uint64_t first, uint64_t bytes);

/* Bytes of the whole granules in a span: what whole granules are searched by. */
uint64_t nx_spans_key(uint64_t first, uint64_t bytes, uint64_t granule);

/* The largest free span, in bytes; 0: none is free. */
uint64_t nx_spans_most(const nx_spans *spans);

/* Counted one by one: for tests and for who suspects a fault. */
uint64_t nx_spans_free_bytes(const nx_spans *spans);
uint64_t nx_spans_count(const nx_spans *spans);

#endif /* NX_VMM_SPANS_H */
