/*
 * record.c: which allocation is meant, and who may have it.
 *
 * Attackers: callers with stale, foreign or doubled handles, or with wrong words about right ones, on many threads.
 * Promise: what the caller says is compared before a slot is claimed, so a wrong word changes nothing; of several claims one wins.
 *
 * R1 and R2 are steps of proofs/models/release_race.pml.
 */
#include "record.h"

#include <inttypes.h>
#include <stdlib.h>

#include "error.h"
#include "nxmem/handle.h"
#include "nxmem/pin.h"

static uint64_t get(_Atomic uint64_t *field) { return atomic_load_explicit(field, memory_order_relaxed); }
static void put(_Atomic uint64_t *field, uint64_t value) { atomic_store_explicit(field, value, memory_order_relaxed); }

/*
 * slot.extra: the owner's slot, the power of two it is aligned to, two flags. The owner's generation need not be kept: an allocator's slot has no other owner while
 * a record says that it is its.
 */
enum { EXTRA_ALIGN_BITS = 6, EXTRA_INDEXED = 1 << 6, EXTRA_MAPS = 1 << 7, EXTRA_OWNER_SHIFT = 8 };

static uint32_t extra_of(nx_allocation *record) {
  return atomic_load_explicit(&record->slot.extra, memory_order_relaxed);
}
static uint32_t owner_in(uint32_t extra) { return extra >> EXTRA_OWNER_SHIFT; }
static uint64_t align_in(uint32_t extra) { return 1ull << (extra % (1u << EXTRA_ALIGN_BITS)); }
static uint32_t owner_slot(nx_allocation *record) { return owner_in(extra_of(record)); }

uint64_t nx_record_align(nx_allocation *record) { return align_in(extra_of(record)); }

uint64_t nx_record_owner(nx_allocation *record) {
  nx_slot *owner = nx_table_at(&nx_allocators, owner_slot(record));
  return owner == NULL ? 0u : nx_slot_handle(owner);
}

int nx_record_is_of(nx_allocation *record, uint64_t allocator) {
  return owner_slot(record) == nxmem_handle_slot(allocator);
}

int nx_record_is_indexed(nx_allocation *record) { return (extra_of(record) & EXTRA_INDEXED) != 0u; }

static void set_flag(nx_allocation *record, uint32_t flag, int on) {
  const uint32_t without = extra_of(record) & ~flag;
  atomic_store_explicit(&record->slot.extra, without | (on ? flag : 0u), memory_order_relaxed);
}

void nx_record_set_indexed(nx_allocation *record, int indexed) { set_flag(record, EXTRA_INDEXED, indexed); }

int nx_record_maps(nx_allocation *record) { return (extra_of(record) & EXTRA_MAPS) != 0u; }

void nx_record_set_maps(nx_allocation *record, int maps) { set_flag(record, EXTRA_MAPS, maps); }

/* As many numbers as a chunk has records, made when the first of them is asked for. */
static _Atomic(_Atomic uint32_t *) beside[NX_BESIDES][NX_CHUNKS_MAX];

/* What is no index, because the record is free, leads to some number or none, never out of the tables. */
uint32_t nx_record_number_beside(nx_allocation *record, nx_beside which) {
  const uint32_t self = record->slot.self, in_chunk = 1u << nx_allocations.chunk_shift;
  _Atomic uint32_t *numbers =
      atomic_load_explicit(&beside[which][self / in_chunk % NX_CHUNKS_MAX], memory_order_acquire);
  return numbers == NULL ? 0u : atomic_load_explicit(numbers + self % in_chunk, memory_order_relaxed);
}

_Atomic uint32_t *nx_record_beside(nx_allocation *record, nx_beside which) {
  const uint32_t self = record->slot.self, in_chunk = 1u << nx_allocations.chunk_shift;
  _Atomic(_Atomic uint32_t *) *chunk = &beside[which][self / in_chunk];
  _Atomic uint32_t *numbers = atomic_load_explicit(chunk, memory_order_acquire);
  if (numbers == NULL) {
    _Atomic uint32_t *fresh = calloc(in_chunk, sizeof *fresh);
    if (fresh == NULL) return NULL;
    if (atomic_compare_exchange_strong(chunk, &numbers, fresh))
      numbers = fresh;
    else
      free((void *)fresh);
  }
  return numbers + self % in_chunk;
}

static nx_claimed found(nx_allocation *record, uint64_t id, uint32_t extra) {
  return (nx_claimed){.record = record,
                      .id = id,
                      .ptr = atomic_load_explicit(&record->ptr, memory_order_relaxed),
                      .bytes = get(&record->bytes),
                      .align = align_in(extra)};
}

nx_claimed nx_record_look(nx_allocation *record) {
  return found(record, nx_slot_handle(&record->slot), extra_of(record));
}

NxmemAllocation nx_claimed_describe(const nx_allocator *a, const nx_claimed *claimed) {
  const NxmemAllocation described = {
      .struct_size = sizeof described,
      .reserved = 0,
      .mechanism_id = a->table.mechanism_id,
      .allocation_id = claimed->id,
      .device = a->table.device,
      .ptr = claimed->ptr,
      .bytes = claimed->bytes,
      .align = claimed->align,
  };
  return described;
}

NxmemAllocation nx_record_describe(nx_allocator *a, nx_allocation *record) {
  const nx_claimed claimed = nx_record_look(record);
  return nx_claimed_describe(a, &claimed);
}

uint64_t nx_record_begin(nx_allocation *record, nxmem_allocator owner, uint64_t bytes, uint64_t align) {
  const uint32_t extra = nxmem_handle_slot(owner.id) << EXTRA_OWNER_SHIFT | (uint32_t)__builtin_ctzll(align);
  atomic_store_explicit(&record->slot.extra, extra, memory_order_relaxed);
  put(&record->bytes, bytes);
  atomic_store_explicit(&record->ptr, NULL, memory_order_relaxed);
  put(&record->owned, 0);
  put(&record->mapped, 0);
  const uint64_t id = nx_slot_handle(&record->slot);
  nx_slot_show(&record->slot, id, NXMEM_SLOT_ALLOCATING);
  return id;
}

static NX_APART nxmem_result refuse_claim(const char *verb, nxmem_verdict v, nxmem_error *error) {
  if (v.reason == NXMEM_REASON_TOO_MANY_USERS) return nx_fail_verdict(error, NXMEM_ERR_BUSY, v, "%s", verb);
  const nxmem_presence presence = nxmem_presence_of(v);
  if (presence == NXMEM_PRESENCE_LEAVING || presence == NXMEM_PRESENCE_LIVE)
    return nx_fail_verdict(error, NXMEM_ERR_BUSY, v, "%s: its release is queued or another call is at it", verb);
  if (presence == NXMEM_PRESENCE_KEPT)
    return nx_fail_verdict(error, NXMEM_ERR_QUARANTINED, v, "%s: quarantined before", verb);
  return nx_fail_verdict(error, NXMEM_ERR_STALE_HANDLE, v, "%s: not a live allocation", verb);
}

static const char *mismatch_word(uint32_t reason) {
  if (reason == NXMEM_REASON_OTHER_ADDRESS) return "address";
  return reason == NXMEM_REASON_OTHER_BYTES ? "bytes" : "alignment";
}

/* Where the slot was freed and taken again while it was compared, the words are another allocation's: it is the handle that is stale. */
static NX_APART nxmem_result refuse_named(const nx_naming *naming, nx_allocation *record, nxmem_verdict v,
                                          nxmem_error *error) {
  const char *verb = naming->verb;
  const uint64_t word = atomic_load(&record->slot.word), id = naming->allocation.id;
  if (!nxmem_same_generation(word, id)) return refuse_claim(verb, nxmem_check_claim(word, id), error);
  if (v.reason == NXMEM_REASON_OTHER_OWNER)
    return nx_fail(error, NXMEM_ERR_WRONG_OWNER, "%s: found an allocation of another allocator", verb);
  (void)nx_fail(error, NXMEM_ERR_MISMATCH, "%s: %s: found 0x%" PRIx64 ", needed 0x%" PRIx64, verb,
                mismatch_word(v.reason), v.found, v.needed);
  if (error != NULL) {
    error->found = v.found;
    error->needed = v.needed;
  }
  return NXMEM_ERR_MISMATCH;
}

/* What the caller says against the record, before the slot is claimed. */
static nxmem_verdict check_named(const nx_claimed *there, uint32_t extra, const nx_naming *naming) {
  const nxmem_named said = {.owner = nxmem_handle_slot(naming->allocator.id),
                            .address = (uintptr_t)naming->allocation.ptr,
                            .bytes = naming->bytes,
                            .align = naming->align};
  const nxmem_named books = {
      .owner = owner_in(extra), .address = (uintptr_t)there->ptr, .bytes = there->bytes, .align = there->align};
  return nxmem_check_named(&said, &books);
}

/* What is found before the slot is claimed stays true: its word was of this generation and LIVE before and is swapped as such behind. */
nxmem_result nx_record_claim_at(nx_allocation *record, const nx_naming *naming, nxmem_slot_state to, nx_claimed *out,
                                nxmem_error *error) {
  const uint64_t id = naming->allocation.id;
  const uint64_t word = atomic_load(&record->slot.word);
  if (!nxmem_is_claimable(word, id)) return refuse_claim(naming->verb, nxmem_check_claim(word, id), error); /* R1 */
  const uint32_t extra = extra_of(record);
  const nx_claimed there = found(record, id, extra);
  const nxmem_verdict said = check_named(&there, extra, naming);
  if (said.reason != NXMEM_REASON_NONE) return refuse_named(naming, record, said, error);
  if (!nx_slot_move(&record->slot, id, NXMEM_SLOT_LIVE, to)) /* R2 */
    return refuse_claim(naming->verb, nxmem_check_lost_claim(atomic_load(&record->slot.word), id), error);
  *out = there;
  return NXMEM_OK;
}

nxmem_result nx_record_claim_found(const nx_naming *naming, nxmem_slot_state to, nx_claimed *out, nxmem_error *error) {
  nx_allocation *record = nx_allocation_of(naming->allocation.id);
  if (record == NULL) return nx_fail(error, NXMEM_ERR_STALE_HANDLE, "%s: the handle was never issued", naming->verb);
  return nx_record_claim_at(record, naming, to, out, error);
}

nxmem_result nx_record_claim(const nx_naming *naming, nxmem_slot_state to, nx_allocation **out, nxmem_error *error) {
  nx_claimed claimed;
  const nxmem_result r = nx_record_claim_found(naming, to, &claimed, error);
  if (r == NXMEM_OK) *out = claimed.record;
  return r;
}

nxmem_result nx_record_pin(const nx_naming *naming, nx_allocation **out, nxmem_error *error) {
  const uint64_t id = naming->allocation.id;
  nx_allocation *record = nx_allocation_of(id);
  if (record == NULL) return nx_fail(error, NXMEM_ERR_STALE_HANDLE, "%s: the handle was never issued", naming->verb);
  uint64_t word = atomic_load(&record->slot.word);
  do {
    const nxmem_verdict pin = nxmem_check_pin(word, id);
    if (pin.reason != NXMEM_REASON_NONE) return refuse_claim(naming->verb, pin, error);
    const uint32_t extra = extra_of(record);
    const nx_claimed there = found(record, id, extra);
    const nxmem_verdict said = check_named(&there, extra, naming);
    if (said.reason != NXMEM_REASON_NONE) return refuse_named(naming, record, said, error);
  } while (!atomic_compare_exchange_weak(&record->slot.word, &word, nxmem_word_pinned(word))); /* S1 */
  *out = record;
  return NXMEM_OK;
}

/* The word is read before the owner and swapped as it was read: between the two the slot may have been freed and handed to somebody else. */
int nx_record_claim_owned(nx_allocation *record, nxmem_allocator owner, nxmem_slot_state state) {
  const uint64_t word = atomic_load(&record->slot.word);
  if (!nxmem_is_owned(word, state, owner_slot(record), nxmem_handle_slot(owner.id))) return 0;
  const uint64_t handle = nxmem_handle_make(record->slot.self, nxmem_word_generation(word));
  return nx_slot_move(&record->slot, handle, state, NXMEM_SLOT_RELEASING);
}
