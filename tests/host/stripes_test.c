/*
 * stripes_test.c: more threads than stripes, threads that end with records in their hands, totals that many threads change, and what an allocation weighs. Looks
 * inside the host.
 *
 * Attackers played: threads without number; one thread that allocates what another releases; a close at any moment of a call.
 * Promise: totals are exact once nobody is inside; no record is lost with its thread; no call is inside an allocator that was closed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/membarrier.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "objects.h"
#include "staging.h"

/* ---- A plugin that hands out numbers: no memory stands behind them --------------------------------------------------- */

static struct {
  _Atomic uint64_t next;
  uint64_t stride;
  _Atomic int64_t live;
  _Atomic int closed;      /* its release was called */
  _Atomic uint64_t behind; /* calls after that */
} numbers;

static NxmemStatus number_allocate(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  (void)ctx;
  if (atomic_load(&numbers.closed)) atomic_fetch_add(&numbers.behind, 1);
  atomic_fetch_add(&numbers.live, 1);
  result_out->ptr = (uint8_t *)(uintptr_t)(0x100000000000ull + numbers.stride * atomic_fetch_add(&numbers.next, 1));
  result_out->owned_bytes = result_out->mapped_bytes = request->bytes;
  return nx_puppet_status(NXMEM_STATUS_OK);
}

static NxmemStatus number_deallocate(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped_out) {
  (void)ctx;
  if (atomic_load(&numbers.closed)) atomic_fetch_add(&numbers.behind, 1);
  atomic_fetch_sub(&numbers.live, 1);
  *unmapped_out = allocation->bytes;
  return nx_puppet_status(NXMEM_STATUS_OK);
}

static void number_retain(void *ctx) { (void)ctx; }
static void number_release(void *ctx) {
  (void)ctx;
  atomic_store(&numbers.closed, 1);
  atomic_fetch_add(&puppet.calls[NX_IN_RELEASE], 1);
  atomic_fetch_sub(&puppet.live_allocators, 1);
}

static nx_stage stage;

static void set_numbers(nxmem_fetch_mode mode, uint64_t stride, nxmem_overlap_check overlap) {
  nx_puppet_reset();
  nx_overlap = overlap;
  puppet.concurrent = 1;
  numbers.stride = stride;
  atomic_store(&numbers.closed, 0);
  atomic_store(&numbers.behind, 0);
  puppet.table.allocate = number_allocate;
  puppet.table.deallocate = number_deallocate;
  puppet.table.retain = number_retain;
  puppet.table.release = number_release;
  puppet.table.capability_flags = NXMEM_CAP_ALLOCATOR;
  stage = nx_stage_set(mode);
}

static void assert_holds(uint64_t live, uint64_t bytes) {
  const nxmem_host_counts counts = nx_counts(stage.host);
  assert_int_equal(counts.live_allocations, live);
  assert_int_equal(counts.owned_bytes, bytes);
  assert_int_equal(counts.mapped_bytes, bytes);
  assert_int_equal(counts.contract_violations, 0);
  assert_int_equal(counts.quarantined, 0);
}

/* ---- Threads -------------------------------------------------------------------------------------------------------- */

enum { HANDFUL = 200, THREADS_MAX = 40 };

static pthread_barrier_t line;
static nxmem_allocation held[THREADS_MAX][HANDFUL];
static _Atomic int odd;

static uint64_t bytes_for(int thread, int i) { return i % 7 == 0 ? 3000000u + (uint64_t)thread : 64u + (uint64_t)i; }

/* Each allocates, then releases what its neighbour allocated. */
static void *work(void *argument) {
  const int me = (int)(uintptr_t)argument % THREADS_MAX, threads = (int)((uintptr_t)argument / THREADS_MAX);
  for (int i = 0; i < HANDFUL; i++)
    if (nxmem_allocate(stage.allocator, bytes_for(me, i), 8, NULL, &held[me][i], NULL) != NXMEM_OK)
      atomic_fetch_add(&odd, 1);
  (void)pthread_barrier_wait(&line); /* all allocated: the test counts */
  (void)pthread_barrier_wait(&line);
  const int other = (me + 1) % threads;
  for (int i = 0; i < HANDFUL; i += 2)
    if (nxmem_release(stage.allocator, held[other][i], NULL, NULL) != NXMEM_OK) atomic_fetch_add(&odd, 1);
  return NULL;
}

static uint64_t sum_of_bytes(int threads, int from, int step) {
  uint64_t sum = 0;
  for (int t = 0; t < threads; t++)
    for (int i = from; i < HANDFUL; i += step) sum += bytes_for(t, i);
  return sum;
}

typedef struct crowd_row {
  const char *name;
  nx_modes modes;
  int threads;
} crowd_row;

static const crowd_row crowd_rows[] = {
    {"one thread", NX_GUARDED_ONLY, 1},
    {"as many threads as exclusive stripes", NX_GUARDED_ONLY, 14}, /* the test's own is the fifteenth */
    {"forty threads", NX_GUARDED_ONLY, 40},
};

static void test_crowd(void **state) {
  const nx_case *c = *state;
  const crowd_row *row = c->row;
  set_numbers(c->mode, 1 << 22, NXMEM_OVERLAP_CHECKED);
  pthread_t threads[THREADS_MAX];
  (void)pthread_barrier_init(&line, NULL, (unsigned)row->threads + 1);
  for (int round = 0; round < 3; round++) { /* the second round's threads take over the stripes of the first */
    atomic_store(&odd, 0);
    for (int t = 0; t < row->threads; t++)
      pthread_create(&threads[t], NULL, work, (void *)(uintptr_t)(t + row->threads * THREADS_MAX));
    (void)pthread_barrier_wait(&line);
    assert_holds((uint64_t)row->threads * HANDFUL, sum_of_bytes(row->threads, 0, 1));
    (void)pthread_barrier_wait(&line);
    for (int t = 0; t < row->threads; t++) pthread_join(threads[t], NULL);
    assert_int_equal(atomic_load(&odd), 0);
    assert_holds((uint64_t)row->threads * HANDFUL / 2, sum_of_bytes(row->threads, 1, 2));
    for (int t = 0; t < row->threads; t++)
      for (int i = 1; i < HANDFUL; i += 2) nx_must_release(stage.allocator, held[t][i]);
    assert_holds(0, 0);
  }
  (void)pthread_barrier_destroy(&line);
  nx_stage_strike(&stage);
}

/* ---- Threads that end ----------------------------------------------------------------------------------------------- */

static void *allocate_and_end(void *unused) {
  for (int i = 0; i < 100; i++) nx_must_release(stage.allocator, nx_must_allocate(stage.allocator, 64, 8));
  return unused;
}

/* A thousand threads, each with a cache of its own while it lives: the table does not grow with their number. */
static void test_ends(void **state) {
  const nx_case *c = *state;
  set_numbers(c->mode, 4096, NXMEM_OVERLAP_CHECKED);
  (void)allocate_and_end(NULL);
  const uint32_t before = atomic_load(&nx_allocations.count);
  for (int i = 0; i < 1000; i++) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, allocate_and_end, NULL), 0);
    pthread_join(thread, NULL);
  }
  assert_in_range(atomic_load(&nx_allocations.count) - before, 0, NX_CACHE);
  assert_holds(0, 0);
  nx_stage_strike(&stage);
}

static pthread_key_t late_key;
static void use_host_late(void *unused) {
  (void)unused;
  nx_must_release(stage.allocator, nx_must_allocate(stage.allocator, 64, 8));
}
static void *end_late(void *unused) {
  (void)pthread_setspecific(late_key,
                            &late_key); /* the host's own key, made before, ends first or last: both must do */
  return allocate_and_end(unused);
}

/* What a thread does in its last destructors is counted like all else, and leaves nothing behind. */
static void test_late(void **state) {
  const nx_case *c = *state;
  set_numbers(c->mode, 4096, NXMEM_OVERLAP_CHECKED);
  (void)pthread_key_create(&late_key, use_host_late);
  const uint32_t before = atomic_load(&nx_allocations.count);
  for (int i = 0; i < 200; i++) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, end_late, NULL), 0);
    pthread_join(thread, NULL);
  }
  (void)pthread_key_delete(late_key);
  assert_in_range(atomic_load(&nx_allocations.count) - before, 0, NX_CACHE);
  assert_holds(0, 0);
  nx_stage_strike(&stage);
}

static pthread_key_t last_key;
static _Atomic int rounds_seen; /* of one thread after the other */
static void use_host_at_the_very_last(void *unused) {
  if (atomic_fetch_add(&rounds_seen, 1) + 1 < PTHREAD_DESTRUCTOR_ITERATIONS)
    (void)pthread_setspecific(last_key, unused);
  else
    use_host_late(NULL);
}
static void *end_at_the_very_last(void *unused) {
  atomic_store(&rounds_seen, 0);
  (void)pthread_setspecific(last_key, &last_key);
  return unused;
}

static _Atomic int64_t heap; /* bytes of the host and of this test */

static _Atomic uint32_t stripe_seen;
static void *see_stripe(void *unused) {
  atomic_store(&stripe_seen, nx_thread_self()->stripe);
  return unused;
}

/* A thread that begins finds a few of those that are gone; the kernel may take its time with the last of them. */
static int comes_back(int64_t heap_wanted) {
  for (int i = 0; i < 1000; i++) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, see_stripe, NULL), 0);
    pthread_join(thread, NULL);
    if (atomic_load(&stripe_seen) != NX_SHARED_STRIPE && atomic_load(&heap) < heap_wanted) return 1;
    usleep(1000);
  }
  return 0;
}

/*
 * Threads whose first call comes in the last round of their destructors: nothing tells the host that they end. The stripes, records and memory of three thousand
 * are not lost.
 */
static void test_very_last(void **state) {
  const nx_case *c = *state;
  enum { ENDS = 3000, FEW = 500 };
  set_numbers(c->mode, 4096, NXMEM_OVERLAP_CHECKED);
  (void)pthread_key_create(&last_key, use_host_at_the_very_last);
  (void)allocate_and_end(NULL);
  const uint32_t before = atomic_load(&nx_allocations.count);
  const int64_t heap_before = atomic_load(&heap);
  for (int i = 0; i < ENDS; i++) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, end_at_the_very_last, NULL), 0);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&rounds_seen), PTHREAD_DESTRUCTOR_ITERATIONS);
  }
  (void)pthread_key_delete(last_key);
  assert_in_range(atomic_load(&nx_allocations.count) - before, 0, FEW * NX_BATCH);
  assert_true(comes_back(heap_before + (int64_t)(FEW * sizeof(nx_thread))));
  assert_holds(0, 0);
  nx_stage_strike(&stage);
}

/* ---- Threads that begin ---------------------------------------------------------------------------------------------- */

static _Thread_local int interrupted; /* while it begins: a signal's handler, or an allocator that calls the host */
static _Atomic uint32_t stripe_between;

static void call_while_beginning(void) {
  if (!interrupted) return;
  interrupted = 0;
  atomic_store(&stripe_between, nx_thread_self()->stripe);
  use_host_late(NULL);
}

static void *begin_interrupted(void *unused) {
  interrupted = 1;
  return allocate_and_end(unused);
}

/* It has no stripe yet, and writes to none that has its writer. */
static void test_begins(void **state) {
  const nx_case *c = *state;
  set_numbers(c->mode, 4096, NXMEM_OVERLAP_CHECKED);
  (void)allocate_and_end(NULL);
  assert_int_not_equal(nx_thread_self()->stripe, NX_SHARED_STRIPE);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, begin_interrupted, NULL), 0);
  pthread_join(thread, NULL);
  assert_int_equal(atomic_load(&stripe_between), NX_SHARED_STRIPE);
  assert_holds(0, 0);
  nx_stage_strike(&stage);
}

/* ---- Closing -------------------------------------------------------------------------------------------------------- */

static _Atomic int stop;

static void *keep_calling(void *unused) {
  nxmem_allocation own;
  while (!atomic_load(&stop)) /* what a close releases instead, or refuses, is fine */
    if (nxmem_allocate(stage.allocator, 64, 8, NULL, &own, NULL) == NXMEM_OK &&
        nxmem_release(stage.allocator, own, NULL, NULL) == NXMEM_ERR_MISMATCH)
      atomic_fetch_add(&odd, 1);
  return unused;
}

static void close_and_open(int *closes) {
  nxmem_error error;
  const nxmem_result r = nxmem_allocator_close(stage.allocator, NXMEM_CLOSE_RELEASE_LIVE, &error);
  if (r == NXMEM_ERR_BUSY) return;
  assert_int_equal(r, NXMEM_OK);
  assert_int_equal(atomic_load(&numbers.behind), 0);
  atomic_store(&numbers.closed, 0);
  ++*closes;
}

/* Twenty threads that allocate and release, and a close at any moment: none of them is in the plugin once its release was called. */
static void test_closes(void **state) {
  const nx_case *c = *state;
  enum { CALLERS = 20, CLOSES = 12 };
  set_numbers(c->mode, 4096, NXMEM_OVERLAP_CHECKED);
  pthread_t threads[CALLERS];
  for (int round = 0; round < CLOSES; round++) {
    atomic_store(&stop, 0);
    for (int t = 0; t < CALLERS; t++) pthread_create(&threads[t], NULL, keep_calling, NULL);
    usleep(300);
    int closes = 0;
    while (closes == 0) close_and_open(&closes);
    usleep(100);
    assert_int_equal(atomic_load(&numbers.behind), 0);
    atomic_store(&stop, 1);
    for (int t = 0; t < CALLERS; t++) pthread_join(threads[t], NULL);
    stage.allocator = nx_must_open_mechanism(stage.plugin, "puppet");
  }
  nx_stage_strike(&stage);
}

/* ---- What an allocation weighs -------------------------------------------------------------------------------------- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
int __real_posix_memalign(void **out, size_t alignment, size_t size);
void __real_free(void *block);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
int __wrap_posix_memalign(void **out, size_t alignment, size_t size);
void __wrap_free(void *block);

static void *counted(void *block) {
  if (block != NULL) atomic_fetch_add(&heap, (int64_t)malloc_usable_size(block));
  return block;
}
void *__wrap_malloc(size_t size) { return counted(__real_malloc(size)); }
void *__wrap_calloc(size_t count, size_t size) { return counted(__real_calloc(count, size)); }
void *__wrap_realloc(void *block, size_t size) {
  if (block != NULL) atomic_fetch_sub(&heap, (int64_t)malloc_usable_size(block));
  return counted(__real_realloc(block, size));
}
int __wrap_posix_memalign(void **out, size_t alignment, size_t size) {
  const int failed = __real_posix_memalign(out, alignment, size);
  if (!failed) (void)counted(*out);
  return failed;
}
void __wrap_free(void *block) {
  if (block != NULL) atomic_fetch_sub(&heap, (int64_t)malloc_usable_size(block));
  __real_free(block);
}

typedef struct weight_row {
  const char *name;
  nx_modes modes;
  uint64_t stride, bytes;
  nxmem_overlap_check overlap;
} weight_row;

static const weight_row weight_rows[] = {
    {"weight: 64 bytes, close together", NX_GUARDED_ONLY, 64, 64, NXMEM_OVERLAP_CHECKED},
    {"weight: 64 bytes in 80", NX_GUARDED_ONLY, 80, 64, NXMEM_OVERLAP_CHECKED},
    {"weight: 64 bytes in 144", NX_GUARDED_ONLY, 144, 64, NXMEM_OVERLAP_CHECKED},
    {"weight: 16 bytes in 32", NX_GUARDED_ONLY, 32, 16, NXMEM_OVERLAP_CHECKED},
    {"weight: 4,096 bytes in 4,112", NX_GUARDED_ONLY, 4112, 4096, NXMEM_OVERLAP_CHECKED},
    {"weight: 64 bytes, trusted", NX_GUARDED_ONLY, 64, 64, NXMEM_OVERLAP_TRUSTED},
};

/* As many as fill their chunks: at most 64 bytes for each, all that the host allocates counted. */
static void test_weight(void **state) {
  const nx_case *c = *state;
  const weight_row *row = c->row;
  enum { COUNT = 4 * 16384 };
  static nxmem_allocation all[COUNT];
  set_numbers(c->mode, row->stride, row->overlap);
  const int64_t before = atomic_load(&heap);
  const uint64_t had = atomic_load(&nx_allocations.count);
  for (int i = 0; i < COUNT; i++) all[i] = nx_must_allocate(stage.allocator, row->bytes, 8);
  const double records = 48.0 * COUNT; /* of an earlier row, perhaps: then none is made anew */
  const double grown = (double)(atomic_load(&heap) - before) + 48.0 * (double)(had < COUNT ? had : COUNT);
  assert_true(grown / COUNT <= 64.0);
  assert_true(grown >= records);
  for (int i = 0; i < COUNT; i++) nx_must_release(stage.allocator, all[i]);
  assert_holds(0, 0);
  nx_stage_strike(&stage);
}

/* ---- A kernel that takes its barrier back ---------------------------------------------------------------------------- */

static _Atomic int refuse_barrier;
static _Atomic uint64_t barriers; /* asked for by closers */

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

/* What the host asks for has three arguments, or none. */
long __wrap_syscall(long number, ...) {
  if (number == SYS_gettid) {
    call_while_beginning();
    return __real_syscall(number);
  }
  va_list arguments;
  va_start(arguments, number);
  const long first = va_arg(arguments, long), second = va_arg(arguments, long), third = va_arg(arguments, long);
  va_end(arguments);
  if (number != SYS_membarrier || first != MEMBARRIER_CMD_PRIVATE_EXPEDITED)
    return __real_syscall(number, first, second, third);
  atomic_fetch_add(&barriers, 1);
  if (!atomic_load(&refuse_barrier)) return __real_syscall(number, first, second, third);
  errno = EPERM;
  return -1;
}

static nxmem_allocator beside; /* closed while the first that was refused waits; 0: none is */
static _Atomic uint32_t sleeps;
static uint32_t sleeps_beside;

int __real_nanosleep(const struct timespec *asked, struct timespec *left);
int __wrap_nanosleep(const struct timespec *asked, struct timespec *left);

/* The second sleep, which is the first of the one beside, is cut short, by a signal as it were. */
int __wrap_nanosleep(const struct timespec *asked, struct timespec *left) {
  const uint32_t before = atomic_fetch_add(&sleeps, 1);
  if (beside.id != 0) {
    const nxmem_allocator other = beside;
    beside.id = 0;
    nx_must_close(other);
    sleeps_beside = atomic_load(&sleeps) - before - 1;
  }
  if (before != 1) return __real_nanosleep(asked, left);
  errno = EINTR;
  return -1;
}

/* The close that was refused the barrier may have missed a call: it is BUSY, once. From then on calls make their own. */
static void test_barrier(void **state) {
  const nx_case *c = *state;
  set_numbers(c->mode, 64, NXMEM_OVERLAP_CHECKED);
  uint64_t asked = atomic_load(&barriers);
  const nxmem_allocator other = nx_must_open_mechanism(stage.plugin, "puppet");
  nx_must_close(stage.allocator);
  assert_int_equal(atomic_load(&barriers), asked + 1);
  for (int i = 0; i < 3; i++) {
    stage.allocator = nx_must_open_mechanism(stage.plugin, "puppet");
    atomic_store(&refuse_barrier, 1);
    if (i == 0) {
      nxmem_error error = nx_blank_error();
      beside = other;
      nx_assert_code(nxmem_allocator_close(stage.allocator, 0, &error), &error, NXMEM_ERR_BUSY);
      assert_int_equal(error.found, 1);
      assert_int_equal(nx_puppet_calls(NX_IN_RELEASE), 2); /* the one beside it, which has waited as well */
      assert_true(sleeps_beside > 1);                      /* again behind the signal */
      asked = atomic_load(&barriers);
    } else {
      nx_must_release(stage.allocator, nx_must_allocate(stage.allocator, 64, 8));
    }
    nx_must_close(stage.allocator);
    assert_int_equal(atomic_load(&barriers), asked);
  }
  atomic_store(&refuse_barrier, 0);
  nx_must_unload(stage.plugin, stage.path);
  nx_host_gone(stage.host);
}

static const nx_row_head ends_rows[] = {{"a thousand threads, one after the other", NX_GUARDED_ONLY}};
static const nx_row_head late_rows[] = {{"the host used from a thread's last destructors", NX_GUARDED_ONLY}};
static const nx_row_head very_last_rows[] = {
    {"the host first used in the last round of a thread's destructors", NX_GUARDED_ONLY}};
static const nx_row_head begins_rows[] = {{"the host called while a thread begins", NX_GUARDED_ONLY}};
static const nx_row_head closes_rows[] = {{"closes beside twenty threads", NX_GUARDED_ONLY}};
static const nx_row_head barrier_rows[] = {{"a kernel that takes its barrier back", NX_GUARDED_ONLY}};

int main(void) {
  alarm(280);
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(weight_rows), test_weight);
  nx_suite_modes(&suite, ROWS(crowd_rows), test_crowd);
  nx_suite_modes(&suite, ROWS(ends_rows), test_ends);
  nx_suite_modes(&suite, ROWS(late_rows), test_late);
  /* ThreadSanitizer ends its own part of a thread in that very round, and cannot follow what comes behind. */
  if (!NX_THREAD_SANITIZER) nx_suite_modes(&suite, ROWS(very_last_rows), test_very_last);
  nx_suite_modes(&suite, ROWS(begins_rows), test_begins);
  nx_suite_modes(&suite, ROWS(closes_rows), test_closes);
  nx_suite_modes(&suite, ROWS(barrier_rows), test_barrier); /* last: the barrier is gone for good */
  return nx_suite_run(&suite, "host_stripes");
}
