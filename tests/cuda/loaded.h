/*
 * loaded.h: the shipped libnxmem_cudavmm.so behind the host library, on the simulated driver.
 *
 * Attackers: none.
 * Promise: what is opened here is closed here, and then the driver holds what it held before.
 */
#ifndef TESTS_CUDA_LOADED_H
#define TESTS_CUDA_LOADED_H

#include "fake.h"
#include "nxmem.h"
#include "nxmem_vmm.h"

#define NX_GRANULE (2ull << 20)

typedef struct nx_loaded {
  nxmem_host host;
  nxmem_plugin plugin;
  nxmem_allocator allocator;
  fakecuda_counts before;
} nx_loaded;

/* A host with the plugin, nothing open. */
void nx_load(nx_loaded *loaded);
/* Device 0's mechanism of that name. */
nxmem_result nx_try_open(nx_loaded *loaded, const char *mechanism, uint64_t required, nxmem_error *error);
void nx_load_and_open(nx_loaded *loaded, const char *mechanism);
/* Close, unload, destroy; the module is gone and the driver as before. */
void nx_unload(nx_loaded *loaded);

/* Figures of the open mechanism. */
NxmemVmmStats nx_stats(const nx_loaded *loaded);

/* A function that the plugin exports beside the contract. */
void nx_plugin_export(const nx_loaded *loaded, const char *name, void *function_out, size_t size);

/* Address space for that many granules, of which the first `committed` are committed (at least one). */
nxmem_allocation nx_span(const nx_loaded *loaded, uint64_t granules, uint64_t committed);
nxmem_result nx_commit_granules(const nx_loaded *loaded, nxmem_allocation span, uint64_t first, uint64_t count);
nxmem_result nx_decommit_granules(const nx_loaded *loaded, nxmem_allocation span, uint64_t first, uint64_t count);
void nx_release(const nx_loaded *loaded, nxmem_allocation allocation);

void nx_ok(nxmem_result result, const nxmem_error *error);

/* Calls of the driver since the log was cleared. */
uint64_t nx_calls(const char *name);
void nx_clear_log(void);

#endif /* TESTS_CUDA_LOADED_H */
