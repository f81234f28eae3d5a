/*
 * poison_test.c: the mechanisms after which a module can never be unloaded; each run of them in a process of its own.
 *
 * Attackers played: none; here the attackers are under test.
 * Promise: what the module reports is what keeps it. What is left is reachable, so that a leak checker can say so.
 */
#include <string.h>
#include <sys/wait.h>

#include "recorder.h"

typedef struct poison_row {
  const char *name;
  void (*tell)(plugin *p);
} poison_row;

static void queued_for_good(plugin *p, uint64_t said) {
  static recorder r; /* named by what stays queued */
  recorder_start(&r);
  const NxmemAllocatorVtable *table = recorder_open(&r, p);
  const NxmemAllocation allocation = take(table, 5u, 100u, 64u);
  enqueue(table, &allocation);
  for (int pass = 0; pass < 20; pass++) assert_int_equal(drain(table, UINT64_MAX), said);
  assert_int_equal(pending(table), 1u);
  table->release(table->ctx);
  assert_int_equal(r.completions, 0u);
  assert_report(p, 0u, 0u, 0u, 0u, 1u);
  assert_int_equal(p->probe(NX_PROBE_DRAIN_CALLS), 20u);
}

static void stays_queued(plugin *p) { queued_for_good(p, 0u); }
static void claims_to_drain(plugin *p) { queued_for_good(p, 1u); }

static void stays_open(plugin *p) {
  const NxmemAllocatorVtable *table = plugin_open(p);
  assert_int_equal(p->probe(NX_PROBE_RETAIN_CALLS), 0u);
  table->release(table->ctx);
  assert_report(p, 1u, 0u, 0u, 0u, 0u);
  assert_int_equal(p->probe(NX_PROBE_ALLOCATORS_RELEASED), 0u);
  const NxmemAllocation allocation = take(table, 5u, 100u, 64u); /* nobody may; it would work */
  give_back(table, &allocation);
}

typedef struct errand {
  const subject *s;
  const poison_row *row;
} errand;

static void poison(const void *argument) {
  const errand *e = argument;
  plugin p;
  plugin_load(&p, e->s->file);
  plugin_find(&p, e->s->mechanism);
  assert_int_equal(p.listed, 1u);
  e->row->tell(&p);
}

/* The child asserts; how it ended says whether it got to the end. */
static void run_alone(const subject *s, const void *data) {
  const errand e = {s, data};
  const int status = in_child(poison, &e, 60u);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), RETURNED);
}

int main(void) {
  static const subject sticky = {"libnxmem_scripted_sticky.so", "sticky", 25u, 31u};
  static const subject idle = {"libnxmem_scripted_idle-drain.so", "idle-drain", 25u, 31u};
  static const subject self_retaining = {"libnxmem_scripted_self-retaining.so", "self-retaining", 17u, 31u};
  static const poison_row never_drains = {"a release stays queued for good", stays_queued};
  static const poison_row claims = {"a release stays queued, and each drain claims one", claims_to_drain};
  static const poison_row never_ends = {"an allocator stays open for good", stays_open};
  add_case(&sticky, "poison", &never_drains, run_alone);
  add_case(&idle, "poison", &claims, run_alone);
  add_case(&self_retaining, "poison", &never_ends, run_alone);
  return run_added("poisoning mechanisms");
}
