/* What an allocator holds: live allocations, bytes owned, bytes mapped. Private to the host. */
#ifndef NX_BOOKS_H
#define NX_BOOKS_H

#include "nxmem/verdict.h"
#include "objects.h"

/*
 * Judge an OK answer of an allocation and charge it to record and allocator; nothing changes where it is refused. The caller owns the
 * record, which is not LIVE yet. [any-thread]
 */
nxmem_verdict nx_books_charge(nx_visit visit, nx_allocation *record, const NxmemAllocResult *result);

/*
 * What a record owns and maps from now on; 0, and nothing changed, where a total would pass its limit. The caller owns the record or is the only one that
 * changes its charge. [any-thread]
 */
int nx_books_move(nx_allocator *allocator, nx_allocation *record, uint64_t owned, uint64_t mapped);

/* Bytes that no record owns: a prefix's. 0, and nothing changed, where the total would pass its limit. [any-thread] */
int nx_books_own(nx_allocator *allocator, uint64_t bytes);
void nx_books_disown(nx_allocator *allocator, uint64_t bytes);

/* What a record is charged. The caller owns the record or is a user of it. */
uint64_t nx_books_owned_of(nx_allocation *record);
uint64_t nx_books_mapped_of(nx_allocation *record);

/*
 * A record is gone: credit what the plugin reports as unmapped, never more than was charged. Where it reported more the verdict refuses: a violation, which
 * the caller counts. [any-thread]
 */
nxmem_verdict nx_books_refund(nx_visit visit, nx_allocation *record, uint64_t reported);

/* Count a record as quarantined; its charge stays. [any-thread] */
void nx_books_quarantine(nx_allocator *allocator, nx_allocation *record);

/* The same for something that has no record: a prefix. [any-thread] */
void nx_books_quarantine_bytes(nx_allocator *allocator, uint64_t bytes);

/* One more, one fewer live allocation. [any-thread] */
void nx_books_add_live(nx_visit visit);
void nx_books_drop_live(nx_visit visit);

/* Sums of moving things: each thread's part as it was at one moment, which nxmem.h promises of them. [any-thread] */
uint64_t nx_books_live(nx_allocator *allocator);
uint64_t nx_books_owned(nx_allocator *allocator);
uint64_t nx_books_mapped(nx_allocator *allocator);
/* What is mapped and what is drawn ahead, of the allocator or, where its plugin has limits, of the plugin: what a charge is judged by. [any-thread] */
uint64_t nx_books_drawn_mapped(nx_allocator *allocator);
/* Part of what is mapped that no live or quarantined allocation accounts for. */
uint64_t nx_books_residual(nx_allocator *allocator);

/* All to 0: the slot gets a new allocator. */
void nx_books_reset(nx_allocator *allocator);

#endif /* NX_BOOKS_H */
