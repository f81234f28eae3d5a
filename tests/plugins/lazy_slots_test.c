/*
 * lazy_slots_test.c: what the honest mechanism with every capability answers to each wrong argument of its slots.
 *
 * Attackers played: a host with NULLs, misaligned and short records, foreign numbers, ranges that wrap or leave.
 * Promise: the code is the cause's; a refusal changes neither what is mapped nor the out-parameter nor the books.
 */
#include <string.h>

#include "backing.h"
#include "recorder.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

enum { G = GRANULE, SIZE = 4 * GRANULE };

/* Everything a slot may be given; a row breaks one of it, then `call` is made. */
typedef struct call {
  const NxmemAllocatorVtable *table;
  void *ctx;
  NxmemAllocRequest request;
  NxmemByteRange ranges[2];
  NxmemAllocResult result;
  NxmemRangeRequest range;
  NxmemAllocation allocation;
  NxmemSharedPrefixHandle handle;
  NxmemSharedPrefixHandle made;
  NxmemSharedPrefixCommitRequest commit;
  NxmemSharedPrefixCommitInfo info;
  uint64_t mechanism_id;
  uint64_t bytes;
  uint64_t count;
  uint64_t number;
  const void *in; /* the first record of the slot */
  void *out;      /* the last */
} call;

typedef struct slot {
  const char *name;
  NxmemStatus (*enter)(call *c);
  size_t in, out; /* offsets of the honest records in a call; 0: there is none */
  size_t room;    /* bytes of the last */
} slot;

#define AT(field) offsetof(call, field)
#define BACKING(c) (c)->table->virtual_backing
#define SHARING(c) (c)->table->shared_mapping

static NxmemStatus enter_allocate(call *c) { return BACKING(c)->allocate_committed(c->ctx, c->in, c->out); }
static NxmemStatus enter_commit(call *c) { return BACKING(c)->commit_range(c->ctx, c->in); }
static NxmemStatus enter_decommit(call *c) { return BACKING(c)->decommit_range(c->ctx, c->in, c->out); }
static NxmemStatus enter_ranges(call *c) {
  return BACKING(c)->mapped_bytes_for_ranges(c->ctx, c->in, c->count, c->out);
}
static NxmemStatus enter_foretell(call *c) { return BACKING(c)->mapped_bytes_for_allocation(c->ctx, c->in, c->out); }
static NxmemStatus enter_bytes(call *c) { return BACKING(c)->committed_bytes(c->ctx, c->in, c->out); }
static NxmemStatus enter_create(call *c) {
  return SHARING(c)->create_shared_prefix(c->ctx, c->mechanism_id, c->bytes, c->out);
}
static NxmemStatus enter_retain(call *c) { return SHARING(c)->retain_shared_prefix(c->ctx, c->in); }
static NxmemStatus enter_drop(call *c) { return SHARING(c)->release_shared_prefix(c->ctx, c->in); }
static NxmemStatus enter_increment(call *c) { return SHARING(c)->incremental_owned_bytes(c->ctx, c->in, c->out); }
static NxmemStatus enter_share(call *c) { return SHARING(c)->commit_shared_prefix(c->ctx, c->in, c->out); }
static NxmemStatus enter_enqueue(call *c) { return c->table->enqueue_release(c->ctx, c->in, c->out); }
static NxmemStatus enter_drain(call *c) { return c->table->drain_releases(c->ctx, c->count, c->out); }
static NxmemStatus enter_pending(call *c) { return c->table->pending_release_count(c->ctx, c->out); }

static const slot allocates = {"allocate_committed", enter_allocate, AT(request), AT(result), 32};
static const slot commits = {"commit_range", enter_commit, AT(range), 0, 0};
static const slot decommits = {"decommit_range", enter_decommit, AT(range), AT(number), 8};
static const slot ranges = {"mapped_bytes_for_ranges", enter_ranges, AT(range), AT(number), 8};
static const slot foretells = {"mapped_bytes_for_allocation", enter_foretell, AT(request), AT(number), 8};
static const slot bytes = {"committed_bytes", enter_bytes, AT(allocation), AT(number), 8};
static const slot creates = {"create_shared_prefix", enter_create, 0, AT(made), 64};
static const slot retains = {"retain_shared_prefix", enter_retain, AT(handle), 0, 0};
static const slot drops = {"release_shared_prefix", enter_drop, AT(handle), 0, 0};
static const slot increments = {"incremental_owned_bytes", enter_increment, AT(handle), AT(number), 8};
static const slot shares = {"commit_shared_prefix", enter_share, AT(commit), AT(info), 32};
static const slot enqueues = {"enqueue_release", enter_enqueue, AT(allocation), AT(number), 8};
static const slot drains = {"drain_releases", enter_drain, 0, AT(number), 8};
static const slot pends = {"pending_release_count", enter_pending, 0, AT(number), 8};

/* ---- What a row breaks ------------------------------------------------------------------------------------------- */

#define BREAK(name, statement) \
  static void name(call *c) { statement; }

BREAK(null_ctx, c->ctx = NULL)
BREAK(null_in, c->in = NULL)
BREAK(null_out, c->out = NULL)
BREAK(askew_in, c->in = (const uint8_t *)c->in + 4)
BREAK(askew_out, c->out = (uint8_t *)c->out + 4)
/* Every record begins with its size. */
BREAK(in_empty, memset((void *)(uintptr_t)c->in, 0, 4))
static void in_one_less(call *c) {
  uint32_t size;
  memcpy(&size, c->in, sizeof size);
  size--;
  memcpy((void *)(uintptr_t)c->in, &size, sizeof size);
}
static void out_one_less(call *c) {
  uint32_t size;
  memcpy(&size, c->out, sizeof size);
  size--;
  memcpy(c->out, &size, sizeof size);
}

BREAK(request_mechanism, c->request.mechanism_id++)
BREAK(request_device, c->request.device.index++)
BREAK(request_zero, c->request.bytes = 0u)
BREAK(request_align, c->request.align = 3u)
BREAK(request_live_id, c->request.allocation_id = c->allocation.allocation_id)
BREAK(request_endless, c->request.bytes = UINT64_MAX - 4095u)
BREAK(ranges_null, c->request.committed_ranges = NULL)
BREAK(ranges_askew, c->request.committed_ranges = (const void *)((const uint8_t *)c->ranges + 4))
BREAK(ranges_zero, c->ranges[1].bytes = 0u)
BREAK(ranges_leave, c->ranges[1].bytes = SIZE)
BREAK(ranges_start_outside, c->ranges[1].offset = SIZE)
BREAK(ranges_wrap, c->ranges[1].offset = UINT64_MAX)

BREAK(range_zero, c->range.range.bytes = 0u)
BREAK(range_leaves, c->range.range.bytes = SIZE)
BREAK(range_starts_outside, c->range.range.offset = SIZE)
BREAK(range_wraps, c->range.range.offset = UINT64_MAX - 1u)
BREAK(range_mechanism, c->range.allocation.mechanism_id++)
BREAK(range_device, c->range.allocation.device.tier = NXMEM_TIER_DISK)
BREAK(range_unknown, c->range.allocation.allocation_id = 77u)
BREAK(range_moved, c->range.allocation.ptr += G)
BREAK(range_longer, c->range.allocation.bytes++)
BREAK(range_short_allocation, c->range.allocation.struct_size = 55u)
BREAK(range_none, c->count = 0u)

BREAK(allocation_mechanism, c->allocation.mechanism_id++)
BREAK(allocation_device, c->allocation.device.index++)
BREAK(allocation_unknown, c->allocation.allocation_id = 77u)
BREAK(allocation_moved, c->allocation.ptr++)

BREAK(create_mechanism, c->mechanism_id++)
BREAK(create_zero, c->bytes = 0u)
BREAK(create_endless, c->bytes = UINT64_MAX)

BREAK(handle_mechanism, c->handle.mechanism_id++)
BREAK(handle_device, c->handle.device.index++)
BREAK(handle_unknown, c->handle.handle++)
BREAK(handle_zero, c->handle.handle = 0u)
BREAK(handle_moved, c->handle.device_ptr++)

BREAK(share_mechanism, c->commit.prefix.mechanism_id++)
BREAK(share_device, c->commit.prefix.device.index++)
BREAK(share_unknown, c->commit.prefix.handle++)
BREAK(share_short_prefix, c->commit.prefix.struct_size = 63u)
BREAK(share_short_allocation, c->commit.allocation.struct_size = 55u)
BREAK(share_allocation_mechanism, c->commit.allocation.mechanism_id++)
BREAK(share_allocation_device, c->commit.allocation.device.index++)
BREAK(share_allocation_unknown, c->commit.allocation.allocation_id = 77u)
BREAK(share_askew_offset, c->commit.byte_offset += 8u)
BREAK(share_leaves, c->commit.byte_offset = SIZE)
BREAK(share_wraps, c->commit.byte_offset = UINT64_MAX - G + 1u)
BREAK(share_over_committed, c->commit.byte_offset = 0u)

/* ---- Rows ------------------------------------------------------------------------------------------------------- */

typedef struct slot_row {
  const char *name;
  const slot *slot;
  void (*spoil)(call *c);
  uint32_t code;
} slot_row;

#define INVALID NXMEM_STATUS_INVALID_ARGUMENT
#define SHORT NXMEM_STATUS_SHORT_STRUCT
#define MECHANISM NXMEM_STATUS_WRONG_MECHANISM
#define DEVICE NXMEM_STATUS_WRONG_DEVICE
#define UNKNOWN NXMEM_STATUS_UNKNOWN_ALLOCATION
#define MEMORY NXMEM_STATUS_OUT_OF_MEMORY

#define IN_ROWS(slot)                                                                                                  \
  {#slot ": NULL ctx", &(slot), null_ctx, INVALID}, {#slot ": NULL record", &(slot), null_in, INVALID},                \
      {#slot ": misaligned record", &(slot), askew_in, INVALID}, {#slot ": empty record", &(slot), in_empty, SHORT}, { \
#slot ": short record", &(slot), in_one_less, SHORT                                                                \
  }
#define OUT_ROWS(slot) \
  {#slot ": NULL out", &(slot), null_out, INVALID}, { #slot ": misaligned out", &(slot), askew_out, INVALID }
#define RANGE_ROWS(slot)                                                      \
  {#slot ": zero bytes", &(slot), range_zero, INVALID},                       \
      {#slot ": leaves the allocation", &(slot), range_leaves, INVALID},      \
      {#slot ": starts behind it", &(slot), range_starts_outside, INVALID},   \
      {#slot ": wraps", &(slot), range_wraps, INVALID},                       \
      {#slot ": another mechanism", &(slot), range_mechanism, MECHANISM},     \
      {#slot ": another device", &(slot), range_device, DEVICE},              \
      {#slot ": unknown allocation", &(slot), range_unknown, UNKNOWN},        \
      {#slot ": another address", &(slot), range_moved, INVALID},             \
      {#slot ": another size", &(slot), range_longer, INVALID}, {             \
#slot ": short allocation inside", &(slot), range_short_allocation, SHORT \
  }
#define REQUEST_ROWS(slot)                                                          \
  {#slot ": another mechanism", &(slot), request_mechanism, MECHANISM},             \
      {#slot ": another device", &(slot), request_device, DEVICE},                  \
      {#slot ": zero bytes", &(slot), request_zero, INVALID},                       \
      {#slot ": alignment 3", &(slot), request_align, INVALID},                     \
      {#slot ": more than there is", &(slot), request_endless, MEMORY},             \
      {#slot ": NULL ranges", &(slot), ranges_null, INVALID},                       \
      {#slot ": misaligned ranges", &(slot), ranges_askew, INVALID},                \
      {#slot ": a range of zero bytes", &(slot), ranges_zero, INVALID},             \
      {#slot ": a range that leaves", &(slot), ranges_leave, INVALID},              \
      {#slot ": a range behind the end", &(slot), ranges_start_outside, INVALID}, { \
#slot ": a range that wraps", &(slot), ranges_wrap, INVALID                     \
  }
#define ALLOCATION_ROWS(slot)                                                 \
  {#slot ": another mechanism", &(slot), allocation_mechanism, MECHANISM},    \
      {#slot ": another device", &(slot), allocation_device, DEVICE},         \
      {#slot ": unknown allocation", &(slot), allocation_unknown, UNKNOWN}, { \
#slot ": another address", &(slot), allocation_moved, INVALID             \
  }
#define HANDLE_ROWS(slot)                                              \
  {#slot ": another mechanism", &(slot), handle_mechanism, MECHANISM}, \
      {#slot ": another device", &(slot), handle_device, DEVICE},      \
      {#slot ": unknown handle", &(slot), handle_unknown, UNKNOWN},    \
      {#slot ": handle 0", &(slot), handle_zero, UNKNOWN}, {           \
#slot ": another address", &(slot), handle_moved, UNKNOWN          \
  }

static const slot_row rows[] = {
    IN_ROWS(allocates),
    OUT_ROWS(allocates),
    {"allocates: short room", &allocates, out_one_less, SHORT},
    REQUEST_ROWS(allocates),
    {"allocates: an id that is live", &allocates, request_live_id, INVALID},
    IN_ROWS(commits),
    RANGE_ROWS(commits),
    IN_ROWS(decommits),
    OUT_ROWS(decommits),
    RANGE_ROWS(decommits),
    IN_ROWS(ranges),
    OUT_ROWS(ranges),
    RANGE_ROWS(ranges),
    {"ranges: none", &ranges, range_none, INVALID},
    IN_ROWS(foretells),
    OUT_ROWS(foretells),
    REQUEST_ROWS(foretells),
    IN_ROWS(bytes),
    OUT_ROWS(bytes),
    ALLOCATION_ROWS(bytes),
    {"creates: NULL ctx", &creates, null_ctx, INVALID},
    OUT_ROWS(creates),
    {"creates: short room", &creates, out_one_less, SHORT},
    {"creates: another mechanism", &creates, create_mechanism, MECHANISM},
    {"creates: zero bytes", &creates, create_zero, INVALID},
    {"creates: more than there is", &creates, create_endless, MEMORY},
    IN_ROWS(retains),
    HANDLE_ROWS(retains),
    IN_ROWS(drops),
    HANDLE_ROWS(drops),
    IN_ROWS(increments),
    OUT_ROWS(increments),
    HANDLE_ROWS(increments),
    IN_ROWS(shares),
    OUT_ROWS(shares),
    {"shares: short room", &shares, out_one_less, SHORT},
    {"shares: another mechanism", &shares, share_mechanism, MECHANISM},
    {"shares: another device", &shares, share_device, DEVICE},
    {"shares: unknown handle", &shares, share_unknown, UNKNOWN},
    {"shares: short prefix inside", &shares, share_short_prefix, SHORT},
    {"shares: short allocation inside", &shares, share_short_allocation, SHORT},
    {"shares: an allocation of another mechanism", &shares, share_allocation_mechanism, MECHANISM},
    {"shares: an allocation of another device", &shares, share_allocation_device, DEVICE},
    {"shares: unknown allocation", &shares, share_allocation_unknown, UNKNOWN},
    {"shares: an offset inside a granule", &shares, share_askew_offset, INVALID},
    {"shares: leaves the allocation", &shares, share_leaves, INVALID},
    {"shares: wraps", &shares, share_wraps, INVALID},
    {"shares: over what is mapped", &shares, share_over_committed, INVALID},
    IN_ROWS(enqueues),
    OUT_ROWS(enqueues),
    ALLOCATION_ROWS(enqueues),
    {"drains: NULL ctx", &drains, null_ctx, INVALID},
    OUT_ROWS(drains),
    {"pends: NULL ctx", &pends, null_ctx, INVALID},
    OUT_ROWS(pends),
};

/* One allocation, its first granule committed; one prefix. */
static void prepare(call *c, const NxmemAllocatorVtable *table) {
  const NxmemByteRange first = {0u, 1u};
  memset(c, 0xFF, sizeof *c);
  c->table = table;
  c->ctx = table->ctx;
  c->allocation = reserve(table, 5u, SIZE, &first, 1u, G);
  c->handle = make_prefix(table, G);
  c->made = unwritten_handle();
  c->range = range_of(&c->allocation, G, G);
  c->commit = (NxmemSharedPrefixCommitRequest){sizeof c->commit, 0u, c->handle, c->allocation, 2u * G};
  c->info.struct_size = sizeof c->info;
  c->ranges[0] = (NxmemByteRange){0u, 1u};
  c->ranges[1] = (NxmemByteRange){2u * G, G};
  c->request = alloc_request(table, 6u, SIZE, 4096u);
  c->request.committed_ranges = c->ranges;
  c->request.committed_range_count = 2u;
  c->result = alloc_result();
  c->mechanism_id = table->mechanism_id;
  c->bytes = G;
  c->count = 1u;
}

static void assert_as_before(const call *c, const call *before) {
  assert_memory_equal(&c->result, &before->result, sizeof c->result);
  assert_memory_equal((const uint8_t *)&c->made + 4, (const uint8_t *)&before->made + 4, sizeof c->made - 4u);
  assert_memory_equal((const uint8_t *)&c->info + 4, (const uint8_t *)&before->info + 4, sizeof c->info - 4u);
  assert_int_equal(c->number, before->number);
  assert_int_equal(accessible(&before->allocation), 1u);
  assert_int_equal(committed(c->table, &before->allocation), G);
  assert_int_equal(increment(c->table, &before->handle), G);
}

static void run_row(const subject *s, const void *data) {
  static recorder r;
  static call c, before;
  const slot_row *row = data;
  plugin p;
  plugin_load(&p, s->file);
  plugin_find(&p, s->mechanism);
  recorder_start(&r);
  prepare(&c, recorder_open(&r, &p));
  before = c;
  c.in = (const uint8_t *)&c + row->slot->in;
  c.out = (uint8_t *)&c + row->slot->out;
  row->spoil(&c);
  before.result.struct_size = c.result.struct_size; /* which a row may have made shorter */
  assert_status(row->slot->enter(&c), row->code);
  assert_as_before(&c, &before);
  assert_report(&p, 1u, 1u, 0u, 1u, 0u);
  assert_int_equal(r.completions + r.reclaims, 0u);
  drop_prefix(c.table, &before.handle);
  give_back(c.table, &before.allocation);
  c.table->release(c.table->ctx);
  assert_report(&p, 0u, 0u, 0u, 0u, 0u);
  plugin_close(&p);
}

/* The room of an out-record, and what lies behind it. */
typedef union out_room {
  uint64_t align;
  uint8_t bytes[128];
} out_room;

/* Enter with the record in a room of its own: not one byte behind it changes. */
static NxmemStatus enter_in_room(call *c, const slot *entered) {
  out_room room;
  uint8_t *record = (uint8_t *)c + entered->out;
  if (entered->room == 0u) return entered->enter(c);
  memset(&room, 0xC5, sizeof room);
  memcpy(&room, record, entered->room);
  c->out = &room;
  const NxmemStatus status = entered->enter(c);
  memcpy(record, &room, entered->room);
  for (size_t i = entered->room; i < sizeof room; i++) assert_int_equal(room.bytes[i], 0xC5);
  return status;
}

/* Unspoilt, every slot succeeds: no row above is refused for another reason. */
static const slot *const all[] = {&ranges,  &foretells, &bytes,  &increments, &commits, &decommits, &creates,
                                  &retains, &drops,     &shares, &allocates,  &pends,   &enqueues,  &drains};

static void run_unspoilt(const subject *s, const void *data) {
  static recorder r;
  static call c;
  plugin p;
  (void)data;
  plugin_load(&p, s->file);
  plugin_find(&p, s->mechanism);
  recorder_start(&r);
  prepare(&c, recorder_open(&r, &p));
  for (size_t i = 0u; i < COUNT(all); i++) {
    c.in = (const uint8_t *)&c + all[i]->in;
    const NxmemStatus status = enter_in_room(&c, all[i]);
    if (status.code != NXMEM_STATUS_OK) fail_msg("%s: code %u", all[i]->name, status.code);
  }
  assert_int_equal(r.completions, 1u);
  const NxmemAllocation second = allocation_of(&c.request, &c.result);
  give_back(c.table, &second);
  drop_prefix(c.table, &c.handle);
  drop_prefix(c.table, &c.made);
  c.table->release(c.table->ctx);
  assert_report(&p, 0u, 0u, 0u, 0u, 0u);
  plugin_close(&p);
}

int main(void) {
  static const subject lazy = {"libnxmem_scripted.so", "lazy", 31u, 31u};
  static const slot_row unspoilt = {.name = "all of it in order"};
  for (size_t i = 0u; i < COUNT(rows); i++) add_case(&lazy, "slots", &rows[i], run_row);
  add_case(&lazy, "slots", &unspoilt, run_unspoilt);
  return run_added("lazy slots");
}
