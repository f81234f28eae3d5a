/*
 * pins_test.c: what must stay while releases are queued is pinned once for each, and unpinned once.
 *
 * Attackers played: plugins that refuse, quarantine, complete inside, twice, late or never; sources that take no more.
 * Promise: as many pins as queued releases, at every moment that the program can see; a refused pin leaves the plugin
 * alone.
 */
#include <unistd.h>

#include "staging.h"

enum { BYTES = 64, ALIGN = 16 };

static struct {
  int pins, unpins;
  int refuse;
  uint64_t calls_at_pin; /* enqueues that the plugin had seen */
  nxmem_host_counts counts_at_unpin;
} source;

static nx_stage stage;

static int pin(void *ctx) {
  assert_ptr_equal(ctx, &source);
  source.calls_at_pin = nx_puppet_calls(NX_IN_ENQUEUE);
  if (source.refuse) return source.refuse;
  source.pins++;
  return 0;
}

static void unpin(void *ctx) {
  assert_ptr_equal(ctx, &source);
  source.unpins++;
  if (stage.host.id != 0) source.counts_at_unpin = nx_counts(stage.host);
}

static void play(nxmem_fetch_mode mode) {
  memset(&source, 0, sizeof source);
  nx_puppet_reset();
  stage.path = nx_puppet_copy();
  stage.host = nx_host_in(mode);
  stage.plugin = nx_must_open(stage.host, stage.path);
  nxmem_pin_source pins = {pin, unpin, &source};
  const nxmem_open_options options = {.mechanism = "puppet", .pins = &pins};
  assert_int_equal(nxmem_allocator_open(stage.plugin, &options, &stage.allocator, NULL), NXMEM_OK);
  memset(&pins, 0, sizeof pins); /* it was copied */
}

/* ---- One release --------------------------------------------------------------------------------------------------- */

static NxmemReleaseCompletion inside_completion;
static int inside_times;

static void complete_inside(nx_place_inside place) {
  if (place != NX_IN_ENQUEUE) return;
  inside_completion = nx_puppet_completion(&puppet.queue[puppet.queued - 1]);
  for (int i = 0; i < inside_times; i++) (void)nx_puppet_complete(&inside_completion);
}

typedef struct one_row {
  const char *name;
  nx_modes modes;
  int refuse;
  uint32_t code;
  int leave_ticket;
  int inside; /* how often it is completed before the answer */
  nxmem_result want;
  uint64_t entered;
  int pins, unpins; /* when the call has returned */
} one_row;

static const one_row one_rows[] = {
    {"queued", 0, 0, 0, 0, 0, NXMEM_OK, 1, 1, 0},
    {"the source refuses", 0, 1, 0, 0, 0, NXMEM_ERR_BUSY, 0, 0, 0},
    {"the source refuses with -1", 0, -1, 0, 0, 0, NXMEM_ERR_BUSY, 0, 0, 0},
    {"the plugin refuses", 0, 0, NXMEM_STATUS_BUSY, 0, 0, NXMEM_ERR_PLUGIN, 1, 1, 1},
    {"the plugin quarantines", 0, 0, NXMEM_STATUS_RELEASE_QUARANTINED, 0, 0, NXMEM_ERR_QUARANTINED, 1, 1, 1},
    {"no ticket", 0, 0, 0, 1, 0, NXMEM_ERR_QUARANTINED, 1, 1, 1},
    {"completed inside", 0, 0, 0, 0, 1, NXMEM_OK, 1, 1, 1},
    {"completed inside, three times", 0, 0, 0, 0, 3, NXMEM_OK, 1, 1, 1},
};

static void drop_queue(void) {
  nx_puppet_queued none;
  while (nx_puppet_pop(&none)) {
  }
}

static void test_one(void **state) {
  const nx_case *c = *state;
  const one_row *row = c->row;
  play(c->mode);
  const nxmem_allocation block = nx_must_allocate(stage.allocator, BYTES, ALIGN);
  source.refuse = row->refuse;
  puppet.enqueue_code = row->code;
  puppet.leave_ticket = row->leave_ticket;
  inside_times = row->inside;
  if (row->inside != 0) puppet.inside = complete_inside;
  nxmem_error error = nx_blank_error();
  const nxmem_result got = nxmem_enqueue_release(stage.allocator, block, NULL, NULL, &error);
  puppet.inside = NULL;
  assert_int_equal(got, row->want);
  if (got != NXMEM_OK) nx_assert_code(got, &error, row->want);
  assert_int_equal(source.calls_at_pin, 0); /* pinned before the plugin was entered */
  assert_int_equal(nx_puppet_calls(NX_IN_ENQUEUE), row->entered);
  assert_int_equal(source.pins, row->pins);
  assert_int_equal(source.unpins, row->unpins);
  if (row->pins != row->unpins) {
    assert_int_equal(nxmem_drain_releases(stage.allocator, 1, NULL, NULL), NXMEM_OK);
    assert_int_equal(source.unpins, 1);
    assert_int_equal(source.counts_at_unpin.queued_releases, 1); /* not counted down before it was unpinned */
  }
  drop_queue();
  const int abandoned = row->unpins != 0 && nx_counts(stage.host).live_allocations == 0;
  if (abandoned) free(block.ptr); /* the plugin gave nothing back */
  if (row->refuse) {              /* still live, as before */
    assert_int_equal(nx_counts(stage.host).live_allocations, 1);
    source.refuse = 0;
    assert_int_equal(nxmem_enqueue_release(stage.allocator, block, NULL, NULL, NULL), NXMEM_OK);
    assert_int_equal(nxmem_drain_releases(stage.allocator, 1, NULL, NULL), NXMEM_OK);
    assert_int_equal(source.pins, 1);
    assert_int_equal(source.unpins, 1);
  }
  atomic_store(&puppet.live_allocations, 0);
  const uint64_t kept = nx_counts(stage.host).quarantined;
  puppet.enqueue_code = 0;
  assert_int_equal(nxmem_allocator_close(stage.allocator, NXMEM_CLOSE_RELEASE_LIVE, NULL), NXMEM_OK);
  atomic_store(&puppet.live_allocations, 0);
  assert_int_equal(source.pins, source.unpins);
  if (kept == 0) {
    nx_must_unload(stage.plugin, stage.path);
  } else {
    nx_assert_unload_busy(stage.plugin, NXMEM_REASON_HOST_HOLDS, NXMEM_AXIS_ALLOCATIONS, kept);
    nx_force_leak(stage.host, stage.plugin, stage.path);
  }
  nx_host_gone(stage.host);
}

/* ---- Many, some of them behind the end --------------------------------------------------------------------------- */

typedef struct many_row {
  const char *name;
  nx_modes modes;
  int close;
  int give_up; /* plugin and host too */
} many_row;

static const many_row many_rows[] = {
    {"ten, drained", 0, 0, 0},
    {"ten, completed behind the close", 0, 1, 0},
    {"ten, completed behind plugin and host", 0, 1, 1},
};

static void test_many(void **state) {
  const nx_case *c = *state;
  const many_row *row = c->row;
  enum { N = 10 };
  play(c->mode);
  for (int i = 0; i < N; i++) {
    const nxmem_allocation one = nx_must_allocate(stage.allocator, BYTES, ALIGN);
    assert_int_equal(nxmem_enqueue_release(stage.allocator, one, NULL, NULL, NULL), NXMEM_OK);
    assert_int_equal(source.pins, i + 1);
    assert_int_equal(source.unpins, 0);
  }
  puppet.idle_drain = row->close;
  if (row->close) nx_must_close(stage.allocator);
  assert_int_equal(source.unpins, 0);
  const nxmem_host host = stage.host;
  if (row->give_up) {
    nx_force_leak(stage.host, stage.plugin, stage.path);
    nx_host_gone(stage.host);
    stage.host.id = 0;
  }
  for (int i = 0; i < N; i++) {
    assert_int_equal(nx_puppet_retire(), NXMEM_STATUS_OK);
    assert_int_equal(source.unpins, i + 1);
  }
  assert_int_equal(source.pins, N);
  if (row->give_up) return;
  if (!row->close) nx_must_close(stage.allocator);
  nx_must_unload(stage.plugin, stage.path);
  nx_host_gone(host);
}

/* ---- Sources that are none --------------------------------------------------------------------------------------- */

static void test_bad_source(void **state) {
  const nx_case *c = *state;
  play(c->mode);
  const nxmem_pin_source bad[] = {{NULL, unpin, &source}, {pin, NULL, &source}, {NULL, NULL, NULL}};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    const nxmem_open_options options = {.mechanism = "puppet", .pins = &bad[i]};
    nxmem_allocator none = {0x5A5A};
    nxmem_error error = nx_blank_error();
    nx_assert_code(nxmem_allocator_open(stage.plugin, &options, &none, &error), &error, NXMEM_ERR_INVALID_ARGUMENT);
    assert_int_equal(none.id, 0x5A5A);
  }
  assert_int_equal(nx_puppet_calls(NX_IN_OPEN), 1);
  nx_stage_strike(&stage);
}

/* An allocator in a slot that had a source before has none of its own. */
static void test_slot_again(void **state) {
  const nx_case *c = *state;
  play(c->mode);
  nx_must_close(stage.allocator);
  stage.allocator = nx_must_open_mechanism(stage.plugin, "puppet");
  const nxmem_allocation block = nx_must_allocate(stage.allocator, BYTES, ALIGN);
  assert_int_equal(nxmem_enqueue_release(stage.allocator, block, NULL, NULL, NULL), NXMEM_OK);
  assert_int_equal(nxmem_drain_releases(stage.allocator, 1, NULL, NULL), NXMEM_OK);
  assert_int_equal(source.pins + source.unpins, 0);
  nx_stage_strike(&stage);
}

#define ONE(name, test) static const nx_row_head name##_rows[] = {{test, NX_BOTH_MODES}}
ONE(bad, "sources without a function");
ONE(again, "a slot whose last allocator had a source");

int main(void) {
  alarm(100);
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(one_rows), test_one);
  nx_suite_modes(&suite, ROWS(many_rows), test_many);
  nx_suite_modes(&suite, ROWS(bad_rows), test_bad_source);
  nx_suite_modes(&suite, ROWS(again_rows), test_slot_again);
  return nx_suite_run(&suite, "host_pins");
}
