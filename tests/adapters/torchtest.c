/*
 * torchtest.c: a process for each case.
 *
 * Attackers: none.
 * Promise: nothing of the adapter is used in the test program itself, so that each case finds it fresh.
 */
#define _GNU_SOURCE
#include "torchtest.h"

#include <pthread.h>
#include <sys/wait.h>

nx_script nx_told;

static void tell_script(void) {
  char text[32];
  (void)snprintf(text, sizeof text, "%p", (void *)&nx_told);
  CHECK(setenv(NX_SCRIPT_ENV, text, 1) == 0);
}

static void be_case(const nx_torch_case *row, int said) {
  if (dup2(said, STDERR_FILENO) < 0) _exit(2);
  tell_script();
  alarm(100);
  row->run();
  exit(0);
}

/* What the simulated driver lists at the end is the process's to leave: nothing is unloaded. */
static int count_lines(FILE *said) {
  static const char simulator[] = "fakecuda: not given back: ";
  char line[2048];
  int lines = 0;
  rewind(said);
  while (fgets(line, sizeof line, said) != NULL) lines += strncmp(line, simulator, sizeof simulator - 1) != 0;
  return lines;
}

static void show(FILE *said) {
  char line[2048];
  rewind(said);
  while (fgets(line, sizeof line, said) != NULL) printf("# stderr: %s", line);
}

void nx_torch_run(void **state) {
  const nx_torch_case *row = *state;
  FILE *said = tmpfile();
  assert_non_null(said);
  fflush(stdout);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) be_case(row, fileno(said));
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  const int lines = count_lines(said);
  if (status != 0 || lines != row->lines) show(said);
  (void)fclose(said);
  assert_int_equal(status, 0);
  assert_int_equal(lines, row->lines);
}

const char *nx_torch_library(const char *name) {
  static char path[4096];
  (void)snprintf(path, sizeof path, "%s/%s", NX_LIBRARIES, name);
  return path;
}

nxmem_result nx_torch_load(const char *library, const char *mechanism) {
  return nxmem_torch_configure(nx_torch_library(library), mechanism);
}

void nx_torch_must_load(const char *library, const char *mechanism) {
  CHECK(nx_torch_load(library, mechanism) == NXMEM_OK);
}

nxmem_torch_counts nx_torch_now(void) {
  nxmem_torch_counts counts;
  nxmem_torch_count(&counts);
  return counts;
}

nxmem_torch_stream nx_torch_stream(uintptr_t number) { return (nxmem_torch_stream)number; }

void *nx_torch_must_malloc(ssize_t size, int device, nxmem_torch_stream stream) {
  void *ptr = nxmem_torch_malloc(size, device, stream);
  CHECK(ptr != NULL);
  CHECK((uintptr_t)ptr % 512u == 0);
  memset(ptr, 0x5A, (size_t)size);
  return ptr;
}

int nx_torch_said(const char *part) { return strstr(nxmem_torch_last_error(), part) != NULL; }

/* ---- Threads ----------------------------------------------------------------------------------------------------- */

enum { THREADS = 8, ROUNDS = 500, SHELF = 64 };

/* Blocks between threads: whoever finds one frees it. Its size stands in its first bytes, and its last tells whether it was the caller's alone. */
static _Atomic(uint64_t *) shelf[SHELF];
static unsigned device_count, stream_count;

static int device_of(uint64_t bytes) { return (int)(bytes / 8 % device_count); }
static nxmem_torch_stream stream_of(uint64_t bytes) { return nx_torch_stream(bytes / 8 % stream_count * 0x100); }

static void drop(uint64_t *block) {
  if (block == NULL) return;
  const uint64_t bytes = block[0];
  CHECK(block[bytes / 8 - 1] == (bytes ^ (uintptr_t)block));
  block[bytes / 8 - 1] = 0;
  nxmem_torch_free(block, (ssize_t)bytes, device_of(bytes), stream_of(bytes));
}

static void *work(void *argument) {
  uint32_t random = (uint32_t)(uintptr_t)argument * 2654435761u + 1u;
  for (int i = 0; i < ROUNDS; i++) {
    random = random * 1664525u + 1013904223u;
    const uint64_t bytes = 64 + (random >> 16) % 512 * 8;
    uint64_t *block = nx_torch_must_malloc((ssize_t)bytes, device_of(bytes), stream_of(bytes));
    block[0] = bytes;
    block[bytes / 8 - 1] = bytes ^ (uintptr_t)block;
    drop(atomic_exchange(&shelf[(random >> 8) % SHELF], block));
  }
  return NULL;
}

void nx_torch_threads(unsigned devices, unsigned streams) {
  pthread_t threads[THREADS];
  device_count = devices;
  stream_count = streams;
  for (uintptr_t i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  for (int i = 0; i < SHELF; i++) drop(atomic_exchange(&shelf[i], NULL));
  nxmem_torch_reset();
  const nxmem_torch_counts counts = nx_torch_now();
  CHECK(counts.mallocs == THREADS * ROUNDS && counts.frees == counts.mallocs && counts.queued_frees == counts.frees);
  CHECK(counts.live_blocks == 0 && counts.live_bytes == 0 && counts.pending == 0 && counts.kept_blocks == 0);
  CHECK(counts.foreign_frees == 0 && counts.failed_mallocs == 0);
}
