/*
 * run_unload.c: the gate: both tallies while blocks are live and at the end, the unload attempt, the host's books.
 * Attackers: a plugin that reports wrong numbers or stays mapped.
 * Promise: "gone" is said only after a look.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crash.h"
#include "exit_codes.h"
#include "run.h"
#include "words.h"

/* ---- Tallies ----------------------------------------------------------------------------------------------------- */

typedef struct tally {
  const char *key;
  uint64_t count;
} tally;

static void add_tallies(nx_session *session, json_t *row, const tally *tallies, size_t count) {
  for (size_t i = 0; i < count; i++) nx_set_number(row, tallies[i].key, tallies[i].count);
  nx_report_add(&session->report, row);
}

static int is_any(const tally *tallies, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (tallies[i].count) return 1;
  }
  return 0;
}

static void show_plugin_tally(nx_session *session, const nxmem_unload_info *info) {
  const tally tallies[] = {{"allocators", info->plugin.live_allocators},
                           {"allocations", info->plugin.live_allocations},
                           {"views", info->plugin.live_views},
                           {"capabilities", info->plugin.live_capabilities},
                           {"queued_releases", info->plugin.queued_releases}};
  enum { COUNT = sizeof tallies / sizeof tallies[0] };
  int bad = info->plugin_status != NXMEM_STATUS_OK || is_any(tallies, COUNT);
  json_t *row = nx_step("plugin_holds", bad ? NX_ROW_NOTE : NX_ROW_OK, NULL);
  nx_set_text(row, "plugin_status", nxmem_status_name(info->plugin_status));
  add_tallies(session, row, tallies, COUNT);
}

static void show_host_tally(nx_session *session, const nxmem_unload_info *info) {
  const tally tallies[] = {{"allocators", info->host_allocators},
                           {"allocations", info->host_allocations},
                           {"calls_inside", info->host_calls_inside},
                           {"held_slots", info->host_held_slots},
                           {"unpaid_debts", info->host_unpaid_debts}};
  enum { COUNT = sizeof tallies / sizeof tallies[0] };
  json_t *row = nx_step("host_holds", is_any(tallies, COUNT) ? NX_ROW_NOTE : NX_ROW_OK, NULL);
  add_tallies(session, row, tallies, COUNT);
}

/* ---- With blocks live -------------------------------------------------------------------------------------------- */

/* The plugin counts what the host holds: at least this allocator and its blocks. Quarantine it may count or not. */
static int counts_fewer(const nxmem_unload_info *info, uint64_t live) {
  return info->plugin.live_allocators < info->host_allocators || info->plugin.live_allocations < live;
}

static void show_gate(nx_session *session, const nxmem_mechanism_info *mechanism, const nxmem_unload_info *info,
                      uint64_t live) {
  const tally tallies[] = {{"plugin_allocators", info->plugin.live_allocators},
                           {"plugin_allocations", info->plugin.live_allocations},
                           {"host_allocators", info->host_allocators},
                           {"host_allocations", info->host_allocations}};
  int failed = info->plugin_status != NXMEM_STATUS_OK, fewer = !failed && counts_fewer(info, live);
  json_t *row = nx_step("gate", failed || fewer ? NX_ROW_WARNING : NX_ROW_OK, mechanism);
  nx_set_text(row, "plugin_status", nxmem_status_name(info->plugin_status));
  if (failed) nx_set_text(row, "message", "the plugin's unload query fails while its blocks are live");
  if (fewer) nx_set_text(row, "message", "the plugin reports fewer than it has handed out: count in allocate and open");
  if (failed || fewer) nx_session_raise(session, NX_EXIT_FINDINGS);
  add_tallies(session, row, tallies, sizeof tallies / sizeof tallies[0]);
}

/* The blocks lead nowhere from here on: nothing of this session may be touched again. */
_Noreturn static void host_has_failed(nx_session *session) {
  nx_report_problem(&session->report, NULL,
                    "the host unloaded a module whose blocks are live: a fault of nxmem itself, report it");
  nx_set_text(session->report.root, "result", "refused");
  exit(nx_report_end(&session->report, NX_EXIT_FINDINGS));
}

void nx_run_gate(nx_session *session, const nxmem_mechanism_info *mechanism, uint64_t live) {
  nxmem_unload_info info;
  nxmem_error error;
  nx_crash_entering("gate", mechanism->name);
  nxmem_result result = nxmem_plugin_try_unload(session->plugin, &info, &error);
  if (result == NXMEM_OK) host_has_failed(session);
  if (result == NXMEM_ERR_BUSY) {
    show_gate(session, mechanism, &info, live);
  } else {
    nx_step_refused(session, nx_step("gate", NX_ROW_REFUSED, mechanism), &error);
  }
}

/* ---- Unload ------------------------------------------------------------------------------------------------------ */

static void show_unloaded(nx_session *session, const nxmem_unload_info *info) {
  session->unloaded = info->unmapped;
  json_t *row = nx_step("unload", info->unmapped ? NX_ROW_OK : NX_ROW_WARNING, NULL);
  nx_set_flag(row, "unmapped", info->unmapped);
  if (!info->unmapped) {
    nx_set_text(row, "message",
                "the loader keeps the module mapped; 'nxmem inspect' shows why (nodelete, unique symbols, or a "
                "thread-local destructor that has not run)");
    nx_session_raise(session, NX_EXIT_FINDINGS);
  }
  nx_report_add(&session->report, row);
}

/* The gate is shut: the handle is given up and the module stays mapped for good. */
static void give_up(nx_session *session) {
  nxmem_unload_info info;
  nxmem_error error;
  if (nxmem_plugin_destroy(session->plugin, &info, &error) == NXMEM_OK) {
    session->unloaded = info.unmapped;
    json_t *row = nx_step("give_up", NX_ROW_NOTE, NULL);
    nx_set_text(row, "value", "the module stays mapped until this process ends");
    nx_report_add(&session->report, row);
    return;
  }
  nx_step_refused(session, nx_step("give_up", NX_ROW_REFUSED, NULL), &error);
}

void nx_run_unload(nx_session *session) {
  nxmem_unload_info info;
  nxmem_error error;
  memset(&info, 0, sizeof info);
  nx_crash_entering("unload", NULL);
  nxmem_result result = nxmem_plugin_try_unload(session->plugin, &info, &error);
  if (result == NXMEM_OK || result == NXMEM_ERR_BUSY) {
    show_plugin_tally(session, &info);
    show_host_tally(session, &info);
  }
  if (result == NXMEM_OK) {
    show_unloaded(session, &info);
    return;
  }
  json_t *row = nx_step("unload", NX_ROW_REFUSED, NULL);
  nx_set_flag(row, "unmapped", 0);
  nx_step_refused(session, row, &error);
  give_up(session);
}

/* ---- Books ------------------------------------------------------------------------------------------------------- */

void nx_run_books(nx_session *session) {
  nxmem_host_counts counts;
  nxmem_error error;
  if (nxmem_host_count(session->host, &counts, &error) != NXMEM_OK) {
    nx_step_refused(session, nx_step("books", NX_ROW_REFUSED, NULL), &error);
    return;
  }
  const tally tallies[] = {{"live_allocations", counts.live_allocations},
                           {"quarantined", counts.quarantined},
                           {"contract_violations", counts.contract_violations},
                           {"refused_callbacks", counts.refused_callbacks},
                           {"unpaid_debts", counts.unpaid_debts},
                           {"forced_leaks", counts.forced_leaks}};
  enum { COUNT = sizeof tallies / sizeof tallies[0] };
  int bad = is_any(tallies, COUNT);
  if (bad) nx_session_raise(session, NX_EXIT_FINDINGS);
  add_tallies(session, nx_step("books", bad ? NX_ROW_WARNING : NX_ROW_OK, NULL), tallies, COUNT);
}
