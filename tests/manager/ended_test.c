/*
 * ended_test.c: transactions that are made at once, seen while they are open, and what ends while the plugin or a holder is asked.
 *
 * Attackers played: a plugin that looks at the books, allocates again, drops the binding or loses the device from inside its allocate; a holder that does.
 * Promise: what is open is reserved and counted once; what ended meanwhile is given to nobody, kept under the reason that it ended for, and charged.
 */
#include "managertest.h"

static nx_scene scene;

/* ---- Open while the plugin is asked -------------------------------------------------------------------------------- */

static struct {
  int depth; /* of calls inside calls */
  nxmem_snapshot seen[2];
  nxmem_context_holds holds[2];
  nxmem_bound inner;
} looking;

static void look(nx_place_inside place) {
  if (place != NX_IN_ALLOCATE) return;
  looking.seen[looking.depth] = nx_books_now(&scene);
  nxmem_context_holds *holds = &looking.holds[looking.depth];
  assert_int_equal(nxmem_manager_remove_context(scene.manager, scene.context, holds, NULL), NXMEM_ERR_BUSY);
  if (looking.depth++ != 0) return;
  const nxmem_request request = nx_request(&scene, 0, 1, 64, 64);
  looking.inner = nx_must_grant(&scene, &request, NULL);
}

static void test_open_while_made(void **state) {
  (void)state;
  scene = nx_scene_of(1, 0);
  memset(&looking, 0, sizeof looking);
  const nxmem_request request = nx_request(&scene, 0, 10, 64, 64);
  nxmem_bound first = nx_must_grant(&scene, &request, NULL); /* there is room from now on */
  nx_must_give_back(&first);
  puppet.inside = look;
  first = nx_must_grant(&scene, &request, NULL);
  puppet.inside = NULL;
  assert_int_equal(looking.depth, 2);
  nx_assert_axes(looking.seen[0].total.reserved, AXES(10, 64, 64));
  nx_assert_axes(looking.seen[1].total.reserved, AXES(11, 128, 128));
  for (uint64_t i = 0; i < 2; i++) {
    assert_int_equal(looking.seen[i].total.transactions, i + 1);
    assert_int_equal(looking.seen[i].total.live_count, 0);
    assert_int_equal(looking.holds[i].transactions, i + 1);
  }
  const nxmem_snapshot now = nx_books_now(&scene);
  nx_assert_axes(now.total.live, AXES(11, 128, 128));
  assert_int_equal(now.total.live_count, 2);
  assert_int_equal(now.total.transactions, 0);
  nx_must_give_back(&looking.inner);
  nx_must_give_back(&first);
  nx_scene_end(&scene);
}

/* A plugin that refuses leaves nothing open, and nothing reserved. */
static void test_refused_while_open(void **state) {
  (void)state;
  scene = nx_scene_of(1, 0);
  const nxmem_request request = nx_request(&scene, 0, 10, 64, 64);
  nxmem_bound bound = nx_must_grant(&scene, &request, NULL);
  nx_must_give_back(&bound);
  puppet.allocate_code = NXMEM_STATUS_OUT_OF_MEMORY;
  assert_int_equal(nxmem_manager_allocate(scene.manager, &request, &bound, NULL, NULL, NULL), NXMEM_ERR_PLUGIN);
  puppet.allocate_code = NXMEM_STATUS_OK;
  const nxmem_snapshot now = nx_books_now(&scene);
  nx_assert_axes(now.total.used, AXES(0, 0, 0));
  assert_int_equal(now.total.transactions, 0);
  assert_int_equal(now.total.live_count, 0);
  nx_scene_end(&scene);
}

/* ---- Ended meanwhile ----------------------------------------------------------------------------------------------- */

typedef struct ended_row {
  const char *name;
  int in_holder; /* else in the plugin */
  enum { DROP, LOSE, CONFIRM } how;
  nxmem_result result;
  nxmem_keeping keeping;
} ended_row;

static const ended_row ended_rows[] = {
    {"ended: dropped in the plugin", 0, DROP, NXMEM_ERR_STALE_HANDLE, NXMEM_KEPT_OWNER_DROPPED},
    {"ended: lost in the plugin", 0, LOSE, NXMEM_ERR_DEVICE_LOST, NXMEM_KEPT_DEVICE_LOST},
    {"ended: dropped in a holder", 1, DROP, NXMEM_ERR_STALE_HANDLE, NXMEM_KEPT_OWNER_DROPPED},
    {"ended: lost in a holder", 1, LOSE, NXMEM_ERR_DEVICE_LOST, NXMEM_KEPT_DEVICE_LOST},
    {"ended: terminated in a holder", 1, CONFIRM, NXMEM_ERR_TERMINATED, NXMEM_KEPT_TERMINATED},
};

static const ended_row *row;
static nxmem_bound spare; /* the holder's */
static int ended;

static void end_it(void) {
  nxmem_error error = nx_blank_error();
  if (ended++) return;
  if (spare.id != 0) nx_must_give_back(&spare);
  spare.id = 0;
  if (row->how == DROP)
    assert_int_equal(nxmem_binding_end(scene.bindings[0], NXMEM_END_DROP, &error), NXMEM_OK);
  else
    assert_int_equal(nxmem_mechanism_lose(scene.mechanisms[0], NULL, &error), NXMEM_OK);
  if (row->how == CONFIRM) assert_int_equal(nxmem_mechanism_confirm_terminated(scene.mechanisms[0], &error), NXMEM_OK);
}

static void end_in_plugin(nx_place_inside place) {
  if (place == NX_IN_ALLOCATE) end_it();
}

static void end_in_holder(void *ctx, nxmem_authority authority, const nxmem_axes *wanted, nxmem_axes *given_out) {
  (void)ctx;
  (void)authority;
  end_it();
  *given_out = *wanted;
}

/* 100 physical bytes in all: 64 are the holder's; what the plugin then makes takes 64, and 10 were reserved. */
static uint64_t begin_in_holder(void) {
  nxmem_pressure pressure;
  const nxmem_request request = nx_request(&scene, 0, 0, 64, 64);
  nx_must_budget(&scene, 0, AXES(NXMEM_TOTAL_MAX, 100, NXMEM_TOTAL_MAX));
  spare = nx_must_grant(&scene, &request, NULL);
  assert_int_equal(nxmem_manager_add_pressure(scene.manager, end_in_holder, NULL, 0, &pressure, NULL), NXMEM_OK);
  return 10;
}

static void test_ended(void **state) {
  row = *state;
  ended = 0;
  spare = (nxmem_bound){.id = 0};
  scene = nx_scene_of(1, 0);
  nxmem_error error = nx_blank_error();
  nxmem_bound bound = {.id = 0};
  nxmem_rollback rollback = {.kept = 0};
  uint64_t reserved = 64;
  if (row->in_holder)
    reserved = begin_in_holder();
  else
    puppet.inside = end_in_plugin;
  const nxmem_request request = nx_request(&scene, 0, 7, reserved, 64);
  nx_assert_code(nxmem_manager_allocate(scene.manager, &request, &bound, NULL, &rollback, &error), &error, row->result);
  puppet.inside = NULL;
  assert_int_equal(ended, 1);
  assert_int_equal(bound.id, 0);
  assert_int_equal(rollback.kept, 1);
  assert_int_equal(rollback.keeping, row->keeping);
  nx_assert_axes(rollback.behind, AXES(7, 64, 64));
  const nxmem_snapshot now = nx_books_now(&scene);
  nx_assert_axes(now.total.quarantined, AXES(7, 64, 64));
  nx_assert_axes(now.total.used, AXES(7, 64, 64));
  assert_int_equal(now.total.live_count, 0);
  assert_int_equal(now.total.transactions, 0);
  nxmem_kept kept;
  uint32_t count = 0;
  assert_int_equal(nxmem_mechanism_quarantine(scene.mechanisms[0], 0, &kept, 1, &count, NULL, NULL), NXMEM_OK);
  assert_int_equal(count, 1);
  assert_int_equal(kept.reason, row->keeping);
  nx_scene_end_lost(&scene);
}

/* What is dropped between its reservation and its publication is nobody's to publish. */
static void test_dropped_between_steps(void **state) {
  (void)state;
  scene = nx_scene_of(1, 0);
  nxmem_error error = nx_blank_error();
  nxmem_transaction t;
  nxmem_bound bound = {.id = 0};
  const nxmem_request request = nx_request(&scene, 0, 7, 64, 64);
  assert_int_equal(nxmem_transaction_reserve(scene.manager, &request, &t, NULL), NXMEM_OK);
  assert_int_equal(nxmem_transaction_allocate(t, NULL), NXMEM_OK);
  assert_int_equal(nxmem_binding_end(scene.bindings[0], NXMEM_END_DROP, NULL), NXMEM_OK);
  assert_int_equal(nxmem_transaction_commit(t, NULL), NXMEM_OK);
  nx_assert_code(nxmem_transaction_publish(t, &bound, NULL, &error), &error, NXMEM_ERR_STALE_HANDLE);
  assert_int_equal(bound.id, 0);
  nx_assert_axes(nx_books_now(&scene).total.quarantined, AXES(7, 64, 64));
  nx_scene_end_lost(&scene);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_add(&suite, "open while it is made, also twice", test_open_while_made, NULL);
  nx_suite_add(&suite, "open until the plugin refuses", test_refused_while_open, NULL);
  nx_suite_rows(&suite, ROWS(ended_rows), test_ended);
  nx_suite_add(&suite, "ended: dropped between two steps", test_dropped_between_steps, NULL);
  return nx_suite_run(&suite, "manager, ended meanwhile");
}
