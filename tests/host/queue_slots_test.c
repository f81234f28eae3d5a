/*
 * queue_slots_test.c: what a queued release takes, it gives back, however it ends.
 *
 * Attackers played: a plugin that makes the host queue, refuse, quarantine and close for ever.
 * Promise: after any number of rounds no table has grown.
 */
#include <unistd.h>

#include "deferred.h"
#include "staging.h"

enum { BYTES = 64, ALIGN = 16, WARM = 200, ROUNDS = 2000 };

static nx_stage stage;

typedef struct end_row {
  const char *name;
  nx_modes modes;
  int refuse_pin;
  uint32_t enqueue_code;
  int leave_ticket;
  int close; /* before the completion */
  uint32_t state;
} end_row;

static const end_row end_rows[] = {
    {"completed", 0, 0, 0, 0, 0, NXMEM_RELEASE_COMPLETE},
    {"failed", 0, 0, 0, 0, 0, NXMEM_RELEASE_FAILED},
    {"refused", 0, 0, NXMEM_STATUS_BUSY, 0, 0, 0},
    {"refused by the pin source", 0, 1, 0, 0, 0, 0},
    {"quarantined, then closed", 0, 0, 0, 0, 0, NXMEM_RELEASE_QUARANTINED},
    {"no ticket, then closed", 0, 0, 0, 1, 0, 0},
    {"closed, then completed", 0, 0, 0, 0, 1, NXMEM_RELEASE_COMPLETE},
    {"closed, then failed", 0, 0, 0, 0, 1, NXMEM_RELEASE_FAILED},
    {"closed, then quarantined", 0, 0, 0, 0, 1, NXMEM_RELEASE_QUARANTINED},
};

static int refuse_pin(void *unused) {
  (void)unused;
  return 1;
}
static void no_unpin(void *unused) { (void)unused; }
static const nxmem_pin_source refusing = {refuse_pin, no_unpin, NULL};

static void open_for(const end_row *row) {
  const nxmem_open_options options = {.mechanism = "puppet", .pins = row->refuse_pin ? &refusing : NULL};
  assert_int_equal(nxmem_allocator_open(stage.plugin, &options, &stage.allocator, NULL), NXMEM_OK);
}

static void complete_first(uint32_t release_state) {
  nx_puppet_queued queued;
  assert_int_equal(nx_puppet_pop(&queued), 1);
  NxmemReleaseCompletion completion = nx_puppet_completion(&queued);
  completion.outcome.state = release_state;
  assert_int_equal(nx_puppet_complete(&completion), NXMEM_STATUS_OK);
}

/* Records that are not free. */
static uint32_t records_in_use(void) {
  uint32_t n = 0;
  const uint32_t count = atomic_load(&nx_allocations.count);
  for (uint32_t i = 0; i < count; i++)
    n += nxmem_word_state(atomic_load(&nx_table_at(&nx_allocations, i)->word)) != NXMEM_SLOT_FREE;
  return n;
}

static void run_round(const end_row *row) {
  puppet.idle_drain = 1;
  puppet.enqueue_code = row->enqueue_code;
  puppet.leave_ticket = row->leave_ticket;
  static uintptr_t address = 1u << 30; /* nobody looks behind it, and none comes twice: some are quarantined */
  address += 4096;
  puppet.address = (uint8_t *)address;
  const nxmem_allocation block = nx_must_allocate(stage.allocator, BYTES, ALIGN);
  const nxmem_result queued = nxmem_enqueue_release(stage.allocator, block, NULL, NULL, NULL);
  if (row->close) nx_must_close(stage.allocator);
  if (queued == NXMEM_OK) complete_first(row->state);
  nx_puppet_queued none;
  while (nx_puppet_pop(&none)) {
  }
  if (!row->close) assert_int_equal(nxmem_allocator_close(stage.allocator, NXMEM_CLOSE_RELEASE_LIVE, NULL), NXMEM_OK);
  assert_int_equal(nx_counts(stage.host).queued_releases, 0);
  assert_int_equal(nx_counts(stage.host).held_slots, 0);
  assert_int_equal(records_in_use(), 0);
  open_for(row);
}

static void test_end(void **state) {
  const nx_case *c = *state;
  const end_row *row = c->row;
  nx_puppet_reset();
  stage = nx_stage_set(c->mode);
  nx_must_close(stage.allocator);
  open_for(row);
  for (int i = 0; i < WARM; i++) run_round(row);
  const uint32_t allocations = atomic_load(&nx_allocations.count);
  const uint32_t queue = atomic_load(&nx_queue.count);
  const uint32_t allocators = atomic_load(&nx_allocators.count);
  for (int i = 0; i < ROUNDS; i++) run_round(row);
  assert_int_equal(atomic_load(&nx_allocations.count), allocations);
  assert_int_equal(atomic_load(&nx_queue.count), queue);
  assert_int_equal(atomic_load(&nx_allocators.count), allocators);
  nx_must_close(stage.allocator);
  const uint64_t kept = nx_counts(stage.host).quarantined;
  assert_int_equal(kept == 0 || kept == WARM + ROUNDS, 1);
  puppet.own_report = 1;
  puppet.report.struct_size = sizeof puppet.report;
  if (kept == 0) {
    assert_int_equal(nxmem_plugin_try_unload(stage.plugin, NULL, NULL), NXMEM_OK);
  } else {
    nx_assert_unload_busy(stage.plugin, NXMEM_REASON_HOST_HOLDS, NXMEM_AXIS_ALLOCATIONS, kept);
    nx_force_leak(stage.host, stage.plugin, stage.path);
  }
  nx_host_gone(stage.host);
}

int main(void) {
  alarm(100);
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(end_rows), test_end);
  return nx_suite_run(&suite, "host_queue_slots");
}
