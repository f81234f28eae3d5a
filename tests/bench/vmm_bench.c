/*
 * vmm_bench.c: what the engine costs beside the calls that it cannot do without.
 *
 * Usage: vmm_bench PLUGIN MECHANISM ROUNDS [FREE_SPANS...].
 *
 * Attackers: none.
 * Promise: both sides make the same calls of the kernel on pages that nobody touches; they take turns.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"
#include "nxmem_capabilities.h"
#include "side.h"

enum { GRANULE = 2 << 20, BATCH = 32, SMALL_BATCH = 200, SPAN_BYTES = 256 };

/* ---- One granule, committed and decommitted --------------------------------------------------------------------------- */

typedef struct bare {
  uint8_t *at;
  int descriptor;
} bare;

/* As hostvmm has it: one memfd, a reservation, and in front of the granule its neighbour, mapped from the file's start. */
static bare bare_open(void) {
  bare b = {NULL, memfd_create("bench", MFD_CLOEXEC)};
  if (b.descriptor < 0 || ftruncate(b.descriptor, 1 << 30) != 0) side_die("bare", "memfd");
  void *region = mmap(NULL, 1ull << 40, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (region == MAP_FAILED) side_die("bare", "reserve");
  b.at = (uint8_t *)(((uintptr_t)region + GRANULE - 1u) / GRANULE * GRANULE) + GRANULE;
  const int shared = MAP_SHARED | MAP_FIXED;
  if (mmap(b.at - GRANULE, GRANULE, PROT_READ | PROT_WRITE, shared, b.descriptor, 0) == MAP_FAILED)
    side_die("bare", "neighbour");
  return b;
}

static void bare_pair(const bare *b) {
  const int back = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  if (mmap(b->at, GRANULE, PROT_NONE, MAP_SHARED | MAP_FIXED, b->descriptor, GRANULE) == MAP_FAILED ||
      mprotect(b->at, GRANULE, PROT_READ | PROT_WRITE) != 0 ||
      mmap(b->at, GRANULE, PROT_NONE, back, -1, 0) == MAP_FAILED)
    side_die("bare", "mmap");
}

static void host_pair(side *s, nxmem_allocation span) {
  nxmem_error error;
  const NxmemByteRange range = {GRANULE, GRANULE};
  if (nxmem_commit(s->allocator, span, range, &error) != NXMEM_OK) side_die("commit", error.message);
  if (nxmem_decommit(s->allocator, span, range, NULL, &error) != NXMEM_OK) side_die("decommit", error.message);
}

static void measure_granule(side *s, int rounds) {
  nxmem_allocation span;
  nxmem_error error;
  const NxmemByteRange first = {0u, 1u};
  const nxmem_allocate_options options = {&first, 1u};
  const bare b = bare_open();
  if (nxmem_allocate(s->allocator, 8u * GRANULE, 4096u, &options, &span, &error) != NXMEM_OK)
    side_die("allocate", error.message);
  for (int round = 0; round < rounds; round++) {
    double start = bench_now();
    for (int i = 0; i < BATCH; i++) bare_pair(&b);
    bench_sample("granule", "bare", (bench_now() - start) / BATCH);
    start = bench_now();
    for (int i = 0; i < BATCH; i++) host_pair(s, span);
    bench_sample("granule", "host", (bench_now() - start) / BATCH);
  }
  if (nxmem_release(s->allocator, span, NULL, &error) != NXMEM_OK) side_die("release", error.message);
}

/* ---- Small blocks that map nothing ------------------------------------------------------------------------------------ */

static void measure_small(side *direct, int rounds) {
  side_block neighbour = {0}, block = {0};
  direct_allocate(direct, &neighbour); /* holds the granule */
  for (int round = 0; round < rounds; round++) {
    double start = bench_now();
    for (int i = 0; i < SMALL_BATCH; i++) {
      void *p = malloc(SIDE_BYTES);
      BENCH_HIDE(p);
      free(p);
    }
    bench_sample("small", "malloc", (bench_now() - start) / SMALL_BATCH);
    start = bench_now();
    for (int i = 0; i < SMALL_BATCH; i++) {
      direct_allocate(direct, &block);
      direct_release(direct, &block);
    }
    bench_sample("small", "slots", (bench_now() - start) / SMALL_BATCH);
  }
  direct_release(direct, &neighbour);
}

/* ---- Free spans ------------------------------------------------------------------------------------------------------- */

static NxmemAllocation take(side *s, uint64_t id, uint64_t bytes) {
  const NxmemAllocRequest request = {.struct_size = sizeof request,
                                     .mechanism_id = s->table->mechanism_id,
                                     .allocation_id = id,
                                     .device = s->table->device,
                                     .bytes = bytes,
                                     .align = 1u};
  NxmemAllocResult result = {.struct_size = sizeof result};
  if (s->table->allocate(s->table->ctx, &request, &result).code != NXMEM_STATUS_OK) side_die("spans", "allocate");
  return (NxmemAllocation){.struct_size = sizeof(NxmemAllocation),
                           .mechanism_id = request.mechanism_id,
                           .allocation_id = id,
                           .device = request.device,
                           .ptr = result.ptr,
                           .bytes = bytes,
                           .align = 1u};
}

static void give(side *s, const NxmemAllocation *block) {
  uint64_t unmapped = 0u;
  if (s->table->deallocate(s->table->ctx, block, &unmapped).code != NXMEM_STATUS_OK) side_die("spans", "deallocate");
}

/* Every second block of a row is given back: that many holes, and none holds the block that is measured, but the last. */
static void measure_search(side *s, uint64_t holes, int rounds) {
  char series[32];
  NxmemAllocation *blocks = malloc(2u * holes * sizeof *blocks);
  if (blocks == NULL) side_die("spans", "memory");
  for (uint64_t i = 0u; i < 2u * holes; i++) blocks[i] = take(s, i + 1u, SPAN_BYTES);
  for (uint64_t i = 0u; i < 2u * holes; i += 2u) give(s, &blocks[i]);
  const NxmemAllocation neighbour = take(s, 4u * holes, 2u * SPAN_BYTES);
  snprintf(series, sizeof series, "%llu", (unsigned long long)holes);
  for (int round = 0; round < rounds; round++) {
    const double start = bench_now();
    for (int i = 0; i < SMALL_BATCH; i++) {
      const NxmemAllocation block = take(s, 4u * holes + 1u, 2u * SPAN_BYTES);
      give(s, &block);
    }
    bench_sample("search", series, (bench_now() - start) / SMALL_BATCH);
  }
  give(s, &neighbour);
  for (uint64_t i = 1u; i < 2u * holes; i += 2u) give(s, &blocks[i]);
  free(blocks);
}

int main(int count, char **arguments) {
  side sides[2];
  if (count < 4) side_die("usage", "vmm_bench PLUGIN MECHANISM ROUNDS [FREE_SPANS...]");
  const int rounds = atoi(arguments[3]);
  side_open_direct(&sides[0], arguments[1], arguments[2]);
  side_open_host(&sides[1], "host", arguments[1], arguments[2], NXMEM_FETCH_GUARDED, NXMEM_OVERLAP_CHECKED);
  measure_granule(&sides[1], rounds);
  measure_small(&sides[0], rounds);
  for (int i = 4; i < count; i++) measure_search(&sides[0], strtoull(arguments[i], NULL, 10), rounds);
  side_close_all(sides, 2);
  return 0;
}
