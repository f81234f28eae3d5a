/*
 * stranger_test.c: threads that have no business with an object, at it all the time. Clean under a race detector.
 *
 * Attackers played: a plugin thread that guesses contexts; a neighbour that allocates while another closes; handles of a host, a plugin and an allocator that are gone.
 * Promise: none of them reaches what is not theirs, and none changes what the owner is answered.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "puppet.h"

static struct {
  nx_stage stage;
  pthread_t thread;
  _Atomic int stop;
  _Atomic uint64_t rounds; /* of the stranger */
  _Atomic uint64_t wrong;  /* answers that must not be */
} play;

static void begin(void *(*stranger)(void *)) {
  atomic_store(&play.stop, 0);
  atomic_store(&play.rounds, 0);
  atomic_store(&play.wrong, 0);
  if (pthread_create(&play.thread, NULL, stranger, NULL) != 0) fail_msg("no thread");
  while (atomic_load(&play.rounds) == 0) sched_yield();
}

static void end(void) {
  atomic_store(&play.stop, 1);
  pthread_join(play.thread, NULL);
  assert_int_equal(atomic_load(&play.wrong), 0);
}

/* The stranger gets its turn, on one processor too. */
static void let_in(uint64_t every, uint64_t i) {
  if (i % every == 0) sched_yield();
}

static void wrong_unless(int right) {
  if (!right) atomic_fetch_add(&play.wrong, 1);
}

/* ---- Contexts ------------------------------------------------------------------------------------------------------- */

static const NxmemHostCallbacks *callbacks;
static uint64_t salt; /* what a plugin can work out from a context and a handle it knows */
static _Atomic uint64_t next_handle;

static uint32_t call_back(uint64_t context) {
  static const NxmemReleaseCompletion completion = {.struct_size = sizeof completion};
  return callbacks->release_completed((void *)(uintptr_t)context, &completion).code;
}

static void *guess_the_next(void *unused) {
  while (!atomic_load(&play.stop)) {
    const uint32_t code = call_back(atomic_load(&next_handle) ^ salt);
    wrong_unless(code == NXMEM_STATUS_UNKNOWN_ALLOCATION || code == NXMEM_STATUS_INVALID_ARGUMENT);
    atomic_fetch_add(&play.rounds, 1);
  }
  return unused;
}

static void set_stage(nxmem_fetch_mode mode) {
  nx_puppet_reset();
  play.stage = nx_stage_set(mode);
  callbacks = puppet.callbacks;
  salt = (uint64_t)(uintptr_t)callbacks->host_ctx ^ play.stage.allocator.id;
}

/* New slots and used ones, while their next contexts are being called back with. */
static void test_guessing(void **state) {
  const nx_case *c = *state;
  enum { ROUNDS = 12, SLOTS = 100 };
  static nxmem_allocator all[SLOTS];
  set_stage(c->mode);
  atomic_store(&next_handle, play.stage.allocator.id + 1);
  begin(guess_the_next);
  for (int round = 0; round < ROUNDS; round++) {
    for (uint64_t i = 0; i < SLOTS; i++) {
      all[i] = nx_must_open_mechanism(play.stage.plugin, "puppet");
      atomic_store(&next_handle, round == 0 ? all[i].id + 1 : all[(i + 1) % SLOTS].id + (1ull << 32));
      let_in(8, i);
    }
    for (uint64_t i = SLOTS; i > 0; i--) nx_must_close(all[i - 1]); /* so that they are taken in the same order */
  }
  end();
  nx_stage_strike(&play.stage);
}

/* Every small number, as it is and beside a context that is known: of all of them only that one leads somewhere, and no neighbour's can be worked out from it. */
static void test_small_numbers(void **state) {
  const nx_case *c = *state;
  enum { OPEN = 20, NUMBERS = 8000 };
  nxmem_allocator all[OPEN];
  uint64_t contexts[OPEN];
  set_stage(c->mode);
  for (int i = 0; i < OPEN; i++) {
    all[i] = nx_must_open_mechanism(play.stage.plugin, "puppet");
    contexts[i] = (uint64_t)(uintptr_t)puppet.callbacks->host_ctx;
  }
  for (int i = 0; i < OPEN; i += 2) nx_must_close(all[i]);
  uint64_t plain = 0, salted = 0;
  const uint64_t before = nx_counts(play.stage.host).refused_callbacks;
  for (uint64_t n = 0; n < NUMBERS; n++) {
    plain += call_back(n) != NXMEM_STATUS_INVALID_ARGUMENT;
    salted += call_back(n ^ salt) != NXMEM_STATUS_INVALID_ARGUMENT;
    salted += call_back((n + (1ull << 32)) ^ salt) != NXMEM_STATUS_INVALID_ARGUMENT;
    salted += call_back((n + (2ull << 32)) ^ salt) != NXMEM_STATUS_INVALID_ARGUMENT;
  }
  assert_int_equal(plain, 0);
  assert_true(salted <= 1);
  assert_int_equal(nx_counts(play.stage.host).refused_callbacks, before + 4 * NUMBERS);
  for (int i = 0; i < OPEN; i++) assert_int_equal(call_back(all[i].id), NXMEM_STATUS_INVALID_ARGUMENT);
  for (int i = 0; i < OPEN; i++)
    assert_int_equal(call_back(contexts[i]),
                     i % 2 == 0 ? NXMEM_STATUS_INVALID_ARGUMENT : NXMEM_STATUS_UNKNOWN_ALLOCATION);
  for (int i = 1; i < OPEN; i += 2) nx_must_close(all[i]);
  nx_stage_strike(&play.stage);
}

/* ---- Two allocators of one process, one closing ---------------------------------------------------------------------- */

/* A plugin's own side: what it handed out can be told from the other's. */
typedef struct side {
  uint64_t tag;
  _Atomic int64_t live;
} side;

static side sides[2] = {{0xA0000000u, 0}, {0xB0000000u, 0}};

static NxmemStatus side_allocate(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  side *own = ctx;
  atomic_fetch_add(&own->live, 1);
  result_out->ptr = (uint8_t *)(uintptr_t)own->tag;
  result_out->owned_bytes = result_out->mapped_bytes = request->bytes;
  return nx_puppet_status(NXMEM_STATUS_OK);
}
static NxmemStatus side_deallocate(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped_out) {
  side *own = ctx;
  wrong_unless((uint64_t)(uintptr_t)allocation->ptr == own->tag);
  atomic_fetch_sub(&own->live, 1);
  *unmapped_out = allocation->bytes;
  return nx_puppet_status(NXMEM_STATUS_OK);
}
static void side_retain(void *ctx) { (void)ctx; }
static void side_release(void *ctx) {
  (void)ctx;
  atomic_fetch_sub(&puppet.live_allocators, 1);
}

static void play_side(int which) {
  puppet.table.ctx = &sides[which];
  puppet.table.allocate = side_allocate;
  puppet.table.deallocate = side_deallocate;
  puppet.table.retain = side_retain;
  puppet.table.release = side_release;
  puppet.table.capability_flags = NXMEM_CAP_ALLOCATOR;
}

enum { HANDFUL = 400 };
static nxmem_allocator neighbour;

/* Takes whatever records become free, and must be able to release each of its own. */
static void *keep_allocating(void *unused) {
  static nxmem_allocation own[HANDFUL];
  while (!atomic_load(&play.stop)) {
    for (int i = 0; i < HANDFUL; i++) wrong_unless(nxmem_allocate(neighbour, 64, 8, NULL, &own[i], NULL) == NXMEM_OK);
    for (int i = 0; i < HANDFUL; i++) wrong_unless(nxmem_release(neighbour, own[i], NULL, NULL) == NXMEM_OK);
    atomic_fetch_add(&play.rounds, 1);
  }
  return unused;
}

/* Half of what it had is released before, half handed back by the close: both leave records that the neighbour takes. */
static void test_handing_back(void **state) {
  const nx_case *c = *state;
  enum { ROUNDS = 50 };
  nx_puppet_reset();
  nx_overlap = NXMEM_OVERLAP_TRUSTED;
  puppet.concurrent = 1;
  nx_stage stage = {.host = nx_host_in(c->mode), .path = nx_puppet_copy()};
  stage.plugin = nx_must_open(stage.host, stage.path);
  play_side(1);
  neighbour = nx_must_open_mechanism(stage.plugin, "puppet");
  play_side(0);
  begin(keep_allocating);
  for (int round = 0; round < ROUNDS; round++) {
    stage.allocator = nx_must_open_mechanism(stage.plugin, "puppet");
    nxmem_allocation own[HANDFUL];
    for (int i = 0; i < HANDFUL; i++) own[i] = nx_must_allocate(stage.allocator, 64, 8);
    for (int i = 0; i < HANDFUL; i += 2) nx_must_release(stage.allocator, own[i]);
    assert_int_equal(nxmem_allocator_close(stage.allocator, NXMEM_CLOSE_RELEASE_LIVE, NULL), NXMEM_OK);
    assert_int_equal(atomic_load(&sides[0].live), 0);
  }
  end();
  assert_int_equal(atomic_load(&sides[1].live), 0);
  const nxmem_host_counts counts = nx_counts(stage.host);
  assert_int_equal(counts.live_allocations, 0);
  assert_int_equal(counts.owned_bytes, 0);
  assert_int_equal(counts.mapped_bytes, 0);
  assert_int_equal(counts.quarantined, 0);
  assert_int_equal(counts.contract_violations, 0);
  nx_must_close(neighbour);
  nx_must_unload(stage.plugin, stage.path);
  nx_host_gone(stage.host);
}

/* ---- A host that is gone, and its slot's next owner ------------------------------------------------------------------ */

static _Atomic uint64_t current_host;

static void *open_nothing(void *unused) {
  while (!atomic_load(&play.stop)) {
    nxmem_plugin none;
    const nxmem_result r = nxmem_plugin_open((nxmem_host){atomic_load(&current_host)}, "/nonexistent", &none, NULL);
    wrong_unless(r == NXMEM_ERR_CANNOT_OPEN || r == NXMEM_ERR_STALE_HANDLE || r == NXMEM_ERR_BUSY);
    atomic_fetch_add(&play.rounds, 1);
  }
  return unused;
}

static void test_replacing_hosts(void **state) {
  const nx_case *c = *state;
  enum { ROUNDS = 8000 };
  nxmem_host host = nx_host_in(c->mode);
  atomic_store(&current_host, host.id);
  begin(open_nothing);
  for (uint64_t i = 0; i < ROUNDS; i++) {
    assert_true(nx_counts(host).open_plugins <= 1); /* one stranger, at most one open */
    let_in(64, i);
    if (nxmem_host_destroy(host, NULL) != NXMEM_OK) continue;
    host = nx_host_in(c->mode);
    atomic_store(&current_host, host.id);
  }
  end();
  assert_int_equal(nx_counts(host).open_plugins, 0);
  nx_host_gone(host);
}

/* ---- Handles of what is gone ----------------------------------------------------------------------------------------- */

static nxmem_plugin old_plugin;
static nxmem_allocator old_allocator;

static void *ask_old_handles(void *unused) {
  while (!atomic_load(&play.stop)) {
    nxmem_plugin_info plugin;
    nxmem_allocator_info allocator;
    wrong_unless(nxmem_plugin_get_info(old_plugin, &plugin, NULL) == NXMEM_ERR_STALE_HANDLE);
    wrong_unless(nxmem_allocator_get_info(old_allocator, &allocator, NULL) == NXMEM_ERR_STALE_HANDLE);
    atomic_fetch_add(&play.rounds, 1);
  }
  return unused;
}

static void close_at_once(nxmem_plugin plugin) {
  enum { ROUNDS = 2500 };
  for (uint64_t i = 0; i < ROUNDS; i++) {
    nxmem_allocator own = nx_must_open_mechanism(plugin, "puppet");
    let_in(16, i);
    nx_must_close(own);
  }
}

static void give_up_at_once(nxmem_host host, const char *path) {
  enum { ROUNDS = 150 };
  for (int i = 0; i < ROUNDS; i++) {
    atomic_store(&puppet.calls[NX_IN_DESTRUCTOR], 0); /* a new life of the module */
    nxmem_plugin own = {0};
    puppet.create_code = i % 2 == 0 ? NXMEM_STATUS_OK : NXMEM_STATUS_DEVICE_ERROR;
    const nxmem_result r = nxmem_plugin_open(host, path, &own, NULL);
    assert_int_equal(r, i % 2 == 0 ? NXMEM_OK : NXMEM_ERR_PLUGIN);
    if (r == NXMEM_OK) assert_int_equal(nxmem_plugin_destroy(own, NULL, NULL), NXMEM_OK);
    assert_int_equal(nx_counts(host).forced_leaks, 0);
  }
  puppet.create_code = NXMEM_STATUS_OK;
}

/* The owner's close is not BUSY, a refused plugin and one given up go at once: nothing of it is the stranger's to hold. */
static void test_old_handles(void **state) {
  const nx_case *c = *state;
  set_stage(c->mode);
  old_plugin = play.stage.plugin;
  old_allocator = play.stage.allocator;
  nx_stage_strike(&play.stage);
  nx_puppet_reset();
  nxmem_host host = nx_host_in(c->mode);
  const char *path = nx_puppet_copy();
  nxmem_plugin plugin = nx_must_open(host, path);
  begin(ask_old_handles);
  close_at_once(plugin);
  nx_must_unload(plugin, path);
  give_up_at_once(host, path);
  end();
  assert_false(nx_is_mapped(path));
  nx_host_gone(host);
}

#define ONE(name, test) static const nx_row_head name##_rows[] = {{test, NX_BOTH_MODES}}
ONE(guessing, "the next context guessed all the time");
ONE(small, "every small number");
ONE(handing, "a neighbour that allocates while another hands back");
ONE(hosts, "opens on hosts that come and go");
ONE(old, "old handles asked all the time");

int main(void) {
  alarm(280);
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(guessing_rows), test_guessing);
  nx_suite_modes(&suite, ROWS(small_rows), test_small_numbers);
  nx_suite_modes(&suite, ROWS(handing_rows), test_handing_back);
  nx_suite_modes(&suite, ROWS(hosts_rows), test_replacing_hosts);
  nx_suite_modes(&suite, ROWS(old_rows), test_old_handles);
  return nx_suite_run(&suite, "host_stranger");
}
