/*
 * rules_backing_misuse.c: rules about ranges, blocks and requests that the virtual backing slots must refuse.
 * Attackers: a plugin that trusts its caller.
 * Promise: one table for every slot that takes a range; after each refusal as much is committed as before.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "conform/backing.h"
#include "conform/expect.h"
#include "conform/families.h"
#include "conform/memory.h"
#include "nxmem.h"

enum { GRANULES = 4 };

/* ---- The slots --------------------------------------------------------------------------------------------------- */

typedef uint32_t (*range_slot)(const nx_opened *opened, const NxmemRangeRequest *request);

static uint32_t by_commit(const nx_opened *opened, const NxmemRangeRequest *request) {
  return nx_commit(opened, request).code;
}

static uint32_t by_decommit(const nx_opened *opened, const NxmemRangeRequest *request) {
  uint64_t unmapped = 0;
  return nx_decommit(opened, request, &unmapped).code;
}

static uint32_t by_question(const nx_opened *opened, const NxmemRangeRequest *request) {
  uint64_t mapped = 0;
  return nx_mapped_for(opened, request, 1, &mapped).code;
}

static uint32_t by_committed(const nx_opened *opened, const NxmemRangeRequest *request) {
  uint64_t committed = 0;
  return nx_committed(opened, request ? &request->allocation : NULL, &committed).code;
}

/* ---- What is wrong ----------------------------------------------------------------------------------------------- */

typedef struct misuse {
  const char *what;
  void (*spoil)(NxmemRangeRequest *request);
  nx_codes accepted;
  int of_range; /* committed_bytes takes none */
} misuse;

static void wraps(NxmemRangeRequest *r) { r->range = (NxmemByteRange){4096, UINT64_MAX - 2048}; }
static void leaves(NxmemRangeRequest *r) { r->range = (NxmemByteRange){r->allocation.bytes - 1, 2}; }
static void outside(NxmemRangeRequest *r) { r->range = (NxmemByteRange){r->allocation.bytes + 4096, 1}; }
static void other_id(NxmemRangeRequest *r) { r->allocation.allocation_id ^= 1ull << 35; }
static void other_mechanism(NxmemRangeRequest *r) { r->allocation.mechanism_id ^= 1ull << 40; }
static void other_device(NxmemRangeRequest *r) { r->allocation.device.index++; }
static void other_ptr(NxmemRangeRequest *r) { r->allocation.ptr += 4096; }
static void larger(NxmemRangeRequest *r) { r->allocation.bytes *= 2; }

#define NOT_THE_BLOCK (NX_CODE(INVALID_ARGUMENT) | NX_CODE(UNKNOWN_ALLOCATION))

static const misuse WRAPS = {"a range that wraps", wraps, NX_CODE(INVALID_ARGUMENT), 1},
                    LEAVES = {"a range that leaves the block", leaves, NX_CODE(INVALID_ARGUMENT), 1},
                    OUTSIDE = {"a range behind the block", outside, NX_CODE(INVALID_ARGUMENT), 1},
                    ID = {"an id that was never live", other_id, NX_CODE(UNKNOWN_ALLOCATION), 0},
                    MECHANISM = {"another mechanism", other_mechanism, NX_CODE(WRONG_MECHANISM), 0},
                    DEVICE = {"another device", other_device, NX_CODE(WRONG_DEVICE), 0},
                    PTR = {"another address", other_ptr, NOT_THE_BLOCK, 0},
                    LARGER = {"another size", larger, NOT_THE_BLOCK, 0};

typedef struct named_slot {
  const char *name;
  range_slot call;
  int takes_range;
} named_slot;

static const named_slot SLOTS[] = {{"commit_range", by_commit, 1},
                                   {"decommit_range", by_decommit, 1},
                                   {"mapped_bytes_for_ranges", by_question, 1},
                                   {"committed_bytes", by_committed, 0}};

enum { SLOT_COUNT = sizeof SLOTS / sizeof SLOTS[0] };

static int has_slot(const nx_opened *opened, int at) {
  const NxmemVirtualBackingVtable *b = &opened->backing;
  const int present[SLOT_COUNT] = {b->commit_range != NULL, b->decommit_range != NULL,
                                   b->mapped_bytes_for_ranges != NULL, b->committed_bytes != NULL};
  return present[at];
}

static nx_reserve half_committed(nx_trial *trial) {
  nx_reserve r = nx_reserve_ready(trial, GRANULES);
  nx_must_commit(&r, 0, 2 * r.granule);
  return r;
}

static void nothing_changed(const nx_reserve *r, uint64_t before, const char *after) {
  uint64_t now = nx_committed_now(r);
  NX_EXPECT(now == before, "committed_bytes went from %" PRIu64 " to %" PRIu64 " with %s", before, now, after);
}

static void wrong_request(nx_trial *trial, const void *with) {
  const misuse *wrong = with;
  nx_reserve r = half_committed(trial);
  uint64_t before = nx_committed_now(&r);
  for (int i = 0; i < SLOT_COUNT; i++) {
    char what[128];
    NxmemRangeRequest request = nx_range_of(&r.block, r.granule, r.granule);
    if (!has_slot(&r.opened, i) || (wrong->of_range && !SLOTS[i].takes_range)) continue;
    snprintf(what, sizeof what, "%s with %s", SLOTS[i].name, wrong->what);
    wrong->spoil(&request);
    nx_expect_code(SLOTS[i].call(&r.opened, &request), wrong->accepted, what);
    nothing_changed(&r, before, what);
  }
  nx_still_live(&r.opened, &r.block, wrong->what);
  nx_seen("%s from every slot, nothing changed", nx_codes_words(wrong->accepted));
}

static void short_request(nx_trial *trial, const void *with) {
  (void)with;
  nx_reserve r = half_committed(trial);
  uint64_t before = nx_committed_now(&r);
  NxmemRangeRequest request = nx_range_of(&r.block, r.granule, r.granule);
  uint32_t sizes[NX_SHORT_SIZES], count = nx_short_sizes(NX_RANGE_REQUEST_BYTES, sizes);
  for (int i = 0; i < SLOT_COUNT; i++) {
    if (!has_slot(&r.opened, i) || !SLOTS[i].takes_range) continue;
    for (uint32_t j = 0; j < count; j++)
      nx_expect_code(SLOTS[i].call(&r.opened, nx_short_copy(&request, sizes[j], NX_RANGE_REQUEST_BYTES)),
                     NX_CODE(SHORT_STRUCT), SLOTS[i].name);
  }
  nothing_changed(&r, before, "short requests");
  nx_seen("SHORT_STRUCT at 0, 8, 72 and 79 bytes");
}

static void null_request(nx_trial *trial, const void *with) {
  (void)with;
  nx_reserve r = half_committed(trial);
  uint64_t before = nx_committed_now(&r);
  for (int i = 0; i < SLOT_COUNT; i++)
    if (has_slot(&r.opened, i))
      nx_expect_code(SLOTS[i].call(&r.opened, NULL), NX_CODE(INVALID_ARGUMENT), SLOTS[i].name);
  nothing_changed(&r, before, "NULL requests");
  nx_seen("INVALID_ARGUMENT");
}

static void null_numbers(nx_trial *trial, const void *with) {
  (void)with;
  nx_reserve r = half_committed(trial);
  uint64_t before = nx_committed_now(&r);
  NxmemRangeRequest request = nx_range_of(&r.block, 0, r.granule);
  if (has_slot(&r.opened, 1))
    nx_expect_status(nx_decommit(&r.opened, &request, NULL), NX_CODE(INVALID_ARGUMENT), "decommit_range");
  nx_expect_status(nx_mapped_for(&r.opened, &request, 1, NULL), NX_CODE(INVALID_ARGUMENT), "mapped_bytes_for_ranges");
  nx_expect_status(nx_committed(&r.opened, &r.block.allocation, NULL), NX_CODE(INVALID_ARGUMENT), "committed_bytes");
  nothing_changed(&r, before, "NULL out-parameters");
  nx_seen("INVALID_ARGUMENT");
}

/* Served or refused, a range of nothing changes nothing. */
static void empty_range(nx_trial *trial, const void *with) {
  (void)with;
  nx_reserve r = half_committed(trial);
  uint64_t before = nx_committed_now(&r);
  for (int i = 0; i < SLOT_COUNT; i++) {
    NxmemRangeRequest request = nx_range_of(&r.block, 3 * r.granule, 0);
    if (!has_slot(&r.opened, i) || !SLOTS[i].takes_range) continue;
    nx_expect_code(SLOTS[i].call(&r.opened, &request), NX_CODE(OK) | NX_CODE(INVALID_ARGUMENT), SLOTS[i].name);
    nothing_changed(&r, before, "a range of zero bytes");
  }
  nx_seen("nothing changed");
}

static void exact_memory(nx_trial *trial, const void *with) {
  (void)with;
  nx_reserve r = nx_reserve_ready(trial, GRANULES);
  NxmemRangeRequest request = nx_range_of(&r.block, 0, r.granule);
  const NxmemRangeRequest *exact = nx_guarded(&request, sizeof request, 0);
  for (int i = 0; i < SLOT_COUNT; i++)
    if (has_slot(&r.opened, i)) nx_expect_code(SLOTS[i].call(&r.opened, exact), NX_CODE(OK), SLOTS[i].name);
  nx_seen("OK");
}

/* ---- allocate_committed ------------------------------------------------------------------------------------------ */

typedef struct bad_request {
  const char *what;
  void (*spoil)(NxmemAllocRequest *request);
  nx_codes accepted;
} bad_request;

static void zero_bytes(NxmemAllocRequest *r) { r->bytes = 0; }
static void align_3(NxmemAllocRequest *r) { r->align = 3; }
static void size_wraps(NxmemAllocRequest *r) { r->bytes = UINT64_MAX - 6; }
static void wrong_mechanism(NxmemAllocRequest *r) { r->mechanism_id ^= 1ull << 40; }
static void wrong_device(NxmemAllocRequest *r) { r->device.index++; }
static void ranges_null(NxmemAllocRequest *r) { r->committed_range_count = 1; }
static void range_leaves(NxmemAllocRequest *r) {
  static const NxmemByteRange range = {1 << 20, 4096};
  r->committed_ranges = &range;
  r->committed_range_count = 1;
}
static void range_wraps(NxmemAllocRequest *r) {
  static const NxmemByteRange range = {4096, UINT64_MAX - 2048};
  r->committed_ranges = &range;
  r->committed_range_count = 1;
}

static const bad_request BAD[] = {
    {"zero bytes", zero_bytes, NX_CODE(INVALID_ARGUMENT)},
    {"an alignment of 3", align_3, NX_CODE(INVALID_ARGUMENT)},
    {"a size that wraps", size_wraps, NX_CODE(INVALID_ARGUMENT) | NX_CODE(OUT_OF_MEMORY)},
    {"another mechanism", wrong_mechanism, NX_CODE(WRONG_MECHANISM)},
    {"another device", wrong_device, NX_CODE(WRONG_DEVICE)},
    {"NULL ranges with a count of 1", ranges_null, NX_CODE(INVALID_ARGUMENT)},
    {"a range that leaves the block", range_leaves, NX_CODE(INVALID_ARGUMENT)},
    {"a range that wraps", range_wraps, NX_CODE(INVALID_ARGUMENT)},
};

static void refuses_allocation(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  NxmemUnloadReport before = nx_plugin_report(trial);
  for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
    NxmemAllocRequest request = nx_request(&opened, 1 << 20, 4096);
    NxmemAllocResult result = nx_blank_result();
    BAD[i].spoil(&request);
    nx_expect_status(nx_allocate_committed(&opened, &request, &result), BAD[i].accepted, BAD[i].what);
    nx_same_counts(trial, &before, BAD[i].what);
  }
  nx_seen("%zu wrong requests, nothing changed", sizeof BAD / sizeof BAD[0]);
}

static void allocation_records(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  NxmemUnloadReport before = nx_plugin_report(trial);
  NxmemAllocRequest request = nx_request(&opened, 1 << 20, 4096);
  NxmemAllocResult result = nx_blank_result();
  uint32_t sizes[NX_SHORT_SIZES], count = nx_short_sizes(NX_REQUEST_BYTES, sizes);
  for (uint32_t i = 0; i < count; i++)
    nx_expect_status(nx_allocate_committed(&opened, nx_short_copy(&request, sizes[i], NX_REQUEST_BYTES), &result),
                     NX_CODE(SHORT_STRUCT), "a request below 64 bytes");
  nx_expect_status(nx_allocate_committed(&opened, NULL, &result), NX_CODE(INVALID_ARGUMENT), "a NULL request");
  nx_expect_status(nx_allocate_committed(&opened, &request, NULL), NX_CODE(INVALID_ARGUMENT), "a NULL result");
  nx_same_counts(trial, &before, "wrong records");
  nx_seen("SHORT_STRUCT and INVALID_ARGUMENT");
}

static void allocation_room(nx_trial *trial, const void *with) {
  (void)with;
  static const uint32_t rooms[] = {0, 8, 16, 24, 31};
  nx_opened opened = nx_open_ready(trial);
  uint8_t blank[NX_ROOM_BYTES];
  memset(blank, 0xFF, sizeof blank);
  for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++) {
    nx_room room;
    NxmemAllocRequest request = nx_request(&opened, 1 << 20, 4096);
    nx_room_begin(&room, blank, rooms[i]);
    uint32_t code = nx_allocate_committed(&opened, &request, (NxmemAllocResult *)(void *)room.bytes).code;
    long at = nx_room_overrun(&room);
    NX_EXPECT(at < 0, "wrote byte %ld of a result whose room is %" PRIu32, at, rooms[i]);
    nx_expect_code(code, NX_CODE(SHORT_STRUCT), "room for less than 32 bytes");
  }
  nx_seen("SHORT_STRUCT, nothing written beyond the room");
}

#define VBK(name, text, place, function, argument)                                                             \
  {                                                                                                            \
    .id = (name), .statement = (text), .section = (place), .scope = NX_SCOPE_MECHANISM, .needs = "NX-VBK-006", \
    .capability = NXMEM_CAP_VIRTUAL_BACKING, .check = (function), .with = (argument)                           \
  }

static const nx_rule RULES[] = {
    VBK("NX-VBK-021", "A range that wraps is INVALID_ARGUMENT", "Identity", wrong_request, &WRAPS),
    VBK("NX-VBK-022", "A range that leaves the block is INVALID_ARGUMENT", "Identity", wrong_request, &LEAVES),
    VBK("NX-VBK-023", "A range behind the block is INVALID_ARGUMENT", "Identity", wrong_request, &OUTSIDE),
    VBK("NX-VBK-024", "An id that was never live is UNKNOWN_ALLOCATION", "Identity", wrong_request, &ID),
    VBK("NX-VBK-025", "Another mechanism is WRONG_MECHANISM", "Identity", wrong_request, &MECHANISM),
    VBK("NX-VBK-026", "Another device is WRONG_DEVICE", "Identity", wrong_request, &DEVICE),
    VBK("NX-VBK-027", "Another address is refused", "Identity", wrong_request, &PTR),
    VBK("NX-VBK-028", "Another size is refused", "Identity", wrong_request, &LARGER),
    VBK("NX-VBK-029", "A range request below 80 bytes is SHORT_STRUCT, and nothing beyond it is read", "Sizes",
        short_request, NULL),
    VBK("NX-VBK-030", "A NULL request is INVALID_ARGUMENT", "Sizes", null_request, NULL),
    VBK("NX-VBK-031", "A NULL out-parameter is INVALID_ARGUMENT", "Sizes", null_numbers, NULL),
    VBK("NX-VBK-032", "A range of zero bytes changes nothing", "Identity", empty_range, NULL),
    VBK("NX-VBK-033", "Requests are not written to, and their exact size suffices", "Sizes", exact_memory, NULL),
    VBK("NX-VBK-034", "allocate_committed refuses what allocate refuses, and ranges outside the block", "Identity",
        refuses_allocation, NULL),
    VBK("NX-VBK-035", "allocate_committed: short and absent records are refused", "Sizes", allocation_records, NULL),
    VBK("NX-VBK-036", "allocate_committed writes nothing beyond the room of its result", "Sizes", allocation_room,
        NULL),
};

const nx_family nx_backing_misuse_rules =
    NX_FAMILY("virtual backing requests", "Ranges, blocks and requests that must be refused", RULES);
