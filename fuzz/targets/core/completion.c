/*
 * completion.c: which completions settle a queued release.
 * Attackers: duplicates, strangers, invented tickets, short records.
 * Promise: one call, its arguments in the order of the prototype; what a table of records may not lose is compared
 * here, because the translation of the contract cannot keep a whole table's old contents.
 */
#include "nxmem/completion.h"

#include <string.h>

#include "call.h"

enum { RECORDS_MAX = 4 };

static void run_nxmem_completion_take(core_call *call) {
  NxmemReleaseCompletion *out = core_room(call, sizeof *out);
  core_kept_unless_accepted(call, nxmem_completion_take(core_declared(call, sizeof *out), out));
}

static void run_nxmem_judge_completion(core_call *call) {
  const NxmemReleaseCompletion *completion = core_given_next(call, sizeof *completion);
  const nxmem_release_record *record = core_given_next(call, sizeof *record);
  nxmem_judge_completion(completion, record, fuzz_take_u64(&call->in));
}

static void run_nxmem_completion_fate(core_call *call) {
  const uint32_t status_code = fuzz_take_u32(&call->in);
  nxmem_completion_fate(status_code, fuzz_take_u32(&call->in));
}

static void run_nxmem_word_won(core_call *call) { nxmem_word_won(fuzz_take_u64(&call->in)); }

static void run_nxmem_word_settled(core_call *call) {
  const uint64_t word = fuzz_take_u64(&call->in);
  nxmem_word_settled(word, (nxmem_release_fate)(fuzz_take_u32(&call->in) % 3u));
}

/* Only the word of the record that settled may differ; none where settled is no index. */
static void expect_others_kept(core_call *call, nxmem_release_record *before, const nxmem_release_record *after,
                               uint32_t count, uint32_t settled) {
  if (settled < count) before[settled].word = after[settled].word;
  if (count != 0u && memcmp(before, after, count * sizeof *after) != 0)
    core_fail(call, "others", "a record changed that was not the one to settle, or more than its word");
}

/* Input: u32 count | four records, of which the function gets the first `count` | u64 owner | the completion. */
static void run_nxmem_settle(core_call *call) {
  const uint32_t count = fuzz_take_u32(&call->in) % (RECORDS_MAX + 1u);
  nxmem_release_record before[RECORDS_MAX];
  fuzz_take(&call->in, before, sizeof before);
  nxmem_release_record *records = core_changing(call, before, count * sizeof *records);
  const uint64_t owner = fuzz_take_u64(&call->in);
  const NxmemReleaseCompletion *completion = core_given_next(call, sizeof *completion);
  const nxmem_verdict v = nxmem_settle(records, count, owner, completion);
  const uint32_t named = (uint32_t)completion->allocation_id - 1u;
  expect_others_kept(call, before, records, count, v.reason == NXMEM_REASON_NONE ? named : count);
}

static void run_nxmem_judge_enqueue(core_call *call) {
  const uint32_t status_code = fuzz_take_u32(&call->in);
  const uint64_t ticket = fuzz_take_u64(&call->in);
  const uint64_t word = fuzz_take_u64(&call->in);
  nxmem_judge_enqueue(status_code, ticket, word, fuzz_take_u64(&call->in));
}

static void run_nxmem_retired(core_call *call) {
  const uint64_t reported = fuzz_take_u64(&call->in);
  const uint64_t max = fuzz_take_u64(&call->in);
  nxmem_retired(reported, max, fuzz_take_u64(&call->in));
}

static void run_nxmem_check_retired(core_call *call) {
  const uint64_t reported = fuzz_take_u64(&call->in);
  const uint64_t max = fuzz_take_u64(&call->in);
  nxmem_check_retired(reported, max, fuzz_take_u64(&call->in));
}

static void run_nxmem_check_ticket(core_call *call) {
  const uint32_t status_code = fuzz_take_u32(&call->in);
  nxmem_check_ticket(status_code, fuzz_take_u64(&call->in));
}

static void run_nxmem_check_pending(core_call *call) { nxmem_check_pending(fuzz_take_u64(&call->in)); }

static void run_nxmem_drain_goes_on(core_call *call) {
  const uint32_t passes = fuzz_take_u32(&call->in);
  const uint64_t before = fuzz_take_u64(&call->in);
  nxmem_drain_goes_on(passes, before, fuzz_take_u64(&call->in));
}

static const core_row rows[] = {
    CORE_ROW(nxmem_completion_take), CORE_ROW(nxmem_judge_completion), CORE_ROW(nxmem_completion_fate),
    CORE_ROW(nxmem_word_settled),    CORE_ROW(nxmem_settle),           CORE_ROW(nxmem_judge_enqueue),
    CORE_ROW(nxmem_retired),         CORE_ROW(nxmem_check_retired),    CORE_ROW(nxmem_check_pending),
    CORE_ROW(nxmem_drain_goes_on),   CORE_ROW(nxmem_check_ticket),     CORE_ROW(nxmem_word_won),
};
CORE_TOPIC(completion);
