/*
 * again.c: the host's tables, once nothing is left in them, as they were before the first input.
 * Attackers: none.
 * Promise: an input that shares a process with others finds what it would find alone, and takes the same path.
 *
 * Tables grow and never shrink, free slots come back in another order and with another generation, the index of addresses
 * keeps cells that hold nothing. No answer depends on any of it, but which branches run does; and looking through what
 * earlier inputs left costs more than what the input itself does.
 */
#include "again.h"

#include <stdlib.h>

#include "deferred.h"
#include "index_cells.h"
#include "life.h"

/* Of a table whose slots no thread keeps for itself each one is on its list of free ones, once. */
static void expect_all_free(nx_table *table, uint32_t count) {
  uint32_t link = (uint32_t)atomic_load_explicit(&table->free_head, memory_order_relaxed);
  uint32_t listed = 0;
  for (; link != 0 && listed <= count; listed++)
    link = atomic_load_explicit(&nx_table_at(table, link - 1u)->self, memory_order_relaxed);
  life_expect(listed == count, "at the end a slot is missing");
}

/* Whoever has a slot still, its word says so: nothing may be left. */
static void restore_table(nx_table *table) {
  const uint32_t count = atomic_load_explicit(&table->count, memory_order_relaxed);
  if (!table->cached) expect_all_free(table, count);
  for (uint32_t i = 0; i < count; i++) {
    nx_slot *slot = nx_table_at(table, i);
    const uint64_t word = atomic_load_explicit(&slot->word, memory_order_relaxed);
    life_expect(nxmem_word_state(word) == NXMEM_SLOT_FREE, "at the end a slot is taken");
    atomic_store_explicit(&slot->word, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->self, i, memory_order_relaxed);
  }
  atomic_store_explicit(&table->free_head, 0, memory_order_relaxed);
  atomic_store_explicit(&table->count, 0, memory_order_relaxed);
}

void again_restore_slots(void) {
  nx_thread *thread = nx_thread_self();
  atomic_store_explicit(&thread->cached, 0, memory_order_relaxed);
  restore_table(&nx_allocations);
  restore_table(&nx_allocators);
  restore_table(&nx_queue);
}

/* ---- The index of addresses -------------------------------------------------------------------------------------- */

/* Its first buckets, and nothing in them. The wider ones go: they are as many as the most cells of any input. */
static void restore_shard(nx_shard *shard) {
  nx_buckets *buckets = atomic_load_explicit(&shard->buckets, memory_order_relaxed);
  while (buckets->before != NULL) {
    nx_buckets *before = buckets->before;
    free(buckets);
    buckets = before;
  }
  for (uint64_t i = 0; i < 1ull << (64u - buckets->shift); i++)
    atomic_store_explicit(&buckets->heads[i], 0, memory_order_relaxed);
  atomic_store_explicit(&shard->buckets, buckets, memory_order_relaxed);
  shard->cells = 0;
  for (uint32_t i = 0; i < NX_EMPTIES_KEPT; i++) shard->empties[i] = 0;
  shard->next_empty = 0;
}

static void restore_pool(nx_pool *pool) {
  atomic_store_explicit(&pool->count, 0, memory_order_relaxed);
  atomic_store_explicit(&pool->free_head, 0, memory_order_relaxed);
  atomic_store_explicit(&pool->unused, 0, memory_order_relaxed);
}

static void restore_if_used(nx_shard *shard) {
  if (shard->cells != 0) restore_shard(shard);
}

/* Each cell is a node; its tier the node does not say, and some are no cells: then what is looked at is a shard like any other. */
static void restore_small(void) {
  const uint32_t count = atomic_load_explicit(&nx_small_pool.count, memory_order_relaxed);
  for (uint32_t i = 1; i <= count; i++) restore_if_used(nx_small_shard(nx_small_chain.hash(i)));
  restore_pool(&nx_small_pool);
}

static void restore_wide(void) {
  const uint32_t count = atomic_load_explicit(&nx_wide_pool.count, memory_order_relaxed);
  for (uint32_t i = 1; i <= count; i++) {
    const uint64_t hash = nx_wide_chain.hash(i);
    for (uint32_t tier = 1; tier < NX_TIERS; tier++) restore_if_used(nx_wide_shard(tier, hash));
  }
  restore_pool(&nx_wide_pool);
}

void again_restore_index(void) {
  restore_small();
  restore_wide();
}

static void make_buckets(nx_shard *shards, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) life_expect(nx_shard_make_room(&shards[i], NULL), "harness: out of memory");
}

void again_prepare_index(void) {
  make_buckets(nx_small_shards, NX_SMALL_SHARDS);
  make_buckets(nx_wide_shards[0], (NX_TIERS - 1) * NX_WIDE_SHARDS);
}

void again_note_tiers(nx_space *space, int used) { atomic_store(&space->tiers, used ? (1u << NX_TIERS) - 2u : 0u); }

/* All addresses but the last one, in one range. */
void again_restore_space(nx_space *space) {
  uint64_t first = 0, bytes = 0;
  again_note_tiers(space, 1);
  life_expect(nx_index_put(space, 0, UINT64_MAX, &first, &bytes) != NX_PUT_TAKEN, "at the end an address is taken");
  atomic_store(&space->kept, 0);
}
