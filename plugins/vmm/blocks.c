/*
 * blocks.c: records of what was handed out, found by id, never by looking in front of an address.
 *
 * Attackers: ids that are stale, foreign or made up.
 * Promise: an id that is unknown is answered without touching any memory but our own; finding costs the same however many blocks are live.
 */
#include <stdlib.h>

#include "engine.h"

enum { FIRST_CHAINS = 64 };

/* Ids are the host's and may be consecutive; multiplying spreads them over the upper bits. */
static nx_block **chain_of(const nx_blocks *blocks, uint64_t id) {
  return &blocks->chains[((id * 0x9E3779B97F4A7C15ull) >> 32) & (blocks->chain_count - 1u)];
}

/* Where memory is short, long chains serve. */
static void grow(nx_blocks *blocks) {
  const uint64_t old_count = blocks->chain_count;
  nx_block **old = blocks->chains;
  const uint64_t count = old_count == 0u ? FIRST_CHAINS : old_count * 2u;
  nx_block **wider = calloc(count, sizeof *wider);
  if (wider == NULL) return;
  blocks->chains = wider;
  blocks->chain_count = count;
  for (uint64_t i = 0u; i < old_count; i++) {
    for (nx_block *block = old[i], *next; block != NULL; block = next) {
      nx_block **chain = chain_of(blocks, block->id);
      next = block->next;
      block->next = *chain;
      *chain = block;
    }
  }
  free(old);
}

nx_block *nx_blocks_find(const nx_blocks *blocks, uint64_t id) {
  if (blocks->chain_count == 0u) return NULL;
  for (nx_block *block = *chain_of(blocks, id); block != NULL; block = block->next)
    if (block->id == id) return block;
  return NULL;
}

nx_block *nx_blocks_new(nx_blocks *blocks) {
  nx_block *block = blocks->spare;
  if (block == NULL) return calloc(1u, sizeof *block);
  blocks->spare = block->next;
  *block = (nx_block){0};
  return block;
}

void nx_blocks_spare(nx_blocks *blocks, nx_block *block) {
  block->next = blocks->spare;
  blocks->spare = block;
}

int nx_blocks_add(nx_blocks *blocks, nx_block *block) {
  if (blocks->count >= blocks->chain_count) grow(blocks);
  if (blocks->chain_count == 0u) return 0;
  nx_block **chain = chain_of(blocks, block->id);
  block->next = *chain;
  *chain = block;
  blocks->count++;
  return 1;
}

void nx_blocks_remove(nx_blocks *blocks, nx_block *block) {
  nx_block **link = chain_of(blocks, block->id);
  while (*link != block) link = &(*link)->next;
  *link = block->next;
  blocks->count--;
}

static void discard(nx_block *block) {
  for (nx_block *next; block != NULL; block = next) {
    next = block->next;
    for (nx_view *view = block->views, *other; view != NULL; view = other) {
      other = view->next;
      free(view);
    }
    free(block);
  }
}

void nx_blocks_close(nx_blocks *blocks) {
  for (uint64_t i = 0u; i < blocks->chain_count; i++) discard(blocks->chains[i]);
  for (nx_block *block = blocks->spare, *next; block != NULL; block = next) {
    next = block->next;
    free(block);
  }
  free(blocks->chains);
  *blocks = (nx_blocks){0};
}
