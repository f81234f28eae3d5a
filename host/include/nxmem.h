/*
 * nxmem.h: load a memory plugin behind a boundary that it cannot break.
 *
 * Attackers: the plugin (every byte, number, pointer, name and callback it produces) and a caller with stale handles.
 * Promise: what a plugin says is judged by the proved core before it is used; bad input leaves state as it was; a debt that cannot be paid is counted and named.
 *
 * Every object is a handle by value: slot and generation, checked on each call, so a second close or a stale copy is
 * NXMEM_ERR_STALE_HANDLE, and no number whatsoever is an access to freed memory. Handles are no secrets: a number made up by the caller may name an object of its own process. {0}
 * names none.
 *
 * Errors: each function returns one nxmem_result per cause. An nxmem_error is optional (NULL) and caller-owned; its message is one line that
 * names what was found, what was needed and what to do. Outputs are written only on NXMEM_OK, unless the function says otherwise.
 *
 * Tags: [any-thread] may be called from any thread at once; [runs plugin code]; [re-entrant] may be called from inside a plugin's slot on the same thread;
 * [blocks: ...] what it may wait for. No function holds a lock while plugin code runs.
 */
#ifndef NXMEM_H
#define NXMEM_H

#include <stddef.h>
#include <stdint.h>

#include "nxmem_memory_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define NXMEM_PUBLIC __attribute__((visibility("default")))
#define NXMEM_MUST_CHECK __attribute__((warn_unused_result))
#else
#define NXMEM_PUBLIC
#define NXMEM_MUST_CHECK
#endif

#define NXMEM_VERSION "0.1.0"

/* One code per cause. Append-only. */
typedef enum nxmem_result {
  NXMEM_OK = 0,
  NXMEM_ERR_INVALID_ARGUMENT = 1,        /* the caller's own argument */
  NXMEM_ERR_CANNOT_OPEN = 2,             /* no such file, not a regular file, the loader refused it, or has another file loaded under that name */
  NXMEM_ERR_MISSING_SYMBOL = 3,          /* one of the three exports is absent, or no function */
  NXMEM_ERR_NEGOTIATION = 4,             /* no version or capability set that both sides hold, or a lying answer */
  NXMEM_ERR_CONTRACT = 5,                /* the plugin broke the wire contract */
  NXMEM_ERR_UNREADABLE_MEMORY = 6,       /* a pointer the plugin gave leads nowhere */
  NXMEM_ERR_PLUGIN = 7,                  /* the plugin answered with a failure; plugin_status says which */
  NXMEM_ERR_UNKNOWN_MECHANISM = 8,       /* no mechanism of that name (and device) */
  NXMEM_ERR_UNSUPPORTED_CAPABILITY = 9,  /* a required capability is not among the effective ones */
  NXMEM_ERR_BUSY = 10,                   /* something is still live, or a call is inside; try again later */
  NXMEM_ERR_STALE_HANDLE = 11,           /* the handle names nothing that is open */
  NXMEM_ERR_WRONG_OWNER = 12,            /* the allocation belongs to another allocator */
  NXMEM_ERR_MISMATCH = 13,               /* size, alignment or address differ from what was allocated */
  NXMEM_ERR_QUARANTINED = 14,            /* removed for good; its bytes stay charged */
  NXMEM_ERR_OUT_OF_MEMORY = 15,          /* the host's own memory or tables are exhausted */
  NXMEM_ERR_FORKED = 16,                 /* a forked child of the process that created the host */
  NXMEM_ERR_UNKNOWN_ALLOCATION = 17,     /* no live record: released, prepared or quarantined before (nxmem_registry.h) */
  NXMEM_ERR_RETIRED = 18,                /* the mechanism takes no new work */
  NXMEM_ERR_DEVICE_LOST = 19,            /* the mechanism's device is gone: everything is refused */
  NXMEM_ERR_TERMINATED = 20,             /* the same, and confirmed */
  NXMEM_ERR_QUEUE_REFUSED = 21,          /* a queue of releases is full or closing; the release is the caller's as before */
  NXMEM_ERR_OVER_LIMIT = 22,             /* a budget, a slice or a process limit refuses (nxmem_manager.h) */
  NXMEM_ERR_TIMED_OUT = 23,              /* not yet; may be tried again */
  NXMEM_ERR_NOT_ALLOWED = 24             /* a policy does not name it, or names other bytes (nxmem_policy.h) */
} nxmem_result;

#define NXMEM_ERROR_MESSAGE_BUF 1024

/* Why a call failed. Filled only on failure; plain data, owned by the caller. */
typedef struct nxmem_error {
  nxmem_result result;
  uint32_t plugin_status; /* NXMEM_STATUS_... the plugin answered; NXMEM_STATUS_OK where it answered none */
  uint32_t reason;        /* an nxmem_reason (nxmem/verdict.h); 0 where the core was not asked */
  uint32_t field;         /* byte offset the reason is about, or an axis */
  uint64_t found;
  uint64_t needed;
  char message[NXMEM_ERROR_MESSAGE_BUF]; /* one line of printable UTF-8, NUL-terminated */
} nxmem_error;

typedef struct nxmem_host { uint64_t id; } nxmem_host;
typedef struct nxmem_plugin { uint64_t id; } nxmem_plugin;
typedef struct nxmem_allocator { uint64_t id; } nxmem_allocator;

/* An allocation: its identity and the address to use. Copies are fine; only one release succeeds. */
typedef struct nxmem_allocation {
  uint64_t id;
  void *ptr;
} nxmem_allocation;

/* A stable word for a code ("contract", "busy"), or "unknown". [any-thread] */
NXMEM_PUBLIC const char *nxmem_result_name(nxmem_result result);

/* A phrase for an nxmem_reason ("pointer is NULL"), or "unknown". [any-thread] */
NXMEM_PUBLIC const char *nxmem_reason_text(uint32_t reason);

/* The wire name of a status code without its prefix ("SHORT_STRUCT"), or "unknown". [any-thread] */
NXMEM_PUBLIC const char *nxmem_status_name(uint32_t status_code);

/* ---- Host -------------------------------------------------------------------------------------------------------- */

/* How plugin memory is read. */
typedef enum nxmem_fetch_mode {
  NXMEM_FETCH_GUARDED = 0, /* copied once through a call that fails where a load would fault */
  NXMEM_FETCH_DIRECT = 1   /* volatile single loads: an unmapped pointer faults; only by explicit choice */
} nxmem_fetch_mode;

/* Whether a new allocation is compared with those that the same factory's allocators hold. */
typedef enum nxmem_overlap_check {
  NXMEM_OVERLAP_CHECKED = 0, /* an address inside another allocation is a contract violation */
  NXMEM_OVERLAP_TRUSTED = 1  /* not looked for; only by explicit choice */
} nxmem_overlap_check;

/*
 * Asked when a plugin is short of memory: give back what can be spared of this mechanism's on this device, and say how many bytes that was; at most
 * `bytes` are believed. 0 on success. Runs inside the plugin's call, on its thread, with no lock held; may use the host, also to release.
 */
typedef int (*nxmem_reclaim_fn)(void *ctx, nxmem_allocator allocator, uint64_t bytes, uint64_t *reclaimed_out);

typedef struct nxmem_host_options {
  NxmemVersionRange range;   /* what this host speaks; a smaller minor_max is an older host */
  uint64_t capability_flags; /* what this host offers in negotiation; ALLOCATOR must be among them */
  nxmem_fetch_mode fetch;
  nxmem_overlap_check overlap;
  nxmem_reclaim_fn reclaim; /* NULL: none; plugins get UNSUPPORTED_CAPABILITY */
  void *reclaim_ctx;        /* the caller's, until the host is destroyed */
} nxmem_host_options;

/* Everything this library knows, guarded fetch, addresses looked at. [any-thread] */
NXMEM_PUBLIC void nxmem_host_options_default(nxmem_host_options *options);

/*
 * Create a host. options NULL means the defaults.
 *
 * NXMEM_ERR_INVALID_ARGUMENT  inverted range, a version beyond this library, unknown bits, ALLOCATOR not offered.
 *
 * [any-thread]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_host_create(const nxmem_host_options *options, nxmem_host *out,
                                            nxmem_error *error);

/*
 * Counts since the host was created. Every counter saturates, none wraps.
 *
 * Sums of moving things: live_allocations, owned_bytes and mapped_bytes are exact while no call is inside. Beside calls each thread's part is as it was at one moment
 * of the reading, not all at the same: a sum is never more than the most that each thread was charged with at once, added up; and less where one thread releases what
 * another allocated. What an allocator that is closing quarantined may show twice.
 */
typedef struct nxmem_host_counts {
  uint64_t open_plugins;         /* plugin handles not yet unloaded or destroyed */
  uint64_t open_allocators;
  uint64_t live_allocations;     /* without those whose release is queued */
  uint64_t quarantined;          /* allocations removed for good */
  uint64_t quarantined_bytes;    /* their requested bytes */
  uint64_t owned_bytes;          /* charged now */
  uint64_t mapped_bytes;         /* charged now */
  uint64_t contract_violations;  /* answers that the core refused, unload reports that are short or unwritten and callbacks among them */
  uint64_t refused_callbacks;    /* callbacks that the core refused, and those of the whole process whose context names nothing */
  uint64_t unpaid_debts;         /* objects whose release could not be found */
  uint64_t forced_leaks;         /* modules given up with a shut gate: mapped until the file is opened again, or for good */
  uint64_t queued_releases;      /* not settled, those of closed allocators among them */
  uint64_t held_slots;           /* callback slots of closed allocators with such releases, or with a callback that runs */
  uint64_t live_prefixes;
} nxmem_host_counts;

/* [any-thread] [re-entrant] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_host_count(nxmem_host host, nxmem_host_counts *out,
                                           nxmem_error *error);

/*
 * Give a host back.
 *
 * NXMEM_ERR_BUSY  plugins are still open, or allocators of plugins that were given up, or calls are inside; found says how many. Unload or destroy them first.
 *
 * [any-thread]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_host_destroy(nxmem_host host, nxmem_error *error);

/* ---- Plugin ------------------------------------------------------------------------------------------------------ */

/*
 * Load a plugin: check the file, load it, resolve its three exports, negotiate, enumerate, own its factories.
 *
 * path  Absolute path of a regular file, without a dollar sign (the loader would expand it); borrowed for the call.
 *
 * The same file (device and inode) opened again is the same module with one more reference. Nothing of a refused plugin stays
 * mapped, unless it left a debt that cannot be paid; then the message says so and the host counts it.
 *
 * NXMEM_ERR_INVALID_ARGUMENT, CANNOT_OPEN, MISSING_SYMBOL, NEGOTIATION, CONTRACT, UNREADABLE_MEMORY, PLUGIN, OUT_OF_MEMORY
 * NXMEM_ERR_BUSY  another thread is opening or unloading the same file.
 *
 * [any-thread] [runs plugin code] [re-entrant] [blocks: file I/O, the dynamic loader]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_plugin_open(nxmem_host host, const char *path, nxmem_plugin *out,
                                            nxmem_error *error);

/* What was agreed and what the plugin publishes. */
typedef struct nxmem_plugin_info {
  uint32_t agreed_major;
  uint32_t agreed_minor;
  NxmemVersionRange plugin_range;
  uint64_t capability_flags; /* negotiated */
  uint32_t mechanism_count;
  uint32_t left_out;         /* factories of a newer minor on a tier this host does not know: released, not listed */
  uint64_t references;       /* plugin handles on this module */
} nxmem_plugin_info;

/* [any-thread] [re-entrant] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_plugin_get_info(nxmem_plugin plugin, nxmem_plugin_info *out,
                                                nxmem_error *error);

typedef struct nxmem_mechanism_info {
  char name[256]; /* validated UTF-8 without control characters, NUL-terminated */
  NxmemDeviceId device;
  uint64_t advertised_flags; /* the factory's; the allocator's own decide */
  uint32_t abi_minor;        /* effective level of the factory table */
} nxmem_mechanism_info;

/* NXMEM_ERR_UNKNOWN_MECHANISM where index is not below mechanism_count. [any-thread] [re-entrant] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_plugin_mechanism(nxmem_plugin plugin, uint32_t index, nxmem_mechanism_info *out,
                                                 nxmem_error *error);

/*
 * The address of something a plugin exports beside the contract: a function to call, or data. What it answers or holds is the plugin's word: nothing of it is
 * judged here, and the unload gate does not know of calls inside it. What it takes is said by the header that declares it (nxmem/statistics.h, nxmem/streams.h).
 *
 * name         As the plugin exports it. The contract's own three are refused: called behind the host's back they would upset its books.
 * address_out  The plugin's, until it is unloaded.
 *
 * NXMEM_ERR_MISSING_SYMBOL    the plugin exports no such thing itself; what a library it needs exports is not its own.
 * NXMEM_ERR_INVALID_ARGUMENT  no name, or one of the contract's three, under whatever name.
 * NXMEM_ERR_STALE_HANDLE, BUSY (unload under way)
 *
 * [any-thread] [re-entrant] [blocks: the dynamic loader] [runs plugin code: the resolver of an indirect function, if the export is one]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_plugin_symbol(nxmem_plugin plugin, const char *name,
                                              void **address_out, nxmem_error *error);

/* Both sides of the unload gate, and what became of the module. */
typedef struct nxmem_unload_info {
  uint32_t plugin_status;  /* what the query answered */
  NxmemUnloadReport plugin; /* as the plugin wrote it */
  uint64_t host_allocators;
  uint64_t host_allocations; /* live and quarantined */
  uint64_t host_calls_inside;
  uint64_t host_held_slots;
  uint64_t host_unpaid_debts;
  uint32_t reason;     /* NXMEM_REASON_NONE, or why the gate is shut */
  uint32_t axis;       /* report field offset, or nxmem_host_axis with NXMEM_REASON_HOST_HOLDS */
  uint64_t references; /* plugin handles left on this module */
  int unmapped;        /* 1: looked, and the module is gone. 0: still in the address space ("resident") */
} nxmem_unload_info;

/*
 * Ask both sides whether the module may go; if so give this handle's reference back and, at the last one, release every factory once and unmap.
 *
 * info  Written on NXMEM_OK and on NXMEM_ERR_BUSY; may be NULL.
 *
 * NXMEM_OK        the handle is gone; info->unmapped says what was seen afterwards.
 * NXMEM_ERR_BUSY  nothing changed; info names the axis. Retry later.
 *
 * [any-thread] [runs plugin code] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_plugin_try_unload(nxmem_plugin plugin, nxmem_unload_info *info,
                                                  nxmem_error *error);

/*
 * Give the handle up whatever the gate says. With an open gate this is try_unload. With a shut gate the module stays mapped and one forced leak is
 * counted, until the same file is opened again and so takes it over; allocators and allocations that are open stay usable. The handle is gone in both cases.
 *
 * NXMEM_ERR_STALE_HANDLE only, and NXMEM_ERR_BUSY while another thread is unloading the same module.
 *
 * [any-thread] [runs plugin code] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_plugin_destroy(nxmem_plugin plugin, nxmem_unload_info *info,
                                               nxmem_error *error);

/* ---- Allocator --------------------------------------------------------------------------------------------------- */

/*
 * What must stay while releases are queued (a device context, a stream): pinned once for each queued release and unpinned when it has settled, also when that
 * is after the allocator was closed. Both may run on any thread, inside a plugin's call, with no lock held.
 */
typedef struct nxmem_pin_source {
  int (*pin)(void *ctx); /* 0: pinned. Else it takes no more work: the enqueue is refused and the allocation stays live */
  void (*unpin)(void *ctx);
  void *ctx; /* the caller's, until the last unpin */
} nxmem_pin_source;

typedef struct nxmem_open_options {
  const char *mechanism;                /* required; as nxmem_plugin_mechanism() lists it */
  const NxmemDeviceId *device;          /* NULL: the only one of that name; required where several devices carry it */
  uint64_t required_capability_flags;   /* bits the caller cannot do without; ALLOCATOR is implied */
  const nxmem_pin_source *pins;         /* copied; NULL: none */
} nxmem_open_options;

/*
 * Open a mechanism that a loaded plugin published.
 *
 * NXMEM_ERR_UNKNOWN_MECHANISM       no such name, or several devices and none named; the message lists what there is.
 * NXMEM_ERR_CONTRACT                the plugin's table was refused; its state has been given back, or the message and unpaid_debts say that it could not be.
 * NXMEM_ERR_UNREADABLE_MEMORY       its table could not be read; where that hides the release slot, the debt is counted and the module stays mapped.
 * NXMEM_ERR_UNSUPPORTED_CAPABILITY  a required capability is not effective.
 * NXMEM_ERR_PLUGIN, OUT_OF_MEMORY, BUSY (unload under way)
 *
 * [any-thread] [runs plugin code] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_allocator_open(nxmem_plugin plugin, const nxmem_open_options *options,
                                               nxmem_allocator *out, nxmem_error *error);

typedef struct nxmem_allocator_info {
  uint64_t mechanism_id; /* the plugin's number: never used to tell owners apart */
  NxmemDeviceId device;
  uint64_t declared_flags;
  uint64_t effective_flags;
  uint32_t abi_minor; /* effective level of the table */
  uint64_t live_allocations; /* this and the bytes: sums of moving things, as in nxmem_host_counts */
  uint64_t quarantined;
  uint64_t owned_bytes;
  uint64_t mapped_bytes;
} nxmem_allocator_info;

/* [any-thread] [re-entrant] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_allocator_get_info(nxmem_allocator allocator, nxmem_allocator_info *out,
                                                   nxmem_error *error);

enum {
  NXMEM_CLOSE_RELEASE_LIVE = 1 /* hand live allocations and prefixes back first; what cannot be handed back is quarantined */
};

/*
 * Close an allocator: its table's release is called exactly once. Never waits.
 *
 * NXMEM_ERR_BUSY  live allocations or prefixes (found says how many) or calls inside. With calls inside the gate stays shut: every other call answers BUSY until
 *                 close is tried again. Otherwise nothing changed, except that after NXMEM_CLOSE_RELEASE_LIVE some may be gone.
 *
 * Queued releases do not keep it open: the plugin is asked to complete them, at most 16 times and only as long as that settles some. What is left holds
 * the callback slot and the module (held_slots) until the plugin completes it, from whatever thread; one that then says that it failed is quarantined.
 *
 * Quarantined allocations do not keep it open; they stay charged and keep the module mapped; their handles go with the allocator.
 *
 * [any-thread] [runs plugin code] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_allocator_close(nxmem_allocator allocator, uint32_t flags,
                                                nxmem_error *error);

/* ---- Allocation -------------------------------------------------------------------------------------------------- */

/* What an allocation may be asked for beyond size and alignment. */
typedef struct nxmem_allocate_options {
  const NxmemByteRange *committed_ranges; /* borrowed for the call; NULL with a count of 0 */
  uint64_t committed_range_count;         /* not 0: reserve, and commit these only; needs VIRTUAL_BACKING */
} nxmem_allocate_options;

/*
 * Allocate bytes at an alignment that is a power of two.
 *
 * options  NULL: nothing beyond that.
 *
 * NXMEM_ERR_INVALID_ARGUMENT  zero bytes, bad alignment, or a size that wraps when rounded up: refused before the plugin is asked.
 * NXMEM_ERR_PLUGIN            the plugin refused; plugin_status says why.
 * NXMEM_ERR_CONTRACT          it said OK with an address or numbers that cannot be; nothing is handed to the caller.
 * NXMEM_ERR_STALE_HANDLE, BUSY (closing), OUT_OF_MEMORY
 *
 * [any-thread] [runs plugin code] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_allocate(nxmem_allocator allocator, uint64_t bytes, uint64_t align,
                                         const nxmem_allocate_options *options, nxmem_allocation *out,
                                         nxmem_error *error);

typedef struct nxmem_release_options {
  uint64_t bytes; /* 0: not named. Else must equal what was allocated */
  uint64_t align; /* 0: not named. Else must equal what was allocated */
} nxmem_release_options;

/*
 * Release an allocation. Of several concurrent releases one wins; the others get NXMEM_ERR_STALE_HANDLE or NXMEM_ERR_BUSY.
 *
 * options  NULL: nothing named.
 *
 * NXMEM_OK                gone; also where the plugin's byte count was refused: contract_violations counts it.
 * NXMEM_ERR_STALE_HANDLE  not a live allocation.
 * NXMEM_ERR_WRONG_OWNER   live, but of another allocator; the plugin is not asked.
 * NXMEM_ERR_MISMATCH      named size or alignment is wrong, or ptr is not what was handed out; nothing changed.
 * NXMEM_ERR_PLUGIN        the plugin refused: still live, may be tried again.
 * NXMEM_ERR_QUARANTINED   gone from the caller's hands for good; its bytes stay charged.
 *
 * [any-thread] [runs plugin code] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_release(nxmem_allocator allocator, nxmem_allocation allocation,
                                        const nxmem_release_options *options, nxmem_error *error);

/* ---- What went wrong so far -------------------------------------------------------------------------------------- */

/* An answer or a callback that the core refused. */
typedef struct nxmem_violation {
  uint64_t number; /* counted from 1 for each host */
  nxmem_allocator allocator; /* {0}: while a plugin was loaded or unloaded, or an allocator opened */
  uint64_t mechanism_id;
  uint32_t reason; /* nxmem_reason */
  uint32_t field;
  uint64_t found;
  uint64_t needed;
} nxmem_violation;

enum { NXMEM_VIOLATIONS_KEPT = 64 };

/*
 * The latest violations, oldest first: at most NXMEM_VIOLATIONS_KEPT are kept, nxmem_host_count() counts all.
 *
 * out        Room for `room` of them.
 * count_out  How many were written.
 *
 * [any-thread] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_host_violations(nxmem_host host, nxmem_violation *out, uint32_t room,
                                                uint32_t *count_out, nxmem_error *error);

/* An allocation that a plugin kept, or whose end nobody can know. */
typedef struct nxmem_quarantined {
  nxmem_allocator allocator;
  uint64_t mechanism_id;
  NxmemDeviceId device;
  uint64_t address;
  uint64_t bytes;
  uint64_t owned_bytes;
  uint64_t mapped_bytes;
  uint64_t residual_bytes;  /* what the plugin says it keeps; 2^64-1 where it said nothing */
  uint32_t plugin_status;   /* what it answered */
  uint32_t reason;          /* nxmem_reason where its address was refused, else 0 */
} nxmem_quarantined;

/*
 * Quarantined allocations of a host, from number `first` on, oldest first, also those whose allocator is closed. At most 65,536 are listed for a host;
 * *total_out says how many there are, nxmem_host_count() how many there were.
 *
 * [any-thread] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_host_quarantine(nxmem_host host, uint64_t first, nxmem_quarantined *out,
                                                uint32_t room, uint32_t *count_out, uint64_t *total_out,
                                                nxmem_error *error);

#ifdef __cplusplus
}
#endif

#include "nxmem_capabilities.h" /* queued releases, virtual backing, shared mapping */

#endif /* NXMEM_H */
