/*
 * registrytest.c: the stage of the registry's tests.
 *
 * Attackers: none.
 * Promise: a helper fails the running case where a step does not succeed.
 */
#include "registrytest.h"

const NxmemDeviceId nx_device_0 = {NXMEM_TIER_HOST, 0};

const NxmemDeviceId nx_device_1 = {NXMEM_TIER_HOST, 1};

static nx_play load(void) {
  nx_play play = {.path = nx_puppet_copy()};
  play.host = nx_host_in(NXMEM_FETCH_GUARDED);
  play.plugin = nx_must_open(play.host, play.path);
  MUST(nxmem_registry_create(&play.registry, &error));
  MUST(nxmem_context_create(play.registry, &play.context, &error));
  MUST(nxmem_authority_create(play.registry, &play.authority, &error));
  return play;
}

nx_play nx_play_set(void) {
  nx_puppet_reset();
  return load();
}

nx_play nx_play_set_two(void) {
  nx_puppet_reset();
  puppet.factories[1].device = nx_device_1;
  puppet.written = 2;
  puppet.count = 2;
  return load();
}

void nx_play_strike(nx_play *play) {
  uint64_t pins = 1;
  MUST(nxmem_context_pins(play->context, &pins, &error));
  assert_int_equal(pins, 0);
  MUST(nxmem_authority_remove(play->authority, &error));
  MUST(nxmem_context_remove(play->context, &error));
  MUST(nxmem_registry_destroy(play->registry, &error));
  nx_must_unload(play->plugin, play->path);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE), nx_puppet_calls(NX_IN_OPEN));
  assert_int_equal(nx_puppet_factory_releases(), puppet.written);
  assert_int_equal(atomic_load(&puppet.foreign_contexts), 0);
  assert_int_equal(atomic_load(&puppet.after_the_end), 0);
  nx_host_gone(play->host);
}

void nx_play_strike_lost(nx_play *play) {
  atomic_store(&puppet.live_allocations, 0);
  nx_play_strike(play);
}

nxmem_mechanism nx_play_register(const nx_play *play) {
  const nxmem_open_options options = {.mechanism = "puppet"};
  nxmem_mechanism m = {0};
  MUST(nxmem_mechanism_register(play->context, play->authority, play->plugin, &options, &m, &error));
  assert_int_not_equal(m.id, 0);
  return m;
}

nxmem_binding nx_must_bind(nxmem_mechanism mechanism) {
  nxmem_binding binding = {0};
  MUST(nxmem_bind_mechanism(mechanism, &binding, &error));
  assert_int_not_equal(binding.id, 0);
  return binding;
}

nxmem_bound nx_must_allocate_bound(nxmem_binding binding, uint64_t bytes) {
  nxmem_bound bound = {{0}, 0, NULL, 0, 0};
  MUST(nxmem_bound_allocate(binding, bytes, 16, NULL, &bound, &error));
  assert_non_null(bound.ptr);
  assert_int_not_equal(bound.id, 0);
  assert_int_equal(bound.binding.id, binding.id);
  return bound;
}

nxmem_prepared nx_must_prepare(const nxmem_bound *bound) {
  nxmem_prepared prepared = {0};
  MUST(nxmem_bound_prepare(bound, &prepared, &error));
  assert_int_not_equal(prepared.id, 0);
  return prepared;
}

nxmem_mechanism_state nx_state_of(nxmem_mechanism mechanism) {
  nxmem_mechanism_state state;
  MUST(nxmem_mechanism_get_state(mechanism, &state, &error));
  return state;
}

nxmem_mechanism nx_selected(const nx_play *play) {
  nxmem_mechanism m = {0};
  const nxmem_result r = nxmem_registry_selected(play->registry, nx_device_0, &m, NULL);
  if (r != NXMEM_OK) assert_int_equal(r, NXMEM_ERR_UNKNOWN_MECHANISM);
  return m;
}

void nx_assert_selected(const nx_play *play, nxmem_mechanism want) { assert_int_equal(nx_selected(play).id, want.id); }

nxmem_kept nx_assert_kept(nxmem_mechanism mechanism, nxmem_keeping reason, const nxmem_bound *bound) {
  nxmem_kept kept[2];
  uint32_t count = 0;
  uint64_t total = 0;
  MUST(nxmem_mechanism_quarantine(mechanism, 0, kept, 2, &count, &total, &error));
  assert_int_equal(count, 1);
  assert_int_equal(total, 1);
  if (kept[0].reason != reason)
    fail_msg("kept as %s, not as %s", nxmem_keeping_name(kept[0].reason), nxmem_keeping_name(reason));
  assert_int_equal(kept[0].mechanism.id, mechanism.id);
  assert_int_equal(kept[0].id, bound->id);
  assert_int_equal(kept[0].address, (uintptr_t)bound->ptr);
  assert_int_equal(kept[0].bytes, bound->bytes);
  assert_int_equal(kept[0].binding.id, bound->binding.id);
  return kept[0];
}

void nx_must_go(nxmem_mechanism mechanism) {
  if (nx_state_of(mechanism).lifecycle == NXMEM_LIFECYCLE_ACTIVE) MUST(nxmem_mechanism_retire(mechanism, &error));
  MUST(nxmem_mechanism_remove(mechanism, NULL, &error));
}

void nx_must_bury(nxmem_mechanism mechanism) {
  if (nx_state_of(mechanism).lifecycle < NXMEM_LIFECYCLE_DEVICE_LOST)
    MUST(nxmem_mechanism_lose(mechanism, NULL, &error));
  if (nx_state_of(mechanism).lifecycle < NXMEM_LIFECYCLE_TERMINATED)
    MUST(nxmem_mechanism_confirm_terminated(mechanism, &error));
  MUST(nxmem_mechanism_remove(mechanism, NULL, &error));
}

void nx_put_away(nxmem_mechanism m) {
  if (nx_state_of(m).lifecycle >= NXMEM_LIFECYCLE_DEVICE_LOST)
    nx_must_bury(m);
  else
    nx_must_go(m);
}

uint64_t nx_entries(void) {
  uint64_t n = 0;
  for (int place = 0; place < NX_PLACES_INSIDE; place++)
    if (place != NX_IN_QUERY) n += nx_puppet_calls((nx_place_inside)place);
  return n;
}
