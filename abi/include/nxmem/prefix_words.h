/*
 * prefix_words.h: words of the contracts in prefix.h. Only the proofs and the run-time checker include it.
 *
 * READABLE: what src must let us read, by the size it declares itself. COPIED: what an accepted table's copy equals.
 * GAP: the verdict on the first thing that a usable table lacks.
 */
#ifndef NXMEM_PREFIX_WORDS_H
#define NXMEM_PREFIX_WORDS_H

#include "nxmem/verdict.h"

#define NX_HEADER_READABLE(p) (\valid_read(&(p)->struct_size) && ((p)->struct_size >= 8 ==> \valid_read(&(p)->abi_minor)))
#define NX_SHORT_HEADER(p) (NX_USABLE(p) && (p)->struct_size < 8)
#define NX_SHORT_TABLE(p, bytes) (NX_USABLE(p) && 8 <= (p)->struct_size < (bytes))
#define NX_ADDRESS_REFUSED(v, p) \
  ((\old(NX_ADDRESS(p)) == 0 ==> NX_VERDICT_IS(v, NXMEM_REASON_NULL_POINTER, 0, 0, 0)) && \
   (\old(NX_ADDRESS(p)) % 8 != 0 ==> NX_VERDICT_IS(v, NXMEM_REASON_MISALIGNED, 0, \old(NX_ADDRESS(p)) % 8, 8)))
#define NX_HEADER_REFUSED(v, p) \
  (\old(NX_SHORT_HEADER(p)) ==> NX_VERDICT_IS(v, NXMEM_REASON_SHORT_HEADER, 0, (p)->struct_size, 8))
#define NX_TABLE_REFUSED(v, p, bytes) \
  (\old(NX_SHORT_TABLE(p, bytes)) ==> NX_VERDICT_IS(v, NXMEM_REASON_SHORT_TABLE, 0, (p)->struct_size, bytes))
#define NX_WHOLE_TABLE(p, bytes) (NX_USABLE(p) && (p)->struct_size >= 8 && (p)->struct_size >= (bytes))

#define NX_ALLOCATOR_NEEDS(minor) ((minor) == 0 ? 120 : 128)
#define NX_ALLOCATOR_READABLE(p) \
  (NX_HEADER_READABLE(p) && ((p)->struct_size >= 128 ==> \valid_read(&(p)->release_allocation)) && \
   ((p)->struct_size >= 120 ==> \
    \valid_read(&(p)->mechanism_id) && \valid_read(&(p)->device.tier) && \valid_read(&(p)->device.index) && \
    \valid_read(&(p)->capability_flags) && \valid_read(&(p)->name) && \valid_read(&(p)->ctx) && \
    \valid_read(&(p)->allocate) && \valid_read(&(p)->deallocate) && \valid_read(&(p)->retain) && \
    \valid_read(&(p)->release) && \valid_read(&(p)->virtual_backing) && \valid_read(&(p)->shared_mapping) && \
    \valid_read(&(p)->enqueue_release) && \valid_read(&(p)->drain_releases) && \
    \valid_read(&(p)->pending_release_count)))
#define NX_ALLOCATOR_COMPLETE(t) \
  ((t)->allocate != \null && (t)->deallocate != \null && (t)->retain != \null && (t)->release != \null && \
   (t)->mechanism_id != 0)
#define NX_ALLOCATOR_GAP(v, t) \
  (((t)->allocate == \null ==> NX_VERDICT_IS(v, NXMEM_REASON_MISSING_SLOT, 48, 0, 0)) && \
   ((t)->allocate != \null && (t)->deallocate == \null ==> NX_VERDICT_IS(v, NXMEM_REASON_MISSING_SLOT, 56, 0, 0)) && \
   ((t)->allocate != \null && (t)->deallocate != \null && (t)->retain == \null ==> \
    NX_VERDICT_IS(v, NXMEM_REASON_MISSING_SLOT, 64, 0, 0)) && \
   ((t)->allocate != \null && (t)->deallocate != \null && (t)->retain != \null && (t)->release == \null ==> \
    NX_VERDICT_IS(v, NXMEM_REASON_MISSING_SLOT, 72, 0, 0)) && \
   ((t)->allocate != \null && (t)->deallocate != \null && (t)->retain != \null && (t)->release != \null ==> \
    NX_VERDICT_IS(v, NXMEM_REASON_ZERO_MECHANISM, 8, 0, 0)))

#define NX_FACTORY_READABLE(p) \
  (NX_HEADER_READABLE(p) && \
   ((p)->struct_size >= 56 ==> \
    \valid_read(&(p)->name) && \valid_read(&(p)->device.tier) && \valid_read(&(p)->device.index) && \
    \valid_read(&(p)->capability_flags) && \valid_read(&(p)->ctx) && \valid_read(&(p)->open_allocator) && \
    \valid_read(&(p)->release)))
#define NX_FACTORY_COPIED(o, p) \
  ((o)->name == (p)->name && (o)->device.tier == (p)->device.tier && (o)->device.index == (p)->device.index && \
   (o)->capability_flags == (p)->capability_flags && (o)->ctx == (p)->ctx && \
   (o)->open_allocator == (p)->open_allocator && (o)->release == (p)->release)
#define NX_FACTORY_COMPLETE(t) ((t)->open_allocator != \null && (t)->release != \null)
#define NX_FACTORY_GAP(v, t) \
  (((t)->open_allocator == \null ==> NX_VERDICT_IS(v, NXMEM_REASON_MISSING_SLOT, 40, 0, 0)) && \
   ((t)->open_allocator != \null ==> NX_VERDICT_IS(v, NXMEM_REASON_MISSING_SLOT, 48, 0, 0)))

#define NX_BACKING_READABLE(p) \
  (NX_HEADER_READABLE(p) && \
   ((p)->struct_size >= 72 ==> \
    \valid_read(&(p)->mechanism_id) && \valid_read(&(p)->ctx) && \valid_read(&(p)->allocate_committed) && \
    \valid_read(&(p)->commit_range) && \valid_read(&(p)->decommit_range) && \
    \valid_read(&(p)->mapped_bytes_for_ranges) && \valid_read(&(p)->mapped_bytes_for_allocation) && \
    \valid_read(&(p)->committed_bytes)))
#define NX_BACKING_COPIED(o, p) \
  ((o)->mechanism_id == (p)->mechanism_id && (o)->ctx == (p)->ctx && \
   (o)->allocate_committed == (p)->allocate_committed && (o)->commit_range == (p)->commit_range && \
   (o)->decommit_range == (p)->decommit_range && (o)->mapped_bytes_for_ranges == (p)->mapped_bytes_for_ranges && \
   (o)->mapped_bytes_for_allocation == (p)->mapped_bytes_for_allocation && \
   (o)->committed_bytes == (p)->committed_bytes)

#define NX_SHARING_READABLE(p) \
  (NX_HEADER_READABLE(p) && \
   ((p)->struct_size >= 64 ==> \
    \valid_read(&(p)->mechanism_id) && \valid_read(&(p)->ctx) && \valid_read(&(p)->create_shared_prefix) && \
    \valid_read(&(p)->retain_shared_prefix) && \valid_read(&(p)->release_shared_prefix) && \
    \valid_read(&(p)->incremental_owned_bytes) && \valid_read(&(p)->commit_shared_prefix)))
#define NX_SHARING_COPIED(o, p) \
  ((o)->mechanism_id == (p)->mechanism_id && (o)->ctx == (p)->ctx && \
   (o)->create_shared_prefix == (p)->create_shared_prefix && \
   (o)->retain_shared_prefix == (p)->retain_shared_prefix && \
   (o)->release_shared_prefix == (p)->release_shared_prefix && \
   (o)->incremental_owned_bytes == (p)->incremental_owned_bytes && \
   (o)->commit_shared_prefix == (p)->commit_shared_prefix)

#define NX_MECHANISM_GAP(v, found_id, needed_id) \
  (((found_id) == 0 ==> NX_VERDICT_IS(v, NXMEM_REASON_ZERO_MECHANISM, 8, 0, 0)) && \
   ((found_id) != 0 ==> NX_VERDICT_IS(v, NXMEM_REASON_OTHER_MECHANISM, 8, found_id, needed_id)))

/* Racing world: what every reader's verdict says, whatever was loaded, and that no load lies outside what the verdict says was seen. */
#define NX_ADDRESS_JUDGED(v, p) \
  (((v).reason == NXMEM_REASON_NULL_POINTER <==> NX_ADDRESS(p) == 0) && \
   ((v).reason == NXMEM_REASON_MISALIGNED <==> NX_ADDRESS(p) % 8 != 0))
#define NX_HEADER_JUDGED(v) \
  ((v).reason == NXMEM_REASON_SHORT_HEADER ==> (v).field == 0 && (v).found < 8 && (v).needed == 8)
#define NX_TABLE_JUDGED(v) \
  ((v).reason == NXMEM_REASON_SHORT_TABLE ==> (v).field == 0 && 8 <= (v).found < (v).needed)
#define NX_NOTHING_BEYOND_HEADER(v) \
  (((v).reason == NXMEM_REASON_NULL_POINTER || (v).reason == NXMEM_REASON_MISALIGNED ==> NX_NOTHING_LOADED_FROM(0)) && \
   ((v).reason == NXMEM_REASON_SHORT_HEADER ==> NX_NOTHING_LOADED_FROM(4)) && \
   ((v).reason == NXMEM_REASON_SHORT_TABLE ==> NX_NOTHING_LOADED_FROM(8)))
#define NX_READ_REASON(v) \
  ((v).reason == NXMEM_REASON_NONE || (v).reason == NXMEM_REASON_NULL_POINTER || \
   (v).reason == NXMEM_REASON_MISALIGNED || (v).reason == NXMEM_REASON_SHORT_HEADER || \
   (v).reason == NXMEM_REASON_SHORT_TABLE)
#define NX_SLOT_REASON(v) (NX_READ_REASON(v) || (v).reason == NXMEM_REASON_MISSING_SLOT)

#endif /* NXMEM_PREFIX_WORDS_H */
