/* Limits of bytes that a plugin was granted when it was loaded. Private to the host. */
#ifndef NX_GRANT_H
#define NX_GRANT_H

#include "error.h"
#include "objects.h"

/* The module, where it has a limit; else NULL. */
nx_module *nx_grant_of(const nx_module *module);

/*
 * Is it the plugin's limit alone that refuses? `refused` is what the core said of a number beside all that is charged, `alone` what it says of it beside nothing.
 * Else the plugin reported what cannot be.
 */
int nx_grant_refuse(const nx_allocator *a, nxmem_verdict refused, nxmem_verdict alone);

/* NXMEM_ERR_OVER_LIMIT, with the numbers of the verdict: what was asked for, and what is left. */
nxmem_result nx_grant_fail(nxmem_error *error, nxmem_verdict refused, const char *format, ...) NX_PRINTF(3, 4);

#endif /* NX_GRANT_H */
