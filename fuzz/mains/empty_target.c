/*
 * empty_target.c: a target that does nothing: what the engine itself costs.
 * Attackers: none.
 * Promise: nothing is looked at.
 */
#include "harness.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  (void)fuzz_begin(data, size);
  return 0;
}
