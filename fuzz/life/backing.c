/*
 * backing.c: pages behind ranges: what is charged before, credited after, and settled where it is in doubt.
 * Attackers: costs that cannot be, credits that never were, counts left unwritten, calls that fail half way.
 * Promise: after each call what an allocation is charged is what the rules make of the plugin's answers.
 */
#include <string.h>

#include "life.h"
#include "nxmem/verdict.h"

enum { SLOT_COMMIT = 1, SLOT_DECOMMIT = 2, SLOT_COST = 3, SLOT_COST_OF_ALLOCATION = 4, SLOT_COMMITTED = 5 };

static int has(const life_allocator *a, uint32_t slot) { return (int)(a->backing >> slot & 1u); }

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* ---- The plugin -------------------------------------------------------------------------------------------------- */

static life_frame *enter(void *ctx, const char *what) {
  life_frame *f = life_top();
  life_expect(f->a == life_allocator_of_ctx(ctx), what);
  return f;
}

/* Of several ranges each is a byte shorter than the one before, as far as that goes. */
static uint64_t shorter(uint64_t bytes, uint64_t by) { return bytes > by ? bytes - by : bytes; }

static void check_range(const life_frame *f, const NxmemRangeRequest *r, uint64_t number) {
  life_expect(r->struct_size == sizeof *r && r->reserved == 0, "range request: header");
  life_check_allocation(f->a, f->block, &r->allocation);
  life_expect(r->range.offset == f->offset && r->range.bytes == shorter(f->size, number), "range request: range");
}

/* A number that must be possible, and for which there must be room where it is charged. */
static nxmem_result judge_cost(uint64_t cost, uint64_t offset, uint64_t bytes, uint64_t total) {
  if (cost <= life_most_mapped(offset, bytes) && cost <= LIFE_TOTAL_MAX - total) return NXMEM_OK;
  life_violation(cost > life_most_mapped(offset, bytes) ? NXMEM_REASON_MORE_THAN_POSSIBLE
                                                        : NXMEM_REASON_TOTAL_TOO_LARGE);
  return NXMEM_ERR_CONTRACT;
}

static void answer_number(life_frame *f, const life_record *answer, const NxmemStatus *status, uint64_t *out,
                          uint64_t honest) {
  f->out = life_number(answer->b, honest, answer);
  life_store(out, f->out);
  f->result = status->code == NXMEM_STATUS_OK ? NXMEM_OK : NXMEM_ERR_PLUGIN;
}

NxmemStatus life_mapped_bytes_for_ranges(void *ctx, const NxmemRangeRequest *requests, uint64_t count,
                                         uint64_t *mapped_out) {
  life_frame *f = enter(ctx, "cost of ranges: another allocator");
  life_expect(f->calls++ == 0 && f->block != NULL, "cost of ranges: not asked");
  fuzz_same_number("life, ranges", count, f->count);
  for (uint64_t i = 0; i < count; i++) check_range(f, &requests[i], i);
  const life_record answer = life_take_answer();
  life_nest(&answer);
  const NxmemStatus status = life_status(&answer);
  answer_number(f, &answer, &status, mapped_out, f->size);
  if (f->result != NXMEM_OK) return status;
  if (f->kind != CALL_COMMIT) {
    f->result = judge_cost(f->out, 0, f->block->bytes, 0);
    return status;
  }
  f->result = judge_cost(f->out, f->offset, f->size, f->a->mapped);
  if (f->result == NXMEM_OK)
    life_expect(life_move(f->block, f->block->owned, f->block->mapped + f->out), "harness: judged and not charged");
  return status;
}

NxmemStatus life_mapped_bytes_for_allocation(void *ctx, const NxmemAllocRequest *request, uint64_t *mapped_out) {
  life_frame *f = enter(ctx, "cost of an allocation: another allocator");
  life_expect(f->calls++ == 0 && request->allocation_id == 0, "cost of an allocation: not asked");
  life_expect(request->bytes == f->size && request->align == f->align, "cost of an allocation: numbers");
  const life_record answer = life_take_answer();
  life_nest(&answer);
  const NxmemStatus status = life_status(&answer);
  answer_number(f, &answer, &status, mapped_out, f->size);
  if (f->result == NXMEM_OK) f->result = judge_cost(f->out, 0, f->size, 0);
  return status;
}

NxmemStatus life_commit_range(void *ctx, const NxmemRangeRequest *request) {
  life_frame *f = enter(ctx, "commit: another allocator");
  life_expect(f->kind == CALL_COMMIT && f->calls++ == 1, "commit: not asked, or not charged before");
  check_range(f, request, 0);
  const life_record answer = life_take_answer();
  life_nest(&answer);
  const NxmemStatus status = life_status(&answer);
  if (status.code != NXMEM_STATUS_OK) f->block->met = 1;
  f->result = status.code == NXMEM_STATUS_OK ? NXMEM_OK : NXMEM_ERR_PLUGIN;
  return status;
}

NxmemStatus life_decommit_range(void *ctx, const NxmemRangeRequest *request, uint64_t *unmapped_out) {
  life_frame *f = enter(ctx, "decommit: another allocator");
  life_block *b = f->block;
  life_expect(f->calls++ == 0, "decommit: not asked");
  check_range(f, request, 0);
  const life_record answer = life_take_answer();
  life_nest(&answer);
  const NxmemStatus status = life_status(&answer);
  answer_number(f, &answer, &status, unmapped_out, least(f->size, b->mapped));
  if (f->result != NXMEM_OK) {
    b->met = 1;
    return status;
  }
  const int unknown = f->out == LIFE_UNWRITTEN;
  const uint64_t said = unknown ? 0 : f->out, credited = least(said, b->mapped);
  const int alone = b->pins == 1 && !b->met;
  life_expect(life_move(b, b->owned, b->mapped - credited), "harness: a credit without room");
  if (unknown || (said != credited && alone)) life_violation(NXMEM_REASON_MORE_THAN_POSSIBLE);
  if (unknown) b->met = 1;
  f->out = credited;
  return status;
}

/* Asked by a caller, or by the last to leave an allocation whose charge is in doubt. */
static void settle(life_block *b, const NxmemStatus *status, uint64_t said) {
  if (b->pins != 1 || b->met) return; /* somebody came meanwhile: theirs to ask */
  if (status->code == NXMEM_STATUS_OK && said <= life_most_mapped(0, b->bytes)) (void)life_move(b, b->owned, said);
}

NxmemStatus life_committed_bytes(void *ctx, const NxmemAllocation *allocation, uint64_t *committed_out) {
  life_frame *f = enter(ctx, "committed bytes: another allocator");
  life_block *b = f->block;
  const int asked = f->kind == CALL_COMMITTED && f->calls++ == 0;
  life_check_allocation(f->a, b, allocation);
  if (!asked) {
    life_expect(b->pins == 1 && b->met && f->settles++ < 4, "committed bytes: asked though nothing is in doubt");
    b->met = 0;
  }
  const life_record answer = life_take_answer();
  life_nest(&answer);
  const NxmemStatus status = life_status(&answer);
  const uint64_t said = life_number(answer.b, b->mapped, &answer);
  life_store(committed_out, said);
  if (!asked) {
    settle(b, &status, said);
    return status;
  }
  f->out = said;
  f->result = status.code != NXMEM_STATUS_OK ? NXMEM_ERR_PLUGIN : judge_cost(said, 0, b->bytes, 0);
  return status;
}

/* ---- The caller -------------------------------------------------------------------------------------------------- */

typedef struct naming {
  life_allocator *a;
  life_block *b;
  nxmem_allocation named;
  NxmemByteRange range;
} naming;

static NxmemByteRange range_for(const life_record *op, uint64_t bytes) {
  NxmemByteRange r = {0, bytes};
  if (op->c & 1u) r.offset = bytes == 0 ? 0 : op->x % bytes;
  if (op->c & 1u) r.bytes = bytes - r.offset;
  if (op->c & 2u) r.bytes = op->y;
  if (op->c & 4u) r.bytes = op->y % 4096u;
  if ((op->c & 24u) == 24u) r.offset = op->y;
  return r;
}

static naming name(const life_record *op) {
  naming n;
  n.b = &it.blocks[op->b % LIFE_BLOCKS];
  n.a = op->d & 0x80u ? &it.allocators[op->a % LIFE_ALLOCATORS] : life_owner(n.b);
  const uint64_t address = (op->d & 0x60u) == 0x60u ? op->y : n.b->address;
  n.named = (nxmem_allocation){n.b->id, (void *)(uintptr_t)address};
  n.range = range_for(op, n.b->bytes);
  return n;
}

static nxmem_result expect(const naming *n, uint32_t slots) {
  const nxmem_result entered = life_enter(n->a);
  if (entered != NXMEM_OK) return entered;
  if ((n->a->backing & slots) != slots) return NXMEM_ERR_UNSUPPORTED_CAPABILITY;
  return life_pin(n->a, n->b, n->named.ptr);
}

static int is_within(NxmemByteRange r, uint64_t bytes) {
  return r.bytes != 0 && r.offset <= bytes && r.bytes <= bytes - r.offset;
}

static life_frame *begin(life_kind kind, const naming *n, nxmem_result expected, int range_matters) {
  life_frame *f = life_push(kind);
  f->a = n->a;
  f->block = n->b;
  f->offset = n->range.offset;
  f->size = n->range.bytes;
  f->count = 1;
  f->result = expected;
  f->out = 77;
  if (expected != NXMEM_OK) return f;
  n->a->inside++;
  n->b->met |= n->b->pins != 0;
  n->b->pins++;
  if (range_matters && !is_within(n->range, n->b->bytes)) f->result = NXMEM_ERR_INVALID_ARGUMENT;
  return f;
}

static void end(life_frame *f, const char *what, nxmem_result found, nxmem_result expected, int asked) {
  life_expect((f->calls != 0) == asked, "backing: the plugin was asked, or was not, wrongly");
  life_same_result(what, found, f->result);
  if (expected == NXMEM_OK) {
    life_unpin(f->block);
    f->a->inside--;
  }
  life_pop();
}

void life_op_commit(const life_record *op) {
  const naming n = name(op);
  const nxmem_result expected = expect(&n, 1u << SLOT_COMMIT | 1u << SLOT_COST);
  life_frame *f = begin(CALL_COMMIT, &n, expected, 1);
  const int asked = f->result == NXMEM_OK;
  const nxmem_result found = nxmem_commit(n.a->handle, n.named, n.range, NULL);
  end(f, "commit", found, expected, asked);
}

void life_op_decommit(const life_record *op) {
  const naming n = name(op);
  const nxmem_result expected = expect(&n, 1u << SLOT_DECOMMIT);
  life_frame *f = begin(CALL_OTHER, &n, expected, 1);
  const int asked = f->result == NXMEM_OK;
  uint64_t unmapped = 77;
  const nxmem_result found = nxmem_decommit(n.a->handle, n.named, n.range, op->c & 0x80u ? NULL : &unmapped, NULL);
  if ((op->c & 0x80u) == 0) fuzz_same_number("life, unmapped", unmapped, found == NXMEM_OK ? f->out : 77);
  end(f, "decommit", found, expected, asked);
}

void life_op_committed(const life_record *op) {
  const naming n = name(op);
  const nxmem_result expected = expect(&n, 1u << SLOT_COMMITTED);
  life_frame *f = begin(CALL_COMMITTED, &n, expected, 0);
  uint64_t committed = 77;
  const nxmem_result found = nxmem_committed_bytes(n.a->handle, n.named, &committed, NULL);
  fuzz_same_number("life, committed", committed, found == NXMEM_OK ? f->out : 77);
  end(f, "committed bytes", found, expected, expected == NXMEM_OK);
}

void life_op_cost_of_ranges(const life_record *op) {
  const naming n = name(op);
  const nxmem_result expected = expect(&n, 1u << SLOT_COST);
  NxmemByteRange list[8];
  const uint32_t count = 1u + (uint32_t)(op->y % 8u); /* four stand on the host's stack, more do not */
  for (uint32_t i = 0; i < count; i++) list[i] = (NxmemByteRange){n.range.offset, shorter(n.range.bytes, i)};
  life_frame *f = begin(CALL_OTHER, &n, expected, 1);
  f->count = count;
  const int asked = f->result == NXMEM_OK;
  uint64_t cost = 77;
  const nxmem_result found = nxmem_cost_of_ranges(n.a->handle, n.named, list, count, &cost, NULL);
  fuzz_same_number("life, cost", cost, found == NXMEM_OK ? f->out : 77);
  end(f, "cost of ranges", found, expected, asked);
}

static nxmem_result expect_cost(const life_allocator *a, uint64_t bytes, uint64_t align) {
  if (bytes == 0 || align == 0 || (align & (align - 1u)) != 0 || bytes > UINT64_MAX - (align - 1u))
    return NXMEM_ERR_INVALID_ARGUMENT;
  const nxmem_result entered = life_enter(a);
  if (entered != NXMEM_OK) return entered;
  return has(a, SLOT_COST_OF_ALLOCATION) ? NXMEM_OK : NXMEM_ERR_UNSUPPORTED_CAPABILITY;
}

void life_op_cost_of_allocation(const life_record *op) {
  life_allocator *a = &it.allocators[op->a % LIFE_ALLOCATORS];
  life_frame *f = life_push(CALL_OTHER);
  f->a = a;
  f->size = life_size(op);
  f->align = 1ull << op->c % 64u;
  f->result = expect_cost(a, f->size, f->align);
  const int asked = f->result == NXMEM_OK;
  uint64_t cost = 77;
  a->inside += (uint64_t)asked;
  const nxmem_result found = nxmem_cost_of_allocation(a->handle, f->size, f->align, NULL, &cost, NULL);
  a->inside -= (uint64_t)asked;
  life_expect((f->calls == 1) == asked, "cost of an allocation: the plugin was asked, or was not, wrongly");
  life_same_result("cost of an allocation", found, f->result);
  fuzz_same_number("life, cost of an allocation", cost, found == NXMEM_OK ? f->out : 77);
  life_pop();
}
