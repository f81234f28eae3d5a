/*
 * scripted.c: an honest module whose mechanisms misbehave by name; which ones, NXMEM_GROUPS says (CMakeLists.txt).
 *
 * Attackers: none; the module as a whole keeps the contract, so that each row is met alone.
 * Promise: every row of the module's groups is listed once, on host device 0.
 */
#include "scripted_mechanisms.h"

static const nx_row_group *const groups[] = {NXMEM_GROUPS};

static uint64_t row_count(void) {
  uint64_t rows = 0u;
  for (size_t i = 0u; i < sizeof groups / sizeof groups[0]; i++) rows += groups[i]->count;
  return rows;
}

static const nx_mechanism *row_at(uint64_t index) {
  const nx_row_group *const *group = groups;
  for (; index >= (*group)->count; group++) index -= (*group)->count;
  return &(*group)->rows[index];
}

NX_EXPORT NxmemStatus NxmemNegotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response) {
  nx_count(NX_PROBE_NEGOTIATE_CALLS);
  return nx_negotiate(NX_ALL_CAPS, request, response);
}

NX_EXPORT NxmemStatus NxmemCreateAllocatorFactories(const NxmemAllocatorFactoryVtable **out_factories,
                                                    uint64_t max_factories, uint64_t *out_count) {
  nx_count(NX_PROBE_ENUMERATE_CALLS);
  const NxmemStatus checked = nx_check_enumerate(out_factories, max_factories, row_count(), out_count);
  if (checked.code != NXMEM_STATUS_OK) return checked;
  for (uint64_t i = 0u; i < row_count(); i++) {
    const nx_listing listing = nx_list(row_at(i));
    out_factories[i] = nx_publish(&listing);
    if (out_factories[i] == NULL) return nx_status(NXMEM_STATUS_OUT_OF_MEMORY, "factories");
  }
  *out_count = row_count();
  return nx_ok();
}

NX_EXPORT NxmemStatus NxmemQueryUnloadReadiness(NxmemUnloadReport *report_out) {
  nx_count(NX_PROBE_REPORT_CALLS);
  nx_visit_dropped();
  return nx_report(report_out);
}
