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
  nx_suite_add(&suite, "asking without a refusal", test_plugin_asks, NULL);
  nx_suite_add(&suite, "the plugin asks from inside", test_plugin_asks_from_inside, NULL);
  return nx_suite_run(&suite, "manager pressure");
}
