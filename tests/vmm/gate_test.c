/*
 * gate_test.c: the capture gate, at every site that calls the driver.
 *
 * Attackers played: a program that captures a graph while its allocator is in use.
 * Promise: each site is refused with BUSY and changes nothing while the gate is held, and works once it is left; what is under way is never made to wait.
 */
#include "gate.h"

#include <pthread.h>
#include <sched.h>

#include "support.h"
#include "vmm.h"

static void hold(void) { assert_int_equal(nx_vmm_gate_enter(nx_the_offer.tier, nx_the_offer.index), NXMEM_STATUS_OK); }
static void let_go(void) {
  assert_int_equal(nx_vmm_gate_leave(nx_the_offer.tier, nx_the_offer.index), NXMEM_STATUS_OK);
}

/* ---- One site each -------------------------------------------------------------------------------------------------- */

typedef struct scene {
  nx_vmm *vmm;
  NxmemAllocation block, reserve, sharer, last;
  NxmemSharedPrefixHandle prefix;
} scene;

static uint32_t site_allocate(scene *s) {
  const NxmemAllocRequest request = nx_vmm_request(50u, NX_G, NX_G);
  return nx_whole(nx_vmm_try(s->vmm, 0, &request, &s->last, NULL));
}
static uint32_t site_allocate_committed(scene *s) {
  NxmemAllocRequest request = nx_vmm_request(51u, 4u * NX_G, 1u);
  const NxmemByteRange range = {0u, 1u};
  request.committed_ranges = &range;
  request.committed_range_count = 1u;
  return nx_whole(nx_vmm_try(s->vmm, 1, &request, &s->last, NULL));
}
static uint32_t site_commit(scene *s) { return nx_vmm_commit(s->vmm, &s->reserve, 4u * NX_G, NX_G); }
static uint32_t site_decommit(scene *s) { return nx_vmm_decommit(s->vmm, &s->reserve, 0u, NX_G, NULL); }
static uint32_t site_release(scene *s) {
  uint32_t code;
  (void)nx_vmm_give(s->vmm, &s->block, &code);
  return code;
}
static uint32_t site_deallocate(scene *s) {
  uint64_t unmapped = 0u;
  return nx_whole(s->vmm->table->deallocate(s->vmm->table->ctx, &s->block, &unmapped));
}
static uint32_t site_release_sharer(scene *s) {
  uint32_t code;
  (void)nx_vmm_give(s->vmm, &s->sharer, &code);
  return code;
}
static uint32_t site_enqueue(scene *s) { return nx_vmm_enqueue(s->vmm, &s->block, NULL); }
static uint32_t site_prefix_create(scene *s) {
  NxmemSharedPrefixHandle handle = {.struct_size = sizeof handle};
  const NxmemSharedMappingVtable *t = s->vmm->table->shared_mapping;
  const uint32_t code = nx_whole(t->create_shared_prefix(t->ctx, t->mechanism_id, 1u, &handle));
  if (code == NXMEM_STATUS_OK) assert_int_equal(nx_vmm_drop_prefix(s->vmm, &handle), NXMEM_STATUS_OK);
  return code;
}
static uint32_t site_prefix_commit(scene *s) { return nx_vmm_share(s->vmm, &s->prefix, &s->reserve, 2u * NX_G, NULL); }
static uint32_t site_prefix_release(scene *s) { return nx_vmm_drop_prefix(s->vmm, &s->prefix); }
static uint32_t site_open(scene *s) {
  nx_vmm other = {0};
  const uint32_t code = nx_whole(nx_vmm_open(&other, NXMEM_CAP_ALLOCATOR));
  (void)s;
  if (code == NXMEM_STATUS_OK) nx_vmm_release(&other);
  return code;
}

typedef struct site {
  const char *name;
  uint32_t (*call)(scene *s);
} site;

static const site sites[] = {{"allocate", site_allocate},
                             {"allocate_committed", site_allocate_committed},
                             {"commit_range", site_commit},
                             {"decommit_range", site_decommit},
                             {"release_allocation", site_release},
                             {"deallocate", site_deallocate},
                             {"release_of_a_sharer", site_release_sharer},
                             {"enqueue_release", site_enqueue},
                             {"create_shared_prefix", site_prefix_create},
                             {"commit_shared_prefix", site_prefix_commit},
                             {"release_shared_prefix", site_prefix_release},
                             {"open_allocator", site_open}};

static void begin(scene *s, nx_vmm *vmm) {
  s->vmm = vmm;
  s->block = nx_vmm_take(vmm, 1u, NX_G, NX_G);
  s->reserve = nx_vmm_reserve(vmm, 2u, 8u * NX_G);
  s->sharer = nx_vmm_reserve(vmm, 3u, NX_G);
  s->prefix = nx_vmm_prefix(vmm, 1u);
  assert_int_equal(nx_vmm_commit(vmm, &s->reserve, 0u, NX_G), NXMEM_STATUS_OK);
  assert_int_equal(nx_vmm_share(vmm, &s->prefix, &s->sharer, 0u, NULL), NXMEM_STATUS_OK);
}

static uint64_t calls_made(void) {
  uint64_t sum = 0u;
  for (int i = 0; i < NX_CALLS; i++) sum += nx_the_tally.calls[i];
  return sum;
}

static void site_is_refused(void **state) {
  const site *row = *state;
  nx_vmm *vmm = NULL;
  scene s = {0};
  (void)nx_vmm_set_up((void **)&vmm);
  begin(&s, vmm);
  const NxmemUnloadReport before = nx_vmm_report();
  const NxmemVmmStats figures = nx_vmm_stats();
  nx_script_arm(NX_CALL_BIND, 0u, 0u, 0);
  hold();
  assert_int_equal(row->call(&s), NXMEM_STATUS_BUSY);
  const NxmemUnloadReport after = nx_vmm_report();
  const NxmemVmmStats still = nx_vmm_stats();
  assert_memory_equal(&before, &after, sizeof before);
  assert_memory_equal(&figures, &still, sizeof figures);
  assert_int_equal(calls_made(), 0);
  let_go();
  assert_int_equal(row->call(&s), NXMEM_STATUS_OK);
  nx_vmm_end_by_loss(vmm);
  free(vmm);
}

/* ---- Other sites ---------------------------------------------------------------------------------------------------- */

static void drain_is_refused(void **state) {
  nx_vmm *vmm = *state;
  uint64_t retired = 0u;
  const NxmemAllocation block = nx_vmm_take(vmm, 1u, NX_G, NX_G);
  assert_int_equal(nx_vmm_enqueue(vmm, &block, NULL), NXMEM_STATUS_OK);
  hold();
  assert_int_equal(nx_vmm_drain(vmm, &retired), NXMEM_STATUS_BUSY);
  assert_int_equal(vmm->told, 0);
  let_go();
  assert_int_equal(nx_vmm_drain(vmm, &retired), NXMEM_STATUS_OK);
  assert_int_equal(vmm->told, 1);
}

static void teardown_waits_for_the_end(void **state) {
  nx_vmm *vmm = *state;
  hold();
  nx_vmm_release(vmm);
  assert_int_equal(nx_vmm_report().live_allocations, 1);
  assert_int_equal(nx_the_tally.reservations, 1);
  let_go();
  assert_int_equal(nx_vmm_report().live_allocations, 0);
}

/* No call of the driver, no refusal. */
static void what_maps_nothing_goes_on(void **state) {
  nx_vmm *vmm = *state;
  const NxmemAllocation first = nx_vmm_take(vmm, 1u, 100u, 1u);
  hold();
  const NxmemAllocation second = nx_vmm_take(vmm, 2u, 100u, 1u);
  nx_vmm_must_give(vmm, &second);
  let_go();
  nx_vmm_must_give(vmm, &first);
}

static void gate_counts(void **state) {
  nx_vmm *vmm = *state;
  hold();
  hold();
  let_go();
  const NxmemAllocRequest request = nx_vmm_request(1u, NX_G, NX_G);
  NxmemAllocation block;
  assert_int_equal(nx_whole(nx_vmm_try(vmm, 0, &request, &block, NULL)), NXMEM_STATUS_BUSY);
  let_go();
  assert_int_equal(nx_vmm_gate_leave(nx_the_offer.tier, nx_the_offer.index), NXMEM_STATUS_INVALID_ARGUMENT);
  block = nx_vmm_take(vmm, 1u, NX_G, NX_G);
  nx_vmm_must_give(vmm, &block);
}

/* ---- A capture that waits -------------------------------------------------------------------------------------------- */

static pthread_t capturer;
static int captured_at_create;

static void *capture(void *unused) {
  hold();
  return unused;
}

/* Once, inside a commit: a capture begins to wait. It is known to wait when no new section opens. */
static void begin_capture(nx_call call) {
  nx_gate *gate;
  if (call != NX_CALL_CREATE || captured_at_create) return;
  captured_at_create = 1;
  if (pthread_create(&capturer, NULL, capture, NULL) != 0) abort();
  gate = nx_gate_take(nx_the_offer.tier, nx_the_offer.index);
  while (nx_gate_open_section(gate)) {
    nx_gate_close_section(gate);
    sched_yield();
  }
  nx_gate_drop(gate);
}

/* The commit fails at its last call and is undone, a capture waiting all the while. */
static void rollback_passes_a_waiting_capture(void **state) {
  nx_vmm *vmm = *state;
  const NxmemAllocation block = nx_vmm_reserve(vmm, 1u, 4u * NX_G);
  captured_at_create = 0;
  nx_the_script.hook = begin_capture;
  nx_script_arm(NX_CALL_SET_ACCESS, 1u, NX_VMM_REFUSED, 0);
  assert_int_equal(nx_vmm_commit(vmm, &block, 0u, 4u * NX_G), NXMEM_STATUS_DEVICE_ERROR);
  nx_the_script.hook = NULL;
  assert_int_equal(pthread_join(capturer, NULL), 0);
  assert_int_equal(nx_the_tally.mappings, 0);
  assert_int_equal(nx_vmm_commit(vmm, &block, 0u, NX_G), NXMEM_STATUS_BUSY);
  let_go();
  assert_int_equal(nx_vmm_commit(vmm, &block, 0u, NX_G), NXMEM_STATUS_OK);
  nx_vmm_must_give(vmm, &block);
}

int main(void) {
  const struct CMUnitTest tests[] = {NX_VMM_TEST(drain_is_refused), NX_VMM_TEST(teardown_waits_for_the_end),
                                     NX_VMM_TEST(what_maps_nothing_goes_on), NX_VMM_TEST(gate_counts),
                                     NX_VMM_TEST(rollback_passes_a_waiting_capture)};
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(sites), site_is_refused);
  const int failed = nx_suite_run(&suite, "vmm_gate_sites");
  return failed + cmocka_run_group_tests_name("vmm_gate", tests, NULL, NULL);
}
