/*
 * scripted.c: libnxmem_scripted.so: one honest module whose mechanisms misbehave by name.
 *
 * Attackers: none; the module as a whole keeps the contract, so that each row is met alone.
 * Promise: `eager` and every row of scripted_mechanisms.h is listed once, on host device 0.
 */
#include "scripted_mechanisms.h"

static uint64_t row_count(void) { return 1u + (uint64_t)nx_table_row_count + nx_answer_row_count; }

static const nx_mechanism *row_at(uint64_t index) {
  if (index == 0u) return &nx_eager;
  if (index <= nx_table_row_count) return &nx_table_rows[index - 1u];
  return &nx_answer_rows[index - 1u - nx_table_row_count];
}

NX_EXPORT NxmemStatus NxmemNegotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response) {
  nx_count(NX_PROBE_NEGOTIATE_CALLS);
  return nx_negotiate(request, response);
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
  return nx_report(report_out);
}
