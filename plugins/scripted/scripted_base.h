/*
 * scripted_base.h: the honest plugin under every scripted one, and the hooks by which a row departs from it.
 *
 * Attackers: none; this is what attacks. Only the rows misbehave, each in the one way its name says.
 * Promise: whatever a row leaves alone follows the contract, and every call is counted (scripted_probe.h).
 */
#ifndef NXMEM_SCRIPTED_BASE_H
#define NXMEM_SCRIPTED_BASE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "nxmem_memory_abi.h"
#include "scripted_probe.h"

#define NX_EXPORT __attribute__((visibility("default")))

/* What the modules are built for; rows that are older or ahead say so themselves. */
enum { NX_MINOR = 1, NX_ALLOCATOR_BYTES = 128, NX_ALLOCATOR_BYTES_0 = 120, NX_FACTORY_BYTES = 56 };
enum { NX_BACKING_BYTES = 72, NX_SHARING_BYTES = 64 };

/* What most rows and every fault module offer, and what there is. */
#define NX_CAPS (NXMEM_CAP_ALLOCATOR | NXMEM_CAP_STRUCTURED_RELEASE)
#define NX_ALL_CAPS (NX_CAPS | NXMEM_CAP_VIRTUAL_BACKING | NXMEM_CAP_SHARED_MAPPING | NXMEM_CAP_DEFERRED_RELEASE)

extern const NxmemDeviceId nx_host_device;
extern const NxmemVersionRange nx_versions;

/* ---- scripted_count.c: counters --------------------------------------------------------------------------------- */

void nx_count(nx_probe what);
void nx_uncount(nx_probe what);
void nx_note(nx_probe what, uint64_t value);

/* ---- scripted_place.c: memory that really ends where it says ---------------------------------------------------- */

typedef enum nx_place {
  NX_PLACE_HEAP = 0, /* a heap block of exactly that size */
  NX_PLACE_GUARD = 1 /* the last byte is followed by an inaccessible page */
} nx_place;

typedef struct nx_placed {
  uint8_t *bytes; /* NULL: out of memory */
  size_t size;
  nx_place place;
} nx_placed;

/* Zeroed. Starts 8-aligned where size is a multiple of 8. */
nx_placed nx_place_bytes(nx_place place, size_t size);
void nx_unplace(nx_placed *placed);

/* An 8-aligned address in a page that stays reserved and inaccessible until the module is unloaded. */
void *nx_forbidden_address(void);

/* ---- scripted_block.c: allocations ------------------------------------------------------------------------------ */

typedef struct nx_allocator nx_allocator;
typedef struct nx_span nx_span;

typedef struct nx_block {
  struct nx_block *next;
  nx_allocator *owner;
  uint64_t id;
  uint8_t *ptr;    /* as told to the host */
  void *raw;       /* what to free; NULL where nothing lies behind ptr, or a span does */
  nx_span *span;   /* the address range of a lazy block; NULL for all others */
  uint64_t bytes;  /* as requested */
  uint64_t align;  /* as requested */
  uint64_t ticket; /* means something only while its release is queued */
  uint32_t tries;  /* releases that were refused so far */
} nx_block;

/* Take memory and keep a record; NULL: there is none, or the id is live. ptr is `skew` bytes behind an aligned raw. */
nx_block *nx_block_new(nx_allocator *owner, const NxmemAllocRequest *request, size_t skew, uint32_t *code_out);

/* A record of an address that the caller invents. */
nx_block *nx_block_claim(nx_allocator *owner, const NxmemAllocRequest *request, uint8_t *ptr, uint32_t *code_out);

/* A record of a reserved span; the block owns it. */
nx_block *nx_block_of_span(nx_allocator *owner, const NxmemAllocRequest *request, nx_span *span, uint32_t *code_out);

/* What is mapped for a block: what its release unmaps. */
uint64_t nx_block_mapped(const nx_block *block);

/*
 * Find a lazy block, every number of it agreeing, and keep it from being released until nx_block_unlock; else NULL and
 * why, with nothing locked. No callback while it is held.
 */
nx_block *nx_block_lock(const nx_allocator *owner, const NxmemAllocation *allocation, uint32_t *code_out);
void nx_block_unlock(void);

/* Put a taken block that does not count as live back: as live as before it was taken. */
void nx_block_put_back(nx_block *block);

/* A copy of the record of any live block of an allocator, to look at; 0: it has none. */
int nx_block_peek(const nx_allocator *owner, nx_block *copy_out);

/* Count a refused try; returns how many there were before. 0 also for an unknown one. */
uint32_t nx_block_tried(const nx_allocator *owner, const NxmemAllocation *allocation);

/* Take the record out when every number agrees: the caller owns the block. Else NULL and why. */
nx_block *nx_block_take(const nx_allocator *owner, const NxmemAllocation *allocation, uint32_t *code_out);

/* Free the memory and the record of a taken block that does not count as live. */
void nx_block_discard(nx_block *block);

/* Free a taken block that counts as live. */
void nx_block_free(nx_block *block);

/* Keep a taken block for good. It counts as live where the plugin says that it holds on to it. */
void nx_block_park(nx_block *block, int counts_as_live);

/* ---- scripted_base.c: status, negotiation, factories, allocators ------------------------------------------------ */

NxmemStatus nx_status(uint32_t code, const char *text);
NxmemStatus nx_ok(void);

/* A mechanism: an honest table of a level, then what the row does to it. */
typedef struct nx_mechanism {
  const char *name;
  uint32_t abi_minor;   /* declared */
  uint32_t struct_size; /* declared */
  uint32_t table_bytes; /* really there; bytes beyond what this version knows are 0xAA */
  nx_place place;
  uint64_t capability_flags;
  int lazy;                                   /* its blocks are reserved, then committed granule by granule */
  int stateless;                              /* its table is malformed: no state is created, no release owed */
  void (*spoil)(NxmemAllocatorVtable *table); /* edits the table before it is published; NULL: honest */
  void (*spoil_backing)(NxmemVirtualBackingVtable *table);
  void (*spoil_sharing)(NxmemSharedMappingVtable *table);
  uint32_t backing_bytes;                        /* of the table, really there; 0: all 72 */
  uint32_t sharing_bytes;                        /* of the table, really there; 0: all 64 */
  void (*published)(nx_allocator *allocator);    /* inside the open, when the table lies where the host will see it */
  void (*last_release)(nx_allocator *allocator); /* inside the last release, before it counts */
  void (*after_drop)(nx_allocator *allocator);   /* inside the first unload report behind it */
  NxmemStatus (*open)(const NxmemAllocatorVtable **out); /* instead of an honest open; NULL: honest */
} nx_mechanism;

/*
 * The context behind an allocator table. Kept behind its last release, so that a stray call is counted: until the module
 * goes, or until NX_REMEMBERED others have been released and nothing is left that names it.
 */
enum { NX_REMEMBERED = 1024 };
struct nx_allocator {
  nx_allocator *next;
  nx_allocator *released_next;   /* the next to be forgotten */
  atomic_uint_fast64_t named_by; /* blocks and prefixes, parked and queued ones too */
  const nx_mechanism *row;
  uint64_t mechanism_id;
  NxmemDeviceId device;
  uint32_t host_minor; /* the negotiated ceiling, as the open request named it */
  const NxmemHostCallbacks *callbacks;
  void *host_ctx; /* theirs, as it was at the open; outlives them */
  uint64_t references;
  nx_placed table;
  nx_placed backing; /* NULL bytes without the capability */
  nx_placed sharing;
  nx_block *queue; /* releases that wait for a drain, oldest first; scripted_queue.c */
  nx_block *queue_last;
  uint64_t queued; /* in the queue, or out of it and not yet completed */
  int draining;
  void *state;                             /* a row's own; freed with the allocator */
  pthread_t thread;                        /* of a row that runs one */
  atomic_int thread_state;                 /* the row's own states; 0: there is none */
  atomic_uint_fast64_t turns;              /* calls that a row counts for itself */
  NxmemVirtualBackingVtable spare_backing; /* a well-formed table for rows that publish one */
};

extern const nx_mechanism nx_eager; /* scripted_honest.c: allocate, deallocate, structured release */

/* The next of a row's own numbers for an allocator: 0, 1, 2... */
uint64_t nx_turn(nx_allocator *allocator);

/* Another open allocator of the same row, or NULL. */
nx_allocator *nx_sibling_of(const nx_allocator *allocator);

/* One of the same row behind its last release, or NULL. */
nx_allocator *nx_dropped_sibling_of(const nx_allocator *allocator);

/* Let each allocator behind its last release do what its row does in a report. No lock is held. */
void nx_visit_dropped(void);

/* The same number for each open of a row; not 0. */
uint64_t nx_mechanism_id(const nx_mechanism *row);

/* What every slot checks first. */
int nx_unusable(const void *record);         /* NULL or misaligned */
int nx_is_released(nx_allocator *allocator); /* counts the call as stray where it is */
NxmemStatus nx_check_owner(const nx_allocator *allocator, uint64_t mechanism_id, NxmemDeviceId device);
NxmemStatus nx_check_allocation(nx_allocator *allocator, const NxmemAllocation *allocation); /* neither is NULL */

/* The honest slots, and the pieces of them that rows use. */
NxmemStatus nx_begin_allocate(void *ctx, const NxmemAllocRequest *request, const NxmemAllocResult *result_out);
void nx_write_result(NxmemAllocResult *result_out, uint8_t *ptr, uint64_t owned_bytes, uint64_t mapped_bytes);
NxmemStatus nx_allocate(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out);
NxmemStatus nx_begin_deallocate(void *ctx, const NxmemAllocation *allocation, const uint64_t *unmapped_bytes_out);
NxmemStatus nx_deallocate(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped_bytes_out);
NxmemStatus nx_begin_release(void *ctx, const NxmemAllocation *allocation, const NxmemReleaseOutcome *outcome_out);
void nx_write_outcome(NxmemReleaseOutcome *outcome_out, uint32_t state, uint64_t bytes, uint64_t unmapped_bytes,
                      uint64_t residual_owned_bytes, NxmemStatus failure);
NxmemStatus nx_release_allocation(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *outcome_out);

/* A factory to publish; zero sizes mean the honest ones. */
typedef struct nx_listing {
  const nx_mechanism *row;
  const uint8_t *name; /* NULL: the row's */
  NxmemDeviceId device;
  uint32_t abi_minor;
  uint32_t struct_size;
  uint32_t table_bytes;
  nx_place place;
  void (*spoil)(NxmemAllocatorFactoryVtable *table);
} nx_listing;

/* NULL: out of memory. */
const NxmemAllocatorFactoryVtable *nx_publish(const nx_listing *listing);

/* The honest listing of a row. */
nx_listing nx_list(const nx_mechanism *row);

/* What a host's table has, within the size that it declares; NULL and 0 of none. */
void *nx_host_ctx_of(const NxmemHostCallbacks *host);
int nx_takes_reclaims(const NxmemHostCallbacks *host);
int nx_takes_completions(const NxmemHostCallbacks *host);

/* The honest exports. */
NxmemStatus nx_negotiate(uint64_t capability_flags, const NxmemNegotiateRequest *request,
                         NxmemNegotiateResponse *response);
NxmemStatus nx_check_enumerate(const NxmemAllocatorFactoryVtable **out_factories, uint64_t max_factories,
                               uint64_t needed, const uint64_t *out_count);
NxmemStatus nx_report(NxmemUnloadReport *report_out);

#endif /* NXMEM_SCRIPTED_BASE_H */
