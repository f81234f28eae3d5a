/*
 * mutator.h: inputs made from inputs without losing their structure: the same for every engine.
 * Attackers: none; the engine's seed decides.
 * Promise: the same seed makes the same input; nothing is written behind `max`; records stay whole.
 */
#ifndef NXMEM_FUZZ_MUTATOR_H
#define NXMEM_FUZZ_MUTATOR_H

#include <stddef.h>
#include <stdint.h>

/* How a target's inputs are laid out. */
typedef struct fuzz_shape {
  const uint8_t *head;   /* widths of the fields at the front, in bytes, ended by 0 */
  const uint8_t *record; /* widths of the fields of each record behind them, ended by 0; NULL: what follows has none */
  const uint16_t *edges; /* behind the head: sizes that something may have, ended by 0xFFFF; NULL: none */
} fuzz_shape;

/* Each target has one. */
extern const fuzz_shape fuzz_target_shape;

size_t fuzz_head_bytes(const fuzz_shape *shape);
size_t fuzz_record_bytes(const fuzz_shape *shape); /* 0: no records */

/* Changes an input in place. Returns its new size, 1 to max; max is not 0. */
size_t fuzz_mutate(const fuzz_shape *shape, uint8_t *data, size_t size, size_t max, uint32_t seed);

/* A beginning of one and an end of another, joined between records. Returns the size, at most max. */
size_t fuzz_cross(const fuzz_shape *shape, const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size,
                  uint8_t *out, size_t max, uint32_t seed);

#endif /* NXMEM_FUZZ_MUTATOR_H */
