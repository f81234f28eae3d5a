/*
 * index_pool.c: memory for the index of addresses.
 *
 * Attackers: a plugin that answers with addresses all over the address space, to make the host's tables grow.
 * Promise: nodes that are given back are used again before new ones are made; any number may be looked up at any time.
 */
#include "index_pool.h"

#include <stdlib.h>
#include <string.h>

#define TWO_32 4294967296ull

static _Atomic uint32_t *link_of(void *node) { return node; }

void *nx_pool_at(nx_pool *pool, uint32_t reference) {
  if (reference == 0u || reference > atomic_load_explicit(&pool->count, memory_order_acquire)) return NULL;
  return nx_pool_node(pool, reference);
}

static int ensure_chunk(nx_pool *pool, uint32_t at) {
  if (at >= NX_POOL_CHUNKS_MAX) return 0;
  if (atomic_load_explicit(&pool->chunks[at], memory_order_acquire) != NULL) return 1;
  void *fresh = NULL;
  if (posix_memalign(&fresh, NX_NODE_BYTES, (size_t)NX_NODE_BYTES * NX_POOL_CHUNK) != 0) return 0;
  memset(fresh, 0, (size_t)NX_NODE_BYTES * NX_POOL_CHUNK);
  unsigned char *none = NULL;
  if (!atomic_compare_exchange_strong(&pool->chunks[at], &none, fresh)) free(fresh);
  return 1;
}

static uint32_t grow(nx_pool *pool) {
  uint32_t count = atomic_load(&pool->count);
  do {
    if (!ensure_chunk(pool, count / NX_POOL_CHUNK)) return 0u;
  } while (!atomic_compare_exchange_weak(&pool->count, &count, count + 1u));
  return count + 1u;
}

uint32_t nx_pool_take(nx_pool *pool) {
  uint64_t head = atomic_load(&pool->free_head);
  while (head % TWO_32 != 0u) {
    const uint32_t reference = (uint32_t)(head % TWO_32);
    const uint32_t after = atomic_load_explicit(link_of(nx_pool_node(pool, reference)), memory_order_relaxed);
    if (!atomic_compare_exchange_weak(&pool->free_head, &head, (head / TWO_32 + 1u) * TWO_32 + after)) continue;
    atomic_fetch_sub_explicit(&pool->unused, 1u, memory_order_relaxed);
    return reference;
  }
  return grow(pool);
}

void nx_pool_give(nx_pool *pool, uint32_t reference) {
  atomic_fetch_add_explicit(&pool->unused, 1u, memory_order_relaxed);
  uint64_t head = atomic_load(&pool->free_head), next;
  do {
    atomic_store_explicit(link_of(nx_pool_node(pool, reference)), (uint32_t)(head % TWO_32), memory_order_relaxed);
    next = (head / TWO_32 + 1u) * TWO_32 + reference;
  } while (!atomic_compare_exchange_weak(&pool->free_head, &head, next));
}
