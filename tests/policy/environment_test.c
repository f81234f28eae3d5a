/*
 * environment_test.c: where a policy is looked for, with and without privileges that were gained; and what is read of it where its name leads elsewhere by then.
 *
 * Attackers played: whoever sets the environment of a privileged process; whoever puts another file in the place of one that was looked at.
 * Promise: the environment is asked through secure_getenv() alone, which has no answer there (AT_SECURE); then the system's policy is the one. The file that was
 * looked at is the one that is read.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

#include "policytest.h"

/* Put in the place of `replaced` right before the next file is opened to be read. */
static const char *replacement, *replaced;

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...) {
  if (replacement != NULL && (flags & O_PATH) == 0) {
    assert_int_equal(rename(replacement, replaced), 0);
    replacement = NULL;
  }
  return __real_open(path, flags, 0600);
}

char *__wrap_secure_getenv(const char *name);

static int privileged;
char *__wrap_secure_getenv(const char *name) { return privileged ? NULL : getenv(name); }

static nxmem_result load(const char *path, nxmem_error *error) {
  nxmem_policy *policy = NULL;
  const nxmem_result r = nxmem_policy_load(path, &policy, error);
  nxmem_policy_free(policy);
  return r;
}

static void test_environment(void **state) {
  (void)state;
  nxmem_error error;
  const char *path = pt_path("policy.json");
  pt_write(path, "[]", 2, 0644);
  assert_int_equal(setenv("NXMEM_POLICY", path, 1), 0);
  privileged = 0;
  pt_assert_line(load(NULL, &error), NXMEM_ERR_INVALID_ARGUMENT, &error, "needed an object");
  privileged = 1;
  pt_assert_line(load(NULL, &error), NXMEM_ERR_CANNOT_OPEN, &error, "/etc/nxmem");
  pt_assert_line(load(path, &error), NXMEM_ERR_INVALID_ARGUMENT, &error,
                 "needed an object"); /* the caller's own word */
  privileged = 0;
  assert_int_equal(setenv("NXMEM_POLICY", "", 1), 0);
  pt_assert_line(load(NULL, &error), NXMEM_ERR_CANNOT_OPEN, &error, "/etc/nxmem");
  assert_int_equal(setenv("NXMEM_POLICY", "policy.json", 1), 0);
  pt_assert_line(load(NULL, &error), NXMEM_ERR_INVALID_ARGUMENT, &error, "absolute");
}

/* Between the look at it and its opening: what is read is still what was looked at, and the next one reads the other. */
static void test_replaced(void **state) {
  (void)state;
  nxmem_error error;
  const char *path = pt_path("policy.json"), *other = pt_path("other.json");
  pt_write(path, "[]", 2, 0644);
  pt_write(other, "{}", 2, 0666); /* by its mode nobody would read it */
  replacement = other;
  replaced = path;
  pt_assert_line(load(path, &error), NXMEM_ERR_INVALID_ARGUMENT, &error, "needed an object");
  assert_null(replacement);
  pt_assert_line(load(path, &error), NXMEM_ERR_CANNOT_OPEN, &error, "can be written by its group or others");
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_add(&suite, "the environment of a privileged process", test_environment, NULL);
  nx_suite_add(&suite, "replaced between the look and the opening", test_replaced, NULL);
  return nx_suite_run(&suite, "policy_environment");
}
