/*
 * libfuzzer_main.c: what libFuzzer's own main leaves to us: a live count of inputs.
 * Attackers: none.
 * Promise: without NXMEM_FUZZ_COUNTER nothing happens; with it, the file's first eight bytes are the inputs run so far.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  const char *path = getenv("NXMEM_FUZZ_COUNTER");
  if (path == NULL) return 0;
  const int file = open(path, O_RDWR);
  void *shared = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file >= 0) close(file);
  if (shared == MAP_FAILED) {
    fprintf(stderr, "NXMEM_FUZZ_COUNTER: %s cannot be mapped\n", path);
    exit(2);
  }
  fuzz_inputs_run = shared;
  return 0;
}
