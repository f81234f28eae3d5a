/*
 * scripted_commits.c: mechanisms whose virtual backing answers falsely.
 *
 * Attackers: these are. Each row has one defect, which its name says; whatever it does not touch is honest.
 * Promise: what is mapped is counted truly inside; a release gives everything back.
 */
#include "scripted_lazy.h"
#include "scripted_mechanisms.h"
#include "scripted_span.h"

static NxmemStatus device_error(const char *text) { return nx_status(NXMEM_STATUS_DEVICE_ERROR, text); }
static NxmemStatus no_memory(void) { return nx_status(NXMEM_STATUS_OUT_OF_MEMORY, "nothing left"); }

/* ---- allocate_committed ------------------------------------------------------------------------------------------ */

/* An honest allocation, taken back; whether it would have been one. */
static NxmemStatus try_and_undo(void *ctx, const NxmemAllocRequest *request, const NxmemAllocResult *result_out) {
  NxmemAllocResult result = {.struct_size = sizeof result};
  if (nx_unusable(result_out)) return nx_allocate_committed(ctx, request, NULL);
  result.struct_size = result_out->struct_size;
  const NxmemStatus done = nx_allocate_committed(ctx, request, &result);
  if (done.code != NXMEM_STATUS_OK) return done;
  const NxmemAllocation made = {sizeof made,     0u,         request->mechanism_id, request->allocation_id,
                                request->device, result.ptr, request->bytes,        request->align};
  uint32_t code = NXMEM_STATUS_OK;
  nx_block *block = nx_block_take(ctx, &made, &code);
  if (block != NULL) nx_block_free(block);
  return done;
}

static NxmemStatus committed_refuses(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  const NxmemStatus done = try_and_undo(ctx, request, result_out);
  return done.code == NXMEM_STATUS_OK ? no_memory() : done;
}

static NxmemStatus committed_null(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  const NxmemStatus done = try_and_undo(ctx, request, result_out);
  if (done.code == NXMEM_STATUS_OK) nx_write_result(result_out, NULL, request->bytes, request->bytes);
  return done;
}

static NxmemStatus committed_silent(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  return try_and_undo(ctx, request, result_out);
}

/* A block of the heap one byte behind the alignment: it can be given back, though it is not lazy. */
static NxmemStatus committed_misaligned(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  const NxmemStatus done = try_and_undo(ctx, request, result_out);
  if (done.code != NXMEM_STATUS_OK) return done;
  uint32_t code = NXMEM_STATUS_OK;
  const nx_block *block = nx_block_new(ctx, request, 1u, &code);
  if (block == NULL) return nx_status(code, "allocate: no memory");
  nx_write_result(result_out, block->ptr, request->bytes, request->bytes);
  return nx_ok();
}

static NxmemStatus committed_huge(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  const NxmemStatus done = nx_allocate_committed(ctx, request, result_out);
  if (done.code == NXMEM_STATUS_OK) result_out->owned_bytes = result_out->mapped_bytes = UINT64_MAX;
  return done;
}

/* ---- commit_range ------------------------------------------------------------------------------------------------ */

static uint64_t end_of_first_granule(NxmemByteRange range) { return NX_GRANULE - range.offset % NX_GRANULE; }

/* A range of more than one granule: its first is mapped, then it fails. */
static NxmemStatus commit_partly(void *ctx, const NxmemRangeRequest *request) {
  if (ctx == NULL || nx_unusable(request)) return nx_commit_range(ctx, request);
  NxmemRangeRequest first = *request;
  if (request->range.bytes <= end_of_first_granule(request->range)) return nx_commit_range(ctx, request);
  first.range.bytes = end_of_first_granule(request->range);
  const NxmemStatus done = nx_commit_range(ctx, &first);
  if (done.code != NXMEM_STATUS_OK) return done;
  (void)nx_turn(ctx);
  return no_memory();
}

static int failed_partly(const nx_allocator *allocator) { return atomic_load(&allocator->turns) != 0u; }

/* Asked again behind such a failure. */
static NxmemStatus then_huge(void *ctx, const NxmemRangeRequest *requests, uint64_t count, uint64_t *mapped_out) {
  const NxmemStatus done = nx_mapped_for_ranges(ctx, requests, count, mapped_out);
  if (done.code == NXMEM_STATUS_OK && failed_partly(ctx)) *mapped_out = UINT64_MAX - 1u;
  return done;
}
static NxmemStatus then_error(void *ctx, const NxmemRangeRequest *requests, uint64_t count, uint64_t *mapped_out) {
  uint64_t mapped = 0u;
  const NxmemStatus done = nx_mapped_for_ranges(ctx, requests, count, mapped_out == NULL ? NULL : &mapped);
  if (done.code != NXMEM_STATUS_OK) return done;
  if (failed_partly(ctx)) return device_error("cannot say");
  *mapped_out = mapped;
  return done;
}
static NxmemStatus then_silent(void *ctx, const NxmemRangeRequest *requests, uint64_t count, uint64_t *mapped_out) {
  uint64_t mapped = 0u;
  const NxmemStatus done = nx_mapped_for_ranges(ctx, requests, count, mapped_out == NULL ? NULL : &mapped);
  if (done.code == NXMEM_STATUS_OK && !failed_partly(ctx)) *mapped_out = mapped;
  return done;
}

/* Whether it would have been right, with nothing done: asking what is mapped checks the same arguments. */
static NxmemStatus check_only(void *ctx, const NxmemRangeRequest *request) {
  uint64_t mapped = 0u;
  nx_uncount(NX_PROBE_MAPPED_FOR_RANGES_CALLS);
  return nx_mapped_for_ranges(ctx, request, 1u, &mapped);
}

static NxmemStatus commit_refuses(void *ctx, const NxmemRangeRequest *request) {
  nx_count(NX_PROBE_COMMIT_CALLS);
  const NxmemStatus checked = check_only(ctx, request);
  return checked.code == NXMEM_STATUS_OK ? no_memory() : checked;
}

static NxmemStatus commit_nothing(void *ctx, const NxmemRangeRequest *request) {
  nx_count(NX_PROBE_COMMIT_CALLS);
  return check_only(ctx, request);
}

/* ---- decommit_range ---------------------------------------------------------------------------------------------- */

static NxmemStatus decommit_more(void *ctx, const NxmemRangeRequest *request, uint64_t *unmapped_out) {
  const NxmemStatus done = nx_decommit_range(ctx, request, unmapped_out);
  if (done.code == NXMEM_STATUS_OK) *unmapped_out += NX_GRANULE;
  return done;
}
static NxmemStatus decommit_huge(void *ctx, const NxmemRangeRequest *request, uint64_t *unmapped_out) {
  const NxmemStatus done = nx_decommit_range(ctx, request, unmapped_out);
  if (done.code == NXMEM_STATUS_OK) *unmapped_out = UINT64_MAX - 1u;
  return done;
}
static NxmemStatus decommit_silent(void *ctx, const NxmemRangeRequest *request, uint64_t *unmapped_out) {
  uint64_t unmapped = 0u;
  return nx_decommit_range(ctx, request, unmapped_out == NULL ? NULL : &unmapped);
}
static NxmemStatus decommit_fails_after(void *ctx, const NxmemRangeRequest *request, uint64_t *unmapped_out) {
  const NxmemStatus done = decommit_silent(ctx, request, unmapped_out);
  return done.code == NXMEM_STATUS_OK ? device_error("lost count") : done;
}
static NxmemStatus decommit_refuses(void *ctx, const NxmemRangeRequest *request, uint64_t *unmapped_out) {
  (void)unmapped_out;
  nx_count(NX_PROBE_DECOMMIT_CALLS);
  const NxmemStatus checked = check_only(ctx, request);
  return checked.code == NXMEM_STATUS_OK ? device_error("not now") : checked;
}
/* Says that it did, and leaves everything mapped. */
static NxmemStatus decommit_nothing(void *ctx, const NxmemRangeRequest *request, uint64_t *unmapped_out) {
  nx_count(NX_PROBE_DECOMMIT_CALLS);
  const NxmemStatus checked = check_only(ctx, request);
  if (checked.code == NXMEM_STATUS_OK) *unmapped_out = request->range.bytes;
  return checked;
}
/* The whole allocation, whatever the range. */
static NxmemStatus decommit_beyond(void *ctx, const NxmemRangeRequest *request, uint64_t *unmapped_out) {
  if (ctx == NULL || nx_unusable(request)) return nx_decommit_range(ctx, request, unmapped_out);
  NxmemRangeRequest whole = *request;
  whole.range = (NxmemByteRange){0u, request->allocation.bytes};
  return nx_decommit_range(ctx, &whole, unmapped_out);
}

/* ---- What is mapped ---------------------------------------------------------------------------------------------- */

static NxmemStatus ranges_huge(void *ctx, const NxmemRangeRequest *requests, uint64_t count, uint64_t *mapped_out) {
  const NxmemStatus done = nx_mapped_for_ranges(ctx, requests, count, mapped_out);
  if (done.code == NXMEM_STATUS_OK) *mapped_out = UINT64_MAX - 1u;
  return done;
}
static NxmemStatus ranges_silent(void *ctx, const NxmemRangeRequest *requests, uint64_t count, uint64_t *mapped_out) {
  uint64_t mapped = 0u;
  return nx_mapped_for_ranges(ctx, requests, count, mapped_out == NULL ? NULL : &mapped);
}
static NxmemStatus ranges_refuse(void *ctx, const NxmemRangeRequest *requests, uint64_t count, uint64_t *mapped_out) {
  const NxmemStatus done = ranges_silent(ctx, requests, count, mapped_out);
  return done.code == NXMEM_STATUS_OK ? device_error("cannot say") : done;
}
static NxmemStatus foretold_huge(void *ctx, const NxmemAllocRequest *request, uint64_t *mapped_out) {
  const NxmemStatus done = nx_mapped_for_allocation(ctx, request, mapped_out);
  if (done.code == NXMEM_STATUS_OK) *mapped_out = UINT64_MAX - 1u;
  return done;
}
static NxmemStatus foretold_silent(void *ctx, const NxmemAllocRequest *request, uint64_t *mapped_out) {
  uint64_t mapped = 0u;
  return nx_mapped_for_allocation(ctx, request, mapped_out == NULL ? NULL : &mapped);
}
static NxmemStatus foretold_refused(void *ctx, const NxmemAllocRequest *request, uint64_t *mapped_out) {
  const NxmemStatus done = foretold_silent(ctx, request, mapped_out);
  return done.code == NXMEM_STATUS_OK ? device_error("cannot say") : done;
}
static NxmemStatus bytes_huge(void *ctx, const NxmemAllocation *allocation, uint64_t *committed_out) {
  const NxmemStatus done = nx_committed_bytes(ctx, allocation, committed_out);
  if (done.code == NXMEM_STATUS_OK) *committed_out = UINT64_MAX;
  return done;
}
static NxmemStatus bytes_silent(void *ctx, const NxmemAllocation *allocation, uint64_t *committed_out) {
  uint64_t committed = 0u;
  return nx_committed_bytes(ctx, allocation, committed_out == NULL ? NULL : &committed);
}
static NxmemStatus bytes_refused(void *ctx, const NxmemAllocation *allocation, uint64_t *committed_out) {
  const NxmemStatus done = bytes_silent(ctx, allocation, committed_out);
  return done.code == NXMEM_STATUS_OK ? device_error("cannot say") : done;
}

/* ---- The rows --------------------------------------------------------------------------------------------------- */

#define SPOIL(name, slot, by) \
  static void name(NxmemVirtualBackingVtable *table) { table->slot = (by); }
SPOIL(spoil_committed_refuses, allocate_committed, committed_refuses)
SPOIL(spoil_committed_null, allocate_committed, committed_null)
SPOIL(spoil_committed_silent, allocate_committed, committed_silent)
SPOIL(spoil_committed_misaligned, allocate_committed, committed_misaligned)
SPOIL(spoil_committed_huge, allocate_committed, committed_huge)
SPOIL(spoil_partly, commit_range, commit_partly)
SPOIL(spoil_commit_refuses, commit_range, commit_refuses)
SPOIL(spoil_commit_nothing, commit_range, commit_nothing)
SPOIL(spoil_decommit_more, decommit_range, decommit_more)
SPOIL(spoil_decommit_huge, decommit_range, decommit_huge)
SPOIL(spoil_decommit_silent, decommit_range, decommit_silent)
SPOIL(spoil_decommit_after, decommit_range, decommit_fails_after)
SPOIL(spoil_decommit_refuses, decommit_range, decommit_refuses)
SPOIL(spoil_decommit_nothing, decommit_range, decommit_nothing)
SPOIL(spoil_decommit_beyond, decommit_range, decommit_beyond)
SPOIL(spoil_ranges_huge, mapped_bytes_for_ranges, ranges_huge)
SPOIL(spoil_ranges_silent, mapped_bytes_for_ranges, ranges_silent)
SPOIL(spoil_ranges_refuse, mapped_bytes_for_ranges, ranges_refuse)
SPOIL(spoil_foretold_huge, mapped_bytes_for_allocation, foretold_huge)
SPOIL(spoil_foretold_silent, mapped_bytes_for_allocation, foretold_silent)
SPOIL(spoil_foretold_refused, mapped_bytes_for_allocation, foretold_refused)
SPOIL(spoil_bytes_huge, committed_bytes, bytes_huge)
SPOIL(spoil_bytes_silent, committed_bytes, bytes_silent)
SPOIL(spoil_bytes_refused, committed_bytes, bytes_refused)

#define SPOIL_PARTLY(name, by)                         \
  static void name(NxmemVirtualBackingVtable *table) { \
    table->commit_range = commit_partly;               \
    table->mapped_bytes_for_ranges = (by);             \
  }
SPOIL_PARTLY(spoil_partly_huge, then_huge)
SPOIL_PARTLY(spoil_partly_mute, then_error)
SPOIL_PARTLY(spoil_partly_silent, then_silent)

#define CAPS (NX_CAPS | NXMEM_CAP_VIRTUAL_BACKING)
#define ROW(row_name, by) \
  { NX_HONEST(row_name, CAPS), .lazy = 1, .spoil_backing = (by) }
static const nx_mechanism rows[] = {
    ROW("committed-refuses", spoil_committed_refuses),
    ROW("committed-null", spoil_committed_null),
    ROW("committed-silent", spoil_committed_silent),
    ROW("committed-misaligned", spoil_committed_misaligned),
    ROW("committed-huge", spoil_committed_huge),
    ROW("commit-partial", spoil_partly),
    ROW("commit-partial-huge", spoil_partly_huge),
    ROW("commit-partial-mute", spoil_partly_mute),
    ROW("commit-partial-silent", spoil_partly_silent),
    ROW("commit-refuses", spoil_commit_refuses),
    ROW("commit-nothing", spoil_commit_nothing),
    ROW("decommit-overclaims", spoil_decommit_more),
    ROW("decommit-huge", spoil_decommit_huge),
    ROW("decommit-silent", spoil_decommit_silent),
    ROW("decommit-fails-after", spoil_decommit_after),
    ROW("decommit-refuses", spoil_decommit_refuses),
    ROW("decommit-nothing", spoil_decommit_nothing),
    ROW("decommit-beyond", spoil_decommit_beyond),
    ROW("ranges-huge", spoil_ranges_huge),
    ROW("ranges-silent", spoil_ranges_silent),
    ROW("ranges-refuse", spoil_ranges_refuse),
    ROW("foretold-huge", spoil_foretold_huge),
    ROW("foretold-silent", spoil_foretold_silent),
    ROW("foretold-refused", spoil_foretold_refused),
    ROW("bytes-huge", spoil_bytes_huge),
    ROW("bytes-silent", spoil_bytes_silent),
    ROW("bytes-refused", spoil_bytes_refused),
};
const nx_row_group nx_commit_rows = NX_ROWS(rows);
