/*
 * registry_bind.c: bindings: what pins a mechanism, and when one ends.
 *
 * Attackers: callers that end a binding while others allocate through it; owners that just go away.
 * Promise: a mechanism is pinned until the last allocation of its bindings has settled; what a dropped owner leaves is kept, not lost.
 */
#include <inttypes.h>

#include "error.h"
#include "nxmem/handle.h"
#include "registry.h"
#include "registry_members.h"

/* ---- Uses -------------------------------------------------------------------------------------------------------- */

static nxmem_result refuse_binding(nx_binding *b, uint64_t handle, nxmem_error *error) {
  return nx_member_refuse(nxmem_check_lost_claim(atomic_load(&b->slot.word), handle), "binding", error);
}

nxmem_result nx_binding_use(nxmem_binding handle, nx_binding **out, nxmem_error *error) {
  nx_binding *b = nx_binding_at(handle.id);
  if (b == NULL || nx_is_forked()) return nx_member_unknown("binding", error);
  if (!nxmem_is_claimable(atomic_load(&b->slot.word), handle.id)) return refuse_binding(b, handle.id, error);
  nx_shares_in(b->uses);                                           /* U1 */
  if (nxmem_is_claimable(atomic_load(&b->slot.word), handle.id)) { /* U2 */
    *out = b;
    return NXMEM_OK;
  }
  nx_binding_unuse(b);
  return refuse_binding(b, handle.id, error);
}

/*
 * Whoever finds it without a use ends it, once: the word decides. Uses that come now look at the word and go: so behind the barrier what is left only falls, and
 * a sum of none is what is left. That is true of the binding that was found dropped alone: it is that word which is changed, or none.
 */
static NX_APART void end_dropped(nx_binding *b, uint64_t found) {
  NX_STEP("drop: found dropped");
  nx_barrier_everywhere();                 /* X1 */
  if (nx_shares_sum(b->uses) != 0) return; /* X2 */
  NX_STEP("drop: used by nobody");
  const uint64_t taken = nxmem_word_in_state(found, NXMEM_SLOT_RELEASING);
  if (!atomic_compare_exchange_strong(&b->slot.word, &found, taken)) return; /* X3 */
  nx_mechanism *m = nx_mechanism_of_binding(b);
  nx_table_give(&nx_bindings, &b->slot);
  atomic_fetch_sub(&m->bindings, 1u);
}

void nx_binding_unuse(nx_binding *b) {
  nx_shares_out(b->uses);                           /* U3 */
  const uint64_t word = atomic_load(&b->slot.word); /* U4 */
  if (nxmem_word_state(word) == NXMEM_SLOT_QUARANTINED) end_dropped(b, word);
}

int nx_binding_is_dropped(nx_binding *b) {
  nx_look_behind();
  return nxmem_word_state(atomic_load(&b->slot.word)) == NXMEM_SLOT_QUARANTINED;
}

/* ---- Binding ----------------------------------------------------------------------------------------------------- */

static nxmem_result refuse_mechanism(nx_mechanism *m, uint64_t handle, nxmem_error *error) {
  const uint64_t word = atomic_load(&m->slot.word);
  const nxmem_verdict v = nxmem_check_work(nxmem_lifecycle_of(word), NXMEM_WORK_NEW);
  if (nxmem_same_generation(word, handle) && v.reason != NXMEM_REASON_NONE) return nx_ended(v, "bind", error);
  return nx_member_refuse(nxmem_check_lost_claim(word, handle), "mechanism", error);
}

static nxmem_result bind_pinned(nx_mechanism *m, uint64_t handle, nxmem_binding *out, nxmem_error *error) {
  nx_binding *b = (nx_binding *)(void *)nx_table_take(&nx_bindings);
  if (b == NULL) return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "bind: no room for another binding");
  atomic_store_explicit(&b->mechanism, handle, memory_order_relaxed);
  atomic_store_explicit(&b->pinned, m, memory_order_relaxed);
  atomic_store_explicit(&b->allocator, atomic_load(&m->allocators[0]), memory_order_relaxed);
  out->id = nx_slot_handle(&b->slot);
  nx_slot_show(&b->slot, out->id, NXMEM_SLOT_LIVE);
  return NXMEM_OK;
}

/* Counted in, then looked at: who removes changes the word before it looks at the count. */
nxmem_result nxmem_bind_mechanism(nxmem_mechanism mechanism, nxmem_binding *out, nxmem_error *error) {
  if (out == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "bind: out is NULL");
  nx_mechanism *m = nx_mechanism_at(mechanism.id);
  if (m == NULL || nx_is_forked()) return nx_member_unknown("mechanism", error);
  if (!nx_mechanism_is_current(mechanism.id)) return refuse_mechanism(m, mechanism.id, error);
  atomic_fetch_add(&m->bindings, 1u); /* B1 */
  nxmem_result r = NXMEM_OK;
  if (nx_mechanism_is_current(mechanism.id)) /* B2 */
    r = bind_pinned(m, mechanism.id, out, error);
  else
    r = refuse_mechanism(m, mechanism.id, error);
  if (r != NXMEM_OK) atomic_fetch_sub(&m->bindings, 1u);
  return r;
}

/* Again where another was selected meanwhile: each turn is somebody's select, so nobody turns for nothing. */
nxmem_result nxmem_bind(nxmem_registry registry, NxmemDeviceId device, nxmem_binding *out, nxmem_error *error) {
  nxmem_mechanism selected = {0}, before;
  for (;;) {
    before = selected;
    nxmem_result r = nxmem_registry_selected(registry, device, &selected, error);
    if (r != NXMEM_OK) return r;
    NX_STEP("bind: selection read");
    r = nxmem_bind_mechanism(selected, out, error);
    if (r == NXMEM_OK || r == NXMEM_ERR_OUT_OF_MEMORY || selected.id == before.id) return r;
  }
}

nxmem_result nxmem_binding_get_info(nxmem_binding binding, nxmem_binding_info *out, nxmem_error *error) {
  if (out == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "binding info: out is NULL");
  nx_binding *b = NULL;
  const nxmem_result r = nx_binding_use(binding, &b, error);
  if (r != NXMEM_OK) return r;
  nx_mechanism *m = nx_mechanism_of_binding(b);
  const uint64_t uses = nx_shares_sum(b->uses) - 1u; /* of moving parts: may be below none */
  *out = (nxmem_binding_info){
      .mechanism = {atomic_load_explicit(&b->mechanism, memory_order_relaxed)},
      .context = {atomic_load_explicit(&m->context, memory_order_relaxed)},
      .authority = {atomic_load_explicit(&m->authority, memory_order_relaxed)},
      .uses = uses > NXMEM_TOTAL_MAX ? 0u : uses,
  };
  nx_binding_unuse(b);
  return NXMEM_OK;
}

/* ---- Its end ----------------------------------------------------------------------------------------------------- */

static nxmem_result drop(nx_binding *b, uint64_t handle) {
  nx_mechanism *m = nx_mechanism_of_binding(b);
  nx_shares_in(b->uses);                                  /* while it is looked through */
  nx_slot_show(&b->slot, handle, NXMEM_SLOT_QUARANTINED); /* D1 */
  NX_STEP("binding: dropped");
  nx_barrier_everywhere(); /* D2: what is made behind it looks at the word again */
  const uint32_t parts = atomic_load_explicit(&m->parts, memory_order_relaxed);
  for (uint32_t i = 0; i < parts; i++) {
    const uint64_t allocator = atomic_load(&m->allocators[i]);
    if (allocator != 0) (void)nx_owned_keep_all(allocator, handle, NXMEM_KEPT_OWNER_DROPPED); /* D3 */
  }
  nx_binding_unuse(b);
  return NXMEM_OK;
}

/* Through RELEASING, where its caller alone has it; uses that come meanwhile find it busy and go. */
nxmem_result nxmem_binding_end(nxmem_binding binding, uint32_t flags, nxmem_error *error) {
  if ((flags & ~(uint32_t)NXMEM_END_DROP) != 0)
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "end binding: found unknown flags 0x%" PRIx32, flags);
  nx_binding *b = nx_binding_at(binding.id);
  if (b == NULL || nx_is_forked()) return nx_member_unknown("binding", error);
  if (!nx_slot_move(&b->slot, binding.id, NXMEM_SLOT_LIVE, NXMEM_SLOT_RELEASING)) /* W1 */
    return refuse_binding(b, binding.id, error);
  if ((flags & NXMEM_END_DROP) != 0) return drop(b, binding.id);
  NX_STEP("binding: taken");
  nx_barrier_everywhere();                      /* X1 */
  const uint64_t uses = nx_shares_sum(b->uses); /* X2 */
  if (uses == 0) {
    nx_mechanism *m = nx_mechanism_of_binding(b);
    nx_table_give(&nx_bindings, &b->slot);
    atomic_fetch_sub(&m->bindings, 1u);
    return NXMEM_OK;
  }
  nx_slot_show(&b->slot, binding.id, NXMEM_SLOT_LIVE);
  (void)nx_fail(error, NXMEM_ERR_BUSY, "end binding: found %" PRIu64 " uses, needed none", uses);
  if (error != NULL) error->found = uses;
  return NXMEM_ERR_BUSY;
}
