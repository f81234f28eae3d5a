/*
 * deferred_test.c: does each mechanism of libnxmem_scripted_deferred.so commit what its name says, and nothing else?
 *
 * Attackers played: none; here the attackers are under test.
 * Promise: every completion that arrives is compared, and every release leaves the plugin's books once.
 */
#define _POSIX_C_SOURCE 200809L
#include <string.h>
#include <time.h>

#include "mechanisms.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

enum { SIZE = 100, ALIGN = 64 };

/* Three releases in the queue. */
typedef struct queued {
  NxmemAllocation blocks[3];
  uint64_t tickets[3];
} queued;

static queued queue_three(const scene *s) {
  queued q;
  for (uint64_t i = 0u; i < 3u; i++) {
    q.blocks[i] = take(s->table, 5u + i, SIZE, ALIGN);
    q.tickets[i] = enqueue(s->table, &q.blocks[i]);
  }
  assert_report(s->p, 1u, 0u, 0u, 0u, 3u);
  return q;
}

static void assert_gone(const scene *s) {
  assert_int_equal(pending(s->table), 0u);
  assert_report(s->p, 1u, 0u, 0u, 0u, 0u);
}

static void show_honest_queue(const scene *s) {
  const queued q = queue_three(s);
  assert_int_equal(drain(s->table, UINT64_MAX), 3u);
  assert_int_equal(s->r->completions, 3u);
  for (int i = 0; i < 3; i++) assert_true_completion(&s->r->completion[i], &q.blocks[i], q.tickets[i]);
  assert_gone(s);
}

/* ---- Completions that must not settle --------------------------------------------------------------------------- */

/* One queued release, one drain, two completions: the one at `true_at` is true; the other is returned. */
static const NxmemReleaseCompletion *one_wrong(const scene *s, const NxmemAllocation *block, uint64_t ticket,
                                               int true_at) {
  assert_int_equal(drain(s->table, UINT64_MAX), 1u);
  assert_int_equal(s->r->completions, 2u);
  assert_int_equal(counted(s, NX_PROBE_COMPLETION_CALLS), 2u);
  assert_true_completion(&s->r->completion[true_at], block, ticket);
  assert_int_equal(pending(s->table), 0u);
  return &s->r->completion[1 - true_at];
}

static void show_duplicate(const scene *s) {
  const NxmemAllocation block = take(s->table, 5u, SIZE, ALIGN);
  const uint64_t ticket = enqueue(s->table, &block);
  assert_true_completion(one_wrong(s, &block, ticket, 0), &block, ticket);
  assert_gone(s);
}

static void show_foreign_ticket(const scene *s) {
  const NxmemAllocation block = take(s->table, 5u, SIZE, ALIGN);
  const uint64_t ticket = enqueue(s->table, &block);
  const NxmemReleaseCompletion *wrong = one_wrong(s, &block, ticket, 1);
  assert_true_completion(wrong, &block, ticket + (1u << 30));
  assert_gone(s);
}

static void show_names_live(const scene *s) {
  const NxmemAllocation live = take(s->table, 9u, SIZE, ALIGN);
  const NxmemAllocation block = take(s->table, 5u, SIZE, ALIGN);
  const uint64_t ticket = enqueue(s->table, &block);
  assert_true_completion(one_wrong(s, &block, ticket, 1), &live, ticket);
  give_back(s->table, &live);
  assert_gone(s);
  (void)queue_three(s); /* where nothing is live, nothing is wrong */
  assert_int_equal(drain(s->table, UINT64_MAX), 3u);
  assert_int_equal(s->r->completions, 5u);
}

static void show_names_unknown(const scene *s) {
  NxmemAllocation block = take(s->table, 5u, SIZE, ALIGN);
  const uint64_t ticket = enqueue(s->table, &block);
  const NxmemReleaseCompletion *wrong = one_wrong(s, &block, ticket, 1);
  block.allocation_id = UINT64_MAX - 1u;
  assert_true_completion(wrong, &block, ticket);
  assert_gone(s);
}

static void show_names_siblings(const scene *s) {
  recorder other;
  recorder_start(&other);
  const NxmemAllocatorVtable *sibling = recorder_open(&other, s->p);
  const NxmemAllocation theirs = take(sibling, 5u, SIZE, ALIGN);
  const uint64_t their_ticket = enqueue(sibling, &theirs);
  const NxmemAllocation block = take(s->table, 6u, SIZE, ALIGN);
  const uint64_t ticket = enqueue(s->table, &block);
  assert_true_completion(one_wrong(s, &block, ticket, 1), &theirs, their_ticket);
  assert_int_equal(other.completions, 0u);
  assert_int_equal(pending(sibling), 1u);
  assert_int_equal(drain(sibling, UINT64_MAX), 1u);
  assert_int_equal(other.completions, 1u); /* the queue of this one is empty: nothing wrong */
  sibling->release(sibling->ctx);
  assert_gone(s);
}

static void show_other_mechanism(const scene *s) {
  NxmemAllocation block = take(s->table, 5u, SIZE, ALIGN);
  const uint64_t ticket = enqueue(s->table, &block);
  const NxmemReleaseCompletion *wrong = one_wrong(s, &block, ticket, 1);
  block.mechanism_id ^= 1ull << 60;
  assert_true_completion(wrong, &block, ticket);
  assert_gone(s);
}

/* ---- Records that are not whole: a recorder would copy them, so these come with callbacks of their own ---------- */

typedef struct glance {
  uintptr_t at;
  size_t readable_bytes;
  uint32_t struct_size;
  uint64_t ticket;
} glance;
static glance glances[4];
static uint64_t glanced;

static NxmemStatus glance_at(void *host_ctx, const NxmemReleaseCompletion *completion) {
  glance *g = &glances[glanced++ % 4u];
  (void)host_ctx;
  *g = (glance){(uintptr_t)completion, completion == NULL ? 0u : readable(completion, sizeof *completion), 0u, 0u};
  if (g->readable_bytes >= 16u) {
    memcpy(&g->struct_size, completion, sizeof g->struct_size);
    memcpy(&g->ticket, (const uint8_t *)(const void *)completion + 8, sizeof g->ticket);
  }
  return (NxmemStatus){NXMEM_STATUS_OK, 0u, {0}};
}

static const glance *glance_of_wrong(const scene *s) {
  s->r->callbacks.release_completed = glance_at;
  glanced = 0u;
  const NxmemAllocation block = take(s->table, 5u, SIZE, ALIGN);
  const uint64_t ticket = enqueue(s->table, &block);
  assert_int_equal(drain(s->table, UINT64_MAX), 1u);
  assert_int_equal(glanced, 2u);
  assert_int_equal(glances[1].struct_size, 328u);
  assert_int_equal(glances[1].ticket, ticket);
  assert_gone(s);
  return &glances[0];
}

static void show_short_record(const scene *s) {
  const glance *g = glance_of_wrong(s);
  assert_int_equal(g->struct_size, 64u);
  assert_int_equal(g->readable_bytes, 64u);
}

static void show_lying_record(const scene *s) {
  const glance *g = glance_of_wrong(s);
  assert_int_equal(g->struct_size, 328u);
  assert_int_equal(g->readable_bytes, 64u);
}

static void show_null_record(const scene *s) { assert_int_equal(glance_of_wrong(s)->at, 0u); }

static void show_wild_record(const scene *s) {
  const glance *g = glance_of_wrong(s);
  assert_int_not_equal(g->at, 0u);
  assert_int_equal(g->at % 8u, 0u);
  assert_int_equal(g->readable_bytes, 0u);
}

static void show_misaligned_record(const scene *s) {
  const glance *g = glance_of_wrong(s);
  assert_int_equal(g->at % 8u, 4u);
  assert_int_equal(g->readable_bytes, 328u);
  assert_int_equal(g->struct_size, 328u);
}

/* ---- Completions that settle otherwise -------------------------------------------------------------------------- */

static void show_failed_completion(const scene *s) {
  const NxmemAllocation block = take(s->table, 5u, SIZE, ALIGN);
  (void)enqueue(s->table, &block);
  assert_int_equal(drain(s->table, UINT64_MAX), 1u);
  assert_int_equal(s->r->completion[0].outcome.state, NXMEM_RELEASE_FAILED);
  assert_status(s->r->completion[0].outcome.failure, NXMEM_STATUS_BUSY);
  assert_int_equal(s->r->completion[0].outcome.unmapped_bytes, 0u);
  assert_report(s->p, 1u, 1u, 0u, 0u, 0u);
  memset(block.ptr, 0x5A, block.bytes); /* as live as before */
  const uint64_t again = enqueue(s->table, &block);
  assert_int_equal(drain(s->table, UINT64_MAX), 1u);
  assert_true_completion(&s->r->completion[1], &block, again);
  assert_gone(s);
}

static void kept(const scene *s, uint32_t state, uint32_t code, uint64_t residue) {
  const NxmemAllocation block = take(s->table, 5u, SIZE, ALIGN);
  const uint64_t ticket = enqueue(s->table, &block);
  assert_int_equal(drain(s->table, UINT64_MAX), 1u);
  assert_int_equal(s->r->completions, 1u);
  const NxmemReleaseCompletion *completion = &s->r->completion[0];
  assert_int_equal(completion->ticket, ticket);
  assert_int_equal(completion->allocation_id, 5u);
  assert_int_equal(completion->outcome.state, state);
  assert_status(completion->outcome.failure, code);
  assert_int_equal(completion->outcome.residual_owned_bytes, residue);
  assert_int_equal(pending(s->table), 0u);
  assert_report(s->p, 1u, 1u, 0u, 0u, 0u);
  assert_int_equal(counted(s, NX_PROBE_PARKED_BLOCKS), 1u);
}

static void show_quarantined(const scene *s) { kept(s, NXMEM_RELEASE_QUARANTINED, NXMEM_STATUS_DEVICE_ERROR, SIZE); }
static void show_state_77(const scene *s) { kept(s, 77u, NXMEM_STATUS_OK, 0u); }
static void show_no_state(const scene *s) { kept(s, UINT32_MAX, NXMEM_STATUS_OK, 0u); }
static void show_error(const scene *s) { kept(s, NXMEM_RELEASE_COMPLETE, NXMEM_STATUS_DEVICE_ERROR, 0u); }

static void show_over_refund(const scene *s) {
  const NxmemAllocation block = take(s->table, 5u, SIZE, ALIGN);
  const uint64_t ticket = enqueue(s->table, &block);
  assert_int_equal(drain(s->table, UINT64_MAX), 1u);
  assert_true_completion(&s->r->completion[0], &block, ticket);
  assert_int_equal(s->r->completion[0].outcome.unmapped_bytes, UINT64_MAX);
  assert_gone(s);
}

/* ---- Enqueue ---------------------------------------------------------------------------------------------------- */

static void show_completed_then_failed(const scene *s) {
  const NxmemAllocation block = take(s->table, 5u, SIZE, ALIGN);
  uint64_t ticket = UINT64_MAX;
  assert_status(s->table->enqueue_release(s->table->ctx, &block, &ticket), NXMEM_STATUS_INTERNAL_ERROR);
  assert_int_equal(ticket, UINT64_MAX);
  assert_int_equal(s->r->completions, 1u);
  assert_true_completion(&s->r->completion[0], &block, counted(s, NX_PROBE_LAST_TICKET));
  assert_gone(s);
}

static void show_no_ticket(const scene *s) {
  const NxmemAllocation block = take(s->table, 5u, SIZE, ALIGN);
  assert_int_equal(enqueue(s->table, &block), UINT64_MAX);
  assert_report(s->p, 1u, 0u, 0u, 0u, 1u);
  assert_int_equal(drain(s->table, UINT64_MAX), 1u);
  assert_true_completion(&s->r->completion[0], &block, counted(s, NX_PROBE_LAST_TICKET));
  assert_gone(s);
}

static void show_same_ticket(const scene *s) {
  const queued q = queue_three(s);
  assert_int_equal(drain(s->table, UINT64_MAX), 3u);
  for (int i = 0; i < 3; i++) assert_int_equal(q.tickets[i], 1u);
  for (int i = 0; i < 3; i++) assert_true_completion(&s->r->completion[i], &q.blocks[i], 1u);
  assert_gone(s);
}

static void show_enqueue_fails_first(const scene *s) {
  const NxmemAllocation block = take(s->table, 5u, SIZE, ALIGN);
  uint64_t ticket = UINT64_MAX;
  assert_status(s->table->enqueue_release(s->table->ctx, &block, &ticket), NXMEM_STATUS_BUSY);
  assert_int_equal(ticket, UINT64_MAX);
  assert_report(s->p, 1u, 1u, 0u, 0u, 0u);
  ticket = enqueue(s->table, &block);
  assert_int_equal(counted(s, NX_PROBE_ENQUEUE_CALLS), 2u);
  assert_int_equal(drain(s->table, UINT64_MAX), 1u);
  assert_true_completion(&s->r->completion[0], &block, ticket);
  assert_gone(s);
}

static void show_enqueue_quarantines(const scene *s) {
  const NxmemAllocation block = take(s->table, 5u, SIZE, ALIGN);
  uint64_t ticket = UINT64_MAX;
  assert_status(s->table->enqueue_release(s->table->ctx, &block, &ticket), NXMEM_STATUS_RELEASE_QUARANTINED);
  assert_int_equal(ticket, UINT64_MAX);
  assert_report(s->p, 1u, 1u, 0u, 0u, 0u);
  assert_int_equal(drain(s->table, UINT64_MAX), 0u);
}

/* ---- Drain ------------------------------------------------------------------------------------------------------ */

/* Three are retired, in order and truly; the drain says `said`. */
static void drained_saying(const scene *s, uint64_t said) {
  const queued q = queue_three(s);
  assert_int_equal(drain(s->table, UINT64_MAX), said);
  assert_int_equal(s->r->completions, 3u);
  for (int i = 0; i < 3; i++) assert_true_completion(&s->r->completion[i], &q.blocks[i], q.tickets[i]);
  assert_gone(s);
}

static void show_overclaim(const scene *s) { drained_saying(s, 4u); }
static void show_claim_all(const scene *s) { drained_saying(s, UINT64_MAX); }
static void show_claim_none(const scene *s) { drained_saying(s, 0u); }
static void show_silent_drain(const scene *s) { drained_saying(s, UINT64_MAX); }

static void show_greedy_drain(const scene *s) {
  (void)queue_three(s);
  assert_int_equal(drain(s->table, 1u), 3u);
  assert_int_equal(s->r->completions, 3u);
  assert_gone(s);
}

static void show_refused_drain(const scene *s) {
  uint64_t retired = UINT64_MAX;
  (void)queue_three(s);
  assert_status(s->table->drain_releases(s->table->ctx, 9u, &retired), NXMEM_STATUS_DEVICE_ERROR);
  assert_int_equal(retired, UINT64_MAX);
  assert_int_equal(s->r->completions, 0u);
  assert_int_equal(drain(s->table, 9u), 3u);
  assert_int_equal(counted(s, NX_PROBE_DRAIN_CALLS), 2u);
  assert_gone(s);
}

static void show_failing_drain(const scene *s) {
  uint64_t retired = UINT64_MAX;
  (void)queue_three(s);
  assert_status(s->table->drain_releases(s->table->ctx, 9u, &retired), NXMEM_STATUS_DEVICE_ERROR);
  assert_int_equal(retired, UINT64_MAX);
  assert_int_equal(s->r->completions, 3u);
  assert_gone(s);
}

static void show_reversed_drain(const scene *s) {
  const queued q = queue_three(s);
  assert_int_equal(drain(s->table, 9u), 3u);
  for (int i = 0; i < 3; i++) assert_true_completion(&s->r->completion[i], &q.blocks[2 - i], q.tickets[2 - i]);
  assert_gone(s);
}

/* ---- Pending ---------------------------------------------------------------------------------------------------- */

static void pending_says(const scene *s, uint64_t said) {
  (void)queue_three(s);
  assert_int_equal(pending(s->table), said);
  assert_int_equal(drain(s->table, UINT64_MAX), 3u);
  assert_report(s->p, 1u, 0u, 0u, 0u, 0u);
}

static void show_pending_none(const scene *s) { pending_says(s, 0u); }
static void show_pending_huge(const scene *s) { pending_says(s, UINT64_MAX - 1u); }
static void show_pending_silent(const scene *s) { pending_says(s, UINT64_MAX); }

static void show_pending_refused(const scene *s) {
  uint64_t count = UINT64_MAX;
  (void)queue_three(s);
  assert_status(s->table->pending_release_count(s->table->ctx, &count), NXMEM_STATUS_DEVICE_ERROR);
  assert_int_equal(count, UINT64_MAX);
  assert_int_equal(drain(s->table, UINT64_MAX), 3u);
  assert_report(s->p, 1u, 0u, 0u, 0u, 0u);
}

/* ---- Late ------------------------------------------------------------------------------------------------------- */

static void wait_for_thread(const scene *s) {
  const struct timespec a_moment = {0, 5000000};
  for (int i = 0; i < 2000 && counted(s, NX_PROBE_COMPLETIONS_ACCEPTED) < 1u; i++) nanosleep(&a_moment, NULL);
  assert_int_equal(counted(s, NX_PROBE_COMPLETIONS_ACCEPTED), 1u);
  for (int i = 0; i < 2000 && report_of(s->p).queued_releases != 0u; i++) nanosleep(&a_moment, NULL);
}

static void show_late(const scene *s) {
  recorder other;
  recorder_start(&other);
  const NxmemAllocatorVtable *table = recorder_open(&other, s->p);
  const NxmemAllocation block = take(table, 5u, SIZE, ALIGN);
  const uint64_t ticket = enqueue(table, &block);
  assert_int_equal(drain(table, UINT64_MAX), 0u);
  table->release(table->ctx);
  assert_report(s->p, 1u, 0u, 0u, 0u, 1u);
  wait_for_thread(s);
  assert_int_equal(other.completions, 1u);
  assert_true_completion(&other.completion[0], &block, ticket);
  assert_report(s->p, 1u, 0u, 0u, 0u, 0u);
}

/* ---- Rows ------------------------------------------------------------------------------------------------------- */

#define ROW(name, show) \
  { name, 128, 1, DEFERRED, ANY, 1, show }

static const mechanism_row rows[] = {
    {"eager", 128, 1, STRUCTURED, ANY, 1, show_eager},
    {"lazy", 128, 1, ALL, ANY, 1, show_honest_queue},
    ROW("duplicate-completion", show_duplicate),
    ROW("foreign-ticket", show_foreign_ticket),
    ROW("completes-live", show_names_live),
    ROW("completes-unknown", show_names_unknown),
    ROW("completes-sibling", show_names_siblings),
    ROW("completes-other-mechanism", show_other_mechanism),
    ROW("short-completion", show_short_record),
    ROW("lying-completion", show_lying_record),
    ROW("null-completion", show_null_record),
    ROW("wild-completion", show_wild_record),
    ROW("misaligned-completion", show_misaligned_record),
    ROW("completion-fails", show_failed_completion),
    ROW("completion-quarantines", show_quarantined),
    ROW("completion-future-state", show_state_77),
    ROW("completion-without-state", show_no_state),
    ROW("completion-with-error", show_error),
    ROW("completion-over-refunds", show_over_refund),
    ROW("completion-then-failure", show_completed_then_failed),
    ROW("no-ticket", show_no_ticket),
    ROW("same-ticket", show_same_ticket),
    ROW("enqueue-fails", show_enqueue_fails_first),
    ROW("enqueue-quarantines", show_enqueue_quarantines),
    ROW("drain-overclaims", show_overclaim),
    ROW("drain-claims-all", show_claim_all),
    ROW("drain-claims-none", show_claim_none),
    ROW("drain-silent", show_silent_drain),
    ROW("drain-beyond-max", show_greedy_drain),
    ROW("drain-refuses", show_refused_drain),
    ROW("drain-fails-after", show_failing_drain),
    ROW("drain-reversed", show_reversed_drain),
    ROW("pending-none", show_pending_none),
    ROW("pending-huge", show_pending_huge),
    ROW("pending-silent", show_pending_silent),
    ROW("pending-refuses", show_pending_refused),
    ROW("late-completion", show_late),
};

int main(void) {
  static const subject deferred = {"libnxmem_scripted_deferred.so", "deferred", 0u, 31u};
  add_mechanisms(&deferred, rows, COUNT(rows), 1);
  return run_added("deferred mechanisms");
}
