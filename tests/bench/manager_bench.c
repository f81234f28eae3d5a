/*
 * manager_bench.c: allocate and release of 64 bytes through an allocator, through a binding, and through a binding with a manager, with more and more others live.
 *
 * Usage: manager_bench PLUGIN MECHANISM LIVE ROUNDS. LIVE: other allocations that stay on each side, in an allocator of its own: what the plugin's books cost is the same
 * for each.
 *
 * Attackers: none.
 * Promise: malloc and the three sides take turns in batches of some microseconds.
 */
#include <stdlib.h>

#include "bench.h"
#include "nxmem_manager.h"
#include "side.h"

enum { BATCH = 100 };

static nxmem_error error;
static nxmem_allocator allocator;
static nxmem_registry registry;
static nxmem_context context;
static nxmem_authority authority;
static nxmem_binding binding, managed;
static nxmem_manager manager;
static nxmem_request request;
static void *volatile sink;

static void must(nxmem_result r, const char *what) {
  if (r != NXMEM_OK) side_die(what, error.message);
}

static double time_malloc(void) {
  const double start = bench_now();
  for (int i = 0; i < BATCH; i++) {
    sink = malloc(SIDE_BYTES);
    free(sink);
  }
  return (bench_now() - start) / BATCH;
}

static double time_allocator(void) {
  const double start = bench_now();
  for (int i = 0; i < BATCH; i++) {
    nxmem_allocation a;
    must(nxmem_allocate(allocator, SIDE_BYTES, SIDE_ALIGN, NULL, &a, &error), "allocate");
    must(nxmem_release(allocator, a, NULL, &error), "release");
  }
  return (bench_now() - start) / BATCH;
}

static double time_binding(void) {
  const double start = bench_now();
  for (int i = 0; i < BATCH; i++) {
    nxmem_bound b;
    must(nxmem_bound_allocate(binding, SIDE_BYTES, SIDE_ALIGN, NULL, &b, &error), "allocate bound");
    must(nxmem_bound_release(&b, &error), "release bound");
  }
  return (bench_now() - start) / BATCH;
}

static double time_manager(void) {
  const double start = bench_now();
  for (int i = 0; i < BATCH; i++) {
    nxmem_bound b;
    must(nxmem_manager_allocate(manager, &request, &b, NULL, NULL, &error), "allocate managed");
    must(nxmem_bound_release(&b, &error), "release managed");
  }
  return (bench_now() - start) / BATCH;
}

static nxmem_binding bind_one(nxmem_plugin plugin, const nxmem_open_options *options) {
  nxmem_mechanism mechanism;
  nxmem_binding bound;
  must(nxmem_mechanism_register(context, authority, plugin, options, &mechanism, &error), "mechanism");
  must(nxmem_bind_mechanism(mechanism, &bound, &error), "binding");
  return bound;
}

static void open_all(const char *path, const char *name) {
  nxmem_host host;
  nxmem_plugin plugin;
  const nxmem_open_options options = {.mechanism = name};
  must(nxmem_host_create(NULL, &host, &error), "host");
  must(nxmem_plugin_open(host, path, &plugin, &error), "plugin");
  must(nxmem_allocator_open(plugin, &options, &allocator, &error), "allocator");
  must(nxmem_registry_create(&registry, &error), "registry");
  must(nxmem_context_create(registry, &context, &error), "context");
  must(nxmem_authority_create(registry, &authority, &error), "authority");
  binding = bind_one(plugin, &options);
  managed = bind_one(plugin, &options);
  const nxmem_axes limit = {1ull << 40, 1ull << 40, 1ull << 40};
  must(nxmem_manager_create(&manager, &error), "manager");
  must(nxmem_manager_add_authority(manager, authority, NXMEM_TIER_HOST, &limit, &error), "authority's books");
  must(nxmem_manager_set_limit(manager, NXMEM_TIER_HOST, &limit, NULL, &error), "limit");
  request = (nxmem_request){.authority = authority,
                            .binding = managed,
                            .bytes = SIDE_BYTES,
                            .align = SIDE_ALIGN,
                            .reserve = {SIDE_BYTES, SIDE_BYTES, SIDE_BYTES}};
}

static void fill(uint64_t live) {
  for (uint64_t i = 0; i < live; i++) {
    nxmem_allocation a;
    nxmem_bound b;
    must(nxmem_allocate(allocator, SIDE_BYTES, SIDE_ALIGN, NULL, &a, &error), "fill");
    must(nxmem_bound_allocate(binding, SIDE_BYTES, SIDE_ALIGN, NULL, &b, &error), "fill bound");
    must(nxmem_manager_allocate(manager, &request, &b, NULL, NULL, &error), "fill managed");
  }
}

/* What is live goes with the process. */
int main(int count, char **arguments) {
  if (count != 5) side_die("usage", "manager_bench PLUGIN MECHANISM LIVE ROUNDS");
  const int rounds = atoi(arguments[4]);
  open_all(arguments[1], arguments[2]);
  (void)time_allocator();
  (void)time_binding();
  (void)time_manager();
  fill(strtoull(arguments[3], NULL, 10));
  for (int round = 0; round < rounds; round++) {
    bench_sample("pair", "malloc", time_malloc());
    bench_sample("pair", "allocator", time_allocator());
    bench_sample("pair", "binding", time_binding());
    bench_sample("pair", "manager", time_manager());
  }
  return 0;
}
