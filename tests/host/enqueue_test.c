/*
 * enqueue_test.c: queueing a release: what the plugin answers, and what it completes before it answers.
 *
 * Attackers played: enqueues that refuse, quarantine, give no ticket, complete inside and then fail; wrong words of the
 * caller; a mechanism without the capability.
 * Promise: counted before the plugin is entered; whichever comes first settles it, once; the books follow.
 */
#include <unistd.h>

#include "staging.h"

enum { BYTES = 64, ALIGN = 16 };

/* ---- What the plugin does while it is asked -------------------------------------------------------------------- */

static nx_stage stage;
static nxmem_allocation block;
static nxmem_host_counts seen_inside;
static nxmem_result released_inside, enqueued_inside, released_after, enqueued_after;
static uint32_t completed_inside, completed_again;
static NxmemReleaseCompletion inside_completion;
static int completes;

/* From inside: the books as they are, the handle as it answers, then the completion, twice. */
static void inside(nx_place_inside place) {
  if (place != NX_IN_ENQUEUE) return;
  seen_inside = nx_counts(stage.host);
  released_inside = nxmem_release(stage.allocator, block, NULL, NULL);
  enqueued_inside = nxmem_enqueue_release(stage.allocator, block, NULL, NULL, NULL);
  if (!completes) return;
  inside_completion.mechanism_id = 77;
  inside_completion.allocation_id = block.id;
  completed_inside = nx_puppet_complete(&inside_completion);
  completed_again = nx_puppet_complete(&inside_completion);
  released_after = nxmem_release(stage.allocator, block, NULL, NULL);
  enqueued_after = nxmem_enqueue_release(stage.allocator, block, NULL, NULL, NULL);
}

static void play(nxmem_fetch_mode mode) {
  nx_puppet_reset();
  stage = nx_stage_set(mode);
  block = nx_must_allocate(stage.allocator, BYTES, ALIGN);
  memset(&inside_completion, 0, sizeof inside_completion);
  inside_completion.struct_size = sizeof inside_completion;
  inside_completion.outcome.struct_size = sizeof inside_completion.outcome;
  completes = 0;
  puppet.inside = inside;
}

/* ---- Answers ------------------------------------------------------------------------------------------------- */

typedef enum end_as { QUEUED, LIVE, KEPT, GONE } end_as;

typedef struct answer_row {
  const char *name;
  nx_modes modes;
  uint32_t code;
  int leave_ticket;
  int completes;
  uint32_t state, status; /* of the completion */
  nxmem_result want;
  end_as end;
  uint64_t violations; /* the second completion is one */
  const char *words;   /* part of the message */
} answer_row;

enum { OK = NXMEM_STATUS_OK, SAID = NXMEM_STATUS_BUSY, KEEPS = NXMEM_STATUS_RELEASE_QUARANTINED };

static const answer_row answer_rows[] = {
    {"queued", 0, OK, 0, 0, 0, 0, NXMEM_OK, QUEUED, 0, NULL},
    {"refused", 0, SAID, 0, 0, 0, 0, NXMEM_ERR_PLUGIN, LIVE, 0, "still live"},
    {"refused with a code that nobody knows", 0, 99, 0, 0, 0, 0, NXMEM_ERR_PLUGIN, LIVE, 0, "still live"},
    {"quarantined", 0, KEEPS, 0, 0, 0, 0, NXMEM_ERR_QUARANTINED, KEPT, 0, "RELEASE_QUARANTINED"},
    {"no ticket", 0, OK, 1, 0, 0, 0, NXMEM_ERR_QUARANTINED, KEPT, 1, "no ticket was written"},
    {"completed inside", 0, OK, 0, 1, 0, 0, NXMEM_OK, GONE, 1, NULL},
    {"completed inside, no ticket", 0, OK, 1, 1, 0, 0, NXMEM_OK, GONE, 1, NULL},
    {"completed inside, then failed", 0, SAID, 0, 1, 0, 0, NXMEM_ERR_PLUGIN, GONE, 1, "released"},
    {"completed inside, then quarantined", 0, KEEPS, 0, 1, 0, 0, NXMEM_ERR_PLUGIN, GONE, 1, "released"},
    {"failed inside", 0, OK, 0, 1, 2, 0, NXMEM_OK, LIVE, 1, NULL},
    {"failed inside, then failed", 0, SAID, 0, 1, 2, 5, NXMEM_ERR_PLUGIN, LIVE, 1, "still live"},
    {"quarantined inside", 0, OK, 0, 1, 1, 0, NXMEM_OK, KEPT, 1, NULL},
    {"quarantined inside, then failed", 0, SAID, 0, 1, 1, 0, NXMEM_ERR_PLUGIN, KEPT, 1, "quarantined"},
    {"completed inside with a state nobody knows", 0, OK, 0, 1, 9, 0, NXMEM_OK, KEPT, 1, NULL},
    {"completed inside without a state", 0, OK, 0, 1, 0xFFFFFFFFu, 0, NXMEM_OK, KEPT, 1, NULL},
    {"completed inside with an error", 0, OK, 0, 1, 0, 7, NXMEM_OK, KEPT, 1, NULL},
};

static void assert_books(const nxmem_host_counts *counts, end_as end) {
  assert_int_equal(counts->live_allocations, end == LIVE);
  assert_int_equal(counts->queued_releases, end == QUEUED);
  assert_int_equal(counts->quarantined, end == KEPT);
  assert_int_equal(counts->owned_bytes, end == GONE ? 0 : BYTES);
  assert_int_equal(counts->mapped_bytes, end == GONE ? 0 : BYTES);
  assert_int_equal(counts->held_slots, 0);
}

static nxmem_result answer_of(end_as end) {
  if (end == LIVE) return NXMEM_OK;
  if (end == QUEUED) return NXMEM_ERR_BUSY;
  return end == KEPT ? NXMEM_ERR_QUARANTINED : NXMEM_ERR_STALE_HANDLE;
}

/* The puppet's own list forgets what it was told to play otherwise. */
static void forget_queue(void) {
  nx_puppet_queued none;
  while (nx_puppet_pop(&none)) {
  }
}

static void finish(end_as end) {
  puppet.inside = NULL;
  puppet.leave_ticket = 0;
  puppet.enqueue_code = OK;
  if (end == QUEUED) {
    assert_int_equal(nxmem_drain_releases(stage.allocator, 1, NULL, NULL), NXMEM_OK);
    assert_int_equal(nx_counts(stage.host).queued_releases, 0);
    nx_stage_strike(&stage);
    return;
  }
  forget_queue();
  if (end == LIVE) {
    nx_stage_strike(&stage);
    return;
  }
  free(block.ptr); /* the plugin gave nothing back */
  atomic_store(&puppet.live_allocations, 0);
  nx_must_close(stage.allocator);
  if (end == GONE) {
    nx_must_unload(stage.plugin, stage.path);
    nx_host_gone(stage.host);
    return;
  }
  nx_assert_unload_busy(stage.plugin, NXMEM_REASON_HOST_HOLDS, NXMEM_AXIS_ALLOCATIONS, 1);
  nx_force_leak(stage.host, stage.plugin, stage.path);
  nx_host_gone(stage.host);
}

static void test_answer(void **state) {
  const nx_case *c = *state;
  const answer_row *row = c->row;
  play(c->mode);
  puppet.enqueue_code = row->code;
  puppet.leave_ticket = row->leave_ticket;
  completes = row->completes;
  inside_completion.outcome.state = row->state;
  inside_completion.outcome.unmapped_bytes = BYTES;
  inside_completion.outcome.failure.code = row->status;
  uint64_t ticket = 0x5A5A;
  nxmem_error error = nx_blank_error();
  const nxmem_result got = nxmem_enqueue_release(stage.allocator, block, NULL, &ticket, &error);
  assert_int_equal(got, row->want);
  if (got != NXMEM_OK) nx_assert_code(got, &error, row->want);
  if (row->words != NULL) assert_non_null(strstr(error.message, row->words));
  if (got != NXMEM_OK) assert_int_equal(ticket, 0x5A5A);
  if (got == NXMEM_OK && !row->leave_ticket) assert_int_equal(ticket, 1);

  /* It was counted before the plugin was entered, and the handle was nobody's meanwhile. */
  assert_int_equal(seen_inside.queued_releases, 1);
  assert_int_equal(seen_inside.live_allocations, 0);
  assert_int_equal(seen_inside.owned_bytes, BYTES);
  assert_int_equal(released_inside, NXMEM_ERR_BUSY);
  assert_int_equal(enqueued_inside, NXMEM_ERR_BUSY);
  if (row->completes) {
    assert_int_equal(completed_inside, NXMEM_STATUS_OK);
    assert_int_equal(completed_again, NXMEM_STATUS_UNKNOWN_ALLOCATION);
    /* One that lives on is nobody's before this enqueue has returned. */
    assert_int_equal(released_after, row->end == LIVE ? NXMEM_ERR_BUSY : answer_of(row->end));
    assert_int_equal(enqueued_after, released_after);
  }
  assert_int_equal(nx_puppet_calls(NX_IN_ENQUEUE), 1);

  const nxmem_host_counts counts = nx_counts(stage.host);
  assert_books(&counts, row->end);
  assert_int_equal(counts.contract_violations, row->violations);
  puppet.inside = NULL;
  if (row->end == LIVE) { /* nothing of the attempt is left in the way */
    puppet.enqueue_code = OK;
    puppet.leave_ticket = 0;
    forget_queue();
    assert_int_equal(nxmem_enqueue_release(stage.allocator, block, NULL, &ticket, NULL), NXMEM_OK);
    assert_int_equal(nxmem_drain_releases(stage.allocator, 5, NULL, NULL), NXMEM_OK);
    assert_int_equal(nx_counts(stage.host).owned_bytes, 0);
  } else {
    assert_int_equal(nxmem_release(stage.allocator, block, NULL, NULL), answer_of(row->end));
    assert_int_equal(nxmem_enqueue_release(stage.allocator, block, NULL, NULL, NULL), answer_of(row->end));
  }
  finish(row->end);
}

/* ---- Words of the caller ------------------------------------------------------------------------------------------ */

typedef struct word_row {
  const char *name;
  nx_modes modes;
  nxmem_release_options options;
  uint64_t id_more; /* added to the handle */
  intptr_t ptr_more;
  int other_allocator;
  nxmem_result want;
} word_row;

static const word_row word_rows[] = {
    {"a wrong size", 0, {BYTES - 1, ALIGN}, 0, 0, 0, NXMEM_ERR_MISMATCH},
    {"a wrong alignment", 0, {BYTES, ALIGN * 2}, 0, 0, 0, NXMEM_ERR_MISMATCH},
    {"a wrong address", 0, {0, 0}, 0, 8, 0, NXMEM_ERR_MISMATCH},
    {"another generation", 0, {0, 0}, 1ull << 32, 0, 0, NXMEM_ERR_STALE_HANDLE},
    {"a slot that was never made", 0, {0, 0}, 1ull << 24, 0, 0, NXMEM_ERR_STALE_HANDLE},
    {"through a sibling", 0, {0, 0}, 0, 0, 1, NXMEM_ERR_WRONG_OWNER},
};

static void test_word(void **state) {
  const nx_case *c = *state;
  const word_row *row = c->row;
  play(c->mode);
  puppet.inside = NULL;
  nxmem_allocator sibling = nx_must_open_mechanism(stage.plugin, "puppet");
  nxmem_allocation named = {block.id + row->id_more, (uint8_t *)block.ptr + row->ptr_more};
  nxmem_error error = nx_blank_error();
  nx_assert_code(
      nxmem_enqueue_release(row->other_allocator ? sibling : stage.allocator, named, &row->options, NULL, &error),
      &error, row->want);
  assert_int_equal(nx_puppet_calls(NX_IN_ENQUEUE), 0);
  assert_int_equal(nx_counts(stage.host).queued_releases, 0);
  const nxmem_release_options right = {BYTES, ALIGN};
  nxmem_allocator opened_last = sibling;
  nx_must_close(opened_last);
  assert_int_equal(nxmem_release(stage.allocator, block, &right, NULL), NXMEM_OK);
  nx_stage_strike(&stage);
}

/* ---- Without the capability ----------------------------------------------------------------------------------------- */

static void test_unsupported(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  puppet.table.capability_flags = NXMEM_CAP_ALLOCATOR;
  stage = nx_stage_set(c->mode);
  block = nx_must_allocate(stage.allocator, BYTES, ALIGN);
  nxmem_error error = nx_blank_error();
  nx_assert_code(nxmem_enqueue_release(stage.allocator, block, NULL, NULL, &error), &error,
                 NXMEM_ERR_UNSUPPORTED_CAPABILITY);
  assert_non_null(strstr(error.message, "enqueue_release"));
  nx_assert_code(nxmem_drain_releases(stage.allocator, 1, NULL, &error), &error, NXMEM_ERR_UNSUPPORTED_CAPABILITY);
  assert_non_null(strstr(error.message, "drain_releases"));
  nxmem_pending pending;
  nx_assert_code(nxmem_pending_releases(stage.allocator, &pending, &error), &error, NXMEM_ERR_UNSUPPORTED_CAPABILITY);
  assert_non_null(strstr(error.message, "pending_release_count"));
  assert_int_equal(nx_puppet_calls(NX_IN_ENQUEUE) + nx_puppet_calls(NX_IN_DRAIN) + nx_puppet_calls(NX_IN_PENDING), 0);
  nx_must_release(stage.allocator, block);
  nx_stage_strike(&stage);
}

/* A host that is offered less does not enter the slots, though the table has them. */
static void test_masked(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  const char *path = nx_puppet_copy();
  puppet.response.capability_flags = NXMEM_CAP_ALLOCATOR;
  nxmem_host host = nx_host_of_level(c->mode, 1, NXMEM_CAP_ALLOCATOR);
  nxmem_plugin plugin = nx_must_open(host, path);
  nxmem_allocator allocator = nx_must_open_mechanism(plugin, "puppet");
  block = nx_must_allocate(allocator, BYTES, ALIGN);
  nxmem_error error = nx_blank_error();
  nx_assert_code(nxmem_enqueue_release(allocator, block, NULL, NULL, &error), &error, NXMEM_ERR_UNSUPPORTED_CAPABILITY);
  assert_int_equal(nx_puppet_calls(NX_IN_ENQUEUE), 0);
  nx_must_release(allocator, block);
  nx_must_close(allocator);
  nx_must_unload(plugin, path);
  nx_host_gone(host);
}

#define ONE(name, test) static const nx_row_head name##_rows[] = {{test, NX_BOTH_MODES}}
ONE(unsupported, "a mechanism without the capability");
ONE(masked, "a capability that was not negotiated");

int main(void) {
  alarm(100);
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(answer_rows), test_answer);
  nx_suite_modes(&suite, ROWS(word_rows), test_word);
  nx_suite_modes(&suite, ROWS(unsupported_rows), test_unsupported);
  nx_suite_modes(&suite, ROWS(masked_rows), test_masked);
  return nx_suite_run(&suite, "host_enqueue");
}
