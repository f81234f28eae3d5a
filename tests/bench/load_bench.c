/*
 * load_bench.c: a plugin loaded, negotiated, enumerated and unloaded beside a bare dlopen and dlclose of the same file.
 *
 * Usage: load_bench PLUGIN ROUNDS.
 *
 * Attackers: none.
 * Promise: each of them maps and unmaps the file; they take turns.
 */
#include <dlfcn.h>
#include <stdlib.h>

#include "bench.h"
#include "side.h"

static double bare(const char *path) {
  const double start = bench_now();
  void *dl = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (dl == NULL) side_die(path, dlerror());
  (void)dlclose(dl);
  return bench_now() - start;
}

static double hosted(nxmem_host host, const char *path) {
  nxmem_plugin plugin;
  nxmem_error error;
  const double start = bench_now();
  if (nxmem_plugin_open(host, path, &plugin, &error) != NXMEM_OK) side_die("open", error.message);
  nxmem_unload_info info;
  if (nxmem_plugin_try_unload(plugin, &info, &error) != NXMEM_OK) side_die("unload", error.message);
  const double took = bench_now() - start;
  if (!info.unmapped) side_die("unload", "still mapped");
  return took;
}

static nxmem_host make(nxmem_fetch_mode fetch) {
  nxmem_host host;
  nxmem_error error;
  nxmem_host_options options;
  nxmem_host_options_default(&options);
  options.fetch = fetch;
  if (nxmem_host_create(&options, &host, &error) != NXMEM_OK) side_die("create", error.message);
  return host;
}

int main(int count, char **arguments) {
  if (count != 3) side_die("usage", "load_bench PLUGIN ROUNDS");
  const int rounds = atoi(arguments[2]);
  const nxmem_host guarded = make(NXMEM_FETCH_GUARDED), direct = make(NXMEM_FETCH_DIRECT);
  for (int round = 0; round < rounds; round++) {
    bench_sample("load", "bare", bare(arguments[1]));
    bench_sample("load", "guarded", hosted(guarded, arguments[1]));
    bench_sample("load", "direct", hosted(direct, arguments[1]));
  }
  if (nxmem_host_destroy(guarded, NULL) != NXMEM_OK || nxmem_host_destroy(direct, NULL) != NXMEM_OK)
    side_die("destroy", "busy");
  return 0;
}
