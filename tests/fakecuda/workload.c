/*
 * workload.c: loads cudavmm behind the host, does everything twice, unloads; the driver fails once, as FAKECUDA_SCHEDULE says.
 *
 * Usage: fakecuda_workload PLUGIN. Prints one line: the kind of outcome, and figures. Exit: 0 every promise holds, 1 one is broken (named on standard error),
 * 2 usage, 3 it could not run.
 *
 * Attackers played: a driver that fails once, at any call, with any result.
 * Promise: unloading is allowed exactly when the driver holds nothing of the plugin's, or the device is lost, or the driver has ended.
 */
#define _GNU_SOURCE
#include "workload.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int nx_step(nx_work *work, const char *what, nxmem_result result, const nxmem_error *error) {
  if (result == NXMEM_OK) return 1;
  work->refused++;
  work->quarantined += result == NXMEM_ERR_QUARANTINED ||
                       (result == NXMEM_ERR_PLUGIN && error->plugin_status == NXMEM_STATUS_RELEASE_QUARANTINED);
  fprintf(stderr, "%s: %s\n", what, error->message);
  return 0;
}

void nx_broken(nx_work *work, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "broken: ");
  vfprintf(stderr, format, arguments);
  fprintf(stderr, "\n");
  va_end(arguments);
  work->broken = 1;
}

/* The plugin may know of a loss that is none to the driver: an event that failed. */
int nx_serves(const nx_work *work) {
  fakecuda_counts driver;
  NxmemVmmStats stats;
  work->count(&driver);
  if (driver.lost_devices || driver.ended) return 0;
  return work->told_lost == 0 && (!nx_figures(work, &stats) || !stats.device_lost);
}

/* The simulator is there before the plugin looks for it, and stays. */
static int find_driver(nx_work *work) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  void *count = driver == NULL ? NULL : dlsym(driver, "fakecuda_count");
  void *mapped = driver == NULL ? NULL : dlsym(driver, "fakecuda_mapped");
  if (count == NULL || mapped == NULL) return 0;
  memcpy(&work->count, &count, sizeof count);
  memcpy(&work->mapped, &mapped, sizeof mapped);
  return 1;
}

static int load(nx_work *work, const char *path) {
  nxmem_error error;
  void *statistics = NULL;
  if (!nx_step(work, "load", nxmem_plugin_open(work->host, path, &work->plugin, &error), &error)) return 0;
  if (nxmem_plugin_symbol(work->plugin, "NxmemVmmStatistics", &statistics, &error) != NXMEM_OK) {
    nx_broken(work, "%s", error.message);
    return 0;
  }
  memcpy(&work->statistics, &statistics, sizeof statistics);
  return 1;
}

static int open_mechanism(nx_work *work) {
  nxmem_error error;
  const NxmemDeviceId device = {NXMEM_TIER_DEVICE, 0};
  const nxmem_open_options options = {.mechanism = "cuda-vmm-shared", .device = &device};
  nxmem_allocator_info info;
  if (!nx_step(work, "open", nxmem_allocator_open(work->plugin, &options, &work->allocator, &error), &error)) return 0;
  if (nxmem_allocator_get_info(work->allocator, &info, &error) == NXMEM_OK) work->flags = info.effective_flags;
  return 1;
}

static void close_mechanism(nx_work *work) {
  nxmem_error error;
  for (int i = 0; i < 2; i++) {
    nxmem_result result = nxmem_allocator_close(work->allocator, NXMEM_CLOSE_RELEASE_LIVE, &error);
    if (nx_step(work, "close", result, &error)) return;
  }
  nx_broken(work, "closed twice and still open");
}

static void use_once(nx_work *work) {
  nx_run_blocks(work);
  nx_run_commits(work);
  if (work->flags & NXMEM_CAP_SHARED_MAPPING) nx_run_sharing(work);
  if (work->flags & NXMEM_CAP_DEFERRED_RELEASE) nx_run_deferred(work);
}

static uint64_t fired(const nx_work *work) {
  fakecuda_counts driver;
  work->count(&driver);
  return driver.faults_fired;
}

/* Behind the fault nothing is refused, and nothing stays that was not quarantined. */
static void judge_round(nx_work *work, uint64_t refused_before) {
  nxmem_allocator_info info;
  nxmem_error error;
  if (work->refused != refused_before) nx_broken(work, "refused behind the fault");
  if (nxmem_allocator_get_info(work->allocator, &info, &error) == NXMEM_OK && info.live_allocations != 0) {
    nx_broken(work, "%" PRIu64 " allocations stay live", info.live_allocations);
  }
}

/* At least twice, and until a round passes in which no fault fired. */
static void use_until_calm(nx_work *work) {
  use_once(work);
  for (uint64_t before = fired(work), refused = work->refused;; before = fired(work), refused = work->refused) {
    int served = nx_serves(work);
    use_once(work);
    if (fired(work) != before) continue;
    if (served) judge_round(work, refused);
    return;
  }
}

static void use_plugin(nx_work *work) {
  int open = open_mechanism(work) || open_mechanism(work);
  if (!open) {
    if (nx_serves(work)) nx_broken(work, "an open that failed once fails again");
    return;
  }
  use_until_calm(work);
  work->told_lost = !nx_serves(work);
  close_mechanism(work);
}

static int holds(const fakecuda_counts *driver) {
  return driver->reservations || driver->handles || driver->mappings || driver->events || driver->retained;
}

static int reports(const nxmem_unload_info *info) {
  const NxmemUnloadReport *plugin = &info->plugin;
  return plugin->live_allocators || plugin->live_allocations || plugin->live_views || plugin->live_capabilities ||
         plugin->queued_releases;
}

/* The plugin reports something exactly when the driver holds something of it; a host keeps what it was told is quarantined. */
static void judge_unload(nx_work *work, int unloaded, const nxmem_unload_info *info) {
  fakecuda_counts driver;
  work->count(&driver);
  int gone = driver.lost_devices || driver.ended || work->told_lost;
  if (unloaded && !gone && holds(&driver)) nx_broken(work, "unloaded, and the driver still holds something");
  if (unloaded && !info->unmapped) nx_broken(work, "unloaded, and still mapped");
  if (unloaded) return;
  if (gone && reports(info)) nx_broken(work, "the device is gone, and the plugin still reports something");
  if (!gone && reports(info) && !holds(&driver)) nx_broken(work, "reported, and the driver holds nothing");
  if (!gone && !reports(info) && holds(&driver)) nx_broken(work, "the driver holds something that is not reported");
  if (!reports(info) && info->host_allocations == 0) nx_broken(work, "nothing is left, and unloading is refused");
}

/* What the driver will not take back at the first asking it may take at the second. */
static int unload(nx_work *work) {
  nxmem_error error;
  for (int i = 0; i < 2; i++) {
    nxmem_unload_info info = {0};
    nxmem_result result = nxmem_plugin_try_unload(work->plugin, &info, &error);
    int unloaded = nx_step(work, "unload", result, &error);
    judge_unload(work, unloaded, &info);
    if (unloaded) return 1;
  }
  return 0;
}

static void judge_driver(nx_work *work, fakecuda_counts *driver) {
  work->count(driver);
  if (driver->rule_refusals) nx_broken(work, "%" PRIu64 " calls broke a rule of the driver", driver->rule_refusals);
  if (driver->calls_after_loss)
    nx_broken(work, "%" PRIu64 " destructive calls behind a loss", driver->calls_after_loss);
  if (driver->calls_after_end) nx_broken(work, "%" PRIu64 " calls behind the driver's end", driver->calls_after_end);
  if (driver->context_depth && !driver->ended) nx_broken(work, "a context stays current");
}

static const char *kind_of(const nx_work *work, const fakecuda_counts *driver, int unloaded) {
  if (work->broken) return "broken";
  if (driver->ended) return "ended";
  if (driver->lost_devices || work->told_lost) return "lost";
  if (!unloaded) return "kept"; /* something of the driver's stays, counted, and the module with it */
  if (work->quarantined) return "quarantined";
  return work->refused ? "refused" : "unnoticed";
}

int main(int count, char **arguments) {
  nx_work work = {0};
  nxmem_error error;
  fakecuda_counts driver;
  if (count != 2) return 2;
  if (!find_driver(&work) || nxmem_host_create(NULL, &work.host, &error) != NXMEM_OK) return 3;
  int loaded = load(&work, arguments[1]) || load(&work, arguments[1]);
  if (!loaded) nx_broken(&work, "a load that failed once fails again");
  if (loaded) use_plugin(&work);
  int unloaded = loaded && unload(&work);
  judge_driver(&work, &driver);
  printf("%s refused=%" PRIu64 " quarantined=%" PRIu64 " fired=%" PRIu64 " calls=%" PRIu64 "\n",
         kind_of(&work, &driver, unloaded), work.refused, work.quarantined, driver.faults_fired, driver.calls);
  return work.broken;
}
