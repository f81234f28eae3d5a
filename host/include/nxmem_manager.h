/*
 * nxmem_manager.h: how much of what a process may use: reservations, limits, delegation, pressure, and books that add up.
 *
 * Attackers: as nxmem.h; plugins that take more than was reserved, and callers on many threads near a limit.
 * Promise: no interleaving of calls grants a byte beyond a limit; a transaction that is refused leaves every axis as it was; no figure goes below zero; every
 * snapshot is of one moment, and its totals are the sums of its parts.
 *
 * A *manager* keeps the books of a process over authorities of a registry (nxmem_registry.h). A *transaction* names one authority and one binding, and goes through
 * reserve, allocate, commit, publish; where a step fails it is rolled back through the owning release, which reports what stayed behind. What is published is released as any bound
 * allocation is: the books follow. So they do what is mapped and unmapped of it afterwards: nxmem_bound_commit() is granted on the mapped axis before the plugin is asked, or answers NXMEM_ERR_OVER_LIMIT
 * once the holders under pressure were asked, and nxmem_bound_decommit() gives it back. What nxmem_bound_allocate() makes is nobody's transaction: it is in no books and under no limit, also where
 * its authority is in a manager's.
 *
 * Three axes (nxmem/quota.h), none inferred from another: *charged* is what the transaction names, *physical* and *mapped* are what the plugin answers as owned and as mapped. Each
 * is reserved by its own figure. Where the plugin takes more than was reserved, the rest is reserved before the transaction commits; where it takes less, the rest goes back.
 *
 * An authority belongs to one tier. Devices that share one physical memory share one authority: their bytes are counted once, in its tier, whatever device they are
 * allocated on.
 *
 * Above a limit there is only what a lowered limit adopted, and what a plugin kept of a transaction: it is there, so it is counted. That is what could not be given back by a rollback, and an answer
 * that the host refused and has in quarantine (nxmem_host_quarantine()): quarantined with what was reserved for it, and at least the bytes that were asked for as physical ones, never with what the
 * refused answer said. It goes from the books with its mechanism, once that is terminated and removed.
 *
 * Errors, outputs and tags: as nxmem.h. Additional codes: NXMEM_ERR_OVER_LIMIT, TIMED_OUT. No function holds a lock while plugin code or a caller's function runs.
 */
#ifndef NXMEM_MANAGER_H
#define NXMEM_MANAGER_H

#include "nxmem/quota.h"
#include "nxmem_registry.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nxmem_manager { uint64_t id; } nxmem_manager;
typedef struct nxmem_transaction { uint64_t id; } nxmem_transaction;
typedef struct nxmem_pressure { uint64_t id; } nxmem_pressure;

enum { NXMEM_MANAGER_TIERS = 3, NXMEM_MANAGER_AUTHORITIES_MAX = 64, NXMEM_MANAGER_PRESSURES_MAX = 32 };

/* As much as there can be: no limit. */
#define NXMEM_AXES_UNLIMITED \
  { NXMEM_TOTAL_MAX, NXMEM_TOTAL_MAX, NXMEM_TOTAL_MAX }

/* No limits, no authorities. One per process is what it is made for; several keep separate books. NXMEM_ERR_OUT_OF_MEMORY, FORKED. [any-thread] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_manager_create(nxmem_manager *out, nxmem_error *error);

/* NXMEM_ERR_BUSY: authorities are left, or holders are being asked; found says how many. Holders that are left go with it. [any-thread] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_manager_destroy(nxmem_manager manager, nxmem_error *error);

/* ---- Authorities and limits -------------------------------------------------------------------------------------- */

/*
 * Keep the books of an authority: it is pinned, until it is removed here. budget NULL: none, but the process limit.
 *
 * NXMEM_ERR_INVALID_ARGUMENT  it is here already, or the tier is unknown.  NXMEM_ERR_OUT_OF_MEMORY: NXMEM_MANAGER_AUTHORITIES_MAX are here.
 *
 * [any-thread]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_manager_add_authority(nxmem_manager manager, nxmem_authority authority,
                                                                       uint32_t tier, const nxmem_axes *budget,
                                                                       nxmem_error *error);

/* NXMEM_ERR_BUSY: transactions are open, or bytes are live or quarantined; found says how many transactions and allocations. Its slice returns to the process. [any-thread] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_manager_remove_authority(nxmem_manager manager,
                                                                          nxmem_authority authority,
                                                                          nxmem_error *error);

/*
 * The process limit of a tier, and an authority's budget: one step against every transaction and delegation. A limit below what is taken adopts that: nothing more
 * is granted until it is below the limit again.
 *
 * beyond_out  By how much what is taken is above it, axis by axis; may be NULL.
 *
 * [any-thread]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_manager_set_limit(nxmem_manager manager, uint32_t tier,
                                                                   const nxmem_axes *limit, nxmem_axes *beyond_out,
                                                                   nxmem_error *error);
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_manager_set_budget(nxmem_manager manager, nxmem_authority authority,
                                                                    const nxmem_axes *budget, nxmem_axes *beyond_out,
                                                                    nxmem_error *error);

/*
 * Set a slice of its tier's process limit aside for an authority, once: no other can use it, and it caps this one.
 *
 * NXMEM_ERR_OVER_LIMIT        reason ALREADY_DELEGATED, SLICE_TOO_SMALL (less than it takes now), OVER_PROCESS_LIMIT; nothing changed.
 *
 * [any-thread]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_manager_delegate(nxmem_manager manager, nxmem_authority authority,
                                                                  const nxmem_axes *slice, nxmem_error *error);

/* ---- Transactions ------------------------------------------------------------------------------------------------ */

/* What a transaction asks for. */
typedef struct nxmem_request {
  nxmem_authority authority; /* must be the binding's */
  nxmem_binding binding;
  uint64_t bytes;
  uint64_t align;
  const nxmem_allocate_options *options; /* as nxmem_allocate(); borrowed until nxmem_transaction_allocate() returns */
  nxmem_axes reserve;                    /* charged: what it is charged with; physical, mapped: what the plugin is expected to take */
} nxmem_request;

/* What a rollback left behind. */
typedef struct nxmem_rollback {
  int kept;              /* 1: the allocation could not be given back, and is quarantined; or an answer was refused and is */
  nxmem_keeping keeping; /* why */
  nxmem_axes behind;     /* what stays charged for it; step by step for all that its attempts to allocate left behind */
} nxmem_rollback;

/*
 * Reserve, allocate, commit, publish. The reservation is judged by all limits at once; where one refuses, the holders under pressure are asked to give
 * bytes back and it is judged once more.
 *
 * charge_out  What nxmem_manager_wait() takes; may be NULL.
 * rollback    Written whenever the arguments are good; may be NULL.
 *
 * NXMEM_ERR_OVER_LIMIT  reason OVER_BUDGET, OVER_SLICE, OVER_PROCESS_LIMIT; field: an nxmem_quota_axis; found: bytes asked for; needed: at most. Every axis is as it was, but for
 *                       what *rollback says.
 * NXMEM_ERR_WRONG_OWNER the binding's authority is another.
 * and what nxmem_bound_allocate() answers.
 *
 * [any-thread] [runs plugin code] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_manager_allocate(nxmem_manager manager, const nxmem_request *request,
                                                                  nxmem_bound *out, uint64_t *charge_out,
                                                                  nxmem_rollback *rollback, nxmem_error *error);

/*
 * The same, step by step. A transaction belongs to one caller at a time. Any step that fails leaves it as it was, to be tried again or rolled back; only a failed publish has ended it: the device
 * was lost or the binding dropped, and what it made is kept.
 *
 * NXMEM_ERR_STALE_HANDLE  no open transaction.
 * NXMEM_ERR_BUSY          a step out of order, or one that another thread is in.
 *
 * [any-thread] [runs plugin code: allocate, rollback; reserve and commit where holders under pressure are asked] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_transaction_reserve(nxmem_manager manager,
                                                                     const nxmem_request *request,
                                                                     nxmem_transaction *out, nxmem_error *error);
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_transaction_allocate(nxmem_transaction transaction,
                                                                      nxmem_error *error);
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_transaction_commit(nxmem_transaction transaction, nxmem_error *error);
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_transaction_publish(nxmem_transaction transaction, nxmem_bound *out,
                                                                     uint64_t *charge_out, nxmem_error *error);
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_transaction_rollback(nxmem_transaction transaction,
                                                                      nxmem_rollback *out, nxmem_error *error);

/*
 * Wait until the release of exactly this allocation has settled, whoever executes it; no lock is held meanwhile.
 *
 * NXMEM_OK                given back, and refunded.
 * NXMEM_ERR_QUARANTINED   kept.
 * NXMEM_ERR_TIMED_OUT     not yet; may be tried again. timeout_ms 0 looks once.
 * NXMEM_ERR_WRONG_OWNER   another manager's.  NXMEM_ERR_STALE_HANDLE  no manager, or nobody's charge.
 *
 * [any-thread] [re-entrant] [blocks: for at most timeout_ms]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_manager_wait(nxmem_manager manager, uint64_t charge,
                                                              uint32_t timeout_ms, nxmem_error *error);

/* ---- Pressure ---------------------------------------------------------------------------------------------------- */

/*
 * Give back what can be spared of an authority, through releases, and say how much that was by axis; at most what was asked is believed, and only to decide whether the next
 * holder is asked: what is granted afterwards is judged by the books. No lock is held; it may use registry and manager. What it allocates is judged without asking holders again.
 *
 * wanted  On each axis that a limit refuses, all that has to go before what was refused fits: under budget, slice and process limit, and also by how much what is taken is above a lowered
 *         limit already. On the other axes 0.
 *
 * Holders are asked for the authority that was refused first. Where the process limit refuses, what is still wanted is then asked for each other authority of the tier that fills it, in the order
 * in which they stand in the books (nxmem_snapshot): one holder may so be called several times, each with another authority. Not for one with a slice, which is set aside as a whole
 * whatever is taken of it; but where the one that was refused has a slice itself, what is really taken is what counts, and so it is asked for.
 */
typedef void (*nxmem_pressure_fn)(void *ctx, nxmem_authority authority, const nxmem_axes *wanted, nxmem_axes *given_out);

/* The higher the priority the earlier it is asked; of equal ones the first that came. [any-thread] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_manager_add_pressure(nxmem_manager manager, nxmem_pressure_fn fn,
                                                                      void *ctx, int32_t priority,
                                                                      nxmem_pressure *out, nxmem_error *error);

/* NXMEM_ERR_BUSY: it is being asked. [any-thread] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_manager_remove_pressure(nxmem_manager manager, nxmem_pressure pressure,
                                                                         nxmem_error *error);

/* Ask them now, in their order, until `wanted` is given or all that were there when it began were asked. [any-thread] [re-entrant] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_manager_ask(nxmem_manager manager, nxmem_authority authority,
                                                             const nxmem_axes *wanted, nxmem_axes *given_out,
                                                             nxmem_error *error);

/*
 * For nxmem_host_options.reclaim, with reclaim_ctx pointing to the nxmem_manager: what a plugin asks for goes the same way, as physical bytes of the authority of its mechanism. Not 0 where
 * the manager has no books of it.
 */
NXMEM_PUBLIC int nxmem_manager_reclaim(void *manager, nxmem_allocator allocator, uint64_t bytes,
                                       uint64_t *reclaimed_out);

/* ---- What there is ----------------------------------------------------------------------------------------------- */

/* Figures of an authority, a mechanism, a tier: used = reserved + live + quarantined, on each axis. */
typedef struct nxmem_figures {
  nxmem_axes used;
  nxmem_axes reserved;    /* of transactions that are open */
  nxmem_axes live;        /* published */
  nxmem_axes quarantined; /* kept: it stays charged */
  uint64_t transactions;
  uint64_t live_count;
  uint64_t quarantined_count;
} nxmem_figures;

typedef struct nxmem_mechanism_figures {
  nxmem_mechanism mechanism;
  nxmem_authority authority;
  nxmem_figures figures;
} nxmem_mechanism_figures;

typedef struct nxmem_authority_figures {
  nxmem_authority authority;
  uint32_t tier;
  int delegated;
  nxmem_axes budget;
  nxmem_axes slice;  /* where delegated */
  nxmem_axes ahead;  /* drawn by threads, granted to nobody: not in `used`, and taken back before anything is refused */
  nxmem_figures figures;
} nxmem_authority_figures;

typedef struct nxmem_tier_figures {
  nxmem_axes limit;
  nxmem_axes shares; /* used and drawn ahead, slices as a whole */
  nxmem_figures figures;
} nxmem_tier_figures;

typedef struct nxmem_snapshot {
  nxmem_mechanism_figures *mechanisms; /* the caller's, room for as many as the next says; filled */
  uint32_t mechanism_room;
  uint32_t mechanism_count; /* how many there are: more than fit are summed, but not listed */
  uint32_t authority_count;
  nxmem_authority_figures authorities[NXMEM_MANAGER_AUTHORITIES_MAX];
  nxmem_tier_figures tiers[NXMEM_MANAGER_TIERS];
  nxmem_figures total; /* of the tiers; an axis that is more than NXMEM_TOTAL_MAX stays there */
  uint64_t refusals; /* by a limit, for good */
  uint64_t bugs;     /* figures that would have gone below zero or past what exists: clamped, counted */
} nxmem_snapshot;

/* All of one moment. [any-thread] [re-entrant] */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_manager_snapshot(nxmem_manager manager, nxmem_snapshot *out,
                                                                  nxmem_error *error);

/* What stands in the way of a context's removal. */
typedef struct nxmem_context_holds {
  uint64_t transactions; /* open ones of this manager, through the context's mechanisms */
  uint64_t pins;         /* mechanisms that pin it */
} nxmem_context_holds;

/*
 * Remove a context, or say how many transactions and pins are open. Waits for nothing.
 *
 * out  Written on NXMEM_OK and on NXMEM_ERR_BUSY; may be NULL.
 *
 * NXMEM_ERR_BUSY  found: both together.
 *
 * [any-thread] [re-entrant]
 */
NXMEM_PUBLIC NXMEM_MUST_CHECK nxmem_result nxmem_manager_remove_context(nxmem_manager manager, nxmem_context context,
                                                                        nxmem_context_holds *out, nxmem_error *error);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_MANAGER_H */
