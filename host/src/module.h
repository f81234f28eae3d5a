/* A plugin file of one host: loading it whole or not at all, sharing it, unloading it through the gate. Private to the host. */
#ifndef NX_MODULE_H
#define NX_MODULE_H

#include "objects.h"
#include "source.h"

/*
 * The module of a file, with one more reference: the one that is loaded already, or a fresh one.
 * NXMEM_ERR_BUSY while another thread loads or unloads it, NXMEM_ERR_MISMATCH where it is loaded on other terms. *out is written only on NXMEM_OK. [runs plugin code]
 */
nxmem_result nx_module_acquire(nx_host *host, const nx_source *source, nx_module **out, nxmem_error *error);

/*
 * Give one reference back if the gate is open; at the last one release the factories and unmap.
 * NXMEM_ERR_BUSY: the reference is kept. *info is filled in both cases. [runs plugin code]
 */
nxmem_result nx_module_try_release(nx_module *module, nxmem_unload_info *info, nxmem_error *error);

/* Plugin handles on this module. */
uint64_t nx_module_references(nx_module *module);

/*
 * Give one reference back although the gate is shut; at the last one the module stays mapped: a forced leak, counted until somebody opens the file
 * again and so takes the module over.
 */
void nx_module_drop(nx_host *host, nx_module *module, nxmem_unload_info *info);

/*
 * Give back what is kept of modules whose host is gone, but for what stays mapped with them: all whose last callback slot is free, and that no call is in. Their files
 * and names are remembered (graves.h). [any-thread]
 */
void nx_modules_bury(void);

#endif /* NX_MODULE_H */
