/* Plugin memory: the only place of the host that reads it, or writes where a plugin says. Private to the host. */
#ifndef NX_FETCH_H
#define NX_FETCH_H

#include <stddef.h>

#include "nxmem.h"
#include "nxmem/verdict.h"

/* A large enough, aligned home for the snapshot of any table or record. */
typedef union nx_snapshot {
  NxmemAllocatorVtable allocator;
  NxmemAllocatorFactoryVtable factory;
  NxmemVirtualBackingVtable backing;
  NxmemSharedMappingVtable sharing;
  NxmemReclaimRequest reclaim;
  NxmemReleaseCompletion completion;
  unsigned char bytes[sizeof(NxmemReleaseCompletion)];
} nx_snapshot;

/* 1 where this system lets the guarded mode work. Decides once which of its two ways is used. [any-thread] */
int nx_fetch_guarded_works(void);

/*
 * Copy up to `bytes` bytes from `src`, which may be any address; returns how many leading bytes were readable.
 * The two ways of the guarded mode, and the one of them that works here. [any-thread]
 */
size_t nx_fetch_by_readv(void *out, const void *src, size_t bytes);
size_t nx_fetch_by_memfd(void *out, const void *src, size_t bytes);
size_t nx_fetch_guarded(void *out, const void *src, size_t bytes);

/*
 * Where the core may read a table or a record: in the guarded mode the snapshot, filled once and zero beyond what was readable; in the direct mode plugin memory itself.
 *
 * full      our size of that table, at most sizeof(nx_snapshot).
 * view_out  written only on NXMEM_REASON_NONE.
 *
 * NULL_POINTER, MISALIGNED, UNREADABLE (found: readable bytes, needed: what the table's own size asks for, at most `full`).
 */
nxmem_verdict nx_fetch_table(nxmem_fetch_mode mode, const void *src, uint32_t full, nx_snapshot *snapshot,
                             const void **view_out);

/*
 * Write a count to a place that a plugin names, which may be any address; 0 where it cannot be written to. In the direct mode a plain store. [any-thread]
 */
int nx_store_count(nxmem_fetch_mode mode, uint64_t *to, uint64_t count);

/* Copy a name's first bytes: up to its NUL or NXMEM_NAME_BUF. Returns how many bytes of `out` may be looked at; the rest are zero. */
uint32_t nx_fetch_name(nxmem_fetch_mode mode, const uint8_t *src, uint8_t out[256]);

#endif /* NX_FETCH_H */
