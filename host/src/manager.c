/*
 * manager.c: managers, the authorities in their books, and their limits.
 *
 * Attackers: callers that lower limits, delegate and remove while others are in the middle of transactions.
 * Promise: a limit changes in one step against every grant; what is above it is adopted; nothing that is in use leaves the books.
 */
#include "manager.h"

#include <inttypes.h>

#include "error.h"
#include "nxmem/handle.h"

nx_table nx_managers = NX_TABLE(nx_manager, NX_MANAGERS_SHIFT);
nx_table nx_accounts = NX_TABLE(nx_account, 4);
nx_table nx_transactions = NX_TABLE(nx_steps, 6);

static const nxmem_axes unlimited = NXMEM_AXES_UNLIMITED;

nxmem_result nx_manager_unknown(nxmem_error *error) {
  if (nx_is_forked()) return nx_fail(error, NXMEM_ERR_FORKED, "manager: this process is a forked child");
  return nx_fail(error, NXMEM_ERR_STALE_HANDLE, "the handle names no manager");
}

nx_manager *nx_manager_lock(nxmem_manager handle, nxmem_error *error) {
  nx_manager *m = (nx_manager *)(void *)nx_table_find(&nx_managers, handle.id);
  if (m != NULL && !nx_is_forked()) {
    nx_lock_all(m);
    if (nxmem_is_claimable(atomic_load(&m->slot.word), handle.id)) return m;
    nx_unlock_all(m);
  }
  (void)nx_manager_unknown(error);
  return NULL;
}

static nxmem_result none_or_forked(void) { return nx_is_forked() ? NXMEM_ERR_FORKED : NXMEM_ERR_STALE_HANDLE; }

/* Nothing can be asked for that the books could not count. */
static nxmem_axes countable(const nxmem_axes *limit) {
  nxmem_axes c = *limit;
  if (c.charged > NXMEM_TOTAL_MAX) c.charged = NXMEM_TOTAL_MAX;
  if (c.physical > NXMEM_TOTAL_MAX) c.physical = NXMEM_TOTAL_MAX;
  if (c.mapped > NXMEM_TOTAL_MAX) c.mapped = NXMEM_TOTAL_MAX;
  return c;
}

/* What fits of `more` on top of a sum. */
static void fit(const nxmem_axes *sum, nxmem_axes *more) {
  nxmem_axes grown = *sum;
  nxmem_axes_adopt(&grown, more);
  nxmem_quota_beyond(&grown, sum, more);
}

/* No other sum is larger: an account's and an authority's are parts of their tier's, and shares grow by no more than what is taken. */
void nx_books_countable(const nx_manager *m, const nx_account *account, nxmem_axes *more) {
  const nx_tier_books *tier = &m->tiers[m->authorities[account->authority].tier];
  fit(&tier->taken, more);
  fit(&tier->shares, more);
}

/* ---- Managers ---------------------------------------------------------------------------------------------------- */

/* The slot is the caller's alone, but for stale handles that take its locks and look at its word. */
static void reset(nx_manager *m) {
  nx_lock_all(m);
  for (uint32_t i = 0; i < NXMEM_MANAGER_TIERS; i++)
    m->tiers[i] = (nx_tier_books){.limit = unlimited, .taken = {0, 0, 0}, .shares = {0, 0, 0}};
  for (uint32_t i = 0; i < NXMEM_MANAGER_AUTHORITIES_MAX; i++) m->authorities[i].handle = 0;
  for (uint32_t i = 0; i < NXMEM_MANAGER_PRESSURES_MAX; i++) m->holders[i].id = 0;
  for (uint32_t i = 0; i < NX_ACCOUNT_CHAINS; i++) m->accounts[i] = NULL;
  m->waiters = 0;
  atomic_store(&m->tight, 0u);
  atomic_store(&m->refusals, 0);
  atomic_store(&m->bugs, 0);
  nx_slot_set(&m->slot, NXMEM_SLOT_LIVE);
  nx_unlock_all(m);
}

nxmem_result nxmem_manager_create(nxmem_manager *out, nxmem_error *error) {
  if (out == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "create manager: out is NULL");
  nx_fork_watch();
  nx_lanes_prepare();
  if (nx_is_forked()) return nx_manager_unknown(error);
  nx_manager *m = (nx_manager *)(void *)nx_table_take(&nx_managers);
  if (m == NULL) return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "create manager: no memory");
  reset(m);
  nx_follow_mapped();
  out->id = nx_slot_handle(&m->slot);
  return NXMEM_OK;
}

static uint64_t authorities_of(const nx_manager *m) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < NXMEM_MANAGER_AUTHORITIES_MAX; i++) n += m->authorities[i].handle != 0;
  return n;
}

static nxmem_result busy(nxmem_error *error, const char *verb, uint64_t count, const char *what) {
  (void)nx_fail(error, NXMEM_ERR_BUSY, "%s: found %" PRIu64 " %s, needed none", verb, count, what);
  if (error != NULL) error->found = count;
  return NXMEM_ERR_BUSY;
}

/* Holders that are being asked: their contexts are their owners' again once the manager is gone. */
static uint64_t holders_running(const nx_manager *m) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < NXMEM_MANAGER_PRESSURES_MAX; i++) n += m->holders[i].id != 0 ? m->holders[i].running : 0u;
  return n;
}

nxmem_result nxmem_manager_destroy(nxmem_manager manager, nxmem_error *error) {
  nx_manager *m = nx_manager_lock(manager, error);
  if (m == NULL) return none_or_forked();
  const uint64_t left = authorities_of(m), asked = holders_running(m);
  if (left + asked == 0) nx_slot_set(&m->slot, NXMEM_SLOT_RELEASING);
  nx_unlock_all(m);
  if (left != 0) return busy(error, "destroy manager", left, "authorities");
  if (asked != 0) return busy(error, "destroy manager", asked, "holders that are being asked");
  nx_table_give(&nx_managers, &m->slot);
  return NXMEM_OK;
}

/* ---- Authorities ------------------------------------------------------------------------------------------------- */

uint32_t nx_authority_index(nx_manager *m, uint64_t handle) {
  uint32_t i = 0;
  while (i < NXMEM_MANAGER_AUTHORITIES_MAX && (handle == 0 || m->authorities[i].handle != handle)) i++;
  return i;
}

static nxmem_result unknown_authority(nxmem_error *error) {
  return nx_fail(error, NXMEM_ERR_STALE_HANDLE, "the manager keeps no books of that authority");
}

static nxmem_result add_locked(nx_manager *m, uint64_t handle, uint32_t tier, const nxmem_axes *budget,
                               nxmem_error *error) {
  if (nx_authority_index(m, handle) != NXMEM_MANAGER_AUTHORITIES_MAX)
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "add authority: the manager has it already");
  uint32_t i = 0;
  while (i < NXMEM_MANAGER_AUTHORITIES_MAX && m->authorities[i].handle != 0) i++;
  if (i == NXMEM_MANAGER_AUTHORITIES_MAX)
    return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "add authority: the manager has %d already",
                   (int)NXMEM_MANAGER_AUTHORITIES_MAX);
  m->authorities[i] = (nx_authority_books){.handle = handle, .tier = tier, .budget = countable(budget)};
  return NXMEM_OK;
}

nxmem_result nxmem_manager_add_authority(nxmem_manager manager, nxmem_authority authority, uint32_t tier,
                                         const nxmem_axes *budget, nxmem_error *error) {
  if (tier >= NXMEM_MANAGER_TIERS)
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "add authority: found tier %" PRIu32 ", needed below %d", tier,
                   (int)NXMEM_MANAGER_TIERS);
  nxmem_result r = nx_authority_pin(authority, error);
  if (r != NXMEM_OK) return r;
  nx_manager *m = nx_manager_lock(manager, error);
  r = m == NULL ? none_or_forked() : add_locked(m, authority.id, tier, budget == NULL ? &unlimited : budget, error);
  if (m != NULL) nx_unlock_all(m);
  if (r != NXMEM_OK) nx_authority_unpin(authority);
  return r;
}

/* Transactions that are open, and allocations that are live or kept, of one account. All locks are held. */
static uint64_t held_by(const nx_account *account) {
  uint64_t open = 0, live = 0;
  for (uint32_t s = 0; s < NX_STRIPES; s++) {
    open += account->parts[s].open;
    live += account->parts[s].live;
  }
  return open + live + account->quarantined_count;
}

static void drop_account(nx_manager *m, nx_account *account) {
  nx_account **link = &m->accounts[nxmem_handle_slot(account->mechanism) % NX_ACCOUNT_CHAINS];
  while (*link != account) link = &(*link)->next;
  *link = account->next;
  account->mechanism = 0;
  nx_table_give(&nx_accounts, &account->slot);
}

static uint64_t held_under(const nx_manager *m, uint32_t authority) {
  uint64_t held = 0;
  for (nx_account *account = nx_account_after(m, NULL); account != NULL; account = nx_account_after(m, account))
    if (account->authority == authority) held += held_by(account);
  return held;
}

/* Nothing is held under it: what was drawn goes back, and its slice. */
static void remove_locked(nx_manager *m, uint32_t authority) {
  nx_authority_books *a = &m->authorities[authority];
  nxmem_axes share;
  nx_books_gather(m);
  const nxmem_quota quota = nx_books_quota(m, authority);
  nxmem_quota_share(&quota, &share);
  const uint32_t clamped = nxmem_axes_refund(&m->tiers[a->tier].shares, &share);
  if (clamped != 0) nx_add(&m->bugs, clamped);
  nx_account *next = NULL;
  for (nx_account *account = nx_account_after(m, NULL); account != NULL; account = next) {
    next = nx_account_after(m, account);
    if (account->authority == authority) drop_account(m, account);
  }
  a->handle = 0;
  nx_books_tighten(m);
}

nxmem_result nxmem_manager_remove_authority(nxmem_manager manager, nxmem_authority authority, nxmem_error *error) {
  nx_manager *m = nx_manager_lock(manager, error);
  if (m == NULL) return none_or_forked();
  const uint32_t at = nx_authority_index(m, authority.id);
  const int known = at != NXMEM_MANAGER_AUTHORITIES_MAX;
  const uint64_t held = known ? held_under(m, at) : 0;
  if (known && held == 0) remove_locked(m, at);
  nx_unlock_all(m);
  if (!known) return unknown_authority(error);
  if (held != 0) return busy(error, "remove authority", held, "transactions and allocations");
  nx_authority_unpin(authority);
  return NXMEM_OK;
}

/* ---- Limits ------------------------------------------------------------------------------------------------------ */

static void adopt(nx_manager *m, const nxmem_axes *taken, const nxmem_axes *limit, nxmem_axes *beyond_out) {
  nxmem_axes beyond;
  nxmem_quota_beyond(taken, limit, &beyond);
  if (beyond_out != NULL) *beyond_out = beyond;
  nx_books_tighten(m);
}

nxmem_result nxmem_manager_set_limit(nxmem_manager manager, uint32_t tier, const nxmem_axes *limit,
                                     nxmem_axes *beyond_out, nxmem_error *error) {
  if (limit == NULL || tier >= NXMEM_MANAGER_TIERS)
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "set limit: no limit, or tier %" PRIu32 " is unknown", tier);
  nx_manager *m = nx_manager_lock(manager, error);
  if (m == NULL) return none_or_forked();
  nx_books_gather(m);
  m->tiers[tier].limit = countable(limit);
  adopt(m, &m->tiers[tier].taken, &m->tiers[tier].limit, beyond_out);
  nx_unlock_all(m);
  return NXMEM_OK;
}

nxmem_result nxmem_manager_set_budget(nxmem_manager manager, nxmem_authority authority, const nxmem_axes *budget,
                                      nxmem_axes *beyond_out, nxmem_error *error) {
  if (budget == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "set budget: no budget");
  nx_manager *m = nx_manager_lock(manager, error);
  if (m == NULL) return none_or_forked();
  const uint32_t at = nx_authority_index(m, authority.id);
  const int known = at != NXMEM_MANAGER_AUTHORITIES_MAX;
  if (known) {
    nx_books_gather(m);
    m->authorities[at].budget = countable(budget);
    adopt(m, &m->authorities[at].taken, &m->authorities[at].budget, beyond_out);
  }
  nx_unlock_all(m);
  return known ? NXMEM_OK : unknown_authority(error);
}

/* Of what is taken, without what threads have drawn ahead. */
static nxmem_verdict delegate_locked(nx_manager *m, uint32_t at, const nxmem_axes *slice) {
  nx_authority_books *a = &m->authorities[at];
  nx_tier_books *tier = &m->tiers[a->tier];
  nxmem_axes share;
  nx_books_gather(m);
  nxmem_quota quota = nx_books_quota(m, at);
  const nxmem_verdict v = nxmem_check_delegation(&quota, slice);
  if (v.reason != NXMEM_REASON_NONE) return v;
  nxmem_quota_share(&quota, &share);
  uint32_t clamped = nxmem_axes_refund(&tier->shares, &share);
  a->slice = countable(slice);
  a->delegated = 1u;
  quota = nx_books_quota(m, at);
  nxmem_quota_share(&quota, &share);
  clamped += nxmem_axes_add(&tier->shares, &share) ? 0u : 1u;
  if (clamped != 0) nx_add(&m->bugs, clamped);
  nx_books_tighten(m);
  return v;
}

nxmem_result nxmem_manager_delegate(nxmem_manager manager, nxmem_authority authority, const nxmem_axes *slice,
                                    nxmem_error *error) {
  if (slice == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "delegate: no slice");
  nx_manager *m = nx_manager_lock(manager, error);
  if (m == NULL) return none_or_forked();
  const uint32_t at = nx_authority_index(m, authority.id);
  nxmem_verdict v = nx_accepted();
  if (at != NXMEM_MANAGER_AUTHORITIES_MAX) v = delegate_locked(m, at, slice);
  nx_unlock_all(m);
  if (at == NXMEM_MANAGER_AUTHORITIES_MAX) return unknown_authority(error);
  return v.reason == NXMEM_REASON_NONE ? NXMEM_OK : nx_over_limit(v, "delegate", error);
}

/* ---- Accounts ---------------------------------------------------------------------------------------------------- */

static nx_account *fresh_account(nx_manager *m, uint64_t mechanism, uint64_t context, uint32_t authority) {
  nx_account *account = (nx_account *)(void *)nx_table_take(&nx_accounts);
  if (account == NULL) return NULL;
  account->manager = m;
  atomic_store_explicit(&account->owner, nx_slot_handle(&m->slot), memory_order_relaxed);
  account->mechanism = mechanism;
  account->context = context;
  account->authority = authority;
  account->under = m->authorities[authority].handle;
  account->taken = account->quarantined = (nxmem_axes){0, 0, 0};
  account->answers = (nxmem_axes){0, 0, 0};
  account->quarantined_count = account->answers_count = 0;
  for (uint32_t s = 0; s < NX_STRIPES; s++) {
    nx_part_books *part = &account->parts[s];
    part->room = part->apart = part->reserved = (nxmem_axes){0, 0, 0};
    part->open = part->live = 0;
    atomic_store_explicit(&part->open_apart, 0u, memory_order_relaxed);
  }
  nx_slot_set(&account->slot, NXMEM_SLOT_LIVE);
  return account;
}

/* Of mechanisms whose slot this one has now: what was drawn goes back. One that a transaction is still open for stays until another comes here. */
static void drop_predecessors(nx_manager *m, uint64_t mechanism) {
  const uint32_t slot = nxmem_handle_slot(mechanism);
  nx_account *next = NULL;
  nx_books_gather(m);
  for (nx_account *there = m->accounts[slot % NX_ACCOUNT_CHAINS]; there != NULL; there = next) {
    next = there->next;
    if (nxmem_handle_slot(there->mechanism) == slot && held_by(there) == 0) drop_account(m, there);
  }
}

static nxmem_result open_locked(nx_manager *m, uint64_t mechanism, uint64_t context, uint32_t authority,
                                nxmem_error *error) {
  if (nx_account_of(m, mechanism) != NULL) return NXMEM_OK;
  drop_predecessors(m, mechanism);
  nx_account *fresh = fresh_account(m, mechanism, context, authority);
  if (fresh == NULL) return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "reserve: no memory");
  nx_account **chain = &m->accounts[nxmem_handle_slot(mechanism) % NX_ACCOUNT_CHAINS];
  fresh->next = *chain;
  *chain = fresh;
  return NXMEM_OK;
}

nxmem_result nx_account_open(nxmem_manager manager, uint64_t mechanism, uint64_t context, uint64_t authority,
                             nxmem_error *error) {
  nx_manager *m = nx_manager_lock(manager, error);
  if (m == NULL) return none_or_forked();
  const uint32_t at = nx_authority_index(m, authority);
  nxmem_result r = NXMEM_OK;
  if (at != NXMEM_MANAGER_AUTHORITIES_MAX) r = open_locked(m, mechanism, context, at, error);
  nx_unlock_all(m);
  return at == NXMEM_MANAGER_AUTHORITIES_MAX ? unknown_authority(error) : r;
}
