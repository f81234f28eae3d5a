/*
 * sharing_test.c: references of shared prefixes, and what they keep open.
 *
 * Attackers played: plugins that refuse to take a reference back or keep it; callers with stale handles and handles of
 * others, on many threads; calls from inside a call.
 * Promise: each reference is given back once; a prefix keeps its allocator and its module.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <unistd.h>

#include "nxmem/outcome.h"
#include "puppet_backing.h"

#define ALL_ONES 0xFFFFFFFFFFFFFFFFull
#define G NX_PLAY_GRANULE
enum { BYTES = 3 * NX_PLAY_GRANULE - 5 };

static nx_stage set(const nx_case *c) {
  nx_play_reset();
  return nx_stage_set(c->mode);
}

static nxmem_prefix must_create(nxmem_allocator allocator) {
  nxmem_prefix made = {0};
  nxmem_error error = nx_blank_error();
  if (nxmem_prefix_create(allocator, BYTES, &made, &error) != NXMEM_OK) fail_msg("%s", error.message);
  return made;
}

static nxmem_prefix_info info_of(nxmem_prefix prefix) {
  nxmem_prefix_info info;
  assert_int_equal(nxmem_prefix_get_info(prefix, &info, NULL), NXMEM_OK);
  return info;
}

static uint64_t references(nxmem_prefix prefix) { return info_of(prefix).references; }

/* ---- References -------------------------------------------------------------------------------------------------- */

static void test_references(void **state) {
  const nx_case *c = *state;
  nx_stage stage = set(c);
  const nxmem_prefix prefix = must_create(stage.allocator);
  for (uint64_t i = 1; i < 5; i++) {
    assert_int_equal(references(prefix), i);
    assert_int_equal(nxmem_prefix_retain(prefix, NULL), NXMEM_OK);
  }
  play.retain_code = NXMEM_STATUS_DEVICE_ERROR;
  assert_int_equal(nxmem_prefix_retain(prefix, NULL), NXMEM_ERR_PLUGIN);
  for (uint64_t i = 5; i > 0; i--) {
    assert_int_equal(references(prefix), i);
    assert_int_equal(nxmem_prefix_release(prefix, NULL), NXMEM_OK);
  }
  assert_int_equal(play.prefix_references, 0);
  assert_int_equal(nx_play_calls(NX_PLAY_RELEASE_PREFIX), 5);
  nxmem_error error = nx_blank_error();
  nx_assert_code(nxmem_prefix_release(prefix, &error), &error, NXMEM_ERR_STALE_HANDLE);
  error = nx_blank_error();
  nx_assert_code(nxmem_prefix_retain(prefix, &error), &error, NXMEM_ERR_STALE_HANDLE);
  assert_int_equal(nx_play_calls(NX_PLAY_RELEASE_PREFIX), 5);
  /* Its slot serves the next one under another handle. */
  const nxmem_prefix later = must_create(stage.allocator);
  assert_int_not_equal(later.id, prefix.id);
  assert_int_equal(nxmem_prefix_release(prefix, NULL), NXMEM_ERR_STALE_HANDLE);
  assert_int_equal(nxmem_prefix_release(later, NULL), NXMEM_OK);
  nx_stage_strike(&stage);
}

typedef struct keep_row {
  const char *name;
  nx_modes modes;
  uint32_t code;
} keep_row;

static const keep_row keep_rows[] = {{"a release refused with BUSY", 0, NXMEM_STATUS_BUSY},
                                     {"a release refused with UNKNOWN_ALLOCATION", 0, NXMEM_STATUS_UNKNOWN_ALLOCATION},
                                     {"a release refused with a code nobody knows", 0, 0xFFFFFFFFu}};

static void test_refused_release(void **state) {
  const nx_case *c = *state;
  const keep_row *row = c->row;
  nx_stage stage = set(c);
  const nxmem_prefix prefix = must_create(stage.allocator);
  play.release_prefix_code = row->code;
  for (int i = 0; i < 2; i++) {
    nxmem_error error = nx_blank_error();
    const nx_refusal want = {NXMEM_ERR_PLUGIN, 0, 0, 0, 0, row->code};
    nx_assert_refused(nxmem_prefix_release(prefix, &error), &error, want);
    assert_int_equal(references(prefix), 1);
    assert_int_equal(nx_counts(stage.host).live_prefixes, 1);
  }
  play.release_prefix_code = NXMEM_STATUS_OK;
  assert_int_equal(nxmem_prefix_release(prefix, NULL), NXMEM_OK);
  nx_stage_strike(&stage);
}

/* Kept by the plugin: nobody uses it any more, no reference is given back any more, and the module stays. */
static void test_kept(void **state) {
  const nx_case *c = *state;
  nx_stage stage = set(c);
  const nxmem_prefix prefix = must_create(stage.allocator);
  assert_int_equal(nxmem_prefix_retain(prefix, NULL), NXMEM_OK);
  play.release_prefix_code = NXMEM_STATUS_RELEASE_QUARANTINED;
  nxmem_error error = nx_blank_error();
  const nx_refusal want = {NXMEM_ERR_QUARANTINED, 0, 0, 0, 0, NXMEM_STATUS_RELEASE_QUARANTINED};
  nx_assert_refused(nxmem_prefix_release(prefix, &error), &error, want);
  error = nx_blank_error();
  nx_assert_code(nxmem_prefix_release(prefix, &error), &error, NXMEM_ERR_QUARANTINED);
  error = nx_blank_error();
  nx_assert_code(nxmem_prefix_retain(prefix, &error), &error, NXMEM_ERR_QUARANTINED);
  assert_int_equal(nx_play_calls(NX_PLAY_RELEASE_PREFIX), 1);
  const nxmem_host_counts counts = nx_counts(stage.host);
  assert_int_equal(counts.live_prefixes, 0);
  assert_int_equal(counts.quarantined, 1);
  assert_int_equal(counts.quarantined_bytes, BYTES);
  nxmem_quarantined listed;
  uint32_t count = 0;
  assert_int_equal(nxmem_host_quarantine(stage.host, 0, &listed, 1, &count, NULL, NULL), NXMEM_OK);
  assert_int_equal(count, 1);
  assert_int_equal(listed.allocator.id, stage.allocator.id);
  assert_int_equal(listed.address, 0x1000);
  assert_int_equal(listed.plugin_status, NXMEM_STATUS_RELEASE_QUARANTINED);
  assert_int_equal(listed.reason, 0);
  nx_must_close(stage.allocator);
  assert_int_equal(nxmem_prefix_release(prefix, NULL), NXMEM_ERR_STALE_HANDLE);
  (void)nx_assert_unload_busy(stage.plugin, NXMEM_REASON_HOST_HOLDS, NXMEM_AXIS_ALLOCATIONS, 1);
  nx_force_leak(stage.host, stage.plugin, stage.path);
  nx_host_gone(stage.host);
}

/* ---- What it keeps open ------------------------------------------------------------------------------------------ */

static void test_keeps_open(void **state) {
  const nx_case *c = *state;
  nx_stage stage = set(c);
  const nxmem_prefix prefix = must_create(stage.allocator);
  const nxmem_prefix other = must_create(stage.allocator);
  nxmem_error error = nx_blank_error();
  assert_int_equal(nxmem_allocator_close(stage.allocator, 0, &error), NXMEM_ERR_BUSY);
  assert_int_equal(error.found, 2);
  assert_non_null(strstr(error.message, "live prefixes"));
  (void)nx_assert_unload_busy(stage.plugin, NXMEM_REASON_PLUGIN_HOLDS, offsetof(NxmemUnloadReport, live_allocators), 1);
  puppet.own_report = 1; /* a plugin that denies all */
  puppet.report = (NxmemUnloadReport){.struct_size = sizeof puppet.report};
  (void)nx_assert_unload_busy(stage.plugin, NXMEM_REASON_HOST_HOLDS, NXMEM_AXIS_ALLOCATORS, 1);
  puppet.own_report = 0;
  assert_int_equal(nxmem_prefix_release(other, NULL), NXMEM_OK);
  assert_int_equal(nxmem_allocator_close(stage.allocator, 0, NULL), NXMEM_ERR_BUSY);
  assert_int_equal(nxmem_prefix_release(prefix, NULL), NXMEM_OK);
  nx_stage_strike(&stage);
}

/* Asked to, a close hands back each reference of each prefix, behind the allocations that may map it. */
static void after_allocations(nx_play_slot slot) {
  if (slot == NX_PLAY_RELEASE_PREFIX) assert_int_equal(nx_play_calls(NX_PLAY_RELEASE), 1);
}

static void test_handed_back(void **state) {
  const nx_case *c = *state;
  nx_stage stage = set(c);
  (void)nx_must_reserve(stage.allocator, G, 1);
  const nxmem_prefix prefix = must_create(stage.allocator);
  for (int i = 0; i < 2; i++) assert_int_equal(nxmem_prefix_retain(prefix, NULL), NXMEM_OK);
  (void)must_create(stage.allocator);
  play.inside = after_allocations;
  assert_int_equal(nxmem_allocator_close(stage.allocator, NXMEM_CLOSE_RELEASE_LIVE, NULL), NXMEM_OK);
  assert_int_equal(nx_play_calls(NX_PLAY_RELEASE_PREFIX), 4);
  assert_int_equal(nxmem_prefix_release(prefix, NULL), NXMEM_ERR_STALE_HANDLE);
  assert_int_equal(nx_counts(stage.host).quarantined, 0);
  nx_must_unload(stage.plugin, stage.path);
  nx_host_gone(stage.host);
}

/* One that the plugin does not take back does not keep the allocator: it is quarantined, at the first refusal. */
static void test_not_taken_back(void **state) {
  const nx_case *c = *state;
  const keep_row *row = c->row;
  nx_stage stage = set(c);
  const nxmem_prefix prefix = must_create(stage.allocator);
  assert_int_equal(nxmem_prefix_retain(prefix, NULL), NXMEM_OK);
  play.release_prefix_code = row->code;
  assert_int_equal(nxmem_allocator_close(stage.allocator, NXMEM_CLOSE_RELEASE_LIVE, NULL), NXMEM_OK);
  assert_int_equal(nx_play_calls(NX_PLAY_RELEASE_PREFIX), 1);
  assert_int_equal(nxmem_prefix_release(prefix, NULL), NXMEM_ERR_STALE_HANDLE);
  nxmem_quarantined listed;
  uint32_t count = 0;
  assert_int_equal(nxmem_host_quarantine(stage.host, 0, &listed, 1, &count, NULL, NULL), NXMEM_OK);
  assert_int_equal(count, 1);
  assert_int_equal(listed.plugin_status, row->code);
  (void)nx_assert_unload_busy(stage.plugin, NXMEM_REASON_HOST_HOLDS, NXMEM_AXIS_ALLOCATIONS, 1);
  nx_force_leak(stage.host, stage.plugin, stage.path);
  nx_host_gone(stage.host);
}

/* ---- From inside a call ------------------------------------------------------------------------------------------ */

static nxmem_prefix prefix_inside;
static nxmem_allocator allocator_inside;
static nxmem_result results_inside[5];

static void use_inside(nx_play_slot slot) {
  if (slot != NX_PLAY_RELEASE_PREFIX) return;
  play.inside = NULL;
  nxmem_prefix_info info;
  results_inside[0] = nxmem_prefix_release(prefix_inside, NULL);
  results_inside[1] = nxmem_prefix_retain(prefix_inside, NULL);
  results_inside[2] = nxmem_prefix_get_info(prefix_inside, &info, NULL);
}

/*
 * The last reference is on its way out: whoever comes meanwhile is told to come again. If it is refused all is as it
 * was.
 */
static void test_last_inside(void **state) {
  const nx_case *c = *state;
  nx_stage stage = set(c);
  prefix_inside = must_create(stage.allocator);
  play.inside = use_inside;
  play.release_prefix_code = NXMEM_STATUS_BUSY;
  assert_int_equal(nxmem_prefix_release(prefix_inside, NULL), NXMEM_ERR_PLUGIN);
  for (int i = 0; i < 3; i++) assert_int_equal(results_inside[i], NXMEM_ERR_BUSY);
  assert_int_equal(nx_play_calls(NX_PLAY_RELEASE_PREFIX), 1);
  assert_int_equal(references(prefix_inside), 1);
  play.inside = use_inside;
  play.release_prefix_code = NXMEM_STATUS_OK;
  assert_int_equal(nxmem_prefix_release(prefix_inside, NULL), NXMEM_OK);
  for (int i = 0; i < 3; i++) assert_int_equal(results_inside[i], NXMEM_ERR_BUSY);
  assert_int_equal(nxmem_prefix_retain(prefix_inside, NULL), NXMEM_ERR_STALE_HANDLE);
  nx_stage_strike(&stage);
}

/* Two references, the second given back inside the first: both go, and the prefix with the last to leave. */
static void release_inside(nx_play_slot slot) {
  if (slot != NX_PLAY_RELEASE_PREFIX) return;
  play.inside = NULL;
  results_inside[0] = nxmem_prefix_release(prefix_inside, NULL);
  results_inside[1] = nxmem_allocator_close(allocator_inside, 0, NULL);
}

static void test_both_inside(void **state) {
  const nx_case *c = *state;
  nx_stage stage = set(c);
  allocator_inside = stage.allocator;
  prefix_inside = must_create(stage.allocator);
  assert_int_equal(nxmem_prefix_retain(prefix_inside, NULL), NXMEM_OK);
  play.inside = release_inside;
  assert_int_equal(nxmem_prefix_release(prefix_inside, NULL), NXMEM_OK);
  assert_int_equal(results_inside[0], NXMEM_OK);
  assert_int_equal(results_inside[1], NXMEM_ERR_BUSY);
  assert_int_equal(play.prefix_references, 0);
  assert_int_equal(nxmem_prefix_release(prefix_inside, NULL), NXMEM_ERR_STALE_HANDLE);
  nx_stage_strike(&stage); /* the close that was tried from inside is tried again */
}

/* ---- Many threads ------------------------------------------------------------------------------------------------ */

enum { THREADS = 8, ROUNDS = 500 };

static void *retain_and_release(void *arg) {
  (void)arg;
  nxmem_prefix_info info;
  for (int i = 0; i < ROUNDS; i++) {
    if (nxmem_prefix_retain(prefix_inside, NULL) != NXMEM_OK) return "retain";
    if (nxmem_prefix_get_info(prefix_inside, &info, NULL) != NXMEM_OK) return "info";
    if (nxmem_prefix_release(prefix_inside, NULL) != NXMEM_OK) return "release";
  }
  return NULL;
}

static void test_threads(void **state) {
  const nx_case *c = *state;
  nx_stage stage = set(c);
  puppet.concurrent = 1;
  prefix_inside = must_create(stage.allocator);
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, retain_and_release, NULL), 0);
  for (int i = 0; i < THREADS; i++) {
    void *failed = NULL;
    assert_int_equal(pthread_join(threads[i], &failed), 0);
    if (failed != NULL) fail_msg("%s", (const char *)failed);
  }
  assert_int_equal(references(prefix_inside), 1);
  assert_int_equal(play.prefix_references, 1);
  assert_int_equal(nxmem_prefix_release(prefix_inside, NULL), NXMEM_OK);
  assert_int_equal(nx_play_calls(NX_PLAY_RELEASE_PREFIX), THREADS * ROUNDS + 1);
  puppet.concurrent = 0;
  nx_stage_strike(&stage);
}

/* All hold one reference each and give it back at once: one of them is the last, and the prefix is gone. */
static pthread_barrier_t together;
static void *release_once(void *arg) {
  (void)arg;
  pthread_barrier_wait(&together);
  return nxmem_prefix_release(prefix_inside, NULL) == NXMEM_OK ? NULL : "release";
}

static void test_ends(void **state) {
  const nx_case *c = *state;
  nx_stage stage = set(c);
  puppet.concurrent = 1;
  for (int round = 0; round < 50; round++) {
    prefix_inside = must_create(stage.allocator);
    for (int i = 1; i < THREADS; i++) assert_int_equal(nxmem_prefix_retain(prefix_inside, NULL), NXMEM_OK);
    pthread_barrier_init(&together, NULL, THREADS);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, release_once, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
      void *failed = NULL;
      assert_int_equal(pthread_join(threads[i], &failed), 0);
      if (failed != NULL) fail_msg("%s", (const char *)failed);
    }
    pthread_barrier_destroy(&together);
    assert_int_equal(play.prefix_references, 0);
    assert_int_equal(nx_counts(stage.host).live_prefixes, 0);
    assert_int_equal(nxmem_prefix_retain(prefix_inside, NULL), NXMEM_ERR_STALE_HANDLE);
  }
  puppet.concurrent = 0;
  nx_stage_strike(&stage);
}

/* ---- Missing slots ----------------------------------------------------------------------------------------------- */

typedef struct slot_row {
  const char *name;
  nx_modes modes;
  size_t slot; /* offset in the table; 0: the whole capability is masked */
  const char *word;
} slot_row;

#define SLOT(member) \
  { "no " #member, 0, offsetof(NxmemSharedMappingVtable, member), "shared_mapping." #member }

static const slot_row slot_rows[] = {SLOT(create_shared_prefix),
                                     SLOT(release_shared_prefix),
                                     SLOT(retain_shared_prefix),
                                     SLOT(incremental_owned_bytes),
                                     {"no shared mapping", 0, 0, "shared_mapping.create_shared_prefix"}};

static nxmem_result try_all(nxmem_allocator allocator, nxmem_prefix *made, nxmem_error *error) {
  nxmem_prefix_info info;
  nxmem_result r = nxmem_prefix_create(allocator, BYTES, made, error);
  if (r == NXMEM_OK) r = nxmem_prefix_retain(*made, error);
  if (r == NXMEM_OK) r = nxmem_prefix_get_info(*made, &info, error);
  return r;
}

static void test_slot(void **state) {
  const nx_case *c = *state;
  const slot_row *row = c->row;
  nx_stage stage = set(c);
  nx_must_close(stage.allocator); /* an allocator with everything came first */
  if (row->slot != 0) {
    void *none = NULL;
    memcpy((uint8_t *)&puppet.sharing + row->slot, &none, sizeof none);
  } else {
    puppet.table.capability_flags &= ~(uint64_t)NXMEM_CAP_SHARED_MAPPING;
    puppet.table.shared_mapping = NULL;
  }
  stage.allocator = nx_must_open_mechanism(stage.plugin, "puppet");
  nxmem_prefix made = {0};
  nxmem_error error = nx_blank_error();
  nx_assert_code(try_all(stage.allocator, &made, &error), &error, NXMEM_ERR_UNSUPPORTED_CAPABILITY);
  assert_non_null(strstr(error.message, row->word));
  while (made.id != 0 && nxmem_prefix_release(made, NULL) == NXMEM_OK) {
  }
  assert_int_equal(play.prefix_references, 0);
  nx_stage_strike(&stage);
}

/* Numbers that name no prefix, other objects' handles among them. */
static void test_strangers(void **state) {
  const nx_case *c = *state;
  nx_stage stage = set(c);
  const nxmem_prefix prefix = must_create(stage.allocator);
  const uint64_t numbers[] = {0, 1, prefix.id + 1, prefix.id + 0x100000000ull, ALL_ONES, 0xFFFFFFFF00000000ull};
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    const nxmem_prefix stranger = {numbers[i]};
    if (stranger.id == prefix.id) continue;
    nxmem_error error = nx_blank_error();
    nx_assert_code(nxmem_prefix_release(stranger, &error), &error, NXMEM_ERR_STALE_HANDLE);
  }
  assert_int_equal(nx_play_calls(NX_PLAY_RELEASE_PREFIX), 0);
  assert_int_equal(nxmem_prefix_get_info(prefix, NULL, NULL), NXMEM_ERR_INVALID_ARGUMENT);
  assert_int_equal(nxmem_prefix_release(prefix, NULL), NXMEM_OK);
  nx_stage_strike(&stage);
}

#define ONE(name, test) static const nx_row_head name##_rows[] = {{test, NX_BOTH_MODES}}
ONE(references, "references");
ONE(kept, "a prefix that the plugin keeps");
ONE(open, "what a prefix keeps open");
ONE(back, "prefixes that a close hands back");
ONE(last, "calls while the last reference goes");
ONE(both, "a release inside a release");
ONE(thread, "eight threads retain and release");
ONE(ends, "eight threads give back the last references");
ONE(stranger, "numbers that name no prefix");

int main(void) {
  alarm(250);
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(references_rows), test_references);
  nx_suite_modes(&suite, ROWS(keep_rows), test_refused_release);
  nx_suite_modes(&suite, ROWS(kept_rows), test_kept);
  nx_suite_modes(&suite, ROWS(open_rows), test_keeps_open);
  nx_suite_modes(&suite, ROWS(back_rows), test_handed_back);
  nx_suite_modes(&suite, ROWS(keep_rows), test_not_taken_back);
  nx_suite_modes(&suite, ROWS(last_rows), test_last_inside);
  nx_suite_modes(&suite, ROWS(both_rows), test_both_inside);
  nx_suite_modes(&suite, ROWS(thread_rows), test_threads);
  nx_suite_modes(&suite, ROWS(ends_rows), test_ends);
  nx_suite_modes(&suite, ROWS(slot_rows), test_slot);
  nx_suite_modes(&suite, ROWS(stranger_rows), test_strangers);
  return nx_suite_run(&suite, "host_sharing");
}
