/*
 * index.c: is this address taken?
 *
 * Attackers: a plugin that hands out an address twice, inside, around or across another, from several threads at once.
 * Promise: of two ranges of one space that overlap at most one is in; one that is refused leaves nothing behind.
 *
 * Enter first, then look (index_cells.h). Short ranges look at longer ones only in tiers that the space ever used. Whoever uses a tier first says so, then passes
 * through all locks of the tiers below: a range that is in a cell by then is seen, and one that comes later sees that the tier is in use.
 */
#include "index.h"

#include "index_cells.h"
#include "index_pool.h"
#include "slots.h"

static uint32_t tier_of(nx_bytes range) {
  uint32_t tier = 0u;
  while (tier < NX_TIERS - 1u && range.last - range.first >= 1ull << nx_tier_shift(tier)) tier++;
  return tier;
}

static nx_put put_part(nx_space *space, uint32_t tier, uint64_t cell, nx_bytes range, uint32_t *tiers,
                       nx_bytes *other) {
  if (tier == 0u) return nx_small_put(space, cell, nx_span_in(cell, range), tiers, other);
  return nx_wide_put(space, tier, cell, range, tiers, other);
}

static void drop_part(nx_space *space, uint32_t tier, uint64_t cell, nx_bytes range) {
  if (tier == 0u)
    nx_small_drop(space, cell, nx_span_in(cell, range));
  else
    nx_wide_drop(space, tier, cell, range);
}

static void drop_all(nx_space *space, uint32_t tier, nx_bytes range) {
  const uint64_t low = nx_cell_of(tier, range.first), high = nx_cell_of(tier, range.last);
  drop_part(space, tier, low, range);
  if (high != low) drop_part(space, tier, high, range);
}

static nx_put put_all(nx_space *space, uint32_t tier, nx_bytes range, uint32_t *tiers, nx_bytes *other) {
  const uint64_t low = nx_cell_of(tier, range.first), high = nx_cell_of(tier, range.last);
  nx_put put = put_part(space, tier, low, range, tiers, other);
  if (put != NX_PUT_DONE || high == low) return put;
  put = put_part(space, tier, high, range, tiers, other);
  if (put != NX_PUT_DONE) drop_part(space, tier, low, range);
  return put;
}

static void note_tier(nx_space *space, uint32_t tier) {
  const uint32_t bit = 1u << tier;
  if (tier == 0u || (atomic_load(&space->tiers) & bit) != 0u) return;
  atomic_fetch_or(&space->tiers, bit);
  nx_small_pass_all();
  nx_wide_pass_all(tier);
}

/* ---- The other tiers ------------------------------------------------------------------------------------------------ */

static int meets_above(nx_space *space, uint32_t tier, uint32_t tiers, nx_bytes range, nx_bytes *other) {
  for (uint32_t t = tier + 1u; t < NX_TIERS; t++) {
    if ((tiers & 1u << t) == 0u) continue;
    const uint64_t low = nx_cell_of(t, range.first), high = nx_cell_of(t, range.last);
    if (nx_wide_meets(space, t, low, range, other)) return 1;
    if (high != low && nx_wide_meets(space, t, high, range, other)) return 1;
  }
  return 0;
}

static int meets_below(nx_space *space, uint32_t tier, uint64_t cell, nx_bytes range, nx_bytes *other);

static int child_meets(nx_space *space, uint32_t tier, uint64_t cell, nx_bytes range, nx_bytes *other) {
  if (tier == 0u) return nx_small_meets(space, cell, nx_span_in(cell, range), other);
  return nx_wide_meets(space, tier, cell, range, other) || meets_below(space, tier, cell, range, other);
}

/* Through the cells that there are below one, as far as the range reaches. Empty ones among them are few: index_small.c, index_wide.c. */
static int meets_below(nx_space *space, uint32_t tier, uint64_t cell, nx_bytes range, nx_bytes *other) {
  uint64_t children[NX_FAN_OUT / 64];
  nx_wide_children(space, tier, cell, children);
  const uint64_t base = tier == NX_TIERS - 1u ? 0u : cell * NX_FAN_OUT;
  const uint64_t low = nx_cell_of(tier - 1u, range.first), high = nx_cell_of(tier - 1u, range.last);
  for (uint32_t word = 0; word < NX_FAN_OUT / 64; word++) {
    for (uint64_t bits = children[word]; bits != 0u; bits &= bits - 1u) {
      const uint64_t child = base + 64u * word + (uint32_t)__builtin_ctzll(bits);
      if (child < low || child > high) continue;
      if (child_meets(space, tier - 1u, child, range, other)) return 1;
    }
  }
  return 0;
}

static int meets_all_below(nx_space *space, uint32_t tier, nx_bytes range, nx_bytes *other) {
  if (tier == 0u) return 0;
  const uint64_t low = nx_cell_of(tier, range.first), high = nx_cell_of(tier, range.last);
  if (meets_below(space, tier, low, range, other)) return 1;
  return high != low && meets_below(space, tier, high, range, other);
}

/* ---- Entering ------------------------------------------------------------------------------------------------------- */

/* Entered before looked, to all who do the same. `tiers`: those in use when it was entered. */
static NX_APART nx_put look_around(nx_space *space, uint32_t tier, uint32_t tiers, nx_bytes range, nx_bytes *other) {
  atomic_thread_fence(memory_order_seq_cst);
  if (!meets_above(space, tier, tiers, range, other) && !meets_all_below(space, tier, range, other)) return NX_PUT_DONE;
  drop_all(space, tier, range);
  return NX_PUT_TAKEN;
}

static NX_ALONE nx_put put_in_any(nx_space *space, nx_bytes range, nx_bytes *other) {
  const uint32_t tier = tier_of(range);
  uint32_t tiers = 0u;
  note_tier(space, tier);
  const nx_put put = put_all(space, tier, range, &tiers, other);
  if (put != NX_PUT_DONE || (tier == 0u && tiers == 0u)) return put;
  return look_around(space, tier, tiers, range, other);
}

static NX_ALONE void drop_in_any(nx_space *space, nx_bytes range) { drop_all(space, tier_of(range), range); }

/* In one cell of tier 0, which is where most are. */
static nx_put put_in_one(nx_space *space, nx_bytes range, nx_bytes *other) {
  uint32_t tiers = 0u;
  const nx_put put = nx_small_put(space, nx_cell_of(0u, range.first), nx_span_whole(range), &tiers, other);
  return put != NX_PUT_DONE || tiers == 0u ? put : look_around(space, 0u, tiers, range, other);
}

static int is_in_one(nx_bytes range) { return nx_cell_of(0u, range.first) == nx_cell_of(0u, range.last); }

NX_HOT NX_ALONE nx_put nx_index_put(nx_space *space, uint64_t first, uint64_t bytes, uint64_t *other_first,
                                    uint64_t *other_bytes) {
  const nx_bytes range = {first, first + (bytes - 1u)};
  nx_bytes other = {0u, 0u};
  const nx_put put = is_in_one(range) ? put_in_one(space, range, &other) : put_in_any(space, range, &other);
  if (put != NX_PUT_TAKEN) return put;
  *other_first = other.first;
  *other_bytes = other.last - other.first + 1u;
  return put;
}

NX_HOT NX_ALONE void nx_index_drop(nx_space *space, uint64_t first, uint64_t bytes) {
  const nx_bytes range = {first, first + (bytes - 1u)};
  if (is_in_one(range))
    nx_small_drop(space, nx_cell_of(0u, first), nx_span_whole(range));
  else
    drop_in_any(space, range);
}

static uint64_t nodes_of(const nx_pool *pool) { return atomic_load(&pool->count); }
static uint64_t unused_of(const nx_pool *pool) { return atomic_load(&pool->unused); }

uint64_t nx_index_bytes(void) {
  return nx_shard_bytes() + NX_NODE_BYTES * (nodes_of(&nx_small_pool) + nodes_of(&nx_wide_pool));
}

uint64_t nx_index_used_bytes(void) {
  return nx_index_bytes() - NX_NODE_BYTES * (unused_of(&nx_small_pool) + unused_of(&nx_wide_pool));
}
