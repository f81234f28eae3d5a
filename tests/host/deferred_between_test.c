/*
 * deferred_between_test.c: what happens between a judgement and the swap that follows it. Linked with the host's
 * objects, so that the test stands in between.
 *
 * Attackers played: completions that come at exactly that moment, of the same release, of another round of it, or
 * before the enqueue's own answer is carried out.
 * Promise: the swap fails, the word is judged again, and what is true then is answered.
 */
#include <semaphore.h>
#include <unistd.h>

#include "nxmem/completion.h"
#include "staging.h"

enum { BYTES = 64, ALIGN = 16 };

/* ---- In between --------------------------------------------------------------------------------------------------- */

/* Each is run once, behind the next judgement of its kind and before what follows from it. */
static void (*behind_enqueue)(void);
static void (*behind_completion)(void);
static uint32_t enqueues_judged, completions_judged;

nxmem_enqueue_fate __real_nxmem_judge_enqueue(uint32_t code, uint64_t ticket, uint64_t word, uint64_t id);
nxmem_enqueue_fate __wrap_nxmem_judge_enqueue(uint32_t code, uint64_t ticket, uint64_t word, uint64_t id);
nxmem_enqueue_fate __wrap_nxmem_judge_enqueue(uint32_t code, uint64_t ticket, uint64_t word, uint64_t id) {
  const nxmem_enqueue_fate fate = __real_nxmem_judge_enqueue(code, ticket, word, id);
  void (*act)(void) = behind_enqueue;
  behind_enqueue = NULL;
  enqueues_judged++;
  if (act != NULL) act();
  return fate;
}

nxmem_verdict __real_nxmem_judge_completion(const NxmemReleaseCompletion *completion,
                                            const nxmem_release_record *record, uint64_t owner);
nxmem_verdict __wrap_nxmem_judge_completion(const NxmemReleaseCompletion *completion,
                                            const nxmem_release_record *record, uint64_t owner);
nxmem_verdict __wrap_nxmem_judge_completion(const NxmemReleaseCompletion *completion,
                                            const nxmem_release_record *record, uint64_t owner) {
  const nxmem_verdict v = __real_nxmem_judge_completion(completion, record, owner);
  void (*act)(void) = behind_completion;
  behind_completion = NULL;
  completions_judged++;
  if (act != NULL) act();
  return v;
}

/* ---- The stage ---------------------------------------------------------------------------------------------------- */

static nx_stage stage;
static nxmem_allocation block;
static NxmemReleaseCompletion completion;
static uint32_t answer_between;

static void play(nxmem_fetch_mode mode) {
  nx_puppet_reset();
  behind_enqueue = behind_completion = NULL;
  enqueues_judged = completions_judged = 0;
  answer_between = 0x5A5A;
  stage = nx_stage_set(mode);
  block = nx_must_allocate(stage.allocator, BYTES, ALIGN);
}

static void take_completion(uint32_t state) {
  nx_puppet_queued queued;
  assert_int_equal(nx_puppet_pop(&queued), 1);
  completion = nx_puppet_completion(&queued);
  completion.outcome.state = state;
}

static void strike(int kept) {
  atomic_store(&puppet.live_allocations, 0);
  assert_int_equal(nxmem_allocator_close(stage.allocator, NXMEM_CLOSE_RELEASE_LIVE, NULL), NXMEM_OK);
  assert_int_equal(nx_counts(stage.host).queued_releases, 0);
  assert_int_equal(nx_counts(stage.host).held_slots, 0);
  puppet.own_report = 1;
  puppet.report.struct_size = sizeof puppet.report;
  if (kept) {
    nx_assert_unload_busy(stage.plugin, NXMEM_REASON_HOST_HOLDS, NXMEM_AXIS_ALLOCATIONS, 1);
    nx_force_leak(stage.host, stage.plugin, stage.path);
  } else {
    assert_int_equal(nxmem_plugin_try_unload(stage.plugin, NULL, NULL), NXMEM_OK);
  }
  nx_host_gone(stage.host);
}

/* ---- A completion before the enqueue's answer is carried out -------------------------------------------------------- */

typedef struct enqueue_row {
  const char *name;
  nx_modes modes;
  uint32_t code;
  int leave_ticket;
  uint32_t state; /* of the completion in between */
  nxmem_result want;
  uint64_t live, kept;
} enqueue_row;

enum { REFUSES = NXMEM_STATUS_BUSY, KEEPS = NXMEM_STATUS_RELEASE_QUARANTINED };

static const enqueue_row enqueue_rows[] = {
    {"queued, completed", 0, 0, 0, NXMEM_RELEASE_COMPLETE, NXMEM_OK, 0, 0},
    {"queued, failed", 0, 0, 0, NXMEM_RELEASE_FAILED, NXMEM_OK, 1, 0},
    {"queued, quarantined", 0, 0, 0, NXMEM_RELEASE_QUARANTINED, NXMEM_OK, 0, 1},
    {"no ticket, completed", 0, 0, 1, NXMEM_RELEASE_COMPLETE, NXMEM_OK, 0, 0},
    {"refused, completed", 0, REFUSES, 0, NXMEM_RELEASE_COMPLETE, NXMEM_ERR_PLUGIN, 0, 0},
    {"refused, failed", 0, REFUSES, 0, NXMEM_RELEASE_FAILED, NXMEM_ERR_PLUGIN, 1, 0},
    {"kept, completed", 0, KEEPS, 0, NXMEM_RELEASE_COMPLETE, NXMEM_ERR_PLUGIN, 0, 0},
};

static void complete_between(void) { answer_between = nx_puppet_complete(&completion); }

static void test_enqueue(void **state) {
  const nx_case *c = *state;
  const enqueue_row *row = c->row;
  play(c->mode);
  puppet.enqueue_code = row->code;
  puppet.leave_ticket = row->leave_ticket;
  memset(&completion, 0, sizeof completion);
  completion.struct_size = sizeof completion;
  completion.mechanism_id = 77;
  completion.allocation_id = block.id;
  completion.outcome.state = row->state;
  completion.outcome.unmapped_bytes = BYTES;
  behind_enqueue = complete_between;
  assert_int_equal(nxmem_enqueue_release(stage.allocator, block, NULL, NULL, NULL), row->want);
  assert_int_equal(answer_between, NXMEM_STATUS_OK);
  assert_int_equal(enqueues_judged, 2); /* once more, because the swap had failed */
  const nxmem_host_counts counts = nx_counts(stage.host);
  assert_int_equal(counts.queued_releases, 0);
  assert_int_equal(counts.live_allocations, row->live);
  assert_int_equal(counts.quarantined, row->kept);
  assert_int_equal(counts.owned_bytes, (row->live + row->kept) * BYTES);
  nx_puppet_queued none;
  while (nx_puppet_pop(&none)) {
  }
  puppet.enqueue_code = 0;
  if (row->live)
    nx_must_release(stage.allocator, block);
  else
    free(block.ptr);
  strike(row->kept != 0);
}

/* ---- Another completion first --------------------------------------------------------------------------------------- */

static void test_same(void **state) {
  const nx_case *c = *state;
  play(c->mode);
  assert_int_equal(nxmem_enqueue_release(stage.allocator, block, NULL, NULL, NULL), NXMEM_OK);
  take_completion(NXMEM_RELEASE_COMPLETE);
  behind_completion = complete_between;
  assert_int_equal(nx_puppet_complete(&completion), NXMEM_STATUS_UNKNOWN_ALLOCATION);
  assert_int_equal(answer_between, NXMEM_STATUS_OK);
  assert_int_equal(completions_judged, 3);
  assert_int_equal(nx_counts(stage.host).refused_callbacks, 1);
  assert_int_equal(nx_counts(stage.host).owned_bytes, 0);
  free(block.ptr);
  strike(0);
}

/* The release fails and is queued again under another ticket: the word is that of another round. */
static void queue_again(void) {
  NxmemReleaseCompletion failed = completion;
  failed.outcome.state = NXMEM_RELEASE_FAILED;
  answer_between = nx_puppet_complete(&failed);
  assert_int_equal(nxmem_enqueue_release(stage.allocator, block, NULL, NULL, NULL), NXMEM_OK);
}

static void test_other_round(void **state) {
  const nx_case *c = *state;
  play(c->mode);
  assert_int_equal(nxmem_enqueue_release(stage.allocator, block, NULL, NULL, NULL), NXMEM_OK);
  take_completion(NXMEM_RELEASE_COMPLETE);
  behind_completion = queue_again;
  assert_int_equal(nx_puppet_complete(&completion), NXMEM_STATUS_UNKNOWN_ALLOCATION);
  assert_int_equal(answer_between, NXMEM_STATUS_OK);
  nxmem_violation noted;
  uint32_t count = 0;
  assert_int_equal(nxmem_host_violations(stage.host, &noted, 1, &count, NULL), NXMEM_OK);
  assert_int_equal(count, 1);
  assert_true(noted.reason == NXMEM_REASON_OTHER_TICKET);
  assert_int_equal(nx_counts(stage.host).queued_releases, 1);
  assert_int_equal(nx_puppet_retire(), NXMEM_STATUS_OK);
  assert_int_equal(nx_counts(stage.host).owned_bytes, 0);
  strike(0);
}

/* ---- Judged while it was being queued, swapped when it was ----------------------------------------------------------- */

static sem_t judged, returned;
static pthread_t completer;
static uint32_t completer_answer;

static void wait_for_return(void) {
  assert_int_equal(sem_post(&judged), 0);
  while (sem_wait(&returned) != 0) {
  }
}

static void *complete_on_thread(void *unused) {
  (void)unused;
  behind_completion = wait_for_return;
  completer_answer = nx_puppet_complete(&completion);
  return NULL;
}

static uint64_t ticket_more;

static void start_completer(nx_place_inside place) {
  if (place != NX_IN_ENQUEUE) return;
  take_completion(NXMEM_RELEASE_COMPLETE);
  completion.ticket += ticket_more;
  assert_int_equal(pthread_create(&completer, NULL, complete_on_thread, NULL), 0);
  while (sem_wait(&judged) != 0) {
  }
}

/* With the ticket that the enqueue has written by then it settles; with another one it is a stranger's. */
static void test_ticket_meanwhile(void **state) {
  const nx_case *c = *state;
  for (ticket_more = 0; ticket_more < 2; ticket_more++) {
    play(c->mode);
    assert_int_equal(sem_init(&judged, 0, 0), 0);
    assert_int_equal(sem_init(&returned, 0, 0), 0);
    puppet.inside = start_completer;
    assert_int_equal(nxmem_enqueue_release(stage.allocator, block, NULL, NULL, NULL), NXMEM_OK);
    puppet.inside = NULL;
    assert_int_equal(nx_counts(stage.host).queued_releases, 1);
    assert_int_equal(sem_post(&returned), 0);
    assert_int_equal(pthread_join(completer, NULL), 0);
    assert_int_equal(completer_answer, ticket_more == 0 ? NXMEM_STATUS_OK : NXMEM_STATUS_UNKNOWN_ALLOCATION);
    assert_int_equal(nx_counts(stage.host).queued_releases, ticket_more);
    if (ticket_more != 0) {
      completion.ticket -= ticket_more;
      assert_int_equal(nx_puppet_complete(&completion), NXMEM_STATUS_OK);
    }
    assert_int_equal(nx_counts(stage.host).owned_bytes, 0);
    free(block.ptr);
    strike(0);
  }
}

#define ONE(name, test) static const nx_row_head name##_rows[] = {{test, NX_BOTH_MODES}}
ONE(same, "the same completion first");
ONE(round, "failed and queued again first");
ONE(meanwhile, "judged before it was queued, swapped behind it");

int main(void) {
  alarm(100);
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(enqueue_rows), test_enqueue);
  nx_suite_modes(&suite, ROWS(same_rows), test_same);
  nx_suite_modes(&suite, ROWS(round_rows), test_other_round);
  nx_suite_modes(&suite, ROWS(meanwhile_rows), test_ticket_meanwhile);
  return nx_suite_run(&suite, "host_deferred_between");
}
