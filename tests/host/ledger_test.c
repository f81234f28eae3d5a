/*
 * ledger_test.c: the books under a plugin that lies, and what its lies cost the host. Looks inside the host for the size of its tables.
 *
 * Attackers played: plugins that keep 2^63 bytes twice, that answer OK with NULL a hundred thousand times, that are given up and taken back.
 * Promise: no sum wraps; no number of lies makes a table grow; each leaked module is counted once, and no longer than it is one.
 */
#include <unistd.h>

#include "guard.h"
#include "objects.h"
#include "staging.h"

#define ALL_ONES 0xFFFFFFFFFFFFFFFFull
#define TWO_63 0x8000000000000000ull

static uint32_t records(void) { return atomic_load(&nx_allocations.count); }

/* An address that nothing is behind, of 2^63 bytes, that the plugin does not take back. */
static void keep_everything(void) {
  puppet.address = (uint8_t *)8;
  puppet.own_numbers = 1;
  puppet.owned = puppet.mapped = TWO_63;
  puppet.own_release = 1;
  puppet.outcome = (NxmemReleaseOutcome){.struct_size = sizeof puppet.outcome, .state = NXMEM_RELEASE_QUARANTINED};
}

static void assert_books(nxmem_host host, uint64_t quarantined, uint64_t quarantined_bytes, uint64_t charged) {
  const nxmem_host_counts counts = nx_counts(host);
  assert_int_equal(counts.quarantined, quarantined);
  assert_int_equal(counts.quarantined_bytes, quarantined_bytes);
  assert_int_equal(counts.owned_bytes, charged);
  assert_int_equal(counts.mapped_bytes, charged);
}

/* Two quarantined allocations of 2^63 bytes: the sum would be 0. While they are open, and as the module's own when they are closed. */
static void test_sums(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  nx_overlap = NXMEM_OVERLAP_TRUSTED;
  nx_stage stage = nx_stage_set(c->mode);
  keep_everything();
  nxmem_allocator all[3] = {stage.allocator};
  for (int i = 1; i < 3; i++) all[i] = nx_must_open_mechanism(stage.plugin, "puppet");
  for (uint64_t i = 0; i < 3; i++) {
    const nxmem_allocation kept = nx_must_allocate(all[i], TWO_63, 1);
    assert_int_equal(nxmem_release(all[i], kept, NULL, NULL), NXMEM_ERR_QUARANTINED);
    assert_books(stage.host, i + 1, i == 0 ? TWO_63 : ALL_ONES, i == 0 ? TWO_63 : ALL_ONES);
  }
  for (int i = 0; i < 3; i++) {
    nx_must_close(all[i]);
    assert_books(stage.host, 3, ALL_ONES, ALL_ONES);
  }
  nx_force_leak(stage.host, stage.plugin, stage.path);
  nx_host_gone(stage.host);
}

/* The same in one allocator: each NULL stands for its bytes, though none is charged. */
static void test_sum_of_lies(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  nx_stage stage = nx_stage_set(c->mode);
  nxmem_allocation none;
  puppet.leave_out_records = 1;
  for (uint64_t i = 0; i < 3; i++) {
    assert_int_equal(nxmem_allocate(stage.allocator, TWO_63, 1, NULL, &none, NULL), NXMEM_ERR_CONTRACT);
    assert_books(stage.host, i + 1, i == 0 ? TWO_63 : ALL_ONES, 0);
  }
  nx_must_close(stage.allocator);
  assert_books(stage.host, 3, ALL_ONES, 0);
  nx_force_leak(stage.host, stage.plugin, stage.path);
  nx_host_gone(stage.host);
}

/* What the first one left mapped may come back later, once: the third one's bytes are its own alone. */
static void test_left_mapped(void **state) {
  const nx_case *c = *state;
  enum { BYTES = 4096 };
  static const uint64_t reported[] = {0, 2 * BYTES, 2 * BYTES};
  static const uint64_t mapped[] = {3 * BYTES, BYTES, 0};
  nx_puppet_reset();
  nx_overlap = NXMEM_OVERLAP_TRUSTED;
  nx_stage stage = nx_stage_set(c->mode);
  puppet.address = (uint8_t *)BYTES;
  puppet.own_release = 1;
  nxmem_allocation all[3];
  for (int i = 0; i < 3; i++) all[i] = nx_must_allocate(stage.allocator, BYTES, 1);
  for (int i = 0; i < 3; i++) {
    puppet.outcome = (NxmemReleaseOutcome){.struct_size = sizeof puppet.outcome, .unmapped_bytes = reported[i]};
    nx_must_release(stage.allocator, all[i]);
    assert_int_equal(nx_counts(stage.host).mapped_bytes, mapped[i]);
    assert_int_equal(nx_counts(stage.host).contract_violations, i == 2);
  }
  atomic_store(&puppet.live_allocations, 0);
  nx_stage_strike(&stage);
}

/* ---- What lies cost ------------------------------------------------------------------------------------------------- */

static void answer_null(void) { puppet.leave_out_records = 1; }
static void answer_misaligned(void) {
  puppet.address = (uint8_t *)12;
  puppet.own_release = 1;
  puppet.release_answer = nx_puppet_status(NXMEM_STATUS_DEVICE_ERROR);
  puppet.outcome = (NxmemReleaseOutcome){.struct_size = sizeof puppet.outcome, .state = NXMEM_RELEASE_FAILED};
}

typedef struct lie_row {
  const char *name;
  nx_modes modes;
  void (*lie)(void);
} lie_row;

static const lie_row lie_rows[] = {
    {"a hundred thousand times OK with NULL", NX_GUARDED_ONLY, answer_null},
    {"a hundred thousand addresses that are misaligned and not taken back", NX_GUARDED_ONLY, answer_misaligned},
};

static void test_lies(void **state) {
  const nx_case *c = *state;
  const lie_row *row = c->row;
  enum { LIES = 100000 };
  nx_puppet_reset();
  nx_stage stage = nx_stage_set(c->mode);
  nx_must_release(stage.allocator, nx_must_allocate(stage.allocator, 64, 8)); /* one record there is */
  const uint32_t before = records();
  nxmem_allocation none = {0x5A5A, NULL};
  row->lie();
  for (int i = 0; i < LIES; i++)
    if (nxmem_allocate(stage.allocator, 64, 8, NULL, &none, NULL) != NXMEM_ERR_CONTRACT)
      fail_msg("lie %d was believed", i);
  assert_int_equal(records(), before);
  assert_int_equal(none.id, 0x5A5A);
  assert_books(stage.host, LIES, 64ull * LIES, 0);
  assert_int_equal(nx_counts(stage.host).contract_violations, LIES);
  nx_must_close(stage.allocator);
  assert_int_equal(records(), before);
  nx_force_leak(stage.host, stage.plugin, stage.path);
  nx_host_gone(stage.host);
}

/* Addresses that are refused and kept are looked at for ever, up to a bound: beyond it the index grows no more. */
static void test_kept_addresses(void **state) {
  const nx_case *c = *state;
  enum { MORE = 1000 };
  nx_puppet_reset();
  nx_stage stage = nx_stage_set(c->mode);
  nxmem_allocation none;
  uint64_t full = 0;
  for (uint64_t i = 0; i < NX_KEPT_MAX + MORE; i++) {
    answer_misaligned();
    puppet.address += i << 12;
    assert_int_equal(nxmem_allocate(stage.allocator, 64, 8, NULL, &none, NULL), NXMEM_ERR_CONTRACT);
    if (i + 1 == NX_KEPT_MAX) full = nx_index_used_bytes();
  }
  assert_true(full > 0);
  assert_int_equal(nx_index_used_bytes(), full);
  nx_must_close(stage.allocator);
  nx_force_leak(stage.host, stage.plugin, stage.path);
  nx_host_gone(stage.host);
}

/* Quarantined ones keep their records, so that their handles stay refused, until the allocator closes: then the next has them. */
static void test_quarantined_records(void **state) {
  const nx_case *c = *state;
  enum { KEPT = 3000, ROUNDS = 4 };
  nx_puppet_reset();
  nx_overlap = NXMEM_OVERLAP_TRUSTED;
  nx_stage stage = nx_stage_set(c->mode);
  static nxmem_allocation kept[KEPT];
  puppet.own_release = 1;
  puppet.outcome = (NxmemReleaseOutcome){.struct_size = sizeof puppet.outcome, .state = NXMEM_RELEASE_QUARANTINED};
  puppet.address = (uint8_t *)4096;
  uint32_t most = 0;
  for (uint64_t round = 1; round <= ROUNDS; round++) {
    for (int i = 0; i < KEPT; i++) kept[i] = nx_must_allocate(stage.allocator, 64, 8);
    for (int i = 0; i < KEPT; i++)
      assert_int_equal(nxmem_release(stage.allocator, kept[i], NULL, NULL), NXMEM_ERR_QUARANTINED);
    assert_int_equal(nxmem_release(stage.allocator, kept[0], NULL, NULL), NXMEM_ERR_QUARANTINED);
    if (round == 1) most = records();
    assert_int_equal(records(), most);
    nx_must_close(stage.allocator);
    assert_books(stage.host, round * KEPT, round * KEPT * 64, round * KEPT * 64);
    stage.allocator = nx_must_open_mechanism(stage.plugin, "puppet");
    assert_int_equal(nxmem_release(stage.allocator, kept[0], NULL, NULL), NXMEM_ERR_STALE_HANDLE);
  }
  nx_must_close(stage.allocator);
  nx_force_leak(stage.host, stage.plugin, stage.path);
  nx_host_gone(stage.host);
}

/* ---- Leaks ---------------------------------------------------------------------------------------------------------- */

static uint64_t leaks(nxmem_host host) { return nx_counts(host).forced_leaks; }

/* Given up, taken back, given up: one module, one leak; none once it could be unloaded after all. */
static void test_leak_once(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  nxmem_host host = nx_host_in(c->mode);
  const char *path = nx_puppet_copy();
  puppet.query_code = NXMEM_STATUS_BUSY;
  for (int i = 0; i < 3; i++) {
    nxmem_plugin plugin = nx_must_open(host, path);
    assert_int_equal(leaks(host), 0);
    nxmem_plugin second = nx_must_open(host, path);
    assert_int_equal(nxmem_plugin_destroy(second, NULL, NULL), NXMEM_OK);
    assert_int_equal(leaks(host), 0); /* the first still holds it */
    nx_force_leak(host, plugin, path);
    assert_int_equal(leaks(host), 1);
  }
  puppet.query_code = NXMEM_STATUS_OK;
  nx_must_unload(nx_must_open(host, path), path);
  assert_int_equal(leaks(host), 0);
  assert_int_equal(nx_puppet_calls(NX_IN_NEGOTIATE), 1);
  assert_int_equal(nx_puppet_factory_releases(), 1);
  nx_host_gone(host);
}

/* Two files leaked are two, and taking one over leaves the other. */
static void test_leak_of_two(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  nxmem_host host = nx_host_in(c->mode);
  const char *paths[] = {nx_puppet_copy(), nx_puppet_copy()};
  puppet.query_code = NXMEM_STATUS_BUSY;
  for (int i = 0; i < 2; i++) nx_force_leak(host, nx_must_open(host, paths[i]), paths[i]);
  assert_int_equal(leaks(host), 2);
  nxmem_plugin back = nx_must_open(host, paths[0]);
  assert_int_equal(leaks(host), 1);
  puppet.query_code = NXMEM_STATUS_OK;
  nx_must_unload(back, paths[0]);
  assert_int_equal(leaks(host), 1);
  nx_must_unload(nx_must_open(host, paths[1]), paths[1]);
  assert_int_equal(leaks(host), 0);
  nx_host_gone(host);
}

/* A refused plugin that cannot go stays mapped as one image, however often it is tried. */
static void test_refused_leak(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  nxmem_host host = nx_host_in(c->mode);
  const char *path = nx_puppet_copy();
  puppet.create_code = NXMEM_STATUS_DEVICE_ERROR;
  puppet.query_code = NXMEM_STATUS_BUSY;
  for (int i = 0; i < 3; i++) {
    nxmem_plugin none;
    nxmem_error error = nx_blank_error();
    nx_assert_code(nxmem_plugin_open(host, path, &none, &error), &error, NXMEM_ERR_PLUGIN);
    assert_non_null(strstr(error.message, "it stays mapped"));
    assert_true(nx_is_mapped(path));
    assert_int_equal(leaks(host), 1);
  }
  nx_host_gone(host);
}

/* What it owes is still owed when the same file is accepted later. */
static void test_refused_debt(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  nxmem_host host = nx_host_in(c->mode);
  const char *path = nx_puppet_copy();
  nxmem_plugin plugin;
  puppet.entries[0] = (const NxmemAllocatorFactoryVtable *)(uintptr_t)64;
  assert_int_equal(nxmem_plugin_open(host, path, &plugin, NULL), NXMEM_ERR_UNREADABLE_MEMORY);
  assert_int_equal(leaks(host), 1);
  puppet.entries[0] = &puppet.factories[0];
  plugin = nx_must_open(host, path);
  assert_int_equal(leaks(host), 0);
  (void)nx_assert_unload_busy(plugin, NXMEM_REASON_HOST_HOLDS, NXMEM_AXIS_UNPAID_DEBTS, 1);
  nx_force_leak(host, plugin, path);
  assert_int_equal(nx_counts(host).unpaid_debts, 1);
  nx_host_gone(host);
}

/* Accepted later, and owing nothing, it goes for good: what the refusals left of it is gone too. */
static void test_refused_then_good(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  nxmem_host host = nx_host_in(c->mode);
  const char *path = nx_puppet_copy();
  nxmem_plugin plugin;
  puppet.negotiate_code = NXMEM_STATUS_DEVICE_ERROR;
  puppet.query_code = NXMEM_STATUS_BUSY;
  for (int i = 0; i < 3; i++) assert_int_equal(nxmem_plugin_open(host, path, &plugin, NULL), NXMEM_ERR_NEGOTIATION);
  puppet.negotiate_code = puppet.query_code = NXMEM_STATUS_OK;
  nx_must_unload(nx_must_open(host, path), path);
  assert_int_equal(leaks(host), 0);
  assert_int_equal(nx_puppet_calls(NX_IN_CONSTRUCTOR), 1);
  assert_int_equal(nx_puppet_calls(NX_IN_DESTRUCTOR), 1);
  nx_host_gone(host);
}

#define ONE(name, test) static const nx_row_head name##_rows[] = {{test, NX_BOTH_MODES}}
ONE(sums, "three times 2^63 bytes kept");
ONE(lied, "three times 2^63 bytes at NULL");
ONE(left, "what one left mapped comes back once");
ONE(quarantined, "records of what is quarantined");
ONE(once, "a module leaked three times");
ONE(two, "two modules leaked");
ONE(refused, "a refused module leaked three times");
ONE(good, "a refused module that is good in the end");
static const nx_row_head kept_rows[] = {{"addresses that are kept, up to a bound", NX_GUARDED_ONLY}};
static const nx_row_head debt_rows[] = {{"a refused module that owes", NX_GUARDED_ONLY}};

int main(void) {
  alarm(100);
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(sums_rows), test_sums);
  nx_suite_modes(&suite, ROWS(lied_rows), test_sum_of_lies);
  nx_suite_modes(&suite, ROWS(lie_rows), test_lies);
  nx_suite_modes(&suite, ROWS(left_rows), test_left_mapped);
  nx_suite_modes(&suite, ROWS(kept_rows), test_kept_addresses);
  nx_suite_modes(&suite, ROWS(quarantined_rows), test_quarantined_records);
  nx_suite_modes(&suite, ROWS(once_rows), test_leak_once);
  nx_suite_modes(&suite, ROWS(two_rows), test_leak_of_two);
  nx_suite_modes(&suite, ROWS(refused_rows), test_refused_leak);
  nx_suite_modes(&suite, ROWS(good_rows), test_refused_then_good);
  nx_suite_modes(&suite, ROWS(debt_rows), test_refused_debt);
  return nx_suite_run(&suite, "host_ledger");
}
