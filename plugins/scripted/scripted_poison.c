/*
 * scripted_poison.c: mechanisms after which their module can never be unloaded. Each is a module of its own.
 *
 * Attackers: these are.
 * Promise: the module's unload report stays true: it says what keeps it.
 */
#include "scripted_mechanisms.h"
#include "scripted_queue.h"

/* sticky: OK, and nothing is ever retired. */
static NxmemStatus drain_none(void *ctx, uint64_t max, uint64_t *retired_out) {
  (void)max;
  return nx_drain_releases(ctx, 0u, retired_out);
}

static void stick(NxmemAllocatorVtable *table) { table->drain_releases = drain_none; }

/* idle-drain: the same, and each drain says that it retired one. */
static NxmemStatus drain_idly(void *ctx, uint64_t max, uint64_t *retired_out) {
  const NxmemStatus done = drain_none(ctx, max, retired_out);
  if (done.code == NXMEM_STATUS_OK) *retired_out = 1u;
  return done;
}

static void idle(NxmemAllocatorVtable *table) { table->drain_releases = drain_idly; }

/* self-retaining: a reference of its own, so that the host's release is never the last. */
static void retain_itself(NxmemAllocatorVtable *table) { ((nx_allocator *)table->ctx)->references++; }

static const nx_mechanism sticky[] = {{NX_HONEST("sticky", NX_DEFERRED_CAPS), .spoil = stick}};
static const nx_mechanism idle_drain[] = {{NX_HONEST("idle-drain", NX_DEFERRED_CAPS), .spoil = idle}};
static const nx_mechanism self_retaining[] = {{NX_HONEST("self-retaining", NX_CAPS), .spoil = retain_itself}};
const nx_row_group nx_sticky_rows = NX_ROWS(sticky);
const nx_row_group nx_idle_drain_rows = NX_ROWS(idle_drain);
const nx_row_group nx_self_retaining_rows = NX_ROWS(self_retaining);
