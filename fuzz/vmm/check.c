/*
 * check.c: after each step: the model against the engine's figures, and against the driver's own books.
 * Attackers: whoever books twice, late or not at all.
 * Promise: everything that either of them counts is compared.
 */
#include "nxmem/statistics.h"
#include "vmm.h"

/* What an owner maps is a prefix's and nobody's commitment; what is poisoned is quarantined. */
uint64_t vm_committed(const vm_engine *e) { return vm_count(e->mapped & ~e->poisoned & ~e->owned) * e->granule; }

static void check_engine(const vm_engine *e) {
  const vm_driver *d = e->driver;
  uint64_t marks = e->lost_marks;
  vm_same("harness: granules in use or poisoned are those mapped", vm_in_use(e) | e->poisoned, e->mapped);
  if (vm_is_dead(e)) return;
  vm_same("granules that the driver has mapped", d->mapped, e->mapped);
  vm_same("handles that nothing maps", vm_idle_handles(d), e->pool + e->orphans);
  vm_same("the driver's reservation", d->bytes, e->bytes);
  for (uint32_t i = 0; i < it.block_top; i++)
    marks += it.blocks[i].state == VM_BLOCK_QUEUED && it.blocks[i].engine == e;
  vm_same("marks", d->marks_open, marks);
}

static void check_statistics(uint32_t offer) {
  NxmemVmmStats s = {.struct_size = sizeof s};
  uint64_t reserved = 0, committed = 0, mapped = 0, pool = 0, quarantined = 0, spans = 0, poisoned = 0;
  const vm_totals *t = &vm_total[offer];
  const uint32_t code =
      NxmemVmmStatistics(vm_offers[offer].mechanism_id, vm_offers[offer].tier, vm_offers[offer].index, &s);
  vm_same("statistics", code, t->opened != 0 ? NXMEM_STATUS_OK : NXMEM_STATUS_UNKNOWN_ALLOCATION);
  if (code != NXMEM_STATUS_OK) return;
  for (uint32_t i = 0; i < it.driver_count; i++) {
    const vm_engine *e = &it.engines[i];
    if (e->life == VM_NONE || e->offer != offer) continue;
    reserved += e->bytes;
    committed += vm_committed(e);
    mapped += vm_count(e->mapped);
    pool += e->pool * e->granule;
    quarantined += (vm_count(e->poisoned) + e->orphans) * e->granule;
    spans += e->residues;
    poisoned += vm_count(e->poisoned);
  }
  vm_same("reserved bytes", s.reserved_bytes, reserved);
  vm_same("committed bytes", s.committed_bytes, committed);
  vm_same("peak of committed bytes", s.peak_committed_bytes, t->peak);
  vm_same("bytes of a granule", s.granule_bytes, t->granule);
  vm_same("granules mapped", s.granules_mapped, mapped);
  vm_same("bytes in pools", s.pool_bytes, pool);
  vm_same("quarantined bytes", s.quarantined_bytes, quarantined);
  vm_same("quarantined spans", s.quarantined_spans, spans);
  vm_same("poisoned granules", s.poisoned_granules, poisoned);
  vm_same("underflows", s.refcount_underflows, 0);
  vm_same("contexts that could not be bound", s.bind_failures, t->binds_failed);
  vm_same("maps", s.maps, t->maps);
  vm_same("unmaps", s.unmaps, t->unmaps);
  vm_same("the device's loss", s.device_lost, t->lost || it.lost[vm_device_of(offer)]);
}

void vm_check(void) {
  vm_settle();
  vm_sections_done();
  for (uint32_t i = 0; i < it.driver_count; i++)
    if (it.engines[i].life != VM_NONE) check_engine(&it.engines[i]);
  for (uint32_t i = 0; i < VM_OFFERS; i++) check_statistics(i);
}
