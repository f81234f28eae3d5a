/*
 * overlap_test.c: addresses that are handed out while they are somebody's.
 *
 * Attackers played: a plugin that hands out what is live, inside, around or across it, what it keeps, what it then says is still live.
 * Promise: such an address is never given to the caller and never handed back; it is counted as quarantined. Reuse after a release is nobody's fault.
 */
#define _GNU_SOURCE
#include <unistd.h>

#include "staging.h"

#define ALL_ONES 0xFFFFFFFFFFFFFFFFull

static nx_stage stage;

static nxmem_allocation hand_out(nxmem_allocator allocator, uint64_t address, uint64_t bytes) {
  puppet.address = (uint8_t *)(uintptr_t)address;
  return nx_must_allocate(allocator, bytes, 1);
}

/* The plugin is not asked to take it back, and nothing is charged. */
static void must_refuse(nxmem_allocator allocator, uint64_t address, uint64_t bytes) {
  const nxmem_host_counts before = nx_counts(stage.host);
  const uint64_t taken_back = nx_puppet_calls(NX_IN_RELEASE_ALLOCATION) + nx_puppet_calls(NX_IN_DEALLOCATE);
  nxmem_allocation none = {0x5A5A, NULL};
  nxmem_error error = nx_blank_error();
  puppet.address = (uint8_t *)(uintptr_t)address;
  const nxmem_result got = nxmem_allocate(allocator, bytes, 1, NULL, &none, &error);
  assert_int_equal(got, NXMEM_ERR_CONTRACT);
  assert_int_equal(error.reason, NXMEM_REASON_OVERLAP);
  assert_int_equal(error.field, 8);
  assert_int_equal(error.found, address);
  assert_int_equal(none.id, 0x5A5A);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION) + nx_puppet_calls(NX_IN_DEALLOCATE), taken_back);
  const nxmem_host_counts after = nx_counts(stage.host);
  assert_int_equal(after.quarantined, before.quarantined + 1);
  assert_int_equal(after.quarantined_bytes, before.quarantined_bytes + bytes);
  assert_int_equal(after.contract_violations, before.contract_violations + 1);
  assert_int_equal(after.live_allocations, before.live_allocations);
  assert_int_equal(after.owned_bytes, before.owned_bytes);
  assert_int_equal(after.mapped_bytes, before.mapped_bytes);
}

static void must_keep(nxmem_allocator allocator, nxmem_allocation allocation) {
  assert_int_equal(nxmem_release(allocator, allocation, NULL, NULL), NXMEM_ERR_QUARANTINED);
}

/* Quarantine keeps the module: given up; else unloaded. */
static void strike(void) {
  puppet.address = NULL;
  atomic_store(&puppet.live_allocations, 0);
  nx_must_close(stage.allocator);
  if (nx_counts(stage.host).quarantined != 0)
    nx_force_leak(stage.host, stage.plugin, stage.path);
  else
    nx_must_unload(stage.plugin, stage.path);
  nx_host_gone(stage.host);
}

static void set(const nx_case *c) {
  nx_puppet_reset();
  stage = nx_stage_set(c->mode);
}

/* ---- Two addresses -------------------------------------------------------------------------------------------------- */

typedef struct pair_row {
  const char *name;
  nx_modes modes;
  uint64_t first, first_bytes, second, second_bytes;
  int taken;
} pair_row;

#define MIB 0x100000ull
static const pair_row pair_rows[] = {
    {"the same address twice", 0, 0x10000, 64, 0x10000, 64, 1},
    {"one byte twice", 0, 0x10000, 1, 0x10000, 1, 1},
    {"inside", 0, 0x10000, 64, 0x10010, 16, 1},
    {"around", 0, 0x10010, 16, 0x10000, 64, 1},
    {"over the first byte", 0, 0x10000, 64, 0x0FFF0, 17, 1},
    {"over the last byte", 0, 0x10000, 64, 0x1003F, 64, 1},
    {"up to the first byte", 0, 0x10000, 64, 0x0FFF0, 16, 0},
    {"right behind the last byte", 0, 0x10000, 64, 0x10040, 64, 0},
    {"a short one in a long one", 0, 0x10000000, 64 * MIB, 0x10000000 + 5 * MIB, 64, 1},
    {"a long one around a short one", 0, 0x10000000 + 5 * MIB, 64, 0x10000000, 64 * MIB, 1},
    {"a long one behind a short one", 0, 0x10000000 - 64, 64, 0x10000000, 64 * MIB, 0},
    {"pages across pages", 0, 0x10000, 0x4000, 0x13000, 0x4000, 1},
    {"the last bytes there are", 0, ALL_ONES - 64, 64, ALL_ONES - 32, 16, 1},
    {"2^63 bytes and one among them", 0, 1, 0x7FFFFFFFFFFFFFFF, 0x123456789, 1, 1},
};

static void test_pair(void **state) {
  const nx_case *c = *state;
  const pair_row *row = c->row;
  set(c);
  const nxmem_allocation first = hand_out(stage.allocator, row->first, row->first_bytes);
  if (row->taken) {
    must_refuse(stage.allocator, row->second, row->second_bytes);
    must_refuse(stage.allocator, row->second, row->second_bytes); /* and again: nothing of it stayed */
  } else {
    nx_must_release(stage.allocator, hand_out(stage.allocator, row->second, row->second_bytes));
  }
  nx_must_release(stage.allocator, first);
  nx_must_release(stage.allocator, hand_out(stage.allocator, row->second, row->second_bytes)); /* free by now */
  strike();
}

/* ---- Who meets whom ------------------------------------------------------------------------------------------------- */

static void test_reuse(void **state) {
  set(*state);
  for (int i = 0; i < 1000; i++) nx_must_release(stage.allocator, hand_out(stage.allocator, 0x10000, 64));
  assert_int_equal(nx_counts(stage.host).contract_violations, 0);
  strike();
}

static void test_two_allocators(void **state) {
  set(*state);
  const nxmem_allocator other = nx_must_open_mechanism(stage.plugin, "puppet");
  const nxmem_allocation first = hand_out(stage.allocator, 0x10000, 64);
  must_refuse(other, 0x10020, 64);
  nx_must_release(stage.allocator, first);
  nx_must_release(other, hand_out(other, 0x10020, 64));
  nx_must_close(other);
  strike();
}

/* Another factory's addresses are another device's, perhaps. */
static void test_other_factory(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  puppet.written = 2;
  puppet.count = 2;
  stage = nx_stage_set(c->mode);
  const nxmem_allocator other = nx_must_open_mechanism(stage.plugin, "puppet-1");
  const nxmem_allocation first = hand_out(stage.allocator, 0x10000, 64);
  nx_must_release(other, hand_out(other, 0x10000, 64));
  nx_must_release(stage.allocator, first);
  nx_must_close(other);
  strike();
}

static void test_other_module(void **state) {
  const nx_case *c = *state;
  set(c);
  const nxmem_allocation first = hand_out(stage.allocator, 0x10000, 64);
  nxmem_host host = nx_host_in(c->mode); /* the same file, another host: another module */
  const nxmem_plugin plugin = nx_must_open(host, stage.path);
  const nxmem_allocator other = nx_must_open_mechanism(plugin, "puppet");
  nx_must_release(other, hand_out(other, 0x10000, 64));
  nx_must_release(stage.allocator, first);
  nx_must_close(other);
  nx_must_close(stage.allocator);
  assert_int_equal(nxmem_plugin_try_unload(plugin, NULL, NULL), NXMEM_OK);
  nx_host_gone(host);
  nx_must_unload(stage.plugin, stage.path);
  nx_host_gone(stage.host);
}

static void test_trusted(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  nx_overlap = NXMEM_OVERLAP_TRUSTED;
  stage = nx_stage_set(c->mode);
  const nxmem_allocation first = hand_out(stage.allocator, 0x10000, 64);
  nx_must_release(stage.allocator, hand_out(stage.allocator, 0x10000, 64));
  nx_must_release(stage.allocator, first);
  strike();
}

/* ---- What a release leaves ------------------------------------------------------------------------------------------ */

static void answer_release(uint32_t code, uint32_t state) {
  puppet.own_release = 1;
  puppet.release_answer = nx_puppet_status(code);
  puppet.outcome = (NxmemReleaseOutcome){.struct_size = sizeof puppet.outcome, .state = state};
}

static void test_quarantined(void **state) {
  set(*state);
  const nxmem_allocation kept = hand_out(stage.allocator, 0x10000, 64);
  answer_release(NXMEM_STATUS_OK, NXMEM_RELEASE_QUARANTINED);
  must_keep(stage.allocator, kept);
  must_refuse(stage.allocator, 0x10000, 64);
  nx_must_close(stage.allocator);
  stage.allocator = nx_must_open_mechanism(stage.plugin, "puppet");
  must_refuse(stage.allocator, 0x1003F, 64); /* also when its allocator is gone */
  strike();
}

/* Whatever else is wrong with the answer: an address that is somebody's is not handed back. */
static void test_taken_and_huge(void **state) {
  set(*state);
  const nxmem_allocation first = hand_out(stage.allocator, 0x10000, 64);
  puppet.own_numbers = 1;
  puppet.owned = puppet.mapped = ALL_ONES;
  must_refuse(stage.allocator, 0x10000, 64);
  puppet.own_numbers = 0;
  nx_must_release(stage.allocator, first);
  strike();
}

/* An answer that is refused for its numbers is handed back; what the plugin then keeps, nobody gets. */
static void test_kept_of_a_refusal(void **state) {
  set(*state);
  puppet.own_numbers = 1;
  puppet.owned = puppet.mapped = ALL_ONES;
  puppet.address = (uint8_t *)(uintptr_t)0x10000;
  answer_release(NXMEM_STATUS_OK, NXMEM_RELEASE_QUARANTINED);
  nxmem_allocation none;
  assert_int_equal(nxmem_allocate(stage.allocator, 64, 1, NULL, &none, NULL), NXMEM_ERR_CONTRACT);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION), 1);
  puppet.own_numbers = 0;
  puppet.own_release = 0;
  must_refuse(stage.allocator, 0x10020, 64);
  strike();
}

/* Taken back, it is free again. */
static void test_returned_of_a_refusal(void **state) {
  set(*state);
  puppet.own_numbers = 1;
  puppet.owned = puppet.mapped = ALL_ONES;
  puppet.address = (uint8_t *)(uintptr_t)0x10000;
  nxmem_allocation none;
  assert_int_equal(nxmem_allocate(stage.allocator, 64, 1, NULL, &none, NULL), NXMEM_ERR_CONTRACT);
  puppet.own_numbers = 0;
  nx_must_release(stage.allocator, hand_out(stage.allocator, 0x10000, 64));
  strike();
}

static void test_put_back(void **state) {
  set(*state);
  const nxmem_allocation first = hand_out(stage.allocator, 0x10000, 64);
  answer_release(NXMEM_STATUS_BUSY, NXMEM_RELEASE_FAILED);
  assert_int_equal(nxmem_release(stage.allocator, first, NULL, NULL), NXMEM_ERR_PLUGIN);
  must_refuse(stage.allocator, 0x10000, 64);
  puppet.own_release = 0;
  nx_must_release(stage.allocator, first);
  nx_must_release(stage.allocator, hand_out(stage.allocator, 0x10000, 64));
  strike();
}

/* ---- Handed out again before the answer comes ----------------------------------------------------------------------- */

static nxmem_allocation meanwhile;
static nx_place_inside where;

static void hand_out_meanwhile(nx_place_inside place) {
  if (place != where || meanwhile.id != 0) return;
  puppet.inside = NULL;
  meanwhile = hand_out(stage.allocator, 0x10020, 64);
}

static nxmem_allocation first_with(const nx_case *c, nx_place_inside place) {
  set(c);
  meanwhile.id = 0;
  where = place;
  const nxmem_allocation first = hand_out(stage.allocator, 0x10000, 64);
  puppet.inside = hand_out_meanwhile;
  return first;
}

static void assert_one_kept(void) {
  assert_int_not_equal(meanwhile.id, 0);
  assert_int_equal(nx_counts(stage.host).quarantined, 1);
  assert_int_equal(nx_counts(stage.host).contract_violations, 1);
  assert_int_equal(nx_counts(stage.host).live_allocations, 1);
  nxmem_violation seen;
  uint32_t count = 0;
  assert_int_equal(nxmem_host_violations(stage.host, &seen, 1, &count, NULL), NXMEM_OK);
  assert_int_equal(count, 1);
  assert_int_equal(seen.reason, NXMEM_REASON_OVERLAP);
  puppet.own_release = 0;
  nx_must_release(stage.allocator, meanwhile);
  strike();
}

static void test_honest_meanwhile(void **state) {
  const nxmem_allocation first = first_with(*state, NX_IN_RELEASE_ALLOCATION);
  nx_must_release(stage.allocator, first);
  assert_int_not_equal(meanwhile.id, 0);
  assert_int_equal(nx_counts(stage.host).contract_violations, 0);
  must_refuse(stage.allocator, 0x10020, 64);
  nx_must_release(stage.allocator, meanwhile);
  strike();
}

static void test_still_live_meanwhile(void **state) {
  const nxmem_allocation first = first_with(*state, NX_IN_RELEASE_ALLOCATION);
  answer_release(NXMEM_STATUS_BUSY, NXMEM_RELEASE_FAILED);
  must_keep(stage.allocator, first);
  assert_one_kept();
}

static void test_kept_meanwhile(void **state) {
  const nxmem_allocation first = first_with(*state, NX_IN_RELEASE_ALLOCATION);
  answer_release(NXMEM_STATUS_OK, NXMEM_RELEASE_QUARANTINED);
  must_keep(stage.allocator, first);
  assert_one_kept();
}

/* While its release is queued the address is the plugin's to hand out: its completion may be on the way. */
static void test_queued(void **state) {
  set(*state);
  const nxmem_allocation first = hand_out(stage.allocator, 0x10000, 64);
  assert_int_equal(nxmem_enqueue_release(stage.allocator, first, NULL, NULL, NULL), NXMEM_OK);
  const nxmem_allocation second = hand_out(stage.allocator, 0x10020, 64);
  assert_int_equal(nx_puppet_retire(), NXMEM_STATUS_OK);
  assert_int_equal(nx_counts(stage.host).contract_violations, 0);
  must_refuse(stage.allocator, 0x10020, 64);
  nx_must_release(stage.allocator, second);
  strike();
}

static void complete_with(uint32_t state) {
  nx_puppet_queued queued;
  assert_int_equal(nx_puppet_pop(&queued), 1);
  NxmemReleaseCompletion completion = nx_puppet_completion(&queued);
  completion.outcome.state = state;
  assert_int_equal(nx_puppet_complete(&completion), NXMEM_STATUS_OK);
}

static void test_queued_and_live_again(void **state) {
  set(*state);
  const nxmem_allocation first = hand_out(stage.allocator, 0x10000, 64);
  assert_int_equal(nxmem_enqueue_release(stage.allocator, first, NULL, NULL, NULL), NXMEM_OK);
  complete_with(NXMEM_RELEASE_FAILED);
  must_refuse(stage.allocator, 0x10000, 64);
  nx_must_release(stage.allocator, first);
  strike();
}

static void test_queued_live_and_taken(void **state) {
  set(*state);
  const nxmem_allocation first = hand_out(stage.allocator, 0x10000, 64);
  assert_int_equal(nxmem_enqueue_release(stage.allocator, first, NULL, NULL, NULL), NXMEM_OK);
  meanwhile = hand_out(stage.allocator, 0x10020, 64);
  complete_with(NXMEM_RELEASE_FAILED);
  assert_int_equal(nxmem_release(stage.allocator, first, NULL, NULL), NXMEM_ERR_QUARANTINED);
  assert_one_kept();
}

static void test_refused_enqueue_meanwhile(void **state) {
  const nxmem_allocation first = first_with(*state, NX_IN_ENQUEUE);
  puppet.enqueue_code = NXMEM_STATUS_BUSY;
  assert_int_equal(nxmem_enqueue_release(stage.allocator, first, NULL, NULL, NULL), NXMEM_ERR_QUARANTINED);
  assert_one_kept();
}

typedef struct step_row {
  const char *name;
  nx_modes modes;
} step_row;

#define ONE(test, text) static const step_row test##_rows[] = {{text, 0}}
ONE(reuse, "released and handed out again, a thousand times");
ONE(two, "two allocators of one factory");
ONE(factory, "two factories");
ONE(module, "two modules of one file");
ONE(trusted, "a host that trusts addresses");
ONE(quarantined, "what it keeps, also behind its allocator's close");
ONE(huge, "taken, with impossible numbers: not handed back");
ONE(refusal, "impossible numbers, and kept when handed back");
ONE(returned, "impossible numbers, and taken back");
ONE(put_back, "still live: looked at again");
ONE(honest, "handed out while its release runs, and released");
ONE(still_live, "handed out while its release runs, and still live");
ONE(kept, "handed out while its release runs, and kept");
ONE(queued, "handed out while its release is queued");
ONE(again, "queued, failed: looked at again");
ONE(taken, "queued, handed out, failed");
ONE(enqueue, "handed out while its enqueue runs, which refuses");

int main(void) {
  alarm(100);
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(pair_rows), test_pair);
  nx_suite_modes(&suite, ROWS(reuse_rows), test_reuse);
  nx_suite_modes(&suite, ROWS(two_rows), test_two_allocators);
  nx_suite_modes(&suite, ROWS(factory_rows), test_other_factory);
  nx_suite_modes(&suite, ROWS(module_rows), test_other_module);
  nx_suite_modes(&suite, ROWS(trusted_rows), test_trusted);
  nx_suite_modes(&suite, ROWS(quarantined_rows), test_quarantined);
  nx_suite_modes(&suite, ROWS(huge_rows), test_taken_and_huge);
  nx_suite_modes(&suite, ROWS(refusal_rows), test_kept_of_a_refusal);
  nx_suite_modes(&suite, ROWS(returned_rows), test_returned_of_a_refusal);
  nx_suite_modes(&suite, ROWS(put_back_rows), test_put_back);
  nx_suite_modes(&suite, ROWS(honest_rows), test_honest_meanwhile);
  nx_suite_modes(&suite, ROWS(still_live_rows), test_still_live_meanwhile);
  nx_suite_modes(&suite, ROWS(kept_rows), test_kept_meanwhile);
  nx_suite_modes(&suite, ROWS(queued_rows), test_queued);
  nx_suite_modes(&suite, ROWS(again_rows), test_queued_and_live_again);
  nx_suite_modes(&suite, ROWS(taken_rows), test_queued_live_and_taken);
  nx_suite_modes(&suite, ROWS(enqueue_rows), test_refused_enqueue_meanwhile);
  return nx_suite_run(&suite, "host_overlap");
}
