/*
 * puppet_backing.h: the puppet's virtual backing and shared mapping: honest until a row changes what it says.
 *
 * Attackers: the rows.
 * Promise: which granules are mapped is known exactly, so that the host's books can be compared with it.
 */
#ifndef TESTS_HOST_PUPPET_BACKING_H
#define TESTS_HOST_PUPPET_BACKING_H

#include <pthread.h>

#include "puppet.h"

enum { NX_PLAY_GRANULE = 4096, NX_PLAY_BLOCKS = 256, NX_PLAY_MOST = 64 * NX_PLAY_GRANULE };

typedef enum nx_play_slot {
  NX_PLAY_ALLOCATE,
  NX_PLAY_COMMIT,
  NX_PLAY_DECOMMIT,
  NX_PLAY_COST,
  NX_PLAY_COST_OF_ALLOCATION,
  NX_PLAY_COMMITTED,
  NX_PLAY_CREATE,
  NX_PLAY_RETAIN,
  NX_PLAY_RELEASE_PREFIX,
  NX_PLAY_INCREMENTAL,
  NX_PLAY_SHARE,
  NX_PLAY_RELEASE, /* of an allocation */
  NX_PLAY_SLOTS
} nx_play_slot;

/* What a slot that answers with one number says instead of the truth. */
typedef struct nx_play_number {
  uint32_t code;
  int own; /* `value` */
  uint64_t value;
  int leave; /* nothing is written */
} nx_play_number;

typedef struct nx_play_block {
  uint64_t id;
  uint64_t mask; /* granules mapped */
} nx_play_block;

typedef struct nx_play {
  /* Called first thing in every slot; NULL: nothing. */
  void (*inside)(nx_play_slot slot);

  nx_play_number cost, cost_of_allocation, committed, incremental;
  nx_play_number unmapped; /* of a decommit */
  uint32_t commit_code;    /* nothing is mapped */
  int half_commit;         /* with a failing code: the first granule is */

  uint32_t create_code;
  int leave_handle;
  void (*spoil_handle)(NxmemSharedPrefixHandle *handle);
  uint32_t retain_code;
  uint32_t release_prefix_code;

  uint32_t share_code;
  uint64_t share_fails_at; /* the commit of that number, from 1 on, answers share_code; 0: none */
  void (*spoil_info)(NxmemSharedPrefixCommitInfo *info);
  uint64_t info_spoilt_at; /* as share_fails_at */
  uint32_t release_code;   /* of an allocation: it stays */

  /* What the host asked last. */
  NxmemAllocRequest request;
  NxmemRangeRequest range;
  uint64_t range_count;
  NxmemSharedPrefixCommitRequest share;
  NxmemSharedPrefixHandle handle;

  pthread_mutex_t lock;
  nx_play_block blocks[NX_PLAY_BLOCKS];
  uint64_t prefix_references;
  uint64_t prefix_number;
  _Atomic uint64_t calls[NX_PLAY_SLOTS];
} nx_play;

extern nx_play play;

/* nx_puppet_reset(), then both capabilities on. The next open publishes them. */
void nx_play_reset(void);

uint64_t nx_play_calls(nx_play_slot slot);

/* Bytes mapped in all blocks. */
uint64_t nx_play_mapped(void);

/* What the allocator is charged with. */
uint64_t nx_charged(nxmem_allocator allocator);

/* Reserve, with these granules committed (a bit each). */
nxmem_allocation nx_must_reserve(nxmem_allocator allocator, uint64_t bytes, uint64_t granules);

#endif /* TESTS_HOST_PUPPET_BACKING_H */
