/*
 * nxmem_registry.h: who may release what, which mechanism is current, and what is still owned after something went wrong.
 *
 * Attackers: as nxmem.h; and a device that vanishes, owners that go away, and callers that race each other on every edge between two steps.
 * Promise: what ends a mechanism leaves it nowhere selected; an allocation is given back at most once, through the binding it was made with; after a loss
 * no call enters the plugin; whatever could not be given back is kept with its reason, and stands in the way of removal.
 *
 * A *context* is what a provider needs to stay (a device's context, a connection), an *authority* is who answers for physical memory (two devices that share one
 * memory share one). A *mechanism* is an opened allocator under both. A *binding* pins a mechanism; every allocation made through it carries it. A registry's
 * mechanisms may come from any plugins of any hosts.
 *
 * Identities: this registry alone issues them. 64 bits, not 0, of this process, never an address, never used again: handles as nxmem.h's, slot and generation.
 *
 * Lifecycle (nxmem/lifecycle.h): ACTIVE -> RETIRED (no new work; old allocations may be released) -> removed; ACTIVE or RETIRED -> DEVICE_LOST (all is refused, also
 * release: no call, no refund) -> TERMINATED (the outside world has confirmed it: records only) -> removed.
 *
 * Order of teardown: an allocator's own release, then the pin of its authority, then that of its context. Contexts and authorities go after their mechanisms.
 *
 * Locks: the registry's lock is held while a device gets its place, never while plugin code or a caller's function runs. A mechanism's state is one atomic word.
 * Binding, allocating and releasing take no lock.
 *
 * Re-entry: from inside a plugin's slot, whoever's call it was entered by, all of this may be called, and answers what any other thread would get at that moment. Nothing
 * waits for the call outside, which goes on as if another thread had done it:
 *   select, bind, register, retire, lose   as ever; a retirement lets the outer call end well, a loss makes it DEVICE_LOST, of a release QUARANTINED.
 *   confirm, remove                        NXMEM_ERR_BUSY of the mechanism whose call is under way (it is inside); as ever of every other.
 *   release, prepare                       of the allocation that is being released UNKNOWN_ALLOCATION, that is being committed BUSY; as ever of every other.
 *   end of a binding                       BUSY of the one that is in use; with NXMEM_END_DROP it ends, and an allocation, commit or decommit under way answers STALE_HANDLE: kept.
 *   queue: destroy                         BUSY of the one that is being drained; a loss shows in nxmem_drained, the drain itself is NXMEM_OK.
 *   while a mechanism is being removed     its allocator's release: get_state, quarantine and remove are BUSY of it, its end (retire, lose) is as ever.
 *   while a plugin is unloaded             its query, factory release, destructor: registering from it is BUSY.
 * Contexts, authorities and registries are BUSY while anything is in them, as ever.
 *
 * Errors, outputs and tags: as nxmem.h. Additional codes: NXMEM_ERR_UNKNOWN_ALLOCATION, RETIRED, DEVICE_LOST, TERMINATED, QUEUE_REFUSED.
 */
#ifndef NXMEM_REGISTRY_H
#define NXMEM_REGISTRY_H

#include "nxmem.h"
#include "nxmem/lifecycle.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nxmem_registry {
  uint64_t id;
} nxmem_registry;
typedef struct nxmem_context {
  uint64_t id;
} nxmem_context;
typedef struct nxmem_authority {
  uint64_t id;
} nxmem_authority;
typedef struct nxmem_mechanism {
  uint64_t id;
} nxmem_mechanism;
typedef struct nxmem_binding {
  uint64_t id;
} nxmem_binding;
typedef struct nxmem_prepared {
  uint64_t id;
} nxmem_prepared;
typedef struct nxmem_release_queue {
  uint64_t id;
} nxmem_release_queue;

/*
 * An allocation and all that it was made with. Copies are fine; one release succeeds. Each field is compared before the plugin is asked for anything: an address
 * that was given out again makes no old record valid.
 */
typedef struct nxmem_bound {
  nxmem_binding binding;
  uint64_t id;    /* the allocation's generation, never used again */
  void *ptr;      /* the plugin's, until it is released */
  uint64_t bytes; /* as asked for */
  uint64_t align; /* as asked for */
} nxmem_bound;

/* ---- Registry, contexts, authorities ----------------------------------------------------------------------------- */

/* NXMEM_ERR_INVALID_ARGUMENT, OUT_OF_MEMORY, FORKED. [any-thread] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_registry_create(nxmem_registry *out, nxmem_error *error);

/* NXMEM_ERR_BUSY: contexts, authorities or queues are left; found says how many. Mechanisms and bindings keep theirs. [any-thread] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_registry_destroy(nxmem_registry registry, nxmem_error *error);

/* Sums over a registry; of moving things, each as it was at one moment of the reading. */
typedef struct nxmem_registry_counts {
  uint64_t contexts;
  uint64_t authorities;
  uint64_t mechanisms[NXMEM_LIFECYCLES]; /* by lifecycle */
  uint64_t bindings;
  uint64_t live;     /* allocations, without prepared ones */
  uint64_t prepared; /* releases that nobody has executed or abandoned */
  uint64_t quarantined;
  uint64_t quarantined_bytes; /* their requested bytes */
  uint64_t queues;
} nxmem_registry_counts;

/* [any-thread] [re-entrant] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_registry_count(nxmem_registry registry, nxmem_registry_counts *out,
                                                                nxmem_error *error);

/* NXMEM_ERR_STALE_HANDLE, OUT_OF_MEMORY. [any-thread] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_context_create(nxmem_registry registry, nxmem_context *out,
                                                                nxmem_error *error);
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_authority_create(nxmem_registry registry, nxmem_authority *out,
                                                                  nxmem_error *error);

/* NXMEM_ERR_BUSY: mechanisms pin it, or a manager has work or money in it; found says how many. Waits for nothing. [any-thread] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_context_remove(nxmem_context context, nxmem_error *error);
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_authority_remove(nxmem_authority authority, nxmem_error *error);

/* How many mechanisms (and managers) pin it. [any-thread] [re-entrant] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_context_pins(nxmem_context context, uint64_t *out, nxmem_error *error);
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_authority_pins(nxmem_authority authority, uint64_t *out,
                                                                nxmem_error *error);

/* ---- Mechanisms -------------------------------------------------------------------------------------------------- */

/*
 * Open a mechanism of a plugin and register it: ACTIVE, pinning context and authority. Where its device has no mechanism selected it becomes the one.
 *
 * plugin, options  As nxmem_allocator_open() takes them; the allocator stays the registry's own, so that nobody goes past its bindings.
 *
 * NXMEM_ERR_WRONG_OWNER    context and authority belong to different registries.
 * NXMEM_ERR_STALE_HANDLE   a context or authority that is gone, or being removed.
 * NXMEM_ERR_OUT_OF_MEMORY  also: NXMEM_REGISTRY_DEVICES_MAX devices are known already.
 * and what nxmem_allocator_open() answers.
 *
 * [any-thread] [runs plugin code] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_mechanism_register(nxmem_context context, nxmem_authority authority,
                                                                    nxmem_plugin plugin,
                                                                    const nxmem_open_options *options,
                                                                    nxmem_mechanism *out, nxmem_error *error);

enum { NXMEM_REGISTRY_DEVICES_MAX = 64, NXMEM_COMPOSITE_MAX = 4 };

/* One allocator of a composite. */
typedef struct nxmem_part {
  nxmem_plugin plugin;
  const nxmem_open_options *options;
} nxmem_part;

/*
 * One mechanism of several allocators on one device, tried in this order: where one's plugin refuses an allocation the next is asked. Nobody can check that they
 * are one owner's, or that losing one is losing all: calling this says so, and no other call makes a composite. An allocation goes back to the part that made it.
 *
 * count  2 to NXMEM_COMPOSITE_MAX.
 *
 * NXMEM_ERR_INVALID_ARGUMENT  count, or parts of different devices.
 * and what nxmem_mechanism_register() answers; parts that were opened are closed again.
 *
 * [any-thread] [runs plugin code] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result
nxmem_mechanism_register_composite_trusted(nxmem_context context, nxmem_authority authority, const nxmem_part *parts,
                                           uint32_t count, nxmem_mechanism *out, nxmem_error *error);

typedef struct nxmem_mechanism_state {
  nxmem_lifecycle lifecycle;
  int selected; /* 1: later binds on its device get it */
  NxmemDeviceId device;
  nxmem_registry registry;
  nxmem_context context;
  nxmem_authority authority;
  uint32_t parts;
  nxmem_holdings holdings; /* what stands in the way of its removal; sums of moving things */
  uint64_t quarantined_bytes;
  uint64_t owned_bytes;
  uint64_t mapped_bytes;
} nxmem_mechanism_state;

/* NXMEM_ERR_STALE_HANDLE. [any-thread] [re-entrant] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_mechanism_get_state(nxmem_mechanism mechanism,
                                                                     nxmem_mechanism_state *out, nxmem_error *error);

/* Mechanisms of a registry, in no order: from number `first` on. [any-thread] [re-entrant] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_registry_mechanisms(nxmem_registry registry, uint64_t first,
                                                                     nxmem_mechanism *out, uint32_t room,
                                                                     uint32_t *count_out, uint64_t *total_out,
                                                                     nxmem_error *error);

/*
 * Make it the one that later nxmem_bind() calls on its device get; bindings that exist keep theirs. It is published, then looked at again. Where it ended meanwhile the
 * selection is taken back, unless somebody else's stands there by now: its predecessor's, if that is still registered and ACTIVE; else none, and the next
 * registration on the device fills it.
 *
 * NXMEM_ERR_RETIRED, DEVICE_LOST, TERMINATED, STALE_HANDLE: it is not selected.
 *
 * [any-thread] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_mechanism_select(nxmem_mechanism mechanism, nxmem_error *error);

/* The one selected on a device; NXMEM_ERR_UNKNOWN_MECHANISM where there is none. [any-thread] [re-entrant] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_registry_selected(nxmem_registry registry, NxmemDeviceId device,
                                                                   nxmem_mechanism *out, nxmem_error *error);

/* No new work; what was allocated may be released. Retiring twice is NXMEM_ERR_RETIRED. [any-thread] [re-entrant] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_mechanism_retire(nxmem_mechanism mechanism, nxmem_error *error);

/* What a loss found. */
typedef struct nxmem_loss {
  uint64_t mechanisms;   /* that this call turned DEVICE_LOST */
  uint64_t retained;     /* allocations that it took into quarantine */
  uint64_t calls_inside; /* calls that had been let in before; they may still enter the plugin, no other does */
} nxmem_loss;

/*
 * Its device is gone. From here on no call is let into the plugin through it. Every allocation that is live is retained: quarantined as DEVICE_LOST; prepared
 * releases settle the same way when they are executed or abandoned.
 *
 * out  May be NULL.
 *
 * NXMEM_ERR_DEVICE_LOST, TERMINATED: it was before.
 *
 * [any-thread] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_mechanism_lose(nxmem_mechanism mechanism, nxmem_loss *out,
                                                                nxmem_error *error);

/* The same for all of a device; NXMEM_OK also where none was left to lose. [any-thread] [re-entrant] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_registry_lose_device(nxmem_registry registry, NxmemDeviceId device,
                                                                      nxmem_loss *out, nxmem_error *error);

/*
 * The outside world has confirmed that the device's work is over: nothing of it writes to memory any more. What is left are records; nothing else of the plugin
 * is called than its allocator's release, once, when the mechanism is removed, and the factory's when it is unloaded.
 *
 * NXMEM_ERR_BUSY              calls are still inside; found says how many.
 * NXMEM_ERR_INVALID_ARGUMENT  it was not lost.  NXMEM_ERR_TERMINATED  confirmed before.
 *
 * [any-thread] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_mechanism_confirm_terminated(nxmem_mechanism mechanism,
                                                                              nxmem_error *error);

/*
 * Take a RETIRED or TERMINATED mechanism out: its allocator's release, exactly once, then its pins go. Waits for nothing.
 *
 * why_out  Written on NXMEM_ERR_BUSY as well: what stands in the way. May be NULL.
 *
 * NXMEM_ERR_BUSY              still ACTIVE, lost and not confirmed, or something is left: reason, field (an nxmem_holding) and found say what. Nothing
 *                             changed, except that of a composite some parts may be closed.
 * NXMEM_ERR_STALE_HANDLE
 *
 * [any-thread] [runs plugin code] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_mechanism_remove(nxmem_mechanism mechanism, nxmem_holdings *why_out,
                                                                  nxmem_error *error);

/* ---- Bindings and allocations ------------------------------------------------------------------------------------ */

/*
 * Bind to the mechanism that is selected on a device, or to one by name. It pins the mechanism until it ends.
 *
 * NXMEM_ERR_UNKNOWN_MECHANISM  none is selected.
 * NXMEM_ERR_RETIRED, DEVICE_LOST, TERMINATED, STALE_HANDLE, OUT_OF_MEMORY
 *
 * [any-thread] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_bind(nxmem_registry registry, NxmemDeviceId device, nxmem_binding *out,
                                                      nxmem_error *error);
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_bind_mechanism(nxmem_mechanism mechanism, nxmem_binding *out,
                                                                nxmem_error *error);

/* What a binding pins. [any-thread] [re-entrant] */
typedef struct nxmem_binding_info {
  nxmem_mechanism mechanism;
  nxmem_context context;
  nxmem_authority authority;
  /* Live allocations, prepared releases and calls at it. While they come and go, each thread's part as it was at one moment. */
  uint64_t uses;
} nxmem_binding_info;
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_binding_get_info(nxmem_binding binding, nxmem_binding_info *out,
                                                                  nxmem_error *error);

enum {
  NXMEM_END_DROP = 1 /* its owner is gone: what is live is quarantined as OWNER_DROPPED, and nothing new is made */
};

/*
 * End a binding. With NXMEM_END_DROP it ends at once for its caller, and pins its mechanism until its last prepared release has settled.
 *
 * NXMEM_ERR_BUSY  allocations, prepared releases or calls are left; found says how many. Nothing changed.
 *
 * [any-thread] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_binding_end(nxmem_binding binding, uint32_t flags, nxmem_error *error);

/*
 * Allocate through a binding; as nxmem_allocate().
 *
 * NXMEM_ERR_RETIRED                  no new work.
 * NXMEM_ERR_DEVICE_LOST, TERMINATED  also where the device went while the plugin was asked: what it made is quarantined.
 * NXMEM_ERR_STALE_HANDLE             also where the binding was dropped while the plugin was asked: what it made is quarantined as OWNER_DROPPED.
 * and what nxmem_allocate() answers. Where the mechanism was only retired meanwhile, what was made is the caller's.
 *
 * [any-thread] [runs plugin code] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_bound_allocate(nxmem_binding binding, uint64_t bytes, uint64_t align,
                                                                const nxmem_allocate_options *options, nxmem_bound *out,
                                                                nxmem_error *error);

/*
 * As nxmem_commit() and nxmem_decommit(), which see. Commit is new work: RETIRED refuses it. STALE_HANDLE also where the binding was dropped meanwhile: the allocation
 * is quarantined.
 *
 * Of what a manager charges (nxmem_manager.h) its books follow: commit asks holders under pressure for what a limit refuses, and answers NXMEM_ERR_OVER_LIMIT where it still does; nothing is mapped
 * then. BUSY: its transaction is open.
 *
 * These, release and its steps are all that there is for what is bound: views and mappings of shared prefixes (nxmem.h) go by allocator and allocation and have no bound form here.
 *
 * [any-thread] [runs plugin code; commit also holders under pressure] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_bound_commit(const nxmem_bound *bound, NxmemByteRange range,
                                                              nxmem_error *error);
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_bound_decommit(const nxmem_bound *bound, NxmemByteRange range,
                                                                uint64_t *unmapped_out, nxmem_error *error);

/*
 * Prepare and execute in one.
 *
 * NXMEM_OK, NXMEM_ERR_QUARANTINED, or nothing changed and what nxmem_bound_prepare() answers.
 *
 * [any-thread] [runs plugin code] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_bound_release(const nxmem_bound *bound, nxmem_error *error);

/* ---- Owning releases --------------------------------------------------------------------------------------------- */

/*
 * Take an allocation's live record away, exactly once, and get what must be executed or abandoned: it pins all it needs. The plugin is not asked.
 *
 * NXMEM_ERR_UNKNOWN_ALLOCATION  no live record: released, prepared or quarantined before, also by a thread that was faster.
 * NXMEM_ERR_WRONG_OWNER, MISMATCH  binding; address, size or alignment are not what was allocated: nothing changed.
 * NXMEM_ERR_BUSY                another call is at it.
 * NXMEM_ERR_DEVICE_LOST, TERMINATED  refused; it is retained, or was already.
 *
 * [any-thread] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_bound_prepare(const nxmem_bound *bound, nxmem_prepared *out,
                                                               nxmem_error *error);

/*
 * Give it back to the plugin, no lock held. The record is gone, so this completes or quarantines and never fails: a plugin's "nothing changed" is kept too.
 *
 * NXMEM_OK                      complete.
 * NXMEM_ERR_QUARANTINED         kept; found is the nxmem_keeping: DEVICE_LOST, TERMINATED (neither entered the plugin, unless lost meanwhile), PARTIAL_RELEASE,
 *                               ALLOCATOR_REFUSED.
 * NXMEM_ERR_UNKNOWN_ALLOCATION  no prepared release: executed or abandoned before, or in a queue.
 *
 * [any-thread] [runs plugin code] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_prepared_execute(nxmem_prepared prepared, nxmem_error *error);

/*
 * Give it up: quarantined as ABANDONED; as QUEUE_REFUSED where a queue had handed it back; as DEVICE_LOST or TERMINATED where that is so.
 *
 * NXMEM_ERR_UNKNOWN_ALLOCATION
 *
 * [any-thread] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_prepared_abandon(nxmem_prepared prepared, nxmem_error *error);

/* A queue of prepared releases, first in, first out, of a fixed room (1 to 65,536). Belongs to a registry. [any-thread] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_release_queue_create(nxmem_registry registry, uint32_t room,
                                                                      nxmem_release_queue *out, nxmem_error *error);

/*
 * Hand a prepared release to a queue, which then owns it.
 *
 * NXMEM_ERR_QUEUE_REFUSED  full, or closing: `prepared` is the caller's as before, to be executed, abandoned or queued elsewhere. found: what stands in it;
 *                          needed: its room, 0 where it is closing.
 * NXMEM_ERR_UNKNOWN_ALLOCATION, STALE_HANDLE
 *
 * [any-thread] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_release_queue_push(nxmem_release_queue queue, nxmem_prepared prepared,
                                                                    nxmem_error *error);

/* What a drain did. */
typedef struct nxmem_drained {
  uint64_t completed;
  uint64_t quarantined;
  uint64_t left;
} nxmem_drained;

/* Execute at most `max` of them, in order. NXMEM_OK also where some were quarantined: *out says how many. [any-thread] [runs plugin code] [re-entrant] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_release_queue_drain(nxmem_release_queue queue, uint64_t max,
                                                                     nxmem_drained *out, nxmem_error *error);

/* Take no more; what stands in it may still be drained. [any-thread] [re-entrant] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_release_queue_close(nxmem_release_queue queue, nxmem_error *error);

/* Destroy it; what stands in it is quarantined as OWNER_DROPPED (DEVICE_LOST, TERMINATED where that is so). Waits for nothing: BUSY while another call is at it. [any-thread] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_release_queue_destroy(nxmem_release_queue queue, uint64_t *dropped_out,
                                                                       nxmem_error *error);

/* ---- What is kept ------------------------------------------------------------------------------------------------ */

/* An allocation that was not given back. */
typedef struct nxmem_kept {
  nxmem_mechanism mechanism;
  nxmem_binding binding; /* may have ended; {0}: the plugin kept it before it was anybody's */
  uint64_t id;
  uint64_t address;
  uint64_t bytes;
  nxmem_keeping reason;
  uint32_t plugin_status; /* what the plugin answered; NXMEM_STATUS_OK where it was not asked */
} nxmem_kept;

/*
 * What is quarantined of a mechanism, in no order: from number `first` on. It blocks removal, unless the mechanism is TERMINATED.
 *
 * total_out  How many can be listed; may be NULL. An answer that was refused, before it was anybody's, has no record here: it is counted in
 *            nxmem_holdings.quarantined, and nxmem_host_quarantine() lists it.
 *
 * [any-thread] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_mechanism_quarantine(nxmem_mechanism mechanism, uint64_t first,
                                                                      nxmem_kept *out, uint32_t room,
                                                                      uint32_t *count_out, uint64_t *total_out,
                                                                      nxmem_error *error);

/* Stable words: "active", "device-lost"; "abandoned", "allocator-refused"; or "unknown". [any-thread] */
NXMEM_PUBLIC const char *nxmem_lifecycle_name(nxmem_lifecycle lifecycle);
NXMEM_PUBLIC const char *nxmem_keeping_name(nxmem_keeping reason);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_REGISTRY_H */
