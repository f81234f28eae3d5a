/*
 * smallest_host.c: a program that takes memory from a plugin and gives it back.
 *
 *     smallest_host /absolute/path/plugin.so
 *
 * Attackers: the plugin it is given.
 * Promise: every step is checked; the first refusal is shown and ends it with 1.
 */
#include <nxmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static nxmem_error error;

static void must(nxmem_result result) {
  if (result == NXMEM_OK) return;
  fprintf(stderr, "%s\n", error.message);
  exit(1);
}

int main(int count, char **arguments) {
  if (count != 2) return fputs("usage: smallest_host PLUGIN\n", stderr), 2;
  nxmem_host host;
  nxmem_plugin plugin;
  nxmem_mechanism_info first;
  nxmem_allocator allocator;
  nxmem_allocation block;
  must(nxmem_host_create(NULL, &host, &error));
  must(nxmem_plugin_open(host, arguments[1], &plugin, &error));
  must(nxmem_plugin_mechanism(plugin, 0, &first, &error));
  must(nxmem_allocator_open(plugin, &(nxmem_open_options){.mechanism = first.name}, &allocator, &error));
  must(nxmem_allocate(allocator, 4096, 64, NULL, &block, &error));
  if (first.device.tier == NXMEM_TIER_HOST) memset(block.ptr, 1, 4096);
  printf("4096 bytes from %s\n", first.name);
  must(nxmem_release(allocator, block, NULL, &error));
  must(nxmem_allocator_close(allocator, 0, &error));
  must(nxmem_plugin_try_unload(plugin, NULL, &error));
  must(nxmem_host_destroy(host, &error));
  return 0;
}
