/*
 * books.c: charges and refunds.
 *
 * Attackers: a plugin that reports more bytes than exist, on several threads at once.
 * Promise: a total never passes its limit, and no more is refunded than was charged.
 */
#include "books.h"

#include "nxmem/count.h"
#include "nxmem/outcome.h"

static uint64_t get(_Atomic uint64_t *field) { return atomic_load_explicit(field, memory_order_relaxed); }
static void put(_Atomic uint64_t *field, uint64_t value) { atomic_store_explicit(field, value, memory_order_relaxed); }

/* Add to a total; 0 where it would grow too large. */
static int charge(nx_counter *total, uint64_t bytes) {
  uint64_t before = atomic_load(total), after = 0;
  do {
    if (!nxmem_total_add(before, bytes, &after)) return 0;
  } while (!atomic_compare_exchange_weak(total, &before, after));
  return 1;
}

/* Another thread may use up the room between judgement and charge: then the judgement is made again. */
nxmem_verdict nx_books_charge(nx_allocator *a, nx_allocation *record, const NxmemAllocResult *result) {
  for (;;) {
    const nxmem_verdict v = nxmem_check_alloc_result((uint64_t)(uintptr_t)result->ptr, result->owned_bytes,
                                                     result->mapped_bytes, get(&record->bytes), get(&record->align),
                                                     atomic_load(&a->owned), atomic_load(&a->mapped));
    if (v.reason != NXMEM_REASON_NONE) return v;
    if (!charge(&a->owned, result->owned_bytes)) continue;
    if (charge(&a->mapped, result->mapped_bytes)) {
      put(&record->owned, result->owned_bytes);
      put(&record->mapped, result->mapped_bytes);
      return v;
    }
    atomic_fetch_sub(&a->owned, result->owned_bytes);
  }
}

/* From one number to another: a rise is charged, a fall is given back. */
static int move(nx_counter *total, uint64_t before, uint64_t after) {
  if (after >= before) return charge(total, after - before);
  atomic_fetch_sub(total, before - after);
  return 1;
}

int nx_books_move(nx_allocator *a, nx_allocation *record, uint64_t owned, uint64_t mapped) {
  const uint64_t owned_before = get(&record->owned), mapped_before = get(&record->mapped);
  if (!move(&a->owned, owned_before, owned)) return 0;
  if (!move(&a->mapped, mapped_before, mapped)) {
    (void)move(&a->owned, owned, owned_before);
    return 0;
  }
  put(&record->owned, owned);
  put(&record->mapped, mapped);
  return 1;
}

int nx_books_refund(nx_allocator *a, nx_allocation *record, uint64_t reported) {
  nxmem_refund split;
  uint64_t residual = atomic_load(&a->residual);
  do {
    nxmem_settle_refund(reported, get(&record->mapped), residual, &split);
  } while (!atomic_compare_exchange_weak(&a->residual, &residual, split.residual));
  atomic_fetch_sub(&a->mapped, split.credited);
  atomic_fetch_sub(&a->owned, get(&record->owned));
  return split.excess == 0;
}

uint64_t nx_books_owned_of(nx_allocation *record) { return get(&record->owned); }
uint64_t nx_books_mapped_of(nx_allocation *record) { return get(&record->mapped); }

void nx_books_quarantine_bytes(nx_allocator *a, uint64_t bytes) {
  nx_count(&a->quarantined);
  nx_add(&a->quarantined_bytes, bytes);
}

void nx_books_quarantine(nx_allocator *a, nx_allocation *record) { nx_books_quarantine_bytes(a, get(&record->bytes)); }

void nx_books_add_live(nx_allocator *a) { atomic_fetch_add(&a->live, 1u); }
void nx_books_drop_live(nx_allocator *a) { atomic_fetch_sub(&a->live, 1u); }

uint64_t nx_books_live(nx_allocator *a) { return atomic_load(&a->live); }
uint64_t nx_books_owned(nx_allocator *a) { return atomic_load(&a->owned); }
uint64_t nx_books_mapped(nx_allocator *a) { return atomic_load(&a->mapped); }
uint64_t nx_books_residual(nx_allocator *a) { return atomic_load(&a->residual); }

void nx_books_reset(nx_allocator *a) {
  atomic_store(&a->live, 0);
  atomic_store(&a->quarantined, 0);
  atomic_store(&a->quarantined_bytes, 0);
  atomic_store(&a->owned, 0);
  atomic_store(&a->mapped, 0);
  atomic_store(&a->residual, 0);
}
