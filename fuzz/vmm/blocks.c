/*
 * blocks.c: allocations: made, committed, decommitted, given back.
 * Attackers: sizes, alignments and ranges of any kind; names that are stale or wrong; a driver that fails at any call.
 * Promise: each answer, each number and each address is what the model says.
 */
#include <string.h>

#include "vmm.h"

/* ---- What operations name ------------------------------------------------------------------------------------------- */

vm_engine *vm_pick_engine(uint8_t which) {
  for (uint32_t i = 0; i < it.driver_count; i++) {
    vm_engine *e = &it.engines[(which + i) % it.driver_count];
    if (e->life == VM_OPEN && e->references != 0) return e;
  }
  return NULL;
}

vm_block *vm_pick_block(uint8_t which) {
  for (uint32_t i = 0; i < VM_BLOCKS; i++) {
    vm_block *b = &it.blocks[(which + i) % VM_BLOCKS];
    if (b->state != VM_BLOCK_NONE && b->engine->life == VM_OPEN && b->engine->references != 0) return b;
  }
  return NULL;
}

uint64_t vm_size(const vm_engine *e, uint8_t kind, uint32_t x, uint64_t y) {
  const uint64_t granules = 1u + x % 8u;
  switch (kind & 7u) {
    case 0:
      return 1u + x % 2048u;
    case 1:
      return granules * e->granule;
    case 2:
      return granules * e->granule - 1u;
    case 3:
      return granules * e->granule + 1u;
    case 4:
      return 1ull << x % 64u;
    case 5:
      return y;
    case 6:
      return e->bytes - x % 512u;
    default:
      return (1u + x % 64u) * VM_UNIT;
  }
}

int vm_mangle(NxmemAllocation *name, uint8_t how, uint32_t *status_out) {
  *status_out = NXMEM_STATUS_INVALID_ARGUMENT;
  switch (how & 31u) {
    case 1:
      name->struct_size--;
      *status_out = NXMEM_STATUS_SHORT_STRUCT;
      return 1;
    case 2:
      name->mechanism_id ^= 1u << 20;
      *status_out = NXMEM_STATUS_WRONG_MECHANISM;
      return 1;
    case 3:
      name->device.index ^= 4u;
      *status_out = NXMEM_STATUS_WRONG_DEVICE;
      return 1;
    case 4:
      name->allocation_id |= 1ull << 40;
      *status_out = NXMEM_STATUS_UNKNOWN_ALLOCATION;
      return 1;
    case 5:
      name->ptr++;
      return 1;
    case 6:
      name->bytes = 0;
      return 1;
    case 7:
      name->align = 0;
      return 1;
    case 8:
      name->bytes++;
      return 1;
    case 9:
      name->align *= 2u;
      return 1;
    default:
      return 0;
  }
}

static vm_block *block_named(const vm_engine *e, uint64_t id) {
  for (uint32_t i = 0; i < it.block_top; i++)
    if (it.blocks[i].state != VM_BLOCK_NONE && it.blocks[i].engine == e && it.blocks[i].name.allocation_id == id)
      return &it.blocks[i];
  return NULL;
}

/* Where the n-th free one is; NULL: there are fewer. */
static vm_block *free_block(uint32_t n) {
  for (uint32_t i = 0; i < VM_BLOCKS; i++)
    if (it.blocks[i].state == VM_BLOCK_NONE && n-- == 0) return &it.blocks[i];
  return NULL;
}

/* ---- Making --------------------------------------------------------------------------------------------------------- */

static uint64_t granules_of_ranges(const vm_engine *e, const NxmemAllocRequest *r, uint64_t first) {
  uint64_t mask = 0;
  for (uint64_t i = 0; i < r->committed_range_count; i++)
    mask |= vm_touched(e, first + r->committed_ranges[i].offset, r->committed_ranges[i].bytes);
  return mask;
}

static void make(vm_frame *f, uint64_t first, uint64_t span, uint64_t refs) {
  vm_block *b = f->block = free_block(0);
  const NxmemAllocRequest *r = &f->request;
  vm_expect(b != NULL, "harness: no place for a block");
  const uint32_t top = (uint32_t)(b - it.blocks) + 1u;
  if (top > it.block_top) it.block_top = top;
  *b = (vm_block){.state = VM_BLOCK_LIVE, .engine = f->engine, .first = first, .span = span, .refs = refs};
  b->name = (NxmemAllocation){
      sizeof b->name, 0, r->mechanism_id, r->allocation_id, r->device, (uint8_t *)(uintptr_t)first, r->bytes, r->align};
  b->mapped = f->tried.mapped;
}

/* One attempt, after it was made. */
void vm_try_allocate(vm_frame *f) {
  vm_engine *e = f->engine;
  const NxmemAllocRequest *r = &f->request;
  const uint64_t unit = f->whole ? e->granule : VM_UNIT;
  uint64_t first = 0;
  f->tried = (vm_try){NXMEM_STATUS_OK, 0, 0, 0, 0};
  if (vm_is_gone(e)) f->tried.status = NXMEM_STATUS_DEVICE_ERROR;
  if (f->tried.status == NXMEM_STATUS_OK && (block_named(e, r->allocation_id) != NULL || r->bytes > 0ull - unit))
    f->tried.status = NXMEM_STATUS_INVALID_ARGUMENT;
  if (f->tried.status != NXMEM_STATUS_OK) return;
  const uint64_t span = (r->bytes + unit - 1u) / unit * unit;
  if (!vm_place(e, span, r->align < unit ? unit : r->align, &first)) {
    f->tried.status = NXMEM_STATUS_OUT_OF_MEMORY;
    return;
  }
  vm_units_set(e, first, span, 1);
  const uint64_t refs = f->whole ? granules_of_ranges(e, r, first) : vm_touched(e, first, span);
  if (refs != 0) f->tried = vm_map(e, refs, VM_PRIVATE, NULL);
  if (f->tried.status == NXMEM_STATUS_OK)
    make(f, first, span, refs);
  else if (f->tried.lost_bytes != 0)
    vm_keep_back(e, first, span);
  else
    vm_units_set(e, first, span, 0);
}

/* A request is refused for what is wrong in it before anything is looked at. */
static int is_sound(const vm_frame *f, uint32_t how, NxmemAllocRequest *r, uint32_t *status_out) {
  *status_out = NXMEM_STATUS_INVALID_ARGUMENT;
  if (how == 1) {
    r->struct_size--;
    *status_out = NXMEM_STATUS_SHORT_STRUCT;
  } else if (how == 2) {
    r->mechanism_id++;
    *status_out = NXMEM_STATUS_WRONG_MECHANISM;
  } else if (how == 3) {
    r->device.index ^= 4u;
    *status_out = NXMEM_STATUS_WRONG_DEVICE;
  }
  if (how >= 1 && how <= 3) return 0;
  if (r->bytes == 0 || r->align == 0 || (r->align & (r->align - 1u)) != 0) return 0;
  if (r->bytes + (r->align - 1u) < r->bytes) return 0;
  for (uint64_t i = 0; f->whole && i < r->committed_range_count; i++) {
    const NxmemByteRange range = r->committed_ranges[i];
    if (range.bytes == 0 || range.offset > r->bytes || range.bytes > r->bytes - range.offset) return 0;
  }
  return 1;
}

static NxmemStatus call_allocate(const vm_frame *f, NxmemAllocResult *result) {
  const NxmemAllocatorVtable *table = f->engine->table;
  if (!f->whole) return table->allocate(table->ctx, &f->request, result);
  return table->virtual_backing->allocate_committed(table->virtual_backing->ctx, &f->request, result);
}

static void allocate(vm_frame *f, uint32_t how) {
  NxmemAllocResult result, before;
  uint32_t refused = 0;
  memset(&result, FUZZ_CANARY, sizeof result);
  result.struct_size = sizeof result;
  before = result;
  const int sound = is_sound(f, how, &f->request, &refused);
  f->bytes = f->request.bytes;
  vm_push(f);
  const NxmemStatus status = call_allocate(f, &result);
  vm_pop();
  if (sound)
    vm_try_allocate(f);
  else
    f->tried.status = refused;
  vm_same("allocate", status.code, f->tried.status);
  vm_expect(!sound || (f->reclaims != 0) || status.code != NXMEM_STATUS_OUT_OF_MEMORY,
            "the host was not asked for memory");
  if (status.code == NXMEM_STATUS_OK) {
    vm_same("an allocation's address", (uintptr_t)result.ptr, f->block->first);
    vm_same("an allocation's mapped bytes", result.mapped_bytes, f->block->mapped);
    vm_same("an allocation's owned bytes", result.owned_bytes, f->block->mapped);
    vm_same("room of a result", result.struct_size, sizeof result);
    if (f->engine->references != 0) vm_tag_block(f->block);
  } else {
    vm_expect(memcmp(&result, &before, sizeof result) == 0, "a refused allocation writes its result");
  }
  vm_inside_end(f);
}

static int begin_request(const vm_record *op, vm_frame *f, int whole) {
  *f = (vm_frame){.kind = VM_CALL_ALLOCATE, .whole = whole, .engine = vm_pick_engine(op->a)};
  /* One for each call that is under way. */
  if (f->engine == NULL || free_block(it.frame_count) == NULL) return 0;
  const vm_engine *e = f->engine;
  if (whole && e->table->virtual_backing == NULL) return 0;
  const vm_block *twin = (op->b & 0xE0u) == 0xE0u ? vm_pick_block(op->b) : NULL;
  f->request =
      (NxmemAllocRequest){.struct_size = sizeof f->request,
                          .mechanism_id = vm_offers[e->offer].mechanism_id,
                          .allocation_id = twin != NULL && twin->engine == e ? twin->name.allocation_id : it.next_id++,
                          .device = {vm_offers[e->offer].tier, vm_offers[e->offer].index},
                          .bytes = vm_size(e, op->c, op->x, op->y),
                          .align = 1ull << (op->d & 31u)};
  if ((op->d & 0xE0u) == 0xE0u) f->request.align = op->y;
  return 1;
}

void vm_op_allocate(const vm_record *op) {
  vm_frame f;
  if (begin_request(op, &f, 0)) allocate(&f, op->c >> 4);
}

/* Up to four ranges, each from two bytes: where it begins and how far it goes, in quarters of a granule. */
void vm_op_committed(const vm_record *op) {
  vm_frame f;
  if (!begin_request(op, &f, 1)) return;
  const uint64_t quarter = f.engine->granule / 4u;
  const uint32_t count = op->b % 5u;
  for (uint32_t i = 0; i < count; i++) {
    const uint64_t from = (op->y >> i * 16u & 0xFFu) * quarter, much = (op->y >> (i * 16u + 8u) & 0xFFu) * quarter;
    f.ranges[i] = (NxmemByteRange){from - (op->d >> 6 & 1u && from != 0), much + (op->d >> 7)};
  }
  f.request.committed_ranges = count != 0 ? f.ranges : NULL;
  f.request.committed_range_count = count;
  allocate(&f, op->c >> 4);
}

/* ---- The end -------------------------------------------------------------------------------------------------------- */

static vm_end finish(vm_block *b, uint64_t left, uint64_t gone, const vm_section *s) {
  vm_engine *e = b->engine;
  uint64_t orphans = 0;
  const uint64_t private_gone = vm_count(gone & ~e->shared);
  e->mapped &= ~gone;
  e->shared &= ~gone;
  vm_poison(e, left);
  vm_put_handles(e, private_gone + vm_end_views(b, left), s, &orphans);
  const uint64_t unmapped = vm_count(gone);
  const uint64_t residual = (vm_count(left) + orphans) * e->granule + b->kept;
  const vm_end end = {residual != 0 ? NXMEM_STATUS_RELEASE_QUARANTINED : NXMEM_STATUS_OK,
                      unmapped > orphans ? (unmapped - orphans) * e->granule : 0, residual, vm_count(left)};
  if (residual != 0)
    e->residues++;
  else
    vm_units_set(e, b->first, b->span, 0);
  b->state = VM_BLOCK_NONE;
  return end;
}

vm_end vm_block_end(vm_block *b, vm_section *within, int closed) {
  vm_engine *e = b->engine;
  const uint64_t alone = vm_alone(b);
  vm_section *s = within;
  if (s == NULL && !closed) {
    if (alone == 0 && b->view_count == 0) return finish(b, 0, 0, NULL);
    s = vm_section_next(e);
    if (vm_is_refused_for_capture(e, s)) return (vm_end){NXMEM_STATUS_BUSY, 0, 0, 0};
  }
  const uint64_t left = alone == 0 ? 0 : vm_left_mapped(e, alone, s);
  return finish(b, left, alone & ~left, s);
}

static void check_outcome(const NxmemReleaseOutcome *o, const vm_block *b, const vm_end *end) {
  vm_same("an outcome's state", o->state,
          end->status == NXMEM_STATUS_OK ? NXMEM_RELEASE_COMPLETE : NXMEM_RELEASE_QUARANTINED);
  vm_same("an outcome's bytes", o->allocation_bytes, b->name.bytes);
  vm_same("bytes unmapped by a release", o->unmapped_bytes, end->unmapped);
  vm_same("bytes kept back by a release", o->residual_owned_bytes, end->residual);
  vm_same("an outcome's code", o->failure.code, end->status);
}

static void release_structured(vm_block *b, const NxmemAllocation *name, int sound, uint32_t refused) {
  NxmemReleaseOutcome o, before;
  const NxmemAllocatorVtable *table = b->engine->table;
  memset(&o, FUZZ_CANARY, sizeof o);
  o.struct_size = sizeof o;
  before = o;
  const NxmemStatus status = table->release_allocation(table->ctx, name, &o);
  vm_end end = {refused, 0, 0, 0};
  const vm_block was = *b;
  if (sound && b->state == VM_BLOCK_QUEUED)
    end.status = NXMEM_STATUS_BUSY;
  else if (sound)
    end = vm_block_end(b, NULL, 0);
  vm_same("release", status.code, end.status);
  if (sound && status.code != NXMEM_STATUS_BUSY)
    check_outcome(&o, &was, &end);
  else
    vm_expect(memcmp(&o, &before, sizeof o) == 0, "a refused release writes its outcome");
}

static void deallocate(vm_block *b, const NxmemAllocation *name, int sound, uint32_t refused) {
  const NxmemAllocatorVtable *table = b->engine->table;
  uint64_t unmapped = 77;
  const NxmemStatus status = table->deallocate(table->ctx, name, &unmapped);
  vm_end end = {refused, 0, 0, 0};
  if (sound && b->state == VM_BLOCK_QUEUED)
    end.status = NXMEM_STATUS_BUSY;
  else if (sound)
    end = vm_block_end(b, NULL, 0);
  vm_same("deallocate", status.code, end.status);
  vm_same("bytes unmapped by deallocate", unmapped, sound && status.code != NXMEM_STATUS_BUSY ? end.unmapped : 77u);
}

void vm_op_release(const vm_record *op) {
  vm_block *b = vm_pick_block(op->b);
  uint32_t refused = 0;
  if (b == NULL) return;
  NxmemAllocation name = b->name;
  const int sound = !vm_mangle(&name, op->d, &refused);
  vm_check_tags(b);
  if ((op->c & 1u) == 0 && b->engine->table->release_allocation != NULL)
    release_structured(b, &name, sound, refused);
  else
    deallocate(b, &name, sound, refused);
}

/* ---- Commit and decommit -------------------------------------------------------------------------------------------- */

void vm_try_commit(vm_frame *f) {
  vm_engine *e = f->engine;
  vm_block *b = block_named(e, f->name.allocation_id);
  f->tried = (vm_try){NXMEM_STATUS_OK, 0, 0, 0, 0};
  if (b == NULL)
    f->tried.status = NXMEM_STATUS_UNKNOWN_ALLOCATION;
  else if (b->state == VM_BLOCK_QUEUED)
    f->tried.status = NXMEM_STATUS_BUSY;
  else if (vm_is_gone(e))
    f->tried.status = NXMEM_STATUS_DEVICE_ERROR;
  if (f->tried.status != NXMEM_STATUS_OK) return;
  const uint64_t span = vm_touched(e, b->first + f->range.offset, f->range.bytes);
  const uint64_t needed = span & ~vm_in_use(e);
  f->tried = vm_map(e, span, VM_PRIVATE, NULL);
  if (f->tried.status == NXMEM_STATUS_OK) b->refs |= needed;
  b->mapped += f->tried.mapped + f->tried.lost_bytes;
  b->kept += f->tried.lost_bytes;
}

static NxmemByteRange range_of(const vm_record *op, const vm_block *b) {
  const uint64_t quarter = b->engine->granule / 4u;
  if ((op->c & 7u) == 7u) return (NxmemByteRange){op->y, op->x};
  if ((op->c & 7u) == 6u) return (NxmemByteRange){0, b->name.bytes};
  const uint64_t from = (op->x & 0xFFFu) * quarter % b->name.bytes;
  const uint64_t most = b->name.bytes - from, much = (op->x >> 12) % 64u * quarter + (op->c & 1u);
  return (NxmemByteRange){from, much > most ? most : much};
}

static int is_in(NxmemByteRange range, const NxmemAllocation *name) {
  return range.bytes != 0 && range.offset <= name->bytes && range.bytes <= name->bytes - range.offset;
}

void vm_op_commit(const vm_record *op) {
  vm_block *b = vm_pick_block(op->b);
  if (b == NULL || b->engine->table->virtual_backing == NULL) return;
  const NxmemVirtualBackingVtable *backing = b->engine->table->virtual_backing;
  vm_frame f = {.kind = VM_CALL_COMMIT, .engine = b->engine, .name = b->name, .range = range_of(op, b)};
  NxmemRangeRequest request = {sizeof request, 0, b->name, f.range};
  uint32_t refused = 0;
  int sound = !vm_mangle(&request.allocation, op->d, &refused);
  if (sound && !is_in(f.range, &f.name)) {
    sound = 0;
    refused = NXMEM_STATUS_INVALID_ARGUMENT;
  }
  /* Named with another size, a range may leave the block before the name is looked at. */
  if (!sound && refused == NXMEM_STATUS_UNKNOWN_ALLOCATION && !is_in(f.range, &f.name))
    refused = NXMEM_STATUS_INVALID_ARGUMENT;
  f.bytes = f.range.bytes;
  vm_push(&f);
  const NxmemStatus status = backing->commit_range(backing->ctx, &request);
  vm_pop();
  if (sound)
    vm_try_commit(&f);
  else
    f.tried.status = refused;
  vm_same("commit", status.code, f.tried.status);
  vm_expect(!sound || f.reclaims != 0 || status.code != NXMEM_STATUS_OUT_OF_MEMORY || f.tried.lost_granules != 0,
            "the host was not asked for memory");
  b = f.engine->references == 0 ? NULL : block_named(f.engine, f.name.allocation_id);
  if (b != NULL) vm_tag_block(b);
  vm_inside_end(&f);
}

static uint64_t whole_granules(const vm_block *b, NxmemByteRange range) {
  const vm_engine *e = b->engine;
  const uint64_t from = b->first - e->base + range.offset;
  const uint64_t much = range.offset + range.bytes == b->name.bytes ? b->span - range.offset : range.bytes;
  const uint64_t first = (from + e->granule - 1u) / e->granule, last = (from + much) / e->granule;
  return last > first ? vm_granule_mask((uint32_t)first, (uint32_t)(last - first)) : 0;
}

static vm_end decommit(vm_block *b, NxmemByteRange range) {
  vm_engine *e = b->engine;
  uint64_t orphans = 0;
  if (b->state == VM_BLOCK_QUEUED) return (vm_end){NXMEM_STATUS_BUSY, 0, 0, 0};
  const uint64_t whole = whole_granules(b, range), going = whole & b->refs;
  for (uint32_t i = 0; i < e->granules; i++) {
    if ((whole & e->poisoned) >> i & 1u) return (vm_end){NXMEM_STATUS_DEVICE_ERROR, 0, 0, 0};
    if ((whole & (e->shared | e->owned)) >> i & 1u) return (vm_end){NXMEM_STATUS_INVALID_ARGUMENT, 0, 0, 0};
  }
  vm_expect((going & ~vm_alone(b)) == 0, "harness: others have bytes in a whole granule of a block");
  if (going == 0) return (vm_end){NXMEM_STATUS_OK, 0, 0, 0};
  vm_section *s = vm_section_next(e);
  if (s == NULL) {
    vm_expect(vm_is_gone(e) || vm_is_captured(e), "a decommit without the driver");
    return (vm_end){vm_is_gone(e) ? NXMEM_STATUS_DEVICE_ERROR : NXMEM_STATUS_BUSY, 0, 0, 0};
  }
  if (s->bind != NX_VMM_DONE) return (vm_end){vm_status_of(s->bind), 0, 0, 0};
  const uint64_t left = vm_left_mapped(e, going, s), gone = going & ~left;
  e->mapped &= ~gone;
  b->refs &= ~going;
  b->tagged &= b->refs;
  vm_poison(e, left);
  vm_put_handles(e, vm_count(gone), s, &orphans);
  const vm_end end = {left != 0 || orphans != 0 ? NXMEM_STATUS_RELEASE_QUARANTINED : NXMEM_STATUS_OK,
                      (vm_count(gone) - orphans) * e->granule, (vm_count(left) + orphans) * e->granule, vm_count(left)};
  b->mapped -= end.unmapped;
  b->kept += end.residual;
  return end;
}

void vm_op_decommit(const vm_record *op) {
  vm_block *b = vm_pick_block(op->b);
  if (b == NULL || b->engine->table->virtual_backing == NULL) return;
  const NxmemVirtualBackingVtable *backing = b->engine->table->virtual_backing;
  NxmemRangeRequest request = {sizeof request, 0, b->name, range_of(op, b)};
  uint64_t unmapped = 77;
  uint32_t refused = 0;
  const int honest = !vm_mangle(&request.allocation, op->d, &refused), inside = is_in(request.range, &b->name);
  vm_check_tags(b);
  const NxmemStatus status = backing->decommit_range(backing->ctx, &request, &unmapped);
  if (!inside && (honest || refused == NXMEM_STATUS_UNKNOWN_ALLOCATION)) refused = NXMEM_STATUS_INVALID_ARGUMENT;
  const vm_end end = honest && inside ? decommit(b, request.range) : (vm_end){refused, 0, 0, 0};
  const int done = end.status == NXMEM_STATUS_OK || end.status == NXMEM_STATUS_RELEASE_QUARANTINED;
  vm_same("decommit", status.code, end.status);
  vm_same("bytes unmapped by decommit", unmapped, done ? end.unmapped : 77u);
}
