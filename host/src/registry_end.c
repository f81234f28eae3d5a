/*
 * registry_end.c: how a mechanism ends: retired, lost, terminated.
 *
 * Attackers: callers that end it from several threads, or end what others select, use or remove; a device that is gone.
 * Promise: the lifecycle is terminal before anything else is done; nothing is let into a lost plugin; what was live there is retained, once.
 */
#include <inttypes.h>

#include "error.h"
#include "nxmem/count.h"
#include "nxmem/handle.h"
#include "registry.h"
#include "registry_members.h"

nxmem_result nx_ended(nxmem_verdict v, const char *verb, nxmem_error *error) {
  static const nxmem_result codes[NXMEM_LIFECYCLES] = {NXMEM_OK, NXMEM_ERR_RETIRED, NXMEM_ERR_DEVICE_LOST,
                                                       NXMEM_ERR_TERMINATED};
  const nxmem_lifecycle lifecycle = (nxmem_lifecycle)(v.found % NXMEM_LIFECYCLES);
  return nx_fail_in(error, codes[lifecycle], v, (nx_context){.record = NX_RECORD_SAID}, "%s: the mechanism is %s", verb,
                    nxmem_lifecycle_name(lifecycle));
}

/* Gone, or being registered. Being removed is no excuse: it may stay, and a loss is a loss. */
static int is_there(uint64_t word, uint64_t handle) {
  const uint32_t state = nxmem_word_state(word);
  return nxmem_same_generation(word, handle) && (state == NXMEM_SLOT_LIVE || state == NXMEM_SLOT_RELEASING);
}

/* What a mechanism has. Once it has ended others may remove it at any time, and its slot is another's. */
typedef struct hold {
  nx_place *place; /* NULL: it was not there */
  uint64_t parts[NXMEM_COMPOSITE_MAX];
  uint32_t count; /* of parts that were open */
} hold;

/* While it is there, before it is ended: whoever turns it behind this has what is its own. */
static hold hold_of(nx_mechanism *m, uint64_t handle) {
  hold h = {.place = NULL};
  if (!is_there(atomic_load(&m->slot.word), handle)) return h;
  const uint64_t registry = atomic_load_explicit(&m->registry, memory_order_relaxed);
  nx_registry *r = (nx_registry *)(void *)nx_table_find(&nx_registries, registry);
  if (r != NULL) h.place = &r->places[atomic_load_explicit(&m->place, memory_order_relaxed)];
  const uint32_t parts = atomic_load_explicit(&m->parts, memory_order_relaxed);
  for (uint32_t i = 0; i < parts && i < NXMEM_COMPOSITE_MAX; i++) {
    const uint64_t allocator = atomic_load(&m->allocators[i]);
    if (allocator != 0) h.parts[h.count++] = allocator;
  }
  return is_there(atomic_load(&m->slot.word), handle) ? h : (hold){.place = NULL};
}

/* 1: this call turned it. 0: *v says what it is, or (reason STALE_HANDLE) that it is not there, or was not when it was held. */
static int turn(nx_mechanism *m, const hold *h, uint64_t handle, nxmem_lifecycle to, nxmem_verdict *v) {
  uint64_t word = atomic_load(&m->slot.word);
  for (;;) {
    if (h->place == NULL || !is_there(word, handle)) {
      *v = nxmem_check_lost_claim(word, handle);
      return 0;
    }
    const uint32_t from = nxmem_lifecycle_of(word);
    if (!nxmem_lifecycle_leads(from, to)) {
      *v = (nxmem_verdict){NXMEM_REASON_ENDED, 0, from, to};
      return 0;
    }
    if (atomic_compare_exchange_weak(&m->slot.word, &word, nxmem_word_in_lifecycle(word, to))) return 1;
  }
}

/* Of what was turned: only a selection that names it. */
static void drop_selection(const hold *h, uint64_t handle) { nx_select_drop(h->place, handle); }

static nxmem_result refuse(nxmem_verdict v, const char *verb, nxmem_error *error) {
  return v.reason == NXMEM_REASON_ENDED ? nx_ended(v, verb, error) : nx_member_refuse(v, "mechanism", error);
}

nxmem_result nxmem_mechanism_retire(nxmem_mechanism mechanism, nxmem_error *error) {
  nx_mechanism *m = nx_mechanism_at(mechanism.id);
  if (m == NULL || nx_is_forked()) return nx_member_unknown("mechanism", error);
  nxmem_verdict v;
  const hold h = hold_of(m, mechanism.id);
  if (!turn(m, &h, mechanism.id, NXMEM_LIFECYCLE_RETIRED, &v)) return refuse(v, "retire", error); /* T1 */
  NX_STEP("retire: terminal");
  drop_selection(&h, mechanism.id); /* T2 */
  return NXMEM_OK;
}

/* ---- Loss -------------------------------------------------------------------------------------------------------- */

/* Whoever was let in before is inside; what is made behind its back is kept by who made it, or when the loss is confirmed. */
static void shut(const hold *h, nxmem_loss *loss) {
  for (uint32_t i = 0; i < h->count; i++) loss->calls_inside += nx_lost_shut(h->parts[i]);
  NX_STEP("lose: shut");
  for (uint32_t i = 0; i < h->count; i++) loss->retained += nx_owned_keep_all(h->parts[i], 0, NXMEM_KEPT_DEVICE_LOST);
}

static int lose(nx_mechanism *m, uint64_t handle, nxmem_loss *loss, nxmem_verdict *v) {
  const hold h = hold_of(m, handle);
  if (!turn(m, &h, handle, NXMEM_LIFECYCLE_DEVICE_LOST, v)) return 0; /* L1, T1 */
  NX_STEP("lose: terminal");
  drop_selection(&h, handle); /* T2 */
  loss->mechanisms++;
  shut(&h, loss);
  return 1;
}

nxmem_result nxmem_mechanism_lose(nxmem_mechanism mechanism, nxmem_loss *out, nxmem_error *error) {
  nx_mechanism *m = nx_mechanism_at(mechanism.id);
  if (m == NULL || nx_is_forked()) return nx_member_unknown("mechanism", error);
  nxmem_loss loss = {0, 0, 0};
  nxmem_verdict v;
  if (!lose(m, mechanism.id, &loss, &v)) return refuse(v, "lose", error);
  if (out != NULL) *out = loss;
  return NXMEM_OK;
}

nxmem_result nxmem_registry_lose_device(nxmem_registry registry, NxmemDeviceId device, nxmem_loss *out,
                                        nxmem_error *error) {
  nx_registry *r = NULL;
  const nxmem_result entered = nx_registry_enter(registry, &r, error);
  if (entered != NXMEM_OK) return entered;
  nxmem_loss loss = {0, 0, 0};
  const uint32_t count = atomic_load(&nx_mechanisms.count);
  for (uint32_t i = 0; i < count; i++) {
    nx_mechanism *m = (nx_mechanism *)(void *)nx_table_at(&nx_mechanisms, i);
    const uint64_t handle = nx_slot_handle(&m->slot);
    if (!is_there(atomic_load(&m->slot.word), handle)) continue; /* its fields may be another's still */
    if (atomic_load_explicit(&m->registry, memory_order_relaxed) != registry.id) continue;
    if (atomic_load_explicit(&m->device, memory_order_relaxed) != nx_device_number(device)) continue;
    nxmem_verdict v;
    NX_STEP("lose device: found");
    (void)lose(m, handle, &loss, &v);
  }
  nx_registry_leave(r);
  if (out != NULL) *out = loss;
  return NXMEM_OK;
}

static nxmem_result still_inside(uint64_t n, nxmem_error *error) {
  (void)nx_fail(error, NXMEM_ERR_BUSY, "confirm termination: found %" PRIu64 " calls inside the plugin, needed none",
                n);
  if (error != NULL) error->found = n;
  return NXMEM_ERR_BUSY;
}

nxmem_result nxmem_mechanism_confirm_terminated(nxmem_mechanism mechanism, nxmem_error *error) {
  nx_mechanism *m = nx_mechanism_at(mechanism.id);
  if (m == NULL || nx_is_forked()) return nx_member_unknown("mechanism", error);
  const uint64_t word = atomic_load(&m->slot.word);
  if (!is_there(word, mechanism.id))
    return nx_member_refuse(nxmem_check_lost_claim(word, mechanism.id), "mechanism", error);
  NX_STEP("confirm: looked at");
  if (nxmem_lifecycle_of(word) < NXMEM_LIFECYCLE_DEVICE_LOST)
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "confirm termination: the mechanism was not lost");
  nxmem_loss rest = {0, 0, 0};
  const hold h = hold_of(m, mechanism.id);
  if (nxmem_lifecycle_of(word) == NXMEM_LIFECYCLE_DEVICE_LOST) shut(&h, &rest);
  if (rest.calls_inside != 0) return still_inside(rest.calls_inside, error);
  nxmem_verdict v;
  if (!turn(m, &h, mechanism.id, NXMEM_LIFECYCLE_TERMINATED, &v)) /* C1 */
    return refuse(v, "confirm termination", error);
  return NXMEM_OK;
}
