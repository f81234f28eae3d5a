/*
 * gate.c: may this module go?
 *
 * Attackers: a plugin that fails, shortens, forgets or falsifies its report.
 * Promise: the plugin is always asked, the host's own books always count too, and the refusal names the axis.
 */
#include "gate.h"

#include <string.h>

#include "nxmem/outcome.h"
#include "nxmem/unload.h"

uint64_t nx_module_allocations(nx_module *module) {
  uint64_t n = atomic_load(&module->retained);
  const uint32_t count = atomic_load(&nx_allocators.count);
  for (uint32_t i = 0; i < count; i++) {
    nx_allocator *a = (nx_allocator *)(void *)nx_table_at(&nx_allocators, i);
    const uint32_t state = nxmem_word_state(atomic_load(&a->slot.word));
    if (state != NXMEM_SLOT_LIVE && state != NXMEM_SLOT_RELEASING) continue;
    if (atomic_load_explicit(&a->module, memory_order_relaxed) != module->slot.self) continue;
    n += atomic_load(&a->live) + atomic_load(&a->quarantined);
  }
  return n;
}

static void prefill(NxmemUnloadReport *report) {
  memset(report, 0, sizeof *report);
  report->struct_size = sizeof *report;
  report->live_allocators = NXMEM_UNWRITTEN_COUNT;
  report->live_allocations = NXMEM_UNWRITTEN_COUNT;
  report->live_views = NXMEM_UNWRITTEN_COUNT;
  report->live_capabilities = NXMEM_UNWRITTEN_COUNT;
  report->queued_releases = NXMEM_UNWRITTEN_COUNT;
}

/*
 * Calls inside first: once the gate is shut and nobody is inside, the others can only fall. A call that is seen inside may still add to them before
 * it leaves; read the other way round, both could be missed.
 */
static nxmem_host_tally take_tally(nx_module *module) {
  nxmem_host_tally tally;
  tally.calls_inside = atomic_load(&module->inside);
  tally.allocators = atomic_load(&module->allocators);
  tally.allocations = nx_module_allocations(module); /* after allocators: a closing one leaves its quarantine with the module first */
  tally.unpaid_debts = atomic_load(&module->unpaid_debts);
  tally.held_slots = 0;
  return tally;
}

static void note_tally(const nxmem_host_tally *tally, nxmem_unload_info *info) {
  info->host_allocators = tally->allocators;
  info->host_allocations = tally->allocations;
  info->host_calls_inside = tally->calls_inside;
  info->host_held_slots = tally->held_slots;
  info->host_unpaid_debts = tally->unpaid_debts;
}

/*
 * The host's tallies first, then the plugin: with nobody inside once the gate is shut, nothing can begin in the plugin any more that its
 * report would miss. The other way round a call could start work after the report and be gone before the count
 * (proofs/models/unload_gate.pml, ASK_BEFORE_COUNT).
 */
nxmem_verdict nx_gate_ask(nx_module *module, nxmem_unload_info *info) {
  const nxmem_host_tally tally = take_tally(module); /* U2 */
  note_tally(&tally, info);
  NxmemUnloadReport report;
  prefill(&report);
  const NxmemStatus answer = module->image.query_unload(&report); /* U3 */
  NxmemStatus status;
  info->plugin_status = nx_take_answer(&answer, &status);
  nxmem_unload_report_take(&report, &info->plugin);
  const nxmem_verdict v = nxmem_judge_unload(info->plugin_status, &info->plugin, &tally);
  info->reason = v.reason;
  info->axis = v.field;
  return v;
}
