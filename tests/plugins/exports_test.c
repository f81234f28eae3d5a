/*
 * exports_test.c: what the honest plugins answer to each wrong argument of their three exports.
 *
 * Attackers played: hosts of other versions, short records, little room, NULLs.
 * Promise: the plugin's own range is reported whatever it answers, and no byte behind the declared room changes.
 */
#include <string.h>

#include "plugin.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

enum { CANARY = 0xC5 };

/* ---- NxmemNegotiate --------------------------------------------------------------------------------------------- */

typedef struct negotiate_row {
  const char *name;
  NxmemVersionRange range;
  uint64_t flags;
  uint32_t request_size;
  uint32_t room;
  uint32_t code;
  uint32_t minor; /* agreed, where the answer is OK */
} negotiate_row;

#define ALL 31ull
#define MOST UINT32_MAX
#define GOOD NXMEM_STATUS_OK
#define MISMATCH NXMEM_STATUS_VERSION_MISMATCH
#define UNSUPPORTED NXMEM_STATUS_UNSUPPORTED_CAPABILITY
#define SHORT NXMEM_STATUS_SHORT_STRUCT

static const negotiate_row negotiate_rows[] = {
    {"the same range", {1, 1, 0, 1}, ALL, 32, 40, GOOD, 1},
    {"a host of 1.0", {1, 1, 0, 0}, ALL, 32, 40, GOOD, 0},
    {"a host of 1.1 only", {1, 1, 1, 1}, ALL, 32, 40, GOOD, 1},
    {"a newer host", {1, 2, 0, 7}, ALL, 32, 40, GOOD, 1},
    {"an endless host", {0, MOST, 0, MOST}, ALL, 32, 40, GOOD, 1},
    {"a host that insists on 1.2", {1, 1, 2, 2}, ALL, 32, 40, MISMATCH, 0},
    {"a host of major 2", {2, 2, 0, 1}, ALL, 32, 40, MISMATCH, 0},
    {"a host of major 0", {0, 0, 0, 1}, ALL, 32, 40, MISMATCH, 0},
    {"inverted majors", {2, 1, 0, 1}, ALL, 32, 40, MISMATCH, 0},
    {"inverted minors", {1, 1, 1, 0}, ALL, 32, 40, MISMATCH, 0},
    {"inverted majors around ours", {MOST, 0, 0, 1}, ALL, 32, 40, MISMATCH, 0},
    {"ALLOCATOR alone", {1, 1, 0, 1}, 1, 32, 40, GOOD, 1},
    {"every bit there is", {1, 1, 0, 1}, UINT64_MAX, 32, 40, GOOD, 1},
    {"no capability", {1, 1, 0, 1}, 0, 32, 40, UNSUPPORTED, 0},
    {"all but ALLOCATOR", {1, 1, 0, 1}, ALL & ~1ull, 32, 40, UNSUPPORTED, 0},
    {"versions before capabilities", {2, 2, 0, 1}, 0, 32, 40, MISMATCH, 0},
    {"request of 31 bytes", {1, 1, 0, 1}, ALL, 31, 40, SHORT, 0},
    {"request of 8 bytes", {1, 1, 0, 1}, ALL, 8, 40, SHORT, 0},
    {"request of 0 bytes", {1, 1, 0, 1}, ALL, 0, 40, SHORT, 0},
    {"request of a newer host", {1, 1, 0, 1}, ALL, 64, 40, GOOD, 1},
    {"response of a newer host", {1, 1, 0, 1}, ALL, 32, 56, GOOD, 1},
    {"39 bytes of room", {1, 1, 0, 1}, ALL, 32, 39, SHORT, 1},
    {"32 bytes of room", {1, 1, 0, 1}, ALL, 32, 32, SHORT, 1},
    {"30 bytes of room", {1, 1, 0, 1}, ALL, 32, 30, SHORT, 1},
    {"8 bytes of room", {1, 1, 0, 1}, ALL, 32, 8, SHORT, 1},
    {"4 bytes of room", {1, 1, 0, 1}, ALL, 32, 4, SHORT, 1},
    {"3 bytes of room", {1, 1, 0, 1}, ALL, 32, 3, SHORT, 1},
    {"0 bytes of room", {1, 1, 0, 1}, ALL, 32, 0, SHORT, 1},
};

/* A response as its caller declared it, and what lies behind. */
typedef union response_room {
  NxmemNegotiateResponse response;
  uint8_t bytes[64];
} response_room;

static response_room room_of(uint32_t size) {
  response_room room;
  memset(&room, CANARY, sizeof room);
  room.response.struct_size = size;
  return room;
}

/* Not even struct_size may change where the room does not hold it. */
static void assert_untouched_from(const response_room *room, uint32_t declared, uint32_t from) {
  const response_room fresh = room_of(declared);
  for (uint32_t i = from; i < sizeof room->bytes; i++) assert_int_equal(room->bytes[i], fresh.bytes[i]);
}

/* Whole fields only: a field that the room holds half is left alone. */
static uint32_t whole_fields_in(uint32_t room) { return room >= 40u ? room : room >= 32u ? 32u : room & ~3u; }

static void assert_own_range(const NxmemNegotiateResponse *response) {
  assert_int_equal(response->plugin_range.major_min, 1u);
  assert_int_equal(response->plugin_range.major_max, 1u);
  assert_int_equal(response->plugin_range.minor_min, 0u);
  assert_int_equal(response->plugin_range.minor_max, 1u);
}

static void assert_answer(const subject *s, const negotiate_row *row, const NxmemNegotiateResponse *response) {
  const int agreed = row->code == NXMEM_STATUS_OK;
  const uint64_t defined = row->minor == 0u ? 15u : ALL;
  assert_int_equal(response->struct_size, 40u);
  assert_int_equal(response->reserved, 0u);
  assert_int_equal(response->agreed_major, agreed ? 1u : 0u);
  assert_int_equal(response->agreed_minor, agreed ? row->minor : 0u);
  assert_int_equal(response->capability_flags, agreed ? (s->offered & row->flags & defined) : 0u);
}

static void run_negotiate(const subject *s, const void *data) {
  const negotiate_row *row = data;
  plugin p;
  plugin_load(&p, s->file);
  const NxmemNegotiateRequest request = {row->request_size, 0u, row->range, row->flags};
  response_room room = room_of(row->room);
  assert_status(p.negotiate(&request, &room.response), row->code);
  assert_untouched_from(&room, row->room, whole_fields_in(row->room));
  if (row->room >= 32u) assert_own_range(&room.response);
  if (row->room >= 40u) assert_answer(s, row, &room.response);
  plugin_close(&p);
}

/* ---- Arguments that are no record at all ------------------------------------------------------------------------ */

typedef struct pointer_row {
  const char *name;
  uint32_t (*call)(const plugin *p);
  uint32_t code;
} pointer_row;

static uint32_t code_of(NxmemStatus status) {
  assert_status(status, status.code);
  return status.code;
}

static NxmemNegotiateRequest good_request(void) { return (NxmemNegotiateRequest){32u, 0u, {1u, 1u, 0u, 1u}, ALL}; }

static uint32_t negotiate_null_request(const plugin *p) {
  response_room room = room_of(40u);
  const uint32_t code = code_of(p->negotiate(NULL, &room.response));
  assert_own_range(&room.response);
  assert_untouched_from(&room, 40u, 40u);
  return code;
}

static uint32_t negotiate_askew_request(const plugin *p) {
  response_room room = room_of(40u);
  const NxmemNegotiateRequest pair[2] = {good_request(), good_request()};
  const void *askew = (const uint8_t *)pair + 4;
  const uint32_t code = code_of(p->negotiate(askew, &room.response));
  assert_own_range(&room.response);
  return code;
}

static uint32_t negotiate_null_response(const plugin *p) {
  const NxmemNegotiateRequest request = good_request();
  return code_of(p->negotiate(&request, NULL));
}

static uint32_t negotiate_askew_response(const plugin *p) {
  const NxmemNegotiateRequest request = good_request();
  response_room room = room_of(40u);
  void *askew = room.bytes + 4;
  return code_of(p->negotiate(&request, askew));
}

static uint32_t factories_null_array(const plugin *p) {
  uint64_t count = 77u;
  const uint32_t code = code_of(p->factories(NULL, 64u, &count));
  assert_int_equal(count, 77u);
  return code;
}

static uint32_t factories_null_count(const plugin *p) {
  const NxmemAllocatorFactoryVtable *list[64] = {NULL};
  const uint32_t code = code_of(p->factories(list, 64u, NULL));
  assert_null(list[0]);
  return code;
}

static uint32_t factories_without_room(const plugin *p) {
  const NxmemAllocatorFactoryVtable *list[1] = {NULL};
  uint64_t count = 77u;
  const uint32_t code = code_of(p->factories(list, 0u, &count));
  assert_null(list[0]);
  assert_int_equal(count, 77u);
  return code;
}

static uint32_t unload_null(const plugin *p) { return code_of(p->unload(NULL)); }

/* A report in little room: nothing may be written. */
static uint32_t unload_in(const plugin *p, uint32_t size) {
  NxmemUnloadReport report;
  memset(&report, CANARY, sizeof report);
  report.struct_size = size;
  const NxmemUnloadReport before = report;
  const uint32_t code = code_of(p->unload(&report));
  assert_memory_equal(&before, &report, sizeof report);
  return code;
}

static uint32_t unload_in_0(const plugin *p) { return unload_in(p, 0u); }
static uint32_t unload_in_47(const plugin *p) { return unload_in(p, 47u); }

/* A newer host's report: our 48 bytes, and not one behind them. */
static uint32_t unload_in_more(const plugin *p) {
  union {
    NxmemUnloadReport report;
    uint8_t bytes[64];
  } room;
  memset(&room, CANARY, sizeof room);
  room.report.struct_size = 64u;
  const uint32_t code = code_of(p->unload(&room.report));
  for (size_t i = 48u; i < sizeof room.bytes; i++) assert_int_equal(room.bytes[i], CANARY);
  assert_int_equal(room.report.live_allocators, 0u);
  return code;
}

static const pointer_row pointer_rows[] = {
    {"negotiate, NULL request", negotiate_null_request, NXMEM_STATUS_INVALID_ARGUMENT},
    {"negotiate, misaligned request", negotiate_askew_request, NXMEM_STATUS_INVALID_ARGUMENT},
    {"negotiate, NULL response", negotiate_null_response, NXMEM_STATUS_INVALID_ARGUMENT},
    {"negotiate, misaligned response", negotiate_askew_response, NXMEM_STATUS_INVALID_ARGUMENT},
    {"factories, NULL array", factories_null_array, NXMEM_STATUS_INVALID_ARGUMENT},
    {"factories, NULL count", factories_null_count, NXMEM_STATUS_INVALID_ARGUMENT},
    {"factories, no room", factories_without_room, NXMEM_STATUS_INVALID_ARGUMENT},
    {"unload, NULL report", unload_null, NXMEM_STATUS_INVALID_ARGUMENT},
    {"unload, no room", unload_in_0, NXMEM_STATUS_SHORT_STRUCT},
    {"unload, 47 bytes of room", unload_in_47, NXMEM_STATUS_SHORT_STRUCT},
    {"unload, a newer host's room", unload_in_more, NXMEM_STATUS_OK},
};

static void run_pointer(const subject *s, const void *data) {
  const pointer_row *row = data;
  plugin p;
  plugin_load(&p, s->file);
  assert_int_equal(row->call(&p), row->code);
  plugin_close(&p);
}

int main(void) {
  add_rows("negotiate", negotiate_rows, COUNT(negotiate_rows), sizeof negotiate_rows[0], run_negotiate);
  add_rows("arguments", pointer_rows, COUNT(pointer_rows), sizeof pointer_rows[0], run_pointer);
  return run_added("plugin exports");
}
