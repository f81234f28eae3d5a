/*
 * memory_test.c: the host's own memory runs out, at each of its allocations in turn. Linked with the host's objects, so
 * that only they are starved.
 *
 * Attackers played: a machine without memory.
 * Promise: each failure is OUT_OF_MEMORY, leaves nothing behind, gives the plugin's objects back before its code goes,
 * and the next try works.
 */
#define _GNU_SOURCE
#include <unistd.h>

#include "puppet_backing.h"
#include "starve.h"

/* ---- A whole life, step by step ---------------------------------------------------------------------------------- */

static nx_stage stage;
static nxmem_allocation allocation;

static nxmem_result create(nxmem_error *error) { return nxmem_host_create(NULL, &stage.host, error); }
static nxmem_result open_plugin(nxmem_error *error) {
  return nxmem_plugin_open(stage.host, stage.path, &stage.plugin, error);
}
static nxmem_result open_mechanism(nxmem_error *error) {
  const nxmem_open_options options = {.mechanism = "puppet"};
  return nxmem_allocator_open(stage.plugin, &options, &stage.allocator, error);
}
static nxmem_result allocate(nxmem_error *error) {
  return nxmem_allocate(stage.allocator, 64, 8, NULL, &allocation, error);
}
static nxmem_result release(nxmem_error *error) { return nxmem_release(stage.allocator, allocation, NULL, error); }
static nxmem_result enqueue(nxmem_error *error) {
  return nxmem_enqueue_release(stage.allocator, allocation, NULL, NULL, error);
}
static nxmem_result drain(nxmem_error *error) {
  const nxmem_result r = nxmem_drain_releases(stage.allocator, 1, NULL, error);
  if (r == NXMEM_OK) allocation.id = 0;
  return r;
}
/* More ranges than stand on the host's stack; none is missing. */
enum { MANY = 9 };
static nxmem_result reserve(nxmem_error *error) {
  const NxmemByteRange all = {0, NX_PLAY_MOST};
  const nxmem_allocate_options options = {&all, 1};
  return nxmem_allocate(stage.allocator, NX_PLAY_MOST, 8, &options, &allocation, error);
}
static nxmem_result cost_of_many(nxmem_error *error) {
  NxmemByteRange ranges[MANY];
  for (uint64_t i = 0; i < MANY; i++) ranges[i] = (NxmemByteRange){i * NX_PLAY_GRANULE, 1};
  uint64_t cost = 1;
  const nxmem_result r = nxmem_cost_of_ranges(stage.allocator, allocation, ranges, MANY, &cost, error);
  return r == NXMEM_OK && cost != 0 ? NXMEM_ERR_MISMATCH : r;
}
static nxmem_result release_reserved(nxmem_error *error) {
  const nxmem_result r = release(error);
  if (r == NXMEM_OK) allocation.id = 0;
  return r;
}
static nxmem_prefix prefix;
static nxmem_result create_prefix(nxmem_error *error) {
  return nxmem_prefix_create(stage.allocator, 64, &prefix, error);
}
static nxmem_result share(nxmem_error *error) {
  nxmem_group_outcome outcome = NXMEM_GROUP_QUARANTINED;
  const uint64_t before = nx_play_calls(NX_PLAY_SHARE);
  const nxmem_result r = nxmem_prefix_commit(prefix, &allocation, 1, 0, &outcome, error);
  const int asked = nx_play_calls(NX_PLAY_SHARE) != before;
  if (outcome != (r == NXMEM_OK ? NXMEM_GROUP_SHARED : NXMEM_GROUP_PRIVATE) || asked != (r == NXMEM_OK))
    return NXMEM_ERR_MISMATCH;
  return r;
}
static nxmem_result release_prefix(nxmem_error *error) { return nxmem_prefix_release(prefix, error); }

static nxmem_result close_allocator(nxmem_error *error) { return nxmem_allocator_close(stage.allocator, 0, error); }
static nxmem_result unload(nxmem_error *error) { return nxmem_plugin_try_unload(stage.plugin, NULL, error); }
static nxmem_result destroy(nxmem_error *error) { return nxmem_host_destroy(stage.host, error); }

static nxmem_result (*const steps[])(nxmem_error *) = {
    create,       open_plugin,      open_mechanism,  create_prefix, reserve, share,
    cost_of_many, release_reserved, release_prefix,  allocate,      enqueue, drain,
    allocate,     release,          close_allocator, unload,        destroy};
enum { STEPS = sizeof steps / sizeof steps[0] };

/* Between the steps: what a step that failed may have left. */
static int is_clean(void) {
  if (nx_puppet_calls(NX_IN_RELEASE) > nx_puppet_calls(NX_IN_OPEN)) return 0;
  if (atomic_load(&puppet.after_the_end) != 0) return 0;
  if (stage.plugin.id == 0 && nx_is_mapped(stage.path)) return 0;
  if (stage.plugin.id == 0 && nx_puppet_calls(NX_IN_CREATE) != nx_puppet_factory_releases()) return 0;
  if (stage.plugin.id == 0 && nx_puppet_calls(NX_IN_CONSTRUCTOR) != nx_puppet_calls(NX_IN_DESTRUCTOR)) return 0;
  if (stage.allocator.id == 0 && nx_puppet_calls(NX_IN_OPEN) != nx_puppet_calls(NX_IN_RELEASE)) return 0;
  if (stage.host.id == 0) return 1;
  nxmem_host_counts counts;
  if (nxmem_host_count(stage.host, &counts, NULL) != NXMEM_OK) return 0;
  if (counts.open_plugins != (stage.plugin.id != 0) || counts.open_allocators != (stage.allocator.id != 0)) return 0;
  return counts.unpaid_debts == 0 && counts.forced_leaks == 0 && counts.contract_violations == 0 &&
         counts.live_allocations == (allocation.id != 0) && counts.quarantined == 0;
}

/* One starved step may be tried again once there is memory; 0 or where it went wrong. */
static int live_through(void) {
  for (int i = 0; i < STEPS; i++) {
    nxmem_error error;
    nx_starve(1);
    nxmem_result r = steps[i](&error);
    nx_starve(0);
    if (r == NXMEM_ERR_OUT_OF_MEMORY) {
      if (error.result != r || strnlen(error.message, sizeof error.message) == 0) return 30 + i;
      nx_starve_no_more();
      if (!is_clean()) return 40 + i;
      atomic_store(&puppet.calls[NX_IN_DESTRUCTOR], 0); /* a new life of the module */
      atomic_store(&puppet.calls[NX_IN_CONSTRUCTOR], 0);
      r = steps[i](&error);
    }
    if (r != NXMEM_OK) return 50 + i;
  }
  return nx_is_mapped(stage.path) ? 60 : 0;
}

/* It has no host yet, so the child may use the library. */
static void prepare(void) {
  nx_play_reset();
  /* The same in each child: where it lies decides what the index of addresses needs. */
  puppet.address = (uint8_t *)(uintptr_t)(1u << 30);
  memset(&stage, 0, sizeof stage);
  stage.path = nx_puppet_copy();
}

/* Five tables, the array of entries, the factories, the path. */
int main(void) {
  alarm(100);
  return nx_starve_suite("host_memory", "the host's allocations are reached", live_through, prepare);
}
