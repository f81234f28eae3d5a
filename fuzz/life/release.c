/*
 * release.c: allocations given back: plain, structured, and as part of other calls.
 * Attackers: a plugin whose status, state and numbers contradict each other.
 * Promise: each allocation is asked back once, and what the answer leads to is what the books then say.
 */
#include <string.h>

#include "life.h"
#include "nxmem/verdict.h"

typedef enum fate { GONE, LIVE, KEPT } fate;

typedef struct verdict {
  fate fate;
  uint64_t unmapped, residual;
  uint32_t status;
} verdict;

void life_check_allocation(const life_allocator *a, const life_block *b, const NxmemAllocation *n) {
  life_expect(n->struct_size == sizeof *n && n->reserved == 0, "allocation: header");
  life_expect(n->mechanism_id == a->mechanism && n->allocation_id == b->id, "allocation: identity");
  life_expect(n->device.tier == a->device.tier && n->device.index == a->device.index, "allocation: device");
  life_expect((uintptr_t)n->ptr == b->address && n->bytes == b->bytes && n->align == b->align, "allocation: numbers");
}

/* ---- What is asked back ------------------------------------------------------------------------------------------ */

static int may_be_asked(const life_frame *f, const life_block *b) {
  switch (f->kind) {
    case CALL_RELEASE:
    case CALL_OWNED:
      return f->block == b && f->calls == 0;
    case CALL_ALLOCATE:
      return f->block == b && f->handing_back && !f->released;
    case CALL_CLOSE:
      return f->handing_back && b->state == BLOCK_LIVE && life_owner(b) == f->a;
    case CALL_GROUP:
      return f->rolled < f->touched && b == &it.blocks[f->group[f->rolled]];
    default:
      return 0;
  }
}

static life_block *begin(void *ctx, const NxmemAllocation *allocation, int structured) {
  life_frame *f = life_top();
  life_allocator *a = life_allocator_of_ctx(ctx);
  life_block *b = life_block_of(allocation->allocation_id);
  life_expect(b != NULL && life_owner(b) == a && may_be_asked(f, b), "release: what was not to be released");
  life_expect(structured == ((a->effective & NXMEM_CAP_STRUCTURED_RELEASE) != 0), "release: through the wrong slot");
  life_check_allocation(a, b, allocation);
  f->calls += f->kind != CALL_ALLOCATE; /* there it is counted apart */
  f->released = 1;
  b->indexed = 0;
  if (f->kind != CALL_ALLOCATE) b->state = BLOCK_RELEASING;
  if (f->kind == CALL_CLOSE) a->closed = f->drains != 0; /* a second look, behind the draining */
  if (f->kind == CALL_GROUP) f->rolled++;
  return b;
}

/* ---- What the answer leads to ------------------------------------------------------------------------------------ */

static void undo_allocation(life_frame *f, life_block *b, const verdict *v) {
  f->gone = v->fate == GONE;
  f->unchanged = v->fate == LIVE;
  if (v->fate != GONE) {
    life_keep(b);
    life_quarantine(b, v->residual, v->status, f->reason);
  }
  b->state = BLOCK_GONE;
}

static void settle(life_block *b, const verdict *v) {
  life_finish(b, v->fate == GONE, v->unmapped, v->residual, v->status);
  life_owner(b)->live--;
}

static void released(life_frame *f, life_block *b, const verdict *v) {
  static const nxmem_result results[] = {[GONE] = NXMEM_OK, [LIVE] = NXMEM_ERR_PLUGIN, [KEPT] = NXMEM_ERR_QUARANTINED};
  f->result = results[v->fate];
  if (v->fate != LIVE) {
    settle(b, v);
  } else if (life_index(b)) {
    b->state = BLOCK_LIVE;
  } else {
    settle(b, v);
    f->result = NXMEM_ERR_QUARANTINED;
  }
}

/* Behind a loss it does not matter what is answered. */
static void own(life_frame *f, life_block *b, const verdict *v) {
  verdict owned = *v;
  if (f->lost) owned.fate = KEPT;
  f->gone = owned.fate == GONE;
  f->unchanged = owned.fate == LIVE;
  f->status = v->status;
  settle(b, &owned);
}

static void end(life_block *b, const verdict *v) {
  life_frame *f = life_top();
  switch (f->kind) {
    case CALL_RELEASE:
      released(f, b, v);
      break;
    case CALL_ALLOCATE:
      undo_allocation(f, b, v);
      break;
    case CALL_OWNED:
      own(f, b, v);
      break;
    case CALL_GROUP:
      f->kept += v->fate != GONE;
      settle(b, v);
      break;
    default:
      settle(b, v);
      break;
  }
}

NxmemStatus life_deallocate(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped_out) {
  life_block *b = begin(ctx, allocation, 0);
  const life_record answer = life_take_answer();
  life_nest(&answer);
  const NxmemStatus status = life_status(&answer);
  const uint64_t unmapped = life_number(answer.b, b->mapped, &answer);
  life_store(unmapped_out, unmapped);
  const fate f = status.code == NXMEM_STATUS_OK ? GONE : status.code == NXMEM_STATUS_RELEASE_QUARANTINED ? KEPT : LIVE;
  const verdict v = {f, unmapped, LIFE_UNWRITTEN, status.code};
  end(b, &v);
  return status;
}

static uint32_t state_for(const life_record *answer, uint32_t code) {
  switch (answer->d & 15u) {
    case 10:
      return NXMEM_RELEASE_QUARANTINED;
    case 11:
      return NXMEM_RELEASE_FAILED;
    case 12:
      return UINT32_MAX; /* unwritten */
    case 13:
      return answer->x;
    case 14:
      return NXMEM_RELEASE_COMPLETE;
    default:
      return code == NXMEM_STATUS_OK ? NXMEM_RELEASE_COMPLETE : NXMEM_RELEASE_FAILED;
  }
}

static fate fate_of(uint32_t code, uint32_t state) {
  if (code == NXMEM_STATUS_RELEASE_QUARANTINED) return KEPT;
  if (state == NXMEM_RELEASE_FAILED) return LIVE;
  if (code == NXMEM_STATUS_OK) return state == NXMEM_RELEASE_COMPLETE ? GONE : KEPT;
  return state == UINT32_MAX ? LIVE : KEPT;
}

NxmemStatus life_release_allocation(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *out) {
  life_block *b = begin(ctx, allocation, 1);
  life_expect(out->struct_size == sizeof *out && out->state == UINT32_MAX && out->allocation_bytes == LIFE_UNWRITTEN &&
                  out->unmapped_bytes == LIFE_UNWRITTEN && out->residual_owned_bytes == LIFE_UNWRITTEN,
              "outcome: not prepared");
  const life_record answer = life_take_answer();
  life_nest(&answer);
  const NxmemStatus status = life_status(&answer);
  out->state = state_for(&answer, status.code);
  out->allocation_bytes = b->bytes;
  out->unmapped_bytes = life_number(answer.b, b->mapped, &answer);
  out->residual_owned_bytes = life_number(answer.c, 0, &answer);
  out->failure.code = status.code != NXMEM_STATUS_OK ? status.code : answer.x;
  const fate f = fate_of(status.code, out->state);
  const uint32_t code = status.code == NXMEM_STATUS_OK && f == LIVE ? out->failure.code : status.code;
  const verdict v = {f, out->unmapped_bytes, out->residual_owned_bytes, code};
  end(b, &v);
  return status;
}

/* ---- The caller -------------------------------------------------------------------------------------------------- */

static nxmem_release_options options_for(const life_record *op, const life_block *b) {
  nxmem_release_options o = {0, 0};
  if (op->d & 16u) return o;
  if (op->d & 1u) o.bytes = op->d & 2u ? op->y : b->bytes;
  if (op->d & 4u) o.align = op->d & 8u ? op->y : b->align;
  return o;
}

void life_op_release(const life_record *op) {
  life_allocator *a = &it.allocators[op->a % LIFE_ALLOCATORS];
  life_block *b = &it.blocks[op->b % LIFE_BLOCKS];
  if ((op->c & 0x80u) == 0) a = life_owner(b); /* mostly the right one */
  const nxmem_release_options o = options_for(op, b);
  const nxmem_allocation named = {b->id, (void *)(uintptr_t)(op->c & 0x40u && op->c & 0x20u ? op->y : b->address)};
  nxmem_result expected = life_enter(a);
  if (expected == NXMEM_OK) expected = life_claim(a, b, named.ptr, o.bytes, o.align);
  life_frame *f = life_push(CALL_RELEASE);
  f->a = a;
  f->block = b;
  f->result = expected;
  nxmem_error error;
  a->inside += expected == NXMEM_OK;
  const nxmem_result found = nxmem_release(a->handle, named, op->d & 16u ? NULL : &o, op->d & 32u ? &error : NULL);
  a->inside -= expected == NXMEM_OK;
  life_expect((f->calls == 1) == (expected == NXMEM_OK), "release: the plugin was asked, or was not, wrongly");
  life_same_result("release", found, f->result);
  life_pop();
}
