/*
 * callback_test.c: a plugin calls the host with every context and pointer it could have.
 *
 * Attackers played: NULL, invented, foreign, closed and unloaded contexts; NULL records; from slots and from threads,
 * early and late.
 * Promise: each call is answered with a status; what names nothing, or nothing outstanding, is counted; nothing is
 * followed.
 */
#include <unistd.h>

#include "staging.h"

#define TWO_32 (1ull << 32)

static const NxmemReclaimRequest reclaim_request = {32, 0, 77, {NXMEM_TIER_HOST, 0}, 4096};

static NxmemReleaseCompletion some_completion(uint64_t allocation_id) {
  NxmemReleaseCompletion completion;
  memset(&completion, 0, sizeof completion);
  completion.struct_size = sizeof completion;
  completion.ticket = 1;
  completion.mechanism_id = 77;
  completion.allocation_id = allocation_id;
  completion.outcome.struct_size = sizeof completion.outcome;
  return completion;
}

/* ---- Contexts ---------------------------------------------------------------------------------------------------- */

static nx_stage stage;
static nxmem_allocator closed;

typedef struct context_row {
  const char *name;
  nx_modes modes;
  uint64_t (*make)(void);
  int known; /* names an open allocator */
} context_row;

static uint64_t own(void) { return (uintptr_t)puppet.callbacks->host_ctx; }
static uint64_t null(void) { return 0; }
static uint64_t invented(void) { return 0xDEADBEEFull; }
static uint64_t every_bit(void) { return 0xFFFFFFFFFFFFFFFFull; }
static uint64_t the_table(void) { return (uintptr_t)puppet.callbacks; }
static uint64_t next_generation(void) { return own() + TWO_32; }
static uint64_t without_slot(void) { return own() / TWO_32 * TWO_32; }
static uint64_t closed_one(void) { return closed.id; }
static uint64_t after_closed_one(void) { return closed.id + TWO_32; }
static uint64_t never_made(void) { return own() + 100; }

static const context_row context_rows[] = {
    {"its own", 0, own, 1},
    {"NULL", 0, null, 0},
    {"invented", 0, invented, 0},
    {"every bit", 0, every_bit, 0},
    {"the table's address", 0, the_table, 0},
    {"the next generation", 0, next_generation, 0},
    {"a generation without a slot", 0, without_slot, 0},
    {"a closed allocator's", 0, closed_one, 0},
    {"a freed slot's", 0, after_closed_one, 0},
    {"a slot never made", 0, never_made, 0},
};

static void set_stage(nxmem_fetch_mode mode) {
  nx_puppet_reset();
  stage = nx_stage_set(mode);
  const NxmemHostCallbacks *callbacks = puppet.callbacks;
  closed = nx_must_open_mechanism(stage.plugin, "puppet");
  nx_must_close(closed);
  puppet.callbacks = callbacks;
}

static uint64_t refused(void) { return nx_counts(stage.host).refused_callbacks; }

static void test_reclaim(void **state) {
  const nx_case *c = *state;
  const context_row *row = c->row;
  set_stage(c->mode);
  void *ctx = (void *)(uintptr_t)row->make();
  const uint64_t before = refused();
  uint64_t reclaimed = 12345;
  NxmemStatus status = puppet.callbacks->request_reclaim(ctx, &reclaim_request, &reclaimed);
  assert_int_equal(status.code, row->known ? NXMEM_STATUS_UNSUPPORTED_CAPABILITY : NXMEM_STATUS_INVALID_ARGUMENT);
  assert_int_equal(reclaimed, 0);
  assert_int_equal(refused(), before + !row->known);
  assert_in_range(status.message_len, 1, NXMEM_STATUS_MESSAGE_MAX);
  nx_assert_line((const char *)status.message, sizeof status.message);

  status = puppet.callbacks->request_reclaim(ctx, NULL, &reclaimed);
  assert_int_not_equal(status.code, NXMEM_STATUS_OK);
  status = puppet.callbacks->request_reclaim(ctx, &reclaim_request, NULL);
  assert_int_equal(status.code, NXMEM_STATUS_INVALID_ARGUMENT);
  status = puppet.callbacks->request_reclaim(ctx, (const NxmemReclaimRequest *)(uintptr_t)3, &reclaimed);
  assert_int_not_equal(status.code, NXMEM_STATUS_OK);
  nx_stage_strike(&stage);
}

static void test_completion(void **state) {
  const nx_case *c = *state;
  const context_row *row = c->row;
  set_stage(c->mode);
  void *ctx = (void *)(uintptr_t)row->make();
  const nxmem_allocation live = nx_must_allocate(stage.allocator, 64, 8);
  const NxmemReleaseCompletion completion = some_completion(live.id);
  const uint64_t before = refused();
  NxmemStatus status = puppet.callbacks->release_completed(ctx, &completion);
  assert_int_equal(status.code, row->known ? NXMEM_STATUS_UNKNOWN_ALLOCATION : NXMEM_STATUS_INVALID_ARGUMENT);
  status = puppet.callbacks->release_completed(ctx, NULL);
  assert_int_not_equal(status.code, NXMEM_STATUS_OK);
  status = puppet.callbacks->release_completed(ctx, (const NxmemReleaseCompletion *)(uintptr_t)5);
  assert_int_not_equal(status.code, NXMEM_STATUS_OK);
  assert_int_equal(refused(), before + 3);

  /* It settled nothing: the allocation is as live as before. */
  assert_int_equal(nx_counts(stage.host).live_allocations, 1);
  nx_must_release(stage.allocator, live);
  nx_stage_strike(&stage);
}

/* ---- When -------------------------------------------------------------------------------------------------------- */

/* The table and its functions answer also when the allocator is closed and the module is gone. */
static void test_late(void **state) {
  const nx_case *c = *state;
  set_stage(c->mode);
  const NxmemHostCallbacks *kept = puppet.callbacks;
  void *ctx = kept->host_ctx;
  const NxmemReleaseCompletion completion = some_completion(1);
  uint64_t reclaimed = 1;
  nx_must_close(stage.allocator);
  uint64_t before = refused();
  assert_int_equal(kept->request_reclaim(kept->host_ctx, &reclaim_request, &reclaimed).code,
                   NXMEM_STATUS_INVALID_ARGUMENT);
  assert_int_equal(kept->release_completed(ctx, &completion).code, NXMEM_STATUS_INVALID_ARGUMENT);
  assert_int_equal(refused(), before + 2);
  nx_must_unload(stage.plugin, stage.path);
  before = refused();
  assert_int_equal(kept->request_reclaim(ctx, &reclaim_request, &reclaimed).code, NXMEM_STATUS_INVALID_ARGUMENT);
  assert_int_equal(kept->release_completed(ctx, &completion).code, NXMEM_STATUS_INVALID_ARGUMENT);
  assert_int_equal(refused(), before + 2);
  nx_host_gone(stage.host);
  assert_int_equal(kept->release_completed(ctx, &completion).code, NXMEM_STATUS_INVALID_ARGUMENT);
}

/* A slot that is used again answers to its new owner's context alone. */
static void test_reused_slot(void **state) {
  const nx_case *c = *state;
  set_stage(c->mode);
  const NxmemHostCallbacks *table = puppet.callbacks;
  void *before = table->host_ctx;
  nx_must_close(stage.allocator);
  nxmem_allocator first = nx_must_open_mechanism(stage.plugin, "puppet");
  void *first_ctx = puppet.callbacks->host_ctx;
  nxmem_allocator second = nx_must_open_mechanism(stage.plugin, "puppet");
  uint64_t reclaimed;
  assert_int_equal(table->request_reclaim(before, &reclaim_request, &reclaimed).code, NXMEM_STATUS_INVALID_ARGUMENT);
  assert_int_not_equal(first.id, second.id);
  assert_ptr_not_equal(puppet.callbacks->host_ctx, first_ctx);
  assert_int_equal(table->request_reclaim(first_ctx, &reclaim_request, &reclaimed).code,
                   NXMEM_STATUS_UNSUPPORTED_CAPABILITY);
  nx_must_close(first);
  stage.allocator = second;
  nx_stage_strike(&stage);
}

static NxmemStatus answers[NX_PLACES_INSIDE];

static void call_back(nx_place_inside place) {
  if (puppet.callbacks == NULL) return;
  uint64_t reclaimed = 1;
  answers[place] = puppet.callbacks->request_reclaim(puppet.callbacks->host_ctx, &reclaim_request, &reclaimed);
}

/* From inside every slot: known while it is being opened, open or closing, and not before or after. */
static void test_from_slots(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  memset(answers, 0, sizeof answers);
  puppet.inside = call_back;
  nx_stage here = nx_stage_set(c->mode);
  nx_must_release(here.allocator, nx_must_allocate(here.allocator, 64, 8));
  nx_stage_strike(&here);
  static const nx_place_inside known[] = {NX_IN_OPEN, NX_IN_ALLOCATE, NX_IN_RELEASE_ALLOCATION, NX_IN_RELEASE};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    assert_int_equal(answers[known[i]].code, NXMEM_STATUS_UNSUPPORTED_CAPABILITY);
  assert_int_equal(answers[NX_IN_FACTORY_RELEASE].code, NXMEM_STATUS_INVALID_ARGUMENT);
  assert_int_equal(answers[NX_IN_DESTRUCTOR].code, NXMEM_STATUS_INVALID_ARGUMENT);
}

/* The scripted plugin that calls back from allocate and deallocate. */
static void test_scripted(void **state) {
  const nx_case *c = *state;
  nx_observe();
  const char *path = nx_plugin_copy("libnxmem_scripted.so");
  nxmem_host host = nx_host_in(c->mode);
  nxmem_plugin plugin = nx_must_open(host, path);
  nxmem_allocator allocator = nx_must_open_mechanism(plugin, "calls-host");
  const uint64_t before = nx_counts(host).refused_callbacks;
  nx_must_release(allocator, nx_must_allocate(allocator, 64, 8));
  assert_int_equal(nx_counts(host).refused_callbacks, before + 1);
  nx_must_close(allocator);
  nx_must_unload(plugin, path);
  nx_assert_books_closed();
  nx_host_gone(host);
}

static void test_table(void **state) {
  const nx_case *c = *state;
  set_stage(c->mode);
  assert_int_equal(puppet.callbacks->struct_size, 32);
  assert_int_equal(puppet.callbacks->abi_minor, 1);
  assert_non_null(puppet.callbacks->request_reclaim);
  assert_non_null(puppet.callbacks->release_completed);
  /* The context is no handle of the API, and a handle is no context. */
  uint64_t reclaimed;
  assert_ptr_not_equal(puppet.callbacks->host_ctx, (void *)(uintptr_t)stage.allocator.id);
  assert_int_equal(
      puppet.callbacks->request_reclaim((void *)(uintptr_t)stage.allocator.id, &reclaim_request, &reclaimed).code,
      NXMEM_STATUS_INVALID_ARGUMENT);
  nx_stage_strike(&stage);
}

/* Those of one slot, opened again and again: no step leads from one to the next. */
static void test_drawn(void **state) {
  const nx_case *c = *state;
  enum { OPENS = 16 };
  uint64_t contexts[OPENS];
  int steps_alike = 0;
  nx_puppet_reset();
  stage = nx_stage_set(c->mode);
  for (int i = 0; i < OPENS; i++) {
    contexts[i] = own();
    if (i >= 2) steps_alike += contexts[i] - contexts[i - 1] == contexts[i - 1] - contexts[i - 2];
    nx_must_close(stage.allocator);
    stage.allocator = nx_must_open_mechanism(stage.plugin, "puppet");
    assert_int_equal((uint32_t)own(), (uint32_t)contexts[0]);
  }
  assert_true(steps_alike < OPENS / 4);
  nx_stage_strike(&stage);
}

#define ONE(name, test) static const nx_row_head name##_rows[] = {{test, NX_BOTH_MODES}}
ONE(late, "after close, unload and the host's end");
ONE(reused, "a slot that is used again");
ONE(drawn, "contexts of one slot");
ONE(slots, "from inside every slot");
ONE(scripted, "the scripted plugin that calls back");
ONE(tables, "what the table says");

/* Each context row twice, under two names. */
static context_row completion_rows[sizeof context_rows / sizeof context_rows[0]];

int main(void) {
  alarm(100);
  nx_suite suite = {0};
  memcpy(completion_rows, context_rows, sizeof context_rows);
  for (size_t i = 0; i < sizeof context_rows / sizeof context_rows[0]; i++)
    completion_rows[i].name = nx_name("completion with %s", context_rows[i].name);
  nx_suite_modes(&suite, ROWS(context_rows), test_reclaim);
  nx_suite_modes(&suite, ROWS(completion_rows), test_completion);
  nx_suite_modes(&suite, ROWS(late_rows), test_late);
  nx_suite_modes(&suite, ROWS(reused_rows), test_reused_slot);
  nx_suite_modes(&suite, ROWS(drawn_rows), test_drawn);
  nx_suite_modes(&suite, ROWS(slots_rows), test_from_slots);
  nx_suite_modes(&suite, ROWS(scripted_rows), test_scripted);
  nx_suite_modes(&suite, ROWS(tables_rows), test_table);
  return nx_suite_run(&suite, "host_callback");
}
