/*
 * pages.c: pages of what is bound, and what managers make of them.
 * Attackers: callers that commit past a limit; plugins whose costs and credits cannot be, that fail half way or lose their device; holders asked in between.
 * Promise: what is committed is granted before the plugin maps it, on the mapped axis alone; the books have no less of an allocation than the host's charge of it.
 */
#include "nxmem/verdict.h"
#include "owners.h"

/* ---- From inside slots -------------------------------------------------------------------------------------------- */

static own_charge *charge_of(const life_block *b) {
  const uint8_t charge = own.blocks[b - it.blocks].charge;
  return charge == OWN_NOBODY ? NULL : &own.charges[charge];
}

static int is_alone(const life_block *b) { return b->pins == 1 && !b->met; }

/* The host's own books have judged and charged it; where a limit refuses, holders find nothing charged yet. */
void own_slot_cost(life_frame *f, own_call *call) {
  own_charge *k = charge_of(f->block);
  if (f->kind != CALL_COMMIT || f->result != NXMEM_OK || f->out == 0 || k == NULL) return;
  const nxmem_axes ask = {0, 0, f->out};
  if (own_judge(k->manager, k->authority, &ask).reason == NXMEM_REASON_NONE) {
    k->held.mapped += f->out;
    return;
  }
  own_expect(life_move(f->block, f->block->owned, f->block->mapped - f->out), "harness: a fall without room");
  call->charge = (uint8_t)(k - own.charges);
  call->mapping = f->out;
}

/* Holders, where they were asked, may have made room, also for what the host has no room for any more. */
static void grant(life_frame *f, own_call *call) {
  own_charge *k = &own.charges[call->charge];
  const nxmem_axes ask = {0, 0, call->mapping};
  const nxmem_verdict v = own_after_asking(k->manager, k->authority, &ask);
  call->mapping = 0;
  call->verdict = v;
  if (v.reason != NXMEM_REASON_NONE) {
    own.managers[k->manager].refusals++;
    f->result = NXMEM_ERR_OVER_LIMIT;
  } else if (life_move(f->block, f->block->owned, f->block->mapped + ask.mapped)) {
    k->held.mapped += ask.mapped;
  } else {
    life_violation(NXMEM_REASON_TOTAL_TOO_LARGE);
    f->result = NXMEM_ERR_CONTRACT;
  }
}

void own_slot_commit(life_frame *f, own_call *call) {
  if (call->mapping == 0) return;
  grant(f, call);
  own_expect(f->result == NXMEM_OK || own.overflown, "commit: mapped though a limit refuses it");
}

/* It leaves: a refusal stands by now, whatever is settled on the way. */
void own_slot_settling(life_frame *f, own_call *call) {
  if (call->mapping != 0) grant(f, call);
}

/* Of what others are at the books keep all until the last of them knows. */
void own_slot_decommitted(const life_frame *f) {
  own_charge *k = charge_of(f->block);
  if (k != NULL && f->result == NXMEM_OK && is_alone(f->block)) k->held.mapped -= f->out;
}

/* The last one there was told what is mapped, and the host believed it. */
void own_slot_settled(const life_frame *f, uint32_t status, uint64_t said) {
  own_charge *k = charge_of(f->block);
  if (k != NULL && status == NXMEM_STATUS_OK && is_alone(f->block) && f->block->mapped == said) k->held.mapped = said;
}

/* ---- The caller --------------------------------------------------------------------------------------------------- */

static int is_within(NxmemByteRange r, uint64_t bytes) {
  return r.bytes != 0 && r.offset <= bytes && r.bytes <= bytes - r.offset;
}

static NxmemByteRange range_for(const life_record *op, uint64_t bytes) {
  NxmemByteRange r = {0, bytes};
  if ((op->c & 2u) != 0) r.offset = bytes == 0 ? 0 : op->x % bytes;
  r.bytes -= r.offset;
  if ((op->c & 4u) != 0) r.bytes = op->y;
  return r;
}

static nxmem_result may_change(uint8_t block, const nxmem_bound *named, own_life last) {
  const own_block *b = &own.blocks[block];
  if (b->bound.id == 0) return NXMEM_ERR_STALE_HANDLE;
  const own_binding *binding = &own.bindings[b->binding];
  if (binding->there != OWN_LIVE || binding->handle.id != named->binding.id) return NXMEM_ERR_STALE_HANDLE;
  const nxmem_result work = own_work(own.mechanisms[binding->mechanism].life, last);
  if (work != NXMEM_OK) return work;
  if (b->state != OWN_OWNED && b->state != OWN_RELEASING) return NXMEM_ERR_UNKNOWN_ALLOCATION;
  if (named->bytes != b->bound.bytes || named->align != b->bound.align) return NXMEM_ERR_MISMATCH;
  return b->state == OWN_OWNED ? NXMEM_OK : NXMEM_ERR_BUSY;
}

/* The host's part of it, and life's. */
static nxmem_result enter(life_frame *f, uint8_t block, uint32_t slots, NxmemByteRange range) {
  life_block *b = &it.blocks[block];
  life_allocator *a = life_owner(b);
  f->a = a;
  f->block = b;
  f->offset = range.offset;
  f->size = range.bytes;
  f->count = 1;
  f->out = 77;
  if ((a->backing & slots) != slots) return NXMEM_ERR_UNSUPPORTED_CAPABILITY;
  a->inside++;
  b->met |= b->pins != 0;
  b->pins++;
  return is_within(range, b->bytes) ? NXMEM_OK : NXMEM_ERR_INVALID_ARGUMENT;
}

/* Ended meanwhile: what it had pinned nobody else could keep. */
static nxmem_result leave(life_frame *f, uint8_t block, nxmem_result entered) {
  const nxmem_result ended = own_ended_meanwhile(block);
  if (entered != NXMEM_ERR_UNSUPPORTED_CAPABILITY) {
    life_unpin(f->block);
    f->a->inside--;
  }
  if (ended != NXMEM_OK && own.blocks[block].state == OWN_OWNED && f->block->pins == 0)
    own_keep(block, NXMEM_KEPT_OWNER_DROPPED);
  return ended != NXMEM_OK ? ended : f->result;
}

void own_op_pages(const life_record *op) {
  const uint8_t block = op->b % LIFE_BLOCKS;
  const int commits = (op->c & 1u) == 0;
  nxmem_bound named = own.blocks[block].bound;
  if ((op->d & 0xF0u) == 0xF0u) named.bytes = op->y;
  const NxmemByteRange range = range_for(op, own.blocks[block].bound.bytes);
  nxmem_result expected = may_change(block, &named, commits ? OWN_ACTIVE : OWN_RETIRED);
  life_frame *f = own_push(commits ? CALL_COMMIT : CALL_OTHER, own.blocks[block].mechanism);
  const uint8_t binding = own.blocks[block].binding;
  const int begun = expected == NXMEM_OK;
  if (begun) {
    own.bindings[binding].uses++;
    f->result = enter(f, block, commits ? 1u << 1 | 1u << 3 : 1u << 2, range);
  }
  const nxmem_result entered = f->result;
  uint64_t unmapped = 77;
  nxmem_error error;
  const nxmem_result found =
      commits ? nxmem_bound_commit(&named, range, &error) : nxmem_bound_decommit(&named, range, &unmapped, &error);
  own_slot_settling(f, own_top());
  if (found == NXMEM_ERR_OVER_LIMIT) own_same_verdict(&error, &own_top()->verdict);
  own_expect((f->calls != 0) == (begun && entered == NXMEM_OK), "pages: the plugin was asked, or was not, wrongly");
  if (begun) {
    expected = leave(f, block, entered);
    own_unuse(binding);
  }
  own_pop();
  own_result("pages", found, expected);
}
