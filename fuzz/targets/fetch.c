/*
 * fetch.c: everything that reads memory of the other side, while the other side rewrites it.
 * Attackers: a thread that changes each byte right after it was loaded.
 * Promise: nothing is loaded twice, nothing written, nothing behind what the record says it has; and what comes out is
 * what the bytes say that were loaded: the same as of memory that stands still.
 *
 * Input: u8 which reader (modulo their number) | u8 what a loaded byte is changed by | u32 ceiling | u64 mechanism id |
 * the record.
 */
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "nxmem/completion.h"
#include "nxmem/negotiate.h"
#include "nxmem/outcome.h"
#include "nxmem/prefix.h"
#include "nxmem/reclaim.h"
#include "nxmem/sharing.h"
#include "nxmem/status.h"
#include "nxmem/unload.h"
#include "watched.h"

/* What a reader is told beside the record, and what it answers. */
typedef struct call {
  uint32_t ceiling;
  uint64_t mechanism_id;
  nxmem_verdict verdict;
  uint32_t declared_minor;
  union {
    uint64_t aligned;
    uint8_t bytes[FUZZ_WATCHED_MAX];
  } out;
} call;

/* ---- Readers ----------------------------------------------------------------------------------------------------- */

static void allocator_unvalidated(void *src, call *c) {
  c->verdict = nxmem_read_allocator_unvalidated(src, c->ceiling, (void *)c->out.bytes, &c->declared_minor);
}
static void allocator(void *src, call *c) {
  c->verdict = nxmem_read_allocator(src, c->ceiling, (void *)c->out.bytes, &c->declared_minor);
}
static void factory_unvalidated(void *src, call *c) {
  c->verdict = nxmem_read_factory_unvalidated(src, c->ceiling, (void *)c->out.bytes, &c->declared_minor);
}
static void factory(void *src, call *c) {
  c->verdict = nxmem_read_factory(src, c->ceiling, (void *)c->out.bytes, &c->declared_minor);
}
static void backing_unvalidated(void *src, call *c) {
  c->verdict = nxmem_read_backing_unvalidated(src, c->ceiling, (void *)c->out.bytes);
}
static void backing(void *src, call *c) {
  c->verdict = nxmem_read_backing(src, c->ceiling, c->mechanism_id, (void *)c->out.bytes);
}
static void sharing_unvalidated(void *src, call *c) {
  c->verdict = nxmem_read_sharing_unvalidated(src, c->ceiling, (void *)c->out.bytes);
}
static void sharing(void *src, call *c) {
  c->verdict = nxmem_read_sharing(src, c->ceiling, c->mechanism_id, (void *)c->out.bytes);
}
static void request(void *src, call *c) { c->verdict = nxmem_request_take(src, (void *)c->out.bytes); }
static void completion(void *src, call *c) { c->verdict = nxmem_completion_take(src, (void *)c->out.bytes); }
static void reclaim(void *src, call *c) { c->verdict = nxmem_reclaim_take(src, (void *)c->out.bytes); }
static void response(void *src, call *c) { nxmem_response_take(src, (void *)c->out.bytes); }
static void result(void *src, call *c) { nxmem_alloc_result_take(src, (void *)c->out.bytes); }
static void outcome(void *src, call *c) { nxmem_outcome_take(src, (void *)c->out.bytes); }
static void prefix_handle(void *src, call *c) { nxmem_prefix_handle_take(src, (void *)c->out.bytes); }
static void commit_info(void *src, call *c) { nxmem_commit_info_take(src, (void *)c->out.bytes); }
static void status(void *src, call *c) { nxmem_status_take(src, (void *)c->out.bytes); }
static void report(void *src, call *c) { nxmem_unload_report_take(src, (void *)c->out.bytes); }

/* `declares`: its first four bytes say how much of it there is; the others are the host's own, whole. */
typedef struct reader {
  const char *oracle;
  void (*read)(void *src, call *c);
  uint32_t full;
  int declares;
} reader;

static const reader readers[] = {
    {"fetch, allocator unvalidated", allocator_unvalidated, sizeof(NxmemAllocatorVtable), 1},
    {"fetch, allocator", allocator, sizeof(NxmemAllocatorVtable), 1},
    {"fetch, factory unvalidated", factory_unvalidated, sizeof(NxmemAllocatorFactoryVtable), 1},
    {"fetch, factory", factory, sizeof(NxmemAllocatorFactoryVtable), 1},
    {"fetch, backing unvalidated", backing_unvalidated, sizeof(NxmemVirtualBackingVtable), 1},
    {"fetch, backing", backing, sizeof(NxmemVirtualBackingVtable), 1},
    {"fetch, sharing unvalidated", sharing_unvalidated, sizeof(NxmemSharedMappingVtable), 1},
    {"fetch, sharing", sharing, sizeof(NxmemSharedMappingVtable), 1},
    {"fetch, request", request, sizeof(NxmemNegotiateRequest), 1},
    {"fetch, completion", completion, sizeof(NxmemReleaseCompletion), 1},
    {"fetch, reclaim", reclaim, sizeof(NxmemReclaimRequest), 1},
    {"fetch, response", response, sizeof(NxmemNegotiateResponse), 0},
    {"fetch, result", result, sizeof(NxmemAllocResult), 0},
    {"fetch, outcome", outcome, sizeof(NxmemReleaseOutcome), 0},
    {"fetch, prefix handle", prefix_handle, sizeof(NxmemSharedPrefixHandle), 0},
    {"fetch, commit info", commit_info, sizeof(NxmemSharedPrefixCommitInfo), 0},
    {"fetch, status", status, sizeof(NxmemStatus), 0},
    {"fetch, report", report, sizeof(NxmemUnloadReport), 0},
};
enum { READERS = sizeof readers / sizeof readers[0] };
_Static_assert(sizeof(NxmemReleaseCompletion) <= FUZZ_WATCHED_MAX && sizeof(NxmemStatus) <= FUZZ_WATCHED_MAX, "room");

/* ---- One record -------------------------------------------------------------------------------------------------- */

/* As much of it as there is: at least a header where it says so itself, never more than we know. */
static uint32_t present(const reader *r, const uint8_t *bytes) {
  uint32_t declared;
  if (!r->declares) return r->full;
  memcpy(&declared, bytes, sizeof declared);
  if (declared < 8u) return 8u;
  return declared < r->full ? declared : r->full;
}

static void check_loads(const reader *r, const fuzz_watched *seen) {
  if (seen->writes != 0) fuzz_fail(r->oracle, "written to");
  if (seen->outside != 0) fuzz_fail(r->oracle, "loaded beside what the record says it has");
  for (uint32_t i = 0; i < FUZZ_WATCHED_MAX; i++)
    if (seen->loads[i] > 1) fuzz_fail(r->oracle, "offset %u is loaded %u times", i, seen->loads[i]);
}

static void run(const reader *r, const uint8_t *bytes, uint32_t there, uint8_t flip, call *still) {
  call racing = *still;
  fuzz_watched seen;
  void *exact = fuzz_exact(bytes, there);
  r->read(exact, still);
  free(exact);
  void *watched = fuzz_watch(bytes, there);
  fuzz_watch_begin(&seen, flip);
  r->read(watched, &racing);
  fuzz_watch_end();
  check_loads(r, &seen);
  fuzz_same_verdict(r->oracle, racing.verdict, still->verdict);
  fuzz_same_number(r->oracle, racing.declared_minor, still->declared_minor);
  fuzz_same_bytes(r->oracle, racing.out.bytes, still->out.bytes, sizeof still->out.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static call still; /* half a kibibyte of outputs, canary */
  uint8_t bytes[FUZZ_WATCHED_MAX];
  fuzz_input in = fuzz_begin(data, size);
  const reader *r = &readers[fuzz_take_u8(&in) % READERS];
  const uint8_t flip = fuzz_take_u8(&in);
  memset(&still, 0, sizeof still);
  memset(still.out.bytes, FUZZ_CANARY, sizeof still.out.bytes);
  still.ceiling = fuzz_take_u32(&in);
  still.mechanism_id = fuzz_take_u64(&in);
  fuzz_take(&in, bytes, r->full);
  run(r, bytes, present(r, bytes), flip, &still);
  return 0;
}
