/*
 * scripted_sharing.c: mechanisms whose shared mapping answers falsely.
 *
 * Attackers: these are. Each row has one defect, which its name says; whatever it does not touch is honest.
 * Promise: a handle that no call could find again has no prefix behind it, so that the plugin's books close.
 */
#include <stdlib.h>

#include "scripted_lazy.h"
#include "scripted_mechanisms.h"
#include "scripted_span.h"

static NxmemStatus device_error(const char *text) { return nx_status(NXMEM_STATUS_DEVICE_ERROR, text); }
static NxmemStatus no_memory(void) { return nx_status(NXMEM_STATUS_OUT_OF_MEMORY, "nothing left"); }

/* ---- create ------------------------------------------------------------------------------------------------------ */

/* The handle of a prefix that is gone again, or why there would be none. */
static NxmemStatus ghost(void *ctx, uint64_t mechanism_id, uint64_t bytes, NxmemSharedPrefixHandle *handle_out) {
  const NxmemStatus made = nx_create_prefix(ctx, mechanism_id, bytes, handle_out);
  if (made.code != NXMEM_STATUS_OK) return made;
  (void)nx_release_prefix(ctx, handle_out);
  nx_uncount(NX_PROBE_PREFIX_RELEASE_CALLS);
  return made;
}

static NxmemStatus create_refused(void *ctx, uint64_t mechanism_id, uint64_t bytes, NxmemSharedPrefixHandle *out) {
  NxmemSharedPrefixHandle handle = {.struct_size = sizeof handle};
  const NxmemStatus made = ghost(ctx, mechanism_id, bytes, out == NULL ? NULL : &handle);
  return made.code == NXMEM_STATUS_OK ? no_memory() : made;
}
static NxmemStatus create_silent(void *ctx, uint64_t mechanism_id, uint64_t bytes, NxmemSharedPrefixHandle *out) {
  NxmemSharedPrefixHandle handle = {.struct_size = sizeof handle};
  return ghost(ctx, mechanism_id, bytes, out == NULL ? NULL : &handle);
}
static NxmemStatus create_zero(void *ctx, uint64_t mechanism_id, uint64_t bytes, NxmemSharedPrefixHandle *out) {
  const NxmemStatus made = ghost(ctx, mechanism_id, bytes, out);
  if (made.code == NXMEM_STATUS_OK) out->handle = 0u;
  return made;
}
static NxmemStatus create_other_mechanism(void *ctx, uint64_t mechanism_id, uint64_t bytes,
                                          NxmemSharedPrefixHandle *out) {
  const NxmemStatus made = ghost(ctx, mechanism_id, bytes, out);
  if (made.code == NXMEM_STATUS_OK) out->mechanism_id ^= 1ull << 60;
  return made;
}
static NxmemStatus create_other_device(void *ctx, uint64_t mechanism_id, uint64_t bytes, NxmemSharedPrefixHandle *out) {
  const NxmemStatus made = ghost(ctx, mechanism_id, bytes, out);
  if (made.code == NXMEM_STATUS_OK) out->device.index++;
  return made;
}
/* The prefix is real, and of the size asked for. */
static NxmemStatus create_other_bytes(void *ctx, uint64_t mechanism_id, uint64_t bytes, NxmemSharedPrefixHandle *out) {
  const NxmemStatus made = nx_create_prefix(ctx, mechanism_id, bytes, out);
  if (made.code == NXMEM_STATUS_OK) out->requested_bytes++;
  return made;
}
static NxmemStatus create_huge(void *ctx, uint64_t mechanism_id, uint64_t bytes, NxmemSharedPrefixHandle *out) {
  const NxmemStatus made = nx_create_prefix(ctx, mechanism_id, bytes, out);
  if (made.code == NXMEM_STATUS_OK) out->committed_physical_bytes = out->mapped_bytes = UINT64_MAX;
  return made;
}
/* The first prefix of an allocator once more, with one reference more. One thread. */
static NxmemStatus create_same(void *ctx, uint64_t mechanism_id, uint64_t bytes, NxmemSharedPrefixHandle *out) {
  nx_allocator *allocator = ctx;
  if (allocator != NULL && allocator->state != NULL && out != NULL) {
    nx_count(NX_PROBE_PREFIX_CREATE_CALLS);
    nx_uncount(NX_PROBE_PREFIX_RETAIN_CALLS);
    const NxmemStatus retained = nx_retain_prefix(ctx, allocator->state);
    if (retained.code == NXMEM_STATUS_OK) *out = *(const NxmemSharedPrefixHandle *)allocator->state;
    return retained;
  }
  const NxmemStatus made = nx_create_prefix(ctx, mechanism_id, bytes, out);
  if (made.code != NXMEM_STATUS_OK) return made;
  allocator->state = malloc(sizeof *out);
  if (allocator->state != NULL) *(NxmemSharedPrefixHandle *)allocator->state = *out;
  return made;
}

/* ---- commit ------------------------------------------------------------------------------------------------------ */

static NxmemStatus share_silent(void *ctx, const NxmemSharedPrefixCommitRequest *request,
                                NxmemSharedPrefixCommitInfo *info_out) {
  NxmemSharedPrefixCommitInfo info = {.struct_size = sizeof info};
  return nx_commit_prefix(ctx, request, info_out == NULL ? NULL : &info);
}
static NxmemStatus share_huge(void *ctx, const NxmemSharedPrefixCommitRequest *request,
                              NxmemSharedPrefixCommitInfo *info_out) {
  const NxmemStatus done = nx_commit_prefix(ctx, request, info_out);
  if (done.code != NXMEM_STATUS_OK) return done;
  info_out->additional_owned_bytes = info_out->newly_mapped_bytes = info_out->granules = UINT64_MAX - 1u;
  return done;
}
/* The physical bytes at every commit. */
static NxmemStatus share_charges(void *ctx, const NxmemSharedPrefixCommitRequest *request,
                                 NxmemSharedPrefixCommitInfo *info_out) {
  const NxmemStatus done = nx_commit_prefix(ctx, request, info_out);
  if (done.code == NXMEM_STATUS_OK) info_out->additional_owned_bytes = info_out->newly_mapped_bytes;
  return done;
}
/* The k-th commit of an allocator, counted from 0; nothing is mapped by it. */
static NxmemStatus share_failing_at(uint64_t k, void *ctx, const NxmemSharedPrefixCommitRequest *request,
                                    NxmemSharedPrefixCommitInfo *info_out) {
  if (ctx == NULL || nx_turn(ctx) != k) return nx_commit_prefix(ctx, request, info_out);
  nx_count(NX_PROBE_PREFIX_COMMIT_CALLS);
  return no_memory();
}
static NxmemStatus share_fails_0(void *ctx, const NxmemSharedPrefixCommitRequest *request,
                                 NxmemSharedPrefixCommitInfo *info_out) {
  return share_failing_at(0u, ctx, request, info_out);
}
static NxmemStatus share_fails_1(void *ctx, const NxmemSharedPrefixCommitRequest *request,
                                 NxmemSharedPrefixCommitInfo *info_out) {
  return share_failing_at(1u, ctx, request, info_out);
}
static NxmemStatus share_fails_2(void *ctx, const NxmemSharedPrefixCommitRequest *request,
                                 NxmemSharedPrefixCommitInfo *info_out) {
  return share_failing_at(2u, ctx, request, info_out);
}
/* The second is mapped all the same. */
static NxmemStatus share_fails_mapped(void *ctx, const NxmemSharedPrefixCommitRequest *request,
                                      NxmemSharedPrefixCommitInfo *info_out) {
  NxmemSharedPrefixCommitInfo info = {.struct_size = sizeof info};
  const NxmemStatus done = nx_commit_prefix(ctx, request, info_out == NULL ? NULL : &info);
  if (done.code != NXMEM_STATUS_OK) return done;
  if (nx_turn(ctx) == 1u) return no_memory();
  *info_out = info;
  return done;
}
/* Says that it is mapped; it is not. */
static NxmemStatus share_nothing(void *ctx, const NxmemSharedPrefixCommitRequest *request,
                                 NxmemSharedPrefixCommitInfo *info_out) {
  nx_count(NX_PROBE_PREFIX_COMMIT_CALLS);
  if (ctx == NULL || nx_unusable(request) || nx_unusable(info_out))
    return nx_status(NXMEM_STATUS_INVALID_ARGUMENT, "NULL or misaligned argument");
  const uint64_t bytes = request->prefix.mapped_bytes;
  *info_out = (NxmemSharedPrefixCommitInfo){sizeof *info_out, 0u, bytes, bytes, bytes / NX_GRANULE};
  return nx_ok();
}

/* ---- retain, release, incremental -------------------------------------------------------------------------------- */

static NxmemStatus retain_refused(void *ctx, const NxmemSharedPrefixHandle *handle) {
  (void)ctx, (void)handle;
  nx_count(NX_PROBE_PREFIX_RETAIN_CALLS);
  return device_error("not now");
}
/* The first release of an allocator. */
static NxmemStatus release_refused(void *ctx, const NxmemSharedPrefixHandle *handle) {
  if (ctx == NULL || nx_turn(ctx) != 0u) return nx_release_prefix(ctx, handle);
  nx_count(NX_PROBE_PREFIX_RELEASE_CALLS);
  return device_error("not now");
}
static NxmemStatus incremental_huge(void *ctx, const NxmemSharedPrefixHandle *handle, uint64_t *bytes_out) {
  const NxmemStatus done = nx_incremental_bytes(ctx, handle, bytes_out);
  if (done.code == NXMEM_STATUS_OK) *bytes_out = UINT64_MAX - 1u;
  return done;
}
static NxmemStatus incremental_silent(void *ctx, const NxmemSharedPrefixHandle *handle, uint64_t *bytes_out) {
  uint64_t bytes = 0u;
  return nx_incremental_bytes(ctx, handle, bytes_out == NULL ? NULL : &bytes);
}
static NxmemStatus incremental_refused(void *ctx, const NxmemSharedPrefixHandle *handle, uint64_t *bytes_out) {
  const NxmemStatus done = incremental_silent(ctx, handle, bytes_out);
  return done.code == NXMEM_STATUS_OK ? device_error("cannot say") : done;
}

/* ---- rollback-quarantines: the second commit fails, and what got the first cannot be released --------------------- */

static NxmemStatus release_quarantines(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *outcome_out) {
  const NxmemStatus begun = nx_begin_release(ctx, allocation, outcome_out);
  if (begun.code != NXMEM_STATUS_OK) return begun;
  uint32_t code = NXMEM_STATUS_OK;
  nx_block *block = nx_block_take(ctx, allocation, &code);
  if (block == NULL) return nx_status(code, "release: not what was allocated");
  nx_write_outcome(outcome_out, NXMEM_RELEASE_QUARANTINED, block->bytes, 0u, nx_block_mapped(block),
                   device_error("still in use"));
  nx_block_park(block, 1);
  return nx_ok();
}

static void spoil_release(NxmemAllocatorVtable *table) { table->release_allocation = release_quarantines; }

/* ---- The rows --------------------------------------------------------------------------------------------------- */

#define SPOIL(by, slot) \
  static void spoil_##by(NxmemSharedMappingVtable *table) { table->slot = (by); }
SPOIL(create_refused, create_shared_prefix)
SPOIL(create_silent, create_shared_prefix)
SPOIL(create_zero, create_shared_prefix)
SPOIL(create_other_mechanism, create_shared_prefix)
SPOIL(create_other_device, create_shared_prefix)
SPOIL(create_other_bytes, create_shared_prefix)
SPOIL(create_huge, create_shared_prefix)
SPOIL(create_same, create_shared_prefix)
SPOIL(share_silent, commit_shared_prefix)
SPOIL(share_huge, commit_shared_prefix)
SPOIL(share_charges, commit_shared_prefix)
SPOIL(share_fails_0, commit_shared_prefix)
SPOIL(share_fails_1, commit_shared_prefix)
SPOIL(share_fails_2, commit_shared_prefix)
SPOIL(share_fails_mapped, commit_shared_prefix)
SPOIL(share_nothing, commit_shared_prefix)
SPOIL(retain_refused, retain_shared_prefix)
SPOIL(release_refused, release_shared_prefix)
SPOIL(incremental_huge, incremental_owned_bytes)
SPOIL(incremental_silent, incremental_owned_bytes)
SPOIL(incremental_refused, incremental_owned_bytes)

#define CAPS (NX_CAPS | NXMEM_CAP_VIRTUAL_BACKING | NXMEM_CAP_SHARED_MAPPING)
#define ROW(row_name, by) \
  { NX_HONEST(row_name, CAPS), .lazy = 1, .spoil_sharing = spoil_##by }
static const nx_mechanism rows[] = {
    ROW("prefix-refused", create_refused),
    ROW("prefix-silent", create_silent),
    ROW("prefix-zero-handle", create_zero),
    ROW("prefix-other-mechanism", create_other_mechanism),
    ROW("prefix-other-device", create_other_device),
    ROW("prefix-other-bytes", create_other_bytes),
    ROW("prefix-huge", create_huge),
    ROW("prefix-same-handle", create_same),
    ROW("share-silent", share_silent),
    ROW("share-huge", share_huge),
    ROW("share-charges-twice", share_charges),
    ROW("share-fails-first", share_fails_0),
    ROW("share-fails-second", share_fails_1),
    ROW("share-fails-third", share_fails_2),
    ROW("share-fails-mapped", share_fails_mapped),
    ROW("share-nothing", share_nothing),
    ROW("prefix-retain-refused", retain_refused),
    ROW("prefix-release-refused", release_refused),
    ROW("incremental-huge", incremental_huge),
    ROW("incremental-silent", incremental_silent),
    ROW("incremental-refused", incremental_refused),
    {NX_HONEST("rollback-quarantines", CAPS), .lazy = 1, .spoil = spoil_release, .spoil_sharing = spoil_share_fails_1},
};
const nx_row_group nx_sharing_rows = NX_ROWS(rows);
