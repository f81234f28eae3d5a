/*
 * registry_bound.c: allocating through a binding, and what a manager does in between.
 *
 * Attackers: plugins that answer late; devices that vanish while they are asked.
 * Promise: an allocation is somebody's, with its binding beside it, before anybody can name it; what a lost device answered is given to nobody.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "allocate.h"
#include "books.h"
#include "error.h"
#include "nxmem/handle.h"
#include "registry.h"
#include "registry_members.h"

/* ---- Beside an allocation ---------------------------------------------------------------------------------------- */

enum { IN_CHUNK = 1 << NX_ALLOCATIONS_SHIFT };

static _Atomic(nx_side *) sides[NX_CHUNKS_MAX];

nx_side *nx_side_of(uint64_t id) {
  const uint32_t index = nxmem_handle_slot(id);
  if (index / IN_CHUNK >= NX_CHUNKS_MAX) return NULL;
  nx_side *chunk = atomic_load_explicit(&sides[index / IN_CHUNK], memory_order_acquire);
  return chunk == NULL ? NULL : chunk + index % IN_CHUNK;
}

/* Each in a line of its own, and no page touched before it is needed. */
static NX_APART nx_side *make_sides(uint32_t chunk) {
  _Static_assert(sizeof(nx_side) == 64, "a line");
  unsigned char *memory = calloc(IN_CHUNK + 1u, sizeof(nx_side));
  if (memory == NULL) return NULL;
  nx_side *fresh = (nx_side *)(void *)(memory + (64u - (uintptr_t)memory % 64u) % 64u);
  nx_side *there = NULL;
  if (atomic_compare_exchange_strong(&sides[chunk], &there, fresh)) return fresh;
  free(memory);
  return there;
}

nx_side *nx_side_make(uint64_t id) {
  nx_side *side = nx_side_of(id);
  if (side != NULL) return side;
  const uint32_t index = nxmem_handle_slot(id);
  nx_side *chunk = make_sides(index / IN_CHUNK);
  return chunk == NULL ? NULL : chunk + index % IN_CHUNK;
}

/* ---- Making ------------------------------------------------------------------------------------------------------ */

/* Of a composite, the next part where a plugin refuses. */
static NX_APART nxmem_result ask_others(nx_mechanism *m, uint64_t bytes, uint64_t align,
                                        const nxmem_allocate_options *options, nxmem_release_fate *left,
                                        nxmem_allocation *out, nxmem_error *error) {
  nxmem_result r = NXMEM_ERR_PLUGIN;
  const uint32_t parts = atomic_load_explicit(&m->parts, memory_order_relaxed);
  for (uint32_t i = 1; i < parts && r == NXMEM_ERR_PLUGIN; i++) {
    const nxmem_allocator part = {atomic_load(&m->allocators[i])};
    nx_visit visit;
    r = nx_visit_begin(part, &visit, error);
    if (r != NXMEM_OK) return r;
    r = nx_allocate_inside(visit, part, bytes, align, options, left, out, error);
    nx_visit_end(visit);
  }
  return r;
}

/* Why it failed, if its mechanism ended meanwhile: the host says BUSY of an allocator that is shut. */
static NX_APART nxmem_result explain(nx_mechanism *m, nxmem_result r, nxmem_error *error) {
  const nxmem_verdict v = nxmem_check_work(nx_lifecycle(m), NXMEM_WORK_RELEASE);
  return v.reason == NXMEM_REASON_NONE ? r : nx_ended(v, "allocate", error);
}

/* Nothing can be noted beside it: it goes back, or the host keeps it. */
static NX_APART nxmem_result without_side(nx_allocator *a, uint64_t id, nxmem_release_fate *left, nxmem_error *error) {
  nx_allocation *record = nx_allocation_of(id);
  const nxmem_allocator owner = {nx_slot_handle(&a->slot)};
  if (nx_record_claim_owned(record, owner, NXMEM_SLOT_LIVE)) {
    nx_release_answer answer;
    nx_release_ask(a, record, &answer);
    if (left != NULL) *left = answer.fate;
    nx_release_settle(a, record, &answer);
  }
  return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "allocate: no memory to note the binding");
}

/* What a manager charges for it is noted before it is LIVE. */
static void note(nx_side *side, const nxmem_bound *bound, nx_charging *charging) {
  nxmem_slot_state state = NXMEM_SLOT_LIVE;
  atomic_store_explicit(&side->binding, bound->binding.id, memory_order_relaxed);
  atomic_store_explicit(&side->withdrawn, 0u, memory_order_relaxed);
  atomic_store_explicit(&side->keeping, NXMEM_KEPT_NOT, memory_order_relaxed);
  atomic_store_explicit(&side->plugin_status, NXMEM_STATUS_OK, memory_order_relaxed);
  if (charging == NULL) {
    atomic_store_explicit(&side->account, NULL, memory_order_relaxed);
  } else {
    nx_allocation *record = nx_allocation_of(bound->id);
    state = nx_charging_made(charging, side, nx_books_owned_of(record), nx_books_mapped_of(record));
  }
  const uint64_t word = nxmem_word_make(nxmem_handle_generation(bound->id), 0u, (uint32_t)state);
  atomic_store_explicit(&side->word, word, memory_order_release);
}

/* What is asked for, and what it becomes. */
typedef struct making {
  nx_mechanism *mechanism;
  nxmem_allocator first; /* the mechanism's first part */
  const nxmem_allocate_options *options;
  nx_charging *charging; /* NULL: no manager's */
  nxmem_release_fate *left;
} making;

static nxmem_result make_inside(const making *k, nx_visit visit, nxmem_bound *bound, nxmem_error *error) {
  nx_mechanism *m = k->mechanism;
  const nxmem_verdict v = nxmem_check_work(nx_lifecycle(m), NXMEM_WORK_NEW); /* N2 */
  if (v.reason != NXMEM_REASON_NONE) return nx_ended(v, "allocate", error);
  NX_STEP("allocate: let in");
  nxmem_allocation made;
  nxmem_result r =
      nx_allocate_inside(visit, k->first, bound->bytes, bound->align, k->options, k->left, &made, error); /* N3 */
  if (r == NXMEM_ERR_PLUGIN && atomic_load_explicit(&m->parts, memory_order_relaxed) > 1u)
    r = ask_others(m, bound->bytes, bound->align, k->options, k->left, &made, error);
  if (r != NXMEM_OK) return explain(m, r, error);
  nx_side *side = nx_side_make(made.id);
  if (side == NULL)
    return without_side(nx_allocator_of(nx_record_owner(nx_allocation_of(made.id))), made.id, k->left, error);
  bound->id = made.id;
  bound->ptr = made.ptr;
  note(side, bound, k->charging); /* N4 */
  return NXMEM_OK;
}

/*
 * The binding is used: so its mechanism stays. On NXMEM_OK the use is the allocation's. Inside until all is noted: a loss is confirmed when nobody is.
 */
static nxmem_result make(nx_binding *b, nxmem_bound *bound, const nxmem_allocate_options *options,
                         nx_charging *charging, nxmem_release_fate *left, nxmem_error *error) {
  const making k = {.mechanism = nx_mechanism_of_binding(b),
                    .first = {atomic_load_explicit(&b->allocator, memory_order_relaxed)},
                    .options = options,
                    .charging = charging,
                    .left = left};
  nxmem_result r = nx_allocate_check(bound->bytes, bound->align, error);
  if (r != NXMEM_OK) return r;
  nx_visit visit;
  NX_STEP("allocate: begun");
  r = nx_visit_begin(k.first, &visit, error); /* N1 */
  if (r != NXMEM_OK) return explain(k.mechanism, r, error);
  r = make_inside(&k, visit, bound, error);
  nx_visit_end(visit);
  return r;
}

NX_APART nxmem_result nx_bound_keep(uint32_t lifecycle, const nxmem_bound *bound, const char *verb,
                                    nxmem_error *error) {
  nx_owned owned;
  if (nx_owned_claim(bound, verb, &owned, NULL) == NXMEM_OK) /* N6 */
    (void)nx_owned_keep(&owned, NXMEM_KEPT_OWNER_DROPPED);
  const nxmem_verdict v = nxmem_check_work(lifecycle, NXMEM_WORK_RELEASE);
  if (v.reason != NXMEM_REASON_NONE) return nx_ended(v, verb, error);
  return nx_fail(error, NXMEM_ERR_STALE_HANDLE, "%s: the binding was dropped meanwhile", verb);
}

/*
 * Behind its publication, from where on others may end all of it: so the binding is looked at last, and where it is still the same, what was looked at before was its. One that
 * is about to be ended is used still, and stays.
 */
static nxmem_result look_again(nx_binding *b, nx_mechanism *m, const nxmem_bound *bound, nxmem_error *error) {
  nx_look_behind();
  const uint32_t lifecycle = nx_lifecycle(m);       /* N5 */
  const uint64_t word = atomic_load(&b->slot.word); /* N5 */
  if (lifecycle <= NXMEM_LIFECYCLE_RETIRED && nxmem_same_generation(word, bound->binding.id) &&
      nxmem_word_state(word) != NXMEM_SLOT_QUARANTINED)
    return NXMEM_OK;
  const nxmem_bound copy = *bound; /* so that the caller's may stay in registers */
  return nx_bound_keep(lifecycle, &copy, "allocate", error);
}

NX_HOT nxmem_result nxmem_bound_allocate(nxmem_binding binding, uint64_t bytes, uint64_t align,
                                         const nxmem_allocate_options *options, nxmem_bound *out, nxmem_error *error) {
  if (out == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "allocate: out is NULL");
  nx_binding *b = NULL;
  nxmem_result r = nx_binding_use(binding, &b, error);
  if (r != NXMEM_OK) return r;
  nxmem_bound bound = {.binding = binding, .bytes = bytes, .align = align};
  nx_mechanism *m = nx_mechanism_of_binding(b);
  r = make(b, &bound, options, NULL, NULL, error);
  if (r != NXMEM_OK) {
    nx_binding_unuse(b);
    return r;
  }
  NX_STEP("allocate: noted");
  r = look_again(b, m, &bound, error);
  if (r != NXMEM_OK) return r;
  *out = bound;
  return NXMEM_OK;
}

/* ---- For a manager ----------------------------------------------------------------------------------------------- */

nxmem_result nx_bound_make(nx_binding *b, nx_charging *charging, nxmem_bound *bound,
                           const nxmem_allocate_options *options, nxmem_release_fate *left, nxmem_error *error) {
  return make(b, bound, options, charging, left, error);
}

nxmem_result nx_bound_look_again(nx_binding *b, const nxmem_bound *bound, nxmem_error *error) {
  NX_STEP("publish: shown");
  return look_again(b, nx_mechanism_of_binding(b), bound, error);
}

static void publish(const nxmem_bound *bound) {
  const uint64_t live = nxmem_word_make(nxmem_handle_generation(bound->id), 0u, NXMEM_SLOT_LIVE);
  atomic_store(&nx_side_of(bound->id)->word, live);
}

/* Until then the allocation's use pins its binding. */
nxmem_result nx_bound_publish(const nxmem_bound *bound, nxmem_error *error) {
  publish(bound);
  return nx_bound_look_again(nx_binding_at(bound->binding.id), bound, error);
}

nxmem_result nx_bound_withdraw(const nxmem_bound *bound, nxmem_error *error) {
  publish(bound);
  return nxmem_bound_release(bound, error);
}
