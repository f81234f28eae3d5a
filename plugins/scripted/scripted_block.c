/*
 * scripted_block.c: the records of a scripted module's allocations.
 *
 * Attackers: none by intent; stale and foreign ids are answered as the contract says.
 * Promise: a block is found only by owner and id, and leaves the records once; heap memory has exactly the size asked for.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdlib.h>

#include "scripted_base.h"
#include "scripted_span.h"

enum { CHAINS = 4096 };

/* Protects chains and parked. */
static pthread_mutex_t records = PTHREAD_MUTEX_INITIALIZER;
static nx_block *chains[CHAINS];
static nx_block *parked;

static nx_block **chain_of(uint64_t id) { return &chains[(id * 0x9E3779B97F4A7C15ull) >> 52]; }

static nx_block **find_locked(const nx_allocator *owner, uint64_t id) {
  for (nx_block **link = chain_of(id); *link != NULL; link = &(*link)->next)
    if ((*link)->id == id && (*link)->owner == owner) return link;
  return NULL;
}

static void link_locked(nx_block *block) {
  nx_block **chain = chain_of(block->id);
  block->next = *chain;
  *chain = block;
  nx_count(NX_PROBE_LIVE_ALLOCATIONS);
}

/* 0 where the id is live already. */
static int keep(nx_block *block) {
  pthread_mutex_lock(&records);
  const int fresh = find_locked(block->owner, block->id) == NULL;
  if (fresh) link_locked(block);
  pthread_mutex_unlock(&records);
  return fresh;
}

static nx_block *record(nx_allocator *owner, const NxmemAllocRequest *request, uint8_t *ptr, void *raw, nx_span *span,
                        uint32_t *code_out) {
  nx_block *block = malloc(sizeof *block);
  *code_out = NXMEM_STATUS_OUT_OF_MEMORY;
  if (block == NULL) return NULL;
  *block = (nx_block){.owner = owner,
                      .id = request->allocation_id,
                      .ptr = ptr,
                      .raw = raw,
                      .span = span,
                      .bytes = request->bytes,
                      .align = request->align};
  *code_out = NXMEM_STATUS_OK;
  atomic_fetch_add(&owner->named_by, 1u);
  if (keep(block)) return block;
  atomic_fetch_sub(&owner->named_by, 1u);
  *code_out = NXMEM_STATUS_INVALID_ARGUMENT;
  free(block);
  return NULL;
}

nx_block *nx_block_new(nx_allocator *owner, const NxmemAllocRequest *request, size_t skew, uint32_t *code_out) {
  const uint64_t align = request->align < sizeof(void *) ? sizeof(void *) : request->align;
  void *raw = NULL;
  *code_out = NXMEM_STATUS_OUT_OF_MEMORY;
  if (request->bytes > PTRDIFF_MAX || align > PTRDIFF_MAX) return NULL;
  if (posix_memalign(&raw, align, request->bytes + skew) != 0) return NULL;
  nx_block *block = record(owner, request, (uint8_t *)raw + skew, raw, NULL, code_out);
  if (block == NULL) free(raw);
  return block;
}

nx_block *nx_block_claim(nx_allocator *owner, const NxmemAllocRequest *request, uint8_t *ptr, uint32_t *code_out) {
  return record(owner, request, ptr, NULL, NULL, code_out);
}

nx_block *nx_block_of_span(nx_allocator *owner, const NxmemAllocRequest *request, nx_span *span, uint32_t *code_out) {
  return record(owner, request, nx_span_base(span), NULL, span, code_out);
}

uint64_t nx_block_mapped(const nx_block *block) {
  return block->span == NULL ? block->bytes : nx_span_mapped(block->span);
}

int nx_block_peek(const nx_allocator *owner, nx_block *copy_out) {
  const nx_block *found = NULL;
  pthread_mutex_lock(&records);
  for (size_t i = 0u; i < CHAINS && found == NULL; i++)
    for (const nx_block *block = chains[i]; block != NULL && found == NULL; block = block->next)
      if (block->owner == owner) found = block;
  if (found != NULL) *copy_out = *found;
  pthread_mutex_unlock(&records);
  return found != NULL;
}

uint32_t nx_block_tried(const nx_allocator *owner, const NxmemAllocation *allocation) {
  pthread_mutex_lock(&records);
  nx_block **link = find_locked(owner, allocation->allocation_id);
  const uint32_t before = link == NULL ? 0u : (*link)->tries++;
  pthread_mutex_unlock(&records);
  return before;
}

static int matches(const nx_block *block, const NxmemAllocation *allocation) {
  return block->ptr == allocation->ptr && block->bytes == allocation->bytes && block->align == allocation->align;
}

nx_block *nx_block_lock(const nx_allocator *owner, const NxmemAllocation *allocation, uint32_t *code_out) {
  pthread_mutex_lock(&records);
  nx_block **link = find_locked(owner, allocation->allocation_id);
  *code_out = link == NULL ? NXMEM_STATUS_UNKNOWN_ALLOCATION : NXMEM_STATUS_INVALID_ARGUMENT;
  if (link != NULL && matches(*link, allocation) && (*link)->span != NULL) return *link;
  pthread_mutex_unlock(&records);
  return NULL;
}

void nx_block_unlock(void) { pthread_mutex_unlock(&records); }

void nx_block_put_back(nx_block *block) {
  pthread_mutex_lock(&records);
  link_locked(block);
  pthread_mutex_unlock(&records);
}

nx_block *nx_block_take(const nx_allocator *owner, const NxmemAllocation *allocation, uint32_t *code_out) {
  nx_block *block = NULL;
  *code_out = NXMEM_STATUS_UNKNOWN_ALLOCATION;
  pthread_mutex_lock(&records);
  nx_block **link = find_locked(owner, allocation->allocation_id);
  if (link != NULL) {
    *code_out = matches(*link, allocation) ? NXMEM_STATUS_OK : NXMEM_STATUS_INVALID_ARGUMENT;
    if (*code_out == NXMEM_STATUS_OK) {
      block = *link;
      *link = block->next;
    }
  }
  pthread_mutex_unlock(&records);
  return block;
}

static void destroy(nx_block *block) {
  if (block->span != NULL) nx_span_close(block->span);
  free(block->raw);
  free(block);
}

void nx_block_discard(nx_block *block) {
  nx_allocator *owner = block->owner;
  destroy(block);
  atomic_fetch_sub(&owner->named_by, 1u);
}

void nx_block_free(nx_block *block) {
  nx_block_discard(block);
  nx_uncount(NX_PROBE_LIVE_ALLOCATIONS);
}

void nx_block_park(nx_block *block, int counts_as_live) {
  pthread_mutex_lock(&records);
  block->next = parked;
  parked = block;
  pthread_mutex_unlock(&records);
  nx_count(NX_PROBE_PARKED_BLOCKS);
  if (!counts_as_live) nx_uncount(NX_PROBE_LIVE_ALLOCATIONS);
}

/* Their owners may be gone already. */
__attribute__((destructor)) static void free_parked(void) {
  while (parked != NULL) {
    nx_block *block = parked;
    parked = block->next;
    destroy(block);
  }
}
