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

/* Bits that exist at a minor. A minor above ours is one we know nothing of: our own bits. */
uint64_t nxmem_caps_at(uint32_t minor);

/* declared and negotiated and defined at the effective minor. */
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
nxmem_verdict nxmem_check_capabilities(const NxmemAllocatorVtable *table, uint32_t declared_minor, uint32_t ceiling,
                                       uint64_t negotiated, uint64_t *effective_out);

/* REQUIRED_MISSING unless every bit of `required` is in `effective`. */
nxmem_verdict nxmem_check_required(uint64_t effective, uint64_t required);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_CAPABILITY_H */
