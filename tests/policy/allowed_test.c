/*
 * allowed_test.c: the very bytes that a policy names, signed where it says so, in a process that is confined where it says so.
 *
 * Attackers played: files that are others than the policy means; forged, foreign and damaged signatures; threads that escaped confinement.
 * Promise: each is refused, and nothing of it is loaded.
 */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "policytest.h"

#define REST "\"max_owned_bytes\": \"unlimited\", \"max_mapped_bytes\": \"unlimited\", \"isolation\": \"none\""

static nxmem_host host;
static char hash[65];
static const char *path;

static int begin(void **state) {
  (void)state;
  host = pt_host();
  path = pt_plugin("allowed", hash);
  return 0;
}

/* ---- By path, hash and build id ---------------------------------------------------------------------------------- */

static nxmem_policy *row_policy(const char *naming, const char *sha256) {
  return pt_parsed(
      pt_text("{\"version\": 1, \"plugins\": [{%s, \"sha256\": \"%s\", \"capabilities\": [\"allocator\"], " REST "}]}",
              naming, sha256));
}

/* "" where the build makes none: the toolchain's own habit. */
static const char *build_id(void) {
  nxmem_policy *policy = pt_policy_of(path, hash, NULL);
  nxmem_policy_report *report = NULL;
  nxmem_plugin plugin = {0};
  assert_int_equal(nxmem_policy_open(policy, host, path, &plugin, &report, NULL), NXMEM_OK);
  const char *id = pt_text("%s", report->build_id);
  pt_unload(plugin);
  nxmem_policy_report_free(report);
  nxmem_policy_free(policy);
  return id;
}

static void try(const char *naming, const char *sha256, const char *part) {
  nxmem_policy *policy = row_policy(naming, sha256);
  if (part == NULL) {
    nxmem_plugin plugin = pt_open(policy, host, path);
    pt_assert_is(plugin, "allowed");
    pt_unload(plugin);
  } else {
    pt_assert_refused(policy, host, path, NXMEM_ERR_NOT_ALLOWED, part);
  }
  nxmem_policy_free(policy);
}

static void test_naming(void **state) {
  begin(state);
  char other[65];
  (void)pt_plugin("another", other);
  const char *id = build_id();
  assert_true(id[0] != '\0');
  const char *wrong = pt_text("%c%s", id[0] == '0' ? '1' : '0', id + 1);
  try(pt_text("\"path\": \"%s\"", path), hash, NULL);
  try(pt_text("\"path\": \"%s\"", path), other, "needed ");
  try("\"path\": \"/some/other.so\"", hash, "no row names it");
  try(pt_text("\"build_id\": \"%s\"", id), hash, NULL);
  try(pt_text("\"build_id\": \"%s\"", id), other, "no row names it");
  try(pt_text("\"build_id\": \"%s\"", wrong), hash, "another build id");
  try(pt_text("\"build_id\": \"%s\"", pt_text("%.*s", (int)strlen(id) - 2, id)), hash, "another build id");
  try(pt_text("\"path\": \"%s\", \"build_id\": \"%s\"", path, id), hash, NULL);
  try(pt_text("\"path\": \"%s\", \"build_id\": \"%s\"", path, wrong), hash, "another build id");
  pt_host_gone(host);
}

/* Its note becomes one of another kind. */
static const char *without_build_id(void) {
  static const uint8_t note[] = {3, 0, 0, 0, 'G', 'N', 'U', 0};
  pt_bytes bytes = pt_bytes_of(path);
  uint8_t *at = memmem(bytes.bytes, bytes.count, note, sizeof note);
  assert_non_null(at);
  *at = 99;
  const char *made = pt_path("no-build-id.so");
  pt_write(made, bytes.bytes, bytes.count, 0644);
  pt_bytes_free(&bytes);
  return made;
}

/* By its path and hash it loads, and has none to report; a policy that asks for one refuses it. */
static void test_no_build_id(void **state) {
  begin(state);
  const char *id = build_id(), *bare = without_build_id(), *sha256 = pt_sha256(bare);
  path = bare;
  memcpy(hash, sha256, sizeof hash);
  assert_string_equal(build_id(), "");
  try(pt_text("\"path\": \"%s\"", path), hash, NULL);
  try(pt_text("\"path\": \"%s\", \"build_id\": \"%s\"", path, id), hash, "found no build id");
  try(pt_text("\"build_id\": \"%s\"", id), hash, "found no build id");
  pt_host_gone(host);
}

static const char *same_file_as(const char *name) {
  pt_bytes file = pt_bytes_of(path);
  const char *at = pt_path(name);
  pt_write(at, file.bytes, file.count, 0644);
  pt_bytes_free(&file);
  return at;
}

static void assert_granted(const nxmem_policy *policy, const char *at, uint64_t bytes) {
  nxmem_policy_report *report = NULL;
  nxmem_plugin plugin = {0};
  assert_int_equal(nxmem_policy_open(policy, host, at, &plugin, &report, NULL), NXMEM_OK);
  assert_int_equal(report->max_owned_bytes, bytes);
  nxmem_policy_report_free(report);
  pt_unload(plugin);
}

/* One hash in three rows: each path has its own, whatever the order, and any other path the one without. */
static void test_one_file_at_paths(void **state) {
  begin(state);
  const char *id = build_id(), *second = same_file_as("second.so"), *third = same_file_as("third.so");
  assert_true(id[0] != '\0');
  static const char *const grants =
      "\"capabilities\": [\"allocator\"], \"max_mapped_bytes\": \"unlimited\", "
      "\"isolation\": \"none\", \"max_owned_bytes\"";
  nxmem_policy *policy = pt_parsed(pt_text(
      "{\"version\": 1, \"plugins\": [{\"path\": \"%s\", \"sha256\": \"%s\", %s: 4096}, "
      "{\"build_id\": \"%s\", \"sha256\": \"%s\", %s: 8192}, {\"path\": \"%s\", \"sha256\": \"%s\", %s: 12288}]}",
      path, hash, grants, id, hash, grants, second, hash, grants));
  assert_granted(policy, path, 4096);
  assert_granted(policy, second, 12288);
  assert_granted(policy, third, 8192);
  nxmem_policy_free(policy);
  pt_host_gone(host);
}

static void test_nothing_allowed(void **state) {
  begin(state);
  nxmem_policy *policy = pt_parsed("{\"version\": 1, \"plugins\": []}");
  pt_assert_refused(policy, host, path, NXMEM_ERR_NOT_ALLOWED, "no row names it");
  nxmem_policy_free(policy);
  pt_host_gone(host);
}

static void test_report(void **state) {
  begin(state);
  nxmem_policy *policy = pt_policy_of(path, hash, NULL);
  nxmem_policy_report *report = NULL;
  nxmem_plugin plugin = {0};
  assert_int_equal(nxmem_policy_open(policy, host, path, &plugin, &report, NULL), NXMEM_OK);
  assert_string_equal(report->sha256, hash);
  assert_string_equal(report->key_id, "");
  assert_int_equal(report->capability_flags, NXMEM_CAP_ALLOCATOR);
  assert_int_equal(report->max_owned_bytes, NXMEM_UNLIMITED);
  int has_libc = 0;
  for (uint32_t i = 0; i < report->dependency_count; i++)
    has_libc |= strncmp(report->dependencies[i], "libc.so", 7) == 0;
  assert_true(has_libc);
  pt_unload(plugin);
  nxmem_policy_report_free(report);
  nxmem_policy_free(policy);
  pt_host_gone(host);
}

/* ---- Signatures, made by minisign -------------------------------------------------------------------------------- */

typedef struct key_files {
  const char *secret;
  const char *public;
  char line[64]; /* what a policy takes of the public one */
} key_files;

static void run(char *const argv[]) {
  const pid_t child = fork();
  if (child == 0) {
    if (freopen("/dev/null", "w", stdout) == NULL) _exit(126);
    execv(MINISIGN, argv);
    _exit(127);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail_msg("minisign %s failed: %d", argv[1], status);
}

static key_files make_key(void) {
  key_files key = {.secret = pt_path("key.sec"), .public = pt_path("key.pub")};
  run((char *[]){"minisign", "-G", "-W", "-f", "-p", (char *)(uintptr_t)key.public, "-s", (char *)(uintptr_t)key.secret,
                 NULL});
  FILE *file = fopen(key.public, "r");
  char comment[256];
  if (file == NULL || fgets(comment, sizeof comment, file) == NULL || fgets(key.line, sizeof key.line, file) == NULL)
    fail_msg("no public key");
  fclose(file);
  key.line[strcspn(key.line, "\r\n")] = '\0';
  return key;
}

/* prehashed: minisign's own habit; -l: the bytes themselves. */
static const char *sign(const key_files *key, const char *of, int prehashed) {
  const char *to = pt_path("plugin.minisig");
  run((char *[]){"minisign", prehashed ? "-SH" : "-Sl", "-s", (char *)(uintptr_t)key->secret, "-m",
                 (char *)(uintptr_t)of, "-x", (char *)(uintptr_t)to, "-t", "made for a test", NULL});
  assert_int_equal(chmod(to, 0644), 0);
  return to;
}

static nxmem_policy *signed_policy(const char *signature, const key_files *key) {
  return pt_policy_of(
      path, hash, pt_text("\"signature\": {\"file\": \"%s\", \"public_key\": \"%s\"}, " REST, signature, key->line));
}

static void assert_signed(const char *signature, const key_files *key, const char *part) {
  nxmem_policy *policy = signed_policy(signature, key);
  nxmem_policy_report *report = NULL;
  nxmem_plugin plugin = {0};
  nxmem_error error;
  if (part != NULL) {
    pt_assert_refused(policy, host, path, NXMEM_ERR_NOT_ALLOWED, part);
  } else if (nxmem_policy_open(policy, host, path, &plugin, &report, &error) != NXMEM_OK) {
    fail_msg("%s", error.message);
  } else {
    assert_string_equal(report->trusted_comment, "made for a test");
    assert_int_equal(strlen(report->key_id), 16);
    pt_unload(plugin);
  }
  nxmem_policy_report_free(report);
  nxmem_policy_free(policy);
}

static char text[4096];
static size_t text_bytes;

static void read_text(const char *from) {
  FILE *file = fopen(from, "r");
  if (file == NULL) fail_msg("no %s", from);
  text_bytes = fread(text, 1, sizeof text - 1, file);
  text[text_bytes] = '\0';
  fclose(file);
}

/* A copy of a signature file with one line changed at one place. */
static const char *damaged(const char *signature, int line, int at, char to) {
  read_text(signature);
  char *c = text;
  for (int i = 0; i < line; i++) c = strchr(c, '\n') + 1;
  c[at] = c[at] == to ? 'A' : to;
  const char *made = pt_path("damaged.minisig");
  pt_write(made, text, text_bytes, 0644);
  return made;
}

typedef struct signature_row {
  const char *name;
  int prehashed;
} signature_row;

static const signature_row signature_rows[] = {{"signed by minisign, prehashed", 1},
                                               {"signed by minisign, as they are", 0}};

static void test_signature(void **state) {
  const signature_row *row = *state;
  begin(state);
  key_files key = make_key(), other = make_key();
  const char *signature = sign(&key, path, row->prehashed);
  read_text(signature);
  assert_int_equal(strchr(text, '\n')[2], row->prehashed ? 'U' : 'W'); /* base64 of "ED", of "Ed" */
  assert_signed(signature, &key, NULL);
  assert_signed(signature, &other, "is by another key");
  assert_signed(sign(&key, pt_plugin("another", NULL), row->prehashed), &key, "is not of these bytes");
  assert_signed(damaged(signature, 1, 20, 'B'), &key, "is not of these bytes");
  assert_signed(damaged(signature, 1, 5, 'B'), &key, "is by another key");
  assert_signed(damaged(signature, 2, 20, 'B'), &key, "trusted comment that was not signed");
  assert_signed(damaged(signature, 3, 20, 'B'), &key, "trusted comment that was not signed");
  assert_signed(damaged(signature, 1, 0, 'B'), &key, "unknown kind");
  assert_signed(damaged(signature, 1, 20, '*'), &key, "is no signature file");
  assert_signed(damaged(signature, 1, 20, '\xff'), &key, "is no signature file");
  assert_signed(damaged(signature, 0, 0, 'x'), &key, "is no signature file");
  assert_signed(damaged(signature, 2, 0, 'x'), &key, "is no signature file");
  pt_host_gone(host);
}

/* Two signatures, something behind one, lines of another length, another file in its place. */
static void test_signature_file(void **state) {
  begin(state);
  key_files key = make_key(), other = make_key();
  const char *signature = sign(&key, path, 1), *odd = pt_path("odd.minisig");
  read_text(sign(&other, path, 1));
  const char *theirs = pt_text("%s", text);
  read_text(signature);
  const char *ours = pt_text("%s", text), *feed = strchr(ours, '\n'), *second = strchr(feed + 1, '\n');
  const struct {
    const char *made, *part;
  } files[] = {
      {pt_text("%s", ours), NULL},
      {pt_text("%s%s", ours, ours), "is no signature file"},
      {pt_text("%s%s", ours, theirs), "is no signature file"},
      {pt_text("%s%s", theirs, ours), "is no signature file"},
      {pt_text("%s\n", ours), "is no signature file"},
      {pt_text("\n%s", ours), "is no signature file"},
      {pt_text("%.*s =\n%s", (int)(second - ours), ours, second + 1), "is no signature file"},
      {pt_text("%.*s\n%.*s%s", (int)(feed - ours), ours, (int)(second - feed - 5), feed + 1, second),
       "is no signature file"},
      {pt_text("untrusted comment: another\n%s", feed + 1), NULL}, /* nobody signed that line, and nobody reads it */
  };
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    pt_write(odd, files[i].made, strlen(files[i].made), 0644);
    assert_signed(odd, &key, files[i].part);
  }
  nxmem_policy *policy = signed_policy(odd, &key);
  char *large = calloc(1, 16385);
  pt_write(odd, large, 16385, 0644);
  free(large);
  pt_assert_refused(policy, host, path, NXMEM_ERR_CANNOT_OPEN, "more than 16384 bytes");
  assert_int_equal(unlink(odd), 0);
  assert_int_equal(symlink(signature, odd), 0);
  pt_assert_refused(policy, host, path, NXMEM_ERR_CANNOT_OPEN, "is a symbolic link");
  assert_int_equal(unlink(odd), 0);
  assert_int_equal(mkfifo(odd, 0644), 0);
  pt_assert_refused(policy, host, path, NXMEM_ERR_CANNOT_OPEN, "is no regular file");
  nxmem_policy_free(policy);
  pt_host_gone(host);
}

/* Cut at every length: never a signature, but for the last line's end. */
static void test_signature_cut(void **state) {
  begin(state);
  key_files key = make_key();
  const char *signature = sign(&key, path, 1), *cut = pt_path("cut.minisig");
  read_text(signature);
  nxmem_policy *policy = signed_policy(cut, &key);
  for (size_t length = 0; length < text_bytes - 1; length++) {
    pt_write(cut, text, length, 0644);
    pt_assert_refused(policy, host, path, NXMEM_ERR_NOT_ALLOWED, "is no signature file");
  }
  pt_write(cut, text, text_bytes, 0664);
  pt_assert_refused(policy, host, path, NXMEM_ERR_CANNOT_OPEN, "can be written by its group");
  assert_int_equal(unlink(cut), 0);
  pt_assert_refused(policy, host, path, NXMEM_ERR_CANNOT_OPEN, "No such file");
  nxmem_policy_free(policy);
  pt_host_gone(host);
}

/* ---- Isolation --------------------------------------------------------------------------------------------------- */

static int allow_everything(void) {
  struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {1, &all};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
static int nothing(void) { return 0; }
static int no_new_privs(void) { return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); }
static int seccomp(void) { return no_new_privs() != 0 || allow_everything() != 0; }

static void *wait_for_ever(void *unused) {
  (void)unused;
  for (;;) pause();
  return NULL;
}
/* A thread from before: it stays as it was. */
static int seccomp_but_one(void) {
  pthread_t other;
  return pthread_create(&other, NULL, wait_for_ever, NULL) != 0 || seccomp() != 0;
}

typedef struct isolation_row {
  const char *name;
  const char *word;
  int (*confine)(void);
  nxmem_result want;
} isolation_row;

static const isolation_row isolation_rows[] = {
    {"none is asked for", "none", nothing, NXMEM_OK},
    {"no-new-privs, by a process without", "no-new-privs", nothing, NXMEM_ERR_NOT_ALLOWED},
    {"no-new-privs, by a process with it", "no-new-privs", no_new_privs, NXMEM_OK},
    {"seccomp, by a process without", "seccomp", nothing, NXMEM_ERR_NOT_ALLOWED},
    {"seccomp, by a process with no-new-privs alone", "seccomp", no_new_privs, NXMEM_ERR_NOT_ALLOWED},
    {"seccomp, by a process with it", "seccomp", seccomp, NXMEM_OK},
    {"seccomp, by a process with one thread without", "seccomp", seccomp_but_one, NXMEM_ERR_NOT_ALLOWED},
};

/* In a program of its own: what is put on cannot be taken off, and a forked child has no host. */
static int open_confined(const isolation_row *row) {
  host = pt_host();
  if (row->confine() != 0) return 100;
  nxmem_policy *policy =
      pt_policy_of(path, hash,
                   pt_text("\"max_owned_bytes\": \"unlimited\", \"max_mapped_bytes\": \"unlimited\", "
                           "\"isolation\": \"%s\"",
                           row->word));
  nxmem_plugin plugin = {0};
  const nxmem_result r = nxmem_policy_open(policy, host, path, &plugin, NULL, NULL);
  nxmem_policy_free(policy);
  return (int)r;
}

static void test_isolation(void **state) {
  const isolation_row *row = *state;
  path = pt_plugin("allowed", hash);
  char number[8];
  (void)snprintf(number, sizeof number, "%d", (int)(row - isolation_rows));
  const pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", "confined", number, path, hash, (char *)NULL);
    _exit(127);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), row->want);
}

static int run_confined(char **arguments) {
  path = arguments[2];
  memcpy(hash, arguments[3], sizeof hash);
  _exit(open_confined(&isolation_rows[atoi(arguments[1])]));
}

int main(int count, char **arguments) {
  if (count == 4) return run_confined(arguments);
  alarm(100);
  nx_suite suite = {0};
  nx_suite_add(&suite, "by path, hash and build id", test_naming, NULL);
  nx_suite_add(&suite, "a file without a build id", test_no_build_id, NULL);
  nx_suite_add(&suite, "one file at several paths", test_one_file_at_paths, NULL);
  nx_suite_add(&suite, "a policy without rows", test_nothing_allowed, NULL);
  nx_suite_add(&suite, "what is reported", test_report, NULL);
  nx_suite_rows(&suite, ROWS(signature_rows), test_signature);
  nx_suite_add(&suite, "signature files that hold more, less or something else", test_signature_file, NULL);
  nx_suite_add(&suite, "a signature file cut at every length", test_signature_cut, NULL);
  nx_suite_rows(&suite, ROWS(isolation_rows), test_isolation);
  return nx_suite_run(&suite, "policy_allowed");
}
