/*
 * environment_test.c: where a policy is looked for, with and without privileges that were gained.
 *
 * Attackers played: whoever sets the environment of a privileged process.
 * Promise: it is asked through secure_getenv() alone, which has no answer there (AT_SECURE); then the system's policy is the one.
 */
#define _GNU_SOURCE
#include <unistd.h>

#include "policytest.h"

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

int main(void) {
  nx_suite suite = {0};
  nx_suite_add(&suite, "the environment of a privileged process", test_environment, NULL);
  return nx_suite_run(&suite, "policy_environment");
}
