/*
 * rules_backing.c: rules about reserving, committing and decommitting.
 * Attackers: numbers that do not agree with what was mapped; memory that cannot be used.
 * Promise: memory is touched on tier host alone, and only where it was committed.
 */
#include <inttypes.h>
#include <string.h>

#include "conform/backing.h"
#include "conform/expect.h"
#include "conform/families.h"
#include "nxmem.h"
#include "touch.h"

enum { GRANULES = 8 };

static void reserves(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  NxmemAllocRequest request = nx_request(&opened, 1 << 20, 4096);
  NxmemAllocResult result = nx_blank_result();
  nx_expect_status(nx_allocate_committed(&opened, &request, &result), NX_CODE(OK), "1 MiB without a range");
  NX_EXPECT(result.ptr, "OK with a NULL address");
  NX_EXPECT((uintptr_t)result.ptr % 4096 == 0, "%p is not aligned to 4096", (void *)result.ptr);
  nx_seen("OK");
}

static void reserve_is_empty(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  nx_reserve r = {.opened = opened, .block = nx_reserve_block(&opened, 1 << 20)};
  uint64_t mapped = r.block.result.mapped_bytes, committed = NX_UNWRITTEN;
  nx_expect_status(nx_committed(&opened, &r.block.allocation, &committed), NX_CODE(OK), "committed_bytes");
  NX_EXPECT(mapped == 0, "mapped_bytes is %" PRIu64 " for a reserve without ranges", mapped);
  NX_EXPECT(committed == 0, "committed_bytes is %" PRIu64 " for a reserve without ranges", committed);
  nx_seen("0 bytes");
}

static void large_reserve(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  NxmemAllocRequest request = nx_request(&opened, 1ull << 40, 4096);
  nx_reserve r = {.opened = opened, .block.result = nx_blank_result()};
  uint32_t code = nx_allocate_committed(&opened, &request, &r.block.result).code;
  if (code == NXMEM_STATUS_OUT_OF_MEMORY) nx_does_not_apply("1 TiB cannot be reserved here");
  nx_expect_code(code, NX_CODE(OK), "1 TiB without a range");
  r.block.allocation = nx_allocation_of(&request, &r.block.result);
  uint64_t committed = nx_committed_now(&r);
  NX_EXPECT(committed == 0, "committed_bytes is %" PRIu64 " for a reserve of 1 TiB", committed);
  nx_seen("0 of 1 TiB");
}

static void one_byte_costs(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  nx_block block = nx_reserve_block(&opened, 1 << 20);
  NxmemRangeRequest one = nx_range_of(&block, 0, 1);
  uint64_t cost = NX_UNWRITTEN;
  nx_expect_status(nx_mapped_for(&opened, &one, 1, &cost), NX_CODE(OK), "the cost of one byte");
  NX_EXPECT(cost != NX_UNWRITTEN, "mapped_out was left unwritten");
  NX_EXPECT(cost >= 1 && cost <= 1ull << 40, "one byte costs %" PRIu64, cost);
  nx_seen("%" PRIu64 " bytes for one", cost);
}

/* ---- Ranges given with the allocation ---------------------------------------------------------------------------- */

typedef struct ranged {
  nx_reserve reserve;
  NxmemAllocRequest request;
  NxmemByteRange ranges[2];
} ranged;

/* The first byte of the first granule, and all of the third. */
static void prepare(nx_trial *trial, ranged *out) {
  out->reserve = nx_reserve_ready(trial, GRANULES);
  uint64_t g = out->reserve.granule;
  out->ranges[0] = (NxmemByteRange){0, 1};
  out->ranges[1] = (NxmemByteRange){2 * g, g};
  out->request = nx_request(&out->reserve.opened, GRANULES * g, 4096);
  out->request.committed_ranges = out->ranges;
  out->request.committed_range_count = 2;
}

static void must_touch(const nx_opened *opened, uint8_t *start, uint64_t bytes) {
  nx_touch_guard guard;
  if (!nx_may_touch(opened)) return;
  nx_enter("writing to committed memory");
  nx_touch_begin(&guard);
  nx_touch wrote = nx_touch_fill(start, bytes, 1), read = {NX_TOUCH_OK, 0};
  if (wrote.result == NX_TOUCH_OK) read = nx_touch_verify(start, bytes, 1);
  nx_touch_end(&guard);
  NX_EXPECT(wrote.result == NX_TOUCH_OK, "0x%" PRIx64 " is committed and cannot be written", wrote.address);
  NX_EXPECT(read.result == NX_TOUCH_OK, "0x%" PRIx64 " does not hold what was written", read.address);
}

static void commits_ranges(nx_trial *trial, const void *with) {
  (void)with;
  ranged r;
  NxmemAllocResult result = nx_blank_result();
  prepare(trial, &r);
  nx_expect_status(nx_allocate_committed(&r.reserve.opened, &r.request, &result), NX_CODE(OK), "two ranges");
  NX_EXPECT(result.mapped_bytes >= 1 + r.reserve.granule && result.mapped_bytes <= r.request.bytes,
            "mapped_bytes is %" PRIu64 " for ranges of 1 and %" PRIu64 " bytes", result.mapped_bytes,
            r.reserve.granule);
  must_touch(&r.reserve.opened, result.ptr, 1);
  must_touch(&r.reserve.opened, result.ptr + 2 * r.reserve.granule, r.reserve.granule);
  nx_seen("%" PRIu64 " bytes mapped", result.mapped_bytes);
}

static void foretells_allocation(nx_trial *trial, const void *with) {
  (void)with;
  ranged r;
  NxmemAllocResult result = nx_blank_result();
  uint64_t foretold = NX_UNWRITTEN;
  prepare(trial, &r);
  const NxmemVirtualBackingVtable *backing = &r.reserve.opened.backing;
  nx_needs_slot(backing->mapped_bytes_for_allocation != NULL, "mapped_bytes_for_allocation");
  NxmemUnloadReport before = nx_plugin_report(trial);
  nx_enter("mapped_bytes_for_allocation");
  nx_expect_status(backing->mapped_bytes_for_allocation(backing->ctx, &r.request, &foretold), NX_CODE(OK),
                   "the cost of two ranges");
  nx_same_counts(trial, &before, "a question");
  NX_GIVEN(nx_allocate_committed(&r.reserve.opened, &r.request, &result).code == NXMEM_STATUS_OK, "it was refused");
  NX_EXPECT(foretold == result.mapped_bytes, "foretold %" PRIu64 ", mapped %" PRIu64, foretold, result.mapped_bytes);
  nx_seen("%" PRIu64, foretold);
}

/* ---- Commit ------------------------------------------------------------------------------------------------------ */

static void commit_gives_memory(nx_trial *trial, const void *with) {
  (void)with;
  nx_reserve r = nx_reserve_ready(trial, GRANULES);
  NxmemRangeRequest range = nx_range_of(&r.block, r.granule, 2 * r.granule);
  nx_expect_status(nx_commit(&r.opened, &range), NX_CODE(OK), "two granules of a reserve");
  must_touch(&r.opened, r.block.allocation.ptr + r.granule, 2 * r.granule);
  nx_seen("%" PRIu64 " bytes", 2 * r.granule);
}

static uint64_t cost_of(const nx_reserve *r, uint64_t offset, uint64_t bytes) {
  NxmemRangeRequest range = nx_range_of(&r->block, offset, bytes);
  uint64_t cost = NX_UNWRITTEN;
  nx_given_ok(nx_mapped_for(&r->opened, &range, 1, &cost), "mapped_bytes_for_ranges");
  return cost;
}

static void foretells_commit(nx_trial *trial, const void *with) {
  (void)with;
  nx_reserve r = nx_reserve_ready(trial, GRANULES);
  const uint64_t offsets[] = {0, r.granule + 1, 4 * r.granule - 1}, bytes[] = {1, r.granule, 2};
  for (int i = 0; i < 3; i++) {
    uint64_t before = nx_committed_now(&r), cost = cost_of(&r, offsets[i], bytes[i]);
    nx_must_commit(&r, offsets[i], bytes[i]);
    uint64_t grown = nx_committed_now(&r) - before;
    NX_EXPECT(grown == cost, "committing %" PRIu64 " bytes at %" PRIu64 " was to map %" PRIu64 ", it mapped %" PRIu64,
              bytes[i], offsets[i], cost, grown);
  }
  nx_seen("three ranges, each as foretold");
}

static void larger_costs_more(nx_trial *trial, const void *with) {
  (void)with;
  nx_reserve r = nx_reserve_ready(trial, GRANULES);
  uint64_t last = 0;
  for (uint64_t bytes = 1; bytes <= GRANULES * r.granule; bytes *= 2) {
    uint64_t cost = cost_of(&r, 0, bytes);
    NX_EXPECT(cost >= bytes, "%" PRIu64 " bytes cost %" PRIu64, bytes, cost);
    NX_EXPECT(cost >= last, "%" PRIu64 " bytes cost %" PRIu64 ", half of them %" PRIu64, bytes, cost, last);
    last = cost;
  }
  nx_seen("up to %" PRIu64, last);
}

static void commit_twice(nx_trial *trial, const void *with) {
  (void)with;
  nx_reserve r = nx_reserve_ready(trial, GRANULES);
  nx_touch_guard guard;
  nx_must_commit(&r, 0, 2 * r.granule);
  must_touch(&r.opened, r.block.allocation.ptr, 2 * r.granule);
  uint64_t before = nx_committed_now(&r);
  nx_must_commit(&r, 0, 2 * r.granule);
  uint64_t after = nx_committed_now(&r);
  NX_EXPECT(before == after, "committed_bytes went from %" PRIu64 " to %" PRIu64, before, after);
  if (nx_may_touch(&r.opened)) {
    nx_touch_begin(&guard);
    nx_touch kept = nx_touch_verify(r.block.allocation.ptr, 2 * r.granule, 1);
    nx_touch_end(&guard);
    NX_EXPECT(kept.result == NX_TOUCH_OK, "0x%" PRIx64 " lost its content", kept.address);
  }
  nx_seen("%" PRIu64 " bytes, content kept", after);
}

/* ---- Decommit ---------------------------------------------------------------------------------------------------- */

static void decommit_gives_back(nx_trial *trial, const void *with) {
  (void)with;
  nx_reserve r = nx_reserve_ready(trial, GRANULES);
  nx_must_commit(&r, 0, 4 * r.granule);
  NxmemRangeRequest range = nx_range_of(&r.block, r.granule, 2 * r.granule);
  uint64_t before = nx_committed_now(&r), unmapped = NX_UNWRITTEN;
  nx_expect_status(nx_decommit(&r.opened, &range, &unmapped), NX_CODE(OK), "two committed granules");
  uint64_t after = nx_committed_now(&r);
  NX_EXPECT(unmapped == before - after,
            "unmapped_out is %" PRIu64 ", committed_bytes went from %" PRIu64 " to %" PRIu64, unmapped, before, after);
  NX_EXPECT(unmapped >= 2 * r.granule, "two whole granules gave back %" PRIu64 " bytes", unmapped);
  nx_seen("%" PRIu64 " bytes", unmapped);
}

static void neighbours_stay(nx_trial *trial, const void *with) {
  (void)with;
  nx_reserve r = nx_reserve_ready(trial, GRANULES);
  nx_touch_guard guard;
  uint8_t *start = r.block.allocation.ptr;
  if (!nx_may_touch(&r.opened)) nx_does_not_apply("the memory is not the CPU's to touch");
  nx_must_commit(&r, 0, 3 * r.granule);
  must_touch(&r.opened, start, r.granule);
  must_touch(&r.opened, start + 2 * r.granule, r.granule);
  nx_must_decommit(&r, r.granule, r.granule);
  nx_touch_begin(&guard);
  nx_touch below = nx_touch_verify(start, r.granule, 1), above = nx_touch_verify(start + 2 * r.granule, r.granule, 1);
  nx_touch_end(&guard);
  NX_EXPECT(below.result == NX_TOUCH_OK, "0x%" PRIx64 " below the range lost its content", below.address);
  NX_EXPECT(above.result == NX_TOUCH_OK, "0x%" PRIx64 " above the range lost its content", above.address);
  nx_seen("content kept on both sides");
}

static void commit_again(nx_trial *trial, const void *with) {
  (void)with;
  nx_reserve r = nx_reserve_ready(trial, GRANULES);
  nx_must_commit(&r, 0, 2 * r.granule);
  uint64_t before = nx_committed_now(&r);
  for (int i = 0; i < 20; i++) {
    nx_must_decommit(&r, 0, 2 * r.granule);
    nx_must_commit(&r, 0, 2 * r.granule);
    must_touch(&r.opened, r.block.allocation.ptr, 2 * r.granule);
  }
  uint64_t after = nx_committed_now(&r);
  NX_EXPECT(before == after, "committed_bytes went from %" PRIu64 " to %" PRIu64 " over 20 rounds", before, after);
  nx_seen("20 rounds");
}

static void decommit_nothing(nx_trial *trial, const void *with) {
  (void)with;
  nx_reserve r = nx_reserve_ready(trial, GRANULES);
  uint64_t unmapped = nx_must_decommit(&r, 0, GRANULES * r.granule);
  NX_EXPECT(unmapped == 0, "unmapped_out is %" PRIu64 " with nothing committed", unmapped);
  nx_seen("0");
}

/* ---- The end of a block ------------------------------------------------------------------------------------------ */

static void release_gives_back(nx_trial *trial, const void *with) {
  (void)with;
  nx_reserve r = nx_reserve_ready(trial, GRANULES);
  NxmemUnloadReport report;
  uint64_t unmapped = NX_UNWRITTEN;
  nx_must_commit(&r, 0, 3 * r.granule);
  uint64_t committed = nx_committed_now(&r);
  nx_expect_status(nx_deallocate(&r.opened, &r.block.allocation, &unmapped), NX_CODE(OK), "a reserve");
  NX_EXPECT(unmapped <= committed, "%" PRIu64 " bytes unmapped, %" PRIu64 " were committed", unmapped, committed);
  report = nx_plugin_report(trial);
  NX_EXPECT(report.live_allocations == 0, "live_allocations is %" PRIu64, report.live_allocations);
  nx_seen("%" PRIu64 " of %" PRIu64 " bytes", unmapped, committed);
}

#define VBK(name, text, place, need, function)                                                           \
  {                                                                                                      \
    .id = (name), .statement = (text), .section = (place), .scope = NX_SCOPE_MECHANISM, .needs = (need), \
    .capability = NXMEM_CAP_VIRTUAL_BACKING, .check = (function)                                         \
  }
#define BACKED(name, text, need, function) VBK(name, text, "Capabilities", need, function)

static const nx_rule RULES[] = {
    BACKED("NX-VBK-001", "allocate_committed reserves 1 MiB, aligned as asked", "NX-TAB-011", reserves),
    BACKED("NX-VBK-002", "A reserve without ranges maps and commits nothing", "NX-VBK-001", reserve_is_empty),
    BACKED("NX-VBK-003", "A reserve of 1 TiB commits nothing", "NX-VBK-002", large_reserve),
    BACKED("NX-VBK-004", "Ranges given with the allocation are committed, and counted in mapped_bytes", "NX-VBK-015",
           commits_ranges),
    BACKED("NX-VBK-005", "mapped_bytes_for_allocation is what allocate_committed then maps", "NX-VBK-004",
           foretells_allocation),
    BACKED("NX-VBK-006", "commit_range makes its range usable", "NX-VBK-015", commit_gives_memory),
    BACKED("NX-VBK-007", "mapped_bytes_for_ranges is what commit_range then adds to committed_bytes", "NX-VBK-006",
           foretells_commit),
    BACKED("NX-VBK-008", "A range costs at least its bytes, and a larger one no less", "NX-VBK-015", larger_costs_more),
    BACKED("NX-VBK-009", "A second commit of the same range changes nothing", "NX-VBK-006", commit_twice),
    BACKED("NX-VBK-010", "decommit_range reports what committed_bytes loses", "NX-VBK-006", decommit_gives_back),
    BACKED("NX-VBK-011", "decommit_range leaves what lies beside its range alone", "NX-VBK-010", neighbours_stay),
    BACKED("NX-VBK-012", "What was decommitted can be committed again", "NX-VBK-010", commit_again),
    BACKED("NX-VBK-013", "decommit_range of what is not committed gives back nothing", "NX-VBK-010", decommit_nothing),
    BACKED("NX-VBK-014", "A release gives back no more than was committed, and leaves nothing live", "NX-VBK-006",
           release_gives_back),
    BACKED("NX-VBK-015", "mapped_bytes_for_ranges says what one byte costs", "NX-VBK-002", one_byte_costs),
};

const nx_family nx_backing_rules = NX_FAMILY("virtual backing", "Reserving, committing, decommitting", RULES);
