/*
 * prefix_bytes_test.c: what a prefix's own bytes are charged with, and until when.
 *
 * Attackers played: plugins that report the bytes again, or refuse one of two groups that are committed at once.
 * Promise: the bytes are charged once, from the first commit that is believed to the end of the prefix and of its last
 * mapping, whoever came first and whatever became of it.
 */
#include <semaphore.h>
#include <unistd.h>

#include "prefix_group.h"

/* ---- Charged once ------------------------------------------------------------------------------------------------ */

static void own_again(NxmemSharedPrefixCommitInfo *i) { i->additional_owned_bytes = 3 * G; }

/*
 * A later commit that charges the physical bytes again is counted and not believed; a group that came to nothing
 * charged none.
 */
static void test_once(void **state) {
  const nx_case *c = *state;
  nx_group s = nx_group_set(c);
  play.share_fails_at = 2;
  play.share_code = NXMEM_STATUS_OUT_OF_MEMORY;
  nxmem_group_outcome outcome;
  assert_int_equal(nx_group_commit(&s, 2, &outcome, NULL), NXMEM_ERR_PLUGIN);
  assert_int_equal(outcome, NXMEM_GROUP_PRIVATE);
  play.spoil_info = own_again;
  for (uint64_t number = 3; number < 5; number++) {
    play.info_spoilt_at = number;
    assert_int_equal(nxmem_prefix_commit(s.prefix, &s.members[number - 1], 1, 2 * G, &outcome, NULL), NXMEM_OK);
    assert_int_equal(nx_owned(s.stage.allocator), 3 * G + 3 * G);
    assert_int_equal(nx_counts(s.stage.host).contract_violations, number - 3);
  }
  for (int i = 1; i < MEMBERS; i++) nx_must_release(s.stage.allocator, s.members[i]);
  nx_group_strike(&s);
}

/* Whoever was charged first goes first, and the prefix before its mappings: the bytes stay until the last of all is gone. */
static void test_outlives(void **state) {
  const nx_case *c = *state;
  nx_group s = nx_group_set(c);
  nxmem_group_outcome outcome;
  assert_int_equal(nx_group_commit(&s, 3, &outcome, NULL), NXMEM_OK);
  assert_int_equal(nxmem_prefix_commit(s.prefix, &s.members[1], 1, 5 * G, &outcome, NULL), NXMEM_OK); /* twice in one */
  assert_int_equal(nxmem_prefix_release(s.prefix, NULL), NXMEM_OK);
  for (uint64_t i = 0; i < MEMBERS; i++) {
    assert_int_equal(nx_owned(s.stage.allocator), (MEMBERS - i) * G + (i < 3 ? 3 * G : 0));
    nx_must_release(s.stage.allocator, s.members[i]);
  }
  assert_int_equal(nx_owned(s.stage.allocator), 0);
  nx_stage_strike(&s.stage);
}

/* What is quarantined may map the prefix for ever: its bytes stay, with the module in the end. */
static void test_kept(void **state) {
  const nx_case *c = *state;
  nx_group s = nx_group_set(c);
  nxmem_group_outcome outcome;
  assert_int_equal(nx_group_commit(&s, 2, &outcome, NULL), NXMEM_OK);
  play.release_code = NXMEM_STATUS_RELEASE_QUARANTINED;
  assert_int_equal(nxmem_release(s.stage.allocator, s.members[1], NULL, NULL), NXMEM_ERR_QUARANTINED);
  play.release_code = NXMEM_STATUS_OK;
  free(s.members[1].ptr);
  nx_must_release(s.stage.allocator, s.members[0]);
  for (int i = 2; i < MEMBERS; i++) nx_must_release(s.stage.allocator, s.members[i]);
  assert_int_equal(nxmem_prefix_release(s.prefix, NULL), NXMEM_OK);
  assert_int_equal(nx_owned(s.stage.allocator), G + 3 * G);
  nx_must_close(s.stage.allocator);
  assert_int_equal(nx_counts(s.stage.host).owned_bytes, G + 3 * G);
  nx_force_leak(s.stage.host, s.stage.plugin, s.stage.path);
  nx_host_gone(s.stage.host);
}

/* The same of a prefix that the plugin keeps. */
static void test_kept_prefix(void **state) {
  const nx_case *c = *state;
  nx_group s = nx_group_set(c);
  nxmem_group_outcome outcome;
  assert_int_equal(nx_group_commit(&s, 1, &outcome, NULL), NXMEM_OK);
  play.release_prefix_code = NXMEM_STATUS_RELEASE_QUARANTINED;
  assert_int_equal(nxmem_prefix_release(s.prefix, NULL), NXMEM_ERR_QUARANTINED);
  for (int i = 0; i < MEMBERS; i++) nx_must_release(s.stage.allocator, s.members[i]);
  assert_int_equal(nx_owned(s.stage.allocator), 3 * G);
  nx_must_close(s.stage.allocator);
  assert_int_equal(nx_counts(s.stage.host).owned_bytes, 3 * G);
  nx_force_leak(s.stage.host, s.stage.plugin, s.stage.path);
  nx_host_gone(s.stage.host);
}

/* ---- Two groups at once ------------------------------------------------------------------------------------------ */

static nx_group *scene_of_two;
static sem_t blocked, unblock;
static nxmem_result first_result;

/* The second commit of the first group stands in the plugin while another group is committed. */
static void block_second(nx_play_slot slot) {
  if (slot != NX_PLAY_SHARE || nx_play_calls(NX_PLAY_SHARE) != 2) return;
  sem_post(&blocked);
  while (sem_wait(&unblock) != 0) {
  }
}

static void *commit_first(void *outcome) {
  first_result = nx_group_commit(scene_of_two, 2, outcome, NULL);
  return NULL;
}

typedef struct two_row {
  const char *name;
  nx_modes modes;
  uint32_t code; /* what the blocked commit answers in the end */
  nxmem_result want;
  int reports_again; /* the second group's commit reports the prefix's bytes once more */
  int gone;          /* members of the first group */
} two_row;

static const two_row two_rows[] = {
    {"two groups at once, the first is rolled back", 0, NXMEM_STATUS_OUT_OF_MEMORY, NXMEM_ERR_PLUGIN, 0, 1},
    {"two groups at once, the first in doubt", 0, NXMEM_STATUS_RELEASE_QUARANTINED, NXMEM_ERR_PLUGIN, 0, 2},
    {"two groups at once, both shared", 0, NXMEM_STATUS_OK, NXMEM_OK, 0, 0},
    {"two groups at once, and both report the bytes", 0, NXMEM_STATUS_OUT_OF_MEMORY, NXMEM_ERR_PLUGIN, 1, 1},
};

static void test_two(void **state) {
  const nx_case *c = *state;
  const two_row *row = c->row;
  nx_group s = nx_group_set(c);
  scene_of_two = &s;
  sem_init(&blocked, 0, 0);
  sem_init(&unblock, 0, 0);
  play.inside = block_second;
  nxmem_group_outcome first = NXMEM_GROUP_QUARANTINED, second = NXMEM_GROUP_QUARANTINED;
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, commit_first, &first), 0);
  while (sem_wait(&blocked) != 0) {
  }
  if (row->reports_again) {
    play.spoil_info = own_again;
    play.info_spoilt_at = 3;
  }
  assert_int_equal(nxmem_prefix_commit(s.prefix, &s.members[2], 1, 2 * G, &second, NULL), NXMEM_OK);
  assert_int_equal(second, NXMEM_GROUP_SHARED);
  play.spoil_info = NULL;
  play.share_code = row->code;
  play.share_fails_at = row->code == NXMEM_STATUS_OK ? 0 : 3; /* the one that is blocked looks at the number now */
  sem_post(&unblock);
  pthread_join(thread, NULL);
  assert_int_equal(first_result, row->want);
  assert_int_equal(first, row->want == NXMEM_OK ? NXMEM_GROUP_SHARED : NXMEM_GROUP_PRIVATE);
  assert_int_equal(nx_counts(s.stage.host).contract_violations, row->reports_again);

  /* The second group's allocation maps the prefix still: its bytes are somebody's, once. */
  assert_int_equal(nx_owned(s.stage.allocator), (uint64_t)(MEMBERS - row->gone) * G + 3 * G);
  for (int i = row->gone; i < MEMBERS; i++) nx_must_release(s.stage.allocator, s.members[i]);
  assert_int_equal(nx_owned(s.stage.allocator), 3 * G);
  nx_group_strike(&s);
  sem_destroy(&blocked);
  sem_destroy(&unblock);
}

#define ONE(name, test) static const nx_row_head name##_rows[] = {{test, NX_BOTH_MODES}}
ONE(once, "physical bytes charged again");
ONE(outlives, "mappings that outlive their prefix");
ONE(kept, "a quarantined mapping");
ONE(kept_prefix, "a quarantined prefix");

int main(void) {
  alarm(120);
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(once_rows), test_once);
  nx_suite_modes(&suite, ROWS(outlives_rows), test_outlives);
  nx_suite_modes(&suite, ROWS(kept_rows), test_kept);
  nx_suite_modes(&suite, ROWS(kept_prefix_rows), test_kept_prefix);
  nx_suite_modes(&suite, ROWS(two_rows), test_two);
  return nx_suite_run(&suite, "host_prefix_bytes");
}
