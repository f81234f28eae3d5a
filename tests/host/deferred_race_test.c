/*
 * deferred_race_test.c: completions from threads of the plugin against enqueues, closes, drains and each other.
 *
 * Attackers played: a plugin whose threads complete before the enqueue has answered, twice at the same moment, and while
 * the allocator closes.
 * Promise: each queued release settles exactly once and is unpinned exactly once; the books end at zero; nobody waits
 * for ever.
 */
#define _GNU_SOURCE
#include <unistd.h>

#include "staging.h"

enum { BYTES = 64, ALIGN = 16, ROUNDS = 3000, CLOSES = 400 };

static nx_stage stage;
static _Atomic int pinned;
static _Atomic uint64_t unpins;

static int pin(void *ctx) {
  (void)ctx;
  atomic_fetch_add(&pinned, 1);
  return 0;
}

static void unpin(void *ctx) {
  (void)ctx;
  atomic_fetch_sub(&pinned, 1);
  atomic_fetch_add(&unpins, 1);
}

static nxmem_allocator open_pinned(void) {
  static const nxmem_pin_source pins = {pin, unpin, NULL};
  const nxmem_open_options options = {.mechanism = "puppet", .pins = &pins};
  nxmem_allocator allocator;
  assert_int_equal(nxmem_allocator_open(stage.plugin, &options, &allocator, NULL), NXMEM_OK);
  return allocator;
}

static void play(nxmem_fetch_mode mode) {
  nx_puppet_reset();
  stage.path = nx_puppet_copy();
  stage.host = nx_host_in(mode);
  stage.plugin = nx_must_open(stage.host, stage.path);
  stage.allocator = open_pinned();
  atomic_store(&pinned, 0);
  atomic_store(&unpins, 0);
  puppet.concurrent = 1;
}

static void assert_balanced(void) {
  const nxmem_host_counts counts = nx_counts(stage.host);
  assert_int_equal(counts.queued_releases, 0);
  assert_int_equal(counts.held_slots, 0);
  assert_int_equal(counts.live_allocations, 0);
  assert_int_equal(counts.owned_bytes, 0);
  assert_int_equal(counts.mapped_bytes, 0);
  assert_int_equal(atomic_load(&pinned), 0);
  assert_int_equal(atomic_load(&puppet.live_allocations), 0);
}

/* ---- Completions against enqueues ---------------------------------------------------------------------------------- */

static _Atomic int stop;
static _Atomic uint64_t settled, failed, refused;

/* Completes whatever is in the queue: every third one fails, and comes again. */
static void *complete_all(void *unused) {
  (void)unused;
  uint64_t n = 0;
  for (;;) {
    const int last_look = atomic_load(&stop);
    nx_puppet_queued queued;
    if (!nx_puppet_pop(&queued)) {
      if (last_look) return NULL;
      usleep(1);
      continue;
    }
    NxmemReleaseCompletion completion = nx_puppet_completion(&queued);
    const int fails = ++n % 3 == 0;
    completion.outcome.state = fails ? NXMEM_RELEASE_FAILED : NXMEM_RELEASE_COMPLETE;
    if (!fails) {
      free(queued.allocation.ptr);
      atomic_fetch_sub(&puppet.live_allocations, 1);
    }
    const uint32_t code = nx_puppet_complete(&completion);
    atomic_fetch_add(code != NXMEM_STATUS_OK ? &refused : fails ? &failed : &settled, 1);
  }
}

/* Queue one until it is gone: a completion that fails leaves it live again. */
static void *enqueue_many(void *unused) {
  (void)unused;
  for (int i = 0; i < ROUNDS; i++) {
    const nxmem_allocation block = nx_must_allocate(stage.allocator, BYTES, ALIGN);
    nxmem_result r = NXMEM_OK;
    while (r != NXMEM_ERR_STALE_HANDLE) {
      r = nxmem_enqueue_release(stage.allocator, block, NULL, NULL, NULL);
      if (r == NXMEM_ERR_BUSY) usleep(1);
      if (r != NXMEM_OK && r != NXMEM_ERR_BUSY && r != NXMEM_ERR_STALE_HANDLE) return (void *)(uintptr_t)(r + 1);
    }
  }
  return NULL;
}

typedef struct threads_row {
  const char *name;
  nx_modes modes;
  int enqueuers, completers;
} threads_row;

static const threads_row threads_rows[] = {
    {"one enqueues, one completes", 0, 1, 1},
    {"two enqueue, two complete", 0, 2, 2},
    {"four enqueue, one completes", 0, 4, 1},
};

static void test_enqueue(void **state) {
  const nx_case *c = *state;
  const threads_row *row = c->row;
  play(c->mode);
  atomic_store(&stop, 0);
  atomic_store(&settled, 0);
  atomic_store(&failed, 0);
  atomic_store(&refused, 0);
  pthread_t enqueuers[4], completers[4];
  for (int i = 0; i < row->completers; i++)
    assert_int_equal(pthread_create(&completers[i], NULL, complete_all, NULL), 0);
  for (int i = 0; i < row->enqueuers; i++) assert_int_equal(pthread_create(&enqueuers[i], NULL, enqueue_many, NULL), 0);
  for (int i = 0; i < row->enqueuers; i++) {
    void *bad = NULL;
    assert_int_equal(pthread_join(enqueuers[i], &bad), 0);
    assert_null(bad);
  }
  atomic_store(&stop, 1);
  for (int i = 0; i < row->completers; i++) assert_int_equal(pthread_join(completers[i], NULL), 0);
  assert_int_equal(atomic_load(&settled), (uint64_t)row->enqueuers * ROUNDS);
  assert_int_equal(atomic_load(&refused), 0);
  assert_int_equal(atomic_load(&unpins), atomic_load(&settled) + atomic_load(&failed));
  assert_int_equal(nx_counts(stage.host).contract_violations, 0);
  assert_balanced();
  nx_stage_strike(&stage);
}

/* ---- Two completions at once --------------------------------------------------------------------------------------- */

static pthread_barrier_t both;
static NxmemReleaseCompletion same;
static uint32_t answers[2];

static void *complete_same(void *argument) {
  uint32_t *answer = argument;
  for (int i = 0; i < ROUNDS; i++) {
    (void)pthread_barrier_wait(&both);
    *answer = nx_puppet_complete(&same);
    (void)pthread_barrier_wait(&both);
  }
  return NULL;
}

static void test_twice(void **state) {
  const nx_case *c = *state;
  play(c->mode);
  assert_int_equal(pthread_barrier_init(&both, NULL, 3), 0);
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, complete_same, &answers[i]), 0);
  int wrong = 0;
  for (int i = 0; i < ROUNDS; i++) {
    const nxmem_allocation block = nx_must_allocate(stage.allocator, BYTES, ALIGN);
    assert_int_equal(nxmem_enqueue_release(stage.allocator, block, NULL, NULL, NULL), NXMEM_OK);
    nx_puppet_queued queued;
    assert_int_equal(nx_puppet_pop(&queued), 1);
    same = nx_puppet_completion(&queued);
    if (i % 4 == 0) same.outcome.state = NXMEM_RELEASE_FAILED;
    (void)pthread_barrier_wait(&both);
    (void)pthread_barrier_wait(&both);
    wrong += (answers[0] == NXMEM_STATUS_OK) == (answers[1] == NXMEM_STATUS_OK);
    if (i % 4 == 0) {
      nx_must_release(stage.allocator, block);
      continue;
    }
    free(queued.allocation.ptr);
    atomic_fetch_sub(&puppet.live_allocations, 1);
  }
  for (int i = 0; i < 2; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  assert_int_equal(pthread_barrier_destroy(&both), 0);
  assert_int_equal(wrong, 0);
  assert_int_equal(atomic_load(&unpins), ROUNDS);
  assert_int_equal(nx_counts(stage.host).refused_callbacks, ROUNDS);
  assert_balanced();
  nx_stage_strike(&stage);
}

/* ---- Completions against closes ------------------------------------------------------------------------------------ */

typedef struct close_row {
  const char *name;
  nx_modes modes;
  uint32_t flags;
  uint32_t state; /* of the completions */
} close_row;

static const close_row close_rows[] = {
    {"closed while they complete", 0, 0, NXMEM_RELEASE_COMPLETE},
    {"closed while they fail", 0, 0, NXMEM_RELEASE_FAILED},
    {"closed with a hand-back while they fail", 0, NXMEM_CLOSE_RELEASE_LIVE, NXMEM_RELEASE_FAILED},
};

static pthread_barrier_t start;

static void *complete_queue(void *argument) {
  const uint32_t release_state = *(const uint32_t *)argument;
  nx_puppet_queued queued;
  (void)pthread_barrier_wait(&start);
  while (nx_puppet_pop(&queued)) {
    NxmemReleaseCompletion completion = nx_puppet_completion(&queued);
    completion.outcome.state = release_state;
    if (nx_puppet_complete(&completion) != NXMEM_STATUS_OK) atomic_fetch_add(&refused, 1);
  }
  return NULL;
}

/* Whatever the order: closed for good in the end, and each release settled as one of the things it may be. */
static void close_once(const close_row *row, uint64_t *quarantined) {
  enum { N = 4 };
  nxmem_allocation blocks[N];
  uint32_t release_state = row->state;
  puppet.idle_drain = 1;
  for (int i = 0; i < N; i++) {
    static uintptr_t address = 1u << 30; /* nobody looks behind it, and none comes twice: some are quarantined */
    address += 4096;
    puppet.address = (uint8_t *)address;
    blocks[i] = nx_must_allocate(stage.allocator, BYTES, ALIGN);
    assert_int_equal(nxmem_enqueue_release(stage.allocator, blocks[i], NULL, NULL, NULL), NXMEM_OK);
  }
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, complete_queue, &release_state), 0);
  (void)pthread_barrier_wait(&start);
  nxmem_result closed = nxmem_allocator_close(stage.allocator, row->flags, NULL);
  assert_int_equal(pthread_join(thread, NULL), 0);
  if (closed == NXMEM_ERR_BUSY) closed = nxmem_allocator_close(stage.allocator, NXMEM_CLOSE_RELEASE_LIVE, NULL);
  assert_int_equal(closed, NXMEM_OK);
  const nxmem_host_counts counts = nx_counts(stage.host);
  assert_int_equal(counts.queued_releases, 0);
  assert_int_equal(counts.held_slots, 0);
  assert_int_equal(counts.live_allocations, 0);
  assert_int_equal(counts.open_allocators, 0);
  assert_int_equal(atomic_load(&pinned), 0);
  assert_in_range(counts.quarantined, *quarantined, *quarantined + N);
  assert_int_equal(counts.owned_bytes, counts.quarantined * BYTES);
  assert_int_equal(counts.quarantined_bytes, counts.quarantined * BYTES);
  *quarantined = counts.quarantined;
}

static void test_close(void **state) {
  const nx_case *c = *state;
  const close_row *row = c->row;
  play(c->mode);
  atomic_store(&refused, 0);
  uint64_t quarantined = 0;
  assert_int_equal(pthread_barrier_init(&start, NULL, 2), 0);
  for (int i = 0; i < CLOSES; i++) {
    close_once(row, &quarantined);
    puppet.concurrent = 0; /* the next allocator's table is noted */
    stage.allocator = open_pinned();
    puppet.concurrent = 1;
  }
  assert_int_equal(pthread_barrier_destroy(&start), 0);
  assert_int_equal(atomic_load(&refused), 0);
  assert_int_equal(atomic_load(&unpins), CLOSES * 4);
  nx_must_close(stage.allocator);
  nxmem_unload_info info;
  puppet.own_report = 1;
  puppet.report.struct_size = sizeof puppet.report;
  if (quarantined == 0) {
    assert_int_equal(nxmem_plugin_try_unload(stage.plugin, &info, NULL), NXMEM_OK);
  } else {
    nx_assert_unload_busy(stage.plugin, NXMEM_REASON_HOST_HOLDS, NXMEM_AXIS_ALLOCATIONS, quarantined);
    nx_force_leak(stage.host, stage.plugin, stage.path);
  }
  nx_host_gone(stage.host);
}

#define ONE(name, test) static const nx_row_head name##_rows[] = {{test, NX_BOTH_MODES}}
ONE(twice, "the same completion on two threads");

int main(void) {
  alarm(280);
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(threads_rows), test_enqueue);
  nx_suite_modes(&suite, ROWS(twice_rows), test_twice);
  nx_suite_modes(&suite, ROWS(close_rows), test_close);
  return nx_suite_run(&suite, "host_deferred_race");
}
