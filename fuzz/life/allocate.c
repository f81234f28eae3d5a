/*
 * allocate.c: allocations: what the caller asks, what the plugin answers, what then stands in the books.
 * Attackers: addresses that cannot be, are somebody's or wrap; numbers that no total has room for.
 * Promise: an answer that is not accepted reaches no caller; it is handed back once or quarantined.
 */
#include <stddef.h>
#include <string.h>

#include "life.h"
#include "nxmem/verdict.h"

/* ---- The plugin -------------------------------------------------------------------------------------------------- */

static uint64_t fresh(uint64_t bytes, uint64_t align) {
  const uint64_t address = it.next_address + (align - it.next_address % align) % align;
  it.next_address = address + bytes;
  return address;
}

static uint64_t of_another(const life_record *answer, uint64_t inside) {
  const life_block *b = &it.blocks[answer->x % LIFE_BLOCKS];
  return b->address + (inside < b->bytes ? inside : 0);
}

static uint64_t address_for(const life_record *answer, uint64_t bytes, uint64_t align) {
  switch (answer->d & 15u) {
    case 9:
      return 0;
    case 10:
      return fresh(bytes, align) + 1u;
    case 11:
      return of_another(answer, 0);
    case 12:
      return of_another(answer, align);
    case 13:
      return 0 - align;
    case 14:
      return answer->y - answer->y % align;
    case 15:
      return answer->y;
    default:
      return fresh(bytes, align);
  }
}

/* Why it may not be accepted; NONE: it is entered and charged. */
static uint32_t judge(life_block *b, uint64_t owned, uint64_t mapped) {
  const life_allocator *a = life_owner(b);
  if (b->address == 0) return NXMEM_REASON_NULL_ADDRESS;
  if (b->address % b->align != 0) return NXMEM_REASON_MISALIGNED_ADDRESS;
  if (b->bytes > UINT64_MAX - b->address) return NXMEM_REASON_WRAPPING_ADDRESS;
  if (!life_index(b)) return NXMEM_REASON_OVERLAP;
  if (owned > LIFE_TOTAL_MAX - a->owned || mapped > LIFE_TOTAL_MAX - a->mapped) return NXMEM_REASON_TOTAL_TOO_LARGE;
  return NXMEM_REASON_NONE;
}

static void settle(life_frame *f, life_block *b, uint64_t owned, uint64_t mapped) {
  const uint32_t reason = judge(b, owned, mapped);
  if (reason == NXMEM_REASON_NONE) {
    life_expect(life_move(b, owned, mapped), "harness: judged and not charged");
    life_owner(b)->live++;
    b->state = BLOCK_LIVE;
    f->result = NXMEM_OK;
    return;
  }
  f->result = NXMEM_ERR_CONTRACT;
  f->reason = reason;
  life_violation(reason);
  b->indexed = 0;
  f->handing_back = reason != NXMEM_REASON_NULL_ADDRESS && reason != NXMEM_REASON_OVERLAP;
  if (f->handing_back) return; /* its release is asked for next */
  life_keep(b);
  life_quarantine(b, LIFE_UNWRITTEN, NXMEM_STATUS_OK, reason);
  b->state = BLOCK_GONE;
}

static void check_request(const life_frame *f, const NxmemAllocRequest *r) {
  life_expect(r->struct_size == sizeof *r && r->reserved == 0, "request: header");
  life_expect(r->mechanism_id == f->a->mechanism, "request: mechanism");
  life_expect(r->device.tier == f->a->device.tier && r->device.index == f->a->device.index, "request: device");
  life_expect(r->bytes == f->size && r->align == f->align, "request: size or alignment");
  const size_t bytes = f->count * sizeof *f->ranges;
  life_expect(r->committed_range_count == f->count &&
                  (bytes == 0 || (r->committed_ranges != NULL && memcmp(r->committed_ranges, f->ranges, bytes) == 0)),
              "request: ranges");
}

NxmemStatus life_allocate(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *out) {
  life_frame *f = life_top();
  life_expect(f->kind == CALL_ALLOCATE && f->a == life_allocator_of_ctx(ctx) && f->calls++ == 0, "allocate: not asked");
  check_request(f, request);
  life_block *b = f->block;
  life_expect(life_block_of(request->allocation_id) == NULL, "allocate: an id that was issued before");
  *b = (life_block){.state = BLOCK_ALLOCATING,
                    .id = request->allocation_id,
                    .bytes = request->bytes,
                    .align = request->align,
                    .owner = (uint32_t)(f->a - it.allocators)};
  const life_record answer = life_take_answer();
  life_nest(&answer);
  const NxmemStatus status = life_status(&answer);
  const uint64_t owned = life_number(answer.b, request->bytes, &answer);
  const uint64_t mapped = life_number(answer.c, request->bytes, &answer);
  const uint64_t address = address_for(&answer, request->bytes, request->align);
  out->ptr = (uint8_t *)(uintptr_t)address;
  out->owned_bytes = owned;
  out->mapped_bytes = mapped;
  if (status.code != NXMEM_STATUS_OK) {
    b->state = BLOCK_GONE;
    f->result = NXMEM_ERR_PLUGIN;
    return status;
  }
  b->address = address;
  settle(f, b, owned, mapped);
  return status;
}

/* ---- The caller -------------------------------------------------------------------------------------------------- */

/* A place in the model: one that is free, or the oldest of those that are gone. */
static life_block *place(uint8_t from) {
  for (uint32_t i = 0; i < LIFE_BLOCKS; i++) {
    life_block *b = &it.blocks[(from + i) % LIFE_BLOCKS];
    if (b->state == BLOCK_NONE || b->state == BLOCK_GONE) return b;
  }
  return NULL;
}

static int is_request_good(uint64_t bytes, uint64_t align) {
  return bytes != 0 && align != 0 && (align & (align - 1u)) == 0 && bytes <= UINT64_MAX - (align - 1u);
}

typedef struct ranges {
  NxmemByteRange list[LIFE_GROUP];
  nxmem_allocate_options options;
} ranges;

/* Few allocations reserve; then one range says it all, and the others repeat it. */
static const nxmem_allocate_options *ranges_for(const life_record *op, uint64_t bytes, ranges *r) {
  fuzz_clear(r, sizeof *r);
  if ((op->d & 0xE0u) != 0xE0u) return NULL;
  const NxmemByteRange range = {(op->d & 8u) != 0 ? op->y : 0, (op->d & 16u) != 0 ? op->x : bytes};
  for (uint32_t i = 0; i < LIFE_GROUP; i++) r->list[i] = range;
  r->options.committed_range_count = op->y % 7u == 6u ? 1025u : op->y % 4u;
  r->options.committed_ranges = op->y % 9u == 8u ? NULL : r->list;
  return &r->options;
}

static nxmem_result check_ranges(const nxmem_allocate_options *o, uint64_t bytes) {
  if (o->committed_range_count > 1024 || o->committed_ranges == NULL) return NXMEM_ERR_INVALID_ARGUMENT;
  const NxmemByteRange r = o->committed_ranges[0];
  const int within = r.bytes != 0 && r.offset <= bytes && r.bytes <= bytes - r.offset;
  return within ? NXMEM_OK : NXMEM_ERR_INVALID_ARGUMENT;
}

static nxmem_result expect_allocate(const life_allocator *a, uint64_t bytes, uint64_t align,
                                    const nxmem_allocate_options *o) {
  if (!is_request_good(bytes, align)) return NXMEM_ERR_INVALID_ARGUMENT;
  const nxmem_result entered = life_enter(a);
  if (entered != NXMEM_OK || o == NULL || o->committed_range_count == 0) return entered;
  if ((a->backing & 1u) == 0) return NXMEM_ERR_UNSUPPORTED_CAPABILITY;
  return check_ranges(o, bytes);
}

static uint64_t align_of(const life_record *op) { return op->c >= 0xF0u ? op->y : 1ull << (op->c & 63u) % 17u; }

void life_op_allocate(const life_record *op) {
  life_allocator *a = &it.allocators[op->a % LIFE_ALLOCATORS];
  ranges r;
  const uint64_t bytes = life_size(op), align = align_of(op);
  const nxmem_allocate_options *options = ranges_for(op, bytes, &r);
  life_block *b = place(op->b);
  if (b == NULL) return;
  const nxmem_result expected = expect_allocate(a, bytes, align, options);
  life_frame *f = life_push(CALL_ALLOCATE);
  f->a = a;
  f->block = b;
  f->size = bytes;
  f->align = align;
  f->count = options == NULL ? 0 : (uint32_t)options->committed_range_count;
  f->ranges = options == NULL ? NULL : options->committed_ranges;
  f->result = expected;
  nxmem_allocation out = {1, NULL};
  nxmem_error error;
  b->state = expected == NXMEM_OK ? BLOCK_ALLOCATING : BLOCK_GONE;
  a->inside += expected == NXMEM_OK;
  const nxmem_result found = nxmem_allocate(a->handle, bytes, align, options, &out, op->d & 1u ? &error : NULL);
  a->inside -= expected == NXMEM_OK;
  life_expect((f->calls == 1) == (expected == NXMEM_OK), "allocate: the plugin was asked, or was not, wrongly");
  life_same_result("allocate", found, f->result);
  life_expect(!f->handing_back || f->released, "allocate: what was refused was not handed back");
  if (found == NXMEM_OK)
    life_expect(out.id == b->id && (uintptr_t)out.ptr == b->address, "allocate: another allocation came out");
  else
    life_expect(out.id == 1 && out.ptr == NULL, "allocate: an output was written on refusal");
  life_pop();
}
