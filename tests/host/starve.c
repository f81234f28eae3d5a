/*
 * starve.c: a machine without memory, as the host's objects see it.
 * Attackers played: a machine without memory.
 * Promise: only what runs while it is armed is starved, and it is counted.
 */
#define _GNU_SOURCE
#include "starve.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
char *__real_strdup(const char *text);
int __real_posix_memalign(void **out, size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
char *__wrap_strdup(const char *text);
int __wrap_posix_memalign(void **out, size_t alignment, size_t size);

static struct {
  int armed;
  uint64_t calls; /* since it was armed */
  uint64_t fail;  /* the first call that fails */
  int for_good;   /* and all after it */
} memory;

static int starved(void) {
  if (!memory.armed) return 0;
  memory.calls++;
  return memory.fail != 0 && (memory.calls == memory.fail || (memory.for_good && memory.calls > memory.fail));
}

void *__wrap_malloc(size_t size) { return starved() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) { return starved() ? NULL : __real_calloc(count, size); }
void *__wrap_realloc(void *block, size_t size) { return starved() ? NULL : __real_realloc(block, size); }
int __wrap_posix_memalign(void **out, size_t alignment, size_t size) {
  return starved() ? ENOMEM : __real_posix_memalign(out, alignment, size);
}
char *__wrap_strdup(const char *text) { return starved() ? NULL : __real_strdup(text); }

void nx_starve(int armed) { memory.armed = armed; }
void nx_starve_no_more(void) { memory.fail = 0; }

/* ---- One life ---------------------------------------------------------------------------------------------------- */

static struct {
  nx_starved_life live;
  void (*prepare)(void);
} life;

static int live_in_child(uint64_t fail, int for_good, uint64_t *calls_out) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  life.prepare();
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    memory.fail = fail;
    memory.for_good = for_good;
    const int code = life.live();
    if (write(ends[1], &memory.calls, sizeof memory.calls) != sizeof memory.calls) exit(99);
    exit(code);
  }
  close(ends[1]);
  assert_int_equal(read(ends[0], calls_out, sizeof *calls_out), sizeof *calls_out);
  close(ends[0]);
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

typedef struct starving {
  uint64_t fail;
  int for_good;
} starving;

static void test_starving(void **state) {
  const starving *row = *state;
  uint64_t calls = 0;
  assert_int_equal(live_in_child(row->fail, row->for_good, &calls), 0);
  assert_true(calls >= row->fail);
}

/* Fewer would mean that the starving does not reach the host. */
static void test_reach(void **state) {
  (void)state;
  uint64_t calls = 0;
  assert_int_equal(live_in_child(0, 0, &calls), 0);
  assert_in_range(calls, 8, 64);
}

int nx_starve_suite(const char *name, const char *reached, nx_starved_life live, void (*prepare)(void)) {
  nx_suite suite = {0};
  static starving rows[128];
  uint64_t calls = 0;
  life.live = live;
  life.prepare = prepare;
  if (live_in_child(0, 0, &calls) != 0 || calls > 64) return 1;
  nx_suite_add(&suite, reached, test_reach, NULL);
  for (uint64_t n = 1; n <= calls; n++)
    for (int good = 0; good < 2; good++) {
      starving *row = &rows[2 * (n - 1) + (uint64_t)good];
      *row = (starving){n, good};
      nx_suite_add(&suite, nx_name("allocation %u fails%s", (unsigned)n, good ? " and all after it" : ""),
                   test_starving, row);
    }
  return nx_suite_run(&suite, name);
}
