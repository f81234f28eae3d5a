/*
 * manager_books.c: what is taken from the limits, what threads have drawn ahead, and what transactions and allocations hold.
 *
 * Attackers: callers on many threads near a limit; plugins whose answers differ from what was reserved.
 * Promise: each grant is judged by the core, and none goes past a limit; nothing is refused that would fit: before a refusal all room is taken back and the core is asked again.
 */
#include "books.h"
#include "manager.h"
#include "nxmem/handle.h"
#include "nxmem/quota.h"

/* ---- What is taken ----------------------------------------------------------------------------------------------- */

/* A part of the sum that does not fit is a bug of the books, and adopted as far as it goes. */
static void add(nx_manager *m, nxmem_axes *total, const nxmem_axes *part) {
  if (nxmem_axes_add(total, part)) return;
  nx_books_bugs(m, 1u);
  nxmem_axes_adopt(total, part);
}

static void subtract(nx_manager *m, nxmem_axes *total, const nxmem_axes *part) {
  nx_books_bugs(m, nxmem_axes_refund(total, part));
}

nxmem_quota nx_books_quota(nx_manager *m, uint32_t authority) {
  const nx_authority_books *a = &m->authorities[authority];
  const nx_tier_books *tier = &m->tiers[a->tier];
  return (nxmem_quota){.taken = a->taken,
                       .budget = a->budget,
                       .slice = a->slice,
                       .tier_taken = tier->taken,
                       .tier_shares = tier->shares,
                       .tier_limit = tier->limit,
                       .delegated = a->delegated};
}

typedef void (*change_fn)(nx_manager *m, nxmem_axes *total, const nxmem_axes *part);

static void change(nx_manager *m, nx_account *account, const nxmem_axes *by, change_fn by_way_of) {
  nx_authority_books *a = &m->authorities[account->authority];
  nx_tier_books *tier = &m->tiers[a->tier];
  nxmem_axes share;
  nxmem_quota quota = nx_books_quota(m, account->authority);
  nxmem_quota_share(&quota, &share);
  subtract(m, &tier->shares, &share);
  by_way_of(m, &account->taken, by);
  by_way_of(m, &a->taken, by);
  by_way_of(m, &tier->taken, by);
  quota.taken = a->taken;
  nxmem_quota_share(&quota, &share);
  add(m, &tier->shares, &share);
}

void nx_books_grow(nx_manager *m, nx_account *account, const nxmem_axes *by) { change(m, account, by, add); }
void nx_books_shrink(nx_manager *m, nx_account *account, const nxmem_axes *by) { change(m, account, by, subtract); }

static int is_none(const nxmem_axes *axes) { return axes->charged == 0 && axes->physical == 0 && axes->mapped == 0; }

/* The stripe's lock and the bank's are held. */
static void give_room_back(nx_manager *m, nx_account *account, nx_part_books *part) {
  if (is_none(&part->room)) return;
  nx_books_shrink(m, account, &part->room);
  part->room = (nxmem_axes){0, 0, 0};
}

void nx_books_gather(nx_manager *m) {
  for (nx_account *account = nx_account_after(m, NULL); account != NULL; account = nx_account_after(m, account))
    for (uint32_t s = 0; s < NX_STRIPES; s++) give_room_back(m, account, &account->parts[s]);
}

static int is_beyond(const nxmem_axes *taken, const nxmem_axes *limit) {
  nxmem_axes beyond;
  nxmem_quota_beyond(taken, limit, &beyond);
  return !is_none(&beyond);
}

/* The bank's lock is held: from "yes" to "no" it may change at any time, but not back. */
static int is_above_a_limit(const nx_manager *m) {
  for (uint32_t i = 0; i < NXMEM_MANAGER_TIERS; i++)
    if (is_beyond(&m->tiers[i].shares, &m->tiers[i].limit)) return 1;
  for (uint32_t i = 0; i < NXMEM_MANAGER_AUTHORITIES_MAX; i++) {
    const nx_authority_books *a = &m->authorities[i];
    if (a->handle == 0) continue;
    if (is_beyond(&a->taken, &a->budget) || (a->delegated != 0 && is_beyond(&a->taken, &a->slice))) return 1;
  }
  return 0;
}

void nx_books_tighten(nx_manager *m) { atomic_store(&m->tight, (uint32_t)is_above_a_limit(m)); }

/* ---- Granting ---------------------------------------------------------------------------------------------------- */

/* Stripe and bank are locked: what is missing for `ask` becomes room, and a step more where the limits leave it. */
static nxmem_verdict draw(nx_manager *m, nx_account *account, nx_part_books *part, const nxmem_axes *ask) {
  nxmem_axes missing, more;
  const nxmem_quota quota = nx_books_quota(m, account->authority);
  nxmem_quota_beyond(ask, &part->room, &missing);
  const nxmem_verdict v = nxmem_check_reserve(&quota, &missing);
  if (v.reason != NXMEM_REASON_NONE) return v;
  nxmem_quota_step(&quota, &missing, NX_ROOM_STEP, &more);
  if (atomic_load(&m->tight) == 0u) add(m, &missing, &more);
  nx_books_grow(m, account, &missing);
  add(m, &part->room, &missing);
  return v;
}

/* The stripe is locked. Bytes that were granted to `ask` are reserved there. */
static int take_from_room(nx_manager *m, nx_part_books *part, const nxmem_axes *ask) {
  if (!nxmem_axes_take(&part->room, ask)) return 0;
  add(m, &part->reserved, ask);
  return 1;
}

/* The stripe is locked. Others' room counts as used. */
static nxmem_verdict take(nx_manager *m, nx_account *account, uint32_t stripe, const nxmem_axes *ask) {
  nx_part_books *part = &account->parts[stripe];
  if (take_from_room(m, part, ask)) return nx_accepted();
  nx_lock(&m->bank);
  const nxmem_verdict v = draw(m, account, part, ask);
  nx_unlock(&m->bank);
  if (v.reason == NXMEM_REASON_NONE && !take_from_room(m, part, ask)) nx_books_bugs(m, 1u);
  return v;
}

/* All locks are held: exact. Where it is refused, *short_out says by how much. */
static nxmem_verdict take_exactly(nx_manager *m, nx_account *account, uint32_t stripe, const nxmem_axes *ask,
                                  nxmem_axes *short_out) {
  nx_part_books *part = &account->parts[stripe];
  nx_books_gather(m);
  const nxmem_verdict v = draw(m, account, part, ask);
  if (v.reason != NXMEM_REASON_NONE) { /* nothing has changed: the quota is the one that was judged */
    const nxmem_quota quota = nx_books_quota(m, account->authority);
    nx_pressure_shortage(&quota, ask, short_out);
  }
  if (v.reason == NXMEM_REASON_NONE && !take_from_room(m, part, ask)) nx_books_bugs(m, 1u);
  return v;
}

/* ---- Reservations ------------------------------------------------------------------------------------------------ */

/* The stripe is locked, and what was asked for is reserved there. */
static void open_at(nx_charging *k) {
  k->account->parts[k->stripe].open++;
  k->stage = NX_RESERVED;
}

/* NULL: neither manager nor account may have changed since they were looked up without a lock. Unlocked where it is NULL. */
static nx_account *enter_account(nx_manager *m, uint64_t manager, uint64_t mechanism, uint32_t stripe, int *entered) {
  *entered = nx_lane_enter(m, stripe);
  if (nxmem_is_claimable(atomic_load_explicit(&m->slot.word, memory_order_relaxed), manager)) {
    nx_account *account = nx_account_of(m, mechanism);
    if (account != NULL) return account;
  }
  nx_lane_leave(m, stripe, *entered);
  return NULL;
}

static NX_APART nx_grant reserve_exactly(nx_manager *m, uint64_t manager, uint64_t mechanism, nx_charging *k) {
  nx_grant grant = {.known = 0};
  nx_lock_all(m);
  grant.known = nxmem_is_claimable(atomic_load(&m->slot.word), manager) && nx_account_of(m, mechanism) == k->account;
  if (grant.known) grant.verdict = take_exactly(m, k->account, k->stripe, &k->held, &grant.shortage);
  if (grant.known && grant.verdict.reason == NXMEM_REASON_NONE) open_at(k);
  nx_unlock_all(m);
  return grant;
}

nx_grant nx_charge_reserve(nx_manager *m, uint64_t manager, uint64_t mechanism, uint64_t authority, nx_charging *k) {
  nx_grant grant = {.known = 0};
  int entered = 0;
  k->stage = NX_NOTHING;
  k->stripe = nx_thread_self()->stripe;
  k->account = enter_account(m, manager, mechanism, k->stripe, &entered);
  if (k->account == NULL) return grant;
  grant.known = m->authorities[k->account->authority].handle == authority;
  if (grant.known) grant.verdict = take(m, k->account, k->stripe, &k->held);
  if (grant.known && grant.verdict.reason == NXMEM_REASON_NONE) open_at(k);
  nx_lane_leave(m, k->stripe, entered);
  if (!grant.known || grant.verdict.reason == NXMEM_REASON_NONE) return grant;
  return reserve_exactly(m, manager, mechanism, k);
}

/* Where all is as it is nearly always: known, room enough, and no call of this thread in the middle of another. */
int nx_charge_reserve_apart(nx_manager *m, uint64_t manager, uint64_t mechanism, uint64_t authority, nx_charging *k) {
  int entered = 0, done = 0;
  k->stage = NX_NOTHING;
  k->stripe = nx_thread_self()->stripe;
  k->account = enter_account(m, manager, mechanism, k->stripe, &entered);
  if (k->account == NULL) return 0;
  nx_part_books *part = &k->account->parts[k->stripe];
  if (k->account->under == authority && atomic_load_explicit(&part->open_apart, memory_order_relaxed) == 0u &&
      nxmem_axes_take(&part->room, &k->held)) {
    part->apart = k->held;
    part->live++;
    atomic_store_explicit(&part->open_apart, 1u, memory_order_relaxed);
    k->apart = 1;
    k->stage = NX_RESERVED;
    done = 1;
  }
  nx_lane_leave(m, k->stripe, entered);
  return done;
}

/* The stripe is locked. From now on it is one of all. */
static void join_others(nx_manager *m, nx_charging *k) {
  nx_part_books *part = &k->account->parts[k->stripe];
  if (!k->apart) return;
  k->apart = 0;
  atomic_store_explicit(&part->open_apart, 0u, memory_order_relaxed);
  part->live--;
  part->open++;
  add(m, &part->reserved, &k->held);
}

/* ---- Commit and publication: an open transaction keeps its account and its manager --------------------------------- */

/* The stripe is locked. Room of a part goes back where there is too much, or where nobody may keep any. */
static void trim(nx_manager *m, nx_account *account, nx_part_books *part) {
  const nxmem_axes *room = &part->room;
  const int loose = atomic_load_explicit(&m->tight, memory_order_relaxed) == 0u;
  if (loose && room->charged <= NX_ROOM_MOST && room->physical <= NX_ROOM_MOST && room->mapped <= NX_ROOM_MOST) return;
  nx_lock(&m->bank);
  give_room_back(m, account, part);
  if (!loose && !is_above_a_limit(m)) atomic_store(&m->tight, 0u);
  nx_unlock(&m->bank);
}

static int is_same(const nxmem_axes *a, const nxmem_axes *b) {
  return a->charged == b->charged && a->physical == b->physical && a->mapped == b->mapped;
}

/* The lane is entered; it was left and entered again where all locks were needed. */
static nxmem_verdict take_more(nx_manager *m, nx_account *account, uint32_t stripe, const nxmem_axes *more,
                               int *entered, nxmem_axes *short_out) {
  nxmem_verdict v = take(m, account, stripe, more);
  if (v.reason == NXMEM_REASON_NONE) return v;
  nx_lane_leave(m, stripe, *entered);
  nx_lock_all(m);
  v = take_exactly(m, account, stripe, more, short_out);
  nx_unlock_all(m);
  *entered = nx_lane_enter(m, stripe);
  return v;
}

/* The stripe is locked, and what is missing is reserved already. */
static void take_over(nx_manager *m, nx_charging *k, const nxmem_axes *spare) {
  nx_part_books *part = &k->account->parts[k->stripe];
  subtract(m, &part->reserved, spare);
  add(m, &part->room, spare);
  k->held = k->answered;
  k->stage = NX_COMMITTED;
  trim(m, k->account, part);
}

static nxmem_verdict commit_other(nx_manager *m, nx_charging *k, int *entered, nxmem_axes *short_out) {
  nxmem_axes more, spare;
  nxmem_settle_commit(&k->held, &k->answered, &more, &spare);
  const nxmem_verdict v = take_more(m, k->account, k->stripe, &more, entered, short_out);
  if (v.reason == NXMEM_REASON_NONE) take_over(m, k, &spare);
  return v;
}

/* The stripe is locked: reserved no more, but live. */
static void publish(nx_manager *m, nx_charging *k) {
  nx_part_books *part = &k->account->parts[k->stripe];
  subtract(m, &part->reserved, &k->held);
  part->open--;
  part->live++;
  k->stage = NX_PUBLISHED;
}

nxmem_verdict nx_charge_commit(nx_charging *k, int and_publish, nxmem_axes *short_out) {
  nx_manager *m = k->account->manager;
  int entered = nx_lane_enter(m, k->stripe);
  nxmem_verdict v = nx_accepted();
  join_others(m, k);
  if (is_same(&k->held, &k->answered))
    k->stage = NX_COMMITTED;
  else
    v = commit_other(m, k, &entered, short_out);
  if (and_publish && v.reason == NXMEM_REASON_NONE) publish(m, k);
  nx_lane_leave(m, k->stripe, entered);
  return v;
}

void nx_charge_publish(nx_charging *k) {
  nx_manager *m = k->account->manager;
  const int entered = nx_lane_enter(m, k->stripe);
  join_others(m, k);
  publish(m, k);
  nx_lane_leave(m, k->stripe, entered);
}

/* What it has is what it reserved: it counts as live already. */
static void publish_apart(nx_charging *k) {
  atomic_store_explicit(&k->account->parts[k->stripe].open_apart, 0u, memory_order_release);
  k->apart = 0;
  k->stage = NX_PUBLISHED;
}

static void put(_Atomic uint64_t *field, uint64_t value) { atomic_store_explicit(field, value, memory_order_relaxed); }
static uint64_t get(_Atomic uint64_t *field) { return atomic_load_explicit(field, memory_order_relaxed); }

static void put_axes(nx_side *side, const nxmem_axes *axes) {
  put(&side->charged, axes->charged);
  put(&side->physical, axes->physical);
  put(&side->mapped, axes->mapped);
}

static nxmem_axes axes_of(nx_side *side) {
  return (nxmem_axes){get(&side->charged), get(&side->physical), get(&side->mapped)};
}

nxmem_slot_state nx_charging_made(nx_charging *k, nx_side *side, uint64_t owned, uint64_t mapped) {
  k->answered = (nxmem_axes){.charged = k->held.charged, .physical = owned, .mapped = mapped};
  k->stage = NX_ALLOCATED;
  atomic_store_explicit(&side->account, k->account, memory_order_relaxed);
  put_axes(side, &k->answered);
  if (k->apart && is_same(&k->held, &k->answered)) {
    publish_apart(k);
    return NXMEM_SLOT_LIVE;
  }
  nxmem_axes shortage;
  if (!k->at_once || nx_charge_commit(k, 1, &shortage).reason != NXMEM_REASON_NONE) return NXMEM_SLOT_ALLOCATING;
  return NXMEM_SLOT_LIVE;
}

void nx_books_unreserve(nx_charging *k) {
  nx_manager *m = k->account->manager;
  nx_part_books *part = &k->account->parts[k->stripe];
  join_others(m, k);
  part->open--;
  subtract(m, &part->reserved, &k->held);
  add(m, &part->room, &k->held);
}

/* Reserved no more: room again. */
void nx_charge_cancel(nx_charging *k) {
  nx_account *account = k->account;
  nx_manager *m = account->manager;
  const int entered = nx_lane_enter(m, k->stripe);
  nx_books_unreserve(k);
  trim(m, account, &account->parts[k->stripe]);
  nx_lane_leave(m, k->stripe, entered);
}

void nx_charge_withdraw(nx_charging *k, nx_side *side) {
  put_axes(side, &k->held);
  atomic_store_explicit(&side->withdrawn, 1u, memory_order_relaxed);
  nx_charge_publish(k);
  k->stage = NX_WITHDRAWN;
}

/* ---- What is mapped later ------------------------------------------------------------------------------------------ */

/* Granted, it is live at once: used, and reserved by nobody. */
nxmem_verdict nx_charge_map(nx_account *account, nx_side *side, uint64_t bytes, nxmem_axes *short_out) {
  nx_manager *m = account->manager;
  const nxmem_axes ask = {0, 0, bytes};
  const uint32_t stripe = nx_thread_self()->stripe;
  int entered = nx_lane_enter(m, stripe);
  const nxmem_verdict v = take_more(m, account, stripe, &ask, &entered, short_out);
  if (v.reason == NXMEM_REASON_NONE) {
    subtract(m, &account->parts[stripe].reserved, &ask);
    atomic_fetch_add(&side->mapped, bytes);
  }
  nx_lane_leave(m, stripe, entered);
  return v;
}

/* No more than is counted of it. */
static uint64_t take_mapped(nx_side *side, uint64_t bytes) {
  uint64_t there = get(&side->mapped), taken;
  do taken = bytes < there ? bytes : there;
  while (!atomic_compare_exchange_weak(&side->mapped, &there, there - taken));
  return taken;
}

void nx_charge_unmap(nx_account *account, nx_side *side, uint64_t bytes) {
  nx_manager *m = account->manager;
  const uint32_t stripe = nx_thread_self()->stripe;
  nx_part_books *part = &account->parts[stripe];
  const int entered = nx_lane_enter(m, stripe);
  const nxmem_axes back = {0, 0, take_mapped(side, bytes)};
  add(m, &part->room, &back);
  trim(m, account, part);
  nx_lane_leave(m, stripe, entered);
}

void nx_charge_adopt(nx_account *account, nx_side *side, uint64_t bytes) {
  nx_manager *m = account->manager;
  nxmem_axes more = {0, 0, bytes};
  nx_lock_all(m);
  nx_books_gather(m);
  nx_books_countable(m, account, &more);
  nx_books_grow(m, account, &more);
  atomic_fetch_add(&side->mapped, more.mapped);
  nx_books_tighten(m);
  nx_unlock_all(m);
}

/* ---- Ends: the record is the caller's, and still there -------------------------------------------------------------- */

/* In the lane, so that whoever waits has been counted by now, or finds the word. */
static void show(nx_side *side, uint64_t id, nxmem_slot_state state) {
  const uint64_t word = nxmem_word_make(nxmem_handle_generation(id), 0u, (uint32_t)state);
  atomic_store_explicit(&side->word, word, memory_order_release);
}

/* Who waits for a release looks again. */
static void leave_and_wake(nx_manager *m, uint32_t stripe, int entered) {
  const int wake = m->waiters != 0;
  nx_lane_leave(m, stripe, entered);
  if (wake) nx_wake_waiters();
}

void nx_charge_refund(nx_account *account, nx_side *side, uint64_t id) {
  nx_manager *m = account->manager;
  const nxmem_axes held = axes_of(side);
  const uint32_t stripe = nx_thread_self()->stripe;
  nx_part_books *part = &account->parts[stripe];
  const int entered = nx_lane_enter(m, stripe);
  part->live--;
  add(m, &part->room, &held);
  trim(m, account, part);
  show(side, id, NXMEM_SLOT_FREE);
  leave_and_wake(m, stripe, entered);
}

/* The bank is locked. */
static void quarantine(nx_manager *m, nx_account *account, nx_side *side, uint64_t id) {
  const nxmem_axes held = axes_of(side);
  add(m, &account->quarantined, &held);
  account->quarantined_count++;
  show(side, id, NXMEM_SLOT_QUARANTINED);
}

/* What it takes is there, whatever the limits say. */
static NX_APART void keep_withdrawn(nx_account *account, nx_side *side, uint64_t id) {
  nx_manager *m = account->manager;
  nx_allocation *record = nx_allocation_of(id);
  nxmem_axes more, spare;
  const nxmem_axes held = axes_of(side);
  nxmem_axes there = {held.charged, nx_books_owned_of(record), nx_books_mapped_of(record)};
  nxmem_settle_commit(&held, &there, &more, &spare);
  nx_lock_all(m);
  account->parts[nx_thread_self()->stripe].live--;
  nx_books_gather(m);
  nx_books_shrink(m, account, &spare);
  nx_books_countable(m, account, &more);
  nx_books_grow(m, account, &more);
  there = held;
  subtract(m, &there, &spare);
  add(m, &there, &more);
  put_axes(side, &there);
  quarantine(m, account, side, id);
  nx_books_tighten(m);
  const int wake = m->waiters != 0;
  nx_unlock_all(m);
  if (wake) nx_wake_waiters();
}

void nx_charge_keep(nx_account *account, nx_side *side, uint64_t id) {
  nx_manager *m = account->manager;
  if (atomic_load_explicit(&side->withdrawn, memory_order_relaxed) != 0u) {
    keep_withdrawn(account, side, id);
    return;
  }
  const uint32_t stripe = nx_thread_self()->stripe;
  const int entered = nx_lane_enter(m, stripe);
  account->parts[stripe].live--;
  nx_lock(&m->bank);
  quarantine(m, account, side, id);
  nx_unlock(&m->bank);
  leave_and_wake(m, stripe, entered);
}

void nx_charge_forget(nx_account *account, nx_side *side, uint64_t id) {
  nx_manager *m = account->manager;
  const nxmem_axes held = axes_of(side);
  const uint32_t stripe = nx_thread_self()->stripe;
  const int entered = nx_lane_enter(m, stripe);
  nx_lock(&m->bank);
  subtract(m, &account->quarantined, &held);
  account->quarantined_count--;
  nx_books_shrink(m, account, &held);
  if (atomic_load(&m->tight) != 0u && !is_above_a_limit(m)) atomic_store(&m->tight, 0u);
  nx_unlock(&m->bank);
  show(side, id, NXMEM_SLOT_FREE);
  leave_and_wake(m, stripe, entered);
}
