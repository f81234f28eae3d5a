/*
 * faults_test.c: every call of the driver fails, at each place where it is made, in each way that it can.
 *
 * Attackers played: a driver that fails the k-th call of a kind for every k, once or for good.
 * Promise: after each of them every object of the driver is accounted for, the engine works on or the device is poisoned, what is still mapped is never handed out, and the
 * module may be unloaded exactly when nothing is left.
 */
#include <stdlib.h>
#include <string.h>

#include "support.h"
#include "vmm.h"

enum { STEPS_MAX = 400 };

/* ---- The workload: every kind of call, each several times --------------------------------------------------------- */

typedef struct work {
  nx_vmm *vmm;
  uint64_t next_id;
  uint64_t failures; /* answers that were not OK */
  uint64_t owned, kept;
} work;

/* Blocks that were handed out and not taken back; what each reported. */
static int take_block(work *w, int reserve, uint64_t bytes, NxmemAllocation *out) {
  NxmemAllocRequest request = nx_vmm_request(++w->next_id, bytes, 1u);
  const NxmemByteRange ranges[] = {{0u, 2u * NX_G}, {3u * NX_G, NX_G}};
  if (reserve == 2) {
    request.committed_ranges = ranges;
    request.committed_range_count = 2u;
  }
  const uint32_t code = nx_whole(nx_vmm_try(w->vmm, reserve != 0, &request, out, NULL));
  w->failures += code != NXMEM_STATUS_OK;
  return code == NXMEM_STATUS_OK;
}

static void give_block(work *w, const NxmemAllocation *block) {
  uint32_t code;
  const NxmemReleaseOutcome outcome = nx_vmm_give(w->vmm, block, &code);
  w->failures += code != NXMEM_STATUS_OK;
  if (code == NXMEM_STATUS_RELEASE_QUARANTINED) {
    assert_int_equal(outcome.state, NXMEM_RELEASE_QUARANTINED);
    assert_int_not_equal(outcome.residual_owned_bytes, 0);
    w->kept += outcome.residual_owned_bytes;
  } else {
    assert_int_equal(code, NXMEM_STATUS_OK);
  }
}

static void count(work *w, uint32_t code) { w->failures += code != NXMEM_STATUS_OK; }

static void commits(work *w) {
  NxmemAllocation reserve;
  if (!take_block(w, 1, 16u * NX_G, &reserve)) return;
  count(w, nx_vmm_commit(w->vmm, &reserve, 0u, 2u * NX_G));
  count(w, nx_vmm_commit(w->vmm, &reserve, 4u * NX_G, 3u * NX_G));
  count(w, nx_vmm_commit(w->vmm, &reserve, NX_G, 8u * NX_G)); /* two gaps */
  count(w, nx_vmm_decommit(w->vmm, &reserve, 2u * NX_G, 4u * NX_G, NULL));
  count(w, nx_vmm_commit(w->vmm, &reserve, 3u * NX_G, NX_G));
  give_block(w, &reserve);
}

static void allocates(work *w) {
  NxmemAllocation blocks[6];
  int made[6];
  for (int i = 0; i < 6; i++)
    made[i] = take_block(w, i == 5 ? 2 : 0, i == 5 ? 5u * NX_G : 1000u + 40000u * (unsigned)i, &blocks[i]);
  for (int i = 0; i < 6; i++)
    if (made[i]) give_block(w, &blocks[i]);
}

static void shares(work *w) {
  NxmemSharedPrefixHandle prefix = {.struct_size = sizeof prefix};
  NxmemAllocation blocks[2];
  int made[2];
  const NxmemSharedMappingVtable *sharing = w->vmm->table->shared_mapping;
  const uint32_t code =
      nx_whole(sharing->create_shared_prefix(sharing->ctx, sharing->mechanism_id, 2u * NX_G + 5u, &prefix));
  count(w, code);
  for (int i = 0; i < 2; i++) made[i] = take_block(w, 1, 8u * NX_G, &blocks[i]);
  for (int i = 0; i < 2; i++)
    if (made[i] && code == NXMEM_STATUS_OK) count(w, nx_vmm_share(w->vmm, &prefix, &blocks[i], NX_G, NULL));
  if (made[0]) give_block(w, &blocks[0]);
  if (code == NXMEM_STATUS_OK) count(w, nx_vmm_drop_prefix(w->vmm, &prefix));
  if (made[1]) give_block(w, &blocks[1]);
}

static void queues(work *w) {
  NxmemAllocation blocks[3];
  uint64_t queued = 0u, retired = 0u;
  const uint64_t told = w->vmm->told;
  for (int i = 0; i < 3; i++) {
    if (!take_block(w, 0, 3000u, &blocks[i])) continue;
    const uint32_t code = nx_vmm_enqueue(w->vmm, &blocks[i], NULL);
    count(w, code);
    queued += code == NXMEM_STATUS_OK;
    if (code != NXMEM_STATUS_OK) give_block(w, &blocks[i]);
  }
  for (int i = 0; i < 8 && w->vmm->told - told < queued; i++) count(w, nx_vmm_drain(w->vmm, &retired));
  /* What failed for good holds the queue up, until it fails no more. */
  if (w->vmm->told - told < queued) nx_script_disarm();
  for (int i = 0; i < 8 && w->vmm->told - told < queued; i++) count(w, nx_vmm_drain(w->vmm, &retired));
  assert_int_equal(w->vmm->told - told, queued);
  for (uint64_t i = told; i < w->vmm->told && i < NX_TOLD_MAX; i++)
    w->kept += w->vmm->completions[i].outcome.residual_owned_bytes;
}

static void run_work(work *w) {
  commits(w);
  allocates(w);
  shares(w);
  queues(w);
}

/* ---- After a fault ------------------------------------------------------------------------------------------------- */

/* Everything works once nothing fails any more; no block lies on what stayed mapped. */
static void must_work_again(nx_vmm *vmm) {
  work w = {.vmm = vmm, .next_id = 1000000u};
  vmm->told = 0u;
  run_work(&w);
  assert_int_equal(w.failures, 0);
  assert_int_equal(w.kept, 0);
}

/* What the driver really holds is what the figures say. */
static void figures_are_true(void) {
  const NxmemVmmStats stats = nx_vmm_stats();
  const uint64_t orphans = (stats.quarantined_bytes / NX_G) - stats.poisoned_granules;
  assert_int_equal(stats.granules_mapped, nx_the_tally.mappings);
  assert_int_equal(stats.poisoned_granules, nx_the_tally.mappings);
  assert_int_equal(stats.committed_bytes, 0);
  /* One handle of a prefix may be mapped for good in several places. */
  assert_in_range(nx_the_tally.handles, orphans + stats.pool_bytes / NX_G + (stats.poisoned_granules != 0u),
                  orphans + stats.pool_bytes / NX_G + stats.poisoned_granules);
  assert_int_equal(stats.refcount_underflows, 0);
}

static void device_is_dead(nx_vmm *vmm) {
  NxmemAllocation block;
  const NxmemAllocRequest request = nx_vmm_request(77u, 100u, 1u);
  assert_int_equal(nx_whole(nx_vmm_try(vmm, 0, &request, &block, NULL)), NXMEM_STATUS_DEVICE_ERROR);
}

/* Whether the module may go is what is left of the driver's objects. */
static void end(nx_vmm *vmm, int dead) {
  nx_vmm_release(vmm);
  const NxmemUnloadReport report = nx_vmm_report();
  nx_vmm_no_breach();
  assert_int_equal(report.live_allocators, 0);
  assert_int_equal(report.queued_releases, 0);
  if (dead) {
    assert_int_equal(report.live_allocations, 0);
    nx_tally_bury();
  } else {
    const int left =
        nx_the_tally.handles + nx_the_tally.mappings + nx_the_tally.marks + nx_the_tally.reservations != 0u;
    assert_int_equal(report.live_allocations != 0u, left);
    if (left) nx_vmm_end_by_loss(vmm);
  }
  nx_vmm_nothing_left();
}

/* ---- The table ----------------------------------------------------------------------------------------------------- */

typedef struct row {
  const char *name;
  nx_call call;
  uint32_t outcome;
  int for_good;
  int then; /* 1: behind it, the next call of then_call fails */
  nx_call then_call;
  uint32_t then_outcome;
} row;

static int ends_the_device(uint32_t outcome) { return outcome == NX_VMM_LOST || outcome == NX_VMM_SHUT_DOWN; }

/* 1: the fault came; 0: the workload makes fewer such calls. */
static int try_at(const row *r, uint64_t at, uint64_t pool_bytes) {
  nx_vmm vmm = {0};
  nx_script_reset();
  nx_the_offer.pool_bytes = pool_bytes;
  nx_vmm_must_open(&vmm);
  nx_script_arm(r->call, at, r->outcome, r->for_good);
  if (r->then) nx_script_then(r->then_call, r->then_outcome);
  work w = {.vmm = &vmm};
  run_work(&w);
  const int fired = nx_the_tally.fired != 0u;
  const int dead = fired && (ends_the_device(r->outcome) || nx_the_tally.lost || nx_the_tally.shut_down ||
                             nx_vmm_stats().device_lost != 0u);
  nx_script_disarm();
  if (dead)
    device_is_dead(&vmm);
  else
    figures_are_true();
  if (!dead) must_work_again(&vmm);
  end(&vmm, dead);
  return fired;
}

static void fails_everywhere(void **state) {
  const row *r = *state;
  const uint64_t pools[] = {0u, 4u * NX_G};
  for (int i = 0; i < 2; i++) {
    uint64_t at = 1u;
    while (try_at(r, at, pools[i])) assert_in_range(++at, 1, STEPS_MAX);
    assert_true(at > 1u || (r->call == NX_CALL_DESTROY && pools[i] != 0u)); /* it fired at least once */
  }
}

static const uint32_t outcomes[] = {NX_VMM_NO_MEMORY, NX_VMM_REFUSED, NX_VMM_LOST, NX_VMM_SHUT_DOWN};
static const char *const outcome_names[] = {"no_memory", "refused", "lost", "shut_down"};
static const nx_call calls[] = {NX_CALL_BIND,       NX_CALL_UNBIND,   NX_CALL_CREATE,     NX_CALL_DESTROY,
                                NX_CALL_MAP,        NX_CALL_UNMAP,    NX_CALL_SET_ACCESS, NX_CALL_MARK,
                                NX_CALL_MARK_STATE, NX_CALL_DROP_MARK};

/* A commit fails, and then what undoes it. */
static void add_pairs(nx_suite *suite) {
  static row pairs[16];
  const nx_call first[] = {NX_CALL_CREATE, NX_CALL_MAP, NX_CALL_SET_ACCESS};
  const nx_call second[] = {NX_CALL_UNMAP, NX_CALL_DESTROY};
  const uint32_t how[] = {NX_VMM_REFUSED, NX_VMM_LOST};
  size_t used = 0u;
  for (int f = 0; f < 3; f++)
    for (int s = 0; s < 2; s++)
      for (int o = 0; o < 2; o++) {
        pairs[used] = (row){nx_name("%s_refused_then_%s_%s", nx_call_names[first[f]], nx_call_names[second[s]],
                                    o == 0 ? "refused" : "lost"),
                            first[f],
                            NX_VMM_REFUSED,
                            0,
                            1,
                            second[s],
                            how[o]};
        nx_suite_add(suite, pairs[used].name, fails_everywhere, &pairs[used]);
        used++;
      }
}

int main(int count_of_arguments, char **arguments) {
  static row rows[128];
  size_t used = 0u;
  nx_suite suite = {0};
  for (size_t c = 0u; c < sizeof calls / sizeof calls[0]; c++)
    for (size_t o = 0u; o < 4u; o++)
      for (int good = 0; good < (o < 2u ? 2 : 1); good++) {
        rows[used] = (row){nx_name("%s_%s%s", nx_call_names[calls[c]], outcome_names[o], good ? "_for_good" : ""),
                           calls[c],
                           outcomes[o],
                           good,
                           0,
                           NX_CALL_DESCRIBE,
                           NX_VMM_DONE};
        nx_suite_add(&suite, rows[used].name, fails_everywhere, &rows[used]);
        used++;
      }
  add_pairs(&suite);
  if (count_of_arguments > 1) cmocka_set_test_filter(arguments[1]);
  return nx_suite_run(&suite, "vmm_faults");
}
