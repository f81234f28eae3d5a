/*
 * unload.h: may this module be unmapped?
 *
 * Attackers: a plugin that fails its report, shortens it, leaves it unwritten, or says zero while the host knows better.
 * Promise: yes only when the plugin's report and the host's own tallies are zero on every axis; otherwise the axis that forbids it.
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
  uint64_t allocators;    /* open */
  uint64_t allocations;   /* live or quarantined */
  uint64_t calls_inside;  /* host calls that are in the plugin now */
  uint64_t held_slots;    /* callback slots that a queued release can still name */
  uint64_t unpaid_debts;  /* objects the plugin created whose release could not be found */
} nxmem_host_tally;

typedef enum nxmem_host_axis {
  NXMEM_AXIS_ALLOCATORS = 1,
  NXMEM_AXIS_ALLOCATIONS = 2,
  NXMEM_AXIS_CALLS_INSIDE = 3,
  NXMEM_AXIS_HELD_SLOTS = 4,
  NXMEM_AXIS_UNPAID_DEBTS = 5
} nxmem_host_axis;

/* Copy a report that the plugin may still be writing, each field once. */
void nxmem_unload_report_take(NXMEM_UNTRUSTED NxmemUnloadReport *src, NxmemUnloadReport *out);

/*
 * status_code  What the query returned.
 * report       Taken; pre-filled with struct_size 48 and NXMEM_UNWRITTEN_COUNT before the call.
 *
 * In this order: REPORT_FAILED, REPORT_SHORT, REPORT_UNWRITTEN, PLUGIN_HOLDS, HOST_HOLDS; within one, in field order.
 */
nxmem_verdict nxmem_judge_unload(uint32_t status_code, const NxmemUnloadReport *report, const nxmem_host_tally *host);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_UNLOAD_H */
