/*
 * completion_test.c: which completions settle a queued release, row by row.
 *
 * Attackers played: duplicates, strangers, invented tickets, short and racing records, an enqueue that fails after
 * completing.
 * Promise: one record changes or none, and what has settled settles no more.
 */
#include "nxmem/completion.h"

#include "support.h"
#include "watch.h"

#define ALL UINT64_MAX
#define U32_MAX 0xFFFFFFFFu
#define UNWRITTEN 0xFFFFFFFFu
#define ALLOW \
  { NXMEM_REASON_NONE, 0, 0, 0 }

enum {
  LIVE = NXMEM_SLOT_LIVE,
  KEPT = NXMEM_SLOT_QUARANTINED,
  QUEUING = NXMEM_SLOT_QUEUING,
  QUEUED = NXMEM_SLOT_QUEUED
};
enum { SLOT = 3, GENERATION = 9, OWNER = 77, MECHANISM = 55, TICKET = 1234 };

static uint64_t id_of(uint32_t slot, uint32_t generation) { return nxmem_handle_make(slot, generation); }

static nxmem_release_record record_in(uint32_t slot, uint32_t generation, uint32_t users, uint32_t state) {
  const nxmem_release_record record = {.word = nxmem_word_make(generation, users, state),
                                       .allocation_id = id_of(slot, generation),
                                       .owner = OWNER,
                                       .mechanism_id = MECHANISM,
                                       .ticket = TICKET};
  return record;
}

static NxmemReleaseCompletion completion_of(uint64_t id, uint32_t code, uint32_t release_state) {
  NxmemReleaseCompletion completion;
  memset(&completion, 0, sizeof completion);
  completion.struct_size = sizeof completion;
  completion.ticket = TICKET;
  completion.mechanism_id = MECHANISM;
  completion.allocation_id = id;
  completion.outcome.state = release_state;
  completion.outcome.failure.code = code;
  return completion;
}

/* ---- Judgement ---- */

typedef struct judge_row {
  const char *name;
  uint32_t state, users;
  uint32_t named_slot, named_generation; /* by the completion */
  uint64_t ticket, mechanism, owner;
  nxmem_verdict want;
} judge_row;

#define UNKNOWN(slot, generation) \
  { NXMEM_REASON_UNKNOWN_ALLOCATION, 24, (uint64_t)(generation)*0x100000000ull + (slot) + 1, 0x900000004ull }
#define STATE(found) \
  { NXMEM_REASON_NOT_QUEUED, 24, found, QUEUED }

static const judge_row judge_rows[] = {
    {"queued, with its ticket", QUEUED, 0, 3, 9, TICKET, MECHANISM, OWNER, ALLOW},
    {"queuing, with its later ticket", QUEUING, 1, 3, 9, TICKET, MECHANISM, OWNER, ALLOW},
    {"queuing, with any ticket", QUEUING, 1, 3, 9, ALL, MECHANISM, OWNER, ALLOW},
    {"queued, another ticket",
     QUEUED,
     0,
     3,
     9,
     TICKET + 1,
     MECHANISM,
     OWNER,
     {NXMEM_REASON_OTHER_TICKET, 8, 1235, 1234}},
    {"queued, ticket 0", QUEUED, 0, 3, 9, 0, MECHANISM, OWNER, {NXMEM_REASON_OTHER_TICKET, 8, 0, 1234}},
    {"another slot", QUEUED, 0, 4, 9, TICKET, MECHANISM, OWNER, UNKNOWN(4, 9)},
    {"an earlier generation", QUEUED, 0, 3, 8, TICKET, MECHANISM, OWNER, UNKNOWN(3, 8)},
    {"a later generation", QUEUED, 0, 3, 10, TICKET, MECHANISM, OWNER, UNKNOWN(3, 10)},
    {"another slot is named first", LIVE, 0, 4, 9, 0, 0, 0, UNKNOWN(4, 9)},
    {"through another allocator", QUEUED, 0, 3, 9, TICKET, MECHANISM, 78, {NXMEM_REASON_OTHER_OWNER, 24, 78, 77}},
    {"the owner is named before the mechanism", LIVE, 0, 3, 9, 0, 0, 0, {NXMEM_REASON_OTHER_OWNER, 24, 0, 77}},
    {"another mechanism", QUEUED, 0, 3, 9, TICKET, 56, OWNER, {NXMEM_REASON_OTHER_MECHANISM, 16, 56, 55}},
    {"the mechanism is named before the state",
     LIVE,
     0,
     3,
     9,
     0,
     56,
     OWNER,
     {NXMEM_REASON_OTHER_MECHANISM, 16, 56, 55}},
    {"another mechanism while queuing", QUEUING, 1, 3, 9, TICKET, 0, OWNER, {NXMEM_REASON_OTHER_MECHANISM, 16, 0, 55}},
    {"never queued", LIVE, 0, 3, 9, TICKET, MECHANISM, OWNER, STATE(LIVE)},
    {"the state is named before the ticket", LIVE, 0, 3, 9, 0, MECHANISM, OWNER, STATE(LIVE)},
    {"settled as quarantined", KEPT, 0, 3, 9, TICKET, MECHANISM, OWNER, STATE(KEPT)},
    {"allocating", 1, 0, 3, 9, TICKET, MECHANISM, OWNER, STATE(1)},
    {"releasing", 3, 0, 3, 9, TICKET, MECHANISM, OWNER, STATE(3)},
    {"free", 0, 0, 3, 9, TICKET, MECHANISM, OWNER, STATE(0)},
    {"retired", 5, 0, 3, 9, TICKET, MECHANISM, OWNER, STATE(5)},
    {"a state nobody knows", 8, 0, 3, 9, TICKET, MECHANISM, OWNER, STATE(8)},
};

static void test_judge(void **state) {
  const judge_row *row = *state;
  const nxmem_release_record record = record_in(SLOT, GENERATION, row->users, row->state);
  NxmemReleaseCompletion completion = completion_of(id_of(row->named_slot, row->named_generation), 0, 0);
  completion.ticket = row->ticket;
  completion.mechanism_id = row->mechanism;
  nx_assert_verdict(nxmem_judge_completion(&completion, &record, row->owner), row->want);
}

/* The record says under which handle it was queued; its slot has moved on since. */
static void test_moved_on(void **state) {
  (void)state;
  nxmem_release_record record = record_in(SLOT, GENERATION, 0, QUEUED);
  record.word = nxmem_word_make(GENERATION + 1, 0, QUEUED);
  const NxmemReleaseCompletion completion = completion_of(record.allocation_id, 0, 0);
  nx_assert_verdict(nxmem_judge_completion(&completion, &record, OWNER),
                    (nxmem_verdict){NXMEM_REASON_STALE_HANDLE, 24, GENERATION, GENERATION + 1});
}

typedef struct fate_row {
  const char *name;
  uint32_t code, state;
  nxmem_release_fate want;
} fate_row;

static const fate_row fate_rows[] = {
    {"fate: OK and COMPLETE", 0, 0, NXMEM_FATE_GONE},
    {"fate: OK and QUARANTINED", 0, 1, NXMEM_FATE_QUARANTINED},
    {"fate: OK and FAILED", 0, 2, NXMEM_FATE_LIVE},
    {"fate: OK and a state nobody knows", 0, 3, NXMEM_FATE_QUARANTINED},
    {"fate: OK and all ones", 0, UNWRITTEN, NXMEM_FATE_QUARANTINED},
    {"fate: an error and COMPLETE", 5, 0, NXMEM_FATE_QUARANTINED},
    {"fate: an error and QUARANTINED", 5, 1, NXMEM_FATE_QUARANTINED},
    {"fate: an error and FAILED", 5, 2, NXMEM_FATE_LIVE},
    {"fate: an error and all ones", 5, UNWRITTEN, NXMEM_FATE_QUARANTINED},
    {"fate: quarantined and COMPLETE", 12, 0, NXMEM_FATE_QUARANTINED},
    {"fate: quarantined and FAILED", 12, 2, NXMEM_FATE_QUARANTINED},
    {"fate: quarantined and all ones", 12, UNWRITTEN, NXMEM_FATE_QUARANTINED},
};

static void test_fate(void **state) {
  const fate_row *row = *state;
  assert_int_equal(nxmem_completion_fate(row->code, row->state), row->want);
}

typedef struct settled_row {
  const char *name;
  uint32_t generation, users, state;
  nxmem_release_fate fate;
  uint32_t want_generation, want_users, want_state;
} settled_row;

static const settled_row settled_rows[] = {
    {"word: gone", 9, 0, QUEUED, NXMEM_FATE_GONE, 10, 0, NXMEM_SLOT_FREE},
    {"word: gone while its enqueue runs", 9, 1, QUEUING, NXMEM_FATE_GONE, 10, 0, NXMEM_SLOT_FREE},
    {"word: gone in the last generation", U32_MAX, 0, QUEUED, NXMEM_FATE_GONE, U32_MAX, 0, NXMEM_SLOT_RETIRED},
    {"word: live again", 9, 0, QUEUED, NXMEM_FATE_LIVE, 9, 0, LIVE},
    {"word: live again while its enqueue runs", 9, 1, QUEUING, NXMEM_FATE_LIVE, 9, 1, LIVE},
    {"word: live again, its round is no user", 9, 5, QUEUED, NXMEM_FATE_LIVE, 9, 0, LIVE},
    {"word: quarantined", 9, 2, QUEUED, NXMEM_FATE_QUARANTINED, 9, 0, KEPT},
    {"word: quarantined while its enqueue runs", 9, 1, QUEUING, NXMEM_FATE_QUARANTINED, 9, 0, KEPT},
};

static void test_settled(void **state) {
  const settled_row *row = *state;
  const uint64_t before = nxmem_word_make(row->generation, row->users, row->state);
  assert_int_equal(nxmem_word_settled(nxmem_word_won(before), row->fate),
                   nxmem_word_make(row->want_generation, row->want_users, row->want_state));
}

typedef struct won_row {
  const char *name;
  uint32_t generation, users, state;
  uint32_t want_users;
} won_row;

static const won_row won_rows[] = {
    {"won: queued in its fifth round", 9, 5, QUEUED, 0},
    {"won: its enqueue runs", 9, 1, QUEUING, 1},
    {"won: its enqueue runs, users to the brim", U32_MAX, NXMEM_USERS_MAX, QUEUING, NXMEM_USERS_MAX},
    {"won: neither", 9, 5, LIVE, 0},
};

static void test_won(void **state) {
  const won_row *row = *state;
  assert_int_equal(nxmem_word_won(nxmem_word_make(row->generation, row->users, row->state)),
                   nxmem_word_make(row->generation, row->want_users, NXMEM_SLOT_RELEASING));
}

typedef struct enqueue_row {
  const char *name;
  uint32_t code;
  uint64_t ticket;
  uint32_t generation, state;
  nxmem_enqueue_fate want;
} enqueue_row;

static const enqueue_row enqueue_rows[] = {
    {"enqueue: OK", 0, 5, 9, QUEUING, NXMEM_ENQUEUE_QUEUED},
    {"enqueue: OK with ticket 0", 0, 0, 9, QUEUING, NXMEM_ENQUEUE_QUEUED},
    {"enqueue: OK without a ticket", 0, ALL, 9, QUEUING, NXMEM_ENQUEUE_QUARANTINED},
    {"enqueue: refused", 14, ALL, 9, QUEUING, NXMEM_ENQUEUE_LIVE},
    {"enqueue: refused with a ticket", 14, 5, 9, QUEUING, NXMEM_ENQUEUE_LIVE},
    {"enqueue: a code nobody knows", U32_MAX, 5, 9, QUEUING, NXMEM_ENQUEUE_LIVE},
    {"enqueue: quarantined", 12, 5, 9, QUEUING, NXMEM_ENQUEUE_QUARANTINED},
    {"enqueue: completed first, freed", 0, 5, 10, NXMEM_SLOT_FREE, NXMEM_ENQUEUE_SETTLED},
    {"enqueue: completed first, and queuing for somebody else", 0, 5, 10, QUEUING, NXMEM_ENQUEUE_SETTLED},
    {"enqueue: completed first, live again", 0, 5, 9, LIVE, NXMEM_ENQUEUE_SETTLED},
    {"enqueue: completed first, no ticket", 0, ALL, 9, KEPT, NXMEM_ENQUEUE_SETTLED},
    {"enqueue: completed, then failed", 5, ALL, 10, NXMEM_SLOT_FREE, NXMEM_ENQUEUE_SETTLED_THEN_FAILED},
    {"enqueue: completed, then quarantined", 12, 5, 9, LIVE, NXMEM_ENQUEUE_SETTLED_THEN_FAILED},
};

static void test_enqueue(void **state) {
  const enqueue_row *row = *state;
  const uint64_t word = nxmem_word_make(row->generation, 1, row->state);
  assert_int_equal(nxmem_judge_enqueue(row->code, row->ticket, word, id_of(SLOT, GENERATION)), row->want);
}

/* ---- The table ---- */

enum { RECORDS = 5 };

typedef struct table_row {
  const char *name;
  uint64_t id; /* that the completion names */
  uint64_t owner, ticket;
  uint32_t code, release_state;
  uint32_t want_reason;
  int changes;
  uint64_t want_word;
} table_row;

static const table_row table_rows[] = {
    {"table: gone", 0x900000003ull, OWNER, TICKET, 0, 0, NXMEM_REASON_NONE, 2, 0xA00000000ull},
    {"table: live again", 0x900000003ull, OWNER, TICKET, 5, 2, NXMEM_REASON_NONE, 2, 0x900000002ull},
    {"table: quarantined", 0x900000003ull, OWNER, TICKET, 0, 1, NXMEM_REASON_NONE, 2, 0x900000004ull},
    {"table: the first slot", 0x900000001ull, OWNER, TICKET, 0, 0, NXMEM_REASON_NONE, 0, 0xA00000000ull},
    {"table: the last slot", 0x900000005ull, OWNER, TICKET, 0, 0, NXMEM_REASON_NONE, 4, 0xA00000000ull},
    {"table: one slot too far", 0x900000006ull, OWNER, TICKET, 0, 0, NXMEM_REASON_UNKNOWN_ALLOCATION, -1, 0},
    {"table: the last slot there could be", 0x9FFFFFFFFull, OWNER, TICKET, 0, 0, NXMEM_REASON_UNKNOWN_ALLOCATION, -1,
     0},
    {"table: no slot at all", 0x900000000ull, OWNER, TICKET, 0, 0, NXMEM_REASON_UNKNOWN_ALLOCATION, -1, 0},
    {"table: id 0", 0, OWNER, TICKET, 0, 0, NXMEM_REASON_UNKNOWN_ALLOCATION, -1, 0},
    {"table: another ticket", 0x900000003ull, OWNER, 7, 0, 0, NXMEM_REASON_OTHER_TICKET, -1, 0},
    {"table: another owner", 0x900000003ull, 78, TICKET, 0, 0, NXMEM_REASON_OTHER_OWNER, -1, 0},
};

static void fill(nxmem_release_record records[RECORDS]) {
  for (uint32_t i = 0; i < RECORDS; i++) records[i] = record_in(i, GENERATION, 0, QUEUED);
}

static void test_table(void **state) {
  const table_row *row = *state;
  nxmem_release_record *records = (nxmem_release_record *)(void *)nx_exact_block(RECORDS * sizeof *records);
  nxmem_release_record want[RECORDS];
  fill(records);
  fill(want);
  NxmemReleaseCompletion completion = completion_of(row->id, row->code, row->release_state);
  completion.ticket = row->ticket;
  if (row->changes >= 0) want[row->changes].word = row->want_word;
  const nxmem_verdict first = nxmem_settle(records, RECORDS, row->owner, &completion);
  assert_int_equal(first.reason, row->want_reason);
  assert_memory_equal(records, want, sizeof want);
  if (first.reason == NXMEM_REASON_UNKNOWN_ALLOCATION)
    nx_assert_verdict(first, (nxmem_verdict){NXMEM_REASON_UNKNOWN_ALLOCATION, 24, row->id, 0});
  const nxmem_verdict second = nxmem_settle(records, RECORDS, row->owner, &completion);
  assert_int_not_equal(second.reason, NXMEM_REASON_NONE);
  assert_memory_equal(records, want, sizeof want);
  free(records);
}

/* Live again is free to be claimed: once its enqueue has returned, or else once that thread leaves. */
static void test_claimable_again(void **state) {
  (void)state;
  nxmem_release_record record = record_in(0, GENERATION, 5, QUEUED);
  const NxmemReleaseCompletion failed = completion_of(record.allocation_id, 5, 2);
  nx_assert_verdict(nxmem_settle(&record, 1, OWNER, &failed), (nxmem_verdict)ALLOW);
  assert_true(nxmem_is_claimable(record.word, record.allocation_id));
  record.word = nxmem_word_make(GENERATION, 1, QUEUING);
  nx_assert_verdict(nxmem_settle(&record, 1, OWNER, &failed), (nxmem_verdict)ALLOW);
  nx_assert_verdict(nxmem_check_claim(record.word, record.allocation_id),
                    (nxmem_verdict){NXMEM_REASON_IN_USE, 0, 1, 0});
}

static void test_empty_table(void **state) {
  (void)state;
  const NxmemReleaseCompletion completion = completion_of(1, 0, 0);
  nxmem_release_record none = record_in(0, 0, 0, QUEUED);
  nx_assert_verdict(nxmem_settle(&none, 0, OWNER, &completion),
                    (nxmem_verdict){NXMEM_REASON_UNKNOWN_ALLOCATION, 24, 1, 0});
  assert_int_equal(none.word, QUEUED);
}

/* ---- Taking ---- */

static void fill_record(uint8_t *record, uint32_t size) {
  memset(record, 'q', 328);
  nx_put32(record, size);
  nx_put32(record + 4, 0x66666666u);
  for (uint32_t i = 8; i < 64; i += 8) nx_put64(record + i, 0x0000555500000000ull + i);
  nx_put32(record + 64, 5);
  nx_put32(record + 68, U32_MAX);
}

static void test_take(void **state) {
  (void)state;
  nx_watch watch;
  NxmemReleaseCompletion out;
  memset(&out, 0xC5, sizeof out);
  nx_watch_open(&watch, 328);
  fill_record(watch.record, 328);
  nx_watch_arm(&watch);
  const nxmem_verdict v = nxmem_completion_take((const volatile NxmemReleaseCompletion *)(void *)watch.record, &out);
  nx_watch_disarm(&watch);
  nx_watch_assert_single_fetch(&watch, 328);
  assert_int_equal(nx_watch_count(&watch, 4), 0);
  nx_assert_verdict(v, (nxmem_verdict)ALLOW);
  assert_int_equal(out.struct_size, 328);
  assert_int_equal(out.reserved, 0);
  for (uint32_t i = 8; i < 64; i += 8) assert_int_equal(nx_get64(&out, i), 0x0000555500000000ull + i);
  assert_int_equal(out.outcome.failure.code, 5);
  assert_int_equal(out.outcome.failure.message_len, 255);
  assert_int_equal(out.outcome.failure.message[254], 'q');
  assert_int_equal(out.outcome.failure.message[255], 0);
  nx_watch_close(&watch);
}

typedef struct short_row {
  const char *name;
  uint32_t size;
} short_row;

static const short_row short_rows[] = {
    {"short: 0", 0}, {"short: 4", 4}, {"short: 8", 8}, {"short: 32", 32}, {"short: 327", 327},
};

/* Behind the size stands a page without access: nothing more than the size may be looked at. */
static void test_short(void **state) {
  const short_row *row = *state;
  nx_fence fence;
  nx_fence_open(&fence, 8);
  nx_put32(fence.end - 8, row->size);
  NxmemReleaseCompletion out, before;
  memset(&out, 0xC5, sizeof out);
  before = out;
  nx_assert_verdict(nxmem_completion_take((const volatile NxmemReleaseCompletion *)(void *)(fence.end - 8), &out),
                    (nxmem_verdict){NXMEM_REASON_SHORT_COMPLETION, 0, row->size, 328});
  assert_memory_equal(&out, &before, sizeof out);
  nx_fence_close(&fence);
}

/* A larger record of a later minor is taken up to what is known of it. */
static void test_larger(void **state) {
  (void)state;
  nx_fence fence;
  nx_fence_open(&fence, 328);
  fill_record(fence.end - 328, U32_MAX);
  NxmemReleaseCompletion out;
  nx_assert_verdict(nxmem_completion_take((const volatile NxmemReleaseCompletion *)(void *)(fence.end - 328), &out),
                    (nxmem_verdict)ALLOW);
  assert_int_equal(out.struct_size, U32_MAX);
  nx_fence_close(&fence);
}

static void test_addresses(void **state) {
  (void)state;
  NxmemReleaseCompletion out, before;
  memset(&out, 0xC5, sizeof out);
  before = out;
  nx_assert_verdict(nxmem_completion_take(NULL, &out), (nxmem_verdict){NXMEM_REASON_NULL_POINTER, 0, 0, 0});
  const volatile NxmemReleaseCompletion *odd = (const volatile NxmemReleaseCompletion *)(uintptr_t)0x10004;
  nx_assert_verdict(nxmem_completion_take(odd, &out), (nxmem_verdict){NXMEM_REASON_MISALIGNED, 0, 4, 8});
  assert_memory_equal(&out, &before, sizeof out);
}

/* ---- Draining ---- */

typedef struct retired_row {
  const char *name;
  uint64_t reported, max, queued, told;
  nxmem_verdict want;
} retired_row;

#define BEYOND(reported, most) \
  { NXMEM_REASON_TOO_MANY_RETIRED, 0, reported, most }

static const retired_row retired_rows[] = {
    {"retired: none", 0, 5, 5, 0, ALLOW},
    {"retired: all that were asked for", 3, 3, 5, 3, ALLOW},
    {"retired: all that were queued", 3, 5, 3, 3, ALLOW},
    {"retired: one more than asked for", 4, 3, 5, 3, BEYOND(4, 3)},
    {"retired: one more than queued", 4, 5, 3, 3, BEYOND(4, 3)},
    {"retired: one of none", 1, ALL, 0, 0, BEYOND(1, 0)},
    {"retired: left unwritten", ALL, 7, 2, 2, BEYOND(ALL, 2)},
    {"retired: as many as there are numbers", ALL, ALL, ALL, ALL, ALLOW},
};

static void test_retired(void **state) {
  const retired_row *row = *state;
  nx_assert_verdict(nxmem_check_retired(row->reported, row->max, row->queued), row->want);
  assert_int_equal(nxmem_retired(row->reported, row->max, row->queued), row->told);
}

static void test_pending(void **state) {
  (void)state;
  nx_assert_verdict(nxmem_check_ticket(0, ALL), (nxmem_verdict){NXMEM_REASON_TICKET_UNWRITTEN, 0, 0, 0});
  nx_assert_verdict(nxmem_check_ticket(0, ALL - 1), (nxmem_verdict)ALLOW);
  nx_assert_verdict(nxmem_check_ticket(0, 0), (nxmem_verdict)ALLOW);
  nx_assert_verdict(nxmem_check_ticket(12, ALL), (nxmem_verdict)ALLOW);
  nx_assert_verdict(nxmem_check_pending(0), (nxmem_verdict)ALLOW);
  nx_assert_verdict(nxmem_check_pending(ALL - 1), (nxmem_verdict)ALLOW);
  nx_assert_verdict(nxmem_check_pending(ALL), (nxmem_verdict){NXMEM_REASON_COUNT_UNWRITTEN, 0, ALL, 0});
}

typedef struct drain_row {
  const char *name;
  uint32_t passes;
  uint64_t before, after;
  int goes_on;
} drain_row;

static const drain_row drain_rows[] = {
    {"drain: nothing queued", 0, 0, 0, 0},
    {"drain: the first pass", 0, 5, 5, 1},
    {"drain: after one that retired one", 1, 5, 4, 1},
    {"drain: after one that retired nothing", 1, 5, 5, 0},
    {"drain: after one behind which more were queued", 1, 5, 6, 0},
    {"drain: after the last one", 1, 5, 0, 0},
    {"drain: the sixteenth", 15, 5, 4, 1},
    {"drain: no seventeenth", 16, 5, 4, 0},
    {"drain: nor any later", U32_MAX, 5, 4, 0},
};

static void test_drain(void **state) {
  const drain_row *row = *state;
  assert_int_equal(nxmem_drain_goes_on(row->passes, row->before, row->after), row->goes_on);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(judge_rows), test_judge);
  nx_suite_add(&suite, "the slot has moved on", test_moved_on, NULL);
  nx_suite_rows(&suite, ROWS(fate_rows), test_fate);
  nx_suite_rows(&suite, ROWS(won_rows), test_won);
  nx_suite_rows(&suite, ROWS(settled_rows), test_settled);
  nx_suite_rows(&suite, ROWS(enqueue_rows), test_enqueue);
  nx_suite_rows(&suite, ROWS(table_rows), test_table);
  nx_suite_add(&suite, "table: live again is claimable", test_claimable_again, NULL);
  nx_suite_add(&suite, "table: empty", test_empty_table, NULL);
  nx_suite_add(&suite, "each field of a completion, loaded once", test_take, NULL);
  nx_suite_rows(&suite, ROWS(short_rows), test_short);
  nx_suite_add(&suite, "a record larger than known", test_larger, NULL);
  nx_suite_add(&suite, "NULL and misaligned records", test_addresses, NULL);
  nx_suite_rows(&suite, ROWS(retired_rows), test_retired);
  nx_suite_add(&suite, "pending counts", test_pending, NULL);
  nx_suite_rows(&suite, ROWS(drain_rows), test_drain);
  return nx_suite_run(&suite, "completion");
}
