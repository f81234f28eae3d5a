/*
 * torchtest.c: a process for each case.
 *
 * Attackers: none.
 * Promise: nothing of the adapter is used in the test program itself, so that each case finds it fresh.
 */
#define _GNU_SOURCE
#include "torchtest.h"

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

static int count_lines(FILE *said) {
  int lines = 0, character;
  rewind(said);
  while ((character = fgetc(said)) != EOF) lines += character == '\n';
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
