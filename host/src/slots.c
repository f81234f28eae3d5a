/*
 * slots.c: tables that grow and never shrink, with a lock-free free list.
 *
 * Attackers: handles that are stale, foreign or invented, from callers and from plugins.
 * Promise: any 64-bit number may be looked up at any time without touching unmapped memory.
 */
#include "slots.h"

#include <stdlib.h>
#include <string.h>

#include "thread.h"

#define TWO_32 4294967296ull

_Static_assert(sizeof(nx_slot) == 16, "a slot's share of every record");

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

/* Put a chain of free slots, already linked from `first` to `last`, on the list: one exchange for all of them. */
static void push_chain(nx_table *table, uint32_t first, nx_slot *last) {
  uint64_t head = atomic_load(&table->free_head);
  uint64_t next;
  do {
    atomic_store_explicit(&last->self, (uint32_t)(head % TWO_32), memory_order_relaxed);
    next = (head / TWO_32 + 1u) * TWO_32 + first + 1u;
  } while (!atomic_compare_exchange_weak(&table->free_head, &head, next));
}

void nx_table_put_back(nx_table *table, nx_slot *const *slots, uint32_t count) {
  if (count == 0u) return;
  uint32_t first = atomic_load_explicit(&slots[count - 1u]->self, memory_order_relaxed);
  for (uint32_t i = count - 1u; i > 0u; i--) {
    const uint32_t after = atomic_load_explicit(&slots[i - 1u]->self, memory_order_relaxed);
    atomic_store_explicit(&slots[i]->self, after + 1u, memory_order_relaxed);
  }
  push_chain(table, first, slots[0]);
}

/*
 * The first slots of the list as far as `room` goes. What is read on the way may be nonsense where others take and give meanwhile: then the head has another tag
 * and nothing of it is used. Returns how many; *after is the link behind them.
 */
static uint32_t walk(nx_table *table, uint64_t head, nx_slot **out, uint32_t *indices, uint32_t room, uint32_t *after) {
  uint32_t link = (uint32_t)(head % TWO_32), n = 0u;
  while (n < room && link != 0u) {
    nx_slot *slot = nx_table_at(table, link - 1u);
    if (slot == NULL) break;
    out[n] = slot;
    indices[n++] = link - 1u;
    link = atomic_load_explicit(&slot->self, memory_order_relaxed);
  }
  *after = link;
  return n;
}

/* At most NX_BATCH at once. */
static uint32_t pop_free(nx_table *table, nx_slot **out, uint32_t room) {
  uint32_t indices[NX_BATCH], after = 0u;
  uint64_t head = atomic_load(&table->free_head);
  while (head % TWO_32 != 0u) {
    const uint32_t n = walk(table, head, out, indices, room, &after);
    if (!atomic_compare_exchange_weak(&table->free_head, &head, (head / TWO_32 + 1u) * TWO_32 + after)) continue;
    for (uint32_t i = 0; i < n; i++) atomic_store_explicit(&out[i]->self, indices[i], memory_order_relaxed);
    return n;
  }
  return 0u;
}

static void number_slots(const nx_table *table, unsigned char *chunk, uint32_t first) {
  for (uint32_t i = 0; i < chunk_objects(table); i++)
    atomic_store_explicit(&((nx_slot *)(void *)(chunk + table->object_bytes * i))->self, first + i,
                          memory_order_relaxed);
}

/* Zeroed memory for a chunk, as aligned as its objects are. */
static unsigned char *fresh_chunk(const nx_table *table) {
  const size_t bytes = table->object_bytes * chunk_objects(table);
  if (table->alignment <= _Alignof(max_align_t)) return calloc(1u, bytes);
  void *chunk = NULL;
  if (posix_memalign(&chunk, table->alignment, bytes) != 0) return NULL;
  return memset(chunk, 0, bytes);
}

/* Make sure the chunk that holds `index` exists. Two threads may race to make it: one wins, the other's goes back. */
static int ensure_chunk(nx_table *table, uint32_t index) {
  const uint32_t at = index >> table->chunk_shift;
  if (at >= NX_CHUNKS_MAX) return 0;
  if (atomic_load_explicit(&table->chunks[at], memory_order_acquire) != NULL) return 1;
  unsigned char *fresh = fresh_chunk(table);
  if (fresh == NULL) return 0;
  number_slots(table, fresh, index - index % chunk_objects(table));
  unsigned char *none = NULL;
  if (!atomic_compare_exchange_strong(&table->chunks[at], &none, fresh)) free(fresh);
  return 1;
}

/* Slots that never existed before: no further than the end of the chunk that the first of them is in. */
static uint32_t grow(nx_table *table, nx_slot **out, uint32_t room) {
  uint32_t count = atomic_load(&table->count), n;
  do {
    if (!ensure_chunk(table, count)) return 0u;
    const uint32_t left = chunk_objects(table) - count % chunk_objects(table);
    n = left < room ? left : room;
  } while (!atomic_compare_exchange_weak(&table->count, &count, count + n));
  for (uint32_t i = 0; i < n; i++) out[i] = made(table, count + i);
  return n;
}

uint32_t nx_table_take_some(nx_table *table, nx_slot **out, uint32_t room) {
  if (room > NX_BATCH) room = NX_BATCH;
  const uint32_t n = pop_free(table, out, room);
  return n != 0u ? n : grow(table, out, room);
}

nx_slot *nx_table_take(nx_table *table) {
  if (table->cached) return nx_thread_take(nx_thread_self(), table);
  nx_slot *slot = NULL;
  return nx_table_take_some(table, &slot, 1u) == 1u ? slot : NULL;
}

int nx_slot_free(nx_slot *slot) {
  const uint64_t freed = nxmem_word_freed(atomic_load_explicit(&slot->word, memory_order_relaxed));
  atomic_store_explicit(&slot->word, freed, memory_order_release);
  return nxmem_word_state(freed) == NXMEM_SLOT_FREE;
}

void nx_table_give(nx_table *table, nx_slot *slot) {
  if (!nx_slot_free(slot)) return;
  if (table->cached)
    nx_thread_give(nx_thread_self(), table, slot);
  else
    nx_table_put_back(table, &slot, 1u);
}

uint64_t nx_slot_handle(nx_slot *slot) {
  return nxmem_handle_make(slot->self, nxmem_word_generation(atomic_load(&slot->word)));
}

int nx_slot_move(nx_slot *slot, uint64_t handle, nxmem_slot_state from, nxmem_slot_state to) {
  const uint32_t generation = nxmem_handle_generation(handle);
  uint64_t before = nxmem_word_make(generation, 0u, (uint32_t)from);
  return atomic_compare_exchange_strong(&slot->word, &before, nxmem_word_make(generation, 0u, (uint32_t)to));
}

void nx_slot_show(nx_slot *slot, uint64_t handle, nxmem_slot_state state) {
  const uint64_t word = nxmem_word_make(nxmem_handle_generation(handle), 0u, (uint32_t)state);
  atomic_store_explicit(&slot->word, word, memory_order_release);
}

void nx_slot_set(nx_slot *slot, nxmem_slot_state state) { nx_slot_show(slot, nx_slot_handle(slot), state); }
