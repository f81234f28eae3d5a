/*
 * books.h: the figures of one mechanism on one device, since the module was loaded. All its engines write here.
 *
 * Attackers: none; many threads at once.
 * Promise: each figure is exact once the calls that change it have returned; none decides anything.
 */
#ifndef NX_VMM_BOOKS_H
#define NX_VMM_BOOKS_H

#include <stdatomic.h>
#include <stdint.h>

typedef _Atomic uint64_t nx_figure;

typedef struct nx_books {
  nx_figure reserved_bytes, committed_bytes, peak_committed_bytes, granule_bytes, granules_mapped, pool_bytes;
  nx_figure quarantined_bytes, quarantined_spans, poisoned_granules, refcount_underflows, bind_failures;
  nx_figure maps, unmaps; /* granules */
  nx_figure device_lost;
  nx_figure opened; /* engines, ever */
} nx_books;

static inline void nx_add(nx_figure *figure, uint64_t amount) {
  atomic_fetch_add_explicit(figure, amount, memory_order_relaxed);
}
static inline void nx_take(nx_figure *figure, uint64_t amount) {
  atomic_fetch_sub_explicit(figure, amount, memory_order_relaxed);
}
static inline uint64_t nx_read(const nx_figure *figure) { return atomic_load_explicit(figure, memory_order_relaxed); }

/* Committed bytes grow; the peak is the most there ever was at once. */
void nx_books_commit(nx_books *books, uint64_t bytes);

/* Add what a probe leaves: everything that is not a peak, a total of calls, or an opening. */
void nx_books_adopt(nx_books *books, const nx_books *from);

/* Take off what an engine still has in the figures when its device is gone. */
typedef struct nx_balance {
  uint64_t committed_bytes, granules_mapped, quarantined_bytes, quarantined_spans, poisoned_granules;
} nx_balance;
void nx_books_close(nx_books *books, const nx_balance *left);

/* What NxmemQueryUnloadReadiness reports, over all mechanisms of the module; live allocations the engines count themselves. */
typedef struct nx_report {
  nx_figure allocators, views, capabilities, queued;
} nx_report;
extern nx_report nx_the_report;

#endif /* NX_VMM_BOOKS_H */
