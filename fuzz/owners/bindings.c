/*
 * bindings.c: bindings made and ended, and what is allocated through them.
 * Attackers: owners that go away, plugins that answer what cannot be, devices that vanish while they are asked.
 * Promise: nothing new begins in what has ended; what a lost device answered is kept and given to nobody.
 */
#include <string.h>

#include "owners.h"

/* ---- Bindings ----------------------------------------------------------------------------------------------------- */

static own_binding *free_binding(uint8_t from) {
  for (uint32_t i = 0; i < OWN_BINDINGS; i++) {
    own_binding *b = &own.bindings[(from + i) % OWN_BINDINGS];
    if (b->there == OWN_NONE || b->there == OWN_GONE) return b;
  }
  return NULL;
}

static nxmem_result may_bind(uint8_t mechanism) {
  const own_mechanism *m = &own.mechanisms[mechanism];
  if (m->there != OWN_LIVE && m->there != OWN_LEAVING) return NXMEM_ERR_STALE_HANDLE;
  return own_work(m->life, OWN_ACTIVE);
}

static void bound(own_binding *b, uint8_t mechanism, nxmem_binding handle) {
  *b = (own_binding){.there = OWN_LIVE, .handle = handle, .mechanism = mechanism};
  own.mechanisms[mechanism].bindings++;
}

static void bind_selected(const life_record *op, own_binding *b) {
  const own_registry *r = &own.registries[op->a % OWN_REGISTRIES];
  const uint8_t device = op->b % OWN_DEVICES;
  const uint8_t selected = r->selected[device];
  nxmem_result expected = r->there == OWN_LIVE ? NXMEM_OK : NXMEM_ERR_STALE_HANDLE;
  if (expected == NXMEM_OK) expected = selected == OWN_NOBODY ? NXMEM_ERR_UNKNOWN_MECHANISM : may_bind(selected);
  nxmem_binding out = {0};
  own_result("bind", nxmem_bind(r->handle, own_devices[device], &out, NULL), expected);
  if (expected == NXMEM_OK) bound(b, selected, out);
}

void own_op_bind(const life_record *op) {
  own_binding *b = free_binding(op->d);
  if (b == NULL) return;
  if ((op->c & 1u) == 0) {
    bind_selected(op, b);
    return;
  }
  const uint8_t mechanism = op->a % OWN_MECHANISMS;
  const nxmem_result expected = may_bind(mechanism);
  nxmem_binding out = {0};
  own_result("bind to a mechanism", nxmem_bind_mechanism(own.mechanisms[mechanism].handle, &out, NULL), expected);
  own_expect((out.id != 0) == (expected == NXMEM_OK), "bind: whether a handle is written");
  if (expected == NXMEM_OK) bound(b, mechanism, out);
}

static void drop(own_binding *b, uint8_t which) {
  b->there = OWN_DROPPED;
  b->uses++;
  (void)own_keep_all(b->mechanism, which, NXMEM_KEPT_OWNER_DROPPED);
  own_unuse(which);
}

void own_op_end_binding(const life_record *op) {
  const uint8_t which = op->a % OWN_BINDINGS;
  own_binding *b = &own.bindings[which];
  const uint32_t flags = (op->b & 0xF0u) == 0xF0u ? op->x : op->c & 1u;
  const int drops = (flags & NXMEM_END_DROP) != 0;
  nxmem_error error;
  nxmem_result expected = b->there == OWN_LIVE ? NXMEM_OK : NXMEM_ERR_STALE_HANDLE;
  if (expected == NXMEM_OK && !drops && b->uses != 0) expected = NXMEM_ERR_BUSY;
  if ((flags & ~1u) != 0) expected = NXMEM_ERR_INVALID_ARGUMENT;
  own_result("end binding", nxmem_binding_end(b->handle, flags, &error), expected);
  if (expected == NXMEM_ERR_BUSY) own_same("uses of a binding", error.found, b->uses);
  if (expected != NXMEM_OK) return;
  if (drops) {
    drop(b, which);
    return;
  }
  b->there = OWN_GONE;
  own.mechanisms[b->mechanism].bindings--;
}

/* ---- Allocating --------------------------------------------------------------------------------------------------- */

uint8_t own_free_block(uint8_t from) {
  for (uint8_t i = 0; i < LIFE_BLOCKS; i++) {
    const uint8_t at = (uint8_t)((from + i) % LIFE_BLOCKS);
    const life_block *b = &it.blocks[at];
    const own_state state = own.blocks[at].state;
    const int at_work = state == OWN_MAKING || state == OWN_RELEASING || state == OWN_EXECUTING;
    if ((b->state == BLOCK_NONE || b->state == BLOCK_GONE) && !at_work) return at;
  }
  return OWN_NOBODY;
}

static int is_good(uint64_t bytes, uint64_t align) {
  return bytes != 0 && align != 0 && (align & (align - 1u)) == 0 && bytes <= UINT64_MAX - (align - 1u);
}

nxmem_result own_may_allocate(uint8_t binding, uint64_t bytes, uint64_t align, int *inside) {
  const own_binding *b = &own.bindings[binding];
  *inside = 0;
  if (b->there != OWN_LIVE) return NXMEM_ERR_STALE_HANDLE;
  if (!is_good(bytes, align)) return NXMEM_ERR_INVALID_ARGUMENT;
  const nxmem_result work = own_work(own.mechanisms[b->mechanism].life, OWN_ACTIVE);
  *inside = work == NXMEM_OK;
  return work;
}

void own_enter_making(uint8_t block, uint8_t binding) {
  own_binding *b = &own.bindings[binding];
  own_call *c = own_top();
  const uint8_t charge = own.blocks[block].charge;
  own.blocks[block] = (own_block){.state = OWN_MAKING, .binding = binding, .mechanism = b->mechanism, .charge = charge};
  it.blocks[block].state = BLOCK_ALLOCATING;
  b->uses++;
  c->inside = 1;
  it.allocators[own.mechanisms[b->mechanism].parts[0]].inside++;
}

life_frame *own_begin_making(uint8_t block, uint8_t binding, uint64_t bytes, uint64_t align) {
  life_frame *f = own_push(CALL_ALLOCATE, own.bindings[binding].mechanism);
  f->block = &it.blocks[block];
  f->size = bytes;
  f->align = align;
  own.blocks[block].state = OWN_MAKING; /* nobody else's, while it is asked for */
  own.blocks[block].charge = OWN_NOBODY;
  return f;
}

/* Behind the call: what it came to, but for a loss of an allocation that was made. */
nxmem_result own_end_making(life_frame *f, uint8_t block) {
  own_block *b = &own.blocks[block];
  const own_mechanism *m = &own.mechanisms[b->mechanism];
  const nxmem_result result = f->result;
  own_expect(f->calls == 1, "allocate: the plugin was not asked");
  own_expect(!f->handing_back || f->released, "allocate: what was refused was not handed back");
  own_expect(result != NXMEM_ERR_PLUGIN || m->life > OWN_RETIRED || own_top()->part + 1u == m->part_count,
             "allocate: a part was not asked");
  if (result == NXMEM_OK) return result;
  b->state = OWN_ENDED;
  own_unuse(b->binding);
  return m->life > OWN_RETIRED ? own_work(m->life, OWN_RETIRED) : result;
}

static void allocated(uint8_t block, const nxmem_bound *out) {
  own_block *b = &own.blocks[block];
  const life_block *l = &it.blocks[block];
  own_expect(out->id == l->id && (uintptr_t)out->ptr == l->address, "allocate: another allocation came out");
  own_expect(out->bytes == l->bytes && out->align == l->align && out->binding.id == own.bindings[b->binding].handle.id,
             "allocate: what came out is not what was asked for");
  b->bound = *out;
}

void own_remember(uint8_t block) {
  own_block *b = &own.blocks[block];
  const life_block *l = &it.blocks[block];
  b->bound = (nxmem_bound){own.bindings[b->binding].handle, l->id, (void *)(uintptr_t)l->address, l->bytes, l->align};
}

uint64_t own_align(const life_record *op) { return (op->c & 0xF0u) == 0xF0u ? op->y : 1ull << op->c % 17u; }

/* What ended while the plugin was asked: then it is nobody's. */
nxmem_result own_ended_meanwhile(uint8_t block) {
  const own_life now = own_mechanism_of(block)->life;
  if (now > OWN_RETIRED) return own_work(now, OWN_RETIRED);
  return own.bindings[own.blocks[block].binding].there == OWN_LIVE ? NXMEM_OK : NXMEM_ERR_STALE_HANDLE;
}

nxmem_result own_give_out(uint8_t block) {
  const nxmem_result ended = own_ended_meanwhile(block);
  own.blocks[block].state = OWN_OWNED;
  if (ended != NXMEM_OK) own_keep(block, NXMEM_KEPT_OWNER_DROPPED);
  return ended;
}

void own_op_allocate(const life_record *op) {
  const uint8_t binding = op->a % OWN_BINDINGS, block = own_free_block(op->b);
  const uint64_t bytes = life_size(op), align = own_align(op);
  int inside;
  if (block == OWN_NOBODY) return;
  nxmem_bound out = {.id = 77};
  nxmem_result expected = own_may_allocate(binding, bytes, align, &inside);
  life_frame *f = inside ? own_begin_making(block, binding, bytes, align) : own_push(CALL_OTHER, OWN_NOBODY);
  if (inside) own_enter_making(block, binding);
  const nxmem_result found = nxmem_bound_allocate(own.bindings[binding].handle, bytes, align, NULL, &out, NULL);
  if (inside) expected = own_end_making(f, block);
  own_pop();
  if (inside && expected == NXMEM_OK) {
    own_remember(block);
    expected = own_give_out(block);
  }
  own_result("allocate", found, expected);
  if (found == NXMEM_OK)
    allocated(block, &out);
  else
    own_expect(out.id == 77, "allocate: refused, and something is written");
}
