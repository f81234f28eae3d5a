/*
 * manager_pressure.c: asking for bytes back, before a limit refuses.
 *
 * Attackers: holders that say they gave what they did not, that call back, or that are removed meanwhile; plugins that ask for ever more.
 * Promise: they are asked for one authority at a time, in the order of their priority, each once, with no lock held; what they say decides only whether the next is asked.
 */
#include "error.h"
#include "manager.h"
#include "nxmem/handle.h"
#include "nxmem/quota.h"

/* In a holder's function: what it allocates asks nobody again. */
static _Thread_local int asking;

static nxmem_axes least_of(const nxmem_axes *wanted, const nxmem_axes *given) {
  nxmem_axes beyond, believed = *given;
  nxmem_quota_beyond(given, wanted, &beyond);
  (void)nxmem_axes_take(&believed, &beyond);
  return believed;
}

static int is_met(const nxmem_axes *wanted) {
  return wanted->charged == 0 && wanted->physical == 0 && wanted->mapped == 0;
}

/* ---- Holders ----------------------------------------------------------------------------------------------------- */

static uint32_t holders_of(const nx_manager *m) {
  uint32_t n = 0;
  while (n < NXMEM_MANAGER_PRESSURES_MAX && m->holders[n].id != 0) n++;
  return n;
}

/* Who asks: of the holders that were there when it began. */
typedef struct asker {
  nx_manager *manager;
  uint64_t handle; /* the manager's: where it is gone meanwhile, nobody is asked any more */
  uint64_t authority;
  uint64_t newest; /* id */
} asker;

/* The first behind `last` in the order in which they are asked; ones that go meanwhile shift nobody: each has its id. The bank is locked. */
static int next_holder(const asker *by, const nx_holder *last, nx_holder *out) {
  nx_manager *m = by->manager;
  if (!nxmem_is_claimable(atomic_load(&m->slot.word), by->handle)) return 0;
  const uint32_t n = holders_of(m);
  for (uint32_t i = 0; i < n; i++) {
    const nx_holder *h = &m->holders[i];
    const int behind =
        last->id == 0 || h->priority < last->priority || (h->priority == last->priority && h->id > last->id);
    if (!behind || h->id > by->newest) continue;
    m->holders[i].running++;
    *out = m->holders[i];
    return 1;
  }
  return 0;
}

static void holder_returned(nx_manager *m, uint64_t id) {
  nx_lock(&m->bank);
  for (uint32_t i = 0; i < NXMEM_MANAGER_PRESSURES_MAX; i++)
    if (m->holders[i].id == id) m->holders[i].running--;
  nx_unlock(&m->bank);
}

static asker asker_of(nx_manager *m, uint64_t manager, uint64_t authority) {
  nx_lock(&m->bank);
  const asker by = {m, manager, authority, m->holder_ids};
  nx_unlock(&m->bank);
  return by;
}

/* Each once for this authority, until all is given. *wanted becomes what is not. */
static nxmem_axes ask_for(const asker *by, uint64_t authority, nxmem_axes *wanted) {
  nx_manager *m = by->manager;
  nxmem_axes left = *wanted, all = {0, 0, 0};
  nx_holder holder = {0};
  asking = 1;
  while (!is_met(&left)) {
    nx_lock(&m->bank);
    const nx_holder last = holder;
    const int found = next_holder(by, &last, &holder);
    nx_unlock(&m->bank);
    if (!found) break;
    nxmem_axes given = {0, 0, 0};
    holder.fn(holder.ctx, (nxmem_authority){authority}, &left, &given);
    holder_returned(m, holder.id);
    const nxmem_axes believed = least_of(&left, &given);
    (void)nxmem_axes_take(&left, &believed);
    nxmem_axes_adopt(&all, &believed);
  }
  asking = 0;
  *wanted = left;
  return all;
}

static nxmem_axes ask_holders(nx_manager *m, uint64_t manager, uint64_t authority, const nxmem_axes *wanted) {
  const asker by = asker_of(m, manager, authority);
  nxmem_axes left = *wanted;
  return ask_for(&by, authority, &left);
}

/* ---- Who fills a tier -------------------------------------------------------------------------------------------- */

/*
 * Another authority of the asker's tier whose bytes are what the process limit counts: a slice is counted as a whole, however little of it is taken, but where the asker has a slice itself. The bank
 * is locked.
 */
static int fills_its_limit(nx_manager *m, uint32_t which, uint32_t askers) {
  const nx_authority_books *a = &m->authorities[which], *own = &m->authorities[askers];
  if (which == askers || a->handle == 0 || a->tier != own->tier) return 0;
  return a->delegated == 0 || own->delegated != 0;
}

/* 0: none there any more, or the manager is another's, or the asker is in its books no more. */
static uint64_t other_at(const asker *by, uint32_t which) {
  nx_manager *m = by->manager;
  uint64_t found = 0;
  nx_lock(&m->bank);
  const uint32_t askers = nx_authority_index(m, by->authority);
  const int there = nxmem_is_claimable(atomic_load(&m->slot.word), by->handle);
  if (there && askers != NXMEM_MANAGER_AUTHORITIES_MAX && fills_its_limit(m, which, askers))
    found = m->authorities[which].handle;
  nx_unlock(&m->bank);
  return found;
}

static void ask_for_others(const asker *by, nxmem_axes *left) {
  for (uint32_t i = 0; i < NXMEM_MANAGER_AUTHORITIES_MAX && !is_met(left); i++) {
    const uint64_t other = other_at(by, i);
    if (other != 0) (void)ask_for(by, other, left);
  }
}

/* ---- What a refusal asks for ------------------------------------------------------------------------------------- */

/* An axis on which nothing is refused is not short, though a lowered limit may be below what is taken there. */
static nxmem_axes short_of(const nxmem_axes *ask, const nxmem_axes *taken, const nxmem_axes *limit) {
  nxmem_axes left, over, beyond;
  nxmem_quota_beyond(limit, taken, &left);
  nxmem_quota_beyond(taken, limit, &over);
  nxmem_quota_beyond(ask, &left, &beyond);
  if (beyond.charged == 0) over.charged = 0;
  if (beyond.physical == 0) over.physical = 0;
  if (beyond.mapped == 0) over.mapped = 0;
  nxmem_axes_adopt(&over, &beyond);
  return over;
}

static void raise_to(nxmem_axes *most, nxmem_axes other) {
  nxmem_axes more;
  nxmem_quota_beyond(&other, most, &more);
  nxmem_axes_adopt(most, &more);
}

void nx_pressure_shortage(const nxmem_quota *q, const nxmem_axes *ask, nxmem_axes *out) {
  *out = short_of(ask, &q->taken, &q->budget);
  if (q->delegated != 0) raise_to(out, short_of(ask, &q->taken, &q->slice));
  raise_to(out, short_of(ask, q->delegated != 0 ? &q->tier_taken : &q->tier_shares, &q->tier_limit));
}

int nx_pressure_relieves(nx_manager *m, uint64_t manager, uint64_t authority, const nxmem_verdict *refusal,
                         const nxmem_axes *shortage) {
  if (asking || refusal->reason == NXMEM_REASON_NONE) return 0;
  const asker by = asker_of(m, manager, authority);
  nxmem_axes left = *shortage;
  (void)ask_for(&by, authority, &left);
  if (refusal->reason == NXMEM_REASON_OVER_PROCESS_LIMIT) ask_for_others(&by, &left);
  return 1;
}

/* ---- Adding and removing ----------------------------------------------------------------------------------------- */

static nxmem_result too_many(nxmem_error *error) {
  return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "add pressure: the manager has %d already",
                 (int)NXMEM_MANAGER_PRESSURES_MAX);
}

static uint64_t insert(nx_manager *m, const nx_holder *fresh) {
  uint32_t at = holders_of(m);
  if (at == NXMEM_MANAGER_PRESSURES_MAX) return 0;
  for (; at > 0 && m->holders[at - 1u].priority < fresh->priority; at--) m->holders[at] = m->holders[at - 1u];
  m->holders[at] = *fresh;
  m->holders[at].id = ++m->holder_ids;
  return m->holders[at].id;
}

nxmem_result nxmem_manager_add_pressure(nxmem_manager manager, nxmem_pressure_fn fn, void *ctx, int32_t priority,
                                        nxmem_pressure *out, nxmem_error *error) {
  if (fn == NULL || out == NULL)
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "add pressure: function or out is NULL");
  nx_manager *m = nx_manager_lock(manager, error);
  if (m == NULL) return nx_is_forked() ? NXMEM_ERR_FORKED : NXMEM_ERR_STALE_HANDLE;
  const nx_holder fresh = {.fn = fn, .ctx = ctx, .priority = priority};
  const uint64_t id = insert(m, &fresh);
  nx_unlock_all(m);
  if (id == 0) return too_many(error);
  out->id = id;
  return NXMEM_OK;
}

/* 1: gone. 0: not there. -1: it runs. */
static int take_out(nx_manager *m, uint64_t id) {
  const uint32_t n = holders_of(m);
  uint32_t at = 0;
  while (at < n && m->holders[at].id != id) at++;
  if (at == n) return 0;
  if (m->holders[at].running != 0) return -1;
  for (; at + 1u < n; at++) m->holders[at] = m->holders[at + 1u];
  m->holders[n - 1u].id = 0;
  return 1;
}

nxmem_result nxmem_manager_remove_pressure(nxmem_manager manager, nxmem_pressure pressure, nxmem_error *error) {
  nx_manager *m = nx_manager_lock(manager, error);
  if (m == NULL) return nx_is_forked() ? NXMEM_ERR_FORKED : NXMEM_ERR_STALE_HANDLE;
  const int done = take_out(m, pressure.id);
  nx_unlock_all(m);
  if (done == 1) return NXMEM_OK;
  return done == 0 ? nx_fail(error, NXMEM_ERR_STALE_HANDLE, "remove pressure: the manager has no such holder")
                   : nx_fail(error, NXMEM_ERR_BUSY, "remove pressure: it is being asked");
}

/* ---- Asking ------------------------------------------------------------------------------------------------------ */

nxmem_result nxmem_manager_ask(nxmem_manager manager, nxmem_authority authority, const nxmem_axes *wanted,
                               nxmem_axes *given_out, nxmem_error *error) {
  if (wanted == NULL || given_out == NULL)
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "ask: wanted or out is NULL");
  nx_manager *m = nx_manager_lock(manager, error);
  if (m == NULL) return nx_is_forked() ? NXMEM_ERR_FORKED : NXMEM_ERR_STALE_HANDLE;
  const int known = nx_authority_index(m, authority.id) != NXMEM_MANAGER_AUTHORITIES_MAX;
  nx_unlock_all(m);
  if (!known) return nx_fail(error, NXMEM_ERR_STALE_HANDLE, "ask: the manager keeps no books of that authority");
  *given_out = (nxmem_axes){0, 0, 0};
  if (!asking) *given_out = ask_holders(m, manager.id, authority.id, wanted);
  return NXMEM_OK;
}

/* Whose allocator it is. All locks are held. */
static uint64_t authority_of(nx_manager *m, uint64_t allocator) {
  if (allocator == 0) return 0;
  for (nx_account *account = nx_account_after(m, NULL); account != NULL; account = nx_account_after(m, account)) {
    nx_mechanism *mechanism = nx_mechanism_at(account->mechanism);
    if (mechanism == NULL || !nxmem_same_generation(atomic_load(&mechanism->slot.word), account->mechanism)) continue;
    for (uint32_t part = 0; part < NXMEM_COMPOSITE_MAX; part++)
      if (atomic_load(&mechanism->allocators[part]) == allocator) return m->authorities[account->authority].handle;
  }
  return 0;
}

int nxmem_manager_reclaim(void *manager, nxmem_allocator allocator, uint64_t bytes, uint64_t *reclaimed_out) {
  *reclaimed_out = 0;
  const nxmem_manager handle = manager == NULL ? (nxmem_manager){0} : *(const nxmem_manager *)manager;
  nx_manager *m = nx_manager_lock(handle, NULL);
  if (m == NULL) return 1;
  const uint64_t authority = authority_of(m, allocator.id);
  nx_unlock_all(m);
  if (authority == 0) return 1;
  const nxmem_axes wanted = {0, bytes, 0};
  if (!asking) *reclaimed_out = ask_holders(m, handle.id, authority, &wanted).physical;
  return 0;
}
