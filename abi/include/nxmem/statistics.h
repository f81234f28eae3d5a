/*
 * statistics.h: an export that a plugin may have beside the contract's three: its own figures, found by name (nxmem_plugin_symbol() of the host library).
 *
 * Attackers: a plugin that writes any number, or into a struct_size larger than the room. Nothing is decided by these figures; they are shown.
 * Promise: none. A plugin without the export breaks nothing.
 */
#ifndef NXMEM_STATISTICS_H
#define NXMEM_STATISTICS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All of one mechanism on one device, since the module was loaded. Only ever grows at the end. */
typedef struct NxmemVmmStats {
  uint32_t struct_size; /* in: room; out: bytes written */
  uint32_t reserved;
  uint64_t reserved_bytes;  /* address space, no memory */
  uint64_t committed_bytes; /* mapped into allocations */
  uint64_t peak_committed_bytes;
  uint64_t granule_bytes;
  uint64_t granules_mapped;
  uint64_t pool_bytes; /* owned, not mapped */
  uint64_t quarantined_bytes;
  uint64_t quarantined_spans;
  uint64_t poisoned_granules;
  uint64_t refcount_underflows; /* always 0 */
  uint64_t bind_failures;       /* the context could not be made current */
  uint64_t maps;
  uint64_t unmaps;
  uint64_t device_lost; /* 1 once it is */
} NxmemVmmStats;

/* 0, or a NXMEM_STATUS_... code: no such mechanism here, no room for struct_size, nothing open. Any thread. */
uint32_t NxmemVmmStatistics(uint64_t mechanism_id, uint32_t tier, uint32_t index, NxmemVmmStats *stats);

#define NXMEM_STATISTICS_EXPORT "NxmemVmmStatistics"
typedef uint32_t (*NxmemVmmStatisticsFunction)(uint64_t mechanism_id, uint32_t tier, uint32_t index,
                                               NxmemVmmStats *stats);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_STATISTICS_H */
