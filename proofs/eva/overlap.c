/*
 * overlap.c: Eva drivers of nxmem/overlap.h: each entry point once for everything that its contract allows.
 *
 * Attackers: any address and any size.
 * Promise: the preconditions of overlap.h and nothing else, for lists of up to eight spans.
 */
#include "nxmem/overlap.h"

#include "support.h"

void eva_nxmem_span_make(void) {
  const uint32_t first = any32;
  const uint32_t last = any32;
  if (first <= 65535u && last <= 65535u) (void)nxmem_span_make(first, last);
}

void eva_nxmem_span_first(void) { (void)nxmem_span_first(any32); }

void eva_nxmem_span_last(void) { (void)nxmem_span_last(any32); }

void eva_nxmem_find_overlap(void) {
  uint32_t spans[8];
  for (uint32_t i = 0u; i < 8u; i++) spans[i] = any32;
  (void)nxmem_find_overlap(spans, eva_each(0u, 8u), any32);
}

/* eva: -eva-domains octagon */
void eva_nxmem_check_apart(void) { (void)nxmem_check_apart(any64, any64, any64, any64); }
