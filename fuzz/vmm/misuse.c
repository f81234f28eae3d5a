/*
 * misuse.c: arguments that no slot may look into: NULL, misaligned, too short, too many.
 * Attackers: a host that is wrong about everything.
 * Promise: each is refused with its code, nothing is written behind what was declared, nothing changes and no driver is called.
 */
#include <string.h>

#include "nxmem/statistics.h"
#include "vmm.h"

enum { MANY = 1025 };

/* Room for any record, of which the first byte behind `declared` must stay. */
typedef struct vm_room {
  union {
    uint64_t aligned[64];
    uint8_t bytes[512];
  } of;
} vm_room;

static void *room(vm_room *r, uint32_t declared) {
  memset(r, FUZZ_CANARY, sizeof *r);
  memcpy(r->of.bytes, &declared, sizeof declared);
  return r->of.bytes;
}

static void untouched(const vm_room *r, uint32_t declared) {
  uint32_t found = 0;
  memcpy(&found, r->of.bytes, sizeof found);
  vm_same("a size that the caller declared", found, declared);
  vm_expect(fuzz_untouched(r->of.bytes + 4, sizeof *r - 4u), "a refused call writes");
}

static void *askew(vm_room *r) { return r->of.bytes + 1; }

static void misuse_allocate(const vm_engine *e, uint32_t way) {
  static const NxmemByteRange ranges[MANY];
  const NxmemAllocatorVtable *t = e->table;
  vm_room out;
  NxmemAllocRequest request = {.struct_size = sizeof request,
                               .mechanism_id = t->mechanism_id,
                               .allocation_id = it.next_id++,
                               .device = t->device,
                               .bytes = 4096,
                               .align = 1};
  const uint32_t declared = way == 2 ? 31u : 32u;
  NxmemAllocResult *result = room(&out, declared);
  if (way == 0) vm_same("allocate nothing", t->allocate(t->ctx, NULL, result).code, NXMEM_STATUS_INVALID_ARGUMENT);
  if (way == 1)
    vm_same("allocate askew", t->allocate(t->ctx, &request, askew(&out)).code, NXMEM_STATUS_INVALID_ARGUMENT);
  if (way == 2)
    vm_same("allocate into 31 bytes", t->allocate(t->ctx, &request, result).code, NXMEM_STATUS_SHORT_STRUCT);
  const NxmemVirtualBackingVtable *backing = t->virtual_backing;
  if (backing != NULL && way == 2)
    vm_same("allocate ranges into 31 bytes", backing->allocate_committed(backing->ctx, &request, result).code,
            NXMEM_STATUS_SHORT_STRUCT);
  if (backing != NULL && way >= 3) {
    request.committed_ranges = way == 3 ? NULL : way == 4 ? ranges : askew(&out);
    request.committed_range_count = way == 4 ? MANY : 1u;
    vm_same("allocate wrong ranges", backing->allocate_committed(backing->ctx, &request, result).code,
            NXMEM_STATUS_INVALID_ARGUMENT);
  }
  untouched(&out, declared);
}

static void misuse_block(const vm_block *b, uint32_t way) {
  const NxmemAllocatorVtable *t = b->engine->table;
  const NxmemVirtualBackingVtable *backing = t->virtual_backing;
  vm_room out;
  NxmemRangeRequest request = {way == 2 ? 79u : 80u, 0, b->name, {0, 1}};
  const uint32_t range_code = way == 2 ? NXMEM_STATUS_SHORT_STRUCT : NXMEM_STATUS_INVALID_ARGUMENT;
  NxmemReleaseOutcome *outcome = room(&out, 295);
  vm_same("deallocate without a number", t->deallocate(t->ctx, &b->name, NULL).code, NXMEM_STATUS_INVALID_ARGUMENT);
  if (t->release_allocation != NULL)
    vm_same("release into 295 bytes", t->release_allocation(t->ctx, &b->name, outcome).code, NXMEM_STATUS_SHORT_STRUCT);
  if (t->enqueue_release != NULL)
    vm_same("enqueue without a ticket", t->enqueue_release(t->ctx, &b->name, NULL).code, NXMEM_STATUS_INVALID_ARGUMENT);
  untouched(&out, 295);
  if (backing == NULL) return;
  uint64_t number = 77;
  vm_same("commit nothing", backing->commit_range(backing->ctx, way == 2 ? &request : NULL).code, range_code);
  vm_same("decommit nothing", backing->decommit_range(backing->ctx, &request, way == 2 ? &number : NULL).code,
          range_code);
  vm_same("cost of none", backing->mapped_bytes_for_ranges(backing->ctx, &request, way == 1 ? 0 : MANY, &number).code,
          NXMEM_STATUS_INVALID_ARGUMENT);
  vm_same("a number of a refused call", number, 77);
}

static void misuse_prefix(const vm_engine *e) {
  const NxmemSharedMappingVtable *sharing = e->table->shared_mapping;
  vm_room out;
  NxmemSharedPrefixCommitInfo *info = room(&out, 31);
  const NxmemSharedPrefixCommitRequest request = {.struct_size = 135};
  NxmemSharedPrefixCommitInfo whole = {.struct_size = sizeof whole};
  if (sharing == NULL) return;
  vm_same("a view of nothing", sharing->commit_shared_prefix(sharing->ctx, NULL, info).code,
          NXMEM_STATUS_INVALID_ARGUMENT);
  vm_same("a view into 31 bytes", sharing->commit_shared_prefix(sharing->ctx, &request, info).code,
          NXMEM_STATUS_SHORT_STRUCT);
  vm_same("a view of 135 bytes", sharing->commit_shared_prefix(sharing->ctx, &request, &whole).code,
          NXMEM_STATUS_SHORT_STRUCT);
  vm_same("retain nothing", sharing->retain_shared_prefix(sharing->ctx, NULL).code, NXMEM_STATUS_INVALID_ARGUMENT);
  vm_same("release nothing", sharing->release_shared_prefix(sharing->ctx, NULL).code, NXMEM_STATUS_INVALID_ARGUMENT);
  untouched(&out, 31);
}

static void misuse_queue(const vm_engine *e) {
  const NxmemAllocatorVtable *t = e->table;
  if (t->drain_releases == NULL) return;
  vm_same("drain without a number", t->drain_releases(t->ctx, 1, NULL).code, NXMEM_STATUS_INVALID_ARGUMENT);
  vm_same("pending without a number", t->pending_release_count(t->ctx, NULL).code, NXMEM_STATUS_INVALID_ARGUMENT);
  vm_same("drain of nothing", t->drain_releases(NULL, 1, NULL).code, NXMEM_STATUS_INVALID_ARGUMENT);
}

static void misuse_module(void) {
  const NxmemAllocatorFactoryVtable *factories[VM_OFFERS];
  vm_room out;
  uint64_t count = 77;
  vm_same("a report of 47 bytes", NxmemQueryUnloadReadiness(room(&out, 47)).code, NXMEM_STATUS_SHORT_STRUCT);
  untouched(&out, 47);
  vm_same("a report askew", NxmemQueryUnloadReadiness(askew(&out)).code, NXMEM_STATUS_INVALID_ARGUMENT);
  vm_same("statistics in 119 bytes",
          NxmemVmmStatistics(vm_offers[0].mechanism_id, 0, 0, room(&out, sizeof(NxmemVmmStats) - 1u)),
          NXMEM_STATUS_SHORT_STRUCT);
  untouched(&out, sizeof(NxmemVmmStats) - 1u);
  NxmemVmmStats stats = {.struct_size = sizeof stats};
  vm_same("statistics of no mechanism", NxmemVmmStatistics(1, 0, 0, &stats), NXMEM_STATUS_WRONG_MECHANISM);
  vm_same("statistics of no device", NxmemVmmStatistics(vm_offers[0].mechanism_id, 0, 9, &stats),
          NXMEM_STATUS_WRONG_DEVICE);
  vm_same("factories without room", NxmemCreateAllocatorFactories(factories, VM_OFFERS - 1u, &count).code,
          NXMEM_STATUS_INVALID_ARGUMENT);
  vm_same("factories nowhere", NxmemCreateAllocatorFactories(NULL, VM_OFFERS, &count).code,
          NXMEM_STATUS_INVALID_ARGUMENT);
  vm_same("a count of refused factories", count, 77);
}

/* Any request: the answer must be one that the host's half takes, or say why not, and be no longer than its room. */
static void misuse_negotiation(const vm_record *op) {
  vm_room out;
  NxmemNegotiateRequest request = {sizeof request, 0, {1, 1, op->c & 3u, op->d & 3u}, op->x & 63u};
  const uint32_t space = op->y % 41u;
  const int meets = request.host_range.minor_min <= request.host_range.minor_max &&
                    request.host_range.minor_min <= 1u && (request.host_capability_flags & NXMEM_CAP_ALLOCATOR) != 0;
  NxmemNegotiateResponse *response = room(&out, space);
  const NxmemStatus status = NxmemNegotiate(&request, response);
  vm_same("negotiate", status.code == NXMEM_STATUS_OK, meets && space == 40u);
  vm_expect(fuzz_untouched(out.of.bytes + (space < 4u ? 4u : space), sizeof out - (space < 4u ? 4u : space)),
            "negotiation writes behind its room");
  if (status.code != NXMEM_STATUS_OK) return;
  vm_same("agreed minor", response->agreed_minor,
          request.host_range.minor_max < 1u ? request.host_range.minor_max : 1u);
  vm_same("capabilities beyond the request", response->capability_flags & ~request.host_capability_flags, 0);
}

void vm_op_misuse(const vm_record *op) {
  const vm_engine *e = vm_pick_engine(op->a);
  const vm_block *b = vm_pick_block(op->a);
  const uint32_t way = op->b % 5u;
  misuse_module();
  misuse_negotiation(op);
  if (b != NULL) misuse_block(b, way);
  if (e == NULL) return;
  misuse_allocate(e, way);
  misuse_prefix(e);
  misuse_queue(e);
}
