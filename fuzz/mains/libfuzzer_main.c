/*
 * libfuzzer_main.c: what libFuzzer's own main leaves to us, and how AddressSanitizer keeps what is freed.
 * Attackers: none.
 * Promise: libFuzzer's options are its own; nothing here looks at them, and ASAN_OPTIONS has the last word.
 */
#include "harness.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
const char *__asan_default_options(void);

/*
 * What is freed in an input is seen used in that input and many behind it: an input frees some ten kilobytes. More would
 * only be pages that are touched anew each time. Two frames say who allocated; a replay tells the whole stack.
 */
const char *__asan_default_options(void) {
  return "quarantine_size_mb=1:thread_local_quarantine_size_kb=64:malloc_context_size=2:"
         "allocator_release_to_os_interval_ms=-1";
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  fuzz_start();
  return 0;
}
