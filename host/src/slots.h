/*
 * Tables of slots that are never unmapped: where every handle leads. Private to the host.
 *
 * A slot's word (nxmem/handle.h) is changed only by compare-and-swap or exchange; all other fields of an object are relaxed atomics or
 * are written only while the word says ALLOCATING and the slot is its writer's alone.
 */
#ifndef NX_SLOTS_H
#define NX_SLOTS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "nxmem/handle.h"

/* First member of every object that lives in a table. */
typedef struct nx_slot {
  _Atomic uint64_t word;
  _Atomic uint32_t self;  /* its index; on the free list the next one's index + 1 */
  _Atomic uint32_t extra; /* the object's own, whatever it needs 32 bits for */
} nx_slot;

enum { NX_CHUNKS_MAX = 4096 };

/* Statically initialised with NX_TABLE; grows by whole chunks. */
typedef struct nx_table {
  const size_t object_bytes;
  const size_t alignment;
  const uint32_t chunk_shift; /* objects per chunk = 2^chunk_shift */
  const int cached; /* each thread keeps a few free slots of its own (thread.h); at most one table of the process */
  _Atomic(unsigned char *) chunks[NX_CHUNKS_MAX];
  _Atomic uint64_t free_head; /* tag * 2^32 + (index + 1); the tag makes each head unique */
  _Atomic uint32_t count;     /* slots ever made */
} nx_table;

#define NX_TABLE(type, shift) \
  { .object_bytes = sizeof(type), .alignment = _Alignof(type), .chunk_shift = (shift) }
#define NX_TABLE_CACHED(type, shift) \
  { .object_bytes = sizeof(type), .alignment = _Alignof(type), .chunk_shift = (shift), .cached = 1 }

/* Calls pass here: what it calls is compiled into it, where that can be. */
#if defined(__GNUC__)
#define NX_HOT __attribute__((flatten))
#define NX_ALONE __attribute__((noinline))       /* and this is not */
#define NX_APART __attribute__((noinline, cold)) /* nor this, which is seldom called */
#else
#define NX_HOT
#define NX_ALONE
#define NX_APART
#endif

/* nx_table_find for a table whose geometry the compiler knows. */
static inline void *nx_table_find_in(nx_table *table, uint32_t chunk_shift, size_t object_bytes, uint64_t handle) {
  const uint32_t index = (uint32_t)handle - 1u; /* of no slot: the highest, which no table has */
  if (index >= atomic_load_explicit(&table->count, memory_order_acquire)) return NULL;
  unsigned char *chunk = atomic_load_explicit(&table->chunks[index >> chunk_shift], memory_order_acquire);
  return chunk + object_bytes * (index & ((1u << chunk_shift) - 1u));
}

/*
 * Take a free slot off the list: it is the caller's alone, and its word still says FREE, so that no lookup accepts it before its fields are
 * set. Then nx_slot_set(ALLOCATING) or LIVE shows it. NULL: no memory, or the table is full. [any-thread] [blocks: malloc]
 */
nx_slot *nx_table_take(nx_table *table);

/* Make a slot free with its next generation (or retire it). The caller owns the slot, whatever its word says. [any-thread] */
void nx_table_give(nx_table *table, nx_slot *slot);

/* Take up to `room` free slots off the shared list, or make them; 0 where there is neither. Their words say FREE. [any-thread] [blocks: malloc] */
NX_APART uint32_t nx_table_take_some(nx_table *table, nx_slot **out, uint32_t room);

/* Put free slots back on the shared list. [any-thread] */
NX_APART void nx_table_put_back(nx_table *table, nx_slot *const *slots, uint32_t count);

/* The slot at an index that was once made, or NULL. [any-thread] */
nx_slot *nx_table_at(nx_table *table, uint32_t index);

/* The slot a handle names by its index; its generation is the caller's to check. NULL for none. [any-thread] */
nx_slot *nx_table_find(nx_table *table, uint64_t handle);

/* The handle of a slot in its present generation. */
uint64_t nx_slot_handle(nx_slot *slot);

/* Move a word from one state to another, users 0 before and after; 0 when it was not in that state or not of that generation. [any-thread] */
int nx_slot_move(nx_slot *slot, uint64_t handle, nxmem_slot_state from, nxmem_slot_state to);

/* Free, with its next generation; 0 where it is RETIRED instead and must not be taken any more. The caller owns the slot. */
int nx_slot_free(nx_slot *slot);

/* Store a state under the generation of a handle; the caller owns the slot, and the handle is its. */
void nx_slot_show(nx_slot *slot, uint64_t handle, nxmem_slot_state state);

/* The same; the handle is looked up. */
void nx_slot_set(nx_slot *slot, nxmem_slot_state state);

#endif /* NX_SLOTS_H */
