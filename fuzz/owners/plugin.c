/*
 * plugin.c: what the plugin library's slots lead to: who may be asked now, then life's own model of it, then whose it is.
 * Attackers: whatever is answered, and what is done from inside a slot.
 * Promise: no call enters a plugin whose device is lost, but what had been let in before, and its release once that is confirmed.
 */
#include <string.h>

#include "owners.h"

life_frame *own_push(life_kind kind, uint8_t mechanism) {
  own.calls[it.frame_count] =
      (own_call){.mechanism = mechanism, .queue = OWN_NOBODY, .entered = OWN_NOBODY, .charge = OWN_NOBODY};
  return life_push(kind);
}
own_call *own_top(void) {
  own_expect(it.frame_count != 0, "the plugin is entered though nobody called the registry");
  return &own.calls[it.frame_count - 1u];
}

static void leave_part(own_call *c) {
  if (c->entered == OWN_NOBODY) return;
  it.allocators[c->entered].inside--;
  c->entered = OWN_NOBODY;
}

static void enter_part(own_call *c, uint8_t part) {
  c->entered = part;
  it.allocators[part].inside++;
}

void own_leave_first(own_call *c) {
  if (!c->inside) return;
  c->inside = 0;
  it.allocators[own.mechanisms[c->mechanism].parts[0]].inside--;
}

void own_pop(void) {
  leave_part(own_top());
  own_leave_first(own_top());
  life_pop();
}

/* ---- Opening and closing ------------------------------------------------------------------------------------------ */

static NxmemStatus open_allocator(void *ctx, const NxmemOpenRequest *request, const NxmemAllocatorVtable **out) {
  life_frame *f = life_top();
  own_call *c = own_top();
  own_expect(f->kind == CALL_OPEN, "open: not asked");
  if (f->calls != 0) {
    own_expect(f->result == NXMEM_OK && c->part + 1u < c->part_count, "register: a part too many is opened");
    own_expect(c->factories[c->part] == c->factories[0], "register: parts of two devices");
    c->part++;
    f->calls = 0;
  }
  f->a = &it.allocators[c->parts[c->part]];
  f->factory = it.module.listed[c->factories[c->part]];
  f->a->device = it.factories[f->factory].device;
  f->a->factory = c->factories[c->part];
  it.module.inside++;
  const NxmemStatus status = life_open_allocator(ctx, request, out);
  it.module.inside--;
  f->a->gate = f->result == NXMEM_OK ? GATE_OPEN : GATE_OPENING;
  return status;
}

/* Records go with a mechanism that is terminated; what has none stays the module's. */
static void bury(life_allocator *a) {
  uint64_t forgotten = 0;
  for (uint8_t i = 0; i < LIFE_BLOCKS; i++) {
    life_block *b = &it.blocks[i];
    if (b->state != BLOCK_QUARANTINED || life_owner(b) != a) continue;
    b->state = BLOCK_GONE;
    b->indexed = 0;
    own.blocks[i].state = OWN_FORGOTTEN;
    if (own.blocks[i].charge != OWN_NOBODY) own_charge_ended(own.blocks[i].charge, 0);
    forgotten++;
  }
  a->quarantined -= forgotten;
  if (a->quarantined != 0) return;
  a->quarantined_bytes = a->owned = a->mapped = a->residual = 0;
}

static void before_closing(life_allocator *a) {
  own_call *c = own_top();
  own_mechanism *m = &own.mechanisms[c->mechanism];
  own_expect(m->life == OWN_RETIRED || m->life == OWN_TERMINATED, "remove: a plugin is entered whose device is lost");
  uint32_t last = m->part_count;
  while (last != 0 && m->parts[last - 1u] == OWN_NOBODY) last--;
  own_expect(last != 0 && &it.allocators[m->parts[last - 1u]] == a, "remove: parts go in another order");
  if (m->life == OWN_TERMINATED) bury(a);
  a->gate = m->life == OWN_RETIRED ? GATE_CLOSING : GATE_WAITING;
  own_check();
}

static void closed(life_allocator *a) {
  own_mechanism *m = &own.mechanisms[own_top()->mechanism];
  for (uint32_t i = 0; i < m->part_count; i++)
    if (m->parts[i] == (uint8_t)(a - it.allocators)) m->parts[i] = OWN_NOBODY;
}

static void release_allocator(void *ctx) {
  life_frame *f = life_top();
  life_allocator *a = life_allocator_of_ctx(ctx);
  own_expect(f->kind == CALL_OPEN || f->kind == CALL_CLOSE, "release of an allocator: not asked");
  f->a = a;
  const int opened = a->gate != GATE_OPENING;
  if (f->kind == CALL_CLOSE)
    before_closing(a);
  else if (opened)
    a->gate = GATE_CLOSING;
  life_release_allocator(ctx);
  if (f->kind == CALL_CLOSE) closed(a);
  a->gate = opened ? GATE_HELD : GATE_GONE;
  if (opened) life_settle_share(a);
}

/* ---- Allocating --------------------------------------------------------------------------------------------------- */

static NxmemStatus allocate(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *out) {
  life_frame *f = life_top();
  own_call *c = own_top();
  own_expect(f->kind == CALL_ALLOCATE, "allocate: not asked");
  if (c->pending) own_slot_allocate(f, c);
  const own_mechanism *m = &own.mechanisms[c->mechanism];
  own_expect(m->life <= OWN_RETIRED, "allocate: a plugin is entered whose device is lost");
  if (f->calls != 0) {
    own_expect(f->result == NXMEM_ERR_PLUGIN && c->part + 1u < m->part_count, "allocate: a part too many is asked");
    leave_part(c);
    c->part++;
    f->calls = 0;
    enter_part(c, m->parts[c->part]);
  }
  f->a = &it.allocators[m->parts[c->part]];
  const NxmemStatus status = life_allocate(ctx, request, out);
  if (f->result != NXMEM_OK) return status;
  leave_part(c);
  own_leave_first(c);
  if (c->charge != OWN_NOBODY) own_slot_allocated(f, c);
  return status;
}

/* ---- Releasing ---------------------------------------------------------------------------------------------------- */

void own_settle_next(own_queue *q, own_call *c) {
  const uint8_t block = q->blocks[0];
  memmove(q->blocks, q->blocks + 1, sizeof q->blocks - 1u);
  q->count--;
  c->left--;
  c->quarantined++;
  own_mechanism_of(block)->prepared--;
  own_keep(block, NXMEM_KEPT_DEVICE_LOST);
}

/* What stands before it in the queue is settled without a call: its device is lost. */
static uint8_t take_from_queue(own_call *c, uint8_t wanted) {
  own_queue *q = &own.queues[c->queue];
  while (c->left != 0 && q->count != 0 && q->blocks[0] != wanted) {
    own_expect(own_mechanism_of(q->blocks[0])->life > OWN_RETIRED, "drain: one that can be given back is passed over");
    own_settle_next(q, c);
  }
  own_expect(c->left != 0 && q->count != 0, "drain: one is asked back that was not next");
  memmove(q->blocks, q->blocks + 1, sizeof q->blocks - 1u);
  q->count--;
  c->left--;
  return wanted;
}

static void before_release(const NxmemAllocation *allocation, int prepared) {
  life_frame *f = life_top();
  own_call *c = own_top();
  if (f->kind == CALL_ALLOCATE && !f->handing_back && c->charge != OWN_NOBODY) own_slot_roll_back(f, c);
  if (f->kind != CALL_OWNED) return; /* handed back at once: life's */
  life_block *b = life_block_of(allocation->allocation_id);
  own_expect(b != NULL, "release: of nothing that there is");
  const uint8_t block = (uint8_t)(b - it.blocks);
  if (c->queue != OWN_NOBODY) {
    f->block = &it.blocks[take_from_queue(c, block)];
    f->calls = 0;
    c->mechanism = own.blocks[block].mechanism;
  }
  own_expect(own_mechanism_of(block)->life <= OWN_RETIRED, "release: a plugin is entered whose device is lost");
  own.blocks[block].state = prepared ? OWN_EXECUTING : OWN_RELEASING;
  f->a = life_owner(b);
  f->lost = 0;
  enter_part(c, (uint8_t)b->owner);
}

static void after_release(int prepared) {
  life_frame *f = life_top();
  own_call *c = own_top();
  if (f->kind != CALL_OWNED) return;
  const uint8_t block = (uint8_t)(f->block - it.blocks);
  own_mechanism *m = own_mechanism_of(block);
  nxmem_keeping keeping = f->gone        ? NXMEM_KEPT_NOT
                          : f->unchanged ? NXMEM_KEPT_ALLOCATOR_REFUSED
                                         : NXMEM_KEPT_PARTIAL_RELEASE;
  if (m->life == OWN_LOST) keeping = NXMEM_KEPT_DEVICE_LOST;
  leave_part(c);
  own_settle(block, keeping, f->status);
  if (prepared) m->prepared--;
  c->completed += keeping == NXMEM_KEPT_NOT;
  c->quarantined += keeping != NXMEM_KEPT_NOT;
}

/* By what it was before it was asked back. */
static int was_prepared(const NxmemAllocation *allocation) {
  const life_block *b = life_block_of(allocation->allocation_id);
  if (b == NULL) return 0;
  const own_state state = own.blocks[b - it.blocks].state;
  return state == OWN_PREPARED || state == OWN_QUEUED;
}

static NxmemStatus deallocate(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped_out) {
  const int prepared = was_prepared(allocation);
  before_release(allocation, prepared);
  const NxmemStatus status = life_deallocate(ctx, allocation, unmapped_out);
  after_release(prepared);
  return status;
}

static NxmemStatus release_allocation(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *out) {
  const int prepared = was_prepared(allocation);
  before_release(allocation, prepared);
  const NxmemStatus status = life_release_allocation(ctx, allocation, out);
  after_release(prepared);
  return status;
}

/* ---- Pages -------------------------------------------------------------------------------------------------------- */

/* What had been let in before a loss may still enter, and no other does. */
static own_call *before_pages(void) {
  own_expect(own.mechanisms[own_top()->mechanism].life <= OWN_RETIRED || life_top()->lost,
             "pages: a plugin is entered whose device is lost");
  return own_top();
}

static NxmemStatus mapped_bytes_for_ranges(void *ctx, const NxmemRangeRequest *requests, uint64_t count,
                                           uint64_t *mapped_out) {
  own_call *c = before_pages();
  const NxmemStatus status = life_mapped_bytes_for_ranges(ctx, requests, count, mapped_out);
  own_slot_cost(life_top(), c);
  return status;
}

static NxmemStatus commit_range(void *ctx, const NxmemRangeRequest *request) {
  own_slot_commit(life_top(), before_pages());
  return life_commit_range(ctx, request);
}

static NxmemStatus decommit_range(void *ctx, const NxmemRangeRequest *request, uint64_t *unmapped_out) {
  (void)before_pages();
  const NxmemStatus status = life_decommit_range(ctx, request, unmapped_out);
  own_slot_decommitted(life_top());
  return status;
}

static NxmemStatus committed_bytes(void *ctx, const NxmemAllocation *allocation, uint64_t *committed_out) {
  own_slot_settling(life_top(), before_pages());
  const NxmemStatus status = life_committed_bytes(ctx, allocation, committed_out);
  own_slot_settled(life_top(), status.code, *committed_out);
  return status;
}

const fuzz_hooks nxmem_fuzz_hooks = {
    .negotiate = life_negotiate,
    .create_factories = life_create_factories,
    .query_unload = life_query_unload,
    .slots =
        {
            .factory = {.open_allocator = open_allocator, .release = life_release_factory},
            .allocator = {.allocate = allocate,
                          .deallocate = deallocate,
                          .retain = life_retain_allocator,
                          .release = release_allocator,
                          .enqueue_release = life_enqueue_release,
                          .drain_releases = life_drain_releases,
                          .pending_release_count = life_pending_release_count,
                          .release_allocation = release_allocation},
            .backing = {.allocate_committed = allocate,
                        .commit_range = commit_range,
                        .decommit_range = decommit_range,
                        .mapped_bytes_for_ranges = mapped_bytes_for_ranges,
                        .mapped_bytes_for_allocation = life_mapped_bytes_for_allocation,
                        .committed_bytes = committed_bytes},
            .sharing = {.create_shared_prefix = life_create_shared_prefix,
                        .retain_shared_prefix = life_retain_shared_prefix,
                        .release_shared_prefix = life_release_shared_prefix,
                        .incremental_owned_bytes = life_incremental_owned_bytes,
                        .commit_shared_prefix = life_commit_shared_prefix},
        },
};
