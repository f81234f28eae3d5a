/* How members of a registry are pinned and removed. Private to the registry. */
#ifndef NX_REGISTRY_MEMBERS_H
#define NX_REGISTRY_MEMBERS_H

#include "nxmem/verdict.h"
#include "registry.h"

/* STALE_HANDLE, or BUSY where it is being made or removed. */
nxmem_result nx_member_refuse(nxmem_verdict verdict, const char *kind, nxmem_error *error);

/* STALE_HANDLE for a handle that leads nowhere, FORKED in a child. */
nxmem_result nx_member_unknown(const char *kind, nxmem_error *error);

/* One pin more in a member that is LIVE. */
nxmem_result nx_member_pin(nx_slot *slot, nx_counter *pins, uint64_t handle, const char *kind, nxmem_error *error);

/* Remove a member that nobody pins; BUSY with the number of pins otherwise, and nothing changed. */
nxmem_result nx_member_remove(nx_table *table, nx_slot *slot, nx_counter *pins, uint64_t handle, const char *kind,
                              nxmem_error *error);

/* How many a registry has. */
uint64_t nx_contexts_of(uint64_t registry);
uint64_t nx_authorities_of(uint64_t registry);
uint64_t nx_queues_of(uint64_t registry);

/* The registry of a context or an authority that is pinned. */
uint64_t nx_context_registry(nxmem_context context);
uint64_t nx_authority_registry(nxmem_authority authority);

#endif /* NX_REGISTRY_MEMBERS_H */
