/*
 * race_test.c: files that are replaced and rewritten while they are loaded.
 *
 * Attackers played: threads that rename other plugins over the file, and write other bytes into it, all the time.
 * Promise: over 10,000 replacements nothing is ever loaded but the bytes that the policy names.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policytest.h"

enum { REPLACEMENTS = 10000, OPENERS = 2 };

static const char *path;
static pt_bytes good, bad;
static nxmem_policy *policy;
static nxmem_host host;
static atomic_uint replaced, loads, refusals, wrong, odd;
static atomic_int over;

static void put(int fd, const pt_bytes *bytes) {
  if (pwrite(fd, bytes->bytes, bytes->count, 0) != (ssize_t)bytes->count) abort();
}

static void rename_over(unsigned n, const pt_bytes *bytes) {
  char fresh[256];
  (void)snprintf(fresh, sizeof fresh, "%s.%u", path, n % 2);
  const int fd = open(fresh, O_CREAT | O_RDWR | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) abort();
  put(fd, bytes);
  close(fd);
  if (rename(fresh, path) != 0) abort();
}

static void rewrite(const pt_bytes *bytes) {
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) abort();
  put(fd, bytes);
  close(fd);
}

/* In place and by name in turn, the good ones as often as the bad ones. */
static void *replace(void *unused) {
  (void)unused;
  for (unsigned n = 0; n < REPLACEMENTS; n++) {
    const pt_bytes *bytes = n / 2 % 2 ? &bad : &good;
    if (n % 2)
      rewrite(bytes);
    else
      rename_over(n, bytes);
    atomic_fetch_add(&replaced, 1u);
  }
  atomic_store(&over, 1);
  return NULL;
}

static void look_at(nxmem_plugin plugin) {
  nxmem_mechanism_info info;
  nxmem_result asked = NXMEM_ERR_BUSY; /* while the other opener is unloading through its own handle */
  while (asked == NXMEM_ERR_BUSY) asked = nxmem_plugin_mechanism(plugin, 0, &info, NULL);
  if (asked != NXMEM_OK) atomic_fetch_add(&odd, 1u);
  if (asked == NXMEM_OK && strcmp(info.name, "goodone") != 0) atomic_fetch_add(&wrong, 1u);
  atomic_fetch_add(&loads, 1u);
  for (nxmem_result r = NXMEM_ERR_BUSY; r == NXMEM_ERR_BUSY;) r = nxmem_plugin_try_unload(plugin, NULL, NULL);
}

static void *open_again_and_again(void *unused) {
  (void)unused;
  while (!atomic_load(&over)) {
    nxmem_plugin plugin = {0};
    const nxmem_result r = nxmem_policy_open(policy, host, path, &plugin, NULL, NULL);
    if (r == NXMEM_OK)
      look_at(plugin);
    else if (r == NXMEM_ERR_NOT_ALLOWED)
      atomic_fetch_add(&refusals, 1u);
    else if (r != NXMEM_ERR_BUSY)
      atomic_fetch_add(&odd, 1u);
  }
  return NULL;
}

static void begin(void) {
  good = pt_minimal_as("goodone");
  bad = pt_minimal_as("BADBYTE");
  path = pt_path("raced.so");
  pt_write(path, good.bytes, good.count, 0644);
  policy = pt_policy_of(path, good.sha256, NULL);
  host = pt_host();
}

static void test_race(void **state) {
  (void)state;
  pthread_t replacer, openers[OPENERS];
  begin();
  assert_int_equal(pthread_create(&replacer, NULL, replace, NULL), 0);
  for (int i = 0; i < OPENERS; i++) assert_int_equal(pthread_create(&openers[i], NULL, open_again_and_again, NULL), 0);
  pthread_join(replacer, NULL);
  for (int i = 0; i < OPENERS; i++) pthread_join(openers[i], NULL);
  printf("# %u replacements, %u loads, %u refusals, %u loads of wrong bytes\n", atomic_load(&replaced),
         atomic_load(&loads), atomic_load(&refusals), atomic_load(&wrong));
  assert_int_equal(atomic_load(&replaced), REPLACEMENTS);
  assert_int_equal(atomic_load(&wrong), 0);
  assert_int_equal(atomic_load(&odd), 0);
  pt_write(path, good.bytes, good.count, 0644);
  nxmem_plugin plugin = pt_open(policy, host, path);
  pt_assert_is(plugin, "goodone");
  pt_unload(plugin);
  assert_int_equal(pt_sealed_mappings(), 0);
  pt_host_gone(host);
  nxmem_policy_free(policy);
  pt_bytes_free(&good);
  pt_bytes_free(&bad);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_add(&suite, "10,000 replacements while it is loaded", test_race, NULL);
  return nx_suite_run(&suite, "policy_race");
}
