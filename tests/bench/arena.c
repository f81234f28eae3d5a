/*
 * arena.c: a plugin without locks: each thread takes its blocks from a list of its own, so two threads that allocate share nothing.
 *
 * Attackers: none; an honest plugin, for measuring how threads get into each other's way in a host.
 * Promise: no word is written by two threads while each releases what it allocated itself; the unload report is true once they have ended.
 */
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "nxmem_memory_abi.h"

#define EXPORT __attribute__((visibility("default")))
#define NAME ((const uint8_t *)"arena")
#define MECHANISM_ID 0x6172656E61ull

enum { BLOCK_BYTES = 64, SLAB_BLOCKS = 1024, STATUS_HEAD = 8 };

static const NxmemDeviceId device = {NXMEM_TIER_HOST, 0u};
static atomic_uint_fast64_t live_allocators;

typedef union block {
  union block *next;
  unsigned char bytes[BLOCK_BYTES];
} block;

static _Thread_local block *own; /* free blocks of this thread */

static NxmemStatus answer(uint32_t code) {
  NxmemStatus status;
  memset(&status, 0, sizeof status);
  status.code = code;
  return status;
}

static int refill(void) {
  block *slab = aligned_alloc(4096, sizeof(block) * SLAB_BLOCKS); /* kept for good */
  if (slab == NULL) return 0;
  for (int i = 0; i < SLAB_BLOCKS; i++) slab[i].next = i + 1 < SLAB_BLOCKS ? &slab[i + 1] : NULL;
  own = slab;
  return 1;
}

static NxmemStatus allocate(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  (void)ctx;
  if (request->mechanism_id != MECHANISM_ID) return answer(NXMEM_STATUS_WRONG_MECHANISM);
  if (request->bytes > BLOCK_BYTES || request->align > BLOCK_BYTES) return answer(NXMEM_STATUS_INVALID_ARGUMENT);
  if (own == NULL && !refill()) return answer(NXMEM_STATUS_OUT_OF_MEMORY);
  block *taken = own;
  own = taken->next;
  result_out->ptr = taken->bytes;
  result_out->owned_bytes = BLOCK_BYTES;
  result_out->mapped_bytes = BLOCK_BYTES;
  return answer(NXMEM_STATUS_OK);
}

static NxmemStatus deallocate(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped_bytes_out) {
  (void)ctx;
  if (allocation->mechanism_id != MECHANISM_ID) return answer(NXMEM_STATUS_WRONG_MECHANISM);
  block *given = (block *)(void *)allocation->ptr;
  given->next = own;
  own = given;
  *unmapped_bytes_out = BLOCK_BYTES;
  return answer(NXMEM_STATUS_OK);
}

static void retain(void *ctx) { (void)ctx; }
static void release(void *ctx) {
  (void)ctx;
  atomic_fetch_sub(&live_allocators, 1u);
}

static const NxmemAllocatorVtable table = {.struct_size = 128,
                                           .abi_minor = 1,
                                           .mechanism_id = MECHANISM_ID,
                                           .device = {NXMEM_TIER_HOST, 0u},
                                           .capability_flags = NXMEM_CAP_ALLOCATOR,
                                           .name = NAME,
                                           .allocate = allocate,
                                           .deallocate = deallocate,
                                           .retain = retain,
                                           .release = release};

static NxmemStatus open_allocator(void *ctx, const NxmemOpenRequest *request, const NxmemAllocatorVtable **out) {
  (void)ctx;
  if (request->device.tier != device.tier || request->device.index != device.index)
    return answer(NXMEM_STATUS_WRONG_DEVICE);
  atomic_fetch_add(&live_allocators, 1u);
  *out = &table;
  return answer(NXMEM_STATUS_OK);
}

static void release_factory(void *ctx) { (void)ctx; }

static const NxmemAllocatorFactoryVtable factory = {.struct_size = 56,
                                                    .abi_minor = 1,
                                                    .name = NAME,
                                                    .device = {NXMEM_TIER_HOST, 0u},
                                                    .capability_flags = NXMEM_CAP_ALLOCATOR,
                                                    .open_allocator = open_allocator,
                                                    .release = release_factory};

EXPORT NxmemStatus NxmemNegotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response_out);
EXPORT NxmemStatus NxmemNegotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response_out) {
  const uint32_t asked = request->host_range.minor_max;
  *response_out = (NxmemNegotiateResponse){.struct_size = 40,
                                           .agreed_major = 1,
                                           .agreed_minor = asked < 1u ? asked : 1u,
                                           .plugin_range = {1, 1, 0, 1},
                                           .capability_flags = NXMEM_CAP_ALLOCATOR};
  return answer(NXMEM_STATUS_OK);
}

EXPORT NxmemStatus NxmemCreateAllocatorFactories(const NxmemAllocatorFactoryVtable **out, uint64_t room,
                                                 uint64_t *count_out);
EXPORT NxmemStatus NxmemCreateAllocatorFactories(const NxmemAllocatorFactoryVtable **out, uint64_t room,
                                                 uint64_t *count_out) {
  if (room < 1u) return answer(NXMEM_STATUS_INVALID_ARGUMENT);
  out[0] = &factory;
  *count_out = 1u;
  return answer(NXMEM_STATUS_OK);
}

EXPORT NxmemStatus NxmemQueryUnloadReadiness(NxmemUnloadReport *report_out);
EXPORT NxmemStatus NxmemQueryUnloadReadiness(NxmemUnloadReport *report_out) {
  *report_out = (NxmemUnloadReport){.struct_size = 48, .live_allocators = atomic_load(&live_allocators)};
  return answer(NXMEM_STATUS_OK);
}
