/*
 * sharing.c: shared prefixes: made, held, mapped into blocks, and gone when the last of both is.
 * Attackers: handles that are stale or wrong; handle and views that go in any order; a driver that fails in between.
 * Promise: bytes are charged once and go once; a view maps exactly its prefix's handles, to be read only.
 */
#include <string.h>

#include "vmm.h"

static vm_prefix *free_prefix(uint32_t n) {
  for (uint32_t i = 0; i < VM_PREFIXES; i++)
    if (!it.prefixes[i].there && n-- == 0) return &it.prefixes[i];
  return NULL;
}

static vm_prefix *pick_prefix(uint8_t which) {
  for (uint32_t i = 0; i < VM_PREFIXES; i++) {
    vm_prefix *p = &it.prefixes[(which + i) % VM_PREFIXES];
    if (p->there && p->engine->life == VM_OPEN && p->engine->references != 0 &&
        p->engine->table->shared_mapping != NULL)
      return p;
  }
  return NULL;
}

static int mangle_handle(NxmemSharedPrefixHandle *h, uint8_t how, uint32_t *status_out) {
  *status_out = NXMEM_STATUS_UNKNOWN_ALLOCATION;
  switch (how & 15u) {
    case 1:
      h->struct_size--;
      *status_out = NXMEM_STATUS_SHORT_STRUCT;
      return 1;
    case 2:
      h->mechanism_id ^= 1u << 20;
      *status_out = NXMEM_STATUS_WRONG_MECHANISM;
      return 1;
    case 3:
      h->device.index ^= 4u;
      *status_out = NXMEM_STATUS_WRONG_DEVICE;
      return 1;
    case 4:
      h->handle += 1u << 20;
      return 1;
    case 5:
      h->device_ptr++;
      return 1;
    default:
      return 0;
  }
}

/* ---- Making --------------------------------------------------------------------------------------------------------- */

static void make(vm_frame *f, uint64_t first, uint64_t owner) {
  vm_engine *e = f->engine;
  vm_prefix *p = f->prefix = free_prefix(0);
  vm_expect(p != NULL, "harness: no place for a prefix");
  *p = (vm_prefix){.there = 1, .engine = e, .owner = owner, .handles = 1};
  p->first = (uint32_t)((first - e->base) / e->granule);
  p->count = (uint32_t)vm_count(owner);
  for (uint32_t i = 0; i < p->count; i++) p->at[i] = e->driver->at[p->first + i];
  p->handle = (NxmemSharedPrefixHandle){.struct_size = sizeof p->handle,
                                        .mechanism_id = vm_offers[e->offer].mechanism_id,
                                        .device = {vm_offers[e->offer].tier, vm_offers[e->offer].index},
                                        .device_ptr = first,
                                        .committed_physical_bytes = p->count * e->granule,
                                        .mapped_bytes = p->count * e->granule,
                                        .requested_bytes = f->bytes};
}

void vm_try_prefix(vm_frame *f) {
  vm_engine *e = f->engine;
  uint64_t first = 0;
  f->tried = (vm_try){NXMEM_STATUS_INVALID_ARGUMENT, 0, 0, 0, 0};
  if (f->bytes == 0 || f->bytes > 0ull - e->granule) return;
  const uint64_t span = (f->bytes + e->granule - 1u) / e->granule * e->granule;
  f->tried.status = NXMEM_STATUS_OUT_OF_MEMORY;
  if (!vm_place(e, span, e->granule, &first)) return;
  vm_units_set(e, first, span, 1);
  f->tried = vm_map(e, vm_touched(e, first, span), VM_OWNER, NULL);
  if (f->tried.status == NXMEM_STATUS_OK)
    make(f, first, vm_touched(e, first, span));
  else if (f->tried.lost_bytes != 0)
    vm_keep_back(e, first, span);
  else
    vm_units_set(e, first, span, 0);
}

void vm_op_prefix(const vm_record *op) {
  vm_frame f = {.kind = VM_CALL_PREFIX, .engine = vm_pick_engine(op->a)};
  NxmemSharedPrefixHandle handle, before;
  if (f.engine == NULL || f.engine->table->shared_mapping == NULL || free_prefix(it.frame_count) == NULL) return;
  const NxmemSharedMappingVtable *sharing = f.engine->table->shared_mapping;
  const int strange = (op->d & 31u) == 31u;
  memset(&handle, FUZZ_CANARY, sizeof handle);
  handle.struct_size = sizeof handle - ((op->d & 31u) == 30u);
  before = handle;
  f.bytes = vm_size(f.engine, op->c, op->x, op->y);
  vm_push(&f);
  const NxmemStatus status =
      sharing->create_shared_prefix(sharing->ctx, sharing->mechanism_id + (uint64_t)strange, f.bytes, &handle);
  vm_pop();
  if (before.struct_size < sizeof handle)
    f.tried.status = NXMEM_STATUS_SHORT_STRUCT;
  else if (strange)
    f.tried.status = NXMEM_STATUS_WRONG_MECHANISM;
  else
    vm_try_prefix(&f);
  vm_same("create prefix", status.code, f.tried.status);
  vm_expect(f.reclaims != 0 || status.code != NXMEM_STATUS_OUT_OF_MEMORY || f.tried.lost_bytes != 0,
            "the host was not asked for memory");
  if (status.code == NXMEM_STATUS_OK) {
    vm_expect(handle.handle > vm_last_prefix, "a prefix's number was used before");
    vm_last_prefix = f.prefix->handle.handle = handle.handle;
    vm_expect(memcmp(&handle, &f.prefix->handle, sizeof handle) == 0, "a prefix's handle is not what was made");
    if (f.engine->references != 0) vm_tag_prefix(f.prefix);
  } else {
    vm_expect(memcmp(&handle, &before, sizeof handle) == 0, "a refused prefix writes its handle");
  }
  vm_inside_end(&f);
}

/* ---- References ----------------------------------------------------------------------------------------------------- */

void vm_op_prefix_retain(const vm_record *op) {
  vm_prefix *p = pick_prefix(op->b);
  uint64_t bytes = 77;
  uint32_t refused = 0;
  if (p == NULL) return;
  const NxmemSharedMappingVtable *sharing = p->engine->table->shared_mapping;
  NxmemSharedPrefixHandle handle = p->handle;
  const int there = !mangle_handle(&handle, op->d, &refused) && p->handles != 0;
  const uint32_t expected = there ? NXMEM_STATUS_OK : refused;
  if (op->c & 1u) {
    vm_same("incremental bytes", sharing->incremental_owned_bytes(sharing->ctx, &handle, &bytes).code, expected);
    vm_same("a prefix's bytes to be charged", bytes, !there ? 77u : p->charged ? 0 : p->count * p->engine->granule);
    return;
  }
  vm_same("retain prefix", sharing->retain_shared_prefix(sharing->ctx, &handle).code, expected);
  p->handles += (uint64_t)there;
}

/* A view or the owner's mapping has ended; what of it is mapped for good keeps its handle. */
static void end_mapping(vm_prefix *p, uint64_t granules, uint64_t left) {
  uint32_t number = 0;
  for (uint32_t i = 0; i < VM_GRANULES; i++) {
    if ((granules >> i & 1u) == 0) continue;
    if (left >> i & 1u) p->kept |= 1ull << number;
    number++;
  }
}

/* Its handles, once nobody has it any more. */
static uint64_t end_if_gone(vm_prefix *p) {
  if (p->handles != 0 || p->views != 0) return 0;
  p->there = 0;
  return p->count - vm_count(p->kept);
}

uint64_t vm_end_views(vm_block *b, uint64_t left) {
  uint64_t handles = 0;
  for (uint32_t i = 0; i < b->view_count; i++) {
    vm_prefix *p = &it.prefixes[b->views[i].prefix];
    end_mapping(p, b->views[i].granules, left);
    p->views--;
    handles += end_if_gone(p);
  }
  b->view_count = b->counted_views = 0;
  return handles;
}

static uint32_t end_owner(vm_prefix *p) {
  vm_engine *e = p->engine;
  uint64_t orphans = 0;
  vm_section *s = vm_section_next(e);
  if (vm_is_refused_for_capture(e, s)) return NXMEM_STATUS_BUSY;
  const uint64_t left = vm_left_mapped(e, p->owner, s), gone = p->owner & ~left;
  const uint64_t first = e->base + p->first * e->granule, bytes = p->count * e->granule;
  e->mapped &= ~gone;
  e->owned &= ~gone;
  vm_poison(e, left);
  end_mapping(p, p->owner, left);
  p->handles = 0;
  vm_put_handles(e, end_if_gone(p), s, &orphans);
  if (left == 0 && orphans == 0) {
    vm_units_set(e, first, bytes, 0);
    return NXMEM_STATUS_OK;
  }
  vm_keep_back(e, first, bytes);
  return NXMEM_STATUS_RELEASE_QUARANTINED;
}

void vm_op_prefix_release(const vm_record *op) {
  vm_prefix *p = pick_prefix(op->b);
  uint32_t refused = 0;
  if (p == NULL) return;
  const NxmemSharedMappingVtable *sharing = p->engine->table->shared_mapping;
  NxmemSharedPrefixHandle handle = p->handle;
  const int sound = !mangle_handle(&handle, op->d, &refused);
  const uint32_t code = sharing->release_shared_prefix(sharing->ctx, &handle).code;
  if (!sound || p->handles == 0) {
    vm_same("release prefix", code, refused);
  } else if (p->handles > 1u) {
    vm_same("release prefix", code, NXMEM_STATUS_OK);
    p->handles--;
  } else {
    vm_same("release prefix", code, end_owner(p));
  }
}

/* ---- Views ---------------------------------------------------------------------------------------------------------- */

static vm_try commit_view(vm_prefix *p, vm_block *b, uint64_t offset) {
  vm_engine *e = p->engine;
  vm_try t = {NXMEM_STATUS_INVALID_ARGUMENT, 0, 0, 0, 0};
  if (b->state == VM_BLOCK_QUEUED) t.status = NXMEM_STATUS_BUSY;
  if (b->state == VM_BLOCK_QUEUED) return t;
  const uint64_t bytes = p->handle.requested_bytes;
  if (offset > b->name.bytes || bytes > b->name.bytes - offset || (b->first + offset - e->base) % e->granule != 0)
    return t;
  const uint64_t span = vm_touched(e, b->first + offset, bytes);
  t = vm_map(e, span, VM_SHARER, p);
  b->kept += t.lost_bytes;
  b->mapped += t.lost_bytes + t.mapped;
  if (t.status != NXMEM_STATUS_OK) {
    end_mapping(p, span, t.left);
    return t;
  }
  b->refs |= span;
  b->views[b->view_count++] = (vm_view){(uint32_t)(p - it.prefixes), span};
  b->counted_views++;
  p->views++;
  return t;
}

void vm_op_prefix_commit(const vm_record *op) {
  vm_prefix *p = pick_prefix(op->b);
  vm_block *b = vm_pick_block(op->c);
  uint32_t refused = 0, refused_block = 0;
  if (p == NULL || b == NULL || b->view_count == VM_VIEWS || b->engine != p->engine) return;
  const NxmemSharedMappingVtable *sharing = p->engine->table->shared_mapping;
  const uint64_t granule = p->engine->granule;
  NxmemSharedPrefixCommitRequest request = {sizeof request, 0, p->handle, b->name, op->x % 64u * granule};
  NxmemSharedPrefixCommitInfo info = {.struct_size = sizeof info};
  if ((op->d & 0xE0u) == 0xE0u) request.byte_offset = op->y;
  if ((op->d & 0xE0u) == 0xC0u)
    request.byte_offset = granule - (b->first - p->engine->base) % granule + op->x % 8u * granule;
  const int handle_sound = !mangle_handle(&request.prefix, op->d, &refused) && p->handles != 0;
  const int block_sound = !vm_mangle(&request.allocation, (uint8_t)(op->y >> 56), &refused_block);
  const NxmemStatus status = sharing->commit_shared_prefix(sharing->ctx, &request, &info);
  if (!handle_sound || !block_sound) {
    const int by_handle = !handle_sound && (block_sound || refused != NXMEM_STATUS_UNKNOWN_ALLOCATION);
    const int by_shape =
        !block_sound && (refused_block == NXMEM_STATUS_SHORT_STRUCT || refused_block == NXMEM_STATUS_WRONG_MECHANISM ||
                         refused_block == NXMEM_STATUS_WRONG_DEVICE);
    vm_same("commit of a prefix", status.code, by_handle || (!handle_sound && !by_shape) ? refused : refused_block);
    return;
  }
  const vm_try t = commit_view(p, b, request.byte_offset);
  vm_same("commit of a prefix", status.code, t.status);
  if (status.code != NXMEM_STATUS_OK) return;
  vm_same("bytes mapped by a view", info.newly_mapped_bytes, t.mapped);
  vm_same("bytes charged for a view", info.additional_owned_bytes, p->charged ? 0 : t.mapped);
  vm_same("granules of a view", info.granules, p->count);
  vm_check_prefix(p, &b->views[b->view_count - 1u]);
  p->charged = 1;
}

void vm_forget_prefixes(const vm_engine *e) {
  for (uint32_t i = 0; i < VM_PREFIXES; i++)
    if (it.prefixes[i].engine == e) it.prefixes[i].there = 0;
}
