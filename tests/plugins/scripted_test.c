/*
 * scripted_test.c: does each mechanism of the scripted plugin commit what its name says, and nothing else?
 *
 * Attackers played: none; here the attackers are under test, since a fixture that is tame by accident proves nothing.
 * Promise: every listed mechanism has a row here, and the module counts what befalls it, to its end and beyond.
 */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "shows.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

/* ---- Rows ------------------------------------------------------------------------------------------------------- */

#define BIT_40 (1ull << 40)

static const mechanism_row rows[] = {
    {"eager", 128, 1, STRUCTURED, ANY, 1, show_eager},
    {"lazy", 128, 1, ALL, ANY, 1, show_lazy},
    {"legacy-1-0", 120, 0, PLAIN, ANY, 1, show_legacy},
    {"guard-page-table", 120, 0, PLAIN, 120, 1, show_honest},
    {"poisoned-tail", 192, 2, STRUCTURED, ANY, 1, show_poison},
    {"ahead", 136, 2, STRUCTURED | BIT_40, ANY, 1, show_poison},
    {"ahead-of-host", 136, 2, STRUCTURED, ANY, 1, show_ahead_of_host},
    {"undeclared-slot", 128, 1, PLAIN, ANY, 1, show_undeclared_slots},
    {"short-struct", 120, 1, STRUCTURED, ANY, 0, show_stateless},
    {"lying-size", 128, 1, STRUCTURED, 120, 1, show_honest},
    {"missing-slot", 128, 1, STRUCTURED, ANY, 1, show_missing_slot},
    {"flag-without-slot", 128, 1, STRUCTURED, ANY, 1, show_no_release_slot},
    {"zero-mechanism", 128, 1, STRUCTURED, ANY, 1, show_no_mechanism},
    {"unknown-capability", 128, 1, STRUCTURED | BIT_40, ANY, 1, show_honest},
    {"wrong-device", 128, 1, STRUCTURED, ANY, 1, show_other_device},
    {"undeclared-table", 128, 1, STRUCTURED, ANY, 1, show_undeclared},
    {"null-table", 0, 0, 0, ANY, 0, show_null},
    {"wild-table", 0, 0, 0, ANY, 0, show_wild},
    {"misaligned-table", 0, 0, 0, ANY, 0, show_misaligned},
    {"open-refuses", 0, 0, 0, ANY, 0, NULL},
    {"allocate-refuses", 128, 1, PLAIN, ANY, 1, show_refused_allocate},
    {"null-address", 128, 1, PLAIN, ANY, 1, show_null_address},
    {"misaligned-address", 128, 1, PLAIN, ANY, 1, show_misaligned_address},
    {"wrapping-address", 128, 1, PLAIN, ANY, 1, show_wrapping_address},
    {"huge-numbers", 128, 1, PLAIN, ANY, 1, show_huge},
    {"same-address-twice", 128, 1, PLAIN, ANY, 1, show_same_address},
    {"deallocate-refuses", 128, 1, PLAIN, ANY, 1, show_refused_deallocate},
    {"over-refund", 128, 1, PLAIN, ANY, 1, show_over_refund},
    {"calls-host", 128, 1, PLAIN, ANY, 1, show_calls_host},
    {"callback-probe", 128, 1, STRUCTURED, ANY, 1, show_callback_probe},
    {"callback-after-drop", 128, 1, STRUCTURED, ANY, 1, show_after_drop},
    {"refusing-deferred", 128, 1, DEFERRED, ANY, 1, show_refused_enqueue},
    {"reentrant-completion", 128, 1, DEFERRED, ANY, 1, show_completion_inside_enqueue},
    {"drip", 128, 1, DEFERRED, ANY, 1, show_drip},
    {"complete-on-release", 128, 1, DEFERRED, ANY, 1, show_completion_inside_release},
    {"quarantining", 128, 1, STRUCTURED, ANY, 1, show_quarantine},
    {"future-state", 128, 1, STRUCTURED, ANY, 1, show_future},
    {"no-outcome", 128, 1, STRUCTURED, ANY, 1, show_no_outcome},
    {"status-quarantined", 128, 1, STRUCTURED, ANY, 1, show_status_only},
    {"failed-release", 128, 1, STRUCTURED, ANY, 1, show_failed_first},
};

static const subject scripted = {"libnxmem_scripted.so", "scripted", 0u, 31u};

/* The one that yields nothing. */
static void run_refused_open(const subject *s, const void *data) {
  const mechanism_row *row = data;
  plugin p;
  plugin_load(&p, s->file);
  plugin_find(&p, row->name);
  const scene shown = {&p, NULL, NULL};
  row->show(&shown);
  assert_int_equal(p.probe(NX_PROBE_ALLOCATORS_OPENED), 0u);
  plugin_close(&p);
}
static const mechanism_row refused_open = {"open-refuses", 0, 0, 0, ANY, 0, show_refused_open};

/* ---- The module as a whole -------------------------------------------------------------------------------------- */

typedef struct module_row {
  const char *name;
} module_row;
static const module_row observe_row = {"an observer reads the counts after the module is gone"};
static const module_row environment_row = {"an observer in the environment sees the module from its start"};

/* A second release of factory and allocator; the counts go on after the unload. */
static void observed_life(plugin *p) {
  const NxmemAllocatorVtable *table = plugin_open(p);
  const NxmemAllocation allocation = take(table, 5u, 100u, 64u);
  void (*const release)(void *) = table->release;
  void *const ctx = table->ctx;
  give_back(table, &allocation);
  release(ctx);
  release(ctx);
  void (*const release_factory)(void *) = p->factory->release;
  void *const factory_ctx = p->factory->ctx;
  for (uint64_t i = 0u; i < p->listed; i++) p->list[i]->release(p->list[i]->ctx);
  release_factory(factory_ctx);
  p->listed = 0u;
  plugin_close(p);
}

static void assert_observed(const uint64_t *counters) {
  assert_int_equal(counters[NX_PROBE_FACTORIES_CREATED], COUNT(rows));
  assert_int_equal(counters[NX_PROBE_FACTORIES_RELEASED], COUNT(rows));
  assert_int_equal(counters[NX_PROBE_STRAY_FACTORY_CALLS], 1u);
  assert_int_equal(counters[NX_PROBE_ALLOCATORS_OPENED], 1u);
  assert_int_equal(counters[NX_PROBE_ALLOCATORS_RELEASED], 1u);
  assert_int_equal(counters[NX_PROBE_STRAY_ALLOCATOR_CALLS], 1u);
  assert_int_equal(counters[NX_PROBE_LIVE_ALLOCATIONS], 0u);
  assert_int_equal(counters[NX_PROBE_ALLOCATE_CALLS], 1u);
}

static void run_observe(const subject *s, const void *data) {
  uint64_t counters[NX_PROBE_COUNT];
  plugin p;
  (void)data;
  memset(counters, 0xFF, sizeof counters);
  plugin_load(&p, s->file);
  plugin_observe(&p, counters);
  plugin_find(&p, "eager");
  observed_life(&p);
  assert_observed(counters);
}

static void run_environment(const subject *s, const void *data) {
  uint64_t counters[NX_PROBE_COUNT];
  plugin p;
  (void)data;
  memset(counters, 0xFF, sizeof counters);
  plugin_observe_from_start(counters);
  plugin_load(&p, s->file);
  plugin_observe_from_start(NULL);
  plugin_find(&p, "eager");
  observed_life(&p);
  assert_observed(counters);
}

static const module_row leftover_row = {"a table is exact where the heap has only chunks that are a little longer"};

enum { CHUNKS = 256, EXACT = 120, LONGER = 136 };

/* The smallest chunk is 32 bytes: from a free one of 144 glibc does not cut 128 but hands out all of it. Those between
 * keep the free ones apart, are all that were exact, and are the caller's. */
static void leave_longer_chunks(void *between[CHUNKS]) {
  void *longer[CHUNKS];
  for (size_t i = 0u; i < CHUNKS; i++) {
    longer[i] = malloc(LONGER);
    between[i] = malloc(EXACT);
  }
  for (size_t i = 0u; i < CHUNKS; i++) free(longer[i]);
}

static void run_leftover(const subject *s, const void *data) {
  void *between[CHUNKS];
  plugin p;
  (void)data;
  plugin_load(&p, s->file);
  plugin_find(&p, "short-struct");
  leave_longer_chunks(between);
  const NxmemAllocatorVtable *table = plugin_open(&p);
  assert_int_equal(malloc_usable_size((void *)(uintptr_t)table), 120u);
  for (size_t i = 0u; i < CHUNKS; i++) free(between[i]);
  plugin_close(&p);
}

int main(void) {
  add_mechanisms(&scripted, rows, COUNT(rows), 0);
  add_case(&scripted, "mechanism", &refused_open, run_refused_open);
  add_case(&scripted, "module", &observe_row, run_observe);
  add_case(&scripted, "module", &environment_row, run_environment);
  add_case(&scripted, "module", &leftover_row, run_leftover);
  return run_added("scripted mechanisms");
}
