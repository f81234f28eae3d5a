/*
 * attack_test.c: a process that runs out of descriptors, a kernel that refuses memory files, files that grow, and names that change what they lead to.
 *
 * Attackers played: whoever uses up the process's descriptors; threads that swap a link, a FIFO, a directory and files under one name, or append without end.
 * Promise: each is refused in one line and leaves no descriptor, or what is loaded is what the policy names.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "policytest.h"

static nxmem_host host;

/* ---- No descriptor is left --------------------------------------------------------------------------------------- */

static void limit_descriptors(rlim_t count) {
  struct rlimit limit;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = count;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static rlim_t descriptors_allowed(void) {
  struct rlimit limit;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
  return limit.rlim_cur;
}

static int lowest_free(void) {
  const int fd = dup(0);
  assert_true(fd >= 0);
  close(fd);
  return fd;
}

/* With none to spare, with one, with two, until it loads: how many were refused. */
static int refused_until_it_loads(const nxmem_policy *policy, const char *path) {
  const rlim_t usual = descriptors_allowed();
  const int begin = lowest_free();
  const size_t fds = pt_open_fds();
  for (int spare = 0; spare < 32; spare++) {
    nxmem_plugin plugin = {0};
    nxmem_error error;
    limit_descriptors((rlim_t)(begin + spare));
    const nxmem_result r = nxmem_policy_open(policy, host, path, &plugin, NULL, &error);
    limit_descriptors(usual);
    if (r == NXMEM_OK) {
      pt_unload(plugin);
      return spare;
    }
    pt_assert_line(r, r == NXMEM_ERR_NOT_ALLOWED ? r : NXMEM_ERR_CANNOT_OPEN, &error, "");
    assert_int_equal(plugin.id, 0);
    assert_int_equal(pt_open_fds(), fds);
    assert_int_equal(pt_sealed_mappings(), 0);
  }
  fail_msg("it never loads");
  return 0;
}

static void test_descriptors(void **state) {
  (void)state;
  char hash[65];
  const char *path = pt_plugin("nomore1", hash);
  nxmem_policy *policy = pt_policy_of(path, hash, NULL);
  host = pt_host();
  assert_true(refused_until_it_loads(policy, path) >= 3); /* the walk, the file, the copy */
  pt_host_gone(host);
  nxmem_policy_free(policy);
}

static void test_policy_without_descriptors(void **state) {
  (void)state;
  static const char text[] = "{\"version\": 1, \"plugins\": []}";
  const char *path = pt_path("policy.json");
  pt_write(path, text, sizeof text - 1, 0644);
  const rlim_t usual = descriptors_allowed();
  const int begin = lowest_free();
  for (int spare = 0; spare < 2; spare++) {
    nxmem_policy *policy = NULL;
    nxmem_error error;
    limit_descriptors((rlim_t)(begin + spare));
    const nxmem_result r = nxmem_policy_load(path, &policy, &error);
    limit_descriptors(usual);
    pt_assert_line(r, NXMEM_ERR_CANNOT_OPEN, &error, "Too many open files");
    assert_null(policy);
    assert_int_equal(lowest_free(), begin);
  }
}

/* ---- The kernel refuses ------------------------------------------------------------------------------------------ */

typedef struct refusing_row {
  const char *name;
  long number;
  unsigned argument; /* the second one, where it matters; 0: whatever it is */
  const char *part;
} refusing_row;

static const refusing_row refusing_rows[] = {
    {"memory files are refused", __NR_memfd_create, 0, "memfd_create: Operation not permitted"},
    {"seals are refused", __NR_fcntl, F_ADD_SEALS, "seal "},
};

/* From here on the call of the row is answered by EPERM. */
static void refuse(const refusing_row *row) {
  const unsigned one = offsetof(struct seccomp_data, nr), two = offsetof(struct seccomp_data, args[1]);
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, one),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)row->number, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, two),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, row->argument, 0, row->argument == 0 ? 0 : 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    fail_msg("no filter");
}

/* In a program of its own: a filter cannot be taken off. */
static int open_refused(char **words) {
  const refusing_row *row = &refusing_rows[atoi(words[1])];
  host = pt_host();
  nxmem_policy *policy = pt_policy_of(words[2], words[3], NULL);
  refuse(row);
  pt_assert_refused(policy, host, words[2], NXMEM_ERR_CANNOT_OPEN, row->part);
  _exit(0);
}

static void test_refusing(void **state) {
  const refusing_row *row = *state;
  char number[8], hash[65];
  const char *path = pt_plugin("refusal", hash);
  (void)snprintf(number, sizeof number, "%d", (int)(row - refusing_rows));
  const pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", "refused", number, path, hash, (char *)NULL);
    _exit(127);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- A file that grows ------------------------------------------------------------------------------------------- */

static atomic_int over;

/* Holes: however fast it is copied, its end is further off. Up to what every file system takes. */
static void *grow(void *path) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) abort();
  for (off_t bytes = 1 << 20; !atomic_load(&over) && bytes < 1ll << 40; bytes += 1 << 20)
    if (ftruncate(fd, bytes) != 0) abort();
  close(fd);
  return NULL;
}

static void test_growing(void **state) {
  (void)state;
  pthread_t grower;
  char hash[65];
  const char *path = pt_plugin("growing", hash);
  nxmem_policy *policy = pt_policy_of(path, hash, NULL);
  struct stat found = {.st_size = 0};
  host = pt_host();
  atomic_store(&over, 0);
  assert_int_equal(pthread_create(&grower, NULL, grow, (void *)(uintptr_t)path), 0);
  while (found.st_size <= 64 << 20) assert_int_equal(stat(path, &found), 0); /* what a policy allows by itself */
  pt_assert_refused(policy, host, path, NXMEM_ERR_CANNOT_OPEN, "more than the 67108864 bytes");
  atomic_store(&over, 1);
  pthread_join(grower, NULL);
  assert_int_equal(unlink(path), 0);
  pt_host_gone(host);
  nxmem_policy_free(policy);
}

/* ---- A name that leads elsewhere, each time ---------------------------------------------------------------------- */

enum { SWAPS = 6000 };

/* What stands under the name in turn: the file, a link to other bytes, a FIFO, other bytes, a link to the file itself. */
static void *swap(void *name) {
  const char *path = name, *fresh = pt_text("%s.fresh", path), *good = pt_text("%s.good", path),
             *bad = pt_text("%s.bad", path);
  for (int n = 0; n < SWAPS; n++) {
    const int what = n % 5;
    const int made = what == 0   ? link(good, fresh)
                     : what == 1 ? symlink(bad, fresh)
                     : what == 2 ? mkfifo(fresh, 0644)
                     : what == 3 ? link(bad, fresh)
                                 : symlink(good, fresh);
    if (made != 0 || rename(fresh, path) != 0) abort();
    (void)unlink(fresh); /* two names of one file: rename leaves both */
  }
  atomic_store(&over, 1);
  return NULL;
}

static void test_swaps(void **state) {
  (void)state;
  pthread_t swapper;
  pt_bytes good = pt_minimal_as("goodone"), bad = pt_minimal_as("BADBYTE");
  const char *path = pt_path("swapped.so");
  pt_write(path, good.bytes, good.count, 0644);
  pt_write(pt_text("%s.good", path), good.bytes, good.count, 0644);
  pt_write(pt_text("%s.bad", path), bad.bytes, bad.count, 0644);
  nxmem_policy *policy = pt_policy_of(path, good.sha256, NULL);
  const size_t fds = pt_open_fds();
  unsigned loads = 0, refusals = 0;
  host = pt_host();
  atomic_store(&over, 0);
  assert_int_equal(pthread_create(&swapper, NULL, swap, (void *)(uintptr_t)path), 0);
  do {
    nxmem_plugin plugin = {0};
    nxmem_error error;
    const nxmem_result r = nxmem_policy_open(policy, host, path, &plugin, NULL, &error);
    if (r == NXMEM_OK) {
      pt_assert_is(plugin, "goodone");
      pt_unload(plugin);
    } else {
      pt_assert_line(r, r == NXMEM_ERR_NOT_ALLOWED ? r : NXMEM_ERR_CANNOT_OPEN, &error, path);
    }
    r == NXMEM_OK ? loads++ : refusals++;
  } while (!atomic_load(&over));
  pthread_join(swapper, NULL);
  printf("# %d swaps, %u loads, %u refusals, 0 loads of wrong bytes\n", SWAPS, loads, refusals);
  pt_host_gone(host);
  assert_int_equal(pt_open_fds(), fds);
  assert_int_equal(pt_sealed_mappings(), 0);
  nxmem_policy_free(policy);
  pt_bytes_free(&good);
  pt_bytes_free(&bad);
}

/* A second name is no second file: whoever made it, the bytes are the policy's or they are refused. */
static void test_hard_links(void **state) {
  (void)state;
  char hash[65], other[65];
  const char *path = pt_plugin("linked1", hash), *foreign = pt_plugin("linked2", other);
  const char *directory = pt_path("sticky"), *name = pt_text("%s/plugin.so", directory);
  assert_int_equal(mkdir(directory, 0700), 0);
  assert_int_equal(chmod(directory, 01777), 0);
  host = pt_host();
  nxmem_policy *policy = pt_policy_of(name, hash, NULL);
  assert_int_equal(link(foreign, name), 0);
  pt_assert_refused(policy, host, name, NXMEM_ERR_NOT_ALLOWED, other);
  assert_int_equal(unlink(name), 0);
  assert_int_equal(link(path, name), 0);
  pt_unload(pt_open(policy, host, name));
  assert_int_equal(chmod(path, 0666), 0); /* by its other name */
  pt_assert_refused(policy, host, name, NXMEM_ERR_CANNOT_OPEN, "can be written by its group or others");
  nxmem_policy_free(policy);
  pt_host_gone(host);
}

/* ---- What is beside a plugin ------------------------------------------------------------------------------------- */

/* ORIGIN needs a library of ours and looks for it beside itself. Pinned, it is nowhere: refused, and the line names the library. */
static void test_origin_alone(void **state) {
  (void)state;
  const char *path = pt_path("origin.so");
  pt_copy(ORIGIN, path);
  nxmem_policy *policy = pt_policy_of(path, pt_sha256(path), NULL);
  host = pt_host();
  pt_assert_refused(policy, host, path, NXMEM_ERR_CANNOT_OPEN, "libnxmem_policy_beside.so");
  pt_host_gone(host);
  nxmem_policy_free(policy);
}

static int depends_on(const nxmem_policy_report *report, const char *name) {
  for (uint32_t i = 0; i < report->dependency_count; i++)
    if (strcmp(report->dependencies[i], name) == 0) return 1;
  return 0;
}

/* Where the process has the library already it loads, and the report says what it was not asked about. */
static void test_origin_listed(void **state) {
  (void)state;
  const char *path = pt_path("origin.so");
  pt_copy(ORIGIN, path);
  nxmem_policy *policy = pt_policy_of(path, pt_sha256(path), NULL);
  void *beside = dlopen(BESIDE, RTLD_NOW);
  nxmem_policy_report *report = NULL;
  nxmem_plugin plugin = {0};
  nxmem_error error;
  assert_non_null(beside);
  host = pt_host();
  if (nxmem_policy_open(policy, host, path, &plugin, &report, &error) != NXMEM_OK) fail_msg("%s", error.message);
  assert_true(depends_on(report, "libnxmem_policy_beside.so"));
  assert_non_null(report->search_path);
  assert_string_equal(report->search_path, "$ORIGIN");
  nxmem_policy_report_free(report);
  pt_unload(plugin);
  dlclose(beside);
  pt_host_gone(host);
  nxmem_policy_free(policy);
}

int main(int count, char **words) {
  if (count == 4) return open_refused(words);
  alarm(100);
  nx_suite suite = {0};
  nx_suite_add(&suite, "no descriptor left, at each step of a load", test_descriptors, NULL);
  nx_suite_add(&suite, "no descriptor left for a policy", test_policy_without_descriptors, NULL);
  nx_suite_rows(&suite, ROWS(refusing_rows), test_refusing);
  nx_suite_add(&suite, "a file that grows without end", test_growing, NULL);
  nx_suite_add(&suite, "a name that leads elsewhere each time", test_swaps, NULL);
  nx_suite_add(&suite, "hard links", test_hard_links, NULL);
  nx_suite_add(&suite, "a library looked for beside a pinned plugin", test_origin_alone, NULL);
  nx_suite_add(&suite, "a library looked for beside a pinned plugin, and there already", test_origin_listed, NULL);
  return nx_suite_run(&suite, "policy_attack");
}
