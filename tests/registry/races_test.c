/*
 * races_test.c: what may be selected, and who ends it: the interleavings that matter, each driven step by step.
 *
 * Attackers played: callers that select, retire, lose, register and bind at once.
 * Promise: no order of the steps leaves a dead mechanism selected, or a newer selection taken back.
 */
#include "registrytest.h"
#include "steps.h"

static nx_play play;

static void select_it(nx_actor *a) { a->result = nxmem_mechanism_select(a->mechanism, &a->error); }
static void retire_it(nx_actor *a) { a->result = nxmem_mechanism_retire(a->mechanism, &a->error); }
static void lose_it(nx_actor *a) { a->result = nxmem_mechanism_lose(a->mechanism, NULL, &a->error); }
static void register_it(nx_actor *a) {
  const nxmem_open_options options = {.mechanism = "puppet"};
  a->result = nxmem_mechanism_register(play.context, play.authority, play.plugin, &options, &a->mechanism, &a->error);
}
static void register_on_1(nx_actor *a) {
  const nxmem_open_options options = {.mechanism = "puppet-1", .device = &nx_device_1};
  a->result = nxmem_mechanism_register(play.context, play.authority, play.plugin, &options, &a->mechanism, &a->error);
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
  nx_put_away(two.c);
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
  nx_put_away(two.c);
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
  nx_put_away(two.p);
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
  nx_put_away(two.c);
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
  nx_put_away(two.p);
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
  nx_put_away(registering.mechanism);
  nx_play_strike(&play);
}

/* Its slot was that of one on the device that is lost; it is on another, and not shown yet. */
static void test_lose_beside_register(void **state) {
  (void)state;
  play = nx_play_set_two();
  nx_actor registering = {0};
  nxmem_loss loss;
  nx_must_go(nx_play_register(&play));
  puppet.table.device = nx_device_1;
  nx_actor_start(&registering, register_on_1, "register: slot taken");
  nx_watch("lose device: found");
  MUST(nxmem_registry_lose_device(play.registry, nx_device_0, &loss, &error));
  assert_int_equal(nx_watched(), 0);
  assert_int_equal(loss.mechanisms, 0);
  assert_int_equal(nx_actor_end(&registering), NXMEM_OK);
  nx_must_go(registering.mechanism);
  nx_play_strike(&play);
}

/* ---- A slot that becomes another's --------------------------------------------------------------------------------- */

typedef struct reuse_row {
  const char *name;
  void (*ends)(nx_actor *a);
  const char *until;
  nxmem_result result;
} reuse_row;

static void confirm_it(nx_actor *a) { a->result = nxmem_mechanism_confirm_terminated(a->mechanism, &a->error); }

static const reuse_row reuse_rows[] = {
    {"reuse: behind a retirement's lifecycle", retire_it, "retire: terminal", NXMEM_OK},
    {"reuse: behind a loss's lifecycle", lose_it, "lose: terminal", NXMEM_OK},
    {"reuse: behind a confirmation's look", confirm_it, "confirm: looked at", NXMEM_ERR_STALE_HANDLE},
};

/* While an end stands there its mechanism is removed by others, and its slot is that of another device's. */
static void test_reuse(void **state) {
  const reuse_row *row = *state;
  play = nx_play_set_two();
  nx_actor ending = {.mechanism = nx_play_register(&play)};
  if (row->ends == confirm_it) MUST(nxmem_mechanism_lose(ending.mechanism, NULL, &error));
  nx_actor_start(&ending, row->ends, row->until);
  nx_put_away(ending.mechanism);
  puppet.table.device = nx_device_1;
  nx_actor other = {0};
  register_on_1(&other);
  assert_int_equal((uint32_t)other.mechanism.id, (uint32_t)ending.mechanism.id); /* the slot */
  const nxmem_binding binding = nx_must_bind(other.mechanism);
  const nxmem_bound bound = nx_must_allocate_bound(binding, 64);
  assert_int_equal(nx_actor_end(&ending), row->result);
  nx_assert_selected(&play, (nxmem_mechanism){0});
  assert_int_equal(nx_state_of(other.mechanism).holdings.live, 1);
  assert_int_equal(nx_state_of(other.mechanism).selected, 1);
  MUST(nxmem_bound_release(&bound, &error));
  MUST(nxmem_binding_end(binding, 0, &error));
  nx_put_away(other.mechanism);
  nx_play_strike(&play);
}

int main(int count, char **arguments) {
  nx_suite suite = {0};
  nx_suite_add(&suite, "select: a healthy predecessor is restored", test_healthy_predecessor, NULL);
  nx_suite_rows(&suite, ROWS(dead_rows), test_dead_predecessor);
  nx_suite_add(&suite, "select: newer than what is published is kept", test_newer_kept, "select: published");
  nx_suite_add(&suite, "select: newer than what is withdrawn is kept", test_newer_kept,
               "select: predecessor looked at");
  nx_suite_add(&suite, "select: newer than what is restored is kept", test_newer_kept, "select: predecessor restored");
  nx_suite_add(&suite, "select: newer than a restored one that ended is kept", test_newer_than_restored, NULL);
  nx_suite_add(&suite, "select: two fail, the first withdraws first", test_two_failing_first, NULL);
  nx_suite_add(&suite, "select: two fail, the second withdraws first", test_two_failing_second, NULL);
  nx_suite_add(&suite, "lose a device: what is being registered on another", test_lose_beside_register, NULL);
  nx_suite_rows(&suite, ROWS(reuse_rows), test_reuse);
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
  return nx_suite_main(&suite, "registry races", count, arguments);
}
