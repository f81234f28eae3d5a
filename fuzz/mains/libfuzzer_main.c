/*
 * libfuzzer_main.c: what libFuzzer's own main leaves to us.
 * Attackers: none.
 * Promise: libFuzzer's options are its own; nothing here looks at them.
 */
#include "harness.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  fuzz_start();
  return 0;
}
