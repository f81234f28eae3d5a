/*
 * deferred.c: releases that are queued, what completes them, and draining.
 * Attackers: completions that come twice, early, late, short, nested, through a stranger's context or for a stranger.
 * Promise: one completion settles one queued release; every other changes nothing but the count of refusals.
 */
#include <string.h>

#include "kernel.h"
#include "life.h"
#include "nxmem/verdict.h"

/* ---- Pins -------------------------------------------------------------------------------------------------------- */

static int pin(void *ctx) {
  (void)ctx;
  if (life_top()->refuse_pin) return 1;
  it.pins_out++;
  return 0;
}

static void unpin(void *ctx) {
  (void)ctx;
  life_expect(it.pins_out > 0, "unpinned more often than pinned");
  it.pins_out--;
}

const nxmem_pin_source life_pins = {pin, unpin, NULL};

/* ---- Enqueuing --------------------------------------------------------------------------------------------------- */

static void leave_queue(life_allocator *a) {
  a->queued--;
  life_settle_share(a);
}

static void quarantine(life_frame *f, life_block *b, const NxmemStatus *status) {
  life_finish(b, 0, 0, LIFE_UNWRITTEN, status->code);
  leave_queue(f->a);
  f->result = NXMEM_ERR_QUARANTINED;
  if (status->code == NXMEM_STATUS_OK) life_violation(NXMEM_REASON_TICKET_UNWRITTEN);
}

static void refused(life_frame *f, life_block *b, const NxmemStatus *status) {
  if (!life_index(b)) {
    quarantine(f, b, status);
    return;
  }
  f->a->live++;
  b->state = BLOCK_LIVE;
  b->pins = 0;
  leave_queue(f->a);
  f->result = NXMEM_ERR_PLUGIN;
}

static void answered(life_frame *f, life_block *b, const NxmemStatus *status, uint64_t ticket) {
  f->completed = b->id != f->id || b->state != BLOCK_QUEUING;
  if (f->completed) {
    f->result = status->code == NXMEM_STATUS_OK ? NXMEM_OK : NXMEM_ERR_PLUGIN;
  } else if (status->code == NXMEM_STATUS_RELEASE_QUARANTINED) {
    quarantine(f, b, status);
  } else if (status->code != NXMEM_STATUS_OK) {
    refused(f, b, status);
  } else if (ticket == LIFE_UNWRITTEN) {
    quarantine(f, b, status);
  } else {
    b->state = BLOCK_QUEUED;
    b->pins = 0;
    b->ticket = ticket;
    f->result = NXMEM_OK;
  }
}

NxmemStatus life_enqueue_release(void *ctx, const NxmemAllocation *allocation, uint64_t *ticket_out) {
  life_frame *f = life_top();
  life_block *b = f->block;
  life_expect(f->kind == CALL_ENQUEUE && f->a == life_allocator_of_ctx(ctx) && f->calls++ == 0, "enqueue: not asked");
  life_check_allocation(f->a, b, allocation);
  f->id = b->id;
  b->state = BLOCK_QUEUING;
  b->indexed = 0;
  b->pins = 1;
  b->met = 0;
  f->a->queued++;
  f->a->rounds++;
  f->a->live--;
  const life_record answer = life_take_answer();
  life_nest(&answer);
  const NxmemStatus status = life_status(&answer);
  f->out = life_number(answer.b, it.next_number++, &answer);
  life_store(ticket_out, f->out);
  answered(f, b, &status, f->out);
  return status;
}

static nxmem_result expect_enqueue(const life_allocator *a, const life_block *b, const void *ptr, uint64_t bytes) {
  const nxmem_result entered = life_enter(a);
  if (entered != NXMEM_OK) return entered;
  if ((a->effective & NXMEM_CAP_DEFERRED_RELEASE) == 0) return NXMEM_ERR_UNSUPPORTED_CAPABILITY;
  return life_claim(a, b, ptr, bytes, 0);
}

void life_op_enqueue(const life_record *op) {
  life_block *b = &it.blocks[op->b % LIFE_BLOCKS];
  life_allocator *a = op->c & 0x80u ? &it.allocators[op->a % LIFE_ALLOCATORS] : life_owner(b);
  const nxmem_release_options o = {op->d & 1u ? op->y : 0, 0};
  const nxmem_allocation named = {b->id, (void *)(uintptr_t)b->address};
  nxmem_result expected = expect_enqueue(a, b, named.ptr, o.bytes);
  life_frame *f = life_push(CALL_ENQUEUE);
  f->a = a;
  f->block = b;
  f->refuse_pin = op->d >> 5 == 7u;
  const int asked = expected == NXMEM_OK && !(f->refuse_pin && a->pinned);
  f->result = expected == NXMEM_OK ? NXMEM_ERR_BUSY : expected; /* where the pin is refused */
  uint64_t ticket = 77;
  a->inside += expected == NXMEM_OK;
  const nxmem_result found = nxmem_enqueue_release(a->handle, named, &o, &ticket, NULL);
  a->inside -= expected == NXMEM_OK;
  life_expect((f->calls == 1) == asked, "enqueue: the plugin was asked, or was not, wrongly");
  life_same_result("enqueue", found, f->result);
  if (f->completed && b->id == f->id && b->state == BLOCK_LIVE) life_unpin(b);
  life_expect(found == NXMEM_OK ? ticket == (f->out == LIFE_UNWRITTEN ? 0 : f->out) : ticket == 77, "enqueue: ticket");
  life_pop();
}

/* ---- Completing -------------------------------------------------------------------------------------------------- */

static int is_present(const life_allocator *a) { return a->gate != GATE_NONE && a->gate != GATE_GONE; }

/* One that a context names; NULL: a stray. */
static life_allocator *named_by(const void *context) {
  for (uint32_t i = 0; i < LIFE_ALLOCATORS; i++) {
    life_allocator *a = &it.allocators[i];
    if (a->callbacks != NULL && is_present(a) && a->context == context) return a;
  }
  return NULL;
}

static void forget(life_block *b) {
  if (b->indexed) life_keep(b);
  b->indexed = 0;
  b->state = BLOCK_GONE;
}

static void settle(life_allocator *a, life_block *b, const NxmemReleaseOutcome *o) {
  const uint32_t code = o->failure.code, state = o->state;
  const int says_live = code != NXMEM_STATUS_RELEASE_QUARANTINED && state == NXMEM_RELEASE_FAILED;
  const int revives = says_live && !a->closed && life_index(b);
  if (revives) {
    b->state = BLOCK_LIVE;
    a->live++;
  } else {
    life_finish(b, code == NXMEM_STATUS_OK && state == NXMEM_RELEASE_COMPLETE, o->unmapped_bytes,
                o->residual_owned_bytes, code);
    if (a->gate == GATE_HELD && b->state == BLOCK_QUARANTINED) forget(b);
  }
  a->queued--;
}

/* NONE where it settles. */
static uint32_t judge(const life_allocator *a, const life_block *b, const NxmemReleaseCompletion *c) {
  if (b == NULL || b->state == BLOCK_GONE || b->state == BLOCK_NONE) return NXMEM_REASON_UNKNOWN_ALLOCATION;
  if (life_owner(b) != a) return NXMEM_REASON_OTHER_OWNER;
  if (c->mechanism_id != (a->gate == GATE_OPENING ? 0 : a->mechanism)) return NXMEM_REASON_OTHER_MECHANISM;
  if (b->state == BLOCK_QUEUING) return NXMEM_REASON_NONE;
  if (b->state != BLOCK_QUEUED) return NXMEM_REASON_NOT_QUEUED;
  return c->ticket == b->ticket ? NXMEM_REASON_NONE : NXMEM_REASON_OTHER_TICKET;
}

static uint32_t status_of(uint32_t reason) {
  switch (reason) {
    case NXMEM_REASON_NONE:
      return NXMEM_STATUS_OK;
    case NXMEM_REASON_SHORT_COMPLETION:
      return NXMEM_STATUS_SHORT_STRUCT;
    case NXMEM_REASON_OTHER_MECHANISM:
      return NXMEM_STATUS_WRONG_MECHANISM;
    case NXMEM_REASON_NULL_POINTER:
    case NXMEM_REASON_MISALIGNED:
    case NXMEM_REASON_UNREADABLE:
      return NXMEM_STATUS_INVALID_ARGUMENT;
    default:
      return NXMEM_STATUS_UNKNOWN_ALLOCATION;
  }
}

static void refuse(uint32_t reason) {
  it.violations++;
  it.refused++;
  it.last_reason = reason;
}

/* Hand a completion over as the plugin does. `bad`: a reason by the address alone; NONE for a record that is there. */
static void complete(const NxmemHostCallbacks *through, void *context, const NxmemReleaseCompletion *published,
                     const NxmemReleaseCompletion *c, uint32_t bad) {
  life_allocator *a = named_by(context);
  if (a == NULL) {
    const NxmemStatus stray = through->release_completed(context, published);
    it.strays++;
    life_expect(stray.code == NXMEM_STATUS_INVALID_ARGUMENT, "completion: a stray was not told so");
    return;
  }
  life_block *b = bad == NXMEM_REASON_NONE ? life_block_of(c->allocation_id) : NULL;
  uint32_t reason = bad;
  if (bad == NXMEM_REASON_NONE) reason = c->struct_size < sizeof *c ? NXMEM_REASON_SHORT_COMPLETION : judge(a, b, c);
  const NxmemStatus answer = through->release_completed(context, published);
  const int unknown = reason == NXMEM_REASON_UNKNOWN_ALLOCATION && answer.code == NXMEM_STATUS_WRONG_MECHANISM;
  if (!unknown) fuzz_same_number("life, status of a completion", answer.code, status_of(reason));
  if (reason == NXMEM_REASON_NONE) {
    settle(a, b, &c->outcome);
    life_settle_share(a);
  } else {
    refuse(reason == NXMEM_REASON_UNKNOWN_ALLOCATION ? LIFE_ANY_REASON : reason);
  }
}

static NxmemReleaseCompletion honest(const life_allocator *a, const life_block *b) {
  NxmemReleaseCompletion c;
  memset(&c, 0, sizeof c);
  c.struct_size = sizeof c;
  c.ticket = b->ticket;
  c.mechanism_id = a->mechanism;
  c.allocation_id = b->id;
  c.outcome.struct_size = sizeof c.outcome;
  c.outcome.allocation_bytes = b->bytes;
  c.outcome.unmapped_bytes = b->mapped;
  return c;
}

void life_complete_honestly(life_block *b) {
  life_allocator *a = life_owner(b);
  const NxmemReleaseCompletion c = honest(a, b);
  complete(a->callbacks, a->context, &c, &c, NXMEM_REASON_NONE);
}

static void spoil_identity(NxmemReleaseCompletion *c, const life_record *op) {
  switch (op->c & 15u) {
    case 9:
      c->ticket = op->y;
      break;
    case 10:
      c->ticket += 1;
      break;
    case 11:
      c->mechanism_id = op->y;
      break;
    case 12:
      c->allocation_id ^= 1ull << 32;
      break;
    case 13:
      c->allocation_id = 0;
      break;
    case 14:
      c->struct_size = op->x % 340u;
      break;
    case 15:
      c->allocation_id = LIFE_UNWRITTEN;
      break;
    default:
      break;
  }
}

static void spoil_outcome(NxmemReleaseCompletion *c, const life_record *op) {
  static const uint32_t codes[] = {NXMEM_STATUS_OK,           NXMEM_STATUS_OK,
                                   NXMEM_STATUS_OK,           NXMEM_STATUS_RELEASE_QUARANTINED,
                                   NXMEM_STATUS_DEVICE_ERROR, 0x80000001u};
  static const uint32_t states[] = {0, 0, 0, 1, 2, 2, UINT32_MAX, 3};
  c->outcome.failure.code = codes[(op->d & 15u) % 6u];
  c->outcome.failure.message_len = op->x;
  c->outcome.state = states[op->d >> 4 & 7u];
  if (op->d & 0x80u) c->outcome.unmapped_bytes = op->y;
  c->outcome.residual_owned_bytes = op->y;
  c->outcome.struct_size = op->x;
}

/* Where the record is said to lie: in a block of its exact size, or nowhere. */
static const void *place(const NxmemReleaseCompletion *c, const life_record *op, void *block, uint32_t *bad) {
  memcpy(block, c, sizeof *c);
  *bad = NXMEM_REASON_NONE;
  switch ((op->c >> 4) & 15u) {
    case 12:
      *bad = NXMEM_REASON_NULL_POINTER;
      return NULL;
    case 13:
      *bad = NXMEM_REASON_MISALIGNED;
      return (const uint8_t *)block + 4;
    case 14:
      if (life_is_direct()) return block;
      *bad = NXMEM_REASON_UNREADABLE;
      return (const void *)fuzz_unreadable();
    default:
      return block;
  }
}

void life_op_complete(const life_record *op) {
  life_block *b = &it.blocks[op->b % LIFE_BLOCKS];
  life_allocator *a = life_owner(b);
  if (op->a & 0x80u) a = &it.allocators[op->a % LIFE_ALLOCATORS];
  if (a->callbacks == NULL) return;
  void *context = a->context;
  if ((op->a & 0x70u) == 0x70u) context = (void *)(uintptr_t)op->y;
  if ((op->a & 0x70u) == 0x60u) context = NULL;
  NxmemReleaseCompletion c = honest(life_owner(b), b);
  spoil_outcome(&c, op);
  spoil_identity(&c, op);
  void *block = life_publish(NULL, sizeof c);
  uint32_t bad;
  const void *published = place(&c, op, block, &bad);
  complete(a->callbacks, context, published, &c, bad);
  life_withdraw(block);
}

/* ---- Draining ---------------------------------------------------------------------------------------------------- */

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* A closer asks as long as that settles some, at most 16 times; anybody else once. */
static void begin_drain(life_frame *f, uint64_t max) {
  const uint64_t queued = f->a->queued;
  if (f->kind == CALL_CLOSE) {
    life_expect(f->drains < 16 && queued != 0 && (f->drains == 0 || queued < f->before), "close: drains too often");
    fuzz_same_number("life, drain of a close", max, queued);
    life_expect(f->a->gate == GATE_CLOSING, "close: drains behind the release");
  } else {
    life_expect(f->kind == CALL_OTHER && f->drains == 0 && max == f->size, "drain: not asked");
  }
  f->before = queued;
  f->drains++;
}

NxmemStatus life_drain_releases(void *ctx, uint64_t max, uint64_t *retired_out) {
  life_frame *f = life_top();
  life_expect(f->a == life_allocator_of_ctx(ctx), "drain: another allocator");
  begin_drain(f, max);
  const uint64_t rounds = f->a->rounds;
  const life_record answer = life_take_answer();
  life_nest(&answer);
  const NxmemStatus status = life_status(&answer);
  const uint64_t retired = life_number(answer.b, f->before - least(f->before, f->a->queued), &answer);
  life_store(retired_out, retired);
  const uint64_t most = least(max, f->before + (f->a->rounds - rounds));
  f->result = status.code == NXMEM_STATUS_OK ? NXMEM_OK : NXMEM_ERR_PLUGIN;
  if (status.code != NXMEM_STATUS_OK) return status;
  if (retired > most) life_violation(NXMEM_REASON_TOO_MANY_RETIRED);
  if (retired == LIFE_UNWRITTEN) f->result = NXMEM_ERR_CONTRACT;
  f->out = least(retired, most);
  return status;
}

static nxmem_result expect_deferred(const life_allocator *a) {
  const nxmem_result entered = life_enter(a);
  if (entered != NXMEM_OK) return entered;
  return (a->effective & NXMEM_CAP_DEFERRED_RELEASE) != 0 ? NXMEM_OK : NXMEM_ERR_UNSUPPORTED_CAPABILITY;
}

void life_op_drain(const life_record *op) {
  life_allocator *a = &it.allocators[op->a % LIFE_ALLOCATORS];
  const uint64_t max = op->d & 1u ? op->y : 1u + op->b % 4u;
  const nxmem_result expected = max == 0 ? NXMEM_ERR_INVALID_ARGUMENT : expect_deferred(a);
  life_frame *f = life_push(CALL_OTHER);
  f->a = a;
  f->size = max;
  f->result = expected;
  uint64_t retired = 77;
  a->inside += expected == NXMEM_OK;
  const nxmem_result found = nxmem_drain_releases(a->handle, max, op->d & 2u ? NULL : &retired, NULL);
  a->inside -= expected == NXMEM_OK;
  life_expect((f->drains == 1) == (expected == NXMEM_OK), "drain: the plugin was asked, or was not, wrongly");
  life_same_result("drain", found, f->result);
  if ((op->d & 2u) == 0) fuzz_same_number("life, retired", retired, found == NXMEM_OK ? f->out : 77);
  life_pop();
}

NxmemStatus life_pending_release_count(void *ctx, uint64_t *count_out) {
  life_frame *f = life_top();
  life_expect(f->kind == CALL_OTHER && f->a == life_allocator_of_ctx(ctx) && f->calls++ == 0, "pending: not asked");
  const life_record answer = life_take_answer();
  life_nest(&answer);
  const NxmemStatus status = life_status(&answer);
  f->out = life_number(answer.b, f->a->queued, &answer);
  life_store(count_out, f->out);
  f->before = f->a->queued;
  f->result = status.code == NXMEM_STATUS_OK ? NXMEM_OK : NXMEM_ERR_PLUGIN;
  if (f->result != NXMEM_OK || f->out != LIFE_UNWRITTEN) return status;
  life_violation(NXMEM_REASON_COUNT_UNWRITTEN);
  f->result = NXMEM_ERR_CONTRACT;
  return status;
}

void life_op_pending(const life_record *op) {
  life_allocator *a = &it.allocators[op->a % LIFE_ALLOCATORS];
  life_frame *f = life_push(CALL_OTHER);
  f->a = a;
  f->result = expect_deferred(a);
  const int asked = f->result == NXMEM_OK;
  nxmem_pending pending = {77, 77};
  a->inside += (uint64_t)asked;
  const nxmem_result found = nxmem_pending_releases(a->handle, &pending, NULL);
  a->inside -= (uint64_t)asked;
  life_same_result("pending", found, f->result);
  life_expect((f->calls == 1) == asked, "pending: the plugin was asked, or was not, wrongly");
  fuzz_same_number("life, pending", pending.host, found == NXMEM_OK ? f->before : 77);
  fuzz_same_number("life, pending of the plugin", pending.plugin, found == NXMEM_OK ? f->out : 77);
  life_pop();
}
