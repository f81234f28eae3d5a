/*
 * manager_snapshot.c: the books of one moment, and what stands in the way of a context's removal.
 *
 * Attackers: callers that look while others allocate and release.
 * Promise: every figure is of the same moment, and each total is the sum of its parts.
 */
#include <inttypes.h>

#include "error.h"
#include "manager.h"
#include "nxmem/handle.h"
#include "nxmem/quota.h"

static void add(nx_manager *m, nxmem_axes *total, const nxmem_axes *part) {
  nx_books_bugs(m, nxmem_axes_add(total, part) ? 0u : 1u);
}

/* used = taken - room; live = used - reserved - quarantined. */
static nxmem_figures figures_of(nx_manager *m, nx_account *account, nxmem_axes *ahead) {
  nxmem_figures f = {.quarantined = account->quarantined, .quarantined_count = account->quarantined_count};
  nxmem_axes room = {0, 0, 0};
  for (uint32_t s = 0; s < NX_STRIPES; s++) {
    nx_part_books *part = &account->parts[s];
    add(m, &room, &part->room);
    const uint64_t apart = atomic_load(&part->open_apart); /* once: it may be published meanwhile */
    add(m, &f.reserved, &part->reserved);
    if (apart != 0) add(m, &f.reserved, &part->apart);
    f.transactions += part->open + apart;
    f.live_count += part->live - apart;
  }
  f.used = account->taken;
  nx_books_bugs(m, nxmem_axes_refund(&f.used, &room));
  f.live = f.used;
  nx_books_bugs(m, nxmem_axes_refund(&f.live, &f.reserved));
  nx_books_bugs(m, nxmem_axes_refund(&f.live, &f.quarantined));
  add(m, ahead, &room);
  return f;
}

static void count(nxmem_figures *total, const nxmem_figures *part) {
  total->transactions += part->transactions;
  total->live_count += part->live_count;
  total->quarantined_count += part->quarantined_count;
}

static void sum(nx_manager *m, nxmem_figures *total, const nxmem_figures *part) {
  add(m, &total->used, &part->used);
  add(m, &total->reserved, &part->reserved);
  add(m, &total->live, &part->live);
  add(m, &total->quarantined, &part->quarantined);
  count(total, part);
}

/* Each tier may be full of all that can be counted: that is no bug. */
static void sum_of_tiers(nxmem_figures *total, const nxmem_figures *part) {
  nxmem_axes_adopt(&total->used, &part->used);
  nxmem_axes_adopt(&total->reserved, &part->reserved);
  nxmem_axes_adopt(&total->live, &part->live);
  nxmem_axes_adopt(&total->quarantined, &part->quarantined);
  count(total, part);
}

/* Where each authority stands in the snapshot. */
typedef struct listing {
  nx_manager *manager;
  nxmem_snapshot *out;
  uint32_t place[NXMEM_MANAGER_AUTHORITIES_MAX];
} listing;

static void list_authorities(listing *l) {
  for (uint32_t i = 0; i < NXMEM_MANAGER_AUTHORITIES_MAX; i++) {
    const nx_authority_books *a = &l->manager->authorities[i];
    if (a->handle == 0) continue;
    l->place[i] = l->out->authority_count++;
    l->out->authorities[l->place[i]] =
        (nxmem_authority_figures){.authority = {a->handle},
                                  .tier = a->tier,
                                  .delegated = a->delegated != 0,
                                  .budget = a->budget,
                                  .slice = a->delegated ? a->slice : (nxmem_axes){0, 0, 0}};
  }
}

static void list_account(listing *l, nx_account *account) {
  nxmem_snapshot *out = l->out;
  nxmem_authority_figures *authority = &out->authorities[l->place[account->authority]];
  const nxmem_figures f = figures_of(l->manager, account, &authority->ahead);
  if (out->mechanism_count < out->mechanism_room)
    out->mechanisms[out->mechanism_count] = (nxmem_mechanism_figures){{account->mechanism}, authority->authority, f};
  out->mechanism_count++;
  sum(l->manager, &authority->figures, &f);
}

/* What was kept apart all along must say the same as the sums: the authority's own figure, and the tier's. */
static void check_authority(nx_manager *m, const nx_authority_books *a, const nxmem_authority_figures *f) {
  nxmem_axes taken = f->figures.used;
  add(m, &taken, &f->ahead);
  if (taken.charged != a->taken.charged || taken.physical != a->taken.physical || taken.mapped != a->taken.mapped)
    nx_books_bugs(m, 1u);
}

static void total(listing *l) {
  nx_manager *m = l->manager;
  for (uint32_t i = 0; i < NXMEM_MANAGER_TIERS; i++) {
    l->out->tiers[i].limit = m->tiers[i].limit;
    l->out->tiers[i].shares = m->tiers[i].shares;
  }
  for (uint32_t i = 0; i < NXMEM_MANAGER_AUTHORITIES_MAX; i++) {
    if (m->authorities[i].handle == 0) continue;
    const nxmem_authority_figures *a = &l->out->authorities[l->place[i]];
    check_authority(m, &m->authorities[i], a);
    sum(m, &l->out->tiers[a->tier].figures, &a->figures);
  }
  for (uint32_t i = 0; i < NXMEM_MANAGER_TIERS; i++) sum_of_tiers(&l->out->total, &l->out->tiers[i].figures);
}

nxmem_result nxmem_manager_snapshot(nxmem_manager manager, nxmem_snapshot *out, nxmem_error *error) {
  if (out == NULL || (out->mechanisms == NULL && out->mechanism_room != 0))
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "snapshot: out is NULL, or its mechanisms");
  nx_manager *m = nx_manager_lock(manager, error);
  if (m == NULL) return nx_is_forked() ? NXMEM_ERR_FORKED : NXMEM_ERR_STALE_HANDLE;
  *out = (nxmem_snapshot){.mechanisms = out->mechanisms, .mechanism_room = out->mechanism_room};
  listing l = {.manager = m, .out = out};
  list_authorities(&l);
  for (nx_account *account = nx_account_after(m, NULL); account != NULL; account = nx_account_after(m, account))
    list_account(&l, account);
  total(&l);
  out->refusals = atomic_load(&m->refusals);
  out->bugs = atomic_load(&m->bugs);
  nx_unlock_all(m);
  return NXMEM_OK;
}

/* ---- Contexts ---------------------------------------------------------------------------------------------------- */

static uint64_t open_in(const nx_manager *m, uint64_t context) {
  uint64_t open = 0;
  for (nx_account *account = nx_account_after(m, NULL); account != NULL; account = nx_account_after(m, account)) {
    if (account->context != context) continue;
    for (uint32_t s = 0; s < NX_STRIPES; s++)
      open += account->parts[s].open + atomic_load(&account->parts[s].open_apart);
  }
  return open;
}

static nxmem_result refuse_removal(const nxmem_context_holds *holds, nxmem_error *error) {
  (void)nx_fail(error, NXMEM_ERR_BUSY,
                "remove context: found %" PRIu64 " transactions and %" PRIu64 " pins, needed none", holds->transactions,
                holds->pins);
  if (error != NULL) error->found = holds->transactions + holds->pins;
  return NXMEM_ERR_BUSY;
}

/* A transaction that begins in between has a binding, whose mechanism pins the context: then the registry refuses. */
nxmem_result nxmem_manager_remove_context(nxmem_manager manager, nxmem_context context, nxmem_context_holds *out,
                                          nxmem_error *error) {
  nxmem_context_holds holds = {0, 0};
  nx_manager *m = nx_manager_lock(manager, error);
  if (m == NULL) return nx_is_forked() ? NXMEM_ERR_FORKED : NXMEM_ERR_STALE_HANDLE;
  holds.transactions = open_in(m, context.id);
  nx_unlock_all(m);
  nxmem_result r = nxmem_context_pins(context, &holds.pins, error);
  if (r != NXMEM_OK) return r;
  if (out != NULL) *out = holds;
  if (holds.transactions + holds.pins != 0) return refuse_removal(&holds, error);
  return nxmem_context_remove(context, error);
}
