/*
 * pressure_test.c: who is asked for bytes, in which order, and what comes of it.
 *
 * Attackers played: holders that lie about what they gave, that call back into the manager, that remove themselves; a plugin that asks for more than there is.
 * Promise: by priority, each once, with no lock held; one retry; what was said is never granted, only what the books have.
 */
#include "managertest.h"

enum { HOLDERS = 4, LOG = 16 };

typedef struct holder {
  int number;
  nxmem_bound bound; /* what it can spare; {0}: nothing */
  nxmem_axes says;   /* it gave */
  nxmem_pressure pressure;
  int removes_itself, allocates;
  nxmem_result result; /* of what it tried */
} holder;

static nx_scene scene;
static holder holders[HOLDERS];
static int asked[LOG];
static nxmem_axes wanted_by[LOG];
static int asked_count;

static void relieve(void *ctx, nxmem_authority authority, const nxmem_axes *wanted, nxmem_axes *given_out) {
  holder *h = ctx;
  assert_int_equal(authority.id, scene.authorities[0].id);
  if (asked_count < LOG) {
    wanted_by[asked_count] = *wanted;
    asked[asked_count++] = h->number;
  }
  (void)nx_books_now(&scene); /* no lock is held */
  if (h->removes_itself) h->result = nxmem_manager_remove_pressure(scene.manager, h->pressure, NULL);
  if (h->allocates) {
    nxmem_bound bound;
    const nxmem_request request = nx_request(&scene, 0, 1000, 0, 0);
    h->result = nxmem_manager_allocate(scene.manager, &request, &bound, NULL, NULL, NULL);
  }
  if (h->bound.id != 0) nx_must_give_back(&h->bound);
  h->bound.id = 0;
  *given_out = h->says;
}

static void add_holder(int number, int32_t priority, nxmem_axes says) {
  holders[number] = (holder){.number = number, .says = says};
  assert_int_equal(
      nxmem_manager_add_pressure(scene.manager, relieve, &holders[number], priority, &holders[number].pressure, NULL),
      NXMEM_OK);
}

/* 100 bytes charged in all; each holder of 20 can spare them. */
static void begin(void) {
  scene = nx_scene_of(1, 0);
  asked_count = 0;
  nx_must_budget(&scene, 0, AXES(100, NXMEM_TOTAL_MAX, NXMEM_TOTAL_MAX));
}

static void spare(int number, uint64_t charged) {
  const nxmem_request request = nx_request(&scene, 0, charged, 64, 64);
  holders[number].bound = nx_must_grant(&scene, &request, NULL);
  holders[number].says = AXES(charged, 64, 64);
}

static nxmem_result try_allocate(uint64_t charged, nxmem_bound *out, nxmem_error *error) {
  const nxmem_request request = nx_request(&scene, 0, charged, 64, 64);
  return nxmem_manager_allocate(scene.manager, &request, out, NULL, NULL, error);
}

static void assert_asked(const int *want, int count) {
  assert_int_equal(asked_count, count);
  for (int i = 0; i < count; i++) assert_int_equal(asked[i], want[i]);
}

static void test_in_order_until_enough(void **state) {
  (void)state;
  begin();
  nxmem_bound bound;
  add_holder(0, 5, AXES(0, 0, 0));
  add_holder(1, 9, AXES(0, 0, 0));
  add_holder(2, 5, AXES(0, 0, 0));
  add_holder(3, -1, AXES(0, 0, 0));
  spare(1, 20);
  spare(0, 20);
  spare(2, 20);
  spare(3, 20);
  assert_int_equal(try_allocate(70, &bound, NULL), NXMEM_OK); /* 20 left, 50 more: three of them, in order */
  assert_asked((const int[]){1, 0, 2}, 3);
  assert_int_equal(wanted_by[0].charged, 50);
  assert_int_equal(wanted_by[1].charged, 30);
  assert_int_equal(wanted_by[2].charged, 10);
  assert_int_equal(wanted_by[0].physical, 0);
  nx_must_give_back(&bound);
  nx_must_give_back(&holders[3].bound);
  nx_scene_end(&scene);
}

static void test_all_are_asked_once(void **state) {
  (void)state;
  begin();
  nxmem_bound bound;
  nxmem_error error = nx_blank_error();
  add_holder(0, 1, AXES(0, 0, 0));
  add_holder(1, 2, AXES(0, 0, 0));
  assert_int_equal(try_allocate(101, &bound, &error), NXMEM_ERR_OVER_LIMIT);
  assert_asked((const int[]){1, 0}, 2);
  assert_int_equal(nx_books_now(&scene).refusals, 1);
  nx_scene_end(&scene);
}

/* A holder that says more than it gave is believed up to what was asked, and the books decide. */
static void test_liar(void **state) {
  (void)state;
  begin();
  nxmem_bound bound, kept;
  nxmem_error error = nx_blank_error();
  add_holder(0, 9, AXES(UINT64_MAX, UINT64_MAX, UINT64_MAX));
  add_holder(1, 1, AXES(0, 0, 0));
  assert_int_equal(try_allocate(60, &kept, NULL), NXMEM_OK);
  assert_int_equal(try_allocate(60, &bound, &error), NXMEM_ERR_OVER_LIMIT);
  assert_asked((const int[]){0}, 1);
  assert_int_equal(error.needed, 40);
  nx_assert_used(&scene, AXES(60, 64, 64));
  nx_must_give_back(&kept);
  nx_scene_end(&scene);
}

/* It gives bytes back and says nothing: the retry finds them. */
static void test_silent_giver(void **state) {
  (void)state;
  begin();
  nxmem_bound bound;
  add_holder(0, 1, AXES(0, 0, 0));
  spare(0, 80);
  holders[0].says = AXES(0, 0, 0);
  assert_int_equal(try_allocate(90, &bound, NULL), NXMEM_OK);
  nx_must_give_back(&bound);
  nx_scene_end(&scene);
}

static void test_allocates_inside(void **state) {
  (void)state;
  begin();
  nxmem_bound bound;
  add_holder(0, 1, AXES(0, 0, 0));
  holders[0].allocates = 1;
  assert_int_equal(try_allocate(101, &bound, NULL), NXMEM_ERR_OVER_LIMIT);
  assert_int_equal(holders[0].result, NXMEM_ERR_OVER_LIMIT); /* and nobody was asked for that */
  assert_asked((const int[]){0}, 1);
  nx_scene_end(&scene);
}

static void test_removes_itself(void **state) {
  (void)state;
  begin();
  nxmem_bound bound;
  add_holder(0, 1, AXES(0, 0, 0));
  holders[0].removes_itself = 1;
  assert_int_equal(try_allocate(101, &bound, NULL), NXMEM_ERR_OVER_LIMIT);
  assert_int_equal(holders[0].result, NXMEM_ERR_BUSY);
  assert_int_equal(nxmem_manager_remove_pressure(scene.manager, holders[0].pressure, NULL), NXMEM_OK);
  assert_int_equal(nxmem_manager_remove_pressure(scene.manager, holders[0].pressure, NULL), NXMEM_ERR_STALE_HANDLE);
  assert_int_equal(try_allocate(101, &bound, NULL), NXMEM_ERR_OVER_LIMIT);
  assert_asked((const int[]){0}, 1);
  nx_scene_end(&scene);
}

/* The plugin takes more than was reserved: there is one retry at the commit as well. */
static void test_at_commit(void **state) {
  (void)state;
  begin();
  nxmem_bound bound;
  add_holder(0, 1, AXES(0, 0, 0));
  nx_must_budget(&scene, 0, AXES(1000, 100, 1000));
  spare(0, 1); /* 64 physical */
  const nxmem_request request = nx_request(&scene, 0, 1, 0, 0);
  assert_int_equal(nxmem_manager_allocate(scene.manager, &request, &bound, NULL, NULL, NULL), NXMEM_OK);
  assert_asked((const int[]){0}, 1);
  assert_int_equal(wanted_by[0].physical, 28);
  nx_must_give_back(&bound);
  nx_scene_end(&scene);
}

/* ---- How much is asked for --------------------------------------------------------------------------------------- */

#define MAX NXMEM_TOTAL_MAX
#define NONE NXMEM_AXES_UNLIMITED

static const nxmem_axes no_limit = NONE;

typedef struct amount_row {
  const char *name;
  nxmem_axes held;                 /* reserved before the limits are set */
  nxmem_axes budget, slice, limit; /* slice NONE: not delegated */
  nxmem_axes ask, wanted;
} amount_row;

static const amount_row amount_rows[] = {
    {"above a lowered limit", {800, 0, 0}, NONE, NONE, {500, MAX, MAX}, {50, 0, 0}, {350, 0, 0}},
    {"above a lowered budget", {0, 800, 0}, {MAX, 500, MAX}, NONE, NONE, {0, 50, 0}, {0, 350, 0}},
    {"three axes short", {1024, 1024, 1024}, NONE, NONE, {1024, 1024, 1024}, {10, 300, 200}, {10, 300, 200}},
    {"two axes short, one by less", {10, 20, 30}, {12, 20, 40}, NONE, NONE, {3, 3, 3}, {1, 3, 0}},
    {"budget and process limit, which is less",
     {80, 0, 0},
     {100, MAX, MAX},
     NONE,
     {90, MAX, MAX},
     {30, 0, 0},
     {20, 0, 0}},
    {"budget and process limit, on two axes", {8, 8, 0}, {8, MAX, MAX}, NONE, {MAX, 8, MAX}, {5, 7, 0}, {5, 7, 0}},
    {"a slice", {80, 80, 80}, NONE, {80, 90, 100}, NONE, {7, 17, 20}, {7, 7, 0}},
    {"a slice, and a limit lowered below it", {80, 0, 0}, NONE, {90, 90, 90}, {60, MAX, MAX}, {11, 0, 0}, {31, 0, 0}},
    {"above a limit on an axis that is not asked for", {80, 80, 0}, {50, 80, MAX}, NONE, NONE, {0, 9, 0}, {0, 9, 0}},
    {"all there can be", {10, 0, 0}, NONE, NONE, NONE, {MAX, 0, 0}, {10, 0, 0}},
};

/* In one transaction, whatever the plugin would answer. */
static nxmem_transaction hold(nxmem_axes held) {
  nxmem_transaction t = {0};
  const nxmem_request request = nx_request(&scene, 0, held.charged, held.physical, held.mapped);
  assert_int_equal(nxmem_transaction_reserve(scene.manager, &request, &t, NULL), NXMEM_OK);
  return t;
}

static void limit_by(const amount_row *row) {
  if (row->slice.charged != MAX)
    assert_int_equal(nxmem_manager_delegate(scene.manager, scene.authorities[0], &row->slice, NULL), NXMEM_OK);
  nx_must_budget(&scene, 0, row->budget);
  nx_must_limit(&scene, row->limit);
}

static void test_amount(void **state) {
  const amount_row *row = *state;
  nxmem_transaction none;
  begin();
  nx_must_budget(&scene, 0, no_limit);
  add_holder(0, 1, AXES(0, 0, 0));
  const nxmem_transaction t = hold(row->held);
  limit_by(row);
  const nxmem_request request = nx_request(&scene, 0, row->ask.charged, row->ask.physical, row->ask.mapped);
  assert_int_equal(nxmem_transaction_reserve(scene.manager, &request, &none, NULL), NXMEM_ERR_OVER_LIMIT);
  assert_asked((const int[]){0}, 1);
  nx_assert_axes(wanted_by[0], row->wanted);
  assert_int_equal(nxmem_transaction_rollback(t, NULL, NULL), NXMEM_OK);
  nx_scene_end(&scene);
}

/* What is given is enough: 800 are live under a limit of 500, and 50 are asked for. */
static void test_above_a_lowered_limit(void **state) {
  (void)state;
  nxmem_bound bound;
  begin();
  nx_must_budget(&scene, 0, no_limit);
  for (int i = 0; i < HOLDERS; i++) {
    add_holder(i, -i, AXES(0, 0, 0));
    spare(i, 200);
  }
  nx_must_limit(&scene, AXES(500, MAX, MAX));
  assert_int_equal(try_allocate(50, &bound, NULL), NXMEM_OK);
  assert_asked((const int[]){0, 1}, 2); /* and no more than are needed */
  nx_must_give_back(&bound);
  for (int i = 2; i < HOLDERS; i++) nx_must_give_back(&holders[i].bound);
  nx_scene_end(&scene);
}

/* The plugin took 64 where none were reserved, and 100 are held above a budget of 50. */
static void test_above_a_limit_at_commit(void **state) {
  (void)state;
  begin();
  nx_must_budget(&scene, 0, no_limit);
  add_holder(0, 1, AXES(0, 0, 0));
  const nxmem_transaction others = hold(AXES(0, 100, 100)), t = hold(AXES(0, 0, 0));
  assert_int_equal(nxmem_transaction_allocate(t, NULL), NXMEM_OK);
  nx_must_budget(&scene, 0, AXES(MAX, 50, 110));
  assert_int_equal(nxmem_transaction_commit(t, NULL), NXMEM_ERR_OVER_LIMIT);
  assert_asked((const int[]){0}, 1);
  nx_assert_axes(wanted_by[0], AXES(0, 114, 54));
  assert_int_equal(nxmem_transaction_rollback(t, NULL, NULL), NXMEM_OK);
  assert_int_equal(nxmem_transaction_rollback(others, NULL, NULL), NXMEM_OK);
  nx_scene_end(&scene);
}

/* ---- The process limit is full of another authority's bytes -------------------------------------------------------- */

enum { MEMBERS = 3 };

typedef struct tier_row {
  const char *name;
  int slice_of; /* who has a slice; -1: nobody */
  int apart;    /* who is on another tier; -1: nobody */
  int capped;   /* the asker's own budget refuses */
  int given_by; /* whose bytes are given when they are asked for; -1: nobody's */
  int asked[MEMBERS + 1], count;
  nxmem_result result;
} tier_row;

/* Authority 0 asks for 30; 10 are left of 100, 45 are taken by each other one. */
static const tier_row tier_rows[] = {
    {"nobody gives", -1, -1, 0, -1, {0, 1, 2}, 3, NXMEM_ERR_OVER_LIMIT},
    {"its own first, then until it is enough", -1, -1, 0, 1, {0, 1}, 2, NXMEM_OK},
    {"the last one", -1, -1, 0, 2, {0, 1, 2}, 3, NXMEM_OK},
    {"another's slice counts as a whole", 1, -1, 0, 1, {0, 2}, 2, NXMEM_ERR_OVER_LIMIT},
    {"the asker has a slice", 0, -1, 0, 1, {0, 1}, 2, NXMEM_OK},
    {"another tier's bytes are no help", -1, 2, 0, 2, {0, 1}, 2, NXMEM_ERR_OVER_LIMIT},
    {"its own budget refuses", -1, -1, 1, 1, {0}, 1, NXMEM_ERR_OVER_LIMIT},
};

static const tier_row *playing;
static nxmem_bound taken[MEMBERS];

static int number_of(nxmem_authority authority) {
  int i = 0;
  while (i < MEMBERS && scene.authorities[i].id != authority.id) i++;
  return i;
}

static void relieve_tier(void *ctx, nxmem_authority authority, const nxmem_axes *wanted, nxmem_axes *given_out) {
  (void)ctx;
  const int which = number_of(authority);
  assert_true(asked_count < LOG && which < MEMBERS);
  wanted_by[asked_count] = *wanted;
  asked[asked_count++] = which;
  if (which != playing->given_by) return;
  nx_must_give_back(&taken[which]);
  *given_out = AXES(45, 64, 64);
}

static void move_to_another_tier(int which) {
  assert_int_equal(nxmem_manager_remove_authority(scene.manager, scene.authorities[which], NULL), NXMEM_OK);
  assert_int_equal(nxmem_manager_add_authority(scene.manager, scene.authorities[which], NXMEM_TIER_DEVICE, NULL, NULL),
                   NXMEM_OK);
}

static void take_by_others(void) {
  for (uint32_t i = 1; i < MEMBERS; i++) {
    const nxmem_request request = nx_request(&scene, i, 45, 64, 64);
    taken[i] = nx_must_grant(&scene, &request, NULL);
  }
}

static void test_tier(void **state) {
  const tier_row *row = playing = *state;
  nxmem_pressure pressure;
  nxmem_bound bound = {0};
  scene = nx_scene_of(MEMBERS, 0);
  asked_count = 0;
  if (row->apart >= 0) move_to_another_tier(row->apart);
  take_by_others();
  const nxmem_axes slice = {row->slice_of == 0 ? 35 : 45, 64, 64};
  if (row->slice_of >= 0)
    assert_int_equal(nxmem_manager_delegate(scene.manager, scene.authorities[row->slice_of], &slice, NULL), NXMEM_OK);
  nx_must_limit(&scene, AXES(row->apart >= 0 ? 55 : 100, MAX, MAX));
  if (row->capped) nx_must_budget(&scene, 0, AXES(20, MAX, MAX));
  assert_int_equal(nxmem_manager_add_pressure(scene.manager, relieve_tier, NULL, 0, &pressure, NULL), NXMEM_OK);
  assert_int_equal(try_allocate(30, &bound, NULL), row->result);
  assert_asked(row->asked, row->count);
  for (int i = 0; i < row->count; i++) nx_assert_axes(wanted_by[i], AXES(20, 0, 0));
  if (bound.id != 0) nx_must_give_back(&bound);
  for (int i = 1; i < MEMBERS; i++) {
    const int gone = i == row->given_by && asked[asked_count - 1] == i;
    if (!gone) nx_must_give_back(&taken[i]);
  }
  nx_scene_end(&scene);
}

/* ---- The plugin asks --------------------------------------------------------------------------------------------- */

static int answered;
static uint64_t reclaimed;

static void test_plugin_asks(void **state) {
  (void)state;
  begin();
  add_holder(0, 1, AXES(0, 0, 0));
  spare(0, 20);
  nxmem_allocator allocator = {0};
  reclaimed = 77;
  answered = nxmem_manager_reclaim(&scene.manager, allocator, 10, &reclaimed); /* of nobody's allocator */
  assert_int_not_equal(answered, 0);
  assert_int_equal(reclaimed, 0);
  assert_int_equal(asked_count, 0);
  nxmem_axes given;
  const nxmem_axes wanted = {0, 50, 0};
  assert_int_equal(nxmem_manager_ask(scene.manager, scene.authorities[0], &wanted, &given, NULL), NXMEM_OK);
  nx_assert_axes(given, AXES(0, 50, 0)); /* 64 were given: at most what was asked is believed */
  assert_asked((const int[]){0}, 1);
  nx_scene_end(&scene);
}

/* From inside its allocate slot, through the host's callback table. */
static void ask_from_inside(nx_place_inside place) {
  if (place != NX_IN_ALLOCATE || puppet.callbacks == NULL || puppet.callbacks->request_reclaim == NULL) return;
  if (holders[0].bound.id == 0) return;
  NxmemReclaimRequest request = {
      .struct_size = sizeof request, .mechanism_id = 77, .device = {NXMEM_TIER_HOST, 0}, .bytes = 40};
  puppet.inside = NULL;
  answered = (int)puppet.callbacks->request_reclaim(puppet.callbacks->host_ctx, &request, &reclaimed).code;
}

static void test_plugin_asks_from_inside(void **state) {
  (void)state;
  nxmem_bound bound;
  begin();
  add_holder(0, 1, AXES(0, 0, 0));
  spare(0, 20);
  answered = 77;
  puppet.inside = ask_from_inside;
  assert_int_equal(try_allocate(10, &bound, NULL), NXMEM_OK);
  assert_int_equal(answered, NXMEM_STATUS_OK);
  assert_int_equal(reclaimed, 40);
  assert_asked((const int[]){0}, 1);
  nx_assert_used(&scene, AXES(10, 64, 64));
  nx_must_give_back(&bound);
  nx_scene_end(&scene);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_add(&suite, "in order, until it is enough", test_in_order_until_enough, NULL);
  nx_suite_add(&suite, "all are asked once", test_all_are_asked_once, NULL);
  nx_suite_add(&suite, "a holder that lies", test_liar, NULL);
  nx_suite_add(&suite, "a holder that gives and says nothing", test_silent_giver, NULL);
  nx_suite_add(&suite, "a holder that allocates", test_allocates_inside, NULL);
  nx_suite_add(&suite, "a holder that removes itself", test_removes_itself, NULL);
  nx_suite_add(&suite, "at the commit as well", test_at_commit, NULL);
  nx_suite_rows(&suite, ROWS(amount_rows), test_amount);
  nx_suite_add(&suite, "above a lowered limit, and it is enough", test_above_a_lowered_limit, NULL);
  nx_suite_add(&suite, "above a limit at the commit", test_above_a_limit_at_commit, NULL);
  nx_suite_rows(&suite, ROWS(tier_rows), test_tier);
  nx_suite_add(&suite, "asking without a refusal", test_plugin_asks, NULL);
  nx_suite_add(&suite, "the plugin asks from inside", test_plugin_asks_from_inside, NULL);
  return nx_suite_run(&suite, "manager pressure");
}
