/*
 * fork_test.c: a forked child of the process that uses the library.
 *
 * Attackers played: a child that inherits every handle, by fork(3), by the bare system call, in a grandchild, beside
 * busy threads.
 * Promise: every function answers FORKED in the child and touches nothing; the parent goes on as if nothing had
 * happened.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "puppet.h"

static nx_stage stage;
static nxmem_allocation live;

/* ---- Every function ---------------------------------------------------------------------------------------------- */

typedef struct call_row {
  const char *name;
  nxmem_result (*run)(nxmem_error *error);
} call_row;

static nxmem_result host_create(nxmem_error *error) {
  nxmem_host host;
  return nxmem_host_create(NULL, &host, error);
}
static nxmem_result host_count(nxmem_error *error) {
  nxmem_host_counts counts;
  return nxmem_host_count(stage.host, &counts, error);
}
static nxmem_result host_destroy(nxmem_error *error) { return nxmem_host_destroy(stage.host, error); }
static nxmem_result plugin_open(nxmem_error *error) {
  nxmem_plugin plugin;
  return nxmem_plugin_open(stage.host, stage.path, &plugin, error);
}
static nxmem_result plugin_info(nxmem_error *error) {
  nxmem_plugin_info info;
  return nxmem_plugin_get_info(stage.plugin, &info, error);
}
static nxmem_result plugin_mechanism(nxmem_error *error) {
  nxmem_mechanism_info info;
  return nxmem_plugin_mechanism(stage.plugin, 0, &info, error);
}
static nxmem_result plugin_symbol(nxmem_error *error) {
  void *address;
  return nxmem_plugin_symbol(stage.plugin, "nxmem_test_extra", &address, error);
}
static nxmem_result plugin_unload(nxmem_error *error) { return nxmem_plugin_try_unload(stage.plugin, NULL, error); }
static nxmem_result plugin_destroy(nxmem_error *error) { return nxmem_plugin_destroy(stage.plugin, NULL, error); }
static nxmem_result allocator_open(nxmem_error *error) {
  nxmem_allocator allocator;
  const nxmem_open_options options = {.mechanism = "puppet"};
  return nxmem_allocator_open(stage.plugin, &options, &allocator, error);
}
static nxmem_result allocator_info(nxmem_error *error) {
  nxmem_allocator_info info;
  return nxmem_allocator_get_info(stage.allocator, &info, error);
}
static nxmem_result allocator_close(nxmem_error *error) {
  return nxmem_allocator_close(stage.allocator, NXMEM_CLOSE_RELEASE_LIVE, error);
}
static nxmem_result allocate(nxmem_error *error) {
  nxmem_allocation allocation;
  return nxmem_allocate(stage.allocator, 64, 8, NULL, &allocation, error);
}
static nxmem_result release(nxmem_error *error) { return nxmem_release(stage.allocator, live, NULL, error); }
static nxmem_result enqueue(nxmem_error *error) {
  return nxmem_enqueue_release(stage.allocator, live, NULL, NULL, error);
}
static nxmem_result drain(nxmem_error *error) { return nxmem_drain_releases(stage.allocator, 1, NULL, error); }
static nxmem_result pending(nxmem_error *error) {
  nxmem_pending counts;
  return nxmem_pending_releases(stage.allocator, &counts, error);
}
static nxmem_result violations(nxmem_error *error) {
  nxmem_violation latest;
  uint32_t count;
  return nxmem_host_violations(stage.host, &latest, 1, &count, error);
}

static const call_row call_rows[] = {
    {"host_create", host_create},
    {"host_count", host_count},
    {"host_destroy", host_destroy},
    {"plugin_open", plugin_open},
    {"plugin_get_info", plugin_info},
    {"plugin_mechanism", plugin_mechanism},
    {"plugin_symbol", plugin_symbol},
    {"plugin_try_unload", plugin_unload},
    {"plugin_destroy", plugin_destroy},
    {"allocator_open", allocator_open},
    {"allocator_get_info", allocator_info},
    {"allocator_close", allocator_close},
    {"allocate", allocate},
    {"release", release},
    {"enqueue_release", enqueue},
    {"drain_releases", drain},
    {"pending_releases", pending},
    {"host_violations", violations},
};
enum { CALLS = sizeof call_rows / sizeof call_rows[0] };

/* ---- Children ---------------------------------------------------------------------------------------------------- */

static uint64_t entered(void) {
  uint64_t n = 0;
  for (int i = 0; i < NX_PLACES_INSIDE; i++) n += nx_puppet_calls((nx_place_inside)i);
  return n;
}

/* Runs in the child, without a word and without cmocka: 0 where all is as promised. */
static int refused_in_child(const call_row *row) {
  const uint64_t before = entered();
  nxmem_error error;
  memset(&error, 0, sizeof error);
  if (row->run(&error) != NXMEM_ERR_FORKED || error.result != NXMEM_ERR_FORKED) return 1;
  if (strnlen(error.message, sizeof error.message) == 0) return 2;
  if (row->run(NULL) != NXMEM_ERR_FORKED) return 3;
  return entered() == before ? 0 : 4;
}

static int all_refused_in_child(void) {
  for (int i = 0; i < CALLS; i++)
    if (refused_in_child(&call_rows[i]) != 0) return 10 + i;
  uint64_t reclaimed = 1;
  NxmemStatus status = puppet.callbacks->request_reclaim(puppet.callbacks->host_ctx, NULL, &reclaimed);
  if (status.code != NXMEM_STATUS_INVALID_ARGUMENT) return 50;
  status = puppet.callbacks->release_completed(puppet.callbacks->host_ctx, NULL);
  return status.code == NXMEM_STATUS_INVALID_ARGUMENT ? 0 : 51;
}

static void assert_child_content(pid_t child) {
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

static void set_up(void) {
  nx_puppet_reset();
  stage = nx_stage_set(NXMEM_FETCH_GUARDED);
  live = nx_must_allocate(stage.allocator, 64, 8);
}

static void tear_down(void) {
  nx_must_release(stage.allocator, nx_must_allocate(stage.allocator, 64, 8));
  nx_must_release(stage.allocator, live);
  nx_stage_strike(&stage);
}

static void test_call(void **state) {
  set_up();
  const pid_t child = fork();
  if (child == 0) _exit(refused_in_child(*state));
  assert_child_content(child);
  tear_down();
}

static pid_t bare_fork(void) { return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL); }

static void test_bare_fork(void **state) {
  (void)state;
  set_up();
  const pid_t child = bare_fork();
  if (child == 0) _exit(all_refused_in_child());
  assert_child_content(child);
  tear_down();
}

static void test_grandchild(void **state) {
  (void)state;
  set_up();
  const pid_t child = fork();
  if (child == 0) {
    const pid_t grandchild = fork();
    if (grandchild == 0) _exit(all_refused_in_child());
    int status = -1;
    waitpid(grandchild, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
  }
  assert_child_content(child);
  tear_down();
}

/* The child's memory is its own: whatever it tried, the parent's books are as before. */
static void test_parent_intact(void **state) {
  (void)state;
  set_up();
  const nxmem_host_counts before = nx_counts(stage.host);
  for (int i = 0; i < 10; i++) {
    const pid_t child = fork();
    if (child == 0) _exit(all_refused_in_child());
    assert_child_content(child);
  }
  const nxmem_host_counts after = nx_counts(stage.host);
  assert_memory_equal(&before, &after, sizeof before);
  tear_down();
}

/* ---- Beside busy threads: whatever lock they hold, the child does not wait for it -------------------------------- */

static _Atomic int stop;

static void *open_and_close(void *path) {
  while (!atomic_load(&stop)) {
    nxmem_plugin plugin;
    if (nxmem_plugin_open(stage.host, path, &plugin, NULL) == NXMEM_OK)
      while (nxmem_plugin_try_unload(plugin, NULL, NULL) != NXMEM_OK) sched_yield();
  }
  return NULL;
}

static void test_beside_threads(void **state) {
  (void)state;
  set_up();
  atomic_store(&stop, 0);
  pthread_t threads[2];
  for (int i = 0; i < 2; i++)
    pthread_create(&threads[i], NULL, open_and_close, (void *)(uintptr_t)nx_plugin_copy("libnxmem_minimal.so"));
  for (int i = 0; i < 40; i++) {
    const pid_t child = fork();
    if (child == 0) _exit(all_refused_in_child());
    assert_child_content(child);
  }
  atomic_store(&stop, 1);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  tear_down();
}

/* ---- Before any host: a child may use the library for itself ----------------------------------------------------- */

static int use_in_child(const char *path) {
  nxmem_host host;
  nxmem_plugin plugin;
  if (nxmem_host_create(NULL, &host, NULL) != NXMEM_OK) return 1;
  if (nxmem_plugin_open(host, path, &plugin, NULL) != NXMEM_OK) return 2;
  if (nxmem_plugin_try_unload(plugin, NULL, NULL) != NXMEM_OK) return 3;
  return nxmem_host_destroy(host, NULL) == NXMEM_OK ? 0 : 4;
}

/* Must run first: this process has no host yet. */
static void test_before_any_host(void **state) {
  (void)state;
  const char *path = nx_plugin_copy("libnxmem_minimal.so");
  const pid_t child = fork();
  if (child == 0) _exit(use_in_child(path));
  assert_child_content(child);
}

int main(void) {
  alarm(280);
  nx_suite suite = {0};
  nx_suite_add(&suite, "forked before any host", test_before_any_host, NULL);
  nx_suite_rows(&suite, ROWS(call_rows), test_call);
  nx_suite_add(&suite, "everything, after the bare system call", test_bare_fork, NULL);
  nx_suite_add(&suite, "everything, in a grandchild", test_grandchild, NULL);
  nx_suite_add(&suite, "the parent's books", test_parent_intact, NULL);
  nx_suite_add(&suite, "beside threads that open and close", test_beside_threads, NULL);
  return nx_suite_run(&suite, "host_fork");
}
