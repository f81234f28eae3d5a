/*
 * faults_test.c: does each fault module commit what its name says, and nothing else?
 *
 * Attackers played: none; here the attackers are under test.
 * Promise: every module that the build makes has a row here, and every factory it makes is accounted for.
 */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "plugin.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

static void load_fault(plugin *p, const char *name) {
  char file[96];
  snprintf(file, sizeof file, "libnxmem_fault_%s.so", name);
  plugin_load(p, file);
  nx_fault_function row = NULL;
  void *symbol = dlsym(p->module, NXMEM_SCRIPTED_FAULT_SYMBOL);
  memcpy(&row, &symbol, sizeof symbol);
  assert_non_null(row);
  if (row() == NULL) fail_msg("the module %s has no row", name);
  assert_string_equal(row(), name);
}

/* ---- Negotiation: exactly what is answered to a host of 1.0 to 1.1 that offers everything ----------------------- */

typedef struct negotiation_row {
  const char *name;
  uint32_t code;
  NxmemNegotiateResponse response;
} negotiation_row;

static const negotiation_row negotiation_rows[] = {
    {"refuse-negotiation", NXMEM_STATUS_VERSION_MISMATCH, {40, 1, 1, 0, {1, 1, 0, 1}, 17}},
    {"short-response", NXMEM_STATUS_OK, {8, 1, 1, 0, {1, 1, 0, 1}, 17}},
    {"zero-response", NXMEM_STATUS_OK, {0, 1, 1, 0, {1, 1, 0, 1}, 17}},
    {"inverted-range", NXMEM_STATUS_OK, {40, 1, 1, 0, {1, 1, 2, 1}, 17}},
    {"minor-beyond", NXMEM_STATUS_OK, {40, 1, 2, 0, {1, 1, 0, 2}, 17}},
    {"minor-endless", NXMEM_STATUS_OK, {40, 1, UINT32_MAX, 0, {1, 1, 0, UINT32_MAX}, 17}},
    {"major-zero", NXMEM_STATUS_OK, {40, 0, 0, 0, {1, 1, 0, 1}, 17}},
    {"caps-beyond-offer", NXMEM_STATUS_OK, {40, 1, 1, 0, {1, 1, 0, 1}, 31}},
    {"unknown-caps", NXMEM_STATUS_OK, {40, 1, 1, 0, {1, 1, 0, 1}, 17 | 1ull << 40}},
    {"no-allocator-cap", NXMEM_STATUS_OK, {40, 1, 1, 0, {1, 1, 0, 1}, 16}},
    {"caps-beyond-level", NXMEM_STATUS_OK, {40, 1, 0, 0, {1, 1, 0, 1}, 17}},
};

static NxmemStatus negotiate(const plugin *p, NxmemNegotiateResponse *response) {
  const NxmemNegotiateRequest request = {sizeof request, 0u, {1u, 1u, 0u, 1u}, 31u};
  memset(response, 0, sizeof *response);
  response->struct_size = sizeof *response;
  return p->negotiate(&request, response);
}

static void run_negotiation(const subject *s, const void *data) {
  const negotiation_row *row = data;
  plugin p;
  NxmemNegotiateResponse response;
  (void)s;
  load_fault(&p, row->name);
  assert_status(negotiate(&p, &response), row->code);
  assert_memory_equal(&response, &row->response, sizeof response);
  plugin_close(&p);
}

static void assert_honest_negotiation(const plugin *p) {
  const NxmemNegotiateResponse honest_answer = {40, 1, 1, 0, {1, 1, 0, 1}, 17};
  NxmemNegotiateResponse response;
  assert_status(negotiate(p, &response), NXMEM_STATUS_OK);
  assert_memory_equal(&response, &honest_answer, sizeof response);
}

/* ---- Lists ------------------------------------------------------------------------------------------------------ */

typedef struct list_row {
  const char *name;
  uint32_t code;
  uint64_t room;     /* needed: with less it is refused, like any list */
  uint64_t count;    /* claimed */
  uint64_t non_null; /* entries written */
  uint64_t distinct; /* factories made */
} list_row;

static const list_row list_rows[] = {
    {"enumerate-error", NXMEM_STATUS_INTERNAL_ERROR, 2, 2, 2, 2},
    {"too-many", NXMEM_STATUS_OK, 64, 65, 64, 64},
    {"count-endless", NXMEM_STATUS_OK, 1, UINT64_MAX, 1, 1},
    {"count-none", NXMEM_STATUS_OK, 1, 0, 1, 1},
    {"listed-twice", NXMEM_STATUS_OK, 2, 2, 2, 1},
    {"null-entry", NXMEM_STATUS_OK, 2, 2, 1, 1},
    {"entry-beyond-count", NXMEM_STATUS_OK, 2, 1, 2, 2},
    {"same-name", NXMEM_STATUS_OK, 2, 2, 2, 2},
    {"same-name-other-device", NXMEM_STATUS_OK, 2, 2, 2, 2},
};

static uint64_t written(const plugin *p) {
  uint64_t entries = 0u;
  for (size_t i = 0u; i < COUNT(p->list); i++) entries += p->list[i] != NULL;
  return entries;
}

/* One entry less than is needed: nothing is made and nothing written. */
static void assert_needs_room(plugin *p, uint64_t room) {
  uint64_t count = 77u;
  assert_status(p->factories(p->list, room - 1u, &count), NXMEM_STATUS_INVALID_ARGUMENT);
  assert_int_equal(count, 77u);
  assert_int_equal(written(p), 0u);
  assert_int_equal(p->probe(NX_PROBE_FACTORIES_CREATED), 0u);
}

/* Each factory opens an honest allocator on its own device, and counts its release once. */
static void open_and_release(const NxmemAllocatorFactoryVtable *factory) {
  const NxmemOpenRequest request = {sizeof request, 1u, factory->device, NXMEM_CAP_ALLOCATOR, NULL};
  const NxmemAllocatorVtable *table = NULL;
  assert_status(factory->open_allocator(factory->ctx, &request, &table), NXMEM_STATUS_OK);
  assert_int_equal(table->device.index, factory->device.index);
  const NxmemAllocation allocation = take(table, 1u, 64u, 16u);
  give_back(table, &allocation);
  table->release(table->ctx);
}

static void assert_names(const plugin *p, const char *name) {
  if (strncmp(name, "same-name", 9u) != 0) return;
  assert_string_equal((const char *)p->list[0]->name, (const char *)p->list[1]->name);
  const uint32_t apart = p->list[1]->device.index - p->list[0]->device.index;
  assert_int_equal(apart, strcmp(name, "same-name") == 0 ? 0u : 1u);
}

static void run_list(const subject *s, const void *data) {
  const list_row *row = data;
  plugin p;
  uint64_t count = 77u;
  (void)s;
  load_fault(&p, row->name);
  assert_honest_negotiation(&p);
  assert_needs_room(&p, row->room);
  assert_status(p.factories(p.list, row->room, &count), row->code);
  assert_int_equal(count, row->count);
  assert_int_equal(written(&p), row->non_null);
  assert_int_equal(p.probe(NX_PROBE_FACTORIES_CREATED), row->distinct);
  assert_names(&p, row->name);
  for (uint64_t i = 0u; i < row->distinct; i++) open_and_release(p.list[i]);
  assert_books(&p, 0u, 0u);
  for (uint64_t i = 0u; i < row->distinct; i++) p.list[i]->release(p.list[i]->ctx);
  assert_int_equal(p.probe(NX_PROBE_FACTORIES_RELEASED), row->distinct);
  assert_int_equal(p.probe(NX_PROBE_STRAY_FACTORY_CALLS), 0u);
  plugin_close(&p);
}

/* ---- Factories -------------------------------------------------------------------------------------------------- */

typedef struct factory_row {
  const char *name;
  uint64_t count;
  uint64_t owed; /* releases that can be found */
  void (*show)(const plugin *p, const NxmemAllocatorFactoryVtable *last);
} factory_row;

#define SHOW(name, ...)                                                        \
  static void name(const plugin *p, const NxmemAllocatorFactoryVtable *last) { \
    (void)p;                                                                   \
    __VA_ARGS__                                                                \
  }

SHOW(tier_9, assert_int_equal(last->device.tier, 9u); assert_int_equal(last->abi_minor, 1u);)
SHOW(newer_tier_9, assert_int_equal(last->device.tier, 9u); assert_int_equal(last->abi_minor, 2u);
     assert_int_equal(last->struct_size, 64u); assert_string_equal((const char *)p->list[0]->name, "eager");)
SHOW(short_table, assert_int_equal(last->struct_size, 48u); assert_int_equal(last->abi_minor, 1u);)
SHOW(no_open, assert_null(last->open_allocator); assert_non_null(last->release);)
SHOW(no_release, assert_non_null(last->open_allocator); assert_null(last->release);)
SHOW(zero, assert_int_equal(last->struct_size, 0u); assert_int_equal(last->abi_minor, 0u);)
SHOW(garbage, assert_int_equal(last->struct_size, 0xAAAAAAAAu); assert_int_equal(last->abi_minor, 0xAAAAAAAAu);
     assert_int_equal(readable(last->name, 1u), 0u);)
SHOW(empty, assert_string_equal((const char *)last->name, "");)
SHOW(a_mebibyte, assert_int_equal(strlen((const char *)last->name), 1u << 20);)
SHOW(bad_utf8, assert_memory_equal(last->name, "eag\xC3(er", 8u);)
SHOW(control, assert_memory_equal(last->name, "eager\x1B[31m", 11u);)
SHOW(unterminated, assert_int_equal(readable(last->name, 256u), 40u); assert_null(memchr(last->name, 0, 40u));)
SHOW(wild, assert_int_equal((uintptr_t)last % 8u, 0u); assert_int_equal(readable(last, 1u), 0u);)

static const factory_row factory_rows[] = {
    {"bad-tier", 1, 1, tier_9},
    {"bad-tier-newer", 2, 2, newer_tier_9},
    {"short-factory", 1, 0, short_table},
    {"factory-missing-open", 1, 1, no_open},
    {"factory-missing-release", 1, 0, no_release},
    {"zero-header", 1, 0, zero},
    {"garbage-header", 1, 1, garbage},
    {"empty-name", 1, 1, empty},
    {"long-name", 1, 1, a_mebibyte},
    {"bad-utf8-name", 1, 1, bad_utf8},
    {"control-name", 1, 1, control},
    {"unterminated-name", 1, 1, unterminated},
    {"wild-factory", 1, 0, wild},
};

static void run_factory(const subject *s, const void *data) {
  const factory_row *row = data;
  plugin p;
  uint64_t count = 77u;
  (void)s;
  load_fault(&p, row->name);
  assert_honest_negotiation(&p);
  assert_needs_room(&p, row->count);
  assert_status(p.factories(p.list, row->count, &count), NXMEM_STATUS_OK);
  assert_int_equal(count, row->count);
  assert_int_equal(written(&p), row->count);
  assert_int_equal(p.probe(NX_PROBE_FACTORIES_CREATED), row->owed);
  row->show(&p, p.list[count - 1u]);
  for (uint64_t i = 0u; i < row->owed; i++) p.list[i]->release(p.list[i]->ctx);
  assert_int_equal(p.probe(NX_PROBE_FACTORIES_RELEASED), row->owed);
  plugin_close(&p);
}

/* ---- Reports ---------------------------------------------------------------------------------------------------- */

typedef struct report_row {
  const char *name;
  uint32_t code;
  NxmemUnloadReport report; /* where its caller wrote 48 and 0xFF */
} report_row;

#define UNWRITTEN UINT64_MAX
#define HUGE_COUNT (UINT64_MAX - 1u)

static const report_row report_rows[] = {
    {"no-report", NXMEM_STATUS_OK, {48, UINT32_MAX, UNWRITTEN, UNWRITTEN, UNWRITTEN, UNWRITTEN, UNWRITTEN}},
    {"short-report", NXMEM_STATUS_OK, {8, 0, 0, 0, 0, 0, 0}},
    {"failing-report", NXMEM_STATUS_INTERNAL_ERROR, {48, 0, 0, 0, 0, 0, 0}},
    {"report-holds", NXMEM_STATUS_OK, {48, 0, 0, 0, 3, 0, 0}},
    {"report-holds-allocators", NXMEM_STATUS_OK, {48, 0, 3, 0, 0, 0, 0}},
    {"report-holds-allocations", NXMEM_STATUS_OK, {48, 0, 0, 3, 0, 0, 0}},
    {"report-holds-capabilities", NXMEM_STATUS_OK, {48, 0, 0, 0, 0, 3, 0}},
    {"report-holds-queued", NXMEM_STATUS_OK, {48, 0, 0, 0, 0, 0, 3}},
    {"report-huge", NXMEM_STATUS_OK, {48, 0, HUGE_COUNT, HUGE_COUNT, HUGE_COUNT, HUGE_COUNT, HUGE_COUNT}},
    {"report-zero", NXMEM_STATUS_OK, {48, 0, 0, 0, 0, 0, 0}},
};

static void run_report(const subject *s, const void *data) {
  const report_row *row = data;
  plugin p;
  NxmemUnloadReport report;
  (void)s;
  load_fault(&p, row->name);
  assert_honest_negotiation(&p);
  plugin_find(&p, "eager");
  open_and_release(p.factory);
  memset(&report, 0xFF, sizeof report);
  report.struct_size = sizeof report;
  assert_status(p.unload(&report), row->code);
  assert_memory_equal(&report, &row->report, sizeof report);
  plugin_close(&p);
}

/* report-zero says the same while an allocator is open. */
static void run_false_zero(const subject *s, const void *data) {
  plugin p;
  (void)s;
  (void)data;
  load_fault(&p, "report-zero");
  plugin_find(&p, "eager");
  const NxmemAllocatorVtable *table = plugin_open(&p);
  const NxmemAllocation allocation = take(table, 1u, 64u, 16u);
  assert_books(&p, 0u, 0u);
  give_back(table, &allocation);
  table->release(table->ctx);
  plugin_close(&p);
}

/* ---- What the build makes --------------------------------------------------------------------------------------- */

typedef struct build_row {
  const char *name;
  int negotiate, factories, unload; /* exported */
  int stays;                        /* mapped after the last dlclose */
} build_row;

static const build_row build_rows[] = {
    {"missing-export-negotiate", 0, 1, 1, 0},
    {"missing-export-factories", 1, 0, 1, 0},
    {"missing-export-unload", 1, 1, 0, 0},
    {"resident", 1, 1, 1, 1},
    {"gnu-unique", 1, 1, 1, 1},
};

static void run_build(const subject *s, const void *data) {
  const build_row *row = data;
  plugin p;
  char path[512];
  (void)s;
  load_fault(&p, row->name);
  assert_int_equal(p.negotiate != NULL, row->negotiate);
  assert_int_equal(p.factories != NULL, row->factories);
  assert_int_equal(p.unload != NULL, row->unload);
  plugin_close(&p);
  snprintf(path, sizeof path, "%s/libnxmem_fault_%s.so", NXMEM_PLUGIN_DIR, row->name);
  void *left = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  assert_int_equal(left != NULL, row->stays);
  if (left != NULL) dlclose(left);
}

/* ---- What ends a process at load, at unload and in an export: in a process of its own ----------------------------- */

typedef enum deed { LOAD, ENUMERATE, REPORT, UNLOAD } deed;

typedef struct end_row {
  const char *name;
  deed where;
  int signal; /* 0: it exits */
} end_row;

static const end_row end_rows[] = {
    {"crashes-at-load", LOAD, SIGSEGV},         {"exits-at-load", LOAD, 0},
    {"hangs-at-load", LOAD, SIGALRM},           {"crashes-in-enumerate", ENUMERATE, SIGSEGV},
    {"hangs-in-enumerate", ENUMERATE, SIGALRM}, {"crashes-in-report", REPORT, SIGSEGV},
    {"crashes-at-unload", UNLOAD, SIGSEGV},
};

static void live_until(const char *name, int last) {
  plugin p;
  if (last < LOAD) return;
  load_fault(&p, name);
  if (last < ENUMERATE) return;
  plugin_find(&p, "eager");
  if (last < REPORT) return;
  assert_books(&p, 0u, 0u);
  if (last == UNLOAD) plugin_close(&p);
}
static void live_with(const void *row) { live_until(((const end_row *)row)->name, (int)((const end_row *)row)->where); }
static void live_before(const void *row) {
  live_until(((const end_row *)row)->name, (int)((const end_row *)row)->where - 1);
}

static void run_end(const subject *s, const void *data) {
  const end_row *row = data;
  (void)s;
  const int before = in_child(live_before, row, 60u);
  assert_true(WIFEXITED(before));
  /* Where a module crashes when it is unloaded, so does a process that ends with it. */
  assert_int_equal(WEXITSTATUS(before), RETURNED);
  const int status = in_child(live_with, row, row->signal == SIGALRM ? 1u : 60u);
  assert_int_equal(WIFSIGNALED(status), row->signal != 0);
  if (row->signal != 0) assert_int_equal(WTERMSIG(status), row->signal);
  /* It asks for 0; a sanitizer that sees a process end inside dlopen may have a code of its own. */
  if (row->signal == 0) assert_int_not_equal(WEXITSTATUS(status), RETURNED);
}

/* ---- What acts at load and goes on -------------------------------------------------------------------------------- */

typedef struct load_row {
  const char *name;
  void (*show)(const plugin *p);
} load_row;

/* The report says that nothing is left, and so says it while a thread rests in the module's code. */
static void show_lingering(const plugin *p) {
  assert_books(p, 0u, 0u);
  assert_int_equal(p->probe(NX_PROBE_THREADS_INSIDE), 1u);
  assert_books(p, 0u, 0u);
}

/* This program has no host: the module looks for one, and finds what stands below. */
static uint64_t hosts_made, hosts_destroyed, files_opened;
static char file_opened[512];

typedef struct handle {
  uint64_t id;
} handle;
__attribute__((visibility("default"))) int nxmem_host_create(const void *options, handle *out, void *error);
__attribute__((visibility("default"))) int nxmem_host_destroy(handle host, void *error);
__attribute__((visibility("default"))) int nxmem_plugin_open(handle host, const char *path, handle *out, void *error);

int nxmem_host_create(const void *options, handle *out, void *error) {
  (void)options, (void)error;
  hosts_made++;
  out->id = 7u;
  return 0;
}
int nxmem_host_destroy(handle host, void *error) {
  (void)error;
  hosts_destroyed += host.id == 7u;
  return 0;
}
int nxmem_plugin_open(handle host, const char *path, handle *out, void *error) {
  (void)out, (void)error;
  files_opened += host.id == 7u;
  snprintf(file_opened, sizeof file_opened, "%s", path);
  return 14;
}

static void show_host_calls(const plugin *p) {
  assert_int_equal(hosts_made, 1u);
  assert_int_equal(files_opened, 1u);
  assert_int_equal(hosts_destroyed, 1u);
  assert_string_equal(file_opened, NXMEM_PLUGIN_DIR "/libnxmem_fault_calls-host-at-load.so");
  assert_int_equal(p->probe(NX_PROBE_HOST_CALLS), 3u);
  assert_int_equal(p->probe(NX_PROBE_HOST_RESULT), 14u);
}

static const load_row load_rows[] = {
    {"calls-host-at-load", show_host_calls},
    {"lingering-thread", show_lingering},
};

/* The module of a thread that stays must stay as well, so a child loads it. */
static void load_and_show(const void *data) {
  const load_row *row = data;
  plugin p;
  load_fault(&p, row->name);
  row->show(&p);
}

static void run_load(const subject *s, const void *data) {
  (void)s;
  const int status = in_child(load_and_show, data, 60u);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), RETURNED);
}

/* ---- Every module has a row ------------------------------------------------------------------------------------- */

typedef struct manifest_row {
  const char *name;
} manifest_row;
static const manifest_row manifest = {"every module has a row here"};

static void run_manifest(const subject *s, const void *data) {
  uint64_t modules = 1u;
  (void)s;
  (void)data;
  for (const char *c = NXMEM_FAULT_NAMES; *c != '\0'; c++) modules += *c == ',';
  assert_int_equal(modules, COUNT(negotiation_rows) + COUNT(list_rows) + COUNT(factory_rows) + COUNT(report_rows) +
                                COUNT(build_rows) + COUNT(end_rows) + COUNT(load_rows));
}

#define ADD(group, rows, run) \
  for (size_t i = 0u; i < COUNT(rows); i++) add_case(&faults, group, &(rows)[i], run)

int main(void) {
  static const subject faults = {"", "fault", 0u, 0u};
  ADD("negotiation", negotiation_rows, run_negotiation);
  ADD("list", list_rows, run_list);
  ADD("factory", factory_rows, run_factory);
  ADD("report", report_rows, run_report);
  ADD("build", build_rows, run_build);
  static const report_row false_zero = {.name = "report-zero, with an allocator open"};
  add_case(&faults, "report", &false_zero, run_false_zero);
  ADD("end", end_rows, run_end);
  ADD("load", load_rows, run_load);
  add_case(&faults, "modules", &manifest, run_manifest);
  return run_added("fault modules");
}
