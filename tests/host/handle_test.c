/*
 * handle_test.c: handles that name nothing, or something else, given to every function that takes one.
 *
 * Attackers played: a caller with zero, invented, closed, future and foreign handles.
 * Promise: each is a clear refusal that enters no plugin and changes nothing; the right handle works afterwards.
 */
#include "puppet.h"

#define TWO_32 (1ull << 32)

/* What every row may use: one live object of each kind, and one of each that is gone. */
static struct {
  nx_stage stage;
  nxmem_allocation live;
  nxmem_host gone_host;
  nxmem_plugin gone_plugin;
  nxmem_allocator gone_allocator;
  nxmem_allocation gone_allocation;
} all;

/* ---- Calls ------------------------------------------------------------------------------------------------------- */

typedef enum nx_kind { KIND_HOST, KIND_PLUGIN, KIND_ALLOCATOR, KIND_ALLOCATION } nx_kind;

typedef struct call {
  const char *name;
  nx_kind kind;
  nxmem_result (*run)(uint64_t id, nxmem_error *error);
} call;

static nxmem_result host_count(uint64_t id, nxmem_error *error) {
  nxmem_host_counts counts;
  return nxmem_host_count((nxmem_host){id}, &counts, error);
}
static nxmem_result host_destroy(uint64_t id, nxmem_error *error) {
  return nxmem_host_destroy((nxmem_host){id}, error);
}
static nxmem_result plugin_open(uint64_t id, nxmem_error *error) {
  nxmem_plugin plugin;
  return nxmem_plugin_open((nxmem_host){id}, all.stage.path, &plugin, error);
}
static nxmem_result plugin_info(uint64_t id, nxmem_error *error) {
  nxmem_plugin_info info;
  return nxmem_plugin_get_info((nxmem_plugin){id}, &info, error);
}
static nxmem_result plugin_mechanism(uint64_t id, nxmem_error *error) {
  nxmem_mechanism_info info;
  return nxmem_plugin_mechanism((nxmem_plugin){id}, 0, &info, error);
}
static nxmem_result plugin_symbol(uint64_t id, nxmem_error *error) {
  void *address;
  return nxmem_plugin_symbol((nxmem_plugin){id}, "nxmem_test_extra", &address, error);
}
static nxmem_result plugin_unload(uint64_t id, nxmem_error *error) {
  return nxmem_plugin_try_unload((nxmem_plugin){id}, NULL, error);
}
static nxmem_result plugin_destroy(uint64_t id, nxmem_error *error) {
  return nxmem_plugin_destroy((nxmem_plugin){id}, NULL, error);
}
static nxmem_result allocator_open(uint64_t id, nxmem_error *error) {
  nxmem_allocator allocator;
  const nxmem_open_options options = {.mechanism = "puppet"};
  return nxmem_allocator_open((nxmem_plugin){id}, &options, &allocator, error);
}
static nxmem_result allocator_info(uint64_t id, nxmem_error *error) {
  nxmem_allocator_info info;
  return nxmem_allocator_get_info((nxmem_allocator){id}, &info, error);
}
static nxmem_result allocator_close(uint64_t id, nxmem_error *error) {
  return nxmem_allocator_close((nxmem_allocator){id}, NXMEM_CLOSE_RELEASE_LIVE, error);
}
static nxmem_result allocate(uint64_t id, nxmem_error *error) {
  nxmem_allocation allocation;
  return nxmem_allocate((nxmem_allocator){id}, 64, 8, NULL, &allocation, error);
}
static nxmem_result release_through(uint64_t id, nxmem_error *error) {
  return nxmem_release((nxmem_allocator){id}, all.live, NULL, error);
}
static nxmem_result release(uint64_t id, nxmem_error *error) {
  return nxmem_release(all.stage.allocator, (nxmem_allocation){id, all.live.ptr}, NULL, error);
}
static nxmem_result host_violations(uint64_t id, nxmem_error *error) {
  nxmem_violation latest;
  uint32_t count;
  return nxmem_host_violations((nxmem_host){id}, &latest, 1, &count, error);
}
static nxmem_result enqueue_through(uint64_t id, nxmem_error *error) {
  return nxmem_enqueue_release((nxmem_allocator){id}, all.live, NULL, NULL, error);
}
static nxmem_result enqueue(uint64_t id, nxmem_error *error) {
  return nxmem_enqueue_release(all.stage.allocator, (nxmem_allocation){id, all.live.ptr}, NULL, NULL, error);
}
static nxmem_result drain(uint64_t id, nxmem_error *error) {
  return nxmem_drain_releases((nxmem_allocator){id}, 1, NULL, error);
}
static nxmem_result pending(uint64_t id, nxmem_error *error) {
  nxmem_pending counts;
  return nxmem_pending_releases((nxmem_allocator){id}, &counts, error);
}

static const call calls[] = {
    {"host_count", KIND_HOST, host_count},
    {"host_destroy", KIND_HOST, host_destroy},
    {"plugin_open", KIND_HOST, plugin_open},
    {"plugin_get_info", KIND_PLUGIN, plugin_info},
    {"plugin_mechanism", KIND_PLUGIN, plugin_mechanism},
    {"plugin_symbol", KIND_PLUGIN, plugin_symbol},
    {"plugin_try_unload", KIND_PLUGIN, plugin_unload},
    {"plugin_destroy", KIND_PLUGIN, plugin_destroy},
    {"allocator_open", KIND_PLUGIN, allocator_open},
    {"allocator_get_info", KIND_ALLOCATOR, allocator_info},
    {"allocator_close", KIND_ALLOCATOR, allocator_close},
    {"allocate", KIND_ALLOCATOR, allocate},
    {"release through", KIND_ALLOCATOR, release_through},
    {"release", KIND_ALLOCATION, release},
    {"host_violations", KIND_HOST, host_violations},
    {"enqueue_release through", KIND_ALLOCATOR, enqueue_through},
    {"enqueue_release", KIND_ALLOCATION, enqueue},
    {"drain_releases", KIND_ALLOCATOR, drain},
    {"pending_releases", KIND_ALLOCATOR, pending},
};

/* ---- Bad handles ------------------------------------------------------------------------------------------------- */

static uint64_t live_id(nx_kind kind) {
  const uint64_t ids[] = {all.stage.host.id, all.stage.plugin.id, all.stage.allocator.id, all.live.id};
  return ids[kind];
}
static uint64_t gone_id(nx_kind kind) {
  const uint64_t ids[] = {all.gone_host.id, all.gone_plugin.id, all.gone_allocator.id, all.gone_allocation.id};
  return ids[kind];
}

static uint64_t zero(nx_kind kind) {
  (void)kind;
  return 0;
}
static uint64_t no_slot(nx_kind kind) { return live_id(kind) / TWO_32 * TWO_32 + TWO_32; }
static uint64_t every_bit(nx_kind kind) {
  (void)kind;
  return 0xFFFFFFFFFFFFFFFFull;
}
static uint64_t an_address(nx_kind kind) {
  (void)kind;
  return (uintptr_t)&all;
}
static uint64_t slot_never_made(nx_kind kind) { return live_id(kind) / TWO_32 * TWO_32 + 0xFFFFF0u; }
static uint64_t next_generation(nx_kind kind) { return live_id(kind) + TWO_32; }
static uint64_t closed(nx_kind kind) { return gone_id(kind); }
static uint64_t after_closed(nx_kind kind) { return gone_id(kind) + TWO_32; }

typedef struct bad {
  const char *name;
  uint64_t (*make)(nx_kind kind);
} bad;

static const bad bads[] = {
    {"0", zero},
    {"no slot", no_slot},
    {"every bit", every_bit},
    {"an address", an_address},
    {"a slot never made", slot_never_made},
    {"the next generation", next_generation},
    {"a closed one", closed},
    {"the one after a closed one", after_closed},
};

typedef struct handle_row {
  const call *call;
  const bad *bad;
} handle_row;

/* Take the live ones first and the others then, so that no later object takes over their slots. */
static void set_up(void) {
  nx_puppet_reset();
  all.stage = nx_stage_set(NXMEM_FETCH_GUARDED);
  all.live = nx_must_allocate(all.stage.allocator, 64, 8);
  all.gone_allocation = nx_must_allocate(all.stage.allocator, 64, 8);
  nx_must_release(all.stage.allocator, all.gone_allocation);
  all.gone_allocator = nx_must_open_mechanism(all.stage.plugin, "puppet");
  nx_must_close(all.gone_allocator);
  all.gone_plugin = nx_must_open(all.stage.host, all.stage.path);
  assert_int_equal(nxmem_plugin_try_unload(all.gone_plugin, NULL, NULL), NXMEM_ERR_BUSY);
  assert_int_equal(nxmem_plugin_destroy(all.gone_plugin, NULL, NULL), NXMEM_OK);
  all.gone_host = nx_host_in(NXMEM_FETCH_GUARDED);
  nx_host_gone(all.gone_host);
}

static uint64_t entered(void) {
  uint64_t n = 0;
  for (int i = 0; i < NX_PLACES_INSIDE; i++) n += nx_puppet_calls((nx_place_inside)i);
  return n;
}

static void test_bad(void **state) {
  const handle_row *row = *state;
  set_up();
  const uint64_t before = entered();
  nxmem_error error = nx_blank_error();
  nx_assert_code(row->call->run(row->bad->make(row->call->kind), &error), &error, NXMEM_ERR_STALE_HANDLE);
  assert_int_equal(row->call->run(row->bad->make(row->call->kind), NULL), NXMEM_ERR_STALE_HANDLE);
  assert_int_equal(entered(), before);
  assert_int_equal(nx_counts(all.stage.host).live_allocations, 1);
  assert_int_equal(nx_counts(all.stage.host).open_plugins, 1);
  nx_must_release(all.stage.allocator, all.live);
  nx_stage_strike(&all.stage);
}

/* ---- The right kind, the wrong owner or numbers ------------------------------------------------------------------ */

typedef struct named_row {
  const char *name;
  nx_modes modes;
  uint64_t bytes, align;
  ptrdiff_t by; /* added to the address */
  int sibling;  /* through another allocator of the same mechanism */
  nx_refusal want;
} named_row;

#define MISMATCH(found, needed) \
  { NXMEM_ERR_MISMATCH, 0, 0, (found), (needed), 0 }

static const named_row named_rows[] = {
    {"one byte less", 0, 999, 0, 0, 0, MISMATCH(999, 1000)},
    {"one byte more", 0, 1001, 0, 0, 0, MISMATCH(1001, 1000)},
    {"2^64-1 bytes", 0, 0xFFFFFFFFFFFFFFFFull, 0, 0, 0, MISMATCH(0xFFFFFFFFFFFFFFFFull, 1000)},
    {"half the alignment", 0, 1000, 32, 0, 0, MISMATCH(32, 64)},
    {"another alignment alone", 0, 0, 128, 0, 0, MISMATCH(128, 64)},
    {"an address inside", 0, 1000, 64, 1, 0, MISMATCH(NX_ANY, NX_ANY)},
    {"through a sibling", 0, 0, 0, 0, 1, {NXMEM_ERR_WRONG_OWNER, 0, 0, 0, 0, 0}},
    {"through a sibling, all named", 0, 1000, 64, 0, 1, {NXMEM_ERR_WRONG_OWNER, 0, 0, 0, 0, 0}},
};

static void test_named(void **state) {
  const nx_case *c = *state;
  const named_row *row = c->row;
  nx_puppet_reset();
  nx_stage stage = nx_stage_set(c->mode);
  nxmem_allocator sibling = nx_must_open_mechanism(stage.plugin, "puppet");
  const nxmem_allocation allocation = nx_must_allocate(stage.allocator, 1000, 64);
  const nxmem_allocation named = {allocation.id, (uint8_t *)allocation.ptr + row->by};
  const nxmem_release_options options = {row->bytes, row->align};
  nxmem_error error = nx_blank_error();
  const nxmem_allocator through = row->sibling ? sibling : stage.allocator;
  nx_assert_refused(nxmem_release(through, named, &options, &error), &error, row->want);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION), 0);
  assert_int_equal(nx_counts(stage.host).live_allocations, 1);

  const nxmem_release_options right = {1000, 64};
  assert_int_equal(nxmem_release(stage.allocator, allocation, &right, NULL), NXMEM_OK);
  error = nx_blank_error();
  nx_assert_refused(nxmem_release(stage.allocator, allocation, &right, &error), &error,
                    (nx_refusal){NXMEM_ERR_STALE_HANDLE, NXMEM_REASON_STALE_HANDLE, 0, allocation.id / TWO_32,
                                 allocation.id / TWO_32 + 1, 0});
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION), 1);
  nx_must_close(sibling);
  nx_stage_strike(&stage);
}

/* Two modules with one mechanism id: the host's own identity tells their allocations apart. */
static void test_same_mechanism_id(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  nx_stage stage = nx_stage_set(c->mode);
  const char *other_path = nx_puppet_copy();
  nxmem_plugin other_plugin = nx_must_open(stage.host, other_path);
  nxmem_allocator other = nx_must_open_mechanism(other_plugin, "puppet");
  const nxmem_allocation mine = nx_must_allocate(stage.allocator, 64, 8), theirs = nx_must_allocate(other, 64, 8);
  nxmem_error error = nx_blank_error();
  nx_assert_code(nxmem_release(other, mine, NULL, &error), &error, NXMEM_ERR_WRONG_OWNER);
  nx_assert_code(nxmem_release(stage.allocator, theirs, NULL, &error), &error, NXMEM_ERR_WRONG_OWNER);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION), 0);
  nx_must_release(other, theirs);
  nx_must_release(stage.allocator, mine);
  nx_must_close(other);
  atomic_store(&puppet.live_allocators, 0); /* both copies are played by one puppet: speak for the other now */
  nx_must_unload(other_plugin, other_path);
  atomic_store(&puppet.live_allocators, 1);
  atomic_store(&puppet.calls[NX_IN_DESTRUCTOR], 0);
  puppet.factory_releases[0] = 0;
  nx_stage_strike(&stage);
}

/* An id is never issued twice, though slots are used again. */
static void test_ids(void **state) {
  const nx_case *c = *state;
  enum { N = 2000 };
  static uint64_t seen[N];
  nx_puppet_reset();
  nx_stage stage = nx_stage_set(c->mode);
  for (int i = 0; i < N; i++) {
    const nxmem_allocation allocation = nx_must_allocate(stage.allocator, 64, 8);
    seen[i] = allocation.id;
    assert_int_equal(puppet.alloc_request.allocation_id, allocation.id);
    if (i > 0) assert_int_equal(seen[i] % TWO_32, seen[i - 1] % TWO_32);
    if (i > 0) assert_int_equal(seen[i], seen[i - 1] + TWO_32);
    nx_must_release(stage.allocator, allocation);
  }
  nx_stage_strike(&stage);
}

static const nx_row_head twin_rows[] = {{"two modules of one mechanism id", 0}};
static const nx_row_head id_rows[] = {{"two thousand ids from one slot", 0}};

int main(void) {
  static handle_row rows[sizeof calls / sizeof calls[0] * (sizeof bads / sizeof bads[0])];
  nx_suite suite = {0};
  size_t n = 0;
  for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
    for (size_t j = 0; j < sizeof bads / sizeof bads[0]; j++) {
      rows[n] = (handle_row){&calls[i], &bads[j]};
      nx_suite_add(&suite, nx_name("%s: %s", calls[i].name, bads[j].name), test_bad, &rows[n++]);
    }
  nx_suite_modes(&suite, ROWS(named_rows), test_named);
  nx_suite_modes(&suite, ROWS(twin_rows), test_same_mechanism_id);
  nx_suite_modes(&suite, ROWS(id_rows), test_ids);
  return nx_suite_run(&suite, "host_handle");
}
