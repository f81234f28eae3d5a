/*
 * destroy_between_test.c: a host is destroyed while a plugin's thread stands in its reclaim hook, and its last allocator is closed between two of the looks that the
 * destruction takes. Linked with the host's objects, so that the test can step in there.
 *
 * Attackers played: a plugin thread whose call arrives, and a caller whose close ends, at the worst moment.
 * Promise: the host does not go while its hook runs.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <unistd.h>

#include "objects.h"
#include "puppet.h"

nx_slot *__real_nx_table_at(nx_table *table, uint32_t index);
nx_slot *__wrap_nx_table_at(nx_table *table, uint32_t index);

static nx_stage stage;
static pthread_t caller;
static pthread_barrier_t entered, leave;
static int armed;
static uint32_t code;

static int reclaim(void *ctx, nxmem_allocator allocator, uint64_t bytes, uint64_t *reclaimed_out) {
  (void)ctx;
  (void)allocator;
  (void)bytes;
  pthread_barrier_wait(&entered);
  pthread_barrier_wait(&leave);
  *reclaimed_out = 1;
  return 0;
}

static void *call_back(void *unused) {
  const NxmemReclaimRequest request = {32, 0, puppet.table.mechanism_id, puppet.table.device, 64};
  uint64_t reclaimed = 0;
  code = puppet.callbacks->request_reclaim(puppet.callbacks->host_ctx, &request, &reclaimed).code;
  return unused;
}

/* The calls inside have been looked at, the allocators not yet: now a call comes in, and then the allocator is closed. */
nx_slot *__wrap_nx_table_at(nx_table *table, uint32_t index) {
  if (armed && table == &nx_allocators) {
    armed = 0;
    assert_int_equal(pthread_create(&caller, NULL, call_back, NULL), 0);
    pthread_barrier_wait(&entered);
    nx_must_close(stage.allocator);
  }
  return __real_nx_table_at(table, index);
}

static void test_destroy(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  nxmem_host_options options;
  nxmem_host_options_default(&options);
  options.fetch = c->mode;
  options.reclaim = reclaim;
  stage.path = nx_puppet_copy();
  assert_int_equal(nxmem_host_create(&options, &stage.host, NULL), NXMEM_OK);
  stage.plugin = nx_must_open(stage.host, stage.path);
  stage.allocator = nx_must_open_mechanism(stage.plugin, "puppet");
  nx_force_leak(stage.host, stage.plugin, stage.path); /* its handle is gone, its allocator open */
  pthread_barrier_init(&entered, NULL, 2);
  pthread_barrier_init(&leave, NULL, 2);
  armed = 1;
  nxmem_error error = nx_blank_error();
  nx_assert_code(nxmem_host_destroy(stage.host, &error), &error, NXMEM_ERR_BUSY);
  assert_int_equal(armed, 0);
  pthread_barrier_wait(&leave);
  pthread_join(caller, NULL);
  assert_int_equal(code, NXMEM_STATUS_OK);
  nx_host_gone(stage.host);
}

int main(void) {
  alarm(60);
  static const nx_row_head rows[] = {{"a hook runs while its host is destroyed", NX_BOTH_MODES}};
  nx_suite suite = {0};
  nx_suite_modes(&suite, rows, sizeof rows[0], 1, test_destroy);
  return nx_suite_run(&suite, "host_destroy_between");
}
