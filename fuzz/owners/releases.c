/*
 * releases.c: releases that own what they release: at once, prepared, executed, abandoned, queued.
 * Attackers: records that are not what was allocated; queues that are full or close; losses on each edge between two steps.
 * Promise: the record goes once; what is not given back is kept under its reason.
 */
#include "owners.h"

/* What a caller names: mostly what was allocated. */
static nxmem_bound name(const life_record *op, uint8_t block) {
  nxmem_bound named = own.blocks[block].bound;
  switch (op->d & 31u) {
    case 27:
      named.binding = own.bindings[op->x % OWN_BINDINGS].handle;
      break;
    case 28:
      named.bytes = op->y;
      break;
    case 29:
      named.align = op->y;
      break;
    case 30:
      named.ptr = (void *)(uintptr_t)op->y;
      break;
    case 31:
      named.id = op->y;
      break;
    default:
      break;
  }
  return named;
}

static int is_retained(const own_block *b) {
  return b->keeping == NXMEM_KEPT_DEVICE_LOST || b->keeping == NXMEM_KEPT_TERMINATED;
}

static nxmem_result of_dead(const own_block *b) {
  if (b->state != OWN_KEPT && b->state != OWN_FORGOTTEN) return NXMEM_ERR_UNKNOWN_ALLOCATION;
  if (!is_retained(b)) return NXMEM_ERR_UNKNOWN_ALLOCATION;
  return b->keeping == NXMEM_KEPT_DEVICE_LOST ? NXMEM_ERR_DEVICE_LOST : NXMEM_ERR_TERMINATED;
}

/* One that is being released is looked at as one that is owned, as far as nothing of its record is read. */
static nxmem_result of_owned(const own_block *b, const life_block *l, const nxmem_bound *n) {
  if (n->binding.id != b->bound.binding.id) return NXMEM_ERR_WRONG_OWNER;
  if (n->bytes == 0 || n->align == 0) return NXMEM_ERR_MISMATCH;
  if (b->state == OWN_RELEASING) return NXMEM_ERR_UNKNOWN_ALLOCATION;
  if (l->pins != 0) return NXMEM_ERR_BUSY;
  const int same = n->ptr == b->bound.ptr && n->bytes == b->bound.bytes && n->align == b->bound.align;
  return same ? NXMEM_OK : NXMEM_ERR_MISMATCH;
}

/* May it be claimed? Nothing has changed where not. *known 0: it may also be forgotten altogether. */
nxmem_result own_may_claim(uint8_t block, const nxmem_bound *named, int *known) {
  const own_block *b = &own.blocks[block];
  *known = b->state != OWN_FORGOTTEN;
  if (named->id != b->bound.id || b->bound.id == 0) return NXMEM_ERR_UNKNOWN_ALLOCATION;
  if (b->state == OWN_OWNED || b->state == OWN_RELEASING) return of_owned(b, &it.blocks[block], named);
  return of_dead(b);
}

/* One that somebody made up may be another's: then it is not used. */
static int is_anothers(uint8_t block, const nxmem_bound *named) {
  for (uint8_t i = 0; i < LIFE_BLOCKS; i++)
    if (i != block && own.blocks[i].bound.id == named->id) return 1;
  return 0;
}

static void same_claim(const char *what, nxmem_result found, nxmem_result expected, int known) {
  if (!known && found == NXMEM_ERR_UNKNOWN_ALLOCATION) return;
  own_result(what, found, expected);
}

static nxmem_result kept_or_gone(const own_block *b) {
  return b->keeping == NXMEM_KEPT_NOT ? NXMEM_OK : NXMEM_ERR_QUARANTINED;
}

static void same_end(uint8_t block, nxmem_result found, const nxmem_error *error) {
  const own_block *b = &own.blocks[block];
  own_result("release", found, kept_or_gone(b));
  if (found == NXMEM_OK) return;
  own_same("why it is kept", error->found, b->keeping);
  own_same("what the plugin said of it", error->plugin_status, b->status);
}

/* Where the plugin could not be asked. */
static void settle_unasked(uint8_t block, const life_frame *f) {
  own_block *b = &own.blocks[block];
  if (f->calls != 0) return;
  own_expect(own_mechanism_of(block)->life > OWN_RETIRED, "release: the plugin was not asked");
  if (b->state == OWN_PREPARED) own_mechanism_of(block)->prepared--;
  own_keep(block, NXMEM_KEPT_DEVICE_LOST);
}

void own_op_release(const life_record *op) {
  const uint8_t block = op->b % LIFE_BLOCKS;
  const nxmem_bound named = name(op, block);
  int known;
  if (is_anothers(block, &named)) return;
  const nxmem_result expected = own_may_claim(block, &named, &known);
  nxmem_error error;
  life_frame *f = own_push(CALL_OWNED, own.blocks[block].mechanism);
  f->block = &it.blocks[block];
  if (expected == NXMEM_OK) {
    own.blocks[block].state = OWN_RELEASING;
    it.blocks[block].state = BLOCK_RELEASING;
  }
  const nxmem_result found = nxmem_bound_release(&named, &error);
  if (expected == NXMEM_OK) {
    settle_unasked(block, f);
    same_end(block, found, &error);
  } else {
    own_expect(f->calls == 0, "release: refused, and the plugin was asked");
    same_claim("release", found, expected, known);
  }
  own_pop();
}

void own_op_prepare(const life_record *op) {
  const uint8_t block = op->b % LIFE_BLOCKS;
  const nxmem_bound named = name(op, block);
  int known;
  if (is_anothers(block, &named)) return;
  const nxmem_result expected = own_may_claim(block, &named, &known);
  nxmem_prepared out = {77};
  const nxmem_result found = nxmem_bound_prepare(&named, &out, NULL);
  same_claim("prepare", found, expected, known);
  own_same("what is prepared", out.id, found == NXMEM_OK ? named.id : 77);
  if (found != NXMEM_OK) return;
  own.blocks[block].state = OWN_PREPARED;
  own.blocks[block].refused = 0;
  it.blocks[block].state = BLOCK_RELEASING;
  own_mechanism_of(block)->prepared++;
}

void own_op_execute(const life_record *op) {
  const uint8_t block = op->b % LIFE_BLOCKS;
  const int prepared = own.blocks[block].state == OWN_PREPARED;
  nxmem_error error;
  life_frame *f = own_push(CALL_OWNED, own.blocks[block].mechanism);
  f->block = &it.blocks[block];
  const nxmem_result found = nxmem_prepared_execute((nxmem_prepared){own.blocks[block].bound.id}, &error);
  if (prepared) {
    settle_unasked(block, f);
    same_end(block, found, &error);
  } else {
    own_expect(f->calls == 0, "execute: refused, and the plugin was asked");
    own_result("execute", found, NXMEM_ERR_UNKNOWN_ALLOCATION);
  }
  own_pop();
}

void own_op_abandon(const life_record *op) {
  const uint8_t block = op->b % LIFE_BLOCKS;
  const own_block *b = &own.blocks[block];
  const int prepared = b->state == OWN_PREPARED;
  own_result("abandon", nxmem_prepared_abandon((nxmem_prepared){b->bound.id}, NULL),
             prepared ? NXMEM_OK : NXMEM_ERR_UNKNOWN_ALLOCATION);
  if (!prepared) return;
  own_mechanism_of(block)->prepared--;
  own_keep(block, b->refused ? NXMEM_KEPT_QUEUE_REFUSED : NXMEM_KEPT_ABANDONED);
}

/* ---- Queues ------------------------------------------------------------------------------------------------------- */

static void make_queue(const life_record *op, own_queue *q) {
  const uint8_t registry = (op->b & 0xF0u) == 0xF0u ? 1u : 0u;
  const uint32_t room = (op->d & 0xF0u) == 0xF0u ? (op->x & 1u) * 65537u : 1u + op->x % OWN_ROOM;
  if (q->there == OWN_LIVE) return;
  nxmem_result expected = own.registries[registry].there == OWN_LIVE ? NXMEM_OK : NXMEM_ERR_STALE_HANDLE;
  if (room == 0 || room > 65536u) expected = NXMEM_ERR_INVALID_ARGUMENT;
  nxmem_release_queue out = {0};
  own_result("create queue", nxmem_release_queue_create(own.registries[registry].handle, room, &out, NULL), expected);
  if (expected == NXMEM_OK) *q = (own_queue){.there = OWN_LIVE, .handle = out, .registry = registry, .room = room};
}

static void close_queue(own_queue *q) {
  own_result("close queue", nxmem_release_queue_close(q->handle, NULL),
             q->there == OWN_LIVE ? NXMEM_OK : NXMEM_ERR_STALE_HANDLE);
  if (q->there == OWN_LIVE) q->closing = 1;
}

static void destroy_queue(own_queue *q) {
  nxmem_result expected = q->there == OWN_LIVE ? NXMEM_OK : NXMEM_ERR_STALE_HANDLE;
  if (expected == NXMEM_OK && q->pins != 0) expected = NXMEM_ERR_BUSY;
  uint64_t dropped = 77;
  own_result("destroy queue", nxmem_release_queue_destroy(q->handle, &dropped, NULL), expected);
  if (expected != NXMEM_OK) return;
  own_same("dropped with a queue", dropped, q->count);
  for (uint32_t i = 0; i < q->count; i++) {
    own_mechanism_of(q->blocks[i])->prepared--;
    own_keep(q->blocks[i], NXMEM_KEPT_OWNER_DROPPED);
  }
  q->count = 0;
  q->there = OWN_GONE;
}

void own_op_queue(const life_record *op) {
  own_queue *q = &own.queues[op->a % OWN_QUEUES];
  if (op->c % 4u < 2u)
    make_queue(op, q);
  else if (op->c % 4u == 2u)
    close_queue(q);
  else
    destroy_queue(q);
}

void own_op_push(const life_record *op) {
  own_queue *q = &own.queues[op->a % OWN_QUEUES];
  const uint8_t block = op->b % LIFE_BLOCKS;
  own_block *b = &own.blocks[block];
  const int full = q->closing || q->count == q->room;
  nxmem_result expected = b->state == OWN_PREPARED ? NXMEM_OK : NXMEM_ERR_UNKNOWN_ALLOCATION;
  if (expected == NXMEM_OK && full) expected = NXMEM_ERR_QUEUE_REFUSED;
  if (q->there != OWN_LIVE) expected = NXMEM_ERR_STALE_HANDLE;
  nxmem_error error;
  own_result("queue", nxmem_release_queue_push(q->handle, (nxmem_prepared){b->bound.id}, &error), expected);
  if (expected == NXMEM_ERR_QUEUE_REFUSED) {
    own_same("what stands in a queue", error.found, q->count);
    own_same("room of a queue", error.needed, q->closing ? 0 : q->room);
    b->refused = 1;
  }
  if (expected != NXMEM_OK) return;
  b->state = OWN_QUEUED;
  q->blocks[q->count++] = block;
}

static void drain_rest(own_queue *q, own_call *c) {
  while (c->left != 0 && q->count != 0) {
    own_expect(own_mechanism_of(q->blocks[0])->life > OWN_RETIRED, "drain: one that can be given back is left");
    own_settle_next(q, c);
  }
}

void own_op_drain(const life_record *op) {
  const uint8_t which = op->a % OWN_QUEUES;
  own_queue *q = &own.queues[which];
  const nxmem_result expected = q->there == OWN_LIVE ? NXMEM_OK : NXMEM_ERR_STALE_HANDLE;
  (void)own_push(CALL_OWNED, OWN_NOBODY);
  own_call *c = own_top();
  c->queue = which;
  c->left = (op->d & 0xF0u) == 0xF0u ? op->y : op->d % 5u;
  const uint64_t most = c->left;
  nxmem_drained out = {77, 77, 77};
  q->pins += expected == NXMEM_OK;
  own_result("drain", nxmem_release_queue_drain(q->handle, most, &out, NULL), expected);
  q->pins -= expected == NXMEM_OK;
  if (expected == NXMEM_OK) {
    drain_rest(q, c);
    own_same("given back by a drain", out.completed, c->completed);
    own_same("kept by a drain", out.quarantined, c->quarantined);
    own_same("left by a drain", out.left, q->count);
  }
  own_pop();
}
