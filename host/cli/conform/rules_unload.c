/*
 * rules_unload.c: rules about NxmemQueryUnloadReadiness.
 * Attackers: a report that is short, unwritten, or written beyond its room.
 * Promise: what the counts must be with objects live is judged by the families that make those objects.
 */
#include <inttypes.h>
#include <string.h>

#include "conform/expect.h"
#include "conform/families.h"
#include "conform/memory.h"
#include "conform/parallel.h"
#include "conform/plugin.h"
#include "nxmem.h"
#include "nxmem/unload.h"

static NxmemUnloadReport blank(void) {
  NxmemUnloadReport report;
  memset(&report, 0xFF, sizeof report);
  report.struct_size = NXMEM_UNLOAD_REPORT_BYTES;
  return report;
}

static void reports(nx_trial *trial, const void *with) {
  (void)with;
  NxmemUnloadReport report = blank();
  nx_plugin_negotiate(trial);
  nx_enter("NxmemQueryUnloadReadiness");
  nx_expect_status(trial->unload(&report), NX_CODE(OK), "room for 48 bytes");
  nx_seen("OK");
}

static NxmemUnloadReport report_of(nx_trial *trial) {
  nx_plugin_negotiate(trial);
  return nx_plugin_raw_report(trial);
}

static void report_is_written(nx_trial *trial, const void *with) {
  (void)with;
  const NxmemUnloadReport r = report_of(trial);
  const uint64_t counts[] = {r.live_allocators, r.live_allocations, r.live_views, r.live_capabilities,
                             r.queued_releases};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
    NX_EXPECT(counts[i] != UINT64_MAX, "count %zu of the report was left unwritten", i);
  nx_seen("five counts");
}

static void says_its_size(nx_trial *trial, const void *with) {
  (void)with;
  uint32_t size = report_of(trial).struct_size;
  NX_EXPECT(size == NXMEM_UNLOAD_REPORT_BYTES, "struct_size is %" PRIu32 ", 48 were written", size);
  nx_seen("48");
}

static void fresh_is_zero(nx_trial *trial, const void *with) {
  (void)with;
  const NxmemUnloadReport r = report_of(trial);
  NX_EXPECT(nx_all_counts(&r) == 0,
            "allocators %" PRIu64 ", allocations %" PRIu64 ", views %" PRIu64 ", capabilities %" PRIu64
            ", queued %" PRIu64 " before anything was opened",
            r.live_allocators, r.live_allocations, r.live_views, r.live_capabilities, r.queued_releases);
  nx_seen("all zero");
}

static void null_report(nx_trial *trial, const void *with) {
  (void)with;
  nx_plugin_negotiate(trial);
  nx_enter("NxmemQueryUnloadReadiness(NULL)");
  nx_expect_status(trial->unload(NULL), NX_CODE(INVALID_ARGUMENT), "a NULL report");
  nx_seen("INVALID_ARGUMENT");
}

static const uint32_t ROOMS[] = {0, 4, 8, 16, 24, 32, 40, 47};
enum { ROOM_COUNT = sizeof ROOMS / sizeof ROOMS[0], LARGE_ROOM = 96 };

static uint32_t report_into(nx_trial *trial, nx_room *room, uint32_t declared) {
  uint8_t nothing[NX_ROOM_BYTES] = {0};
  nx_room_begin(room, nothing, declared);
  nx_enter("NxmemQueryUnloadReadiness into a room of %" PRIu32 " bytes", declared);
  return trial->unload((NxmemUnloadReport *)(void *)room->bytes).code;
}

static void short_room(nx_trial *trial, const void *with) {
  (void)with;
  nx_plugin_negotiate(trial);
  for (int i = 0; i < ROOM_COUNT; i++) {
    nx_room room;
    report_into(trial, &room, ROOMS[i]);
    long at = nx_room_overrun(&room);
    NX_EXPECT(at < 0, "wrote byte %ld of a report whose room is %" PRIu32, at, ROOMS[i]);
  }
  nx_seen("nothing written beyond %d rooms", ROOM_COUNT);
}

static void short_room_refused(nx_trial *trial, const void *with) {
  (void)with;
  nx_plugin_negotiate(trial);
  for (int i = 0; i < ROOM_COUNT; i++) {
    nx_room room;
    nx_expect_code(report_into(trial, &room, ROOMS[i]), NX_CODE(SHORT_STRUCT), "room for less than 48 bytes");
  }
  nx_seen("SHORT_STRUCT for %d rooms", ROOM_COUNT);
}

static void large_room(nx_trial *trial, const void *with) {
  (void)with;
  nx_room room;
  nx_plugin_negotiate(trial);
  nx_expect_code(report_into(trial, &room, LARGE_ROOM), NX_CODE(OK), "room for 96 bytes, as a newer host has it");
  long at = nx_room_overrun(&room);
  NX_EXPECT(at < 0, "wrote byte %ld of a report whose room is 96", at);
  nx_seen("OK");
}

static void exact_memory(nx_trial *trial, const void *with) {
  (void)with;
  const NxmemUnloadReport report = blank();
  nx_plugin_negotiate(trial);
  void *exact = nx_guarded(&report, sizeof report, 1);
  nx_enter("NxmemQueryUnloadReadiness with no byte behind the report");
  nx_expect_status(trial->unload(exact), NX_CODE(OK), "a report of its exact size");
  nx_seen("OK");
}

static void ask_often(void *with, uint32_t thread) {
  (void)thread;
  for (int i = 0; i < 500; i++) {
    NxmemUnloadReport report = blank();
    NX_EXPECT(((nx_trial *)with)->unload(&report).code == NXMEM_STATUS_OK, "refused while other threads ask");
    NX_EXPECT(nx_all_counts(&report) == 0, "not zero while other threads ask");
  }
}

static void from_threads(nx_trial *trial, const void *with) {
  (void)with;
  report_of(trial);
  nx_enter("NxmemQueryUnloadReadiness from %d threads", NX_THREADS);
  nx_parallel(ask_often, trial);
  nx_seen("%d threads", NX_THREADS);
}

#define UNL(name, text, place, need, function)                                                        \
  {                                                                                                   \
    .id = (name), .statement = (text), .section = (place), .scope = NX_SCOPE_MODULE, .needs = (need), \
    .check = (function)                                                                               \
  }

static const nx_rule RULES[] = {
    UNL("NX-UNL-001", "NxmemQueryUnloadReadiness answers OK", "Unload report", "NX-NEG-001", reports),
    UNL("NX-UNL-002", "All five counts are written", "Unload report", "NX-UNL-001", report_is_written),
    UNL("NX-UNL-003", "The report says in struct_size that all of its 48 bytes were written", "Sizes", "NX-UNL-001",
        says_its_size),
    UNL("NX-UNL-004", "A module that was just loaded reports zero", "Unload report", "NX-UNL-002", fresh_is_zero),
    UNL("NX-UNL-005", "A NULL report is INVALID_ARGUMENT", "Sizes", "NX-UNL-001", null_report),
    UNL("NX-UNL-006", "Nothing is written beyond the room that the report's struct_size offers", "Sizes", "NX-UNL-001",
        short_room),
    UNL("NX-UNL-007", "Room for less than 48 bytes is SHORT_STRUCT", "Sizes", "NX-UNL-001", short_room_refused),
    UNL("NX-UNL-008", "Room for more than 48 bytes is served within that room", "Sizes", "NX-UNL-001", large_room),
    UNL("NX-UNL-009", "Room of the exact size suffices", "Sizes", "NX-UNL-001", exact_memory),
    UNL("NX-UNL-010", "Eight threads at once are answered", "Threads", "NX-UNL-004", from_threads),
};

const nx_family nx_unload_rules = NX_FAMILY("unload report", "What NxmemQueryUnloadReadiness says", RULES);
