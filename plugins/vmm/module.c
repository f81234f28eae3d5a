/*
 * module.c: the exports: the contract's three, and the statistics.
 *
 * Attackers: a host that is older, newer or wrong: short records, NULLs, versions that do not meet.
 * Promise: nothing is written beyond the room that the host declared; the unload report is true, and before it is made everything that can go has gone.
 */
#include <string.h>

#include "factory.h"
#include "fork.h"
#include "gate.h"
#include "nxmem/negotiate.h"
#include "nxmem/statistics.h"
#include "nxmem/status.h"
#include "records.h"

#define EXPORT __attribute__((visibility("default")))

static uint64_t module_capabilities(void) {
  const nx_vmm_offer *offers = NULL;
  uint64_t flags = NXMEM_CAP_ALLOCATOR;
  const uint32_t count = nx_vmm_offers(&offers);
  for (uint32_t i = 0u; i < count; i++) flags |= offers[i].capabilities;
  return flags;
}

/* Whole fields that fit into the room the caller declared, and no byte more. */
static void respond(NxmemNegotiateResponse *response, NxmemNegotiateResponse *full) {
  full->struct_size = nxmem_response_extent(response->struct_size);
  memcpy(response, full, full->struct_size);
}

static NxmemStatus judge(const NxmemNegotiateRequest *request, const nxmem_offer *own, NxmemNegotiateResponse *full) {
  NxmemNegotiateRequest taken;
  nxmem_verdict verdict = nxmem_request_take(request, &taken);
  if (verdict.reason == NXMEM_REASON_NONE) verdict = nxmem_negotiate_decide(&taken, own, full);
  if (verdict.reason == NXMEM_REASON_NONE) return nx_ok();
  return nx_status(nxmem_reason_status(verdict.reason), "negotiate: the plugin speaks 1.0 to 1.1 and needs ALLOCATOR");
}

EXPORT NxmemStatus NxmemNegotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response) {
  if (nx_unusable(response)) return nx_status(NXMEM_STATUS_INVALID_ARGUMENT, "negotiate: NULL or misaligned response");
  const nxmem_offer own = {{1u, 1u, 0u, 1u}, module_capabilities()};
  NxmemNegotiateResponse full = {NXMEM_RESPONSE_BYTES, 0u, 0u, 0u, own.range, 0u};
  const int whole = response->struct_size >= NXMEM_RESPONSE_BYTES;
  const NxmemStatus status = judge(request, &own, &full);
  respond(response, &full);
  if (status.code == NXMEM_STATUS_OK && !whole)
    return nx_status(NXMEM_STATUS_SHORT_STRUCT, "negotiate: room for the response below 40 bytes");
  return status;
}

EXPORT NxmemStatus NxmemCreateAllocatorFactories(const NxmemAllocatorFactoryVtable **out_factories,
                                                 uint64_t max_factories, uint64_t *out_count) {
  if (nx_unusable(out_factories) || nx_unusable(out_count))
    return nx_status(NXMEM_STATUS_INVALID_ARGUMENT, "factories: NULL or misaligned argument");
  const uint32_t count = nx_factories(out_factories, max_factories);
  if (count > max_factories) return nx_status(NXMEM_STATUS_INVALID_ARGUMENT, "factories: no room for all");
  *out_count = count;
  return nx_ok();
}

EXPORT NxmemStatus NxmemQueryUnloadReadiness(NxmemUnloadReport *report_out) {
  if (nx_is_forked()) return nx_status(NXMEM_STATUS_DEVICE_ERROR, "a forked child: the memory is its parent's");
  if (nx_unusable(report_out)) return nx_status(NXMEM_STATUS_INVALID_ARGUMENT, "unload: NULL or misaligned report");
  if (report_out->struct_size < NX_UNLOAD_REPORT_BYTES)
    return nx_status(NXMEM_STATUS_SHORT_STRUCT, "unload: room for the report below 48 bytes");
  nx_engines_finish();
  const nx_report *live = &nx_the_report;
  const NxmemUnloadReport report = {NX_UNLOAD_REPORT_BYTES,     0u,
                                    nx_read(&live->allocators), nx_engines_allocations(),
                                    nx_read(&live->views),      nx_read(&live->capabilities),
                                    nx_read(&live->queued)};
  memcpy(report_out, &report, NX_UNLOAD_REPORT_BYTES);
  return nx_ok();
}

static void fill(const nx_books *books, NxmemVmmStats *out) {
  *out = (NxmemVmmStats){.struct_size = sizeof *out,
                         .reserved_bytes = nx_read(&books->reserved_bytes),
                         .committed_bytes = nx_read(&books->committed_bytes),
                         .peak_committed_bytes = nx_read(&books->peak_committed_bytes),
                         .granule_bytes = nx_read(&books->granule_bytes),
                         .granules_mapped = nx_read(&books->granules_mapped),
                         .pool_bytes = nx_read(&books->pool_bytes),
                         .quarantined_bytes = nx_read(&books->quarantined_bytes),
                         .quarantined_spans = nx_read(&books->quarantined_spans),
                         .poisoned_granules = nx_read(&books->poisoned_granules),
                         .refcount_underflows = nx_read(&books->refcount_underflows),
                         .bind_failures = nx_read(&books->bind_failures),
                         .maps = nx_read(&books->maps),
                         .unmaps = nx_read(&books->unmaps),
                         .device_lost = nx_read(&books->device_lost)};
}

EXPORT uint32_t NxmemVmmStatistics(uint64_t mechanism_id, uint32_t tier, uint32_t index, NxmemVmmStats *stats) {
  uint32_t status = NXMEM_STATUS_OK;
  NxmemVmmStats full;
  if (nx_is_forked()) return NXMEM_STATUS_DEVICE_ERROR;
  if (nx_unusable(stats)) return NXMEM_STATUS_INVALID_ARGUMENT;
  if (stats->struct_size < sizeof full) return NXMEM_STATUS_SHORT_STRUCT;
  const nx_books *books = nx_find_books(mechanism_id, tier, index, &status);
  if (books == NULL) return status;
  if (nx_read(&books->opened) == 0u) return NXMEM_STATUS_UNKNOWN_ALLOCATION;
  fill(books, &full);
  if (nx_gate_lost_on(tier, index)) full.device_lost = 1u; /* whichever mechanism of the device has met it */
  memcpy(stats, &full, sizeof full);
  return NXMEM_STATUS_OK;
}
