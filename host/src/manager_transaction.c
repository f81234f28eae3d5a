/*
 * manager_transaction.c: reserve, allocate, commit, publish, and the way back.
 *
 * Attackers: callers that take steps out of order or from two threads; plugins that take more than was reserved; devices that vanish between two steps.
 * Promise: whichever step fails, the books end as they began, but for what the plugin kept: that is counted, and said.
 */
#include <stdlib.h>

#include "error.h"
#include "manager.h"
#include "nxmem/handle.h"
#include "nxmem/quota.h"

nxmem_result nx_over_limit(nxmem_verdict v, const char *verb, nxmem_error *error) {
  static const char *const axes[] = {"charged", "physical", "mapped"};
  return nx_fail_in(
      error, NXMEM_ERR_OVER_LIMIT, v, (nx_context){NX_RECORD_SAID, "release something, or raise the limit"},
      "%s: %s: found %llu bytes on the axis \"%s\", needed at most %llu", verb, nxmem_reason_text(v.reason),
      (unsigned long long)v.found, axes[v.field % 3u], (unsigned long long)v.needed);
}

/* ---- What the registry says of charged allocations ---------------------------------------------------------------- */

static void settled(uint64_t charge, nx_end end, nxmem_keeping keeping) {
  (void)keeping;
  nx_charge *c = nx_charge_at(charge);
  if (end == NX_END_GIVEN_BACK)
    nx_charge_refund(c);
  else if (end == NX_END_KEPT)
    nx_charge_keep(c);
  else
    nx_charge_forget(c);
}

void nx_settle_charges(void) { atomic_store(&nx_settled, settled); }

/* ---- Reserve ----------------------------------------------------------------------------------------------------- */

/* Where the binding leads, as it is now: allocating through it finds out whether it still is. */
typedef struct way {
  uint64_t mechanism, context, authority;
} way;

static int way_of(nxmem_binding binding, way *out) {
  nx_binding *b = nx_binding_at(binding.id);
  if (b == NULL || !nxmem_same_generation(atomic_load(&b->slot.word), binding.id)) return 0;
  const uint64_t handle = atomic_load_explicit(&b->mechanism, memory_order_relaxed);
  nx_mechanism *m = nx_mechanism_at(handle);
  if (m == NULL) return 0;
  out->mechanism = handle;
  out->context = atomic_load_explicit(&m->context, memory_order_relaxed);
  out->authority = atomic_load_explicit(&m->authority, memory_order_relaxed);
  return 1;
}

/* The account is not there yet, or the manager is gone. */
static NX_APART nx_charge *reserve_first(nx_manager *m, nxmem_manager manager, const nxmem_request *request,
                                         const way *to, nx_grant *grant, nxmem_result *r, nxmem_error *error) {
  *r = nx_account_open(manager, to->mechanism, to->context, to->authority, error);
  if (*r != NXMEM_OK) return NULL;
  nx_charge *c = nx_charge_reserve(m, manager.id, to->mechanism, request->authority.id, &request->reserve, grant);
  if (c == NULL && !grant->known) *r = nx_fail(error, NXMEM_ERR_STALE_HANDLE, "reserve: the authority was removed");
  return c;
}

static NX_APART nxmem_result refused(nx_manager *m, const nx_grant *grant, nxmem_error *error) {
  if (grant->verdict.reason == NXMEM_REASON_NONE) return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "reserve: no memory");
  nx_count(&m->refusals);
  return nx_over_limit(grant->verdict, "reserve", error);
}

/* Once more where holders gave something back. */
static nxmem_result reserve(nxmem_manager manager, const nxmem_request *request, nx_charge **out, nxmem_error *error) {
  nx_manager *m = (nx_manager *)(void *)nx_table_find(&nx_managers, manager.id);
  way to;
  if (m == NULL || nx_is_forked()) return nx_manager_unknown(error);
  if (!way_of(request->binding, &to)) return nx_fail(error, NXMEM_ERR_STALE_HANDLE, "the handle names no binding");
  if (to.authority != request->authority.id)
    return nx_fail(error, NXMEM_ERR_WRONG_OWNER, "reserve: the binding's authority is another");
  for (int asked = 0;; asked = 1) {
    nx_grant grant;
    nxmem_result r = NXMEM_OK;
    *out = nx_charge_reserve(m, manager.id, to.mechanism, request->authority.id, &request->reserve, &grant);
    if (*out == NULL && !grant.known) *out = reserve_first(m, manager, request, &to, &grant, &r, error);
    if (*out != NULL || r != NXMEM_OK) return r;
    const int again = !asked && nx_pressure_relieves(m, manager.id, request->authority.id, &grant.verdict);
    if (!again) return refused(m, &grant, error);
  }
}

/* ---- Allocate, commit, publish ------------------------------------------------------------------------------------ */

static nxmem_result allocate(nx_charge *c, const nxmem_request *request, nx_made *made, nxmem_error *error) {
  const nxmem_result r = nx_bound_make(request->binding, request->bytes, request->align, request->options,
                                       nx_slot_handle(&c->slot), made, error);
  if (r != NXMEM_OK) return r;
  c->answered = (nxmem_axes){.charged = request->reserve.charged, .physical = made->owned, .mapped = made->mapped};
  c->stage = NX_ALLOCATED;
  return NXMEM_OK;
}

static nxmem_result commit(nx_charge *c, uint64_t authority, int and_publish, nxmem_error *error) {
  nx_manager *m = c->account->manager;
  nxmem_verdict v = nx_charge_commit(c, and_publish);
  if (v.reason != NXMEM_REASON_NONE && nx_pressure_relieves(m, nx_slot_handle(&m->slot), authority, &v))
    v = nx_charge_commit(c, and_publish);
  if (v.reason == NXMEM_REASON_NONE) return NXMEM_OK;
  nx_count(&m->refusals);
  return nx_over_limit(v, "commit", error);
}

/* ---- Rollback ---------------------------------------------------------------------------------------------------- */

/*
 * Through the owning release where the plugin has made something: the charge ends in what the registry says of it. A loss that was faster has kept it, and
 * ended the charge the same way.
 */
static void roll_back(nx_charge *c, const nx_made *made, nxmem_rollback *out) {
  *out = (nxmem_rollback){0, NXMEM_KEPT_NOT, {0, 0, 0}};
  if (c->stage == NX_RESERVED) {
    nx_charge_refund(c);
    return;
  }
  const uint64_t handle = nx_slot_handle(&c->slot);
  const nxmem_axes answered = c->answered;
  nxmem_error why;
  why.found = NXMEM_KEPT_DEVICE_LOST;
  const nxmem_result r = nx_bound_withdraw(made, &why);
  const uint64_t word = atomic_load(&c->slot.word);
  if (!nxmem_same_generation(word, handle) || nxmem_word_state(word) != NXMEM_SLOT_QUARANTINED) return;
  out->kept = 1;
  out->keeping = r == NXMEM_ERR_QUARANTINED ? (nxmem_keeping)why.found : NXMEM_KEPT_DEVICE_LOST;
  out->behind = answered;
}

/* ---- All at once ------------------------------------------------------------------------------------------------- */

static nxmem_result check_request(const nxmem_request *request, const void *out, nxmem_error *error) {
  if (request == NULL || out == NULL)
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "transaction: request or out is NULL");
  return NXMEM_OK;
}

static NX_APART nxmem_result fail_and_roll_back(nxmem_result r, nx_charge *c, const nx_made *made,
                                                nxmem_rollback *rollback) {
  nxmem_rollback done;
  roll_back(c, made, &done);
  if (rollback != NULL) *rollback = done;
  return r;
}

/* The loss has kept it and told the books. */
static NX_APART nxmem_result lost_at_publish(nxmem_result r, const nxmem_axes *behind, nxmem_rollback *rollback) {
  if (rollback != NULL) *rollback = (nxmem_rollback){1, NXMEM_KEPT_DEVICE_LOST, *behind};
  return r;
}

NX_HOT nxmem_result nxmem_manager_allocate(nxmem_manager manager, const nxmem_request *request, nxmem_bound *out,
                                           uint64_t *charge_out, nxmem_rollback *rollback, nxmem_error *error) {
  nxmem_result r = check_request(request, out, error);
  if (r != NXMEM_OK) return r;
  if (rollback != NULL) *rollback = (nxmem_rollback){0, NXMEM_KEPT_NOT, {0, 0, 0}};
  nx_charge *c = NULL;
  nx_made made;
  r = reserve(manager, request, &c, error);
  if (r != NXMEM_OK) return r;
  const uint64_t charge = nx_slot_handle(&c->slot);
  r = allocate(c, request, &made, error);
  if (r == NXMEM_OK) r = commit(c, request->authority.id, 1, error);
  if (r != NXMEM_OK) return fail_and_roll_back(r, c, &made, rollback);
  const nxmem_axes answered = c->answered; /* once it is published, the charge is whoever's releases it */
  r = nx_bound_publish(&made, error);
  if (r != NXMEM_OK) return lost_at_publish(r, &answered, rollback);
  *out = made.bound;
  if (charge_out != NULL) *charge_out = charge;
  return NXMEM_OK;
}

/* ---- Step by step ------------------------------------------------------------------------------------------------ */

static NX_APART nxmem_result out_of_order(const nx_charge *c, const char *verb, nxmem_error *error) {
  static const char *const stages[] = {"", "reserved", "allocated", "committed", "published"};
  return nx_fail(error, NXMEM_ERR_BUSY, "%s: the transaction is %s", verb, stages[c->stage]);
}

/* The transaction is this call's alone until leave(). */
static nxmem_result enter(nxmem_transaction transaction, nx_charge **out, nxmem_error *error) {
  nx_charge *c = nx_charge_at(transaction.id);
  if (nx_is_forked()) return nx_manager_unknown(error);
  if (c == NULL) return nx_fail(error, NXMEM_ERR_STALE_HANDLE, "the handle names no open transaction");
  if (nx_slot_move(&c->slot, transaction.id, NXMEM_SLOT_ALLOCATING, NXMEM_SLOT_RELEASING)) {
    *out = c;
    return NXMEM_OK;
  }
  const uint64_t word = atomic_load(&c->slot.word);
  if (nxmem_same_generation(word, transaction.id) && nxmem_word_state(word) == NXMEM_SLOT_RELEASING)
    return nx_fail(error, NXMEM_ERR_BUSY, "another thread is in the transaction");
  return nx_fail(error, NXMEM_ERR_STALE_HANDLE, "the handle names no open transaction");
}

static void leave(nx_charge *c) { nx_slot_set(&c->slot, NXMEM_SLOT_ALLOCATING); }

nxmem_result nxmem_transaction_reserve(nxmem_manager manager, const nxmem_request *request, nxmem_transaction *out,
                                       nxmem_error *error) {
  nxmem_result r = check_request(request, out, error);
  if (r != NXMEM_OK) return r;
  nx_steps *steps = malloc(sizeof *steps);
  if (steps == NULL) return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "reserve: no memory");
  nx_charge *c = NULL;
  r = reserve(manager, request, &c, error);
  if (r != NXMEM_OK) {
    free(steps);
    return r;
  }
  steps->request = *request;
  c->steps = steps;
  out->id = nx_slot_handle(&c->slot);
  leave(c);
  return NXMEM_OK;
}

nxmem_result nxmem_transaction_allocate(nxmem_transaction transaction, nxmem_error *error) {
  nx_charge *c = NULL;
  nxmem_result r = enter(transaction, &c, error);
  if (r != NXMEM_OK) return r;
  if (c->stage != NX_RESERVED)
    r = out_of_order(c, "allocate", error);
  else
    r = allocate(c, &c->steps->request, &c->steps->made, error);
  leave(c);
  return r;
}

nxmem_result nxmem_transaction_commit(nxmem_transaction transaction, nxmem_error *error) {
  nx_charge *c = NULL;
  nxmem_result r = enter(transaction, &c, error);
  if (r != NXMEM_OK) return r;
  if (c->stage != NX_ALLOCATED)
    r = out_of_order(c, "commit", error);
  else
    r = commit(c, c->steps->request.authority.id, 0, error);
  leave(c);
  return r;
}

nxmem_result nxmem_transaction_publish(nxmem_transaction transaction, nxmem_bound *out, uint64_t *charge_out,
                                       nxmem_error *error) {
  nx_charge *c = NULL;
  if (out == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "publish: out is NULL");
  nxmem_result r = enter(transaction, &c, error);
  if (r != NXMEM_OK) return r;
  if (c->stage != NX_COMMITTED) {
    r = out_of_order(c, "publish", error);
    leave(c);
    return r;
  }
  const nx_made made = c->steps->made;
  free(c->steps);
  c->steps = NULL;
  nx_charge_publish(c);
  r = nx_bound_publish(&made, error);
  if (r != NXMEM_OK) return r;
  *out = made.bound;
  if (charge_out != NULL) *charge_out = transaction.id;
  return NXMEM_OK;
}

nxmem_result nxmem_transaction_rollback(nxmem_transaction transaction, nxmem_rollback *out, nxmem_error *error) {
  nx_charge *c = NULL;
  const nxmem_result r = enter(transaction, &c, error);
  if (r != NXMEM_OK) return r;
  nxmem_rollback done;
  const nx_made made = c->steps->made;
  free(c->steps);
  c->steps = NULL;
  roll_back(c, &made, &done);
  if (out != NULL) *out = done;
  return NXMEM_OK;
}
