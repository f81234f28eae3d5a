/*
 * managertest.c: scenes, and books that add up.
 *
 * Attackers: none.
 * Promise: as in the header.
 */
#include "managertest.h"

#include "puppet_backing.h"

static nxmem_error why;
static nxmem_manager reclaiming; /* of the scene: what a plugin asks for goes its holders' way */

#define MUST(call) must((call), #call)
static void must(nxmem_result r, const char *call) {
  if (r != NXMEM_OK) fail_msg("%s: %s: %s", call, nxmem_result_name(r), why.message);
}

static void add_mechanism(nx_scene *s, uint32_t i, int shared) {
  char name[24] = "puppet";
  if (i != 0) (void)snprintf(name, sizeof name, "puppet-%u", (unsigned)i);
  const NxmemDeviceId device = {NXMEM_TIER_HOST, i};
  const nxmem_open_options options = {.mechanism = name, .device = &device};
  if (shared && i != 0) {
    s->authorities[i] = s->authorities[0];
  } else {
    MUST(nxmem_authority_create(s->registry, &s->authorities[i], &why));
    MUST(nxmem_manager_add_authority(s->manager, s->authorities[i], NXMEM_TIER_HOST, NULL, &why));
  }
  puppet.table.device = device;
  MUST(nxmem_mechanism_register(s->context, s->authorities[i], s->plugin, &options, &s->mechanisms[i], &why));
  MUST(nxmem_bind_mechanism(s->mechanisms[i], &s->bindings[i], &why));
}

static nxmem_host host(void) {
  nxmem_host_options options;
  nxmem_host made;
  nxmem_host_options_default(&options);
  options.fetch = NXMEM_FETCH_DIRECT;
  options.reclaim = nxmem_manager_reclaim;
  options.reclaim_ctx = &reclaiming;
  MUST(nxmem_host_create(&options, &made, &why));
  return made;
}

static nx_scene scene_of(uint32_t count, int shared) {
  nx_scene s = {.count = count};
  puppet.written = count;
  puppet.count = count;
  for (uint32_t i = 0; i < count; i++) puppet.factories[i].device = (NxmemDeviceId){NXMEM_TIER_HOST, i};
  s.path = nx_puppet_copy();
  s.host = host();
  s.plugin = nx_must_open(s.host, s.path);
  MUST(nxmem_registry_create(&s.registry, &why));
  MUST(nxmem_context_create(s.registry, &s.context, &why));
  MUST(nxmem_manager_create(&s.manager, &why));
  reclaiming = s.manager;
  for (uint32_t i = 0; i < count; i++) add_mechanism(&s, i, shared);
  return s;
}

nx_scene nx_scene_of(uint32_t count, int shared) {
  nx_puppet_reset();
  return scene_of(count, shared);
}

nx_scene nx_scene_lazy(void) {
  nx_play_reset();
  return scene_of(1, 0);
}

static void end_registry(nx_scene *s) {
  for (uint32_t i = 0; i < s->count; i++) {
    if (i != 0 && s->authorities[i].id == s->authorities[0].id) continue;
    MUST(nxmem_manager_remove_authority(s->manager, s->authorities[i], &why));
    MUST(nxmem_authority_remove(s->authorities[i], &why));
  }
  MUST(nxmem_manager_destroy(s->manager, &why));
  MUST(nxmem_context_remove(s->context, &why));
  MUST(nxmem_registry_destroy(s->registry, &why));
  nxmem_unload_info info;
  if (s->module_stays)
    MUST(nxmem_plugin_destroy(s->plugin, &info, &why));
  else
    nx_must_unload(s->plugin, s->path);
  nx_host_gone(s->host);
}

void nx_scene_end(nx_scene *s) {
  nx_assert_used(s, AXES(0, 0, 0));
  for (uint32_t i = 0; i < s->count; i++) {
    MUST(nxmem_binding_end(s->bindings[i], 0, &why));
    MUST(nxmem_mechanism_retire(s->mechanisms[i], &why));
    MUST(nxmem_mechanism_remove(s->mechanisms[i], NULL, &why));
  }
  assert_int_equal(nx_books_now(s).total.used.charged, 0);
  end_registry(s);
}

static void *volatile of_the_plugin[256]; /* volatile: kept although nobody reads it */

/* What the plugin keeps stays the plugin's for good: found here, it is no leak. */
static void note_kept(nxmem_mechanism mechanism) {
  static uint32_t noted;
  nxmem_kept kept[16];
  uint32_t count = 0;
  MUST(nxmem_mechanism_quarantine(mechanism, 0, kept, 16, &count, NULL, &why));
  for (uint32_t i = 0; i < count && noted < 256; i++) of_the_plugin[noted++] = (void *)(uintptr_t)kept[i].address;
}

void nx_scene_end_lost(nx_scene *s) {
  for (uint32_t i = 0; i < s->count; i++) {
    const nxmem_result lost = nxmem_mechanism_lose(s->mechanisms[i], NULL, &why);
    assert_true(lost == NXMEM_OK || lost == NXMEM_ERR_DEVICE_LOST || lost == NXMEM_ERR_TERMINATED);
    note_kept(s->mechanisms[i]);
    const nxmem_result bound = nxmem_binding_end(s->bindings[i], 0, &why);
    assert_true(bound == NXMEM_OK || bound == NXMEM_ERR_STALE_HANDLE); /* or dropped before */
    if (lost != NXMEM_ERR_TERMINATED) MUST(nxmem_mechanism_confirm_terminated(s->mechanisms[i], &why));
    MUST(nxmem_mechanism_remove(s->mechanisms[i], NULL, &why));
  }
  nx_assert_used(s, AXES(0, 0, 0)); /* what was kept is forgotten with its mechanism */
  puppet.own_report = 1;            /* the plugin drops its books of what it kept */
  puppet.report = (NxmemUnloadReport){.struct_size = sizeof puppet.report};
  end_registry(s);
}

nxmem_request nx_request(const nx_scene *s, uint32_t i, uint64_t charged, uint64_t physical, uint64_t mapped) {
  return (nxmem_request){.authority = s->authorities[i],
                         .binding = s->bindings[i],
                         .bytes = 64,
                         .align = 8,
                         .reserve = {charged, physical, mapped}};
}

nxmem_bound nx_must_grant(const nx_scene *s, const nxmem_request *request, uint64_t *charge_out) {
  nxmem_bound bound = {0};
  MUST(nxmem_manager_allocate(s->manager, request, &bound, charge_out, NULL, &why));
  return bound;
}

void nx_must_give_back(const nxmem_bound *bound) { MUST(nxmem_bound_release(bound, &why)); }

void nx_must_limit(const nx_scene *s, nxmem_axes limit) {
  MUST(nxmem_manager_set_limit(s->manager, NXMEM_TIER_HOST, &limit, NULL, &why));
}

void nx_must_budget(const nx_scene *s, uint32_t i, nxmem_axes budget) {
  MUST(nxmem_manager_set_budget(s->manager, s->authorities[i], &budget, NULL, &why));
}

void nx_assert_axes(nxmem_axes got, nxmem_axes want) {
  assert_int_equal(got.charged, want.charged);
  assert_int_equal(got.physical, want.physical);
  assert_int_equal(got.mapped, want.mapped);
}

static nxmem_axes sum(nxmem_axes a, nxmem_axes b) {
  return AXES(a.charged + b.charged, a.physical + b.physical, a.mapped + b.mapped);
}

static void add_figures(nxmem_figures *total, const nxmem_figures *part) {
  total->used = sum(total->used, part->used);
  total->reserved = sum(total->reserved, part->reserved);
  total->live = sum(total->live, part->live);
  total->quarantined = sum(total->quarantined, part->quarantined);
  total->transactions += part->transactions;
  total->live_count += part->live_count;
  total->quarantined_count += part->quarantined_count;
}

static void assert_figures(const nxmem_figures *got, const nxmem_figures *want) {
  nx_assert_axes(got->used, want->used);
  nx_assert_axes(got->reserved, want->reserved);
  nx_assert_axes(got->live, want->live);
  nx_assert_axes(got->quarantined, want->quarantined);
  nx_assert_axes(got->used, sum(sum(got->reserved, got->live), got->quarantined));
  assert_int_equal(got->transactions, want->transactions);
  assert_int_equal(got->live_count, want->live_count);
  assert_int_equal(got->quarantined_count, want->quarantined_count);
}

static void assert_sums(const nxmem_snapshot *now, const nxmem_mechanism_figures *mechanisms) {
  nxmem_figures all = {0}, of_authorities = {0}, of_tiers = {0};
  for (uint32_t i = 0; i < now->authority_count; i++) {
    nxmem_figures own = {0};
    for (uint32_t m = 0; m < now->mechanism_count; m++)
      if (mechanisms[m].authority.id == now->authorities[i].authority.id) add_figures(&own, &mechanisms[m].figures);
    assert_figures(&now->authorities[i].figures, &own);
    add_figures(&of_authorities, &own);
  }
  for (uint32_t m = 0; m < now->mechanism_count; m++) add_figures(&all, &mechanisms[m].figures);
  for (uint32_t t = 0; t < NXMEM_MANAGER_TIERS; t++) add_figures(&of_tiers, &now->tiers[t].figures);
  assert_figures(&now->total, &all);
  assert_figures(&now->total, &of_authorities);
  assert_figures(&now->total, &of_tiers);
}

nxmem_snapshot nx_books_now(const nx_scene *s) {
  nxmem_mechanism_figures mechanisms[NX_TEST_BOOKS];
  nxmem_snapshot now = {.mechanisms = mechanisms, .mechanism_room = NX_TEST_BOOKS};
  nxmem_error error;
  if (nxmem_manager_snapshot(s->manager, &now, &error) != NXMEM_OK) fail_msg("snapshot: %s", error.message);
  assert_true(now.mechanism_count <= NX_TEST_BOOKS);
  assert_sums(&now, mechanisms);
  assert_int_equal(now.bugs, 0);
  now.mechanisms = NULL;
  return now;
}

void nx_assert_used(const nx_scene *s, nxmem_axes want) { nx_assert_axes(nx_books_now(s).total.used, want); }
