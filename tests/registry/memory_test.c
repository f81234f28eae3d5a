/*
 * memory_test.c: the registry's own memory runs out, at each of its allocations in turn. Linked with the host's objects, so that only they are starved.
 *
 * Attackers played: a machine without memory.
 * Promise: each failure is OUT_OF_MEMORY, leaves nothing behind in the plugin or in any book, and the next try works.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "registrytest.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
int __real_posix_memalign(void **out, size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
int __wrap_posix_memalign(void **out, size_t alignment, size_t size);

static struct {
  int armed;
  uint64_t calls; /* since it was armed first */
  uint64_t fail;  /* the first call that fails */
  int for_good;   /* and all after it, until somebody notices */
} memory;

static int starved(void) {
  if (!memory.armed) return 0;
  memory.calls++;
  return memory.fail != 0 && (memory.calls == memory.fail || (memory.for_good && memory.calls > memory.fail));
}

void *__wrap_malloc(size_t size) { return starved() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) { return starved() ? NULL : __real_calloc(count, size); }
int __wrap_posix_memalign(void **out, size_t alignment, size_t size) {
  return starved() ? ENOMEM : __real_posix_memalign(out, alignment, size);
}

/* ---- A whole life, step by step ----------------------------------------------------------------------------------- */

static nx_play play;
static nxmem_mechanism m;
static nxmem_binding b;
static nxmem_bound bound;
static nxmem_prepared prepared;
static nxmem_release_queue queue;

static nxmem_result create(nxmem_error *error) { return nxmem_registry_create(&play.registry, error); }
static nxmem_result context(nxmem_error *error) { return nxmem_context_create(play.registry, &play.context, error); }
static nxmem_result authority(nxmem_error *error) {
  return nxmem_authority_create(play.registry, &play.authority, error);
}
static nxmem_result mechanism(nxmem_error *error) {
  const nxmem_open_options options = {.mechanism = "puppet"};
  return nxmem_mechanism_register(play.context, play.authority, play.plugin, &options, &m, error);
}
static nxmem_result bind_it(nxmem_error *error) { return nxmem_bind(play.registry, nx_device_0, &b, error); }
static nxmem_result allocate(nxmem_error *error) { return nxmem_bound_allocate(b, 64, 16, NULL, &bound, error); }
static nxmem_result release(nxmem_error *error) { return nxmem_bound_release(&bound, error); }
static nxmem_result prepare(nxmem_error *error) { return nxmem_bound_prepare(&bound, &prepared, error); }
static nxmem_result make_queue(nxmem_error *error) {
  return nxmem_release_queue_create(play.registry, 4, &queue, error);
}
static nxmem_result push(nxmem_error *error) { return nxmem_release_queue_push(queue, prepared, error); }
static nxmem_result drain(nxmem_error *error) { return nxmem_release_queue_drain(queue, 1, NULL, error); }
static nxmem_result end_queue(nxmem_error *error) { return nxmem_release_queue_destroy(queue, NULL, error); }
static nxmem_result end_binding(nxmem_error *error) { return nxmem_binding_end(b, 0, error); }
static nxmem_result retire(nxmem_error *error) { return nxmem_mechanism_retire(m, error); }
static nxmem_result remove_it(nxmem_error *error) { return nxmem_mechanism_remove(m, NULL, error); }

static nxmem_result (*const steps[])(nxmem_error *) = {create,    context,     authority, mechanism,  bind_it, allocate,
                                                       release,   allocate,    prepare,   make_queue, push,    drain,
                                                       end_queue, end_binding, retire,    remove_it};
enum { STEPS = sizeof steps / sizeof steps[0] };

/* What a step that failed may have left: nothing in the plugin, no pin, no use. */
static int is_clean(int step) {
  const uint64_t has_one = step >= 8 && step <= 11; /* allocated, and not drained yet */
  if ((uint64_t)atomic_load(&puppet.live_allocations) != has_one) return 0;
  if (nx_puppet_calls(NX_IN_OPEN) != nx_puppet_calls(NX_IN_RELEASE) + (step > 3)) return 0;
  nxmem_binding_info info;
  if (step > 4 && (nxmem_binding_get_info(b, &info, NULL) != NXMEM_OK || info.uses != has_one)) return 0;
  uint64_t pins = 0;
  if (step > 2 && (nxmem_context_pins(play.context, &pins, NULL) != NXMEM_OK || pins != (step > 3))) return 0;
  if (step > 2 && (nxmem_authority_pins(play.authority, &pins, NULL) != NXMEM_OK || pins != (step > 3))) return 0;
  const nxmem_host_counts counts = nx_counts(play.host);
  return counts.live_allocations == has_one && counts.quarantined == 0 && counts.contract_violations == 0;
}

/* 0 or where it went wrong. */
static int live_through(void) {
  play.host = nx_host_in(NXMEM_FETCH_GUARDED);
  play.plugin = nx_must_open(play.host, play.path);
  for (int i = 0; i < STEPS; i++) {
    nxmem_error error;
    memory.armed = 1;
    nxmem_result r = steps[i](&error);
    memory.armed = 0;
    if (r == NXMEM_ERR_OUT_OF_MEMORY) {
      if (error.result != r || strnlen(error.message, sizeof error.message) == 0) return 20 + i;
      memory.fail = 0;
      if (!is_clean(i)) return 40 + i;
      r = steps[i](&error);
    }
    if (r != NXMEM_OK) return 60 + i;
  }
  nx_play_strike(&play);
  return 0;
}

/* In a child, since tables that have grown once do not grow again. */
static int live_in_child(uint64_t fail, int for_good, uint64_t *calls_out) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  nx_puppet_reset();
  play.path = nx_puppet_copy();
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    memory.fail = fail;
    memory.for_good = for_good;
    const int code = live_through();
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

/* Tables of registries, contexts, authorities, mechanisms, bindings and queues, a ring, and what stands beside allocations. */
static void test_reach(void **state) {
  (void)state;
  uint64_t calls = 0;
  assert_int_equal(live_in_child(0, 0, &calls), 0);
  assert_in_range(calls, 8, 64);
}

int main(void) {
  nx_suite suite = {0};
  static starving rows[128];
  uint64_t calls = 0;
  if (live_in_child(0, 0, &calls) != 0 || calls > 64) return 1;
  nx_suite_add(&suite, "the registry's allocations are reached", test_reach, NULL);
  for (uint64_t n = 1; n <= calls; n++)
    for (int good = 0; good < 2; good++) {
      starving *row = &rows[2 * (n - 1) + (uint64_t)good];
      *row = (starving){n, good};
      nx_suite_add(&suite, nx_name("allocation %u fails%s", (unsigned)n, good ? " and all after it" : ""),
                   test_starving, row);
    }
  return nx_suite_run(&suite, "registry memory");
}
