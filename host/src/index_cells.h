/*
 * Cells of the index: tier 0 holds ranges of up to 1 KiB in cells of 1 KiB, each tier above ranges and cells 256 times as long. Private to the host.
 *
 * A range stands in each cell of its tier that it touches: one, or two. A cell above tier 0 also knows which cells below it there are. Whoever adds a range adds it
 * first and then looks for others in the other tiers, so that of two that overlap at least one sees the other.
 */
#ifndef NX_INDEX_CELLS_H
#define NX_INDEX_CELLS_H

#include "index.h"
#include "index_pool.h"
#include "index_shard.h"
#include "nxmem/overlap.h"

enum { NX_TIERS = 8, NX_FAN_OUT = 256, NX_TIER_0_SHIFT = 10, NX_SMALL_SHARDS = 1024, NX_WIDE_SHARDS = 64 };

/* From the first to the last byte: there is always one, and the last may be 2^64 - 1. */
typedef struct nx_bytes {
  uint64_t first;
  uint64_t last;
} nx_bytes;

/* Bytes of a cell of a tier as a power of two; the highest tier has one cell for all. */
static inline uint32_t nx_tier_shift(uint32_t tier) { return NX_TIER_0_SHIFT + 8u * tier; }
static inline uint64_t nx_cell_of(uint32_t tier, uint64_t address) {
  return tier == NX_TIERS - 1u ? 0u : address >> nx_tier_shift(tier);
}

/* As the core takes it: a range's part in a cell of tier 0, offsets in the cell. Of one that lies in it whole the second. */
uint32_t nx_span_in(uint64_t cell, nx_bytes range);
static inline uint32_t nx_span_whole(nx_bytes range) {
  const uint32_t mask = (1u << NX_TIER_0_SHIFT) - 1u;
  return nxmem_span_make((uint32_t)range.first & mask, (uint32_t)range.last & mask);
}

/* Put a range's part into one cell. *tiers gains the tiers in use, read while the cell is locked; *other is what is there already. */
nx_put nx_small_put(nx_space *space, uint64_t cell, uint32_t span, uint32_t *tiers, nx_bytes *other);
nx_put nx_wide_put(nx_space *space, uint32_t tier, uint64_t cell, nx_bytes range, uint32_t *tiers, nx_bytes *other);

/* Take it out again; it is there. */
void nx_small_drop(nx_space *space, uint64_t cell, uint32_t span);
void nx_wide_drop(nx_space *space, uint32_t tier, uint64_t cell, nx_bytes range);

/* 1 where a range in that cell overlaps. */
int nx_small_meets(nx_space *space, uint64_t cell, uint32_t span, nx_bytes *other);
int nx_wide_meets(nx_space *space, uint32_t tier, uint64_t cell, nx_bytes range, nx_bytes *other);

/* Which cells there are below a cell: bit b of word w stands for cell 64 w + b of its 256. */
void nx_wide_children(nx_space *space, uint32_t tier, uint64_t cell, uint64_t out[4]);

/* A cell of the tier below has come to be (0: no memory), or is gone. The caller holds its shard's lock: locks are taken upwards. */
int nx_wide_mark(uint32_t space, uint32_t tier, uint64_t child);
void nx_wide_unmark(uint32_t space, uint32_t tier, uint64_t child);

/* Whoever held a lock of a lower tier holds it no more, and sees what was written before. */
void nx_small_pass_all(void);
void nx_wide_pass_all(uint32_t below_tier);

/* The pools that their nodes are from. */
extern nx_pool nx_small_pool;
extern nx_pool nx_wide_pool;

/* Where their cells stand, by the highest bits of a hash; of the wide ones a row for each tier from 1 on. */
extern nx_shard nx_small_shards[NX_SMALL_SHARDS];
extern nx_shard nx_wide_shards[NX_TIERS - 1][NX_WIDE_SHARDS];
extern const nx_chain nx_small_chain;
extern const nx_chain nx_wide_chain;

static inline nx_shard *nx_small_shard(uint64_t hash) { return &nx_small_shards[hash >> 54]; }
static inline nx_shard *nx_wide_shard(uint32_t tier, uint64_t hash) { return &nx_wide_shards[tier - 1u][hash >> 58]; }

#endif /* NX_INDEX_CELLS_H */
