/*
 * unload.c: may this module be unmapped?
 * Attackers: failed, short, unwritten or lying reports.
 * Promise: one call, its arguments in the order of the prototype.
 */
#include "nxmem/unload.h"

#include "call.h"

static void run_nxmem_unload_report_take(core_call *call) {
  const NxmemUnloadReport *given = core_given_next(call, sizeof *given);
  nxmem_unload_report_take(given, core_room(call, sizeof(NxmemUnloadReport)));
}

static void run_nxmem_judge_unload(core_call *call) {
  const uint32_t status_code = fuzz_take_u32(&call->in);
  const NxmemUnloadReport *report = core_given_next(call, sizeof *report);
  nxmem_judge_unload(status_code, report, core_given_next(call, sizeof(nxmem_host_tally)));
}

static void run_nxmem_report_is_broken(core_call *call) { nxmem_report_is_broken(fuzz_take_u32(&call->in)); }

static const core_row rows[] = {CORE_ROW(nxmem_unload_report_take), CORE_ROW(nxmem_judge_unload),
                                CORE_ROW(nxmem_report_is_broken)};
CORE_TOPIC(unload);
