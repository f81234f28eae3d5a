/*
 * outcome.c: what an answer means for the books.
 *
 * Attackers: impossible addresses, impossible numbers, unwritten or contradictory records.
 * Promise: every doubt is quarantine; no sum wraps; no refund beyond the charge.
 */
#include "nxmem/outcome.h"

#include <stddef.h>

#include "load.h"
#include "nxmem/status.h"
#include "verdict_make.h"

enum { AT_PTR = 8, AT_OWNED_BYTES = 16, AT_MAPPED_BYTES = 24 };
enum { AT_ALLOCATION_PTR = 32, AT_ALLOCATION_BYTES = 40, AT_ALLOCATION_ALIGN = 48 };
#ifndef __FRAMAC__
_Static_assert(AT_ALLOCATION_PTR == offsetof(NxmemAllocation, ptr), "ptr");
_Static_assert(AT_ALLOCATION_BYTES == offsetof(NxmemAllocation, bytes), "bytes");
_Static_assert(AT_ALLOCATION_ALIGN == offsetof(NxmemAllocation, align), "align");
_Static_assert(AT_PTR == offsetof(NxmemAllocResult, ptr), "ptr");
_Static_assert(AT_OWNED_BYTES == offsetof(NxmemAllocResult, owned_bytes), "owned_bytes");
_Static_assert(AT_MAPPED_BYTES == offsetof(NxmemAllocResult, mapped_bytes), "mapped_bytes");
#endif

nxmem_verdict nxmem_check_alloc_request(uint64_t bytes, uint64_t align) {
  if (bytes == 0u) return nx_verdict(NXMEM_REASON_ZERO_BYTES, 0u, 0u, 1u);
  if (!nxmem_is_power_of_two(align)) return nx_verdict(NXMEM_REASON_BAD_ALIGNMENT, 0u, align, 1u);
  if (!nxmem_range_is_whole(bytes, align - 1u)) return nx_verdict(NXMEM_REASON_SIZE_WRAPS, 0u, bytes, align);
  return nx_accept();
}

void nxmem_alloc_result_take(NXMEM_UNTRUSTED NxmemAllocResult *src, NxmemAllocResult *out) {
  out->struct_size = NX_LOAD(NxmemAllocResult, src, struct_size);
  out->reserved = 0u;
  out->ptr = NX_LOAD(NxmemAllocResult, src, ptr);
  out->owned_bytes = NX_LOAD(NxmemAllocResult, src, owned_bytes);
  out->mapped_bytes = NX_LOAD(NxmemAllocResult, src, mapped_bytes);
}

nxmem_verdict nxmem_check_alloc_result(uint64_t address, uint64_t owned_bytes, uint64_t mapped_bytes, uint64_t bytes,
                                       uint64_t align, uint64_t owned_total, uint64_t mapped_total) {
  if (address == 0u) return nx_verdict(NXMEM_REASON_NULL_ADDRESS, AT_PTR, 0u, 0u);
  if (address % align != 0u) return nx_verdict(NXMEM_REASON_MISALIGNED_ADDRESS, AT_PTR, address, align);
  if (!nxmem_range_is_whole(address, bytes)) return nx_verdict(NXMEM_REASON_WRAPPING_ADDRESS, AT_PTR, address, bytes);
  if (owned_bytes > NXMEM_TOTAL_MAX - owned_total)
    return nx_verdict(NXMEM_REASON_TOTAL_TOO_LARGE, AT_OWNED_BYTES, owned_bytes, NXMEM_TOTAL_MAX - owned_total);
  if (mapped_bytes > NXMEM_TOTAL_MAX - mapped_total)
    return nx_verdict(NXMEM_REASON_TOTAL_TOO_LARGE, AT_MAPPED_BYTES, mapped_bytes, NXMEM_TOTAL_MAX - mapped_total);
  return nx_accept();
}

int nxmem_may_hand_back(uint32_t reason) {
  return reason == NXMEM_REASON_MISALIGNED_ADDRESS || reason == NXMEM_REASON_WRAPPING_ADDRESS ||
         reason == NXMEM_REASON_TOTAL_TOO_LARGE;
}

nxmem_verdict nxmem_check_named(const nxmem_named *named, const nxmem_named *books) {
  if (named->owner != books->owner) return nx_verdict(NXMEM_REASON_OTHER_OWNER, 0u, named->owner, books->owner);
  if (named->address != books->address)
    return nx_verdict(NXMEM_REASON_OTHER_ADDRESS, AT_ALLOCATION_PTR, named->address, books->address);
  if (named->bytes != 0u && named->bytes != books->bytes)
    return nx_verdict(NXMEM_REASON_OTHER_BYTES, AT_ALLOCATION_BYTES, named->bytes, books->bytes);
  if (named->align != 0u && named->align != books->align)
    return nx_verdict(NXMEM_REASON_OTHER_ALIGNMENT, AT_ALLOCATION_ALIGN, named->align, books->align);
  return nx_accept();
}

nxmem_release_fate nxmem_judge_deallocate(uint32_t status_code) {
  if (status_code == NXMEM_STATUS_OK) return NXMEM_FATE_GONE;
  if (status_code == NXMEM_STATUS_RELEASE_QUARANTINED) return NXMEM_FATE_QUARANTINED;
  return NXMEM_FATE_LIVE;
}

nxmem_release_fate nxmem_judge_release(uint32_t status_code, uint32_t state) {
  if (status_code == NXMEM_STATUS_RELEASE_QUARANTINED) return NXMEM_FATE_QUARANTINED;
  if (status_code == NXMEM_STATUS_OK && state == NXMEM_RELEASE_COMPLETE) return NXMEM_FATE_GONE;
  if (state == NXMEM_RELEASE_FAILED) return NXMEM_FATE_LIVE;
  if (status_code != NXMEM_STATUS_OK && state == NXMEM_UNWRITTEN_STATE) return NXMEM_FATE_LIVE;
  return NXMEM_FATE_QUARANTINED;
}

int nxmem_failure_says_why(uint32_t status_code, nxmem_release_fate fate) {
  return status_code == NXMEM_STATUS_OK && fate == NXMEM_FATE_LIVE;
}

nxmem_release_fate nxmem_final_fate(nxmem_release_fate fate) {
  return fate == NXMEM_FATE_GONE ? NXMEM_FATE_GONE : NXMEM_FATE_QUARANTINED;
}

void nxmem_outcome_take(NXMEM_UNTRUSTED NxmemReleaseOutcome *src, nxmem_outcome *out) {
  out->state = NX_LOAD(NxmemReleaseOutcome, src, state);
  out->unmapped_bytes = NX_LOAD(NxmemReleaseOutcome, src, unmapped_bytes);
  out->residual_owned_bytes = NX_LOAD(NxmemReleaseOutcome, src, residual_owned_bytes);
}

void nxmem_settle_refund(uint64_t reported, uint64_t charged, uint64_t residual, nxmem_refund *out) {
  out->from_charge = reported < charged ? reported : charged;
  out->left = charged - out->from_charge;
  const uint64_t beyond = reported - out->from_charge;
  out->from_residual = beyond < residual ? beyond : residual;
  out->excess = beyond - out->from_residual;
  out->credited = out->from_charge + out->from_residual;
  out->residual = nxmem_count_add(residual - out->from_residual, out->left);
}

nxmem_verdict nxmem_check_refund(uint64_t reported, uint64_t charged, uint64_t excess) {
  if (excess != 0u) return nx_verdict(NXMEM_REASON_TOTAL_TOO_LARGE, 0u, reported, charged);
  return nx_accept();
}
