/*
 * policytest.c: files, policies, looks at the process.
 *
 * Attackers: none.
 * Promise: a helper fails the running case.
 */
#define _GNU_SOURCE
#include "policytest.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <sodium.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

static void make_folder(void) {
  snprintf(folder, sizeof folder, "%s/nxmem-policy-test-XXXXXX", P_tmpdir);
  if (mkdtemp(folder) == NULL) abort();
  folder_owner = getpid();
  atexit(remove_folder);
}

const char *pt_text(const char *format, ...) {
  static char *texts[4096];
  static size_t used;
  va_list arguments;
  va_start(arguments, format);
  if (used == sizeof texts / sizeof texts[0] || vasprintf(&texts[used], format, arguments) < 0) abort();
  va_end(arguments);
  return texts[used++];
}

const char *pt_path(const char *name) {
  static size_t used;
  if (folder[0] == '\0') make_folder();
  return pt_text("%s/%zu-%s", folder, used++, name);
}

void pt_write(const char *path, const void *bytes, size_t count, unsigned mode) {
  FILE *file = fopen(path, "wb");
  if (file == NULL || (count != 0 && fwrite(bytes, 1, count, file) != count) || fclose(file) != 0)
    fail_msg("cannot write %s", path);
  if (chmod(path, (mode_t)mode) != 0) fail_msg("cannot chmod %s", path);
}

static uint8_t *read_file(const char *path, size_t *count_out) {
  FILE *file = fopen(path, "rb");
  struct stat found;
  if (file == NULL || fstat(fileno(file), &found) != 0) fail_msg("cannot read %s", path);
  *count_out = (size_t)found.st_size;
  uint8_t *bytes = malloc(*count_out);
  if (bytes == NULL || fread(bytes, 1, *count_out, file) != *count_out) fail_msg("cannot read %s", path);
  fclose(file);
  return bytes;
}

static void put_hash(pt_bytes *made) {
  uint8_t hash[32];
  crypto_hash_sha256(hash, made->bytes, made->count);
  sodium_bin2hex(made->sha256, sizeof made->sha256, hash, sizeof hash);
}

pt_bytes pt_bytes_of(const char *path) {
  pt_bytes made = {0};
  made.bytes = read_file(path, &made.count);
  put_hash(&made);
  return made;
}

pt_bytes pt_minimal_as(const char name[8]) {
  static const char old[] = "minimal";
  pt_bytes made = pt_bytes_of(MINIMAL);
  uint8_t *at = memmem(made.bytes, made.count, old, sizeof old);
  if (at == NULL || strlen(name) != sizeof old - 1) fail_msg("no name to replace by %s", name);
  memcpy(at, name, sizeof old);
  put_hash(&made);
  return made;
}

void pt_bytes_free(pt_bytes *bytes) { free(bytes->bytes); }

const char *pt_plugin(const char name[8], char hash_out[65]) {
  pt_bytes bytes = pt_minimal_as(name);
  const char *path = pt_path("plugin.so");
  pt_write(path, bytes.bytes, bytes.count, 0644);
  if (hash_out != NULL) memcpy(hash_out, bytes.sha256, sizeof bytes.sha256);
  pt_bytes_free(&bytes);
  return path;
}

void pt_copy(const char *from, const char *to) {
  size_t count = 0;
  uint8_t *bytes = read_file(from, &count);
  pt_write(to, bytes, count, 0644);
  free(bytes);
}

const char *pt_sha256(const char *path) {
  size_t count = 0;
  uint8_t hash[32], *bytes = read_file(path, &count);
  char text[65];
  crypto_hash_sha256(hash, bytes, count);
  sodium_bin2hex(text, sizeof text, hash, sizeof hash);
  free(bytes);
  return pt_text("%s", text);
}

/* ---- Policies ---------------------------------------------------------------------------------------------------- */

nxmem_policy *pt_parsed(const char *text) {
  nxmem_policy *policy = NULL;
  nxmem_error error;
  if (nxmem_policy_parse(text, strlen(text), &policy, &error) != NXMEM_OK) fail_msg("%s", error.message);
  return policy;
}

nxmem_policy *pt_policy_of(const char *path, const char *hash, const char *more) {
  char text[4096];
  if (more == NULL)
    more = "\"max_owned_bytes\": \"unlimited\", \"max_mapped_bytes\": \"unlimited\", \"isolation\": \"none\"";
  snprintf(
      text, sizeof text,
      "{\"version\": 1, \"plugins\": [{\"path\": \"%s\", \"sha256\": \"%s\", \"capabilities\": [\"allocator\"], %s}]}",
      path, hash, more);
  return pt_parsed(text);
}

/* ---- Hosts and plugins ------------------------------------------------------------------------------------------- */

nxmem_host pt_host(void) {
  nxmem_host host = {0};
  assert_int_equal(nxmem_host_create(NULL, &host, NULL), NXMEM_OK);
  return host;
}

void pt_host_gone(nxmem_host host) {
  nxmem_error error;
  if (nxmem_host_destroy(host, &error) != NXMEM_OK) fail_msg("%s", error.message);
}

void pt_assert_is(nxmem_plugin plugin, const char *name) {
  nxmem_mechanism_info info;
  assert_int_equal(nxmem_plugin_mechanism(plugin, 0, &info, NULL), NXMEM_OK);
  assert_string_equal(info.name, name);
}

void pt_unload(nxmem_plugin plugin) {
  nxmem_unload_info info;
  nxmem_error error;
  if (nxmem_plugin_try_unload(plugin, &info, &error) != NXMEM_OK) fail_msg("%s", error.message);
  assert_int_equal(info.unmapped, info.references == 0);
}

nxmem_plugin pt_open(const nxmem_policy *policy, nxmem_host host, const char *path) {
  nxmem_plugin plugin = {0};
  nxmem_error error;
  if (nxmem_policy_open(policy, host, path, &plugin, NULL, &error) != NXMEM_OK) fail_msg("%s", error.message);
  return plugin;
}

void pt_assert_line(nxmem_result got, nxmem_result want, const nxmem_error *error, const char *part) {
  if (got == NXMEM_OK) fail_msg("accepted, needed %s", nxmem_result_name(want));
  if (got != want) fail_msg("%s, needed %s: %s", nxmem_result_name(got), nxmem_result_name(want), error->message);
  assert_int_equal(error->result, want);
  if (strstr(error->message, part) == NULL) fail_msg("'%s' has no '%s'", error->message, part);
  for (const char *c = error->message; *c != '\0'; c++) assert_true((unsigned char)*c >= ' ' && *c != 127);
}

void pt_assert_refused(const nxmem_policy *policy, nxmem_host host, const char *path, nxmem_result want,
                       const char *part) {
  const size_t fds = pt_open_fds(), mappings = pt_sealed_mappings();
  nxmem_plugin none = {0x5A5A};
  nxmem_policy_report *report = NULL;
  nxmem_error error;
  memset(&error, 0xA5, sizeof error);
  const nxmem_result got = nxmem_policy_open(policy, host, path, &none, &report, &error);
  pt_assert_line(got, want, &error, part);
  assert_int_equal(none.id, 0x5A5A);
  assert_null(report);
  assert_int_equal(pt_open_fds(), fds);
  assert_int_equal(pt_sealed_mappings(), mappings);
}

/* ---- The process ------------------------------------------------------------------------------------------------- */

size_t pt_open_fds(void) {
  DIR *fds = opendir("/proc/self/fd");
  if (fds == NULL) fail_msg("no /proc/self/fd");
  size_t n = 0;
  while (readdir(fds) != NULL) n++;
  closedir(fds);
  return n;
}

size_t pt_sealed_mappings(void) {
  FILE *maps = fopen("/proc/self/maps", "r");
  if (maps == NULL) fail_msg("no /proc/self/maps");
  char line[1024];
  size_t n = 0;
  while (fgets(line, sizeof line, maps) != NULL) n += strstr(line, "/memfd:") != NULL && strstr(line, "pinned") != NULL;
  fclose(maps);
  return n;
}

int pt_memfd(const pt_bytes *bytes, int seals) {
  const int fd = memfd_create("pinned", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 || write(fd, bytes->bytes, bytes->count) != (ssize_t)bytes->count || fcntl(fd, F_ADD_SEALS, seals) != 0)
    fail_msg("no sealed file");
  return fd;
}
