/*
 * rules_negotiate_misuse.c: rules about NxmemNegotiate's answer to short, long, absent and shared records.
 * Attackers: a plugin that trusts its caller.
 * Promise: a byte read beyond a short request faults; a byte written beyond the room shows.
 */
#include <inttypes.h>
#include <string.h>

#include "conform/expect.h"
#include "conform/families.h"
#include "conform/memory.h"
#include "conform/negotiation.h"
#include "conform/parallel.h"
#include "nxmem.h"
#include "nxmem/negotiate.h"

static void short_request(nx_trial *trial, const void *with) {
  (void)with;
  const NxmemNegotiateRequest offer = nx_plugin_offer();
  uint32_t sizes[NX_SHORT_SIZES], count = nx_short_sizes(NXMEM_REQUEST_BYTES, sizes);
  nx_plugin_load(trial);
  for (uint32_t i = 0; i < count; i++) {
    NxmemNegotiateResponse room = nx_plugin_room();
    const void *request = nx_short_copy(&offer, sizes[i], NXMEM_REQUEST_BYTES);
    nx_enter("NxmemNegotiate with a request of %" PRIu32 " bytes", sizes[i]);
    nx_expect_status(trial->negotiate(request, &room), NX_CODE(SHORT_STRUCT), "a request below 32 bytes");
  }
  nx_seen("SHORT_STRUCT at 0, 8, 24 and 31 bytes");
}

static void long_request(nx_trial *trial, const void *with) {
  (void)with;
  const NxmemNegotiateRequest offer = nx_plugin_offer();
  nx_plugin_load(trial);
  nx_negotiated found = nx_negotiate_with(trial, nx_long_copy(&offer, NXMEM_REQUEST_BYTES));
  nx_expect_code(found.code, NX_CODE(OK), "a request of 96 bytes, as a newer host sends it");
  nx_seen("OK");
}

static void null_request(nx_trial *trial, const void *with) {
  (void)with;
  nx_plugin_load(trial);
  nx_enter("NxmemNegotiate(NULL, response)");
  nx_expect_code(nx_negotiate_with(trial, NULL).code, NX_CODE(INVALID_ARGUMENT), "a NULL request");
  nx_seen("INVALID_ARGUMENT");
}

static void null_response(nx_trial *trial, const void *with) {
  (void)with;
  const NxmemNegotiateRequest offer = nx_plugin_offer();
  nx_plugin_load(trial);
  nx_enter("NxmemNegotiate(request, NULL)");
  nx_expect_status(trial->negotiate(&offer, NULL), NX_CODE(INVALID_ARGUMENT), "a NULL response");
  nx_seen("INVALID_ARGUMENT");
}

/* 4 bytes into an aligned buffer: the fields of 32 bits are aligned, those of 64 are not. */
static void misaligned(nx_trial *trial, const void *with) {
  (void)with;
  _Alignas(8) uint8_t memory[NXMEM_REQUEST_BYTES + 8];
  const NxmemNegotiateRequest offer = nx_plugin_offer();
  memcpy(memory + 4, &offer, sizeof offer);
  nx_plugin_load(trial);
  nx_negotiated found = nx_negotiate_with(trial, (const NxmemNegotiateRequest *)(const void *)(memory + 4));
  nx_expect_code(found.code, NX_CODE(INVALID_ARGUMENT), "a request that is not 8-aligned");
  nx_seen("INVALID_ARGUMENT");
}

static const uint32_t ROOMS[] = {0, 4, 8, 12, 16, 20, 28, 31, 32, 36, 39};

enum { ROOM_COUNT = sizeof ROOMS / sizeof ROOMS[0], LARGE_ROOM = 64 };

static uint32_t negotiate_into(nx_trial *trial, nx_room *room, uint32_t declared) {
  const NxmemNegotiateRequest offer = nx_plugin_offer();
  uint8_t blank[NX_ROOM_BYTES] = {0};
  nx_room_begin(room, blank, declared);
  nx_enter("NxmemNegotiate into a room of %" PRIu32 " bytes", declared);
  return trial->negotiate(&offer, (NxmemNegotiateResponse *)(void *)room->bytes).code;
}

static void short_room(nx_trial *trial, const void *with) {
  (void)with;
  nx_plugin_load(trial);
  for (int i = 0; i < ROOM_COUNT; i++) {
    nx_room room;
    negotiate_into(trial, &room, ROOMS[i]);
    long at = nx_room_overrun(&room);
    NX_EXPECT(at < 0, "wrote byte %ld of a response whose room is %" PRIu32, at, ROOMS[i]);
  }
  nx_seen("nothing written beyond %d rooms", ROOM_COUNT);
}

static void short_room_refused(nx_trial *trial, const void *with) {
  (void)with;
  nx_plugin_load(trial);
  for (int i = 0; i < ROOM_COUNT; i++) {
    nx_room room;
    nx_expect_code(negotiate_into(trial, &room, ROOMS[i]), NX_CODE(SHORT_STRUCT), "room for less than 40 bytes");
  }
  nx_seen("SHORT_STRUCT for %d rooms", ROOM_COUNT);
}

static void large_room(nx_trial *trial, const void *with) {
  (void)with;
  nx_room room;
  uint32_t said;
  nx_plugin_load(trial);
  nx_expect_code(negotiate_into(trial, &room, LARGE_ROOM), NX_CODE(OK), "room for 64 bytes, as a newer host has it");
  long at = nx_room_overrun(&room);
  memcpy(&said, room.bytes, sizeof said);
  NX_EXPECT(at < 0, "wrote byte %ld of a response whose room is 64", at);
  NX_EXPECT(said >= NXMEM_RESPONSE_BYTES && said <= LARGE_ROOM, "struct_size is %" PRIu32, said);
  nx_seen("struct_size %" PRIu32, said);
}

static void exact_memory(nx_trial *trial, const void *with) {
  (void)with;
  const NxmemNegotiateRequest offer = nx_plugin_offer();
  const NxmemNegotiateResponse room = nx_plugin_room();
  nx_plugin_load(trial);
  const void *request = nx_guarded(&offer, sizeof offer, 0);
  void *response = nx_guarded(&room, sizeof room, 1);
  nx_enter("NxmemNegotiate with a read-only request, and no byte behind request and response");
  nx_expect_status(trial->negotiate(request, response), NX_CODE(OK), "records of their exact size");
  nx_seen("OK");
}

typedef struct shared_offer {
  nx_trial *trial;
  nx_negotiated first;
} shared_offer;

static void negotiate_again(void *with, uint32_t thread) {
  const shared_offer *shared = with;
  const NxmemNegotiateRequest offer = nx_plugin_offer();
  for (int i = 0; i < 200; i++) {
    nx_negotiated again = nx_negotiate_with(shared->trial, &offer);
    NX_EXPECT(again.code == shared->first.code && !memcmp(&again.answer, &shared->first.answer, sizeof again.answer),
              "thread %" PRIu32 " got another answer", thread);
  }
}

static void from_threads(nx_trial *trial, const void *with) {
  (void)with;
  const NxmemNegotiateRequest offer = nx_plugin_offer();
  nx_plugin_load(trial);
  shared_offer shared = {trial, nx_negotiate_with(trial, &offer)};
  nx_parallel(negotiate_again, &shared);
  nx_seen("%d threads, one answer", NX_THREADS);
}

#define NEG(name, text, place, function)                                                                    \
  {                                                                                                         \
    .id = (name), .statement = (text), .section = (place), .scope = NX_SCOPE_MODULE, .needs = "NX-NEG-001", \
    .check = (function)                                                                                     \
  }

static const nx_rule RULES[] = {
    NEG("NX-NEG-031", "A request below 32 bytes is SHORT_STRUCT, and nothing beyond it is read", "Sizes",
        short_request),
    NEG("NX-NEG-032", "A request longer than 32 bytes is taken, its tail not looked at", "Sizes", long_request),
    NEG("NX-NEG-033", "A NULL request is INVALID_ARGUMENT", "Sizes", null_request),
    NEG("NX-NEG-034", "A NULL response is INVALID_ARGUMENT", "Sizes", null_response),
    {.id = "NX-NEG-035",
     .statement = "A request that is not 8-aligned is INVALID_ARGUMENT",
     .section = "Sizes",
     .severity = NX_SEVERITY_WARNING,
     .needs = "NX-NEG-001",
     .check = misaligned},
    NEG("NX-NEG-036", "Nothing is written beyond the room that the response's struct_size offers", "Sizes", short_room),
    NEG("NX-NEG-037", "Room for less than 40 bytes is SHORT_STRUCT", "Sizes", short_room_refused),
    {.id = "NX-NEG-038",
     .statement = "Room for more than 40 bytes is served within that room",
     .section = "Sizes",
     .needs = "NX-NEG-002",
     .check = large_room},
    NEG("NX-NEG-039", "The request is not written to, and records of their exact size suffice", "Sizes", exact_memory),
    NEG("NX-NEG-040", "Eight threads at once get the same answer", "Threads", from_threads),
};

const nx_family nx_negotiation_misuse_rules =
    NX_FAMILY("negotiation records", "Short, long, absent and shared records of the negotiation", RULES);
