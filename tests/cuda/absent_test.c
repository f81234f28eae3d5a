/*
 * absent_test.c: machines whose libcuda.so.1 is missing, or older than cuGetProcAddress: LD_LIBRARY_PATH says which.
 *
 * Attackers played: a machine without a driver.
 * Promise: the module still offers device 0, and opening it says what is missing.
 */
#include <stdlib.h>

#include "driver.h"
#include "nxmem_cudavmm.h"
#include "nxmem_memory_abi.h"
#include "support.h"

static void opening_says_it(void **state) {
  (void)state;
  const char *says = getenv("NXMEM_TEST_SAYS");
  const nx_vmm_offer *offers;
  assert_non_null(says);
  assert_int_equal(nx_vmm_offers(&offers), 2);
  for (int i = 0; i < 2; i++) {
    nx_vmm_driver driver;
    int unsupported = -1;
    char why[200] = "";
    assert_int_equal(offers[i].open(&offers[i], &driver, &unsupported, why).outcome, NX_VMM_REFUSED);
    assert_int_equal(unsupported, 1);
    if (strstr(why, says) == NULL) fail_msg("\"%s\" does not say \"%s\"", why, says);
  }
}

static void there_are_no_streams(void **state) {
  (void)state;
  assert_int_equal(NxmemCudaAddStream(0, NULL), NXMEM_STATUS_WRONG_DEVICE);
  assert_int_equal(NxmemCudaCaptureEnter(0), NXMEM_STATUS_WRONG_DEVICE);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(opening_says_it), cmocka_unit_test(there_are_no_streams)};
  return cmocka_run_group_tests_name(getenv("NXMEM_TEST_SAYS"), tests, NULL, NULL);
}
