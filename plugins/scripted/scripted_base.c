/*
 * scripted_base.c: an honest plugin: negotiation, factories, the unload report.
 *
 * Attackers: none by intent; a host with short, NULL or foreign arguments is answered as the contract says.
 * Promise: each factory and each allocator counts its release exactly; nothing it publishes moves before that.
 */
#define _POSIX_C_SOURCE 200809L
#include "scripted_base.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "nxmem/capability.h"
#include "nxmem/negotiate.h"
#include "nxmem/prefix.h"
#include "nxmem/status.h"
#include "nxmem/unload.h"
#include "scripted_open.h"

const NxmemDeviceId nx_host_device = {NXMEM_TIER_HOST, 0u};
const NxmemVersionRange nx_versions = {1u, 1u, 0u, NX_MINOR};

NxmemStatus nx_status(uint32_t code, const char *text) {
  NxmemStatus status;
  nxmem_status_build(&status, code, (const uint8_t *)text, (uint32_t)strlen(text));
  return status;
}

NxmemStatus nx_ok(void) { return nx_status(NXMEM_STATUS_OK, ""); }

/* ---- Factories -------------------------------------------------------------------------------------------------- */

typedef struct nx_factory {
  struct nx_factory *next;
  const nx_mechanism *row;
  NxmemDeviceId device;
  int released;
  nx_placed table;
} nx_factory;

/* Protects `factories` and each factory's `released`. */
static pthread_mutex_t listed = PTHREAD_MUTEX_INITIALIZER;
static nx_factory *factories;

static int is_released(nx_factory *factory) {
  pthread_mutex_lock(&listed);
  const int released = factory->released;
  pthread_mutex_unlock(&listed);
  return released;
}

static NxmemStatus open_slot(void *ctx, const NxmemOpenRequest *request, const NxmemAllocatorVtable **out) {
  nx_factory *factory = ctx;
  nx_count(NX_PROBE_OPEN_CALLS);
  if (factory == NULL) return nx_status(NXMEM_STATUS_INVALID_ARGUMENT, "open: NULL ctx");
  if (is_released(factory)) {
    nx_count(NX_PROBE_STRAY_FACTORY_CALLS);
    return nx_status(NXMEM_STATUS_INVALID_ARGUMENT, "open: the factory was released");
  }
  return nx_open(factory->row, factory->device, request, out);
}

/* The table goes with the release, so that a later look at it is caught; what the ctx names stays, to count strays. */
static void release_slot(void *ctx) {
  nx_factory *factory = ctx;
  if (factory == NULL) return;
  pthread_mutex_lock(&listed);
  const int again = factory->released;
  factory->released = 1;
  pthread_mutex_unlock(&listed);
  nx_count(again ? NX_PROBE_STRAY_FACTORY_CALLS : NX_PROBE_FACTORIES_RELEASED);
  if (!again) nx_unplace(&factory->table);
}

nx_listing nx_list(const nx_mechanism *row) {
  const uint32_t minor = row->abi_minor < NX_MINOR ? row->abi_minor : NX_MINOR;
  return (nx_listing){
      row, (const uint8_t *)row->name, nx_host_device, minor, NX_FACTORY_BYTES, NX_FACTORY_BYTES, NX_PLACE_HEAP, NULL};
}

static NxmemAllocatorFactoryVtable honest_factory(nx_factory *factory, const nx_listing *listing) {
  return (NxmemAllocatorFactoryVtable){
      .struct_size = listing->struct_size,
      .abi_minor = listing->abi_minor,
      .name = listing->name,
      .device = listing->device,
      .capability_flags = listing->row->capability_flags & nxmem_caps_at(listing->abi_minor),
      .ctx = factory,
      .open_allocator = open_slot,
      .release = release_slot};
}

/* A copy of a table in memory of its own; bytes beyond what this version knows are poison. */
nx_placed nx_place_table(nx_place place, uint32_t bytes, const void *table, size_t known) {
  nx_placed placed = nx_place_bytes(place, bytes);
  if (placed.bytes == NULL) return placed;
  memset(placed.bytes, 0xAA, bytes);
  memcpy(placed.bytes, table, bytes < known ? bytes : known);
  return placed;
}

const NxmemAllocatorFactoryVtable *nx_publish(const nx_listing *listing) {
  nx_factory *factory = calloc(1u, sizeof *factory);
  if (factory == NULL) return NULL;
  factory->row = listing->row;
  factory->device = listing->device;
  NxmemAllocatorFactoryVtable table = honest_factory(factory, listing);
  if (listing->spoil != NULL) listing->spoil(&table);
  factory->table = nx_place_table(listing->place, listing->table_bytes, &table, NX_FACTORY_BYTES);
  pthread_mutex_lock(&listed);
  factory->next = factories;
  factories = factory;
  pthread_mutex_unlock(&listed);
  if (table.release != NULL && table.struct_size >= NX_FACTORY_BYTES) nx_count(NX_PROBE_FACTORIES_CREATED);
  return (const NxmemAllocatorFactoryVtable *)factory->table.bytes;
}

__attribute__((destructor)) static void free_factories(void) {
  while (factories != NULL) {
    nx_factory *factory = factories;
    factories = factory->next;
    nx_unplace(&factory->table);
    free(factory);
  }
}

/* ---- The honest exports ----------------------------------------------------------------------------------------- */

static NxmemStatus refusal(nxmem_verdict verdict, const char *text) {
  return nx_status(nxmem_reason_status(verdict.reason), text);
}

NxmemStatus nx_negotiate(uint64_t capability_flags, const NxmemNegotiateRequest *request,
                         NxmemNegotiateResponse *response) {
  const nxmem_offer own = {nx_versions, capability_flags};
  const nxmem_verdict place = nxmem_check_table_address((uintptr_t)response);
  if (place.reason != NXMEM_REASON_NONE) return refusal(place, "negotiate: response");
  const uint32_t room = nxmem_response_extent(response->struct_size);
  NxmemNegotiateResponse full = {NXMEM_RESPONSE_BYTES, 0u, 0u, 0u, nx_versions, 0u};
  NxmemNegotiateRequest taken;
  nxmem_verdict verdict = nxmem_request_take(request, &taken);
  if (verdict.reason == NXMEM_REASON_NONE) verdict = nxmem_negotiate_decide(&taken, &own, &full);
  full.struct_size = room;
  memcpy(response, &full, room);
  if (verdict.reason != NXMEM_REASON_NONE) return refusal(verdict, "negotiate: refused");
  return room < NXMEM_RESPONSE_BYTES ? nx_status(NXMEM_STATUS_SHORT_STRUCT, "negotiate: response") : nx_ok();
}

NxmemStatus nx_check_enumerate(const NxmemAllocatorFactoryVtable **out_factories, uint64_t max_factories,
                               uint64_t needed, const uint64_t *out_count) {
  if (nxmem_check_table_address((uintptr_t)out_factories).reason != NXMEM_REASON_NONE ||
      nxmem_check_table_address((uintptr_t)out_count).reason != NXMEM_REASON_NONE)
    return nx_status(NXMEM_STATUS_INVALID_ARGUMENT, "factories: NULL or misaligned argument");
  if (max_factories < needed) return nx_status(NXMEM_STATUS_INVALID_ARGUMENT, "factories: not enough room");
  return nx_ok();
}

NxmemStatus nx_report(NxmemUnloadReport *report_out) {
  const nxmem_verdict place = nxmem_check_table_address((uintptr_t)report_out);
  if (place.reason != NXMEM_REASON_NONE) return refusal(place, "unload: report");
  if (report_out->struct_size < NXMEM_UNLOAD_REPORT_BYTES)
    return nx_status(NXMEM_STATUS_SHORT_STRUCT, "unload: room for the report below 48 bytes");
  const uint64_t released = nxmem_scripted_probe(NX_PROBE_ALLOCATORS_RELEASED);
  *report_out = (NxmemUnloadReport){NXMEM_UNLOAD_REPORT_BYTES,
                                    0u,
                                    nxmem_scripted_probe(NX_PROBE_ALLOCATORS_OPENED) - released,
                                    nxmem_scripted_probe(NX_PROBE_LIVE_ALLOCATIONS),
                                    nxmem_scripted_probe(NX_PROBE_LIVE_VIEWS),
                                    nxmem_scripted_probe(NX_PROBE_LIVE_PREFIXES),
                                    nxmem_scripted_probe(NX_PROBE_QUEUED_RELEASES)};
  return nx_ok();
}
