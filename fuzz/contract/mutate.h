/*
 * mutate.h: inputs made from inputs: the same seed and index give the same input.
 * Attackers: none.
 * Promise: an input keeps its topic; every other byte may change.
 */
#ifndef NX_CONTRACT_MUTATE_H
#define NX_CONTRACT_MUTATE_H

#include <stddef.h>
#include <stdint.h>

/* One call. */
typedef struct contract_input {
  uint8_t *data;
  size_t bytes; /* at least 2 */
} contract_input;

/* Zero-initialised by whoever owns it; grows. */
typedef struct contract_pool {
  contract_input *inputs;
  size_t count;
} contract_pool;

/* Copies it; 0 without memory. */
int contract_pool_add(contract_pool *pool, const uint8_t *data, size_t bytes);

/* Fills `out`; returns how many bytes. The pool holds at least one input. */
size_t contract_mutate(const contract_pool *pool, uint64_t seed, uint64_t index, uint8_t *out, size_t room);

#endif /* NX_CONTRACT_MUTATE_H */
