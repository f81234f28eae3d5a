/*
 * mechanisms_test.c: registering, selecting, retiring and removing, one thing at a time.
 *
 * Attackers played: plugins that refuse to open, members of two registries, mechanisms that are removed while they hold something.
 * Promise: what fails leaves nothing; what may not be removed says what it holds; what is removed takes its plugin's allocator with it, once.
 */
#include "registrytest.h"

static nx_play play;
static const nxmem_open_options puppet_options = {.mechanism = "puppet"};

static void test_first_is_selected(void **state) {
  (void)state;
  play = nx_play_set();
  nx_assert_selected(&play, (nxmem_mechanism){0});
  const nxmem_mechanism one = nx_play_register(&play);
  nx_assert_selected(&play, one);
  const nxmem_mechanism two = nx_play_register(&play);
  nx_assert_selected(&play, one);
  MUST(nxmem_mechanism_select(two, &error));
  nx_assert_selected(&play, two);
  MUST(nxmem_mechanism_select(two, &error)); /* again: the same */
  nx_assert_selected(&play, two);
  const nxmem_mechanism_state s = nx_state_of(two);
  assert_int_equal(s.selected, 1);
  assert_int_equal(s.lifecycle, NXMEM_LIFECYCLE_ACTIVE);
  assert_int_equal(s.context.id, play.context.id);
  assert_int_equal(s.authority.id, play.authority.id);
  assert_int_equal(s.registry.id, play.registry.id);
  assert_int_equal(s.parts, 1);
  assert_int_equal(nx_state_of(one).selected, 0);
  nx_must_go(one); /* not selected: the selection stays */
  nx_assert_selected(&play, two);
  nx_must_go(two);
  nx_assert_selected(&play, (nxmem_mechanism){0});
  nx_play_strike(&play);
}

/* Bindings keep theirs; later ones get the other. */
static void test_select_changes_later_binds(void **state) {
  (void)state;
  play = nx_play_set();
  const nxmem_mechanism one = nx_play_register(&play), two = nx_play_register(&play);
  nxmem_binding before = {0}, after = {0};
  nxmem_binding_info info;
  MUST(nxmem_bind(play.registry, nx_device_0, &before, &error));
  MUST(nxmem_mechanism_select(two, &error));
  MUST(nxmem_bind(play.registry, nx_device_0, &after, &error));
  MUST(nxmem_binding_get_info(before, &info, &error));
  assert_int_equal(info.mechanism.id, one.id);
  MUST(nxmem_binding_get_info(after, &info, &error));
  assert_int_equal(info.mechanism.id, two.id);
  assert_int_equal(info.context.id, play.context.id);
  assert_int_equal(info.authority.id, play.authority.id);
  MUST(nxmem_binding_end(before, 0, &error));
  MUST(nxmem_binding_end(after, 0, &error));
  nx_must_go(one);
  nx_must_go(two);
  nx_play_strike(&play);
}

/* A second device of the same plugin has a selection, and losses, of its own. */
static void test_devices(void **state) {
  (void)state;
  play = nx_play_set_two();
  const nxmem_mechanism zero = nx_play_register(&play);
  nxmem_binding b = {0};
  nxmem_mechanism one = {0}, selected = {0};
  REFUSED(nxmem_bind(play.registry, nx_device_1, &b, &error), NXMEM_ERR_UNKNOWN_MECHANISM);
  puppet.table.device = nx_device_1;
  const nxmem_open_options options = {.mechanism = "puppet-1"};
  MUST(nxmem_mechanism_register(play.context, play.authority, play.plugin, &options, &one, &error));
  MUST(nxmem_registry_selected(play.registry, nx_device_1, &selected, &error));
  assert_int_equal(selected.id, one.id);
  nx_assert_selected(&play, zero);
  nxmem_loss loss;
  MUST(nxmem_registry_lose_device(play.registry, nx_device_1, &loss, &error));
  assert_int_equal(loss.mechanisms, 1);
  assert_int_equal(nx_state_of(zero).lifecycle, NXMEM_LIFECYCLE_ACTIVE);
  assert_int_equal(nx_state_of(one).device.index, 1);
  REFUSED(nxmem_registry_selected(play.registry, nx_device_1, &selected, &error), NXMEM_ERR_UNKNOWN_MECHANISM);
  nx_assert_selected(&play, zero);
  nx_must_bury(one);
  nx_must_go(zero);
  nx_play_strike(&play);
}

static void test_refused_open(void **state) {
  (void)state;
  play = nx_play_set();
  nxmem_mechanism m = {0x5A};
  puppet.open_answer = nx_puppet_status(NXMEM_STATUS_OUT_OF_MEMORY);
  REFUSED(nxmem_mechanism_register(play.context, play.authority, play.plugin, &puppet_options, &m, &error),
          NXMEM_ERR_PLUGIN);
  puppet.open_answer = nx_puppet_status(NXMEM_STATUS_OK);
  const nxmem_open_options other = {.mechanism = "no such"};
  REFUSED(nxmem_mechanism_register(play.context, play.authority, play.plugin, &other, &m, &error),
          NXMEM_ERR_UNKNOWN_MECHANISM);
  assert_int_equal(m.id, 0x5A);
  uint64_t pins = 9;
  MUST(nxmem_context_pins(play.context, &pins, &error));
  assert_int_equal(pins, 0);
  MUST(nxmem_authority_pins(play.authority, &pins, &error));
  assert_int_equal(pins, 0);
  nx_assert_selected(&play, (nxmem_mechanism){0});
  atomic_store(&puppet.calls[NX_IN_OPEN], 0);
  nx_play_strike(&play);
}

static void test_two_registries(void **state) {
  (void)state;
  play = nx_play_set();
  nxmem_registry other = {0};
  nxmem_authority foreign = {0};
  nxmem_mechanism m = {0};
  MUST(nxmem_registry_create(&other, &error));
  MUST(nxmem_authority_create(other, &foreign, &error));
  REFUSED(nxmem_mechanism_register(play.context, foreign, play.plugin, &puppet_options, &m, &error),
          NXMEM_ERR_WRONG_OWNER);
  assert_int_equal(nx_puppet_calls(NX_IN_OPEN), 0);
  MUST(nxmem_authority_remove(foreign, &error));
  MUST(nxmem_registry_destroy(other, &error));
  nx_play_strike(&play);
}

/* ---- Removal ----------------------------------------------------------------------------------------------------- */

static void refuse_removal(nxmem_mechanism m, uint32_t reason, uint32_t field, uint64_t found) {
  const uint64_t entries = nx_entries();
  nxmem_holdings why = {0};
  nxmem_error said = nx_blank_error();
  nx_assert_code(nxmem_mechanism_remove(m, &why, &said), &said, NXMEM_ERR_BUSY);
  assert_int_equal(said.reason, reason);
  assert_int_equal(said.field, field);
  assert_int_equal(said.found, found);
  assert_int_equal(nx_entries(), entries);
  const uint64_t counts[] = {0, why.calls_inside, why.live, why.prepared, why.quarantined, why.bindings};
  if (reason == NXMEM_REASON_STILL_HELD) assert_int_equal(counts[field], found);
}

static void test_removal_says_why(void **state) {
  (void)state;
  play = nx_play_set();
  const nxmem_mechanism m = nx_play_register(&play);
  refuse_removal(m, NXMEM_REASON_NOT_ENDED, 0, NXMEM_LIFECYCLE_ACTIVE);
  const nxmem_binding b = nx_must_bind(m);
  nxmem_bound first = nx_must_allocate_bound(b, 64), second = nx_must_allocate_bound(b, 64);
  MUST(nxmem_mechanism_retire(m, &error));
  refuse_removal(m, NXMEM_REASON_STILL_HELD, NXMEM_HOLDING_LIVE, 2);
  MUST(nxmem_bound_release(&first, &error));
  refuse_removal(m, NXMEM_REASON_STILL_HELD, NXMEM_HOLDING_LIVE, 1);
  nxmem_prepared p = nx_must_prepare(&second);
  refuse_removal(m, NXMEM_REASON_STILL_HELD, NXMEM_HOLDING_PREPARED, 1);
  MUST(nxmem_prepared_execute(p, &error));
  refuse_removal(m, NXMEM_REASON_STILL_HELD, NXMEM_HOLDING_BINDINGS, 1);
  MUST(nxmem_binding_end(b, 0, &error));
  MUST(nxmem_mechanism_remove(m, NULL, &error));
  REFUSED(nxmem_mechanism_remove(m, NULL, &error), NXMEM_ERR_STALE_HANDLE);
  nx_play_strike(&play);
}

/* What is quarantined stays in the way of removal until the device is gone for sure. */
static void test_quarantine_blocks(void **state) {
  (void)state;
  play = nx_play_set();
  const nxmem_mechanism m = nx_play_register(&play);
  const nxmem_binding b = nx_must_bind(m);
  const nxmem_bound bound = nx_must_allocate_bound(b, 64);
  MUST(nxmem_prepared_abandon(nx_must_prepare(&bound), &error));
  MUST(nxmem_binding_end(b, 0, &error));
  MUST(nxmem_mechanism_retire(m, &error));
  refuse_removal(m, NXMEM_REASON_STILL_HELD, NXMEM_HOLDING_QUARANTINED, 1);
  MUST(nxmem_mechanism_lose(m, NULL, &error));
  refuse_removal(m, NXMEM_REASON_NOT_ENDED, 0, NXMEM_LIFECYCLE_DEVICE_LOST);
  MUST(nxmem_mechanism_confirm_terminated(m, &error));
  MUST(nxmem_mechanism_remove(m, NULL, &error));
  free(bound.ptr);
  nx_play_strike_lost(&play);
}

/* From inside the plugin's slots: a call that is inside is in the way. */
static nxmem_mechanism inside_of;
static int refused_inside;

static void remove_from_inside(nx_place_inside place) {
  if (place != NX_IN_ALLOCATE) return;
  puppet.inside = NULL;
  MUST(nxmem_mechanism_retire(inside_of, &error));
  refuse_removal(inside_of, NXMEM_REASON_STILL_HELD, NXMEM_HOLDING_CALLS_INSIDE, 1);
  refused_inside = 1;
}

static void test_removed_from_inside(void **state) {
  (void)state;
  play = nx_play_set();
  inside_of = nx_play_register(&play);
  refused_inside = 0;
  const nxmem_binding b = nx_must_bind(inside_of);
  puppet.inside = remove_from_inside;
  const nxmem_bound bound = nx_must_allocate_bound(b, 64); /* retired while it was asked: it was let in before */
  assert_true(refused_inside);
  MUST(nxmem_bound_release(&bound, &error));
  nxmem_bound none = {{0}, 0, NULL, 0, 0};
  REFUSED(nxmem_bound_allocate(b, 64, 16, NULL, &none, &error), NXMEM_ERR_RETIRED);
  MUST(nxmem_binding_end(b, 0, &error));
  nx_must_go(inside_of);
  nx_play_strike(&play);
}

/* ---- Retirement -------------------------------------------------------------------------------------------------- */

static void test_retired(void **state) {
  (void)state;
  play = nx_play_set();
  const nxmem_mechanism m = nx_play_register(&play);
  const nxmem_binding b = nx_must_bind(m);
  const nxmem_bound bound = nx_must_allocate_bound(b, 64);
  MUST(nxmem_mechanism_retire(m, &error));
  nx_assert_selected(&play, (nxmem_mechanism){0});
  nxmem_binding none = {0};
  nxmem_bound nothing = {{0}, 0, NULL, 0, 0};
  const uint64_t entries = nx_entries();
  REFUSED(nxmem_mechanism_retire(m, &error), NXMEM_ERR_RETIRED);
  REFUSED(nxmem_mechanism_select(m, &error), NXMEM_ERR_RETIRED);
  REFUSED(nxmem_bind_mechanism(m, &none, &error), NXMEM_ERR_RETIRED);
  REFUSED(nxmem_bind(play.registry, nx_device_0, &none, &error), NXMEM_ERR_UNKNOWN_MECHANISM);
  REFUSED(nxmem_bound_allocate(b, 64, 16, NULL, &nothing, &error), NXMEM_ERR_RETIRED);
  REFUSED(nxmem_bound_commit(&bound, (NxmemByteRange){0, 64}, &error), NXMEM_ERR_RETIRED);
  REFUSED(nxmem_mechanism_confirm_terminated(m, &error), NXMEM_ERR_INVALID_ARGUMENT);
  assert_int_equal(nx_entries(), entries);
  MUST(nxmem_bound_release(&bound, &error)); /* old ones may go */
  const nxmem_mechanism heals = nx_play_register(&play);
  nx_assert_selected(&play, heals);
  MUST(nxmem_binding_end(b, 0, &error));
  nx_must_go(m);
  nx_assert_selected(&play, heals);
  nx_must_go(heals);
  nx_play_strike(&play);
}

/* ---- Composites -------------------------------------------------------------------------------------------------- */

static void test_composite(void **state) {
  (void)state;
  play = nx_play_set();
  nxmem_mechanism m = {0};
  const nxmem_part parts[] = {{play.plugin, &puppet_options}, {play.plugin, &puppet_options}};
  REFUSED(nxmem_mechanism_register_composite_trusted(play.context, play.authority, parts, 1, &m, &error),
          NXMEM_ERR_INVALID_ARGUMENT);
  REFUSED(nxmem_mechanism_register_composite_trusted(play.context, play.authority, parts, 5, &m, &error),
          NXMEM_ERR_INVALID_ARGUMENT);
  MUST(nxmem_mechanism_register_composite_trusted(play.context, play.authority, parts, 2, &m, &error));
  assert_int_equal(nx_state_of(m).parts, 2);
  assert_int_equal(nx_puppet_calls(NX_IN_OPEN), 2);
  const nxmem_binding b = nx_must_bind(m);
  const nxmem_bound bound = nx_must_allocate_bound(b, 64);
  assert_int_equal(nx_puppet_calls(NX_IN_ALLOCATE), 1);
  puppet.allocate_code = NXMEM_STATUS_OUT_OF_MEMORY;
  nxmem_bound none = {{0}, 0, NULL, 0, 0};
  REFUSED(nxmem_bound_allocate(b, 64, 16, NULL, &none, &error), NXMEM_ERR_PLUGIN);
  assert_int_equal(nx_puppet_calls(NX_IN_ALLOCATE), 3); /* each part was asked */
  puppet.allocate_code = NXMEM_STATUS_OK;
  MUST(nxmem_bound_release(&bound, &error));
  MUST(nxmem_binding_end(b, 0, &error));
  nx_must_go(m);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE), 2);
  nx_play_strike(&play);
}

/* The first part refuses; what the second gave goes back to the second, also when it is lost. */
static int refusals;
static void refuse_first(nx_place_inside place) {
  if (place != NX_IN_ALLOCATE) return;
  puppet.allocate_code = refusals++ == 0 ? NXMEM_STATUS_OUT_OF_MEMORY : NXMEM_STATUS_OK;
}

static void test_composite_second(void **state) {
  const int lost = *state != NULL;
  play = nx_play_set();
  nxmem_mechanism m = {0};
  const nxmem_part parts[] = {{play.plugin, &puppet_options}, {play.plugin, &puppet_options}};
  MUST(nxmem_mechanism_register_composite_trusted(play.context, play.authority, parts, 2, &m, &error));
  const nxmem_binding b = nx_must_bind(m);
  refusals = 0;
  puppet.inside = refuse_first;
  const nxmem_bound bound = nx_must_allocate_bound(b, 64);
  puppet.inside = NULL;
  assert_int_equal(refusals, 2);
  if (lost) {
    nxmem_loss loss;
    MUST(nxmem_mechanism_lose(m, &loss, &error));
    assert_int_equal(loss.retained, 1);
    nx_assert_kept(m, NXMEM_KEPT_DEVICE_LOST, &bound);
    free(bound.ptr);
    MUST(nxmem_binding_end(b, 0, &error));
    nx_must_bury(m);
    nx_play_strike_lost(&play);
    return;
  }
  MUST(nxmem_bound_release(&bound, &error));
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION), 1);
  MUST(nxmem_binding_end(b, 0, &error));
  nx_must_go(m);
  nx_play_strike(&play);
}

static void test_composite_fails_whole(void **state) {
  (void)state;
  play = nx_play_set();
  nxmem_mechanism m = {0x5A};
  const nxmem_open_options other = {.mechanism = "no such"};
  const nxmem_part parts[] = {{play.plugin, &puppet_options}, {play.plugin, &other}};
  REFUSED(nxmem_mechanism_register_composite_trusted(play.context, play.authority, parts, 2, &m, &error),
          NXMEM_ERR_UNKNOWN_MECHANISM);
  assert_int_equal(m.id, 0x5A);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE), 1); /* the first was closed again */
  nx_play_strike(&play);
}

static void open_on_the_other(nx_place_inside place) {
  if (place == NX_IN_OPEN && nx_puppet_calls(NX_IN_OPEN) == 2) puppet.table.device = nx_device_1;
}

static void test_composite_of_two_devices(void **state) {
  (void)state;
  play = nx_play_set_two();
  nxmem_mechanism m = {0x5A};
  const nxmem_open_options other = {.mechanism = "puppet-1"};
  const nxmem_part parts[] = {{play.plugin, &puppet_options}, {play.plugin, &other}};
  puppet.inside = open_on_the_other;
  REFUSED(nxmem_mechanism_register_composite_trusted(play.context, play.authority, parts, 2, &m, &error),
          NXMEM_ERR_INVALID_ARGUMENT);
  puppet.inside = NULL;
  assert_int_equal(m.id, 0x5A);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE), 2);
  nx_play_strike(&play);
}

static void test_listing(void **state) {
  (void)state;
  play = nx_play_set();
  nxmem_mechanism ms[3], got[4];
  for (int i = 0; i < 3; i++) ms[i] = nx_play_register(&play);
  MUST(nxmem_mechanism_retire(ms[1], &error));
  uint32_t count = 0;
  uint64_t total = 0;
  MUST(nxmem_registry_mechanisms(play.registry, 0, got, 4, &count, &total, &error));
  assert_int_equal(count, 3);
  assert_int_equal(total, 3);
  MUST(nxmem_registry_mechanisms(play.registry, 2, got, 4, &count, &total, &error));
  assert_int_equal(count, 1);
  nxmem_registry_counts counts;
  MUST(nxmem_registry_count(play.registry, &counts, &error));
  assert_int_equal(counts.mechanisms[NXMEM_LIFECYCLE_ACTIVE], 2);
  assert_int_equal(counts.mechanisms[NXMEM_LIFECYCLE_RETIRED], 1);
  for (int i = 0; i < 3; i++) nx_must_go(ms[i]);
  nx_play_strike(&play);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_add(&suite, "select: the first one registered is selected", test_first_is_selected, NULL);
  nx_suite_add(&suite, "select: changes later binds only", test_select_changes_later_binds, NULL);
  nx_suite_add(&suite, "select: each device has its own", test_devices, NULL);
  nx_suite_add(&suite, "register: the plugin refuses", test_refused_open, NULL);
  nx_suite_add(&suite, "register: members of two registries", test_two_registries, NULL);
  nx_suite_add(&suite, "remove: says what is in the way", test_removal_says_why, NULL);
  nx_suite_add(&suite, "remove: quarantine blocks until it is confirmed", test_quarantine_blocks, NULL);
  nx_suite_add(&suite, "remove: a call is inside", test_removed_from_inside, NULL);
  nx_suite_add(&suite, "retire: nothing new, old ones may go", test_retired, NULL);
  nx_suite_add(&suite, "composite: parts are asked in order", test_composite, NULL);
  nx_suite_add(&suite, "composite: an allocation goes back to its part", test_composite_second, NULL);
  nx_suite_add(&suite, "composite: all parts are lost together", test_composite_second, "lost");
  nx_suite_add(&suite, "composite: fails as a whole", test_composite_fails_whole, NULL);
  nx_suite_add(&suite, "composite: parts of two devices", test_composite_of_two_devices, NULL);
  nx_suite_add(&suite, "list: all of a registry", test_listing, NULL);
  return nx_suite_run(&suite, "registry mechanisms");
}
