/*
 * libfuzzer_mutator.c: the mutator as libFuzzer calls it, and engines that take libFuzzer's targets.
 * Attackers: none.
 * Promise: one change in four is the engine's own, with its dictionary and what comparisons told it, where it offers any.
 */
#include "mutator.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max) __attribute__((weak));
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned int seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size, uint8_t *out,
                                 size_t max, unsigned int seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned int seed) {
  if (seed % 4u == 0u && LLVMFuzzerMutate != NULL) return LLVMFuzzerMutate(data, size, max);
  return fuzz_mutate(&fuzz_target_shape, data, size, max, seed);
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size, uint8_t *out,
                                 size_t max, unsigned int seed) {
  return fuzz_cross(&fuzz_target_shape, a, a_size, b, b_size, out, max, seed);
}
