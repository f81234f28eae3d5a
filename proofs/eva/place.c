/*
 * place.c: Eva drivers of nxmem/place.h: each entry point once for everything that its contract allows.
 *
 * Attackers: sizes, alignments and addresses that are any numbers.
 * Promise: no domain of this Eva relates a number to its remainder, or to a product: bounds instead of any number.
 */
#include "nxmem/place.h"

#include "support.h"

/* Fewer of them, where four numbers meet. */
static uint64_t few(void) {
  static const uint64_t some[] = {0u, 1u, 4096u, 0x8000000000000000u, 0xFFFFFFFFFFFFFFFFu};
  return some[eva_each(0u, 4u)];
}

void eva_nxmem_place_ask(void) {
  static const uint64_t units[] = {1u, 256u, 0x200000u, 0x8000000000000000u};
  nxmem_block block;
  (void)nxmem_place_ask(eva_bound(), eva_bound(), units[eva_each(0u, 3u)], &block);
}

void eva_nxmem_place_fit(void) {
  const uint64_t first = eva_bound();
  const uint64_t bytes = few();
  const uint64_t align = few();
  uint64_t address;
  if (align != 0u && bytes <= UINT64_MAX - first) (void)nxmem_place_fit(first, bytes, any64, align, &address);
}

void eva_nxmem_place_cut(void) {
  const uint64_t first = few();
  const uint64_t bytes = eva_bound();
  const uint64_t before = few();
  const uint64_t block = few();
  nxmem_free_span below, behind;
  if (bytes > UINT64_MAX - first || before > bytes || block > bytes - before) return;
  nxmem_place_cut(first, bytes, first + before, block, &below, &behind);
}

void eva_nxmem_place_joins(void) {
  const uint64_t first = eva_bound();
  const uint64_t bytes = eva_bound();
  if (bytes <= UINT64_MAX - first) (void)nxmem_place_joins(first, bytes, any64);
}

/* eva: -eva-domains octagon */
void eva_nxmem_place_check_back(void) {
  nxmem_free_span arena, span, below, above;
  arena.first = few();
  arena.bytes = few();
  if (arena.bytes > UINT64_MAX - arena.first) return;
  span.first = eva_bound();
  span.bytes = any64;
  eva_fill(&below, sizeof(below));
  eva_fill(&above, sizeof(above));
  (void)nxmem_place_check_back(&arena, &span, &below, &above);
}

void eva_nxmem_granule_of(void) {
  const uint64_t granule = any64;
  if (granule != 0u) (void)nxmem_granule_of(any64, granule);
}

void eva_nxmem_granules_whole(void) {
  const uint64_t granule = few();
  const uint64_t offset = eva_bound();
  const uint64_t bytes = few();
  uint64_t first;
  if (granule != 0u && bytes <= UINT64_MAX - offset) (void)nxmem_granules_whole(offset, bytes, granule, &first);
}

void eva_nxmem_granule_address(void) {
  const uint64_t granule = eva_bound();
  uint64_t address;
  if (granule != 0u) (void)nxmem_granule_address(few(), few(), granule, &address);
}

void eva_nxmem_granule_index(void) {
  const uint64_t granule = eva_bound();
  uint64_t index;
  if (granule != 0u) (void)nxmem_granule_index(few(), any64, granule, eva_bound(), &index);
}

void eva_nxmem_granules_bytes(void) {
  const uint64_t granule = eva_bound();
  uint64_t bytes;
  if (granule != 0u) (void)nxmem_granules_bytes(eva_bound(), granule, &bytes);
}
