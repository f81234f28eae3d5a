/*
 * deferred_test.c: completing queued releases, draining, counting what is pending.
 *
 * Attackers played: completions with each field wrong, short, unreadable, doubled, brought through a sibling; drains
 * and counts that lie.
 * Promise: what is wrong is answered with a status, counted, and changes nothing; the true completion settles after it.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "staging.h"

enum { BYTES = 96, ALIGN = 32 };
#define ALL UINT64_MAX

static nx_stage stage;
static nxmem_allocation block;
static NxmemReleaseCompletion honest;

static void play(nxmem_fetch_mode mode) {
  nx_puppet_reset();
  stage = nx_stage_set(mode);
  block = nx_must_allocate(stage.allocator, BYTES, ALIGN);
}

static void queue_one(nxmem_fetch_mode mode) {
  play(mode);
  uint64_t ticket = 0;
  assert_int_equal(nxmem_enqueue_release(stage.allocator, block, NULL, &ticket, NULL), NXMEM_OK);
  assert_int_equal(ticket, 1);
  honest = nx_puppet_completion(&puppet.queue[0]);
  assert_int_equal(honest.allocation_id, block.id);
}

static void strike(void) {
  assert_int_equal(nx_counts(stage.host).queued_releases, 0);
  assert_int_equal(nx_counts(stage.host).owned_bytes, 0);
  assert_int_equal(nx_counts(stage.host).mapped_bytes, 0);
  nx_stage_strike(&stage);
}

static nxmem_violation last_violation(void) {
  nxmem_violation latest[NXMEM_VIOLATIONS_KEPT];
  uint32_t count = 0;
  assert_int_equal(nxmem_host_violations(stage.host, latest, NXMEM_VIOLATIONS_KEPT, &count, NULL), NXMEM_OK);
  assert_in_range(count, 1, NXMEM_VIOLATIONS_KEPT);
  return latest[count - 1];
}

/* ---- Completions that do not settle ------------------------------------------------------------------------------ */

static uint8_t *fence_end; /* the first byte that cannot be read */

typedef struct stranger_row {
  const char *name;
  nx_modes modes;
  const NxmemReleaseCompletion *(*make)(void);
  uint32_t status;
  uint32_t reason, field;
} stranger_row;

static NxmemReleaseCompletion made;
static const NxmemReleaseCompletion *changed(void) { return &made; }

#define CHANGE(function, field, value)                  \
  static const NxmemReleaseCompletion *function(void) { \
    made = honest;                                      \
    made.field = (value);                               \
    return changed();                                   \
  }
CHANGE(other_ticket, ticket, honest.ticket + 1)
CHANGE(no_ticket, ticket, 0)
CHANGE(every_ticket, ticket, ALL)
CHANGE(other_mechanism, mechanism_id, 78)
CHANGE(far_mechanism, mechanism_id, 77 + (1ull << 32))
CHANGE(no_allocation, allocation_id, 0)
CHANGE(every_allocation, allocation_id, ALL)
CHANGE(next_generation, allocation_id, honest.allocation_id + (1ull << 32))
CHANGE(next_slot, allocation_id, honest.allocation_id + 1)
CHANGE(size_0, struct_size, 0)
CHANGE(size_8, struct_size, 8)
CHANGE(size_327, struct_size, 327)

static const NxmemReleaseCompletion *null(void) { return NULL; }
static const NxmemReleaseCompletion *askew(void) { return (const void *)((const uint8_t *)&honest + 4); }
static const NxmemReleaseCompletion *nowhere(void) { return (const void *)fence_end; }
static const NxmemReleaseCompletion *ends_early(void) {
  uint8_t *at = fence_end - 64;
  memcpy(at, &honest, 64);
  return (const void *)at;
}
static const NxmemReleaseCompletion *only_size(void) {
  uint8_t *at = fence_end - 8;
  const uint32_t size = 8;
  memcpy(at, &size, sizeof size);
  return (const void *)at;
}

enum { UNKNOWN = NXMEM_STATUS_UNKNOWN_ALLOCATION, SHORT = NXMEM_STATUS_SHORT_STRUCT };

static const stranger_row stranger_rows[] = {
    {"another ticket", 0, other_ticket, UNKNOWN, NXMEM_REASON_OTHER_TICKET, 8},
    {"ticket 0", 0, no_ticket, UNKNOWN, NXMEM_REASON_OTHER_TICKET, 8},
    {"ticket 2^64-1", 0, every_ticket, UNKNOWN, NXMEM_REASON_OTHER_TICKET, 8},
    {"another mechanism", 0, other_mechanism, NXMEM_STATUS_WRONG_MECHANISM, NXMEM_REASON_OTHER_MECHANISM, 16},
    {"a mechanism 2^32 away", 0, far_mechanism, NXMEM_STATUS_WRONG_MECHANISM, NXMEM_REASON_OTHER_MECHANISM, 16},
    {"allocation 0", 0, no_allocation, UNKNOWN, NXMEM_REASON_OTHER_OWNER, 24},
    {"allocation 2^64-1", 0, every_allocation, UNKNOWN, NXMEM_REASON_UNKNOWN_ALLOCATION, 24},
    {"the next generation", 0, next_generation, UNKNOWN, NXMEM_REASON_STALE_HANDLE, 24},
    {"the next slot", 0, next_slot, UNKNOWN, 0, 24},
    {"size 0", 0, size_0, SHORT, NXMEM_REASON_SHORT_COMPLETION, 0},
    {"size 8", 0, size_8, SHORT, NXMEM_REASON_SHORT_COMPLETION, 0},
    {"size 327", 0, size_327, SHORT, NXMEM_REASON_SHORT_COMPLETION, 0},
    {"size 8, and no more to read", 0, only_size, SHORT, NXMEM_REASON_SHORT_COMPLETION, 0},
    {"no record", 0, null, NXMEM_STATUS_INVALID_ARGUMENT, NXMEM_REASON_NULL_POINTER, 0},
    {"a misaligned record", 0, askew, NXMEM_STATUS_INVALID_ARGUMENT, NXMEM_REASON_MISALIGNED, 0},
    {"an unmapped record", NX_GUARDED_ONLY, nowhere, NXMEM_STATUS_INVALID_ARGUMENT, NXMEM_REASON_UNREADABLE, 0},
    {"a record that ends early", NX_GUARDED_ONLY, ends_early, NXMEM_STATUS_INVALID_ARGUMENT, NXMEM_REASON_UNREADABLE,
     0},
};

static void test_stranger(void **state) {
  const nx_case *c = *state;
  const stranger_row *row = c->row;
  nx_fence fence;
  nx_fence_open(&fence, 64);
  fence_end = fence.end;
  queue_one(c->mode);
  const nxmem_host_counts before = nx_counts(stage.host);
  const NxmemStatus answer = puppet.callbacks->release_completed(puppet.callbacks->host_ctx, row->make());
  assert_int_equal(answer.code, row->status);
  nx_assert_line((const char *)answer.message, sizeof answer.message);

  nxmem_host_counts after = nx_counts(stage.host);
  assert_int_equal(after.refused_callbacks, before.refused_callbacks + 1);
  assert_int_equal(after.contract_violations, before.contract_violations + 1);
  after.refused_callbacks--;
  after.contract_violations--;
  assert_memory_equal(&after, &before, sizeof after);
  const nxmem_violation noted = last_violation();
  assert_int_equal(noted.allocator.id, stage.allocator.id);
  assert_int_equal(noted.mechanism_id, 77);
  if (row->reason != 0) assert_int_equal(noted.reason, row->reason);
  assert_int_equal(noted.field, row->field);

  assert_int_equal(nx_puppet_retire(), NXMEM_STATUS_OK);
  nx_fence_close(&fence);
  strike();
}

/* ---- Completions that settle ------------------------------------------------------------------------------------- */

typedef struct settle_row {
  const char *name;
  nx_modes modes;
  uint32_t size;
  uint32_t state, status;
  uint64_t unmapped;
  uint64_t gone, live, kept; /* counts afterwards; `gone` says that the bytes are */
  uint64_t violations;
  uint64_t left_mapped;
} settle_row;

static const settle_row settle_rows[] = {
    {"complete", 0, 328, 0, 0, BYTES, 1, 0, 0, 0, 0},
    {"complete, in a larger record", 0, 0xFFFFFFFFu, 0, 0, BYTES, 1, 0, 0, 0, 0},
    {"complete, nothing unmapped", 0, 328, 0, 0, 0, 1, 0, 0, 0, BYTES},
    {"complete, 2^64-1 unmapped", 0, 328, 0, 0, ALL, 1, 0, 0, 1, 0},
    {"complete, one more unmapped than there was", 0, 328, 0, 0, BYTES + 1, 1, 0, 0, 1, 0},
    {"failed", 0, 328, 2, 0, 0, 0, 1, 0, 0, BYTES},
    {"failed, with a reason", 0, 328, 2, 8, 0, 0, 1, 0, 0, BYTES},
    {"quarantined", 0, 328, 1, 0, 0, 0, 0, 1, 0, BYTES},
    {"quarantined by its status", 0, 328, 0, 12, 0, 0, 0, 1, 0, BYTES},
    {"complete beside a failure", 0, 328, 0, 5, 0, 0, 0, 1, 0, BYTES},
    {"a state nobody knows", 0, 328, 3, 0, 0, 0, 0, 1, 0, BYTES},
    {"a state left unwritten", 0, 328, 0xFFFFFFFFu, 0, 0, 0, 0, 1, 0, BYTES},
    {"a state left unwritten beside a failure", 0, 328, 0xFFFFFFFFu, 5, 0, 0, 0, 1, 0, BYTES},
};

static void test_settle(void **state) {
  const nx_case *c = *state;
  const settle_row *row = c->row;
  queue_one(c->mode);
  NxmemReleaseCompletion completion = honest;
  completion.struct_size = row->size;
  completion.outcome.struct_size = 0; /* the outer size covers it */
  completion.outcome.state = row->state;
  completion.outcome.failure.code = row->status;
  completion.outcome.unmapped_bytes = row->unmapped;
  assert_int_equal(nx_puppet_complete(&completion), NXMEM_STATUS_OK);
  nxmem_host_counts counts = nx_counts(stage.host);
  assert_int_equal(counts.queued_releases, 0);
  assert_int_equal(counts.live_allocations, row->live);
  assert_int_equal(counts.quarantined, row->kept);
  assert_int_equal(counts.owned_bytes, row->gone ? 0 : BYTES);
  assert_int_equal(counts.mapped_bytes, row->left_mapped);
  assert_int_equal(counts.contract_violations, row->violations);
  assert_int_equal(counts.refused_callbacks, 0);

  /* Once more: a duplicate, also where it lives again. */
  assert_int_equal(nx_puppet_complete(&completion), UNKNOWN);
  counts.refused_callbacks++;
  counts.contract_violations++;
  const nxmem_host_counts again = nx_counts(stage.host);
  assert_memory_equal(&again, &counts, sizeof again);

  if (row->live) {
    nx_puppet_queued none;
    assert_int_equal(nx_puppet_pop(&none), 1);
    nx_must_release(stage.allocator, block);
    strike();
    return;
  }
  nx_puppet_queued gone;
  assert_int_equal(nx_puppet_pop(&gone), 1);
  free(gone.allocation.ptr); /* the plugin gave nothing back */
  atomic_store(&puppet.live_allocations, 0);
  nx_must_close(stage.allocator);
  if (row->kept) {
    nx_assert_unload_busy(stage.plugin, NXMEM_REASON_HOST_HOLDS, NXMEM_AXIS_ALLOCATIONS, 1);
    nx_force_leak(stage.host, stage.plugin, stage.path);
  } else {
    nx_must_unload(stage.plugin, stage.path);
  }
  nx_host_gone(stage.host);
}

/* A completion for a release that was queued again under another ticket: the old ticket is a stranger's. */
static void test_requeued(void **state) {
  const nx_case *c = *state;
  queue_one(c->mode);
  const NxmemReleaseCompletion first = honest;
  NxmemReleaseCompletion failed = honest;
  failed.outcome.state = NXMEM_RELEASE_FAILED;
  assert_int_equal(nx_puppet_complete(&failed), NXMEM_STATUS_OK);
  nx_puppet_queued none;
  assert_int_equal(nx_puppet_pop(&none), 1);
  uint64_t ticket = 0;
  assert_int_equal(nxmem_enqueue_release(stage.allocator, block, NULL, &ticket, NULL), NXMEM_OK);
  assert_int_equal(ticket, 2);
  assert_int_equal(nx_puppet_complete(&first), UNKNOWN);
  assert_int_equal(last_violation().reason, NXMEM_REASON_OTHER_TICKET);
  assert_int_equal(nx_counts(stage.host).queued_releases, 1);
  assert_int_equal(nx_puppet_retire(), NXMEM_STATUS_OK);
  strike();
}

/* Through a sibling's context: its own identity, not the plugin's number, says whose it is. */
static void test_sibling(void **state) {
  const nx_case *c = *state;
  queue_one(c->mode);
  const NxmemHostCallbacks *own = puppet.callbacks;
  nxmem_allocator sibling = nx_must_open_mechanism(stage.plugin, "puppet");
  assert_ptr_not_equal(puppet.callbacks, own);
  assert_int_equal(nx_puppet_complete(&honest), UNKNOWN);
  const nxmem_violation noted = last_violation();
  assert_int_equal(noted.reason, NXMEM_REASON_OTHER_OWNER);
  assert_int_equal(noted.allocator.id, sibling.id);
  assert_int_equal(nx_counts(stage.host).queued_releases, 1);
  nx_must_close(sibling);
  puppet.callbacks = own;
  assert_int_equal(nx_puppet_retire(), NXMEM_STATUS_OK);
  strike();
}

/* ---- Draining ---------------------------------------------------------------------------------------------------- */

typedef struct drain_row {
  const char *name;
  nx_modes modes;
  uint64_t max;
  uint64_t drip; /* 0: no limit of its own */
  int own, leave;
  uint64_t said;
  uint32_t code;
  nxmem_result want;
  uint64_t retired; /* told to the caller */
  uint64_t left;    /* of three */
  uint64_t violations;
} drain_row;

static const drain_row drain_rows[] = {
    {"one of three", 0, 1, 0, 0, 0, 0, 0, NXMEM_OK, 1, 2, 0},
    {"all", 0, ALL, 0, 0, 0, 0, 0, NXMEM_OK, 3, 0, 0},
    {"one drop", 0, 3, 1, 0, 0, 0, 0, NXMEM_OK, 1, 2, 0},
    {"one more said than was asked for", 0, 2, 0, 1, 0, 3, 0, NXMEM_OK, 2, 1, 1},
    {"one more said than was queued", 0, 10, 0, 1, 0, 4, 0, NXMEM_OK, 3, 0, 1},
    {"less said than was done", 0, 2, 0, 1, 0, 0, 0, NXMEM_OK, 0, 1, 0},
    {"left unwritten", 0, 2, 0, 0, 1, 0, 0, NXMEM_ERR_CONTRACT, 0, 1, 1},
    {"refused", 0, 2, 0, 0, 0, 0, NXMEM_STATUS_DEVICE_ERROR, NXMEM_ERR_PLUGIN, 0, 3, 0},
    {"nothing asked for", 0, 0, 0, 0, 0, 0, 0, NXMEM_ERR_INVALID_ARGUMENT, 0, 3, 0},
};

static void queue_three(nxmem_fetch_mode mode) {
  nx_puppet_reset();
  stage = nx_stage_set(mode);
  for (int i = 0; i < 3; i++) {
    const nxmem_allocation one = nx_must_allocate(stage.allocator, BYTES, ALIGN);
    assert_int_equal(nxmem_enqueue_release(stage.allocator, one, NULL, NULL, NULL), NXMEM_OK);
  }
  assert_int_equal(nx_counts(stage.host).queued_releases, 3);
}

static void test_drain(void **state) {
  const nx_case *c = *state;
  const drain_row *row = c->row;
  queue_three(c->mode);
  puppet.drip = row->drip;
  puppet.own_retired = row->own;
  puppet.leave_retired = row->leave;
  puppet.retired = row->said;
  puppet.drain_code = row->code;
  uint64_t retired = 0x5A5A;
  nxmem_error error = nx_blank_error();
  const nxmem_result got = nxmem_drain_releases(stage.allocator, row->max, &retired, &error);
  assert_int_equal(got, row->want);
  if (got != NXMEM_OK) nx_assert_code(got, &error, row->want);
  assert_int_equal(retired, got == NXMEM_OK ? row->retired : 0x5A5A);
  const nxmem_host_counts counts = nx_counts(stage.host);
  assert_int_equal(counts.queued_releases, row->left);
  assert_int_equal(counts.contract_violations, row->violations);
  if (row->violations != 0) assert_int_equal(last_violation().reason, NXMEM_REASON_TOO_MANY_RETIRED);
  assert_int_equal(nx_puppet_calls(NX_IN_DRAIN), row->max != 0);
  if (row->max != 0) assert_int_equal(puppet.last_max, row->max);
  while (nx_puppet_retire() == NXMEM_STATUS_OK) {
  }
  strike();
}

/* In the order of their enqueues, each by its own allocation. */
static void test_order(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  stage = nx_stage_set(c->mode);
  enum { N = 20 };
  nxmem_allocation blocks[N];
  for (int i = 0; i < N; i++) blocks[i] = nx_must_allocate(stage.allocator, BYTES, ALIGN);
  for (int i = 0; i < N; i++) {
    uint64_t ticket = 0;
    assert_int_equal(nxmem_enqueue_release(stage.allocator, blocks[i], NULL, &ticket, NULL), NXMEM_OK);
    assert_int_equal(ticket, i + 1);
  }
  for (int i = 0; i < N; i++) {
    nxmem_pending pending;
    assert_int_equal(nxmem_pending_releases(stage.allocator, &pending, NULL), NXMEM_OK);
    assert_int_equal(pending.host, N - i);
    assert_int_equal(pending.plugin, N - i);
    assert_int_equal(nxmem_release(stage.allocator, blocks[i], NULL, NULL), NXMEM_ERR_BUSY);
    assert_int_equal(nxmem_drain_releases(stage.allocator, 1, NULL, NULL), NXMEM_OK);
    assert_int_equal(nxmem_release(stage.allocator, blocks[i], NULL, NULL), NXMEM_ERR_STALE_HANDLE);
  }
  strike();
}

/* ---- Pending ----------------------------------------------------------------------------------------------------- */

typedef struct pending_row {
  const char *name;
  nx_modes modes;
  uint64_t said;
  int leave;
  uint32_t code;
  nxmem_result want;
  uint64_t violations;
} pending_row;

static const pending_row pending_rows[] = {
    {"pending: as many", 0, 3, 0, 0, NXMEM_OK, 0},
    {"pending: none", 0, 0, 0, 0, NXMEM_OK, 0},
    {"pending: 2^64-2", 0, ALL - 1, 0, 0, NXMEM_OK, 0},
    {"pending: left unwritten", 0, 0, 1, 0, NXMEM_ERR_CONTRACT, 1},
    {"pending: 2^64-1", 0, ALL, 0, 0, NXMEM_ERR_CONTRACT, 1},
    {"pending: refused", 0, 3, 0, NXMEM_STATUS_DEVICE_ERROR, NXMEM_ERR_PLUGIN, 0},
};

static void test_pending(void **state) {
  const nx_case *c = *state;
  const pending_row *row = c->row;
  queue_three(c->mode);
  puppet.own_pending = 1;
  puppet.pending = row->said;
  puppet.leave_pending = row->leave;
  puppet.pending_code = row->code;
  nxmem_pending pending = {0x5A5A, 0x5A5A};
  nxmem_error error = nx_blank_error();
  const nxmem_result got = nxmem_pending_releases(stage.allocator, &pending, &error);
  assert_int_equal(got, row->want);
  if (got != NXMEM_OK) nx_assert_code(got, &error, row->want);
  assert_int_equal(pending.host, got == NXMEM_OK ? 3 : 0x5A5A);
  assert_int_equal(pending.plugin, got == NXMEM_OK ? row->said : 0x5A5A);
  assert_int_equal(nx_counts(stage.host).contract_violations, row->violations);
  if (row->violations != 0) assert_int_equal(last_violation().reason, NXMEM_REASON_COUNT_UNWRITTEN);
  assert_int_equal(nxmem_pending_releases(stage.allocator, NULL, NULL), NXMEM_ERR_INVALID_ARGUMENT);
  assert_int_equal(nxmem_drain_releases(stage.allocator, ALL, NULL, NULL), NXMEM_OK);
  strike();
}

#define ONE(name, test) static const nx_row_head name##_rows[] = {{test, NX_BOTH_MODES}}
ONE(requeued, "queued again under another ticket");
ONE(sibling, "through a sibling's context");
ONE(order, "twenty in order");

int main(void) {
  alarm(100);
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(stranger_rows), test_stranger);
  nx_suite_modes(&suite, ROWS(settle_rows), test_settle);
  nx_suite_modes(&suite, ROWS(requeued_rows), test_requeued);
  nx_suite_modes(&suite, ROWS(sibling_rows), test_sibling);
  nx_suite_modes(&suite, ROWS(drain_rows), test_drain);
  nx_suite_modes(&suite, ROWS(order_rows), test_order);
  nx_suite_modes(&suite, ROWS(pending_rows), test_pending);
  return nx_suite_run(&suite, "host_deferred");
}
