/*
 * life_test.c: the lives of allocators and allocations of the honest plugins, alone and on threads.
 *
 * Attackers played: double frees, siblings' ids, references given back in any order, two threads at once.
 * Promise: after each story the module's books are at zero and it can be unloaded.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

typedef struct story {
  const char *name;
  void (*tell)(plugin *p, const NxmemAllocatorVtable *table);
} story;

static uint32_t try_again(const NxmemAllocatorVtable *table, const NxmemAllocation *allocation) {
  uint64_t unmapped = UINT64_MAX;
  const NxmemStatus status = table->deallocate(table->ctx, allocation, &unmapped);
  if (status.code != NXMEM_STATUS_OK) assert_int_equal(unmapped, UINT64_MAX);
  return status.code;
}

static void freed_twice(plugin *p, const NxmemAllocatorVtable *table) {
  const NxmemAllocation allocation = take(table, 1u, 64u, 16u);
  give_back(table, &allocation);
  assert_int_equal(try_again(table, &allocation), NXMEM_STATUS_UNKNOWN_ALLOCATION);
  assert_books(p, 1u, 0u);
}

/* The address may well come again under a new id; the old id stays gone. */
static void freed_under_an_old_id(plugin *p, const NxmemAllocatorVtable *table) {
  const NxmemAllocation first = take(table, 1u, 64u, 16u);
  give_back(table, &first);
  NxmemAllocation second = take(table, 2u, 64u, 16u);
  NxmemAllocation stale = second;
  stale.allocation_id = 1u;
  assert_int_equal(try_again(table, &stale), NXMEM_STATUS_UNKNOWN_ALLOCATION);
  assert_books(p, 1u, 1u);
  give_back(table, &second);
}

static void same_id_twice(plugin *p, const NxmemAllocatorVtable *table) {
  const NxmemAllocation allocation = take(table, 1u, 64u, 16u);
  const NxmemAllocRequest request = alloc_request(table, 1u, 32u, 16u);
  NxmemAllocResult result = alloc_result();
  assert_status(table->allocate(table->ctx, &request, &result), NXMEM_STATUS_INVALID_ARGUMENT);
  assert_null(result.ptr);
  assert_books(p, 1u, 1u);
  give_back(table, &allocation);
}

static void freed_through_a_sibling(plugin *p, const NxmemAllocatorVtable *table) {
  const NxmemAllocatorVtable *sibling = plugin_open(p);
  assert_int_equal(sibling->mechanism_id, table->mechanism_id);
  assert_ptr_not_equal(sibling->ctx, table->ctx);
  const NxmemAllocation allocation = take(table, 1u, 64u, 16u);
  assert_int_equal(try_again(sibling, &allocation), NXMEM_STATUS_UNKNOWN_ALLOCATION);
  assert_books(p, 2u, 1u);
  give_back(table, &allocation);
  sibling->release(sibling->ctx);
}

/* Two hosts number alike: one id in two allocators is two allocations. */
static void one_id_in_two_allocators(plugin *p, const NxmemAllocatorVtable *table) {
  const NxmemAllocatorVtable *sibling = plugin_open(p);
  const NxmemAllocation ours = take(table, 1u, 64u, 16u);
  const NxmemAllocation theirs = take(sibling, 1u, 128u, 16u);
  assert_books(p, 2u, 2u);
  give_back(table, &ours);
  give_back(sibling, &theirs);
  sibling->release(sibling->ctx);
}

static void retained_and_released(plugin *p, const NxmemAllocatorVtable *table) {
  table->retain(table->ctx);
  table->retain(table->ctx);
  table->release(table->ctx);
  table->release(table->ctx);
  assert_books(p, 1u, 0u);
  const NxmemAllocation allocation = take(table, 1u, 64u, 16u);
  give_back(table, &allocation);
}

static void references_to_nothing(plugin *p, const NxmemAllocatorVtable *table) {
  table->retain(NULL);
  table->release(NULL);
  assert_books(p, 1u, 0u);
}

static void opened_often(plugin *p, const NxmemAllocatorVtable *table) {
  const NxmemAllocatorVtable *others[32];
  (void)table;
  for (int i = 0; i < 32; i++) others[i] = plugin_open(p);
  assert_books(p, 33u, 0u);
  for (int i = 0; i < 32; i++) others[i]->release(others[i]->ctx);
  assert_books(p, 1u, 0u);
}

/* Every byte of each block is its own: overlapping blocks would show each other's numbers. */
static void many_at_once(plugin *p, const NxmemAllocatorVtable *table) {
  enum { MANY = 20000 };
  NxmemAllocation *blocks = calloc(MANY, sizeof *blocks);
  assert_non_null(blocks);
  for (uint32_t i = 0u; i < MANY; i++) {
    blocks[i] = take(table, (uint64_t)i << 32 | 7u, 8u + i % 57u, 8u);
    memcpy(blocks[i].ptr, &i, sizeof i);
  }
  assert_books(p, 1u, MANY);
  for (uint32_t i = 0u; i < MANY; i++) {
    assert_memory_equal(blocks[i].ptr, &i, sizeof i);
    give_back(table, &blocks[i]);
  }
  free(blocks);
}

/* A host that never gave a block back: the module must say so even after the allocator is gone. */
static const NxmemAllocatorVtable *kept_table[2]; /* reachable, so that a leak checker sees what was left on purpose */
static NxmemAllocation kept_block[2];

static void released_with_a_live_block(plugin *p, const NxmemAllocatorVtable *table) {
  const NxmemAllocatorVtable *other = plugin_open(p);
  const int at = kept_table[0] == NULL ? 0 : 1;
  (void)table;
  kept_table[at] = other;
  kept_block[at] = take(other, 1u, 64u, 16u);
  other->release(other->ctx);
  assert_books(p, 1u, 1u);
  memset(kept_block[at].ptr, 0x5A, kept_block[at].bytes); /* still the host's to use */
}

/* ---- Threads ---------------------------------------------------------------------------------------------------- */

enum { PAIRS = 10000, WINDOW = 8 };

typedef struct worker {
  const plugin *p;
  const NxmemAllocatorVtable *table;
  uint64_t first_id;
  uint32_t failures; /* cmocka's asserts belong to the main thread */
} worker;

static uint32_t allocate_on_thread(worker *w, uint64_t id, NxmemAllocation *out) {
  const NxmemAllocRequest request = alloc_request(w->table, id, 16u + id % 300u, 16u);
  NxmemAllocResult result = alloc_result();
  if (w->table->allocate(w->table->ctx, &request, &result).code != NXMEM_STATUS_OK) return 1u;
  *out = allocation_of(&request, &result);
  memcpy(out->ptr, &id, sizeof id);
  return 0u;
}

static uint32_t deallocate_on_thread(const worker *w, const NxmemAllocation *allocation) {
  uint64_t unmapped = 0u;
  const int intact = memcmp(allocation->ptr, &allocation->allocation_id, sizeof allocation->allocation_id) == 0;
  const uint32_t code = w->table->deallocate(w->table->ctx, allocation, &unmapped).code;
  return code == NXMEM_STATUS_OK && intact && unmapped >= allocation->bytes ? 0u : 1u;
}

static void *work(void *argument) {
  worker *w = argument;
  NxmemAllocation window[WINDOW];
  for (uint64_t i = 0u; i < PAIRS; i += WINDOW) {
    for (uint64_t k = 0u; k < WINDOW; k++) w->failures += allocate_on_thread(w, w->first_id + i + k, &window[k]);
    for (uint64_t k = 0u; k < WINDOW && w->failures == 0u; k++) w->failures += deallocate_on_thread(w, &window[k]);
    if (w->failures != 0u) return NULL;
  }
  return NULL;
}

static void two_threads(plugin *p, const NxmemAllocatorVtable *table) {
  worker workers[2] = {{p, table, 1u, 0u}, {p, table, 1ull << 32, 0u}};
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  for (int i = 0; i < 2; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  assert_int_equal(workers[0].failures, 0u);
  assert_int_equal(workers[1].failures, 0u);
  assert_books(p, 1u, 0u);
}

/* Both threads release the same blocks: each block goes once. */
enum { CONTESTED = 2000 };
typedef struct contest {
  const NxmemAllocatorVtable *table;
  const NxmemAllocation *blocks;
  pthread_barrier_t *start;
  uint32_t won;
  uint32_t lost;
} contest;

static void *contend(void *argument) {
  contest *c = argument;
  pthread_barrier_wait(c->start);
  for (int i = 0; i < CONTESTED; i++) {
    uint64_t unmapped = 0u;
    const uint32_t code = c->table->deallocate(c->table->ctx, &c->blocks[i], &unmapped).code;
    if (code == NXMEM_STATUS_OK) c->won++;
    if (code == NXMEM_STATUS_UNKNOWN_ALLOCATION) c->lost++;
  }
  return NULL;
}

static void same_blocks_on_two_threads(plugin *p, const NxmemAllocatorVtable *table) {
  static NxmemAllocation blocks[CONTESTED];
  pthread_barrier_t start;
  pthread_t threads[2];
  for (uint64_t i = 0u; i < CONTESTED; i++) blocks[i] = take(table, i, 32u, 16u);
  assert_int_equal(pthread_barrier_init(&start, NULL, 2u), 0);
  contest sides[2] = {{table, blocks, &start, 0u, 0u}, {table, blocks, &start, 0u, 0u}};
  for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, contend, &sides[i]), 0);
  for (int i = 0; i < 2; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  pthread_barrier_destroy(&start);
  assert_int_equal(sides[0].won + sides[1].won, CONTESTED);
  assert_int_equal(sides[0].lost + sides[1].lost, CONTESTED);
  assert_books(p, 1u, 0u);
}

/* ---- Rows ------------------------------------------------------------------------------------------------------- */

static const story stories[] = {
    {"an allocation freed twice", freed_twice},
    {"an allocation freed under an old id", freed_under_an_old_id},
    {"an id that is live already", same_id_twice},
    {"an allocation freed through a sibling", freed_through_a_sibling},
    {"one id in two allocators", one_id_in_two_allocators},
    {"references retained and released", retained_and_released},
    {"references of NULL", references_to_nothing},
    {"33 allocators of one factory", opened_often},
    {"20,000 allocations at once", many_at_once},
    {"two threads, 10,000 allocations each", two_threads},
    {"two threads release the same blocks", same_blocks_on_two_threads},
};

static void run_story(const subject *s, const void *data) {
  const story *row = data;
  plugin p;
  plugin_load(&p, s->file);
  plugin_find(&p, s->mechanism);
  const NxmemAllocatorVtable *table = plugin_open(&p);
  row->tell(&p, table);
  assert_books(&p, 1u, 0u);
  table->release(table->ctx);
  assert_books(&p, 0u, 0u);
  plugin_close(&p);
}

/* The one story that leaves something behind: its module stays loaded. It is told last. */
static const story left_behind[] = {{"an allocator released with a live block", released_with_a_live_block}};

static void run_left_behind(const subject *s, const void *data) {
  const story *row = data;
  plugin p;
  plugin_load(&p, s->file);
  plugin_find(&p, s->mechanism);
  const NxmemAllocatorVtable *table = plugin_open(&p);
  row->tell(&p, table);
  table->release(table->ctx);
  assert_books(&p, 0u, 1u);
  plugin_keep();
}

int main(void) {
  add_rows("life", stories, sizeof stories / sizeof stories[0], sizeof stories[0], run_story);
  add_rows("life", left_behind, 1u, sizeof left_behind[0], run_left_behind);
  return run_added("plugin lives");
}
