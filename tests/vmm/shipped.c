/*
 * shipped.c: the shipped libnxmem_hostvmm.so in a host of its own.
 *
 * Attackers played: none.
 * Promise: each step is asserted.
 */
#include "shipped.h"

void nx_shipped_load_again(nx_shipped *it) {
  it->plugin = nx_must_open(it->host, it->path);
  it->allocator = nx_must_open_mechanism(it->plugin, "hostvmm");
}

nx_shipped nx_shipped_load(void) {
  nx_shipped it = {.path = nx_plugin_copy("libnxmem_hostvmm.so"), .host = nx_host_in(NXMEM_FETCH_GUARDED)};
  nx_shipped_load_again(&it);
  return it;
}

void nx_shipped_unload(nx_shipped *it) {
  nx_must_close(it->allocator);
  nx_must_unload(it->plugin, it->path);
}

nxmem_allocation nx_shipped_span(nx_shipped *it) {
  nxmem_allocation span;
  nxmem_error error;
  const NxmemByteRange first = {0u, 1u};
  const nxmem_allocate_options options = {&first, 1u};
  assert_int_equal(nxmem_allocate(it->allocator, 8u * G, 4096u, &options, &span, &error), NXMEM_OK);
  return span;
}
