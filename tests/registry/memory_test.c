/*
 * memory_test.c: the registry's own memory runs out, at each of its allocations in turn. Linked with the host's objects, so that only they are starved.
 *
 * Attackers played: a machine without memory.
 * Promise: each failure is OUT_OF_MEMORY, leaves nothing behind in the plugin or in any book, and the next try works.
 */
#define _GNU_SOURCE
#include "registrytest.h"
#include "starve.h"

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
    nx_starve(1);
    nxmem_result r = steps[i](&error);
    nx_starve(0);
    if (r == NXMEM_ERR_OUT_OF_MEMORY) {
      if (error.result != r || strnlen(error.message, sizeof error.message) == 0) return 20 + i;
      nx_starve_no_more();
      if (!is_clean(i)) return 40 + i;
      r = steps[i](&error);
    }
    if (r != NXMEM_OK) return 60 + i;
  }
  nx_play_strike(&play);
  return 0;
}

static void set_scene(void) {
  nx_puppet_reset();
  play.path = nx_puppet_copy();
}

/* Tables of registries, contexts, authorities, mechanisms, bindings and queues, a ring, and what stands beside allocations. */
int main(void) {
  return nx_starve_suite("registry memory", "the registry's allocations are reached", live_through, set_scene);
}
