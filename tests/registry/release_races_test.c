/*
 * release_races_test.c: releases against releases, losses and removals: the interleavings that matter, each driven step by step.
 *
 * Attackers played: callers that release, execute, lose, drop and remove at once; a device that vanishes in every gap.
 * Promise: no order of the steps releases an allocation twice, loses one, or lets a call into a lost plugin.
 */
#include "nxmem_manager.h"
#include "registrytest.h"
#include "steps.h"

static nx_play play;

static void lose_it(nx_actor *a) { a->result = nxmem_mechanism_lose(a->mechanism, NULL, &a->error); }
static void release_it(nx_actor *a) { a->result = nxmem_bound_release(&a->bound, &a->error); }
static void prepare_it(nx_actor *a) { a->result = nxmem_bound_prepare(&a->bound, &a->prepared, &a->error); }
static void execute_it(nx_actor *a) { a->result = nxmem_prepared_execute(a->prepared, &a->error); }
static void drain_it(nx_actor *a) { a->result = nxmem_release_queue_drain(a->queue, 1, NULL, &a->error); }
static void remove_it(nx_actor *a) { a->result = nxmem_mechanism_remove(a->mechanism, NULL, &a->error); }
static void allocate_it(nx_actor *a) {
  a->result = nxmem_bound_allocate(a->binding, 64, 16, NULL, &a->bound, &a->error);
}

/* ---- Releases ---------------------------------------------------------------------------------------------------- */

typedef struct hall {
  nxmem_mechanism m;
  nxmem_binding binding;
  nxmem_bound bound;
} hall;

static hall set_hall(void) {
  play = nx_play_set();
  hall h = {.m = nx_play_register(&play)};
  h.binding = nx_must_bind(h.m);
  h.bound = nx_must_allocate_bound(h.binding, 64);
  return h;
}

static void strike_hall(const hall *h) {
  MUST(nxmem_binding_end(h->binding, 0, &error));
  nx_put_away(h->m);
}

/* Both have looked at the live record; one claims it. */
static void test_two_releases(void **state) {
  void (*loser)(nx_actor *) = *(void (*const *)(nx_actor *)) * state;
  hall h = set_hall();
  nx_actor first = {.bound = h.bound}, second = {.bound = h.bound};
  nx_actor_start(&first, release_it, "release: looked at");
  nx_actor_start(&second, loser, "release: looked at");
  nx_actor_go(&first, "execute: begun");
  assert_int_equal(nx_actor_end(&second), NXMEM_ERR_UNKNOWN_ALLOCATION);
  assert_int_equal(nx_actor_end(&first), NXMEM_OK);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION), 1);
  strike_hall(&h);
  nx_play_strike(&play);
}

/* One looks, the other releases, the address and the record are used again: what was looked at is not the new one. */
static void test_release_of_a_successor(void **state) {
  (void)state;
  hall h = set_hall();
  nx_actor late = {.bound = h.bound};
  nx_actor_start(&late, release_it, "release: looked at");
  puppet.address = h.bound.ptr; /* handed out again */
  MUST(nxmem_bound_release(&h.bound, &error));
  const nxmem_bound next = nx_must_allocate_bound(h.binding, 64);
  assert_ptr_equal(next.ptr, h.bound.ptr);
  assert_int_equal(nx_actor_end(&late), NXMEM_ERR_UNKNOWN_ALLOCATION);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION), 1);
  puppet.address = NULL;
  MUST(nxmem_bound_release(&next, &error));
  strike_hall(&h);
  nx_play_strike(&play);
}

/* Two execute one prepared release. */
static void test_two_executions(void **state) {
  (void)state;
  hall h = set_hall();
  nx_actor first = {.prepared = nx_must_prepare(&h.bound)};
  nx_actor_start(&first, execute_it, "execute: begun");
  REFUSED(nxmem_prepared_execute(first.prepared, &error), NXMEM_ERR_UNKNOWN_ALLOCATION);
  REFUSED(nxmem_prepared_abandon(first.prepared, &error), NXMEM_ERR_UNKNOWN_ALLOCATION);
  assert_int_equal(nx_actor_end(&first), NXMEM_OK);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION), 1);
  strike_hall(&h);
  nx_play_strike(&play);
}

/* ---- Loss -------------------------------------------------------------------------------------------------------- */

static void assert_lost_one(hall *h, nxmem_keeping reason) {
  nx_assert_kept(h->m, reason, &h->bound);
  const nxmem_mechanism_state s = nx_state_of(h->m);
  assert_int_equal(s.holdings.live, 0);
  assert_int_equal(s.holdings.prepared, 0);
  assert_int_equal(s.holdings.quarantined, 1);
  free(h->bound.ptr); /* the plugin never got it back */
  strike_hall(h);
  nx_play_strike_lost(&play);
}

/* A release that waits in a queue while its device goes: the drain keeps it, and enters nothing. */
static void test_loss_before_drain(void **state) {
  const char *gap = *state;
  hall h = set_hall();
  nx_actor draining = {0};
  MUST(nxmem_release_queue_create(play.registry, 2, &draining.queue, &error));
  MUST(nxmem_release_queue_push(draining.queue, nx_must_prepare(&h.bound), &error));
  nx_actor_start(&draining, drain_it, gap);
  const uint64_t entries = nx_entries();
  MUST(nxmem_mechanism_lose(h.m, NULL, &error));
  assert_int_equal(nx_actor_end(&draining), NXMEM_OK);
  assert_int_equal(nx_entries(), entries);
  MUST(nxmem_release_queue_destroy(draining.queue, NULL, &error));
  assert_lost_one(&h, NXMEM_KEPT_DEVICE_LOST);
}

/* The loss stands between the lifecycle and the gate: the gate would still let in, the lifecycle does not. */
static void test_execute_beside_loss(void **state) {
  (void)state;
  hall h = set_hall();
  nx_actor losing = {.mechanism = h.m};
  const nxmem_prepared prepared = nx_must_prepare(&h.bound);
  nx_actor_start(&losing, lose_it, "lose: terminal");
  const uint64_t entries = nx_entries();
  REFUSED(nxmem_prepared_execute(prepared, &error), NXMEM_ERR_QUARANTINED);
  assert_int_equal(nx_entries(), entries);
  assert_int_equal(nx_actor_end(&losing), NXMEM_OK);
  assert_lost_one(&h, NXMEM_KEPT_DEVICE_LOST);
}

/* Prepared, lost, confirmed, executed: kept as what it is by then. */
static void test_execute_behind_confirmation(void **state) {
  (void)state;
  hall h = set_hall();
  const nxmem_prepared prepared = nx_must_prepare(&h.bound);
  MUST(nxmem_mechanism_lose(h.m, NULL, &error));
  MUST(nxmem_mechanism_confirm_terminated(h.m, &error));
  const uint64_t entries = nx_entries();
  REFUSED(nxmem_prepared_execute(prepared, &error), NXMEM_ERR_QUARANTINED);
  assert_int_equal(nx_entries(), entries);
  assert_lost_one(&h, NXMEM_KEPT_TERMINATED);
}

/* It answered, and said gone; but its device went while it was asked: kept, and not refunded. */
static void test_lost_during(void **state) {
  (void)state;
  hall h = set_hall();
  nx_actor releasing = {.bound = h.bound};
  nx_actor_start(&releasing, release_it, "execute: answered");
  nxmem_loss loss;
  MUST(nxmem_mechanism_lose(h.m, &loss, &error));
  assert_int_equal(loss.calls_inside, 1);
  assert_int_equal(loss.retained, 0);
  REFUSED(nxmem_mechanism_confirm_terminated(h.m, &error), NXMEM_ERR_BUSY);
  assert_int_equal(nx_actor_end(&releasing), NXMEM_ERR_QUARANTINED);
  assert_int_equal(releasing.error.found, NXMEM_KEPT_DEVICE_LOST);
  assert_int_equal(nx_state_of(h.m).owned_bytes, 64);
  nx_assert_kept(h.m, NXMEM_KEPT_DEVICE_LOST, &h.bound);
  strike_hall(&h);
  nx_play_strike(&play); /* the plugin did take it back */
}

/* Made while its device went: nobody gets it, and it is kept. */
static void test_allocated_during(void **state) {
  const char *gap = *state;
  hall h = set_hall();
  MUST(nxmem_bound_release(&h.bound, &error));
  nx_actor allocating = {.binding = h.binding};
  nx_actor_start(&allocating, allocate_it, gap);
  MUST(nxmem_mechanism_lose(h.m, NULL, &error));
  assert_int_equal(nx_actor_end(&allocating), NXMEM_ERR_DEVICE_LOST);
  assert_null(allocating.bound.ptr);
  const int let_in = strcmp(gap, "allocate: begun") != 0;
  assert_int_equal(nx_puppet_calls(NX_IN_ALLOCATE), let_in ? 2 : 1);
  assert_int_equal(nx_state_of(h.m).holdings.quarantined, let_in);
  if (let_in) {
    nxmem_kept kept;
    uint32_t count = 0;
    MUST(nxmem_mechanism_quarantine(h.m, 0, &kept, 1, &count, NULL, &error));
    assert_int_equal(kept.reason, NXMEM_KEPT_DEVICE_LOST);
    free((void *)(uintptr_t)kept.address);
  }
  strike_hall(&h);
  nx_play_strike_lost(&play);
}

/* The loss takes what a release has looked at: one of the two settles it. */
static void test_loss_beside_release(void **state) {
  (void)state;
  hall h = set_hall();
  nx_actor releasing = {.bound = h.bound};
  nx_actor_start(&releasing, release_it, "release: looked at");
  nxmem_loss loss;
  MUST(nxmem_mechanism_lose(h.m, &loss, &error));
  assert_int_equal(loss.retained, 1);
  assert_int_equal(nx_actor_end(&releasing), NXMEM_ERR_UNKNOWN_ALLOCATION);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION), 0);
  assert_lost_one(&h, NXMEM_KEPT_DEVICE_LOST);
}

/* Claimed before the loss has looked through the records, looked at behind it. */
static void test_release_beside_loss(void **state) {
  (void)state;
  hall h = set_hall();
  nx_actor losing = {.mechanism = h.m};
  nx_actor_start(&losing, lose_it, "lose: shut");
  REFUSED(nxmem_bound_release(&h.bound, &error), NXMEM_ERR_DEVICE_LOST);
  assert_int_equal(nx_actor_end(&losing), NXMEM_OK);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION), 0);
  assert_lost_one(&h, NXMEM_KEPT_DEVICE_LOST);
}

/* ---- Refused by queues ------------------------------------------------------------------------------------------- */

static void push_it(nx_actor *a) { a->result = nxmem_release_queue_push(a->queue, a->prepared, &a->error); }

/* One queue that is full and one that is closing, and a release that both are about to refuse. */
typedef struct refusing {
  hall h;
  nxmem_bound other; /* what fills the one */
  nx_actor full, closing;
} refusing;

static void set_refusing(refusing *r) {
  *r = (refusing){.h = set_hall()};
  r->other = nx_must_allocate_bound(r->h.binding, 64);
  MUST(nxmem_release_queue_create(play.registry, 1, &r->full.queue, &error));
  MUST(nxmem_release_queue_create(play.registry, 1, &r->closing.queue, &error));
  MUST(nxmem_release_queue_push(r->full.queue, nx_must_prepare(&r->other), &error));
  MUST(nxmem_release_queue_close(r->closing.queue, &error));
  r->full.prepared = r->closing.prepared = nx_must_prepare(&r->h.bound);
  nx_actor_start(&r->full, push_it, "queue: refused");
}

static void strike_refusing(refusing *r, nxmem_keeping reason) {
  nx_assert_kept(r->h.m, reason, &r->h.bound);
  MUST(nxmem_release_queue_drain(r->full.queue, 1, NULL, &error));
  MUST(nxmem_release_queue_destroy(r->full.queue, NULL, &error));
  MUST(nxmem_release_queue_destroy(r->closing.queue, NULL, &error));
  free(r->h.bound.ptr);
  MUST(nxmem_binding_end(r->h.binding, 0, &error));
  nx_must_bury(r->h.m);
  nx_play_strike_lost(&play);
}

/* Two refuse at once: each says why it did. */
static void test_two_refusals(void **state) {
  (void)state;
  refusing r;
  set_refusing(&r);
  nx_actor_start(&r.closing, push_it, "queue: refused");
  assert_int_equal(nx_actor_end(&r.full), NXMEM_ERR_QUEUE_REFUSED);
  assert_int_equal(nx_actor_end(&r.closing), NXMEM_ERR_QUEUE_REFUSED);
  assert_int_equal(r.full.error.found, 1);
  assert_int_equal(r.full.error.needed, 1);
  assert_int_equal(r.closing.error.found, 0);
  assert_int_equal(r.closing.error.needed, 0);
  MUST(nxmem_prepared_abandon(r.full.prepared, &error));
  strike_refusing(&r, NXMEM_KEPT_QUEUE_REFUSED);
}

/* Given up before the refusal came: that is why it is kept. */
static void test_abandoned_before_refusal(void **state) {
  (void)state;
  refusing r;
  set_refusing(&r);
  MUST(nxmem_prepared_abandon(r.full.prepared, &error));
  assert_int_equal(nx_actor_end(&r.full), NXMEM_ERR_UNKNOWN_ALLOCATION);
  strike_refusing(&r, NXMEM_KEPT_ABANDONED);
}

/* Another queue has it by then, and is destroyed with it. */
static void test_taken_before_refusal(void **state) {
  (void)state;
  refusing r;
  set_refusing(&r);
  nxmem_release_queue taking = {0};
  MUST(nxmem_release_queue_create(play.registry, 1, &taking, &error));
  MUST(nxmem_release_queue_push(taking, r.full.prepared, &error));
  assert_int_equal(nx_actor_end(&r.full), NXMEM_ERR_UNKNOWN_ALLOCATION);
  MUST(nxmem_release_queue_destroy(taking, NULL, &error));
  strike_refusing(&r, NXMEM_KEPT_OWNER_DROPPED);
}

/* ---- Removal ----------------------------------------------------------------------------------------------------- */

/* The pins outlive the allocator's own release, and go in their order. */
static void test_teardown_order(void **state) {
  (void)state;
  play = nx_play_set();
  nx_actor removing = {.mechanism = nx_play_register(&play)};
  MUST(nxmem_mechanism_retire(removing.mechanism, &error));
  nx_actor_start(&removing, remove_it, "remove: claimed");
  REFUSED(nxmem_authority_remove(play.authority, &error), NXMEM_ERR_BUSY);
  REFUSED(nxmem_context_remove(play.context, &error), NXMEM_ERR_BUSY);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE), 0);
  nx_actor_go(&removing, "remove: allocator released");
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE), 1);
  REFUSED(nxmem_authority_remove(play.authority, &error), NXMEM_ERR_BUSY);
  REFUSED(nxmem_context_remove(play.context, &error), NXMEM_ERR_BUSY);
  nx_actor_go(&removing, "remove: authority unpinned");
  REFUSED(nxmem_context_remove(play.context, &error), NXMEM_ERR_BUSY);
  nx_actor_go(&removing, "remove: context unpinned");
  assert_int_equal(nx_actor_end(&removing), NXMEM_OK);
  nx_play_strike(&play);
}

/* Bound between the first look at what is held and the claim: seen by the second. */
static void test_loss_of_what_is_removed(void **state) {
  (void)state;
  play = nx_play_set();
  nx_actor removing = {.mechanism = nx_play_register(&play)};
  MUST(nxmem_mechanism_retire(removing.mechanism, &error));
  nx_actor_start(&removing, remove_it, "remove: claimed");
  MUST(nxmem_mechanism_lose(removing.mechanism, NULL, &error)); /* a loss is a loss */
  const uint64_t entries = nx_entries();
  assert_int_equal(nx_actor_end(&removing), NXMEM_ERR_BUSY);
  assert_int_equal(nx_entries(), entries);
  assert_int_equal(nx_state_of(removing.mechanism).lifecycle, NXMEM_LIFECYCLE_DEVICE_LOST);
  nx_must_bury(removing.mechanism);
  nx_play_strike(&play);
}

/* ---- Dropped --------------------------------------------------------------------------------------------------------- */

static void drop_it(nx_actor *a) { a->result = nxmem_binding_end(a->binding, NXMEM_END_DROP, &a->error); }

static void end_it(nx_actor *a) { a->result = nxmem_binding_end(a->binding, 0, &a->error); }

static void assert_dropped_one(hall *h, nx_actor *allocating) {
  assert_int_equal(nx_actor_end(allocating), NXMEM_ERR_STALE_HANDLE);
  assert_int_equal(allocating->bound.id, 0);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION), 1); /* the hall's own */
  assert_int_equal(nx_state_of(h->m).holdings.live, 0);
}

static void strike_dropped(hall *h) {
  nxmem_kept kept;
  uint32_t count = 0;
  MUST(nxmem_mechanism_quarantine(h->m, 0, &kept, 1, &count, NULL, &error));
  assert_int_equal(count, 1);
  assert_int_equal(kept.reason, NXMEM_KEPT_OWNER_DROPPED);
  assert_int_equal(nx_state_of(h->m).holdings.bindings, 0); /* nothing uses it any more */
  free((void *)(uintptr_t)kept.address);
  nx_must_bury(h->m);
  nx_play_strike_lost(&play);
}

/* Made while its owner went: nobody gets it, it is kept, and nothing of it pins the mechanism. */
static void test_allocated_beside_drop(void **state) {
  hall h = set_hall();
  MUST(nxmem_bound_release(&h.bound, &error));
  nx_actor allocating = {.binding = h.binding};
  nx_actor_start(&allocating, allocate_it, *state);
  MUST(nxmem_binding_end(h.binding, NXMEM_END_DROP, &error));
  assert_dropped_one(&h, &allocating);
  strike_dropped(&h);
}

/* The drop has turned the word and looked through nothing yet: whichever of the two comes first keeps it, once. */
static void test_allocated_inside_drop(void **state) {
  (void)state;
  hall h = set_hall();
  MUST(nxmem_bound_release(&h.bound, &error));
  nx_actor allocating = {.binding = h.binding}, dropping = {.binding = h.binding};
  nx_actor_start(&allocating, allocate_it, "allocate: let in");
  nx_actor_start(&dropping, drop_it, "binding: dropped");
  assert_dropped_one(&h, &allocating);
  assert_int_equal(nx_state_of(h.m).holdings.bindings, 1); /* the drop's own use */
  assert_int_equal(nx_actor_end(&dropping), NXMEM_OK);
  strike_dropped(&h);
}

/*
 * Whoever was about to end it looks on while another ends it and its slot becomes another binding's, which is dropped too: what was found of the one is
 * not true of the other, which is used still.
 */
static void test_dropped_again(void **state) {
  (void)state;
  hall h = set_hall();
  const nxmem_prepared prepared = nx_must_prepare(&h.bound);
  nx_actor dropping = {.binding = h.binding};
  nx_actor_start(&dropping, drop_it, "drop: found dropped");
  MUST(nxmem_prepared_execute(prepared, &error)); /* its last use: that ends it */
  const nxmem_binding other = nx_must_bind(h.m);
  assert_int_equal((uint32_t)other.id, (uint32_t)h.binding.id); /* the slot */
  assert_int_not_equal(other.id, h.binding.id);
  nx_actor_go(&dropping, "drop: used by nobody");
  const nxmem_bound bound = nx_must_allocate_bound(other, 64);
  const nxmem_prepared last = nx_must_prepare(&bound);
  MUST(nxmem_binding_end(other, NXMEM_END_DROP, &error));
  assert_int_equal(nx_actor_end(&dropping), NXMEM_OK);
  assert_int_equal(nx_state_of(h.m).holdings.bindings, 1); /* the release that was prepared pins it */
  MUST(nxmem_prepared_execute(last, &error));
  assert_int_equal(nx_state_of(h.m).holdings.bindings, 0);
  nx_put_away(h.m);
  nx_play_strike(&play);
}

/* Retired meanwhile, it was let in before: it is its maker's, as all that was made before is. */
static void test_allocated_beside_retirement(void **state) {
  (void)state;
  hall h = set_hall();
  MUST(nxmem_bound_release(&h.bound, &error));
  nx_actor allocating = {.binding = h.binding};
  nx_actor_start(&allocating, allocate_it, "allocate: let in");
  MUST(nxmem_mechanism_retire(h.m, &error));
  assert_int_equal(nx_actor_end(&allocating), NXMEM_OK);
  MUST(nxmem_bound_release(&allocating.bound, &error));
  strike_hall(&h);
  nx_play_strike(&play);
}

/* An end that finds it used, and so is none, takes nothing from who allocates. */
static void test_allocated_beside_busy_end(void **state) {
  (void)state;
  hall h = set_hall();
  MUST(nxmem_bound_release(&h.bound, &error));
  nx_actor allocating = {.binding = h.binding}, ending = {.binding = h.binding};
  nx_actor_start(&allocating, allocate_it, "allocate: let in");
  nx_actor_start(&ending, end_it, "binding: taken");
  assert_int_equal(nx_actor_end(&allocating), NXMEM_OK);
  assert_int_equal(nx_actor_end(&ending), NXMEM_ERR_BUSY);
  assert_int_equal(ending.error.found, 1);
  MUST(nxmem_bound_release(&allocating.bound, &error));
  strike_hall(&h);
  nx_play_strike(&play);
}

/* ---- A manager's transaction ----------------------------------------------------------------------------------------- */

static nxmem_transaction transaction;
static nxmem_rollback left;
static void roll_it_back(nx_actor *a) { a->result = nxmem_transaction_rollback(transaction, &left, &a->error); }

/* A loss has claimed what is rolled back, and kept nothing yet: it is behind all the same, and the rollback says so. */
static void test_rolled_back_beside_loss(void **state) {
  (void)state;
  hall h = set_hall();
  MUST(nxmem_bound_release(&h.bound, &error));
  nxmem_manager manager;
  MUST(nxmem_manager_create(&manager, &error));
  MUST(nxmem_manager_add_authority(manager, play.authority, NXMEM_TIER_HOST, NULL, &error));
  const nxmem_request request = {play.authority, h.binding, 64, 16, NULL, {64, 64, 64}};
  MUST(nxmem_transaction_reserve(manager, &request, &transaction, &error));
  MUST(nxmem_transaction_allocate(transaction, &error));
  nx_actor rolling = {0}, losing = {.mechanism = h.m};
  nx_actor_start(&rolling, roll_it_back, "release: looked at");
  nx_actor_start(&losing, lose_it, "keep: claimed");
  assert_int_equal(nx_actor_end(&rolling), NXMEM_OK);
  assert_int_equal(left.kept, 1);
  assert_int_equal(left.keeping, NXMEM_KEPT_DEVICE_LOST);
  assert_int_equal(left.behind.charged, 64);
  assert_int_equal(nx_actor_end(&losing), NXMEM_OK);
  MUST(nxmem_binding_end(h.binding, 0, &error));
  nx_must_bury(h.m);
  MUST(nxmem_manager_remove_authority(manager, play.authority, &error));
  MUST(nxmem_manager_destroy(manager, &error));
  nx_play_strike_lost(&play);
}

int main(int count, char **arguments) {
  nx_suite suite = {0};
  static void (*const releases[])(nx_actor *) = {release_it, prepare_it};
  nx_suite_add(&suite, "release: two at once", test_two_releases, &releases[0]);
  nx_suite_add(&suite, "release: a prepare beside a release", test_two_releases, &releases[1]);
  nx_suite_add(&suite, "release: the record has a successor", test_release_of_a_successor, NULL);
  nx_suite_add(&suite, "execute: two at once", test_two_executions, NULL);
  nx_suite_add(&suite, "loss: a queued release that is drained", test_loss_before_drain, "drain: taken");
  nx_suite_add(&suite, "loss: a queued release that is about to enter", test_loss_before_drain, "execute: begun");
  nx_suite_add(&suite, "loss: executed before the gate is shut", test_execute_beside_loss, NULL);
  nx_suite_add(&suite, "loss: executed when it is confirmed", test_execute_behind_confirmation, NULL);
  nx_suite_add(&suite, "loss: while the plugin releases", test_lost_during, NULL);
  nx_suite_add(&suite, "loss: before an allocation is let in", test_allocated_during, "allocate: begun");
  nx_suite_add(&suite, "loss: when an allocation was let in", test_allocated_during, "allocate: let in");
  nx_suite_add(&suite, "loss: when an allocation is made", test_allocated_during, "allocate: noted");
  nx_suite_add(&suite, "loss: takes what a release has looked at", test_loss_beside_release, NULL);
  nx_suite_add(&suite, "loss: finds what a release has settled", test_release_beside_loss, NULL);
  nx_suite_add(&suite, "queue: two refuse at once", test_two_refusals, NULL);
  nx_suite_add(&suite, "queue: abandoned before the refusal", test_abandoned_before_refusal, NULL);
  nx_suite_add(&suite, "queue: taken before the refusal", test_taken_before_refusal, NULL);
  nx_suite_add(&suite, "removal: allocator, authority, context", test_teardown_order, NULL);
  nx_suite_add(&suite, "removal: lost while it is removed", test_loss_of_what_is_removed, NULL);
  nx_suite_add(&suite, "drop: when an allocation was let in", test_allocated_beside_drop, "allocate: let in");
  nx_suite_add(&suite, "drop: when an allocation is made", test_allocated_beside_drop, "allocate: noted");
  nx_suite_add(&suite, "drop: while it is looked through", test_allocated_inside_drop, NULL);
  nx_suite_add(&suite, "drop: what is dropped in the slot of another", test_dropped_again, NULL);
  nx_suite_add(&suite, "retired: when an allocation was let in", test_allocated_beside_retirement, NULL);
  nx_suite_add(&suite, "ended in vain: when an allocation was let in", test_allocated_beside_busy_end, NULL);
  nx_suite_add(&suite, "loss: takes what is rolled back", test_rolled_back_beside_loss, NULL);
  return nx_suite_main(&suite, "registry release races", count, arguments);
}
