/*
 * registry_mechanism.c: registering mechanisms, looking at them, and taking them out.
 *
 * Attackers: plugins that refuse to open or to close; callers that remove what others bind to, release into or lose.
 * Promise: whatever was taken to register one goes back in reverse where it fails; what is removed goes in the order allocator, authority, context, once;
 * what stands in the way is named, and changes nothing.
 */
#include <inttypes.h>

#include "books.h"
#include "error.h"
#include "nxmem/count.h"
#include "nxmem/handle.h"
#include "registry.h"
#include "registry_members.h"

/* ---- Registering ------------------------------------------------------------------------------------------------- */

/* One registration in progress. */
typedef struct registering {
  nxmem_context context;
  nxmem_authority authority;
  const nxmem_part *parts;
  uint32_t count;
  nxmem_error *error;
  nxmem_allocator opened[NXMEM_COMPOSITE_MAX];
  uint32_t opened_count;
  uint64_t registry;
  NxmemDeviceId device;
} registering;

/* Backwards, as everything here. Nothing was allocated through them, unless somebody guessed a handle. */
static void close_opened(const registering *g) {
  for (uint32_t i = g->opened_count; i > 0; i--)
    if (nxmem_allocator_close(g->opened[i - 1u], NXMEM_CLOSE_RELEASE_LIVE, NULL) != NXMEM_OK)
      nx_error_append(g->error, "; an allocator that was opened for it could not be closed again and stays open");
}

static nxmem_result open_part(registering *g, uint32_t i) {
  nxmem_result r = nxmem_allocator_open(g->parts[i].plugin, g->parts[i].options, &g->opened[i], g->error);
  if (r != NXMEM_OK) return r;
  g->opened_count = i + 1u;
  nxmem_allocator_info info;
  r = nxmem_allocator_get_info(g->opened[i], &info, g->error);
  if (r != NXMEM_OK) return r;
  if (i == 0) g->device = info.device;
  if (nx_device_number(info.device) == nx_device_number(g->device)) return NXMEM_OK;
  char first[NX_DEVICE_TEXT], other[NX_DEVICE_TEXT];
  nx_device_text(g->device, first);
  nx_device_text(info.device, other);
  return nx_fail(g->error, NXMEM_ERR_INVALID_ARGUMENT,
                 "register composite: found parts on %s and on %s, needed one device", first, other);
}

/* Shown last; then it may be selected, and whoever ends it from then on finds its fields. */
static nxmem_result show(registering *g, nx_mechanism *m, nx_place *place, uint32_t at, nxmem_mechanism *out) {
  NX_STEP("register: slot taken");
  atomic_store_explicit(&m->registry, g->registry, memory_order_relaxed);
  atomic_store_explicit(&m->context, g->context.id, memory_order_relaxed);
  atomic_store_explicit(&m->authority, g->authority.id, memory_order_relaxed);
  atomic_store_explicit(&m->device, nx_device_number(g->device), memory_order_relaxed);
  atomic_store_explicit(&m->place, at, memory_order_relaxed);
  atomic_store_explicit(&m->parts, g->count, memory_order_relaxed);
  for (uint32_t i = 0; i < NXMEM_COMPOSITE_MAX; i++)
    atomic_store_explicit(&m->allocators[i], i < g->count ? g->opened[i].id : 0, memory_order_relaxed);
  const uint64_t handle = nx_slot_handle(&m->slot);
  out->id = handle;
  nx_slot_show(&m->slot, handle, NXMEM_SLOT_LIVE); /* R1 */
  nx_select_if_empty(place, handle);
  return NXMEM_OK;
}

static nxmem_result place_and_show(registering *g, nxmem_mechanism *out) {
  nx_registry *r = (nx_registry *)(void *)nx_table_find(&nx_registries, g->registry);
  uint32_t at = 0;
  nx_place *place = nx_place_make(r, nx_device_number(g->device), &at);
  if (place == NULL)
    return nx_fail(g->error, NXMEM_ERR_OUT_OF_MEMORY, "register mechanism: %d devices are known already",
                   (int)NXMEM_REGISTRY_DEVICES_MAX);
  nx_mechanism *m = (nx_mechanism *)(void *)nx_table_take(&nx_mechanisms);
  if (m == NULL) return nx_fail(g->error, NXMEM_ERR_OUT_OF_MEMORY, "register mechanism: no room for another");
  return show(g, m, place, at, out);
}

static nxmem_result register_pinned(registering *g, nxmem_mechanism *out) {
  g->registry = nx_context_registry(g->context);
  if (g->registry != nx_authority_registry(g->authority))
    return nx_fail(g->error, NXMEM_ERR_WRONG_OWNER,
                   "register mechanism: the context and the authority belong to different registries");
  nxmem_result r = NXMEM_OK;
  for (uint32_t i = 0; i < g->count && r == NXMEM_OK; i++) r = open_part(g, i);
  if (r == NXMEM_OK) r = place_and_show(g, out);
  if (r != NXMEM_OK) close_opened(g);
  return r;
}

static nxmem_result register_parts(registering *g, nxmem_mechanism *out) {
  nxmem_result r = nx_context_pin(g->context, g->error);
  if (r != NXMEM_OK) return r;
  r = nx_authority_pin(g->authority, g->error);
  if (r == NXMEM_OK) {
    r = register_pinned(g, out);
    if (r == NXMEM_OK) return r;
    nx_authority_unpin(g->authority);
  }
  nx_context_unpin(g->context);
  return r;
}

nxmem_result nxmem_mechanism_register(nxmem_context context, nxmem_authority authority, nxmem_plugin plugin,
                                      const nxmem_open_options *options, nxmem_mechanism *out, nxmem_error *error) {
  if (out == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "register mechanism: out is NULL");
  const nxmem_part part = {plugin, options};
  registering g = {.context = context, .authority = authority, .parts = &part, .count = 1, .error = error};
  return register_parts(&g, out);
}

nxmem_result nxmem_mechanism_register_composite_trusted(nxmem_context context, nxmem_authority authority,
                                                        const nxmem_part *parts, uint32_t count, nxmem_mechanism *out,
                                                        nxmem_error *error) {
  if (out == NULL || parts == NULL)
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "register composite: parts or out is NULL");
  if (count < 2 || count > NXMEM_COMPOSITE_MAX)
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "register composite: found %" PRIu32 " parts, needed 2 to %d",
                   count, (int)NXMEM_COMPOSITE_MAX);
  registering g = {.context = context, .authority = authority, .parts = parts, .count = count, .error = error};
  return register_parts(&g, out);
}

/* ---- Looking ----------------------------------------------------------------------------------------------------- */

nxmem_result nx_mechanism_find(nxmem_mechanism handle, nx_mechanism **out, nxmem_error *error) {
  nx_mechanism *m = nx_mechanism_at(handle.id);
  if (m == NULL || nx_is_forked()) return nx_member_unknown("mechanism", error);
  const uint64_t word = atomic_load(&m->slot.word);
  if (!nxmem_same_generation(word, handle.id) || nxmem_word_state(word) != NXMEM_SLOT_LIVE)
    return nx_member_refuse(nxmem_check_lost_claim(word, handle.id), "mechanism", error);
  *out = m;
  return NXMEM_OK;
}

nxmem_holdings nx_mechanism_holdings(nx_mechanism *m) {
  nxmem_holdings h = {0};
  const uint32_t parts = atomic_load_explicit(&m->parts, memory_order_relaxed);
  for (uint32_t i = 0; i < parts; i++) {
    nx_allocator *a = nx_allocator_of(atomic_load(&m->allocators[i]));
    if (a == NULL) continue;
    h.calls_inside = nxmem_count_add(h.calls_inside, nx_allocator_inside(a));
    h.live = nxmem_count_add(h.live, nx_books_live(a));
    h.quarantined = nxmem_count_add(h.quarantined, atomic_load(&a->quarantined));
  }
  h.prepared = atomic_load(&m->prepared);
  h.live = h.live > h.prepared ? h.live - h.prepared : 0; /* the host counts them as live until they have settled */
  h.bindings = atomic_load(&m->bindings);
  return h;
}

static void add_bytes(nx_mechanism *m, nxmem_mechanism_state *out) {
  for (uint32_t i = 0; i < out->parts; i++) {
    nx_allocator *a = nx_allocator_of(atomic_load(&m->allocators[i]));
    if (a == NULL) continue;
    out->quarantined_bytes = nxmem_count_add(out->quarantined_bytes, atomic_load(&a->quarantined_bytes));
    out->owned_bytes = nxmem_count_add(out->owned_bytes, nx_books_owned(a));
    out->mapped_bytes = nxmem_count_add(out->mapped_bytes, nx_books_mapped(a));
  }
}

static int is_selected(nx_mechanism *m, uint64_t handle) {
  const uint64_t registry = atomic_load_explicit(&m->registry, memory_order_relaxed);
  nx_registry *r = (nx_registry *)(void *)nx_table_find(&nx_registries, registry);
  return r != NULL && atomic_load(&r->places[atomic_load_explicit(&m->place, memory_order_relaxed)].selected) == handle;
}

nxmem_result nxmem_mechanism_get_state(nxmem_mechanism mechanism, nxmem_mechanism_state *out, nxmem_error *error) {
  if (out == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "mechanism state: out is NULL");
  nx_mechanism *m = NULL;
  nxmem_result r = nx_mechanism_find(mechanism, &m, error);
  if (r != NXMEM_OK) return r;
  const uint64_t device = atomic_load_explicit(&m->device, memory_order_relaxed);
  nxmem_mechanism_state state = {
      .lifecycle = (nxmem_lifecycle)nx_lifecycle(m),
      .selected = is_selected(m, mechanism.id),
      .device = {.tier = (uint32_t)(device >> 32), .index = (uint32_t)device},
      .registry = {atomic_load_explicit(&m->registry, memory_order_relaxed)},
      .context = {atomic_load_explicit(&m->context, memory_order_relaxed)},
      .authority = {atomic_load_explicit(&m->authority, memory_order_relaxed)},
      .parts = atomic_load_explicit(&m->parts, memory_order_relaxed),
      .holdings = nx_mechanism_holdings(m),
  };
  add_bytes(m, &state);
  r = nx_mechanism_find(mechanism, &m, error); /* removed meanwhile: none of it counts */
  if (r == NXMEM_OK) *out = state;
  return r;
}

/* ---- Taking out -------------------------------------------------------------------------------------------------- */

static nxmem_result refuse_removal(nxmem_verdict v, const nxmem_holdings *held, nxmem_holdings *why_out,
                                   nxmem_error *error) {
  static const char *const words[] = {
      "", "calls inside", "live allocations", "prepared releases", "quarantined allocations", "bindings"};
  if (why_out != NULL) *why_out = *held;
  if (v.reason != NXMEM_REASON_STILL_HELD)
    return nx_fail_in(error, NXMEM_ERR_BUSY, v, (nx_context){NX_RECORD_SAID, "retire it, or confirm its termination"},
                      "remove mechanism: it is %s", nxmem_lifecycle_name((nxmem_lifecycle)v.found));
  return nx_fail_in(error, NXMEM_ERR_BUSY, v, (nx_context){.record = NX_RECORD_SAID},
                    "remove mechanism: found %" PRIu64 " %s, needed none", v.found, words[v.field]);
}

/* A close that backs out opens the gate again: not that of one that was lost meanwhile. The loss turns the lifecycle before it shuts. */
static nxmem_result close_part(nx_mechanism *m, uint64_t allocator, nxmem_error *error) {
  if (nx_lifecycle(m) == NXMEM_LIFECYCLE_TERMINATED) {
    if (nx_lost_bury(allocator)) return NXMEM_OK;
    return nx_fail(error, NXMEM_ERR_BUSY, "remove mechanism: prefixes are left");
  }
  const nxmem_result r = nxmem_allocator_close((nxmem_allocator){allocator}, 0, error); /* M3 */
  if (r != NXMEM_OK && nx_lifecycle(m) > NXMEM_LIFECYCLE_RETIRED) (void)nx_lost_shut(allocator);
  return r;
}

/* Backwards. Where one could not be closed it stays, and those before it. */
static nxmem_result close_parts(nx_mechanism *m, nxmem_error *error) {
  for (uint32_t i = atomic_load_explicit(&m->parts, memory_order_relaxed); i > 0; i--) {
    const uint64_t allocator = atomic_load(&m->allocators[i - 1u]);
    const nxmem_result r = allocator == 0 ? NXMEM_OK : close_part(m, allocator, error);
    if (r != NXMEM_OK) return r;
    atomic_store(&m->allocators[i - 1u], 0);
  }
  return NXMEM_OK;
}

/* The pins outlive the allocator's own release. */
static void take_out(nx_mechanism *m) {
  if (nx_lifecycle(m) == NXMEM_LIFECYCLE_TERMINATED) nx_charge_forget_answers(nx_slot_handle(&m->slot));
  const nxmem_authority authority = {atomic_load_explicit(&m->authority, memory_order_relaxed)};
  const nxmem_context context = {atomic_load_explicit(&m->context, memory_order_relaxed)};
  NX_STEP("remove: allocator released");
  nx_authority_unpin(authority);
  NX_STEP("remove: authority unpinned");
  nx_context_unpin(context); /* M4 */
  NX_STEP("remove: context unpinned");
  nx_table_give(&nx_mechanisms, &m->slot);
}

/* Back from RELEASING, in whatever lifecycle it is by now. */
static void back_out(nx_mechanism *m) {
  uint64_t word = atomic_load(&m->slot.word);
  while (!atomic_compare_exchange_weak(&m->slot.word, &word, nxmem_word_in_state(word, NXMEM_SLOT_LIVE))) {
  }
}

static nxmem_result remove_claimed(nx_mechanism *m, nxmem_holdings *why_out, nxmem_error *error) {
  NX_STEP("remove: claimed");
  nxmem_holdings held = nx_mechanism_holdings(m);                      /* M2 */
  const nxmem_verdict v = nxmem_check_removal(nx_lifecycle(m), &held); /* V1 */
  nxmem_result r = NXMEM_OK;
  if (v.reason != NXMEM_REASON_NONE) r = refuse_removal(v, &held, why_out, error);
  if (r == NXMEM_OK) r = close_parts(m, error);
  if (r == NXMEM_OK)
    take_out(m);
  else
    back_out(m);
  return r;
}

/* A first look keeps a removal that cannot be from being in others' way. */
nxmem_result nxmem_mechanism_remove(nxmem_mechanism mechanism, nxmem_holdings *why_out, nxmem_error *error) {
  nx_mechanism *m = nx_mechanism_at(mechanism.id);
  if (m == NULL || nx_is_forked()) return nx_member_unknown("mechanism", error);
  uint64_t word = atomic_load(&m->slot.word);
  do {
    if (!nxmem_same_generation(word, mechanism.id) || nxmem_word_state(word) != NXMEM_SLOT_LIVE)
      return nx_member_refuse(nxmem_check_lost_claim(word, mechanism.id), "mechanism", error);
    nxmem_holdings held = nx_mechanism_holdings(m);
    const nxmem_verdict v = nxmem_check_removal(nxmem_lifecycle_of(word), &held);
    if (v.reason != NXMEM_REASON_NONE) return refuse_removal(v, &held, why_out, error);
  } while (
      !atomic_compare_exchange_weak(&m->slot.word, &word, nxmem_word_in_state(word, NXMEM_SLOT_RELEASING))); /* M1 */
  return remove_claimed(m, why_out, error);
}
