/*
 * unload.h: may this module be unmapped?
 *
 * Attackers: a plugin that fails its report, shortens it, leaves it unwritten, or says zero while the host knows
 * better.
 * Promise: yes only when the plugin's report and the host's own tallies are zero on every axis; otherwise the axis
 * that forbids it.
 */
#ifndef NXMEM_UNLOAD_H
#define NXMEM_UNLOAD_H

#include "nxmem/verdict.h"
#include "nxmem_memory_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { NXMEM_UNLOAD_REPORT_BYTES = 48 };

/* The host's own tallies of one module. */
typedef struct nxmem_host_tally {
  uint64_t allocators;   /* open */
  uint64_t allocations;  /* live or quarantined */
  uint64_t calls_inside; /* host calls that are in the plugin now */
  uint64_t held_slots;   /* callback slots that a queued release can still name */
  uint64_t unpaid_debts; /* objects the plugin created whose release could not be found */
} nxmem_host_tally;

typedef enum nxmem_host_axis {
  NXMEM_AXIS_ALLOCATORS = 1,
  NXMEM_AXIS_ALLOCATIONS = 2,
  NXMEM_AXIS_CALLS_INSIDE = 3,
  NXMEM_AXIS_HELD_SLOTS = 4,
  NXMEM_AXIS_UNPAID_DEBTS = 5
} nxmem_host_axis;

#ifdef __FRAMAC__
/* clang-format off */
/* The first axis that is not zero decides; an unwritten count is a refusal of its own. */
#define NX_COUNT_REASON(count) \
  ((count) == 0xFFFFFFFFFFFFFFFF ? NXMEM_REASON_REPORT_UNWRITTEN : NXMEM_REASON_PLUGIN_HOLDS)
#define NX_PLUGIN_HOLDS(v, at, count) NX_VERDICT_IS(v, NX_COUNT_REASON(count), at, count, 0)
#define NX_REPORT_ZERO_1(r) ((r)->live_allocators == 0)
#define NX_REPORT_ZERO_2(r) (NX_REPORT_ZERO_1(r) && (r)->live_allocations == 0)
#define NX_REPORT_ZERO_3(r) (NX_REPORT_ZERO_2(r) && (r)->live_views == 0)
#define NX_REPORT_ZERO_4(r) (NX_REPORT_ZERO_3(r) && (r)->live_capabilities == 0)
#define NX_REPORT_ZERO(r) (NX_REPORT_ZERO_4(r) && (r)->queued_releases == 0)
#define NX_HOST_HOLDS(v, axis, count) NX_VERDICT_IS(v, NXMEM_REASON_HOST_HOLDS, axis, count, 0)
#define NX_TALLY_ZERO_1(h) ((h)->allocators == 0)
#define NX_TALLY_ZERO_2(h) (NX_TALLY_ZERO_1(h) && (h)->allocations == 0)
#define NX_TALLY_ZERO_3(h) (NX_TALLY_ZERO_2(h) && (h)->calls_inside == 0)
#define NX_TALLY_ZERO_4(h) (NX_TALLY_ZERO_3(h) && (h)->held_slots == 0)
#define NX_TALLY_ZERO(h) (NX_TALLY_ZERO_4(h) && (h)->unpaid_debts == 0)
#define NX_REPORT_JUDGED(code, r) ((code) == 0 && (r)->struct_size >= 48)
/* clang-format on */
#endif
/* Copy a report that the plugin may still be writing, each field once. */
#ifdef NXMEM_QUIET_WORLD
/*@ requires src_readable: \valid_read(src);
    requires out_writable: \valid(out);
    requires apart: \separated(src, out);
    assigns *out;
    ensures reserved: out->reserved == 0;
    ensures struct_size: out->struct_size == src->struct_size;
    ensures live_allocators: out->live_allocators == src->live_allocators;
    ensures live_allocations: out->live_allocations == src->live_allocations;
    ensures live_views: out->live_views == src->live_views;
    ensures live_capabilities: out->live_capabilities == src->live_capabilities;
    ensures queued_releases: out->queued_releases == src->queued_releases; */
#else
/*@ requires src_readable: \valid_read(src);
    requires out_writable: \valid(out);
    requires apart: \separated(src, out, &NX_LEDGER);
    requires fresh: NX_NOTHING_LOADED_FROM(0);
    assigns *out, NX_LEDGER;
    ensures reserved: out->reserved == 0;
    ensures loads: NX_LOADED(0) && NX_LOADED(8) && NX_LOADED(16) && NX_LOADED(24) && NX_LOADED(32) && NX_LOADED(40);
    ensures no_more_loads: !NX_LOADED(4) && NX_NOTHING_LOADED_FROM(41); */
#endif
void nxmem_unload_report_take(NXMEM_UNTRUSTED NxmemUnloadReport *src, NxmemUnloadReport *out);

/*
 * status_code  What the query returned.
 * report       Taken; pre-filled with struct_size 48 and NXMEM_UNWRITTEN_COUNT before the call.
 *
 * In this order: REPORT_FAILED; REPORT_SHORT; the first of the report's counts that is not 0, in field order:
 * REPORT_UNWRITTEN or PLUGIN_HOLDS; the first of the host's, in field order: HOST_HOLDS.
 */
/*@ requires report_readable: \valid_read(report);
    requires host_readable: \valid_read(host);
    assigns \nothing;
    behavior failed:
      assumes failing: status_code != 0;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_REPORT_FAILED, 0, status_code, 0);
    behavior short_report:
      assumes answered: status_code == 0;
      assumes size: report->struct_size < 48;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_REPORT_SHORT, 0, report->struct_size, 48);
    behavior plugin_allocators:
      assumes judged: NX_REPORT_JUDGED(status_code, report);
      assumes nonzero: !NX_REPORT_ZERO_1(report);
      ensures refused: NX_PLUGIN_HOLDS(\result, 8, report->live_allocators);
    behavior plugin_allocations:
      assumes judged: NX_REPORT_JUDGED(status_code, report);
      assumes first: NX_REPORT_ZERO_1(report) && report->live_allocations != 0;
      ensures refused: NX_PLUGIN_HOLDS(\result, 16, report->live_allocations);
    behavior plugin_views:
      assumes judged: NX_REPORT_JUDGED(status_code, report);
      assumes first: NX_REPORT_ZERO_2(report) && report->live_views != 0;
      ensures refused: NX_PLUGIN_HOLDS(\result, 24, report->live_views);
    behavior plugin_capabilities:
      assumes judged: NX_REPORT_JUDGED(status_code, report);
      assumes first: NX_REPORT_ZERO_3(report) && report->live_capabilities != 0;
      ensures refused: NX_PLUGIN_HOLDS(\result, 32, report->live_capabilities);
    behavior plugin_releases:
      assumes judged: NX_REPORT_JUDGED(status_code, report);
      assumes first: NX_REPORT_ZERO_4(report) && report->queued_releases != 0;
      ensures refused: NX_PLUGIN_HOLDS(\result, 40, report->queued_releases);
    behavior host_allocators:
      assumes plugin_free: NX_REPORT_JUDGED(status_code, report) && NX_REPORT_ZERO(report);
      assumes nonzero: !NX_TALLY_ZERO_1(host);
      ensures refused: NX_HOST_HOLDS(\result, NXMEM_AXIS_ALLOCATORS, host->allocators);
    behavior host_allocations:
      assumes plugin_free: NX_REPORT_JUDGED(status_code, report) && NX_REPORT_ZERO(report);
      assumes first: NX_TALLY_ZERO_1(host) && host->allocations != 0;
      ensures refused: NX_HOST_HOLDS(\result, NXMEM_AXIS_ALLOCATIONS, host->allocations);
    behavior host_calls:
      assumes plugin_free: NX_REPORT_JUDGED(status_code, report) && NX_REPORT_ZERO(report);
      assumes first: NX_TALLY_ZERO_2(host) && host->calls_inside != 0;
      ensures refused: NX_HOST_HOLDS(\result, NXMEM_AXIS_CALLS_INSIDE, host->calls_inside);
    behavior host_slots:
      assumes plugin_free: NX_REPORT_JUDGED(status_code, report) && NX_REPORT_ZERO(report);
      assumes first: NX_TALLY_ZERO_3(host) && host->held_slots != 0;
      ensures refused: NX_HOST_HOLDS(\result, NXMEM_AXIS_HELD_SLOTS, host->held_slots);
    behavior host_debts:
      assumes plugin_free: NX_REPORT_JUDGED(status_code, report) && NX_REPORT_ZERO(report);
      assumes first: NX_TALLY_ZERO_4(host) && host->unpaid_debts != 0;
      ensures refused: NX_HOST_HOLDS(\result, NXMEM_AXIS_UNPAID_DEBTS, host->unpaid_debts);
    behavior free:
      assumes plugin_free: NX_REPORT_JUDGED(status_code, report) && NX_REPORT_ZERO(report);
      assumes host_free: NX_TALLY_ZERO(host);
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_judge_unload(uint32_t status_code, const NxmemUnloadReport *report, const nxmem_host_tally *host);

/* 1 where nxmem_judge_unload refused for a report that breaks the contract: short, or left unwritten. */
/*@ assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==> reason == NXMEM_REASON_REPORT_SHORT || reason == NXMEM_REASON_REPORT_UNWRITTEN; */
int nxmem_report_is_broken(uint32_t reason);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_UNLOAD_H */
