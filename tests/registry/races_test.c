/*
 * races_test.c: the interleavings that matter, each driven step by step.
 *
 * Attackers played: callers that select, retire, lose, register, release and remove at once; a device that vanishes in every gap.
 * Promise: no order of the steps leaves a dead mechanism selected, a newer selection taken back, an allocation released twice or a call in a lost plugin.
 */
#include "registrytest.h"
#include "steps.h"

static nx_play play;

static void select_it(nx_actor *a) { a->result = nxmem_mechanism_select(a->mechanism, &a->error); }
static void retire_it(nx_actor *a) { a->result = nxmem_mechanism_retire(a->mechanism, &a->error); }
static void lose_it(nx_actor *a) { a->result = nxmem_mechanism_lose(a->mechanism, NULL, &a->error); }
static void release_it(nx_actor *a) { a->result = nxmem_bound_release(&a->bound, &a->error); }
static void prepare_it(nx_actor *a) { a->result = nxmem_bound_prepare(&a->bound, &a->prepared, &a->error); }
static void execute_it(nx_actor *a) { a->result = nxmem_prepared_execute(a->prepared, &a->error); }
static void drain_it(nx_actor *a) { a->result = nxmem_release_queue_drain(a->queue, 1, NULL, &a->error); }
static void remove_it(nx_actor *a) { a->result = nxmem_mechanism_remove(a->mechanism, NULL, &a->error); }
static void register_it(nx_actor *a) {
  const nxmem_open_options options = {.mechanism = "puppet"};
  a->result = nxmem_mechanism_register(play.context, play.authority, play.plugin, &options, &a->mechanism, &a->error);
}
static void allocate_it(nx_actor *a) {
  a->result = nxmem_bound_allocate(a->binding, 64, 16, NULL, &a->bound, &a->error);
}
static void bind_it(nx_actor *a) { a->result = nxmem_bind(play.registry, nx_device_0, &a->binding, &a->error); }

/* ---- Selection --------------------------------------------------------------------------------------------------- */

/* P is selected, C is about to be: its select stands behind its publication, and C is retired. */
typedef struct pair {
  nxmem_mechanism p, c;
  nx_actor selecting;
} pair;

static pair set_pair(void) {
  play = nx_play_set();
  pair two = {.p = nx_play_register(&play)};
  two.c = nx_play_register(&play);
  nx_assert_selected(&play, two.p);
  return two;
}

/*
 * What retires it stops behind the lifecycle: it would drop the selection itself. So the select alone withdraws.
 */
static void fail_candidate(pair *two, nx_actor *retiring) {
  two->selecting.mechanism = two->c;
  nx_actor_start(&two->selecting, select_it, "select: published");
  nx_assert_selected(&play, two->c);
  retiring->mechanism = two->c;
  nx_actor_start(retiring, retire_it, "retire: terminal");
}

static void test_healthy_predecessor(void **state) {
  (void)state;
  pair two = set_pair();
  nx_actor retiring = {0};
  fail_candidate(&two, &retiring);
  assert_int_equal(nx_actor_end(&two.selecting), NXMEM_ERR_RETIRED);
  nx_assert_selected(&play, two.p); /* before the retirement has looked at the selection at all */
  assert_int_equal(nx_actor_end(&retiring), NXMEM_OK);
  nx_assert_selected(&play, two.p);
  nx_must_go(two.c);
  nx_must_go(two.p);
  nx_play_strike(&play);
}

typedef enum fate { RETIRED, REMOVED, LOST } fate;

typedef struct dead_row {
  const char *name;
  fate fate;
  const char *gap; /* where the select stands when its predecessor ends */
} dead_row;

static const dead_row dead_rows[] = {
    {"predecessor retired before it is looked at", RETIRED, "select: published"},
    {"predecessor retired before it is restored", RETIRED, "select: predecessor looked at"},
    {"predecessor retired behind its restoration", RETIRED, "select: predecessor restored"},
    {"predecessor lost before it is looked at", LOST, "select: published"},
    {"predecessor lost before it is restored", LOST, "select: predecessor looked at"},
    {"predecessor lost behind its restoration", LOST, "select: predecessor restored"},
    {"predecessor removed before it is looked at", REMOVED, "select: published"},
    {"predecessor removed before it is restored", REMOVED, "select: predecessor looked at"},
    {"predecessor removed behind its restoration", REMOVED, "select: predecessor restored"},
};

static void end_it(nxmem_mechanism m, fate how) {
  if (how == LOST)
    MUST(nxmem_mechanism_lose(m, NULL, &error));
  else
    MUST(nxmem_mechanism_retire(m, &error));
  if (how == REMOVED) MUST(nxmem_mechanism_remove(m, NULL, &error));
}

static void test_dead_predecessor(void **state) {
  const dead_row *row = *state;
  pair two = set_pair();
  nx_actor retiring = {0};
  fail_candidate(&two, &retiring);
  if (strcmp(row->gap, "select: published") != 0) nx_actor_go(&two.selecting, row->gap);
  end_it(two.p, row->fate);
  assert_int_equal(nx_actor_end(&two.selecting), NXMEM_ERR_RETIRED);
  assert_int_equal(nx_actor_end(&retiring), NXMEM_OK);
  nx_assert_selected(&play, (nxmem_mechanism){0});
  nxmem_mechanism heals = nx_play_register(&play); /* into the empty place */
  nx_assert_selected(&play, heals);
  nx_must_go(heals);
  nx_must_go(two.c);
  if (row->fate == RETIRED) nx_must_go(two.p);
  if (row->fate == LOST) nx_must_bury(two.p);
  nx_play_strike(&play);
}

static void test_newer_kept(void **state) {
  const char *gap = *state;
  pair two = set_pair();
  const nxmem_mechanism newer = nx_play_register(&play);
  nx_actor retiring = {0};
  fail_candidate(&two, &retiring);
  if (strcmp(gap, "select: published") != 0) nx_actor_go(&two.selecting, gap);
  MUST(nxmem_mechanism_select(newer, &error));
  assert_int_equal(nx_actor_end(&two.selecting), NXMEM_ERR_RETIRED);
  nx_assert_selected(&play, newer);
  assert_int_equal(nx_actor_end(&retiring), NXMEM_OK);
  nx_assert_selected(&play, newer);
  nx_must_go(newer);
  nx_must_go(two.c);
  nx_must_go(two.p);
  nx_play_strike(&play);
}

/* The predecessor is back, ends, and somebody selects another: the last look at the predecessor leaves that alone. */
static void test_newer_than_restored(void **state) {
  (void)state;
  pair two = set_pair();
  const nxmem_mechanism newer = nx_play_register(&play);
  nx_actor retiring = {0}, retiring_p = {.mechanism = two.p};
  fail_candidate(&two, &retiring);
  nx_actor_go(&two.selecting, "select: predecessor restored");
  nx_actor_start(&retiring_p, retire_it, "retire: terminal");
  MUST(nxmem_mechanism_select(newer, &error));
  assert_int_equal(nx_actor_end(&two.selecting), NXMEM_ERR_RETIRED);
  nx_assert_selected(&play, newer);
  assert_int_equal(nx_actor_end(&retiring_p), NXMEM_OK);
  assert_int_equal(nx_actor_end(&retiring), NXMEM_OK);
  nx_assert_selected(&play, newer);
  nx_must_go(newer);
  nx_must_go(two.c);
  nx_must_go(two.p);
  nx_play_strike(&play);
}

/* C was published over P, D over C; both end. Whoever withdraws first, nothing dead stands there, and a registration heals it. */
static void two_failing(int first_first) {
  pair two = set_pair();
  const nxmem_mechanism d = nx_play_register(&play);
  nx_actor second = {.mechanism = d}, retiring = {0}, retiring_d = {.mechanism = d};
  two.selecting.mechanism = two.c;
  nx_actor_start(&two.selecting, select_it, "select: published");
  nx_actor_start(&second, select_it, "select: published");
  retiring.mechanism = two.c;
  nx_actor_start(&retiring, retire_it, "retire: terminal");
  nx_actor_start(&retiring_d, retire_it, "retire: terminal");
  if (first_first) assert_int_equal(nx_actor_end(&two.selecting), NXMEM_ERR_RETIRED);
  assert_int_equal(nx_actor_end(&second), NXMEM_ERR_RETIRED);
  if (!first_first) assert_int_equal(nx_actor_end(&two.selecting), NXMEM_ERR_RETIRED);
  nx_assert_selected(&play, (nxmem_mechanism){0});
  assert_int_equal(nx_actor_end(&retiring), NXMEM_OK);
  assert_int_equal(nx_actor_end(&retiring_d), NXMEM_OK);
  nxmem_mechanism heals = nx_play_register(&play);
  nx_assert_selected(&play, heals);
  nx_must_go(heals);
  nx_must_go(d);
  nx_must_go(two.c);
  nx_must_go(two.p);
  nx_play_strike(&play);
}

static void test_two_failing_first(void **state) {
  (void)state;
  two_failing(1);
}
static void test_two_failing_second(void **state) {
  (void)state;
  two_failing(0);
}

/* ---- An end against a select ------------------------------------------------------------------------------------- */

typedef struct end_row {
  const char *name;
  void (*ends)(nx_actor *actor);
  const char *terminal;
  nxmem_result refused;
} end_row;

static const end_row retiring_row = {"retire", retire_it, "retire: terminal", NXMEM_ERR_RETIRED};
static const end_row losing_row = {"lose", lose_it, "lose: terminal", NXMEM_ERR_DEVICE_LOST};

static void put_away(nxmem_mechanism m) {
  if (nx_state_of(m).lifecycle >= NXMEM_LIFECYCLE_DEVICE_LOST)
    nx_must_bury(m);
  else
    nx_must_go(m);
}

/* It ended between the first look and the publication: its end had dropped a selection that was not there yet. */
static void test_published_behind_end(void **state) {
  const end_row *row = *state;
  pair two = set_pair();
  nx_actor ending = {.mechanism = two.c};
  two.selecting.mechanism = two.c;
  nx_actor_start(&two.selecting, select_it, "select: looked at");
  row->ends(&ending);
  assert_int_equal(ending.result, NXMEM_OK);
  assert_int_equal(nx_actor_end(&two.selecting), row->refused);
  nx_assert_selected(&play, two.p);
  put_away(two.c);
  nx_must_go(two.p);
  nx_play_strike(&play);
}

/* The select is through its re-check before the end turns it: then the end drops it. */
static void test_ended_behind_select(void **state) {
  const end_row *row = *state;
  pair two = set_pair();
  nx_actor ending = {.mechanism = two.c};
  MUST(nxmem_mechanism_select(two.c, &error));
  row->ends(&ending);
  assert_int_equal(ending.result, NXMEM_OK);
  nx_assert_selected(&play, (nxmem_mechanism){0});
  put_away(two.c);
  nx_must_go(two.p);
  nx_play_strike(&play);
}

/* While the end stands between the lifecycle and the selection, what ended can be selected by nobody, and what is selected instead stays. */
static void test_select_in_the_gap(void **state) {
  const end_row *row = *state;
  pair two = set_pair();
  nx_actor ending = {.mechanism = two.p};
  nx_actor_start(&ending, row->ends, row->terminal);
  REFUSED(nxmem_mechanism_select(two.p, &error), row->refused);
  MUST(nxmem_mechanism_select(two.c, &error));
  assert_int_equal(nx_actor_end(&ending), NXMEM_OK);
  nx_assert_selected(&play, two.c);
  nx_must_go(two.c);
  put_away(two.p);
  nx_play_strike(&play);
}

/* What has ended already is not even published: nobody finds it there for a moment. */
static void test_not_published(void **state) {
  const end_row *row = *state;
  pair two = set_pair();
  nx_actor ending = {.mechanism = two.c};
  row->ends(&ending);
  nx_watch("select: published");
  REFUSED(nxmem_mechanism_select(two.c, &error), row->refused);
  assert_int_equal(nx_watched(), 0);
  nx_watch(NULL);
  nx_assert_selected(&play, two.p);
  put_away(two.c);
  nx_must_go(two.p);
  nx_play_strike(&play);
}

/* Bound through a selection that was dropped meanwhile: refused, not bound to what has ended. */
static void test_bind_behind_end(void **state) {
  const end_row *row = *state;
  pair two = set_pair();
  nx_actor binding = {0}, ending = {.mechanism = two.p};
  nx_actor_start(&binding, bind_it, "bind: selection read");
  row->ends(&ending);
  assert_int_equal(nx_actor_end(&binding), NXMEM_ERR_UNKNOWN_MECHANISM); /* looked again: there is none */
  assert_int_equal(nx_state_of(two.p).holdings.bindings, 0);
  nx_must_go(two.c);
  put_away(two.p);
  nx_play_strike(&play);
}

/* Registered into an empty place, and ended before it had looked again. */
static void test_register_ended(void **state) {
  const end_row *row = *state;
  play = nx_play_set();
  nx_actor registering = {0}, ending = {0};
  nx_actor_start(&registering, register_it, "register: published");
  ending.mechanism = nx_selected(&play);
  assert_int_not_equal(ending.mechanism.id, 0);
  nx_actor_start(&ending, row->ends, row->terminal);
  assert_int_equal(nx_actor_end(&registering), NXMEM_OK);
  nx_assert_selected(&play, (nxmem_mechanism){0});
  assert_int_equal(nx_actor_end(&ending), NXMEM_OK);
  put_away(registering.mechanism);
  nx_play_strike(&play);
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
  put_away(h->m);
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

/* An allocation that its binding's dropped owner has not seen is its maker's; the binding pins until it has gone. */
static void test_allocated_beside_drop(void **state) {
  (void)state;
  hall h = set_hall();
  MUST(nxmem_bound_release(&h.bound, &error));
  nx_actor allocating = {.binding = h.binding};
  nx_actor_start(&allocating, allocate_it, "allocate: let in");
  MUST(nxmem_binding_end(h.binding, NXMEM_END_DROP, &error));
  assert_int_equal(nx_actor_end(&allocating), NXMEM_OK);
  assert_int_equal(nx_state_of(h.m).holdings.bindings, 1);
  MUST(nxmem_bound_release(&allocating.bound, &error));
  assert_int_equal(nx_state_of(h.m).holdings.bindings, 0);
  nx_must_go(h.m);
  nx_play_strike(&play);
}

int main(void) {
  nx_suite suite = {0};
  static void (*const releases[])(nx_actor *) = {release_it, prepare_it};
  nx_suite_add(&suite, "select: a healthy predecessor is restored", test_healthy_predecessor, NULL);
  nx_suite_rows(&suite, ROWS(dead_rows), test_dead_predecessor);
  nx_suite_add(&suite, "select: newer than what is published is kept", test_newer_kept, "select: published");
  nx_suite_add(&suite, "select: newer than what is withdrawn is kept", test_newer_kept,
               "select: predecessor looked at");
  nx_suite_add(&suite, "select: newer than what is restored is kept", test_newer_kept, "select: predecessor restored");
  nx_suite_add(&suite, "select: newer than a restored one that ended is kept", test_newer_than_restored, NULL);
  nx_suite_add(&suite, "select: two fail, the first withdraws first", test_two_failing_first, NULL);
  nx_suite_add(&suite, "select: two fail, the second withdraws first", test_two_failing_second, NULL);
  static const end_row *const ends[] = {&retiring_row, &losing_row};
  for (size_t i = 0; i < 2; i++) {
    const char *what = ends[i]->name;
    nx_suite_add(&suite, nx_name("%s: ended before it is published", what), test_published_behind_end, ends[i]);
    nx_suite_add(&suite, nx_name("%s: ended behind its selection", what), test_ended_behind_select, ends[i]);
    nx_suite_add(&suite, nx_name("%s: another is selected in the gap", what), test_select_in_the_gap, ends[i]);
    nx_suite_add(&suite, nx_name("%s: selected behind it", what), test_not_published, ends[i]);
    nx_suite_add(&suite, nx_name("%s: bound behind it", what), test_bind_behind_end, ends[i]);
    nx_suite_add(&suite, nx_name("%s: registered and ended", what), test_register_ended, ends[i]);
  }
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
  nx_suite_add(&suite, "removal: allocator, authority, context", test_teardown_order, NULL);
  nx_suite_add(&suite, "removal: lost while it is removed", test_loss_of_what_is_removed, NULL);
  nx_suite_add(&suite, "drop: beside an allocation", test_allocated_beside_drop, NULL);
  return nx_suite_run(&suite, "registry races");
}
