/*
 * registry.c: registries, contexts, authorities; and how any of them is pinned.
 *
 * Attackers: callers with stale handles, or that remove what others are about to pin.
 * Promise: what is pinned stays; what is removed was pinned by nobody, and is pinned by nobody afterwards; nobody waits.
 */
#include "registry.h"

#include <inttypes.h>

#include "error.h"
#include "nxmem/count.h"
#include "nxmem/handle.h"
#include "registry_members.h"

nx_table nx_registries = NX_TABLE(nx_registry, 2);
nx_table nx_contexts = NX_TABLE(nx_member, 6);
nx_table nx_authorities = NX_TABLE(nx_member, 6);
nx_table nx_mechanisms = NX_TABLE(nx_mechanism, NX_MECHANISMS_SHIFT);
nx_table nx_bindings = NX_TABLE(nx_binding, NX_BINDINGS_SHIFT);

/* ---- Pins -------------------------------------------------------------------------------------------------------- */

nxmem_result nx_member_refuse(nxmem_verdict v, const char *kind, nxmem_error *error) {
  const nxmem_presence presence = nxmem_presence_of(v);
  if (presence == NXMEM_PRESENCE_OPENING || presence == NXMEM_PRESENCE_LEAVING)
    return nx_fail_verdict(error, NXMEM_ERR_BUSY, v, "the %s is being made or removed", kind);
  return nx_fail_verdict(error, NXMEM_ERR_STALE_HANDLE, v, "the %s handle names nothing that is there", kind);
}

nxmem_result nx_member_unknown(const char *kind, nxmem_error *error) {
  if (nx_is_forked()) return nx_fail(error, NXMEM_ERR_FORKED, "this process is a forked child");
  return nx_fail(error, NXMEM_ERR_STALE_HANDLE, "the %s handle was never issued", kind);
}

/* Looked at before it is counted, so that a stale handle holds up nobody; and again behind it. */
nxmem_result nx_member_pin(nx_slot *slot, nx_counter *pins, uint64_t handle, const char *kind, nxmem_error *error) {
  nxmem_verdict v = nxmem_check_claim(atomic_load(&slot->word), handle);
  if (v.reason != NXMEM_REASON_NONE) return nx_member_refuse(v, kind, error);
  atomic_fetch_add(pins, 1u);
  v = nxmem_check_claim(atomic_load(&slot->word), handle);
  if (v.reason == NXMEM_REASON_NONE) return NXMEM_OK;
  atomic_fetch_sub(pins, 1u);
  return nx_member_refuse(v, kind, error);
}

nxmem_result nx_member_remove(nx_table *table, nx_slot *slot, nx_counter *pins, uint64_t handle, const char *kind,
                              nxmem_error *error) {
  if (!nx_slot_move(slot, handle, NXMEM_SLOT_LIVE, NXMEM_SLOT_RELEASING))
    return nx_member_refuse(nxmem_check_lost_claim(atomic_load(&slot->word), handle), kind, error);
  const uint64_t held = atomic_load(pins); /* X1 */
  if (held == 0) {
    nx_table_give(table, slot);
    return NXMEM_OK;
  }
  nx_slot_show(slot, handle, NXMEM_SLOT_LIVE);
  (void)nx_fail(error, NXMEM_ERR_BUSY, "remove the %s: found %" PRIu64 " pins, needed none", kind, held);
  if (error != NULL) error->found = held;
  return NXMEM_ERR_BUSY;
}

/* ---- Registries -------------------------------------------------------------------------------------------------- */

nxmem_result nxmem_registry_create(nxmem_registry *out, nxmem_error *error) {
  if (nx_is_forked()) return nx_fail(error, NXMEM_ERR_FORKED, "create registry: this process is a forked child");
  if (out == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "create registry: out is NULL");
  nx_fork_watch();
  nx_registry *r = (nx_registry *)(void *)nx_table_take(&nx_registries);
  if (r == NULL) return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "create registry: no room for another");
  atomic_store(&r->place_count, 0);
  out->id = nx_slot_handle(&r->slot);
  nx_slot_show(&r->slot, out->id, NXMEM_SLOT_LIVE);
  return NXMEM_OK;
}

nxmem_result nxmem_registry_destroy(nxmem_registry registry, nxmem_error *error) {
  nx_registry *r = (nx_registry *)(void *)nx_table_find(&nx_registries, registry.id);
  if (r == NULL || nx_is_forked()) return nx_member_unknown("registry", error);
  return nx_member_remove(&nx_registries, &r->slot, &r->members, registry.id, "registry", error);
}

nxmem_result nx_registry_enter(nxmem_registry handle, nx_registry **out, nxmem_error *error) {
  nx_registry *r = (nx_registry *)(void *)nx_table_find(&nx_registries, handle.id);
  if (r == NULL || nx_is_forked()) return nx_member_unknown("registry", error);
  const nxmem_result pinned = nx_member_pin(&r->slot, &r->members, handle.id, "registry", error);
  if (pinned == NXMEM_OK) *out = r;
  return pinned;
}

void nx_registry_leave(nx_registry *r) { atomic_fetch_sub(&r->members, 1u); }

/* ---- Contexts and authorities ------------------------------------------------------------------------------------ */

/* What tells the two apart. */
typedef struct kind {
  nx_table *table;
  const char *name;
} kind;

static const kind contexts = {&nx_contexts, "context"};
static const kind authorities = {&nx_authorities, "authority"};

/* The pin that a member has in its registry lasts until it is removed. */
static nxmem_result create(const kind *k, nxmem_registry registry, uint64_t *out, nxmem_error *error) {
  nx_registry *r = NULL;
  const nxmem_result entered = nx_registry_enter(registry, &r, error);
  if (entered != NXMEM_OK) return entered;
  nx_member *member = (nx_member *)(void *)nx_table_take(k->table);
  if (member == NULL) {
    nx_registry_leave(r);
    return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "create %s: no room for another", k->name);
  }
  atomic_store_explicit(&member->registry, registry.id, memory_order_relaxed);
  *out = nx_slot_handle(&member->slot);
  nx_slot_show(&member->slot, *out, NXMEM_SLOT_LIVE);
  return NXMEM_OK;
}

static nx_member *find(const kind *k, uint64_t handle) { return (nx_member *)(void *)nx_table_find(k->table, handle); }

static nxmem_result remove_one(const kind *k, uint64_t handle, nxmem_error *error) {
  nx_member *member = find(k, handle);
  if (member == NULL || nx_is_forked()) return nx_member_unknown(k->name, error);
  const uint64_t registry = atomic_load_explicit(&member->registry, memory_order_relaxed);
  const nxmem_result r = nx_member_remove(k->table, &member->slot, &member->pins, handle, k->name, error);
  if (r == NXMEM_OK) nx_registry_leave((nx_registry *)(void *)nx_table_find(&nx_registries, registry));
  return r;
}

static nxmem_result pin(const kind *k, uint64_t handle, nxmem_error *error) {
  nx_member *member = find(k, handle);
  if (member == NULL || nx_is_forked()) return nx_member_unknown(k->name, error);
  return nx_member_pin(&member->slot, &member->pins, handle, k->name, error);
}

static void unpin(const kind *k, uint64_t handle) { atomic_fetch_sub(&find(k, handle)->pins, 1u); }

static nxmem_result count_pins(const kind *k, uint64_t handle, uint64_t *out, nxmem_error *error) {
  if (out == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "count pins of the %s: out is NULL", k->name);
  const nxmem_result r = pin(k, handle, error);
  if (r != NXMEM_OK) return r;
  *out = atomic_fetch_sub(&find(k, handle)->pins, 1u) - 1u;
  return NXMEM_OK;
}

nxmem_result nxmem_context_create(nxmem_registry registry, nxmem_context *out, nxmem_error *error) {
  if (out == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "create context: out is NULL");
  return create(&contexts, registry, &out->id, error);
}
nxmem_result nxmem_authority_create(nxmem_registry registry, nxmem_authority *out, nxmem_error *error) {
  if (out == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "create authority: out is NULL");
  return create(&authorities, registry, &out->id, error);
}
nxmem_result nxmem_context_remove(nxmem_context context, nxmem_error *error) {
  return remove_one(&contexts, context.id, error);
}
nxmem_result nxmem_authority_remove(nxmem_authority authority, nxmem_error *error) {
  return remove_one(&authorities, authority.id, error);
}
nxmem_result nxmem_context_pins(nxmem_context context, uint64_t *out, nxmem_error *error) {
  return count_pins(&contexts, context.id, out, error);
}
nxmem_result nxmem_authority_pins(nxmem_authority authority, uint64_t *out, nxmem_error *error) {
  return count_pins(&authorities, authority.id, out, error);
}
nxmem_result nx_context_pin(nxmem_context context, nxmem_error *error) { return pin(&contexts, context.id, error); }
void nx_context_unpin(nxmem_context context) { unpin(&contexts, context.id); }
nxmem_result nx_authority_pin(nxmem_authority authority, nxmem_error *error) {
  return pin(&authorities, authority.id, error);
}
void nx_authority_unpin(nxmem_authority authority) { unpin(&authorities, authority.id); }

uint64_t nx_context_registry(nxmem_context context) {
  return atomic_load_explicit(&find(&contexts, context.id)->registry, memory_order_relaxed);
}
uint64_t nx_authority_registry(nxmem_authority authority) {
  return atomic_load_explicit(&find(&authorities, authority.id)->registry, memory_order_relaxed);
}

static uint64_t count_of(const kind *k, uint64_t registry) {
  uint64_t n = 0;
  const uint32_t count = atomic_load(&k->table->count);
  for (uint32_t i = 0; i < count; i++) {
    nx_member *member = (nx_member *)(void *)nx_table_at(k->table, i);
    n += nxmem_word_state(atomic_load(&member->slot.word)) == NXMEM_SLOT_LIVE &&
         atomic_load_explicit(&member->registry, memory_order_relaxed) == registry;
  }
  return n;
}

uint64_t nx_contexts_of(uint64_t registry) { return count_of(&contexts, registry); }
uint64_t nx_authorities_of(uint64_t registry) { return count_of(&authorities, registry); }
