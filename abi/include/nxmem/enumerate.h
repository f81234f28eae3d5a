/*
 * enumerate.h: is the list of factories that a plugin handed over one that may be owned?
 *
 * Attackers: a plugin that reports more entries than there is room for, a NULL among them, or one object twice.
 * Promise: within an accepted list every entry is a distinct non-NULL address, so each is owed exactly one release.
 */
#ifndef NXMEM_ENUMERATE_H
#define NXMEM_ENUMERATE_H

#include "nxmem/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { NXMEM_FACTORIES_MAX = 64 };

/* Entries that passed to the host by an OK answer: those within the reported count and within the array. */
uint32_t nxmem_factories_transferred(uint64_t reported);

/* 1 where entries[index] is not NULL and stands at no lower index: the one place from which its release is paid. */
int nxmem_factory_is_owed(const uintptr_t *entries, uint32_t index);

/*
 * TOO_MANY (reported above NXMEM_FACTORIES_MAX), NULL_POINTER (field: its index), LISTED_TWICE (the two indices).
 * An empty list is a list: a plugin may find no device.
 * entries: the host's zeroed array of NXMEM_FACTORIES_MAX addresses, filled by the plugin.
 */
nxmem_verdict nxmem_check_factories(const uintptr_t *entries, uint64_t reported);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_ENUMERATE_H */
