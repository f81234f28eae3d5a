/*
 * afl_main.c: AFL++, persistent mode, inputs through shared memory: no fork and no file per input.
 * Attackers: none beyond the input.
 * Promise: a target keeps nothing from one input to the next that matters, so that many share a process; what is made once
 * is made before the first.
 */
#include <unistd.h>

#include "harness.h"

enum { INPUTS_PER_PROCESS = 10000 };

__AFL_FUZZ_INIT();

/*
 * Some targets make on their first input what they keep for all: an input's path would differ for being that one. Behind the
 * fork, for a host lives in one process. What this leaves in the map of edges, the loop erases before it begins. It is
 * the input of no bytes: where it fails each other does, as the campaign sees before it starts an engine.
 */
static void warm_up(void) {
  static const uint8_t nothing;
  LLVMFuzzerTestOneInput(&nothing, 0);
}

int main(void) {
  fuzz_start();
  __AFL_INIT();
  warm_up();
  const uint8_t *input = __AFL_FUZZ_TESTCASE_BUF;
  while (__AFL_LOOP(INPUTS_PER_PROCESS)) LLVMFuzzerTestOneInput(input, (size_t)__AFL_FUZZ_TESTCASE_LEN);
  return 0;
}
