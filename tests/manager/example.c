/*
 * example.c: a budget, what it refuses, who gives bytes back, and the books: what a program does with nxmem_manager.h.
 *
 *     manager_example /path/to/plugin.so
 *
 * Attackers: the plugin it is given.
 * Promise: every step is checked; 0 where all went as written here, 1 with the first refusal otherwise.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "nxmem_manager.h"

enum { KIB = 1024 };

static nxmem_error error;

static void must(nxmem_result result, const char *step) {
  if (result == NXMEM_OK) return;
  fprintf(stderr, "example: %s: %s\n", step, error.message);
  exit(1);
}

typedef struct program {
  nxmem_host host;
  nxmem_plugin plugin;
  nxmem_registry registry;
  nxmem_context context;
  nxmem_authority authority;
  nxmem_manager manager;
  nxmem_mechanism mechanism;
  nxmem_binding binding;
} program;

static program begin(const char *path) {
  program p;
  nxmem_mechanism_info info;
  const nxmem_axes budget = {64 * KIB, 64 * KIB, 64 * KIB};
  must(nxmem_host_create(NULL, &p.host, &error), "make a host");
  must(nxmem_plugin_open(p.host, path, &p.plugin, &error), "open the plugin");
  must(nxmem_plugin_mechanism(p.plugin, 0, &info, &error), "look at the plugin");
  must(nxmem_registry_create(&p.registry, &error), "make a registry");
  must(nxmem_context_create(p.registry, &p.context, &error), "make a context");
  must(nxmem_authority_create(p.registry, &p.authority, &error), "make an authority");
  must(nxmem_manager_create(&p.manager, &error), "make a manager");
  must(nxmem_manager_add_authority(p.manager, p.authority, info.device.tier, &budget, &error), "add the authority");
  const nxmem_open_options options = {.mechanism = info.name, .device = &info.device};
  must(nxmem_mechanism_register(p.context, p.authority, p.plugin, &options, &p.mechanism, &error), "register");
  must(nxmem_bind_mechanism(p.mechanism, &p.binding, &error), "bind");
  return p;
}

static nxmem_result allocate(const program *p, uint64_t bytes, nxmem_bound *out, uint64_t *charge) {
  const nxmem_request request = {
      .authority = p->authority, .binding = p->binding, .bytes = bytes, .align = 64, .reserve = {bytes, bytes, bytes}};
  return nxmem_manager_allocate(p->manager, &request, out, charge, NULL, &error);
}

static void show(const program *p, const char *when) {
  nxmem_snapshot now = {.mechanism_room = 0};
  must(nxmem_manager_snapshot(p->manager, &now, &error), "take a snapshot");
  printf("%s: %" PRIu64 " bytes used by %" PRIu64 " allocations, %" PRIu64 " refusals\n", when, now.total.used.charged,
         now.total.live_count, now.refusals);
}

/* What can be spared: a cache. */
static void give_cache_back(void *ctx, nxmem_authority authority, const nxmem_axes *wanted, nxmem_axes *given_out) {
  nxmem_bound *cache = ctx;
  (void)authority;
  printf("asked for %" PRIu64 " bytes\n", wanted->charged);
  if (cache->id != 0 && nxmem_bound_release(cache, &error) == NXMEM_OK)
    *given_out = (nxmem_axes){cache->bytes, cache->bytes, cache->bytes};
  cache->id = 0;
}

static void work(const program *p) {
  nxmem_bound weights, cache, more;
  nxmem_pressure pressure;
  uint64_t charge;
  must(allocate(p, 40 * KIB, &weights, NULL), "allocate");
  must(allocate(p, 20 * KIB, &cache, NULL), "allocate the cache");
  if (allocate(p, 16 * KIB, &more, NULL) != NXMEM_ERR_OVER_LIMIT)
    must(NXMEM_ERR_CONTRACT, "allocate beyond the budget");
  printf("refused: found %" PRIu64 ", needed at most %" PRIu64 "\n", error.found, error.needed);
  must(nxmem_manager_add_pressure(p->manager, give_cache_back, &cache, 0, &pressure, &error), "add a holder");
  must(allocate(p, 16 * KIB, &more, &charge), "allocate under pressure");
  show(p, "under pressure");
  must(nxmem_bound_release(&more, &error), "release");
  must(nxmem_manager_wait(p->manager, charge, 1000, &error), "wait for it");
  must(nxmem_bound_release(&weights, &error), "release");
  must(nxmem_manager_remove_pressure(p->manager, pressure, &error), "remove the holder");
  show(p, "all released");
}

static void end(const program *p) {
  nxmem_unload_info unload;
  must(nxmem_binding_end(p->binding, 0, &error), "end the binding");
  must(nxmem_mechanism_retire(p->mechanism, &error), "retire");
  must(nxmem_mechanism_remove(p->mechanism, NULL, &error), "remove the mechanism");
  must(nxmem_manager_remove_authority(p->manager, p->authority, &error), "take the authority out");
  must(nxmem_manager_remove_context(p->manager, p->context, NULL, &error), "remove the context");
  must(nxmem_authority_remove(p->authority, &error), "remove the authority");
  must(nxmem_manager_destroy(p->manager, &error), "destroy the manager");
  must(nxmem_registry_destroy(p->registry, &error), "destroy the registry");
  must(nxmem_plugin_destroy(p->plugin, &unload, &error), "give the plugin up");
  must(nxmem_host_destroy(p->host, &error), "destroy the host");
  printf("unmapped: %s\nexample: ok\n", unload.unmapped ? "yes" : "no");
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s PLUGIN\n", argv[0]);
    return 2;
  }
  const program p = begin(argv[1]);
  work(&p);
  end(&p);
  return 0;
}
