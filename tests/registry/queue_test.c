/*
 * queue_test.c: queues of prepared releases.
 *
 * Attackers played: full and closing queues, releases pushed twice, owners that go away with what they hold.
 * Promise: a queue that refuses leaves the very same release with its caller; what nobody executes is kept, under the reason that fits.
 */
#include "registrytest.h"

static nx_play play;
static nxmem_mechanism m;
static nxmem_binding b;
static nxmem_release_queue q;

static void set(uint32_t room) {
  play = nx_play_set();
  m = nx_play_register(&play);
  b = nx_must_bind(m);
  MUST(nxmem_release_queue_create(play.registry, room, &q, &error));
}

static void strike(void) {
  MUST(nxmem_release_queue_destroy(q, NULL, &error));
  MUST(nxmem_binding_end(b, 0, &error));
  nx_must_go(m);
  nx_play_strike(&play);
}

static void strike_kept(const nxmem_bound *bound) {
  MUST(nxmem_binding_end(b, 0, &error));
  nx_must_bury(m);
  free(bound->ptr);
  nx_play_strike_lost(&play);
}

static void test_in_order(void **state) {
  (void)state;
  set(3);
  nxmem_bound bounds[3];
  for (int i = 0; i < 3; i++) bounds[i] = nx_must_allocate_bound(b, 64u + 16u * (unsigned)i);
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 3; i++) MUST(nxmem_release_queue_push(q, nx_must_prepare(&bounds[i]), &error));
    assert_int_equal(nx_state_of(m).holdings.prepared, 3);
    nxmem_drained drained;
    for (int i = 0; i < 2; i++) {
      MUST(nxmem_release_queue_drain(q, 1, &drained, &error));
      assert_int_equal(drained.completed, 1);
      assert_int_equal(drained.left, 2 - i);
      assert_int_equal(puppet.released.bytes, bounds[i].bytes);
    }
    for (int i = 0; i < 2; i++) bounds[i] = nx_must_allocate_bound(b, bounds[i].bytes);
    MUST(nxmem_release_queue_drain(q, 9, &drained, &error));
    assert_int_equal(drained.completed, 1);
    assert_int_equal(drained.left, 0);
    bounds[2] = nx_must_allocate_bound(b, bounds[2].bytes);
  }
  for (int i = 0; i < 3; i++) MUST(nxmem_bound_release(&bounds[i], &error));
  strike();
}

static void test_rooms(void **state) {
  (void)state;
  set(1);
  nxmem_release_queue none = {0};
  REFUSED(nxmem_release_queue_create(play.registry, 0, &none, &error), NXMEM_ERR_INVALID_ARGUMENT);
  REFUSED(nxmem_release_queue_create(play.registry, 65537, &none, &error), NXMEM_ERR_INVALID_ARGUMENT);
  MUST(nxmem_release_queue_create(play.registry, 65536, &none, &error));
  nxmem_registry_counts counts;
  MUST(nxmem_registry_count(play.registry, &counts, &error));
  assert_int_equal(counts.queues, 2);
  MUST(nxmem_release_queue_destroy(none, NULL, &error));
  REFUSED(nxmem_release_queue_destroy(none, NULL, &error), NXMEM_ERR_STALE_HANDLE);
  strike();
}

/* Refused: what is handed back is the same release, as good as before. */
static void refuse(int full, nxmem_prepared p) {
  nxmem_error said = nx_blank_error();
  nx_assert_code(nxmem_release_queue_push(q, p, &said), &said, NXMEM_ERR_QUEUE_REFUSED);
  assert_int_equal(said.found, full ? 1 : 0);
  assert_int_equal(said.needed, full ? 1 : 0);
}

typedef struct refused_row {
  const char *name;
  int full; /* else closing */
} refused_row;

static const refused_row refused_rows[] = {{"refused: full", 1}, {"refused: closing", 0}};

static nxmem_prepared set_refusing(const refused_row *row, nxmem_bound *bound, nxmem_bound *first) {
  set(1);
  *bound = nx_must_allocate_bound(b, 64);
  *first = nx_must_allocate_bound(b, 96);
  if (row->full)
    MUST(nxmem_release_queue_push(q, nx_must_prepare(first), &error));
  else
    MUST(nxmem_release_queue_close(q, &error));
  return nx_must_prepare(bound);
}

static void test_refused_then_executed(void **state) {
  const refused_row *row = *state;
  nxmem_bound bound, first;
  const nxmem_prepared p = set_refusing(row, &bound, &first);
  refuse(row->full, p);
  refuse(row->full, p);
  MUST(nxmem_prepared_execute(p, &error));
  assert_int_equal(puppet.released.allocation_id, bound.id);
  if (row->full)
    MUST(nxmem_release_queue_drain(q, 1, NULL, &error));
  else
    MUST(nxmem_bound_release(&first, &error));
  strike();
}

static void test_refused_then_abandoned(void **state) {
  const refused_row *row = *state;
  nxmem_bound bound, first;
  const nxmem_prepared p = set_refusing(row, &bound, &first);
  refuse(row->full, p);
  MUST(nxmem_prepared_abandon(p, &error));
  nx_assert_kept(m, NXMEM_KEPT_QUEUE_REFUSED, &bound);
  if (row->full)
    MUST(nxmem_release_queue_drain(q, 1, NULL, &error));
  else
    MUST(nxmem_bound_release(&first, &error));
  MUST(nxmem_release_queue_destroy(q, NULL, &error));
  strike_kept(&bound);
}

/* Refused by one, taken by another: nothing of the refusal stays. */
static void test_refused_then_taken(void **state) {
  const refused_row *row = *state;
  nxmem_bound bound, first;
  const nxmem_prepared p = set_refusing(row, &bound, &first);
  refuse(row->full, p);
  nxmem_release_queue other = {0};
  MUST(nxmem_release_queue_create(play.registry, 4, &other, &error));
  MUST(nxmem_release_queue_push(other, p, &error));
  uint64_t dropped = 0;
  MUST(nxmem_release_queue_destroy(other, &dropped, &error));
  assert_int_equal(dropped, 1);
  nx_assert_kept(m, NXMEM_KEPT_OWNER_DROPPED, &bound);
  if (row->full)
    MUST(nxmem_release_queue_drain(q, 1, NULL, &error));
  else
    MUST(nxmem_bound_release(&first, &error));
  MUST(nxmem_release_queue_destroy(q, NULL, &error));
  strike_kept(&bound);
}

/* What a queue has is nobody else's. */
static void test_owned_by_the_queue(void **state) {
  (void)state;
  set(4);
  const nxmem_bound bound = nx_must_allocate_bound(b, 64);
  const nxmem_prepared p = nx_must_prepare(&bound);
  MUST(nxmem_release_queue_push(q, p, &error));
  REFUSED(nxmem_release_queue_push(q, p, &error), NXMEM_ERR_UNKNOWN_ALLOCATION);
  REFUSED(nxmem_prepared_execute(p, &error), NXMEM_ERR_UNKNOWN_ALLOCATION);
  REFUSED(nxmem_prepared_abandon(p, &error), NXMEM_ERR_UNKNOWN_ALLOCATION);
  REFUSED(nxmem_registry_destroy(play.registry, &error), NXMEM_ERR_BUSY);
  nxmem_drained drained;
  MUST(nxmem_release_queue_drain(q, UINT64_MAX, &drained, &error));
  assert_int_equal(drained.completed, 1);
  REFUSED(nxmem_release_queue_push(q, p, &error), NXMEM_ERR_UNKNOWN_ALLOCATION);
  strike();
}

/* Closed: no more, and what is in it may still be drained. */
static void test_closed_drains(void **state) {
  (void)state;
  set(4);
  const nxmem_bound bound = nx_must_allocate_bound(b, 64);
  MUST(nxmem_release_queue_push(q, nx_must_prepare(&bound), &error));
  MUST(nxmem_release_queue_close(q, &error));
  MUST(nxmem_release_queue_close(q, &error));
  nxmem_drained drained;
  MUST(nxmem_release_queue_drain(q, 4, &drained, &error));
  assert_int_equal(drained.completed, 1);
  strike();
}

/* A drain goes on where one is kept. */
static void test_drain_keeps(void **state) {
  (void)state;
  set(4);
  const nxmem_bound bound = nx_must_allocate_bound(b, 64);
  MUST(nxmem_release_queue_push(q, nx_must_prepare(&bound), &error));
  puppet.own_release = 1;
  puppet.release_answer = nx_puppet_status(NXMEM_STATUS_DEVICE_ERROR);
  puppet.outcome.state = NXMEM_RELEASE_FAILED;
  nxmem_drained drained;
  MUST(nxmem_release_queue_drain(q, 4, &drained, &error));
  assert_int_equal(drained.completed, 0);
  assert_int_equal(drained.quarantined, 1);
  nx_assert_kept(m, NXMEM_KEPT_ALLOCATOR_REFUSED, &bound);
  MUST(nxmem_release_queue_destroy(q, NULL, &error));
  strike_kept(&bound);
}

/* From inside the drain, on the same thread: it is at it. */
static void destroy_from_inside(nx_place_inside place) {
  if (place != NX_IN_RELEASE_ALLOCATION) return;
  puppet.inside = NULL;
  REFUSED(nxmem_release_queue_destroy(q, NULL, &error), NXMEM_ERR_BUSY);
}

static void test_destroyed_from_inside(void **state) {
  (void)state;
  set(4);
  const nxmem_bound bound = nx_must_allocate_bound(b, 64);
  MUST(nxmem_release_queue_push(q, nx_must_prepare(&bound), &error));
  puppet.inside = destroy_from_inside;
  MUST(nxmem_release_queue_drain(q, 4, NULL, &error));
  assert_null(puppet.inside);
  strike();
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_add(&suite, "first in, first out, around the ring", test_in_order, NULL);
  nx_suite_add(&suite, "rooms", test_rooms, NULL);
  for (size_t i = 0; i < 2; i++) {
    const refused_row *row = &refused_rows[i];
    nx_suite_add(&suite, nx_name("%s, then executed", row->name), test_refused_then_executed, row);
    nx_suite_add(&suite, nx_name("%s, then abandoned", row->name), test_refused_then_abandoned, row);
    nx_suite_add(&suite, nx_name("%s, then taken by another", row->name), test_refused_then_taken, row);
  }
  nx_suite_add(&suite, "owned by the queue", test_owned_by_the_queue, NULL);
  nx_suite_add(&suite, "closed, and drained", test_closed_drains, NULL);
  nx_suite_add(&suite, "a drain that keeps", test_drain_keeps, NULL);
  nx_suite_add(&suite, "destroyed from inside a drain", test_destroyed_from_inside, NULL);
  return nx_suite_run(&suite, "registry queue");
}
