/*
 * pin_test.c: users of a live object, row by row.
 *
 * Attackers played: stale handles, objects on their way out, more users than a word can count.
 * Promise: pins go up and down by one, the mark that they met goes with the last, and nothing else of the word changes.
 */
#include "nxmem/pin.h"

#include "support.h"

#define MOST NXMEM_PINS_MAX
#define U32_MAX 0xFFFFFFFFu
#define MET 0x80000000ull
#define ALLOW \
  { NXMEM_REASON_NONE, 0, 0, 0 }

static uint64_t word_of(uint32_t generation, uint32_t pins, uint32_t state, int met) {
  return nxmem_word_make(generation, pins + (met ? 0x800000u : 0u), state);
}

typedef struct check_row {
  const char *name;
  uint32_t generation, pins, state;
  int met;
  nxmem_verdict want; /* for a handle of generation 7 */
} check_row;

#define STALE(present) \
  { NXMEM_REASON_STALE_HANDLE, 0, 7, present }
#define STATE(found) \
  { NXMEM_REASON_WRONG_STATE, 0, found, NXMEM_SLOT_LIVE }
#define FULL \
  { NXMEM_REASON_TOO_MANY_USERS, 0, MOST, MOST - 1 }

static const check_row check_rows[] = {
    {"pin: nobody there", 7, 0, NXMEM_SLOT_LIVE, 0, ALLOW},
    {"pin: one there", 7, 1, NXMEM_SLOT_LIVE, 0, ALLOW},
    {"pin: two that met", 7, 2, NXMEM_SLOT_LIVE, 1, ALLOW},
    {"pin: room for the last", 7, MOST - 1, NXMEM_SLOT_LIVE, 1, ALLOW},
    {"pin: full", 7, MOST, NXMEM_SLOT_LIVE, 0, FULL},
    {"pin: full, and they met", 7, MOST, NXMEM_SLOT_LIVE, 1, FULL},
    {"pin: an earlier generation", 6, 0, NXMEM_SLOT_LIVE, 0, STALE(6)},
    {"pin: a later generation", 8, 0, NXMEM_SLOT_LIVE, 0, STALE(8)},
    {"pin: the generation comes first", 8, MOST, NXMEM_SLOT_FREE, 1, STALE(8)},
    {"pin: free", 7, 0, NXMEM_SLOT_FREE, 0, STATE(0)},
    {"pin: allocating", 7, 0, NXMEM_SLOT_ALLOCATING, 0, STATE(1)},
    {"pin: releasing", 7, 0, NXMEM_SLOT_RELEASING, 0, STATE(3)},
    {"pin: quarantined", 7, 0, NXMEM_SLOT_QUARANTINED, 0, STATE(4)},
    {"pin: quarantined, with users left", 7, 2, NXMEM_SLOT_QUARANTINED, 1, STATE(4)},
    {"pin: retired", 7, 0, NXMEM_SLOT_RETIRED, 0, STATE(5)},
    {"pin: queuing", 7, 1, NXMEM_SLOT_QUEUING, 0, STATE(6)},
    {"pin: queued", 7, 0, NXMEM_SLOT_QUEUED, 0, STATE(7)},
    {"pin: the state comes before the count", 7, MOST, NXMEM_SLOT_QUEUED, 0, STATE(7)},
};

static void test_check(void **state) {
  const check_row *row = *state;
  const uint64_t word = word_of(row->generation, row->pins, row->state, row->met);
  nx_assert_verdict(nxmem_check_pin(word, nxmem_handle_make(41, 7)), row->want);
  assert_int_equal(nxmem_word_pins(word), row->pins);
}

typedef struct step_row {
  const char *name;
  uint32_t pins;
  int met;
  uint32_t after;
  int met_after;
} step_row;

static const step_row up_rows[] = {
    {"up: the first", 0, 0, 1, 0},
    {"up: the second meets it", 1, 0, 2, 1},
    {"up: the third", 2, 1, 3, 1},
    {"up: beside one that was joined before", 1, 1, 2, 1},
    {"up: the last that fits", MOST - 1, 1, MOST, 1},
    {"up: a mark that nobody took away", 0, 1, 1, 1},
};

static const step_row down_rows[] = {
    {"down: the only one", 1, 0, 0, 0},        {"down: the last takes the mark with it", 1, 1, 0, 0},
    {"down: one of two", 2, 1, 1, 1},          {"down: one of two without a mark", 2, 0, 1, 0},
    {"down: from full", MOST, 1, MOST - 1, 1},
};

static void each_state(const step_row *row, uint64_t (*step)(uint64_t)) {
  static const uint32_t generations[] = {0, 7, U32_MAX};
  for (size_t g = 0; g < sizeof generations / sizeof generations[0]; g++)
    for (uint32_t s = 0; s < 256; s++)
      assert_int_equal(step(word_of(generations[g], row->pins, s, row->met)),
                       word_of(generations[g], row->after, s, row->met_after));
}

static void test_up(void **state) { each_state(*state, nxmem_word_pinned); }
static void test_down(void **state) { each_state(*state, nxmem_word_unpinned); }

static void test_mark(void **state) {
  (void)state;
  for (uint32_t pins = 0; pins < 4; pins++)
    for (int met = 0; met < 2; met++) {
      const uint64_t word = word_of(9, pins, NXMEM_SLOT_LIVE, met);
      assert_int_equal(nxmem_word_met(word), word_of(9, pins, NXMEM_SLOT_LIVE, 1));
      assert_int_equal(nxmem_word_unmet(word), word_of(9, pins, NXMEM_SLOT_LIVE, 0));
      assert_int_equal(nxmem_pin_must_settle(word), pins == 1 && met);
      assert_int_equal(nxmem_pin_is_alone(word), pins == 1 && !met);
    }
  assert_int_equal(nxmem_word_met(UINT64_MAX - MET), UINT64_MAX);
  assert_int_equal(nxmem_word_unmet(UINT64_MAX), UINT64_MAX - MET);
}

/* What is pinned is claimed by nobody; what nobody pins any more is. */
static void test_claims(void **state) {
  (void)state;
  const uint64_t handle = nxmem_handle_make(3, 5);
  uint64_t word = nxmem_word_make(5, 0, NXMEM_SLOT_LIVE);
  for (int i = 0; i < 3; i++) {
    word = nxmem_word_pinned(word);
    assert_int_equal(nxmem_check_claim(word, handle).reason, NXMEM_REASON_IN_USE);
  }
  for (int i = 0; i < 3; i++) word = nxmem_word_unpinned(word);
  assert_int_equal(word, nxmem_word_make(5, 0, NXMEM_SLOT_LIVE));
  assert_int_equal(nxmem_check_claim(word, handle).reason, NXMEM_REASON_NONE);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(check_rows), test_check);
  nx_suite_rows(&suite, ROWS(up_rows), test_up);
  nx_suite_rows(&suite, ROWS(down_rows), test_down);
  nx_suite_add(&suite, "the mark", test_mark, NULL);
  nx_suite_add(&suite, "pinned words and claims", test_claims, NULL);
  return nx_suite_run(&suite, "core_pin");
}
