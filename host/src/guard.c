/*
 * guard.c: an address belongs to one record at a time.
 *
 * Attackers: a plugin that hands out what is live, or takes back an address, hands it out again and then says that the first is still live.
 * Promise: of records that overlap at most one is entered; the core says whether they do.
 */
#include "guard.h"

#include "nxmem/overlap.h"
#include "nxmem/range.h"
#include "record.h"

void nx_guard_set(nx_allocator *a, nx_space *space) { a->space = space; }

static uint64_t address_of(nx_allocation *record) {
  return (uint64_t)(uintptr_t)atomic_load_explicit(&record->ptr, memory_order_relaxed);
}
static uint64_t bytes_of(nx_allocation *record) { return atomic_load_explicit(&record->bytes, memory_order_relaxed); }

nx_put nx_guard_enter(nx_allocator *a, nx_allocation *record, nxmem_verdict *v) {
  if (a->space == NULL || nx_record_is_indexed(record)) return NX_PUT_DONE;
  uint64_t other = 0, other_bytes = 0;
  const nx_put put = nx_index_put(a->space, address_of(record), bytes_of(record), &other, &other_bytes);
  if (put == NX_PUT_DONE) nx_record_set_indexed(record, 1);
  if (put == NX_PUT_TAKEN) *v = nxmem_check_apart(address_of(record), bytes_of(record), other, other_bytes);
  return put;
}

void nx_guard_leave(nx_allocator *a, nx_allocation *record) {
  if (a->space == NULL || !nx_record_is_indexed(record)) return;
  nx_record_set_indexed(record, 0);
  nx_index_drop(a->space, address_of(record), bytes_of(record));
}

void nx_guard_keep(nx_allocator *a, nx_allocation *record) {
  if (a->space == NULL || address_of(record) == 0 || !nxmem_range_is_whole(address_of(record), bytes_of(record)))
    return;
  if (atomic_fetch_add(&a->space->kept, 1u) >= NX_KEPT_MAX) {
    atomic_fetch_sub(&a->space->kept, 1u);
    return;
  }
  uint64_t other = 0, other_bytes = 0;
  if (nx_index_put(a->space, address_of(record), bytes_of(record), &other, &other_bytes) != NX_PUT_DONE)
    atomic_fetch_sub(&a->space->kept, 1u);
}
