/*
 * prefix.c: the readers of tables and the judges of what they delivered.
 * Attackers: a table that lies about its size or level, ends early, or lacks a slot.
 * Promise: a table's block ends where the table says it does, so that a read beyond is seen.
 *
 * A reader's input: u32 ceiling | u64 mechanism where the function takes one | the table as core_declared() takes it.
 * A judge's: the table, then the mechanism.
 */
#include "nxmem/prefix.h"

#include "call.h"

static void run_nxmem_allocator_bytes_at(core_call *call) { nxmem_allocator_bytes_at(fuzz_take_u32(&call->in)); }

static void run_nxmem_check_table_address(core_call *call) { nxmem_check_table_address(fuzz_take_u64(&call->in)); }

static void run_nxmem_prefix_extent(core_call *call) {
  const uint32_t declared = fuzz_take_u32(&call->in);
  nxmem_prefix_extent(declared, fuzz_take_u32(&call->in));
}

/* `minor` is where a reader tells the declared minor. */
#define READER(name, type)                                                                        \
  static void run_##name(core_call *call) {                                                       \
    const uint32_t ceiling = fuzz_take_u32(&call->in);                                            \
    type *out = core_room(call, sizeof *out);                                                     \
    uint32_t *minor = core_room(call, sizeof *minor);                                             \
    core_kept_unless_accepted(call, name(core_declared(call, sizeof *out), ceiling, out, minor)); \
  }
#define READER_WITHOUT_MINOR(name, type)                                                   \
  static void run_##name(core_call *call) {                                                \
    const uint32_t ceiling = fuzz_take_u32(&call->in);                                     \
    type *out = core_room(call, sizeof *out);                                              \
    core_kept_unless_accepted(call, name(core_declared(call, sizeof *out), ceiling, out)); \
  }
#define READER_OF_MECHANISM(name, type)                                                               \
  static void run_##name(core_call *call) {                                                           \
    const uint32_t ceiling = fuzz_take_u32(&call->in);                                                \
    const uint64_t mechanism = fuzz_take_u64(&call->in);                                              \
    type *out = core_room(call, sizeof *out);                                                         \
    core_kept_unless_accepted(call, name(core_declared(call, sizeof *out), ceiling, mechanism, out)); \
  }

READER(nxmem_read_allocator_unvalidated, NxmemAllocatorVtable)
READER(nxmem_read_allocator, NxmemAllocatorVtable)
READER(nxmem_read_factory_unvalidated, NxmemAllocatorFactoryVtable)
READER(nxmem_read_factory, NxmemAllocatorFactoryVtable)
READER_WITHOUT_MINOR(nxmem_read_backing_unvalidated, NxmemVirtualBackingVtable)
READER_WITHOUT_MINOR(nxmem_read_sharing_unvalidated, NxmemSharedMappingVtable)
READER_OF_MECHANISM(nxmem_read_backing, NxmemVirtualBackingVtable)
READER_OF_MECHANISM(nxmem_read_sharing, NxmemSharedMappingVtable)

static void run_nxmem_check_allocator(core_call *call) {
  nxmem_check_allocator(core_given_next(call, sizeof(NxmemAllocatorVtable)));
}

static void run_nxmem_check_factory(core_call *call) {
  nxmem_check_factory(core_given_next(call, sizeof(NxmemAllocatorFactoryVtable)));
}

static void run_nxmem_check_backing(core_call *call) {
  const NxmemVirtualBackingVtable *given = core_given_next(call, sizeof *given);
  nxmem_check_backing(given, fuzz_take_u64(&call->in));
}

static void run_nxmem_check_sharing(core_call *call) {
  const NxmemSharedMappingVtable *given = core_given_next(call, sizeof *given);
  nxmem_check_sharing(given, fuzz_take_u64(&call->in));
}

static const core_row rows[] = {
    CORE_ROW(nxmem_allocator_bytes_at),         CORE_ROW(nxmem_check_table_address), CORE_ROW(nxmem_prefix_extent),
    CORE_ROW(nxmem_read_allocator_unvalidated), CORE_ROW(nxmem_check_allocator),     CORE_ROW(nxmem_read_allocator),
    CORE_ROW(nxmem_read_factory_unvalidated),   CORE_ROW(nxmem_check_factory),       CORE_ROW(nxmem_read_factory),
    CORE_ROW(nxmem_read_backing_unvalidated),   CORE_ROW(nxmem_check_backing),       CORE_ROW(nxmem_read_backing),
    CORE_ROW(nxmem_read_sharing_unvalidated),   CORE_ROW(nxmem_check_sharing),       CORE_ROW(nxmem_read_sharing),
};
CORE_TOPIC(prefix);
