/*
 * rules_deferred.c: rules about queued releases: tickets, draining, completions.
 * Attackers: completions that come twice, early, out of order, or for blocks that nobody queued.
 * Promise: every completion is kept as it came.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "conform/families.h"
#include "conform/memory.h"
#include "conform/slots.h"
#include "nxmem.h"

enum { QUEUED = 16, COMPLETION_BYTES = 328, PASSES = 200, PAUSE_NS = 1000000 };

typedef struct queue {
  nx_opened opened;
  nx_callback_log log;
  nx_block blocks[QUEUED];
  uint64_t tickets[QUEUED];
} queue;

/* Static: the callbacks live as long as the child. */
static queue the_queue;

static queue *begin(nx_trial *trial) {
  queue *q = &the_queue;
  nx_open_ready(trial);
  nx_callbacks_begin(&q->log);
  q->opened = nx_open_once(trial, &q->log);
  return q;
}

static void enqueue_all(queue *q) {
  for (int i = 0; i < QUEUED; i++) q->blocks[i] = nx_take(&q->opened, 4096, 64);
  for (int i = 0; i < QUEUED; i++) {
    q->tickets[i] = NX_UNWRITTEN;
    uint32_t code = nx_enqueue(&q->opened, &q->blocks[i].allocation, &q->tickets[i]).code;
    NX_GIVEN(code == NXMEM_STATUS_OK, "enqueue_release answered %s", nxmem_status_name(code));
  }
}

static void pause_shortly(void) {
  const struct timespec moment = {0, PAUSE_NS};
  nanosleep(&moment, NULL);
}

static uint64_t drain_once(const queue *q, uint64_t max) {
  uint64_t retired = NX_UNWRITTEN;
  uint32_t code = nx_drain(&q->opened, max, &retired).code;
  NX_GIVEN(code == NXMEM_STATUS_OK, "drain_releases answered %s", nxmem_status_name(code));
  return retired;
}

/* Until all have completed, for a fifth of a second at most. */
static void drain_all(const queue *q, uint64_t wanted) {
  for (int i = 0; i < PASSES && q->log.completions < wanted; i++) {
    drain_once(q, UINT64_MAX);
    if (q->log.completions < wanted) pause_shortly();
  }
}

static queue *drained(nx_trial *trial) {
  queue *q = begin(trial);
  enqueue_all(q);
  drain_all(q, QUEUED);
  NX_GIVEN(q->log.completions >= QUEUED, "%" PRIu64 " of %d completed", q->log.completions, QUEUED);
  return q;
}

/* ---- enqueue_release --------------------------------------------------------------------------------------------- */

static void enqueues(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = begin(trial);
  uint64_t ticket = NX_UNWRITTEN;
  nx_block block = nx_take(&q->opened, 4096, 64);
  nx_expect_code(nx_enqueue(&q->opened, &block.allocation, &ticket).code, NX_CODE(OK), "a live block, idle");
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

/* ---- Counts ------------------------------------------------------------------------------------------------------ */

static void pending_counts(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = begin(trial);
  uint64_t none = nx_pending(&q->opened);
  NX_EXPECT(none == 0, "pending_release_count is %" PRIu64 " before anything was queued", none);
  enqueue_all(q);
  uint64_t all = nx_pending(&q->opened), done = q->log.completions;
  NX_EXPECT(all + done == QUEUED, "pending_release_count is %" PRIu64 " with %d queued and %" PRIu64 " completed", all,
            QUEUED, done);
  drain_all(q, QUEUED);
  uint64_t left = nx_pending(&q->opened);
  NX_EXPECT(left + q->log.completions == QUEUED, "pending_release_count is %" PRIu64 " after %" PRIu64 " completed",
            left, q->log.completions);
  nx_seen("0, %" PRIu64 ", %" PRIu64, all, left);
}

static void null_counts(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = begin(trial);
  const NxmemAllocatorVtable *t = &q->opened.table;
  nx_enter("pending_release_count with a NULL count");
  nx_expect_code(t->pending_release_count(t->ctx, NULL).code, NX_CODE(INVALID_ARGUMENT), "a NULL count_out");
  nx_expect_code(nx_drain(&q->opened, 1, NULL).code, NX_CODE(INVALID_ARGUMENT), "a NULL retired_out");
  nx_seen("INVALID_ARGUMENT for both");
}

static void report_counts(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = begin(trial);
  enqueue_all(q);
  NxmemUnloadReport queued = nx_plugin_report(trial);
  uint64_t done = q->log.completions;
  NX_EXPECT(queued.queued_releases == QUEUED - done,
            "queued_releases is %" PRIu64 " with %d queued and %" PRIu64 " completed", queued.queued_releases, QUEUED,
            done);
  drain_all(q, QUEUED);
  NxmemUnloadReport after = nx_plugin_report(trial);
  NX_EXPECT(after.queued_releases == QUEUED - q->log.completions,
            "queued_releases is %" PRIu64 " after %" PRIu64 " completed", after.queued_releases, q->log.completions);
  NX_EXPECT(after.live_allocations == QUEUED - q->log.completions,
            "live_allocations is %" PRIu64 " after %" PRIu64 " completed", after.live_allocations, q->log.completions);
  nx_seen("%" PRIu64 ", then %" PRIu64, queued.queued_releases, after.queued_releases);
}

/* ---- drain_releases ---------------------------------------------------------------------------------------------- */

static void drains(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = begin(trial);
  enqueue_all(q);
  drain_all(q, QUEUED);
  NX_EXPECT(q->log.completions >= QUEUED, "%" PRIu64 " of %d releases completed in %d drains over a fifth of a second",
            q->log.completions, QUEUED, PASSES);
  nx_seen("%d completed", QUEUED);
}

static void honours_max(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = begin(trial);
  enqueue_all(q);
  for (uint64_t max = 0; max <= 3; max++) {
    uint64_t before = q->log.completions, retired = drain_once(q, max), came = q->log.completions - before;
    NX_EXPECT(retired <= max, "retired %" PRIu64 " with a maximum of %" PRIu64, retired, max);
    NX_EXPECT(came <= max, "%" PRIu64 " completions came with a maximum of %" PRIu64, came, max);
  }
  nx_seen("0, 1, 2 and 3");
}

static void says_how_many(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = begin(trial);
  enqueue_all(q);
  for (int i = 0; i < PASSES && q->log.completions < QUEUED; i++) {
    uint64_t before = q->log.completions, retired = drain_once(q, 5), came = q->log.completions - before;
    NX_EXPECT(retired == came, "retired_out is %" PRIu64 ", %" PRIu64 " completions came", retired, came);
    if (came == 0) pause_shortly();
  }
  uint64_t none = drain_once(q, UINT64_MAX);
  NX_EXPECT(none == 0 || q->log.completions < QUEUED, "retired %" PRIu64 " with nothing queued", none);
  nx_seen("as many as completions came");
}

/* ---- Completions ------------------------------------------------------------------------------------------------- */

static int index_of(const queue *q, uint64_t allocation_id) {
  for (int i = 0; i < QUEUED; i++)
    if (q->blocks[i].allocation.allocation_id == allocation_id) return i;
  return -1;
}

static void each_once(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = drained(trial);
  int seen[QUEUED] = {0};
  drain_once(q, UINT64_MAX);
  NX_EXPECT(q->log.completions == QUEUED, "%" PRIu64 " completions for %d releases", q->log.completions, QUEUED);
  for (int i = 0; i < QUEUED; i++) {
    int at = index_of(q, q->log.kept[i].allocation_id);
    NX_EXPECT(at >= 0, "a completion names allocation %" PRIu64 ", which was not queued", q->log.kept[i].allocation_id);
    NX_EXPECT(seen[at]++ == 0, "release %d completed twice", at);
  }
  nx_seen("%d completions, one each", QUEUED);
}

static void in_order(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = drained(trial);
  for (int i = 0; i < QUEUED; i++)
    NX_EXPECT(q->log.kept[i].allocation_id == q->blocks[i].allocation.allocation_id,
              "completion %d is not that of the release queued at that place", i);
  nx_seen("in the order of the queue");
}

static void with_ticket(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = drained(trial);
  for (int i = 0; i < QUEUED; i++) {
    const NxmemReleaseCompletion *c = &q->log.kept[i];
    int at = index_of(q, c->allocation_id);
    NX_GIVEN(at >= 0, "a completion names another allocation");
    NX_EXPECT(c->ticket == q->tickets[at], "ticket %" PRIu64 ", it was queued under %" PRIu64, c->ticket,
              q->tickets[at]);
  }
  nx_seen("%d tickets", QUEUED);
}

static void with_mechanism(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = drained(trial);
  for (int i = 0; i < QUEUED; i++)
    NX_EXPECT(q->log.kept[i].mechanism_id == q->opened.table.mechanism_id, "mechanism_id is %" PRIu64,
              q->log.kept[i].mechanism_id);
  nx_seen("%d completions", QUEUED);
}

static void whole_record(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = drained(trial);
  for (int i = 0; i < QUEUED; i++)
    NX_EXPECT(q->log.kept[i].struct_size >= COMPLETION_BYTES, "struct_size is %" PRIu32 ", needed 328",
              q->log.kept[i].struct_size);
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
    mapped += q->blocks[i].result.mapped_bytes;
    uint64_t now = q->log.kept[i].outcome.unmapped_bytes;
    NX_EXPECT(now <= INT64_MAX, "unmapped_bytes is %" PRIu64, now);
    unmapped += now;
  }
  NX_EXPECT(unmapped <= mapped, "%" PRIu64 " bytes unmapped, %" PRIu64 " were mapped", unmapped, mapped);
  nx_seen("%" PRIu64 " of %" PRIu64 " bytes", unmapped, mapped);
}

static void callback_context(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = drained(trial);
  NX_EXPECT(q->log.foreign == 0, "%" PRIu64 " callbacks came with another host_ctx", q->log.foreign);
  nx_seen("host_ctx unchanged");
}

/* ---- The end of the allocator ------------------------------------------------------------------------------------ */

static void nothing_after_release(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = drained(trial);
  nx_close(&q->opened);
  for (int i = 0; i < 20; i++) pause_shortly();
  NX_EXPECT(q->log.completions == QUEUED, "a completion came after the allocator's last release, nothing being queued");
  NxmemUnloadReport report = nx_plugin_report(trial);
  NX_EXPECT(report.queued_releases == 0, "queued_releases is %" PRIu64, report.queued_releases);
  nx_seen("quiet after the last release");
}

/* Released with a full queue: each release either completes, through callbacks that still stand, or stays counted. */
static void counted_after_release(nx_trial *trial, const void *with) {
  (void)with;
  queue *q = begin(trial);
  enqueue_all(q);
  nx_close(&q->opened);
  for (int i = 0; i < 20; i++) pause_shortly();
  NxmemUnloadReport report = nx_plugin_report(trial);
  NX_EXPECT(report.queued_releases + q->log.completions == QUEUED,
            "of %d queued releases %" PRIu64 " completed and %" PRIu64 " are counted after the last release", QUEUED,
            q->log.completions, report.queued_releases);
  nx_seen("%" PRIu64 " completed, %" PRIu64 " counted", q->log.completions, report.queued_releases);
}

#define DEF(name, text, place, need, function)                                                           \
  {                                                                                                      \
    .id = (name), .statement = (text), .section = (place), .scope = NX_SCOPE_MECHANISM, .needs = (need), \
    .capability = NXMEM_CAP_DEFERRED_RELEASE, .check = (function)                                        \
  }
#define SETTLED(name, text, function) DEF(name, text, "Queued releases", "NX-DEF-007", function)

static const nx_rule RULES[] = {
    DEF("NX-DEF-001", "enqueue_release answers OK to a live block that nothing uses", "Queued releases", "NX-DEA-001",
        enqueues),
    DEF("NX-DEF-002", "OK comes with a ticket", "Queued releases", "NX-DEF-001", writes_tickets),
    DEF("NX-DEF-003", "Outstanding tickets differ", "Queued releases", "NX-DEF-002", tickets_differ),
    DEF("NX-DEF-004", "pending_release_count counts what is queued and not completed", "Queued releases", "NX-DEF-001",
        pending_counts),
    DEF("NX-DEF-005", "NULL out-parameters are INVALID_ARGUMENT", "Sizes", "NX-DEF-001", null_counts),
    {.id = "NX-DEF-006",
     .statement = "No completion comes from inside enqueue_release",
     .section = "Queued releases",
     .severity = NX_SEVERITY_WARNING,
     .scope = NX_SCOPE_MECHANISM,
     .needs = "NX-DEF-001",
     .capability = NXMEM_CAP_DEFERRED_RELEASE,
     .check = not_from_inside},
    DEF("NX-DEF-007", "drain_releases retires releases of blocks that nothing uses", "Queued releases", "NX-DEF-001",
        drains),
    DEF("NX-DEF-008", "drain_releases retires no more than max", "Queued releases", "NX-DEF-001", honours_max),
    SETTLED("NX-DEF-009", "retired_out is the number of completions that came", says_how_many),
    SETTLED("NX-DEF-010", "Each release completes exactly once", each_once),
    SETTLED("NX-DEF-011", "Completions come in the order of the queue", in_order),
    SETTLED("NX-DEF-012", "Each completion carries the ticket it was queued under", with_ticket),
    SETTLED("NX-DEF-013", "Each completion names the mechanism", with_mechanism),
    SETTLED("NX-DEF-014", "Each completion is a record of its full 328 bytes", whole_record),
    SETTLED("NX-DEF-015", "Each outcome is COMPLETE, with the requested size and no residue", outcome_complete),
    SETTLED("NX-DEF-016", "No more is reported as unmapped than was mapped", outcome_bounded),
    SETTLED("NX-DEF-017", "Callbacks come with the host_ctx that was given", callback_context),
    SETTLED("NX-DEF-018", "queued_releases counts what is queued and not completed", report_counts),
    SETTLED("NX-DEF-019", "With nothing queued no callback comes after the allocator's last release",
            nothing_after_release),
    DEF("NX-DEF-020", "A release that is queued at the last release completes or stays counted", "Unload report",
        "NX-DEF-001", counted_after_release),
};

const nx_family nx_deferred_rules = NX_FAMILY("queued releases", "Tickets, draining, completions", RULES);
