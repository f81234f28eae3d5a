/*
 * transactions.c: reserve, allocate, commit, publish, in one call and step by step; and the way back.
 * Attackers: plugins that take more than was reserved, steps out of order, losses and holders between any two steps.
 * Promise: whatever step fails, what is charged afterwards is what is there.
 */
#include <string.h>

#include "owners.h"

typedef struct attempt {
  uint8_t charge, block, manager, binding, authority;
  nxmem_request request;
  nxmem_result refused; /* before any book is looked at */
} attempt;

static uint8_t free_charge(uint8_t from) {
  for (uint8_t i = 0; i < OWN_CHARGES; i++) {
    const uint8_t at = (uint8_t)((from + i) % OWN_CHARGES);
    const own_charge *c = &own.charges[at];
    if (!c->busy && (c->stage == OWN_UNCHARGED || c->stage == OWN_SETTLED)) return at;
  }
  return OWN_NOBODY;
}

static nxmem_axes reserve_for(const life_record *op, uint64_t bytes) {
  nxmem_axes axes = {bytes, bytes, bytes};
  if ((op->d & 8u) != 0) axes.charged = op->y % 0x10000u;
  if ((op->d & 16u) != 0) axes.physical = bytes / 2u;
  if ((op->d & 32u) != 0) axes.mapped = op->y;
  return axes;
}

static void fill(const life_record *op, attempt *t) {
  const own_binding *b = &own.bindings[t->binding];
  t->authority = (op->d & 0xC0u) == 0xC0u ? (uint8_t)(op->y % OWN_MEMBERS) : own.mechanisms[b->mechanism].authority;
  t->request = (nxmem_request){.authority = {own.authorities[t->authority].handle},
                               .binding = b->handle,
                               .bytes = life_size(op),
                               .align = own_align(op)};
  t->request.reserve = reserve_for(op, t->request.bytes);
}

/* Step by step the binding is not used before the allocation: one that was dropped and still has uses may be reserved for. */
static nxmem_result refuse_early(const attempt *t, int at_once) {
  const own_manager *m = &own.managers[t->manager];
  const own_binding *b = &own.bindings[t->binding];
  if (m->there == OWN_NONE) return NXMEM_ERR_STALE_HANDLE;
  if (b->there != OWN_LIVE && (at_once || b->there != OWN_DROPPED)) return NXMEM_ERR_STALE_HANDLE;
  if (t->request.authority.id != own.authorities[own.mechanisms[b->mechanism].authority].handle)
    return NXMEM_ERR_WRONG_OWNER;
  return m->there == OWN_LIVE && m->accounts[t->authority].here ? NXMEM_OK : NXMEM_ERR_STALE_HANDLE;
}

static void open_account(const own_charge *c) {
  for (uint32_t i = 0; i < OWN_MECHANISMS; i++)
    if (own.mechanisms[i].handle.id == c->mechanism_id) own.managers[c->manager].opened[i] = c->mechanism_id;
}

static int prepare(const life_record *op, attempt *t, int at_once) {
  t->charge = free_charge(op->b);
  t->block = own_free_block(op->b);
  t->manager = op->a % OWN_MANAGERS;
  t->binding = (op->a >> 1) % OWN_BINDINGS;
  if (t->charge == OWN_NOBODY || t->block == OWN_NOBODY) return 0;
  fill(op, t);
  t->refused = refuse_early(t, at_once);
  const uint8_t mechanism = own.bindings[t->binding].mechanism;
  own.charges[t->charge] = (own_charge){.busy = 1,
                                        .manager = t->manager,
                                        .authority = t->authority,
                                        .binding = t->binding,
                                        .block = OWN_NOBODY,
                                        .mechanism_id = own.mechanisms[mechanism].handle.id,
                                        .context_id = own.contexts[own.mechanisms[mechanism].context].handle,
                                        .named = t->request.binding.id,
                                        .books = own.managers[t->manager].handle.id,
                                        .under = t->request.authority.id,
                                        .bytes = t->request.bytes,
                                        .align = t->request.align,
                                        .held = t->request.reserve};
  if (t->refused == NXMEM_OK) open_account(&own.charges[t->charge]);
  return 1;
}

/* ---- From inside slots -------------------------------------------------------------------------------------------- */

void own_asked_by(own_call *call, uint8_t *manager, uint8_t *authority, nxmem_axes *ask) {
  own_expect(call->charge != OWN_NOBODY, "pressure: holders are asked by a call that takes nothing");
  const own_charge *c = &own.charges[call->charge];
  *manager = c->manager;
  *authority = c->authority;
  *ask = call->pending ? c->held : own_more(&c->answered, &c->held);
  if (call->mapping != 0) *ask = (nxmem_axes){0, 0, call->mapping};
}

static int has_gone(const own_charge *c) {
  const own_manager *m = &own.managers[c->manager];
  if (m->there != OWN_LIVE || m->handle.id != c->books || !m->accounts[c->authority].here) return 1;
  return own.authorities[c->authority].handle != c->under;
}

/* Holders, where they were asked, may have changed all of it. */
static nxmem_verdict reserved(uint8_t charge) {
  own_charge *c = &own.charges[charge];
  const nxmem_verdict v = own_after_asking(c->manager, c->authority, &c->held);
  c->gone = has_gone(c);
  if (c->gone) return v;
  open_account(c);
  if (v.reason == NXMEM_REASON_NONE) c->stage = OWN_RESERVED;
  if (v.reason != NXMEM_REASON_NONE) own.managers[c->manager].refusals++;
  return v;
}

/* Through the binding that was named: another may be in its place by now. */
static nxmem_result may_make(const own_charge *c, int *inside) {
  *inside = 0;
  if (own.bindings[c->binding].handle.id != c->named) return NXMEM_ERR_STALE_HANDLE;
  return own_may_allocate(c->binding, c->bytes, c->align, inside);
}

void own_slot_allocate(life_frame *f, own_call *call) {
  own_charge *c = &own.charges[call->charge];
  call->pending = 0;
  const nxmem_verdict v = reserved(call->charge);
  own_expect(!c->gone, "transaction: granted by books that are gone");
  own_expect(v.reason == NXMEM_REASON_NONE || own.overflown, "transaction: granted beyond a limit");
  int inside;
  own_expect(may_make(c, &inside) == NXMEM_OK, "transaction: allocated through what has ended");
  own.blocks[f->block - it.blocks].charge = call->charge;
  c->block = (uint8_t)(f->block - it.blocks);
  own_enter_making(c->block, c->binding);
}

void own_slot_allocated(life_frame *f, own_call *call) {
  own_charge *c = &own.charges[call->charge];
  c->stage = OWN_ALLOCATED;
  c->answered = (nxmem_axes){c->held.charged, f->block->owned, f->block->mapped};
  own_remember(c->block);
}

static nxmem_verdict judge_more(own_charge *c) {
  const nxmem_axes more = own_more(&c->answered, &c->held);
  return own_after_asking(c->manager, c->authority, &more);
}

void own_slot_roll_back(life_frame *f, own_call *call) {
  own_charge *c = &own.charges[call->charge];
  own_expect(c->stage == OWN_ALLOCATED, "transaction: rolled back without a reason");
  const nxmem_verdict v = judge_more(c);
  own_expect(v.reason != NXMEM_REASON_NONE || own.overflown, "transaction: rolled back though there is room");
  own.managers[c->manager].refusals++;
  c->stage = OWN_WITHDRAWN;
  f->kind = CALL_OWNED;
  f->calls = 0;
  it.blocks[c->block].state = BLOCK_RELEASING;
}

/* ---- All at once -------------------------------------------------------------------------------------------------- */

void own_same_verdict(const nxmem_error *error, const nxmem_verdict *v) {
  if (own.overflown) return;
  own_same("which limit refuses", error->reason, v->reason);
  own_same("axis that is refused", error->field, v->field);
  own_same("asked of a limit", error->found, v->found);
  own_same("left by a limit", error->needed, v->needed);
}

static uint64_t sum(uint64_t a, uint64_t b) { return b < LIFE_TOTAL_MAX - a ? a + b : LIFE_TOTAL_MAX; }

static void same_rollback(const nxmem_rollback *r, const own_charge *c, const own_block *b) {
  const int made = c->stage == OWN_CHARGE_KEPT && c->block != OWN_NOBODY;
  nxmem_axes behind = c->behind;
  for (uint32_t i = 0; made && i < 3; i++) {
    nxmem_axes answered = c->answered;
    *own_axis(&behind, i) = sum(*own_axis(&behind, i), *own_axis(&answered, i));
  }
  own_same("kept by a rollback", (uint64_t)r->kept, made || c->left != 0);
  own_same("why a rollback keeps", r->keeping, made ? b->keeping : c->left != 0 ? c->keeping : NXMEM_KEPT_NOT);
  if (c->left == 0 || !own.overflown) own_axes("left behind by a rollback", &r->behind, &behind);
}

/* The plugin's answer was refused, and did not go back. */
static int is_answer_kept(const life_frame *f) {
  return f->result == NXMEM_ERR_CONTRACT && !(f->handing_back && f->gone);
}

/* The reservation was refused, or what it was for could not be begun. */
static nxmem_result not_begun(const attempt *t, const nxmem_error *error) {
  own_charge *c = &own.charges[t->charge];
  const nxmem_verdict v = reserved(t->charge);
  c->stage = OWN_UNCHARGED;
  if (c->gone) return NXMEM_ERR_STALE_HANDLE;
  if (v.reason != NXMEM_REASON_NONE) {
    own_same_verdict(error, &v);
    return NXMEM_ERR_OVER_LIMIT;
  }
  int inside;
  const nxmem_result work = may_make(c, &inside);
  own_expect(work != NXMEM_OK, "transaction: the plugin was not asked");
  return work;
}

static nxmem_result publish(own_charge *c) {
  c->held = c->answered;
  c->stage = OWN_PUBLISHED;
  return own_give_out(c->block);
}

static nxmem_result committed(own_charge *c, const nxmem_error *error) {
  const nxmem_verdict v = judge_more(c);
  if (v.reason == NXMEM_REASON_NONE) return publish(c);
  own.managers[c->manager].refusals++;
  own_same_verdict(error, &v);
  own_expect(own_mechanism_of(c->block)->life > OWN_RETIRED, "transaction: refused, and not given back");
  own_keep(c->block, NXMEM_KEPT_DEVICE_LOST);
  return NXMEM_ERR_OVER_LIMIT;
}

static nxmem_result settle(const attempt *t, life_frame *f, own_call *call, const nxmem_error *error) {
  own_charge *c = &own.charges[t->charge];
  if (call->pending) {
    own.blocks[t->block].state = OWN_ENDED;
    it.blocks[t->block].state = BLOCK_GONE;
    return not_begun(t, error);
  }
  if (f->kind == CALL_OWNED) return NXMEM_ERR_OVER_LIMIT;
  if (f->result == NXMEM_OK) return committed(c, error);
  c->stage = OWN_UNCHARGED;
  if (is_answer_kept(f)) own_keep_answer(f, t->charge, t->charge);
  return own_end_making(f, t->block);
}

void own_op_charge(const life_record *op) {
  attempt t;
  if (!prepare(op, &t, 1)) return;
  own_charge *c = &own.charges[t.charge];
  nxmem_bound out = {.id = 77};
  nxmem_rollback rollback = {77, NXMEM_KEPT_ABANDONED, {77, 77, 77}};
  nxmem_error error;
  uint64_t handle = 77;
  life_frame *f = t.refused == NXMEM_OK ? own_begin_making(t.block, t.binding, t.request.bytes, t.request.align)
                                        : own_push(CALL_OTHER, OWN_NOBODY);
  own_call *call = own_top();
  call->charge = t.charge;
  call->pending = 1;
  const nxmem_result found =
      nxmem_manager_allocate(own.managers[t.manager].handle, &t.request, &out, &handle, &rollback, &error);
  nxmem_result expected = t.refused;
  if (expected == NXMEM_OK) expected = settle(&t, f, call, &error);
  own_pop();
  own_result("charge", found, expected);
  c->busy = 0;
  same_rollback(&rollback, c, &own.blocks[t.block]);
  own_expect((out.id == 77 && handle == 77) == (found != NXMEM_OK), "charge: whether an allocation is written");
  if (found != NXMEM_OK) return;
  own_same("what is charged", out.id, own.blocks[t.block].bound.id);
  c->published = handle;
}

/* ---- Step by step ------------------------------------------------------------------------------------------------- */

void own_op_reserve(const life_record *op) {
  attempt t;
  if (!prepare(op, &t, 0)) return;
  own_charge *c = &own.charges[t.charge];
  nxmem_transaction out = {0};
  nxmem_error error;
  (void)own_push(CALL_OTHER, OWN_NOBODY);
  own_top()->charge = t.charge;
  own_top()->pending = 1;
  const nxmem_result found = nxmem_transaction_reserve(own.managers[t.manager].handle, &t.request, &out, &error);
  nxmem_result expected = t.refused;
  if (expected == NXMEM_OK) {
    const nxmem_verdict v = reserved(t.charge);
    expected = v.reason == NXMEM_REASON_NONE ? NXMEM_OK : NXMEM_ERR_OVER_LIMIT;
    if (c->gone) expected = NXMEM_ERR_STALE_HANDLE;
    if (found == NXMEM_ERR_OVER_LIMIT) own_same_verdict(&error, &v);
  }
  own_pop();
  own_result("reserve", found, expected);
  c->busy = 0;
  if (found != NXMEM_OK) return;
  c->handle = out.id;
  c->stepwise = 1;
}

/* A step that may be taken now: of an open transaction, by nobody else, in its turn. */
static nxmem_result may_step(const own_charge *c, own_stage wanted) {
  const int open = c->stepwise && c->stage >= OWN_RESERVED && c->stage <= OWN_COMMITTED;
  if (!open) return NXMEM_ERR_STALE_HANDLE;
  return c->busy || c->stage != wanted ? NXMEM_ERR_BUSY : NXMEM_OK;
}

static void step_allocate(uint8_t which, const life_record *op) {
  own_charge *c = &own.charges[which];
  const uint8_t block = own_free_block(op->d), spare = free_charge(op->b);
  int inside = 0;
  if (block == OWN_NOBODY || spare == OWN_NOBODY) return;
  nxmem_result expected = may_step(c, OWN_RESERVED);
  if (expected == NXMEM_OK) expected = may_make(c, &inside);
  life_frame *f = inside ? own_begin_making(block, c->binding, c->bytes, c->align) : own_push(CALL_OTHER, OWN_NOBODY);
  if (inside) {
    own.blocks[block].charge = which;
    own_enter_making(block, c->binding);
    own_top()->charge = which;
    c->block = block;
    c->busy = own.charges[spare].busy = 1;
  }
  const nxmem_result found = nxmem_transaction_allocate((nxmem_transaction){c->handle}, NULL);
  if (inside) {
    c->busy = own.charges[spare].busy = 0;
    if (is_answer_kept(f)) own_keep_answer(f, which, spare);
    expected = own_end_making(f, block);
  }
  if (inside && expected != NXMEM_OK) c->block = OWN_NOBODY;
  own_pop();
  own_result("allocate in a transaction", found, expected);
}

static void step_commit(uint8_t which) {
  own_charge *c = &own.charges[which];
  nxmem_error error;
  nxmem_result expected = may_step(c, OWN_ALLOCATED);
  (void)own_push(CALL_OTHER, OWN_NOBODY);
  own_top()->charge = expected == NXMEM_OK ? which : OWN_NOBODY;
  const int was_busy = c->busy;
  if (expected == NXMEM_OK) c->busy = 1;
  const nxmem_result found = nxmem_transaction_commit((nxmem_transaction){c->handle}, &error);
  c->busy = was_busy;
  if (expected == NXMEM_OK) {
    const nxmem_verdict v = judge_more(c);
    if (v.reason == NXMEM_REASON_NONE) {
      c->held = c->answered;
      c->stage = OWN_COMMITTED;
    } else {
      expected = NXMEM_ERR_OVER_LIMIT;
      own.managers[c->manager].refusals++;
      if (found == expected) own_same_verdict(&error, &v);
    }
  }
  own_pop();
  own_result("commit", found, expected);
}

static void step_publish(uint8_t which) {
  own_charge *c = &own.charges[which];
  nxmem_bound out = {.id = 77};
  uint64_t handle = 77;
  nxmem_result expected = may_step(c, OWN_COMMITTED);
  const nxmem_result found = nxmem_transaction_publish((nxmem_transaction){c->handle}, &out, &handle, NULL);
  if (expected == NXMEM_OK) expected = publish(c);
  own_result("publish", found, expected);
  own_expect((out.id == 77 && handle == 77) == (found != NXMEM_OK), "publish: whether an allocation is written");
  if (found != NXMEM_OK) return;
  own_same("what is published", out.id, own.blocks[c->block].bound.id);
  c->published = handle;
}

void own_op_step(const life_record *op) {
  const uint8_t which = op->b % OWN_CHARGES;
  switch (op->c % 3u) {
    case 0:
      step_allocate(which, op);
      return;
    case 1:
      step_commit(which);
      return;
    default:
      step_publish(which);
      return;
  }
}

static void roll_back_open(uint8_t which, nxmem_rollback *out) {
  own_charge *c = &own.charges[which];
  const uint8_t block = c->block;
  const int made = c->stage != OWN_RESERVED;
  life_frame *f = own_push(CALL_OWNED, made ? own.blocks[block].mechanism : OWN_NOBODY);
  c->busy = 1;
  if (made) {
    f->block = &it.blocks[block];
    f->block->state = BLOCK_RELEASING;
    own.blocks[block].state = OWN_RELEASING;
  }
  c->stage = made ? OWN_WITHDRAWN : OWN_SETTLED;
  own_result("roll back", nxmem_transaction_rollback((nxmem_transaction){c->handle}, out, NULL), NXMEM_OK);
  c->busy = 0;
  if (made && f->calls == 0) {
    own_expect(own_mechanism_of(block)->life > OWN_RETIRED, "roll back: the plugin was not asked");
    own_keep(block, NXMEM_KEPT_DEVICE_LOST);
  }
  own_pop();
}

void own_op_rollback(const life_record *op) {
  const uint8_t which = op->b % OWN_CHARGES;
  own_charge *c = &own.charges[which];
  nxmem_rollback out = {77, NXMEM_KEPT_ABANDONED, {77, 77, 77}};
  const nxmem_result may = may_step(c, c->stage);
  if (may != NXMEM_OK) {
    own_result("roll back", nxmem_transaction_rollback((nxmem_transaction){c->handle}, &out, NULL), may);
    return;
  }
  const uint8_t block = c->block;
  roll_back_open(which, &out);
  const own_block none = {.keeping = NXMEM_KEPT_NOT};
  same_rollback(&out, c, block == OWN_NOBODY ? &none : &own.blocks[block]);
}

void own_op_wait(const life_record *op) {
  const uint8_t manager = op->a % OWN_MANAGERS;
  const own_manager *m = &own.managers[manager];
  const own_charge *c = &own.charges[op->b % OWN_CHARGES];
  if (c->published == 0) return;
  const int ended = c->stage == OWN_UNCHARGED || c->stage == OWN_SETTLED;
  nxmem_result expected = ended ? NXMEM_OK : c->stage == OWN_CHARGE_KEPT ? NXMEM_ERR_QUARANTINED : NXMEM_ERR_TIMED_OUT;
  if (m->there != OWN_LIVE) expected = NXMEM_ERR_STALE_HANDLE;
  if (!ended && c->manager != manager) expected = NXMEM_ERR_WRONG_OWNER;
  own_result("wait", nxmem_manager_wait(m->handle, c->published, 0, NULL), expected);
}
