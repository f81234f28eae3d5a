/*
 * rules_deferred.c: rules about queued releases: tickets, draining, completions.
 * Attackers: completions that come twice, early, out of order, or for blocks that nobody queued.
 * Promise: every completion is kept as it came.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "conform/expect.h"
#include "conform/families.h"
#include "conform/memory.h"
#include "conform/slots.h"
#include "nxmem.h"

enum { QUEUED = 16, PASSES = 200, PAUSE_NS = 1000000 };

typedef struct queue {
  nx_opened opened;
  nx_callback_log log;
  nx_block bystander;
  nx_block blocks[QUEUED];
  uint64_t tickets[QUEUED];
} queue;

/* Static: the callbacks live as long as the child. */
static queue the_queue;

/* One more block stays live: a completion that names it names what was never queued. */
static queue *begin(nx_trial *trial) {
  queue *q = &the_queue;
  nx_open_ready(trial);
  nx_callbacks_begin(&q->log);
  q->opened = nx_open_once(trial, &q->log);
  q->bystander = nx_take(&q->opened, 4096, 64);
  return q;
}

static void enqueue_all(queue *q) {
  for (int i = 0; i < QUEUED; i++) q->blocks[i] = nx_take(&q->opened, 4096, 64);
  for (int i = 0; i < QUEUED; i++) {
    q->tickets[i] = NX_UNWRITTEN;
    nx_given_ok(nx_enqueue(&q->opened, &q->blocks[i].allocation, &q->tickets[i]), "enqueue_release");
  }
}

static void pause_shortly(void) {
  const struct timespec moment = {0, PAUSE_NS};
  nanosleep(&moment, NULL);
}

/* ---- What came --------------------------------------------------------------------------------------------------- */

static uint64_t kept(const queue *q) {
  uint64_t came = q->log.completions;
  return came < NX_COMPLETIONS_KEPT ? came : NX_COMPLETIONS_KEPT;
}

/* Which of the queued releases a completion names; -1: none. */
static int index_of(const queue *q, const NxmemReleaseCompletion *completion) {
  for (int i = 0; i < QUEUED; i++)
    if (q->blocks[i].allocation.allocation_id == completion->allocation_id) return i;
  return -1;
}

static int is_true(const queue *q, const NxmemReleaseCompletion *completion, int at) {
  return completion->ticket == q->tickets[at] && completion->mechanism_id == q->opened.table.mechanism_id;
}

/* How often release `at` was completed under its own ticket and mechanism. */
static int times_settled(const queue *q, int at) {
  int times = 0;
  for (uint64_t i = 0; i < kept(q); i++) times += index_of(q, &q->log.kept[i]) == at && is_true(q, &q->log.kept[i], at);
  return times;
}

/* What a host would count as settled. */
static uint64_t settled(const queue *q) {
  uint64_t count = 0;
  for (int i = 0; i < QUEUED; i++) count += times_settled(q, i) > 0;
  return count;
}

/* ---- Draining ---------------------------------------------------------------------------------------------------- */

static uint64_t drain_once(const queue *q, uint64_t max) {
  uint64_t retired = NX_UNWRITTEN;
  nx_given_ok(nx_drain(&q->opened, max, &retired), "drain_releases");
  return retired;
}

/* Until all have settled, for a fifth of a second at most. */
static void drain_all(const queue *q) {
  for (int i = 0; i < PASSES && settled(q) < QUEUED; i++) {
    drain_once(q, UINT64_MAX);
    if (settled(q) < QUEUED) pause_shortly();
  }
}

static queue *drained(nx_trial *trial) {
  queue *q = begin(trial);
  enqueue_all(q);
  drain_all(q);
  NX_GIVEN(settled(q) == QUEUED, "%" PRIu64 " of %d completed", settled(q), QUEUED);
  return q;
}

/* ---- enqueue_release --------------------------------------------------------------------------------------------- */

static void enqueues(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = begin(trial);
  uint64_t ticket = NX_UNWRITTEN;
  nx_block block = nx_take(&q->opened, 4096, 64);
  nx_expect_status(nx_enqueue(&q->opened, &block.allocation, &ticket), NX_CODE(OK), "a live block, idle");
  nx_seen("OK");
}

static void writes_tickets(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = begin(trial);
  enqueue_all(q);
  for (int i = 0; i < QUEUED; i++)
    NX_EXPECT(q->tickets[i] != NX_UNWRITTEN, "OK without a ticket: such a release can never settle");
  nx_seen("%d tickets", QUEUED);
}

static void tickets_differ(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = begin(trial);
  enqueue_all(q);
  for (int i = 0; i < QUEUED; i++)
    for (int j = 0; j < i; j++)
      NX_EXPECT(q->tickets[i] != q->tickets[j], "releases %d and %d, both queued, have ticket %" PRIu64, j, i,
                q->tickets[i]);
  nx_seen("%d tickets, all different", QUEUED);
}

static void not_from_inside(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = begin(trial);
  for (int i = 0; i < QUEUED; i++) {
    nx_block block = nx_take(&q->opened, 4096, 64);
    uint64_t ticket = NX_UNWRITTEN, before = q->log.completions;
    nx_enqueue(&q->opened, &block.allocation, &ticket);
    NX_EXPECT(q->log.completions == before, "release_completed came from inside enqueue_release");
  }
  nx_seen("none from inside %d calls", QUEUED);
}

/* ---- drain_releases ---------------------------------------------------------------------------------------------- */

static void drains(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = begin(trial);
  enqueue_all(q);
  for (int i = 0; i < PASSES && settled(q) < QUEUED; i++) {
    uint64_t retired = NX_UNWRITTEN;
    nx_expect_status(nx_drain(&q->opened, UINT64_MAX, &retired), NX_CODE(OK), "drain_releases");
    NX_EXPECT(retired != NX_UNWRITTEN, "retired_out was left unwritten");
    if (settled(q) < QUEUED) pause_shortly();
  }
  NX_EXPECT(settled(q) == QUEUED, "%" PRIu64 " of %d releases completed in %d drains over a fifth of a second",
            settled(q), QUEUED, PASSES);
  nx_seen("%d completed", QUEUED);
}

static void honours_max(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = begin(trial);
  enqueue_all(q);
  for (uint64_t max = 0; max <= 3; max++) {
    uint64_t before = settled(q), retired = drain_once(q, max), came = settled(q) - before;
    NX_EXPECT(retired <= max, "retired %" PRIu64 " with a maximum of %" PRIu64, retired, max);
    NX_EXPECT(came <= max, "%" PRIu64 " completions came with a maximum of %" PRIu64, came, max);
  }
  nx_seen("0, 1, 2 and 3");
}

static void says_how_many(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = begin(trial);
  enqueue_all(q);
  for (int i = 0; i < PASSES && settled(q) < QUEUED; i++) {
    uint64_t before = settled(q), retired = drain_once(q, 5), came = settled(q) - before;
    NX_EXPECT(retired == came, "retired_out is %" PRIu64 ", %" PRIu64 " completions came", retired, came);
    if (came == 0) pause_shortly();
  }
  uint64_t none = drain_once(q, UINT64_MAX);
  NX_EXPECT(none == 0, "retired %" PRIu64 " with nothing queued", none);
  nx_seen("as many as completions came");
}

/* ---- Completions ------------------------------------------------------------------------------------------------- */

static void whole_records(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = begin(trial);
  enqueue_all(q);
  for (int i = 0; i < PASSES && settled(q) < QUEUED && q->log.malformed_completions == 0; i++) {
    uint64_t retired = NX_UNWRITTEN;
    nx_drain(&q->opened, UINT64_MAX, &retired);
    if (settled(q) < QUEUED) pause_shortly();
  }
  NX_EXPECT(q->log.malformed_completions == 0, "%s", q->log.malformed);
  if (q->log.completions == 0) nx_does_not_apply("no completion came");
  nx_seen("%" PRIu64 " records of 328 bytes", q->log.completions);
}

static void records_stand_still(nx_trial *trial, const void *with) {
  (void)with;
  nx_host_watches();
  queue *q = begin(trial);
  uint64_t retired = NX_UNWRITTEN;
  enqueue_all(q);
  for (int i = 0; i < QUEUED; i++) nx_drain(&q->opened, 1, &retired);
  NX_EXPECT(q->log.unsteady == 0, "a completion changed while the host read it");
  nx_seen("the first 8 were watched");
}

static void each_once(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = drained(trial);
  drain_once(q, UINT64_MAX);
  for (uint64_t i = 0; i < kept(q); i++)
    NX_EXPECT(index_of(q, &q->log.kept[i]) >= 0, "a completion names allocation %" PRIu64 ", which was not queued",
              q->log.kept[i].allocation_id);
  for (int i = 0; i < QUEUED; i++)
    NX_EXPECT(times_settled(q, i) == 1, "release %d completed %d times", i, times_settled(q, i));
  nx_seen("%d completions, one each", QUEUED);
}

static void in_order(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = drained(trial);
  int next = 0;
  for (uint64_t i = 0; i < kept(q) && next < QUEUED; i++) {
    int at = index_of(q, &q->log.kept[i]);
    if (at < 0 || !is_true(q, &q->log.kept[i], at)) continue;
    NX_EXPECT(at == next, "the release queued at place %d completed at place %d", at, next);
    next++;
  }
  nx_seen("in the order of the queue");
}

static void with_ticket(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = drained(trial);
  for (uint64_t i = 0; i < kept(q); i++) {
    int at = index_of(q, &q->log.kept[i]);
    NX_EXPECT(at < 0 || q->log.kept[i].ticket == q->tickets[at], "ticket %" PRIu64 ", it was queued under %" PRIu64,
              q->log.kept[i].ticket, q->tickets[at]);
  }
  nx_seen("%d tickets", QUEUED);
}

static void with_mechanism(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = drained(trial);
  for (uint64_t i = 0; i < kept(q); i++)
    NX_EXPECT(q->log.kept[i].mechanism_id == q->opened.table.mechanism_id, "mechanism_id is %" PRIu64,
              q->log.kept[i].mechanism_id);
  nx_seen("%d completions", QUEUED);
}

static void outcome_complete(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = drained(trial);
  for (int i = 0; i < QUEUED; i++) {
    const NxmemReleaseOutcome *o = &q->log.kept[i].outcome;
    NX_EXPECT(o->state == NXMEM_RELEASE_COMPLETE, "the outcome of a block that nothing uses has state %" PRIu32,
              o->state);
    NX_EXPECT(o->allocation_bytes == q->blocks[i].allocation.bytes, "allocation_bytes is %" PRIu64,
              o->allocation_bytes);
    NX_EXPECT(o->failure.code == NXMEM_STATUS_OK && o->residual_owned_bytes == 0,
              "COMPLETE with a failure or a residue");
  }
  nx_seen("%d completions", QUEUED);
}

static void outcome_bounded(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = drained(trial);
  uint64_t mapped = 0, unmapped = 0;
  for (int i = 0; i < QUEUED; i++) {
    uint64_t now = q->log.kept[i].outcome.unmapped_bytes;
    NX_EXPECT(now <= INT64_MAX, "unmapped_bytes is %" PRIu64, now);
    mapped += q->blocks[i].result.mapped_bytes;
    unmapped += now;
  }
  NX_EXPECT(unmapped <= mapped, "%" PRIu64 " bytes unmapped, %" PRIu64 " were mapped", unmapped, mapped);
  nx_seen("%" PRIu64 " of %" PRIu64 " bytes", unmapped, mapped);
}

/* Two allocators with full queues: what one drains must not come to the other, nor of the other. */
static void through_its_own(nx_trial *trial, const void *with) {
  (void)with;
  static nx_callback_log other_log;
  queue *q = begin(trial);
  uint64_t ticket = NX_UNWRITTEN;
  nx_callbacks_begin(&other_log);
  nx_opened other = nx_open_once(trial, &other_log);
  enqueue_all(q);
  nx_block theirs = nx_take(&other, 4096, 64);
  NX_GIVEN(nx_enqueue(&other, &theirs.allocation, &ticket).code == NXMEM_STATUS_OK, "enqueue_release was refused");
  uint64_t before = other_log.completions;
  drain_all(q);
  NX_EXPECT(other_log.completions == before, "draining one allocator brought a completion to another");
  for (uint64_t i = 0; i < kept(q); i++)
    NX_EXPECT(q->log.kept[i].allocation_id != theirs.allocation.allocation_id,
              "another allocator's release completed through this one");
  NX_EXPECT(nx_foreign_calls() == 0, "%" PRIu64 " callbacks came with another host_ctx", nx_foreign_calls());
  nx_seen("two queues, each through its own callbacks");
}

/* ---- Counts ------------------------------------------------------------------------------------------------------ */

static uint64_t pending_now(const queue *q) {
  const NxmemAllocatorVtable *t = &q->opened.table;
  uint64_t count = NX_UNWRITTEN;
  nx_enter("pending_release_count");
  NX_GIVEN(t->pending_release_count, "there is no pending_release_count slot");
  nx_expect_status(t->pending_release_count(t->ctx, &count), NX_CODE(OK), "pending_release_count");
  NX_EXPECT(count != NX_UNWRITTEN, "count_out was left unwritten");
  return count;
}

static void pending_counts(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = begin(trial);
  uint64_t none = pending_now(q);
  NX_EXPECT(none == 0, "pending_release_count is %" PRIu64 " before anything was queued", none);
  enqueue_all(q);
  uint64_t all = pending_now(q), done = settled(q);
  NX_EXPECT(all + done == QUEUED, "pending_release_count is %" PRIu64 " with %d queued and %" PRIu64 " completed", all,
            QUEUED, done);
  drain_all(q);
  uint64_t left = pending_now(q);
  NX_EXPECT(left + settled(q) == QUEUED, "pending_release_count is %" PRIu64 " after %" PRIu64 " completed", left,
            settled(q));
  nx_seen("0, %" PRIu64 ", %" PRIu64, all, left);
}

static void null_counts(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = begin(trial);
  const NxmemAllocatorVtable *t = &q->opened.table;
  nx_enter("pending_release_count with a NULL count");
  NX_GIVEN(t->pending_release_count, "there is no pending_release_count slot");
  nx_expect_status(t->pending_release_count(t->ctx, NULL), NX_CODE(INVALID_ARGUMENT), "a NULL count_out");
  nx_expect_status(nx_drain(&q->opened, 1, NULL), NX_CODE(INVALID_ARGUMENT), "a NULL retired_out");
  nx_seen("INVALID_ARGUMENT for both");
}

static void report_counts(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = begin(trial);
  enqueue_all(q);
  uint64_t queued = nx_plugin_report(trial).queued_releases, done = settled(q);
  NX_EXPECT(queued == QUEUED - done, "queued_releases is %" PRIu64 " with %d queued and %" PRIu64 " completed", queued,
            QUEUED, done);
  drain_all(q);
  NxmemUnloadReport after = nx_plugin_report(trial);
  uint64_t left = QUEUED - settled(q);
  NX_EXPECT(after.queued_releases == left, "queued_releases is %" PRIu64 " with %" PRIu64 " not completed",
            after.queued_releases, left);
  NX_EXPECT(after.live_allocations == left + 1,
            "live_allocations is %" PRIu64 " with %" PRIu64 " not completed and one live", after.live_allocations,
            left);
  nx_seen("%" PRIu64 ", then %" PRIu64, queued, after.queued_releases);
}

/* ---- The end of the allocator ------------------------------------------------------------------------------------ */

static void wait_a_little(void) {
  for (int i = 0; i < 50; i++) pause_shortly();
}

static void nothing_after_release(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = drained(trial);
  nx_give(&q->opened, &q->bystander);
  nx_close(&q->opened);
  uint64_t before = q->log.calls;
  wait_a_little();
  NxmemUnloadReport report = nx_plugin_report(trial);
  NX_EXPECT(q->log.calls == before, "a callback came after the allocator's last release, nothing being queued");
  NX_EXPECT(report.queued_releases == 0, "queued_releases is %" PRIu64, report.queued_releases);
  nx_seen("quiet after the last release");
}

/* Released with a full queue: each release either completes, through callbacks that still stand, or stays counted. */
static void counted_after_release(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = begin(trial);
  enqueue_all(q);
  nx_give(&q->opened, &q->bystander);
  nx_close(&q->opened);
  wait_a_little();
  uint64_t counted = nx_plugin_report(trial).queued_releases;
  NX_EXPECT(counted + settled(q) >= QUEUED,
            "of %d queued releases %" PRIu64 " completed and %" PRIu64 " are counted after the last release", QUEUED,
            settled(q), counted);
  nx_seen("%" PRIu64 " completed, %" PRIu64 " counted", settled(q), counted);
}

#define DEF(name, text, place, need, function)                                                           \
  {                                                                                                      \
    .id = (name), .statement = (text), .section = (place), .scope = NX_SCOPE_MECHANISM, .needs = (need), \
    .capability = NXMEM_CAP_DEFERRED_RELEASE, .check = (function)                                        \
  }
#define QUE(name, text, need, function) DEF(name, text, "Queued releases", need, function)

static const nx_rule RULES[] = {
    QUE("NX-DEF-001", "enqueue_release answers OK to a live block that nothing uses", "NX-DEA-001", enqueues),
    QUE("NX-DEF-002", "OK comes with a ticket", "NX-DEF-001", writes_tickets),
    QUE("NX-DEF-003", "Outstanding tickets differ", "NX-DEF-002", tickets_differ),
    QUE("NX-DEF-004", "pending_release_count counts what is queued and not completed", "NX-DEF-014", pending_counts),
    DEF("NX-DEF-005", "NULL out-parameters are INVALID_ARGUMENT", "Sizes", "NX-DEF-007", null_counts),
    {.id = "NX-DEF-006",
     .statement = "No completion comes from inside enqueue_release",
     .section = "Queued releases",
     .severity = NX_SEVERITY_WARNING,
     .scope = NX_SCOPE_MECHANISM,
     .needs = "NX-DEF-001",
     .capability = NXMEM_CAP_DEFERRED_RELEASE,
     .check = not_from_inside},
    QUE("NX-DEF-007", "drain_releases answers OK and retires releases of blocks that nothing uses", "NX-DEF-003",
        drains),
    QUE("NX-DEF-008", "drain_releases retires no more than max", "NX-DEF-014", honours_max),
    QUE("NX-DEF-009", "retired_out is the number of completions that came", "NX-DEF-008", says_how_many),
    QUE("NX-DEF-010", "Each release completes exactly once, and nothing else does", "NX-DEF-013", each_once),
    QUE("NX-DEF-011", "Completions come in the order of the queue", "NX-DEF-014", in_order),
    QUE("NX-DEF-012", "Each completion carries the ticket it was queued under", "NX-DEF-014", with_ticket),
    QUE("NX-DEF-013", "Each completion names the mechanism", "NX-DEF-012", with_mechanism),
    QUE("NX-DEF-014", "Each completion is a record of its full 328 bytes", "NX-DEF-007", whole_records),
    QUE("NX-DEF-015", "Each outcome is COMPLETE, with the requested size and no residue", "NX-DEF-010",
        outcome_complete),
    QUE("NX-DEF-016", "No more is reported as unmapped than was mapped", "NX-DEF-015", outcome_bounded),
    QUE("NX-DEF-017", "A completion comes through the callbacks of its own allocator", "NX-DEF-010", through_its_own),
    DEF("NX-DEF-018", "queued_releases counts what is queued and not completed", "Unload report", "NX-DEF-015",
        report_counts),
    QUE("NX-DEF-019", "With nothing queued no callback comes after the allocator's last release", "NX-DEF-010",
        nothing_after_release),
    DEF("NX-DEF-020", "A release that is queued at the last release completes or stays counted", "Unload report",
        "NX-DEF-001", counted_after_release),
    QUE("NX-DEF-041", "A completion does not change while the host reads it", "NX-DEF-003", records_stand_still),
};

const nx_family nx_deferred_rules = NX_FAMILY("queued releases", "Tickets, draining, completions", RULES);
