/*
 * blocks.c: live blocks by address.
 *
 * Attackers: a caller that frees any pointer, twice, from several threads at once.
 * Promise: of several takers of one block one gets it; a pointer is compared, never followed.
 */
#include "blocks.h"

#include <pthread.h>
#include <stddef.h>

/* Each part has its lock, a leaf. Chains stay short up to some millions of blocks. */
enum { PARTS = 64, CHAINS = 1024 };

typedef struct part {
  pthread_mutex_t lock;
  nx_torch_block *chains[CHAINS];
} part;

static part parts[PARTS];

void nx_torch_blocks_begin(void) {
  for (size_t i = 0; i < PARTS; i++) (void)pthread_mutex_init(&parts[i].lock, NULL);
}

/* An odd constant of 64-bit Weyl sequences spreads the bits that an alignment leaves. */
static uint64_t spread(const void *ptr) {
  const uint64_t mixed = (uint64_t)(uintptr_t)ptr * 0x9E3779B97F4A7C15u;
  return mixed >> 32;
}

static part *part_of(const void *ptr) { return &parts[spread(ptr) % PARTS]; }

/* The link that leads to the block of this address, or to NULL at the end of its chain. The part's lock is held. */
static nx_torch_block **find(part *p, const void *ptr) {
  nx_torch_block **link = &p->chains[spread(ptr) / PARTS % CHAINS];
  while (*link != NULL && (*link)->allocation.ptr != ptr) link = &(*link)->next;
  return link;
}

int nx_torch_blocks_add(nx_torch_block *block) {
  part *p = part_of(block->allocation.ptr);
  pthread_mutex_lock(&p->lock);
  nx_torch_block **link = find(p, block->allocation.ptr);
  const int is_free = *link == NULL;
  if (is_free) {
    block->next = NULL;
    *link = block;
  }
  pthread_mutex_unlock(&p->lock);
  return is_free;
}

nx_torch_take nx_torch_blocks_take(const void *ptr, uint64_t bytes, int device, nx_torch_block **taken,
                                   nx_torch_block *out) {
  part *p = part_of(ptr);
  nx_torch_take result = NX_TORCH_NOT_LIVE;
  pthread_mutex_lock(&p->lock);
  nx_torch_block **link = find(p, ptr);
  nx_torch_block *block = *link;
  if (block != NULL && (block->bytes != bytes || block->device != device)) {
    *out = *block;
    result = NX_TORCH_DIFFERS;
  } else if (block != NULL) {
    *link = block->next;
    *taken = block;
    result = NX_TORCH_TAKEN;
  }
  pthread_mutex_unlock(&p->lock);
  return result;
}

int nx_torch_blocks_device(const void *ptr) {
  part *p = part_of(ptr);
  pthread_mutex_lock(&p->lock);
  const nx_torch_block *block = *find(p, ptr);
  const int device = block == NULL ? -1 : block->device;
  pthread_mutex_unlock(&p->lock);
  return device;
}
