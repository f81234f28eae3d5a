/*
 * contract_replay.c: runs the target `core` on files and on inputs made from them, all in one process, until a contract
 * is violated.
 * Attackers: the files' bytes.
 * Promise: the first violation is one line, and its input can be kept; the same arguments run the same inputs.
 */
#define _DEFAULT_SOURCE /* scandir */
#include <dirent.h>
#include <errno.h>
#include <sanitizer/asan_interface.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/call.h"
#include "harness.h"
#include "mutate.h"
#include "runtime.h"

enum { FOUND_ONE = 1, USAGE = 2, COULD_NOT_RUN = 3, INPUT_MAX = 4096 };

static const char usage[] =
    "usage: contract_replay [--random N] [--seed S] [--topic NAME] [--save FILE] [--fault N] FILE|FOLDER...\n"
    "\n"
    "Runs the calls of the inputs in the order given, then N made from them (0 by default) with seed S (1 by "
    "default).\n"
    "--topic  only inputs that call a function of abi/src/NAME.c\n"
    "--save   where an input is written whose first call violates the contract\n"
    "--fault  which of the faults that planted.py put in happens (default 0, none)\n"
    "The first violation ends the run with the line\n"
    "  VIOLATION function=F clause=LABEL input=PATH#CALL|random:SEED:INDEX text=PREDICATE\n"
    "where a crash, or a finding of AddressSanitizer, is the clause \"crash\" of the function called.\n"
    "Exit code: 0 none, 1 a violation, 2 usage, 3 could not run.\n";

/* Looked for by AddressSanitizer: a report is one line here, and quick. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "symbolize=0:detect_leaks=0:allocator_may_return_null=1"; }

/* ---- The input at hand ---------------------------------------------------------------------------------------- */

static const uint8_t *current;
static size_t current_bytes;
static char current_name[512];
static const char *save_path;
static const char *called = "?";

static void save_input(void) {
  if (save_path == NULL) return;
  FILE *file = fopen(save_path, "wb");
  if (file == NULL) return;
  fwrite(current, 1, current_bytes, file);
  fclose(file);
}

_Noreturn static void tell(const char *function, const char *clause, const char *text) {
  printf("VIOLATION function=%s clause=%s input=%s text=", function, clause, current_name);
  for (; *text != '\0'; text++) putchar(*text == '\n' ? ' ' : *text);
  putchar('\n');
  fflush(stdout);
  save_input();
  _Exit(FOUND_ONE);
}

static void tell_violation(const contract_violation *v) { tell(v->function, v->clause, v->text); }

static void tell_crash(void) { tell(called, "crash", "a fault, or memory outside a block"); }

static void tell_signal(int number) {
  (void)number;
  tell_crash();
}

/* Returns how many bytes of the input its first call is. */
static size_t run_call(const uint8_t *data, size_t bytes) {
  current = data;
  current_bytes = bytes;
  called = core_function_of(data, bytes);
  return core_run_first(data, bytes);
}

/* ---- Files ---------------------------------------------------------------------------------------------------- */

static contract_pool pool;
static int only_topic = -1;

_Noreturn static void give_up(const char *what, const char *path) {
  fprintf(stderr, "contract_replay: %s: %s: %s\n", path, what, strerror(errno));
  exit(COULD_NOT_RUN);
}

static void keep_call(const char *path, const uint8_t *data, size_t bytes) {
  if (!contract_pool_add(&pool, data, bytes)) give_up("no memory", path);
}

/* Each call of the file by itself, with the file's first two bytes before it. */
static void run_calls(const char *path, uint8_t *data, size_t bytes) {
  size_t number = 0;
  while (bytes > 2 || number == 0) {
    snprintf(current_name, sizeof current_name, "%s#%zu", path, number++);
    const size_t eaten = run_call(data, bytes);
    keep_call(path, data, eaten);
    memmove(data + 2, data + eaten, bytes - eaten);
    bytes -= eaten - 2;
    if (eaten == 2) break;
  }
}

static void run_file(const char *path) {
  uint8_t buffer[INPUT_MAX];
  FILE *file = fopen(path, "rb");
  if (file == NULL) give_up("cannot be opened", path);
  const size_t bytes = fread(buffer, 1, sizeof buffer, file);
  if (ferror(file) != 0) give_up("cannot be read", path);
  fclose(file);
  if (bytes < 2 || (only_topic >= 0 && core_topic_byte(core_topic_of(buffer, bytes)) != only_topic)) return;
  run_calls(path, buffer, bytes);
}

static void run_path(const char *path);

static void run_folder(const char *folder) {
  struct dirent **entries = NULL;
  const int count = scandir(folder, &entries, NULL, alphasort);
  if (count < 0) give_up("cannot be listed", folder);
  for (int i = 0; i < count; i++) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
    if (entries[i]->d_name[0] != '.') run_path(path);
    free(entries[i]);
  }
  free(entries);
}

static void run_path(const char *path) {
  struct stat info;
  if (stat(path, &info) != 0) give_up("cannot be looked at", path);
  if (S_ISDIR(info.st_mode))
    run_folder(path);
  else
    run_file(path);
}

/* ---- Runs ----------------------------------------------------------------------------------------------------- */

static void run_random(uint64_t seed, uint64_t count) {
  static uint8_t buffer[INPUT_MAX];
  for (uint64_t i = 0; i < count; i++) {
    const size_t bytes = contract_mutate(&pool, seed, i, buffer, sizeof buffer);
    snprintf(current_name, sizeof current_name, "random:%llu:%llu", (unsigned long long)seed, (unsigned long long)i);
    run_call(buffer, bytes);
  }
}

static uint64_t number(const char *text) {
  char *end = NULL;
  errno = 0;
  const uint64_t value = strtoull(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0') {
    fputs(usage, stderr);
    exit(USAGE);
  }
  return value;
}

typedef struct arguments {
  uint64_t random;
  uint64_t seed;
} arguments;

/* One option with its value; 0 where it is none. */
static int take_option(arguments *a, const char *option, const char *value) {
  if (strcmp(option, "--random") == 0) {
    a->random = number(value);
  } else if (strcmp(option, "--seed") == 0) {
    a->seed = number(value);
  } else if (strcmp(option, "--fault") == 0) {
    contract_fault = (int)number(value);
  } else if (strcmp(option, "--save") == 0) {
    save_path = value;
  } else if (strcmp(option, "--topic") == 0) {
    only_topic = core_topic_byte(value);
    return only_topic >= 0;
  } else {
    return 0;
  }
  return 1;
}

int main(int argc, char **argv) {
  arguments a = {0, 1};
  int at = 1;
  if (argc > 1 && strcmp(argv[1], "--help") == 0) return fputs(usage, stdout) < 0 ? COULD_NOT_RUN : 0;
  for (; at < argc && argv[at][0] == '-'; at += 2)
    if (at + 1 >= argc || !take_option(&a, argv[at], argv[at + 1])) return fputs(usage, stderr), USAGE;
  fuzz_start();
  contract_set_reporter(tell_violation);
  __asan_set_death_callback(tell_crash);
  signal(SIGABRT, tell_signal);
  for (; at < argc; at++) run_path(argv[at]);
  if (pool.count == 0) return fputs("contract_replay: no input of that topic\n", stderr), COULD_NOT_RUN;
  const size_t known = pool.count;
  run_random(a.seed, a.random);
  printf("contract: %zu calls from files and %llu made from them, 0 violations\n", known, (unsigned long long)a.random);
  return 0;
}
