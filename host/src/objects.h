/*
 * The host's objects and their tables. Private to the host.
 *
 * Each lives in a table that is never unmapped (slots.h). Which field may be touched when:
 *   - the word of a slot: compare-and-swap only, or its owner's store;
 *   - counters: atomics;
 *   - all other fields are set while the word is ALLOCATING and constant while it is LIVE. Readers pin the object first (nx_*_enter),
 *     except for allocation records, whose fields are relaxed atomics because stale handles may look at any time.
 * What every call would write is kept in stripes, one to a thread (thread.h): an exclusive stripe is written by plain stores of its only writer.
 */
#ifndef NX_OBJECTS_H
#define NX_OBJECTS_H

#include "fetch.h"
#include "fork.h"
#include "index.h"
#include "nxmem.h"
#include "nxmem/enumerate.h"
#include "nxmem/negotiate.h"
#include "slots.h"
#include "thread.h"

typedef _Atomic uint64_t nx_counter;

/* Add one; stays at 2^64-1 instead of wrapping. */
void nx_count(nx_counter *counter);

/* Add; stays at 2^64-1 instead of wrapping. */
void nx_add(nx_counter *counter, uint64_t amount);

typedef struct nx_host {
  nx_slot slot;
  nxmem_offer offer;
  nxmem_fetch_mode fetch;
  nxmem_overlap_check overlap;
  nxmem_reclaim_fn reclaim; /* NULL: none */
  void *reclaim_ctx;
  nx_counter open_plugins;
  nx_counter violations;
  nxmem_violation
      latest[NXMEM_VIOLATIONS_KEPT]; /* under the violations' lock; number n stands at (n - 1) modulo their count */
  nx_counter refused_callbacks;
  nx_counter unpaid_debts;
  nx_counter forced_leaks;
} nx_host;

/* A factory whose ownership passed to the host: read once, judged, released exactly once. */
typedef struct nx_factory {
  NxmemAllocatorFactoryVtable table; /* the host's copy */
  uint32_t declared_minor;
  uint8_t name[256];
} nx_factory;

typedef NxmemStatus (*nx_negotiate_fn)(const NxmemNegotiateRequest *, NxmemNegotiateResponse *);
typedef NxmemStatus (*nx_create_factories_fn)(const NxmemAllocatorFactoryVtable **, uint64_t, uint64_t *);
typedef NxmemStatus (*nx_unload_query_fn)(NxmemUnloadReport *);

/* A library in the address space. */
typedef struct nx_image {
  void *dl;       /* dlopen's handle */
  uintptr_t base; /* load address, to look for it after dlclose */
  char *path;     /* owned; as the loader names it: no two images have one name */
  nx_negotiate_fn negotiate;
  nx_create_factories_fn create_factories;
  nx_unload_query_fn query_unload;
} nx_image;

/* What a module was granted when it was loaded. */
typedef struct nx_terms {
  uint64_t capability_flags; /* of what the host offers, only these */
  uint64_t owned_max;        /* bytes, over all its allocators; NXMEM_TOTAL_MAX: no limit */
  uint64_t mapped_max;
} nx_terms;

/*
 * One loaded file of one host, however often it is opened. ALLOCATING: being loaded; RELEASING: being unloaded; RETIRED and holding its name: what a
 * refused plugin left behind.
 */
typedef struct nx_module {
  nx_slot slot;
  _Atomic uint64_t host; /* handle of its host */
  uint64_t device;       /* st_dev and st_ino of the file */
  uint64_t inode;
  struct nx_pin *pin; /* the sealed file that it was loaded from, of which it is a user; NULL: a file by its name */
  nx_terms terms;
  nx_image image;
  int holds_name; /* image.path is its; under the module lock */
  NxmemNegotiateResponse agreed;
  nx_factory *factories; /* owned: factory_count of them */
  uint32_t factory_count;
  uint32_t left_out;
  nx_space spaces
      [NXMEM_FACTORIES_MAX]; /* addresses that each factory's allocators handed out; empty when the module is unmapped, for they are live or quarantined */
  uint32_t buried;     /* modules that had this slot and stay mapped: their ranges keep the numbers of their spaces */
  uint64_t references; /* plugin handles; under the module lock */
  nx_counter inside;   /* host calls into this module that no allocator accounts for */
  nx_counter allocators;
  nx_counter held; /* callback slots of closed allocators that something can still name */
  nx_counter unpaid_debts;
  /* Charged to all its allocators, and NXMEM_TOTAL_MAX less the limit: what the core judges where there is a limit. */
  nx_counter owned_total;
  nx_counter mapped_total;
  /* Quarantined allocations of allocators that are closed. */
  nx_counter retained;
  nx_counter retained_bytes;
  nx_counter retained_owned;
  nx_counter retained_mapped;
} nx_module;

typedef struct nx_plugin {
  nx_slot slot;
  _Atomic uint32_t module; /* slot of its module */
} nx_plugin;

/* What an allocator owes to releases that were queued, and to callbacks. */
typedef struct nx_deferral {
  nx_counter
      shares; /* in the slot: the open allocator's, one for each queued release, one for each callback that runs; the last one frees it */
  nx_counter queued; /* releases that nothing has settled */
  nx_counter rounds; /* releases ever queued: sets the word of each round apart from the one before */
  nx_counter
      closed; /* not 0: the plugin's release has been or is being called, nothing of this allocator becomes live again */
  nx_counter context;    /* what the plugin passes back as host_ctx */
  nxmem_pin_source pins; /* pin NULL: none */
  /* Of its host, which may be gone when a late callback comes. */
  nxmem_fetch_mode fetch;
  nxmem_reclaim_fn reclaim;
  void *reclaim_ctx;
} nx_deferral;

/* One thread's part of what an allocator counts. */
typedef struct nx_stripe {
  _Alignas(64) nx_counter inside; /* host calls in the plugin through this allocator */
  nx_counter live;                /* modulo 2^64: allocated by this thread, less what it released */
  nx_counter owned;               /* modulo 2^64: charged by this thread, less what it refunded */
  nx_counter owned_drawn; /* modulo 2^64: part of nx_allocator.owned that this thread may be charged without asking */
  nx_counter mapped;
  nx_counter mapped_drawn;
} nx_stripe;

/*
 * RELEASING: closing; users 1 while a closer works on it, 0 while it waits to be tried again. QUARANTINED: held, closed with releases still queued; callers find it
 * gone, completions do not.
 */
typedef struct nx_allocator {
  nx_slot slot;
  _Atomic uint32_t module;           /* slot of its module */
  _Atomic uint64_t host;             /* handle of its host */
  NxmemAllocatorVtable table;        /* the host's copy */
  NxmemVirtualBackingVtable backing; /* where VIRTUAL_BACKING is effective */
  NxmemSharedMappingVtable sharing;  /* where SHARED_MAPPING is effective */
  uint64_t effective;
  nx_space *space;   /* its factory's addresses, of its module; NULL: not looked at */
  nx_module *limits; /* its module, where that has limits: the totals are there. NULL: they are its own */
  nx_deferral deferral;
  nx_counter quarantined;
  nx_counter quarantined_bytes;
  /* What is quarantined of it, each an index + 1 of the first in a list that is only taken off whole; 0: nothing. */
  _Atomic uint32_t kept_records;
  _Atomic uint32_t kept_prefixes;
  nx_counter prefixes; /* live ones */
  nx_counter residual; /* part of `mapped` that no live allocation accounts for */
  /* charged to records, or drawn by a stripe: never above NXMEM_TOTAL_MAX. Apart from what every call reads: threads without a stripe of their own write them. */
  _Alignas(64) nx_counter owned;
  nx_counter mapped;
  nx_stripe stripes[NX_STRIPES];
} nx_allocator;

/* slot.extra: who owns it and how it is aligned (record.c). 48 bytes: with what the index keeps of it, a live allocation takes less than 64. */
typedef struct nx_allocation {
  nx_slot slot;
  _Atomic uint64_t bytes;
  _Atomic(uint8_t *) ptr;
  _Atomic uint64_t owned; /* of a quarantined one: the next in its allocator's list, an index + 1 (release.c) */
  _Atomic uint64_t mapped;
} nx_allocation;

extern nx_table nx_hosts;
extern nx_table nx_modules;
extern nx_table nx_plugins;
extern nx_table nx_allocators;
extern nx_table nx_allocations;

enum { NX_MODULES_SHIFT = 5, NX_ALLOCATORS_SHIFT = 6, NX_ALLOCATIONS_SHIFT = 14 };

/* What a handle names by its index, or NULL; its generation is the caller's to check. [any-thread] */
static inline nx_allocator *nx_allocator_of(uint64_t handle) {
  return nx_table_find_in(&nx_allocators, NX_ALLOCATORS_SHIFT, sizeof(nx_allocator), handle);
}
static inline nx_allocation *nx_allocation_of(uint64_t handle) {
  return nx_table_find_in(&nx_allocations, NX_ALLOCATIONS_SHIFT, sizeof(nx_allocation), handle);
}

/* A call in an allocator, and where it counts: this thread's stripe. */
typedef struct nx_visit {
  nx_allocator *allocator;
  nx_thread *thread;
  nx_stripe *stripe;
} nx_visit;

static inline nx_visit nx_visit_of(nx_allocator *allocator) {
  nx_thread *thread = nx_thread_self();
  return (nx_visit){allocator, thread, &allocator->stripes[thread->stripe]};
}

/* Does no other thread write the stripe? */
static inline int nx_visit_is_exclusive(nx_visit visit) { return visit.thread->stripe != NX_SHARED_STRIPE; }

/*
 * A count of which each thread has a part: by plain stores where it alone writes it. Who counts in then looks at the word beside it; who changed that word passes
 * a barrier everywhere before it sums, and waits where it could not (proofs/models/striped_gate.pml, striped_uses.pml).
 */
typedef struct nx_share_of_count {
  _Alignas(64) nx_counter part; /* modulo 2^64: what one thread counts in another may count out */
} nx_share_of_count;

void nx_shares_in(nx_share_of_count *shares);
void nx_shares_out(nx_share_of_count *shares);

/* Exact while nothing counts in and behind a barrier; of moving things each part as it was at one moment. */
uint64_t nx_shares_sum(nx_share_of_count *shares);

/* What other threads did before is seen; what they do behind it sees what this thread did before. */
void nx_barrier_everywhere(void);

/* The other half: what this thread has stored is stored before what it loads next, as far as whoever passes that barrier can tell. */
void nx_look_behind(void);

/* In place of a barrier that the kernel refuses: no processor keeps a store to itself for a thousandth of a second. [blocks: that long] */
void nx_wait_until_stored(void);

/* Once, before the first host: what closing needs of the kernel. [any-thread] */
void nx_objects_prepare(void);

/*
 * The host that a module or an allocator names: it is live as long as either is. Never NULL: a handle of another generation leads to an object that
 * belongs to nobody, so that nothing is booked on a stranger.
 */
nx_host *nx_host_of(uint64_t handle);
int nx_host_is_there(uint64_t handle);
nx_module *nx_module_at(uint32_t slot);

/*
 * Pin an object for the duration of one call: on NXMEM_OK it stays as it is until the matching leave.
 * FORKED, STALE_HANDLE, BUSY (closing or unloading). *out is written only on NXMEM_OK.
 */
nxmem_result nx_host_find(nxmem_host handle, nx_host **out, nxmem_error *error);
nxmem_result nx_plugin_enter(nxmem_plugin handle, nx_module **out, nxmem_error *error);
void nx_plugin_leave(nx_module *module);
nxmem_result nx_allocator_enter(nxmem_allocator handle, nx_allocator **out, nxmem_error *error);
void nx_allocator_leave(nx_allocator *allocator);
nxmem_result nx_visit_begin(nxmem_allocator handle, nx_visit *out, nxmem_error *error);
void nx_visit_end(nx_visit visit);

/* How many calls are inside, for a closer that has changed the state. Exact once the gate is shut: then the number only falls. */
uint64_t nx_allocator_inside(nx_allocator *allocator);

/*
 * The code of an answer, read once. *taken gets that code and, where it is a failure, the message; a success carries none worth the
 * copy. The answer may still be written by a thread of the plugin: only *taken is judged and shown.
 */
uint32_t nx_take_answer(const NxmemStatus *answer, NxmemStatus *taken);

#endif /* NX_OBJECTS_H */
