/*
 * thread_test.c: many threads at once, on the same objects and on their own. Clean under a race detector.
 *
 * Attackers played: callers that race each other with release, close, unload, open and destroy.
 * Promise: each object is settled once; no call is inside after a close or an unload; the books close at zero.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "puppet.h"
#include "scripted_probe.h"

enum { THREADS = 8 };

/*
 * A race detector does not see the loader's lock. Where two threads map and unmap files of their own, one file comes to lie where another lay before, and the detector
 * takes them for one object. There each file is held mapped by the test.
 */
enum { LOADER_IS_UNSEEN = NX_THREAD_SANITIZER };

/* What the threads share. */
static struct {
  nx_stage stage;
  pthread_barrier_t start;
  int threads;
  _Atomic int stop;
  _Atomic uint64_t won;      /* answers NXMEM_OK */
  _Atomic uint64_t odd;      /* answers that must not be */
  _Atomic uint64_t too_late; /* calls inside after the release slot */
  nxmem_allocation shared[512];
} race;

static void get_ready(void) {
  memset(&race, 0, sizeof race);
  nx_puppet_reset();
  puppet.concurrent = 1;
  race.threads = THREADS;
}

static void run_threads(void *(*run)(void *)) {
  pthread_t threads[THREADS];
  pthread_barrier_init(&race.start, NULL, (unsigned)race.threads);
  for (int i = 0; i < race.threads; i++) pthread_create(&threads[i], NULL, run, (void *)(uintptr_t)i);
  for (int i = 0; i < race.threads; i++) pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&race.start);
  assert_int_equal(atomic_load(&race.odd), 0);
}

static void expect(int as_it_must_be) {
  if (!as_it_must_be) atomic_fetch_add(&race.odd, 1);
}

static int is_contended(nxmem_result r) { return r == NXMEM_ERR_STALE_HANDLE || r == NXMEM_ERR_BUSY; }

/* ---- Each its own allocations ------------------------------------------------------------------------------------ */

static void *allocate_and_release(void *me) {
  pthread_barrier_wait(&race.start);
  for (int i = 0; i < 1000; i++) {
    nxmem_allocation own[4];
    for (int k = 0; k < 4; k++) {
      expect(nxmem_allocate(race.stage.allocator, 64u << k, 16, NULL, &own[k], NULL) == NXMEM_OK);
      memset(own[k].ptr, (int)(uintptr_t)me, 64u << k);
    }
    for (int k = 0; k < 4; k++) {
      expect(*(unsigned char *)own[k].ptr == (unsigned char)(uintptr_t)me);
      expect(nxmem_release(race.stage.allocator, own[k], NULL, NULL) == NXMEM_OK);
    }
  }
  return NULL;
}

typedef struct plugin_row {
  const char *name;
  nx_modes modes;
  const char *library, *mechanism;
} plugin_row;

static const plugin_row plugin_rows[] = {
    {"minimal: allocate and release", 0, "libnxmem_minimal.so", "minimal"},
    {"eager: allocate and release", 0, "libnxmem_scripted.so", "eager"},
    {"legacy-1-0: allocate and release", 0, "libnxmem_scripted.so", "legacy-1-0"},
};

static void test_own(void **state) {
  const nx_case *c = *state;
  const plugin_row *row = c->row;
  get_ready();
  nx_observe();
  race.stage.path = nx_plugin_copy(row->library);
  race.stage.host = nx_host_in(c->mode);
  race.stage.plugin = nx_must_open(race.stage.host, race.stage.path);
  race.stage.allocator = nx_must_open_mechanism(race.stage.plugin, row->mechanism);
  run_threads(allocate_and_release);
  const nxmem_host_counts counts = nx_counts(race.stage.host);
  assert_int_equal(counts.live_allocations, 0);
  assert_int_equal(counts.owned_bytes, 0);
  assert_int_equal(counts.mapped_bytes, 0);
  assert_int_equal(counts.contract_violations, 0);
  nx_must_close(race.stage.allocator);
  nx_must_unload(race.stage.plugin, race.stage.path);
  nx_assert_books_closed();
  nx_host_gone(race.stage.host);
}

/* ---- All the same allocations ------------------------------------------------------------------------------------ */

enum { SHARED = sizeof race.shared / sizeof race.shared[0] };

static void *release_all(void *me) {
  pthread_barrier_wait(&race.start);
  for (size_t i = 0; i < SHARED; i++) {
    const size_t at = (i + (size_t)(uintptr_t)me * 3) % SHARED;
    const nxmem_result r = nxmem_release(race.stage.allocator, race.shared[at], NULL, NULL);
    if (r == NXMEM_OK) atomic_fetch_add(&race.won, 1);
    expect(r == NXMEM_OK || is_contended(r));
  }
  return NULL;
}

/* Even threads name a wrong size, odd ones the right one. */
static void *release_sized(void *me) {
  const int right = (int)((uintptr_t)me % 2);
  const nxmem_release_options options = {right ? 64 : 63, 8};
  pthread_barrier_wait(&race.start);
  for (size_t i = 0; i < SHARED; i++) {
    const nxmem_result r = nxmem_release(race.stage.allocator, race.shared[i], &options, NULL);
    if (r == NXMEM_OK) atomic_fetch_add(&race.won, 1);
    expect(is_contended(r) || r == (right ? NXMEM_OK : NXMEM_ERR_MISMATCH));
  }
  return NULL;
}

static void share(nxmem_fetch_mode mode) {
  get_ready();
  race.stage = nx_stage_set(mode);
  for (size_t i = 0; i < SHARED; i++) race.shared[i] = nx_must_allocate(race.stage.allocator, 64, 8);
}

static void assert_each_won_once(void) {
  assert_int_equal(atomic_load(&race.won), SHARED);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION), SHARED);
  assert_int_equal(nx_counts(race.stage.host).owned_bytes, 0);
  nx_stage_strike(&race.stage);
}

static void test_release_race(void **state) {
  const nx_case *c = *state;
  share(c->mode);
  run_threads(release_all);
  assert_each_won_once();
}

static void test_sized_race(void **state) {
  const nx_case *c = *state;
  share(c->mode);
  run_threads(release_sized);
  assert_each_won_once();
}

/* ---- Close against allocate -------------------------------------------------------------------------------------- */

static _Atomic int released;

static void watch_close(nx_place_inside place) {
  if (place == NX_IN_RELEASE) atomic_store(&released, 1);
  const int a_call = place == NX_IN_ALLOCATE || place == NX_IN_RELEASE_ALLOCATION;
  if (a_call && atomic_load(&released)) atomic_fetch_add(&race.too_late, 1);
}

static void *allocate_until_closed(void *me) {
  pthread_barrier_wait(&race.start);
  while (!atomic_load(&race.stop)) {
    nxmem_allocation own;
    const nxmem_result r = nxmem_allocate(race.stage.allocator, 64, 8, NULL, &own, NULL);
    expect(r == NXMEM_OK || is_contended(r));
    if (r == NXMEM_ERR_STALE_HANDLE) return NULL;
    if (r != NXMEM_OK) {
      sched_yield();
      continue;
    }
    nxmem_result back;
    while ((back = nxmem_release(race.stage.allocator, own, NULL, NULL)) == NXMEM_ERR_BUSY) sched_yield();
    expect(back == NXMEM_OK);
    if ((uintptr_t)me % 2 == 0) sched_yield();
  }
  return NULL;
}

static void *close_or_allocate(void *me) {
  if ((uintptr_t)me != 0) return allocate_until_closed(me);
  pthread_barrier_wait(&race.start);
  nxmem_result r;
  for (int i = 0; (r = nxmem_allocator_close(race.stage.allocator, 0, NULL)) == NXMEM_ERR_BUSY; i++) {
    if (i == 300) atomic_store(&race.stop, 1); /* threads that always hold something would keep it open for long */
    sched_yield();
  }
  expect(r == NXMEM_OK);
  return NULL;
}

static void close_race(const nx_case *c, int threads, int rounds) {
  get_ready();
  race.threads = threads;
  race.stage = nx_stage_set(c->mode);
  puppet.inside = watch_close;
  for (int round = 0; round < rounds; round++) {
    atomic_store(&race.stop, 0);
    atomic_store(&released, 0);
    run_threads(close_or_allocate);
    assert_int_equal(atomic_load(&race.too_late), 0);
    assert_int_equal(nx_counts(race.stage.host).live_allocations, 0);
    race.stage.allocator = nx_must_open_mechanism(race.stage.plugin, "puppet");
  }
  puppet.inside = NULL;
  nx_stage_strike(&race.stage);
}

static void test_close_race(void **state) { close_race(*state, THREADS, 30); }

/* Few threads hold few allocations: most closes succeed at once, in the middle of a call that is just beginning. */
static void test_close_duel(void **state) { close_race(*state, 2, 1500); }

/* ---- Unload against open ----------------------------------------------------------------------------------------- */

static void *open_until_unloaded(void *me) {
  (void)me;
  pthread_barrier_wait(&race.start);
  const nxmem_open_options options = {.mechanism = "puppet"};
  for (;;) {
    nxmem_allocator own;
    const nxmem_result r = nxmem_allocator_open(race.stage.plugin, &options, &own, NULL);
    expect(r == NXMEM_OK || is_contended(r));
    if (r == NXMEM_ERR_STALE_HANDLE) return NULL;
    if (r == NXMEM_OK) expect(nxmem_allocator_close(own, 0, NULL) == NXMEM_OK);
    sched_yield();
  }
}

static void *unload_or_open(void *me) {
  if ((uintptr_t)me > 1) return open_until_unloaded(me);
  pthread_barrier_wait(&race.start);
  nxmem_result r; /* two threads through one handle: one of them wins */
  while ((r = nxmem_plugin_try_unload(race.stage.plugin, NULL, NULL)) == NXMEM_ERR_BUSY) sched_yield();
  if (r == NXMEM_OK) atomic_fetch_add(&race.won, 1);
  expect(r == NXMEM_OK || r == NXMEM_ERR_STALE_HANDLE);
  return NULL;
}

static void unload_race(const nx_case *c, int threads, int rounds) {
  nxmem_host host = nx_host_in(c->mode);
  for (int round = 0; round < rounds; round++) {
    get_ready();
    race.threads = threads;
    race.stage.host = host;
    race.stage.path = nx_puppet_copy();
    race.stage.plugin = nx_must_open(host, race.stage.path);
    run_threads(unload_or_open);
    assert_int_equal(atomic_load(&race.won), 1);
    assert_false(nx_is_mapped(race.stage.path));
    assert_int_equal(atomic_load(&puppet.after_the_end), 0);
    assert_int_equal(nx_puppet_calls(NX_IN_OPEN), nx_puppet_calls(NX_IN_RELEASE));
    assert_int_equal(nx_puppet_factory_releases(), 1);
  }
  nx_host_gone(host);
}

static void test_unload_race(void **state) { unload_race(*state, THREADS, 20); }
static void test_unload_duel(void **state) { unload_race(*state, 3, 60); }

/* ---- Open and unload, all at once -------------------------------------------------------------------------------- */

static const char *paths[THREADS];

static void *open_and_unload(void *me) {
  const char *path = paths[(uintptr_t)me];
  pthread_barrier_wait(&race.start);
  for (int i = 0; i < 30; i++) {
    nxmem_plugin own;
    nxmem_result r;
    while ((r = nxmem_plugin_open(race.stage.host, path, &own, NULL)) == NXMEM_ERR_BUSY) sched_yield();
    expect(r == NXMEM_OK);
    if (r != NXMEM_OK) return NULL;
    nxmem_allocator allocator;
    const nxmem_open_options options = {.mechanism = "puppet"};
    r = nxmem_allocator_open(own, &options, &allocator, NULL);
    expect(r == NXMEM_OK || r == NXMEM_ERR_BUSY);
    if (r == NXMEM_OK) expect(nxmem_allocator_close(allocator, 0, NULL) == NXMEM_OK);
    while ((r = nxmem_plugin_try_unload(own, NULL, NULL)) == NXMEM_ERR_BUSY) sched_yield();
    expect(r == NXMEM_OK);
  }
  return NULL;
}

static void open_all(nxmem_fetch_mode mode, int one_file) {
  void *held[THREADS] = {NULL};
  get_ready();
  race.stage.host = nx_host_in(mode);
  for (int i = 0; i < THREADS; i++) paths[i] = one_file && i > 0 ? paths[0] : nx_puppet_copy();
  for (int i = 0; i < THREADS && LOADER_IS_UNSEEN; i++) held[i] = dlopen(paths[i], RTLD_NOW);
  run_threads(open_and_unload);
  for (int i = 0; i < THREADS && LOADER_IS_UNSEEN; i++) dlclose(held[i]);
  for (int i = 0; i < THREADS; i++) assert_false(nx_is_mapped(paths[i]));
  assert_int_equal(nx_counts(race.stage.host).open_plugins, 0);
  assert_int_equal(nx_puppet_factory_releases(), nx_puppet_calls(NX_IN_CREATE));
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE), nx_puppet_calls(NX_IN_OPEN));
  nx_host_gone(race.stage.host);
}

static void test_open_one_file(void **state) { open_all(((const nx_case *)*state)->mode, 1); }
static void test_open_own_files(void **state) { open_all(((const nx_case *)*state)->mode, 0); }

/* ---- A host destroyed against opens ------------------------------------------------------------------------------ */

static void *destroy_or_open(void *me) {
  pthread_barrier_wait(&race.start);
  for (int i = 0; i < 10000; i++) {
    nxmem_plugin own;
    nxmem_result r;
    if ((uintptr_t)me == 0) {
      r = nxmem_host_destroy(race.stage.host, NULL);
      if (r == NXMEM_OK) atomic_fetch_add(&race.won, 1);
      expect(r == NXMEM_OK || r == NXMEM_ERR_BUSY);
      if (r == NXMEM_OK) return NULL;
      continue;
    }
    r = nxmem_plugin_open(race.stage.host, paths[(uintptr_t)me], &own, NULL);
    expect(r == NXMEM_OK || is_contended(r));
    if (r == NXMEM_ERR_STALE_HANDLE) return NULL;
    if (r == NXMEM_OK)
      while ((r = nxmem_plugin_try_unload(own, NULL, NULL)) == NXMEM_ERR_BUSY) sched_yield();
    if (i == 20) return NULL; /* so that the destroyer comes through in the end */
  }
  return NULL;
}

static void test_destroy_race(void **state) {
  const nx_case *c = *state;
  for (int i = 0; i < THREADS; i++) paths[i] = nx_plugin_copy("libnxmem_minimal.so");
  get_ready();
  race.stage.host = nx_host_in(c->mode);
  run_threads(destroy_or_open);
  if (atomic_load(&race.won) == 0) nx_host_gone(race.stage.host);
  for (int i = 0; i < THREADS; i++) assert_false(nx_is_mapped(paths[i]));
  assert_int_equal(nxmem_host_destroy(race.stage.host, NULL), NXMEM_ERR_STALE_HANDLE);
}

/* ---- Readers beside everything ----------------------------------------------------------------------------------- */

static void *read_or_work(void *me) {
  if ((uintptr_t)me < 4) return allocate_and_release(me);
  pthread_barrier_wait(&race.start);
  for (int i = 0; i < 3000; i++) {
    nxmem_host_counts counts;
    nxmem_plugin_info plugin;
    nxmem_allocator_info allocator;
    nxmem_mechanism_info mechanism;
    expect(nxmem_host_count(race.stage.host, &counts, NULL) == NXMEM_OK);
    expect(nxmem_plugin_get_info(race.stage.plugin, &plugin, NULL) == NXMEM_OK);
    expect(nxmem_plugin_mechanism(race.stage.plugin, 0, &mechanism, NULL) == NXMEM_OK);
    expect(nxmem_allocator_get_info(race.stage.allocator, &allocator, NULL) == NXMEM_OK);
    expect(counts.open_allocators == 1 && counts.live_allocations <= 16 && allocator.owned_bytes <= 16 * 512);
  }
  return NULL;
}

static void test_readers(void **state) {
  const nx_case *c = *state;
  get_ready();
  race.stage = nx_stage_set(c->mode);
  run_threads(read_or_work);
  nx_stage_strike(&race.stage);
}

#define ONE(name, test) static const nx_row_head name##_rows[] = {{test, NX_BOTH_MODES}}
ONE(release, "eight threads release the same 512");
ONE(sized, "four of eight name a wrong size");
ONE(close, "close against allocate");
ONE(close_duel, "close against one allocate");
ONE(unload, "unload against open");
ONE(unload_duel, "unload against one open");
ONE(one_file, "one file opened and unloaded by eight");
ONE(own_files, "eight files opened and unloaded");
ONE(destroy, "the host destroyed against opens");
ONE(reader, "readers beside allocate and release");

int main(void) {
  alarm(280);
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(plugin_rows), test_own);
  nx_suite_modes(&suite, ROWS(release_rows), test_release_race);
  nx_suite_modes(&suite, ROWS(sized_rows), test_sized_race);
  nx_suite_modes(&suite, ROWS(close_rows), test_close_race);
  nx_suite_modes(&suite, ROWS(close_duel_rows), test_close_duel);
  nx_suite_modes(&suite, ROWS(unload_rows), test_unload_race);
  nx_suite_modes(&suite, ROWS(unload_duel_rows), test_unload_duel);
  nx_suite_modes(&suite, ROWS(one_file_rows), test_open_one_file);
  nx_suite_modes(&suite, ROWS(own_files_rows), test_open_own_files);
  nx_suite_modes(&suite, ROWS(destroy_rows), test_destroy_race);
  nx_suite_modes(&suite, ROWS(reader_rows), test_readers);
  return nx_suite_run(&suite, "host_thread");
}
