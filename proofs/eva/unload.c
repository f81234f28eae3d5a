/*
 * unload.c: Eva drivers of nxmem/unload.h: each entry point once for everything that its contract allows.
 *
 * Attackers: a plugin whose report holds anything.
 * Promise: any report, any tally.
 */
#include "nxmem/unload.h"

#include "support.h"

void eva_nxmem_unload_report_take(void) {
  NxmemUnloadReport report;
  NxmemUnloadReport out;
  eva_fill(&report, sizeof(report));
  nxmem_unload_report_take(&report, &out);
}

void eva_nxmem_judge_unload(void) {
  NxmemUnloadReport report;
  nxmem_host_tally host;
  eva_fill(&report, sizeof(report));
  eva_fill(&host, sizeof(host));
  (void)nxmem_judge_unload(any32, &report, &host);
}

void eva_nxmem_report_is_broken(void) { (void)nxmem_report_is_broken(any32); }
