/*
 * trust_test.c: files that others could have written, and things that are no files.
 *
 * Attackers played: other users, through modes, owners, links and what stands in the file's place.
 * Promise: each is refused before a byte of it is read, without blocking, and the message names the part of the path.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policytest.h"

/* Makes what the row is about out of a good file; returns the path to open. */
typedef const char *(*arrange_fn)(const char *good);

static const char *as_it_is(const char *good) { return good; }
static const char *mode(const char *good, mode_t bits) {
  assert_int_equal(chmod(good, bits), 0);
  return good;
}
static const char *group_writes(const char *good) { return mode(good, 0664); }
static const char *others_write(const char *good) { return mode(good, 0646); }
static const char *in_directory(const char *good, mode_t bits) {
  const char *directory = pt_path("directory"), *path = pt_text("%s/plugin.so", directory);
  assert_int_equal(mkdir(directory, 0700), 0);
  assert_int_equal(rename(good, path), 0);
  assert_int_equal(chmod(directory, bits), 0);
  return path;
}
static const char *group_directory(const char *good) { return in_directory(good, 0775); }
static const char *others_directory(const char *good) { return in_directory(good, 0757); }
static const char *sticky_directory(const char *good) { return in_directory(good, 01777); }
static const char *above_that(const char *good) {
  const char *inner = in_directory(good, 0755), *outer = pt_path("outer");
  assert_int_equal(mkdir(outer, 0700), 0);
  const char *path = pt_text("%s/inner", outer);
  assert_int_equal(rename(pt_text("%.*s", (int)(strrchr(inner, '/') - inner), inner), path), 0);
  assert_int_equal(chmod(outer, 0777), 0);
  return pt_text("%s/plugin.so", path);
}
static const char *link_to_it(const char *good) {
  const char *path = pt_path("link.so");
  assert_int_equal(symlink(good, path), 0);
  return path;
}
static const char *link_above(const char *good) {
  const char *inner = in_directory(good, 0755), *path = pt_path("link");
  assert_int_equal(symlink(pt_text("%.*s", (int)(strrchr(inner, '/') - inner), inner), path), 0);
  return pt_text("%s/plugin.so", path);
}
static const char *fifo(const char *good) {
  (void)good;
  const char *path = pt_path("fifo");
  assert_int_equal(mkfifo(path, 0600), 0);
  return path;
}
static const char *directory_itself(const char *good) {
  (void)good;
  const char *path = pt_path("directory");
  assert_int_equal(mkdir(path, 0700), 0);
  return path;
}
static const char *device(const char *good) {
  (void)good;
  return "/dev/null";
}
static const char *file_as_directory(const char *good) { return pt_text("%s/plugin.so", good); }
static const char *missing(const char *good) {
  assert_int_equal(unlink(good), 0);
  return good;
}
static const char *relative(const char *good) { return good + 1; }
static const char *dots(const char *good) { return pt_text("/tmp/..%s", good); }
static const char *empty(const char *good) {
  pt_write(good, "", 0, 0644);
  return good;
}
static const char *long_name(const char *good) {
  (void)good;
  char name[400];
  memset(name, 'a', sizeof name);
  name[sizeof name - 1] = '\0';
  return pt_path(name);
}
static const char *text_file(const char *good) {
  pt_write(good, "text", 4, 0644);
  return good;
}

typedef struct trust_row {
  const char *name;
  arrange_fn arrange;
  nxmem_result want;
  const char *part;
} trust_row;

#define CANNOT NXMEM_ERR_CANNOT_OPEN
static const trust_row rows[] = {
    {"a good file", as_it_is, NXMEM_OK, NULL},
    {"in a sticky directory of our own", sticky_directory, NXMEM_OK, NULL},
    {"its group can write to it", group_writes, CANNOT, "plugin.so can be written by its group or others"},
    {"others can write to it", others_write, CANNOT, "plugin.so can be written by its group or others"},
    {"its directory's group can write there", group_directory, CANNOT, "directory can be written by its group"},
    {"others can write to its directory", others_directory, CANNOT, "directory can be written by its group"},
    {"others can write two directories above", above_that, CANNOT, "outer can be written by its group"},
    {"a link to it", link_to_it, CANNOT, "is a symbolic link"},
    {"a link on the way", link_above, CANNOT, "link is a symbolic link"},
    {"a FIFO", fifo, CANNOT, "is no regular file"},
    {"a directory", directory_itself, CANNOT, "is no regular file"},
    {"a device", device, CANNOT, "/dev/null is no regular file"},
    {"a file where a directory should be", file_as_directory, CANNOT, "is no directory"},
    {"nothing", missing, CANNOT, "No such file"},
    {"a relative path", relative, NXMEM_ERR_INVALID_ARGUMENT, "absolute"},
    {"a path with ..", dots, NXMEM_ERR_INVALID_ARGUMENT, "absolute"},
    {"a name that is too long", long_name, CANNOT, "too long"},
    {"an empty file", empty, CANNOT, "found no byte"},
    {"another text", text_file, NXMEM_ERR_NOT_ALLOWED,
     "found sha256 982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1"},
};

static void test_plugin(void **state) {
  const trust_row *row = *state;
  char hash[65];
  const char *path = row->arrange(pt_plugin("trusted", hash));
  nxmem_policy *policy = pt_policy_of(path[0] == '/' && strstr(path, "..") == NULL ? path : "/none", hash, NULL);
  nxmem_host host = pt_host();
  if (row->part == NULL)
    pt_unload(pt_open(policy, host, path));
  else
    pt_assert_refused(policy, host, path, row->want, row->part);
  pt_host_gone(host);
  nxmem_policy_free(policy);
}

/* The same rule for the policy itself. */
static void test_policy(void **state) {
  const trust_row *row = *state;
  static const char text[] = "{\"version\": 1, \"plugins\": []}";
  const char *good = pt_path("policy.json");
  pt_write(good, text, sizeof text - 1, 0644);
  const char *path = row->arrange(good);
  nxmem_policy *policy = NULL;
  nxmem_error error;
  const nxmem_result got = nxmem_policy_load(path, &policy, &error);
  if (row->part == NULL && got != NXMEM_OK) fail_msg("%s", error.message);
  if (row->part != NULL) pt_assert_line(got, row->want, &error, row->part);
  nxmem_policy_free(policy);
}

static const trust_row policy_rows[] = {
    {"policy: a good file", as_it_is, NXMEM_OK, NULL},
    {"policy: its group can write to it", group_writes, CANNOT, "can be written"},
    {"policy: others can write to its directory", others_directory, CANNOT, "can be written"},
    {"policy: a link to it", link_to_it, CANNOT, "is a symbolic link"},
    {"policy: a FIFO", fifo, CANNOT, "is no regular file"},
    {"policy: a device", device, CANNOT, "is no regular file"},
    {"policy: nothing", missing, CANNOT, "No such file"},
    {"policy: empty", empty, NXMEM_ERR_INVALID_ARGUMENT, "line"},
    {"policy: a text", text_file, NXMEM_ERR_INVALID_ARGUMENT, "line"},
};

/* Without the right to give files away this user cannot make one of another's: then the system's must do. */
static void test_owner(void **state) {
  (void)state;
  char hash[65];
  const char *path = pt_plugin("trusted", hash);
  nxmem_policy *policy = pt_policy_of(path, hash, NULL);
  nxmem_host host = pt_host();
  if (geteuid() == 0) {
    assert_int_equal(chown(path, 65534, 65534), 0);
    pt_assert_refused(policy, host, path, CANNOT, "plugin.so belongs to another user");
    assert_int_equal(chown(path, 0, 0), 0);
    const char *moved = in_directory(path, 0755);
    assert_int_equal(chown(pt_text("%.*s", (int)(strrchr(moved, '/') - moved), moved), 65534, 65534), 0);
    pt_assert_refused(policy, host, moved, CANNOT, "directory belongs to another user");
  } else {
    pt_assert_refused(policy, host, "/etc/hostname", NXMEM_ERR_NOT_ALLOWED, "no row names it"); /* root's */
  }
  pt_host_gone(host);
  nxmem_policy_free(policy);
}

/* To the byte; and one that is larger than a policy says is not copied. */
static void test_size(void **state) {
  (void)state;
  char hash[65];
  const char *path = pt_plugin("trusted", hash);
  struct stat found;
  assert_int_equal(stat(path, &found), 0);
  nxmem_host host = pt_host();
  for (int less = 0; less < 2; less++) {
    nxmem_policy *policy = pt_parsed(
        pt_text("{\"version\": 1, \"max_file_bytes\": %lld, \"plugins\": [{\"path\": \"%s\", \"sha256\": \"%s\", "
                "\"capabilities\": "
                "[\"allocator\"], \"max_owned_bytes\": 1, \"max_mapped_bytes\": 1, \"isolation\": \"none\"}]}",
                (long long)found.st_size - less, path, hash));
    if (less)
      pt_assert_refused(policy, host, path, CANNOT, "found more than the");
    else
      pt_unload(pt_open(policy, host, path));
    nxmem_policy_free(policy);
  }
  pt_host_gone(host);
}

int main(void) {
  alarm(100);
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(rows), test_plugin);
  nx_suite_rows(&suite, ROWS(policy_rows), test_policy);
  nx_suite_add(&suite, "files and directories of another user", test_owner, NULL);
  nx_suite_add(&suite, "a file larger than the policy allows", test_size, NULL);
  return nx_suite_run(&suite, "policy_trust");
}
