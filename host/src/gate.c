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

nxmem_verdict nx_gate_ask(nx_module *module, nxmem_unload_info *info) {
  NxmemUnloadReport report;
  prefill(&report);
  const NxmemStatus status = module->image.query_unload(&report);
  NxmemStatus taken;
  info->plugin_status = nx_take_answer(&status, &taken);
  nxmem_unload_report_take(&report, &info->plugin);

  const nxmem_host_tally tally = {
      .allocators = atomic_load(&module->allocators),
      .allocations = nx_module_allocations(module),
      .calls_inside = atomic_load(&module->inside),
      .held_slots = 0,
      .unpaid_debts = atomic_load(&module->unpaid_debts),
  };
  info->host_allocators = tally.allocators;
  info->host_allocations = tally.allocations;
  info->host_calls_inside = tally.calls_inside;
  info->host_held_slots = tally.held_slots;
  info->host_unpaid_debts = tally.unpaid_debts;
  const nxmem_verdict v = nxmem_judge_unload(info->plugin_status, &info->plugin, &tally);
  info->reason = v.reason;
  info->axis = v.field;
  return v;
}
