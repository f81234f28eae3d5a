/*
 * rules_allocate_misuse.c: rules about requests that allocate must refuse, and records around an honest one.
 * Attackers: a plugin that trusts its caller.
 * Promise: after each refusal the unload report is as before, and an honest request is served.
 */
#include <inttypes.h>
#include <string.h>

#include "conform/expect.h"
#include "conform/families.h"
#include "conform/memory.h"
#include "conform/pressure.h"
#include "conform/slots.h"
#include "nxmem.h"

/* ---- One wrong field --------------------------------------------------------------------------------------------- */

typedef struct wrong_field {
  const char *what;
  void (*spoil)(NxmemAllocRequest *request);
  nx_codes accepted;
} wrong_field;

static void zero_bytes(NxmemAllocRequest *r) { r->bytes = 0; }
static void align_0(NxmemAllocRequest *r) { r->align = 0; }
static void align_3(NxmemAllocRequest *r) { r->align = 3; }
static void align_48(NxmemAllocRequest *r) { r->align = 48; }
static void align_huge(NxmemAllocRequest *r) { r->align = (1ull << 63) + 1; }
static void wraps(NxmemAllocRequest *r) {
  r->bytes = UINT64_MAX - 6;
  r->align = 16;
}
static void all_of_memory(NxmemAllocRequest *r) {
  r->bytes = UINT64_MAX;
  r->align = 1;
}
static void half_of_memory(NxmemAllocRequest *r) { r->bytes = 1ull << 63; }
static void large_alignment(NxmemAllocRequest *r) {
  r->bytes = 1ull << 62;
  r->align = 1ull << 62;
}
static void other_mechanism(NxmemAllocRequest *r) { r->mechanism_id ^= 1ull << 40; }
static void no_mechanism(NxmemAllocRequest *r) { r->mechanism_id = 0; }
static void other_index(NxmemAllocRequest *r) { r->device.index++; }
static void other_tier(NxmemAllocRequest *r) {
  r->device.tier = r->device.tier == NXMEM_TIER_DISK ? NXMEM_TIER_DEVICE : NXMEM_TIER_DISK;
}

#define TOO_MUCH (NX_CODE(INVALID_ARGUMENT) | NX_CODE(OUT_OF_MEMORY))

static const wrong_field ZERO = {"zero bytes", zero_bytes, NX_CODE(INVALID_ARGUMENT)},
                         ALIGN_0 = {"an alignment of 0", align_0, NX_CODE(INVALID_ARGUMENT)},
                         ALIGN_3 = {"an alignment of 3", align_3, NX_CODE(INVALID_ARGUMENT)},
                         ALIGN_48 = {"an alignment of 48", align_48, NX_CODE(INVALID_ARGUMENT)},
                         ALIGN_HUGE = {"an alignment of 2^63 + 1", align_huge, NX_CODE(INVALID_ARGUMENT)},
                         WRAPS = {"2^64 - 7 bytes aligned to 16", wraps, TOO_MUCH},
                         ALL = {"2^64 - 1 bytes", all_of_memory, TOO_MUCH},
                         HALF = {"2^63 bytes", half_of_memory, TOO_MUCH},
                         LARGE = {"2^62 bytes aligned to 2^62", large_alignment, TOO_MUCH},
                         MECHANISM = {"another mechanism", other_mechanism, NX_CODE(WRONG_MECHANISM)},
                         MECHANISM_0 = {"mechanism 0", no_mechanism, NX_CODE(WRONG_MECHANISM)},
                         INDEX = {"another device index", other_index, NX_CODE(WRONG_DEVICE)},
                         TIER = {"another tier", other_tier, NX_CODE(WRONG_DEVICE)};

static void must_refuse(const nx_opened *opened, const void *request, NxmemAllocResult *result, nx_codes accepted,
                        const char *what) {
  nx_enter("allocate with %s", what);
  nx_expect_status(opened->table.allocate(opened->table.ctx, request, result), accepted, what);
}

static void still_serves(const nx_opened *opened, const NxmemUnloadReport *before) {
  nx_same_counts(opened->trial, before, "a refused request");
  nx_block block = nx_take(opened, 64, 16);
  nx_give(opened, &block);
}

static void wrong_request(nx_trial *trial, const void *with) {
  const wrong_field *wrong = with;
  nx_opened opened = nx_open_ready(trial);
  NxmemAllocRequest request = nx_request(&opened, 64, 16);
  NxmemAllocResult result = nx_blank_result();
  NxmemUnloadReport before = nx_plugin_report(trial);
  wrong->spoil(&request);
  must_refuse(&opened, &request, &result, wrong->accepted, wrong->what);
  still_serves(&opened, &before);
  nx_seen("%s, nothing changed", nx_codes_words(wrong->accepted));
}

/* ---- Records ----------------------------------------------------------------------------------------------------- */

static void short_request(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  NxmemAllocRequest request = nx_request(&opened, 64, 16);
  NxmemUnloadReport before = nx_plugin_report(trial);
  uint32_t sizes[NX_SHORT_SIZES], count = nx_short_sizes(NX_REQUEST_BYTES, sizes);
  for (uint32_t i = 0; i < count; i++) {
    NxmemAllocResult result = nx_blank_result();
    must_refuse(&opened, nx_short_copy(&request, sizes[i], NX_REQUEST_BYTES), &result, NX_CODE(SHORT_STRUCT),
                "a request below 64 bytes");
  }
  still_serves(&opened, &before);
  nx_seen("SHORT_STRUCT at 0, 8, 56 and 63 bytes");
}

static void null_arguments(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  NxmemAllocRequest request = nx_request(&opened, 64, 16);
  NxmemAllocResult result = nx_blank_result();
  NxmemUnloadReport before = nx_plugin_report(trial);
  must_refuse(&opened, NULL, &result, NX_CODE(INVALID_ARGUMENT), "a NULL request");
  must_refuse(&opened, &request, NULL, NX_CODE(INVALID_ARGUMENT), "a NULL result");
  still_serves(&opened, &before);
  nx_seen("INVALID_ARGUMENT for a NULL request and for a NULL result");
}

static const uint32_t ROOMS[] = {0, 4, 8, 16, 24, 31};
enum { ROOM_COUNT = sizeof ROOMS / sizeof ROOMS[0] };

static uint32_t allocate_into(const nx_opened *opened, nx_room *room, uint32_t declared) {
  uint8_t blank[NX_ROOM_BYTES];
  memset(blank, 0xFF, sizeof blank);
  NxmemAllocRequest request = nx_request(opened, 64, 16);
  nx_room_begin(room, blank, declared);
  nx_enter("allocate into a room of %" PRIu32 " bytes", declared);
  return opened->table.allocate(opened->table.ctx, &request, (NxmemAllocResult *)(void *)room->bytes).code;
}

static void short_room(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  for (int i = 0; i < ROOM_COUNT; i++) {
    nx_room room;
    allocate_into(&opened, &room, ROOMS[i]);
    long at = nx_room_overrun(&room);
    NX_EXPECT(at < 0, "wrote byte %ld of a result whose room is %" PRIu32, at, ROOMS[i]);
  }
  nx_seen("nothing written beyond %d rooms", ROOM_COUNT);
}

static void short_room_refused(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  NxmemUnloadReport before = nx_plugin_report(trial);
  for (int i = 0; i < ROOM_COUNT; i++) {
    nx_room room;
    nx_expect_code(allocate_into(&opened, &room, ROOMS[i]), NX_CODE(SHORT_STRUCT), "room for less than 32 bytes");
  }
  still_serves(&opened, &before);
  nx_seen("SHORT_STRUCT for %d rooms", ROOM_COUNT);
}

static void honest_records(const nx_opened *opened, const NxmemAllocRequest *original, const void *request,
                           NxmemAllocResult *result, const char *what) {
  uint64_t unmapped = NX_UNWRITTEN;
  nx_enter("allocate with %s", what);
  nx_expect_status(opened->table.allocate(opened->table.ctx, request, result), NX_CODE(OK), what);
  NxmemAllocation allocation = nx_allocation_of(original, result);
  nx_expect_status(nx_deallocate(opened, &allocation, &unmapped), NX_CODE(OK), "the block back");
  nx_seen("OK");
}

static void long_request(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  NxmemAllocRequest request = nx_request(&opened, 64, 16);
  NxmemAllocResult result = nx_blank_result();
  honest_records(&opened, &request, nx_long_copy(&request, NX_REQUEST_BYTES), &result, "a request of 128 bytes");
}

static void exact_memory(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  NxmemAllocRequest request = nx_request(&opened, 64, 16);
  const NxmemAllocResult blank = nx_blank_result();
  honest_records(&opened, &request, nx_guarded(&request, sizeof request, 0), nx_guarded(&blank, sizeof blank, 1),
                 "a read-only request, and no byte behind request and result");
}

/* ---- Ids --------------------------------------------------------------------------------------------------------- */

static void live_id(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  nx_block block = nx_take(&opened, 64, 16);
  NxmemAllocRequest request = nx_request(&opened, 64, 16);
  NxmemAllocResult result = nx_blank_result();
  NxmemUnloadReport before = nx_plugin_report(trial);
  request.allocation_id = block.allocation.allocation_id;
  must_refuse(&opened, &request, &result, NX_ANY_REFUSAL, "an id that is live");
  nx_same_counts(trial, &before, "an id that is live");
  nx_still_live(&opened, &block, "an id that is live");
  nx_seen("refused; the first block is untouched");
}

/* ---- Out of memory ----------------------------------------------------------------------------------------------- */

static void out_of_memory(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  NxmemUnloadReport before = nx_plugin_report(trial);
  nx_pressed pressed = nx_press(&opened);
  if (pressed.code == NXMEM_STATUS_OK) nx_does_not_apply("it takes its memory from elsewhere");
  nx_expect_code(pressed.code, NX_CODE(OUT_OF_MEMORY), "no memory left");
  for (uint32_t i = 0; i < pressed.count; i++) nx_give(&opened, &pressed.blocks[i]);
  still_serves(&opened, &before);
  nx_seen("OUT_OF_MEMORY after %" PRIu32 " blocks; serves again afterwards", pressed.count);
}

#define ALC(name, text, place, function, argument)                                                             \
  {                                                                                                            \
    .id = (name), .statement = (text), .section = (place), .scope = NX_SCOPE_MECHANISM, .needs = "NX-DEA-001", \
    .check = (function), .with = (argument)                                                                    \
  }
#define WRONG(name, text, place, field) ALC(name, text, place, wrong_request, field)

static const nx_rule RULES[] = {
    WRONG("NX-ALC-020", "Zero bytes are INVALID_ARGUMENT", "Status", &ZERO),
    WRONG("NX-ALC-021", "An alignment of 0 is INVALID_ARGUMENT", "Status", &ALIGN_0),
    WRONG("NX-ALC-022", "An alignment of 3 is INVALID_ARGUMENT", "Status", &ALIGN_3),
    WRONG("NX-ALC-023", "An alignment of 48 is INVALID_ARGUMENT", "Status", &ALIGN_48),
    WRONG("NX-ALC-024", "An alignment of 2^63 + 1 is INVALID_ARGUMENT", "Status", &ALIGN_HUGE),
    WRONG("NX-ALC-025", "A size that wraps when it is rounded up is refused", "Status", &WRAPS),
    WRONG("NX-ALC-026", "2^64 - 1 bytes are refused", "Status", &ALL),
    WRONG("NX-ALC-027", "2^63 bytes are refused", "Status", &HALF),
    WRONG("NX-ALC-028", "2^62 bytes aligned to 2^62 are refused", "Status", &LARGE),
    WRONG("NX-ALC-029", "Another mechanism is WRONG_MECHANISM", "Identity", &MECHANISM),
    WRONG("NX-ALC-030", "Mechanism 0 is WRONG_MECHANISM", "Identity", &MECHANISM_0),
    WRONG("NX-ALC-031", "Another device index is WRONG_DEVICE", "Identity", &INDEX),
    WRONG("NX-ALC-032", "Another tier is WRONG_DEVICE", "Identity", &TIER),
    ALC("NX-ALC-033", "A request below 64 bytes is SHORT_STRUCT, and nothing beyond it is read", "Sizes", short_request,
        NULL),
    ALC("NX-ALC-034", "A NULL request and a NULL result are INVALID_ARGUMENT", "Sizes", null_arguments, NULL),
    ALC("NX-ALC-035", "Nothing is written beyond the room that the result's struct_size offers", "Sizes", short_room,
        NULL),
    ALC("NX-ALC-036", "Room for less than 32 bytes is SHORT_STRUCT, and nothing is allocated", "Sizes",
        short_room_refused, NULL),
    ALC("NX-ALC-037", "A request longer than 64 bytes is taken, its tail not looked at", "Sizes", long_request, NULL),
    ALC("NX-ALC-038", "The request is not written to, and records of their exact size suffice", "Sizes", exact_memory,
        NULL),
    {.id = "NX-ALC-039",
     .statement = "An id that is live is refused, and its block stays what it was",
     .section = "Identity",
     .severity = NX_SEVERITY_WARNING,
     .scope = NX_SCOPE_MECHANISM,
     .needs = "NX-DEA-001",
     .check = live_id},
    ALC("NX-ALC-040", "Without memory allocate is OUT_OF_MEMORY, and serves again when there is some", "Status",
        out_of_memory, NULL),
};

const nx_family nx_allocate_misuse_rules =
    NX_FAMILY("allocate requests", "Requests that allocate must refuse, and the records around them", RULES);
