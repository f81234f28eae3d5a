/*
 * identity_test.c: the library that the loader answers with is the file that was checked, and no other.
 *
 * Attackers played: files replaced under their names, links that point elsewhere, a SONAME that is another file's path, paths that the loader rewrites.
 * Promise: never one file's checks with another file's code; what was loaded before is not harmed; once it is gone the new one loads.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>

#include "mapping.h"
#include "staging.h"

static nxmem_host host;

/* Where mappings tell nothing (no /proc), the names that the host's own modules hold must do. */
static int blind;

int __real_nx_mapping_may_be(const void *address, const char *name, const nx_file_identity *file);
int __wrap_nx_mapping_may_be(const void *address, const char *name, const nx_file_identity *file);

int __wrap_nx_mapping_may_be(const void *address, const char *name, const nx_file_identity *file) {
  return blind ? 1 : __real_nx_mapping_may_be(address, name, file);
}

/* What the loader has under a path is told by the mechanism it publishes. */
static void assert_publishes(nxmem_plugin plugin, const char *mechanism) {
  nxmem_mechanism_info info;
  assert_int_equal(nxmem_plugin_mechanism(plugin, 0, &info, NULL), NXMEM_OK);
  assert_string_equal(info.name, mechanism);
}

static void assert_works(nxmem_plugin plugin, const char *mechanism) {
  assert_publishes(plugin, mechanism);
  nxmem_allocator allocator = nx_must_open_mechanism(plugin, mechanism);
  nx_must_release(allocator, nx_must_allocate(allocator, 64, 8));
  nx_must_close(allocator);
}

static uint64_t references(nxmem_plugin plugin) {
  nxmem_plugin_info info;
  assert_int_equal(nxmem_plugin_get_info(plugin, &info, NULL), NXMEM_OK);
  return info.references;
}

static void assert_cannot_open(const char *path) {
  const size_t fds = nx_open_fds();
  const nxmem_host_counts before = nx_counts(host);
  nxmem_plugin none = {0x5A5A};
  nxmem_error error = nx_blank_error();
  nx_assert_code(nxmem_plugin_open(host, path, &none, &error), &error, NXMEM_ERR_CANNOT_OPEN);
  assert_non_null(strstr(error.message, "; unload that first, or "));
  assert_int_equal(none.id, 0x5A5A);
  assert_int_equal(nx_open_fds(), fds);
  assert_int_equal(nx_counts(host).open_plugins, before.open_plugins);
  assert_int_equal(nx_counts(host).forced_leaks, before.forced_leaks);
}

/* ---- Another file under the same name ------------------------------------------------------------------------------- */

static void rename_over(const char *path) {
  const char *fresh = nx_plugin_copy("libnxmem_minimal.so");
  assert_int_equal(rename(fresh, path), 0);
}
static void remove_and_make(const char *path) {
  assert_int_equal(unlink(path), 0);
  rename_over(path);
}
static void point_elsewhere(const char *path) {
  assert_int_equal(unlink(path), 0);
  assert_int_equal(symlink(nx_plugin_copy("libnxmem_minimal.so"), path), 0);
}

static const char *plain_file(void) { return nx_puppet_copy(); }
static const char *link_to_file(void) {
  const char *path = nx_fresh_path("link.so");
  assert_int_equal(symlink(nx_puppet_copy(), path), 0);
  return path;
}

typedef struct replace_row {
  const char *name;
  nx_modes modes;
  const char *(*make)(void);
  void (*replace)(const char *path);
} replace_row;

static const replace_row replace_rows[] = {
    {"replaced by another file", 0, plain_file, rename_over},
    {"removed and made anew", 0, plain_file, remove_and_make},
    {"a link that points elsewhere", 0, link_to_file, point_elsewhere},
    {"a file that became a link", 0, plain_file, point_elsewhere},
};

static void begin(nxmem_fetch_mode mode) {
  nx_puppet_reset();
  blind = 0;
  host = nx_host_in(mode);
}

static nxmem_plugin open_unchecked(const char *path) { /* a link is not what /proc/self/maps names */
  nxmem_plugin plugin = {0};
  nxmem_error error = nx_blank_error();
  if (nxmem_plugin_open(host, path, &plugin, &error) != NXMEM_OK) fail_msg("%s", error.message);
  return plugin;
}

static void must_unmap(nxmem_plugin plugin) {
  nxmem_unload_info info;
  assert_int_equal(nxmem_plugin_try_unload(plugin, &info, NULL), NXMEM_OK);
  assert_int_equal(info.unmapped, 1);
}

static void replaced(const nx_case *c, int seeing_nothing) {
  const replace_row *row = c->row;
  begin(c->mode);
  blind = seeing_nothing;
  const char *path = row->make();
  nxmem_plugin earlier = open_unchecked(path);
  row->replace(path);
  for (int i = 0; i < 3; i++) assert_cannot_open(path);
  assert_works(earlier, "puppet");
  assert_int_equal(references(earlier), 1);
  must_unmap(earlier);
  nxmem_plugin later = open_unchecked(path);
  assert_works(later, "minimal");
  must_unmap(later);
  nx_host_gone(host);
}

static void test_replaced(void **state) { replaced(*state, 0); }
static void test_replaced_blind(void **state) { replaced(*state, 1); }

/* The earlier file is just being unloaded: BUSY, then the new one. */
static void test_replaced_in_transit(void **state) {
  const nx_case *c = *state;
  begin(c->mode);
  nx_stage stage = {.host = host, .path = nx_puppet_copy()};
  stage.plugin = nx_must_open(host, stage.path);
  nx_call call = {.run = nx_call_unload, .stage = &stage};
  nx_hold_at(NX_IN_QUERY);
  nx_call_start(&call);
  nx_hold_wait();
  rename_over(stage.path);
  nxmem_plugin later = {0};
  nxmem_error error = nx_blank_error();
  blind = 1;
  nx_assert_code(nxmem_plugin_open(host, stage.path, &later, &error), &error, NXMEM_ERR_BUSY);
  blind = 0;
  assert_cannot_open(stage.path);
  nx_hold_let_go();
  assert_int_equal(nx_call_join(&call), NXMEM_OK);
  later = nx_must_open(host, stage.path);
  assert_works(later, "minimal");
  nx_must_unload(later, stage.path);
  nx_host_gone(host);
}

/* Another host of the process has the earlier file: it is the same loader. */
static void test_replaced_elsewhere(void **state) {
  const nx_case *c = *state;
  begin(c->mode);
  nxmem_host other = nx_host_in(c->mode);
  const char *path = nx_puppet_copy();
  nxmem_plugin earlier = nx_must_open(other, path);
  rename_over(path);
  assert_cannot_open(path);
  assert_works(earlier, "puppet");
  must_unmap(earlier);
  nxmem_plugin later = nx_must_open(host, path);
  assert_works(later, "minimal");
  nx_must_unload(later, path);
  nx_host_gone(other);
  nx_host_gone(host);
}

/* The earlier file cannot go: given up, or refused and left behind. It is never taken for the new one. */
static void replace_what_stays(int refused, int seeing_nothing) {
  const char *path = nx_puppet_copy();
  puppet.query_code = NXMEM_STATUS_BUSY;
  if (refused) {
    nxmem_plugin none;
    puppet.create_code = NXMEM_STATUS_DEVICE_ERROR;
    assert_int_equal(nxmem_plugin_open(host, path, &none, NULL), NXMEM_ERR_PLUGIN);
  } else {
    nx_force_leak(host, nx_must_open(host, path), path);
  }
  rename_over(path);
  blind = seeing_nothing;
  const uint64_t negotiated = nx_puppet_calls(NX_IN_NEGOTIATE);
  for (int i = 0; i < 2; i++) assert_cannot_open(path);
  assert_int_equal(nx_puppet_calls(NX_IN_NEGOTIATE), negotiated);
  nx_host_gone(host);
}

static void test_replaced_given_up(void **state) {
  for (int i = 0; i < 2; i++) {
    begin(((const nx_case *)*state)->mode);
    replace_what_stays(0, i);
  }
}
static void test_replaced_refused(void **state) {
  for (int i = 0; i < 2; i++) {
    begin(((const nx_case *)*state)->mode);
    replace_what_stays(1, i);
  }
}

/* One file under two names is one module; what one name becomes is no matter of the other. */
static void test_hard_link(void **state) {
  const nx_case *c = *state;
  begin(c->mode);
  const char *path = nx_puppet_copy(), *second = nx_fresh_path("second.so");
  assert_int_equal(link(path, second), 0);
  nxmem_plugin one = nx_must_open(host, path), two = open_unchecked(second);
  assert_int_equal(references(one), 2);
  assert_int_equal(nx_puppet_calls(NX_IN_NEGOTIATE), 1);
  rename_over(second);
  nxmem_plugin three = nx_must_open(host, second); /* the loader knows the image by its first name only */
  assert_works(three, "minimal");
  nx_must_unload(three, second);
  assert_int_equal(nxmem_plugin_try_unload(two, NULL, NULL), NXMEM_OK);
  nx_must_unload(one, path);
  nx_host_gone(host);
}

/* ---- A SONAME that is another file's path --------------------------------------------------------------------------- */

/* A puppet that says it is called `victim`. */
static const char *hijacker_of(const char *victim) {
  static const char room[] = "nxmem-soname-here";
  const char *path = nx_plugin_copy("libnxmem_test_hijacker.so");
  size_t size = 0;
  uint8_t *bytes = nx_file_bytes(path, &size);
  uint8_t *at = memmem(bytes, size, room, sizeof room - 1);
  assert_non_null(at);
  assert_true(strlen(victim) < strlen((const char *)at));
  memcpy(at, victim, strlen(victim) + 1);
  const char *hijacker = nx_file_of(bytes, size);
  free(bytes);
  return hijacker;
}

static void test_hijack(void **state) {
  const nx_case *c = *state;
  begin(c->mode);
  (void)nx_puppet_copy(); /* the hijacker is played, too */
  const char *victim = nx_plugin_copy("libnxmem_minimal.so"), *path = hijacker_of(victim);
  nxmem_plugin hijacker = nx_must_open(host, path);
  assert_works(hijacker, "puppet");
  for (int i = 0; i < 2; i++) assert_cannot_open(victim);
  assert_false(nx_is_mapped(victim));
  assert_works(hijacker, "puppet");
  assert_int_equal(references(hijacker), 1);
  nx_must_unload(hijacker, path);
  nxmem_plugin honest = nx_must_open(host, victim);
  assert_works(honest, "minimal");
  nx_must_unload(honest, victim);
  nx_host_gone(host);
}

/* The other way round the victim was first, and keeps its name. */
static void test_hijack_late(void **state) {
  const nx_case *c = *state;
  begin(c->mode);
  (void)nx_puppet_copy();
  const char *victim = nx_plugin_copy("libnxmem_minimal.so"), *path = hijacker_of(victim);
  nxmem_plugin honest = nx_must_open(host, victim), hijacker = nx_must_open(host, path);
  nxmem_plugin again = nx_must_open(host, victim);
  assert_works(again, "minimal");
  assert_works(hijacker, "puppet");
  assert_int_equal(references(honest), 2);
  assert_int_equal(nxmem_plugin_try_unload(again, NULL, NULL), NXMEM_OK);
  nx_must_unload(honest, victim);
  nx_must_unload(hijacker, path);
  nx_host_gone(host);
}

/* ---- Files that the program itself has loaded ------------------------------------------------------------------------ */

static void *load_ourselves(const char *path) {
  void *held = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (held == NULL) fail_msg("%s", dlerror());
  return held;
}

static void move_away(const char *path) {
  assert_int_equal(rename(path, nx_fresh_path("moved.so")), 0);
  rename_over(path);
}
/* What the kernel now calls the earlier file leads to the new one. */
static void forge_deleted(const char *path) {
  rename_over(path);
  assert_int_equal(link(path, nx_name("%s (deleted)", path)), 0);
}

/* No host has it, but the loader does. */
static const replace_row own_rows[] = {
    {"our own file: replaced by another file", 0, plain_file, rename_over},
    {"our own file: removed and made anew", 0, plain_file, remove_and_make},
    {"our own file: a link that points elsewhere", 0, link_to_file, point_elsewhere},
    {"our own file: moved away", 0, plain_file, move_away},
    {"our own file: replaced, and the kernel's name for it forged", 0, plain_file, forge_deleted},
};

static void test_own(void **state) {
  const nx_case *c = *state;
  const replace_row *row = c->row;
  begin(c->mode);
  const char *path = row->make();
  void *held = load_ourselves(path);
  row->replace(path);
  for (int i = 0; i < 2; i++) assert_cannot_open(path);
  assert_int_equal(nx_puppet_calls(NX_IN_NEGOTIATE), 0);
  dlclose(held);
  nxmem_plugin later = open_unchecked(path);
  assert_works(later, "minimal");
  must_unmap(later);
  nx_host_gone(host);
}

/* By the mapping or by the name it was loaded under: either tells. */
static void test_own_hijacker(void **state) {
  const nx_case *c = *state;
  begin(c->mode);
  (void)nx_puppet_copy();
  const char *victim = nx_plugin_copy("libnxmem_minimal.so"), *path = hijacker_of(victim);
  void *held = load_ourselves(path);
  for (blind = 0; blind < 2; blind++) assert_cannot_open(victim);
  blind = 0;
  assert_false(nx_is_mapped(victim));
  dlclose(held);
  nxmem_plugin honest = nx_must_open(host, victim);
  assert_works(honest, "minimal");
  nx_must_unload(honest, victim);
  nx_host_gone(host);
}

/* Loaded by the program and not replaced, whatever its name: the very same file, and welcome. */
static const char *const odd_names[] = {"a b.so", "two\nlines.so", "x (deleted)", "\\012.so", " .so"};

static void test_own_and_same(void **state) {
  const nx_case *c = *state;
  begin(c->mode);
  for (size_t i = 0; i < sizeof odd_names / sizeof odd_names[0]; i++) {
    const char *path = nx_fresh_path(odd_names[i]);
    assert_int_equal(rename(nx_plugin_copy("libnxmem_minimal.so"), path), 0);
    void *held = load_ourselves(path);
    nxmem_plugin plugin = open_unchecked(path);
    assert_works(plugin, "minimal");
    nxmem_unload_info info;
    assert_int_equal(nxmem_plugin_try_unload(plugin, &info, NULL), NXMEM_OK);
    assert_int_equal(info.unmapped, 0); /* we still have it */
    dlclose(held);
  }
  nx_host_gone(host);
}

/* ---- Paths that the loader would rewrite ---------------------------------------------------------------------------- */

typedef struct dollar_row {
  const char *name;
  nx_modes modes;
  const char *suffix;
} dollar_row;

static const dollar_row dollar_rows[] = {
    {"$LIB", 0, "$LIB-p.so"},     {"$ORIGIN", 0, "$ORIGIN-p.so"},    {"$PLATFORM", 0, "${PLATFORM}.so"},
    {"one at the end", 0, "p.$"}, {"one of no meaning", 0, "$5.so"},
};

/* Though the very file of that name is there, and is a good plugin. */
static void test_dollar(void **state) {
  const nx_case *c = *state;
  const dollar_row *row = c->row;
  begin(c->mode);
  const char *path = nx_fresh_path(row->suffix);
  assert_int_equal(rename(nx_plugin_copy("libnxmem_minimal.so"), path), 0);
  nx_assert_open_refused(host, path, (nx_refusal){NXMEM_ERR_INVALID_ARGUMENT, 0, 0, 0, 0, 0}, 0);
  nx_host_gone(host);
}

#define ONE(name, test) static const nx_row_head name##_rows[] = {{test, NX_BOTH_MODES}}
ONE(transit, "replaced while the earlier one is being unloaded");
ONE(elsewhere, "replaced while another host has it");
ONE(given_up, "replaced while the earlier one is leaked");
ONE(refused, "replaced while the earlier one is refused and leaked");
ONE(hard_link, "one file under two names");
ONE(hijack, "a SONAME that is another file's path");
ONE(own_hijack, "our own file with a SONAME that is another's path");
ONE(same, "our own files as they were, with odd names");
ONE(late, "a SONAME that comes after the file");

int main(void) {
  alarm(100);
  nx_suite suite = {0};
  static replace_row blind_rows[sizeof replace_rows / sizeof replace_rows[0]];
  memcpy(blind_rows, replace_rows, sizeof replace_rows);
  for (size_t i = 0; i < sizeof replace_rows / sizeof replace_rows[0]; i++)
    blind_rows[i].name = nx_name("by names alone: %s", replace_rows[i].name);
  nx_suite_modes(&suite, ROWS(replace_rows), test_replaced);
  nx_suite_modes(&suite, ROWS(blind_rows), test_replaced_blind);
  nx_suite_modes(&suite, ROWS(transit_rows), test_replaced_in_transit);
  nx_suite_modes(&suite, ROWS(elsewhere_rows), test_replaced_elsewhere);
  nx_suite_modes(&suite, ROWS(given_up_rows), test_replaced_given_up);
  nx_suite_modes(&suite, ROWS(refused_rows), test_replaced_refused);
  nx_suite_modes(&suite, ROWS(hard_link_rows), test_hard_link);
  nx_suite_modes(&suite, ROWS(hijack_rows), test_hijack);
  nx_suite_modes(&suite, ROWS(late_rows), test_hijack_late);
  nx_suite_modes(&suite, ROWS(own_rows), test_own);
  nx_suite_modes(&suite, ROWS(own_hijack_rows), test_own_hijacker);
  nx_suite_modes(&suite, ROWS(same_rows), test_own_and_same);
  nx_suite_modes(&suite, ROWS(dollar_rows), test_dollar);
  return nx_suite_run(&suite, "host_identity");
}
