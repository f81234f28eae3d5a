/*
 * example.c: two mechanisms on one device, one of which vanishes: what a program does with nxmem_registry.h.
 *
 *     registry_example /path/to/plugin.so
 *
 * Attackers: the plugin it is given.
 * Promise: every step is checked; 0 where all went as written here, 1 with the first refusal otherwise.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "nxmem_registry.h"

static nxmem_error error;

static void must(nxmem_result result, const char *step) {
  if (result == NXMEM_OK) return;
  fprintf(stderr, "example: %s: %s\n", step, error.message);
  exit(1);
}

/* The first mechanism that the plugin publishes. */
static void open_first(nxmem_plugin plugin, nxmem_context context, nxmem_authority authority, nxmem_mechanism *out) {
  nxmem_mechanism_info info;
  must(nxmem_plugin_mechanism(plugin, 0, &info, &error), "look at the plugin");
  const nxmem_open_options options = {.mechanism = info.name, .device = &info.device};
  must(nxmem_mechanism_register(context, authority, plugin, &options, out, &error), "register");
}

static void show(nxmem_mechanism mechanism, const char *name) {
  nxmem_mechanism_state s;
  must(nxmem_mechanism_get_state(mechanism, &s, &error), "look at a mechanism");
  printf("%s: %s%s, %" PRIu64 " live, %" PRIu64 " prepared, %" PRIu64 " quarantined\n", name,
         nxmem_lifecycle_name(s.lifecycle), s.selected ? ", selected" : "", s.holdings.live, s.holdings.prepared,
         s.holdings.quarantined);
}

static void show_kept(nxmem_mechanism mechanism) {
  nxmem_kept kept[8];
  uint32_t count = 0;
  must(nxmem_mechanism_quarantine(mechanism, 0, kept, 8, &count, NULL, &error), "list what is kept");
  for (uint32_t i = 0; i < count; i++)
    printf("kept: %" PRIu64 " bytes: %s\n", kept[i].bytes, nxmem_keeping_name(kept[i].reason));
}

/* Work on the selected mechanism; the release waits in a queue until the program comes to it. */
static void work(nxmem_registry registry, NxmemDeviceId device) {
  nxmem_binding binding;
  nxmem_bound memory;
  nxmem_prepared release;
  nxmem_release_queue queue;
  nxmem_drained drained;
  must(nxmem_bind(registry, device, &binding, &error), "bind");
  must(nxmem_bound_allocate(binding, 4096, 64, NULL, &memory, &error), "allocate");
  must(nxmem_release_queue_create(registry, 16, &queue, &error), "make a queue");
  must(nxmem_bound_prepare(&memory, &release, &error), "prepare");
  must(nxmem_release_queue_push(queue, release, &error), "queue");
  must(nxmem_release_queue_drain(queue, 16, &drained, &error), "drain");
  must(nxmem_release_queue_destroy(queue, NULL, &error), "destroy the queue");
  must(nxmem_binding_end(binding, 0, &error), "end the binding");
  printf("drained: %" PRIu64 " completed\n", drained.completed);
}

/* It vanishes with an allocation on it: that is kept; nothing enters the plugin until somebody confirms that the device is gone. */
static void vanish(nxmem_mechanism mechanism) {
  nxmem_binding binding;
  nxmem_bound memory;
  nxmem_loss loss;
  must(nxmem_bind_mechanism(mechanism, &binding, &error), "bind");
  must(nxmem_bound_allocate(binding, 512, 16, NULL, &memory, &error), "allocate");
  must(nxmem_mechanism_lose(mechanism, &loss, &error), "lose");
  printf("lost: %" PRIu64 " retained\n", loss.retained);
  if (nxmem_bound_release(&memory, &error) != NXMEM_ERR_DEVICE_LOST) must(NXMEM_ERR_CONTRACT, "release what is lost");
  show_kept(mechanism);
  if (nxmem_mechanism_remove(mechanism, NULL, &error) != NXMEM_ERR_BUSY)
    must(NXMEM_ERR_CONTRACT, "remove what is not confirmed");
  printf("not removed: %s\n", error.message);
  must(nxmem_binding_end(binding, 0, &error), "end the binding");
  must(nxmem_mechanism_confirm_terminated(mechanism, &error), "confirm");
  must(nxmem_mechanism_remove(mechanism, NULL, &error), "remove");
}

int main(int argc, char **argv) {
  nxmem_host host;
  nxmem_plugin plugin;
  nxmem_registry registry;
  nxmem_context context;
  nxmem_authority authority;
  nxmem_mechanism old, current;
  nxmem_mechanism_state state;
  if (argc != 2) {
    fprintf(stderr, "usage: registry_example PLUGIN\n");
    return 2;
  }
  must(nxmem_host_create(NULL, &host, &error), "create a host");
  must(nxmem_plugin_open(host, argv[1], &plugin, &error), "load the plugin");
  must(nxmem_registry_create(&registry, &error), "create a registry");
  must(nxmem_context_create(registry, &context, &error), "create a context");
  must(nxmem_authority_create(registry, &authority, &error), "create an authority");
  open_first(plugin, context, authority, &old);
  open_first(plugin, context, authority, &current);
  must(nxmem_mechanism_select(current, &error), "select");
  must(nxmem_mechanism_get_state(current, &state, &error), "look at a mechanism");
  show(old, "old");
  show(current, "current");
  work(registry, state.device);
  must(nxmem_mechanism_retire(current, &error), "retire");
  must(nxmem_mechanism_remove(current, NULL, &error), "remove");
  vanish(old);
  must(nxmem_authority_remove(authority, &error), "remove the authority");
  must(nxmem_context_remove(context, &error), "remove the context");
  must(nxmem_registry_destroy(registry, &error), "destroy the registry");
  /* The plugin was never told what it lost, and says so: it stays mapped. */
  nxmem_unload_info unload;
  must(nxmem_plugin_destroy(plugin, &unload, &error), "give the plugin up");
  printf("unmapped: %s\n", unload.unmapped ? "yes" : "no");
  must(nxmem_host_destroy(host, &error), "destroy the host");
  printf("example: ok\n");
  return 0;
}
