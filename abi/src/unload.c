/*
 * unload.c: may this module be unmapped?
 *
 * Attackers: failed, short, unwritten or lying reports.
 * Promise: zero on every axis of both sides, or a no that names the axis.
 */
#include "nxmem/unload.h"

#include <stddef.h>

#include "load.h"
#include "nxmem/outcome.h"
#include "verdict_make.h"

enum {
  AT_LIVE_ALLOCATORS = 8,
  AT_LIVE_ALLOCATIONS = 16,
  AT_LIVE_VIEWS = 24,
  AT_LIVE_CAPABILITIES = 32,
  AT_QUEUED_RELEASES = 40
};
#ifndef __FRAMAC__
_Static_assert(AT_LIVE_ALLOCATORS == offsetof(NxmemUnloadReport, live_allocators), "live_allocators");
_Static_assert(AT_LIVE_ALLOCATIONS == offsetof(NxmemUnloadReport, live_allocations), "live_allocations");
_Static_assert(AT_LIVE_VIEWS == offsetof(NxmemUnloadReport, live_views), "live_views");
_Static_assert(AT_LIVE_CAPABILITIES == offsetof(NxmemUnloadReport, live_capabilities), "live_capabilities");
_Static_assert(AT_QUEUED_RELEASES == offsetof(NxmemUnloadReport, queued_releases), "queued_releases");
_Static_assert(NXMEM_UNLOAD_REPORT_BYTES == AT_QUEUED_RELEASES + 8, "report");
#endif

void nxmem_unload_report_take(NXMEM_UNTRUSTED NxmemUnloadReport *src, NxmemUnloadReport *out) {
  out->struct_size = NX_LOAD(NxmemUnloadReport, src, struct_size);
  out->reserved = 0u;
  out->live_allocators = NX_LOAD(NxmemUnloadReport, src, live_allocators);
  out->live_allocations = NX_LOAD(NxmemUnloadReport, src, live_allocations);
  out->live_views = NX_LOAD(NxmemUnloadReport, src, live_views);
  out->live_capabilities = NX_LOAD(NxmemUnloadReport, src, live_capabilities);
  out->queued_releases = NX_LOAD(NxmemUnloadReport, src, queued_releases);
}

/*@ assigns \nothing;
    behavior zero:
      assumes none: count == 0;
      ensures accepted: NX_ACCEPTED(\result);
    behavior held:
      assumes some: count != 0;
      ensures refused: NX_PLUGIN_HOLDS(\result, offset, count);
    complete behaviors;
    disjoint behaviors; */
static nxmem_verdict check_count(uint32_t offset, uint64_t count) {
  if (count == NXMEM_UNWRITTEN_COUNT) return nx_verdict(NXMEM_REASON_REPORT_UNWRITTEN, offset, count, 0u);
  if (count != 0u) return nx_verdict(NXMEM_REASON_PLUGIN_HOLDS, offset, count, 0u);
  return nx_accept();
}

/* The plugin's side: the first axis, in field order, that is unwritten or not zero. */
/*@ requires readable: \valid_read(report);
    assigns \nothing;
    behavior allocators:
      assumes nonzero: !NX_REPORT_ZERO_1(report);
      ensures refused: NX_PLUGIN_HOLDS(\result, 8, report->live_allocators);
    behavior allocations:
      assumes first: NX_REPORT_ZERO_1(report) && report->live_allocations != 0;
      ensures refused: NX_PLUGIN_HOLDS(\result, 16, report->live_allocations);
    behavior views:
      assumes first: NX_REPORT_ZERO_2(report) && report->live_views != 0;
      ensures refused: NX_PLUGIN_HOLDS(\result, 24, report->live_views);
    behavior capabilities:
      assumes first: NX_REPORT_ZERO_3(report) && report->live_capabilities != 0;
      ensures refused: NX_PLUGIN_HOLDS(\result, 32, report->live_capabilities);
    behavior releases:
      assumes first: NX_REPORT_ZERO_4(report) && report->queued_releases != 0;
      ensures refused: NX_PLUGIN_HOLDS(\result, 40, report->queued_releases);
    behavior free:
      assumes all_zero: NX_REPORT_ZERO(report);
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
static nxmem_verdict check_report(const NxmemUnloadReport *report) {
  nxmem_verdict v = check_count(AT_LIVE_ALLOCATORS, report->live_allocators);
  if (v.reason != NXMEM_REASON_NONE) return v;
  v = check_count(AT_LIVE_ALLOCATIONS, report->live_allocations);
  if (v.reason != NXMEM_REASON_NONE) return v;
  v = check_count(AT_LIVE_VIEWS, report->live_views);
  if (v.reason != NXMEM_REASON_NONE) return v;
  v = check_count(AT_LIVE_CAPABILITIES, report->live_capabilities);
  if (v.reason != NXMEM_REASON_NONE) return v;
  return check_count(AT_QUEUED_RELEASES, report->queued_releases);
}

/*@ assigns \nothing;
    ensures refused: NX_HOST_HOLDS(\result, axis, count); */
static nxmem_verdict host_holds(nxmem_host_axis axis, uint64_t count) {
  return nx_verdict(NXMEM_REASON_HOST_HOLDS, (uint32_t)axis, count, 0u);
}

/*@ requires readable: \valid_read(host);
    assigns \nothing;
    behavior allocators:
      assumes nonzero: !NX_TALLY_ZERO_1(host);
      ensures refused: NX_HOST_HOLDS(\result, NXMEM_AXIS_ALLOCATORS, host->allocators);
    behavior allocations:
      assumes first: NX_TALLY_ZERO_1(host) && host->allocations != 0;
      ensures refused: NX_HOST_HOLDS(\result, NXMEM_AXIS_ALLOCATIONS, host->allocations);
    behavior calls:
      assumes first: NX_TALLY_ZERO_2(host) && host->calls_inside != 0;
      ensures refused: NX_HOST_HOLDS(\result, NXMEM_AXIS_CALLS_INSIDE, host->calls_inside);
    behavior slots:
      assumes first: NX_TALLY_ZERO_3(host) && host->held_slots != 0;
      ensures refused: NX_HOST_HOLDS(\result, NXMEM_AXIS_HELD_SLOTS, host->held_slots);
    behavior debts:
      assumes first: NX_TALLY_ZERO_4(host) && host->unpaid_debts != 0;
      ensures refused: NX_HOST_HOLDS(\result, NXMEM_AXIS_UNPAID_DEBTS, host->unpaid_debts);
    behavior free:
      assumes all_zero: NX_TALLY_ZERO(host);
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
static nxmem_verdict check_tally(const nxmem_host_tally *host) {
  if (host->allocators != 0u) return host_holds(NXMEM_AXIS_ALLOCATORS, host->allocators);
  if (host->allocations != 0u) return host_holds(NXMEM_AXIS_ALLOCATIONS, host->allocations);
  if (host->calls_inside != 0u) return host_holds(NXMEM_AXIS_CALLS_INSIDE, host->calls_inside);
  if (host->held_slots != 0u) return host_holds(NXMEM_AXIS_HELD_SLOTS, host->held_slots);
  if (host->unpaid_debts != 0u) return host_holds(NXMEM_AXIS_UNPAID_DEBTS, host->unpaid_debts);
  return nx_accept();
}

nxmem_verdict nxmem_judge_unload(uint32_t status_code, const NxmemUnloadReport *report, const nxmem_host_tally *host) {
  if (status_code != NXMEM_STATUS_OK) return nx_verdict(NXMEM_REASON_REPORT_FAILED, 0u, status_code, NXMEM_STATUS_OK);
  if (report->struct_size < NXMEM_UNLOAD_REPORT_BYTES)
    return nx_verdict(NXMEM_REASON_REPORT_SHORT, 0u, report->struct_size, NXMEM_UNLOAD_REPORT_BYTES);
  const nxmem_verdict plugin = check_report(report);
  if (plugin.reason != NXMEM_REASON_NONE) return plugin;
  return check_tally(host);
}

int nxmem_report_is_broken(uint32_t reason) {
  return reason == NXMEM_REASON_REPORT_SHORT || reason == NXMEM_REASON_REPORT_UNWRITTEN;
}
