/*
 * mutate.c: small changes of whole numbers in known inputs. Bytes at random meet few of a contract's cases; a known
 * input with one number put beside its bound meets most.
 * Attackers: none.
 * Promise: nothing but seed, index and pool decides what comes out.
 */
#include "mutate.h"

#include <stdlib.h>
#include <string.h>

int contract_pool_add(contract_pool *pool, const uint8_t *data, size_t bytes) {
  contract_input *grown = realloc(pool->inputs, (pool->count + 1) * sizeof *grown);
  if (grown == NULL) return 0;
  pool->inputs = grown;
  contract_input *added = &grown[pool->count];
  added->data = malloc(bytes);
  added->bytes = bytes;
  if (added->data == NULL) return 0;
  memcpy(added->data, data, bytes);
  pool->count++;
  return 1;
}

/* SplitMix64. */
static uint64_t next(uint64_t *state) {
  uint64_t z = (*state += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

static size_t below(uint64_t *state, size_t limit) { return (size_t)(next(state) % limit); }

/* Bounds of the contracts: sizes, levels, flags, halves of words, the ends of ranges. */
static const uint64_t numbers[] = {0,
                                   1,
                                   2,
                                   3,
                                   7,
                                   8,
                                   12,
                                   14,
                                   15,
                                   16,
                                   31,
                                   32,
                                   39,
                                   40,
                                   47,
                                   48,
                                   55,
                                   56,
                                   63,
                                   64,
                                   71,
                                   72,
                                   119,
                                   120,
                                   127,
                                   128,
                                   254,
                                   255,
                                   256,
                                   4096,
                                   0xFFFFull,
                                   0xFFFFFFull,
                                   1ull << 24,
                                   0x7FFFFFFFull,
                                   1ull << 31,
                                   0xFFFFFFFEull,
                                   0xFFFFFFFFull,
                                   1ull << 32,
                                   (1ull << 32) + 1,
                                   (1ull << 63) - 1,
                                   1ull << 63,
                                   (1ull << 63) + 1,
                                   ~0ull - 1,
                                   ~0ull};
static const uint8_t bytes_of_text[] = {0,    1,    0x1B, 0x1F, 0x20, 0x41, 0x5C, 0x7E, 0x7F, 0x80, 0x8F,
                                        0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC,
                                        0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF};
enum { NUMBERS = sizeof numbers / sizeof numbers[0], TEXT_BYTES = sizeof bytes_of_text / sizeof bytes_of_text[0] };

/* A width of 4 or 8 that fits, and a place for it behind topic and row. 0 where none fits. */
static size_t place(uint64_t *state, size_t bytes, size_t *at) {
  const size_t width = below(state, 2) == 0 ? 4 : 8;
  if (bytes < 2 + width) return 0;
  const size_t places = bytes - 2 - width + 1;
  *at = 2 + below(state, places);
  if (below(state, 4) != 0) *at = 2 + (*at - 2) / 4 * 4; /* most numbers stand at multiples of four */
  return width;
}

static void put_number(uint64_t *state, uint8_t *out, size_t bytes) {
  size_t at = 0;
  const size_t width = place(state, bytes, &at);
  const uint64_t number = numbers[below(state, NUMBERS)];
  if (width != 0) memcpy(out + at, &number, width);
}

static void move_number(uint64_t *state, uint8_t *out, size_t bytes) {
  size_t from = 0;
  size_t to = 0;
  const size_t width = place(state, bytes, &from);
  if (width == 0 || place(state, bytes, &to) < width) return;
  memmove(out + to, out + from, width);
}

static void step_number(uint64_t *state, uint8_t *out, size_t bytes) {
  size_t at = 0;
  uint64_t number = 0;
  const size_t width = place(state, bytes, &at);
  if (width == 0) return;
  memcpy(&number, out + at, width);
  number += below(state, 2) == 0 ? 1u : ~0ull;
  memcpy(out + at, &number, width);
}

static void put_byte(uint64_t *state, uint8_t *out, size_t bytes) {
  if (bytes > 2) out[2 + below(state, bytes - 2)] = bytes_of_text[below(state, TEXT_BYTES)];
}

static void flip_bit(uint64_t *state, uint8_t *out, size_t bytes) {
  if (bytes > 2) out[2 + below(state, bytes - 2)] ^= (uint8_t)(1u << below(state, 8));
}

static void random_byte(uint64_t *state, uint8_t *out, size_t bytes) {
  if (bytes > 2) out[2 + below(state, bytes - 2)] = (uint8_t)next(state);
}

/* What lies behind some place in another input takes its place here. */
static void splice(uint64_t *state, const contract_pool *pool, uint8_t *out, size_t bytes) {
  const contract_input *other = &pool->inputs[below(state, pool->count)];
  const size_t shared = other->bytes < bytes ? other->bytes : bytes;
  if (shared <= 2) return;
  const size_t at = 2 + below(state, shared - 2);
  memcpy(out + at, other->data + at, shared - at);
}

static void change(uint64_t *state, const contract_pool *pool, uint8_t *out, size_t bytes) {
  switch (below(state, 9)) {
    case 0:
    case 1:
      put_number(state, out, bytes);
      return;
    case 2:
      move_number(state, out, bytes);
      return;
    case 3:
      step_number(state, out, bytes);
      return;
    case 4:
      put_byte(state, out, bytes);
      return;
    case 5:
      random_byte(state, out, bytes);
      return;
    case 6:
      splice(state, pool, out, bytes);
      return;
    default:
      flip_bit(state, out, bytes);
  }
}

size_t contract_mutate(const contract_pool *pool, uint64_t seed, uint64_t index, uint8_t *out, size_t room) {
  uint64_t state = seed * 0xD1342543DE82EF95ull + index;
  const contract_input *from = &pool->inputs[below(&state, pool->count)];
  size_t bytes = from->bytes < room ? from->bytes : room;
  memcpy(out, from->data, bytes);
  if (below(&state, 8) == 0) bytes = 2 + below(&state, bytes - 1);
  if (below(&state, 16) == 0) out[1] = (uint8_t)next(&state);
  const size_t changes = 1 + below(&state, 4);
  for (size_t i = 0; i < changes; i++) change(&state, pool, out, bytes);
  return bytes;
}
