/*
 * charge_test.c: what an allocation is charged with, when commits and decommits fail, lie, overlap or race.
 *
 * Attackers played: plugins that map half and say they failed, unmap more than was mapped, leave their count unwritten,
 * say how much is committed and lie; threads at one allocation; a release in the middle.
 * Promise: what is unknown stays charged until the plugin says what there is, and that is believed only where it is
 * possible; with an honest plugin the books are exact when all have left.
 */
#include <pthread.h>
#include <unistd.h>

#include "nxmem/outcome.h"
#include "puppet_backing.h"

#define ALL_ONES 0xFFFFFFFFFFFFFFFFull
#define G NX_PLAY_GRANULE

static const NxmemByteRange two = {2 * G, 2 * G};

static uint64_t violations(nxmem_host host) { return nx_counts(host).contract_violations; }

/* ---- A commit that fails ----------------------------------------------------------------------------------------- */

typedef struct fail_row {
  const char *name;
  nx_modes modes;
  int half;                 /* one granule is mapped all the same */
  nx_play_number committed; /* what the plugin says there is then */
  int no_slot;              /* it cannot be asked */
  uint64_t charged;         /* in granules; one was before */
} fail_row;

#define TRUTH \
  { 0, 0, 0, 0 }
#define OWN(value) \
  { 0, 1, value, 0 }

static const fail_row fail_rows[] = {
    {"nothing was mapped", 0, 0, TRUTH, 0, 1},
    {"half was mapped", 0, 1, TRUTH, 0, 2},
    {"what is mapped cannot be asked", 0, 0, TRUTH, 1, 3},
    {"the question fails", 0, 0, {5, 0, 0, 0}, 0, 3},
    {"the question says quarantined", 0, 0, {12, 0, 0, 0}, 0, 3},
    {"the answer is left unwritten", 0, 0, {0, 0, 0, 1}, 0, 3},
    {"the answer is more than was charged", 0, 0, OWN(5 * G), 0, 5},
    {"the answer is more than possible", 0, 0, OWN(0x40000001ull), 0, 3},
    {"the answer is 2^64-1", 0, 0, OWN(ALL_ONES), 0, 3},
    {"the answer is all that was charged", 0, 0, OWN(3 * G), 0, 3},
    {"the answer is nothing at all", 0, 0, OWN(0), 0, 0},
};

static nx_stage set(const nx_case *c, int no_slot) {
  nx_play_reset();
  if (no_slot) puppet.backing.committed_bytes = NULL;
  return nx_stage_set(c->mode);
}

static void test_failed_commit(void **state) {
  const nx_case *c = *state;
  const fail_row *row = c->row;
  nx_stage stage = set(c, row->no_slot);
  const nxmem_allocation block = nx_must_reserve(stage.allocator, 8 * G, 1);
  play.commit_code = NXMEM_STATUS_OUT_OF_MEMORY;
  play.half_commit = row->half;
  play.committed = row->committed;
  nxmem_error error = nx_blank_error();
  const nx_refusal want = {NXMEM_ERR_PLUGIN, 0, 0, 0, 0, NXMEM_STATUS_OUT_OF_MEMORY};
  nx_assert_refused(nxmem_commit(stage.allocator, block, two, &error), &error, want);
  assert_int_equal(nx_play_calls(NX_PLAY_COMMIT), 1);
  assert_int_equal(nx_play_calls(NX_PLAY_COMMITTED), row->no_slot ? 0 : 1);
  assert_int_equal(nx_charged(stage.allocator), row->charged * G);
  assert_int_equal(violations(stage.host), 0);
  play.commit_code = NXMEM_STATUS_OK; /* still live, and may be tried again */
  play.half_commit = 0;
  play.committed = (nx_play_number)TRUTH;
  assert_int_equal(nxmem_commit(stage.allocator, block, two, NULL), NXMEM_OK);
  assert_int_equal(nx_play_calls(NX_PLAY_COMMITTED), row->no_slot ? 0 : 1);
  nx_must_release(stage.allocator, block);
  nx_stage_strike(&stage);
}

/* ---- Decommits --------------------------------------------------------------------------------------------------- */

typedef struct credit_row {
  const char *name;
  nx_modes modes;
  nx_play_number unmapped;
  nx_play_number committed;
  nxmem_result result;
  uint64_t out;     /* in granules, where the call succeeds */
  uint64_t charged; /* in granules; three were before, two of them are asked for */
  uint64_t violations;
  uint64_t asked; /* how often it was asked what is committed */
} credit_row;

static const credit_row credit_rows[] = {
    {"what was unmapped", 0, TRUTH, TRUTH, NXMEM_OK, 2, 1, 0, 0},
    {"less than was unmapped", 0, OWN(G), TRUTH, NXMEM_OK, 1, 2, 0, 0},
    {"nothing", 0, OWN(0), TRUTH, NXMEM_OK, 0, 3, 0, 0},
    {"all that is charged", 0, OWN(3 * G), TRUTH, NXMEM_OK, 3, 0, 0, 0},
    {"one granule more than is charged", 0, OWN(4 * G), TRUTH, NXMEM_OK, 3, 0, 1, 0},
    {"2^64-2", 0, OWN(ALL_ONES - 1), TRUTH, NXMEM_OK, 3, 0, 1, 0},
    {"2^64-1, which is what was there before the call", 0, OWN(ALL_ONES), TRUTH, NXMEM_OK, 0, 1, 1, 1},
    {"left unwritten", 0, {0, 0, 0, 1}, TRUTH, NXMEM_OK, 0, 1, 1, 1},
    {"left unwritten, and nobody knows", 0, {0, 0, 0, 1}, OWN(ALL_ONES), NXMEM_OK, 0, 3, 1, 1},
    {"refused, though it unmapped", 0, {7, 0, 0, 0}, TRUTH, NXMEM_ERR_PLUGIN, 0, 1, 0, 1},
    {"refused, and the question too", 0, {7, 0, 0, 0}, {7, 0, 0, 0}, NXMEM_ERR_PLUGIN, 0, 3, 0, 1},
};

static void test_decommit(void **state) {
  const nx_case *c = *state;
  const credit_row *row = c->row;
  nx_stage stage = set(c, 0);
  const nxmem_allocation block = nx_must_reserve(stage.allocator, 8 * G, 13); /* granules 0, 2, 3 */
  play.unmapped = row->unmapped;
  play.committed = row->committed;
  uint64_t out = 0x5A5A;
  nxmem_error error = nx_blank_error();
  assert_int_equal(nxmem_decommit(stage.allocator, block, two, &out, &error), row->result);
  assert_int_equal(out, row->result == NXMEM_OK ? row->out * G : 0x5A5A);
  if (row->result != NXMEM_OK) assert_int_equal(error.plugin_status, row->unmapped.code);
  assert_int_equal(nx_charged(stage.allocator), row->charged * G);
  assert_int_equal(violations(stage.host), row->violations);
  assert_int_equal(nx_play_calls(NX_PLAY_COMMITTED), row->asked);
  puppet.own_release = 1; /* the last release takes what is left, whatever was said before */
  puppet.outcome = (NxmemReleaseOutcome){.struct_size = sizeof puppet.outcome, .state = NXMEM_RELEASE_COMPLETE};
  nx_must_release(stage.allocator, block);
  free(block.ptr);
  atomic_fetch_sub(&puppet.live_allocations, 1);
  nx_stage_strike(&stage);
}

/* The count need not be asked for. */
static void test_no_out(void **state) {
  const nx_case *c = *state;
  nx_stage stage = set(c, 0);
  const nxmem_allocation block = nx_must_reserve(stage.allocator, 8 * G, 13);
  assert_int_equal(nxmem_decommit(stage.allocator, block, two, NULL, NULL), NXMEM_OK);
  assert_int_equal(nx_charged(stage.allocator), G);
  nx_must_release(stage.allocator, block);
  nx_stage_strike(&stage);
}

/* ---- From inside a call ------------------------------------------------------------------------------------------ */

static nx_stage *stage_inside;
static nxmem_allocation block_inside;
static nxmem_result results_inside[4];

static void release_inside(nx_play_slot slot) {
  if (slot != NX_PLAY_COMMIT && slot != NX_PLAY_DECOMMIT && slot != NX_PLAY_COST) return;
  play.inside = NULL;
  nxmem_error error = nx_blank_error();
  results_inside[0] = nxmem_release(stage_inside->allocator, block_inside, NULL, &error);
  nx_assert_line(error.message, sizeof error.message);
  results_inside[1] = nxmem_enqueue_release(stage_inside->allocator, block_inside, NULL, NULL, NULL);
  results_inside[2] = nxmem_allocator_close(stage_inside->allocator, 0, NULL);
}

typedef struct inside_row {
  const char *name;
  nx_modes modes;
  nx_play_slot slot;
} inside_row;

static const inside_row inside_rows[] = {{"a release inside a commit", 0, NX_PLAY_COMMIT},
                                         {"a release inside a decommit", 0, NX_PLAY_DECOMMIT},
                                         {"a release inside the question what it costs", 0, NX_PLAY_COST}};

static void test_release_inside(void **state) {
  const nx_case *c = *state;
  const inside_row *row = c->row;
  nx_stage stage = set(c, 0);
  stage_inside = &stage;
  block_inside = nx_must_reserve(stage.allocator, 8 * G, 1);
  play.inside = release_inside;
  if (row->slot == NX_PLAY_DECOMMIT)
    assert_int_equal(nxmem_decommit(stage.allocator, block_inside, two, NULL, NULL), NXMEM_OK);
  else
    assert_int_equal(nxmem_commit(stage.allocator, block_inside, two, NULL), NXMEM_OK);
  for (int i = 0; i < 3; i++) assert_int_equal(results_inside[i], NXMEM_ERR_BUSY);
  assert_int_equal(nx_play_calls(NX_PLAY_RELEASE), 0);
  /* The close that was tried from inside keeps the gate shut until it is tried again. */
  assert_int_equal(nxmem_release(stage.allocator, block_inside, NULL, NULL), NXMEM_ERR_BUSY);
  assert_int_equal(nxmem_allocator_close(stage.allocator, 0, NULL), NXMEM_ERR_BUSY);
  nx_must_release(stage.allocator, block_inside);
  nx_stage_strike(&stage);
}

/* A commit inside a commit of the same granules: both charge them, and the last to leave settles it. */
static void commit_inside(nx_play_slot slot) {
  if (slot != NX_PLAY_COMMIT) return;
  play.inside = NULL;
  results_inside[0] = nxmem_commit(stage_inside->allocator, block_inside, two, NULL);
  results_inside[1] = (nxmem_result)(nx_charged(stage_inside->allocator) / G);
}

static void test_commit_inside(void **state) {
  const nx_case *c = *state;
  nx_stage stage = set(c, 0);
  stage_inside = &stage;
  block_inside = nx_must_reserve(stage.allocator, 8 * G, 1);
  play.inside = commit_inside;
  assert_int_equal(nxmem_commit(stage.allocator, block_inside, two, NULL), NXMEM_OK);
  assert_int_equal(results_inside[0], NXMEM_OK);
  assert_int_equal(results_inside[1], 5); /* charged twice while the first was inside */
  assert_int_equal(nx_play_calls(NX_PLAY_COMMITTED), 1);
  assert_int_equal(nx_charged(stage.allocator), 3 * G);
  assert_int_equal(nx_play_mapped(), 3 * G);
  nx_must_release(stage.allocator, block_inside);
  assert_int_equal(nx_charged(stage.allocator), 0);
  nx_stage_strike(&stage);
}

/* Somebody comes while the last one asks: the answer may be old, so it is asked again, and not for ever. */
static void commit_while_settling(nx_play_slot slot) {
  if (slot != NX_PLAY_COMMITTED) return;
  play.inside = NULL;
  const NxmemByteRange other = {6 * G, G};
  results_inside[0] = nxmem_commit(stage_inside->allocator, block_inside, other, NULL);
}
static uint64_t later_granule;
static void commit_whenever_settling(nx_play_slot slot) {
  if (slot != NX_PLAY_COMMITTED) return;
  const NxmemByteRange other = {later_granule++ * G, G}; /* another one each time */
  results_inside[0] = nxmem_commit(stage_inside->allocator, block_inside, other, NULL);
}

typedef struct settle_row {
  const char *name;
  nx_modes modes;
  void (*inside)(nx_play_slot slot);
  uint64_t asked;
  int settled; /* in the end the books are exact */
} settle_row;

static const settle_row settle_rows[] = {{"a commit while the last one asks", 0, commit_while_settling, 2, 1},
                                         {"a commit whenever the last one asks", 0, commit_whenever_settling, 4, 0}};

static void test_settling(void **state) {
  const nx_case *c = *state;
  const settle_row *row = c->row;
  nx_stage stage = set(c, 0);
  stage_inside = &stage;
  block_inside = nx_must_reserve(stage.allocator, 8 * G, 1);
  play.commit_code = NXMEM_STATUS_DEVICE_ERROR;
  play.half_commit = 1;
  play.inside = row->inside;
  later_granule = 4;
  assert_int_equal(nxmem_commit(stage.allocator, block_inside, two, NULL), NXMEM_ERR_PLUGIN);
  play.inside = NULL;
  assert_int_equal(nx_play_calls(NX_PLAY_COMMITTED), row->asked);
  assert_true(nx_charged(stage.allocator) >= nx_play_mapped()); /* never too little */
  if (row->settled) assert_int_equal(nx_charged(stage.allocator), nx_play_mapped());
  play.commit_code = NXMEM_STATUS_OK;
  play.half_commit = 0;
  nx_must_release(stage.allocator, block_inside); /* and nobody is left in it */
  nx_stage_strike(&stage);
}

/*
 * A granule is taken away under a commit that counts on it, and once more behind it, before anybody asked: more comes
 * back than is charged, and that is nobody's fault.
 */
static void take_away(nx_play_slot slot) {
  if (slot != NX_PLAY_COMMIT && slot != NX_PLAY_COMMITTED) return;
  if (slot == NX_PLAY_COMMITTED) play.inside = NULL;
  const int which = slot == NX_PLAY_COMMITTED;
  results_inside[which] = nxmem_decommit(stage_inside->allocator, block_inside, (NxmemByteRange){0, G}, NULL, NULL);
}

static void test_taken_away(void **state) {
  const nx_case *c = *state;
  nx_stage stage = set(c, 0);
  stage_inside = &stage;
  block_inside = nx_must_reserve(stage.allocator, 8 * G, 1);
  play.inside = take_away;
  assert_int_equal(nxmem_commit(stage.allocator, block_inside, (NxmemByteRange){0, G}, NULL), NXMEM_OK);
  assert_int_equal(results_inside[0], NXMEM_OK);
  assert_int_equal(results_inside[1], NXMEM_OK);
  assert_int_equal(nx_play_calls(NX_PLAY_DECOMMIT), 2);
  assert_int_equal(nx_play_mapped(), 0);
  assert_int_equal(nx_charged(stage.allocator), 0);
  assert_int_equal(violations(stage.host), 0);
  nx_must_release(stage.allocator, block_inside);
  nx_stage_strike(&stage);
}

/*
 * A release that completes as failed inside its own enqueue is live again with the enqueuer still in it: a commit
 * joins, and nobody stays behind.
 */
static void fail_and_commit(nx_place_inside place) {
  if (place != NX_IN_ENQUEUE) return;
  puppet.inside = NULL;
  const NxmemReleaseCompletion completion = {.struct_size = sizeof completion,
                                             .mechanism_id = 77,
                                             .allocation_id = block_inside.id,
                                             .outcome = {.struct_size = sizeof completion.outcome,
                                                         .state = NXMEM_RELEASE_FAILED,
                                                         .failure = {.code = NXMEM_STATUS_BUSY}}};
  const NxmemStatus answer = puppet.callbacks->release_completed(puppet.callbacks->host_ctx, &completion);
  assert_int_equal(answer.code, NXMEM_STATUS_OK);
  results_inside[0] = nxmem_commit(stage_inside->allocator, block_inside, two, NULL);
  results_inside[1] = nxmem_release(stage_inside->allocator, block_inside, NULL, NULL);
}

static void test_commit_inside_enqueue(void **state) {
  const nx_case *c = *state;
  nx_stage stage = set(c, 0);
  stage_inside = &stage;
  block_inside = nx_must_reserve(stage.allocator, 8 * G, 1);
  puppet.inside = fail_and_commit;
  puppet.enqueue_code = NXMEM_STATUS_DEVICE_ERROR;
  assert_int_equal(nxmem_enqueue_release(stage.allocator, block_inside, NULL, NULL, NULL), NXMEM_ERR_PLUGIN);
  assert_int_equal(results_inside[0], NXMEM_OK);
  assert_int_equal(results_inside[1], NXMEM_ERR_BUSY);
  assert_int_equal(nx_charged(stage.allocator), 3 * G);
  nx_must_release(stage.allocator, block_inside);
  nx_stage_strike(&stage);
}

/* ---- Many threads ------------------------------------------------------------------------------------------------ */

enum { THREADS = 8, ROUNDS = 400 };

typedef struct worker {
  pthread_t thread;
  uint64_t seed;
  nx_stage *stage;
  nxmem_allocation *blocks;
  int own; /* its index */
} worker;

static uint64_t next(worker *w) {
  w->seed = w->seed * 6364136223846793005ull + 1442695040888963407ull;
  return w->seed >> 33;
}

/* Commits and decommits anywhere in two blocks that all share; and a block of its own that comes and goes. */
static void *work(void *arg) {
  worker *w = arg;
  for (int i = 0; i < ROUNDS; i++) {
    const uint64_t first = next(w) % 60;
    const NxmemByteRange range = {first * G, (1 + next(w) % 4) * G};
    const nxmem_allocation block = w->blocks[next(w) % 2];
    nxmem_result r;
    if (next(w) % 2 == 0)
      r = nxmem_commit(w->stage->allocator, block, range, NULL);
    else
      r = nxmem_decommit(w->stage->allocator, block, range, NULL, NULL);
    if (r != NXMEM_OK) return "a call failed";
    if (i % 16 != 0) continue;
    const nxmem_allocation own = nx_must_reserve(w->stage->allocator, 4 * G, 5);
    if (nxmem_commit(w->stage->allocator, own, (NxmemByteRange){G, G}, NULL) != NXMEM_OK) return "own commit";
    if (nxmem_release(w->stage->allocator, own, NULL, NULL) != NXMEM_OK) return "own release";
  }
  return NULL;
}

static void test_threads(void **state) {
  const nx_case *c = *state;
  nx_stage stage = set(c, 0);
  puppet.concurrent = 1;
  nxmem_allocation blocks[2];
  for (int i = 0; i < 2; i++) blocks[i] = nx_must_reserve(stage.allocator, 64 * G, 1);
  worker workers[THREADS];
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){.seed = (uint64_t)i + 1, .stage = &stage, .blocks = blocks, .own = i};
    assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    void *failed = NULL;
    assert_int_equal(pthread_join(workers[i].thread, &failed), 0);
    if (failed != NULL) fail_msg("%s", (const char *)failed);
  }
  assert_int_equal(nx_counts(stage.host).live_allocations, 2);
  assert_int_equal(nx_charged(stage.allocator), nx_play_mapped());
  assert_int_equal(violations(stage.host), 0);
  for (int i = 0; i < 2; i++) nx_must_release(stage.allocator, blocks[i]); /* nobody is left in them */
  assert_int_equal(nx_charged(stage.allocator), 0);
  puppet.concurrent = 0;
  nx_stage_strike(&stage);
}

#define ONE(name, test) static const nx_row_head name##_rows[] = {{test, NX_BOTH_MODES}}
ONE(out, "a decommit whose count nobody asks for");
ONE(commit, "a commit inside a commit");
ONE(taken, "a granule taken away under a commit");
ONE(enqueue, "a commit inside an enqueue");
ONE(thread, "eight threads at two allocations");

int main(void) {
  alarm(250);
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(fail_rows), test_failed_commit);
  nx_suite_modes(&suite, ROWS(credit_rows), test_decommit);
  nx_suite_modes(&suite, ROWS(out_rows), test_no_out);
  nx_suite_modes(&suite, ROWS(inside_rows), test_release_inside);
  nx_suite_modes(&suite, ROWS(commit_rows), test_commit_inside);
  nx_suite_modes(&suite, ROWS(taken_rows), test_taken_away);
  nx_suite_modes(&suite, ROWS(enqueue_rows), test_commit_inside_enqueue);
  nx_suite_modes(&suite, ROWS(settle_rows), test_settling);
  nx_suite_modes(&suite, ROWS(thread_rows), test_threads);
  return nx_suite_run(&suite, "host_charge");
}
