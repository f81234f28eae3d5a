/*
 * index_small.c: cells of 1 KiB with ranges of up to 1 KiB: where nearly all of a program's allocations are.
 *
 * Attackers: a plugin that hands out addresses twice, in part or whole, or far apart so that each costs a cell.
 * Promise: one lock of a shard for a range and a cell; a range is compared and entered under it; empty cells are kept only up to a bound.
 */
#include <string.h>

#include "index_cells.h"
#include "index_pool.h"
#include "nxmem/overlap.h"
#include "slots.h"

enum { SPANS = 10 };

/* Its first node stands in a shard's chain; more spans are in nodes behind `more`. Under the shard's lock. */
typedef struct small_node {
  _Atomic uint32_t next;
  uint32_t space;
  uint64_t cell;
  uint32_t more;
  uint16_t used;
  uint16_t kept; /* stands among the shard's empties */
  uint32_t spans[SPANS];
} small_node;

_Static_assert(sizeof(small_node) == NX_NODE_BYTES, "a node");

nx_pool nx_small_pool;
nx_shard nx_small_shards[NX_SMALL_SHARDS];

static small_node *at(uint32_t reference) { return nx_pool_node(&nx_small_pool, reference); }
static _Atomic uint32_t *next_of(uint32_t reference) { return &at(reference)->next; }
static uint64_t hash_of(uint32_t reference) {
  return nx_cell_hash((nx_cell_key){at(reference)->cell, at(reference)->space});
}
const nx_chain nx_small_chain = {next_of, hash_of};

uint32_t nx_span_in(uint64_t cell, nx_bytes range) {
  const uint64_t begin = cell << NX_TIER_0_SHIFT, end = begin + (1u << NX_TIER_0_SHIFT) - 1u;
  const uint64_t first = range.first > begin ? range.first - begin : 0u;
  const uint64_t last = range.last < end ? range.last - begin : end - begin;
  return nxmem_span_make((uint32_t)first, (uint32_t)last);
}

static nx_bytes bytes_of(uint64_t cell, uint32_t span) {
  const uint64_t begin = cell << NX_TIER_0_SHIFT;
  return (nx_bytes){begin + nxmem_span_first(span), begin + nxmem_span_last(span)};
}

static small_node *find(nx_shard *shard, uint64_t hash, nx_cell_key key) {
  const _Atomic uint32_t *head = nx_shard_head(shard, hash);
  uint32_t reference = head == NULL ? 0u : atomic_load_explicit(head, memory_order_relaxed);
  while (reference != 0u) {
    small_node *node = at(reference);
    if (node->cell == key.cell && node->space == key.space) return node;
    reference = atomic_load_explicit(&node->next, memory_order_relaxed);
  }
  return NULL;
}

/*
 * Where a cell is looked for first: read before the lock is taken, believed only where it is the same behind it. What is read behind an atomic exchange waits for it,
 * and each of these reads would wait for the one before. Buckets are never given back, nodes never unmapped.
 */
typedef struct guess {
  nx_buckets *buckets;
  _Atomic uint32_t *head;
  uint32_t reference;
  small_node *node;
} guess;

static guess guess_at(nx_shard *shard, uint64_t hash) {
  guess g = {.buckets = atomic_load_explicit(&shard->buckets, memory_order_acquire)};
  if (g.buckets == NULL) return g;
  g.head = &g.buckets->heads[nx_bucket_of(g.buckets, hash)];
  g.reference = atomic_load_explicit(g.head, memory_order_relaxed);
  if (g.reference != 0u) g.node = at(g.reference);
  return g;
}

static small_node *find_guessed(nx_shard *shard, uint64_t hash, nx_cell_key key, guess g) {
  if (g.node != NULL && atomic_load_explicit(&shard->buckets, memory_order_relaxed) == g.buckets &&
      atomic_load_explicit(g.head, memory_order_relaxed) == g.reference && g.node->cell == key.cell &&
      g.node->space == key.space)
    return g.node;
  return find(shard, hash, key);
}

/* ---- Cells ---------------------------------------------------------------------------------------------------------- */

static uint32_t take_node(nx_cell_key key) {
  const uint32_t reference = nx_pool_take(&nx_small_pool);
  if (reference == 0u) return 0u;
  small_node *node = at(reference);
  node->space = key.space;
  node->cell = key.cell;
  node->more = 0u;
  node->used = 0u;
  node->kept = 0u;
  return reference;
}

static NX_APART small_node *make(nx_shard *shard, uint64_t hash, nx_cell_key key) {
  if (!nx_shard_make_room(shard, &nx_small_chain)) return NULL;
  const uint32_t reference = take_node(key);
  if (reference == 0u) return NULL;
  if (!nx_wide_mark(key.space, 1u, key.cell)) {
    nx_pool_give(&nx_small_pool, reference);
    return NULL;
  }
  _Atomic uint32_t *head = nx_shard_head(shard, hash);
  atomic_store_explicit(&at(reference)->next, atomic_load_explicit(head, memory_order_relaxed), memory_order_relaxed);
  atomic_store_explicit(head, reference, memory_order_relaxed);
  shard->cells++;
  return at(reference);
}

/* The one that made room for it goes, unless it holds something again. */
static NX_APART void keep_empty(nx_shard *shard, uint64_t hash, small_node *empty) {
  uint32_t reference = atomic_load_explicit(nx_shard_head(shard, hash), memory_order_relaxed);
  while (at(reference) != empty) reference = atomic_load_explicit(&at(reference)->next, memory_order_relaxed);
  empty->kept = 1u;
  const uint32_t gone = nx_shard_keep_empty(shard, reference);
  if (gone == 0u) return;
  small_node *node = at(gone);
  node->kept = 0u;
  if (node->used != 0u || node->more != 0u) return;
  nx_shard_unlink(shard, hash_of(gone), gone, &nx_small_chain);
  nx_wide_unmark(node->space, 1u, node->cell);
  nx_pool_give(&nx_small_pool, gone);
}

/* ---- Spans ---------------------------------------------------------------------------------------------------------- */

static int meets(const small_node *node, uint32_t span, nx_bytes *other) {
  const uint64_t cell = node->cell;
  for (;;) {
    const uint32_t found = nxmem_find_overlap(node->spans, node->used, span);
    if (found < node->used) {
      *other = bytes_of(cell, node->spans[found]);
      return 1;
    }
    if (node->more == 0u) return 0;
    node = at(node->more);
  }
}

/* Into the first node with room, or a new one behind the first. */
static int append(small_node *first, uint32_t span) {
  small_node *node = first;
  while (node->used == SPANS && node->more != 0u) node = at(node->more);
  if (node->used == SPANS) {
    const uint32_t more = take_node((nx_cell_key){first->cell, first->space});
    if (more == 0u) return 0;
    node = at(more);
    node->more = first->more;
    first->more = more;
  }
  node->spans[node->used++] = span;
  return 1;
}

/* 1 where it was there. */
static int take_out(small_node *node, uint32_t span) {
  for (uint32_t i = node->used; i-- > 0u;) { /* what came last tends to go first */
    if (node->spans[i] != span) continue;
    node->spans[i] = node->spans[--node->used];
    return 1;
  }
  return 0;
}

static void remove_span(small_node *first, uint32_t span) {
  if (take_out(first, span)) return;
  for (uint32_t *link = &first->more; *link != 0u; link = &at(*link)->more) {
    small_node *node = at(*link);
    if (!take_out(node, span)) continue;
    if (node->used != 0u) return;
    const uint32_t empty = *link;
    *link = node->more;
    nx_pool_give(&nx_small_pool, empty);
    return;
  }
}

/* ---- For the index -------------------------------------------------------------------------------------------------- */

static nx_put put_locked(nx_shard *shard, uint64_t hash, nx_cell_key key, guess g, uint32_t span, nx_bytes *other) {
  small_node *node = find_guessed(shard, hash, key, g);
  if (node == NULL) node = make(shard, hash, key);
  if (node == NULL) return NX_PUT_NO_MEMORY;
  if (meets(node, span, other)) return NX_PUT_TAKEN;
  return append(node, span) ? NX_PUT_DONE : NX_PUT_NO_MEMORY;
}

nx_put nx_small_put(nx_space *space, uint64_t cell, uint32_t span, uint32_t *tiers, nx_bytes *other) {
  const nx_cell_key key = {cell, space->id};
  const uint64_t hash = nx_cell_hash(key);
  nx_shard *shard = nx_small_shard(hash);
  const guess g = guess_at(shard, hash);
  const uint32_t held = nx_shard_lock(shard);
  const nx_put put = put_locked(shard, hash, key, g, span, other);
  *tiers |= atomic_load_explicit(&space->tiers, memory_order_relaxed);
  nx_shard_unlock(shard, held);
  return put;
}

void nx_small_drop(nx_space *space, uint64_t cell, uint32_t span) {
  const nx_cell_key key = {cell, space->id};
  const uint64_t hash = nx_cell_hash(key);
  nx_shard *shard = nx_small_shard(hash);
  const guess g = guess_at(shard, hash);
  const uint32_t held = nx_shard_lock(shard);
  small_node *node = find_guessed(shard, hash, key, g);
  if (node != NULL) {
    const int kept =
        node->kept; /* read before its neighbours are written: a processor waits where it reads more at once than was written */
    remove_span(node, span);
    if (!kept && node->used == 0u && node->more == 0u) keep_empty(shard, hash, node);
  }
  nx_shard_unlock(shard, held);
}

int nx_small_meets(nx_space *space, uint64_t cell, uint32_t span, nx_bytes *other) {
  const nx_cell_key key = {cell, space->id};
  const uint64_t hash = nx_cell_hash(key);
  nx_shard *shard = nx_small_shard(hash);
  const uint32_t held = nx_shard_lock(shard);
  const small_node *node = find(shard, hash, key);
  const int met = node != NULL && meets(node, span, other);
  nx_shard_unlock(shard, held);
  return met;
}

void nx_small_pass_all(void) {
  for (uint32_t i = 0; i < NX_SMALL_SHARDS; i++)
    nx_shard_unlock(&nx_small_shards[i], nx_shard_lock(&nx_small_shards[i]));
}
