/*
 * registry_backing.c: committing and decommitting what was allocated through a binding.
 *
 * Attackers: callers with records that are not what was allocated; devices that vanish while pages are mapped.
 * Promise: the whole record is compared before the plugin is asked; what was lost meanwhile is kept.
 */
#include <inttypes.h>

#include "error.h"
#include "nxmem/handle.h"
#include "registry.h"

/* One call: the binding is used as long as it lasts. */
typedef struct backing_call {
  nx_binding *binding;
  nx_mechanism *mechanism;
  nxmem_allocator allocator;
} backing_call;

/* As the host's record has it. Where the record was used again meanwhile, its handle is stale to whatever is asked next. */
static nxmem_result compare(const nxmem_bound *bound, const char *verb, nxmem_error *error) {
  const nx_claimed there = nx_record_look(nx_allocation_of(bound->id));
  if (there.bytes == bound->bytes && there.align == bound->align) return NXMEM_OK;
  return nx_fail(error, NXMEM_ERR_MISMATCH,
                 "%s: found %" PRIu64 " bytes at %" PRIu64 ", needed %" PRIu64 " bytes at %" PRIu64, verb, bound->bytes,
                 bound->align, there.bytes, there.align);
}

static nxmem_result check(const nxmem_bound *bound, nxmem_work work, backing_call *call, const char *verb,
                          nxmem_error *error) {
  call->mechanism = nx_mechanism_of_binding(call->binding);
  const nxmem_verdict v = nxmem_check_work(nx_lifecycle(call->mechanism), (uint32_t)work);
  if (v.reason != NXMEM_REASON_NONE) return nx_ended(v, verb, error);
  const nx_side *side = nx_side_of(bound->id);
  if (side == NULL || !nxmem_is_claimable(atomic_load(&side->word), bound->id))
    return nx_fail(error, NXMEM_ERR_UNKNOWN_ALLOCATION, "%s: no live allocation", verb);
  if (atomic_load_explicit(&side->binding, memory_order_relaxed) != bound->binding.id)
    return nx_fail(error, NXMEM_ERR_WRONG_OWNER, "%s: found an allocation of another binding", verb);
  call->allocator.id = nx_record_owner(nx_allocation_of(bound->id));
  return compare(bound, verb, error);
}

static nxmem_result begin(const nxmem_bound *bound, nxmem_work work, backing_call *call, const char *verb,
                          nxmem_error *error) {
  if (bound == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "%s: bound is NULL", verb);
  nxmem_result r = nx_binding_use(bound->binding, &call->binding, error);
  if (r != NXMEM_OK) return r;
  r = check(bound, work, call, verb, error);
  if (r != NXMEM_OK) nx_binding_unuse(call->binding);
  return r;
}

/* A loss, or the end of its owner, passed by what this call had pinned. */
static nxmem_result end(const nxmem_bound *bound, backing_call *call, nxmem_result r, const char *verb,
                        nxmem_error *error) {
  const uint32_t lifecycle = nx_lifecycle(call->mechanism);
  const int ended = nxmem_check_work(lifecycle, NXMEM_WORK_RELEASE).reason != NXMEM_REASON_NONE;
  if (ended || nx_binding_is_dropped(call->binding)) r = nx_bound_keep(lifecycle, bound, verb, error);
  nx_binding_unuse(call->binding);
  return r;
}

nxmem_result nxmem_bound_commit(const nxmem_bound *bound, NxmemByteRange range, nxmem_error *error) {
  backing_call call;
  nxmem_result r = begin(bound, NXMEM_WORK_NEW, &call, "commit", error);
  if (r != NXMEM_OK) return r;
  r = nxmem_commit(call.allocator, (nxmem_allocation){bound->id, bound->ptr}, range, error);
  return end(bound, &call, r, "commit", error);
}

nxmem_result nxmem_bound_decommit(const nxmem_bound *bound, NxmemByteRange range, uint64_t *unmapped_out,
                                  nxmem_error *error) {
  backing_call call;
  nxmem_result r = begin(bound, NXMEM_WORK_RELEASE, &call, "decommit", error);
  if (r != NXMEM_OK) return r;
  r = nxmem_decommit(call.allocator, (nxmem_allocation){bound->id, bound->ptr}, range, unmapped_out, error);
  return end(bound, &call, r, "decommit", error);
}
