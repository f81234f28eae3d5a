/*
 * Registries, their members, and what stands beside a bound allocation. Private to the host.
 *
 * Every member is a slot (slots.h) with a count of those that pin it. Who pins counts itself in, then looks at the word; who removes changes the word, then looks at
 * the count: all sequentially consistent, so one of the two sees the other. Counts are not reset when a slot is used again: a stale handle may be
 * counting itself in and out at this very moment. Fields other than words and counts are relaxed atomics, because a stale handle may read them at any time.
 */
#ifndef NX_REGISTRY_H
#define NX_REGISTRY_H

#include "nxmem_registry.h"
#include "objects.h"
#include "record.h"
#include "registry_steps.h"
#include "release.h"

/* Where a device's selection stands: `selected` is a mechanism's handle, 0 none. `device` never changes once it is counted. */
typedef struct nx_place {
  _Atomic uint64_t device; /* tier * 2^32 + index */
  _Atomic uint64_t selected;
} nx_place;

typedef struct nx_registry {
  nx_slot slot;
  nx_counter members; /* contexts, authorities and queues */
  _Atomic uint32_t place_count;
  nx_place places[NXMEM_REGISTRY_DEVICES_MAX];
} nx_registry;

/* A context or an authority. */
typedef struct nx_member {
  nx_slot slot;
  nx_counter pins; /* mechanisms, and what a manager has in it */
  _Atomic uint64_t registry;
} nx_member;

/*
 * Word: LIVE with its lifecycle in the users' place (nxmem/lifecycle.h); ALLOCATING while it is registered; RELEASING while somebody tries to remove it: the
 * lifecycle may change even then.
 */
typedef struct nx_mechanism {
  nx_slot slot;
  nx_counter bindings; /* each pins it, until the last of its allocations has settled */
  nx_counter prepared; /* releases that nobody has executed or abandoned */
  _Atomic uint64_t registry, context, authority;
  _Atomic uint64_t device; /* tier * 2^32 + index */
  _Atomic uint32_t place;  /* of its device in the registry */
  _Atomic uint32_t parts;
  _Atomic uint64_t allocators[NXMEM_COMPOSITE_MAX]; /* handles; 0 once closed */
} nx_mechanism;

/*
 * Word: LIVE; QUARANTINED: dropped, gone for its caller, waiting for its last use. Every allocation and every release of every thread passes here: what they read stands in
 * a line of its own, what they count in parts.
 */
typedef struct nx_binding {
  nx_slot slot;
  _Atomic uint64_t mechanism;         /* handle */
  _Atomic uint64_t allocator;         /* handle of the mechanism's first part: what is allocated through */
  _Atomic(nx_mechanism *) pinned;     /* where the first of these leads */
  nx_share_of_count uses[NX_STRIPES]; /* allocations, prepared releases, calls at it */
} nx_binding;

extern nx_table nx_registries;
extern nx_table nx_contexts;
extern nx_table nx_authorities;
extern nx_table nx_mechanisms;
extern nx_table nx_bindings;

enum { NX_MECHANISMS_SHIFT = 6, NX_BINDINGS_SHIFT = 6 };

static inline nx_mechanism *nx_mechanism_at(uint64_t handle) {
  return nx_table_find_in(&nx_mechanisms, NX_MECHANISMS_SHIFT, sizeof(nx_mechanism), handle);
}
static inline nx_binding *nx_binding_at(uint64_t handle) {
  return nx_table_find_in(&nx_bindings, NX_BINDINGS_SHIFT, sizeof(nx_binding), handle);
}
static inline uint32_t nx_lifecycle(nx_mechanism *mechanism) {
  return nxmem_lifecycle_of(atomic_load(&mechanism->slot.word));
}

static inline uint64_t nx_device_number(NxmemDeviceId device) { return (uint64_t)device.tier << 32 | device.index; }

/* ---- Members ----------------------------------------------------------------------------------------------------- */

/*
 * Pin what a handle names, or not: STALE_HANDLE, BUSY (being removed), FORKED. `pins` stands in the object. The error is written as nxmem.h says.
 */
nxmem_result nx_registry_enter(nxmem_registry handle, nx_registry **out, nxmem_error *error);
void nx_registry_leave(nx_registry *registry);

/*
 * For a manager: as long as it has a transaction or bytes in a context or an authority, that one cannot be removed, and says how many pins there are. [any-thread]
 */
nxmem_result nx_context_pin(nxmem_context context, nxmem_error *error);
void nx_context_unpin(nxmem_context context);
nxmem_result nx_authority_pin(nxmem_authority authority, nxmem_error *error);
void nx_authority_unpin(nxmem_authority authority);

/* A mechanism that is registered, in whatever lifecycle. STALE_HANDLE, BUSY, FORKED. */
nxmem_result nx_mechanism_find(nxmem_mechanism handle, nx_mechanism **out, nxmem_error *error);

/* RETIRED, DEVICE_LOST or TERMINATED for a verdict of nxmem_check_work(). */
nxmem_result nx_ended(nxmem_verdict verdict, const char *verb, nxmem_error *error);

/* Is the handle's mechanism registered and ACTIVE now? */
int nx_mechanism_is_current(uint64_t handle);

nxmem_holdings nx_mechanism_holdings(nx_mechanism *mechanism);

/* ---- Selection --------------------------------------------------------------------------------------------------- */

/* The place of a device in a registry; NULL where there is none. */
nx_place *nx_place_find(nx_registry *registry, uint64_t device, uint32_t *index_out);

/* The same, made where there is none yet; NULL: there are too many. [blocks: the registry's lock] */
nx_place *nx_place_make(nx_registry *registry, uint64_t device, uint32_t *index_out);

/* Where nothing is selected on its device, it is; the mechanism was just registered. */
void nx_select_if_empty(nx_place *place, uint64_t mechanism);

/* What has ended is selected no more. */
void nx_select_drop(nx_place *place, uint64_t mechanism);

/* ---- Beside an allocation ---------------------------------------------------------------------------------------- */

/*
 * What the registry knows of the allocation of one record. Word: generation of the record, and a state: ALLOCATING: made, not published; LIVE; QUEUED: prepared (users 1: a queue has handed it back); RELEASING:
 * being executed; QUARANTINED; FREE. Written by the thread that made the allocation until it is LIVE, then by the one that claimed the record. The claim
 * of the record (record.h) is what happens exactly once.
 */
typedef struct nx_side {
  _Atomic uint64_t word;
  _Atomic uint64_t binding;             /* handle */
  _Atomic(struct nx_account *) account; /* of the manager that charges it (manager.h); NULL: none does */
  _Atomic uint64_t charged, physical;   /* what the account has for it */
  _Atomic uint64_t mapped;              /* changed by whoever has the record pinned */
  _Atomic uint32_t keeping;             /* nxmem_keeping, from its end on */
  _Atomic uint32_t plugin_status;
  _Atomic uint32_t withdrawn; /* 1: its transaction was rolled back */
} nx_side;

/* NULL: no memory (made where there is none), or nothing was ever bound near it (looked up). */
nx_side *nx_side_make(uint64_t id);
nx_side *nx_side_of(uint64_t id);

/* The mechanism that a binding pins. */
static inline nx_mechanism *nx_mechanism_of_binding(nx_binding *binding) {
  return atomic_load_explicit(&binding->pinned, memory_order_relaxed);
}

/* One use more of a live binding, or why not; one use less: the last of a dropped one ends it. */
nxmem_result nx_binding_use(nxmem_binding handle, nx_binding **out, nxmem_error *error);
void nx_binding_unuse(nx_binding *binding);

/* Has its owner gone? Of one that the caller uses. What the caller has stored before is seen by whoever drops it behind this. */
int nx_binding_is_dropped(nx_binding *binding);

/* ---- Owning releases --------------------------------------------------------------------------------------------- */

/* An allocation whose record this thread has claimed. */
typedef struct nx_owned {
  nx_claimed claimed;
  nx_side *side;
  nx_binding *binding;
  nx_mechanism *mechanism;
  uint64_t allocator; /* handle */
} nx_owned;

/* Claim what a caller names; nothing changes where it is refused. */
nxmem_result nx_owned_claim(const nxmem_bound *bound, const char *verb, nx_owned *out, nxmem_error *error);

/* Give it back to the plugin, or keep it. `owned` is used up. NXMEM_OK or NXMEM_ERR_QUARANTINED. [runs plugin code] */
nxmem_result nx_owned_give_back(nx_owned *owned, nxmem_error *error);

/* Keep it without asking the plugin, under the reason that the core finds for `why`. `owned` is used up. */
nxmem_keeping nx_owned_keep(nx_owned *owned, nxmem_keeping why);

/*
 * Keep every live allocation of an allocator, of one binding or (0) of all; returns how many. Prepared ones are not live.
 */
uint64_t nx_owned_keep_all(uint64_t allocator, uint64_t binding, nxmem_keeping why);

/* ---- An allocator whose device is lost --------------------------------------------------------------------------- */

/* Let no call in any more, for good. Returns how many are inside. */
uint64_t nx_lost_shut(uint64_t allocator);

/*
 * Its device is gone for sure: the plugin's release, once, and no other call. What the host had of it is forgotten: nothing keeps the module. 0: prefixes are left.
 * The gate is shut and nobody is inside.
 */
int nx_lost_bury(uint64_t allocator);

/* ---- The manager's side ------------------------------------------------------------------------------------------ */

/*
 * A transaction is: reserve (the manager's), nx_bound_make, commit (the manager's, by what was really taken), nx_bound_publish; on a failure after nx_bound_make,
 * nx_bound_withdraw. Between make and publish nobody else can release it; a loss in between makes publish fail.
 */
typedef struct nx_charging nx_charging; /* manager.h */

/*
 * Of a binding that the caller uses (nx_binding_use); on NXMEM_OK the use is the allocation's. *left is written where an answer was refused, as nx_allocate_inside() does. [runs plugin code]
 */
nxmem_result nx_bound_make(nx_binding *binding, nx_charging *charging, nxmem_bound *bound,
                           const nxmem_allocate_options *options, nxmem_release_fate *left, nxmem_error *error);

/* What the plugin has made, as noted beside it: the state to show it in. LIVE: committed and published at once. */
nxmem_slot_state nx_charging_made(nx_charging *charging, nx_side *side, uint64_t owned, uint64_t mapped);

/* Was it lost, or its binding dropped, while the plugin was asked? Then it is kept, and why; called behind its publication. */
nxmem_result nx_bound_look_again(nx_binding *binding, const nxmem_bound *bound, nxmem_error *error);

/*
 * It ended while the plugin was asked, and whoever ended it did not see it: it is kept now, unless it was seen after all. The plugin is not asked. DEVICE_LOST, TERMINATED by
 * its mechanism's lifecycle; STALE_HANDLE: its binding was dropped.
 */
nxmem_result nx_bound_keep(uint32_t lifecycle, const nxmem_bound *bound, const char *verb, nxmem_error *error);

/* NXMEM_OK; or DEVICE_LOST, TERMINATED, STALE_HANDLE: it is kept, and the books have been told. */
nxmem_result nx_bound_publish(const nxmem_bound *bound, nxmem_error *error);

/* Through the owning release. NXMEM_OK: given back. NXMEM_ERR_QUARANTINED (found is why), DEVICE_LOST, TERMINATED: kept. The books have been told. [runs plugin code] */
nxmem_result nx_bound_withdraw(const nxmem_bound *bound, nxmem_error *error);

/*
 * Its end, once: refunded or kept; of what was kept, when its mechanism is terminated and removed, forgotten. The record is the caller's and as it was; the word
 * beside it is shown here: FREE, QUARANTINED, FREE. No lock is held.
 */
void nx_charge_refund(struct nx_account *account, nx_side *side, uint64_t id);
void nx_charge_keep(struct nx_account *account, nx_side *side, uint64_t id);
void nx_charge_forget(struct nx_account *account, nx_side *side, uint64_t id);

/* All that managers have of a terminated mechanism's refused answers (manager_answers.c): it is about to go, and no binding is left. */
void nx_charge_forget_answers(uint64_t mechanism);

#endif /* NX_REGISTRY_H */
