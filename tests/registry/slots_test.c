/*
 * slots_test.c: more mechanisms than a manager has chains for them, and mechanisms one after the other in one slot.
 *
 * Attackers played: programs with a thousand mechanisms; transactions that are left open when their mechanism goes.
 * Promise: each mechanism has an account of its own in a manager's books; none is refused because of where another stands.
 */
#include "nxmem_manager.h"
#include "registrytest.h"

enum { CHAINS = 1024, MANY = CHAINS + 2 };

static nx_play play;
static nxmem_manager manager;

static void set(void) {
  play = nx_play_set();
  MUST(nxmem_manager_create(&manager, &error));
  MUST(nxmem_manager_add_authority(manager, play.authority, NXMEM_TIER_HOST, NULL, &error));
}

static void strike(void) {
  MUST(nxmem_manager_remove_authority(manager, play.authority, &error));
  MUST(nxmem_manager_destroy(manager, &error));
  nx_play_strike(&play);
}

static nxmem_request request_of(nxmem_binding binding) {
  return (nxmem_request){
      .authority = play.authority, .binding = binding, .bytes = 64, .align = 16, .reserve = {64, 64, 64}};
}

/* What is used in all, and that it is the sum of what each mechanism uses. */
static uint64_t used_now(uint32_t *listed) {
  static nxmem_mechanism_figures figures[2 * MANY];
  nxmem_snapshot now = {.mechanisms = figures, .mechanism_room = 2 * MANY};
  MUST(nxmem_manager_snapshot(manager, &now, &error));
  uint64_t sum = 0;
  for (uint32_t i = 0; i < now.mechanism_count; i++) sum += figures[i].figures.used.charged;
  *listed = now.mechanism_count;
  assert_int_equal(sum, now.total.used.charged);
  assert_int_equal(now.bugs, 0);
  return sum;
}

/* All of them use memory at once: those a chain apart too. */
static void test_many(void **state) {
  (void)state;
  static nxmem_mechanism all[MANY];
  static nxmem_binding bindings[MANY];
  static nxmem_bound bounds[MANY];
  uint32_t listed = 0;
  set();
  for (uint32_t i = 0; i < MANY; i++) {
    all[i] = nx_play_register(&play);
    bindings[i] = nx_must_bind(all[i]);
    const nxmem_request request = request_of(bindings[i]);
    MUST(nxmem_manager_allocate(manager, &request, &bounds[i], NULL, NULL, &error));
  }
  assert_int_equal((uint32_t)all[CHAINS].id % CHAINS, (uint32_t)all[0].id % CHAINS);
  assert_int_equal(used_now(&listed), 64 * MANY);
  const uint32_t again[] = {0, CHAINS, 0};
  nxmem_bound more[3];
  for (uint32_t i = 0; i < 3; i++) {
    const nxmem_request request = request_of(bindings[again[i]]);
    MUST(nxmem_manager_allocate(manager, &request, &more[i], NULL, NULL, &error));
  }
  for (uint32_t i = 0; i < 3; i++) MUST(nxmem_bound_release(&more[i], &error));
  assert_int_equal(used_now(&listed), 64 * MANY);
  assert_int_equal(listed, MANY); /* each once */
  for (uint32_t i = 0; i < MANY; i++) {
    MUST(nxmem_bound_release(&bounds[i], &error));
    assert_int_equal(used_now(&listed), 64 * (MANY - 1 - i));
    MUST(nxmem_binding_end(bindings[i], 0, &error));
    nx_must_go(all[i]);
  }
  strike();
}

/* A transaction was opened for one that is gone; the next in its slot is as good as any. */
static void test_successor(void **state) {
  (void)state;
  set();
  uint32_t listed = 0;
  nxmem_transaction left_open = {0};
  nxmem_bound bound;
  const nxmem_mechanism first = nx_play_register(&play);
  nxmem_binding binding = nx_must_bind(first);
  nxmem_request request = request_of(binding);
  MUST(nxmem_transaction_reserve(manager, &request, &left_open, &error));
  MUST(nxmem_binding_end(binding, 0, &error));
  nx_must_go(first);
  const nxmem_mechanism second = nx_play_register(&play);
  assert_int_equal((uint32_t)second.id, (uint32_t)first.id); /* the slot */
  binding = nx_must_bind(second);
  request = request_of(binding);
  MUST(nxmem_manager_allocate(manager, &request, &bound, NULL, NULL, &error));
  assert_int_equal(used_now(&listed), 128);
  MUST(nxmem_bound_release(&bound, &error));
  REFUSED(nxmem_transaction_allocate(left_open, &error), NXMEM_ERR_STALE_HANDLE); /* its binding */
  MUST(nxmem_transaction_rollback(left_open, NULL, &error));
  assert_int_equal(used_now(&listed), 0);
  MUST(nxmem_binding_end(binding, 0, &error));
  nx_must_go(second);
  strike();
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_add(&suite, "accounts: more mechanisms than chains", test_many, NULL);
  nx_suite_add(&suite, "accounts: the next mechanism in a slot", test_successor, NULL);
  return nx_suite_run(&suite, "registry slots");
}
