/*
 * slots_test.c: what the honest plugins answer to each wrong argument of allocate, deallocate and open_allocator.
 *
 * Attackers played: a host with NULLs, short records, foreign numbers, impossible sizes.
 * Promise: the code is the cause's; a refusal changes neither the out-record nor the books.
 */
#include <string.h>

#include "plugin.h"

/* What a row may replace before the call; the pointers start at the honest records. */
typedef struct call {
  void *ctx;
  NxmemAllocRequest request;
  NxmemAllocResult result;
  NxmemAllocation allocation;
  NxmemOpenRequest open;
  uint64_t unmapped;
  const NxmemAllocatorVtable *opened;
  const NxmemAllocRequest *request_at;
  NxmemAllocResult *result_at;
  const NxmemAllocation *allocation_at;
  const NxmemOpenRequest *open_at;
  uint64_t *unmapped_at;
  const NxmemAllocatorVtable **opened_at;
} call;

typedef struct slot_row {
  const char *name;
  void (*edit)(call *c);
  uint32_t code;
} slot_row;

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define EDIT(name, statement) \
  static void name(call *c) { statement; }

/* An address inside a good record, of the wrong alignment. */
static void *askew(void *record) { return (uint8_t *)record + 4; }

/* ---- allocate --------------------------------------------------------------------------------------------------- */

EDIT(as_it_is, (void)c)
EDIT(null_ctx, c->ctx = NULL)
EDIT(null_request, c->request_at = NULL)
EDIT(null_result, c->result_at = NULL)
EDIT(askew_request, c->request_at = askew(&c->request))
EDIT(askew_result, c->result_at = askew(&c->result))
EDIT(request_0, c->request.struct_size = 0u)
EDIT(request_63, c->request.struct_size = 63u)
EDIT(request_longer, c->request.struct_size = 4096u)
EDIT(result_0, c->result.struct_size = 0u)
EDIT(result_31, c->result.struct_size = 31u)
EDIT(other_mechanism, c->request.mechanism_id++)
EDIT(zero_mechanism, c->request.mechanism_id = 0u)
EDIT(other_tier, c->request.device.tier = NXMEM_TIER_DEVICE)
EDIT(other_index, c->request.device.index = 1u)
EDIT(zero_bytes, c->request.bytes = 0u)
EDIT(align_0, c->request.align = 0u)
EDIT(align_3, c->request.align = 3u)
EDIT(align_high_odd, c->request.align = (1ull << 63) + 1u)
EDIT(align_1, c->request.align = 1u)
EDIT(align_4096, c->request.align = 4096u)
EDIT(align_2_mib, c->request.align = 1ull << 21)
EDIT(align_2_62, c->request.align = 1ull << 62)
EDIT(align_2_63, c->request.align = 1ull << 63)
EDIT(one_byte, c->request.bytes = 1u)
EDIT(odd_bytes, c->request.bytes = 6912u + 1u)
EDIT(id_0, c->request.allocation_id = 0u)
EDIT(id_max, c->request.allocation_id = UINT64_MAX)

static void size_max_wraps(call *c) {
  c->request.bytes = UINT64_MAX;
  c->request.align = 16u;
}
static void size_max_unaligned(call *c) {
  c->request.bytes = UINT64_MAX;
  c->request.align = 1u;
}
static void size_just_not_wrapping(call *c) {
  c->request.bytes = UINT64_MAX - 15u;
  c->request.align = 16u;
}
static void size_signed_max(call *c) {
  c->request.bytes = (uint64_t)INT64_MAX;
  c->request.align = 4096u;
}
/* The mechanism comes before the device, both before the sizes. */
static void everything_wrong(call *c) {
  c->request.mechanism_id++;
  c->request.device.index = 9u;
  c->request.bytes = 0u;
}
static void device_and_size_wrong(call *c) {
  c->request.device.index = 9u;
  c->request.bytes = 0u;
}

static const slot_row allocate_rows[] = {
    {"an honest request", as_it_is, NXMEM_STATUS_OK},
    {"NULL ctx", null_ctx, NXMEM_STATUS_INVALID_ARGUMENT},
    {"NULL request", null_request, NXMEM_STATUS_INVALID_ARGUMENT},
    {"NULL result", null_result, NXMEM_STATUS_INVALID_ARGUMENT},
    {"misaligned request", askew_request, NXMEM_STATUS_INVALID_ARGUMENT},
    {"misaligned result", askew_result, NXMEM_STATUS_INVALID_ARGUMENT},
    {"request of 0 bytes", request_0, NXMEM_STATUS_SHORT_STRUCT},
    {"request of 63 bytes", request_63, NXMEM_STATUS_SHORT_STRUCT},
    {"request of a newer host", request_longer, NXMEM_STATUS_OK},
    {"no room for the result", result_0, NXMEM_STATUS_SHORT_STRUCT},
    {"31 bytes of room for the result", result_31, NXMEM_STATUS_SHORT_STRUCT},
    {"another mechanism", other_mechanism, NXMEM_STATUS_WRONG_MECHANISM},
    {"mechanism 0", zero_mechanism, NXMEM_STATUS_WRONG_MECHANISM},
    {"another tier", other_tier, NXMEM_STATUS_WRONG_DEVICE},
    {"another index", other_index, NXMEM_STATUS_WRONG_DEVICE},
    {"mechanism, device and size wrong", everything_wrong, NXMEM_STATUS_WRONG_MECHANISM},
    {"device and size wrong", device_and_size_wrong, NXMEM_STATUS_WRONG_DEVICE},
    {"zero bytes", zero_bytes, NXMEM_STATUS_INVALID_ARGUMENT},
    {"alignment 0", align_0, NXMEM_STATUS_INVALID_ARGUMENT},
    {"alignment 3", align_3, NXMEM_STATUS_INVALID_ARGUMENT},
    {"alignment 2^63 + 1", align_high_odd, NXMEM_STATUS_INVALID_ARGUMENT},
    {"alignment 1", align_1, NXMEM_STATUS_OK},
    {"alignment 4096", align_4096, NXMEM_STATUS_OK},
    {"alignment 2 MiB", align_2_mib, NXMEM_STATUS_OK},
    {"alignment 2^62", align_2_62, NXMEM_STATUS_OUT_OF_MEMORY},
    {"alignment 2^63", align_2_63, NXMEM_STATUS_OUT_OF_MEMORY},
    {"one byte", one_byte, NXMEM_STATUS_OK},
    {"6913 bytes", odd_bytes, NXMEM_STATUS_OK},
    {"2^64-1 bytes at 16 wrap", size_max_wraps, NXMEM_STATUS_INVALID_ARGUMENT},
    {"2^64-1 bytes at 1", size_max_unaligned, NXMEM_STATUS_OUT_OF_MEMORY},
    {"2^64-16 bytes at 16", size_just_not_wrapping, NXMEM_STATUS_OUT_OF_MEMORY},
    {"2^63-1 bytes at 4096", size_signed_max, NXMEM_STATUS_OUT_OF_MEMORY},
    {"allocation id 0", id_0, NXMEM_STATUS_OK},
    {"allocation id 2^64-1", id_max, NXMEM_STATUS_OK},
};

static call call_of(const NxmemAllocatorVtable *table) {
  call c;
  memset(&c, 0, sizeof c);
  c.ctx = table->ctx;
  c.request = alloc_request(table, 41u, 100u, 64u);
  c.result = alloc_result();
  c.unmapped = UINT64_MAX;
  return c;
}

static void point(call *c) {
  c->request_at = &c->request;
  c->result_at = &c->result;
  c->allocation_at = &c->allocation;
  c->open_at = &c->open;
  c->unmapped_at = &c->unmapped;
  c->opened_at = &c->opened;
}

static void assert_usable(const NxmemAllocatorVtable *table, const call *c) {
  const NxmemAllocation allocation = allocation_of(&c->request, &c->result);
  assert_int_equal((uintptr_t)allocation.ptr % allocation.align, 0u);
  assert_true(c->result.owned_bytes >= allocation.bytes);
  assert_int_equal(c->result.mapped_bytes, c->result.owned_bytes);
  memset(allocation.ptr, 0x5A, allocation.bytes);
  assert_int_equal(give_back(table, &allocation), c->result.owned_bytes);
}

static void run_allocate(const subject *s, const void *data) {
  const slot_row *row = data;
  plugin p;
  plugin_load(&p, s->file);
  plugin_find(&p, s->mechanism);
  const NxmemAllocatorVtable *table = plugin_open(&p);
  call c = call_of(table);
  point(&c);
  row->edit(&c);
  const NxmemAllocResult before = c.result;
  assert_status(table->allocate(c.ctx, c.request_at, c.result_at), row->code);
  if (row->code == NXMEM_STATUS_OK) {
    assert_books(&p, 1u, 1u);
    assert_usable(table, &c);
  } else {
    assert_memory_equal(&before, &c.result, sizeof before);
  }
  assert_books(&p, 1u, 0u);
  table->release(table->ctx);
  assert_books(&p, 0u, 0u);
  plugin_close(&p);
}

/* ---- deallocate ------------------------------------------------------------------------------------------------- */

EDIT(null_allocation, c->allocation_at = NULL)
EDIT(null_unmapped, c->unmapped_at = NULL)
EDIT(askew_allocation, c->allocation_at = askew(&c->allocation))
EDIT(askew_unmapped, c->unmapped_at = askew(&c->unmapped))
EDIT(allocation_0, c->allocation.struct_size = 0u)
EDIT(allocation_55, c->allocation.struct_size = 55u)
EDIT(allocation_longer, c->allocation.struct_size = 4096u)
EDIT(foreign_mechanism, c->allocation.mechanism_id ^= 1ull << 60)
EDIT(foreign_tier, c->allocation.device.tier = NXMEM_TIER_DISK)
EDIT(foreign_index, c->allocation.device.index = 1u)
EDIT(unknown_id, c->allocation.allocation_id = 42u)
EDIT(id_with_high_bit, c->allocation.allocation_id |= 1ull << 63)
EDIT(other_address, c->allocation.ptr++)
EDIT(null_address, c->allocation.ptr = NULL)
EDIT(more_bytes, c->allocation.bytes++)
EDIT(other_align, c->allocation.align = 128u)

static void mechanism_and_id_foreign(call *c) {
  c->allocation.mechanism_id ^= 1ull << 60;
  c->allocation.device.index = 1u;
  c->allocation.allocation_id = 42u;
}
static void unknown_id_and_wild_address(call *c) {
  c->allocation.allocation_id = 42u;
  c->allocation.ptr = (uint8_t *)(uintptr_t)4096u;
}

static const slot_row deallocate_rows[] = {
    {"what was allocated", as_it_is, NXMEM_STATUS_OK},
    {"NULL ctx", null_ctx, NXMEM_STATUS_INVALID_ARGUMENT},
    {"NULL allocation", null_allocation, NXMEM_STATUS_INVALID_ARGUMENT},
    {"NULL unmapped bytes", null_unmapped, NXMEM_STATUS_INVALID_ARGUMENT},
    {"misaligned allocation", askew_allocation, NXMEM_STATUS_INVALID_ARGUMENT},
    {"misaligned unmapped bytes", askew_unmapped, NXMEM_STATUS_INVALID_ARGUMENT},
    {"allocation of 0 bytes", allocation_0, NXMEM_STATUS_SHORT_STRUCT},
    {"allocation of 55 bytes", allocation_55, NXMEM_STATUS_SHORT_STRUCT},
    {"allocation of a newer host", allocation_longer, NXMEM_STATUS_OK},
    {"another mechanism", foreign_mechanism, NXMEM_STATUS_WRONG_MECHANISM},
    {"another tier", foreign_tier, NXMEM_STATUS_WRONG_DEVICE},
    {"another index", foreign_index, NXMEM_STATUS_WRONG_DEVICE},
    {"mechanism, device and id foreign", mechanism_and_id_foreign, NXMEM_STATUS_WRONG_MECHANISM},
    {"unknown id", unknown_id, NXMEM_STATUS_UNKNOWN_ALLOCATION},
    {"id that differs in the top bit", id_with_high_bit, NXMEM_STATUS_UNKNOWN_ALLOCATION},
    {"unknown id at an address that faults", unknown_id_and_wild_address, NXMEM_STATUS_UNKNOWN_ALLOCATION},
    {"another address", other_address, NXMEM_STATUS_INVALID_ARGUMENT},
    {"NULL address", null_address, NXMEM_STATUS_INVALID_ARGUMENT},
    {"one byte more", more_bytes, NXMEM_STATUS_INVALID_ARGUMENT},
    {"another alignment", other_align, NXMEM_STATUS_INVALID_ARGUMENT},
};

static void run_deallocate(const subject *s, const void *data) {
  const slot_row *row = data;
  plugin p;
  plugin_load(&p, s->file);
  plugin_find(&p, s->mechanism);
  const NxmemAllocatorVtable *table = plugin_open(&p);
  call c = call_of(table);
  const NxmemAllocation live = take(table, 41u, 100u, 64u);
  c.allocation = live;
  point(&c);
  row->edit(&c);
  assert_status(table->deallocate(c.ctx, c.allocation_at, c.unmapped_at), row->code);
  if (row->code != NXMEM_STATUS_OK) {
    assert_int_equal(c.unmapped, UINT64_MAX);
    assert_books(&p, 1u, 1u);
    memset(live.ptr, 0x5A, live.bytes); /* still there */
    c.unmapped = give_back(table, &live);
  }
  assert_in_range(c.unmapped, 100u, 128u);
  assert_books(&p, 1u, 0u);
  table->release(table->ctx);
  assert_books(&p, 0u, 0u);
  plugin_close(&p);
}

/* ---- open_allocator --------------------------------------------------------------------------------------------- */

EDIT(null_open, c->open_at = NULL)
EDIT(null_opened, c->opened_at = NULL)
EDIT(askew_open, c->open_at = askew(&c->open))
EDIT(askew_opened, c->opened_at = askew(&c->opened))
EDIT(open_0, c->open.struct_size = 0u)
EDIT(open_31, c->open.struct_size = 31u)
EDIT(open_longer, c->open.struct_size = 64u)
EDIT(open_other_tier, c->open.device.tier = NXMEM_TIER_DEVICE)
EDIT(open_other_index, c->open.device.index = 1u)
EDIT(requires_nothing, c->open.required_capability_flags = 0u)
EDIT(requires_backing, c->open.required_capability_flags |= NXMEM_CAP_VIRTUAL_BACKING)
EDIT(requires_the_future, c->open.required_capability_flags |= 1ull << 40)
EDIT(requires_all, c->open.required_capability_flags = UINT64_MAX)
EDIT(minor_0, c->open.abi_minor = 0u)

static const slot_row open_rows[] = {
    {"an honest request", as_it_is, NXMEM_STATUS_OK},
    {"NULL ctx", null_ctx, NXMEM_STATUS_INVALID_ARGUMENT},
    {"NULL request", null_open, NXMEM_STATUS_INVALID_ARGUMENT},
    {"NULL out", null_opened, NXMEM_STATUS_INVALID_ARGUMENT},
    {"misaligned request", askew_open, NXMEM_STATUS_INVALID_ARGUMENT},
    {"misaligned out", askew_opened, NXMEM_STATUS_INVALID_ARGUMENT},
    {"request of 0 bytes", open_0, NXMEM_STATUS_SHORT_STRUCT},
    {"request of 31 bytes", open_31, NXMEM_STATUS_SHORT_STRUCT},
    {"request of a newer host", open_longer, NXMEM_STATUS_OK},
    {"another tier", open_other_tier, NXMEM_STATUS_WRONG_DEVICE},
    {"another index", open_other_index, NXMEM_STATUS_WRONG_DEVICE},
    {"nothing required", requires_nothing, NXMEM_STATUS_OK},
    {"virtual backing required", requires_backing, NXMEM_STATUS_UNSUPPORTED_CAPABILITY},
    {"an unknown bit required", requires_the_future, NXMEM_STATUS_UNSUPPORTED_CAPABILITY},
    {"every bit required", requires_all, NXMEM_STATUS_UNSUPPORTED_CAPABILITY},
    {"a host of minor 0", minor_0, NXMEM_STATUS_OK},
};

static void assert_table(const subject *s, const NxmemAllocatorVtable *table) {
  assert_int_equal(table->struct_size, 128u);
  assert_int_equal(table->abi_minor, 1u);
  assert_int_equal(table->capability_flags, s->capability_flags);
  assert_int_equal(table->device.tier, NXMEM_TIER_HOST);
  assert_int_equal(table->device.index, 0u);
  assert_string_equal((const char *)table->name, s->mechanism);
  assert_int_not_equal(table->mechanism_id, 0u);
  assert_true(table->allocate != NULL && table->deallocate != NULL && table->retain != NULL && table->release != NULL);
  assert_true(table->virtual_backing == NULL && table->shared_mapping == NULL && table->enqueue_release == NULL &&
              table->drain_releases == NULL && table->pending_release_count == NULL);
  const int structured = (s->capability_flags & NXMEM_CAP_STRUCTURED_RELEASE) != 0u;
  assert_int_equal(table->release_allocation != NULL, structured);
}

static void run_open(const subject *s, const void *data) {
  const slot_row *row = data;
  plugin p;
  plugin_load(&p, s->file);
  plugin_find(&p, s->mechanism);
  call c;
  memset(&c, 0, sizeof c);
  c.ctx = p.factory->ctx;
  c.open = open_request(&p);
  point(&c);
  row->edit(&c);
  assert_status(p.factory->open_allocator(c.ctx, c.open_at, c.opened_at), row->code);
  if (row->code == NXMEM_STATUS_OK) {
    assert_books(&p, 1u, 0u);
    assert_table(s, c.opened);
    c.opened->release(c.opened->ctx);
  } else {
    assert_null(c.opened);
  }
  assert_books(&p, 0u, 0u);
  plugin_close(&p);
}

int main(void) {
  add_rows("allocate", allocate_rows, COUNT(allocate_rows), sizeof allocate_rows[0], run_allocate);
  add_rows("deallocate", deallocate_rows, COUNT(deallocate_rows), sizeof deallocate_rows[0], run_deallocate);
  add_rows("open", open_rows, COUNT(open_rows), sizeof open_rows[0], run_open);
  return run_added("plugin slots");
}
