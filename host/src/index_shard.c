/*
 * index_shard.c: chains of cells that stay short however many there are.
 *
 * Attackers: none directly; a plugin chooses which cells there are.
 * Promise: buckets that a reader without a lock may be in are never given back; all of them together take less than twice what is used.
 */
#include "index_shard.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/random.h>

uint64_t nx_hash_keys[2] = {0xD6E8FEB86659FD93ull, 0x9E3779B97F4A7C15ull};

/* Before any range is entered. Without random numbers the index works, with chains that can be foretold. */
__attribute__((constructor)) static void draw_keys(void) {
  uint64_t drawn[2];
  if (getrandom(drawn, sizeof drawn, GRND_NONBLOCK) != (ssize_t)sizeof drawn) return;
  for (int i = 0; i < 2; i++) nx_hash_keys[i] = drawn[i] | 1u;
}

void nx_shard_wait(nx_shard *shard) {
  for (int i = 0; i < 64; i++) {
    if (atomic_load_explicit(&shard->sequence, memory_order_relaxed) % 2u == 0u) return;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  (void)sched_yield(); /* the holder may have lost its processor */
}

static _Atomic uint64_t bytes_taken;

uint64_t nx_shard_bytes(void) { return atomic_load(&bytes_taken); }

static uint64_t count_of(const nx_buckets *buckets) { return 1ull << (64u - buckets->shift); }

static nx_buckets *new_buckets(uint32_t shift, nx_buckets *before) {
  const size_t bytes = sizeof(nx_buckets) + (sizeof(_Atomic uint32_t) << (64u - shift));
  nx_buckets *buckets = calloc(1u, bytes);
  if (buckets == NULL) return NULL;
  atomic_fetch_add_explicit(&bytes_taken, bytes, memory_order_relaxed);
  buckets->shift = shift;
  buckets->before = before;
  return buckets;
}

static void spread(nx_buckets *from, nx_buckets *to, const nx_chain *chain) {
  for (uint64_t i = 0; i < count_of(from); i++) {
    uint32_t reference = atomic_load_explicit(&from->heads[i], memory_order_relaxed);
    while (reference != 0u) {
      _Atomic uint32_t *link = chain->next(reference);
      const uint32_t after = atomic_load_explicit(link, memory_order_relaxed);
      _Atomic uint32_t *head = &to->heads[nx_bucket_of(to, chain->hash(reference))];
      atomic_store_explicit(link, atomic_load_explicit(head, memory_order_relaxed), memory_order_relaxed);
      atomic_store_explicit(head, reference, memory_order_relaxed);
      reference = after;
    }
  }
}

/* Where there is no memory for more buckets, longer chains serve. */
int nx_shard_make_room(nx_shard *shard, const nx_chain *chain) {
  enum { FIRST_SHIFT = 62, LEAST_SHIFT = 32 };
  nx_buckets *now = atomic_load_explicit(&shard->buckets, memory_order_relaxed);
  if (now != NULL && (shard->cells < count_of(now) || now->shift == LEAST_SHIFT)) return 1;
  nx_buckets *wider = new_buckets(now == NULL ? (uint32_t)FIRST_SHIFT : now->shift - 1u, now);
  if (wider == NULL) return now != NULL;
  if (now != NULL) spread(now, wider, chain);
  atomic_store_explicit(&shard->buckets, wider, memory_order_release);
  return 1;
}

void nx_shard_unlink(nx_shard *shard, uint64_t hash, uint32_t reference, const nx_chain *chain) {
  _Atomic uint32_t *link = nx_shard_head(shard, hash);
  while (atomic_load_explicit(link, memory_order_relaxed) != reference)
    link = chain->next(atomic_load_explicit(link, memory_order_relaxed));
  const uint32_t after = atomic_load_explicit(chain->next(reference), memory_order_relaxed);
  atomic_store_explicit(link, after, memory_order_relaxed);
  shard->cells--;
}

uint32_t nx_shard_keep_empty(nx_shard *shard, uint32_t reference) {
  const uint32_t at = shard->next_empty++ % NX_EMPTIES_KEPT;
  const uint32_t gone = shard->empties[at];
  shard->empties[at] = reference;
  return gone;
}
