/*
 * scripted_completions.c: mechanisms whose drain brings completions that must not settle, or settle otherwise.
 *
 * Attackers: these are. What is wrong comes first, then, where the release is still outstanding, the true completion.
 * Promise: each queued release leaves the plugin's own books once; a record that is short really ends there.
 */
#include <string.h>

#include "scripted_calls.h"
#include "scripted_mechanisms.h"
#include "scripted_queue.h"

enum { SHORT_BYTES = 64, NEVER_ISSUED = 1 << 30, UNKNOWN_STATE = 77 };

/* ---- Completions that must not settle --------------------------------------------------------------------------- */

/* The true one, then the same once more. */
static void twice(nx_allocator *allocator, nx_block *block) {
  const NxmemReleaseCompletion completion = nx_completion_of(allocator, block);
  nx_retire(allocator, block);
  (void)nx_tell(allocator, &completion);
}

static void foreign_ticket(nx_allocator *allocator, nx_block *block) {
  NxmemReleaseCompletion wrong = nx_completion_of(allocator, block);
  wrong.ticket += NEVER_ISSUED;
  (void)nx_tell(allocator, &wrong);
  nx_retire(allocator, block);
}

/* An allocation whose release was never asked for; where none is live, nothing is wrong. */
static void names_live(nx_allocator *allocator, nx_block *block) {
  NxmemReleaseCompletion wrong = nx_completion_of(allocator, block);
  nx_block live;
  if (nx_block_peek(allocator, &live)) {
    wrong.allocation_id = live.id;
    (void)nx_tell(allocator, &wrong);
  }
  nx_retire(allocator, block);
}

static void names_unknown(nx_allocator *allocator, nx_block *block) {
  NxmemReleaseCompletion wrong = nx_completion_of(allocator, block);
  wrong.allocation_id = UINT64_MAX - 1u;
  (void)nx_tell(allocator, &wrong);
  nx_retire(allocator, block);
}

/* What waits in another allocator's queue, brought through this one; where nothing does, nothing is wrong. */
static void names_siblings(nx_allocator *allocator, nx_block *block) {
  NxmemReleaseCompletion theirs;
  nx_allocator *sibling = nx_sibling_of(allocator);
  if (sibling != NULL && nx_queue_peek(sibling, &theirs)) (void)nx_tell(allocator, &theirs);
  nx_retire(allocator, block);
}

static void other_mechanism(nx_allocator *allocator, nx_block *block) {
  NxmemReleaseCompletion wrong = nx_completion_of(allocator, block);
  wrong.mechanism_id ^= 1ull << 60;
  (void)nx_tell(allocator, &wrong);
  nx_retire(allocator, block);
}

/* The first SHORT_BYTES of a completion that says it has `declared`; the page behind them cannot be read. */
static void ends_early(nx_allocator *allocator, nx_block *block, uint32_t declared) {
  const NxmemReleaseCompletion whole = nx_completion_of(allocator, block);
  nx_placed placed = nx_place_bytes(NX_PLACE_GUARD, SHORT_BYTES);
  if (placed.bytes != NULL) {
    memcpy(placed.bytes, &whole, SHORT_BYTES);
    memcpy(placed.bytes, &declared, sizeof declared);
    (void)nx_tell(allocator, (const NxmemReleaseCompletion *)placed.bytes);
    nx_unplace(&placed);
  }
  nx_retire(allocator, block);
}

static void too_short(nx_allocator *allocator, nx_block *block) { ends_early(allocator, block, SHORT_BYTES); }
static void lies_about_size(nx_allocator *allocator, nx_block *block) {
  ends_early(allocator, block, sizeof(NxmemReleaseCompletion));
}

static void null_record(nx_allocator *allocator, nx_block *block) {
  (void)nx_tell(allocator, NULL);
  nx_retire(allocator, block);
}

static void wild_record(nx_allocator *allocator, nx_block *block) {
  (void)nx_tell(allocator, nx_forbidden_address());
  nx_retire(allocator, block);
}

static void misaligned_record(nx_allocator *allocator, nx_block *block) {
  const NxmemReleaseCompletion whole = nx_completion_of(allocator, block);
  uint64_t room[sizeof whole / sizeof(uint64_t) + 1u];
  uint8_t *askew = (uint8_t *)room + 4;
  memcpy(askew, &whole, sizeof whole);
  (void)nx_tell(allocator, (const NxmemReleaseCompletion *)(const void *)askew);
  nx_retire(allocator, block);
}

/* ---- Completions that settle otherwise -------------------------------------------------------------------------- */

/* Tell what an edited completion says; the block stays for good. It counts as live where the plugin says so. */
static void keep_and_tell(nx_allocator *allocator, nx_block *block, uint32_t state, uint32_t code) {
  NxmemReleaseCompletion completion = nx_completion_of(allocator, block);
  const uint64_t residue = state == NXMEM_RELEASE_QUARANTINED ? block->bytes : 0u;
  const NxmemStatus failure = nx_status(code, code == NXMEM_STATUS_OK ? "" : "kept");
  nx_write_outcome(&completion.outcome, state, block->bytes, 0u, residue, failure);
  nx_count(NX_PROBE_LIVE_ALLOCATIONS);
  nx_block_park(block, 1);
  (void)nx_tell(allocator, &completion);
  nx_queue_settled(allocator);
}

/* The first try of each allocation: as live as before. */
static void fails_first(nx_allocator *allocator, nx_block *block) {
  if (block->tries++ != 0u) {
    nx_retire(allocator, block);
    return;
  }
  NxmemReleaseCompletion completion = nx_completion_of(allocator, block);
  nx_write_outcome(&completion.outcome, NXMEM_RELEASE_FAILED, block->bytes, 0u, 0u,
                   nx_status(NXMEM_STATUS_BUSY, "not yet"));
  nx_block_put_back(block);
  (void)nx_tell(allocator, &completion);
  nx_queue_settled(allocator);
}

static void quarantines(nx_allocator *allocator, nx_block *block) {
  keep_and_tell(allocator, block, NXMEM_RELEASE_QUARANTINED, NXMEM_STATUS_DEVICE_ERROR);
}
static void future_state(nx_allocator *allocator, nx_block *block) {
  keep_and_tell(allocator, block, UNKNOWN_STATE, NXMEM_STATUS_OK);
}
static void no_state(nx_allocator *allocator, nx_block *block) {
  keep_and_tell(allocator, block, UINT32_MAX, NXMEM_STATUS_OK);
}
static void complete_with_error(nx_allocator *allocator, nx_block *block) {
  keep_and_tell(allocator, block, NXMEM_RELEASE_COMPLETE, NXMEM_STATUS_DEVICE_ERROR);
}

static void over_refunds(nx_allocator *allocator, nx_block *block) {
  NxmemReleaseCompletion completion = nx_completion_of(allocator, block);
  completion.outcome.unmapped_bytes = UINT64_MAX;
  nx_block_discard(block);
  (void)nx_tell(allocator, &completion);
  nx_queue_settled(allocator);
}

/* ---- The rows --------------------------------------------------------------------------------------------------- */

#define DRAIN(row, retire)                                                         \
  static NxmemStatus row##_drain(void *ctx, uint64_t max, uint64_t *retired_out) { \
    return nx_drain_with(ctx, max, retired_out, retire);                           \
  }                                                                                \
  static void row##_spoil(NxmemAllocatorVtable *table) { table->drain_releases = row##_drain; }
DRAIN(twice, twice)
DRAIN(foreign_ticket, foreign_ticket)
DRAIN(names_live, names_live)
DRAIN(names_unknown, names_unknown)
DRAIN(names_siblings, names_siblings)
DRAIN(other_mechanism, other_mechanism)
DRAIN(too_short, too_short)
DRAIN(lies_about_size, lies_about_size)
DRAIN(null_record, null_record)
DRAIN(wild_record, wild_record)
DRAIN(misaligned_record, misaligned_record)
DRAIN(fails_first, fails_first)
DRAIN(quarantines, quarantines)
DRAIN(future_state, future_state)
DRAIN(no_state, no_state)
DRAIN(complete_with_error, complete_with_error)
DRAIN(over_refunds, over_refunds)

#define ROW(row_name, row) \
  { NX_HONEST(row_name, NX_DEFERRED_CAPS), .spoil = row##_spoil }
static const nx_mechanism rows[] = {
    ROW("duplicate-completion", twice),
    ROW("foreign-ticket", foreign_ticket),
    ROW("completes-live", names_live),
    ROW("completes-unknown", names_unknown),
    ROW("completes-sibling", names_siblings),
    ROW("completes-other-mechanism", other_mechanism),
    ROW("short-completion", too_short),
    ROW("lying-completion", lies_about_size),
    ROW("null-completion", null_record),
    ROW("wild-completion", wild_record),
    ROW("misaligned-completion", misaligned_record),
    ROW("completion-fails", fails_first),
    ROW("completion-quarantines", quarantines),
    ROW("completion-future-state", future_state),
    ROW("completion-without-state", no_state),
    ROW("completion-with-error", complete_with_error),
    ROW("completion-over-refunds", over_refunds),
};
const nx_row_group nx_completion_rows = NX_ROWS(rows);
