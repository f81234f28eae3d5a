/*
 * registry_kept.c: what there is of a registry: members, mechanisms, and what was not given back.
 *
 * Attackers: plugins that keep what they should give back, more and more of it.
 * Promise: every kept allocation stands in its own record until its mechanism goes: no want of memory loses one, and none is counted twice.
 */
#include "books.h"
#include "error.h"
#include "nxmem/count.h"
#include "nxmem/handle.h"
#include "registry.h"
#include "registry_members.h"
#include "registry_prepared.h"

const char *nxmem_lifecycle_name(nxmem_lifecycle lifecycle) {
  static const char *const names[NXMEM_LIFECYCLES] = {"active", "retired", "device-lost", "terminated"};
  return (uint32_t)lifecycle < NXMEM_LIFECYCLES ? names[lifecycle] : "unknown";
}

const char *nxmem_keeping_name(nxmem_keeping reason) {
  static const char *const names[] = {"not-kept",    "abandoned",  "owner-dropped",   "queue-refused",
                                      "device-lost", "terminated", "partial-release", "allocator-refused"};
  return (uint32_t)reason < sizeof names / sizeof names[0] ? names[reason] : "unknown";
}

/* ---- Quarantine -------------------------------------------------------------------------------------------------- */

typedef struct listing {
  uint64_t first, total;
  nxmem_kept *out;
  uint32_t room, count;
} listing;

/* Its word is looked at again behind the fields: a record that went meanwhile is not listed. */
static int read_kept(nx_allocation *record, uint64_t allocator, nxmem_kept *out) {
  const uint64_t word = atomic_load(&record->slot.word);
  if (!nxmem_is_owned(word, NXMEM_SLOT_QUARANTINED, nx_record_owner(record), allocator)) return 0;
  const uint64_t id = nxmem_handle_make(record->slot.self, nxmem_word_generation(word));
  *out = (nxmem_kept){.id = id,
                      .address = (uintptr_t)atomic_load_explicit(&record->ptr, memory_order_relaxed),
                      .bytes = atomic_load_explicit(&record->bytes, memory_order_relaxed),
                      .reason = NXMEM_KEPT_PARTIAL_RELEASE};
  const nx_side *side = nx_side_of(id);
  if (side != NULL && nxmem_same_generation(atomic_load(&side->word), id)) {
    out->binding.id = atomic_load_explicit(&side->binding, memory_order_relaxed);
    out->reason = (nxmem_keeping)atomic_load_explicit(&side->keeping, memory_order_relaxed);
    out->plugin_status = atomic_load_explicit(&side->plugin_status, memory_order_relaxed);
  }
  return atomic_load(&record->slot.word) == word;
}

static void list_part(uint64_t allocator, nxmem_mechanism mechanism, listing *l) {
  const uint32_t count = atomic_load(&nx_allocations.count);
  for (uint32_t i = 0; i < count; i++) {
    nxmem_kept kept;
    if (!read_kept((nx_allocation *)(void *)nx_table_at(&nx_allocations, i), allocator, &kept)) continue;
    kept.mechanism = mechanism;
    if (l->total >= l->first && l->count < l->room) l->out[l->count++] = kept;
    l->total++;
  }
}

nxmem_result nxmem_mechanism_quarantine(nxmem_mechanism mechanism, uint64_t first, nxmem_kept *out, uint32_t room,
                                        uint32_t *count_out, uint64_t *total_out, nxmem_error *error) {
  if (count_out == NULL || (out == NULL && room != 0))
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "list quarantine: out or count_out is NULL");
  nx_mechanism *m = NULL;
  nxmem_result found = nx_mechanism_find(mechanism, &m, error);
  if (found != NXMEM_OK) return found;
  listing l = {.first = first, .out = out, .room = room};
  for (uint32_t i = 0; i < NXMEM_COMPOSITE_MAX; i++) {
    const uint64_t allocator = atomic_load(&m->allocators[i]);
    if (allocator != 0) list_part(allocator, mechanism, &l);
  }
  found = nx_mechanism_find(mechanism, &m, error); /* removed meanwhile: it may be another's that was listed */
  if (found != NXMEM_OK) return found;
  *count_out = l.count;
  if (total_out != NULL) *total_out = l.total;
  return NXMEM_OK;
}

/* ---- Sums -------------------------------------------------------------------------------------------------------- */

/* 1 where slot `i` holds a mechanism of that registry; *out is its handle. */
static int is_of(uint32_t i, uint64_t registry, nxmem_mechanism *out) {
  nx_mechanism *m = (nx_mechanism *)(void *)nx_table_at(&nx_mechanisms, i);
  const uint64_t word = atomic_load(&m->slot.word);
  out->id = nxmem_handle_make(m->slot.self, nxmem_word_generation(word));
  return nxmem_word_state(word) == NXMEM_SLOT_LIVE &&
         atomic_load_explicit(&m->registry, memory_order_relaxed) == registry;
}

static void count_mechanism(nxmem_mechanism handle, nxmem_registry_counts *out) {
  nxmem_mechanism_state state;
  if (nxmem_mechanism_get_state(handle, &state, NULL) != NXMEM_OK) return;
  out->mechanisms[state.lifecycle]++;
  out->bindings = nxmem_count_add(out->bindings, state.holdings.bindings);
  out->live = nxmem_count_add(out->live, state.holdings.live);
  out->prepared = nxmem_count_add(out->prepared, state.holdings.prepared);
  out->quarantined = nxmem_count_add(out->quarantined, state.holdings.quarantined);
  out->quarantined_bytes = nxmem_count_add(out->quarantined_bytes, state.quarantined_bytes);
}

nxmem_result nxmem_registry_count(nxmem_registry registry, nxmem_registry_counts *out, nxmem_error *error) {
  if (out == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "count registry: out is NULL");
  nx_registry *r = NULL;
  const nxmem_result entered = nx_registry_enter(registry, &r, error);
  if (entered != NXMEM_OK) return entered;
  nxmem_registry_counts counts = {.contexts = nx_contexts_of(registry.id),
                                  .authorities = nx_authorities_of(registry.id),
                                  .queues = nx_queues_of(registry.id)};
  const uint32_t count = atomic_load(&nx_mechanisms.count);
  for (uint32_t i = 0; i < count; i++) {
    nxmem_mechanism handle;
    if (is_of(i, registry.id, &handle)) count_mechanism(handle, &counts);
  }
  nx_registry_leave(r);
  *out = counts;
  return NXMEM_OK;
}

nxmem_result nxmem_registry_mechanisms(nxmem_registry registry, uint64_t first, nxmem_mechanism *out, uint32_t room,
                                       uint32_t *count_out, uint64_t *total_out, nxmem_error *error) {
  if (count_out == NULL || (out == NULL && room != 0))
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "list mechanisms: out or count_out is NULL");
  nx_registry *r = NULL;
  const nxmem_result entered = nx_registry_enter(registry, &r, error);
  if (entered != NXMEM_OK) return entered;
  uint64_t total = 0;
  uint32_t written = 0;
  const uint32_t count = atomic_load(&nx_mechanisms.count);
  for (uint32_t i = 0; i < count; i++) {
    nxmem_mechanism handle;
    if (!is_of(i, registry.id, &handle)) continue;
    if (total >= first && written < room) out[written++] = handle;
    total++;
  }
  nx_registry_leave(r);
  *count_out = written;
  if (total_out != NULL) *total_out = total;
  return NXMEM_OK;
}
