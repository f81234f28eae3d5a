/*
 * replay_main.c: runs a target on files: seeds and finds as tests, one TAP line each.
 * Attackers: the files' bytes.
 * Promise: an input that crashes is one failed line and no more; so is one that fails only behind others. No file at all
 * is a failure.
 *
 *   fuzz_NAME FILE|FOLDER...      files in a folder, not those of folders beneath it, nor those whose name begins with
 * a dot, nor the notes beside inputs (.toml, .md)
 *   fuzz_NAME --in-process ...    all in this process: for a debugger or a profiler
 */
#define _DEFAULT_SOURCE /* scandir, DT_REG */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

enum { INPUT_MAX = 1 << 20 };

typedef struct file_list {
  char **paths;
  size_t count;
} file_list;

_Noreturn static void give_up(const char *what, const char *path) {
  printf("Bail out! %s: %s: %s\n", path, what, strerror(errno));
  exit(2);
}

static void add_path(file_list *list, char *path) {
  char **grown = realloc(list->paths, (list->count + 1) * sizeof *grown);
  if (grown == NULL || path == NULL) give_up("no memory", "file list");
  list->paths = grown;
  list->paths[list->count++] = path;
}

static char *joined(const char *folder, const char *name) {
  const size_t bytes = strlen(folder) + strlen(name) + 2;
  char *path = malloc(bytes);
  if (path != NULL) snprintf(path, bytes, "%s/%s", folder, name);
  return path;
}

static int is_folder(const char *path) {
  struct stat info;
  if (stat(path, &info) != 0) give_up("cannot be looked at", path);
  return S_ISDIR(info.st_mode);
}

static int ends_with(const char *name, const char *end) {
  const size_t bytes = strlen(name);
  const size_t wanted = strlen(end);
  return bytes >= wanted && strcmp(name + bytes - wanted, end) == 0;
}

static int is_input(const char *name) { return name[0] != '.' && !ends_with(name, ".toml") && !ends_with(name, ".md"); }

static void add_folder(file_list *list, const char *folder) {
  struct dirent **entries = NULL;
  const int count = scandir(folder, &entries, NULL, alphasort);
  if (count < 0) give_up("cannot be listed", folder);
  for (int i = 0; i < count; i++) {
    char *path = is_input(entries[i]->d_name) ? joined(folder, entries[i]->d_name) : NULL;
    if (path != NULL && !is_folder(path))
      add_path(list, path);
    else
      free(path);
    free(entries[i]);
  }
  free(entries);
}

/* As much as the engines allow; an input takes some MiB. */
enum { MEMORY_MAX_MIB = 2048 };

static void check_memory(void) {
  struct rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) == 0 && usage.ru_maxrss / 1024 > MEMORY_MAX_MIB)
    fuzz_fail("memory", "%ld MiB, at most %d", usage.ru_maxrss / 1024, MEMORY_MAX_MIB);
}

static void run_file(const char *path) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) give_up("cannot be opened", path);
  uint8_t *buffer = malloc(INPUT_MAX);
  if (buffer == NULL) give_up("no memory", path);
  const size_t bytes = fread(buffer, 1, INPUT_MAX, file);
  if (ferror(file) != 0) give_up("cannot be read", path);
  fclose(file);
  void *exact = fuzz_exact(buffer, bytes);
  free(buffer);
  LLVMFuzzerTestOneInput(exact, bytes);
  check_memory();
  free(exact);
}

/* 1 where all of them went through, one after the other. */
static int run_apart(char *const *paths, size_t count) {
  fflush(NULL);
  const pid_t child = fork();
  if (child < 0) give_up("cannot fork", paths[0]);
  if (child == 0) {
    for (size_t i = 0; i < count; i++) run_file(paths[i]);
    exit(0);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) give_up("cannot wait", paths[0]);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static const char *file_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash == NULL ? path : slash + 1;
}

/* A process and its end cost more than most inputs: so many share one, and only where one of them fails each is alone. */
enum { BATCH = 64 };

static size_t say(const file_list *list, size_t i, int passed) {
  printf("%s %zu - %s\n", passed ? "ok" : "not ok", i + 1, file_name(list->paths[i]));
  return passed ? 0u : 1u;
}

static size_t run_batch(const file_list *list, size_t from, size_t count, int in_process) {
  size_t failed = 0;
  const int all = !in_process && run_apart(list->paths + from, count);
  for (size_t i = from; i < from + count; i++) {
    if (in_process) run_file(list->paths[i]);
    failed += say(list, i, all || in_process || run_apart(list->paths + i, 1));
  }
  if (all || in_process || failed != 0) return failed;
  printf("# together these inputs fail, each alone does not: %s and the %zu behind it\n", file_name(list->paths[from]),
         count - 1);
  return 1;
}

static size_t run_all(const file_list *list, int in_process) {
  size_t failed = 0;
  printf("1..%zu\n", list->count);
  for (size_t from = 0; from < list->count; from += BATCH)
    failed += run_batch(list, from, list->count - from < BATCH ? list->count - from : BATCH, in_process);
  printf("# %zu inputs replayed, %zu failed\n", list->count, failed);
  return failed;
}

int main(int argc, char **argv) {
  fuzz_start();
  file_list list = {NULL, 0};
  const int in_process = argc > 1 && strcmp(argv[1], "--in-process") == 0;
  for (int i = in_process ? 2 : 1; i < argc; i++) {
    if (is_folder(argv[i]))
      add_folder(&list, argv[i]);
    else
      add_path(&list, strdup(argv[i]));
  }
  if (list.count == 0) {
    printf("Bail out! no input given: FILE|FOLDER...\n");
    return 2;
  }
  const size_t failed = run_all(&list, in_process);
  for (size_t i = 0; i < list.count; i++) free(list.paths[i]);
  free(list.paths);
  return failed == 0 ? 0 : 1;
}
