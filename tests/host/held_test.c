/*
 * held_test.c: closing an allocator while releases are queued, and what comes later.
 *
 * Attackers played: plugins that drain one at a time, never, or only say so; that complete inside their last release,
 * after it, from a thread, when plugin and host are given up; callers that go on using what is closed.
 * Promise: close never waits and drains at most 16 times; what is left holds its callback slot, the module, and nothing
 * else; each late completion settles its record, and the last one frees the slot.
 */
#include <unistd.h>

#include "staging.h"

enum { BYTES = 64, ALIGN = 16, QUEUED = 20 };

static nx_stage stage;
static const NxmemHostCallbacks *kept; /* of the allocator that is closed */

static nxmem_allocation queue_one(void) {
  const nxmem_allocation one = nx_must_allocate(stage.allocator, BYTES, ALIGN);
  assert_int_equal(nxmem_enqueue_release(stage.allocator, one, NULL, NULL, NULL), NXMEM_OK);
  return one;
}

static void queue_many(nxmem_fetch_mode mode, int n) {
  nx_puppet_reset();
  stage = nx_stage_set(mode);
  kept = puppet.callbacks;
  for (int i = 0; i < n; i++) (void)queue_one();
}

static void assert_held(uint64_t slots, uint64_t queued) {
  const nxmem_host_counts counts = nx_counts(stage.host);
  assert_int_equal(counts.held_slots, slots);
  assert_int_equal(counts.queued_releases, queued);
  assert_int_equal(counts.owned_bytes, queued * BYTES);
  assert_int_equal(counts.mapped_bytes, queued * BYTES);
  assert_int_equal(counts.live_allocations, 0);
}

static void end_all(void) {
  assert_held(0, 0);
  nx_must_unload(stage.plugin, stage.path);
  assert_int_equal(atomic_load(&puppet.after_the_end), 0);
  nx_host_gone(stage.host);
}

/* ---- How much a close drains ------------------------------------------------------------------------------------- */

typedef struct drain_row {
  const char *name;
  nx_modes modes;
  uint64_t drip;
  int idle;
  int own; /* the plugin says it retired one */
  uint32_t code;
  uint64_t passes;
  uint64_t left;
} drain_row;

static const drain_row drain_rows[] = {
    {"all at once", 0, 0, 0, 0, 0, 1, 0},
    {"one a pass: sixteen passes", 0, 1, 0, 0, 0, 16, QUEUED - 16},
    {"two a pass: ten passes", 0, 2, 0, 0, 0, 10, 0},
    {"nothing retired: one pass", 0, 0, 1, 0, 0, 1, QUEUED},
    {"nothing retired, one said: one pass", 0, 0, 1, 1, 0, 1, QUEUED},
    {"the drain fails: one pass", 0, 0, 0, 0, NXMEM_STATUS_DEVICE_ERROR, 1, QUEUED},
};

static void test_drain(void **state) {
  const nx_case *c = *state;
  const drain_row *row = c->row;
  queue_many(c->mode, QUEUED);
  puppet.drip = row->drip;
  puppet.idle_drain = row->idle;
  puppet.own_retired = row->own;
  puppet.retired = 1;
  puppet.drain_code = row->code;
  nx_must_close(stage.allocator);
  assert_int_equal(nx_puppet_calls(NX_IN_DRAIN), row->passes);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE), 1);
  assert_int_equal(nx_counts(stage.host).open_allocators, 0);
  assert_held(row->left != 0, row->left);

  /* The plugin says what it holds; where it does not, the host does. */
  if (row->left != 0) {
    nxmem_unload_info info = nx_assert_unload_busy(stage.plugin, NXMEM_REASON_PLUGIN_HOLDS, 16, row->left);
    assert_int_equal(info.plugin.queued_releases, row->left);
    assert_int_equal(info.host_held_slots, 1);
    puppet.own_report = 1;
    puppet.report.struct_size = sizeof puppet.report;
    info = nx_assert_unload_busy(stage.plugin, NXMEM_REASON_HOST_HOLDS, NXMEM_AXIS_HELD_SLOTS, 1);
    assert_int_equal(info.host_allocators, 0);
    assert_int_equal(info.host_allocations, 0);
    puppet.own_report = 0;
  }
  for (uint64_t i = row->left; i > 0; i--) {
    assert_held(1, i);
    assert_int_equal(nx_puppet_retire(), NXMEM_STATUS_OK);
  }
  end_all();
}

/* ---- What is closed, for callers --------------------------------------------------------------------------------- */

static void test_stale(void **state) {
  const nx_case *c = *state;
  queue_many(c->mode, 0);
  const nxmem_allocation queued = queue_one();
  puppet.idle_drain = 1;
  nx_must_close(stage.allocator);
  assert_held(1, 1);
  nxmem_error error = nx_blank_error();
  nxmem_allocation none = {0x5A5A, NULL};
  nx_assert_code(nxmem_allocate(stage.allocator, BYTES, ALIGN, NULL, &none, &error), &error, NXMEM_ERR_STALE_HANDLE);
  nx_assert_code(nxmem_release(stage.allocator, queued, NULL, &error), &error, NXMEM_ERR_STALE_HANDLE);
  nx_assert_code(nxmem_enqueue_release(stage.allocator, queued, NULL, NULL, &error), &error, NXMEM_ERR_STALE_HANDLE);
  nx_assert_code(nxmem_drain_releases(stage.allocator, 1, NULL, &error), &error, NXMEM_ERR_STALE_HANDLE);
  nxmem_pending pending;
  nx_assert_code(nxmem_pending_releases(stage.allocator, &pending, &error), &error, NXMEM_ERR_STALE_HANDLE);
  nxmem_allocator_info info;
  nx_assert_code(nxmem_allocator_get_info(stage.allocator, &info, &error), &error, NXMEM_ERR_STALE_HANDLE);
  nx_assert_code(nxmem_allocator_close(stage.allocator, 0, &error), &error, NXMEM_ERR_STALE_HANDLE);
  nx_assert_code(nxmem_allocator_close(stage.allocator, NXMEM_CLOSE_RELEASE_LIVE, &error), &error,
                 NXMEM_ERR_STALE_HANDLE);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE), 1);
  assert_int_equal(nx_puppet_retire(), NXMEM_STATUS_OK);
  end_all();
}

static uint32_t slot_of(nxmem_allocator allocator) { return (uint32_t)allocator.id; }

/* The slot goes to nobody else while a release can name it, and to the next one afterwards. */
static void test_slot(void **state) {
  const nx_case *c = *state;
  queue_many(c->mode, 2);
  const nxmem_allocator closed = stage.allocator;
  puppet.idle_drain = 1;
  nx_must_close(closed);
  enum { OTHERS = 3 };
  nxmem_allocator others[OTHERS];
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < OTHERS; i++) {
      others[i] = nx_must_open_mechanism(stage.plugin, "puppet");
      assert_int_not_equal(slot_of(others[i]), slot_of(closed));
      assert_ptr_not_equal(puppet.callbacks, kept);
    }
    for (int i = 0; i < OTHERS; i++) nx_must_close(others[i]);
    puppet.callbacks = kept;
    assert_int_equal(nx_puppet_retire(), NXMEM_STATUS_OK);
  }
  assert_held(0, 0);
  const nxmem_allocator next = nx_must_open_mechanism(stage.plugin, "puppet");
  assert_int_equal(slot_of(next), slot_of(closed));
  assert_int_not_equal(next.id, closed.id);
  assert_ptr_equal(puppet.callbacks, kept);
  nx_must_close(next);
  end_all();
}

/* ---- Late completions -------------------------------------------------------------------------------------------- */

typedef struct late_row {
  const char *name;
  nx_modes modes;
  uint32_t state, code;
  int kept;
} late_row;

static const late_row late_rows[] = {
    {"late: complete", 0, 0, 0, 0},
    {"late: failed, and nobody could release it any more", 0, 2, 0, 1},
    {"late: quarantined", 0, 1, 0, 1},
    {"late: a state left unwritten", 0, 0xFFFFFFFFu, 0, 1},
};

static void
    *first_memory; /* of the allocation that first_completion took from the queue: the puppet does not free it */

static NxmemReleaseCompletion first_completion(uint32_t state, uint32_t code) {
  nx_puppet_queued queued;
  assert_int_equal(nx_puppet_pop(&queued), 1);
  first_memory = queued.allocation.ptr;
  NxmemReleaseCompletion completion = nx_puppet_completion(&queued);
  completion.outcome.state = state;
  completion.outcome.failure.code = code;
  return completion;
}

static void test_late(void **state) {
  const nx_case *c = *state;
  const late_row *row = c->row;
  queue_many(c->mode, 1);
  puppet.idle_drain = 1;
  nx_must_close(stage.allocator);
  const NxmemReleaseCompletion completion = first_completion(row->state, row->code);
  assert_int_equal(nx_puppet_complete(&completion), NXMEM_STATUS_OK);
  free(first_memory);
  atomic_store(&puppet.live_allocations, 0);
  nxmem_host_counts counts = nx_counts(stage.host);
  assert_int_equal(counts.held_slots, 0);
  assert_int_equal(counts.queued_releases, 0);
  assert_int_equal(counts.live_allocations, 0);
  assert_int_equal(counts.quarantined, row->kept);
  assert_int_equal(counts.quarantined_bytes, row->kept * BYTES);
  assert_int_equal(counts.owned_bytes, row->kept * BYTES);

  /* With the last one the context names nothing any more. */
  const uint64_t refused = counts.refused_callbacks;
  assert_int_equal(nx_puppet_complete(&completion), NXMEM_STATUS_INVALID_ARGUMENT);
  assert_int_equal(nx_counts(stage.host).refused_callbacks, refused + 1);
  assert_int_equal(nx_counts(stage.host).quarantined, row->kept);
  if (!row->kept) {
    end_all();
    return;
  }
  nx_assert_unload_busy(stage.plugin, NXMEM_REASON_HOST_HOLDS, NXMEM_AXIS_ALLOCATIONS, 1);
  nx_force_leak(stage.host, stage.plugin, stage.path);
  nx_host_gone(stage.host);
}

/* Duplicates and strangers through the context of a closed allocator that is held. */
static void test_late_strangers(void **state) {
  const nx_case *c = *state;
  queue_many(c->mode, 2);
  puppet.idle_drain = 1;
  nx_must_close(stage.allocator);
  NxmemReleaseCompletion completion = first_completion(0, 0);
  free(first_memory);
  assert_int_equal(nx_puppet_complete(&completion), NXMEM_STATUS_OK);
  const uint64_t refused = nx_counts(stage.host).refused_callbacks;
  assert_int_equal(nx_puppet_complete(&completion), NXMEM_STATUS_UNKNOWN_ALLOCATION);
  completion = nx_puppet_completion(&puppet.queue[0]);
  completion.ticket++;
  assert_int_equal(nx_puppet_complete(&completion), NXMEM_STATUS_UNKNOWN_ALLOCATION);
  assert_int_equal(nx_puppet_complete(NULL), NXMEM_STATUS_INVALID_ARGUMENT);
  assert_int_equal(nx_counts(stage.host).refused_callbacks, refused + 3);
  uint64_t reclaimed = 1;
  const NxmemReclaimRequest request = {32, 0, 77, {NXMEM_TIER_HOST, 0}, 1};
  assert_int_equal(kept->request_reclaim(kept->host_ctx, &request, &reclaimed).code,
                   NXMEM_STATUS_UNSUPPORTED_CAPABILITY);
  assert_held(1, 1);
  completion.ticket--;
  nx_puppet_queued none;
  assert_int_equal(nx_puppet_pop(&none), 1);
  free(none.allocation.ptr);
  assert_int_equal(nx_puppet_complete(&completion), NXMEM_STATUS_OK);
  atomic_store(&puppet.live_allocations, 0);
  end_all();
}

static void *retire_all(void *unused) {
  (void)unused;
  while (nx_puppet_retire() == NXMEM_STATUS_OK) {
  }
  return NULL;
}

/* The plugin and its host are given up while releases are queued; a thread of the plugin completes them later. */
static void test_after_the_host(void **state) {
  const nx_case *c = *state;
  queue_many(c->mode, 3);
  puppet.idle_drain = 1;
  nx_must_close(stage.allocator);
  nx_force_leak(stage.host, stage.plugin, stage.path);
  assert_held(1, 3);
  nx_host_gone(stage.host);
  nxmem_host next = nx_host_in(c->mode); /* may get the very slot */
  const nxmem_host_counts before = nx_counts(next);
  const NxmemReleaseCompletion last = nx_puppet_completion(&puppet.queue[2]);
  assert_int_equal(nx_puppet_complete(NULL), NXMEM_STATUS_INVALID_ARGUMENT); /* not the new host's affair */
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, retire_all, NULL), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(nx_puppet_queue_length(), 0);
  nxmem_host_counts after = nx_counts(next);
  assert_memory_equal(&after, &before, sizeof after);
  assert_int_equal(nx_puppet_complete(&last), NXMEM_STATUS_INVALID_ARGUMENT); /* nothing holds the slot any more */
  after = nx_counts(next);
  assert_int_equal(after.refused_callbacks, before.refused_callbacks + 1);
  assert_int_equal(atomic_load(&puppet.live_allocations), 0);
  nx_host_gone(next);
}

/* ---- Completions while it closes --------------------------------------------------------------------------------- */

static uint32_t state_inside, answer_inside;

static void complete_in_release(nx_place_inside place) {
  if (place != NX_IN_RELEASE) return;
  nx_puppet_queued queued;
  while (nx_puppet_pop(&queued)) {
    NxmemReleaseCompletion completion = nx_puppet_completion(&queued);
    completion.outcome.state = state_inside;
    answer_inside |= nx_puppet_complete(&completion);
    free(queued.allocation.ptr);
  }
}

/* Out of its last release: the slot is free as soon as the close returns. */
static void test_in_release(void **state) {
  const nx_case *c = *state;
  const late_row *row = c->row;
  queue_many(c->mode, 3);
  puppet.idle_drain = 1;
  puppet.inside = complete_in_release;
  state_inside = row->state;
  answer_inside = 0;
  nx_must_close(stage.allocator);
  puppet.inside = NULL;
  assert_int_equal(answer_inside, 0);
  atomic_store(&puppet.live_allocations, 0);
  const nxmem_host_counts counts = nx_counts(stage.host);
  assert_int_equal(counts.held_slots, 0);
  assert_int_equal(counts.queued_releases, 0);
  assert_int_equal(counts.live_allocations, 0);
  assert_int_equal(counts.quarantined, row->kept * 3);
  assert_int_equal(counts.owned_bytes, row->kept * 3 * BYTES);
  if (!row->kept) {
    end_all();
    return;
  }
  nx_assert_unload_busy(stage.plugin, NXMEM_REASON_HOST_HOLDS, NXMEM_AXIS_ALLOCATIONS, 3);
  nx_force_leak(stage.host, stage.plugin, stage.path);
  nx_host_gone(stage.host);
}

static void fail_in_drain(nx_place_inside place) {
  if (place != NX_IN_DRAIN) return;
  const NxmemReleaseCompletion completion = first_completion(NXMEM_RELEASE_FAILED, 0);
  answer_inside |= nx_puppet_complete(&completion);
}

/* A drain that brings an allocation back: live, so it keeps the allocator open, or is handed back. */
static void test_revived(void **state) {
  const nx_case *c = *state;
  for (uint32_t flags = 0; flags <= NXMEM_CLOSE_RELEASE_LIVE; flags++) {
    queue_many(c->mode, 0);
    const nxmem_allocation block = queue_one();
    puppet.idle_drain = 1;
    puppet.inside = fail_in_drain;
    answer_inside = 0;
    nxmem_error error = nx_blank_error();
    const nxmem_result closed = nxmem_allocator_close(stage.allocator, flags, &error);
    puppet.inside = NULL;
    assert_int_equal(answer_inside, 0);
    if (flags == 0) {
      nx_assert_code(closed, &error, NXMEM_ERR_BUSY);
      assert_int_equal(error.found, 1);
      assert_int_equal(nx_puppet_calls(NX_IN_RELEASE), 0);
      nx_must_release(stage.allocator, block); /* the gate is open again */
      const nxmem_allocation next = queue_one();
      const NxmemReleaseCompletion failed = first_completion(NXMEM_RELEASE_FAILED, 0);
      assert_int_equal(nx_puppet_complete(&failed), NXMEM_STATUS_OK);
      nx_must_release(stage.allocator, next); /* and the close leaves no mark */
      nx_must_close(stage.allocator);
    } else {
      assert_int_equal(closed, NXMEM_OK);
    }
    assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION), flags == 0 ? 2 : 1);
    end_all();
  }
}

static int to_bring_back;

/* One that is queued comes back while another is handed back. */
static void fail_in_hand_back(nx_place_inside place) {
  if (place != NX_IN_RELEASE_ALLOCATION || to_bring_back == 0) return;
  to_bring_back--;
  const NxmemReleaseCompletion completion = first_completion(NXMEM_RELEASE_FAILED, 0);
  answer_inside |= nx_puppet_complete(&completion);
}

/* Handed back as well, although it was passed when it came. */
static void test_brought_back(void **state) {
  const nx_case *c = *state;
  queue_many(c->mode, 2);
  (void)nx_must_allocate(stage.allocator, BYTES, ALIGN);
  puppet.idle_drain = 1;
  puppet.inside = fail_in_hand_back;
  to_bring_back = 2;
  answer_inside = 0;
  const nxmem_result closed = nxmem_allocator_close(stage.allocator, NXMEM_CLOSE_RELEASE_LIVE, NULL);
  puppet.inside = NULL;
  assert_int_equal(closed, NXMEM_OK);
  assert_int_equal(answer_inside, 0);
  assert_int_equal(to_bring_back, 0);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION), 3);
  assert_int_equal(nx_counts(stage.host).quarantined, 0);
  end_all();
}

/* Live ones keep it open before anything is drained; handed back, they go beside the queued ones. */
static void test_beside_live(void **state) {
  const nx_case *c = *state;
  queue_many(c->mode, 3);
  for (int i = 0; i < 2; i++) (void)nx_must_allocate(stage.allocator, BYTES, ALIGN);
  nxmem_error error = nx_blank_error();
  nx_assert_code(nxmem_allocator_close(stage.allocator, 0, &error), &error, NXMEM_ERR_BUSY);
  assert_int_equal(error.found, 2);
  assert_int_equal(nx_puppet_calls(NX_IN_DRAIN), 0);
  assert_int_equal(nx_counts(stage.host).queued_releases, 3);
  puppet.idle_drain = 1;
  assert_int_equal(nxmem_allocator_close(stage.allocator, NXMEM_CLOSE_RELEASE_LIVE, NULL), NXMEM_OK);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION), 2);
  assert_held(1, 3);
  for (int i = 0; i < 3; i++) assert_int_equal(nx_puppet_retire(), NXMEM_STATUS_OK);
  end_all();
}

#define ONE(name, test) static const nx_row_head name##_rows[] = {{test, NX_BOTH_MODES}}
ONE(stale, "held: every call is stale");
ONE(slot, "held: its slot is nobody else's");
ONE(strangers, "held: duplicates and strangers");
ONE(hostless, "held: plugin and host given up");
ONE(revived, "a drain that brings one back");
ONE(brought_back, "a hand-back that brings others back");
ONE(beside, "queued beside live");

/* Each late row also out of the last release. */
static late_row release_rows[sizeof late_rows / sizeof late_rows[0]];

int main(void) {
  alarm(100);
  nx_suite suite = {0};
  memcpy(release_rows, late_rows, sizeof late_rows);
  for (size_t i = 0; i < sizeof late_rows / sizeof late_rows[0]; i++)
    release_rows[i].name = nx_name("out of the last release: %s", late_rows[i].name);
  nx_suite_modes(&suite, ROWS(drain_rows), test_drain);
  nx_suite_modes(&suite, ROWS(stale_rows), test_stale);
  nx_suite_modes(&suite, ROWS(slot_rows), test_slot);
  nx_suite_modes(&suite, ROWS(late_rows), test_late);
  nx_suite_modes(&suite, ROWS(strangers_rows), test_late_strangers);
  nx_suite_modes(&suite, ROWS(hostless_rows), test_after_the_host);
  nx_suite_modes(&suite, ROWS(release_rows), test_in_release);
  nx_suite_modes(&suite, ROWS(revived_rows), test_revived);
  nx_suite_modes(&suite, ROWS(brought_back_rows), test_brought_back);
  nx_suite_modes(&suite, ROWS(beside_rows), test_beside_live);
  return nx_suite_run(&suite, "host_held");
}
