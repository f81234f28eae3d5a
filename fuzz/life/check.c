/*
 * check.c: the host's books against the model's.
 * Attackers: none.
 * Promise: every number that the host shows is compared: an allocator's after each step about it, lists where they grew,
 * what the host counts every few steps, all of it before everything is closed and behind.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "life.h"

void life_same_result(const char *what, nxmem_result found, nxmem_result expected) {
  if (found == expected) return;
  fuzz_fail("life", "%s: %s, expected %s", what, nxmem_result_name(found), nxmem_result_name(expected));
}

static void same(const char *what, uint64_t found, uint64_t expected) {
  if (found != expected) fuzz_fail("life", "%s: %" PRIu64 ", expected %" PRIu64, what, found, expected);
}

static uint64_t plus(uint64_t a, uint64_t b) { return b > UINT64_MAX - a ? UINT64_MAX : a + b; }

static int is_counted(const life_allocator *a) {
  return a->gate == GATE_OPEN || a->gate == GATE_WAITING || a->gate == GATE_CLOSING || a->gate == GATE_HELD;
}

static nxmem_host_counts expected_counts(void) {
  nxmem_host_counts c = {.open_plugins = it.open_plugins,
                         .quarantined = it.module.retained,
                         .quarantined_bytes = it.module.retained_bytes,
                         .owned_bytes = it.module.retained_owned,
                         .mapped_bytes = it.module.retained_mapped,
                         .contract_violations = it.violations,
                         .refused_callbacks = it.refused + it.strays,
                         .unpaid_debts = it.unpaid,
                         .forced_leaks = it.forced};
  for (uint32_t i = 0; i < LIFE_ALLOCATORS; i++) {
    const life_allocator *a = &it.allocators[i];
    if (!is_counted(a)) continue;
    c.open_allocators += a->gate != GATE_HELD;
    c.held_slots += a->gate == GATE_HELD;
    c.live_allocations += a->live;
    c.quarantined += a->quarantined;
    c.quarantined_bytes = plus(c.quarantined_bytes, a->quarantined_bytes);
    c.owned_bytes = plus(c.owned_bytes, a->owned);
    c.mapped_bytes = plus(c.mapped_bytes, a->mapped);
    c.queued_releases += a->queued;
  }
  for (uint32_t i = 0; i < LIFE_PREFIXES; i++) c.live_prefixes += it.prefixes[i].state == PREFIX_LIVE;
  return c;
}

static void check_counts(void) {
  nxmem_host_counts found;
  const nxmem_host_counts expected = expected_counts();
  life_same_result("count host", nxmem_host_count(it.host, &found, NULL), NXMEM_OK);
  same("open plugins", found.open_plugins, expected.open_plugins);
  same("open allocators", found.open_allocators, expected.open_allocators);
  same("live allocations", found.live_allocations, expected.live_allocations);
  same("quarantined", found.quarantined, expected.quarantined);
  same("quarantined bytes", found.quarantined_bytes, expected.quarantined_bytes);
  same("owned bytes", found.owned_bytes, expected.owned_bytes);
  same("mapped bytes", found.mapped_bytes, expected.mapped_bytes);
  same("contract violations", found.contract_violations, expected.contract_violations);
  same("refused callbacks", found.refused_callbacks, expected.refused_callbacks);
  same("unpaid debts", found.unpaid_debts, expected.unpaid_debts);
  same("forced leaks", found.forced_leaks, expected.forced_leaks);
  same("queued releases", found.queued_releases, expected.queued_releases);
  same("held slots", found.held_slots, expected.held_slots);
  same("live prefixes", found.live_prefixes, expected.live_prefixes);
}

static void check_allocator(const life_allocator *a) {
  nxmem_allocator_info info;
  life_same_result("allocator info", nxmem_allocator_get_info(a->handle, &info, NULL), NXMEM_OK);
  same("mechanism of an allocator", info.mechanism_id, a->mechanism);
  same("capabilities of an allocator", info.effective_flags, a->effective);
  same("level of an allocator", info.abi_minor, a->minor);
  same("live ones of an allocator", info.live_allocations, a->live);
  same("quarantined ones of an allocator", info.quarantined, a->quarantined);
  same("owned by an allocator", info.owned_bytes, a->owned);
  same("mapped by an allocator", info.mapped_bytes, a->mapped);
}

/* Both lists grow at the end only: the last of each, and how many there are. */
static void check_quarantine(void) {
  nxmem_quarantined last;
  uint32_t count = 0;
  uint64_t total = 0;
  const life_quarantined *e = &it.last_listed;
  life_same_result("quarantine",
                   nxmem_host_quarantine(it.host, it.listed - (it.listed != 0), &last, 1, &count, &total, NULL),
                   NXMEM_OK);
  same("quarantine", total, it.listed);
  if (it.listed == 0) return;
  same("address in quarantine", last.address, e->address);
  same("bytes in quarantine", last.bytes, e->bytes);
  same("owned in quarantine", last.owned_bytes, e->owned);
  same("mapped in quarantine", last.mapped_bytes, e->mapped);
  same("residue in quarantine", last.residual_bytes, e->residual);
  same("status in quarantine", last.plugin_status, e->status);
  same("reason in quarantine", last.reason, e->reason);
}

static void check_violation(void) {
  nxmem_violation last;
  uint32_t count = 0;
  if (it.violations == 0 || it.last_reason == LIFE_ANY_REASON) return;
  life_same_result("violations", nxmem_host_violations(it.host, &last, 1, &count, NULL), NXMEM_OK);
  same("violations that are told", count, 1);
  same("number of the last violation", last.number, it.violations);
  same("reason of the last violation", last.reason, it.last_reason);
}

/*
 * They are sums over all that the host has, which cost as much as a step: compared every so often. What an allocator adds
 * to them is compared by itself in each step, and what was counted wrongly stays so.
 */
enum { COUNTED_EACH = 4 };

/* All of an allocator's own numbers where the step was about it. */
void life_check_about(uint32_t which) {
  if (it.steps % COUNTED_EACH == 0) check_counts();
  if (it.allocators[which].gate == GATE_OPEN) check_allocator(&it.allocators[which]);
  if (it.listed != it.listed_seen) check_quarantine();
  if (it.violations != it.violations_seen) check_violation();
  it.listed_seen = it.listed;
  it.violations_seen = it.violations;
}

void life_check(void) {
  check_counts();
  for (uint32_t i = 0; i < LIFE_ALLOCATORS; i++)
    if (it.allocators[i].gate == GATE_OPEN) check_allocator(&it.allocators[i]);
  check_quarantine();
  check_violation();
}
