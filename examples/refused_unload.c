/*
 * refused_unload.c: a plugin does not go while anything of it is in use, and the refusal says what.
 *
 *     refused_unload /absolute/path/plugin.so
 *
 * Attackers: the plugin it is given.
 * Promise: prints each refusal with both sides' counts, then what became of the module; 1 where a refusal did not come.
 */
#include <inttypes.h>
#include <nxmem.h>
#include <stdio.h>
#include <stdlib.h>

static nxmem_error error;

static void must(nxmem_result result) {
  if (result == NXMEM_OK) return;
  fprintf(stderr, "%s\n", error.message);
  exit(1);
}

/* What is in use is no mistake of the caller's: the answer is BUSY, nothing changed, and it may be asked again. */
static void refused(nxmem_plugin plugin, const char *what) {
  nxmem_unload_info info;
  const nxmem_result result = nxmem_plugin_try_unload(plugin, &info, &error);
  if (result != NXMEM_ERR_BUSY) exit(1);
  printf("%s: refused: %s; host: %" PRIu64 " allocators, %" PRIu64 " allocations; plugin: %" PRIu64 ", %" PRIu64 "\n",
         what, nxmem_reason_text(info.reason), info.host_allocators, info.host_allocations,
         info.plugin.live_allocators, info.plugin.live_allocations);
}

int main(int count, char **arguments) {
  if (count != 2) return fputs("usage: refused_unload PLUGIN\n", stderr), 2;
  nxmem_host host;
  nxmem_plugin plugin;
  nxmem_mechanism_info first;
  nxmem_allocator allocator;
  nxmem_allocation block;
  nxmem_unload_info info;
  must(nxmem_host_create(NULL, &host, &error));
  must(nxmem_plugin_open(host, arguments[1], &plugin, &error));
  must(nxmem_plugin_mechanism(plugin, 0, &first, &error));
  must(nxmem_allocator_open(plugin, &(nxmem_open_options){.mechanism = first.name}, &allocator, &error));
  must(nxmem_allocate(allocator, 4096, 64, NULL, &block, &error));
  refused(plugin, "one allocation");
  must(nxmem_release(allocator, block, NULL, &error));
  refused(plugin, "one allocator");
  must(nxmem_allocator_close(allocator, 0, &error));
  must(nxmem_plugin_try_unload(plugin, &info, &error));
  printf("nothing: %s\n", info.unmapped ? "unmapped" : "still mapped");
  must(nxmem_host_destroy(host, &error));
  return 0;
}
