/*
 * reclaim.c: a plugin that asks for memory back, and the program's hook that is asked on its behalf.
 * Attackers: requests that are short, foreign, nowhere, or come through a context that names nothing.
 * Promise: the hook hears of what is allowed only, and no more is reported than was asked for.
 */
#include <string.h>

#include "kernel.h"
#include "life.h"
#include "nxmem/verdict.h"

/* The request in progress, as the hook must see it. */
static struct {
  const life_allocator *expected; /* NULL: none may come */
  uint64_t bytes;
  uint64_t said;
  int refuses, ran;
} hook;

int life_reclaim_hook(void *ctx, nxmem_allocator allocator, uint64_t bytes, uint64_t *reclaimed_out) {
  (void)ctx;
  life_expect(hook.expected != NULL && hook.expected->handle.id == allocator.id, "reclaim: the hook is told another's");
  fuzz_same_number("life, reclaim", bytes, hook.bytes);
  const int refuses = hook.refuses;
  const uint64_t said = hook.said;
  hook.expected = NULL;
  hook.ran = 1;
  const life_record answer = life_take_answer();
  it.module.inside++;
  life_nest(&answer);
  it.module.inside--;
  *reclaimed_out = said;
  return refuses;
}

static life_allocator *named_by(const void *context) {
  for (uint32_t i = 0; i < LIFE_ALLOCATORS; i++) {
    life_allocator *a = &it.allocators[i];
    if (a->callbacks != NULL && a->gate != GATE_NONE && a->gate != GATE_GONE && a->context == context) return a;
  }
  return NULL;
}

static NxmemReclaimRequest request_for(const life_allocator *a, const life_record *op) {
  NxmemReclaimRequest r = {.struct_size = sizeof r, .mechanism_id = a->mechanism, .device = a->device, .bytes = op->x};
  switch (op->c & 15u) {
    case 10:
      r.struct_size = op->x % 40u;
      break;
    case 11:
      r.mechanism_id = op->y;
      break;
    case 12:
      r.device.index ^= op->x;
      break;
    case 13:
      r.bytes = 0;
      break;
    default:
      break;
  }
  return r;
}

/* By the record alone. */
static uint32_t judge(const life_allocator *a, const NxmemReclaimRequest *r) {
  if (r->struct_size < sizeof *r) return NXMEM_REASON_SHORT_REQUEST;
  if (r->mechanism_id != a->mechanism) return NXMEM_REASON_OTHER_MECHANISM;
  if (r->device.tier != a->device.tier || r->device.index != a->device.index) return NXMEM_REASON_OTHER_DEVICE;
  return r->bytes == 0 ? NXMEM_REASON_ZERO_BYTES : NXMEM_REASON_NONE;
}

static uint32_t status_of(uint32_t reason) {
  switch (reason) {
    case NXMEM_REASON_NONE:
      return NXMEM_STATUS_OK;
    case NXMEM_REASON_SHORT_REQUEST:
      return NXMEM_STATUS_SHORT_STRUCT;
    case NXMEM_REASON_OTHER_MECHANISM:
      return NXMEM_STATUS_WRONG_MECHANISM;
    case NXMEM_REASON_OTHER_DEVICE:
      return NXMEM_STATUS_WRONG_DEVICE;
    default:
      return NXMEM_STATUS_INVALID_ARGUMENT;
  }
}

typedef struct expectation {
  uint32_t status;
  uint32_t violation; /* NONE: no refusal is counted */
  uint64_t reclaimed;
} expectation;

static expectation refused(uint32_t status) { return (expectation){status, NXMEM_REASON_NONE, 0}; }

static expectation expect(life_allocator *a, const NxmemReclaimRequest *r, uint32_t bad, const life_record *op) {
  if ((it.header.mode & LIFE_NO_HOOK) != 0) return refused(NXMEM_STATUS_UNSUPPORTED_CAPABILITY);
  if (a->gate != GATE_OPEN || it.module.state != MODULE_LIVE) return refused(NXMEM_STATUS_BUSY);
  const uint32_t reason = bad != NXMEM_REASON_NONE ? bad : judge(a, r);
  if (reason != NXMEM_REASON_NONE) return (expectation){status_of(reason), reason, 0};
  hook.expected = a;
  hook.bytes = r->bytes;
  hook.said = op->d & 4u ? op->y : r->bytes / 2u;
  hook.refuses = (op->d & 3u) == 3u;
  if (hook.refuses) return refused(NXMEM_STATUS_CALLBACK_FAILED);
  return (expectation){NXMEM_STATUS_OK, NXMEM_REASON_NONE, hook.said < r->bytes ? hook.said : r->bytes};
}

/* Where the request is said to lie. */
static const void *place(void *block, const life_record *op, uint32_t *bad) {
  *bad = NXMEM_REASON_NONE;
  if ((op->c & 0xF0u) == 0xF0u) {
    *bad = NXMEM_REASON_NULL_POINTER;
    return NULL;
  }
  if ((op->c & 0xF0u) == 0xE0u) {
    *bad = NXMEM_REASON_MISALIGNED;
    return (const uint8_t *)block + 4;
  }
  if ((op->c & 0xF0u) != 0xD0u || life_is_direct()) return block;
  *bad = NXMEM_REASON_UNREADABLE;
  return (const void *)fuzz_unreadable();
}

/* Where the count is to be written: NULL, misaligned and closed places are refused and not written to. */
static uint64_t *place_for_count(uint64_t *count, const life_record *op) {
  switch (op->d >> 4) {
    case 13:
      return NULL;
    case 14:
      return (uint64_t *)(void *)((uint8_t *)count + 4);
    case 15:
      return life_is_direct() ? count : (uint64_t *)fuzz_unreadable();
    default:
      return count;
  }
}

static NxmemStatus call(life_allocator *a, void *context, const void *request, uint64_t *out) {
  life_allocator *named = named_by(context);
  if (named != NULL) named->callbacks_running++;
  const NxmemStatus status = a->callbacks->request_reclaim(context, request, out);
  if (named == NULL) return status;
  named->callbacks_running--;
  life_settle_share(named);
  return status;
}

static void judge_answer(const expectation *e, uint32_t status, const uint64_t count[2], int written) {
  fuzz_same_number("life, status of a reclaim", status, e->status);
  if (e->violation != NXMEM_REASON_NONE) {
    it.refused++;
    life_violation(e->violation);
  }
  if (written) fuzz_same_number("life, reclaimed", count[0], e->reclaimed);
  if (!written) fuzz_same_number("life, reclaimed", count[0], 77);
  fuzz_same_number("life, behind the count", count[1], 77);
}

void life_op_reclaim(const life_record *op) {
  life_allocator *a = &it.allocators[op->a % LIFE_ALLOCATORS];
  if (a->callbacks == NULL) return;
  void *context = (op->b & 0xF0u) == 0xF0u ? (void *)(uintptr_t)op->y : a->context;
  const NxmemReclaimRequest r = request_for(a, op);
  void *block = life_publish(NULL, sizeof(NxmemReclaimRequest) + 8u);
  memcpy(block, &r, sizeof r);
  uint32_t bad;
  const void *request = place(block, op, &bad);
  uint64_t count[2] = {77, 77};
  uint64_t *out = place_for_count(count, op);
  const int written = out == count;
  life_allocator *named = named_by(context);
  expectation e = refused(NXMEM_STATUS_INVALID_ARGUMENT);
  it.strays += named == NULL;
  hook.expected = NULL;
  hook.ran = 0;
  int runs = 0;
  if (named != NULL && written) {
    e = expect(named, &r, bad, op);
    runs = hook.expected != NULL;
  }
  life_lend(count, sizeof count);
  const NxmemStatus status = call(a, context, request, out);
  (void)life_take_back(count);
  life_expect(hook.expected == NULL || !runs, "reclaim: the hook was not asked");
  judge_answer(&e, status.code, count, written);
  life_withdraw(block);
}
