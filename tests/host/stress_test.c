/*
 * stress_test.c: eight threads do everything at once, each to its own objects and to those of the others, on every mechanism that keeps the
 * contract. Clean under a race detector.
 *
 * Attackers played: callers that race each other with every call there is.
 * Promise: no answer but those the header lists, no violation is found where there is none, and at the end all books are at zero.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "hosttest.h"

enum { THREADS = 8, STEPS = 600, BOARD = 16, OWN = 6, BYTES = 256 * 1024, PAGE = 64 * 1024 };

/* An allocation that any thread may use. */
typedef struct offer {
  nxmem_allocator allocator;
  nxmem_allocation allocation;
} offer;

typedef struct stress_row {
  nx_row_head head;
  const char *library, *mechanism;
  uint64_t flags; /* what the mechanism can do beyond allocating */
  int asks_back; /* it allocates nothing without a reclaim, which is refused while another thread tries to unload the module */
} stress_row;

static struct {
  const stress_row *row;
  nxmem_host host;
  const char *path;
  pthread_barrier_t start;
  pthread_mutex_t board_lock;
  offer board[BOARD];
  _Atomic uint64_t odd;    /* answers that must not be */
  _Atomic int first_odd;   /* one of them: step * 100 + result */
  _Atomic uint64_t worked; /* calls that did something */
} stress;

/* A thread and what it holds. */
typedef struct worker {
  uint64_t seed;
  nxmem_plugin plugin;
  nxmem_allocator allocator;
  nxmem_allocation own[OWN];
} worker;

static uint64_t draw(worker *w, uint64_t below) {
  w->seed = w->seed * 6364136223846793005ull + 1442695040888963407ull;
  return (w->seed >> 33) % below;
}

/* Whatever is raced for may be gone, in use, or in the hands of somebody else. */
static int is_lost_race(nxmem_result r) { return r == NXMEM_ERR_BUSY || r == NXMEM_ERR_STALE_HANDLE; }

static nxmem_result note(int step, nxmem_result r) {
  if (r == NXMEM_OK) {
    atomic_fetch_add_explicit(&stress.worked, 1, memory_order_relaxed);
  } else if (!is_lost_race(r) && !(stress.row->asks_back && r == NXMEM_ERR_PLUGIN)) {
    atomic_fetch_add(&stress.odd, 1);
    atomic_store(&stress.first_odd, step * 100 + (int)r);
  }
  return r;
}

/* ---- The board --------------------------------------------------------------------------------------------------- */

static offer swap_offer(uint64_t at, offer mine) {
  pthread_mutex_lock(&stress.board_lock);
  const offer was = stress.board[at];
  stress.board[at] = mine;
  pthread_mutex_unlock(&stress.board_lock);
  return was;
}

static offer look_at(uint64_t at) {
  pthread_mutex_lock(&stress.board_lock);
  const offer there = stress.board[at];
  pthread_mutex_unlock(&stress.board_lock);
  return there;
}

/* ---- Steps ------------------------------------------------------------------------------------------------------- */

static void open_all(worker *w) {
  if (w->plugin.id == 0 && note(1, nxmem_plugin_open(stress.host, stress.path, &w->plugin, NULL)) != NXMEM_OK) return;
  if (w->allocator.id != 0) return;
  const nxmem_open_options options = {.mechanism = stress.row->mechanism};
  (void)note(2, nxmem_allocator_open(w->plugin, &options, &w->allocator, NULL));
}

static void allocate(worker *w) {
  const uint64_t at = draw(w, OWN);
  if (w->allocator.id == 0 || w->own[at].id != 0) return;
  const NxmemByteRange first = {0, PAGE};
  const nxmem_allocate_options lazily = {&first, 1};
  const int lazy = (stress.row->flags & NXMEM_CAP_VIRTUAL_BACKING) != 0 && draw(w, 2) == 0;
  const uint64_t bytes = lazy ? BYTES : 64 + draw(w, 1024);
  if (note(3, nxmem_allocate(w->allocator, bytes, 64, lazy ? &lazily : NULL, &w->own[at], NULL)) == NXMEM_OK)
    memset(w->own[at].ptr, (int)at, 64);
}

static void release(worker *w) {
  const uint64_t at = draw(w, OWN);
  if (w->own[at].id == 0) return;
  const int queued = (stress.row->flags & NXMEM_CAP_DEFERRED_RELEASE) != 0 && draw(w, 2) == 0;
  const nxmem_result r = queued ? nxmem_enqueue_release(w->allocator, w->own[at], NULL, NULL, NULL)
                                : nxmem_release(w->allocator, w->own[at], NULL, NULL);
  (void)note(4, r);
  if (r != NXMEM_ERR_BUSY) w->own[at].id = 0;
}

/* Give an allocation to whoever comes first, and release the one that hung there. */
static void put_up(worker *w) {
  const uint64_t at = draw(w, OWN);
  if (w->own[at].id == 0) return;
  const offer was = swap_offer(draw(w, BOARD), (offer){w->allocator, w->own[at]});
  w->own[at].id = 0;
  if (was.allocation.id != 0) (void)note(5, nxmem_release(was.allocator, was.allocation, NULL, NULL));
}

/* What hangs there may be released, committed and decommitted by several at once. */
static void use_offer(worker *w) {
  const offer there = look_at(draw(w, BOARD));
  if (there.allocation.id == 0) return;
  const NxmemByteRange range = {0, 64};
  uint64_t bytes = 0;
  switch (draw(w, 4)) {
    case 0:
      (void)note(6, nxmem_release(there.allocator, there.allocation, NULL, NULL));
      break;
    case 1:
      if ((stress.row->flags & NXMEM_CAP_VIRTUAL_BACKING) != 0)
        (void)note(7, nxmem_commit(there.allocator, there.allocation, range, NULL));
      break;
    case 2:
      if ((stress.row->flags & NXMEM_CAP_VIRTUAL_BACKING) != 0)
        (void)note(8, nxmem_committed_bytes(there.allocator, there.allocation, &bytes, NULL));
      break;
    default:
      if ((stress.row->flags & NXMEM_CAP_DEFERRED_RELEASE) != 0)
        (void)note(9, nxmem_enqueue_release(there.allocator, there.allocation, NULL, NULL, NULL));
      break;
  }
}

static void drain(worker *w) {
  const offer there = look_at(draw(w, BOARD));
  if ((stress.row->flags & NXMEM_CAP_DEFERRED_RELEASE) == 0 || there.allocator.id == 0) return;
  (void)note(10, nxmem_drain_releases(there.allocator, 1 + draw(w, 4), NULL, NULL));
}

static void share(worker *w) {
  nxmem_prefix prefix = {0};
  if ((stress.row->flags & NXMEM_CAP_SHARED_MAPPING) == 0 || w->allocator.id == 0) return;
  if (note(11, nxmem_prefix_create(w->allocator, PAGE, &prefix, NULL)) != NXMEM_OK) return;
  (void)note(12, nxmem_prefix_retain(prefix, NULL));
  (void)note(12, nxmem_prefix_release(prefix, NULL));
  (void)note(12, nxmem_prefix_release(prefix, NULL));
}

static void close_all(worker *w) {
  if (w->allocator.id != 0 &&
      note(13, nxmem_allocator_close(w->allocator, draw(w, 2) == 0 ? NXMEM_CLOSE_RELEASE_LIVE : 0, NULL)) == NXMEM_OK) {
    w->allocator.id = 0;
    memset(w->own, 0, sizeof w->own);
  }
  if (w->allocator.id == 0 && w->plugin.id != 0 && note(14, nxmem_plugin_try_unload(w->plugin, NULL, NULL)) == NXMEM_OK)
    w->plugin.id = 0;
}

static void look(worker *w) {
  nxmem_host_counts counts;
  (void)note(15, nxmem_host_count(stress.host, &counts, NULL));
  nxmem_violation violation;
  uint32_t written = 0;
  (void)note(15, nxmem_host_violations(stress.host, &violation, 1, &written, NULL));
  nxmem_allocator_info info;
  if (w->allocator.id != 0) (void)note(16, nxmem_allocator_get_info(w->allocator, &info, NULL));
}

static void step(worker *w) {
  static void (*const steps[])(worker *) = {allocate, allocate,  allocate,  release, release, put_up,
                                            put_up,   use_offer, use_offer, drain,   share,   look};
  if (w->allocator.id == 0) {
    open_all(w);
    if (w->allocator.id == 0) usleep(200); /* another thread is loading or unloading the file */
    return;
  }
  if (draw(w, 60) == 0) {
    close_all(w);
    return;
  }
  steps[draw(w, sizeof steps / sizeof steps[0])](w);
}

static void *run_worker(void *me) {
  worker w = {.seed = (uint64_t)(uintptr_t)me + 1};
  pthread_barrier_wait(&stress.start);
  for (int i = 0; i < STEPS; i++) step(&w);
  pthread_barrier_wait(&stress.start); /* nobody closes for good what another is still using */
  for (int tries = 0; w.allocator.id != 0 && tries < 1000; tries++)
    if (note(17, nxmem_allocator_close(w.allocator, NXMEM_CLOSE_RELEASE_LIVE, NULL)) == NXMEM_OK)
      w.allocator.id = 0;
    else
      usleep(200);
  pthread_barrier_wait(&stress.start);
  for (int tries = 0; w.plugin.id != 0 && tries < 1000; tries++)
    if (note(18, nxmem_plugin_try_unload(w.plugin, NULL, NULL)) == NXMEM_OK)
      w.plugin.id = 0;
    else
      usleep(200);
  return NULL;
}

static int give_all(void *ctx, nxmem_allocator allocator, uint64_t bytes, uint64_t *reclaimed_out) {
  (void)ctx;
  (void)allocator;
  *reclaimed_out = bytes;
  return 0;
}

static nxmem_host host_with_hook(nxmem_fetch_mode mode) {
  nxmem_host_options options;
  nxmem_host_options_default(&options);
  options.fetch = mode;
  options.reclaim = give_all;
  nxmem_host host = {0};
  assert_int_equal(nxmem_host_create(&options, &host, NULL), NXMEM_OK);
  return host;
}

static void test_stress(void **state) {
  const nx_case *test = *state;
  memset(&stress, 0, sizeof stress);
  stress.row = test->row;
  stress.path = nx_plugin_copy(stress.row->library);
  stress.host = host_with_hook(test->mode);
  pthread_mutex_init(&stress.board_lock, NULL);
  pthread_barrier_init(&stress.start, NULL, THREADS);
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, run_worker, (void *)(uintptr_t)i), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&stress.start);
  pthread_mutex_destroy(&stress.board_lock);

  if (atomic_load(&stress.odd) != 0)
    fail_msg("%u odd answers, one of them step %d, result %d", (unsigned)stress.odd, stress.first_odd / 100,
             stress.first_odd % 100);
  assert_in_range(atomic_load(&stress.worked), STEPS, THREADS * STEPS * 4);
  const nxmem_host_counts zero = {0}, counts = nx_counts(stress.host);
  assert_memory_equal(&counts, &zero, sizeof zero);
  assert_false(nx_is_mapped(stress.path));
  nx_host_gone(stress.host);
}

#define ALL (NXMEM_CAP_VIRTUAL_BACKING | NXMEM_CAP_SHARED_MAPPING | NXMEM_CAP_DEFERRED_RELEASE)

static const stress_row rows[] = {
    {{"minimal", NX_BOTH_MODES}, "libnxmem_minimal.so", "minimal", 0, 0},
    {{"eager", NX_BOTH_MODES}, "libnxmem_scripted.so", "eager", 0, 0},
    {{"legacy-1-0", NX_BOTH_MODES}, "libnxmem_scripted.so", "legacy-1-0", 0, 0},
    {{"callback-probe", NX_BOTH_MODES}, "libnxmem_scripted.so", "callback-probe", 0, 1},
    {{"lazy", NX_BOTH_MODES}, "libnxmem_scripted.so", "lazy", ALL, 0},
};

int main(void) {
  alarm(280);
  nx_suite suite = {0};
  nx_suite_modes(&suite, rows, sizeof rows[0], sizeof rows / sizeof rows[0], test_stress);
  return nx_suite_run(&suite, "host_stress");
}
