/*
 * The index's shards: a leaf lock each, with the cells that hash to it. Private to the host.
 *
 * The lock is a sequence number, odd while it is held: what is read without it is true if the number was even and is still the same.
 */
#ifndef NX_INDEX_SHARD_H
#define NX_INDEX_SHARD_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* A cell's number within its tier, of one space. */
typedef struct nx_cell_key {
  uint64_t cell;
  uint32_t space;
} nx_cell_key;

/* Never changes its size; a larger one takes its place. */
typedef struct nx_buckets {
  struct nx_buckets *before; /* readers without a lock may still be in it */
  uint32_t shift;            /* there are 2^(64 - shift) */
  _Atomic uint32_t heads[];  /* references of nodes; 0: none */
} nx_buckets;

enum { NX_EMPTIES_KEPT = 2 };

typedef struct nx_shard {
  _Alignas(64) _Atomic uint32_t sequence;
  uint32_t cells;
  _Atomic(nx_buckets *) buckets;
  uint32_t empties[NX_EMPTIES_KEPT]; /* cells that hold nothing, kept for the next range at the same place; 0: none */
  uint32_t next_empty;
} nx_shard;

/* Odd numbers, drawn when the library is loaded: a plugin that chooses its addresses cannot choose their chains. */
extern uint64_t nx_hash_keys[2];

/* Its highest bits count: of these, two cells share n with a chance of at most 2 in 2^n, whatever cells they are (multiplying by a drawn odd number). */
static inline uint64_t nx_cell_hash(nx_cell_key key) {
  return (key.cell + (uint64_t)key.space * nx_hash_keys[0]) * nx_hash_keys[1];
}

/* Any thread may hold it for a few instructions; whoever waits gives way. */
void nx_shard_wait(nx_shard *shard);

/* Returns what unlocking needs: the odd number. */
static inline uint32_t nx_shard_lock(nx_shard *shard) {
  uint32_t sequence;
  for (;;) {
    sequence = atomic_load_explicit(&shard->sequence, memory_order_relaxed);
    if (sequence % 2u == 0u && atomic_compare_exchange_weak_explicit(&shard->sequence, &sequence, sequence + 1u,
                                                                     memory_order_acquire, memory_order_relaxed))
      break;
    if (sequence % 2u != 0u) nx_shard_wait(shard);
  }
  atomic_thread_fence(memory_order_release); /* the odd number is seen before anything that is written behind it */
  return sequence + 1u;
}

static inline void nx_shard_unlock(nx_shard *shard, uint32_t held) {
  atomic_store_explicit(&shard->sequence, held + 1u, memory_order_release);
}

/* Begin to read without the lock; 1 from the end of it where all that was read is true. */
static inline uint32_t nx_shard_read_begin(nx_shard *shard) {
  uint32_t sequence;
  while ((sequence = atomic_load_explicit(&shard->sequence, memory_order_acquire)) % 2u != 0u) nx_shard_wait(shard);
  return sequence;
}
static inline int nx_shard_read_holds(nx_shard *shard, uint32_t sequence) {
  atomic_thread_fence(memory_order_acquire);
  return atomic_load_explicit(&shard->sequence, memory_order_relaxed) == sequence;
}

/* The highest bits of a hash choose the shard; those behind them the bucket. */
enum { NX_SHARD_BITS_MAX = 10 };
static inline uint64_t nx_bucket_of(const nx_buckets *buckets, uint64_t hash) {
  return hash << NX_SHARD_BITS_MAX >> buckets->shift;
}

/* The head of the chain that a cell stands in; NULL while there is none. Under the lock, or reading. */
static inline _Atomic uint32_t *nx_shard_head(nx_shard *shard, uint64_t hash) {
  nx_buckets *buckets = atomic_load_explicit(&shard->buckets, memory_order_acquire);
  return buckets == NULL ? NULL : &buckets->heads[nx_bucket_of(buckets, hash)];
}

/* How a chain is followed when it is spread over more buckets. */
typedef struct nx_chain {
  _Atomic uint32_t *(*next)(uint32_t reference);
  uint64_t (*hash)(uint32_t reference);
} nx_chain;

/* Room for one more cell; 0: no memory, and none at all yet. Under the lock. */
int nx_shard_make_room(nx_shard *shard, const nx_chain *chain);

/* Take a node out of its chain. Under the lock. */
void nx_shard_unlink(nx_shard *shard, uint64_t hash, uint32_t reference, const nx_chain *chain);

/* Bytes of all buckets, those of before among them. */
uint64_t nx_shard_bytes(void);

/* Keep an empty cell; returns the one that is to go for it, or 0. Under the lock. */
uint32_t nx_shard_keep_empty(nx_shard *shard, uint32_t reference);

#endif /* NX_INDEX_SHARD_H */
