/*
 * handle_test.c: slots and generations, row by row.
 *
 * Attackers played: stale, foreign and made-up handles.
 * Promise: only the present generation of a live slot with nobody inside can be claimed, and no generation comes twice.
 */
#include "nxmem/handle.h"

#include "support.h"

#define U32_MAX 0xFFFFFFFFu
#define ALLOW \
  { NXMEM_REASON_NONE, 0, 0, 0 }
#define STALE(found, needed) \
  { NXMEM_REASON_STALE_HANDLE, 0, found, needed }
#define STATE(found) \
  { NXMEM_REASON_WRONG_STATE, 0, found, 2 }

typedef struct parts_row {
  const char *name;
  uint32_t slot, generation;
  uint64_t handle;
} parts_row;

static const parts_row parts_rows[] = {
    {"first slot, first generation", 0, 0, 1},
    {"first slot, generation 1", 0, 1, 0x100000001ull},
    {"slot 41, generation 7", 41, 7, 0x70000002Aull},
    {"last slot", 0xFFFFFFFEu, 0, 0xFFFFFFFFull},
    {"last generation", 0, U32_MAX, 0xFFFFFFFF00000001ull},
    {"last of both", 0xFFFFFFFEu, U32_MAX, 0xFFFFFFFFFFFFFFFFull},
};

static void test_parts(void **state) {
  const parts_row *row = *state;
  assert_int_equal(nxmem_handle_make(row->slot, row->generation), row->handle);
  assert_int_equal(nxmem_handle_slot(row->handle), row->slot);
  assert_int_equal(nxmem_handle_generation(row->handle), row->generation);
}

static void test_handles_that_name_no_slot(void **state) {
  (void)state;
  assert_int_equal(nxmem_handle_slot(0), U32_MAX);
  assert_int_equal(nxmem_handle_slot(0x500000000ull), U32_MAX);
  assert_int_equal(nxmem_handle_slot(0xFFFFFFFF00000000ull), U32_MAX);
}

typedef struct word_row {
  const char *name;
  uint32_t generation, users, state;
  uint64_t word;
} word_row;

static const word_row word_rows[] = {
    {"word of zeros", 0, 0, 0, 0},
    {"word with a state", 0, 0, 255, 255},
    {"word with a user", 0, 1, 0, 256},
    {"word with all users", 0, 0xFFFFFF, 0, 0xFFFFFF00ull},
    {"word with a generation", 1, 0, 0, 0x100000000ull},
    {"word of all three", 3, 2, 1, 0x300000201ull},
    {"word of all ones", U32_MAX, 0xFFFFFF, 255, 0xFFFFFFFFFFFFFFFFull},
};

static void test_word(void **state) {
  const word_row *row = *state;
  assert_int_equal(nxmem_word_make(row->generation, row->users, row->state), row->word);
  assert_int_equal(nxmem_word_generation(row->word), row->generation);
  assert_int_equal(nxmem_word_users(row->word), row->users);
  assert_int_equal(nxmem_word_state(row->word), row->state);
}

static void test_in_state(void **state) {
  (void)state;
  const uint64_t word = nxmem_word_make(41, 7, NXMEM_SLOT_QUEUING);
  assert_int_equal(nxmem_word_in_state(word, NXMEM_SLOT_QUEUED), nxmem_word_make(41, 7, NXMEM_SLOT_QUEUED));
  assert_int_equal(nxmem_word_in_state(word, 0), nxmem_word_make(41, 7, 0));
  assert_int_equal(nxmem_word_in_state(UINT64_MAX, 255), UINT64_MAX);
  assert_int_equal(nxmem_word_in_state(UINT64_MAX, 0), UINT64_MAX - 255);
}

typedef struct claim_row {
  const char *name;
  uint32_t generation, users, state; /* the slot's word */
  uint32_t claimed;                  /* the handle's generation */
  nxmem_verdict want;
} claim_row;

static const claim_row claim_rows[] = {
    {"claim: live, nobody inside", 7, 0, 2, 7, ALLOW},
    {"claim: live at generation 0", 0, 0, 2, 0, ALLOW},
    {"claim: live at the last generation", U32_MAX, 0, 2, U32_MAX, ALLOW},
    {"claim: one generation late", 8, 0, 2, 7, STALE(7, 8)},
    {"claim: one generation early", 7, 0, 2, 8, STALE(8, 7)},
    {"claim: invented generation", 7, 0, 2, U32_MAX, STALE(U32_MAX, 7)},
    {"claim: free", 7, 0, 0, 7, STATE(0)},
    {"claim: allocating", 7, 0, 1, 7, STATE(1)},
    {"claim: releasing", 7, 0, 3, 7, STATE(3)},
    {"claim: quarantined", 7, 0, 4, 7, STATE(4)},
    {"claim: retired", U32_MAX, 0, 5, U32_MAX, STATE(5)},
    {"claim: queuing", 7, 1, 6, 7, STATE(6)},
    {"claim: queued", 7, 0, 7, 7, STATE(7)},
    {"claim: a state nobody knows", 7, 0, 255, 7, STATE(255)},
    {"claim: one user inside", 7, 1, 2, 7, {NXMEM_REASON_IN_USE, 0, 1, 0}},
    {"claim: all users inside", 7, 0xFFFFFF, 2, 7, {NXMEM_REASON_IN_USE, 0, 0xFFFFFF, 0}},
    {"claim: stale is named before the state", 7, 1, 3, 6, STALE(6, 7)},
    {"claim: the state is named before users", 7, 1, 3, 7, STATE(3)},
};

static void test_claim(void **state) {
  const claim_row *row = *state;
  const uint64_t word = nxmem_word_make(row->generation, row->users, row->state);
  nx_assert_verdict(nxmem_check_claim(word, nxmem_handle_make(3, row->claimed)), row->want);
}

static void test_claimable(void **state) {
  const claim_row *row = *state;
  const uint64_t word = nxmem_word_make(row->generation, row->users, row->state);
  assert_int_equal(nxmem_is_claimable(word, nxmem_handle_make(3, row->claimed)), row->want.reason == NXMEM_REASON_NONE);
}

static void test_lost_claim(void **state) {
  const claim_row *row = *state;
  const uint64_t word = nxmem_word_make(row->generation, row->users, row->state);
  nxmem_verdict want = row->want;
  if (want.reason == NXMEM_REASON_NONE) want.reason = NXMEM_REASON_IN_USE;
  nx_assert_verdict(nxmem_check_lost_claim(word, nxmem_handle_make(3, row->claimed)), want);
}

typedef struct presence_row {
  const char *name;
  uint32_t generation, users, state; /* the slot's word; the handle's generation is 7 */
  nxmem_presence want;
  int same_generation, live, open;
} presence_row;

static const presence_row presence_rows[] = {
    {"presence: free", 7, 0, 0, NXMEM_PRESENCE_GONE, 1, 0, 0},
    {"presence: allocating", 7, 0, 1, NXMEM_PRESENCE_OPENING, 1, 0, 0},
    {"presence: live", 7, 0, 2, NXMEM_PRESENCE_LIVE, 1, 1, 1},
    {"presence: live with users", 7, 5, 2, NXMEM_PRESENCE_LIVE, 1, 1, 1},
    {"presence: releasing", 7, 0, 3, NXMEM_PRESENCE_LEAVING, 1, 0, 1},
    {"presence: quarantined", 7, 0, 4, NXMEM_PRESENCE_KEPT, 1, 0, 0},
    {"presence: retired", 7, 0, 5, NXMEM_PRESENCE_GONE, 1, 0, 0},
    {"presence: queuing", 7, 1, 6, NXMEM_PRESENCE_LEAVING, 1, 0, 0},
    {"presence: queued", 7, 0, 7, NXMEM_PRESENCE_LEAVING, 1, 0, 0},
    {"presence: a state nobody knows", 7, 0, 8, NXMEM_PRESENCE_GONE, 1, 0, 0},
    {"presence: live in a later generation", 8, 0, 2, NXMEM_PRESENCE_GONE, 0, 1, 1},
    {"presence: releasing in an earlier one", 6, 0, 3, NXMEM_PRESENCE_GONE, 0, 0, 1},
};

static void test_presence(void **state) {
  const presence_row *row = *state;
  const uint64_t word = nxmem_word_make(row->generation, row->users, row->state);
  const uint64_t handle = nxmem_handle_make(3, 7);
  assert_int_equal(nxmem_presence_of(nxmem_check_claim(word, handle)), row->want);
  assert_int_equal(nxmem_same_generation(word, handle), row->same_generation);
  assert_int_equal(nxmem_check_live(word).reason, row->live ? NXMEM_REASON_NONE : NXMEM_REASON_WRONG_STATE);
  assert_int_equal(nxmem_is_open(word), row->open);
}

/* Numbers that look like a state count only behind WRONG_STATE. */
static void test_presence_by_reason(void **state) {
  (void)state;
  for (uint64_t found = 0; found < 256; found++)
    assert_int_equal(nxmem_presence_of((nxmem_verdict){NXMEM_REASON_STALE_HANDLE, 0, found, 2}), NXMEM_PRESENCE_GONE);
  assert_int_equal(nxmem_presence_of((nxmem_verdict){NXMEM_REASON_WRONG_STATE, 0, 0x100000003ull, 2}),
                   NXMEM_PRESENCE_GONE);
}

static void test_owned(void **state) {
  (void)state;
  const uint64_t word = nxmem_word_make(7, 0, NXMEM_SLOT_LIVE);
  assert_int_equal(nxmem_is_owned(word, NXMEM_SLOT_LIVE, 5, 5), 1);
  assert_int_equal(nxmem_is_owned(word, NXMEM_SLOT_LIVE, 5, 6), 0);
  assert_int_equal(nxmem_is_owned(word, NXMEM_SLOT_QUARANTINED, 5, 5), 0);
  assert_int_equal(nxmem_is_owned(word, 0x102, 5, 5), 0);
}

typedef struct freed_row {
  const char *name;
  uint32_t generation, users, state;
  uint32_t want_generation, want_state;
} freed_row;

static const freed_row freed_rows[] = {
    {"freed: generation 0", 0, 0, 3, 1, 0},
    {"freed: generation 41", 41, 0, 3, 42, 0},
    {"freed: users and state go", 41, 5, 2, 42, 0},
    {"freed: the last but one", 0xFFFFFFFEu, 0, 3, U32_MAX, 0},
    {"freed: the last is retired, not wrapped", U32_MAX, 0, 3, U32_MAX, 5},
    {"freed: a retired slot stays retired", U32_MAX, 0, 5, U32_MAX, 5},
};

static void test_freed(void **state) {
  const freed_row *row = *state;
  const uint64_t word = nxmem_word_freed(nxmem_word_make(row->generation, row->users, row->state));
  assert_int_equal(nxmem_word_generation(word), row->want_generation);
  assert_int_equal(nxmem_word_users(word), 0);
  assert_int_equal(nxmem_word_state(word), row->want_state);
}

/* A handle of a freed slot is stale at once, and after the last generation nothing can be claimed any more. */
static void test_end_of_a_slot(void **state) {
  (void)state;
  uint32_t generation = 0xFFFFFFF0u;
  uint64_t word = nxmem_word_make(generation, 0, NXMEM_SLOT_FREE);
  uint32_t lives = 0;
  while (nxmem_word_state(word) != NXMEM_SLOT_RETIRED && lives < 64) {
    generation = nxmem_word_generation(word);
    const uint64_t handle = nxmem_handle_make(9, generation);
    word = nxmem_word_make(generation, 0, NXMEM_SLOT_LIVE);
    assert_int_equal(nxmem_check_claim(word, handle).reason, NXMEM_REASON_NONE);
    word = nxmem_word_freed(nxmem_word_make(generation, 0, NXMEM_SLOT_RELEASING));
    assert_int_not_equal(nxmem_check_claim(word, handle).reason, NXMEM_REASON_NONE);
    lives++;
  }
  assert_int_equal(lives, 16);
  nx_assert_verdict(nxmem_check_claim(word, nxmem_handle_make(9, U32_MAX)), (nxmem_verdict)STATE(5));
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(parts_rows), test_parts);
  nx_suite_rows(&suite, ROWS(word_rows), test_word);
  nx_suite_add(&suite, "a word in another state", test_in_state, NULL);
  nx_suite_rows(&suite, ROWS(claim_rows), test_claim);
  for (size_t i = 0; i < sizeof claim_rows / sizeof claim_rows[0]; i++) {
    nx_suite_add(&suite, nx_name("claimable: %s", claim_rows[i].name), test_claimable, &claim_rows[i]);
    nx_suite_add(&suite, nx_name("lost %s", claim_rows[i].name), test_lost_claim, &claim_rows[i]);
  }
  nx_suite_rows(&suite, ROWS(presence_rows), test_presence);
  nx_suite_add(&suite, "presence: only a wrong state has one", test_presence_by_reason, NULL);
  nx_suite_add(&suite, "owned: state and owner", test_owned, NULL);
  nx_suite_rows(&suite, ROWS(freed_rows), test_freed);
  nx_suite_add(&suite, "handles that name no slot", test_handles_that_name_no_slot, NULL);
  nx_suite_add(&suite, "a slot lives its generations out and retires", test_end_of_a_slot, NULL);
  return nx_suite_run(&suite, "handle");
}
