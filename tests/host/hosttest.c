/*
 * hosttest.c: hosts, plugins, the look at the address space, refusals by number.
 *
 * Attackers: none.
 * Promise: a helper fails the running case; files it makes go when the program ends.
 */
#define _GNU_SOURCE
#include "hosttest.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nxmem/status.h"
#include "scripted_probe.h"

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

static const nx_case *keep_case(nxmem_fetch_mode mode, const void *row) {
  static nx_case cases[1024];
  static size_t used;
  if (used == sizeof cases / sizeof cases[0]) abort();
  cases[used] = (nx_case){mode, row};
  return &cases[used++];
}

void nx_suite_modes(nx_suite *suite, const void *rows, size_t row_bytes, size_t count, CMUnitTestFunction run) {
  for (size_t i = 0; i < count; i++) {
    const uint8_t *row = (const uint8_t *)rows + i * row_bytes;
    nx_row_head head;
    memcpy(&head, row, sizeof head);
    nx_suite_add(suite, nx_name("guarded: %s", head.name), run, keep_case(NXMEM_FETCH_GUARDED, row));
    if (head.modes == NX_GUARDED_ONLY) continue;
    nx_suite_add(suite, nx_name("direct: %s", head.name), run, keep_case(NXMEM_FETCH_DIRECT, row));
  }
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

static char folder[64];
static pid_t folder_owner;

static int remove_one(const char *path, const struct stat *found, int type, struct FTW *where) {
  (void)found;
  (void)type;
  (void)where;
  return remove(path);
}

static void remove_folder(void) {
  if (getpid() == folder_owner) (void)nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static const char *own_folder(void) {
  if (folder[0] != '\0') return folder;
  snprintf(folder, sizeof folder, "%s/nxmem-host-test-XXXXXX", P_tmpdir);
  if (mkdtemp(folder) == NULL) abort();
  folder_owner = getpid();
  atexit(remove_folder);
  return folder;
}

const char *nx_fresh_path(const char *suffix) {
  enum { KEPT = 1024 };
  static char paths[KEPT][128];
  static size_t used;
  char *path = paths[used % KEPT];
  if (used >= KEPT) (void)remove(path); /* so many later nobody has that one any more */
  snprintf(path, sizeof paths[0], "%s/%zu-%s", own_folder(), used, suffix);
  used++;
  return path;
}

uint8_t *nx_file_bytes(const char *path, size_t *size_out) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) fail_msg("cannot read %s", path);
  struct stat found;
  if (fstat(fileno(file), &found) != 0) fail_msg("cannot stat %s", path);
  *size_out = (size_t)found.st_size;
  uint8_t *bytes = nx_exact_block(*size_out);
  if (fread(bytes, 1, *size_out, file) != *size_out) fail_msg("cannot read %s", path);
  fclose(file);
  return bytes;
}

static const char *write_file(const char *path, const void *bytes, size_t size) {
  FILE *file = fopen(path, "wb");
  if (file == NULL || fwrite(bytes, 1, size, file) != size || fclose(file) != 0) fail_msg("cannot write %s", path);
  return path;
}

const char *nx_file_of(const void *bytes, size_t size) { return write_file(nx_fresh_path("file.so"), bytes, size); }

const char *nx_plugin_copy(const char *library) {
  char built[512];
  snprintf(built, sizeof built, "%s/%s", NXMEM_PLUGIN_DIR, library);
  size_t size = 0;
  uint8_t *bytes = nx_file_bytes(built, &size);
  const char *path = write_file(nx_fresh_path(library), bytes, size);
  free(bytes);
  return path;
}

int nx_is_mapped(const char *path) {
  FILE *maps = fopen("/proc/self/maps", "r");
  if (maps == NULL) fail_msg("no /proc/self/maps");
  char line[1024];
  int found = 0;
  while (fgets(line, sizeof line, maps) != NULL) found |= strstr(line, path) != NULL;
  fclose(maps);
  return found;
}

size_t nx_open_fds(void) {
  DIR *fds = opendir("/proc/self/fd");
  if (fds == NULL) fail_msg("no /proc/self/fd");
  size_t n = 0;
  while (readdir(fds) != NULL) n++;
  closedir(fds);
  return n;
}

/* ---- Hosts and steps --------------------------------------------------------------------------------------------- */

nxmem_overlap_check nx_overlap;

static nxmem_host create(const nxmem_host_options *options) {
  nxmem_host host = {0};
  nxmem_error error = nx_blank_error();
  if (nxmem_host_create(options, &host, &error) != NXMEM_OK) fail_msg("%s", error.message);
  assert_int_not_equal(host.id, 0);
  return host;
}

nxmem_host nx_host_in(nxmem_fetch_mode mode) {
  nxmem_host_options options;
  nxmem_host_options_default(&options);
  options.fetch = mode;
  options.overlap = nx_overlap;
  return create(&options);
}

nxmem_host nx_host_of_level(nxmem_fetch_mode mode, uint32_t minor_max, uint64_t flags) {
  nxmem_host_options options;
  nxmem_host_options_default(&options);
  options.fetch = mode;
  options.overlap = nx_overlap;
  options.range.minor_max = minor_max;
  options.capability_flags = flags;
  return create(&options);
}

nxmem_host_counts nx_counts(nxmem_host host) {
  nxmem_host_counts counts;
  if (nxmem_host_count(host, &counts, NULL) != NXMEM_OK) fail_msg("a live host has no counts");
  return counts;
}

void nx_host_gone(nxmem_host host) {
  nxmem_error error = nx_blank_error();
  if (nxmem_host_destroy(host, &error) != NXMEM_OK) fail_msg("%s", error.message);
}

nxmem_plugin nx_must_open(nxmem_host host, const char *path) {
  nxmem_plugin plugin = {0};
  nxmem_error error = nx_blank_error();
  if (nxmem_plugin_open(host, path, &plugin, &error) != NXMEM_OK) fail_msg("%s", error.message);
  assert_int_not_equal(plugin.id, 0);
  assert_true(nx_is_mapped(path));
  return plugin;
}

nxmem_allocator nx_must_open_mechanism(nxmem_plugin plugin, const char *mechanism) {
  nxmem_allocator allocator = {0};
  nxmem_error error = nx_blank_error();
  const nxmem_open_options options = {.mechanism = mechanism};
  if (nxmem_allocator_open(plugin, &options, &allocator, &error) != NXMEM_OK) fail_msg("%s", error.message);
  assert_int_not_equal(allocator.id, 0);
  return allocator;
}

nxmem_allocation nx_must_allocate(nxmem_allocator allocator, uint64_t bytes, uint64_t align) {
  nxmem_allocation allocation = {0};
  nxmem_error error = nx_blank_error();
  if (nxmem_allocate(allocator, bytes, align, NULL, &allocation, &error) != NXMEM_OK) fail_msg("%s", error.message);
  assert_non_null(allocation.ptr);
  assert_int_equal((uintptr_t)allocation.ptr % align, 0);
  return allocation;
}

void nx_must_release(nxmem_allocator allocator, nxmem_allocation allocation) {
  nxmem_error error = nx_blank_error();
  if (nxmem_release(allocator, allocation, NULL, &error) != NXMEM_OK) fail_msg("%s", error.message);
}

void nx_must_close(nxmem_allocator allocator) {
  nxmem_error error = nx_blank_error();
  if (nxmem_allocator_close(allocator, 0, &error) != NXMEM_OK) fail_msg("%s", error.message);
}

void nx_must_unload(nxmem_plugin plugin, const char *path) {
  nxmem_unload_info info;
  memset(&info, 0xA5, sizeof info);
  nxmem_error error = nx_blank_error();
  if (nxmem_plugin_try_unload(plugin, &info, &error) != NXMEM_OK) fail_msg("%s", error.message);
  assert_int_equal(info.reason, NXMEM_REASON_NONE);
  assert_int_equal(info.references, 0);
  assert_int_equal(info.unmapped, 1);
  assert_false(nx_is_mapped(path));
}

/* ---- Refusals ---------------------------------------------------------------------------------------------------- */

nxmem_error nx_blank_error(void) {
  nxmem_error error;
  memset(&error, 0xA5, sizeof error);
  return error;
}

void nx_assert_line(const char *message, size_t room) {
  const size_t length = strnlen(message, room);
  assert_in_range(length, 1, room - 1);
  const uint8_t *bytes = (const uint8_t *)message;
  for (size_t at = 0; at < length;) {
    const uint32_t step = nxmem_utf8_length(bytes + at, (uint32_t)(length - at));
    assert_int_not_equal(step, 0);
    assert_false(nxmem_is_control(nxmem_utf8_code_point(bytes + at, step)));
    at += step;
  }
}

void nx_assert_code(nxmem_result got, const nxmem_error *error, nxmem_result want) {
  assert_int_equal(got, want);
  assert_int_equal(error->result, want);
  nx_assert_line(error->message, sizeof error->message);
}

void nx_assert_refused(nxmem_result got, const nxmem_error *error, nx_refusal want) {
  nx_assert_code(got, error, want.result);
  assert_int_equal(error->reason, want.reason);
  assert_int_equal(error->field, want.field);
  if (want.found != NX_ANY) assert_int_equal(error->found, want.found);
  if (want.needed != NX_ANY) assert_int_equal(error->needed, want.needed);
  assert_int_equal(error->plugin_status, want.plugin_status);
}

void nx_assert_open_refused(nxmem_host host, const char *path, nx_refusal want, int stays_mapped) {
  const size_t fds = nx_open_fds();
  const nxmem_host_counts before = nx_counts(host);
  nxmem_plugin plugin = {0x5A5A};
  nxmem_error error = nx_blank_error();
  nx_assert_refused(nxmem_plugin_open(host, path, &plugin, &error), &error, want);
  assert_int_equal(plugin.id, 0x5A5A);
  assert_int_equal(nx_open_fds(), fds);
  assert_int_equal(nx_counts(host).open_plugins, before.open_plugins);
  assert_int_equal(nx_counts(host).forced_leaks, before.forced_leaks + (stays_mapped ? 1u : 0u));
  if (path != NULL && path[0] == '/') assert_int_equal(nx_is_mapped(path), stays_mapped);
}

nxmem_unload_info nx_assert_unload_busy(nxmem_plugin plugin, uint32_t reason, uint32_t axis, uint64_t found) {
  nxmem_unload_info info;
  memset(&info, 0xA5, sizeof info);
  nxmem_error error = nx_blank_error();
  const nxmem_result got = nxmem_plugin_try_unload(plugin, &info, &error);
  nx_assert_code(got, &error, NXMEM_ERR_BUSY);
  assert_int_equal(info.reason, reason);
  assert_int_equal(info.axis, axis);
  assert_int_equal(error.reason, reason);
  assert_int_equal(error.field, axis);
  assert_int_equal(error.found, found);
  assert_int_equal(info.unmapped, 0);
  return info;
}

void nx_force_leak(nxmem_host host, nxmem_plugin plugin, const char *path) {
  const uint64_t before = nx_counts(host).forced_leaks;
  nxmem_unload_info info;
  memset(&info, 0xA5, sizeof info);
  assert_int_equal(nxmem_plugin_destroy(plugin, &info, NULL), NXMEM_OK);
  assert_int_not_equal(info.reason, NXMEM_REASON_NONE);
  assert_int_equal(info.unmapped, 0);
  assert_int_equal(info.references, 0);
  assert_int_equal(nx_counts(host).forced_leaks, before + 1);
  assert_true(nx_is_mapped(path));
}

/* ---- Scripted modules -------------------------------------------------------------------------------------------- */

uint64_t nx_seen[NX_PROBE_COUNT];

/*
 * Modules that stay mapped from earlier cases keep writing to the array they know; none of them runs any more by then.
 */
void nx_observe(void) {
  char address[32];
  memset(nx_seen, 0, sizeof nx_seen);
  snprintf(address, sizeof address, "%p", (void *)nx_seen);
  if (setenv(NXMEM_SCRIPTED_OBSERVE_ENV, address, 1) != 0) fail_msg("no environment");
}

void nx_assert_books_closed(void) {
  assert_int_equal(nx_seen[NX_PROBE_FACTORIES_RELEASED], nx_seen[NX_PROBE_FACTORIES_CREATED]);
  assert_int_equal(nx_seen[NX_PROBE_ALLOCATORS_RELEASED], nx_seen[NX_PROBE_ALLOCATORS_OPENED]);
  assert_int_equal(nx_seen[NX_PROBE_STRAY_FACTORY_CALLS], 0);
  assert_int_equal(nx_seen[NX_PROBE_STRAY_ALLOCATOR_CALLS], 0);
}
