/*
 * workload_books.c: the driver's figures against the plugin's and the host's.
 *
 * Attackers played: none.
 * Promise: what is charged is what is owned, at every point where the driver still serves.
 */
#include <inttypes.h>
#include <stddef.h>

#include "workload.h"

int nx_figures(const nx_work *work, NxmemVmmStats *stats) {
  nxmem_allocator_info info;
  *stats = (NxmemVmmStats){.struct_size = sizeof *stats};
  if (nxmem_allocator_get_info(work->allocator, &info, NULL) != NXMEM_OK) return 0;
  return work->statistics(info.mechanism_id, info.device.tier, info.device.index, stats) == 0;
}

static void equal(nx_work *work, const char *where, const char *what, uint64_t says, uint64_t is) {
  if (says != is) nx_broken(work, "behind %s: %s is said to be %" PRIu64 ", and is %" PRIu64, where, what, says, is);
}

/* Handles that the driver would not take back are among the quarantined bytes: owned, and charged. */
void nx_compare(nx_work *work, const char *where, int shared) {
  NxmemVmmStats stats;
  fakecuda_counts driver;
  work->count(&driver);
  if (!nx_serves(work) || !nx_figures(work, &stats)) return;
  equal(work, where, "granules mapped", stats.granules_mapped, driver.mappings);
  equal(work, where, "address space", stats.reserved_bytes, driver.reserved_bytes);
  equal(work, where, "underflows", stats.refcount_underflows, 0);
  if (shared) return;
  equal(work, where, "memory", stats.committed_bytes + stats.pool_bytes + stats.quarantined_bytes,
        driver.physical_bytes);
}

void nx_compare_place(nx_work *work, nxmem_allocation allocation, uint64_t bytes) {
  uint64_t committed;
  uint64_t address = (uint64_t)(uintptr_t)allocation.ptr;
  if (!nx_serves(work) || nxmem_committed_bytes(work->allocator, allocation, &committed, NULL) != NXMEM_OK) return;
  equal(work, "a call", "what an allocation maps", committed, work->mapped(address, bytes));
}
