/*
 * sharing.c: shared prefixes: made, referenced, given back.
 *
 * Attackers: a plugin whose handle is short, foreign, unwritten or impossible, or that refuses to take a reference
 * back; callers with stale handles, on many threads.
 * Promise: what the plugin wrote is read once and judged before it is kept; each reference is given back exactly once;
 * a prefix keeps its allocator open.
 *
 * A reference on its way out is counted apart from those that are held, so that one the plugin refuses can be put back:
 * the prefix ends when both are none, by whoever leaves it last.
 */
#include "sharing.h"

#include "backing.h"
#include "books.h"
#include "error.h"
#include "nxmem/outcome.h"
#include "nxmem/pin.h"
#include "nxmem/sharing.h"
#include "quarantine.h"
#include "violations.h"

#define HELD_MAX 0x7FFFFFFFull
#define ONE_LEAVING 0x100000000ull

static nx_table nx_prefixes = NX_TABLE(nx_prefix, 6);

const NxmemSharedMappingVtable *nx_sharing_of(const nx_allocator *a) {
  static const NxmemSharedMappingVtable nothing;
  return (a->effective & NXMEM_CAP_SHARED_MAPPING) != 0 ? &a->sharing : &nothing;
}

static uint64_t held(uint64_t references) { return references % ONE_LEAVING; }

/* ---- Pins -------------------------------------------------------------------------------------------------------- */

static nxmem_result refuse(const char *verb, nxmem_verdict v, nxmem_error *error) {
  const nxmem_presence presence = nxmem_presence_of(v);
  if (v.reason == NXMEM_REASON_TOO_MANY_USERS || presence == NXMEM_PRESENCE_OPENING)
    return nx_fail_verdict(error, NXMEM_ERR_BUSY, v, "%s", verb);
  if (presence == NXMEM_PRESENCE_KEPT)
    return nx_fail_verdict(error, NXMEM_ERR_QUARANTINED, v, "%s: quarantined before", verb);
  return nx_fail_verdict(error, NXMEM_ERR_STALE_HANDLE, v, "%s: not a live prefix", verb);
}

static nx_prefix *find(nxmem_prefix handle) { return (nx_prefix *)(void *)nx_table_find(&nx_prefixes, handle.id); }

static nxmem_result pin(const char *verb, nxmem_prefix handle, nx_prefix *prefix, nxmem_error *error) {
  uint64_t word = atomic_load(&prefix->slot.word);
  do {
    const nxmem_verdict v = nxmem_check_pin(word, handle.id);
    if (v.reason != NXMEM_REASON_NONE) return refuse(verb, v, error);
  } while (!atomic_compare_exchange_weak(&prefix->slot.word, &word, nxmem_word_pinned(word)));
  return NXMEM_OK;
}

/* Nobody refers to it, and the caller is the last that is at it. */
static int is_over(nx_prefix *prefix, uint64_t word) {
  return nxmem_word_state(word) == NXMEM_SLOT_LIVE && nxmem_word_pins(word) == 1u &&
         atomic_load(&prefix->references) == 0;
}

static void unpin(nx_allocator *a, nx_prefix *prefix) {
  uint64_t word = atomic_load(&prefix->slot.word);
  for (;;) {
    const uint64_t left = nxmem_word_unpinned(word);
    const int over = is_over(prefix, word);
    const uint64_t next = over ? nxmem_word_in_state(left, NXMEM_SLOT_RELEASING) : left;
    if (!atomic_compare_exchange_weak(&prefix->slot.word, &word, next)) continue;
    if (over) {
      nx_prefix_bytes_leave(a, prefix->bytes);
      nx_table_give(&nx_prefixes, &prefix->slot);
      atomic_fetch_sub(&a->prefixes, 1u);
    }
    return;
  }
}

/* Pinned inside the allocator alone: a stale handle must not hold up a close. */
static nxmem_result pin_inside(const char *verb, nxmem_prefix handle, nx_allocator *a, nx_prefix *prefix,
                               nxmem_error *error) {
  const nxmem_result r = pin(verb, handle, prefix, error);
  if (r != NXMEM_OK || held(atomic_load(&prefix->references)) != 0) return r;
  unpin(a, prefix);
  return nx_fail(error, NXMEM_ERR_BUSY, "%s: the last reference is being given back", verb);
}

/*
 * The owner is read before the pin: where the pin succeeds the slot is of the generation that the handle names, so it
 * was that prefix's.
 */
nxmem_result nx_prefix_enter(const char *verb, nxmem_prefix handle, nx_prefix **out, nx_allocator **allocator_out,
                             nxmem_error *error) {
  if (nx_is_forked()) return nx_fail(error, NXMEM_ERR_FORKED, "%s: this process is a forked child", verb);
  nx_prefix *prefix = find(handle);
  if (prefix == NULL) return nx_fail(error, NXMEM_ERR_STALE_HANDLE, "%s: the prefix handle was never issued", verb);
  const nxmem_verdict v = nxmem_check_pin(atomic_load(&prefix->slot.word), handle.id);
  if (v.reason != NXMEM_REASON_NONE) return refuse(verb, v, error);
  const nxmem_allocator owner = {atomic_load(&prefix->owner)};
  nx_allocator *a = NULL;
  nxmem_result r = nx_allocator_enter(owner, &a, error);
  if (r != NXMEM_OK) return r;
  r = pin_inside(verb, handle, a, prefix, error);
  if (r != NXMEM_OK) {
    nx_allocator_leave(a);
    return r;
  }
  *out = prefix;
  *allocator_out = a;
  return NXMEM_OK;
}

void nx_prefix_leave(nx_prefix *prefix, nx_allocator *a) {
  unpin(a, prefix);
  nx_allocator_leave(a);
}

/* ---- Counts ------------------------------------------------------------------------------------------------------ */

/* From LIVE until its end, or quarantine: also while a call that is at it may still end it. */
uint64_t nx_prefix_count(nx_allocator *a) { return atomic_load(&a->prefixes); }

void nx_prefixes_reset(nx_allocator *a) {
  atomic_store(&a->prefixes, 0);
  atomic_store(&a->kept_prefixes, 0);
}

/* Only a whole list is taken off, as of records (release.c). */
static void keep_prefix(nx_allocator *a, nx_prefix *prefix) {
  uint32_t first = atomic_load(&a->kept_prefixes);
  do {
    atomic_store(&prefix->next, first);
  } while (!atomic_compare_exchange_weak(&a->kept_prefixes, &first, prefix->slot.self + 1u));
  atomic_fetch_sub(&a->prefixes, 1u);
}

void nx_prefix_forget_quarantined(nx_allocator *a) {
  uint32_t link = atomic_exchange(&a->kept_prefixes, 0u);
  while (link != 0u) {
    nx_prefix *prefix = (nx_prefix *)(void *)nx_table_at(&nx_prefixes, link - 1u);
    link = atomic_load(&prefix->next);
    nx_prefix_bytes_leave(a, prefix->bytes);
    nx_table_give(&nx_prefixes, &prefix->slot);
  }
}

/* ---- Quarantine -------------------------------------------------------------------------------------------------- */

static void quarantine(nx_allocator *a, const NxmemSharedPrefixHandle *handle, uint64_t bytes, uint32_t plugin_status,
                       uint32_t reason) {
  const nxmem_quarantined what = {.address = handle->device_ptr,
                                  .bytes = bytes,
                                  .residual_bytes = NXMEM_UNWRITTEN_COUNT,
                                  .plugin_status = plugin_status,
                                  .reason = reason};
  nx_books_quarantine_bytes(a, bytes);
  nx_quarantine_list(a, &what);
}

/* The plugin keeps it: no reference is given back any more, and nobody may use it. Once, whoever hears it first. */
static void quarantine_pinned(nx_allocator *a, nx_prefix *prefix, uint32_t plugin_status) {
  uint64_t word = atomic_load(&prefix->slot.word);
  do {
    if (nxmem_word_state(word) != NXMEM_SLOT_LIVE) return;
  } while (!atomic_compare_exchange_weak(&prefix->slot.word, &word, nxmem_word_in_state(word, NXMEM_SLOT_QUARANTINED)));
  nx_prefix_bytes_keep(prefix->bytes);
  keep_prefix(a, prefix);
  quarantine(a, &prefix->handle, prefix->handle.requested_bytes, plugin_status, NXMEM_REASON_NONE);
}

/* ---- Making ------------------------------------------------------------------------------------------------------ */

static uint32_t ask_release(nx_allocator *a, const NxmemSharedPrefixHandle *handle, NxmemStatus *status) {
  const NxmemSharedMappingVtable *table = nx_sharing_of(a);
  const NxmemStatus answer = table->release_shared_prefix(table->ctx, handle);
  return nx_take_answer(&answer, status);
}

/*
 * An OK that cannot be accepted: handed back once, where it can only be what was made for this call; what is not taken
 * is quarantined.
 */
static void undo(nx_allocator *a, const NxmemSharedPrefixHandle *handle, uint64_t bytes, nxmem_verdict v) {
  NxmemStatus status = {.code = NXMEM_STATUS_OK};
  nxmem_release_fate fate = NXMEM_FATE_QUARANTINED;
  if (nxmem_prefix_may_go_back(v.reason)) fate = nxmem_judge_deallocate(ask_release(a, handle, &status));
  if (nxmem_final_fate(fate) == NXMEM_FATE_QUARANTINED) quarantine(a, handle, bytes, status.code, v.reason);
}

static nxmem_result ask(nx_allocator *a, uint64_t bytes, NxmemSharedPrefixHandle *taken, nxmem_error *error) {
  NxmemSharedPrefixHandle handle = {.struct_size = sizeof handle,
                                    .handle = NXMEM_UNWRITTEN_COUNT,
                                    .device = {UINT32_MAX, UINT32_MAX},
                                    .committed_physical_bytes = NXMEM_UNWRITTEN_COUNT,
                                    .mapped_bytes = NXMEM_UNWRITTEN_COUNT,
                                    .requested_bytes = NXMEM_UNWRITTEN_COUNT};
  const NxmemSharedMappingVtable *table = nx_sharing_of(a);
  const NxmemStatus answer = table->create_shared_prefix(table->ctx, a->table.mechanism_id, bytes, &handle);
  NxmemStatus status;
  if (nx_take_answer(&answer, &status) != NXMEM_STATUS_OK)
    return nx_fail_status(error, NXMEM_ERR_PLUGIN, &status, "create prefix");
  nxmem_prefix_handle_take(&handle, taken);
  return NXMEM_OK;
}

static nxmem_result create_into(nx_allocator *a, nx_prefix *prefix, uint64_t bytes, nxmem_error *error) {
  const nxmem_result r = ask(a, bytes, &prefix->handle, error);
  if (r != NXMEM_OK) return r;
  const nxmem_verdict v = nxmem_check_prefix_handle(&prefix->handle, a->table.mechanism_id, a->table.device, bytes);
  prefix->handle.struct_size = sizeof prefix->handle; /* of this copy: what the plugin gets back has no byte more */
  if (v.reason == NXMEM_REASON_NONE) return NXMEM_OK;
  nx_violation(a, v);
  undo(a, &prefix->handle, bytes, v);
  return nx_fail_in(error, NXMEM_ERR_CONTRACT, v, (nx_context){.record = NX_RECORD_PREFIX}, "create prefix");
}

static nxmem_result create_entered(nx_allocator *a, nxmem_allocator owner, uint64_t bytes, nxmem_prefix *out,
                                   nxmem_error *error) {
  nx_prefix *prefix = (nx_prefix *)(void *)nx_table_take(&nx_prefixes);
  if (prefix != NULL) prefix->bytes = nx_prefix_bytes_make();
  if (prefix == NULL || prefix->bytes == NULL) {
    if (prefix != NULL) nx_table_give(&nx_prefixes, &prefix->slot);
    return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "create prefix: no room for another");
  }
  atomic_store(&prefix->owner, owner.id);
  atomic_store(&prefix->references, 1);
  nx_slot_set(&prefix->slot, NXMEM_SLOT_ALLOCATING);
  const nxmem_result r = create_into(a, prefix, bytes, error);
  if (r != NXMEM_OK) {
    nx_prefix_bytes_leave(a, prefix->bytes);
    nx_table_give(&nx_prefixes, &prefix->slot);
    return r;
  }
  atomic_fetch_add(&a->prefixes, 1u);
  out->id = nx_slot_handle(&prefix->slot); /* before anybody can give it back by a guessed handle */
  nx_slot_set(&prefix->slot, NXMEM_SLOT_LIVE);
  return NXMEM_OK;
}

nxmem_result nxmem_prefix_create(nxmem_allocator allocator, uint64_t bytes, nxmem_prefix *out, nxmem_error *error) {
  if (out == NULL || bytes == 0)
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "create prefix: out is NULL, or zero bytes are asked for");
  nx_allocator *a = NULL;
  nxmem_result r = nx_allocator_enter(allocator, &a, error);
  if (r != NXMEM_OK) return r;
  const NxmemSharedMappingVtable *table = nx_sharing_of(a);
  r = nx_need_slot(table->create_shared_prefix != NULL, "create prefix", "shared_mapping.create_shared_prefix", error);
  if (r == NXMEM_OK) /* without it what is made could not be given back */
    r = nx_need_slot(table->release_shared_prefix != NULL, "create prefix", "shared_mapping.release_shared_prefix",
                     error);
  if (r == NXMEM_OK) r = create_entered(a, allocator, bytes, out, error);
  nx_allocator_leave(a);
  return r;
}

/* ---- References -------------------------------------------------------------------------------------------------- */

static nxmem_result retain_entered(nx_allocator *a, nx_prefix *prefix, nxmem_error *error) {
  const NxmemSharedMappingVtable *table = nx_sharing_of(a);
  nxmem_result r =
      nx_need_slot(table->retain_shared_prefix != NULL, "retain prefix", "shared_mapping.retain_shared_prefix", error);
  if (r != NXMEM_OK) return r;
  if (held(atomic_load(&prefix->references)) >= HELD_MAX)
    return nx_fail(error, NXMEM_ERR_BUSY, "retain prefix: found as many references as can be counted");
  const NxmemStatus answer = table->retain_shared_prefix(table->ctx, &prefix->handle);
  NxmemStatus status;
  if (nx_take_answer(&answer, &status) != NXMEM_STATUS_OK)
    return nx_fail_status(error, NXMEM_ERR_PLUGIN, &status, "retain prefix");
  atomic_fetch_add(&prefix->references, 1u);
  return NXMEM_OK;
}

nxmem_result nxmem_prefix_retain(nxmem_prefix handle, nxmem_error *error) {
  nx_prefix *prefix = NULL;
  nx_allocator *a = NULL;
  nxmem_result r = nx_prefix_enter("retain prefix", handle, &prefix, &a, error);
  if (r != NXMEM_OK) return r;
  r = retain_entered(a, prefix, error);
  nx_prefix_leave(prefix, a);
  return r;
}

/* One that was held is on its way out; 0 where none is held. */
static int take_out(nx_prefix *prefix) {
  uint64_t references = atomic_load(&prefix->references);
  do {
    if (held(references) == 0) return 0;
  } while (!atomic_compare_exchange_weak(&prefix->references, &references, references - 1u + ONE_LEAVING));
  return 1;
}

static nxmem_result release_entered(nx_allocator *a, nx_prefix *prefix, nxmem_error *error) {
  if (!take_out(prefix))
    return nx_fail(error, NXMEM_ERR_BUSY, "release prefix: the last reference is being given back");
  NxmemStatus status;
  const nxmem_release_fate fate = nxmem_judge_deallocate(ask_release(a, &prefix->handle, &status));
  if (fate == NXMEM_FATE_LIVE) {
    atomic_fetch_sub(&prefix->references, ONE_LEAVING - 1u);
    return nx_fail_status(error, NXMEM_ERR_PLUGIN, &status, "release prefix: still referenced");
  }
  if (fate == NXMEM_FATE_QUARANTINED) quarantine_pinned(a, prefix, status.code);
  atomic_fetch_sub(&prefix->references, ONE_LEAVING);
  if (fate == NXMEM_FATE_GONE) return NXMEM_OK;
  return nx_fail_status(error, NXMEM_ERR_QUARANTINED, &status, "release prefix: quarantined");
}

nxmem_result nxmem_prefix_release(nxmem_prefix handle, nxmem_error *error) {
  nx_prefix *prefix = NULL;
  nx_allocator *a = NULL;
  nxmem_result r = nx_prefix_enter("release prefix", handle, &prefix, &a, error);
  if (r != NXMEM_OK) return r;
  r = release_entered(a, prefix, error);
  nx_prefix_leave(prefix, a);
  return r;
}

/* A prefix that its allocator's closer pinned: one reference after the other, until the plugin refuses. */
static void give_all_back(nx_allocator *a, nx_prefix *prefix) {
  while (take_out(prefix)) {
    NxmemStatus status;
    const nxmem_release_fate fate = nxmem_judge_deallocate(ask_release(a, &prefix->handle, &status));
    atomic_fetch_sub(&prefix->references, ONE_LEAVING);
    if (nxmem_final_fate(fate) == NXMEM_FATE_GONE) continue;
    quarantine_pinned(a, prefix, status.code);
    return;
  }
}

void nx_prefix_release_all(nx_allocator *a) {
  const uint64_t owner = nx_slot_handle(&a->slot);
  const uint32_t count = atomic_load(&nx_prefixes.count);
  for (uint32_t i = 0; i < count && nx_prefix_count(a) != 0; i++) {
    nx_prefix *prefix = (nx_prefix *)(void *)nx_table_at(&nx_prefixes, i);
    const uint64_t word = atomic_load(&prefix->slot.word);
    if (!nxmem_is_owned(word, NXMEM_SLOT_LIVE, atomic_load(&prefix->owner), owner)) continue;
    const nxmem_prefix handle = {nxmem_handle_make(i, nxmem_word_generation(word))};
    if (pin("close allocator", handle, prefix, NULL) != NXMEM_OK) continue;
    give_all_back(a, prefix);
    unpin(a, prefix);
  }
}

/* ---- What there is ----------------------------------------------------------------------------------------------- */

static nxmem_result next_commit(nx_allocator *a, const nx_prefix *prefix, uint64_t *out, nxmem_error *error) {
  const NxmemSharedMappingVtable *table = nx_sharing_of(a);
  const nxmem_result r = nx_need_slot(table->incremental_owned_bytes != NULL, "prefix info",
                                      "shared_mapping.incremental_owned_bytes", error);
  if (r != NXMEM_OK) return r;
  uint64_t bytes = NXMEM_UNWRITTEN_COUNT;
  const NxmemStatus answer = table->incremental_owned_bytes(table->ctx, &prefix->handle, &bytes);
  NxmemStatus status;
  if (nx_take_answer(&answer, &status) != NXMEM_STATUS_OK)
    return nx_fail_status(error, NXMEM_ERR_PLUGIN, &status, "prefix info");
  const uint64_t said = *(volatile uint64_t *)&bytes;
  const nxmem_verdict v = nxmem_judge_cost(said, 0, prefix->handle.requested_bytes, 0);
  if (v.reason == NXMEM_REASON_NONE) {
    *out = said;
    return NXMEM_OK;
  }
  nx_violation(a, v);
  return nx_fail_verdict(error, NXMEM_ERR_CONTRACT, v, "prefix info: incremental_owned_bytes");
}

nxmem_result nxmem_prefix_get_info(nxmem_prefix handle, nxmem_prefix_info *out, nxmem_error *error) {
  if (out == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "prefix info: out is NULL");
  nx_prefix *prefix = NULL;
  nx_allocator *a = NULL;
  nxmem_result r = nx_prefix_enter("prefix info", handle, &prefix, &a, error);
  if (r != NXMEM_OK) return r;
  uint64_t next = 0;
  r = next_commit(a, prefix, &next, error);
  if (r == NXMEM_OK)
    *out = (nxmem_prefix_info){.bytes = prefix->handle.requested_bytes,
                               .committed_physical_bytes = prefix->handle.committed_physical_bytes,
                               .mapped_bytes = prefix->handle.mapped_bytes,
                               .references = held(atomic_load(&prefix->references)),
                               .next_commit_owned_bytes = next};
  nx_prefix_leave(prefix, a);
  return r;
}
