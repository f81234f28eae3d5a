/*
 * members_test.c: registries, contexts and authorities: made, pinned, counted, removed.
 *
 * Attackers played: stale, foreign and invented handles of every kind; members removed under what pins them; outputs that are NULL.
 * Promise: what is pinned stays and says by how many; what is removed is gone for every copy of its handle.
 */
#include "registrytest.h"

static nx_play play;

static void test_create(void **state) {
  (void)state;
  nxmem_registry a = {0}, b = {0};
  MUST(nxmem_registry_create(&a, &error));
  MUST(nxmem_registry_create(&b, &error));
  assert_int_not_equal(a.id, b.id);
  REFUSED(nxmem_registry_create(NULL, &error), NXMEM_ERR_INVALID_ARGUMENT);
  MUST(nxmem_registry_destroy(a, &error));
  REFUSED(nxmem_registry_destroy(a, &error), NXMEM_ERR_STALE_HANDLE);
  nxmem_registry again = {0};
  MUST(nxmem_registry_create(&again, &error)); /* the same slot, another identity */
  assert_int_not_equal(again.id, a.id);
  REFUSED(nxmem_registry_destroy(a, &error), NXMEM_ERR_STALE_HANDLE);
  MUST(nxmem_registry_destroy(again, &error));
  MUST(nxmem_registry_destroy(b, &error));
}

static void test_members_hold_it(void **state) {
  (void)state;
  nxmem_registry r = {0};
  nxmem_context c = {0};
  nxmem_authority a = {0};
  MUST(nxmem_registry_create(&r, &error));
  MUST(nxmem_context_create(r, &c, &error));
  MUST(nxmem_authority_create(r, &a, &error));
  nxmem_error said = nx_blank_error();
  nx_assert_code(nxmem_registry_destroy(r, &said), &said, NXMEM_ERR_BUSY);
  assert_int_equal(said.found, 2);
  nxmem_registry_counts counts;
  assert_int_equal(nxmem_registry_count(r, &counts, NULL), NXMEM_OK);
  assert_int_equal(counts.contexts, 1);
  assert_int_equal(counts.authorities, 1);
  assert_int_equal(nxmem_context_remove(c, NULL), NXMEM_OK);
  REFUSED(nxmem_context_remove(c, &error), NXMEM_ERR_STALE_HANDLE);
  assert_int_equal(nxmem_authority_remove(a, NULL), NXMEM_OK);
  REFUSED(nxmem_authority_remove(a, &error), NXMEM_ERR_STALE_HANDLE);
  assert_int_equal(nxmem_registry_destroy(r, NULL), NXMEM_OK);
  REFUSED(nxmem_context_create(r, &c, &error), NXMEM_ERR_STALE_HANDLE);
}

static void test_pinned(void **state) {
  (void)state;
  play = nx_play_set();
  const nxmem_mechanism one = nx_play_register(&play), two = nx_play_register(&play);
  uint64_t pins = 0;
  MUST(nxmem_context_pins(play.context, &pins, &error));
  assert_int_equal(pins, 2);
  MUST(nxmem_authority_pins(play.authority, &pins, &error));
  assert_int_equal(pins, 2);
  nxmem_error said = nx_blank_error();
  nx_assert_code(nxmem_context_remove(play.context, &said), &said, NXMEM_ERR_BUSY);
  assert_int_equal(said.found, 2);
  said = nx_blank_error();
  nx_assert_code(nxmem_authority_remove(play.authority, &said), &said, NXMEM_ERR_BUSY);
  assert_int_equal(said.found, 2);
  nx_must_go(one);
  assert_int_equal(nxmem_context_pins(play.context, &pins, NULL), NXMEM_OK);
  assert_int_equal(pins, 1);
  nx_must_go(two);
  nx_play_strike(&play);
}

/* Every call, with a handle that leads nowhere. */
static void test_wild_handles(void **state) {
  (void)state;
  static const uint64_t wild[] = {0, 1, UINT64_MAX, 0xFFFFFFFFull << 32, 0x100000001ull, 0x7FFFFFFFull};
  const nxmem_open_options options = {.mechanism = "puppet"};
  play = nx_play_set();
  for (size_t i = 0; i < sizeof wild / sizeof wild[0]; i++) {
    const uint64_t w = wild[i];
    uint64_t n = 0;
    uint32_t count = 0;
    nxmem_mechanism m = {0};
    nxmem_binding b = {0};
    nxmem_prepared p = {0};
    nxmem_release_queue q = {0};
    nxmem_context c = {0};
    nxmem_authority a = {0};
    nxmem_bound bound = {{w}, w, (void *)(uintptr_t)w, 64, 16};
    nxmem_mechanism_state s;
    nxmem_binding_info info;
    nxmem_registry_counts counts;
    if (w != play.registry.id) {
      REFUSED(nxmem_registry_destroy((nxmem_registry){w}, &error), NXMEM_ERR_STALE_HANDLE);
      REFUSED(nxmem_registry_count((nxmem_registry){w}, &counts, &error), NXMEM_ERR_STALE_HANDLE);
      REFUSED(nxmem_context_create((nxmem_registry){w}, &c, &error), NXMEM_ERR_STALE_HANDLE);
      REFUSED(nxmem_authority_create((nxmem_registry){w}, &a, &error), NXMEM_ERR_STALE_HANDLE);
      REFUSED(nxmem_registry_selected((nxmem_registry){w}, nx_device_0, &m, &error), NXMEM_ERR_STALE_HANDLE);
      REFUSED(nxmem_registry_mechanisms((nxmem_registry){w}, 0, &m, 1, &count, NULL, &error), NXMEM_ERR_STALE_HANDLE);
      REFUSED(nxmem_registry_lose_device((nxmem_registry){w}, nx_device_0, NULL, &error), NXMEM_ERR_STALE_HANDLE);
      REFUSED(nxmem_bind((nxmem_registry){w}, nx_device_0, &b, &error), NXMEM_ERR_STALE_HANDLE);
      REFUSED(nxmem_release_queue_create((nxmem_registry){w}, 1, &q, &error), NXMEM_ERR_STALE_HANDLE);
    }
    if (w != play.context.id) {
      REFUSED(nxmem_context_remove((nxmem_context){w}, &error), NXMEM_ERR_STALE_HANDLE);
      REFUSED(nxmem_context_pins((nxmem_context){w}, &n, &error), NXMEM_ERR_STALE_HANDLE);
      REFUSED(nxmem_mechanism_register((nxmem_context){w}, play.authority, play.plugin, &options, &m, &error),
              NXMEM_ERR_STALE_HANDLE);
    }
    if (w != play.authority.id) {
      REFUSED(nxmem_authority_remove((nxmem_authority){w}, &error), NXMEM_ERR_STALE_HANDLE);
      REFUSED(nxmem_authority_pins((nxmem_authority){w}, &n, &error), NXMEM_ERR_STALE_HANDLE);
      REFUSED(nxmem_mechanism_register(play.context, (nxmem_authority){w}, play.plugin, &options, &m, &error),
              NXMEM_ERR_STALE_HANDLE);
    }
    REFUSED(nxmem_mechanism_get_state((nxmem_mechanism){w}, &s, &error), NXMEM_ERR_STALE_HANDLE);
    REFUSED(nxmem_mechanism_select((nxmem_mechanism){w}, &error), NXMEM_ERR_STALE_HANDLE);
    REFUSED(nxmem_mechanism_retire((nxmem_mechanism){w}, &error), NXMEM_ERR_STALE_HANDLE);
    REFUSED(nxmem_mechanism_lose((nxmem_mechanism){w}, NULL, &error), NXMEM_ERR_STALE_HANDLE);
    REFUSED(nxmem_mechanism_confirm_terminated((nxmem_mechanism){w}, &error), NXMEM_ERR_STALE_HANDLE);
    REFUSED(nxmem_mechanism_remove((nxmem_mechanism){w}, NULL, &error), NXMEM_ERR_STALE_HANDLE);
    REFUSED(nxmem_mechanism_quarantine((nxmem_mechanism){w}, 0, NULL, 0, &count, NULL, &error), NXMEM_ERR_STALE_HANDLE);
    REFUSED(nxmem_bind_mechanism((nxmem_mechanism){w}, &b, &error), NXMEM_ERR_STALE_HANDLE);
    REFUSED(nxmem_binding_end((nxmem_binding){w}, 0, &error), NXMEM_ERR_STALE_HANDLE);
    REFUSED(nxmem_binding_get_info((nxmem_binding){w}, &info, &error), NXMEM_ERR_STALE_HANDLE);
    REFUSED(nxmem_bound_allocate((nxmem_binding){w}, 64, 16, NULL, &bound, &error), NXMEM_ERR_STALE_HANDLE);
    REFUSED(nxmem_bound_commit(&bound, (NxmemByteRange){0, 8}, &error), NXMEM_ERR_STALE_HANDLE);
    REFUSED(nxmem_bound_decommit(&bound, (NxmemByteRange){0, 8}, NULL, &error), NXMEM_ERR_STALE_HANDLE);
    REFUSED(nxmem_bound_release(&bound, &error), NXMEM_ERR_UNKNOWN_ALLOCATION);
    REFUSED(nxmem_bound_prepare(&bound, &p, &error), NXMEM_ERR_UNKNOWN_ALLOCATION);
    REFUSED(nxmem_prepared_execute((nxmem_prepared){w}, &error), NXMEM_ERR_UNKNOWN_ALLOCATION);
    REFUSED(nxmem_prepared_abandon((nxmem_prepared){w}, &error), NXMEM_ERR_UNKNOWN_ALLOCATION);
    REFUSED(nxmem_release_queue_push((nxmem_release_queue){w}, p, &error), NXMEM_ERR_STALE_HANDLE);
    REFUSED(nxmem_release_queue_drain((nxmem_release_queue){w}, 1, NULL, &error), NXMEM_ERR_STALE_HANDLE);
    REFUSED(nxmem_release_queue_close((nxmem_release_queue){w}, &error), NXMEM_ERR_STALE_HANDLE);
    REFUSED(nxmem_release_queue_destroy((nxmem_release_queue){w}, NULL, &error), NXMEM_ERR_STALE_HANDLE);
  }
  nx_play_strike(&play);
}

/* Every call that writes, with nowhere to write to. */
static void test_no_outputs(void **state) {
  (void)state;
  play = nx_play_set();
  const nxmem_open_options options = {.mechanism = "puppet"};
  const nxmem_mechanism m = nx_play_register(&play);
  const nxmem_binding b = nx_must_bind(m);
  const nxmem_bound bound = nx_must_allocate_bound(b, 64);
  nxmem_mechanism out;
  uint32_t count;
  REFUSED(nxmem_registry_count(play.registry, NULL, &error), NXMEM_ERR_INVALID_ARGUMENT);
  REFUSED(nxmem_context_create(play.registry, NULL, &error), NXMEM_ERR_INVALID_ARGUMENT);
  REFUSED(nxmem_authority_create(play.registry, NULL, &error), NXMEM_ERR_INVALID_ARGUMENT);
  REFUSED(nxmem_context_pins(play.context, NULL, &error), NXMEM_ERR_INVALID_ARGUMENT);
  REFUSED(nxmem_authority_pins(play.authority, NULL, &error), NXMEM_ERR_INVALID_ARGUMENT);
  REFUSED(nxmem_mechanism_register(play.context, play.authority, play.plugin, &options, NULL, &error),
          NXMEM_ERR_INVALID_ARGUMENT);
  REFUSED(nxmem_mechanism_register_composite_trusted(play.context, play.authority, NULL, 2, &out, &error),
          NXMEM_ERR_INVALID_ARGUMENT);
  REFUSED(nxmem_mechanism_get_state(m, NULL, &error), NXMEM_ERR_INVALID_ARGUMENT);
  REFUSED(nxmem_registry_mechanisms(play.registry, 0, NULL, 1, &count, NULL, &error), NXMEM_ERR_INVALID_ARGUMENT);
  REFUSED(nxmem_registry_mechanisms(play.registry, 0, &out, 1, NULL, NULL, &error), NXMEM_ERR_INVALID_ARGUMENT);
  REFUSED(nxmem_registry_selected(play.registry, nx_device_0, NULL, &error), NXMEM_ERR_INVALID_ARGUMENT);
  REFUSED(nxmem_bind(play.registry, nx_device_0, NULL, &error), NXMEM_ERR_INVALID_ARGUMENT);
  REFUSED(nxmem_bind_mechanism(m, NULL, &error), NXMEM_ERR_INVALID_ARGUMENT);
  REFUSED(nxmem_binding_get_info(b, NULL, &error), NXMEM_ERR_INVALID_ARGUMENT);
  REFUSED(nxmem_binding_end(b, 2, &error), NXMEM_ERR_INVALID_ARGUMENT);
  REFUSED(nxmem_bound_allocate(b, 64, 16, NULL, NULL, &error), NXMEM_ERR_INVALID_ARGUMENT);
  REFUSED(nxmem_bound_release(NULL, &error), NXMEM_ERR_INVALID_ARGUMENT);
  REFUSED(nxmem_bound_commit(NULL, (NxmemByteRange){0, 8}, &error), NXMEM_ERR_INVALID_ARGUMENT);
  REFUSED(nxmem_bound_prepare(&bound, NULL, &error), NXMEM_ERR_INVALID_ARGUMENT);
  REFUSED(nxmem_release_queue_create(play.registry, 1, NULL, &error), NXMEM_ERR_INVALID_ARGUMENT);
  REFUSED(nxmem_mechanism_quarantine(m, 0, NULL, 1, &count, NULL, &error), NXMEM_ERR_INVALID_ARGUMENT);
  REFUSED(nxmem_mechanism_quarantine(m, 0, NULL, 0, NULL, NULL, &error), NXMEM_ERR_INVALID_ARGUMENT);
  MUST(nxmem_bound_release(&bound, &error)); /* none of it changed anything */
  MUST(nxmem_binding_end(b, 0, &error));
  nx_must_go(m);
  nx_play_strike(&play);
}

static void test_words(void **state) {
  (void)state;
  for (int i = 0; i < NXMEM_LIFECYCLES; i++) {
    assert_string_not_equal(nxmem_lifecycle_name((nxmem_lifecycle)i), "unknown");
    for (int j = 0; j < i; j++)
      assert_string_not_equal(nxmem_lifecycle_name((nxmem_lifecycle)i), nxmem_lifecycle_name((nxmem_lifecycle)j));
  }
  assert_string_equal(nxmem_lifecycle_name((nxmem_lifecycle)NXMEM_LIFECYCLES), "unknown");
  for (int i = 0; i <= NXMEM_KEPT_ALLOCATOR_REFUSED; i++) {
    assert_string_not_equal(nxmem_keeping_name((nxmem_keeping)i), "unknown");
    for (int j = 0; j < i; j++)
      assert_string_not_equal(nxmem_keeping_name((nxmem_keeping)i), nxmem_keeping_name((nxmem_keeping)j));
  }
  assert_string_equal(nxmem_keeping_name((nxmem_keeping)(NXMEM_KEPT_ALLOCATOR_REFUSED + 1)), "unknown");
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_add(&suite, "registry: made, destroyed, never the same again", test_create, NULL);
  nx_suite_add(&suite, "registry: its members hold it", test_members_hold_it, NULL);
  nx_suite_add(&suite, "members: pinned by mechanisms", test_pinned, NULL);
  nx_suite_add(&suite, "handles that lead nowhere", test_wild_handles, NULL);
  nx_suite_add(&suite, "outputs that are missing", test_no_outputs, NULL);
  nx_suite_add(&suite, "words: each its own", test_words, NULL);
  return nx_suite_run(&suite, "registry members");
}
