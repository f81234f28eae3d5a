/*
 * manager_transaction.c: reserve, allocate, commit, publish, and the way back.
 *
 * Attackers: callers that take steps out of order or from two threads; plugins that take more than was reserved; devices that vanish between two steps.
 * Promise: whichever step fails, the books end as they began, but for what the plugin kept: that is counted, and said.
 */
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

/* ---- Reserve ----------------------------------------------------------------------------------------------------- */

/* Where the binding leads, as it is now: allocating through it finds out whether it still is. */
typedef struct way {
  uint64_t mechanism, context, authority;
} way;

static void way_from(nx_binding *b, nx_mechanism *m, way *out) {
  out->mechanism = atomic_load_explicit(&b->mechanism, memory_order_relaxed);
  out->context = atomic_load_explicit(&m->context, memory_order_relaxed);
  out->authority = atomic_load_explicit(&m->authority, memory_order_relaxed);
}

static int way_of(nxmem_binding binding, way *out) {
  nx_binding *b = nx_binding_at(binding.id);
  if (b == NULL || !nxmem_same_generation(atomic_load(&b->slot.word), binding.id)) return 0;
  nx_mechanism *m = nx_mechanism_of_binding(b);
  if (m == NULL) return 0;
  way_from(b, m, out);
  return 1;
}

/* The account is not there yet, or the manager is gone. */
static NX_APART nxmem_result reserve_first(nx_manager *m, nxmem_manager manager, const way *to, nx_charging *k,
                                           nx_grant *grant, nxmem_error *error) {
  const nxmem_result r = nx_account_open(manager, to->mechanism, to->context, to->authority, error);
  if (r != NXMEM_OK) return r;
  *grant = nx_charge_reserve(m, manager.id, to->mechanism, to->authority, k);
  return grant->known ? NXMEM_OK : nx_fail(error, NXMEM_ERR_STALE_HANDLE, "reserve: the authority was removed");
}

static NX_APART nxmem_result refused(nx_manager *m, const nx_grant *grant, nxmem_error *error) {
  nx_count(&m->refusals);
  return nx_over_limit(grant->verdict, "reserve", error);
}

static NX_APART nxmem_result other_authority(nxmem_error *error) {
  return nx_fail(error, NXMEM_ERR_WRONG_OWNER, "reserve: the binding's authority is another");
}

/* Once more where holders gave something back. */
static NX_APART nxmem_result reserve(nx_manager *m, nxmem_manager manager, const nxmem_request *request, nx_charging *k,
                                     nxmem_error *error) {
  way to;
  if (!way_of(request->binding, &to)) return nx_fail(error, NXMEM_ERR_STALE_HANDLE, "the handle names no binding");
  if (to.authority != request->authority.id) return other_authority(error);
  for (int asked = 0;; asked = 1) {
    nx_grant grant = nx_charge_reserve(m, manager.id, to.mechanism, to.authority, k);
    const nxmem_result r = grant.known ? NXMEM_OK : reserve_first(m, manager, &to, k, &grant, error);
    if (r != NXMEM_OK || k->stage == NX_RESERVED) return r;
    const int again =
        !asked && nx_pressure_relieves(m, manager.id, request->authority.id, &grant.verdict, &grant.shortage);
    if (!again) return refused(m, &grant, error);
  }
}

/* ---- Allocate, commit, publish ------------------------------------------------------------------------------------ */

static nxmem_result commit(nx_charging *k, uint64_t authority, int and_publish, nxmem_error *error) {
  nx_manager *m = k->account->manager;
  nxmem_axes shortage;
  nxmem_verdict v = nx_charge_commit(k, and_publish, &shortage);
  if (v.reason != NXMEM_REASON_NONE && nx_pressure_relieves(m, nx_slot_handle(&m->slot), authority, &v, &shortage))
    v = nx_charge_commit(k, and_publish, &shortage);
  if (v.reason == NXMEM_REASON_NONE) return NXMEM_OK;
  nx_count(&m->refusals);
  return nx_over_limit(v, "commit", error);
}

/* ---- Rollback ---------------------------------------------------------------------------------------------------- */

static const nxmem_rollback nothing_behind = {0, NXMEM_KEPT_NOT, {0, 0, 0}};

/* Why it is kept: what stands beside it, or, where that is another's by now, what its making was answered. */
static nxmem_keeping why_kept(nxmem_result r, const nxmem_bound *made) {
  nx_side *side = nx_side_of(made->id);
  const uint64_t word = atomic_load(&side->word);
  if (nxmem_same_generation(word, made->id) && nxmem_word_state(word) == NXMEM_SLOT_QUARANTINED)
    return (nxmem_keeping)atomic_load_explicit(&side->keeping, memory_order_relaxed);
  if (r == NXMEM_ERR_TERMINATED) return NXMEM_KEPT_TERMINATED;
  return r == NXMEM_ERR_DEVICE_LOST ? NXMEM_KEPT_DEVICE_LOST : NXMEM_KEPT_OWNER_DROPPED;
}

/*
 * Through the owning release where the plugin has made something: the charge ends in what the registry says of it. A loss that was faster keeps it, and
 * ends the charge the same way, though perhaps not yet: nobody else had its handle, so what did not go back is kept.
 */
static NX_APART void roll_back(nx_charging *k, const nxmem_bound *made, nxmem_rollback *out) {
  *out = nothing_behind;
  if (k->stage == NX_RESERVED) {
    nx_charge_cancel(k);
    return;
  }
  nx_mechanism *m = nx_mechanism_at(k->account->mechanism);
  const nxmem_axes answered = k->answered;
  nx_charge_withdraw(k, nx_side_of(made->id));
  const nxmem_result r = nx_bound_withdraw(made, NULL);
  if (r == NXMEM_OK) return;
  const int lost = nx_lifecycle(m) >= NXMEM_LIFECYCLE_DEVICE_LOST;
  *out = (nxmem_rollback){1, why_kept(lost ? NXMEM_ERR_DEVICE_LOST : r, made), answered};
}

/* The plugin made nothing that anybody could name; what it answered instead may be in the host's quarantine. */
static NX_APART void book_answer(nx_charging *k, nxmem_release_fate left, uint64_t bytes, int cancel,
                                 nxmem_rollback *out) {
  if (nxmem_final_fate(left) != NXMEM_FATE_QUARANTINED) {
    if (cancel) nx_charge_cancel(k);
    return;
  }
  const uint32_t lifecycle = nx_lifecycle(nx_mechanism_at(k->account->mechanism));
  const nxmem_axes there = nx_charge_keep_answer(k, bytes, cancel);
  out->kept = 1;
  out->keeping = nxmem_settle_owned(lifecycle, left);
  nxmem_axes_adopt(&out->behind, &there);
}

/* ---- All at once ------------------------------------------------------------------------------------------------- */

static nxmem_result check_request(const nxmem_request *request, const void *out, nxmem_error *error) {
  if (request == NULL || out == NULL)
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "transaction: request or out is NULL");
  return NXMEM_OK;
}

/* Whoever ended it has kept it and told the books. */
static NX_APART nxmem_result kept_at_publish(nxmem_result r, const nxmem_bound *made, const nxmem_axes *behind,
                                             nxmem_rollback *rollback) {
  if (rollback != NULL) *rollback = (nxmem_rollback){1, why_kept(r, made), *behind};
  return r;
}

/* Its binding is used until the books know: so the mechanism stays. */
static NX_APART nxmem_result not_made(nx_charging *k, nx_binding *b, nxmem_release_fate left, uint64_t bytes,
                                      nxmem_rollback *rollback, nxmem_result r) {
  nxmem_rollback behind = nothing_behind;
  book_answer(k, left, bytes, 1, &behind);
  nx_binding_unuse(b);
  if (rollback != NULL) *rollback = behind;
  return r;
}

/* The plugin answered otherwise than was reserved, and a limit refused the rest: holders are asked, with nothing locked and nobody inside. */
static NX_APART nxmem_result commit_behind(nx_charging *k, uint64_t authority, const nxmem_bound *made,
                                           nxmem_rollback *rollback, nxmem_error *error) {
  nxmem_rollback done;
  nxmem_result r = commit(k, authority, 1, error);
  if (r == NXMEM_OK) {
    r = nx_bound_publish(made, error);
    return r == NXMEM_OK ? r : kept_at_publish(r, made, &k->answered, rollback);
  }
  roll_back(k, made, &done);
  if (rollback != NULL) *rollback = done;
  return r;
}

/* Reserved, with the binding in use; what is not granted at once is asked for without. */
static NX_APART nxmem_result begin_again(nx_manager *m, nxmem_manager manager, const nxmem_request *request,
                                         nx_charging *k, nx_binding **b, nxmem_error *error) {
  nx_binding_unuse(*b);
  nxmem_result r = reserve(m, manager, request, k, error);
  if (r != NXMEM_OK) return r;
  r = nx_binding_use(request->binding, b, error);
  if (r != NXMEM_OK) nx_charge_cancel(k);
  return r;
}

static inline nxmem_result begin(nx_manager *m, nxmem_manager manager, const nxmem_request *request, nx_charging *k,
                                 nx_binding **b, nxmem_error *error) {
  const nxmem_result r = nx_binding_use(request->binding, b, error);
  if (r != NXMEM_OK) return r;
  way to;
  way_from(*b, nx_mechanism_of_binding(*b), &to);
  if (to.authority != request->authority.id) {
    nx_binding_unuse(*b);
    return other_authority(error);
  }
  if (nx_charge_reserve_apart(m, manager.id, to.mechanism, to.authority, k)) return NXMEM_OK;
  nx_charging again = *k;
  nx_binding *found = *b;
  const nxmem_result begun = begin_again(m, manager, request, &again, &found, error);
  *k = again;
  *b = found;
  return begun;
}

/* Its numbers and what it made are copied for whatever is out of the ordinary: so they may stay in registers across the plugin's call. */
static inline nxmem_result end_at_once(const nx_charging *k, nx_binding *b, uint64_t authority, const nxmem_bound *made,
                                       nxmem_rollback *rollback, nxmem_error *error) {
  if (k->stage != NX_PUBLISHED) {
    nx_charging other = *k;
    const nxmem_bound copy = *made;
    return commit_behind(&other, authority, &copy, rollback, error);
  }
  const nxmem_result r = nx_bound_look_again(b, made, error); /* it is whoever's releases it */
  if (r == NXMEM_OK) return r;
  const nxmem_axes behind = k->answered;
  const nxmem_bound copy = *made;
  return kept_at_publish(r, &copy, &behind, rollback);
}

NX_HOT nxmem_result nxmem_manager_allocate(nxmem_manager manager, const nxmem_request *request, nxmem_bound *out,
                                           uint64_t *charge_out, nxmem_rollback *rollback, nxmem_error *error) {
  nxmem_result r = check_request(request, out, error);
  if (r != NXMEM_OK) return r;
  if (rollback != NULL) *rollback = nothing_behind;
  nx_manager *m = nx_manager_at(manager.id);
  if (m == NULL || nx_is_forked()) return nx_manager_unknown(error);
  nx_binding *b = NULL;
  nx_charging k = {.at_once = 1, .held = request->reserve};
  r = begin(m, manager, request, &k, &b, error);
  if (r != NXMEM_OK) return r;
  nxmem_bound made = {.binding = request->binding, .bytes = request->bytes, .align = request->align};
  nxmem_release_fate left = NXMEM_FATE_GONE;
  r = nx_bound_make(b, &k, &made, request->options, &left, error);
  if (r != NXMEM_OK) {
    nx_charging other = k;
    return not_made(&other, b, left, request->bytes, rollback, r);
  }
  r = end_at_once(&k, b, request->authority.id, &made, rollback, error);
  if (r != NXMEM_OK) return r;
  *out = made;
  if (charge_out != NULL) *charge_out = made.id;
  return NXMEM_OK;
}

/* ---- Step by step ------------------------------------------------------------------------------------------------ */

static NX_APART nxmem_result out_of_order(const nx_steps *t, const char *verb, nxmem_error *error) {
  static const char *const stages[] = {"", "reserved", "allocated", "committed", "published"};
  return nx_fail(error, NXMEM_ERR_BUSY, "%s: the transaction is %s", verb, stages[t->charging.stage]);
}

/* The transaction is this call's alone until leave() or end(). */
static nxmem_result enter(nxmem_transaction transaction, nx_steps **out, nxmem_error *error) {
  nx_steps *t = (nx_steps *)(void *)nx_table_find(&nx_transactions, transaction.id);
  if (nx_is_forked()) return nx_manager_unknown(error);
  if (t == NULL) return nx_fail(error, NXMEM_ERR_STALE_HANDLE, "the handle names no open transaction");
  if (nx_slot_move(&t->slot, transaction.id, NXMEM_SLOT_ALLOCATING, NXMEM_SLOT_RELEASING)) {
    *out = t;
    return NXMEM_OK;
  }
  const uint64_t word = atomic_load(&t->slot.word);
  if (nxmem_same_generation(word, transaction.id) && nxmem_word_state(word) == NXMEM_SLOT_RELEASING)
    return nx_fail(error, NXMEM_ERR_BUSY, "another thread is in the transaction");
  return nx_fail(error, NXMEM_ERR_STALE_HANDLE, "the handle names no open transaction");
}

static void leave(nx_steps *t) { nx_slot_set(&t->slot, NXMEM_SLOT_ALLOCATING); }
static void end(nx_steps *t) { nx_table_give(&nx_transactions, &t->slot); }

nxmem_result nxmem_transaction_reserve(nxmem_manager manager, const nxmem_request *request, nxmem_transaction *out,
                                       nxmem_error *error) {
  nxmem_result r = check_request(request, out, error);
  if (r != NXMEM_OK) return r;
  nx_manager *m = nx_manager_at(manager.id);
  if (m == NULL || nx_is_forked()) return nx_manager_unknown(error);
  nx_steps *t = (nx_steps *)(void *)nx_table_take(&nx_transactions);
  if (t == NULL) return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "reserve: no memory");
  t->request = *request;
  t->charging = (nx_charging){.held = request->reserve};
  t->behind = nothing_behind;
  r = reserve(m, manager, request, &t->charging, error);
  if (r != NXMEM_OK) {
    end(t);
    return r;
  }
  out->id = nx_slot_handle(&t->slot);
  leave(t);
  return NXMEM_OK;
}

static nxmem_result allocate(nx_steps *t, nxmem_error *error) {
  const nxmem_request *request = &t->request;
  nx_binding *b = NULL;
  nxmem_result r = nx_binding_use(request->binding, &b, error);
  if (r != NXMEM_OK) return r;
  t->made = (nxmem_bound){.binding = request->binding, .bytes = request->bytes, .align = request->align};
  nxmem_release_fate left = NXMEM_FATE_GONE;
  r = nx_bound_make(b, &t->charging, &t->made, request->options, &left, error);
  if (r == NXMEM_OK) return r;
  book_answer(&t->charging, left, request->bytes, 0, &t->behind);
  nx_binding_unuse(b);
  return r;
}

nxmem_result nxmem_transaction_allocate(nxmem_transaction transaction, nxmem_error *error) {
  nx_steps *t = NULL;
  nxmem_result r = enter(transaction, &t, error);
  if (r != NXMEM_OK) return r;
  if (t->charging.stage != NX_RESERVED)
    r = out_of_order(t, "allocate", error);
  else
    r = allocate(t, error);
  leave(t);
  return r;
}

nxmem_result nxmem_transaction_commit(nxmem_transaction transaction, nxmem_error *error) {
  nx_steps *t = NULL;
  nxmem_result r = enter(transaction, &t, error);
  if (r != NXMEM_OK) return r;
  if (t->charging.stage != NX_ALLOCATED)
    r = out_of_order(t, "commit", error);
  else
    r = commit(&t->charging, t->request.authority.id, 0, error);
  leave(t);
  return r;
}

nxmem_result nxmem_transaction_publish(nxmem_transaction transaction, nxmem_bound *out, uint64_t *charge_out,
                                       nxmem_error *error) {
  nx_steps *t = NULL;
  if (out == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "publish: out is NULL");
  nxmem_result r = enter(transaction, &t, error);
  if (r != NXMEM_OK) return r;
  if (t->charging.stage != NX_COMMITTED) {
    r = out_of_order(t, "publish", error);
    leave(t);
    return r;
  }
  const nxmem_bound made = t->made;
  nx_charge_publish(&t->charging);
  end(t);
  r = nx_bound_publish(&made, error);
  if (r != NXMEM_OK) return r;
  *out = made;
  if (charge_out != NULL) *charge_out = made.id;
  return NXMEM_OK;
}

/* Of several that are kept the last one's reason is said, and what stays charged for all of them. */
static void add_behind(nxmem_rollback *done, const nxmem_rollback *before) {
  if (!done->kept) done->keeping = before->keeping;
  done->kept = 1;
  nxmem_axes_adopt(&done->behind, &before->behind);
}

nxmem_result nxmem_transaction_rollback(nxmem_transaction transaction, nxmem_rollback *out, nxmem_error *error) {
  nx_steps *t = NULL;
  const nxmem_result r = enter(transaction, &t, error);
  if (r != NXMEM_OK) return r;
  nxmem_rollback done;
  nx_charging charging = t->charging;
  const nxmem_bound made = t->made;
  const nxmem_rollback before = t->behind;
  end(t);
  roll_back(&charging, &made, &done);
  if (before.kept) add_behind(&done, &before);
  if (out != NULL) *out = done;
  return NXMEM_OK;
}
