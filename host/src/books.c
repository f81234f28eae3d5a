/*
 * books.c: charges and refunds.
 *
 * Attackers: a plugin that reports more bytes than exist, on several threads at once.
 * Promise: a total never passes its limit, and no more is refunded than was charged.
 *
 * A total is what all records are charged with, and a little more: each stripe may hold spare bytes that the total counts already, so that most charges and refunds
 * touch only their thread's stripe. The total is what the core judges: it never passes NXMEM_TOTAL_MAX, so the charges never do. Of what one thread alone does the
 * judgement is exact; what others hold spare, at most NX_SPARE_MAX each, counts as used.
 */
#include "books.h"

#include "nxmem/count.h"
#include "nxmem/outcome.h"
#include "record.h"

enum { SPARE_STEP = 1 << 20, NX_SPARE_MAX = 2 * SPARE_STEP };

static uint64_t get(_Atomic uint64_t *field) { return atomic_load_explicit(field, memory_order_relaxed); }
static void put(_Atomic uint64_t *field, uint64_t value) { atomic_store_explicit(field, value, memory_order_relaxed); }

/* This thread's share of one total. */
typedef struct purse {
  nx_counter *total;
  nx_counter *spare;
  int shared; /* other threads use it as well */
} purse;

static purse owned_purse(nx_allocator *a, uint32_t stripe) {
  return (purse){&a->owned, &a->stripes[stripe].owned_spare, stripe == NX_SHARED_STRIPE};
}
static purse mapped_purse(nx_allocator *a, uint32_t stripe) {
  return (purse){&a->mapped, &a->stripes[stripe].mapped_spare, stripe == NX_SHARED_STRIPE};
}

/* ---- Spare bytes ---------------------------------------------------------------------------------------------------- */

/* 0 where there are not that many. */
static int take_spare(purse p, uint64_t bytes) {
  uint64_t spare = get(p.spare);
  if (!p.shared) {
    if (bytes > spare) return 0;
    put(p.spare, spare - bytes);
    return 1;
  }
  do {
    if (bytes > spare) return 0;
  } while (!atomic_compare_exchange_weak(p.spare, &spare, spare - bytes));
  return 1;
}

/* All of them back to the total: what is judged next is judged exactly, as far as this stripe goes. */
static NX_APART void give_spare_back(purse p) {
  uint64_t spare = get(p.spare);
  if (spare == 0u) return;
  if (p.shared)
    spare = atomic_exchange(p.spare, 0u);
  else
    put(p.spare, 0u);
  atomic_fetch_sub(p.total, spare);
}

/* A refund: spare from now on, and the total's again where there is too much of it. */
static void add_spare(purse p, uint64_t bytes) {
  if (bytes > SPARE_STEP) {
    atomic_fetch_sub(p.total, bytes);
    return;
  }
  uint64_t spare = get(p.spare) + bytes;
  if (p.shared)
    spare = atomic_fetch_add(p.spare, bytes) + bytes;
  else
    put(p.spare, spare);
  if (spare > NX_SPARE_MAX) give_spare_back(p);
}

/* Add to the total what is charged, and a step of spare bytes where there is room; 0 where it would grow too large. */
static int draw(purse p, uint64_t bytes) {
  uint64_t before = atomic_load(p.total), after = 0, more = 0;
  do {
    if (!nxmem_total_add(before, bytes, &after)) return 0;
    more = bytes <= SPARE_STEP && nxmem_total_add(after, SPARE_STEP, &after) ? SPARE_STEP : 0u;
  } while (!atomic_compare_exchange_weak(p.total, &before, after));
  if (more != 0u) add_spare(p, more);
  return 1;
}

/* ---- Charges -------------------------------------------------------------------------------------------------------- */

static int charge(purse p, uint64_t bytes) {
  if (take_spare(p, bytes)) return 1;
  give_spare_back(p);
  return draw(p, bytes);
}

static nxmem_verdict judge(const NxmemAllocResult *result, nx_allocation *record, uint64_t align, uint64_t owned_total,
                           uint64_t mapped_total) {
  return nxmem_check_alloc_result((uint64_t)(uintptr_t)result->ptr, result->owned_bytes, result->mapped_bytes,
                                  get(&record->bytes), align, owned_total, mapped_total);
}

/* Another thread may use up the room between judgement and charge: then the judgement is made again. */
static NX_APART nxmem_verdict charge_total(purse owned, purse mapped, nx_allocation *record, uint64_t align,
                                           const NxmemAllocResult *result) {
  give_spare_back(owned);
  give_spare_back(mapped);
  for (;;) {
    const nxmem_verdict v = judge(result, record, align, atomic_load(owned.total), atomic_load(mapped.total));
    if (v.reason != NXMEM_REASON_NONE) return v;
    if (!draw(owned, result->owned_bytes)) continue;
    if (draw(mapped, result->mapped_bytes)) return v;
    add_spare(owned, result->owned_bytes);
    give_spare_back(owned);
  }
}

/* To the core, room that is spare is a total with just that much room left. */
static nxmem_verdict charge_spare(purse owned, purse mapped, nx_allocation *record, uint64_t align,
                                  const NxmemAllocResult *result) {
  const nxmem_verdict v =
      judge(result, record, align, NXMEM_TOTAL_MAX - get(owned.spare), NXMEM_TOTAL_MAX - get(mapped.spare));
  if (v.reason == NXMEM_REASON_NONE && take_spare(owned, result->owned_bytes)) {
    if (take_spare(mapped, result->mapped_bytes)) return v;
    add_spare(owned, result->owned_bytes);
  } else if (v.reason != NXMEM_REASON_NONE && v.reason != NXMEM_REASON_TOTAL_TOO_LARGE) {
    return v;
  }
  return charge_total(owned, mapped, record, align, result);
}

nxmem_verdict nx_books_charge(nx_allocator *a, nx_allocation *record, const NxmemAllocResult *result) {
  const uint32_t stripe = nx_thread_self()->stripe;
  const nxmem_verdict v =
      charge_spare(owned_purse(a, stripe), mapped_purse(a, stripe), record, nx_record_align(record), result);
  if (v.reason != NXMEM_REASON_NONE) return v;
  put(&record->owned, result->owned_bytes);
  put(&record->mapped, result->mapped_bytes);
  return v;
}

/* From one number to another: a rise is charged, a fall is given back. */
static int move(purse p, uint64_t before, uint64_t after) {
  if (after > before) return charge(p, after - before);
  add_spare(p, before - after);
  return 1;
}

int nx_books_move(nx_allocator *a, nx_allocation *record, uint64_t owned, uint64_t mapped) {
  const uint32_t stripe = nx_thread_self()->stripe;
  const uint64_t owned_before = get(&record->owned), mapped_before = get(&record->mapped);
  if (owned > owned_before && !charge(owned_purse(a, stripe), owned - owned_before)) return 0;
  if (!move(mapped_purse(a, stripe), mapped_before, mapped)) {
    if (owned > owned_before) add_spare(owned_purse(a, stripe), owned - owned_before);
    return 0;
  }
  if (owned < owned_before) add_spare(owned_purse(a, stripe), owned_before - owned);
  put(&record->owned, owned);
  put(&record->mapped, mapped);
  return 1;
}

/* What nobody but this record is charged with does not touch the residual, which all threads share. */
int nx_books_refund(nx_allocator *a, nx_allocation *record, uint64_t reported) {
  const uint32_t stripe = nx_thread_self()->stripe;
  nxmem_refund split;
  uint64_t residual = atomic_load(&a->residual);
  do {
    nxmem_settle_refund(reported, get(&record->mapped), residual, &split);
  } while (split.residual != residual && !atomic_compare_exchange_weak(&a->residual, &residual, split.residual));
  add_spare(mapped_purse(a, stripe), split.credited);
  add_spare(owned_purse(a, stripe), get(&record->owned));
  return split.excess == 0;
}

uint64_t nx_books_owned_of(nx_allocation *record) { return get(&record->owned); }
uint64_t nx_books_mapped_of(nx_allocation *record) { return get(&record->mapped); }

void nx_books_quarantine_bytes(nx_allocator *a, uint64_t bytes) {
  nx_count(&a->quarantined);
  nx_add(&a->quarantined_bytes, bytes);
}

void nx_books_quarantine(nx_allocator *a, nx_allocation *record) { nx_books_quarantine_bytes(a, get(&record->bytes)); }

/* ---- Sums ----------------------------------------------------------------------------------------------------------- */

static void change_live(nx_allocator *a, uint64_t by) {
  const uint32_t stripe = nx_thread_self()->stripe;
  nx_counter *live = &a->stripes[stripe].live;
  if (stripe == NX_SHARED_STRIPE)
    atomic_fetch_add(live, by);
  else
    put(live, get(live) + by);
}

void nx_books_add_live(nx_allocator *a) { change_live(a, 1u); }
void nx_books_drop_live(nx_allocator *a) { change_live(a, UINT64_MAX); }

/* Seen while an allocation moves from one stripe to another, the sum may be off: below zero counts as none. */
uint64_t nx_books_live(nx_allocator *a) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < NX_STRIPES; i++) sum += atomic_load(&a->stripes[i].live);
  return sum > INT64_MAX ? 0u : sum;
}

static uint64_t less_spare(uint64_t total, uint64_t spare) { return total > spare ? total - spare : 0u; }

uint64_t nx_books_owned(nx_allocator *a) {
  uint64_t spare = 0;
  for (uint32_t i = 0; i < NX_STRIPES; i++) spare += atomic_load(&a->stripes[i].owned_spare);
  return less_spare(atomic_load(&a->owned), spare);
}

uint64_t nx_books_mapped(nx_allocator *a) {
  uint64_t spare = 0;
  for (uint32_t i = 0; i < NX_STRIPES; i++) spare += atomic_load(&a->stripes[i].mapped_spare);
  return less_spare(atomic_load(&a->mapped), spare);
}

uint64_t nx_books_residual(nx_allocator *a) { return atomic_load(&a->residual); }

/* `inside` is not reset: a stale handle may be counting itself in and out at this very moment. */
void nx_books_reset(nx_allocator *a) {
  atomic_store(&a->quarantined, 0);
  atomic_store(&a->quarantined_bytes, 0);
  atomic_store(&a->owned, 0);
  atomic_store(&a->mapped, 0);
  atomic_store(&a->residual, 0);
  for (uint32_t i = 0; i < NX_STRIPES; i++) {
    atomic_store(&a->stripes[i].live, 0);
    atomic_store(&a->stripes[i].owned_spare, 0);
    atomic_store(&a->stripes[i].mapped_spare, 0);
  }
}
