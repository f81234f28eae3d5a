/*
 * spans.c: the free spans of an arena: a tree by address, each node with the most that its subtree can hold.
 *
 * Attackers: sizes and alignments near 2^64; spans given back twice.
 * Promise: a span taken lies in one that was free, as low as there is one that surely holds it; neighbours are always joined; giving back never needs memory;
 * every operation costs the logarithm of the number of free spans.
 *
 * A treap: a search tree by address, a heap by random priorities, so that no order of calls makes it deep. What decides is in nxmem/place.h.
 */
#include "spans.h"

#include <stdlib.h>

struct nx_span_node {
  nx_span_node *left, *right;
  uint64_t first, bytes;
  uint64_t whole;            /* bytes of the whole granules in it */
  uint64_t most, most_whole; /* the largest of each in the subtree */
  uint64_t priority;
};

/* ---- Nodes ------------------------------------------------------------------------------------------------------- */

static uint64_t higher(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* `taken` spans leave at most one free span more between them, and a cut makes two of one. */
static int provide(nx_spans *spans, uint64_t taken) {
  while (spans->nodes < taken + 2u) {
    nx_span_node *node = malloc(sizeof *node);
    if (node == NULL) return 0;
    node->left = spans->spare;
    spans->spare = node;
    spans->nodes++;
  }
  return 1;
}

static void retire(nx_spans *spans, nx_span_node *node) {
  node->left = spans->spare;
  spans->spare = node;
}

static void refresh(nx_span_node *node) {
  node->most = node->bytes;
  node->most_whole = node->whole;
  if (node->left != NULL) {
    node->most = higher(node->most, node->left->most);
    node->most_whole = higher(node->most_whole, node->left->most_whole);
  }
  if (node->right != NULL) {
    node->most = higher(node->most, node->right->most);
    node->most_whole = higher(node->most_whole, node->right->most_whole);
  }
}

/*
 * nxmem_granules_whole() in bytes, for a granule that is a power of two and a span inside an arena that begins and ends with a granule. It is a key to search by and
 * decides nothing; with divisions it is what a small block costs most.
 */
uint64_t nx_spans_key(uint64_t first, uint64_t bytes, uint64_t granule) {
  const uint64_t begin = (first + (granule - 1u)) & ~(granule - 1u), end = (first + bytes) & ~(granule - 1u);
  return end > begin ? end - begin : 0u;
}

static void set_span(const nx_spans *spans, nx_span_node *node, uint64_t first, uint64_t bytes) {
  node->first = first;
  node->bytes = bytes;
  node->whole = nx_spans_key(first, bytes, spans->granule);
}

/* ---- The tree ---------------------------------------------------------------------------------------------------- */

/* Every node on the way to `first` is made true again; the nodes' order has not changed. */
static void refresh_way(nx_span_node *node, uint64_t first) {
  if (first < node->first) refresh_way(node->left, first);
  if (first > node->first) refresh_way(node->right, first);
  refresh(node);
}

static void split(nx_span_node *node, uint64_t first, nx_span_node **below, nx_span_node **above) {
  if (node == NULL) {
    *below = NULL;
    *above = NULL;
    return;
  }
  if (node->first < first) {
    split(node->right, first, &node->right, above);
    *below = node;
  } else {
    split(node->left, first, below, &node->left);
    *above = node;
  }
  refresh(node);
}

static nx_span_node *insert(nx_span_node *node, nx_span_node *fresh) {
  if (node == NULL || node->priority < fresh->priority) {
    split(node, fresh->first, &fresh->left, &fresh->right);
    refresh(fresh);
    return fresh;
  }
  if (fresh->first < node->first)
    node->left = insert(node->left, fresh);
  else
    node->right = insert(node->right, fresh);
  refresh(node);
  return node;
}

static nx_span_node *join(nx_span_node *below, nx_span_node *above) {
  if (below == NULL) return above;
  if (above == NULL) return below;
  nx_span_node *top = below->priority > above->priority ? below : above;
  if (top == below)
    below->right = join(below->right, above);
  else
    above->left = join(below, above->left);
  refresh(top);
  return top;
}

static nx_span_node *without(nx_span_node *node, uint64_t first) {
  if (node->first == first) return join(node->left, node->right);
  if (first < node->first)
    node->left = without(node->left, first);
  else
    node->right = without(node->right, first);
  refresh(node);
  return node;
}

/* xorshift64*: any number but 0 begins a cycle of all of them. */
static uint64_t next_priority(nx_spans *spans) {
  spans->seed ^= spans->seed >> 12;
  spans->seed ^= spans->seed << 25;
  spans->seed ^= spans->seed >> 27;
  return spans->seed * 0x2545F4914F6CDD1Dull;
}

/* A node is there, by provide(). */
static void add_span(nx_spans *spans, uint64_t first, uint64_t bytes) {
  nx_span_node *node = spans->spare;
  if (node == NULL) return; /* a span that nobody can be told of is not free: safe, and never so by provide() */
  spans->spare = node->left;
  set_span(spans, node, first, bytes);
  node->priority = next_priority(spans);
  spans->root = insert(spans->root, node);
}

static void remove_span(nx_spans *spans, nx_span_node *node) {
  spans->root = without(spans->root, node->first);
  retire(spans, node);
}

/* Its new place lies between the same neighbours. */
static void change_span(nx_spans *spans, nx_span_node *node, uint64_t first, uint64_t bytes) {
  set_span(spans, node, first, bytes);
  refresh_way(spans->root, first);
}

/* The free spans next to an address: the last that begins at it or below, the first that begins above. */
static void neighbours(const nx_spans *spans, uint64_t address, nx_span_node **below, nx_span_node **above) {
  *below = NULL;
  *above = NULL;
  for (nx_span_node *node = spans->root; node != NULL;) {
    if (node->first <= address) {
      *below = node;
      node = node->right;
    } else {
      *above = node;
      node = node->left;
    }
  }
}

/* ---- Taking ------------------------------------------------------------------------------------------------------ */

/* What a span must have at least, in bytes or in bytes of whole granules, to hold a block. */
typedef struct demand {
  uint64_t bytes;
  int whole;
} demand;

/* Both numbers are at most the arena's, so nothing wraps. */
static demand demand_of(const nx_spans *spans, const nxmem_block *block) {
  if (block->align <= NX_UNIT) return (demand){block->bytes, 0};
  if (block->align < spans->granule) return (demand){block->bytes + (block->align - NX_UNIT), 0};
  if (block->bytes % spans->granule == 0u) return (demand){block->bytes + (block->align - spans->granule), 1};
  return (demand){block->bytes + (block->align - NX_UNIT), 0};
}

static int holds(uint64_t bytes, uint64_t whole, demand wanted) {
  return (wanted.whole ? whole : bytes) >= wanted.bytes;
}
static int subtree_holds(const nx_span_node *node, demand wanted) {
  return node != NULL && holds(node->most, node->most_whole, wanted);
}

static nx_span_node *lowest_that_holds(nx_span_node *node, demand wanted) {
  if (!subtree_holds(node, wanted)) return NULL;
  for (;;) {
    if (subtree_holds(node->left, wanted))
      node = node->left;
    else if (holds(node->bytes, node->whole, wanted))
      return node;
    else
      node = node->right;
  }
}

static void cut(nx_spans *spans, nx_span_node *node, uint64_t first, uint64_t bytes) {
  nxmem_free_span before, behind;
  nxmem_place_cut(node->first, node->bytes, first, bytes, &before, &behind);
  if (before.bytes != 0u) {
    change_span(spans, node, before.first, before.bytes);
    if (behind.bytes != 0u) add_span(spans, behind.first, behind.bytes);
  } else if (behind.bytes != 0u) {
    change_span(spans, node, behind.first, behind.bytes);
  } else {
    remove_span(spans, node);
  }
}

int nx_spans_take(nx_spans *spans, const nxmem_block *block, uint64_t *first_out) {
  if (block->bytes > spans->arena.bytes || block->align > spans->arena.bytes) return 0;
  nx_span_node *node = lowest_that_holds(spans->root, demand_of(spans, block));
  if (node == NULL || !nxmem_place_fit(node->first, node->bytes, block->bytes, block->align, first_out)) return 0;
  if (!provide(spans, spans->taken + 1u)) return 0;
  cut(spans, node, *first_out, block->bytes);
  spans->taken++;
  return 1;
}

/* ---- Giving back ------------------------------------------------------------------------------------------------- */

static nxmem_free_span span_of(const nx_span_node *node) {
  return node == NULL ? (nxmem_free_span){0u, 0u} : (nxmem_free_span){node->first, node->bytes};
}

static int may_give(const nx_spans *spans, uint64_t first, uint64_t bytes, const nx_span_node *below,
                    const nx_span_node *above) {
  const nxmem_free_span span = {first, bytes}, under = span_of(below), over = span_of(above);
  return nxmem_place_check_back(&spans->arena, &span, &under, &over).reason == NXMEM_REASON_NONE;
}

int nx_spans_give(nx_spans *spans, uint64_t first, uint64_t bytes) {
  nx_span_node *below, *above;
  neighbours(spans, first, &below, &above);
  if (!may_give(spans, first, bytes, below, above)) return 0;
  const int joins_below = below != NULL && nxmem_place_joins(below->first, below->bytes, first);
  const int joins_above = above != NULL && nxmem_place_joins(first, bytes, above->first);
  spans->taken--;
  if (joins_below) {
    const uint64_t more = joins_above ? above->bytes : 0u;
    if (joins_above) remove_span(spans, above);
    change_span(spans, below, below->first, below->bytes + bytes + more);
  } else if (joins_above) {
    change_span(spans, above, first, bytes + above->bytes);
  } else {
    add_span(spans, first, bytes);
  }
  return 1;
}

/* The free part of [first, first + bytes) that lies highest; 0: there is none. */
static int free_part(const nx_spans *spans, uint64_t first, uint64_t bytes, nx_span_node **node,
                     nxmem_free_span *part) {
  nx_span_node *above;
  neighbours(spans, first + (bytes - 1u), node, &above);
  if (*node == NULL || !nxmem_ranges_overlap((*node)->first, (*node)->bytes, first, bytes)) return 0;
  const uint64_t last = (*node)->first + ((*node)->bytes - 1u), end = first + (bytes - 1u);
  part->first = higher((*node)->first, first);
  part->bytes = (last < end ? last : end) - part->first + 1u;
  return 1;
}

/* Without memory for one more node, what lies behind the part is withdrawn with it. */
void nx_spans_withdraw(nx_spans *spans, uint64_t first, uint64_t bytes) {
  nx_span_node *node;
  nxmem_free_span part;
  while (free_part(spans, first, bytes, &node, &part)) {
    (void)provide(spans, spans->taken + 1u);
    cut(spans, node, part.first, part.bytes);
    spans->taken++;
  }
}

/* ---- Life -------------------------------------------------------------------------------------------------------- */

int nx_spans_open(nx_spans *spans, uint64_t first, uint64_t bytes, uint64_t granule) {
  *spans = (nx_spans){.arena = {first, bytes}, .granule = granule, .seed = 0x9E3779B97F4A7C15ull};
  if (!provide(spans, 0u)) {
    nx_spans_close(spans);
    return 0;
  }
  add_span(spans, first, bytes);
  return 1;
}

static void discard(nx_span_node *node) {
  if (node == NULL) return;
  discard(node->left);
  discard(node->right);
  free(node);
}

void nx_spans_close(nx_spans *spans) {
  discard(spans->root);
  while (spans->spare != NULL) {
    nx_span_node *node = spans->spare;
    spans->spare = node->left;
    free(node);
  }
  spans->root = NULL;
  spans->nodes = 0u;
}

static uint64_t sum(const nx_span_node *node, int bytes) {
  return node == NULL ? 0u : sum(node->left, bytes) + sum(node->right, bytes) + (bytes ? node->bytes : 1u);
}

uint64_t nx_spans_most(const nx_spans *spans) { return spans->root == NULL ? 0u : spans->root->most; }
uint64_t nx_spans_free_bytes(const nx_spans *spans) { return sum(spans->root, 1); }
uint64_t nx_spans_count(const nx_spans *spans) { return sum(spans->root, 0); }
