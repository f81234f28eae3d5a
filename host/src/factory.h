/* The factories a plugin publishes: owned at once, judged, released exactly once. Private to the host. */
#ifndef NX_FACTORY_H
#define NX_FACTORY_H

#include "objects.h"

/*
 * Ask the plugin for its factories and own them. On NXMEM_OK module->factories and factory_count are set; each is owed one release.
 * On failure every factory that passed to the host has been released once; what could not be is counted as unpaid debt of the module.
 *
 * NXMEM_ERR_PLUGIN, CONTRACT, UNREADABLE_MEMORY, OUT_OF_MEMORY. [runs plugin code]
 */
nxmem_result nx_factories_own(nx_host *host, nx_module *module, const char *path, nxmem_error *error);

/* Release every factory of a module once and forget them. [runs plugin code] */
void nx_factories_release(nx_host *host, nx_module *module);

#endif /* NX_FACTORY_H */
