/*
 * gate.c: may this module go?
 *
 * Attackers: a plugin that fails, shortens, forgets or falsifies its report.
 * Promise: the plugin is always asked, the host's own books always count too, and the refusal names the axis.
 */
#include "gate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "books.h"
#include "deferred.h"
#include "error.h"
#include "nxmem/count.h"
#include "nxmem/outcome.h"
#include "nxmem/unload.h"
#include "violations.h"

uint64_t nx_module_allocations(nx_module *module) {
  uint64_t n = atomic_load(&module->retained);
  const uint32_t count = atomic_load(&nx_allocators.count);
  for (uint32_t i = 0; i < count; i++) {
    nx_allocator *a = (nx_allocator *)(void *)nx_table_at(&nx_allocators, i);
    if (!nxmem_is_open(atomic_load(&a->slot.word)) && !nx_is_held(a)) continue;
    if (atomic_load_explicit(&a->module, memory_order_relaxed) != module->slot.self) continue;
    n = nxmem_count_add(n, nx_books_live(a));
    n = nxmem_count_add(n, atomic_load(&a->quarantined));
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
 * Calls inside first: once the gate is shut and nobody is inside, the others can only fall. A call that is seen inside
 * may still add to them before it leaves; read the other way round, both could be missed.
 */
static nxmem_host_tally take_tally(nx_module *module) {
  nxmem_host_tally tally;
  tally.calls_inside = atomic_load(&module->inside);
  /*
   * In this order: one that closes is held before it is no allocator any more, and leaves its quarantine with the
   * module before it is no longer held.
   */
  tally.allocators = atomic_load(&module->allocators);
  tally.held_slots = atomic_load(&module->held);
  tally.allocations = nx_module_allocations(module);
  tally.unpaid_debts = atomic_load(&module->unpaid_debts);
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
 * The host's tallies first, then the plugin: with nobody inside once the gate is shut, nothing can begin in the plugin
 * any more that its report would miss. The other way round a call could start work after the report and be gone before
 * the count (proofs/models/unload_gate.pml, ASK_BEFORE_COUNT).
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
  if (nxmem_report_is_broken(v.reason)) nx_violation_of_host(nx_host_of(module->host), 0, v);
  info->reason = v.reason;
  info->axis = v.field;
  return v;
}

/* ---- What a shut gate says --------------------------------------------------------------------------------------- */

typedef struct tally_word {
  const char *name;
  uint64_t count;
} tally_word;

/* "3 allocations, 1 views", or "nothing". */
static void tally_text(const tally_word *words, size_t count, char *out, size_t room) {
  size_t used = 0;
  (void)snprintf(out, room, "nothing");
  for (size_t i = 0; i < count && used < room; i++) {
    if (words[i].count == 0) continue;
    char number[24] = "unwritten";
    if (words[i].count != NXMEM_UNWRITTEN_COUNT) (void)snprintf(number, sizeof number, "%" PRIu64, words[i].count);
    const int n = snprintf(out + used, room - used, "%s%s %s", used == 0 ? "" : ", ", number, words[i].name);
    if (n > 0) used += (size_t)n;
  }
}

static int host_holds_nothing(const nxmem_unload_info *info) {
  return (info->host_allocators | info->host_allocations | info->host_calls_inside | info->host_held_slots |
          info->host_unpaid_debts) == 0;
}

/* With no allocator open, the allocations that are left are quarantined. */
static int host_holds_what_stays(const nxmem_unload_info *info) {
  return (info->host_allocators | info->host_calls_inside | info->host_held_slots) == 0 &&
         (info->host_allocations | info->host_unpaid_debts) != 0;
}

static const char *advice_for(nxmem_verdict v, const nxmem_unload_info *info) {
  if (nxmem_report_is_broken(v.reason)) return "the plugin's report breaks the contract: report it to its author";
  if (v.reason == NXMEM_REASON_PLUGIN_HOLDS && v.found > INT64_MAX)
    return "the plugin counted below zero: report it to its author";
  if (host_holds_what_stays(info))
    return "what is quarantined or cannot be given back keeps the module mapped for good: destroy the handle";
  if (v.reason == NXMEM_REASON_PLUGIN_HOLDS && host_holds_nothing(info))
    return "the host has given all back: the plugin must count down";
  return NULL;
}

nxmem_result nx_gate_refuse(const nx_module *module, const nxmem_unload_info *info, nxmem_verdict verdict,
                            nxmem_error *error) {
  const tally_word plugin[] = {{"allocators", info->plugin.live_allocators},
                               {"allocations", info->plugin.live_allocations},
                               {"views", info->plugin.live_views},
                               {"capabilities", info->plugin.live_capabilities},
                               {"queued releases", info->plugin.queued_releases}};
  const tally_word host[] = {{"allocators", info->host_allocators},
                             {"allocations", info->host_allocations},
                             {"calls inside", info->host_calls_inside},
                             {"callback slots", info->host_held_slots},
                             {"unpaid debts", info->host_unpaid_debts}};
  enum { AXES = sizeof plugin / sizeof plugin[0], TALLY_TEXT = 192 };
  char theirs[TALLY_TEXT], ours[TALLY_TEXT];
  tally_text(plugin, AXES, theirs, sizeof theirs);
  tally_text(host, AXES, ours, sizeof ours);
  return nx_fail_in(error, NXMEM_ERR_BUSY, verdict, (nx_context){NX_RECORD_UNLOAD, advice_for(verdict, info)},
                    "unload %s (plugin: %s; host: %s)", module->image.path, theirs, ours);
}
