/*
 * host.c: twenty lines of a host, built against what is installed.
 * Attackers: the plugin named on the command line.
 * Promise: prints the block's bytes and what became of the module; any failure shows its message and ends with 1.
 */
#include <nxmem.h>
#include <nxmem/verdict.h>
#include <nxmem_manager.h>
#include <nxmem_registry.h>
#include <stdio.h>
#include <string.h>

int main(int count, char **arguments) {
  nxmem_error error;
  nxmem_host host;
  nxmem_plugin plugin;
  nxmem_allocator allocator;
  nxmem_allocation block;
  nxmem_unload_info info = {0};
  const nxmem_open_options options = {.mechanism = count > 2 ? arguments[2] : ""};
  if (nxmem_host_create(NULL, &host, &error) || nxmem_plugin_open(host, arguments[1], &plugin, &error) ||
      nxmem_allocator_open(plugin, &options, &allocator, &error) ||
      nxmem_allocate(allocator, 4096, 64, NULL, &block, &error)) {
    return fprintf(stderr, "%s\n", error.message), 1;
  }
  memset(block.ptr, 0xA5, 4096);
  if (nxmem_release(allocator, block, NULL, &error) || nxmem_allocator_close(allocator, 0, &error) ||
      nxmem_plugin_try_unload(plugin, &info, &error) || nxmem_host_destroy(host, &error)) {
    return fprintf(stderr, "%s\n", error.message), 1;
  }
  return printf("4096 bytes, unmapped: %s\n", info.unmapped ? "yes" : "no") < 0;
}
