/*
 * commits_test.c: every scripted mechanism whose virtual backing or shared mapping answers falsely, behind the
 * boundary.
 *
 * Attackers played: the rows of plugins/scripted/scripted_commits.c and scripted_sharing.c.
 * Promise: each call answers as the contract has it, each lie is counted once, nothing is lost, and the module goes
 * where nothing is quarantined.
 */
#include <unistd.h>

#include "hosttest.h"
#include "scripted_probe.h"

#define G 65536ull
#define OK NXMEM_OK
#define LIE NXMEM_ERR_CONTRACT
#define SAYS NXMEM_ERR_PLUGIN

typedef struct stage {
  nxmem_host host;
  nxmem_plugin plugin;
  nxmem_allocator allocator;
  const char *path;
} stage;

static stage set(nxmem_fetch_mode mode, const char *library, const char *mechanism) {
  stage s = {.path = nx_plugin_copy(library)};
  nx_observe();
  s.host = nx_host_in(mode);
  s.plugin = nx_must_open(s.host, s.path);
  s.allocator = nx_must_open_mechanism(s.plugin, mechanism);
  return s;
}

/* What was kept keeps the module. */
static void strike(stage *s) {
  nx_must_close(s->allocator);
  if (nx_counts(s->host).quarantined == 0)
    nx_must_unload(s->plugin, s->path);
  else
    nx_force_leak(s->host, s->plugin, s->path);
  nx_host_gone(s->host);
}

static nxmem_result reserve(const stage *s, nxmem_allocation *out) {
  const NxmemByteRange first = {0, 1};
  const nxmem_allocate_options options = {&first, 1};
  return nxmem_allocate(s->allocator, 8 * G, 4096, &options, out, NULL);
}

static uint64_t charged(const stage *s) {
  nxmem_allocator_info info;
  assert_int_equal(nxmem_allocator_get_info(s->allocator, &info, NULL), NXMEM_OK);
  return info.mapped_bytes / G;
}

/* ---- Backing ----------------------------------------------------------------------------------------------------- */

/* Of 8 granules the first is committed at birth; then granules 2 to 4 are committed, and 2 and 3 taken away again. */
typedef struct backing_row {
  const char *name;
  nx_modes modes;
  nxmem_result foretold, reserved, asked, committed, bytes, decommitted;
  uint64_t charged_1;  /* granules, behind the commit */
  uint64_t unmapped;   /* as the decommit said */
  uint64_t charged_2;  /* behind the decommit */
  uint64_t violations; /* all of them, with the release at the end */
  uint64_t quarantined;
} backing_row;

static const backing_row backing_rows[] = {
    {"committed-refuses", 0, OK, SAYS, OK, OK, OK, OK, 0, 0, 0, 0, 0},
    {"committed-null", 0, OK, LIE, OK, OK, OK, OK, 0, 0, 0, 1, 1},
    {"committed-silent", 0, OK, LIE, OK, OK, OK, OK, 0, 0, 0, 1, 1},
    {"committed-misaligned", 0, OK, LIE, OK, OK, OK, OK, 0, 0, 0, 1, 0},
    {"committed-huge", 0, OK, LIE, OK, OK, OK, OK, 0, 0, 0, 1, 0},
    {"commit-partial", 0, OK, OK, OK, SAYS, OK, OK, 2, 1, 1, 0, 0},
    {"commit-partial-huge", 0, OK, OK, OK, SAYS, OK, OK, 2, 1, 1, 0, 0},
    {"commit-partial-mute", 0, OK, OK, OK, SAYS, OK, OK, 2, 1, 1, 0, 0},
    {"commit-partial-silent", 0, OK, OK, OK, SAYS, OK, OK, 2, 1, 1, 0, 0},
    {"commit-refuses", 0, OK, OK, OK, SAYS, OK, OK, 1, 0, 1, 0, 0},
    {"commit-nothing", 0, OK, OK, OK, OK, OK, OK, 4, 0, 4, 0, 0},
    {"decommit-overclaims", 0, OK, OK, OK, OK, OK, OK, 4, 3, 1, 1, 0},
    {"decommit-huge", 0, OK, OK, OK, OK, OK, OK, 4, 4, 0, 2, 0},
    {"decommit-silent", 0, OK, OK, OK, OK, OK, OK, 4, 0, 2, 1, 0},
    {"decommit-fails-after", 0, OK, OK, OK, OK, OK, SAYS, 4, 0, 2, 0, 0},
    {"decommit-refuses", 0, OK, OK, OK, OK, OK, SAYS, 4, 0, 4, 0, 0},
    {"decommit-nothing", 0, OK, OK, OK, OK, OK, OK, 4, 2, 2, 1, 0},
    {"decommit-beyond", 0, OK, OK, OK, OK, OK, OK, 4, 4, 0, 0, 0},
    {"ranges-huge", 0, OK, OK, LIE, LIE, OK, OK, 1, 0, 1, 2, 0},
    {"ranges-silent", 0, OK, OK, LIE, LIE, OK, OK, 1, 0, 1, 2, 0},
    {"ranges-refuse", 0, OK, OK, SAYS, SAYS, OK, OK, 1, 0, 1, 0, 0},
    {"foretold-huge", 0, LIE, OK, OK, OK, OK, OK, 4, 2, 2, 1, 0},
    {"foretold-silent", 0, LIE, OK, OK, OK, OK, OK, 4, 2, 2, 1, 0},
    {"foretold-refused", 0, SAYS, OK, OK, OK, OK, OK, 4, 2, 2, 0, 0},
    {"bytes-huge", 0, OK, OK, OK, OK, LIE, OK, 4, 2, 2, 1, 0},
    {"bytes-silent", 0, OK, OK, OK, OK, LIE, OK, 4, 2, 2, 1, 0},
    {"bytes-refused", 0, OK, OK, OK, OK, SAYS, OK, 4, 2, 2, 0, 0},
};

static void play_backing(const stage *s, const backing_row *row, nxmem_allocation block) {
  const NxmemByteRange three = {2 * G, 3 * G}, two = {2 * G, 2 * G};
  uint64_t out = 0;
  assert_int_equal(nxmem_cost_of_ranges(s->allocator, block, &three, 1, &out, NULL), row->asked);
  assert_int_equal(nxmem_commit(s->allocator, block, three, NULL), row->committed);
  assert_int_equal(charged(s), row->charged_1);
  assert_int_equal(nxmem_committed_bytes(s->allocator, block, &out, NULL), row->bytes);
  uint64_t unmapped = 0;
  assert_int_equal(nxmem_decommit(s->allocator, block, two, &unmapped, NULL), row->decommitted);
  assert_int_equal(unmapped, row->unmapped * G);
  assert_int_equal(charged(s), row->charged_2);
  nx_must_release(s->allocator, block);
}

static void test_backing(void **state) {
  const nx_case *c = *state;
  const backing_row *row = c->row;
  stage s = set(c->mode, "libnxmem_scripted_backing.so", row->name);
  const NxmemByteRange first = {0, 1};
  const nxmem_allocate_options options = {&first, 1};
  uint64_t out = 0;
  assert_int_equal(nxmem_cost_of_allocation(s.allocator, 8 * G, 4096, &options, &out, NULL), row->foretold);
  nxmem_allocation block = {0, NULL};
  assert_int_equal(reserve(&s, &block), row->reserved);
  if (row->reserved == OK) play_backing(&s, row, block);
  const nxmem_host_counts counts = nx_counts(s.host);
  assert_int_equal(counts.contract_violations, row->violations);
  assert_int_equal(counts.quarantined, row->quarantined);
  assert_int_equal(counts.live_allocations, 0);
  assert_int_equal(nx_seen[NX_PROBE_GRANULES_MAPPED], 0);
  strike(&s);
}

/* ---- Sharing ----------------------------------------------------------------------------------------------------- */

/* A prefix of two granules, retained once, asked about, mapped into three allocations of eight, and given back. */
typedef struct sharing_row {
  const char *name;
  nx_modes modes;
  nxmem_result created, retained, told, grouped;
  nxmem_group_outcome outcome;
  uint64_t left;     /* allocations that live behind the group */
  nxmem_result gone; /* the first release of a reference */
  uint64_t violations;
  uint64_t quarantined;
} sharing_row;

#define SHARED NXMEM_GROUP_SHARED
#define PRIVATE NXMEM_GROUP_PRIVATE
#define STUCK NXMEM_GROUP_QUARANTINED
static const sharing_row sharing_rows[] = {
    {"prefix-refused", 0, SAYS, OK, OK, OK, PRIVATE, 0, OK, 0, 0},
    {"prefix-silent", 0, LIE, OK, OK, OK, PRIVATE, 0, OK, 1, 1},
    {"prefix-other-mechanism", 0, LIE, OK, OK, OK, PRIVATE, 0, OK, 1, 1},
    {"prefix-other-device", 0, LIE, OK, OK, OK, PRIVATE, 0, OK, 1, 1},
    {"prefix-huge", 0, LIE, OK, OK, OK, PRIVATE, 0, OK, 1, 0},
    {"share-silent", 0, OK, OK, OK, LIE, PRIVATE, 2, OK, 1, 0},
    {"share-huge", 0, OK, OK, OK, LIE, PRIVATE, 2, OK, 1, 0},
    {"share-charges-twice", 0, OK, OK, OK, OK, SHARED, 3, OK, 2, 0},
    {"share-fails-first", 0, OK, OK, OK, SAYS, PRIVATE, 3, OK, 0, 0},
    {"share-fails-second", 0, OK, OK, OK, SAYS, PRIVATE, 2, OK, 0, 0},
    {"share-fails-third", 0, OK, OK, OK, SAYS, PRIVATE, 1, OK, 0, 0},
    {"prefix-retain-refused", 0, OK, SAYS, OK, OK, SHARED, 3, OK, 0, 0},
    {"prefix-release-refused", 0, OK, OK, OK, OK, SHARED, 3, SAYS, 0, 0},
    {"incremental-huge", 0, OK, OK, LIE, OK, SHARED, 3, OK, 1, 0},
    {"incremental-silent", 0, OK, OK, LIE, OK, SHARED, 3, OK, 1, 0},
    {"incremental-refused", 0, OK, OK, SAYS, OK, SHARED, 3, OK, 0, 0},
    {"rollback-quarantines", 0, OK, OK, OK, SAYS, STUCK, 2, OK, 0, 1},
};

enum { MEMBERS = 3 };

static void give_back(const stage *s, const sharing_row *row, nxmem_prefix prefix, const nxmem_allocation *members) {
  for (int i = 0; i < MEMBERS; i++) {
    const int stuck = row->outcome == STUCK; /* this one takes no allocation back at all */
    const nxmem_result r = nxmem_release(s->allocator, members[i], NULL, NULL);
    if (i < MEMBERS - (int)row->left)
      assert_int_equal(r, stuck ? NXMEM_ERR_QUARANTINED : NXMEM_ERR_STALE_HANDLE);
    else
      assert_int_equal(r, stuck ? NXMEM_ERR_QUARANTINED : OK);
  }
  assert_int_equal(nxmem_prefix_release(prefix, NULL), row->gone);
  while (nxmem_prefix_release(prefix, NULL) == OK) {
  }
}

static void play_sharing(const stage *s, const sharing_row *row, nxmem_prefix prefix) {
  nxmem_prefix_info info;
  nxmem_allocation members[MEMBERS];
  assert_int_equal(nxmem_prefix_retain(prefix, NULL), row->retained);
  assert_int_equal(nxmem_prefix_get_info(prefix, &info, NULL), row->told);
  for (int i = 0; i < MEMBERS; i++) assert_int_equal(reserve(s, &members[i]), OK);
  nxmem_group_outcome outcome = PRIVATE;
  assert_int_equal(nxmem_prefix_commit(prefix, members, MEMBERS, 4 * G, &outcome, NULL), row->grouped);
  assert_int_equal(outcome, row->outcome);
  assert_int_equal(nx_counts(s->host).live_allocations, row->left);
  assert_int_equal(nx_counts(s->host).quarantined, row->quarantined);
  give_back(s, row, prefix, members);
}

static void test_sharing(void **state) {
  const nx_case *c = *state;
  const sharing_row *row = c->row;
  stage s = set(c->mode, "libnxmem_scripted_sharing.so", row->name);
  nxmem_prefix prefix = {0};
  assert_int_equal(nxmem_prefix_create(s.allocator, 2 * G, &prefix, NULL), row->created);
  if (row->created == OK) play_sharing(&s, row, prefix);
  const nxmem_host_counts counts = nx_counts(s.host);
  assert_int_equal(counts.contract_violations, row->violations);
  assert_int_equal(counts.live_prefixes, 0);
  assert_int_equal(counts.live_allocations, 0);
  if (row->outcome != STUCK) assert_int_equal(counts.quarantined, row->quarantined);
  assert_int_equal(nx_seen[NX_PROBE_LIVE_PREFIXES], 0);
  strike(&s);
}

int main(void) {
  alarm(200);
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(backing_rows), test_backing);
  nx_suite_modes(&suite, ROWS(sharing_rows), test_sharing);
  return nx_suite_run(&suite, "host_commits");
}
