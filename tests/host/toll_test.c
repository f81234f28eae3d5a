/*
 * toll_test.c: every call into the plugin is turned away in turn: the n-th once, and the n-th and all after it.
 *
 * Attackers played: a plugin without memory or without its device, which refuses and changes nothing.
 * Promise: a refusal is reported and loses nothing: once calls pass again all can be put away, the books are as before, nothing stays mapped.
 */
#define _GNU_SOURCE
#include "toll.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hosttest.h"

enum { BLOCKS = 4, SHARERS = 2, BYTES = 1 << 20, GRANULE = 1 << 16, TURNS = 256 };

static nx_toll toll;

/* What is open. */
typedef struct life {
  const char *path;
  nxmem_host host;
  nxmem_plugin plugin;
  nxmem_allocator allocator;
  nxmem_allocation blocks[BLOCKS];
  nxmem_prefix prefix;
  uint64_t references; /* to the prefix */
  int quarantined;     /* a group could not be taken back: the one thing that may stay */
} life;

/* A step ends well, is refused by the plugin, or comes too late for what an earlier one left undone. */
static int went_well(nxmem_result r, const nxmem_error *error) {
  if (r == NXMEM_OK) return 1;
  nx_assert_line(error->message, sizeof error->message);
  if (r != NXMEM_ERR_PLUGIN && r != NXMEM_ERR_NEGOTIATION && r != NXMEM_ERR_QUARANTINED)
    fail_msg("found %d: %s", (int)r, error->message);
  return 0;
}

/* ---- The way there ----------------------------------------------------------------------------------------------- */

static void take_blocks(life *l) {
  nxmem_error error;
  const NxmemByteRange first = {0, GRANULE};
  const nxmem_allocate_options lazily = {.committed_ranges = &first, .committed_range_count = 1};
  for (int i = 0; i < BLOCKS; i++) {
    nxmem_allocation block = {0};
    error = nx_blank_error();
    if (went_well(nxmem_allocate(l->allocator, BYTES, GRANULE, i == 0 ? NULL : &lazily, &block, &error), &error))
      l->blocks[i] = block;
  }
}

static void work_on_pages(life *l) {
  nxmem_error error = nx_blank_error();
  const nxmem_allocation block = l->blocks[1];
  if (block.id == 0) return;
  uint64_t bytes = 0;
  (void)went_well(nxmem_cost_of_ranges(l->allocator, block, &(NxmemByteRange){GRANULE, GRANULE}, 1, &bytes, &error),
                  &error);
  (void)went_well(nxmem_commit(l->allocator, block, (NxmemByteRange){GRANULE, 2 * GRANULE}, &error), &error);
  (void)went_well(nxmem_committed_bytes(l->allocator, block, &bytes, &error), &error);
  (void)went_well(nxmem_decommit(l->allocator, block, (NxmemByteRange){GRANULE, GRANULE}, NULL, &error), &error);
  (void)went_well(nxmem_cost_of_allocation(l->allocator, BYTES, GRANULE, NULL, &bytes, &error), &error);
}

/* The last two blocks, which have one granule each, get the prefix behind it: both, or they are gone. */
static void share(life *l) {
  nxmem_error error = nx_blank_error();
  nxmem_allocation *const sharers = &l->blocks[BLOCKS - SHARERS];
  if (sharers[0].id == 0 || sharers[1].id == 0) return;
  if (!went_well(nxmem_prefix_create(l->allocator, GRANULE, &l->prefix, &error), &error)) return;
  l->references = 1;
  if (went_well(nxmem_prefix_retain(l->prefix, &error), &error)) l->references++;
  nxmem_prefix_info info;
  (void)went_well(nxmem_prefix_get_info(l->prefix, &info, &error), &error);
  nxmem_group_outcome outcome = NXMEM_GROUP_SHARED;
  const nxmem_result r = nxmem_prefix_commit(l->prefix, sharers, SHARERS, 2 * GRANULE, &outcome, &error);
  assert_int_equal(went_well(r, &error), outcome == NXMEM_GROUP_SHARED);
  if (outcome == NXMEM_GROUP_SHARED) return;
  l->quarantined = outcome == NXMEM_GROUP_QUARANTINED;
  /* Which of them are gone is asked of the host: a handle that names nothing is refused without a call. */
}

static void queue(life *l) {
  nxmem_error error = nx_blank_error();
  if (l->blocks[0].id == 0) return;
  if (!went_well(nxmem_enqueue_release(l->allocator, l->blocks[0], NULL, NULL, &error), &error)) return;
  nxmem_pending pending;
  (void)went_well(nxmem_pending_releases(l->allocator, &pending, &error), &error);
  (void)went_well(nxmem_drain_releases(l->allocator, 1, NULL, &error), &error);
}

static void live(life *l) {
  nxmem_error error = nx_blank_error();
  if (!went_well(nxmem_plugin_open(l->host, l->path, &l->plugin, &error), &error)) return;
  const nxmem_open_options options = {.mechanism = "toll"};
  if (!went_well(nxmem_allocator_open(l->plugin, &options, &l->allocator, &error), &error)) return;
  take_blocks(l);
  work_on_pages(l);
  share(l);
  queue(l);
}

/* ---- The way back, tried with the gate shut and then with it open -------------------------------------------------- */

static int is_gone(nxmem_result r) {
  return r == NXMEM_OK || r == NXMEM_ERR_STALE_HANDLE || r == NXMEM_ERR_QUARANTINED;
}

static int put_away_once(life *l) {
  nxmem_error error = nx_blank_error();
  if (l->allocator.id != 0) {
    for (int i = 0; i < BLOCKS; i++)
      if (l->blocks[i].id != 0 && is_gone(nxmem_release(l->allocator, l->blocks[i], NULL, &error))) l->blocks[i].id = 0;
    while (l->references != 0 && nxmem_prefix_release(l->prefix, &error) == NXMEM_OK) l->references--;
    if (nxmem_allocator_close(l->allocator, 0, &error) == NXMEM_OK) l->allocator.id = 0;
  }
  if (l->allocator.id == 0 && l->plugin.id != 0 && nxmem_plugin_try_unload(l->plugin, NULL, &error) == NXMEM_OK)
    l->plugin.id = 0;
  return l->plugin.id == 0;
}

/*
 * A module that was refused while its report was turned away, too, stays mapped and counted as a leak; whoever opens the file next takes it
 * over.
 */
static void take_over(life *l) {
  nxmem_error error = nx_blank_error();
  if (nx_counts(l->host).forced_leaks == 0) return;
  if (nxmem_plugin_open(l->host, l->path, &l->plugin, &error) != NXMEM_OK) fail_msg("%s", error.message);
}

/* A queued release that was still waiting has its turn in the drain of the close; one that never came to it answers BUSY until then. */
static void put_away(life *l) {
  nxmem_error error = nx_blank_error();
  (void)put_away_once(l);
  toll.fail = 0;
  take_over(l);
  if (l->allocator.id != 0) (void)went_well(nxmem_drain_releases(l->allocator, BLOCKS, NULL, &error), &error);
  if (put_away_once(l)) return;
  if (l->allocator.id != 0) fail_msg("the allocator cannot be closed: %s", error.message);
  if (!l->quarantined) fail_msg("the plugin cannot be unloaded");
  nx_force_leak(l->host, l->plugin, l->path);
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

typedef struct turning {
  nx_row_head head;
  uint64_t fail;
  int for_good;
} turning;

/* 1 where something may stay: a group that could not be taken back. */
static int live_and_die(nxmem_fetch_mode mode, const turning *row) {
  life l = {.path = nx_plugin_copy("libnxmem_test_toll.so"), .host = nx_host_in(mode)};
  const nxmem_host_counts before = nx_counts(l.host);
  toll = (nx_toll){.fail = row->fail, .for_good = row->for_good};
  live(&l);
  put_away(&l);
  if (row->fail != 0 && toll.turned_away == 0) fail_msg("no call %u was made", (unsigned)row->fail);
  const nxmem_host_counts after = nx_counts(l.host);
  assert_int_equal(after.contract_violations, 0);
  assert_int_equal(after.unpaid_debts, 0);
  assert_int_equal(after.live_allocations, 0);
  assert_int_equal(after.queued_releases, 0);
  if (!l.quarantined) {
    assert_memory_equal(&before, &after, sizeof before);
    assert_false(nx_is_mapped(l.path));
  }
  nx_host_gone(l.host);
  return l.quarantined;
}

static void test_turned_away(void **state) {
  const nx_case *test = *state;
  const size_t fds = nx_open_fds();
  if (!live_and_die(test->mode, test->row)) assert_int_equal(nx_open_fds(), fds);
}

/* How many calls a whole life makes. */
static uint64_t count_calls(void) {
  const turning none = {.fail = 0};
  (void)live_and_die(NXMEM_FETCH_GUARDED, &none);
  return toll.calls;
}

static void test_reach(void **state) {
  (void)state;
  assert_in_range(count_calls(), 25, TURNS / 2);
}

int main(void) {
  alarm(100);
  char where[32];
  (void)snprintf(where, sizeof where, "%p", (void *)&toll);
  if (setenv(NX_TOLL_ENV, where, 1) != 0) return 1;
  static turning rows[TURNS];
  const uint64_t calls = count_calls();
  uint64_t count = 0;
  for (uint64_t n = 1; n <= calls && count + 2 <= TURNS; n++)
    for (int good = 0; good < 2; good++)
      rows[count++] = (turning){
          .head.name = nx_name("call %u%s", (unsigned)n, good ? " and all after it" : ""), .fail = n, .for_good = good};
  nx_suite suite = {0};
  nx_suite_add(&suite, "the plugin's calls are reached", test_reach, NULL);
  nx_suite_modes(&suite, rows, sizeof rows[0], count, test_turned_away);
  return nx_suite_run(&suite, "host_toll");
}
