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

#if defined FUZZ_TARGET_lifecycle || defined FUZZ_TARGET_deferred
/*
 * These two keep a load from input to input. Tables grow, hosts are made and caches filled in the first inputs, and an
 * input's path would differ for being among them. What these bytes are does not matter, only that they are many, the
 * same in each process, and mostly zero, which is honest; the first byte, which says how a life is led, takes all its
 * values. Behind the fork, for a host lives in one process. What these inputs leave in the map of edges, the loop erases
 * before it begins. A fault that they meet ends every process at once, and AFL++ cannot run: the targets that keep
 * nothing are not warmed up.
 */
enum { WARM_INPUTS = 1024, WARM_BYTES = 400 };

static void warm_up(void) {
  uint8_t bytes[WARM_BYTES];
  uint64_t state = 1;
  for (uint32_t i = 0; i < WARM_INPUTS; i++) {
    for (size_t at = 0; at < sizeof bytes; at++) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      const uint8_t drawn = (uint8_t)(state >> 56);
      bytes[at] = at % 16u == 0 || (state >> 40 & 7u) == 0 ? drawn : 0u;
    }
    bytes[0] = (uint8_t)i;
    LLVMFuzzerTestOneInput(bytes, sizeof bytes);
  }
}
#else
static void warm_up(void) {}
#endif

int main(void) {
  fuzz_start();
  __AFL_INIT();
  warm_up();
  const uint8_t *input = __AFL_FUZZ_TESTCASE_BUF;
  while (__AFL_LOOP(INPUTS_PER_PROCESS)) LLVMFuzzerTestOneInput(input, (size_t)__AFL_FUZZ_TESTCASE_LEN);
  return 0;
}
