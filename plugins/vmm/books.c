/*
 * books.c: the figures of a mechanism, and what the unload report says.
 *
 * Attackers: none; many threads at once.
 * Promise: each figure is exact once the calls that change it have returned; none decides anything.
 */
#include "books.h"

#include "nxmem/arena.h"

nx_report nx_the_report;

void nx_books_commit(nx_books *books, uint64_t bytes) {
  const uint64_t now = atomic_fetch_add_explicit(&books->committed_bytes, bytes, memory_order_relaxed) + bytes;
  uint64_t peak = nx_read(&books->peak_committed_bytes);
  while (nxmem_peak(peak, now) != peak &&
         !atomic_compare_exchange_weak_explicit(&books->peak_committed_bytes, &peak, now, memory_order_relaxed,
                                                memory_order_relaxed)) {
  }
}

void nx_books_adopt(nx_books *books, const nx_books *from) {
  nx_add(&books->committed_bytes, nx_read(&from->committed_bytes));
  nx_add(&books->granules_mapped, nx_read(&from->granules_mapped));
  nx_add(&books->pool_bytes, nx_read(&from->pool_bytes));
  nx_add(&books->quarantined_bytes, nx_read(&from->quarantined_bytes));
  nx_add(&books->poisoned_granules, nx_read(&from->poisoned_granules));
  nx_add(&books->refcount_underflows, nx_read(&from->refcount_underflows));
  nx_add(&books->bind_failures, nx_read(&from->bind_failures));
  if (nx_read(&from->device_lost) != 0u) atomic_store(&books->device_lost, 1u);
}

void nx_books_close(nx_books *books, const nx_balance *left) {
  nx_take(&books->committed_bytes, left->committed_bytes);
  nx_take(&books->granules_mapped, left->granules_mapped);
  nx_take(&books->quarantined_bytes, left->quarantined_bytes);
  nx_take(&books->quarantined_spans, left->quarantined_spans);
  nx_take(&books->poisoned_granules, left->poisoned_granules);
}
