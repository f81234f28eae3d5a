/*
 * registry_select.c: which mechanism of a device later binds get.
 *
 * Attackers: callers that select, retire, lose and remove at once.
 * Promise: whatever the interleaving, what has ended is selected by nobody's leave for longer than the call that selected it, or that ended it, takes; a newer
 * selection is never taken back by an older call.
 *
 * Two sides make that work. Who ends a mechanism turns its word first and drops the selection then; who selects publishes first and looks at the word then. Words and
 * selections are sequentially consistent, so at least one of the two sees the other.
 */
#include <pthread.h>

#include "error.h"
#include "nxmem/handle.h"
#include "registry.h"
#include "registry_members.h"

/* Taken to add a device's place, and for nothing else: places are only added. A leaf. */
static pthread_mutex_t places_lock = PTHREAD_MUTEX_INITIALIZER;

nx_place *nx_place_find(nx_registry *r, uint64_t device, uint32_t *index_out) {
  const uint32_t count = atomic_load(&r->place_count);
  for (uint32_t i = 0; i < count; i++) {
    if (atomic_load_explicit(&r->places[i].device, memory_order_relaxed) != device) continue;
    *index_out = i;
    return &r->places[i];
  }
  return NULL;
}

static nx_place *make_locked(nx_registry *r, uint64_t device, uint32_t *index_out) {
  nx_place *place = nx_place_find(r, device, index_out);
  const uint32_t count = atomic_load(&r->place_count);
  if (place != NULL || count == NXMEM_REGISTRY_DEVICES_MAX) return place;
  place = &r->places[count];
  atomic_store_explicit(&place->device, device, memory_order_relaxed);
  atomic_store(&place->selected, 0);
  atomic_store(&r->place_count, count + 1u);
  *index_out = count;
  return place;
}

nx_place *nx_place_make(nx_registry *r, uint64_t device, uint32_t *index_out) {
  pthread_mutex_lock(&places_lock);
  nx_place *place = make_locked(r, device, index_out);
  pthread_mutex_unlock(&places_lock);
  return place;
}

int nx_mechanism_is_current(uint64_t handle) {
  nx_mechanism *m = nx_mechanism_at(handle);
  return m != NULL && nxmem_is_claimable(atomic_load(&m->slot.word), handle);
}

/* From the one to the other, only while the one stands there. */
static int replace(nx_place *place, uint64_t from, uint64_t to) {
  return atomic_compare_exchange_strong(&place->selected, &from, to);
}

void nx_select_drop(nx_place *place, uint64_t mechanism) { (void)replace(place, mechanism, 0); }

void nx_select_if_empty(nx_place *place, uint64_t mechanism) {
  if (!replace(place, 0, mechanism)) return; /* R2 */
  NX_STEP("register: published");
  if (!nx_mechanism_is_current(mechanism)) /* R3 */
    nx_select_drop(place, mechanism);      /* R4 */
}

/* The candidate has ended. What it replaced comes back if it is as good as ever; nothing else is tried. */
static void withdraw(nx_place *place, uint64_t candidate, uint64_t predecessor) {
  const uint64_t back = nx_mechanism_is_current(predecessor) ? predecessor : 0; /* W1 */
  NX_STEP("select: predecessor looked at");
  if (!replace(place, candidate, back) || back == 0) return; /* W2 */
  NX_STEP("select: predecessor restored");
  if (!nx_mechanism_is_current(back)) /* W3 */
    nx_select_drop(place, back);      /* W4 */
}

static nxmem_result refuse(nx_mechanism *m, uint64_t handle, nxmem_error *error) {
  const uint64_t word = atomic_load(&m->slot.word);
  const nxmem_verdict v = nxmem_check_work(nxmem_lifecycle_of(word), NXMEM_WORK_NEW);
  if (nxmem_same_generation(word, handle) && v.reason != NXMEM_REASON_NONE) return nx_ended(v, "select", error);
  return nx_member_refuse(nxmem_check_lost_claim(word, handle), "mechanism", error);
}

nxmem_result nxmem_mechanism_select(nxmem_mechanism mechanism, nxmem_error *error) {
  nx_mechanism *m = nx_mechanism_at(mechanism.id);
  if (m == NULL || nx_is_forked()) return nx_member_unknown("mechanism", error);
  nx_registry *r = NULL;
  const nxmem_registry registry = {atomic_load_explicit(&m->registry, memory_order_relaxed)};
  const uint32_t at = atomic_load_explicit(&m->place, memory_order_relaxed);
  if (!nx_mechanism_is_current(mechanism.id)) return refuse(m, mechanism.id, error); /* S1 */
  const nxmem_result entered = nx_registry_enter(registry, &r, error);
  if (entered != NXMEM_OK) return entered;
  nx_place *place = &r->places[at];
  NX_STEP("select: looked at");
  const uint64_t predecessor = atomic_exchange(&place->selected, mechanism.id); /* S2 */
  NX_STEP("select: published");
  const int current = nx_mechanism_is_current(mechanism.id); /* S3 */
  if (!current) withdraw(place, mechanism.id, predecessor);
  nx_registry_leave(r);
  return current ? NXMEM_OK : refuse(m, mechanism.id, error);
}

static nxmem_result none_selected(NxmemDeviceId device, nxmem_error *error) {
  char text[NX_DEVICE_TEXT];
  nx_device_text(device, text);
  return nx_fail(error, NXMEM_ERR_UNKNOWN_MECHANISM, "no mechanism is selected on %s", text);
}

nxmem_result nxmem_registry_selected(nxmem_registry registry, NxmemDeviceId device, nxmem_mechanism *out,
                                     nxmem_error *error) {
  if (out == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "selected mechanism: out is NULL");
  nx_registry *r = NULL;
  const nxmem_result entered = nx_registry_enter(registry, &r, error);
  if (entered != NXMEM_OK) return entered;
  uint32_t at = 0;
  nx_place *place = nx_place_find(r, nx_device_number(device), &at);
  const uint64_t selected = place == NULL ? 0 : atomic_load(&place->selected);
  nx_registry_leave(r);
  if (selected == 0) return none_selected(device, error);
  out->id = selected;
  return NXMEM_OK;
}
