/*
 * racing_test.c: do the threads of libnxmem_scripted_racing.so write to the records that their names say, and stop?
 *
 * Attackers played: none; here the attackers are under test.
 * Promise: both values of a flipped field are seen; behind the story the record is as it should be and the thread gone.
 */
#define _POSIX_C_SOURCE 200809L
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "mechanisms.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

enum { SIZE = 100, ALIGN = 64 };

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Look at a word until it has held both values; 0 where it held a third, or never both in that time. */
static int holds_both_within(const void *address, uint32_t a, uint32_t b, int64_t milliseconds) {
  const _Atomic uint32_t *word = address;
  const int64_t until = now_ms() + milliseconds;
  uint32_t found = 0u;
  for (uint32_t i = 0u; found != 3u; i++) {
    const uint32_t now = atomic_load((_Atomic uint32_t *)(uintptr_t)word);
    if (now != a && now != b) return 0;
    found |= now == a ? 1u : 2u;
    if (i % 256u != 0u) continue;
    if (now_ms() > until) return 0;
    sched_yield();
  }
  return 1;
}

static int holds_both(const void *address, uint32_t a, uint32_t b) { return holds_both_within(address, a, b, 4000); }

static void show_honest(const scene *s) {
  const NxmemAllocation block = take(s->table, 5u, SIZE, ALIGN);
  give_back(s->table, &block);
  assert_int_equal(counted(s, NX_PROBE_RACED_WRITES), 0u);
}

static void flips_table(const scene *s, uint32_t other) {
  assert_true(holds_both(&s->table->struct_size, 128u, other));
  const NxmemAllocation block = take(s->table, 5u, SIZE, ALIGN);
  give_back(s->table, &block);
  assert_true(counted(s, NX_PROBE_RACED_WRITES) > 0u);
}

static void show_flipping_table(const scene *s) {
  assert_int_equal(readable(s->table, 200u), 128u);
  flips_table(s, UINT32_MAX);
}
static void show_flipping_short_table(const scene *s) { flips_table(s, 8u); }

/* ---- Records that the callbacks get ----------------------------------------------------------------------------- */

static uint32_t honest_value, other_value;
static size_t field_at;
static uint64_t seen_both, calls;
static uint32_t callback_answer;

static NxmemStatus watch_completion(void *host_ctx, const NxmemReleaseCompletion *completion) {
  (void)host_ctx;
  if (calls++ == 0u)
    seen_both += (uint64_t)holds_both((const uint8_t *)completion + field_at, honest_value, other_value);
  return (NxmemStatus){calls == 1u ? callback_answer : NXMEM_STATUS_OK, 0u, {0}};
}

static NxmemStatus watch_reclaim(void *host_ctx, const NxmemReclaimRequest *request, uint64_t *reclaimed_out) {
  (void)host_ctx, (void)reclaimed_out;
  calls++;
  seen_both += (uint64_t)holds_both(&request->struct_size, 32u, 8u);
  return (NxmemStatus){NXMEM_STATUS_BUSY, 0u, {0}};
}

/* Accepted: told once. Refused: told again, and true. */
static void flips_completion(const scene *s, size_t field, uint32_t value, uint32_t other) {
  s->r->callbacks.release_completed = watch_completion;
  field_at = field;
  honest_value = value;
  other_value = other;
  for (uint64_t told = 1u; told <= 2u; told++) {
    callback_answer = told == 1u ? NXMEM_STATUS_OK : NXMEM_STATUS_INVALID_ARGUMENT;
    const NxmemAllocation block = take(s->table, 4u + told, SIZE, ALIGN);
    if (field == 8u) honest_value = (uint32_t)enqueue(s->table, &block);
    if (field != 8u) (void)enqueue(s->table, &block);
    calls = seen_both = 0u;
    assert_int_equal(drain(s->table, 9u), 1u);
    assert_int_equal(calls, told);
    assert_int_equal(seen_both, 1u);
  }
  assert_report(s->p, 1u, 0u, 0u, 0u, 0u);
}

static void show_flipping_completion(const scene *s) { flips_completion(s, 0u, 328u, 64u); }
static void show_flipping_ticket(const scene *s) { flips_completion(s, 8u, 0u, UINT32_MAX); }

static void show_flipping_reclaim(const scene *s) {
  s->r->callbacks.request_reclaim = watch_reclaim;
  calls = seen_both = 0u;
  const NxmemAllocation block = take(s->table, 5u, SIZE, ALIGN);
  assert_int_equal(calls, 1u);
  assert_int_equal(seen_both, 1u);
  give_back(s->table, &block);
}

/* ---- Records of the host's -------------------------------------------------------------------------------------- */

/* Behind the return the thread writes on for a while: too short a while on a busy machine, so there are several tries. */
enum { TRIES = 50, A_MOMENT = 40 };

static int sees_result_written(const scene *s, uint64_t id) {
  static NxmemAllocResult result;
  const NxmemAllocRequest request = alloc_request(s->table, id, SIZE, ALIGN);
  result = alloc_result();
  assert_status(s->table->allocate(s->table->ctx, &request, &result), NXMEM_STATUS_OK);
  const int both = holds_both_within(&result.owned_bytes, SIZE, UINT32_MAX, A_MOMENT);
  const NxmemAllocation block = allocation_of(&request, &result);
  memset(&result, 0, sizeof result); /* another record: the thread stops */
  give_back(s->table, &block);
  return both;
}

static int sees_outcome_written(const scene *s, uint64_t id) {
  static NxmemReleaseOutcome outcome;
  const NxmemAllocation block = take(s->table, id, SIZE, ALIGN);
  outcome = unwritten();
  assert_status(s->table->release_allocation(s->table->ctx, &block, &outcome), NXMEM_STATUS_OK);
  assert_report(s->p, 1u, 0u, 0u, 0u, 0u);
  return holds_both_within(&outcome.state, NXMEM_RELEASE_COMPLETE, NXMEM_RELEASE_FAILED, A_MOMENT);
}

static void some_try(const scene *s, int (*sees)(const scene *s, uint64_t id)) {
  int seen = 0;
  for (uint64_t id = 1u; id <= TRIES && !seen; id++) seen = sees(s, id);
  assert_true(seen);
}

static void show_result(const scene *s) { some_try(s, sees_result_written); }
static void show_outcome(const scene *s) { some_try(s, sees_outcome_written); }

/* ---- Rows ------------------------------------------------------------------------------------------------------- */

#define ROW(name, show) \
  { name, 128, 1, STRUCTURED, ANY, 1, show }
#define RACED(name, show) \
  { name, 0, 1, STRUCTURED, ANY, 1, show } /* its size is never one number */

static const mechanism_row rows[] = {
    ROW("eager", show_eager),
    {"lazy", 128, 1, ALL, ANY, 1, show_honest},
    RACED("flipping-table", show_flipping_table),
    RACED("flipping-short-table", show_flipping_short_table),
    {"flipping-completion", 128, 1, DEFERRED, ANY, 1, show_flipping_completion},
    {"flipping-ticket", 128, 1, DEFERRED, ANY, 1, show_flipping_ticket},
    ROW("flipping-reclaim", show_flipping_reclaim),
    ROW("writes-on-result", show_result),
    ROW("writes-on-outcome", show_outcome),
};

int main(void) {
  static const subject racing = {"libnxmem_scripted_racing.so", "racing", 0u, 31u};
  add_mechanisms(&racing, rows, COUNT(rows), 1);
  return run_added("racing mechanisms");
}
