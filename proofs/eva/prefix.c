/*
 * prefix.c: Eva drivers of nxmem/prefix.h: each entry point once for everything that its contract allows.
 *
 * Attackers: a table that declares any size and holds anything, at any address.
 * Promise: in the quiet world no byte is there beyond the size that the table declares, in the racing one none beyond
 * the record.
 */
#include "nxmem/prefix.h"

#include "support.h"

void eva_nxmem_allocator_bytes_at(void) { (void)nxmem_allocator_bytes_at(any32); }

void eva_nxmem_check_table_address(void) { (void)nxmem_check_table_address(any64); }

void eva_nxmem_prefix_extent(void) { (void)nxmem_prefix_extent(any32, any32); }

/*
 * Where a table can stand. In the quiet world the memory ends with the last field that a reader may look at by the size
 * that the table declares: the header where that is below least_bytes, least_bytes where it is below whole_bytes.
 */
static uintptr_t any_table(uint32_t least_bytes, uint32_t whole_bytes) {
  switch (any32) {
    case 0u:
      return 0u;
    case 1u:
      return eva_misaligned();
#ifdef NXMEM_QUIET_WORLD
    case 2u: {
      const uintptr_t header = eva_block(NXMEM_HEADER_BYTES);
      *(uint32_t *)header = any32 % least_bytes;
      return header;
    }
    case 3u: {
      const uintptr_t least = eva_block(least_bytes);
      *(uint32_t *)least = any32 % whole_bytes;
      return least;
    }
#endif
    default:
      return eva_block(whole_bytes);
  }
}

#ifdef NXMEM_QUIET_WORLD
/* Four bytes and no more, which say that there are fewer than eight. */
static uintptr_t size_only(void) {
  uint32_t *size = (uint32_t *)EVA_SIZE_ONLY;
  *size = any32 % NXMEM_HEADER_BYTES;
  return EVA_SIZE_ONLY;
}
#endif

void eva_nxmem_read_allocator_unvalidated(void) {
  NxmemAllocatorVtable out;
  uint32_t declared;
  (void)nxmem_read_allocator_unvalidated(
      (NxmemAllocatorVtable *)any_table(NXMEM_ALLOCATOR_BYTES_0, NXMEM_ALLOCATOR_BYTES_1), any32, &out, &declared);
}

void eva_nxmem_read_allocator(void) {
  NxmemAllocatorVtable out;
  uint32_t declared;
  (void)nxmem_read_allocator((NxmemAllocatorVtable *)any_table(NXMEM_ALLOCATOR_BYTES_0, NXMEM_ALLOCATOR_BYTES_1), any32,
                             &out, &declared);
}

void eva_nxmem_check_allocator(void) {
  NxmemAllocatorVtable table;
  eva_fill(&table, sizeof(table));
  (void)nxmem_check_allocator(&table);
}

void eva_nxmem_read_factory_unvalidated(void) {
  NxmemAllocatorFactoryVtable out;
  uint32_t declared;
  (void)nxmem_read_factory_unvalidated(
      (NxmemAllocatorFactoryVtable *)any_table(NXMEM_FACTORY_BYTES, NXMEM_FACTORY_BYTES), any32, &out, &declared);
}

void eva_nxmem_read_factory(void) {
  NxmemAllocatorFactoryVtable out;
  uint32_t declared;
  (void)nxmem_read_factory((NxmemAllocatorFactoryVtable *)any_table(NXMEM_FACTORY_BYTES, NXMEM_FACTORY_BYTES), any32,
                           &out, &declared);
}

void eva_nxmem_check_factory(void) {
  NxmemAllocatorFactoryVtable table;
  eva_fill(&table, sizeof(table));
  (void)nxmem_check_factory(&table);
}

void eva_nxmem_read_backing_unvalidated(void) {
  NxmemVirtualBackingVtable out;
  (void)nxmem_read_backing_unvalidated((NxmemVirtualBackingVtable *)any_table(NXMEM_BACKING_BYTES, NXMEM_BACKING_BYTES),
                                       any32, &out);
}

void eva_nxmem_read_backing(void) {
  NxmemVirtualBackingVtable out;
  (void)nxmem_read_backing((NxmemVirtualBackingVtable *)any_table(NXMEM_BACKING_BYTES, NXMEM_BACKING_BYTES), any32,
                           any64, &out);
}

void eva_nxmem_check_backing(void) {
  NxmemVirtualBackingVtable table;
  eva_fill(&table, sizeof(table));
  (void)nxmem_check_backing(&table, any64);
}

void eva_nxmem_read_sharing_unvalidated(void) {
  NxmemSharedMappingVtable out;
  (void)nxmem_read_sharing_unvalidated((NxmemSharedMappingVtable *)any_table(NXMEM_SHARING_BYTES, NXMEM_SHARING_BYTES),
                                       any32, &out);
}

void eva_nxmem_read_sharing(void) {
  NxmemSharedMappingVtable out;
  (void)nxmem_read_sharing((NxmemSharedMappingVtable *)any_table(NXMEM_SHARING_BYTES, NXMEM_SHARING_BYTES), any32,
                           any64, &out);
}

void eva_nxmem_check_sharing(void) {
  NxmemSharedMappingVtable table;
  eva_fill(&table, sizeof(table));
  (void)nxmem_check_sharing(&table, any64);
}

#ifdef NXMEM_QUIET_WORLD
void eva_nxmem_read_allocator_unvalidated__size_only(void) {
  NxmemAllocatorVtable out;
  uint32_t declared;
  (void)nxmem_read_allocator_unvalidated((NxmemAllocatorVtable *)size_only(), any32, &out, &declared);
}

void eva_nxmem_read_allocator__size_only(void) {
  NxmemAllocatorVtable out;
  uint32_t declared;
  (void)nxmem_read_allocator((NxmemAllocatorVtable *)size_only(), any32, &out, &declared);
}

void eva_nxmem_read_factory_unvalidated__size_only(void) {
  NxmemAllocatorFactoryVtable out;
  uint32_t declared;
  (void)nxmem_read_factory_unvalidated((NxmemAllocatorFactoryVtable *)size_only(), any32, &out, &declared);
}

void eva_nxmem_read_factory__size_only(void) {
  NxmemAllocatorFactoryVtable out;
  uint32_t declared;
  (void)nxmem_read_factory((NxmemAllocatorFactoryVtable *)size_only(), any32, &out, &declared);
}

void eva_nxmem_read_backing_unvalidated__size_only(void) {
  NxmemVirtualBackingVtable out;
  (void)nxmem_read_backing_unvalidated((NxmemVirtualBackingVtable *)size_only(), any32, &out);
}

void eva_nxmem_read_backing__size_only(void) {
  NxmemVirtualBackingVtable out;
  (void)nxmem_read_backing((NxmemVirtualBackingVtable *)size_only(), any32, any64, &out);
}

void eva_nxmem_read_sharing_unvalidated__size_only(void) {
  NxmemSharedMappingVtable out;
  (void)nxmem_read_sharing_unvalidated((NxmemSharedMappingVtable *)size_only(), any32, &out);
}

void eva_nxmem_read_sharing__size_only(void) {
  NxmemSharedMappingVtable out;
  (void)nxmem_read_sharing((NxmemSharedMappingVtable *)size_only(), any32, any64, &out);
}
#endif
