/* Queued releases, and who may still name an allocator's callback slot. Private to the host. */
#ifndef NX_DEFERRED_H
#define NX_DEFERRED_H

#include "nxmem/verdict.h"
#include "objects.h"

/*
 * One queued release: its ticket stands apart from the record, so that a record which was freed and used again is
 * never written to.
 */
typedef struct nx_queue_entry {
  nx_slot slot;
  _Atomic uint64_t ticket;
} nx_queue_entry;

extern nx_table nx_queue;

/* ---- Shares ------------------------------------------------------------------------------------------------------ */

/* A slot that was just taken gets its open allocator's share, and nothing else. */
void nx_deferral_reset(nx_allocator *allocator, const nxmem_pin_source *pins);

/* One more share; 0 where there is none at all: the slot is free. [any-thread] */
int nx_share_take(nx_allocator *allocator);

/*
 * One share less. Who gives up the last one moves what is left of the books to the module and frees the slot.
 * [any-thread]
 */
void nx_share_give(nx_allocator *allocator);

/*
 * An allocator's mechanism id; 0 while it is being opened, when nobody knows it. The caller holds a share in it, or
 * is inside.
 */
uint64_t nx_mechanism_of(nx_allocator *allocator);

/* 1 where an allocator is closed and something can still name its slot. */
int nx_is_held(nx_allocator *allocator);

/* ---- Records ----------------------------------------------------------------------------------------------------- */

/*
 * The entry of a record whose release is queued; NULL where there never was one. Read before the record's word is
 * swapped, it belongs to that round.
 */
nx_queue_entry *nx_queue_entry_of(nx_allocation *record);

/*
 * Settled, whatever as: unpin, one queued release less, its share goes. The caller does not touch the allocator
 * afterwards unless it holds it otherwise.
 */
void nx_deferred_end(nx_allocator *allocator);

/*
 * Settle what a completion names, or say why not: nothing changed then.
 *
 * owner  Handle of the allocator through whose context it came; the caller holds a share in it.
 *
 * [any-thread]
 */
nxmem_verdict nx_deferred_complete(nx_allocator *allocator, uint64_t owner, const NxmemReleaseCompletion *completion);

/*
 * Let the plugin complete what it can before a close. The allocator's gate is shut and nobody is inside.
 * [runs plugin code]
 */
void nx_deferred_drain_all(nx_allocator *allocator);

#endif /* NX_DEFERRED_H */
