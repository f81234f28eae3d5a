/*
 * scripted_answers.c: mechanisms with an honest table whose slots answer falsely.
 *
 * Attackers: these are. Each row has one defect, which its name says; whatever it does not touch is honest.
 * Promise: a block whose address the host may hold quarantined is never freed, so the address is not issued again.
 */
#include <string.h>

#include "scripted_mechanisms.h"

/* ---- Allocate --------------------------------------------------------------------------------------------------- */

static NxmemStatus allocate_refuses(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  const NxmemStatus begun = nx_begin_allocate(ctx, request, result_out);
  if (begun.code != NXMEM_STATUS_OK) return begun;
  return nx_status(NXMEM_STATUS_OUT_OF_MEMORY, "nothing left");
}

/* Nothing lies behind NULL, so no block is recorded: the plugin's own report stays at zero. */
static NxmemStatus allocate_null(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  const NxmemStatus begun = nx_begin_allocate(ctx, request, result_out);
  if (begun.code == NXMEM_STATUS_OK) nx_write_result(result_out, NULL, request->bytes, request->bytes);
  return begun;
}

/* What a block that was recorded, or not, answers. */
static NxmemStatus answer(const nx_block *block, uint32_t code, uint64_t count, NxmemAllocResult *result_out) {
  if (block == NULL) return nx_status(code, "allocate: no memory, or the id is live already");
  nx_write_result(result_out, block->ptr, count, count);
  return nx_ok();
}

/* One byte beyond the alignment. With an alignment of 1 there is no such address. */
static NxmemStatus allocate_misaligned(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  const NxmemStatus begun = nx_begin_allocate(ctx, request, result_out);
  if (begun.code != NXMEM_STATUS_OK) return begun;
  uint32_t code = NXMEM_STATUS_OK;
  const nx_block *block = nx_block_new(ctx, request, 1u, &code);
  return answer(block, code, request->bytes, result_out);
}

/* The last aligned address there is. It wraps where bytes are more than the alignment. */
static NxmemStatus allocate_wrapping(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  const NxmemStatus begun = nx_begin_allocate(ctx, request, result_out);
  if (begun.code != NXMEM_STATUS_OK) return begun;
  uint32_t code = NXMEM_STATUS_OK;
  uint8_t *last = (uint8_t *)(uintptr_t)(UINT64_MAX - (request->align - 1u));
  const nx_block *block = nx_block_claim(ctx, request, last, &code);
  return answer(block, code, request->bytes, result_out);
}

static NxmemStatus allocate_huge(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  const NxmemStatus begun = nx_begin_allocate(ctx, request, result_out);
  if (begun.code != NXMEM_STATUS_OK) return begun;
  uint32_t code = NXMEM_STATUS_OK;
  const nx_block *block = nx_block_new(ctx, request, 0u, &code);
  return answer(block, code, UINT64_MAX, result_out);
}

/* While any block of the allocator is live, its address once more. */
static NxmemStatus allocate_same(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  nx_block taken;
  if (ctx == NULL || !nx_block_peek(ctx, &taken)) return nx_allocate(ctx, request, result_out);
  const NxmemStatus begun = nx_begin_allocate(ctx, request, result_out);
  if (begun.code != NXMEM_STATUS_OK) return begun;
  uint32_t code = NXMEM_STATUS_OK;
  const nx_block *block = nx_block_claim(ctx, request, taken.ptr, &code);
  return answer(block, code, request->bytes, result_out);
}

/* ---- Deallocate ------------------------------------------------------------------------------------------------- */

/* The first try of each allocation. */
static NxmemStatus deallocate_refuses(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped_out) {
  const NxmemStatus begun = nx_begin_deallocate(ctx, allocation, unmapped_out);
  if (begun.code != NXMEM_STATUS_OK) return begun;
  if (nx_block_tried(ctx, allocation) == 0u) return nx_status(NXMEM_STATUS_BUSY, "not yet");
  nx_uncount(NX_PROBE_DEALLOCATE_CALLS); /* the honest slot counts this call again */
  return nx_deallocate(ctx, allocation, unmapped_out);
}

static NxmemStatus deallocate_over_refunds(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped_out) {
  const NxmemStatus done = nx_deallocate(ctx, allocation, unmapped_out);
  if (done.code == NXMEM_STATUS_OK) *unmapped_out = UINT64_MAX;
  return done;
}

/* ---- Structured release ----------------------------------------------------------------------------------------- */

/* Take the block out for good and keep its memory. */
static NxmemStatus park(void *ctx, const NxmemAllocation *allocation, const NxmemReleaseOutcome *out, int as_live) {
  const NxmemStatus begun = nx_begin_release(ctx, allocation, out);
  if (begun.code != NXMEM_STATUS_OK) return begun;
  uint32_t code = NXMEM_STATUS_OK;
  nx_block *block = nx_block_take(ctx, allocation, &code);
  if (block == NULL) return nx_status(code, "release: not what was allocated");
  nx_block_park(block, as_live);
  return nx_ok();
}

static NxmemStatus release_quarantines(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *out) {
  const NxmemStatus done = park(ctx, allocation, out, 1);
  if (done.code != NXMEM_STATUS_OK) return done;
  nx_write_outcome(out, NXMEM_RELEASE_QUARANTINED, allocation->bytes, 0u, allocation->bytes,
                   nx_status(NXMEM_STATUS_DEVICE_ERROR, "the device still uses it"));
  return done;
}

static NxmemStatus release_into_the_future(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *out) {
  const NxmemStatus done = park(ctx, allocation, out, 1);
  if (done.code == NXMEM_STATUS_OK) nx_write_outcome(out, 77u, allocation->bytes, allocation->bytes, 0u, nx_ok());
  return done;
}

/* OK, and the record as the host handed it over. The plugin holds the block to be gone. */
static NxmemStatus release_silently(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *out) {
  return park(ctx, allocation, out, 0);
}

static NxmemStatus release_status_only(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *out) {
  const NxmemStatus done = park(ctx, allocation, out, 1);
  if (done.code != NXMEM_STATUS_OK) return done;
  return nx_status(NXMEM_STATUS_RELEASE_QUARANTINED, "kept");
}

/* The first try of each allocation. */
static NxmemStatus release_fails_first(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *out) {
  const NxmemStatus begun = nx_begin_release(ctx, allocation, out);
  if (begun.code != NXMEM_STATUS_OK) return begun;
  nx_uncount(NX_PROBE_RELEASE_ALLOCATION_CALLS); /* the honest slot counts this call again, or the line below does */
  if (nx_block_tried(ctx, allocation) != 0u) return nx_release_allocation(ctx, allocation, out);
  nx_count(NX_PROBE_RELEASE_ALLOCATION_CALLS);
  nx_write_outcome(out, NXMEM_RELEASE_FAILED, allocation->bytes, 0u, 0u, nx_status(NXMEM_STATUS_BUSY, "not yet"));
  return nx_ok();
}

/* ---- The rows --------------------------------------------------------------------------------------------------- */

#define SPOIL(name, slot, by) \
  static void name(NxmemAllocatorVtable *table) { table->slot = (by); }
SPOIL(refuse_allocate, allocate, allocate_refuses)
SPOIL(give_null, allocate, allocate_null)
SPOIL(give_misaligned, allocate, allocate_misaligned)
SPOIL(give_wrapping, allocate, allocate_wrapping)
SPOIL(give_huge, allocate, allocate_huge)
SPOIL(give_same, allocate, allocate_same)
SPOIL(refuse_deallocate, deallocate, deallocate_refuses)
SPOIL(over_refund, deallocate, deallocate_over_refunds)
SPOIL(quarantine, release_allocation, release_quarantines)
SPOIL(future_state, release_allocation, release_into_the_future)
SPOIL(no_outcome, release_allocation, release_silently)
SPOIL(status_only, release_allocation, release_status_only)
SPOIL(fail_first, release_allocation, release_fails_first)

#define ROW(row_name, flags, by) \
  { NX_HONEST(row_name, flags), .spoil = (by) }
/* Rows about deallocate do not offer a structured release: a host would take that one instead. */
#define PLAIN(row_name, by) ROW(row_name, NXMEM_CAP_ALLOCATOR, by)
#define STRUCTURED(row_name, by) ROW(row_name, NX_CAPS, by)

static const nx_mechanism rows[] = {
    PLAIN("allocate-refuses", refuse_allocate),
    PLAIN("null-address", give_null),
    PLAIN("misaligned-address", give_misaligned),
    PLAIN("wrapping-address", give_wrapping),
    PLAIN("huge-numbers", give_huge),
    PLAIN("same-address-twice", give_same),
    PLAIN("deallocate-refuses", refuse_deallocate),
    PLAIN("over-refund", over_refund),
    STRUCTURED("quarantining", quarantine),
    STRUCTURED("future-state", future_state),
    STRUCTURED("no-outcome", no_outcome),
    STRUCTURED("status-quarantined", status_only),
    STRUCTURED("failed-release", fail_first),
};
const nx_row_group nx_answer_rows = NX_ROWS(rows);
