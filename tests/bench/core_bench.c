/*
 * core_bench.c: the core's readers and the negotiation beside bare copies.
 *
 * Attackers: none.
 * Promise: accepted, refused and floor take turns, each in batches of some microseconds.
 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "core_floor.h"
#include "nxmem/capability.h"
#include "nxmem/negotiate.h"
#include "nxmem/prefix.h"

enum { BATCH = 2000, ROUNDS = 401 };

static void *slot(int i) { return (void *)(uintptr_t)(0x1000 + 16 * i); }

static NxmemAllocatorVtable good_table(void) {
  NxmemAllocatorVtable table;
  void *slots[16];
  for (int i = 0; i < 16; i++) slots[i] = slot(i);
  memcpy(&table, slots, sizeof table);
  table.struct_size = sizeof table;
  table.abi_minor = 1;
  table.mechanism_id = 7;
  table.device = (NxmemDeviceId){0, 0};
  table.capability_flags = NXMEM_CAPS_KNOWN;
  return table;
}

typedef struct table_row {
  const char *series;
  void (*damage)(NxmemAllocatorVtable *table);
} table_row;

static void short_size(NxmemAllocatorVtable *t) { t->struct_size = 119; }
static void missing_slot(NxmemAllocatorVtable *t) { t->release = NULL; }
static void zero_id(NxmemAllocatorVtable *t) { t->mechanism_id = 0; }

static const table_row refused[] = {{"short", short_size}, {"missing-slot", missing_slot}, {"id-0", zero_id}};
enum { REFUSED = sizeof refused / sizeof refused[0] };

static double time_reader(const NxmemAllocatorVtable *table) {
  const NxmemAllocatorVtable *src = table;
  NxmemAllocatorVtable out;
  uint32_t declared = 0;
  const double start = bench_now();
  for (int i = 0; i < BATCH; i++) {
    BENCH_HIDE(src);
    const nxmem_verdict v = nxmem_read_allocator(src, 1, &out, &declared);
    BENCH_USE(&v);
    BENCH_USE(&out);
  }
  return (bench_now() - start) / BATCH;
}

static double time_copy(const NxmemAllocatorVtable *table) {
  const NxmemAllocatorVtable *src = table;
  NxmemAllocatorVtable out;
  const double start = bench_now();
  for (int i = 0; i < BATCH; i++) {
    BENCH_HIDE(src);
    const int done = floor_copy(src, &out);
    BENCH_USE(&done);
    BENCH_USE(&out);
  }
  return (bench_now() - start) / BATCH;
}

static double time_status(NxmemStatus (*returns)(void)) {
  const double start = bench_now();
  for (int i = 0; i < BATCH; i++) {
    BENCH_HIDE(returns);
    const NxmemStatus status = returns();
    BENCH_USE(&status);
  }
  return (bench_now() - start) / BATCH;
}

static double time_stored_status(NxmemStatus (*returns)(void)) {
  NxmemStatus home;
  NxmemStatus *to = &home;
  const double start = bench_now();
  for (int i = 0; i < BATCH; i++) {
    BENCH_HIDE(returns);
    BENCH_HIDE(to);
    *to = returns();
    BENCH_USE(to);
  }
  return (bench_now() - start) / BATCH;
}

/* Negotiate: a request is decided. Validate: the response is judged. */
static double time_negotiation(void) {
  static const nxmem_offer offer = {.range = {1u, 1u, 0u, 1u}, .capability_flags = NXMEM_CAPS_KNOWN};
  const NxmemNegotiateRequest asked = {
      .struct_size = sizeof asked, .host_range = {1, 1, 0, 1}, .host_capability_flags = NXMEM_CAPS_KNOWN};
  const NxmemNegotiateRequest *request = &asked;
  const double start = bench_now();
  for (int i = 0; i < BATCH; i++) {
    BENCH_HIDE(request);
    NxmemNegotiateResponse response;
    const nxmem_verdict decided = nxmem_negotiate_decide(request, &offer, &response);
    BENCH_USE(&response);
    const nxmem_verdict judged = nxmem_negotiate_judge(decided.reason, &response, &offer);
    if (judged.reason != NXMEM_REASON_NONE) abort();
  }
  return (bench_now() - start) / BATCH;
}

int main(void) {
  const NxmemAllocatorVtable good = good_table();
  NxmemAllocatorVtable bad[REFUSED];
  for (int i = 0; i < REFUSED; i++) {
    bad[i] = good;
    refused[i].damage(&bad[i]);
  }
  for (int round = 0; round < ROUNDS; round++) {
    bench_sample("reader", "floor", time_copy(&good));
    bench_sample("reader", "accepted", time_reader(&good));
    for (int i = 0; i < REFUSED; i++) bench_sample("reader", refused[i].series, time_reader(&bad[i]));
    bench_sample("negotiation", "floor", time_status(floor_status));
    bench_sample("negotiation", "stored", time_stored_status(floor_status));
    bench_sample("negotiation", "core", time_negotiation());
  }
  return 0;
}
