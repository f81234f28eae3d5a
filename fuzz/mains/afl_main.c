/*
 * afl_main.c: AFL++, persistent mode, inputs through shared memory: no fork and no file per input.
 * Attackers: none beyond the input.
 * Promise: a target keeps nothing from one input to the next, so that many share a process.
 */
#include <unistd.h>

#include "harness.h"

enum { INPUTS_PER_PROCESS = 100000 };

__AFL_FUZZ_INIT();

int main(void) {
  fuzz_start();
  __AFL_INIT();
  const uint8_t *input = __AFL_FUZZ_TESTCASE_BUF;
  while (__AFL_LOOP(INPUTS_PER_PROCESS)) LLVMFuzzerTestOneInput(input, (size_t)__AFL_FUZZ_TESTCASE_LEN);
  return 0;
}
