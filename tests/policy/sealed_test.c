/*
 * sealed_test.c: the host's own part: seals, one module for the same bytes, and numbers that never name other bytes.
 *
 * Attackers played: callers with files that can still change; code that closes descriptors that are not its own; modules that stay mapped.
 * Promise: what is answered is always what was asked for, or a refusal.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "policytest.h"

enum { ALL_SEALS = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

static nxmem_result open_sealed(nxmem_host host, int fd, const nxmem_sealed_options *options, nxmem_plugin *out,
                                nxmem_error *error) {
  return nxmem_plugin_open_sealed(host, fd, options, out, error);
}

static nxmem_plugin must_open(nxmem_host host, const pt_bytes *bytes) {
  const int fd = pt_memfd(bytes, ALL_SEALS);
  nxmem_plugin plugin = {0};
  nxmem_error error;
  if (open_sealed(host, fd, NULL, &plugin, &error) != NXMEM_OK) fail_msg("%s", error.message);
  close(fd);
  return plugin;
}

static void assert_refused(nxmem_host host, int fd, const nxmem_sealed_options *options, nxmem_result want,
                           const char *part) {
  const size_t fds = pt_open_fds(), mappings = pt_sealed_mappings();
  nxmem_plugin none = {0x5A5A};
  nxmem_error error;
  pt_assert_line(open_sealed(host, fd, options, &none, &error), want, &error, part);
  assert_int_equal(none.id, 0x5A5A);
  assert_int_equal(pt_open_fds(), fds);
  assert_int_equal(pt_sealed_mappings(), mappings);
}

/* ---- Seals ------------------------------------------------------------------------------------------------------- */

typedef struct seal_row {
  const char *name;
  int seals;
} seal_row;

static const seal_row seal_rows[] = {
    {"not sealed against writing", ALL_SEALS & ~F_SEAL_WRITE},
    {"not sealed against shrinking", ALL_SEALS & ~F_SEAL_SHRINK},
    {"not sealed against growing", ALL_SEALS & ~F_SEAL_GROW},
    {"not sealed against more seals", ALL_SEALS & ~F_SEAL_SEAL},
    {"sealed against future writing alone", (ALL_SEALS & ~F_SEAL_WRITE) | F_SEAL_FUTURE_WRITE},
};

static void test_seals(void **state) {
  const seal_row *row = *state;
  pt_bytes bytes = pt_minimal_as("unsealt");
  nxmem_host host = pt_host();
  const int fd = pt_memfd(&bytes, row->seals);
  assert_refused(host, fd, NULL, NXMEM_ERR_INVALID_ARGUMENT, "lacks a seal");
  close(fd);
  pt_host_gone(host);
  pt_bytes_free(&bytes);
}

static void test_other_files(void **state) {
  (void)state;
  nxmem_host host = pt_host();
  const int file = open(MINIMAL, O_RDONLY), null = open("/dev/null", O_RDONLY);
  pt_bytes text = {.bytes = (uint8_t[]){'t', 'e', 'x', 't'}, .count = 4};
  const int no_plugin = pt_memfd(&text, ALL_SEALS);
  assert_refused(host, file, NULL, NXMEM_ERR_INVALID_ARGUMENT, "cannot be sealed");
  assert_refused(host, null, NULL, NXMEM_ERR_INVALID_ARGUMENT, "cannot be sealed");
  assert_refused(host, -1, NULL, NXMEM_ERR_INVALID_ARGUMENT, "cannot be sealed");
  assert_refused(host, no_plugin, NULL, NXMEM_ERR_CANNOT_OPEN, "fewer bytes than an ELF header");
  close(file);
  close(null);
  close(no_plugin);
  pt_host_gone(host);
}

/* ---- Terms ------------------------------------------------------------------------------------------------------- */

typedef struct terms_row {
  const char *name;
  nxmem_sealed_options options;
  const char *part;
} terms_row;

static const terms_row terms_rows[] = {
    {"a ceiling without ALLOCATOR", {NULL, NXMEM_CAP_VIRTUAL_BACKING, 1, 1}, "lacks ALLOCATOR"},
    {"a limit of owned bytes above all", {NULL, NXMEM_CAP_ALLOCATOR, NXMEM_UNLIMITED + 1, 1}, "above NXMEM_UNLIMITED"},
    {"a limit of mapped bytes above all", {NULL, NXMEM_CAP_ALLOCATOR, 1, NXMEM_UNLIMITED + 1}, "above NXMEM_UNLIMITED"},
};

static void test_terms(void **state) {
  const terms_row *row = *state;
  pt_bytes bytes = pt_minimal_as("termsof");
  nxmem_host host = pt_host();
  const int fd = pt_memfd(&bytes, ALL_SEALS);
  assert_refused(host, fd, &row->options, NXMEM_ERR_INVALID_ARGUMENT, row->part);
  close(fd);
  pt_host_gone(host);
  pt_bytes_free(&bytes);
}

static void test_other_terms(void **state) {
  (void)state;
  static const nxmem_sealed_options first = {"first", NXMEM_CAP_ALLOCATOR, 4096, 4096};
  static const nxmem_sealed_options others[] = {{"other", NXMEM_CAP_ALLOCATOR | NXMEM_CAP_VIRTUAL_BACKING, 4096, 4096},
                                                {"other", NXMEM_CAP_ALLOCATOR, 8192, 4096},
                                                {"other", NXMEM_CAP_ALLOCATOR, 4096, NXMEM_UNLIMITED}};
  pt_bytes bytes = pt_minimal_as("twoterm");
  nxmem_host host = pt_host();
  const int fd = pt_memfd(&bytes, ALL_SEALS);
  nxmem_plugin plugin = {0}, again = {0};
  assert_int_equal(open_sealed(host, fd, &first, &plugin, NULL), NXMEM_OK);
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
    assert_refused(host, fd, &others[i], NXMEM_ERR_MISMATCH, "loaded already");
  assert_int_equal(open_sealed(host, fd, &first, &again, NULL), NXMEM_OK);
  pt_unload(again);
  pt_unload(plugin);
  assert_int_equal(open_sealed(host, fd, &others[0], &plugin, NULL), NXMEM_OK); /* nobody has it any more */
  pt_unload(plugin);
  close(fd);
  pt_host_gone(host);
  pt_bytes_free(&bytes);
}

/* ---- The same bytes, other bytes --------------------------------------------------------------------------------- */

static uint64_t references(nxmem_plugin plugin) {
  nxmem_plugin_info info;
  assert_int_equal(nxmem_plugin_get_info(plugin, &info, NULL), NXMEM_OK);
  return info.references;
}

static void test_same_bytes(void **state) {
  (void)state;
  pt_bytes one = pt_minimal_as("the-one"), two = pt_minimal_as("the-two");
  nxmem_host host = pt_host();
  const size_t fds = pt_open_fds();
  nxmem_plugin a = must_open(host, &one), b = must_open(host, &one), c = must_open(host, &two);
  assert_int_equal(pt_open_fds(), fds + 2); /* one for each content */
  assert_int_equal(references(a), 2);
  assert_int_equal(references(c), 1);
  pt_assert_is(b, "the-one");
  pt_assert_is(c, "the-two");
  pt_unload(a);
  pt_assert_is(b, "the-one");
  pt_unload(b);
  pt_unload(c);
  assert_int_equal(pt_open_fds(), fds);
  assert_int_equal(pt_sealed_mappings(), 0);
  pt_host_gone(host);
  pt_bytes_free(&one);
  pt_bytes_free(&two);
}

/* Loaded and unloaded in turn, a number goes from one content to the other and back. */
static void test_numbers_again(void **state) {
  (void)state;
  pt_bytes one = pt_minimal_as("turn--1"), two = pt_minimal_as("turn--2");
  nxmem_host host = pt_host();
  for (int i = 0; i < 20; i++) {
    nxmem_plugin plugin = must_open(host, i % 2 ? &one : &two);
    pt_assert_is(plugin, i % 2 ? "turn--1" : "turn--2");
    pt_unload(plugin);
  }
  pt_host_gone(host);
  pt_bytes_free(&one);
  pt_bytes_free(&two);
}

/* ---- What stays mapped ------------------------------------------------------------------------------------------- */

static void give_up_with_a_block(nxmem_host host, nxmem_plugin plugin, const char *name) {
  nxmem_allocator allocator = {0};
  nxmem_allocation block = {0};
  const nxmem_open_options options = {.mechanism = name};
  assert_int_equal(nxmem_allocator_open(plugin, &options, &allocator, NULL), NXMEM_OK);
  assert_int_equal(nxmem_allocate(allocator, 64, 16, NULL, &block, NULL), NXMEM_OK);
  nxmem_unload_info info;
  assert_int_equal(nxmem_plugin_destroy(plugin, &info, NULL), NXMEM_OK);
  assert_int_equal(info.unmapped, 0);
  nxmem_host_counts counts;
  assert_int_equal(nxmem_host_count(host, &counts, NULL), NXMEM_OK);
  assert_int_equal(counts.forced_leaks, 1);
  assert_int_equal(nxmem_release(allocator, block, NULL, NULL), NXMEM_OK);
  assert_int_equal(nxmem_allocator_close(allocator, 0, NULL), NXMEM_OK);
}

typedef struct kept_row {
  const char *name;
  const char *path;
} kept_row;

static const kept_row kept_rows[] = {{"kept by the loader, as it was linked so", RESIDENT},
                                     {"kept by the loader, for a unique symbol", UNIQUE}};

/* The loader keeps it, although it was unloaded: its number must not become that of other bytes, and it is the same module when it comes again. */
static void test_resident(void **state) {
  const kept_row *row = *state;
  pt_bytes one = pt_bytes_of(row->path), two = pt_minimal_as("another");
  nxmem_host host = pt_host();
  const size_t fds = pt_open_fds();
  nxmem_unload_info info;
  assert_int_equal(nxmem_plugin_try_unload(must_open(host, &one), &info, NULL), NXMEM_OK);
  assert_int_equal(info.unmapped, 0);
  assert_int_equal(pt_open_fds(), fds + 1);
  nxmem_plugin other = must_open(host, &two);
  pt_assert_is(other, "another");
  pt_unload(other);
  assert_int_equal(nxmem_plugin_try_unload(must_open(host, &one), &info, NULL), NXMEM_OK);
  assert_int_equal(pt_open_fds(), fds + 1);
  pt_host_gone(host);
  pt_bytes_free(&one);
  pt_bytes_free(&two);
}

/* Refused once its code had run, and it cannot go: a factory is owed a release that cannot be found. Its terms bind nobody who comes later. */
static void test_refused_and_kept(void **state) {
  (void)state;
  static const nxmem_sealed_options terms = {"terms", NXMEM_CAP_ALLOCATOR, 4096, 4096};
  pt_bytes one = pt_bytes_of(OWING), two = pt_minimal_as("another");
  const size_t fds = pt_open_fds();
  nxmem_host host = pt_host();
  for (int i = 0; i < 3; i++) { /* again and again: one descriptor, one mapping */
    const int fd = pt_memfd(&one, ALL_SEALS);
    nxmem_plugin none = {0x5A5A};
    nxmem_error error;
    pt_assert_line(open_sealed(host, fd, i == 1 ? &terms : NULL, &none, &error), NXMEM_ERR_CONTRACT, &error, "");
    assert_int_equal(none.id, 0x5A5A);
    close(fd);
    assert_int_equal(pt_open_fds(), fds + 1);
    assert_true(pt_sealed_mappings() != 0);
  }
  nxmem_host_counts counts;
  assert_int_equal(nxmem_host_count(host, &counts, NULL), NXMEM_OK);
  assert_true(counts.forced_leaks != 0);
  nxmem_plugin other = must_open(host, &two);
  pt_assert_is(other, "another");
  pt_unload(other);
  pt_host_gone(host);
  pt_bytes_free(&one);
  pt_bytes_free(&two);
}

/* Its number stays taken, so other bytes get another; and the same bytes take the leak over. */
static void test_leaked(void **state) {
  (void)state;
  pt_bytes one = pt_minimal_as("leaked1"), two = pt_minimal_as("leaked2");
  nxmem_host host = pt_host();
  const size_t fds = pt_open_fds();
  give_up_with_a_block(host, must_open(host, &one), "leaked1");
  assert_int_equal(pt_open_fds(), fds + 1);
  nxmem_plugin other = must_open(host, &two);
  pt_assert_is(other, "leaked2");
  pt_unload(other);
  nxmem_plugin again = must_open(host, &one);
  pt_assert_is(again, "leaked1");
  pt_unload(again);
  assert_int_equal(pt_open_fds(), fds);
  assert_int_equal(pt_sealed_mappings(), 0);
  pt_host_gone(host);
  pt_bytes_free(&one);
  pt_bytes_free(&two);
}

/* The host goes while it is mapped: its number stays taken, for every later host. */
static void test_buried(void **state) {
  (void)state;
  pt_bytes one = pt_minimal_as("buried1"), two = pt_minimal_as("buried2");
  const size_t fds = pt_open_fds();
  for (int i = 0; i < 3; i++) {
    nxmem_host host = pt_host();
    give_up_with_a_block(host, must_open(host, &one), "buried1");
    pt_host_gone(host);
    assert_int_equal(pt_open_fds(), fds + 1);
  }
  nxmem_host host = pt_host();
  nxmem_plugin other = must_open(host, &two), again = must_open(host, &one);
  pt_assert_is(other, "buried2");
  pt_assert_is(again, "buried1");
  pt_unload(other);
  assert_int_equal(nxmem_plugin_try_unload(again, NULL, NULL), NXMEM_OK);
  assert_int_equal(pt_open_fds(), fds + 1);
  pt_host_gone(host);
  pt_bytes_free(&one);
  pt_bytes_free(&two);
}

/* Two hosts share what is mapped, as of a file: it goes with the last. */
static void test_two_hosts(void **state) {
  (void)state;
  pt_bytes one = pt_minimal_as("sharing");
  const size_t fds = pt_open_fds();
  nxmem_host first = pt_host(), second = pt_host();
  nxmem_plugin a = must_open(first, &one), b = must_open(second, &one);
  assert_int_equal(pt_open_fds(), fds + 1);
  nxmem_unload_info info;
  assert_int_equal(nxmem_plugin_try_unload(a, &info, NULL), NXMEM_OK);
  assert_int_equal(info.unmapped, 0);
  pt_assert_is(b, "sharing");
  pt_unload(b);
  assert_int_equal(pt_open_fds(), fds);
  pt_host_gone(first);
  pt_host_gone(second);
  pt_bytes_free(&one);
}

/* ---- Somebody closes the host's descriptor ----------------------------------------------------------------------- */

static int number_of_the_mapped(void) {
  for (int fd = 3; fd < 1024; fd++) {
    const int seals = fcntl(fd, F_GET_SEALS);
    if (seals >= 0 && (seals & ALL_SEALS) == ALL_SEALS) return fd;
  }
  fail_msg("no sealed descriptor");
  return -1;
}

/* Other bytes come by the number under which the loader has the old ones: never the old ones, and the stolen number is not closed. */
static void test_stolen(void **state) {
  (void)state;
  pt_bytes one = pt_minimal_as("stolen1"), two = pt_minimal_as("stolen2");
  nxmem_host host = pt_host();
  nxmem_plugin old = must_open(host, &one);
  const int number = number_of_the_mapped(), other = pt_memfd(&two, ALL_SEALS);
  close(number);
  for (int i = 0; i < 2; i++) { /* the host's next descriptor gets the number; then the caller's own has it */
    if (i == 1) assert_int_equal(dup2(other, number), number);
    nxmem_plugin fresh = {0};
    nxmem_error error;
    const nxmem_result r = open_sealed(host, other, NULL, &fresh, &error);
    if (i == 0) pt_assert_line(r, NXMEM_ERR_CANNOT_OPEN, &error, "another file that is loaded as");
    if (i == 1 && r != NXMEM_OK) fail_msg("%s", error.message);
    if (r == NXMEM_OK) pt_assert_is(fresh, "stolen2");
    if (r == NXMEM_OK) pt_unload(fresh);
    pt_assert_is(old, "stolen1");
  }
  pt_unload(old);
  assert_true(fcntl(number, F_GET_SEALS) >= 0);
  close(number);
  close(other);
  pt_host_gone(host);
  pt_bytes_free(&one);
  pt_bytes_free(&two);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(seal_rows), test_seals);
  nx_suite_rows(&suite, ROWS(terms_rows), test_terms);
  nx_suite_add(&suite, "files that are not sealed, or no plugins", test_other_files, NULL);
  nx_suite_add(&suite, "the same bytes on other terms", test_other_terms, NULL);
  nx_suite_add(&suite, "the same bytes, and others", test_same_bytes, NULL);
  nx_suite_add(&suite, "numbers that come again", test_numbers_again, NULL);
  nx_suite_add(&suite, "given up", test_leaked, NULL);
  nx_suite_add(&suite, "two hosts", test_two_hosts, NULL);
  nx_suite_add(&suite, "a descriptor that somebody closed", test_stolen, NULL);
  nx_suite_add(&suite, "given up, and the host gone", test_buried, NULL);
  nx_suite_rows(&suite, ROWS(kept_rows), test_resident);
  nx_suite_add(&suite, "refused with a debt, and kept", test_refused_and_kept, NULL);
  return nx_suite_run(&suite, "policy_sealed");
}
