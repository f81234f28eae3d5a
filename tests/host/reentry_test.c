/*
 * reentry_test.c: a plugin that calls the host's whole API from its constructor, its exports, its slots and its
 * destructor.
 *
 * Attackers played: re-entry at every moment of an object's life, on the same thread.
 * Promise: no deadlock (a watchdog kills the run), one clear answer for each place and call, and the outer call goes on
 * undisturbed.
 */
#include <unistd.h>

#include "puppet.h"

/* What the calls work on: whatever exists at that moment; {0} where nothing does yet. */
static struct {
  nx_stage stage;
  nxmem_allocation live;      /* allocated before, untouched by the outer call */
  nxmem_allocation in_flight; /* the one that the outer release is about */
  const char *other_path;
} now;

/* ---- Calls ------------------------------------------------------------------------------------------------------- */

static nxmem_result count_host(nxmem_error *error) {
  nxmem_host_counts counts;
  return nxmem_host_count(now.stage.host, &counts, error);
}
static nxmem_result destroy_host(nxmem_error *error) { return nxmem_host_destroy(now.stage.host, error); }
static nxmem_result other_host(nxmem_error *error) {
  nxmem_host host;
  const nxmem_result r = nxmem_host_create(NULL, &host, error);
  return r == NXMEM_OK ? nxmem_host_destroy(host, error) : r;
}
static nxmem_result open_same(nxmem_error *error) {
  nxmem_plugin plugin;
  const nxmem_result r = nxmem_plugin_open(now.stage.host, now.stage.path, &plugin, error);
  if (r != NXMEM_OK) return r;
  nxmem_unload_info info;
  return nxmem_plugin_destroy(plugin, &info, error);
}
static nxmem_result open_other(nxmem_error *error) {
  nxmem_plugin plugin;
  const nxmem_result r = nxmem_plugin_open(now.stage.host, now.other_path, &plugin, error);
  return r == NXMEM_OK ? nxmem_plugin_try_unload(plugin, NULL, error) : r;
}
static nxmem_result plugin_info(nxmem_error *error) {
  nxmem_plugin_info info;
  return nxmem_plugin_get_info(now.stage.plugin, &info, error);
}
static nxmem_result mechanism(nxmem_error *error) {
  nxmem_mechanism_info info;
  return nxmem_plugin_mechanism(now.stage.plugin, 0, &info, error);
}
static nxmem_result unload(nxmem_error *error) { return nxmem_plugin_try_unload(now.stage.plugin, NULL, error); }
static nxmem_result open_allocator(nxmem_error *error) {
  nxmem_allocator allocator;
  const nxmem_open_options options = {.mechanism = "puppet"};
  const NxmemHostCallbacks *outer = puppet.callbacks; /* the queue completes through those of the outer allocator */
  const nxmem_result r = nxmem_allocator_open(now.stage.plugin, &options, &allocator, error);
  puppet.callbacks = outer;
  return r == NXMEM_OK ? nxmem_allocator_close(allocator, 0, error) : r;
}
static nxmem_result allocator_info(nxmem_error *error) {
  nxmem_allocator_info info;
  return nxmem_allocator_get_info(now.stage.allocator, &info, error);
}
static nxmem_result close_allocator(nxmem_error *error) {
  return nxmem_allocator_close(now.stage.allocator, NXMEM_CLOSE_RELEASE_LIVE, error);
}
static nxmem_result allocate(nxmem_error *error) {
  nxmem_allocation allocation;
  const nxmem_result r = nxmem_allocate(now.stage.allocator, 64, 8, NULL, &allocation, error);
  return r == NXMEM_OK ? nxmem_release(now.stage.allocator, allocation, NULL, error) : r;
}
static nxmem_result release_live(nxmem_error *error) {
  const nxmem_result r = nxmem_release(now.stage.allocator, now.live, NULL, error);
  return r == NXMEM_OK ? nxmem_allocate(now.stage.allocator, 64, 8, NULL, &now.live, error) : r;
}
static nxmem_result release_same(nxmem_error *error) {
  return nxmem_release(now.stage.allocator, now.in_flight, NULL, error);
}

static nxmem_result enqueue_live(nxmem_error *error) {
  nxmem_result r = nxmem_enqueue_release(now.stage.allocator, now.live, NULL, NULL, error);
  if (r == NXMEM_OK) r = nxmem_drain_releases(now.stage.allocator, UINT64_MAX, NULL, error);
  return r == NXMEM_OK ? nxmem_allocate(now.stage.allocator, 64, 8, NULL, &now.live, error) : r;
}
static nxmem_result enqueue_same(nxmem_error *error) {
  return nxmem_enqueue_release(now.stage.allocator, now.in_flight, NULL, NULL, error);
}
static nxmem_result drain(nxmem_error *error) {
  return nxmem_drain_releases(now.stage.allocator, UINT64_MAX, NULL, error);
}
static nxmem_result pending(nxmem_error *error) {
  nxmem_pending counts;
  return nxmem_pending_releases(now.stage.allocator, &counts, error);
}

enum { CALLS = 18 };
static nxmem_result (*const calls[CALLS])(nxmem_error *) = {
    count_host,   destroy_host, other_host,     open_same,      open_other,      plugin_info,
    mechanism,    unload,       open_allocator, allocator_info, close_allocator, allocate,
    release_live, release_same, enqueue_live,   enqueue_same,   drain,           pending};
static const char *const call_names[CALLS] = {"count host",
                                              "destroy host",
                                              "create another host",
                                              "open the same file",
                                              "open another file",
                                              "plugin info",
                                              "mechanism info",
                                              "unload",
                                              "open allocator",
                                              "allocator info",
                                              "close allocator",
                                              "allocate",
                                              "release another",
                                              "release the same",
                                              "enqueue another",
                                              "enqueue the same",
                                              "drain",
                                              "pending"};

/* ---- What each place must answer --------------------------------------------------------------------------------- */

#define O NXMEM_OK
#define B NXMEM_ERR_BUSY
#define S NXMEM_ERR_STALE_HANDLE
#define U NXMEM_ERR_UNSUPPORTED_CAPABILITY

typedef struct place_row {
  nx_place_inside place;
  const char *name;
  int plain; /* deallocate instead of release_allocation */
  nxmem_result want[CALLS];
} place_row;

/*                            host    other  same other  plugin     open   allocator      release
                              c  d    host   file file   i  m  un   alloc  i  c   alloc   live same     queue */
static const place_row place_rows[] = {
    {NX_IN_CONSTRUCTOR, "constructor", 0, {O, B, O, B, O, S, S, S, S, S, S, S, S, S, S, S, S, S}},
    {NX_IN_NEGOTIATE, "negotiate", 0, {O, B, O, B, O, S, S, S, S, S, S, S, S, S, S, S, S, S}},
    {NX_IN_CREATE, "create", 0, {O, B, O, B, O, S, S, S, S, S, S, S, S, S, S, S, S, S}},
    {NX_IN_OPEN, "open", 0, {O, B, O, O, O, O, O, B, O, S, S, S, S, S, S, S, S, S}},
    {NX_IN_ALLOCATE, "allocate", 0, {O, B, O, O, O, O, O, B, O, O, B, O, O, S, O, S, O, O}},
    {NX_IN_RELEASE_ALLOCATION, "release_allocation", 0, {O, B, O, O, O, O, O, B, O, O, B, O, O, B, O, B, O, O}},
    {NX_IN_DEALLOCATE, "deallocate", 1, {O, B, O, O, O, O, O, B, O, O, B, O, O, B, U, U, U, U}},
    {NX_IN_RELEASE, "release", 0, {O, B, O, O, O, O, O, B, O, B, B, B, B, B, B, B, B, B}},
    {NX_IN_QUERY, "query", 0, {O, B, O, B, O, B, B, B, B, S, S, S, S, S, S, S, S, S}},
    {NX_IN_FACTORY_RELEASE, "factory release", 0, {O, B, O, B, O, B, B, B, B, S, S, S, S, S, S, S, S, S}},
    {NX_IN_DESTRUCTOR, "destructor", 0, {O, B, O, B, O, B, B, B, B, S, S, S, S, S, S, S, S, S}},
    {NX_IN_ENQUEUE, "enqueue", 0, {O, B, O, O, O, O, O, B, O, O, B, O, O, B, O, B, O, O}},
    {NX_IN_PENDING, "pending", 0, {O, B, O, O, O, O, O, B, O, O, B, O, O, B, O, B, O, O}},
    {NX_IN_DRAIN, "drain", 0, {O, B, O, O, O, O, O, B, O, O, B, O, O, B, O, B, O, O}},
};

typedef struct reentry_row {
  const place_row *place;
  int call;
} reentry_row;

static struct {
  const reentry_row *row;
  int done;
  nxmem_result result;
  nxmem_error error;
} attempt;

/* Once, at the row's place; what the inner call causes inside the plugin passes. */
static void re_enter(nx_place_inside place) {
  if (attempt.done || place != attempt.row->place->place) return;
  attempt.done = 1;
  attempt.error = nx_blank_error();
  attempt.result = calls[attempt.row->call](&attempt.error);
}

static void prepare(const reentry_row *row) {
  nx_puppet_reset();
  memset(&attempt, 0, sizeof attempt);
  memset(&now, 0, sizeof now);
  attempt.row = row;
  if (row->place->plain) puppet.table.capability_flags = NXMEM_CAP_ALLOCATOR;
  now.stage.path = nx_puppet_copy();
  now.other_path = nx_plugin_copy("libnxmem_minimal.so");
}

/* A close that found a call inside leaves the gate shut; the next one finds what is live and opens it again. */
static void close_again(void) {
  if (!attempt.done || calls[attempt.row->call] != close_allocator) return;
  nxmem_error error = nx_blank_error();
  nx_assert_code(nxmem_allocator_close(now.stage.allocator, 0, &error), &error, NXMEM_ERR_BUSY);
  assert_int_not_equal(error.found, 0);
}

/* The way through the queue of releases. */
static void queue_one(void) {
  now.in_flight = nx_must_allocate(now.stage.allocator, 64, 8);
  assert_int_equal(enqueue_same(NULL), NXMEM_OK);
  close_again();
  assert_int_equal(pending(NULL), NXMEM_OK);
  close_again();
  assert_int_equal(drain(NULL), NXMEM_OK);
  close_again();
}

/* A whole life; the hook stands only where the row wants it, so that steps before do not trigger it. */
static void live_through(nxmem_fetch_mode mode, const place_row *place) {
  now.stage.host = nx_host_in(mode);
  if (place->place != NX_IN_ALLOCATE) puppet.inside = re_enter;
  now.stage.plugin = nx_must_open(now.stage.host, now.stage.path);
  now.stage.allocator = nx_must_open_mechanism(now.stage.plugin, "puppet");
  now.live = nx_must_allocate(now.stage.allocator, 64, 8);
  puppet.inside = re_enter;
  now.in_flight = nx_must_allocate(now.stage.allocator, 64, 8);
  close_again();
  nx_must_release(now.stage.allocator, now.in_flight);
  close_again();
  if (!place->plain) queue_one();
  puppet.inside = place->place == NX_IN_RELEASE_ALLOCATION || place->place == NX_IN_DEALLOCATE ? NULL : re_enter;
  nx_must_release(now.stage.allocator, now.live);
  nx_must_close(now.stage.allocator);
  nx_must_unload(now.stage.plugin, now.stage.path);
}

static void test_reentry(void **state) {
  const nx_case *c = *state;
  const reentry_row *row = c->row;
  prepare(row);
  live_through(c->mode, row->place);
  assert_true(attempt.done);
  assert_int_equal(attempt.result, row->place->want[row->call]);
  if (attempt.result != NXMEM_OK) nx_assert_code(attempt.result, &attempt.error, attempt.result);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE), nx_puppet_calls(NX_IN_OPEN));
  assert_int_equal(nx_puppet_factory_releases(), 1);
  assert_int_equal(atomic_load(&puppet.after_the_end), 0);
  assert_int_equal(nx_counts(now.stage.host).live_allocations, 0);
  assert_int_equal(nx_counts(now.stage.host).owned_bytes, 0);
  nx_host_gone(now.stage.host);
}

/* ---- Giving up from inside --------------------------------------------------------------------------------------- */

static nx_place_inside give_up_place;

static void give_up(nx_place_inside place) {
  if (attempt.done || place != give_up_place) return;
  attempt.done = 1;
  attempt.result = nxmem_plugin_destroy(now.stage.plugin, NULL, NULL);
}

/* The handle goes while its module is busy: the outer call ends well, and the module can be adopted again. */
static void test_give_up(void **state) {
  const nx_case *c = *state;
  const place_row *row = c->row;
  const reentry_row none = {row, 0};
  prepare(&none);
  give_up_place = row->place;
  now.stage.host = nx_host_in(c->mode);
  now.stage.plugin = nx_must_open(now.stage.host, now.stage.path);
  puppet.inside = give_up;
  now.stage.allocator = nx_must_open_mechanism(now.stage.plugin, "puppet");
  nx_must_release(now.stage.allocator, nx_must_allocate(now.stage.allocator, 64, 8));
  assert_true(attempt.done);
  assert_int_equal(attempt.result, NXMEM_OK);
  assert_int_equal(nx_counts(now.stage.host).forced_leaks, 1);
  assert_int_equal(nx_counts(now.stage.host).open_plugins, 0);
  now.stage.plugin = nx_must_open(now.stage.host, now.stage.path);
  nx_stage_strike(&now.stage);
}

static nxmem_host next_host;
static nxmem_error host_error;

static void give_up_host(nx_place_inside place) {
  if (attempt.done || place != give_up_place) return;
  attempt.done = 1;
  if (nxmem_plugin_destroy(now.stage.plugin, NULL, NULL) != NXMEM_OK) return;
  host_error = nx_blank_error();
  attempt.result = nxmem_host_destroy(now.stage.host, &host_error);
  next_host = nx_host_in(NXMEM_FETCH_GUARDED);
}

/* No handle is left, but a call is inside: the host stays for what that call opens, and its books are its own. */
static void test_give_up_host(void **state) {
  const nx_case *c = *state;
  const place_row *row = c->row;
  const reentry_row none = {row, 0};
  prepare(&none);
  give_up_place = row->place;
  now.stage.host = nx_host_in(c->mode);
  now.stage.plugin = nx_must_open(now.stage.host, now.stage.path);
  puppet.inside = give_up_host;
  now.stage.allocator = nx_must_open_mechanism(now.stage.plugin, "puppet");
  nx_must_release(now.stage.allocator, nx_must_allocate(now.stage.allocator, 64, 8));
  puppet.leave_out_records = 1;
  nxmem_allocation nothing;
  assert_int_equal(nxmem_allocate(now.stage.allocator, 64, 8, NULL, &nothing, NULL), NXMEM_ERR_CONTRACT);
  nx_must_close(now.stage.allocator);
  assert_true(attempt.done);
  nx_assert_code(attempt.result, &host_error, NXMEM_ERR_BUSY);
  assert_int_equal(host_error.found, 1);
  assert_int_not_equal(next_host.id % (1ull << 32), now.stage.host.id % (1ull << 32));
  assert_int_equal(nx_counts(now.stage.host).contract_violations, 1);
  assert_int_equal(nx_counts(next_host).contract_violations, 0);
  nx_host_gone(next_host);
  nx_host_gone(now.stage.host); /* nothing is inside and nothing open: the leak alone does not keep it */
}

/* The same with an open that fails: the host goes as soon as the call has left. */
static void test_give_up_host_in_vain(void **state) {
  const nx_case *c = *state;
  const reentry_row none = {c->row, 0};
  prepare(&none);
  give_up_place = NX_IN_OPEN;
  now.stage.host = nx_host_in(c->mode);
  now.stage.plugin = nx_must_open(now.stage.host, now.stage.path);
  puppet.inside = give_up_host;
  puppet.open_answer = nx_puppet_status(NXMEM_STATUS_DEVICE_ERROR);
  const nxmem_open_options options = {.mechanism = "puppet"};
  assert_int_equal(nxmem_allocator_open(now.stage.plugin, &options, &now.stage.allocator, NULL), NXMEM_ERR_PLUGIN);
  nx_assert_code(attempt.result, &host_error, NXMEM_ERR_BUSY);
  assert_int_equal(host_error.found, 1);
  nx_host_gone(next_host);
  nx_host_gone(now.stage.host);
}

int main(void) {
  alarm(60);
  enum { PLACES = sizeof place_rows / sizeof place_rows[0] };
  static reentry_row rows[PLACES * CALLS];
  static nx_row_head heads[PLACES * CALLS];
  static nx_case cases[PLACES * CALLS * 2 + 16];
  nx_suite suite = {0};
  size_t n = 0;
  for (int p = 0; p < PLACES; p++)
    for (int call = 0; call < CALLS; call++) {
      rows[n] = (reentry_row){&place_rows[p], call};
      heads[n].name = nx_name("%s: %s", place_rows[p].name, call_names[call]);
      cases[n] = (nx_case){n % 2 == 0 ? NXMEM_FETCH_GUARDED : NXMEM_FETCH_DIRECT, &rows[n]};
      nx_suite_add(&suite, heads[n].name, test_reentry, &cases[n]);
      n++;
    }
  for (int p = 3; p < 6; p++) {
    cases[n] = (nx_case){NXMEM_FETCH_GUARDED, &place_rows[p]};
    nx_suite_add(&suite, nx_name("%s: destroy the plugin", place_rows[p].name), test_give_up, &cases[n++]);
  }
  for (int p = 3; p <= 7; p++) {
    if (place_rows[p].plain) continue;
    cases[n] = (nx_case){NXMEM_FETCH_GUARDED, &place_rows[p]};
    nx_suite_add(&suite, nx_name("%s: destroy plugin and host", place_rows[p].name), test_give_up_host, &cases[n++]);
  }
  cases[n] = (nx_case){NXMEM_FETCH_GUARDED, &place_rows[3]};
  nx_suite_add(&suite, "open: destroy plugin and host, and fail", test_give_up_host_in_vain, &cases[n++]);
  return nx_suite_run(&suite, "host_reentry");
}
