/*
 * scripted_queue_test.c: the scripted mechanisms whose queue of releases misbehaves, each under the host.
 *
 * Attackers: they are.
 * Promise: every count afterwards is exact, on the host's side and on the plugin's.
 */
#define _GNU_SOURCE
#include <unistd.h>

#include "hosttest.h"
#include "scripted_probe.h"

enum { BYTES = 64, ALIGN = 16, QUEUED = 2 };
#define ALL UINT64_MAX

static const char *const deferred = "libnxmem_scripted_deferred.so";
static const char *const base = "libnxmem_scripted.so";

typedef struct stage {
  nxmem_host host;
  nxmem_plugin plugin;
  nxmem_allocator allocator;
  const char *path;
} stage;

static stage set_stage(nxmem_fetch_mode mode, const char *library, const char *mechanism) {
  nx_observe();
  stage s = {.path = nx_plugin_copy(library)};
  s.host = nx_host_in(mode);
  s.plugin = nx_must_open(s.host, s.path);
  s.allocator = nx_must_open_mechanism(s.plugin, mechanism);
  return s;
}

/* The module goes, or stays because of this many allocations or releases. */
static void strike(const stage *s, uint64_t kept) {
  if (kept == 0) {
    nx_must_unload(s->plugin, s->path);
    nx_assert_books_closed();
  } else {
    assert_int_equal(nxmem_plugin_try_unload(s->plugin, NULL, NULL), NXMEM_ERR_BUSY);
    nx_force_leak(s->host, s->plugin, s->path);
  }
  nx_host_gone(s->host);
}

/* ---- Three allocations, two of them queued and drained ----------------------------------------------------------- */

typedef struct row {
  const char *name; /* of the mechanism */
  nx_modes modes;
  const char *const *library;
  nxmem_result enqueue;
  uint64_t max; /* of the drain */
  nxmem_result drain;
  uint64_t retired;
  /* Afterwards, of three: */
  uint64_t queued, live, kept;
  uint64_t refused, violations;
  uint64_t accepted; /* completions that the host answered with OK */
} row;

#define FINE NXMEM_OK
#define TELLS(n) FINE, ALL, FINE, (n)

static const row rows[] = {
    {"lazy", 0, &base, TELLS(2), 0, 1, 0, 0, 0, 2},
    {"reentrant-completion", 0, &base, TELLS(0), 0, 1, 0, 0, 0, 2},
    {"refusing-deferred", 0, &base, NXMEM_ERR_PLUGIN, ALL, FINE, 0, 0, 3, 0, 0, 0, 0},
    {"drip", 0, &base, TELLS(1), 1, 1, 0, 0, 0, 1},
    {"complete-on-release", 0, &base, TELLS(0), 2, 1, 0, 0, 0, 0},
    {"duplicate-completion", 0, &deferred, TELLS(2), 0, 1, 0, 2, 2, 2},
    {"foreign-ticket", 0, &deferred, TELLS(2), 0, 1, 0, 2, 2, 2},
    {"completes-live", 0, &deferred, TELLS(2), 0, 1, 0, 2, 2, 2},
    {"completes-unknown", 0, &deferred, TELLS(2), 0, 1, 0, 2, 2, 2},
    {"completes-other-mechanism", 0, &deferred, TELLS(2), 0, 1, 0, 2, 2, 2},
    {"short-completion", 0, &deferred, TELLS(2), 0, 1, 0, 2, 2, 2},
    {"lying-completion", NX_GUARDED_ONLY, &deferred, TELLS(2), 0, 1, 0, 2, 2, 2},
    {"null-completion", 0, &deferred, TELLS(2), 0, 1, 0, 2, 2, 2},
    {"wild-completion", NX_GUARDED_ONLY, &deferred, TELLS(2), 0, 1, 0, 2, 2, 2},
    {"misaligned-completion", 0, &deferred, TELLS(2), 0, 1, 0, 2, 2, 2},
    {"completion-fails", 0, &deferred, TELLS(2), 0, 3, 0, 0, 0, 2},
    {"completion-quarantines", 0, &deferred, TELLS(2), 0, 1, 2, 0, 0, 2},
    {"completion-future-state", 0, &deferred, TELLS(2), 0, 1, 2, 0, 0, 2},
    {"completion-without-state", 0, &deferred, TELLS(2), 0, 1, 2, 0, 0, 2},
    {"completion-with-error", 0, &deferred, TELLS(2), 0, 1, 2, 0, 0, 2},
    {"completion-over-refunds", 0, &deferred, TELLS(2), 0, 1, 0, 0, 2, 2},
    {"completion-then-failure", 0, &deferred, NXMEM_ERR_PLUGIN, ALL, FINE, 0, 0, 1, 0, 0, 0, 2},
    {"no-ticket", 0, &deferred, NXMEM_ERR_QUARANTINED, ALL, FINE, 0, 0, 1, 2, 2, 5, 0}, /* and it says it retired two */
    {"same-ticket", 0, &deferred, TELLS(2), 0, 1, 0, 0, 0, 2},
    {"enqueue-fails", 0, &deferred, NXMEM_ERR_PLUGIN, ALL, FINE, 0, 0, 3, 0, 0, 0, 0},
    {"enqueue-quarantines", 0, &deferred, NXMEM_ERR_QUARANTINED, ALL, FINE, 0, 0, 1, 2, 0, 0, 0},
    {"drain-overclaims", 0, &deferred, TELLS(2), 0, 1, 0, 0, 1, 2},
    {"drain-claims-all", 0, &deferred, FINE, ALL, NXMEM_ERR_CONTRACT, 0, 0, 1, 0, 0, 1, 2},
    {"drain-claims-none", 0, &deferred, TELLS(0), 0, 1, 0, 0, 0, 2},
    {"drain-silent", 0, &deferred, FINE, ALL, NXMEM_ERR_CONTRACT, 0, 0, 1, 0, 0, 1, 2},
    {"drain-beyond-max", 0, &deferred, FINE, 1, FINE, 1, 0, 1, 0, 0, 1, 2},
    {"drain-refuses", 0, &deferred, FINE, ALL, NXMEM_ERR_PLUGIN, 0, 2, 1, 0, 0, 0, 0},
    {"drain-fails-after", 0, &deferred, FINE, ALL, NXMEM_ERR_PLUGIN, 0, 0, 1, 0, 0, 0, 2},
    {"drain-reversed", 0, &deferred, TELLS(2), 0, 1, 0, 0, 0, 2},
};

static void drain(const stage *s, const row *want) {
  uint64_t retired = 0x5A5A;
  nxmem_error error = nx_blank_error();
  const nxmem_result got = nxmem_drain_releases(s->allocator, want->max, &retired, &error);
  assert_int_equal(got, want->drain);
  if (got != NXMEM_OK) nx_assert_code(got, &error, want->drain);
  assert_int_equal(retired, got == NXMEM_OK ? want->retired : 0x5A5A);
}

static void assert_counts(const nxmem_host_counts *counts, const row *want) {
  assert_int_equal(counts->queued_releases, want->queued);
  assert_int_equal(counts->live_allocations, want->live);
  assert_int_equal(counts->quarantined, want->kept);
  assert_int_equal(counts->refused_callbacks, want->refused);
  assert_int_equal(counts->contract_violations, want->violations);
}

static void test_row(void **state) {
  const nx_case *c = *state;
  const row *want = c->row;
  const stage s = set_stage(c->mode, *want->library, want->name);
  nxmem_allocation blocks[QUEUED + 1];
  for (int i = 0; i <= QUEUED; i++) blocks[i] = nx_must_allocate(s.allocator, BYTES, ALIGN);
  const uint64_t each = nx_counts(s.host).owned_bytes / (QUEUED + 1);
  const uint64_t strays = nx_counts(s.host).refused_callbacks;
  for (int i = 0; i < QUEUED; i++) {
    nxmem_error error = nx_blank_error();
    const nxmem_result got = nxmem_enqueue_release(s.allocator, blocks[i], NULL, NULL, &error);
    assert_int_equal(got, want->enqueue);
    if (got != NXMEM_OK) nx_assert_code(got, &error, want->enqueue);
  }
  drain(&s, want);
  nxmem_host_counts counts = nx_counts(s.host);
  counts.refused_callbacks -= strays;
  assert_counts(&counts, want);
  assert_int_equal(counts.owned_bytes, (want->queued + want->live + want->kept) * each);
  assert_int_equal(nx_seen[NX_PROBE_COMPLETIONS_ACCEPTED], want->accepted);

  assert_int_equal(nxmem_allocator_close(s.allocator, NXMEM_CLOSE_RELEASE_LIVE, NULL), NXMEM_OK);
  counts = nx_counts(s.host);
  assert_int_equal(counts.queued_releases, 0);
  assert_int_equal(counts.held_slots, 0);
  assert_int_equal(counts.live_allocations, 0);
  assert_int_equal(counts.quarantined, want->kept);
  assert_int_equal(counts.owned_bytes, want->kept * each);
  strike(&s, want->kept);
}

/* ---- What takes a second try, or a sibling ----------------------------------------------------------------------- */

static void requeue(nxmem_fetch_mode mode, const char *mechanism) {
  const stage s = set_stage(mode, deferred, mechanism);
  const nxmem_allocation block = nx_must_allocate(s.allocator, BYTES, ALIGN);
  for (int i = 0; i < 2; i++) {
    const nxmem_result got = nxmem_enqueue_release(s.allocator, block, NULL, NULL, NULL);
    assert_true(got == NXMEM_OK || (got == NXMEM_ERR_PLUGIN && i == 0));
    assert_int_equal(nxmem_drain_releases(s.allocator, ALL, NULL, NULL), NXMEM_OK);
    assert_int_equal(nx_counts(s.host).live_allocations, i == 0);
  }
  assert_int_equal(nx_counts(s.host).owned_bytes, 0);
  nx_must_close(s.allocator);
  strike(&s, 0);
}

static void test_again(void **state) {
  const nx_case *c = *state;
  requeue(c->mode, "completion-fails");
  requeue(c->mode, "enqueue-fails");
}

static void test_sibling(void **state) {
  const nx_case *c = *state;
  const stage s = set_stage(c->mode, deferred, "completes-sibling");
  nxmem_allocator other = nx_must_open_mechanism(s.plugin, "completes-sibling");
  assert_int_equal(nxmem_enqueue_release(other, nx_must_allocate(other, BYTES, ALIGN), NULL, NULL, NULL), NXMEM_OK);
  assert_int_equal(nxmem_enqueue_release(s.allocator, nx_must_allocate(s.allocator, BYTES, ALIGN), NULL, NULL, NULL),
                   NXMEM_OK);
  assert_int_equal(nxmem_drain_releases(s.allocator, ALL, NULL, NULL), NXMEM_OK);
  assert_int_equal(nx_counts(s.host).queued_releases, 1);
  assert_int_equal(nx_counts(s.host).contract_violations, 1);
  nxmem_violation noted;
  uint32_t count = 0;
  assert_int_equal(nxmem_host_violations(s.host, &noted, 1, &count, NULL), NXMEM_OK);
  assert_int_equal(count, 1);
  assert_int_equal(noted.allocator.id, s.allocator.id);
  assert_true(noted.reason == NXMEM_REASON_OTHER_OWNER);
  nx_must_close(s.allocator);
  assert_int_equal(nxmem_drain_releases(other, ALL, NULL, NULL), NXMEM_OK);
  assert_int_equal(nx_counts(s.host).queued_releases, 0);
  nx_must_close(other);
  strike(&s, 0);
}

typedef struct pending_row {
  const char *name;
  nx_modes modes;
  nxmem_result want;
  uint64_t plugin;
} pending_row;

static const pending_row pending_rows[] = {
    {"pending-none", 0, NXMEM_OK, 0},
    {"pending-huge", 0, NXMEM_OK, ALL - 1},
    {"pending-silent", 0, NXMEM_ERR_CONTRACT, 0},
    {"pending-refuses", 0, NXMEM_ERR_PLUGIN, 0},
};

static void test_pending(void **state) {
  const nx_case *c = *state;
  const pending_row *want = c->row;
  const stage s = set_stage(c->mode, deferred, want->name);
  assert_int_equal(nxmem_enqueue_release(s.allocator, nx_must_allocate(s.allocator, BYTES, ALIGN), NULL, NULL, NULL),
                   NXMEM_OK);
  nxmem_pending pending = {0, 0};
  assert_int_equal(nxmem_pending_releases(s.allocator, &pending, NULL), want->want);
  if (want->want == NXMEM_OK) {
    assert_int_equal(pending.host, 1);
    assert_int_equal(pending.plugin, want->plugin);
  }
  nx_must_close(s.allocator);
  strike(&s, 0);
}

/* ---- Closing ------------------------------------------------------------------------------------------------------ */

typedef struct close_row {
  const char *name;
  nx_modes modes;
  const char *library;
  const char *mechanism;
  uint64_t queued, drains, left;
} close_row;

static const close_row close_rows[] = {
    {"lazy: twenty, one pass", 0, "libnxmem_scripted.so", "lazy", 20, 1, 0},
    {"drip: twenty, sixteen passes", 0, "libnxmem_scripted.so", "drip", 20, 16, 4},
    {"drip: sixteen", 0, "libnxmem_scripted.so", "drip", 16, 16, 0},
    {"complete-on-release: twenty", 0, "libnxmem_scripted.so", "complete-on-release", 20, 1, 0},
    {"sticky: twenty, one pass", 0, "libnxmem_scripted_sticky.so", "sticky", 20, 1, 20},
    {"idle-drain: twenty, one pass", 0, "libnxmem_scripted_idle-drain.so", "idle-drain", 20, 1, 20},
};

static void test_close(void **state) {
  const nx_case *c = *state;
  const close_row *want = c->row;
  const stage s = set_stage(c->mode, want->library, want->mechanism);
  for (uint64_t i = 0; i < want->queued; i++)
    assert_int_equal(nxmem_enqueue_release(s.allocator, nx_must_allocate(s.allocator, BYTES, ALIGN), NULL, NULL, NULL),
                     NXMEM_OK);
  nx_must_close(s.allocator);
  assert_int_equal(nx_seen[NX_PROBE_DRAIN_CALLS], want->drains);
  assert_int_equal(nx_seen[NX_PROBE_ALLOCATORS_RELEASED], 1);
  const nxmem_host_counts counts = nx_counts(s.host);
  assert_int_equal(counts.queued_releases, want->left);
  assert_int_equal(counts.held_slots, want->left != 0);
  assert_int_equal(counts.open_allocators, 0);
  assert_int_equal(counts.contract_violations, 0);
  if (want->left != 0) {
    nxmem_unload_info info;
    assert_int_equal(nxmem_plugin_try_unload(s.plugin, &info, NULL), NXMEM_ERR_BUSY);
    assert_int_equal(info.plugin.queued_releases, want->left);
    assert_int_equal(info.host_held_slots, 1);
  }
  strike(&s, want->left);
}

/* Behind the last release, from a thread of the plugin's. */
static void test_late(void **state) {
  const nx_case *c = *state;
  const stage s = set_stage(c->mode, deferred, "late-completion");
  for (int i = 0; i < 3; i++)
    assert_int_equal(nxmem_enqueue_release(s.allocator, nx_must_allocate(s.allocator, BYTES, ALIGN), NULL, NULL, NULL),
                     NXMEM_OK);
  nx_must_close(s.allocator);
  for (int i = 0; i < 5000 && nx_counts(s.host).held_slots != 0; i++) usleep(1000);
  const nxmem_host_counts counts = nx_counts(s.host);
  assert_int_equal(counts.held_slots, 0);
  assert_int_equal(counts.queued_releases, 0);
  assert_int_equal(counts.owned_bytes, 0);
  assert_int_equal(counts.contract_violations, 0);
  /* The plugin reports its thread until it has joined it. */
  nxmem_result gone = NXMEM_ERR_BUSY;
  for (int i = 0; i < 5000 && gone == NXMEM_ERR_BUSY; i++) {
    gone = nxmem_plugin_try_unload(s.plugin, NULL, NULL);
    if (gone == NXMEM_ERR_BUSY) usleep(1000);
  }
  assert_int_equal(gone, NXMEM_OK);
  assert_int_equal(nx_seen[NX_PROBE_COMPLETIONS_ACCEPTED], 3);
  nx_assert_books_closed();
  nx_host_gone(s.host);
}

static void test_after_drop(void **state) {
  const nx_case *c = *state;
  const stage s = set_stage(c->mode, base, "callback-after-drop");
  const uint64_t before = nx_counts(s.host).refused_callbacks;
  nx_must_close(s.allocator);
  assert_int_equal(nxmem_plugin_try_unload(s.plugin, NULL, NULL), NXMEM_OK);
  assert_int_equal(nx_counts(s.host).refused_callbacks, before + 2);
  assert_int_equal(nx_seen[NX_PROBE_RECLAIM_STATUS], NXMEM_STATUS_INVALID_ARGUMENT);
  assert_int_equal(nx_seen[NX_PROBE_COMPLETION_STATUS], NXMEM_STATUS_INVALID_ARGUMENT);
  nx_host_gone(s.host);
}

#define ONE(name, test) static const nx_row_head name##_rows[] = {{test, NX_BOTH_MODES}}
ONE(again, "queued once more");
ONE(sibling, "completes-sibling");
ONE(late, "late-completion");
ONE(drop, "callback-after-drop");

int main(void) {
  alarm(100);
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(rows), test_row);
  nx_suite_modes(&suite, ROWS(again_rows), test_again);
  nx_suite_modes(&suite, ROWS(sibling_rows), test_sibling);
  nx_suite_modes(&suite, ROWS(pending_rows), test_pending);
  nx_suite_modes(&suite, ROWS(close_rows), test_close);
  nx_suite_modes(&suite, ROWS(late_rows), test_late);
  nx_suite_modes(&suite, ROWS(drop_rows), test_after_drop);
  return nx_suite_run(&suite, "host_scripted_queue");
}
