/*
 * reclaim.c: the program's hook, asked on behalf of a plugin.
 *
 * Attackers: a plugin that asks for another mechanism or device, from any thread, also while its allocator closes or
 * its module goes.
 * Promise: while the hook runs, neither the module nor the host goes; what the hook says never passes what was asked
 * for.
 */
#include "nxmem/reclaim.h"

#include "fetch.h"
#include "nxmem/handle.h"
#include "reclaim.h"

static nx_reclaim_end ask_hook(nx_allocator *a, uint64_t handle, uint64_t bytes, uint64_t *reclaimed_out) {
  uint64_t said = 0;
  if (a->deferral.reclaim(a->deferral.reclaim_ctx, (nxmem_allocator){handle}, bytes, &said) != 0)
    return NX_RECLAIM_HOOK_REFUSED;
  *reclaimed_out = nxmem_reclaimed(said, bytes);
  return NX_RECLAIM_DONE;
}

static nxmem_verdict take(nx_allocator *a, const NxmemReclaimRequest *published, NxmemReclaimRequest *taken) {
  nx_snapshot snapshot;
  const void *view = NULL;
  nxmem_verdict v = nx_fetch_table(a->deferral.fetch, published, NXMEM_RECLAIM_BYTES, &snapshot, &view);
  if (v.reason == NXMEM_REASON_NONE) v = nxmem_reclaim_take(view, taken);
  if (v.reason == NXMEM_REASON_NONE) v = nxmem_check_reclaim(taken, a->table.mechanism_id, a->table.device);
  return v;
}

static int is_live(const nx_slot *slot) {
  return nxmem_check_live(atomic_load(&slot->word)).reason == NXMEM_REASON_NONE;
}

static nx_reclaim_end reclaim_counted(nx_allocator *a, uint64_t handle, const nx_module *module,
                                      const NxmemReclaimRequest *published, uint64_t *reclaimed_out,
                                      nxmem_verdict *verdict_out) {
  if (!is_live(&a->slot) || !is_live(&module->slot)) return NX_RECLAIM_NOT_NOW;
  NxmemReclaimRequest taken;
  *verdict_out = take(a, published, &taken);
  if (verdict_out->reason != NXMEM_REASON_NONE) return NX_RECLAIM_REFUSED;
  return ask_hook(a, handle, taken.bytes, reclaimed_out);
}

/*
 * Like any call into the module: counted in first, looked at second. So unload and the host's destruction see the
 * hook, or it sees them. The allocator may be closed while the hook runs: its slot stays, by the caller's share.
 */
nx_reclaim_end nx_reclaim(nx_allocator *a, uint64_t handle, const NxmemReclaimRequest *published,
                          uint64_t *reclaimed_out, nxmem_verdict *verdict_out) {
  if (a->deferral.reclaim == NULL) return NX_RECLAIM_NO_HOOK;
  nx_module *module = nx_module_at(atomic_load_explicit(&a->module, memory_order_relaxed));
  atomic_fetch_add(&module->inside, 1u);
  const nx_reclaim_end end = reclaim_counted(a, handle, module, published, reclaimed_out, verdict_out);
  atomic_fetch_sub(&module->inside, 1u);
  return end;
}
