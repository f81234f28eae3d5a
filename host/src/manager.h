/*
 * Managers, their accounts, and what open transactions have reserved. Private to the host.
 *
 * An account is a mechanism in a manager's books. Each has a part for each stripe of threads (thread.h): the room that these threads have drawn from the limits and not granted
 * yet, and what their open transactions have reserved. Bytes move so: limits -> taken (account, authority, tier; under the bank's lock) -> room of a part (under its stripe's lock) ->
 * reserved -> live -> room, of whichever stripe releases. What is used is what is taken less all room. So a grant touches its stripe alone, unless the room runs
 * out; no figure is ever below zero; and with all locks held every figure is of one moment.
 *
 * Of the transactions that are made at once a part has one apart: it counts as live already, less one while it is open, and what it has reserved stands beside. So its publication is
 * one store, for which nobody needs the lane: whoever holds all locks finds it open or live, and either is true then.
 *
 * Locks, in this order: stripes upwards, then the bank. Leaves otherwise; never held while plugin code or a caller's function runs.
 */
#ifndef NX_MANAGER_H
#define NX_MANAGER_H

#include "nxmem_manager.h"
#include "objects.h"
#include "registry.h"

enum {
  NX_ROOM_STEP = 1 << 20, /* drawn ahead at once, on each axis */
  NX_ROOM_MOST = 2 << 20, /* what a part keeps */
  NX_ACCOUNT_CHAINS = 1024
};

struct nx_manager;

/* All that a grant and a refund touch stands in the first line. */
typedef struct nx_part_books {
  _Alignas(64) nxmem_axes room;
  nxmem_axes apart;            /* reserved by the one that is apart */
  uint64_t live;               /* modulo 2^64: published here, less those released here; and the one that is apart */
  _Atomic uint64_t open_apart; /* 0 or 1; to 0 without the lane, by the thread that made it 1 */
  nxmem_axes reserved;         /* by all others */
  uint64_t open;               /* all others that reserved here */
} nx_part_books;

typedef struct nx_account {
  nx_slot slot;
  struct nx_account *next; /* in its chain */
  struct nx_manager *manager;
  _Atomic uint64_t owner; /* its handle; whoever waits reads it, by way of an allocation that may have ended */
  uint64_t mechanism;     /* handle */
  uint64_t context;       /* handle */
  uint64_t under;         /* handle of its authority: while that is in the books, so is this */
  uint32_t authority;     /* the same as an index */
  nxmem_axes taken;       /* under the bank's lock, as what follows */
  nxmem_axes quarantined;
  uint64_t quarantined_count;
  nxmem_axes answers; /* of these, what refused answers left behind: nothing names it, and it goes with the mechanism */
  uint64_t answers_count;
  nx_part_books parts[NX_STRIPES];
} nx_account;

typedef struct nx_authority_books {
  uint64_t handle; /* 0: unused */
  uint32_t tier;
  uint32_t delegated;
  nxmem_axes budget;
  nxmem_axes slice;
  nxmem_axes taken;
} nx_authority_books;

typedef struct nx_tier_books {
  nxmem_axes limit;
  nxmem_axes taken;
  nxmem_axes shares;
} nx_tier_books;

/* Who may touch the books of one stripe of threads. */
typedef struct nx_lane {
  _Alignas(64) _Atomic uint32_t inside; /* its own thread is */
  _Atomic uint32_t lock;                /* of everybody else */
} nx_lane;

typedef struct nx_holder {
  uint64_t id; /* 0: unused */
  nxmem_pressure_fn fn;
  void *ctx;
  int32_t priority;
  uint32_t running;
} nx_holder;

typedef struct nx_manager {
  nx_slot slot; /* its word changes with all locks held: whoever holds one finds it as it is */
  nx_lane lanes[NX_STRIPES];
  _Alignas(64) _Atomic uint32_t bank;
  _Atomic uint32_t tight; /* not 0: something is above a limit; no part keeps room. Set with all locks held */
  nx_authority_books authorities[NXMEM_MANAGER_AUTHORITIES_MAX];
  nx_tier_books tiers[NXMEM_MANAGER_TIERS];
  nx_account *accounts[NX_ACCOUNT_CHAINS]; /* chains, by the slot of their mechanism; change with all locks held */
  nx_holder holders[NXMEM_MANAGER_PRESSURES_MAX]; /* in the order in which they are asked; under the bank's lock */
  uint64_t holder_ids;
  uint32_t waiters; /* changes with all locks held: whoever holds one finds it as it is */
  nx_counter refusals;
  nx_counter bugs;
} nx_manager;

/* How far a transaction has come. */
typedef enum nx_stage {
  NX_NOTHING = 0,
  NX_RESERVED = 1,
  NX_ALLOCATED = 2,
  NX_COMMITTED = 3,
  NX_PUBLISHED = 4,
  NX_WITHDRAWN = 5
} nx_stage;

/* What an open transaction has of the books: its owner's alone. What is published stands beside its allocation (nx_side). */
struct nx_charging {
  nx_account *account;
  uint32_t stripe; /* where it is reserved */
  int apart;       /* in that part's place for one, not in its sums */
  nx_stage stage;
  int at_once;         /* committed and published as soon as the plugin has made it, where it fits */
  nxmem_axes held;     /* what is reserved */
  nxmem_axes answered; /* what it really takes, from NX_ALLOCATED on */
};

/* A transaction that goes step by step. Word: ALLOCATING: nobody is in it; RELEASING: a thread is. All else belongs to whoever is. */
typedef struct nx_steps {
  nx_slot slot;
  nx_charging charging;
  nxmem_request request;
  nxmem_bound made;
  nxmem_rollback behind; /* of answers that were refused */
} nx_steps;

/* The account of a mechanism, NULL where there is none. [any lock] */
static inline nx_account *nx_account_of(const nx_manager *m, uint64_t mechanism) {
  nx_account *account = m->accounts[nxmem_handle_slot(mechanism) % NX_ACCOUNT_CHAINS];
  while (account != NULL && account->mechanism != mechanism) account = account->next;
  return account;
}

/* All accounts, one after the other: the first after NULL, NULL after the last. [any lock] */
static inline nx_account *nx_account_after(const nx_manager *m, const nx_account *account) {
  if (account != NULL && account->next != NULL) return account->next;
  uint32_t chain = account == NULL ? 0u : nxmem_handle_slot(account->mechanism) % NX_ACCOUNT_CHAINS + 1u;
  while (chain < NX_ACCOUNT_CHAINS && m->accounts[chain] == NULL) chain++;
  return chain < NX_ACCOUNT_CHAINS ? m->accounts[chain] : NULL;
}

extern nx_table nx_managers;
extern nx_table nx_accounts;
extern nx_table nx_transactions;

enum { NX_MANAGERS_SHIFT = 1 };

static inline nx_manager *nx_manager_at(uint64_t handle) {
  return nx_table_find_in(&nx_managers, NX_MANAGERS_SHIFT, sizeof(nx_manager), handle);
}

/* ---- Locks ------------------------------------------------------------------------------------------------------- */

NX_APART void nx_wait_for_lock(_Atomic uint32_t *lock);

static inline void nx_lock(_Atomic uint32_t *lock) {
  if (atomic_exchange_explicit(lock, 1u, memory_order_acquire) != 0u) nx_wait_for_lock(lock);
}
static inline void nx_unlock(_Atomic uint32_t *lock) { atomic_store_explicit(lock, 0u, memory_order_release); }

/*
 * Enter the lane of a stripe; what it returns is for leaving it. The thread whose stripe it is pays two plain stores, everybody else a barrier of the whole process.
 */
int nx_lane_enter(nx_manager *manager, uint32_t stripe);
void nx_lane_leave(nx_manager *manager, uint32_t stripe, int entered);

/* Once, before the first manager. */
void nx_lanes_prepare(void);

/* All lanes and the bank. */
void nx_lock_all(nx_manager *manager);
void nx_unlock_all(nx_manager *manager);

/* The manager, with all locks held; NULL (and none held) where the handle names none, with the error written. */
nx_manager *nx_manager_lock(nxmem_manager handle, nxmem_error *error);
nxmem_result nx_manager_unknown(nxmem_error *error);

/* OVER_LIMIT, with what the core said. */
nxmem_result nx_over_limit(nxmem_verdict verdict, const char *verb, nxmem_error *error);

/* Make the account of a mechanism, where it is not there yet. */
nxmem_result nx_account_open(nxmem_manager manager, uint64_t mechanism, uint64_t context, uint64_t authority,
                             nxmem_error *error);

/* ---- Books (manager_books.c): all with the locks that are named --------------------------------------------------- */

/* More or less of what is taken. [the bank's lock] */
void nx_books_grow(nx_manager *manager, nx_account *account, const nxmem_axes *by);
void nx_books_shrink(nx_manager *manager, nx_account *account, const nxmem_axes *by);

/*
 * Of what is there although nobody granted it, as much as each sum over it can still count: a plugin that claims more than there can be is no bug of the books. [the bank's lock]
 */
void nx_books_countable(const nx_manager *manager, const nx_account *account, nxmem_axes *more);

/* All room of all accounts back: what is taken is what is used. [all locks] */
void nx_books_gather(nx_manager *manager);

/* Is anything above a limit? Then no part keeps room. [all locks] */
void nx_books_tighten(nx_manager *manager);

/* Books that contradict themselves: counted, for the snapshot to say. */
static inline void nx_books_bugs(nx_manager *manager, uint32_t bugs) {
  if (bugs != 0) nx_add(&manager->bugs, bugs);
}

/* What is reserved becomes room. [its stripe's lock] */
void nx_books_unreserve(nx_charging *charging);

nxmem_quota nx_books_quota(nx_manager *manager, uint32_t authority);

/* An authority of the manager, or NXMEM_MANAGER_AUTHORITIES_MAX. [any lock] */
uint32_t nx_authority_index(nx_manager *manager, uint64_t handle);

/* ---- Transactions' side of the books: they take the locks they need ----------------------------------------------- */

/* How a reservation went. known 0: the manager, the mechanism's account in it, or its authority is not what was named. */
typedef struct nx_grant {
  int known;
  nxmem_verdict verdict; /* which limit refuses */
  nxmem_axes shortage;   /* where one does: what has to be given back first */
} nx_grant;

static inline nxmem_verdict nx_accepted(void) { return (nxmem_verdict){NXMEM_REASON_NONE, 0, 0, 0}; }

/* Reserve charging->held; RESERVED where it was granted. Nothing is asked of holders. */
nx_grant nx_charge_reserve(nx_manager *manager, uint64_t handle, uint64_t mechanism, uint64_t authority,
                           nx_charging *charging);

/*
 * The same of one that is made at once, where this thread's part has the room and its place for one is free. 0: nothing changed, and nx_charge_reserve() says why, or does it.
 */
int nx_charge_reserve_apart(nx_manager *manager, uint64_t handle, uint64_t mechanism, uint64_t authority,
                            nx_charging *charging);

/* Give up what is reserved; the plugin has made nothing. */
void nx_charge_cancel(nx_charging *charging);

/*
 * Take over what the plugin answered: accepted, or which limit refuses, and nothing changed; then *short_out is written. With `publish` it is live at once.
 */
nxmem_verdict nx_charge_commit(nx_charging *charging, int publish, nxmem_axes *short_out);

/* COMMITTED to PUBLISHED: before the word beside the allocation says LIVE. */
void nx_charge_publish(nx_charging *charging);

/* The same of one that goes back to the plugin, with what is reserved for it: where the plugin keeps it, what it takes is counted then. */
void nx_charge_withdraw(nx_charging *charging, nx_side *side);

/*
 * Of a published one, whose record is pinned: more is mapped, if every limit grants it (else *short_out is written); less is; more is there, whatever the limits say.
 */
nxmem_verdict nx_charge_map(nx_account *account, nx_side *side, uint64_t bytes, nxmem_axes *short_out);
void nx_charge_unmap(nx_account *account, nx_side *side, uint64_t bytes);
void nx_charge_adopt(nx_account *account, nx_side *side, uint64_t bytes);

/*
 * The host keeps an answer that it refused: charged as quarantined with what was reserved for it, and at least the bytes that were asked for as physical ones, whatever the limits say and the
 * answer said. With `cancel` in the place of the reservation, else beside it. Returns what is charged. Before the binding's use ends.
 */
nxmem_axes nx_charge_keep_answer(nx_charging *charging, uint64_t bytes, int cancel);

/* The books follow what is mapped of charged allocations, from now on. */
void nx_follow_mapped(void);

/* ---- Pressure ---------------------------------------------------------------------------------------------------- */

/*
 * What has to be given back before `ask` fits: on each axis that is refused, the most by which it is beyond the budget, the slice and the process limit, also where what is
 * taken is above a limit already. On the other axes 0.
 */
void nx_pressure_shortage(const nxmem_quota *quota, const nxmem_axes *ask, nxmem_axes *out);

/*
 * Ask the holders for what is short of a refused reservation, unless this thread is in one of them. 1: ask the books again.
 */
int nx_pressure_relieves(nx_manager *manager, uint64_t handle, uint64_t authority, const nxmem_verdict *refusal,
                         const nxmem_axes *shortage);

/* ---- Waiting ----------------------------------------------------------------------------------------------------- */

/* An allocation has ended, and somebody waits. */
void nx_wake_waiters(void);

#endif /* NX_MANAGER_H */
