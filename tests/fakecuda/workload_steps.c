/*
 * workload_steps.c: what a program does with an allocator: commits, shared prefixes, queued releases, small blocks.
 *
 * Attackers played: a driver that fails once.
 * Promise: a refused step is not built upon; everything that was made is given back or tried to be.
 */
#include "workload.h"

enum { SPAN = 8 };

static int make_span(nx_work *work, uint64_t granules, uint64_t committed, nxmem_allocation *out) {
  nxmem_error error;
  const NxmemByteRange range = {0, committed * NX_GRANULE};
  const nxmem_allocate_options options = {&range, 1};
  int made = nx_step(work, "allocate a span",
                     nxmem_allocate(work->allocator, granules * NX_GRANULE, NX_GRANULE, &options, out, &error), &error);
  if (made) nx_compare_place(work, *out, granules * NX_GRANULE);
  return made;
}

/* Twice where it was refused and stays live. */
static void release(nx_work *work, nxmem_allocation allocation) {
  nxmem_error error;
  nxmem_result result = nxmem_release(work->allocator, allocation, NULL, &error);
  if (nx_step(work, "release", result, &error) || result == NXMEM_ERR_QUARANTINED) return;
  result = nxmem_release(work->allocator, allocation, NULL, &error);
  nx_step(work, "release again", result, &error);
}

static int commit(nx_work *work, nxmem_allocation span, uint64_t first, uint64_t count) {
  nxmem_error error;
  const NxmemByteRange range = {first * NX_GRANULE, count * NX_GRANULE};
  return nx_step(work, "commit", nxmem_commit(work->allocator, span, range, &error), &error);
}

static int decommit(nx_work *work, nxmem_allocation span, uint64_t first, uint64_t count) {
  nxmem_error error;
  uint64_t unmapped;
  const NxmemByteRange range = {first * NX_GRANULE, count * NX_GRANULE};
  return nx_step(work, "decommit", nxmem_decommit(work->allocator, span, range, &unmapped, &error), &error);
}

/* A failed commit is tried again: the fault is over, so it must work, unless something of the span was lost since `before`. */
static void commit_for_sure(nx_work *work, nxmem_allocation span, NxmemByteRange granules, uint64_t before) {
  if (commit(work, span, granules.offset, granules.bytes) || !nx_serves(work)) return;
  nx_compare(work, "a failed commit", 0);
  if (work->quarantined != before) return;
  if (!commit(work, span, granules.offset, granules.bytes)) nx_broken(work, "a commit that failed once fails again");
}

void nx_run_commits(nx_work *work) {
  nxmem_allocation span;
  const uint64_t before = work->quarantined;
  if (!make_span(work, SPAN, 1, &span)) return;
  commit_for_sure(work, span, (NxmemByteRange){2, 3}, before);
  nx_compare_place(work, span, SPAN * NX_GRANULE);
  commit_for_sure(work, span, (NxmemByteRange){0, SPAN}, before);
  nx_compare(work, "commits", 0);
  decommit(work, span, 1, 2);
  decommit(work, span, 5, 1);
  nx_compare(work, "decommits", 0);
  commit_for_sure(work, span, (NxmemByteRange){1, 1}, before);
  nx_compare_place(work, span, SPAN * NX_GRANULE);
  release(work, span);
  nx_compare(work, "a release", 0);
}

/* ---- Shared prefixes --------------------------------------------------------------------------------------------- */

static void share_among(nx_work *work, nxmem_prefix prefix, const nxmem_allocation *spans, uint32_t count) {
  nxmem_error error;
  nxmem_group_outcome outcome = NXMEM_GROUP_SHARED;
  nxmem_result result = nxmem_prefix_commit(prefix, spans, count, 2 * NX_GRANULE, &outcome, &error);
  int shared = nx_step(work, "share", result, &error) && outcome == NXMEM_GROUP_SHARED;
  for (uint32_t i = 0; i < count && shared; i++) nx_compare_place(work, spans[i], 4 * NX_GRANULE);
  nx_compare(work, "sharing", 1);
}

static void release_prefix(nx_work *work, nxmem_prefix prefix) {
  nxmem_error error;
  if (nx_step(work, "release the prefix", nxmem_prefix_release(prefix, &error), &error)) return;
  nx_step(work, "release the prefix again", nxmem_prefix_release(prefix, &error), &error);
}

void nx_run_sharing(nx_work *work) {
  nxmem_error error;
  nxmem_prefix prefix;
  nxmem_allocation spans[2];
  uint32_t count = 0;
  if (!nx_step(work, "make a prefix", nxmem_prefix_create(work->allocator, 2 * NX_GRANULE, &prefix, &error), &error))
    return;
  while (count < 2 && make_span(work, 4, 1, &spans[count])) count++;
  if (count == 2) share_among(work, prefix, spans, count);
  if (count > 0) release(work, spans[0]);
  release_prefix(work, prefix);
  if (count > 1) release(work, spans[1]);
  nx_compare(work, "the end of sharing", 0);
}

/* ---- Queued releases --------------------------------------------------------------------------------------------- */

static void drain(nx_work *work) {
  nxmem_error error;
  nxmem_pending pending = {0, 0};
  uint64_t retired;
  for (int i = 0; i < 3; i++) {
    nx_step(work, "drain", nxmem_drain_releases(work->allocator, 9, &retired, &error), &error);
    if (nxmem_pending_releases(work->allocator, &pending, &error) == NXMEM_OK && pending.plugin == 0) return;
  }
  if (nx_serves(work)) nx_broken(work, "%llu releases stay queued", (unsigned long long)pending.plugin);
}

void nx_run_deferred(nx_work *work) {
  for (int i = 0; i < 2; i++) {
    nxmem_error error;
    nxmem_allocation span;
    if (!make_span(work, 3, 3, &span)) continue;
    nxmem_result result = nxmem_enqueue_release(work->allocator, span, NULL, NULL, &error);
    if (!nx_step(work, "queue a release", result, &error)) release(work, span);
  }
  drain(work);
  nx_compare(work, "a drain", 0);
}

/* ---- Small blocks ------------------------------------------------------------------------------------------------ */

void nx_run_blocks(nx_work *work) {
  static const uint64_t sizes[] = {100, 4096, 3 * NX_GRANULE / 2, 64};
  nxmem_allocation blocks[4];
  int made[4];
  for (int i = 0; i < 4; i++) {
    nxmem_error error;
    nxmem_result result = nxmem_allocate(work->allocator, sizes[i], 64, NULL, &blocks[i], &error);
    made[i] = nx_step(work, "allocate a block", result, &error);
  }
  nx_compare(work, "blocks", 0);
  for (int i = 0; i < 4; i++) {
    if (made[(i + 2) % 4]) release(work, blocks[(i + 2) % 4]);
  }
  nx_compare(work, "blocks given back", 0);
}
