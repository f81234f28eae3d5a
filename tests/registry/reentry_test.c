/*
 * reentry_test.c: a plugin that calls the registry from inside its slots, on the mechanism whose call is under way and on another plugin's.
 *
 * Attackers played: re-entry at every place where plugin code runs, on the same thread: selecting, binding, registering, ending, losing, removing, counting.
 * Promise: nothing waits for itself, each answer is the one that any other thread would get then, the outer call ends as it should, and the books are exact at the end.
 */
#include "registrytest.h"

enum { GRANULE = 4096 };
static const NxmemByteRange second = {GRANULE, GRANULE};

/* What the calls work on; {0} where it is not there. */
static struct {
  nx_play play;
  nxmem_plugin minimal;
  nxmem_mechanism m, n,
      extra; /* the puppet's, selected; the other plugin's, on the same device; registered by the outer call */
  nxmem_binding bm, bn;
  nxmem_bound live, in_flight; /* of m; the second is what the outer call is about */
  nxmem_release_queue queue;
  nxmem_allocator plain; /* of the puppet, past the registry: it has a queue of the plugin's */
  nxmem_allocation queued;
} now;

static const char *minimal_path; /* one copy for all rows */

/* ---- Calls ------------------------------------------------------------------------------------------------------- */

static nxmem_result register_with(nxmem_plugin plugin, const char *name, nxmem_mechanism *out, nxmem_error *error) {
  const nxmem_open_options options = {.mechanism = name};
  return nxmem_mechanism_register(now.play.context, now.play.authority, plugin, &options, out, error);
}

static nxmem_result bind_and_end(nxmem_mechanism m, nxmem_error *error) {
  nxmem_binding b;
  const nxmem_result r = nxmem_bind_mechanism(m, &b, error);
  return r == NXMEM_OK ? nxmem_binding_end(b, 0, error) : r;
}

static nxmem_result allocate_and_release(nxmem_binding b, nxmem_error *error) {
  nxmem_bound bound;
  const nxmem_result r = nxmem_bound_allocate(b, 64, 16, NULL, &bound, error);
  return r == NXMEM_OK ? nxmem_bound_release(&bound, error) : r;
}

static nxmem_result select_same(nxmem_error *error) { return nxmem_mechanism_select(now.m, error); }
static nxmem_result select_other(nxmem_error *error) { return nxmem_mechanism_select(now.n, error); }
static nxmem_result selected(nxmem_error *error) {
  nxmem_mechanism m;
  return nxmem_registry_selected(now.play.registry, nx_device_0, &m, error);
}
static nxmem_result bind_device(nxmem_error *error) {
  nxmem_binding b;
  const nxmem_result r = nxmem_bind(now.play.registry, nx_device_0, &b, error);
  return r == NXMEM_OK ? nxmem_binding_end(b, 0, error) : r;
}
static nxmem_result bind_same(nxmem_error *error) { return bind_and_end(now.m, error); }
static nxmem_result bind_other(nxmem_error *error) { return bind_and_end(now.n, error); }
/* And removed again. The puppet completes through the callbacks of the outer allocator. */
static nxmem_result register_and_remove(nxmem_plugin plugin, const char *name, nxmem_error *error) {
  nxmem_mechanism m = {0};
  const NxmemHostCallbacks *outer = puppet.callbacks;
  nxmem_result r = register_with(plugin, name, &m, error);
  puppet.callbacks = outer;
  if (r == NXMEM_OK) r = nxmem_mechanism_retire(m, error);
  return r == NXMEM_OK ? nxmem_mechanism_remove(m, NULL, error) : r;
}
static nxmem_result register_same(nxmem_error *error) { return register_and_remove(now.play.plugin, "puppet", error); }
static nxmem_result register_other(nxmem_error *error) { return register_and_remove(now.minimal, "minimal", error); }
static nxmem_result retire_same(nxmem_error *error) { return nxmem_mechanism_retire(now.m, error); }
static nxmem_result retire_other(nxmem_error *error) { return nxmem_mechanism_retire(now.n, error); }
static nxmem_result lose_same(nxmem_error *error) { return nxmem_mechanism_lose(now.m, NULL, error); }
static nxmem_result lose_other(nxmem_error *error) { return nxmem_mechanism_lose(now.n, NULL, error); }
static nxmem_result lose_device(nxmem_error *error) {
  return nxmem_registry_lose_device(now.play.registry, nx_device_0, NULL, error);
}
static nxmem_result lose_and_confirm_same(nxmem_error *error) {
  const nxmem_result r = nxmem_mechanism_lose(now.m, NULL, error);
  return r == NXMEM_OK ? nxmem_mechanism_confirm_terminated(now.m, error) : r;
}
static nxmem_result retire_and_remove_same(nxmem_error *error) {
  const nxmem_result r = nxmem_mechanism_retire(now.m, error);
  return r == NXMEM_OK || r == NXMEM_ERR_RETIRED ? nxmem_mechanism_remove(now.m, NULL, error) : r;
}
static nxmem_result remove_other(nxmem_error *error) {
  nxmem_result r = nxmem_binding_end(now.bn, 0, error);
  if (r == NXMEM_OK) r = nxmem_mechanism_retire(now.n, error);
  return r == NXMEM_OK ? nxmem_mechanism_remove(now.n, NULL, error) : r;
}
static nxmem_result state_of_same(nxmem_error *error) {
  nxmem_mechanism_state state;
  return nxmem_mechanism_get_state(now.m, &state, error);
}
static nxmem_result quarantine_of_same(nxmem_error *error) {
  uint32_t count = 0;
  return nxmem_mechanism_quarantine(now.m, 0, NULL, 0, &count, NULL, error);
}
static nxmem_result count_all(nxmem_error *error) {
  nxmem_registry_counts counts;
  return nxmem_registry_count(now.play.registry, &counts, error);
}
static nxmem_result list_all(nxmem_error *error) {
  uint32_t count = 0;
  return nxmem_registry_mechanisms(now.play.registry, 0, NULL, 0, &count, NULL, error);
}
static nxmem_result allocate_same(nxmem_error *error) { return allocate_and_release(now.bm, error); }
static nxmem_result allocate_other(nxmem_error *error) { return allocate_and_release(now.bn, error); }
static nxmem_result release_live(nxmem_error *error) { return nxmem_bound_release(&now.live, error); }
static nxmem_result release_in_flight(nxmem_error *error) { return nxmem_bound_release(&now.in_flight, error); }
static nxmem_result prepare_in_flight(nxmem_error *error) {
  nxmem_prepared p;
  const nxmem_result r = nxmem_bound_prepare(&now.in_flight, &p, error);
  return r == NXMEM_OK ? nxmem_prepared_execute(p, error) : r;
}
static nxmem_result execute_live(nxmem_error *error) {
  nxmem_prepared p;
  const nxmem_result r = nxmem_bound_prepare(&now.live, &p, error);
  return r == NXMEM_OK ? nxmem_prepared_execute(p, error) : r;
}
static nxmem_result drain_live(nxmem_error *error) {
  nxmem_prepared p;
  nxmem_result r = nxmem_bound_prepare(&now.live, &p, error);
  if (r == NXMEM_OK) r = nxmem_release_queue_push(now.queue, p, error);
  return r == NXMEM_OK ? nxmem_release_queue_drain(now.queue, 4, NULL, error) : r;
}
static nxmem_result abandon_live(nxmem_error *error) {
  nxmem_prepared p;
  const nxmem_result r = nxmem_bound_prepare(&now.live, &p, error);
  return r == NXMEM_OK ? nxmem_prepared_abandon(p, error) : r;
}
static nxmem_result end_same(nxmem_error *error) { return nxmem_binding_end(now.bm, 0, error); }
static nxmem_result drop_same(nxmem_error *error) { return nxmem_binding_end(now.bm, NXMEM_END_DROP, error); }
static nxmem_result end_other(nxmem_error *error) { return nxmem_binding_end(now.bn, 0, error); }
static nxmem_result destroy_queue(nxmem_error *error) { return nxmem_release_queue_destroy(now.queue, NULL, error); }
static nxmem_result remove_context(nxmem_error *error) { return nxmem_context_remove(now.play.context, error); }
static nxmem_result remove_authority(nxmem_error *error) { return nxmem_authority_remove(now.play.authority, error); }
static nxmem_result destroy_registry(nxmem_error *error) { return nxmem_registry_destroy(now.play.registry, error); }
static nxmem_result unload(nxmem_error *error) { return nxmem_plugin_try_unload(now.play.plugin, NULL, error); }

typedef struct call_row {
  const char *name;
  nxmem_result (*call)(nxmem_error *error);
} call_row;

static const call_row calls[] = {{"select the same", select_same},
                                 {"select another", select_other},
                                 {"selected", selected},
                                 {"bind on the device", bind_device},
                                 {"bind the same", bind_same},
                                 {"bind another", bind_other},
                                 {"register of the same plugin", register_same},
                                 {"register of another plugin", register_other},
                                 {"retire the same", retire_same},
                                 {"retire another", retire_other},
                                 {"lose the same", lose_same},
                                 {"lose another", lose_other},
                                 {"lose the device", lose_device},
                                 {"lose and confirm the same", lose_and_confirm_same},
                                 {"retire and remove the same", retire_and_remove_same},
                                 {"remove another", remove_other},
                                 {"state", state_of_same},
                                 {"quarantine", quarantine_of_same},
                                 {"count", count_all},
                                 {"list", list_all},
                                 {"allocate through the same", allocate_same},
                                 {"allocate through another", allocate_other},
                                 {"release another allocation", release_live},
                                 {"release the same allocation", release_in_flight},
                                 {"prepare the same allocation", prepare_in_flight},
                                 {"execute another release", execute_live},
                                 {"drain another release", drain_live},
                                 {"abandon another release", abandon_live},
                                 {"end the same binding", end_same},
                                 {"drop the same binding", drop_same},
                                 {"end another binding", end_other},
                                 {"destroy the queue", destroy_queue},
                                 {"remove the context", remove_context},
                                 {"remove the authority", remove_authority},
                                 {"destroy the registry", destroy_registry},
                                 {"unload", unload}};
enum { CALLS = sizeof calls / sizeof calls[0] };

/* ---- What is under way meanwhile --------------------------------------------------------------------------------- */

static nxmem_result outer_register(nxmem_error *error) {
  return register_with(now.play.plugin, "puppet", &now.extra, error);
}
static nxmem_result outer_allocate(nxmem_error *error) {
  return nxmem_bound_allocate(now.bm, 64, 16, NULL, &now.in_flight, error);
}
static nxmem_result outer_commit(nxmem_error *error) { return nxmem_bound_commit(&now.in_flight, second, error); }
static nxmem_result outer_decommit(nxmem_error *error) {
  return nxmem_bound_decommit(&now.in_flight, second, NULL, error);
}
static nxmem_result outer_release(nxmem_error *error) { return nxmem_bound_release(&now.in_flight, error); }
static nxmem_result outer_execute(nxmem_error *error) {
  nxmem_prepared p;
  const nxmem_result r = nxmem_bound_prepare(&now.in_flight, &p, error);
  return r == NXMEM_OK ? nxmem_prepared_execute(p, error) : r;
}
static nxmem_result outer_drain(nxmem_error *error) {
  nxmem_prepared p;
  nxmem_result r = nxmem_bound_prepare(&now.in_flight, &p, error);
  if (r == NXMEM_OK) r = nxmem_release_queue_push(now.queue, p, error);
  return r == NXMEM_OK ? nxmem_release_queue_drain(now.queue, 4, NULL, error) : r;
}
static nxmem_result outer_enqueue(nxmem_error *error) {
  return nxmem_enqueue_release(now.plain, now.queued, NULL, NULL, error);
}
static nxmem_result outer_pending(nxmem_error *error) {
  nxmem_pending pending;
  return nxmem_pending_releases(now.plain, &pending, error);
}
static nxmem_result outer_complete(nxmem_error *error) {
  const nxmem_result r = outer_enqueue(error);
  return r == NXMEM_OK ? nxmem_drain_releases(now.plain, 4, NULL, error) : r;
}
static nxmem_result outer_remove(nxmem_error *error) {
  nxmem_result r = nxmem_bound_release(&now.live, error);
  if (r == NXMEM_OK) r = nxmem_bound_release(&now.in_flight, error);
  if (r == NXMEM_OK) r = nxmem_binding_end(now.bm, 0, error);
  if (r == NXMEM_OK) r = nxmem_mechanism_retire(now.m, error);
  return r == NXMEM_OK ? nxmem_mechanism_remove(now.m, NULL, error) : r;
}
static nxmem_result outer_unload(nxmem_error *error) {
  nx_must_release(now.plain, now.queued);
  nx_must_close(now.plain);
  now.plain.id = 0;
  const nxmem_result r = outer_remove(error);
  return r == NXMEM_OK ? unload(error) : r;
}

/* ---- What each place must answer --------------------------------------------------------------------------------- */

/* Places that the puppet has none for: its backing, and behind a completion that it brought from its drain. */
typedef enum nx_own_place { IN_COMMIT = NX_PLACES_INSIDE, IN_DECOMMIT, BEHIND_COMPLETION } nx_own_place;

typedef struct place_row {
  const char *name;
  int place;
  int plain; /* a table without structured release: deallocate is called */
  nxmem_result (*outer)(nxmem_error *error);
  char outer_wants[4]; /* what the outer call ends with: as a rule; its mechanism lost meanwhile; its binding dropped */
  char wants[CALLS + 1];
} place_row;

/*
 * O ok; B busy; S stale; U unknown allocation; M unknown mechanism; R retired; L device lost; Q quarantined; I invalid. In the order of the calls above:
 * select, selected, bind; register, retire, lose, remove; look; allocate, release; end, destroy.
 */
static const place_row place_rows[] = {
#include "reentry_rows.inc"
};

static nxmem_result code_of(char letter) {
  switch (letter) {
    case 'O':
      return NXMEM_OK;
    case 'B':
      return NXMEM_ERR_BUSY;
    case 'S':
      return NXMEM_ERR_STALE_HANDLE;
    case 'U':
      return NXMEM_ERR_UNKNOWN_ALLOCATION;
    case 'M':
      return NXMEM_ERR_UNKNOWN_MECHANISM;
    case 'R':
      return NXMEM_ERR_RETIRED;
    case 'L':
      return NXMEM_ERR_DEVICE_LOST;
    case 'Q':
      return NXMEM_ERR_QUARANTINED;
    default:
      return NXMEM_ERR_INVALID_ARGUMENT;
  }
}

typedef struct reentry_row {
  const char *name;
  const place_row *place;
  int call;
} reentry_row;

static struct {
  const reentry_row *row;
  int armed, done;
  nxmem_result result;
  nxmem_error error;
} attempt;

/* Once, at the row's place, while the outer call is under way; what the inner call causes inside the plugin passes. */
static void re_enter(int place) {
  if (!attempt.armed || attempt.done || place != attempt.row->place->place) return;
  attempt.done = 1;
  attempt.error = nx_blank_error();
  attempt.result = calls[attempt.row->call].call(&attempt.error);
}

static void inside(nx_place_inside place) {
  re_enter((int)place);
  if (place != NX_IN_DRAIN || !attempt.armed || attempt.row->place->place != BEHIND_COMPLETION) return;
  assert_int_equal(nx_puppet_retire(), NXMEM_STATUS_OK);
  re_enter(BEHIND_COMPLETION);
}

/* ---- A puppet that backs its blocks: the first granule of two, and the second while it is committed --------------- */

static uint64_t backed_bytes;

static NxmemStatus commit_range(void *ctx, const NxmemRangeRequest *request) {
  (void)ctx;
  (void)request;
  re_enter(IN_COMMIT);
  backed_bytes = 2 * GRANULE;
  return nx_puppet_status(NXMEM_STATUS_OK);
}
static NxmemStatus decommit_range(void *ctx, const NxmemRangeRequest *request, uint64_t *unmapped_out) {
  (void)ctx;
  (void)request;
  re_enter(IN_DECOMMIT);
  *unmapped_out = GRANULE;
  backed_bytes = GRANULE;
  return nx_puppet_status(NXMEM_STATUS_OK);
}
static NxmemStatus cost(void *ctx, const NxmemRangeRequest *requests, uint64_t count, uint64_t *mapped_out) {
  (void)ctx;
  (void)requests;
  (void)count;
  *mapped_out = 2 * GRANULE - backed_bytes;
  return nx_puppet_status(NXMEM_STATUS_OK);
}
static NxmemStatus committed_bytes(void *ctx, const NxmemAllocation *allocation, uint64_t *committed_out) {
  (void)ctx;
  (void)allocation;
  *committed_out = backed_bytes;
  return nx_puppet_status(NXMEM_STATUS_OK);
}
static NxmemStatus allocate_committed(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  const NxmemStatus status = puppet.table.allocate(ctx, request, result_out);
  backed_bytes = result_out->owned_bytes = result_out->mapped_bytes = request->committed_ranges[0].bytes;
  return status;
}

static nxmem_bound allocate_backed(uint64_t bytes) {
  const NxmemByteRange range = {0, bytes};
  const nxmem_allocate_options options = {&range, 1};
  nxmem_bound bound;
  MUST(nxmem_bound_allocate(now.bm, 2 * GRANULE, 16, &options, &bound, &error));
  return bound;
}

/* ---- A row ------------------------------------------------------------------------------------------------------- */

static void set(const reentry_row *row) {
  const int place = row->place->place;
  memset(&now, 0, sizeof now);
  memset(&attempt, 0, sizeof attempt);
  attempt.row = row;
  now.play = nx_play_set();
  puppet.backing.allocate_committed = allocate_committed;
  puppet.backing.commit_range = commit_range;
  puppet.backing.decommit_range = decommit_range;
  puppet.backing.committed_bytes = committed_bytes;
  puppet.backing.mapped_bytes_for_ranges = cost;
  puppet.table.virtual_backing = &puppet.backing;
  puppet.table.capability_flags |= NXMEM_CAP_VIRTUAL_BACKING;
  if (row->place->plain) puppet.table.virtual_backing = NULL;
  if (row->place->plain) puppet.table.capability_flags = NXMEM_CAP_ALLOCATOR;
  if (minimal_path == NULL) minimal_path = nx_plugin_copy("libnxmem_minimal.so");
  now.minimal = nx_must_open(now.play.host, minimal_path);
  now.m = nx_play_register(&now.play);
  MUST(register_with(now.minimal, "minimal", &now.n, &error));
  now.bm = nx_must_bind(now.m);
  now.bn = nx_must_bind(now.n);
  now.live = nx_must_allocate_bound(now.bm, 64);
  if (place == IN_COMMIT || place == IN_DECOMMIT)
    now.in_flight = allocate_backed(place == IN_COMMIT ? GRANULE : 2 * GRANULE);
  else if (row->place->outer != outer_allocate)
    now.in_flight = nx_must_allocate_bound(now.bm, 64);
  MUST(nxmem_release_queue_create(now.play.registry, 4, &now.queue, &error));
  now.plain = nx_must_open_mechanism(now.play.plugin, "puppet");
  now.queued = nx_must_allocate(now.plain, 64, 16);
}

static int gives_back(const place_row *place) {
  return place->outer == outer_release || place->outer == outer_execute || place->outer == outer_drain;
}

/* Whatever the inner call left; what is kept is given back for the plugin, which nobody told of a loss. */
static void put_away(nxmem_mechanism m) {
  nxmem_mechanism_state state;
  nxmem_kept kept[8];
  uint32_t count = 0;
  if (m.id == 0 || nxmem_mechanism_get_state(m, &state, NULL) != NXMEM_OK) return;
  MUST(nxmem_mechanism_quarantine(m, 0, kept, 8, &count, NULL, &error));
  assert_int_equal(count, state.holdings.quarantined);
  assert_int_equal(state.holdings.live, 0);
  assert_int_equal(state.holdings.prepared, 0);
  assert_int_equal(state.holdings.bindings, 0);
  if (count != 0 || state.lifecycle >= NXMEM_LIFECYCLE_DEVICE_LOST)
    nx_must_bury(m);
  else
    nx_must_go(m);
  for (uint32_t i = 0; i < count; i++) {
    if (kept[i].id == now.in_flight.id && gives_back(attempt.row->place)) continue; /* the plugin did take it back */
    free((void *)(uintptr_t)kept[i].address);
    atomic_fetch_sub(&puppet.live_allocations, 1);
  }
}

static void give_back(const nxmem_bound *bound) {
  nxmem_error error = nx_blank_error();
  if (bound->id == 0) return;
  const nxmem_result r = nxmem_bound_release(bound, &error);
  if (r != NXMEM_OK && r != NXMEM_ERR_UNKNOWN_ALLOCATION && r != NXMEM_ERR_DEVICE_LOST)
    fail_msg("release: %s", error.message);
}

static void end_binding(nxmem_binding b) {
  const nxmem_result r = nxmem_binding_end(b, 0, NULL);
  assert_true(r == NXMEM_OK || r == NXMEM_ERR_STALE_HANDLE);
}

/* Queued, and completed, or neither. */
static void close_plain(void) {
  if (now.plain.id == 0) return;
  const nxmem_result r = nxmem_release(now.plain, now.queued, NULL, NULL);
  if (r == NXMEM_ERR_BUSY) MUST(nxmem_drain_releases(now.plain, 4, NULL, &error));
  assert_true(r == NXMEM_OK || r == NXMEM_ERR_BUSY || r == NXMEM_ERR_STALE_HANDLE);
  nx_must_close(now.plain);
}

static void strike_unloaded(void) {
  MUST(nxmem_authority_remove(now.play.authority, &error));
  MUST(nxmem_context_remove(now.play.context, &error));
  MUST(nxmem_registry_destroy(now.play.registry, &error));
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE), nx_puppet_calls(NX_IN_OPEN));
  assert_int_equal(nx_puppet_factory_releases(), 1);
  assert_int_equal(atomic_load(&puppet.after_the_end), 0);
  nx_host_gone(now.play.host);
}

static void strike(int unloaded) {
  puppet.inside = NULL;
  attempt.armed = 0;
  give_back(&now.live);
  give_back(&now.in_flight);
  end_binding(now.bm);
  end_binding(now.bn);
  const nxmem_result r = nxmem_release_queue_destroy(now.queue, NULL, NULL);
  assert_true(r == NXMEM_OK || r == NXMEM_ERR_STALE_HANDLE);
  close_plain();
  put_away(now.extra);
  put_away(now.m);
  put_away(now.n);
  nx_must_unload(now.minimal, minimal_path);
  if (attempt.row->place->place != IN_DECOMMIT) /* there the puppet says that all was unmapped, once more */
    assert_int_equal(nx_counts(now.play.host).contract_violations, 0);
  if (unloaded)
    strike_unloaded();
  else
    nx_play_strike(&now.play);
}

/* Which of the outer call's ends: 1 lost inside, and still there; 2 dropped inside. */
static int how_it_ended(void) {
  nxmem_mechanism_state state;
  const int there = nxmem_mechanism_get_state(now.m, &state, NULL) == NXMEM_OK;
  if (there && state.lifecycle >= NXMEM_LIFECYCLE_DEVICE_LOST) return 1;
  return calls[attempt.row->call].call == drop_same && attempt.result == NXMEM_OK ? 2 : 0;
}

static void test_reentry(void **state) {
  const reentry_row *row = *state;
  nxmem_error error = nx_blank_error();
  set(row);
  puppet.inside = inside;
  attempt.armed = 1;
  const nxmem_result r = row->place->outer(&error);
  if (!attempt.done) fail_msg("never inside: %s", error.message);
  assert_int_equal(attempt.result, code_of(row->place->wants[row->call]));
  if (attempt.result != NXMEM_OK) nx_assert_code(attempt.result, &attempt.error, attempt.result);
  assert_int_equal(r, code_of(row->place->outer_wants[how_it_ended()]));
  if (r != NXMEM_OK) nx_assert_code(r, &error, r);
  strike(row->place->outer == outer_unload);
}

int main(void) {
  enum { PLACES = sizeof place_rows / sizeof place_rows[0] };
  static reentry_row rows[PLACES * CALLS];
  nx_suite suite = {0};
  for (int p = 0; p < PLACES; p++)
    for (int call = 0; call < CALLS; call++) {
      reentry_row *row = &rows[p * CALLS + call];
      *row = (reentry_row){nx_name("%s: %s", place_rows[p].name, calls[call].name), &place_rows[p], call};
      nx_suite_add(&suite, row->name, test_reentry, row);
    }
  return nx_suite_run(&suite, "registry re-entry");
}
