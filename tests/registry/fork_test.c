/*
 * fork_test.c: a forked child of the process that has a registry.
 *
 * Attackers played: children that go on with what they inherited.
 * Promise: every call answers FORKED and enters nothing; the parent's registry is as it was.
 */
#define _GNU_SOURCE
#include <sys/wait.h>
#include <unistd.h>

#include "registrytest.h"

static nx_play play;
static nxmem_mechanism m;
static nxmem_binding b;
static nxmem_bound bound;
static nxmem_prepared prepared;
static nxmem_release_queue queue;

static const nxmem_open_options options = {.mechanism = "puppet"};
static const NxmemByteRange range = {0, 64};

/* One call each, outputs thrown away. */
static int all_forked(void) {
  nxmem_registry r;
  nxmem_context c;
  nxmem_authority a;
  nxmem_mechanism new_m;
  nxmem_binding new_b;
  nxmem_bound new_bound;
  nxmem_prepared new_p;
  nxmem_release_queue new_q;
  nxmem_registry_counts counts;
  nxmem_mechanism_state s;
  nxmem_binding_info info;
  const nxmem_part parts[] = {{play.plugin, &options}, {play.plugin, &options}};
  uint64_t n;
  uint32_t count;
  const nxmem_result got[] = {
      nxmem_registry_create(&r, NULL),
      nxmem_registry_destroy(play.registry, NULL),
      nxmem_registry_count(play.registry, &counts, NULL),
      nxmem_context_create(play.registry, &c, NULL),
      nxmem_authority_create(play.registry, &a, NULL),
      nxmem_context_remove(play.context, NULL),
      nxmem_authority_remove(play.authority, NULL),
      nxmem_context_pins(play.context, &n, NULL),
      nxmem_authority_pins(play.authority, &n, NULL),
      nxmem_mechanism_register(play.context, play.authority, play.plugin, &options, &new_m, NULL),
      nxmem_mechanism_register_composite_trusted(play.context, play.authority, parts, 2, &new_m, NULL),
      nxmem_mechanism_get_state(m, &s, NULL),
      nxmem_registry_mechanisms(play.registry, 0, &new_m, 1, &count, NULL, NULL),
      nxmem_mechanism_select(m, NULL),
      nxmem_registry_selected(play.registry, nx_device_0, &new_m, NULL),
      nxmem_mechanism_retire(m, NULL),
      nxmem_mechanism_lose(m, NULL, NULL),
      nxmem_registry_lose_device(play.registry, nx_device_0, NULL, NULL),
      nxmem_mechanism_confirm_terminated(m, NULL),
      nxmem_mechanism_remove(m, NULL, NULL),
      nxmem_mechanism_quarantine(m, 0, NULL, 0, &count, NULL, NULL),
      nxmem_bind(play.registry, nx_device_0, &new_b, NULL),
      nxmem_bind_mechanism(m, &new_b, NULL),
      nxmem_binding_get_info(b, &info, NULL),
      nxmem_binding_end(b, NXMEM_END_DROP, NULL),
      nxmem_bound_allocate(b, 64, 16, NULL, &new_bound, NULL),
      nxmem_bound_commit(&bound, range, NULL),
      nxmem_bound_decommit(&bound, range, NULL, NULL),
      nxmem_bound_release(&bound, NULL),
      nxmem_bound_prepare(&bound, &new_p, NULL),
      nxmem_prepared_execute(prepared, NULL),
      nxmem_prepared_abandon(prepared, NULL),
      nxmem_release_queue_create(play.registry, 1, &new_q, NULL),
      nxmem_release_queue_push(queue, prepared, NULL),
      nxmem_release_queue_drain(queue, 1, NULL, NULL),
      nxmem_release_queue_close(queue, NULL),
      nxmem_release_queue_destroy(queue, NULL, NULL),
  };
  for (int i = 0; i < (int)(sizeof got / sizeof got[0]); i++)
    if (got[i] != NXMEM_ERR_FORKED) return 10 + i;
  return 0;
}

static void test_forked(void **state) {
  (void)state;
  play = nx_play_set();
  m = nx_play_register(&play);
  b = nx_must_bind(m);
  bound = nx_must_allocate_bound(b, 64);
  const nxmem_bound second = nx_must_allocate_bound(b, 64);
  prepared = nx_must_prepare(&second);
  MUST(nxmem_release_queue_create(play.registry, 1, &queue, &error));
  const uint64_t entries = nx_entries();
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    const int code = all_forked();
    _exit(code != 0 ? code : nx_entries() == entries ? 0 : 5);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  MUST(nxmem_release_queue_push(queue, prepared, &error)); /* all is as it was */
  MUST(nxmem_release_queue_drain(queue, 1, NULL, &error));
  MUST(nxmem_release_queue_destroy(queue, NULL, &error));
  MUST(nxmem_bound_release(&bound, &error));
  MUST(nxmem_binding_end(b, 0, &error));
  nx_must_go(m);
  nx_play_strike(&play);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_add(&suite, "a child is refused everything", test_forked, NULL);
  return nx_suite_run(&suite, "registry fork");
}
