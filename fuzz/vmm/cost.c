/*
 * cost.c: what ranges would cost and what a block has: the slots that only tell.
 * Attackers: ranges that overlap or leave their block; a request of any size.
 * Promise: no granule is counted twice; nothing is called and nothing changes.
 */
#include "vmm.h"

enum { RANGES = 3 };

static uint64_t granules_up_to(const vm_engine *e, uint64_t from, uint64_t bytes, uint8_t *seen) {
  uint64_t count = 0;
  for (uint64_t i = from / e->granule; i <= (from + bytes - 1u) / e->granule; i++) {
    if (i < VM_GRANULES && !seen[i]) count++;
    if (i < VM_GRANULES) seen[i] = 1;
  }
  return count;
}

static void cost_of_allocation(const vm_record *op, const vm_block *b) {
  const vm_engine *e = b->engine;
  const NxmemVirtualBackingVtable *backing = e->table->virtual_backing;
  const uint64_t quarter = e->granule / 4u;
  NxmemByteRange ranges[RANGES];
  uint8_t seen[VM_GRANULES] = {0};
  uint64_t expected = 0, mapped = 77;
  uint32_t code = NXMEM_STATUS_OK;
  NxmemAllocRequest request = {sizeof request,
                               0,
                               vm_offers[e->offer].mechanism_id,
                               it.next_id++,
                               {vm_offers[e->offer].tier, vm_offers[e->offer].index},
                               vm_size(e, op->c >> 3, op->x, op->y),
                               1,
                               ranges,
                               op->d % (RANGES + 1u)};
  if (request.bytes == 0) code = NXMEM_STATUS_INVALID_ARGUMENT;
  for (uint64_t i = 0; i < request.committed_range_count; i++) {
    const uint64_t from = (op->y >> i * 16u & 0x3Fu) * quarter, much = (op->y >> (i * 16u + 8u) & 0x3Fu) * quarter;
    ranges[i] = (NxmemByteRange){from, much};
    if (much == 0 || from > request.bytes || much > request.bytes - from) code = NXMEM_STATUS_INVALID_ARGUMENT;
    if (code == NXMEM_STATUS_OK && request.bytes <= e->bytes) expected += granules_up_to(e, from, much, seen);
  }
  if (code == NXMEM_STATUS_OK && request.bytes > e->bytes) code = NXMEM_STATUS_OUT_OF_MEMORY;
  vm_same("cost of an allocation", backing->mapped_bytes_for_allocation(backing->ctx, &request, &mapped).code, code);
  vm_same("bytes that an allocation would map", mapped, code == NXMEM_STATUS_OK ? expected * e->granule : 77u);
}

static void cost_of_ranges(const vm_record *op, const vm_block *b, const vm_block *other) {
  const vm_engine *e = b->engine;
  const NxmemVirtualBackingVtable *backing = e->table->virtual_backing;
  NxmemRangeRequest requests[RANGES];
  uint64_t granules = 0, mapped = 77;
  const uint32_t count = 1u + op->d % RANGES;
  for (uint32_t i = 0; i < count; i++) {
    const vm_block *of = i == 1u && other->engine == e ? other : b;
    const uint64_t from = (op->y >> i * 16u & 0xFFu) * (e->granule / 4u) % of->name.bytes;
    const uint64_t most = of->name.bytes - from, much = 1u + (op->y >> (i * 16u + 8u) & 0xFFu) * (e->granule / 4u);
    requests[i] = (NxmemRangeRequest){sizeof requests[i], 0, of->name, {from, much > most ? most : much}};
    granules |= vm_touched(e, of->first + from, requests[i].range.bytes);
  }
  vm_same("cost of ranges", backing->mapped_bytes_for_ranges(backing->ctx, requests, count, &mapped).code,
          NXMEM_STATUS_OK);
  vm_same("bytes that ranges would map", mapped, vm_count(granules & ~e->mapped) * e->granule);
}

void vm_op_cost(const vm_record *op) {
  const vm_block *b = vm_pick_block(op->b);
  uint64_t committed = 77;
  uint32_t refused = 0;
  if (b == NULL || b->engine->table->virtual_backing == NULL) return;
  const NxmemVirtualBackingVtable *backing = b->engine->table->virtual_backing;
  if ((op->c & 3u) == 1u) cost_of_allocation(op, b);
  if ((op->c & 3u) == 2u) cost_of_ranges(op, b, vm_pick_block(op->a));
  NxmemAllocation name = b->name;
  const int sound = !vm_mangle(&name, op->d >> 3, &refused);
  vm_same("committed", backing->committed_bytes(backing->ctx, &name, &committed).code,
          sound ? NXMEM_STATUS_OK : refused);
  vm_same("bytes committed", committed, sound ? b->mapped : 77u);
}
