/*
 * factories_test.c: how many factories each plugin of the build publishes, counted through the loaded module.
 *
 * Attackers played: none; the modules that are wrong in this are named, and must be.
 * Promise: every library of the build folder that has a plugin's exports is loaded and counted, each in a process of its
 * own; a new one needs no row here.
 */
#define _DEFAULT_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plugin.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

enum { FACTORIES_MOST = 64, ROOM = 256, LIBRARIES_MAX = 256 };

/* What a library came to. */
typedef enum outcome { NO_PLUGIN, COUNTED, REFUSES, ENDS } outcome;

typedef struct finding {
  outcome outcome;
  uint64_t claimed; /* of a plugin that lists: its count */
  uint64_t written; /* and the entries that it wrote */
} finding;

/* Shared with the child. */
static finding *found;

static const char *const exports[] = {"NxmemNegotiate", "NxmemCreateAllocatorFactories", "NxmemQueryUnloadReadiness"};

typedef NxmemStatus (*negotiate_function)(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response);
typedef NxmemStatus (*create_function)(const NxmemAllocatorFactoryVtable **out, uint64_t max, uint64_t *count);

static int resolve(void *module, void *functions[COUNT(exports)]) {
  for (size_t i = 0u; i < COUNT(exports); i++) functions[i] = module == NULL ? NULL : dlsym(module, exports[i]);
  return functions[0] != NULL && functions[1] != NULL && functions[2] != NULL;
}

/* With far more room than a host offers: who has more factories than there may be has them here. */
static void count_factories(const void *argument) {
  const char *path = argument;
  void *functions[COUNT(exports)];
  if (!resolve(dlopen(path, RTLD_NOW | RTLD_LOCAL), functions)) return;
  negotiate_function negotiate = NULL;
  create_function create = NULL;
  memcpy(&negotiate, &functions[0], sizeof negotiate);
  memcpy(&create, &functions[1], sizeof create);
  found->outcome = ENDS; /* until it is back */
  const NxmemNegotiateRequest request = {sizeof request, 0u, {1u, 1u, 0u, 1u}, 31u};
  NxmemNegotiateResponse response = {.struct_size = sizeof response};
  const uint32_t negotiated = negotiate(&request, &response).code;
  static const NxmemAllocatorFactoryVtable *entries[ROOM];
  uint64_t count = 0u;
  const uint32_t listed = create(entries, ROOM, &count).code;
  for (size_t i = 0u; i < ROOM; i++) found->written += entries[i] != NULL;
  found->claimed = count;
  found->outcome = negotiated == NXMEM_STATUS_OK && listed == NXMEM_STATUS_OK ? COUNTED : REFUSES;
}

/* `seconds`: who is not back by then hangs. */
static finding look_at(const char *name, unsigned seconds) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", NXMEM_PLUGIN_DIR, name);
  *found = (finding){NO_PLUGIN, 0u, 0u};
  const int status = in_child(count_factories, path, seconds);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != RETURNED) found->outcome = ENDS;
  return *found;
}

/* ---- Rows: every library -------------------------------------------------------------------------------------------- */

/* Wrong on purpose, each in this. Whatever is not here is counted, and may not claim more than there may be. */
typedef struct odd_row {
  const char *name;
  outcome outcome;
  uint64_t claimed;
} odd_row;

static const odd_row odd_rows[] = {
    {"libnxmem_fault_too-many.so", COUNTED, 65u},
    {"libnxmem_fault_count-endless.so", COUNTED, UINT64_MAX},
    {"libnxmem_fault_refuse-negotiation.so", REFUSES, 1u},
    {"libnxmem_fault_enumerate-error.so", REFUSES, 2u},
    {"libnxmem_fault_crashes-at-load.so", ENDS, 0u},
    {"libnxmem_fault_exits-at-load.so", ENDS, 0u},
    {"libnxmem_fault_hangs-at-load.so", ENDS, 0u},
    {"libnxmem_fault_crashes-in-enumerate.so", ENDS, 0u},
    {"libnxmem_fault_hangs-in-enumerate.so", ENDS, 0u},
    {"libnxmem_fault_missing-export-negotiate.so", NO_PLUGIN, 0u},
    {"libnxmem_fault_missing-export-factories.so", NO_PLUGIN, 0u},
    {"libnxmem_fault_missing-export-unload.so", NO_PLUGIN, 0u},
};

static char libraries[LIBRARIES_MAX][256];
static const char *names[LIBRARIES_MAX];
static size_t library_count;

static const odd_row *odd(const char *name) {
  for (size_t i = 0u; i < COUNT(odd_rows); i++)
    if (strcmp(odd_rows[i].name, name) == 0) return &odd_rows[i];
  return NULL;
}

/* Fixtures whose exports are played by the test that loads them: without it they may refuse, or end. */
static int is_played(const char *name) { return strncmp(name, "libnxmem_test_", strlen("libnxmem_test_")) == 0; }

static void run_library(const subject *s, const void *data) {
  const char *name = *(const char *const *)data;
  const odd_row *row = odd(name);
  const finding f = look_at(name, row != NULL && row->outcome == ENDS ? 3u : 100u);
  (void)s;
  assert_in_range(f.written, 0u, FACTORIES_MOST);
  if (row != NULL) {
    assert_int_equal(f.outcome, row->outcome);
    assert_int_equal(f.claimed, row->claimed);
    return;
  }
  if (f.outcome == NO_PLUGIN || (f.outcome != COUNTED && is_played(name))) return;
  assert_int_equal(f.outcome, COUNTED);
  assert_in_range(f.claimed, 0u, FACTORIES_MOST);
}

/* ---- What there is ------------------------------------------------------------------------------------------------ */

static int is_library(const char *name) {
  const size_t length = strlen(name);
  return length > 3u && length < sizeof libraries[0] && strcmp(name + length - 3u, ".so") == 0;
}

static void list_libraries(void) {
  DIR *folder = opendir(NXMEM_PLUGIN_DIR);
  if (folder == NULL) return;
  for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    if (!is_library(entry->d_name) || library_count == LIBRARIES_MAX) continue;
    names[library_count] = strcpy(libraries[library_count], entry->d_name);
    library_count++;
  }
  closedir(folder);
}

static int is_listed(const char *name) {
  for (size_t i = 0u; i < library_count; i++)
    if (strcmp(names[i], name) == 0) return 1;
  return 0;
}

typedef struct manifest_row {
  const char *name;
} manifest_row;

/* The build folder is the right one: the honest plugins, and all that are named above, were there to be counted. */
static void run_manifest(const subject *s, const void *data) {
  static const char *const must[] = {"libnxmem_minimal.so", "libnxmem_scripted.so"};
  (void)s;
  (void)data;
  assert_in_range(library_count, 60u, LIBRARIES_MAX - 1u);
  for (size_t i = 0u; i < COUNT(must); i++) {
    assert_true(is_listed(must[i]));
    assert_int_equal(look_at(must[i], 100u).outcome, COUNTED);
    assert_true(look_at(must[i], 100u).claimed != 0u);
  }
  for (size_t i = 0u; i < COUNT(odd_rows); i++)
    if (!is_listed(odd_rows[i].name)) fail_msg("%s is not built", odd_rows[i].name);
}

int main(void) {
  static const subject all = {"", "factories", 0u, 0u};
  static const manifest_row manifest = {"all were there"};
  found = mmap(NULL, sizeof *found, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (found == MAP_FAILED) return 1;
  list_libraries();
  for (size_t i = 0u; i < library_count; i++) add_case(&all, "at most 64", &names[i], run_library);
  add_case(&all, "library folder", &manifest, run_manifest);
  return run_added("plugins_factories");
}
