/*
 * reclaim_test.c: a plugin asks for memory back, and the program's hook answers.
 *
 * Attackers played: requests in another's name, for another device, for nothing, short, unreadable; before, while and
 * after the allocator is there; hooks that refuse, claim too much, release, allocate, close and unload.
 * Promise: only what is the caller's own reaches the hook; the count is always written and never above what was asked.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "scripted_probe.h"
#include "staging.h"

enum { BYTES = 64, ALIGN = 16, ASKED = 4096 };
#define ALL UINT64_MAX

/* ---- The hook ---------------------------------------------------------------------------------------------------- */

static struct {
  int calls;
  void *ctx;
  nxmem_allocator allocator;
  uint64_t bytes;
  int answer;
  int leave;
  uint64_t says;
  void (*act)(nxmem_allocator allocator);
} hook;

static int reclaim(void *ctx, nxmem_allocator allocator, uint64_t bytes, uint64_t *reclaimed_out) {
  hook.calls++;
  hook.ctx = ctx;
  hook.allocator = allocator;
  hook.bytes = bytes;
  if (hook.act != NULL) hook.act(allocator);
  if (!hook.leave) *reclaimed_out = hook.says;
  return hook.answer;
}

static nx_stage stage;
static const NxmemReclaimRequest honest = {32, 0, 77, {NXMEM_TIER_HOST, 0}, ASKED};

static void play(nxmem_fetch_mode mode) {
  memset(&hook, 0, sizeof hook);
  nx_puppet_reset();
  nxmem_host_options options;
  nxmem_host_options_default(&options);
  options.fetch = mode;
  options.reclaim = reclaim;
  options.reclaim_ctx = &hook;
  stage.path = nx_puppet_copy();
  assert_int_equal(nxmem_host_create(&options, &stage.host, NULL), NXMEM_OK);
  stage.plugin = nx_must_open(stage.host, stage.path);
  stage.allocator = nx_must_open_mechanism(stage.plugin, "puppet");
}

static NxmemStatus ask(const NxmemReclaimRequest *request, uint64_t *reclaimed_out) {
  return puppet.callbacks->request_reclaim(puppet.callbacks->host_ctx, request, reclaimed_out);
}

/* ---- Requests ---------------------------------------------------------------------------------------------------- */

static uint8_t *fence_end;
static NxmemReclaimRequest made;

typedef struct request_row {
  const char *name;
  nx_modes modes;
  const NxmemReclaimRequest *(*make)(void);
  uint32_t status;
  uint32_t reason, field;
} request_row;

#define CHANGE(function, field, value)               \
  static const NxmemReclaimRequest *function(void) { \
    made = honest;                                   \
    made.field = (value);                            \
    return &made;                                    \
  }
CHANGE(as_it_is, reserved, 0)
CHANGE(larger, struct_size, 0xFFFFFFFFu)
CHANGE(other_mechanism, mechanism_id, 78)
CHANGE(other_tier, device.tier, NXMEM_TIER_DEVICE)
CHANGE(other_index, device.index, 1)
CHANGE(nothing, bytes, 0)
CHANGE(size_31, struct_size, 31)
CHANGE(size_0, struct_size, 0)
static const NxmemReclaimRequest *null(void) { return NULL; }
static const NxmemReclaimRequest *askew(void) { return (const void *)((const uint8_t *)&honest + 4); }
static const NxmemReclaimRequest *nowhere(void) { return (const void *)fence_end; }
static const NxmemReclaimRequest *ends_early(void) {
  memcpy(fence_end - 16, &honest, 16);
  return (const void *)(fence_end - 16);
}

enum { INVALID = NXMEM_STATUS_INVALID_ARGUMENT };

static const request_row request_rows[] = {
    {"its own", 0, as_it_is, NXMEM_STATUS_OK, 0, 0},
    {"in a larger record", 0, larger, NXMEM_STATUS_OK, 0, 0},
    {"another mechanism's", 0, other_mechanism, NXMEM_STATUS_WRONG_MECHANISM, NXMEM_REASON_OTHER_MECHANISM, 8},
    {"on another tier", 0, other_tier, NXMEM_STATUS_WRONG_DEVICE, NXMEM_REASON_OTHER_DEVICE, 16},
    {"on another device", 0, other_index, NXMEM_STATUS_WRONG_DEVICE, NXMEM_REASON_OTHER_DEVICE, 16},
    {"for nothing", 0, nothing, INVALID, NXMEM_REASON_ZERO_BYTES, 24},
    {"of 31 bytes", 0, size_31, NXMEM_STATUS_SHORT_STRUCT, NXMEM_REASON_SHORT_REQUEST, 0},
    {"of no bytes", 0, size_0, NXMEM_STATUS_SHORT_STRUCT, NXMEM_REASON_SHORT_REQUEST, 0},
    {"at NULL", 0, null, INVALID, NXMEM_REASON_NULL_POINTER, 0},
    {"misaligned", 0, askew, INVALID, NXMEM_REASON_MISALIGNED, 0},
    {"unmapped", NX_GUARDED_ONLY, nowhere, INVALID, NXMEM_REASON_UNREADABLE, 0},
    {"ending early", NX_GUARDED_ONLY, ends_early, INVALID, NXMEM_REASON_UNREADABLE, 0},
};

static void test_request(void **state) {
  const nx_case *c = *state;
  const request_row *row = c->row;
  nx_fence fence;
  nx_fence_open(&fence, 64);
  fence_end = fence.end;
  play(c->mode);
  hook.says = 1000;
  uint64_t reclaimed = 0x5A5A;
  const NxmemStatus answer = ask(row->make(), &reclaimed);
  assert_int_equal(answer.code, row->status);
  const int fine = row->status == NXMEM_STATUS_OK;
  assert_int_equal(reclaimed, fine ? 1000 : 0);
  assert_int_equal(hook.calls, fine);
  if (fine) {
    assert_ptr_equal(hook.ctx, &hook);
    assert_int_equal(hook.allocator.id, stage.allocator.id);
    assert_int_equal(hook.bytes, ASKED);
  } else {
    nx_assert_line((const char *)answer.message, sizeof answer.message);
  }
  const nxmem_host_counts counts = nx_counts(stage.host);
  assert_int_equal(counts.refused_callbacks, !fine);
  assert_int_equal(counts.contract_violations, !fine);
  nxmem_violation noted[1];
  uint32_t count = 0;
  assert_int_equal(nxmem_host_violations(stage.host, noted, 1, &count, NULL), NXMEM_OK);
  assert_int_equal(count, !fine);
  if (!fine) {
    assert_int_equal(noted[0].reason, row->reason);
    assert_int_equal(noted[0].field, row->field);
  }
  /* No place for the count: refused before the hook is asked. */
  const int calls = hook.calls;
  assert_int_equal(ask(row->make(), NULL).code, INVALID);
  uint64_t places[2] = {0x5A5A, 0x5A5A};
  assert_int_equal(ask(row->make(), (uint64_t *)(void *)((uint8_t *)places + 4)).code, INVALID);
  assert_int_equal(places[0], 0x5A5A);
  assert_int_equal(places[1], 0x5A5A);
  assert_int_equal(hook.calls, calls);
  nx_stage_strike(&stage);
  nx_fence_close(&fence);
}

/* ---- What the hook says ------------------------------------------------------------------------------------------- */

typedef struct hook_row {
  const char *name;
  nx_modes modes;
  int answer;
  int leave;
  uint64_t says;
  uint32_t status;
  uint64_t reclaimed;
} hook_row;

enum { FAILED = NXMEM_STATUS_CALLBACK_FAILED };

static const hook_row hook_rows[] = {
    {"gives all", 0, 0, 0, ASKED, NXMEM_STATUS_OK, ASKED},
    {"gives some", 0, 0, 0, 1, NXMEM_STATUS_OK, 1},
    {"gives nothing", 0, 0, 0, 0, NXMEM_STATUS_OK, 0},
    {"writes nothing", 0, 0, 1, 0, NXMEM_STATUS_OK, 0},
    {"claims one more than was asked", 0, 0, 0, ASKED + 1, NXMEM_STATUS_OK, ASKED},
    {"claims everything", 0, 0, 0, ALL, NXMEM_STATUS_OK, ASKED},
    {"refuses", 0, 1, 0, ASKED, FAILED, 0},
    {"refuses with -1", 0, -1, 0, ALL, FAILED, 0},
};

static void test_hook(void **state) {
  const nx_case *c = *state;
  const hook_row *row = c->row;
  play(c->mode);
  hook.answer = row->answer;
  hook.leave = row->leave;
  hook.says = row->says;
  uint64_t reclaimed = 0x5A5A;
  assert_int_equal(ask(&honest, &reclaimed).code, row->status);
  assert_int_equal(reclaimed, row->reclaimed);
  assert_int_equal(hook.calls, 1);
  assert_int_equal(nx_counts(stage.host).refused_callbacks, 0);
  nx_stage_strike(&stage);
}

static void test_no_hook(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  stage = nx_stage_set(c->mode);
  uint64_t reclaimed = 0x5A5A;
  assert_int_equal(ask(&honest, &reclaimed).code, NXMEM_STATUS_UNSUPPORTED_CAPABILITY);
  assert_int_equal(reclaimed, 0);
  assert_int_equal(nx_counts(stage.host).refused_callbacks, 0);
  nx_stage_strike(&stage);
}

/* ---- When -------------------------------------------------------------------------------------------------------- */

static uint32_t answers[NX_PLACES_INSIDE];
static uint64_t counts_out[NX_PLACES_INSIDE];

static void ask_inside(nx_place_inside place) {
  if (puppet.callbacks == NULL) return;
  counts_out[place] = 0x5A5A;
  answers[place] = ask(&honest, &counts_out[place]).code;
}

/* While it is open it is asked; while it is opened, closed or unloaded the plugin is told that it is busy. */
static void test_places(void **state) {
  const nx_case *c = *state;
  play(c->mode);
  puppet.inside = ask_inside;
  hook.says = 7;
  nx_must_close(stage.allocator);
  stage.allocator = nx_must_open_mechanism(stage.plugin, "puppet");
  nx_must_release(stage.allocator, nx_must_allocate(stage.allocator, BYTES, ALIGN));
  const nxmem_allocation queued = nx_must_allocate(stage.allocator, BYTES, ALIGN);
  assert_int_equal(nxmem_enqueue_release(stage.allocator, queued, NULL, NULL, NULL), NXMEM_OK);
  assert_int_equal(nxmem_drain_releases(stage.allocator, 1, NULL, NULL), NXMEM_OK);
  assert_int_equal(nxmem_plugin_try_unload(stage.plugin, NULL, NULL), NXMEM_ERR_BUSY);
  static const nx_place_inside open[] = {NX_IN_ALLOCATE, NX_IN_RELEASE_ALLOCATION, NX_IN_ENQUEUE, NX_IN_DRAIN};
  for (size_t i = 0; i < sizeof open / sizeof open[0]; i++) {
    assert_int_equal(answers[open[i]], NXMEM_STATUS_OK);
    assert_int_equal(counts_out[open[i]], 7);
  }
  static const nx_place_inside busy[] = {NX_IN_OPEN, NX_IN_QUERY, NX_IN_RELEASE};
  for (size_t i = 0; i < sizeof busy / sizeof busy[0]; i++) {
    assert_int_equal(answers[busy[i]], NXMEM_STATUS_BUSY);
    assert_int_equal(counts_out[busy[i]], 0);
  }
  puppet.inside = NULL;
  nx_stage_strike(&stage);
  /* Closed: the context names nothing. */
  uint64_t reclaimed = 0x5A5A;
  assert_int_equal(ask(&honest, &reclaimed).code, INVALID);
  assert_int_equal(reclaimed, 0);
}

/* Held by a queued release: completions settle, memory is no longer asked for. */
static void test_held(void **state) {
  const nx_case *c = *state;
  play(c->mode);
  const nxmem_allocation queued = nx_must_allocate(stage.allocator, BYTES, ALIGN);
  assert_int_equal(nxmem_enqueue_release(stage.allocator, queued, NULL, NULL, NULL), NXMEM_OK);
  puppet.idle_drain = 1;
  nx_must_close(stage.allocator);
  uint64_t reclaimed = 0x5A5A;
  assert_int_equal(ask(&honest, &reclaimed).code, NXMEM_STATUS_BUSY);
  assert_int_equal(reclaimed, 0);
  assert_int_equal(hook.calls, 0);
  assert_int_equal(nx_puppet_retire(), NXMEM_STATUS_OK);
  nx_must_unload(stage.plugin, stage.path);
  nx_host_gone(stage.host);
}

/* ---- Where the count goes ---------------------------------------------------------------------------------------- */

typedef struct out_row {
  const char *name;
  nx_modes modes;
  int protection; /* of the page that is named; -1: the plugin's own callback table */
  uintptr_t off;
} out_row;

static const out_row out_rows[] = {
    {"the count goes to an unmapped page", NX_GUARDED_ONLY, PROT_NONE, 0},
    {"the count goes to a page that is read-only", NX_GUARDED_ONLY, PROT_READ, 0},
    {"the count goes to the callback table", NX_GUARDED_ONLY, -1, 0},
    {"the count goes across the end of memory", NX_GUARDED_ONLY, PROT_NONE, 8},
    {"the count goes to a misaligned place", 0, PROT_READ | PROT_WRITE, 4},
};

/* Refused before the hook gives anything back, also where the context names nothing; nobody faults. */
static void test_out(void **state) {
  const nx_case *c = *state;
  const out_row *row = c->row;
  play(c->mode);
  hook.says = 7;
  void *page = mmap(NULL, 4096, row->protection < 0 ? PROT_NONE : row->protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(page, MAP_FAILED);
  uintptr_t place = row->protection < 0 ? (uintptr_t)puppet.callbacks : (uintptr_t)page + row->off;
  assert_int_equal(ask(&honest, (uint64_t *)place).code, INVALID);
  assert_int_equal(hook.calls, 0);
  assert_int_equal(puppet.callbacks->request_reclaim(NULL, &honest, (uint64_t *)place).code, INVALID);
  uint64_t reclaimed = 0;
  assert_int_equal(ask(&honest, &reclaimed).code, NXMEM_STATUS_OK);
  assert_int_equal(reclaimed, 7);
  munmap(page, 4096);
  nx_stage_strike(&stage);
}

/* ---- What the hook does ------------------------------------------------------------------------------------------ */

static nxmem_allocation given_up, taken;
static nxmem_result acted[4];

static void release_one(nxmem_allocator allocator) { acted[0] = nxmem_release(allocator, given_up, NULL, NULL); }

static void allocate_one(nxmem_allocator allocator) {
  if (hook.calls > 1) return; /* the plugin asks again for this one */
  acted[0] = nxmem_allocate(allocator, BYTES, ALIGN, NULL, &taken, NULL);
}

static void close_all(nxmem_allocator allocator) {
  acted[0] = nxmem_allocator_close(allocator, NXMEM_CLOSE_RELEASE_LIVE, NULL);
  acted[1] = nxmem_plugin_try_unload(stage.plugin, NULL, NULL);
  acted[2] = nxmem_host_destroy(stage.host, NULL);
  nxmem_host_counts counts;
  acted[3] = nxmem_host_count(stage.host, &counts, NULL);
}

static void ask_in_allocate(nx_place_inside place) {
  if (place == NX_IN_ALLOCATE) ask_inside(place);
}

typedef struct act_row {
  const char *name;
  nx_modes modes;
  void (*act)(nxmem_allocator allocator);
  nxmem_result want[4];
  uint64_t live; /* afterwards, with the allocation that was asked for */
} act_row;

static const act_row act_rows[] = {
    {"the hook releases", 0, release_one, {NXMEM_OK, 0, 0, 0}, 1},
    {"the hook allocates", 0, allocate_one, {NXMEM_OK, 0, 0, 0}, 3},
    {"the hook closes, unloads and destroys",
     0,
     close_all,
     {NXMEM_ERR_BUSY, NXMEM_ERR_BUSY, NXMEM_ERR_BUSY, NXMEM_OK},
     2},
};

static void test_act(void **state) {
  const nx_case *c = *state;
  const act_row *row = c->row;
  play(c->mode);
  memset(acted, 0, sizeof acted);
  given_up = nx_must_allocate(stage.allocator, BYTES, ALIGN);
  hook.act = row->act;
  hook.says = BYTES;
  puppet.inside = ask_in_allocate;
  nxmem_allocation got;
  const nxmem_result allocated = nxmem_allocate(stage.allocator, BYTES, ALIGN, NULL, &got, NULL);
  puppet.inside = NULL;
  for (int i = 0; i < 4; i++) assert_int_equal(acted[i], row->want[i]);
  assert_int_equal(allocated, NXMEM_OK);
  assert_int_equal(answers[NX_IN_ALLOCATE], NXMEM_STATUS_OK);
  assert_int_equal(nx_counts(stage.host).live_allocations, row->live);
  /* A close that found this call inside left the gate shut: it is closed now. */
  assert_int_equal(nxmem_allocator_close(stage.allocator, NXMEM_CLOSE_RELEASE_LIVE, NULL), NXMEM_OK);
  nx_must_unload(stage.plugin, stage.path);
  nx_host_gone(stage.host);
}

/* A thread of the plugin stands in the hook: the allocator may be closed under it, module and host may not go. */
static nxmem_result under[3];
static nxmem_host_counts under_counts;

static void close_under(nxmem_allocator allocator) {
  under[0] = nxmem_allocator_close(allocator, 0, NULL);
  under_counts = nx_counts(stage.host);
  puppet.own_report = 1;
  puppet.report.struct_size = sizeof puppet.report;
  nxmem_unload_info info;
  under[1] = nxmem_plugin_try_unload(stage.plugin, &info, NULL);
  assert_int_equal(info.axis, NXMEM_AXIS_CALLS_INSIDE);
  nxmem_allocation none;
  under[2] = nxmem_allocate(allocator, BYTES, ALIGN, NULL, &none, NULL);
}

static void test_under(void **state) {
  const nx_case *c = *state;
  play(c->mode);
  hook.act = close_under;
  hook.says = 9;
  uint64_t reclaimed = 0;
  assert_int_equal(ask(&honest, &reclaimed).code, NXMEM_STATUS_OK);
  assert_int_equal(reclaimed, 9);
  assert_int_equal(under[0], NXMEM_OK);
  assert_int_equal(under[1], NXMEM_ERR_BUSY);
  assert_int_equal(under[2], NXMEM_ERR_STALE_HANDLE);
  assert_int_equal(under_counts.held_slots, 1); /* by the callback that runs */
  assert_int_equal(nx_counts(stage.host).held_slots, 0);
  puppet.own_report = 0;
  nx_must_unload(stage.plugin, stage.path);
  nx_host_gone(stage.host);
}

/* A plugin that is short of memory and gets none fails its allocation cleanly; with some, it goes through. */
static void test_scripted(void **state) {
  const nx_case *c = *state;
  memset(&hook, 0, sizeof hook);
  nx_observe();
  const char *path = nx_plugin_copy("libnxmem_scripted.so");
  nxmem_host_options options;
  nxmem_host_options_default(&options);
  options.fetch = c->mode;
  options.reclaim = reclaim;
  nxmem_host host;
  assert_int_equal(nxmem_host_create(&options, &host, NULL), NXMEM_OK);
  nxmem_plugin plugin = nx_must_open(host, path);
  nxmem_allocator allocator = nx_must_open_mechanism(plugin, "callback-probe");
  nxmem_allocation block;
  nxmem_error error = nx_blank_error();
  hook.says = BYTES - 1;
  nx_assert_code(nxmem_allocate(allocator, BYTES, ALIGN, NULL, &block, &error), &error, NXMEM_ERR_PLUGIN);
  assert_int_equal(error.plugin_status, NXMEM_STATUS_OUT_OF_MEMORY);
  hook.answer = 1;
  nx_assert_code(nxmem_allocate(allocator, BYTES, ALIGN, NULL, &block, &error), &error, NXMEM_ERR_PLUGIN);
  assert_int_equal(nx_seen[NX_PROBE_RECLAIM_STATUS], NXMEM_STATUS_CALLBACK_FAILED);
  hook.answer = 0;
  hook.says = ALL;
  assert_int_equal(nxmem_allocate(allocator, BYTES, ALIGN, NULL, &block, NULL), NXMEM_OK);
  assert_int_equal(nx_seen[NX_PROBE_RECLAIMED_BYTES], BYTES);
  assert_int_equal(hook.calls, 3);
  assert_int_equal(hook.bytes, BYTES);
  assert_int_equal(nx_counts(host).live_allocations, 1);
  nx_must_release(allocator, block);
  nx_must_close(allocator);
  nx_must_unload(plugin, path);
  nx_assert_books_closed();
  nx_host_gone(host);
}

#define ONE(name, test) static const nx_row_head name##_rows[] = {{test, NX_BOTH_MODES}}
ONE(no_hook, "no hook");
ONE(places, "from inside every slot");
ONE(held, "held by a queued release");
ONE(under, "closed under the hook");
ONE(scripted, "the scripted plugin that is short of memory");

int main(void) {
  alarm(100);
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(request_rows), test_request);
  nx_suite_modes(&suite, ROWS(hook_rows), test_hook);
  nx_suite_modes(&suite, ROWS(no_hook_rows), test_no_hook);
  nx_suite_modes(&suite, ROWS(places_rows), test_places);
  nx_suite_modes(&suite, ROWS(held_rows), test_held);
  nx_suite_modes(&suite, ROWS(out_rows), test_out);
  nx_suite_modes(&suite, ROWS(act_rows), test_act);
  nx_suite_modes(&suite, ROWS(under_rows), test_under);
  nx_suite_modes(&suite, ROWS(scripted_rows), test_scripted);
  return nx_suite_run(&suite, "host_reclaim");
}
