/*
 * pages_test.c: virtual backing and shared mapping over real pages: the mechanism `lazy` behind the boundary, and two
 * copies of its module beside each other.
 *
 * Attackers played: callers that write where nothing is committed, or into pages they share; one module given what is
 * the other's.
 * Promise: what the host says is committed can be written, what it says is not faults, what is shared cannot be
 * written; the books say what the plugin counts; two modules that carry the same numbers are told apart by the host's
 * own.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hosttest.h"
#include "nxmem/outcome.h"
#include "scripted_probe.h"

#define G 65536ull

/* ---- Touching ---------------------------------------------------------------------------------------------------- */

static void read_one(volatile uint8_t *at) { (void)*at; }
static void write_one(volatile uint8_t *at) { *at = 0x5A; }

/* 1 where a child can do that to the byte, 0 where it faults. */
static int can(void (*touch)(volatile uint8_t *at), void *ptr, uint64_t offset) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    touch((uint8_t *)ptr + offset);
    _exit(0);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (WIFEXITED(status)) return WEXITSTATUS(status) == 0;
  assert_true(WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS);
  return 0;
}

/* ---- A stage ----------------------------------------------------------------------------------------------------- */

typedef struct stage {
  nxmem_host host;
  nxmem_plugin plugin;
  nxmem_allocator allocator;
  const char *path;
} stage;

static stage set(nxmem_fetch_mode mode) {
  stage s = {.path = nx_plugin_copy("libnxmem_scripted.so")};
  nx_observe();
  s.host = nx_host_in(mode);
  s.plugin = nx_must_open(s.host, s.path);
  s.allocator = nx_must_open_mechanism(s.plugin, "lazy");
  return s;
}

static void strike(stage *s) {
  assert_int_equal(nx_counts(s->host).contract_violations, 0);
  nx_must_close(s->allocator);
  nx_must_unload(s->plugin, s->path);
  nx_host_gone(s->host);
  nx_assert_books_closed();
}

static nxmem_allocation reserve(const stage *s, uint64_t bytes) {
  const NxmemByteRange first = {0, 1};
  const nxmem_allocate_options options = {&first, 1};
  nxmem_allocation made = {0, NULL};
  nxmem_error error = nx_blank_error();
  if (nxmem_allocate(s->allocator, bytes, 4096, &options, &made, &error) != NXMEM_OK) fail_msg("%s", error.message);
  return made;
}

static uint64_t charged(const stage *s) {
  nxmem_allocator_info info;
  assert_int_equal(nxmem_allocator_get_info(s->allocator, &info, NULL), NXMEM_OK);
  return info.mapped_bytes;
}

/* ---- Backing ----------------------------------------------------------------------------------------------------- */

static void test_backing(void **state) {
  const nx_case *c = *state;
  stage s = set(c->mode);
  const nxmem_allocation block = reserve(&s, 8 * G);
  assert_true(can(write_one, block.ptr, 0));
  assert_true(can(write_one, block.ptr, G - 1));
  assert_false(can(read_one, block.ptr, G));
  const NxmemByteRange range = {3 * G + 5, G};
  assert_int_equal(nxmem_commit(s.allocator, block, range, NULL), NXMEM_OK);
  assert_int_equal(charged(&s), 3 * G);
  assert_int_equal(nx_seen[NX_PROBE_GRANULES_MAPPED], 3);
  ((uint8_t *)block.ptr)[3 * G] = 7;
  ((uint8_t *)block.ptr)[5 * G - 1] = 8;
  assert_false(can(read_one, block.ptr, 5 * G));
  uint64_t out = 0;
  assert_int_equal(nxmem_decommit(s.allocator, block, (NxmemByteRange){3 * G, G}, &out, NULL), NXMEM_OK);
  assert_int_equal(out, G);
  assert_false(can(read_one, block.ptr, 3 * G));
  assert_true(can(read_one, block.ptr, 5 * G - 1));
  assert_int_equal(((uint8_t *)block.ptr)[5 * G - 1], 8); /* what stays keeps its contents */
  assert_int_equal(charged(&s), 2 * G);
  assert_int_equal(nxmem_committed_bytes(s.allocator, block, &out, NULL), NXMEM_OK);
  assert_int_equal(out, 2 * G);
  assert_int_equal(nxmem_commit(s.allocator, block, (NxmemByteRange){0, 8 * G}, NULL), NXMEM_OK);
  assert_int_equal(charged(&s), 8 * G);
  assert_int_equal(((uint8_t *)block.ptr)[3 * G], 0); /* what comes back is empty */
  nx_must_release(s.allocator, block);
  assert_int_equal(charged(&s), 0);
  assert_int_equal(nx_seen[NX_PROBE_GRANULES_MAPPED], 0);
  strike(&s);
}

/* ---- Sharing ----------------------------------------------------------------------------------------------------- */

static void test_sharing(void **state) {
  const nx_case *c = *state;
  stage s = set(c->mode);
  nxmem_prefix prefix;
  nxmem_prefix_info info;
  nxmem_allocation members[3];
  assert_int_equal(nxmem_prefix_create(s.allocator, 2 * G, &prefix, NULL), NXMEM_OK);
  for (int i = 0; i < 3; i++) members[i] = reserve(&s, 8 * G);
  nxmem_group_outcome outcome = NXMEM_GROUP_QUARANTINED;
  assert_int_equal(nxmem_prefix_commit(prefix, members, 3, 4 * G, &outcome, NULL), NXMEM_OK);
  assert_int_equal(outcome, NXMEM_GROUP_SHARED);
  for (int i = 0; i < 3; i++) {
    assert_true(can(read_one, members[i].ptr, 4 * G));
    assert_true(can(read_one, members[i].ptr, 6 * G - 1));
    assert_false(can(write_one, members[i].ptr, 4 * G));
    assert_false(can(read_one, members[i].ptr, 6 * G));
    assert_true(can(write_one, members[i].ptr, 0));
  }
  assert_int_equal(charged(&s), 3 * 3 * G);
  assert_int_equal(nx_seen[NX_PROBE_LIVE_VIEWS], 3);
  assert_int_equal(nxmem_prefix_get_info(prefix, &info, NULL), NXMEM_OK);
  assert_int_equal(info.next_commit_owned_bytes, 0);
  assert_int_equal(nxmem_prefix_release(prefix, NULL), NXMEM_OK);
  assert_true(can(read_one, members[0].ptr, 4 * G)); /* the pages live until the last view goes */
  for (int i = 0; i < 3; i++) nx_must_release(s.allocator, members[i]);
  assert_int_equal(nx_seen[NX_PROBE_LIVE_VIEWS], 0);
  assert_int_equal(charged(&s), 0);
  strike(&s);
}

/* Something is mapped there already: the plugin refuses the second, and the first is taken back. */
static void test_taken(void **state) {
  const nx_case *c = *state;
  stage s = set(c->mode);
  nxmem_prefix prefix;
  const nxmem_allocation members[] = {reserve(&s, 8 * G), reserve(&s, 8 * G)};
  assert_int_equal(nxmem_prefix_create(s.allocator, 2 * G, &prefix, NULL), NXMEM_OK);
  assert_int_equal(nxmem_commit(s.allocator, members[1], (NxmemByteRange){4 * G, 1}, NULL), NXMEM_OK);
  nxmem_group_outcome outcome = NXMEM_GROUP_SHARED;
  nxmem_error error = nx_blank_error();
  const nx_refusal want = {NXMEM_ERR_PLUGIN, 0, 0, 0, 0, NXMEM_STATUS_INVALID_ARGUMENT};
  nx_assert_refused(nxmem_prefix_commit(prefix, members, 2, 4 * G, &outcome, &error), &error, want);
  assert_int_equal(outcome, NXMEM_GROUP_PRIVATE);
  assert_int_equal(nxmem_release(s.allocator, members[0], NULL, NULL), NXMEM_ERR_STALE_HANDLE);
  assert_int_equal(nx_seen[NX_PROBE_LIVE_VIEWS], 0);
  assert_int_equal(charged(&s), 2 * G);
  assert_true(can(write_one, members[1].ptr, 4 * G));
  nx_must_release(s.allocator, members[1]);
  assert_int_equal(nxmem_prefix_release(prefix, NULL), NXMEM_OK);
  strike(&s);
}

/* ---- Many threads at real pages ---------------------------------------------------------------------------------- */

enum { THREADS = 8, ROUNDS = 150 };

typedef struct worker {
  pthread_t thread;
  uint64_t seed;
  const stage *s;
  nxmem_allocation shared;
  nxmem_prefix prefix;
} worker;

static uint64_t next(worker *w) {
  w->seed = w->seed * 6364136223846793005ull + 1442695040888963407ull;
  return w->seed >> 33;
}

static const char *with_own(worker *w) {
  nxmem_group_outcome outcome;
  const nxmem_allocator a = w->s->allocator;
  const nxmem_allocation own[] = {reserve(w->s, 4 * G), reserve(w->s, 4 * G)};
  if (nxmem_prefix_retain(w->prefix, NULL) != NXMEM_OK) return "retain";
  if (nxmem_prefix_commit(w->prefix, own, 2, 2 * G, &outcome, NULL) != NXMEM_OK) return "group";
  if (nxmem_commit(a, own[0], (NxmemByteRange){G, 1}, NULL) != NXMEM_OK) return "commit";
  if (nxmem_prefix_release(w->prefix, NULL) != NXMEM_OK) return "release prefix";
  for (int i = 0; i < 2; i++)
    if (nxmem_release(a, own[i], NULL, NULL) != NXMEM_OK) return "release";
  return NULL;
}

static void *work(void *arg) {
  worker *w = arg;
  const char *failed = NULL;
  for (int i = 0; i < ROUNDS && failed == NULL; i++) {
    const NxmemByteRange range = {next(w) % 14 * G, (1 + next(w) % 2) * G};
    const int commits = next(w) % 2 == 0;
    const nxmem_result r = commits ? nxmem_commit(w->s->allocator, w->shared, range, NULL)
                                   : nxmem_decommit(w->s->allocator, w->shared, range, NULL, NULL);
    if (r != NXMEM_OK) failed = commits ? "shared commit" : "shared decommit";
    if (failed == NULL && i % 8 == 0) failed = with_own(w);
  }
  return (void *)(uintptr_t)failed;
}

static void test_threads(void **state) {
  const nx_case *c = *state;
  stage s = set(c->mode);
  nxmem_prefix prefix;
  assert_int_equal(nxmem_prefix_create(s.allocator, G, &prefix, NULL), NXMEM_OK);
  const nxmem_allocation shared = reserve(&s, 16 * G);
  worker workers[THREADS];
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){.seed = (uint64_t)i + 1, .s = &s, .shared = shared, .prefix = prefix};
    assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    void *failed = NULL;
    assert_int_equal(pthread_join(workers[i].thread, &failed), 0);
    if (failed != NULL) fail_msg("%s", (const char *)failed);
  }
  assert_int_equal(charged(&s), nx_seen[NX_PROBE_GRANULES_MAPPED] * G);
  nx_must_release(s.allocator, shared);
  assert_int_equal(charged(&s), 0);
  assert_int_equal(nxmem_prefix_release(prefix, NULL), NXMEM_OK);
  strike(&s);
}

/* ---- Two copies of one module ------------------------------------------------------------------------------------ */

typedef struct copy {
  const char *path;
  nxmem_plugin plugin;
  stage s;
  nxmem_allocation block;
  nxmem_prefix prefix;
} copy;

static copy set_copy(nxmem_host host) {
  copy m = {.path = nx_plugin_copy("libnxmem_scripted.so")};
  nx_observe();
  m.plugin = nx_must_open(host, m.path);
  m.s.allocator = nx_must_open_mechanism(m.plugin, "lazy");
  m.block = reserve(&m.s, 8 * G);
  assert_int_equal(nxmem_prefix_create(m.s.allocator, G, &m.prefix, NULL), NXMEM_OK);
  return m;
}

static void strike_copy(copy *m) {
  assert_int_equal(nxmem_prefix_release(m->prefix, NULL), NXMEM_OK);
  nx_must_release(m->s.allocator, m->block);
  nx_must_close(m->s.allocator);
  nx_must_unload(m->plugin, m->path);
}

static uint64_t mechanism_of(nxmem_allocator allocator) {
  nxmem_allocator_info info;
  assert_int_equal(nxmem_allocator_get_info(allocator, &info, NULL), NXMEM_OK);
  return info.mechanism_id;
}

/* Each is given the other's allocation, and its own under the other's prefix. Neither hears of it. */
static void give_the_others(const copy *to, const copy *from) {
  const nxmem_allocator a = to->s.allocator;
  const NxmemByteRange range = {G, G};
  uint64_t out = 0;
  nxmem_group_outcome outcome = NXMEM_GROUP_SHARED;
  assert_int_equal(nxmem_release(a, from->block, NULL, NULL), NXMEM_ERR_WRONG_OWNER);
  assert_int_equal(nxmem_enqueue_release(a, from->block, NULL, NULL, NULL), NXMEM_ERR_WRONG_OWNER);
  assert_int_equal(nxmem_commit(a, from->block, range, NULL), NXMEM_ERR_WRONG_OWNER);
  assert_int_equal(nxmem_decommit(a, from->block, range, NULL, NULL), NXMEM_ERR_WRONG_OWNER);
  assert_int_equal(nxmem_committed_bytes(a, from->block, &out, NULL), NXMEM_ERR_WRONG_OWNER);
  assert_int_equal(nxmem_cost_of_ranges(a, from->block, &range, 1, &out, NULL), NXMEM_ERR_WRONG_OWNER);
  assert_int_equal(nxmem_prefix_commit(to->prefix, &from->block, 1, G, &outcome, NULL), NXMEM_ERR_WRONG_OWNER);
  assert_int_equal(outcome, NXMEM_GROUP_PRIVATE);
  const nxmem_allocation both[] = {from->block, to->block};
  assert_int_equal(nxmem_prefix_commit(from->prefix, both, 2, G, &outcome, NULL), NXMEM_ERR_WRONG_OWNER);
  assert_int_equal(outcome, NXMEM_GROUP_PRIVATE);
}

static void test_two_copies(void **state) {
  const nx_case *c = *state;
  nxmem_host host = nx_host_in(c->mode);
  copy one = set_copy(host), two = set_copy(host);
  assert_int_equal(mechanism_of(one.s.allocator), mechanism_of(two.s.allocator)); /* their numbers are the same */
  static uint64_t before[NX_PROBE_COUNT];
  memcpy(before, nx_seen, sizeof before);
  give_the_others(&one, &two);
  give_the_others(&two, &one);
  assert_memory_equal(before, nx_seen, sizeof before); /* neither module was asked */
  assert_int_equal(nx_counts(host).live_allocations, 2);
  assert_int_equal(nx_counts(host).live_prefixes, 2);
  assert_int_equal(nx_counts(host).contract_violations, 0);
  strike_copy(&one);
  strike_copy(&two);
  nx_host_gone(host);
}

#define ONE(name, test) static const nx_row_head name##_rows[] = {{test, NX_BOTH_MODES}}
ONE(backing, "pages that are committed and taken away");
ONE(sharing, "pages that are shared");
ONE(taken, "pages where something is already");
ONE(thread, "eight threads at real pages");
ONE(copies, "two copies of one module");

int main(void) {
  alarm(280);
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(backing_rows), test_backing);
  nx_suite_modes(&suite, ROWS(sharing_rows), test_sharing);
  nx_suite_modes(&suite, ROWS(taken_rows), test_taken);
  nx_suite_modes(&suite, ROWS(thread_rows), test_threads);
  nx_suite_modes(&suite, ROWS(copies_rows), test_two_copies);
  return nx_suite_run(&suite, "host_pages");
}
