/*
 * granules_test.c: the granules of a span as one, row by row.
 *
 * Attackers played: one granule among others that forbids what all are asked for.
 * Promise: all of a span changes, or none of it; runs are whole; costs are counted exactly.
 */
#include "nxmem/granules.h"

#include "support.h"

enum { MOST_GRANULES = 8 };

/*
 * A span as a text, a letter a granule: '.' free, 't' taken, 'h' held, '2' held by two, 'l' left, 'p' poisoned and left,
 * 'P' poisoned and held, 'q' quarantined, 'Q' quarantined and held, 's' a sharer's, 'o' the owner's, 'v' left by a
 * sharer, 'f' full.
 */
static nxmem_granule granule_of(char letter) {
  static const struct {
    char letter;
    nxmem_granule granule;
  } kinds[] = {
      {'.', {0, 0, 0, 0, 0}},
      {'t', {1, 0, 0, 0, 0}},
      {'h', {1, 1, 0, 0, 0}},
      {'2', {2, 1, 0, 0, 0}},
      {'l', {0, 1, 0, 0, 0}},
      {'p', {0, 1, 1, 0, 0}},
      {'P', {1, 1, 1, 0, 0}},
      {'q', {0, 0, 0, 1, 0}},
      {'Q', {1, 1, 0, 1, 0}},
      {'s', {1, 3, 0, 0, 0}},
      {'o', {1, 2, 0, 0, 0}},
      {'v', {0, 3, 0, 0, 0}},
      {'f', {NXMEM_REFERENCES_MAX, 1, 0, 0, 0}},
  };
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
    if (kinds[i].letter == letter) return kinds[i].granule;
  fail_msg("no granule is '%c'", letter);
  return kinds[0].granule;
}

/* A block that ends with the span's last granule. The caller frees it. */
static nxmem_granule *span_of(const char *text) {
  nxmem_granule *granules = (nxmem_granule *)(void *)nx_exact_block(strlen(text) * sizeof(nxmem_granule));
  for (size_t i = 0; text[i] != '\0'; i++) granules[i] = granule_of(text[i]);
  return granules;
}

static void assert_all_valid(const nxmem_granule *granules, size_t count) {
  for (size_t i = 0; i < count; i++) assert_true(nxmem_granule_is_valid(&granules[i]));
}

/* ---- What all are asked for ---- */

typedef struct all_row {
  const char *name, *span;
  uint32_t take, drop, unmap, decommit; /* the reason each is refused with */
  uint64_t at[4];                       /* and the index of the first that refuses */
} all_row;

#define R(reason) NXMEM_REASON_##reason

static const all_row all_rows[] = {
    {"all: of none", "", 0, 0, 0, 0, {0, 0, 0, 0}},
    {"all: free", "...", 0, R(NO_REFERENCE), R(NOT_MAPPED), 0, {0, 0, 0, 0}},
    {"all: held", "hhh", 0, 0, R(IN_USE), 0, {0, 0, 0, 0}},
    {"all: left", "lll", 0, R(NO_REFERENCE), 0, 0, {0, 0, 0, 0}},
    {"all: left by a sharer at the end", "llv", R(SHARED), R(NO_REFERENCE), 0, R(SHARED), {2, 0, 0, 2}},
    {"all: one free among held", "hh.h", 0, R(NO_REFERENCE), R(IN_USE), 0, {0, 2, 0, 0}},
    {"all: one held among left", "lhl", 0, R(NO_REFERENCE), R(IN_USE), 0, {0, 0, 1, 0}},
    {"all: one poisoned, last", "hhP", R(POISONED), 0, R(IN_USE), R(POISONED), {2, 0, 0, 2}},
    {"all: one poisoned among left", "lplp", R(POISONED), R(NO_REFERENCE), R(POISONED), R(POISONED), {1, 0, 1, 1}},
    {"all: one quarantined, first",
     "qhh",
     R(QUARANTINED),
     R(NO_REFERENCE),
     R(NOT_MAPPED),
     R(QUARANTINED),
     {0, 0, 0, 0}},
    {"all: one quarantined and held", "hQh", R(QUARANTINED), 0, R(IN_USE), R(QUARANTINED), {1, 0, 0, 1}},
    {"all: a sharer's", "hhs", R(SHARED), 0, R(IN_USE), R(SHARED), {2, 0, 0, 2}},
    {"all: the owner's", "oo", R(SHARED), 0, R(IN_USE), R(SHARED), {0, 0, 0, 0}},
    {"all: one full", "h2f", R(TOO_MANY_REFERENCES), 0, R(IN_USE), R(IN_USE), {2, 0, 0, 1}},
    {"all: the first refusal counts", "hsP", R(SHARED), 0, R(IN_USE), R(SHARED), {1, 0, 0, 1}},
    {"all: taken", "tt", 0, 0, R(NOT_MAPPED), 0, {0, 0, 0, 0}},
    {"all: others hold one", "h2h", 0, 0, R(IN_USE), R(IN_USE), {0, 0, 0, 1}},
};

static void assert_refused(nxmem_verdict v, uint32_t reason, uint64_t at) {
  nx_assert_verdict(v, (nxmem_verdict){reason, 0, reason == 0u ? 0u : at, 0});
}

static void check_looks(const all_row *row) {
  nxmem_granule *granules = span_of(row->span);
  const size_t count = strlen(row->span);
  assert_refused(nxmem_check_granules_take(granules, count), row->take, row->at[0]);
  assert_refused(nxmem_check_granules_decommit(granules, count), row->decommit, row->at[3]);
  free(granules);
}

/* Each granule as it was, or, where the step was accepted, changed in one field. */
static void assert_changed(const all_row *row, const nxmem_granule *granules, int references, int unmapped) {
  const size_t count = strlen(row->span);
  for (size_t i = 0; i < count; i++) {
    nxmem_granule want = granule_of(row->span[i]);
    want.references += (uint32_t)references;
    if (unmapped) want.mapping = NXMEM_MAPPING_NONE;
    assert_memory_equal(&granules[i], &want, sizeof want);
  }
  assert_all_valid(granules, count);
}

static void check_take(const all_row *row) {
  nxmem_granule *granules = span_of(row->span);
  assert_refused(nxmem_granules_take(granules, strlen(row->span)), row->take, row->at[0]);
  assert_changed(row, granules, row->take == 0u ? 1 : 0, 0);
  free(granules);
}

static void check_drop(const all_row *row) {
  nxmem_granule *granules = span_of(row->span);
  assert_refused(nxmem_granules_drop(granules, strlen(row->span)), row->drop, row->at[1]);
  assert_changed(row, granules, row->drop == 0u ? -1 : 0, 0);
  free(granules);
}

static void check_unmapped(const all_row *row) {
  nxmem_granule *granules = span_of(row->span);
  assert_refused(nxmem_granules_unmapped(granules, strlen(row->span)), row->unmap, row->at[2]);
  assert_changed(row, granules, 0, row->unmap == 0u);
  free(granules);
}

static void check_quarantine(const all_row *row) {
  nxmem_granule *granules = span_of(row->span);
  const size_t count = strlen(row->span);
  nxmem_granules_quarantine(granules, count);
  for (size_t i = 0; i < count; i++) {
    nxmem_granule want = granule_of(row->span[i]);
    want.quarantined = 1u;
    assert_memory_equal(&granules[i], &want, sizeof want);
  }
  assert_all_valid(granules, count);
  free(granules);
}

static void test_all(void **state) {
  check_looks(*state);
  check_take(*state);
  check_drop(*state);
  check_unmapped(*state);
  check_quarantine(*state);
}

/* ---- Runs, and what they cost ---- */

typedef struct run_row {
  const char *name, *span;
  uint32_t kind;
  const char *runs; /* each granule by the run that it belongs to, '-' for none */
} run_row;

#define K(kind) NXMEM_GRANULE_##kind

static const run_row run_rows[] = {
    {"run: of none", "", K(MUST_MAP), ""},
    {"run: none to be mapped", "h.lpq", K(MUST_MAP), "-----"},
    {"run: all to be mapped", "ttt", K(MUST_MAP), "AAA"},
    {"run: to be mapped, around held ones", "tthtt", K(MUST_MAP), "AA-BB"},
    {"run: to be mapped, at both ends", "t.htht", K(MUST_MAP), "A--B-C"},
    {"run: to be unmapped", "hllhvp", K(MUST_UNMAP), "-AA-B-"},
    {"run: a poisoned one ends it", "lpll", K(MUST_UNMAP), "A-BB"},
    {"run: none to be unmapped", "htp.", K(MUST_UNMAP), "----"},
    {"run: nobody refers to", "h.lpt2q", K(UNREFERRED), "-AAA--B"},
    {"run: somebody refers to", "h.lpt2q", K(REFERRED), "A---BB-"},
    {"run: of every second", "t.t.t.t.", K(REFERRED), "A-B-C-D-"},
};

static void test_runs(void **state) {
  const run_row *row = *state;
  nxmem_granule *granules = span_of(row->span);
  const size_t count = strlen(row->span);
  char found[MOST_GRANULES + 1] = "";
  memset(found, '-', count);
  nxmem_granule_run run = {0, 0};
  uint64_t from = 0;
  for (char letter = 'A'; nxmem_granules_next_run(granules, count, from, row->kind, &run); letter++) {
    assert_true(run.count >= 1 && run.first >= from && run.first + run.count <= count);
    memset(found + run.first, letter, run.count);
    from = run.first + run.count;
  }
  assert_string_equal(found, row->runs);
  for (size_t i = 0; i < count; i++) assert_int_equal(nxmem_granule_is(&granules[i], row->kind), row->runs[i] != '-');
  free(granules);
}

static void test_run_from_inside(void **state) {
  nxmem_granule *granules = span_of("httth");
  nxmem_granule_run run = {7, 7};
  (void)state;
  assert_int_equal(nxmem_granules_next_run(granules, 5, 2, K(MUST_MAP), &run), 1);
  assert_int_equal(run.first, 2);
  assert_int_equal(run.count, 2);
  assert_int_equal(nxmem_granules_next_run(granules, 5, 4, K(MUST_MAP), &run), 0);
  assert_int_equal(nxmem_granules_next_run(granules, 5, 5, K(MUST_MAP), &run), 0);
  assert_int_equal(run.first, 2);
  assert_int_equal(run.count, 2);
  free(granules);
}

typedef struct cost_row {
  const char *name, *span;
  uint64_t cost;
} cost_row;

static const cost_row cost_rows[] = {
    {"cost: of none", "", 0},          {"cost: of free ones", "....", 4},  {"cost: of held ones", "h2lpPso", 0},
    {"cost: the last one", "hhh.", 1}, {"cost: the first one", ".hhh", 1}, {"cost: taken and quarantined", "tqh.", 3},
};

static void test_cost(void **state) {
  const cost_row *row = *state;
  nxmem_granule *granules = span_of(row->span);
  assert_int_equal(nxmem_granules_cost(granules, strlen(row->span)), row->cost);
  free(granules);
}

/* What a commit does, is undone, and what a release does: the steps together. */
static void test_life(void **state) {
  nxmem_granule *granules = span_of("..h.");
  nxmem_granule_run run;
  (void)state;
  assert_int_equal(nxmem_granules_cost(granules, 4), 3);
  assert_int_equal(nxmem_granules_take(granules, 4).reason, NXMEM_REASON_NONE);
  assert_int_equal(nxmem_granules_next_run(granules, 4, 0, K(MUST_MAP), &run), 1);
  assert_int_equal(run.count, 2);
  assert_int_equal(nxmem_granule_mapped(&granules[0], NXMEM_MAPPING_PRIVATE).reason, NXMEM_REASON_NONE);
  /* The second fails: all is undone. */
  assert_int_equal(nxmem_granules_drop(granules, 4).reason, NXMEM_REASON_NONE);
  assert_int_equal(nxmem_granules_next_run(granules, 4, 0, K(MUST_UNMAP), &run), 1);
  assert_int_equal(run.first, 0);
  assert_int_equal(run.count, 1);
  assert_int_equal(nxmem_granules_unmapped(granules, run.count).reason, NXMEM_REASON_NONE);
  assert_int_equal(nxmem_granules_next_run(granules, 4, 0, K(MUST_UNMAP), &run), 0);
  for (size_t i = 0; i < 4; i++) {
    const nxmem_granule want = granule_of("..h."[i]);
    assert_memory_equal(&granules[i], &want, sizeof want);
    assert_true(nxmem_granule_rests(&granules[i]));
  }
  free(granules);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(all_rows), test_all);
  nx_suite_rows(&suite, ROWS(run_rows), test_runs);
  nx_suite_add(&suite, "run: from inside another, and from the end", test_run_from_inside, NULL);
  nx_suite_rows(&suite, ROWS(cost_rows), test_cost);
  nx_suite_add(&suite, "a commit that fails half way leaves every granule as it was", test_life, NULL);
  return nx_suite_run(&suite, "granules");
}
