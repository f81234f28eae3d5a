/*
 * replay_main.c: runs a target on files: seeds and finds as tests, one TAP line each.
 * Attackers: the files' bytes.
 * Promise: each input runs in a process of its own, so that one that crashes is one failed line; no file at all is a
 * failure.
 *
 *   fuzz_NAME FILE|FOLDER...      files in a folder, not those of folders beneath it, nor those whose name begins with
 * a dot
 *   fuzz_NAME --in-process ...    all in this process: for a debugger or a profiler
 */
#define _DEFAULT_SOURCE /* scandir, DT_REG */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static void add_folder(file_list *list, const char *folder) {
  struct dirent **entries = NULL;
  const int count = scandir(folder, &entries, NULL, alphasort);
  if (count < 0) give_up("cannot be listed", folder);
  for (int i = 0; i < count; i++) {
    char *path = entries[i]->d_name[0] == '.' ? NULL : joined(folder, entries[i]->d_name);
    if (path != NULL && !is_folder(path))
      add_path(list, path);
    else
      free(path);
    free(entries[i]);
  }
  free(entries);
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
  free(exact);
}

/* 1 where the input went through. */
static int run_apart(const char *path) {
  fflush(NULL);
  const pid_t child = fork();
  if (child < 0) give_up("cannot fork", path);
  if (child == 0) {
    run_file(path);
    exit(0);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) give_up("cannot wait", path);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static const char *file_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash == NULL ? path : slash + 1;
}

static size_t run_all(const file_list *list, int in_process) {
  size_t failed = 0;
  printf("1..%zu\n", list->count);
  for (size_t i = 0; i < list->count; i++) {
    int passed = 1;
    if (in_process)
      run_file(list->paths[i]);
    else
      passed = run_apart(list->paths[i]);
    failed += passed ? 0u : 1u;
    printf("%s %zu - %s\n", passed ? "ok" : "not ok", i + 1, file_name(list->paths[i]));
  }
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
