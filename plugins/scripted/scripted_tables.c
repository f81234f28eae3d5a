/*
 * scripted_tables.c: mechanisms whose allocator table, or the open that yields it, is not what it claims.
 *
 * Attackers: these are. Each row has one defect, which its name says; `legacy-1-0`, `guard-page-table`,
 * `poisoned-tail`, `ahead`, `ahead-of-host` and `undeclared-slot` have none: they only punish a host that looks or calls where it must not.
 * Promise: where a table is short it really ends there; where its release can be found, the release counts.
 */
#include <string.h>

#include "scripted_mechanisms.h"

enum { NEWER_BYTES = 192 };

#define FROM_THE_FUTURE (1ull << 40)

static void without_allocate(NxmemAllocatorVtable *table) { table->allocate = NULL; }
static void without_release_slot(NxmemAllocatorVtable *table) { table->release_allocation = NULL; }
static void without_mechanism(NxmemAllocatorVtable *table) { table->mechanism_id = 0u; }
static void with_unknown_bit(NxmemAllocatorVtable *table) { table->capability_flags |= FROM_THE_FUTURE; }
static void on_another_device(NxmemAllocatorVtable *table) { table->device.index++; }

static void with_undeclared_backing(NxmemAllocatorVtable *table) {
  table->virtual_backing = &((const nx_allocator *)table->ctx)->spare_backing;
}

static NxmemStatus open_null(const NxmemAllocatorVtable **out) {
  *out = NULL;
  return nx_ok();
}

static NxmemStatus open_wild(const NxmemAllocatorVtable **out) {
  *out = nx_forbidden_address();
  return nx_ok();
}

static NxmemStatus open_misaligned(const NxmemAllocatorVtable **out) {
  static const uint64_t readable[NX_ALLOCATOR_BYTES / 8 + 1] = {NX_ALLOCATOR_BYTES};
  *out = (const NxmemAllocatorVtable *)(const void *)((const uint8_t *)readable + 4);
  return nx_ok();
}

/* A length beyond the buffer, no NUL, bytes that are no UTF-8, and one that would steer a terminal. */
static NxmemStatus open_refuses(const NxmemAllocatorVtable **out) {
  (void)out;
  NxmemStatus status = {NXMEM_STATUS_DEVICE_ERROR, 0xFFFFFFFFu, {0}};
  memset(status.message, 0xFF, sizeof status.message);
  memcpy(status.message, "lost \xC3( \x1B[31m", 12);
  return status;
}

/* ---- Slots that no host may call -------------------------------------------------------------------------------- */

static NxmemStatus forbidden(void) {
  nx_count(NX_PROBE_FORBIDDEN_CALLS);
  return nx_status(NXMEM_STATUS_NOT_IMPLEMENTED, "a slot that was not offered");
}

static NxmemStatus no_enqueue(void *ctx, const NxmemAllocation *allocation, uint64_t *ticket_out) {
  (void)ctx, (void)allocation, (void)ticket_out;
  return forbidden();
}

static NxmemStatus no_drain(void *ctx, uint64_t max, uint64_t *retired_out) {
  (void)ctx, (void)max, (void)retired_out;
  return forbidden();
}

static NxmemStatus no_pending(void *ctx, uint64_t *count_out) {
  (void)ctx, (void)count_out;
  return forbidden();
}

static NxmemStatus no_release(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *outcome_out) {
  (void)ctx, (void)allocation, (void)outcome_out;
  return forbidden();
}

static void with_undeclared_slots(NxmemAllocatorVtable *table) {
  table->enqueue_release = no_enqueue;
  table->drain_releases = no_drain;
  table->pending_release_count = no_pending;
  table->release_allocation = no_release;
}

/* One minor above what was negotiated. To a host of 1.0 the slot that 1.1 added is out of bounds. */
static void ahead_of_host(NxmemAllocatorVtable *table) {
  const nx_allocator *allocator = table->ctx;
  table->abi_minor = allocator->host_minor + 1u;
  if (allocator->host_minor == 0u) table->release_allocation = no_release;
}

#define TABLE(row_name, minor, declared, really, flags)                                         \
  .name = (row_name), .abi_minor = (minor), .struct_size = (declared), .table_bytes = (really), \
  .capability_flags = (flags)
#define HONEST(row_name) TABLE(row_name, NX_MINOR, NX_ALLOCATOR_BYTES, NX_ALLOCATOR_BYTES, NX_CAPS)
#define MINOR_0(row_name, really) TABLE(row_name, 0u, NX_ALLOCATOR_BYTES_0, really, NXMEM_CAP_ALLOCATOR)

static const nx_mechanism rows[] = {
    /* No defect: drive them. */
    {MINOR_0("legacy-1-0", NX_ALLOCATOR_BYTES_0)},
    {MINOR_0("guard-page-table", NX_ALLOCATOR_BYTES_0), .place = NX_PLACE_GUARD},
    {TABLE("poisoned-tail", NX_MINOR + 1u, NEWER_BYTES, NEWER_BYTES, NX_CAPS)},
    {TABLE("ahead", NX_MINOR + 1u, NX_ALLOCATOR_BYTES + 8u, NX_ALLOCATOR_BYTES + 8u, NX_CAPS | FROM_THE_FUTURE)},
    {TABLE("ahead-of-host", NX_MINOR, NX_ALLOCATOR_BYTES + 8u, NX_ALLOCATOR_BYTES + 8u, NX_CAPS),
     .spoil = ahead_of_host},
    {TABLE("undeclared-slot", NX_MINOR, NX_ALLOCATOR_BYTES, NX_ALLOCATOR_BYTES, NXMEM_CAP_ALLOCATOR),
     .spoil = with_undeclared_slots},

    /* Sizes. `short-struct` claims minor 1 in the size of minor 0 and, being malformed, creates no state. */
    {TABLE("short-struct", NX_MINOR, NX_ALLOCATOR_BYTES_0, NX_ALLOCATOR_BYTES_0, NX_CAPS), .stateless = 1},
    {TABLE("lying-size", NX_MINOR, NX_ALLOCATOR_BYTES, NX_ALLOCATOR_BYTES_0, NX_CAPS), .place = NX_PLACE_GUARD},

    /* Contents: the release can be found and is owed. */
    {HONEST("missing-slot"), .spoil = without_allocate},
    {HONEST("flag-without-slot"), .spoil = without_release_slot},
    {HONEST("zero-mechanism"), .spoil = without_mechanism},
    {HONEST("unknown-capability"), .spoil = with_unknown_bit},
    {HONEST("wrong-device"), .spoil = on_another_device},
    {HONEST("undeclared-table"), .spoil = with_undeclared_backing},

    /* OK, or not, without a table: nothing is owed. */
    {HONEST("null-table"), .open = open_null},
    {HONEST("wild-table"), .open = open_wild},
    {HONEST("misaligned-table"), .open = open_misaligned},
    {HONEST("open-refuses"), .open = open_refuses},
};
const nx_row_group nx_table_rows = NX_ROWS(rows);
