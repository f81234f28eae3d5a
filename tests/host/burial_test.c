/*
 * burial_test.c: what is left of modules that were given up, once their host is gone. Looks inside the host; each byte it allocates is counted.
 *
 * Attackers played: a plugin that keeps something back in host after host; one that completes a release when its host is long gone; files that are replaced.
 * Promise: of one file that is given up again and again one record stays, whatever it kept; nothing is given back that somebody can still name.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <unistd.h>

#include "file.h"
#include "index.h"
#include "objects.h"
#include "puppet.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
int __real_posix_memalign(void **out, size_t alignment, size_t size);
char *__real_strdup(const char *text);
void __real_free(void *block);
ssize_t __real_getline(char **line, size_t *room, FILE *file);
ssize_t __real___getdelim(char **line, size_t *room, int end, FILE *file);
ssize_t __wrap_getline(char **line, size_t *room, FILE *file);
ssize_t __wrap___getdelim(char **line, size_t *room, int end, FILE *file);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
int __wrap_posix_memalign(void **out, size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
void __wrap_free(void *block);

static _Atomic int64_t heap;

static void *counted(void *block) {
  if (block != NULL) atomic_fetch_add(&heap, (int64_t)malloc_usable_size(block));
  return block;
}
void *__wrap_malloc(size_t size) { return counted(__real_malloc(size)); }
void *__wrap_calloc(size_t count, size_t size) { return counted(__real_calloc(count, size)); }
int __wrap_posix_memalign(void **out, size_t alignment, size_t size) {
  const int failed = __real_posix_memalign(out, alignment, size);
  if (!failed) (void)counted(*out);
  return failed;
}
/* What the C library allocates for the host: the lines that it reads. Either name, as the compiler likes. */
static int64_t weigh(void *block) { return block == NULL ? 0 : (int64_t)malloc_usable_size(block); }
ssize_t __wrap_getline(char **line, size_t *room, FILE *file) {
  const int64_t before = weigh(*line);
  const ssize_t length = __real_getline(line, room, file);
  atomic_fetch_add(&heap, weigh(*line) - before);
  return length;
}
ssize_t __wrap___getdelim(char **line, size_t *room, int end, FILE *file) {
  const int64_t before = weigh(*line);
  const ssize_t length = __real___getdelim(line, room, end, file);
  atomic_fetch_add(&heap, weigh(*line) - before);
  return length;
}
char *__wrap_strdup(const char *text) { return counted(__real_strdup(text)); }
void __wrap_free(void *block) {
  if (block != NULL) atomic_fetch_sub(&heap, (int64_t)malloc_usable_size(block));
  __real_free(block);
}

/* Without those that were given back so often that they are not used again: they have nothing any more. */
static uint32_t modules_in_use(void) {
  uint32_t n = 0;
  const uint32_t count = atomic_load(&nx_modules.count);
  for (uint32_t i = 0; i < count; i++) {
    const nx_module *m = (const nx_module *)(const void *)nx_table_at(&nx_modules, i);
    const uint32_t slot_state = nxmem_word_state(atomic_load(&m->slot.word));
    const int worn_out = slot_state == NXMEM_SLOT_RETIRED && !m->holds_name;
    if (worn_out) assert_null(m->factories);
    n += slot_state != NXMEM_SLOT_FREE && !worn_out;
  }
  return n;
}

int __real_nx_mapping_may_be(const void *address, const char *name, const nx_file_identity *file);
int __wrap_nx_mapping_may_be(const void *address, const char *name, const nx_file_identity *file);

/* Where the system cannot tell which file is mapped, the host's own memory must. */
static int blind;
int __wrap_nx_mapping_may_be(const void *address, const char *name, const nx_file_identity *file) {
  return blind ? 1 : __real_nx_mapping_may_be(address, name, file);
}

/* As many factories as there may be: the more there is to give back. */
static void publish_all(void) {
  static uint8_t names[NXMEM_FACTORIES_MAX][16];
  for (uint32_t i = 1; i < NXMEM_FACTORIES_MAX; i++) {
    puppet.factories[i] = puppet.factories[0];
    puppet.factories[i].ctx = &puppet.factories[i];
    (void)snprintf((char *)names[i], sizeof names[i], "puppet-%u", (unsigned)i);
    puppet.factories[i].name = names[i];
    puppet.entries[i] = &puppet.factories[i];
  }
  puppet.written = NXMEM_FACTORIES_MAX;
  puppet.count = NXMEM_FACTORIES_MAX;
}

static uint8_t *fresh_address(void) {
  static uintptr_t address = 1u << 30; /* nobody looks behind it */
  return (uint8_t *)(address += 4096);
}

/* ---- A thousand times the same file -------------------------------------------------------------------------------- */

static nx_stage stage;

static void keep_one(void) {
  puppet.address = fresh_address();
  const nxmem_allocation block = nx_must_allocate(stage.allocator, 64, 8);
  puppet.own_release = 1;
  puppet.release_answer = nx_puppet_status(NXMEM_STATUS_RELEASE_QUARANTINED);
  assert_int_equal(nxmem_release(stage.allocator, block, NULL, NULL), NXMEM_ERR_QUARANTINED);
  puppet.own_release = 0;
}

/* Queued, closed, given up; completed only when the host is gone. */
static void queue_one(void) {
  puppet.idle_drain = 1;
  puppet.address = fresh_address();
  const nxmem_allocation block = nx_must_allocate(stage.allocator, 64, 8);
  assert_int_equal(nxmem_enqueue_release(stage.allocator, block, NULL, NULL, NULL), NXMEM_OK);
}

static void complete_one(uint32_t release_state) {
  nx_puppet_queued queued;
  assert_true(nx_puppet_pop(&queued));
  NxmemReleaseCompletion completion = nx_puppet_completion(&queued);
  completion.outcome.state = release_state;
  assert_int_equal(nx_puppet_complete(&completion), NXMEM_STATUS_OK);
}

static void say_busy(void) { puppet.query_code = NXMEM_STATUS_BUSY; }

/* All but the index of addresses, as far as that is in use. */
static int64_t weight(void) { return atomic_load(&heap) - (int64_t)nx_index_bytes(); }

/* A range that is kept stays in the index, and takes a cell; where it comes to lie, an empty one or two may be kept as well. */
enum { INDEX_EACH = 1024, CHUNK = 1 << 16 /* tables and pools grow by such, each at its own time */, CHUNKS = 4 };

typedef struct kept_row {
  const char *name;
  nx_modes modes;
  void (*leave)(void);
  int late; /* a release is completed behind the host's end: quarantined where 2 */
} kept_row;

static const kept_row kept_rows[] = {
    {"given up a thousand times: the plugin says that it is busy", NX_GUARDED_ONLY, say_busy, 0},
    {"given up a thousand times: one quarantined", NX_GUARDED_ONLY, keep_one, 0},
    {"given up a thousand times: one queued, completed late", NX_GUARDED_ONLY, queue_one, 1},
    {"given up a thousand times: one queued, quarantined late", NX_GUARDED_ONLY, queue_one, 2},
};

static void live_and_give_up(const kept_row *row, const char *path) {
  puppet.query_code = NXMEM_STATUS_OK;
  stage.host = nx_host_in(NXMEM_FETCH_GUARDED);
  stage.plugin = nx_must_open(stage.host, path);
  const uint32_t before = modules_in_use();
  stage.allocator = nx_must_open_mechanism(stage.plugin, "puppet");
  row->leave();
  nx_must_close(stage.allocator);
  nx_force_leak(stage.host, stage.plugin, path);
  nx_host_gone(stage.host);
  assert_int_equal(modules_in_use(), before - !row->late); /* what can still be named stays */
  if (row->late) complete_one(row->late == 2 ? NXMEM_RELEASE_QUARANTINED : NXMEM_RELEASE_COMPLETE);
  assert_int_equal(modules_in_use(), before - 1u);
}

static void test_thousand(void **state) {
  const nx_case *c = *state;
  const kept_row *row = c->row;
  enum { WARM = 20, TIMES = 1000 };
  nx_puppet_reset();
  publish_all();
  const char *path = nx_puppet_copy();
  int64_t before = 0;
  uint64_t index_before = 0;
  uint32_t slots = 0;
  for (int i = 0; i < WARM + TIMES; i++) {
    if (i == WARM) before = weight();
    if (i == WARM) index_before = nx_index_bytes();
    live_and_give_up(row, path);
    if (i == WARM) slots = atomic_load(&nx_modules.count);
  }
  assert_in_range(atomic_load(&nx_modules.count) - slots, 0, TIMES / 256); /* one slot in 512 is worn out */
  assert_true(nx_is_mapped(path));
  assert_in_range(weight() - before + CHUNKS * CHUNK, 0, 2 * CHUNKS * CHUNK);
  assert_in_range(nx_index_bytes() - index_before, 0, TIMES * INDEX_EACH);
  assert_int_equal(nx_puppet_calls(NX_IN_CONSTRUCTOR), 1);
  assert_int_equal(nx_puppet_calls(NX_IN_DESTRUCTOR), 0);
  assert_int_equal(nx_puppet_factory_releases(), 0);
}

/* ---- Refused, and left behind --------------------------------------------------------------------------------------- */

static void test_refused(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  const char *path = nx_puppet_copy();
  puppet.create_code = NXMEM_STATUS_DEVICE_ERROR;
  puppet.query_code = NXMEM_STATUS_BUSY;
  const uint32_t before = modules_in_use();
  int64_t heap_before = 0;
  for (int i = 0; i < 220; i++) {
    if (i == 20) heap_before = atomic_load(&heap);
    nxmem_host host = nx_host_in(c->mode);
    nxmem_plugin none;
    assert_int_equal(nxmem_plugin_open(host, path, &none, NULL), NXMEM_ERR_PLUGIN);
    assert_int_equal(modules_in_use(), before + 1u);
    nx_host_gone(host);
    assert_int_equal(modules_in_use(), before);
  }
  assert_true(nx_is_mapped(path));
  assert_true(atomic_load(&heap) - heap_before <= 0);
}

/* ---- What is remembered --------------------------------------------------------------------------------------------- */

/* The name is the file's that is mapped under it: another file of that name is not loaded, and the same one is. */
static void test_name(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  const char *path = nx_puppet_copy(), *aside = nx_fresh_path("aside.so");
  puppet.query_code = NXMEM_STATUS_BUSY;
  nxmem_host host = nx_host_in(c->mode);
  nx_force_leak(host, nx_must_open(host, path), path);
  nx_host_gone(host);
  assert_int_equal(rename(path, aside), 0);
  assert_int_equal(rename(nx_plugin_copy("libnxmem_minimal.so"), path), 0);
  host = nx_host_in(c->mode);
  nxmem_plugin plugin;
  nxmem_error error = nx_blank_error();
  nx_assert_code(nxmem_plugin_open(host, path, &plugin, &error), &error, NXMEM_ERR_CANNOT_OPEN);
  blind = 1;
  nx_assert_code(nxmem_plugin_open(host, path, &plugin, &error), &error, NXMEM_ERR_CANNOT_OPEN);
  blind = 0;
  assert_non_null(strstr(error.message, "replaced"));
  assert_int_equal(rename(aside, path), 0);
  puppet.query_code = NXMEM_STATUS_OK;
  plugin = nx_must_open(host, path);
  nxmem_allocator allocator = nx_must_open_mechanism(plugin, "puppet");
  nx_must_close(allocator);
  nxmem_unload_info info;
  assert_int_equal(nxmem_plugin_try_unload(plugin, &info, NULL), NXMEM_OK);
  assert_int_equal(info.unmapped, 0);
  nx_host_gone(host);
}

/* The slot's next module may hand out an address that the buried one kept: they are two plugins' addresses. */
static void test_addresses(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  const char *path = nx_puppet_copy();
  stage.host = nx_host_in(c->mode);
  stage.plugin = nx_must_open(stage.host, path);
  stage.allocator = nx_must_open_mechanism(stage.plugin, "puppet");
  keep_one();
  uint8_t *kept = puppet.address;
  nx_must_close(stage.allocator);
  nx_force_leak(stage.host, stage.plugin, path);
  nx_host_gone(stage.host);

  stage.host = nx_host_in(c->mode);
  stage.plugin = nx_must_open(stage.host, path);
  stage.allocator = nx_must_open_mechanism(stage.plugin, "puppet");
  puppet.address = kept;
  const nxmem_allocation again = nx_must_allocate(stage.allocator, 64, 8);
  assert_int_equal(nx_counts(stage.host).contract_violations, 0);
  keep_one(); /* and of one factory they are not two: as ever */
  puppet.address = again.ptr;
  nxmem_allocation twice;
  assert_int_equal(nxmem_allocate(stage.allocator, 64, 8, NULL, &twice, NULL), NXMEM_ERR_CONTRACT);
  puppet.address = NULL;
  puppet.own_release = 1;
  puppet.release_answer = nx_puppet_status(NXMEM_STATUS_OK);
  puppet.outcome = (NxmemReleaseOutcome){.struct_size = sizeof puppet.outcome, .state = NXMEM_RELEASE_COMPLETE};
  nx_must_release(stage.allocator, again);
  nx_must_close(stage.allocator);
  nx_force_leak(stage.host, stage.plugin, path);
  nx_host_gone(stage.host);
}

static const nx_row_head refused_rows[] = {{"refused in host after host", NX_GUARDED_ONLY}};
static const nx_row_head name_rows[] = {{"the name of what was buried", NX_GUARDED_ONLY}};
static const nx_row_head address_rows[] = {{"addresses that the buried one kept", NX_GUARDED_ONLY}};

int main(void) {
  alarm(250);
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(kept_rows), test_thousand);
  nx_suite_modes(&suite, ROWS(refused_rows), test_refused);
  nx_suite_modes(&suite, ROWS(name_rows), test_name);
  nx_suite_modes(&suite, ROWS(address_rows), test_addresses);
  return nx_suite_run(&suite, "host_burial");
}
