/*
 * plugin.c: loading and driving a plugin without the host library.
 *
 * Attackers played: none here.
 * Promise: every helper that says "must succeed" asserts it.
 */
#define _GNU_SOURCE
#include "plugin.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

const subject honest[2] = {
    {"libnxmem_minimal.so", "minimal", NXMEM_CAP_ALLOCATOR, NXMEM_CAP_ALLOCATOR},
    {"libnxmem_scripted.so", "eager", NXMEM_CAP_ALLOCATOR | NXMEM_CAP_STRUCTURED_RELEASE, 31u},
};

/* ISO C has no conversion from an object pointer to a function pointer; POSIX promises that the bytes agree. */
static void resolve(void *module, const char *name, void *function_out) {
  void *symbol = dlsym(module, name);
  memcpy(function_out, &symbol, sizeof symbol);
}

/* Of the running row, so that a row that fails leaves no counts behind for the next one. */
static void *loaded;

void plugin_load(plugin *p, const char *file) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", NXMEM_PLUGIN_DIR, file);
  plugin_load_from(p, path);
}

void plugin_load_from(plugin *p, const char *path) {
  memset(p, 0, sizeof *p);
  p->module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (p->module == NULL) fail_msg("%s", dlerror());
  loaded = p->module;
  resolve(p->module, "NxmemNegotiate", &p->negotiate);
  resolve(p->module, "NxmemCreateAllocatorFactories", &p->factories);
  resolve(p->module, "NxmemQueryUnloadReadiness", &p->unload);
  resolve(p->module, NXMEM_SCRIPTED_PROBE_SYMBOL, &p->probe);
}

void plugin_find(plugin *p, const char *mechanism) {
  assert_status(p->factories(p->list, 64u, &p->listed), NXMEM_STATUS_OK);
  assert_in_range(p->listed, 1u, 64u);
  for (uint64_t i = 0u; i < p->listed; i++)
    if (strcmp((const char *)p->list[i]->name, mechanism) == 0) p->factory = p->list[i];
  if (p->factory == NULL) fail_msg("%s is not listed", mechanism);
}

void plugin_observe(const plugin *p, uint64_t *counters) {
  nx_observe_function observe = NULL;
  resolve(p->module, NXMEM_SCRIPTED_OBSERVE_SYMBOL, &observe);
  assert_non_null(observe);
  observe(counters);
}

void plugin_observe_from_start(uint64_t *counters) {
  char address[32];
  snprintf(address, sizeof address, "%p", (void *)counters);
  if (counters == NULL)
    unsetenv(NXMEM_SCRIPTED_OBSERVE_ENV);
  else
    setenv(NXMEM_SCRIPTED_OBSERVE_ENV, address, 1);
}

void plugin_close(plugin *p) {
  for (uint64_t i = 0u; i < p->listed; i++) p->list[i]->release(p->list[i]->ctx);
  plugin_keep();
  assert_int_equal(dlclose(p->module), 0);
}

void plugin_keep(void) { loaded = NULL; }

/* After every row. */
static int unload_what_failed(void **state) {
  (void)state;
  if (loaded != NULL) dlclose(loaded);
  loaded = NULL;
  return 0;
}

NxmemOpenRequest open_request(const plugin *p) {
  return (NxmemOpenRequest){sizeof(NxmemOpenRequest), 1u, p->factory->device, NXMEM_CAP_ALLOCATOR, NULL};
}

const NxmemAllocatorVtable *plugin_open(const plugin *p) {
  const NxmemAllocatorVtable *table = NULL;
  const NxmemOpenRequest request = open_request(p);
  assert_status(p->factory->open_allocator(p->factory->ctx, &request, &table), NXMEM_STATUS_OK);
  assert_non_null(table);
  return table;
}

NxmemAllocRequest alloc_request(const NxmemAllocatorVtable *table, uint64_t id, uint64_t bytes, uint64_t align) {
  return (NxmemAllocRequest){
      sizeof(NxmemAllocRequest), 0u, table->mechanism_id, id, table->device, bytes, align, NULL, 0u};
}

NxmemAllocResult alloc_result(void) {
  return (NxmemAllocResult){sizeof(NxmemAllocResult), 0u, NULL, UINT64_MAX, UINT64_MAX};
}

NxmemAllocation allocation_of(const NxmemAllocRequest *request, const NxmemAllocResult *result) {
  return (NxmemAllocation){sizeof(NxmemAllocation), 0u,          request->mechanism_id, request->allocation_id,
                           request->device,         result->ptr, request->bytes,        request->align};
}

NxmemUnloadReport report_of(const plugin *p) {
  NxmemUnloadReport report;
  memset(&report, 0xFF, sizeof report);
  report.struct_size = sizeof report;
  assert_status(p->unload(&report), NXMEM_STATUS_OK);
  return report;
}

NxmemAllocation take(const NxmemAllocatorVtable *table, uint64_t id, uint64_t bytes, uint64_t align) {
  const NxmemAllocRequest request = alloc_request(table, id, bytes, align);
  NxmemAllocResult result = alloc_result();
  assert_status(table->allocate(table->ctx, &request, &result), NXMEM_STATUS_OK);
  assert_non_null(result.ptr);
  assert_int_equal((uintptr_t)result.ptr % align, 0u);
  return allocation_of(&request, &result);
}

uint64_t give_back(const NxmemAllocatorVtable *table, const NxmemAllocation *allocation) {
  uint64_t unmapped = UINT64_MAX;
  assert_status(table->deallocate(table->ctx, allocation, &unmapped), NXMEM_STATUS_OK);
  return unmapped;
}

void assert_status(NxmemStatus status, uint32_t code) {
  if (status.code != code) fail_msg("code %u (%.255s), not %u", status.code, (const char *)status.message, code);
  assert_in_range(status.message_len, 0u, NXMEM_STATUS_MESSAGE_MAX);
  assert_int_equal(memchr(status.message, 0, sizeof status.message) == NULL, 0);
  assert_int_equal(strlen((const char *)status.message), status.message_len);
  for (uint32_t i = status.message_len; i < NXMEM_STATUS_MESSAGE_BUF; i++) assert_int_equal(status.message[i], 0u);
  if (code != NXMEM_STATUS_OK) assert_int_not_equal(status.message_len, 0u);
}

void assert_books(const plugin *p, uint64_t allocators, uint64_t allocations) {
  const NxmemUnloadReport report = report_of(p);
  assert_int_equal(report.struct_size, 48u);
  assert_int_equal(report.reserved, 0u);
  assert_int_equal(report.live_allocators, allocators);
  assert_int_equal(report.live_allocations, allocations);
  assert_int_equal(report.live_views, 0u);
  assert_int_equal(report.live_capabilities, 0u);
  assert_int_equal(report.queued_releases, 0u);
}

size_t readable(const void *address, size_t want) {
  uint8_t sink;
  size_t got = 0u;
  for (; got < want; got++) {
    const struct iovec to = {&sink, 1u};
    const struct iovec from = {(uint8_t *)(uintptr_t)address + got, 1u};
    if (process_vm_readv(getpid(), &to, 1u, &from, 1u, 0u) != 1) break;
  }
  return got;
}

int writable(void *address) {
  uint8_t same;
  const struct iovec here = {&same, 1u};
  const struct iovec there = {address, 1u};
  return process_vm_readv(getpid(), &here, 1u, &there, 1u, 0u) == 1 &&
         process_vm_writev(getpid(), &here, 1u, &there, 1u, 0u) == 1;
}

static void forget_handlers(void) {
  const int deadly[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM};
  const struct rlimit no_core = {0u, 0u};
  for (size_t i = 0u; i < sizeof deadly / sizeof deadly[0]; i++) signal(deadly[i], SIG_DFL);
  setrlimit(RLIMIT_CORE, &no_core);
}

int in_child(void (*body)(const void *argument), const void *argument, unsigned seconds) {
  int status = 0;
  fflush(NULL);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    forget_handlers();
    alarm(seconds);
    body(argument);
    fflush(NULL);
    _exit(RETURNED);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  return status;
}

/* ---- Rows ------------------------------------------------------------------------------------------------------- */

enum { CASES_MAX = 400 };

typedef struct row_case {
  char name[160];
  const subject *subject;
  const void *row;
  row_function run;
} row_case;

static row_case cases[CASES_MAX];
static struct CMUnitTest tests[CASES_MAX];
static size_t added;

static void run_case(void **state) {
  const row_case *c = *state;
  c->run(c->subject, c->row);
}

void add_case(const subject *s, const char *group, const void *row, row_function run) {
  if (added == CASES_MAX) abort();
  row_case *c = &cases[added];
  *c = (row_case){"", s, row, run};
  snprintf(c->name, sizeof c->name, "%s: %s: %s", s->mechanism, group, *(const char *const *)row);
  tests[added++] = (struct CMUnitTest){c->name, run_case, NULL, unload_what_failed, c};
}

void add_rows(const char *group, const void *rows, size_t count, size_t size, row_function run) {
  for (size_t subject_at = 0u; subject_at < sizeof honest / sizeof honest[0]; subject_at++)
    for (size_t i = 0u; i < count; i++) add_case(&honest[subject_at], group, (const uint8_t *)rows + i * size, run);
}

int run_added(const char *name) { return _cmocka_run_group_tests(name, tests, added, NULL, NULL); }
