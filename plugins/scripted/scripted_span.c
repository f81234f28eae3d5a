/*
 * scripted_span.c: address ranges of which only some granules are backed by memory.
 *
 * Attackers: none; offsets are checked by the slots that call these.
 * Promise: what is not mapped faults; a granule is counted while it is mapped, and its memory goes when it is unmapped.
 */
#define _GNU_SOURCE
#include "scripted_span.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "nxmem/range.h"

enum { BARE = 0, PRIVATE = 1, VIEW = 2, MARKED = 3 };

/* Nobody reserves more: what is asked for is refused before it could overflow. */
#define BYTES_MAX (1ull << 46)

/* One prefix in one span. */
typedef struct nx_view {
  struct nx_view *next;
  nx_prefix *prefix;
  uint64_t first; /* granule */
  uint64_t count; /* as mapped */
  uint64_t left;  /* not yet unmapped */
} nx_view;

struct nx_span {
  uint8_t *region; /* what was reserved: the range and what its alignment cost */
  size_t region_bytes;
  uint8_t *base;
  uint64_t granules;
  uint64_t owned; /* granules that are PRIVATE */
  uint64_t viewed;
  nx_view *views;
  uint8_t states[];
};

uint8_t *nx_span_base(const nx_span *span) { return span->base; }
uint64_t nx_span_owned(const nx_span *span) { return span->owned * NX_GRANULE; }
uint64_t nx_span_mapped(const nx_span *span) { return (span->owned + span->viewed) * NX_GRANULE; }

static uint8_t *granule_at(const nx_span *span, uint64_t granule) { return span->base + granule * NX_GRANULE; }

/* ---- Reserve ---------------------------------------------------------------------------------------------------- */

nx_span *nx_span_open(uint64_t bytes, uint64_t align) {
  if (bytes > BYTES_MAX || align > BYTES_MAX) return NULL;
  const uint64_t granules = nxmem_granules_touched(0u, bytes, NX_GRANULE);
  const uint64_t step = align < NX_GRANULE ? NX_GRANULE : align;
  nx_span *span = calloc(1u, sizeof *span + granules);
  if (span == NULL) return NULL;
  span->granules = granules;
  span->region_bytes = granules * NX_GRANULE + step;
  void *region = mmap(NULL, span->region_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (region == MAP_FAILED) {
    free(span);
    return NULL;
  }
  span->region = region;
  span->base = (uint8_t *)(((uintptr_t)region + step - 1u) & ~(uintptr_t)(step - 1u));
  return span;
}

void nx_span_close(nx_span *span) {
  munmap(span->region, span->region_bytes);
  for (uint64_t i = 0u; i < span->owned; i++) nx_uncount(NX_PROBE_GRANULES_MAPPED);
  while (span->views != NULL) {
    nx_view *view = span->views;
    span->views = view->next;
    nx_prefix_drop_view(view->prefix);
    free(view);
  }
  free(span);
}

/* ---- Commit ----------------------------------------------------------------------------------------------------- */

static int map_private(nx_span *span, uint64_t granule) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
  if (mmap(granule_at(span, granule), NX_GRANULE, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED) return 0;
  span->states[granule] = PRIVATE;
  span->owned++;
  nx_count(NX_PROBE_GRANULES_MAPPED);
  return 1;
}

/* Inaccessible again, its pages given back. */
static void bare(const nx_span *span, uint64_t granule) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
  if (mmap(granule_at(span, granule), NX_GRANULE, PROT_NONE, flags, -1, 0) != MAP_FAILED) return;
  /* Out of mappings: the address stays accessible, its pages do not. */
  (void)madvise(granule_at(span, granule), NX_GRANULE, MADV_DONTNEED);
}

static void unmap_private(nx_span *span, uint64_t granule) {
  bare(span, granule);
  span->states[granule] = BARE;
  span->owned--;
  nx_uncount(NX_PROBE_GRANULES_MAPPED);
}

/* Which granules a failing commit has to unmap again is written into their states: MARKED. */
static void settle(nx_span *span, uint64_t first, uint64_t end, int keep) {
  for (uint64_t i = first; i < end; i++) {
    if (span->states[i] != MARKED) continue;
    span->states[i] = PRIVATE;
    if (!keep) unmap_private(span, i);
  }
}

int nx_span_commit(nx_span *span, uint64_t offset, uint64_t bytes, uint64_t *granules_out) {
  const uint64_t first = offset / NX_GRANULE;
  const uint64_t end = first + nxmem_granules_touched(offset, bytes, NX_GRANULE);
  uint64_t mapped = 0u;
  for (uint64_t i = first; i < end; i++) {
    if (span->states[i] != BARE) continue;
    if (!map_private(span, i)) {
      settle(span, first, i, 0);
      return 0;
    }
    span->states[i] = MARKED;
    mapped++;
  }
  settle(span, first, end, 1);
  if (granules_out != NULL) *granules_out = mapped;
  return 1;
}

/* ---- Decommit --------------------------------------------------------------------------------------------------- */

static void unmap_view(nx_span *span, uint64_t granule) {
  nx_view **link = &span->views;
  while (granule < (*link)->first || granule >= (*link)->first + (*link)->count || (*link)->left == 0u)
    link = &(*link)->next;
  nx_view *view = *link;
  bare(span, granule);
  span->states[granule] = BARE;
  span->viewed--;
  if (--view->left != 0u) return;
  *link = view->next;
  nx_prefix_drop_view(view->prefix);
  free(view);
}

uint64_t nx_span_decommit(nx_span *span, uint64_t offset, uint64_t bytes, uint64_t size) {
  uint64_t unmapped = 0u;
  const uint64_t first = (offset + NX_GRANULE - 1u) / NX_GRANULE;
  const uint64_t end = offset + bytes == size ? span->granules : (offset + bytes) / NX_GRANULE;
  for (uint64_t i = first; i < end; i++) {
    if (span->states[i] == BARE) continue;
    if (span->states[i] == PRIVATE)
      unmap_private(span, i);
    else
      unmap_view(span, i);
    unmapped += NX_GRANULE;
  }
  return unmapped;
}

/* ---- Ask -------------------------------------------------------------------------------------------------------- */

uint64_t nx_span_mark_missing(nx_span *span, uint64_t offset, uint64_t bytes) {
  const uint64_t first = offset / NX_GRANULE;
  const uint64_t end = first + nxmem_granules_touched(offset, bytes, NX_GRANULE);
  uint64_t missing = 0u;
  for (uint64_t i = first; i < end; i++) {
    if (span->states[i] != BARE) continue;
    span->states[i] = MARKED;
    missing++;
  }
  return missing;
}

void nx_span_unmark(nx_span *span, uint64_t offset, uint64_t bytes) {
  const uint64_t first = offset / NX_GRANULE;
  const uint64_t end = first + nxmem_granules_touched(offset, bytes, NX_GRANULE);
  for (uint64_t i = first; i < end; i++)
    if (span->states[i] == MARKED) span->states[i] = BARE;
}

/* ---- Views of a prefix ------------------------------------------------------------------------------------------ */

static int is_bare(const nx_span *span, uint64_t first, uint64_t count) {
  for (uint64_t i = first; i < first + count; i++)
    if (span->states[i] != BARE) return 0;
  return 1;
}

int nx_span_view(nx_span *span, uint64_t offset, nx_prefix *prefix, int *taken_out) {
  const uint64_t first = offset / NX_GRANULE;
  const uint64_t count = nx_prefix_granules(prefix);
  *taken_out = !is_bare(span, first, count);
  if (*taken_out) return 0;
  nx_view *view = malloc(sizeof *view);
  if (view == NULL) return 0;
  const int flags = MAP_SHARED | MAP_FIXED;
  const int from = nx_prefix_descriptor(prefix);
  if (mmap(granule_at(span, first), count * NX_GRANULE, PROT_READ, flags, from, 0) == MAP_FAILED) {
    free(view);
    return 0;
  }
  *view = (nx_view){span->views, prefix, first, count, count};
  span->views = view;
  span->viewed += count;
  for (uint64_t i = first; i < first + count; i++) span->states[i] = VIEW;
  nx_prefix_count_view(prefix);
  return 1;
}
