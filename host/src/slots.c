/*
 * slots.c: tables that grow and never shrink, with a lock-free free list.
 *
 * Attackers: handles that are stale, foreign or invented, from callers and from plugins.
 * Promise: any 64-bit number may be looked up at any time without touching unmapped memory.
 */
#include "slots.h"

#include <stdlib.h>

#define TWO_32 4294967296ull

static uint32_t chunk_objects(const nx_table *table) { return 1u << table->chunk_shift; }

/* The slot at an index that was made. */
static nx_slot *made(nx_table *table, uint32_t index) {
  unsigned char *chunk = atomic_load_explicit(&table->chunks[index >> table->chunk_shift], memory_order_acquire);
  return (nx_slot *)(void *)(chunk + table->object_bytes * (index & (chunk_objects(table) - 1u)));
}

nx_slot *nx_table_at(nx_table *table, uint32_t index) {
  return index < atomic_load_explicit(&table->count, memory_order_acquire) ? made(table, index) : NULL;
}

nx_slot *nx_table_find(nx_table *table, uint64_t handle) { return nx_table_at(table, nxmem_handle_slot(handle)); }

static void push_free(nx_table *table, nx_slot *slot) {
  uint64_t head = atomic_load(&table->free_head);
  uint64_t next;
  do {
    atomic_store_explicit(&slot->next, (uint32_t)(head % TWO_32), memory_order_relaxed);
    next = (head / TWO_32 + 1u) * TWO_32 + slot->self + 1u;
  } while (!atomic_compare_exchange_weak(&table->free_head, &head, next));
}

static nx_slot *pop_free(nx_table *table) {
  uint64_t head = atomic_load(&table->free_head);
  while (head % TWO_32 != 0u) {
    nx_slot *slot = made(table, (uint32_t)(head % TWO_32) - 1u);
    const uint32_t after = atomic_load_explicit(&slot->next, memory_order_relaxed);
    if (atomic_compare_exchange_weak(&table->free_head, &head, (head / TWO_32 + 1u) * TWO_32 + after)) return slot;
  }
  return NULL;
}

static void number_slots(const nx_table *table, unsigned char *chunk, uint32_t first) {
  for (uint32_t i = 0; i < chunk_objects(table); i++)
    ((nx_slot *)(void *)(chunk + table->object_bytes * i))->self = first + i;
}

/* Make sure the chunk that holds `index` exists. Two threads may race to make it: one wins, the other's goes back. */
static int ensure_chunk(nx_table *table, uint32_t index) {
  const uint32_t at = index >> table->chunk_shift;
  if (at >= NX_CHUNKS_MAX) return 0;
  if (atomic_load_explicit(&table->chunks[at], memory_order_acquire) != NULL) return 1;
  unsigned char *fresh = calloc(chunk_objects(table), table->object_bytes);
  if (fresh == NULL) return 0;
  number_slots(table, fresh, index - index % chunk_objects(table));
  unsigned char *none = NULL;
  if (!atomic_compare_exchange_strong(&table->chunks[at], &none, fresh)) free(fresh);
  return 1;
}

/* A slot that never existed before. */
static nx_slot *grow(nx_table *table) {
  uint32_t count = atomic_load(&table->count);
  do {
    if (!ensure_chunk(table, count)) return NULL;
  } while (!atomic_compare_exchange_weak(&table->count, &count, count + 1u));
  return made(table, count);
}

nx_slot *nx_table_take(nx_table *table) {
  nx_slot *slot = pop_free(table);
  return slot != NULL ? slot : grow(table);
}

void nx_table_give(nx_table *table, nx_slot *slot) {
  const uint64_t freed = nxmem_word_freed(atomic_load(&slot->word));
  atomic_store(&slot->word, freed);
  if (nxmem_word_state(freed) == NXMEM_SLOT_FREE) push_free(table, slot);
}

uint64_t nx_slot_handle(nx_slot *slot) {
  return nxmem_handle_make(slot->self, nxmem_word_generation(atomic_load(&slot->word)));
}

int nx_slot_move(nx_slot *slot, uint64_t handle, nxmem_slot_state from, nxmem_slot_state to) {
  const uint32_t generation = nxmem_handle_generation(handle);
  uint64_t before = nxmem_word_make(generation, 0u, (uint32_t)from);
  return atomic_compare_exchange_strong(&slot->word, &before, nxmem_word_make(generation, 0u, (uint32_t)to));
}

void nx_slot_set(nx_slot *slot, nxmem_slot_state state) {
  const uint32_t generation = nxmem_word_generation(atomic_load(&slot->word));
  atomic_store(&slot->word, nxmem_word_make(generation, 0u, (uint32_t)state));
}
