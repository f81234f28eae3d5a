/*
 * between_test.c: what another thread, or the plugin, does between two steps of a call, put exactly there. Looks inside the host.
 *
 * Attackers played: guessed handles and contexts before a slot is shown; allocate beside a hand-back; calls that leave while the unload gate is asked; a host
 * that is replaced while an open looks for it; stale handles beside a close.
 * Promise: no step of another falls into a gap: what is not shown is not found, what is swapped is what was looked at, strangers are never counted.
 */
#define _GNU_SOURCE
#include <unistd.h>

#include "objects.h"
#include "staging.h"

/* ---- Seams: the host's own functions, so that a test can stand between two steps of one call ------------------------ */

typedef enum seam {
  AFTER_TABLE_AT,
  BEFORE_SLOT_HANDLE,
  BEFORE_SLOT_MOVE,
  AFTER_TABLE_TAKE,
  BEFORE_SLOT_SET,
  AFTER_SLOT_SET,
  BEFORE_HOST_FIND,
  AFTER_HOST_FIND,
  BEFORE_CHECK_CLAIM
} seam;

/* Of this thread; what it does itself passes the seams unseen. `what`: the slot, where the seam has one. */
static _Thread_local void (*stand_in)(seam at, nx_slot *what);
static _Thread_local int busy;
static _Thread_local nx_table *full; /* has no room */

static void pass(seam at, nx_slot *what) {
  if (stand_in == NULL || busy) return;
  busy = 1;
  stand_in(at, what);
  busy = 0;
}

nx_slot *__real_nx_table_at(nx_table *table, uint32_t index);
uint64_t __real_nx_slot_handle(nx_slot *slot);
int __real_nx_slot_move(nx_slot *slot, uint64_t handle, nxmem_slot_state from, nxmem_slot_state to);
nx_slot *__real_nx_table_take(nx_table *table);
void __real_nx_slot_set(nx_slot *slot, nxmem_slot_state state);
nxmem_result __real_nx_host_find(nxmem_host handle, nx_host **out, nxmem_error *error);
nxmem_verdict __real_nxmem_check_claim(uint64_t word, uint64_t handle);
nx_slot *__wrap_nx_table_at(nx_table *table, uint32_t index);
uint64_t __wrap_nx_slot_handle(nx_slot *slot);
int __wrap_nx_slot_move(nx_slot *slot, uint64_t handle, nxmem_slot_state from, nxmem_slot_state to);
nx_slot *__wrap_nx_table_take(nx_table *table);
void __wrap_nx_slot_set(nx_slot *slot, nxmem_slot_state state);
nxmem_result __wrap_nx_host_find(nxmem_host handle, nx_host **out, nxmem_error *error);
nxmem_verdict __wrap_nxmem_check_claim(uint64_t word, uint64_t handle);

nx_slot *__wrap_nx_table_at(nx_table *table, uint32_t index) {
  nx_slot *slot = __real_nx_table_at(table, index);
  pass(AFTER_TABLE_AT, slot);
  return slot;
}
uint64_t __wrap_nx_slot_handle(nx_slot *slot) {
  pass(BEFORE_SLOT_HANDLE, slot);
  return __real_nx_slot_handle(slot);
}
int __wrap_nx_slot_move(nx_slot *slot, uint64_t handle, nxmem_slot_state from, nxmem_slot_state to) {
  pass(BEFORE_SLOT_MOVE, slot);
  return __real_nx_slot_move(slot, handle, from, to);
}
nx_slot *__wrap_nx_table_take(nx_table *table) {
  nx_slot *slot = table == full ? NULL : __real_nx_table_take(table);
  pass(AFTER_TABLE_TAKE, slot);
  return slot;
}
void __wrap_nx_slot_set(nx_slot *slot, nxmem_slot_state state) {
  pass(BEFORE_SLOT_SET, slot);
  __real_nx_slot_set(slot, state);
  pass(AFTER_SLOT_SET, slot);
}
nxmem_result __wrap_nx_host_find(nxmem_host handle, nx_host **out, nxmem_error *error) {
  pass(BEFORE_HOST_FIND, NULL);
  const nxmem_result r = __real_nx_host_find(handle, out, error);
  pass(AFTER_HOST_FIND, NULL);
  return r;
}
nxmem_verdict __wrap_nxmem_check_claim(uint64_t word, uint64_t handle) {
  pass(BEFORE_CHECK_CLAIM, NULL);
  return __real_nxmem_check_claim(word, handle);
}

static nx_stage stage;

/* ---- A hand-back beside another allocator's allocate ---------------------------------------------------------------- */

static struct {
  seam at;
  nx_slot *record; /* free; the last to have it was the allocator that closes */
  nxmem_allocator other;
  nxmem_allocation taken;
} beside;

static void take_the_record(seam at, nx_slot *what) {
  if (at == beside.at && what == beside.record && beside.taken.id == 0)
    beside.taken = nx_must_allocate(beside.other, 64, 8);
}

typedef struct seam_row {
  const char *name;
  nx_modes modes;
  seam at;
  int comes; /* the call must come by there */
} seam_row;

static const seam_row hand_back_rows[] = {
    {"hand-back: the record is taken before it is looked at", 0, AFTER_TABLE_AT, 1},
    {"hand-back: the record is taken before its handle is made", 0, BEFORE_SLOT_HANDLE, 0},
    {"hand-back: the record is taken before it is claimed", 0, BEFORE_SLOT_MOVE, 0},
};

static void test_hand_back(void **state) {
  const nx_case *c = *state;
  const seam_row *row = c->row;
  nx_puppet_reset();
  stage = nx_stage_set(c->mode);
  memset(&beside, 0, sizeof beside);
  beside.at = row->at;
  beside.other = nx_must_open_mechanism(stage.plugin, "puppet");
  const nxmem_allocation first = nx_must_allocate(stage.allocator, 64, 8);
  (void)nx_must_allocate(stage.allocator, 64, 8); /* what there is to hand back, looked at behind the other */
  nx_must_release(stage.allocator, first);
  beside.record = nx_table_find(&nx_allocations, first.id);

  stand_in = take_the_record;
  const nxmem_result closed = nxmem_allocator_close(stage.allocator, NXMEM_CLOSE_RELEASE_LIVE, NULL);
  stand_in = NULL;
  assert_int_equal(closed, NXMEM_OK);
  if (row->comes) assert_int_not_equal(beside.taken.id, 0);
  if (beside.taken.id == 0) beside.taken = nx_must_allocate(beside.other, 64, 8);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION), 2); /* its own; never the other's */

  assert_int_equal(nx_counts(stage.host).live_allocations, 1);
  assert_int_equal(nx_counts(stage.host).owned_bytes, 64);
  nx_must_release(beside.other, beside.taken);
  assert_int_equal(nx_counts(stage.host).owned_bytes, 0);
  stage.allocator = beside.other;
  nx_stage_strike(&stage);
}

/* ---- Guesses before a slot is shown --------------------------------------------------------------------------------- */

static struct {
  nx_table *table;
  nx_slot *slot; /* taken, and perhaps not shown yet */
  int shown;     /* a state was stored in it */
  nxmem_result (*use)(uint64_t handle);
  int early, late; /* guesses before and after */
  int early_hits;  /* of them, those that found something */
  nxmem_result late_result;
  uint32_t late_code;
} guess;

static void start_guessing(nx_table *table) {
  memset(&guess, 0, sizeof guess);
  guess.table = table;
}

/* 1 where this is the slot that is being made, from its taking on. */
static int is_guessed_slot(seam at, nx_slot *what) {
  if (what == NULL || __real_nx_table_at(guess.table, what->self) != what) return 0;
  if (at == AFTER_TABLE_TAKE) guess.slot = what;
  if (what == guess.slot && at == AFTER_SLOT_SET) guess.shown = 1;
  return what == guess.slot;
}

static void guess_context(seam at, nx_slot *what) {
  static const NxmemReleaseCompletion completion = {.struct_size = sizeof completion};
  if (!is_guessed_slot(at, what)) return;
  /* The right one, as soon as there is one: better than any guess. */
  void *ctx = (void *)(uintptr_t)atomic_load(&((nx_allocator *)(void *)what)->deferral.context);
  const uint32_t code = puppet.callbacks->release_completed(ctx, &completion).code;
  *(guess.shown ? &guess.late : &guess.early) += 1;
  if (guess.shown) guess.late_code = code;
  if (!guess.shown) guess.early_hits += code != NXMEM_STATUS_INVALID_ARGUMENT;
}

static void open_under_guesses(nxmem_plugin plugin, nxmem_allocator *out) {
  start_guessing(&nx_allocators);
  stand_in = guess_context;
  *out = nx_must_open_mechanism(plugin, "puppet");
  stand_in = NULL;
  assert_true(guess.early >= 2); /* taken, and about to be shown */
  assert_int_equal(guess.early_hits, 0);
  assert_true(guess.late >= 1);
  assert_int_equal(guess.late_code, NXMEM_STATUS_UNKNOWN_ALLOCATION);
}

static uint64_t booked(nxmem_host host) {
  return atomic_load(&((nx_host *)(void *)nx_table_find(&nx_hosts, host.id))->refused_callbacks);
}

/* Slots never used, then one that an allocator of another host had: no call is booked before, nor on the wrong host after. */
static void test_guessed_context(void **state) {
  const nx_case *c = *state;
  enum { MORE = 70 }; /* more than a chunk */
  nxmem_allocator more[MORE], last;
  nx_puppet_reset();
  stage = nx_stage_set(c->mode);
  for (size_t i = 0; i < MORE; i++) open_under_guesses(stage.plugin, &more[i]);
  for (size_t i = 0; i < MORE; i++) nx_must_close(more[i]);

  nxmem_host other_host = nx_host_in(c->mode);
  nxmem_plugin other = nx_must_open(other_host, stage.path);
  const uint64_t before = booked(stage.host);
  open_under_guesses(other, &last);
  assert_int_equal(booked(stage.host), before);
  assert_int_equal(booked(other_host), guess.late);
  nx_must_close(last);
  nx_must_close(stage.allocator);
  assert_int_equal(nxmem_plugin_try_unload(other, NULL, NULL), NXMEM_OK);
  nx_host_gone(other_host);
  nx_must_unload(stage.plugin, stage.path);
  nx_host_gone(stage.host);
}

static void guess_handle(seam at, nx_slot *what) {
  if (!is_guessed_slot(at, what)) return;
  const nxmem_result r = guess.use(__real_nx_slot_handle(what));
  *(guess.shown ? &guess.late : &guess.early) += 1;
  if (guess.shown) guess.late_result = r;
  if (!guess.shown) guess.early_hits += r != NXMEM_ERR_STALE_HANDLE;
}

static nxmem_result count_host(uint64_t id) {
  nxmem_host_counts counts;
  return nxmem_host_count((nxmem_host){id}, &counts, NULL);
}
static nxmem_result plugin_info(uint64_t id) {
  nxmem_plugin_info info;
  return nxmem_plugin_get_info((nxmem_plugin){id}, &info, NULL);
}
static nxmem_result allocator_info(uint64_t id) {
  nxmem_allocator_info info;
  return nxmem_allocator_get_info((nxmem_allocator){id}, &info, NULL);
}
static void make_host(void) { nx_host_gone(nx_host_in(NXMEM_FETCH_GUARDED)); }
static void make_plugin(void) {
  const nxmem_plugin again = nx_must_open(stage.host, stage.path);
  assert_int_equal(nxmem_plugin_destroy(again, NULL, NULL), NXMEM_OK);
}
static void make_allocator(void) { nx_must_close(nx_must_open_mechanism(stage.plugin, "puppet")); }

typedef struct guess_row {
  const char *name;
  nx_modes modes;
  nx_table *table;
  nxmem_result (*use)(uint64_t handle);
  void (*make)(void);
} guess_row;

static const guess_row guess_rows[] = {
    {"a guessed host", 0, &nx_hosts, count_host, make_host},
    {"a guessed plugin", 0, &nx_plugins, plugin_info, make_plugin},
    {"a guessed allocator", 0, &nx_allocators, allocator_info, make_allocator},
};

static void test_guessed_handle(void **state) {
  const nx_case *c = *state;
  const guess_row *row = c->row;
  nx_puppet_reset();
  stage = nx_stage_set(c->mode);
  for (int i = 0; i < 3; i++) { /* a fresh slot, then the same again */
    start_guessing(row->table);
    guess.use = row->use;
    stand_in = guess_handle;
    row->make();
    stand_in = NULL;
    assert_true(guess.early >= 2);
    assert_int_equal(guess.early_hits, 0);
    assert_true(guess.late >= 1);
  }
  nx_stage_strike(&stage);
}

/* ---- The unload gate ------------------------------------------------------------------------------------------------ */

static nx_call opener;

static void finish_opener(void) {
  if (opener.stage == NULL) return;
  opener.stage = NULL;
  nx_hold_let_go();
  (void)nx_call_join(&opener);
}

static void finish_in_query(nx_place_inside place) {
  if (place == NX_IN_QUERY) finish_opener();
}
static void finish_in_tally(seam at, nx_slot *what) {
  if (at == AFTER_TABLE_AT && what != NULL && __real_nx_table_at(&nx_allocators, what->self) == what) finish_opener();
}

typedef struct gate_row {
  const char *name;
  nx_modes modes;
  uint32_t open_code;                /* how the open that is inside ends */
  void (*in_tally)(seam, nx_slot *); /* it ends while the host counts; else while the plugin is asked */
} gate_row;

static const gate_row gate_rows[] = {
    {"a call leaves while the plugin is asked", 0, NXMEM_STATUS_DEVICE_ERROR, NULL},
    {"an allocator is opened while the plugin is asked", 0, NXMEM_STATUS_OK, NULL},
    {"a call leaves while the host counts", 0, NXMEM_STATUS_DEVICE_ERROR, finish_in_tally},
    {"an allocator is opened while the host counts", 0, NXMEM_STATUS_OK, finish_in_tally},
};

/* The plugin reports nothing, and by the time of the other half nobody is inside any more: refused all the same. */
static void test_gate(void **state) {
  const nx_case *c = *state;
  const gate_row *row = c->row;
  nx_puppet_reset();
  stage = nx_stage_set(c->mode);
  nx_must_close(stage.allocator);
  puppet.own_report = 1;
  puppet.report = (NxmemUnloadReport){48, 0, 0, 0, 0, 0, 0};
  puppet.open_answer = nx_puppet_status(row->open_code);
  opener = (nx_call){.run = nx_call_open_allocator, .stage = &stage};
  nx_hold_at(NX_IN_OPEN);
  nx_call_start(&opener);
  nx_hold_wait();
  puppet.inside = finish_in_query;
  stand_in = row->in_tally;
  (void)nx_assert_unload_busy(stage.plugin, NXMEM_REASON_HOST_HOLDS, NXMEM_AXIS_CALLS_INSIDE, 1);
  stand_in = NULL;
  assert_null(opener.stage);
  assert_true(nx_is_mapped(stage.path));
  assert_int_equal(opener.result, row->open_code == NXMEM_STATUS_OK ? NXMEM_OK : NXMEM_ERR_PLUGIN);
  if (opener.result == NXMEM_OK) {
    (void)nx_assert_unload_busy(stage.plugin, NXMEM_REASON_HOST_HOLDS, NXMEM_AXIS_ALLOCATORS, 1);
    nx_must_release(opener.allocator, nx_must_allocate(opener.allocator, 64, 8));
    nx_must_close(opener.allocator);
  }
  nx_must_unload(stage.plugin, stage.path);
  nx_host_gone(stage.host);
}

/* ---- A host replaced while an open looks for it --------------------------------------------------------------------- */

static nxmem_host replaced;
static int finds;

static void replace_host(seam at, nx_slot *what) {
  (void)what;
  if (at == AFTER_HOST_FIND && ++finds == 1) nx_host_gone(replaced);
  if (at == BEFORE_HOST_FIND && finds == 1) replaced = nx_host_in(NXMEM_FETCH_GUARDED);
}

static void test_replaced_host(void **state) {
  const nx_case *c = *state;
  const nxmem_host old = replaced = nx_host_in(c->mode);
  const char *path = nx_plugin_copy("libnxmem_minimal.so");
  nxmem_plugin none;
  nxmem_error error = nx_blank_error();
  finds = 0;
  stand_in = replace_host;
  const nxmem_result r = nxmem_plugin_open(old, path, &none, &error);
  stand_in = NULL;
  nx_assert_code(r, &error, NXMEM_ERR_STALE_HANDLE);
  assert_int_not_equal(replaced.id, old.id);
  assert_int_equal(replaced.id % (1ull << 32), old.id % (1ull << 32)); /* in the very same slot */
  assert_int_equal(nx_counts(replaced).open_plugins, 0);
  nx_must_unload(nx_must_open(replaced, path), path);
  nx_host_gone(replaced);
}

/* ---- Stale handles beside a close or an unload ---------------------------------------------------------------------- */

static uint64_t seen_inside;

static uint64_t counted_inside(void) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < atomic_load(&nx_allocators.count); i++)
    sum += nx_allocator_inside((nx_allocator *)(void *)nx_table_at(&nx_allocators, i));
  for (uint32_t i = 0; i < atomic_load(&nx_modules.count); i++) sum += atomic_load(&nx_module_at(i)->inside);
  return sum;
}

/* Whoever looks at a handle's word after counting itself in is seen here. */
static void look_inside(seam at, nx_slot *what) {
  (void)what;
  if (at == BEFORE_CHECK_CLAIM && counted_inside() > seen_inside) seen_inside = counted_inside();
}

static nxmem_plugin old_plugin;
static nxmem_allocator old_allocator;

static nxmem_result allocate(void) {
  nxmem_allocation none;
  return nxmem_allocate(old_allocator, 64, 8, NULL, &none, NULL);
}
static nxmem_result release(void) { return nxmem_release(old_allocator, (nxmem_allocation){1, NULL}, NULL, NULL); }
static nxmem_result close_it(void) { return nxmem_allocator_close(old_allocator, 0, NULL); }
static nxmem_result ask_allocator(void) { return allocator_info(old_allocator.id); }
static nxmem_result ask_plugin(void) { return plugin_info(old_plugin.id); }
static nxmem_result mechanism(void) {
  nxmem_mechanism_info info;
  return nxmem_plugin_mechanism(old_plugin, 0, &info, NULL);
}
static nxmem_result open_it(void) {
  nxmem_allocator none;
  return nxmem_allocator_open(old_plugin, &(nxmem_open_options){.mechanism = "puppet"}, &none, NULL);
}
static nxmem_result unload(void) { return nxmem_plugin_try_unload(old_plugin, NULL, NULL); }
static nxmem_result destroy(void) { return nxmem_plugin_destroy(old_plugin, NULL, NULL); }

typedef struct stranger_row {
  const char *name;
  nx_modes modes;
  nxmem_result (*use)(void);
} stranger_row;

static const stranger_row stranger_rows[] = {
    {"a stale allocator: allocate", 0, allocate},      {"a stale allocator: release", 0, release},
    {"a stale allocator: close", 0, close_it},         {"a stale allocator: info", 0, ask_allocator},
    {"a stale plugin: info", 0, ask_plugin},           {"a stale plugin: mechanism", 0, mechanism},
    {"a stale plugin: open an allocator", 0, open_it}, {"a stale plugin: unload", 0, unload},
    {"a stale plugin: destroy", 0, destroy},
};

/* The slots have new owners: at no moment is the stranger's call counted with them. */
static void test_stranger(void **state) {
  const nx_case *c = *state;
  const stranger_row *row = c->row;
  nx_puppet_reset();
  stage = nx_stage_set(c->mode);
  old_plugin = stage.plugin;
  old_allocator = stage.allocator;
  nx_stage_strike(&stage);
  nx_puppet_reset();
  stage = nx_stage_set(c->mode);
  assert_int_equal(stage.allocator.id % (1ull << 32), old_allocator.id % (1ull << 32));
  assert_int_equal(stage.plugin.id % (1ull << 32), old_plugin.id % (1ull << 32));

  seen_inside = 0;
  stand_in = look_inside;
  const nxmem_result r = row->use();
  const uint64_t strangers = seen_inside;
  const nxmem_result owners[] = {allocator_info(stage.allocator.id), plugin_info(stage.plugin.id)};
  stand_in = NULL;
  assert_int_equal(r, NXMEM_ERR_STALE_HANDLE);
  assert_int_equal(strangers, 0);
  assert_int_equal(owners[0], NXMEM_OK);
  assert_int_equal(owners[1], NXMEM_OK);
  assert_int_equal(seen_inside, 1); /* the owner's own call is */
  nx_stage_strike(&stage);
}

/* ---- No room for a handle ------------------------------------------------------------------------------------------- */

/* The plugin is not even loaded, nor its module referenced once more: nothing is left that no handle could give back. */
static void test_no_room(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  stage = nx_stage_set(c->mode);
  const char *other = nx_plugin_copy("libnxmem_minimal.so");
  nxmem_plugin none = {0x5A5A};
  nxmem_error error = nx_blank_error();
  full = &nx_plugins;
  nx_assert_code(nxmem_plugin_open(stage.host, stage.path, &none, &error), &error, NXMEM_ERR_OUT_OF_MEMORY);
  nx_assert_code(nxmem_plugin_open(stage.host, other, &none, &error), &error, NXMEM_ERR_OUT_OF_MEMORY);
  full = NULL;
  assert_int_equal(none.id, 0x5A5A);
  assert_false(nx_is_mapped(other));
  nxmem_plugin_info info;
  assert_int_equal(nxmem_plugin_get_info(stage.plugin, &info, NULL), NXMEM_OK);
  assert_int_equal(info.references, 1);
  assert_int_equal(nx_counts(stage.host).open_plugins, 1);
  nx_stage_strike(&stage);
}

#define ONE(name, test) static const nx_row_head name##_rows[] = {{test, NX_BOTH_MODES}}
ONE(context, "guessed contexts");
ONE(replaced, "a host replaced while an open looks for it");
ONE(no_room, "no room for a handle");

int main(void) {
  alarm(100);
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(hand_back_rows), test_hand_back);
  nx_suite_modes(&suite, ROWS(context_rows), test_guessed_context);
  nx_suite_modes(&suite, ROWS(guess_rows), test_guessed_handle);
  nx_suite_modes(&suite, ROWS(gate_rows), test_gate);
  nx_suite_modes(&suite, ROWS(replaced_rows), test_replaced_host);
  nx_suite_modes(&suite, ROWS(stranger_rows), test_stranger);
  nx_suite_modes(&suite, ROWS(no_room_rows), test_no_room);
  return nx_suite_run(&suite, "host_between");
}
