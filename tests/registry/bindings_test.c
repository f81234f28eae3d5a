/*
 * bindings_test.c: what is bound carries its binding, and nothing that does not match gets near the plugin.
 *
 * Attackers played: records with one field that is another allocation's, stale bindings, owners that go away.
 * Promise: each mismatch is refused before any call, and changes nothing; a binding pins its mechanism until its last allocation has settled.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>

#include "registrytest.h"

static nx_play play;
static nxmem_mechanism m;
static nxmem_binding b;

static void set(void) {
  play = nx_play_set();
  m = nx_play_register(&play);
  b = nx_must_bind(m);
}

static void strike(void) {
  MUST(nxmem_binding_end(b, 0, &error));
  nx_must_go(m);
  nx_play_strike(&play);
}

/* ---- Mismatches -------------------------------------------------------------------------------------------------- */

typedef struct mismatch_row {
  const char *name;
  void (*spoil)(nxmem_bound *bound, const nxmem_bound *other);
  nxmem_result want;
} mismatch_row;

static nxmem_binding elsewhere;

static void other_binding(nxmem_bound *bound, const nxmem_bound *other) {
  (void)other;
  bound->binding = elsewhere;
}
static void other_id(nxmem_bound *bound, const nxmem_bound *other) { bound->id = other->id; }
static void next_generation(nxmem_bound *bound, const nxmem_bound *other) {
  (void)other;
  bound->id += 0x100000000ull;
}
static void last_generation(nxmem_bound *bound, const nxmem_bound *other) {
  (void)other;
  bound->id -= 0x100000000ull;
}
static void other_address(nxmem_bound *bound, const nxmem_bound *other) { bound->ptr = other->ptr; }
static void inner_address(nxmem_bound *bound, const nxmem_bound *other) {
  (void)other;
  bound->ptr = (uint8_t *)bound->ptr + 1;
}
static void no_address(nxmem_bound *bound, const nxmem_bound *other) {
  (void)other;
  bound->ptr = NULL;
}
static void fewer_bytes(nxmem_bound *bound, const nxmem_bound *other) {
  (void)other;
  bound->bytes--;
}
static void no_bytes(nxmem_bound *bound, const nxmem_bound *other) {
  (void)other;
  bound->bytes = 0;
}
static void other_align(nxmem_bound *bound, const nxmem_bound *other) {
  (void)other;
  bound->align = 8;
}
static void no_align(nxmem_bound *bound, const nxmem_bound *other) {
  (void)other;
  bound->align = 0;
}

static const mismatch_row mismatch_rows[] = {
    {"mismatch: another binding", other_binding, NXMEM_ERR_WRONG_OWNER},
    {"mismatch: another allocation's generation", other_id, NXMEM_ERR_MISMATCH},
    {"mismatch: the next generation", next_generation, NXMEM_ERR_UNKNOWN_ALLOCATION},
    {"mismatch: the last generation", last_generation, NXMEM_ERR_UNKNOWN_ALLOCATION},
    {"mismatch: another allocation's address", other_address, NXMEM_ERR_MISMATCH},
    {"mismatch: an address inside", inner_address, NXMEM_ERR_MISMATCH},
    {"mismatch: no address", no_address, NXMEM_ERR_MISMATCH},
    {"mismatch: fewer bytes", fewer_bytes, NXMEM_ERR_MISMATCH},
    {"mismatch: no bytes", no_bytes, NXMEM_ERR_MISMATCH},
    {"mismatch: another alignment", other_align, NXMEM_ERR_MISMATCH},
    {"mismatch: no alignment", no_align, NXMEM_ERR_MISMATCH},
};

static void test_mismatch(void **state) {
  const mismatch_row *row = *state;
  set();
  elsewhere = nx_must_bind(m);
  nxmem_bound bound = nx_must_allocate_bound(b, 64), other = nx_must_allocate_bound(b, 96), spoiled = bound;
  row->spoil(&spoiled, &other);
  nxmem_prepared p = {0x5A};
  const uint64_t entries = nx_entries();
  REFUSED(nxmem_bound_prepare(&spoiled, &p, &error), row->want);
  REFUSED(nxmem_bound_release(&spoiled, &error), row->want);
  nxmem_error said = nx_blank_error();
  assert_int_not_equal(nxmem_bound_commit(&spoiled, (NxmemByteRange){0, 8}, &said), NXMEM_OK);
  nx_assert_line(said.message, sizeof said.message);
  assert_int_equal(nx_entries(), entries);
  assert_int_equal(p.id, 0x5A);
  assert_int_equal(nxmem_bound_release(&bound, NULL), NXMEM_OK); /* as it was */
  assert_int_equal(nxmem_bound_release(&other, NULL), NXMEM_OK);
  assert_int_equal(nxmem_binding_end(elsewhere, 0, NULL), NXMEM_OK);
  strike();
}

/* The plugin hands the same address out again: the old record is not the new one's. */
static void test_address_again(void **state) {
  (void)state;
  set();
  static _Alignas(64) uint8_t block[64];
  puppet.address = block;
  const nxmem_bound old = nx_must_allocate_bound(b, 64);
  MUST(nxmem_bound_release(&old, &error));
  const nxmem_bound now = nx_must_allocate_bound(b, 64);
  assert_ptr_equal(now.ptr, old.ptr);
  assert_int_not_equal(now.id, old.id);
  REFUSED(nxmem_bound_release(&old, &error), NXMEM_ERR_UNKNOWN_ALLOCATION);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION), 1);
  MUST(nxmem_bound_release(&now, &error));
  strike();
}

/* Made without a binding, by somebody who went past the registry: none of the registry's. */
static void test_unbound(void **state) {
  (void)state;
  set();
  const nxmem_allocator allocator = nx_must_open_mechanism(play.plugin, "puppet");
  const nxmem_bound before = nx_must_allocate_bound(b, 64);
  MUST(nxmem_bound_release(&before, &error));
  const nxmem_allocation plain = nx_must_allocate(allocator, 64, 16); /* in the record that was b's */
  assert_int_equal((uint32_t)plain.id, (uint32_t)before.id);
  const nxmem_bound claimed = {b, plain.id, plain.ptr, 64, 16};
  REFUSED(nxmem_bound_release(&claimed, &error), NXMEM_ERR_UNKNOWN_ALLOCATION);
  nx_must_release(allocator, plain);
  nx_must_close(allocator);
  strike();
}

/* ---- Its end ----------------------------------------------------------------------------------------------------- */

static void test_end_busy(void **state) {
  (void)state;
  set();
  const nxmem_bound one = nx_must_allocate_bound(b, 64), two = nx_must_allocate_bound(b, 64);
  nxmem_error said = nx_blank_error();
  nx_assert_code(nxmem_binding_end(b, 0, &said), &said, NXMEM_ERR_BUSY);
  assert_int_equal(said.found, 2);
  const nxmem_prepared p = nx_must_prepare(&one);
  said = nx_blank_error();
  nx_assert_code(nxmem_binding_end(b, 0, &said), &said, NXMEM_ERR_BUSY);
  assert_int_equal(said.found, 2);
  assert_int_equal(nxmem_prepared_execute(p, NULL), NXMEM_OK);
  assert_int_equal(nxmem_bound_release(&two, NULL), NXMEM_OK);
  assert_int_equal(nxmem_binding_end(b, 0, NULL), NXMEM_OK);
  REFUSED(nxmem_binding_end(b, 0, &error), NXMEM_ERR_STALE_HANDLE);
  nxmem_bound none = {{0}, 0, NULL, 0, 0};
  REFUSED(nxmem_bound_allocate(b, 64, 16, NULL, &none, &error), NXMEM_ERR_STALE_HANDLE);
  nx_must_go(m);
  nx_play_strike(&play);
}

/* A failed allocation leaves no use behind. */
static void test_failed_allocations(void **state) {
  (void)state;
  set();
  nxmem_bound none = {{0}, 0, NULL, 0, 0};
  puppet.allocate_code = NXMEM_STATUS_OUT_OF_MEMORY;
  REFUSED(nxmem_bound_allocate(b, 64, 16, NULL, &none, &error), NXMEM_ERR_PLUGIN);
  puppet.allocate_code = NXMEM_STATUS_OK;
  REFUSED(nxmem_bound_allocate(b, 0, 16, NULL, &none, &error), NXMEM_ERR_INVALID_ARGUMENT);
  REFUSED(nxmem_bound_allocate(b, 64, 3, NULL, &none, &error), NXMEM_ERR_INVALID_ARGUMENT);
  assert_null(none.ptr);
  nxmem_binding_info info;
  MUST(nxmem_binding_get_info(b, &info, &error));
  assert_int_equal(info.uses, 0);
  strike();
}

static void test_dropped(void **state) {
  (void)state;
  set();
  const nxmem_binding other = nx_must_bind(m);
  const nxmem_bound left = nx_must_allocate_bound(b, 64), others = nx_must_allocate_bound(other, 64);
  const nxmem_bound queued = nx_must_allocate_bound(b, 64);
  const nxmem_prepared p = nx_must_prepare(&queued);
  const uint64_t entries = nx_entries();
  MUST(nxmem_binding_end(b, NXMEM_END_DROP, &error));
  assert_int_equal(nx_entries(), entries);
  nx_assert_kept(m, NXMEM_KEPT_OWNER_DROPPED, &left); /* and not the other's */
  REFUSED(nxmem_binding_end(b, 0, &error), NXMEM_ERR_STALE_HANDLE);
  assert_int_equal(nx_state_of(m).holdings.bindings, 2); /* the prepared one pins it */
  MUST(nxmem_prepared_execute(p, &error));
  assert_int_equal(nx_state_of(m).holdings.bindings, 1);
  REFUSED(nxmem_bound_release(&left, &error), NXMEM_ERR_UNKNOWN_ALLOCATION);
  MUST(nxmem_bound_release(&others, &error));
  MUST(nxmem_binding_end(other, 0, &error));
  nx_must_bury(m);
  free(left.ptr);
  nx_play_strike_lost(&play);
}

/* ---- Uses of many threads ------------------------------------------------------------------------------------------ */

enum { MANY = 20, EACH = 4 }; /* more threads than have a part of their own */

static nxmem_bound made[MANY][EACH];
static pthread_barrier_t all_there;

static void *make_some(void *first) {
  nxmem_bound *own = first;
  for (int i = 0; i < EACH; i++)
    if (nxmem_bound_allocate(b, 64, 16, NULL, &own[i], NULL) != NXMEM_OK) own[i].id = 0;
  (void)pthread_barrier_wait(&all_there); /* none ends, and leaves its part to another, before all have come */
  return NULL;
}

static uint64_t uses(void) {
  nxmem_binding_info info;
  MUST(nxmem_binding_get_info(b, &info, &error));
  return info.uses;
}

/* Made by many, each in its part, and released by one in its own: as many uses as are left, and then none. */
static void test_many_threads(void **state) {
  const int drops = *state != NULL;
  set();
  puppet.concurrent = 1; /* no note of the last request: there is no last one */
  pthread_t threads[MANY];
  assert_int_equal(pthread_barrier_init(&all_there, NULL, MANY), 0);
  for (int t = 0; t < MANY; t++) assert_int_equal(pthread_create(&threads[t], NULL, make_some, made[t]), 0);
  for (int t = 0; t < MANY; t++) assert_int_equal(pthread_join(threads[t], NULL), 0);
  puppet.concurrent = 0;
  assert_int_equal(uses(), MANY * EACH);
  REFUSED(nxmem_binding_end(b, 0, &error), NXMEM_ERR_BUSY);
  nxmem_prepared last = {0};
  if (drops) {
    last = nx_must_prepare(&made[0][0]);
    MUST(nxmem_bound_release(&made[0][1], &error));
  }
  for (int t = drops; t < MANY; t++)
    for (int i = 0; i < EACH; i++) MUST(nxmem_bound_release(&made[t][i], &error));
  (void)pthread_barrier_destroy(&all_there);
  if (!drops) {
    assert_int_equal(uses(), 0);
    strike();
    return;
  }
  assert_int_equal(uses(), EACH - 1);
  MUST(nxmem_binding_end(b, NXMEM_END_DROP, &error)); /* two are kept */
  assert_int_equal(nx_state_of(m).holdings.quarantined, EACH - 2);
  assert_int_equal(nx_state_of(m).holdings.bindings, 1);
  MUST(nxmem_prepared_execute(last, &error));
  assert_int_equal(nx_state_of(m).holdings.bindings, 0);
  for (int i = 2; i < EACH; i++) free(made[0][i].ptr);
  nx_must_bury(m);
  nx_play_strike_lost(&play);
}

/* ---- Backing ----------------------------------------------------------------------------------------------------- */

static void test_no_backing(void **state) {
  (void)state;
  set();
  const nxmem_bound bound = nx_must_allocate_bound(b, 64);
  REFUSED(nxmem_bound_commit(&bound, (NxmemByteRange){0, 64}, &error), NXMEM_ERR_UNSUPPORTED_CAPABILITY);
  REFUSED(nxmem_bound_decommit(&bound, (NxmemByteRange){0, 64}, NULL, &error), NXMEM_ERR_UNSUPPORTED_CAPABILITY);
  MUST(nxmem_bound_release(&bound, &error));
  strike();
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(mismatch_rows), test_mismatch);
  nx_suite_add(&suite, "an address that is handed out again", test_address_again, NULL);
  nx_suite_add(&suite, "an allocation that no binding made", test_unbound, NULL);
  nx_suite_add(&suite, "end: not while it is used", test_end_busy, NULL);
  nx_suite_add(&suite, "allocations that fail", test_failed_allocations, NULL);
  nx_suite_add(&suite, "end: its owner is dropped", test_dropped, NULL);
  nx_suite_add(&suite, "many threads: uses add up to none", test_many_threads, NULL);
  nx_suite_add(&suite, "many threads: the last use ends what was dropped", test_many_threads, "dropped");
  nx_suite_add(&suite, "backing: not supported", test_no_backing, NULL);
  return nx_suite_run(&suite, "registry bindings");
}
