/*
 * scripted_misuse.c: mechanisms that call the host's callbacks wrongly: another host_ctx, a request that is none, the
 * table itself.
 *
 * Attackers: these are. Each asks from inside `allocate`, behind the honest work; a host_ctx that is not theirs also
 * brings a completion that is otherwise true, before the true one.
 * Promise: allocations and releases are honest; a record that is short really ends there.
 */
#define _DEFAULT_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "scripted_calls.h"
#include "scripted_mechanisms.h"
#include "scripted_queue.h"

enum { SHORT_BYTES = 24 };

/* The honest allocation, then what the row asks. */
static NxmemStatus allocate_then(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out,
                                 void (*ask)(nx_allocator *allocator, uint64_t bytes)) {
  const NxmemStatus done = nx_allocate(ctx, request, result_out);
  if (done.code == NXMEM_STATUS_OK && ((const nx_allocator *)ctx)->callbacks != NULL) ask(ctx, request->bytes);
  return done;
}

#define ALLOCATE(row)                                                                                            \
  static NxmemStatus row##_allocate(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) { \
    return allocate_then(ctx, request, result_out, row);                                                         \
  }

/* ---- Another's host_ctx ----------------------------------------------------------------------------------------- */

static void ask_as(nx_allocator *allocator, void *host_ctx, uint64_t bytes) {
  const NxmemReclaimRequest request = nx_reclaim_request(allocator, bytes);
  uint64_t reclaimed = UINT64_MAX;
  (void)nx_call_reclaim(allocator->callbacks, host_ctx, &request, &reclaimed);
}

static void retire_as(nx_allocator *allocator, void *host_ctx, nx_block *block) {
  const NxmemReleaseCompletion completion = nx_completion_of(allocator, block);
  (void)nx_call_completed(allocator->callbacks, host_ctx, &completion);
  nx_retire(allocator, block);
}

static void *invented(void) { return (void *)(uintptr_t)0x7E577E57u; }

static void ask_invented(nx_allocator *allocator, uint64_t bytes) { ask_as(allocator, invented(), bytes); }
static void retire_invented(nx_allocator *allocator, nx_block *block) { retire_as(allocator, invented(), block); }
static void ask_null(nx_allocator *allocator, uint64_t bytes) { ask_as(allocator, NULL, bytes); }
static void retire_null(nx_allocator *allocator, nx_block *block) { retire_as(allocator, NULL, block); }

/* That of an allocator which the host has released; before there is one, nothing is wrong. */
static void ask_stale(nx_allocator *allocator, uint64_t bytes) {
  const nx_allocator *gone = nx_dropped_sibling_of(allocator);
  if (gone != NULL) ask_as(allocator, gone->host_ctx, bytes);
}
static void retire_stale(nx_allocator *allocator, nx_block *block) {
  const nx_allocator *gone = nx_dropped_sibling_of(allocator);
  if (gone != NULL)
    retire_as(allocator, gone->host_ctx, block);
  else
    nx_retire(allocator, block);
}

#define CONTEXT(row)                                                               \
  ALLOCATE(ask_##row)                                                              \
  static NxmemStatus drain_##row(void *ctx, uint64_t max, uint64_t *retired_out) { \
    return nx_drain_with(ctx, max, retired_out, retire_##row);                     \
  }                                                                                \
  static void spoil_##row(NxmemAllocatorVtable *table) {                           \
    table->allocate = ask_##row##_allocate;                                        \
    table->drain_releases = drain_##row;                                           \
  }
CONTEXT(invented)
CONTEXT(null)
CONTEXT(stale)

/* ---- A request that is none ------------------------------------------------------------------------------------- */

static void ask_with(nx_allocator *allocator, const void *request) {
  uint64_t reclaimed = UINT64_MAX;
  (void)nx_call_reclaim(allocator->callbacks, allocator->host_ctx, request, &reclaimed);
}

/* The first SHORT_BYTES of a request that says it has `declared`; the page behind them cannot be read. */
static void ends_early(nx_allocator *allocator, uint64_t bytes, uint32_t declared) {
  NxmemReclaimRequest request = nx_reclaim_request(allocator, bytes);
  nx_placed placed = nx_place_bytes(NX_PLACE_GUARD, SHORT_BYTES);
  if (placed.bytes == NULL) return;
  request.struct_size = declared;
  memcpy(placed.bytes, &request, SHORT_BYTES);
  ask_with(allocator, placed.bytes);
  nx_unplace(&placed);
}

static void ask_short(nx_allocator *allocator, uint64_t bytes) { ends_early(allocator, bytes, SHORT_BYTES); }
static void ask_lying(nx_allocator *allocator, uint64_t bytes) {
  ends_early(allocator, bytes, sizeof(NxmemReclaimRequest));
}
static void ask_nothing(nx_allocator *allocator, uint64_t bytes) {
  (void)bytes;
  ask_with(allocator, NULL);
}
static void ask_wild(nx_allocator *allocator, uint64_t bytes) {
  (void)bytes;
  ask_with(allocator, nx_forbidden_address());
}
static void ask_misaligned(nx_allocator *allocator, uint64_t bytes) {
  const NxmemReclaimRequest request = nx_reclaim_request(allocator, bytes);
  uint64_t room[sizeof request / sizeof(uint64_t) + 1u];
  memcpy((uint8_t *)room + 4, &request, sizeof request);
  ask_with(allocator, (const uint8_t *)room + 4);
}
static void ask_other_device(nx_allocator *allocator, uint64_t bytes) {
  NxmemReclaimRequest request = nx_reclaim_request(allocator, bytes);
  request.device.index++;
  ask_with(allocator, &request);
}
static void ask_other_mechanism(nx_allocator *allocator, uint64_t bytes) {
  NxmemReclaimRequest request = nx_reclaim_request(allocator, bytes);
  request.mechanism_id ^= 1ull << 60;
  ask_with(allocator, &request);
}
static void ask_huge(nx_allocator *allocator, uint64_t bytes) {
  (void)bytes;
  (void)nx_ask_for_memory(allocator, UINT64_MAX, NULL);
}
static void ask_for_zero(nx_allocator *allocator, uint64_t bytes) {
  (void)bytes;
  (void)nx_ask_for_memory(allocator, 0u, NULL);
}
static void ask_without_out(nx_allocator *allocator, uint64_t bytes) {
  const NxmemReclaimRequest request = nx_reclaim_request(allocator, bytes);
  (void)nx_call_reclaim(allocator->callbacks, allocator->host_ctx, &request, NULL);
}
/* Without a look at how long the host's table is. */
static void ask_unsized(nx_allocator *allocator, uint64_t bytes) {
  const NxmemReclaimRequest request = nx_reclaim_request(allocator, bytes);
  uint64_t reclaimed = UINT64_MAX;
  nx_count(NX_PROBE_RECLAIM_CALLS);
  const NxmemHostCallbacks *host = allocator->callbacks;
  const NxmemStatus status = host->request_reclaim(host->host_ctx, &request, &reclaimed);
  if (status.code == NXMEM_STATUS_OK) nx_count(NX_PROBE_RECLAIMS_ACCEPTED);
}

ALLOCATE(ask_short)
ALLOCATE(ask_lying)
ALLOCATE(ask_nothing)
ALLOCATE(ask_wild)
ALLOCATE(ask_misaligned)
ALLOCATE(ask_other_device)
ALLOCATE(ask_other_mechanism)
ALLOCATE(ask_huge)
ALLOCATE(ask_for_zero)
ALLOCATE(ask_without_out)
ALLOCATE(ask_unsized)

/* ---- The table itself ------------------------------------------------------------------------------------------- */

/* Where the host's pages are what they should be, this is the end of the process: SIGSEGV. */
static void write_table(nx_allocator *allocator, uint64_t bytes) {
  volatile NxmemHostCallbacks *table = (NxmemHostCallbacks *)(uintptr_t)allocator->callbacks;
  (void)bytes;
  table->abi_minor = 77u;
}

/* Asks for its pages to be made writable first; where that is refused nothing is written. */
static void unprotect_table(nx_allocator *allocator, uint64_t bytes) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  void *at = (void *)((uintptr_t)allocator->callbacks & ~(page - 1u));
  const int opened = mprotect(at, page, PROT_READ | PROT_WRITE) == 0;
  nx_note(NX_PROBE_TABLE_UNPROTECTED, (uint64_t)opened);
  nx_count(NX_PROBE_UNPROTECT_CALLS);
  if (opened) write_table(allocator, bytes);
}

ALLOCATE(write_table)
ALLOCATE(unprotect_table)

/* ---- The rows --------------------------------------------------------------------------------------------------- */

#define SPOIL(row) \
  static void row##_spoil(NxmemAllocatorVtable *table) { table->allocate = row##_allocate; }
SPOIL(ask_short)
SPOIL(ask_lying)
SPOIL(ask_nothing)
SPOIL(ask_wild)
SPOIL(ask_misaligned)
SPOIL(ask_other_device)
SPOIL(ask_other_mechanism)
SPOIL(ask_huge)
SPOIL(ask_for_zero)
SPOIL(ask_without_out)
SPOIL(ask_unsized)
SPOIL(write_table)
SPOIL(unprotect_table)

#define ROW(row_name, row) \
  { NX_HONEST(row_name, NX_CAPS), .spoil = row##_spoil }
static const nx_mechanism rows[] = {
    {NX_HONEST("invented-ctx", NX_DEFERRED_CAPS), .spoil = spoil_invented},
    {NX_HONEST("null-ctx", NX_DEFERRED_CAPS), .spoil = spoil_null},
    {NX_HONEST("stale-ctx", NX_DEFERRED_CAPS), .spoil = spoil_stale},
    ROW("reclaim-short", ask_short),
    ROW("reclaim-lying", ask_lying),
    ROW("reclaim-null", ask_nothing),
    ROW("reclaim-wild", ask_wild),
    ROW("reclaim-misaligned", ask_misaligned),
    ROW("reclaim-other-device", ask_other_device),
    ROW("reclaim-other-mechanism", ask_other_mechanism),
    ROW("reclaim-huge", ask_huge),
    ROW("reclaim-zero", ask_for_zero),
    ROW("reclaim-without-out", ask_without_out),
    ROW("ignores-callback-size", ask_unsized),
    ROW("writes-callbacks", write_table),
    ROW("unprotects-callbacks", unprotect_table),
};
const nx_row_group nx_misuse_rows = NX_ROWS(rows);
