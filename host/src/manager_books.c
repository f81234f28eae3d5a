/*
 * manager_books.c: what is taken from the limits, what threads have drawn ahead, and what charges hold.
 *
 * Attackers: callers on many threads near a limit; plugins whose answers differ from what was reserved.
 * Promise: each grant is judged by the core, and none goes past a limit; nothing is refused that would fit: before a refusal all room is taken back and the core is asked again.
 */
#include "manager.h"
#include "nxmem/handle.h"
#include "nxmem/quota.h"

/* ---- What is taken ----------------------------------------------------------------------------------------------- */

static void count_bugs(nx_manager *m, uint32_t bugs) {
  if (bugs != 0) nx_add(&m->bugs, bugs);
}

/* A part of the sum that does not fit is a bug of the books, and adopted as far as it goes. */
static void add(nx_manager *m, nxmem_axes *total, const nxmem_axes *part) {
  if (nxmem_axes_add(total, part)) return;
  count_bugs(m, 1u);
  nxmem_axes_adopt(total, part);
}

static void subtract(nx_manager *m, nxmem_axes *total, const nxmem_axes *part) {
  count_bugs(m, nxmem_axes_refund(total, part));
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
  if (v.reason == NXMEM_REASON_NONE && !take_from_room(m, part, ask)) count_bugs(m, 1u);
  return v;
}

/* All locks are held: exact. */
static nxmem_verdict take_exactly(nx_manager *m, nx_account *account, uint32_t stripe, const nxmem_axes *ask) {
  nx_part_books *part = &account->parts[stripe];
  nx_books_gather(m);
  const nxmem_verdict v = draw(m, account, part, ask);
  if (v.reason == NXMEM_REASON_NONE && !take_from_room(m, part, ask)) count_bugs(m, 1u);
  return v;
}

/* ---- Charges ----------------------------------------------------------------------------------------------------- */

/* The stripe is locked. */
static nx_charge *take_charge(nx_lane *lane) {
  if (lane->cached == 0u) lane->cached = nx_table_take_some(&nx_charges, lane->cache, NX_BATCH);
  if (lane->cached == 0u) return NULL;
  return (nx_charge *)(void *)lane->cache[--lane->cached];
}

static void give_charge(nx_lane *lane, nx_charge *charge) {
  if (!nx_slot_free(&charge->slot)) return;
  if (lane->cached == NX_CHARGE_CACHE) {
    lane->cached -= NX_BATCH;
    nx_table_put_back(&nx_charges, lane->cache + lane->cached, NX_BATCH);
  }
  lane->cache[lane->cached++] = &charge->slot;
}

/* What stands between a request and its stripe. */
typedef struct opening {
  nx_manager *manager;
  nx_account *account;
  uint32_t stripe;
  nxmem_axes ask;
} opening;

/* The stripe is locked, and what was asked for is reserved there; without memory it is room again. */
static nx_charge *open_charge(const opening *o) {
  nx_part_books *part = &o->account->parts[o->stripe];
  nx_charge *c = take_charge(&o->manager->lanes[o->stripe]);
  if (c == NULL) {
    subtract(o->manager, &part->reserved, &o->ask);
    add(o->manager, &part->room, &o->ask);
    return NULL;
  }
  atomic_store_explicit(&c->manager, nx_slot_handle(&o->manager->slot), memory_order_relaxed);
  c->account = o->account;
  c->stripe = o->stripe;
  c->stage = NX_RESERVED;
  c->held = o->ask;
  c->answered = (nxmem_axes){0, 0, 0};
  c->steps = NULL;
  atomic_store_explicit(&c->later, 0, memory_order_relaxed);
  part->open++;
  nx_slot_set(&c->slot, NXMEM_SLOT_RELEASING);
  return c;
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

nx_charge *nx_charge_reserve(nx_manager *m, uint64_t manager, uint64_t mechanism, uint64_t authority,
                             const nxmem_axes *ask, nx_grant *grant) {
  opening o = {.manager = m, .stripe = nx_thread_self()->stripe, .ask = *ask};
  nx_charge *c = NULL;
  grant->known = 0;
  grant->verdict = nx_accepted();
  int entered = 0;
  o.account = enter_account(m, manager, mechanism, o.stripe, &entered);
  if (o.account == NULL) return NULL;
  grant->known = m->authorities[o.account->authority].handle == authority;
  if (grant->known) grant->verdict = take(m, o.account, o.stripe, ask);
  if (grant->known && grant->verdict.reason == NXMEM_REASON_NONE) c = open_charge(&o);
  nx_lane_leave(m, o.stripe, entered);
  if (!grant->known || grant->verdict.reason == NXMEM_REASON_NONE) return c;

  nx_lock_all(m);
  grant->known = nxmem_is_claimable(atomic_load(&m->slot.word), manager) && nx_account_of(m, mechanism) == o.account;
  if (grant->known) grant->verdict = take_exactly(m, o.account, o.stripe, ask);
  if (grant->known && grant->verdict.reason == NXMEM_REASON_NONE) c = open_charge(&o);
  nx_unlock_all(m);
  return c;
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

/* The stripe is locked, and `more` is reserved already. */
static void take_over(nx_manager *m, nx_charge *c, const nxmem_axes *spare) {
  nx_part_books *part = &c->account->parts[c->stripe];
  subtract(m, &part->reserved, spare);
  add(m, &part->room, spare);
  c->held = c->answered;
  c->stage = NX_COMMITTED;
  trim(m, c->account, part);
}

static void publish(nx_manager *m, nx_charge *c) {
  nx_part_books *part = &c->account->parts[c->stripe];
  subtract(m, &part->reserved, &c->held);
  part->open--;
  part->live++;
  c->stage = NX_PUBLISHED;
  nx_slot_set(&c->slot, NXMEM_SLOT_LIVE);
}

static int is_same(const nxmem_axes *a, const nxmem_axes *b) {
  return a->charged == b->charged && a->physical == b->physical && a->mapped == b->mapped;
}

/* The lane is entered; it was left and entered again where all locks were needed. */
static nxmem_verdict take_more(nx_manager *m, nx_account *account, uint32_t stripe, const nxmem_axes *more,
                               int *entered) {
  nxmem_verdict v = take(m, account, stripe, more);
  if (v.reason == NXMEM_REASON_NONE) return v;
  nx_lane_leave(m, stripe, *entered);
  nx_lock_all(m);
  v = take_exactly(m, account, stripe, more);
  nx_unlock_all(m);
  *entered = nx_lane_enter(m, stripe);
  return v;
}

static nxmem_verdict commit_other(nx_manager *m, nx_charge *c, int *entered) {
  nxmem_axes more, spare;
  nxmem_settle_commit(&c->held, &c->answered, &more, &spare);
  const nxmem_verdict v = take_more(m, c->account, c->stripe, &more, entered);
  if (v.reason == NXMEM_REASON_NONE) take_over(m, c, &spare);
  return v;
}

nxmem_verdict nx_charge_commit(nx_charge *c, int and_publish) {
  nx_manager *m = c->account->manager;
  int entered = nx_lane_enter(m, c->stripe);
  nxmem_verdict v = nx_accepted();
  if (is_same(&c->held, &c->answered))
    c->stage = NX_COMMITTED;
  else
    v = commit_other(m, c, &entered);
  if (and_publish && v.reason == NXMEM_REASON_NONE) publish(m, c);
  nx_lane_leave(m, c->stripe, entered);
  return v;
}

void nx_charge_publish(nx_charge *c) {
  nx_manager *m = c->account->manager;
  const uint32_t stripe = c->stripe;
  const int entered = nx_lane_enter(m, stripe);
  publish(m, c);
  nx_lane_leave(m, stripe, entered);
}

/* ---- What is mapped later ------------------------------------------------------------------------------------------ */

uint64_t nx_charge_authority(const nx_charge *c) {
  return c->account->manager->authorities[c->account->authority].handle;
}

uint64_t nx_charge_mapped(nx_charge *c) { return c->held.mapped + atomic_load(&c->later); }

/* Granted, it is live at once: used, and reserved by nobody. */
nxmem_verdict nx_charge_map(nx_charge *c, uint64_t bytes) {
  nx_account *account = c->account;
  nx_manager *m = account->manager;
  const nxmem_axes ask = {0, 0, bytes};
  const uint32_t stripe = nx_thread_self()->stripe;
  nx_part_books *part = &account->parts[stripe];
  int entered = nx_lane_enter(m, stripe);
  const nxmem_verdict v = take_more(m, account, stripe, &ask, &entered);
  if (v.reason == NXMEM_REASON_NONE) {
    subtract(m, &part->reserved, &ask);
    atomic_fetch_add(&c->later, bytes);
  }
  nx_lane_leave(m, stripe, entered);
  return v;
}

void nx_charge_unmap(nx_charge *c, uint64_t bytes) {
  nx_account *account = c->account;
  nx_manager *m = account->manager;
  const nxmem_axes back = {0, 0, bytes};
  const uint32_t stripe = nx_thread_self()->stripe;
  nx_part_books *part = &account->parts[stripe];
  const int entered = nx_lane_enter(m, stripe);
  atomic_fetch_sub(&c->later, bytes);
  add(m, &part->room, &back);
  trim(m, account, part);
  nx_lane_leave(m, stripe, entered);
}

void nx_charge_adopt(nx_charge *c, uint64_t bytes) {
  nx_manager *m = c->account->manager;
  const nxmem_axes more = {0, 0, bytes};
  nx_lock_all(m);
  nx_books_gather(m);
  nx_books_grow(m, c->account, &more);
  atomic_fetch_add(&c->later, bytes);
  nx_books_tighten(m);
  nx_unlock_all(m);
}

/* ---- Ends -------------------------------------------------------------------------------------------------------- */

/* Who waits for a release looks again. */
static void leave_and_wake(nx_manager *m, uint32_t stripe, int entered) {
  const int wake = m->waiters != 0;
  nx_lane_leave(m, stripe, entered);
  if (wake) nx_wake_waiters();
}

void nx_charge_refund(nx_charge *c) {
  nx_account *account = c->account;
  nx_manager *m = account->manager;
  const int published = c->stage == NX_PUBLISHED;
  c->held.mapped = nx_charge_mapped(c);
  const uint32_t stripe = published ? nx_thread_self()->stripe : c->stripe;
  nx_part_books *part = &account->parts[stripe];
  const int entered = nx_lane_enter(m, stripe);
  if (published)
    part->live--;
  else
    part->open--;
  if (!published) subtract(m, &part->reserved, &c->held);
  add(m, &part->room, &c->held);
  trim(m, account, part);
  give_charge(&m->lanes[stripe], c);
  leave_and_wake(m, stripe, entered);
}

/* The bank is locked. */
static void quarantine(nx_manager *m, nx_charge *c) {
  add(m, &c->account->quarantined, &c->held);
  c->account->quarantined_count++;
  nx_slot_set(&c->slot, NXMEM_SLOT_QUARANTINED);
}

/* What it takes is there, whatever the limits say. */
static void keep_unpublished(nx_manager *m, nx_charge *c) {
  nx_part_books *part = &c->account->parts[c->stripe];
  nxmem_axes more, spare;
  nxmem_settle_commit(&c->held, &c->answered, &more, &spare);
  nx_lock_all(m);
  subtract(m, &part->reserved, &c->held);
  part->open--;
  nx_books_gather(m);
  nx_books_grow(m, c->account, &more);
  nx_books_shrink(m, c->account, &spare);
  c->held = c->answered;
  quarantine(m, c);
  nx_books_tighten(m);
  const int wake = m->waiters != 0;
  nx_unlock_all(m);
  if (wake) nx_wake_waiters();
}

void nx_charge_keep(nx_charge *c) {
  nx_manager *m = c->account->manager;
  if (c->stage != NX_PUBLISHED) {
    keep_unpublished(m, c);
    return;
  }
  c->held.mapped = nx_charge_mapped(c);
  const uint32_t stripe = nx_thread_self()->stripe;
  const int entered = nx_lane_enter(m, stripe);
  c->account->parts[stripe].live--;
  nx_lock(&m->bank);
  quarantine(m, c);
  nx_unlock(&m->bank);
  leave_and_wake(m, stripe, entered);
}

void nx_charge_forget(nx_charge *c) {
  nx_manager *m = c->account->manager;
  const uint32_t stripe = nx_thread_self()->stripe;
  const int entered = nx_lane_enter(m, stripe);
  nx_lock(&m->bank);
  subtract(m, &c->account->quarantined, &c->held);
  c->account->quarantined_count--;
  nx_books_shrink(m, c->account, &c->held);
  if (atomic_load(&m->tight) != 0u && !is_above_a_limit(m)) atomic_store(&m->tight, 0u);
  nx_unlock(&m->bank);
  give_charge(&m->lanes[stripe], c);
  leave_and_wake(m, stripe, entered);
}
