/*
 * secure_host.c: a host as small as one can be, to be given more rights than whoever starts it has.
 *
 * Attackers: whoever sets its environment.
 * Promise: prints whether the kernel calls the process privileged, and what became of the policy that nobody named.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/auxv.h>

#include "nxmem_policy.h"

int main(void) {
  nxmem_policy *policy = NULL;
  nxmem_error error;
  const nxmem_result r = nxmem_policy_load(NULL, &policy, &error);
  printf("secure %lu\n%s\n", getauxval(AT_SECURE), r == NXMEM_OK ? "loaded" : error.message);
  nxmem_policy_free(policy);
  return 0;
}
