/*
 * scripted_probe.h: what a test can learn from a scripted plugin or a fault module about the calls it got.
 *
 * Attackers: none; tests and the modules they load belong together.
 * Promise: every count is exact, also under threads; a registered array stays true after the module is gone.
 */
#ifndef NXMEM_SCRIPTED_PROBE_H
#define NXMEM_SCRIPTED_PROBE_H

#include <stdint.h>

/* Append-only. Counts since the module was loaded, unless a line says otherwise. */
typedef enum nx_probe {
  NX_PROBE_NEGOTIATE_CALLS = 0,
  NX_PROBE_ENUMERATE_CALLS = 1,
  NX_PROBE_REPORT_CALLS = 2,
  NX_PROBE_FACTORIES_CREATED = 3,   /* those whose release slot can be found: what can be given back */
  NX_PROBE_FACTORIES_RELEASED = 4,  /* first releases: equals CREATED when every one was released exactly once */
  NX_PROBE_STRAY_FACTORY_CALLS = 5, /* calls after a factory's release, a second release among them */
  NX_PROBE_OPEN_CALLS = 6,
  NX_PROBE_ALLOCATORS_OPENED = 7,     /* those that created state, so that a release is owed and can be paid */
  NX_PROBE_ALLOCATORS_RELEASED = 8,   /* last references given back */
  NX_PROBE_STRAY_ALLOCATOR_CALLS = 9, /* calls after the last release, or into a table that created no state */
  NX_PROBE_RETAIN_CALLS = 10,
  NX_PROBE_ALLOCATE_CALLS = 11,
  NX_PROBE_DEALLOCATE_CALLS = 12,
  NX_PROBE_RELEASE_ALLOCATION_CALLS = 13,
  NX_PROBE_LIVE_ALLOCATIONS = 14,  /* now; what the unload report says */
  NX_PROBE_PARKED_BLOCKS = 15,     /* blocks kept for good, so that their address is never issued again */
  NX_PROBE_RECLAIM_CALLS = 16,     /* into the host's request_reclaim */
  NX_PROBE_RECLAIM_STATUS = 17,    /* the last answer's code; meaningful once RECLAIM_CALLS is not 0 */
  NX_PROBE_RECLAIMED_BYTES = 18,   /* what the last call wrote; 2^64-1 where it wrote nothing */
  NX_PROBE_COMPLETION_CALLS = 19,  /* into the host's release_completed */
  NX_PROBE_COMPLETION_STATUS = 20, /* the last answer's code; meaningful once COMPLETION_CALLS is not 0 */
  NX_PROBE_OPEN_MINOR = 21,        /* abi_minor of the last open request */
  NX_PROBE_OPEN_CALLBACKS = 22,    /* 1 where the last open request named callbacks */
  NX_PROBE_LIVE_PREFIXES = 23,     /* now; shared prefixes with references: live_capabilities of the unload report */
  NX_PROBE_LIVE_VIEWS = 24,        /* now; mappings of prefixes into allocations */
  NX_PROBE_QUEUED_RELEASES = 25,   /* now; enqueued and not yet completed */
  NX_PROBE_ENQUEUE_CALLS = 26,
  NX_PROBE_DRAIN_CALLS = 27,
  NX_PROBE_PENDING_CALLS = 28,
  NX_PROBE_LAST_TICKET = 29, /* that the last enqueue wrote */
  NX_PROBE_ALLOCATE_COMMITTED_CALLS = 30,
  NX_PROBE_COMMIT_CALLS = 31,
  NX_PROBE_DECOMMIT_CALLS = 32,
  NX_PROBE_MAPPED_FOR_RANGES_CALLS = 33,
  NX_PROBE_MAPPED_FOR_ALLOCATION_CALLS = 34,
  NX_PROBE_COMMITTED_CALLS = 35,
  NX_PROBE_PREFIX_CREATE_CALLS = 36,
  NX_PROBE_PREFIX_RETAIN_CALLS = 37,
  NX_PROBE_PREFIX_RELEASE_CALLS = 38,
  NX_PROBE_PREFIX_INCREMENTAL_CALLS = 39,
  NX_PROBE_PREFIX_COMMIT_CALLS = 40,
  NX_PROBE_COMPLETIONS_ACCEPTED = 41, /* calls into release_completed that the host answered with OK */
  NX_PROBE_RECLAIMS_ACCEPTED = 42,    /* calls into request_reclaim that the host answered with OK */
  NX_PROBE_FORBIDDEN_CALLS = 43,      /* calls of a slot that no host may call: masked, or behind a clear flag */
  NX_PROBE_GRANULES_MAPPED = 44,      /* now; private granules of lazy allocations */
  NX_PROBE_UNPROTECT_CALLS = 45,      /* tries to make the host's callback table writable */
  NX_PROBE_TABLE_UNPROTECTED = 46,    /* 1 where the last one succeeded */
  NX_PROBE_RACED_WRITES = 47,         /* writes of a racing thread into a record while the host had it */
  NX_PROBE_HOST_CALLS = 48,           /* calls-host-at-load: into the host's own API */
  NX_PROBE_HOST_RESULT = 49,          /* what opening this very file answered */
  NX_PROBE_THREADS_INSIDE = 50,       /* lingering-thread: how many of its threads have come to rest in the module */
  NX_PROBE_COUNT = 51
} nx_probe;

/* Fault modules only: the row that the module commits; NULL where the build named one that does not exist. */
const char *nxmem_scripted_fault(void);

/* One counter; 0 for a number that is none. */
uint64_t nxmem_scripted_probe(uint32_t what);

/*
 * Mirror every counter, from its value now, into an array of NX_PROBE_COUNT that outlives the module; NULL ends it.
 * Not while another thread is inside the module.
 */
void nxmem_scripted_observe(uint64_t *counters);

/*
 * A module that a host refuses is gone before anybody could look its symbols up. So a module that is loaded while this
 * environment variable holds the address of such an array ("0x7ffd...", as printf's %p writes it) registers it itself.
 */
#define NXMEM_SCRIPTED_OBSERVE_ENV "NXMEM_SCRIPTED_OBSERVE"

/* The functions as dlsym gives them, and their names. */
typedef uint64_t (*nx_probe_function)(uint32_t what);
typedef void (*nx_observe_function)(uint64_t *counters);
typedef const char *(*nx_fault_function)(void);
#define NXMEM_SCRIPTED_PROBE_SYMBOL "nxmem_scripted_probe"
#define NXMEM_SCRIPTED_OBSERVE_SYMBOL "nxmem_scripted_observe"
#define NXMEM_SCRIPTED_FAULT_SYMBOL "nxmem_scripted_fault"

#endif /* NXMEM_SCRIPTED_PROBE_H */
