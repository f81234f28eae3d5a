/*
 * manager_pressure.c: asking for bytes back, before a limit refuses.
 *
 * Attackers: holders that say they gave what they did not, that call back, or that are removed meanwhile; plugins that ask for ever more.
 * Promise: they are asked in the order of their priority, each once, with no lock held; what they say decides only whether the next is asked.
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

/* Each once, until all is given. */
static nxmem_axes ask_holders(nx_manager *m, uint64_t manager, uint64_t authority, const nxmem_axes *wanted) {
  nxmem_axes left = *wanted, all = {0, 0, 0};
  nx_holder holder = {0};
  asker by = {m, manager, authority, 0};
  asking = 1;
  nx_lock(&m->bank);
  by.newest = m->holder_ids;
  nx_unlock(&m->bank);
  while (!is_met(&left)) {
    nx_lock(&m->bank);
    const nx_holder last = holder;
    const int found = next_holder(&by, &last, &holder);
    nx_unlock(&m->bank);
    if (!found) break;
    nxmem_axes given = {0, 0, 0};
    holder.fn(holder.ctx, (nxmem_authority){by.authority}, &left, &given);
    holder_returned(m, holder.id);
    const nxmem_axes believed = least_of(&left, &given);
    (void)nxmem_axes_take(&left, &believed);
    nxmem_axes_adopt(&all, &believed);
  }
  asking = 0;
  return all;
}

int nx_pressure_relieves(nx_manager *m, uint64_t manager, uint64_t authority, const nxmem_verdict *refusal) {
  if (asking || refusal->reason == NXMEM_REASON_NONE) return 0;
  nxmem_axes wanted = {0, 0, 0};
  uint64_t *const axes[] = {&wanted.charged, &wanted.physical, &wanted.mapped};
  *axes[refusal->field % 3u] = refusal->found - refusal->needed;
  (void)ask_holders(m, manager, authority, &wanted);
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
