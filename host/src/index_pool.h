/* Nodes of the index of addresses: 64 bytes each, never unmapped, so that a reader without a lock may follow a link that is no longer true. Private to the host. */
#ifndef NX_INDEX_POOL_H
#define NX_INDEX_POOL_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { NX_NODE_BYTES = 64, NX_POOL_CHUNK = 1024, NX_POOL_CHUNKS_MAX = 1 << 16 };

typedef struct nx_pool {
  _Atomic(unsigned char *) chunks[NX_POOL_CHUNKS_MAX];
  _Atomic uint64_t free_head; /* tag * 2^32 + reference */
  _Atomic uint32_t count;     /* nodes ever made */
  _Atomic uint32_t unused;    /* of them, those that are free */
} nx_pool;

/* A node begins with a link (an _Atomic uint32_t): the pool's while the node is free. References count from 1. 0: no memory. [any-thread] */
uint32_t nx_pool_take(nx_pool *pool);
void nx_pool_give(nx_pool *pool, uint32_t reference);

/* A node that is in use, by its reference. */
static inline void *nx_pool_node(nx_pool *pool, uint32_t reference) {
  const uint32_t at = reference - 1u;
  unsigned char *chunk = atomic_load_explicit(&pool->chunks[at / NX_POOL_CHUNK], memory_order_acquire);
  return chunk + (size_t)NX_NODE_BYTES * (at % NX_POOL_CHUNK);
}

/* NULL for 0 and for what was never made. [any-thread] */
void *nx_pool_at(nx_pool *pool, uint32_t reference);

#endif /* NX_INDEX_POOL_H */
