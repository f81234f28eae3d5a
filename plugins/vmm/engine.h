/*
 * engine.h: what one open allocator is made of, and how its parts speak with each other.
 *
 * Attackers: a host with wrong ranges and stale ids, from any thread; a driver that fails at any call.
 * Promise: what the books say is what is mapped; no address is handed out that is still mapped or kept back; nothing is destroyed that is in use.
 *
 * Locks: `lock` of an engine protects all of it but `references`. It is held across calls of the driver and never across a call of the host: request_reclaim and
 * release_completed are called with no lock held. Inside it only leaves are taken: the gates' lock, the driver's own. Functions that end in _locked want it held.
 */
#ifndef NX_VMM_ENGINE_H
#define NX_VMM_ENGINE_H

#include <pthread.h>

#include "device.h"
#include "nxmem/arena.h"
#include "nxmem/granules.h"
#include "nxmem_memory_abi.h"
#include "spans.h"

/* Granules side by side, by their index in the arena. */
typedef nxmem_granule_run nx_run;

/* ---- The granules of an arena (table.c) --------------------------------------------------------------------------- */

typedef struct nx_table {
  nxmem_granule *granules;
  uint64_t *handles; /* of each granule that is mapped */
  uint64_t count;
  size_t bytes; /* mapped for both, touched as they are used */
} nx_table;

int nx_table_open(nx_table *table, uint64_t count);
void nx_table_close(nx_table *table);

/* Runs found before anything is changed, so that what was done can be undone run by run. */
typedef struct nx_runs {
  nx_run *items;
  uint64_t count, room;
} nx_runs;

/* The runs of a kind in a span of granules, in order. 0: out of memory. */
int nx_runs_find(nx_runs *runs, const nx_table *table, nx_run span, uint32_t kind);

/* ---- Physical handles that nothing maps (pool.c) ------------------------------------------------------------------ */

typedef struct nx_pool {
  uint64_t *handles;
  uint64_t count, bound_bytes;
} nx_pool;

/* What the driver would not take back; tried again when the engine goes. */
typedef struct nx_orphans {
  uint64_t *items;
  uint64_t count, room;
  uint64_t untold; /* that there was no memory to note: the engine stays for good */
} nx_orphans;

/* ---- Shared prefixes (prefix.c) ----------------------------------------------------------------------------------- */

typedef struct nx_prefix {
  struct nx_prefix *next;
  uint64_t number;
  uint64_t bytes; /* as requested */
  uint64_t first; /* address where its owner writes */
  nx_run owner;
  nxmem_prefix_use use;
  int charged;
  uint64_t *handles; /* owner.count of them */
  uint8_t *kept;     /* of each: 1 where it is mapped for good */
} nx_prefix;

/* One mapping of a prefix into a block. */
typedef struct nx_view {
  struct nx_view *next;
  nx_prefix *prefix;
  nx_run run;
} nx_view;

/* ---- Blocks: what was handed out (blocks.c) ----------------------------------------------------------------------- */

typedef enum nx_block_state { NX_BLOCK_LIVE, NX_BLOCK_QUEUED } nx_block_state;

typedef struct nx_block {
  struct nx_block *next;     /* in its chain */
  struct nx_block *after;    /* in the queue */
  uint64_t id, bytes, align; /* as the host named them */
  uint64_t first, span_bytes;
  nx_run run;            /* the granules it touches */
  uint64_t mapped_bytes; /* reported as mapped for it, and not yet as unmapped */
  uint64_t kept_bytes;   /* of those, what could not be given back */
  nx_view *views;
  uint64_t view_count;
  uint64_t ticket, mark;
  nx_block_state state;
} nx_block;

typedef struct nx_blocks {
  nx_block **chains;
  uint64_t chain_count; /* 0 or a power of two */
  uint64_t count;
  nx_block *spare;
} nx_blocks;

nx_block *nx_blocks_find(const nx_blocks *blocks, uint64_t id);
/* 0: out of memory. A record that is not in the table is made by new and unmade by spare. */
nx_block *nx_blocks_new(nx_blocks *blocks);
void nx_blocks_spare(nx_blocks *blocks, nx_block *block);
int nx_blocks_add(nx_blocks *blocks, nx_block *block);
void nx_blocks_remove(nx_blocks *blocks, nx_block *block);
void nx_blocks_close(nx_blocks *blocks);

/* ---- The engine ---------------------------------------------------------------------------------------------------- */

typedef struct nx_engine {
  struct nx_engine *next; /* in the module's list */
  const nx_vmm_offer *offer;
  nx_books *books;
  const NxmemHostCallbacks *callbacks; /* may be NULL; the host's until the last queued release */
  atomic_uint_fast64_t references;

  pthread_mutex_t lock;
  nx_device device;
  uint64_t base, bytes; /* the reservation */
  nx_spans spans;
  nx_table table;
  nx_pool pool;
  nx_orphans handles, marks;
  nx_blocks blocks;
  nx_runs runs; /* scratch of the call that holds the lock */
  nx_prefix *prefixes;
  uint64_t residues; /* pieces kept back, quarantined blocks among them; each counts as a live allocation */
  uint64_t poisoned; /* granules that are mapped for good */
  nx_block *queue, *queue_last;
  uint64_t queued;
  int draining;
  int released; /* the allocator's last reference is gone */
  int retained; /* and counted: something of it could not be given back */
  int in_hand;  /* somebody finishes it now */
  uint64_t round;

  uint64_t capabilities; /* those that a probe of the device has shown */
  NxmemAllocatorVtable slots;
  NxmemVirtualBackingVtable backing;
  NxmemSharedMappingVtable sharing;
} nx_engine;

/* 0 and `out`, or a NXMEM_STATUS_... code and why; what is refused, for want of a capability too, was never opened. */
uint32_t nx_engine_open(const nx_vmm_offer *offer, uint64_t required, nx_books *books, nx_engine **out, char why[200]);

/* Run the whole sequence once on the arena's first granule; a capability that the device does not show is struck. Inside a section (probe.c). */
uint32_t nx_probe(nx_engine *engine, char why[200]);

/* The allocator's last reference is gone: all that can be given back is, and with that the engine; else it stays and is counted. Tells no completion. */
void nx_engine_release(nx_engine *engine);

/* Released engines that are still there are drained, which tells completions, and finished where that is possible now. No lock held. */
void nx_engines_finish(void);
/* Live allocations of all of them: blocks, what was kept back, and engines that could not be finished. No lock held. */
uint64_t nx_engines_allocations(void);
/* Pools of engines on that device are given back to the driver. No lock held. */
void nx_engines_trim(uint32_t tier, uint32_t index);

/* Why a granule or a prefix may not be used so, on the wire: what is poisoned is the device's fault, what is shared the caller's. */
uint32_t nx_granule_status(uint32_t reason);

uint64_t nx_granule_bytes(const nx_engine *engine, uint64_t count);
uint64_t nx_granule_at(const nx_engine *engine, uint64_t granule);
/* The granules that a span of addresses inside the arena touches. */
nx_run nx_granules_of(const nx_engine *engine, uint64_t first, uint64_t bytes);

/* ---- Pool --------------------------------------------------------------------------------------------------------- */

int nx_pool_open(nx_engine *engine);
/* A handle from the pool, or a new one. Inside a section. */
uint32_t nx_handle_get_locked(nx_engine *engine, uint64_t *handle_out);
/* Back to the pool, or to the driver. 1; 0: the driver would not take it, and its bytes stay charged. */
int nx_handle_put_locked(nx_engine *engine, uint64_t handle);
/* The pool's handles and all orphans go to the driver; 0: something is left. Inside a section. */
int nx_pool_empty_locked(nx_engine *engine);
/* The pool's handles go to the driver; 0: some would not go. Opens its own section. */
int nx_pool_trim_locked(nx_engine *engine);
void nx_orphan(nx_orphans *orphans, uint64_t item);
void nx_pool_close(nx_engine *engine);

/* ---- Mapping and unmapping (commit.c, uncommit.c) ------------------------------------------------------------------ */

/* What could not be undone. */
typedef struct nx_loss {
  uint64_t granules; /* still mapped: poisoned */
  uint64_t bytes;    /* theirs, and those of handles that the driver would not take back */
} nx_loss;

/*
 * Take granules and map those that are not mapped. All or nothing: after a failure what was done is undone, and what could not be is in loss_out.
 *
 * everything  1: each granule of the span is taken (a new block touches it); 0: those that nobody refers to (the block holds the others).
 * mapping     NXMEM_MAPPING_...; handles: whose, for SHARER; where they are noted, for OWNER; NULL for PRIVATE.
 * Returns an NXMEM_STATUS_... code; *mapped_out: bytes newly mapped.
 */
typedef struct nx_commit {
  nx_run span;
  int everything;
  uint32_t mapping;
  uint64_t *handles;
} nx_commit;
uint32_t nx_commit_locked(nx_engine *engine, const nx_commit *what, uint64_t *mapped_out, nx_loss *loss_out);

/* What a release did. */
typedef struct nx_undone {
  uint32_t status;   /* OK; BUSY: nothing changed; RELEASE_QUARANTINED: not all of it could be given back */
  uint64_t unmapped; /* bytes that were unmapped and whose handle is not kept back */
  nx_loss loss;
} nx_undone;

/* Drop the granules of a span that are referred to and unmap those that nobody refers to then. May be BUSY, and then nothing changed. */
void nx_uncommit_locked(nx_engine *engine, nx_run span, nx_undone *out);
/* The same where nx_device_begin() was asked already: anything but CAPTURING. What it said holds for all that goes with the span. */
void nx_uncommit_begun_locked(nx_engine *engine, nx_run span, uint32_t begun, nx_undone *out);

/* Unmap what nobody refers to of a span, inside a section that is open: for both of the above. */
void nx_unmap_locked(nx_engine *engine, nx_run span, nx_undone *out);

/* Poison what nobody refers to and is mapped still, of a span; nothing is called. */
void nx_give_up_locked(nx_engine *engine, nx_run span, nx_undone *out);

/* ---- Blocks' life (life.c) ----------------------------------------------------------------------------------------- */

/* A new block. `whole`: granules of its own, and only `ranges` of it committed; else anywhere, all of it committed. */
typedef struct nx_wish {
  uint64_t id, bytes, align;
  int whole;
  const NxmemByteRange *ranges;
  uint64_t range_count;
} nx_wish;
uint32_t nx_block_make_locked(nx_engine *engine, const nx_wish *wish, nx_block **out, nx_loss *loss_out);

/* Give a block back, its record too, unless BUSY. */
void nx_block_release_locked(nx_engine *engine, nx_block *block, nx_undone *out);

/* Commit and decommit a range of a block, as offsets in it. */
uint32_t nx_block_commit_locked(nx_engine *engine, nx_block *block, NxmemByteRange range, nx_loss *loss_out);
uint32_t nx_block_decommit_locked(nx_engine *engine, nx_block *block, NxmemByteRange range, nx_undone *out);

/* Where the arena has no room: no call of the driver was refused, and none is to be told of. */
uint32_t nx_no_room_locked(nx_engine *engine);

/* A piece of the arena that is never handed out again. */
void nx_keep_back_locked(nx_engine *engine, uint64_t first, uint64_t bytes);

/* ---- Shared prefixes ------------------------------------------------------------------------------------------------ */

uint32_t nx_prefix_make_locked(nx_engine *engine, uint64_t bytes, nx_prefix **out, nx_loss *loss_out);
nx_prefix *nx_prefix_find_locked(const nx_engine *engine, uint64_t number, uint64_t address);
void nx_prefix_release_locked(nx_engine *engine, nx_prefix *prefix, nx_undone *out);
uint32_t nx_prefix_commit_locked(nx_engine *engine, nx_prefix *prefix, nx_block *block, uint64_t offset,
                                 uint64_t *mapped_out, nx_loss *loss_out);
/* The block's views go; granules that could not be unmapped keep their handles for good, and handles that the driver would not take back are in `out`. */
void nx_views_drop_locked(nx_engine *engine, nx_block *block, nx_undone *out);
void nx_prefixes_close(nx_engine *engine);

/* ---- Queued releases (deferred.c) ----------------------------------------------------------------------------------- */

uint32_t nx_enqueue_locked(nx_engine *engine, nx_block *block, uint64_t *ticket_out);
/* 1: the device is lost; where nobody has met that yet, the driver is asked. */
int nx_ask_if_lost_locked(nx_engine *engine);
/* No lock held: completions are told. *retired_out is written always. */
uint32_t nx_drain(nx_engine *engine, uint64_t max, uint64_t *retired_out);
/* What a release reports (records.c). */
void nx_outcome_fill(NxmemReleaseOutcome *outcome, uint64_t allocation_bytes, const nx_undone *undone);

#endif /* NX_VMM_ENGINE_H */
