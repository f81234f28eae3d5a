/*
 * index_wide.c: cells of 256 KiB and more: long ranges, and which cells there are below.
 *
 * Attackers: as for small cells; and threads that all look up the same long range for each of their short ones.
 * Promise: looking takes no lock, so threads that only look do not wait for each other; what is read while somebody writes is read again.
 */
#include <stddef.h>

#include "index_cells.h"
#include "index_pool.h"
#include "nxmem/range.h"
#include "slots.h"

enum { WORDS = 7, BIT_WORDS = NX_FAN_OUT / 64, PACKED_TIERS = 2, STEPS_BEFORE_A_LOOK = 64 };

/* All fields are relaxed atomics: a reader without the lock may see a node that serves for something else by now. */
typedef struct wide_node {
  _Atomic uint32_t next;
  _Atomic uint32_t spans; /* the first node of its ranges */
  _Atomic uint64_t cell;
  _Atomic uint32_t space;
  _Atomic uint32_t kept; /* stands among the shard's empties */
  _Atomic uint64_t children[BIT_WORDS];
  _Atomic uint64_t unused;
} wide_node;

/* Ranges of a cell: in tiers 1 and 2 one word each, offsets in the cell; above two words, addresses. */
typedef struct span_node {
  _Atomic uint32_t next;
  _Atomic uint32_t used;
  _Atomic uint64_t words[WORDS];
} span_node;

_Static_assert(sizeof(wide_node) == NX_NODE_BYTES && sizeof(span_node) == NX_NODE_BYTES, "nodes");

nx_pool nx_wide_pool;
nx_shard nx_wide_shards[NX_TIERS - 1][NX_WIDE_SHARDS];

static wide_node *at(uint32_t reference) { return nx_pool_node(&nx_wide_pool, reference); }
static span_node *spans_at(uint32_t reference) { return nx_pool_node(&nx_wide_pool, reference); }
/* Of a reader without the lock: NULL where the reference is none. */
static wide_node *look_at(uint32_t reference) { return nx_pool_at(&nx_wide_pool, reference); }
static span_node *look_at_spans(uint32_t reference) { return nx_pool_at(&nx_wide_pool, reference); }

static uint32_t get(const _Atomic uint32_t *field) { return atomic_load_explicit(field, memory_order_relaxed); }
static void put(_Atomic uint32_t *field, uint32_t value) { atomic_store_explicit(field, value, memory_order_relaxed); }
static uint64_t get_long(const _Atomic uint64_t *field) { return atomic_load_explicit(field, memory_order_relaxed); }
static void put_long(_Atomic uint64_t *field, uint64_t value) {
  atomic_store_explicit(field, value, memory_order_relaxed);
}

static _Atomic uint32_t *next_of(uint32_t reference) { return &at(reference)->next; }
static uint64_t hash_of(uint32_t reference) {
  return nx_cell_hash((nx_cell_key){get_long(&at(reference)->cell), get(&at(reference)->space)});
}
const nx_chain nx_wide_chain = {next_of, hash_of};

static uint32_t find(nx_shard *shard, uint64_t hash, nx_cell_key key) {
  const _Atomic uint32_t *head = nx_shard_head(shard, hash);
  uint32_t reference = head == NULL ? 0u : get(head);
  while (reference != 0u && (get_long(&at(reference)->cell) != key.cell || get(&at(reference)->space) != key.space))
    reference = get(&at(reference)->next);
  return reference;
}

/* ---- Cells ---------------------------------------------------------------------------------------------------------- */

static int holds_nothing(const wide_node *node) {
  uint64_t any = get(&node->spans);
  for (int i = 0; i < BIT_WORDS; i++) any |= get_long(&node->children[i]);
  return any == 0u;
}

static uint32_t make(nx_shard *shard, uint64_t hash, uint32_t tier, nx_cell_key key) {
  if (!nx_shard_make_room(shard, &nx_wide_chain)) return 0u;
  const uint32_t reference = nx_pool_take(&nx_wide_pool);
  if (reference == 0u) return 0u;
  if (tier + 1u < NX_TIERS && !nx_wide_mark(key.space, tier + 1u, key.cell)) {
    nx_pool_give(&nx_wide_pool, reference);
    return 0u;
  }
  wide_node *node = at(reference);
  put(&node->spans, 0u);
  put_long(&node->cell, key.cell);
  put(&node->space, key.space);
  put(&node->kept, 0u);
  for (int i = 0; i < BIT_WORDS; i++) put_long(&node->children[i], 0u);
  _Atomic uint32_t *head = nx_shard_head(shard, hash);
  put(&node->next, get(head));
  put(head, reference);
  shard->cells++;
  return reference;
}

static uint32_t find_or_make(nx_shard *shard, uint64_t hash, uint32_t tier, nx_cell_key key) {
  const uint32_t reference = find(shard, hash, key);
  return reference != 0u ? reference : make(shard, hash, tier, key);
}

/* The one that made room for it goes, unless it holds something again. */
static void keep_empty(nx_shard *shard, uint32_t tier, uint32_t reference) {
  if (get(&at(reference)->kept) != 0u) return;
  put(&at(reference)->kept, 1u);
  const uint32_t gone = nx_shard_keep_empty(shard, reference);
  if (gone == 0u) return;
  wide_node *node = at(gone);
  put(&node->kept, 0u);
  if (!holds_nothing(node)) return;
  nx_shard_unlink(shard, hash_of(gone), gone, &nx_wide_chain);
  if (tier + 1u < NX_TIERS) nx_wide_unmark(get(&node->space), tier + 1u, get_long(&node->cell));
  nx_pool_give(&nx_wide_pool, gone);
}

/* The cell of `tier` above a child, and the child's place in it. */
typedef struct place {
  nx_cell_key key;
  uint32_t word;
  uint64_t bit;
} place;

static place place_of(uint32_t space, uint32_t tier, uint64_t child) {
  /* The highest tier has one cell; the one below it has 64, which fit its bits as they are. */
  const place p = {.key = {.cell = tier == NX_TIERS - 1u ? 0u : child / NX_FAN_OUT, .space = space},
                   .word = (uint32_t)(child % NX_FAN_OUT / 64u),
                   .bit = 1ull << child % 64u};
  return p;
}

int nx_wide_mark(uint32_t space, uint32_t tier, uint64_t child) {
  const place p = place_of(space, tier, child);
  const uint64_t hash = nx_cell_hash(p.key);
  nx_shard *shard = nx_wide_shard(tier, hash);
  const uint32_t held = nx_shard_lock(shard);
  const uint32_t reference = find_or_make(shard, hash, tier, p.key);
  if (reference != 0u) {
    _Atomic uint64_t *word = &at(reference)->children[p.word];
    put_long(word, get_long(word) | p.bit);
  }
  nx_shard_unlock(shard, held);
  return reference != 0u;
}

void nx_wide_unmark(uint32_t space, uint32_t tier, uint64_t child) {
  const place p = place_of(space, tier, child);
  const uint64_t hash = nx_cell_hash(p.key);
  nx_shard *shard = nx_wide_shard(tier, hash);
  const uint32_t held = nx_shard_lock(shard);
  const uint32_t reference = find(shard, hash, p.key);
  if (reference != 0u) {
    _Atomic uint64_t *word = &at(reference)->children[p.word];
    put_long(word, get_long(word) & ~p.bit);
    if (holds_nothing(at(reference))) keep_empty(shard, tier, reference);
  }
  nx_shard_unlock(shard, held);
}

/* ---- Ranges of a cell ----------------------------------------------------------------------------------------------- */

static uint32_t words_of(uint32_t tier) { return tier <= PACKED_TIERS ? 1u : 2u; }

static uint64_t pack(uint32_t tier, uint64_t cell, nx_bytes range) {
  const uint64_t begin = cell << nx_tier_shift(tier), end = begin + ((1ull << nx_tier_shift(tier)) - 1u);
  const uint64_t first = range.first > begin ? range.first - begin : 0u;
  const uint64_t last = range.last < end ? range.last - begin : end - begin;
  return first << 32 | last;
}

static nx_bytes unpack(uint32_t tier, uint64_t cell, const span_node *node, uint32_t i) {
  if (tier > PACKED_TIERS) return (nx_bytes){get_long(&node->words[2u * i]), get_long(&node->words[2u * i + 1u])};
  const uint64_t begin = cell << nx_tier_shift(tier), word = get_long(&node->words[i]);
  return (nx_bytes){begin + (word >> 32), begin + (word & UINT32_MAX)};
}

static int overlap(nx_bytes a, nx_bytes b) {
  return nxmem_ranges_overlap(a.first, a.last - a.first + 1u, b.first, b.last - b.first + 1u);
}

/* Of one node; `used` may be nonsense to a reader without the lock. */
static int node_meets(const span_node *node, uint32_t tier, uint64_t cell, nx_bytes range, nx_bytes *other) {
  const uint32_t room = WORDS / words_of(tier);
  const uint32_t claimed = get(&node->used), used = claimed < room ? claimed : room;
  for (uint32_t i = 0; i < used; i++) {
    *other = unpack(tier, cell, node, i);
    if (overlap(range, *other)) return 1;
  }
  return 0;
}

static int meets(uint32_t first, uint32_t tier, uint64_t cell, nx_bytes range, nx_bytes *other) {
  for (uint32_t r = first; r != 0u; r = get(&spans_at(r)->next))
    if (node_meets(spans_at(r), tier, cell, range, other)) return 1;
  return 0;
}

static void write_span(span_node *node, uint32_t i, uint32_t tier, uint64_t cell, nx_bytes range) {
  if (tier <= PACKED_TIERS) {
    put_long(&node->words[i], pack(tier, cell, range));
    return;
  }
  put_long(&node->words[2u * i], range.first);
  put_long(&node->words[2u * i + 1u], range.last);
}

static int append(wide_node *owner, uint32_t tier, uint64_t cell, nx_bytes range) {
  const uint32_t room = WORDS / words_of(tier);
  uint32_t reference = get(&owner->spans);
  while (reference != 0u && get(&spans_at(reference)->used) == room) reference = get(&spans_at(reference)->next);
  if (reference == 0u) {
    reference = nx_pool_take(&nx_wide_pool);
    if (reference == 0u) return 0;
    put(&spans_at(reference)->used, 0u);
    put(&spans_at(reference)->next, get(&owner->spans));
    put(&owner->spans, reference);
  }
  span_node *node = spans_at(reference);
  write_span(node, get(&node->used), tier, cell, range);
  put(&node->used, get(&node->used) + 1u);
  return 1;
}

/* What stands in the index of a range in this cell. */
static nx_bytes as_kept(uint32_t tier, uint64_t cell, nx_bytes range) {
  if (tier > PACKED_TIERS) return range;
  const uint64_t begin = cell << nx_tier_shift(tier), word = pack(tier, cell, range);
  return (nx_bytes){begin + (word >> 32), begin + (word & UINT32_MAX)};
}

/* 1 where it was there. */
static int take_out(span_node *node, uint32_t tier, uint64_t cell, nx_bytes kept) {
  const uint32_t used = get(&node->used);
  for (uint32_t i = 0; i < used; i++) {
    const nx_bytes span = unpack(tier, cell, node, i);
    if (span.first != kept.first || span.last != kept.last) continue;
    write_span(node, i, tier, cell, unpack(tier, cell, node, used - 1u));
    put(&node->used, used - 1u);
    return 1;
  }
  return 0;
}

static void remove_range(wide_node *owner, uint32_t tier, uint64_t cell, nx_bytes range) {
  const nx_bytes kept = as_kept(tier, cell, range);
  for (_Atomic uint32_t *link = &owner->spans; get(link) != 0u; link = &spans_at(get(link))->next) {
    span_node *node = spans_at(get(link));
    if (!take_out(node, tier, cell, kept)) continue;
    if (get(&node->used) != 0u) return;
    const uint32_t empty = get(link);
    put(link, get(&node->next));
    nx_pool_give(&nx_wide_pool, empty);
    return;
  }
}

/* ---- For the index -------------------------------------------------------------------------------------------------- */

NX_APART nx_put nx_wide_put(nx_space *space, uint32_t tier, uint64_t cell, nx_bytes range, uint32_t *tiers,
                            nx_bytes *other) {
  const nx_cell_key key = {cell, space->id};
  const uint64_t hash = nx_cell_hash(key);
  nx_shard *shard = nx_wide_shard(tier, hash);
  nx_put result = NX_PUT_NO_MEMORY;
  const uint32_t held = nx_shard_lock(shard);
  const uint32_t reference = find_or_make(shard, hash, tier, key);
  if (reference != 0u) {
    if (meets(get(&at(reference)->spans), tier, cell, range, other))
      result = NX_PUT_TAKEN;
    else if (append(at(reference), tier, cell, range))
      result = NX_PUT_DONE;
    else if (holds_nothing(at(reference)))
      keep_empty(shard, tier, reference);
  }
  *tiers |= atomic_load_explicit(&space->tiers, memory_order_relaxed);
  nx_shard_unlock(shard, held);
  return result;
}

NX_APART void nx_wide_drop(nx_space *space, uint32_t tier, uint64_t cell, nx_bytes range) {
  const nx_cell_key key = {cell, space->id};
  const uint64_t hash = nx_cell_hash(key);
  nx_shard *shard = nx_wide_shard(tier, hash);
  const uint32_t held = nx_shard_lock(shard);
  const uint32_t reference = find(shard, hash, key);
  if (reference != 0u) {
    remove_range(at(reference), tier, cell, range);
    if (holds_nothing(at(reference))) keep_empty(shard, tier, reference);
  }
  nx_shard_unlock(shard, held);
}

/* ---- Looking, without the lock -------------------------------------------------------------------------------------- */

/* One attempt. A chain that is changed under the reader's feet may lead anywhere, even in a circle: every so many steps the number is looked at. */
typedef struct look {
  nx_shard *shard;
  uint32_t sequence;
  uint32_t steps;
  int broken;
} look;

static int goes_on(look *l) {
  if (++l->steps % STEPS_BEFORE_A_LOOK == 0u && !nx_shard_read_holds(l->shard, l->sequence)) l->broken = 1;
  return !l->broken;
}

/* NULL where there is none, or the look is broken. */
static wide_node *look_for(look *l, uint64_t hash, nx_cell_key key) {
  const _Atomic uint32_t *head = nx_shard_head(l->shard, hash);
  wide_node *node = head == NULL ? NULL : look_at(get(head));
  while (node != NULL && goes_on(l)) {
    if (get_long(&node->cell) == key.cell && get(&node->space) == key.space) return node;
    node = look_at(get(&node->next));
  }
  return NULL;
}

int nx_wide_meets(nx_space *space, uint32_t tier, uint64_t cell, nx_bytes range, nx_bytes *other) {
  const nx_cell_key key = {cell, space->id};
  const uint64_t hash = nx_cell_hash(key);
  nx_shard *shard = nx_wide_shard(tier, hash);
  for (;;) {
    look l = {shard, nx_shard_read_begin(shard), 0u, 0};
    const wide_node *node = look_for(&l, hash, key);
    int met = 0;
    const span_node *spans = node == NULL ? NULL : look_at_spans(get(&node->spans));
    for (; spans != NULL && !met && goes_on(&l); spans = look_at_spans(get(&spans->next)))
      met = node_meets(spans, tier, cell, range, other);
    if (!l.broken && nx_shard_read_holds(shard, l.sequence)) return met;
  }
}

void nx_wide_children(nx_space *space, uint32_t tier, uint64_t cell, uint64_t out[4]) {
  const nx_cell_key key = {cell, space->id};
  const uint64_t hash = nx_cell_hash(key);
  nx_shard *shard = nx_wide_shard(tier, hash);
  for (;;) {
    look l = {shard, nx_shard_read_begin(shard), 0u, 0};
    const wide_node *node = look_for(&l, hash, key);
    for (int i = 0; i < BIT_WORDS; i++) out[i] = node == NULL ? 0u : get_long(&node->children[i]);
    if (!l.broken && nx_shard_read_holds(shard, l.sequence)) return;
  }
}

void nx_wide_pass_all(uint32_t below_tier) {
  for (uint32_t tier = 1u; tier < below_tier; tier++) {
    for (uint32_t i = 0; i < NX_WIDE_SHARDS; i++) {
      nx_shard *shard = &nx_wide_shards[tier - 1u][i];
      nx_shard_unlock(shard, nx_shard_lock(shard));
    }
  }
}
