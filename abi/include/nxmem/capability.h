/*
 * capability.h: which capabilities exist at a level, and which ones an allocator effectively has.
 *
 * Attackers: a plugin that sets bits nobody defined, sets a bit without its slots, or ships a table it did not declare.
 * Promise: effective = declared and negotiated and defined at the effective level; what falls away is masked, neither judged nor called.
 */
#ifndef NXMEM_CAPABILITY_H
#define NXMEM_CAPABILITY_H

#include "nxmem/verdict.h"
#include "nxmem_memory_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Every bit this version knows, and what minor 0 knew. */
#define NXMEM_CAPS_KNOWN 31ull
#define NXMEM_CAPS_MINOR_0 15ull

#ifdef __FRAMAC__
/* Words of the contracts. GAP: an effective capability lacks its table or slot. LOOSE: a table stands behind a clear declared flag. */
#define NX_CAPS_AT(minor) ((minor) == 0 ? 15 : 31)
#define NX_HAS(flags, bit) (((flags) & (bit)) != 0)
#define NX_EFFECTIVE(declared, negotiated, minor) ((declared) & (negotiated) & NX_CAPS_AT(minor))
#define NX_TABLE_EFFECTIVE(t, negotiated) NX_EFFECTIVE((t)->capability_flags, negotiated, (t)->abi_minor)
#define NX_GAP_BACKING(t, e) (NX_HAS(e, 2) && (t)->virtual_backing == \null)
#define NX_GAP_SHARING(t, e) (NX_HAS(e, 4) && (t)->shared_mapping == \null)
#define NX_GAP_ENQUEUE(t, e) (NX_HAS(e, 8) && (t)->enqueue_release == \null)
#define NX_GAP_DRAIN(t, e) (NX_HAS(e, 8) && (t)->drain_releases == \null)
#define NX_GAP_PENDING(t, e) (NX_HAS(e, 8) && (t)->pending_release_count == \null)
#define NX_GAP_STRUCTURED(t, e) (NX_HAS(e, 16) && (t)->release_allocation == \null)
#define NX_GAP_TABLES(t, e) (NX_GAP_BACKING(t, e) || NX_GAP_SHARING(t, e))
#define NX_GAP_DEFERRED(t, e) (NX_GAP_ENQUEUE(t, e) || NX_GAP_DRAIN(t, e) || NX_GAP_PENDING(t, e))
#define NX_GAP(t, e) (NX_GAP_TABLES(t, e) || NX_GAP_DEFERRED(t, e) || NX_GAP_STRUCTURED(t, e))
#define NX_GAP_IS(v, at) NX_VERDICT_IS(v, NXMEM_REASON_FLAG_WITHOUT_SLOT, at, 0, 0)
#define NX_GAP_VERDICT(v, t, e) \
  ((NX_GAP_BACKING(t, e) ==> NX_GAP_IS(v, 80)) && \
   (!NX_GAP_BACKING(t, e) && NX_GAP_SHARING(t, e) ==> NX_GAP_IS(v, 88)) && \
   (!NX_GAP_TABLES(t, e) && NX_GAP_ENQUEUE(t, e) ==> NX_GAP_IS(v, 96)) && \
   (!NX_GAP_TABLES(t, e) && !NX_GAP_ENQUEUE(t, e) && NX_GAP_DRAIN(t, e) ==> NX_GAP_IS(v, 104)) && \
   (!NX_GAP_TABLES(t, e) && !NX_GAP_ENQUEUE(t, e) && !NX_GAP_DRAIN(t, e) && NX_GAP_PENDING(t, e) ==> \
    NX_GAP_IS(v, 112)) && \
   (!NX_GAP_TABLES(t, e) && !NX_GAP_DEFERRED(t, e) ==> NX_GAP_IS(v, 120)))
#define NX_LOOSE_BACKING(t) (!NX_HAS((t)->capability_flags, 2) && (t)->virtual_backing != \null)
#define NX_LOOSE_SHARING(t) (!NX_HAS((t)->capability_flags, 4) && (t)->shared_mapping != \null)
#define NX_LOOSE(t) (NX_LOOSE_BACKING(t) || NX_LOOSE_SHARING(t))
#define NX_LOOSE_VERDICT(v, t) \
  NX_VERDICT_IS(v, NXMEM_REASON_TABLE_WITHOUT_FLAG, (NX_LOOSE_BACKING(t) ? 80 : 88), 0, 0)
#define NX_UNKNOWN_CAPS(t, minor, ceiling) \
  ((minor) <= (ceiling) && ((t)->capability_flags & NX_CAPS_AT(minor)) != (t)->capability_flags)
#define NX_ALLOCATES(t, minor, ceiling, negotiated) \
  (!NX_UNKNOWN_CAPS(t, minor, ceiling) && NX_HAS(NX_TABLE_EFFECTIVE(t, negotiated), 1))
#endif

/* Bits that exist at a minor. A minor above ours is one we know nothing of: our own bits. */
/*@ assigns \nothing;
    ensures bits: \result == NX_CAPS_AT(minor); */
uint64_t nxmem_caps_at(uint32_t minor);

/* declared and negotiated and defined at the effective minor. */
/*@ assigns \nothing;
    ensures exactly: \result == NX_EFFECTIVE(declared, negotiated, effective_minor); */
uint64_t nxmem_caps_effective(uint64_t declared, uint64_t negotiated, uint32_t effective_minor);

/*
 * Judge an allocator table that nxmem_read_allocator accepted.
 *
 * table           The host's copy, already clamped.
 * declared_minor  What the table claimed. Above `ceiling`, unknown bits are masked (a sender ahead of us may know them); at or below it they are a violation.
 * negotiated      Capabilities both sides agreed on.
 * effective_out   Written only on NXMEM_REASON_NONE.
 *
 * UNKNOWN_CAPABILITY, NO_ALLOCATOR, FLAG_WITHOUT_SLOT (also for a missing capability table), TABLE_WITHOUT_FLAG: checked in this
 * order. A capability table behind a clear declared flag is a violation; a function slot behind one is legal and never called; a masked flag's
 * table is not judged.
 */
/*@ requires table_readable: \valid_read(table);
    requires out_writable: \valid(effective_out);
    requires apart: \separated(table, effective_out);
    assigns *effective_out;
    behavior unknown:
      assumes unknown_bit: NX_UNKNOWN_CAPS(table, declared_minor, ceiling);
      assigns \nothing;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_UNKNOWN_CAPABILITY, 24, table->capability_flags,
                                     NX_CAPS_AT(declared_minor));
    behavior no_allocator:
      assumes known_bits: !NX_UNKNOWN_CAPS(table, declared_minor, ceiling);
      assumes no_bit: !NX_HAS(NX_TABLE_EFFECTIVE(table, negotiated), 1);
      assigns \nothing;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_NO_ALLOCATOR, 24, table->capability_flags, 1);
    behavior without_slot:
      assumes allocates: NX_ALLOCATES(table, declared_minor, ceiling, negotiated);
      assumes gap: NX_GAP(table, NX_TABLE_EFFECTIVE(table, negotiated));
      assigns \nothing;
      ensures refused: NX_GAP_VERDICT(\result, table, NX_TABLE_EFFECTIVE(table, negotiated));
    behavior without_flag:
      assumes allocates: NX_ALLOCATES(table, declared_minor, ceiling, negotiated);
      assumes no_gap: !NX_GAP(table, NX_TABLE_EFFECTIVE(table, negotiated));
      assumes loose: NX_LOOSE(table);
      assigns \nothing;
      ensures refused: NX_LOOSE_VERDICT(\result, table);
    behavior usable:
      assumes allocates: NX_ALLOCATES(table, declared_minor, ceiling, negotiated);
      assumes no_gap: !NX_GAP(table, NX_TABLE_EFFECTIVE(table, negotiated));
      assumes none_loose: !NX_LOOSE(table);
      ensures accepted: NX_ACCEPTED(\result);
      ensures effective: *effective_out == NX_TABLE_EFFECTIVE(table, negotiated);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_capabilities(const NxmemAllocatorVtable *table, uint32_t declared_minor, uint32_t ceiling,
                                       uint64_t negotiated, uint64_t *effective_out);

/* REQUIRED_MISSING unless every bit of `required` is in `effective`. */
/*@ assigns \nothing;
    behavior missing:
      assumes lacks: (effective & required) != required;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_REQUIRED_MISSING, 0, effective, required);
    behavior met:
      assumes holds: (effective & required) == required;
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_required(uint64_t effective, uint64_t required);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_CAPABILITY_H */
