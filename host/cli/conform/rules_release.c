/*
 * rules_release.c: rules about giving a block back: deallocate, and release_allocation's outcome.
 * Attackers: numbers that refund more than was charged, outcomes that are not written, states nobody defined.
 * Promise: an outcome is pre-filled with ones, so that what is left unwritten shows.
 */
#include <inttypes.h>
#include <string.h>

#include "conform/expect.h"
#include "conform/families.h"
#include "conform/memory.h"
#include "conform/parallel.h"
#include "conform/slots.h"
#include "nxmem.h"

enum { BYTES = 4000, ALIGN = 64, BLOCKS = 32 };

/* ---- deallocate -------------------------------------------------------------------------------------------------- */

static void gives_back(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  uint64_t unmapped = NX_UNWRITTEN;
  nx_block block = nx_take(&opened, BYTES, ALIGN);
  nx_expect_status(nx_deallocate(&opened, &block.allocation, &unmapped), NX_CODE(OK), "a live block, idle");
  nx_seen("OK");
}

/* Earlier releases may have left pages mapped: only the sum is bounded. */
static void unmapped_is_bounded(nx_trial *trial, const void *with) {
  (void)with;
  uint64_t mapped = 0, unmapped = 0;
  nx_opened opened = nx_open_ready(trial);
  for (int i = 0; i < BLOCKS; i++) {
    nx_block block = nx_take(&opened, BYTES, ALIGN);
    uint64_t now = NX_UNWRITTEN;
    NX_GIVEN(block.result.mapped_bytes <= INT64_MAX, "mapped_bytes is %" PRIu64, block.result.mapped_bytes);
    mapped += block.result.mapped_bytes;
    NX_GIVEN(nx_deallocate(&opened, &block.allocation, &now).code == NXMEM_STATUS_OK, "deallocate refused");
    NX_EXPECT(now <= mapped - unmapped, "%" PRIu64 " bytes unmapped, %" PRIu64 " were mapped and not yet unmapped", now,
              mapped - unmapped);
    unmapped += now;
  }
  nx_seen("%" PRIu64 " of %" PRIu64 " bytes", unmapped, mapped);
}

static void unmapped_is_written(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  nx_block block = nx_take(&opened, BYTES, ALIGN);
  const uint64_t before[] = {0x5555555555555555ull, 0xAAAAAAAAAAAAAAAAull};
  uint64_t first = before[0], second = before[1];
  NX_GIVEN(nx_deallocate(&opened, &block.allocation, &first).code == NXMEM_STATUS_OK, "deallocate refused");
  block = nx_take(&opened, BYTES, ALIGN);
  NX_GIVEN(nx_deallocate(&opened, &block.allocation, &second).code == NXMEM_STATUS_OK, "deallocate refused");
  NX_EXPECT(first != before[0] || second != before[1], "unmapped_bytes_out was left unwritten");
  nx_seen("%" PRIu64, first);
}

static void exact_memory(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  const uint64_t blank = NX_UNWRITTEN;
  nx_block block = nx_take(&opened, BYTES, ALIGN);
  const NxmemAllocation *record = nx_guarded(&block.allocation, sizeof block.allocation, 0);
  uint64_t *unmapped = nx_guarded(&blank, sizeof blank, 1);
  nx_expect_status(nx_deallocate(&opened, record, unmapped), NX_CODE(OK), "a read-only record of its exact size");
  nx_seen("OK");
}

static void long_record(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  uint64_t unmapped = NX_UNWRITTEN;
  nx_block block = nx_take(&opened, BYTES, ALIGN);
  const NxmemAllocation *record = nx_long_copy(&block.allocation, NX_ALLOCATION_BYTES);
  nx_expect_status(nx_deallocate(&opened, record, &unmapped), NX_CODE(OK), "a record of 120 bytes");
  nx_seen("OK");
}

typedef struct race {
  const nx_opened *opened;
  nx_block block;
  _Atomic uint32_t succeeded;
} race;

static void race_to_give(void *with, uint32_t thread) {
  race *shared = with;
  uint64_t unmapped = NX_UNWRITTEN;
  (void)thread;
  uint32_t code = nx_deallocate(shared->opened, &shared->block.allocation, &unmapped).code;
  if (code == NXMEM_STATUS_OK) atomic_fetch_add(&shared->succeeded, 1);
  nx_expect_code(code, NX_CODE(OK) | NX_CODE(UNKNOWN_ALLOCATION), "the same block from eight threads");
}

static void only_one_wins(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  for (int i = 0; i < BLOCKS; i++) {
    race shared = {&opened, nx_take(&opened, BYTES, ALIGN), 0};
    nx_parallel(race_to_give, &shared);
    NX_EXPECT(shared.succeeded == 1, "%" PRIu32 " of 8 threads gave the same block back", shared.succeeded);
  }
  nx_seen("one of 8 threads, %d times", BLOCKS);
}

/* ---- release_allocation ------------------------------------------------------------------------------------------ */

typedef struct released {
  nx_block block;
  NxmemReleaseOutcome outcome;
  uint32_t code;
} released;

static released release_one(nx_trial *trial) {
  nx_opened opened = nx_open_ready(trial);
  released out = {.block = nx_take(&opened, BYTES, ALIGN), .outcome = nx_blank_outcome()};
  out.code = nx_release_allocation(&opened, &out.block.allocation, &out.outcome).code;
  return out;
}

static void answers_ok(nx_trial *trial, const void *with) {
  (void)with;
  nx_expect_code(release_one(trial).code, NX_CODE(OK), "a live block, idle");
  nx_seen("OK");
}

static void state_is_written(nx_trial *trial, const void *with) {
  (void)with;
  uint32_t state = release_one(trial).outcome.state;
  NX_EXPECT(state != UINT32_MAX, "the outcome's state was left unwritten: a host takes that for quarantine");
  NX_EXPECT(state <= NXMEM_RELEASE_FAILED, "state %" PRIu32 " is none that is defined", state);
  nx_seen("state %" PRIu32, state);
}

static void completes(nx_trial *trial, const void *with) {
  (void)with;
  uint32_t state = release_one(trial).outcome.state;
  NX_EXPECT(state == NXMEM_RELEASE_COMPLETE, "a block that nothing uses is %s",
            state == NXMEM_RELEASE_FAILED ? "FAILED" : "QUARANTINED");
  nx_seen("COMPLETE");
}

static released completed(nx_trial *trial) {
  released out = release_one(trial);
  NX_GIVEN(out.code == NXMEM_STATUS_OK && out.outcome.state == NXMEM_RELEASE_COMPLETE, "it did not complete");
  return out;
}

static void names_the_size(nx_trial *trial, const void *with) {
  (void)with;
  uint64_t found = completed(trial).outcome.allocation_bytes;
  NX_EXPECT(found == BYTES, "allocation_bytes is %" PRIu64 ", the block was asked for with %d", found, BYTES);
  nx_seen("%d", BYTES);
}

static void refund_is_bounded(nx_trial *trial, const void *with) {
  (void)with;
  released out = completed(trial);
  NX_EXPECT(out.outcome.unmapped_bytes <= out.block.result.mapped_bytes,
            "unmapped_bytes is %" PRIu64 ", mapped were %" PRIu64, out.outcome.unmapped_bytes,
            out.block.result.mapped_bytes);
  nx_seen("%" PRIu64 " of %" PRIu64, out.outcome.unmapped_bytes, out.block.result.mapped_bytes);
}

static void no_residue(nx_trial *trial, const void *with) {
  (void)with;
  uint64_t residue = completed(trial).outcome.residual_owned_bytes;
  NX_EXPECT(residue == 0, "residual_owned_bytes is %" PRIu64 " in a complete release", residue);
  nx_seen("0");
}

static void no_failure(nx_trial *trial, const void *with) {
  (void)with;
  NxmemStatus failure = completed(trial).outcome.failure;
  NX_EXPECT(failure.code == NXMEM_STATUS_OK, "failure says %s in a complete release", nxmem_status_name(failure.code));
  NX_EXPECT(failure.message_len <= NXMEM_STATUS_MESSAGE_MAX, "failure's message_len is %" PRIu32, failure.message_len);
  nx_seen("OK");
}

static void outcome_size(nx_trial *trial, const void *with) {
  (void)with;
  uint32_t size = completed(trial).outcome.struct_size;
  NX_EXPECT(size == NX_OUTCOME_BYTES, "struct_size is %" PRIu32 ", 296 were written", size);
  nx_seen("296");
}

static const uint32_t ROOMS[] = {0, 4, 8, 16, 32, 64, 288, 295};
enum { ROOM_COUNT = sizeof ROOMS / sizeof ROOMS[0] };

static uint32_t release_into(const nx_opened *opened, const nx_block *block, nx_room *room, uint32_t declared) {
  uint8_t blank[NX_ROOM_BYTES];
  memset(blank, 0xFF, sizeof blank);
  nx_room_begin(room, blank, declared);
  return nx_release_allocation(opened, &block->allocation, (NxmemReleaseOutcome *)(void *)room->bytes).code;
}

static void short_room(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  for (int i = 0; i < ROOM_COUNT; i++) {
    nx_room room;
    nx_block block = nx_take(&opened, BYTES, ALIGN);
    release_into(&opened, &block, &room, ROOMS[i]);
    long at = nx_room_overrun(&room);
    NX_EXPECT(at < 0, "wrote byte %ld of an outcome whose room is %" PRIu32, at, ROOMS[i]);
  }
  nx_seen("nothing written beyond %d rooms", ROOM_COUNT);
}

static void short_room_refused(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  NxmemUnloadReport empty = nx_plugin_report(trial);
  for (int i = 0; i < ROOM_COUNT; i++) {
    nx_room room;
    nx_block block = nx_take(&opened, BYTES, ALIGN);
    nx_expect_code(release_into(&opened, &block, &room, ROOMS[i]), NX_CODE(SHORT_STRUCT), "room for less than 296");
    nx_still_live(&opened, &block, "a short room");
  }
  nx_same_counts(trial, &empty, "every block given back");
  nx_seen("SHORT_STRUCT for %d rooms; the blocks stay live", ROOM_COUNT);
}

static void outcome_exact(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  const NxmemReleaseOutcome blank = nx_blank_outcome();
  nx_block block = nx_take(&opened, BYTES, ALIGN);
  NxmemReleaseOutcome *outcome = nx_guarded(&blank, sizeof blank, 1);
  const NxmemAllocation *record = nx_guarded(&block.allocation, sizeof block.allocation, 0);
  nx_expect_status(nx_release_allocation(&opened, record, outcome), NX_CODE(OK), "records of their exact size");
  nx_seen("OK");
}

static void both_ways(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  NxmemUnloadReport before = nx_plugin_report(trial);
  uint64_t unmapped = NX_UNWRITTEN;
  nx_block first = nx_take(&opened, BYTES, ALIGN), second = nx_take(&opened, BYTES, ALIGN);
  NxmemReleaseOutcome outcome = nx_blank_outcome();
  nx_expect_status(nx_deallocate(&opened, &first.allocation, &unmapped), NX_CODE(OK), "deallocate beside it");
  nx_expect_status(nx_release_allocation(&opened, &second.allocation, &outcome), NX_CODE(OK), "release_allocation");
  nx_expect_status(nx_deallocate(&opened, &second.allocation, &unmapped), NX_CODE(UNKNOWN_ALLOCATION),
                   "deallocate of what release_allocation gave back");
  nx_same_counts(trial, &before, "both blocks given back");
  nx_seen("the same block under both");
}

enum { WATCHES = 4 };

static void leaves_the_outcome(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  for (int i = 0; i < WATCHES; i++) {
    nx_block block = nx_take(&opened, BYTES, ALIGN);
    NxmemReleaseOutcome outcome = nx_blank_outcome();
    NX_GIVEN(nx_release_allocation(&opened, &block.allocation, &outcome).code == NXMEM_STATUS_OK, "it was refused");
    NX_EXPECT(nx_stands_still(&outcome, sizeof outcome), "the outcome changed behind the call");
  }
  nx_seen("unchanged %d times", WATCHES);
}

#define DEA(name, text, place, need, function)                                                           \
  {                                                                                                      \
    .id = (name), .statement = (text), .section = (place), .scope = NX_SCOPE_MECHANISM, .needs = (need), \
    .check = (function)                                                                                  \
  }
#define STR(name, text, place, need, function)                                                           \
  {                                                                                                      \
    .id = (name), .statement = (text), .section = (place), .scope = NX_SCOPE_MECHANISM, .needs = (need), \
    .capability = NXMEM_CAP_STRUCTURED_RELEASE, .check = (function)                                      \
  }

static const nx_rule DEALLOCATE[] = {
    DEA("NX-DEA-001", "deallocate answers OK to a live block that nothing uses", "Releases", "NX-ALC-005", gives_back),
    DEA("NX-DEA-002", "unmapped_bytes_out is written", "Releases", "NX-DEA-001", unmapped_is_written),
    DEA("NX-DEA-003", "No more is reported as unmapped than was reported as mapped", "Releases", "NX-DEA-002",
        unmapped_is_bounded),
    DEA("NX-DEA-004", "The record is not written to, and its exact size suffices", "Sizes", "NX-DEA-001", exact_memory),
    DEA("NX-DEA-005", "A record longer than 56 bytes is taken, its tail not looked at", "Sizes", "NX-DEA-001",
        long_record),
    DEA("NX-DEA-006", "Of eight threads that give the same block back, one succeeds", "Threads", "NX-DEA-001",
        only_one_wins),
};

static const nx_rule STRUCTURED[] = {
    STR("NX-STR-001", "release_allocation answers OK to a live block that nothing uses", "Releases", "NX-DEA-001",
        answers_ok),
    STR("NX-STR-002", "The outcome's state is written, and one that is defined", "Releases", "NX-STR-001",
        state_is_written),
    STR("NX-STR-003", "The release of a block that nothing uses is COMPLETE", "Releases", "NX-STR-002", completes),
    STR("NX-STR-004", "allocation_bytes is the requested size", "Releases", "NX-STR-003", names_the_size),
    STR("NX-STR-005", "unmapped_bytes is not more than was mapped", "Releases", "NX-STR-003", refund_is_bounded),
    STR("NX-STR-006", "residual_owned_bytes is 0 when complete", "Releases", "NX-STR-003", no_residue),
    STR("NX-STR-007", "failure is OK when complete", "Releases", "NX-STR-003", no_failure),
    STR("NX-STR-008", "The outcome says in struct_size that its 296 bytes were written", "Sizes", "NX-STR-003",
        outcome_size),
    STR("NX-STR-009", "Nothing is written beyond the room that the outcome's struct_size offers", "Sizes", "NX-STR-003",
        short_room),
    STR("NX-STR-010", "Room for less than 296 bytes is SHORT_STRUCT, and the block stays live", "Sizes", "NX-STR-003",
        short_room_refused),
    STR("NX-STR-011", "The record is not written to, and records of their exact size suffice", "Sizes", "NX-STR-003",
        outcome_exact),
    STR("NX-STR-012", "deallocate serves beside release_allocation, and knows what that gave back", "Releases",
        "NX-STR-003", both_ways),
    STR("NX-STR-013", "The outcome is not written to behind the call", "Threads", "NX-STR-003", leaves_the_outcome),
};

const nx_family nx_deallocate_rules = NX_FAMILY("deallocate", "Giving a block back", DEALLOCATE);
const nx_family nx_structured_rules = NX_FAMILY("structured release", "release_allocation and its outcome", STRUCTURED);
