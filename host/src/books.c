/*
 * books.c: charges and refunds.
 *
 * Attackers: a plugin that reports more bytes than exist, on several threads at once.
 * Promise: a total never passes its limit, and no more is refunded than was charged.
 *
 * Each stripe counts what its threads charged less what they refunded: the sum over all of them is what all records are charged with. An exclusive stripe also draws
 * bytes from the total before it needs them, so that most charges and refunds touch it alone: its room is what it has drawn and not charged. The total is what the
 * core judges: all that was drawn, and what the shared stripe is charged with. It never passes NXMEM_TOTAL_MAX and is raised before a charge and lowered after a
 * refund, so the charges never pass it. Of what one thread alone does the judgement is exact; the room of others, at most NX_ROOM_MAX each, counts as used.
 */
#include "books.h"

#include "nxmem/count.h"
#include "nxmem/outcome.h"
#include "record.h"

enum { ROOM_STEP = 1 << 20, NX_ROOM_MAX = 2 * ROOM_STEP };

static uint64_t get(_Atomic uint64_t *field) { return atomic_load_explicit(field, memory_order_relaxed); }
static void put(_Atomic uint64_t *field, uint64_t value) { atomic_store_explicit(field, value, memory_order_relaxed); }

/* This thread's share of one total. */
typedef struct purse {
  nx_counter *total;
  nx_counter *charged;
  nx_counter *drawn;
  int shared; /* other threads use it as well: it has no room, each charge is the total's */
} purse;

/* Where a plugin has limits its allocators share one total, and nobody draws ahead: the limit is exact. */
static purse owned_purse(nx_visit v) {
  nx_module *limits = v.allocator->limits;
  nx_counter *total = limits == NULL ? &v.allocator->owned : &limits->owned_total;
  return (purse){total, &v.stripe->owned, &v.stripe->owned_drawn, limits != NULL || !nx_visit_is_exclusive(v)};
}
static purse mapped_purse(nx_visit v) {
  nx_module *limits = v.allocator->limits;
  nx_counter *total = limits == NULL ? &v.allocator->mapped : &limits->mapped_total;
  return (purse){total, &v.stripe->mapped, &v.stripe->mapped_drawn, limits != NULL || !nx_visit_is_exclusive(v)};
}

/* ---- Room ----------------------------------------------------------------------------------------------------------- */

static uint64_t room_of(purse p) { return p.shared ? 0u : get(p.drawn) - get(p.charged); }

/* All of it back to the total: what is judged next is judged exactly, as far as this stripe goes. */
static NX_APART void give_room_back(purse p) {
  const uint64_t room = room_of(p);
  if (room == 0u) return;
  put(p.drawn, get(p.drawn) - room);
  atomic_fetch_sub(p.total, room);
}

/* Add to the total what will be charged, and a step of room where there is that much; 0 where it would grow too large. */
static int draw(purse p, uint64_t bytes) {
  uint64_t before = atomic_load(p.total), after = 0;
  do {
    if (!nxmem_total_add(before, bytes, &after)) return 0;
    if (!p.shared && bytes <= ROOM_STEP) (void)nxmem_total_add(after, ROOM_STEP, &after);
  } while (!atomic_compare_exchange_weak(p.total, &before, after));
  if (!p.shared) put(p.drawn, get(p.drawn) + (after - before));
  return 1;
}

/* What was drawn is not charged after all. */
static void undraw(purse p, uint64_t bytes) {
  if (p.shared)
    atomic_fetch_sub(p.total, bytes);
  else
    give_room_back(p);
}

/* ---- Charges -------------------------------------------------------------------------------------------------------- */

/* Of what there is room for, or was drawn. */
static void add_charge(purse p, uint64_t bytes) {
  if (p.shared)
    atomic_fetch_add(p.charged, bytes);
  else
    put(p.charged, get(p.charged) + bytes);
}

/* Room from now on, and the total's again where there is too much of it. */
static void drop_charge(purse p, uint64_t bytes) {
  if (p.shared) {
    atomic_fetch_sub(p.charged, bytes);
    atomic_fetch_sub(p.total, bytes);
    return;
  }
  const uint64_t charged = get(p.charged) - bytes;
  put(p.charged, charged);
  if (get(p.drawn) - charged > NX_ROOM_MAX) give_room_back(p);
}

static nxmem_verdict judge(const NxmemAllocResult *result, nx_allocation *record, uint64_t align, uint64_t owned_total,
                           uint64_t mapped_total) {
  return nxmem_check_alloc_result((uint64_t)(uintptr_t)result->ptr, result->owned_bytes, result->mapped_bytes,
                                  get(&record->bytes), align, owned_total, mapped_total);
}

/* Another thread may use up the room between judgement and charge: then the judgement is made again. */
static NX_APART nxmem_verdict draw_both(purse owned, purse mapped, nx_allocation *record, uint64_t align,
                                        const NxmemAllocResult *result) {
  give_room_back(owned);
  give_room_back(mapped);
  for (;;) {
    const nxmem_verdict v = judge(result, record, align, atomic_load(owned.total), atomic_load(mapped.total));
    if (v.reason != NXMEM_REASON_NONE) return v;
    if (!draw(owned, result->owned_bytes)) continue;
    if (draw(mapped, result->mapped_bytes)) return v;
    undraw(owned, result->owned_bytes);
  }
}

/* To the core, room is a total with just that much left. */
static nxmem_verdict find_room(purse owned, purse mapped, nx_allocation *record, uint64_t align,
                               const NxmemAllocResult *result) {
  const nxmem_verdict v =
      judge(result, record, align, NXMEM_TOTAL_MAX - room_of(owned), NXMEM_TOTAL_MAX - room_of(mapped));
  return v.reason == NXMEM_REASON_TOTAL_TOO_LARGE ? draw_both(owned, mapped, record, align, result) : v;
}

nxmem_verdict nx_books_charge(nx_visit visit, nx_allocation *record, const NxmemAllocResult *result) {
  const purse owned = owned_purse(visit), mapped = mapped_purse(visit);
  const nxmem_verdict v = find_room(owned, mapped, record, nx_record_align(record), result);
  if (v.reason != NXMEM_REASON_NONE) return v;
  add_charge(owned, result->owned_bytes);
  add_charge(mapped, result->mapped_bytes);
  put(&record->owned, result->owned_bytes);
  put(&record->mapped, result->mapped_bytes);
  return v;
}

/* Room for a rise from one number to another; 0 where there is none. */
static int raise(purse p, uint64_t before, uint64_t after) {
  if (after <= before || after - before <= room_of(p)) return 1;
  give_room_back(p);
  return draw(p, after - before);
}

static void change(purse p, uint64_t before, uint64_t after) {
  if (after > before)
    add_charge(p, after - before);
  else if (after < before)
    drop_charge(p, before - after);
}

int nx_books_move(nx_allocator *a, nx_allocation *record, uint64_t owned, uint64_t mapped) {
  const nx_visit visit = nx_visit_of(a);
  const purse own = owned_purse(visit), map = mapped_purse(visit);
  const uint64_t owned_before = get(&record->owned), mapped_before = get(&record->mapped);
  if (!raise(own, owned_before, owned)) return 0;
  if (!raise(map, mapped_before, mapped)) {
    if (owned > owned_before) undraw(own, owned - owned_before);
    return 0;
  }
  change(own, owned_before, owned);
  change(map, mapped_before, mapped);
  put(&record->owned, owned);
  put(&record->mapped, mapped);
  return 1;
}

int nx_books_own(nx_allocator *a, uint64_t bytes) {
  const purse own = owned_purse(nx_visit_of(a));
  if (!raise(own, 0, bytes)) return 0;
  add_charge(own, bytes);
  return 1;
}

void nx_books_disown(nx_allocator *a, uint64_t bytes) { drop_charge(owned_purse(nx_visit_of(a)), bytes); }

/* What nobody but this record is charged with does not touch the residual, which all threads share. */
nxmem_verdict nx_books_refund(nx_visit visit, nx_allocation *record, uint64_t reported) {
  nx_allocator *a = visit.allocator;
  const uint64_t charged = get(&record->mapped);
  nxmem_refund split;
  uint64_t residual = atomic_load(&a->residual);
  do {
    nxmem_settle_refund(reported, charged, residual, &split);
  } while (split.residual != residual && !atomic_compare_exchange_weak(&a->residual, &residual, split.residual));
  drop_charge(mapped_purse(visit), split.credited);
  drop_charge(owned_purse(visit), get(&record->owned));
  return nxmem_check_refund(reported, charged, split.excess);
}

uint64_t nx_books_owned_of(nx_allocation *record) { return get(&record->owned); }
uint64_t nx_books_mapped_of(nx_allocation *record) { return get(&record->mapped); }

void nx_books_quarantine_bytes(nx_allocator *a, uint64_t bytes) {
  nx_count(&a->quarantined);
  nx_add(&a->quarantined_bytes, bytes);
}

void nx_books_quarantine(nx_allocator *a, nx_allocation *record) { nx_books_quarantine_bytes(a, get(&record->bytes)); }

/* ---- Sums ----------------------------------------------------------------------------------------------------------- */

static void change_live(nx_visit visit, uint64_t by) {
  nx_counter *live = &visit.stripe->live;
  if (nx_visit_is_exclusive(visit))
    put(live, get(live) + by);
  else
    atomic_fetch_add(live, by);
}

void nx_books_add_live(nx_visit visit) { change_live(visit, 1u); }
void nx_books_drop_live(nx_visit visit) { change_live(visit, UINT64_MAX); }

/* Each part is as it was at one moment, but not all at the same: where an allocation moves from one stripe to another the sum may be below zero, which counts as none. */
static uint64_t at_least_none(uint64_t sum) { return sum > NXMEM_TOTAL_MAX ? 0u : sum; }

uint64_t nx_books_live(nx_allocator *a) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < NX_STRIPES; i++) sum += atomic_load(&a->stripes[i].live);
  return at_least_none(sum);
}

uint64_t nx_books_owned(nx_allocator *a) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < NX_STRIPES; i++) sum += atomic_load(&a->stripes[i].owned);
  return at_least_none(sum);
}

uint64_t nx_books_mapped(nx_allocator *a) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < NX_STRIPES; i++) sum += atomic_load(&a->stripes[i].mapped);
  return at_least_none(sum);
}

uint64_t nx_books_residual(nx_allocator *a) { return atomic_load(&a->residual); }

uint64_t nx_books_drawn_mapped(nx_allocator *a) {
  return atomic_load(a->limits == NULL ? &a->mapped : &a->limits->mapped_total);
}

/* What was charged to the plugin's limits for an allocator whose books are cleared. */
static void give_limits_back(nx_allocator *a) {
  if (a->limits == NULL) return;
  atomic_fetch_sub(&a->limits->owned_total, nx_books_owned(a));
  atomic_fetch_sub(&a->limits->mapped_total, nx_books_mapped(a));
}

/* `inside` is not reset: a stale handle may be counting itself in and out at this very moment. */
void nx_books_reset(nx_allocator *a) {
  give_limits_back(a);
  atomic_store(&a->quarantined, 0);
  atomic_store(&a->quarantined_bytes, 0);
  atomic_store(&a->owned, 0);
  atomic_store(&a->mapped, 0);
  atomic_store(&a->residual, 0);
  for (uint32_t i = 0; i < NX_STRIPES; i++) {
    atomic_store(&a->stripes[i].live, 0);
    atomic_store(&a->stripes[i].owned, 0);
    atomic_store(&a->stripes[i].owned_drawn, 0);
    atomic_store(&a->stripes[i].mapped, 0);
    atomic_store(&a->stripes[i].mapped_drawn, 0);
  }
}
