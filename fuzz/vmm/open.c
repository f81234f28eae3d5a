/*
 * open.c: allocators: opened over a device that may be unfit, released, finished when nothing of them is left.
 * Attackers: a device that lies about itself or fails at any step; a release while something is in use.
 * Promise: a refused opening leaves nothing but what a failed call explains; what is left of an allocator is tried again and counted meanwhile.
 */
#include <string.h>

#include "factory.h"
#include "gate.h"
#include "vmm.h"

/* ---- The end -------------------------------------------------------------------------------------------------------- */

/* With the last that refers to a device its loss is forgotten. */
static void forget_device(uint32_t device) {
  if (it.captures[device] != 0) return;
  for (uint32_t i = 0; i < it.driver_count; i++)
    if (it.engines[i].life != VM_NONE && it.engines[i].device == device) return;
  it.lost[device] = it.known[device] = 0;
}

static void forget_engine(vm_engine *e) {
  vm_settle();
  for (uint32_t i = 0; i < it.block_top; i++)
    if (it.blocks[i].engine == e) it.blocks[i].state = VM_BLOCK_NONE;
  vm_forget_prefixes(e);
  if (it.known[e->device]) vm_total[e->offer].lost = 1;
  if (e->driver->open) vm_driver_forget(e->driver);
  e->driver->open = 0;
  e->life = VM_NONE;
  forget_device(e->device);
}

static int is_used(const vm_engine *e) {
  for (uint32_t i = 0; i < it.block_top; i++)
    if (it.blocks[i].state != VM_BLOCK_NONE && it.blocks[i].engine == e) return 1;
  for (uint32_t i = 0; i < VM_PREFIXES; i++)
    if (it.prefixes[i].there && it.prefixes[i].engine == e) return 1;
  return e->residues != 0 || e->queued != 0;
}

static int holds_nothing(const vm_engine *e) {
  return e->bytes == 0 && e->pool == 0 && e->orphans == 0 && e->lost_marks == 0;
}

static uint64_t queued_marks(const vm_engine *e) {
  uint64_t count = 0;
  for (uint32_t i = 0; i < it.block_top; i++)
    count += it.blocks[i].state == VM_BLOCK_QUEUED && it.blocks[i].engine == e;
  return count;
}

/* What the driver has taken back in this section. */
static void give_back(vm_engine *e, const vm_section *s) {
  const vm_driver *d = e->driver;
  e->pool = 0;
  e->orphans = vm_idle_handles(d);
  vm_expect(e->orphans <= s->refused, "a handle is kept that the driver did not refuse");
  e->lost_marks = d->marks_open - queued_marks(e);
  vm_expect(e->lost_marks <= s->drop_fails, "a mark is kept that the driver did not refuse");
  const int emptied = e->orphans == 0 && e->lost_marks == 0;
  if (emptied && e->poisoned == 0) e->residues = 0;
  const int due = emptied && !is_used(e) && e->bytes != 0;
  vm_same("reservations given back", s->unreserves, due);
  if (due && s->unreserve_fails == 0) e->bytes = 0;
}

/* Something is left and no call has met a loss: the device is asked, once, by a mark that is looked at and dropped, and by nothing else. */
static void ask(vm_engine *e) {
  const vm_section *s = vm_section_next(e);
  if (s == NULL) {
    vm_expect(vm_is_captured(e), "a device is not asked whether it is lost");
    return;
  }
  const int bound = s->bind == NX_VMM_DONE, made = bound && s->mark_outcome == NX_VMM_DONE;
  const int ends = made && (s->state_outcome == NX_VMM_LOST || s->state_outcome == NX_VMM_SHUT_DOWN);
  vm_same("marks by which a device is asked", s->marks, bound);
  vm_same("marks looked at by which a device is asked", s->states, made);
  vm_same("marks dropped by which a device was asked", s->drops, made && !ends);
  vm_same("other calls where a device is asked",
          s->creates + s->create_fails + s->maps + s->map_fails + s->destroyed + s->refused + s->writable +
              s->readable + s->reserves + s->unreserves,
          0);
  vm_same("granules unmapped where a device is asked", s->unmapped | s->unmap_failed, 0);
  if (s->drop_fails != 0 && s->drop_lost == 0) e->lost_marks++;
  vm_settle();
}

/* A released allocator: all that can be given back is. */
void vm_close(vm_engine *e) {
  vm_settle();
  e->life = VM_RELEASED;
  if (!vm_is_gone(e) && is_used(e)) ask(e);
  if (vm_is_gone(e)) {
    forget_engine(e);
    return;
  }
  const int idle = !is_used(e) && holds_nothing(e),
            to_give = !is_used(e) || e->pool != 0 || e->orphans != 0 || e->lost_marks != 0;
  vm_section *s = idle || !to_give ? NULL : vm_section_next(e);
  if (!idle && to_give && s == NULL) vm_expect(vm_is_captured(e), "an allocator is not given back");
  if (s != NULL && s->bind == NX_VMM_DONE && !s->lost && !s->shut && !s->end_shut) give_back(e, s);
  vm_settle();
  const int all = !is_used(e) && holds_nothing(e);
  e->retained = !all && !is_used(e);
  if (all && !vm_is_gone(e)) vm_expect(e->driver->closed, "a driver is not closed");
  if (all || (s != NULL && vm_is_gone(e))) forget_engine(e);
}

void vm_release_reference(vm_engine *e) {
  if (e->references == 0 && e->inside == 0 && e->life == VM_OPEN) vm_close(e);
}

void vm_op_retain(const vm_record *op) {
  vm_engine *e = vm_pick_engine(op->a);
  if (e == NULL || e->references > 3u) return;
  e->table->retain(e->table->ctx);
  e->references++;
}

void vm_op_close(const vm_record *op) {
  vm_engine *e = vm_pick_engine(op->a);
  if (e == NULL) return;
  e->references--;
  e->table->release(e->table->ctx);
  vm_release_reference(e);
}

/* ---- Opening -------------------------------------------------------------------------------------------------------- */

static int is_power(uint64_t n) { return n != 0 && (n & (n - 1u)) == 0; }

/* 0: none that can be used. */
static uint64_t granule_of(const nx_vmm_device *said) {
  const uint64_t most = 1ull << 30, least = 4096u;
  if (!is_power(said->granularity_minimum) || !is_power(said->granularity_recommended)) return 0;
  if (said->granularity_minimum > most || said->granularity_minimum < least) return 0;
  const uint64_t recommended = said->granularity_recommended;
  return recommended <= most && recommended >= said->granularity_minimum ? recommended : said->granularity_minimum;
}

/* What the probe showed of capabilities, where it succeeded. */
static uint64_t shown(const vm_section *s, uint64_t offered) {
  const int marks = s->marks == 1 && s->mark_outcome == NX_VMM_DONE &&
                    (s->state_outcome == NX_VMM_DONE || s->state_outcome == NX_VMM_PENDING) && s->states == 1;
  if (s->readable == 0) offered &= ~NXMEM_CAP_SHARED_MAPPING;
  return marks ? offered : offered & ~NXMEM_CAP_DEFERRED_RELEASE;
}

static uint32_t probed(const vm_section *s) {
  if (s->writable == 0) return s->failed != NX_VMM_DONE ? vm_status_of(s->failed) : (uint32_t)NXMEM_STATUS_DEVICE_ERROR;
  return s->lost || s->unmap_failed != 0 || s->refused != 0 ? NXMEM_STATUS_DEVICE_ERROR : NXMEM_STATUS_OK;
}

/* What is left of the probe. */
static void note_probe(vm_engine *e, const vm_section *s) {
  e->poisoned = e->mapped = s->unmap_failed;
  e->orphans = s->refused;
  const uint64_t made = s->creates - s->destroyed - (s->unmap_failed != 0);
  e->pool = made > e->orphans && e->granule <= e->pool_bound ? made - e->orphans : 0;
  e->lost_marks = s->drop_fails;
  e->residues = e->poisoned != 0 || e->orphans != 0;
}

/* The section in which it was opened, read from begin to end. */
static uint32_t opened(vm_engine *e, const vm_section *s, uint64_t required) {
  const vm_driver *d = e->driver;
  if (s == NULL) {
    vm_expect(vm_is_captured(e), "an allocator is opened without the driver");
    return NXMEM_STATUS_BUSY;
  }
  if (s->bind != NX_VMM_DONE) return vm_status_of(s->bind);
  if (d->describe_outcome != NX_VMM_DONE) return vm_status_of(d->describe_outcome);
  e->granule = granule_of(&d->said);
  if (e->granule == 0 || vm_offers[e->offer].ladder_minimum_bytes < e->granule) {
    vm_same("reservations of a device that is of no use", s->reserves, 0);
    return NXMEM_STATUS_DEVICE_ERROR;
  }
  vm_expect(s->reserves != 0, "nothing is reserved");
  e->base = d->base;
  e->bytes = e->driver->reserved;
  if (e->bytes == 0 || d->base != vm_pages_base(d->slot)) return NXMEM_STATUS_DEVICE_ERROR;
  vm_same("alignment of a reservation", d->granule, e->granule);
  note_probe(e, s);
  const uint32_t status = probed(s);
  if (status != NXMEM_STATUS_OK) return status;
  e->caps = shown(s, vm_offers[e->offer].capabilities);
  return (required & ~e->caps) != 0 ? NXMEM_STATUS_UNSUPPORTED_CAPABILITY : NXMEM_STATUS_OK;
}

static void check_table(const vm_engine *e) {
  const NxmemAllocatorVtable *t = e->table;
  vm_same("capabilities of an allocator", t->capability_flags, e->caps);
  vm_same("mechanism of an allocator", t->mechanism_id, vm_offers[e->offer].mechanism_id);
  vm_same("device of an allocator", t->device.index, vm_offers[e->offer].index);
  vm_same("a table of virtual backing", t->virtual_backing != NULL, (e->caps & NXMEM_CAP_VIRTUAL_BACKING) != 0);
  vm_same("a table of shared mapping", t->shared_mapping != NULL, (e->caps & NXMEM_CAP_SHARED_MAPPING) != 0);
  vm_same("slots of deferred release", t->enqueue_release != NULL, (e->caps & NXMEM_CAP_DEFERRED_RELEASE) != 0);
  vm_same("the slot of structured release", t->release_allocation != NULL,
          (e->caps & NXMEM_CAP_STRUCTURED_RELEASE) != 0);
}

static void begin(vm_engine *e, const NxmemAllocatorVtable *table) {
  vm_totals *t = &vm_total[e->offer];
  e->life = VM_OPEN;
  e->references = 1;
  e->table = table;
  e->granules = (uint32_t)(e->bytes / e->granule);
  t->opened++;
  t->granule = e->granule;
  t->lost = (uint64_t)(it.lost[e->device] != 0);
  check_table(e);
}

static uint32_t refused_at_once(uint32_t offer, uint8_t how, uint64_t required) {
  if (how == 1) return NXMEM_STATUS_SHORT_STRUCT;
  if (how == 2) return NXMEM_STATUS_WRONG_DEVICE;
  if ((required & ~vm_offers[offer].capabilities) != 0) return NXMEM_STATUS_UNSUPPORTED_CAPABILITY;
  if (how == 3) return NXMEM_STATUS_SHORT_STRUCT;
  return it.lost[vm_device_of(offer)] ? NXMEM_STATUS_DEVICE_ERROR : NXMEM_STATUS_OK;
}

static void settle_open(vm_engine *e, uint32_t code, uint64_t required, const NxmemAllocatorVtable *table) {
  const vm_section *s = vm_section_next(e);
  const uint32_t status = opened(e, s, required);
  vm_settle();
  vm_same("open", code, status);
  if (status == NXMEM_STATUS_OK)
    begin(e, table);
  else
    vm_close(e);
}

static void open_one(uint32_t offer, uint64_t required, uint8_t how) {
  const NxmemAllocatorFactoryVtable *factories[VM_OFFERS];
  const NxmemAllocatorVtable *table = NULL;
  const uint32_t slot = it.driver_count;
  vm_engine *e = &it.engines[slot];
  vm_same("factories", nx_factories(factories, VM_OFFERS), VM_OFFERS);
  *e = (vm_engine){.driver = &it.drivers[slot], .offer = offer, .device = vm_device_of(offer)};
  e->pool_bound = vm_offers[offer].pool_bytes;
  e->callbacks = (NxmemHostCallbacks){sizeof e->callbacks - (how == 3), 1u, e, vm_on_reclaim, vm_on_completion};
  const NxmemOpenRequest request = {sizeof request - (how == 1),
                                    1u,
                                    {vm_offers[offer].tier, vm_offers[offer].index ^ (how == 2 ? 8u : 0)},
                                    required,
                                    &e->callbacks};
  const uint32_t refused = refused_at_once(offer, how, required);
  it.open_outcome = NX_VMM_DONE;
  it.probing = 1;
  const NxmemStatus status = factories[offer]->open_allocator(factories[offer]->ctx, &request, &table);
  it.probing = 0;
  vm_same("an allocator that was opened", table != NULL, status.code == NXMEM_STATUS_OK);
  vm_expect(status.code == NXMEM_STATUS_OK || status.message_len != 0, "a refusal without a word");
  if (refused != NXMEM_STATUS_OK) {
    vm_same("open", status.code, refused);
    vm_same("drivers opened by a refused request", it.driver_count, slot);
  } else if (it.driver_count == slot) {
    vm_expect(it.open_outcome != NX_VMM_DONE, "an allocator was opened without a driver");
    vm_same("open", status.code,
            it.open_unsupported ? NXMEM_STATUS_UNSUPPORTED_CAPABILITY : vm_status_of(it.open_outcome));
  } else {
    settle_open(e, status.code, required, table);
  }
}

void vm_op_open(const vm_record *op) {
  const uint64_t required = op->c & 1u ? (op->b & 31u) | 1u : 1u;
  if (it.driver_count < VM_DRIVERS) open_one(op->a % VM_OFFERS, required, op->d & 15u);
}

/* ---- Capture -------------------------------------------------------------------------------------------------------- */

void vm_op_capture(const vm_record *op) {
  const uint32_t device = op->a % VM_DEVICES;
  if (op->c & 1u) {
    vm_same("leave", nx_vmm_gate_leave(NXMEM_TIER_DEVICE, device),
            it.captures[device] != 0 ? NXMEM_STATUS_OK : NXMEM_STATUS_INVALID_ARGUMENT);
    it.captures[device] -= it.captures[device] != 0;
    forget_device(device);
  } else if (it.captures[device] < 3u) {
    vm_same("enter", nx_vmm_gate_enter(NXMEM_TIER_DEVICE, device), NXMEM_STATUS_OK);
    it.captures[device]++;
  }
}

/* ---- Unload report -------------------------------------------------------------------------------------------------- */

static void finish_one(vm_engine *e) {
  uint32_t ignored;
  if (e->life != VM_RELEASED) return;
  if (e->queued != 0) vm_drain_stopped(e, 0, &ignored);
  vm_close(e);
}

void vm_finish_down_to(vm_frame *f, uint32_t index) {
  while (f->cursor > index) finish_one(&it.engines[--f->cursor]);
}

static NxmemUnloadReport report(void) {
  NxmemUnloadReport r = {.struct_size = sizeof r};
  vm_frame f = {.kind = VM_CALL_DRAIN, .cursor = it.driver_count};
  vm_push(&f);
  vm_same("unload report", NxmemQueryUnloadReadiness(&r).code, NXMEM_STATUS_OK);
  vm_pop();
  vm_finish_down_to(&f, 0);
  return r;
}

void vm_op_report(const vm_record *op) {
  uint64_t allocators = 0, allocations = 0, views = 0, prefixes = 0, queued = 0;
  (void)op;
  if (it.frame_count != 0) return;
  const NxmemUnloadReport r = report();
  for (uint32_t i = 0; i < it.driver_count; i++) {
    const vm_engine *e = &it.engines[i];
    if (e->life == VM_NONE) continue;
    allocators += e->life == VM_OPEN;
    allocations += e->residues + (uint64_t)e->retained;
    queued += e->queued;
  }
  for (uint32_t i = 0; i < it.block_top; i++) {
    allocations += it.blocks[i].state != VM_BLOCK_NONE;
    views += it.blocks[i].state != VM_BLOCK_NONE ? it.blocks[i].counted_views : 0;
  }
  for (uint32_t i = 0; i < VM_PREFIXES; i++) prefixes += it.prefixes[i].there && it.prefixes[i].handles != 0;
  vm_same("allocators reported", r.live_allocators, allocators);
  vm_same("allocations reported", r.live_allocations, allocations);
  vm_same("views reported", r.live_views, views);
  vm_same("prefixes reported", r.live_capabilities, prefixes);
  vm_same("queued releases reported", r.queued_releases, queued);
}

/* ---- The end of an input -------------------------------------------------------------------------------------------- */

static void lose_device(uint32_t device) {
  it.lose_now = 1;
  open_one(device == 1u ? 2u : 0u, 1u, 0);
  it.lose_now = 0;
}

/* What is poisoned, or in use in an allocator that the host gave up, goes with its device only. */
void vm_end_all(void) {
  const vm_record none = {0};
  for (uint32_t i = 0; i < it.driver_count; i++) {
    vm_engine *e = &it.engines[i];
    while (e->life == VM_OPEN && e->references != 0) vm_op_close(&(vm_record){.a = (uint8_t)i});
  }
  vm_check();
  vm_op_report(&none);
  vm_check();
  for (uint32_t i = 0; i < VM_DEVICES; i++) {
    int left = 0;
    for (uint32_t j = 0; j < it.driver_count; j++) left |= it.engines[j].life != VM_NONE && it.engines[j].device == i;
    if (left && !it.lost[i]) lose_device(i);
  }
  vm_check();
  vm_op_report(&none);
  for (uint32_t i = 0; i < it.driver_count; i++) vm_expect(it.engines[i].life == VM_NONE, "an allocator is left");
  vm_check();
}
