/*
 * plugin.c: load, negotiate, enumerate, report: as an honest host does it.
 * Attackers: the plugin.
 * Promise: whatever fails here ends the trial as "could not tell".
 */
#include "conform/plugin.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "conform/expect.h"
#include "nxmem.h"
#include "nxmem/negotiate.h"
#include "nxmem/unload.h"

#define ALL_CAPS                                                                                             \
  (NXMEM_CAP_ALLOCATOR | NXMEM_CAP_VIRTUAL_BACKING | NXMEM_CAP_SHARED_MAPPING | NXMEM_CAP_DEFERRED_RELEASE | \
   NXMEM_CAP_STRUCTURED_RELEASE)

/* POSIX lets a data pointer from dlsym() become a function pointer; ISO C has no cast for it. */
static void resolve(const nx_trial *trial, const char *name, void *slot) {
  void *found = dlsym(trial->module, name);
  NX_GIVEN(found, "%s is not exported", name);
  memcpy(slot, &found, sizeof found);
}

void nx_plugin_load(nx_trial *trial) {
  nx_enter("dlopen");
  trial->module = dlopen(trial->path, RTLD_NOW | RTLD_LOCAL);
  NX_GIVEN(trial->module, "not loaded: %s", dlerror());
  resolve(trial, "NxmemNegotiate", &trial->negotiate);
  resolve(trial, "NxmemCreateAllocatorFactories", &trial->factories);
  resolve(trial, "NxmemQueryUnloadReadiness", &trial->unload);
}

NxmemNegotiateRequest nx_plugin_offer(void) {
  return (NxmemNegotiateRequest){
      NXMEM_REQUEST_BYTES, 0, {NXMEM_ABI_VERSION_MAJOR, NXMEM_ABI_VERSION_MAJOR, 0, NXMEM_ABI_VERSION_MINOR}, ALL_CAPS};
}

NxmemNegotiateResponse nx_plugin_room(void) {
  NxmemNegotiateResponse room = {.struct_size = NXMEM_RESPONSE_BYTES};
  return room;
}

void nx_plugin_negotiate(nx_trial *trial) {
  nx_plugin_load(trial);
  const NxmemNegotiateRequest offer = nx_plugin_offer();
  NxmemNegotiateResponse answer = nx_plugin_room();
  nx_enter("NxmemNegotiate");
  NxmemStatus status = trial->negotiate(&offer, &answer);
  nx_given_ok(status, "negotiation");
  trial->minor = answer.agreed_minor < NXMEM_ABI_VERSION_MINOR ? answer.agreed_minor : NXMEM_ABI_VERSION_MINOR;
  trial->caps = answer.capability_flags & ALL_CAPS;
}

void nx_plugin_enumerate(nx_trial *trial) {
  uint64_t count = UINT64_MAX;
  memset(trial->entries, 0, sizeof trial->entries);
  nx_enter("NxmemCreateAllocatorFactories");
  NxmemStatus status = trial->factories(trial->entries, NX_FACTORIES, &count);
  nx_given_ok(status, "NxmemCreateAllocatorFactories");
  NX_GIVEN(count != UINT64_MAX, "the count of factories was not written");
  trial->entry_count = count < NX_FACTORIES ? count : NX_FACTORIES;
}

void nx_plugin_ready(nx_trial *trial) {
  nx_plugin_negotiate(trial);
  nx_plugin_enumerate(trial);
}

void nx_plugin_release_factories(nx_trial *trial) {
  for (uint64_t i = 0; i < trial->entry_count; i++) {
    NxmemAllocatorFactoryVtable table;
    uint32_t declared;
    if (nx_read_factory_table(trial->entries[i], &table, &declared).reason != NXMEM_REASON_NONE) continue;
    nx_enter("factory %" PRIu64 ": release", i);
    if (table.release) table.release(table.ctx);
  }
  trial->entry_count = 0;
}

/* ---- The unload report ------------------------------------------------------------------------------------------ */

typedef struct axis {
  const char *name;
  size_t offset;
} axis;

static const axis AXES[] = {{"live_allocators", offsetof(NxmemUnloadReport, live_allocators)},
                            {"live_allocations", offsetof(NxmemUnloadReport, live_allocations)},
                            {"live_views", offsetof(NxmemUnloadReport, live_views)},
                            {"live_capabilities", offsetof(NxmemUnloadReport, live_capabilities)},
                            {"queued_releases", offsetof(NxmemUnloadReport, queued_releases)}};

enum { AXIS_COUNT = sizeof AXES / sizeof AXES[0] };

static uint64_t count_at(const NxmemUnloadReport *report, size_t offset) {
  uint64_t count;
  memcpy(&count, (const uint8_t *)report + offset, sizeof count);
  return count;
}

NxmemUnloadReport nx_plugin_raw_report(nx_trial *trial) {
  NxmemUnloadReport report;
  memset(&report, 0xFF, sizeof report);
  report.struct_size = NXMEM_UNLOAD_REPORT_BYTES;
  report.reserved = 0;
  nx_enter("NxmemQueryUnloadReadiness");
  NxmemStatus status = trial->unload(&report);
  nx_given_ok(status, "NxmemQueryUnloadReadiness");
  return report;
}

NxmemUnloadReport nx_plugin_report(nx_trial *trial) {
  NxmemUnloadReport report = nx_plugin_raw_report(trial);
  for (size_t i = 0; i < AXIS_COUNT; i++)
    NX_GIVEN(count_at(&report, AXES[i].offset) != UINT64_MAX, "%s of the unload report was left unwritten",
             AXES[i].name);
  return report;
}

void nx_same_counts(nx_trial *trial, const NxmemUnloadReport *before, const char *after) {
  NxmemUnloadReport now = nx_plugin_report(trial);
  for (size_t i = 0; i < AXIS_COUNT; i++) {
    uint64_t was = count_at(before, AXES[i].offset), is = count_at(&now, AXES[i].offset);
    NX_EXPECT(was == is, "%s went from %" PRIu64 " to %" PRIu64 " with %s", AXES[i].name, was, is, after);
  }
}

uint64_t nx_all_counts(const NxmemUnloadReport *report) {
  return report->live_allocators | report->live_allocations | report->live_views | report->live_capabilities |
         report->queued_releases;
}

/* ---- The mechanisms --------------------------------------------------------------------------------------------- */

/* A factory whose name is unfit is still one whose other rules can be tried. */
static void label(const NxmemAllocatorFactoryVtable *table, uint32_t index, nx_target *out) {
  uint8_t name[256];
  *out = (nx_target){.device = table->device, .index = index};
  if (nx_read_name(table->name, name).reason == NXMEM_REASON_NONE)
    memcpy(out->name, name, sizeof out->name);
  else
    snprintf(out->name, sizeof out->name, "#%" PRIu32, index);
}

void nx_plugin_list_targets(nx_trial *trial, const void *with) {
  (void)with;
  nx_plugin_ready(trial);
  uint32_t count = 0;
  for (uint32_t i = 0; i < trial->entry_count; i++) {
    NxmemAllocatorFactoryVtable table;
    uint32_t declared;
    if (nx_read_factory_table(trial->entries[i], &table, &declared).reason != NXMEM_REASON_NONE) continue;
    if (i && trial->entries[i] == trial->entries[0]) continue;
    if (table.open_allocator) label(&table, i, &trial->board->targets[count++]);
  }
  trial->board->target_count = count;
}
