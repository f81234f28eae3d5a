/*
 * queue.c: queued releases, and what the host does while the engine is inside a call of it.
 * Attackers: marks that pass in any order or fail; a host that calls back, drains again, and gives the allocator up from inside.
 * Promise: completions come in the order of the queue, once each, behind their marks; what is reported is what was done.
 */
#include <string.h>

#include "vmm.h"

/* ---- Inside a call of the host -------------------------------------------------------------------------------------- */

/* The engine holds a reference of its own meanwhile. */
void vm_inside_begin(vm_frame *f) {
  f->engine->inside++;
  f->entered = 1;
}

void vm_inside_end(vm_frame *f) {
  if (!f->entered) return;
  f->entered = 0;
  f->engine->inside--;
  vm_release_reference(f->engine);
}

/* An attempt has failed for want of memory: nothing of it may be left, pools are empty, and the host is asked, once. */
NxmemStatus vm_on_reclaim(void *ctx, const NxmemReclaimRequest *request, uint64_t *reclaimed_out) {
  vm_frame *f = vm_top();
  vm_expect(f != NULL && f->engine == ctx, "the host is asked for memory by an allocator that was not called");
  vm_engine *e = f->engine;
  if (f->kind == VM_CALL_ALLOCATE)
    vm_try_allocate(f);
  else if (f->kind == VM_CALL_COMMIT)
    vm_try_commit(f);
  else if (f->kind == VM_CALL_PREFIX)
    vm_try_prefix(f);
  else
    vm_fail("the host is asked for memory by a call that needs none", f->kind, 0);
  vm_same("an attempt behind which the host is asked for memory", f->tried.status, NXMEM_STATUS_OUT_OF_MEMORY);
  vm_same("times that the host is asked", f->reclaims++, 0);
  vm_same("size of the request", request->struct_size, sizeof *request);
  vm_same("bytes that the host is asked for", request->bytes, f->bytes);
  vm_same("mechanism of the request", request->mechanism_id, vm_offers[e->offer].mechanism_id);
  vm_same("device of the request", request->device.index, vm_offers[e->offer].index);
  vm_trims(e->device);
  vm_inside_begin(f);
  vm_inside();
  *reclaimed_out = 0;
  return (NxmemStatus){.code = NXMEM_STATUS_OK};
}

/* ---- Queueing ------------------------------------------------------------------------------------------------------- */

static uint32_t enqueue(vm_block *b) {
  vm_engine *e = b->engine;
  if (b->state == VM_BLOCK_QUEUED) return NXMEM_STATUS_UNKNOWN_ALLOCATION;
  vm_section *s = vm_section_next(e);
  if (s == NULL) {
    vm_expect(vm_is_gone(e) || vm_is_captured(e), "a release is queued without a mark");
    return vm_is_gone(e) ? NXMEM_STATUS_DEVICE_ERROR : NXMEM_STATUS_BUSY;
  }
  if (s->bind != NX_VMM_DONE) return vm_status_of(s->bind);
  vm_same("marks made for a queued release", s->marks, 1);
  if (s->mark_outcome != NX_VMM_DONE) return vm_status_of(s->mark_outcome);
  b->state = VM_BLOCK_QUEUED;
  b->sequence = e->next_sequence++;
  b->mark = e->driver->mark_count - 1u;
  b->counted_views = 0;
  e->queued++;
  return NXMEM_STATUS_OK;
}

void vm_op_enqueue(const vm_record *op) {
  vm_block *b = vm_pick_block(op->b);
  uint64_t ticket = 0;
  uint32_t refused = 0;
  if (b == NULL || b->engine->table->enqueue_release == NULL) return;
  const NxmemAllocatorVtable *table = b->engine->table;
  NxmemAllocation name = b->name;
  const int sound = !vm_mangle(&name, op->d, &refused);
  const uint32_t code = table->enqueue_release(table->ctx, &name, &ticket).code;
  vm_same("enqueue", code, sound ? enqueue(b) : refused);
  vm_expect((ticket != 0) == (code == NXMEM_STATUS_OK), "a ticket without a queued release, or the reverse");
  if (code != NXMEM_STATUS_OK) return;
  vm_expect(ticket > vm_last_ticket, "a ticket was given before");
  vm_last_ticket = b->ticket = ticket;
}

static vm_block *oldest(const vm_engine *e) {
  vm_block *found = NULL;
  for (uint32_t i = 0; i < it.block_top; i++) {
    vm_block *b = &it.blocks[i];
    if (b->state == VM_BLOCK_QUEUED && b->engine == e && (found == NULL || b->sequence < found->sequence)) found = b;
  }
  return found;
}

/* ---- Draining ------------------------------------------------------------------------------------------------------- */

/* The end of the oldest: its mark was passed, or the device holds nothing up any more. */
static vm_end end_oldest(vm_block *b) {
  vm_engine *e = b->engine;
  vm_section *s = vm_section_next(e);
  if (s == NULL) {
    vm_expect(vm_is_gone(e), "a queued release ends without the driver");
    return vm_block_end(b, NULL, 1);
  }
  if (s->bind != NX_VMM_DONE) {
    vm_expect(s->bind == NX_VMM_LOST || s->bind == NX_VMM_SHUT_DOWN, "a queued release ends without the context");
    return vm_block_end(b, s, 0);
  }
  vm_same("marks looked at", s->states, 1);
  vm_expect(
      s->state_outcome != NX_VMM_PENDING && s->state_outcome != NX_VMM_CAPTURING && s->state_outcome != NX_VMM_UNBOUND,
      "a release ends before its mark was passed");
  const int gone = s->state_outcome != NX_VMM_DONE;
  vm_same("marks dropped", s->drops, !gone);
  if (s->drop_fails != 0 && s->drop_lost == 0) e->lost_marks++;
  return vm_block_end(b, s, 0);
}

NxmemStatus vm_on_completion(void *ctx, const NxmemReleaseCompletion *c) {
  vm_engine *e = ctx;
  vm_frame *f = vm_top();
  vm_expect(f != NULL && f->kind == VM_CALL_DRAIN, "a completion is told outside a drain");
  vm_expect(f->engine == e || f->engine == NULL, "a completion of an allocator that is not drained");
  vm_expect(f->engine != NULL || e->life == VM_RELEASED, "a completion of an allocator that the host still has");
  if (f->engine == NULL) vm_finish_down_to(f, (uint32_t)(e - it.engines) + 1u);
  vm_block *b = oldest(e);
  vm_expect(b != NULL, "a completion of nothing");
  const vm_block was = *b;
  const vm_end end = end_oldest(b);
  vm_same("a completion's ticket", c->ticket, was.ticket);
  vm_same("a completion's allocation", c->allocation_id, was.name.allocation_id);
  vm_same("a completion's mechanism", c->mechanism_id, was.name.mechanism_id);
  vm_same("a completion's size", c->struct_size, sizeof *c);
  vm_same("a completion's state", c->outcome.state,
          end.status == NXMEM_STATUS_OK ? NXMEM_RELEASE_COMPLETE : NXMEM_RELEASE_QUARANTINED);
  vm_same("a completion's bytes", c->outcome.allocation_bytes, was.name.bytes);
  vm_same("bytes unmapped by a completion", c->outcome.unmapped_bytes, end.unmapped);
  vm_same("bytes kept back by a completion", c->outcome.residual_owned_bytes, end.residual);
  f->told++;
  vm_check();
  if (f->engine != NULL) {
    e->draining++;
    vm_inside();
    e->draining--;
  }
  e->queued--;
  return (NxmemStatus){.code = NXMEM_STATUS_OK};
}

/* Fewer than there were have ended: why the next one may not. */
void vm_drain_stopped(vm_engine *e, uint64_t told, uint32_t *status_out) {
  uint32_t outcome = NX_VMM_CAPTURING;
  if (oldest(e) == NULL) {
    *status_out = NXMEM_STATUS_OK;
    return;
  }
  vm_section *s = vm_section_next(e);
  if (s == NULL) {
    vm_expect(!vm_is_gone(e) && vm_is_captured(e), "a drain stops without a reason");
  } else if (s->bind != NX_VMM_DONE) {
    outcome = s->bind;
  } else {
    outcome = s->state_outcome;
    vm_expect(outcome == NX_VMM_PENDING || outcome == NX_VMM_CAPTURING || outcome == NX_VMM_UNBOUND,
              "a drain stops at a mark that was passed");
  }
  *status_out = told != 0 || outcome == NX_VMM_PENDING ? NXMEM_STATUS_OK : vm_status_of(outcome);
}

void vm_op_drain(const vm_record *op) {
  vm_frame f = {.kind = VM_CALL_DRAIN, .engine = vm_pick_engine(op->a)};
  if (f.engine == NULL || f.engine->table->drain_releases == NULL) return;
  vm_engine *e = f.engine;
  const uint64_t max = op->d & 1u ? op->c % 4u : ~0ull;
  uint64_t retired = 77, pending = 77;
  uint32_t expected = NXMEM_STATUS_OK;
  vm_same("pending", e->table->pending_release_count(e->table->ctx, &pending).code, NXMEM_STATUS_OK);
  vm_same("releases pending", pending, e->queued);
  const uint64_t waiting = e->draining ? 0 : e->queued;
  vm_inside_begin(&f);
  vm_push(&f);
  const NxmemStatus status = e->table->drain_releases(e->table->ctx, max, &retired);
  vm_pop();
  if (f.told < max && f.told < waiting) vm_drain_stopped(e, f.told, &expected);
  vm_expect(f.told <= max && f.told <= waiting, "more releases end than were waiting");
  vm_same("drain", status.code, expected);
  vm_same("releases ended", retired, expected == NXMEM_STATUS_OK ? f.told : 77u);
  vm_inside_end(&f);
}

/* Work ends, in any order: the n-th mark that is not passed yet, of one driver. */
void vm_op_pass(const vm_record *op) {
  if (it.driver_count == 0) return;
  vm_driver *d = &it.drivers[op->a % it.driver_count];
  uint32_t waiting = 0, number = 0;
  for (uint32_t i = 0; i < d->mark_count; i++) waiting += d->marks[i] == 1;
  if (waiting == 0) return;
  for (uint32_t i = 0; i < d->mark_count; i++)
    if (d->marks[i] == 1 && (number++ == op->b % waiting || op->c & 1u)) d->marks[i] = 2;
}
