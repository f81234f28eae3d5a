/* The shipped libnxmem_hostvmm.so in a host of its own; each step is asserted. */
#ifndef NX_TEST_SHIPPED_H
#define NX_TEST_SHIPPED_H

#include "hosttest.h"
#include "nxmem_capabilities.h"

#define G (2ull << 20)

typedef struct nx_shipped {
  const char *path;
  nxmem_host host;
  nxmem_plugin plugin;
  nxmem_allocator allocator;
} nx_shipped;

void nx_shipped_load_again(nx_shipped *it); /* into the host that it has */
nx_shipped nx_shipped_load(void);
void nx_shipped_unload(nx_shipped *it); /* the host stays */

/* Eight granules, none of them committed but the first byte's. */
nxmem_allocation nx_shipped_span(nx_shipped *it);

#endif /* NX_TEST_SHIPPED_H */
