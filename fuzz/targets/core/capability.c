/*
 * capability.c: capability bits and the tables behind them.
 * Attackers: undefined bits, bits without slots, tables without bits.
 * Promise: one call, its arguments in the order of the prototype.
 */
#include "nxmem/capability.h"

#include "call.h"

static void run_nxmem_caps_at(core_call *call) { nxmem_caps_at(fuzz_take_u32(&call->in)); }

static void run_nxmem_caps_effective(core_call *call) {
  const uint64_t declared = fuzz_take_u64(&call->in);
  const uint64_t negotiated = fuzz_take_u64(&call->in);
  nxmem_caps_effective(declared, negotiated, fuzz_take_u32(&call->in));
}

static void run_nxmem_check_capabilities(core_call *call) {
  const NxmemAllocatorVtable *table = core_given_next(call, sizeof *table);
  const uint32_t declared_minor = fuzz_take_u32(&call->in);
  const uint32_t ceiling = fuzz_take_u32(&call->in);
  const uint64_t negotiated = fuzz_take_u64(&call->in);
  uint64_t *effective = core_room(call, sizeof *effective);
  core_kept_unless_accepted(call, nxmem_check_capabilities(table, declared_minor, ceiling, negotiated, effective));
}

static void run_nxmem_check_required(core_call *call) {
  const uint64_t effective = fuzz_take_u64(&call->in);
  nxmem_check_required(effective, fuzz_take_u64(&call->in));
}

static const core_row rows[] = {
    CORE_ROW(nxmem_caps_at),
    CORE_ROW(nxmem_caps_effective),
    CORE_ROW(nxmem_check_capabilities),
    CORE_ROW(nxmem_check_required),
};
CORE_TOPIC(capability);
