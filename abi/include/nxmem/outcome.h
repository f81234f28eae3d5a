/*
 * outcome.h: what an allocation's or a release's answer means for the books.
 *
 * Attackers: a plugin that answers OK with a NULL, misaligned or wrapping address, reports more bytes than exist, leaves its out-record unwritten, or
 * contradicts its own status.
 * Promise: totals never pass 2^63, a refund never exceeds what was charged, and every doubt is quarantine.
 */
#ifndef NXMEM_OUTCOME_H
#define NXMEM_OUTCOME_H

#include "nxmem/verdict.h"
#include "nxmem_memory_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Pre-filled into out-records, so that "unwritten" judges closed. */
#define NXMEM_UNWRITTEN_STATE 0xFFFFFFFFu
#define NXMEM_UNWRITTEN_COUNT 0xFFFFFFFFFFFFFFFFull

/* No total of bytes may pass this. */
#define NXMEM_TOTAL_MAX 0x8000000000000000ull

/*
 * Judge a caller's request before the plugin is asked: ZERO_BYTES, BAD_ALIGNMENT (zero or not a power of two), SIZE_WRAPS (bytes rounded
 * up to the alignment passes 2^64).
 */
nxmem_verdict nxmem_check_alloc_request(uint64_t bytes, uint64_t align);

/* Copy a result that the plugin may still be writing, each field once. */
void nxmem_alloc_result_take(NXMEM_UNTRUSTED NxmemAllocResult *src, NxmemAllocResult *out);

/*
 * Judge a successful answer. address is result->ptr as a number.
 *
 * owned_total, mapped_total  What the books hold already; at most NXMEM_TOTAL_MAX each.
 *
 * NULL_ADDRESS, MISALIGNED_ADDRESS, WRAPPING_ADDRESS (address + bytes passes 2^64), TOTAL_TOO_LARGE. The first is never handed back (it would free
 * another owner's memory); the others are handed back once.
 */
nxmem_verdict nxmem_check_alloc_result(uint64_t address, uint64_t owned_bytes, uint64_t mapped_bytes, uint64_t bytes,
                                       uint64_t align, uint64_t owned_total, uint64_t mapped_total);

/* What a release's answer makes of the allocation. */
typedef enum nxmem_release_fate {
  NXMEM_FATE_GONE = 0,       /* settled: the charge may be refunded */
  NXMEM_FATE_LIVE = 1,       /* nothing changed: may be tried again */
  NXMEM_FATE_QUARANTINED = 2 /* never handed out, never refunded */
} nxmem_release_fate;

/* deallocate: OK is gone, RELEASE_QUARANTINED is quarantine, any other status is live. */
nxmem_release_fate nxmem_judge_deallocate(uint32_t status_code);

/*
 * release_allocation: the status and the state it wrote.
 *
 * RELEASE_QUARANTINED is quarantine, whatever the record says. OK with COMPLETE is gone, OK with FAILED is live. A failing status is live only with a
 * record left unwritten or FAILED. Everything else is quarantine.
 */
nxmem_release_fate nxmem_judge_release(uint32_t status_code, uint32_t state);

/* Copy an outcome that the plugin may still be writing, each field once; its status through nxmem_status_take. */
void nxmem_outcome_take(NXMEM_UNTRUSTED NxmemReleaseOutcome *src, NxmemReleaseOutcome *out);

/* How a reported number of unmapped bytes is credited. */
typedef struct nxmem_refund {
  uint64_t from_charge;   /* credited against this allocation's own charge */
  uint64_t from_residual; /* credited against bytes that earlier releases of this allocator left mapped */
  uint64_t left;          /* of this allocation's charge: stays, joins the residual */
  uint64_t excess;        /* reported beyond both: never credited, a violation when not 0 */
} nxmem_refund;

/*
 * Split what a gone allocation's release reports. from_charge + left == charged; from_charge + from_residual + excess == reported.
 * So a plugin whose allocations share pages may report them with whichever release unmaps them, and none can refund more than was charged.
 */
void nxmem_settle_refund(uint64_t reported, uint64_t charged, uint64_t residual, nxmem_refund *out);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_OUTCOME_H */
