/*
 * fault_rows.c: how a module carries its row out; the rows about the unload report; the rows that the build makes.
 *
 * Attackers: the rows.
 * Promise: an edit comes after the honest work, so that a host finds everything else as it should be.
 */
#include "fault_rows.h"

#include <string.h>

#include "nxmem/unload.h"

/* ---- Carrying a row out ----------------------------------------------------------------------------------------- */

NxmemStatus nx_fault_negotiate(const nx_fault *fault, const NxmemNegotiateRequest *request,
                               NxmemNegotiateResponse *response) {
  nx_count(NX_PROBE_NEGOTIATE_CALLS);
  const NxmemStatus honest = nx_negotiate(NX_CAPS, request, response);
  if (honest.code != NXMEM_STATUS_OK) return honest;
  if (fault->edit_response != NULL) fault->edit_response(request, response);
  return fault->negotiate_status == NXMEM_STATUS_OK ? honest : nx_status(fault->negotiate_status, "no");
}

NxmemStatus nx_fault_enumerate(const nx_fault *fault, const NxmemAllocatorFactoryVtable **out_factories,
                               uint64_t max_factories, uint64_t *out_count) {
  nx_count(NX_PROBE_ENUMERATE_CALLS);
  const nx_listing honest = nx_list(&nx_eager);
  const nx_listing *listings = fault->listings == NULL ? &honest : fault->listings;
  const uint64_t count = fault->listings == NULL ? 1u : fault->listing_count;
  const uint64_t room = fault->edited > count ? fault->edited : count;
  const NxmemStatus checked = nx_check_enumerate(out_factories, max_factories, room, out_count);
  if (checked.code != NXMEM_STATUS_OK) return checked;
  for (uint64_t i = 0u; i < count; i++) {
    out_factories[i] = nx_publish(&listings[i]);
    if (out_factories[i] == NULL) return nx_status(NXMEM_STATUS_OUT_OF_MEMORY, "factories");
  }
  *out_count = count;
  return fault->edit_entries == NULL ? nx_ok() : fault->edit_entries(out_factories, out_count);
}

NxmemStatus nx_fault_report(const nx_fault *fault, NxmemUnloadReport *report_out) {
  nx_count(NX_PROBE_REPORT_CALLS);
  return fault->report == NULL ? nx_report(report_out) : fault->report(report_out);
}

/* ---- Reports ---------------------------------------------------------------------------------------------------- */

static NxmemStatus report_nothing(NxmemUnloadReport *report_out) {
  (void)report_out;
  return nx_ok();
}

static NxmemStatus report_short(NxmemUnloadReport *report_out) {
  const NxmemStatus honest = nx_report(report_out);
  if (honest.code == NXMEM_STATUS_OK) report_out->struct_size = 8u;
  return honest;
}

/* The numbers are true; the status is not OK. */
static NxmemStatus report_failing(NxmemUnloadReport *report_out) {
  const NxmemStatus honest = nx_report(report_out);
  return honest.code == NXMEM_STATUS_OK ? nx_status(NXMEM_STATUS_INTERNAL_ERROR, "cannot say") : honest;
}

static NxmemStatus report_views(NxmemUnloadReport *report_out) {
  const NxmemStatus honest = nx_report(report_out);
  if (honest.code == NXMEM_STATUS_OK) report_out->live_views = 3u;
  return honest;
}

static NxmemStatus report_huge(NxmemUnloadReport *report_out) {
  const NxmemStatus honest = nx_report(report_out);
  if (honest.code != NXMEM_STATUS_OK) return honest;
  report_out->live_allocators = report_out->live_allocations = report_out->live_views = UINT64_MAX - 1u;
  report_out->live_capabilities = report_out->queued_releases = UINT64_MAX - 1u;
  return honest;
}

/* Nothing is left, whatever is. */
static NxmemStatus report_zero(NxmemUnloadReport *report_out) {
  const NxmemStatus honest = nx_report(report_out);
  if (honest.code == NXMEM_STATUS_OK)
    *report_out = (NxmemUnloadReport){NXMEM_UNLOAD_REPORT_BYTES, 0u, 0u, 0u, 0u, 0u, 0u};
  return honest;
}

/* One axis each; live_views is report-holds. */
static NxmemStatus report_axis(NxmemUnloadReport *report_out, size_t axis) {
  const NxmemStatus honest = nx_report(report_out);
  const uint64_t three = 3u;
  if (honest.code == NXMEM_STATUS_OK) memcpy((uint8_t *)report_out + axis, &three, sizeof three);
  return honest;
}
static NxmemStatus report_allocators(NxmemUnloadReport *report_out) {
  return report_axis(report_out, offsetof(NxmemUnloadReport, live_allocators));
}
static NxmemStatus report_allocations(NxmemUnloadReport *report_out) {
  return report_axis(report_out, offsetof(NxmemUnloadReport, live_allocations));
}
static NxmemStatus report_capabilities(NxmemUnloadReport *report_out) {
  return report_axis(report_out, offsetof(NxmemUnloadReport, live_capabilities));
}
static NxmemStatus report_queued(NxmemUnloadReport *report_out) {
  return report_axis(report_out, offsetof(NxmemUnloadReport, queued_releases));
}

static const nx_fault report_rows[] = {
    {.name = "no-report", .report = report_nothing},
    {.name = "short-report", .report = report_short},
    {.name = "failing-report", .report = report_failing},
    {.name = "report-holds", .report = report_views},
    {.name = "report-holds-allocators", .report = report_allocators},
    {.name = "report-holds-allocations", .report = report_allocations},
    {.name = "report-holds-capabilities", .report = report_capabilities},
    {.name = "report-holds-queued", .report = report_queued},
    {.name = "report-huge", .report = report_huge},
    {.name = "report-zero", .report = report_zero},
};

/* Honest code; CMakeLists.txt leaves an export out or makes the module so that it stays. */
static const nx_fault build_rows[] = {
    {.name = "missing-export-negotiate"},
    {.name = "missing-export-factories"},
    {.name = "missing-export-unload"},
    {.name = "resident"},
    {.name = "gnu-unique"},
};

/* ---- Finding a row ---------------------------------------------------------------------------------------------- */

static const nx_fault *find_in(const nx_fault_group *group, const char *name) {
  for (uint32_t i = 0u; i < group->count; i++)
    if (strcmp(group->rows[i].name, name) == 0) return &group->rows[i];
  return NULL;
}

const nx_fault *nx_find_fault(const char *name) {
  const nx_fault_group reports = NX_GROUP(report_rows);
  const nx_fault_group builds = NX_GROUP(build_rows);
  const nx_fault_group *const groups[] = {&nx_negotiation_faults, &nx_list_faults, &nx_factory_faults,
                                          &nx_module_faults,      &reports,        &builds};
  const nx_fault *found = NULL;
  for (size_t i = 0u; i < sizeof groups / sizeof groups[0] && found == NULL; i++) found = find_in(groups[i], name);
  return found;
}
