/*
 * loss_test.c: a device is gone: what is refused, what is kept, and when the rest may go.
 *
 * Attackers played: a device that vanishes with everything on it; callers that go on as if nothing had happened, also past the registry; plugins that keep their books.
 * Promise: not one call enters the plugin until the termination is confirmed, counted in the plugin; then one release of its allocator and one of its factory.
 */
#include "registrytest.h"

static nx_play play;
static nxmem_mechanism m;
static nxmem_binding b;

static void set(void) {
  play = nx_play_set();
  m = nx_play_register(&play);
  b = nx_must_bind(m);
}

/* Every call there is, on a lost mechanism: each refused, none let in. */
static void test_everything_is_refused(void **state) {
  const int confirmed = *state != NULL;
  const nxmem_result want = confirmed ? NXMEM_ERR_TERMINATED : NXMEM_ERR_DEVICE_LOST;
  set();
  const nxmem_bound live = nx_must_allocate_bound(b, 64), queued = nx_must_allocate_bound(b, 64);
  const nxmem_bound abandoned = nx_must_allocate_bound(b, 64);
  const nxmem_prepared p = nx_must_prepare(&queued), q = nx_must_prepare(&abandoned);
  nxmem_loss loss;
  MUST(nxmem_mechanism_lose(m, &loss, &error));
  assert_int_equal(loss.mechanisms, 1);
  assert_int_equal(loss.retained, 1);
  assert_int_equal(loss.calls_inside, 0);
  if (confirmed) MUST(nxmem_mechanism_confirm_terminated(m, &error));

  const uint64_t entries = nx_entries();
  nxmem_binding none = {0};
  nxmem_bound nothing = {{0}, 0, NULL, 0, 0};
  nxmem_prepared not_prepared = {0};
  REFUSED(nxmem_mechanism_select(m, &error), want);
  REFUSED(nxmem_mechanism_retire(m, &error), want);
  REFUSED(nxmem_mechanism_lose(m, NULL, &error), want);
  REFUSED(nxmem_bind_mechanism(m, &none, &error), want);
  REFUSED(nxmem_bind(play.registry, nx_device_0, &none, &error), NXMEM_ERR_UNKNOWN_MECHANISM);
  REFUSED(nxmem_bound_allocate(b, 64, 16, NULL, &nothing, &error), want);
  REFUSED(nxmem_bound_commit(&live, (NxmemByteRange){0, 64}, &error), want);
  REFUSED(nxmem_bound_decommit(&live, (NxmemByteRange){0, 64}, NULL, &error), want);
  REFUSED(nxmem_bound_release(&live, &error), NXMEM_ERR_DEVICE_LOST); /* as it was when it was retained */
  REFUSED(nxmem_bound_prepare(&live, &not_prepared, &error), NXMEM_ERR_DEVICE_LOST);
  REFUSED(nxmem_prepared_execute(p, &error), NXMEM_ERR_QUARANTINED);
  MUST(nxmem_prepared_abandon(q, &error)); /* kept for the loss, not for this */
  if (confirmed) REFUSED(nxmem_mechanism_confirm_terminated(m, &error), NXMEM_ERR_TERMINATED);
  nxmem_kept kept[4];
  uint32_t count = 0;
  MUST(nxmem_mechanism_quarantine(m, 0, kept, 4, &count, NULL, &error));
  assert_int_equal(count, 3);
  uint32_t lost = 0, terminated = 0;
  for (uint32_t i = 0; i < count; i++) {
    lost += kept[i].reason == NXMEM_KEPT_DEVICE_LOST;
    terminated += kept[i].reason == NXMEM_KEPT_TERMINATED;
  }
  assert_int_equal(lost, confirmed ? 1 : 3);
  assert_int_equal(terminated, confirmed ? 2 : 0);
  const nxmem_mechanism_state s = nx_state_of(m);
  assert_int_equal(s.holdings.live, 0);
  assert_int_equal(s.holdings.prepared, 0);
  assert_int_equal(s.owned_bytes, 192); /* no refund */
  assert_int_equal(s.quarantined_bytes, 192);
  assert_int_equal(nx_entries(), entries);

  MUST(nxmem_binding_end(b, 0, &error)); /* nothing is left in it */
  nx_must_bury(m);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE), 1);
  assert_int_equal(nx_entries(), entries + 1);
  free(live.ptr);
  free(queued.ptr);
  free(abandoned.ptr);
  nx_play_strike_lost(&play);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE), 1);
  assert_int_equal(nx_puppet_factory_releases(), 1);
}

/* Unload stays refused until the termination is confirmed and the mechanism removed; only the query enters meanwhile. */
static void test_unload(void **state) {
  (void)state;
  set();
  const nxmem_bound bound = nx_must_allocate_bound(b, 64);
  MUST(nxmem_binding_end(b, NXMEM_END_DROP, &error));
  MUST(nxmem_mechanism_lose(m, NULL, &error));
  const uint64_t entries = nx_entries();
  REFUSED(nxmem_plugin_try_unload(play.plugin, NULL, &error), NXMEM_ERR_BUSY);
  REFUSED(nxmem_mechanism_remove(m, NULL, &error), NXMEM_ERR_BUSY);
  REFUSED(nxmem_plugin_try_unload(play.plugin, NULL, &error), NXMEM_ERR_BUSY);
  assert_int_equal(nx_puppet_calls(NX_IN_QUERY), 2);
  assert_int_equal(nx_entries(), entries);
  MUST(nxmem_mechanism_confirm_terminated(m, &error));
  REFUSED(nxmem_plugin_try_unload(play.plugin, NULL, &error), NXMEM_ERR_BUSY); /* its allocator is still there */
  assert_int_equal(nx_entries(), entries);
  MUST(nxmem_mechanism_remove(m, NULL, &error));
  assert_int_equal(nx_entries(), entries + 1);
  /* The plugin has not dropped its books: its report is not zero, and that is enough. */
  REFUSED(nxmem_plugin_try_unload(play.plugin, NULL, &error), NXMEM_ERR_BUSY);
  const nxmem_host_counts counts = nx_counts(play.host);
  assert_int_equal(counts.quarantined, 0); /* the host has */
  assert_int_equal(counts.owned_bytes, 0);
  assert_int_equal(counts.live_allocations, 0);
  assert_int_equal(counts.held_slots, 0);
  free(bound.ptr);
  nx_play_strike_lost(&play);
}

/* A plugin that drops its books when its allocator is released, as it should: then it may go. */
static void drop_books(nx_place_inside place) {
  if (place == NX_IN_RELEASE) atomic_store(&puppet.live_allocations, 0);
}

static void test_unloads(void **state) {
  (void)state;
  set();
  const nxmem_bound bound = nx_must_allocate_bound(b, 64);
  puppet.inside = drop_books;
  MUST(nxmem_mechanism_lose(m, NULL, &error));
  MUST(nxmem_binding_end(b, 0, &error));
  const uint64_t entries = nx_entries();
  REFUSED(nxmem_plugin_try_unload(play.plugin, NULL, &error), NXMEM_ERR_BUSY);
  assert_int_equal(nx_entries(), entries);
  MUST(nxmem_mechanism_confirm_terminated(m, &error));
  MUST(nxmem_mechanism_remove(m, NULL, &error));
  assert_int_equal(nx_entries(), entries + 1);
  free(bound.ptr);
  nx_play_strike(&play); /* unloads it */
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE), 1);
  assert_int_equal(nx_puppet_factory_releases(), 1);
}

/* By a handle that somebody guessed: the host's own calls are refused as well, and a close hands nothing back. */
static void test_past_the_registry(void **state) {
  (void)state;
  set();
  const nxmem_bound bound = nx_must_allocate_bound(b, 64);
  nxmem_allocator guessed = {0};
  nxmem_allocator_info info;
  for (uint64_t id = 1; guessed.id == 0 && id < 4096; id++)
    for (uint64_t generation = 0; generation < 64; generation++) {
      const nxmem_allocator a = {generation << 32 | id};
      if (nxmem_allocator_get_info(a, &info, NULL) == NXMEM_OK) guessed = a;
    }
  assert_int_not_equal(guessed.id, 0);
  MUST(nxmem_mechanism_lose(m, NULL, &error));
  const uint64_t entries = nx_entries();
  const nxmem_allocation plain = {bound.id, bound.ptr};
  nxmem_allocation none = {0, NULL};
  REFUSED(nxmem_allocate(guessed, 64, 16, NULL, &none, &error), NXMEM_ERR_BUSY);
  REFUSED(nxmem_release(guessed, plain, NULL, &error), NXMEM_ERR_BUSY);
  REFUSED(nxmem_enqueue_release(guessed, plain, NULL, NULL, &error), NXMEM_ERR_BUSY);
  REFUSED(nxmem_allocator_close(guessed, 0, &error), NXMEM_ERR_BUSY);
  REFUSED(nxmem_allocator_close(guessed, NXMEM_CLOSE_RELEASE_LIVE, &error), NXMEM_ERR_BUSY);
  assert_int_equal(nx_entries(), entries);
  MUST(nxmem_binding_end(b, 0, &error));
  nx_must_bury(m);
  free(bound.ptr);
  nx_play_strike_lost(&play);
}

/* Retired mechanisms are lost too; those of other devices, and of other registries, are not. */
static void test_lose_device(void **state) {
  (void)state;
  set();
  const nxmem_mechanism retired = nx_play_register(&play), lost = nx_play_register(&play);
  nxmem_registry other = {0};
  nxmem_context context = {0};
  nxmem_authority authority = {0};
  nxmem_mechanism theirs = {0};
  const nxmem_open_options options = {.mechanism = "puppet"};
  MUST(nxmem_registry_create(&other, &error));
  MUST(nxmem_context_create(other, &context, &error));
  MUST(nxmem_authority_create(other, &authority, &error));
  MUST(nxmem_mechanism_register(context, authority, play.plugin, &options, &theirs, &error));
  MUST(nxmem_mechanism_retire(retired, &error));
  MUST(nxmem_mechanism_lose(lost, NULL, &error));
  nxmem_loss loss;
  const NxmemDeviceId device_1 = {NXMEM_TIER_HOST, 1};
  MUST(nxmem_registry_lose_device(play.registry, device_1, &loss, &error));
  assert_int_equal(loss.mechanisms, 0);
  MUST(nxmem_registry_lose_device(play.registry, nx_device_0, &loss, &error));
  assert_int_equal(loss.mechanisms, 2);
  assert_int_equal(nx_state_of(theirs).lifecycle, NXMEM_LIFECYCLE_ACTIVE);
  nx_assert_selected(&play, (nxmem_mechanism){0});
  const nxmem_mechanism heals = nx_play_register(&play); /* the device is back */
  nx_assert_selected(&play, heals);
  MUST(nxmem_binding_end(b, 0, &error));
  nx_must_go(heals);
  nx_must_bury(m);
  nx_must_bury(retired);
  nx_must_bury(lost);
  nx_must_go(theirs);
  MUST(nxmem_authority_remove(authority, &error));
  MUST(nxmem_context_remove(context, &error));
  MUST(nxmem_registry_destroy(other, &error));
  nx_play_strike(&play);
}

/* What was quarantined before the loss keeps its reason, and goes with the rest. */
static void test_earlier_reasons_stay(void **state) {
  (void)state;
  set();
  const nxmem_bound bound = nx_must_allocate_bound(b, 64);
  MUST(nxmem_prepared_abandon(nx_must_prepare(&bound), &error));
  MUST(nxmem_mechanism_lose(m, NULL, &error));
  nx_assert_kept(m, NXMEM_KEPT_ABANDONED, &bound);
  MUST(nxmem_binding_end(b, 0, &error));
  nx_must_bury(m);
  free(bound.ptr);
  nx_play_strike_lost(&play);
}

/* The addresses of what was lost may be handed out again by the plugin once all is confirmed and removed. */
static void test_addresses_are_free_again(void **state) {
  (void)state;
  set();
  static _Alignas(64) uint8_t block[64];
  puppet.address = block;
  const nxmem_bound lost = nx_must_allocate_bound(b, 64);
  MUST(nxmem_binding_end(b, NXMEM_END_DROP, &error));
  nx_must_bury(m);
  m = nx_play_register(&play);
  b = nx_must_bind(m);
  const nxmem_bound again = nx_must_allocate_bound(b, 64);
  assert_ptr_equal(again.ptr, lost.ptr);
  MUST(nxmem_bound_release(&again, &error));
  MUST(nxmem_binding_end(b, 0, &error));
  nx_must_go(m);
  assert_int_equal(nx_counts(play.host).contract_violations, 0);
  nx_play_strike_lost(&play);
}

/* Many, so that the listing goes over its room. */
static void test_many(void **state) {
  (void)state;
  set();
  enum { MANY = 300 };
  static nxmem_bound all[MANY];
  for (int i = 0; i < MANY; i++) all[i] = nx_must_allocate_bound(b, 64);
  nxmem_loss loss;
  MUST(nxmem_mechanism_lose(m, &loss, &error));
  assert_int_equal(loss.retained, MANY);
  uint64_t seen = 0, total = 0;
  for (;;) {
    nxmem_kept kept[64];
    uint32_t count = 0;
    MUST(nxmem_mechanism_quarantine(m, seen, kept, 64, &count, &total, &error));
    if (count == 0) break;
    for (uint32_t i = 0; i < count; i++) {
      assert_int_equal(kept[i].reason, NXMEM_KEPT_DEVICE_LOST);
      assert_int_equal(kept[i].bytes, 64);
    }
    seen += count;
  }
  assert_int_equal(seen, MANY);
  assert_int_equal(total, MANY);
  MUST(nxmem_binding_end(b, 0, &error));
  nx_must_bury(m);
  for (int i = 0; i < MANY; i++) free(all[i].ptr);
  nx_play_strike_lost(&play);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_add(&suite, "lost: everything is refused, nothing enters", test_everything_is_refused, NULL);
  nx_suite_add(&suite, "terminated: everything is refused, nothing enters", test_everything_is_refused, "confirmed");
  nx_suite_add(&suite, "unload: refused until it is confirmed", test_unload, NULL);
  nx_suite_add(&suite, "unload: succeeds when it is confirmed and removed", test_unloads, NULL);
  nx_suite_add(&suite, "lost: also past the registry", test_past_the_registry, NULL);
  nx_suite_add(&suite, "lost: a device and nothing else", test_lose_device, NULL);
  nx_suite_add(&suite, "lost: earlier reasons stay", test_earlier_reasons_stay, NULL);
  nx_suite_add(&suite, "removed: addresses are free again", test_addresses_are_free_again, NULL);
  nx_suite_add(&suite, "lost: many at once, listed page by page", test_many, NULL);
  return nx_suite_run(&suite, "registry loss");
}
