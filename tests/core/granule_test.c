/*
 * granule_test.c: one granule: what each step does to it, row by row, and to what all sequences of steps lead.
 *
 * Attackers played: steps that come twice, in the wrong order, or to a granule that must not be touched.
 * Promise: a refused step changes nothing; whatever the order, the invariants hold.
 */
#include "nxmem/granule.h"

#include "support.h"

enum {
  NONE = NXMEM_MAPPING_NONE,
  PRIVATE = NXMEM_MAPPING_PRIVATE,
  OWNER = NXMEM_MAPPING_OWNER,
  SHARER = NXMEM_MAPPING_SHARER
};
#define MOST NXMEM_REFERENCES_MAX
#define ALLOW \
  { NXMEM_REASON_NONE, 0, 0, 0 }
#define NO(reason, found, needed) \
  { NXMEM_REASON_##reason, 0, found, needed }

/* ---- What a granule is ---- */

typedef struct is_row {
  const char *name;
  nxmem_granule granule;
  int valid, rests, must_map, must_unmap;
} is_row;

static const is_row is_rows[] = {
    {"is: free", {0, NONE, 0, 0, 0}, 1, 1, 0, 0},
    {"is: taken", {1, NONE, 0, 0, 0}, 1, 0, 1, 0},
    {"is: taken by all", {MOST, NONE, 0, 0, 0}, 1, 0, 1, 0},
    {"is: held", {1, PRIVATE, 0, 0, 0}, 1, 1, 0, 0},
    {"is: held by two", {2, PRIVATE, 0, 0, 0}, 1, 1, 0, 0},
    {"is: left", {0, PRIVATE, 0, 0, 0}, 1, 0, 0, 1},
    {"is: the owner's", {1, OWNER, 0, 0, 0}, 1, 1, 0, 0},
    {"is: a sharer's", {1, SHARER, 0, 0, 0}, 1, 1, 0, 0},
    {"is: left by the owner", {0, OWNER, 0, 0, 0}, 1, 0, 0, 1},
    {"is: left by a sharer", {0, SHARER, 0, 0, 0}, 1, 0, 0, 1},
    {"is: the owner's, held by two", {2, OWNER, 0, 0, 0}, 0, 1, 0, 0},
    {"is: a sharer's, held by two", {2, SHARER, 0, 0, 0}, 0, 1, 0, 0},
    {"is: poisoned", {0, PRIVATE, 1, 0, 0}, 1, 1, 0, 0},
    {"is: poisoned and held", {1, PRIVATE, 1, 0, 0}, 1, 1, 0, 0},
    {"is: a sharer's, poisoned", {0, SHARER, 1, 0, 0}, 1, 1, 0, 0},
    {"is: poisoned without a mapping", {0, NONE, 1, 0, 0}, 0, 0, 0, 0},
    {"is: poisoned twice", {0, PRIVATE, 2, 0, 0}, 0, 0, 0, 0},
    {"is: quarantined", {0, NONE, 0, 1, 0}, 1, 1, 0, 0},
    {"is: quarantined and held", {1, PRIVATE, 0, 1, 0}, 1, 1, 0, 0},
    {"is: quarantined and left", {0, PRIVATE, 0, 1, 0}, 1, 0, 0, 1},
    {"is: quarantined twice", {0, NONE, 0, 2, 0}, 0, 1, 0, 0},
    {"is: of a fifth mapping", {1, 4, 0, 0, 0}, 0, 1, 0, 0},
};

static void test_is(void **state) {
  const is_row *row = *state;
  assert_int_equal(nxmem_granule_is_valid(&row->granule), row->valid);
  assert_int_equal(nxmem_granule_rests(&row->granule), row->rests);
  assert_int_equal(nxmem_granule_must_map(&row->granule), row->must_map);
  assert_int_equal(nxmem_granule_must_unmap(&row->granule), row->must_unmap);
}

/* ---- What a step does ---- */

typedef enum step { TAKE, DROP, MAP_PRIVATE, MAP_OWNER, MAP_SHARER, UNMAPPED, POISON, QUARANTINE, STEPS } step;

static nxmem_verdict go(step taken, nxmem_granule *granule) {
  switch (taken) {
    case TAKE:
      return nxmem_granule_take(granule);
    case DROP:
      return nxmem_granule_drop(granule);
    case MAP_PRIVATE:
    case MAP_OWNER:
    case MAP_SHARER:
      return nxmem_granule_mapped(granule, (uint32_t)taken - MAP_PRIVATE + PRIVATE);
    case UNMAPPED:
      return nxmem_granule_unmapped(granule);
    case POISON:
      return nxmem_granule_poison(granule);
    default:
      nxmem_granule_quarantine(granule);
      return (nxmem_verdict)ALLOW;
  }
}

typedef struct step_row {
  const char *name;
  step taken;
  nxmem_granule before;
  nxmem_verdict want;
  nxmem_granule after;
} step_row;

static const step_row step_rows[] = {
    {"take: free", TAKE, {0, NONE, 0, 0, 0}, ALLOW, {1, NONE, 0, 0, 0}},
    {"take: held", TAKE, {1, PRIVATE, 0, 0, 0}, ALLOW, {2, PRIVATE, 0, 0, 0}},
    {"take: left", TAKE, {0, PRIVATE, 0, 0, 0}, ALLOW, {1, PRIVATE, 0, 0, 0}},
    {"take: the last one", TAKE, {MOST - 1, PRIVATE, 0, 0, 0}, ALLOW, {MOST, PRIVATE, 0, 0, 0}},
    {"take: full", TAKE, {MOST, PRIVATE, 0, 0, 0}, NO(TOO_MANY_REFERENCES, MOST, MOST), {MOST, PRIVATE, 0, 0, 0}},
    {"take: the owner's", TAKE, {0, OWNER, 0, 0, 0}, NO(SHARED, OWNER, 0), {0, OWNER, 0, 0, 0}},
    {"take: a sharer's", TAKE, {1, SHARER, 0, 0, 0}, NO(SHARED, SHARER, 0), {1, SHARER, 0, 0, 0}},
    {"take: quarantined", TAKE, {0, NONE, 0, 1, 0}, NO(QUARANTINED, 1, 0), {0, NONE, 0, 1, 0}},
    {"take: quarantined and held", TAKE, {1, PRIVATE, 0, 1, 0}, NO(QUARANTINED, 1, 0), {1, PRIVATE, 0, 1, 0}},
    {"take: quarantined before shared", TAKE, {1, SHARER, 0, 1, 0}, NO(QUARANTINED, 1, 0), {1, SHARER, 0, 1, 0}},
    {"take: poisoned", TAKE, {0, PRIVATE, 1, 0, 0}, NO(POISONED, 1, 0), {0, PRIVATE, 1, 0, 0}},
    {"take: poisoned before quarantined", TAKE, {0, PRIVATE, 1, 1, 0}, NO(POISONED, 1, 0), {0, PRIVATE, 1, 1, 0}},

    {"drop: the only one", DROP, {1, PRIVATE, 0, 0, 0}, ALLOW, {0, PRIVATE, 0, 0, 0}},
    {"drop: one of many", DROP, {MOST, PRIVATE, 0, 0, 0}, ALLOW, {MOST - 1, PRIVATE, 0, 0, 0}},
    {"drop: not mapped yet", DROP, {1, NONE, 0, 0, 0}, ALLOW, {0, NONE, 0, 0, 0}},
    {"drop: poisoned", DROP, {1, PRIVATE, 1, 0, 0}, ALLOW, {0, PRIVATE, 1, 0, 0}},
    {"drop: quarantined", DROP, {2, PRIVATE, 0, 1, 0}, ALLOW, {1, PRIVATE, 0, 1, 0}},
    {"drop: an underflow", DROP, {0, NONE, 0, 0, 0}, NO(NO_REFERENCE, 0, 1), {0, NONE, 0, 0, 0}},
    {"drop: an underflow of one left", DROP, {0, PRIVATE, 0, 0, 0}, NO(NO_REFERENCE, 0, 1), {0, PRIVATE, 0, 0, 0}},

    {"map: private", MAP_PRIVATE, {1, NONE, 0, 0, 0}, ALLOW, {1, PRIVATE, 0, 0, 0}},
    {"map: private, for many", MAP_PRIVATE, {MOST, NONE, 0, 0, 0}, ALLOW, {MOST, PRIVATE, 0, 0, 0}},
    {"map: owner", MAP_OWNER, {1, NONE, 0, 0, 0}, ALLOW, {1, OWNER, 0, 0, 0}},
    {"map: sharer", MAP_SHARER, {1, NONE, 0, 0, 0}, ALLOW, {1, SHARER, 0, 0, 0}},
    {"map: owner, others hold it", MAP_OWNER, {2, NONE, 0, 0, 0}, NO(IN_USE, 2, 1), {2, NONE, 0, 0, 0}},
    {"map: sharer, others hold it", MAP_SHARER, {MOST, NONE, 0, 0, 0}, NO(IN_USE, MOST, 1), {MOST, NONE, 0, 0, 0}},
    {"map: not taken", MAP_PRIVATE, {0, NONE, 0, 0, 0}, NO(NO_REFERENCE, 0, 1), {0, NONE, 0, 0, 0}},
    {"map: not taken, quarantined", MAP_PRIVATE, {0, NONE, 0, 1, 0}, NO(NO_REFERENCE, 0, 1), {0, NONE, 0, 1, 0}},
    {"map: upon a mapping", MAP_SHARER, {1, PRIVATE, 0, 0, 0}, NO(MAPPED, PRIVATE, 0), {1, PRIVATE, 0, 0, 0}},
    {"map: upon a sharer's", MAP_PRIVATE, {1, SHARER, 0, 0, 0}, NO(MAPPED, SHARER, 0), {1, SHARER, 0, 0, 0}},
    {"map: upon a poisoned one", MAP_PRIVATE, {1, PRIVATE, 1, 0, 0}, NO(MAPPED, PRIVATE, 0), {1, PRIVATE, 1, 0, 0}},
    {"map: quarantined meanwhile", MAP_PRIVATE, {1, NONE, 0, 1, 0}, NO(QUARANTINED, 1, 0), {1, NONE, 0, 1, 0}},

    {"unmap: left", UNMAPPED, {0, PRIVATE, 0, 0, 0}, ALLOW, {0, NONE, 0, 0, 0}},
    {"unmap: left by a sharer", UNMAPPED, {0, SHARER, 0, 0, 0}, ALLOW, {0, NONE, 0, 0, 0}},
    {"unmap: left by the owner, quarantined", UNMAPPED, {0, OWNER, 0, 1, 0}, ALLOW, {0, NONE, 0, 1, 0}},
    {"unmap: held", UNMAPPED, {1, PRIVATE, 0, 0, 0}, NO(IN_USE, 1, 0), {1, PRIVATE, 0, 0, 0}},
    {"unmap: held by all", UNMAPPED, {MOST, PRIVATE, 0, 0, 0}, NO(IN_USE, MOST, 0), {MOST, PRIVATE, 0, 0, 0}},
    {"unmap: nothing there", UNMAPPED, {0, NONE, 0, 0, 0}, NO(NOT_MAPPED, 0, 1), {0, NONE, 0, 0, 0}},
    {"unmap: taken, nothing there", UNMAPPED, {1, NONE, 0, 0, 0}, NO(NOT_MAPPED, 0, 1), {1, NONE, 0, 0, 0}},
    {"unmap: poisoned", UNMAPPED, {0, PRIVATE, 1, 0, 0}, NO(POISONED, 1, 0), {0, PRIVATE, 1, 0, 0}},
    {"unmap: poisoned and held", UNMAPPED, {1, PRIVATE, 1, 0, 0}, NO(POISONED, 1, 0), {1, PRIVATE, 1, 0, 0}},

    {"poison: left", POISON, {0, PRIVATE, 0, 0, 0}, ALLOW, {0, PRIVATE, 1, 0, 0}},
    {"poison: held", POISON, {2, PRIVATE, 0, 1, 0}, ALLOW, {2, PRIVATE, 1, 1, 0}},
    {"poison: a sharer's", POISON, {1, SHARER, 0, 0, 0}, ALLOW, {1, SHARER, 1, 0, 0}},
    {"poison: again", POISON, {0, PRIVATE, 1, 0, 0}, ALLOW, {0, PRIVATE, 1, 0, 0}},
    {"poison: nothing there", POISON, {1, NONE, 0, 0, 0}, NO(NOT_MAPPED, 0, 1), {1, NONE, 0, 0, 0}},

    {"quarantine: free", QUARANTINE, {0, NONE, 0, 0, 0}, ALLOW, {0, NONE, 0, 1, 0}},
    {"quarantine: held", QUARANTINE, {3, PRIVATE, 0, 0, 0}, ALLOW, {3, PRIVATE, 0, 1, 0}},
    {"quarantine: poisoned", QUARANTINE, {0, PRIVATE, 1, 0, 0}, ALLOW, {0, PRIVATE, 1, 1, 0}},
    {"quarantine: again", QUARANTINE, {1, SHARER, 0, 1, 0}, ALLOW, {1, SHARER, 0, 1, 0}},
};

static void test_step(void **state) {
  const step_row *row = *state;
  nxmem_granule granule = row->before;
  if (row->taken == TAKE) nx_assert_verdict(nxmem_check_granule_take(&granule), row->want);
  if (MAP_PRIVATE <= row->taken && row->taken <= MAP_SHARER)
    nx_assert_verdict(nxmem_check_granule_map(&granule, (uint32_t)row->taken - MAP_PRIVATE + PRIVATE), row->want);
  nx_assert_verdict(go(row->taken, &granule), row->want);
  assert_memory_equal(&granule, &row->after, sizeof granule);
}

/* ---- What may be given back while its allocation lives on ---- */

typedef struct decommit_row {
  const char *name;
  nxmem_granule granule;
  nxmem_verdict want;
} decommit_row;

static const decommit_row decommit_rows[] = {
    {"decommit: free", {0, NONE, 0, 0, 0}, ALLOW},
    {"decommit: held", {1, PRIVATE, 0, 0, 0}, ALLOW},
    {"decommit: others hold it", {2, PRIVATE, 0, 0, 0}, NO(IN_USE, 2, 1)},
    {"decommit: the owner's", {1, OWNER, 0, 0, 0}, NO(SHARED, OWNER, 0)},
    {"decommit: a sharer's", {1, SHARER, 0, 0, 0}, NO(SHARED, SHARER, 0)},
    {"decommit: a sharer's, quarantined", {1, SHARER, 0, 1, 0}, NO(QUARANTINED, 1, 0)},
    {"decommit: quarantined", {2, PRIVATE, 0, 1, 0}, NO(QUARANTINED, 1, 0)},
    {"decommit: poisoned", {1, PRIVATE, 1, 1, 0}, NO(POISONED, 1, 0)},
};

static void test_decommit(void **state) {
  const decommit_row *row = *state;
  nx_assert_verdict(nxmem_check_granule_decommit(&row->granule), row->want);
}

/* ---- All sequences of steps ---- */

enum { LENGTH = 6 };

/* What holds of a granule after a step, given what it was before. */
static void check_step(const nxmem_granule *before, const nxmem_granule *after, step taken, nxmem_verdict v) {
  assert_true(nxmem_granule_is_valid(after));
  if (v.reason != NXMEM_REASON_NONE) assert_memory_equal(before, after, sizeof *after);
  if (before->poisoned) assert_true(after->poisoned && after->mapping == before->mapping);
  if (before->quarantined) assert_true(after->quarantined);
  if (before->poisoned || before->quarantined) assert_true(after->references <= before->references);
  if (after->mapping != before->mapping) assert_true(before->mapping == NONE || taken == UNMAPPED);
}

static void walk(const nxmem_granule *granule, int left) {
  for (int taken = TAKE; taken < STEPS && left > 0; taken++) {
    nxmem_granule next = *granule;
    const nxmem_verdict v = go((step)taken, &next);
    check_step(granule, &next, (step)taken, v);
    walk(&next, left - 1);
  }
}

static void test_sequences(void **state) {
  const nxmem_granule fresh = {0, 0, 0, 0, 0};
  (void)state;
  walk(&fresh, LENGTH);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(is_rows), test_is);
  nx_suite_rows(&suite, ROWS(step_rows), test_step);
  nx_suite_rows(&suite, ROWS(decommit_rows), test_decommit);
  nx_suite_add(&suite, "all sequences of six steps keep a granule valid", test_sequences, NULL);
  return nx_suite_run(&suite, "granule");
}
