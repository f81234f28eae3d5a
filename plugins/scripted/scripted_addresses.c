/*
 * scripted_addresses.c: mechanisms that hand out addresses, sizes and refunds that cannot be.
 *
 * Attackers: these are. An address that belongs to another block is only told, never used; where a request cannot
 * overlap as the name says, the allocation is honest (README.md says what to ask for).
 * Promise: a block whose address the host may hold quarantined is never freed, so the address is not issued again.
 */
#include <stdlib.h>
#include <string.h>

#include "scripted_mechanisms.h"

static NxmemStatus told(nx_block *block, uint32_t code, NxmemAllocResult *result_out) {
  if (block == NULL) return nx_status(code, "allocate: no memory, or the id is live already");
  nx_write_result(result_out, block->ptr, block->bytes, block->bytes);
  return nx_ok();
}

/* ---- Overlaps ---------------------------------------------------------------------------------------------------- */

/* Where the request would lie so that it overlaps a live block, or NULL. */
typedef uint8_t *(*nx_place_over)(const nx_block *live, const NxmemAllocRequest *request);

/* From its last aligned address on, and beyond its end. */
static uint8_t *over_the_end(const nx_block *live, const NxmemAllocRequest *request) {
  const uint64_t offset = (live->bytes - 1u) / request->align * request->align;
  return offset == 0u || offset + request->bytes <= live->bytes ? NULL : live->ptr + offset;
}

/* From one alignment before it, to somewhere inside. */
static uint8_t *over_the_start(const nx_block *live, const NxmemAllocRequest *request) {
  const int reaches = request->bytes > request->align && request->bytes - request->align < live->bytes;
  return reaches ? live->ptr - request->align : NULL;
}

static uint8_t *inside(const nx_block *live, const NxmemAllocRequest *request) {
  return request->align + request->bytes < live->bytes ? live->ptr + request->align : NULL;
}

static uint8_t *around(const nx_block *live, const NxmemAllocRequest *request) {
  return request->bytes > request->align + live->bytes ? live->ptr - request->align : NULL;
}

static NxmemStatus allocate_over(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out,
                                 const nx_allocator *owner_of_live, nx_place_over place) {
  const NxmemStatus begun = nx_begin_allocate(ctx, request, result_out);
  if (begun.code != NXMEM_STATUS_OK) return begun;
  nx_block live;
  uint32_t code = NXMEM_STATUS_OK;
  const int there = owner_of_live != NULL && nx_block_peek(owner_of_live, &live);
  uint8_t *ptr = there && (uintptr_t)live.ptr % request->align == 0u ? place(&live, request) : NULL;
  if (ptr != NULL) {
    nx_block *block = nx_block_claim(ctx, request, ptr, &code);
    return told(block, code, result_out);
  }
  nx_uncount(NX_PROBE_ALLOCATE_CALLS); /* the honest slot counts this call again */
  return nx_allocate(ctx, request, result_out);
}

static uint8_t *the_same(const nx_block *live, const NxmemAllocRequest *request) {
  (void)request;
  return live->ptr;
}

#define OVER(name, owner, place)                                                                       \
  static NxmemStatus name(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) { \
    return allocate_over(ctx, request, result_out, ctx == NULL ? NULL : (owner), place);               \
  }
OVER(allocate_end, ctx, over_the_end)
OVER(allocate_start, ctx, over_the_start)
OVER(allocate_inside, ctx, inside)
OVER(allocate_around, ctx, around)
/* A live block of another allocator that was opened from the same factory. */
OVER(allocate_siblings, nx_sibling_of(ctx), the_same)

/* ---- reissues-quarantined: what a release has kept for good is handed out again ---------------------------------- */

/* One thread: the allocator's own record of what it kept last. */
static NxmemStatus release_keeps(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *outcome_out) {
  const NxmemStatus begun = nx_begin_release(ctx, allocation, outcome_out);
  if (begun.code != NXMEM_STATUS_OK) return begun;
  nx_allocator *allocator = ctx;
  uint32_t code = NXMEM_STATUS_OK;
  nx_block *block = nx_block_take(ctx, allocation, &code);
  if (block == NULL) return nx_status(code, "release: not what was allocated");
  if (allocator->state == NULL) allocator->state = malloc(sizeof *allocation);
  if (allocator->state != NULL) *(NxmemAllocation *)allocator->state = *allocation;
  nx_block_park(block, 1);
  nx_write_outcome(outcome_out, NXMEM_RELEASE_QUARANTINED, allocation->bytes, 0u, allocation->bytes,
                   nx_status(NXMEM_STATUS_DEVICE_ERROR, "still in use"));
  return nx_ok();
}

static NxmemStatus allocate_kept(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  const NxmemStatus begun = nx_begin_allocate(ctx, request, result_out);
  if (begun.code != NXMEM_STATUS_OK) return begun;
  const NxmemAllocation *kept = ((nx_allocator *)ctx)->state;
  uint32_t code = NXMEM_STATUS_OK;
  if (kept != NULL && (uintptr_t)kept->ptr % request->align == 0u) {
    nx_block *block = nx_block_claim(ctx, request, kept->ptr, &code);
    return told(block, code, result_out);
  }
  nx_uncount(NX_PROBE_ALLOCATE_CALLS);
  return nx_allocate(ctx, request, result_out);
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

static NxmemStatus allocate_silent(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  return nx_begin_allocate(ctx, request, result_out);
}

/* Each is possible; two of them in one total are not. */
static NxmemStatus allocate_quarter(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  const NxmemStatus done = nx_allocate(ctx, request, result_out);
  if (done.code == NXMEM_STATUS_OK) result_out->owned_bytes = result_out->mapped_bytes = 1ull << 62;
  return done;
}

static NxmemStatus allocate_unknown_status(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  const NxmemStatus begun = nx_begin_allocate(ctx, request, result_out);
  return begun.code == NXMEM_STATUS_OK ? nx_status(4711u, "a code from the future") : begun;
}

/* A length beyond the buffer, no NUL, bytes that are no UTF-8, and one that would steer a terminal. */
static NxmemStatus endless(uint32_t code) {
  NxmemStatus status = {code, 0xFFFFFFFFu, {0}};
  memset(status.message, 0xFF, sizeof status.message);
  memcpy(status.message, "lost \xC3( \x1B[31m", 12);
  return status;
}

static NxmemStatus allocate_endless(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  const NxmemStatus begun = nx_begin_allocate(ctx, request, result_out);
  return begun.code == NXMEM_STATUS_OK ? endless(NXMEM_STATUS_OUT_OF_MEMORY) : begun;
}

/* ---- Deallocate -------------------------------------------------------------------------------------------------- */

static NxmemStatus deallocate_silent(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped_out) {
  uint64_t unmapped = 0u;
  return nx_deallocate(ctx, allocation, unmapped_out == NULL ? NULL : &unmapped);
}

static NxmemStatus deallocate_double(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped_out) {
  const NxmemStatus done = nx_deallocate(ctx, allocation, unmapped_out);
  if (done.code == NXMEM_STATUS_OK) *unmapped_out *= 2u;
  return done;
}

static NxmemStatus deallocate_quarantines(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped_out) {
  const NxmemStatus begun = nx_begin_deallocate(ctx, allocation, unmapped_out);
  if (begun.code != NXMEM_STATUS_OK) return begun;
  uint32_t code = NXMEM_STATUS_OK;
  nx_block *block = nx_block_take(ctx, allocation, &code);
  if (block == NULL) return nx_status(code, "deallocate: not what was allocated");
  nx_block_park(block, 1);
  return nx_status(NXMEM_STATUS_RELEASE_QUARANTINED, "kept");
}

/* ---- Structured release ------------------------------------------------------------------------------------------ */

static NxmemStatus release_over_refunds(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *out) {
  const NxmemStatus done = nx_release_allocation(ctx, allocation, out);
  if (done.code == NXMEM_STATUS_OK) out->unmapped_bytes = UINT64_MAX;
  return done;
}

static NxmemStatus release_all_huge(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *out) {
  const NxmemStatus done = nx_release_allocation(ctx, allocation, out);
  if (done.code == NXMEM_STATUS_OK)
    out->allocation_bytes = out->unmapped_bytes = out->residual_owned_bytes = UINT64_MAX;
  return done;
}

/* Gone, by the record; and an error. The plugin keeps the block: which of the two is true, nobody can know. */
static NxmemStatus release_contradicts(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *out) {
  const NxmemStatus begun = nx_begin_release(ctx, allocation, out);
  if (begun.code != NXMEM_STATUS_OK) return begun;
  uint32_t code = NXMEM_STATUS_OK;
  nx_block *block = nx_block_take(ctx, allocation, &code);
  if (block == NULL) return nx_status(code, "release: not what was allocated");
  nx_block_park(block, 1);
  nx_write_outcome(out, NXMEM_RELEASE_COMPLETE, allocation->bytes, allocation->bytes, 0u, nx_ok());
  return nx_status(NXMEM_STATUS_DEVICE_ERROR, "failed all the same");
}

/* The first try of each allocation: a status alone. */
static NxmemStatus release_refuses(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *out) {
  const NxmemStatus begun = nx_begin_release(ctx, allocation, out);
  if (begun.code != NXMEM_STATUS_OK) return begun;
  if (nx_block_tried(ctx, allocation) == 0u) return nx_status(NXMEM_STATUS_BUSY, "not yet");
  nx_uncount(NX_PROBE_RELEASE_ALLOCATION_CALLS);
  return nx_release_allocation(ctx, allocation, out);
}

/* The first try of each allocation: FAILED, with a text that has no end. */
static NxmemStatus release_fails_endlessly(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *out) {
  const NxmemStatus done = release_refuses(ctx, allocation, out);
  if (done.code != NXMEM_STATUS_BUSY) return done;
  nx_write_outcome(out, NXMEM_RELEASE_FAILED, allocation->bytes, 0u, 0u, endless(NXMEM_STATUS_BUSY));
  return nx_ok();
}

/* ---- The rows --------------------------------------------------------------------------------------------------- */

#define SPOIL(name, slot, by) \
  static void name(NxmemAllocatorVtable *table) { table->slot = (by); }
SPOIL(spoil_end, allocate, allocate_end)
SPOIL(spoil_start, allocate, allocate_start)
SPOIL(spoil_inside, allocate, allocate_inside)
SPOIL(spoil_around, allocate, allocate_around)
SPOIL(spoil_siblings, allocate, allocate_siblings)
SPOIL(spoil_silent, allocate, allocate_silent)
SPOIL(spoil_quarter, allocate, allocate_quarter)
SPOIL(spoil_unknown, allocate, allocate_unknown_status)
SPOIL(spoil_endless, allocate, allocate_endless)
SPOIL(spoil_free_silent, deallocate, deallocate_silent)
SPOIL(spoil_free_double, deallocate, deallocate_double)
SPOIL(spoil_free_keeps, deallocate, deallocate_quarantines)
SPOIL(spoil_over_refunds, release_allocation, release_over_refunds)
SPOIL(spoil_all_huge, release_allocation, release_all_huge)
SPOIL(spoil_contradicts, release_allocation, release_contradicts)
SPOIL(spoil_refuses, release_allocation, release_refuses)
SPOIL(spoil_fails_endlessly, release_allocation, release_fails_endlessly)

static void spoil_reissue(NxmemAllocatorVtable *table) {
  table->allocate = allocate_kept;
  table->release_allocation = release_keeps;
}

/* Rows about deallocate do not offer a structured release: a host would take that one instead. */
#define PLAIN(row_name, by) \
  { NX_HONEST(row_name, NXMEM_CAP_ALLOCATOR), .spoil = (by) }
#define STRUCTURED(row_name, by) \
  { NX_HONEST(row_name, NX_CAPS), .spoil = (by) }

static const nx_mechanism rows[] = {
    PLAIN("overlapping-end", spoil_end),
    PLAIN("overlapping-start", spoil_start),
    PLAIN("overlapping-inside", spoil_inside),
    PLAIN("overlapping-around", spoil_around),
    PLAIN("address-of-sibling", spoil_siblings),
    PLAIN("result-silent", spoil_silent),
    PLAIN("total-beyond", spoil_quarter),
    PLAIN("unknown-status", spoil_unknown),
    PLAIN("endless-message", spoil_endless),
    PLAIN("deallocate-silent", spoil_free_silent),
    PLAIN("over-refund-double", spoil_free_double),
    PLAIN("deallocate-quarantines", spoil_free_keeps),
    STRUCTURED("reissues-quarantined", spoil_reissue),
    STRUCTURED("release-over-refunds", spoil_over_refunds),
    STRUCTURED("release-huge", spoil_all_huge),
    STRUCTURED("release-contradicts", spoil_contradicts),
    STRUCTURED("release-refuses", spoil_refuses),
    STRUCTURED("release-endless-message", spoil_fails_endlessly),
};
const nx_row_group nx_address_rows = NX_ROWS(rows);
