/*
 * torch_loading_test.c: who names the plugin, when it is loaded, and when it is no longer called: at exit, in a forked child.
 *
 * Attackers played: threads that all come first; a plugin that calls back while it is opened; the environment of a privileged process.
 * Promise: one plugin, loaded once; a process ends cleanly with whatever is live.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/wait.h>

#include "torchtest.h"

#define SERVED "libnxmem_test_served.so"

static const char *self;

static void set_environment(const char *library, const char *mechanism) {
  CHECK(setenv("NXMEM_TORCH_PLUGIN", nx_torch_library(library), 1) == 0);
  CHECK(mechanism == NULL || setenv("NXMEM_TORCH_MECHANISM", mechanism, 1) == 0);
}

/* ---- The environment --------------------------------------------------------------------------------------------- */

static void from_the_environment(void) {
  set_environment(SERVED, "served");
  CHECK(nx_told.loads == 0);
  (void)nx_torch_must_malloc(64, 0, NULL);
  (void)nx_torch_must_malloc(64, 0, NULL);
  CHECK(nx_told.loads == 1 && nx_told.opens == 1);
}

static void environment_is_read_once(void) {
  CHECK(nxmem_torch_malloc(64, 0, NULL) == NULL && nx_torch_said("names no plugin"));
  set_environment(SERVED, "served");
  CHECK(nxmem_torch_malloc(64, 0, NULL) == NULL && nx_told.loads == 0);
  nx_torch_must_load(SERVED, "served"); /* the program may still name one */
  (void)nx_torch_must_malloc(64, 0, NULL);
}

static void environment_is_empty(void) {
  CHECK(setenv("NXMEM_TORCH_PLUGIN", "", 1) == 0);
  CHECK(nxmem_torch_malloc(64, 0, NULL) == NULL && nx_torch_said("names no plugin"));
}

static void environment_names_no_file(void) {
  set_environment("no such library", NULL);
  CHECK(nxmem_torch_malloc(64, 0, NULL) == NULL);
  CHECK(nxmem_torch_malloc(64, 0, NULL) == NULL && nx_torch_now().failed_mallocs == 2);
}

/* The line stays one line. */
static void environment_of_control_characters(void) {
  CHECK(setenv("NXMEM_TORCH_PLUGIN", nx_torch_library(SERVED), 1) == 0);
  CHECK(setenv("NXMEM_TORCH_MECHANISM", "x\n\x1b[31mx\n", 1) == 0);
  CHECK(nxmem_torch_malloc(64, 0, NULL) == NULL);
  CHECK(strpbrk(nxmem_torch_last_error(), "\n\x1b") == NULL);
}

static void *first_use(void *ignored) {
  (void)ignored;
  void *ptr = nx_torch_must_malloc(64, 0, NULL);
  nxmem_torch_free(ptr, 64, 0, NULL);
  return NULL;
}

static void eight_threads_come_first(void) {
  enum { THREADS = 8 };
  pthread_t threads[THREADS];
  set_environment(SERVED, "served");
  for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, first_use, NULL) == 0);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(nx_told.loads == 1 && nx_told.opens == 1 && nx_torch_now().mallocs == THREADS);
}

static void *failing_use(void *ignored) {
  (void)ignored;
  CHECK(nxmem_torch_malloc(64, 0, NULL) == NULL);
  return NULL;
}

static void eight_threads_come_first_in_vain(void) {
  enum { THREADS = 8 };
  pthread_t threads[THREADS];
  set_environment(SERVED, "nothing of that name");
  for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, failing_use, NULL) == 0);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(nx_told.loads == 1 && nx_torch_now().failed_mallocs == THREADS);
}

/* ---- The program ------------------------------------------------------------------------------------------------- */

static void named_twice(void) {
  nx_torch_must_load(SERVED, "served");
  CHECK(nx_torch_load("libnxmem_minimal.so", NULL) == NXMEM_ERR_BUSY);
  (void)nx_torch_must_malloc(64, 0, NULL);
}

static void named_before_the_environment(void) {
  set_environment("libnxmem_minimal.so", NULL);
  nx_torch_must_load(SERVED, "served");
  (void)nx_torch_must_malloc(64, 0, NULL);
  CHECK(nx_told.opens == 1);
}

static void cannot_be_opened(void) {
  CHECK(nx_torch_load("no such library", NULL) == NXMEM_ERR_CANNOT_OPEN);
  CHECK(nxmem_torch_configure("libnxmem_minimal.so", NULL) == NXMEM_ERR_INVALID_ARGUMENT); /* no absolute path */
  CHECK(nxmem_torch_configure(NULL, NULL) == NXMEM_ERR_INVALID_ARGUMENT);
  nx_torch_must_load(SERVED, "served");
}

static void only_mechanism(void) {
  nx_torch_must_load("libnxmem_minimal.so", NULL);
  void *ptr = nx_torch_must_malloc(64, 0, NULL);
  nxmem_torch_free(ptr, 64, 0, NULL);
  CHECK(nx_torch_now().frees == 1 && nx_torch_now().queued_frees == 0);
}

static void several_mechanisms(void) {
  CHECK(nx_torch_load(SERVED, NULL) == NXMEM_ERR_UNKNOWN_MECHANISM);
  CHECK(nx_torch_load(SERVED, "none") == NXMEM_ERR_UNKNOWN_MECHANISM);
  CHECK(nx_told.loads == 2);
  nx_torch_must_load(SERVED, "hosted");
  CHECK(nx_told.loads == 3); /* nothing of it had stayed */
}

static void scripted_lazy(void) {
  nx_torch_must_load("libnxmem_scripted.so", "lazy");
  void *blocks[100];
  for (int i = 0; i < 100; i++) blocks[i] = nx_torch_must_malloc(100000, 0, nx_torch_stream((uintptr_t)i * 16));
  for (int i = 0; i < 100; i++) nxmem_torch_free(blocks[i], 100000, 0, nx_torch_stream((uintptr_t)i * 16));
  nxmem_torch_reset();
  CHECK(nx_torch_now().queued_frees == 100 && nx_torch_now().pending == 0 && nx_torch_now().drained == 100);
}

/* ---- Calls from within the plugin -------------------------------------------------------------------------------- */

static void call_back(void) { CHECK(nxmem_torch_malloc(64, 0, NULL) == NULL && nx_torch_said("from within")); }

static void called_from_within_an_open(void) {
  nx_told.in_open = call_back;
  nx_torch_must_load(SERVED, "served");
  (void)nx_torch_must_malloc(64, 0, NULL);
  CHECK(nx_torch_now().failed_mallocs == 1);
}

/* ---- The end ----------------------------------------------------------------------------------------------------- */

static void exits_with_live_blocks(void) {
  nx_torch_must_load(SERVED, "served");
  for (int i = 0; i < 100; i++) (void)nx_torch_must_malloc(4096, i % 2, nx_torch_stream((uintptr_t)i % 3 * 0x100));
  nx_told.hold = 1;
  nxmem_torch_free(nx_torch_must_malloc(4096, 0, NULL), 4096, 0, NULL);
}

static void *left_over;

/* Registered before the plugin was loaded, so that it runs behind the adapter's own. */
static void late(void) {
  const unsigned enqueues = nx_told.enqueues;
  nxmem_torch_free(left_over, 4096, 0, NULL);
  CHECK(nxmem_torch_malloc(4096, 0, NULL) == NULL);
  nxmem_torch_record_stream(left_over, nx_torch_stream(0x100));
  nxmem_torch_reset();
  CHECK(nxmem_torch_configure("/x", NULL) == NXMEM_ERR_FORKED);
  CHECK(nx_told.enqueues == enqueues && nx_torch_now().late_calls == 5 && nx_torch_now().live_blocks == 1);
}

static void freed_while_exiting(void) {
  CHECK(atexit(late) == 0);
  nx_torch_must_load(SERVED, "served");
  left_over = nx_torch_must_malloc(4096, 0, NULL);
}

static void forked_child(void) {
  nx_torch_must_load(SERVED, "served");
  void *ptr = nx_torch_must_malloc(4096, 0, NULL);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    nxmem_torch_free(ptr, 4096, 0, NULL);
    CHECK(nxmem_torch_malloc(4096, 0, NULL) == NULL && nx_torch_said("forked"));
    _exit(nx_told.enqueues == 0 && nx_torch_now().live_blocks == 1 ? 0 : 1);
  }
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  nxmem_torch_free(ptr, 4096, 0, NULL);
  CHECK(nx_told.enqueues == 1);
}

/* ---- Privileges -------------------------------------------------------------------------------------------------- */

/* What this program does when it is started anew with another effective group than its real one. */
static int be_privileged(void) {
  if (getauxval(AT_SECURE) == 0) return 2;
  CHECK(nxmem_torch_malloc(64, 0, NULL) == NULL && nx_torch_said("more rights"));
  CHECK(nx_torch_load("libnxmem_minimal.so", NULL) == NXMEM_OK);
  (void)nx_torch_must_malloc(64, 0, NULL);
  return 0;
}

static void privileged_process(void) {
  set_environment("libnxmem_minimal.so", NULL);
  CHECK(setresgid((gid_t)-1, 65534, (gid_t)-1) == 0);
  (void)execl(self, self, "--privileged", (char *)NULL);
  CHECK(!"started anew");
}

static void test_privileged(void **state) {
  if (geteuid() != 0) skip(); /* only root may change its effective group to any other */
  nx_torch_run(state);
}

static const nx_torch_case cases[] = {
    {"named by the environment", from_the_environment, 0},
    {"the environment is read once", environment_is_read_once, 1},
    {"an empty name", environment_is_empty, 1},
    {"a file that is not there", environment_names_no_file, 1},
    {"control characters in the environment", environment_of_control_characters, 1},
    {"eight threads come first", eight_threads_come_first, 0},
    {"eight threads come first, in vain", eight_threads_come_first_in_vain, 1},
    {"named twice", named_twice, 1},
    {"named before the environment is read", named_before_the_environment, 0},
    {"files that cannot be opened", cannot_be_opened, 1},
    {"the only mechanism", only_mechanism, 0},
    {"several mechanisms and none named", several_mechanisms, 1},
    {"the scripted plugin's lazy", scripted_lazy, 0},
    {"called from within an open", called_from_within_an_open, 1},
    {"exit with live blocks", exits_with_live_blocks, 0},
    {"freed while exiting", freed_while_exiting, 0},
    {"a forked child", forked_child, 1},
};
static const nx_torch_case privileged = {"", privileged_process, 1};

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "--privileged") == 0) return be_privileged();
  self = argv[0];
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(cases), nx_torch_run);
  nx_suite_add(&suite, "the environment of a privileged process", test_privileged, &privileged);
  return nx_suite_run(&suite, "torch_loading");
}
