/*
 * fault_modules.c: modules that do something while they are loaded, or that stay behind.
 *
 * Attackers: these rows; `at_load` and `at_unload` run inside dlopen and dlclose.
 * Promise: what a row does it does once, and counts it; the exports are honest.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fault_rows.h"

static void crash(void) { raise(SIGSEGV); }
static void end_process(void) { _exit(0); } /* exit() would run the destructors of what is only half loaded */
static void hang(void) {
  for (;;) pause();
}

/* ---- calls-host-at-load: a host of its own, and this very file once more ----------------------------------------- */

/*
 * The host's functions, where this process has them; their types as a caller without its header knows them. A handle is
 * one 64-bit number in a structure.
 */
typedef struct handle {
  uint64_t id;
} handle;
typedef int (*create_function)(const void *options, handle *out, void *error);
typedef int (*destroy_function)(handle host, void *error);
typedef int (*open_function)(handle host, const char *path, handle *out, void *error);

static int resolve(const char *name, void *function_out) {
  void *symbol = dlsym(RTLD_DEFAULT, name);
  memcpy(function_out, &symbol, sizeof symbol);
  return symbol != NULL;
}

static void call_host(void) {
  create_function create;
  destroy_function destroy;
  open_function open;
  Dl_info self;
  handle host = {0u}, plugin = {0u};
  if (!resolve("nxmem_host_create", &create) || !resolve("nxmem_host_destroy", &destroy) ||
      !resolve("nxmem_plugin_open", &open) || dladdr(&nx_host_device, &self) == 0)
    return;
  nx_count(NX_PROBE_HOST_CALLS);
  if (create(NULL, &host, NULL) != 0) return;
  nx_count(NX_PROBE_HOST_CALLS);
  nx_note(NX_PROBE_HOST_RESULT, (uint64_t)(int64_t)open(host, self.dli_fname, &plugin, NULL));
  nx_count(NX_PROBE_HOST_CALLS);
  (void)destroy(host, NULL);
}

/* ---- lingering-thread: it outlives the report that says nothing is left ------------------------------------------- */

/* It is asleep in the kernel before the load returns: awake, it would run into pages that are gone when the module goes. */
static uint32_t arriving, resting;

static void *linger(void *argument) {
  (void)argument;
  nx_count(NX_PROBE_THREADS_INSIDE);
  for (;;) syscall(SYS_futex, &arriving, FUTEX_WAIT_PRIVATE, 0u, NULL, NULL, 0u);
  return NULL;
}

static void start_thread(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, linger, NULL) != 0) return;
  pthread_detach(thread);
  /* Moved from one word to the other: only a sleeper is. */
  while (syscall(SYS_futex, &arriving, FUTEX_CMP_REQUEUE_PRIVATE, 0, 1ul, &resting, 0u) != 1) sched_yield();
}

static NxmemStatus enumerate_crashing(const NxmemAllocatorFactoryVtable **entries, uint64_t *count) {
  (void)entries, (void)count;
  crash();
  return nx_ok();
}
static NxmemStatus enumerate_hanging(const NxmemAllocatorFactoryVtable **entries, uint64_t *count) {
  (void)entries, (void)count;
  hang();
  return nx_ok();
}
static NxmemStatus report_crashing(NxmemUnloadReport *report_out) {
  (void)report_out;
  crash();
  return nx_ok();
}

static const nx_fault rows[] = {
    {.name = "calls-host-at-load", .at_load = call_host},
    {.name = "lingering-thread", .at_load = start_thread},
    {.name = "crashes-at-load", .at_load = crash},
    {.name = "exits-at-load", .at_load = end_process},
    {.name = "hangs-at-load", .at_load = hang},
    {.name = "crashes-at-unload", .at_unload = crash},
    {.name = "crashes-in-enumerate", .edit_entries = enumerate_crashing},
    {.name = "hangs-in-enumerate", .edit_entries = enumerate_hanging},
    {.name = "crashes-in-report", .report = report_crashing},
};
const nx_fault_group nx_module_faults = NX_GROUP(rows);
